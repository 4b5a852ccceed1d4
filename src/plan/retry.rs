//! Makes the controller sync a DaemonSet again by setting an annotation on the object itself.

use jiff::Timestamp;

use super::Plan;
use super::edits::Edits;
use crate::model::daemon_set::DaemonSet;

/// The annotation whose change makes the controller sync a DaemonSet again without changing anything else.
pub(crate) const RETRIED_ANNOTATION: &str = "kubectl-ds/retried-at";

impl Plan {
    /// Writes the time into the annotation. Any update of the object puts it into the controller's queue immediately,
    /// regardless of the rate limiter (`updateDaemonset`, pkg/controller/daemon/daemon_controller.go, release 1.37.2).
    ///
    /// There is nothing to do if the annotation already has this time.
    pub(crate) fn retry(daemon_set: &DaemonSet, now: Timestamp) -> Self {
        let mut edits = Edits::of(daemon_set);
        edits.set(&["metadata", "annotations", RETRIED_ANNOTATION], now.to_string());
        edits.into_plan()
    }
}
