//! Reads everything that a query needs concurrently, and then anything that the results make necessary.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{FutureExt, join_all, try_join_all};
use futures::stream::{StreamExt, TryStreamExt};
use jiff::Timestamp;

use super::Live;
use super::list::{self, List, permission};
use super::prune::{DaemonSetMatcher, ForeignPods};
use super::reader::{AT_ONCE, ONE_BY_ONE, Reader, add_gap, add_missing, unread};
use super::writes::written_list;
use crate::cluster::error::ClusterError;
use crate::cluster::needs::{Cluster, Pods};
use crate::cluster::object::Object;
use crate::cluster::projection::keep_node;
use crate::cluster::{CoverageScope, Query, suggestions};
use crate::model::config_object::uses;
use crate::model::daemon_set::DaemonSet;
use crate::model::event::Event;
use crate::model::held_pod::HeldPod;
use crate::model::kind::with_place;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::pod_disruption_budget::PodDisruptionBudget;
use crate::model::snapshot::{
    Gap, GapCause, Kind, Lease, LimitRange, Namespace, PodsComplete, PriorityClass, RuntimeClass, Snapshot,
};
use crate::model::startup_taint::{is_node_agent, startup_keys};
use crate::model::written::WrittenObject;

/// The most nodes to read, or whose pods to read, one by one; for more, a whole list is cheaper.
const NODE_BY_NODE: usize = 20;

/// Selects unbound pods, including those that the scheduler has nominated for a node.
const UNBOUND: &str = "spec.nodeName=";

/// The namespace and name of the lease that the controller manager holds.
pub(super) const CONTROLLER_MANAGER: (&str, &str) = ("kube-system", "kube-controller-manager");

impl Reader<'_> {
    /// Reads everything that the query needs concurrently. The time is left out.
    pub(super) async fn read(self) -> Result<Snapshot, ClusterError> {
        let of_daemon_sets = async {
            let (found, pods) = futures::try_join!(self.daemon_sets(), self.open_all_pods())?;
            let all: Vec<&DaemonSet> = found.daemon_sets_of_any_flavor().collect();
            let uses_config = |daemon_set: &&DaemonSet| !uses(&daemon_set.template()).is_empty();
            // Only whole pods tell when their containers have started.
            let whole = self.needs.whole || self.needs.scope.config && all.iter().any(uses_config);
            let mut matcher = DaemonSetMatcher::new(&all, whole);
            matcher.any_owner |= self.needs.any_owner;
            let parts = futures::try_join!(
                self.controller_revisions(&all, &matcher),
                self.if_possible(Kind::Pods, self.pods(&all, &matcher, pods)),
                self.if_possible(Kind::Events, self.events(&matcher)),
                self.limit_ranges(&matcher),
                self.config_objects(&all).map(Ok),
            )?;
            Ok((found, parts))
        };
        let of_cluster = async {
            futures::try_join!(
                self.if_possible(Kind::Nodes, self.nodes()),
                self.if_possible(Kind::Leases, self.leases()),
                self.if_possible(Kind::PodDisruptionBudgets, self.budgets()),
                self.classes::<RuntimeClass>(Kind::RuntimeClasses),
                self.classes::<PriorityClass>(Kind::PriorityClasses),
                self.namespaces(),
            )
        };
        let (of_daemon_sets, of_cluster, writes) = futures::try_join!(of_daemon_sets, of_cluster, self.writes())?;
        let (mut snapshot, (revisions, pods, events, limit_ranges, config)) = of_daemon_sets;
        (snapshot.pods, snapshot.pods_complete) = pods;
        (snapshot.config_maps, snapshot.secrets) = config;
        (snapshot.controller_revisions, snapshot.events, snapshot.limit_ranges) = (revisions, events, limit_ranges);
        (
            snapshot.nodes,
            snapshot.leases,
            snapshot.pod_disruption_budgets,
            snapshot.runtime_classes,
            snapshot.priority_classes,
            snapshot.namespaces,
        ) = of_cluster;
        let (nodes, written_objects) = writes;
        for node in nodes {
            let node = snapshot.note_writes(node);
            snapshot.nodes.push(node);
        }
        snapshot.written_objects = written_objects;
        snapshot.gaps = self.take_gaps();
        snapshot.budgets_complete = self.needs.everything && snapshot.gap(Kind::PodDisruptionBudgets, "").is_none();
        if self.needs.pods == Pods::All {
            self.add_node_agents(&mut snapshot).await;
            self.check_node(&snapshot).await?;
        }
        let CoverageScope { node, node_selector, .. } = &self.needs.scope;
        snapshot.nodes_limited = node.is_some() || !node_selector.is_empty();
        if self.needs.cluster == Cluster::Nodes && !snapshot.nodes_limited && snapshot.gap(Kind::Nodes, "").is_none() {
            let missing = missing_nodes(&snapshot);
            let found = self.live.nodes_named(&missing, |node| Some(keep_node(node, self.needs.whole)));
            let (found, deleted) = self.if_possible(Kind::Nodes, found).await?;
            snapshot.nodes.extend(found);
            snapshot.deleted_nodes = deleted;
            snapshot.gaps.extend(self.take_gaps());
            let removals = self.live.removals(&missing_nodes(&snapshot)).await;
            add_missing(&mut snapshot.events, removals);
            snapshot.note_missing_nodes();
        }
        Ok(snapshot)
    }

    async fn nodes(&self) -> Result<Vec<Node>, ClusterError> {
        let CoverageScope { node, node_selector, .. } = &self.needs.scope;
        let field_selector = node.as_deref().map(by_name).unwrap_or_default();
        let list = List { label_selector: node_selector.to_string(), field_selector, ..List::of(Kind::Nodes) };
        match self.needs.cluster {
            Cluster::Nodes => self.list_or_gap(list, |node| Some(keep_node(node, self.needs.whole))).await,
            Cluster::Nothing | Cluster::Writes => Ok(Vec::new()),
        }
    }

    /// Adds DaemonSets on which the pods of the requested ones may depend, as far as they may be read, so that a
    /// missing one can be named.
    async fn add_node_agents(&self, snapshot: &mut Snapshot) {
        let Query { namespace, names, selector, .. } = self.query;
        let keys = startup_keys(&snapshot.nodes);
        let names_some = namespace.is_some() || !names.is_empty() || !selector.is_empty();
        if names_some && (!keys.is_empty() || needs_node_agents(snapshot)) {
            let others = |other: DaemonSet| {
                (is_node_agent(&other, &keys) && !self.query.wants(&other.metadata)).then_some(other)
            };
            snapshot.node_agents = self.live.list(List::of(Kind::DaemonSets), others).await.unwrap_or_default();
        }
    }

    /// Checks that the only node of the query exists, or that its pods still do.
    async fn check_node(&self, snapshot: &Snapshot) -> Result<(), ClusterError> {
        let Some(node) = &self.needs.scope.node else { return Ok(()) };
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
    /// They start to arrive together with the DaemonSets, which decide what is kept of them.
    async fn open_all_pods(&self) -> Result<Option<list::Opened<'_>>, ClusterError> {
        let field_selector = match &self.needs.scope.node {
            _ if self.needs.pods != Pods::All => return Ok(None),
            Some(node) => on_node(node),
            None if self.needs.everything || self.query.namespace.is_none() => String::new(),
            None => return Ok(None),
        };
        match list::open::<Pod>(&self.live.transport, List { field_selector, ..List::of(Kind::Pods) }).await {
            Ok(opened) => Ok(Some(opened)),
            Err(error) if error.is_forbidden() => {
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
    ) -> Result<(Vec<Pod>, PodsComplete), ClusterError> {
        let Some(all) = all else {
            let daemon_sets = if self.needs.pods == Pods::None { &[] } else { daemon_sets };
            return Ok((self.own_pods(daemon_sets, matcher).await?, PodsComplete::default()));
        };
        let foreign = if self.needs.everything { ForeignPods::Whole } else { ForeignPods::ForArithmetic };
        let mut pods = all.collect(|pod| matcher.keep_pod(pod, foreign)).await?.items;
        match &self.needs.scope.node {
            Some(node) => {
                let list = List { field_selector: UNBOUND.to_owned(), ..List::of(Kind::Pods) };
                let unbound = self.live.list(list, |pod| matcher.keep_pod(pod, foreign)).await?;
                add_missing(&mut pods, unbound);
                Ok((pods, PodsComplete::On(BTreeSet::from([node.clone()]))))
            }
            None => Ok((pods, PodsComplete::Everywhere)),
        }
    }

    async fn events(&self, matcher: &DaemonSetMatcher) -> Result<Vec<Event>, ClusterError> {
        let lists = self.needs.events.iter().map(|events| async move {
            let field_selector = events.field_selector.clone();
            let list = List { namespace: events.namespace(), field_selector, ..List::of(Kind::Events) };
            let keep = |event| matcher.keeps_event(&self.needs, events, &event).then_some(event);
            match list.namespace {
                Some(_) => self.list_or_gap(list, keep).await,
                None => self.list_scope(list, matcher, keep).await,
            }
        });
        Ok(try_join_all(lists).await?.concat())
    }

    async fn limit_ranges(&self, matcher: &DaemonSetMatcher) -> Result<Vec<LimitRange>, ClusterError> {
        match self.needs.scope.admission {
            true => {
                let kind = Kind::LimitRanges;
                self.if_possible(kind, self.list_scope(List::of(kind), matcher, Some)).await
            }
            false => Ok(Vec::new()),
        }
    }

    /// Reads the namespaces of a dump.
    async fn namespaces(&self) -> Result<Vec<Namespace>, ClusterError> {
        match self.needs.everything {
            true => self.list_or_gap(written_list(Kind::Namespaces, self.query.namespace.as_deref()), Some).await,
            false => Ok(Vec::new()),
        }
    }

    /// Reads the PodDisruptionBudgets, all of them for a dump.
    async fn budgets(&self) -> Result<Vec<PodDisruptionBudget>, ClusterError> {
        let kind = Kind::PodDisruptionBudgets;
        if !self.needs.budgets {
            return Ok(Vec::new());
        }
        if !self.needs.everything {
            return self.list_or_gap(List { namespace: self.query.namespace.clone(), ..List::of(kind) }, Some).await;
        }
        let read = self.live.list_or_cause(List::of(kind)).await;
        Ok(read.unwrap_or_else(|cause| {
            self.note_gap(kind, None, cause);
            Vec::new()
        }))
    }

    /// Reads a kind of class, if admission is simulated.
    async fn classes<T: Object>(&self, kind: Kind) -> Result<Vec<T>, ClusterError> {
        if !self.needs.scope.admission {
            return Ok(Vec::new());
        }
        self.if_possible(kind, self.list_or_gap(List::of(kind), Some)).await
    }

    async fn leases(&self) -> Result<Vec<Lease>, ClusterError> {
        if self.needs.cluster != Cluster::Nodes {
            return Ok(Vec::new());
        }
        let (namespace, name) = CONTROLLER_MANAGER;
        let list = List { namespace: Some(namespace.to_owned()), ..List::of(Kind::Leases) };
        let (of_controller, of_scheduler) =
            futures::join!(self.live.get::<Lease>(&list, name), self.live.get::<Lease>(&list, "kube-scheduler"));
        // Without it, unscheduled pods still show that the scheduler is down.
        let of_scheduler = of_scheduler.unwrap_or_default();
        let cause = match of_controller {
            // In some clusters, the controllers hold another lease.
            Ok(lease) => return Ok(lease.into_iter().chain(of_scheduler).collect()),
            Err(error) if error.is_forbidden() => GapCause::Forbidden(permission("get", Kind::Leases)),
            Err(error) => unreadable_lease(&error).ok_or(error)?,
        };
        self.note_gap(Kind::Leases, list.namespace, cause);
        Ok(of_scheduler.into_iter().collect())
    }
}

/// Returns whether a node lacks a CSI driver, according to the kubelet or the attach-detach controller, or its network.
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

/// Returns the cause of the gap if the server responded without the lease: answers do not depend on it.
pub(super) fn unreadable_lease(error: &ClusterError) -> Option<GapCause> {
    let (namespace, name) = CONTROLLER_MANAGER;
    let object = format!("Lease {namespace}/{name}");
    is_answer(error).then(|| GapCause::Unreadable { object, problem: error.to_string() })
}

/// Returns whether the server responded.
pub(super) fn is_answer(error: &ClusterError) -> bool {
    matches!(error, ClusterError::Api { .. } | ClusterError::NotFromApi { .. } | ClusterError::Answer { .. })
}

impl Live {
    /// Reads the nodes with these names that exist, and, unless they are many, which of the others do not according to the API server.
    pub(super) async fn nodes_named(
        &self,
        names: &BTreeSet<String>,
        keep: impl Fn(Node) -> Option<Node>,
    ) -> Result<(Vec<Node>, BTreeSet<String>), ClusterError> {
        let list = List::of(Kind::Nodes);
        if names.len() > NODE_BY_NODE {
            let keep = |node: Node| if names.contains(&node.metadata.name) { keep(node) } else { None };
            return Ok((self.list(list, keep).await?, BTreeSet::new()));
        }
        let read = futures::stream::iter(names).map(|name| self.get::<Node>(&list, name)).buffered(AT_ONCE);
        let (mut found, mut deleted) = (Vec::new(), BTreeSet::new());
        for (name, read) in names.iter().zip(read.collect::<Vec<_>>().await) {
            match read {
                Ok(Some(node)) => found.extend(keep(node)),
                Ok(None) => drop(deleted.insert(name.clone())),
                // Who may list them can usually get them.
                Err(error) if error.is_forbidden() => {}
                Err(error) => return Err(error),
            }
        }
        Ok((found, deleted))
    }

    /// Returns the events that tell of the deletion of these nodes, as far as they can be read.
    pub(super) async fn removals(&self, nodes: &BTreeSet<String>) -> Vec<Event> {
        let of_nodes = "involvedObject.kind=Node".to_owned();
        let field_selector = match nodes.first() {
            None => return Vec::new(),
            Some(node) if nodes.len() == 1 => format!("{of_nodes},involvedObject.name={node}"),
            Some(_) => of_nodes,
        };
        let list = List { namespace: Some("default".to_owned()), field_selector, ..List::of(Kind::Events) };
        let is_of_these = |event: &Event| event.is_removal_of_node() && nodes.contains(&event.involved_object.name);
        self.list(list, |event| Some(event).filter(is_of_these)).await.unwrap_or_default()
    }
}

/// Returns the nodes that a snapshot lacks although its pods are bound to them or target them.
///
/// Lists are read concurrently: a node that was created in between is missing, and its pods look as if their node had
/// been deleted. It counts as deleted only if it cannot be read by name.
pub(super) fn missing_nodes(snapshot: &Snapshot) -> BTreeSet<String> {
    let known: BTreeSet<&str> = snapshot.nodes.iter().map(|node| node.metadata.name.as_str()).collect();
    let named: BTreeSet<&str> = snapshot.pods.iter().flat_map(Pod::nodes).collect();
    named.difference(&known).map(|node| (*node).to_owned()).collect()
}

/// Returns the field selector of the object with a name.
pub(super) fn by_name(name: &str) -> String {
    format!("metadata.name={name}")
}

/// The most DaemonSets whose pods on other nodes are read to compare one node with the others.
const MOST_COMPARED: usize = 5;

/// Reads that a snapshot makes necessary. Anything that cannot be read is recorded in the snapshot.
impl Live {
    /// Adds every pod on these nodes, so that their free resources can be computed: node by node if they are few. Fails
    /// if the server cannot be read; forbidden pods become a gap.
    pub async fn read_pods_on(&self, snapshot: &mut Snapshot, nodes: &BTreeSet<String>) -> Result<(), ClusterError> {
        let wanted: BTreeSet<String> = nodes.iter().filter(|node| !snapshot.knows_all_pods_on(node)).cloned().collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let matcher = DaemonSetMatcher::new(&snapshot.daemon_sets.iter().collect::<Vec<_>>(), false);
        let keep = |pod| matcher.keep_pod(pod, ForeignPods::ForArithmetic);
        let one_by_one = wanted.len() <= NODE_BY_NODE;
        let selectors: Vec<String> = if one_by_one {
            wanted.iter().map(|node| on_node(node)).chain([UNBOUND.to_owned()]).collect()
        } else {
            vec![String::new()]
        };
        match self.list_each(Kind::Pods, selectors, keep).await {
            Ok(found) => {
                add_missing(&mut snapshot.pods, found);
                match &mut snapshot.pods_complete {
                    PodsComplete::On(complete) if one_by_one => complete.extend(wanted),
                    complete => *complete = PodsComplete::Everywhere,
                }
            }
            Err(error) if error.is_forbidden() => {
                let cause = GapCause::ForbiddenElsewhere(permission("list", Kind::Pods));
                add_gap(snapshot, Gap { kind: Kind::Pods, namespace: None, cause });
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns the pods that are not bound to a node.
    ///
    /// # Errors
    ///
    /// Fails if they cannot be read.
    pub(crate) async fn pending_pods(&self) -> Result<Vec<Pod>, ClusterError> {
        self.list_each(Kind::Pods, [UNBOUND.to_owned()], Some).await
    }

    /// Lists the objects of a kind that match one of several field selectors.
    async fn list_each<T: Object>(
        &self,
        kind: Kind,
        field_selectors: impl IntoIterator<Item = String>,
        keep: impl Fn(T) -> Option<T>,
    ) -> Result<Vec<T>, ClusterError> {
        let lists = field_selectors.into_iter().map(|field_selector| List { field_selector, ..List::of(kind) });
        futures::stream::iter(lists).map(|list| self.list(list, &keep)).buffered(AT_ONCE).try_concat().await
    }

    /// Adds the pods on these nodes with what may prevent their eviction, and the PodDisruptionBudgets. A failure does
    /// not fail the answer about DaemonSets.
    pub async fn read_held_pods(&self, snapshot: &mut Snapshot, nodes: &BTreeSet<String>) {
        if nodes.is_empty() {
            return;
        }
        let pods = self.list_each(Kind::Pods, nodes.iter().map(|node| on_node(node)), Some::<HeldPod>);
        let (pods, ()) = futures::join!(pods, self.read_budgets(snapshot));
        // The pods of the DaemonSets were read before: this is not a gap in the pods.
        snapshot.held_pods_unread = pods.as_ref().err().map(|error| unread("list", Kind::Pods, error));
        snapshot.held_pods = pods.unwrap_or_default();
    }

    /// Returns when the kubelets of these nodes last renewed the nodes' leases, by the clock of the API server, if
    /// readable.
    pub(crate) async fn kubelet_renewals(&self, nodes: &BTreeSet<String>) -> BTreeMap<String, Timestamp> {
        let leases = List { namespace: Some("kube-node-lease".to_owned()), ..List::of(Kind::Leases) };
        let renewed = nodes.iter().map(async |node| {
            let lease = self.get::<WrittenObject>(&leases, node).await.ok().flatten()?;
            Some((node.clone(), lease.written?.iter().map(|written| written.at).max()?))
        });
        join_all(renewed).await.into_iter().flatten().collect()
    }

    /// Adds all PodDisruptionBudgets of the cluster, without which it is uncertain which pods the scheduler preempts.
    pub async fn read_budgets(&self, snapshot: &mut Snapshot) {
        let kind = Kind::PodDisruptionBudgets;
        match self.list_or_cause(List::of(kind)).await {
            Ok(budgets) => (snapshot.pod_disruption_budgets, snapshot.budgets_complete) = (budgets, true),
            Err(cause) => drop(add_gap(snapshot, Gap { kind, namespace: None, cause })),
        }
    }

    /// Adds the LimitRanges of these namespaces, unless they were read.
    pub async fn read_limit_ranges(&self, snapshot: &mut Snapshot, mut namespaces: BTreeSet<String>) {
        let is_read = |namespace: &String| snapshot.limit_ranges.iter().any(|it| it.metadata.namespace == *namespace);
        namespaces.retain(|namespace| !is_read(namespace));
        self.read_in(snapshot, Kind::LimitRanges, namespaces, |all| &mut all.limit_ranges).await;
    }

    /// Adds the ResourceQuotas of the DaemonSets' namespaces.
    pub async fn read_quotas(&self, snapshot: &mut Snapshot) {
        self.read_in(snapshot, Kind::ResourceQuotas, own_namespaces(snapshot), |all| &mut all.resource_quotas).await;
    }

    /// Adds the objects of a kind in some namespaces, and returns whether those of any could be read.
    async fn read_in<T: Object>(
        &self,
        snapshot: &mut Snapshot,
        kind: Kind,
        namespaces: BTreeSet<String>,
        objects: fn(&mut Snapshot) -> &mut Vec<T>,
    ) -> bool {
        let mut is_read = false;
        for namespace in namespaces.into_iter().map(Some) {
            match self.list_or_cause(List { namespace: namespace.clone(), ..List::of(kind) }).await {
                Ok(found) => {
                    objects(snapshot).extend(found);
                    is_read = true;
                }
                Err(cause) => drop(add_gap(snapshot, Gap { kind, namespace, cause })),
            }
        }
        is_read
    }

    /// Adds the device classes, which may provide resources that nodes do not advertise.
    pub async fn read_device_classes(&self, snapshot: &mut Snapshot) {
        self.read_on_demand(snapshot, &[Kind::DeviceClasses]).await;
    }

    /// Adds the claims, volumes and what attaches them.
    pub async fn read_storage(&self, snapshot: &mut Snapshot) {
        self.read_on_demand(snapshot, &STORAGE).await;
    }

    /// Adds the claims to devices, what they are created from, and the devices.
    pub async fn read_device_claims(&self, snapshot: &mut Snapshot) {
        let has_classes = snapshot.read_on_demand.contains(&Kind::DeviceClasses);
        self.read_on_demand(snapshot, if has_classes { &DEVICES[1..] } else { &DEVICES }).await;
    }

    /// Adds the objects of kinds that are read on demand; of claims, those of the DaemonSets' namespaces if only these may be read.
    async fn read_on_demand(&self, snapshot: &mut Snapshot, kinds: &[Kind]) {
        // A server that answers none of them is waited for once.
        let reads = kinds
            .iter()
            .filter_map(|kind| with_place!(*kind, place => self.on_demand(*kind, place.of_mut).boxed_local()));
        for add in join_all(reads).await {
            add(snapshot);
        }
        for kind in kinds.iter().copied().filter(|kind| kind.is_claim()) {
            let cause = GapCause::ForbiddenElsewhere(permission("list", kind));
            if snapshot.gaps.contains(&Gap { kind, namespace: None, cause }) {
                let own = own_namespaces(snapshot);
                let is_read =
                    with_place!(kind, place => self.read_in(snapshot, kind, own, place.of_mut).boxed_local().await);
                snapshot.read_on_demand.extend(is_read.filter(|is_read| *is_read).map(|_| kind));
            }
        }
    }

    /// Lists a kind that is read on demand, and returns what adds the result to a snapshot.
    async fn on_demand<T: Object + 'static>(
        &self,
        kind: Kind,
        objects: fn(&mut Snapshot) -> &mut Vec<T>,
    ) -> Box<dyn FnOnce(&mut Snapshot)> {
        let found = match self.list(List::of(kind), Some).await {
            // A server that does not serve them has none.
            Err(error) if kind == Kind::DeviceClasses && error.is_not_served() => Ok(Vec::new()),
            // Claims may be readable in some namespaces.
            Err(error) if kind.is_claim() && error.is_forbidden() => {
                Err(GapCause::ForbiddenElsewhere(permission("list", kind)))
            }
            found => found.map_err(|error| unread("list", kind, &error)),
        };
        Box::new(move |snapshot| match found {
            Ok(found) => {
                *objects(snapshot) = found;
                snapshot.read_on_demand.insert(kind);
            }
            Err(cause) => drop(add_gap(snapshot, Gap { kind, namespace: None, cause })),
        })
    }

    /// For DaemonSets whose pod on this node has not become ready, adds their pods on other nodes. A failure does not
    /// prevent an answer about the node.
    pub async fn read_peers(&self, snapshot: &mut Snapshot, node: &str) {
        let is_in_trouble = |daemon_set: &&DaemonSet| {
            let uid = &daemon_set.metadata.uid;
            let is_own = |pod: &&Pod| pod.metadata.controller().is_some_and(|owner| owner.uid == *uid);
            let own = snapshot.pods.iter().filter(is_own);
            own.filter(|pod| pod.spec.node_name == node).any(|pod| !pod.is_ready() && !pod.metadata.is_terminating())
        };
        let daemon_sets: Vec<&DaemonSet> = snapshot.daemon_sets_of_any_flavor().filter(is_in_trouble).collect();
        let matcher = DaemonSetMatcher::new(&daemon_sets, true);
        let keep = |pod| matcher.keep_pod(pod, ForeignPods::Drop);
        let elsewhere = format!("spec.nodeName!={node}");
        let lists = daemon_sets
            .iter()
            .take(MOST_COMPARED)
            .map(|daemon_set| List { field_selector: elsewhere.clone(), ..List::of_selected(Kind::Pods, daemon_set) });
        let read = futures::stream::iter(lists).map(|list| self.list(list, keep)).buffered(AT_ONCE);
        let peers: Vec<Result<Vec<Pod>, ClusterError>> = read.collect().await;
        snapshot.peers = peers.into_iter().flatten().flatten().collect();
    }

    /// Adds the namespaces with these names. An unreadable one becomes a gap; one that does not exist is omitted.
    pub async fn read_namespaces(&self, snapshot: &mut Snapshot, names: &BTreeSet<String>) {
        let kind = Kind::Namespaces;
        let list = List::of(kind);
        if names.len() > ONE_BY_ONE {
            let is_named = |namespace: Namespace| names.contains(&namespace.metadata.name).then_some(namespace);
            match self.list(list.clone(), is_named).await {
                Ok(found) => return snapshot.namespaces.extend(found),
                // Users who may not list them may often get them.
                Err(error) if error.is_forbidden() => {}
                Err(error) => {
                    let cause = unread("list", kind, &error);
                    return snapshot.gaps.push(Gap { kind, namespace: None, cause });
                }
            }
        }
        let read = futures::stream::iter(names).map(|name| self.get::<Namespace>(&list, name)).buffered(AT_ONCE);
        for (name, read) in names.iter().zip(read.collect::<Vec<_>>().await) {
            match read {
                Ok(found) => snapshot.namespaces.extend(found),
                Err(error) => {
                    let cause = unread("get", kind, &error);
                    snapshot.gaps.push(Gap { kind, namespace: Some(name.clone()), cause });
                }
            }
        }
    }
}

/// The claims to volumes, the volumes, and what attaches them.
const STORAGE: [Kind; 7] = [
    Kind::PersistentVolumeClaims,
    Kind::PersistentVolumes,
    Kind::StorageClasses,
    Kind::CsiNodes,
    Kind::CsiDrivers,
    Kind::CsiStorageCapacities,
    Kind::VolumeAttachments,
];

/// The devices, and the claims to them.
const DEVICES: [Kind; 4] =
    [Kind::DeviceClasses, Kind::ResourceClaims, Kind::ResourceClaimTemplates, Kind::ResourceSlices];

fn own_namespaces(snapshot: &Snapshot) -> BTreeSet<String> {
    snapshot.daemon_sets.iter().map(|daemon_set| daemon_set.metadata.namespace.clone()).collect()
}

/// Selects the pods that are bound to a node.
fn on_node(node: &str) -> String {
    format!("spec.nodeName={node}")
}
