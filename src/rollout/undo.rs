//! Rolling back to a revision.

use serde_json::Value;

use super::change_warnings;
use super::difference::difference;
use super::revisions::{Revision, Revisions, name_of};
use crate::model::daemon_set::UpdateStrategy;
use crate::model::metadata::CONTROLLER_REVISION_HASH_LABEL;
use crate::model::snapshot::{Kind, Snapshot};
use crate::model::template::Template;
use crate::plan::{self, Write};
use crate::report::plan::{ChangePlan, Outcome, PodLeft, Stage, WarningCode};
use crate::scheduling::daemon_pods;

/// Why a rollback is not possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoTarget {
    /// The revision does not exist; also holds the existing ones, the newest first.
    NoSuchRevision(i64, Vec<i64>),
    /// The revision's template cannot be read, with the problem as a fragment.
    Unreadable(i64, String),
    /// All revisions, of which this is the number, are equivalent to the live template.
    NoOther(usize),
}

/// Plans a rollback to a revision; without a number, to the newest one whose template is not equivalent to the
/// live one.
///
/// The second value is what to send; `None` if the live template is already equivalent.
///
/// # Errors
///
/// Fails if the revision does not exist or cannot be read.
pub fn undo(
    revisions: &Revisions<'_>,
    to_revision: Option<i64>,
    snapshot: &Snapshot,
) -> Result<(ChangePlan, Option<Write>), NoTarget> {
    let numbers = || revisions.all.iter().map(Revision::number).collect();
    let (target, template, why) = match to_revision {
        Some(number) => {
            let target = revisions.number(number).ok_or_else(|| NoTarget::NoSuchRevision(number, numbers()))?;
            match &target.template {
                Ok(template) => (target, template, None),
                Err(problem) => return Err(NoTarget::Unreadable(number, problem.clone())),
            }
        }
        None => {
            let (target, template) = revisions.default_target().ok_or(NoTarget::NoOther(revisions.all.len()))?;
            (target, template, Some(why(revisions, target)))
        }
    };
    let daemon_set = revisions.daemon_set;
    let needed = !template.same_meaning(&revisions.live);
    let write = needed.then(|| plan::undo::undo(daemon_set, template));
    let mut warnings = Vec::new();
    let mut pods_left = Vec::new();
    if needed {
        warnings = change_warnings::managers(daemon_set);
        warnings.extend(change_warnings::last_applied(daemon_set, template));
        warnings.extend(change_warnings::obstacles(daemon_set, false));
        pods_left = left_on_delete(revisions, Some(template), snapshot);
        if pods_left.is_empty() && snapshot.gap(Kind::Pods, &daemon_set.metadata.namespace).is_none() {
            // Every pod is on the target already, so nothing has to be deleted.
            warnings.retain(|warning| warning.code != WarningCode::OnDelete);
        }
    }
    let plan = ChangePlan {
        api_version: "kubectl-ds/v1".to_owned(),
        kind: "UndoPlan".to_owned(),
        daemon_set: name_of(daemon_set),
        from_revision: revisions.current().map(Revision::number),
        to_revision: Some(target.number()),
        now: snapshot.now,
        rolled_out_at: target.object.rolled_out_at(),
        why,
        needed,
        changes: difference(&revisions.live, template),
        patch: patch_of(write.as_ref()),
        warnings,
        pods_left,
        outcome: planned(needed),
    };
    Ok((plan, write))
}

/// Explains why a revision was chosen.
fn why(revisions: &Revisions<'_>, target: &Revision<'_>) -> String {
    let newer = revisions.all.iter().filter(|revision| revision.number() > target.number() && !revision.is_current);
    let skipped: Vec<String> = newer
        .map(|revision| match &revision.template {
            Ok(_) => format!("revision {} has the live template in other bytes", revision.number()),
            Err(problem) => format!("revision {} cannot be read ({problem})", revision.number()),
        })
        .collect();
    let skipped = if skipped.is_empty() { String::new() } else { format!("; {}", skipped.join("; ")) };
    format!("revision {} is the newest whose template differs from the live one{skipped}", target.number())
}

/// Returns the patch as JSON values.
pub(super) fn patch_of(write: Option<&Write>) -> Vec<Value> {
    let operations = write.map(|write| write.patch().0).unwrap_or_default();
    operations.iter().filter_map(|operation| serde_json::to_value(operation).ok()).collect()
}

/// Returns the outcome before anything is sent.
pub(super) fn planned(needed: bool) -> Outcome {
    let stage = if needed { Stage::Planned } else { Stage::NotNeeded };
    Outcome { stage, ..Outcome::default() }
}

/// Returns the pods that keep another template under OnDelete, by node.
pub(super) fn left_on_delete(
    revisions: &Revisions<'_>,
    template: Option<&Template>,
    snapshot: &Snapshot,
) -> Vec<PodLeft> {
    let daemon_set = revisions.daemon_set;
    if daemon_set.spec.update_strategy != UpdateStrategy::OnDelete {
        return Vec::new();
    }
    let claimed = snapshot.pods.iter().filter(|pod| daemon_pods::claim(daemon_set, pod).is_claimed());
    let mut left: Vec<PodLeft> = claimed
        .filter_map(|pod| {
            let hash = pod.metadata.labels.get(CONTROLLER_REVISION_HASH_LABEL).map_or("", String::as_str);
            let revision = revisions.all.iter().find(|revision| revision.object.hash() == hash);
            let has_it = |revision: &Revision<'_>| {
                let of_pod = revision.template.as_ref().ok();
                of_pod.zip(template).is_some_and(|(of_pod, wanted)| of_pod.same_meaning(wanted))
            };
            let stays = !pod.metadata.is_terminating() && !revision.is_some_and(has_it);
            stays.then(|| PodLeft {
                node: daemon_pods::target_node(pod).unwrap_or_default().to_owned(),
                pod: pod.metadata.name.clone(),
                revision: revision.map(Revision::number),
            })
        })
        .collect();
    left.sort_by(|one, other| (&one.node, &one.pod).cmp(&(&other.node, &other.pod)));
    left
}
