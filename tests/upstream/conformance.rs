//! Observed behavior of a running 1.37.2 control plane, case by case: situations that are easy to get wrong. The
//! numbers are those of the project's research into the DaemonSet controller.

use jiff::Timestamp;
use kubectl_ds::model::daemon_set::DaemonSet;
use kubectl_ds::model::node::Node;
use kubectl_ds::model::pod::Pod;
use kubectl_ds::scheduling::daemon_pods::{
    Claim, NodeContext, claim, is_available, is_deleted_terminal, is_updated, is_without_node, pods_should_be_on_node,
};
use kubectl_ds::scheduling::rolling_update::unavailable_count;
use kubectl_ds::scheduling::should_run::{DaemonPod, Decision};
use kubectl_ds::scheduling::taints::tolerates_with_comparison_operators;
use serde::Deserialize;
use serde_json::{Value, json};

const RUNS: (bool, bool) = (true, true);
const STAYS: (bool, bool) = (false, true);
const NEITHER: (bool, bool) = (false, false);

fn node(node: Value) -> Node {
    let mut node = Node::deserialize(node).unwrap();
    if node.metadata.name.is_empty() {
        node.metadata.name = "n1".to_owned();
    }
    node
}

fn tainted(key: &str, effect: &str) -> Value {
    json!({"spec": {"taints": [{"key": key, "effect": effect}]}})
}

fn labeled(labels: Value) -> Value {
    json!({"metadata": {"labels": labels}})
}

fn required(terms: Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
}

fn decide(template: &Value, on: Value) -> (bool, bool) {
    let object = json!({"spec": {"template": {"spec": template}}});
    let pod = DaemonPod::new(&DaemonSet::from_object(object).unwrap().spec.template);
    let node = node(on);
    let Decision { should_run, should_continue_running } = pod.decide(&node);
    assert_eq!(pod.explain(&node).decision, pod.decide(&node));
    (should_run, should_continue_running)
}

#[test]
fn nodes_are_eligible_as_they_were_seen_to_be() {
    let plain = json!({});
    let not_ready = "node.kubernetes.io/not-ready";
    let pressure = ["memory", "disk", "pid"].map(|kind| format!("node.kubernetes.io/{kind}-pressure"));
    let with = |toleration: Value| json!({"tolerations": [toleration]});
    let dedicated = tainted("dedicated", "NoSchedule");
    let valued = |value: &str| json!({"spec": {"taints": [{"key": "sla", "value": value, "effect": "NoSchedule"}]}});
    let matching = expression("a", "Exists", &[]);
    let invalid = expression("a", "Gt", &["many"]);
    let named = |operator: &str, values: &[&str]| {
        required(json!([{"matchFields": [{"key": "metadata.name", "operator": operator, "values": values}]}]))
    };
    let cases: Vec<(&str, Value, Value, (bool, bool))> = vec![
        ("1 cordoned", plain.clone(), tainted("node.kubernetes.io/unschedulable", "NoSchedule"), RUNS),
        ("2 unschedulable without its taint", plain.clone(), json!({"spec": {"unschedulable": true}}), RUNS),
        (
            "3 Ready=False without a taint",
            plain.clone(),
            json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
            RUNS,
        ),
        ("4 not-ready:NoExecute", plain.clone(), tainted(not_ready, "NoExecute"), RUNS),
        ("5 not-ready:NoSchedule", plain.clone(), tainted(not_ready, "NoSchedule"), STAYS),
        ("6 a bare Exists", with(json!({"operator": "Exists"})), tainted(not_ready, "NoSchedule"), RUNS),
        (
            "7 unreachable with both effects",
            plain.clone(),
            json!({"spec": {"taints": [
                {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
            ]}}),
            STAYS,
        ),
        ("8 memory pressure", plain.clone(), tainted(&pressure[0], "NoSchedule"), RUNS),
        ("8 disk pressure", plain.clone(), tainted(&pressure[1], "NoSchedule"), RUNS),
        ("8 pid pressure", plain.clone(), tainted(&pressure[2], "NoSchedule"), RUNS),
        ("9 pid-pressure:NoExecute", plain.clone(), tainted(&pressure[2], "NoExecute"), NEITHER),
        (
            "10 network-unavailable with hostNetwork",
            json!({"hostNetwork": true}),
            tainted("node.kubernetes.io/network-unavailable", "NoSchedule"),
            RUNS,
        ),
        (
            "10 network-unavailable without",
            plain.clone(),
            tainted("node.kubernetes.io/network-unavailable", "NoSchedule"),
            STAYS,
        ),
        ("11 PreferNoSchedule", plain.clone(), tainted("dedicated", "PreferNoSchedule"), RUNS),
        ("12 NoSchedule under a pod", plain.clone(), dedicated.clone(), STAYS),
        ("13 NoExecute under a pod", plain.clone(), tainted("dedicated", "NoExecute"), NEITHER),
        (
            "14 tolerationSeconds are ignored",
            with(json!({"key": "dedicated", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60})),
            tainted("dedicated", "NoExecute"),
            RUNS,
        ),
        ("15 an empty effect", with(json!({"key": "dedicated", "operator": "Exists"})), dedicated.clone(), RUNS),
        ("16 an empty key and value", with(json!({"operator": "Equal"})), dedicated.clone(), RUNS),
        ("16 an empty key, a taint with a value", with(json!({"operator": "Equal"})), valued("5"), STAYS),
        ("17 another value", with(json!({"key": "sla", "value": "4"})), valued("5"), STAYS),
        ("18 Gt with the gate off", with(json!({"key": "sla", "operator": "Gt", "value": "4"})), valued("5"), STAYS),
        ("22 nodeName of another", json!({"nodeName": "n2"}), plain.clone(), NEITHER),
        ("22 nodeName of this one", json!({"nodeName": "n1"}), plain.clone(), RUNS),
        ("23 nodeName and a selector", json!({"nodeName": "n1", "nodeSelector": {"a": "b"}}), plain.clone(), NEITHER),
        (
            "24 a selector and an affinity",
            json!({"nodeSelector": {"a": "b"}, "affinity": required(json!([expression("c", "Exists", &[])]))["affinity"]}),
            labeled(json!({"a": "b"})),
            NEITHER,
        ),
        ("25 no required affinity", json!({"affinity": {"nodeAffinity": {}}}), plain.clone(), RUNS),
        ("25 no terms", required(json!([])), plain.clone(), NEITHER),
        ("25 an empty term", required(json!([{}])), plain.clone(), NEITHER),
        (
            "26 an invalid term and one that matches",
            required(json!([invalid, matching])),
            labeled(json!({"a": "1"})),
            RUNS,
        ),
        ("26 an invalid term alone", required(json!([invalid])), labeled(json!({"a": "1"})), NEITHER),
        (
            "27 and within a term",
            required(json!([{"matchExpressions": [
                {"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"},
            ]}])),
            labeled(json!({"a": "1"})),
            NEITHER,
        ),
        (
            "27 or between terms",
            required(json!([expression("b", "Exists", &[]), matching])),
            labeled(json!({"a": "1"})),
            RUNS,
        ),
        ("28 NotIn of an absent label", required(json!([expression("a", "NotIn", &["b"])])), plain.clone(), RUNS),
        (
            "28 DoesNotExist of an absent label",
            required(json!([expression("a", "DoesNotExist", &[])])),
            plain.clone(),
            RUNS,
        ),
        ("29 Gt of an absent label", required(json!([expression("a", "Gt", &["3"])])), plain.clone(), NEITHER),
        ("29 Gt of no integer", required(json!([expression("a", "Gt", &["3"])])), labeled(json!({"a": "x"})), NEITHER),
        ("29 3 > 3", required(json!([expression("a", "Gt", &["3"])])), labeled(json!({"a": "3"})), NEITHER),
        ("29 010 > 9", required(json!([expression("a", "Gt", &["9"])])), labeled(json!({"a": "010"})), RUNS),
        ("30 In of an empty value", required(json!([expression("a", "In", &[""])])), labeled(json!({"a": ""})), RUNS),
        ("30 In of an absent label", required(json!([expression("a", "In", &[""])])), plain.clone(), NEITHER),
        ("31 matchFields NotIn", named("NotIn", &["n1"]), plain.clone(), NEITHER),
        ("31 matchFields NotIn another", named("NotIn", &["n2"]), plain.clone(), RUNS),
        ("31 matchFields with two values", named("In", &["n1", "n2"]), plain.clone(), NEITHER),
        (
            "32 preferences are ignored",
            json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": matching},
            ]}}}),
            plain.clone(),
            RUNS,
        ),
        ("64 out-of-service", plain, tainted("node.kubernetes.io/out-of-service", "NoExecute"), NEITHER),
    ];
    for (case, template, node, want) in cases {
        assert_eq!(decide(&template, node), want, "{case}");
    }
}

#[test]
fn comparison_operators_would_decide_with_their_gate_on() {
    // 19
    for (taint, want) in [("5", false), ("010", false), ("6", true)] {
        let toleration = Deserialize::deserialize(json!({"key": "sla", "operator": "Gt", "value": "5"})).unwrap();
        let taint = json!({"key": "sla", "value": taint, "effect": "NoSchedule"});
        let outcome = tolerates_with_comparison_operators(&toleration, &Deserialize::deserialize(&taint).unwrap());
        assert_eq!(outcome, want, "{taint}");
        let object = json!({"spec": {"template": {"spec": {"tolerations": [toleration]}}}});
        let pod = DaemonPod::new(&DaemonSet::from_object(object).unwrap().spec.template);
        let eligibility = pod.explain(&node(json!({"spec": {"taints": [taint]}})));
        assert_eq!((eligibility.decision.should_run, eligibility.taints[0].depends_on_gate), (false, want), "{taint}");
    }
}

fn daemon_set(strategy: Value) -> DaemonSet {
    DaemonSet::from_object(json!({
        "metadata": {"name": "agent", "namespace": "default", "uid": "u1",
            "annotations": {"deprecated.daemonset.template.generation": "1"}},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "updateStrategy": strategy},
    }))
    .unwrap()
}

fn surge() -> DaemonSet {
    daemon_set(json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}))
}

const NOW: &str = "2026-01-02T12:00:00Z";

/// Makes a pod on a node, whose creation second and condition tell it from others.
fn pod(name: &str, hash: &str, phase: &str, ready: bool) -> Pod {
    let second = name.bytes().last().unwrap() % 60;
    Pod::deserialize(json!({
        "metadata": {"name": name, "namespace": "default",
            "labels": {"app": "agent", "controller-revision-hash": hash},
            "creationTimestamp": format!("2026-01-02T11:00:{second:02}Z"),
            "ownerReferences": [{"kind": "DaemonSet", "name": "agent", "uid": "u1", "controller": true}]},
        "spec": {"nodeName": "n1"},
        "status": {"phase": phase, "conditions": [
            {"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": "2026-01-02T11:59:00Z"},
        ]},
    }))
    .unwrap()
}

fn terminating(mut pod: Pod) -> Pod {
    pod.metadata.deletion_timestamp = NOW.parse::<Timestamp>().unwrap().into();
    pod
}

#[test]
fn pods_on_a_node_are_kept_and_deleted_as_they_were_seen_to_be() {
    let (runs, stays, neither) = ((true, true), (false, true), (false, false));
    let plain = || daemon_set(json!({}));
    let on_delete = || daemon_set(json!({"type": "OnDelete"}));
    let running = |name: &str| pod(name, "new", "Running", true);
    let failed = |name: &str| pod(name, "new", "Failed", false);
    type Case = (&'static str, DaemonSet, (bool, bool), bool, Vec<Pod>, bool, Vec<&'static str>);
    let cases: Vec<Case> = vec![
        ("no pod", plain(), runs, false, vec![], true, vec![]),
        ("no pod where none should be", plain(), stays, false, vec![], false, vec![]),
        (
            "34 one failed and three others",
            plain(),
            runs,
            false,
            vec![failed("p0"), running("p1"), running("p2"), running("p3")],
            false,
            vec!["p0", "p2", "p3"],
        ),
        ("35 failed only", plain(), runs, false, vec![failed("p0")], false, vec!["p0"]),
        ("36 failed in backoff", plain(), runs, true, vec![failed("p0")], false, vec![]),
        ("37 terminating only", plain(), runs, false, vec![terminating(running("p0"))], false, vec![]),
        ("37 terminating only, with surge", surge(), runs, false, vec![terminating(running("p0"))], true, vec![]),
        ("39 succeeded", plain(), runs, false, vec![pod("p0", "new", "Succeeded", false)], false, vec!["p0"]),
        (
            "50 five pods",
            plain(),
            runs,
            false,
            ["p4", "p3", "p2", "p1", "p0"].map(running).to_vec(),
            false,
            vec!["p1", "p2", "p3", "p4"],
        ),
        (
            "57 surge, old ready and new not",
            surge(),
            runs,
            false,
            vec![pod("p0", "old", "Running", true), pod("p1", "new", "Running", false)],
            false,
            vec![],
        ),
        (
            "surge, old not ready",
            surge(),
            runs,
            false,
            vec![pod("p0", "old", "Running", false), pod("p1", "new", "Running", false)],
            false,
            vec!["p0"],
        ),
        (
            "surge, new available",
            surge(),
            runs,
            false,
            vec![pod("p0", "old", "Running", true), pod("p1", "new", "Running", true)],
            false,
            vec!["p0"],
        ),
        ("58 surge, failed in backoff", surge(), runs, true, vec![failed("p0")], true, vec![]),
        (
            "69 surging, then OnDelete",
            on_delete(),
            runs,
            false,
            vec![pod("p0", "old", "Running", true), pod("p1", "new", "Running", false)],
            false,
            vec!["p1"],
        ),
        ("71 two failed", plain(), runs, false, vec![failed("p0"), failed("p1")], false, vec!["p0"]),
        ("12 may stay", plain(), stays, false, vec![running("p0")], false, vec![]),
        (
            "13 may not stay",
            plain(),
            neither,
            false,
            vec![running("p0"), terminating(running("p1")), failed("p2")],
            false,
            vec!["p0", "p2"],
        ),
    ];
    for (case, daemon_set, (should_run, should_continue_running), in_backoff, pods, create, delete) in cases {
        let context = NodeContext {
            daemon_set: &daemon_set,
            decision: Decision { should_run, should_continue_running },
            current_hash: "new",
            in_backoff,
            now: NOW.parse().unwrap(),
        };
        let pods: Vec<&Pod> = pods.iter().collect();
        let result = pods_should_be_on_node(&context, &pods);
        assert_eq!(result.create, create, "{case}");
        let deleted: Vec<&str> = result.delete.iter().map(|&index| pods[index].metadata.name.as_str()).collect();
        assert_eq!(deleted, delete, "{case}");
    }
}

#[test]
fn pods_belong_as_they_were_seen_to() {
    let own = pod("p0", "new", "Running", true);
    let with = |change: &dyn Fn(&mut Pod)| {
        let mut pod = own.clone();
        change(&mut pod);
        pod
    };
    let orphan = |pod: &mut Pod| pod.metadata.owner_references.clear();
    let other_labels = |pod: &mut Pod| drop(pod.metadata.labels.insert("app".to_owned(), "else".to_owned()));
    for (case, pod, want) in [
        ("own", own.clone(), Claim::Owned),
        ("40 own, labels changed", with(&other_labels), Claim::Released),
        ("41 a matching orphan", with(&orphan), Claim::Adopted),
        ("41 a matching orphan that is going", terminating(with(&orphan)), Claim::Foreign),
        ("42 another owner", with(&|pod| pod.metadata.owner_references[0].uid = "u2".to_owned()), Claim::Foreign),
        ("47 the namesake's pod", with(&|pod| pod.metadata.owner_references[0].uid = "u0".to_owned()), Claim::Foreign),
        ("another namespace", with(&|pod| pod.metadata.namespace = "other".to_owned()), Claim::Foreign),
    ] {
        assert_eq!(claim(&daemon_set(json!({})), &pod), want, "{case}");
    }
    // 38
    assert!(is_deleted_terminal(&terminating(with(&|pod| pod.status.phase = "Failed".to_owned()))));
    assert!(!is_deleted_terminal(&terminating(own.clone())));
    // 43
    let gone = |_: &str| false;
    assert!(!is_without_node(&own, gone), "a bound pod waits for pod garbage collection");
    let field = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n9"]}]}]);
    let unbound = Pod::deserialize(json!({"spec": required(field)})).unwrap();
    assert!(is_without_node(&unbound, gone));
    assert!(!is_without_node(&unbound, |name: &str| name == "n9"));
}

#[test]
fn pods_are_available_and_updated_as_they_were_seen_to_be() {
    let own = pod("p0", "old", "Running", true);
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    // 60: ready since 11:59:00
    assert!(is_available(&own, 60, at("2026-01-02T12:00:00Z")));
    assert!(!is_available(&own, 60, at("2026-01-02T11:59:59.999Z")));
    assert!(is_available(&own, 0, at("2026-01-02T11:00:00Z")));
    // 65
    let mut same_generation = own.clone();
    same_generation.metadata.labels.insert("pod-template-generation".to_owned(), "1".to_owned());
    assert!(is_updated(&daemon_set(json!({})), Some("new"), &same_generation));
    assert!(!is_updated(&daemon_set(json!({})), Some("new"), &own));
    assert!(!is_updated(&daemon_set(json!({})), None, &own));
    // 51
    let percent = |percent: &str| daemon_set(json!({"rollingUpdate": {"maxUnavailable": percent}}));
    assert_eq!(unavailable_count(&percent("50%"), 3), 2);
    assert_eq!(unavailable_count(&percent("1%"), 5), 1);
}
