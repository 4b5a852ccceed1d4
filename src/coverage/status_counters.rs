//! Compares the counters of a DaemonSet's status with recomputed ones.

use super::tally::Tally;
use crate::model::daemon_set::DaemonSetStatus;
use crate::report::coverage::{StatusCheck, StatusDifference};

/// Compares a status with a tally of all nodes; `updated_known` is whether the current revision is known.
pub(crate) fn check(status: &DaemonSetStatus, tally: &Tally, updated_known: bool) -> StatusCheck {
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let (eligible, available) = (number(tally.eligible), number(tally.available_to_controller));
    let counters = [
        ("desiredNumberScheduled", status.desired_number_scheduled, eligible),
        ("currentNumberScheduled", status.current_number_scheduled, number(tally.current)),
        ("numberMisscheduled", status.number_misscheduled, number(tally.misscheduled)),
        ("numberReady", status.number_ready, number(tally.ready)),
        ("numberAvailable", status.number_available, available),
        ("numberUnavailable", status.number_unavailable, eligible - available),
        ("updatedNumberScheduled", status.updated_number_scheduled, number(tally.updated_to_controller)),
    ];
    let differences: Vec<StatusDifference> = counters
        .into_iter()
        .filter(|(field, status, recomputed)| {
            status != recomputed && (updated_known || *field != "updatedNumberScheduled")
        })
        .map(|(field, status, recomputed)| StatusDifference { field: field.to_owned(), status, recomputed })
        .collect();
    StatusCheck { agrees: Some(differences.is_empty()), desired: status.desired_number_scheduled, differences }
}

/// Returns the check of a status that cannot be compared with anything.
pub(crate) fn unchecked(status: &DaemonSetStatus) -> StatusCheck {
    StatusCheck { agrees: None, desired: status.desired_number_scheduled, differences: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::{Tally, check};
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
        let check = check(&status, &tally, true);
        assert_eq!(check.agrees, Some(false));
        let differences: Vec<_> =
            check.differences.iter().map(|d| (d.field.as_str(), d.status, d.recomputed)).collect();
        assert_eq!(differences, [("desiredNumberScheduled", 17, 15), ("numberUnavailable", 2, 0)]);
    }

    #[test]
    fn the_updated_number_is_not_held_against_what_is_not_known() {
        let status = DaemonSetStatus { updated_number_scheduled: 3, ..DaemonSetStatus::default() };
        assert_eq!(check(&status, &Tally::default(), false).agrees, Some(true));
    }
}
