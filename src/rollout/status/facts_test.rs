//! What all reports have in common: who controls a DaemonSet, which pods are known to be updated, and what is unusual about it.

use serde_json::{Value, from_value, json};

use crate::coverage::options::{Detail, Options};
use crate::coverage::test_support::{World, at, world};
use crate::coverage::walk::{coverage, daemon_set_coverage};
use crate::facts::Facts;
use crate::facts::index::Index;
use crate::model::snapshot::{Gap, GapCause, Kind, Neighbor, Snapshot};
use crate::report::list::Status;
use crate::report::reason::ReasonCode as R;
use crate::report::rollout_status::Verdict;
use crate::rollout::fleet::fleet;
use crate::rollout::status::{Question, answer, rollout_status};

fn with_stale_lease(mut world: World) -> World {
    let lease = json!({"metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
        "spec": {"renewTime": at("11:40:00"), "leaseDurationSeconds": 15}});
    world.snapshot.leases.push(from_value(lease).unwrap());
    world
}

/// Everything in the reports on an Advanced DaemonSet, as JSON.
fn said_of_advanced(world: World) -> String {
    let world = with_stale_lease(world.daemon_set(json!({"apiVersion": "apps.kruise.io/v1beta1"})));
    let mut snapshot = world.finish();
    snapshot.advanced_daemon_sets = snapshot.daemon_sets.drain(..).collect();
    let index = Index::new(&snapshot);
    let facts = Facts::new(&index, &snapshot.advanced_daemon_sets[0]);
    let options = Options { detail: Detail::Explain, ..Options::default() };
    let of_coverage = serde_json::to_string(&daemon_set_coverage(&facts, &options)).unwrap();
    of_coverage + &serde_json::to_string(&rollout_status(&snapshot, None)).unwrap()
}

#[test]
fn an_advanced_daemon_set_never_hears_of_kube_controller_manager() {
    let one = || world().node("n", json!({}));
    let younger = || json!({"metadata": {"creationTimestamp": at("11:59:00")}});
    let gone = |deleted: Value| json!({"metadata": {"deletionTimestamp": deleted}});
    for (situation, world) in [
        ("no pod", one()),
        ("a spec that nobody has observed", one().daemon_set(json!({"metadata": {"generation": 3}}))),
        (
            "a spec that nobody has observed, beside a pod",
            one().daemon_set(json!({"metadata": {"generation": 3}})).pod("agent-x", "n", json!({})),
        ),
        ("one pod too many", one().pod("agent-x", "n", json!({})).pod("agent-y", "n", younger())),
        (
            "a pod on a node that is not eligible",
            one().template(json!({"nodeSelector": {"disk": "ssd"}})).pod("agent-x", "n", json!({})),
        ),
        ("a pod whose node is gone", one().pod("agent-x", "gone", json!({}))),
        ("a pod whose node is long gone", one().pod("agent-x", "gone", gone(json!(at("11:40:00"))))),
        ("a pod that is stuck", one().pod("agent-x", "n", gone(json!(at("11:40:00"))))),
        ("a new DaemonSet", one().daemon_set(json!({"metadata": {"creationTimestamp": at("11:59:30")}}))),
        (
            "a pod that ended with its node",
            one().pod(
                "agent-x",
                "n",
                json!({"status": {"phase": "Succeeded", "reason": "Terminated", "conditions": []}}),
            ),
        ),
        ("a refused pod", one().refusal("pods \"x\" is forbidden: status unknown for quota: few, resources: pods")),
    ] {
        let said = said_of_advanced(world);
        if situation == "a pod that ended with its node" {
            // OpenKruise's controller deletes only pods that have failed.
            assert!(said.contains("leaves it alone") && !said.contains("deletes and recreates it"), "{said}");
        }
        // It updates the quota, which the advice about the quota mentions.
        let said = said.replace("wait; if it persists, check kube-controller-manager", "");
        assert!(!said.contains("kube-controller-manager"), "{situation}: {said}");
    }
    let status = |world: World| serde_json::to_string(&rollout_status(&world.finish(), None)).unwrap();
    assert!(status(with_stale_lease(one())).contains("kube-controller-manager"));
}

fn without_revisions(mut world: World) -> Snapshot {
    world.snapshot.controller_revisions.clear();
    let gap = Gap { kind: Kind::ControllerRevisions, namespace: None, cause: GapCause::NotInDump };
    world.snapshot.gaps.push(gap);
    world.finish()
}

#[test]
fn what_unread_revisions_would_tell_is_unknown() {
    let surge = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}}});
    let of = |hash: &str, generation: &str, created: &str| {
        json!({"metadata": {"creationTimestamp": at(created),
            "labels": {"controller-revision-hash": hash, "pod-template-generation": generation}}})
    };
    let (old, new) = (|| of("hash1", "1", "11:10:00"), || of("hash2", "2", "11:50:00"));
    for (situation, strategy, pods, duplicates, verdict) in [
        ("a surge", &surge, vec![old(), new()], 0, Verdict::Unknown),
        (
            "a surge of revisions that look older",
            &surge,
            vec![old(), of("hash3", "1", "11:50:00")],
            0,
            Verdict::Unknown,
        ),
        ("a surge that is over", &surge, vec![new()], 0, Verdict::Complete),
        ("two pods of one revision", &surge, vec![new(), new()], 1, Verdict::Unknown),
        ("without a surge", &json!({}), vec![old(), new()], 1, Verdict::Unknown),
        ("a pod that may have been rolled back to", &json!({}), vec![old()], 0, Verdict::Unknown),
        ("a pod of this generation", &json!({}), vec![new()], 0, Verdict::Complete),
    ] {
        let mut world = world().daemon_set(strategy.clone()).node("n", json!({}));
        for (number, pod) in pods.into_iter().enumerate() {
            world = world.pod(&format!("agent-{number}"), "n", pod);
        }
        let snapshot = without_revisions(world);
        let groups = coverage(&snapshot, &Options::default()).daemon_sets.remove(0).problems;
        let status = rollout_status(&snapshot, None).daemon_sets.remove(0);
        let found = groups.iter().filter(|group| group.code == R::DuplicatePod).count();
        assert_eq!((found, status.verdict), (duplicates, verdict), "{situation}");
        assert_eq!((status.next.delete.len(), status.next.replace), (0, 0), "{situation}");
        assert_eq!(status.replaced_at_once, None, "{situation}");
    }
}

/// The findings of coverage, status and list about the world's DaemonSet as a whole.
fn concerns(world: World) -> (Vec<R>, Vec<R>, Vec<R>, Verdict, Status) {
    let snapshot = world.finish();
    let codes = |reasons: &[crate::report::reason::Reason]| reasons.iter().map(|it| it.code).collect::<Vec<_>>();
    let of_coverage = codes(&coverage(&snapshot, &Options::default()).daemon_sets[0].concerns);
    let status = rollout_status(&snapshot, None).daemon_sets.remove(0);
    let row = fleet(&snapshot).daemon_sets.remove(0);
    let of_list = row.problems.iter().filter(|it| it.count == 0).map(|it| it.code).collect();
    (of_coverage, codes(&status.concerns), of_list, status.verdict, row.status)
}

#[test]
fn pods_of_another_template_are_not_complete_in_any_report() {
    let revisions = || {
        let mut world = world();
        world.snapshot.controller_revisions.clear();
        world.revision_of_image("hash1", 1, "agent:1").revision_of_image("hash2", 2, "agent:2")
    };
    let of = |hash: &str, generation: &str| json!({"metadata": {"labels": {"controller-revision-hash": hash, "pod-template-generation": generation}}});
    for (situation, pods, is_odd, message) in [
        (
            "all are adopted",
            vec![of("hash1", "2"), of("hash1", "2")],
            true,
            "0 of 2 pods run this template; those on n0 and n1 are of another one",
        ),
        (
            "one is adopted",
            vec![of("hash2", "2"), of("hash1", "2")],
            true,
            "1 of 2 pods run this template; those on n1 are",
        ),
        ("their revision is gone", vec![of("gone", "2")], true, "0 of 1 pods run this template"),
        ("all are of the template", vec![of("hash2", "2"), of("hash2", "1")], false, ""),
        ("an old one is replaced", vec![of("hash2", "2"), of("hash1", "1")], false, ""),
    ] {
        let mut world = revisions();
        for (number, pod) in pods.into_iter().enumerate() {
            let node = format!("n{number}");
            world = world.node(&node, json!({})).pod(&format!("agent-{number}"), &node, pod);
        }
        let snapshot = world.finish();
        let status = rollout_status(&snapshot, None).daemon_sets.remove(0);
        let found = status.concerns.iter().find(|concern| concern.code == R::AdoptedPods);
        assert_eq!(found.is_some(), is_odd, "{situation}");
        let row = fleet(&snapshot).daemon_sets.remove(0);
        assert_eq!(status.verdict == Verdict::Degraded, is_odd, "{situation}");
        assert_eq!(row.status == Status::Degraded, is_odd, "{situation}");
        assert_eq!(status.counts_as_complete(), !is_odd && situation.starts_with("all"), "{situation}");
        // None of them is missing, and so none is accepted.
        let accept = ["node=10%".parse().unwrap()];
        let accepting = Question { accept: &accept, ..Question::default() };
        let accepted = answer(&snapshot, &accepting).daemon_sets.remove(0);
        assert_eq!(accepted.counts_as_complete(), !is_odd && situation.starts_with("all"), "{situation}");
        if let Some(concern) = found {
            assert!(concern.message.starts_with(message), "{situation}: {}", concern.message);
        }
        if situation == "all are adopted" {
            assert!(found.unwrap().message.contains("image agent 1 → 2"), "{found:?}");
        }
    }
}

#[test]
fn an_overlap_with_a_daemon_set_that_was_not_requested_is_told_alike() {
    let of = |namespace: &str, name: &str, app: &str| {
        let mut world = world().node("n", json!({})).pod("agent-n", "n", json!({}));
        let pod_labels = [("app".to_owned(), app.to_owned())].into();
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        world.snapshot.neighbors.push(Neighbor { namespace, name, pod_labels });
        concerns(world)
    };
    let overlap = || vec![R::SelectorOverlap];
    assert_eq!(of("default", "two", "agent"), (overlap(), overlap(), overlap(), Verdict::Complete, Status::Degraded));
    let none = || (vec![], vec![], vec![], Verdict::Complete, Status::Healthy);
    assert_eq!(of("default", "two", "other"), none());
    assert_eq!(of("elsewhere", "two", "agent"), none());
}

#[test]
fn a_namespace_that_is_being_deleted_blocks_alike() {
    let of = |namespace: Value| {
        let mut world = world().node("n", json!({})).node("m", json!({})).pod("agent-n", "n", json!({}));
        world.snapshot.namespaces.push(from_value(namespace).unwrap());
        let world = world.event("DaemonSet", "agent", "SuccessfulCreate", "Created pod: agent-n", "11:59:50");
        concerns(world)
    };
    let deleted = json!({"metadata": {"name": "default", "deletionTimestamp": at("11:59:00")}});
    let told = || vec![R::NamespaceTerminating];
    let (of_coverage, of_status, _, verdict, status) = of(deleted);
    assert_eq!((of_coverage, of_status), (told(), told()));
    assert_eq!((verdict, status), (Verdict::Blocked, Status::Blocked));
    let (of_coverage, _, _, verdict, _) = of(json!({"metadata": {"name": "default"}}));
    assert_eq!((of_coverage, verdict), (vec![], Verdict::Progressing));
}

#[test]
fn only_more_pods_than_a_sync_creates_take_several() {
    let advice = |nodes: usize| {
        let young = || json!({"metadata": {"creationTimestamp": at("11:59:30")}});
        let world = (0..nodes).fold(world(), |world, number| world.node(&format!("n{number:03}"), young()));
        world.coverage().problems[0].fix.advice.clone()
    };
    for (nodes, is_told) in [(1, false), (8, false), (250, false), (251, true), (300, true)] {
        assert_eq!(advice(nodes).contains("250 pods per sync"), is_told, "{nodes}");
    }
}
