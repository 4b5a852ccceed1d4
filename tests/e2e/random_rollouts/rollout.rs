//! One random rollout: what happens to it, and how the suggestions of `status` complete it.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kubectl_ds::report::fix::{Command, Origin};
use kubectl_ds::report::rollout_status::{RolloutStatus, Verdict};
use serde_json::{Value, json};

use super::Bed;
use super::accepted::{may_still_start, waits_in_vain};
use super::judge::{Compared, Judge, brief};
use super::recorder::ROLLOUT;
use super::state::State;
use crate::rollouts::program::run_on;
use crate::rollouts::workload::{Api, CRASHING, FATE, Workload};
use crate::support::api::Patch;
use crate::support::objects::condition;
use crate::support::random::Random;
use crate::support::say;

/// What the kubelet has rejected.
const FAILED: &str = "phase: Failed\nreason: OutOfcpu\nmessage: Pod was rejected\n";

/// How long a rollout may take on a busy machine; the pod garbage collector takes up to a minute for the pods of a deleted
/// node.
const PATIENCE: Duration = Duration::from_secs(1200);

/// How long nothing may happen on a busy machine while a rollout is called progressing.
const STANDSTILL: Duration = Duration::from_secs(300);

/// How long a rollout must have been blocked before something is done about it.
const BLOCKED: Duration = Duration::from_millis(500);

/// How long a rollout must have been blocked before something is done about it although pods come and go.
const RESTLESS: Duration = Duration::from_secs(5);

/// What is accepted, at random; no node is short of anything, and no quota refuses pods.
const ACCEPT: [Option<&str>; 7] = [
    None,
    Some("node"),
    Some("node=1"),
    Some("node=30%"),
    Some("node,on-delete"),
    Some("cluster,on-delete"),
    Some("NodeUnreachable"),
];

/// What a rollout shows for certain, so that no run leaves it to chance.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Focus {
    /// The strategy replaces nothing.
    OnDelete,
    /// A dead node uses up the budget.
    DeadNode,
    /// Nodes are dead, and the revision is bad.
    BadRevision,
    /// Nodes die and come back half-way.
    NodesComeBack,
    /// Dead nodes, of which previews know.
    Preview,
    Any,
}

impl Focus {
    fn of(at: usize) -> Self {
        match at % 8 {
            0 => Focus::OnDelete,
            1 => Focus::DeadNode,
            2 => Focus::BadRevision,
            3 => Focus::NodesComeBack,
            _ => Focus::Any,
        }
    }
}

/// What came of a rollout.
#[derive(Debug, Default)]
pub struct Outcome {
    pub compared: Compared,
    /// How often each verdict was given, and each kind of event and way out was seen.
    pub seen: BTreeMap<String, usize>,
}

/// A rollout that is going on.
pub struct Rollout {
    pub(super) bed: &'static Bed,
    pub(super) random: Random,
    focus: Focus,
    namespace: String,
    pub(super) workload: Workload,
    pub(super) nodes: Vec<String>,
    pub(super) dead: BTreeSet<String>,
    tainted: BTreeSet<String>,
    crashes: bool,
    /// Whether a container has a host port, so that no two pods fit on a node.
    has_host_port: bool,
    templates: usize,
    /// What its annotation accepts.
    accept: Option<&'static str>,
    story: Vec<String>,
    seen: BTreeMap<String, usize>,
}

/// Tells the story of a rollout that ends in a panic.
impl Drop for Rollout {
    fn drop(&mut self) {
        if thread::panicking() {
            say(&self.story.join("\n"));
        }
    }
}

fn strategy(random: &mut Random) -> Value {
    let rolling = |unavailable: Value, surge: Value| json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}});
    let percentage = json!(format!("{}%", [5, 10, 25, 40, 60, 100][random.below(6)]));
    let number = json!(1 + random.below(4));
    match random.below(9) {
        0..=2 => rolling(number, json!(0)),
        3 | 4 => rolling(percentage, json!(0)),
        5 | 6 => rolling(json!(0), number),
        7 => rolling(json!(0), percentage),
        _ => json!({"type": "OnDelete"}),
    }
}

fn containers(version: usize, has_host_port: bool) -> Value {
    let ports = if has_host_port { json!([{"containerPort": 9100, "hostPort": 9100}]) } else { json!([]) };
    json!([{"name": "agent", "image": format!("agent:{version}"), "ports": ports}])
}

impl Rollout {
    pub fn new(bed: &'static Bed, seed: u64, at: usize) -> Self {
        Rollout::with_focus(bed, seed, at, Focus::of(at))
    }

    /// A rollout on a small cluster without bad nodes, under any rolling update.
    pub fn of_preview(bed: &'static Bed, seed: u64, at: usize) -> Self {
        Rollout::with_focus(bed, seed, at, Focus::Preview)
    }

    fn with_focus(bed: &'static Bed, seed: u64, at: usize, focus: Focus) -> Self {
        let mut random = Random::new(seed.wrapping_add(at as u64));
        let namespace = bed.cluster.namespace();
        let count = if random.percent(15) { 10 + random.below(21) } else { 3 + random.below(6) };
        let has_bad = random.percent(20) && !matches!(focus, Focus::BadRevision | Focus::Preview);
        let bad = if has_bad { 1 + random.below(2) } else { 0 };
        let name = |number: usize| {
            let kind = if number < bad { "bad" } else { "node" };
            format!("{namespace}-{kind}-{number}")
        };
        let nodes: Vec<String> = (0..count).map(name).collect();
        let rolling = |number: usize| json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": number, "maxSurge": 0}});
        let strategy = match focus {
            Focus::OnDelete => json!({"type": "OnDelete"}),
            Focus::DeadNode => rolling(1),
            // Enough for a dead node and others.
            Focus::BadRevision | Focus::NodesComeBack => rolling(3),
            Focus::Any => strategy(&mut random),
            Focus::Preview => loop {
                let strategy = strategy(&mut random);
                if strategy["type"] != "OnDelete" {
                    break strategy;
                }
            },
        };
        let min_ready = if random.percent(30) { 1 + random.below(2) } else { 0 };
        // A surge cannot work then, which previews do not foretell.
        let has_host_port = random.percent(15) && focus != Focus::Preview;
        let mut spec = json!({"updateStrategy": strategy, "minReadySeconds": min_ready,
            "template": {"spec": {"nodeSelector": {ROLLOUT: namespace}}}});
        let story =
            vec![format!("KUBECTL_DS_SEED={seed}, rollout {at} in {namespace}, {count} nodes, {bad} bad: {spec}")];
        spec["template"]["spec"]["containers"] = containers(0, has_host_port);
        spec["template"]["metadata"]["labels"]["app"] = json!("agent");
        for node in &nodes {
            bed.create_node(node, &namespace);
        }
        let workload = Workload::create(&bed.cluster, Api::Apps, &namespace, "agent", &spec);
        let accept = match focus {
            Focus::OnDelete => Some("on-delete"),
            Focus::DeadNode | Focus::BadRevision | Focus::NodesComeBack => Some("node"),
            Focus::Any => *random.pick(&ACCEPT),
            Focus::Preview => None,
        };
        let annotations = json!({"metadata": {"annotations": {"kubectl-ds/accept": accept}}});
        bed.cluster.api.patch(&workload.path(), Patch::Merge, &annotations);
        Rollout {
            bed,
            random,
            focus,
            namespace,
            workload,
            nodes,
            dead: BTreeSet::new(),
            tainted: BTreeSet::new(),
            crashes: false,
            has_host_port,
            templates: 0,
            accept,
            story,
            seen: BTreeMap::new(),
        }
    }

    /// Lets everything happen, and compares what was said with what was done.
    pub fn run(mut self) -> Outcome {
        self.follow();
        if !matches!(self.focus, Focus::OnDelete | Focus::Any) {
            if let Some(node) = self.some_node() {
                self.kill(node);
            }
            match self.focus {
                Focus::BadRevision => self.set_template_to("crashing", Some(CRASHING)),
                _ => self.set_template_to("good", None),
            }
            if self.focus == Focus::NodesComeBack {
                thread::sleep(Duration::from_millis(self.random.below(3000) as u64));
                self.revive();
            }
            self.follow();
        }
        for _ in 0..2 {
            if self.random.percent(50) {
                self.disturb();
            }
            self.set_template();
            for _ in 0..self.random.below(3) {
                thread::sleep(Duration::from_millis(self.random.below(900) as u64));
                match self.random.below(4) {
                    0 => self.set_template(),
                    1 => self.undo(),
                    _ => self.disturb(),
                }
            }
            self.follow();
        }
        self.wait_until_recorded();
        let changes = self.bed.recorder.changes(&self.namespace);
        let deleters = self.bed.audit.deleters(&self.namespace);
        let compared = match Judge::new(&changes, &deleters).judge() {
            Ok(compared) => compared,
            Err(wrong) => panic!("wrong: {wrong}"),
        };
        Outcome { compared, seen: self.end() }
    }

    /// Removes all of it, and returns how often what was seen.
    pub(super) fn end(mut self) -> BTreeMap<String, usize> {
        self.workload.delete();
        for node in self.nodes.iter().filter(|node| self.exists(node)) {
            self.bed.cluster.api.delete(&format!("/api/v1/nodes/{node}"));
        }
        self.bed.recorder.forget(&self.namespace);
        std::mem::take(&mut self.seen)
    }

    pub(super) fn tell(&mut self, words: String) {
        let kind = words.split(':').next().unwrap_or_default().to_owned();
        *self.seen.entry(kind).or_default() += 1;
        self.story.push(format!("{} {words}", Timestamp::now()));
    }

    fn exists(&self, node: &str) -> bool {
        self.bed.cluster.api.has(&format!("/api/v1/nodes/{node}"))
    }

    fn template(&self, fate: Option<&str>) -> Value {
        let annotations = fate.map_or(json!({}), |fate| json!({FATE: fate}));
        json!({
            "metadata": {"labels": {"app": "agent"}, "annotations": annotations},
            "spec": {"containers": containers(self.templates, self.has_host_port),
                "nodeSelector": {ROLLOUT: self.namespace}},
        })
    }

    fn set_template(&mut self) {
        match self.random.below(20) {
            0..=5 => self.set_template_to("crashing", Some(CRASHING)),
            6 | 7 => self.set_template_to("failing", Some(FAILED)),
            _ => self.set_template_to("good", None),
        }
    }

    pub(super) fn set_template_to(&mut self, name: &str, fate: Option<&str>) {
        self.templates += 1;
        self.crashes = fate.is_some();
        self.tell(format!("template {name}: {}", self.templates));
        self.workload.set_template(&self.template(fate));
    }

    fn undo(&mut self) {
        let run = self.workload.run(&["undo"]);
        self.tell(format!("undo: {:?}", run.code));
        self.crashes = self.workload.template()["metadata"]["annotations"].get(FATE).is_some();
    }

    pub(super) fn some_node(&mut self) -> Option<String> {
        let node = self.random.pick(&self.nodes).clone();
        self.exists(&node).then_some(node)
    }

    /// Makes something happen that has nothing to do with the rollout.
    fn disturb(&mut self) {
        let api = self.bed.cluster.api;
        let Some(node) = self.some_node() else { return };
        let path = format!("/api/v1/nodes/{node}");
        match self.random.below(14) {
            0..=2 => self.kill(node),
            3 => {
                self.tell(format!("NoSchedule: {node}"));
                self.taint(&node, "NoSchedule");
            }
            4 => {
                self.tell(format!("NoExecute: {node}"));
                self.taint(&node, "NoExecute");
            }
            5 => {
                self.tell(format!("cordon: {node}"));
                api.patch(&path, Patch::Merge, &json!({"spec": {"unschedulable": true}}));
            }
            6 if self.nodes.len() > 3 => {
                self.tell(format!("node deleted: {node}"));
                api.delete(&path);
                self.dead.remove(&node);
                self.tainted.remove(&node);
            }
            7 => {
                if let Some(node) = self.tainted.pop_first() {
                    self.tell(format!("taint removed: {node}"));
                    self.remove_taints(&node);
                } else {
                    self.revive();
                }
            }
            8 | 9 => {
                if let Some(pod) = self.some_pod() {
                    self.tell(format!("pod deleted: {pod}"));
                    let path = format!("/api/v1/namespaces/{}/pods/{pod}", self.namespace);
                    let _ = api.request("DELETE", &path, "application/json", "");
                }
            }
            _ => {
                if let Some(pod) = self.some_pod() {
                    self.tell(format!("pod breaks: {pod}"));
                    self.break_pod(&pod);
                }
            }
        }
    }

    pub(super) fn kill(&mut self, node: String) {
        self.tell(format!("node dies: {node}"));
        self.bed.kill(&node);
        self.set_pods_ready(&node, false);
        self.dead.insert(node);
    }

    /// Lets a dead node come back.
    fn revive(&mut self) {
        if let Some(node) = self.dead.pop_first() {
            self.tell(format!("node revived: {node}"));
            self.bed.revive(&node);
            self.set_pods_ready(&node, true);
        }
    }

    /// Does what the node controller does if the kubelet stops posting status, and what the kubelet does when it is back; the test
    /// has written the condition of the node itself.
    fn set_pods_ready(&self, node: &str, is_ready: bool) {
        let (from, to) = if is_ready { ("False", "True") } else { ("True", "False") };
        for pod in self.workload.pods().iter().filter(|pod| pod["spec"]["nodeName"] == node) {
            let ready = condition(pod, "Ready");
            if ready["status"] != from || (is_ready && ready["reason"] != "NodeNotReady") {
                continue;
            }
            let mut conditions = pod["status"]["conditions"].clone();
            let all = conditions.as_array_mut().unwrap();
            let ready = all.iter_mut().find(|condition| condition["type"] == "Ready").unwrap();
            ready["status"] = json!(to);
            ready["reason"] = if is_ready { json!(null) } else { json!("NodeNotReady") };
            ready["lastTransitionTime"] = json!(format!("{:.0}", Timestamp::now()));
            let name = pod["metadata"]["name"].as_str().unwrap();
            let path = format!("/api/v1/namespaces/{}/pods/{name}/status", self.namespace);
            let body = json!({"metadata": {"resourceVersion": pod["metadata"]["resourceVersion"]},
                "status": {"conditions": conditions}});
            // It may have been changed or deleted in the meantime.
            let _ = self.bed.cluster.api.request("PATCH", &path, "application/merge-patch+json", &body.to_string());
        }
    }

    fn taint(&mut self, node: &str, effect: &str) {
        let taints = json!({"spec": {"taints": [{"key": "dedicated", "value": "gpu", "effect": effect}]}});
        // The controllers write taints, too.
        if !self.dead.contains(node) {
            self.bed.cluster.api.patch(&format!("/api/v1/nodes/{node}"), Patch::Merge, &taints);
            self.tainted.insert(node.to_owned());
        }
    }

    fn remove_taints(&self, node: &str) {
        let taints = json!({"spec": {"taints": null}});
        self.bed.cluster.api.patch(&format!("/api/v1/nodes/{node}"), Patch::Merge, &taints);
    }

    fn some_pod(&mut self) -> Option<String> {
        let pods = self.workload.pods();
        let names: Vec<String> = pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        (!names.is_empty()).then(|| self.random.pick(&names).clone())
    }

    /// Lets the containers of a running pod crash.
    fn break_pod(&self, pod: &str) {
        let api = self.bed.cluster.api;
        let path = format!("/api/v1/namespaces/{}/pods/{pod}", self.namespace);
        let object = api.request("GET", &path, "application/json", "").body;
        if condition(&object, "Ready")["status"] != "True" {
            return;
        }
        let mut status = object["status"].clone();
        for condition in status["conditions"].as_array_mut().unwrap() {
            if condition["type"] == "Ready" || condition["type"] == "ContainersReady" {
                condition["status"] = json!("False");
                condition["lastTransitionTime"] = json!(format!("{:.0}", Timestamp::now()));
            }
        }
        status["containerStatuses"][0]["ready"] = json!(false);
        status["containerStatuses"][0]["restartCount"] = json!(7);
        status["containerStatuses"][0]["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let body =
            json!({"status": {"conditions": status["conditions"], "containerStatuses": status["containerStatuses"]}});
        let _ = api.request("PATCH", &format!("{path}/status"), "application/merge-patch+json", &body.to_string());
    }

    /// Returns what `status` says of the latest recorded state, and how many changes there have been.
    pub(super) fn look(&self) -> Option<(RolloutStatus, usize)> {
        let changes = self.bed.recorder.changes(&self.namespace);
        let state = State::last(&changes);
        Some((state.status(Timestamp::now())?, changes.len()))
    }

    /// Follows the rollout until it is complete, and does what is suggested if it is blocked or paused.
    fn follow(&mut self) {
        let start = Instant::now();
        let mut said = None;
        let (mut changes, mut since, mut said_since) = (0, Instant::now(), Instant::now());
        loop {
            self.bed.recorder.wait(&self.namespace, changes);
            let Some((status, seen)) = self.look() else { continue };
            let verdict = status.verdict;
            if seen != changes || said != Some(verdict) {
                (changes, since) = (seen, Instant::now());
            }
            if said != Some(verdict) {
                (said, said_since) = (Some(verdict), Instant::now());
                self.tell(format!("{verdict:?}"));
            }
            assert!(start.elapsed() < PATIENCE, "it never ends: {}", brief(&status));
            // Where pods fail as fast as they are created, nothing stands still for the program to say the same.
            let is_restless = said_since.elapsed() >= RESTLESS;
            match verdict {
                Verdict::Blocked | Verdict::Degraded if is_restless && since.elapsed() < BLOCKED => {
                    self.help(&status);
                    said = None;
                }
                Verdict::Complete | Verdict::Blocked | Verdict::Degraded | Verdict::Paused
                    if since.elapsed() < BLOCKED => {}
                Verdict::Complete => return,
                Verdict::Blocked | Verdict::Degraded | Verdict::Paused => {
                    if self.is_told_by_the_program(&status, seen) {
                        self.watch_what_is_accepted(&status, seen);
                        self.help(&status);
                        said = None;
                    }
                }
                _ => assert!(since.elapsed() < STANDSTILL, "nothing happens: {}", brief(&status)),
            }
        }
    }

    /// Compares what the program prints; returns whether the cluster was still the same, after as many changes.
    fn is_told_by_the_program(&self, status: &RolloutStatus, seen: usize) -> bool {
        let run = self.workload.run(&["status", "-o", "json"]);
        let told = run.json()["daemonSets"][0].clone();
        let (is_complete, way_out) = (&told["rolloutComplete"], &told["wayOut"]);
        self.wait_until_recorded();
        let Some((now, changes)) = self.look() else { return false };
        // A pod that was recreated and has failed again leaves everything as it was.
        if changes != seen {
            return false;
        }
        let is_same = (now.verdict, &now.next, &now.counts) == (status.verdict, &status.next, &status.counts);
        if !is_same || now.way_out != status.way_out {
            return false;
        }
        let commands = |way_out: &Value| {
            let commands = way_out.as_array().unwrap().iter().map(|way| way["command"].clone());
            commands.collect::<Vec<_>>()
        };
        // The program adds the flags that lead to the cluster.
        let kubeconfig = self.bed.cluster.control_plane.kubeconfig();
        let origin = Origin::Cluster(Command::default().flag("--kubeconfig", kubeconfig.display().to_string()));
        let mut expected = status.way_out.clone();
        expected.iter_mut().for_each(|fix| origin.complete(fix));
        assert_eq!((is_complete, &told["status"]), (&json!(status.rollout_complete), &json!(status.status)), "{run}");
        assert_eq!(run.code, Some(if now.counts_as_complete() { 0 } else { 3 }), "{run}");
        assert_eq!(commands(way_out), commands(&json!(expected)), "{run}");
        true
    }

    /// Checks that nothing is waited for that cannot come, and sometimes that a watch ends as it should.
    fn watch_what_is_accepted(&mut self, status: &RolloutStatus, seen: usize) {
        let Some(accept) = self.accept else { return };
        let changes = self.bed.recorder.changes(&self.namespace);
        if changes.len() != seen {
            return;
        }
        let state = State::last(&changes);
        assert!(!waits_in_vain(&state, status, Timestamp::now()), "{:?} {}", status.accepted, brief(status));
        self.tell(if status.counts_as_complete() { "accepted" } else { "not accepted" }.to_owned());
        // Nothing else has failed there yet, on whichever nodes it was rolled out.
        if self.focus == Focus::BadRevision && self.templates == 1 && self.crashes {
            let faults = status.faults.expect("what is missing is known");
            assert!(faults.revision > 0 && !status.counts_as_complete(), "{faults:?} {}", brief(status));
            self.tell("at fault".to_owned());
        }
        if may_still_start(status) || !self.random.percent(30) {
            return;
        }
        let watch = ["status", "--watch", "--accept", accept, "--blocked-for", "1s", "--timeout", "60s"];
        let run = self.workload.run(&watch);
        self.wait_until_recorded();
        // Pods that fail may have been recreated meanwhile, and the node controller may have acted.
        if self.look().is_some_and(|(_, changes)| changes == seen) {
            self.tell("watched".to_owned());
            assert_eq!(run.code, Some(if status.counts_as_complete() { 0 } else { 3 }), "{run}");
        }
    }

    /// Does what is suggested, or repairs what was broken if nothing is.
    fn help(&mut self, status: &RolloutStatus) {
        // Without an available old pod, nothing tells that an older revision does better.
        let is_guess = |command: &str| {
            command.contains("undo") && status.suspect.as_ref().is_none_or(|suspect| suspect.old_available == 0)
        };
        let commands = status.way_out.iter().filter_map(|fix| fix.command.as_ref()).map(ToString::to_string);
        let commands: Vec<String> = commands.filter(|command| !is_guess(command)).collect();
        if commands.is_empty() {
            self.repair();
            return;
        }
        let command = self.random.pick(&commands).clone();
        let words = shlex::split(&command).unwrap();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let kind: Vec<&str> = words[1..].iter().copied().take_while(|word| *word != "-n").collect();
        self.tell(format!(
            "{}: {command}",
            kind.iter()
                .filter(|word| !word.contains(|c: char| c.is_ascii_digit()))
                .copied()
                .collect::<Vec<_>>()
                .join(" ")
        ));
        match words.as_slice() {
            ["kubectl", "ds", rest @ ..] => {
                let run = run_on(&self.bed.cluster.control_plane, rest);
                // A gate stops a stage of a revision that fails: its pods still crash if only a node was repaired.
                let is_stopped = rest[0] == "partition" && run.code == Some(3);
                // On a busy machine, the controller may take longer to act than the program waits.
                assert!(is_stopped || matches!(run.code, Some(0 | 6)), "{run}");
            }
            ["kubectl", rest @ ..] => {
                self.bed.cluster.control_plane.kubectl(rest);
            }
            _ => panic!("unknown command: {command}"),
        }
        self.crashes = self.workload.template()["metadata"]["annotations"].get(FATE).is_some();
    }

    /// Repairs one thing.
    fn repair(&mut self) {
        if self.crashes {
            self.templates += 1;
            self.crashes = false;
            self.tell(format!("repaired template: {}", self.templates));
            self.workload.set_template(&self.template(None));
        } else if !self.dead.is_empty() {
            self.revive();
        } else if let Some(node) = self.tainted.pop_first() {
            // A pod that its node should not have is left alone.
            self.tell(format!("taint removed: {node}"));
            self.remove_taints(&node);
        } else if let Some(node) = self.nodes.iter().position(|node| node.contains("-bad-")) {
            let node = self.nodes.remove(node);
            if self.exists(&node) {
                self.tell(format!("bad node excluded: {node}"));
                self.taint(&node, "NoExecute");
                self.tainted.remove(&node);
            }
        } else {
            let is_broken = |pod: &&Value| condition(pod, "Ready")["status"] != "True";
            let pods = self.workload.pods();
            // It may have been repaired in the meantime.
            let Some(pod) = pods.iter().find(is_broken) else { return };
            let name = pod["metadata"]["name"].as_str().unwrap();
            self.tell(format!("broken pod deleted: {name}"));
            self.bed.cluster.control_plane.kubectl(&["delete", "pod", "--wait=false", "-n", &self.namespace, name]);
        }
    }

    /// Waits until the recorder has seen the objects as they are.
    fn wait_until_recorded(&self) {
        self.bed.cluster.control_plane.wait_until("everything is recorded", || {
            let version = |object: &Value| object["metadata"]["resourceVersion"].as_str()?.parse::<u64>().ok();
            let nodes = format!("/api/v1/nodes?labelSelector={ROLLOUT}%3D{}", self.namespace);
            let nodes = self.bed.cluster.api.items(&nodes);
            let (pods, daemon_set) = (self.workload.pods(), self.workload.live());
            let live = pods.iter().chain([&daemon_set]).chain(&nodes).filter_map(version);
            let seen = State::last(&self.bed.recorder.changes(&self.namespace)).versions();
            (seen == live.collect::<BTreeSet<u64>>()).then_some(())
        });
    }
}
