//! Since when pods are ready, as a run itself has seen it.
//!
//! How long a pod has been ready decides about the next deletion, and three clocks tell it: that of the kubelet, in the pod's
//! condition; that of the API server, in the dates of its answers, which a proxy may have written; and that of this
//! machine. Each of them may be wrong or set during a run. So the time that must pass is counted from the moment at which
//! the run has first seen the pod ready, by a monotonic clock. Only for pods that are ready at its first look does the run
//! believe the pods' own times, and only if the controller, which counts the available pods by its own clock, confirms them
//! in a status that it wrote after the pods had become available: an older status may still count the pods before them.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::facts::ready_clock::status_written_at;
use crate::model::pod::Pod;
use crate::model::snapshot::Snapshot;

/// The type of the condition that makes a pod available after `minReadySeconds`.
const READY: &str = "Ready";

/// Since when the pods of a DaemonSet are ready, by the clock of a run.
#[derive(Debug, Default)]
pub(crate) struct ReadyTimes {
    /// By the UID of a pod that is ready.
    since: BTreeMap<String, Ready>,
    has_looked: bool,
}

/// Since when a pod is ready.
#[derive(Debug, Clone, Copy)]
struct Ready {
    /// The time in its condition: if it changes, the pod was not ready meanwhile.
    condition: Option<Timestamp>,
    /// By the other clocks: that of the kubelet, or that of the API server if the pod was created later by it.
    stated: Option<Timestamp>,
    /// By the clock of the run.
    since: Timestamp,
}

impl ReadyTimes {
    /// Returns a snapshot whose time is that of the run's clock, and whose pods are ready since then by that clock.
    ///
    /// `earliest` is the earliest time that any other clock shows: a pod is believed to be as old as that makes it.
    pub(crate) fn on_clock(&mut self, snapshot: &Snapshot, now: Timestamp, earliest: Timestamp) -> Snapshot {
        let before = std::mem::take(&mut self.since);
        for pod in snapshot.pods.iter().filter(|pod| pod.is_ready()) {
            let condition = pod.condition(READY).and_then(|ready| ready.last_transition_time.get());
            let stated =
                condition.map(|condition| condition.max(pod.metadata.creation_timestamp.get().unwrap_or(condition)));
            let age = stated.filter(|_| !self.has_looked).map(|stated| earliest.duration_since(stated));
            let known = before.get(&pod.metadata.uid).filter(|known| known.condition == condition);
            let since = known.map_or_else(|| back(now, age.unwrap_or_default()), |known| known.since);
            self.since.insert(pod.metadata.uid.clone(), Ready { condition, stated, since });
        }
        if !self.has_looked {
            self.confirm(snapshot, now);
            self.has_looked = true;
        }
        let mut snapshot = Snapshot { now, clock_difference: SignedDuration::ZERO, ..snapshot.clone() };
        for pod in &mut snapshot.pods {
            self.rewrite(pod);
        }
        snapshot
    }

    /// Holds the ages of the first look against the number of pods that the controller counts as available: so many are
    /// available, the oldest ones, and no others; and none whose `minReadySeconds` ended after the controller's last count.
    fn confirm(&mut self, snapshot: &Snapshot, now: Timestamp) {
        let Some(daemon_set) = snapshot.daemon_sets.first() else { return };
        let min_ready = SignedDuration::from_secs(daemon_set.spec.min_ready_seconds);
        if min_ready.is_zero() {
            return;
        }
        let available = usize::try_from(daemon_set.status.number_available).unwrap_or(0);
        let counted_at = status_written_at(daemon_set);
        let is_counted = |stated: Option<Timestamp>| {
            counted_at.zip(stated).is_some_and(|(counted, stated)| counted.duration_since(stated) >= min_ready)
        };
        let mut oldest_first: Vec<&mut Ready> = self.since.values_mut().collect();
        oldest_first.sort_by_key(|ready| ready.since);
        for (number, ready) in oldest_first.into_iter().enumerate() {
            let is_confirmed = number < available && is_counted(ready.stated);
            let is_available = now.duration_since(ready.since) >= min_ready;
            if is_confirmed != is_available {
                ready.since = if is_available { now } else { back(now, min_ready) };
            }
        }
    }

    fn rewrite(&self, pod: &mut Pod) {
        let Some(ready) = self.since.get(&pod.metadata.uid) else { return };
        for condition in pod.status.conditions.iter_mut().filter(|condition| condition.type_ == READY) {
            condition.last_transition_time = ready.since.into();
        }
    }
}

/// Returns the time so long ago; `now` if that is not in the past.
fn back(now: Timestamp, age: SignedDuration) -> Timestamp {
    now.checked_sub(age.max(SignedDuration::ZERO)).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use serde_json::json;

    use super::ReadyTimes;
    use crate::model::daemon_set::DaemonSet;
    use crate::model::snapshot::Snapshot;

    const START: i64 = 1_790_000_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(START + seconds).unwrap()
    }

    /// Pods that are ready since then, of a DaemonSet of which the controller counts so many as available.
    fn snapshot(min_ready: i64, available: i64, pods: &[(&str, Option<i64>)]) -> Snapshot {
        counted_at(1_000_000, min_ready, available, pods)
    }

    /// The same, if the controller wrote its status then.
    fn counted_at(written: i64, min_ready: i64, available: i64, pods: &[(&str, Option<i64>)]) -> Snapshot {
        let mut snapshot = Snapshot::empty(at(0));
        let fields = json!([{"manager": "kubectl", "time": at(2_000_000).to_string()},
            {"manager": "kube-controller-manager", "subresource": "status", "time": at(written).to_string()}]);
        let object = json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "agent", "managedFields": fields},
            "spec": {"minReadySeconds": min_ready}, "status": {"numberAvailable": available}});
        snapshot.daemon_sets.push(DaemonSet::from_object(object).unwrap());
        for (name, since) in pods {
            let (status, since) = (if since.is_some() { "True" } else { "False" }, at(since.unwrap_or(0)).to_string());
            let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": since});
            let pod = json!({"metadata": {"name": name, "uid": name}, "status": {"conditions": [condition]}});
            snapshot.pods.push(serde_json::from_value(pod).unwrap());
        }
        snapshot
    }

    /// Returns for how many seconds each ready pod counts as ready.
    fn ages(times: &mut ReadyTimes, snapshot: &Snapshot, now: i64, earliest: i64) -> Vec<i64> {
        let on_clock = times.on_clock(snapshot, at(now), at(earliest));
        assert_eq!(on_clock.now, at(now));
        let ready = on_clock.pods.iter().filter(|pod| pod.is_ready());
        let since = ready.map(|pod| pod.condition("Ready").unwrap().last_transition_time.get().unwrap());
        since.map(|since| at(now).duration_since(since).as_secs()).collect()
    }

    /// Whatever other clocks show: ahead, behind, or twenty years off.
    #[test]
    fn a_pod_that_becomes_ready_in_a_run_is_ready_since_it_was_first_seen() {
        for off in [0, 60, -60, 3_600, -3_600, 630_720_000, -630_720_000] {
            let mut times = ReadyTimes::default();
            assert_eq!(ages(&mut times, &snapshot(20, 0, &[("a", None)]), 0, off), [0; 0]);
            let ready = snapshot(20, 0, &[("a", Some(3 + off))]);
            assert_eq!(ages(&mut times, &ready, 5, 5 + off), [0], "{off}");
            assert_eq!(ages(&mut times, &ready, 24, 24), [19], "{off}");
            // It was not ready for a moment.
            let again = snapshot(20, 0, &[("a", Some(30 + off))]);
            assert_eq!(ages(&mut times, &again, 31, 31 + off), [0], "{off}");
            assert_eq!(ages(&mut times, &snapshot(20, 0, &[("a", None)]), 40, 40), [0; 0]);
            assert_eq!(ages(&mut times, &again, 41, 41 + off), [0], "{off}");
        }
    }

    #[test]
    fn the_age_of_pods_that_are_ready_at_the_first_look_is_confirmed_by_the_controller() {
        let pods = [("a", Some(-1_000)), ("b", Some(-30)), ("c", Some(-5)), ("d", None)];
        let first =
            |available, earliest| ages(&mut ReadyTimes::default(), &snapshot(20, available, &pods), 0, earliest);
        assert_eq!(first(2, 0), [1_000, 30, 5]);
        // All clocks but the controller's are ahead.
        assert_eq!(first(1, 60), [1_060, 0, 0]);
        // They are behind.
        assert_eq!(first(2, -3_600), [20, 20, 0]);
        assert_eq!(first(3, -15), [985, 20, 20]);
        assert_eq!(first(0, 0), [0, 0, 5]);
        // Time makes none of them available.
        let soaked = |earliest| ages(&mut ReadyTimes::default(), &snapshot(0, 0, &pods), 0, earliest);
        assert_eq!((soaked(0), soaked(-25)), (vec![1_000, 30, 5], vec![975, 5, 0]));
        // The kubelet's clock is behind: no pod is ready before it is created.
        let mut created = snapshot(0, 0, &pods);
        created.pods[0].metadata.creation_timestamp = at(-40).into();
        assert_eq!(ages(&mut ReadyTimes::default(), &created, 0, 0), [40, 30, 5]);
        // A status that is older than the pod counts the one before it, whatever the kubelet says.
        let mut young = counted_at(-30, 20, 1, &[("a", Some(-1_000))]);
        young.pods[0].metadata.creation_timestamp = at(-5).into();
        assert_eq!(ages(&mut ReadyTimes::default(), &young, 0, 0), [5]);
    }

    /// The controller has not yet seen that the pod on a node is another one.
    #[test]
    fn a_status_that_is_older_than_a_pod_confirms_nothing_of_it() {
        let pods = [("a", Some(-1_000)), ("b", Some(-5))];
        let first = |written| {
            let snapshot = counted_at(written, 20, 2, &pods);
            ages(&mut ReadyTimes::default(), &snapshot, 0, 3_600)
        };
        assert_eq!((first(-500), first(14), first(15)), (vec![4_600, 0], vec![4_600, 0], vec![4_600, 3_605]));
        assert_eq!(first(-981), [0, 0]);
        let mut unknown = counted_at(0, 20, 2, &pods);
        unknown.daemon_sets[0].object["metadata"]["managedFields"].take();
        assert_eq!(ages(&mut ReadyTimes::default(), &unknown, 0, 3_600), [0, 0]);
    }

    #[test]
    fn ages_grow_by_the_clock_of_the_run_alone() {
        let mut times = ReadyTimes::default();
        let all = snapshot(20, 1, &[("a", Some(-100))]);
        assert_eq!(ages(&mut times, &all, 0, 0), [100]);
        assert_eq!(ages(&mut times, &all, 7, 1_000_000), [107]);
        let day = SignedDuration::from_hours(24).as_secs();
        assert_eq!(ages(&mut times, &all, 9, -day), [109]);
    }
}
