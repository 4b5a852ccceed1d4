//! Restarting all pods.

use super::change_warnings;
use super::difference::difference;
use super::revisions::{Revision, Revisions, name_of};
use super::undo::{left_on_delete, patch_of, planned};
use crate::model::snapshot::Snapshot;
use crate::model::template::Template;
use crate::plan::{self, Write};
use crate::report::plan::ChangePlan;

/// Plans to recreate all pods; the second value is `None` if a restart was already requested within this second.
pub fn restart(revisions: &Revisions<'_>, snapshot: &Snapshot) -> (ChangePlan, Option<Write>) {
    let daemon_set = revisions.daemon_set;
    let write = plan::restart::restart(daemon_set, snapshot.now);
    let after = write.as_ref().and_then(|write| write.applied_to(&daemon_set.object).ok());
    let after = after.and_then(|after| Some(Template::new(after.pointer("/spec/template")?.clone())));
    let mut warnings = change_warnings::managers(daemon_set);
    warnings.extend(change_warnings::obstacles(daemon_set, true));
    let plan = ChangePlan {
        api_version: "kubectl-ds/v1".to_owned(),
        kind: "RestartPlan".to_owned(),
        daemon_set: name_of(daemon_set),
        from_revision: revisions.current().map(Revision::number),
        to_revision: None,
        now: snapshot.now,
        rolled_out_at: None,
        why: None,
        needed: write.is_some(),
        changes: after.map(|after| difference(&revisions.live, &after)).unwrap_or_default(),
        patch: patch_of(write.as_ref()),
        warnings,
        pods_left: left_on_delete(revisions, None, snapshot),
        outcome: planned(write.is_some()),
    };
    (plan, write)
}
