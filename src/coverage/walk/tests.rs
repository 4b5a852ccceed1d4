//! Counts, groups and rows of small clusters.

use serde_json::json;

use super::coverage;
use crate::coverage::options::{Detail, Options};
use crate::coverage::test_support::{at, world};
use crate::model::snapshot::{Gap, GapCause, Kind};
use crate::report::coverage::Counts;
use crate::report::node_coverage::NodeState;
use crate::report::reason::ReasonCode;

#[test]
fn nodes_are_counted_as_the_controller_counts_them() {
    let report = world()
        .node("a", json!({}))
        .node("b", json!({}))
        .node("c", json!({"spec": {"taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]}}))
        .node("d", json!({"spec": {"taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]}}))
        .node("e", json!({}))
        .node("f", json!({"spec": {"taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]}}))
        .pod("agent-a", "a", json!({}))
        .pod("agent-c", "c", json!({}))
        .pod(
            "agent-e",
            "e",
            json!({"metadata": {"labels": {"controller-revision-hash": "old", "pod-template-generation": "1"}}}),
        )
        .coverage();
    let counts = &report.counts;
    assert_eq!(
        (counts.nodes_total, counts.eligible, counts.current, counts.ready, counts.available),
        (Some(6), Some(3), Some(2), Some(2), Some(2))
    );
    assert_eq!(
        (counts.missing, counts.updated, counts.outdated, counts.misscheduled, counts.not_eligible),
        (Some(1), Some(1), Some(1), Some(1), Some(3))
    );
    let states: Vec<NodeState> = report.nodes.iter().map(|node| node.state).collect();
    use NodeState::{Available, Misscheduled, Missing, NotEligible};
    assert_eq!(states, [Available, Missing, Misscheduled, NotEligible, Available, NotEligible]);
    assert_eq!(report.not_eligible[0].code, ReasonCode::UntoleratedNoSchedule);
    assert_eq!(report.problems.len(), 2);
}

#[test]
fn no_eligible_node_because_of_a_likely_mistake_is_a_warning() {
    let gpu = json!({"spec": {"taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]}});
    let required = |terms| {
        json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    };
    let gt = |value: &str| json!([{"matchExpressions": [{"key": "cores", "operator": "Gt", "values": [value]}]}]);
    for (template, code) in [
        (json!({"tolerations": [{"key": "dedicated", "value": "cpu"}]}), Some(ReasonCode::UntoleratedNoSchedule)),
        (required(json!([{}])), Some(ReasonCode::AffinityEmptyTerms)),
        (required(gt("many")), Some(ReasonCode::AffinityTermInvalid)),
        (json!({"nodeSelector": {"Kubernetes.io/hostname": "n"}}), Some(ReasonCode::NodeSelectorLabelMissing)),
        (json!({"nodeSelector": {"gpu": "true"}}), None),
    ] {
        let report = world().template(template.clone()).node("n", gpu.clone()).coverage();
        let codes: Vec<ReasonCode> = report.concerns.iter().map(|concern| concern.code).collect();
        assert_eq!(codes, code.into_iter().collect::<Vec<_>>(), "{template}");
        let eligible =
            world().template(template).node("n", gpu.clone()).daemon_set(json!({"spec": {"template": {"spec": {
            "tolerations": [{"operator": "Exists"}], "nodeSelector": null, "affinity": null}}}}));
        assert!(eligible.pod("agent-n", "n", json!({})).coverage().concerns.is_empty());
    }
}

#[test]
fn a_plugin_that_some_nodes_wait_for_is_a_warning() {
    let report = world()
        .template(json!({"volumes": [{"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}}]}))
        .node("a", json!({}))
        .pod("agent-a", "a", json!({}))
        .node("b", json!({"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}}))
        .coverage();
    assert_eq!(report.concerns.len(), 1);
    assert_eq!(report.concerns[0].code, ReasonCode::NotReadyNotTolerated);
}

#[test]
fn a_pod_whose_node_is_gone_is_a_group_but_no_counted_node() {
    let world = world().node("a", json!({})).pod("agent-a", "a", json!({})).pod("agent-z", "z", json!({}));
    let report = world.coverage();
    assert_eq!(report.counts.nodes_total, Some(1));
    assert_eq!(report.problems[0].code, ReasonCode::OrphanedTarget);
    assert_eq!(report.problems[0].nodes, ["z"]);
}

#[test]
fn a_node_that_an_incomplete_list_lacks_is_not_gone() {
    let mut snapshot =
        world().node("a", json!({})).pod("agent-a", "a", json!({})).pod("agent-z", "z", json!({})).finish();
    let cause = GapCause::LessThanStatus { of: "default/agent".to_owned(), status: 2 };
    snapshot.gaps.push(Gap { kind: Kind::Nodes, namespace: None, cause });
    let report = &coverage(&snapshot, &Options { detail: Detail::Nodes, ..Options::default() }).daemon_sets[0];
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let of_node = report.nodes.iter().find(|row| row.name == "z").unwrap();
    assert_eq!((of_node.state, of_node.eligibility_unknown), (NodeState::Available, true));
}

#[test]
fn pods_on_nodes_that_were_not_asked_about_are_not_taken_for_orphans() {
    let snapshot = world().node("a", json!({})).pod("agent-a", "a", json!({})).pod("agent-z", "z", json!({})).finish();
    let options = Options { node: Some("a".to_owned()), ..Options::default() };
    assert!(coverage(&snapshot, &options).daemon_sets[0].problems.is_empty());
}

#[test]
fn groups_alone_keep_no_rows() {
    let snapshot = world().node("a", json!({})).finish();
    let report = &coverage(&snapshot, &Options::default()).daemon_sets[0];
    assert!(report.nodes.is_empty());
    assert_eq!(report.problems[0].nodes, ["a"]);
}

#[test]
fn groups_are_the_same_whether_each_node_is_told_or_not() {
    let mut small = world().template(json!({"nodeSelector": {"disk": "ssd"}}));
    for number in 0..40 {
        let name = format!("n{number:02}");
        let labels = match number % 4 {
            0 => json!({"disk": "ssd", "serial": name}),
            1 => json!({"disk": "hdd", "serial": name}),
            2 => json!({"serial": name}),
            _ => json!({"Disk": "ssd", "serial": name}),
        };
        let taints = if number % 5 == 0 { json!([{"key": "k", "effect": "NoSchedule"}]) } else { json!([]) };
        let made = if number % 8 == 4 { at(&format!("11:59:{number:02}")) } else { at("09:00:00") };
        small = small.node(
            &name,
            json!({"metadata": {"labels": labels, "creationTimestamp": made}, "spec": {"taints": taints}}),
        );
        if number % 12 == 0 {
            small = small.pod(&format!("agent-{name}"), &name, json!({}));
        }
    }
    // What is known about the former pods of a node is true of that node alone.
    let tolerated = json!({"tolerations": [{"key": "gone", "operator": "Exists", "tolerationSeconds": 10}]});
    let evicting = json!({"metadata": {"labels": {"disk": "ssd"}, "creationTimestamp": at("09:00:00")},
        "spec": {"taints": [{"key": "gone", "effect": "NoExecute"}]}});
    let snapshot = small.template(tolerated).node("m-own", evicting).finish();
    let with = |detail| {
        let options = Options { detail, by: Some("disk".to_owned()), ..Options::default() };
        let mut report = coverage(&snapshot, &options).daemon_sets.remove(0);
        assert_eq!(report.nodes.len(), if detail == Detail::Groups { 0 } else { 41 });
        report.nodes.clear();
        report
    };
    let groups = with(Detail::Groups);
    assert_eq!(groups, with(Detail::Nodes));
    let of_own =
        groups.problems.iter().find(|group| group.code == ReasonCode::Evicted).map(|group| group.nodes.clone());
    assert_eq!(of_own, Some(vec!["m-own".to_owned()]));
    assert!(groups.problems.len() >= 3 && groups.not_eligible.len() >= 4, "{groups:#?}");
}

#[test]
fn counts_are_broken_down_by_the_values_of_a_label() {
    let snapshot = world()
        .node("a", json!({"metadata": {"labels": {"zone": "z2"}}}))
        .node("b", json!({"metadata": {"labels": {"zone": "z1"}}}))
        .node("c", json!({}))
        .pod("agent-a", "a", json!({}))
        .finish();
    let options = Options { by: Some("zone".to_owned()), detail: Detail::Groups, ..Options::default() };
    let report = &coverage(&snapshot, &options).daemon_sets[0];
    let rows = &report.by.as_ref().unwrap().rows;
    let rows: Vec<_> =
        rows.iter().map(|row| (row.value.as_deref(), row.counts.available, row.counts.missing)).collect();
    assert_eq!(rows, [(Some("z1"), Some(0), Some(1)), (Some("z2"), Some(1), Some(0)), (None, Some(0), Some(1))]);
}

#[test]
fn an_old_pod_that_is_available_counts_while_the_new_one_comes_up() {
    let node = world()
        .daemon_set(json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}}))
        .node("a", json!({}))
        .pod("agent-old", "a", json!({"metadata": {"labels": {"controller-revision-hash": "hash1"}}}))
        .unready_pod(
            "agent-new",
            "a",
            json!({"state": {"waiting": {"reason": "ContainerCreating"}}}),
            json!({"metadata": {"creationTimestamp": at("11:59:50")}}),
        )
        .only_node();
    assert_eq!(node.state, NodeState::Available);
    assert!(node.reasons.is_empty(), "{:?}", node.reasons);
}

#[test]
fn a_pod_that_may_still_run_comes_before_one_that_has_failed() {
    let crashing = json!({"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
    let node = world()
        .node("a", json!({}))
        .pod("agent-failed", "a", json!({"status": {"phase": "Failed", "conditions": [], "containerStatuses": []}}))
        .unready_pod("agent-new", "a", crashing, json!({"metadata": {"creationTimestamp": at("11:45:00")}}))
        .only_node();
    assert_eq!(node.reasons[0].code, ReasonCode::CrashLooping, "{:?}", node.reasons);
    assert!(node.reasons.len() > 1, "{:?}", node.reasons);
}

#[test]
fn a_node_is_told_with_the_daemon_sets_that_should_run_there_and_are_available() {
    let cluster = || {
        world()
            .node("a", json!({}))
            .pod("agent-a", "a", json!({}))
            .node("b", json!({}))
            .node("c", json!({"spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}}))
            .pod("agent-z", "z", json!({}))
    };
    let crashing = json!({"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
    let surging = world()
        .daemon_set(json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}}))
        .node("a", json!({}))
        .pod("agent-old", "a", json!({"metadata": {"labels": {"controller-revision-hash": "hash1"}}}))
        .unready_pod("agent-new", "a", crashing, json!({"metadata": {"creationTimestamp": at("11:45:00")}}));
    let mut unread = world().pod("agent-z", "z", json!({}));
    let cause = GapCause::Forbidden("list nodes".to_owned());
    unread.snapshot.gaps.push(Gap { kind: Kind::Nodes, namespace: None, cause });
    for (world, name, exists, should_run, available) in [
        (cluster(), "a", true, Some(1), 1),
        (cluster(), "b", true, Some(1), 0),
        (cluster(), "c", true, Some(0), 0),
        (cluster(), "z", false, Some(0), 0),
        // The old pod is available, regardless of the new one.
        (surging, "a", true, Some(1), 1),
        // It is unknown whether the node exists.
        (unread, "z", true, None, 1),
    ] {
        let options = Options { detail: Detail::Explain, node: Some(name.to_owned()), ..Options::default() };
        let node = coverage(&world.finish(), &options).node.unwrap();
        assert_eq!((node.exists, node.should_run, node.available), (exists, should_run, available), "{name}");
    }
}

#[test]
fn without_nodes_the_numbers_of_one_node_are_not_those_of_the_status() {
    let mut world = world().daemon_set(json!({"status": {"desiredNumberScheduled": 3, "numberAvailable": 2}}));
    world.snapshot.gaps.push(Gap { kind: Kind::Nodes, namespace: None, cause: GapCause::NotInDump });
    let options = Options { node: Some("a".to_owned()), ..Options::default() };
    assert_eq!(coverage(&world.finish(), &options).daemon_sets[0].counts, Counts::default());
}

#[test]
fn a_pod_is_available_until_the_deadline_of_its_deletion() {
    let deleted = |time: &str| json!({"metadata": {"deletionTimestamp": at(time)}});
    let report = world()
        .node("a", json!({}))
        .pod("agent-a", "a", json!({}))
        .node("b", json!({}))
        .unready_pod("agent-b", "b", json!({}), json!({}))
        .node("c", json!({}))
        .pod("agent-c", "c", deleted("12:00:20"))
        .node("d", json!({}))
        .pod("agent-d", "d", deleted("11:50:00"))
        .coverage();
    let pods: Vec<(bool, bool)> =
        report.nodes.iter().map(|node| (node.pods[0].available, node.pods[0].terminating)).collect();
    assert_eq!(pods, [(true, false), (false, false), (true, true), (false, true)]);
}

#[test]
fn if_no_node_is_eligible_a_likely_mistake_is_told_once_and_is_the_advice_for_every_node_with_its_reason() {
    let labels = |labels: serde_json::Value| json!({"metadata": {"labels": labels}});
    let report = world()
        .template(json!({"nodeSelector": {"disk": "ssd"}}))
        .node("a", labels(json!({"Disk": "ssd"})))
        .node("b", labels(json!({"Disk": "hdd"})))
        .node("c", json!({}))
        .node("d", labels(json!({"disk": "none"})))
        .coverage();
    let concerns: Vec<ReasonCode> = report.concerns.iter().map(|concern| concern.code).collect();
    assert_eq!(concerns, [ReasonCode::NodeSelectorLabelMissing]);
    let mistake = &report.concerns[0].fix;
    for (node, code, has_advice_of_mistake) in [
        ("a", ReasonCode::NodeSelectorLabelMissing, true),
        ("c", ReasonCode::NodeSelectorLabelMissing, true),
        ("d", ReasonCode::NodeSelectorValueMismatch, false),
    ] {
        let group = report.not_eligible.iter().find(|group| group.nodes.iter().any(|name| name == node)).unwrap();
        assert_eq!((group.code, group.fix == *mistake), (code, has_advice_of_mistake), "{node}");
    }
}

#[test]
fn a_likely_mistake_is_no_warning_if_only_one_node_was_looked_at() {
    let snapshot = world()
        .template(json!({"nodeSelector": {"disk": "ssd"}}))
        .node("a", json!({"metadata": {"labels": {"Disk": "ssd"}}}))
        .node("b", json!({"metadata": {"labels": {"disk": "ssd"}}}))
        .pod("agent-b", "b", json!({}))
        .finish();
    let options = Options { node: Some("a".to_owned()), ..Options::default() };
    let report = &coverage(&snapshot, &options).daemon_sets[0];
    assert_eq!((report.counts.eligible, report.concerns.as_slice()), (Some(0), [].as_slice()));
}

#[test]
fn what_a_dump_does_not_have_is_told_from_what_may_not_be_read() {
    let told = |kind, cause| {
        let mut world = world().node("a", json!({}));
        world.snapshot.gaps.push(Gap { kind, namespace: None, cause });
        let node = world.only_node();
        assert_eq!(node.reasons[0].code, ReasonCode::Unexplained, "{node:?}");
        (node.state, node.reasons[0].message.clone(), format!("{:?}", node.reasons[0].fix))
    };
    let forbidden = || GapCause::Forbidden("list".to_owned());
    let (state, _, advice) = told(Kind::Pods, GapCause::NotInDump);
    assert!(state == NodeState::Unknown && advice.contains("snapshot"), "{advice}");
    let (state, _, advice) = told(Kind::Pods, forbidden());
    assert!(state == NodeState::Unknown && !advice.contains("snapshot"), "{advice}");
    assert_ne!(told(Kind::Events, GapCause::NotInDump), told(Kind::Events, forbidden()));
}

#[test]
fn whether_a_pod_is_updated_is_known_only_by_the_revisions() {
    let updated = |generation: i64, is_known: bool| {
        let old =
            json!({"metadata": {"labels": {"controller-revision-hash": "hash1", "pod-template-generation": "1"}}});
        let mut world = world()
            .daemon_set(json!({"metadata": {"generation": generation}}))
            .node("a", json!({}))
            .pod("agent-a", "a", old);
        world.snapshot.controller_revisions.clear();
        if !is_known {
            let cause = GapCause::Forbidden("list controllerrevisions".to_owned());
            world.snapshot.gaps.push(Gap { kind: Kind::ControllerRevisions, namespace: None, cause });
        }
        world.only_node().pods[0].updated
    };
    assert_eq!((updated(2, false), updated(2, true)), (None, None));
    // A template that the controller has not observed has no revision yet.
    assert_eq!((updated(3, false), updated(3, true)), (None, Some(false)));
}
