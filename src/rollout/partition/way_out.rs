//! How to continue after a stage has ended, and how to go back.

use super::PROGRESS_DEADLINE;
use super::plan::Request;
use crate::model::hold::{GATES_ANNOTATION, Hold, StageFlags};
use crate::report::fix::{Command, Fix};
use crate::report::history::{DaemonSetName, Subcommand};
use crate::report::partition::{PartitionReport, PartitionStage};
use crate::report::strategy::Strategy;

/// Returns what may follow a stage; `back_to` is the revision that its nodes had before, if that is known.
pub(crate) fn way_out(report: &PartitionReport, request: &Request, back_to: Option<i64>) -> Vec<Fix> {
    let name = &report.daemon_set;
    let fix = |advice: &str, command| Fix { advice: advice.to_owned(), command: Some(command) };
    let mut fixes = match report.outcome.stage {
        PartitionStage::Planned | PartitionStage::Unknown | PartitionStage::Finished => return Vec::new(),
        PartitionStage::Stopped if report.is_stopped_by_prepull() => return Vec::new(),
        PartitionStage::Complete => {
            vec![fix("to finish", command(name, &for_all(&request.flags()), request.verify.as_deref(), "0"))]
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
    let back = |number: i64| {
        let command = Command::kubectl(&["ds", "partition"]).namespace(&name.namespace);
        command.flag("--to-revision", number.to_string()).name(name.short()).name("0")
    };
    let back = back_to.map(|number| fix("to roll back", back(number)));
    // What a gate has stopped is rolled back before it is continued, and continued before the gates are given up.
    match report.outcome.stage {
        PartitionStage::Stopped => fixes.splice(0..0, back).for_each(drop),
        _ => fixes.extend(back),
    }
    // Under OnDelete, the controller would not go on.
    if report.original_strategy != Strategy::OnDelete {
        fixes.push(fix("to resume", name.command(Subcommand::Resume)));
    }
    fixes
}

/// Returns how to continue a hold that another run has left; `updates` tells whether nodes of its stage are left to update.
///
/// Whether the gates have passed is not in the cluster, so that the stage comes first even if all its nodes are updated.
pub(crate) fn continuation(name: &DaemonSetName, hold: &Hold, updates: bool) -> Vec<Fix> {
    let fix = |advice: String, command| Fix { advice, command: Some(command) };
    let Some(partition) = hold.partition else {
        let advice = "to update the remaining nodes under the gates of `partition`".to_owned();
        return vec![fix(advice, name.command(Subcommand::Partition).name("0"))];
    };
    let Some(flags) = &hold.flags else {
        let advice = format!(
            "to continue under the default gates, with evictions: which gates the stage had is not known, because the \
             annotation {GATES_ANNOTATION} is missing or cannot be used"
        );
        let flags = StageFlags { evict: true, ..StageFlags::default() };
        return vec![fix(advice, command(name, &flags, None, &partition.to_string()))];
    };
    let set = match (flags.verifies, flags.has_other_nodes) {
        (false, false) => "",
        (true, false) => ", with VERIFY set to the command of --verify, which is not kept",
        (false, true) => ", with NODES set to its nodes, which are too many to keep",
        (true, true) => ", with VERIFY set to the command of --verify and NODES to its nodes, which are not kept",
    };
    let advice = if updates { "to continue" } else { "to check the gates of the stage again" };
    let again = fix(format!("{advice}{set}"), command(name, flags, None, &partition.to_string()));
    if updates || partition.value() == 0 {
        return vec![again];
    }
    vec![again, fix("to finish, once they have passed".to_owned(), command(name, &for_all(flags), None, "0"))]
}

/// Returns the flags of a stage for all nodes.
fn for_all(flags: &StageFlags) -> StageFlags {
    StageFlags { nodes: Vec::new(), has_other_nodes: false, node_selector: String::new(), ..flags.clone() }
}

/// Returns the command that asks for a number or percentage of pods that stay on older revisions, under the same gates.
pub(crate) fn again(name: &DaemonSetName, request: &Request, keep: &str) -> Command {
    command(name, &request.flags(), request.verify.as_deref(), keep)
}

/// Returns the command that runs a stage with flags. The command of `--verify` is known only to the run itself; otherwise it is
/// a shell variable, without which the command does not run.
fn command(name: &DaemonSetName, flags: &StageFlags, verify: Option<&str>, keep: &str) -> Command {
    let restarts = (flags.max_restarts != 0).then(|| flags.max_restarts.to_string());
    let seconds = |seconds: i64, default: i64| (seconds != default && seconds != 0).then(|| format!("{seconds}s"));
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let mut command = Command::kubectl(&["ds", "partition"]).namespace(&name.namespace);
    if flags.has_other_nodes {
        command = command.variable("--nodes", "NODES");
    }
    let before = [
        ("--nodes", some(flags.nodes.join(","))),
        ("--node-selector", some(flags.node_selector.clone())),
        ("--spread-by", flags.spread_by.clone()),
        ("--max-unavailable", flags.max_unavailable.map(|amount| amount.to_string())),
        ("--max-restarts", restarts),
        ("--soak", seconds(flags.soak_seconds, 0)),
        ("--progress-deadline", seconds(flags.progress_deadline_seconds, PROGRESS_DEADLINE.as_secs())),
    ];
    let add = |command: Command, (flag, value): (&str, Option<String>)| match value {
        Some(value) => command.flag(flag, value),
        None => command,
    };
    command = before.into_iter().fold(command, add);
    command = match verify {
        Some(verify) => command.flag("--verify", verify),
        None if flags.verifies => command.variable("--verify", "VERIFY"),
        None => command,
    };
    command = add(command, ("--on-failure", flags.undoes_on_failure.then(|| "undo".to_owned())));
    for (switch, given) in [("--prepull", flags.prepull), ("--evict", flags.evict)] {
        command = if given { command.switch(switch) } else { command };
    }
    command.name(name.short()).name(keep)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::{again, continuation, way_out};
    use crate::coverage::test_support::world;
    use crate::facts::revisions::Revisions;
    use crate::model::daemon_set::DaemonSet;
    use crate::model::hold::Hold;
    use crate::model::int_or_percent::IntOrPercent;
    use crate::report::history::DaemonSetName;
    use crate::report::partition::{Gate, GateFailure, PartitionStage};
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
        assert_eq!(
            again(&name, &request, "3").to_string(),
            "kubectl ds partition -n team --nodes 'a,b' --max-unavailable '10%' --max-restarts 2 --soak 90s --progress-deadline 60s \
             --verify 'curl $NODE' --on-failure undo --prepull --evict agent 3"
        );
        // Another run does not know the command of --verify, and a shell does not run this without one.
        let commands = |annotation: &str, updates| {
            let object = json!({"metadata": {"annotations": {
                "kubectl-ds/original-update-strategy": "{}", "kubectl-ds/partition": "3", "kubectl-ds/gates": annotation}}});
            let hold = Hold::of(&DaemonSet::from_object(object).unwrap()).unwrap();
            let fixes = continuation(&name, &hold, updates).into_iter();
            fixes.map(|fix| (fix.advice, fix.command.unwrap().to_string())).collect::<Vec<_>>()
        };
        let annotation = request.flags().to_annotation();
        assert!(!annotation.contains("curl"));
        let same = again(&name, &request, "3").to_string().replace("'curl $NODE'", "\"${VERIFY:?}\"");
        let left = commands(&annotation, true);
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].1, same);
        assert!(left[0].0.contains("VERIFY"), "{left:?}");
        // Nobody but the run knows whether the gates have passed.
        let all = same.replace(" --nodes 'a,b'", "").replace(" agent 3", " agent 0");
        let updated = commands(&annotation, false);
        assert_eq!(updated.iter().map(|(_, command)| command).collect::<Vec<_>>(), [&same, &all]);
        // What is not known is said, and a disruption budget is not bypassed.
        for unusable in ["", "{}", &annotation.replace("true", "\"sh\"")] {
            let [(advice, command)] = &commands(unusable, true)[..] else { panic!("{unusable}") };
            assert!(advice.contains("kubectl-ds/gates is missing or cannot be used"), "{advice}");
            assert_eq!(command, "kubectl ds partition -n team --evict agent 3");
        }
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
            (PartitionStage::Complete, None, &[finish, back, resume]),
            (PartitionStage::Begun, None, &[again, back, resume]),
            (PartitionStage::Stopped, Some(Gate::Starts), &[back, again, resume]),
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
