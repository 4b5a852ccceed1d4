//! A change to a DaemonSet from its plan to its report: the resulting DaemonSet, the effect on the cluster, and what
//! may go wrong. All commands that change a DaemonSet use it.

use serde_json::Value;

use super::change_warnings::{self, Written};
use super::effect::{effect, template_effect};
use super::forecast;
use super::pace_warnings::{
    become_unavailable, pace_warnings, ready_pods_deleted, surge_pods_deleted, template_at_once,
};
use super::replacement_warnings::{Replacement, replacement_warnings};
use super::rollback::{failing_added_container, failing_by_admission, revision_fails, rollback};
use super::situation::Situation;
use super::situation::fault::failing_by_node;
use super::situation::suspect::{failing, failing_in_common, suspect};
use crate::coverage::gaps::{incomplete_for_history, incomplete_for_update_strategy, unread_refusals};
use crate::difference::{difference, object};
use crate::facts::Facts;
use crate::facts::revisions::{Revision, name_of};
use crate::model::daemon_set::{DaemonSet, Flavor, UpdateStrategy};
use crate::model::snapshot::Kind;
use crate::model::template::Template;
use crate::plan::Plan;
use crate::report::change::Change;
use crate::report::count;
use crate::report::coverage::Incomplete;
use crate::report::plan::{ChangeOutcome, ChangePlan, ChangeStage, Effect, PlanKind, PodOnNode, Warning, WarningCode};
use crate::report::reason::ReasonCode;
use crate::report::rollout_status::{Suspect, SuspectKind};
use crate::scheduling::daemon_pods;

/// A plan and its report.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// The resulting DaemonSet, as far as it is known without the API server.
    pub after: DaemonSet,
    /// The report.
    pub report: ChangePlan,
}

/// A DaemonSet with its facts, and the result of a plan.
pub(super) struct Proposal<'s, 'a> {
    pub(super) before: &'s Situation<'a>,
    pub(super) plan: Plan,
    pub(super) after: DaemonSet,
}

impl<'s, 'a> Proposal<'s, 'a> {
    /// Proposes a plan.
    pub(super) fn new(before: &'s Situation<'a>, plan: Plan) -> Self {
        let daemon_set = before.daemon_set;
        let object = plan.applied_to(&daemon_set.object).unwrap_or_else(|_| daemon_set.object.clone());
        let after = DaemonSet::from_object(object.clone());
        let after = after.unwrap_or_else(|_| DaemonSet { object, ..daemon_set.clone() });
        Proposal { before, plan, after }
    }

    pub(super) fn planned(self, report: ChangePlan) -> Planned {
        Planned { plan: self.plan, after: self.after, report }
    }

    /// Returns the changes to the DaemonSet.
    pub(super) fn changes(&self) -> Vec<Change> {
        object::changes(&self.before.daemon_set.object, &self.after.object)
    }

    /// Returns the patch as JSON values.
    pub(super) fn patch(&self) -> Vec<Value> {
        let operations = self.plan.patch().into_iter().flat_map(|patch| patch.patch().0);
        operations.filter_map(|operation| serde_json::to_value(operation).ok()).collect()
    }

    /// Returns whether the update strategy changes.
    pub(super) fn changes_strategy(&self) -> bool {
        self.after.spec.update_strategy != self.before.daemon_set.spec.update_strategy
    }

    /// Returns what is replaced if the template stays.
    fn replacement(&self) -> Replacement<'_> {
        Replacement::of_template(&self.after, self.before.current_hash().unwrap_or_default(), true)
    }

    /// Computes the effect on the cluster, if the template stays.
    pub(super) fn effect(&self) -> Effect {
        let standstill = forecast::standstill(self.before, &self.replacement());
        Effect { standstill, ..effect(self.before, &self.after) }
    }

    /// Returns what may break with the controller's pace after the change.
    pub(super) fn pace_warnings(&self, effect: &Effect) -> Vec<Warning> {
        let pace = pace_warnings(effect.before, effect, &self.after, self.before.index.snapshot);
        let replacement = self.replacement();
        let blocks = forecast::warning(effect.standstill.as_ref(), self.before, &replacement);
        let ready = self.changes_strategy().then(|| ready_pods_deleted(self.before, &replacement)).flatten();
        let unavailable = become_unavailable(self.before, &self.after, effect);
        blocks.into_iter().chain(surge_pods_deleted(effect)).chain(ready).chain(unavailable).chain(pace).collect()
    }

    /// Returns what may go wrong as the controller replaces pods under another update strategy; `None` if it replaces none.
    pub(super) fn replacement_warnings(&self) -> Option<Vec<Warning>> {
        let replacement = Replacement::of_strategy(&self.after, self.before).filter(|_| self.changes_strategy())?;
        Some(replacement_warnings(self.before, &replacement))
    }

    /// Returns what could not be read and affects the pace of the controller, or budgets that match the deleted pods.
    pub(super) fn unread(&self, budgets_matter: bool) -> Vec<Incomplete> {
        let namespace = &self.before.daemon_set.metadata.namespace;
        incomplete_for_update_strategy(self.before.index.snapshot, namespace, budgets_matter)
    }

    /// Returns what could not be read and may tell that new pods are refused.
    pub(super) fn unread_refusals(&self) -> impl Iterator<Item = Incomplete> {
        unread_refusals(self.before.index.snapshot, &self.after)
    }

    /// Returns the common part of all reports on changes.
    pub(super) fn report(&self, kind: PlanKind) -> ChangePlan {
        let needed = self.plan.step.is_some();
        ChangePlan {
            kind,
            daemon_set: name_of(self.before.daemon_set),
            now: self.before.now(),
            from_revision: self.before.revisions.current().map(Revision::number),
            to_revision: None,
            rolled_out_at: None,
            why: None,
            needed,
            changes: if kind.changes_template() { Vec::new() } else { self.changes() },
            effect: None,
            revert: None,
            patch: self.patch(),
            warnings: Vec::new(),
            incomplete: Vec::new(),
            pods_left: Vec::new(),
            backoffs: Vec::new(),
            replace_pods: None,
            outcome: ChangeOutcome {
                stage: if needed { ChangeStage::Planned } else { ChangeStage::NotNeeded },
                ..ChangeOutcome::default()
            },
            object: None,
        }
    }
}

/// Proposes another template: that of a revision, or for a restart the current one with another annotation.
pub(super) fn propose_template(before: &Situation<'_>, plan: Plan, to: Option<&Revision<'_>>) -> Planned {
    let kind = if to.is_some() { PlanKind::UndoPlan } else { PlanKind::RestartPlan };
    let daemon_set = before.daemon_set;
    let proposal = Proposal::new(before, plan);
    let template = proposal.after.template();
    let mut report = ChangePlan {
        changes: difference(&before.revisions.live, &template),
        incomplete: unread(before, &proposal.after),
        ..proposal.report(kind)
    };
    if !report.needed {
        return proposal.planned(report);
    }
    let warnings = &mut report.warnings;
    let written = if to.is_some() { Written::Template(&template) } else { Written::Restart(&template) };
    warnings.extend(change_warnings::managers(daemon_set, written));
    warnings.extend(to.and_then(|_| change_warnings::last_applied(daemon_set, &template)));
    warnings.extend(change_warnings::down_warnings(before));
    warnings.extend(change_warnings::obstacles(daemon_set, to.is_none()));
    let adopted = before.coverage.concerns.iter().find(|concern| concern.code == ReasonCode::AdoptedPods);
    let adopted = adopted.map(|concern| Warning::new(WarningCode::AdoptedPods, concern.message.clone()));
    warnings.extend(adopted.filter(|_| to.is_none()));
    report.pods_left = left_on_delete(before, to.map(|_| &template));
    if to.is_some() && report.pods_left.is_empty() && before.knows(Kind::Pods) {
        // Every pod already has the target's template, so nothing has to be deleted.
        warnings.retain(|warning| warning.code != WarningCode::OnDelete);
    }
    let (after, hash) = (daemon_set.with_template(&template), to.map_or("", |to| to.object.hash()));
    let replacement = Replacement::of_template(&after, hash, to.is_none());
    warnings.extend(replacement_warnings(before, &replacement));
    warnings.extend(to.and_then(|to| not_by_revision(before, to)));
    let effect = template_effect(before, &replacement);
    let standstill = forecast::standstill(before, &replacement);
    let stops = forecast::warning(standstill.as_ref(), before, &replacement);
    // Certain warnings come first.
    let (certain, possible) = if standstill.is_some() { (stops, None) } else { (None, stops) };
    warnings.splice(0..0, certain.or_else(|| forecast::surge_without_room(before, &replacement)));
    warnings.extend(possible);
    warnings.extend(ready_pods_deleted(before, &replacement));
    warnings.extend(effect.as_ref().and_then(template_at_once));
    report.effect = effect.map(|effect| Effect { standstill, ..effect });
    proposal.planned(report)
}

/// Warns that another revision does not fix failures on a few nodes.
fn not_by_revision(before: &Situation<'_>, to: &Revision<'_>) -> Option<Warning> {
    if let Some(container) = failing_added_container(before) {
        let message = format!(
            "container {container} fails, which admission adds to the pods: no revision of the template has it, so another one does not \
             fix it"
        );
        return Some(Warning::new(WarningCode::NotByRevision, message));
    }
    if revision_fails(before) {
        return None;
    }
    let is_target = before.revisions.target().is_some_and(|(target, _)| target.number() == to.number());
    if let Some(nodes) = failing_in_common(before).filter(|_| is_target) {
        let number = to.number();
        let message = format!(
            "what fails on {} is the same in revision {number}: that is not likely to fix it, and its pods may fail as well once they are new",
            count(nodes, "node")
        );
        return Some(Warning::new(WarningCode::NotByRevision, message));
    }
    if let Some(nodes) = failing_by_admission(before) {
        let nodes = count(nodes, "node");
        let message = format!(
            "what fails on {nodes} is what admission adds to the pods or changes in them, not what their template says: another revision is not likely to fix it"
        );
        return Some(Warning::new(WarningCode::NotByRevision, message));
    }
    let suspect = suspect(before);
    let mut failing_nodes = before.eligible().filter(|node| node.is_on_current());
    let message = match &suspect {
        // After a surge, only what fails beside the pods that work is deleted there.
        Some(Suspect { what: SuspectKind::Nodes, .. }) if failing_nodes.all(|node| node.old_is_available) => {
            return None;
        }
        Some(Suspect { what: SuspectKind::Nodes, failing, available, .. }) if *available > 0 => format!(
            "the current revision works on {available} of {} nodes that run it: another one is not likely to fix what fails on {}",
            available + failing,
            if *failing == 1 { "the other one".to_owned() } else { format!("the other {failing}") }
        ),
        Some(Suspect { configuration: Some(it), what: SuspectKind::Configuration, failing, .. }) => format!(
            "every pod that has started since {} {} was changed fails, on {}: another revision is not likely to fix that",
            it.object.kind,
            it.object.name,
            count(*failing, "node")
        ),
        _ => match failing_by_node(before, suspect.as_ref()) {
            Some(failing) => {
                let its = if failing == 1 { "the node itself" } else { "these nodes themselves" };
                format!(
                    "what fails on {} comes from {its}: another revision is not likely to fix it",
                    count(failing, "node")
                )
            }
            None => {
                let of_current = before.eligible().filter(|node| node.is_on_current());
                let (available, others): (Vec<_>, Vec<_>) = of_current.partition(|node| node.updated_is_available);
                let current = before.current.known().filter(|_| !available.is_empty() && failing(before).is_empty())?;
                if rollback(before).is_ok() {
                    return None;
                }
                format!(
                    "revision {} is not known to fail: its pods are available on {} of {}",
                    current.revision,
                    available.len(),
                    count(available.len() + others.len(), "node")
                )
            }
        },
    };
    Some(Warning::new(WarningCode::NotByRevision, message))
}

/// Returns what could not be read and affects a new template: under OnDelete which pods keep theirs, otherwise which are replaced.
fn unread(before: &Facts<'_>, after: &DaemonSet) -> Vec<Incomplete> {
    let (daemon_set, snapshot) = (before.daemon_set, before.index.snapshot);
    let namespace = &daemon_set.metadata.namespace;
    let unread = match (&daemon_set.spec.update_strategy, daemon_set.flavor()) {
        (UpdateStrategy::OnDelete, _) => {
            let mut unread = incomplete_for_history(snapshot, namespace);
            unread.retain(|incomplete| incomplete.resource == Kind::Pods.resource());
            unread
        }
        (_, Flavor::Apps) => incomplete_for_update_strategy(snapshot, namespace, false),
        (_, Flavor::Advanced) => Vec::new(),
    };
    unread.into_iter().chain(unread_refusals(snapshot, after)).collect()
}

/// Returns the pods that keep their template until they are deleted, by node: under OnDelete all except those that
/// already have `template`, and those of deleted nodes. Pods that are not ready come first.
fn left_on_delete(before: &Facts<'_>, template: Option<&Template>) -> Vec<PodOnNode> {
    let (daemon_set, revisions) = (before.daemon_set, &before.revisions);
    if daemon_set.spec.update_strategy != UpdateStrategy::OnDelete {
        return Vec::new();
    }
    let claimed = before.index.snapshot.pods.iter().filter(|pod| daemon_pods::claim(daemon_set, pod).is_claimed());
    // No kubelet ends the pods of a deleted node.
    let exists = |node: &str| !before.nodes_known || before.index.node(node).is_some();
    let mut left: Vec<(bool, PodOnNode)> = claimed
        .filter(|pod| daemon_pods::target_node(pod).is_none_or(exists))
        .filter_map(|pod| {
            let revision = revisions.of_pod(pod);
            let has_it = |revision: &Revision<'_>| {
                let of_pod = revision.template.as_ref().ok();
                of_pod.zip(template).is_some_and(|(of_pod, wanted)| of_pod.same_meaning(wanted))
            };
            let stays = !pod.metadata.is_terminating() && !revision.is_some_and(has_it);
            let on_node = || PodOnNode {
                node: daemon_pods::target_node(pod).unwrap_or_default().to_owned(),
                pod: pod.metadata.name.clone(),
                revision: revision.map(Revision::number),
            };
            stays.then(|| (pod.is_ready(), on_node()))
        })
        .collect();
    left.sort();
    left.into_iter().map(|(_, pod)| pod).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::coverage::test_support::{CURRENT, World, world};
    use crate::facts::BUILT;
    use crate::facts::index::Index;
    use crate::model::int_or_percent::IntOrPercent;
    use crate::model::snapshot::{Gap, GapCause, Kind};
    use crate::plan::SpecFields;
    use crate::report::plan::ChangePlan;
    use crate::rollout::partition::plan::{self as partition, Amount};
    use crate::rollout::partition::template::NewTemplate;
    use crate::rollout::pause::{pause, resume};
    use crate::rollout::restart::restart;
    use crate::rollout::set;
    use crate::rollout::situation::Situation;
    use crate::rollout::undo::undo;

    /// A DaemonSet with a pod of each of three revisions, one of which is not retained, and a terminating pod.
    fn of_type(strategy_type: &str) -> World {
        let pod = |world: World, number: usize, hash: &str, deleted: bool| {
            let node = format!("n{number}");
            let deleted_at = deleted.then_some("2026-03-01T12:00:10Z");
            let labels = json!({"controller-revision-hash": hash, "pod-template-generation": null});
            let metadata = json!({"metadata": {"labels": labels, "deletionTimestamp": deleted_at}});
            world.node(&node, json!({})).pod(&format!("agent-{number}"), &node, metadata)
        };
        let world = world()
            .revision_of_image("hash1", 1, "agent:1")
            .daemon_set(json!({"spec": {"updateStrategy": {"type": strategy_type}}}));
        let world = pod(pod(world, 0, "hash1", false), 1, CURRENT, false);
        pod(pod(world, 2, "hash0", false), 3, CURRENT, true)
    }

    fn plans(world: World) -> [ChangePlan; 2] {
        let snapshot = world.finish();
        let index = Index::new(&snapshot);
        let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
        [undo(&situation, Some(1)).unwrap(), restart(&situation, false).unwrap()].map(|planned| planned.report)
    }

    #[test]
    fn pods_of_another_template_are_left_under_on_delete() {
        let left = |strategy_type| {
            plans(of_type(strategy_type)).map(|plan| {
                let left = plan.pods_left.into_iter().map(|left| (left.node, left.pod, left.revision));
                left.collect::<Vec<_>>()
            })
        };
        let pod = |number, revision| (format!("n{number}"), format!("agent-{number}"), revision);
        let [undo, restart] = left("OnDelete");
        assert_eq!(undo, [pod(1, Some(2)), pod(2, None)]);
        assert_eq!(restart, [pod(0, Some(1)), pod(1, Some(2)), pod(2, None)]);
        assert_eq!(left("RollingUpdate"), [vec![], vec![]]);
    }

    #[test]
    fn pods_of_nodes_that_are_gone_are_not_left_and_those_that_fail_come_first() {
        let failing = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let world = of_type("OnDelete").pod("agent-gone", "gone", json!({}));
        let world = world.node("n9", json!({})).unready_pod("agent-9", "n9", failing, json!({}));
        let [_, restart] = plans(world);
        let names: Vec<String> = restart.pods_left.into_iter().map(|left| left.pod).collect();
        assert_eq!(names, ["agent-9", "agent-0", "agent-1", "agent-2"]);
    }

    #[test]
    fn the_patch_that_is_shown_is_locked_on_the_version_that_was_read() {
        for plan in plans(of_type("RollingUpdate").daemon_set(json!({"metadata": {"resourceVersion": "7"}}))) {
            let precondition = json!({"op": "replace", "path": "/metadata/resourceVersion", "value": "7"});
            assert_eq!(plan.patch[0], precondition, "{:?}", plan.kind);
            let path = plan.patch[1]["path"].as_str().unwrap();
            assert!(plan.patch.len() == 2 && path.starts_with("/spec/template"), "{path}");
        }
    }

    #[test]
    fn what_could_not_be_read_is_told_if_it_matters_under_the_update_strategy() {
        let unread = |strategy_type| {
            let mut world = of_type(strategy_type);
            for kind in [Kind::Nodes, Kind::Pods, Kind::ControllerRevisions, Kind::Events] {
                let cause = GapCause::Forbidden(format!("list {}", kind.resource()));
                world.snapshot.gaps.push(Gap { kind, namespace: None, cause });
            }
            let resources = |plan: ChangePlan| plan.incomplete.into_iter().map(|one| one.resource).collect::<Vec<_>>();
            plans(world).map(resources)
        };
        for resources in unread("OnDelete") {
            assert_eq!(resources, ["pods", "events"]);
        }
        for resources in unread("RollingUpdate") {
            assert_eq!(resources, ["nodes", "pods", "controllerrevisions", "events"]);
        }
    }

    /// Without permission to read nodes, the pods of the namespace are still known.
    #[test]
    fn the_pods_that_could_be_read_are_counted_without_nodes() {
        let outdated = |kinds: &[Kind]| {
            let mut world = of_type("RollingUpdate").daemon_set(json!({"status": {"desiredNumberScheduled": 8}}));
            for &kind in kinds {
                let cause = GapCause::Forbidden(format!("list {}", kind.resource()));
                world.snapshot.gaps.push(Gap { kind, namespace: None, cause });
            }
            if kinds.contains(&Kind::Nodes) {
                world.snapshot.nodes.clear();
            }
            plans(world).map(|plan| plan.effect.map(|effect| (effect.desired, effect.outdated, effect.not_replaced)))
        };
        // One pod has the template of revision 1, and one is terminating.
        assert_eq!(outdated(&[Kind::Nodes]), [Some((8, Some(2), None)), Some((8, Some(3), None))]);
        assert_eq!(outdated(&[Kind::Nodes, Kind::Pods]), [Some((8, None, None)), Some((8, None, None))]);
        assert_eq!(outdated(&[]), [Some((4, Some(2), Some(0))), Some((4, Some(3), Some(0)))]);
    }

    /// The facts of the current DaemonSet are passed in; those of the resulting one are built only if they may differ.
    #[test]
    fn no_fact_is_derived_twice() {
        let snapshot = of_type("RollingUpdate").finish();
        let index = Index::new(&snapshot);
        let before = Situation::new(&index, &snapshot.daemon_sets[0]);
        let built = |propose: &dyn Fn()| {
            let already = BUILT.get();
            propose();
            BUILT.get() - already
        };
        let fields = SpecFields { max_unavailable: Some(IntOrPercent::Int(2)), ..SpecFields::default() };
        let set_request = set::SetRequest { fields, ..set::SetRequest::default() };
        let stage =
            |template| partition::StageRequest::new(Amount::Update(IntOrPercent::Int(1)), template, "run".to_owned());
        let image = NewTemplate::Images(vec![("agent".to_owned(), "agent:3".to_owned())]);
        let facts = [
            built(&|| drop(restart(&before, false).unwrap())),
            built(&|| drop(undo(&before, Some(1)).unwrap())),
            built(&|| drop(set::propose(&before, &set_request).unwrap())),
            // Whether the change can be undone depends on the resulting DaemonSet.
            built(&|| drop(set::set(&before, &set_request).unwrap())),
            built(&|| drop(pause(&before, false).unwrap())),
            built(&|| drop(resume(&before, false).unwrap())),
            built(&|| drop(partition::plan(&before, &stage(NewTemplate::Live), None).unwrap())),
            built(&|| drop(partition::plan(&before, &stage(image.clone()), None).unwrap())),
        ];
        assert_eq!(facts, [1, 1, 0, 1, 0, 0, 0, 1]);
    }
}
