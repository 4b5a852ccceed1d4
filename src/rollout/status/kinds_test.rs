//! Whose fault it is if a revision works on one kind of node but not on another, if it only restarts pods, and if the
//! other revision could not come back: one row per situation.

use serde_json::{Value, json};

use super::fault_test::{commands, status};
use crate::coverage::test_support::{World, at, world};
use crate::model::snapshot::PodsComplete;
use crate::report::common_cause::Feature;
use crate::report::reason::ReasonCode;
use crate::report::rollout_status::{BlockedBy, Fault, SuspectKind, Verdict};

const UNDO: &str = "kubectl ds undo --to-revision 1 -n default agent";

/// Two revisions, the newer one since 11:45, and a rolling update of one node at a time.
fn revisions(before: Value, after: Value) -> World {
    changed(before, json!({"spec": {"template": {"spec": after}}}))
}

/// The revision of a template, and a newer one after a change.
fn changed(before: Value, change: Value) -> World {
    let mut world = world();
    world.snapshot.controller_revisions.clear();
    let mut world =
        world.template(before).revision_of_template("hash1", 1).daemon_set(change).revision_of_template("hash2", 2);
    let metadata = &mut world.snapshot.controller_revisions[1].metadata;
    metadata.creation_timestamp = serde_json::from_value(json!(at("11:45:00"))).unwrap();
    world.daemon_set(json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}}))
}

fn of_image(image: &str) -> Value {
    json!({"containers": [{"name": "agent", "image": image}]})
}

fn images() -> World {
    revisions(of_image("agent:1"), of_image("agent:2"))
}

/// Adds nodes with these properties, each with a pod: `old`, `new`, `old fails` or `new fails`.
fn with(world: World, nodes: &[(&str, Value)]) -> World {
    nodes.iter().enumerate().fold(world, |world, (number, (pod, object))| {
        let (node, name) = (format!("n{number}"), format!("agent-n{number}"));
        let (created, labels) = match pod.starts_with("old") {
            true => ("11:30:00", json!({"controller-revision-hash": "hash1", "pod-template-generation": "1"})),
            false => ("11:46:00", json!({})),
        };
        let mut patch = json!({"metadata": {"creationTimestamp": at(created), "labels": labels}});
        let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let world = world.node(&node, object.clone());
        if pod.ends_with("fails") {
            patch["status"]["conditions"] =
                json!([{"type": "Ready", "status": "False", "lastTransitionTime": at("11:46:10")}]);
            return world.unready_pod(&name, &node, crashes, patch);
        }
        world.pod(&name, &node, patch)
    })
}

fn info(field: &str, value: &str) -> Value {
    json!({"status": {"nodeInfo": {field: value}}})
}

fn instance(value: &str) -> Value {
    json!({"metadata": {"labels": {"node.kubernetes.io/instance-type": value}}})
}

#[test]
fn a_revision_that_works_only_on_nodes_of_another_kind_is_to_blame() {
    let kernel = |version| info("kernelVersion", version);
    let arch = |arch| info("architecture", arch);
    let os = |image| info("osImage", image);
    let (works, fails, old, old_fails) = ("new", "new fails", "old", "old fails");
    for (nodes, on) in [
        (
            vec![(works, kernel("6.8")), (works, kernel("6.8")), (fails, kernel("4.14")), (old, kernel("4.14"))],
            Some(Feature::KernelVersion),
        ),
        (
            vec![(works, arch("amd64")), (works, arch("amd64")), (fails, arch("arm64")), (old, arch("arm64"))],
            Some(Feature::Architecture),
        ),
        (
            vec![
                (works, os("Ubuntu")),
                (works, os("Ubuntu")),
                (fails, os("Amazon Linux 2")),
                (old, os("Amazon Linux 2")),
            ],
            Some(Feature::OsImage),
        ),
        (
            vec![(works, instance("m5")), (works, instance("m6")), (fails, instance("g5")), (old, instance("g5"))],
            Some(Feature::InstanceType),
        ),
        // Both fail, and there is no information about other kinds.
        (
            vec![
                (works, kernel("6.8")),
                (works, kernel("6.8")),
                (works, kernel("6.8")),
                (fails, kernel("5.4")),
                (fails, kernel("5.4")),
                (old, kernel("5.4")),
            ],
            Some(Feature::KernelVersion),
        ),
        // It works on one of that kind.
        (vec![(works, kernel("6.8")), (works, kernel("4.14")), (fails, kernel("4.14")), (old, kernel("4.14"))], None),
        // No old pod proves that another revision works there.
        (vec![(works, kernel("6.8")), (works, kernel("6.8")), (fails, kernel("4.14")), (old, kernel("6.8"))], None),
        (
            vec![
                (works, kernel("6.8")),
                (works, kernel("6.8")),
                (fails, kernel("4.14")),
                (old_fails, kernel("4.14")),
                (old, kernel("6.8")),
            ],
            None,
        ),
        // They are all alike, or their kinds are unknown.
        (vec![(works, kernel("6.8")), (works, kernel("6.8")), (fails, kernel("6.8")), (old, kernel("6.8"))], None),
        (vec![(works, json!({})), (works, json!({})), (fails, json!({})), (old, json!({}))], None),
        // The two that fail are of two kinds.
        (
            vec![
                (works, kernel("6.8")),
                (works, kernel("6.8")),
                (works, kernel("6.8")),
                (fails, kernel("5.4")),
                (fails, kernel("4.14")),
                (old, kernel("5.4")),
            ],
            None,
        ),
    ] {
        let status = status(with(images(), &nodes), &[]);
        let suspect = status.suspect.as_ref().unwrap();
        assert_eq!(suspect.on.as_ref().map(|on| on.feature), on, "{nodes:?} {suspect:?}");
        let is_blamed = suspect.what == SuspectKind::Revision;
        assert_eq!(is_blamed, on.is_some(), "{nodes:?} {suspect:?}");
        if is_blamed {
            assert_eq!((commands(&status), suspect.old_available), (vec![UNDO.to_owned()], 1), "{nodes:?}");
        } else {
            assert!(!commands(&status).contains(&UNDO.to_owned()), "{nodes:?}");
        }
    }
}

/// A surge keeps the old pods beside the new ones that fail.
#[test]
fn once_a_surge_has_reached_all_nodes_a_revision_that_fails_on_one_kind_is_to_blame() {
    let arch = |arch| info("architecture", arch);
    let surge = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}});
    for (kind, is_revision) in [("arm64", true), ("amd64", false)] {
        let nodes = [("new", arch("amd64")), ("new", arch("amd64")), ("new", arch("amd64"))];
        let nodes = nodes.into_iter().chain(["new fails", "new fails"].map(|pod| (pod, arch(kind))));
        let mut world = with(images().daemon_set(surge.clone()), &nodes.collect::<Vec<_>>());
        for node in ["n3", "n4"] {
            let labels = json!({"controller-revision-hash": "hash1", "pod-template-generation": "1"});
            let old = json!({"metadata": {"creationTimestamp": at("11:30:00"), "labels": labels}});
            world = world.pod(&format!("old-{node}"), node, old);
        }
        let status = status(world, &[]);
        let suspect = status.suspect.as_ref().unwrap();
        assert_eq!(suspect.what == SuspectKind::Revision, is_revision, "{kind}: {suspect:?}");
        assert_eq!(commands(&status).contains(&UNDO.to_owned()), is_revision, "{kind}: {:?}", commands(&status));
    }
}

/// A tag may point to another image, a ConfigMap may have changed: the pods of the other revision would fail in the same way.
#[test]
fn a_restart_is_not_to_blame_and_is_not_rolled_back() {
    let annotation = json!({"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-11-27T11:45:00Z"}});
    let restarted = |after: Value| {
        let template = json!({"metadata": annotation, "spec": after});
        changed(of_image("agent:1"), json!({"spec": {"template": template}}))
    };
    let one = |pod| (pod, json!({}));
    for (after, nodes, what, undo) in [
        (of_image("agent:1"), vec![one("new fails"), one("old"), one("old")], SuspectKind::Surroundings, false),
        (of_image("agent:1"), vec![one("new fails"), one("new"), one("old")], SuspectKind::Surroundings, false),
        (of_image("agent:1"), vec![one("new fails"), one("new"), one("new"), one("old")], SuspectKind::Nodes, false),
        (of_image("agent:1"), vec![one("new fails"), one("old fails"), one("old")], SuspectKind::EveryRevision, false),
        (of_image("agent:2"), vec![one("new fails"), one("old"), one("old")], SuspectKind::Revision, true),
    ] {
        let status = status(with(restarted(after.clone()), &nodes), &[]);
        let suspect = status.suspect.as_ref().unwrap();
        assert_eq!(suspect.what, what, "{after} {nodes:?}");
        assert_eq!(commands(&status).contains(&UNDO.to_owned()), undo, "{after} {nodes:?} {:?}", commands(&status));
    }
    // In a dump of one namespace, nothing tells whether the other pods of the node fail, too.
    for (pods_complete, what, fault) in [
        (PodsComplete::On(["n0".to_owned()].into()), Some(SuspectKind::Surroundings), Fault::Unknown),
        (PodsComplete::On(["n1".to_owned()].into()), None, Fault::Unknown),
    ] {
        let mut world = with(restarted(of_image("agent:1")), &[one("new fails"), one("old"), one("old")]);
        world.snapshot.pods_complete = pods_complete;
        let status = status(world, &[]);
        assert_eq!(status.suspect.as_ref().map(|suspect| suspect.what), what);
        assert_eq!(status.problems[0].fault, Some(fault), "{:?}", status.problems);
        assert!(!commands(&status).contains(&UNDO.to_owned()), "{:?}", commands(&status));
    }
}

/// An older pod that fails for a reason of its own does not excuse the revision.
#[test]
fn pods_of_both_revisions_fail_alike_only_if_they_say_the_same() {
    let crash = |message: &str| {
        json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": message}}})
    };
    let pull = |message: &str| json!({"state": {"waiting": {"reason": "ImagePullBackOff", "message": message}}});
    for (new, old, alike) in [
        (crash("panic: unknown option listen_addr"), crash("panic: connection refused by 10.0.0.7"), false),
        (crash("12:00:01 panic: refused by 10.0.0.9"), crash("11:59:02 panic: refused by 10.0.0.17"), true),
        (crash("panic: unknown option listen_addr"), crash(""), true),
        (crash(""), crash("panic: connection refused by 10.0.0.7"), true),
        (pull("manifest unknown"), pull("manifest unknown"), false),
        (pull("401 Unauthorized"), pull("401 Unauthorized"), true),
    ] {
        let patch = |image: &str, hash: &str| {
            let labels = json!({"controller-revision-hash": hash, "pod-template-generation": null});
            json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "agent", "image": image}]}})
        };
        let world = with(images(), &[("old", json!({})), ("old", json!({})), ("old", json!({}))]);
        let world = world.node("a", json!({})).unready_pod("agent-a", "a", new.clone(), patch("agent:2", "hash2"));
        let world = world.node("b", json!({})).unready_pod("agent-b", "b", old.clone(), patch("agent:1", "hash1"));
        let what = status(world, &[]).suspect.unwrap().what;
        assert_eq!(what == SuspectKind::EveryRevision, alike, "{what:?} {new} {old}");
    }
}

/// The kubelet refuses requests of the revision, but has granted those of the other one on the same nodes.
#[test]
fn requests_that_do_not_fit_the_nodes_cpus_are_the_revisions_if_it_changed_them() {
    let asks = |cpu: &str, image: &str| json!({"containers": [{"name": "agent", "image": image, "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}]});
    for reason in ["SMTAlignmentError", "TopologyAffinityError"] {
        for (before, what) in [("2", SuspectKind::Revision), ("3", SuspectKind::Nodes)] {
            let rejected = json!({"phase": "Failed", "reason": reason, "containerStatuses": null, "conditions": [
                {"type": "Ready", "status": "False", "lastTransitionTime": at("11:55:00")}]});
            let world = with(
                revisions(asks(before, "agent:1"), asks("3", "agent:2")),
                &[("new", json!({})), ("new", json!({})), ("old", json!({}))],
            );
            let world = world.node("odd", json!({})).pod("agent-odd", "odd", json!({ "status": rejected }));
            let status = status(world, &[]);
            assert_eq!(status.suspect.as_ref().map(|suspect| suspect.what), Some(what), "{reason} {before}");
            assert_eq!(commands(&status).contains(&UNDO.to_owned()), before == "2", "{reason} {before}");
        }
    }
}

/// A ConfigMap whose name contains the hash of its content is deleted with the template that used it.
#[test]
fn no_rollback_is_offered_to_pods_that_would_not_start() {
    let uses = |name: &str, image: &str| json!({"containers": [{"name": "agent", "image": image}], "volumes": [{"name": "config", "configMap": {"name": name}}]});
    let secret = |name: &str, image: &str| json!({"containers": [{"name": "agent", "image": image, "envFrom": [{"secretRef": {"name": name}}]}]});
    let optional = |image: &str| json!({"containers": [{"name": "agent", "image": image}], "volumes": [{"name": "config", "configMap": {"name": "gone", "optional": true}}]});
    let (config_map, other) = (("ConfigMap", "agent-2"), ("ConfigMap", "unrelated"));
    for (before, after, names, is_offered) in [
        (uses("agent-1", "agent:1"), uses("agent-2", "agent:2"), vec![config_map, other], false),
        (
            uses("agent-1", "agent:1"),
            uses("agent-2", "agent:2"),
            vec![("ConfigMap", "agent-1"), config_map, other],
            true,
        ),
        // A dump with only the objects in use proves nothing.
        (uses("agent-1", "agent:1"), uses("agent-2", "agent:2"), vec![config_map], true),
        (uses("agent-1", "agent:1"), uses("agent-2", "agent:2"), vec![], true),
        (
            secret("agent-1", "agent:1"),
            secret("agent-2", "agent:2"),
            vec![("Secret", "agent-2"), ("Secret", "unrelated")],
            false,
        ),
        (secret("agent-1", "agent:1"), secret("agent-2", "agent:2"), vec![config_map, other], true),
        (optional("agent:1"), optional("agent:2"), vec![config_map, other], true),
    ] {
        let mut world =
            with(revisions(before.clone(), after), &[("new fails", json!({})), ("old", json!({})), ("old", json!({}))]);
        let name = |(kind, name): &(&str, &str)| ((*kind).to_owned(), "default".to_owned(), (*name).to_owned());
        world.snapshot.object_names = names.iter().map(name).collect();
        let status = status(world, &[]);
        assert_eq!(status.suspect.as_ref().map(|it| it.what), Some(SuspectKind::Revision));
        assert_eq!(commands(&status).contains(&UNDO.to_owned()), is_offered, "{before} {names:?}");
    }
}

/// While it terminates, the controller waits for it; and a node on which it is stuck is named with the reason.
#[test]
fn a_pod_that_is_left_on_a_node_that_is_no_longer_eligible_is_told_as_what_it_waits_for() {
    use ReasonCode::{Misscheduled, StuckTerminating, Terminating};
    let old = || json!({"controller-revision-hash": "hash1", "pod-template-generation": "1"});
    let ending = |deadline: &str, finalizers: Value| json!({"metadata": {"labels": old(), "deletionTimestamp": at(deadline), "finalizers": finalizers}});
    let held = || ending("11:50:00", json!(["example.com/hold"]));
    let (waits, done) = (vec![("new", json!({})), ("old", json!({}))], vec![("new", json!({})), ("new", json!({}))]);
    for (nodes, pod, verdict, blocked_by, code) in [
        (&waits, ending("12:00:20", json!([])), Verdict::Progressing, None, Some(Terminating)),
        (&waits, held(), Verdict::Blocked, Some(BlockedBy::Budget), Some(StuckTerminating)),
        (&done, ending("12:00:20", json!([])), Verdict::Complete, None, Some(Terminating)),
        (&done, held(), Verdict::Complete, None, Some(StuckTerminating)),
        (&waits, json!({"metadata": {"labels": old()}}), Verdict::Progressing, None, Some(Misscheduled)),
    ] {
        let taint = json!({"spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}});
        let status = status(with(images(), nodes).node("t", taint).pod("agent-t", "t", pod.clone()), &[]);
        let told =
            status.problems.iter().map(|it| it.code).chain(status.other_problems.iter().map(|it| it.code)).next();
        assert_eq!((status.verdict, status.blocked_by, told), (verdict, blocked_by, code), "{nodes:?} {pod}");
    }
}

/// Each of these nodes may be at fault; but a revision that fails wherever it was tried is not tried on more nodes.
#[test]
fn a_larger_budget_is_not_suggested_for_pods_that_fail_wherever_they_were_tried() {
    let rejected = json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Pod was rejected: Allocate failed due to x",
        "containerStatuses": null, "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:55:00")}]});
    for (nodes, is_raised) in [(vec!["a"], true), (vec!["a", "b"], false), (vec!["a", "works"], true)] {
        let old = ("old", json!({}));
        let world = with(images(), &[old.clone(), old.clone(), old]);
        let world = nodes.iter().fold(world, |world, node| {
            let status = if *node == "works" { json!({}) } else { json!({ "status": rejected }) };
            world.node(node, json!({})).pod(&format!("agent-{node}"), node, status)
        });
        let commands = commands(&status(world, &[]));
        assert_eq!(commands.iter().any(|it| it.contains("--max-unavailable")), is_raised, "{nodes:?} {commands:?}");
    }
}
