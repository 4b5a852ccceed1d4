//! What concerns a DaemonSet as a whole: the controller does not act on it, on whichever node.

use jiff::Timestamp;

use super::finding::Finding;
use super::sentence::Sentence;
use crate::coverage::index::Index;
use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::Snapshot;
use crate::report::age::seconds_between;
use crate::report::reason::ReasonCode;

/// How many seconds beyond its term a lease is taken for a pause and not for the end of its holder.
const LEASE_SLACK: i64 = 45;

/// What to do where the controller does not act.
const CHECK_CONTROLLER: &str =
    "check kube-controller-manager: kubectl get lease -n kube-system kube-controller-manager -o yaml";

/// Finds what keeps the controller from acting on a DaemonSet.
pub fn concerns(index: &Index, daemon_set: &DaemonSet) -> Vec<Finding> {
    [
        daemon_set_deleting(index, daemon_set),
        selecting_all(daemon_set),
        controller_not_observed(index.snapshot, daemon_set),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Finds that the DaemonSet is being deleted, so that nothing is made, removed or counted any more.
fn daemon_set_deleting(index: &Index, daemon_set: &DaemonSet) -> Option<Finding> {
    let metadata = &daemon_set.metadata;
    let since = metadata.deletion_timestamp.get()?;
    let message =
        Sentence::from("deletion of the DaemonSet began ").age(seconds_between(since, index.now())).words(" ago");
    let message = match metadata.finalizers.as_slice() {
        [] => message,
        finalizers => message.words(format!(", held by finalizer {}", finalizers.join(", "))),
    };
    let (namespace, name) = (&metadata.namespace, &metadata.name);
    let own: Vec<&str> = metadata
        .finalizers
        .iter()
        .map(String::as_str)
        .filter(|finalizer| !matches!(*finalizer, "foregroundDeletion" | "orphan"))
        .collect();
    let fix = if own.is_empty() {
        "wait for its pods to go; the status is frozen meanwhile".to_owned()
    } else {
        format!(
            "if nobody is left to remove {}: kubectl patch ds {name} -n {namespace} --type=merge \
             -p '{{\"metadata\":{{\"finalizers\":null}}}}'",
            own.join(", ")
        )
    };
    Some(Finding::new(ReasonCode::DaemonSetDeleting, message, fix))
}

/// Finds a selector that selects every pod, which the controller refuses to act on.
///
/// Ported from `syncDaemonSet`, pkg/controller/daemon/daemon_controller.go, release 1.36.3.
fn selecting_all(daemon_set: &DaemonSet) -> Option<Finding> {
    if !daemon_set.spec.selector.is_empty() {
        return None;
    }
    let (namespace, name) = (&daemon_set.metadata.namespace, &daemon_set.metadata.name);
    Some(Finding::new(
        ReasonCode::SelectingAll,
        "the selector is empty and selects every pod: the controller does nothing",
        format!(
            "make it anew with a selector: kubectl delete ds {name} -n {namespace} --cascade=orphan, then apply it"
        ),
    ))
}

/// Finds that the controller has not acted on the present spec.
fn controller_not_observed(snapshot: &Snapshot, daemon_set: &DaemonSet) -> Option<Finding> {
    let (generation, observed) = (daemon_set.metadata.generation, daemon_set.status.observed_generation);
    if generation <= observed {
        return None;
    }
    let message = Sentence::from(format!(
        "the controller has not acted on generation {generation} of the spec, only on {observed}"
    ));
    let message = match stale_lease(snapshot) {
        Some(since) => message
            .words("; kube-controller-manager has not renewed its lease for ")
            .age(seconds_between(since, snapshot.now))
            .words(" and seems down"),
        None => message,
    };
    Some(Finding::new(ReasonCode::ControllerNotObserved, message, CHECK_CONTROLLER))
}

/// Finds that the controller seems down, by the lease that it no longer renews.
pub fn controller_seems_down(snapshot: &Snapshot) -> Option<Finding> {
    let since = stale_lease(snapshot)?;
    let message = Sentence::from("no pod was made, and kube-controller-manager has not renewed its lease for ")
        .age(seconds_between(since, snapshot.now))
        .words(": it seems down");
    Some(Finding::new(ReasonCode::ControllerNotObserved, message, CHECK_CONTROLLER))
}

/// Returns when the controller manager last renewed its lease, where that is too long ago.
fn stale_lease(snapshot: &Snapshot) -> Option<Timestamp> {
    let lease = snapshot
        .leases
        .iter()
        .find(|lease| lease.metadata.namespace == "kube-system" && lease.metadata.name == "kube-controller-manager")?;
    let renewed = lease.spec.renew_time.get()?;
    let term = lease.spec.lease_duration_seconds.unwrap_or(15);
    (seconds_between(renewed, snapshot.now) > term + LEASE_SLACK).then_some(renewed)
}
