//! Recorded answers of Kubernetes 1.37.2.
//!
//! `KUBECTL_DS_RECORD=1 cargo test --test e2e validation::oracle` records them again.

use std::fs::File;
use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;

use crate::support::validation::{Answer, Line, manifests, recording};

#[test]
fn recorded_answers_of_kubernetes_hold() {
    let file =
        File::open(recording()).expect("the recording is missing: record it as tests/validation/recorded.rs says");
    let lines: Vec<Line> = BufReader::new(GzDecoder::new(file))
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    let (mut accepted, mut undecodable) = (0, 0);
    for Line { manifest, answer } in &lines {
        let ours = Answer::ours(manifest);
        assert!(answer.allows(&ours), "of {manifest}\nKubernetes says {answer:?}\nand we say {ours:?}");
        accepted += usize::from(*answer == Answer::Accepted);
        undecodable += usize::from(*answer == Answer::Undecodable);
    }
    assert!(accepted >= 80 && undecodable >= 80 && lines.len() >= 400, "{accepted}, {undecodable}, {}", lines.len());
}

#[test]
fn manifests_of_the_kinds_that_are_published_are_valid() {
    for manifest in manifests() {
        assert_eq!(Answer::ours(&manifest), Answer::Accepted, "{}", manifest["metadata"]["name"]);
    }
}
