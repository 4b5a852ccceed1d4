//! The clock that decides whether pods have been ready for long enough.
//!
//! `minReadySeconds` runs from a time that the kubelet wrote to a time that a server sent. If a proxy's clock is an
//! hour ahead, pods must not become available early, and if it is behind, they must not become unavailable.

use jiff::{SignedDuration, Timestamp};

use crate::model::daemon_set::DaemonSet;
use crate::model::pod::Pod;
use crate::model::server_side_apply::{managed_fields, time_of};
use crate::model::snapshot::Snapshot;

/// Returns the time up to which `minReadySeconds` is counted for the pods of a DaemonSet.
///
/// If the clocks of the snapshot and this machine differ, that is the earlier time; or a later one, if the controller,
/// which has its own clock, counts pods as available that are not available at that time. A dump that does not say when it was made was
/// made after the newest time in it, at which a pod may have become ready.
pub fn ready_clock<'p>(
    daemon_set: &DaemonSet,
    pods: impl IntoIterator<Item = &'p Pod>,
    snapshot: &Snapshot,
) -> Timestamp {
    let (now, difference) = (snapshot.now, snapshot.clock_difference);
    let min_ready = SignedDuration::from_secs(daemon_set.spec.min_ready_seconds);
    if difference.is_zero() && !snapshot.is_now_estimated || min_ready.is_zero() {
        return now;
    }
    let earliest = now.checked_sub(difference.max(SignedDuration::ZERO)).unwrap_or(Timestamp::MIN);
    let written = match status_written_at(daemon_set) {
        None if snapshot.is_now_estimated && daemon_set.is_observed() => Timestamp::MAX,
        None => return earliest,
        Some(written) => written,
    };
    counted(daemon_set, written, pods, min_ready).map_or(earliest, |counted| counted.max(earliest))
}

/// Returns the time at which as many pods are available as the controller counts, the oldest ones first; pods whose
/// `minReadySeconds` ended after the controller wrote its status are excluded, because it cannot have counted them.
fn counted<'p>(
    daemon_set: &DaemonSet,
    written: Timestamp,
    pods: impl IntoIterator<Item = &'p Pod>,
    min_ready: SignedDuration,
) -> Option<Timestamp> {
    let since = |pod: &Pod| {
        let ready = pod.condition("Ready").filter(|_| pod.is_ready())?.last_transition_time.get()?;
        // A kubelet's clock may be behind: no pod is ready before it is created.
        let stated = pod.metadata.creation_timestamp.get().map_or(ready, |created| created.max(ready));
        Some((ready, written.duration_since(stated) >= min_ready))
    };
    let mut oldest_first: Vec<(Timestamp, bool)> = pods.into_iter().filter_map(since).collect();
    oldest_first.sort_unstable();
    let available = usize::try_from(daemon_set.status.number_available).unwrap_or(0);
    let counted = oldest_first.into_iter().take(available).filter(|(_, is_counted)| *is_counted);
    counted.map(|(ready, _)| ready).max()?.checked_add(min_ready).ok()
}

/// Returns when the controller last changed the status, by the API server's clock.
pub(crate) fn status_written_at(daemon_set: &DaemonSet) -> Option<Timestamp> {
    let of_status = managed_fields(&daemon_set.object).iter().filter(|entry| entry["subresource"] == "status");
    of_status.filter_map(time_of).max()
}
