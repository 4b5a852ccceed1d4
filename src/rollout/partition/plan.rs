//! Plans a stage: how many nodes are updated, which, and what is written first.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::order::order;
use super::staging::{Staging, has_ended, newest_update, running};
use super::template::{NewTemplate, not_applied, template};
use super::{Outage, Stage, StageGates, allowed, is_skipped, kept, old_unready, outage, replaces_more};
use crate::coverage::PROGRESS_DEADLINE;
use crate::coverage::gaps::incomplete_for_update_strategy;
use crate::difference::object::changes;
use crate::facts::revisions::{NoTemplate, Revision, Revisions, name_of};
use crate::model::daemon_set::{DaemonSet, Flavor, RollingUpdate, UpdateStrategy};
use crate::model::hold::{Hold, RUN_ANNOTATION, StageFlags, StagedFlags, WAY_BACK, live_strategy};
use crate::model::int_or_percent::{IntOrPercent, int};
use crate::model::pod_disruption_budget::PodDisruptionBudget;
use crate::model::selector::LabelSelector;
use crate::model::template::Template;
use crate::plan::Plan;
use crate::report::age::{format_age, seconds_between};
use crate::report::history::DaemonSetName;
use crate::report::partition::{self as report, PartitionOutcome, PartitionReport, StageState, StagedRollout};
use crate::report::plan::{Warning, WarningCode};
use crate::rollout::change_warnings::{self, Written};
use crate::rollout::change_warnings::{holder, lost_original, who_puts_back};
use crate::rollout::effect::{SurgePods, nodes_gained_and_lost};
use crate::rollout::pace_warnings::{at_once, matching_budgets, surge_pods_deleted};
use crate::rollout::proposal::Proposal;
use crate::rollout::replacement_warnings::{Replacement, certain, replacement_warnings};
use crate::rollout::situation::{RolloutNode, Situation};

/// What is requested.
#[derive(Debug, Clone)]
pub(crate) struct StageRequest {
    /// How many pods stay on older revisions, unless there are several stages.
    pub(crate) amount: Amount,
    /// The stages, if there are several.
    pub(crate) staging: Option<Staging>,
    /// The template to roll out; that of the DaemonSet if there is none.
    pub(crate) template: NewTemplate,
    /// The only nodes that may be updated, in this order; all if empty.
    pub(crate) nodes: Vec<String>,
    /// Labels of the nodes that may be updated.
    pub(crate) node_selector: LabelSelector,
    /// The label by whose values nodes are spread.
    pub(crate) spread_by: Option<String>,
    /// How many nodes may become unavailable besides those that are already; `None` for the pace of the update strategy, which
    /// counts both.
    pub(crate) max_unavailable: Option<IntOrPercent>,
    /// What has to hold.
    pub(crate) gates: StageGates,
    /// The command of `--verify`.
    pub(crate) verify: Option<String>,
    /// Whether pods are evicted, so that PodDisruptionBudgets hold.
    pub(crate) evict: bool,
    /// Whether a gate that fails rolls the template and the updated nodes back.
    pub(crate) rolls_back: bool,
    /// Whether the newer pod of nodes with two may be deleted.
    pub(crate) delete_surge_pods: bool,
    /// Whether to replace pods although more of them would become unavailable, and stay so.
    pub(crate) force: bool,
    /// What names this client.
    pub(crate) run: String,
    /// What names the rollout, if it begins only at a generation.
    pub(crate) begun_as: Option<String>,
}

impl StageRequest {
    /// Returns a request without any other flag.
    pub(crate) fn new(amount: Amount, template: NewTemplate, run: String) -> Self {
        let gates = StageGates {
            max_restarts: Some(0),
            soak: SignedDuration::ZERO,
            progress_deadline: SignedDuration::from_secs(PROGRESS_DEADLINE),
            verifies: false,
        };
        StageRequest {
            amount,
            staging: None,
            template,
            nodes: Vec::new(),
            node_selector: LabelSelector::default(),
            spread_by: None,
            max_unavailable: None,
            gates,
            verify: None,
            evict: false,
            rolls_back: false,
            delete_surge_pods: false,
            force: false,
            run,
            begun_as: None,
        }
    }

    /// Returns the flags that a run needs that continues this one, whose stage has begun `now`.
    pub(crate) fn flags(&self, now: Timestamp) -> StageFlags {
        // Rounded up: no time is none.
        let seconds = |time: SignedDuration| time.as_secs() + i64::from(time.subsec_nanos() > 0);
        StageFlags {
            nodes: self.nodes.clone(),
            node_selector: self.node_selector.to_string(),
            spread_by: self.spread_by.clone(),
            max_unavailable: self.max_unavailable,
            max_restarts: self.gates.max_restarts.unwrap_or(0),
            is_undo: self.is_undo(),
            soak_seconds: seconds(self.gates.soak),
            progress_deadline_seconds: seconds(self.gates.progress_deadline),
            verifies: self.verify.is_some(),
            undoes_on_failure: self.rolls_back,
            evict: self.evict,
            staged: self.staging.as_ref().map(|staging| StagedFlags {
                stages: staging.stages.clone(),
                strata: staging.strata.clone(),
                began: now,
                stage_began: now,
            }),
            ..StageFlags::default()
        }
    }

    /// Returns the request to roll the template and the updated nodes back to a revision. Pods are replaced as in the stage
    /// that it takes back, and have as much time.
    pub(crate) fn roll_back(number: i64, run: String, daemon_set: &DaemonSet) -> Self {
        let hold = Hold::of(daemon_set).filter(|hold| hold.partition.is_some());
        let evict = hold.as_ref().is_some_and(|hold| hold.flags.as_ref().is_none_or(|flags| flags.evict));
        let mut request = StageRequest::new(Amount::Keep(IntOrPercent::Int(0)), NewTemplate::Revision(number), run);
        if let Some(flags) = hold.and_then(|hold| hold.flags) {
            request.gates.progress_deadline = SignedDuration::from_secs(flags.progress_deadline_seconds);
        }
        // Pods that were never replaced may have restarted long ago.
        request.gates.max_restarts = None;
        StageRequest { evict, ..request }
    }

    /// Returns the revision that a rollback returns to.
    pub(crate) fn undone_revision(&self) -> Option<i64> {
        match self.template {
            NewTemplate::Revision(number) if self.is_undo() => Some(number),
            _ => None,
        }
    }

    /// Returns the revision to go back to if a gate fails as a template is rolled out.
    pub(crate) fn back_to(&self, revisions: &Revisions<'_>, new: &Template) -> Option<i64> {
        match self.template {
            // A rollback is not taken back to what it was begun to leave.
            _ if self.is_undo() => None,
            NewTemplate::Live => revisions.proven_not_rolled_back().map(|(revision, _)| revision.number()),
            // A new template replaces the present one, which may be what fails, or what only the nodes of another stage have.
            _ => {
                let is_other = |it: &&Revision<'_>| it.template.as_ref().is_ok_and(|old| !old.same_meaning(new));
                let has_no_doubt = |current: &&Revision<'_>| revisions.doubt(current).is_none();
                let current = || revisions.current().filter(is_other).filter(has_no_doubt);
                let back_to = revisions.proven_besides(new).map(|(revision, _)| revision).or_else(current);
                back_to.map(Revision::number).filter(|number| self.template != NewTemplate::Revision(*number))
            }
        }
    }

    /// Returns whether it is a rollback, which only `undo` begins.
    pub(crate) fn is_undo(&self) -> bool {
        self.gates.max_restarts.is_none()
    }
}

/// How many pods are updated, as it was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Amount {
    /// This number or percentage stays on older revisions.
    Keep(IntOrPercent),
    /// This number or percentage is updated.
    Update(IntOrPercent),
}

/// Why a stage cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StageRefusal {
    /// Somebody else decides about the update strategy; who.
    HeldBy(String),
    /// Nodes have two pods, of which the controller would delete these, the newer ones.
    SurgePods(SurgePods),
    /// What has to be known cannot be read; sentences.
    Unknown(Vec<String>),
    /// The update strategy was put back although the DaemonSet is partitioned.
    StrategyPutBack,
    /// The revision with this number has no template.
    NoTemplate(i64, NoTemplate),
    /// The template has no such container.
    NoSuchContainer(String),
    /// The manifest is that of another DaemonSet.
    OtherManifest(DaemonSetName),
    /// The pods of the manifest's template would not match the selector, which cannot be changed.
    SelectorMismatch,
    /// The DaemonSet has no pod to replace on this node.
    NoSuchNode(String),
    /// Fewer nodes match than have to be updated.
    TooFewNodes {
        /// How many have to be updated.
        needed: usize,
        /// Those that can be.
        found: usize,
        /// Those that match, but are not ready.
        not_ready: Vec<String>,
        /// Those that match, but are skipped because of a label.
        skipped: Vec<String>,
    },
    /// As many nodes as allowed have no available pod, and get none in this stage, so that no available pod could be replaced.
    NoBudget {
        /// Those nodes.
        unavailable: Vec<String>,
        /// How many may be without an available pod.
        allowed: usize,
        /// The least `--max-unavailable` with which the stage can begin: outages of old pods from before the run are then not counted.
        enough: usize,
    },
    /// A canary would be most nodes.
    BroadCanary {
        /// How many nodes it would have.
        nodes: usize,
        /// How many there are.
        desired: usize,
        /// The stratum with the most values.
        stratum: String,
        /// How many it has.
        values: usize,
    },
    /// The API server evicts no pod that more than one PodDisruptionBudget matches; these do.
    SeveralBudgets(Vec<String>),
    /// The controller cannot compute how many pods a PodDisruptionBudget lets be evicted, so that none may.
    BudgetFails { budget: String, why: String },
    /// No node is eligible; these have pods, and may become so again.
    NoNodes { with_pods: Vec<String> },
    /// It would make things worse; how.
    Worse(Vec<Warning>),
    /// It is being deleted.
    Deleting,
}

/// What to do, and the report of it.
#[derive(Debug, Clone)]
pub(crate) struct PlannedStage {
    /// What is written first.
    pub(crate) plan: Plan,
    /// The stage; its revision is known only after the controller has observed the change.
    pub(crate) stage: Stage,
    /// Those of several that follow, with the nodes that they would update as things are.
    pub(crate) later: Vec<(String, Vec<String>)>,
    /// What is shown.
    pub(crate) report: PartitionReport,
}

/// Plans a stage. What admission makes of the template is `stored`, if that is another one.
///
/// # Errors
///
/// Fails if the stage cannot be as requested.
pub(crate) fn plan(
    before: &Situation<'_>,
    request: &StageRequest,
    stored: Option<&Template>,
) -> Result<PlannedStage, StageRefusal> {
    let (daemon_set, snapshot) = (before.daemon_set, before.index.snapshot);
    can_be_staged(before, request)?;
    let incomplete = incomplete_for_update_strategy(snapshot, &daemon_set.metadata.namespace, !request.evict);
    let template = template(&before.revisions, &request.template)?;
    let hold = Hold::of(daemon_set);
    let is_ended = |hold: &Hold| !hold.is_in_force && hold.partition.is_some();
    let has_old = || before.nodes.iter().any(|node| node.old.is_some());
    if hold.as_ref().is_some_and(is_ended) && template.is_none() && has_old() {
        return Err(StageRefusal::StrategyPutBack);
    }
    let hold = hold.filter(|hold| hold.is_in_force);
    let original = hold.as_ref().map_or_else(|| live_strategy(daemon_set), |hold| hold.original.clone());
    let new_template = stored.or(template.as_ref());
    let after = new_template.map(|template| daemon_set.with_template(template));
    let changed = after.as_ref().map(|after| Situation::new(before.index, after));
    let situation = changed.as_ref().unwrap_or(before);
    let desired = situation.eligible().count();
    let old = situation.outdated_nodes().count();
    // Nodes that are down are not eligible: with nothing to hold, the controller would roll it out once they are back.
    if desired == 0 && daemon_set.flavor() == Flavor::Apps && !request.is_undo() && !request.force {
        let with_pods = before.nodes.iter().filter(|node| node.old.or(node.updated).is_some());
        return Err(StageRefusal::NoNodes { with_pods: with_pods.map(|node| node.name.to_owned()).collect() });
    }
    let order = order(situation, request)?;
    let staging = request.staging.as_ref();
    let begun = hold.as_ref().filter(|_| template.is_none());
    let running = staging.map(|staging| running(situation, &order, staging, begun)).transpose()?;
    let keep = keep(running.as_ref().map_or(request.amount, |running| running.amount), desired);
    let needed = old.saturating_sub(kept(keep, desired));
    // What admission makes of a revision is on no node yet. Pods of the revision itself need no rollback.
    let asked_for = stored.and(template.as_ref()).filter(|_| request.is_undo());
    let asked_for = asked_for.map(|template| daemon_set.with_template(template));
    let asked_for = asked_for.as_ref().map(|asked_for| Situation::new(before.index, asked_for));
    let has_it = |node: &&RolloutNode<'_>| {
        let there = asked_for.as_ref().and_then(|situation| situation.node(node.name));
        there.is_some_and(|node| node.updated.is_some() && node.old.is_none())
    };
    let left = left_revisions(before, request, hold.as_ref(), template.is_some());
    let is_on_delete = original["type"] == "OnDelete";
    // Under OnDelete, whoever deletes pods chooses the nodes: only what was updated to what is rolled back goes back.
    let is_taken_back = |node: &&RolloutNode<'_>| {
        !is_on_delete || !request.is_undo() || node.old.is_some_and(|pod| left.contains(&pod.revision_hash()))
    };
    let (nodes, staged) = running.map_or((None, None), |running| (running.nodes, Some(running.report)));
    let order = order.into_iter().filter(|node| !has_it(node) && is_taken_back(node));
    let name = |node: &RolloutNode<'_>| node.name.to_owned();
    let is_advanced = daemon_set.flavor() == Flavor::Advanced;
    let (skipped, order): (Vec<_>, Vec<_>) = order.partition(|node| is_skipped(node));
    let (ready, not_ready): (Vec<_>, Vec<_>) = order.into_iter().partition(|node| node.is_ready());
    let nodes: Vec<String> = nodes.unwrap_or_else(|| ready.clone()).into_iter().take(needed).map(name).collect();
    let mut others = ready.into_iter().map(name).filter(|name| !nodes.contains(name));
    let mut end = 0;
    let later = staged.iter().flat_map(|staged: &StagedRollout| &staged.stages).filter_map(|stage| {
        // One that is skipped ends before the stage before it.
        let from = end;
        end = stage.nodes?.max(end);
        let nodes = others.by_ref().take(usize::try_from(end - from).unwrap_or(0));
        (stage.state == StageState::Next).then(|| (stage.stage.clone(), nodes.collect()))
    });
    let later: Vec<(String, Vec<String>)> = later.collect();
    let not_ready: Vec<String> = not_ready.into_iter().map(name).collect();
    let skipped: Vec<String> = skipped.into_iter().map(name).collect();
    let is_chosen = !request.nodes.is_empty() || !request.node_selector.is_empty();
    // A stage of several takes what there is.
    if nodes.len() < needed && !is_advanced && staging.is_none() && (is_chosen || kept(keep, desired) > 0) {
        return Err(StageRefusal::TooFewNodes { needed, found: nodes.len(), not_ready, skipped });
    }
    let is_needed = is_advanced || hold.is_some() || old > 0 || template.is_some();
    let replaced_revision = left.first().map(|hash| (*hash).to_owned());
    let restarted_at = match request.template {
        NewTemplate::Restart(_) => after.as_ref().and_then(|after| after.template().restarted_at().map(str::to_owned)),
        NewTemplate::Live => hold.as_ref().and_then(|hold| hold.flags.as_ref()?.restarted_at.clone()),
        NewTemplate::Images(_) | NewTemplate::Revision(_) | NewTemplate::Manifest(_) => None,
    };
    let live = daemon_set.template();
    let is_changed = new_template.is_some_and(|template| !template.same_meaning(&live));
    let template_generation = daemon_set.template_generation().map(|present| present + i64::from(is_changed));
    let target = request.undone_revision().and_then(|number| before.revisions.number(number));
    let mut flags = StageFlags {
        replaced_revision,
        template_generation,
        target_revision: target.map(|target| target.object.hash().to_owned()),
        // Whoever continues it by hand continues the same one, unless the template was changed since.
        begun_as: request.begun_as.clone().or_else(|| {
            let same = begun.filter(|hold| !hold.is_of_another_template(daemon_set))?;
            same.flags.as_ref()?.begun_as.clone()
        }),
        restarted_at,
        ..request.flags(snapshot.now)
    };
    // Whoever pauses it has looked at what is broken.
    let goes_on = begun.filter(|_| daemon_set.annotations.contains_key(RUN_ANNOTATION));
    if let (Some(staged), Some(began)) = (&mut flags.staged, goes_on.and_then(Hold::rollout_began)) {
        staged.began = began;
    }
    let mut plan = match is_needed {
        true => Plan::partition(daemon_set, snapshot.now, keep, &request.run, &flags, template.as_ref()),
        false => Plan::default(),
    };
    if matches!(request.template, NewTemplate::Manifest(_)) {
        plan = plan.refusing_unknown_fields();
    }
    let proposal = Proposal::new(before, plan);
    let pace = RollingUpdate::retained(&original);
    let max_unavailable = match (request.max_unavailable, pace.max_surge.value()) {
        (Some(requested), _) => requested,
        (None, 0) => pace.max_unavailable,
        (None, _) if is_advanced => pace.max_unavailable,
        // Without surge each node is without a pod for a while, which the strategy does not allow at all.
        (None, _) => IntOrPercent::Int(1),
    };
    let is_way_back = is_way_back(&before.revisions, request);
    let excused: BTreeSet<Outage> = match request.max_unavailable.is_some() || is_way_back {
        true => situation.eligible().filter(|node| node.updated.is_none()).filter_map(outage).collect(),
        false => BTreeSet::new(),
    };
    let is_lost = |node: &&RolloutNode<'_>| !node.has_available_pod() && !node.is_ready();
    // A node that went down may not be eligible because of that, and what went before says nothing about the way back.
    let is_down = |node: &&RolloutNode<'_>| is_lost(node) || (!node.eligible && node.is_of_node() && !node.is_ready());
    let lost: BTreeSet<String> = situation.nodes.iter().filter(|_| is_way_back).filter(is_down).map(name).collect();
    let is_excused = |node: &&RolloutNode<'_>| {
        lost.contains(node.name) || outage(node).is_some_and(|outage| excused.contains(&outage))
    };
    let allowed_now = allowed(max_unavailable, desired);
    let has_available = |node: &RolloutNode<'_>| node.old_is_available && nodes.iter().any(|name| name == node.name);
    // Pods that are not available are replaced at no cost. Those of an Advanced DaemonSet may be updated in place.
    let deletes_healthy = !is_advanced && situation.eligible().any(has_available);
    if deletes_healthy {
        // A pod that fails and is not replaced in this stage counts until its progress deadline. What was begun waits for that.
        let begins = begun.is_none() && staging.is_none_or(|staging| staging.passed == 0);
        let fails = |node: &&RolloutNode<'_>| {
            begins
                && node.old.is_some()
                && !node.has_available_pod()
                && !nodes.iter().any(|name| name == node.name)
                && !situation.recovers(node)
        };
        let blocks = |node: &&RolloutNode<'_>| (is_lost(node) || fails(node)) && !is_excused(node);
        let blocking: Vec<&RolloutNode<'_>> = situation.eligible().filter(blocks).collect();
        if blocking.len() >= allowed_now {
            let enough = blocking.iter().filter(|node| outage(node).is_none()).count() + 1;
            let unavailable = blocking.into_iter().map(|node| node.name.to_owned()).collect();
            return Err(StageRefusal::NoBudget { unavailable, allowed: allowed_now, enough });
        }
    }
    // That of an Advanced DaemonSet is never suspended; pods that are skipped keep it suspended.
    let restores_strategy = !is_advanced && kept(keep, desired) == 0 && skipped.is_empty();
    let mut warnings = warnings(&proposal, request, (keep, restores_strategy), template.as_ref())?;
    warnings.extend(other_run(before, request));
    let names_none = request.template == NewTemplate::Live;
    warnings.extend(change_warnings::another_template(before).filter(|_| names_none));
    // The controller replaces those pods once the strategy is restored.
    let includes_ineligible = kept(keep, desired) == 0 && !is_on_delete;
    let is_left_out = |node: &RolloutNode<'_>| includes_ineligible && !node.eligible && node.old.is_some();
    if !nodes.is_empty() || is_advanced || situation.nodes.iter().any(is_left_out) {
        let replacement = Replacement {
            after: situation.daemon_set,
            hash: situation.current_hash().unwrap_or_default(),
            // What a restart writes changes nothing about the new pods.
            is_same_template: new_template.is_none() || matches!(request.template, NewTemplate::Restart(_)),
            by_controller: is_advanced,
            includes_ineligible,
            most: nodes.len(),
        };
        let found = replacement_warnings(before, &replacement);
        let mut worse = certain(&found);
        if request.is_undo() {
            // What is left fails, too.
            worse.retain(|warning| matches!(warning.code, WarningCode::CreationRefused | WarningCode::MissingObjects));
        }
        // A stage that is continued has failed already, and its gates stop it again.
        let is_staged = |hold: &Hold| hold.flags.as_ref().is_some_and(|flags| flags.staged.is_some());
        let is_resumed = |hold| is_staged(hold) && staging.is_some_and(|staging| staging.passed == 0);
        let is_continued = begun.is_some_and(|hold| hold.partition == Some(keep) || is_resumed(hold));
        let restarts = matches!(request.template, NewTemplate::Restart(_)) && worse.is_empty();
        let stops = restarts.then(|| may_stop(before, &nodes)).flatten();
        worse.retain(|_| !is_continued);
        // Whatever the template, no pod is created or placed until it runs again.
        let is_down = |it: &&Warning| matches!(it.code, WarningCode::ControllerDown | WarningCode::SchedulerDown);
        worse.extend(warnings.iter().find(is_down).cloned());
        if deletes_healthy && !worse.is_empty() && !request.force {
            return Err(StageRefusal::Worse(worse));
        }
        warnings.extend(found);
        warnings.extend(stops);
    }
    let original = if is_on_delete { UpdateStrategy::OnDelete } else { UpdateStrategy::RollingUpdate(pace) };
    let gates = &request.gates;
    // Pods that have the template before it is written were not replaced by anyone.
    let present = situation.eligible().filter(|_| new_template.is_some()).filter_map(|node| node.updated);
    let present = present.map(|pod| pod.metadata.uid.clone());
    let not_counted = int(situation.eligible().filter(is_excused).count());
    // What the controller creates there, or another client replaces, before the template is written is of an older revision.
    let is_for_some = is_chosen || is_on_delete && request.is_undo();
    let may_become_old =
        |node: &RolloutNode<'_>| node.old.is_none() && (node.updated.is_none() || !is_for_some) && !is_skipped(node);
    let is_out = |node: &RolloutNode<'_>| {
        let is_down = node.old.is_some() && !(node.eligible && node.is_ready());
        is_down && !is_skipped(node) && (!is_for_some || !is_chosen && not_ready.iter().any(|name| name == node.name))
    };
    let is_left = |node: &&RolloutNode<'_>| node.eligible && may_become_old(node) || is_out(node);
    let left = situation.nodes.iter().filter(|node| kept(keep, desired) == 0 && is_left(node));
    let is_counted = staging.is_some() || matches!(request.amount, Amount::Update(_));
    let stays =
        |node: &&RolloutNode<'_>| is_counted && node.old.is_some() && !nodes.iter().any(|name| name == node.name);
    let stay = situation.eligible().filter(stays);
    let mut stage = Stage {
        run: request.run.clone(),
        nodes: nodes.clone(),
        is_chosen,
        stay: stay.map(name).collect(),
        others: left.map(name).collect(),
        excused,
        lost,
        old_unready: (!is_way_back).then(|| old_unready(situation)),
        // Nobody has watched before.
        soaks_from: staging.filter(|staging| staging.passed == 0).map(|_| snapshot.now),
        ..Stage::new(situation, keep, max_unavailable, gates.clone())
    };
    stage.spared.extend(present);
    let (nodes_gained, nodes_lost) = nodes_gained_and_lost(before, situation);
    let begins_all = nodes.len() >= desired || staging.is_some_and(|staging| staging.passed == 0);
    if begins_all && !is_advanced {
        warnings.extend(at_once(false, int(allowed_now), int(desired)));
    }
    let report = PartitionReport {
        daemon_set: name_of(daemon_set),
        now: snapshot.now,
        revision: situation.current.known().map(|current| current.revision),
        changes: proposal.changes(),
        made_by_server: stored.map_or_else(Vec::new, |stored| {
            changes(&proposal.after.object, &proposal.after.with_template(stored).object)
        }),
        patch: proposal.patch(),
        not_applied: not_applied(daemon_set, &request.template),
        partition: keep.to_string(),
        desired: int(desired),
        nodes_gained,
        nodes_lost,
        keep: int(kept(keep, desired)),
        old: int(old),
        already_updated: int(situation.eligible().filter(|node| node.old.is_none() && node.updated.is_some()).count()),
        without_pod: int(situation.eligible().filter(|node| node.old.is_none() && node.updated.is_none()).count()),
        update: int(if is_advanced { needed } else { nodes.len() }),
        nodes: if is_advanced { Vec::new() } else { nodes },
        not_ready: if is_advanced { Vec::new() } else { not_ready },
        skipped: if is_advanced { Vec::new() } else { skipped },
        evicts: request.evict,
        rolls_back: request.is_undo(),
        to_revision: request.undone_revision(),
        restarts: matches!(request.template, NewTemplate::Restart(_)),
        max_unavailable: int(allowed_now),
        not_counted,
        unavailable: int(situation.eligible().filter(|node| !node.has_available_pod()).count()),
        gates: report::Gates {
            min_ready_seconds: daemon_set.spec.min_ready_seconds,
            max_restarts: gates.max_restarts,
            soak_seconds: gates.soak.as_secs(),
            progress_deadline_seconds: gates.progress_deadline.as_secs(),
            verify: request.verify.clone(),
        },
        staged,
        original_strategy: original,
        restores_strategy,
        warnings,
        incomplete,
        outcome: PartitionOutcome {
            updated: int(situation.eligible().filter(|node| node.updated.is_some()).count()),
            old: int(old),
            ..PartitionOutcome::default()
        },
    };
    Ok(PlannedStage { plan: proposal.plan, stage, later, report })
}

/// Checks what does not depend on the template.
fn can_be_staged(before: &Situation<'_>, request: &StageRequest) -> Result<(), StageRefusal> {
    let (daemon_set, snapshot) = (before.daemon_set, before.index.snapshot);
    if daemon_set.metadata.is_terminating() {
        return Err(StageRefusal::Deleting);
    }
    if let Some(holder) = holder(daemon_set) {
        return Err(StageRefusal::HeldBy(holder));
    }
    let unread = incomplete_for_update_strategy(snapshot, &daemon_set.metadata.namespace, false);
    if !unread.is_empty() {
        return Err(StageRefusal::Unknown(unread.into_iter().map(|gap| gap.message).collect()));
    }
    let budgets = matching_budgets(daemon_set, snapshot).filter(|_| request.evict && !request.is_undo());
    let budgets: Vec<&PodDisruptionBudget> = budgets.collect();
    let name = |budget: &&PodDisruptionBudget| budget.metadata.name.clone();
    if budgets.len() > 1 {
        return Err(StageRefusal::SeveralBudgets(budgets.iter().map(name).collect()));
    }
    match budgets.first().and_then(|budget| Some((name(budget), budget.failure()?.to_owned()))) {
        Some((budget, why)) => Err(StageRefusal::BudgetFails { budget, why }),
        None => Ok(()),
    }
}

/// Returns whether a stage goes back to a revision: the pods that are left behind are those that fail, and nodes that are lost must not
/// keep the others from going back.
fn is_way_back(revisions: &Revisions<'_>, request: &StageRequest) -> bool {
    // What was rolled back before is rolled out again.
    let is_left = |number| revisions.number(number).is_some_and(|revision| revisions.was_rolled_back(revision));
    matches!(request.template, NewTemplate::Revision(number) if request.is_undo() || !is_left(number))
}

/// Returns the hashes of the revisions that a stage leaves: the current one if it `rolls_out` another template, and the one that
/// an unfinished rollback was begun to leave.
fn left_revisions<'s>(
    before: &'s Situation<'_>,
    request: &StageRequest,
    hold: Option<&'s Hold>,
    rolls_out: bool,
) -> Vec<&'s str> {
    let current = before.current_hash().filter(|_| rolls_out);
    let flags = hold.and_then(|hold| hold.flags.as_ref()).filter(|flags| request.is_undo() && flags.is_undo);
    let begun = flags.and_then(|flags| flags.replaced_revision.as_deref());
    // The template alone was rolled back.
    let mut all = before.revisions.all.iter().filter(|_| request.is_undo() && !rolls_out && begun.is_none());
    let newest = all.find(|revision| before.revisions.was_rolled_back(revision));
    current.into_iter().chain(begun).chain(newest.map(|revision| revision.object.hash())).collect()
}

/// Returns the number of pods that stay on older revisions, as the annotation has it.
pub(super) fn keep(amount: Amount, desired: usize) -> IntOrPercent {
    match amount {
        Amount::Keep(keep) => keep,
        Amount::Update(IntOrPercent::Percent(percent)) => IntOrPercent::Percent((100 - percent).clamp(0, 100)),
        Amount::Update(IntOrPercent::Int(number)) => IntOrPercent::Int((int(desired) - number).max(0)),
    }
}

/// Warns that the stage of another run is not finished: its client stops as soon as this one begins, if it still runs.
fn other_run(before: &Situation<'_>, request: &StageRequest) -> Option<Warning> {
    let (daemon_set, now) = (before.daemon_set, before.now());
    let hold = Hold::in_force(daemon_set)?;
    let stays = hold.partition?;
    let run = daemon_set.annotations.get(RUN_ANNOTATION).filter(|run| !request.run.starts_with(*run))?;
    // A run stops once the template is changed.
    if !replaces_more(before, stays) || hold.is_of_another_template(daemon_set) {
        return None;
    }
    let (began, process) = run.trim_end_matches(WAY_BACK).split_once(' ').unwrap_or((run, ""));
    let began: Option<Timestamp> = began.parse().ok();
    let newest = newest_update(before);
    let ago = |at| format!("{} ago", format_age(seconds_between(at, now)));
    let process = if process.is_empty() { String::new() } else { format!(" (process {process})") };
    let begun = began.map_or_else(String::new, |at| format!(", begun {},", ago(at)));
    let last = match newest.filter(|newest| began.is_some_and(|began| began <= *newest)) {
        Some(newest) => format!("the last new pod was created {}", ago(newest)),
        None => "no pod was created since".to_owned(),
    };
    // Whether its client was ended is not in the cluster.
    let so = match has_ended(before, &hold, began) {
        true => "that run has ended".to_owned(),
        false => format!("{last}: if that run still goes on, it stops as soon as this one begins"),
    };
    let message = format!("the stage of the last run{process}{begun} is not complete, and {so}");
    Some(Warning::new(WarningCode::OtherRun, message))
}

/// Warns that a stage stops at pods that fail already, if the new ones fare no better; the rules have put them first.
fn may_stop(before: &Situation<'_>, nodes: &[String]) -> Option<Warning> {
    let failing = nodes.iter().filter_map(|name| before.node(name)).filter(|node| before.fails_on(node));
    let failing: Vec<&str> = failing.map(|node| node.name).collect();
    let pods = match failing.len() {
        0 => return None,
        1 => "1 of these pods fails".to_owned(),
        pods => format!("{pods} of these pods fail"),
    };
    let message = format!("{pods} now: if the new ones fail as the current ones do, the stage stops at {}", failing[0]);
    Some(Warning::new(WarningCode::MayBlock, message))
}

/// Returns what may revert the stage, and what it may break.
fn warnings(
    proposal: &Proposal<'_, '_>,
    request: &StageRequest,
    (keep, ends): (IntOrPercent, bool),
    template: Option<&Template>,
) -> Result<Vec<Warning>, StageRefusal> {
    let daemon_set = proposal.before.daemon_set;
    let mut warnings: Vec<Warning> = change_warnings::down_warnings(proposal.before);
    // Each stage of one run would tell it again.
    if request.staging.as_ref().is_none_or(|staging| staging.passed == 0) {
        warnings.extend(who_puts_back(daemon_set, Some(keep), ends));
    }
    warnings.extend(lost_original(daemon_set));
    if let Some(template) = template {
        let managers = change_warnings::managers(daemon_set, Written::Template(template));
        let new = managers.into_iter().filter(|warning| !warnings.iter().any(|other| other.code == warning.code));
        let new: Vec<Warning> = new.collect();
        warnings.extend(new);
        warnings.extend(change_warnings::last_applied(daemon_set, template));
    }
    let effect = proposal.effect();
    SurgePods::check(&effect, request.delete_surge_pods, proposal.before).map_err(StageRefusal::SurgePods)?;
    warnings.extend(surge_pods_deleted(&effect));
    if daemon_set.flavor() == Flavor::Advanced {
        // Its controller replaces the pods as it does without a partition, unless it replaces none.
        let obstacles = change_warnings::obstacles(daemon_set, false).into_iter();
        warnings.extend(obstacles.filter(|one| matches!(one.code, WarningCode::OnDelete | WarningCode::Paused)));
        return Ok(warnings);
    }
    if let UpdateStrategy::RollingUpdate(rolling) = &daemon_set.spec.update_strategy
        && rolling.max_surge.value() != 0
    {
        let message = format!(
            "the update strategy is {}: while it is partitioned, a node has no pod until the new one has started, so 1 node \
             is updated at a time",
            daemon_set.spec.update_strategy
        );
        warnings.push(Warning::new(WarningCode::SurgeSuspended, message));
    }
    if !request.evict {
        warnings.extend(matching_budgets(daemon_set, proposal.before.index.snapshot).map(|budget| {
            // `undo` has no such flag: it replaces pods as the stage did that it takes back.
            let advice = if request.is_undo() { "" } else { "; --evict respects it" };
            let message = format!(
                "PodDisruptionBudget {:?} matches the pods, and deleting them bypasses it{advice}",
                budget.metadata.name
            );
            Warning::new(WarningCode::DisruptionBudget, message)
        }));
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::{Amount, NewTemplate, PlannedStage, StageRefusal, StageRequest, SurgePods, plan};
    use crate::coverage::test_support::{CURRENT, World, at, world};
    use crate::facts::index::Index;
    use crate::facts::revisions::Revisions;
    use crate::model::daemon_set::DaemonSet;
    use crate::model::hold::{Hold, StageFlags};
    use crate::model::int_or_percent::IntOrPercent;
    use crate::model::pod_disruption_budget::PodDisruptionBudget;
    use crate::model::snapshot::{Admission, Gap, GapCause, Kind};
    use crate::report::partition::{PartitionReport, SKIP_LABEL};
    use crate::report::plan::WarningCode;
    use crate::rollout::situation::Situation;

    fn request(keep: i64) -> StageRequest {
        StageRequest::new(Amount::Keep(IntOrPercent::Int(keep)), NewTemplate::Live, "run 1".to_owned())
    }

    /// A request to roll out another template.
    fn request_of_image(keep: i64) -> StageRequest {
        let images = vec![("agent".to_owned(), "agent:3".to_owned())];
        StageRequest { template: NewTemplate::Images(images), ..request(keep) }
    }

    fn planned(world: World, request: &StageRequest) -> Result<PlannedStage, StageRefusal> {
        let snapshot = world.finish();
        plan(&Situation::new(&Index::new(&snapshot), &snapshot.daemon_sets[0]), request, None)
    }

    /// Its last patch may have been refused, so that nothing but the hold is left.
    #[test]
    fn a_stage_that_has_updated_all_nodes_goes_back_to_no_revision_of_its_own_template() {
        let of = |hash: &str| json!({"metadata": {"labels": {"controller-revision-hash": hash}}});
        for (hash, image, expected) in
            [("hash1", "agent:3", Some(1)), (CURRENT, "agent:3", Some(2)), (CURRENT, "agent:2", None)]
        {
            let world = world().revision_of_image("hash1", 1, "agent:1").node("n", json!({}));
            let mut snapshot = world.revision_of_image(CURRENT, 2, "agent:2").pod("agent-n", "n", of(hash)).finish();
            snapshot.controller_revisions.remove(0);
            let template = NewTemplate::Images(vec![("agent".to_owned(), image.to_owned())]);
            let revisions = Revisions::of(&snapshot.daemon_sets[0], &snapshot);
            let new = crate::rollout::partition::template::template(&revisions, &template)
                .unwrap()
                .unwrap_or_else(|| revisions.live.clone());
            let request = StageRequest { template, ..request(0) };
            assert_eq!(request.back_to(&revisions, &new), expected, "{hash} {image}");
        }
    }

    /// Nodes that are down are not eligible: the end of a stage of none would give the template to all of them.
    #[test]
    fn nothing_is_staged_without_an_eligible_node() {
        let down = || {
            let taint =
                json!({"spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]}});
            let old =
                json!({"metadata": {"labels": {"controller-revision-hash": "hash1", "pod-template-generation": "1"}}});
            world().revision_of_image("hash1", 1, "agent:1").node("n1", taint).pod("agent-1", "n1", old)
        };
        let with_pods = names(&["n1"]);
        for request in [request(0), request(1), request_of_image(0)] {
            assert_eq!(planned(down(), &request).unwrap_err(), StageRefusal::NoNodes { with_pods: with_pods.clone() });
            // Whoever has no node at all has nothing to stage, either.
            assert_eq!(planned(world(), &request).unwrap_err(), StageRefusal::NoNodes { with_pods: Vec::new() });
        }
    }

    /// Between planning and writing, another client may replace their pods by such as are to go.
    #[test]
    fn a_stage_of_all_nodes_covers_those_that_have_its_pod_already() {
        let begun = || {
            let world = world().revision("hash1", 1).node("a", json!({})).pod("agent-a", "a", old());
            world.node("b", json!({})).pod("agent-b", "b", json!({})).node("c", json!({}))
        };
        let covers = |request: &StageRequest| {
            let stage = planned(begun(), request).unwrap().stage;
            (stage.nodes, stage.others)
        };
        assert_eq!(covers(&request(0)), (names(&["a"]), names(&["b", "c"])));
        assert_eq!(covers(&request(1)), (names(&[]), names(&[])));
        let chosen = StageRequest { nodes: names(&["a"]), ..request(0) };
        assert_eq!(covers(&chosen), (names(&["a"]), names(&["c"])));
    }

    /// Whoever continues a rollback must not judge, and have deleted, what it has left alone.
    #[test]
    fn pods_that_ran_before_the_template_was_written_are_no_result_of_it() {
        let annotations = json!({"deprecated.daemonset.template.generation": "3"});
        let of_generation = |generation: &str| json!({"metadata": {"labels": {"pod-template-generation": generation}}});
        let world = world().daemon_set(json!({"metadata": {"annotations": annotations}})).revision("hash1", 1);
        let world = world.node("a", json!({})).pod("agent-a", "a", of_generation("2"));
        let world = world.node("b", json!({})).pod("agent-b", "b", of_generation("3"));
        let before = world.snapshot.pods[0].metadata.uid.clone();
        let world = world.node("c", json!({})).pod("agent-c", "c", old());
        assert_eq!(planned(world, &request(0)).unwrap().stage.spared, BTreeSet::from([before]));
    }

    fn codes(world: World, request: &StageRequest) -> Vec<WarningCode> {
        planned(world, request).unwrap().report.warnings.iter().map(|warning| warning.code).collect()
    }

    fn old() -> Value {
        json!({"metadata": {"creationTimestamp": at("11:10:00"),
            "labels": {"controller-revision-hash": "hash1", "pod-template-generation": "1"}}})
    }

    /// Five nodes: n0, n1, n2 and n4 have a pod of the older revision; n2 is not ready, nor are the pods of n3 and n4.
    fn rollout(strategy: &Value) -> World {
        let starting = || json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
        let not_ready = json!({"status": {"conditions": [
            {"type": "Ready", "status": "Unknown", "lastTransitionTime": at("11:30:00")}]}});
        let just_now = json!({"status": {"conditions": [
            {"type": "Ready", "status": "False", "lastTransitionTime": at("11:59:55")}]}});
        world()
            .daemon_set(json!({"spec": {"updateStrategy": strategy}}))
            .node("n0", json!({}))
            .node("n1", json!({}))
            .node("n2", not_ready)
            .node("n3", json!({}))
            .node("n4", json!({}))
            .pod("agent-0", "n0", old())
            .pod("agent-1", "n1", old())
            .pod("agent-2", "n2", old())
            .unready_pod("agent-3", "n3", starting(), just_now)
            .unready_pod("agent-4", "n4", starting(), old())
    }

    fn rolling(rolling_update: &Value) -> World {
        rollout(&json!({"type": "RollingUpdate", "rollingUpdate": rolling_update}))
    }

    fn names(nodes: &[&str]) -> Vec<String> {
        nodes.iter().map(|&node| node.to_owned()).collect()
    }

    #[test]
    fn a_stage_updates_as_many_ready_nodes_as_are_not_kept() {
        for (keep, updated, restores_strategy) in
            [(0, &["n4", "n0", "n1"][..], true), (1, &["n4", "n0", "n1"], false), (3, &["n4"], false), (4, &[], false)]
        {
            let PlannedStage { stage, report, .. } =
                planned(rolling(&json!({"maxUnavailable": "50%"})), &request(keep)).unwrap();
            assert_eq!((&report.nodes, &stage.nodes), (&names(updated), &names(updated)), "{keep}");
            assert_eq!((report.desired, report.keep, report.old), (5, keep, 4));
            assert_eq!(usize::try_from(report.update), Ok(updated.len()));
            assert_eq!((report.max_unavailable, report.unavailable), (3, 2));
            assert_eq!((report.not_ready, report.restores_strategy), (names(&["n2"]), restores_strategy));
            assert_eq!(report.outcome.updated, 1);
        }
    }

    /// A run that continues a restart keeps its timestamp; a new restart gets another one.
    #[test]
    fn a_restart_is_told_by_its_time_until_its_hold_ends() {
        let again = |world: World, request: &StageRequest| {
            let snapshot = world.finish();
            let index = Index::new(&snapshot);
            let before = Situation::new(&index, &snapshot.daemon_sets[0]);
            let planned = plan(&before, request, None).unwrap();
            let after = planned.plan.applied_to(&before.daemon_set.object).unwrap();
            (planned, DaemonSet::from_object(after).unwrap())
        };
        let is_restart = |daemon_set: &DaemonSet| Hold::of(daemon_set).unwrap().is_restart(daemon_set);
        let restart = NewTemplate::Restart(at("12:00:00").parse().unwrap());
        let restart = StageRequest { template: restart, ..request(0) };
        let (planned, restarted) = again(rolling(&json!({"maxUnavailable": 1})), &restart);
        assert_eq!(planned.report.update, 4);
        assert_eq!(restarted.template().restarted_at(), Some(&*at("12:00:00")));
        assert!(is_restart(&restarted));
        // Continued by `partition NAME 0`, whoever runs it; a stage that keeps pods is another one.
        let held = || rolling(&json!({})).daemon_set(restarted.object.clone());
        let (continued, same) = again(held(), &request(0));
        assert!(is_restart(&same) && continued.report.changes.is_empty(), "{:?}", continued.report.changes);
        assert!(!is_restart(&again(held(), &request(1)).1));
        assert!(!is_restart(&again(held(), &request_of_image(0)).1));
        // Somebody has put the template back.
        let mut object = restarted.object.clone();
        object["spec"]["template"]["metadata"]["annotations"] = json!({});
        assert!(!is_restart(&DaemonSet::from_object(object).unwrap()));
    }

    #[test]
    fn as_many_pods_are_kept_as_are_not_to_be_updated() {
        for (amount, partition, keep, update) in [
            (Amount::Keep(IntOrPercent::Percent(50)), "50%", 2, 2),
            (Amount::Update(IntOrPercent::Percent(30)), "70%", 3, 1),
            (Amount::Update(IntOrPercent::Int(2)), "3", 3, 1),
            (Amount::Update(IntOrPercent::Int(9)), "0", 0, 3),
        ] {
            let report = planned(rolling(&json!({})), &StageRequest { amount, ..request(0) }).unwrap().report;
            assert_eq!((report.partition.as_str(), report.keep, report.update), (partition, keep, update));
        }
    }

    #[test]
    fn a_revision_that_fails_is_rolled_out_further_only_if_that_is_insisted_on() {
        let crashes = || json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let world = || {
            let world = world().revision_of_image("hash1", 1, "agent:1").node("n4", json!({})).node("n5", json!({}));
            let world = (0..4).fold(world, |world, number| {
                let node = format!("n{number}");
                world.node(&node, json!({})).pod(&format!("a{number}"), &node, old())
            });
            world.unready_pod("a4", "n4", crashes(), json!({})).unready_pod("a5", "n5", crashes(), json!({}))
        };
        let Err(StageRefusal::Worse(worse)) = planned(world(), &request(0)) else { panic!("not refused") };
        assert_eq!(worse.iter().map(|warning| warning.code).collect::<Vec<_>>(), [WarningCode::RevisionFails]);
        assert!(codes(world(), &StageRequest { force: true, ..request(0) }).contains(&WarningCode::RevisionFails));
        // Another template may work, and nothing is rolled out further on the way back.
        assert!(planned(world(), &request_of_image(0)).is_ok());
        let snapshot = world().finish();
        let back = StageRequest::roll_back(1, "run 1".to_owned(), &snapshot.daemon_sets[0]);
        assert!(planned(world(), &back).is_ok());
        assert!(planned(world(), &StageRequest { template: NewTemplate::Revision(1), ..request(0) }).is_ok());
    }

    /// Nodes n0 and n1 have revision 3, which is rolled back to 2; n2 has revision 2 and n3 revision 1.
    #[test]
    fn a_rollback_under_on_delete_replaces_only_pods_of_what_it_leaves() {
        let nodes = |original: &str, live: &str, flags: Option<Value>| {
            let gates = flags.map(|flags| json!({"version": 1, "flags": flags}).to_string());
            let annotations = json!({"kubectl-ds/original-update-strategy": json!({ "type": original }).to_string(),
                "kubectl-ds/partition": "1", "kubectl-ds/gates": gates});
            let patch =
                json!({"metadata": {"annotations": annotations}, "spec": {"updateStrategy": {"type": "OnDelete"}}});
            let mut world =
                world().daemon_set(patch).template(json!({"containers": [{"name": "agent", "image": live}]}));
            world.snapshot.controller_revisions.clear();
            let returned = if live == "agent:2" { 4 } else { 2 };
            for (number, image) in [(1, "agent:1"), (returned, "agent:2"), (3, "agent:3")] {
                world = world.revision_of_image(&image.replace(':', "-"), number, image);
                let created = json!(at(&format!("1{}:00:00", &image[6..])));
                let revision = world.snapshot.controller_revisions.last_mut().unwrap();
                revision.metadata.creation_timestamp = serde_json::from_value(created).unwrap();
            }
            for (node, hash) in [("n0", "agent-3"), ("n1", "agent-3"), ("n2", "agent-2"), ("n3", "agent-1")] {
                let labels = json!({"controller-revision-hash": hash, "pod-template-generation": null});
                world = world.node(node, json!({})).pod(node, node, json!({"metadata": {"labels": labels}}));
            }
            let snapshot = world.finish();
            let back = StageRequest::roll_back(returned, "run 1".to_owned(), &snapshot.daemon_sets[0]);
            let situation = Index::new(&snapshot);
            let PlannedStage { plan: changes, report, .. } =
                plan(&Situation::new(&situation, &snapshot.daemon_sets[0]), &back, None).unwrap();
            assert!(report.restores_strategy);
            let is_kept = serde_json::to_string(&changes.applied_to(&snapshot.daemon_sets[0].object).unwrap())
                .unwrap()
                .contains(r#"\"replacedRevision\":\"agent-3\""#);
            (report.nodes, is_kept)
        };
        let begun = || Some(json!({"isUndo": true, "replacedRevision": "agent-3", "progressDeadlineSeconds": 600}));
        let (taken_back, all) = (names(&["n0", "n1"]), names(&["n0", "n1", "n3"]));
        assert_eq!(nodes("OnDelete", "agent:3", None), (taken_back.clone(), true));
        // It is continued, or only the template was rolled back.
        assert_eq!(nodes("OnDelete", "agent:2", begun()), (taken_back.clone(), true));
        assert_eq!(nodes("OnDelete", "agent:2", None), (taken_back, true));
        // The controller would replace the others anyway.
        assert_eq!(nodes("RollingUpdate", "agent:3", None), (all, true));
    }

    /// What was rolled back is no way back: outages that are there count, and old pods that fail stop it.
    #[test]
    fn a_revision_that_was_rolled_back_before_is_rolled_out_again_under_all_gates() {
        let is_way_back = |to: i64| {
            let mut world = world().template(json!({"containers": [{"name": "agent", "image": "agent:2"}]}));
            world.snapshot.controller_revisions.clear();
            for (number, image, created) in
                [(1, "agent:1", "11:00:00"), (4, "agent:2", "12:00:00"), (3, "agent:3", "13:00:00")]
            {
                world = world.revision_of_image(&image.replace(':', "-"), number, image);
                let revision = world.snapshot.controller_revisions.last_mut().unwrap();
                revision.metadata.creation_timestamp = serde_json::from_value(json!(at(created))).unwrap();
            }
            let labels = json!({"controller-revision-hash": "agent-2", "pod-template-generation": null});
            let world = world.node("n0", json!({})).pod("a0", "n0", json!({"metadata": {"labels": labels}}));
            let request = StageRequest { template: NewTemplate::Revision(to), ..request(0) };
            planned(world, &request).unwrap().stage.old_unready.is_none()
        };
        assert_eq!([1, 3].map(is_way_back), [true, false]);
    }

    #[test]
    fn a_template_whose_pods_are_refused_like_the_present_ones_is_rolled_out_only_if_that_is_insisted_on() {
        let denied = "pods \"agent-x\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces";
        let quota =
            "pods \"agent-x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=4, limited: pods=4";
        // What the server says about a pod of the new template, which has no revision yet, or of revision 1.
        let asked = |hash: &str, refusal: Option<&str>| {
            let world = rolling(&json!({})).node("n5", json!({})).pod("agent-5", "n5", json!({}));
            let mut world = world.revision_of_image("hash1", 1, "agent:1").refusal(denied);
            let (daemon_set_uid, hash) = ("agent-uid".to_owned(), hash.to_owned());
            let refusal = refusal.map(str::to_owned);
            world.snapshot.admissions.push(Admission { daemon_set_uid, hash, refusal, lacks: Vec::new() });
            world
        };
        let of_image = || request_of_image(2);
        let of_revision = || StageRequest { template: NewTemplate::Revision(1), ..request(0) };
        for (hash, request) in [("", of_image()), ("hash1", of_revision())] {
            let Err(StageRefusal::Worse(worse)) = planned(asked(hash, Some(denied)), &request) else {
                panic!("not refused: {hash:?}")
            };
            assert_eq!(worse.iter().map(|warning| warning.code).collect::<Vec<_>>(), [WarningCode::CreationRefused]);
            assert!(worse[0].message.contains("including those of the new template"), "{}", worse[0].message);
            let forced = StageRequest { force: true, ..request.clone() };
            assert_eq!(codes(asked(hash, Some(denied)), &forced), [WarningCode::CreationRefused]);
            assert_eq!(codes(asked(hash, None), &request), []);
            // The pods that are replaced give back their quota.
            assert_eq!(codes(asked(hash, Some(quota)), &request), [WarningCode::CreationRefused]);
        }
        // It is not known.
        assert_eq!(codes(rolling(&json!({})).refusal(denied), &of_image()), [WarningCode::CreationRefused]);
        // The cause of the refusal is gone, and the controller has not tried again.
        assert_eq!(codes(asked("hash2", None), &request(3)), []);
        let snapshot = asked("hash1", Some(denied)).finish();
        let back = StageRequest::roll_back(1, "run 1".to_owned(), &snapshot.daemon_sets[0]);
        assert!(matches!(planned(asked("hash1", Some(denied)), &back), Err(StageRefusal::Worse(_))));
        let back = StageRequest { force: true, ..back };
        assert!(planned(asked("hash1", Some(denied)), &back).is_ok());
    }

    #[test]
    fn a_stage_of_the_same_template_is_refused_only_if_available_pods_are_certainly_deleted_for_nothing() {
        let denied = "pods \"agent-x\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces";
        let other = "pods \"agent-x\" is forbidden: no PriorityClass with name ghost was found";
        let asked = |mut world: World, refusal: &str| {
            let (daemon_set_uid, hash) = ("agent-uid".to_owned(), CURRENT.to_owned());
            world.snapshot.admissions.push(Admission {
                daemon_set_uid,
                hash,
                refusal: Some(refusal.to_owned()),
                lacks: Vec::new(),
            });
            world
        };
        let refused = || rolling(&json!({})).refusal(denied);
        assert!(matches!(planned(asked(refused(), denied), &request(1)), Err(StageRefusal::Worse(_))));
        // It cannot be told, or the controller was refused for another reason.
        assert_eq!(codes(refused(), &request(1)), [WarningCode::CreationRefused]);
        assert_eq!(codes(asked(refused(), other), &request(1)), [WarningCode::CreationRefused]);
        // No available pod is deleted.
        let starting = || json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
        let unavailable = || {
            let world = world().revision_of_image("hash1", 1, "agent:1").node("n0", json!({}));
            world.unready_pod("agent-0", "n0", starting(), old()).refusal(denied)
        };
        assert_eq!(codes(asked(unavailable(), denied), &request(0)), [WarningCode::CreationRefused]);
        // What is printed to continue a stage is not refused: its gates stop it again.
        let held = |partition: &str| {
            let annotations = json!({"kubectl-ds/original-update-strategy": "{\"type\":\"RollingUpdate\"}",
                "kubectl-ds/partition": partition});
            asked(refused(), denied).daemon_set(json!({"metadata": {"annotations": annotations},
                "spec": {"updateStrategy": {"type": "OnDelete"}}}))
        };
        assert!(planned(held("1"), &request(1)).is_ok());
        assert!(matches!(planned(held("3"), &request(1)), Err(StageRefusal::Worse(_))));
    }

    #[test]
    fn surge_pods_are_deleted_by_a_stage_only_if_they_may_be() {
        let starting = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
        let world = || rolling(&json!({"maxSurge": 1, "maxUnavailable": 0}));
        let world = || world().unready_pod("agent-new", "n0", starting.clone(), json!({}));
        let Err(StageRefusal::SurgePods(SurgePods { pods, .. })) = planned(world(), &request(3)) else {
            panic!("not refused")
        };
        assert_eq!(pods.iter().map(|pod| pod.pod.as_str()).collect::<Vec<_>>(), ["agent-new"]);
        let request = StageRequest { delete_surge_pods: true, ..request(3) };
        assert!(codes(world(), &request).contains(&WarningCode::SurgePodsDeleted));
    }

    #[test]
    fn nodes_that_were_chosen_are_updated_in_their_order_or_not_at_all() {
        let of = |keep, nodes: &[&str]| {
            let request = StageRequest { nodes: names(nodes), ..request(keep) };
            planned(rolling(&json!({"maxUnavailable": 2})), &request).map(|planned| planned.report.nodes)
        };
        assert_eq!(of(2, &["n1", "n0", "n1", "n4"]), Ok(names(&["n1", "n0"])));
        assert_eq!(of(2, &["n1", "n9"]), Err(StageRefusal::NoSuchNode("n9".to_owned())));
        let too_few = |needed, found, not_ready: &[&str]| {
            Err(StageRefusal::TooFewNodes { needed, found, not_ready: names(not_ready), skipped: Vec::new() })
        };
        assert_eq!(of(0, &["n1"]), too_few(4, 1, &[]));
        assert_eq!(of(2, &["n2", "n1"]), too_few(2, 1, &["n2"]));
        // Nobody has chosen, but others are to stay as they are.
        let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        let world = rolling(&json!({})).node("n5", not_ready).pod("agent-5", "n5", old());
        let nodes = planned(world, &request(1)).map(|planned| planned.report.nodes);
        assert_eq!(nodes, too_few(4, 3, &["n2", "n5"]));
        let selector = StageRequest { node_selector: "kubernetes.io/hostname=n0".parse().unwrap(), ..request(0) };
        assert_eq!(planned(rolling(&json!({})), &selector).map(|planned| planned.report.nodes), too_few(4, 1, &[]));
    }

    #[test]
    fn a_stage_that_could_never_begin_is_refused_before_anything_is_written() {
        let lost = || json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
        let starting = || json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
        let of = |max_unavailable: i64, pod: Value, requested: Option<i64>| {
            let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": max_unavailable}});
            let world = world()
                .daemon_set(json!({"spec": {"updateStrategy": rolling}}))
                .node("n0", json!({}))
                .node("n1", json!({}))
                .node("n2", lost())
                .pod("agent-0", "n0", old())
                .pod("agent-1", "n1", old())
                .unready_pod("agent-2", "n2", starting(), pod);
            let max_unavailable = requested.map(IntOrPercent::Int);
            planned(world, &StageRequest { max_unavailable, ..request(0) })
                .map(|PlannedStage { report, .. }| (report.nodes.len(), report.max_unavailable, report.not_counted))
        };
        let refused = |enough| Err(StageRefusal::NoBudget { unavailable: names(&["n2"]), allowed: 1, enough });
        assert_eq!(of(1, old(), None), refused(1));
        assert_eq!(of(2, old(), None), Ok((2, 2, 0)));
        assert_eq!(of(1, old(), Some(1)), Ok((2, 1, 1)));
        // The new revision may be why the node is lost.
        assert_eq!(of(1, json!({}), Some(1)), refused(2));
        assert_eq!(of(1, json!({}), Some(2)), Ok((2, 2, 0)));
        // An old pod that is already terminating is replaced by a new one, which counts.
        let mut terminating = old();
        terminating["metadata"]["deletionTimestamp"] = at("11:50:00").into();
        assert_eq!(of(1, terminating.clone(), Some(1)), refused(2));
        assert_eq!(of(1, terminating, Some(2)), Ok((2, 2, 0)));
    }

    /// Such a pod would use up what may be unavailable until the stage had failed for lack of progress.
    #[test]
    fn a_pod_that_fails_on_a_node_outside_the_stage_counts_before_anything_is_written() {
        let crashes = || json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 9});
        let starts = || json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
        let of = |state: Value, created: &str, stage: &str, requested: Option<i64>| {
            let mut pod = old();
            pod["metadata"]["creationTimestamp"] = at(created).into();
            pod["status"]["conditions"] =
                json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(created)}]);
            let world = world()
                .daemon_set(json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}}))
                .node("n0", json!({}))
                .node("n1", json!({}))
                .node("n2", json!({}))
                .pod("agent-0", "n0", old())
                .pod("agent-1", "n1", old())
                .unready_pod("agent-2", "n2", state, pod);
            let selector = format!("kubernetes.io/hostname in ({stage})").parse().unwrap();
            let (max_unavailable, nodes) = (requested.map(IntOrPercent::Int), stage.split(',').count());
            let request = request(3 - i64::try_from(nodes).unwrap());
            planned(world, &StageRequest { max_unavailable, node_selector: selector, ..request })
                .map(|PlannedStage { report, .. }| report.nodes)
        };
        let refused = Err(StageRefusal::NoBudget { unavailable: names(&["n2"]), allowed: 1, enough: 1 });
        assert_eq!(of(crashes(), "11:10:00", "n0", None), refused);
        assert_eq!(of(crashes(), "11:10:00", "n0", Some(1)), Ok(names(&["n0"])), "it is not counted");
        assert_eq!(of(crashes(), "11:10:00", "n0,n2", None), Ok(names(&["n2", "n0"])), "it is replaced");
        assert_eq!(of(starts(), "11:59:50", "n0", None), Ok(names(&["n0"])), "it passes");
    }

    #[test]
    fn nothing_is_written_if_nothing_is_old_and_nothing_is_held() {
        let updated = || world().node("n0", json!({})).pod("agent-0", "n0", json!({}));
        assert_eq!(planned(updated(), &request(0)).unwrap().plan.step, None);
        assert!(planned(updated(), &request_of_image(0)).unwrap().plan.step.is_some());
    }

    /// The controller has finished what a stage had begun, and annotations are left.
    #[test]
    fn a_strategy_that_was_restored_counts_only_while_pods_are_old() {
        let annotations = json!({"kubectl-ds/original-update-strategy": "{\"type\":\"RollingUpdate\"}",
            "kubectl-ds/held-since": at("11:50:00"), "kubectl-ds/partition": "1", "kubectl-ds/run": "run 0"});
        let of = |world: World| {
            let world = world.daemon_set(json!({"metadata": {"annotations": annotations}}));
            planned(world, &request(0)).map(|planned| planned.plan.step)
        };
        assert_eq!(of(rolling(&json!({}))), Err(StageRefusal::StrategyPutBack));
        assert_eq!(of(world().node("n0", json!({})).pod("agent-0", "n0", json!({}))), Ok(None));
    }

    #[test]
    fn what_may_revert_a_stage_is_warned_of_once() {
        let argo = || json!({"annotations": {"argocd.argoproj.io/tracking-id": "fleet:apps/DaemonSet:a/b"}});
        let entry = json!({"manager": "deployer", "operation": "Apply", "fieldsV1": {"f:spec": {"f:template": {}}}});
        let of = |metadata: Value, request: &StageRequest| {
            codes(rolling(&json!({})).daemon_set(json!({"metadata": metadata})), request)
        };
        let both = json!({"annotations": argo()["annotations"], "managedFields": [entry]});
        assert_eq!(of(argo(), &request(3)), [WarningCode::ArgoCd, WarningCode::StrategyPutBack]);
        assert_eq!(of(both.clone(), &request(3)), [WarningCode::ArgoCd, WarningCode::StrategyPutBack]);
        assert_eq!(of(argo(), &request_of_image(3)), [WarningCode::ArgoCd, WarningCode::StrategyPutBack]);
        assert_eq!(
            of(both, &request_of_image(3)),
            [WarningCode::ArgoCd, WarningCode::StrategyPutBack, WarningCode::ServerSideApply]
        );
        assert_eq!(of(json!({"managedFields": [entry]}), &request_of_image(3)), [WarningCode::ServerSideApply]);
    }

    #[test]
    fn what_a_stage_may_break_is_warned_of() {
        assert_eq!(codes(rolling(&json!({"maxUnavailable": 2})), &request(3)), []);
        let surge = json!({"maxSurge": 2, "maxUnavailable": 0});
        assert_eq!(codes(rolling(&surge), &request(3)), [WarningCode::SurgeSuspended]);
        assert_eq!(planned(rolling(&surge), &request(3)).unwrap().report.max_unavailable, 1);

        let budget = |mut world: World| {
            let budget: PodDisruptionBudget = serde_json::from_value(json!({
                "metadata": {"name": "agent", "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": "agent"}}},
            }))
            .unwrap();
            world.snapshot.pod_disruption_budgets.push(budget);
            world
        };
        let evicting = || StageRequest { evict: true, ..request(3) };
        assert_eq!(codes(budget(rolling(&json!({}))), &request(3)), [WarningCode::DisruptionBudget]);
        assert_eq!(codes(budget(rolling(&json!({}))), &evicting()), []);
        let several = planned(budget(budget(rolling(&json!({})))), &evicting());
        assert_eq!(several.unwrap_err(), StageRefusal::SeveralBudgets(names(&["agent", "agent"])));
        assert!(planned(budget(budget(rolling(&json!({})))), &request(3)).is_ok());
        let mut failing = budget(rolling(&json!({})));
        let failed =
            json!([{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no scale"}]);
        failing.snapshot.pod_disruption_budgets[0].status.conditions = serde_json::from_value(failed).unwrap();
        let (budget_name, why) = ("agent".to_owned(), "no scale".to_owned());
        let fails = StageRefusal::BudgetFails { budget: budget_name, why };
        assert_eq!(planned(failing, &evicting()).unwrap_err(), fails);

        let quota = "pods \"agent-x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, \
                     limited: pods=2";
        assert_eq!(codes(rolling(&json!({})).refusal(quota), &request(3)), [WarningCode::CreationRefused]);
        // No pod is replaced.
        assert_eq!(codes(rolling(&json!({})).refusal(quota), &request(4)), []);

        // The controller of an Advanced DaemonSet replaces the pods, unless it replaces none.
        let advanced = |world: World| world.daemon_set(json!({"apiVersion": "apps.kruise.io/v1beta1"}));
        let of_advanced = |world: World| codes(budget(advanced(world)), &request(3));
        assert_eq!(of_advanced(rolling(&json!({"maxUnavailable": 1}))), []);
        assert_eq!(of_advanced(rolling(&json!({"maxUnavailable": 1, "paused": true}))), [WarningCode::Paused]);
        assert_eq!(of_advanced(rollout(&json!({"type": "OnDelete"}))), [WarningCode::OnDelete]);
        let report = planned(advanced(rolling(&json!({"maxUnavailable": 2}))), &request(1)).unwrap().report;
        assert_eq!((report.update, report.nodes, report.max_unavailable), (3, Vec::new(), 2));
        assert!(!report.restores_strategy);
    }

    /// The controller does that as soon as the update strategy is restored, and never under OnDelete.
    #[test]
    fn pods_on_nodes_that_are_not_eligible_are_lost_with_the_last_stage() {
        let cordoned = || json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
        let of = |strategy: Value, keep| {
            codes(rollout(&strategy).node("m", cordoned()).pod("agent-m", "m", old()), &request(keep))
        };
        // Besides, one of the nodes is down.
        assert_eq!(of(json!({"type": "RollingUpdate"}), 0), [WarningCode::NodesDown, WarningCode::NotRecreated]);
        assert_eq!(of(json!({"type": "RollingUpdate"}), 1), []);
        assert_eq!(of(json!({"type": "OnDelete"}), 0), []);
    }

    #[test]
    fn unread_budgets_matter_unless_pods_are_evicted() {
        let of = |evict: bool| {
            let mut world = rolling(&json!({}));
            let cause = GapCause::Forbidden("list poddisruptionbudgets".to_owned());
            world.snapshot.gaps.push(Gap { kind: Kind::PodDisruptionBudgets, namespace: None, cause });
            let incomplete = planned(world, &StageRequest { evict, ..request(3) }).unwrap().report.incomplete;
            incomplete.into_iter().map(|one| one.resource).collect::<Vec<_>>()
        };
        assert_eq!((of(false), of(true)), (names(&["poddisruptionbudgets"]), Vec::new()));
    }

    /// Of two clients, the first one yields: whoever starts the second one must know.
    #[test]
    fn a_run_that_has_not_finished_its_stage_is_named() {
        let gates = || StageFlags { progress_deadline_seconds: 600, ..Default::default() };
        let told_if = |skipped: &[&str], request: &StageRequest, partition: &str, run: &str, gates: &str| {
            let annotations = json!({"kubectl-ds/original-update-strategy": "{\"type\":\"RollingUpdate\"}",
                "kubectl-ds/held-since": at("11:30:00"), "kubectl-ds/partition": partition, "kubectl-ds/run": run,
                "kubectl-ds/gates": gates});
            let patch = json!({"metadata": {"annotations": annotations},
                "spec": {"updateStrategy": {"type": "OnDelete"}}});
            let mut world = world().daemon_set(patch).revision_of_image("hash1", 1, "agent:1");
            for (number, hash) in ["hash1", "hash1", "hash2"].into_iter().enumerate() {
                let labels = json!({"controller-revision-hash": hash, "pod-template-generation": null});
                let node = format!("n{number}");
                let metadata = json!({"metadata": {"labels": labels}});
                let skip = if skipped.contains(&&*node) { json!({SKIP_LABEL: ""}) } else { json!({}) };
                world = world.node(&node, json!({"metadata": {"labels": skip}})).pod(
                    &format!("agent-{number}"),
                    &node,
                    metadata,
                );
            }
            let snapshot = world.finish();
            let planned =
                plan(&Situation::new(&Index::new(&snapshot), &snapshot.daemon_sets[0]), request, None).unwrap();
            let others = planned.report.warnings.into_iter().filter(|warning| warning.code == WarningCode::OtherRun);
            others.map(|warning| warning.message).collect::<Vec<_>>()
        };
        let told_of = |request: &StageRequest, partition: &str, run: &str, gates: &str| {
            told_if(&[], request, partition, run, gates)
        };
        let told_by = |request: &StageRequest, partition: &str, run: &str| {
            told_of(request, partition, run, &gates().to_annotation())
        };
        let told = |partition: &str, run: &str| told_by(&request(0), partition, run);
        let run = format!("{} 4711", at("11:59:00"));
        let [message] = &told("1", &run)[..] else { panic!() };
        let open = "the stage of the last run (process 4711), begun 60s ago, is not complete, and no pod was created since: if that run";
        assert!(message.starts_with(open), "{message}");
        // The node that is skipped is the one that is kept, so that the other run replaces the pod of the other one.
        let told_skipping = |skipped: &[&str]| told_if(skipped, &request(0), "1", &run, &gates().to_annotation()).len();
        assert_eq!((told_skipping(&["n0"]), told_skipping(&["n0", "n1"])), (1, 0));
        // Nobody knows how long the command of --verify takes, or what was edited away.
        let early = format!("{} 4711", at("11:20:00"));
        for flags in [StageFlags { verifies: true, ..gates() }.to_annotation(), String::new()] {
            let [message] = &told_of(&request(0), "1", &early, &flags)[..] else { panic!() };
            let open = "the stage of the last run (process 4711), begun 40m ago, is not complete, and the last new pod was created 30m ago: if";
            assert!(message.starts_with(open), "{message}");
        }
        // It makes no progress for longer than it would have waited.
        let late = format!("{} 4711", at("11:20:00"));
        let [message] = &told("1", &late)[..] else { panic!() };
        assert!(
            message.starts_with(
                "the stage of the last run (process 4711), begun 40m ago, is not complete, and that run has ended"
            ),
            "{message}"
        );
        // Its stage is finished, or it is this run.
        assert_eq!(told("2", &run), [""; 0]);
        // Under another template, all nodes are old.
        assert_eq!(told_by(&request_of_image(0), "2", &run), [""; 0]);
        assert_eq!(told_by(&request_of_image(0), "1", &run).len(), 1);
        assert_eq!(told("1", "run 1"), [""; 0]);
        assert_eq!(told("1", "run"), [""; 0], "it takes back its own stage");
        // It stops once the template is not what it was about.
        let of_generation =
            |generation| StageFlags { template_generation: Some(generation), ..gates() }.to_annotation();
        assert_eq!(told_of(&request(0), "1", &run, &of_generation(2)).len(), 1);
        assert_eq!(told_of(&request(0), "1", &run, &of_generation(1)), [""; 0]);
    }

    /// Somebody else has changed the template, or taken it back, while it was held.
    #[test]
    fn whoever_continues_a_stage_learns_that_it_is_about_another_template() {
        let begun = |request: &StageRequest| {
            let before = rolling(&json!({})).finish();
            let index = Index::new(&before);
            let situation = Situation::new(&index, &before.daemon_sets[0]);
            let planned = plan(&situation, request, None).unwrap();
            planned.plan.applied_to(&situation.daemon_set.object).unwrap()
        };
        // As the API server increments it.
        let continued = |begun: &Value, generation: &str, request: &StageRequest| {
            let metadata = json!({"annotations": {"deprecated.daemonset.template.generation": generation}});
            let world = rolling(&json!({})).daemon_set(begun.clone()).daemon_set(json!({"metadata": metadata}));
            let report = planned(world, request).unwrap().report;
            let warnings = report.warnings.iter().map(|warning| warning.code);
            let is_told = warnings.clone().any(|code| code == WarningCode::AnotherTemplate);
            assert_eq!(is_told, report.warnings.iter().any(|it| risks_of(&report).contains(&it.message)), "{report:?}");
            is_told
        };
        let (live, new) = (begun(&request(3)), begun(&request_of_image(3)));
        for (begun, generation, request, is_told) in [
            (&live, "2", request(0), false),
            (&live, "3", request(0), true),
            (&live, "3", request(3), true),
            (&new, "3", request(0), false),
            (&new, "4", request(0), true),
            // It was never written.
            (&new, "2", request(0), true),
            // They name a template.
            (
                &live,
                "3",
                StageRequest { template: NewTemplate::Images(vec![("agent".into(), "agent:4".into())]), ..request(0) },
                false,
            ),
            (&live, "unknown", request(0), false),
        ] {
            assert_eq!(continued(begun, generation, &request), is_told, "{generation} {request:?}");
        }
        // Once it is continued, it is what the stage is about.
        let world = || rolling(&json!({})).daemon_set(live.clone());
        let at = |generation: &str| json!({"metadata": {"annotations": {"deprecated.daemonset.template.generation": generation}}});
        let changed = world().daemon_set(at("3")).finish();
        let index = Index::new(&changed);
        let situation = Situation::new(&index, &changed.daemon_sets[0]);
        let again = plan(&situation, &request(2), None).unwrap().plan.applied_to(&situation.daemon_set.object).unwrap();
        assert!(!continued(&again, "3", &request(0)));
    }

    fn risks_of(report: &PartitionReport) -> Vec<String> {
        let snapshot = rolling(&json!({})).finish();
        crate::rollout::risks::risks_of_stage(report, &snapshot.daemon_sets[0], &snapshot)
    }
}
