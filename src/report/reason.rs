//! Reason codes: why a node has no available pod, or should not have one.

use schemars::JsonSchema;
use serde::Serialize;

use super::fix::Fix;

/// Declares an enum whose values have the same name in Rust and in JSON.
macro_rules! named_values {
    ($(#[$about:meta])* $type:ident { $($(#[$meta:meta])* $value:ident,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
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

named_values! {
    /// A code for a reason; stable, so that scripts can depend on it.
    ReasonCode {
        /// `nodeName` in the template pins the pods to another node.
        NodeNameMismatch,
        /// The node does not have a label that the nodeSelector requires.
        NodeSelectorLabelMissing,
        /// The node has another value for a label that the nodeSelector requires.
        NodeSelectorValueMismatch,
        /// No term of the required node affinity matches.
        AffinityTermMismatch,
        /// A term of the required node affinity never matches any node.
        AffinityTermInvalid,
        /// The required node affinity has no term with a requirement, so it matches no node.
        AffinityEmptyTerms,
        /// A NoSchedule taint is not tolerated.
        UntoleratedNoSchedule,
        /// A NoExecute taint is not tolerated, so it also evicts pods.
        UntoleratedNoExecute,
        /// The node is not ready, and its taint excludes it from `desiredNumberScheduled`.
        NodeNotReadyTaint,
        /// A network or kubelet plugin does not tolerate the taint of nodes that are not ready, which may be waiting for it.
        NotReadyNotTolerated,
        /// An autoscaler has been removing the node for more than 15 minutes, and its taint excludes the node.
        NodeRemovalStuck,
        /// The network of the node is not up, and the pods do not use the host network.
        NetworkUnavailable,
        /// Only an `Lt` or `Gt` toleration would tolerate a taint, which depends on a feature gate.
        ComparisonOperatorUnknown,
        /// The pod is running, but would not be recreated.
        Misscheduled,
        /// The pod is on a node that is not eligible, and the controller deletes it.
        PodOnIneligibleNode,
        /// The controller has not observed the current spec.
        ControllerNotObserved,
        /// The selector selects all pods, which the controller rejects.
        SelectingAll,
        /// The selector also selects the pods of another DaemonSet.
        SelectorOverlap,
        /// The DaemonSet is being deleted.
        DaemonSetDeleting,
        /// A resource quota denied the pod.
        QuotaExceeded,
        /// A LimitRange denied the pod.
        LimitRangeViolation,
        /// Pod security admission denied the pod.
        PodSecurityDenied,
        /// An admission webhook or policy denied the pod.
        WebhookDenied,
        /// An admission webhook could not be called.
        WebhookUnavailable,
        /// The service account does not exist.
        ServiceAccountMissing,
        /// The priority class does not exist.
        PriorityClassMissing,
        /// The runtime class does not exist.
        RuntimeClassMissing,
        /// The API server rejected the pod for another reason.
        PodSpecRejected,
        /// The pod is not created yet.
        CreatePending,
        /// No scheduler has tried to schedule the pod.
        SchedulerSilent,
        /// Scheduling gates keep the pod from being scheduled.
        SchedulingGated,
        /// Too little of a resource is free on the node.
        InsufficientResource,
        /// The pod requests more of a resource than the node has.
        NeverFits,
        /// The node has its maximum number of pods.
        TooManyPods,
        /// A host port is in use by another pod.
        HostPortConflict,
        /// The surge pod waits for a host port that the old pod uses until the surge pod is available.
        SurgeHostPortDeadlock,
        /// The node cannot have a volume of the pod.
        VolumeUnsatisfiable,
        /// Rules about other pods exclude the node.
        PodAffinityBlocked,
        /// The node cannot satisfy a device claim.
        DeviceClaimUnsatisfied,
        /// Admission added a nodeSelector that the node does not match.
        InjectedNodeSelector,
        /// The node does not have a feature that the pod needs.
        NodeFeatureMissing,
        /// The scheduler preempts lower-priority pods for the pod.
        WaitingForPreemption,
        /// The scheduler rejects the node for a reason that has no code of its own.
        SchedulerRejected,
        /// The kubelet rejected the pod.
        KubeletRejected,
        /// The pod has failed, and the controller waits before it recreates it.
        FailedPodBackoff,
        /// The kubelet evicted the pod.
        Evicted,
        /// An image cannot be pulled.
        ImagePullFailed,
        /// A container cannot be created from its configuration.
        ContainerConfigError,
        /// A container crashes repeatedly.
        CrashLooping,
        /// A container was OOMKilled.
        OOMKilled,
        /// An init container has not completed.
        InitBlocked,
        /// The pod sandbox cannot be created.
        SandboxFailed,
        /// A volume cannot be mounted.
        MountFailed,
        /// The containers are running, but one is not ready.
        ReadinessFailing,
        /// A readiness gate is not satisfied.
        ReadinessGate,
        /// The pod is ready, but not for `minReadySeconds` yet.
        NotYetAvailable,
        /// The containers are starting.
        ContainersStarting,
        /// The kubelet stopped posting status, or reports that the node is not ready.
        NodeUnreachable,
        /// The pod is terminating, within its grace period.
        Terminating,
        /// The pod is still there past its grace period.
        StuckTerminating,
        /// The node has one pod too many.
        DuplicatePod,
        /// The node of the pod does not exist.
        OrphanedTarget,
        /// Nothing that was read explains why.
        Unexplained,
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
    /// Not known from the code.
    Unknown,
}

impl ReasonCode {
    /// Returns the class; every code has to be sorted here, so that none counts as the template's by default.
    pub fn class(self) -> Class {
        match self {
            ReasonCode::NodeNotReadyTaint
            | ReasonCode::NodeRemovalStuck
            | ReasonCode::NetworkUnavailable
            | ReasonCode::Evicted
            | ReasonCode::NodeUnreachable
            | ReasonCode::StuckTerminating
            | ReasonCode::OrphanedTarget => Class::Node,
            ReasonCode::ControllerNotObserved
            | ReasonCode::SelectingAll
            | ReasonCode::SelectorOverlap
            | ReasonCode::DaemonSetDeleting
            | ReasonCode::QuotaExceeded
            | ReasonCode::WebhookUnavailable
            | ReasonCode::SchedulerSilent => Class::Cluster,
            ReasonCode::ServiceAccountMissing
            | ReasonCode::PriorityClassMissing
            | ReasonCode::RuntimeClassMissing
            | ReasonCode::PodSpecRejected
            | ReasonCode::SchedulingGated
            | ReasonCode::KubeletRejected
            | ReasonCode::FailedPodBackoff
            | ReasonCode::ImagePullFailed
            | ReasonCode::ContainerConfigError
            | ReasonCode::CrashLooping
            | ReasonCode::OOMKilled
            | ReasonCode::InitBlocked
            | ReasonCode::SandboxFailed
            | ReasonCode::MountFailed
            | ReasonCode::ReadinessFailing
            | ReasonCode::ReadinessGate => Class::Revision,
            ReasonCode::NodeNameMismatch
            | ReasonCode::NodeSelectorLabelMissing
            | ReasonCode::NodeSelectorValueMismatch
            | ReasonCode::AffinityTermMismatch
            | ReasonCode::AffinityTermInvalid
            | ReasonCode::AffinityEmptyTerms
            | ReasonCode::UntoleratedNoSchedule
            | ReasonCode::UntoleratedNoExecute
            | ReasonCode::NotReadyNotTolerated
            | ReasonCode::ComparisonOperatorUnknown
            | ReasonCode::NeverFits
            | ReasonCode::VolumeUnsatisfiable
            | ReasonCode::PodAffinityBlocked
            | ReasonCode::DeviceClaimUnsatisfied
            | ReasonCode::InjectedNodeSelector
            | ReasonCode::NodeFeatureMissing
            | ReasonCode::SchedulerRejected => Class::Placement,
            ReasonCode::LimitRangeViolation | ReasonCode::PodSecurityDenied | ReasonCode::WebhookDenied => {
                Class::Admission
            }
            ReasonCode::InsufficientResource
            | ReasonCode::TooManyPods
            | ReasonCode::HostPortConflict
            | ReasonCode::SurgeHostPortDeadlock => Class::Room,
            ReasonCode::CreatePending
            | ReasonCode::WaitingForPreemption
            | ReasonCode::NotYetAvailable
            | ReasonCode::ContainersStarting
            | ReasonCode::Terminating => Class::Time,
            ReasonCode::Misscheduled
            | ReasonCode::PodOnIneligibleNode
            | ReasonCode::DuplicatePod
            | ReasonCode::Unexplained => Class::Unknown,
        }
    }

    /// Returns whether the reason passes by itself, because something only takes its time.
    pub fn takes_time(self) -> bool {
        self.class() == Class::Time
    }

    /// Returns whether there is a pod that should not be there, which keeps no node from its available pod.
    pub fn is_about_surplus_pods(self) -> bool {
        matches!(
            self,
            ReasonCode::Misscheduled
                | ReasonCode::PodOnIneligibleNode
                | ReasonCode::DuplicatePod
                | ReasonCode::OrphanedTarget
        )
    }

    /// Returns whether the pod has too little room beside the other pods of its node.
    pub fn is_lack_of_room(self) -> bool {
        self.class() == Class::Room
    }

    /// Returns whether the template can be the cause, so that pods of another revision may do better on the same node.
    pub fn can_be_template(self) -> bool {
        match self.class() {
            // A template decides what a pod takes of a node, but each is one pod.
            Class::Room => self != ReasonCode::TooManyPods,
            // What takes too long may be the template's; what only terminates or is not created yet has none.
            Class::Time => !matches!(self, ReasonCode::CreatePending | ReasonCode::Terminating),
            Class::Revision | Class::Placement | Class::Admission => true,
            Class::Node | Class::Cluster | Class::Unknown => false,
        }
    }
}

impl std::fmt::Display for ReasonCode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.name())
    }
}

/// One reason, with the actual values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Reason {
    /// The code.
    pub code: ReasonCode,
    /// A sentence with the actual values of this node.
    pub message: String,
    /// What to do.
    pub fix: Fix,
}
