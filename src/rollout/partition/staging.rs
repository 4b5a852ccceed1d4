//! A rollout in several stages: which of them a run carries out, and how many nodes each updates.

use jiff::Timestamp;

use super::canary::{Value, canary};
use super::instruction::gates_failures;
use super::job::fnv;
use super::order::order;
use super::plan::{Amount, StageRefusal, StageRequest, keep};
use super::template::{NewTemplate, template};
use super::{is_skipped, kept};
use crate::facts::revisions::{Revision, Revisions};
use crate::model::daemon_set::DaemonSet;
use crate::model::hold::{Hold, RUN_ANNOTATION, STOPPED, StageFlags};
use crate::model::int_or_percent::{IntOrPercent, int};
use crate::model::pod::Pod;
use crate::model::stages::{StageSize, Stages, Stratum};
use crate::report::age::seconds_between;
use crate::report::partition::{CanaryNode, RolloutStage, StageState, StagedRollout};
use crate::report::rollout_status::{HeldStages, RunStop};
use crate::rollout::PACE;
use crate::rollout::situation::{RolloutNode, Situation};

/// How many nodes a canary may always have, and which share of all, in percent, one with more.
const FEW: usize = 10;
const MOST: usize = 50;

/// For how many seconds a run may create no pod although it goes on, beside what its gates wait for.
const PAUSE: i64 = 60;

/// The stages that are requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Staging {
    pub(crate) stages: Stages,
    /// What the canary covers.
    pub(crate) strata: Vec<Stratum>,
    /// How many stages have passed their gates in this run.
    pub(crate) passed: usize,
}

/// The stage that comes next.
pub(super) struct Running<'v, 'a> {
    /// How many pods stay on older revisions.
    pub(super) amount: Amount,
    /// The only nodes that are updated; `None` if it is not the canary.
    pub(super) nodes: Option<Vec<&'v RolloutNode<'a>>>,
    /// All stages.
    pub(super) report: StagedRollout,
}

/// Returns the stage that comes next; `hold` is that of the rollout, if it was begun.
///
/// It follows from the nodes that are updated. A run that continues another one begins with the gates of the last stage whose nodes are
/// all updated, because they may not have passed, unless the next stage was begun after them with the same template.
///
/// # Errors
///
/// Fails if the canary would be most nodes.
pub(super) fn running<'v, 'a>(
    situation: &'v Situation<'a>,
    order: &[&'v RolloutNode<'a>],
    staging: &'v Staging,
    hold: Option<&Hold>,
) -> Result<Running<'v, 'a>, StageRefusal> {
    let sizes = staging.stages.sizes();
    let desired = situation.eligible().count();
    let old = situation.outdated_nodes().count();
    let began = hold.and_then(Hold::rollout_began).unwrap_or(situation.now());
    let canary = canary(situation, order, &staging.strata, began);
    let keeps: Vec<IntOrPercent> = sizes
        .iter()
        .map(|size| match size {
            StageSize::Canary => IntOrPercent::Int(int(old.saturating_sub(canary.nodes.len()))),
            StageSize::Update(amount) => keep(Amount::Update(*amount), desired),
        })
        .collect();
    let is_reached = |keep: &&IntOrPercent| old <= kept(**keep, desired);
    let reached = keeps.iter().take_while(is_reached).count();
    // The gates were those of another template if it was changed since.
    let is_same = |hold: &&Hold| {
        let staged = hold.flags.as_ref().and_then(|flags| flags.staged.as_ref());
        let is_older = |began| situation.rollout_began_at().is_some_and(|rolled_out| rolled_out <= began);
        staged.is_some_and(|staged| staged.stages == staging.stages && is_older(staged.stage_began))
    };
    // New nodes change how many are updated.
    let is_begun =
        hold.filter(is_same).and_then(|hold| hold.partition).is_some_and(|keep| keeps.get(reached) == Some(&keep));
    let number = match (staging.passed, reached) {
        (0, 0) => 0,
        (0, reached) if is_begun && reached < sizes.len() => reached,
        (0, reached) => reached - 1,
        (passed, _) => passed.min(sizes.len() - 1),
    };
    let ends: Vec<usize> = keeps.iter().map(|keep| desired - kept(*keep, desired).min(old)).collect();
    let is_last = |at: usize| at + 1 == sizes.len();
    let stage = |(at, size): (usize, &StageSize)| RolloutStage {
        stage: size.to_string(),
        state: match at.cmp(&number) {
            std::cmp::Ordering::Less => StageState::Done,
            std::cmp::Ordering::Equal => StageState::Now,
            std::cmp::Ordering::Greater if !is_last(at) && ends[number..at].iter().any(|end| *end >= ends[at]) => {
                StageState::Skipped
            }
            std::cmp::Ordering::Greater => StageState::Next,
        },
        nodes: (at >= number).then(|| int(ends[at])),
    };
    let text = |(stratum, value): Value<'_>| match value {
        "" => format!("no {stratum}"),
        value => format!("{stratum} {value}"),
    };
    let is_canary = sizes[number] == StageSize::Canary;
    let nodes = canary.nodes.len();
    if is_canary && nodes > FEW && nodes * 100 > desired * MOST {
        let (stratum, values) = canary.broadest.map_or_else(Default::default, |(it, values)| (it.to_string(), values));
        return Err(StageRefusal::BroadCanary { nodes, desired, stratum, values });
    }
    let of_canary = canary.nodes.iter().filter(|_| is_canary);
    let report = StagedRollout {
        stages: sizes.iter().enumerate().map(stage).collect(),
        canary: of_canary
            .map(|(node, stands_for)| CanaryNode {
                node: node.name.to_owned(),
                stands_for: stands_for.iter().copied().map(text).collect(),
            })
            .collect(),
        uncovered: canary.uncovered.into_iter().filter(|_| is_canary).map(text).collect(),
    };
    let nodes = is_canary.then(|| canary.nodes.into_iter().map(|(node, _)| node).collect());
    Ok(Running { amount: Amount::Keep(keeps[number]), nodes, report })
}

/// A rollback that was begun because a template had failed, and has not ended; contains the number of the revision that it goes back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfinished {
    /// It is under way.
    Begun(i64),
    /// Somebody has changed the template since; the revision may not be known.
    Overtaken(Option<i64>),
}

/// Returns the rollback that was begun because the wanted template had failed, and has not ended.
pub(crate) fn unfinished_rollback(revisions: &Revisions<'_>, wanted: &NewTemplate) -> Option<Unfinished> {
    let is_another = Hold::in_force(revisions.daemon_set)?.is_of_another_template(revisions.daemon_set);
    let wanted = template(revisions, wanted).ok().flatten()?;
    let left = revisions.left_by_rollback()?;
    match revisions.rolled_back_to() {
        _ if !left.same_meaning(&wanted) => None,
        Some(target) if target.is_current || !is_another => Some(Unfinished::Begun(target.number())),
        target => is_another.then(|| Unfinished::Overtaken(target.map(Revision::number))),
    }
}

/// Returns whether a stage would begin to roll a template out: it is neither that of the stage that the same command has begun, nor on all
/// nodes already. Somebody else may have begun another one.
pub(crate) fn begins(situation: &Situation<'_>, request: &StageRequest) -> bool {
    let daemon_set = situation.daemon_set;
    let hold = Hold::in_force(daemon_set);
    let is_changed = hold.as_ref().is_some_and(|hold| hold.is_of_another_template(daemon_set));
    let flags = hold.filter(|_| !is_changed).and_then(|hold| hold.flags).filter(|flags| !flags.is_undo);
    let begun_as = flags.as_ref().map(|flags| &flags.begun_as);
    if begun_as.is_some_and(|begun_as| begun_as.is_some() && *begun_as == request.begun_as) {
        return false;
    }
    match template(&situation.revisions, &request.template) {
        Ok(Some(_)) | Err(_) => true,
        // Somebody has changed what a stage has begun.
        Ok(None) if is_changed => true,
        // An older release has begun it, or somebody without a generation.
        _ if begun_as.is_some_and(Option::is_none) => false,
        // What is there may be what was taken back to.
        _ => situation.eligible().any(|node| node.old.is_some()),
    }
}

/// Returns whether somebody has paused the rollout that the same command has begun.
pub(crate) fn is_paused(daemon_set: &DaemonSet, request: &StageRequest) -> bool {
    let flags = Hold::in_force(daemon_set).and_then(|hold| hold.flags);
    let begun_as = flags.and_then(|flags| flags.begun_as);
    // `pause` removes that of the run only.
    begun_as.is_some() && begun_as == request.begun_as && !daemon_set.annotations.contains_key(RUN_ANNOTATION)
}

/// Returns what names a rollout that begins only at a generation: a hold that has it was begun for the same one.
pub(crate) fn begun_as(generation: i64, wanted: &NewTemplate) -> String {
    let words = match wanted {
        NewTemplate::Manifest(manifest) => manifest.template().value().to_string(),
        NewTemplate::Images(images) => {
            let images: Vec<String> = images.iter().map(|(container, image)| format!("{container}={image}")).collect();
            images.join(",")
        }
        NewTemplate::Revision(number) => format!("revision {number}"),
        // Each run restarts at another time.
        NewTemplate::Restart(_) => "restart".to_owned(),
        NewTemplate::Live => String::new(),
    };
    format!("{generation} {:08x}", fnv(words.as_bytes()))
}

/// Returns the stages of the rollout that a hold is about; `None` if it has only one.
pub(in crate::rollout) fn held_stages(situation: &Situation<'_>, hold: &Hold) -> Option<HeldStages> {
    let flags = hold.flags.as_ref().filter(|_| hold.is_in_force)?;
    let staged = flags.staged.as_ref()?;
    let staging = Staging { stages: staged.stages.clone(), strata: staged.strata.clone(), passed: 0 };
    let all = StageRequest::new(Amount::Keep(IntOrPercent::Int(0)), NewTemplate::Live, String::new());
    let order = order(situation, &StageRequest { spread_by: flags.spread_by.clone(), ..all }).ok()?;
    let stages = running(situation, &order, &staging, Some(hold)).ok()?.report.stages;
    let count = |is: &dyn Fn(&RolloutNode<'_>) -> bool| int(situation.eligible().filter(|node| is(node)).count());
    // Those that were replaced before a pause say nothing about the time since.
    let is_of_run = |pod: &Pod| pod.metadata.creation_timestamp.get().is_some_and(|at| at >= staged.began);
    let updated = count(&|node| node.updated.is_some_and(is_of_run));
    let old = count(&|node| node.old.is_some() && !is_skipped(node));
    let of_state = |state| int(stages.iter().filter(|stage| stage.state == state).count());
    // What the stages have waited beside that is waited again.
    let soaked = flags.soak_seconds.saturating_mul(of_state(StageState::Done));
    let took = (seconds_between(staged.began, situation.now()) - soaked).max(0);
    let soaks = flags.soak_seconds.saturating_mul(of_state(StageState::Now) + of_state(StageState::Next));
    // Whether a run still goes on is not in the cluster: no pod for much longer than one takes says that none does.
    let newest = newest_update(situation);
    let is_moving = |per_pod: i64| {
        let waits = flags.soak_seconds.saturating_add(situation.daemon_set.spec.min_ready_seconds + PAUSE);
        newest.is_some_and(|at| situation.seconds_since(at) <= per_pod.saturating_mul(3).saturating_add(waits))
    };
    let goes_on = || is_moving(took / updated) && !has_ended(situation, hold, Some(staged.stage_began));
    let seconds_left = (updated >= int(PACE) && old > 0 && goes_on())
        .then(|| (took.saturating_mul(old) / updated).saturating_add(soaks));
    Some(HeldStages { stages, stage_began: staged.stage_began, seconds_left })
}

/// Returns when the newest pod of the current revision was created.
pub(super) fn newest_update(situation: &Situation<'_>) -> Option<Timestamp> {
    situation.eligible().filter_map(|node| node.updated?.metadata.creation_timestamp.get()).max()
}

/// Returns whether a run that began at a time has ended, as far as the cluster tells: it stops once a gate does not hold, or without
/// progress; what it verified by itself is only in its event.
pub(super) fn has_ended(situation: &Situation<'_>, hold: &Hold, began: Option<Timestamp>) -> bool {
    let fails = |flags: &StageFlags| {
        let deadline = flags.progress_deadline_seconds.saturating_add(flags.soak_seconds);
        let deadline = deadline.saturating_add(situation.daemon_set.spec.min_ready_seconds);
        let progressed = newest_update(situation).max(began);
        let is_late = progressed.is_some_and(|at| situation.seconds_since(at) > deadline);
        let fails = |keep| !gates_failures(situation, keep, flags).is_empty();
        hold.partition.is_some_and(fails) || (is_late && !flags.verifies)
    };
    stopped(situation, hold).is_some() || hold.flags.as_ref().is_some_and(fails)
}

/// Returns why the last run of `partition` has stopped, unless pods were replaced since.
pub(in crate::rollout) fn stopped(situation: &Situation<'_>, hold: &Hold) -> Option<RunStop> {
    let events = situation.events();
    let event = events.into_iter().find(|event| event.reason == STOPPED).filter(|_| hold.is_in_force)?;
    let at = event.last_seen()?;
    let replaced = situation.nodes.iter().filter_map(|node| node.updated?.metadata.creation_timestamp.get()).max();
    // The times of events have a resolution of seconds.
    let is_last = hold.since.max(replaced).is_none_or(|changed| at.as_second() >= changed.as_second());
    is_last.then(|| RunStop { at, message: event.message.clone() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{StageRefusal, StageState, Staging, Unfinished};
    use crate::coverage::test_support::{at, world};
    use crate::facts::index::Index;
    use crate::facts::revisions::Revisions;
    use crate::model::hold::{STOPPED, StageFlags, StagedFlags};
    use crate::model::int_or_percent::IntOrPercent;
    use crate::model::snapshot::Snapshot;
    use crate::model::stages::Stratum;
    use crate::rollout::partition::plan::{Amount, StageRequest, plan};
    use crate::rollout::partition::template::NewTemplate;
    use crate::rollout::situation::Situation;
    use crate::rollout::status::held;

    /// What a client has left in the annotations: how many pods stay old, and the stages of its rollout.
    type Left<'l> = Option<(&'l str, Option<&'l str>)>;

    fn staged(stages: &str) -> StagedFlags {
        let strata = Stratum::DEFAULT.into();
        let [began, stage_began] = ["11:50:00", "11:55:00"].map(|time| at(time).parse().unwrap());
        StagedFlags { stages: stages.parse().unwrap(), strata, began, stage_began }
    }

    /// Ten nodes, of which the last two have another kernel; the first ones, or the last one, are updated.
    fn rollout(updated: &[usize], left: Left<'_>) -> Snapshot {
        let old = json!({"metadata": {"creationTimestamp": at("11:10:00"),
            "labels": {"controller-revision-hash": "hash1", "pod-template-generation": "1"}}});
        let mut world = world().revision_of_image("hash1", 1, "agent:1");
        if let Some((partition, stages)) = left {
            let flags = StageFlags {
                progress_deadline_seconds: 600,
                soak_seconds: 60,
                staged: stages.map(staged),
                ..StageFlags::default()
            };
            let annotations = json!({"kubectl-ds/original-update-strategy": "{\"type\":\"RollingUpdate\"}",
                "kubectl-ds/held-since": at("11:50:00"), "kubectl-ds/partition": partition,
                "kubectl-ds/gates": flags.to_annotation()});
            world = world.daemon_set(json!({"metadata": {"annotations": annotations},
                "spec": {"updateStrategy": {"type": "OnDelete"}}}));
        }
        for number in 0..10 {
            let name = format!("n{number}");
            let info = json!({"kernelVersion": if number < 8 { "6.1" } else { "6.8" }});
            let new = || json!({"metadata": {"creationTimestamp": at("11:52:00")}});
            let pod = if updated.contains(&number) { new() } else { old.clone() };
            world = world.node(&name, json!({"status": {"nodeInfo": info}})).pod(&format!("a{number}"), &name, pod);
        }
        world.finish()
    }

    fn request(stages: &str, passed: usize) -> StageRequest {
        let staging = Staging { stages: stages.parse().unwrap(), strata: Stratum::DEFAULT.into(), passed };
        let all = Amount::Keep(IntOrPercent::Int(0));
        StageRequest { staging: Some(staging), ..StageRequest::new(all, NewTemplate::Live, "run 1".to_owned()) }
    }

    #[test]
    fn the_stage_follows_from_the_nodes_that_are_updated() {
        const ALL: &str = "canary,30%,100%";
        let first: Vec<usize> = (0..10).collect();
        let one = |updated: &[usize], left, stages: &str, passed| {
            let snapshot = rollout(updated, left);
            let index = Index::new(&snapshot);
            let planned = plan(&Situation::new(&index, &snapshot.daemon_sets[0]), &request(stages, passed), None);
            let report = planned.unwrap().report;
            let stages = report.staged.unwrap().stages;
            let now = stages.iter().find(|stage| stage.state == StageState::Now).unwrap();
            (now.stage.clone(), report.partition, report.nodes.join(" "))
        };
        for (situation, updated, left, passed, stage, partition, nodes) in [
            ("nothing is updated", &[][..], None, 0, "canary", "8", "n0 n8"),
            ("its client has died in the canary", &[0], Some(("8", Some(ALL))), 0, "canary", "8", "n8"),
            ("its client has died before the gates had passed", &[0, 8], Some(("8", Some(ALL))), 0, "canary", "8", ""),
            ("nodes have joined since", &[0, 8], Some(("7", Some(ALL))), 0, "canary", "8", ""),
            ("its client has died in a stage", &[0, 8], Some(("70%", Some(ALL))), 0, "30%", "70%", "n1"),
            ("its client has died after it", &[0, 1, 8], Some(("70%", Some(ALL))), 0, "30%", "70%", ""),
            ("the gates have passed", &[0, 8], Some(("8", Some(ALL))), 1, "30%", "70%", "n1"),
            (
                "the last but one has passed",
                &[0, 1, 8],
                Some(("70%", Some(ALL))),
                2,
                "100%",
                "0%",
                "n2 n3 n4 n5 n6 n7 n9",
            ),
            ("all but the strategy", &first, Some(("0%", Some(ALL))), 0, "100%", "0%", ""),
            // What other gates were for is checked again.
            ("other stages were begun", &[0, 8], Some(("50%", Some("50%,100%"))), 0, "canary", "8", ""),
            ("no stages were begun", &[0, 8], Some(("50%", None)), 0, "canary", "8", ""),
            ("nodes were updated without stages", &[0, 1, 2, 8], Some(("6", None)), 0, "30%", "70%", ""),
        ] {
            let found = one(updated, left, ALL, passed);
            assert_eq!(found, (stage.to_owned(), partition.to_owned(), nodes.to_owned()), "{situation}");
        }
    }

    /// What is known to be in their way is told before the first one.
    #[test]
    fn the_nodes_of_later_stages_are_foreseen() {
        let later = |updated: &[usize], stages: &str, passed| {
            let snapshot = rollout(updated, None);
            let index = Index::new(&snapshot);
            let planned = plan(&Situation::new(&index, &snapshot.daemon_sets[0]), &request(stages, passed), None);
            let later = planned.unwrap().later.into_iter();
            later.map(|(stage, nodes)| format!("{stage}: {}", nodes.join(" "))).collect::<Vec<_>>()
        };
        let (second, last) = ("30%: n1", "100%: n2 n3 n4 n5 n6 n7 n9");
        assert_eq!(later(&[], "canary,30%,100%", 0), [second, last]);
        assert_eq!(later(&[0, 8], "canary,30%,100%", 1), [last]);
        assert_eq!(later(&[0, 1, 8], "canary,30%,100%", 2), [""; 0]);
        // The one that adds no node is skipped.
        assert_eq!(later(&[], "canary,1,100%", 0), ["100%: n1 n2 n3 n4 n5 n6 n7 n9"]);
    }

    /// New nodes have its pods, for which no gate was waited.
    #[test]
    fn another_template_begins_with_the_gates_of_the_canary() {
        let mut snapshot = rollout(&[0, 8], Some(("70%", Some("canary,30%,100%"))));
        let number = |snapshot: &Snapshot| {
            let index = Index::new(snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            let stages = plan(&situation, &request("canary,30%,100%", 0), None).unwrap().report.staged.unwrap().stages;
            stages.iter().position(|stage| stage.state == StageState::Now)
        };
        assert_eq!(number(&snapshot), Some(1));
        for revision in &mut snapshot.controller_revisions {
            let created = if revision.hash() == "hash1" { "11:00:00" } else { "11:58:00" };
            revision.metadata.creation_timestamp = serde_json::from_value(json!(at(created))).unwrap();
        }
        assert_eq!(number(&snapshot), Some(0));
    }

    /// New nodes may have updated more than a stage was to.
    #[test]
    fn a_stage_whose_nodes_are_all_updated_has_only_its_gates() {
        let snapshot = rollout(&[0, 1, 2, 3, 8], Some(("70%", Some("canary,30%,40%,100%"))));
        let index = Index::new(&snapshot);
        let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
        let planned = plan(&situation, &request("canary,30%,40%,100%", 2), None).unwrap();
        assert_eq!((planned.report.partition.as_str(), planned.report.nodes.len()), ("60%", 0));
        // In the run that has begun it, the pods have soaked; for another one they soak again.
        assert_eq!(planned.stage.soaks_from, None);
        let resumed = plan(&situation, &request("canary,30%,40%,100%", 0), None).unwrap();
        assert_eq!(resumed.stage.soaks_from, Some(snapshot.now));
    }

    #[test]
    fn a_stage_without_more_nodes_than_the_canary_is_skipped() {
        let snapshot = rollout(&[], None);
        let index = Index::new(&snapshot);
        let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
        let planned = plan(&situation, &request("canary,10%,20%,30%,100%", 0), None).unwrap();
        let stages = planned.report.staged.unwrap().stages;
        let text: Vec<String> =
            stages.iter().map(|one| format!("{} {:?} {}", one.stage, one.state, one.nodes.unwrap())).collect();
        assert_eq!(text, ["canary Now 2", "10% Skipped 1", "20% Skipped 2", "30% Next 3", "100% Next 10"]);
    }

    /// Every node would be a canary of its own.
    #[test]
    fn a_canary_of_most_nodes_is_refused() {
        let of = |nodes: usize, names: usize| {
            let mut snapshot = rollout(&[], None);
            snapshot.nodes.clear();
            let pod = snapshot.pods[0].clone();
            snapshot.pods.clear();
            for number in 0..nodes {
                let name = format!("n{number:02}");
                let labels = json!({"name": (number % names).to_string()});
                let ready = json!([{"type": "Ready", "status": "True"}]);
                let node = json!({"metadata": {"name": name, "labels": labels}, "status": {"conditions": ready}});
                snapshot.nodes.push(serde_json::from_value(node).unwrap());
                let mut pod = pod.clone();
                (pod.metadata.name, pod.metadata.uid) = (format!("a{number}"), format!("a{number}"));
                pod.spec.node_name.clone_from(&name);
                snapshot.pods.push(pod);
            }
            let index = Index::new(&snapshot);
            let mut request = request("canary,100%", 0);
            request.staging.as_mut().unwrap().strata = vec![Stratum::Label("name".to_owned())];
            let planned = plan(&Situation::new(&index, &snapshot.daemon_sets[0]), &request, None);
            planned.map(|planned| planned.stage.nodes.len())
        };
        let refused =
            |nodes, desired, values| StageRefusal::BroadCanary { nodes, desired, stratum: "name".to_owned(), values };
        assert_eq!(of(30, 30), Err(refused(30, 30, 30)));
        assert_eq!(of(30, 16), Err(refused(16, 30, 16)));
        assert_eq!((of(30, 15), of(10, 10)), (Ok(15), Ok(10)));
    }

    #[test]
    fn what_is_held_shows_its_stages_and_the_time_that_is_left() {
        let of = |updated: &[usize], left| {
            let snapshot = rollout(updated, left);
            let index = Index::new(&snapshot);
            let hold = held::hold(&Situation::new(&index, &snapshot.daemon_sets[0])).unwrap();
            let staged = hold.staged?;
            let text = staged.stages.iter().map(|one| format!("{} {:?} {:?}", one.stage, one.state, one.nodes));
            Some((text.collect::<Vec<_>>(), staged.seconds_left))
        };
        assert_eq!(of(&[0, 8], Some(("8", None))), None);
        let (stages, left) = of(&[0, 8], Some(("70%", Some("canary,30%,100%")))).unwrap();
        assert_eq!(stages, ["canary Done None", "30% Now Some(3)", "100% Next Some(10)"]);
        assert_eq!(left, None, "two pods are no pace");
        // Eight minutes for four nodes, besides two soaks; six nodes are left, and one soak.
        let (_, left) = of(&[0, 1, 2, 8], Some(("0%", Some("canary,30%,100%")))).unwrap();
        assert_eq!(left, Some(480 * 6 / 4 + 60));
        // A pause resets the time, so pods that were replaced before it do not count toward the pace.
        let mut snapshot = rollout(&[0, 1, 2, 3, 8], Some(("0%", Some("canary,30%,100%"))));
        snapshot.pods[0].metadata.creation_timestamp = serde_json::from_value(json!(at("11:20:00"))).unwrap();
        let index = Index::new(&snapshot);
        let hold = held::hold(&Situation::new(&index, &snapshot.daemon_sets[0])).unwrap();
        assert_eq!(hold.staged.unwrap().seconds_left, Some(480 * 5 / 4 + 60));
        // Nobody goes on with what has stopped.
        let stop = json!({"metadata": {"namespace": "default", "name": "stop"}, "reason": STOPPED, "lastTimestamp": at("11:58:00"),
            "involvedObject": {"kind": "DaemonSet", "namespace": "default", "name": "agent"}});
        snapshot.events.push(serde_json::from_value(stop).unwrap());
        let index = Index::new(&snapshot);
        let hold = held::hold(&Situation::new(&index, &snapshot.daemon_sets[0])).unwrap();
        assert_eq!((hold.stopped.is_some(), hold.staged.unwrap().seconds_left), (true, None));
    }

    /// A client that is started again with the same command must not roll out again what has failed.
    #[test]
    fn a_rollback_that_has_not_ended_is_gone_on_with() {
        let images = |image: &str| NewTemplate::Images(vec![("agent".to_owned(), image.to_owned())]);
        let of = |(is_undo, replaced): (bool, &str), wanted: &NewTemplate, target: Option<(&str, i64)>| {
            let flags = StageFlags {
                is_undo,
                replaced_revision: Some(replaced.to_owned()),
                target_revision: target.map(|(target, _)| target.to_owned()),
                template_generation: target.map(|(_, generation)| generation),
                progress_deadline_seconds: 600,
                ..StageFlags::default()
            };
            let annotations = json!({"kubectl-ds/original-update-strategy": "{\"type\":\"RollingUpdate\"}",
                "kubectl-ds/held-since": at("11:50:00"), "kubectl-ds/partition": "0",
                "kubectl-ds/gates": flags.to_annotation()});
            let world = world().daemon_set(json!({"metadata": {"annotations": annotations},
                "spec": {"updateStrategy": {"type": "OnDelete"}}}));
            let mut world = world.template(json!({"containers": [{"name": "agent", "image": "agent:1"}]}));
            world.snapshot.controller_revisions.clear();
            let world = world.revision_of_image("hash1", 4, "agent:1").revision_of_image("hash2", 3, "agent:2");
            let snapshot = world.revision_of_image("hash0", 1, "agent:0").finish();
            super::unfinished_rollback(&Revisions::of(&snapshot.daemon_sets[0], &snapshot), wanted)
        };
        let undo = (true, "hash2");
        assert_eq!(of(undo, &images("agent:2"), None), Some(Unfinished::Begun(4)));
        assert_eq!(of(undo, &images("agent:3"), None), None, "another template is wanted");
        assert_eq!(of(undo, &NewTemplate::Live, None), None, "what is there is what is rolled back to");
        assert_eq!(of((false, "hash2"), &images("agent:2"), None), None, "it was begun to replace it");
        assert_eq!(of((true, "gone"), &images("agent:2"), None), None);
        // Somebody has changed the template since, and perhaps back.
        for (target, expected) in [
            (("hash1", 2), Unfinished::Begun(4)),
            (("hash1", 1), Unfinished::Begun(4)),
            (("hash0", 1), Unfinished::Overtaken(Some(1))),
            (("gone", 1), Unfinished::Overtaken(None)),
        ] {
            assert_eq!(of(undo, &images("agent:2"), Some(target)), Some(expected), "{target:?}");
        }
    }
}
