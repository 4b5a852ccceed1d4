//! Whether DaemonSets are worse off than before: the difference of two assessments of them.
//!
//! | Situation | It is |
//! |---|---|
//! | a node had an available pod, and has none, or is no longer eligible | worse, also while a pod is starting |
//! | a node has a problem and had none, or a pod was starting and now fails | worse |
//! | a node has another problem than before | the same; the numbers of nodes by reason are shown |
//! | a node was removed, or no longer has to run a pod that failed | the same |
//! | nodes were replaced under other names | worse by those without a pod beyond their share among the nodes they replace |
//! | nodes have joined a pool | worse by those without a pod beyond their share among its other nodes |
//! | a pool is gone, and fewer nodes like its own were added elsewhere than it had | worse |
//! | a pool is gone, and enough nodes like its own were added | the same; which pools are assumed to replace it is shown |
//! | a rollout is blocked or degraded, or no node is eligible, which was not so | worse |
//! | a DaemonSet is gone | worse |
//! | a DaemonSet is new | worse by its nodes with a problem |
//! | a problem of the DaemonSet as a whole is new | worse |
//! | a pod was restarted three times or more, at least once a day, and twice as often as it, or the pod on its node, or the mean of all | worse |
//! | pods were restarted less often, as nodes that reboot do | the same |
//! | a node that failed has an available pod, or fewer of the nodes fail than of those that they replace | better |
//! | a rollout is no longer blocked, unless the nodes that failed were removed or are no longer eligible | better |
//! | there are more nodes, templates have changed, less is left for other pods, pods start later | the same |
//! | nodes or pods were not read on one side | not known |
//! | a DaemonSet is on one side only, and not all DaemonSets, or only another namespace, were read on the other one | not known |
//! | anything else was not read of BEFORE | problems that may follow from it are not known to be new, unless a node had an available pod |
//! | anything else was not read of AFTER | what may have followed from it is not known to be gone |
//!
//! What `--accept` accepts of `status` is accepted here, too; a reason code also of nodes that are no longer eligible, and `fewer-nodes`
//! of those, pools and DaemonSets that are gone.

mod nodes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::Value;

use self::nodes::{Members, Nodes};
use super::status::{Question, answer};
use crate::coverage::gaps;
use crate::coverage::options::{Detail, Options};
use crate::coverage::overhead::{OfNodes, overhead};
use crate::coverage::restarts_often;
use crate::coverage::walk::daemon_set_coverage;
use crate::difference::change_summary::in_a_few_words;
use crate::difference::difference;
use crate::facts::Facts;
use crate::facts::index::Index;
use crate::model::daemon_set::DaemonSet;
use crate::model::metadata::ObjectMeta;
use crate::model::node::INSTANCE_TYPE;
use crate::model::redacted::hides;
use crate::model::snapshot::{Gap, GapCause, Kind, Snapshot};
use crate::report::acceptance::{Accept, Acceptance};
use crate::report::age::seconds_between;
use crate::report::change::{Change, PathStep};
use crate::report::compare::{CompareReport, Comparison, DaemonSetComparison, Headroom, ReasonChange, Setback};
use crate::report::coverage::{Affected, DaemonSetCoverage, ReasonGroup};
use crate::report::fix::{Command, Fix};
use crate::report::list::Status;
use crate::report::node_coverage::{NodeCoverage, NodeState};
use crate::report::overhead::{Amount, OverheadReport};
use crate::report::reason::{Reason, ReasonCode};
use crate::report::rollout_status::{AcceptedNodes, RolloutStatus};

/// How many times as often as before.
const MORE_OFTEN: i128 = 2;

/// By how many seconds pods must start later.
const LATER: i64 = 30;

/// Of how many pods at least the median tells when pods are ready.
const LEAST_PODS: usize = 3;

/// What is compared beside the snapshots.
#[derive(Debug, Clone, Copy, Default)]
pub struct CompareOptions<'o> {
    /// What is accepted; if nothing is, what each DaemonSet says.
    pub accept: &'o [Acceptance],
    /// Whether the snapshots have all DaemonSets, so that what is left beside them is known.
    pub headroom: bool,
}

/// Compares the DaemonSets of a cluster with those of the same cluster before.
pub fn compare(before: &Snapshot, after: &Snapshot, options: &CompareOptions<'_>) -> CompareReport {
    let (index_before, index) = (Index::new(before), Index::new(after));
    let [unread_before, unread] = [before, after].map(unread);
    let fewer_nodes = options.accept.iter().any(|one| one.what == Accept::FewerNodes);
    let nodes = Nodes::new(&index_before, &index);
    let pools = nodes.pools(fewer_nodes);
    let comparison = Compared {
        nodes,
        fewer_nodes,
        is_news_known: unread.is_superset(&unread_before),
        is_end_known: unread_before.is_superset(&unread),
        seconds: after.now.as_second() - before.now.as_second(),
    };
    let before_by_name = agents(&index_before, &[]);
    let mut after_by_name = agents(&index, options.accept);
    let (mut daemon_sets, mut not_compared) = (Vec::new(), Vec::new());
    for (key, one) in &before_by_name {
        match after_by_name.remove(key) {
            None if may_lack(after, &key.0) => not_compared.push(format!("{}/{}", key.0, key.1)),
            now => daemon_sets.push(comparison.daemon_set(key, Some(one), now.as_ref())),
        }
    }
    for (key, new) in &after_by_name {
        match may_lack(before, &key.0) {
            true => not_compared.push(format!("{}/{}", key.0, key.1)),
            false => daemon_sets.push(comparison.daemon_set(key, None, Some(new))),
        }
    }
    let is_unread = |snapshot: &Snapshot| snapshot.gaps.iter().any(|gap| gap.kind == Kind::DaemonSets);
    daemon_sets.sort_by(|a, b| (a.verdict, &a.namespace, &a.name).cmp(&(b.verdict, &b.namespace, &b.name)));
    let is_gone = pools.iter().any(|pool| pool.gone && !pool.accepted);
    let worst = daemon_sets.first().map_or(Comparison::Same, |one| one.verdict);
    let is_better = || daemon_sets.iter().any(|one| one.verdict == Comparison::Better);
    let verdict = match worst {
        _ if is_gone => Comparison::Worse,
        Comparison::Worse | Comparison::Unknown => worst,
        _ if !not_compared.is_empty() || is_unread(before) || is_unread(after) => Comparison::Unknown,
        Comparison::Same | Comparison::Better if is_better() => Comparison::Better,
        Comparison::Same | Comparison::Better => Comparison::Same,
    };
    let resources = |kinds: &BTreeSet<Kind>, others: &BTreeSet<Kind>| {
        kinds.difference(others).map(|kind| kind.resource().to_owned()).collect::<Vec<_>>()
    };
    let (not_in_before, not_in_after) = (resources(&unread_before, &unread), resources(&unread, &unread_before));
    let mut incomplete = gaps::incomplete(after);
    for gap in gaps::incomplete(before) {
        if !incomplete.contains(&gap) {
            incomplete.push(gap);
        }
    }
    incomplete.retain(|gap| !not_in_before.contains(&gap.resource) && !not_in_after.contains(&gap.resource));
    let is_whole = not_in_before.is_empty() && not_in_after.is_empty() && not_compared.is_empty();
    let is_comparable = options.headroom && is_whole;
    CompareReport {
        before: (!before.is_now_estimated).then_some(before.now),
        now: after.now,
        seconds: (!before.is_now_estimated && !after.is_now_estimated).then_some(comparison.seconds),
        verdict,
        different_clusters: are_different(before, after),
        not_in_before,
        not_in_after,
        incomplete,
        nodes_before: index_before.knows_some_nodes().then_some(index_before.nodes.len()),
        nodes: index.knows_some_nodes().then_some(index.nodes.len()),
        pools,
        daemon_sets,
        not_compared,
        headroom: if is_comparable { headroom(before, after) } else { Vec::new() },
    }
}

/// Returns whether a snapshot may lack DaemonSets of a namespace that there were.
fn may_lack(snapshot: &Snapshot, namespace: &str) -> bool {
    let is_of = |gap: &Gap| gap.namespace.as_deref().is_none_or(|of| of == namespace);
    snapshot.only_namespace.as_deref().is_some_and(|only| only != namespace)
        || snapshot.gaps.iter().any(|gap| gap.kind == Kind::DaemonSets && is_of(gap))
}

/// Returns the kinds that could not be read and that a difference may follow from.
fn unread(snapshot: &Snapshot) -> BTreeSet<Kind> {
    use Kind::{
        ControllerRevisions, DaemonSets, Events, Leases, LimitRanges, Nodes, Pods, PriorityClasses, RuntimeClasses,
    };
    let kinds =
        [DaemonSets, ControllerRevisions, Nodes, Pods, Events, Leases, LimitRanges, RuntimeClasses, PriorityClasses];
    let is_whole = |cause: &GapCause| !matches!(cause, GapCause::ForbiddenElsewhere(_) | GapCause::Unreadable { .. });
    let gaps = snapshot.gaps.iter().filter(|gap| kinds.contains(&gap.kind) && is_whole(&gap.cause));
    gaps.map(|gap| gap.kind).collect()
}

/// Returns whether two snapshots are most likely of different clusters: the namespace that each cluster has is another one, or no
/// DaemonSet and no node is the same object.
fn are_different(before: &Snapshot, after: &Snapshot) -> bool {
    let system = |snapshot: &Snapshot| {
        let system = snapshot.namespaces.iter().find(|namespace| namespace.metadata.name == "kube-system");
        system.map(|namespace| namespace.metadata.uid.clone()).filter(|uid| !uid.is_empty())
    };
    if let (Some(before), Some(after)) = (system(before), system(after)) {
        return before != after;
    }
    fn uids(snapshot: &Snapshot) -> impl Iterator<Item = &String> {
        let objects =
            snapshot.daemon_sets.iter().map(|one| &one.metadata).chain(snapshot.nodes.iter().map(|one| &one.metadata));
        objects.map(|metadata: &ObjectMeta| &metadata.uid).filter(|uid| !uid.is_empty())
    }
    let known: BTreeSet<&String> = uids(before).collect();
    let mut others = uids(after).peekable();
    !known.is_empty() && others.peek().is_some() && !others.any(|uid| known.contains(uid))
}

/// What is known of a DaemonSet on one side.
struct Agent<'a> {
    daemon_set: &'a DaemonSet,
    coverage: DaemonSetCoverage,
    rollout: Option<RolloutStatus>,
    is_known: bool,
    /// Its pods by name.
    pods: HashMap<&'a str, Restarts>,
    /// For the pods that were never restarted, by name, how many seconds after their creation they were ready.
    ready_after: HashMap<&'a str, i64>,
}

/// How often containers were restarted in a time.
#[derive(Debug, Clone, Copy, Default)]
struct Restarts {
    count: i64,
    seconds: i64,
}

impl Restarts {
    /// Returns whether they were many, and happened more often than others.
    fn are_worse_than(self, before: Restarts) -> bool {
        let product = |count: i64, seconds: i64| i128::from(count) * i128::from(seconds);
        restarts_often(self.count, self.seconds)
            && product(self.count, before.seconds) > MORE_OFTEN * product(before.count, self.seconds)
    }

    fn and(self, other: Restarts) -> Restarts {
        Restarts { count: self.count + other.count, seconds: self.seconds + other.seconds }
    }
}

type Key = (String, String);

fn agents<'a>(index: &'a Index<'a>, accept: &[Acceptance]) -> BTreeMap<Key, Agent<'a>> {
    let question = Question { accept, ..Question::default() };
    let rollouts = answer(index.snapshot, &question).daemon_sets.into_iter();
    let mut rollouts: BTreeMap<Key, RolloutStatus> =
        rollouts.map(|one| ((one.namespace.clone(), one.name.clone()), one)).collect();
    let agent = |daemon_set: &'a DaemonSet| {
        let ObjectMeta { namespace, name, .. } = &daemon_set.metadata;
        let key = (namespace.clone(), name.clone());
        let facts = Facts::new(index, daemon_set);
        let (mut pods, mut ready_after) = (HashMap::new(), HashMap::new());
        for pod in facts.pods() {
            let Some(created) = pod.metadata.creation_timestamp.get() else { continue };
            let (name, restarts) = (pod.metadata.name.as_str(), pod.restarts());
            pods.insert(name, Restarts { count: restarts, seconds: seconds_between(created, index.now()) });
            let ready = pod.condition("Ready").filter(|ready| ready.status == "True" && restarts == 0);
            let ready = ready.and_then(|ready| ready.last_transition_time.get());
            ready_after.extend(ready.map(|ready| (name, seconds_between(created, ready))));
        }
        let agent = Agent {
            daemon_set,
            coverage: daemon_set_coverage(&facts, &Options { detail: Detail::Nodes, ..Options::default() }),
            rollout: rollouts.remove(&key),
            is_known: facts.knows_nodes_and_pods(),
            pods,
            ready_after,
        };
        (key, agent)
    };
    index.daemon_sets().into_iter().map(agent).collect()
}

impl Agent<'_> {
    fn rows(&self) -> HashMap<&str, &NodeCoverage> {
        self.coverage.nodes.iter().map(|row| (row.name.as_str(), row)).collect()
    }

    /// Returns the group that a node is shown in.
    fn group_of(&self) -> HashMap<&str, &ReasonGroup> {
        let groups = self.coverage.not_eligible.iter().chain(&self.coverage.problems);
        groups.flat_map(|group| group.nodes.iter().map(move |node| (node.as_str(), group))).collect()
    }

    fn status(&self) -> Option<Status> {
        self.rollout.as_ref().map(|rollout| rollout.status)
    }

    /// Returns what is accepted, with the nodes that are missing.
    fn accepts(&self) -> impl Iterator<Item = &AcceptedNodes> {
        self.rollout.iter().filter_map(|rollout| rollout.accepted.as_ref()).flat_map(|accepted| &accepted.by)
    }

    /// Returns the nodes that are missing and accepted.
    fn accepted(&self) -> BTreeSet<&str> {
        self.accepts().filter(|by| !by.exceeds()).flat_map(|by| by.nodes.iter().map(String::as_str)).collect()
    }
}

/// Returns whether a node has an available pod; one that would not be created again counts, too.
fn has_pod(row: &NodeCoverage) -> bool {
    row.state == NodeState::Available
        || (row.state == NodeState::Misscheduled && row.pods.iter().any(|pod| pod.available))
}

/// Returns why a node needs attention.
fn problem(row: &NodeCoverage) -> Option<&Reason> {
    let is_none = matches!(row.state, NodeState::NotEligible | NodeState::Unknown);
    row.reasons.first().filter(|_| !is_none)
}

/// Returns the share of `all` that `part` of `whole` is, rounded down.
fn share(part: usize, whole: usize, all: usize) -> usize {
    (part * all).checked_div(whole).unwrap_or_default()
}

/// A node that is worse off.
#[derive(Default)]
struct Worse<'a> {
    node: &'a str,
    had_pod: bool,
    is_new: bool,
    /// Whether it may have been so before.
    is_unconfirmed: bool,
}

/// What has become of the nodes of a DaemonSet.
#[derive(Default)]
struct Moves<'a> {
    worse: Vec<Worse<'a>>,
    /// Nodes that had no available pod, and have one.
    gained: Vec<&'a str>,
    /// On how many nodes, or those that replace them, a problem has ended.
    recovered: usize,
    /// Whether a node that failed was removed or is no longer eligible, which ends what it had caused.
    has_shed: bool,
}

/// What a comparison of DaemonSets needs beside them.
struct Compared<'a> {
    nodes: Nodes<'a>,
    fewer_nodes: bool,
    /// Whether what is now was not there before, rather than not read.
    is_news_known: bool,
    /// Whether what was before is no longer there, rather than not read.
    is_end_known: bool,
    /// How much later the second snapshot is.
    seconds: i64,
}

impl Compared<'_> {
    fn daemon_set(&self, key: &Key, before: Option<&Agent<'_>>, after: Option<&Agent<'_>>) -> DaemonSetComparison {
        let is_known = before.into_iter().chain(after).all(|agent| agent.is_known);
        let counts = |agent: Option<&Agent<'_>>| agent.map(|agent| agent.coverage.counts.clone());
        let mut one = DaemonSetComparison {
            namespace: key.0.clone(),
            name: key.1.clone(),
            status_before: before.and_then(Agent::status),
            status: after.and_then(Agent::status),
            stopped: Some(false),
            gone: after.is_none() && !self.fewer_nodes,
            counts_before: counts(before),
            counts: counts(after),
            ..DaemonSetComparison::default()
        };
        let Some(after) = after else {
            one.verdict = if one.gone { Comparison::Worse } else { Comparison::Same };
            return one;
        };
        if let Some(before) = before {
            one.template_changes = template_changes(before.daemon_set, after.daemon_set);
            let [was, is] = [before, after].map(|agent| &agent.coverage.strategy);
            if was != is {
                (one.strategy_before, one.strategy) = (Some(was.clone()), Some(is.clone()));
            }
            self.restarts(before, after, &mut one);
            later(before, after, &mut one);
            if self.is_news_known && self.is_end_known {
                one.reasons = reasons(before, after);
            }
        }
        let had =
            |code| before.is_some_and(|before| before.coverage.concerns.iter().any(|concern| concern.code == code));
        let concerns = after.coverage.concerns.iter().filter(|concern| !had(concern.code)).cloned().collect();
        let are_new = before.is_none() || self.is_news_known;
        *(if are_new { &mut one.new_concerns } else { &mut one.unconfirmed_concerns }) = concerns;
        let moves = is_known.then(|| self.moves(before, after));
        if let Some(moves) = &moves {
            one.setbacks = self.setbacks(after, &moves.worse);
            one.gained = moves.gained.iter().map(|name| (*name).to_owned()).collect();
        }
        one.stopped = self.is_stopped(before, after, &one.setbacks);
        let is_worse = one.stopped == Some(true) || !one.new_concerns.is_empty() || !one.restarting.is_empty();
        let is_open = one.stopped.is_none() || !one.unconfirmed_concerns.is_empty();
        let details = |one: &DaemonSetComparison| {
            let coverage = Command::kubectl(&["ds", "coverage"]).namespace(&key.0);
            // Of all nodes, only what is wrong now is shown, and not which pods are gone or have been restarted.
            let node = one.counted().flat_map(|setback| &setback.nodes).chain(&one.restarting).next();
            let coverage = node.into_iter().fold(coverage, |coverage, node| coverage.flag("--node", node.as_str()));
            match one.verdict {
                Comparison::Worse | Comparison::Unknown => Some(Fix::new("for details", coverage.name(&key.1))),
                Comparison::Same | Comparison::Better => None,
            }
        };
        one.verdict = match (moves, before) {
            _ if is_worse || one.counted().next().is_some() => Comparison::Worse,
            (None, _) => Comparison::Unknown,
            _ if is_open || one.setbacks.iter().any(|setback| setback.unconfirmed) => Comparison::Unknown,
            (Some(moves), Some(before)) if self.is_better(before, after, &moves) => Comparison::Better,
            _ => Comparison::Same,
        };
        one.details = details(&one);
        one
    }

    /// Returns what has become of the nodes of a DaemonSet.
    fn moves<'a>(&'a self, before: Option<&'a Agent<'_>>, after: &'a Agent<'_>) -> Moves<'a> {
        let rows = after.rows();
        let mut moves = Moves::default();
        let Some(before) = before else {
            let failing = after.coverage.nodes.iter().filter(|row| problem(row).is_some());
            moves.worse = failing.map(|row| Worse { node: &row.name, ..Worse::default() }).collect();
            return moves;
        };
        let rows_before = before.rows();
        let fails = |row: &NodeCoverage| row.should_run && problem(row).is_some();
        let may_fail = |name: &str| rows.get(name).is_some_and(|row| row.should_run);
        moves.has_shed = rows_before.iter().any(|(name, row)| fails(row) && !may_fail(name));
        for &node in self.nodes.names_before.intersection(&self.nodes.names_after) {
            let (was, is) = (rows_before.get(node), rows.get(node));
            let [had, has] = [was, is].map(|row| row.is_some_and(|row| has_pod(row)));
            let [problem_before, problem] = [was, is].map(|row| row.and_then(|row| problem(row)));
            let is_new = problem.is_some_and(|now| match problem_before {
                None => true,
                Some(before) => before.passing && !now.passing,
            });
            let had_pod = had && !has;
            // What an eligible node without a known problem lacked may not have been read.
            let is_unconfirmed = !had_pod && !self.is_news_known && was.is_some_and(|was| was.should_run);
            if had_pod || is_new {
                moves.worse.push(Worse { node, had_pod, is_unconfirmed, is_new: false });
            }
            let Some(was) = was else { continue };
            moves.gained.extend((has && !had).then_some(node));
            let has_ended = problem_before.is_some() && problem.is_none() && (has || !was.should_run);
            moves.recovered += usize::from(has_ended);
        }
        for Members { before: all, removed, added } in self.nodes.groups.values() {
            // What a node of the pool may be expected to have: what those have that it replaces, or else the others.
            let like = if removed.is_empty() { all } else { removed };
            let like: Vec<&&NodeCoverage> = like.iter().filter_map(|node| rows_before.get(*node)).collect();
            let without = |row: &NodeCoverage| problem(row).is_some() && !has_pod(row);
            let available = like.iter().filter(|row| has_pod(row)).count();
            let failing = like.iter().filter(|row| without(row)).count();
            let joined: Vec<&&NodeCoverage> = added.iter().filter_map(|node| rows.get(*node)).collect();
            let mut lacking: Vec<&NodeCoverage> = joined.iter().filter(|row| !has_pod(row)).map(|row| **row).collect();
            let now_available = joined.len() - lacking.len();
            let now_failing = lacking.iter().filter(|row| without(row)).count();
            let expected_available = share(available, like.len(), joined.len());
            let lost = expected_available.saturating_sub(now_available);
            // A share of failing nodes is rounded up.
            let expected = joined.len() - share(like.len() - failing, like.len(), joined.len());
            let expected = if like.is_empty() { 0 } else { expected };
            let short = lost.max(now_failing.saturating_sub(expected));
            lacking.sort_by_key(|row| (!without(row), &row.name));
            let short = lacking.into_iter().take(short).enumerate();
            let short = short.map(|(at, row)| Worse {
                node: &row.name,
                had_pod: at < lost,
                is_new: true,
                is_unconfirmed: false,
            });
            moves.worse.extend(short);
            if !removed.is_empty() {
                let more = now_available.saturating_sub(expected_available);
                moves.recovered += more.min(expected.saturating_sub(now_failing));
            }
        }
        moves
    }

    /// Puts nodes that are worse off together by reason.
    fn setbacks(&self, after: &Agent<'_>, worse: &[Worse<'_>]) -> Vec<Setback> {
        let (rows, groups, accepted) = (after.rows(), after.group_of(), after.accepted());
        let excluded = |node: &str| rows.get(node).is_some_and(|row| row.state == NodeState::NotEligible);
        let code_of = |node: &str| groups.get(node).map(|group| group.code);
        // `status` knows what is accepted of eligible nodes, and of those that are down; others that are excluded count beside them.
        let accepted_codes = after.accepts().filter_map(|by| {
            let Accept::Code(code) = by.what.what else { return None };
            let of_status: HashSet<&str> = by.nodes.iter().map(String::as_str).collect();
            let others = worse.iter().map(|one| one.node).filter(|one| excluded(one) && code_of(one) == Some(code));
            let others = others.filter(|one| !of_status.contains(one)).count();
            by.limit.is_none_or(|limit| by.nodes.len() + others <= limit).then_some(code)
        });
        let accepted_codes: HashSet<ReasonCode> = accepted_codes.collect();
        let is_accepted = |node: &str| {
            let by_code = |code: ReasonCode| accepted_codes.contains(&code);
            accepted.contains(node) || (excluded(node) && (self.fewer_nodes || code_of(node).is_some_and(by_code)))
        };
        let mut setbacks: Vec<Setback> = Vec::new();
        let mut known = HashMap::new();
        for one in worse {
            let group = groups.get(one.node);
            let message = group.map_or("", |group| group.message.as_str());
            let (code, accepted) = (code_of(one.node), is_accepted(one.node));
            let Worse { node, had_pod, is_new: new_nodes, is_unconfirmed } = *one;
            let unconfirmed = is_unconfirmed && !accepted;
            let index = *known.entry((code, had_pod, new_nodes, unconfirmed, message, accepted)).or_insert_with(|| {
                setbacks.push(Setback {
                    code,
                    had_pod,
                    new_nodes,
                    nodes: Vec::new(),
                    passing: group.is_some_and(|group| group.passing),
                    message: message.to_owned(),
                    unconfirmed,
                    accepted,
                });
                setbacks.len() - 1
            });
            setbacks[index].nodes.push(node.to_owned());
        }
        setbacks.sort_by_key(|one| (one.accepted, one.passing, std::cmp::Reverse(one.nodes.len())));
        setbacks
    }

    /// Returns whether a rollout has come to a standstill since, which is not accepted; `None` if it may have been so before.
    fn is_stopped(&self, before: Option<&Agent<'_>>, after: &Agent<'_>, setbacks: &[Setback]) -> Option<bool> {
        let was = before.and_then(Agent::status);
        let is_accepted = after.rollout.as_ref().is_some_and(RolloutStatus::counts_as_complete);
        let had_pods = before.is_some_and(|before| before.coverage.counts.available.unwrap_or_default() > 0);
        // A rollout may have been blocked by what was not read.
        let is_new = self.is_news_known || matches!(was, None | Some(Status::Healthy | Status::Paused));
        // Pods of nodes that were removed are deleted late.
        let DaemonSetCoverage { problems, concerns, .. } = &after.coverage;
        let is_surplus = || concerns.is_empty() && problems.iter().all(|group| group.code.is_about_surplus_pods());
        let is_stopped = match (was, after.status()) {
            (was, Some(Status::NoNodes)) => {
                // No node is left because of what is accepted.
                let is_accepted = !setbacks.is_empty() && setbacks.iter().all(|setback| setback.accepted);
                return Some(was != Some(Status::NoNodes) && had_pods && !self.fewer_nodes && !is_accepted);
            }
            (Some(Status::Blocked), Some(Status::Blocked | Status::Degraded)) => false,
            (_, Some(Status::Blocked)) => !is_accepted,
            (was, Some(Status::Degraded)) => !is_accepted && !is_surplus() && was != Some(Status::Degraded),
            _ => false,
        };
        if is_stopped && !is_new { None } else { Some(is_stopped) }
    }

    /// Returns whether more nodes have recovered than are worse off, or a problem of the DaemonSet as a whole is gone, given that what is
    /// worse is accepted.
    fn is_better(&self, before: &Agent<'_>, after: &Agent<'_>, moves: &Moves<'_>) -> bool {
        let has = |code| after.coverage.concerns.iter().any(|concern| concern.code == code);
        let is_stopped = |status| matches!(status, Some(Status::Blocked | Status::Degraded | Status::NotObserved));
        let goes_on = is_stopped(before.status())
            && matches!(after.status(), Some(Status::Healthy | Status::Paused | Status::Progressing))
            && !moves.has_shed;
        let ended = before.coverage.concerns.iter().any(|concern| !has(concern.code));
        moves.recovered > moves.worse.len() || (self.is_end_known && (goes_on || ended))
    }

    /// Counts restarts, and notes the nodes whose pods keep restarting and did not before.
    fn restarts(&self, before: &Agent<'_>, after: &Agent<'_>, one: &mut DaemonSetComparison) {
        let since = |name: &str| {
            let now = after.pods.get(name).copied().unwrap_or_default();
            let known = before.pods.get(name).map_or(0, |known| known.count);
            Restarts { count: (now.count - known).max(0), seconds: now.seconds.min(self.seconds.max(0)) }
        };
        one.restarts = after.pods.keys().map(|name| since(name).count).sum();
        if self.seconds <= 0 {
            return;
        }
        let rows_before = before.rows();
        let all = before.pods.values().copied().fold(Restarts::default(), Restarts::and);
        let on_node = |node: &str| {
            let pods = rows_before.get(node).into_iter().flat_map(|row| &row.pods);
            pods.filter_map(|pod| before.pods.get(&*pod.name).copied()).reduce(Restarts::and)
        };
        let is_worse = |row: &NodeCoverage, name: &str| {
            let was = before.pods.get(name).copied().or_else(|| on_node(&row.name)).unwrap_or(all);
            since(name).are_worse_than(was)
        };
        // What has a problem is told by that.
        let is_restarting =
            |row: &&NodeCoverage| problem(row).is_none() && row.pods.iter().any(|pod| is_worse(row, &pod.name));
        one.restarting = after.coverage.nodes.iter().filter(is_restarting).map(|row| row.name.clone()).collect();
    }
}

/// Compares how long it takes until pods are ready: those of before, and those that were created since.
fn later(before: &Agent<'_>, after: &Agent<'_>, one: &mut DaemonSetComparison) {
    let median = |mut seconds: Vec<i64>| {
        seconds.sort_unstable();
        (seconds.len() >= LEAST_PODS).then(|| seconds[seconds.len() / 2])
    };
    let was = median(before.ready_after.values().copied().collect());
    let new = after.ready_after.iter().filter(|(name, _)| !before.pods.contains_key(*name));
    let is = median(new.map(|(_, seconds)| *seconds).collect());
    if let (Some(was), Some(is)) = (was, is)
        && is >= was.saturating_mul(2)
        && is - was >= LATER
    {
        (one.seconds_to_ready_before, one.seconds_to_ready) = (Some(was), Some(is));
    }
}

/// Returns the reasons with another number of nodes.
fn reasons(before: &Agent<'_>, after: &Agent<'_>) -> Vec<ReasonChange> {
    let (was, is) = (before.coverage.problems_by_code(), after.coverage.problems_by_code());
    let codes: BTreeSet<ReasonCode> = was.iter().chain(&is).map(|affected| affected.code).collect();
    let count = |of: &[Affected], code| of.iter().find(|one| one.code == code).map(|one| one.count);
    let changes = codes.into_iter().filter(|code| count(&was, *code) != count(&is, *code));
    let change = |code| ReasonChange {
        code,
        before: count(&was, code).unwrap_or_default(),
        now: count(&is, code).unwrap_or_default(),
    };
    changes.map(change).collect()
}

/// Returns in a few words what differs between the templates of a DaemonSet, except for what one side hides.
fn template_changes(before: &DaemonSet, after: &DaemonSet) -> Vec<String> {
    let (before, after) = (before.template(), after.template());
    let is_redacted = [&before, &after].iter().any(|template| hides(&template.value().to_string()));
    let is_annotation = |change: &Change| change.path.0.contains(&PathStep::Field("annotations".to_owned()));
    let text = |value: &Option<Value>| value.as_ref().map(Value::to_string).unwrap_or_default();
    let known = |change: Change| {
        let is_hidden = hides(&text(&change.from)) || hides(&text(&change.to)) || is_annotation(&change);
        if !is_redacted || !is_hidden {
            return Some(change);
        }
        // The image may be the same in another registry.
        let image = |value: &Option<Value>| {
            let (_, image) = value.as_ref()?.as_str()?.split_once('/')?;
            Some(Value::from(image))
        };
        let (from, to) = (image(&change.from)?, image(&change.to)?);
        let is_image = change.path.0.last() == Some(&PathStep::Field("image".to_owned()));
        (is_image && from != to).then(|| Change::new(change.path, Some(from), Some(to)))
    };
    let changes: Vec<Change> = difference(&before, &after).into_iter().filter_map(known).collect();
    in_a_few_words(&changes)
}

/// Returns the instance types on which more or less is left for other pods.
fn headroom(before: &Snapshot, after: &Snapshot) -> Vec<Headroom> {
    let left = |snapshot: &Snapshot| {
        let OverheadReport { groups, .. } = overhead(snapshot, &OfNodes::By(INSTANCE_TYPE.to_owned()), None);
        let mut least: BTreeMap<(Option<String>, String), Amount> = BTreeMap::new();
        for group in groups {
            for resource in group.shapes.into_iter().flat_map(|shape| shape.resources) {
                let left = resource.left.least;
                let known = least.entry((group.value.clone(), resource.resource)).or_insert_with(|| left.clone());
                if left.value < known.value {
                    *known = left;
                }
            }
        }
        least
    };
    let mut after = left(after);
    let pairs = left(before).into_iter().filter_map(|(key, before)| {
        let now = after.remove(&key)?;
        Some(Headroom { instance_type: key.0, before, now })
    });
    pairs.filter(|one| one.before.value != one.now.value).collect()
}
