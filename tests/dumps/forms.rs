use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use kubectl_ds::cluster::{CoverageScope, Query, Wanted};
use kubectl_ds::model::snapshot::{Gap, GapCause, Kind, PodsComplete, Snapshot};
use serde_json::json;

use super::{ask, complaint, daemon_set, list, node, on_node, open, pod, read, untyped};
use crate::support::shown;

fn names(snapshot: &Snapshot) -> Vec<String> {
    let daemon_sets = snapshot.daemon_sets.iter().map(|daemon_set| format!("ds {}", daemon_set.metadata.name));
    let nodes = snapshot.nodes.iter().map(|node| format!("node {}", node.metadata.name));
    let pods = snapshot.pods.iter().map(|pod| format!("pod {}", pod.metadata.name));
    daemon_sets.chain(nodes).chain(pods).collect()
}

fn yaml(value: &serde_json::Value) -> String {
    serde_saphyr::to_string(value).unwrap()
}

#[test]
fn every_form_of_the_same_objects_gives_the_same_snapshot() {
    let objects = [daemon_set("x", "agent"), node("a"), node("b"), pod("x", "agent-1", "DaemonSet")];
    let expected = read(list(&objects).to_string()).unwrap().snapshot;
    assert_eq!(names(&expected), ["ds agent", "node a", "node b", "pod agent-1"]);

    let typed = [
        json!({"kind": "DaemonSetList", "apiVersion": "apps/v1", "items": [untyped(objects[0].clone())]}),
        // kubectl sorts keys: here the list's kind comes after its items.
        json!({"apiVersion": "v1", "items": [untyped(objects[1].clone()), untyped(objects[2].clone())], "kind": "NodeList"}),
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [untyped(objects[3].clone())]}),
        json!({"kind": "ServiceList", "apiVersion": "v1", "items": [{"metadata": {"name": "other"}}]}),
    ];
    let documents = |values: &[serde_json::Value]| values.iter().map(|value| format!("{value}\n")).collect::<String>();
    let yaml_documents =
        |values: &[serde_json::Value]| values.iter().map(|value| format!("---\n{}", yaml(value))).collect::<String>();
    let kind_last = r#"{"metadata":{"name":"a"},"spec":{},"kind":"Node","apiVersion":"v1"}"#;
    assert_eq!(names(&read(kind_last).unwrap().snapshot), ["node a"]);

    let pretty = serde_json::to_string_pretty(&list(&objects)).unwrap();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(pretty.as_bytes()).unwrap();
    let forms: [(&str, Vec<u8>); 8] = [
        ("an indented list", pretty.clone().into_bytes()),
        ("a marked list", format!("\u{feff}{pretty}").into_bytes()),
        ("gzip", gzip.finish().unwrap()),
        ("JSON objects", documents(&objects).into_bytes()),
        ("typed JSON lists", documents(&typed).into_bytes()),
        ("a YAML list", yaml(&list(&objects)).into_bytes()),
        ("YAML objects", yaml_documents(&objects).into_bytes()),
        ("typed YAML lists", yaml_documents(&typed).into_bytes()),
    ];
    for (form, text) in forms {
        assert_eq!(read(text).unwrap().snapshot, expected, "{form}");
    }
}

#[test]
fn now_is_the_newest_time_unless_it_is_given() {
    let mut pod = pod("x", "agent-1", "DaemonSet");
    pod["metadata"]["deletionTimestamp"] = json!("2026-11-20T10:00:30Z");
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    let text = list(&[daemon_set("x", "agent"), node("a")]).to_string();
    assert_eq!(read(&text).unwrap().snapshot.now.to_string(), "2026-11-20T09:00:00Z");
    assert_eq!(read(list(&[node("a"), pod]).to_string()).unwrap().snapshot.now.to_string(), "2026-11-20T10:00:00Z");
    let given = "2026-12-01T00:00:00Z".parse().unwrap();
    assert_eq!(open("-", &mut text.as_bytes(), Some(given)).unwrap().snapshot.now, given);
}

#[test]
fn kinds_that_are_not_there_are_gaps() {
    let snapshot =
        read(list(&[daemon_set("x", "agent"), pod("x", "agent-1", "DaemonSet")]).to_string()).unwrap().snapshot;
    let missing: Vec<_> = snapshot.gaps.iter().map(|gap| gap.kind).collect();
    let rest = [Kind::LimitRanges, Kind::RuntimeClasses, Kind::PriorityClasses, Kind::Leases];
    assert_eq!(missing, [&[Kind::ControllerRevisions, Kind::Nodes, Kind::Events], &rest[..]].concat());
    assert!(snapshot.gaps.iter().all(|gap| gap.namespace.is_none() && gap.cause == GapCause::NotInDump));

    let empty_list = json!({"kind": "EventList", "apiVersion": "v1", "items": null});
    let text = format!("{}{empty_list}", list(&[daemon_set("x", "agent")]));
    assert_eq!(read(text).unwrap().snapshot.gap(Kind::Events, "x"), None);
}

#[test]
fn all_pods_are_known_only_where_the_list_was_made_of_all_namespaces() {
    let complete = |items: &[serde_json::Value]| read(list(items).to_string()).unwrap().snapshot.pods_complete;
    let none = PodsComplete::On([].into());
    let (own, other) = (pod("x", "p", "DaemonSet"), pod("x", "q", "ReplicaSet"));
    assert_eq!(complete(&[own.clone(), other.clone()]), none, "one namespace");
    assert_eq!(complete(&[own.clone(), pod("y", "q", "DaemonSet")]), none, "a selector's pods");
    assert_eq!(complete(&[daemon_set("x", "a"), daemon_set("y", "b")]), none, "no pods at all");
    assert_eq!(complete(&[daemon_set("y", "a"), own.clone(), other.clone()]), PodsComplete::Everywhere);
    let apart = format!("{}{}", own, pod("y", "q", "ReplicaSet"));
    assert_eq!(read(apart).unwrap().snapshot.pods_complete, none, "single objects");
}

#[test]
fn pods_of_a_namespace_that_was_not_dumped_are_a_gap() {
    let text = format!(
        "{}{}",
        list(&[daemon_set("x", "agent"), daemon_set("y", "agent")]),
        list(&[pod("x", "agent-1", "DaemonSet")])
    );
    let snapshot = read(text).unwrap().snapshot;
    assert_eq!(snapshot.gap(Kind::Pods, "x"), None);
    let gap = Gap { kind: Kind::Pods, namespace: Some("y".to_owned()), cause: GapCause::NotInDump };
    assert_eq!(snapshot.gap(Kind::Pods, "y"), Some(&gap));
}

#[test]
fn a_namespace_without_pods_in_a_list_of_all_namespaces_has_none_if_the_status_agrees() {
    let mut refused = daemon_set("y", "refused");
    refused["status"] = json!({"desiredNumberScheduled": 3, "currentNumberScheduled": 0});
    let gap =
        |items: &[serde_json::Value]| read(list(items).to_string()).unwrap().snapshot.gap(Kind::Pods, "y").cloned();
    let agent = [daemon_set("x", "agent"), pod("x", "agent-1", "DaemonSet")];
    assert_eq!(gap(&[&agent[..], &[refused.clone()]].concat()), None);
    assert!(gap(&[&agent[1..], &[daemon_set("x", "a")]].concat()).is_none(), "nothing is said about y");
    let mut running = refused.clone();
    running["status"]["currentNumberScheduled"] = json!(3);
    assert!(gap(&[&agent[..], &[running]].concat()).is_some(), "the status counts pods that the dump lacks");
    assert!(gap(&[refused]).is_some(), "no pods were listed");
}

#[test]
fn of_two_versions_the_newer_counts() {
    let mut newer = daemon_set("x", "agent");
    newer["metadata"]["resourceVersion"] = json!("1001");
    newer["status"]["desiredNumberScheduled"] = json!(7);
    for objects in [[daemon_set("x", "agent"), newer.clone()], [newer, daemon_set("x", "agent")]] {
        let snapshot = read(list(&objects).to_string()).unwrap().snapshot;
        let desired: Vec<_> = snapshot.daemon_sets.iter().map(|ds| ds.status.desired_number_scheduled).collect();
        assert_eq!(desired, [7]);
    }
}

#[test]
fn a_query_picks_daemon_sets_and_offers_near_names() {
    let mut labeled = daemon_set("y", "logs");
    labeled["metadata"]["labels"] = json!({"team": "a"});
    let dump = list(&[daemon_set("x", "agent"), daemon_set("x", "proxy"), labeled, node("worker-1")]).to_string();
    let names = |query: &Query| -> Vec<String> {
        let snapshot = ask(&dump, query).unwrap();
        snapshot.daemon_sets.into_iter().map(|daemon_set| daemon_set.metadata.name).collect()
    };
    assert_eq!(names(&Query::default()), ["agent", "proxy", "logs"]);
    assert_eq!(names(&Query { namespace: Some("y".to_owned()), ..Query::default() }), ["logs"]);
    assert_eq!(names(&Query { names: vec!["proxy".to_owned()], ..Query::default() }), ["proxy"]);
    assert_eq!(names(&Query { selector: "team=a".parse().unwrap(), ..Query::default() }), ["logs"]);
    let complaint = |query: Query| shown(ask(&dump, &query).unwrap_err());
    assert_eq!(
        complaint(Query { names: vec!["agnet".to_owned()], ..Query::default() }),
        "standard input: daemonsets.apps \"agnet\" not found\nhint: similar names: agent"
    );
    assert_eq!(
        complaint(on_node("worker-2")),
        "standard input: nodes \"worker-2\" not found\nhint: similar names: worker-1"
    );
}

#[test]
fn objects_of_other_groups_are_left_alone() {
    let mut kruise = daemon_set("x", "kruise");
    kruise["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    let custom =
        json!({"apiVersion": "example.com/v1", "kind": "AllowList", "metadata": {"name": "x"}, "items": {"a": 1}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "b"}});
    let text = format!("{}{custom}{map}", list(&[kruise, daemon_set("x", "agent"), map.clone()]));
    assert_eq!(names(&read(text).unwrap().snapshot), ["ds agent"]);
    let text = format!("{}---\n{}", yaml(&list(&[map, daemon_set("x", "agent")])), yaml(&custom));
    assert_eq!(names(&read(text).unwrap().snapshot), ["ds agent"]);
}

#[test]
fn a_whole_object_says_its_type_even_from_a_typed_list() {
    let text = json!({"kind": "DaemonSetList", "apiVersion": "apps/v1", "items": [untyped(daemon_set("x", "agent"))]});
    let snapshot = read(text.to_string()).unwrap().snapshot;
    assert_eq!(snapshot.daemon_sets[0].object, daemon_set("x", "agent"));
}

#[test]
fn the_demo_is_inside_the_program_and_whole() {
    let dump = open("demo", &mut std::io::empty(), None).unwrap();
    assert_eq!(dump.snapshot.gaps, []);
    assert_eq!(dump.snapshot.pods_complete, PodsComplete::Everywhere);
    assert!(dump.snapshot.daemon_sets.len() >= 15);
    assert_eq!(dump.warnings, Vec::<String>::new());
}

#[test]
fn one_node_is_read_with_its_pods() {
    let mut elsewhere = pod("x", "elsewhere", "DaemonSet");
    elsewhere["spec"]["nodeName"] = json!("b");
    let mut unbound = pod("x", "unbound", "DaemonSet");
    unbound["spec"]["nodeName"] = json!("");
    let text =
        list(&[daemon_set("x", "agent"), node("a"), node("b"), pod("x", "here", "DaemonSet"), elsewhere, unbound]);
    let query = on_node("a");
    let snapshot = ask(text.to_string(), &query).unwrap();
    assert_eq!(names(&snapshot), ["ds agent", "node a", "pod here", "pod unbound"]);
    let scope =
        CoverageScope { node_selector: "kubernetes.io/hostname=b".parse().unwrap(), ..CoverageScope::default() };
    let query = Query { wanted: Wanted::Coverage(scope), ..Query::default() };
    assert_eq!(ask(text.to_string(), &query).unwrap().nodes.len(), 1);
    let error = ask(daemon_set("x", "agent").to_string(), &on_node("a")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "standard input: has neither nodes nor a pod on \"a\", so that nothing is known of it"
    );
}

#[test]
fn a_cluster_info_dump_in_one_file_has_logs_between_its_lists() {
    let lists = [
        json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": [untyped(node("a"))]}),
        json!({"kind": "DaemonSetList", "apiVersion": "apps/v1", "items": [untyped(daemon_set("x", "agent"))]}),
        json!({"kind": "PodList", "apiVersion": "v1", "items": [untyped(pod("x", "agent-1", "DaemonSet"))]}),
    ];
    let logs = |name: &str, log: &str| {
        let of = format!("logs for container {name} of pod x/agent-1 ====\n");
        format!("==== START {of}{log}==== END {of}")
    };
    let [nodes, daemon_sets, pods] = lists.each_ref().map(|list| serde_json::to_string_pretty(list).unwrap() + "\n");
    let logs =
        [logs("init", ""), logs("a", "{ no json\n==== START\n\u{1b}[1m"), logs("b", &"x".repeat(700_000))].concat();
    let events = "{\"kind\": \"EventList\", \"apiVersion\": \"v1\", \"items\": []}\n";
    let text = format!("{nodes}{daemon_sets}{pods}{logs}{events}");
    let snapshot = read(&text).unwrap().snapshot;
    assert_eq!(names(&snapshot), ["ds agent", "node a", "pod agent-1"]);
    assert_eq!(snapshot.gap(Kind::Events, "x"), None, "what comes after the logs is read, too");
    let lines = text.lines().count();
    let broken = format!("{text}{{\"kind\" 1}}\n");
    assert_eq!(
        complaint(&broken),
        format!("standard input: line {}: broken JSON: expected `:`", lines + 1),
        "lines of logs count"
    );
    assert!(complaint(&text[..text.len() - events.len() - 20]).contains(": the file is truncated"));
    assert!(complaint(format!("{nodes}==== something else\n{pods}")).starts_with("standard input: line "));

    // With -o yaml, kubectl divides the lists by `---`; logs have that, and what is no text, too.
    let yaml = lists.map(|list| yaml(&list).into_bytes());
    let log = [
        logs.as_bytes(),
        b"==== START logs for container c ====\n---\nkind: x\n\xff==== END logs for container c ====\n",
    ];
    let begins = [&yaml.join(&b"---\n"[..])[..], &log.concat()].concat();
    let text = [&begins[..], b"---\n", events.as_bytes()].concat();
    let snapshot = read(&text).unwrap().snapshot;
    assert_eq!(names(&snapshot), ["ds agent", "node a", "pod agent-1"]);
    assert_eq!(snapshot.gap(Kind::Events, "x"), None);
    let broken = [&text[..], b"---\nkind: [\n"].concat();
    let lines = broken.iter().filter(|byte| **byte == b'\n').count();
    assert!(complaint(&broken).contains(&format!("line {lines}")), "{}", complaint(&broken));
    assert!(complaint(&begins[..begins.len() - 10]).contains(": the file is truncated"));
}

#[test]
fn a_list_that_the_server_returned_to_a_raw_request_is_read() {
    let raw = r#"{"kind":"DaemonSetList","apiVersion":"apps/v1","metadata":{"resourceVersion":"5","remainingItemCount":1},"items":["#;
    let text = format!("{raw}{}]}}\n", untyped(daemon_set("x", "agent")));
    assert_eq!(names(&read(text).unwrap().snapshot), ["ds agent"]);
}

#[test]
fn what_is_too_old_to_be_read_says_so() {
    let old = json!({"selfLink": "/apis/extensions/v1beta1/daemonsets", "resourceVersion": "1", "Items": [
        {"name": "flannel", "namespace": "kube-system", "Spec": {}, "Status": {}}
    ]});
    assert_eq!(
        complaint(old.to_string()),
        "standard input: the list at line 1 has `Items` and no kind, as kubectl 1.9 and older wrote it\n\
         hint: make the dump with a newer kubectl"
    );
    let mut beta = daemon_set("x", "agent");
    beta["apiVersion"] = json!("extensions/v1beta1");
    let hint = "hint: ask for the current version of the DaemonSets: `kubectl get daemonsets.apps -A -o json`";
    assert_eq!(
        complaint(beta.to_string()),
        format!("standard input: has no DaemonSet, node, pod or event, only extensions/v1beta1 DaemonSet (1)\n{hint}")
    );
    let error = ask(list(&[beta, node("a")]).to_string(), &Query::default()).unwrap_err();
    assert_eq!(
        shown(error),
        format!("standard input: has no DaemonSet of apps/v1, only nodes, extensions/v1beta1 DaemonSet\n{hint}")
    );
}

#[test]
fn a_manifest_in_a_dump_is_not_an_object_of_a_cluster() {
    let manifest = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "new"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": []}}}});
    let text = format!("{}{manifest}", list(&[daemon_set("x", "agent"), node("a")]));
    let reading = read(text).unwrap();
    assert_eq!(names(&reading.snapshot), ["ds agent", "node a"]);
    assert_eq!(
        reading.warnings,
        ["standard input: left out a DaemonSet that is a manifest, not of a cluster; `preview -f` previews those"]
    );
}

#[test]
fn without_daemon_sets_in_a_dump_nothing_is_said_about_them() {
    let dump = list(&[node("a"), pod("x", "p", "ReplicaSet")]).to_string();
    let named = Query { names: vec!["agent".to_owned()], ..Query::default() };
    let history = Query { wanted: Wanted::History, ..Query::default() };
    // Whether the DaemonSet of a manifest exists is not known either.
    let scope = CoverageScope { admission: true, ..CoverageScope::default() };
    let manifest = Query { wanted: Wanted::Coverage(scope), ..Query::default() };
    for query in [Query::default(), on_node("a"), named, history, manifest] {
        assert_eq!(
            shown(ask(&dump, &query).unwrap_err()),
            "standard input: has no DaemonSet of apps/v1, only nodes, pods\n\
             hint: make the dump with `kubectl ds snapshot -A`, or add `kubectl get ds -A -o json` to it"
        );
    }
    let listed = format!("{dump}{}", json!({"kind": "DaemonSetList", "apiVersion": "apps/v1", "items": []}));
    assert_eq!(ask(listed, &Query::default()).unwrap().daemon_sets.len(), 0, "none is not unknown");
}

#[test]
fn a_dump_without_daemon_sets_is_read_with_a_warning() {
    let dump = read(list(&[node("a"), pod("x", "p", "ReplicaSet")]).to_string()).unwrap();
    assert_eq!(dump.warnings, ["standard input: has no DaemonSet of apps/v1, only nodes, pods"]);
    assert_eq!(dump.snapshot.nodes.len(), 1);
}
