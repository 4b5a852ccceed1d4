//! The smallest cluster for each reason code.
//!
//! A case is a row: its name says the situation and the outcome, and the test lists every row that fails.

mod admitted;
mod again;
mod claims;
mod creation;
mod eligibility;
mod evidence;
mod kubelet;
mod messages;
mod scheduling;
mod terminating;

use serde_json::{Value, json};

use super::test_support::{World, world};
use crate::report::node_coverage::NodeState;
use crate::report::reason::ReasonCode;

/// A situation, and the expected reason.
struct Case {
    name: &'static str,
    world: World,
    state: NodeState,
    code: ReasonCode,
    values: &'static [&'static str],
    command: &'static str,
}

/// Creates a case of a world with one node: its state, the code of its primary reason, values that the message must
/// contain, and the command of the fix.
fn case(
    name: &'static str,
    world: World,
    (state, code): (NodeState, ReasonCode),
    values: &'static [&'static str],
    command: &'static str,
) -> Case {
    Case { name, world, state, code, values, command }
}

/// Returns a world with the plain node `n`.
fn plain() -> World {
    world().node("n", json!({}))
}

/// Returns a world whose node `n` has these labels.
fn labeled(labels: Value) -> World {
    world().node("n", json!({"metadata": {"labels": labels}}))
}

/// Returns a world whose node `n` has this taint.
fn tainted(key: &str, value: &str, effect: &str) -> World {
    world().node("n", json!({"spec": {"taints": [{"key": key, "value": value, "effect": effect}]}}))
}

#[test]
fn every_code_is_given_by_a_rule_with_its_values_and_a_safe_command() {
    let cases = [eligibility::cases(), creation::cases(), scheduling::cases(), kubelet::cases(), terminating::cases()];
    let mut wrong = Vec::new();
    let mut given = Vec::new();
    for Case { name, world, state, code, values, command } in cases.into_iter().flatten() {
        let node = world.only_node();
        let Some(reason) = node.reasons.first() else {
            wrong.push(format!("{name}: no reason, {:?}", node.state));
            continue;
        };
        if (node.state, reason.code) != (state, code) {
            wrong.push(format!("{name}: {:?} {}", node.state, reason.code));
        }
        for value in values.iter().filter(|value| !reason.message.contains(**value)) {
            wrong.push(format!("{name}: {value} missing in: {}", reason.message));
        }
        let actual = reason.fix.command.as_ref().map(ToString::to_string).unwrap_or_default();
        if actual != command {
            wrong.push(format!("{name}: command: {actual}"));
        }
        assert!(!reason.fix.advice.is_empty(), "{name}");
        given.push(code);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // These are about a DaemonSet, not a node.
    given.extend([ReasonCode::SelectorOverlap, ReasonCode::AdoptedPods, ReasonCode::TemplateChangesBack]);
    given.push(ReasonCode::DeletionRefused);
    let missing: Vec<_> = ReasonCode::ALL.iter().filter(|code| !given.contains(code)).collect();
    assert!(missing.is_empty(), "no case gives {missing:?}");
}

/// A command may show something, open an editor, or make one of the few changes that repair only what is broken.
#[test]
fn no_command_makes_an_outage_worse() {
    const HARMLESS: &[&str] = &["describe", "edit", "get"];
    let cases = [eligibility::cases(), creation::cases(), scheduling::cases(), kubelet::cases(), terminating::cases()];
    for Case { name, world, .. } in cases.into_iter().flatten() {
        let coverage = world.coverage();
        for reason in coverage.nodes.iter().flat_map(|node| &node.reasons) {
            let Some(command) = &reason.fix.command else { continue };
            let words = shlex::split(&command.to_string()).unwrap();
            let allowed = HARMLESS.contains(&words[1].as_str())
                || (words[1] == "ds" && ["coverage", "preview", "logs"].contains(&&*words[2]))
                || match reason.code {
                    // The pod has failed, or never ran, and its node is eligible, so that it is recreated.
                    ReasonCode::FailedPodBackoff | ReasonCode::KubeletRejected | ReasonCode::UntoleratedNoSchedule => {
                        words[1..3] == ["delete", "pod"]
                    }
                    ReasonCode::ServiceAccountMissing => words[1..3] == ["create", "serviceaccount"],
                    // The new pod never ran.
                    ReasonCode::SurgeHostPortDeadlock | ReasonCode::InsufficientResource | ReasonCode::TooManyPods => {
                        words[1..3] == ["ds", "set"]
                    }
                    // An administrator decides.
                    ReasonCode::SecurityConstraintDenied => words[..3] == ["oc", "adm", "policy"],
                    _ => false,
                };
            assert!(allowed, "{name}: {command}");
            for dangerous in ["--force", "--overwrite", "finalizers", "…"] {
                assert!(!command.to_string().contains(dangerous), "{name}: {command}");
            }
        }
    }
}
