//! The status of a rollout for `coverage`, the same as for `status`.

use std::cell::OnceCell;

use super::way_out::way_out;
use crate::facts::index::Index;
use crate::model::snapshot::Snapshot;
use crate::report::common_cause::{CommonCause, Feature};
use crate::report::coverage::{CoverageReport, DaemonSetCoverage};
use crate::report::fix::Command;
use crate::report::rollout_status::{Suspect, SuspectKind, Verdict};
use crate::rollout::rollback::{rollback, rollback_by_pods};
use crate::rollout::situation::judgement::Judgement;
use crate::rollout::situation::{NoRollback, Situation};

/// Adds to a coverage report what is likely to blame and how to roll back, and removes statements about a revision that
/// is not at fault.
pub fn add_blame(snapshot: &Snapshot, report: &mut CoverageReport) {
    let is_asked = |coverage: &&mut DaemonSetCoverage| coverage.every_node && !coverage.problems.is_empty();
    let index = OnceCell::new();
    for coverage in report.daemon_sets.iter_mut().filter(is_asked) {
        if let Some(daemon_set) = snapshot.daemon_set(&coverage.namespace, &coverage.name) {
            let index = index.get_or_init(|| Index::new(snapshot));
            blame(&Situation::new(index, daemon_set), coverage);
        }
    }
}

fn blame(situation: &Situation<'_>, coverage: &mut DaemonSetCoverage) {
    let judgement = Judgement::of(situation);
    match judgement.verdict {
        Verdict::Deleting => return,
        Verdict::Unknown => {
            coverage.rollback = rollback_by_pods(situation);
            return;
        }
        _ => {}
    }
    let is_another = judgement.suspect.as_ref().is_some_and(|suspect| suspect.what != SuspectKind::Revision);
    if is_another || rollback(situation).err() == Some(NoRollback::NotTheRevision) {
        coverage.common_causes.retain(|cause| cause.revision.as_ref().is_none_or(|revision| !revision.current));
    }
    coverage.common_causes.retain(|cause| !is_explained(cause, judgement.suspect.as_ref()));
    let ways = way_out(situation, &judgement);
    let suggested = rollback(situation).ok();
    coverage.rollback = ways
        .into_iter()
        .find(|fix| suggested.as_ref() == Some(fix) || fix.command.as_ref().is_some_and(Command::is_rollback));
    coverage.suspect = judgement.suspect;
}

/// Returns whether the age of nodes says no more than that of their pods: all that have started since something was changed fail.
pub(super) fn is_explained(cause: &CommonCause, suspect: Option<&Suspect>) -> bool {
    let is_of_age = cause.shared.feature == Feature::NodeAge;
    is_of_age && suspect.is_some_and(|suspect| suspect.what == SuspectKind::Configuration)
}
