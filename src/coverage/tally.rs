//! Numbers of nodes, in all and by the values of a label.

use std::collections::BTreeMap;

use super::group::count_codes;
use super::verdict::daemon_set_context::Subject;
use crate::model::daemon_set::DaemonSetStatus;
use crate::model::pod::Pod;
use crate::report::coverage::{Counts, CountsByRow};
use crate::report::reason::ReasonCode;
use crate::scheduling::should_run::Decision;

/// Numbers of nodes whose pods were read.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) nodes: usize,
    pub(crate) eligible: usize,
    pub(crate) current: usize,
    pub(crate) ready: usize,
    /// Nodes in the state `Available`.
    pub(crate) available: usize,
    /// Nodes whose first pod the controller counts as available, even if it is stuck terminating.
    pub(crate) available_to_controller: usize,
    pub(crate) updated: usize,
    pub(crate) outdated: usize,
    /// Nodes whose first pod the controller counts as updated, even if it is terminating.
    pub(crate) updated_to_controller: usize,
    pub(crate) misscheduled: usize,
    pub(crate) revision_unknown: usize,
    pub(crate) troubles: BTreeMap<ReasonCode, usize>,
}

/// What a node adds to the numbers.
pub(crate) struct Counted<'p> {
    pub(crate) decision: Decision,
    /// Its pods in the controller's order.
    pub(crate) pods: &'p [&'p Pod],
    pub(crate) is_available: bool,
    pub(crate) trouble: Option<ReasonCode>,
}

impl Tally {
    /// Adds a node. As in the status, only its first pod counts, but a pod of the current revision beside it makes the
    /// node updated, and one that is being deleted does not.
    ///
    /// Ported from `updateDaemonSetStatus`, pkg/controller/daemon/daemon_controller.go, release 1.36.3.
    pub(crate) fn add(&mut self, subject: &Subject, node: &Counted<'_>) {
        self.nodes += 1;
        if let Some(code) = node.trouble {
            *self.troubles.entry(code).or_default() += 1;
        }
        if !node.decision.should_run {
            self.misscheduled += usize::from(!node.pods.is_empty());
            return;
        }
        self.eligible += 1;
        let Some(first) = node.pods.first() else { return };
        self.current += 1;
        self.ready += usize::from(first.is_ready());
        self.available += usize::from(node.is_available);
        self.available_to_controller += usize::from(subject.is_available(first));
        let Some(updated) = subject.is_updated(first) else {
            self.revision_unknown += 1;
            return;
        };
        self.updated_to_controller += usize::from(updated);
        let pods = subject.by_revision(node.pods);
        self.updated += usize::from(pods.updated.is_some());
        self.outdated += usize::from(pods.old.is_some_and(|old| subject.is_updated(old) == Some(false)));
    }

    /// Returns the numbers if nodes and pods were read.
    pub(crate) fn counts(&self) -> Counts {
        let revisions_known = self.revision_unknown == 0;
        Counts {
            current: Some(self.current),
            ready: Some(self.ready),
            available: Some(self.available),
            missing: Some(self.eligible - self.current),
            updated: revisions_known.then_some(self.updated),
            outdated: revisions_known.then_some(self.outdated),
            misscheduled: Some(self.misscheduled),
            ..self.counts_without_pods()
        }
    }

    /// Returns the numbers that need no pods.
    pub(crate) fn counts_without_pods(&self) -> Counts {
        Counts {
            nodes_total: Some(self.nodes),
            eligible: Some(self.eligible),
            not_eligible: Some(self.nodes - self.eligible),
            ..Counts::default()
        }
    }
}

/// Returns the numbers of a status, for a cluster whose pods could not be read; none if the controller has not written
/// it yet.
pub(crate) fn counts_of_status(status: &DaemonSetStatus) -> Counts {
    if *status == DaemonSetStatus::default() {
        return Counts::default();
    }
    let count = |number: i64| usize::try_from(number).unwrap_or(0);
    let (eligible, current) = (count(status.desired_number_scheduled), count(status.current_number_scheduled));
    let updated = count(status.updated_number_scheduled);
    Counts {
        eligible: Some(eligible),
        current: Some(current),
        ready: Some(count(status.number_ready)),
        available: Some(count(status.number_available)),
        missing: Some(eligible.saturating_sub(current)),
        updated: Some(updated),
        outdated: Some(current.saturating_sub(updated)),
        misscheduled: Some(count(status.number_misscheduled)),
        from_status: true,
        ..Counts::default()
    }
}

/// Returns a row per value; nodes without the label come last.
pub(crate) fn rows_by_value(by: BTreeMap<Option<&str>, Tally>, pods_known: bool) -> Vec<CountsByRow> {
    let mut rows: Vec<CountsByRow> = by
        .into_iter()
        .map(|(value, tally)| CountsByRow {
            value: value.map(str::to_owned),
            counts: if pods_known { tally.counts() } else { tally.counts_without_pods() },
            troubles: count_codes(tally.troubles),
        })
        .collect();
    // `None` sorts before every value.
    if rows.first().is_some_and(|row| row.value.is_none()) {
        rows.rotate_left(1);
    }
    rows
}
