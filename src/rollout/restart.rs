//! A restart, and what prevents it from having an effect.

use super::change_warnings::{self, Written};
use super::effect::template_effect;
use super::pace_warnings::template_at_once;
use super::planned::{Planned, left_on_delete, report_of, unread, with_template};
use super::replacement_warnings::{Replacement, replacement_warnings};
use crate::difference::difference;
use crate::facts::revisions::Revisions;
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
    let mut warnings =
        change_warnings::managers(daemon_set, Written::Template(after.as_ref().unwrap_or(&revisions.live)));
    warnings.extend(change_warnings::obstacles(daemon_set, true));
    let mut effect = None;
    if let Some(template) = &after {
        let after = with_template(daemon_set, template);
        let replacement = Replacement::of_template(&after, "", true);
        warnings.extend(replacement_warnings(revisions, &replacement, snapshot));
        effect = template_effect(daemon_set, &after, "", true, snapshot);
        warnings.extend(effect.as_ref().and_then(template_at_once));
    }
    let report = ChangePlan {
        changes: after.map(|after| difference(&revisions.live, &after)).unwrap_or_default(),
        effect,
        warnings,
        incomplete: unread(revisions, snapshot),
        pods_left: left_on_delete(revisions, None, snapshot),
        ..report_of(PlanKind::RestartPlan, &plan, revisions, snapshot)
    };
    Planned { plan, report }
}
