//! Findings about a DaemonSet as a whole: what keeps the controller from acting on it.

use super::finding::{Finding, resource};
use super::sentence::Sentence;
use crate::facts::index::Index;
use crate::facts::{Facts, expired_lease};
use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::Snapshot;
use crate::report::age::seconds_between;
use crate::report::fix::Command;
use crate::report::reason::ReasonCode;

/// Creates the finding that the controller does not act.
fn not_observed(message: Sentence) -> Finding {
    Finding::new(ReasonCode::ControllerNotObserved, message, "check kube-controller-manager")
        .with_command(controller_lease())
}

/// Returns the command that shows when the controller last renewed its lease.
pub(crate) fn controller_lease() -> Command {
    Command::kubectl(&["get", "lease", "-o", "yaml"]).namespace("kube-system").name("kube-controller-manager")
}

/// Finds what keeps the controller from acting on a DaemonSet.
pub fn concerns(facts: &Facts<'_>) -> Vec<Finding> {
    [daemon_set_deleting(facts), selecting_all(facts.daemon_set), controller_not_observed(facts)]
        .into_iter()
        .flatten()
        .collect()
}

/// Finds that the DaemonSet is being deleted, so that the controller no longer reconciles it.
fn daemon_set_deleting(facts: &Facts<'_>) -> Option<Finding> {
    let metadata = &facts.daemon_set.metadata;
    let since = metadata.deletion_timestamp.get()?;
    let message =
        Sentence::from("deletion of the DaemonSet began ").age(seconds_between(since, facts.now())).words(" ago");
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
    let get = Command::kubectl(&["get", resource(facts.daemon_set), "-o", "yaml"])
        .namespace(&metadata.namespace)
        .name(&metadata.name);
    Some(Finding::new(ReasonCode::DaemonSetDeleting, message, advice).with_command(get))
}

/// Finds a selector that selects every pod, which the controller refuses to act on.
///
/// Ported from `syncDaemonSet`, pkg/controller/daemon/daemon_controller.go, release 1.37.2.
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
fn controller_not_observed(facts: &Facts<'_>) -> Option<Finding> {
    let Facts { index, daemon_set, .. } = *facts;
    let snapshot = index.snapshot;
    if daemon_set.metadata.is_terminating() {
        // It is no longer reconciled.
        return None;
    }
    let (generation, observed) = (daemon_set.metadata.generation, daemon_set.status.observed_generation);
    if facts.awaits_revision() {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::coverage::test_support::{at, world};

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
