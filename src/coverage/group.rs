//! Groups nodes with the same cause, and collects the likely mistakes among the causes.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::verdict::finding::Finding;
use crate::report::coverage::{Affected, Counts, DaemonSetCoverage, ReasonGroup, Urgency};
use crate::report::reason::{Reason, ReasonCode};

/// Collects findings of nodes, and merges those with the same cause.
#[derive(Debug, Default)]
pub struct FindingGroups {
    numbers: HashMap<(ReasonCode, String), usize>,
    groups: Vec<FindingGroup>,
}

#[derive(Debug)]
struct FindingGroup {
    finding: Finding,
    nodes: Vec<String>,
    unnamed: usize,
}

impl FindingGroups {
    /// Adds a node with its primary finding, and returns the index of its group; nodes must be added by name.
    pub fn add(&mut self, node: &str, finding: &Finding) -> usize {
        let (number, is_new) = self.number(finding);
        let group = &mut self.groups[number];
        if !is_new {
            group.finding.passing = group.finding.passing.min(finding.passing);
            group.finding.message.merge(&finding.message);
            group.finding.advice.merge(&finding.advice);
        }
        group.nodes.push(node.to_owned());
        number
    }

    /// Adds a node with its finding, if it has one.
    pub fn extend(&mut self, node: &str, finding: Option<Finding>) {
        if let Some(finding) = finding {
            self.add(node, &finding);
        }
    }

    /// Adds a node whose finding is the same as that of a node in the group.
    pub fn add_alike(&mut self, node: &str, number: usize) {
        self.groups[number].nodes.push(node.to_owned());
    }

    /// Returns the index of a finding's group, and whether it is new.
    fn number(&mut self, finding: &Finding) -> (usize, bool) {
        let mut key = String::new();
        finding.message.write_key(&mut key);
        if finding.code.is_node_down() {
            // What a kubelet says of its node varies, and what to do about it.
            key.extend(finding.advice.to_string().split(';').next());
        }
        match self.numbers.entry((finding.code, key)) {
            Entry::Occupied(entry) => (*entry.get(), false),
            Entry::Vacant(entry) => {
                entry.insert(self.groups.len());
                self.groups.push(FindingGroup { finding: finding.clone(), nodes: Vec::new(), unnamed: 0 });
                (self.groups.len() - 1, true)
            }
        }
    }

    /// Adds a number of nodes with unknown names.
    pub fn add_unnamed(&mut self, count: usize, finding: &Finding) {
        let (number, _) = self.number(finding);
        self.groups[number].unnamed += count;
    }

    /// Returns the groups, most nodes first; those of nodes that count no longer come after the others.
    pub fn into_report(self) -> Vec<ReasonGroup> {
        let group = |FindingGroup { finding, nodes, unnamed }| finding.group(nodes, unnamed);
        let mut groups: Vec<ReasonGroup> = self.groups.into_iter().map(group).collect();
        groups.sort_by(|a, b| {
            let is_excluded = a.code.excludes_node().cmp(&b.code.excludes_node());
            is_excluded
                .then(b.count.cmp(&a.count))
                .then_with(|| a.code.cmp(&b.code))
                .then_with(|| a.message.cmp(&b.message))
        });
        groups
    }
}

/// Returns the reasons of several DaemonSets' problems: most nodes first, progressing ones last. The DaemonSets of each
/// are sorted by urgency.
pub fn summarize(daemon_sets: &[DaemonSetCoverage]) -> Vec<Affected> {
    // Nodes with unknown names may be the same for several DaemonSets, so the largest number is used.
    type Found<'d> = (BTreeSet<(Urgency, String)>, BTreeSet<&'d String>, usize, bool);
    let mut found: BTreeMap<ReasonCode, Found<'_>> = BTreeMap::new();
    for daemon_set in daemon_sets {
        let urgency = daemon_set.urgency(&daemon_set.problems_by_code());
        let name = || (urgency, format!("{}/{}", daemon_set.namespace, daemon_set.name));
        let groups = daemon_set.problems.iter().map(|group| (group.code, group.passing, Some(group)));
        let concerns = daemon_set.concerns.iter().map(|concern| (concern.code, concern.passing, None));
        for (code, passing, group) in groups.chain(concerns) {
            let none = || (BTreeSet::new(), BTreeSet::new(), 0, true);
            let (names, nodes, unnamed, all_pass) = found.entry(code).or_insert_with(none);
            names.insert(name());
            *all_pass &= passing;
            if let Some(group) = group {
                nodes.extend(&group.nodes);
                *unnamed = (*unnamed).max(group.count - group.nodes.len());
            }
        }
    }
    let mut problems: Vec<Affected> = found
        .into_iter()
        .map(|(code, (daemon_sets, nodes, unnamed, passing))| Affected {
            nodes: nodes.iter().map(|&node| node.clone()).collect(),
            daemon_sets: daemon_sets.into_iter().map(|(_, name)| name).collect(),
            ..Affected::new(code, nodes.len() + unnamed, passing)
        })
        .collect();
    problems.sort_by_key(Affected::rank);
    problems
}

/// A likely mistake in the DaemonSet, and the first node that it excludes.
pub(super) struct Mistake {
    node: String,
    finding: Finding,
}

impl Mistake {
    /// Gives the advice for the mistake to the nodes that are excluded for the same reason.
    pub(super) fn correct(&self, group: &mut ReasonGroup) {
        if group.code == self.finding.code {
            group.fix = self.finding.reason().fix;
        }
    }
}

/// Adds the likely mistakes among the findings about a node, unless one with the same code is known. A node's state is
/// ignored if something else excludes it, too.
pub(super) fn collect_mistakes(mistakes: &mut Vec<Mistake>, node: &str, findings: &[Finding]) {
    let counts =
        |(at, finding): &(usize, &Finding)| finding.likely_mistake && (*at == 0 || !finding.code.is_state_of_node());
    for (_, finding) in findings.iter().enumerate().filter(counts) {
        if !mistakes.iter().any(|known| known.finding.code == finding.code) {
            mistakes.push(Mistake { node: node.to_owned(), finding: finding.clone() });
        }
    }
}

/// Returns the likely mistakes worth a warning although they only exclude nodes: all of them if no node is eligible,
/// those of a plugin that its nodes wait for, a startup taint that has stayed, and the removal of a stuck node.
pub(super) fn mistake_warnings(counts: &Counts, mistakes: Vec<Mistake>) -> Vec<Reason> {
    let none_eligible = counts.eligible == Some(0);
    let is_news = |finding: &Finding| finding.code.is_state_of_node() || finding.keeps_node_waiting;
    mistakes
        .into_iter()
        .filter(|mistake| none_eligible || is_news(&mistake.finding))
        .map(|Mistake { node, finding }| {
            let reason = finding.reason();
            let prefix = if none_eligible { "no node is eligible; node" } else { "node" };
            Reason { message: format!("{prefix} {node}: {}", reason.message), ..reason }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::FindingGroups;
    use crate::coverage::test_support::{at, world};
    use crate::coverage::verdict::finding::Finding;
    use crate::coverage::verdict::sentence::Sentence;
    use crate::report::coverage::{Affected, Attention};
    use crate::report::reason::{Passing, ReasonCode};

    fn by_code<const N: usize>(codes: [(ReasonCode, usize); N]) -> Vec<Affected> {
        let takes_time = |code: ReasonCode| code.usual_passing().takes_time();
        Affected::by_code(codes.map(|(code, count)| Affected::new(code, count, takes_time(code))))
    }

    #[test]
    fn the_numbers_of_a_code_are_added_up() {
        let codes = [(ReasonCode::CrashLooping, 1), (ReasonCode::NeverFits, 2), (ReasonCode::CrashLooping, 3)];
        let problems: Vec<_> = by_code(codes).iter().map(|problem| (problem.code, problem.count)).collect();
        assert_eq!(problems, [(ReasonCode::CrashLooping, 4), (ReasonCode::NeverFits, 2)]);
        // Harmful reasons precede harmless ones, regardless of the number of nodes.
        let codes = [(ReasonCode::Misscheduled, 9), (ReasonCode::ContainersStarting, 8), (ReasonCode::CrashLooping, 1)];
        let problems: Vec<_> = by_code(codes).iter().map(|problem| (problem.code, problem.count)).collect();
        assert_eq!(problems, [codes[2], codes[0], codes[1]]);
    }

    /// A pod that stays on a tainted node is a problem; one that the controller is about to delete is not.
    #[test]
    fn what_only_takes_its_time_is_no_reason_to_come_first() {
        for (effect, attention) in [("NoExecute", Attention::Passes), ("NoSchedule", Attention::Fails)] {
            let tainted = json!({"spec": {"taints": [{"key": "retired", "effect": effect}]}});
            let world = world().node("a", json!({})).pod("agent-a", "a", json!({}));
            let coverage = world.node("n", tainted).pod("agent-n", "n", json!({})).coverage();
            let problems = coverage.problems_by_code();
            assert_eq!(coverage.urgency(&problems).0, attention, "{problems:?}");
        }
        for (deleted, attention) in [(None, Attention::Fails), (Some(at("11:59:00")), Attention::Passes)] {
            let metadata = json!({"deletionTimestamp": deleted, "finalizers": ["foregroundDeletion"]});
            let world = world().daemon_set(json!({ "metadata": metadata })).node("a", json!({}));
            let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
            let coverage = world.unready_pod("agent-a", "a", crashes, json!({})).coverage();
            let problems = coverage.problems_by_code();
            assert_eq!(coverage.urgency(&problems).0, attention, "{problems:?}");
        }
    }

    #[test]
    fn what_passes_on_some_nodes_only_does_not_pass() {
        let waits = |passing| Finding::new(ReasonCode::ContainersStarting, "waits", "wait").with_passing(passing);
        for (second, passes) in [(Passing::Always, true), (Passing::AtStart, false)] {
            let mut groups = FindingGroups::default();
            groups.add("a", &waits(Passing::InTime));
            groups.add("b", &waits(second));
            assert_eq!(groups.into_report()[0].passing, passes);
            let parts = [true, passes].map(|passing| Affected::new(ReasonCode::ContainersStarting, 1, passing));
            assert_eq!(Affected::by_code(parts)[0].passing, passes);
        }
    }

    #[test]
    fn the_same_cause_is_one_group_and_the_biggest_comes_first() {
        let port = |port: &str| Finding::new(ReasonCode::HostPortConflict, format!("{port} is held"), "change it");
        let pods =
            |used| Finding::new(ReasonCode::TooManyPods, Sentence::new().number(used).words(" pods"), "raise maxPods");
        let mut groups = FindingGroups::default();
        groups.add("a", &port("80"));
        groups.add("b", &pods(110));
        groups.add("c", &port("90"));
        groups.add("d", &pods(250));
        let groups = groups.into_report();
        assert_eq!(groups.iter().map(|group| group.count).collect::<Vec<_>>(), [2, 1, 1]);
        assert_eq!(groups[0].message, "110 to 250 pods");
        assert_eq!(groups[0].nodes, ["b", "d"]);
        assert_eq!(groups[1].message, "80 is held");
    }
}
