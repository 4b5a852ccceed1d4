//! Flags that select nodes by their coverage.

use clap::Args;

use super::parse::{node_states, parse_selector, reason_codes};
use crate::coverage::filter::CoverageFilter;
use crate::error::CommandError;
use crate::model::selector::LabelSelector;
use crate::model::snapshot::{Kind, Snapshot};
use crate::report::fix::{Command, Fix};
use crate::report::node_coverage::NodeState;
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

/// A node selector, and its original text.
#[derive(Clone)]
pub(super) struct NodeSelection {
    pub(super) selector: LabelSelector,
    text: String,
}

impl NodeSelection {
    /// Parses the value of `--node-selector`. Fails if it is invalid.
    pub(super) fn parse(text: Option<String>) -> Result<Self, CommandError> {
        let selector = parse_selector("--node-selector", text.as_deref())?;
        Ok(NodeSelection { selector, text: text.unwrap_or_default() })
    }
}

impl NodeChoiceArgs {
    /// Returns the filter for a report, and the nodes that the selector matches. Fails if the selector is invalid.
    pub(super) fn resolve(self) -> Result<(CoverageFilter, NodeSelection), CommandError> {
        let NodeChoiceArgs { reason, state, node_selector } = self;
        let filter = CoverageFilter { reasons: reason, states: state, ..CoverageFilter::default() };
        Ok((filter, NodeSelection::parse(node_selector)?))
    }
}

/// Checks that a node selector matches nodes, so that an answer is not about no node at all.
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
