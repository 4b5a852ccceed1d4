//! Since when a rollout that should progress has not changed: whoever should act may be down, and not everything that would tell is
//! always read.

use jiff::Timestamp;

use super::Situation;
use crate::facts::controller::Controller;
use crate::model::event::EVENT_TTL;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::server_side_apply::{managed_fields, time_of};
use crate::model::snapshot::Kind;
use crate::report::age::seconds_between;
use crate::scheduling::daemon_pods::available_since;

impl Situation<'_> {
    /// Returns since when nothing has changed, if that is known to be too long for a rollout that should progress: longer than any start,
    /// backoff or retry takes, and than events are kept, so that none is missing.
    ///
    /// What changed are the DaemonSet, its status and its revision, its pods, and the nodes that are not done.
    pub(in crate::rollout) fn unchanged_since(&self) -> Option<Timestamp> {
        *self.known.unchanged_since.get_or_init(|| unchanged_since(self))
    }
}

fn unchanged_since(situation: &Situation<'_>) -> Option<Timestamp> {
    let last = last_change(situation)?;
    (seconds_between(last, situation.index.snapshot.earlier_now()) > EVENT_TTL).then_some(last)
}

/// Returns when anything has last changed, if that is known.
pub(super) fn last_change(situation: &Situation<'_>) -> Option<Timestamp> {
    let daemon_set = situation.daemon_set;
    let min_ready = daemon_set.spec.min_ready_seconds;
    let of_pod = |pod: &Pod| {
        let conditions = pod.status.conditions.iter().map(|condition| condition.last_transition_time.get());
        let metadata = [pod.metadata.creation_timestamp.get(), pod.metadata.deletion_timestamp.get()];
        // With a long minReadySeconds, it is in the future.
        conditions.chain(metadata).chain([available_since(pod, min_ready)]).max().flatten()
    };
    let of_node = |node: &Node| {
        let conditions = node.status.conditions.iter().map(|condition| condition.last_transition_time.get());
        let taints = node.spec.taints.iter().map(|taint| taint.time_added.get());
        let writes = situation.index.snapshot.node_writes.get(&node.metadata.name);
        let written = writes.into_iter().flatten().map(|written| Some(written.at));
        let created = node.metadata.creation_timestamp.get();
        conditions.chain(taints).chain(written).chain([created]).max().flatten()
    };
    let reasons = ["SuccessfulCreate", "SuccessfulDelete", "FailedCreate", "FailedDelete", "FailedDaemonPod"];
    let nodes = situation.nodes.iter().filter(|node| node.is_missing()).filter_map(|node| node.object);
    let managed = managed_fields(&daemon_set.object);
    // Without either, the last change may be one that nothing tells.
    if managed.is_empty() && !situation.knows(Kind::Events) {
        return None;
    }
    [daemon_set.metadata.creation_timestamp.get(), Some(situation.rollout_began_at()?)]
        .into_iter()
        .chain(managed.iter().map(time_of))
        .chain(reasons.map(|reason| situation.last_event(reason)))
        .chain(situation.pods().map(of_pod))
        .chain(nodes.map(of_node))
        .max()
        .flatten()
}

/// Returns what would tell whether the one that should act is running, and was not read.
pub(in crate::rollout) fn not_read(situation: &Situation<'_>) -> Option<String> {
    let program = situation.controller.program();
    if situation.controller.lease(situation.index.snapshot).is_some() {
        return None;
    }
    let gap = situation.index.snapshot.gap(Kind::Leases, "kube-system");
    Some(match situation.controller {
        Controller::Kruise => format!("whether {program} runs is not known: its lease is not read"),
        Controller::Kubernetes if gap.is_some() => {
            format!("whether {program} runs is not known: its lease was not read")
        }
        Controller::Kubernetes => format!("whether {program} runs is not known: it has no lease in kube-system"),
    })
}
