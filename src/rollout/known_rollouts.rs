//! When a DaemonSet was rolled out, what changed, and who changed it, as far as its revisions tell.
//!
//! A ControllerRevision has two times: that of its creation, when it was first rolled out, and that of its number, when
//! it was last rolled out. The controller gives a new number to a template that it already knows (`constructHistory`,
//! pkg/controller/daemon/update.go, release 1.37.2). Rollouts between the two times leave only gaps in the numbers.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::difference::change_summary::in_a_few_words;
use crate::difference::difference;
use crate::facts::index::Index;
use crate::facts::revisions::{Revision, Revisions};
use crate::model::controller_revision::REACTION;
use crate::model::daemon_set::DaemonSet;
use crate::model::metadata::TEMPLATE_GENERATION_ANNOTATION;
use crate::model::server_side_apply::{known_manager, of_template, time_of};
use crate::model::snapshot::Kind;
use crate::model::template::Template;
use crate::report::change::Op;
use crate::report::recent_changes::RolloutNumbers;

/// When a rollout started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Began {
    At(Timestamp),
    Unknown,
    /// The controller has not acted yet.
    Pending,
}

/// A rollout of one DaemonSet.
#[derive(Clone, Copy)]
struct Event<'r, 'a> {
    /// `None` if the live template has no revision yet.
    revision: Option<&'r Revision<'a>>,
    /// `None` if it cannot be read.
    template: Option<&'r Template>,
    number: Option<i64>,
    began: Began,
    /// Its position among the other events of the DaemonSet.
    order: Timestamp,
    /// The latest time at which it can have started, according to its revision.
    not_after: Option<Timestamp>,
    /// Whether the revision has kept the number.
    is_last: bool,
}

/// One rollout of a DaemonSet: the first or the last one of a revision.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rollout {
    /// The numbers of the revision, and of those with which it is compared.
    pub(super) numbers: RolloutNumbers,
    /// Whether the controller has not acted on the template yet.
    pub(super) pending: bool,
    /// When it started, which is when the revision got the number; `None` if unknown.
    pub(super) began_at: Option<Timestamp>,
    /// The latest time at which it can have started; only if `began_at` is unknown.
    pub(super) not_after: Option<Timestamp>,
    /// The field manager that changed the template, such as `helm`; `None` if unknown.
    pub(super) by: Option<String>,
    /// A short summary of each change; empty if it is the first known rollout.
    pub(super) summary: Vec<String>,
    /// Whether it replaces no pods, because the template is equivalent to that of the previous rollout, as after an
    /// upgrade of the control plane.
    pub(super) keeps_pods: bool,
}

/// Returns the rollouts of a DaemonSet, the first one first.
pub(super) fn known_rollouts<'a>(index: &Index<'a>, daemon_set: &'a DaemonSet) -> Vec<Rollout> {
    let revisions = index.revisions(daemon_set);
    let mut events = events(&revisions);
    // A revision that was not read may be the current one.
    if !revisions.has_newest_number() && index.knows(Kind::ControllerRevisions, &daemon_set.metadata.namespace) {
        let (revision, template, began) = (revisions.current(), Some(&revisions.live), Began::Pending);
        let order = Timestamp::MAX;
        events.push(Event { revision, template, number: None, began, order, not_after: None, is_last: true });
    }
    let is_pending = events.last().is_some_and(|last| last.began == Began::Pending);
    let is_current = |event: &Event<'_, '_>| match is_pending {
        true => event.began == Began::Pending,
        false => event.is_last && event.revision.is_some_and(|revision| revision.is_current),
    };
    let current = events.iter().rposition(is_current);
    (0..events.len()).map(|at| rollout(daemon_set, &events, at, current == Some(at))).collect()
}

/// Returns what revisions, the first one first, reveal about rollouts.
fn events<'r, 'a>(revisions: &'r Revisions<'a>) -> Vec<Event<'r, 'a>> {
    let mut events = Vec::new();
    let mut latest: Option<Timestamp> = None;
    for revision in revisions.rolled_out().rev() {
        let created = revision.object.metadata.creation_timestamp.get();
        let (began, order) = match revisions.rolled_out_at(revision.object) {
            Some(time) if Some(time) >= latest => (Began::At(time), Some(time)),
            _ => (Began::Unknown, created.max(latest)),
        };
        let last = Event {
            revision: Some(revision),
            template: revision.template.as_ref().ok(),
            number: Some(revision.number()),
            began,
            order: order.unwrap_or(Timestamp::MIN),
            not_after: revision.object.numbered_at_latest(),
            is_last: true,
        };
        if let Some(order) = created.filter(|created| Some(*created) < order && !revisions.none_is_renumbered()) {
            let began = Began::At(order);
            events.push(Event { number: None, began, order, not_after: None, is_last: false, ..last });
        }
        events.push(last);
        latest = latest.max(order);
    }
    // A revision that has lost its number fills a gap before another one of the same second, if there may be one.
    let rank = |number: Option<i64>| number.map_or(1, |number| if number == 1 { 0 } else { 2 });
    events.sort_by_key(|event| (event.order, rank(event.number)));
    number(&mut events);
    events
}

/// Assigns the original numbers to the first rollouts of revisions, if they are between two others in time and there
/// are as many gaps as such rollouts.
fn number(events: &mut [Event<'_, '_>]) {
    let (mut before, mut is_before_known, mut unnumbered) = (0, true, Vec::new());
    for at in 0..events.len() {
        let Some(number) = events[at].number else {
            unnumbered.push(at);
            continue;
        };
        let is_known = matches!(events[at].began, Began::At(_));
        let holes = number.checked_sub(before).and_then(|step| usize::try_from(step).ok()?.checked_sub(1));
        if is_before_known && is_known && holes == Some(unnumbered.len()) {
            unnumbered.iter().zip(before + 1..).for_each(|(at, number)| events[*at].number = Some(number));
        }
        unnumbered.clear();
        (before, is_before_known) = (number, is_known);
    }
}

/// Returns the templates that the last rollouts of revisions replaced, as far as they are known and can be read, by the numbers of the
/// revisions.
pub(super) fn replaced_templates<'r>(revisions: &'r Revisions<'_>) -> BTreeMap<i64, &'r Template> {
    let events = events(revisions);
    let last = (0..events.len()).filter(|at| events[*at].is_last);
    last.filter_map(|at| Some((events[at].number?, replaced(&events, at)?.template?))).collect()
}

/// Returns the rollout before another one, or the closest one before it whose template can be read.
fn replaced<'e, 'r, 'a>(events: &'e [Event<'r, 'a>], at: usize) -> Option<&'e Event<'r, 'a>> {
    let before = earlier(events, at).find(|before| is_next(before, &events[at]));
    before.into_iter().chain(earlier(events, at)).find(|before| before.template.is_some())
}

/// Returns the rollouts that were earlier than another one, the latest first.
fn earlier<'e, 'r, 'a>(events: &'e [Event<'r, 'a>], at: usize) -> impl Iterator<Item = &'e Event<'r, 'a>> {
    // A rollout with only an earliest time may have been later than the next one, unless both have kept their numbers.
    let is_last = events[at].is_last;
    events[..at].iter().rev().filter(move |event| is_last || matches!(event.began, Began::At(_)))
}

/// Returns whether no rollout was between two others, according to their numbers.
fn is_next(before: &Event<'_, '_>, event: &Event<'_, '_>) -> bool {
    match event.number {
        Some(number) => number.checked_sub(1).is_some_and(|next| before.number == Some(next)),
        None => event.began == Began::Pending && before.is_last,
    }
}

fn rollout<'a>(daemon_set: &'a DaemonSet, events: &[Event<'_, 'a>], at: usize, is_current: bool) -> Rollout {
    let Event { revision, number, began, .. } = events[at];
    let own = events[at].template;
    let earlier = || earlier(events, at);
    let before = replaced(events, at);
    let compared = before.and_then(|before| before.template).zip(own);
    let changes = compared.map(|(before, own)| difference(before, own)).unwrap_or_default();
    let is_same = |before: &&Event<'_, 'a>| before.template.zip(own).is_some_and(|(one, own)| one.same_meaning(own));
    let mut same = earlier().filter(is_same);
    // A write with another template generation replaces pods, however small the change.
    let of_revision = |revision: &Revision<'a>| &revision.object.annotations;
    let annotations = if is_current { Some(&daemon_set.annotations) } else { revision.map(of_revision) };
    let has_same_generation = |before: &Event<'_, 'a>| {
        let generation = |of: Option<&'a BTreeMap<String, String>>| of?.get(TEMPLATE_GENERATION_ANNOTATION);
        let generations = generation(before.revision.map(of_revision)).zip(generation(annotations));
        generations.is_none_or(|(before, own)| before == own)
    };
    let is_certain = |before: &Event<'_, 'a>| is_next(before, &events[at]);
    let keeps_pods = before.is_some_and(|before| is_certain(before) && is_same(&before) && has_same_generation(before));
    let later = events[at + 1..].iter().filter(|later| later.is_last).filter_map(|later| match later.began {
        Began::At(time) => Some(time),
        _ => None,
    });
    let (began_at, not_after) = match began {
        Began::At(time) => (Some(time), None),
        Began::Unknown => (None, later.chain(events[at].not_after).min()),
        Began::Pending => (None, None),
    };
    Rollout {
        numbers: RolloutNumbers {
            revision: number,
            compared_with: before.and_then(|before| before.number),
            same_as: same.find_map(|same| same.number),
        },
        pending: began == Began::Pending,
        began_at,
        not_after,
        by: began_at.filter(|_| is_current).and_then(|time| {
            let created = daemon_set.metadata.creation_timestamp.get();
            let is_first = created.is_some_and(|created| time.duration_since(created) <= REACTION);
            // A manager that only removes something leaves no time.
            let leaves_time = is_first || changes.iter().any(|change| change.op != Op::Remove);
            changed_by(daemon_set, earlier().next(), time).filter(|_| leaves_time)
        }),
        summary: in_a_few_words(&changes),
        keeps_pods,
    }
}

/// Returns the only field manager that can have changed the template for a rollout that started at a time, after another one.
fn changed_by(daemon_set: &DaemonSet, after: Option<&Event<'_, '_>>, began: Timestamp) -> Option<String> {
    let written = of_template(&daemon_set.object);
    let written = written.filter_map(|entry| Some((entry["manager"].as_str()?, time_of(entry)?)));
    // A manager that has changed it later may have changed it then, too: only the last time is kept.
    let may_have = |(_, at): &(&str, Timestamp)| {
        began.duration_since(*at) <= REACTION && after.is_none_or(|after| after.order < *at)
    };
    match written.filter(may_have).collect::<Vec<_>>().as_slice() {
        [(manager, at)] if *at <= began => known_manager(manager).map(str::to_owned),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jiff::{SignedDuration, Timestamp};
    use serde_json::{Value, json};

    use super::{Rollout, RolloutNumbers, TEMPLATE_GENERATION_ANNOTATION, known_rollouts};
    use crate::facts::index::Index;
    use crate::facts::test_support::{World, at, world};
    use crate::model::controller_revision::ControllerRevision;
    use crate::model::snapshot::{Gap, GapCause, Kind};

    /// A revision: its number, the tag of its image, when it was created, and when it got the number, if recorded.
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

    /// Returns the rollouts, the last one first.
    fn all(world: World) -> Vec<Rollout> {
        let snapshot = world.finish();
        let mut rollouts = known_rollouts(&Index::new(&snapshot), &snapshot.daemon_sets[0]);
        rollouts.reverse();
        rollouts
    }

    /// Describes each rollout: its number, when it started, what it changed, and since which one.
    fn said(rollouts: &[Rollout]) -> Vec<String> {
        let time = |time: Timestamp| time.strftime("%H:%M").to_string();
        let one = |row: &Rollout| {
            let RolloutNumbers { revision, compared_with, same_as } = row.numbers;
            let number = revision.map_or("?".to_owned(), |number| number.to_string());
            let began = match (row.began_at, row.not_after) {
                (Some(at), _) => time(at),
                _ if row.pending => "pending".to_owned(),
                (None, to) => format!("..{}", to.map(time).unwrap_or_default()),
            };
            let is_gap = |before: &i64| before.checked_add(1) != revision && !row.pending;
            let gap = compared_with.filter(is_gap).map(|before| format!(" (since {before})"));
            let same = same_as.map(|same| format!(" as {same}")).unwrap_or_default();
            let summary = row.summary.join(", ").replace("image agent ", "");
            format!("{number} {began} {summary}{same}{}", gap.unwrap_or_default())
        };
        rollouts.iter().map(one).collect()
    }

    #[test]
    fn a_rollback_is_a_rollout_of_its_own_and_the_first_one_of_the_revision_is_not_forgotten() {
        let revisions =
            [(1, "a", "10:00", Some("10:00")), (4, "c", "10:20", Some("10:20")), (5, "b", "10:10", Some("10:30"))];
        // Number 2 was that of b; 3 is unknown.
        assert_eq!(
            said(&all(with_revisions("b", &revisions))),
            ["5 10:30 c → b", "4 10:20 b → c", "? 10:10 a → b (since 1)", "1 10:00 "]
        );
        let revisions = [(1, "a", "10:00", Some("10:00")), revisions[2], (4, "c", "10:20", Some("10:20"))];
        let revisions =
            revisions.map(|(number, tag, created, numbered)| (number - i64::from(number > 1), tag, created, numbered));
        assert_eq!(
            said(&all(with_revisions("b", &revisions))),
            ["4 10:30 c → b as 2", "3 10:20 b → c", "2 10:10 a → b", "1 10:00 "]
        );
    }

    #[test]
    fn without_managed_fields_only_what_creation_times_and_numbers_prove_is_told() {
        let created = json!({"metadata": {"creationTimestamp": at("09:00")}});
        let told = |revisions: &[Told<'_>]| said(&all(with_revisions("b", revisions).daemon_set(created.clone())));
        // A renumbered revision would have left a gap.
        assert_eq!(told(&[(1, "a", "10:00", None), (2, "b", "10:10", None)]), ["2 10:10 a → b", "1 10:00 "]);
        // The one that had number 1 would be older than number 2.
        let neither = told(&[(2, "a", "10:00", None), (3, "b", "10:10", None)]);
        assert_eq!(neither, ["3 10:10 a → b", "2 10:00 "]);
        // Numbers 1 and 2 are missing: either may have been rolled out again.
        let either = told(&[(3, "a", "10:00", None), (4, "b", "10:10", None)]);
        assert_eq!(either, ["4 .. a → b", "3 .. "]);
        // It was created before one with a lower number, so it was rolled out at least twice.
        let twice = told(&[(2, "a", "10:10", None), (3, "b", "10:00", None)]);
        assert_eq!(twice, ["3 .. a → b", "2 .. b → a", "? 10:00 "]);
    }

    #[test]
    fn a_time_that_contradicts_the_numbers_is_not_that_of_the_number() {
        // As if somebody had edited the oldest revision at 10:30.
        let revisions =
            [(2, "a", "10:00", Some("10:30")), (3, "c", "10:15", Some("10:15")), (4, "b", "10:10", Some("10:20"))];
        let told = said(&all(with_revisions("b", &revisions)));
        assert_eq!(told, ["4 10:20 c → b", "3 10:15 a → c", "? 10:10 ", "2 ..10:15 "]);
    }

    #[test]
    fn revisions_that_outlive_their_daemon_set_are_not_rolled_out_when_the_next_one_adopts_them() {
        let adopted = |live: &str, revisions: &[Told<'_>]| {
            let created = json!({"metadata": {"creationTimestamp": at("12:00")}});
            said(&all(with_revisions(live, revisions).daemon_set(created)))
        };
        assert_eq!(adopted("a", &[(1, "a", "10:00", Some("12:00"))]), ["1 10:00 "]);
        let three =
            [(1, "a", "10:00", Some("12:00")), (2, "b", "10:10", Some("12:00")), (3, "c", "10:20", Some("12:00"))];
        assert_eq!(adopted("c", &three), ["3 10:20 b → c", "2 10:10 a → b", "1 10:00 "]);
        // With a gap, the time of the number is lost.
        let hole = [(2, "b", "10:10", Some("12:00")), (3, "c", "10:20", Some("12:00"))];
        assert_eq!(adopted("c", &hole), ["3 ..12:00 b → c", "2 ..12:00 "]);
        // The template was written right before, not at the creation, or long before.
        let undone = |written: &str| {
            let revisions = [(2, "b", "10:10", Some("12:00")), (4, "a", "10:00", Some("12:30"))];
            let entry = json!({"manager": "helm", "time": at(written), "fieldsV1": {"f:spec": {"f:template": {}}}});
            let metadata = json!({"creationTimestamp": at("12:00:00"), "managedFields": [entry]});
            said(&all(with_revisions("a", &revisions).daemon_set(json!({ "metadata": metadata })))).remove(0)
        };
        assert_eq!(undone("12:29:56"), "4 12:30 b → a (since 2)");
        assert_eq!([undone("12:29:50"), undone("12:00:01")], ["4 ..12:30 b → a (since 2)"; 2]);
        // The new one's rollouts are known.
        let rolled = [hole[0], (3, "c", "12:00", Some("12:00")), (4, "d", "12:10", Some("12:10"))];
        assert_eq!(adopted("d", &rolled), ["4 12:10 c → d", "3 12:00 b → c", "2 ..12:00 "]);
    }

    #[test]
    fn an_equivalent_revision_right_after_another_replaces_no_pods() {
        let with_generation = |world: World, generation: &str| {
            let mut world =
                world.daemon_set(json!({"metadata": {"annotations": {TEMPLATE_GENERATION_ANNOTATION: generation}}}));
            for (revision, generation) in world.snapshot.controller_revisions.iter_mut().zip(["1", "2", "2"]) {
                revision.annotations.insert(TEMPLATE_GENERATION_ANNOTATION.to_owned(), generation.to_owned());
            }
            world
        };
        let upgraded = || {
            let revisions = [(1, "a", "10:00", None), (2, "b", "10:10", None), (3, "B", "10:20", None)];
            let mut world = with_revisions("b", &revisions);
            let data = world.snapshot.controller_revisions[1].object["data"].clone();
            world.snapshot.controller_revisions[2].object["data"] = data;
            world
        };
        let keeps_pods = |world| all(world).iter().map(|row| row.keeps_pods).collect::<Vec<_>>();
        assert_eq!(keeps_pods(with_generation(upgraded(), "2")), [true, false, false]);
        assert_eq!(keeps_pods(upgraded()), [true, false, false]);
        // The template was written again, such as with its tolerations in another order.
        assert_eq!(keeps_pods(with_generation(upgraded(), "3")), [false; 3]);
    }

    #[test]
    fn an_unreadable_revision_after_the_current_one_is_no_rollout() {
        let mut world =
            with_revisions("b", &[(1, "a", "10:00", None), (2, "b", "10:10", None), (9, "c", "10:20", None)]);
        world.snapshot.controller_revisions[2].object["data"] = json!({});
        assert_eq!(said(&all(world)), ["2 10:10 a → b", "1 10:00 "]);
    }

    #[test]
    fn numbers_at_the_limits_are_no_overflow() {
        let revisions = [(i64::MIN, "a", "10:00", Some("10:00")), (i64::MAX, "b", "10:10", Some("10:20"))];
        assert_eq!(all(with_revisions("b", &revisions)).len(), 3);
    }

    #[test]
    fn a_template_that_the_controller_has_not_acted_on_comes_first() {
        let revisions = [(1, "a", "10:00", Some("10:00")), (2, "b", "10:10", Some("10:10"))];
        let changed = |live| with_revisions(live, &revisions).daemon_set(json!({"metadata": {"generation": 3}}));
        assert_eq!(said(&all(changed("c"))), ["? pending b → c", "2 10:10 a → b", "1 10:00 "]);
        // It was rolled back, and the revision has not been renumbered yet.
        assert_eq!(said(&all(changed("a")))[0], "? pending b → a as 1");
    }

    #[test]
    fn who_changed_the_template_is_told_if_it_can_only_be_one() {
        let by_of = |before: &str, managers: &[(&str, &str, Value)]| {
            let entry = |(manager, time, fields): &(&str, &str, Value)| json!({"manager": manager, "time": at(time), "fieldsV1": fields});
            let entries: Vec<Value> = managers.iter().map(entry).collect();
            let world = with_revisions("b", &[(1, "a", before, Some(before)), (2, "b", "10:10", Some("10:10"))]);
            let rollouts = all(world.daemon_set(json!({"metadata": {"managedFields": entries}})));
            assert_eq!(rollouts[1].by, None);
            rollouts[0].by.clone()
        };
        let by = |managers: &[(&str, &str, Value)]| by_of("10:00", managers);
        let template = || json!({"f:spec": {"f:template": {"f:spec": {}}}});
        assert_eq!(by(&[("helm", "10:10", template())]).as_deref(), Some("helm"));
        // It changed something later, which may not have been the template.
        assert_eq!(by(&[("helm", "10:11", template())]), None);
        assert_eq!(by(&[("helm", "10:05", template())]), None);
        assert_eq!(by(&[("kubectl-label", "10:10", json!({"f:metadata": {"f:labels": {}}}))]), None);
        assert_eq!(by(&[("helm", "10:10", template()), ("argocd", "10:10", template())]), None);
        // Either may have changed it at 10:10: that time is not kept for the one that has changed it again.
        assert_eq!(by(&[("helm", "10:10", template()), ("argocd", "10:40", template())]), None);
        // The API server has merged several managers.
        assert_eq!(by(&[("ancient-changes", "10:10", template())]), None);
        // A change before the previous rollout was rolled out by it.
        let at_once = by_of("10:09:58", &[("helm", "10:10", template()), ("argocd", "10:09:58", template())]);
        assert_eq!(at_once.as_deref(), Some("helm"));
    }

    #[test]
    fn who_only_removes_something_leaves_no_time_so_nobody_else_is_told() {
        let managed =
            json!([{"manager": "helm", "time": at("11:10"), "fieldsV1": {"f:spec": {"f:template": {"f:spec": {}}}}}]);
        let by = |before: Value| {
            let revisions = [(1, "a", "11:00", Some("11:00")), (2, "b", "11:10", Some("11:10"))];
            let created = json!({"metadata": {"creationTimestamp": at("11:00"), "managedFields": managed}});
            let mut world = with_revisions("b", &revisions).daemon_set(created);
            let spec = &mut world.snapshot.controller_revisions[0].object["data"]["spec"]["template"]["spec"];
            (spec["containers"][0]["image"], spec["hostNetwork"]) = (before, json!(true));
            all(world)[0].by.clone()
        };
        // Somebody removed hostNetwork while helm wrote something else.
        assert_eq!(by(json!("agent:b")), None);
        assert_eq!(by(json!("agent:a")).as_deref(), Some("helm"));
    }

    #[test]
    fn of_revisions_that_could_not_be_read_no_rollout_is_known() {
        let mut world = with_revisions("b", &[]);
        let cause = GapCause::Forbidden("list controllerrevisions".to_owned());
        world.snapshot.gaps.push(Gap { kind: Kind::ControllerRevisions, namespace: None, cause });
        assert_eq!(all(world), []);
    }

    /// An actual rollout: its number, the index of its image's tag in [`TAGS`], and its time.
    type Was = (i64, usize, Timestamp);

    /// The tags of images. After an upgrade of the control plane, the second template is written as the last one.
    const TAGS: [&str; 5] = ["a", "b", "c", "d", "B"];

    /// The actual history of a DaemonSet, and what is left of it.
    struct Past {
        world: World,
        was: Vec<Was>,
        /// Whether the time of the last rollout is lost.
        is_lost: bool,
        is_pending: bool,
    }

    /// Rolls out templates and deletes old revisions like the controller.
    fn rolled_out(random: &mut impl FnMut(u64) -> u64, records: bool) -> Past {
        // The number, the tag, the creation and the time of the number.
        let mut left: Vec<(i64, usize, Timestamp, Timestamp)> = Vec::new();
        let (mut was, mut time): (Vec<Was>, Timestamp) = (Vec::new(), at("10:00").parse().unwrap());
        let (mut daemon_set_created, mut is_upgraded) = (time, false);
        for _ in 0..1 + random(8) {
            time += SignedDuration::from_secs(i64::try_from(1 + random(100)).unwrap());
            let is_second = was.last().is_some_and(|last| last.1 == 1);
            let tag = match usize::try_from(random(4)).unwrap() {
                // Another DaemonSet with the same name adopts the revisions.
                _ if random(10) == 0 => {
                    daemon_set_created = time;
                    left.iter_mut().for_each(|revision| revision.3 = time);
                    continue;
                }
                _ if is_second && !is_upgraded && random(2) == 0 => {
                    is_upgraded = true;
                    4
                }
                1 if is_upgraded => 4,
                tag => tag,
            };
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
        let last = left.iter().max_by_key(|revision| revision.0);
        let is_lost = last
            .is_some_and(|(.., created, numbered)| *created < daemon_set_created && daemon_set_created <= *numbered);
        let is_pending = random(10) == 0;
        let live = if is_pending { "pending" } else { was.last().map_or("a", |(_, tag, _)| TAGS[*tag]) };
        let clock = |time: &Timestamp| time.strftime("%H:%M:%S").to_string();
        let texts: Vec<(i64, &str, String, String)> = left
            .iter()
            .map(|(number, tag, created, numbered)| (*number, TAGS[*tag], clock(created), clock(numbered)))
            .collect();
        let mut told: Vec<Told<'_>> = texts
            .iter()
            .map(|(number, tag, created, numbered)| {
                (*number, *tag, created.as_str(), records.then_some(numbered.as_str()))
            })
            .collect();
        let later = clock(&(time + SignedDuration::from_secs(1)));
        // Otherwise it might be the current one.
        if !told.is_empty() {
            told.push((99, "unreadable", &later, records.then_some(&later)));
        }
        let generation = if is_pending { 3 } else { 2 };
        let metadata = json!({"generation": generation, "creationTimestamp": daemon_set_created.to_string()});
        let mut world = with_revisions(&live.to_lowercase(), &told).daemon_set(json!({"metadata": metadata}));
        for revision in &mut world.snapshot.controller_revisions {
            match revision.metadata.name.as_str() {
                "agent-unreadable" => revision.object["data"] = json!({}),
                "agent-B" => {
                    revision.object["data"]["spec"]["template"]["spec"]["containers"][0]["image"] = json!("agent:b");
                }
                _ => {}
            }
        }
        Past { world, was, is_lost, is_pending }
    }

    #[test]
    fn whatever_was_rolled_out_nothing_wrong_is_told() {
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let mut told = [0; 5];
        for case in 0..4_000 {
            let records = case % 3 > 0;
            let Past { world, was, is_lost, is_pending } = rolled_out(&mut random, records);
            if was.is_empty() {
                continue;
            }
            // The template is only written differently.
            let keeps_pods = |at: usize| at > 0 && was[at].1 == 4 && was[at - 1].1 == 1;
            let mut rollouts = all(world);
            if is_pending {
                let pending = rollouts.remove(0);
                assert!(pending.pending, "{case}: {pending:?}");
                // Before the controller has acted, the unreadable one may have been rolled out.
                rollouts.retain(|row| row.numbers.revision != Some(99));
            }
            let mut seen = BTreeSet::new();
            for row in &rollouts {
                let RolloutNumbers { revision, compared_with, same_as } = row.numbers;
                let tag = row.summary.iter().find_map(|one| one.strip_prefix("image agent ")?.split_once(" → "));
                let fits = |(number, tag_of_it, time): &&Was| {
                    revision.is_none_or(|told| told == *number)
                        && row.began_at.is_none_or(|at| at == *time)
                        && row.not_after.is_none_or(|to| *time <= to)
                        && tag.is_none_or(|(_, to)| TAGS[*tag_of_it].eq_ignore_ascii_case(to))
                };
                let found = was.iter().position(|was| fits(&was));
                let found = found.unwrap_or_else(|| panic!("{case}: {row:?} never was: {was:?}"));
                if let (Some(number), Some(before)) = (revision, compared_with)
                    && before + 1 == number
                {
                    assert_eq!(was[found - 1].0, before, "{case}: {row:?} of {was:?}");
                    told[0] += 1;
                }
                if same_as.is_some() {
                    let is_same = |one: usize| TAGS[one].eq_ignore_ascii_case(TAGS[was[found].1]);
                    assert!(was[..found].iter().any(|earlier| is_same(earlier.1)), "{case}");
                    told[1] += 1;
                }
                assert!(!row.keeps_pods || keeps_pods(found), "{case}: {row:?} of {was:?}");
                told[2] += usize::from(row.began_at.is_some());
                told[3] += usize::from(row.keeps_pods);
                told[4] += usize::from(row.began_at.is_none() && records);
                assert!(row.began_at.is_none() || seen.insert(row.began_at), "{case}: twice {row:?}");
            }
            // With the times, the latest rollout of each revision is known, except for revisions that were adopted since.
            let last = rollouts.first().and_then(|row| row.began_at);
            assert!(!records || is_lost || last == was.last().map(|was| was.2), "{case}: {last:?} of {was:?}");
        }
        assert!(told.iter().all(|told| *told > 100), "{told:?}");
    }
}
