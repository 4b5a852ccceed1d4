//! The remaining time while the controller rolls out, estimated from the times at which updated pods became available. Between stages, where
//! gates wait, `held_stages` of `partition` estimates it.

use crate::model::hold::Hold;
use crate::report::age::seconds_between;
use crate::report::rollout_status::Eta;
use crate::rollout::PACE;
use crate::rollout::partition::{is_skipped, kept};
use crate::rollout::situation::next_step::NextStep;
use crate::rollout::situation::{RolloutNode, Situation};
use crate::scheduling::daemon_pods::available_since;

/// The multiple of the longest pause between two pods after which the pace is considered lost.
const MAX_PAUSES: i64 = 3;

/// The largest ratio of the slowest to the fastest part of a rollout; beyond that there is no pace.
const MAX_SPREAD: i64 = 20;

/// Returns the remaining time until every eligible node that can be is updated and available; `None` if there is no
/// pace, or the rest cannot continue at it.
pub(super) fn eta(situation: &Situation<'_>, step: &NextStep<'_>) -> Option<Eta> {
    let is_stuck = |node: &RolloutNode<'_>| {
        let is_replaced = node.updated.is_none() && node.old.is_some() && node.may_be_the_revisions();
        node.code().is_some() && !is_replaced && !situation.recovers(node)
    };
    let allowed = step.update().map_or(1, |update| update.allowed);
    let waits_behind_stuck_pods = step.update().is_some_and(|update| {
        let used_by = update.used_by.iter().filter_map(|name| situation.node(name));
        let stuck = used_by.filter(|node| is_stuck(node)).count();
        !update.candidates.is_empty() && i64::try_from(stuck).is_ok_and(|stuck| stuck >= update.allowed)
    });
    if situation.creation_is_refused() || waits_behind_stuck_pods {
        return None;
    }
    // While pods were refused, nothing became available: that time is not part of the pace.
    let refused = situation.last_event("FailedCreate");
    let began = situation.rollout_began_at()?;
    let started = refused.map_or(began, |refused| refused.max(began));
    let min_ready = situation.daemon_set.spec.min_ready_seconds;
    let updated = situation.eligible().filter(|node| node.updated_is_available);
    let available_at = updated.filter_map(|node| available_since(node.updated?, min_ready));
    let mut times: Vec<i64> = available_at.filter(|at| *at >= started).map(|at| seconds_between(started, at)).collect();
    times.sort_unstable();
    let is_left = |node: &&RolloutNode<'_>| node.eligible && !node.updated_is_available && !is_stuck(node);
    // A stage leaves some of them as they are, also those that are skipped, and a pause all.
    let hold = Hold::in_force(situation.daemon_set);
    let old = || situation.nodes.iter().filter(|node| is_left(node) && node.updated.is_none() && node.old.is_some());
    let skipped = old().filter(|node| is_skipped(node)).count();
    let kept = |keep| kept(keep, situation.eligible().count()).max(skipped);
    let stay = hold.map_or(0, |hold| hold.partition.map_or(usize::MAX, kept));
    let left = situation.nodes.iter().filter(is_left).count() - old().count().min(stay);
    time_left(&times, left, usize::try_from(allowed).unwrap_or(1), situation.seconds_since(started))
}

/// Returns the remaining time for some nodes, from the sorted seconds after which others became available.
///
/// The range is that of parts of the rollout, each of at least as many pods as are replaced at a time.
fn time_left(times: &[i64], left: usize, at_a_time: usize, elapsed: i64) -> Option<Eta> {
    let last = *times.last().filter(|_| times.len() >= PACE && left > 0)?;
    let longest = std::iter::once(0).chain(times.iter().copied()).zip(times).map(|(before, at)| at - before).max()?;
    if elapsed - last > MAX_PAUSES * longest.max(1) {
        return None;
    }
    let left = i64::try_from(left).ok()?;
    let at = |pace: (i64, usize)| Some(pace.0.saturating_mul(left) / i64::try_from(pace.1).ok()?.max(1));
    let part = (times.len() / 3).max(at_a_time).max(1);
    let mut before = 0;
    let paces = times.chunks_exact(part).map(|part| {
        let end = part.last().copied().unwrap_or(before);
        let taken = end - before;
        before = end;
        (taken, part.len())
    });
    let parts: Vec<i64> = paces.filter_map(at).collect();
    // Timestamps have a resolution of seconds: pods that became available at once have no pace.
    let seconds = at((last, times.len())).filter(|seconds| *seconds > 0)?;
    let at_least = parts.iter().copied().chain([seconds]).min()?;
    let at_most = parts.iter().copied().chain([seconds]).max()?;
    // The next pods have been in progress since the last one; the remaining time of an overdue one is unknown.
    let since_last = |seconds: i64| seconds - (elapsed - last);
    let left =
        Eta { seconds: since_last(seconds), at_least: since_last(at_least).max(1), at_most: since_last(at_most) };
    (at_most <= MAX_SPREAD * at_least && left.seconds > 0).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::time_left;

    #[test]
    fn the_time_left_follows_the_pace_with_its_spread() {
        let left = |times, left, at_a_time, elapsed| {
            time_left(times, left, at_a_time, elapsed).map(|eta| (eta.seconds, eta.at_least, eta.at_most))
        };
        // One pod every 10 s: 7 more take 70 s, of which 5 have passed.
        assert_eq!(left(&[10, 20, 30], 7, 1, 35), Some((65, 65, 65)));
        // It slows down: the first took 5 s, the last one 40 s.
        assert_eq!(left(&[5, 20, 60], 3, 1, 60), Some((60, 15, 120)));
        // Pods that are replaced together are one step.
        assert_eq!(left(&[10, 11, 20, 21], 4, 2, 22), Some((20, 19, 21)));
        // The last one is due in 2 s, or overdue.
        assert_eq!(left(&[40, 80, 120], 1, 1, 158), Some((2, 2, 2)));
        assert_eq!(left(&[40, 80, 120], 1, 1, 160), None);
    }

    #[test]
    fn there_is_no_time_left_without_a_pace() {
        assert_eq!(time_left(&[], 5, 1, 10), None);
        assert_eq!(time_left(&[10, 20], 5, 1, 25), None);
        assert_eq!(time_left(&[10, 20, 30], 0, 1, 35), None);
        // All of them within a second.
        assert_eq!(time_left(&[0, 0, 0, 0], 10, 4, 0), None);
        assert_eq!(time_left(&[1, 1, 1, 1], 3, 4, 1), None);
        // One part was there at once, and the other took 100 minutes.
        assert_eq!(time_left(&[0, 0, 6000, 6000], 2, 2, 6001), None);
        // The slowest part took 21 times as long as the fastest one; 20 times is still a pace.
        assert_eq!(time_left(&[1, 2, 23], 1, 1, 23), None);
        assert_eq!(time_left(&[1, 2, 22], 1, 1, 22).map(|eta| (eta.at_least, eta.at_most)), Some((1, 20)));
        // Since the last pod, more than three times the longest pause of 10 s has passed.
        assert_eq!(time_left(&[10, 20, 30], 5, 1, 61), None);
        assert_eq!(time_left(&[10, 20, 30], 5, 1, 60).map(|eta| eta.seconds), Some(20));
        // The last pod came up 10 minutes ago.
        assert_eq!(time_left(&[10, 20, 30], 5, 1, 630), None);
    }
}
