//! The part of a coverage report that was asked for.

use super::group::summarize;
use crate::report::coverage::{CoverageReport, DaemonSetCoverage, NodeCoverage, NodeState, ReasonGroup};
use crate::report::reason::ReasonCode;

/// Which DaemonSets and nodes of a report are kept. The counts of a DaemonSet are always about all of its nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    /// Only nodes with one of these primary reasons, and DaemonSets with one of them.
    pub(crate) reasons: Vec<ReasonCode>,
    /// Only nodes in one of these states. Groups have no state, so that rows of nodes are needed.
    pub(crate) states: Vec<NodeState>,
    /// Only what needs attention.
    pub(crate) problems: bool,
}

impl Filter {
    /// Removes from a report what was not asked for.
    pub(crate) fn apply(&self, report: &mut CoverageReport) {
        if self.reasons.is_empty() && self.states.is_empty() && !self.problems {
            return;
        }
        report.daemon_sets.retain_mut(|daemon_set| self.keeps_daemon_set(daemon_set));
        report.reasons = summarize(&report.daemon_sets);
    }

    /// Returns the flags that chose this, as a user writes them.
    pub(crate) fn flags(&self) -> String {
        let reasons = self.reasons.iter().map(|code| format!("--reason {code}"));
        let states = self.states.iter().map(|state| format!("--state {}", state.name()));
        let problems = self.problems.then(|| "--problems".to_owned());
        reasons.chain(states).chain(problems).collect::<Vec<_>>().join(" ")
    }

    fn keeps_daemon_set(&self, daemon_set: &mut DaemonSetCoverage) -> bool {
        let needs_attention = daemon_set.needs_attention();
        let DaemonSetCoverage { groups, not_eligible_groups, concerns, nodes, .. } = daemon_set;
        let keeps_group = |group: &ReasonGroup| self.keeps_reason(group.code);
        groups.retain(keeps_group);
        not_eligible_groups.retain(|group| !self.problems && keeps_group(group));
        concerns.retain(|concern| self.keeps_reason(concern.code));
        nodes.retain(|node| self.keeps_node(node));
        if !self.states.is_empty() {
            return !nodes.is_empty();
        }
        let is_found = !groups.is_empty() || !concerns.is_empty() || !not_eligible_groups.is_empty();
        if self.problems { needs_attention && (is_found || self.reasons.is_empty()) } else { is_found }
    }

    fn keeps_reason(&self, code: ReasonCode) -> bool {
        self.reasons.is_empty() || self.reasons.contains(&code)
    }

    fn keeps_node(&self, node: &NodeCoverage) -> bool {
        let is_ineligible = matches!(node.state, NodeState::NotEligible | NodeState::Unknown);
        let primary = node.reasons.first();
        (self.reasons.is_empty() || primary.is_some_and(|reason| self.keeps_reason(reason.code)))
            && (self.states.is_empty() || self.states.contains(&node.state))
            && (!self.problems || primary.is_some() && !is_ineligible)
    }
}
