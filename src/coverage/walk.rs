//! The walk over DaemonSets and nodes: which nodes should have a pod, which have one, and why the others have none.
//!
//! Most nodes of a big cluster are healthy, and the walk only counts them. The others are judged by [`super::verdict`],
//! and their findings are grouped by cause.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use super::common_cause::{self, Observation};
use super::gaps;
use super::group::{FindingGroups, Mistake, collect_mistakes, mistake_warnings, summarize};
use super::incidents::Incidents;
use super::lost_pods::lost_pods;
use super::node_class::NodeClasses;
use super::node_map::node_map;
use super::options::{Detail, Options};
use super::removed_nodes::removed_nodes;
use super::tally::{Tally, check_status, counts_of_status, rows_by_value, unchecked_status};
use super::verdict::containers::keeps_restarting;
use super::verdict::daemon_set_context::Subject;
use super::verdict::daemon_set_findings::oddities;
use super::verdict::explain;
use super::verdict::finding::{Diagnosis, Finding};
use super::verdict::former_pods;
use super::verdict::missing_pod;
use super::verdict::node_health::not_ready;
use super::verdict::terminating;
use super::verdict::{self, NodeVerdict};
use crate::facts::Facts;
use crate::facts::index::Index;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::snapshot::{Kind, Snapshot};
use crate::report::coverage::{Counts, CountsBy, CoverageReport, DaemonSetCoverage, LostPods, NodeOverview};
use crate::report::incident::{IncidentCause, tell_once};
use crate::report::node_coverage::{NodeCoverage, NodeState, PodSummary};
use crate::report::reason::ReasonCode;
use crate::scheduling::daemon_pods::NodePods;
use crate::scheduling::should_run::Decision;

/// Reports for each DaemonSet in the snapshot which nodes should have a pod, which have one, and why the others have none.
pub fn coverage(snapshot: &Snapshot, options: &Options) -> CoverageReport {
    let index = Index::new(snapshot);
    let daemon_sets = index.daemon_sets().into_iter();
    let mut incidents = Incidents::default();
    let mut daemon_sets: Vec<DaemonSetCoverage> = daemon_sets
        .map(|daemon_set| {
            let facts = Facts::new(&index, daemon_set);
            let coverage = daemon_set_coverage(&facts, options);
            // The verdict on the rollout decides whether there is one.
            incidents.add(&facts, &coverage, options, None);
            coverage
        })
        .collect();
    let mut incidents = incidents.finish();
    daemon_sets.iter_mut().for_each(|it| tell_once(&incidents, &it.namespace, &it.name, &mut it.lost_pods));
    // For a single node, the others are its own problems.
    incidents.retain(|incident| options.node.is_none() || incident.cause == IncidentCause::ControllerSilent);
    CoverageReport {
        now: snapshot.now,
        incomplete: gaps::incomplete(snapshot),
        node: options.node.as_deref().map(|name| node_overview(&index, name, &daemon_sets)),
        incidents,
        problems: summarize(&daemon_sets),
        daemon_sets,
    }
}

fn node_overview(index: &Index<'_>, name: &str, daemon_sets: &[DaemonSetCoverage]) -> NodeOverview {
    let node = index.node(name);
    let rows = || daemon_sets.iter().flat_map(|daemon_set| &daemon_set.nodes).filter(|row| row.name == name);
    let is_known = node.is_some() || index.snapshot.gap(Kind::Nodes, "").is_none();
    let is_orphaned = |row: &NodeCoverage| row.reasons.iter().any(|reason| reason.code == ReasonCode::OrphanedTarget);
    NodeOverview {
        name: name.to_owned(),
        namespace: None,
        exists: node.is_some() || !rows().any(is_orphaned),
        should_run: is_known.then(|| rows().filter(|row| row.should_run).count()),
        available: rows().filter(|row| row.should_run && row.state == NodeState::Available).count(),
        not_ready: node.and_then(|node| not_ready(index, node)).map(|sentence| sentence.to_string()),
        unschedulable: node.is_some_and(|node| node.spec.unschedulable),
        taints: node.map(|node| node.spec.taints.iter().map(ToString::to_string).collect()).unwrap_or_default(),
    }
}

/// Reports one DaemonSet.
pub fn daemon_set_coverage(facts: &Facts<'_>, options: &Options) -> DaemonSetCoverage {
    judge_daemon_set(facts, options).coverage
}

/// The results for one DaemonSet.
pub(crate) struct Judged {
    /// The report.
    pub(crate) coverage: DaemonSetCoverage,
    /// The primary finding about each node, in the order of [`Facts::nodes`]; `None` if nothing is wrong.
    pub(crate) diagnoses: Vec<Option<Diagnosis>>,
}

/// Reports one DaemonSet, and keeps the judgement of each node.
pub(crate) fn judge_daemon_set(facts: &Facts<'_>, options: &Options) -> Judged {
    let subject = Subject::new(facts);
    let mut walk = Walk::new(&subject, options);
    let mut diagnoses = Vec::new();
    for (node, pods) in facts.nodes() {
        diagnoses.push(match (node, pods.decision) {
            (Some(node), Some(decision)) if options.selects(node) => walk.visit(node, decision, pods),
            (None, _) if options.selects_name(pods.node) => walk.visit_node_not_in_snapshot(pods.node, &pods.pods),
            _ => None,
        });
    }
    walk.nodes.sort_by(|a, b| a.name.cmp(&b.name));
    Judged { coverage: walk.into_report(), diagnoses }
}

/// The walk over the nodes of one DaemonSet.
struct Walk<'s, 'a> {
    subject: &'s Subject<'s, 'a>,
    options: &'s Options,
    tally: Tally,
    by: BTreeMap<Option<&'s str>, Tally>,
    groups: FindingGroups,
    not_eligible: FindingGroups,
    restarting: FindingGroups,
    nodes: Vec<NodeCoverage>,
    mistakes: Vec<Mistake>,
    /// The eligible nodes that are available or failing.
    observations: Vec<Observation<'s>>,
    classes: NodeClasses<'a>,
    /// The groups of judged nodes by what the nodes have in common, and the diagnosis.
    judged: HashMap<Alike, (usize, Diagnosis)>,
    /// Why the nodes of a class are not eligible.
    of_class: HashMap<u64, (String, Vec<Finding>)>,
    /// The manager that writes the DaemonSet, if it must be changed there.
    writer: Option<String>,
}

/// What nodes without a pod have in common if their primary findings differ only in their names.
#[derive(PartialEq, Eq, Hash)]
enum Alike {
    /// They are not eligible, and the DaemonSet cannot distinguish them.
    NotEligible(u64),
    /// They are eligible, and no node is so young that this alone explains a missing pod.
    Missing,
}

impl<'s, 'a> Walk<'s, 'a> {
    fn new(subject: &'s Subject<'s, 'a>, options: &'s Options) -> Self {
        Walk {
            subject,
            options,
            tally: Tally::default(),
            by: BTreeMap::new(),
            groups: FindingGroups::default(),
            not_eligible: FindingGroups::default(),
            restarting: FindingGroups::default(),
            nodes: Vec::new(),
            mistakes: Vec::new(),
            observations: Vec::new(),
            classes: NodeClasses::new(subject.daemon_set),
            judged: HashMap::new(),
            of_class: HashMap::new(),
            writer: subject.daemon_set.writer(),
        }
    }

    /// Counts a node, and judges it unless its only pod is available.
    fn visit(&mut self, node: &'s Node, decision: Decision, pods: &NodePods<'a>) -> Option<Diagnosis> {
        let subject = self.subject;
        let is_plain = decision.should_run && verdict::is_plainly_available(subject, node, &pods.pods);
        let (state, diagnosis) = if is_plain {
            let restarting = pods.pods.iter().find_map(|pod| keeps_restarting(subject, node, pod));
            self.restarting.extend(&node.metadata.name, restarting);
            self.push_row(
                node,
                &pods.pods,
                &NodeVerdict { decision, state: NodeState::Available, findings: Vec::new() },
            );
            (NodeState::Available, None)
        } else {
            self.visit_in_trouble(node, decision, &pods.pods)
        };
        let is_available = state == NodeState::Available;
        // An unknown state is not a problem; the report's gaps say why it is unknown.
        let is_trouble = !matches!(state, NodeState::NotEligible | NodeState::Unknown);
        let trouble = diagnosis.as_ref().filter(|_| is_trouble);
        self.tally.add(subject, pods, is_available, trouble);
        let failing = trouble.filter(|trouble| !is_available && !trouble.passing.takes_time());
        if decision.should_run && (is_available || failing.is_some()) {
            let is_of_pod = is_available || diagnosis.as_ref().is_some_and(Diagnosis::can_be_template);
            let revision = pods.pods.first().map(|pod| pod.revision_hash());
            let revision = revision.filter(|hash| is_of_pod && !hash.is_empty());
            self.observations.push(Observation { node, revision, failing: failing.map(|trouble| trouble.code) });
        }
        if let Some(label) = &self.options.by {
            let value = node.metadata.labels.get(label).map(String::as_str);
            self.by.entry(value).or_default().add(subject, pods, is_available, trouble);
        }
        diagnosis
    }

    /// Judges a node, unless a similar one was judged before.
    fn visit_in_trouble(&mut self, node: &Node, decision: Decision, pods: &[&Pod]) -> (NodeState, Option<Diagnosis>) {
        let name = &node.metadata.name;
        let alike = self.alike(node, decision, pods.is_empty());
        if let Some((alike, (number, diagnosis))) = alike.as_ref().and_then(|it| Some((it, self.judged.get(it)?))) {
            let (groups, state) = match alike {
                Alike::NotEligible(_) => (&mut self.not_eligible, NodeState::NotEligible),
                Alike::Missing => (&mut self.groups, NodeState::Missing),
            };
            groups.add_alike(name, *number);
            return (state, Some(diagnosis.clone()));
        }
        let verdict = self.judge(node, decision, pods);
        let group = self.group(name, &verdict);
        let diagnosis = verdict.findings.first().map(Finding::diagnosis);
        if let (Some(alike), Some(number), Some(diagnosis)) = (alike, group, &diagnosis) {
            self.judged.insert(alike, (number, diagnosis.clone()));
        }
        self.push_row(node, pods, &verdict);
        (verdict.state, diagnosis)
    }

    /// Judges a node. Ineligibility is explained once for all nodes that the DaemonSet cannot distinguish.
    fn judge(&mut self, node: &Node, decision: Decision, pods: &[&Pod]) -> NodeVerdict {
        let is_shared = self.options.detail == Detail::Nodes && !decision.should_run && pods.is_empty();
        let class = if is_shared { self.classes.of(node) } else { None };
        if let Some((first, findings)) = class.and_then(|class| self.of_class.get(&class)) {
            let mut findings = findings.clone();
            let commands = findings.iter_mut().filter_map(|finding| finding.command.as_mut());
            commands.for_each(|command| command.rename(first, &node.metadata.name));
            return NodeVerdict { decision, state: NodeState::NotEligible, findings };
        }
        let mut verdict = verdict::judge(self.subject, node, decision, pods);
        if let Some(writer) = &self.writer {
            verdict.findings.iter_mut().for_each(|finding| finding.change_at(writer, self.subject.daemon_set));
        }
        if let Some(class) = class {
            self.of_class.insert(class, (node.metadata.name.clone(), verdict.findings.clone()));
        }
        verdict
    }

    /// Returns what a node shares with others, if that is clear without judging it.
    fn alike(&self, node: &Node, decision: Decision, without_pods: bool) -> Option<Alike> {
        if self.options.detail != Detail::Groups || !without_pods || !self.subject.pods_known {
            return None;
        }
        if !decision.should_run {
            return self.classes.of(node).map(Alike::NotEligible);
        }
        let is_own = missing_pod::is_young(node, self.subject.now()) || former_pods::are_told_of(self.subject, node);
        (!is_own).then_some(Alike::Missing)
    }

    fn push_row(&mut self, node: &Node, pods: &[&Pod], verdict: &NodeVerdict) {
        if self.options.detail == Detail::Groups {
            return;
        }
        let explained = self.options.detail == Detail::Explain;
        let explanation = explained.then(|| explain::explain(self.subject, node, pods, verdict));
        let row = row(self.subject, &node.metadata.name, pods, verdict);
        self.nodes.push(NodeCoverage { explanation, ..row });
    }

    /// Adds a node to the group of its primary finding; returns the group's index.
    fn group(&mut self, name: &str, verdict: &NodeVerdict) -> Option<usize> {
        collect_mistakes(&mut self.mistakes, name, &verdict.findings);
        let primary = verdict.findings.first()?;
        match verdict.state {
            NodeState::Unknown => None,
            NodeState::NotEligible => Some(self.not_eligible.add(name, primary)),
            _ => Some(self.groups.add(name, primary)),
        }
    }

    /// Visits the pods of a node that is not in the snapshot: it was deleted, or the nodes could not be read.
    fn visit_node_not_in_snapshot(&mut self, name: &str, pods: &[&Pod]) -> Option<Diagnosis> {
        let subject = self.subject;
        let is_deleted = subject.index.nodes_are_read();
        let verdict = if is_deleted {
            let findings = pods.iter().map(|pod| terminating::orphaned_target(subject, pod)).take(1).collect();
            let decision = Decision { should_run: false, should_continue_running: false };
            NodeVerdict { decision, state: NodeState::ToBeDeleted, findings }
        } else {
            // Only the node's name is known; assume that its pod should run there.
            let mut node = Node::default();
            name.clone_into(&mut node.metadata.name);
            let decision = Decision { should_run: true, should_continue_running: true };
            let (state, findings) = verdict::eligible(subject, &node, pods);
            NodeVerdict { decision, state, findings }
        };
        self.group(name, &verdict);
        if self.options.detail != Detail::Groups {
            let row = row(subject, name, pods, &verdict);
            self.nodes.push(NodeCoverage { eligibility_unknown: !is_deleted, ..row });
        }
        verdict.findings.first().map(Finding::diagnosis)
    }

    /// Returns the numbers, from the status if nodes or pods could not be read and every node was requested.
    fn counts(&self) -> Counts {
        let subject = self.subject;
        let status = counts_of_status(&subject.daemon_set.status);
        match (subject.nodes_known, subject.pods_known) {
            (true, true) => self.tally.counts(),
            (true, false) => {
                let counted = self.tally.counts_without_pods();
                let Counts { nodes_total, eligible, not_eligible, .. } = counted;
                if self.options.is_every_node() {
                    Counts { nodes_total, eligible, not_eligible, ..status }
                } else {
                    counted
                }
            }
            (false, _) if self.options.is_every_node() => status,
            (false, _) => Counts::default(),
        }
    }

    /// Adds the nodes that have no pod according to the status, if the nodes could not be read.
    fn add_unnamed_missing(&mut self, counts: &Counts) {
        // Without pods, too, a reason would be a guess.
        if !self.subject.nodes_known
            && self.subject.pods_known
            && let Some(missing) = counts.missing.filter(|missing| *missing > 0)
            && let Some(finding) = missing_pod::findings_of_unknown_nodes(self.subject).first()
        {
            self.groups.add_unnamed(missing, finding);
        }
    }

    fn into_report(mut self) -> DaemonSetCoverage {
        let counts = self.counts();
        self.add_unnamed_missing(&counts);
        let Walk {
            subject, options, tally, by, groups, not_eligible, restarting, nodes, mistakes, observations, ..
        } = self;
        let daemon_set = subject.daemon_set;
        // Some nodes may be known while others are not.
        let every = options.is_every_node() && subject.knows_nodes_and_pods();
        let counters = if every {
            check_status(&daemon_set.status, &tally, subject.current.known().is_some())
        } else {
            unchecked_status(&daemon_set.status)
        };
        let mut not_eligible = not_eligible.into_report();
        for mistake in mistakes.iter().filter(|_| counts.eligible == Some(0)) {
            // Changing the nodes is bad advice if the template has a typo.
            not_eligible.iter_mut().for_each(|group| mistake.correct(group));
        }
        let warnings = if options.is_every_node() && subject.nodes_known {
            mistake_warnings(&counts, mistakes)
        } else {
            Vec::new()
        };
        let by = options
            .by
            .as_ref()
            .map(|label| CountsBy { label: label.clone(), rows: rows_by_value(by, subject.pods_known) });
        let is_known = subject.nodes_known && subject.pods_known;
        let map = options.map.as_ref().filter(|_| is_known).map(|label| node_map(subject.index, &nodes, label));
        let removed_nodes = options.is_every_node().then(|| removed_nodes(subject)).flatten();
        // That a revision excludes them is told already.
        let is_news = |lost: &LostPods| lost.unlike.is_none() || removed_nodes.is_none();
        let lost_pods = options.is_every_node().then(|| lost_pods(subject, removed_nodes.as_ref())).flatten();
        let lost_pods = lost_pods.filter(is_news);
        DaemonSetCoverage {
            map,
            namespace: daemon_set.metadata.namespace.clone(),
            name: daemon_set.metadata.name.clone(),
            counts,
            every_node: options.is_every_node(),
            current_revision: subject.current_hash().map(str::to_owned),
            strategy: daemon_set.spec.update_strategy.clone(),
            counters,
            concerns: subject
                .concerns
                .iter()
                .cloned()
                .chain(oddities(subject))
                .map(|finding| finding.reason())
                .chain(warnings)
                .collect(),
            removed_nodes,
            lost_pods,
            common_causes: common_cause::of(subject, &observations),
            // Decided by the rollout.
            suspect: None,
            rollback: None,
            problems: groups.into_report(),
            restarting: restarting.into_report(),
            not_eligible,
            by,
            nodes,
            is_critical: subject.is_critical(),
        }
    }
}

fn row(subject: &Subject, name: &str, pods: &[&Pod], verdict: &NodeVerdict) -> NodeCoverage {
    NodeCoverage {
        name: name.to_owned(),
        should_run: verdict.decision.should_run,
        should_continue_running: verdict.decision.should_continue_running,
        state: verdict.state,
        pods: pods.iter().map(|pod| summary(subject, pod)).collect(),
        reasons: verdict.findings.iter().map(Finding::reason).collect(),
        eligibility_unknown: false,
        explanation: None,
    }
}

fn summary(subject: &Subject, pod: &Pod) -> PodSummary {
    PodSummary {
        name: pod.metadata.name.clone(),
        revision: pod.revision_hash().to_owned(),
        updated: subject.is_updated(pod),
        phase: pod.status.phase.clone(),
        bound: !pod.spec.node_name.is_empty(),
        ready: pod.is_ready(),
        available: subject.is_available(pod) && !terminating::is_overdue(subject, pod),
        terminating: pod.metadata.is_terminating(),
        restarts: pod.restarts(),
        created_at: pod.metadata.creation_timestamp.get(),
    }
}
