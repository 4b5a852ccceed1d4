//! A restart, and what prevents it from having an effect.

use jiff::Timestamp;

use super::proposal::{Planned, propose_template};
use super::replacement_warnings::unless_harmful;
use super::situation::Situation;
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

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::restart;
    use crate::coverage::test_support::{at, world};
    use crate::facts::index::Index;
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
}
