//! What failing nodes have in common.

use super::fix::Fix;
use super::reason::ReasonCode;

/// A value that the failing nodes of a DaemonSet share and its available nodes do not, too often to be chance. It is
/// a likely cause, not a proven one: docs/common-causes.md tells how it is decided.
#[apply(answer!)]
pub struct CommonCause {
    /// What the nodes share.
    #[serde(flatten)]
    pub shared: FeatureValue,
    /// The reason of the failing nodes; absent if they have several.
    pub code: Option<ReasonCode>,
    /// The nodes that were compared.
    pub nodes: Split,
    /// The probability that chance splits the nodes at least as clearly by any of the compared values.
    pub chance: f64,
    /// Other values that split the nodes with the same numbers, so that either may be the cause.
    pub also: Vec<FeatureValue>,
    /// The failing revision, if the nodes share a revision.
    pub revision: Option<FailingRevision>,
    /// What to do, most informative first; empty if nothing can be advised.
    pub fixes: Vec<Fix>,
}

/// A value of a feature.
#[apply(answer!)]
pub struct FeatureValue {
    /// The feature.
    pub feature: Feature,
    /// The value. A revision is its number, or its hash if the number is not known.
    pub value: String,
}

/// What pods and nodes are compared by.
#[apply(value!)]
#[derive(PartialOrd, Ord, Hash)]
pub enum Feature {
    /// The revision of the pod.
    Revision,
    /// The node pool, from the label of a cloud provider or autoscaler, or the label `pool`.
    NodePool,
    /// The label `topology.kubernetes.io/zone`.
    Zone,
    /// The label `node.kubernetes.io/instance-type`.
    InstanceType,
    /// The kernel version.
    KernelVersion,
    /// The OS image.
    OsImage,
    /// The CPU architecture.
    Architecture,
    /// The kubelet version.
    KubeletVersion,
    /// The container runtime and its version.
    ContainerRuntime,
    /// Whether the node was created less than an hour, a day or a week ago.
    NodeAge,
}

/// Numbers of failing and available nodes, and of those among them that have a value.
#[apply(answer!)]
#[derive(Copy, Default, Eq, Hash)]
pub struct Split {
    /// Failing nodes.
    pub failing: usize,
    /// Failing nodes with the value.
    pub failing_with: usize,
    /// Available nodes.
    pub available: usize,
    /// Available nodes with the value.
    pub available_with: usize,
}

/// A revision whose pods fail.
#[apply(answer!)]
#[derive(Default)]
pub struct FailingRevision {
    /// The hash on its pods.
    pub hash: String,
    /// Its number; absent if it is not known.
    pub number: Option<i64>,
    /// Whether it is the current revision.
    pub current: bool,
    /// The number of the other revision that has the most available pods; absent if it is not known.
    pub available_revision: Option<i64>,
    /// What differs from that revision, most important first; empty if it is not known.
    pub changes: Vec<String>,
}
