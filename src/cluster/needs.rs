//! Defines in one place what a query needs besides the DaemonSets, for a read, a watch and a dump.

use std::time::Duration;

use super::{CoverageScope, Query, Wanted};

/// How long to wait before a change for objects that it does not depend on.
const OPTIONAL_TIMEOUT: Duration = Duration::from_secs(10);

/// What is needed besides the DaemonSets and their revisions.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Needs {
    /// The nodes, and what else explains them.
    pub scope: CoverageScope,
    /// What is needed of the cluster as a whole.
    pub cluster: Cluster,
    pub pods: Pods,
    /// The events, by their involved objects.
    pub events: Vec<Events>,
    /// Whether to include revisions of other owners that match the selector.
    pub any_owner: bool,
    /// Whether nodes and pods are kept whole, or only the fields that reports about many nodes use.
    pub whole: bool,
    /// Whether PodDisruptionBudgets are needed.
    pub budgets: bool,
    /// Whether every object of every kind is needed, for a dump.
    pub everything: bool,
    /// How long to wait for optional objects; `None` if nothing is optional.
    pub optional_timeout: Option<Duration>,
}

impl Needs {
    /// Returns whether a node of a dump and the DaemonSets' pods on it are kept whole. Only whole pods tell when their containers have
    /// started.
    pub(super) fn keeps_whole(&self, node: &str) -> bool {
        self.scope.node.as_ref().map_or(self.scope.config, |only| only == node)
    }
}

/// What is needed of the cluster as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Cluster {
    #[default]
    Nothing,
    /// The nodes, and the leases of the controller manager and the scheduler.
    Nodes,
    /// Who has written the nodes, the limits and labels of a namespace's pods, and DaemonSets of other namespaces.
    Writes,
}

/// Which pods are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Pods {
    #[default]
    None,
    /// Those of the DaemonSets.
    Own,
    /// Those of the DaemonSets and, for all namespaces or a single node, all pods that use resources of their nodes.
    All,
}

/// Events that are needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Events {
    /// The kind of the involved object; empty for any.
    pub about: &'static str,
    /// The fields that they must match.
    pub field_selector: String,
}

impl Events {
    /// Returns the namespace of events about nodes; `None` for others, which are in that of the involved object.
    pub(super) fn namespace(&self) -> Option<String> {
        (self.about == "Node").then(|| "default".to_owned())
    }
}

impl Query {
    /// Returns what the query needs.
    pub(super) fn needs(&self) -> Needs {
        let none = Needs { any_owner: true, ..Needs::default() };
        match &self.wanted {
            Wanted::Coverage(scope) => Needs {
                scope: scope.clone(),
                cluster: Cluster::Nodes,
                pods: Pods::All,
                events: self.events_about(scope.node.as_deref()),
                any_owner: scope.node.is_some(),
                whole: scope.node.is_some(),
                ..none
            },
            Wanted::Everything => Needs {
                scope: CoverageScope { admission: true, config: true, ..CoverageScope::default() },
                cluster: Cluster::Nodes,
                pods: Pods::All,
                events: vec![Events { about: "", field_selector: String::new() }],
                whole: true,
                budgets: true,
                everything: true,
                ..none
            },
            Wanted::Revisions => none,
            Wanted::History => Needs { pods: Pods::Own, ..none },
            Wanted::Change => Needs {
                // Whether new pods have room depends on what admission makes of them.
                scope: CoverageScope { admission: true, ..CoverageScope::default() },
                cluster: Cluster::Nodes,
                pods: Pods::Own,
                events: self.events_about(None),
                budgets: true,
                optional_timeout: Some(OPTIONAL_TIMEOUT),
                ..none
            },
            Wanted::RecentChanges => {
                let about_nodes = Events { about: "Node", field_selector: "involvedObject.kind=Node".to_owned() };
                Needs { cluster: Cluster::Writes, events: vec![about_nodes], ..none }
            }
        }
    }

    /// Returns the events about the DaemonSets, and warnings about their pods; for one node, all events about the pods,
    /// and those about the node.
    fn events_about(&self, node: Option<&str>) -> Vec<Events> {
        let events = |about: &'static str, of: &str| Events {
            about,
            field_selector: format!("involvedObject.kind={about}{of}"),
        };
        let named = |name: &str| format!(",involvedObject.name={name}");
        let daemon_sets = if let [name] = self.names.as_slice() { named(name) } else { String::new() };
        let pods = if node.is_some() { "" } else { ",type!=Normal" };
        let about_node = node.map(|node| events("Node", &named(node)));
        [events("DaemonSet", &daemon_sets), events("Pod", pods)].into_iter().chain(about_node).collect()
    }
}
