//! The scope of a coverage report: which nodes, and how much detail.

use crate::model::node::Node;
use crate::model::selector::LabelSelector;

/// The level of detail per node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// Groups of nodes only.
    #[default]
    Groups,
    /// A row per node.
    Nodes,
    /// A row per node, explained in full.
    Explain,
}

/// The scope of a report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// The level of detail per node.
    pub detail: Detail,
    /// The one node to report; `None` for every node.
    pub node: Option<String>,
    /// The label by whose values the counts are broken down.
    pub by: Option<String>,
    /// The label by whose values a map groups the nodes, which need a row each.
    pub map: Option<String>,
    /// Labels that the nodes must have.
    pub node_selector: LabelSelector,
}

impl Options {
    pub(super) fn is_every_node(&self) -> bool {
        self.node.is_none() && self.node_selector.is_empty()
    }

    pub(super) fn selects(&self, node: &Node) -> bool {
        self.node.as_ref().is_none_or(|name| *name == node.metadata.name)
            && self.node_selector.matches(&node.metadata.labels)
    }

    pub(super) fn selects_name(&self, name: &str) -> bool {
        self.node.as_ref().map_or(self.node_selector.is_empty(), |node| node == name)
    }
}
