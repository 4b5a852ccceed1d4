//! Which revision to roll back to, and what that changes.

use super::change_warnings::{self, Written};
use super::effect::template_effect;
use super::pace_warnings::template_at_once;
use super::planned::{Planned, left_on_delete, report_of, unread, with_template};
use super::replacement_warnings::{Replacement, replacement_warnings};
use crate::coverage::revisions::{Revision, Revisions};
use crate::difference::difference;
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
            let (target, template) = revisions.target().ok_or(NoTarget::NoOther(revisions.all.len()))?;
            (target, template, Some(why(revisions, target)))
        }
    };
    let daemon_set = revisions.daemon_set;
    let plan = Plan::undo(daemon_set, target.number(), template);
    let mut warnings = Vec::new();
    let (mut effect, mut pods_left) = (None, Vec::new());
    if !plan.steps.is_empty() {
        warnings = change_warnings::managers(daemon_set, Written::Template(template));
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
        effect = template_effect(daemon_set, &after, target.object.hash(), false, snapshot);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::undo;
    use crate::coverage::revisions::Revisions;
    use crate::coverage::test_support::{CURRENT, World, world};
    use crate::model::snapshot::{Gap, GapCause, Kind};
    use crate::report::plan::{ChangePlan, WarningCode};

    fn undone(world: World, to_revision: Option<i64>) -> ChangePlan {
        let snapshot = world.finish();
        undo(&Revisions::of(&snapshot.daemon_sets[0], &snapshot), to_revision, &snapshot).unwrap().report
    }

    #[test]
    fn pods_have_to_be_deleted_under_on_delete_unless_they_are_all_known_to_have_the_template() {
        let of = |hash: &str, is_known: bool| {
            let labels = json!({"controller-revision-hash": hash, "pod-template-generation": null});
            let mut world = world()
                .revision_of_image("hash1", 1, "agent:1")
                .daemon_set(json!({"spec": {"updateStrategy": {"type": "OnDelete"}}}))
                .node("n0", json!({}))
                .pod("agent-0", "n0", json!({"metadata": {"labels": labels}}));
            if !is_known {
                let cause = GapCause::Forbidden("list pods".to_owned());
                world.snapshot.gaps.push(Gap { kind: Kind::Pods, namespace: None, cause });
                world.snapshot.pods.clear();
            }
            let warnings = undone(world, Some(1)).warnings;
            warnings.iter().any(|warning| warning.code == WarningCode::OnDelete)
        };
        assert_eq!([of(CURRENT, true), of("hash1", true), of("hash1", false)], [true, false, true]);
    }

    #[test]
    fn the_newest_other_template_is_the_default_and_newer_ones_that_are_no_choice_are_named() {
        let plan = undone(
            world()
                .revision_of_image("live", 5, "agent:2")
                .revision_of_image("same", 4, "agent:2")
                .revision("bad", 3)
                .revision_of_image("hash1", 1, "agent:1")
                .revision_of_image("hash0", 0, "agent:0"),
            None,
        );
        assert_eq!((plan.from_revision, plan.to_revision), (Some(5), Some(1)));
        let why = plan.why.unwrap();
        let named = [5, 4, 3, 2, 1, 0].into_iter().filter(|number| why.contains(&format!("revision {number} ")));
        assert_eq!(named.collect::<Vec<_>>(), [4, 3, 2, 1], "{why}");
    }
}
