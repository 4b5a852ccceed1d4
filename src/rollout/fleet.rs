//! The fleet: a row per DaemonSet, from the same walk as coverage and from the verdict on its rollout.

use std::collections::{BTreeMap, BTreeSet};

use super::situation::Situation;
use super::situation::judgement::Judgement;
use super::situation::severity::severity;
use super::situation::verdict::{is_complete_by_counts, verdict_of};
use super::status::held;
use crate::coverage::gaps;
use crate::coverage::incidents::Incidents;
use crate::coverage::options::Options;
use crate::coverage::walk::judge_daemon_set;
use crate::facts::Facts;
use crate::facts::index::Index;
use crate::model::hold::Hold;
use crate::model::snapshot::Snapshot;
use crate::report::coverage::Affected;
use crate::report::incident::{Incident, tell_once};
use crate::report::list::{ListReport, ListRow};
use crate::report::rollout_status::Verdict;

/// Reports how each DaemonSet of the snapshot is doing, most severe status first.
pub fn fleet(snapshot: &Snapshot) -> ListReport {
    let index = Index::new(snapshot);
    let mut incidents = Incidents::default();
    let mut rows: Vec<ListRow> =
        index.daemon_sets().into_iter().map(|daemon_set| row(Facts::new(&index, daemon_set), &mut incidents)).collect();
    // The sort is stable: equal ones stay in the order of namespace and name.
    rows.sort_by_key(|row| row.severity);
    let incidents = incidents.finish();
    rows.iter_mut().for_each(|row| tell_once(&incidents, &row.namespace, &row.name, &mut row.lost_pods));
    let nodes_known = index.knows_some_nodes();
    let not_ready = || index.nodes.iter().filter(|node| !node.is_ready()).count();
    ListReport {
        now: snapshot.now,
        incomplete: gaps::incomplete(snapshot),
        nodes_total: nodes_known.then_some(index.nodes.len()),
        nodes_not_ready: nodes_known.then(not_ready),
        incidents,
        daemon_sets: rows,
    }
}

/// Records which DaemonSets of incidents are in a rollout, by the same verdict as in the other reports.
pub fn note_rollouts(incidents: &mut [Incident], snapshot: &Snapshot) {
    let named: BTreeSet<String> = incidents.iter().flat_map(|incident| incident.daemon_sets.iter().cloned()).collect();
    if named.is_empty() {
        return;
    }
    let index = Index::new(snapshot);
    let daemon_sets = index.daemon_sets().into_iter().map(|daemon_set| (daemon_set.metadata.full_name(), daemon_set));
    let daemon_sets = daemon_sets.filter(|(name, _)| named.contains(name));
    let in_rollout: BTreeMap<String, Option<bool>> = daemon_sets
        .map(|(name, daemon_set)| {
            let situation = Situation::new(&index, daemon_set);
            (name, situation.is_in_rollout(verdict_of(&situation)))
        })
        .collect();
    for incident in incidents {
        let of = |name: &String| Some((name.clone(), (*in_rollout.get(name)?)?));
        let known: Option<Vec<(String, bool)>> = incident.daemon_sets.iter().map(of).collect();
        incident.in_rollout =
            known.map(|known| known.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect());
    }
}

/// Returns the row of a DaemonSet, and records what it has in common with others.
fn row(facts: Facts<'_>, incidents: &mut Incidents) -> ListRow {
    let judged = judge_daemon_set(&facts, &Options::default());
    let (daemon_set, coverage) = (facts.daemon_set, &judged.coverage);
    let template = &daemon_set.spec.template.spec;
    let problems = coverage.problems_by_code();
    let is_plain =
        problems.is_empty() && is_complete_by_counts(&facts, &coverage.counts) && Hold::of(daemon_set).is_none();
    let (coverage, (status, severity), hold) = match is_plain {
        true => {
            incidents.add(&facts, coverage, &Options::default(), Some(false));
            let healthy = severity(coverage, &problems, Verdict::Complete, false, None);
            (judged.coverage, healthy, None)
        }
        false => {
            let situation = Situation::of(facts, judged);
            let (judgement, hold) = (Judgement::of(&situation), held::hold(&situation));
            incidents.add(&situation, &situation.coverage, &Options::default(), judgement.in_rollout);
            let severity = judgement.severity(&problems, hold.as_ref());
            (situation.coverage, severity, hold)
        }
    };
    ListRow {
        namespace: coverage.namespace,
        name: coverage.name,
        status,
        counts: coverage.counts,
        strategy: coverage.strategy,
        hold,
        created_at: daemon_set.metadata.creation_timestamp.get(),
        images: template.containers.iter().map(|container| container.image.clone()).collect(),
        node_selector: template.node_selector.iter().map(|(key, value)| format!("{key}={value}")).collect(),
        counters: coverage.counters,
        removed_nodes: coverage.removed_nodes,
        lost_pods: coverage.lost_pods,
        problems,
        restarting: Affected::of(&coverage.restarting),
        not_eligible: Affected::of(&coverage.not_eligible),
        severity,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Index, Situation, fleet, note_rollouts, verdict_of};
    use crate::coverage::options::Options;
    use crate::coverage::test_support::{CURRENT, World, at, world};
    use crate::coverage::walk::coverage;
    use crate::model::daemon_set::DaemonSet;
    use crate::model::snapshot::{Gap, GapCause, Kind, Snapshot};
    use crate::report::list::Status;
    use crate::report::reason::ReasonCode;
    use crate::report::rollout_status::Verdict;
    use crate::report::{Envelope, Report};
    use crate::rollout::status::rollout_status;

    /// The verdicts alone would sort the one that only progresses last.
    #[test]
    fn status_has_the_order_of_the_list() {
        let starting = json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 9});
        let young = json!({"metadata": {"creationTimestamp": at("11:59:50")}});
        let mut snapshot = world()
            .daemon_set(json!({"metadata": {"name": "agent"}}))
            .node("a", json!({}))
            .unready_pod("agent-a", "a", starting, young)
            .finish();
        for (name, strategy) in [("by-hand", "OnDelete"), ("kept", "RollingUpdate")] {
            let mut other = snapshot.daemon_sets[0].object.clone();
            other["metadata"]["name"] = name.into();
            other["metadata"]["uid"] = format!("{name}-uid").into();
            other["spec"]["updateStrategy"] = json!({"type": strategy});
            other["spec"]["selector"] = json!({"matchLabels": {"app": name}});
            other["spec"]["template"]["metadata"]["labels"] = json!({"app": name});
            snapshot.daemon_sets.push(DaemonSet::from_object(other).unwrap());
        }
        let of_list = fleet(&snapshot).daemon_sets.into_iter().map(|row| row.name).collect::<Vec<_>>();
        let of_status = rollout_status(&snapshot, None).daemon_sets.into_iter().map(|row| row.name);
        assert_eq!(of_status.collect::<Vec<_>>(), of_list);
    }

    #[test]
    fn a_spec_that_nobody_acted_on_is_a_trouble_even_while_all_pods_are_available() {
        let snapshot = world()
            .daemon_set(json!({"metadata": {"generation": 3}}))
            .node("a", json!({}))
            .pod("agent-a", "a", json!({}))
            .finish();
        let row = &fleet(&snapshot).daemon_sets[0];
        assert_eq!((row.problems[0].code, row.problems[0].count), (ReasonCode::ControllerNotObserved, 0));
        assert_eq!(row.status, Status::NotObserved);
    }

    #[test]
    fn a_hold_is_told_even_if_every_pod_is_updated() {
        let held = |strategy: &str| {
            let annotations = json!({"kubectl-ds/original-update-strategy": "{\"type\":\"RollingUpdate\"}",
                "kubectl-ds/held-since": "2026-03-01T11:30:00Z", "kubectl-ds/partition": "90%"});
            let patch =
                json!({"metadata": {"annotations": annotations}, "spec": {"updateStrategy": {"type": strategy}}});
            let world = world().daemon_set(patch).node("a", json!({})).pod("agent-a", "a", json!({}));
            let row = fleet(&world.finish()).daemon_sets.remove(0);
            let hold = row.hold.expect("a hold");
            (row.status, hold.in_force, hold.partition.unwrap().to_string())
        };
        assert_eq!(held("OnDelete"), (Status::Paused, true, "90%".to_owned()));
        assert_eq!(held("RollingUpdate"), (Status::Healthy, false, "90%".to_owned()));
    }

    #[test]
    fn a_status_says_whether_time_alone_will_help() {
        let status = |world: crate::coverage::test_support::World| fleet(&world.finish()).daemon_sets[0].status;
        let one = || world().node("a", json!({}));
        let starting = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
        let just_now = crate::coverage::test_support::at("11:59:50");
        let conditions = json!([{"type": "Ready", "status": "False", "lastTransitionTime": just_now}]);
        let young = json!({"metadata": {"creationTimestamp": just_now}, "status": {"conditions": conditions}});
        let old = json!({"metadata": {"labels": {"controller-revision-hash": "old", "pod-template-generation": "1"}}});
        assert_eq!(status(one().unready_pod("agent-a", "a", starting, young)), Status::Progressing);
        assert_eq!(status(one().pod("agent-a", "a", old.clone())), Status::Progressing);
        let on_delete = json!({"spec": {"updateStrategy": {"type": "OnDelete"}}});
        assert_eq!(status(one().daemon_set(on_delete).pod("agent-a", "a", old.clone())), Status::Paused);
        let stuck = one().node("b", json!({})).pod("agent-a", "a", old);
        let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        assert_eq!(status(stuck.unready_pod("agent-b", "b", crashes, json!({}))), Status::Blocked);
        assert_eq!(status(one().template(json!({"nodeSelector": {"disk": "ssd"}}))), Status::NoNodes);
        let labeled = world().node("a", json!({"metadata": {"labels": {"disk": "ssd"}}}));
        let mistaken =
            fleet(&labeled.template(json!({"nodeSelector": {"disk": "SSD"}})).finish()).daemon_sets.remove(0);
        assert_eq!((mistaken.status, mistaken.problems.len()), (Status::NoNodes, 1));
        let unread = |mut world: World, kind: Kind| {
            world.snapshot.gaps.push(Gap { kind, namespace: None, cause: GapCause::NotInDump });
            status(world)
        };
        assert_eq!(unread(one(), Kind::Pods), Status::Unknown);
        // All nodes that were read are healthy, but not all were read.
        assert_eq!(unread(one().pod("agent-a", "a", json!({})), Kind::Nodes), Status::Unknown);
    }

    /// Returns the world's DaemonSet under another name, on the nodes of the pool with this name.
    fn of_pool(snapshot: &Snapshot, name: &str, patch: impl Fn(&mut Value)) -> DaemonSet {
        let mut object = snapshot.daemon_sets[0].object.clone();
        object["metadata"]["name"] = json!(name);
        object["metadata"]["uid"] = json!(format!("{name}-uid"));
        object["spec"]["template"]["spec"]["nodeSelector"] = json!({"pool": name});
        patch(&mut object);
        DaemonSet::from_object(object).unwrap()
    }

    fn in_pool(pool: &str) -> Value {
        json!({"metadata": {"labels": {"pool": pool}}})
    }

    fn owned_by(name: &str) -> Value {
        json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name,
            "uid": format!("{name}-uid"), "controller": true}]}})
    }

    fn order(mut snapshot: Snapshot, daemon_sets: Vec<DaemonSet>) -> Vec<String> {
        snapshot.daemon_sets = daemon_sets;
        let rows = fleet(&snapshot).daemon_sets;
        rows.into_iter().map(|row| format!("{}/{} {:?}", row.namespace, row.name, row.status)).collect()
    }

    #[test]
    fn what_fails_comes_before_what_takes_time() {
        let starting = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
        let mut young = owned_by("a");
        young["metadata"]["creationTimestamp"] = json!(at("11:59:50"));
        young["status"]["conditions"] =
            json!([{"type": "Ready", "status": "False", "lastTransitionTime": at("11:59:50")}]);
        let crashes = || json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let snapshot = world()
            .node("a0", in_pool("a"))
            .unready_pod("a0", "a0", starting, young)
            .node("b0", in_pool("B"))
            .node("c0", in_pool("c"))
            .unready_pod("c0", "c0", crashes(), owned_by("c"))
            .node("d0", in_pool("d"))
            .pod("d0", "d0", owned_by("d"))
            .node("d1", in_pool("d"))
            .unready_pod("d1", "d1", crashes(), owned_by("d"))
            .finish();
        let daemon_sets = vec![
            of_pool(&snapshot, "a", |_| {}),
            of_pool(&snapshot, "b", |_| {}),
            of_pool(&snapshot, "c", |object| object["metadata"]["generation"] = json!(3)),
            of_pool(&snapshot, "d", |_| {}),
        ];
        // No node is eligible for b, most likely by mistake.
        let expected = ["default/d Blocked", "default/c NotObserved", "default/b NoNodes", "default/a Progressing"];
        assert_eq!(order(snapshot, daemon_sets), expected);
    }

    #[test]
    fn of_those_alike_critical_ones_come_first_and_then_those_that_miss_the_most_of_their_nodes() {
        let pools = ["a", "a", "b", "b", "b", "c", "c", "c", "d", "d", "d"].into_iter().enumerate();
        let world = pools.fold(world(), |world, (number, pool)| world.node(&format!("n{number}"), in_pool(pool)));
        // a lacks 1 pod of 2, b 2 of 3, c and d 1 of 3.
        let world = world.pod("a0", "n0", owned_by("a")).pod("b0", "n2", owned_by("b"));
        let world = world.pod("c0", "n5", owned_by("c")).pod("c1", "n6", owned_by("c"));
        let mut in_kube_system = owned_by("d");
        in_kube_system["metadata"]["namespace"] = json!("kube-system");
        let world = world.pod("d0", "n8", in_kube_system.clone()).pod("d1", "n9", in_kube_system);
        let snapshot = world.finish();
        let priority = "system-node-critical";
        let daemon_sets = vec![
            of_pool(&snapshot, "a", |_| {}),
            of_pool(&snapshot, "b", |_| {}),
            of_pool(&snapshot, "c", |object| object["spec"]["template"]["spec"]["priorityClassName"] = json!(priority)),
            of_pool(&snapshot, "d", |object| object["metadata"]["namespace"] = json!("kube-system")),
        ];
        let expected = ["default/c", "kube-system/d", "default/b", "default/a"];
        assert_eq!(order(snapshot, daemon_sets), expected.map(|name| format!("{name} Progressing")));
    }

    #[test]
    fn nodes_that_are_not_ready_are_counted() {
        let ready = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
        let world = world().node("a", ready("True")).node("b", ready("True")).node("c", ready("Unknown"));
        let world = world.node("d", ready("False")).node("e", ready("True"));
        let report = fleet(&world.node("f", json!({"status": {"conditions": []}})).finish());
        assert_eq!((report.nodes_total, report.nodes_not_ready), (Some(6), Some(3)));
    }

    #[test]
    fn nodes_are_counted_unless_none_could_be_read() {
        let total = |nodes: usize, is_complete: bool| {
            let mut world = (0..nodes).fold(world(), |world, number| world.node(&format!("n{number}"), json!({})));
            if !is_complete {
                let cause = GapCause::Forbidden("list nodes".to_owned());
                world.snapshot.gaps.push(Gap { kind: Kind::Nodes, namespace: None, cause });
            }
            let report = fleet(&world.finish());
            (report.nodes_total, report.nodes_not_ready)
        };
        assert_eq!([total(0, true), total(2, true), total(2, false)], [0, 2, 2].map(|total| (Some(total), Some(0))));
        assert_eq!(total(0, false), (None, None));
    }

    #[test]
    fn a_rollout_is_not_complete_while_a_second_pod_is_terminating() {
        let terminating =
            json!({"metadata": {"creationTimestamp": at("11:40:00"), "deletionTimestamp": at("12:00:20")}});
        let one = || world().node("a", json!({})).pod("agent-a", "a", json!({}));
        let status = |world: World| fleet(&world.finish()).daemon_sets[0].status;
        assert_eq!(status(one()), Status::Healthy);
        assert_eq!(status(one().pod("agent-b", "a", terminating)), Status::Progressing);
    }

    /// Whether the pod of a down node is missing depends on its tolerations, which makes no difference to the cluster.
    #[test]
    fn nodes_that_are_not_ready_are_at_fault_whatever_their_pods_tolerate() {
        let status = |tolerations: Value| {
            let unknown = json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": at("11:00:00")}]);
            let taints = json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
            let down = json!({"status": {"conditions": unknown}, "spec": {"taints": taints}});
            let running = json!({"ready": false, "state": {"running": {"startedAt": at("10:00:00")}}});
            let world = world().template(json!({"tolerations": tolerations}));
            let world = world.node("a", json!({})).pod("agent-a", "a", json!({}));
            let world = world.node("b", down).unready_pod("agent-b", "b", running, json!({}));
            fleet(&world.finish()).daemon_sets.remove(0).status
        };
        assert_eq!(status(json!([{"operator": "Exists"}])), Status::NodesDown);
        assert_eq!(status(json!([])), Status::NodesDown);
    }

    #[test]
    fn who_has_lost_its_pod_on_a_node_that_is_down_is_not_better_off() {
        let status = |selector: Value, has_other: bool, is_ready: bool| {
            let unknown = json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": at("11:00:00")}]);
            let taints = json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]);
            let down = json!({"status": {"conditions": unknown}, "spec": {"taints": taints}});
            let world = world().template(json!({"nodeSelector": selector}));
            let world = match has_other {
                true => world.node("a", json!({"metadata": {"labels": {"pool": "x"}}})).pod("agent-a", "a", json!({})),
                false => world,
            };
            fleet(&world.node("b", if is_ready { json!({}) } else { down }).finish()).daemon_sets.remove(0).status
        };
        assert_eq!(status(json!(null), true, false), Status::NodesDown);
        assert_eq!(status(json!(null), false, false), Status::NodesDown);
        // It would have no pod on it anyway.
        assert_eq!(status(json!({"pool": "x"}), true, false), Status::Healthy);
        assert_eq!(status(json!({"pool": "x"}), false, true), Status::NoNodes);
    }

    #[test]
    fn while_all_nodes_are_down_a_rollout_is_still_one() {
        let told = |hash: &str| {
            let taints = json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]);
            let down = json!({"spec": {"taints": taints}, "status": {"conditions": [
                {"type": "Ready", "status": "Unknown", "lastTransitionTime": at("11:50:00")}]}});
            let pod = json!({"metadata": {"deletionTimestamp": at("11:59:58"), "labels": {"controller-revision-hash": hash,
                "pod-template-generation": null}}});
            let world = world().node("a", down.clone()).node("b", down);
            let world = world.pod("agent-a", "a", pod.clone()).pod("agent-b", "b", pod);
            let snapshot = world.finish();
            let index = Index::new(&snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            situation.is_in_rollout(verdict_of(&situation))
        };
        assert_eq!([told("hash1"), told(CURRENT)], [Some(true), Some(false)]);
    }

    /// `status` lists it, and a rolling update would delete it.
    #[test]
    fn an_old_pod_on_a_node_that_is_no_longer_eligible_is_one_of_a_rollout() {
        let tainted = json!({"spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}});
        let told = |hash: &str, node: &str| {
            let labels = json!({"controller-revision-hash": hash, "pod-template-generation": null});
            let world = world().daemon_set(json!({"spec": {"updateStrategy": {"type": "OnDelete"}}}));
            let world = world.node("a", json!({})).pod("agent-a", "a", json!({})).node("b", tainted.clone());
            let snapshot = world.pod("agent-b", node, json!({"metadata": {"labels": labels}})).finish();
            let index = Index::new(&snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            situation.is_in_rollout(verdict_of(&situation))
        };
        assert_eq!(
            [told("hash1", "b"), told(CURRENT, "b"), told("hash1", "gone")],
            [Some(true), Some(false), Some(false)]
        );
    }

    /// The table and the incident above it must agree about a DaemonSet.
    #[test]
    fn a_daemon_set_that_is_blocked_is_in_a_rollout_for_incidents_too() {
        let down = json!({"status": {"conditions": [
            {"type": "Ready", "status": "Unknown", "lastTransitionTime": at("11:50:00")}]}});
        let crashes = |owner: Value| {
            let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
            (crashes, owner)
        };
        let running = || json!({"ready": false, "state": {"running": {"startedAt": at("10:00:00")}}});
        let mut world = world().node("a", down).node("b", json!({}));
        for name in ["c", "d"] {
            let (container, owner) = crashes(owned_by(name));
            world = world.unready_pod(&format!("{name}-a"), "a", running(), owned_by(name));
            world = world.unready_pod(&format!("{name}-b"), "b", container, owner);
        }
        let mut snapshot = world.finish();
        let all = |object: &mut Value| object["spec"]["template"]["spec"]["nodeSelector"] = json!(null);
        snapshot.daemon_sets = vec![of_pool(&snapshot, "c", all), of_pool(&snapshot, "d", all)];
        let report = fleet(&snapshot);
        let blocked = report.daemon_sets.iter().filter(|row| row.status == Status::Blocked).count();
        let in_rollout = report.incidents[0].in_rollout.as_ref().map(Vec::len);
        assert_eq!((blocked, in_rollout), (2, Some(2)), "{:?}", report.incidents);
        assert_eq!(rollout_status(&snapshot, None).incidents, report.incidents);
        let mut of_coverage = coverage(&snapshot, &Options::default()).incidents;
        note_rollouts(&mut of_coverage, &snapshot);
        assert_eq!(of_coverage, report.incidents);
    }

    /// Returns the completed commands in a report.
    fn completed(mut report: impl Report) -> Vec<String> {
        report.suggestions(&mut |fix| fix.command = fix.command.take().map(|command| command.switch("--completed")));
        fn collect(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(fields) => fields.iter().for_each(|(name, value)| match value {
                    Value::String(command) if name == "command" => found.push(command.clone()),
                    _ => collect(value, found),
                }),
                Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
                _ => {}
            }
        }
        let mut found = Vec::new();
        collect(&serde_json::to_value(Envelope::of(&report)).unwrap(), &mut found);
        found
    }

    /// A command that is not completed uses the current context instead of the cluster of the report.
    #[test]
    fn whatever_is_suggested_about_removed_nodes_is_completed() {
        let mut world = world();
        world.snapshot.controller_revisions.clear();
        for (number, pool, created) in [(1, "general", "2026-02-01T00:00:00Z"), (2, "typo", "2026-03-01T11:59:56Z")] {
            let hash = format!("r{number}");
            world = world.template(json!({"nodeSelector": {"pool": pool}})).revision_of_image(&hash, number, "agent:2");
            let newest = world.snapshot.controller_revisions.last_mut().unwrap();
            newest.metadata.creation_timestamp = serde_json::from_value(json!(created)).unwrap();
        }
        let snapshot = world.node("a", json!({"metadata": {"labels": {"pool": "general"}}})).finish();
        for commands in [
            completed(fleet(&snapshot)),
            completed(coverage(&snapshot, &Options::default())),
            completed(rollout_status(&snapshot, None)),
        ] {
            let undo = commands.iter().any(|command| command.contains(" undo "));
            assert!(undo && commands.iter().all(|command| command.contains("--completed")), "{commands:#?}");
        }
    }

    #[test]
    fn a_complete_rollout_is_degraded_in_status_if_it_is_in_the_list() {
        let one = || world().node("a", json!({})).pod("agent-a", "a", json!({}));
        let tainted = json!({"spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}});
        let overlapping = |mut snapshot: Snapshot| {
            let mut other = snapshot.daemon_sets[0].clone();
            (other.metadata.name, other.metadata.uid) = ("zz".to_owned(), "zz-uid".to_owned());
            snapshot.daemon_sets.push(other);
            snapshot
        };
        let gone = one().template(json!({"nodeSelector": {"disk": "ssd"}})).pod("agent-gone", "gone", json!({}));
        for (snapshot, list) in [
            (one().finish(), Status::Healthy),
            (one().node("b", tainted).pod("agent-b", "b", json!({})).finish(), Status::Degraded),
            (overlapping(one().finish()), Status::Degraded),
            (gone.finish(), Status::Degraded),
            (world().node("a", json!({})).template(json!({"nodeSelector": {"disk": "ssd"}})).finish(), Status::NoNodes),
        ] {
            let row = fleet(&snapshot).daemon_sets.into_iter().find(|row| row.name == "agent").unwrap();
            let status = rollout_status(&snapshot, None).daemon_sets;
            let status = status.into_iter().find(|status| status.name == "agent").unwrap();
            assert_eq!((row.status, status.verdict), (list, Verdict::Complete));
            assert_eq!(status.status, list);
        }
    }
}
