//! Which faults are accepted in a rollout that is not complete.

use jiff::{SignedDuration, Timestamp};

use crate::coverage::PROGRESS_DEADLINE;
use crate::model::daemon_set::UpdateStrategy;
use crate::model::hold::Hold;
use crate::model::int_or_percent::int;
use crate::model::pod::Pod;
use crate::report::acceptance::{Accept, Acceptance, Limit};
use crate::report::age::seconds_between;
use crate::report::reason::Passing;
use crate::report::rollout_status::{Accepted, AcceptedNodes, Fault, Verdict};
use crate::rollout::situation::fault::{Faults, is_excluded_by_its_state, may_be_taken_down};
use crate::rollout::situation::{RolloutNode, Situation};

/// The annotation with what is accepted for a DaemonSet by default: comma-separated, in the format of `--accept`.
const ANNOTATION: &str = "kubectl-ds/accept";

/// Number of characters shown of an invalid value.
const LONGEST: usize = 60;

/// The accepted faults of a DaemonSet.
#[derive(Default)]
pub(super) struct Acceptances {
    /// Whether they come from the annotation.
    by_annotation: bool,
    /// Why the annotation is invalid.
    invalid: Option<String>,
    all: Vec<Acceptance>,
}

impl Acceptances {
    /// Returns what the command accepts, or else what the annotation accepts.
    pub(super) fn of(situation: &Situation<'_>, by_command: &[Acceptance]) -> Self {
        let annotation = situation.daemon_set.annotations.get(ANNOTATION).filter(|_| by_command.is_empty());
        let Some(text) = annotation else {
            return Acceptances { all: last_of_each(by_command.to_vec()), ..Acceptances::default() };
        };
        let read = |one: &str| match one.parse::<Acceptance>() {
            // It would hold for all later revisions, too.
            Ok(Acceptance { what: Accept::FewerNodes, .. }) => Err(format!("{one} is accepted by --accept only")),
            Ok(acceptance) => Ok(acceptance),
            Err(why) => Err(format!("invalid value {:?}: {why}", one.chars().take(LONGEST).collect::<String>())),
        };
        let all: Result<Vec<Acceptance>, String> = text.split(',').map(|one| read(one.trim())).collect();
        let (all, invalid) = all.map_or_else(|why| (Vec::new(), Some(why)), |all| (last_of_each(all), None));
        Acceptances { by_annotation: true, invalid, all }
    }

    /// Returns whether it is accepted that a revision has removed most of the nodes.
    pub(super) fn fewer_nodes(&self) -> bool {
        self.all.iter().any(|one| one.what == Accept::FewerNodes)
    }

    /// Judges the missing nodes by what is accepted; `None` if nothing is accepted, or if the missing nodes are unknown.
    ///
    /// A node whose pod fails because of the revision is never accepted, nor is a revision that is available nowhere: whatever is
    /// wrong with it may look like something else.
    pub(super) fn judge(&self, situation: &Situation<'_>, verdict: Verdict, faults: &Faults<'_>) -> Option<Accepted> {
        let of_nodes = self.all.iter().filter(|one| one.what.is_about_nodes());
        let mut by: Vec<AcceptedNodes> = of_nodes
            .filter(|_| verdict.knows_what_is_missing())
            .map(|what| AcceptedNodes { what: *what, nodes: Vec::new(), limit: limit(what, situation) })
            .collect();
        if by.is_empty() && self.invalid.is_none() {
            return None;
        }
        // Reason codes are more specific than faults, so they are used first, to leave a limit on faults for other nodes.
        let mut order: Vec<usize> = (0..by.len()).collect();
        order.sort_by_key(|position| matches!(by[*position].what.what, Accept::Fault(_)));
        let (mut not_accepted, mut at_fault): (Vec<String>, _) = (Vec::new(), Vec::new());
        let missing = || situation.nodes.iter().filter(|node| node.is_missing());
        for node in situation.nodes.iter().filter(|node| node.is_missing() || is_excluded_by_its_state(node)) {
            let accepts = |one: &AcceptedNodes| is_accepted(situation, one.what, node, faults.of(node.name));
            let has_room = |one: &AcceptedNodes| one.limit.is_none_or(|limit| one.nodes.len() < limit);
            let find = |is: &dyn Fn(&AcceptedNodes) -> bool| order.iter().copied().find(|position| is(&by[*position]));
            match find(&|one| accepts(one) && has_room(one)).or_else(|| find(&accepts)) {
                Some(position) => by[position].nodes.push(node.name.to_owned()),
                // Without a limit, nodes that need no pod do not matter, unless the revision may have taken them down.
                None if !node.is_missing() && !may_be_taken_down(situation, node) => {}
                None => {
                    not_accepted.push(node.name.to_owned());
                    at_fault.extend(faults.of(node.name).map(|_| node));
                }
            }
        }
        let too_many: Vec<String> =
            by.iter().filter(|one| one.exceeds()).flat_map(|one| one.nodes.iter().cloned()).collect();
        let may_still_start =
            too_many.is_empty() && !at_fault.is_empty() && at_fault.iter().all(|node| may_still_start(situation, node));
        not_accepted.extend(too_many);
        let is_nowhere = || situation.nodes.iter().all(|node| node.updated.is_none() && node.terminating.is_empty());
        let is_on_purpose = |one: &AcceptedNodes| one.what.what == Accept::OnDelete && !one.nodes.is_empty();
        let runs_somewhere = situation.eligible().any(|node| node.updated_is_available)
            // It was deliberately not rolled out.
            || is_nowhere() && by.iter().any(is_on_purpose)
            // No node should run it, and there is none that it may have taken down.
            || missing().next().is_none() && !situation.nodes.iter().any(is_excluded_by_its_state);
        let (by_annotation, invalid) = (self.by_annotation, self.invalid.clone());
        // Pods that run another template are not missing, and nobody has accepted them.
        let complete = verdict.knows_what_is_missing()
            && not_accepted.is_empty()
            && runs_somewhere
            && situation.counted_by_generation().is_empty();
        Some(Accepted { by_annotation, invalid, by, not_accepted, may_still_start, complete })
    }
}

/// Returns whether a pod may just be slow to start.
fn may_still_start(situation: &Situation<'_>, node: &RolloutNode<'_>) -> bool {
    let is_starting = |pod: &Pod| {
        let is_young = situation.is_recent(pod.metadata.creation_timestamp.get(), PROGRESS_DEADLINE);
        is_young && !pod.spec.node_name.is_empty() && pod.restarts() == 0
    };
    node.diagnosis.as_ref().is_some_and(|diagnosis| diagnosis.passing == Passing::AtStart)
        && node.failed.is_empty()
        // Under OnDelete, one of an older revision may start, too.
        && node.updated.or(node.old).is_some_and(is_starting)
}

/// Returns the time by the faster clock, the server's or this machine's: a slow clock must not make pods appear young.
fn latest_time(situation: &Situation<'_>) -> Timestamp {
    let behind = situation.index.snapshot.clock_difference.min(SignedDuration::ZERO);
    situation.now().checked_sub(behind).unwrap_or(Timestamp::MAX)
}

/// Returns the last of several with the same name, which overrides the others.
fn last_of_each(all: Vec<Acceptance>) -> Vec<Acceptance> {
    let is_last = |(number, one): &(usize, &Acceptance)| all[number + 1..].iter().all(|later| later.what != one.what);
    all.iter().enumerate().filter(is_last).map(|(_, one)| *one).collect()
}

fn limit(one: &Acceptance, situation: &Situation<'_>) -> Option<usize> {
    let Some(Limit::Nodes(limit)) = one.limit else { return None };
    let counts = |node: &&RolloutNode<'_>| node.eligible || is_excluded_by_its_state(node);
    let nodes = situation.nodes.iter().filter(counts).count();
    usize::try_from(limit.scaled_down(int(nodes))).ok()
}

fn is_accepted(situation: &Situation<'_>, one: Acceptance, node: &RolloutNode<'_>, fault: Option<Fault>) -> bool {
    match one.what {
        Accept::FewerNodes | Accept::Nothing => false,
        Accept::Fault(accepted) => fault == Some(accepted),
        Accept::Code(code) => {
            fault.is_some_and(|fault| fault != Fault::Revision)
                && !may_be_taken_down(situation, node)
                && node.code() == Some(code)
                && !node.updated_is_available
        }
        Accept::OnDelete => {
            let daemon_set = situation.daemon_set;
            let is_on_purpose =
                daemon_set.spec.update_strategy == UpdateStrategy::OnDelete && Hold::of(daemon_set).is_none();
            let age = node.old.filter(|_| node.old_is_available && node.updated.is_none());
            let age = age.and_then(|old| old.metadata.creation_timestamp.get());
            let age = age.map(|created| seconds_between(created, latest_time(situation)));
            is_on_purpose
                && match one.limit {
                    Some(Limit::Age(limit)) => age.is_some_and(|age| age < limit),
                    _ => age.is_some(),
                }
        }
    }
}
