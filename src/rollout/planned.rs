//! What the plans of all actions have in common: the plan itself, its patch as data, and the pods that keep their
//! template.

use serde_json::Value;

use crate::coverage::gaps::{incomplete_for_history, incomplete_for_update_strategy, unread_events};
use crate::facts::revisions::{Revision, Revisions, name_of};
use crate::model::daemon_set::{DaemonSet, Flavor, UpdateStrategy};
use crate::model::metadata::TEMPLATE_GENERATION_ANNOTATION;
use crate::model::snapshot::{Kind, Snapshot};
use crate::model::template::Template;
use crate::plan::{Plan, Step};
use crate::report::coverage::Incomplete;
use crate::report::plan::{ChangePlan, Outcome, PlanKind, PodLeft, Stage};
use crate::scheduling::daemon_pods;

/// A plan, and the report of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// What to do.
    pub plan: Plan,
    /// What is shown of it.
    pub report: ChangePlan,
}

/// Returns the patch of a plan as JSON values.
pub(super) fn patch_of(plan: &Plan) -> Vec<Value> {
    let patches = plan.steps.iter().filter_map(|step| match step {
        Step::PatchDaemonSet(patch) => Some(patch.patch().0),
        Step::DeletePod(_) | Step::EvictPod(_) | Step::CreateJob(_) | Step::DeleteJob(_) => None,
    });
    patches.flatten().filter_map(|operation| serde_json::to_value(operation).ok()).collect()
}

/// Returns what the reports of all plans have in common.
pub(super) fn report_of(kind: PlanKind, plan: &Plan, revisions: &Revisions<'_>, snapshot: &Snapshot) -> ChangePlan {
    let needed = !plan.steps.is_empty();
    ChangePlan {
        api_version: "kubectl-ds/v1".to_owned(),
        kind,
        daemon_set: name_of(revisions.daemon_set),
        now: snapshot.now,
        from_revision: revisions.current().map(Revision::number),
        to_revision: None,
        rolled_out_at: None,
        why: None,
        needed,
        changes: Vec::new(),
        effect: None,
        revert: None,
        patch: patch_of(plan),
        warnings: Vec::new(),
        incomplete: Vec::new(),
        pods_left: Vec::new(),
        outcome: Outcome { stage: if needed { Stage::Planned } else { Stage::NotNeeded }, ..Outcome::default() },
        object: None,
    }
}

/// Returns what a DaemonSet becomes with another template.
pub(crate) fn with_template(daemon_set: &DaemonSet, template: &Template) -> DaemonSet {
    let mut object = daemon_set.object.clone();
    object["spec"]["template"] = template.value().clone();
    let Ok(mut after) = DaemonSet::from_object(object) else { return daemon_set.clone() };
    // The API server increments both, so that only a revision with the same template counts as current.
    after.metadata.generation = after.status.observed_generation + 1;
    after.annotations.remove(TEMPLATE_GENERATION_ANNOTATION);
    after
}

/// Returns what could not be read and matters for a new template: under OnDelete which pods keep theirs, else which are
/// replaced.
pub(super) fn unread(revisions: &Revisions<'_>, snapshot: &Snapshot) -> Vec<Incomplete> {
    let daemon_set = revisions.daemon_set;
    let namespace = &daemon_set.metadata.namespace;
    if daemon_set.spec.update_strategy == UpdateStrategy::OnDelete {
        let mut unread = incomplete_for_history(snapshot, namespace);
        unread.retain(|incomplete| incomplete.resource == Kind::Pods.resource());
        return unread.into_iter().chain(unread_events(snapshot, namespace)).collect();
    }
    let unread = match daemon_set.flavor() {
        Flavor::Apps => incomplete_for_update_strategy(snapshot, namespace, false),
        Flavor::Advanced => Vec::new(),
    };
    unread.into_iter().chain(unread_events(snapshot, namespace)).collect()
}

/// Returns the pods that keep their template until they are deleted, by node: under OnDelete all but those that have
/// `template` already.
pub(super) fn left_on_delete(
    revisions: &Revisions<'_>,
    template: Option<&Template>,
    snapshot: &Snapshot,
) -> Vec<PodLeft> {
    let daemon_set = revisions.daemon_set;
    if daemon_set.spec.update_strategy != UpdateStrategy::OnDelete {
        return Vec::new();
    }
    let claimed = snapshot.pods.iter().filter(|pod| daemon_pods::claim(daemon_set, pod).is_claimed());
    let mut left: Vec<PodLeft> = claimed
        .filter_map(|pod| {
            let revision = revisions.of_pod(pod);
            let has_it = |revision: &Revision<'_>| {
                let of_pod = revision.template.as_ref().ok();
                of_pod.zip(template).is_some_and(|(of_pod, wanted)| of_pod.same_meaning(wanted))
            };
            let stays = !pod.metadata.is_terminating() && !revision.is_some_and(has_it);
            stays.then(|| PodLeft {
                node: daemon_pods::target_node(pod).unwrap_or_default().to_owned(),
                pod: pod.metadata.name.clone(),
                revision: revision.map(Revision::number),
            })
        })
        .collect();
    left.sort_by(|one, other| (&one.node, &one.pod).cmp(&(&other.node, &other.pod)));
    left
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::coverage::test_support::{CURRENT, World, world};
    use crate::facts::revisions::Revisions;
    use crate::model::snapshot::{Gap, GapCause, Kind};
    use crate::report::plan::ChangePlan;
    use crate::rollout::restart::restart;
    use crate::rollout::undo::undo;

    /// A DaemonSet with a pod of each of three revisions, of which one is not retained, and one that is being deleted.
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
        let revisions = Revisions::of(&snapshot.daemon_sets[0], &snapshot);
        [undo(&revisions, Some(1), &snapshot).unwrap(), restart(&revisions, &snapshot)].map(|planned| planned.report)
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
}
