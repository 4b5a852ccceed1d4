//! The recorded faulty cluster: reports on it agree with what the control plane had done when it was recorded. The e2e
//! tests check the same live.

use std::io;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use kubectl_ds::cluster::file;
use kubectl_ds::cluster::{CoverageScope, Query, Wanted};
use kubectl_ds::coverage::options::{Detail, Options};
use kubectl_ds::coverage::walk::coverage;
use kubectl_ds::facts::index::nodes_needing_all_pods;
use serde_json::Value;

use crate::support::agreement::{World, disagreements, unmet};
use crate::support::expectations::EXPECTATIONS;
use crate::support::objects::said_about;

/// The objects, and what is reported of them.
struct Recording {
    report: Value,
    items: Vec<Value>,
}

/// Returns where the recorded objects are.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/faulty-cluster.json.gz")
}

/// Returns the recorded objects.
pub fn items() -> Vec<Value> {
    let mut list: Value = serde_json::from_reader(GzDecoder::new(std::fs::File::open(path()).unwrap())).unwrap();
    let Value::Array(items) = list["items"].take() else { panic!("a v1.List") };
    items
}

fn recording() -> Recording {
    let dump = file::Dump::new(path().to_str().unwrap(), None);
    let scope = CoverageScope { admission: true, ..CoverageScope::default() };
    let query = Query { wanted: Wanted::Coverage(scope), ..Query::default() };
    let snapshot = dump.read(&query, &mut io::empty(), nodes_needing_all_pods).unwrap().snapshot;
    let options = Options { detail: Detail::Nodes, ..Options::default() };
    let report = serde_json::to_value(coverage(&snapshot, &options)).unwrap();
    Recording { report, items: items() }
}

#[test]
fn every_node_is_reported_as_the_control_plane_left_it() {
    let recording = recording();
    let wrong = disagreements(&recording.report, &World::new(&recording.items));
    assert!(wrong.is_empty(), "{} disagreements:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_trouble_of_the_faulty_cluster_is_named() {
    let wrong = unmet(&recording().report, EXPECTATIONS);
    assert!(wrong.is_empty(), "{} are unmet:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_control_plane_itself_bears_out_every_expectation() {
    let items = recording().items;
    let of_kind = |kind: &str| items.iter().filter(|item| item["kind"] == kind).cloned().collect::<Vec<_>>();
    let said = said_about(&of_kind("Pod"), &of_kind("Event"));
    let unsaid: Vec<_> = EXPECTATIONS
        .iter()
        .filter(|expectation| !expectation.evidence.is_empty())
        .filter(|expectation| {
            let words = said.get(expectation.daemon_set).map(Vec::as_slice).unwrap_or_default();
            !words.iter().any(|words| words.contains(expectation.evidence))
        })
        .collect();
    assert!(unsaid.is_empty(), "{unsaid:#?}");
}
