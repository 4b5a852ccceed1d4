//! What the DaemonSet controller does next.

use jiff::Timestamp;

use crate::model::daemon_set::{DaemonSet, Flavor, UpdateStrategy};
use crate::scheduling::advanced_update;
use crate::scheduling::daemon_pods::{NodePods, Upkeep, keeps_failing, manage};
use crate::scheduling::rolling_update::{NodeNotFound, UpdateStep, rolling_update};

/// The controller's next step. It replaces pods only if there is nothing else to create or delete.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct NextStep<'a> {
    /// What is created and deleted besides the rolling update.
    pub(crate) upkeep: Upkeep<'a>,
    /// The nodes among those that get a pod on which pods of the current revision keep failing.
    pub(crate) retried: Vec<&'a str>,
    /// The rolling update; `None` if the strategy replaces nothing.
    pub(crate) update: Option<Result<UpdateStep<'a>, NodeNotFound<'a>>>,
}

/// Computes the next step of the controller.
///
/// A failed pod counts as being in backoff: the first backoff lasts a second, so an observed one has usually failed
/// repeatedly. Ported from `updateDaemonSet`, pkg/controller/daemon/daemon_controller.go, release 1.37.2.
pub(crate) fn next_step<'a>(
    daemon_set: &DaemonSet,
    current_hash: &str,
    nodes: &[NodePods<'a>],
    now: Timestamp,
) -> NextStep<'a> {
    let upkeep = manage(daemon_set, current_hash, nodes, |_| true, now);
    let is_retried = |node: &&NodePods<'_>| {
        keeps_failing(daemon_set, Some(current_hash), &node.pods) && upkeep.create.contains(&node.node)
    };
    let retried = nodes.iter().filter(is_retried);
    let retried = retried.map(|node| node.node).collect();
    let update = match &daemon_set.spec.update_strategy {
        UpdateStrategy::RollingUpdate(rolling) if daemon_set.flavor() == Flavor::Advanced => {
            let update = || advanced_update::rolling_update(daemon_set, rolling, current_hash, nodes, now);
            (!rolling.paused).then(|| Ok(update()))
        }
        UpdateStrategy::RollingUpdate(_) => Some(rolling_update(daemon_set, current_hash, nodes, now)),
        UpdateStrategy::OnDelete | UpdateStrategy::Unknown(_) => None,
    };
    NextStep { upkeep, retried, update }
}

impl<'a> NextStep<'a> {
    /// Returns the rolling update, whether reached or not.
    pub(crate) fn update(&self) -> Option<&UpdateStep<'a>> {
        self.update.as_ref()?.as_ref().ok()
    }

    /// Returns whether the controller gets to the rolling update in this step.
    pub(crate) fn reaches_update(&self) -> bool {
        self.upkeep.create.is_empty() && !self.deletes()
    }

    /// Returns whether the step changes anything, other than creating pods where they keep failing.
    /// `creation_is_refused` tells that the API server refuses new pods: the controller then retries the creation again
    /// and again, and never gets to the rolling update. `deletion_is_refused` tells the same of deletions.
    pub(crate) fn acts(&self, creation_is_refused: bool, deletion_is_refused: bool) -> bool {
        if (self.deletes() && !deletion_is_refused) || (self.creates() && !creation_is_refused) {
            return true;
        }
        let Some(update) = self.update().filter(|_| !(self.creates() || self.deletes())) else { return false };
        let replacing_is_refused = self.replacing_is_refused(creation_is_refused, deletion_is_refused);
        let (replaced, deleted) = if update.surges {
            // While others wait or start, these do not advance the rollout, and the controller does not sync again
            // because of them: `syncNodeUpdate`, pkg/controller/daemon/daemon_controller.go, release 1.37.2.
            let is_alone = update.candidates.is_empty() && update.used_by.is_empty();
            let not_eligible = if is_alone { update.not_eligible_deleted_now } else { 0 };
            (update.create.len() + update.replaced_now, update.delete.len() + not_eligible)
        } else {
            (update.delete.len() + update.replaced_now, 0)
        };
        (replaced > 0 && !replacing_is_refused) || (deleted > 0 && !deletion_is_refused)
    }

    /// Returns whether the controller replaces no pod because the API server refuses what it does first: what is created and deleted
    /// besides the rolling update, and then the surge pod, or the deletion of the old one.
    pub(crate) fn replacing_is_refused(&self, creation_is_refused: bool, deletion_is_refused: bool) -> bool {
        let surges = self.update().is_some_and(|update| update.surges);
        (creation_is_refused && (surges || self.creates())) || (deletion_is_refused && (!surges || self.deletes()))
    }

    /// Returns the deleted node that stops the rolling update.
    pub(crate) fn node_not_found(&self) -> Option<&'a str> {
        match &self.update {
            Some(Err(NodeNotFound { node })) => Some(node),
            _ => None,
        }
    }

    /// Between two failing pods, the controller gets to the rolling update.
    fn creates(&self) -> bool {
        self.upkeep.create.iter().any(|node| !self.retried.contains(node))
    }

    /// Unscheduled pods of deleted nodes are deleted again even if they are terminating, which changes nothing.
    fn deletes(&self) -> bool {
        self.upkeep.delete.iter().any(|pod| !pod.metadata.is_terminating())
    }
}
