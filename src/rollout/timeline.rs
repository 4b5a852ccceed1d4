//! When DaemonSets were rolled out, what that changed, and how far the current rollouts are.
//!
//! A ControllerRevision keeps two times: that of its creation, when it was rolled out first, and that of its number, when it was
//! rolled out last. To a template that it knows, the controller gives a new number (`constructHistory`,
//! pkg/controller/daemon/update.go, release 1.37.2). Of rollouts between the two times only holes in the numbers are left.

use std::cmp::Reverse;

use jiff::{SignedDuration, Timestamp};

use super::fleet;
use super::history::change_cause;
use crate::coverage::gaps;
use crate::difference::change_summary::in_a_few_words;
use crate::difference::difference;
use crate::facts::index::Index;
use crate::facts::revisions::{Revision, Revisions, name_of};
use crate::model::daemon_set::DaemonSet;
use crate::model::server_side_apply::{managed_fields, time_of};
use crate::model::snapshot::{Kind, Snapshot};
use crate::model::template::Template;
use crate::report::list::{FleetStatus, ListRow};
use crate::report::timeline::{Rollout, RolloutProgress, TimelineReport};

/// How long before a revision got its number its template was changed at most, to tell by whom: the controller acts at once.
const REACTION: SignedDuration = SignedDuration::from_secs(5);

/// When a rollout began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Began {
    At(Timestamp),
    /// At this time or later.
    NotBefore(Timestamp),
    Unknown,
    /// The controller has yet to act.
    Pending,
}

/// A rollout of one DaemonSet.
struct Event<'r, 'a> {
    /// `None` if the live template has no revision yet.
    revision: Option<&'r Revision<'a>>,
    /// `None` if it cannot be read.
    template: Option<&'r Template>,
    number: Option<i64>,
    began: Began,
    /// Where it is among others.
    order: Timestamp,
    /// Whether the revision has kept the number.
    is_last: bool,
}

/// Returns the rollouts of all DaemonSets of a snapshot, the latest first, without those that began before a time.
pub fn timeline(snapshot: &Snapshot, since: Option<Timestamp>) -> TimelineReport {
    let index = Index::new(snapshot);
    let daemon_sets = index.daemon_sets_of_any_flavor();
    let is_unknown = |daemon_set: &&&DaemonSet| !index.knows(Kind::ControllerRevisions, &daemon_set.metadata.namespace);
    let mut rollouts: Vec<(Timestamp, Rollout)> = Vec::new();
    for daemon_set in &daemon_sets {
        // The sort below is stable.
        rollouts.extend(rollouts_of(&index, daemon_set).into_iter().rev());
    }
    let may_be_later = |rollout: &Rollout| {
        let latest = rollout.began_at.or(rollout.not_after);
        latest.zip(since).is_none_or(|(latest, since)| latest >= since)
    };
    rollouts.retain(|(_, rollout)| may_be_later(rollout));
    rollouts.sort_by_key(|(order, _)| Reverse(*order));
    TimelineReport {
        now: snapshot.now,
        incomplete: gaps::incomplete_for_timeline(snapshot),
        since,
        daemon_sets: daemon_sets.len(),
        unknown: daemon_sets.iter().filter(is_unknown).map(|daemon_set| name_of(daemon_set)).collect(),
        rollouts: rollouts.into_iter().map(|(_, rollout)| rollout).collect(),
    }
}

/// Returns the rollouts of a DaemonSet, the first one first, each with its place among those of others.
fn rollouts_of<'a>(index: &'a Index<'a>, daemon_set: &'a DaemonSet) -> Vec<(Timestamp, Rollout)> {
    let revisions = index.revisions(daemon_set);
    let mut events = events(&revisions);
    // One that was not read may be the current one.
    if !revisions.has_newest_number() && index.knows(Kind::ControllerRevisions, &daemon_set.metadata.namespace) {
        let (revision, template, began) = (revisions.current(), Some(&revisions.live), Began::Pending);
        events.push(Event { revision, template, number: None, began, order: Timestamp::MAX, is_last: true });
    }
    (0..events.len()).map(|at| (events[at].order, rollout(index, &revisions, &events, at))).collect()
}

/// Returns what the revisions tell about rollouts, the first one first.
fn events<'r, 'a>(revisions: &'r Revisions<'a>) -> Vec<Event<'r, 'a>> {
    let oldest_first: Vec<&Revision<'a>> = revisions.all.iter().rev().collect();
    // A revision that gets another number leaves a hole.
    let is_without_holes = oldest_first.iter().zip(1..).all(|(revision, number)| revision.number() == number);
    let mut events = Vec::new();
    let mut latest: Option<Timestamp> = None;
    for (at, revision) in oldest_first.iter().enumerate() {
        let created = revision.object.metadata.creation_timestamp.get();
        // A number is older than all higher ones: somebody else has written the object since, as if it is adopted.
        let is_of_the_number = |time: &Timestamp| {
            let mut later = oldest_first[at + 1..].iter().filter_map(|later| later.object.rolled_out_at());
            later.all(|later| later >= *time)
        };
        let numbered = revision.object.rolled_out_at().filter(is_of_the_number);
        let (began, order) = match numbered.or(created.filter(|_| is_without_holes)) {
            Some(time) if Some(time) >= latest => (Began::At(time), Some(time)),
            _ => {
                let earliest = created.max(latest);
                (earliest.map_or(Began::Unknown, Began::NotBefore), earliest)
            }
        };
        let (template, number) = (revision.template.as_ref().ok(), Some(revision.number()));
        let revision = Some(*revision);
        if let Some(order) = created.filter(|created| Some(*created) < order) {
            events.push(Event { revision, template, number: None, began: Began::At(order), order, is_last: false });
        }
        let place = order.unwrap_or(Timestamp::MIN);
        events.push(Event { revision, template, number, began, order: place, is_last: true });
        latest = latest.max(order);
    }
    // What has lost its number fills a hole before another one of the same second, if there may be one.
    let rank = |number: Option<i64>| number.map_or(1, |number| if number == 1 { 0 } else { 2 });
    events.sort_by_key(|event| (event.order, rank(event.number)));
    number(&mut events);
    events
}

/// Gives the first rollouts of revisions the numbers that they had then, if they are between two others in time and there
/// are as many holes as such rollouts.
fn number(events: &mut [Event<'_, '_>]) {
    let (mut before, mut is_before_known, mut unnumbered) = (0, true, Vec::new());
    for at in 0..events.len() {
        let Some(number) = events[at].number else {
            unnumbered.push(at);
            continue;
        };
        let is_known = matches!(events[at].began, Began::At(_));
        let holes = before + 1..number;
        if is_before_known && is_known && holes.clone().count() == unnumbered.len() {
            unnumbered.iter().zip(holes).for_each(|(at, number)| events[*at].number = Some(number));
        }
        unnumbered.clear();
        (before, is_before_known) = (number, is_known);
    }
}

fn rollout(index: &Index<'_>, revisions: &Revisions<'_>, events: &[Event<'_, '_>], at: usize) -> Rollout {
    let daemon_set = revisions.daemon_set;
    let Event { revision, number, began, is_last, .. } = events[at];
    let own = events[at].template;
    // What has only an earliest time may have been later than what stands after it, unless both have kept their numbers.
    let is_earlier = |event: &&Event<'_, '_>| is_last || matches!(event.began, Began::At(_));
    let earlier = || events[..at].iter().rev().filter(is_earlier);
    let is_next = |before: &Event<'_, '_>| match number {
        Some(number) => before.number == Some(number - 1),
        None => began == Began::Pending && before.is_last,
    };
    let before = earlier().find(|before| is_next(before)).filter(|before| before.template.is_some());
    let before = before.or_else(|| earlier().find(|before| before.template.is_some()));
    let changes = match (before.and_then(|before| before.template), own) {
        (Some(before), Some(own)) => difference(before, own),
        _ => Vec::new(),
    };
    let is_same = |before: &&Event<'_, '_>| before.template.zip(own).is_some_and(|(one, own)| one.same_meaning(own));
    let mut same = earlier().filter(is_same).peekable();
    let later = events[at + 1..].iter().filter(|later| later.is_last).filter_map(|later| match later.began {
        Began::At(time) => Some(time),
        _ => None,
    });
    let (began_at, not_before, not_after) = match began {
        Began::At(time) => (Some(time), None, None),
        Began::NotBefore(time) => (None, Some(time), later.min()),
        Began::Unknown => (None, None, later.min()),
        Began::Pending => (None, None, None),
    };
    let is_current = match events.last() {
        Some(last) if last.began == Began::Pending => began == Began::Pending,
        _ => is_last && revision.is_some_and(|revision| revision.is_current),
    };
    Rollout {
        daemon_set: name_of(daemon_set),
        revision: number,
        name: revision.map(|revision| revision.object.metadata.name.clone()),
        pending: began == Began::Pending,
        began_at,
        not_before,
        not_after,
        by: began_at.filter(|_| is_current).and_then(|time| changed_by(daemon_set, earlier().next(), time)),
        change_cause: revision.and_then(|revision| change_cause(revision.object)),
        compared_with: before.and_then(|before| before.number),
        others_between: before.map_or(at > 0, |before| !is_next(before)),
        summary: in_a_few_words(&changes),
        changes,
        again: same.peek().is_some(),
        same_as: same.find_map(|same| same.number),
        problem: own
            .is_none()
            .then(|| revision.and_then(|revision| revision.template.as_ref().err().cloned()))
            .flatten(),
        replaced: !is_current && at + 1 < events.len(),
        progress: is_current.then(|| {
            let ListRow { status, counts, .. } = fleet::row(index, daemon_set).1;
            // Of nodes that were not read, only the numbers of the status are known.
            let known = Some(&counts).filter(|counts| status != FleetStatus::Unknown || counts.from_status);
            let (updated, eligible) = (known.and_then(|it| it.updated), known.and_then(|it| it.eligible));
            RolloutProgress { status, updated, eligible }
        }),
    }
}

/// Returns the one field manager that can have changed the template for a rollout that began at a time, after another one.
fn changed_by(daemon_set: &DaemonSet, after: Option<&Event<'_, '_>>, began: Timestamp) -> Option<String> {
    let has_written = |entry: &&serde_json::Value| {
        entry.pointer("/fieldsV1/f:spec/f:template").is_some()
            && time_of(entry).is_some_and(|at| {
                at <= began && began.duration_since(at) <= REACTION && after.is_none_or(|after| after.order < at)
            })
    };
    let mut managers: Vec<&str> =
        managed_fields(&daemon_set.object).iter().filter(has_written).filter_map(|it| it["manager"].as_str()).collect();
    managers.dedup();
    match managers.as_slice() {
        [one] => Some((*one).to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jiff::{SignedDuration, Timestamp};
    use serde_json::{Value, json};

    use super::{FleetStatus, timeline};
    use crate::facts::test_support::{World, at, world};
    use crate::model::controller_revision::ControllerRevision;
    use crate::model::snapshot::{Gap, GapCause, Kind};
    use crate::report::timeline::{Rollout, TimelineReport};

    /// A revision: its number, the tag of its image, when it was created, and when it got the number, if that is recorded.
    type Told<'a> = (i64, &'a str, &'a str, Option<&'a str>);

    /// A DaemonSet of `agent:LIVE` with these revisions.
    fn with_revisions(live: &str, revisions: &[Told<'_>]) -> World {
        let mut world = world().template(json!({"containers": [{"name": "agent", "image": format!("agent:{live}")}]}));
        world.snapshot.controller_revisions.clear();
        for (number, tag, created, numbered) in revisions {
            world = world.revision_of_image(tag, *number, &format!("agent:{tag}"));
            let revision = world.snapshot.controller_revisions.last_mut().unwrap();
            let mut object = revision.object.clone();
            object["metadata"]["creationTimestamp"] = json!(at(created));
            if let Some(time) = numbered {
                object["metadata"]["managedFields"] =
                    json!([{"manager": "kube-controller-manager", "time": at(time), "fieldsV1": {"f:revision": {}}}]);
            }
            *revision = ControllerRevision::from_object(object).unwrap();
        }
        world
    }

    fn all(world: World) -> TimelineReport {
        timeline(&world.finish(), None)
    }

    /// Says of each rollout its number, when it began, what it changed, and since which one.
    fn said(rollouts: &[Rollout]) -> Vec<String> {
        let time = |time: Timestamp| time.strftime("%H:%M").to_string();
        let one = |row: &Rollout| {
            let number = row.revision.map_or("?".to_owned(), |number| number.to_string());
            let began = match (row.began_at, row.not_before, row.not_after) {
                (Some(at), ..) => time(at),
                _ if row.pending => "pending".to_owned(),
                (None, from, to) => {
                    format!("{}..{}", from.map(time).unwrap_or_default(), to.map(time).unwrap_or_default())
                }
            };
            let gap = if row.others_between { " (gap)" } else { "" };
            let same = match (row.again, row.same_as) {
                (true, same) => format!(" as {}", same.map_or("?".to_owned(), |same| same.to_string())),
                (false, _) => String::new(),
            };
            format!("{number} {began} {}{same}{gap}", row.summary.join(", ").replace("image agent ", ""))
        };
        rollouts.iter().map(one).collect()
    }

    #[test]
    fn a_rollback_is_a_rollout_of_its_own_and_the_first_one_of_the_revision_is_not_forgotten() {
        let revisions =
            [(1, "a", "10:00", Some("10:00")), (4, "c", "10:20", Some("10:20")), (5, "b", "10:10", Some("10:30"))];
        // Number 2 was that of b; 3 is not known to have been anything.
        assert_eq!(
            said(&all(with_revisions("b", &revisions)).rollouts),
            ["5 10:30 c → b as ?", "4 10:20 b → c (gap)", "? 10:10 a → b (gap)", "1 10:00 "]
        );
        let revisions = [(1, "a", "10:00", Some("10:00")), revisions[2], (4, "c", "10:20", Some("10:20"))];
        let revisions =
            revisions.map(|(number, tag, created, numbered)| (number - i64::from(number > 1), tag, created, numbered));
        assert_eq!(
            said(&all(with_revisions("b", &revisions)).rollouts),
            ["4 10:30 c → b as 2", "3 10:20 b → c", "2 10:10 a → b", "1 10:00 "]
        );
    }

    #[test]
    fn without_managed_fields_only_what_creation_times_and_numbers_prove_is_told() {
        let told = |revisions: &[Told<'_>]| said(&all(with_revisions("b", revisions)).rollouts);
        // A revision that got another number would have left a hole.
        assert_eq!(told(&[(1, "a", "10:00", None), (2, "b", "10:10", None)]), ["2 10:10 a → b", "1 10:00 "]);
        // Number 1 is missing: either may have been rolled out again.
        let either = told(&[(2, "a", "10:00", None), (3, "b", "10:10", None)]);
        assert_eq!(either, ["3 10:10.. a → b", "2 10:00.. "]);
        // It was created before one with a lower number, so it was rolled out at least twice.
        let twice = told(&[(2, "a", "10:10", None), (3, "b", "10:00", None)]);
        assert_eq!(twice, ["3 10:10.. a → b as ?", "2 10:10.. b → a (gap)", "? 10:00 "]);
    }

    #[test]
    fn a_time_that_contradicts_the_numbers_is_not_that_of_the_number() {
        // As if somebody had edited the oldest revision at 10:30.
        let revisions =
            [(2, "a", "10:00", Some("10:30")), (3, "c", "10:15", Some("10:15")), (4, "b", "10:10", Some("10:20"))];
        let told = said(&all(with_revisions("b", &revisions)).rollouts);
        assert_eq!(told, ["4 10:20 c → b as ?", "3 10:15 a → c", "? 10:10  (gap)", "2 10:00..10:15 "]);
    }

    #[test]
    fn a_template_that_the_controller_has_not_acted_on_comes_first() {
        let revisions = [(1, "a", "10:00", Some("10:00")), (2, "b", "10:10", Some("10:10"))];
        let report = all(with_revisions("c", &revisions).daemon_set(json!({"metadata": {"generation": 3}})));
        assert_eq!(said(&report.rollouts), ["? pending b → c", "2 10:10 a → b", "1 10:00 "]);
        let status = |row: &Rollout| row.progress.map(|progress| progress.status);
        let statuses: Vec<_> = report.rollouts.iter().map(status).collect();
        assert_eq!(statuses, [Some(FleetStatus::NotObserved), None, None]);
        assert!(report.rollouts[1].replaced);
        // It was rolled back, and the revision has not got its new number yet.
        let back = all(with_revisions("a", &revisions).daemon_set(json!({"metadata": {"generation": 3}})));
        assert_eq!(said(&back.rollouts)[0], "? pending b → a as 1");
        assert_eq!(back.rollouts[0].name.as_deref(), Some("agent-a"));
    }

    #[test]
    fn who_changed_the_template_is_told_if_it_can_only_be_one() {
        let by_of = |before: &str, managers: &[(&str, &str, Value)]| {
            let entry = |(manager, time, fields): &(&str, &str, Value)| json!({"manager": manager, "time": at(time), "fieldsV1": fields});
            let entries: Vec<Value> = managers.iter().map(entry).collect();
            let world = with_revisions("b", &[(1, "a", before, Some(before)), (2, "b", "10:10", Some("10:10"))]);
            let report = all(world.daemon_set(json!({"metadata": {"managedFields": entries}})));
            assert_eq!(report.rollouts[1].by, None);
            report.rollouts[0].by.clone()
        };
        let by = |managers: &[(&str, &str, Value)]| by_of("10:00", managers);
        let template = || json!({"f:spec": {"f:template": {"f:spec": {}}}});
        assert_eq!(by(&[("helm", "10:10", template())]).as_deref(), Some("helm"));
        // It changed something later, which may not have been the template.
        assert_eq!(by(&[("helm", "10:11", template())]), None);
        assert_eq!(by(&[("helm", "10:05", template())]), None);
        assert_eq!(by(&[("kubectl-label", "10:10", json!({"f:metadata": {"f:labels": {}}}))]), None);
        assert_eq!(by(&[("helm", "10:10", template()), ("argocd", "10:10", template())]), None);
        // What one changed before was rolled out before.
        let at_once = by_of("10:09:58", &[("helm", "10:10", template()), ("argocd", "10:09:58", template())]);
        assert_eq!(at_once.as_deref(), Some("helm"));
    }

    #[test]
    fn what_may_have_begun_in_time_is_listed_and_what_cannot_have_is_not() {
        let since = |revisions: &[Told<'_>], since: &str| {
            let report = timeline(&with_revisions("b", revisions).finish(), at(since).parse().ok());
            said(&report.rollouts)
        };
        let known = [(1, "a", "10:00", Some("10:00")), (2, "b", "10:10", Some("10:10"))];
        assert_eq!(since(&known, "10:10"), ["2 10:10 a → b"]);
        assert!(since(&known, "10:11").is_empty());
        let unknown = [(2, "a", "10:00", None), (3, "b", "10:10", None)];
        assert_eq!(since(&unknown, "10:30"), ["3 10:10.. a → b", "2 10:00.. "]);
        let bounded = [(2, "a", "10:00", None), (3, "b", "10:10", Some("10:10"))];
        assert_eq!(since(&bounded, "10:05"), ["3 10:10 a → b", "2 10:00..10:10 "]);
        assert_eq!(since(&bounded, "10:30"), [""; 0]);
    }

    #[test]
    fn a_daemon_set_whose_revisions_could_not_be_read_is_named() {
        let mut world = with_revisions("b", &[]);
        let cause = GapCause::Forbidden("list controllerrevisions".to_owned());
        world.snapshot.gaps.push(Gap { kind: Kind::ControllerRevisions, namespace: None, cause });
        let report = all(world);
        assert_eq!((report.daemon_sets, report.unknown.len(), report.rollouts.len()), (1, 1, 0));
        assert!(report.incomplete[0].message.ends_with("which rollouts there were is not known"));
    }

    /// A rollout as it was: its number, the tag of its image, and its time.
    type Was = (i64, usize, Timestamp);

    /// Rolls out templates as the controller does, and deletes old revisions as it does. Returns what is left, and what was.
    fn rolled_out(random: &mut impl FnMut(u64) -> u64, records: bool) -> (World, Vec<Was>) {
        const TAGS: [&str; 4] = ["a", "b", "c", "d"];
        // The number, the tag, the creation and the time of the number.
        let mut left: Vec<(i64, usize, Timestamp, Timestamp)> = Vec::new();
        let (mut was, mut time): (Vec<Was>, Timestamp) = (Vec::new(), at("10:00").parse().unwrap());
        for _ in 0..1 + random(8) {
            time += SignedDuration::from_secs(i64::try_from(1 + random(100)).unwrap());
            let tag = usize::try_from(random(4)).unwrap();
            let number =
                left.iter().filter(|revision| revision.1 != tag).map(|revision| revision.0).max().unwrap_or(0) + 1;
            match left.iter_mut().find(|revision| revision.1 == tag) {
                // The template does not change.
                Some(revision) if revision.0 >= number => continue,
                Some(revision) => (revision.0, revision.3) = (number, time),
                None => left.push((number, tag, time, time)),
            }
            was.push((number, tag, time));
            if left.len() > 3 && random(3) == 0 {
                let oldest = left.iter().map(|revision| revision.0).min();
                left.retain(|revision| Some(revision.0) != oldest);
            }
        }
        let live = was.last().map_or("a", |(_, tag, _)| TAGS[*tag]);
        let clock = |time: &Timestamp| time.strftime("%H:%M:%S").to_string();
        let texts: Vec<(i64, &str, String, String)> = left
            .iter()
            .map(|(number, tag, created, numbered)| (*number, TAGS[*tag], clock(created), clock(numbered)))
            .collect();
        let told: Vec<Told<'_>> = texts
            .iter()
            .map(|(number, tag, created, numbered)| {
                (*number, *tag, created.as_str(), records.then_some(numbered.as_str()))
            })
            .collect();
        (with_revisions(live, &told), was)
    }

    #[test]
    fn whatever_was_rolled_out_nothing_wrong_is_told() {
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let mut told = [0; 3];
        for case in 0..2_000 {
            let records = case % 3 > 0;
            let (world, was) = rolled_out(&mut random, records);
            let tag_of =
                |row: &Rollout| row.name.as_deref().and_then(|name| "abcd".find(name.strip_prefix("agent-")?)).unwrap();
            let report = all(world);
            let mut seen = BTreeSet::new();
            for row in &report.rollouts {
                let tag = tag_of(row);
                let fits = |(number, other, time): &&Was| {
                    *other == tag
                        && row.revision.is_none_or(|told| told == *number)
                        && row.began_at.is_none_or(|at| at == *time)
                        && row.not_before.is_none_or(|from| from <= *time)
                        && row.not_after.is_none_or(|to| *time <= to)
                };
                let found = was.iter().position(|was| fits(&was));
                let found = found.unwrap_or_else(|| panic!("{case}: {row:?} never was: {was:?}"));
                assert_eq!(row.progress.is_some(), found + 1 == was.len() || fits(&was.last().unwrap()), "{case}");
                if !row.others_between
                    && let Some(number) = row.compared_with
                {
                    assert_eq!(was[found - 1].0, number, "{case}: {row:?} of {was:?}");
                    told[0] += 1;
                }
                if row.again {
                    assert!(was[..found].iter().any(|earlier| earlier.1 == tag), "{case}");
                    told[1] += 1;
                }
                told[2] += usize::from(row.began_at.is_some());
                assert!(row.began_at.is_none() || seen.insert(row.began_at), "{case}: twice {row:?}");
            }
            // With the times, the latest rollout of each revision is known.
            let last = report.rollouts[0].began_at;
            assert!(!records || last == was.last().map(|was| was.2), "{case}: {last:?} of {was:?}");
        }
        assert!(told.iter().all(|told| *told > 1_000), "{told:?}");
    }
}
