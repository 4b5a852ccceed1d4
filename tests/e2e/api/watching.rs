//! The store of a watch against a real API server.
//!
//! `KUBECTL_DS_CHANGES` and `KUBECTL_DS_QUIET_SECONDS` make the tests longer.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use kubectl_ds::cluster::Query;
use kubectl_ds::cluster::live::{Live, Watch, connect};
use kubectl_ds::connection::ConnectOptions;
use kubectl_ds::model::snapshot::Snapshot;
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde_json::{Value, json};

use super::block_on;
use crate::support::api::{Api, Patch};
use crate::support::control_plane::{ControlPlane, Options, Part};

/// How long anything may take that normally takes a second.
const PATIENCE: Duration = Duration::from_secs(120);

const DAEMON_SET: &str = "/apis/apps/v1/namespaces/default/daemonsets/agent";

/// How many clients make changes at once.
const WRITERS: usize = 4;

/// Returns the number in an environment variable.
fn from_environment(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |number| number.parse().unwrap())
}

fn now() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

async fn live(control_plane: &ControlPlane) -> Live {
    let kubeconfig = Some(control_plane.kubeconfig().display().to_string());
    connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }, now, Arc::new(|_| ())).await.unwrap()
}

fn query() -> Query {
    Query { namespace: Some("default".to_owned()), names: vec!["agent".to_owned()], ..Query::default() }
}

fn start() -> (ControlPlane, Api) {
    let control_plane = ControlPlane::start(Options::api_server_only());
    let api = control_plane.api();
    api.create("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "default"}}));
    let template =
        json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let spec = json!({"selector": {"matchLabels": {"app": "agent"}}, "template": template});
    api.create("/apis/apps/v1/namespaces/default/daemonsets", &json!({"metadata": {"name": "agent"}, "spec": spec}));
    (control_plane, api)
}

fn pod(name: &str, node: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": "agent"}},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [{"name": "a", "image": "a"}]}})
}

/// Sorts what servers list in another order than the store.
fn sorted(mut snapshot: Snapshot) -> Snapshot {
    // They go on with the clock of the server, while that of this machine stands still here.
    (snapshot.now, snapshot.clock_difference) = (Timestamp::UNIX_EPOCH, SignedDuration::ZERO);
    snapshot.nodes.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    snapshot.pods.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    snapshot.events.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    snapshot.controller_revisions.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    snapshot
}

/// Makes one random change; most objects exist at times.
fn change(api: Api, random: &mut TestRng) {
    let mut pick = |count: u32| random.next_u32() % count;
    let (number, action) = (pick(60), pick(4));
    let (collection, name, object) = match pick(9) {
        0..=3 => {
            let name = format!("agent-{number}");
            let pod = pod(&name, &format!("node-{}", pick(40)));
            ("/api/v1/namespaces/default/pods", name, pod)
        }
        4..=5 => {
            let name = format!("node-{}", number % 40);
            ("/api/v1/nodes", name.clone(), json!({"metadata": {"name": name}}))
        }
        6 => {
            let name = format!("agent-{number}");
            let about = json!({"kind": "Pod", "namespace": "default", "name": format!("agent-{number}")});
            let event = json!({"metadata": {"name": name}, "involvedObject": about, "type": "Warning", "reason": "R"});
            ("/api/v1/namespaces/default/events", name, event)
        }
        7 => {
            let labels = json!({"metadata": {"labels": {"x": number.to_string()}}});
            let _ = api.request("PATCH", DAEMON_SET, "application/merge-patch+json", &labels.to_string());
            return;
        }
        _ => {
            let name = format!("revision-{number}");
            let revision = json!({"metadata": {"name": name, "labels": {"app": "agent"}}, "revision": number});
            ("/apis/apps/v1/namespaces/default/controllerrevisions", name, revision)
        }
    };
    let path = format!("{collection}/{name}");
    // Whether the object exists is not known: some of these are refused.
    match action {
        0 => drop(api.request("DELETE", &path, "application/json", "")),
        1 => {
            let app = ["agent", "other"][pick(2) as usize];
            let labels = json!({"metadata": {"labels": {"app": app, "x": pick(1_000).to_string()}}});
            let _ = api.request("PATCH", &path, "application/merge-patch+json", &labels.to_string());
        }
        _ => drop(api.request("POST", collection, "application/json", &object.to_string())),
    }
}

/// Drives a watch until it holds, and fails if it never does.
async fn until(watch: &mut Watch<'_>, what: &str, mut holds: impl AsyncFnMut(&mut Watch<'_>) -> bool) {
    let start = Instant::now();
    while !holds(watch).await {
        assert!(start.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}; {:?}", watch.failure());
        let _ = tokio::time::timeout(Duration::from_millis(200), watch.changed()).await;
    }
}

#[test]
fn after_random_changes_the_store_equals_a_fresh_list() {
    let (control_plane, api) = start();
    let changes = from_environment("KUBECTL_DS_CHANGES", 2_000);
    let left = AtomicUsize::new(changes);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let left = &left;
            scope.spawn(move || {
                let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[u8::try_from(writer).unwrap(); 32]);
                while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
                    change(api, &mut random);
                }
            });
        }
        block_on(async {
            let live = live(&control_plane).await;
            let mut watch = live.watch(query()).await.unwrap();
            let mut seen = 0;
            while left.load(Ordering::SeqCst) > 0 {
                if tokio::time::timeout(Duration::from_millis(200), watch.changed()).await.is_ok() {
                    seen += 1;
                }
            }
            assert!(seen > 0, "{changes} changes were made, and none was seen");
            let fresh = self::live(&control_plane).await;
            until(&mut watch, "the store equals a list", async |watch| {
                sorted(fresh.read(&query()).await.unwrap()) == sorted(watch.snapshot().await.clone())
            })
            .await;
            assert!(
                watch.snapshot().await.pods.len() > 5 && watch.snapshot().await.events.len() > 5,
                "{:?}",
                watch.snapshot().await
            );
        });
    });
}

#[test]
fn a_restart_of_the_api_server_is_survived() {
    let (control_plane, api) = start();
    api.create("/api/v1/namespaces/default/pods", &pod("agent-1", "n1"));
    block_on(async {
        let live = live(&control_plane).await;
        let mut watch = live.watch(query()).await.unwrap();
        assert_eq!(watch.snapshot().await.pods.len(), 1);
        control_plane.stop_part(Part::ApiServer);
        until(&mut watch, "the failure is reported", async |watch| watch.failure().is_some()).await;
        assert_eq!(watch.snapshot().await.pods.len(), 1, "what is known stays known");
        control_plane.start_part(Part::ApiServer);
        control_plane.wait_until("the API server is ready", || api.has("/readyz").then_some(()));
        api.create("/api/v1/namespaces/default/pods", &pod("agent-2", "n1"));
        api.patch(DAEMON_SET, Patch::Merge, &json!({"spec": {"minReadySeconds": 7}}));
        until(&mut watch, "the changes are seen", async |watch| {
            let snapshot = watch.snapshot().await;
            snapshot.pods.len() == 2 && snapshot.daemon_sets[0].spec.min_ready_seconds == 7
        })
        .await;
        until(&mut watch, "no failure is left", async |watch| watch.failure().is_none()).await;
    });
}

/// Starts etcd and the API server, and waits until that is ready.
fn start_parts(control_plane: &ControlPlane, api: Api) {
    control_plane.start_part(Part::Etcd);
    control_plane.start_part(Part::ApiServer);
    control_plane.wait_until("the API server is ready", || api.has("/readyz").then_some(()));
}

/// Versions begin again at that of the backup, and a watch from a later one shows nothing until they reach it.
#[test]
fn a_cluster_that_is_restored_from_a_backup_of_etcd_is_followed_again() {
    let (control_plane, api) = start();
    let pods = "/api/v1/namespaces/default/pods";
    let [data, backup] = ["etcd", "etcd.backup"].map(|name| control_plane.folder().join(name));
    let copy = |from: &Path, to: &Path| {
        assert!(Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
    };
    let stop = || [Part::ApiServer, Part::Etcd].into_iter().for_each(|part| control_plane.stop_part(part));
    api.create(pods, &pod("agent-1", "n1"));
    stop();
    copy(&data, &backup);
    start_parts(&control_plane, api);
    block_on(async {
        let live = live(&control_plane).await;
        let mut watch = live.watch(query()).await.unwrap();
        for seconds in 0..300 {
            api.patch(DAEMON_SET, Patch::Merge, &json!({"spec": {"minReadySeconds": seconds}}));
        }
        // Bookmarks, which come once a minute, take each watch to a late version as this does.
        api.create(pods, &pod("agent-2", "n1"));
        until(&mut watch, "the changes are seen", async |watch| {
            let snapshot = watch.snapshot().await;
            snapshot.pods.len() == 2 && snapshot.daemon_sets[0].spec.min_ready_seconds == 299
        })
        .await;
        stop();
        fs::remove_dir_all(&data).unwrap();
        copy(&backup, &data);
        start_parts(&control_plane, api);
        api.create(pods, &pod("agent-3", "n1"));
        until(&mut watch, "the cluster of the backup is seen", async |watch| {
            let snapshot = watch.snapshot().await;
            let names: Vec<&str> = snapshot.pods.iter().map(|pod| pod.metadata.name.as_str()).collect();
            names == ["agent-1", "agent-3"] && snapshot.daemon_sets[0].spec.min_ready_seconds == 0
        })
        .await;
        until(&mut watch, "no failure is left", async |watch| watch.failure().is_none()).await;
        api.patch(DAEMON_SET, Patch::Merge, &json!({"spec": {"minReadySeconds": 7}}));
        until(&mut watch, "it is watched again", async |watch| {
            watch.snapshot().await.daemon_sets[0].spec.min_ready_seconds == 7
        })
        .await;
    });
}

#[test]
fn a_quiet_watch_is_not_cut_off() {
    let (control_plane, api) = start();
    let quiet = Duration::from_secs(from_environment("KUBECTL_DS_QUIET_SECONDS", 10) as u64);
    block_on(async {
        let live = live(&control_plane).await;
        let mut watch = live.watch(query()).await.unwrap();
        let changed = tokio::time::timeout(quiet, watch.changed()).await;
        assert!(changed.is_err(), "{:?}", watch.failure());
        api.create("/api/v1/namespaces/default/pods", &pod("agent-1", "n1"));
        until(&mut watch, "the pod is seen", async |watch| watch.snapshot().await.pods.len() == 1).await;
        assert_eq!(watch.failure(), None);
    });
}
