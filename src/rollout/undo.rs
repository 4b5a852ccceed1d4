//! Which revision to roll back to, and what that changes.

use super::change_warnings::{self, Written};
use super::difference::difference;
use super::effect::template_effect;
use super::pace_warnings::template_at_once;
use super::planned::{Planned, left_on_delete, report_of, unread, with_template};
use super::replacement_warnings::{Replacement, replacement_warnings};
use super::revisions::{Revision, Revisions};
use crate::model::snapshot::{Kind, Snapshot};
use crate::plan::Plan;
use crate::report::plan::{ChangePlan, PlanKind, WarningCode};

/// Why there is no revision to roll back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoTarget {
    /// There is no revision with this number; the existing ones, newest first.
    NoSuchRevision(i64, Vec<i64>),
    /// The template of this revision cannot be read, and why.
    Unreadable(i64, String),
    /// All revisions have the live template; how many there are.
    NoOther(usize),
}

/// Plans to roll back to a revision; without a number, to the newest whose template differs in meaning from the live
/// one.
///
/// # Errors
///
/// Fails if there is no such revision, or it cannot be read.
pub fn undo(revisions: &Revisions<'_>, to_revision: Option<i64>, snapshot: &Snapshot) -> Result<Planned, NoTarget> {
    let numbers = || revisions.all.iter().map(Revision::number).collect();
    let (target, template, why) = match to_revision {
        Some(number) => {
            let target = revisions.number(number).ok_or_else(|| NoTarget::NoSuchRevision(number, numbers()))?;
            match &target.template {
                Ok(template) => (target, template, None),
                Err(problem) => return Err(NoTarget::Unreadable(number, problem.clone())),
            }
        }
        None => {
            let (target, template) = revisions.default_target().ok_or(NoTarget::NoOther(revisions.all.len()))?;
            (target, template, Some(why(revisions, target)))
        }
    };
    let daemon_set = revisions.daemon_set;
    let plan = Plan::undo(daemon_set, target.number(), template);
    let mut warnings = Vec::new();
    let (mut effect, mut pods_left) = (None, Vec::new());
    if !plan.steps.is_empty() {
        warnings = change_warnings::managers(daemon_set, Written::Template);
        warnings.extend(change_warnings::last_applied(daemon_set, template));
        warnings.extend(change_warnings::obstacles(daemon_set, false));
        pods_left = left_on_delete(revisions, Some(template), snapshot);
        if pods_left.is_empty() && snapshot.gap(Kind::Pods, &daemon_set.metadata.namespace).is_none() {
            // Every pod is on the target already, so nothing has to be deleted.
            warnings.retain(|warning| warning.code != WarningCode::OnDelete);
        }
        let after = with_template(daemon_set, template);
        let replacement = Replacement::of_template(&after, target.object.hash(), false);
        warnings.extend(replacement_warnings(revisions, &replacement, snapshot));
        effect = template_effect(&after, target.object.hash(), false, snapshot);
        warnings.extend(effect.as_ref().and_then(template_at_once));
    }
    let report = ChangePlan {
        to_revision: Some(target.number()),
        rolled_out_at: target.object.rolled_out_at(),
        why,
        changes: difference(&revisions.live, template),
        effect,
        warnings,
        incomplete: unread(revisions, snapshot),
        pods_left,
        ..report_of(PlanKind::UndoPlan, &plan, revisions, snapshot)
    };
    Ok(Planned { plan, report })
}

/// Explains the choice of a revision.
fn why(revisions: &Revisions<'_>, target: &Revision<'_>) -> String {
    let newer = revisions.all.iter().filter(|revision| revision.number() > target.number() && !revision.is_current);
    let skipped: Vec<String> = newer
        .map(|revision| match &revision.template {
            Ok(_) => format!("the template of revision {} is equivalent to the live one", revision.number()),
            Err(problem) => format!("revision {} cannot be read ({problem})", revision.number()),
        })
        .collect();
    let skipped = if skipped.is_empty() { String::new() } else { format!("; {}", skipped.join("; ")) };
    format!("revision {} is the newest whose template differs from the live one{skipped}", target.number())
}
