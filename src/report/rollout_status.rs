//! The report of `status`.

use jiff::Timestamp;
use serde_with::{As, DisplayFromStr};

use super::acceptance::Acceptance;
use super::common_cause::{CommonCause, FeatureValue};
use super::coverage::{Affected, Counters, Counts, Incomplete, LostPods, ReasonGroup, RemovedNodes};
use super::fix::Fix;
use super::history::DaemonSetName;
use super::incident::Incident;
use super::list::{Severity, Status};
use super::node_map::NodeMap;
use super::partition::RolloutStage;
use super::reason::{Reason, named_values};
use super::recent_changes::ClusterChange;
use super::stale_config::{ConfigName, StaleConfig};
use crate::model::daemon_set::UpdateStrategy;
use crate::model::int_or_percent::IntOrPercent;

/// Whether the current revision of each DaemonSet is rolled out, and what keeps it from being.
#[apply(answer!)]
pub struct RolloutStatusReport {
    /// The time that ages are relative to.
    pub now: Timestamp,
    /// What could not be read, which makes the report partial.
    pub incomplete: Vec<Incomplete>,
    /// What explains the troubles of several DaemonSets at once; usually empty.
    pub incidents: Vec<Incident>,
    /// The DaemonSets, most severe first, in the order of `list`.
    pub daemon_sets: Vec<RolloutStatus>,
}

impl super::Report for RolloutStatusReport {
    const KINDS: &'static [&'static str] = &["RolloutStatusReport"];

    const LIST: &'static str = "RolloutStatusReportList";

    fn suggestions(&mut self, visit: &mut dyn FnMut(&mut Fix)) {
        self.incidents.iter_mut().for_each(|incident| visit(&mut incident.fix));
        for RolloutStatus {
            removed_nodes,
            lost_pods,
            problems,
            restarting,
            concerns,
            way_out,
            stale_config,
            suspect,
            ..
        } in &mut self.daemon_sets
        {
            stale_config.iter_mut().filter_map(|stale| stale.fix.as_mut()).for_each(&mut *visit);
            suspect.iter_mut().for_each(|suspect| suspect.suggestions(&mut *visit));
            removed_nodes.iter_mut().for_each(|removed| visit(&mut removed.fix));
            lost_pods.iter_mut().for_each(|lost| visit(&mut lost.fix));
            problems.iter_mut().chain(restarting).for_each(|problem| visit(&mut problem.fix));
            concerns.iter_mut().for_each(|concern| visit(&mut concern.fix));
            way_out.iter_mut().for_each(&mut *visit);
        }
    }
}

named_values! {
    /// How far a rollout is; reports have the [`Status`] that follows from it.
    Verdict {
        /// The rollout is not finished: the controller cannot act, other than to recreate failed pods, and no pod is about to become
        /// available.
        Blocked,
        /// No rollout is under way, and eligible nodes have no available pod: no pod of an older revision remains, and the nodes
        /// are at fault, or the revision was rolled out more than a day ago.
        Degraded,
        /// The DaemonSet is being deleted.
        Deleting,
        /// The controller has not observed the current spec.
        NotObserved,
        /// Nodes, pods or revisions could not be read, so the verdict is not known.
        Unknown,
        /// Pods of an older revision remain because the update strategy does not replace them.
        Paused,
        /// The controller acts next, or pods are about to become available.
        Progressing,
        /// Every eligible node has one pod, of the current revision and available, and no pod of an older revision remains.
        Complete,
    }
}

named_values! {
    /// Whose fault it is that a node has no available pod of the current revision; what is to be fixed first comes last.
    Fault {
        /// The node: it is not ready, unreachable, under pressure or about to be removed, its network is not up, or all of its
        /// other pods fail, too.
        Node,
        /// The cluster: a quota, an admission policy that refuses every revision, too little room, or the control plane.
        Cluster,
        /// It cannot be told.
        Unknown,
        /// The current revision: its pods fail wherever they run, request more than the others, or are refused while others are not.
        Revision,
    }
}

/// Nodes that keep the rollout from being complete, by fault: eligible ones that are not done, and others with a pod of an older
/// revision. Those where a pod is about to become available have none.
#[apply(answer!)]
#[derive(Copy, Default)]
pub struct FaultCounts {
    /// The node's.
    pub node: usize,
    /// The cluster's.
    pub cluster: usize,
    /// The revision's.
    pub revision: usize,
    /// It cannot be told whose.
    pub unknown: usize,
    /// How many of all these nodes wait with an available pod of an older revision for the others, whose fault it is.
    pub waiting: usize,
}

impl FaultCounts {
    /// Returns the count of a fault.
    pub(crate) fn of(&mut self, fault: Fault) -> &mut usize {
        match fault {
            Fault::Node => &mut self.node,
            Fault::Cluster => &mut self.cluster,
            Fault::Revision => &mut self.revision,
            Fault::Unknown => &mut self.unknown,
        }
    }
}

impl Verdict {
    /// Returns whether it is known which nodes are missing.
    pub(crate) fn knows_what_is_missing(self) -> bool {
        !matches!(self, Verdict::Unknown | Verdict::NotObserved | Verdict::Deleting)
    }
}

/// What is accepted of a rollout that is not complete, by `--accept` or by the annotation `kubectl-ds/accept`.
#[apply(answer!)]
pub struct Accepted {
    /// Whether the annotation says what is accepted.
    pub by_annotation: bool,
    /// Why the annotation cannot be read, which accepts nothing then; absent if it can.
    pub invalid: Option<String>,
    /// What is accepted, each with the nodes that it would excuse: missing ones, and nodes with a pod that are ineligible only
    /// because they are down or about to be removed.
    pub by: Vec<AcceptedNodes>,
    /// The nodes that are missing and not accepted, those that are about to become available among them.
    pub not_accepted: Vec<String>,
    /// Whether everything that is at fault and not accepted may only be slow to start: pods that are bound, not restarted and
    /// less than 10 minutes old.
    pub may_still_start: bool,
    /// Whether nothing else is missing and the revision is available somewhere, so that the rollout counts as complete.
    pub complete: bool,
}

/// Nodes that one `--accept` would excuse.
#[apply(answer!)]
pub struct AcceptedNodes {
    /// What is accepted, such as `node=10%`.
    #[cfg_attr(feature = "schemas", schemars(with = "String"))]
    pub what: Acceptance,
    /// The nodes, by name.
    pub nodes: Vec<String>,
    /// How many nodes the limit allows; absent without a limit in nodes. If they are more, none is accepted.
    pub limit: Option<usize>,
}

impl AcceptedNodes {
    /// Returns whether the nodes are more than the limit allows.
    pub fn exceeds(&self) -> bool {
        self.limit.is_some_and(|limit| self.nodes.len() > limit)
    }
}

/// Why a rollout is blocked.
#[apply(value!)]
pub enum BlockedBy {
    /// The controller has not noticed that surge pods have become available, since `stalledSince`.
    MissedSurgePods,
    /// kube-controller-manager seems to be down, since `controllerSilentSince`.
    ControllerDown,
    /// The controller waits after the API server had refused new pods, which it would create now.
    CreationBackoff,
    /// The API server refuses new pods.
    CreationRefused,
    /// The API server refuses to delete the pods that are to be replaced.
    DeletionRefused,
    /// As many nodes as allowed count against `budget`, and old pods wait for it.
    Budget,
    /// A pod of an older revision on a node that does not exist stops the rolling update.
    NodeNotFound,
    /// No pod was created, deleted or became available since `unchangedSince`, although the controller has something to do, or a pod
    /// is only to be started.
    NoProgress,
    /// Pods of the current revision do not become available, and no old pod waits to be replaced.
    UnavailablePods,
}

/// The rollout of one DaemonSet.
#[apply(answer!)]
pub struct RolloutStatus {
    /// The group and version, such as `apps/v1`.
    pub api_version: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// How it is doing, as in `list`.
    pub status: Status,
    /// Whether every eligible node has one pod, of the current revision and available, and no pod of an older revision remains.
    pub rollout_complete: bool,
    /// How far the rollout is.
    #[serde(skip)]
    pub verdict: Verdict,
    /// What blocks the rollout; absent unless something does.
    pub blocked_by: Option<BlockedBy>,
    /// The update strategy, such as `RollingUpdate 10%` or `OnDelete`.
    #[cfg_attr(feature = "schemas", schemars(with = "String"))]
    pub strategy: UpdateStrategy,
    /// The hold of `pause` or `partition`; absent if there is none.
    pub hold: Option<RolloutHold>,
    /// The revision of the live template; absent if the controller has not created it yet, or the revisions are not known.
    pub revision: Option<RolledOutRevision>,
    /// The revision that `--to-revision` asked about; absent without it.
    pub requested: Option<RequestedRevision>,
    /// Whether the cluster has the template of the manifest that was given with `--filename`; absent without one.
    pub matches_manifest: Option<bool>,
    /// The nodes that a revision has removed within the last day; absent if there are none.
    pub removed_nodes: Option<RemovedNodes>,
    /// The nodes that have lost their pod within the last hour because they are no longer eligible; absent if there are none.
    pub lost_pods: Option<LostPods>,
    /// Node counts.
    pub counts: Counts,
    /// How many nodes may be replaced at a time, and what uses that up; absent if nothing is replaced: under OnDelete, or
    /// if the DaemonSet is being deleted, or the pods are not known.
    pub budget: Option<Budget>,
    /// Why eligible nodes have no available pod, why others count against the budget, and why surge pods cannot start;
    /// problems first, most nodes first.
    pub problems: Vec<ReasonGroup>,
    /// The nodes that are missing, by fault; absent if it is not known which are: if the status is Unknown, NotObserved or Deleting.
    pub faults: Option<FaultCounts>,
    /// What is accepted of what is missing; absent if nothing is, or if it is not known what is missing.
    pub accepted: Option<Accepted>,
    /// Why containers of available pods keep failing, and are restarted each time; most nodes first.
    pub restarting: Vec<ReasonGroup>,
    /// Problems of the DaemonSet as a whole.
    pub concerns: Vec<Reason>,
    /// What is missing to tell how far the rollout is, or what keeps it from progressing, if that is not what `incomplete` says.
    pub lacks: Option<String>,
    /// Whether the API server refuses new pods, by the events.
    pub creation_refused: bool,
    /// Whether the API server is to be asked, in a dry run, whether it would create pods that are missing.
    #[serde(skip)]
    pub creation_may_be_refused: bool,
    /// Whether it would create such a pod now, by a dry run, although it has refused the last one; absent if it was not asked.
    pub creation_accepted: Option<bool>,
    /// Since when kube-controller-manager has not renewed its lease, if it seems to be down.
    pub controller_silent_since: Option<Timestamp>,
    /// Since when the controller could have deleted old pods whose surge pods are available, if it has missed that: with
    /// `maxSurge` and `minReadySeconds` it may stand still until another event of the DaemonSet.
    pub stalled_since: Option<Timestamp>,
    /// Since when no pod was created, deleted or became available, if the rollout should progress, and that is too long.
    pub unchanged_since: Option<Timestamp>,
    /// What failing nodes have in common and available ones lack, beside their revision; usually empty.
    pub common_causes: Vec<CommonCause>,
    /// Whether the current revision or the nodes are to blame, if pods of the current revision fail and their number
    /// tells.
    pub suspect: Option<Suspect>,
    /// How many old pods are unavailable, if they are more than the budget: RollingUpdate replaces them all at once.
    pub replaced_at_once: Option<usize>,
    /// Nodes whose old pods the partition or the selector of an Advanced DaemonSet retains.
    pub retained: Vec<String>,
    /// What the controller does next.
    pub next: NextActions,
    /// Nodes with a pod of an older revision, by revision, the newest first.
    pub outdated: Vec<OutdatedNodes>,
    /// The time left, from the pace so far; absent if there is no pace.
    pub eta: Option<Eta>,
    /// What lets the rollout continue or ends it, the first choice first. Nothing of it is done by itself.
    pub way_out: Vec<Fix>,
    /// If pods fail: what may explain that and changed since 15 minutes before the rollout began or, if that is over, before they
    /// failed, the latest first and no more than five: how the DaemonSet is updated, the nodes of `problems`, and what limits the pods of its namespace as far as it was read.
    /// `kubectl ds changes` lists all. Empty in the objects of --watch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recent_changes: Vec<ClusterChange>,
    /// The pods that are older than the last change of a ConfigMap or Secret that they use. Absent unless one DaemonSet of Kubernetes'
    /// own was asked for by its name, and with --watch.
    pub stale_config: Option<StaleConfig>,
    /// Nodes whose pod counts as updated by its label `pod-template-generation` alone, although it was created from another
    /// template.
    pub counted_by_generation: Vec<String>,
    /// Why other nodes have no available pod, or one that should not be there, without holding the rollout up; most nodes
    /// first.
    pub other_problems: Vec<Affected>,
    /// Whether the counters of the DaemonSet's status agree with the recomputed ones.
    pub counters: Counters,
    /// The eligible nodes with their states; absent unless requested, or if nodes or pods could not be read.
    pub map: Option<NodeMap>,
    /// Where it comes among others.
    #[serde(skip)]
    pub severity: Severity,
}

impl RolloutStatus {
    /// Returns the number of nodes that are updated, available and eligible by the status of the DaemonSet, if this says that the rollout
    /// is not complete, and nothing else is known of it.
    pub fn incomplete_by_status(&self) -> Option<(usize, usize, usize)> {
        let Counts { updated, available, eligible, from_status, .. } = self.counts;
        let (updated, available, eligible) = (updated?, available?, eligible?);
        let is_incomplete = updated < eligible || available < eligible;
        (self.verdict == Verdict::Unknown && from_status && is_incomplete).then_some((updated, available, eligible))
    }

    /// Returns whether the rollout is complete, or only lacks what is accepted. It does not count as complete if so many nodes are
    /// down that a limit is exceeded, although those need no pod.
    pub fn counts_as_complete(&self) -> bool {
        match &self.accepted {
            // What is accepted of nodes holds for those that are down although they need no pod, too.
            Some(accepted) => accepted.complete || (accepted.by.is_empty() && self.verdict == Verdict::Complete),
            None => self.verdict == Verdict::Complete,
        }
    }

    /// Returns whether nothing is left to do: it is complete and checked, and is what was asked about, and no revision has removed most
    /// of its nodes.
    pub fn is_well(&self) -> bool {
        self.counts_as_complete() && !self.is_unverified() && !self.is_of_another_template() && !self.has_lost_nodes()
    }

    /// Returns whether a revision has removed most of its nodes, which is not accepted.
    pub fn has_lost_nodes(&self) -> bool {
        RemovedNodes::are_most(&self.removed_nodes)
    }

    /// Returns the name of the DaemonSet.
    pub fn daemon_set(&self) -> DaemonSetName {
        let RolloutStatus { api_version, namespace, name, .. } = self;
        DaemonSetName { api_version: api_version.clone(), namespace: namespace.clone(), name: name.clone() }
    }

    /// Returns whether its pods are all replaced, but whether they passed the check of its last stage is not known.
    pub fn is_unverified(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.unverified)
    }

    /// Returns whether another revision or template is current than the one that was asked about.
    pub fn is_of_another_template(&self) -> bool {
        self.matches_manifest == Some(false) || self.requested.is_some_and(|requested| requested.current == Some(false))
    }
}

/// A rollout that `pause` or `partition` holds.
#[apply(answer!)]
pub struct RolloutHold {
    /// The update strategy that is suspended, such as `RollingUpdate 10%`.
    #[cfg_attr(feature = "schemas", schemars(with = "String"))]
    pub original_strategy: UpdateStrategy,
    /// Whether its annotation is missing or cannot be used, so that it is assumed.
    pub original_assumed: bool,
    /// How many pods stay on older revisions, such as `5` or `90%`; absent if it is paused.
    #[serde(serialize_with = "As::<Option<DisplayFromStr>>::serialize")]
    #[cfg_attr(feature = "schemas", schemars(with = "Option<String>"))]
    pub partition: Option<IntOrPercent>,
    /// Since when; absent if unknown.
    pub since: Option<Timestamp>,
    /// Whether the strategy is still suspended; `false` if somebody else has put one back, so that the controller replaces
    /// all pods.
    pub in_force: bool,
    /// The nodes that were updated without `partition`: new ones, and those whose pod was deleted, evicted or failed.
    pub leaked: usize,
    /// Whether all nodes are updated and the strategy is still suspended by a stage with `--verify`: whether its command has passed is
    /// not known.
    pub unverified: bool,
    /// Whether the template was changed after the last stage began, so that to continue rolls out another one.
    pub of_another_template: bool,
    /// The stages of the rollout; absent if it was begun without `--stages`.
    pub staged: Option<HeldStages>,
    /// Why the last run of `partition` has stopped; absent if it did not, if pods were replaced since, or if its event has expired.
    pub stopped: Option<RunStop>,
}

/// Why a run of `partition` has stopped.
#[apply(answer!)]
pub struct RunStop {
    /// When.
    pub at: Timestamp,
    /// The gate that failed, and the node, in a sentence.
    pub message: String,
}

/// The stages of a rollout that `partition --stages` has begun.
#[apply(answer!)]
pub struct HeldStages {
    /// The stages, in their order.
    pub stages: Vec<RolloutStage>,
    /// When the last run has begun its stage.
    pub stage_began: Timestamp,
    /// How many seconds the rollout still takes at its pace so far, with the soak of each stage; absent if there is no pace yet.
    pub seconds_left: Option<i64>,
}

/// The revision that is rolled out.
#[apply(answer!)]
pub struct RolledOutRevision {
    /// The number.
    pub number: i64,
    /// The hash that its pods carry.
    pub hash: String,
    /// When its rollout began; absent if unknown.
    pub rolled_out_at: Option<Timestamp>,
    /// The revision that is replaced: that of most old pods; absent if there are none, or it is not known.
    pub replaces: Option<i64>,
    /// What it changes in the replaced revision, in short.
    pub changes: Vec<String>,
}

/// The revision that was asked about.
#[apply(answer!)]
#[derive(Copy)]
pub struct RequestedRevision {
    /// The number.
    pub number: i64,
    /// Whether it is the revision of the live template; absent if revisions could not be read.
    pub current: Option<bool>,
}

/// How many nodes may be replaced at a time, and what uses that up.
#[apply(answer!)]
pub struct Budget {
    /// The field that limits the rollout.
    pub field: BudgetField,
    /// Its value, such as `1` or `10%`.
    #[serde(serialize_with = "As::<DisplayFromStr>::serialize")]
    #[cfg_attr(feature = "schemas", schemars(with = "String"))]
    pub value: IntOrPercent,
    /// The number of nodes that it comes to.
    pub allowed: i64,
    /// The nodes that count against it now.
    pub used: usize,
    /// The same by reason: what takes time last, else most nodes first.
    pub by: Vec<Affected>,
}

/// The field that limits how many nodes are replaced at a time.
#[apply(value!)]
#[serde(rename_all = "camelCase")]
pub enum BudgetField {
    /// How many nodes may be without an available pod.
    MaxUnavailable,
    /// How many nodes may have a second pod.
    MaxSurge,
}

impl BudgetField {
    /// Returns the field as the API names it.
    pub fn name(self) -> &'static str {
        match self {
            BudgetField::MaxUnavailable => "maxUnavailable",
            BudgetField::MaxSurge => "maxSurge",
        }
    }
}

/// What is likely to blame for failing pods of the current revision.
#[apply(answer!)]
pub struct Suspect {
    /// What is likely to blame.
    pub what: SuspectKind,
    /// The number of the current revision; absent if it is not known.
    pub revision: Option<i64>,
    /// Eligible nodes where a pod of the current revision fails, or is refused, for a reason that is not the node's; with `Configuration`,
    /// a pod of any revision.
    pub failing: usize,
    /// Whether the API server refuses all of these pods, so that none of them has ever run.
    pub is_refused: bool,
    /// Eligible nodes where a pod of the current revision is available.
    pub available: usize,
    /// Whether all pods that work have started long before the first of the others failed: whether they would start now is not known.
    pub works_since_before: bool,
    /// Nodes where a pod of an older revision is available.
    pub old_available: usize,
    /// Nodes where a pod of an older revision fails for the same reasons, or failed until the rollout began.
    pub old_failing: usize,
    /// What all nodes where it fails have, and none where it works, if there is no other revision, they joined later, or a pod of an older
    /// one is available on a node that has it, too; `failing` and `old_available` count only such nodes then.
    pub on: Option<FeatureValue>,
    /// Other values that split the nodes in the same way, so that any of them may be why.
    pub also: Vec<FeatureValue>,
    /// What pods of the current revision request of resources that nodes lack, and older pods do not.
    pub raised_requests: Vec<RaisedRequest>,
    /// What was changed before the failing pods started, and after the working ones did.
    pub configuration: Option<SuspectConfiguration>,
}

impl Suspect {
    /// Passes how to look at it to a visitor of suggestions.
    pub(super) fn suggestions(&mut self, visit: &mut dyn FnMut(&mut Fix)) {
        self.configuration.iter_mut().for_each(|it| visit(&mut it.fix));
    }
}

/// A ConfigMap or Secret that may be to blame.
#[apply(answer!)]
pub struct SuspectConfiguration {
    /// Which one.
    #[serde(flatten)]
    pub object: ConfigName,
    /// When whoever owns its data has last set a field; that may have been a label.
    pub changed_at: Timestamp,
    /// How to look at it.
    pub fix: Fix,
}

/// A resource of which one revision requests more than another.
#[apply(answer!)]
#[derive(Eq, PartialOrd, Ord)]
pub struct RaisedRequest {
    /// The resource, such as `cpu`.
    pub resource: String,
    /// What older pods request, such as `50m`.
    pub from: String,
    /// What pods of the current revision request, such as `3200m`.
    pub to: String,
}

/// What is likely to blame for failing pods.
#[apply(value!)]
pub enum SuspectKind {
    /// The current revision: it fails on most nodes that run it, or on all of a kind, and the older one is available elsewhere.
    Revision,
    /// The nodes: the current revision is available on most nodes that run it.
    Nodes,
    /// Neither alone: pods of an older revision fail for the same reasons.
    EveryRevision,
    /// A ConfigMap or Secret: every pod that has started since it was changed fails, also of a revision that works, or that changes nothing.
    Configuration,
    /// What pods meet when they start, such as a ConfigMap or what an image's tag leads to: the revision only restarts pods.
    Surroundings,
}

/// What the controller does next.
#[apply(answer!)]
#[derive(Default)]
pub struct NextActions {
    /// Nodes that get a pod.
    pub create_on: Vec<String>,
    /// Pods that are deleted.
    pub delete: Vec<String>,
    /// How many of `candidates` are replaced at once.
    pub replace: usize,
    /// Nodes with an available pod of an older revision. The controller takes them in no order.
    pub candidates: Vec<String>,
    /// Those of `candidates` that are not eligible: their pods are deleted and not recreated.
    pub not_recreated_on: Vec<String>,
    /// Whether pods are updated in place if possible, instead of being deleted: of an Advanced DaemonSet with
    /// `InPlaceIfPossible`.
    pub in_place: bool,
}

/// Nodes that still have a pod of an older revision.
#[apply(answer!)]
pub struct OutdatedNodes {
    /// The number of the revision; absent if it no longer exists.
    pub revision: Option<i64>,
    /// The nodes, by name.
    pub nodes: Vec<String>,
}

/// The time left.
#[apply(answer!)]
#[derive(Copy)]
pub struct Eta {
    /// Seconds left at the pace of the whole rollout.
    pub seconds: i64,
    /// Seconds left at the fastest observed pace.
    pub at_least: i64,
    /// Seconds left at the slowest observed pace.
    pub at_most: i64,
}
