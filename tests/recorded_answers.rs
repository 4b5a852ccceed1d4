//! Recorded answers of Kubernetes 1.37.2, so that the rules are checked against them without Go.
//!
//! `KUBECTL_DS_RECORD=1 cargo test --test e2e differential` records them again.

use std::fs::File;
use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use kubectl_ds::model::node::Node;
use serde::Deserialize;

use crate::support::oracle::{Line, Mix, answer, recording};

#[test]
fn recorded_answers_of_kubernetes_hold() {
    let file = File::open(recording()).expect("the recording is missing: record it as tests/recorded_answers.rs says");
    let mut pool = Vec::new();
    let mut mix = Mix::default();
    for line in BufReader::new(GzDecoder::new(file)).lines() {
        match serde_json::from_str(&line.unwrap()).unwrap() {
            Line::Nodes { nodes } => pool = nodes.iter().map(|node| Node::deserialize(node).unwrap()).collect(),
            Line::Answered { case, answer: recorded } => {
                let ours = answer(&case, &pool).unwrap();
                assert!(ours.agrees_with(&recorded), "to {case}\nKubernetes answers {recorded:?}\nand we say {ours:?}");
                mix.add(&recorded);
            }
        }
    }
    mix.assert_healthy();
    assert!(mix.total("eligibility") >= 4_000, "too few answers are recorded:\n{mix}");
    assert!(mix.total("room") + mix.total("upkeep") >= 1_000, "too few answers are recorded:\n{mix}");
    assert!(mix.total("templates") >= 300, "too few answers are recorded:\n{mix}");
}
