//! Checks the rules against Kubernetes' own functions, on fresh cases in each run.
//!
//! `KUBECTL_DS_SEED` repeats a run, and `KUBECTL_DS_RECORD=1` writes some of its answers to tests/fixtures/oracle for
//! the tests that run without Go.

mod generator;
mod shrink;

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use kubectl_ds::model::node::Node;
use kubectl_ds::model::template_keys::Key;
use kubectl_ds::model::template_types::{FieldKind, TYPES};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::control_plane::build_of;
use crate::support::oracle::{Answer, Fit, Line, Mix, answer, recording};
use crate::support::random::Random;
use crate::support::sampling::{all_is_tried, times};
use crate::support::say;
use crate::support::template_generator::{Taste, template};
use shrink::reductions;

/// How much is compared.
struct Size {
    nodes: usize,
    daemon_sets: usize,
    nodes_per_daemon_set: usize,
    rooms: usize,
    preemptions: usize,
    fits: usize,
    upkeeps: usize,
    rollouts: usize,
    templates: usize,
}

/// Returns how much is compared in each run.
fn fresh() -> Size {
    Size {
        nodes: 3_000,
        daemon_sets: times(5_000),
        nodes_per_daemon_set: 45,
        rooms: times(20_000),
        preemptions: times(8_000),
        fits: times(30_000),
        upkeeps: times(10_000),
        rollouts: times(15_000),
        templates: times(6_000),
    }
}

const RECORDED: Size = Size {
    nodes: 150,
    daemon_sets: 500,
    nodes_per_daemon_set: 20,
    rooms: 1_000,
    preemptions: 1_000,
    fits: 1_200,
    upkeeps: 1_000,
    rollouts: 1_000,
    templates: 400,
};

#[test]
fn rules_decide_as_kubernetes_does() {
    let oracle = oracle();
    let seed = env::var("KUBECTL_DS_SEED").ok().map_or_else(seed_of_the_clock, |seed| seed.parse().unwrap());
    let mut random = Random::new(seed);
    let (pool, cases) = generate(&mut random, &fresh());
    let answers = compare(&oracle, &pool, &cases, seed);
    let mut mix = Mix::default();
    answers.iter().for_each(|answer| mix.add(answer));
    say(&format!("KUBECTL_DS_SEED={seed} agrees with Kubernetes 1.37.2 on\n{mix}"));
    assert!(mix.total("eligibility") >= times(200_000) && mix.total("room") + mix.total("upkeep") >= times(20_000));
    assert!(mix.total("templates") >= times(5_000) && mix.total("preemption") >= times(5_000));
    assert!(mix.total("fit") >= times(100_000));
    // A tenth of it is too little for what is rare.
    if all_is_tried() {
        mix.assert_healthy();
    }

    if env::var_os("KUBECTL_DS_RECORD").is_some() {
        let (pool, cases) = generate(&mut random, &RECORDED);
        let answers = compare(&oracle, &pool, &cases, seed);
        record(pool, cases, answers);
    }
}

/// Writes the table with `KUBECTL_DS_UPDATE=1`. What is not in the Go types stays as it is: the order of fields, and the
/// keys of lists. What is new comes last, and the keys of new lists are missing until somebody adds them.
#[test]
fn the_table_of_template_types_is_generated_from_the_go_types() {
    type Schema = BTreeMap<String, BTreeMap<String, String>>;
    let output = run(&oracle(), &[json!({"schema": {}})]);
    let theirs: Value = serde_json::from_slice(&output).unwrap();
    let theirs = Schema::deserialize(&theirs["schema"]).unwrap();

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/model/template_types/table.rs");
    let found = fs::read_to_string(&path).unwrap();
    let (head, _) = found.split_once("types! {").unwrap();
    let mut table = format!("{head}types! {{\n");
    let known = TYPES.iter().map(|of| of.name);
    for name in in_order(known, theirs.keys()) {
        let fields = &theirs[name];
        let known = TYPES.iter().find(|of| of.name == name).map_or(&[][..], |of| of.fields);
        let declared = in_order(known.iter().map(|field| field.name), fields.keys()).map(|field| {
            let key = known.iter().find(|known| known.name == field).and_then(|known| match &known.kind {
                FieldKind::List(_, key) => Some(*key),
                _ => None,
            });
            format!("{field}: {}", declared(&fields[field], key))
        });
        table += &wrapped(name, &declared.collect::<Vec<_>>());
    }
    table += "}\n";
    if env::var_os("KUBECTL_DS_UPDATE").is_some() {
        fs::write(path, table).unwrap();
    } else {
        assert!(table == found, "{} is stale: run this test with KUBECTL_DS_UPDATE=1", path.display());
    }
}

/// Returns all of `theirs`, the known ones first.
fn in_order<'a>(
    known: impl Iterator<Item = &'a str> + Clone,
    theirs: impl Iterator<Item = &'a String> + Clone,
) -> impl Iterator<Item = &'a str> {
    let theirs = theirs.map(String::as_str);
    let (all, before) = (theirs.clone(), known.clone());
    let stays = known.filter(move |known| all.clone().any(|one| one == *known));
    stays.chain(theirs.filter(move |new| before.clone().all(|known| known != *new)))
}

/// Returns how the table declares a field of which the oracle has this word for the type.
fn declared(word: &str, key: Option<Key>) -> String {
    let scalar = |word: &str| {
        let name = match word {
            "text" => "Text",
            "bool" => "Bool",
            "int32" => "Int32",
            "int64" => "Int64",
            "time" => "Time",
            "json" => "Json",
            "intOrString" => "IntOrString",
            _ => return None,
        };
        Some(name)
    };
    match (word, word.strip_prefix('*'), word.strip_prefix("[]"), key) {
        ("intOrString", ..) => "int_or_string".to_owned(),
        ("*quantity", ..) => "optional_quantity".to_owned(),
        ("quantity" | "quantities" | "texts", ..) => word.to_owned(),
        (_, None, None, _) if scalar(word).is_some() => word.to_owned(),
        (_, Some(of), ..) => scalar(of).map_or_else(|| format!("(?{of})"), |name| format!("{{{name}}}")),
        (_, None, Some(of), _) if scalar(of).is_some() => format!("[{}]", scalar(of).unwrap_or_default()),
        (_, None, Some(of), Some(Key::Field(field))) => format!("[{of} by {field:?}]"),
        (_, None, Some(of), Some(key)) => format!("[{of} as {key:?}]"),
        (_, None, Some(of), None) => format!("[{of} by MISSING]"),
        (_, None, None, _) => format!("({word})"),
    }
}

/// Returns the declaration of a type, with lines of at most 120 columns.
fn wrapped(name: &str, fields: &[String]) -> String {
    let line = format!("    {name} {{ {} }}\n", fields.join(", "));
    if line.trim_end().len() <= 120 {
        return line;
    }
    let mut lines = vec![String::new()];
    for field in fields {
        let line = lines.last_mut().unwrap();
        match line.len() + field.len() < 112 {
            true => *line += &format!(" {field},"),
            false => lines.push(format!(" {field},")),
        }
    }
    let lines: String = lines.iter().map(|line| format!("        {}\n", line.trim_start())).collect();
    format!("    {name} {{\n{lines}    }}\n")
}

fn generate(random: &mut Random, size: &Size) -> (Vec<Value>, Vec<Value>) {
    let pool = (0..size.nodes).map(|_| generator::node(random)).collect();
    let mut cases = Vec::new();
    cases.extend((0..size.daemon_sets).map(|_| generator::eligibility(random, size.nodes, size.nodes_per_daemon_set)));
    cases.extend((0..size.rooms).map(|_| generator::room(random)));
    cases.extend((0..size.preemptions).map(|_| generator::preemption(random)));
    cases.extend((0..size.fits).map(|_| generator::fit(random)));
    cases.extend((0..size.upkeeps).map(|_| generator::manage(random)));
    cases.extend((0..size.rollouts).map(|_| generator::rollout(random)));
    cases.extend((0..size.templates).map(|_| json!({"template": {"podTemplate": template(random, Taste::Readable)}})));
    (pool, cases)
}

/// Fails on the first difference, with a case that is as small as can be.
fn compare(oracle: &str, pool: &[Value], cases: &[Value], seed: u64) -> Vec<Answer> {
    let nodes: Vec<Node> = pool.iter().map(|node| Node::deserialize(node).unwrap()).collect();
    let answers = ask(oracle, pool, cases);
    let (mut open, mut rejected) = (0, 0);
    for (case, theirs) in cases.iter().zip(&answers) {
        assert_eq!(theirs.error, "", "the oracle cannot read {case}");
        let ours = answer(case, &nodes).unwrap();
        open += ours.fit.as_ref().map_or(0, Fit::open);
        rejected += theirs.fit.as_ref().map_or(0, Fit::rejected_for_devices);
        if !ours.agrees_with(theirs) {
            say(&format!("KUBECTL_DS_SEED={seed} meets a difference on\n{case}"));
            let case = minimal(oracle, with_whole_nodes(case, pool));
            let theirs = &ask(oracle, &[], std::slice::from_ref(&case))[0];
            let ours = answer(&case, &[]).unwrap();
            panic!(
                "KUBECTL_DS_SEED={seed} meets a difference on\n{case}\nwhere Kubernetes says\n{}\nand we say\n{}",
                json!(theirs),
                json!(ours)
            );
        }
    }
    say(&format!("{open} nodes are left open for devices; {rejected} have none"));
    assert!(open < rejected, "most that is about devices is left open");
    answers
}

/// Replaces the indices of nodes, so that the case stands alone.
fn with_whole_nodes(case: &Value, pool: &[Value]) -> Value {
    let mut case = case.clone();
    if let Some(nodes) = case.pointer_mut("/eligibility/nodes").and_then(Value::as_array_mut) {
        for node in nodes {
            *node = pool[usize::try_from(node.as_u64().unwrap()).unwrap()].clone();
        }
    }
    case
}

fn minimal(oracle: &str, mut case: Value) -> Value {
    loop {
        let smaller = reductions(&case);
        let answers = ask(oracle, &[], &smaller);
        let differs = |case: &Value, theirs: &Answer| {
            // What a smaller case lacks is not what the two sides differ on.
            let is_known = |ours: &Answer| !json!(ours).to_string().contains("\"unknown\"");
            theirs.error.is_empty() && answer(case, &[]).is_ok_and(|ours| is_known(&ours) && !ours.agrees_with(theirs))
        };
        match smaller.iter().zip(&answers).find(|(case, theirs)| differs(case, theirs)) {
            Some((smaller, _)) => case = smaller.clone(),
            None => return case,
        }
    }
}

fn ask(oracle: &str, pool: &[Value], cases: &[Value]) -> Vec<Answer> {
    let lines: Vec<Value> = std::iter::once(json!({"nodes": pool})).chain(cases.iter().cloned()).collect();
    let answers: Vec<Answer> = run(oracle, &lines)
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice::<Answer>(line).unwrap().sorted())
        .collect();
    assert_eq!(answers.len(), cases.len());
    answers
}

/// Returns what the oracle writes to lines of JSON.
pub fn run(oracle: &str, lines: &[Value]) -> Vec<u8> {
    let mut input = tempfile::tempfile().unwrap();
    let mut text = String::new();
    for line in lines {
        text.push_str(&line.to_string());
        text.push('\n');
    }
    input.write_all(text.as_bytes()).unwrap();
    input.rewind().unwrap();
    let output = Command::new(oracle).stdin(Stdio::from(input)).output().unwrap();
    assert!(output.status.success(), "the oracle failed: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Returns the path of the oracle.
pub fn oracle() -> String {
    build_of("oracle", "1.37").display().to_string()
}

pub fn seed_of_the_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn record(pool: Vec<Value>, cases: Vec<Value>, answers: Vec<Answer>) {
    std::fs::create_dir_all(recording().parent().unwrap()).unwrap();
    let mut file = GzEncoder::new(File::create(recording()).unwrap(), Compression::best());
    let lines = cases.into_iter().zip(answers).map(|(case, answer)| Line::Answered { case, answer: Box::new(answer) });
    for line in std::iter::once(Line::Nodes { nodes: pool }).chain(lines) {
        writeln!(file, "{}", serde_json::to_string(&line).unwrap()).unwrap();
    }
    file.finish().unwrap();
}
