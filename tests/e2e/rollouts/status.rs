//! `status` held against what the real controller does next: a rollout that is called complete, blocked or paused does
//! not change by itself, and what is suggested for a blocked one lets it end.

use std::collections::BTreeMap;
use std::env;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::program::{Run, run_on};
use super::workload::{Api, FATE, Workload, hash, hash_of_pod};
use super::{Cluster, NODES, cluster};
use crate::oracle::generator::Random;
use crate::support::objects::condition;
use crate::support::say;

/// What crashes again and again.
const CRASHING: &str = "phase: Running\ncontainerStatuses:\n- name: agent\n  image: agent\n  imageID: ''\n  ready: false\n  \
     restartCount: 5\n  state:\n    waiting:\n      reason: CrashLoopBackOff\n  lastState:\n    terminated:\n      \
     exitCode: 1\n      reason: Error\n      startedAt: NOW\n      finishedAt: NOW\n";

/// How many rollouts are random, and how many of them go on at once.
const ROLLOUTS: usize = 24;
const AT_ONCE: usize = 4;

/// For how long a rollout that is said not to go on is observed.
const OBSERVED: Duration = Duration::from_millis(1500);

/// How long a rollout of a few pods may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What identifies the state of a pod for the controller.
type Pods = BTreeMap<String, (String, bool, bool)>;

/// A rollout that is followed, and what was said about it.
struct Followed {
    workload: Workload,
    story: Vec<String>,
    verdicts: BTreeMap<String, usize>,
}

/// Tells the story of a rollout that ends in a panic.
impl Drop for Followed {
    fn drop(&mut self) {
        if thread::panicking() {
            say(&self.story.join("\n"));
        }
    }
}

impl Followed {
    fn new(cluster: &'static Cluster, namespace: &str, name: &str, spec: &Value) -> Self {
        let workload = Workload::create(cluster, Api::Apps, namespace, name, spec);
        Followed { workload, story: vec![format!("{name}: {spec}")], verdicts: BTreeMap::new() }
    }

    fn pods(&self) -> Pods {
        let state = |pod: &Value| {
            let ready = condition(pod, "Ready")["status"] == "True";
            (hash_of_pod(pod).to_owned(), ready, !pod["metadata"]["deletionTimestamp"].is_null())
        };
        let uid = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap().to_owned();
        self.workload.pods().iter().map(|pod| (uid(pod), state(pod))).collect()
    }

    /// Returns the status of a moment in which nothing moved, and the pods of it.
    fn look(&mut self) -> (Run, Value, Pods) {
        loop {
            let (live, pods) = (self.workload.live(), self.pods());
            let run = self.workload.run(&["status", "-o", "json"]);
            if (self.workload.live(), self.pods()) != (live, pods.clone()) {
                continue;
            }
            let status = run.json()["daemonSets"][0].clone();
            let verdict = status["verdict"].as_str().unwrap_or_else(|| panic!("no verdict: {run}")).to_owned();
            assert_eq!(run.code, Some(if verdict == "Complete" { 0 } else { 3 }), "{run}");
            *self.verdicts.entry(verdict.clone()).or_default() += 1;
            if self.story.last() != Some(&verdict) {
                self.story.push(verdict);
            }
            return (run, status, pods);
        }
    }

    /// Fails if the controller does anything, although it was said to do nothing.
    fn must_stay(&self, run: &Run, pods: &Pods) {
        let start = Instant::now();
        while start.elapsed() < OBSERVED {
            let now = self.pods();
            assert_eq!(&now, pods, "the controller went on: {run}");
            thread::sleep(Duration::from_millis(150));
        }
    }

    fn must_be_complete(&self, run: &Run, pods: &Pods) {
        let revisions = self.workload.revisions();
        let newest = hash(revisions.last().expect("a revision"));
        assert_eq!(pods.len(), NODES, "{run}");
        for (hash, ready, terminating) in pods.values() {
            assert!(hash == newest && *ready && !terminating, "{pods:?}: {run}");
        }
    }

    /// Does what a command of the way out says.
    fn apply(&mut self, command: &str) {
        self.story.push(command.to_owned());
        let words: Vec<&str> = command.split(' ').collect();
        let cluster = self.workload.cluster;
        match words.as_slice() {
            ["kubectl", "ds", "set", "--max-unavailable", number, ..] => self.workload.merge(&json!({"spec": {
                "updateStrategy": {"rollingUpdate": {"maxUnavailable": number.parse::<u64>().unwrap(), "maxSurge": 0}}}})),
            ["kubectl", "ds", "set", "--type", "RollingUpdate", ..] => {
                self.workload.merge(&json!({"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": null}}}));
            }
            ["kubectl", "ds", rest @ ..] => {
                run_on(&cluster.control_plane, rest).expect(0);
            }
            ["kubectl", rest @ ..] => {
                cluster.control_plane.kubectl(rest);
            }
            _ => panic!("unknown command: {command}"),
        }
    }

    /// Follows the rollout until it is complete, and does what is suggested if it is blocked or paused.
    fn follow(&mut self) {
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < PATIENCE, "it never ends");
            let (run, status, pods) = self.look();
            match status["verdict"].as_str().unwrap() {
                "Complete" => {
                    self.must_be_complete(&run, &pods);
                    self.must_stay(&run, &pods);
                    return;
                }
                "Blocked" | "Paused" => {
                    self.must_stay(&run, &pods);
                    let way_out = status["wayOut"].as_array().unwrap();
                    let command = way_out.first().and_then(|way| way["command"].as_str());
                    // Without an available old pod, nothing tells that an older revision does better.
                    let is_guess =
                        |command: &str| command.contains("undo") && status["suspect"]["oldAvailable"].is_null();
                    let Some(command) = command.filter(|command| !is_guess(command)) else {
                        self.story.push("repaired".to_owned());
                        let image = format!("repaired:{}", self.story.len());
                        self.workload.set_template(&template(&self.workload.name, &image, false));
                        continue;
                    };
                    let command = command.to_owned();
                    self.apply(&command);
                }
                "Progressing" | "NotObserved" => thread::sleep(Duration::from_millis(50)),
                other => panic!("{other}: {run}"),
            }
        }
    }
}

fn template(name: &str, image: &str, crashes: bool) -> Value {
    let annotations = if crashes { json!({FATE: CRASHING}) } else { json!({}) };
    json!({
        "metadata": {"labels": {"app": name}, "annotations": annotations},
        "spec": {"containers": [{"name": "agent", "image": image}]},
    })
}

fn strategy(random: &mut Random) -> Value {
    match random.below(6) {
        0 | 1 => {
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1 + random.below(2), "maxSurge": 0}})
        }
        2 => json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "40%", "maxSurge": 0}}),
        3 | 4 => {
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1 + random.below(2)}})
        }
        _ => json!({"type": "OnDelete"}),
    }
}

fn random_rollout(cluster: &'static Cluster, namespace: &str, seed: u64, at: usize) -> BTreeMap<String, usize> {
    let mut random = Random::new(seed.wrapping_add(at as u64));
    let name = format!("agent-{at}");
    let strategy = strategy(&mut random);
    // While surging, the controller may miss that time alone has made a pod available.
    let surges = strategy["rollingUpdate"]["maxSurge"] != 0;
    let min_ready = if !surges && random.percent(30) { 2 } else { 0 };
    let spec = json!({"updateStrategy": strategy, "minReadySeconds": min_ready});
    let mut followed = Followed::new(cluster, namespace, &name, &spec);
    followed.story.insert(0, format!("KUBECTL_DS_SEED={seed}, rollout {at}"));
    followed.follow();
    for number in 0..2 {
        for part in 0..=usize::from(random.percent(40)) {
            let crashes = random.percent(45);
            followed.story.push(format!("image {number}.{part}, crashes: {crashes}"));
            let image = format!("agent:{at}.{number}.{part}");
            followed.workload.set_template(&template(&name, &image, crashes));
            thread::sleep(Duration::from_millis(random.below(1200) as u64));
        }
        if random.percent(25) {
            let pods = followed.workload.pods();
            if !pods.is_empty() {
                let pod = random.pick(&pods)["metadata"]["name"].as_str().unwrap().to_owned();
                followed.story.push(format!("deleted: {pod}"));
                let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
                let _ = cluster.api.request("DELETE", &path, "application/json", "");
            }
        }
        followed.follow();
    }
    followed.workload.delete();
    std::mem::take(&mut followed.verdicts)
}

#[test]
fn what_status_says_of_random_rollouts_is_what_the_controller_does() {
    let cluster = cluster();
    let seed = env::var("KUBECTL_DS_SEED").ok().map_or_else(
        || u64::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos()),
        |seed| seed.parse().unwrap(),
    );
    let (start, next) = (Instant::now(), AtomicUsize::new(0));
    let said: Mutex<BTreeMap<String, usize>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                let namespace = cluster.namespace();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= ROLLOUTS {
                        break;
                    }
                    for (verdict, times) in random_rollout(cluster, &namespace, seed, at) {
                        *said.lock().unwrap().entry(verdict).or_default() += times;
                    }
                }
            });
        }
    });
    let said = said.into_inner().unwrap();
    say(&format!("KUBECTL_DS_SEED={seed}: {ROLLOUTS} DaemonSets are right after {:.1?}: {said:?}", start.elapsed()));
    for verdict in ["Complete", "Progressing", "Blocked", "Paused"] {
        assert!(said.contains_key(verdict), "nothing was {verdict}");
    }
}

#[test]
fn a_surge_that_a_host_port_blocks_ends_as_suggested() {
    let cluster = cluster();
    let namespace = cluster.namespace();
    let ports = json!({"spec": {"containers": [{"name": "agent", "image": "agent:1",
        "ports": [{"containerPort": 9100, "hostPort": 9100}]}]}});
    let spec = json!({
        "updateStrategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "template": {"spec": ports["spec"]},
    });
    let mut followed = Followed::new(cluster, &namespace, "ports", &spec);
    followed.follow();
    followed.workload.set_image("agent:2");
    followed.follow();
    assert!(
        followed.story.iter().any(|words| words.starts_with("kubectl ds set --max-unavailable 1")),
        "{:?}",
        followed.story
    );
    followed.workload.delete();
}
