//! How to continue after a stage has ended, and how to go back.

use super::PROGRESS_DEADLINE;
use super::plan::Request;
use crate::model::selector::LabelSelector;
use crate::report::fix::{Command, Fix};
use crate::report::history::{DaemonSetName, Subcommand};
use crate::report::partition::{PartitionReport, PartitionStage};

/// Returns what may follow a stage; `back_to` is the revision that its nodes had before, if that is known.
pub(crate) fn way_out(report: &PartitionReport, request: &Request, back_to: Option<i64>) -> Vec<Fix> {
    let name = &report.daemon_set;
    let fix = |advice: &str, command| Fix { advice: advice.to_owned(), command: Some(command) };
    let mut fixes = match report.outcome.stage {
        PartitionStage::Planned | PartitionStage::Unknown | PartitionStage::Finished => return Vec::new(),
        PartitionStage::Stopped if report.is_stopped_by_prepull() => return Vec::new(),
        PartitionStage::Complete => {
            // The other nodes are updated, too.
            let (nodes, node_selector) = (Vec::new(), LabelSelector::default());
            let request = Request { nodes, node_selector, ..request.clone() };
            vec![fix("to finish", again(name, &request, "0"))]
        }
        PartitionStage::Begun | PartitionStage::Stopped => {
            vec![fix("to continue", again(name, request, &report.partition))]
        }
    };
    // Nothing of an Advanced DaemonSet is suspended.
    if name.is_advanced() {
        fixes.push(fix("to roll back", name.command(Subcommand::Undo)));
        return fixes;
    }
    fixes.push(fix("to resume", name.command(Subcommand::Resume)));
    let back = |number: i64| {
        let command = Command::kubectl(&["ds", "partition"]).namespace(&name.namespace);
        command.flag("--to-revision", number.to_string()).name(name.short()).name("0")
    };
    fixes.extend(back_to.map(|number| fix("to roll back", back(number))));
    fixes
}

/// Returns the command that asks for a number or percentage of pods that stay on older revisions, under the same gates.
pub(crate) fn again(name: &DaemonSetName, request: &Request, keep: &str) -> Command {
    let gates = &request.gates;
    let restarts = (gates.max_restarts != 0).then(|| gates.max_restarts.to_string());
    let seconds = |seconds: i64, default: i64| (seconds != default).then(|| format!("{seconds}s"));
    let selector = Some(request.node_selector.to_string()).filter(|selector| !selector.is_empty());
    let nodes = Some(request.nodes.join(",")).filter(|nodes| !nodes.is_empty());
    let flags = [
        ("--nodes", nodes),
        ("--node-selector", selector),
        ("--spread-by", request.spread_by.clone()),
        ("--max-unavailable", request.max_unavailable.map(|amount| amount.to_string())),
        ("--max-restarts", restarts),
        ("--soak", seconds(gates.soak.as_secs(), 0)),
        ("--progress-deadline", seconds(gates.progress_deadline.as_secs(), PROGRESS_DEADLINE.as_secs())),
        ("--verify", request.verify.clone()),
        ("--wait-for-label", gates.wait_for_label.as_ref().map(ToString::to_string)),
        ("--on-failure", request.rolls_back.then(|| "undo".to_owned())),
    ];
    let switches = [("--prepull", request.prepull), ("--evict", request.evict)];
    let command = Command::kubectl(&["ds", "partition"]).namespace(&name.namespace);
    let command = flags.into_iter().fold(command, |command, (flag, value)| match value {
        Some(value) => command.flag(flag, value),
        None => command,
    });
    let command =
        switches.into_iter().filter(|(_, given)| *given).fold(command, |command, (flag, _)| command.switch(flag));
    command.name(name.short()).name(keep)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::{again, way_out};
    use crate::coverage::revisions::Revisions;
    use crate::coverage::test_support::world;
    use crate::model::int_or_percent::IntOrPercent;
    use crate::report::history::DaemonSetName;
    use crate::report::partition::{Gate, GateFailure, PartitionStage};
    use crate::rollout::partition::NodeLabel;
    use crate::rollout::partition::plan::{Amount, Request, plan};
    use crate::rollout::partition::template::NewTemplate;

    #[test]
    fn the_same_stage_again_has_the_same_gates() {
        let name =
            DaemonSetName { api_version: "apps/v1".to_owned(), namespace: "team".to_owned(), name: "agent".to_owned() };
        let mut request = Request::new(Amount::Keep(IntOrPercent::Int(3)), NewTemplate::Live, String::new());
        assert_eq!(again(&name, &request, "3").to_string(), "kubectl ds partition -n team agent 3");
        request.nodes = vec!["a".to_owned(), "b".to_owned()];
        request.verify = Some("curl $NODE".to_owned());
        (request.prepull, request.evict, request.rolls_back) = (true, true, true);
        request.max_unavailable = Some(IntOrPercent::Percent(10));
        request.gates.max_restarts = 2;
        request.gates.soak = SignedDuration::from_secs(90);
        request.gates.progress_deadline = SignedDuration::from_secs(60);
        request.gates.wait_for_label = Some(NodeLabel { key: "ready".to_owned(), value: "2".to_owned() });
        assert_eq!(
            again(&name, &request, "3").to_string(),
            "kubectl ds partition -n team --nodes 'a,b' --max-unavailable '10%' --max-restarts 2 --soak 90s --progress-deadline 60s \
             --verify 'curl $NODE' --wait-for-label 'ready=2' --on-failure undo --prepull --evict agent 3"
        );
    }

    #[test]
    fn there_is_a_way_out_of_what_was_begun() {
        let request = Request::new(Amount::Keep(IntOrPercent::Int(3)), NewTemplate::Live, String::new());
        let snapshot = world().finish();
        let revisions = Revisions::of(&snapshot.daemon_sets[0], &snapshot);
        let mut report = plan(&revisions, &request, &snapshot).unwrap().report;
        let (again, finish) = ("kubectl ds partition -n default agent 3", "kubectl ds partition -n default agent 0");
        let resume = "kubectl ds resume -n default agent";
        let back = "kubectl ds partition -n default --to-revision 1 agent 0";
        for (stage, gate, expected) in [
            (PartitionStage::Planned, None, &[][..]),
            (PartitionStage::Unknown, None, &[]),
            (PartitionStage::Finished, None, &[]),
            (PartitionStage::Complete, None, &[finish, resume, back]),
            (PartitionStage::Begun, None, &[again, resume, back]),
            (PartitionStage::Stopped, Some(Gate::Starts), &[again, resume, back]),
            // Nothing was changed yet.
            (PartitionStage::Stopped, Some(Gate::Prepull), &[]),
        ] {
            let failure = |gate| GateFailure { gate, node: None, pod: None, reason: None, message: String::new() };
            (report.outcome.stage, report.outcome.failures) = (stage, gate.map(failure).into_iter().collect());
            let fixes = way_out(&report, &request, Some(1)).into_iter();
            let commands: Vec<String> = fixes.filter_map(|fix| Some(fix.command?.to_string())).collect();
            assert_eq!(commands, expected, "{stage:?} {gate:?}");
        }
    }
}
