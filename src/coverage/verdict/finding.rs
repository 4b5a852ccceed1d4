//! What a rule finds wrong: a reason whose sentences can still be merged with those of other nodes.
//!
//! The rule that finds it also says where it comes from ([`Origin`]) and how it ends ([`Passing`]); whose fault it is follows from that
//! and from all nodes (`rollout/situation/fault.rs`).

use super::sentence::Sentence;
use crate::facts::Facts;
use crate::model::daemon_set::{DaemonSet, Flavor};
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::report::coverage::ReasonGroup;
use crate::report::fix::{Command, Fix};
use crate::report::incident::Refuser;
use crate::report::reason::{Class, Passing, Reason, ReasonCode};

/// Where a cause comes from, which is what has to change so that it goes away.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The node, or what it says to a pod of any template: other nodes run the same pod.
    Node,
    /// The control plane, and what it asks: no node and no other template helps.
    ControlPlane,
    /// A quota of the namespace.
    Quota,
    /// A policy of the cluster, or what the template has that it rejects: the names of these fields, if it tells all of them.
    Policy(Vec<String>),
    /// The template's rules about nodes; intended, if the pod should not run there.
    Placement,
    /// Something of which the node, or one beside the other pods, has too little.
    Room(Lack),
    /// A part of the template: what it has the containers do, or names.
    Template(TemplatePart),
    /// A pod that should not be there, which keeps no node from its available pod.
    Surplus,
    /// Nothing: it passes, unless it takes too long.
    Time,
    /// What admission has made of the pod, whatever its template says.
    Admission,
    /// Nobody can tell, or the DaemonSet beside its template, such as its selector.
    Unknown,
}

impl Origin {
    /// Returns the origin of what is wrong with an object that the template refers to, or that it does not exist.
    pub fn object(kind: &'static str, name: &str) -> Self {
        Origin::Template(TemplatePart::Object { kind, name: name.to_owned(), key: None })
    }
}

/// Of what a node has too little.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// Pods, of which every template takes one.
    Pods,
    /// Resources that pods request, beside the other pods.
    Requests,
    /// Resources that pods request, even without other pods.
    Allocatable,
    /// Host ports, beside the other pods.
    HostPorts,
    /// Anything beside the pod that a surge is to replace: two pods of this DaemonSet exclude each other.
    BesideOldPod,
    /// What a pod uses beyond its requests or limits.
    OwnUsage,
}

/// The part of a template that a cause is about. If it is the same in another revision, that one fares no better.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TemplatePart {
    /// An image, as the template refers to it.
    Image(String),
    /// The registry that an image is pulled from, by its host name.
    Registry(String),
    /// What the pod asks of its node or of storage beside its programs: devices, profiles, capabilities, volumes and mounts.
    AskedOfNode,
    /// An object that the template refers to, and the key in it if that is what is missing.
    Object {
        /// As Kubernetes spells it, such as `ConfigMap`.
        kind: &'static str,
        name: String,
        key: Option<String>,
    },
    /// What containers request, and their limits.
    Requests,
    /// A resource of which a node has this much for a pod, in the units of its requests, if that was said.
    Requested {
        resource: String,
        free: Option<i64>,
    },
    /// Devices, or whatever a device plugin offers.
    Devices,
    /// The claims of devices.
    Claims,
    HostPorts,
    Volume(String),
    /// Which volumes have to be attached to a node.
    AttachedVolumes,
    ServiceAccount,
    /// A priority class from which on the kubelet neither evicts nor preempts a pod.
    CriticalPriority,
    /// The network of the node, which no plugin has to set up.
    HostNetwork,
    /// The AppArmor and seccomp profiles.
    Profiles,
    /// The labels that a node has to have.
    NodeSelection,
    /// What the sandbox depends on: everything outside of the containers.
    Sandbox,
    /// The rules about other pods.
    OtherPods,
    RuntimeClass,
    Scheduler,
    /// An address of the node with its port, on which something else listens.
    Port(String),
    /// What programs find on their node by what they are told, whatever the image: a lock in a directory, or DNS servers.
    BesideImage,
    /// A path of a container that is missing, on the node or in an object that is mounted there.
    Mounted {
        container: String,
        path: String,
        /// Whether it is a socket that exists, but which nobody serves.
        exists: bool,
    },
    /// A container by its name, as far as its pod has got with it.
    Container(String, Step),
    /// The gates of the scheduling.
    SchedulingGates,
    /// It may be anything.
    Anything,
}

/// How far the kubelet has got with a container: it goes through the init containers one after the other and then through the others, and
/// pulls the image of each just before it creates it (`SyncPod`, pkg/kubelet/kuberuntime/kuberuntime_manager.go, release 1.37.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Its image is to be there.
    Pull,
    /// It is created and started, which its environment, probes and hooks do not affect.
    Start,
    /// It runs, and nothing that comes after it has started: it is an init container, or a sidecar that starts.
    First,
    /// It runs among others, and does by itself what it does.
    Alone,
}

/// What is judged of a finding: all but its words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnosis {
    pub code: ReasonCode,
    /// Where it comes from.
    pub origin: Origin,
    /// Without which part of the template a pod would not meet it, although it comes from elsewhere.
    pub only_with: Option<TemplatePart>,
    /// Whether it passes by itself.
    pub passing: Passing,
    /// Whether the pod waits for nothing but that terminating pods leave, however long they have been terminating.
    pub waits_for_leaving: bool,
}

impl Diagnosis {
    /// Returns whether the template can be the cause, so that pods of another revision may do better on the same node.
    pub fn can_be_template(&self) -> bool {
        match &self.origin {
            // A template decides what a pod takes of a node, but each is one pod.
            Origin::Room(lack) => !matches!(lack, Lack::Pods | Lack::OwnUsage),
            // What takes too long may be the template's; what only terminates or is not created yet has none.
            Origin::Time => self.code == ReasonCode::ContainersStarting,
            Origin::Template(_) | Origin::Placement | Origin::Policy(_) => true,
            Origin::Node
            | Origin::ControlPlane
            | Origin::Quota
            | Origin::Surplus
            | Origin::Admission
            | Origin::Unknown => false,
        }
    }
}

/// What a rule finds wrong with one node.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub code: ReasonCode,
    /// Where it comes from.
    pub origin: Origin,
    /// Without which part of the template a pod would not meet it, although it comes from elsewhere.
    pub only_with: Option<Box<TemplatePart>>,
    /// Whether it passes by itself.
    pub passing: Passing,
    /// Whether the pod waits for nothing but that terminating pods leave, however long they have been terminating.
    pub waits_for_leaving: bool,
    /// What is wrong.
    pub message: Sentence,
    /// What to do.
    pub advice: Sentence,
    /// A command for it that is safe to paste.
    pub command: Option<Command>,
    /// Whether even an ineligible node is news: the DaemonSet likely has a mistake in it, or the node's removal is stuck.
    pub likely_mistake: bool,
    /// Whether the node waits for a pod that this keeps away, or for what was not done when that started, so that it takes no other pods
    /// either.
    pub keeps_node_waiting: bool,
    /// What refuses the pod, if the API server does and says what.
    pub refused_by: Option<Box<Refuser>>,
}

impl Finding {
    /// Creates a finding from what is wrong and what to do.
    pub fn new(code: ReasonCode, message: impl Into<Sentence>, advice: impl Into<Sentence>) -> Self {
        let (message, advice) = (message.into(), advice.into());
        let (origin, passing) = (usual_origin(code), code.usual_passing());
        Finding {
            code,
            origin,
            only_with: None,
            passing,
            waits_for_leaving: false,
            message,
            advice,
            command: None,
            likely_mistake: false,
            keeps_node_waiting: false,
            refused_by: None,
        }
    }

    /// Says where it comes from, if that is not what the code alone says.
    #[must_use]
    pub fn with_origin(mut self, origin: Origin) -> Self {
        self.origin = origin;
        self
    }

    /// Says without which part of the template a pod would not meet what comes from its node or the cluster: if the revision to roll back to
    /// does not have that, it may be the current one's ([`Situation`](crate::rollout::situation::Situation)).
    #[must_use]
    pub fn only_with(mut self, part: impl Into<Option<TemplatePart>>) -> Self {
        self.only_with = part.into().map(Box::new);
        self
    }

    /// Says what it depends on, if all that is known is that it may be any part of the template, or how long it takes.
    #[must_use]
    pub fn depends_on(mut self, part: impl Into<Option<TemplatePart>>) -> Self {
        use TemplatePart::{Anything, Container};
        let is_open = matches!(self.origin, Origin::Time | Origin::Template(Anything | Container(_, Step::Alone)));
        if let Some(part) = part.into().filter(|_| is_open) {
            self.origin = Origin::Template(part);
        }
        self
    }

    /// Says whether it passes by itself, if that is not what the code alone says.
    #[must_use]
    pub fn with_passing(mut self, passing: Passing) -> Self {
        self.passing = passing;
        self
    }

    /// Creates the finding of a likely mistake in the DaemonSet, which is corrected in an editor.
    pub fn mistake(
        daemon_set: &DaemonSet,
        code: ReasonCode,
        message: impl Into<Sentence>,
        advice: impl Into<Sentence>,
    ) -> Self {
        Finding { likely_mistake: true, ..Finding::new(code, message, advice).with_command(edit(daemon_set)) }
    }

    /// Adds words to the message.
    #[must_use]
    pub fn and(mut self, more: impl Into<Sentence>) -> Self {
        self.message = self.message.then(more.into());
        self
    }

    /// Replaces the advice.
    #[must_use]
    pub fn with_advice(mut self, advice: impl Into<Sentence>) -> Self {
        self.advice = advice.into();
        self
    }

    /// Adds a command, if there is one. It must be safe to paste: it shows something, opens an editor, or changes only what its
    /// finding has shown to be broken.
    #[must_use]
    pub fn with_command(mut self, command: impl Into<Option<Command>>) -> Self {
        self.command = command.into();
        self
    }

    /// Adds what refuses the pod.
    #[must_use]
    pub fn refused_by(mut self, refuser: Refuser) -> Self {
        self.refused_by = Some(Box::new(refuser));
        self
    }

    /// Adds to advice to edit the DaemonSet that another controller reverts such an edit, and where to change it instead.
    pub fn change_at(&mut self, writer: &str, daemon_set: &DaemonSet) {
        let edits = self.command.as_ref() == Some(&edit(daemon_set));
        let is_of_template = match self.code {
            ReasonCode::UntoleratedNoSchedule | ReasonCode::UntoleratedNoExecute | ReasonCode::NotReadyNotTolerated => {
                true
            }
            _ => self.origin == Origin::Room(Lack::HostPorts),
        };
        if edits || is_of_template {
            let begun = std::mem::replace(&mut self.advice, Sentence::from(""));
            self.advice = begun.words(format!("; {writer} writes this DaemonSet back: change it there"));
            self.command = self.command.take().filter(|_| !edits);
        }
    }

    /// Returns what is judged of it.
    pub fn diagnosis(&self) -> Diagnosis {
        let Finding { code, passing, waits_for_leaving, .. } = *self;
        let (origin, only_with) = (self.origin.clone(), self.only_with.as_deref().cloned());
        Diagnosis { code, origin, only_with, passing, waits_for_leaving }
    }

    /// Returns what to do.
    pub fn fix(&self) -> Fix {
        Fix { advice: self.advice.to_string(), command: self.command.clone() }
    }

    /// Returns the finding as a report gives it for one node.
    pub fn reason(&self) -> Reason {
        Reason {
            code: self.code,
            message: self.message.to_string(),
            fix: self.fix(),
            passing: self.passing.takes_time(),
        }
    }

    /// Returns the finding as a report gives it for several nodes, some of which may have no name.
    pub fn group(self, nodes: Vec<String>, unnamed: usize) -> ReasonGroup {
        let missing = match &self.origin {
            Origin::Template(TemplatePart::Object { kind, name, key: None }) => Some((*kind, name.clone())),
            _ => None,
        };
        ReasonGroup {
            missing,
            code: self.code,
            count: nodes.len() + unnamed,
            nodes,
            message: self.message.to_string(),
            fix: self.fix().for_reason(self.code.name()),
            refused_by: self.refused_by.map(|refuser| *refuser),
            since: None,
            since_at_latest: false,
            before_rollout: None,
            on_current_revision: None,
            fault: None,
            passing: self.passing.takes_time(),
        }
    }
}

/// Returns where the causes with a code come from if their rule does not say.
fn usual_origin(code: ReasonCode) -> Origin {
    use ReasonCode as R;
    use TemplatePart as P;
    match (code, code.class()) {
        (R::QuotaExceeded, _) => Origin::Quota,
        (R::SelectingAll | R::SelectorOverlap | R::TemplateChangesBack, _) => Origin::Unknown,
        (R::NotReadyNotTolerated, _) | (_, Class::Node) => Origin::Node,
        (R::NeverFits, _) => Origin::Room(Lack::Allocatable),
        (R::TooManyPods, _) => Origin::Room(Lack::Pods),
        (R::HostPortConflict, _) => Origin::Room(Lack::HostPorts),
        (R::SurgeHostPortDeadlock, _) => Origin::Room(Lack::BesideOldPod),
        (_, Class::Room) => Origin::Room(Lack::Requests),
        (R::SchedulerSilent, _) => Origin::Template(P::Scheduler),
        (R::SchedulingGated, _) => Origin::Template(P::SchedulingGates),
        (R::VolumeUnsatisfiable, _) => Origin::Template(P::AttachedVolumes),
        (R::PodAffinityBlocked, _) => Origin::Template(P::OtherPods),
        (R::DeviceClaimUnsatisfied, _) => Origin::Template(P::Claims),
        (R::InjectedNodeSelector, _) => Origin::Template(P::RuntimeClass),
        // A scheduler knows no programs, nor does a kubelet that mounts.
        (R::NodeFeatureMissing | R::SchedulerRejected | R::MountFailed, _) => Origin::Template(P::AskedOfNode),
        // Who sets the condition is outside of the pod.
        (R::SandboxFailed | R::ReadinessGate, _) => Origin::Template(P::Sandbox),
        (_, Class::Revision) => Origin::Template(P::Anything),
        (_, Class::Cluster) => Origin::ControlPlane,
        (_, Class::Placement) => Origin::Placement,
        (_, Class::Admission) => Origin::Policy(Vec::new()),
        (_, Class::Time) => Origin::Time,
        (_, Class::Surplus) => Origin::Surplus,
        (_, Class::Unknown) => Origin::Unknown,
    }
}

/// Returns the command that opens a DaemonSet in an editor.
pub fn edit(daemon_set: &DaemonSet) -> Command {
    let metadata = &daemon_set.metadata;
    Command::kubectl(&["edit", resource(daemon_set)]).namespace(&metadata.namespace).name(&metadata.name)
}

/// Returns how kubectl names the resource of a DaemonSet.
pub fn resource(daemon_set: &DaemonSet) -> &'static str {
    match daemon_set.flavor() {
        Flavor::Apps => "ds",
        Flavor::Advanced => "daemonsets.apps.kruise.io",
    }
}

pub fn describe_pod(pod: &Pod) -> Command {
    Command::kubectl(&["describe", "pod"]).namespace(&pod.metadata.namespace).name(&pod.metadata.name)
}

pub fn describe(nodes: &[&String]) -> Command {
    nodes.iter().fold(Command::kubectl(&["describe", "node"]), |command, node| command.name(*node))
}

pub fn describe_node(node: &Node) -> Command {
    describe(&[&node.metadata.name])
}

pub fn describe_bound_node(pod: &Pod) -> Command {
    describe(&[&pod.spec.node_name])
}

/// Returns the command that deletes a pod: only for one that does not run and that its controller recreates.
pub fn delete_pod(pod: &Pod) -> Command {
    Command::delete_pods(&pod.metadata.namespace, [&*pod.metadata.name])
}

/// Returns the command that shows a container's log, or that of the run before, which `logs` of this program finds by itself, even in
/// a dump, unless this has neither logs nor a termination message of the container.
pub fn logs(facts: &Facts<'_>, pod: &Pod, container: &str, previous: bool) -> Command {
    let (of, namespace) = (&facts.daemon_set.metadata.name, &pod.metadata.namespace);
    let has_message = || {
        let statuses = pod.container_statuses().filter(|status| status.name == container);
        let mut ends = statuses.flat_map(|status| [&status.state.terminated, &status.last_state.terminated]).flatten();
        ends.any(|end| !end.message.is_empty())
    };
    let is_there = || !facts.index.snapshot.lacks_logs || has_message();
    if facts.daemon_set.flavor() == Flavor::Apps && is_there() {
        let logs = Command::kubectl(&["ds", "logs"]).namespace(namespace).flag("--node", &*pod.spec.node_name);
        return logs.flag("-c", container).name(of);
    }
    if previous {
        return log_before(pod, container);
    }
    Command::kubectl(&["logs"]).namespace(namespace).flag("-c", container).name(&pod.metadata.name)
}

/// Returns the command that shows the log of a container's run before this one.
pub fn log_before(pod: &Pod, container: &str) -> Command {
    let logs = Command::kubectl(&["logs"]).namespace(&pod.metadata.namespace).flag("-c", container);
    logs.switch("--previous").name(&pod.metadata.name)
}
