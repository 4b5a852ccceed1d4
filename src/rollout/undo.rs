//! Which revision to roll back to, and what that changes.

use super::proposal::{Planned, propose_template};
use super::replacement_warnings::unless_harmful;
use super::rollback::{held_back, revision_fails};
use super::situation::Situation;
use crate::coverage::{Origin, creation_refusal};
use crate::facts::revisions::{BRIEF, Doubt, NoTemplate, Revision};
use crate::model::hold::Hold;
use crate::model::pod::Pod;
use crate::model::snapshot::Kind;
use crate::model::template::Template;
use crate::plan::Plan;
use crate::report::age::format_age;
use crate::report::plan::{ChangePlan, Warning, WarningCode};
use crate::report::{count, count_and};

/// Why there is no revision to roll back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoTarget {
    /// The revision with this number has no template.
    NoTemplate(i64, NoTemplate),
    /// Not all revisions were read, so that the one that works may be missing.
    Unread,
    /// All revisions have the live template; contains their number.
    NoOther(usize),
    /// All others were rolled back from; contains the one that is available on the most nodes, or the newest.
    OnlyLeft(i64),
    /// The API server refuses its pods, and the controller would delete available ones.
    Refused(Vec<Warning>),
}

/// Plans to roll back to a revision; without a number, to the [target](Revisions::target).
///
/// # Errors
///
/// Fails if there is no such revision, or it cannot be read.
pub fn undo(before: &Situation<'_>, to_revision: Option<i64>) -> Result<Planned, NoTarget> {
    let revisions = &before.revisions;
    let (target, template, why) = match to_revision {
        Some(number) => {
            let target = revisions.number(number).or_else(|| revisions.renumbered(number));
            let unknown = |unknown| NoTarget::NoTemplate(number, unknown);
            let target = target.ok_or_else(|| unknown(NoTemplate::NoSuchRevision))?;
            let is_renumbered = target.number() != number;
            let why = is_renumbered.then(|| format!("revision {number} is now revision {}", target.number()));
            (target, target.readable().map_err(unknown)?, why)
        }
        // The controller keeps the revisions of pods (`cleanupHistory`, pkg/controller/daemon/update.go, release 1.37.2).
        None if revisions.target().is_none() && revisions.other_available > 0 => return Err(NoTarget::Unread),
        None if !before.knows(Kind::ControllerRevisions) && !revisions.all.is_empty() => return Err(NoTarget::Unread),
        None => {
            let left = || revisions.all.iter().find(|one| revisions.was_rolled_back(one));
            let none = || match revisions.proven().map(|(proven, _)| proven).or_else(left) {
                Some(left) => NoTarget::OnlyLeft(left.number()),
                None => NoTarget::NoOther(revisions.all.len()),
            };
            let (target, template) = revisions.target().ok_or_else(none)?;
            let (target, template) = replaced_by_stage(before, target).unwrap_or((target, template));
            (target, template, Some(why(before, target)))
        }
    };
    let is_guess = to_revision.is_none() && !before.knows(Kind::Pods) && revisions.others().nth(1).is_some();
    let plan = Plan::undo(before.daemon_set, template);
    let planned = propose_template(before, plan, Some(target));
    // A revision that lasted longer was tried only after others that lasted.
    let is_doubtful = |doubt: &Doubt| !matches!(doubt, Doubt::ReplacedAfter(lasted) if *lasted >= BRIEF);
    // Those that work elsewhere do not make up for those that fail.
    let failing = || Some(Doubt::Failing(target.failing)).filter(|_| target.failing > 0);
    let doubt = revisions.doubt(target).filter(is_doubtful).or_else(failing).filter(|_| planned.report.needed);
    let doubt = doubt.map(|doubt| {
        let (number, what) = (target.number(), describe(doubt));
        match doubt {
            Doubt::RolledBack => Warning::new(
                WarningCode::RolledBackBefore,
                format!("revision {number} {what}: this rolls it out again"),
            ),
            Doubt::Failing(_) if target.is_proven() => Warning::new(
                WarningCode::TargetNotProven,
                format!("revision {number} does not work everywhere: it {what}"),
            ),
            Doubt::Failing(_) | Doubt::ReplacedAfter(_) => {
                Warning::new(WarningCode::TargetNotProven, format!("revision {number} may not work: it {what}"))
            }
        }
    });
    let guess = (is_guess && planned.report.needed).then(|| {
        let number = target.number();
        let message =
            format!("which revision works is unknown, because pods could not be read: check revision {number} first");
        Warning::new(WarningCode::TargetNotProven, message)
    });
    let kept = held_back(before, target);
    let moved = (planned.report.needed && kept > 0).then(|| {
        let nodes = count_and(kept, "node", ["that is", "that are"]);
        let message = format!(
            "{nodes} held on older revisions get revision {}, too: the hold ends with a rollback of all nodes",
            target.number()
        );
        Warning::new(WarningCode::HoldEnds, message)
    });
    let report = ChangePlan {
        to_revision: Some(target.number()),
        rolled_out_at: revisions.rolled_out_at(target.object),
        why,
        warnings: guess.into_iter().chain(doubt).chain(moved).chain(planned.report.warnings).collect(),
        ..planned.report
    };
    Ok(Planned { report, ..planned })
}

/// Returns the revision that the last stage was to replace, if that runs on as many nodes as another target: continuing
/// with the stage's template would not go back.
fn replaced_by_stage<'s, 'a>(
    before: &'s Situation<'a>,
    target: &Revision<'_>,
) -> Option<(&'s Revision<'a>, &'s Template)> {
    let revisions = &before.revisions;
    let replaced = revisions.replaced_by_stage()?;
    let template = replaced.template.as_ref().ok().filter(|template| !template.same_meaning(&revisions.live))?;
    (replaced.available > 0 && replaced.available >= target.available).then_some((replaced, template))
}

/// Plans to roll back, unless the API server is known to refuse the pods for which available ones are deleted.
///
/// # Errors
///
/// Fails as [`undo`] does, and if the rollback would make things worse.
pub(crate) fn undo_safely(before: &Situation<'_>, to_revision: Option<i64>) -> Result<Planned, NoTarget> {
    unless_harmful(undo(before, to_revision)?, false).map_err(NoTarget::Refused)
}

/// Returns whether a held DaemonSet has a template that was rolled back to, so that nodes may still have to follow.
pub(crate) fn is_rolled_back(before: &Situation<'_>) -> bool {
    let revisions = &before.revisions;
    // What was rolled out a second time need not be a rollback.
    let came_back = |left: &Revision<'_>| revisions.current().is_some_and(|next| revisions.both_came_back(left, next));
    let is_left = |left: &Revision<'_>| left.pods.total > 0 && revisions.was_rolled_back(left) && !came_back(left);
    let is_undo =
        |hold: Hold| hold.lacks_template(before.current_hash()) || hold.flags.is_some_and(|flags| flags.is_undo);
    Hold::of(before.daemon_set).is_some_and(is_undo) || revisions.all.iter().any(is_left)
}

/// Returns the revision to which a DaemonSet was rolled back during a hold, if some nodes have not followed yet.
pub(crate) fn unfinished_rollback(before: &Situation<'_>) -> Option<i64> {
    let hold = Hold::in_force(before.daemon_set)?;
    let is_left = before.eligible().any(|node| node.old.is_some());
    let is_overtaken = hold.is_of_another_template(before.daemon_set);
    if is_overtaken && hold.flags.as_ref().is_some_and(|flags| flags.is_undo) {
        return before.revisions.rolled_back_to().map(Revision::number).filter(|_| is_left);
    }
    let last = before.revisions.all.iter().find(|revision| !revision.is_current)?.object.hash();
    // A stage that rolls out a template that was rolled back from before goes forward.
    let goes_forward =
        hold.flags.is_some_and(|flags| !flags.is_undo && flags.replaced_revision.as_deref() == Some(last));
    Some(before.current.known().filter(|_| is_left && !goes_forward && is_rolled_back(before))?.revision)
}

/// Returns whether the current revision was rolled back to from the previous one.
pub(crate) fn is_return(before: &Situation<'_>) -> bool {
    let revisions = &before.revisions;
    let current = revisions.all.iter().position(|revision| revision.is_current);
    let last = current.and_then(|current| Some((&revisions.all[current], revisions.all.get(current + 1)?)));
    // An unreadable revision was never rolled out.
    last.is_some_and(|(current, last)| last.template.is_ok() && revisions.was_left_for(last, current))
}

/// How many seconds after a rollback another one counts as its repetition, for example after an interruption.
const REPEATED: i64 = 3_600;

/// Returns the current revision if it was rolled back to recently and does not fail: a user who repeats the command wants neither to go
/// further back nor to what was left.
pub(crate) fn done_rollback(before: &Situation<'_>) -> Option<i64> {
    let is_of_template = |origin: &Origin| matches!(origin, Origin::Template(_) | Origin::Policy(_));
    let is_refused = || creation_refusal(before).is_some_and(|refusal| is_of_template(&refusal.origin));
    let fails = || revision_fails(before) || is_refused();
    let current = before.current.known().filter(|_| is_return(before) && !fails())?;
    let is_recent = before.rollout_began_at().is_some_and(|at| before.seconds_since(at) < REPEATED);
    is_recent.then_some(current.revision)
}

/// Returns the revision to which the last stage of a DaemonSet rolls back, if its template was not changed since.
pub(crate) fn begun_rollback(before: &Situation<'_>) -> Option<i64> {
    Hold::of(before.daemon_set).filter(|hold| !hold.lacks_template(before.current_hash()))?;
    before.revisions.rolled_back_to().filter(|target| target.is_current).map(Revision::number)
}

/// Explains the choice of a revision.
fn why(before: &Situation<'_>, target: &Revision<'_>) -> String {
    let revisions = &before.revisions;
    let newer = revisions.all.iter().filter(|revision| revision.number() > target.number() && !revision.is_current);
    let skipped: Vec<String> = newer
        .map(|revision| match &revision.template {
            Ok(template) if !template.same_meaning(&revisions.live) => match revisions.doubt(revision) {
                Some(doubt) => format!("revision {} {}", revision.number(), describe(doubt)),
                None => format!("revision {} has fewer available pods", revision.number()),
            },
            Ok(_) => format!("the template of revision {} is equivalent to the live one", revision.number()),
            Err(problem) => format!("revision {} cannot be read ({problem})", revision.number()),
        })
        .collect();
    let skipped = if skipped.is_empty() { String::new() } else { format!("; {}", skipped.join("; ")) };
    match target.available {
        0 => format!("revision {} is the newest whose template differs from the live one{skipped}", target.number()),
        available => {
            let is_of_target = |pod: &Pod| pod.revision_hash() == target.object.hash();
            let on_eligible =
                before.eligible().filter(|node| node.old_is_available && node.old.is_some_and(is_of_target));
            // There may be pods on nodes that are no longer eligible, or do not exist, and nodes that were not read.
            let why = match on_eligible.count() == available {
                true => format!("its pods are available on {available} of {} nodes", before.eligible().count()),
                false => format!("it has {}", count(available, "available pod")),
            };
            format!("revision {} was chosen because {why}{skipped}", target.number())
        }
    }
}

/// Returns the doubt about a revision, as the rest of a sentence about it.
fn describe(doubt: Doubt) -> String {
    match doubt {
        Doubt::RolledBack => "was rolled back before".to_owned(),
        Doubt::Failing(1) => "has 1 failing pod".to_owned(),
        Doubt::Failing(pods) => format!("has {pods} failing pods"),
        Doubt::ReplacedAfter(seconds) => format!("was replaced after {}", format_age(seconds)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{NoTarget, NoTemplate, begun_rollback, done_rollback, undo, unfinished_rollback};
    use crate::coverage::test_support::{CURRENT, World, at, world};
    use crate::facts::index::Index;
    use crate::facts::revisions::Revisions;
    use crate::model::hold::StageFlags;
    use crate::model::snapshot::{Gap, GapCause, Kind};
    use crate::report::plan::{ChangePlan, WarningCode};
    use crate::rollout::rollback::rollback;
    use crate::rollout::situation::Situation;

    fn undone(world: World, to_revision: Option<i64>) -> ChangePlan {
        let snapshot = world.finish();
        undo(&Situation::new(&Index::new(&snapshot), &snapshot.daemon_sets[0]), to_revision).unwrap().report
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

    /// Revisions by number, each with an image that was created at a minute of the hour.
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

    /// Whoever has applied an old manifest again did not roll back.
    #[test]
    fn a_revision_that_was_left_for_one_that_fails_is_offered() {
        let crashes = || json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let of = |image: &str| json!({"metadata": {"labels": {"controller-revision-hash": image.replace(':', "-")}}});
        let told = |of_new: Value| {
            let mut world = history(&[(3, "agent:1", 0), (2, "agent:2", 10)], "agent:1");
            for node in ["a", "b"] {
                world = world.node(node, json!({})).pod(&format!("agent-{node}"), node, of("agent:2"));
            }
            let world = world.node("c", json!({})).unready_pod("agent-c", "c", of_new, of("agent:1"));
            let snapshot = world.finish();
            let index = Index::new(&snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            let command = rollback(&situation).ok().map(|fix| fix.command.unwrap().to_string());
            (undo(&situation, None).map(|planned| planned.report.to_revision), command)
        };
        let command = "kubectl ds undo --to-revision 2 -n default agent";
        assert_eq!(told(crashes()), (Ok(Some(2)), Some(command.to_owned())));
        let starting = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
        assert_eq!(told(starting), (Err(NoTarget::OnlyLeft(2)), None));
    }

    /// Its pods that work elsewhere are why it is chosen.
    #[test]
    fn a_revision_some_of_whose_pods_fail_is_chosen_with_a_warning() {
        let of = |image: &str| {
            let labels = json!({"controller-revision-hash": image.replace(':', "-"), "pod-template-generation": null});
            json!({"metadata": {"labels": labels}})
        };
        let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        for old_fails in [false, true] {
            let mut world = history(&[(1, "agent:1", 0), (2, "agent:2", 20)], "agent:2");
            for node in ["a", "b", "c"] {
                world = world.node(node, json!({})).pod(&format!("agent-{node}"), node, of("agent:1"));
            }
            world = world.node("d", json!({})).unready_pod("agent-d", "d", crashes.clone(), of("agent:2"));
            if old_fails {
                world = world.node("e", json!({})).unready_pod("agent-e", "e", crashes.clone(), of("agent:1"));
            }
            let plan = undone(world, None);
            let warned = plan.warnings.iter().find(|warning| warning.code == WarningCode::TargetNotProven);
            let expected = old_fails.then_some("revision 1 does not work everywhere: it has 1 failing pod");
            assert_eq!((plan.to_revision, warned.map(|it| it.message.as_str())), (Some(1), expected));
        }
    }

    /// Somebody has deleted the ControllerRevision that most pods have: the one before it may be much older.
    #[test]
    fn neither_undo_nor_a_suggestion_goes_further_back_than_pods_that_work() {
        let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let of = |image: &str| json!({"metadata": {"labels": {"controller-revision-hash": image.replace(':', "-")}}});
        let told = |is_deleted: bool| {
            let all = [(1, "agent:1", 0), (2, "agent:2", 10), (3, "agent:3", 20)];
            let left = all.into_iter().filter(|(number, ..)| !(is_deleted && *number == 2));
            let mut world = history(&left.collect::<Vec<_>>(), "agent:3");
            for node in ["a", "b"] {
                world = world.node(node, json!({})).pod(&format!("agent-{node}"), node, of("agent:2"));
            }
            let world = world.node("c", json!({})).unready_pod("agent-c", "c", crashes.clone(), of("agent:3"));
            let snapshot = world.finish();
            let index = Index::new(&snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            let command = rollback(&situation).ok().map(|fix| fix.command.unwrap().to_string());
            (undo(&situation, None).map(|planned| planned.report.to_revision), command)
        };
        let command = "kubectl ds undo --to-revision 2 -n default agent";
        assert_eq!(told(false), (Ok(Some(2)), Some(command.to_owned())));
        assert_eq!(told(true), (Err(NoTarget::Unread), None));
    }

    /// The failing revision is the older object, rolled out again and left again.
    #[test]
    fn what_was_rolled_back_from_twice_is_not_returned_to_by_a_repeated_undo() {
        let done = |began: u32| {
            let mut world = history(&[(6, "agent:3", 30), (5, "agent:2", 10), (3, "agent:1", 0)], "agent:3");
            for (revision, minute) in world.snapshot.controller_revisions.iter_mut().zip([50, began, 20]) {
                let time = format!("2026-03-01T11:{minute:02}:00Z");
                let fields = json!([{"manager": "kube-controller-manager", "operation": "Update", "time": time,
                    "fieldsV1": {"f:revision": {}}}]);
                revision.object["metadata"]["managedFields"] = fields;
            }
            let snapshot = world.node("a", json!({})).finish();
            let index = Index::new(&snapshot);
            done_rollback(&Situation::new(&index, &snapshot.daemon_sets[0]))
        };
        assert_eq!((done(40), done(10)), (Some(6), None));
    }

    /// Both revisions came back once: the first was left for the second, unless that fails again.
    #[test]
    fn of_two_revisions_that_both_came_back_the_last_one_is_kept_unless_it_fails() {
        let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let fails = || Some(crashes.clone());
        for (on_nodes, is_held, expected) in [
            (vec![None], false, Err(NoTarget::OnlyLeft(3))),
            (vec![None], true, Err(NoTarget::OnlyLeft(3))),
            (vec![fails()], false, Ok(Some(3))),
            // It may be made for some of the nodes alone.
            (vec![None, None, fails()], false, Ok(Some(3))),
        ] {
            let mut world = history(&[(4, "agent:2", 10), (3, "agent:1", 0)], "agent:2");
            for (revision, minute) in world.snapshot.controller_revisions.iter_mut().zip([30, 20]) {
                let time = format!("2026-03-01T11:{minute:02}:00Z");
                let fields = json!([{"manager": "kube-controller-manager", "operation": "Update", "time": time,
                    "fieldsV1": {"f:revision": {}}}]);
                revision.object["metadata"]["managedFields"] = fields;
            }
            let of = |hash: &str| json!({"metadata": {"labels": {"controller-revision-hash": hash}}});
            world = world.node("old", json!({})).pod("agent-old", "old", of("agent-1"));
            for (number, status) in on_nodes.into_iter().enumerate() {
                let (node, pod) = (format!("n{number}"), format!("agent-{number}"));
                world = world.node(&node, json!({}));
                world = match status {
                    None => world.pod(&pod, &node, of("agent-2")),
                    Some(status) => world.unready_pod(&pod, &node, status, of("agent-2")),
                };
            }
            if is_held {
                world = world.daemon_set(json!({"metadata": {"annotations": {"kubectl-ds/held-since": at("11:25:00"),
                    "kubectl-ds/original-update-strategy": "{\"type\":\"RollingUpdate\"}"}},
                    "spec": {"updateStrategy": {"type": "OnDelete"}}}));
            }
            let snapshot = world.finish();
            let index = Index::new(&snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            assert_eq!(undo(&situation, None).map(|planned| planned.report.to_revision), expected);
            // Nothing tells whether the nodes are to follow.
            assert_eq!(unfinished_rollback(&situation), None);
        }
    }

    /// A template that was rolled out before is rolled out again in stages, to replace one that works.
    #[test]
    fn a_stage_that_rolls_an_older_template_out_again_is_taken_back() {
        let of = |is_undo: bool| {
            let flags = StageFlags {
                is_undo,
                replaced_revision: Some("agent-3".to_owned()),
                progress_deadline_seconds: 600,
                ..StageFlags::default()
            };
            let mut world = history(&[(5, "agent:2", 10), (4, "agent:3", 20), (3, "agent:1", 0)], "agent:2");
            for (node, hash) in [("a", "agent-2"), ("b", "agent-3"), ("c", "agent-3")] {
                let labels = json!({"metadata": {"labels": {"controller-revision-hash": hash}}});
                world = world.node(node, json!({})).pod(&format!("agent-{node}"), node, labels);
            }
            let annotations = json!({"kubectl-ds/original-update-strategy": "{\"type\":\"RollingUpdate\"}",
                "kubectl-ds/partition": "2", "kubectl-ds/gates": flags.to_annotation()});
            let held =
                json!({"metadata": {"annotations": annotations}, "spec": {"updateStrategy": {"type": "OnDelete"}}});
            let snapshot = world.daemon_set(held).finish();
            let index = Index::new(&snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            undo(&situation, None).ok().and_then(|planned| planned.report.to_revision)
        };
        assert_eq!((of(false), of(true)), (Some(4), Some(3)));
    }

    #[test]
    fn none_of_several_revisions_that_were_rolled_back_is_the_default() {
        let none = |revisions: &[(i64, &str, u32)], live: &str| {
            let snapshot = history(revisions, live).finish();
            let index = Index::new(&snapshot);
            undo(&Situation::new(&index, &snapshot.daemon_sets[0]), None).map(|planned| planned.report.to_revision)
        };
        // Two bad ones, one after the other, and one rollback.
        let at_once = [(2, "agent:2", 10), (3, "agent:3", 20), (4, "agent:1", 0)];
        assert_eq!(none(&at_once, "agent:1").unwrap_err(), NoTarget::OnlyLeft(3));
        // A rollback after each.
        let in_turn = [(2, "agent:2", 10), (4, "agent:3", 20), (5, "agent:1", 0)];
        assert_eq!(none(&in_turn, "agent:1").unwrap_err(), NoTarget::OnlyLeft(4));
        // One that was rolled back from, and is older than the working one.
        let before = [(2, "agent:2", 10), (3, "agent:1", 0), (4, "agent:4", 30)];
        assert_eq!(none(&before, "agent:4").unwrap(), Some(3));
        // A revision that was rolled out again counts.
        let again = [(3, "agent:1", 0), (4, "agent:2", 10), (5, "agent:3", 20)];
        assert_eq!(none(&again, "agent:3").unwrap(), Some(4));
    }

    /// The image was set again while a stage is held half-way.
    #[test]
    fn a_stage_that_is_not_finished_goes_back_to_what_it_was_to_replace() {
        let flags = |is_undo| StageFlags {
            is_undo,
            replaced_revision: Some("agent-1".to_owned()),
            progress_deadline_seconds: 600,
            ..StageFlags::default()
        };
        for (flags, on_first, on_second, expected) in [
            (Some(flags(false)), 3, 3, 1),
            (Some(flags(false)), 4, 2, 1),
            // The revision on most nodes is the target.
            (Some(flags(false)), 1, 5, 2),
            (Some(flags(true)), 3, 3, 2),
            (None, 3, 3, 2),
        ] {
            let mut world = history(&[(1, "agent:1", 0), (2, "agent:2", 10), (3, "agent:3", 20)], "agent:3");
            for number in 0..on_first + on_second {
                let (node, hash) = (format!("n{number}"), if number < on_first { "agent-1" } else { "agent-2" });
                let labels = json!({"controller-revision-hash": hash, "pod-template-generation": null});
                world = world.node(&node, json!({})).pod(
                    &format!("agent-{number}"),
                    &node,
                    json!({"metadata": {"labels": labels}}),
                );
            }
            let mut annotations = json!({"kubectl-ds/held-since": at("11:50:00"), "kubectl-ds/partition": "50%",
                "kubectl-ds/original-update-strategy": "{\"type\":\"RollingUpdate\"}"});
            if let Some(flags) = &flags {
                annotations["kubectl-ds/gates"] = json!(flags.to_annotation());
            }
            let held =
                json!({"metadata": {"annotations": annotations}, "spec": {"updateStrategy": {"type": "OnDelete"}}});
            let snapshot = world.daemon_set(held).finish();
            let index = Index::new(&snapshot);
            let planned = undo(&Situation::new(&index, &snapshot.daemon_sets[0]), None).unwrap();
            assert_eq!(planned.report.to_revision, Some(expected), "{flags:?} {on_first} {on_second}");
        }
    }

    /// The client was killed, or did not wait: the template is that of the target, and a node still has a pod of the other
    /// revision.
    #[test]
    fn a_rollback_under_a_hold_is_finished_once_all_nodes_have_followed() {
        let left = [(2, "agent:2", 10), (3, "agent:1", 0)];
        let held = json!({"metadata": {"annotations": {"kubectl-ds/held-since": at("11:50:00"),
            "kubectl-ds/original-update-strategy": "{\"type\":\"RollingUpdate\"}"}},
            "spec": {"updateStrategy": {"type": "OnDelete"}}});
        let begun = StageFlags { progress_deadline_seconds: 600, ..StageFlags::default() };
        let forward = StageFlags { replaced_revision: Some("agent-2".to_owned()), ..begun.clone() };
        let elsewhere = StageFlags { replaced_revision: Some("agent-0".to_owned()), ..begun };
        let back = StageFlags { is_undo: true, ..forward.clone() };
        for (is_held, flags, hash, expected) in [
            (true, None, "agent-2", Some(3)),
            (true, None, "agent-1", None),
            (false, None, "agent-2", None),
            (true, Some(&forward), "agent-2", None),
            (true, Some(&elsewhere), "agent-2", Some(3)),
            (true, Some(&back), "agent-2", Some(3)),
        ] {
            let mut held = held.clone();
            if let Some(flags) = flags {
                held["metadata"]["annotations"]["kubectl-ds/partition"] = json!("0");
                held["metadata"]["annotations"]["kubectl-ds/gates"] = json!(flags.to_annotation());
            }
            let labels = json!({"controller-revision-hash": hash, "pod-template-generation": null});
            let world =
                history(&left, "agent:1").node("n", json!({})).pod("a", "n", json!({"metadata": {"labels": labels}}));
            let snapshot = if is_held { world.daemon_set(held) } else { world }.finish();
            let index = Index::new(&snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            assert_eq!(unfinished_rollback(&situation), expected, "{is_held} {flags:?} {hash}");
        }
    }

    /// The controller gives it a new number, which a repeated command cannot know.
    #[test]
    fn a_revision_that_became_current_is_found_by_the_number_that_it_had() {
        const GENERATION: &str = "deprecated.daemonset.template.generation";
        let to = |revisions: &[(i64, &str, u32)], (created, now): (&str, &str), number| {
            let mut world = history(revisions, "agent:1");
            let current = world.snapshot.controller_revisions.last_mut().unwrap();
            current.annotations.insert(GENERATION.to_owned(), created.to_owned());
            let snapshot = world.daemon_set(json!({"metadata": {"annotations": {GENERATION: now}}})).finish();
            let index = Index::new(&snapshot);
            let planned = undo(&Situation::new(&index, &snapshot.daemon_sets[0]), Some(number));
            planned.map(|planned| (planned.plan.step.is_some(), planned.report.to_revision, planned.report.why))
        };
        let found = |number, now| Ok((false, Some(now), Some(format!("revision {number} is now revision {now}"))));
        let gone = |number| Err(NoTarget::NoTemplate(number, NoTemplate::NoSuchRevision));
        let back = [(2, "agent:2", 5), (3, "agent:3", 10), (4, "agent:1", 0)];
        assert_eq!(to(&back, ("1", "4"), 1), found(1, 4));
        // The controller has missed a template.
        assert_eq!(to(&back, ("1", "5"), 1), gone(1));
        // It was revision 7 directly before the last one, and earlier revision 1.
        let twice = [(6, "agent:2", 5), (8, "agent:3", 10), (9, "agent:1", 0)];
        assert_eq!(to(&twice, ("1", "9"), 7), found(7, 9));
        assert_eq!(to(&twice, ("1", "9"), 5), gone(5));
        // Nothing was rolled back.
        let forward = [(6, "agent:2", 5), (8, "agent:3", 10), (9, "agent:1", 20)];
        assert_eq!(to(&forward, ("9", "9"), 7), gone(7));
    }

    /// The controller may have observed it or not; a later rollout makes it a different one.
    #[test]
    fn a_rollback_that_was_begun_is_known_until_the_template_changes() {
        let of = |revisions: &[(i64, &str, u32)], live: &str, is_undo: bool, target: Option<&str>| {
            let flags = StageFlags {
                is_undo,
                replaced_revision: Some("agent-2".to_owned()),
                target_revision: target.map(str::to_owned),
                // The DaemonSet has this one until its template is changed.
                template_generation: Some(if live == "agent:4" { 1 } else { 2 }),
                progress_deadline_seconds: 600,
                ..StageFlags::default()
            };
            let annotations = json!({"kubectl-ds/original-update-strategy": "{\"type\":\"RollingUpdate\"}",
                "kubectl-ds/partition": "0", "kubectl-ds/gates": flags.to_annotation()});
            let held =
                json!({"metadata": {"annotations": annotations}, "spec": {"updateStrategy": {"type": "OnDelete"}}});
            let old = json!({"metadata": {"labels": {"controller-revision-hash": "agent-2", "pod-template-generation": null}}});
            let world = history(revisions, live).daemon_set(held).node("n", json!({})).pod("agent-n", "n", old);
            let snapshot = world.finish();
            let index = Index::new(&snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            (begun_rollback(&situation), unfinished_rollback(&situation))
        };
        let begun = |revisions: &[(i64, &str, u32)], live: &str, is_undo: bool| of(revisions, live, is_undo, None).0;
        let observed = [(0, "agent:0", 0), (2, "agent:2", 10), (3, "agent:1", 5)];
        assert_eq!(begun(&observed, "agent:1", true), Some(3));
        assert_eq!(begun(&observed, "agent:1", false), None);
        assert_eq!(begun(&[(0, "agent:0", 0), (1, "agent:1", 5), (2, "agent:2", 10)], "agent:1", true), Some(1));
        // The template was not changed, or was changed again.
        assert_eq!(begun(&observed, "agent:2", true), None);
        let since = [(2, "agent:2", 10), (3, "agent:1", 5), (4, "agent:4", 20)];
        assert_eq!(begun(&since, "agent:4", true), None);
        // What is to be finished is what was begun.
        assert_eq!(of(&since, "agent:4", true, Some("agent-1")), (None, Some(3)));
        assert_eq!(of(&since, "agent:4", true, None), (None, None));
        assert_eq!(of(&since, "agent:4", true, Some("agent-4")), (Some(4), Some(4)), "it was put back");
    }

    #[test]
    fn a_revision_that_was_rolled_back_is_returned_to_only_by_its_number() {
        let target = |revisions: &[(i64, &str, u32)], live: &str| {
            let snapshot = history(revisions, live).finish();
            let index = Index::new(&snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            undo(&situation, None).map(|planned| planned.report.to_revision)
        };
        // Revision 2 was rolled back to the template of revision 1, which is revision 3 now.
        let twice = [(2, "agent:2", 10), (3, "agent:1", 0)];
        assert_eq!(target(&twice, "agent:1"), Err(NoTarget::OnlyLeft(2)));
        // There is one that was replaced by a newer one.
        let three = [(1, "agent:0", 0), (3, "agent:2", 10), (4, "agent:1", 5)];
        assert_eq!(target(&three, "agent:1"), Ok(Some(1)));
        // A rollout forward does not make the replaced revision doubtful, however soon it comes.
        assert_eq!(target(&[(1, "agent:1", 0), (2, "agent:2", 1)], "agent:2"), Ok(Some(1)));
        // The same template as a separate revision, as a later release of the API server writes it.
        let again = [(1, "agent:1", 0), (2, "agent:2", 10), (3, "agent:1", 20)];
        assert_eq!(target(&again, "agent:1"), Err(NoTarget::OnlyLeft(2)));
        // Its pods that are not replaced yet prove nothing.
        let labels = json!({"controller-revision-hash": "agent-2", "pod-template-generation": null});
        let world =
            history(&three, "agent:1").node("n", json!({})).pod("a", "n", json!({"metadata": {"labels": labels}}));
        // Nor does a stage of the live template, which may be that rollback, return to it, although most pods have it.
        let snapshot = world.finish();
        let index = Index::new(&snapshot);
        let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
        assert_eq!(situation.revisions.proven().map(|(revision, _)| revision.number()), Some(3));
        assert!(situation.revisions.proven_not_rolled_back().is_none());
        let plan = undo(&situation, None).unwrap().report;
        assert_eq!(plan.to_revision, Some(1));
        assert!(plan.why.unwrap().contains("revision 3 was rolled back before"));
        let plan = undone(history(&twice, "agent:1"), Some(2));
        assert_eq!(plan.warnings[0].code, WarningCode::RolledBackBefore);
    }

    /// A stage replaces pods of several revisions: its end and `status` go by those that are left.
    #[test]
    fn a_stage_is_taken_back_to_the_revision_that_is_left_on_most_nodes() {
        let of = |number: i64| json!({"metadata": {"labels": {"controller-revision-hash": format!("agent-{}", number - 1)}}});
        let skipped = || json!({"metadata": {"labels": {"kubectl-ds/skip": "true"}}});
        let down = || json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        for (left, before, first, expected) in [
            (&[1, 2, 2][..], Some(1), json!({}), Some(2)),
            (&[1, 1, 2], Some(1), json!({}), Some(1)),
            (&[1, 2], Some(1), json!({}), Some(2)),
            (&[], Some(1), json!({}), Some(1)),
            (&[1, 1], Some(2), skipped(), Some(1)),
            // The stage has left these as they were.
            (&[1], Some(2), skipped(), Some(2)),
            (&[1], Some(2), down(), Some(2)),
            // A rollback is not taken back.
            (&[1, 2], None, json!({}), None),
        ] {
            let mut world = history(&[(1, "agent:0", 0), (2, "agent:1", 20), (3, "agent:2", 40)], "agent:2");
            for (at, number) in left.iter().enumerate() {
                let name = format!("n{at}");
                let node = if at == 0 { first.clone() } else { json!({}) };
                world = world.node(&name, node).pod(&format!("agent-{at}"), &name, of(*number));
            }
            let snapshot = world.finish();
            let revisions = Revisions::of(&snapshot.daemon_sets[0], &snapshot);
            assert_eq!(revisions.way_back(before, &snapshot), expected, "{left:?} {before:?} {first}");
        }
    }

    #[test]
    fn a_choice_without_pods_is_said_to_be_one() {
        let codes = |revisions: &[(i64, &str, u32)], to_revision, is_known: bool| {
            let mut world = history(revisions, "agent:2");
            if !is_known {
                let cause = GapCause::Forbidden("list pods".to_owned());
                world.snapshot.gaps.push(Gap { kind: Kind::Pods, namespace: None, cause });
            }
            undone(world, to_revision).warnings.iter().map(|warning| warning.code).collect::<Vec<_>>()
        };
        let three = [(1, "agent:0", 0), (2, "agent:1", 20), (3, "agent:2", 40)];
        assert_eq!(codes(&three, None, true), []);
        assert_eq!(codes(&three, None, false), [WarningCode::TargetNotProven]);
        assert_eq!(codes(&three, Some(1), false), []);
        assert_eq!(codes(&three[1..], None, false), []);
    }

    #[test]
    fn a_revision_that_was_replaced_within_minutes_is_no_choice_unless_its_pods_work() {
        let quick = [(1, "agent:0", 0), (2, "agent:1", 20), (3, "agent:2", 22)];
        let plan = undone(history(&quick, "agent:2"), None);
        assert_eq!((plan.to_revision, plan.warnings), (Some(1), Vec::new()));
        assert!(plan.why.unwrap().ends_with("; revision 2 was replaced after 2m"));
        let plan = undone(history(&quick, "agent:2"), Some(2));
        assert_eq!(plan.warnings[0].code, WarningCode::TargetNotProven);
        let labels = json!({"controller-revision-hash": "agent-1", "pod-template-generation": null});
        let works =
            history(&quick, "agent:2").node("n", json!({})).pod("a", "n", json!({"metadata": {"labels": labels}}));
        let plan = undone(works, None);
        assert_eq!((plan.to_revision, plan.warnings.first()), (Some(2), None));
        // It has lasted.
        let plan = undone(history(&[(1, "agent:0", 0), (2, "agent:1", 20), (3, "agent:2", 30)], "agent:2"), None);
        assert_eq!((plan.to_revision, plan.warnings.first()), (Some(2), None));
        // There is nothing better.
        let plan = undone(history(&[(1, "agent:1", 0), (2, "agent:2", 1)], "agent:2"), None);
        assert_eq!((plan.to_revision, plan.warnings[0].code), (Some(1), WarningCode::TargetNotProven));
        assert_eq!(plan.warnings[0].message, "revision 1 may not work: it was replaced after 60s");
    }

    #[test]
    fn a_revision_whose_pods_fail_now_is_no_choice() {
        let undone_with = |status: serde_json::Value, works: bool| {
            let world = history(&[(1, "agent:0", 0), (2, "agent:1", 20), (3, "agent:2", 40)], "agent:2");
            let labels = json!({"controller-revision-hash": "agent-1", "pod-template-generation": null});
            let labels = || json!({"metadata": {"labels": labels}});
            let mut world = world.node("n0", json!({})).node("n1", json!({})).node("n2", json!({}));
            world = world.unready_pod("agent-0", "n0", status, labels());
            if works {
                world = world.pod("agent-1", "n1", labels()).pod("agent-2", "n2", labels());
            }
            undone(world, None)
        };
        let crashing = || json!({"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let unready = |since: &str| json!({"state": {"running": {"startedAt": format!("2026-03-01T{since}Z")}}});
        for (status, fails) in [
            (crashing(), true),
            (json!({"state": {"waiting": {"reason": "ImagePullBackOff"}}}), true),
            (json!({"state": {"terminated": {"exitCode": 1}}}), true),
            (unready("11:50:00"), true),
            // It has just started, or its node is down.
            (unready("11:58:00"), false),
            (json!({"state": {"waiting": {"reason": "ContainerCreating"}}}), false),
            (json!({"ready": true, "state": {"running": {"startedAt": "2026-03-01T11:50:00Z"}}}), false),
        ] {
            let plan = undone_with(status.clone(), false);
            assert_eq!(plan.to_revision, Some(if fails { 1 } else { 2 }), "{status}");
            assert_eq!(plan.why.unwrap().ends_with("; revision 2 has 1 failing pod"), fails, "{status}");
        }
        assert_eq!(undone_with(crashing(), true).to_revision, Some(2));
    }

    #[test]
    fn the_nodes_that_come_back_are_shown_for_advanced_daemon_sets_too() {
        for api_version in ["apps/v1", "apps.kruise.io/v1beta1"] {
            let undone_to = |selector: serde_json::Value| {
                let world = world().revision_of_image("hash1", 1, "agent:1");
                let world =
                    world.daemon_set(json!({"apiVersion": api_version})).template(json!({"nodeSelector": selector}));
                let label = |pool: &str| json!({"metadata": {"labels": {"pool": pool}}});
                undone(world.node("a", label("x")).node("b", label("y")), Some(1)).effect
            };
            let effect = undone_to(json!({"pool": "x"})).unwrap();
            assert_eq!((effect.nodes_gained, effect.nodes_lost), (vec!["b".to_owned()], Vec::new()), "{api_version}");
            let nodes = undone_to(json!({})).map(|effect| (effect.nodes_gained, effect.nodes_lost));
            let expected = (api_version == "apps/v1").then(|| (Vec::new(), Vec::new()));
            assert_eq!(nodes, expected, "{api_version}");
        }
    }
}
