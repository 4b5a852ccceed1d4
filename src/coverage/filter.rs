//! The requested part of a coverage report.

use super::group::summarize;
use crate::report::coverage::{CoverageReport, DaemonSetCoverage, ReasonGroup};
use crate::report::node_coverage::{NodeCoverage, NodeState};
use crate::report::reason::ReasonCode;

/// Selects the DaemonSets and nodes of a report. A DaemonSet's counts always cover all of its nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct CoverageFilter {
    /// Only nodes with one of these primary reasons, and DaemonSets with one of them.
    pub(crate) reasons: Vec<ReasonCode>,
    /// Only nodes in one of these states. Groups have no state, so rows of nodes are needed.
    pub(crate) states: Vec<NodeState>,
    /// Only items that need attention.
    pub(crate) problems: bool,
}

impl CoverageFilter {
    /// Removes everything from a report that is not selected.
    pub(crate) fn apply(&self, report: &mut CoverageReport) {
        report.daemon_sets.retain_mut(|daemon_set| self.keeps_daemon_set(daemon_set));
        report.problems = summarize(&report.daemon_sets);
        if !self.reasons.is_empty() || !self.states.is_empty() {
            report.incidents.clear();
        }
    }

    /// Returns the corresponding flags, as a user writes them.
    pub(crate) fn flags(&self) -> String {
        let reasons = self.reasons.iter().map(|code| format!("--reason {code}"));
        let states = self.states.iter().map(|state| format!("--state {}", state.name()));
        let problems = self.problems.then(|| "--problems".to_owned());
        reasons.chain(states).chain(problems).collect::<Vec<_>>().join(" ")
    }

    /// Returns whether everything is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.reasons.is_empty() && self.states.is_empty() && !self.problems
    }

    /// Removes everything from a DaemonSet that is not selected; returns whether it is selected itself.
    pub(crate) fn keeps_daemon_set(&self, daemon_set: &mut DaemonSetCoverage) -> bool {
        if self.is_empty() {
            return true;
        }
        let (needs_attention, is_nowhere) = (daemon_set.needs_attention(), daemon_set.has_no_eligible_node());
        let DaemonSetCoverage { problems, not_eligible, concerns, nodes, .. } = daemon_set;
        let keeps_group = |group: &ReasonGroup| self.keeps_reason(group.code);
        problems.retain(keeps_group);
        // A DaemonSet without an eligible node has a problem, and these are its causes.
        not_eligible.retain(|group| (!self.problems || is_nowhere) && keeps_group(group));
        concerns.retain(|concern| self.keeps_reason(concern.code));
        nodes.retain(|node| self.keeps_node(node));
        if !self.states.is_empty() {
            return !nodes.is_empty();
        }
        let is_found = !problems.is_empty() || !concerns.is_empty() || !not_eligible.is_empty();
        if self.problems { needs_attention && (is_found || self.reasons.is_empty()) } else { is_found }
    }

    fn keeps_reason(&self, code: ReasonCode) -> bool {
        self.reasons.is_empty() || self.reasons.contains(&code)
    }

    fn keeps_node(&self, node: &NodeCoverage) -> bool {
        let is_ineligible = matches!(node.state, NodeState::NotEligible | NodeState::Unknown);
        let primary = node.reasons.first();
        (self.reasons.is_empty() || primary.is_some_and(|reason| self.keeps_reason(reason.code)))
            && (self.states.is_empty() || self.states.contains(&node.state))
            && (!self.problems || primary.is_some() && !is_ineligible)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::CoverageFilter;
    use crate::coverage::options::{Detail, Options};
    use crate::coverage::test_support::{World, world};
    use crate::coverage::walk::coverage;
    use crate::report::coverage::CoverageReport;
    use crate::report::node_coverage::NodeState;
    use crate::report::reason::ReasonCode::{
        self, CrashLooping, NotReadyNotTolerated, Unexplained, UntoleratedNoSchedule,
    };

    fn filter(reasons: &[ReasonCode], states: &[NodeState], problems: bool) -> CoverageFilter {
        CoverageFilter { reasons: reasons.to_vec(), states: states.to_vec(), problems }
    }

    fn filtered(world: World, filter: &CoverageFilter) -> CoverageReport {
        let options = Options { detail: Detail::Nodes, ..Options::default() };
        let mut report = coverage(&world.finish(), &options);
        filter.apply(&mut report);
        report
    }

    fn tainted(world: World, name: &str) -> World {
        world.node(name, json!({"spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}}))
    }

    /// Returns a world: `a` is available, `b` crash-loops, `c` is not eligible, and `d` has no pod.
    fn mixed() -> World {
        let crashing = json!({"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let world = world().node("a", json!({})).pod("agent-a", "a", json!({}));
        let world = world.node("b", json!({})).unready_pod("agent-b", "b", crashing, json!({}));
        tainted(world, "c").node("d", json!({}))
    }

    #[test]
    fn a_node_is_kept_if_its_primary_reason_its_state_and_its_need_fit_and_a_daemon_set_without_one_is_not() {
        use NodeState::{Available, Missing, NotEligible};
        let rows: &[(CoverageFilter, Option<&[&str]>)] = &[
            (filter(&[], &[], false), Some(&["a", "b", "c", "d"])),
            (filter(&[CrashLooping], &[], false), Some(&["b"])),
            (filter(&[CrashLooping, UntoleratedNoSchedule], &[], false), Some(&["b", "c"])),
            (filter(&[], &[Available], false), Some(&["a"])),
            (filter(&[], &[Missing, NotEligible], false), Some(&["c", "d"])),
            (filter(&[], &[], true), Some(&["b", "d"])),
            (filter(&[CrashLooping], &[], true), Some(&["b"])),
            (filter(&[], &[Missing, NotEligible], true), Some(&["d"])),
            (filter(&[CrashLooping], &[NotEligible], false), None),
            (filter(&[], &[Available], true), None),
        ];
        for (filter, expected) in rows {
            let report = filtered(mixed(), filter);
            let nodes = report.daemon_sets.first().map(|daemon_set| &daemon_set.nodes);
            let names = nodes.map(|nodes| nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>());
            assert_eq!(names.as_deref(), *expected, "{filter:?}");
        }
    }

    #[test]
    fn a_daemon_set_is_kept_with_the_reasons_that_were_asked_for() {
        let fine = || world().node("a", json!({})).pod("agent-a", "a", json!({}));
        let plugin = || {
            let volumes = json!([{"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}}]);
            let taints = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
            fine().template(json!({"volumes": volumes})).node("b", json!({"spec": {"taints": taints}}))
        };
        let nowhere = || tainted(world(), "c");
        let rows: [(&str, World, CoverageFilter, Option<&[ReasonCode]>); 14] = [
            ("all", mixed(), filter(&[], &[], false), Some(&[CrashLooping, Unexplained, UntoleratedNoSchedule])),
            ("its problems", mixed(), filter(&[], &[], true), Some(&[CrashLooping, Unexplained])),
            ("a reason", mixed(), filter(&[CrashLooping], &[], false), Some(&[CrashLooping])),
            (
                "a reason not to run",
                mixed(),
                filter(&[UntoleratedNoSchedule], &[], false),
                Some(&[UntoleratedNoSchedule]),
            ),
            ("another reason", mixed(), filter(&[NotReadyNotTolerated], &[], false), None),
            ("another problem", mixed(), filter(&[NotReadyNotTolerated], &[], true), None),
            ("no problem", fine(), filter(&[], &[], true), None),
            ("a concern", plugin(), filter(&[NotReadyNotTolerated], &[], true), Some(&[NotReadyNotTolerated])),
            ("another than its concern", plugin(), filter(&[CrashLooping], &[], true), None),
            ("no eligible node is a problem", nowhere(), filter(&[], &[], true), Some(&[UntoleratedNoSchedule])),
            (
                "why none is, a problem",
                nowhere(),
                filter(&[UntoleratedNoSchedule], &[], true),
                Some(&[UntoleratedNoSchedule]),
            ),
            ("another problem than why none is", nowhere(), filter(&[CrashLooping], &[], true), None),
            ("why none is", nowhere(), filter(&[UntoleratedNoSchedule], &[], false), Some(&[UntoleratedNoSchedule])),
            ("not why none is", nowhere(), filter(&[CrashLooping], &[], false), None),
        ];
        for (name, world, filter, expected) in rows {
            let report = filtered(world, &filter);
            let codes = report.daemon_sets.first().map(|daemon_set| {
                let groups = daemon_set.problems.iter().chain(&daemon_set.not_eligible).map(|group| group.code);
                groups.chain(daemon_set.concerns.iter().map(|concern| concern.code)).collect::<Vec<_>>()
            });
            assert_eq!(codes.as_deref(), expected, "{name}");
        }
        let summary = filtered(mixed(), &filter(&[CrashLooping], &[], false)).problems;
        assert_eq!(summary.iter().map(|reason| reason.code).collect::<Vec<_>>(), [CrashLooping]);
    }

    #[test]
    fn the_flags_are_those_that_a_user_writes() {
        let filter = filter(&[CrashLooping], &[NodeState::Missing], true);
        assert_eq!(filter.flags(), "--reason CrashLooping --state Missing --problems");
    }
}
