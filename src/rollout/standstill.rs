//! How long rollouts have been standing still.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::report::rollout_status::{RolloutStatus, Verdict};

/// For how long a rollout may be neither blocked nor paused without an end of its standstill, if nothing comes of it: the
/// controller recreates a pod that has failed, and for a moment the new one may still start.
const ATTEMPT: Duration = Duration::from_secs(10);

/// Which rollouts have been blocked or paused, and since when.
#[derive(Debug, Default)]
pub(crate) struct Standstills(BTreeMap<(String, String), Standstill>);

#[derive(Debug)]
struct Standstill {
    since: Instant,
    /// When the controller has begun another attempt.
    attempt_since: Option<Instant>,
    /// The revision, and how many of its pods were available.
    progress: (Option<i64>, Option<usize>),
}

impl Standstills {
    /// Notes what is said of rollouts at this time.
    pub(crate) fn update<'r>(&mut self, rollouts: impl Iterator<Item = &'r RolloutStatus>, now: Instant) {
        let mut before = std::mem::take(&mut self.0);
        for rollout in rollouts {
            let name = (rollout.namespace.clone(), rollout.name.clone());
            if let Some(standstill) = Standstill::of(rollout, before.remove(&name), now) {
                self.0.insert(name, standstill);
            }
        }
    }

    /// Forgets all of them, after a time in which nothing was known.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns whether a rollout stands still, and has done so for this long.
    pub(crate) fn last(&self, duration: Duration, now: Instant) -> bool {
        let mut standing = self.0.values().filter(|standstill| standstill.attempt_since.is_none());
        standing.any(|standstill| now.duration_since(standstill.since) >= duration)
    }
}

impl Standstill {
    fn of(rollout: &RolloutStatus, before: Option<Self>, now: Instant) -> Option<Self> {
        let progress = (rollout.revision.as_ref().map(|revision| revision.number), rollout.counts.updated_available);
        if rollout.counts_as_complete() {
            return None;
        }
        let stands_still = match rollout.verdict {
            Verdict::Blocked | Verdict::Degraded | Verdict::Paused => true,
            // More nodes are down than are accepted.
            Verdict::Complete => true,
            // Nobody observes it.
            Verdict::NotObserved => rollout.controller_silent_since.is_some(),
            _ => false,
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

    /// Returns what is known after verdicts, each with the seconds since the one before and the number of available pods.
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
            not_accepted: 0,
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

    #[test]
    fn what_was_before_a_time_in_which_nothing_was_known_does_not_count() {
        let (mut standstills, now) = after(&[(Verdict::Blocked, 0, 1), (Verdict::Blocked, 60, 1)]);
        assert!(standstills.last(Duration::from_secs(60), now));
        standstills.clear();
        assert!(!standstills.last(Duration::from_secs(60), now));
    }
}
