//! The filters of the scheduler that are recomputed for a pod that is meant for a node, besides those about its ports and requests.

use super::claims;
use super::daemon_set_context::Subject;
use super::finding::Finding;
use super::other_pods;
use super::pod_claims;
use super::scheduler_message::PluginInput;
use super::scheduler_report::node_feature_missing;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::scheduling::declared_features::{declared, required};
use crate::scheduling::neighborhood::{Obstacle, Outcome};

/// The result of a filter.
pub enum Filtered {
    /// It lets the pod run on the node, with what it has compared.
    Passes(String),
    Rejects(Finding),
    /// Something that decides is not known, which is told.
    Unknown(String),
}

/// What the filters depend on, in the scheduler's order, and their names.
pub const FILTERS: [(PluginInput, &str); 4] = [
    (PluginInput::Volumes, "volumes"),
    (PluginInput::OtherPods, "other pods"),
    (PluginInput::Devices, "devices"),
    (PluginInput::Features, "kubelet features"),
];

/// Applies a filter; `None` if the pod has nothing that it looks at.
pub fn filtered(subject: &Subject, node: &Node, pod: &Pod, input: PluginInput) -> Option<Filtered> {
    match input {
        PluginInput::Node | PluginInput::Pods => None,
        PluginInput::Volumes => (!pod.spec.volumes.is_empty()).then(|| {
            let outcome = pod_claims::filter(subject.index, node, pod, |_| false);
            of_claims(outcome, |why| pod_claims::finding(subject, node, pod, &why), pod_claims::unread_text)
        }),
        PluginInput::Devices => subject.index.device_claims.concerns(pod, node).then(|| {
            let outcome = subject.index.device_claims.filter(pod, node, |_| false);
            of_claims(outcome, |why| claims::told(&why, pod), claims::open_text)
        }),
        PluginInput::OtherPods => Some(match other_pods::of_pending(subject, node, pod) {
            Outcome::Passes => {
                Filtered::Passes("affinity, anti-affinity and topology spread let it run here".to_owned())
            }
            Outcome::Rejects(why) => Filtered::Rejects(other_pods::finding(subject, node, pod, &why)),
            Outcome::Unknown => Filtered::Unknown(
                "the rules depend on pods of other nodes, or on namespaces, that were not read".to_owned(),
            ),
        }),
        PluginInput::Features => {
            let named = Some(required(&pod.spec).collect::<Vec<_>>().join(", ")).filter(|named| !named.is_empty())?;
            Some(match declared(&pod.spec, node, &subject.index.nodes) {
                Outcome::Passes => Filtered::Passes(named),
                Outcome::Rejects(missing) => Filtered::Rejects(node_feature_missing(node, &missing)),
                Outcome::Unknown => Filtered::Unknown(format!(
                    "{named}: whether the scheduler looks at what kubelets declare is not known"
                )),
            })
        }
    }
}

fn of_claims<R, U>(
    outcome: Result<(), Obstacle<R, U>>,
    finding: impl FnOnce(R) -> Finding,
    text: fn(&U) -> String,
) -> Filtered {
    match outcome {
        Ok(()) => Filtered::Passes("the node can have them".to_owned()),
        Err(Obstacle::Rejects(why)) => Filtered::Rejects(finding(why)),
        Err(Obstacle::Unknown(open)) => Filtered::Unknown(text(&open)),
    }
}
