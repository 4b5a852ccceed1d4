//! The pods to ask the API server about in dry runs: after it has refused new pods of a DaemonSet, whether it still
//! refuses those of the current revision, and whether it would create those of the revision to roll back to; and before
//! pods are replaced by those of another template, whether it would create them.

use serde_json::{Value, json};

use crate::facts::Facts;
use crate::facts::index::Index;
use crate::facts::revisions::Revisions;
use crate::model::daemon_set::DaemonSet;
use crate::model::metadata::{CONTROLLER_REVISION_HASH_LABEL, TEMPLATE_GENERATION_ANNOTATION};
use crate::model::snapshot::{Kind, Snapshot};
use crate::model::template::Template;
use crate::report::coverage::Incomplete;
use crate::scheduling::should_run::DaemonPod;

/// The most DaemonSets whose pods are tried: many refusals usually have the same cause.
const MOST_DAEMON_SETS: usize = 5;

/// A pod to ask the API server about.
pub(crate) struct Trial {
    /// The UID of its DaemonSet.
    pub(crate) daemon_set_uid: String,
    /// The hash of its revision.
    pub(crate) hash: String,
    pub(crate) namespace: String,
    pub(crate) pod: Value,
}

/// Returns that the API server may refuse the new pods.
pub(crate) fn not_asked() -> Incomplete {
    let message = "whether the API server accepts new pods is unknown: it was not asked, or its answer to a dry run is not conclusive, as \
                   without permission to create pods";
    Incomplete::new(Kind::Pods.resource(), message.to_owned(), false)
}

/// Returns the pods whose dry runs tell whether the refusals in a snapshot persist, and whether pods that are missing are refused.
pub(crate) fn trials(snapshot: &Snapshot) -> Vec<Trial> {
    let index = Index::new(snapshot);
    // Facts are expensive, and few DaemonSets lack pods.
    let is_refused = |daemon_set: &&DaemonSet| {
        let status = &daemon_set.status;
        status.current_number_scheduled < status.desired_number_scheduled
            || index.events_about("DaemonSet", &daemon_set.metadata).iter().any(|event| event.reason == "FailedCreate")
    };
    let daemon_sets = index.daemon_sets_of_any_flavor().into_iter().filter(is_refused);
    let facts = daemon_sets.map(|daemon_set| Facts::new(&index, daemon_set));
    let mut trials = Vec::new();
    for Facts { daemon_set, revisions, .. } in facts.filter(may_be_refused).take(MOST_DAEMON_SETS) {
        let current = revisions.current().map(|current| (current, &revisions.live));
        for (revision, template) in current.into_iter().chain(revisions.target()) {
            trials.extend(trial(&index, daemon_set, revision.object.hash(), template));
        }
    }
    trials
}

/// Returns whether the API server is to be asked whether it would create pods that are missing.
pub(crate) fn may_be_refused(facts: &Facts<'_>) -> bool {
    facts.creation_is_refused() || facts.waits_for_pods()
}

/// Returns a pod of a DaemonSet's new template, unless the API server was already asked; the hash is empty if the
/// template has no revision yet.
pub(crate) fn trial_of(snapshot: &Snapshot, daemon_set: &DaemonSet, hash: &str, template: &Template) -> Option<Trial> {
    let index = Index::new(snapshot);
    let is_asked = snapshot.is_admitted(daemon_set, hash).is_some();
    (!is_asked).then(|| trial(&index, daemon_set, hash, template)).flatten()
}

/// Returns a pod of the current revision, unless the API server was already asked.
pub(crate) fn trial_of_current(snapshot: &Snapshot, daemon_set: &DaemonSet) -> Option<Trial> {
    let revisions = Revisions::of(daemon_set, snapshot);
    trial_of(snapshot, daemon_set, revisions.current()?.object.hash(), &revisions.live)
}

/// Returns a pod as the controller creates it, for the first eligible node.
///
/// Ported from `syncNodes`, pkg/controller/daemon/daemon_controller.go, and `GetPodFromTemplate`,
/// pkg/controller/controller_utils.go, release 1.37.2, without `blockOwnerDeletion`, which needs another permission.
fn trial(index: &Index<'_>, daemon_set: &DaemonSet, hash: &str, template: &Template) -> Option<Trial> {
    let mut object = daemon_set.object.clone();
    *object.pointer_mut("/spec/template")? = template.value().clone();
    let daemon_pod = DaemonPod::new(&DaemonSet::from_object(object).ok()?.spec.template);
    let metadata = &daemon_set.metadata;
    let mut pod = template.value().clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["generateName"] = format!("{}-", metadata.name).into();
    pod["metadata"]["namespace"] = metadata.namespace.as_str().into();
    pod["metadata"]["labels"][CONTROLLER_REVISION_HASH_LABEL] = hash.into();
    if let Some(generation) = daemon_set.annotations.get(TEMPLATE_GENERATION_ANNOTATION) {
        pod["metadata"]["labels"]["pod-template-generation"] = generation.as_str().into();
    }
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": daemon_set.api_version(), "kind": "DaemonSet",
        "name": metadata.name, "uid": metadata.uid, "controller": true}]);
    pod["spec"]["tolerations"] = json!(daemon_pod.tolerations());
    if let Some(node) = index.nodes.iter().find(|node| daemon_pod.decide(node).should_run) {
        let field = json!({"key": "metadata.name", "operator": "In", "values": [node.metadata.name]});
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    }
    let (daemon_set_uid, namespace) = (metadata.uid.clone(), metadata.namespace.clone());
    Some(Trial { daemon_set_uid, hash: hash.to_owned(), namespace, pod })
}
