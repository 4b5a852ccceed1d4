//! Whether the controller has acted on a change, and which revision resulted.

use serde_json::Value;

use super::revisions::Revisions;
use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::Snapshot;
use crate::model::template::Template;
use crate::report::plan::{ChangePlan, Outcome, Stage};

/// A change that the API server has applied.
#[derive(Debug)]
pub(crate) struct AppliedChange<'a> {
    plan: &'a ChangePlan,
    uid: String,
    generation: i64,
    template: Template,
    /// The name of the ControllerRevision that the template was taken from.
    target: Option<String>,
}

impl<'a> AppliedChange<'a> {
    /// Remembers what to look for: `object` is the DaemonSet with the change, `before` the revisions without it.
    pub(crate) fn new(plan: &'a ChangePlan, object: &Value, before: &Revisions<'_>) -> Self {
        let target = plan.to_revision.and_then(|number| before.number(number));
        AppliedChange {
            plan,
            uid: before.daemon_set.metadata.uid.clone(),
            generation: object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0),
            template: Template::new(object.pointer("/spec/template").cloned().unwrap_or_default()),
            target: target.map(|target| target.object.metadata.name.clone()),
        }
    }

    /// Returns what became of the change, once the controller has observed it and has a revision of a new template, or
    /// the DaemonSet was changed again.
    pub(crate) fn outcome(&self, daemon_set: &DaemonSet, snapshot: &Snapshot) -> Option<Outcome> {
        if daemon_set.metadata.uid != self.uid {
            return Some(Outcome { stage: Stage::Applied, changed_again: true, ..self.plan.outcome.clone() });
        }
        if daemon_set.status.observed_generation < self.generation {
            return None;
        }
        if !self.plan.kind.changes_template() {
            let changed_again = daemon_set.metadata.generation > self.generation;
            return Some(Outcome { stage: Stage::Observed, changed_again, ..self.plan.outcome.clone() });
        }
        let after = Revisions::of(daemon_set, snapshot);
        // The newest revision has the template, unless the DaemonSet was changed again.
        let newest = after.all.first()?;
        let has_template = newest.template.as_ref().is_ok_and(|template| template.same_meaning(&self.template));
        if !has_template && daemon_set.metadata.generation == self.generation {
            return None;
        }
        let is_retained = |number: i64| after.number(number).is_some();
        Some(Outcome {
            stage: Stage::Observed,
            revision: Some(newest.number()),
            is_target: self.target.as_deref() == Some(newest.object.metadata.name.as_str()),
            changed_again: daemon_set.metadata.generation > self.generation,
            can_return: self.plan.from_revision.is_some_and(is_retained),
            ..self.plan.outcome.clone()
        })
    }
}
