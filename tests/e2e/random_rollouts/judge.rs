//! Compares what `status` says about every recorded state with what the controller did next.
//!
//! The controller acts on what its watches have delivered, which may be slightly stale. So each of its steps must be
//! exactly what `status` predicts for some state between the previous step and this one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kubectl_ds::report::reason::ReasonCode;
use kubectl_ds::report::rollout_status::{RolloutStatus, Verdict};
use kubectl_ds::scheduling::daemon_pods::target_node;

use super::accepted::{is_wrongly_accepted, nodes_blamed_in_vain};
use super::audit::Deleter;
use super::recorder::{Change, Object};
use super::state::{State, is_eligible};

/// How old what the controller knows of nodes and of the DaemonSet may be.
const LAG: SignedDuration = SignedDuration::from_secs(10);

/// How many combinations of old states are tried to explain an action: what they explain, the first ones do.
const MOST_ATTEMPTS: usize = 20_000;

/// The least time for which what is only slow is given.
const GIVEN_TIME: SignedDuration = SignedDuration::from_secs(60);

/// How much later than the controller the test may receive a change.
const DELAY: SignedDuration = SignedDuration::from_secs(1);

/// How many steps were compared, and how.
#[derive(Debug, Default, Clone, Copy)]
pub struct Compared {
    pub states: usize,
    pub steps: usize,
    pub actions: usize,
    /// Steps that only a state before the end of the previous step explains.
    pub stale: usize,
}

#[derive(Debug, PartialEq)]
enum What {
    Create { node: String },
    Delete { pod: String, node: String },
}

/// What the controller did.
#[derive(Debug)]
struct Action {
    /// The change that shows it.
    at: usize,
    what: What,
    /// Whether the request may have come too late to matter.
    is_optional: bool,
}

/// Returns what the controller did, in order.
fn actions(changes: &[Arc<Change>], states: &[State], deleters: &HashMap<String, Deleter>) -> Vec<Action> {
    let mut actions = Vec::new();
    for (at, change) in changes.iter().enumerate() {
        let Object::Pod(pod) = &change.object else { continue };
        let node = target_node(pod).unwrap_or_default().to_owned();
        let before = at.checked_sub(1).and_then(|before| states[before].pod(&change.name));
        let is_gone = change.is_deleted || pod.metadata.is_terminating();
        let what = match before {
            None if !change.is_deleted => What::Create { node },
            Some(before) if is_gone && !before.metadata.is_terminating() => {
                What::Delete { pod: change.name.clone(), node }
            }
            _ => continue,
        };
        let by = deleters.get(&change.name).copied().unwrap_or(Deleter::Other);
        if matches!(what, What::Create { .. }) || by != Deleter::Other {
            let is_optional = matches!(what, What::Delete { .. }) && by == Deleter::Both;
            actions.push(Action { at, what, is_optional });
        }
    }
    actions
}

/// The recorded history of one rollout.
pub struct Judge<'a> {
    changes: &'a [Arc<Change>],
    states: Vec<State>,
    actions: Vec<Action>,
    end: Timestamp,
}

impl<'a> Judge<'a> {
    pub fn new(changes: &'a [Arc<Change>], deleters: &HashMap<String, Deleter>) -> Self {
        let states = State::all(changes);
        let actions = actions(changes, &states, deleters);
        Judge { changes, states, actions, end: Timestamp::now() }
    }

    /// Compares everything.
    pub fn judge(&self) -> Result<Compared, String> {
        let mut compared = Compared { actions: self.actions.len(), ..Compared::default() };
        self.steps(&mut compared)?;
        for at in 0..self.states.len() {
            compared.states += usize::from(self.state(at)?);
        }
        Ok(compared)
    }

    /// Explains the actions, step by step.
    fn steps(&self, compared: &mut Compared) -> Result<(), String> {
        // For each number of actions that can be explained: how many steps and stale ones it takes.
        let mut explained: BTreeMap<usize, (usize, usize)> = BTreeMap::from([(0, (0, 0))]);
        let mut last = 0;
        while let Some((from, (steps, stale))) = explained.pop_first() {
            last = from;
            if from == self.actions.len() {
                (compared.steps, compared.stale) = (steps, stale);
                return Ok(());
            }
            let mut ends = self.ends(from, self.window(from));
            let mut is_stale = 0;
            if ends.is_empty() {
                ends = self.ends(from, (self.window(from.saturating_sub(40)).0, self.window(from).1));
                is_stale = 1;
            }
            for end in ends {
                let found = (steps + 1, stale + is_stale);
                explained.entry(end).and_modify(|best| *best = found.min(*best)).or_insert(found);
            }
        }
        Err(self.unexplained(last))
    }

    /// Returns the states that the controller may have had before an action.
    fn window(&self, from: usize) -> (usize, usize) {
        let lowest = from.checked_sub(1).map_or(0, |before| self.actions[before].at);
        (lowest, self.actions[from].at.saturating_sub(1))
    }

    /// Returns up to which actions a step beginning with one of them may reach.
    fn ends(&self, from: usize, (low, high): (usize, usize)) -> BTreeSet<usize> {
        let found: BTreeSet<usize> = (low..=high).rev().flat_map(|at| self.ends_of(from, at, at, at)).collect();
        if !found.is_empty() {
            return found;
        }
        // Each watch of the controller is as old as it happens to be.
        let oldest = self.changes[low].at.checked_sub(LAG).unwrap();
        let of = |is: fn(&Object) -> bool| -> Vec<usize> {
            let recent = (0..=high).rev().filter(|&at| self.changes[at].at >= oldest && is(&self.changes[at].object));
            recent.chain([high]).collect()
        };
        let mut nodes = of(|object| matches!(object, Object::Node(_)));
        nodes.dedup_by(|older, newer| self.states[*older].has_same_nodes(&self.states[*newer]));
        let configs = of(|object| matches!(object, Object::DaemonSet(_) | Object::Revision(_)));
        let pods: Vec<usize> =
            (low..=high).rev().filter(|&at| at == low || matches!(self.changes[at].object, Object::Pod(_))).collect();
        for (nodes, config, pods) in nodes
            .iter()
            .flat_map(|nodes| configs.iter().map(move |config| (nodes, config)))
            .flat_map(|(nodes, config)| pods.iter().map(move |pods| (*nodes, *config, *pods)))
            .take(MOST_ATTEMPTS)
        {
            let ends = self.ends_of(from, pods, nodes, config);
            if !ends.is_empty() {
                return ends.into_iter().collect();
            }
        }
        BTreeSet::new()
    }

    fn ends_of(&self, from: usize, pods: usize, nodes: usize, config: usize) -> Vec<usize> {
        let times = self.times(pods, self.changes[self.actions[from].at].at);
        let of_time = |now: Timestamp| {
            let (state, nodes) = (&self.states[pods], &self.states[nodes]);
            let status = state.status_with(nodes, &self.states[config], now)?;
            let in_one_sync = after_upkeep(state, &status);
            let steps = [Some(status), in_one_sync].into_iter().flatten();
            Some(steps.filter_map(|status| self.reach(from, state, nodes, &status)).collect::<Vec<_>>())
        };
        times.into_iter().filter_map(of_time).flatten().collect()
    }

    /// Returns the times between a state and an action that differ in which pods are available.
    fn times(&self, state: usize, end: Timestamp) -> Vec<Timestamp> {
        let state_at = self.changes[state].at.checked_sub(DELAY).unwrap();
        let state = &self.states[state];
        let min_ready = state.daemon_set().map_or(0, |daemon_set| daemon_set.spec.min_ready_seconds);
        if min_ready == 0 {
            return vec![end];
        }
        let available = state.pods().filter_map(|pod| {
            let ready = pod.condition("Ready")?.last_transition_time.get()?;
            ready.checked_add(SignedDuration::from_secs(min_ready)).ok()
        });
        let times: BTreeSet<Timestamp> =
            available.filter(|at| *at > state_at && *at < end).chain([state_at, end]).collect();
        times.into_iter().collect()
    }

    /// Returns how far the actions are what is predicted, if nothing predicted is left out.
    fn reach(&self, from: usize, state: &State, nodes: &State, status: &RolloutStatus) -> Option<usize> {
        let next = &status.next;
        let surges = status.budget.as_ref().is_some_and(|budget| budget.field.name() == "maxSurge");
        let mut creates: BTreeSet<&str> = next.create_on.iter().map(String::as_str).collect();
        let mut deletes: BTreeSet<&str> = next.delete.iter().map(String::as_str).collect();
        let mut candidates: BTreeSet<&str> = next.candidates.iter().map(String::as_str).collect();
        let mut replace = next.replace;
        let mut to = from;
        for action in &self.actions[from..] {
            let is_predicted = match &action.what {
                What::Create { node } => {
                    creates.remove(node.as_str())
                        || (surges && replace > 0 && candidates.remove(node.as_str()) && {
                            replace -= 1;
                            true
                        })
                }
                What::Delete { pod, node } => {
                    let is_failed = || state.pod(pod).is_some_and(|pod| pod.status.phase == "Failed");
                    let may_go = !surges || nodes.nodes.get(node.as_str()).is_some();
                    deletes.remove(pod.as_str())
                        || (may_go && replace > 0 && state.pod(pod).is_some() && candidates.remove(node.as_str()) && {
                            replace -= 1;
                            true
                        })
                        // A failed pod is deleted when its backoff is over.
                        || is_failed()
                        || action.is_optional
                }
            };
            if !is_predicted {
                break;
            }
            to += 1;
        }
        if to == from {
            return None;
        }
        // Failed pods whose backoff is over are deleted before the rolling update, which then has to wait: `updateDaemonSet`,
        // pkg/controller/daemon/daemon_controller.go, release 1.37.2.
        let is_failed = |action: &Action| match &action.what {
            What::Delete { pod, .. } => state.pod(pod).is_some_and(|pod| pod.status.phase == "Failed"),
            What::Create { .. } => false,
        };
        if next.replace > 0 && self.actions[from..to].iter().all(is_failed) {
            return Some(to);
        }
        // Somebody else may have deleted a pod before the controller did.
        let after = &self.states[self.actions[to - 1].at];
        let is_gone = |pod: &&str| after.pod(pod).is_none_or(|pod| pod.metadata.is_terminating());
        let lost = candidates.iter().filter(|node| {
            !state.pods().any(|pod| target_node(pod) == Some(**node) && !is_gone(&pod.metadata.name.as_str()))
        });
        (creates.is_empty() && deletes.iter().all(is_gone) && replace <= lost.count()).then_some(to)
    }

    fn unexplained(&self, from: usize) -> String {
        let action = &self.actions[from];
        let (low, high) = self.window(from);
        let mut text = format!("unexplained: {:?} and then", action.what);
        for action in self.actions.iter().skip(from + 1).take(12) {
            text += &format!(" {}:{:?}{}", action.at, action.what, if action.is_optional { "?" } else { "" });
        }
        for at in (low..=high).rev().take(12).collect::<Vec<_>>().into_iter().rev() {
            let status = self.states[at].status(self.changes[action.at].at);
            let said = status
                .map(|status| (status.verdict, status.budget.map(|budget| (budget.allowed, budget.used)), status.next));
            text += &format!("\n{}\n    {said:?}", self.describe(at));
        }
        text += &format!("\n{}", self.describe(action.at));
        text
    }

    fn describe(&self, at: usize) -> String {
        let change = &self.changes[at];
        let what = match &change.object {
            Object::Pod(pod) => format!(
                "pod {} on {} hash {:?} {} ready {} terminating {}",
                change.name,
                target_node(pod).unwrap_or_default(),
                pod.metadata.labels.get("controller-revision-hash"),
                pod.status.phase,
                pod.is_ready(),
                pod.metadata.is_terminating()
            ),
            Object::Node(node) => format!("node {} taints {:?}", change.name, node.spec.taints),
            Object::DaemonSet(daemon_set) => format!(
                "daemonset generation {} observed {}",
                daemon_set.metadata.generation, daemon_set.status.observed_generation
            ),
            Object::Revision(revision) => format!("revision {} {}", revision.revision, change.name),
        };
        format!("#{at} {} {} {what}{}", change.version, change.at, if change.is_deleted { " deleted" } else { "" })
    }

    /// Checks what is said of a state; returns whether there is anything to say.
    fn state(&self, at: usize) -> Result<bool, String> {
        let state = &self.states[at];
        let now = self.changes.get(at + 1).map_or(self.end, |next| next.at);
        if state.revisions.is_empty() {
            return Ok(false);
        }
        let Some(status) = state.status(now) else { return Ok(false) };
        let wrong = |what: &str| Err(format!("{what} at {}\n{}", self.describe(at), brief(&status)));
        if (status.verdict == Verdict::Complete) != state.is_complete(now) {
            return wrong("complete or not");
        }
        if is_wrongly_accepted(state, &status, now) {
            return wrong(&format!("{:?} accepts what is not a node's fault", status.accepted));
        }
        let blamed = nodes_blamed_in_vain(state, &status);
        if !blamed.is_empty() {
            return wrong(&format!("{blamed:?} are up and count as at fault"));
        }
        if let Some(budget) = &status.budget {
            let used: usize = budget.by.iter().map(|by| by.nodes.len()).sum();
            if used != budget.used {
                return wrong("users of the budget");
            }
        }
        let is_stopped = matches!(status.verdict, Verdict::Blocked | Verdict::Degraded | Verdict::Paused);
        if is_stopped && status.stalled_since.is_none() {
            let next = &status.next;
            // While surging, the controller recreates failed pods without a pause.
            let creates = next.create_on.iter().any(|node| !state.has_failed_on(node));
            // Pods on nodes that are no longer eligible are deleted at the next occasion, whatever stops the rollout.
            let not_eligible = next.candidates.iter().filter(|name| !state.is_eligible(name)).count();
            if creates || !next.delete.is_empty() || next.replace > not_eligible {
                return wrong("it stops and has a next step");
            }
            let progress = self.progress(at).filter(|progress| !self.was_decided_before(at, *progress));
            if let Some(progress) = progress.filter(|progress| !self.is_late(*progress, &status, now)) {
                return wrong(&format!("it went on by itself: {}", self.describe(progress)));
            }
        }
        Ok(true)
    }

    /// Returns whether a change is an action of the controller that was predicted right before a state: it was under way.
    fn was_decided_before(&self, at: usize, progress: usize) -> bool {
        let Object::Pod(pod) = &self.changes[progress].object else { return false };
        let node = target_node(pod).unwrap_or_default().to_owned();
        let is_action = self.actions.iter().any(|action| action.at == progress);
        let from = self.changes[at].at.checked_sub(DELAY).unwrap();
        let before = (0..at).rev().take_while(|before| self.changes[*before].at >= from);
        let is_predicted = |state: usize| {
            let Some(status) = self.states[state].status(self.changes[state + 1].at) else { return false };
            let next = &status.next;
            next.delete.contains(&self.changes[progress].name)
                || next.create_on.contains(&node)
                || (next.replace > 0 && next.candidates.contains(&node))
        };
        is_action && before.into_iter().any(is_predicted)
    }

    /// Returns whether a change is that of a pod that has taken longer than the time that it is given, as on a busy machine.
    fn is_late(&self, change: usize, status: &RolloutStatus, now: Timestamp) -> bool {
        let Object::Pod(pod) = &self.changes[change].object else { return false };
        let node = target_node(pod).unwrap_or_default();
        let is_over = |since: Option<Timestamp>| since.is_some_and(|since| now.duration_since(since) >= GIVEN_TIME);
        let late = status.problems.iter().filter(|cause| is_given_time(cause.code) && is_over(cause.since));
        late.flat_map(|cause| &cause.nodes).any(|late| late == node)
    }

    /// Returns the change after a state by which the rollout went on, although nobody had intervened.
    fn progress(&self, at: usize) -> Option<usize> {
        for next in at + 1..self.changes.len() {
            let (change, before) = (&self.changes[next], &self.states[next - 1]);
            let Object::Pod(pod) = &change.object else {
                let is_status = matches!(&change.object, Object::DaemonSet(daemon_set)
                    if before.daemon_set().is_some_and(|before| before.metadata.generation == daemon_set.metadata.generation));
                if is_status {
                    continue;
                }
                return None;
            };
            let Some(before) = before.pod(&change.name) else {
                match target_node(pod) {
                    Some(node) if before.has_failed_on(node) => continue,
                    _ => return Some(next),
                }
            };
            if before.status.phase == "Failed" {
                // The controller recreates failed pods in any case.
                return None;
            }
            if self.actions.iter().any(|action| action.at == next && !action.is_optional) {
                match target_node(pod) {
                    Some(node) if !self.states[next - 1].is_eligible(node) => continue,
                    _ => return Some(next),
                }
            }
            let after = &self.states[next];
            let node = target_node(pod);
            let is_missing =
                after.nodes().any(|other| Some(other.metadata.name.as_str()) == node && is_eligible(other))
                    && !after.pods().any(|other| target_node(other) == node);
            if change.is_deleted && before.metadata.is_terminating() && is_missing {
                return Some(next);
            }
            if change.is_deleted || pod.metadata.is_terminating() != before.metadata.is_terminating() {
                return None;
            }
            let ready = before.condition("Ready");
            if ready.is_some_and(|ready| ready.reason == "NodeNotReady") {
                // Its node has come back.
                return None;
            }
            match (before.is_ready(), pod.is_ready()) {
                (false, true) => return Some(next),
                (true, false) => return None,
                _ => {}
            }
        }
        None
    }
}

/// Returns what is predicted of a sync that has done its upkeep, if pods have failed meanwhile: the controller goes on to the
/// rolling update as soon as it has observed what it did, and sees them only in the next sync.
fn after_upkeep(state: &State, status: &RolloutStatus) -> Option<RolloutStatus> {
    let next = &status.next;
    let budget = status.budget.as_ref().filter(|budget| budget.field.name() == "maxSurge")?;
    let are_retries = next.create_on.iter().all(|node| state.has_failed_on(node));
    if next.create_on.is_empty() || !next.delete.is_empty() || !are_retries {
        return None;
    }
    let mut after = status.clone();
    after.next.create_on.clear();
    let left = usize::try_from(budget.allowed).unwrap_or(0).saturating_sub(budget.used);
    after.next.replace = left.min(next.candidates.len());
    Some(after)
}

/// Returns whether a reason is expected to pass, but only for some time.
fn is_given_time(code: ReasonCode) -> bool {
    use ReasonCode as R;
    // Whatever is the matter with a dead node comes before that its pods are stuck.
    matches!(
        code,
        R::SchedulerSilent | R::ContainersStarting | R::ReadinessFailing | R::StuckTerminating | R::Unexplained
    )
}

/// Returns what a failure has to tell of a status.
pub fn brief(status: &RolloutStatus) -> String {
    let RolloutStatus { verdict, counts, next, .. } = status;
    let budget = status.budget.as_ref().map(|budget| (budget.field.name(), budget.allowed, budget.used));
    let causes: Vec<_> =
        status.problems.iter().map(|cause| (cause.code, &cause.nodes, cause.since, cause.passing)).collect();
    format!("{verdict:?} {counts:?} {next:?} {budget:?} {causes:?} {:?} {:?}", status.suspect, status.way_out)
}
