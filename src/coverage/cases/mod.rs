//! The smallest cluster for each reason code, with the exact words of its reason.
//!
//! A case is a row: its name says situation and outcome, and a row that does not hold is listed by it.

mod creation;
mod eligibility;
mod kubelet;
mod scheduling;
mod terminating;

use serde_json::{Value, json};

use super::test_support::{World, world};
use crate::report::coverage::NodeState;
use crate::report::reason::ReasonCode;

/// One situation, and the reason that it is to give.
struct Case {
    name: &'static str,
    world: World,
    state: NodeState,
    code: ReasonCode,
    message: &'static str,
    fix: &'static str,
}

/// Makes a case of a world with one node, whose primary reason is looked at.
fn case(
    name: &'static str,
    world: World,
    (state, code): (NodeState, ReasonCode),
    message: &'static str,
    fix: &'static str,
) -> Case {
    Case { name, world, state, code, message, fix }
}

/// Returns a world with the plain node `n`.
fn plain() -> World {
    world().node("n", json!({}))
}

/// Returns a world whose node `n` has these labels.
fn labelled(labels: Value) -> World {
    world().node("n", json!({"metadata": {"labels": labels}}))
}

/// Returns a world whose node `n` has that taint.
fn tainted(key: &str, value: &str, effect: &str) -> World {
    world().node("n", json!({"spec": {"taints": [{"key": key, "value": value, "effect": effect}]}}))
}

#[test]
fn every_code_is_given_by_a_rule_in_these_words() {
    let cases = [eligibility::cases(), creation::cases(), scheduling::cases(), kubelet::cases(), terminating::cases()];
    let mut wrong = Vec::new();
    let mut given = Vec::new();
    for case in cases.into_iter().flatten() {
        let Case { name, world, state, code, message, fix } = case;
        let node = world.only_node();
        let reason = node.reasons.first().map(|r| (node.state, r.code, r.message.clone(), r.fix.clone()));
        let expected = (state, code, message.to_owned(), fix.to_owned());
        if reason.as_ref() != Some(&expected) {
            wrong.push(format!("{name}:\n  is       {reason:?}\n  expected {expected:?}"));
        }
        given.push(code);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let missing: Vec<_> = ReasonCode::ALL.iter().filter(|code| !given.contains(code)).collect();
    assert!(missing.is_empty(), "no case gives {missing:?}");
}
