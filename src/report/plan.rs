//! The plan of a change to a DaemonSet, and its outcome.

use jiff::Timestamp;
use serde_json::Value;

use super::change::Change;
use super::coverage::Incomplete;
use super::fix::Fix;
use super::history::DaemonSetName;

/// A change of a DaemonSet: a rollback to a revision (`undo`), a restart, other values in its spec (`set`),
/// a suspended or restored update strategy (`pause`, `resume`), or an attempt to create pods that does not wait (`retry`).
#[apply(answer!)]
pub struct ChangePlan {
    /// What is done.
    #[serde(skip)]
    pub kind: PlanKind,
    /// What is changed.
    pub daemon_set: DaemonSetName,
    /// The time that ages are relative to.
    pub now: Timestamp,
    /// The revision that the live template is; absent if it has none yet.
    pub from_revision: Option<i64>,
    /// The revision that the template is taken from; only for a rollback.
    pub to_revision: Option<i64>,
    /// When that revision was last rolled out; absent if unknown.
    pub rolled_out_at: Option<Timestamp>,
    /// Why that revision was chosen, or why more is changed than was requested, a sentence; absent if all was
    /// requested.
    pub why: Option<String>,
    /// Whether there is anything to do; `false` if the DaemonSet is as requested already.
    pub needed: bool,
    /// How the template changes, with paths in it; for `set`, `pause` and `resume` how the DaemonSet changes.
    pub changes: Vec<Change>,
    /// What the change means for this cluster; absent if the template of an Advanced DaemonSet is changed.
    pub effect: Option<Effect>,
    /// How to restore the values before the change; only for `set`, `pause` and `resume`.
    pub revert: Option<Fix>,
    /// The JSON Patch that is sent, with the resource version that was read as its precondition; empty if not needed.
    pub patch: Vec<Value>,
    /// What will prevent the change from having an effect, or revert it, and what it may break.
    pub warnings: Vec<Warning>,
    /// What could not be read, so that the effect or the warnings are incomplete.
    pub incomplete: Vec<Incomplete>,
    /// The pods that keep another revision until they are deleted; only under OnDelete.
    pub pods_left: Vec<PodOnNode>,
    /// What backs off after failures, and when it tries again by itself; only for `retry`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backoffs: Vec<Backoff>,
    /// How to replace the pods that back off longest; only for `retry`, and absent if there is none that is known to come back.
    pub replace_pods: Option<Fix>,
    /// The outcome.
    pub outcome: ChangeOutcome,
    /// The DaemonSet as it became, or with `--dry-run` would become, without its managed fields; absent if the change was not
    /// applied, or that is not known.
    pub object: Option<Value>,
}

impl super::Report for ChangePlan {
    const KINDS: &'static [&'static str] =
        &["UndoPlan", "RestartPlan", "SetPlan", "PausePlan", "ResumePlan", "RetryPlan"];

    fn kind(&self) -> &'static str {
        Self::KINDS[self.kind as usize]
    }

    fn suggestions(&mut self, visit: &mut dyn FnMut(&mut Fix)) {
        let fixes = self.warnings.iter_mut().filter_map(|warning| warning.fix.as_mut());
        fixes.chain(&mut self.revert).chain(&mut self.replace_pods).for_each(visit);
    }
}

/// What a plan does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanKind {
    /// Rolls back to the template of a revision.
    UndoPlan,
    /// Restarts all pods.
    RestartPlan,
    /// Sets fields of the spec besides the template.
    SetPlan,
    /// Suspends the update strategy.
    PausePlan,
    /// Restores the update strategy.
    ResumePlan,
    /// Makes the controller try now to create pods.
    RetryPlan,
}

impl PlanKind {
    /// Returns whether it changes the template, so that the controller creates a revision.
    pub fn changes_template(self) -> bool {
        match self {
            PlanKind::UndoPlan | PlanKind::RestartPlan => true,
            PlanKind::SetPlan | PlanKind::PausePlan | PlanKind::ResumePlan | PlanKind::RetryPlan => false,
        }
    }
}

/// What a change of a DaemonSet's spec means for a cluster.
#[apply(answer!)]
#[derive(Default)]
pub struct Effect {
    /// How many nodes should have a pod.
    pub desired: i64,
    /// The nodes that get a pod at once, by name, because they become eligible, or because the API server refuses them one of the
    /// present template and not of the new one; empty if nodes could not be read.
    pub nodes_gained: Vec<String>,
    /// The nodes that are no longer eligible and lose their pod at once, by name; empty if nodes could not be read.
    pub nodes_lost: Vec<String>,
    /// How many pods are of another revision than the DaemonSet's after the change; absent if unknown. If nodes could not be read,
    /// those of nodes that are not eligible count, too.
    pub outdated: Option<i64>,
    /// How many of them are deleted without being replaced: their node is not eligible, or has another pod of the revision;
    /// absent if unknown.
    pub not_replaced: Option<i64>,
    /// The pace of a rolling update before the change; absent under OnDelete, and if the template is changed.
    pub before: Option<Pace>,
    /// The pace of a rolling update after the change; absent under OnDelete, and if it is not known.
    pub after: Option<Pace>,
    /// Where the controller comes to a standstill although pods are left to replace, on the nodes as they are; absent if it does
    /// not, as far as is known.
    pub standstill: Option<Standstill>,
    /// The pods that the controller deletes because nodes may no longer have two pods: the newer one of each.
    pub surge_pods_deleted: Vec<PodOnNode>,
    /// The revisions that the controller deletes, oldest first; absent if the limit is not changed or if unknown.
    pub revisions_deleted: Option<Vec<i64>>,
}

/// Where a rolling update comes to a standstill.
#[apply(answer!)]
pub struct Standstill {
    /// How many pods are replaced before that.
    pub replaced: i64,
    /// How many pods of another revision are left on eligible nodes.
    pub left: i64,
    /// The nodes that use up the limit, by name.
    pub held_by: Vec<String>,
    /// Those of them that are down, by name: their pods stay Terminating, and new ones do not start.
    pub down: Vec<String>,
    /// The least `maxUnavailable` with which the controller gets to the end, as long as these nodes stay as they are; absent with
    /// surge, and if many available pods would be deleted at a time.
    pub max_unavailable: Option<i64>,
}

/// The pace of a rolling update.
#[apply(answer!)]
#[derive(Copy)]
pub struct Pace {
    /// Whether nodes get a second pod before the old one is deleted.
    pub surges: bool,
    /// How many nodes may be without an available pod, or with surge may have a second pod, at a time.
    pub allowed: i64,
    /// How many nodes count against `allowed` now; absent if unknown.
    pub in_use: Option<i64>,
    /// How many pods the controller replaces now: deletes, or with surge creates a second pod beside; absent if unknown.
    pub replaced_now: Option<i64>,
    /// How many of these are replaced regardless of `allowed`, because they are unavailable; absent if unknown.
    pub replaced_regardless: Option<i64>,
    /// The least time that a rollout to all nodes takes, in seconds, because of `minReadySeconds`.
    pub min_rollout_seconds: i64,
}

/// A pod, and the node that it is on.
#[apply(answer!)]
#[derive(Eq, PartialOrd, Ord)]
pub struct PodOnNode {
    /// The node.
    pub node: String,
    /// The name of the pod.
    pub pod: String,
    /// The number of the other revision that it keeps; absent if it keeps none, or if that is no longer retained.
    pub revision: Option<i64>,
}

/// An attempt that waits because earlier ones have failed.
#[apply(answer!)]
pub struct Backoff {
    /// What is tried again.
    pub attempt: Attempt,
    /// The pod; absent if pods are yet to be created.
    pub pod: Option<PodOnNode>,
    /// When it would be tried again by itself; absent if unknown.
    pub next: Option<Timestamp>,
    /// The latest time at which it presumably is tried again by itself: the longest delay of the controller after the last refusal
    /// that an event tells of or after it created a pod that has failed, or that of the kubelet from now on; absent if the exact time
    /// is known, or nothing.
    pub latest: Option<Timestamp>,
    /// Why the pod should not be deleted, or why an attempt to create pods fails now; absent if nothing speaks against it.
    pub obstacle: Option<Obstacle>,
}

/// What is tried again.
#[apply(value!)]
pub enum Attempt {
    /// The controller creates pods that were refused.
    CreatePods,
    /// The controller deletes pods whose deletion was refused.
    DeletePods,
    /// The kubelet starts a container that has ended.
    StartContainer,
    /// The kubelet pulls an image.
    PullImage,
    /// The controller replaces a pod that has failed.
    ReplaceFailedPod,
}

/// Why a pod that backs off should not be deleted, or pods are not created.
#[apply(value!)]
pub enum Obstacle {
    /// It is not known to be of the current revision, so that the new pod may be of another one.
    OtherRevision,
    /// Other containers of it run, which would be stopped.
    OthersRun,
    /// Its node is not eligible, or the DaemonSet is being deleted.
    NotRecreated,
    /// The Advanced DaemonSet is paused, during which not every release of OpenKruise recreates pods.
    Paused,
    /// Its node is not ready.
    NodeNotReady,
    /// Its node could not be read.
    NodeUnknown,
    /// The API server refuses new pods.
    CreationRefused,
    /// An object that new pods need does not exist, so that they would not start.
    ObjectsMissing,
    /// The controller manager or the scheduler does not act, so that no new pod would come or run.
    ControlPlaneDown,
}

/// Something to know before the change.
#[apply(answer!)]
#[derive(Eq)]
pub struct Warning {
    /// A code for programs.
    pub code: WarningCode,
    /// A sentence for people.
    pub message: String,
    /// What to do about it; absent if the sentence says it.
    pub fix: Option<Fix>,
    /// Whether it is certain of every healthy pod that is deleted.
    #[serde(skip)]
    pub is_certain: bool,
}

impl Warning {
    /// Creates a warning without a fix, of what is not certain.
    pub fn new(code: WarningCode, message: impl Into<String>) -> Self {
        Warning { code, message: message.into(), fix: None, is_certain: false }
    }
}

/// The kind of a warning.
#[apply(value!)]
pub enum WarningCode {
    /// Another object controls the DaemonSet.
    Owner,
    /// An Argo CD application manages it.
    ArgoCd,
    /// Flux manages it.
    Flux,
    /// A Helm release manages it.
    Helm,
    /// The last applied manifest has other values.
    LastApplied,
    /// The fields are managed with server-side apply.
    ServerSideApply,
    /// It is being deleted, so its controller no longer reconciles it.
    Deleting,
    /// Pods are only replaced when they are deleted.
    OnDelete,
    /// The rolling update of an Advanced DaemonSet is paused.
    Paused,
    /// The partition of an Advanced DaemonSet keeps some pods on the old revision.
    Partition,
    /// Pods of an Advanced DaemonSet are updated in place, so their containers do not restart.
    InPlace,
    /// Somebody has changed the pace during a hold, or the annotation with the original strategy, so that another one is restored.
    OriginalStrategyLost,
    /// No old revisions are retained.
    NoHistory,
    /// The new pods would not start, because something that they need does not exist.
    MissingObjects,
    /// Pods fail because of their nodes, so that another revision does not fix it.
    NotByRevision,
    /// The rolling update comes to a standstill, because of nodes that use up its limit.
    Blocks,
    /// The rolling update may come to a standstill: if new pods fail as the current ones do, or because the controller may miss that pods
    /// have become available.
    MayBlock,
    /// A rolling update may replace the pods of all nodes at once.
    AllAtOnce,
    /// A rolling update takes an hour or more, because of `minReadySeconds`.
    SlowRollout,
    /// A rolling update may make more pods unavailable than a PodDisruptionBudget allows.
    DisruptionBudget,
    /// Pods of an older revision become unavailable, so that they are replaced at once regardless of the limit.
    ReplacedRegardless,
    /// Available pods become unavailable, because they have not been ready for the new `minReadySeconds`.
    BecomeUnavailable,
    /// Pods that are ready, but not yet for `minReadySeconds`, are deleted all at once.
    ReadyPodsDeleted,
    /// Two pods of a node need the same host port, so that surge cannot work.
    HostPort,
    /// The newer pod is deleted on nodes with two.
    SurgePodsDeleted,
    /// The update strategy surges, which it cannot while it is suspended.
    SurgeSuspended,
    /// Somebody who puts the suspended update strategy back starts a rollout to all nodes.
    StrategyPutBack,
    /// The pods of the template that is rolled out fail, and older pods do not.
    RevisionFails,
    /// The revision was rolled back from before.
    RolledBackBefore,
    /// A hold ends, so that nodes that it keeps on an older revision are updated.
    HoldEnds,
    /// The revision was replaced within minutes and no pod proves that it works, or pods of it fail now.
    TargetNotProven,
    /// The new pods would not fit on nodes.
    NoRoom,
    /// The new pods fit only where the scheduler preempts other pods for them.
    Preempts,
    /// New pods do not become available, for a reason that is not tied to their nodes, such as a scheduler that is down.
    NotByNodes,
    /// The API server refuses new pods at present.
    CreationRefused,
    /// The API server refuses to delete pods for the controller.
    DeletionRefused,
    /// A ResourceQuota has too little room for the new pods, so that they would be refused.
    QuotaExceeded,
    /// Pods that are deleted are not recreated, because their nodes are not eligible.
    NotRecreated,
    /// Pods that are deleted stay Terminating until their nodes return, because those are down.
    NodesDown,
    /// The server changes more than was planned, such as by a webhook that rewrites the template in every write.
    ServerChangesMore,
    /// The controller manager seems to be down, so that nothing is tried again.
    ControllerDown,
    /// The scheduler seems to be down, so that no new pod is placed.
    SchedulerDown,
    /// The last run has not completed its stage, and stops if its client still runs.
    OtherRun,
    /// The template was changed after the last stage began, so that this rolls out another one.
    AnotherTemplate,
    /// A revision has removed most of the nodes within the last day, and they stay removed.
    NodesRemoved,
    /// Nodes that `partition` skips because of the label `kubectl-ds/skip` get new pods, too.
    SkippedNodes,
    /// Pods that were adopted count as updated, and are of another template.
    AdoptedPods,
}

/// The outcome of a change.
#[apply(answer!)]
#[derive(Default)]
pub struct ChangeOutcome {
    /// The stage that was reached.
    pub stage: ChangeStage,
    /// The revision number of the template; absent until the controller has assigned one.
    pub revision: Option<i64>,
    /// Whether that is the target revision itself, renumbered.
    pub is_target: bool,
    /// Whether the revision before the change is still retained, so that it can be rolled back to.
    pub can_return: bool,
    /// Whether the DaemonSet was changed again before the controller acted.
    pub changed_again: bool,
    /// The differences between the plan and the server's result, due to webhooks and defaults.
    pub made_by_server: Vec<Change>,
    /// What others changed after the DaemonSet was read, so that the plan was not carried out.
    pub changed_by_others: Vec<Change>,
    /// The warnings in the responses of the API server.
    pub server_warnings: Vec<String>,
}

/// The stages of a change.
#[apply(value!)]
#[derive(Default)]
pub enum ChangeStage {
    /// No change was needed.
    #[default]
    NotNeeded,
    /// It was planned; nothing was sent.
    Planned,
    /// The server has processed it without persisting it.
    TriedOut,
    /// It was not applied: the server refused it, or the DaemonSet had changed.
    Refused,
    /// It was sent, and whether it was applied is not known.
    Unknown,
    /// The server has applied it; the controller was not seen to act on it.
    Applied,
    /// The server has applied it, and the controller has created a revision of it.
    Observed,
}
