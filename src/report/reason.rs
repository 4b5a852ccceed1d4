//! Reason codes: why a node has no available pod, or should not have one.

use super::fix::Fix;

/// Declares an enum whose values have the same name in Rust and in JSON.
macro_rules! named_values {
    ($(#[$about:meta])* $type:ident { $($(#[$meta:meta])* $value:ident,)+ }) => {
        #[apply(value!)]
        #[derive(PartialOrd, Ord, Hash)]
        $(#[$about])*
        pub enum $type {
            $($(#[$meta])* $value,)+
        }

        impl $type {
            /// Every value, in the order of the reference.
            pub const ALL: &[$type] = &[$($type::$value,)+];

            /// Returns the name as it is written in reports.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$value => stringify!($value),)+
                }
            }
        }
    };
}

pub(super) use named_values;

/// Declares the reason codes, a row each: what it means, what to do, what has to change, and whether it passes by itself.
macro_rules! reason_codes {
    ($(#[doc = $meaning:tt] $(#[doc = $to_do:tt])+ $code:ident: $class:ident, $passes:ident;)+) => {
        named_values! {
            /// A code for a reason; stable, so that scripts can depend on it.
            ReasonCode { $(#[doc = $meaning] $code,)+ }
        }

        impl ReasonCode {
            /// Returns what it means, and what to do; docs/reason-codes.md has both.
            pub fn about(self) -> (&'static str, &'static str) {
                match self {
                    $(ReasonCode::$code => ($meaning, concat!($($to_do),+)),)+
                }
            }

            /// Returns what has to change so that it goes away.
            pub fn class(self) -> Class {
                match self {
                    $(ReasonCode::$code => Class::$class,)+
                }
            }

            /// Returns whether causes with this code pass by themselves if their rule does not say.
            pub fn usual_passing(self) -> Passing {
                match self {
                    $(ReasonCode::$code => Passing::$passes,)+
                }
            }
        }
    };
}

reason_codes! {
    /// `nodeName` in the template pins the pods to another node.
    /// If the pods should run on other nodes too, remove `nodeName` from the template.
    NodeNameMismatch: Placement, Never;
    /// The node does not have a label that the nodeSelector requires.
    /// Nothing, if the node is excluded on purpose. Otherwise set the label, or correct the nodeSelector.
    NodeSelectorLabelMissing: Placement, Never;
    /// The node has another value for a label that the nodeSelector requires.
    /// Nothing, if the node is excluded on purpose. Otherwise change the label, or correct the nodeSelector.
    NodeSelectorValueMismatch: Placement, Never;
    /// No term of the required node affinity matches.
    /// Nothing, if the node is excluded on purpose. Otherwise change the label or the closest term; `--node` shows
    /// which term that is.
    AffinityTermMismatch: Placement, Never;
    /// A term of the required node affinity never matches any node.
    /// Correct the value: `Gt` and `Lt` take one integer. The API server accepts others and never matches them.
    AffinityTermInvalid: Placement, Never;
    /// The required node affinity has no term with a requirement, so it matches no node.
    /// Add a requirement. Without the required node affinity, the pods run on every node that the other rules allow.
    AffinityEmptyTerms: Placement, Never;
    /// A NoSchedule taint is not tolerated.
    /// Nothing, if the node is excluded on purpose or for the time being. Otherwise add a toleration to the template.
    UntoleratedNoSchedule: Placement, Never;
    /// A NoExecute taint is not tolerated, so it also evicts pods.
    /// Nothing, if the node is excluded on purpose or for the time being. Otherwise add a toleration to the template.
    UntoleratedNoExecute: Placement, Never;
    /// The node is not ready, and its taint excludes it from `desiredNumberScheduled`.
    /// Check the kubelet and the network of the node. A pod that is on the node keeps running, but is not recreated if
    /// it is deleted.
    NodeNotReadyTaint: Node, Never;
    /// A network or kubelet plugin does not tolerate the taint of nodes that are not ready, which may be waiting for it.
    /// Add a toleration for `node.kubernetes.io/not-ready:NoSchedule` to the template. A pod that is on such a node
    /// must not be deleted: it would not be recreated.
    NotReadyNotTolerated: Placement, Never;
    /// An autoscaler has been removing the node for more than 15 minutes, and its taint excludes the node.
    /// Check what blocks the drain: a PodDisruptionBudget, the annotation `karpenter.sh/do-not-disrupt` or
    /// `cluster-autoscaler.kubernetes.io/safe-to-evict` of a pod, or a finalizer; and the log of the autoscaler. If it has given
    /// the node up or is no longer installed, remove the taint. The message names the pods that were not evicted or do not
    /// terminate, unless more than 20 nodes are stuck, and the finalizers of a Node object that is being deleted.
    NodeRemovalStuck: Node, Never;
    /// The network of the node is not up, and the pods do not use the host network.
    /// Check the network plugin on the node. A network plugin itself needs `hostNetwork: true`.
    NetworkUnavailable: Node, Never;
    /// Only an `Lt` or `Gt` toleration would tolerate a taint, which depends on a feature gate.
    /// Use `Equal` or `Exists`. `Lt` and `Gt` need the alpha feature gate `TaintTolerationComparisonOperators`.
    ComparisonOperatorUnknown: Placement, Never;
    /// The pod is running, but would not be recreated.
    /// No action is needed, but do not delete the pod. If the node should run these pods, tolerate the taint.
    Misscheduled: Surplus, Never;
    /// The pod is on a node that is not eligible, and the controller deletes it.
    /// Wait. If the pod remains, check kube-controller-manager.
    PodOnIneligibleNode: Surplus, Always;
    /// The controller has not observed the current spec.
    /// Check kube-controller-manager and its lease in kube-system.
    ControllerNotObserved: Cluster, Never;
    /// The API server does not delete pods for the controller, which therefore replaces none: it fails, or something refuses.
    /// Correct the policy or webhook that the message names, or exempt the controller's service account from it; if the API server or
    /// etcd fails, repair it, and the controller tries again by itself.
    DeletionRefused: Cluster, Never;
    /// The selector selects all pods, which the controller rejects.
    /// Recreate the DaemonSet with a selector; a selector cannot be changed. Deleting it with `--cascade=orphan` keeps
    /// its pods.
    SelectingAll: Cluster, Never;
    /// The selector also selects the pods of another DaemonSet.
    /// Recreate one of them with labels of its own; a selector cannot be changed. Until then, commands that take the
    /// selector act on the pods of both, and each controller adopts pods of the other that lose their owner. Deleting a
    /// DaemonSet with `--cascade=orphan` is what makes them lose it.
    SelectorOverlap: Cluster, Never;
    /// The DaemonSet is being deleted.
    /// Wait. If it does not end, check the controller that owns the finalizer.
    DaemonSetDeleting: Cluster, Never;
    /// Pods that were adopted from a DaemonSet of the same name count as updated, and are of another template.
    /// Restart the pods to replace them: the controller does not, because their label `pod-template-generation` matches.
    AdoptedPods: Cluster, Never;
    /// The template changes to one that it had before, again and again.
    /// Find the two that write it, such as an operator and a GitOps controller, and stop one of them: `managedFields` names them.
    TemplateChangesBack: Cluster, Never;
    /// The namespace is being deleted, or is gone, so that no pod is created in it.
    /// The template is right. Find what keeps the namespace: the conditions of its status name it.
    NamespaceTerminating: Cluster, Never;
    /// The API server or what is behind it could not create the pod, whatever the pod is like.
    /// Act on the message: etcd is out of space, the API server is overloaded or times out, or the controller lacks a permission.
    /// Otherwise wait: the controller tries again.
    ApiServerFailing: Cluster, Never;
    /// A resource quota denied the pod.
    /// Raise the quota, or free some of it. The latter does not help if one pod takes more than all of it.
    QuotaExceeded: Cluster, Never;
    /// A LimitRange denied the pod, or has set a default limit that is lower than a request.
    /// Change the resources in the template, or the LimitRange, which the message names. A default limit is not in the template:
    /// set one there, or raise the default.
    LimitRangeViolation: Admission, Never;
    /// Pod security admission denied the pod.
    /// Set the `securityContext` in the template as the level requires. Host paths, host namespaces and host ports need level
    /// `privileged`, most volume types need `baseline`, and no `securityContext` makes up for it: ask the owner of the namespace
    /// to label it `pod-security.kubernetes.io/enforce=LEVEL`, or move the DaemonSet to a namespace with that label.
    PodSecurityDenied: Admission, Never;
    /// No security context constraint (OpenShift) or PodSecurityPolicy that the service account may use allows the pod.
    /// The template may be right: an administrator has to grant the service account a constraint that allows it.
    SecurityConstraintDenied: Admission, Never;
    /// An admission webhook or policy denied the pod.
    /// Change the template to what it demands, or exempt it there. A webhook or policy that has failed itself is to be fixed.
    WebhookDenied: Admission, Never;
    /// An admission webhook could not be called.
    /// Restore the service behind the webhook, or correct its configuration. If the pods behind it need a node that is not ready
    /// without this DaemonSet, exempt the namespace, set `failurePolicy: Ignore`, or delete the configuration for the time being.
    WebhookUnavailable: Cluster, Never;
    /// The service account does not exist.
    /// Create it with its role bindings, or correct `serviceAccountName`.
    ServiceAccountMissing: Revision, Never;
    /// The priority class does not exist.
    /// Create it, or correct `priorityClassName`.
    PriorityClassMissing: Revision, Never;
    /// The runtime class does not exist.
    /// Create it, or correct `runtimeClassName`.
    RuntimeClassMissing: Revision, Never;
    /// The API server rejected the pod for another reason.
    /// Correct the template only if it has the field that the message names. Otherwise admission has set it, or the words are those
    /// of an admission plugin that demands something.
    PodSpecRejected: Admission, Never;
    /// The pod is not created yet.
    /// Wait: the controller creates pods in growing batches.
    CreatePending: Time, Always;
    /// No scheduler has tried to schedule the pod.
    /// Start the scheduler that the pod names, or correct `schedulerName`.
    SchedulerSilent: Cluster, AtStart;
    /// Scheduling gates keep the pod from being scheduled.
    /// Check the controller that owns the gate.
    SchedulingGated: Revision, Never;
    /// Too little of a resource is free on the node.
    /// Lower the request, or free some on the node.
    InsufficientResource: Room, Never;
    /// The pod requests more of a resource than the node has.
    /// Lower the request, or exclude such nodes.
    NeverFits: Placement, Never;
    /// The node has its maximum number of pods.
    /// Raise `maxPods` in the kubelet configuration, or move pods to other nodes.
    TooManyPods: Room, Never;
    /// A host port is in use by another pod.
    /// Change the host port of one of the two.
    HostPortConflict: Room, Never;
    /// The surge pod waits for a host port that the old pod uses until the surge pod is available.
    /// Use `maxUnavailable` instead of `maxSurge`: two pods cannot share the port.
    SurgeHostPortDeadlock: Room, Never;
    /// The node cannot have a volume of the pod.
    /// Correct the claim or the volume; the message names it.
    VolumeUnsatisfiable: Placement, Never;
    /// Rules about other pods exclude the node.
    /// Change the pod affinity, anti-affinity or topology spread constraint.
    PodAffinityBlocked: Placement, Never;
    /// The node cannot satisfy a device claim.
    /// Correct the ResourceClaim, or add devices to the node.
    DeviceClaimUnsatisfied: Placement, Never;
    /// Admission added a nodeSelector that the node does not match.
    /// Check the namespace's `scheduler.alpha.kubernetes.io/node-selector` annotation and the runtime class.
    InjectedNodeSelector: Placement, Never;
    /// The node does not have a feature that the pod needs.
    /// Upgrade the kubelet, or do not use the feature.
    NodeFeatureMissing: Placement, Never;
    /// The scheduler has nominated the node for the pod, and preempts lower-priority pods there.
    /// Wait: the pod is bound once they have terminated, at the latest after their grace period, which the message shows with their
    /// names. Nothing is wrong with the node or the template. If it takes longer, the pod that stays is at fault: a finalizer keeps
    /// it, or the kubelet of the node does not end it. If the same pods are preempted again and again, their controller recreates
    /// them there: the node has too little room for both.
    WaitingForPreemption: Room, InTime;
    /// The scheduler rejects the node for a reason that has no code of its own.
    /// Read the scheduler's message.
    SchedulerRejected: Placement, Never;
    /// The kubelet rejected the pod after it was bound to the node, or ended it because the node was shutting down.
    /// The kubelet's reason in the message tells whose fault it is. OutOf… (such as OutOfcpu), NodeShutdown, NodeAffinity and
    /// UnexpectedAdmissionError are about the node: it has less than the scheduler knew, or a device plugin fails. AppArmor,
    /// SysctlForbidden, PodOSNotSupported and NodePorts are about what the template asks of it: change the template, or exclude such
    /// nodes. The controller recreates the pod by itself, each time after a longer wait.
    KubeletRejected: Revision, Never;
    /// The pod has failed, and the controller waits before it recreates it.
    /// The wait doubles from one second to 15 minutes with each pod that fails on the node. Fix the cause first: the message
    /// has the pod's reason, and its containers' exit codes. If pods end so on one node only, look there; if they do on all nodes of
    /// a revision, its template is to blame. To retry now, delete the failed pod; `kubectl ds retry NAME` shows all that wait.
    FailedPodBackoff: Revision, Never;
    /// The kubelet evicted the pod, because the node ran short of memory, disk space or process IDs, or the pod exceeded a limit.
    /// If the message says that a container was using more than it requests, or that a limit was exceeded, the pod itself is to
    /// blame: set its requests and limits to what it uses. Otherwise the node is short because of something else: free it, and see
    /// its conditions with `kubectl describe node`. The controller recreates the pod, and the kubelet rejects it as long as the
    /// pressure lasts, except under memory pressure if it requests memory. Pods of a critical priority class are not evicted.
    Evicted: Node, Never;
    /// An image cannot be pulled.
    /// The message tells why, and the advice follows from it: the name or tag of the image, its platform,
    /// credentials, the registry, the network, or the disk of the node.
    ImagePullFailed: Revision, Never;
    /// A container cannot be created from its configuration.
    /// Create the ConfigMap, Secret or key that the message names, or fix what it tells: the command, the user, a
    /// mount, or the container runtime of the node.
    ContainerConfigError: Revision, Never;
    /// A container crashes repeatedly.
    /// Read the log: `kubectl ds logs NAME` has that of the previous run. With exit code 0 the command has ended; the command
    /// of a DaemonSet's container must keep running.
    CrashLooping: Revision, Never;
    /// The kubelet kills a container because its liveness or startup probe fails.
    /// Raise `timeoutSeconds` or `failureThreshold` of the probe, or find out why the container does not pass it.
    LivenessFailing: Revision, Never;
    /// A container was OOMKilled.
    /// Raise the memory limit, or free memory on the node if it ran out of memory.
    OOMKilled: Revision, Never;
    /// An init container has not completed.
    /// Read its log: `kubectl ds logs NAME -c CONTAINER`.
    InitBlocked: Revision, AtStart;
    /// The pod sandbox cannot be created: the network and the namespaces that the pod's containers share.
    /// The message tells what fails: the network plugin, its addresses, the RuntimeClass, or the container runtime on the node. If
    /// other new pods on the node fail in the same way, it is the node, or the pod of the network plugin's DaemonSet there: check
    /// that one first. If only this DaemonSet fails, it is something that its template asks for, such as a host port, a sysctl or a
    /// runtimeClassName. The kubelet retries by itself.
    SandboxFailed: Revision, Never;
    /// A volume cannot be mounted.
    /// Create what is to be mounted, or fix what the message tells: the path on the node, the driver, or the server
    /// of the volume.
    MountFailed: Revision, Never;
    /// The containers are running, but one is not ready.
    /// Fix the probe, or what keeps it from succeeding.
    ReadinessFailing: Revision, AtStart;
    /// A readiness gate is not satisfied.
    /// Check the controller that sets the condition.
    ReadinessGate: Revision, AtStart;
    /// The pod is ready, but not for `minReadySeconds` yet.
    /// Wait for `minReadySeconds` to pass.
    NotYetAvailable: Time, Always;
    /// The containers are starting.
    /// Wait.
    ContainersStarting: Time, InTime;
    /// The kubelet stopped posting status, or reports that the node is not ready.
    /// Check the kubelet and the network of the node. Delete the Node object only if its machine no longer exists.
    NodeUnreachable: Node, Never;
    /// The pod is terminating, within its grace period.
    /// Wait.
    Terminating: Time, Always;
    /// The pod is still there past its grace period.
    /// Check the controller that owns the finalizer, or the kubelet. Taint a node `node.kubernetes.io/out-of-service`
    /// only if its machine is shut down for certain.
    StuckTerminating: Node, Never;
    /// The node has one pod too many.
    /// Wait: the controller deletes it.
    DuplicatePod: Surplus, Never;
    /// The node of the pod does not exist.
    /// Wait: the controller or the pod garbage collector deletes the pod.
    OrphanedTarget: Node, Always;
    /// Nothing that was read explains why the node has no available pod.
    /// Look at the pod and its events: `kubectl describe pod`; without a pod, at those of the DaemonSet. If something could not be
    /// read, the answer says so: a dump with events, and the permission to list them, often explains it. Events are deleted after an
    /// hour by default. If one node is concerned, the log of its kubelet is next; if all are, that of kube-controller-manager or
    /// kube-scheduler.
    Unexplained: Unknown, AtStart;
}

/// What kubectl shows in its place of a pod, such as in its STATUS, and in events; only what stands for one code.
const OF_KUBECTL: &[(&str, ReasonCode)] = &[
    ("ContainerCreating", ReasonCode::ContainersStarting),
    ("CrashLoopBackOff", ReasonCode::CrashLooping),
    ("CreateContainerConfigError", ReasonCode::ContainerConfigError),
    ("CreateContainerError", ReasonCode::ContainerConfigError),
    ("ErrImageNeverPull", ReasonCode::ImagePullFailed),
    ("ErrImagePull", ReasonCode::ImagePullFailed),
    ("FailedAttachVolume", ReasonCode::MountFailed),
    ("FailedCreatePodSandBox", ReasonCode::SandboxFailed),
    ("FailedDaemonPod", ReasonCode::FailedPodBackoff),
    ("FailedMapVolume", ReasonCode::MountFailed),
    ("FailedMount", ReasonCode::MountFailed),
    ("ImageInspectError", ReasonCode::ImagePullFailed),
    ("ImagePullBackOff", ReasonCode::ImagePullFailed),
    ("InvalidImageName", ReasonCode::ImagePullFailed),
    ("NetworkNotReady", ReasonCode::NodeUnreachable),
    ("NotReady", ReasonCode::NodeUnreachable),
    ("PodInitializing", ReasonCode::ContainersStarting),
    ("PostStartHookError", ReasonCode::ContainerConfigError),
    ("PreCreateHookError", ReasonCode::ContainerConfigError),
    ("PreStartHookError", ReasonCode::ContainerConfigError),
    ("RegistryUnavailable", ReasonCode::ImagePullFailed),
    ("RunContainerError", ReasonCode::ContainerConfigError),
    ("SignatureValidationFailed", ReasonCode::ImagePullFailed),
];

impl ReasonCode {
    /// Returns the code of a name, or that a word of kubectl stands for, in any case.
    pub fn of_word(word: &str) -> Option<ReasonCode> {
        let of_kubectl =
            || OF_KUBECTL.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)).map(|(_, code)| *code);
        ReasonCode::ALL.iter().copied().find(|code| code.name().eq_ignore_ascii_case(word)).or_else(of_kubectl)
    }
}

/// What has to change so that a reason goes away.
///
/// Whose fault a reason is follows for most classes. [`Class::Room`] and [`Class::Admission`] need evidence: whether the
/// revision requests more, or something else, than the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The node; other nodes run the same pod.
    Node,
    /// The control plane, a quota, or the DaemonSet itself; no node and no other template helps.
    Cluster,
    /// What the template has the containers do, or names.
    Revision,
    /// The template's rules about nodes, or what they ask of a node; intended, if the pod should not run there.
    Placement,
    /// A policy of the cluster, or what the template has that the policy rejects.
    Admission,
    /// Too little room beside the other pods of the node.
    Room,
    /// Nothing: it passes, unless it takes too long.
    Time,
    /// A pod that should not be there, which keeps no node from its available pod.
    Surplus,
    /// Not known from the code.
    Unknown,
}

/// Whether a cause passes by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Passing {
    /// No.
    Never,
    /// While the pod is as young as one that was just created.
    AtStart,
    /// Until it takes longer than containers may take to start.
    InTime,
    /// Yes, and nobody can tell when.
    Always,
}

impl Passing {
    /// Returns whether it is no trouble yet, however old the pod is: something only takes its time.
    pub fn takes_time(self) -> bool {
        self >= Passing::InTime
    }
}

impl ReasonCode {
    /// Returns whether the node is down, whatever its pod tolerates.
    pub fn is_node_down(self) -> bool {
        matches!(self, ReasonCode::NodeUnreachable | ReasonCode::NodeNotReadyTaint | ReasonCode::NetworkUnavailable)
    }

    /// Returns whether the node counts no longer, because it is down: what is wrong with the nodes that count is told first.
    pub fn excludes_node(self) -> bool {
        self == ReasonCode::NodeNotReadyTaint
    }

    /// Returns whether there is a pod that should not be there, which keeps no node from its available pod.
    pub fn is_about_surplus_pods(self) -> bool {
        self.class() == Class::Surplus || self == ReasonCode::OrphanedTarget
    }

    /// Returns whether a container of the pod has run, or may have, so that there is a log, on a node that answers.
    pub fn has_log(self) -> bool {
        use ReasonCode as R;
        let runs =
            [R::CrashLooping, R::LivenessFailing, R::OOMKilled, R::InitBlocked, R::ReadinessFailing, R::ReadinessGate];
        let may_have_run =
            [R::NotYetAvailable, R::FailedPodBackoff, R::Terminating, R::StuckTerminating, R::Unexplained];
        runs.contains(&self) || may_have_run.contains(&self)
    }

    /// Returns whether the state of the node is the reason, so that what its pods do follows from it.
    pub fn is_state_of_node(self) -> bool {
        self.class() == Class::Node || self == ReasonCode::NotReadyNotTolerated
    }
}

impl std::fmt::Display for ReasonCode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.name())
    }
}

/// One reason, with the actual values.
#[apply(answer!)]
pub struct Reason {
    /// The code.
    pub code: ReasonCode,
    /// A sentence with the actual values of this node.
    pub message: String,
    /// What to do.
    pub fix: Fix,
    /// That it passes by itself, because something only takes its time; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub passing: bool,
}

#[cfg(test)]
mod tests {
    use super::ReasonCode as R;

    #[test]
    fn there_is_a_log_only_if_a_container_may_have_run() {
        assert!([R::CrashLooping, R::OOMKilled, R::ReadinessFailing].into_iter().all(R::has_log));
        let none = [R::ImagePullFailed, R::ContainerConfigError, R::SchedulerSilent, R::NodeUnreachable, R::NeverFits];
        assert!(!none.into_iter().any(R::has_log));
        let none = [R::CreatePending, R::WebhookDenied, R::SchedulingGated, R::VolumeUnsatisfiable, R::MountFailed];
        assert!(!none.into_iter().any(R::has_log));
    }
}
