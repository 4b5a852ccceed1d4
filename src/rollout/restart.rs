//! A restart, and what prevents it from having an effect.

use jiff::Timestamp;

use super::proposal::{Planned, propose_template};
use super::replacement_warnings::unless_harmful;
use super::situation::Situation;
use crate::difference::only_restarts;
use crate::plan::Plan;
use crate::report::plan::Warning;

/// Plans to restart all pods.
///
/// # Errors
///
/// Fails with the reasons if the controller would delete healthy pods for new ones that certainly fail or are refused,
/// unless forced.
pub fn restart(before: &Situation<'_>, force: bool) -> Result<Planned, Vec<Warning>> {
    let plan = Plan::restart(before.daemon_set, restart_time(before));
    unless_harmful(propose_template(before, plan, None), force)
}

/// Returns the time that tells this restart from the last one: a proxy may repeat the date of a response forever, so this machine's time
/// counts if the server's has not moved since.
pub(crate) fn restart_time(before: &Situation<'_>) -> Timestamp {
    let (template, snapshot) = (before.daemon_set.template(), before.index.snapshot);
    let last = template.restarted_at().and_then(|at| at.parse::<Timestamp>().ok()).map(Timestamp::as_second);
    let local = snapshot.now.checked_sub(snapshot.clock_difference).unwrap_or(snapshot.now);
    match last {
        Some(last) if snapshot.now.as_second() <= last && last < local.as_second() => local,
        _ => snapshot.now,
    }
}

/// Returns the time of the restart that a rollback under a hold leaves, if what it leaves is nothing but one.
pub(crate) fn left_restart(before: &Situation<'_>) -> Option<Timestamp> {
    let left = before.revisions.left_by_rollback()?;
    let live = before.daemon_set.template();
    let at = left.restarted_at().filter(|at| only_restarts(left, &live) && live.restarted_at() != Some(at))?;
    at.parse().ok()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::{left_restart, restart};
    use crate::coverage::test_support::{at, world};
    use crate::facts::index::Index;
    use crate::model::hold::StageFlags;
    use crate::rollout::situation::Situation;

    #[test]
    fn a_date_that_stands_still_does_not_prevent_a_second_restart() {
        for (last, ahead, expected) in [
            ("11:59:00", 0, true),
            ("12:00:00", 0, false),
            ("12:00:00", -600, true),
            ("12:00:00", 600, false),
            ("12:10:00", -600, true),
        ] {
            let annotations = json!({"kubectl.kubernetes.io/restartedAt": at(last)});
            let world = world().daemon_set(json!({"spec": {"template": {"metadata": {"annotations": annotations}}}}));
            let mut snapshot = world.node("a", json!({})).pod("agent-a", "a", json!({})).finish();
            snapshot.clock_difference = SignedDuration::from_secs(ahead);
            let index = Index::new(&snapshot);
            let planned = restart(&Situation::new(&index, &snapshot.daemon_sets[0]), true).unwrap();
            assert_eq!(planned.plan.step.is_some(), expected, "{last} {ahead}");
        }
    }

    /// The controller counts a pod as updated whose generation is that which the restart gives the DaemonSet.
    #[test]
    fn pods_of_a_former_daemon_set_are_restarted_only_if_the_controller_replaces_them() {
        let adopted = |generation: &str| {
            let labels = json!({"controller-revision-hash": "left", "pod-template-generation": generation});
            json!({"metadata": {"labels": labels}})
        };
        let nodes = [("a", adopted("2")), ("b", adopted("3")), ("c", json!({}))];
        let world = nodes.iter().fold(world(), |world, (node, pod)| {
            world.node(node, json!({})).pod(&format!("agent-{node}"), node, pod.clone())
        });
        let snapshot = world.finish();
        let index = Index::new(&snapshot);
        let planned = restart(&Situation::new(&index, &snapshot.daemon_sets[0]), true).unwrap();
        assert_eq!(planned.report.effect.unwrap().outdated, Some(2));
    }

    /// The same command goes on with the way back that its client has died on.
    #[test]
    fn the_restart_that_a_rollback_leaves_is_known() {
        let left = |is_undo: bool, image: &str| {
            let flags = StageFlags {
                is_undo,
                replaced_revision: Some("hash2".to_owned()),
                target_revision: Some("hash1".to_owned()),
                progress_deadline_seconds: 600,
                ..StageFlags::default()
            };
            let annotations = json!({"kubectl-ds/original-update-strategy": "{\"type\":\"RollingUpdate\"}",
                "kubectl-ds/held-since": at("11:50:00"), "kubectl-ds/partition": "0",
                "kubectl-ds/gates": flags.to_annotation()});
            let world = world().daemon_set(json!({"metadata": {"annotations": annotations},
                "spec": {"updateStrategy": {"type": "OnDelete"}}}));
            let mut world = world.revision_of_image("hash2", 9, image);
            let restarted = json!({"kubectl.kubernetes.io/restartedAt": at("11:40:00")});
            let revision = world.snapshot.controller_revisions.last_mut().unwrap();
            revision.object["data"]["spec"]["template"]["metadata"]["annotations"] = restarted;
            let snapshot = world.finish();
            let index = Index::new(&snapshot);
            left_restart(&Situation::new(&index, &snapshot.daemon_sets[0]))
        };
        assert_eq!((left(true, "agent:2"), left(false, "agent:2")), (at("11:40:00").parse().ok(), None));
        assert_eq!(left(true, "agent:1"), None, "it had been restarted before");
    }
}
