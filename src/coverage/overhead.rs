//! What DaemonSets cost on each node, and what would run on a node that does not exist yet.
//!
//! The figures assume that every pod on the node is new: the requests are those that admission makes of the templates, as far as the
//! newest pods show it, and if not all pods fit, the scheduler's order decides ([`empty_node`](crate::scheduling::empty_node)).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::str::FromStr;

use super::gaps;
use super::startup_taints::{StartupTaint, TaintRemovers};
use super::verdict::admission::admitted;
use super::verdict::admission_changes::injected_node_selector;
use super::verdict::eligibility;
use super::verdict::finding::edit;
use super::verdict::preemption::class_above;
use crate::facts::index::Index;
use crate::facts::node_removal::is_of_state;
use crate::model::daemon_set::DaemonSet;
use crate::model::node::{HOSTNAME, Node, Taint};
use crate::model::pod::Pod;
use crate::model::quantity::Quantity;
use crate::model::snapshot::Snapshot;
use crate::report::coverage::Incomplete;
use crate::report::fix::Fix;
use crate::report::node_map::by_value;
use crate::report::overhead::{
    Amount, AmountRange, DaemonSetRequests, NotEligible, OtherPods, OverheadGroup, OverheadReport, OverheadShape,
    Range, ResourceOverhead, SingleNode, StartupTaintReport, Unprotected,
};
use crate::scheduling::critical::{SYSTEM_CRITICAL, has_priority};
use crate::scheduling::daemon_pods;
use crate::scheduling::empty_node::{Candidate, Lack, Place, Taken, settle};
use crate::scheduling::neighborhood::missing_domain;
use crate::scheduling::preemption::{NEVER, priority};
use crate::scheduling::resources::{
    Amounts, NodeUsage, amount, format_amount, is_counted, pod_requests, template_requests,
};
use crate::scheduling::should_run::DaemonPod;

/// The name of a node that does not exist yet.
const NEW: &str = "(new)";

/// The nodes for which the overhead is computed.
#[derive(Debug)]
pub enum OfNodes {
    /// All nodes of the snapshot, by the values of a label.
    By(String),
    Existing(Node),
    /// A node that does not exist yet.
    New {
        node: Node,
        /// The name of the existing node that it is like, if any.
        like: Option<String>,
        /// The taints of that node that a new one does not have.
        left_out: Vec<Taint>,
    },
}

/// Returns a new node like an existing one, without its name and problems. Also returns the taints that are omitted.
pub fn new_node_like(node: &Node) -> (Node, Vec<Taint>) {
    let mut new = node.clone();
    NEW.clone_into(&mut new.metadata.name);
    new.metadata.uid.clear();
    if let Some(hostname) = new.metadata.labels.get_mut(HOSTNAME) {
        NEW.clone_into(hostname);
    }
    new.spec.unschedulable = false;
    new.status.conditions.clear();
    let (left_out, taints) = new.spec.taints.into_iter().partition(is_of_state);
    new.spec.taints = taints;
    (new, left_out)
}

/// The pod that a DaemonSet would get.
struct Agent<'a> {
    daemon_set: &'a DaemonSet,
    pod: Pod,
    requests: Amounts,
}

/// The outcome for a DaemonSet on a node.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Outcome {
    NotEligible,
    Runs,
    Depends,
    /// It does not fit; lists the insufficient resources.
    Lacks(Vec<String>),
}

/// The requests of a pod that should fit besides the DaemonSets, written as `cpu=15,memory=48Gi`.
#[derive(Debug)]
pub struct PodRequests(Amounts);

impl FromStr for PodRequests {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut requests = Amounts::new();
        for pair in text.split(',') {
            let (resource, quantity) = pair.split_once('=').ok_or_else(|| format!("{pair:?} has no amount"))?;
            if !is_counted(resource) {
                return Err(format!("{resource:?} is not a resource that nodes have"));
            }
            let quantity = Quantity::new(quantity);
            if quantity.nanos().is_none_or(|nanos| nanos <= 0) {
                return Err(format!("{:?} is not a positive quantity", quantity.text));
            }
            requests.insert(resource.to_owned(), amount(resource, &quantity));
        }
        Ok(PodRequests(requests))
    }
}

/// Computes the overhead of the DaemonSets in a snapshot; `pod` are the requests of a pod that should fit besides them.
pub fn overhead(snapshot: &Snapshot, of: &OfNodes, pod: Option<&PodRequests>) -> OverheadReport {
    let pod = pod.map(|requests| &requests.0);
    let index = Index::new(snapshot);
    let daemon_sets: Vec<&DaemonSet> =
        index.daemon_sets().into_iter().filter(|daemon_set| !daemon_set.metadata.is_terminating()).collect();
    let agents: Vec<Agent<'_>> = daemon_sets
        .iter()
        .map(|daemon_set| {
            let pod = admitted(snapshot, daemon_set);
            let requests = requests_of_newest(&index, daemon_set).unwrap_or_else(|| template_requests(&pod.spec));
            Agent { daemon_set, pod, requests }
        })
        .collect();
    let daemon_pods: Vec<(&DaemonSet, DaemonPod)> =
        daemon_sets.iter().map(|daemon_set| (*daemon_set, DaemonPod::new(&daemon_set.spec.template))).collect();
    let nodes: Vec<&Node> = match of {
        OfNodes::By(_) => index.nodes.clone(),
        OfNodes::Existing(node) | OfNodes::New { node, .. } => vec![node],
    };
    let removers = TaintRemovers::new(&daemon_pods, nodes.iter().copied());
    let mut groups: BTreeMap<Option<&str>, Shapes> = BTreeMap::new();
    let mut used = BTreeSet::new();
    for node in &nodes {
        let value = match of {
            OfNodes::By(label) => node.metadata.labels.get(label).map(String::as_str),
            OfNodes::Existing(_) | OfNodes::New { .. } => None,
        };
        let after = removers.after_start(node);
        let statics = static_pods(&index, node, of);
        let outcomes = outcomes(&index, &agents, &daemon_pods, &after.node, statics.as_deref().unwrap_or_default());
        used.extend((0..agents.len()).filter(|number| outcomes[*number] != Outcome::NotEligible));
        let on_node = OnNode { node, statics, outcomes, startup_taints: after.taints };
        groups.entry(value).or_default().add(on_node, &agents, pod);
    }
    let groups = by_value(groups)
        .map(|(value, shapes)| OverheadGroup {
            value,
            nodes: shapes.shapes.iter().map(|shape| shape.nodes.len()).sum(),
            shapes: shapes.into_report(&agents),
        })
        .collect();
    OverheadReport {
        incomplete: incomplete(snapshot, &agents),
        daemon_sets_total: agents.len(),
        nodes_total: nodes.len(),
        by: match of {
            OfNodes::By(label) => Some(label.clone()),
            OfNodes::Existing(_) | OfNodes::New { .. } => None,
        },
        node: single_node(&index, of, &daemon_pods, &removers, pod),
        pod: pod.map(amounts),
        groups,
        unprotected: unprotected(snapshot, of, used.into_iter().map(|number| &agents[number])),
    }
}

/// Returns what the newest pod of the template requests: a webhook, such as that of a VerticalPodAutoscaler, makes of a new one what it has
/// made of that. What it would make of another template, which a preview is about, is not known ([`admitted`]).
fn requests_of_newest(index: &Index<'_>, daemon_set: &DaemonSet) -> Option<Amounts> {
    let pods =
        index.pods_of(daemon_set).map(|(_, pod)| pod).filter(|pod| daemon_pods::is_updated(daemon_set, None, pod));
    let newest = pods.max_by_key(|pod| (pod.metadata.creation_timestamp, &pod.metadata.name))?;
    Some(template_requests(&newest.spec))
}

/// Returns the static pods of a node, or of the one that a new node is like; `None` if unknown.
fn static_pods<'a>(index: &'a Index<'_>, node: &Node, of: &OfNodes) -> Option<Vec<&'a Pod>> {
    let name = match of {
        OfNodes::New { like, .. } => like.as_ref()?,
        OfNodes::By(_) | OfNodes::Existing(_) => &node.metadata.name,
    };
    let bound = index.snapshot.knows_all_pods_on(name).then(|| index.bound_to(name))?;
    Some(bound.into_iter().filter(|pod| is_static(pod) && !pod.is_terminal()).collect())
}

fn is_static(pod: &Pod) -> bool {
    pod.metadata.controller().is_some_and(|owner| owner.kind == "Node")
}

fn is_of_daemon_set(pod: &Pod) -> bool {
    pod.metadata.controller().is_some_and(|owner| owner.kind == "DaemonSet")
}

/// Returns the outcome for each DaemonSet on a node.
fn outcomes(
    index: &Index<'_>,
    agents: &[Agent<'_>],
    daemon_pods: &[(&DaemonSet, DaemonPod)],
    node: &Node,
    statics: &[&Pod],
) -> Vec<Outcome> {
    let mut outcomes = vec![Outcome::NotEligible; agents.len()];
    let mut taken = Taken::default();
    statics.iter().for_each(|pod| taken.add(&pod.spec, &pod_requests(pod)));
    let mut numbers = Vec::new();
    for (number, agent) in
        agents.iter().enumerate().filter(|(number, _)| daemon_pods[*number].1.decide(node).should_run)
    {
        let selector = &agent.pod.spec.node_selector;
        match (
            injected_node_selector(index.snapshot, agent.daemon_set, node, selector),
            missing_domain(&agent.pod.spec, node),
        ) {
            (Some(_), _) => {
                outcomes[number] =
                    Outcome::Lacks(vec!["the labels that its RuntimeClass or its namespace adds".to_owned()])
            }
            (None, Some(label)) => outcomes[number] = Outcome::Lacks(vec![format!("label {label}")]),
            (None, None) => numbers.push(number),
        }
    }
    // Resources that devices may provide are not the node's, so it cannot lack them.
    let requests: Vec<Amounts> =
        numbers.iter().map(|number| index.device_claims.classes.without(&agents[*number].requests, node)).collect();
    let candidates: Vec<Candidate<'_>> = numbers
        .iter()
        .zip(&requests)
        .map(|(number, requests)| Candidate { spec: &agents[*number].pod.spec, requests })
        .collect();
    for (number, place) in numbers.into_iter().zip(settle(node, &taken, &candidates)) {
        outcomes[number] = match place {
            // Whether the pods that it has to be beside will run there is not known.
            Place::Certain if !agents[number].pod.spec.required_pod_affinity().is_empty() => Outcome::Depends,
            Place::Certain => Outcome::Runs,
            Place::Depends => Outcome::Depends,
            Place::Lacks(Lack { resources, ports }) => {
                let ports = ports.into_iter().map(|port| format!("port {port}"));
                Outcome::Lacks(ports.chain(resources.into_iter().map(|lack| lack.resource)).collect())
            }
        };
    }
    outcomes
}

/// The pods on a node.
struct OnNode<'a> {
    node: &'a Node,
    statics: Option<Vec<&'a Pod>>,
    outcomes: Vec<Outcome>,
    startup_taints: Vec<StartupTaint>,
}

/// Nodes, grouped by what they run.
#[derive(Default)]
struct Shapes {
    numbers: HashMap<ShapeKey, usize>,
    shapes: Vec<Shape>,
}

/// The common properties of nodes of one shape: the outcome for each DaemonSet, the static pods, and the removed taints.
type ShapeKey = (Vec<Outcome>, Option<NodeKey>, Vec<String>);

/// The resources that a node's static pods use.
type NodeKey = (usize, Vec<(String, i64)>);

struct Shape {
    nodes: Vec<String>,
    outcomes: Vec<Outcome>,
    statics: Option<NodeUsage>,
    startup_taints: Vec<StartupTaint>,
    runs: NodeUsage,
    may_run: NodeUsage,
    pods_allowed: Range,
    /// By resource: what is allocatable, and what is left.
    resources: BTreeMap<String, Ends>,
    pod_fits: Option<Range>,
}

/// The allocatable and remaining amount of a resource, on the nodes with the least and the most.
struct Ends {
    allocatable: [i64; 2],
    left: [i64; 2],
}

impl Shapes {
    fn add(&mut self, on_node: OnNode<'_>, agents: &[Agent<'_>], pod: Option<&Amounts>) {
        let OnNode { node, statics, outcomes, startup_taints } = on_node;
        let statics = statics.map(|pods| NodeUsage::of(pods.into_iter()));
        let static_key = statics.as_ref().map(|usage| (usage.pods, usage.requested.clone().into_iter().collect()));
        let taints = startup_taints.iter().map(|taint| format!("{taint:?}")).collect();
        let number = *self.numbers.entry((outcomes.clone(), static_key, taints)).or_insert_with(|| {
            let sum = |is: &Outcome| {
                let mut usage = NodeUsage::default();
                let matching = agents.iter().zip(&outcomes).filter(|(_, outcome)| *outcome == is);
                matching.for_each(|(agent, _)| usage.add_requests(&agent.requests));
                usage
            };
            let (runs, may_run) = (sum(&Outcome::Runs), sum(&Outcome::Depends));
            self.shapes.push(Shape {
                nodes: Vec::new(),
                outcomes,
                statics,
                startup_taints,
                runs,
                may_run,
                pods_allowed: Range { least: usize::MAX, most: 0 },
                resources: BTreeMap::new(),
                pod_fits: pod.map(|_| Range { least: usize::MAX, most: 0 }),
            });
            self.shapes.len() - 1
        });
        self.shapes[number].add(node, pod);
    }

    fn into_report(self, agents: &[Agent<'_>]) -> Vec<OverheadShape> {
        let mut shapes: Vec<OverheadShape> = self.shapes.into_iter().map(|shape| shape.into_report(agents)).collect();
        shapes.sort_by(|a, b| (b.nodes.len(), &a.nodes).cmp(&(a.nodes.len(), &b.nodes)));
        shapes
    }
}

fn widen(range: &mut Range, least: usize, most: usize) {
    *range = Range { least: range.least.min(least), most: range.most.max(most) };
}

impl Shape {
    /// Adds a node that runs the same.
    fn add(&mut self, node: &Node, pod: Option<&Amounts>) {
        self.nodes.push(node.metadata.name.clone());
        let allocatable = |resource: &str| node.status.allocatable.get(resource).map_or(0, |all| amount(resource, all));
        let slots = usize::try_from(node.status.allocatable.get("pods").map_or(0, Quantity::value)).unwrap_or(0);
        widen(&mut self.pods_allowed, slots, slots);
        let requested = |usage: &NodeUsage, resource: &str| usage.requested.get(resource).copied().unwrap_or(0);
        let of_statics = |resource: &str| self.statics.as_ref().map_or(0, |usage| requested(usage, resource));
        let least_taken = |resource: &str| of_statics(resource).saturating_add(requested(&self.runs, resource));
        let left = |resource: &str| {
            let most = allocatable(resource).saturating_sub(least_taken(resource));
            [most.saturating_sub(requested(&self.may_run, resource)).max(0), most.max(0)]
        };
        let statics = self.statics.as_ref().map_or(0, |usage| usage.pods);
        if let (Some(range), Some(pod)) = (&mut self.pod_fits, pod) {
            let free = slots.saturating_sub(statics + self.runs.pods);
            let most = how_many_fit(pod, free, |resource| left(resource)[1]);
            let least = how_many_fit(pod, free.saturating_sub(self.may_run.pods), |resource| left(resource)[0]);
            widen(range, least, most);
        }
        let offered = node.status.allocatable.keys().map(String::as_str);
        let offered = offered.filter(|resource| is_counted(resource) && allocatable(resource) > 0);
        let of_pods = [&self.runs, &self.may_run].into_iter().chain(&self.statics);
        let of_pods = of_pods.flat_map(|usage| usage.requested.keys().map(String::as_str));
        let asked = pod.into_iter().flat_map(|pod| pod.keys().map(String::as_str));
        let all: BTreeSet<String> =
            ["cpu", "memory"].into_iter().chain(offered).chain(of_pods).chain(asked).map(str::to_owned).collect();
        let found: Vec<_> = all
            .into_iter()
            .map(|resource| {
                let (allocatable, left) = (allocatable(&resource), left(&resource));
                (resource, allocatable, left)
            })
            .collect();
        for (resource, allocatable, left) in found {
            let ends = self.resources.entry(resource).or_insert(Ends { allocatable: [allocatable; 2], left });
            ends.allocatable = [ends.allocatable[0].min(allocatable), ends.allocatable[1].max(allocatable)];
            ends.left = [ends.left[0].min(left[0]), ends.left[1].max(left[1])];
        }
    }

    fn into_report(self, agents: &[Agent<'_>]) -> OverheadShape {
        let of = |is: fn(&Outcome) -> bool| -> Vec<DaemonSetRequests> {
            let matching = agents.iter().zip(&self.outcomes).filter(|(_, outcome)| is(outcome));
            let mut found: Vec<DaemonSetRequests> =
                matching.map(|(agent, outcome)| requests_of(agent, outcome)).collect();
            found.sort_by_key(|one| Reverse(size(one)));
            found
        };
        let statics = self.statics.as_ref();
        let resources = self.resources.iter().map(|(resource, ends)| {
            let one = |value: i64| Amount { resource: resource.clone(), value, text: format_amount(resource, value) };
            let range = |[least, most]: [i64; 2]| AmountRange { least: one(least), most: one(most) };
            let requested = |usage: &NodeUsage| usage.requested.get(resource).copied().unwrap_or(0);
            let (daemon_sets, static_pods) = (requested(&self.runs), statics.map_or(0, requested));
            let taken = daemon_sets.saturating_add(static_pods);
            let percent =
                |allocatable: i64| (i128::from(taken) * 100 + i128::from(allocatable) / 2) / i128::from(allocatable);
            ResourceOverhead {
                resource: resource.clone(),
                daemon_sets: one(daemon_sets),
                static_pods: one(static_pods),
                percent: (ends.allocatable[0] > 0)
                    .then(|| i64::try_from(percent(ends.allocatable[0])).unwrap_or(i64::MAX)),
                allocatable: range(ends.allocatable),
                left: range(ends.left),
            }
        });
        let daemon_sets: Vec<&DaemonSet> = agents.iter().map(|agent| agent.daemon_set).collect();
        let startup_taints = self.startup_taints.iter().map(|taint| startup_taint(taint, &daemon_sets));
        OverheadShape {
            runs: of(|outcome| *outcome == Outcome::Runs),
            may_run: of(|outcome| *outcome == Outcome::Depends),
            does_not_fit: of(|outcome| matches!(outcome, Outcome::Lacks(_))),
            static_pods: statics.map(|usage| usage.pods),
            pods: self.runs.pods + statics.map_or(0, |usage| usage.pods),
            pods_allowed: self.pods_allowed,
            resources: resources.collect(),
            startup_taints: startup_taints.collect(),
            pod_fits: self.pod_fits,
            nodes: self.nodes,
        }
    }
}

/// Returns how many pods with these requests fit into the rest.
fn how_many_fit(pod: &Amounts, slots: usize, left: impl Fn(&str) -> i64) -> usize {
    let of = |(resource, amount): (&String, &i64)| usize::try_from(left(resource) / (*amount).max(1)).unwrap_or(0);
    pod.iter().filter(|(_, amount)| **amount > 0).map(of).min().unwrap_or(usize::MAX).min(slots)
}

fn amounts(amounts: &Amounts) -> Vec<Amount> {
    let one = |(resource, value): (&String, &i64)| Amount {
        resource: resource.clone(),
        value: *value,
        text: format_amount(resource, *value),
    };
    amounts.iter().map(one).collect()
}

fn requests_of(agent: &Agent<'_>, outcome: &Outcome) -> DaemonSetRequests {
    DaemonSetRequests {
        namespace: agent.daemon_set.metadata.namespace.clone(),
        name: agent.daemon_set.metadata.name.clone(),
        priority: agent.pod.spec.priority,
        requests: amounts(&agent.requests),
        lacks: match outcome {
            Outcome::Lacks(lacks) => lacks.clone(),
            Outcome::NotEligible | Outcome::Runs | Outcome::Depends => Vec::new(),
        },
    }
}

/// Returns the sort key of DaemonSets: their cpu and memory requests.
fn size(requests: &DaemonSetRequests) -> [i64; 2] {
    ["cpu", "memory"].map(|resource| {
        let found = requests.requests.iter().find(|amount| amount.resource == resource);
        found.map_or(0, |amount| amount.value)
    })
}

/// Reports a taint that one of these DaemonSets removes.
pub(super) fn startup_taint(taint: &StartupTaint, daemon_sets: &[&DaemonSet]) -> StartupTaintReport {
    let kept_by: Vec<String> = taint.kept_by.iter().flatten().map(ToString::to_string).collect();
    let remover = taint.removers.first().map(|number| daemon_sets[*number]);
    let removed_by = remover.map(|remover| format!("DaemonSet {}", remover.metadata.full_name())).unwrap_or_default();
    let advice = match kept_by.as_slice() {
        [] => format!("check the nodeSelector and affinity of {removed_by}"),
        taints => format!("add a toleration of {} to {removed_by}", taints.join(" and ")),
    };
    StartupTaintReport {
        taint: taint.taint.to_string(),
        removed_by: taint.removers.iter().map(|number| daemon_sets[*number].metadata.full_name()).collect(),
        stays: taint.kept_by.is_some(),
        fix: remover.filter(|_| taint.kept_by.is_some()).map(|remover| Fix::new(advice, edit(remover))),
        kept_by,
    }
}

/// Returns the details of a single node.
fn single_node(
    index: &Index<'_>,
    of: &OfNodes,
    daemon_pods: &[(&DaemonSet, DaemonPod)],
    removers: &TaintRemovers<'_>,
    pod: Option<&Amounts>,
) -> Option<SingleNode> {
    let (node, like, left_out, exists) = match of {
        OfNodes::By(_) => return None,
        OfNodes::Existing(node) => (node, None, &[][..], true),
        OfNodes::New { node, like, left_out } => (node, like.clone(), left_out.as_slice(), false),
    };
    let after = removers.after_start(node);
    let not_eligible = daemon_pods.iter().filter_map(|(daemon_set, daemon_pod)| {
        let eligibility = daemon_pod.explain(&after.node);
        let why = eligibility::findings(index, daemon_set, &after.node, &eligibility).into_iter().next();
        (!eligibility.decision.should_run).then(|| NotEligible {
            namespace: daemon_set.metadata.namespace.clone(),
            name: daemon_set.metadata.name.clone(),
            message: why.map(|finding| finding.message.to_string()).unwrap_or_default(),
            may_stay: eligibility.decision.should_continue_running,
        })
    });
    let name = &node.metadata.name;
    let other_pods = (exists && index.snapshot.knows_all_pods_on(name)).then(|| {
        let bound = index.bound_to(name).into_iter().filter(|pod| !pod.is_terminal());
        let (own, others): (Vec<&Pod>, Vec<&Pod>) = bound.partition(|pod| is_static(pod) || is_of_daemon_set(pod));
        let usage = NodeUsage::of(others.iter().copied());
        let all = NodeUsage::of(own.into_iter().chain(others));
        let allocatable = |resource: &str| node.status.allocatable.get(resource).map_or(0, |all| amount(resource, all));
        let used = |resource: &str| all.requested.get(resource).copied().unwrap_or(0);
        let slots = usize::try_from(allocatable("pods")).unwrap_or(0).saturating_sub(all.pods);
        let free = |resource: &str| allocatable(resource).saturating_sub(used(resource)).max(0);
        let pod_fits = pod.map(|pod| how_many_fit(pod, slots, free));
        OtherPods { count: usage.pods, requests: amounts(&usage.requested), pod_fits }
    });
    Some(SingleNode {
        name: name.clone(),
        exists,
        like,
        left_out_taints: left_out.iter().map(ToString::to_string).collect(),
        not_eligible: not_eligible.collect(),
        other_pods,
    })
}

/// Returns the DaemonSets whose pods stay Pending on a node that is full of workload pods, most of which they may not preempt.
///
/// For a single node, or a new one like it, the pods of that node are used.
fn unprotected<'a>(
    snapshot: &Snapshot,
    of: &OfNodes,
    used: impl Iterator<Item = &'a Agent<'a>>,
) -> Option<Vec<Unprotected>> {
    let alone = match of {
        OfNodes::Existing(node) => Some(&node.metadata.name),
        OfNodes::New { like, .. } => like.as_ref(),
        OfNodes::By(_) => None,
    };
    let is_known = match alone {
        Some(node) => snapshot.knows_all_pods_on(node),
        None => snapshot.nodes.iter().all(|node| snapshot.knows_all_pods_on(&node.metadata.name)),
    };
    if !is_known {
        return None;
    }
    let is_workload = |pod: &&Pod| {
        !pod.is_terminal()
            && !is_of_daemon_set(pod)
            && !is_static(pod)
            && !has_priority(&pod.spec, SYSTEM_CRITICAL)
            && alone.is_none_or(|node| pod.spec.node_name == *node)
    };
    let priorities: Vec<i32> = snapshot.pods.iter().filter(is_workload).map(priority).collect();
    let Some(highest) = priorities.iter().max().copied() else { return Some(Vec::new()) };
    let mut groups: BTreeMap<(i32, bool), Vec<String>> = BTreeMap::new();
    for agent in used {
        let Some(own) = agent.pod.spec.priority else { continue };
        let never = agent.pod.spec.preemption_policy == NEVER;
        let not_lower = priorities.iter().filter(|other| **other >= own).count();
        if never || not_lower * 2 > priorities.len() {
            groups.entry((own, never)).or_default().push(agent.daemon_set.metadata.full_name());
        }
    }
    let groups = groups.into_iter().map(|((own, never), daemon_sets)| {
        let class = class_above(&snapshot.priority_classes, highest).map(|class| format!(", such as {class}"));
        let without = if never { " without preemptionPolicy Never and" } else { "" };
        let advice =
            format!("give them a priorityClassName{without} with a value above {highest}{}", class.unwrap_or_default());
        Unprotected {
            daemon_sets,
            priority: own,
            never_preempts: never,
            pods_not_lower: priorities.iter().filter(|other| **other >= own).count(),
            workload_pods: priorities.len(),
            fix: advice.into(),
        }
    });
    Some(groups.collect())
}

/// Returns what could not be read and affects the pods of these DaemonSets.
fn incomplete(snapshot: &Snapshot, agents: &[Agent<'_>]) -> Vec<Incomplete> {
    let mut found: Vec<Incomplete> = Vec::new();
    let all = agents
        .iter()
        .flat_map(|agent| gaps::incomplete_for_new_pods(snapshot, &agent.daemon_set.spec.template.spec, true));
    for gap in all {
        if !found.contains(&gap) {
            found.push(gap);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{OfNodes, PodRequests, new_node_like, overhead};
    use crate::coverage::test_support::{at, world};
    use crate::model::snapshot::{PodsComplete, Snapshot};

    fn requesting(cpu: &str) -> Value {
        json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]})
    }

    /// Returns a cluster whose agent requests 3 of the 4 cores of each node.
    fn cluster() -> Snapshot {
        let owner = |kind: &str| json!([{"kind": kind, "name": "n", "uid": "u", "controller": true}]);
        let of = |kind: &str| json!({"metadata": {"ownerReferences": owner(kind)}, "spec": requesting("500m")});
        let taints = json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
            {"key": "dedicated", "effect": "PreferNoSchedule"}]);
        let mut snapshot = world()
            .template(requesting("3"))
            .node("n", json!({"metadata": {"labels": {"type": "big"}}, "spec": {"taints": taints}}))
            .other_pod("static", "n", of("Node"))
            .other_pod("web", "n", of("ReplicaSet"))
            .node("m", json!({}))
            .finish();
        let class = json!({"metadata": {"name": "high"}, "value": 1000});
        snapshot.priority_classes.push(serde_json::from_value(class).unwrap());
        snapshot.pods_complete = PodsComplete::Everywhere;
        snapshot
    }

    #[test]
    fn requests_are_amounts_of_what_nodes_have() {
        let PodRequests(requests) = "cpu=1500m,memory=1Gi,nvidia.com/gpu=2".parse().unwrap();
        assert_eq!((requests["cpu"], requests["memory"], requests["nvidia.com/gpu"]), (1_500, 1 << 30, 2));
        for invalid in ["", "cpu", "cpu=", "cpu=x", "cpu=0", "cpu=-1", "cpus=1", "pods=3"] {
            assert!(invalid.parse::<PodRequests>().is_err(), "{invalid}");
        }
    }

    #[test]
    fn static_pods_count_and_other_pods_only_of_a_node_that_exists() {
        let snapshot = cluster();
        let node = snapshot.nodes.iter().find(|node| node.metadata.name == "n").unwrap();
        let pod: PodRequests = "cpu=500m".parse().unwrap();
        let (new, left_out) = new_node_like(node);
        assert_eq!(
            left_out.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["node.kubernetes.io/unschedulable:NoSchedule"]
        );
        for of in [OfNodes::New { node: new, like: Some("n".to_owned()), left_out }, OfNodes::Existing(node.clone())] {
            let exists = matches!(of, OfNodes::Existing(_));
            let report = overhead(&snapshot, &of, Some(&pod));
            let shape = &report.groups[0].shapes[0];
            assert_eq!((shape.runs.len(), shape.static_pods, shape.pods), (1, Some(1), 2));
            assert_eq!((shape.resources[0].left.most.text.as_str(), shape.resources[0].percent), ("500m", Some(88)));
            assert_eq!(shape.pod_fits.unwrap().least, 1);
            let others = report.node.unwrap().other_pods.map(|others| (others.count, others.pod_fits));
            // The agent has no pod there yet.
            assert_eq!(others, exists.then_some((1, Some(6))));
            let unprotected = report.unprotected.unwrap();
            assert_eq!((unprotected[0].pods_not_lower, unprotected[0].workload_pods), (1, 1));
            assert!(unprotected[0].fix.advice.ends_with("above 0, such as high"));
        }
    }

    /// Only the pods tell what a webhook does.
    #[test]
    fn a_new_pod_requests_what_admission_has_made_of_the_newest() {
        for (pods, expected) in [
            (&[][..], "3"),
            (&[("11:00:00", "1", "3500m")], "3500m"),
            (&[("11:00:00", "1", "1"), ("11:10:00", "1", "2")], "2"),
            // That of another template tells nothing.
            (&[("11:00:00", "1", "2"), ("11:10:00", "0", "1")], "2"),
            (&[("11:10:00", "0", "1")], "3"),
        ] {
            let annotations = json!({"deprecated.daemonset.template.generation": "1"});
            let mut world =
                world().template(requesting("3")).daemon_set(json!({"metadata": {"annotations": annotations}}));
            for (number, (created, generation, cpu)) in pods.iter().enumerate() {
                let node = format!("n{number}");
                let metadata =
                    json!({"creationTimestamp": at(created), "labels": {"pod-template-generation": generation}});
                world = world.node(&node, json!({})).pod(
                    &format!("agent-{number}"),
                    &node,
                    json!({"metadata": metadata, "spec": requesting(cpu)}),
                );
            }
            let snapshot = world.node("new", json!({})).finish();
            let node = snapshot.nodes.iter().find(|node| node.metadata.name == "new").unwrap().clone();
            let report = overhead(&snapshot, &OfNodes::Existing(node), None);
            let cpu = &report.groups[0].shapes[0].resources[0];
            assert_eq!(cpu.daemon_sets.text, expected, "{pods:?}");
        }
    }

    #[test]
    fn nodes_are_grouped_by_a_label_and_by_what_they_run() {
        let mut snapshot = cluster();
        let report = overhead(&snapshot, &OfNodes::By("type".to_owned()), None);
        let groups: Vec<_> = report.groups.iter().map(|group| (group.value.as_deref(), group.nodes)).collect();
        assert_eq!(groups, [(Some("big"), 1), (None, 1)]);
        // Without the pods, it is unknown which ones are in the way.
        snapshot.pods_complete = PodsComplete::default();
        let report = overhead(&snapshot, &OfNodes::By("type".to_owned()), None);
        assert!(report.unprotected.is_none() && report.groups[0].shapes[0].static_pods.is_none());
    }
}
