//! A hypothetical DaemonSet: on which nodes its pods run and fit, and why they would not start at all.

use std::cell::OnceCell;

use super::verdict::admission::{self, service_account};
use super::verdict::admission_changes;
use super::verdict::claims;
use super::verdict::create_failure;
use super::verdict::eligibility;
use super::verdict::finding::{Finding, edit};
use super::verdict::fit::{NodeRoom, port_conflicts};
use super::verdict::other_pods;
use super::verdict::pod_claims;
use super::verdict::preemption::{Simulation, fits_by_preemption, reported};
use super::verdict::scheduler_report::node_feature_missing;
use super::verdict::sentence::Sentence;
use crate::facts::Facts;
use crate::facts::index::Index;
use crate::model::daemon_set::{DaemonSet, UpdateStrategy};
use crate::model::image;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::snapshot::{Kind, Snapshot};
use crate::report::coverage::Incomplete;
use crate::report::preview::NodePreemption;
use crate::report::reason::ReasonCode;
use crate::report::{count, count_and};
use crate::scheduling::daemon_pods;
use crate::scheduling::declared_features::{declared, required};
use crate::scheduling::device_claims::{self, Open};
use crate::scheduling::neighborhood::{Obstacle, Outcome};
use crate::scheduling::pod_affinity::{AffinityRejection, InterPodAffinity};
use crate::scheduling::preemption::{NEVER, priority};
use crate::scheduling::resources::{Amounts, template_requests};
use crate::scheduling::rolling_update::allows_surge;
use crate::scheduling::should_run::DaemonPod;
use crate::scheduling::topology_spread::{PodTopologySpread, SpreadRejection};
use crate::scheduling::volumes::{Rejection, Unread};

/// Whether an API server would admit the pods of a proposed DaemonSet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Admission {
    /// The message with which it would reject them.
    pub refusal: Option<String>,
    /// The kinds and names of objects that the pods mount but that do not exist.
    pub missing: Vec<(&'static str, String)>,
    /// What could not be checked, in sentences.
    pub unknown: Vec<String>,
    /// Whether no API server was asked: only the names in a dump were checked.
    pub is_of_dump: bool,
}

/// Whether a pod fits on a node.
pub(super) enum Fit {
    Fits,
    /// The scheduler preempts other pods for it.
    ByPreemption(Finding, NodePreemption),
    /// Whether it has is not known.
    Unknown(Unknown),
    /// It does not fit, or something else prevents it from running there.
    Lacks(Finding),
}

/// Why it is not known whether a pod has room on a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unknown {
    /// Not all pods of the node were read.
    Room,
    /// Not all pods or namespaces were read that a rule about other pods goes by.
    OtherPods,
    /// Something was not read by which the volumes of the pod keep it from nodes.
    Volumes(Unread),
    /// What leaves open whether a node can have the devices that the pods claim.
    Devices(Open),
    /// Whether the scheduler looks at what kubelets declare; the pods need these features.
    Features(String),
    /// All pods share this claim, which one pod may use at a time, or which will be bound to a volume of the node of the first.
    SharedClaim(String),
    /// Pods of lower priority keep the pods from the node; whether the scheduler preempts them for that is not simulated.
    Preemption,
    /// A rule of the template about its own pods goes by this label, so that it depends on which of them are placed first.
    Order(String),
}

impl Unknown {
    /// Returns the gap that this leaves in the answer, for a number of nodes.
    pub(super) fn incomplete(self, nodes: usize) -> Incomplete {
        let on = count(nodes, "node");
        let affects_counts = matches!(self, Unknown::Room | Unknown::OtherPods);
        let (resource, message) = match self {
            Unknown::Room => ("pods", format!("not every pod on {on} was read: whether the pods fit is not known")),
            Unknown::OtherPods => (
                "pods",
                format!(
                    "not all pods or namespaces were read: whether other pods keep the pods from {on} is not known"
                ),
            ),
            Unknown::Volumes(unread) => {
                let resource = if let Unread::Kind(kind) = unread { kind.resource() } else { "persistentvolumeclaims" };
                let why = pod_claims::unread_text(&unread);
                (resource, format!("{why}: whether {on} can have the volumes of the pods is not known"))
            }
            Unknown::Devices(open) => {
                let resource = if let Open::Unread(kind) = open { kind.resource() } else { "resourceclaims" };
                let why = claims::open_text(&open);
                (resource, format!("{why}: whether {on} can have the devices of the pods is not known"))
            }
            Unknown::Features(features) => (
                "nodes",
                format!(
                    "whether the scheduler looks at what kubelets declare is not known: the pods need {features}, which {} not declare",
                    count_and(nodes, "node", ["does", "do"])
                ),
            ),
            Unknown::SharedClaim(claim) => (
                "persistentvolumeclaims",
                format!(
                    "all pods share claim {claim}: whether they fit on {on} depends on which of them is placed first"
                ),
            ),
            Unknown::Preemption => (
                "pods",
                format!(
                    "pods of lower priority keep the pods from {on}, by an anti-affinity, a topology spread or volumes: whether the \
                     scheduler preempts them is not computed"
                ),
            ),
            Unknown::Order(key) => (
                "pods",
                format!(
                    "a rule of the template about its own pods goes by {key}: whether they fit on {on} depends on which of them are \
                     placed first"
                ),
            ),
        };
        Incomplete::new(resource, message, affects_counts)
    }
}

/// A proposed DaemonSet, and what it would replace.
pub(super) struct ProposedDaemonSet<'a> {
    index: &'a Index<'a>,
    proposed: &'a DaemonSet,
    /// The pod that the controller would create.
    pub(super) pod: DaemonPod,
    new_pod: Pod,
    /// Which pods count for its affinity: without those that it replaces, and with them.
    pod_affinity: [OnceCell<InterPodAffinity<'a>>; 2],
    requests: Amounts,
    largest: OnceCell<Option<Amounts>>,
    pub(super) live: Option<&'a DaemonSet>,
    /// The pods of the live one; without it, orphaned pods that the controller would adopt.
    pub(super) pods: Facts<'a>,
    /// Whether pods are replaced. The order of lists matters: the controller compares templates byte by byte.
    pub(super) template_changes: Option<bool>,
    /// The hash of the older revision that has the proposed template.
    returns_to: Option<String>,
    /// Why no pod would start on any node.
    pub(super) refused: Option<Finding>,
}

impl<'a> ProposedDaemonSet<'a> {
    /// Compares a DaemonSet with the live one of the same namespace and name, which may be the same object.
    pub(super) fn new(index: &'a Index<'a>, proposed: &'a DaemonSet, admission: Option<&Admission>) -> Self {
        let live = index.snapshot.daemon_set(&proposed.metadata.namespace, &proposed.metadata.name);
        let pods = Facts::new(index, live.unwrap_or(proposed));
        let existing = live.and_then(|_| pods.revisions.of_template(&proposed.template()));
        let hash = existing.map_or("", |revision| revision.object.hash());
        let new_pod = admission::created(admission::admitted(index.snapshot, proposed), proposed, hash);
        ProposedDaemonSet {
            index,
            proposed,
            pod: DaemonPod::new(&proposed.spec.template),
            requests: template_requests(&new_pod.spec),
            refused: refused(index.snapshot, proposed, live.is_some(), admission)
                .map(|refused| for_manifest(refused, proposed)),
            new_pod,
            pod_affinity: Default::default(),
            largest: OnceCell::new(),
            returns_to: existing.filter(|existing| !existing.is_current).map(|older| older.object.hash().to_owned()),
            live,
            pods,
            template_changes: live.map(|live| live.template().normal() != proposed.template().normal()),
        }
    }

    /// Returns whether there is a pod for the node with this index.
    pub(super) fn has_pod(&self, number: usize) -> bool {
        !self.pods.node_pods[number].pods.is_empty()
    }

    /// Returns whether all pods for the node with this index are waiting to be scheduled.
    pub(super) fn waits_for_room(&self, number: usize) -> bool {
        let pods = &self.pods.node_pods[number].pods;
        !pods.is_empty() && pods.iter().all(|pod| pod.spec.node_name.is_empty())
    }

    /// Returns whether a rolling update deletes the old pods, including those on ineligible nodes.
    pub(super) fn replaces_pods(&self) -> bool {
        self.template_changes == Some(true) && self.proposed.spec.update_strategy != UpdateStrategy::OnDelete
    }

    /// Returns whether the node with this index has a bound pod that stays as it is: the template does not change, or
    /// the pod has that of an older revision, which becomes current again.
    pub(super) fn keeps_pod(&self, number: usize) -> bool {
        let stays =
            |pod: &Pod| self.template_changes == Some(false) || self.returns_to.as_deref() == Some(pod.revision_hash());
        let is_bound = |pod: &Pod| !pod.spec.node_name.is_empty() && !pod.metadata.is_terminating();
        self.pods.node_pods[number].pods.iter().any(|pod| is_bound(pod) && stays(pod))
    }

    /// Finds why a node would lose its pod.
    pub(super) fn loss(&self, node: &Node, may_stay: bool) -> Option<Finding> {
        let why = eligibility::findings(self.index, self.proposed, node, &self.pod.explain(node));
        let mut finding = for_manifest(why.into_iter().next()?, self.proposed);
        if may_stay {
            finding.message = finding.message.words(" (the running pod may stay, but would not be recreated)");
        }
        Some(finding)
    }

    /// Tells whether a pod fits on an eligible node.
    pub(super) fn fit(&self, node: &Node, runs_now: bool) -> Fit {
        let injected = admission_changes::injected_node_selector(
            self.index.snapshot,
            self.proposed,
            node,
            &self.new_pod.spec.node_selector,
        );
        if let Some(injected) = injected {
            return Fit::Lacks(injected);
        }
        let own = |pod: &Pod| daemon_pods::claim(self.pods.daemon_set, pod).is_claimed();
        // While surging, the old pod keeps its resources and ports until the new one is available.
        let beside = allows_surge(self.proposed) && self.template_changes == Some(true) && runs_now;
        let room = NodeRoom::without(self.index, node, &self.new_pod, |pod| !beside && own(pod));
        let Some(room) = room else { return Fit::Unknown(Unknown::Room) };
        let is_old = |pod: &&Pod| own(pod) && !pod.spec.node_name.is_empty() && !pod.metadata.is_terminating();
        let old = room.pods.iter().copied().find(is_old).filter(|_| beside);
        let largest = self.largest.get_or_init(|| self.index.largest_allocatable(&self.pod));
        let room = room.surging(old).among(largest.as_ref());
        let ports = port_conflicts(&room.pods, &self.new_pod.spec, old);
        let shortages = room.shortages(&self.requests).into_iter().map(|(_, finding)| finding);
        let by_others = self.by_others(node, beside);
        let Some(obstacle) = ports.into_iter().chain(shortages).next() else {
            return by_others.unwrap_or(Fit::Fits);
        };
        // What preemption does for a pod that something else keeps from the node, too, is not simulated.
        if matches!(by_others, Some(Fit::Lacks(_))) {
            return Fit::Lacks(obstacle);
        }
        let is_priority_known = self.new_pod.spec.priority.is_some();
        let simulation = is_priority_known.then(|| Simulation::new(self.index, &room, &self.new_pod, &self.requests));
        match simulation.flatten() {
            None => Fit::Lacks(obstacle),
            Some(simulation) => match simulation.victims() {
                // What is not known may keep the pod from the node, whoever makes room.
                Some(victims) => {
                    by_others.unwrap_or_else(|| Fit::ByPreemption(fits_by_preemption(victims), reported(victims)))
                }
                None => Fit::Lacks(simulation.told(obstacle, &self.index.snapshot.priority_classes)),
            },
        }
    }
}

impl<'a> ProposedDaemonSet<'a> {
    /// Tells what else than the resources and ports of an eligible node keeps a pod from it, or may; `None` if nothing does. They are the
    /// filters of [`FILTERS`](super::verdict::filters::FILTERS), for a pod that does not exist: those that it replaces leave, and the manifest
    /// may create what it needs.
    fn by_others(&self, node: &Node, beside: bool) -> Option<Fit> {
        let (index, pod) = (self.index, &self.new_pod);
        let leaves = |pod: &Pod| !beside && daemon_pods::claim(self.pods.daemon_set, pod).is_claimed();
        let by_volumes = match pod_claims::filter(index, node, pod, leaves) {
            // What pods lack to start is found for the manifest as a whole, which may create it.
            Err(Obstacle::Rejects(Rejection::ClaimNotFound(_))) => Ok(()),
            found => found,
        };
        let (by_other_pods, order) = self.other_pods(node, beside);
        let by_devices = match index.device_claims.filter(pod, node, leaves) {
            // The manifest may create it.
            Err(Obstacle::Rejects(
                device_claims::Rejection::ClaimNotFound(name) | device_claims::Rejection::TemplateNotFound(name),
            )) => Err(Open::NotCreated(name).into()),
            found => found,
        };
        let by_kubelet = declared(&pod.spec, node, &index.nodes);
        let volumes_yield = match &by_volumes {
            Err(Obstacle::Rejects(Rejection::DiskConflict(_, other) | Rejection::InUse(_, other))) => {
                self.preempts(node, Some(other))
            }
            Err(Obstacle::Rejects(Rejection::TooMany { .. })) => self.preempts(node, None),
            _ => false,
        };
        let pods_yield = match &by_other_pods {
            Outcome::Rejects(other_pods::Rejection::Affinity(
                AffinityRejection::Excludes(_, other) | AffinityRejection::IsExcluded(_, other),
            )) => self.preempts(node, Some(other)),
            Outcome::Rejects(other_pods::Rejection::Spread(SpreadRejection::Skew { .. })) => self.preempts(node, None),
            _ => false,
        };
        let lacks = match (&by_volumes, &by_other_pods, &by_devices, &by_kubelet) {
            (Err(Obstacle::Rejects(why)), ..) if !volumes_yield => {
                Some(pod_claims::told(why, self.proposed, node, pod))
            }
            (_, Outcome::Rejects(why), ..) if !pods_yield => Some(why.finding(self.proposed, node)),
            (_, _, Err(Obstacle::Rejects(why)), _) => Some(claims::told(why, pod)),
            (.., Outcome::Rejects(missing)) => Some(node_feature_missing(node, missing)),
            _ => None,
        };
        if let Some(lacks) = lacks {
            return Some(Fit::Lacks(for_manifest(lacks, self.proposed)));
        }
        if volumes_yield || pods_yield {
            return Some(Fit::Unknown(Unknown::Preemption));
        }
        let is_other = |other: &&Node| other.metadata.name != node.metadata.name && self.pod.decide(other).should_run;
        let shared = || {
            let claim = index.storage.claim_for_the_first(pod)?;
            index.nodes.iter().copied().any(|other| is_other(&other)).then_some(Unknown::SharedClaim(claim))
        };
        let unknown = match (by_volumes, by_other_pods, by_devices, by_kubelet) {
            (Err(Obstacle::Unknown(unread)), ..) => Some(Unknown::Volumes(unread)),
            (_, Outcome::Unknown, ..) => Some(Unknown::OtherPods),
            (_, _, Err(Obstacle::Unknown(open)), _) => Some(Unknown::Devices(open)),
            (.., Outcome::Unknown) => Some(Unknown::Features(required(&pod.spec).collect::<Vec<_>>().join(", "))),
            _ => shared().or(order),
        };
        unknown.map(Fit::Unknown)
    }

    /// Returns whether the scheduler may preempt a pod, or some pod of the node, because of which a filter rejects the node.
    fn preempts(&self, node: &Node, holder: Option<&Pod>) -> bool {
        let pod = &self.new_pod;
        let is_lower = |other: &&Pod| other.spec.node_name == node.metadata.name && priority(other) < priority(pod);
        pod.spec.priority.is_some()
            && pod.spec.preemption_policy != NEVER
            && match holder {
                Some(holder) => is_lower(&holder),
                None => self.index.bound_to(&node.metadata.name).iter().any(is_lower),
            }
    }

    /// Tells whether other pods let a pod run on an eligible node, and if they do, on what that depends.
    fn other_pods(&self, node: &Node, beside: bool) -> (Outcome<other_pods::Rejection<'a>>, Option<Unknown>) {
        let index = self.index;
        let leaves = |pod: &Pod| !beside && daemon_pods::claim(self.pods.daemon_set, pod).is_claimed();
        let pod = daemon_pods::meant_for(&self.new_pod, &node.metadata.name);
        let spread = PodTopologySpread::new(&pod, index, leaves);
        let affinity =
            self.pod_affinity[usize::from(beside)].get_or_init(|| InterPodAffinity::new(&self.new_pod, index, leaves));
        let outcome = other_pods::filter(index, &spread, affinity, node, &pod);
        if outcome != Outcome::Passes || !other_pods::has_rules(&self.new_pod.spec) {
            return (outcome, None);
        }
        let by_spread = spread.binds_its_kind();
        if by_spread.is_none() && !affinity.spans_nodes() {
            return (outcome, None);
        }
        let binds = |other: &Node| by_spread.or_else(|| affinity.binds_its_kind(node, other));
        let others = index.nodes.iter().filter(|other| other.metadata.name != node.metadata.name);
        let mut keys = others.filter_map(|other| binds(other).filter(|_| self.pod.decide(other).should_run));
        (outcome, keys.next().map(|key| Unknown::Order(key.to_owned())))
    }
}

/// Drops a command that edits the live DaemonSet: the manifest must be edited instead.
fn for_manifest(mut finding: Finding, proposed: &DaemonSet) -> Finding {
    finding.command = finding.command.filter(|command| *command != edit(proposed));
    finding
}

/// Returns the API server's message about a pod whose service account does not exist.
pub fn account_is_missing(proposed: &DaemonSet) -> String {
    let (namespace, account) = (&proposed.metadata.namespace, service_account(proposed));
    format!("error looking up service account {namespace}/{account}: serviceaccount {account:?} not found")
}

/// Finds why no pod would start: an error of the API server, or a missing class or service account.
fn refused(snapshot: &Snapshot, proposed: &DaemonSet, exists: bool, admission: Option<&Admission>) -> Option<Finding> {
    let missing = missing_class(snapshot, proposed).or_else(|| missing_account(snapshot, proposed));
    if let Some(finding) = missing.or_else(|| invalid_image(proposed)) {
        return Some(finding);
    }
    let Admission { refusal, missing, .. } = admission?;
    let refusal = refusal.as_ref().map(|message| create_failure::classify(snapshot, proposed, message));
    // The replaced pods free their quota.
    let refusal = refusal.filter(|finding| !(exists && finding.code == ReasonCode::QuotaExceeded));
    refusal.or_else(|| {
        let (kind, _) = missing.first()?;
        let names: Vec<_> = missing.iter().map(|(kind, name)| format!("{} {name}", kind.to_lowercase())).collect();
        let namespace = &proposed.metadata.namespace;
        let code = match *kind {
            "PersistentVolumeClaim" => ReasonCode::VolumeUnsatisfiable,
            _ => ReasonCode::ContainerConfigError,
        };
        let message = format!("{} not found in namespace {namespace}", names.join(", "));
        Some(Finding::new(code, message, "create it before the DaemonSet, or correct its name in the template"))
    })
}

/// Finds an image that the API server accepts but no kubelet does.
fn invalid_image(proposed: &DaemonSet) -> Option<Finding> {
    let spec = &proposed.spec.template.spec;
    let mut containers = spec.init_containers.iter().chain(&spec.containers);
    let container = containers.find(|container| !container.image.is_empty() && !image::is_valid(&container.image))?;
    let message = Sentence::from(format!("container {}: the name of image ", container.name))
        .value(&container.image)
        .words(" is not valid");
    let why = "correct the name of the image: it may have no uppercase letters before the tag, and no scheme or spaces";
    Some(Finding::new(ReasonCode::ImagePullFailed, message, why))
}

/// Finds a service account that a dump does not have.
fn missing_account(snapshot: &Snapshot, proposed: &DaemonSet) -> Option<Finding> {
    let exists = |account: &str| snapshot.has_name("ServiceAccount", &proposed.metadata.namespace, account);
    // Every namespace has this one: without it, the dump does not have all of them.
    let is_missing = exists("default") && !exists(service_account(proposed));
    is_missing.then(|| create_failure::classify(snapshot, proposed, &account_is_missing(proposed)))
}

/// Finds a missing class, because of which the API server would reject every pod.
fn missing_class(snapshot: &Snapshot, proposed: &DaemonSet) -> Option<Finding> {
    let spec = &proposed.spec.template.spec;
    let namespace = &proposed.metadata.namespace;
    let known = |kind| snapshot.gap(kind, namespace).is_none();
    let class = &spec.priority_class_name;
    let priority = snapshot.priority_classes.iter().any(|known| known.metadata.name == *class);
    // Every cluster has priority classes: if there are none, they were not read.
    if !class.is_empty() && !priority && !snapshot.priority_classes.is_empty() {
        let message = format!("no PriorityClass with name {class} was found");
        return Some(create_failure::classify(snapshot, proposed, &message));
    }
    let class = spec.runtime_class_name.as_ref().filter(|class| !class.is_empty())?;
    if known(Kind::RuntimeClasses) && admission::runtime_class(snapshot, spec).is_none() {
        let message = format!("pod rejected: RuntimeClass {class:?} not found");
        return Some(create_failure::classify(snapshot, proposed, &message));
    }
    None
}
