//! Which revision to roll back to, and what that changes.

use super::change_warnings::{self, Written};
use super::effect::template_effect;
use super::pace_warnings::template_at_once;
use super::planned::{Planned, left_on_delete, report_of, unread, with_template};
use super::replacement_warnings::{Replacement, replacement_warnings};
use crate::difference::difference;
use crate::facts::revisions::{Revision, Revisions};
use crate::model::snapshot::{Kind, Snapshot};
use crate::plan::Plan;
use crate::report::plan::{ChangePlan, PlanKind, Warning, WarningCode};

/// Why there is no revision to roll back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoTarget {
    /// There is no revision with this number; the existing ones, newest first.
    NoSuchRevision(i64, Vec<i64>),
    /// The template of this revision cannot be read, and why.
    Unreadable(i64, String),
    /// All revisions have the live template; how many there are.
    NoOther(usize),
    /// All others were rolled back from; the newest of them.
    OnlyLeft(i64),
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
            let none = || match revisions.all.iter().find(|revision| revisions.was_left(revision)) {
                Some(left) => NoTarget::OnlyLeft(left.number()),
                None => NoTarget::NoOther(revisions.all.len()),
            };
            let (target, template) = revisions.target().ok_or_else(none)?;
            (target, template, Some(why(revisions, target)))
        }
    };
    let daemon_set = revisions.daemon_set;
    let plan = Plan::undo(daemon_set, target.number(), template);
    let mut warnings = Vec::new();
    let (mut effect, mut pods_left) = (None, Vec::new());
    if !plan.steps.is_empty() {
        if revisions.was_left(target) {
            let message = format!("revision {} was rolled back before: this rolls it out again", target.number());
            warnings.push(Warning::new(WarningCode::RolledBackBefore, message));
        }
        warnings.extend(change_warnings::managers(daemon_set, Written::Template(template)));
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
            Ok(_) if revisions.was_left(revision) => format!("revision {} was rolled back before", revision.number()),
            Ok(template) if !template.same_meaning(&revisions.live) => {
                format!("revision {} has fewer available pods", revision.number())
            }
            Ok(_) => format!("the template of revision {} is equivalent to the live one", revision.number()),
            Err(problem) => format!("revision {} cannot be read ({problem})", revision.number()),
        })
        .collect();
    let skipped = if skipped.is_empty() { String::new() } else { format!("; {}", skipped.join("; ")) };
    match target.available {
        0 => format!("revision {} is the newest whose template differs from the live one{skipped}", target.number()),
        _ => format!("pods of revision {} are available on most nodes{skipped}", target.number()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{NoTarget, undo};
    use crate::coverage::test_support::{CURRENT, World, world};
    use crate::facts::revisions::Revisions;
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

    /// Revisions by number, each of the image that was created at a minute of the hour.
    fn history(revisions: &[(i64, &str, u32)], live: &str) -> World {
        let mut world = world().template(json!({"containers": [{"name": "agent", "image": live}]}));
        world.snapshot.controller_revisions.clear();
        for (number, image, minute) in revisions {
            world = world.revision_of_image(&image.replace(':', "-"), *number, image);
            let created = json!(format!("2026-03-01T11:{minute:02}:00Z"));
            let newest = world.snapshot.controller_revisions.last_mut().unwrap();
            newest.metadata.creation_timestamp = serde_json::from_value(created).unwrap();
        }
        world
    }

    #[test]
    fn a_revision_that_was_rolled_back_is_returned_to_only_by_its_number() {
        let target = |revisions: &[(i64, &str, u32)], live: &str| {
            let snapshot = history(revisions, live).finish();
            let revisions = Revisions::of(&snapshot.daemon_sets[0], &snapshot);
            undo(&revisions, None, &snapshot).map(|planned| planned.report.to_revision)
        };
        // Revision 2 was rolled back to the template of revision 1, which is revision 3 now.
        let twice = [(2, "agent:2", 10), (3, "agent:1", 0)];
        assert_eq!(target(&twice, "agent:1"), Err(NoTarget::OnlyLeft(2)));
        // There is one that was replaced by a newer one.
        let three = [(1, "agent:0", 0), (3, "agent:2", 10), (4, "agent:1", 5)];
        assert_eq!(target(&three, "agent:1"), Ok(Some(1)));
        // A rollout forward says nothing against what it replaces, however soon it comes.
        assert_eq!(target(&[(1, "agent:1", 0), (2, "agent:2", 1)], "agent:2"), Ok(Some(1)));
        // The same template as a revision of its own, as a later release of the API server writes it.
        let again = [(1, "agent:1", 0), (2, "agent:2", 10), (3, "agent:1", 20)];
        assert_eq!(target(&again, "agent:1"), Err(NoTarget::OnlyLeft(2)));
        // Pods of it that are not replaced yet prove nothing.
        let labels = json!({"controller-revision-hash": "agent-2", "pod-template-generation": null});
        let world =
            history(&three, "agent:1").node("n", json!({})).pod("a", "n", json!({"metadata": {"labels": labels}}));
        let plan = undone(world, None);
        assert_eq!(plan.to_revision, Some(1));
        assert!(plan.why.unwrap().contains("revision 3 was rolled back before"));
        let plan = undone(history(&twice, "agent:1"), Some(2));
        assert_eq!(plan.warnings[0].code, WarningCode::RolledBackBefore);
    }
}
