//! Random changes against the functions of Kubernetes.

use std::collections::BTreeSet;
use std::env;
use std::fs::File;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Deserialize;
use serde_json::{Value, json};

use super::changes::Changes;
use crate::differential::{oracle, run, seed_of_the_clock};
use crate::support::sampling::times;
use crate::support::say;
use crate::support::validation::{Answer, Line, manifests, recording};

/// How many random changes there are at night.
const CASES: usize = 60_000;

/// What the oracle answers to one manifest.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Told {
    decoding: String,
    causes: Vec<(String, String)>,
}

impl From<Told> for Answer {
    fn from(Told { decoding, causes }: Told) -> Self {
        match (decoding.is_empty(), causes.is_empty()) {
            (false, _) => Answer::Undecodable,
            (true, true) => Answer::Accepted,
            (true, false) => Answer::refused(causes.into_iter().map(|(_, path)| path)),
        }
    }
}

#[test]
fn manifests_are_refused_as_by_kubernetes() {
    let seed = env::var("KUBECTL_DS_SEED").ok().map_or_else(seed_of_the_clock, |seed| seed.parse().unwrap());
    let mut changes = Changes::new(seed);
    let cases: Vec<Value> = manifests().into_iter().chain((0..times(CASES)).map(|_| changes.next())).collect();
    let lines: Vec<Value> = cases.iter().map(|object| json!({"validation": {"daemonSet": object}})).collect();
    let output = run(&oracle(), &lines);
    let answers: Vec<Answer> = output
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            let mut answer: Value = serde_json::from_slice(line).unwrap();
            assert!(answer["error"].is_null(), "{answer}");
            Told::deserialize(answer["validation"].take()).unwrap().into()
        })
        .collect();
    assert_eq!(answers.len(), cases.len());
    for (object, theirs) in cases.iter().zip(&answers) {
        let ours = Answer::ours(object);
        assert!(
            theirs.allows(&ours),
            "KUBECTL_DS_SEED={seed} meets a difference on\n{object}\nwhere Kubernetes says\n{theirs:?}\nand we say\n{ours:?}"
        );
    }
    assert!(
        answers[..manifests().len()].iter().all(|answer| *answer == Answer::Accepted),
        "all are valid before they are changed"
    );
    let accepted = answers.iter().filter(|answer| **answer == Answer::Accepted).count();
    let undecodable = answers.iter().filter(|answer| **answer == Answer::Undecodable).count();
    let paths: BTreeSet<String> = answers.iter().flat_map(without_indices).collect();
    let count = answers.len();
    say(&format!(
        "KUBECTL_DS_SEED={seed}: {count} manifests are refused as by Kubernetes 1.37.2: {accepted} are accepted, {undecodable} cannot \
         be decoded; {} different paths\n",
        paths.len()
    ));
    assert!(accepted > count / 10 && undecodable > count / 20 && paths.len() > 300);
    if env::var_os("KUBECTL_DS_RECORD").is_some() {
        record(cases, answers);
    }
}

/// Returns the paths of an answer, each of which stands for all entries of a list.
fn without_indices(answer: &Answer) -> Vec<String> {
    let Answer::Refused(paths) = answer else { return Vec::new() };
    let plain = |path: &String| path.split(['[', ']']).step_by(2).collect::<Vec<_>>().join("[]");
    paths.iter().map(plain).collect()
}

/// Records every manifest whose answer has a path that none before has, and some of the others.
fn record(cases: Vec<Value>, answers: Vec<Answer>) {
    let mut file = GzEncoder::new(File::create(recording()).unwrap(), Compression::best());
    let (mut seen, mut accepted, mut undecodable) = (BTreeSet::new(), 0, 0);
    for (manifest, answer) in cases.into_iter().zip(answers) {
        let is_of_interest = match &answer {
            Answer::Accepted => {
                accepted += 1;
                accepted <= 100
            }
            Answer::Undecodable => {
                undecodable += 1;
                undecodable <= 100
            }
            Answer::Refused(_) => {
                without_indices(&answer).into_iter().filter(|path| seen.insert(path.clone())).count() > 0
            }
        };
        if is_of_interest {
            writeln!(file, "{}", serde_json::to_string(&Line { manifest, answer }).unwrap()).unwrap();
        }
    }
    file.finish().unwrap();
}
