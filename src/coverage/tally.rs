//! Counting nodes as the controller does, in all and by the values of a label.

use std::collections::BTreeMap;

use super::group::count_codes;
use super::verdict::daemon_set_context::Subject;
use crate::model::pod::Pod;
use crate::report::coverage::{Counts, CountsByRow};
use crate::report::reason::ReasonCode;
use crate::scheduling::should_run::Decision;

/// Counts, and the codes of troubles.
#[derive(Debug, Default)]
pub struct Tally {
    /// The counts.
    pub counts: Counts,
    /// The numbers of nodes in trouble, by code.
    pub troubles: BTreeMap<ReasonCode, usize>,
}

impl Tally {
    /// Adds the counts of a node, and its trouble where it has one.
    pub fn add(&mut self, counts: &Counts, trouble: Option<ReasonCode>) {
        let sum = &mut self.counts;
        sum.nodes_total += counts.nodes_total;
        sum.eligible += counts.eligible;
        sum.current += counts.current;
        sum.ready += counts.ready;
        sum.available += counts.available;
        sum.missing += counts.missing;
        sum.updated += counts.updated;
        sum.outdated += counts.outdated;
        sum.misscheduled += counts.misscheduled;
        sum.not_eligible += counts.not_eligible;
        if let Some(code) = trouble {
            *self.troubles.entry(code).or_default() += 1;
        }
    }
}

/// Counts a node as the controller counts it for the status: by its first pod alone.
///
/// Ported from `updateDaemonSetStatus`, pkg/controller/daemon/daemon_controller.go, release 1.36.3.
pub fn add_node(counts: &mut Counts, subject: &Subject, decision: Decision, first: Option<&Pod>) {
    counts.nodes_total += 1;
    if !decision.should_run {
        counts.not_eligible += 1;
        counts.misscheduled += usize::from(first.is_some());
        return;
    }
    counts.eligible += 1;
    let Some(first) = first else {
        counts.missing += usize::from(subject.pods_known);
        return;
    };
    counts.current += 1;
    counts.ready += usize::from(first.is_ready());
    counts.available += usize::from(subject.is_available(first));
    match subject.is_updated(first) {
        Some(true) => counts.updated += 1,
        Some(false) => counts.outdated += 1,
        None => {}
    }
}

/// Returns a row per value; nodes without the label come last.
pub fn rows_by_value(by: BTreeMap<Option<&str>, Tally>) -> Vec<CountsByRow> {
    let mut rows: Vec<CountsByRow> = by
        .into_iter()
        .map(|(value, Tally { counts, troubles })| CountsByRow {
            value: value.map(str::to_owned),
            counts,
            troubles: count_codes(troubles),
        })
        .collect();
    // Nothing sorts before every value.
    if rows.first().is_some_and(|row| row.value.is_none()) {
        rows.rotate_left(1);
    }
    rows
}
