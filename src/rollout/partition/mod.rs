//! Staged rollouts of DaemonSets that have no partition of their own: the update strategy is suspended, and this client
//! deletes the pods that are to be replaced.
//!
//! [`plan`](mod@plan) chooses the nodes of a stage, and [`instruction`] decides from what the cluster looks like whether the
//! next pod is replaced, whether to wait, or whether to stop. All that decides is in the cluster: the revisions of the
//! pods, and the annotations of the hold. A client that is killed leaves nothing behind that another one would need.

mod canary;
pub(crate) mod course;
pub(crate) mod instruction;
pub(crate) mod job;
#[cfg(test)]
mod model_test;
mod order;
pub(crate) mod plan;
pub(crate) mod ready_times;
pub(crate) mod staging;
pub(crate) mod template;
pub(crate) mod unseen;
pub(crate) mod way_out;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::situation::{RolloutNode, Situation};
use crate::facts::index::Index;
use crate::model::hold::StageFlags;
use crate::model::int_or_percent::{IntOrPercent, int};
use crate::model::metadata::POD_TEMPLATE_GENERATION_LABEL;
use crate::model::pod::Pod;
use crate::model::snapshot::Snapshot;
use crate::model::template::Template;
use crate::report::partition::SKIP_LABEL;
use crate::scheduling::daemon_pods::target_node;

/// One stage: which nodes may be updated, how many at a time, and what has to hold.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stage {
    /// The UID of the DaemonSet.
    pub(crate) uid: String,
    /// The hash of the revision that nodes are updated to.
    pub(crate) hash: String,
    /// The template that nodes are updated to, as the API server has it.
    pub(crate) template: Template,
    /// What the annotation says that names the client.
    pub(crate) run: String,
    /// How many pods stay on older revisions.
    pub(crate) keep: IntOrPercent,
    /// The nodes that may be updated, in this order. No pod on another node is deleted, but for the others below.
    pub(crate) nodes: Vec<String>,
    /// Whether they were chosen by name or by labels.
    pub(crate) is_chosen: bool,
    /// The other nodes with a pod of an older revision, if a number of nodes is to be updated: if one of them is removed, no fewer nodes of
    /// the stage are updated.
    pub(crate) stay: BTreeSet<String>,
    /// The nodes that could not be updated when a stage was planned that keeps none: what the controller creates there, or another client
    /// replaces, before the new template is written is of an older revision, and nodes that were down or not eligible may come back.
    pub(crate) others: Vec<String>,
    /// How many nodes may be without an available pod.
    pub(crate) max_unavailable: IntOrPercent,
    /// The outages that do not count: they are older than the stage.
    pub(crate) excused: BTreeSet<Outage>,
    /// The nodes that were lost before a stage that goes back, and have not been ready since: they do not count, whatever became
    /// of their pods.
    pub(crate) lost: BTreeSet<String>,
    /// The nodes on which all other pods failed before the rollout, too: a new pod that fails there says nothing about the revision,
    /// and is not waited for.
    pub(crate) broken: BTreeSet<String>,
    /// The nodes that had gone down before this client deleted their pod, and have not been ready since: that says nothing about the
    /// revision, and they are not waited for.
    pub(crate) down: BTreeSet<String>,
    /// What has to hold.
    pub(crate) gates: StageGates,
    /// The nodes whose pod of an older revision was not ready at the beginning; `None` if it does not matter how those do.
    pub(crate) old_unready: Option<BTreeSet<String>>,
    /// The UIDs of the pods that this client has deleted: a snapshot may not show it yet.
    pub(crate) deleted: BTreeSet<String>,
    /// When this client has deleted the pod of a node.
    pub(crate) replaced_at: BTreeMap<String, Timestamp>,
    /// The UIDs of the pods that have passed the command of `--verify`.
    pub(crate) verified: BTreeSet<String>,
    /// The UIDs of pods of this revision that no gate is about: they ran before the stage.
    pub(crate) spared: BTreeSet<String>,
    /// When a pod was last deleted or became available.
    pub(crate) last_progress: Timestamp,
    /// From when on the pods that were available before count as such for the soak; `None` from when they were.
    pub(crate) soaks_from: Option<Timestamp>,
}

impl Stage {
    /// Returns a stage of what a DaemonSet has now: on no nodes, and without what only a run remembers.
    fn new(situation: &Situation<'_>, keep: IntOrPercent, max_unavailable: IntOrPercent, gates: StageGates) -> Self {
        let daemon_set = situation.daemon_set;
        Stage {
            uid: daemon_set.metadata.uid.clone(),
            hash: situation.current_hash().unwrap_or_default().to_owned(),
            template: daemon_set.template(),
            run: String::new(),
            keep,
            nodes: Vec::new(),
            is_chosen: false,
            stay: BTreeSet::new(),
            others: Vec::new(),
            max_unavailable,
            excused: BTreeSet::new(),
            lost: BTreeSet::new(),
            broken: BTreeSet::new(),
            down: BTreeSet::new(),
            gates,
            old_unready: None,
            deleted: BTreeSet::new(),
            replaced_at: BTreeMap::new(),
            verified: BTreeSet::new(),
            spared: older_pods(situation),
            last_progress: situation.now(),
            soaks_from: None,
        }
    }

    /// Notes which pods of older revisions are not available at the first look of a run, by the clock of the run: the plan was
    /// made by another one, and what that counted as available has not failed since.
    pub(crate) fn begin(&mut self, snapshot: &Snapshot) {
        if let (Some(before), Some(daemon_set)) = (&mut self.old_unready, snapshot.daemon_sets.first()) {
            *before = old_unready(&Situation::new(&Index::new(snapshot), daemon_set));
        }
        self.soaks_from = self.soaks_from.map(|_| snapshot.now);
    }

    /// Takes over what the same run remembers of the stage before, whose pods are judged on.
    pub(crate) fn follow(&mut self, earlier: Stage) {
        let Stage { broken, down, verified, spared, .. } = earlier;
        (self.broken, self.down, self.verified, self.spared) = (broken, down, verified, spared);
    }

    /// Forgets the lost nodes that are ready again: if one is lost once more, that counts.
    pub(crate) fn forget_found(&mut self, snapshot: &Snapshot) {
        for node in snapshot.nodes.iter().filter(|node| node.is_ready()) {
            self.lost.remove(&node.metadata.name);
            self.down.remove(&node.metadata.name);
        }
    }

    /// Takes back what was noted of deletions that the server has confirmed and not carried out: the pods still run. Returns
    /// their nodes.
    pub(crate) fn take_back_deletions(&mut self, snapshot: &Snapshot) -> Vec<String> {
        let running = snapshot.pods.iter().filter(|pod| !pod.metadata.is_terminating());
        let running: Vec<&Pod> = running.filter(|pod| self.deleted.remove(&pod.metadata.uid)).collect();
        running.into_iter().filter_map(target_node).map(str::to_owned).collect()
    }
}

/// A pod of an older revision that is not ready, by its UID, and since when: once it was ready again, it is another outage.
pub(crate) type Outage = (String, Option<Timestamp>);

/// Returns the outage of a node; `None` if it has an available pod, or a new one.
fn outage(node: &RolloutNode<'_>) -> Option<Outage> {
    let old = node.old.filter(|_| !node.has_available_pod())?;
    let since = old.condition("Ready").and_then(|ready| ready.last_transition_time.get());
    Some((old.metadata.uid.clone(), since))
}

/// Returns the UIDs of the pods of the current template that ran before it was last written: its rollout did not create them.
fn older_pods(situation: &Situation<'_>) -> BTreeSet<String> {
    let Some(written) = situation.daemon_set.template_generation() else { return BTreeSet::new() };
    let generation = |pod: &Pod| pod.metadata.labels.get(POD_TEMPLATE_GENERATION_LABEL)?.parse::<i64>().ok();
    let updated = situation.eligible().filter_map(|node| node.updated);
    let older = updated.filter(|pod| generation(pod).is_some_and(|generation| generation < written));
    older.map(|pod| pod.metadata.uid.clone()).collect()
}

/// Returns the ready nodes whose pod of an older revision is not available.
fn old_unready(situation: &Situation<'_>) -> BTreeSet<String> {
    let unready = situation.eligible().filter(|node| node.old.is_some() && !node.old_is_available && node.is_ready());
    unready.map(|node| node.name.to_owned()).collect()
}

/// What has to hold before the next pod is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StageGates {
    /// How often the containers of a new pod may restart; `None` for any number.
    pub(crate) max_restarts: Option<i32>,
    /// For how long all new pods must be available at the end of the stage.
    pub(crate) soak: SignedDuration,
    /// After what time without progress the stage is stopped.
    pub(crate) progress_deadline: SignedDuration,
    /// Whether a command has to succeed for each updated node.
    pub(crate) verifies: bool,
}

impl StageGates {
    /// Returns the gates that a stage had.
    fn of(flags: &StageFlags) -> Self {
        StageGates {
            max_restarts: (!flags.is_undo).then_some(flags.max_restarts),
            soak: SignedDuration::from_secs(flags.soak_seconds),
            progress_deadline: SignedDuration::from_secs(flags.progress_deadline_seconds),
            verifies: flags.verifies,
        }
    }
}

/// Returns how many nodes may be without an available pod; as the controller has it, at least one.
fn allowed(max_unavailable: IntOrPercent, desired: usize) -> usize {
    usize::try_from(max_unavailable.scaled_up(int(desired))).unwrap_or(0).max(1)
}

/// Returns how many pods stay on older revisions.
pub(crate) fn kept(keep: IntOrPercent, desired: usize) -> usize {
    usize::try_from(keep.scaled_down(int(desired))).unwrap_or(0).min(desired)
}

/// Returns whether a stage still replaces a pod if it keeps that many nodes; skipped nodes count as kept.
pub(in crate::rollout) fn replaces_more(situation: &Situation<'_>, keep: IntOrPercent) -> bool {
    let old = || situation.outdated_nodes();
    old().count() > kept(keep, situation.eligible().count()) && !old().all(is_skipped)
}

/// Returns whether the pod of a node is never replaced, because of a label of the node.
pub(in crate::rollout) fn is_skipped(node: &RolloutNode<'_>) -> bool {
    node.object.is_some_and(|node| node.metadata.labels.contains_key(SKIP_LABEL))
}
