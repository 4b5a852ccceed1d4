//! Resolves the node of a command, by its name or by a pod on it, and the pod of a DaemonSet there.

use std::collections::BTreeSet;

use clap::Args;

use super::Failure;
use super::change::only_one;
use super::parse::parse_node;
use super::session::Session;
use crate::cluster::{CoverageScope, Query, Source, Wanted};
use crate::coverage::options::{Detail, Options};
use crate::coverage::walk::coverage;
use crate::error::CommandError;
use crate::io::Io;
use crate::model::snapshot::Snapshot;
use crate::report::agent_pod::PodReport;
use crate::report::coverage::Incomplete;
use crate::report::fix::{Command, Fix};
use crate::report::node_coverage::{NodeCoverage, NodeState, PodSummary};

/// Flags that choose a node.
#[derive(Debug, Clone, Args)]
#[group(multiple = false)]
pub(super) struct PlaceArgs {
    /// The node
    #[arg(long, help_heading = "Nodes", value_name = "NODE")]
    node: Option<String>,
    /// The node of this pod, such as shop/web-1.
    ///
    /// Without a namespace, as in web-1 or pod/web-1, it is in that of the DaemonSet.
    #[arg(long, help_heading = "Nodes", value_name = "POD")]
    beside: Option<String>,
}

/// A node selected by the user.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Node(String),
    /// The node of a pod, which may be in another namespace.
    Beside {
        namespace: Option<String>,
        pod: String,
    },
}

impl PlaceArgs {
    /// Resolves the flags; `None` if none is given. Fails for any kind other than a node or a pod.
    pub(super) fn resolve(self) -> Result<Option<Place>, CommandError> {
        let PlaceArgs { node, beside } = self;
        if let Some(node) = node {
            return Ok(Some(Place::Node(parse_node(&node)?)));
        }
        let Some(beside) = beside else { return Ok(None) };
        let (namespace, pod) = match beside.split_once('/') {
            None => (None, beside.as_str()),
            Some(("po" | "pod" | "pods", pod)) => (None, pod),
            Some((namespace, pod)) => (Some(namespace.to_owned()), pod),
        };
        if pod.is_empty() || pod.contains('/') || namespace.as_ref().is_some_and(String::is_empty) {
            let error = CommandError::usage(format!("{beside:?} does not name a pod"));
            return Err(error.hint("give POD or NAMESPACE/POD"));
        }
        Ok(Some(Place::Beside { namespace, pod: pod.to_owned() }))
    }
}

impl Place {
    /// Reads a DaemonSet and its pods on the node, whose name is returned, too. Fails if the DaemonSet, the node or the
    /// given pod cannot be read.
    pub(super) async fn read(
        self,
        session: &Session,
        names: Vec<String>,
        io: &mut Io<'_>,
    ) -> Result<(Snapshot, String), Failure> {
        let node = match (self, &session.source) {
            (Place::Node(node), _) => node,
            (Place::Beside { namespace, pod }, Source::Live(live)) => {
                let namespace = namespace.or_else(|| session.namespace.clone());
                let namespace = namespace.unwrap_or_else(|| session.default_namespace.clone());
                let found = live.pod(&namespace, &pod).await?;
                node_of(&namespace, &pod, found.map(|found| found.spec.node_name))?
            }
            (Place::Beside { namespace, pod }, Source::File(_)) => {
                // Everything is read at once, since standard input can be read only once.
                let query = Query { names, wanted: Wanted::Everything, ..Query::default() };
                let snapshot = session.read(query, io).await?;
                let namespace = namespace.or_else(|| session.namespace.clone());
                let namespace = namespace.unwrap_or_else(|| match snapshot.daemon_sets.as_slice() {
                    [one] => one.metadata.namespace.clone(),
                    _ => session.default_namespace.clone(),
                });
                let is_meant = |name: &str, other: &str| (name, other) == (pod.as_str(), namespace.as_str());
                let found =
                    snapshot.pods.iter().find(|found| is_meant(&found.metadata.name, &found.metadata.namespace));
                let node = node_of(&namespace, &pod, found.map(|found| found.spec.node_name.clone()))?;
                return Ok((snapshot, node));
            }
        };
        let scope = CoverageScope { node: Some(node.clone()), without_blame: true, ..CoverageScope::default() };
        let query = Query { names, wanted: Wanted::Coverage(scope), ..Query::default() };
        Ok((session.read_with_pods(query, io, |_| BTreeSet::from([node.clone()])).await?, node))
    }
}

/// Returns the node of a pod. Fails if the pod does not exist or has no node.
fn node_of(namespace: &str, pod: &str, node: Option<String>) -> Result<String, CommandError> {
    let problem = match node {
        Some(node) if !node.is_empty() => return Ok(node),
        Some(_) => "is not scheduled to a node yet",
        None => "not found",
    };
    let list = Command::kubectl(&["get", "pods"]).namespace(namespace).flag("-o", "wide");
    Err(CommandError::new(format!("pod {namespace}/{pod} {problem}"))
        .hint(Fix::new("to list the pods and their nodes", list)))
}

/// Returns the pod of the only DaemonSet in a snapshot on a node, the working one of two, and the coverage of the node.
/// Fails if there is no pod, with the reason, or if the snapshot has no or several DaemonSets.
pub(super) fn pod_on(
    snapshot: &Snapshot,
    node: &str,
    session: &Session,
) -> Result<(PodReport, NodeCoverage), CommandError> {
    session.check_unknown_names(snapshot)?;
    let name = only_one(snapshot)?.metadata.clone();
    let options = Options { detail: Detail::Nodes, node: Some(node.to_owned()), ..Options::default() };
    let mut report = coverage(snapshot, &options);
    let rows = report.daemon_sets.iter_mut().flat_map(|daemon_set| std::mem::take(&mut daemon_set.nodes));
    let row = rows.into_iter().find(|row| row.name == node);
    let rank = |pod: &PodSummary| (pod.terminating, !pod.bound, !pod.available, !pod.ready);
    if let Some((row, pod)) = row.as_ref().and_then(|row| Some((row, row.pods.iter().min_by_key(|pod| rank(pod))?))) {
        let (namespace, daemon_set) = (name.namespace, name.name);
        return Ok((PodReport { namespace, daemon_set, node: node.to_owned(), pod: pod.clone() }, row.clone()));
    }
    let what = format!("pod of {}/{} on node {node}", name.namespace, name.name);
    let Some(row) = row.filter(|row| row.state != NodeState::Unknown) else {
        let error = CommandError::new(format!("whether there is a {what} is not known"));
        return Err(error.hints(Incomplete::sentences(&report.incomplete)));
    };
    Err(match row.reasons.into_iter().next() {
        Some(reason) => CommandError::new(format!("no {what}: {}", reason.message)).hint(reason.fix),
        None => CommandError::new(format!("no {what}")),
    })
}
