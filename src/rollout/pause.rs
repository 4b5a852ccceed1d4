//! Pausing a rollout and resuming it.

use serde_json::Value;

use super::change_warnings::{self, holder, lost_original, who_puts_back};
use super::effect::SurgePods;
use super::partition::is_skipped;
use super::partition::plan::{self as partition, Amount, StageRequest};
use super::partition::template::NewTemplate;
use super::partition::way_out::Continued;
use super::proposal::{Planned, Proposal};
use super::replacement_warnings::unless_harmful;
use super::rollback::{rollback, spreads_failure};
use super::situation::{RolloutNode, Situation};
use crate::facts::revisions::name_of;
use crate::model::daemon_set::{DaemonSet, Flavor, UpdateStrategy};
use crate::model::hold::Hold;
use crate::model::int_or_percent::IntOrPercent;
use crate::model::server_side_apply::managed_fields;
use crate::plan::{FIELD_MANAGER, Plan};
use crate::report::fix::Fix;
use crate::report::partition::SKIP_LABEL;
use crate::report::plan::{PlanKind, Warning, WarningCode};

/// Why a pause is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PauseRefusal {
    /// Another manager decides about the update strategy; contains its name.
    HeldBy(String),
    /// Nodes have two pods, of which the controller would delete these, the newer ones.
    SurgePods(SurgePods),
}

/// Plans to suspend the update strategy of a DaemonSet.
///
/// # Errors
///
/// Fails if another manager decides about the strategy, or if pods of a surge would be deleted but may not be.
pub(crate) fn pause(before: &Situation<'_>, delete_surge_pods: bool) -> Result<Planned, PauseRefusal> {
    let daemon_set = before.daemon_set;
    if let Some(holder) = holder(daemon_set) {
        return Err(PauseRefusal::HeldBy(holder));
    }
    let mut planned = planned(before, Plan::pause(daemon_set, before.now()), PlanKind::PausePlan);
    if let Some(effect) = &planned.report.effect {
        SurgePods::check(effect, delete_surge_pods, before).map_err(PauseRefusal::SurgePods)?;
    }
    let report = &mut planned.report;
    let is_on_delete = daemon_set.spec.update_strategy == UpdateStrategy::OnDelete;
    if report.needed && !is_on_delete {
        report.warnings.extend(who_puts_back(daemon_set, None, false));
        return Ok(planned);
    }
    let why = match Hold::of(daemon_set) {
        _ if report.needed => "a client that is replacing pods stops",
        Some(Hold { partition: Some(_), .. }) => "it is partitioned, so the controller replaces no pods",
        None if is_on_delete => "its update strategy is OnDelete, so the controller replaces no pods",
        _ => "it is already paused",
    };
    report.why = Some(why.to_owned());
    Ok(planned)
}

/// Plans to restore the update strategy of a DaemonSet.
///
/// # Errors
///
/// Fails with the reasons if the controller would then delete healthy pods for new ones that certainly fail or are refused, unless forced.
pub(crate) fn resume(before: &Situation<'_>, force: bool) -> Result<Planned, Vec<Warning>> {
    let daemon_set = before.daemon_set;
    let mut planned = planned(before, Plan::resume(daemon_set), PlanKind::ResumePlan);
    let report = &mut planned.report;
    report.warnings.extend(lost_original(daemon_set));
    report.warnings.extend(replaces_skipped(before).filter(|_| report.needed));
    let another = || change_warnings::another_template(before).filter(|_| report.needed);
    let wrong_template = not_rolled_back(before).or_else(another);
    report.warnings.splice(0..0, wrong_template);
    let is_on_delete = daemon_set.spec.update_strategy == UpdateStrategy::OnDelete;
    report.why = match Hold::of(daemon_set) {
        Some(hold) if !hold.is_in_force => {
            Some("the update strategy is no longer OnDelete, so it is not changed".to_owned())
        }
        None if !report.needed && is_on_delete => {
            Some("its update strategy is OnDelete, which `set --type` changes".to_owned())
        }
        None if !report.needed => Some("it is not paused".to_owned()),
        _ => None,
    };
    unless_harmful(planned, force)
}

/// Returns whether this program has set OnDelete, and the DaemonSet has no annotation of a hold: unless that was all that it did, something
/// has removed them.
pub(crate) fn may_have_lost_hold(daemon_set: &DaemonSet) -> bool {
    const TYPE: &str = "/fieldsV1/f:spec/f:updateStrategy/f:type";
    let has_set = |entry: &Value| entry["manager"] == FIELD_MANAGER && entry.pointer(TYPE).is_some();
    daemon_set.flavor() == Flavor::Apps
        && daemon_set.spec.update_strategy == UpdateStrategy::OnDelete
        && Hold::of(daemon_set).is_none()
        && managed_fields(&daemon_set.object).iter().any(has_set)
}

/// Warns that the controller replaces the pods of nodes that `partition` skips: it does not know their label.
fn replaces_skipped(before: &Situation<'_>) -> Option<Warning> {
    let hold = Hold::in_force(before.daemon_set).filter(|hold| hold.original_strategy() != UpdateStrategy::OnDelete)?;
    let is_replaced = |node: &&RolloutNode<'_>| node.old.is_some() && is_skipped(node);
    let skipped: Vec<&str> = before.nodes.iter().filter(is_replaced).map(|node| node.name).collect();
    let since = if hold.partition.is_some() { "`partition` has skipped" } else { "`partition` skips" };
    let message = format!(
        "{since} {} because of the label {SKIP_LABEL}: the controller replaces the pod there, too",
        skipped.join(", ")
    );
    (!skipped.is_empty()).then(|| Warning::new(WarningCode::SkippedNodes, message))
}

/// Warns that the template is the one that an undo was to replace: admission has kept it, or somebody has restored it.
fn not_rolled_back(before: &Situation<'_>) -> Option<Warning> {
    let hold = Hold::in_force(before.daemon_set).filter(|hold| hold.lacks_template(before.current_hash()))?;
    let number = before.current.known().filter(|_| hold.flags.as_ref().is_some_and(|flags| flags.is_undo))?.revision;
    let rolls_out = match hold.original_strategy() {
        UpdateStrategy::OnDelete => "pods that are deleted get it",
        _ => "this rolls it out to all nodes",
    };
    let message = format!("revision {number} was to be rolled back, and is still the template: {rolls_out}");
    let undo = Fix::new("to roll back", name_of(before.daemon_set).command("undo"));
    Some(Warning { fix: Some(undo), ..Warning::new(WarningCode::RolledBackBefore, message) })
}

/// Suggests updating the nodes that can be updated without the controller, if possible.
fn one_by_one(before: &Situation<'_>) -> Option<Fix> {
    let none_stays = Amount::Keep(IntOrPercent::Int(0));
    let max_unavailable = Some(IntOrPercent::Int(1));
    let request = StageRequest::new(none_stays, NewTemplate::Live, String::new());
    let request = StageRequest { max_unavailable, ..request };
    partition::plan(before, &request, None).ok().filter(|planned| !planned.stage.nodes.is_empty())?;
    let again = Continued::of_request(&name_of(before.daemon_set), &request).again()?;
    Some(Fix::new("to update the other nodes one by one instead", again))
}

fn planned(before: &Situation<'_>, plan: Plan, kind: PlanKind) -> Planned {
    let daemon_set = before.daemon_set;
    let proposal = Proposal::new(before, plan);
    let mut report = proposal.report(kind);
    report.warnings.extend(change_warnings::down_warnings(before));
    if !proposal.changes_strategy() {
        return proposal.planned(report);
    }
    let resumes = kind == PlanKind::ResumePlan;
    // OpenKruise's controller is not simulated.
    if daemon_set.flavor() == Flavor::Apps {
        let effect = proposal.effect();
        report.warnings.extend(proposal.pace_warnings(&effect));
        // `set` cannot change the pace during a hold.
        let blocks = report.warnings.iter_mut().filter(|warning| resumes && warning.code == WarningCode::Blocks);
        let fix = || if spreads_failure(before) { rollback(before).ok() } else { one_by_one(before) };
        blocks.for_each(|warning| warning.fix = fix());
        report.effect = Some(effect);
        report.incomplete = proposal.unread(resumes);
    }
    report.warnings.extend(proposal.replacement_warnings().unwrap_or_default());
    report.incomplete.extend(proposal.unread_refusals().filter(|_| resumes));
    let name = &report.daemon_set;
    // Pausing would forget the target and the gates, but a stage of all nodes would go on.
    let leaves_some_out = |hold: &Hold| hold.partition.is_some_and(|keep| keep.value() != 0);
    let stage = Hold::of(daemon_set).filter(|hold| resumes && leaves_some_out(hold));
    let continued = stage.and_then(|hold| Continued::of_hold(name, &hold, None)?.again());
    let back = if resumes { "pause" } else { "resume" };
    // Once all pods are replaced, a stage holds nothing back.
    let advice = if continued.is_some() { "to pause again before the rest is replaced" } else { "to undo" };
    report.revert = Some(Fix::new(advice, continued.unwrap_or_else(|| name.command(back))));
    proposal.planned(report)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{PauseRefusal, SurgePods, pause, resume};
    use crate::coverage::test_support::{World, world};
    use crate::facts::index::Index;
    use crate::model::snapshot::{Gap, GapCause, Kind};
    use crate::report::plan::{ChangePlan, WarningCode};
    use crate::rollout::situation::Situation;

    /// Four nodes with an available old pod each; the first also has a new one that is not ready.
    fn rollout(rolling_update: &Value) -> World {
        let old = || {
            json!({"metadata": {"creationTimestamp": "2026-03-01T11:10:00Z",
            "labels": {"controller-revision-hash": "hash1", "pod-template-generation": "1"}}})
        };
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling_update});
        let mut world = world().daemon_set(json!({"spec": {"updateStrategy": strategy}}));
        for number in 0..4 {
            let node = format!("n{number}");
            world = world.node(&node, json!({})).pod(&format!("agent-{number}"), &node, old());
        }
        let waiting = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
        world.unready_pod("agent-new", "n0", waiting, json!({}))
    }

    fn paused(world: World, delete_surge_pods: bool) -> Result<ChangePlan, PauseRefusal> {
        let snapshot = world.finish();
        let index = Index::new(&snapshot);
        let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
        pause(&situation, delete_surge_pods).map(|planned| planned.report)
    }

    fn resumed(world: World) -> ChangePlan {
        let snapshot = world.finish();
        resume(&Situation::new(&Index::new(&snapshot), &snapshot.daemon_sets[0]), true).unwrap().report
    }

    fn codes(plan: &ChangePlan) -> Vec<WarningCode> {
        plan.warnings.iter().map(|warning| warning.code).collect()
    }

    #[test]
    fn a_daemon_set_that_somebody_else_holds_is_not_paused() {
        let with = |metadata: Value| {
            paused(rollout(&json!({"maxUnavailable": 1})).daemon_set(json!({"metadata": metadata})), false)
        };
        let Err(PauseRefusal::HeldBy(holder)) =
            with(json!({"annotations": {"rollouts.kruise.io/daemonset-advanced-control": "{}"}}))
        else {
            panic!("not refused")
        };
        assert!(holder.starts_with("OpenKruise Rollouts"), "{holder}");
        let owner =
            json!({"apiVersion": "example.com/v1", "kind": "Fleet", "name": "blue", "uid": "f", "controller": true});
        let Err(PauseRefusal::HeldBy(holder)) = with(json!({"ownerReferences": [owner]})) else {
            panic!("not refused")
        };
        assert!(holder.starts_with("Fleet blue"), "{holder}");
    }

    #[test]
    fn surge_pods_are_deleted_by_a_pause_only_if_they_may_be() {
        let world = || rollout(&json!({"maxSurge": 1, "maxUnavailable": 0}));
        let Err(PauseRefusal::SurgePods(SurgePods { pods, .. })) = paused(world(), false) else {
            panic!("not refused")
        };
        assert_eq!(pods.iter().map(|pod| pod.pod.as_str()).collect::<Vec<_>>(), ["agent-new"]);
        assert_eq!(codes(&paused(world(), true).unwrap()), [WarningCode::SurgePodsDeleted]);
    }

    #[test]
    fn whoever_puts_the_strategy_back_is_named() {
        let manifest = |strategy: Value| {
            let manifest = json!({"spec": {"updateStrategy": strategy}}).to_string();
            json!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": manifest}}})
        };
        let with =
            |patch: Value| codes(&paused(rollout(&json!({"maxUnavailable": 1})).daemon_set(patch), false).unwrap());
        assert_eq!(
            with(manifest(json!({"type": "RollingUpdate"}))),
            [WarningCode::LastApplied, WarningCode::StrategyPutBack]
        );
        // `kubectl apply` does not touch fields that are not in the manifest.
        assert_eq!(with(manifest(json!({"rollingUpdate": {"maxUnavailable": 1}}))), []);
        let argo = json!({"metadata": {"annotations": {"argocd.argoproj.io/tracking-id": "fleet:apps/DaemonSet:a/b"}}});
        assert_eq!(with(argo.clone()), [WarningCode::ArgoCd, WarningCode::StrategyPutBack]);
        // Only Argo CD has an option to ignore the field.
        for (patch, is_argo) in [(argo, true), (manifest(json!({"type": "RollingUpdate"})), false)] {
            let plan = paused(rollout(&json!({"maxUnavailable": 1})).daemon_set(patch), false).unwrap();
            assert_eq!(plan.warnings[1].message.contains("RespectIgnoreDifferences=true"), is_argo);
        }
    }

    /// An original strategy, with other annotations, under this type of update strategy.
    fn held(annotations: Value, strategy_type: &str) -> World {
        let original = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}).to_string();
        rollout(&json!({"maxUnavailable": 1}))
            .daemon_set(json!({
                "metadata": {"annotations": {"kubectl-ds/original-update-strategy": original}},
                "spec": {"updateStrategy": {"type": strategy_type}},
            }))
            .daemon_set(json!({"metadata": {"annotations": annotations}}))
    }

    fn advanced(rolling_update: &Value) -> World {
        rollout(rolling_update).daemon_set(json!({"apiVersion": "apps.kruise.io/v1beta1"}))
    }

    #[test]
    fn a_pause_says_why_it_changes_nothing_or_only_stops_a_client() {
        let manifest = json!({"spec": {"updateStrategy": {"type": "RollingUpdate"}}}).to_string();
        let manifest =
            json!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": manifest}}});
        let partition = json!({"kubectl-ds/partition": "3"});
        let with_client = json!({"kubectl-ds/partition": "3", "kubectl-ds/run": "a client"});
        let on_delete = rollout(&json!({})).daemon_set(json!({"spec": {"updateStrategy": {"type": "OnDelete"}}}));
        for (world, needed, why) in [
            (on_delete, false, "its update strategy is OnDelete"),
            (held(json!({}), "OnDelete"), false, "already paused"),
            (held(partition, "OnDelete"), false, "partitioned"),
            (held(with_client, "OnDelete"), true, "a client that is replacing pods stops"),
            (advanced(&json!({"paused": true})), false, "already paused"),
        ] {
            let plan = paused(world.daemon_set(manifest.clone()), false).unwrap();
            assert!(plan.why.as_ref().is_some_and(|found| found.contains(why)), "{why}: {:?}", plan.why);
            assert_eq!((plan.needed, codes(&plan), plan.effect), (needed, vec![], None), "{why}");
        }
        assert_eq!(paused(rollout(&json!({"maxUnavailable": 1})), false).unwrap().why, None);
        // Its controller is not simulated.
        let plan = paused(advanced(&json!({"maxUnavailable": 1})), false).unwrap();
        assert_eq!((plan.needed, plan.why, plan.effect), (true, None, None));
    }

    #[test]
    fn a_resume_says_why_the_strategy_stays_as_it_is() {
        let on_delete = rollout(&json!({})).daemon_set(json!({"spec": {"updateStrategy": {"type": "OnDelete"}}}));
        for (world, needed, why) in [
            (held(json!({}), "OnDelete"), true, ""),
            (advanced(&json!({"paused": true})), true, ""),
            (held(json!({}), "RollingUpdate"), true, "no longer OnDelete"),
            (on_delete, false, "`set --type` changes"),
            (advanced(&json!({})), false, "not paused"),
        ] {
            let plan = resumed(world);
            assert_eq!((plan.needed, plan.why.is_some()), (needed, !why.is_empty()), "{why}");
            assert!(plan.why.unwrap_or_default().contains(why), "{why}");
        }
    }

    #[test]
    fn a_resume_that_restores_another_strategy_says_so() {
        let broken = json!({"kubectl-ds/original-update-strategy": r#"{"rollingUpdate":{"maxUnavailable":-5}}"#});
        let plan = resumed(held(broken.clone(), "OnDelete"));
        assert!(codes(&plan).contains(&WarningCode::OriginalStrategyLost), "{:?}", plan.warnings);
        assert!(plan.warnings.iter().any(|warning| warning.message.contains("RollingUpdate 1 is restored")));
        for world in [held(json!({}), "OnDelete"), held(broken, "RollingUpdate")] {
            assert!(!codes(&resumed(world)).contains(&WarningCode::OriginalStrategyLost));
        }
    }

    #[test]
    fn a_resume_of_what_an_undo_was_to_leave_says_so() {
        for (replaced, is_undo, expected) in [("hash2", true, true), ("hash2", false, false), ("hash1", true, false)] {
            let flags = json!({"isUndo": is_undo, "replacedRevision": replaced, "progressDeadlineSeconds": 600});
            let gates = json!({"version": 1, "flags": flags}).to_string();
            let plan = resumed(held(json!({"kubectl-ds/partition": "0", "kubectl-ds/gates": gates}), "OnDelete"));
            let warns = codes(&plan).contains(&WarningCode::RolledBackBefore);
            assert_eq!(warns, expected, "{replaced} {is_undo}: {:?}", plan.warnings);
        }
    }

    #[test]
    fn unread_events_and_budgets_matter_before_pods_are_replaced() {
        let blind = |mut world: World| {
            for kind in [Kind::Events, Kind::PodDisruptionBudgets] {
                let cause = GapCause::Forbidden(format!("list {}", kind.resource()));
                world.snapshot.gaps.push(Gap { kind, namespace: None, cause });
            }
            world
        };
        let resources = |plan: ChangePlan| plan.incomplete.into_iter().map(|one| one.resource).collect::<Vec<_>>();
        assert_eq!(resources(resumed(blind(held(json!({}), "OnDelete")))), ["poddisruptionbudgets", "events"]);
        assert!(resources(resumed(blind(held(json!({}), "RollingUpdate")))).is_empty());
        assert!(resources(paused(blind(rollout(&json!({"maxUnavailable": 1}))), false).unwrap()).is_empty());
    }

    #[test]
    fn resume_says_what_the_controller_replaces_at_once() {
        let world = || {
            let original = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 3}}).to_string();
            rollout(&json!({"maxUnavailable": 3})).daemon_set(json!({
                "metadata": {"annotations": {"kubectl-ds/original-update-strategy": original}},
                "spec": {"updateStrategy": {"type": "OnDelete"}},
            }))
        };
        // The new pod fails, and the controller would replace available pods with more of them.
        let snapshot = world().finish();
        let refused = resume(&Situation::new(&Index::new(&snapshot), &snapshot.daemon_sets[0]), false).unwrap_err();
        assert_eq!(refused.iter().map(|warning| warning.code).collect::<Vec<_>>(), [WarningCode::RevisionFails]);
        let plan = resumed(world());
        let after = plan.effect.unwrap().after.unwrap();
        // The node with two pods counts against the limit.
        assert_eq!((after.allowed, after.in_use, after.replaced_now), (3, Some(1), Some(2)));
        assert_eq!(plan.revert.unwrap().command.unwrap().to_string(), "kubectl ds pause -n default agent");
        // Somebody else has restored the strategy: a pause would suspend what is not suspended.
        let plan = resumed(world().daemon_set(json!({"spec": {"updateStrategy": {"type": "RollingUpdate"}}})));
        assert_eq!((plan.needed, plan.revert), (true, None));
        let plan = resumed(rollout(&json!({"maxUnavailable": 1})));
        assert_eq!((plan.needed, plan.why.as_deref()), (false, Some("it is not paused")));
    }
}
