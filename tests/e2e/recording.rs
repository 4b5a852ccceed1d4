//! The faulty cluster for people: kept running to look at, and recorded as the demo.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::support::control_plane::ControlPlane;
use crate::support::{faulty_cluster, say};

/// What the demo holds.
const KINDS: &str = "daemonsets.apps,controllerrevisions.apps,nodes,pods,events,limitranges,\
                     runtimeclasses.node.k8s.io,priorityclasses.scheduling.k8s.io";

/// Writes `tests/fixtures/demo.json.gz` where `KUBECTL_DS_RECORD` is set, and checks that it could otherwise.
#[test]
fn the_faulty_cluster_can_be_recorded() {
    let recording = record(faulty_cluster::shared());
    let kinds = ["DaemonSet", "ControllerRevision", "Node", "Pod", "Event", "LimitRange", "Lease"];
    for kind in kinds {
        let items = recording["items"].as_array().unwrap();
        assert!(items.iter().any(|item| item["kind"] == kind), "the recording has no {kind}");
    }
    if std::env::var_os("KUBECTL_DS_RECORD").is_some_and(|value| !value.is_empty()) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/demo.json.gz");
        let mut file = GzEncoder::new(File::create(&path).unwrap(), Compression::best());
        file.write_all(recording.to_string().as_bytes()).unwrap();
        file.finish().unwrap();
        say(&format!("recorded {}", path.display()));
    }
}

fn record(cluster: &ControlPlane) -> Value {
    let mut items = cluster.items(&[KINDS, "-A"]);
    items.extend(cluster.items(&[
        "leases",
        "-n",
        "kube-system",
        "--field-selector=metadata.name=kube-controller-manager",
    ]));
    for item in &mut items {
        // As long as all the rest, and nobody reads it.
        item["metadata"].as_object_mut().unwrap().remove("managedFields");
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// Keeps the faulty cluster running, to look at it:
/// `cargo test --features e2e -- --ignored --nocapture keep_the_faulty_cluster`
#[test]
#[ignore = "runs until it is interrupted; for people"]
fn keep_the_faulty_cluster() {
    let cluster = faulty_cluster::shared();
    say(&format!("export KUBECONFIG={}", cluster.kubeconfig().display()));
    say("interrupt to end it");
    thread::sleep(Duration::from_secs(3600));
}
