//! Staged rollouts behind a proxy with a wrong clock: nothing becomes available early, and nothing waits forever.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::SignedDuration;
use serde_json::json;

use super::partition::{annotations, pods, wait_until_available_on};
use super::workload::{Api, Workload};
use super::{Cluster, NODES, cluster};
use crate::support::interceptor::{Interceptor, Moment};

const MIN_READY: Duration = Duration::from_secs(4);

const SOAK: Duration = Duration::from_secs(3);

/// By how much a clock is ahead in seconds, and what is said about it.
const CLOCKS: [(i64, Option<&str>); 6] = [
    (0, None),
    (-50, None),
    (70, Some("ahead of that of this machine")),
    (-70, Some("behind that of this machine")),
    (3_600, Some("ahead of that of this machine")),
    (-3_600, Some("behind that of this machine")),
];

/// Twenty years, in seconds.
const AGES: i64 = 20 * 365 * 24 * 60 * 60;

fn create(cluster: &'static Cluster) -> Workload {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
    let spec = json!({"updateStrategy": strategy, "minReadySeconds": MIN_READY.as_secs()});
    let workload = Workload::create(cluster, Api::Apps, &cluster.namespace(), "agent", &spec);
    wait_until_available_on(NODES, &workload);
    workload
}

/// Rolls out in one stage, and looks when pods are deleted.
fn roll_out(ahead: i64, says: Option<&str>) {
    let workload = create(cluster());
    let deletions: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let noted = deletions.clone();
    let folder = workload.cluster.control_plane.folder();
    let ahead = SignedDuration::from_secs(ahead);
    let proxy = Interceptor::with_clock(workload.cluster.api, folder, ahead, move |moment, request| {
        if moment == Moment::After && request.method == "DELETE" {
            noted.lock().unwrap().push(Instant::now());
        }
    });
    let soak = format!("--soak={}s", SOAK.as_secs());
    let arguments = ["partition", "0", "--image=agent=agent:2", &soak, "--progress-deadline=60s"];
    let run = workload.run_as(proxy.kubeconfig(), &arguments).expect(0);
    let ended = Instant::now();
    let deletions = deletions.lock().unwrap().clone();
    assert_eq!((deletions.len(), pods(&workload).1, annotations(&workload).len()), (NODES, NODES, 0), "{run}");
    for pair in deletions.windows(2) {
        let apart = pair[1] - pair[0];
        assert!(apart >= MIN_READY, "{ahead:?}: deleted {apart:?} apart: {run}");
    }
    let soaked = ended - *deletions.last().unwrap();
    assert!(soaked >= MIN_READY + SOAK && soaked < Duration::from_secs(45), "{ahead:?}: {soaked:?}: {run}");
    let started: Vec<&str> =
        run.stdout.lines().filter_map(|line| line.split_once("is available after ")).map(|(_, after)| after).collect();
    let seconds = |after: &&str| after.trim_end_matches('s').parse::<u64>().is_ok_and(|seconds| seconds < 45);
    assert!(started.len() == NODES && started.iter().all(seconds), "{started:?}: {run}");
    assert_eq!(run.stderr.contains("the clock of the API server"), says.is_some(), "{run}");
    run.must_say(says.unwrap_or_default());
    workload.delete();
}

#[test]
fn a_proxy_whose_clock_is_wrong_makes_no_time_pass() {
    let years = [(AGES, Some("ahead of that of this machine")), (-AGES, Some("behind that of this machine"))];
    thread::scope(|scope| {
        for (ahead, says) in CLOCKS.into_iter().chain(years) {
            scope.spawn(move || roll_out(ahead, says));
        }
    });
}

/// The run before has replaced a pod just now: by the clock of the proxy, that was long ago.
#[test]
fn a_stage_that_is_continued_takes_no_young_pod_for_an_old_one() {
    let workload = create(cluster());
    let folder = workload.cluster.control_plane.folder();
    workload.run(&["partition", "100%", "--image=agent=agent:2"]).expect(0);
    let pod = workload.pods().remove(0)["metadata"]["name"].as_str().unwrap().to_owned();
    workload.cluster.api.delete(&format!("/api/v1/namespaces/{}/pods/{pod}", workload.namespace));
    // Conditions have times of whole seconds, so the controller counts from the second in which this one begins.
    let into_the_second = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    let deleted = Instant::now() - Duration::from_nanos(into_the_second.into());
    workload.cluster.control_plane.wait_until("the new pod is ready", || {
        let ready = |pod: &serde_json::Value| {
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        };
        let pods = workload.pods();
        let is_deleted = pods.iter().any(|one| one["metadata"]["name"] == pod.as_str());
        (!is_deleted && pods.len() == NODES && pods.iter().all(ready)).then_some(())
    });
    let first: Arc<Mutex<Option<Instant>>> = Arc::default();
    let noted = first.clone();
    let ahead = SignedDuration::from_hours(1);
    let proxy = Interceptor::with_clock(workload.cluster.api, folder, ahead, move |moment, request| {
        if moment == Moment::Before && request.method == "DELETE" {
            noted.lock().unwrap().get_or_insert_with(Instant::now);
        }
    });
    let run = workload.run_as(proxy.kubeconfig(), &["partition", "0"]).expect(0);
    let after = first.lock().unwrap().unwrap() - deleted;
    assert!(after >= MIN_READY, "{after:?}: {run}");
    workload.delete();
}
