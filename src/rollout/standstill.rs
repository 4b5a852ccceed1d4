//! How long rollouts have been at a standstill.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::report::coverage::{Counts, ReasonGroup};
use crate::report::reason::ReasonCode;
use crate::report::rollout_status::{NextActions, RolloutStatus, Verdict};

/// How long a rollout may be neither blocked nor paused without ending its standstill, if nothing comes of it: the
/// controller recreates a failed pod, and for a moment the new one may still start.
const ATTEMPT: Duration = Duration::from_secs(10);

/// How long nothing at all may change before a rollout that should progress counts as being at a standstill: longer than a pod may
/// take to start, and than the controller waits before it retries a creation. The component that would act may be down.
const NO_CHANGE: Duration = Duration::from_secs(1200);

/// Which rollouts have been blocked or paused, and since when.
#[derive(Debug, Default)]
pub(crate) struct Standstills {
    standing: BTreeMap<(String, String), Standstill>,
    /// The last known states of rollouts, and since when.
    unchanged: BTreeMap<(String, String), (State, Instant)>,
}

/// What changes with whatever happens in a rollout.
type State = (Verdict, Counts, NextActions, Vec<(ReasonCode, Vec<String>)>);

fn state(rollout: &RolloutStatus) -> State {
    let problems = rollout.problems.iter().map(|problem| (problem.code, problem.nodes.clone())).collect();
    (rollout.verdict, rollout.counts.clone(), rollout.next.clone(), problems)
}

/// Returns whether a problem ends automatically, at a time that the DaemonSet determines.
fn takes_time(problem: &ReasonGroup) -> bool {
    problem.passing && matches!(problem.code, ReasonCode::NotYetAvailable | ReasonCode::Terminating)
}

#[derive(Debug)]
struct Standstill {
    since: Instant,
    /// When the controller started another attempt.
    attempt_since: Option<Instant>,
    /// The revision, and how many of its pods were available.
    progress: (Option<i64>, Option<usize>),
}

impl Standstills {
    /// Records the current state of rollouts.
    pub(crate) fn update<'r>(&mut self, rollouts: impl Iterator<Item = &'r RolloutStatus>, now: Instant) {
        let mut before = std::mem::take(self);
        for rollout in rollouts {
            let (name, state) = (key(rollout), state(rollout));
            let is_still = |(known, _): &(State, Instant)| *known == state && !rollout.problems.iter().any(takes_time);
            let since = before.unchanged.remove(&name).filter(is_still).map_or(now, |(_, since)| since);
            self.unchanged.insert(name.clone(), (state, since));
            if let Some(standstill) =
                Standstill::of(rollout, before.standing.remove(&name), self.nothing_changes(rollout, now), now)
            {
                self.standing.insert(name, standstill);
            }
        }
    }

    /// Returns whether nothing about a rollout has changed for so long that no change is expected.
    pub(crate) fn nothing_changes(&self, rollout: &RolloutStatus, now: Instant) -> bool {
        let unchanged = self.unchanged.get(&key(rollout));
        unchanged.is_some_and(|(_, since)| now.duration_since(*since) >= NO_CHANGE)
    }

    /// Forgets all of them, after a period without data.
    pub(crate) fn clear(&mut self) {
        *self = Standstills::default();
    }

    /// Returns whether a rollout has been at a standstill for this long.
    pub(crate) fn last(&self, duration: Duration, now: Instant) -> bool {
        let mut standing = self.standing.values().filter(|standstill| standstill.attempt_since.is_none());
        standing.any(|standstill| now.duration_since(standstill.since) >= duration)
    }
}

fn key(rollout: &RolloutStatus) -> (String, String) {
    (rollout.namespace.clone(), rollout.name.clone())
}

impl Standstill {
    fn of(rollout: &RolloutStatus, before: Option<Self>, nothing_changes: bool, now: Instant) -> Option<Self> {
        let progress = (rollout.revision.as_ref().map(|revision| revision.number), rollout.counts.updated_available);
        if rollout.counts_as_complete() && !rollout.is_unverified() {
            return None;
        }
        let stands_still = match rollout.verdict {
            Verdict::Blocked | Verdict::Degraded | Verdict::Paused => true,
            // More nodes are down than accepted, or the last stage was not verified.
            Verdict::Complete => true,
            // Nothing observes it.
            Verdict::NotObserved if rollout.controller_silent_since.is_some() => true,
            _ => nothing_changes,
        };
        if stands_still {
            let since = before.map_or(now, |before| before.since);
            return Some(Standstill { since, attempt_since: None, progress });
        }
        let before = before.filter(|before| before.progress == progress)?;
        let attempt_since = before.attempt_since.unwrap_or(now);
        let lasts = rollout.verdict == Verdict::Progressing && now.duration_since(attempt_since) < ATTEMPT;
        lasts.then_some(Standstill { attempt_since: Some(attempt_since), ..before })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::coverage::test_support::world;
    use crate::report::rollout_status::Accepted;
    use crate::rollout::status::rollout_status;

    /// Returns the state after verdicts, each with the seconds since the previous one and the number of available pods.
    fn after(verdicts: &[(Verdict, u64, usize)]) -> (Standstills, Instant) {
        let (mut standstills, mut now) = (Standstills::default(), Instant::now());
        let mut report = rollout_status(&world().daemon_set(json!({})).finish(), None);
        for (verdict, seconds, available) in verdicts {
            now += Duration::from_secs(*seconds);
            report.daemon_sets[0].verdict = *verdict;
            report.daemon_sets[0].counts.updated_available = Some(*available);
            standstills.update(report.daemon_sets.iter(), now);
        }
        (standstills, now)
    }

    #[test]
    fn attempts_that_fail_do_not_end_a_standstill() {
        use Verdict::{Blocked, NotObserved, Paused, Progressing};
        for (verdicts, lasts) in [
            (&[(Blocked, 0, 1), (Blocked, 59, 1)][..], false),
            (&[(Blocked, 0, 1), (Paused, 60, 1)], true),
            (&[(Blocked, 0, 1), (Progressing, 57, 1), (Blocked, 3, 1)], true),
            (&[(Blocked, 0, 1), (Progressing, 30, 1), (Progressing, 9, 1), (Blocked, 30, 1)], true),
            // It must be blocked at the end.
            (&[(Blocked, 0, 1), (Progressing, 60, 1)], false),
            // An attempt that takes long, one that succeeds, and another template.
            (&[(Blocked, 0, 1), (Progressing, 30, 1), (Progressing, 10, 1), (Blocked, 30, 1)], false),
            (&[(Blocked, 0, 1), (Progressing, 30, 2), (Blocked, 30, 2)], false),
            (&[(Blocked, 0, 1), (NotObserved, 30, 1), (Blocked, 30, 1)], false),
        ] {
            let (standstills, now) = after(verdicts);
            assert_eq!(standstills.last(Duration::from_secs(60), now), lasts, "{verdicts:?}");
        }
    }

    #[test]
    fn what_lacks_only_what_is_accepted_does_not_stand_still() {
        let (mut standstills, now) = after(&[(Verdict::Degraded, 0, 1), (Verdict::Degraded, 60, 1)]);
        assert!(standstills.last(Duration::from_secs(60), now));
        let mut report = rollout_status(&world().daemon_set(json!({})).finish(), None);
        report.daemon_sets[0].verdict = Verdict::Degraded;
        let (by, complete) = (Vec::new(), true);
        report.daemon_sets[0].accepted = Some(Accepted {
            by_annotation: true,
            invalid: None,
            by,
            not_accepted: Vec::new(),
            may_still_start: false,
            complete,
        });
        standstills.update(report.daemon_sets.iter(), now);
        assert!(!standstills.last(Duration::from_secs(0), now));
    }

    #[test]
    fn what_no_controller_observes_stands_still() {
        for (is_silent, lasts) in [(true, true), (false, false)] {
            let mut standstills = Standstills::default();
            let mut report = rollout_status(&world().daemon_set(json!({})).finish(), None);
            report.daemon_sets[0].verdict = Verdict::NotObserved;
            report.daemon_sets[0].controller_silent_since = is_silent.then_some(report.now);
            let began = Instant::now();
            standstills.update(report.daemon_sets.iter(), began);
            let now = began + Duration::from_secs(60);
            standstills.update(report.daemon_sets.iter(), now);
            assert_eq!(standstills.last(Duration::from_secs(60), now), lasts, "{is_silent}");
        }
    }

    /// As if the controller of another program were down, whose lease is unknown.
    #[test]
    fn what_goes_on_for_long_without_any_change_stands_still_unless_pods_take_their_time() {
        let lasts = |code: ReasonCode, changes_at: Option<u64>, minutes: u64| {
            let mut standstills = Standstills::default();
            let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
            let world = world().node("a", json!({})).unready_pod("agent-a", "a", crashes, json!({}));
            let mut report = rollout_status(&world.finish(), None);
            report.daemon_sets[0].verdict = Verdict::Progressing;
            (report.daemon_sets[0].problems[0].code, report.daemon_sets[0].problems[0].passing) = (code, true);
            let began = Instant::now();
            let at = |minute: u64| began + Duration::from_secs(60 * minute);
            for minute in 0..=minutes {
                if changes_at == Some(minute) {
                    report.daemon_sets[0].counts.ready = Some(7);
                }
                standstills.update(report.daemon_sets.iter(), at(minute));
            }
            let rollout = &report.daemon_sets[0];
            (standstills.last(Duration::ZERO, at(minutes)), standstills.nothing_changes(rollout, at(minutes)))
        };
        assert_eq!(lasts(ReasonCode::CreatePending, None, 19), (false, false));
        assert_eq!(lasts(ReasonCode::CreatePending, None, 20), (true, true));
        assert_eq!(lasts(ReasonCode::CreatePending, Some(1), 20), (false, false));
        assert_eq!(lasts(ReasonCode::CreatePending, Some(1), 21), (true, true));
        assert_eq!(lasts(ReasonCode::NotYetAvailable, None, 60), (false, false));
        assert_eq!(lasts(ReasonCode::Terminating, None, 60), (false, false));
    }

    #[test]
    fn what_was_before_a_time_in_which_nothing_was_known_does_not_count() {
        let (mut standstills, now) = after(&[(Verdict::Blocked, 0, 1), (Verdict::Blocked, 60, 1)]);
        assert!(standstills.last(Duration::from_secs(60), now));
        standstills.clear();
        assert!(!standstills.last(Duration::from_secs(60), now));
    }
}
