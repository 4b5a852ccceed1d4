//! Whether an answer depends on PodDisruptionBudgets: if pods would be preempted for a pod that is pending or has a
//! higher priority.

use super::verdict::fit::NodeRoom;
use super::verdict::preemption::Simulation;
use crate::facts::index::Index;
use crate::model::pod::Pod;
use crate::model::snapshot::Snapshot;
use crate::scheduling::preemption::NEVER;
use crate::scheduling::resources::pod_requests;

/// Returns whether the scheduler would preempt pods for an unbound pod of a DaemonSet, perhaps with a higher priority.
pub fn preempts(snapshot: &Snapshot) -> bool {
    let waits = |pod: &Pod| pod.waits_for_node() && pod.spec.preemption_policy != NEVER;
    if !snapshot.pods.iter().any(waits) {
        return false;
    }
    let index = Index::new(snapshot);
    let preempts = |node: &str, pod: &Pod| {
        let room = NodeRoom::of(&index, index.node(node)?, pod)?;
        Some(Simulation::new(&index, &room, pod, &pod_requests(pod))?.depends_on_budgets())
    };
    let mut pods = index.daemon_sets().into_iter().flat_map(|daemon_set| index.pods_of(daemon_set));
    pods.any(|(node, pod)| waits(pod) && preempts(node, pod) == Some(true))
}
