//! Reason codes: why a node has no available pod, or why it is not to have one.

use schemars::JsonSchema;
use serde::Serialize;

/// Declares the codes, with the same name in Rust and in JSON.
macro_rules! reason_codes {
    ($($(#[$meta:meta])* $code:ident,)+) => {
        /// A word for a reason; stable, so that scripts can depend on it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
        pub enum ReasonCode {
            $($(#[$meta])* $code,)+
        }

        impl ReasonCode {
            /// Every code, in the order of the reference.
            pub const ALL: &[ReasonCode] = &[$(ReasonCode::$code,)+];

            /// Returns the code as it is written in reports.
            pub fn name(self) -> &'static str {
                match self {
                    $(ReasonCode::$code => stringify!($code),)+
                }
            }
        }
    };
}

reason_codes! {
    /// The template pins its pods to another node.
    NodeNameMismatch,
    /// The node lacks a label that the node selector asks for.
    NodeSelectorLabelMissing,
    /// The node has another value for a label of the node selector.
    NodeSelectorValueMismatch,
    /// No term of the required node affinity matches.
    AffinityTermMismatch,
    /// A term of the required node affinity can never match.
    AffinityTermInvalid,
    /// The required node affinity has no usable term, so it matches no node.
    AffinityEmptyTerms,
    /// A NoSchedule taint is not tolerated.
    UntoleratedNoSchedule,
    /// A NoExecute taint is not tolerated.
    UntoleratedNoExecute,
    /// The node is not ready, and its NoSchedule taint for that takes it out of the desired number.
    NodeNotReadyTaint,
    /// The node's network is not up, and the pods do not use the node's own.
    NetworkUnavailable,
    /// An `Lt` or `Gt` toleration would decide, which depends on a feature gate.
    ComparisonOperatorUnknown,
    /// The pod may stay, but would not be made again.
    Misscheduled,
    /// The pod is on a node where it may not be, and will be deleted.
    PodOnIneligibleNode,
    /// The controller has not acted on the present spec.
    ControllerNotObserved,
    /// The selector selects every pod, which the controller refuses.
    SelectingAll,
    /// The DaemonSet is being deleted.
    DaemonSetDeleting,
    /// A resource quota blocks the creation.
    QuotaExceeded,
    /// A LimitRange blocks the creation.
    LimitRangeViolation,
    /// Pod security admission blocks the creation.
    PodSecurityDenied,
    /// An admission webhook or policy refuses the pod.
    WebhookDenied,
    /// An admission webhook cannot be reached.
    WebhookUnavailable,
    /// The service account does not exist.
    ServiceAccountMissing,
    /// The priority class does not exist.
    PriorityClassMissing,
    /// The runtime class does not exist.
    RuntimeClassMissing,
    /// The API server refuses the pod for another reason.
    PodSpecRejected,
    /// The pod is still to be made.
    CreatePending,
    /// No scheduler has tried the pod.
    SchedulerSilent,
    /// Scheduling gates hold the pod back.
    SchedulingGated,
    /// The node has too little of a resource free.
    InsufficientResource,
    /// The pod asks for more than the node has in all.
    NeverFits,
    /// The node has as many pods as it may.
    TooManyPods,
    /// A port of the node is taken.
    HostPortConflict,
    /// The new pod waits for a port that its own predecessor holds until the new pod is available.
    SurgeHostPortDeadlock,
    /// A volume cannot be had on the node.
    VolumeUnsatisfiable,
    /// Rules about other pods keep the pod away.
    PodAffinityBlocked,
    /// A device claim cannot be met on the node.
    DeviceClaimUnsatisfied,
    /// Admission added a node selector that the node does not meet.
    InjectedNodeSelector,
    /// The node lacks a feature that the pod needs.
    NodeFeatureMissing,
    /// Lesser pods are being removed to make room.
    WaitingForPreemption,
    /// The scheduler refuses the node for a reason that has no code of its own.
    SchedulerRejected,
    /// The kubelet refused the pod.
    KubeletRejected,
    /// The pod has failed; the controller waits before it tries again.
    FailedPodBackoff,
    /// The pod was evicted.
    Evicted,
    /// An image cannot be pulled.
    ImagePullFailed,
    /// A container cannot be made from its configuration.
    ContainerConfigError,
    /// A container ends again and again.
    CrashLooping,
    /// A container was killed for want of memory.
    OOMKilled,
    /// An init container has not done its work.
    InitBlocked,
    /// The pod's sandbox cannot be made.
    SandboxFailed,
    /// A volume cannot be mounted.
    MountFailed,
    /// The containers run, but one is not ready.
    ReadinessFailing,
    /// A readiness gate is not met.
    ReadinessGate,
    /// The pod is ready, but not for long enough.
    NotYetAvailable,
    /// The containers are on their way.
    ContainersStarting,
    /// The node's kubelet is silent or says that the node is not ready.
    NodeUnreachable,
    /// The pod is going, within its grace period.
    Terminating,
    /// The pod is going, and past its grace period.
    StuckTerminating,
    /// The node has a pod too many.
    DuplicatePod,
    /// The pod's node is gone.
    OrphanedTarget,
    /// What was read does not say why.
    Unexplained,
}

impl std::fmt::Display for ReasonCode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.name())
    }
}

/// One reason, with the real values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Reason {
    /// The code.
    pub code: ReasonCode,
    /// A sentence with the real values of this node.
    pub message: String,
    /// What to do: a command to copy where there is one, else a few words.
    pub fix: String,
}
