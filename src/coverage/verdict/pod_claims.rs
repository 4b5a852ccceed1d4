//! The PersistentVolumeClaims of pods.

use super::daemon_set_context::Subject;
use super::finding::Finding;
use super::sentence::Sentence;
use crate::report::fix::Command;
use crate::report::reason::ReasonCode;

/// Returns the command that shows the claims of the namespace.
pub fn get_claims(subject: &Subject) -> Command {
    Command::kubectl(&["get", "pvc"]).namespace(&subject.daemon_set.metadata.namespace)
}

/// Returns the claims that the template names, if any, such as `claim a and claim b`.
pub fn shared_claims(subject: &Subject) -> Option<String> {
    let volumes = subject.revisions.live.value()["spec"]["volumes"].as_array();
    let claims = volumes.into_iter().flatten().filter_map(|it| it["persistentVolumeClaim"]["claimName"].as_str());
    claims.map(|name| format!("claim {name}")).reduce(|all, one| format!("{all} and {one}"))
}

/// Finds that the volumes of a pod that has a node were not provisioned or bound in time: `BindPodVolumes`,
/// pkg/scheduler/framework/plugins/volumebinding/binder.go, release 1.37.2.
pub fn volumes_not_bound(subject: &Subject, text: &str) -> Finding {
    let message = Sentence::from("the volumes of the pod were not provisioned in time: ").value(text);
    let advice = "see the events of the claims: the provisioner of their storage class has not made the volumes";
    let events = Command::kubectl(&["get", "events", "--field-selector", "involvedObject.kind=PersistentVolumeClaim"]);
    let events = events.namespace(&subject.daemon_set.metadata.namespace);
    Finding::new(ReasonCode::VolumeUnsatisfiable, message, advice).with_command(events)
}
