//! Findings about a DaemonSet as a whole: what keeps the controller from acting on it.

use jiff::Timestamp;

use super::finding::{Finding, resource};
use super::sentence::Sentence;
use crate::coverage::index::Index;
use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::Snapshot;
use crate::report::age::seconds_between;
use crate::report::fix::Command;
use crate::report::reason::ReasonCode;

/// How many seconds past its duration a lease may be before its holder counts as down.
const LEASE_SLACK: i64 = 45;

/// Creates the finding that the controller does not act.
fn not_observed(message: Sentence) -> Finding {
    let lease =
        Command::kubectl(&["get", "lease", "-o", "yaml"]).namespace("kube-system").name("kube-controller-manager");
    Finding::new(ReasonCode::ControllerNotObserved, message, "check kube-controller-manager").with_command(lease)
}

/// Finds what keeps the controller from acting on a DaemonSet.
pub fn concerns<'a>(index: &Index<'a>, daemon_set: &'a DaemonSet) -> Vec<Finding> {
    [daemon_set_deleting(index, daemon_set), selecting_all(daemon_set), controller_not_observed(index, daemon_set)]
        .into_iter()
        .flatten()
        .collect()
}

/// Finds that the DaemonSet is being deleted, so that the controller no longer reconciles it.
fn daemon_set_deleting(index: &Index, daemon_set: &DaemonSet) -> Option<Finding> {
    let metadata = &daemon_set.metadata;
    let since = metadata.deletion_timestamp.get()?;
    let message =
        Sentence::from("deletion of the DaemonSet began ").age(seconds_between(since, index.now())).words(" ago");
    let message = match metadata.finalizers.as_slice() {
        [] => message,
        finalizers => message.words(format!("; finalizer {}", finalizers.join(", "))),
    };
    let own: Vec<&str> = metadata
        .finalizers
        .iter()
        .map(String::as_str)
        .filter(|finalizer| !matches!(*finalizer, "foregroundDeletion" | "orphan"))
        .collect();
    let advice = if own.is_empty() {
        "wait for its pods to be deleted; until then its status is not updated".to_owned()
    } else {
        format!("check the controller that owns finalizer {}: it removes the finalizer when it is done", own.join(", "))
    };
    let get = Command::kubectl(&["get", resource(daemon_set), "-o", "yaml"])
        .namespace(&metadata.namespace)
        .name(&metadata.name);
    Some(Finding::new(ReasonCode::DaemonSetDeleting, message, advice).with_command(get))
}

/// Finds a selector that selects every pod, which the controller refuses to act on.
///
/// Ported from `syncDaemonSet`, pkg/controller/daemon/daemon_controller.go, release 1.36.3.
fn selecting_all(daemon_set: &DaemonSet) -> Option<Finding> {
    if !daemon_set.spec.selector.is_empty() {
        return None;
    }
    Some(Finding::new(
        ReasonCode::SelectingAll,
        "the selector is empty and selects every pod, so the controller does nothing",
        "recreate the DaemonSet with a selector; deleting it with --cascade=orphan keeps its pods",
    ))
}

/// Finds other DaemonSets whose pods the selector selects, too. Each controller acts on the pods that it owns, but adopts those
/// that have lost their owner, and whoever uses the selector acts on both.
pub fn selector_overlap(index: &Index, daemon_set: &DaemonSet) -> Option<Finding> {
    let selector = &daemon_set.spec.selector;
    let is_other = |other: &&DaemonSet| {
        other.metadata.namespace == daemon_set.metadata.namespace && other.metadata.name != daemon_set.metadata.name
    };
    let others = index.daemon_sets().into_iter().filter(is_other);
    let overlapping: Vec<&str> = others
        .filter(|other| !selector.is_empty() && selector.matches(&other.spec.template.metadata.labels))
        .map(|other| other.metadata.name.as_str())
        .collect();
    let noun = if overlapping.len() == 1 { "DaemonSet" } else { "DaemonSets" };
    (!overlapping.is_empty()).then(|| {
        let message = format!("selector {selector} also selects the pods of {noun} {}", overlapping.join(", "));
        let advice = "recreate one of them with labels of its own; a selector cannot be changed";
        Finding::new(ReasonCode::SelectorOverlap, message, advice)
    })
}

/// Finds that the controller has not observed the current spec.
fn controller_not_observed<'a>(index: &Index<'a>, daemon_set: &'a DaemonSet) -> Option<Finding> {
    let snapshot = index.snapshot;
    if daemon_set.metadata.is_terminating() {
        // It is no longer reconciled.
        return None;
    }
    let (generation, observed) = (daemon_set.metadata.generation, daemon_set.status.observed_generation);
    if index.awaits_revision(daemon_set) {
        let message = format!("none of the revisions that were read has the template of generation {generation}");
        return Some(not_observed(Sentence::from(message)));
    }
    if generation <= observed {
        return None;
    }
    let message =
        Sentence::from(format!("the controller has not observed generation {generation} of the spec, only {observed}"));
    let message = match expired_lease(snapshot) {
        Some(since) => message
            .words("; kube-controller-manager has not renewed its lease for ")
            .age(seconds_between(since, snapshot.now))
            .words(" and seems to be down"),
        None => message,
    };
    Some(not_observed(message))
}

/// Finds that the controller seems to be down, by its stale lease.
pub fn controller_seems_down(snapshot: &Snapshot) -> Option<Finding> {
    let since = expired_lease(snapshot)?;
    let message = Sentence::from("no pod was created, and kube-controller-manager has not renewed its lease for ")
        .age(seconds_between(since, snapshot.now))
        .words(": it seems to be down");
    Some(not_observed(message))
}

/// Returns when the controller manager last renewed its lease, if that is too long ago.
pub(crate) fn expired_lease(snapshot: &Snapshot) -> Option<Timestamp> {
    let lease = snapshot
        .leases
        .iter()
        .find(|lease| lease.metadata.namespace == "kube-system" && lease.metadata.name == "kube-controller-manager")?;
    let renewed = lease.spec.renew_time.get()?;
    let duration = lease.spec.lease_duration_seconds.unwrap_or(15);
    (seconds_between(renewed, snapshot.now) > duration + LEASE_SLACK).then_some(renewed)
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::expired_lease;
    use crate::coverage::test_support::{at, world};

    #[test]
    fn a_lease_has_expired_a_while_after_its_duration() {
        let expired = |renewed: &str| {
            let mut snapshot = world().finish();
            // That of the scheduler does not count.
            for (name, renewed) in [("kube-scheduler", "11:00:00"), ("kube-controller-manager", renewed)] {
                let lease = json!({
                    "metadata": {"name": name, "namespace": "kube-system"},
                    "spec": {"renewTime": at(renewed), "leaseDurationSeconds": 15},
                });
                snapshot.leases.push(from_value(lease).unwrap());
            }
            expired_lease(&snapshot).is_some()
        };
        assert_eq!((expired("11:59:00"), expired("11:58:59")), (false, true));
    }

    #[test]
    fn a_finalizer_is_told_only_if_there_is_one() {
        let told = |finalizers: &[&str]| {
            let metadata = json!({"deletionTimestamp": at("11:50:00"), "finalizers": finalizers});
            world()
                .daemon_set(json!({"metadata": metadata}))
                .coverage()
                .concerns
                .remove(0)
                .message
                .contains("finalizer")
        };
        assert_eq!((told(&[]), told(&["orphan"])), (false, true));
    }

    #[test]
    fn daemon_sets_that_select_each_others_pods_are_named() {
        let told = |labels: serde_json::Value, namespace: &str| {
            let mut snapshot = world().node("a", json!({})).pod("agent-a", "a", json!({})).finish();
            let mut other = snapshot.daemon_sets[0].object.clone();
            other["metadata"]["name"] = json!("other");
            other["metadata"]["namespace"] = json!(namespace);
            other["metadata"]["uid"] = json!("other-uid");
            other["spec"]["template"]["metadata"]["labels"] = labels;
            snapshot.daemon_sets.push(crate::model::daemon_set::DaemonSet::from_object(other).unwrap());
            let coverage = crate::coverage::walk::coverage(&snapshot, &crate::coverage::options::Options::default());
            coverage.daemon_sets[0].concerns.iter().map(|concern| concern.message.clone()).collect::<Vec<_>>()
        };
        let overlap = ["selector app=agent also selects the pods of DaemonSet other"];
        assert_eq!(told(json!({"app": "agent", "tier": "b"}), "default"), overlap);
        assert_eq!(told(json!({"app": "other"}), "default"), [""; 0]);
        assert_eq!(told(json!({"app": "agent"}), "elsewhere"), [""; 0]);
    }
}
