//! The progress of rollouts for pipes and logs: one line per change, each with its time.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::change_lines::{HEARTBEAT, write_line};
use super::page::Page;
use super::removed_nodes::in_short;
use super::status::headline;
use super::text::{some_of, time_since};
use crate::report::age::seconds_between;
use crate::report::coverage::{Counts, ReasonGroup};
use crate::report::reason::ReasonCode;
use crate::report::rollout_status::{BlockedBy, RolloutStatus, RolloutStatusReport, Verdict};

/// The width of the list of failing nodes on a line.
const NAMES: usize = 120;

/// What has been written about rollouts so far.
#[derive(Debug, Default)]
pub(crate) struct StatusLines {
    rollouts: BTreeMap<(String, String), Written>,
}

/// What was last written about a rollout.
#[derive(Debug)]
struct Written {
    began: Timestamp,
    written: Timestamp,
    state: (Verdict, Option<BlockedBy>, bool, [Option<usize>; 5]),
    failing: BTreeSet<(ReasonCode, String)>,
}

fn causes(rollout: &RolloutStatus) -> impl Iterator<Item = &ReasonGroup> {
    rollout.problems.iter().filter(|cause| !cause.passing)
}

/// Returns the nodes that fail, with why: an observer is told of any other.
pub(crate) fn failing(rollout: &RolloutStatus) -> BTreeSet<(ReasonCode, String)> {
    causes(rollout).flat_map(|cause| cause.nodes.iter().map(|node| (cause.code, node.clone()))).collect()
}

impl StatusLines {
    /// Writes a line for each rollout that has changed, and for each reason with which more nodes fail.
    pub(crate) fn update(&mut self, report: &RolloutStatusReport, page: &mut Page<'_>) {
        for rollout in &report.daemon_sets {
            self.update_one(rollout, report.now, page);
        }
    }

    fn update_one(&mut self, rollout: &RolloutStatus, now: Timestamp, page: &mut Page<'_>) {
        let key = (rollout.namespace.clone(), rollout.name.clone());
        let Counts { eligible, updated, updated_available, available, outdated, .. } = rollout.counts;
        let is_done = rollout.counts_as_complete();
        let numbers = [eligible, updated, updated_available, available, outdated];
        let state = (rollout.verdict, rollout.blocked_by, is_done, numbers);
        let failing = failing(rollout);
        let shown = self.rollouts.get(&key);
        let began = shown.map_or(now, |shown| shown.began);
        let is_due = shown.is_none_or(|shown| shown.state != state || seconds_between(shown.written, now) >= HEARTBEAT);
        if is_due {
            let took =
                if is_done && shown.is_some() { format!(", after {}", time_since(began, now)) } else { String::new() };
            let removed = rollout.removed_nodes.as_ref().map(|removed| format!("; {}", in_short(removed)));
            let text = format!("{}{took}{}", headline(rollout, now), removed.unwrap_or_default());
            write_line(now, &text, page);
        }
        for cause in causes(rollout) {
            let is_new =
                |node: &&String| shown.is_none_or(|shown| !shown.failing.contains(&(cause.code, (*node).clone())));
            let nodes: Vec<String> = cause.nodes.iter().filter(is_new).cloned().collect();
            if !nodes.is_empty() {
                let text = format!(
                    "{}/{}: {} on {}: {}",
                    rollout.namespace,
                    rollout.name,
                    cause.code,
                    some_of(&nodes, NAMES),
                    cause.message
                );
                write_line(now, &text, page);
            }
        }
        let written = if is_due { now } else { shown.map_or(now, |shown| shown.written) };
        self.rollouts.insert(key, Written { began, written, state, failing });
    }
}
