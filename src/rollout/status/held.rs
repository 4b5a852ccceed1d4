//! What a pause or a partition holds, and what has slipped through.

use crate::model::hold::Hold;
use crate::report::rollout_status::RolloutHold;
use crate::rollout::partition::kept;
use crate::rollout::partition::staging::{held_stages, stopped};
use crate::rollout::situation::{RolloutNode, Situation};

/// Returns the hold of a DaemonSet.
pub(in crate::rollout) fn hold(situation: &Situation<'_>) -> Option<RolloutHold> {
    let hold = Hold::of(situation.daemon_set)?;
    Some(RolloutHold {
        original_strategy: hold.original_strategy(),
        original_assumed: hold.is_original_lost,
        partition: hold.partition,
        since: hold.since,
        in_force: hold.is_in_force,
        leaked: leaked(situation, &hold),
        unverified: is_unverified(situation, &hold),
        of_another_template: hold.is_in_force && hold.is_of_another_template(situation.daemon_set),
        staged: held_stages(situation, &hold),
        stopped: stopped(situation, &hold),
    })
}

/// Returns whether a stage of all nodes with `--verify` ended before it restored the strategy, for example because the command
/// failed.
pub(super) fn is_unverified(situation: &Situation<'_>, hold: &Hold) -> bool {
    hold.is_in_force
        && hold.partition.is_some_and(|partition| partition.value() == 0)
        && hold.flags.as_ref().is_some_and(|flags| flags.verifies)
        && situation.nodes.iter().all(|node| node.old.is_none())
}

/// Counts the nodes that were updated without `partition`. Under OnDelete every new pod gets the current template.
fn leaked(situation: &Situation<'_>, hold: &Hold) -> usize {
    match hold.partition {
        // A node that is not eligible any more still has its pod.
        Some(partition) => {
            let all = situation.nodes.iter().filter(|node| node.eligible || node.old.is_some());
            kept(partition, all.clone().count()).saturating_sub(all.filter(|node| node.old.is_some()).count())
        }
        // Pods created after the end of a rollout have the same template as all others.
        None if situation.rollout_began_at() <= hold.since && situation.eligible().all(|node| node.old.is_none()) => 0,
        None => {
            let is_later = |node: &&RolloutNode<'_>| {
                let created = node.updated.and_then(|pod| pod.metadata.creation_timestamp.get());
                created.zip(hold.since).is_some_and(|(created, since)| created > since)
            };
            situation.eligible().filter(is_later).count()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::coverage::test_support::{World, world};
    use crate::model::hold::{STOPPED, StageFlags};
    use crate::report::rollout_status::{RolloutStatus, Verdict};
    use crate::rollout::status::rollout_status;

    /// Six nodes held for half an hour: the first `updated` have a pod of the current revision, created at that time.
    fn held(strategy: &Value, partition: Option<&str>, updated: usize, created: &str) -> RolloutStatus {
        let original = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}).to_string();
        let annotations = json!({"kubectl-ds/original-update-strategy": original,
            "kubectl-ds/held-since": "2026-03-01T11:30:00Z", "kubectl-ds/partition": partition});
        let patch = json!({"metadata": {"annotations": annotations}, "spec": {"updateStrategy": strategy}});
        let mut world: World = world().daemon_set(patch);
        for number in 0..6 {
            let node = format!("n{number}");
            let of = if number < updated { ("hash2", "2") } else { ("hash1", "1") };
            let labels = json!({"controller-revision-hash": of.0, "pod-template-generation": of.1});
            let metadata = json!({"labels": labels, "creationTimestamp": created});
            world = world.node(&node, json!({})).pod(&format!("agent-{number}"), &node, json!({"metadata": metadata}));
        }
        rollout_status(&world.finish(), None).daemon_sets.remove(0)
    }

    #[test]
    fn nodes_that_were_updated_without_partition_are_counted() {
        let on_delete = json!({"type": "OnDelete"});
        let leaked = |partition, updated, created: &str| {
            let status = held(&on_delete, partition, updated, &format!("2026-03-01T{created}Z"));
            status.hold.unwrap().leaked
        };
        // Of 6 pods 50% are kept, or 4.
        assert_eq!((leaked(Some("50%"), 3, "11:40:00"), leaked(Some("50%"), 5, "11:40:00")), (0, 2));
        assert_eq!((leaked(Some("4"), 2, "11:40:00"), leaked(Some("4"), 3, "11:40:00")), (0, 1));
        assert_eq!((leaked(None, 2, "11:40:00"), leaked(None, 2, "11:20:00")), (2, 0));
        // Timestamps have a resolution of seconds: a pod created in the same second does not count.
        assert_eq!(leaked(None, 2, "11:30:00"), 0);
        // The rollout was complete before the pause.
        assert_eq!(leaked(None, 6, "11:40:00"), 0);
    }

    #[test]
    fn a_stage_of_all_nodes_that_did_not_pass_its_gates_is_not_over() {
        for (partition, verifies, is_unverified) in [("0", true, true), ("0", false, false), ("2", true, false)] {
            let flags = StageFlags { verifies, progress_deadline_seconds: 600, ..StageFlags::default() };
            let gates = flags.to_annotation();
            let annotations = json!({"kubectl-ds/original-update-strategy": r#"{"type":"RollingUpdate"}"#,
                "kubectl-ds/held-since": "2026-03-01T11:30:00Z", "kubectl-ds/partition": partition, "kubectl-ds/gates": gates});
            let patch =
                json!({"metadata": {"annotations": annotations}, "spec": {"updateStrategy": {"type": "OnDelete"}}});
            let world = world().daemon_set(patch).node("n", json!({})).pod("agent-n", "n", json!({}));
            let status = rollout_status(&world.finish(), None).daemon_sets.remove(0);
            let commands: Vec<String> =
                status.way_out.iter().filter_map(|fix| Some(fix.command.as_ref()?.to_string())).collect();
            assert_eq!(status.hold.unwrap().unverified, is_unverified, "{partition} {verifies}");
            assert_eq!(commands[0].contains("--verify"), is_unverified, "{commands:?}");
            assert_eq!(commands.last().unwrap(), "kubectl ds resume -n default agent");
        }
    }

    #[test]
    fn a_hold_tells_why_its_last_run_has_stopped() {
        for (at_time, created, is_told) in [
            ("11:45:00", "11:40:00", true),
            ("11:45:00", "11:50:00", false),
            ("11:20:00", "11:10:00", false),
            // In the second in which the hold began.
            ("11:30:00", "11:10:00", true),
        ] {
            let annotations = json!({"kubectl-ds/original-update-strategy": r#"{"type":"RollingUpdate"}"#,
                "kubectl-ds/held-since": "2026-03-01T11:30:00.4Z", "kubectl-ds/partition": "1"});
            let patch =
                json!({"metadata": {"annotations": annotations}, "spec": {"updateStrategy": {"type": "OnDelete"}}});
            let pod = json!({"metadata": {"creationTimestamp": format!("2026-03-01T{created}Z")}});
            let world = world().daemon_set(patch).node("n", json!({})).pod("agent-n", "n", pod);
            let world = world.event("DaemonSet", "agent", STOPPED, "n: it crashes", at_time);
            let hold = rollout_status(&world.finish(), None).daemon_sets.remove(0).hold.unwrap();
            assert_eq!(hold.stopped.map(|stop| stop.message), is_told.then(|| "n: it crashes".to_owned()));
        }
    }

    #[test]
    fn a_hold_is_shown_with_how_to_leave_it() {
        let commands = |status: &RolloutStatus| -> Vec<String> {
            status.way_out.iter().filter_map(|fix| Some(fix.command.as_ref()?.to_string())).collect()
        };
        let status = held(&json!({"type": "OnDelete"}), None, 2, "2026-03-01T11:20:00Z");
        let hold = status.hold.as_ref().unwrap();
        assert_eq!(
            (status.verdict, hold.in_force, hold.original_strategy.to_string()),
            (Verdict::Paused, true, "RollingUpdate 10%".to_owned())
        );
        assert_eq!(
            commands(&status),
            ["kubectl ds partition -n default agent 0", "kubectl ds resume -n default agent"]
        );
        let all = held(&json!({"type": "OnDelete"}), None, 6, "2026-03-01T11:20:00Z");
        assert_eq!(
            (all.verdict, commands(&all)),
            (Verdict::Complete, vec!["kubectl ds resume -n default agent".to_owned()])
        );
        let overridden = held(&json!({"type": "RollingUpdate"}), None, 2, "2026-03-01T11:20:00Z");
        assert!(!overridden.hold.as_ref().unwrap().in_force);
        assert_eq!(commands(&overridden), ["kubectl ds pause -n default agent", "kubectl ds resume -n default agent"]);
    }
}
