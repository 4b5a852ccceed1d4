//! Reads what coverage and dumps need, all at once.

use std::collections::BTreeSet;

use futures::future::FutureExt;
use futures::stream::{StreamExt, TryStreamExt};

use super::Live;
use super::list::{self, Item, List, permission};
use super::prune::{DaemonSetMatcher, ForeignPods};
use super::reader::{AT_ONCE, Reader, add_missing, is_forbidden};
use crate::cluster::error::ClusterError;
use crate::cluster::projection::keep_node;
use crate::cluster::{CoverageScope, suggestions};
use crate::model::config_object::uses;
use crate::model::daemon_set::DaemonSet;
use crate::model::event::Event;
use crate::model::held_pod::HeldPod;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::pod_disruption_budget::PodDisruptionBudget;
use crate::model::snapshot::{
    Gap, GapCause, Kind, Lease, LimitRange, Namespace, PodsComplete, PriorityClass, RuntimeClass, Snapshot,
};
use crate::model::startup_taint::{is_node_agent, startup_keys};

/// The most nodes to read, or to read the pods of, one by one; beyond that a whole list costs less.
const NODE_BY_NODE: usize = 20;

/// Selects the pods that are not bound, among them those that the scheduler has nominated for a node.
const UNBOUND: &str = "spec.nodeName=";

/// The namespace and name of the lease that the controller manager holds.
pub(super) const CONTROLLER_MANAGER: (&str, &str) = ("kube-system", "kube-controller-manager");

impl Reader<'_> {
    /// Reads the snapshot of [`crate::cluster::Wanted::Coverage`] or [`crate::cluster::Wanted::Everything`].
    pub(super) async fn coverage(self, scope: &CoverageScope) -> Result<Snapshot, ClusterError> {
        let mut snapshot = Snapshot::empty(self.live.now());
        // Objects are kept whole for a dump, and to explain one node; pods also to tell when their containers have started.
        let whole = self.everything() || scope.node.is_some();
        let of_daemon_sets = async {
            let (daemon_sets, pods) = futures::try_join!(self.daemon_sets(), self.open_all_pods(scope))?;
            let (own, advanced) = &daemon_sets;
            let all: Vec<&DaemonSet> = own.iter().chain(advanced).collect();
            let uses_config = |daemon_set: &&DaemonSet| !uses(&daemon_set.template()).is_empty();
            let tells_starts = scope.config && all.iter().any(uses_config);
            let matcher = DaemonSetMatcher::new(&all, whole || tells_starts);
            let (pods, revisions, events, limit_ranges, config) = futures::try_join!(
                self.pods(&all, &matcher, pods, scope),
                self.controller_revisions(&all, &matcher),
                self.events(&matcher, scope),
                self.limit_ranges(&matcher, scope),
                self.config_objects(&all, scope).map(Ok),
            )?;
            Ok((daemon_sets, pods, revisions, events, limit_ranges, config))
        };
        let (of_daemon_sets, nodes, leases, runtime_classes, priority_classes) = futures::try_join!(
            of_daemon_sets,
            self.nodes(scope, whole),
            self.leases(),
            self.classes::<RuntimeClass>(Kind::RuntimeClasses, scope),
            self.classes::<PriorityClass>(Kind::PriorityClasses, scope),
        )?;
        if self.everything() {
            snapshot.namespaces = self.namespaces().await?;
            self.live.read_budgets(&mut snapshot).await;
            snapshot.gaps.drain(..).for_each(|gap| self.note_gap(gap.kind, gap.namespace, gap.cause));
        }
        let (daemon_sets, pods, limit_ranges, config);
        (daemon_sets, pods, snapshot.controller_revisions, snapshot.events, limit_ranges, config) = of_daemon_sets;
        (snapshot.config_maps, snapshot.secrets) = config;
        (snapshot.daemon_sets, snapshot.advanced_daemon_sets) = daemon_sets;
        (snapshot.pods, snapshot.pods_complete) = pods;
        (snapshot.nodes, snapshot.leases, snapshot.limit_ranges) = (nodes, leases, limit_ranges);
        (snapshot.runtime_classes, snapshot.priority_classes) = (runtime_classes, priority_classes);
        snapshot.gaps = self.take_gaps();
        (snapshot.unknown_names, snapshot.neighbors) = (self.unknown_names.take(), self.neighbors.take());
        let keys = startup_keys(&snapshot.nodes);
        let names_some =
            self.query.namespace.is_some() || !self.query.names.is_empty() || !self.query.selector.is_empty();
        if names_some && (!keys.is_empty() || needs_node_agents(&snapshot)) {
            // Which one is missing is told as far as they may be read.
            let others = |other: DaemonSet| {
                (is_node_agent(&other, &keys) && !self.query.wants(&other.metadata)).then_some(other)
            };
            snapshot.node_agents = self.live.list(List::of(Kind::DaemonSets), others).await.unwrap_or_default();
        }
        self.check_node(&snapshot, scope).await?;
        if scope.node.is_none() && scope.node_selector.is_empty() && snapshot.gap(Kind::Nodes, "").is_none() {
            let missing = missing_nodes(&snapshot);
            snapshot.nodes.extend(self.live.nodes_named(&missing, |node| Some(keep_node(node, whole))).await?);
            note_missing_nodes(&mut snapshot);
        }
        Ok(snapshot)
    }

    async fn nodes(&self, scope: &CoverageScope, whole: bool) -> Result<Vec<Node>, ClusterError> {
        let CoverageScope { node, node_selector, .. } = scope;
        let field_selector = node.as_deref().map(by_name).unwrap_or_default();
        let list = List { label_selector: node_selector.to_string(), field_selector, ..List::of(Kind::Nodes) };
        self.list_or_gap(list, |node| Some(keep_node(node, whole))).await
    }

    /// Checks that the only node of the query exists, or that pods have outlived it.
    async fn check_node(&self, snapshot: &Snapshot, scope: &CoverageScope) -> Result<(), ClusterError> {
        let Some(node) = &scope.node else { return Ok(()) };
        let is_known = !snapshot.nodes.is_empty()
            || snapshot.gap(Kind::Nodes, "").is_some()
            || snapshot.pods.iter().any(|pod| suggestions::is_for_node(pod, node));
        if is_known {
            return Ok(());
        }
        let all = self.live.list(List::of(Kind::Nodes), |node: Node| Some(keep_node(node, false))).await;
        let existing: Vec<Node> = all.unwrap_or_default();
        let names = existing.iter().map(|node| node.metadata.name.as_str());
        if names.clone().any(|name| name == node) {
            return Ok(());
        }
        let unknown = suggestions::unknown_node(node, names);
        let daemon_sets: Vec<DaemonSet> = self.live.list(List::of(Kind::DaemonSets), Some).await.unwrap_or_default();
        Err(suggestions::or_a_daemon_set(unknown, daemon_sets.iter().map(|daemon_set| &daemon_set.metadata)))
    }

    /// Requests all pods of the cluster, or of the one node, if the query needs them.
    ///
    /// They begin to arrive together with the DaemonSets, which decide what is kept of them.
    async fn open_all_pods(&self, scope: &CoverageScope) -> Result<Option<list::Opened<'_>>, ClusterError> {
        let field_selector = match &scope.node {
            Some(node) => format!("spec.nodeName={node}"),
            None if self.everything() || self.query.namespace.is_none() => String::new(),
            None => return Ok(None),
        };
        match list::open::<Pod>(&self.live.transport, List { field_selector, ..List::of(Kind::Pods) }).await {
            Ok(opened) => Ok(Some(opened)),
            Err(error) if is_forbidden(&error) => {
                self.note_gap(Kind::Pods, None, GapCause::ForbiddenElsewhere(permission("list", Kind::Pods)));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn pods(
        &self,
        daemon_sets: &[&DaemonSet],
        matcher: &DaemonSetMatcher,
        all: Option<list::Opened<'_>>,
        scope: &CoverageScope,
    ) -> Result<(Vec<Pod>, PodsComplete), ClusterError> {
        let Some(all) = all else {
            return Ok((self.own_pods(daemon_sets, matcher, "").await?, PodsComplete::On(BTreeSet::new())));
        };
        let foreign = if self.everything() { ForeignPods::Whole } else { ForeignPods::ForArithmetic };
        let mut pods = all.collect(|pod| matcher.keep_pod(pod, foreign)).await?.items;
        match &scope.node {
            Some(node) => {
                let list = List { field_selector: UNBOUND.to_owned(), ..List::of(Kind::Pods) };
                let unbound = self.live.list(list, |pod| matcher.keep_pod(pod, foreign)).await?;
                add_missing(&mut pods, unbound);
                Ok((pods, PodsComplete::On(BTreeSet::from([node.clone()]))))
            }
            None => Ok((pods, PodsComplete::Everywhere)),
        }
    }

    /// Reads events: those about the DaemonSets, and warnings about their pods; for one node all about the
    /// pods, and those about the node.
    pub(super) async fn events(
        &self,
        matcher: &DaemonSetMatcher,
        scope: &CoverageScope,
    ) -> Result<Vec<Event>, ClusterError> {
        let list = |field_selector: String| List { field_selector, ..List::of(Kind::Events) };
        if self.everything() {
            return self.list_scope(list(String::new()), matcher, Some).await;
        }
        let keep = |event| matcher.concerns(&event).then_some(event);
        let about_daemon_sets = match self.query.names.as_slice() {
            [name] => format!("involvedObject.kind=DaemonSet,involvedObject.name={name}"),
            _ => "involvedObject.kind=DaemonSet".to_owned(),
        };
        let about_pods =
            if scope.node.is_some() { "involvedObject.kind=Pod" } else { "involvedObject.kind=Pod,type!=Normal" };
        let about_node = async {
            let Some(node) = &scope.node else { return Ok(Vec::new()) };
            let list = list(format!("involvedObject.kind=Node,involvedObject.name={node}"));
            self.list_or_gap(List { namespace: Some("default".to_owned()), ..list }, Some).await
        };
        let (mut events, pods, node) = futures::try_join!(
            self.list_scope(list(about_daemon_sets), matcher, keep),
            self.list_scope(list(about_pods.to_owned()), matcher, keep),
            about_node,
        )?;
        events.extend(pods);
        events.extend(node);
        Ok(events)
    }

    async fn limit_ranges(
        &self,
        matcher: &DaemonSetMatcher,
        scope: &CoverageScope,
    ) -> Result<Vec<LimitRange>, ClusterError> {
        if !scope.admission {
            return Ok(Vec::new());
        }
        self.list_scope(List::of(Kind::LimitRanges), matcher, Some).await
    }

    /// Reads the namespaces of a dump.
    async fn namespaces(&self) -> Result<Vec<Namespace>, ClusterError> {
        let field_selector = self.query.namespace.as_deref().map(by_name).unwrap_or_default();
        self.list_or_gap(List { field_selector, ..List::of(Kind::Namespaces) }, Some).await
    }

    /// Reads a kind of class, if admission is simulated.
    async fn classes<T: Item>(&self, kind: Kind, scope: &CoverageScope) -> Result<Vec<T>, ClusterError> {
        if !scope.admission {
            return Ok(Vec::new());
        }
        self.list_or_gap(List::of(kind), Some).await
    }

    pub(super) async fn leases(&self) -> Result<Vec<Lease>, ClusterError> {
        let (namespace, name) = CONTROLLER_MANAGER;
        let list = List { namespace: Some(namespace.to_owned()), ..List::of(Kind::Leases) };
        let cause = match self.live.get(&list, name).await {
            // The controllers of some clusters hold another lease.
            Ok(lease) => return Ok(lease.into_iter().collect()),
            Err(error) if is_forbidden(&error) => GapCause::Forbidden(permission("get", Kind::Leases)),
            Err(error) => unreadable_lease(&error).ok_or(error)?,
        };
        self.note_gap(Kind::Leases, list.namespace, cause);
        Ok(Vec::new())
    }
}

/// Returns whether a node lacks a CSI driver, as the kubelet or the attach-detach controller says, or its network.
fn needs_node_agents(snapshot: &Snapshot) -> bool {
    let driver = ["list of registered CSI drivers", "does not contain driver"];
    let is_about = |event: &Event| {
        matches!(event.reason.as_str(), "FailedCreatePodSandBox" | "NetworkNotReady")
            || driver.iter().any(|words| event.message.contains(words))
    };
    let lacks_network = |node: &Node| {
        node.condition("Ready").is_some_and(|ready| ready.status == "False" && ready.message.contains("etwork"))
    };
    snapshot.events.iter().any(is_about) || snapshot.nodes.iter().any(lacks_network)
}

/// Returns the cause of the gap if the server answered, but not with the lease: answers do not depend on it.
pub(super) fn unreadable_lease(error: &ClusterError) -> Option<GapCause> {
    let (namespace, name) = CONTROLLER_MANAGER;
    let is_answer =
        matches!(error, ClusterError::Api { .. } | ClusterError::NotFromApi { .. } | ClusterError::Answer { .. });
    let object = format!("Lease {namespace}/{name}");
    is_answer.then(|| GapCause::Unreadable { object, problem: error.to_string() })
}

impl Live {
    /// Reads the nodes with these names, as far as they exist.
    pub(super) async fn nodes_named(
        &self,
        names: &BTreeSet<String>,
        keep: impl Fn(Node) -> Option<Node>,
    ) -> Result<Vec<Node>, ClusterError> {
        let field_selectors: Vec<String> = if names.len() <= NODE_BY_NODE {
            names.iter().map(|node| by_name(node)).collect()
        } else {
            vec![String::new()]
        };
        let keep = |node: Node| if names.contains(&node.metadata.name) { keep(node) } else { None };
        let lists = field_selectors.into_iter().map(|field_selector| List { field_selector, ..List::of(Kind::Nodes) });
        futures::stream::iter(lists).map(|list| self.list(list, keep)).buffered(AT_ONCE).try_concat().await
    }
}

/// Notes that the API server returned no nodes, if the status of a DaemonSet counts some and nothing else says why.
pub(super) fn note_missing_nodes(snapshot: &mut Snapshot) {
    let is_counted = snapshot.daemon_sets_of_any_flavor().any(|one| one.status.desired_number_scheduled > 0);
    let gap = Gap { kind: Kind::Nodes, namespace: None, cause: GapCause::NoneReturned };
    snapshot.gaps.retain(|known| *known != gap);
    if snapshot.nodes.is_empty() && is_counted && snapshot.gap(Kind::Nodes, "").is_none() {
        snapshot.gaps.push(gap);
    }
}

/// Returns the nodes that pods of a snapshot are bound to or meant for and that are not in it.
///
/// Lists are read at the same time: a node that was created in between is missing, and its pods look as if
/// their node were gone. It is gone only if it cannot be read by name.
pub(super) fn missing_nodes(snapshot: &Snapshot) -> BTreeSet<String> {
    let known: BTreeSet<&str> = snapshot.nodes.iter().map(|node| node.metadata.name.as_str()).collect();
    let named: BTreeSet<&str> = snapshot.pods.iter().flat_map(Pod::nodes).collect();
    named.difference(&known).map(|node| (*node).to_owned()).collect()
}

/// Returns the field selector of the object with a name.
pub(super) fn by_name(name: &str) -> String {
    format!("metadata.name={name}")
}

/// Adds every pod on the nodes to a snapshot: node by node if they are few.
pub(super) async fn pods_on(
    live: &Live,
    snapshot: &mut Snapshot,
    nodes: &BTreeSet<String>,
) -> Result<(), ClusterError> {
    let wanted: BTreeSet<String> = nodes.iter().filter(|node| !snapshot.knows_all_pods_on(node)).cloned().collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let matcher = DaemonSetMatcher::new(&snapshot.daemon_sets.iter().collect::<Vec<_>>(), false);
    let keep = |pod| matcher.keep_pod(pod, ForeignPods::ForArithmetic);
    let one_by_one = wanted.len() <= NODE_BY_NODE;
    let selectors: Vec<String> = if one_by_one {
        wanted.iter().map(|node| format!("spec.nodeName={node}")).chain([UNBOUND.to_owned()]).collect()
    } else {
        vec![String::new()]
    };
    let lists = selectors.into_iter().map(|field_selector| List { field_selector, ..List::of(Kind::Pods) });
    let found = futures::stream::iter(lists).map(|list| live.list(list, keep)).buffer_unordered(AT_ONCE).try_concat();
    match found.await {
        Ok(found) => {
            add_missing(&mut snapshot.pods, found);
            match &mut snapshot.pods_complete {
                PodsComplete::On(complete) if one_by_one => complete.extend(wanted),
                complete => *complete = PodsComplete::Everywhere,
            }
        }
        Err(error) if is_forbidden(&error) => {
            let cause = GapCause::ForbiddenElsewhere(permission("list", Kind::Pods));
            let gap = Gap { kind: Kind::Pods, namespace: None, cause };
            if !snapshot.gaps.contains(&gap) {
                snapshot.gaps.push(gap);
            }
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Adds the pods on nodes with what may keep them from being evicted, and the PodDisruptionBudgets. An answer about DaemonSets does not
/// fail because of them.
pub(super) async fn held_pods(live: &Live, snapshot: &mut Snapshot, nodes: &BTreeSet<String>) {
    if nodes.is_empty() {
        return;
    }
    let lists =
        nodes.iter().map(|node| List { field_selector: format!("spec.nodeName={node}"), ..List::of(Kind::Pods) });
    let pods = futures::stream::iter(lists).map(|list| live.list(list, Some::<HeldPod>)).buffered(AT_ONCE).try_concat();
    let kind = Kind::PodDisruptionBudgets;
    let (pods, budgets) = futures::join!(pods, live.list(List::of(kind), Some::<PodDisruptionBudget>));
    // The pods of the DaemonSets were read before: this is no gap of pods.
    snapshot.held_pods_unread = pods.as_ref().err().map(|error| unread(Kind::Pods, error));
    let cause = budgets.as_ref().err().map(|error| unread(kind, error));
    snapshot.gaps.extend(cause.map(|cause| Gap { kind, namespace: None, cause }));
    snapshot.budgets_complete = budgets.is_ok();
    (snapshot.held_pods, snapshot.pod_disruption_budgets) = (pods.unwrap_or_default(), budgets.unwrap_or_default());
}

/// The most namespaces to read one by one if they may be listed; beyond that a whole list costs less.
const ONE_BY_ONE: usize = 8;

/// The most DaemonSets whose pods on other nodes are read to compare one node with the others.
const MOST_COMPARED: usize = 5;

/// Adds the pods on other nodes of DaemonSets whose pod on this node has not become ready. That they cannot be read is no reason to
/// say nothing about the node.
pub(super) async fn peers(live: &Live, snapshot: &mut Snapshot, node: &str) {
    let is_in_trouble = |daemon_set: &&DaemonSet| {
        let is_own = |pod: &&Pod| pod.metadata.controller().is_some_and(|owner| owner.uid == daemon_set.metadata.uid);
        let own = snapshot.pods.iter().filter(is_own);
        own.filter(|pod| pod.spec.node_name == node).any(|pod| !pod.is_ready() && !pod.metadata.is_terminating())
    };
    let daemon_sets: Vec<&DaemonSet> = snapshot.daemon_sets_of_any_flavor().filter(is_in_trouble).collect();
    let matcher = DaemonSetMatcher::new(&daemon_sets, true);
    let keep = |pod| matcher.keep_pod(pod, ForeignPods::Drop);
    let lists = daemon_sets.iter().take(MOST_COMPARED).map(|daemon_set| List {
        namespace: Some(daemon_set.metadata.namespace.clone()),
        label_selector: daemon_set.spec.selector.to_string(),
        field_selector: format!("spec.nodeName!={node}"),
        ..List::of(Kind::Pods)
    });
    let read = futures::stream::iter(lists).map(|list| live.list(list, keep)).buffered(AT_ONCE);
    let peers: Vec<Pod> =
        read.filter_map(async |read| read.ok()).collect::<Vec<_>>().await.into_iter().flatten().collect();
    snapshot.peers = peers;
}

/// Adds the namespaces with these names. That one cannot be read becomes a gap, one that does not exist is left out.
pub(super) async fn namespaces(live: &Live, snapshot: &mut Snapshot, names: &BTreeSet<String>) {
    let kind = Kind::Namespaces;
    let list = List::of(kind);
    if names.len() > ONE_BY_ONE {
        let is_named = |namespace: Namespace| names.contains(&namespace.metadata.name).then_some(namespace);
        match live.list(list.clone(), is_named).await {
            Ok(found) => return snapshot.namespaces.extend(found),
            // Those who may not list them may often get them.
            Err(error) if is_forbidden(&error) => {}
            Err(error) => {
                return snapshot.gaps.push(Gap { kind, namespace: None, cause: unread(kind, &error) });
            }
        }
    }
    let read = futures::stream::iter(names).map(|name| live.get::<Namespace>(&list, name)).buffered(AT_ONCE);
    for (name, read) in names.iter().zip(read.collect::<Vec<_>>().await) {
        match read {
            Ok(found) => snapshot.namespaces.extend(found),
            Err(error) => {
                let cause = match is_forbidden(&error) {
                    true => GapCause::Forbidden(permission("get", kind)),
                    false => GapCause::Failed(error.to_string()),
                };
                snapshot.gaps.push(Gap { kind, namespace: Some(name.clone()), cause });
            }
        }
    }
}

/// Returns why a kind of object could not be listed.
fn unread(kind: Kind, error: &ClusterError) -> GapCause {
    match is_forbidden(error) {
        true => GapCause::Forbidden(permission("list", kind)),
        false => GapCause::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::note_missing_nodes;
    use crate::model::daemon_set::DaemonSet;
    use crate::model::snapshot::{Gap, GapCause, Kind, Snapshot};

    #[test]
    fn nodes_that_are_forbidden_are_not_said_to_be_none() {
        let causes = |cause: Option<GapCause>| {
            let mut snapshot = Snapshot::empty("2026-03-01T12:00:00Z".parse().unwrap());
            let daemon_set = json!({"metadata": {"name": "a"}, "status": {"desiredNumberScheduled": 3}});
            snapshot.daemon_sets.push(DaemonSet::from_object(daemon_set).unwrap());
            snapshot.gaps.extend(cause.map(|cause| Gap { kind: Kind::Nodes, namespace: None, cause }));
            note_missing_nodes(&mut snapshot);
            snapshot.gaps.into_iter().map(|gap| gap.cause).collect::<Vec<_>>()
        };
        assert_eq!(causes(None), [GapCause::NoneReturned]);
        let forbidden = GapCause::Forbidden("list nodes".to_owned());
        assert_eq!(causes(Some(forbidden.clone())), [forbidden]);
    }
}
