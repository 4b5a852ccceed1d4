//! Every judgement on the nodes and DaemonSets of the fixtures and of random clusters, so that any change is noticed.
//!
//! `SNAPSHOTS=overwrite cargo test --lib judgement_test` rewrites the file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use snapbox::assert::DEFAULT_ACTION_ENV;
use snapbox::{Assert, Data};

use super::{Question, status};
use crate::cluster::file::Dump;
use crate::cluster::{Flavors, Query, Wanted};
use crate::coverage::incidents::Incidents;
use crate::facts::index::Index;
use crate::model::snapshot::Snapshot;
use crate::rollout::situation::Situation;
use crate::rollout::situation::judgement::Judgement;
use random::Random;

#[path = "../../../tests/numbers/generator.rs"]
mod generator;
#[path = "../../../tests/support/random.rs"]
#[expect(dead_code, reason = "the tests of other things use more of it")]
mod random;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Number of random clusters to judge.
const CLUSTERS: u64 = 300;

fn read(path: &str, text: &[u8]) -> Option<Snapshot> {
    let query = Query { flavors: Flavors::Any, wanted: Wanted::Everything, ..Query::default() };
    let read = Dump::new(path, None).read(&query, &mut io::Cursor::new(text), |_| Default::default());
    Some(read.ok()?.snapshot)
}

/// Writes a line for each DaemonSet, and one for all nodes with the same judgement.
fn write(text: &mut String, name: &str, snapshot: &Snapshot) {
    let index = Index::new(snapshot);
    for daemon_set in index.daemon_sets_of_any_flavor() {
        let rollout = status(&index, daemon_set, &Question::default(), &mut Incidents::default());
        let situation = Situation::new(&index, daemon_set);
        let Judgement { suspect, faults, .. } = Judgement::of(&situation);
        write!(text, "{name} {}/{}: {:?}", rollout.namespace, rollout.name, rollout.verdict).unwrap();
        rollout.blocked_by.iter().for_each(|by| write!(text, " by {by:?}").unwrap());
        suspect.iter().for_each(|suspect| write!(text, ", suspect {:?}", suspect.what).unwrap());
        for fix in &rollout.way_out {
            let command = fix.command.as_ref().map(|command| command.to_string()).unwrap_or_default();
            write!(text, "\n  > {}: {command}", fix.advice).unwrap();
        }
        let mut alike: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for node in &situation.nodes {
            let Some(diagnosis) = &node.diagnosis else { continue };
            let fault = faults.of(node.name).map_or_else(|| "-".to_owned(), |fault| format!("{fault:?}"));
            let passing = if situation.recovers(node) { "passes" } else { "stays" };
            let judgement = format!("{} {:?} {passing} {fault}", diagnosis.code, diagnosis.origin);
            alike.entry(judgement).or_default().push(node.name);
        }
        for (judgement, nodes) in alike {
            let more = nodes.len().saturating_sub(8);
            let more = if more > 0 { format!(" +{more}") } else { String::new() };
            write!(text, "\n  {judgement}: {}{more}", nodes[..nodes.len().min(8)].join(" ")).unwrap();
        }
        text.push('\n');
    }
}

#[test]
fn every_judgement_is_as_it_was() {
    let fixtures = Path::new(ROOT).join("tests/fixtures");
    let mut paths: Vec<PathBuf> = [fixtures.clone(), fixtures.join("commands"), fixtures.join("cases")]
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    let mut text = String::new();
    for path in paths {
        if let Some(snapshot) = read(path.to_str().unwrap(), &[]) {
            write(&mut text, path.file_name().unwrap().to_str().unwrap(), &snapshot);
        }
    }
    for seed in 0..CLUSTERS {
        let cluster = generator::cluster(&mut Random::new(seed)).to_string();
        write(&mut text, &format!("{seed}"), &read("-", cluster.as_bytes()).unwrap());
    }
    let file = Path::new(ROOT).join("tests/judgements.txt");
    let expected = Data::read_from(&file, None).raw();
    if let Err(difference) =
        Assert::new().action_env(DEFAULT_ACTION_ENV).try_eq(Some(&"actual"), Data::text(text), expected)
    {
        panic!("{difference}");
    }
}
