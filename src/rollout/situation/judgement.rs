//! All judgements about a rollout, in the order of their dependencies.

use super::Situation;
use super::fault::Faults;
use super::next_step::NextStep;
use super::severity::severity;
use super::suspect::suspect;
use super::verdict::verdict;
use crate::report::coverage::Affected;
use crate::report::list::{Severity, Status};
use crate::report::rollout_status::{BlockedBy, RolloutHold, Suspect, Verdict};

/// All judgements about a rollout.
pub(in crate::rollout) struct Judgement<'s, 'a> {
    situation: &'s Situation<'a>,
    /// What the controller does next.
    pub(in crate::rollout) step: NextStep<'a>,
    pub(in crate::rollout) verdict: Verdict,
    /// What blocks it.
    pub(in crate::rollout) blocked_by: Option<BlockedBy>,
    /// Whether the current revision or the nodes are to blame; `None` if the situation is unknown.
    pub(in crate::rollout) suspect: Option<Suspect>,
    /// Whose fault each node is.
    pub(in crate::rollout) faults: Faults<'s>,
    /// Whether it is in a rollout, if known.
    pub(in crate::rollout) in_rollout: Option<bool>,
}

impl<'s, 'a> Judgement<'s, 'a> {
    /// Judges a rollout.
    pub(in crate::rollout) fn of(situation: &'s Situation<'a>) -> Self {
        let step = situation.next_step();
        let judged = verdict(situation, &step);
        let verdict = judged.unwrap_or(Verdict::Blocked);
        let suspect = suspect(situation).filter(|_| verdict != Verdict::Unknown);
        let faults = Faults::new(situation, &step, judged, suspect.as_ref());
        let (blocked_by, in_rollout) = (judged.err(), situation.is_in_rollout(verdict));
        Judgement { situation, step, verdict, blocked_by, suspect, faults, in_rollout }
    }

    /// Returns the DaemonSet's status, and its rank in a list.
    pub(in crate::rollout) fn severity(&self, problems: &[Affected], hold: Option<&RolloutHold>) -> (Status, Severity) {
        let are_down = self.faults.are_only_down_nodes(self.situation, self.verdict);
        severity(&self.situation.coverage, problems, self.verdict, are_down, hold)
    }
}
