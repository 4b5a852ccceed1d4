//! Node counts, in total and by the values of a label.

use std::collections::BTreeMap;

use super::verdict::daemon_set_context::Subject;
use super::verdict::finding::Diagnosis;
use crate::model::daemon_set::DaemonSetStatus;
use crate::model::int_or_percent::int;
use crate::report::coverage::{Affected, CounterDifference, Counters, Counts, CountsByRow};
use crate::report::node_map::by_value;
use crate::report::reason::ReasonCode;
use crate::scheduling::daemon_pods::NodePods;

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
    pub(crate) updated_available: usize,
    pub(crate) outdated: usize,
    /// Nodes whose first pod the controller counts as updated, even if it is terminating.
    pub(crate) updated_to_controller: usize,
    pub(crate) misscheduled: usize,
    pub(crate) revision_unknown: usize,
    /// By reason, and by whether waiting is enough.
    pub(crate) problems: BTreeMap<(ReasonCode, bool), usize>,
}

impl Tally {
    /// Adds a node. As in the status, only its first pod counts, but an additional pod of the current revision makes
    /// the node updated, and a terminating one does not.
    ///
    /// Ported from `updateDaemonSetStatus`, pkg/controller/daemon/daemon_controller.go, release 1.37.2.
    pub(crate) fn add(
        &mut self,
        subject: &Subject,
        node: &NodePods<'_>,
        is_available: bool,
        problem: Option<&Diagnosis>,
    ) {
        self.nodes += 1;
        if let Some(problem) = problem {
            *self.problems.entry((problem.code, problem.passing.takes_time())).or_default() += 1;
        }
        if !node.should_run() {
            self.misscheduled += usize::from(!node.pods.is_empty());
            return;
        }
        self.eligible += 1;
        let Some(first) = node.pods.first() else { return };
        self.current += 1;
        self.ready += usize::from(first.is_ready());
        self.available += usize::from(is_available);
        self.available_to_controller += usize::from(subject.is_available(first));
        let Some((updated, pods)) = subject.is_updated(first).zip(subject.by_revision(&node.pods)) else {
            self.revision_unknown += 1;
            return;
        };
        self.updated_to_controller += usize::from(updated);
        self.updated += usize::from(pods.updated.is_some());
        self.updated_available += usize::from(pods.updated_is_available);
        self.outdated += usize::from(pods.old.is_some());
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
            updated_available: revisions_known.then_some(self.updated_available),
            outdated: revisions_known.then_some(self.outdated),
            misscheduled: Some(self.misscheduled),
            ..self.counts_without_pods()
        }
    }

    /// Returns the numbers that do not depend on pods.
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

/// Compares the counters of a status with a tally of all nodes; `updated_known` is whether the current revision is known.
pub(crate) fn check_status(status: &DaemonSetStatus, tally: &Tally, updated_known: bool) -> Counters {
    let (eligible, available) = (int(tally.eligible), int(tally.available_to_controller));
    let counters = [
        ("desiredNumberScheduled", status.desired_number_scheduled, eligible),
        ("currentNumberScheduled", status.current_number_scheduled, int(tally.current)),
        ("numberMisscheduled", status.number_misscheduled, int(tally.misscheduled)),
        ("numberReady", status.number_ready, int(tally.ready)),
        ("numberAvailable", status.number_available, available),
        ("numberUnavailable", status.number_unavailable, eligible - available),
        ("updatedNumberScheduled", status.updated_number_scheduled, int(tally.updated_to_controller)),
    ];
    let differences: Vec<CounterDifference> = counters
        .into_iter()
        .filter(|(field, status, recomputed)| {
            status != recomputed && (updated_known || *field != "updatedNumberScheduled")
        })
        .map(|(field, status, recomputed)| CounterDifference { field: field.to_owned(), status, recomputed })
        .collect();
    Counters { agrees: Some(differences.is_empty()), desired: status.desired_number_scheduled, differences }
}

/// Returns the check for a status that cannot be compared.
pub(crate) fn unchecked_status(status: &DaemonSetStatus) -> Counters {
    Counters { agrees: None, desired: status.desired_number_scheduled, differences: Vec::new() }
}

/// Returns a row per value; nodes without the label come last.
pub(crate) fn rows_by_value(by: BTreeMap<Option<&str>, Tally>, pods_known: bool) -> Vec<CountsByRow> {
    let affected = |((code, passing), count)| Affected::new(code, count, passing);
    let row = |(value, tally): (Option<String>, Tally)| CountsByRow {
        value,
        counts: if pods_known { tally.counts() } else { tally.counts_without_pods() },
        problems: Affected::by_code(tally.problems.into_iter().map(affected)),
    };
    by_value(by).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::{Tally, check_status};
    use crate::model::daemon_set::DaemonSetStatus;

    #[test]
    fn a_stale_desired_number_is_listed_with_what_follows_from_it() {
        let status = DaemonSetStatus {
            desired_number_scheduled: 17,
            current_number_scheduled: 15,
            number_ready: 15,
            number_available: 15,
            number_unavailable: 2,
            updated_number_scheduled: 15,
            ..DaemonSetStatus::default()
        };
        let tally = Tally {
            eligible: 15,
            current: 15,
            ready: 15,
            available_to_controller: 15,
            updated_to_controller: 15,
            ..Tally::default()
        };
        let check = check_status(&status, &tally, true);
        assert_eq!(check.agrees, Some(false));
        let differences: Vec<_> =
            check.differences.iter().map(|d| (d.field.as_str(), d.status, d.recomputed)).collect();
        assert_eq!(differences, [("desiredNumberScheduled", 17, 15), ("numberUnavailable", 2, 0)]);
    }

    #[test]
    fn the_updated_number_is_not_held_against_what_is_not_known() {
        let status = DaemonSetStatus { updated_number_scheduled: 3, ..DaemonSetStatus::default() };
        assert_eq!(check_status(&status, &Tally::default(), false).agrees, Some(true));
    }
}
