//! What a different pace of a rolling update may break.

use super::replacement_warnings::Replacement;
use crate::facts::Facts;
use crate::model::daemon_set::{DaemonSet, Flavor};
use crate::model::int_or_percent::int;
use crate::model::pod::Pod;
use crate::model::pod_disruption_budget::PodDisruptionBudget;
use crate::model::snapshot::Snapshot;
use crate::report::age::{format_age, seconds_between};
use crate::report::count_and;
use crate::report::plan::{Effect, Pace, Warning, WarningCode};
use crate::scheduling::daemon_pods::{available_since, is_available};
use crate::scheduling::rolling_update::rolling_update;

/// The shortest rollout that is considered slow, in seconds.
const SLOW_ROLLOUT: i64 = 3600;

/// The number of nodes up to which updating all of them at once needs no warning.
const FEW_NODES: i64 = 5;

/// Returns what a faster or a slower pace may break.
pub(super) fn pace_warnings(
    before: Option<Pace>,
    effect: &Effect,
    after: &DaemonSet,
    snapshot: &Snapshot,
) -> Vec<Warning> {
    let Some(pace) = effect.after else { return Vec::new() };
    let is_new = before.is_none_or(|before| (before.surges, before.allowed) != (pace.surges, pace.allowed));
    let desired = effect.desired;
    let all_at_once = at_once(pace.surges, pace.allowed, desired).filter(|_| is_new);
    let mut warnings: Vec<Warning> = all_at_once.into_iter().collect();
    let mut warn = |code, message: String| warnings.push(Warning::new(code, message));
    // A longer minReadySeconds makes pods unavailable that have not been ready for that long.
    let regardless = |pace: Pace| pace.replaced_regardless.unwrap_or_default();
    if regardless(pace) > before.map_or(0, regardless) {
        let message = match regardless(pace) {
            1 => "1 pod on an older revision would count as unavailable, and the controller would replace it immediately, \
                  regardless of the limit"
                .to_owned(),
            pods => format!(
                "{pods} pods on an older revision would count as unavailable, and the controller would replace them \
                 immediately, regardless of the limit"
            ),
        };
        warn(WarningCode::ReplacedRegardless, message);
    }
    let was_slower = before.is_some_and(|before| before.min_rollout_seconds >= pace.min_rollout_seconds);
    if pace.min_rollout_seconds >= SLOW_ROLLOUT && !was_slower {
        let duration = format_age(pace.min_rollout_seconds);
        let seconds = after.spec.min_ready_seconds;
        let allowed = pace.allowed;
        let message = format!(
            "a rollout to all {desired} nodes takes at least {duration}: {allowed} at a time, and each new pod must be \
             ready for minReadySeconds ({seconds}s)"
        );
        warn(WarningCode::SlowRollout, message);
    }
    if !pace.surges && is_new {
        warnings.extend(disruption_budgets(after, pace.allowed, snapshot));
    }
    warnings
}

/// Warns about a new template that may reach all nodes at once. In a small cluster the effect already says that.
pub(super) fn template_at_once(effect: &Effect) -> Option<Warning> {
    let pace = effect.after.filter(|_| effect.desired > FEW_NODES)?;
    at_once(pace.surges, pace.allowed, effect.desired)
}

/// Warns if all nodes may be without an available pod at the same time, or get a second one if it `surges`.
pub(super) fn at_once(surges: bool, allowed: i64, desired: i64) -> Option<Warning> {
    let message = match surges {
        true => format!("a rollout may create a second pod on all {desired} nodes at once"),
        false => format!("a rollout may make the pods of all {desired} nodes unavailable at the same time"),
    };
    (desired > 1 && allowed >= desired).then(|| Warning::new(WarningCode::AllAtOnce, message))
}

/// Returns the PodDisruptionBudgets that match the pods of a DaemonSet.
pub(super) fn matching_budgets<'a>(
    daemon_set: &'a DaemonSet,
    snapshot: &'a Snapshot,
) -> impl Iterator<Item = &'a PodDisruptionBudget> {
    let labels = &daemon_set.spec.template.metadata.labels;
    let budgets = snapshot.pod_disruption_budgets.iter();
    budgets.filter(move |budget| budget.selects(&daemon_set.metadata.namespace, labels))
}

/// Warns about PodDisruptionBudgets that allow fewer unavailable pods than a rolling update. The controller deletes
/// pods without eviction, so no budget limits it.
fn disruption_budgets(daemon_set: &DaemonSet, allowed: i64, snapshot: &Snapshot) -> Vec<Warning> {
    let exceeded = matching_budgets(daemon_set, snapshot).filter_map(|budget| {
        let name = &budget.metadata.name;
        let message = match budget.allowed_unavailable() {
            Some(by_budget) if by_budget >= allowed => return None,
            Some(by_budget) => format!(
                "PodDisruptionBudget {name:?} allows {by_budget} of {} pods to be unavailable, and maxUnavailable allows \
                 {allowed}: a rolling update deletes pods without eviction, so the budget does not limit it",
                budget.status.expected_pods
            ),
            None => format!(
                "PodDisruptionBudget {name:?} matches the pods, and how many it allows to be unavailable is not computed \
                 (for pods of a DaemonSet it needs minAvailable as a number); a rolling update deletes pods without \
                 eviction, so the budget does not limit it"
            ),
        };
        Some(Warning::new(WarningCode::DisruptionBudget, message))
    });
    exceeded.collect()
}

/// Warns about pods that are ready, but not yet for `minReadySeconds`: the controller deletes them at once, in addition to the
/// limit (`rollingUpdate`, pkg/controller/daemon/update.go, release 1.37.2). A surge does not delete available pods.
pub(super) fn ready_pods_deleted(facts: &Facts<'_>, replacement: &Replacement<'_>) -> Option<Warning> {
    let Replacement { after, hash, .. } = *replacement;
    let is_known = facts.nodes_known && facts.pods_known;
    if !replacement.by_controller || after.flavor() == Flavor::Advanced || !is_known {
        return None;
    }
    let (now, seconds) = (facts.ready_clock(), after.spec.min_ready_seconds);
    let step = rolling_update(after, hash, &facts.node_pods, now).ok().filter(|step| !step.surges)?;
    let ready: Vec<&Pod> = step.delete.iter().copied().filter(|pod| pod.is_ready()).collect();
    let until = ready.iter().filter_map(|pod| available_since(pod, seconds)).max()?;
    if int(step.used_by.len()) <= step.allowed {
        return None;
    }
    let deletes = if ready.len() == 1 { "it" } else { "all" };
    let message = format!(
        "{} ready, but not yet for minReadySeconds ({}): the controller deletes {deletes} at once; wait {}",
        count_and(ready.len(), "pod", ["is", "are"]),
        format_age(seconds),
        format_age(seconds_between(now, until))
    );
    Some(Warning::new(WarningCode::ReadyPodsDeleted, message))
}

/// Warns about pods that are available, and not under a longer `minReadySeconds`: how many, until when, and whether a rollout waits for
/// them.
pub(super) fn become_unavailable(facts: &Facts<'_>, after: &DaemonSet, effect: &Effect) -> Option<Warning> {
    let (before, seconds) = (facts.daemon_set.spec.min_ready_seconds, after.spec.min_ready_seconds);
    if seconds <= before || !facts.pods_known {
        return None;
    }
    let now = facts.ready_clock();
    let is_left = |pod: &&Pod| !pod.metadata.is_terminating() && is_available(pod, before, now);
    let pods: Vec<&Pod> = facts.pods().filter(|pod| is_left(pod) && !is_available(pod, seconds, now)).collect();
    let until = pods.iter().filter_map(|pod| available_since(pod, seconds)).max()?;
    let waits = effect.after.is_some_and(|pace| {
        !pace.surges && effect.outdated != Some(0) && pace.in_use.is_some_and(|in_use| in_use >= pace.allowed)
    });
    let message = format!(
        "{} unavailable immediately, the last one for {}: not yet ready for minReadySeconds ({}){}",
        count_and(pods.len(), "pod", ["becomes", "become"]),
        format_age(seconds_between(now, until)),
        format_age(seconds),
        if waits { "; until then, maxUnavailable is used up" } else { "" }
    );
    Some(Warning::new(WarningCode::BecomeUnavailable, message))
}

/// Warns about the newer pods of nodes with two, which the controller deletes if the surge ends.
pub(super) fn surge_pods_deleted(effect: &Effect) -> Option<Warning> {
    let message = match effect.surge_pods_deleted.len() {
        0 => return None,
        1 => "1 node has two pods: the controller deletes the newer one".to_owned(),
        nodes => format!("{nodes} nodes have two pods: the controller deletes the newer one of each"),
    };
    let message = format!("{message}, and a pending pod of another workload may take its resources");
    Some(Warning::new(WarningCode::SurgePodsDeleted, message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{become_unavailable, pace_warnings, ready_pods_deleted, template_at_once};
    use crate::coverage::test_support::{CURRENT, at, world};
    use crate::facts::Facts;
    use crate::facts::index::Index;
    use crate::report::plan::{Effect, Pace, WarningCode};
    use crate::rollout::replacement_warnings::Replacement;

    fn effect(desired: i64, after: Pace) -> Effect {
        let (outdated, not_replaced, before, revisions_deleted) = (None, None, None, None);
        Effect {
            desired,
            nodes_gained: Vec::new(),
            nodes_lost: Vec::new(),
            outdated,
            not_replaced,
            before,
            after: Some(after),
            standstill: None,
            surge_pods_deleted: Vec::new(),
            revisions_deleted,
        }
    }

    fn pace(surges: bool, allowed: i64, min_rollout_seconds: i64) -> Pace {
        let (in_use, replaced_now, replaced_regardless) = (None, None, None);
        Pace { surges, allowed, in_use, replaced_now, replaced_regardless, min_rollout_seconds }
    }

    #[test]
    fn only_what_the_new_pace_breaks_is_warned_of() {
        use WarningCode::{AllAtOnce, DisruptionBudget, SlowRollout};
        let mut snapshot = world().finish();
        let budget = json!({"metadata": {"name": "few", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}}});
        snapshot.pod_disruption_budgets.push(serde_json::from_value(budget).unwrap());
        let daemon_set = &snapshot.daemon_sets[0];
        for (before, after, desired, expected) in [
            (None, pace(false, 2, 0), 10, &[DisruptionBudget][..]),
            (Some(pace(false, 1, 0)), pace(false, 2, 0), 10, &[DisruptionBudget]),
            (Some(pace(false, 2, 0)), pace(false, 2, 0), 10, &[]),
            // A surge makes no pod unavailable.
            (None, pace(true, 2, 0), 10, &[]),
            (None, pace(true, 10, 0), 10, &[AllAtOnce]),
            (None, pace(true, 2, 0), 2, &[AllAtOnce]),
            (None, pace(true, 1, 0), 1, &[]),
            (None, pace(true, 1, 3600), 10, &[SlowRollout]),
            (None, pace(true, 1, 3599), 10, &[]),
            (Some(pace(true, 1, 1800)), pace(true, 1, 3600), 10, &[SlowRollout]),
            (Some(pace(true, 1, 3600)), pace(true, 1, 3600), 10, &[]),
            (Some(pace(true, 1, 7200)), pace(true, 1, 3600), 10, &[]),
        ] {
            let warnings = pace_warnings(before, &effect(desired, after), daemon_set, &snapshot);
            let codes: Vec<WarningCode> = warnings.iter().map(|warning| warning.code).collect();
            assert_eq!(codes, expected, "{before:?} {after:?} {desired}");
        }
    }

    /// Pods of an older revision, each ready since a time or not at all.
    fn ready_since(strategy: serde_json::Value, times: &[Option<&str>]) -> Option<String> {
        let mut world = world()
            .revision("hash1", 1)
            .daemon_set(json!({"spec": {"updateStrategy": strategy, "minReadySeconds": 600}}));
        let labels = json!({"controller-revision-hash": "hash1", "pod-template-generation": "1"});
        for (number, time) in times.iter().enumerate() {
            let (node, pod) = (format!("n{number}"), format!("agent-{number}"));
            let status = if time.is_some() { "True" } else { "False" };
            let ready =
                json!({"type": "Ready", "status": status, "lastTransitionTime": at(time.unwrap_or("11:00:00"))});
            let patch = json!({"metadata": {"labels": labels}, "status": {"conditions": [ready]}});
            world = world.node(&node, json!({})).pod(&pod, &node, patch);
        }
        let snapshot = world.finish();
        let index = Index::new(&snapshot);
        let facts = Facts::new(&index, &snapshot.daemon_sets[0]);
        ready_pods_deleted(&facts, &Replacement::of_template(&snapshot.daemon_sets[0], CURRENT, true))
            .map(|warning| warning.message)
    }

    #[test]
    fn ready_pods_that_are_not_available_yet_are_warned_of_if_more_are_deleted_than_the_limit_allows() {
        let (late, soon, long_ago) = (Some("11:59:00"), Some("11:52:00"), Some("11:00:00"));
        let unavailable = |number: i64| json!({"rollingUpdate": {"maxUnavailable": number}});
        let all = "ready, but not yet for minReadySeconds (10m): the controller deletes all at once; wait 9m";
        let soon_all = "ready, but not yet for minReadySeconds (10m): the controller deletes all at once; wait 2m";
        let one = "1 pod is ready, but not yet for minReadySeconds (10m): the controller deletes it at once; wait 9m";
        for (strategy, times, expected) in [
            (unavailable(2), &[late; 8][..], Some(format!("8 pods are {all}"))),
            (unavailable(2), &[soon; 8], Some(format!("8 pods are {soon_all}"))),
            (unavailable(2), &[soon, late, soon, long_ago], Some(format!("3 pods are {all}"))),
            (unavailable(1), &[late, None, long_ago], Some(one.to_owned())),
            // No more than the limit allows anyway.
            (unavailable(2), &[late, late, long_ago], None),
            (unavailable(8), &[late; 8], None),
            (unavailable(1), &[late, long_ago], None),
            // They are not ready, and replacing them costs nothing.
            (unavailable(1), &[None, None, None], None),
            (unavailable(1), &[long_ago; 4], None),
            // A surge deletes no available pod, and under OnDelete the controller deletes none.
            (json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}), &[late; 8], None),
            (json!({"type": "OnDelete"}), &[late; 8], None),
        ] {
            assert_eq!(ready_since(strategy.clone(), times), expected, "{strategy} {times:?}");
        }
    }

    #[test]
    fn pods_that_a_longer_min_ready_seconds_makes_unavailable_are_counted() {
        for (seconds, times, in_use, expected) in [
            (
                600,
                &["11:59:00", "11:52:00", "11:00:00"][..],
                2,
                Some("2 pods become unavailable immediately, the last one for 9m: "),
            ),
            (120, &["11:58:30", "11:00:00"], 1, Some("1 pod becomes unavailable immediately, the last one for 30s: ")),
            (7200, &["11:00:00"; 5], 5, Some("5 pods become unavailable immediately, the last one for 60m: ")),
            (60, &["11:58:30"], 0, None),
            // They are unavailable already.
            (30, &["11:59:45"], 0, None),
            // A shorter one.
            (0, &["11:59:45"], 0, None),
        ] {
            let mut world = world().daemon_set(json!({"spec": {"minReadySeconds": 30}}));
            for (number, time) in times.iter().enumerate() {
                let node = format!("n{number}");
                let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": at(time)}]);
                let patch = json!({"status": {"conditions": ready}});
                world = world.node(&node, json!({})).pod(&format!("agent-{number}"), &node, patch);
            }
            let snapshot = world.finish();
            let index = Index::new(&snapshot);
            let mut after = snapshot.daemon_sets[0].clone();
            after.spec.min_ready_seconds = seconds;
            let facts = Facts::new(&index, &snapshot.daemon_sets[0]);
            for (outdated, allowed) in [(2, 1), (2, 9), (0, 1)] {
                let pace = Pace { in_use: Some(in_use), ..pace(false, allowed, 0) };
                let effect = Effect { outdated: Some(outdated), ..effect(5, pace) };
                let told = become_unavailable(&facts, &after, &effect).map(|warning| warning.message);
                assert_eq!(
                    told.as_ref().map(|told| told.starts_with(expected.unwrap())),
                    expected.map(|_| true),
                    "{told:?}"
                );
                let waits = told.map(|told| told.contains("maxUnavailable is used up"));
                assert_eq!(waits, expected.map(|_| outdated > 0 && in_use >= allowed));
            }
        }
    }

    #[test]
    fn a_template_that_reaches_all_nodes_at_once_is_warned_of_unless_they_are_few() {
        let is_warned_of = |desired, allowed| template_at_once(&effect(desired, pace(false, allowed, 0))).is_some();
        assert_eq!(
            [(6, 6), (5, 5), (6, 5), (1, 1)].map(|(desired, allowed)| is_warned_of(desired, allowed)),
            [true, false, false, false]
        );
    }
}
