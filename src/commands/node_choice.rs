//! Flags that choose nodes by what coverage says of them.

use clap::Args;

use super::parse::{node_states, parse_selector, reason_codes};
use crate::coverage::filter::CoverageFilter;
use crate::error::CommandError;
use crate::model::selector::LabelSelector;
use crate::model::snapshot::{Kind, Snapshot};
use crate::report::coverage::NodeState;
use crate::report::fix::{Command, Fix};
use crate::report::reason::ReasonCode;

/// Flags that choose nodes.
#[derive(Debug, Clone, Args)]
pub(super) struct NodeChoiceArgs {
    /// Only nodes with this primary reason.
    ///
    /// Such as CrashLooping, and DaemonSets with such nodes; may be repeated.
    #[arg(long, help_heading = "Nodes", value_name = "CODE", ignore_case = true, value_parser = reason_codes(), hide_possible_values = true)]
    pub(super) reason: Vec<ReasonCode>,
    /// Only nodes in this state, such as Pending.
    ///
    /// In a row each; may be repeated.
    #[arg(long, help_heading = "Nodes", value_name = "STATE", ignore_case = true, value_parser = node_states())]
    pub(super) state: Vec<NodeState>,
    /// Only nodes with these labels
    #[arg(long, help_heading = "Nodes", value_name = "SELECTOR")]
    pub(super) node_selector: Option<String>,
}

/// Nodes that are chosen by a user.
pub(super) struct NodeChoice {
    pub(super) reasons: Vec<ReasonCode>,
    pub(super) states: Vec<NodeState>,
    pub(super) node_selector: NodeSelection,
}

/// A selector of nodes, and how it was written.
#[derive(Clone)]
pub(super) struct NodeSelection {
    pub(super) selector: LabelSelector,
    text: String,
}

impl NodeSelection {
    /// Parses the value of a flag. Fails if the selector is invalid.
    pub(super) fn parse(flag: &str, text: Option<String>) -> Result<Self, CommandError> {
        let selector = parse_selector(flag, text.as_deref())?;
        Ok(NodeSelection { selector, text: text.unwrap_or_default() })
    }
}

impl NodeChoiceArgs {
    /// Makes sense of the flags. Fails if the selector is invalid.
    pub(super) fn resolve(self) -> Result<NodeChoice, CommandError> {
        let NodeChoiceArgs { reason, state, node_selector } = self;
        let node_selector = NodeSelection::parse("--node-selector", node_selector)?;
        Ok(NodeChoice { reasons: reason, states: state, node_selector })
    }
}

impl NodeChoice {
    /// Returns whether every node is chosen.
    pub(super) fn is_empty(&self) -> bool {
        self.reasons.is_empty() && self.states.is_empty() && self.node_selector.selector.is_empty()
    }

    /// Returns what of a report about the nodes that the selector matches is about the chosen ones.
    pub(super) fn filter(&self) -> CoverageFilter {
        let (reasons, states) = (self.reasons.clone(), self.states.clone());
        CoverageFilter { reasons, states, ..CoverageFilter::default() }
    }
}

/// Checks that a node selector matches nodes, so that no answer is about no node at all.
pub(super) fn check_selected(snapshot: &Snapshot, node_selector: &NodeSelection) -> Result<(), CommandError> {
    if node_selector.selector.is_empty() || !snapshot.nodes.is_empty() {
        return Ok(());
    }
    if snapshot.gap(Kind::Nodes, "").is_some() {
        return Err(CommandError::new("the nodes could not be read, so --node-selector cannot be applied"));
    }
    Err(CommandError::new(format!("no nodes match the selector {:?}", node_selector.text)).hint(labels()))
}

/// Returns how to list the labels of nodes.
pub(super) fn labels() -> Fix {
    Fix::new("to list the labels", Command::kubectl(&["get", "nodes", "--show-labels"]))
}
