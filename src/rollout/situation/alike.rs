//! What has nothing to do with the current revision: pods of the revision to return to would fail the same way if they started now,
//! although those that started earlier are available.

use std::collections::BTreeSet;

use super::Situation;
use crate::difference::difference;
use crate::report::change::{Change, PathStep};
use crate::report::reason::ReasonCode;

/// What an image is pulled by.
const PULL: [&str; 4] = ["image", "imagePullPolicy", "imagePullSecrets", "serviceAccountName"];

/// The fields of a container that its sandbox does not depend on.
const INSIDE: [&str; 11] = [
    "image",
    "imagePullPolicy",
    "command",
    "args",
    "env",
    "envFrom",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "volumeMounts",
];

/// Whether a change may be what a reason is about.
type IsAbout = fn(&Change) -> bool;

/// Returns the reasons for which pods of both revisions fail alike, because what these are about is the same in both; empty if there
/// is no revision to return to.
pub(super) fn alike(situation: &Situation<'_>) -> BTreeSet<ReasonCode> {
    let revisions = &situation.revisions;
    let Some((_, template)) = revisions.target() else { return BTreeSet::new() };
    let changes = difference(template, &revisions.live);
    let is_about: [(ReasonCode, IsAbout); 3] = [
        (ReasonCode::ImagePullFailed, |change| is_container(change) || has_field(change, &PULL)),
        (ReasonCode::SandboxFailed, |change| !is_inside_container(change)),
        // Besides the runtime class, the namespace adds one.
        (ReasonCode::InjectedNodeSelector, |change| has_field(change, &["runtimeClassName"])),
    ];
    is_about.into_iter().filter(|(_, is_about)| !changes.iter().any(is_about)).map(|(code, _)| code).collect()
}

fn has_field(change: &Change, names: &[&str]) -> bool {
    change.path.0.iter().any(|step| matches!(step, PathStep::Field(name) if names.contains(&name.as_str())))
}

fn is_list_of_containers(name: &str) -> bool {
    matches!(name, "containers" | "initContainers")
}

/// Returns whether a container was added or removed.
fn is_container(change: &Change) -> bool {
    matches!(change.path.0.as_slice(), [_, PathStep::Field(list), PathStep::Entry(_)] if is_list_of_containers(list))
}

/// Returns whether a change is inside of a container, or one of metadata that no network plugin reads.
fn is_inside_container(change: &Change) -> bool {
    match change.path.0.as_slice() {
        [_, PathStep::Field(list), PathStep::Entry(_), PathStep::Field(name), ..] => {
            is_list_of_containers(list) && INSIDE.contains(&name.as_str())
        }
        [PathStep::Field(_), PathStep::Field(_), PathStep::Field(key) | PathStep::Entry(key)] => {
            key == "kubectl.kubernetes.io/restartedAt"
        }
        _ => false,
    }
}
