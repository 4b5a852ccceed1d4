//! What the client does next in a stage.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::unseen::unlisted;
use super::{Stage, StageGates, allowed, is_skipped, kept, outage};
use crate::coverage::options::{Detail, Options};
use crate::coverage::walk::daemon_set_coverage;
use crate::facts::Facts;
use crate::facts::index::Index;
use crate::facts::node_removal::is_leaving;
use crate::model::daemon_set::{DaemonSet, UpdateStrategy};
use crate::model::hold::{Hold, RUN_ANNOTATION, StageFlags};
use crate::model::int_or_percent::{IntOrPercent, int};
use crate::model::pod::Pod;
use crate::model::snapshot::Snapshot;
use crate::plan::PodRef;
use crate::report::coverage::Counts;
use crate::report::partition::{Gate, GateFailure, SKIP_LABEL};
use crate::report::reason::{Passing, ReasonCode};
use crate::report::{count_and, named};
use crate::rollout::situation::fault::was_broken;
use crate::rollout::situation::{RolloutNode, Situation};
use crate::scheduling::daemon_pods::available_since;

/// For how long a new pod may be in a state that does not pass by itself: some do pass within seconds, such as a port that
/// the old pod has just used.
const GRACE: SignedDuration = SignedDuration::from_secs(10);

/// For how many seconds the containers of a new pod may be starting.
const MOST_TO_START: i64 = 600;

/// For how many seconds a new pod may be in a state that each goes through, such as not being ready.
const MOST_TO_SETTLE: i64 = 60;

/// After what time without a renewal of the lease of its node a kubelet does not run: it renews it every 10 seconds by default (a quarter
/// of 40, `nodeLeaseRenewIntervalFraction`, pkg/kubelet/kubelet.go, release 1.37.2), and the API server notes whole seconds.
const RENEWAL: SignedDuration = SignedDuration::from_secs(12);

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Instruction {
    /// Delete the pod of an older revision on this node.
    Replace { node: String, pod: PodRef },
    /// Run the command of `--verify` for the new pod on this node.
    Verify { node: String, pod: String, uid: String },
    /// Wait until something changes, or for time to pass.
    Wait(Waiting),
    /// Stop: these gates do not hold.
    Stop(Vec<GateFailure>),
    /// Stop: the DaemonSet is no longer held by this client.
    Lost(Loss),
    /// The stage is complete. These gates do not hold although a rollback finds no pod left to replace.
    Done(Vec<GateFailure>),
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// The controller has not observed the DaemonSet.
    Controller,
    /// The cluster can be read: what is known may be out of date.
    Server,
    /// New pods are not available on these nodes.
    Pods(Vec<String>),
    /// As many nodes as allowed have no available pod: these.
    Budget { nodes: Vec<String>, allowed: usize },
    /// New pods have not been available for long enough; until then.
    Soak(Timestamp),
    /// A pod on this node matches the selector, and nobody owns it.
    Adoption { node: String, pod: String },
    /// A pod of an older revision is on this node, which is not in the list of nodes: it was deleted, or the list lacks it.
    Node(String),
    /// None of the nodes of the stage was updated, because these are not ready.
    NotReady(Vec<String>),
}

impl Waiting {
    /// Says what is waited for; `None` if what happens is said anyway.
    pub(crate) fn describe(&self, now: Timestamp) -> Option<String> {
        match self {
            Waiting::Controller => Some("waiting for the controller".to_owned()),
            Waiting::Server | Waiting::Pods(_) => None,
            Waiting::Budget { nodes, allowed } => Some(format!("waiting: {}", used_up(nodes, *allowed))),
            Waiting::Adoption { node, pod } => {
                Some(format!("waiting: {node} has pod {pod}, which the controller has not adopted"))
            }
            Waiting::Node(node) => {
                Some(format!("waiting: {node} has a pod of an older revision, and is not in the list of nodes"))
            }
            Waiting::NotReady(nodes) => {
                Some(format!("waiting: no node of the stage was updated: {} not ready", are(nodes)))
            }
            Waiting::Soak(end) => {
                let end_text = end.strftime("%H:%M:%S UTC");
                (*end > now).then(|| format!("all new pods are available; waiting until {end_text}"))
            }
        }
    }
}

/// Why the DaemonSet is no longer held by this client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// It was deleted.
    Deleted,
    /// It was deleted and created again.
    Recreated,
    /// The update strategy was put back.
    StrategyPutBack,
    /// The update strategy was put back, and the template is another one, such as the one from before.
    AllChanged,
    /// Another client has taken over, or the rollout was paused.
    TakenOver,
    /// Annotations of the hold were removed, and the update strategy is still suspended.
    AnnotationsRemoved {
        /// Whether the rest makes it a pause.
        is_held: bool,
    },
    /// The template was changed.
    TemplateChanged,
    /// Nodes, pods or revisions can no longer be read.
    Unknown,
}

/// What to do next, and how far the stage is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Look {
    pub(crate) step: Instruction,
    pub(crate) counts: StageCounts,
    /// How the status shows that the list of pods is out of date.
    pub(crate) unlisted: Option<String>,
}

/// How far a stage is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StageCounts {
    /// The nodes that have a pod of the revision.
    pub(crate) updated: Vec<String>,
    /// On how many of them it is available.
    pub(crate) available: usize,
    /// On how many of them it is ready: what a watch has missed becomes available only in a while.
    pub(crate) ready: usize,
    /// How many nodes have a pod of an older revision.
    pub(crate) old: usize,
    /// Those of them that are ready or skipped: until they are updated, the update strategy stays suspended.
    pub(crate) held: usize,
    /// The nodes with a pod of an older revision that are skipped.
    pub(crate) skipped: Vec<String>,
    /// The nodes of the stage that are no longer eligible, or were deleted.
    pub(crate) gone: Vec<String>,
    /// Those of them that have a pod of an older revision.
    pub(crate) excluded: Vec<String>,
    /// The nodes whose new pod is not available yet.
    pub(crate) in_flight: Vec<String>,
    /// The nodes whose pod this client has deleted, and that have got one of an older revision.
    pub(crate) returned: Vec<String>,
    /// How many nodes should have a pod.
    pub(crate) eligible: i64,
    /// How many of them have no ready pod, as the controller counts them.
    pub(crate) unready: i64,
}

/// Decides what to do next in a stage, at the time of the snapshot.
pub(crate) fn next_instruction(snapshot: &Snapshot, stage: &Stage) -> Look {
    let lost = |loss| Look { step: Instruction::Lost(loss), counts: StageCounts::default(), unlisted: None };
    let Some(daemon_set) = snapshot.daemon_sets.first() else { return lost(Loss::Deleted) };
    if let Some(loss) = loss(daemon_set, stage) {
        return lost(loss);
    }
    let index = Index::new(snapshot);
    let situation = Situation::new(&index, daemon_set);
    let view = StageView { situation: &situation, stage };
    let step = match situation.current.known() {
        // The revision and the status that goes with it are watched separately.
        _ if !daemon_set.is_observed() || situation.awaits_revision() => match is_late(stage, snapshot.now) {
            true => Instruction::Stop(vec![late("the controller has not observed the DaemonSet", stage)]),
            false => Instruction::Wait(Waiting::Controller),
        },
        Some(current) if current.hash() != stage.hash => Instruction::Lost(Loss::TemplateChanged),
        Some(_) if situation.is_known => view.next(),
        _ => Instruction::Lost(Loss::Unknown),
    };
    Look { step, counts: view.counts(), unlisted: unlisted(&situation) }
}

/// Returns the nodes of gates that do not hold on which all other pods failed before the rollout, too; the snapshot has all their pods.
pub(crate) fn broken_nodes(snapshot: &Snapshot, failures: &[GateFailure]) -> BTreeSet<String> {
    let Some(daemon_set) = snapshot.daemon_sets.first() else { return BTreeSet::new() };
    let index = Index::new(snapshot);
    let situation = Situation::new(&index, daemon_set);
    let of_pods = failures.iter().filter(|failure| failure.gate != Gate::NodeReady);
    let nodes = of_pods.filter_map(|failure| situation.node(failure.node.as_ref()?));
    nodes.filter(|node| was_broken(&situation, node)).map(|node| node.name.to_owned()).collect()
}

/// Returns the nodes of gates that do not hold that had gone down before their pod was deleted, by this client or an earlier one:
/// `renewed` is when their kubelets last renewed the leases of the nodes.
pub(crate) fn down_before(
    snapshot: &Snapshot,
    stage: &Stage,
    failures: &[GateFailure],
    renewed: &BTreeMap<String, Timestamp>,
) -> BTreeSet<String> {
    let Some(daemon_set) = snapshot.daemon_sets.first() else { return BTreeSet::new() };
    let index = Index::new(snapshot);
    let situation = Situation::new(&index, daemon_set);
    let of_nodes = failures.iter().filter(|failure| failure.gate == Gate::NodeReady);
    let was_down = |name: &&String| {
        let terminating = situation.node(name).into_iter().flat_map(|node| &node.terminating);
        let deleted =
            terminating.filter_map(|pod| pod.metadata.deleted_at()).chain(stage.replaced_at.get(*name).copied());
        let times = deleted.min().zip(renewed.get(*name));
        times.is_some_and(|(deleted, renewed)| deleted.duration_since(*renewed) > RENEWAL)
    };
    of_nodes.filter_map(|failure| failure.node.as_ref()).filter(was_down).cloned().collect()
}

/// Returns whether all nodes of a stage that another run has left have passed its gates; `false` if that is not in the cluster.
pub(super) fn gates_hold(situation: &Situation<'_>, keep: IntOrPercent, flags: &StageFlags) -> bool {
    next_of_other_run(situation, keep, flags) == Some(Instruction::Done(Vec::new()))
}

/// Returns the failures at which another run stops; empty if its gates hold, or if the cluster does not tell.
pub(super) fn gates_failures(situation: &Situation<'_>, keep: IntOrPercent, flags: &StageFlags) -> Vec<GateFailure> {
    match next_of_other_run(situation, keep, flags) {
        Some(Instruction::Stop(failures)) => failures,
        _ => Vec::new(),
    }
}

/// Returns what another run does next, without what only it remembers.
fn next_of_other_run(situation: &Situation<'_>, keep: IntOrPercent, flags: &StageFlags) -> Option<Instruction> {
    situation.current_hash()?;
    let max_unavailable = flags.max_unavailable.unwrap_or(IntOrPercent::Int(1));
    let stage = Stage::new(situation, keep, max_unavailable, StageGates::of(flags));
    situation.is_known.then(|| StageView { situation, stage: &stage }.next())
}

/// Returns why a DaemonSet is no longer held by the client of a stage.
pub(crate) fn loss(daemon_set: &DaemonSet, stage: &Stage) -> Option<Loss> {
    let run = daemon_set.annotations.get(RUN_ANNOTATION);
    let has_template = daemon_set.template().same_meaning(&stage.template);
    let put_back = if has_template { Loss::StrategyPutBack } else { Loss::AllChanged };
    match Hold::of(daemon_set) {
        _ if daemon_set.metadata.uid != stage.uid => Some(Loss::Recreated),
        _ if daemon_set.metadata.is_terminating() => Some(Loss::Deleted),
        Some(hold) if !hold.is_in_force => Some(put_back),
        Some(hold) if run == Some(&stage.run) && hold.partition == Some(stage.keep) => {
            (!has_template).then_some(Loss::TemplateChanged)
        }
        // `pause` removes that of the run only.
        Some(hold) if run == Some(&stage.run) && hold.partition.is_none() => {
            Some(Loss::AnnotationsRemoved { is_held: true })
        }
        Some(_) => Some(Loss::TakenOver),
        None if daemon_set.spec.update_strategy == UpdateStrategy::OnDelete => {
            Some(Loss::AnnotationsRemoved { is_held: false })
        }
        None => Some(put_back),
    }
}

/// How far a rollout is that was finished without the client of a stage.
pub(crate) struct Finished {
    /// How many eligible nodes have a pod of the template.
    pub(crate) updated: usize,
    /// How many nodes are eligible.
    pub(crate) desired: usize,
}

/// Returns how far a rollout is that was finished without this client: no hold is left, and no ready node has a pod of another
/// revision than that of the stage.
pub(crate) fn finished(situation: &Situation<'_>, stage: &Stage) -> Option<Finished> {
    let daemon_set = situation.daemon_set;
    let is_same = daemon_set.metadata.uid == stage.uid && daemon_set.template().same_meaning(&stage.template);
    let is_left = |node: &RolloutNode<'_>| node.is_ready() && node.old.is_some();
    if !is_same || !situation.is_known || Hold::of(daemon_set).is_some() || situation.eligible().any(is_left) {
        return None;
    }
    let updated = situation.eligible().filter(|node| node.updated.is_some()).count();
    (updated > 0).then(|| Finished { updated, desired: situation.eligible().count() })
}

/// A stage in a situation.
struct StageView<'v, 'a> {
    situation: &'v Situation<'a>,
    stage: &'v Stage,
}

impl<'v, 'a> StageView<'v, 'a> {
    /// Returns whether a node has a pod of an older revision that is not being deleted.
    fn is_old(&self, node: &RolloutNode<'_>) -> bool {
        node.old.is_some_and(|old| !self.stage.deleted.contains(&old.metadata.uid))
    }

    /// Returns whether a node does not count: its outage is older than the stage.
    fn is_excused(&self, node: &RolloutNode<'_>) -> bool {
        let is_excused = |outage| self.stage.excused.contains(&outage);
        self.is_lost(node) || self.is_broken(node) || (self.is_old(node) && outage(node).is_some_and(is_excused))
    }

    /// Returns whether a node has a new pod that fails like all others did there before, or that its label excludes from the gates.
    fn is_broken(&self, node: &RolloutNode<'_>) -> bool {
        let is_out = self.stage.broken.contains(node.name) || is_skipped(node);
        is_out && node.updated.is_some() && !node.updated_is_available
    }

    /// Returns whether a node had gone down before this client deleted its pod, and still is down.
    fn is_down(&self, node: &RolloutNode<'_>) -> bool {
        self.stage.down.contains(node.name) && !node.is_ready()
    }

    /// Returns whether a node was lost before a stage that goes back, and still is.
    fn is_lost(&self, node: &RolloutNode<'_>) -> bool {
        self.stage.lost.contains(node.name) && !node.is_ready()
    }

    fn is_available(&self, node: &RolloutNode<'_>) -> bool {
        node.updated_is_available || (node.old_is_available && self.is_old(node))
    }

    /// Returns whether a node has neither an old pod nor a new one that is available.
    fn is_in_flight(&self, node: &RolloutNode<'_>) -> bool {
        !self.is_old(node) && !node.updated_is_available
    }

    fn counts(&self) -> StageCounts {
        let count = |is: &dyn Fn(&RolloutNode<'_>) -> bool| self.situation.eligible().filter(|node| is(node)).count();
        let in_flight = self.situation.eligible().filter(|node| self.is_in_flight(node));
        let is_returned = |node: &RolloutNode<'_>| self.is_old(node) && self.stage.replaced_at.contains_key(node.name);
        let returned = self.situation.eligible().filter(|node| is_returned(node));
        let is_skipped = |node: &RolloutNode<'_>| self.is_old(node) && is_skipped(node);
        let skipped = self.situation.eligible().filter(|node| is_skipped(node));
        let updated = self.situation.eligible().filter(|node| node.updated.is_some());
        let excluded = self.gone().filter_map(|name| self.situation.node(name));
        let excluded = excluded.filter(|node| node.object.is_some() && self.is_old(node));
        // A pod that this client has deleted may not be seen to end yet.
        let ending = |node: &RolloutNode<'_>| !self.is_old(node) && node.old.is_some_and(Pod::is_ready);
        let Counts { eligible, ready, .. } = self.situation.coverage.counts;
        StageCounts {
            eligible: int(eligible.unwrap_or(0)),
            unready: int(eligible.unwrap_or(0).saturating_sub(ready.unwrap_or(0)) + count(&ending)),
            updated: updated.map(|node| node.name.to_owned()).collect(),
            available: count(&|node| node.updated_is_available),
            ready: count(&|node| node.updated.is_some_and(Pod::is_ready)),
            old: count(&|node| self.is_old(node)),
            held: count(&|node| self.is_old(node) && (node.is_ready() || is_skipped(node))),
            skipped: skipped.map(|node| node.name.to_owned()).collect(),
            gone: self.gone().cloned().collect(),
            excluded: excluded.map(|node| node.name.to_owned()).collect(),
            in_flight: in_flight.map(|node| node.name.to_owned()).collect(),
            returned: returned.map(|node| node.name.to_owned()).collect(),
        }
    }

    /// Returns whether a rollback finds no pod to replace: its gates guard nothing then, and would keep the strategy suspended for
    /// ever. What an earlier run has replaced may still fail.
    fn has_nothing_to_roll_back(&self, desired: usize) -> bool {
        let goes_back = self.stage.old_unready.is_none() && !self.stage.run.is_empty();
        goes_back
            && self.stage.deleted.is_empty()
            && kept(self.stage.keep, desired) == 0
            && !self.situation.eligible().any(|node| node.old.is_some())
    }

    fn next(&self) -> Instruction {
        let desired = self.situation.eligible().count();
        match self.next_by_gates(desired) {
            Instruction::Stop(failures) if self.has_nothing_to_roll_back(desired) => Instruction::Done(failures),
            step => step,
        }
    }

    fn next_by_gates(&self, desired: usize) -> Instruction {
        let (stage, now) = (self.stage, self.situation.now());
        let judged = self.situation.nodes.iter().filter(|node| node.eligible || self.is_excluded_since(node));
        let mut failures: Vec<GateFailure> = judged.filter_map(|node| self.failure(node)).collect();
        let allowed = allowed(stage.max_unavailable, desired);
        if failures.is_empty() {
            failures.extend(self.nothing_shown(desired).or_else(|| self.old_pods(allowed)));
        }
        if !failures.is_empty() {
            return Instruction::Stop(failures);
        }
        let unverified = |node: &&RolloutNode<'_>| {
            node.updated_is_available
                && node.updated.is_some_and(|pod| !stage.verified.contains(&pod.metadata.uid))
                && node.is_ready()
        };
        if let Some((node, pod)) = self
            .situation
            .eligible()
            .filter(|_| stage.gates.verifies)
            .find(unverified)
            .and_then(|node| Some((node, node.updated?)))
        {
            let (pod, uid) = (pod.metadata.name.clone(), pod.metadata.uid.clone());
            return Instruction::Verify { node: node.name.to_owned(), pod, uid };
        }
        let unavailable: Vec<&RolloutNode<'_>> =
            self.situation.eligible().filter(|node| !self.is_available(node) && !self.is_excused(node)).collect();
        let is_in_flight = |node: &&RolloutNode<'_>| {
            self.is_in_flight(node) && !self.is_lost(node) && !self.is_broken(node) && !self.is_down(node)
        };
        let in_flight = self.situation.eligible().filter(is_in_flight).count();
        let old = self.situation.eligible().filter(|node| self.is_old(node));
        let is_gone = |name: &&String| self.situation.node(name).is_none_or(|node| !node.eligible);
        // A percentage follows the number of nodes by itself.
        let is_number = matches!(stage.keep, IntOrPercent::Int(_));
        let gone = stage.stay.iter().filter(|_| is_number).filter(is_gone).count();
        let quota = old.count().saturating_sub(kept(stage.keep, desired).saturating_sub(gone));
        let of_stage = || stage.nodes.iter().chain(&stage.others);
        let waiting: Vec<&RolloutNode<'_>> =
            of_stage().filter_map(|name| self.candidate(name)).filter(|_| quota > 0).collect();
        // An unavailable pod is replaced at no cost, but not all of them at once: they may have something in common.
        let may_replace = |node: &&&RolloutNode<'_>| match node.old_is_available {
            true => unavailable.len() < allowed,
            false => in_flight < allowed,
        };
        if let Some((node, old)) = waiting.iter().find(may_replace).and_then(|node| Some((node, node.old?))) {
            return Instruction::Replace { node: node.name.to_owned(), pod: PodRef::of(old) };
        }
        // With two pods on a node, the controller is about to delete one.
        let is_pair = |node: &RolloutNode<'_>| {
            quota > 0 && self.is_old(node) && node.updated.is_some() && of_stage().any(|name| name == node.name)
        };
        let starting = self.situation.eligible().filter(|node| self.is_in_flight(node) || is_pair(node));
        // A node that was not ready before its pod was deleted is not waited for, unless that was done by this client.
        let is_awaited = |node: &&RolloutNode<'_>| {
            (node.is_ready() || stage.replaced_at.contains_key(node.name))
                && !self.is_broken(node)
                && !self.is_down(node)
        };
        let starting: Vec<&RolloutNode<'_>> = starting.filter(is_awaited).collect();
        if !waiting.is_empty() || !starting.is_empty() {
            let names =
                |nodes: &[&RolloutNode<'_>]| nodes.iter().map(|node| node.name.to_owned()).collect::<Vec<String>>();
            // A pod makes no progress while it is ready and not available yet.
            let waits = now.duration_since(stage.last_progress).saturating_sub(self.min_ready());
            return match (waits >= stage.gates.progress_deadline, starting.first()) {
                (true, Some(node)) => Instruction::Stop(vec![self.late(node)]),
                (true, None) => Instruction::Stop(vec![self.late_after(&used_up(&names(&unavailable), allowed))]),
                (false, Some(_)) => Instruction::Wait(Waiting::Pods(names(&starting))),
                (false, None) => Instruction::Wait(Waiting::Budget { nodes: names(&unavailable), allowed }),
            };
        }
        let soaked = self.situation.eligible().filter_map(|node| self.available_since(node)).max();
        match soaked
            .map(|since| stage.soaks_from.map_or(since, |from| from.max(since)))
            .and_then(|since| since.checked_add(stage.gates.soak).ok())
            .filter(|end| *end > now)
        {
            Some(end) => Instruction::Wait(Waiting::Soak(end)),
            None => match self.not_adopted(of_stage().filter(|_| quota > 0)).or_else(|| self.left_to_wait_for(desired))
            {
                None => Instruction::Done(Vec::new()),
                Some(waiting) if now.duration_since(stage.last_progress) < stage.gates.progress_deadline => {
                    Instruction::Wait(waiting)
                }
                Some(waiting) => Instruction::Stop(vec![self.late_after(&waiting.describe(now).unwrap_or_default())]),
            },
        }
    }

    /// Returns a pod of a node that would be replaced if the controller had adopted it.
    fn not_adopted<'n>(&self, nodes: impl Iterator<Item = &'n String>) -> Option<Waiting> {
        let node = nodes.filter_map(|name| self.to_update(name)).find(|node| !self.is_owned(node))?;
        Some(Waiting::Adoption { node: node.name.to_owned(), pod: node.old?.metadata.name.clone() })
    }

    /// Returns what is left to wait for although no pod can be replaced now.
    fn left_to_wait_for(&self, desired: usize) -> Option<Waiting> {
        let down =
            |node: &&RolloutNode<'_>| node.eligible && self.is_old(node) && !node.is_ready() && !is_skipped(node);
        let of_stage = || self.stage.nodes.iter().filter_map(|name| self.situation.node(name));
        let nodes: Vec<String> = of_stage().filter(down).map(|node| node.name.to_owned()).collect();
        let is_shown = of_stage().any(|node| node.updated.is_some()) || !self.must_show_itself(desired);
        let goes_back = self.stage.old_unready.is_none();
        match nodes.is_empty() || is_shown || goes_back {
            true => Some(Waiting::Node(self.unlisted_node()?.to_owned())),
            false => Some(Waiting::NotReady(nodes)),
        }
    }

    /// Returns whether only the nodes of the stage can show that the revision works: others do not stand for nodes that were chosen, unless
    /// all are to be updated.
    fn must_show_itself(&self, desired: usize) -> bool {
        let Stage { keep, is_chosen, .. } = self.stage;
        (*is_chosen && kept(*keep, desired) > 0) || !self.situation.eligible().any(|node| node.updated.is_some())
    }

    /// Returns a node that is not in the list, and has a pod of an older revision. Of a node that was deleted, the pods are deleted soon
    /// (pkg/controller/podgc/gc_controller.go, release 1.37.2); of others that a list lacks, they are not.
    fn unlisted_node(&self) -> Option<&'v str> {
        let Facts { index, daemon_set, .. } = **self.situation;
        let is_left = |pod: &Pod| !pod.metadata.is_terminating() && !pod.is_terminal();
        let mut pods = index.pods_of(daemon_set).filter(|(_, pod)| is_left(pod));
        pods.find(|(node, pod)| index.node(node).is_none() && self.situation.is_updated(pod) == Some(false))
            .map(|(node, _)| node)
    }

    /// Returns the nodes of the stage that are no longer eligible, or were deleted.
    fn gone(&self) -> impl Iterator<Item = &'v String> {
        self.stage.nodes.iter().filter(|name| self.situation.node(name).is_none_or(|node| !node.eligible))
    }

    /// Stops if no node of the stage is left, so that it has shown nothing about the revision.
    fn nothing_shown(&self, desired: usize) -> Option<GateFailure> {
        let nodes = &self.stage.nodes;
        let is_out = |node: &RolloutNode<'_>| is_skipped(node) && self.is_old(node);
        let (gone, left): (Vec<String>, Vec<String>) =
            nodes.iter().cloned().partition(|name| self.gone().any(|gone| gone == name));
        let is_none_left = left.iter().all(|name| self.situation.node(name).is_some_and(is_out));
        let gone = (!gone.is_empty()).then(|| format!("{} no longer eligible, or deleted", are(&gone)));
        let skipped = (!left.is_empty()).then(|| format!("{} skipped because of the label {SKIP_LABEL}", are(&left)));
        let why: Vec<String> = gone.into_iter().chain(skipped).collect();
        (!why.is_empty() && is_none_left && self.must_show_itself(desired))
            .then(|| GateFailure::new(Gate::Starts, format!("no node of the stage is left: {}", why.join("; "))))
    }

    fn min_ready(&self) -> SignedDuration {
        SignedDuration::from_secs(self.situation.daemon_set.spec.min_ready_seconds)
    }

    /// Returns a node of the stage that can be updated now.
    fn candidate(&self, name: &str) -> Option<&'v RolloutNode<'a>> {
        self.to_update(name).filter(|node| self.is_owned(node))
    }

    /// Returns a node of the stage that is to be updated, and is ready for it.
    fn to_update(&self, name: &str) -> Option<&'v RolloutNode<'a>> {
        let node = self.situation.node(name)?;
        let is_whole = node.updated.is_none() && node.eligible && self.is_old(node);
        // The label may be newer than the plan.
        (is_whole && !is_skipped(node) && node.is_ready()).then_some(node)
    }

    /// Returns whether the old pod of a node is the DaemonSet's own: one that only matches its selector is its own once the controller has
    /// adopted it, and until then may be left alone.
    fn is_owned(&self, node: &RolloutNode<'_>) -> bool {
        let owner = node.old.and_then(|pod| pod.metadata.controller());
        owner.is_some_and(|owner| owner.uid == self.situation.daemon_set.metadata.uid)
    }

    fn available_since(&self, node: &RolloutNode<'_>) -> Option<Timestamp> {
        let pod = node.updated.filter(|_| node.updated_is_available)?;
        available_since(pod, self.situation.daemon_set.spec.min_ready_seconds)
    }

    /// Returns the gate that an updated node fails.
    fn failure(&self, node: &RolloutNode<'_>) -> Option<GateFailure> {
        // What coverage says about a node is about its old pod, even if that was deleted a moment ago.
        if self.is_old(node)
            || (node.old.is_some() && node.updated.is_none())
            || self.is_lost(node)
            || self.is_down(node)
        {
            return None;
        }
        if node.updated.is_some_and(|pod| self.stage.spared.contains(&pod.metadata.uid)) {
            return None;
        }
        let gates = &self.stage.gates;
        let failure = |gate, message: String| on_node(node, GateFailure::new(gate, message));
        if let Some(seconds) = self.lost_after_update(node).filter(|_| !is_skipped(node)) {
            let what = if node.updated.is_some() { "replaced" } else { "deleted, and has no new one yet" };
            return Some(failure(
                Gate::NodeReady,
                format!("the node became NotReady {seconds}s after its pod was {what}"),
            ));
        }
        if !node.is_ready() || self.is_broken(node) {
            return None;
        }
        let most = gates.max_restarts.map(i64::from);
        if let Some(pod) = node.updated.filter(|pod| most.is_some_and(|most| pod.restarts() > most)) {
            let restarts = pod.restarts();
            let times = if restarts == 1 { "once".to_owned() } else { format!("{restarts} times") };
            let message = self.message(node).map_or(String::new(), |message| format!(": {message}"));
            return Some(failure(Gate::Restarts, format!("restarted {times}{message}")));
        }
        let is_young = node.since.is_some_and(|since| self.situation.now().duration_since(since) < GRACE);
        // A pod that takes its time to end is not the fault of the new one, be it the old one or another that has to leave.
        let is_ending = node.code() == Some(ReasonCode::StuckTerminating)
            || node.diagnosis.as_ref().is_some_and(|diagnosis| diagnosis.waits_for_leaving);
        // The controller may not have noticed yet that the old pod is gone; the progress deadline limits that.
        let is_awaited = node.updated.is_none() && node.code() == Some(ReasonCode::Unexplained);
        if node.updated_is_available || is_ending || is_awaited || self.may_start(node) || is_young {
            return None;
        }
        Some(failure(Gate::Starts, self.message(node)?))
    }

    /// Returns whether a new pod that is not available may still become so.
    ///
    /// What passes by itself, if only nobody can tell when, is waited for until the progress deadline. How long the rest may take is the
    /// policy of a gate, and not what a screen calls passing: a change of the one does not stop or continue a stage because of the
    /// other. A reason that is not listed stops it.
    fn may_start(&self, node: &RolloutNode<'_>) -> bool {
        use ReasonCode as R;
        let is_within = |seconds| self.situation.is_recent(node.since, seconds);
        match node.code() {
            _ if node.keeps_failing => false,
            _ if node.diagnosis.as_ref().is_some_and(|it| it.passing == Passing::Always) => true,
            Some(R::ContainersStarting | R::WaitingForPreemption) => node.since.is_none() || is_within(MOST_TO_START),
            Some(
                R::ReadinessFailing
                | R::ReadinessGate
                | R::InitBlocked
                | R::SchedulerSilent
                | R::DeviceClaimUnsatisfied
                | R::Unexplained,
            ) => is_within(MOST_TO_SETTLE),
            Some(_) => false,
            None => true,
        }
    }

    /// Returns whether a node is not eligible because it has become not ready soon after its update: its taint, which most pods do
    /// not tolerate, must not hide that.
    fn is_excluded_since(&self, node: &RolloutNode<'_>) -> bool {
        !node.eligible && node.is_of_node() && self.lost_after_update(node).is_some()
    }

    /// Returns how many seconds after its update a node has become not ready; `None` if it is ready, or if that was so late
    /// that the update is not to blame.
    fn lost_after_update(&self, node: &RolloutNode<'_>) -> Option<i64> {
        let object = node.object?;
        let changed = object.not_ready()?.last_transition_time.get()?;
        if is_leaving(object, changed) {
            return None;
        }
        // A node that has just joined is not ready yet.
        let joined = object.metadata.creation_timestamp.get();
        let has_been_ready = joined.is_none_or(|joined| changed.duration_since(joined) > GRACE);
        // What ends with the old pod may take the node with it, so that it never gets a new one.
        let deleted = node.terminating.iter().filter_map(|pod| pod.metadata.deleted_at());
        let created = node.updated.and_then(|pod| pod.metadata.creation_timestamp.get());
        // The first pod of a node that joined before the rollout replaces none.
        let began = Hold::of(self.situation.daemon_set).and_then(|hold| hold.since);
        let is_first = |at: Timestamp| {
            joined.is_some_and(|joined| at.duration_since(joined) <= GRACE) && began.is_some_and(|began| at < began)
        };
        let created = created.filter(|created| !is_first(*created));
        let replaced = self.stage.replaced_at.get(node.name).copied();
        let window = self.stage.gates.progress_deadline.saturating_add(self.stage.gates.soak).as_secs();
        let updates = deleted.chain(created).chain(replaced).map(|at| changed.duration_since(at).as_secs());
        // Another pod may have been terminating for long.
        updates.filter(|after| has_been_ready && (0..=window).contains(after)).max()
    }

    /// Stops if more pods of older revisions have become unready than may be unavailable: the new revision may be the cause.
    fn old_pods(&self, allowed: usize) -> Option<GateFailure> {
        let before = self.stage.old_unready.as_ref()?;
        let is_new = |node: &&RolloutNode<'_>| {
            let is_unready = self.is_old(node) && !node.old_is_available && node.is_ready();
            is_unready && !before.contains(node.name)
        };
        let nodes: Vec<String> = self.situation.eligible().filter(is_new).map(|node| node.name.to_owned()).collect();
        let message = || {
            let (pods, nodes) = (nodes.len(), named(&nodes));
            format!("{pods} pods of older revisions have become unavailable since the stage started: {nodes}")
        };
        (nodes.len() > allowed).then(|| GateFailure::new(Gate::OldPodsReady, message()))
    }

    /// Returns what coverage says about a node.
    fn message(&self, node: &RolloutNode<'_>) -> Option<String> {
        let one = Options { detail: Detail::Nodes, node: Some(node.name.to_owned()), ..Options::default() };
        let coverage = daemon_set_coverage(self.situation, &one);
        Some(coverage.nodes.first()?.reasons.first()?.message.clone())
    }

    fn late(&self, node: &RolloutNode<'_>) -> GateFailure {
        let terminating = || Some(format!("pod {} is still terminating", node.terminating.first()?.metadata.name));
        let message = self.message(node).or_else(terminating).unwrap_or_else(|| "no pod is available".to_owned());
        on_node(node, self.late_after(&message))
    }

    fn late_after(&self, message: &str) -> GateFailure {
        late_after(self.stage.gates.progress_deadline.saturating_add(self.min_ready()), message)
    }
}

/// Returns a failure with its node.
fn on_node(node: &RolloutNode<'_>, failure: GateFailure) -> GateFailure {
    let pod = node.updated.map(|pod| pod.metadata.name.clone());
    GateFailure { node: Some(node.name.to_owned()), pod, reason: node.code(), ..failure }
}

fn are(nodes: &[String]) -> String {
    format!("{} {}", named(nodes), if nodes.len() == 1 { "is" } else { "are" })
}

fn used_up(nodes: &[String], allowed: usize) -> String {
    let have = count_and(nodes.len(), "node", ["has", "have"]);
    format!("{have} no available pod (at most {allowed} allowed): {}", named(nodes))
}

pub(crate) fn is_late(stage: &Stage, now: Timestamp) -> bool {
    now.duration_since(stage.last_progress) >= stage.gates.progress_deadline
}

pub(crate) fn late(message: &str, stage: &Stage) -> GateFailure {
    late_after(stage.gates.progress_deadline, message)
}

fn late_after(deadline: SignedDuration, message: &str) -> GateFailure {
    let message = format!("no progress for {}s: {message}", deadline.as_secs());
    GateFailure::new(Gate::ProgressDeadline, message)
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::Waiting;

    #[test]
    fn what_is_waited_for_is_said_unless_it_is_said_anyway() {
        let now = Timestamp::from_second(1_000).unwrap();
        let soak = |seconds| Waiting::Soak(now + SignedDuration::from_secs(seconds));
        let nodes = || vec!["n1".to_owned(), "n2".to_owned()];
        for (waiting, is_said, names_nodes) in [
            (Waiting::Controller, true, false),
            (Waiting::Server, false, false),
            (Waiting::Pods(nodes()), false, false),
            (Waiting::Budget { nodes: nodes(), allowed: 2 }, true, true),
            (soak(1), true, false),
            (soak(0), false, false),
            (soak(-1), false, false),
        ] {
            let text = waiting.describe(now);
            assert_eq!(text.is_some(), is_said, "{waiting:?}");
            assert_eq!(text.is_some_and(|text| text.contains("n1 and n2")), names_nodes, "{waiting:?}");
        }
    }
}
