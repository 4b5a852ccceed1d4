//! Whether the controller has acted on a change, and which revision it created.

use serde_json::Value;

use crate::facts::revisions::Revisions;
use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::Snapshot;
use crate::report::plan::{ChangeOutcome, ChangePlan, ChangeStage};

/// A change that the API server has applied.
#[derive(Debug)]
pub(crate) struct AppliedChange<'a> {
    plan: &'a ChangePlan,
    uid: String,
    generation: i64,
    /// The name of the ControllerRevision whose template was used.
    target: Option<String>,
}

impl<'a> AppliedChange<'a> {
    /// Records what to look for: `object` is the DaemonSet with the change, `before` the revisions without it.
    pub(crate) fn new(plan: &'a ChangePlan, object: &Value, before: &Revisions<'_>) -> Self {
        let target = plan.to_revision.and_then(|number| before.number(number));
        AppliedChange {
            plan,
            uid: before.daemon_set.metadata.uid.clone(),
            generation: object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0),
            target: target.map(|target| target.object.metadata.name.clone()),
        }
    }

    /// Returns the outcome of the change, once the controller has observed it and has a revision for a new template, or
    /// the DaemonSet was changed again.
    pub(crate) fn outcome(&self, daemon_set: &DaemonSet, snapshot: &Snapshot) -> Option<ChangeOutcome> {
        if daemon_set.metadata.uid != self.uid {
            return Some(ChangeOutcome { stage: ChangeStage::Applied, ..self.plan.outcome.clone() });
        }
        if daemon_set.status.observed_generation < self.generation {
            return None;
        }
        if !self.plan.kind.changes_template() {
            let changed_again = daemon_set.metadata.generation > self.generation;
            return Some(ChangeOutcome { stage: ChangeStage::Observed, changed_again, ..self.plan.outcome.clone() });
        }
        let after = Revisions::of(daemon_set, snapshot);
        // The newest revision is that of the template, unless the DaemonSet was changed again.
        let newest = after.all.first()?;
        if !newest.is_current && daemon_set.metadata.generation == self.generation {
            return None;
        }
        let is_retained = |number: i64| after.number(number).is_some();
        Some(ChangeOutcome {
            stage: ChangeStage::Observed,
            revision: Some(newest.number()),
            is_target: self.target.as_deref() == Some(newest.object.metadata.name.as_str()),
            changed_again: daemon_set.metadata.generation > self.generation,
            can_return: self.plan.from_revision.is_some_and(is_retained),
            ..self.plan.outcome.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::AppliedChange;
    use crate::coverage::test_support::{CURRENT, World, world};
    use crate::facts::index::Index;
    use crate::facts::revisions::Revisions;
    use crate::model::snapshot::Snapshot;
    use crate::plan::{SpecFields, StrategyType};
    use crate::report::plan::{ChangeOutcome, ChangeStage};
    use crate::rollout::proposal::Planned;
    use crate::rollout::set::{SetRequest, set};
    use crate::rollout::situation::Situation;
    use crate::rollout::undo::undo;

    /// A DaemonSet of this image and generation, with these revisions.
    fn cluster(image: &str, generation: i64, observed: i64, revisions: &[(&str, i64, &str)]) -> Snapshot {
        let mut world = world()
            .template(json!({"containers": [{"name": "agent", "image": image}]}))
            .daemon_set(json!({"metadata": {"generation": generation}, "status": {"observedGeneration": observed}}));
        world.snapshot.controller_revisions.clear();
        let add =
            |world: World, (hash, number, image): &(&str, i64, &str)| world.revision_of_image(hash, *number, image);
        revisions.iter().fold(world, add).finish()
    }

    /// Returns the outcome of a plan that was applied as generation 3.
    fn outcome(before: &Snapshot, Planned { plan, report, .. }: &Planned, after: &Snapshot) -> Option<ChangeOutcome> {
        let revisions = Revisions::of(&before.daemon_sets[0], before);
        let mut object = plan.applied_to(&before.daemon_sets[0].object).unwrap();
        object["metadata"]["generation"] = 3.into();
        AppliedChange::new(report, &object, &revisions).outcome(&after.daemon_sets[0], after)
    }

    fn before() -> Snapshot {
        cluster("agent:2", 2, 2, &[("hash1", 1, "agent:1"), (CURRENT, 2, "agent:2")])
    }

    #[test]
    fn a_rollback_is_observed_once_its_revision_is_the_newest() {
        let before = before();
        let planned = undo(&Situation::new(&Index::new(&before), &before.daemon_sets[0]), Some(1)).unwrap();
        let of = |image: &str, generation, observed, revisions: &[(&str, i64, &str)]| {
            let outcome = outcome(&before, &planned, &cluster(image, generation, observed, revisions));
            outcome.map(|it| (it.stage, it.revision, it.is_target, it.changed_again, it.can_return))
        };
        let known = [("hash1", 1, "agent:1"), (CURRENT, 2, "agent:2")];
        let renumbered = [("hash1", 3, "agent:1"), (CURRENT, 2, "agent:2")];
        let created = [("hash9", 3, "agent:1"), (CURRENT, 2, "agent:2")];
        assert_eq!(of("agent:1", 3, 2, &known), None);
        // The revisions were read before the controller renumbered them.
        assert_eq!(of("agent:1", 3, 3, &known), None);
        assert_eq!(of("agent:1", 3, 3, &renumbered), Some((ChangeStage::Observed, Some(3), true, false, true)));
        // The revision was deleted before.
        assert_eq!(of("agent:1", 3, 3, &created), Some((ChangeStage::Observed, Some(3), false, false, true)));
        assert_eq!(of("agent:1", 3, 3, &renumbered[..1]), Some((ChangeStage::Observed, Some(3), true, false, false)));
        let again = [("hash1", 3, "agent:1"), (CURRENT, 2, "agent:2"), ("hash3", 4, "agent:3")];
        assert_eq!(of("agent:3", 4, 4, &again), Some((ChangeStage::Observed, Some(4), false, true, true)));

        let mut recreated = cluster("agent:1", 1, 1, &renumbered);
        recreated.daemon_sets[0].metadata.uid = "other".to_owned();
        let found = outcome(&before, &planned, &recreated).unwrap();
        assert_eq!((found.stage, found.revision, found.changed_again), (ChangeStage::Applied, None, false));
    }

    #[test]
    fn another_update_strategy_is_observed_with_its_generation() {
        let before = before();
        let fields = SpecFields { strategy_type: Some(StrategyType::OnDelete), ..SpecFields::default() };
        let request = SetRequest { fields, ..SetRequest::default() };
        let planned = set(&Situation::new(&Index::new(&before), &before.daemon_sets[0]), &request).unwrap();
        for (generation, observed, expected) in
            [(3, 2, None), (3, 3, Some(false)), (4, 3, Some(true)), (4, 4, Some(true)), (4, 2, None)]
        {
            let after = cluster("agent:2", generation, observed, &[(CURRENT, 2, "agent:2")]);
            let found = outcome(&before, &planned, &after).map(|outcome| (outcome.stage, outcome.changed_again));
            assert_eq!(found, expected.map(|again| (ChangeStage::Observed, again)), "{generation} {observed}");
        }
    }
}
