//! Tools that run as tests: they are ignored, and assert little. They record `tests/fixtures`, keep a cluster running,
//! or are started by another test.

mod moving_picture;

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::support::agreement::unmet;
use crate::support::control_plane::{ControlPlane, Options};
use crate::support::demo_cluster;
use crate::support::expectations::DEMO;
use crate::support::faulty_cluster::{coverage_with, faulty_cluster};
use crate::support::say;

/// Replaces a recording if `KUBECTL_DS_RECORD` is set, and checks that it could otherwise.
fn record(name: &str, items: &[Value], logs: &str) {
    let kinds = ["DaemonSet", "ControllerRevision", "Node", "Pod", "Event", "Lease"];
    for kind in kinds {
        assert!(items.iter().any(|item| item["kind"] == kind), "the recording has no {kind}");
    }
    if std::env::var_os("KUBECTL_DS_RECORD").is_some_and(|value| !value.is_empty()) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        // Another test may be reading the old one.
        let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap()).unwrap();
        write(&mut file, items, logs);
        fs::set_permissions(file.path(), Permissions::from_mode(0o644)).unwrap();
        file.persist(&path).unwrap();
        say(&format!("recorded {}", path.display()));
    }
}

fn write(file: &mut tempfile::NamedTempFile, items: &[Value], logs: &str) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let mut gzip = GzEncoder::new(file, Compression::best());
    gzip.write_all((list.to_string() + logs).as_bytes()).unwrap();
    gzip.finish().unwrap();
}

#[test]
#[ignore = "a tool"]
fn the_faulty_cluster_is_recorded() {
    record("faulty-cluster.json.gz", &faulty_cluster().settled.items, "");
}

/// Only `KUBECTL_DS_RECORD=1` replaces the recording.
#[test]
#[ignore = "a tool, which takes minutes and needs an idle machine"]
fn the_demo_is_recorded() {
    let items = demo_cluster::record();
    let mut file = tempfile::Builder::new().suffix(".json.gz").tempfile().unwrap();
    let logs = demo_cluster::logs(&items);
    write(&mut file, &items, &logs);
    let wrong = unmet(&coverage_with(&["--from", file.path().to_str().unwrap()]), DEMO);
    assert!(wrong.is_empty(), "{} are unmet:\n{}", wrong.len(), wrong.join("\n"));
    record("demo.json.gz", &items, &logs);
}

#[test]
#[ignore = "a tool, which keeps a cluster to look at until interrupted"]
fn keep_the_faulty_cluster() {
    let cluster = faulty_cluster();
    say(&format!("export KUBECONFIG={}", cluster.kubeconfig().display()));
    say("interrupt to end it");
    thread::sleep(Duration::from_secs(3600));
}

/// Starts a control plane and says where; a test of the harness kills it.
#[test]
#[ignore = "a tool, which a_killed_test_process_leaves_nothing_behind runs in a process of its own"]
fn a_process_that_is_killed() {
    let control_plane = ControlPlane::start(Options::api_server_only());
    fs::write(std::env::var_os("SAY_WHERE").unwrap(), control_plane.kubeconfig().to_str().unwrap()).unwrap();
    thread::sleep(Duration::from_secs(60));
}
