//! The faulty cluster for people: kept running to look at, and recorded as the demo.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::support::faulty_cluster::faulty_cluster;
use crate::support::say;

/// Writes `tests/fixtures/demo.json.gz` where `KUBECTL_DS_RECORD` is set, and checks that it could otherwise.
#[test]
fn the_faulty_cluster_is_recorded() {
    let recording = json!({"apiVersion": "v1", "kind": "List", "items": faulty_cluster().settled.items});
    let kinds = ["DaemonSet", "ControllerRevision", "Node", "Pod", "Event", "LimitRange", "Lease"];
    for kind in kinds {
        let items = recording["items"].as_array().unwrap();
        assert!(items.iter().any(|item| item["kind"] == kind), "the recording has no {kind}");
    }
    if std::env::var_os("KUBECTL_DS_RECORD").is_some_and(|value| !value.is_empty()) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/demo.json.gz");
        // Another test may be reading the old one.
        let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap()).unwrap();
        let mut gzip = GzEncoder::new(&mut file, Compression::best());
        gzip.write_all(recording.to_string().as_bytes()).unwrap();
        gzip.finish().unwrap();
        fs::set_permissions(file.path(), Permissions::from_mode(0o644)).unwrap();
        file.persist(&path).unwrap();
        say(&format!("recorded {}", path.display()));
    }
}

/// Keeps the faulty cluster running, to look at it:
/// `cargo test --features e2e -- --ignored --nocapture keep_the_faulty_cluster`
#[test]
#[ignore = "runs until it is interrupted; for people"]
fn keep_the_faulty_cluster() {
    let cluster = faulty_cluster();
    say(&format!("export KUBECONFIG={}", cluster.kubeconfig().display()));
    say("interrupt to end it");
    thread::sleep(Duration::from_secs(3600));
}
