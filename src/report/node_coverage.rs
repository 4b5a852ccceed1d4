//! One node of a DaemonSet, and its full explanation.

use jiff::Timestamp;

use super::reason::{Reason, ReasonCode, named_values};

named_values! {
    /// The state of a DaemonSet on a node.
    NodeState {
        /// It should not run a pod, and has none.
        NotEligible,
        /// It should run a pod, and has none.
        Missing,
        /// Its pod is not bound to it.
        Pending,
        /// Its pod is bound, and its containers have not all started.
        Starting,
        /// Its pod's containers have started, and the pod is not ready.
        NotReady,
        /// Its pod is ready, but not for long enough to be available.
        Ready,
        /// Its pod is available.
        Available,
        /// Its only pod is terminating.
        Terminating,
        /// Its pod has failed or succeeded.
        Failed,
        /// It should not run a pod, but its pod may stay.
        Misscheduled,
        /// It should not run a pod, and its pod will be deleted.
        ToBeDeleted,
        /// It should run a pod, but the pods could not be read; only in a partial report.
        Unknown,
    }
}

/// One node of a DaemonSet.
#[apply(answer!)]
pub struct NodeCoverage {
    /// The node's name.
    pub name: String,
    /// Whether the controller creates a pod for it.
    pub should_run: bool,
    /// Whether the controller keeps an existing pod on it.
    pub should_continue_running: bool,
    /// The state.
    pub state: NodeState,
    /// The pods, in the controller's order.
    pub pods: Vec<PodSummary>,
    /// Why the node is not Available, the primary reason first. If it is, empty or why a surge
    /// pod on it cannot start.
    pub reasons: Vec<Reason>,
    /// Set if the node itself could not be read: it is only known from its pod, and whether it should
    /// run one is an assumption.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub eligibility_unknown: bool,
    /// The full explanation, if one node was requested.
    pub explanation: Option<Explanation>,
}

/// A summary of a pod.
#[apply(answer!)]
pub struct PodSummary {
    /// The name.
    pub name: String,
    /// The revision hash of the pod; empty if it has none.
    pub revision: String,
    /// Whether it counts as updated; absent if the revisions are unknown.
    pub updated: Option<bool>,
    /// The phase.
    pub phase: String,
    /// Whether it is bound to the node.
    pub bound: bool,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether it is available: ready for minReadySeconds, and not past the deadline of its deletion.
    pub available: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// The total restart count of its containers.
    pub restarts: i64,
    /// When it was created; absent if unknown.
    pub created_at: Option<Timestamp>,
}

/// The full explanation of a node: all rules that were checked, and details of its pods.
#[apply(answer!)]
#[derive(Default)]
pub struct Explanation {
    /// The answer in a sentence.
    pub summary: String,
    /// The rules of eligibility, in the controller's order.
    pub eligibility: Vec<Check>,
    /// The rules of scheduling, in the scheduler's order.
    pub scheduling: Vec<Check>,
    /// That the node is not ready, which no rule of scheduling depends on; absent if it is.
    pub not_ready: Option<Check>,
    /// The scheduler's last message.
    pub scheduler_says: Option<SchedulerVerdict>,
    /// Near matches that are likely typos, a sentence each.
    pub near_misses: Vec<String>,
    /// Details of the pods.
    pub pods: Vec<PodStory>,
    /// The latest events about the DaemonSet that concern this node, newest first.
    pub events: Vec<EventLine>,
}

/// One rule that was checked.
#[apply(answer!)]
pub struct Check {
    /// The rule, such as `taints` or `cpu`.
    pub rule: String,
    /// Whether it passed; absent if unknown.
    pub passed: Option<bool>,
    /// Whether it passed because the template or the node has nothing that it checks.
    pub trivial: bool,
    /// The values that were compared, and the result.
    pub detail: String,
    /// The resulting reason code.
    pub code: Option<ReasonCode>,
}

/// The scheduler's last message about a pod.
#[apply(answer!)]
pub struct SchedulerVerdict {
    /// The part of the message about the target node.
    pub message: String,
    /// When it reported that; absent if unknown.
    pub at: Option<Timestamp>,
    /// Whether it agrees with the recomputed result; absent if unknown.
    pub agrees: Option<bool>,
}

/// Details of a pod.
#[apply(answer!)]
#[derive(Default)]
pub struct PodStory {
    /// The pod's name.
    pub name: String,
    /// The phase, with its reason and message if any.
    pub phase: String,
    /// The containers: init containers and sidecars first, in their order.
    pub containers: Vec<ContainerStory>,
    /// The unhealthy conditions, with their reasons.
    pub conditions: Vec<String>,
    /// The readiness gates, and whether each is met.
    pub readiness_gates: Vec<String>,
    /// The finalizers that delay the pod's deletion.
    pub finalizers: Vec<String>,
    /// The latest events about the pod, newest first.
    pub events: Vec<EventLine>,
}

/// Details of a container.
#[apply(answer!)]
pub struct ContainerStory {
    /// The container's name.
    pub name: String,
    /// `container`, `init` or `sidecar`.
    pub role: String,
    /// The state, such as `waiting: CrashLoopBackOff`.
    pub state: String,
    /// Whether it is ready.
    pub ready: bool,
    /// How often it was restarted.
    pub restarts: i32,
    /// How the previous run ended; empty if there was none.
    pub last_end: String,
}

/// One event.
#[apply(answer!)]
pub struct EventLine {
    /// When it last happened; absent if unknown.
    pub at: Option<Timestamp>,
    /// How often it happened.
    pub count: i32,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub type_: String,
    /// A CamelCase word for what happened.
    pub reason: String,
    /// A sentence about what happened.
    pub message: String,
}
