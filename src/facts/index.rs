//! A snapshot, indexed by what the rules look up: pods by DaemonSet and by node, events by object.
//!
//! Each index is built in one pass, so that an analysis stays linear in the size of the snapshot.

use core::net::IpAddr;
use std::cell::{OnceCell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Deref;

use jiff::Timestamp;

use super::node_removal::stuck_drain;
use super::revisions::{Revisions, fails};
use crate::model::controller_revision::ControllerRevision;
use crate::model::daemon_set::DaemonSet;
use crate::model::event::Event;
use crate::model::metadata::ObjectMeta;
use crate::model::node::{HOSTNAME, Node};
use crate::model::pod::{Pod, PodAffinityTerm, PodSpec};
use crate::model::snapshot::{Kind, Lease, Snapshot};
use crate::model::startup_taint::{is_startup, removes};
use crate::model::storage::Volume;
use crate::report::age::seconds_between;
use crate::scheduling::daemon_pods;
use crate::scheduling::device_claims::DeviceClaims;
use crate::scheduling::devices::Devices;
use crate::scheduling::neighborhood::{Neighborhood, Selected, Sorted};
use crate::scheduling::preemption::{Budgets, is_terminating_by_preemption};
use crate::scheduling::resources::{Amounts, amount, template_requests};
use crate::scheduling::should_run::DaemonPod;
use crate::scheduling::volumes::Storage;

/// Returns whether answers depend on device classes that were not read: a DaemonSet requests a resource that a node does not
/// advertise.
pub fn needs_device_classes<'a>(snapshot: &Snapshot, mut daemon_sets: impl Iterator<Item = &'a DaemonSet>) -> bool {
    let needs = |daemon_set: &DaemonSet| {
        let requests = template_requests(&daemon_set.spec.template.spec);
        snapshot.nodes.iter().any(|node| Devices::Unread.of_requests(&requests, node).next().is_some())
    };
    !snapshot.read_on_demand.contains(&Kind::DeviceClasses) && daemon_sets.any(needs)
}

/// Returns whether the pods of a DaemonSet have volumes by which the scheduler filters nodes, and what decides was not read.
pub fn needs_storage(snapshot: &Snapshot, daemon_set: &DaemonSet) -> bool {
    let was_read = snapshot.read_on_demand.contains(&Kind::PersistentVolumeClaims);
    !was_read && daemon_set.spec.template.spec.volumes.iter().any(Volume::is_filtered_by)
}

/// Returns whether the pods of a DaemonSet claim devices, or request a resource that device classes provide, and what decides was not read.
pub fn needs_device_claims(snapshot: &Snapshot, daemon_set: &DaemonSet) -> bool {
    let spec = &daemon_set.spec.template.spec;
    let requests_devices = || match Devices::of(snapshot) {
        Devices::Unread => false,
        known => snapshot.nodes.iter().any(|node| known.of_requests(&template_requests(spec), node).next().is_some()),
    };
    !snapshot.read_on_demand.contains(&Kind::ResourceClaims) && (!spec.resource_claims.is_empty() || requests_devices())
}

/// Returns whether such a thing is needed for a DaemonSet that has a pod without a node, or too few pods.
pub fn awaits(snapshot: &Snapshot, needs: fn(&Snapshot, &DaemonSet) -> bool) -> bool {
    let awaits = |daemon_set: &DaemonSet| {
        let is_own = |pod: &&Pod| daemon_pods::claim(daemon_set, pod).is_claimed();
        let own =
            || snapshot.pods.iter().filter(is_own).filter(|pod| !pod.is_terminal() && !pod.metadata.is_terminating());
        let bound = own().filter(|pod| !pod.spec.node_name.is_empty()).count();
        i64::try_from(bound).is_ok_and(|bound| bound < daemon_set.status.desired_number_scheduled)
            || own().any(|pod| pod.spec.node_name.is_empty())
    };
    let mut using = snapshot.daemon_sets_of_any_flavor().filter(|daemon_set| needs(snapshot, daemon_set));
    using.any(awaits)
}

/// A snapshot with its indices.
pub struct Index<'a> {
    /// The indexed snapshot.
    pub snapshot: &'a Snapshot,
    neighborhood: Neighborhood<'a>,
    owned: HashMap<&'a str, Vec<&'a Pod>>,
    orphans: HashMap<&'a str, Vec<&'a Pod>>,
    /// By namespace.
    controller_revisions: HashMap<&'a str, Vec<&'a ControllerRevision>>,
    nominated: Sorted,
    events: Sorted,
    budgets: Budgets<'a>,
    /// Claims, volumes and what attaches them.
    pub storage: Storage<'a>,
    /// Claims to devices, the devices, and the resources that these may provide.
    pub device_claims: DeviceClaims<'a>,
    /// Each key of a label that a node has, with one of its values.
    node_labels: OnceCell<BTreeMap<String, String>>,
    /// The indices of the nodes that are not ready, by their addresses.
    down: OnceCell<HashMap<IpAddr, usize>>,
    network_plugins: Selected,
    dns_pods: Selected,
    /// The indices of the DaemonSets that remove a taint, by its key.
    removers: RefCell<HashMap<String, Vec<usize>>>,
}

impl<'a> Deref for Index<'a> {
    type Target = Neighborhood<'a>;

    fn deref(&self) -> &Neighborhood<'a> {
        &self.neighborhood
    }
}

fn sorted<'a>(daemon_sets: impl Iterator<Item = &'a DaemonSet>) -> Vec<&'a DaemonSet> {
    let mut daemon_sets: Vec<&DaemonSet> = daemon_sets.collect();
    daemon_sets.sort_by_key(|daemon_set| (&daemon_set.metadata.namespace, &daemon_set.metadata.name));
    daemon_sets
}

impl<'a> Index<'a> {
    /// Indexes a snapshot.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let mut owned: HashMap<&str, Vec<&Pod>> = snapshot
            .daemon_sets_of_any_flavor()
            .map(|daemon_set| (daemon_set.metadata.uid.as_str(), Vec::new()))
            .collect();
        let mut orphans: HashMap<&str, Vec<&Pod>> = HashMap::new();
        for pod in &snapshot.pods {
            match pod.metadata.controller() {
                Some(owner) => {
                    if let Some(pods) = owned.get_mut(owner.uid.as_str()) {
                        pods.push(pod);
                    }
                }
                None => orphans.entry(&pod.metadata.namespace).or_default().push(pod),
            }
        }

        let mut controller_revisions: HashMap<&str, Vec<&ControllerRevision>> = HashMap::new();
        for revision in &snapshot.controller_revisions {
            controller_revisions.entry(&revision.metadata.namespace).or_default().push(revision);
        }
        Index {
            snapshot,
            neighborhood: Neighborhood::of(snapshot),
            owned,
            orphans,
            controller_revisions,
            nominated: Sorted::default(),
            events: Sorted::default(),
            budgets: Budgets::new(&snapshot.pod_disruption_budgets),
            storage: Storage::of(snapshot),
            device_claims: DeviceClaims::of(snapshot),
            node_labels: OnceCell::new(),
            down: OnceCell::new(),
            network_plugins: Selected::default(),
            dns_pods: Selected::default(),
            removers: RefCell::default(),
        }
    }

    /// Returns the known DaemonSets, including those that others depend on.
    pub fn all_daemon_sets(&self) -> impl Iterator<Item = &'a DaemonSet> + Clone + use<'a> {
        self.snapshot.daemon_sets.iter().chain(&self.snapshot.node_agents)
    }

    /// Returns the known DaemonSets that install a network plugin.
    pub fn network_plugins(&self) -> Vec<&'a DaemonSet> {
        self.network_plugins.among(self.all_daemon_sets(), DaemonSet::installs_network).collect()
    }

    /// Returns the known pods of the cluster DNS, which its Service selects by this label.
    pub fn dns_pods(&self) -> Vec<&'a Pod> {
        let is_dns = |pod: &Pod| pod.metadata.labels.get("k8s-app").is_some_and(|app| app == "kube-dns");
        self.dns_pods.among(self.snapshot.pods.iter(), is_dns).collect()
    }

    /// Returns the first IP address in a message that belongs to a node that is not ready, and that node.
    pub fn down_in(&self, message: &str) -> Option<(IpAddr, &'a Node)> {
        let down = self.down.get_or_init(|| {
            let nodes = self.nodes.iter().enumerate().filter(|(_, node)| node.not_ready().is_some());
            let addresses = nodes.flat_map(|(number, node)| node.status.addresses.iter().map(move |it| (it, number)));
            addresses.filter_map(|(it, number)| Some((it.address.parse().ok()?, number))).collect()
        });
        let words = message.split(|c: char| !(c.is_ascii_hexdigit() || matches!(c, '.' | ':')));
        let addresses = words.map(|word| word.trim_matches(['.', ':'])).map(|word| match word.split_once(':') {
            // A port may follow.
            Some((address, _)) if address.contains('.') => address,
            _ => word,
        });
        let mut addresses = addresses.filter_map(|word| word.parse().ok());
        addresses.find_map(|address| Some((address, self.nodes[*down.get(&address)?])))
    }

    /// Returns the DaemonSets that remove a taint with this key once they run on a node.
    pub fn removers_of(&self, key: &str) -> Vec<&'a DaemonSet> {
        if !is_startup(key) {
            return Vec::new();
        }
        let daemon_sets: Vec<&DaemonSet> = self.all_daemon_sets().collect();
        let mut known = self.removers.borrow_mut();
        let positions = known.entry(key.to_owned()).or_insert_with(|| {
            (0..daemon_sets.len()).filter(|position| removes(daemon_sets[*position], key)).collect()
        });
        positions.iter().map(|position| daemon_sets[*position]).collect()
    }

    /// Returns the DaemonSets, by namespace and name.
    pub fn daemon_sets(&self) -> Vec<&'a DaemonSet> {
        sorted(self.snapshot.daemon_sets.iter())
    }

    /// Returns Kubernetes' own DaemonSets and OpenKruise's, by namespace and name.
    pub fn daemon_sets_of_any_flavor(&self) -> Vec<&'a DaemonSet> {
        sorted(self.snapshot.daemon_sets_of_any_flavor())
    }

    /// Returns the pods that a DaemonSet controls or may adopt.
    fn possible_pods_of(&self, daemon_set: &DaemonSet) -> impl Iterator<Item = &'a Pod> {
        let owned = self.owned.get(daemon_set.metadata.uid.as_str());
        let orphans = self.orphans.get(daemon_set.metadata.namespace.as_str());
        owned.into_iter().chain(orphans).flatten().copied()
    }

    /// Returns the pods that the controller counts as a DaemonSet's, with the nodes that they are bound to or target.
    pub fn pods_of(&self, daemon_set: &DaemonSet) -> impl Iterator<Item = (&'a str, &'a Pod)> {
        let counted = self.possible_pods_of(daemon_set).filter(|pod| daemon_pods::is_counted(daemon_set, pod));
        counted.filter_map(|pod| Some((daemon_pods::target_node(pod)?, pod)))
    }

    /// Finds the revisions of a DaemonSet.
    pub(crate) fn revisions(&self, daemon_set: &'a DaemonSet) -> Revisions<'a> {
        let in_namespace = self.controller_revisions.get(daemon_set.metadata.namespace.as_str());
        let in_namespace = in_namespace.into_iter().flatten().copied();
        Revisions::among(daemon_set, in_namespace, self.possible_pods_of(daemon_set), self.snapshot)
    }

    /// Returns the unbound pods that the scheduler has nominated for a node.
    pub fn nominated_for(&self, node: &str) -> Vec<&'a Pod> {
        let key = |pod: &'a Pod| (pod.spec.node_name.as_str(), pod.status.nominated_node_name.as_str());
        self.nominated.find(&self.snapshot.pods, key, &("", node))
    }

    /// Returns the PodDisruptionBudgets, or `None` unless all of the cluster were read.
    pub fn budgets(&self) -> Option<&Budgets<'a>> {
        Some(&self.budgets).filter(|_| self.snapshot.budgets_complete)
    }

    /// Returns the events about all objects of a name, newest first.
    pub fn events_named(&self, kind: &str, namespace: &str, name: &str) -> Vec<&'a Event> {
        let about = |event: &'a Event| {
            let about = &event.involved_object;
            (about.kind.as_str(), about.namespace.as_str(), about.name.as_str())
        };
        let mut events = self.events.find(&self.snapshot.events, about, &(kind, namespace, name));
        events.sort_by_key(|event| Reverse(event.last_seen()));
        events
    }

    /// Returns the events about an object, newest first, except those about a former object with the same name.
    pub fn events_about(&self, kind: &str, object: &ObjectMeta) -> Vec<&'a Event> {
        let mut events = self.events_named(kind, &object.namespace, &object.name);
        let same = |uid: &str| uid.is_empty() || object.uid.is_empty() || uid == object.uid;
        events.retain(|event| same(&event.involved_object.uid));
        events
    }

    /// Returns when a kubelet last gave a sign of life: it renews its lease more often than it posts the status of its node.
    pub fn last_posted(&self, node: &Node) -> Option<Timestamp> {
        let name = node.metadata.name.as_str();
        let mut leases = self.snapshot.leases.iter().filter(|lease| lease.metadata.is_named("kube-node-lease", name));
        let posted = node.condition("Ready").and_then(|ready| ready.last_heartbeat_time.get());
        posted.max(leases.find_map(Lease::renewed_at))
    }

    /// Returns whether nodes are known, possibly not all of them; without any, they may not have been read.
    pub fn knows_some_nodes(&self) -> bool {
        !self.nodes.is_empty() || self.nodes_are_read()
    }

    /// Returns each key of a label that a node has, with one of its values.
    pub fn node_labels(&self) -> &BTreeMap<String, String> {
        self.node_labels.get_or_init(|| {
            let mut labels = BTreeMap::new();
            for (key, value) in self.nodes.iter().flat_map(|node| &node.metadata.labels) {
                if !labels.contains_key(key) {
                    labels.insert(key.clone(), value.clone());
                }
            }
            labels
        })
    }

    /// Returns the most that a node has of each resource on which such a pod is to run, if all nodes were read.
    pub fn largest_allocatable(&self, pod: &DaemonPod) -> Option<Amounts> {
        let mut largest = Amounts::new();
        for node in self.nodes.iter().filter(|node| pod.decide(node).should_run) {
            for (resource, quantity) in &node.status.allocatable {
                let most = largest.entry(resource.clone()).or_default();
                *most = amount(resource, quantity).max(*most);
            }
        }
        self.knows_all_nodes().then_some(largest)
    }

    /// Tells whether a kind could be read in a namespace.
    pub fn knows(&self, kind: Kind, namespace: &str) -> bool {
        self.snapshot.gap(kind, namespace).is_none()
    }

    /// Returns the point in time from which ages are counted.
    pub fn now(&self) -> Timestamp {
        self.snapshot.now
    }
}

/// The most nodes whose pods are all read because a pod fails: if it fails on more, other pods are hardly the cause.
const FEW: usize = 20;

fn few(nodes: BTreeSet<String>) -> BTreeSet<String> {
    Some(nodes).filter(|nodes| nodes.len() <= FEW).unwrap_or_default()
}

/// Returns the nodes for which to read what prevents the eviction of their pods: those whose drain is stuck, if they are few.
pub fn nodes_with_held_pods(snapshot: &Snapshot) -> BTreeSet<String> {
    few(stuck_drains(snapshot).collect())
}

fn stuck_drains(snapshot: &Snapshot) -> impl Iterator<Item = String> {
    let stuck = snapshot.nodes.iter().filter(|node| stuck_drain(node, snapshot.now).is_some());
    stuck.map(|node| node.metadata.name.clone())
}

/// Returns the UIDs of the controllers of pods that fail.
pub fn owners_of_failing_pods(snapshot: &Snapshot) -> BTreeSet<String> {
    let failing = snapshot.pods.iter().filter(|pod| fails(pod, snapshot.now));
    failing.filter_map(|pod| Some(pod.metadata.controller()?.uid.to_string())).collect()
}

/// Returns the namespaces of DaemonSets that have fewer pods than their status wants, or pending pods with a different
/// node selector than the template: whether pods can be created there, and what admission adds to them, must be known. If a
/// rule about other pods selects namespaces by their labels, all namespaces that may match.
pub fn namespaces_to_read(snapshot: &Snapshot) -> BTreeSet<String> {
    let mut pods: HashMap<&str, Vec<&Pod>> = HashMap::new();
    // Those that are to be adopted are left out: to read more does no harm.
    for pod in snapshot.pods.iter().filter(|pod| !pod.metadata.is_terminating() && !pod.is_terminal()) {
        pods.entry(pod.metadata.controller().map_or("", |owner| owner.uid.as_str())).or_default().push(pod);
    }
    let lacks = |daemon_set: &&DaemonSet| {
        let has = pods.get(daemon_set.metadata.uid.as_str()).map_or(&[][..], Vec::as_slice);
        let selector = &daemon_set.spec.template.spec.node_selector;
        let is_changed = |pod: &&Pod| pod.spec.node_name.is_empty() && pod.spec.node_selector != *selector;
        i64::try_from(has.len()).is_ok_and(|has| has < daemon_set.status.desired_number_scheduled)
            || has.iter().any(is_changed)
    };
    let namespaces = |objects: &mut dyn Iterator<Item = &ObjectMeta>| -> BTreeSet<String> {
        objects.map(|metadata| metadata.namespace.clone()).collect()
    };
    let selects = |term: &PodAffinityTerm| term.namespace_selector.as_ref().is_some_and(|it| !it.is_empty());
    let template = |daemon_set: &DaemonSet| {
        let spec = &daemon_set.spec.template.spec;
        spec.required_pod_affinity().iter().chain(spec.required_pod_anti_affinity()).any(selects)
    };
    let mut found = namespaces(&mut snapshot.daemon_sets_of_any_flavor().filter(lacks).map(|one| &one.metadata));
    if snapshot.daemon_sets_of_any_flavor().any(template) {
        found.extend(namespaces(&mut snapshot.pods.iter().map(|pod| &pod.metadata)));
    }
    if snapshot.pods.iter().any(|pod| pod.spec.required_pod_anti_affinity().iter().any(selects)) {
        found.extend(namespaces(&mut snapshot.daemon_sets_of_any_flavor().map(|one| &one.metadata)));
    }
    found
}

/// How many seconds a pod may be starting before it counts as failing.
pub(crate) const STARTUP: i64 = 60;

/// Returns whether the pods of other nodes decide where a pod may run.
fn goes_by_other_nodes(spec: &PodSpec) -> bool {
    let is_wider = |term: &PodAffinityTerm| term.topology_key != HOSTNAME;
    !spec.required_pod_affinity().is_empty()
        || spec.required_pod_anti_affinity().iter().any(is_wider)
        || spec.topology_spread_constraints.iter().any(|it| it.node_affinity_policy.as_deref() == Some("Ignore"))
}

/// Returns the nodes whose pods must all be read: those that a pod waits for, whose free resources matter, or is preempted on; all nodes, if other
/// pods decide; and, if they are few, those on which a pod fails, because others may fail there, too, and those whose drain is stuck.
pub fn nodes_needing_all_pods(snapshot: &Snapshot) -> BTreeSet<String> {
    let index = Index::new(snapshot);
    let is_young = |pod: &Pod| {
        pod.metadata.creation_timestamp.get().is_none_or(|created| seconds_between(created, snapshot.now) < STARTUP)
    };
    // If a node is down, all of its pods fail because of that.
    let fails = |pod: &Pod| {
        let is_up = || index.node(&pod.spec.node_name).is_some_and(|node| node.not_ready().is_none());
        !pod.is_ready() && !pod.metadata.is_terminating() && !is_young(pod) && is_up()
    };
    let mut nodes = few(stuck_drains(snapshot).filter(|node| !snapshot.knows_all_pods_on(node)).collect());
    let waits_by_others = |pod: &Pod| pod.waits_for_node() && goes_by_other_nodes(&pod.spec);
    for daemon_set in snapshot.daemon_sets_of_any_flavor() {
        if index.pods_of(daemon_set).any(|(_, pod)| waits_by_others(pod)) {
            let all = snapshot.nodes.iter().map(|node| &node.metadata.name);
            nodes.extend(all.filter(|node| !snapshot.knows_all_pods_on(node)).cloned());
        }
        let needed = |is: &dyn Fn(&Pod) -> bool| -> BTreeSet<String> {
            let found = index.pods_of(daemon_set).filter(|(_, pod)| is(pod)).map(|(node, _)| node);
            let is_needed = |node: &&str| index.node(node).is_some() && !snapshot.knows_all_pods_on(node);
            found.filter(is_needed).map(str::to_owned).collect()
        };
        nodes.extend(needed(&|pod| pod.waits_for_node() || is_terminating_by_preemption(pod)));
        nodes.extend(few(needed(&fails)));
    }
    nodes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{FEW, Index, nodes_needing_all_pods};
    use crate::facts::test_support::{at, world};
    use crate::model::snapshot::PodsComplete;

    #[test]
    fn events_about_a_former_object_of_the_same_name_are_left_out() {
        for (event_uid, object_uid, is_about) in [
            ("now", "now", true),
            ("before", "now", false),
            // An event created by hand, or an object from a dump, may have none.
            ("", "now", true),
            ("now", "", true),
        ] {
            let mut world =
                world().node("n", json!({"metadata": {"uid": object_uid}})).event("Node", "n", "R", "m", "11:59:00");
            event_uid.clone_into(&mut world.snapshot.events[0].involved_object.uid);
            let snapshot = world.finish();
            let index = Index::new(&snapshot);
            let events = index.events_about("Node", &snapshot.nodes[0].metadata);
            assert_eq!(!events.is_empty(), is_about, "{event_uid:?} {object_uid:?}");
        }
    }

    #[test]
    fn all_pods_are_needed_of_the_nodes_that_a_pod_waits_for_and_whose_pods_were_not_read() {
        let mut snapshot = world()
            .node("bound", json!({}))
            .pod("agent-bound", "bound", json!({}))
            .node("ended", json!({}))
            .pending_pod("agent-ended", "ended", "", json!({"status": {"phase": "Failed"}}))
            .node("read", json!({}))
            .pending_pod("agent-read", "read", "", json!({}))
            .node("waits", json!({}))
            .pending_pod("agent-waits", "waits", "", json!({}))
            .pending_pod("agent-gone", "gone", "", json!({}))
            .finish();
        snapshot.pods_complete = PodsComplete::On(["read".to_owned()].into());
        assert_eq!(nodes_needing_all_pods(&snapshot), ["waits".to_owned()].into());
    }

    #[test]
    fn all_pods_are_needed_of_the_few_nodes_whose_drain_is_stuck() {
        let taint =
            |time: &str| json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule", "timeAdded": at(time)});
        let needed = |stuck: usize| {
            let tainted = |time: &str| json!({"spec": {"taints": [taint(time)]}});
            let world = world().node("fine", json!({})).node("drains", tainted("11:50:00"));
            let mut snapshot =
                (0..stuck).fold(world, |world, i| world.node(&format!("s{i}"), tainted("11:00:00"))).finish();
            snapshot.pods_complete = PodsComplete::On([].into());
            nodes_needing_all_pods(&snapshot).len()
        };
        assert_eq!((needed(0), needed(2), needed(FEW), needed(FEW + 1)), (0, 2, FEW, 0));
    }

    #[test]
    fn all_pods_are_needed_of_the_few_nodes_where_a_pod_has_failed_for_a_while() {
        let failing = |nodes: usize| {
            (0..nodes).fold(world(), |world, number| {
                let node = format!("fails-{number:02}");
                world.node(&node, json!({})).unready_pod(&format!("agent-{node}"), &node, json!({}), json!({}))
            })
        };
        let needed = |nodes: usize| {
            let young = json!({"metadata": {"creationTimestamp": at("11:59:01")}});
            let mut snapshot = failing(nodes)
                .node("works", json!({}))
                .pod("agent-works", "works", json!({}))
                .node("starts", json!({}))
                .unready_pod("agent-starts", "starts", json!({}), young)
                .node("down", json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}))
                .unready_pod("agent-down", "down", json!({}), json!({}))
                .node("waits", json!({}))
                .pending_pod("agent-waits", "waits", "", json!({}))
                .finish();
            snapshot.pods_complete = PodsComplete::default();
            nodes_needing_all_pods(&snapshot).into_iter().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(needed(2), "fails-00 fails-01 waits");
        assert_eq!(needed(FEW).split(' ').count(), FEW + 1);
        assert_eq!(needed(FEW + 1), "waits");
    }
}
