//! The decisions of Kubernetes' own functions, next to those of the rules here.
//!
//! A case is a line of JSON that tests/controlplane/oracle reads too; an answer is what it writes.
//! `tests/recorded_answers.rs` checks the rules against recorded answers, and the differential test against fresh ones.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use kubectl_ds::facts::index::Index;
use kubectl_ds::model::daemon_set::{DaemonSet, UpdateStrategy};
use kubectl_ds::model::node::{Node, Taint};
use kubectl_ds::model::pod::{Pod, Toleration};
use kubectl_ds::model::pod_disruption_budget::PodDisruptionBudget;
use kubectl_ds::model::snapshot::{Kind, PodsComplete, Snapshot};
use kubectl_ds::model::template::Template;
use kubectl_ds::scheduling::affinity::RequiredNodeAffinity;
use kubectl_ds::scheduling::daemon_pods::{
    Claim, NodeContext, NodePods, claim, is_available, is_deleted_terminal, is_updated, manage as upkeep,
    pods_should_be_on_node, target_node,
};
use kubectl_ds::scheduling::declared_features::{self, declared};
use kubectl_ds::scheduling::device_claims;
use kubectl_ds::scheduling::neighborhood::{Outcome, apply_label_keys};
use kubectl_ds::scheduling::pod_affinity::{self, InterPodAffinity};
use kubectl_ds::scheduling::ports::{conflicts, host_ports};
use kubectl_ds::scheduling::preemption::{self, Budgets, Contest, Victim};
use kubectl_ds::scheduling::resources::{self, Amounts, NodeUsage, fits, pod_requests, template_requests};
use kubectl_ds::scheduling::rolling_update::{Candidate, rolling_update, surge_count, unavailable_count};
use kubectl_ds::scheduling::should_run::DaemonPod;
use kubectl_ds::scheduling::taints::tolerates;
use kubectl_ds::scheduling::topology_spread::{self, PodTopologySpread};
use kubectl_ds::scheduling::volumes::{self, Obstacle, VolumeFilters};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What either side answers to a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eligibility: Option<Eligibility>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room: Option<Room>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manage: Option<Manage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption: Option<Preemption>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<Fit>,
    /// A pod template as the API server keeps it; as [`answer`] gives it, in its normal form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Value>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// Whether a DaemonSet's pod should be on nodes, and the controller's numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Eligibility {
    /// A digit for each node: 2 should run, 1 should only continue to run, 0 neither.
    pub decisions: String,
    pub tolerations: Vec<Toleration>,
    pub unavailable: Vec<i64>,
    pub surge: Vec<i64>,
}

/// Whether a pod finds room on a node after the API server has set its defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Room {
    pub insufficient: Vec<Insufficient>,
    pub ports_fit: bool,
    pub requests: Amounts,
    pub pods: Vec<Amounts>,
    pub targets: Vec<Option<String>>,
}

/// A resource of which the node has too little.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Insufficient {
    pub resource: String,
    pub requested: i64,
    pub used: i64,
    pub allocatable: i64,
}

/// Which filter keeps a new pod from each node of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    pub nodes: Vec<Rejection>,
}

/// The first filter that rejects a node, and what the scheduler would write about it; empty if none does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rejection {
    pub plugin: String,
    pub reasons: Vec<String>,
    pub unresolvable: bool,
}

/// The filter for claims to devices, which leaves open what only the allocator of the scheduler finds.
const DEVICES: &str = "DynamicResources";

impl Rejection {
    /// Returns whether it is left open if the node is rejected.
    fn is_open(&self) -> bool {
        self.plugin == DEVICES && self.reasons == ["unknown"]
    }

    /// Tells whether this answer, which is ours, is that of Kubernetes. If a claim is available on other nodes, or there are too few devices,
    /// the allocator may first fail for another claim, or for a pool that is being replaced.
    fn agrees_with(&self, theirs: &Rejection) -> bool {
        let is_of_allocator = |reason: &String| {
            reason == "cannot allocate all claims"
                || reason.contains("asks for all devices")
                || reason.contains("resource pools")
        };
        let is_of_node = |reason: &String| {
            matches!(reason.as_str(), "cannot allocate all claims" | "resourceclaim not available on the node")
        };
        match () {
            () if self.is_open() => matches!(theirs.plugin.as_str(), "" | DEVICES | "NodeDeclaredFeatures"),
            () if self.plugin == DEVICES && theirs.plugin == DEVICES && self.reasons != theirs.reasons => {
                self.reasons.iter().all(is_of_node) && theirs.reasons.iter().all(is_of_allocator)
            }
            () => self == theirs,
        }
    }
}

impl Fit {
    /// Returns for how many nodes it is left open if the pod is rejected.
    pub fn open(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_open()).count()
    }

    /// Returns how many nodes are rejected for the devices that the pod claims.
    pub fn rejected_for_devices(&self) -> usize {
        self.nodes.iter().filter(|node| node.plugin == DEVICES && !node.is_open()).count()
    }
}

/// What becomes of a pod that is meant for one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Preemption {
    pub outcome: String,
    /// Theirs alone: whom the scheduler preempts, for several orders of what is equally important.
    #[serde(default)]
    pub attempts: Vec<Attempt>,
    pub above: Option<i32>,
    /// Ours alone: whom the scheduler preempts for certain, and of whom some.
    #[serde(default)]
    pub certain: Vec<Named>,
    #[serde(default)]
    pub choices: Vec<SomeOf>,
}

/// The names of pods that are preempted, and how many of them violate a budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    pub victims: Vec<String>,
    pub violations: usize,
}

/// A pod that is preempted, and whether it violates a budget, if that is certain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Named {
    pub name: String,
    pub violates: Option<bool>,
}

/// Pods of which some are preempted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SomeOf {
    pub at_least: usize,
    pub at_most: usize,
    pub of: Vec<Named>,
}

impl Preemption {
    /// Tells whether an attempt is one that this prediction leaves open.
    fn allows(&self, attempt: &Attempt) -> bool {
        let is_victim = |pod: &&Named| attempt.victims.contains(&pod.name);
        let chosen = |some: &SomeOf| some.of.iter().filter(is_victim).count();
        let expected = self.certain.len() + self.choices.iter().map(chosen).sum::<usize>();
        let all = || self.certain.iter().chain(self.choices.iter().flat_map(|some| &some.of));
        let violating = |is: fn(Option<bool>) -> bool| all().filter(is_victim).filter(|pod| is(pod.violates)).count();
        self.certain.iter().all(|pod| is_victim(&pod))
            && self.choices.iter().all(|some| (some.at_least..=some.at_most).contains(&chosen(some)))
            && attempt.victims.len() == expected
            && (violating(|it| it == Some(true))..=violating(|it| it != Some(false))).contains(&attempt.violations)
    }
}

/// What the controller does about the pods on a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manage {
    pub claims: Vec<String>,
    pub available: Vec<bool>,
    pub updated: Vec<bool>,
    pub create: bool,
    pub delete: Vec<String>,
}

/// What a sync of the controller does: what `manage` does, and if that is nothing, what the rolling update does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rollout {
    pub manage: Actions,
    pub update: Actions,
}

/// What is created and deleted, by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Actions {
    pub create: Vec<String>,
    pub delete: Vec<String>,
    pub error: String,
    /// Of these names upstream creates or deletes some, which ones depends on a hash map: ours alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Choice>,
}

/// How many of some names are created or deleted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    pub creates: bool,
    pub count: usize,
    pub of: Vec<String>,
}

impl Actions {
    fn sorted(mut self) -> Self {
        self.create.sort();
        self.delete.sort();
        self
    }

    /// Tells whether `theirs` is one of the outcomes that this prediction leaves open.
    fn allows(&self, theirs: &Actions) -> bool {
        if self.error.is_empty() != theirs.error.is_empty() {
            return false;
        }
        if !self.error.is_empty() {
            return theirs.create.is_empty() && theirs.delete.is_empty();
        }
        let rest = |ours: &[String], theirs: &[String]| {
            let certain = ours.iter().all(|name| theirs.contains(name));
            certain.then(|| theirs.iter().filter(|name| !ours.contains(name)).cloned().collect::<Vec<_>>())
        };
        let (Some(created), Some(deleted)) = (rest(&self.create, &theirs.create), rest(&self.delete, &theirs.delete))
        else {
            return false;
        };
        let counts = self.choices.iter().all(|some| {
            let taken = if some.creates { &created } else { &deleted };
            taken.iter().filter(|name| some.of.contains(name)).count() == some.count
        });
        let expected = |creates: bool| {
            self.choices.iter().filter(|some| some.creates == creates).map(|some| some.count).sum::<usize>()
        };
        counts && created.len() == expected(true) && deleted.len() == expected(false)
    }
}

/// A line of the recording: the nodes that cases name first, then the cases.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub enum Line {
    /// The nodes that cases name by their index.
    Nodes { nodes: Vec<Value> },
    /// A case, and what Kubernetes answered.
    Answered { case: Value, answer: Box<Answer> },
}

/// Returns the path of the recording.
pub fn recording() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/oracle/1.37.2.jsonl.gz"))
}

/// The numbers of nodes that counts are asked for; the oracle has the same ones.
const SIZES: [i64; 10] = [0, 1, 2, 3, 5, 7, 10, 99, 100, 1001];

impl Answer {
    /// Puts what upstream leaves to the order of a hash map into one order.
    pub fn sorted(mut self) -> Self {
        if let Some(room) = &mut self.room {
            room.insufficient.sort();
        }
        self
    }

    /// Tells whether this answer, which is ours, is that of Kubernetes.
    ///
    /// A template has the normal form of the one that the API server keeps, and apart from what is empty it has the
    /// same fields, so that the normal form neither leaves out nor makes up any.
    pub fn agrees_with(&self, theirs: &Answer) -> bool {
        if let (Some(ours), Some(theirs)) = (&self.template, &theirs.template) {
            return *ours == Template::new(theirs.clone()).normal() && fields(ours) == fields(theirs);
        }
        if let (Some(ours), Some(theirs)) = (&self.fit, &theirs.fit) {
            let mut nodes = ours.nodes.iter().zip(&theirs.nodes);
            return ours.nodes.len() == theirs.nodes.len() && nodes.all(|(ours, theirs)| ours.agrees_with(theirs));
        }
        if let (Some(ours), Some(theirs)) = (&self.rollout, &theirs.rollout) {
            return ours.manage.allows(&theirs.manage) && ours.update.allows(&theirs.update);
        }
        if let (Some(ours), Some(theirs)) = (&self.preemption, &theirs.preemption) {
            return (&ours.outcome, ours.above) == (&theirs.outcome, theirs.above)
                && theirs.attempts.iter().all(|attempt| ours.allows(attempt));
        }
        self == theirs
    }
}

/// Returns the paths of all values that are not empty.
fn fields(value: &Value) -> Vec<String> {
    let mut below: Vec<String> = Vec::new();
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                below.extend(fields(value).into_iter().map(|path| format!(".{name}{path}")));
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                below.extend(fields(item).into_iter().map(|path| format!("[{place}]{path}")));
            }
        }
        Value::Null | Value::Bool(false) => {}
        Value::String(text) if text.is_empty() || text == "0" => {}
        Value::Number(number) if number.as_f64() == Some(0.0) => {}
        _ => below.push(String::new()),
    }
    below
}

/// Answers a case by the rules of this crate; `pool` are the nodes that are named by an index.
pub fn answer(case: &Value, pool: &[Node]) -> Result<Answer, serde_json::Error> {
    let mut answer = Answer::default();
    if let Some(case) = case.get("eligibility") {
        answer.eligibility = Some(eligibility(case, pool)?);
    }
    if let Some(case) = case.get("room") {
        answer.room = Some(room(case)?);
    }
    if let Some(case) = case.get("manage") {
        answer.manage = Some(manage(case)?);
    }
    if let Some(case) = case.get("rollout") {
        answer.rollout = Some(rollout(case)?);
    }
    if let Some(case) = case.get("preemption") {
        answer.preemption = Some(preemption(case)?);
    }
    if let Some(case) = case.get("fit") {
        answer.fit = Some(fit(case)?);
    }
    if let Some(case) = case.get("template") {
        answer.template = Some(Template::new(case["podTemplate"].clone()).normal());
    }
    Ok(answer.sorted())
}

fn eligibility(case: &Value, pool: &[Node]) -> Result<Eligibility, serde_json::Error> {
    let daemon_set = DaemonSet::from_object(case["daemonSet"].clone())?;
    let pod = DaemonPod::new(&daemon_set.spec.template);
    let mut decisions = String::new();
    for node in case["nodes"].as_array().into_iter().flatten() {
        let whole;
        let node = match node.as_u64() {
            Some(index) => &pool[usize::try_from(index).unwrap()],
            None => {
                whole = Node::deserialize(node)?;
                &whole
            }
        };
        let decision = pod.decide(node);
        assert_eq!(decision, pod.explain(node).decision, "the explanation contradicts the decision: {case} {node:?}");
        decisions.push(match (decision.should_run, decision.should_continue_running) {
            (true, true) => '2',
            (false, true) => '1',
            (false, false) => '0',
            (true, false) => '!',
        });
    }
    Ok(Eligibility {
        decisions,
        tolerations: pod.tolerations().to_vec(),
        unavailable: SIZES.map(|size| unavailable_count(&daemon_set, size)).to_vec(),
        surge: SIZES.map(|size| surge_count(&daemon_set, size)).to_vec(),
    })
}

fn room(case: &Value) -> Result<Room, serde_json::Error> {
    let mut pod = Pod::deserialize(&case["pod"])?;
    pod.spec.apply_defaults();
    let node = Node::deserialize(&case["node"])?;
    let pods = Vec::<Pod>::deserialize(&case["pods"])?;
    let placed: Vec<&Pod> = pods.iter().filter(|pod| !pod.spec.node_name.is_empty() && !pod.is_terminal()).collect();
    let requests = template_requests(&pod.spec);
    let insufficient = fits(&requests, &node, &NodeUsage::of(placed.iter().copied()))
        .into_iter()
        .map(|found| Insufficient {
            resource: found.resource,
            requested: found.requested,
            used: found.used,
            allocatable: found.allocatable,
        })
        .collect();
    let ports_fit = !host_ports(&pod.spec)
        .any(|wanted| placed.iter().flat_map(|pod| host_ports(&pod.spec)).any(|held| conflicts(wanted, held)));
    Ok(Room {
        insufficient,
        ports_fit,
        requests,
        pods: pods.iter().map(pod_requests).collect(),
        targets: pods.iter().map(|pod| target_node(pod).map(str::to_owned)).collect(),
    })
}

fn preemption(case: &Value) -> Result<Preemption, serde_json::Error> {
    let (pod, node) = (Pod::deserialize(&case["pod"])?, Node::deserialize(&case["node"])?);
    let pods = Vec::<Pod>::deserialize(&case["pods"])?;
    let budgets = Vec::<PodDisruptionBudget>::deserialize(&case["budgets"])?;
    let has_place = |other: &&Pod| {
        let is_nominated = other.status.nominated_node_name == node.metadata.name;
        (!other.spec.node_name.is_empty() || is_nominated) && !other.is_terminal()
    };
    let others: Vec<&Pod> = pods.iter().filter(has_place).collect();
    let contest = Contest::new(&pod, &pod_requests(&pod), &node, &others);
    let mut answer = Preemption {
        outcome: String::new(),
        attempts: Vec::new(),
        above: None,
        certain: Vec::new(),
        choices: Vec::new(),
    };
    if contest.fits() {
        answer.outcome = "Fits".to_owned();
        return Ok(answer);
    }
    let named =
        |victim: &Victim<'_>| Named { name: victim.pod.metadata.name.clone(), violates: victim.violates_budget };
    let outcome = contest.outcome(Some(&Budgets::new(&budgets)));
    answer.outcome = match &outcome {
        preemption::Preemption::Preempts(victims) => {
            answer.certain = victims.certain.iter().map(named).collect();
            let choices = victims.choices.iter().map(|choice| SomeOf {
                at_least: choice.at_least,
                at_most: choice.at_most,
                of: choice.of.iter().map(named).collect(),
            });
            answer.choices = choices.collect();
            "Preempts".to_owned()
        }
        other => format!("{other:?}"),
    };
    if matches!(
        outcome,
        preemption::Preemption::Never | preemption::Preemption::NoneLower | preemption::Preemption::NotHelpful
    ) {
        answer.above = contest.needs_priority_above();
    }
    Ok(answer)
}

fn list<T: DeserializeOwned>(case: &Value, field: &str) -> Result<Vec<T>, serde_json::Error> {
    Ok(Option::deserialize(&case[field])?.unwrap_or_default())
}

fn fit(case: &Value) -> Result<Fit, serde_json::Error> {
    let mut pod = Pod::deserialize(&case["pod"])?;
    let labels = pod.metadata.labels.clone();
    apply_label_keys(&mut pod.spec, &labels);
    let snapshot = Snapshot {
        nodes: Vec::deserialize(&case["nodes"])?,
        pods: Vec::deserialize(&case["pods"])?,
        namespaces: Vec::deserialize(&case["namespaces"])?,
        persistent_volume_claims: list(case, "claims")?,
        persistent_volumes: list(case, "volumes")?,
        storage_classes: list(case, "classes")?,
        csi_nodes: list(case, "csiNodes")?,
        csi_drivers: list(case, "csiDrivers")?,
        csi_storage_capacities: list(case, "capacities")?,
        volume_attachments: list(case, "attachments")?,
        resource_claims: list(case, "deviceClaims")?,
        device_classes: list(case, "deviceClasses")?,
        resource_slices: list(case, "slices")?,
        read_on_demand: Kind::ON_DEMAND.into(),
        pods_complete: PodsComplete::Everywhere,
        ..Snapshot::default()
    };
    let index = Index::new(&snapshot);
    let spread = PodTopologySpread::new(&pod, &index, |_| false);
    let affinity = InterPodAffinity::new(&pod, &index, |_| false);
    let rejection = |plugin: &str, reason: &str, unresolvable| Rejection {
        plugin: plugin.to_owned(),
        reasons: vec![reason.to_owned()],
        unresolvable,
    };
    // The oracle is of this release, in which the scheduler looks at what kubelets declare.
    let newest: Node = serde_json::from_value(json!({"status": {"nodeInfo": {"kubeletVersion": "v1.37.2"}}}))?;
    let by_volumes = |rejected: &volumes::Rejection| {
        let mut reasons = rejected.reasons(&pod);
        reasons.sort();
        let plugin = match rejected {
            volumes::Rejection::ClaimNotFound(_)
            | volumes::Rejection::DiskConflict(..)
            | volumes::Rejection::InUse(..) => "VolumeRestrictions",
            volumes::Rejection::NoDriver(_) | volumes::Rejection::TooMany { .. } => "NodeVolumeLimits",
            volumes::Rejection::VolumeNotFound(_) | volumes::Rejection::Zone { .. } => "VolumeZone",
            _ => "VolumeBinding",
        };
        let may_change = matches!(
            rejected,
            volumes::Rejection::DiskConflict(..)
                | volumes::Rejection::InUse(..)
                | volumes::Rejection::NoDriver(_)
                | volumes::Rejection::TooMany { .. }
        );
        Rejection { plugin: plugin.to_owned(), reasons, unresolvable: !may_change }
    };
    let on = |node: &Node| {
        let goes_first = |other: &&Pod| {
            preemption::priority(other) >= preemption::priority(&pod)
                && other.metadata.uid != pod.metadata.uid
                && !other.is_terminal()
        };
        let nominated: Vec<&Pod> = index.nominated_for(&node.metadata.name).into_iter().filter(goes_first).collect();
        let filters = VolumeFilters {
            pod: &pod,
            node,
            storage: &index.storage,
            neighborhood: &index,
            nominated: &nominated,
            leaves: |_: &Pod| false,
        };
        let volumes = filters.beside_nominated();
        // What a pod lacks on all nodes is found before any is looked at.
        if let Err(Obstacle::Rejects(rejected)) = &volumes
            && matches!(
                rejected,
                volumes::Rejection::ClaimNotFound(_)
                    | volumes::Rejection::AwaitsClaim(_)
                    | volumes::Rejection::ClaimLost { .. }
                    | volumes::Rejection::ClaimDeleted(_)
                    | volumes::Rejection::NotOwner(_)
                    | volumes::Rejection::Unbound(_)
                    | volumes::Rejection::VolumeNotFound(_)
            )
        {
            return by_volumes(rejected);
        }
        let devices = index.device_claims.filter(&pod, node, |_| false);
        let by_devices = |rejected: &device_claims::Rejection| {
            rejection(DEVICES, &rejected.reason(&pod).expect("words of the scheduler"), true)
        };
        if let Err(device_claims::Obstacle::Rejects(rejected)) = &devices
            && rejected.is_of_pod()
        {
            return by_devices(rejected);
        }
        let tolerated = |taint: &&Taint| {
            !matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
                || pod.spec.tolerations.iter().any(|it| tolerates(it, taint))
        };
        if !node.spec.taints.iter().all(|taint| tolerated(&taint)) {
            return rejection("TaintToleration", "node(s) had untolerated taint(s)", true);
        }
        if !RequiredNodeAffinity::new(&pod.spec).matches(node) {
            return rejection("NodeAffinity", "node(s) didn't match Pod's node affinity/selector", true);
        }
        let usage = NodeUsage::of(index.bound_to(&node.metadata.name).into_iter().chain(nominated.iter().copied()));
        let short = fits(&index.device_claims.classes.without(&pod_requests(&pod), node), node, &usage);
        if !short.is_empty() {
            let reason = |short: &resources::Insufficient| match short.resource.as_str() {
                "pods" => "Too many pods".to_owned(),
                resource => format!("Insufficient {resource}"),
            };
            let mut reasons: Vec<String> = short.iter().map(reason).collect();
            reasons.sort();
            let unresolvable = short.iter().any(|short| short.resource != "pods" && short.never_fits());
            return Rejection { plugin: "NodeResourcesFit".to_owned(), reasons, unresolvable };
        }
        match &volumes {
            Ok(()) => {}
            Err(Obstacle::Rejects(rejected)) => return by_volumes(rejected),
            Err(Obstacle::Unknown(unread)) => return rejection(&format!("{unread:?}"), "unknown", false),
        }
        match spread.on(node, &nominated, &index) {
            Outcome::Passes => {}
            Outcome::Rejects(why) => {
                let lacks_label = matches!(why, topology_spread::SpreadRejection::NoDomain(_));
                return rejection("PodTopologySpread", why.reason(), lacks_label);
            }
            Outcome::Unknown => return rejection("PodTopologySpread", "unknown", false),
        }
        let again = if volumes.is_ok() { filters.filter() } else { Ok(()) };
        match affinity.on(node, &nominated, &index) {
            Outcome::Passes => match (&again, &devices, declared(&pod.spec, node, &[&newest])) {
                // With the nominated pods all filters have let it pass; the scheduler tries again without them.
                (Err(Obstacle::Rejects(rejected)), ..) => by_volumes(rejected),
                (_, Err(device_claims::Obstacle::Rejects(rejected)), _) => by_devices(rejected),
                (_, Err(device_claims::Obstacle::Unknown(_)), _) => rejection(DEVICES, "unknown", true),
                (_, Ok(()), Outcome::Passes) => Rejection::default(),
                (_, Ok(()), Outcome::Rejects(_)) => rejection("NodeDeclaredFeatures", declared_features::REASON, true),
                (_, Ok(()), Outcome::Unknown) => rejection("NodeDeclaredFeatures", "unknown", true),
            },
            Outcome::Rejects(why) => {
                let is_affinity = matches!(
                    why,
                    pod_affinity::AffinityRejection::NoDomain(_) | pod_affinity::AffinityRejection::NoneInDomain(_)
                );
                rejection("InterPodAffinity", why.reason(), is_affinity)
            }
            Outcome::Unknown => rejection("InterPodAffinity", "unknown", false),
        }
    };
    Ok(Fit { nodes: snapshot.nodes.iter().map(on).collect() })
}

fn manage(case: &Value) -> Result<Manage, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Inputs {
        node: Node,
        pods: Vec<Pod>,
        hash: String,
        in_backoff: bool,
        now: Timestamp,
    }
    let daemon_set = DaemonSet::from_object(case["daemonSet"].clone())?;
    let Inputs { node, pods, hash, in_backoff, now } = Inputs::deserialize(case)?;
    let claims: Vec<Claim> = pods.iter().map(|pod| claim(&daemon_set, pod)).collect();
    let on_node: Vec<&Pod> = pods
        .iter()
        .zip(&claims)
        .filter(|(pod, claim)| claim.is_claimed() && !is_deleted_terminal(pod))
        .map(|(pod, _)| pod)
        .filter(|pod| target_node(pod) == Some(&node.metadata.name))
        .collect();
    let decision = DaemonPod::new(&daemon_set.spec.template).decide(&node);
    let context = NodeContext { daemon_set: &daemon_set, decision, current_hash: &hash, in_backoff, now };
    let result = pods_should_be_on_node(&context, &on_node);
    let min_ready_seconds = daemon_set.spec.min_ready_seconds;
    Ok(Manage {
        claims: claims.iter().map(|claim| format!("{claim:?}")).collect(),
        available: pods.iter().map(|pod| is_available(pod, min_ready_seconds, now)).collect(),
        updated: pods.iter().map(|pod| is_updated(&daemon_set, Some(&hash), pod)).collect(),
        create: result.create,
        delete: result.delete.iter().map(|&index| on_node[index].metadata.name.clone()).collect(),
    })
}

fn rollout(case: &Value) -> Result<Rollout, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Inputs {
        nodes: Vec<Node>,
        pods: Vec<Pod>,
        hash: String,
        in_backoff: Vec<String>,
        now: Timestamp,
    }
    let daemon_set = DaemonSet::from_object(case["daemonSet"].clone())?;
    let Inputs { nodes, pods, hash, in_backoff, now } = Inputs::deserialize(case)?;
    let daemon_pod = DaemonPod::new(&daemon_set.spec.template);
    let mut on_nodes: BTreeMap<&str, NodePods<'_>> = BTreeMap::new();
    for node in &nodes {
        let (name, decision) = (node.metadata.name.as_str(), Some(daemon_pod.decide(node)));
        on_nodes.insert(name, NodePods { node: name, decision, pods: Vec::new(), selected: true });
    }
    for pod in pods.iter().filter(|pod| claim(&daemon_set, pod).is_claimed() && !is_deleted_terminal(pod)) {
        if let Some(node) = target_node(pod) {
            let missing = NodePods { node, decision: None, pods: Vec::new(), selected: true };
            on_nodes.entry(node).or_insert(missing).pods.push(pod);
        }
    }
    let on_nodes: Vec<NodePods<'_>> = on_nodes.into_values().collect();
    let names = |pods: &[&Pod]| pods.iter().map(|pod| pod.metadata.name.clone()).collect();
    let owned = |nodes: &[&str]| nodes.iter().map(|&node| node.to_owned()).collect();
    let waits = |node: &str| in_backoff.iter().any(|name| name == node);
    let manage = upkeep(&daemon_set, &hash, &on_nodes, waits, now);
    let manage = Actions { create: owned(&manage.create), delete: names(&manage.delete), ..Actions::default() };
    let update = if daemon_set.spec.update_strategy == UpdateStrategy::OnDelete {
        Actions::default()
    } else {
        match rolling_update(&daemon_set, &hash, &on_nodes, now) {
            Err(missing) => Actions { error: missing.node.to_owned(), ..Actions::default() },
            Ok(step) => {
                let surges = step.surges;
                let of = |candidates: &[Candidate<'_>], creates: bool| {
                    let name = |candidate: &Candidate<'_>| {
                        if creates { candidate.node.to_owned() } else { candidate.pod.metadata.name.clone() }
                    };
                    candidates.iter().map(name).collect::<Vec<_>>()
                };
                let replaced = Choice { creates: surges, count: step.replaced_now, of: of(&step.candidates, surges) };
                let gone =
                    Choice { creates: false, count: step.not_eligible_deleted_now, of: of(&step.not_eligible, false) };
                Actions {
                    create: owned(&step.create),
                    delete: names(&step.delete),
                    error: String::new(),
                    choices: vec![replaced, gone],
                }
            }
        }
    };
    Ok(Rollout { manage: manage.sorted(), update: update.sorted() })
}

/// Counts how often each outcome occurs, so that a run which only ever sees one is noticed.
#[derive(Debug, Default)]
pub struct Mix {
    counts: BTreeMap<&'static str, usize>,
}

impl Mix {
    pub fn add(&mut self, answer: &Answer) {
        if let Some(eligibility) = &answer.eligibility {
            for digit in eligibility.decisions.chars() {
                self.count(match digit {
                    '2' => "eligibility: should run",
                    '1' => "eligibility: may stay",
                    _ => "eligibility: neither",
                });
            }
        }
        if let Some(room) = &answer.room {
            let resources = ["room: fits", "room: lacks one resource", "room: lacks several resources"];
            self.count(resources[room.insufficient.len().min(2)]);
            self.count(if room.ports_fit { "ports: free" } else { "ports: taken" });
        }
        if let Some(preemption) = &answer.preemption {
            self.count(match preemption.outcome.as_str() {
                "Fits" => "preemption: fits",
                "Preempts" => "preemption: preempts",
                "NoneLower" => "preemption: none is lower",
                "NotHelpful" => "preemption: does not help",
                "Never" => "preemption: never",
                _ => "preemption: waits",
            });
            if let [first, rest @ ..] = preemption.attempts.as_slice() {
                self.count(match first.victims.len() {
                    1 => "victims: one",
                    _ => "victims: several",
                });
                let is_same = rest.iter().all(|attempt| attempt.victims == first.victims);
                self.count(if is_same { "order: the same victims" } else { "order: other victims" });
                self.count(if first.violations > 0 { "budgets: violated" } else { "budgets: kept" });
            }
            if !matches!(preemption.outcome.as_str(), "Fits" | "Preempts" | "Waits") {
                self.count(if preemption.above.is_some() { "above: a priority" } else { "above: none" });
            }
        }
        for node in answer.fit.iter().flat_map(|fit| &fit.nodes) {
            let (what, why) = (node.plugin.as_str(), node.reasons.first().map_or("", String::as_str));
            self.count(match what {
                "" => "fit: all filters pass",
                "PodTopologySpread" if node.unresolvable => "fit: no domain to spread over",
                "PodTopologySpread" => "fit: spread",
                "InterPodAffinity" if node.unresolvable => "fit: affinity",
                "InterPodAffinity" if why.contains("existing") => "fit: anti-affinity of another pod",
                "InterPodAffinity" => "fit: anti-affinity",
                "VolumeRestrictions" if why.contains("not found") => "fit: no such claim",
                "VolumeRestrictions" if why.contains("disk") => "fit: disk of another pod",
                "VolumeRestrictions" => "fit: claim of another pod",
                "NodeVolumeLimits" if why.contains("installed") => "fit: no driver",
                "NodeVolumeLimits" => "fit: too many volumes",
                "VolumeBinding" if why.contains("node affinity") => "fit: volume of another node",
                "VolumeBinding" if why.contains("enough free storage") => "fit: no free storage",
                "VolumeBinding" if why.contains("to bind") => "fit: no volume to bind",
                "VolumeBinding" => "fit: claim is not bound",
                "VolumeZone" => "fit: volume of another zone",
                "DynamicResources" if why.contains("not created yet") => "fit: device claim is awaited",
                "DynamicResources" if why.contains("could not find") => "fit: no such device claim",
                "DynamicResources" if why.contains("being deleted") => "fit: device claim is deleted",
                "DynamicResources" if why.contains("not owner") => "fit: device claim of another pod",
                "DynamicResources" if why.contains("does not exist") => "fit: no device class",
                "DynamicResources" if why.contains("not available") => "fit: devices of another node",
                "DynamicResources" => "fit: no devices",
                "NodeDeclaredFeatures" => "fit: no such feature",
                _ => "fit: another filter",
            });
        }
        if let Some(template) = &answer.template {
            self.add_template(template);
        }
        if let Some(rollout) = &answer.rollout {
            self.add_rollout(rollout);
        }
        if let Some(manage) = &answer.manage {
            self.count(match (manage.create, manage.delete.is_empty()) {
                (true, _) => "upkeep: creates",
                (false, true) => "upkeep: leaves all",
                (false, false) => "upkeep: deletes",
            });
            for claim in &manage.claims {
                self.count(match claim.as_str() {
                    "Owned" => "claim: owned",
                    "Adopted" => "claim: adopted",
                    "Released" => "claim: released",
                    _ => "claim: foreign",
                });
            }
        }
    }

    /// Counts what a sync does.
    fn add_rollout(&mut self, rollout: &Rollout) {
        let Rollout { manage, update } = rollout;
        self.count(if manage.create.is_empty() && manage.delete.is_empty() {
            "sync: manages nothing"
        } else {
            "sync: manages"
        });
        self.count(match (update.create.is_empty(), update.delete.is_empty()) {
            _ if !update.error.is_empty() => "rollout: fails",
            (true, true) => "rollout: waits",
            (true, false) => "rollout: deletes",
            (false, true) => "rollout: surges",
            (false, false) => "rollout: surges and deletes",
        });
    }

    /// Counts what a template has in it after its defaults were filled in.
    fn add_template(&mut self, template: &Value) {
        let text = template.to_string();
        self.count("templates: all");
        for (outcome, sign) in [
            ("template: is pulled always", r#""imagePullPolicy":"Always""#),
            ("template: is pulled if not present", r#""imagePullPolicy":"IfNotPresent""#),
            ("template: has an empty directory", r#""emptyDir""#),
            ("template: has a path of the node", r#""hostPath""#),
            ("template: has projected volumes", r#""projected""#),
            ("template: has a volume claim", r#""volumeMode""#),
            ("template: has a token", r#""expirationSeconds""#),
            ("template: has a probe", r#""failureThreshold""#),
            ("template: asks by HTTP", r#""httpGet""#),
            ("template: asks by gRPC", r#""grpc""#),
            ("template: is on the node's network", r#""hostNetwork":true"#),
            ("template: has resources", r#""limits":{""#),
            ("template: has affinity", r#""affinity":{""#),
        ] {
            if text.contains(sign) {
                self.count(outcome);
            }
        }
    }

    fn count(&mut self, outcome: &'static str) {
        *self.counts.entry(outcome).or_default() += 1;
    }

    /// Returns how often outcomes with that prefix occurred.
    pub fn total(&self, prefix: &str) -> usize {
        self.counts.iter().filter(|(outcome, _)| outcome.starts_with(prefix)).map(|(_, count)| count).sum()
    }

    /// Fails where an outcome is rarer than it must be for the comparison to mean something.
    pub fn assert_healthy(&self) {
        for (outcome, least) in [
            ("eligibility: should run", 0.1),
            ("eligibility: may stay", 0.02),
            ("eligibility: neither", 0.1),
            ("room: fits", 0.1),
            ("room: lacks one resource", 0.1),
            ("room: lacks several resources", 0.05),
            ("ports: free", 0.1),
            ("ports: taken", 0.1),
            ("preemption: fits", 0.03),
            ("preemption: preempts", 0.3),
            ("preemption: none is lower", 0.05),
            ("preemption: does not help", 0.05),
            ("preemption: never", 0.03),
            ("preemption: waits", 0.01),
            ("victims: one", 0.2),
            ("victims: several", 0.1),
            ("order: the same victims", 0.3),
            ("order: other victims", 0.03),
            ("budgets: violated", 0.03),
            ("budgets: kept", 0.2),
            ("above: a priority", 0.2),
            ("above: none", 0.1),
            ("upkeep: creates", 0.05),
            ("upkeep: leaves all", 0.1),
            ("upkeep: deletes", 0.1),
            ("sync: manages", 0.1),
            ("sync: manages nothing", 0.1),
            ("rollout: waits", 0.1),
            ("rollout: deletes", 0.1),
            ("rollout: surges", 0.05),
            ("rollout: surges and deletes", 0.02),
            ("rollout: fails", 0.01),
            ("claim: owned", 0.1),
            ("claim: adopted", 0.03),
            ("claim: released", 0.03),
            ("claim: foreign", 0.05),
            ("fit: all filters pass", 0.1),
            ("fit: no domain to spread over", 0.005),
            ("fit: spread", 0.002),
            ("fit: affinity", 0.04),
            ("fit: anti-affinity", 0.02),
            ("fit: anti-affinity of another pod", 0.005),
            ("fit: no such claim", 0.01),
            ("fit: disk of another pod", 0.0002),
            ("fit: no driver", 0.0005),
            ("fit: too many volumes", 0.002),
            ("fit: volume of another node", 0.005),
            ("fit: no volume to bind", 0.005),
            ("fit: no free storage", 0.001),
            ("fit: claim is not bound", 0.01),
            ("fit: volume of another zone", 0.002),
            ("fit: device claim is awaited", 0.0005),
            ("fit: no such device claim", 0.002),
            ("fit: device claim is deleted", 0.002),
            ("fit: device claim of another pod", 0.0005),
            ("fit: no device class", 0.001),
            ("fit: devices of another node", 0.005),
            ("fit: no devices", 0.01),
            ("fit: no such feature", 0.002),
            ("fit: another filter", 0.03),
            ("template: is pulled always", 0.03),
            ("template: is pulled if not present", 0.05),
            ("template: has an empty directory", 0.02),
            ("template: has a path of the node", 0.01),
            ("template: has projected volumes", 0.01),
            ("template: has a volume claim", 0.005),
            ("template: has a token", 0.002),
            ("template: has a probe", 0.05),
            ("template: asks by HTTP", 0.03),
            ("template: asks by gRPC", 0.01),
            ("template: is on the node's network", 0.01),
            ("template: has resources", 0.05),
            ("template: has affinity", 0.01),
        ] {
            let (kind, _) = outcome.split_once(':').unwrap();
            let total = self.total(kind);
            let count = self.counts.get(outcome).copied().unwrap_or(0);
            #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
            let share = count as f64 / total as f64;
            assert!(share >= least, "{outcome} occurs only {count} times of {total}:\n{self}");
        }
    }
}

impl std::fmt::Display for Mix {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (outcome, count) in &self.counts {
            writeln!(formatter, "{count:>8}  {outcome}")?;
        }
        Ok(())
    }
}
