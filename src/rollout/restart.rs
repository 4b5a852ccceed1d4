//! A restart, and what prevents it from having an effect.

use super::change_warnings::{self, Written};
use super::difference::difference;
use super::planned::{Planned, left_on_delete, outcome_of, patch_of, unread_pods};
use super::revisions::{Revision, Revisions, name_of};
use crate::model::snapshot::Snapshot;
use crate::model::template::Template;
use crate::plan::Plan;
use crate::report::plan::{ChangePlan, PlanKind};

/// Plans to restart all pods.
pub fn restart(revisions: &Revisions<'_>, snapshot: &Snapshot) -> Planned {
    let daemon_set = revisions.daemon_set;
    let plan = Plan::restart(daemon_set, snapshot.now);
    let after = plan.applied_to(&daemon_set.object).ok();
    let after = after.and_then(|after| Some(Template::new(after.pointer("/spec/template")?.clone())));
    let mut warnings = change_warnings::managers(daemon_set, Written::Template);
    warnings.extend(change_warnings::obstacles(daemon_set, true));
    let report = ChangePlan {
        api_version: "kubectl-ds/v1".to_owned(),
        kind: PlanKind::RestartPlan,
        daemon_set: name_of(daemon_set),
        from_revision: revisions.current().map(Revision::number),
        to_revision: None,
        now: snapshot.now,
        rolled_out_at: None,
        why: None,
        needed: !plan.steps.is_empty(),
        changes: after.map(|after| difference(&revisions.live, &after)).unwrap_or_default(),
        effect: None,
        revert: None,
        patch: patch_of(&plan),
        warnings,
        incomplete: unread_pods(revisions, snapshot),
        pods_left: left_on_delete(revisions, None, snapshot),
        outcome: outcome_of(&plan),
    };
    Planned { plan, report }
}
