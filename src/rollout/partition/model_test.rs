//! Stages on random clusters, with random faults, other writers, an API server whose watch lags, and clients that are killed
//! and continued.

mod situations;

use std::collections::{BTreeSet, VecDeque};

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::instruction::{Instruction, Look, Loss, loss, next_instruction};
use super::plan::{Amount, PlannedStage, StageRequest, plan};
use super::staging::Staging;
use super::template::NewTemplate;
use super::{Stage, allowed, kept};
use crate::facts::index::Index;
use crate::model::controller_revision::ControllerRevision;
use crate::model::daemon_set::DaemonSet;
use crate::model::hold::Hold;
use crate::model::int_or_percent::IntOrPercent;
use crate::model::snapshot::{PodsComplete, Snapshot};
use crate::model::stages::Stratum;
use crate::plan::Plan;
use crate::report::partition::{Gate, GateFailure, PartitionReport, StageState};
use crate::rollout::situation::Situation;

/// The seconds of one tick.
const TICK: i64 = 5;
const OLD: &str = "hash1";
const NEW: &str = "hash2";

/// Faults and other writers, each with its chance per tick in percent.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    /// New pods never become ready.
    bad_revision: bool,
    /// New pods restart.
    crashes: bool,
    /// New pods take their nodes down, which get the taint of that.
    takes_nodes_down: bool,
    node_lost: u64,
    pod_deleted: u64,
    node_added: u64,
    node_deleted: u64,
    old_unready: u64,
    strategy_put_back: u64,
    killed: u64,
}

#[derive(Debug, Clone)]
struct ModelNode {
    name: String,
    zone: u64,
    /// More labels.
    labels: Vec<(&'static str, &'static str)>,
    /// When it has joined.
    created: i64,
    ready: bool,
    since: i64,
    pods: Vec<ModelPod>,
}

#[derive(Debug, Clone)]
struct ModelPod {
    name: String,
    hash: &'static str,
    created: i64,
    ready_since: Option<i64>,
    ready_at: i64,
    restarts: i32,
    gone_at: Option<i64>,
}

struct Model {
    nodes: Vec<ModelNode>,
    object: Value,
    now: i64,
    random: u64,
    names: usize,
    clients: usize,
    faults: Faults,
    /// The UIDs of the pods that clients have deleted.
    deleted: Vec<String>,
    /// That of the command that is repeated.
    max_unavailable: Option<IntOrPercent>,
}

fn timestamp(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

impl Model {
    fn new(seed: u64, nodes: usize, max_unavailable: &Value, faults: Faults) -> Self {
        let template = json!({"metadata": {"labels": {"app": "agent"}},
            "spec": {"containers": [{"name": "agent", "image": "agent:2"}]}});
        let rolling = json!({"maxUnavailable": max_unavailable, "maxSurge": 0});
        let object = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "agent", "namespace": "default", "uid": "agent-uid", "generation": 2, "resourceVersion": "1"},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}},
            "status": {"observedGeneration": 2},
        });
        let mut model = Model {
            nodes: Vec::new(),
            object,
            now: 0,
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            names: 0,
            clients: 0,
            faults: Faults::default(),
            deleted: Vec::new(),
            max_unavailable: None,
        };
        for _ in 0..nodes {
            model.add_node();
            let hash = if model.chance(10) { NEW } else { OLD };
            let ready = !model.chance(10) || hash == NEW;
            let pod = model.pod(hash, ready.then_some(0));
            model.nodes.last_mut().unwrap().pods.push(pod);
        }
        model.now = 1_000;
        model.faults = faults;
        model
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.random(100) < percent
    }

    fn add_node(&mut self) {
        self.names += 1;
        let (name, zone) = (format!("node-{:03}", self.names), self.random(3));
        let (labels, pods) = (Vec::new(), Vec::new());
        self.nodes.push(ModelNode { name, zone, labels, created: 0, ready: true, since: 0, pods });
    }

    fn pod(&mut self, hash: &'static str, ready_since: Option<i64>) -> ModelPod {
        self.names += 1;
        let ready_at = match hash == NEW && self.faults.bad_revision {
            true => i64::MAX,
            false => self.now + TICK * i64::try_from(self.random(4)).unwrap(),
        };
        let ready_at = if ready_since.is_none() && hash == OLD { i64::MAX } else { ready_at };
        let name = format!("agent-{}", self.names);
        ModelPod { name, hash, created: self.now, ready_since, ready_at, restarts: 0, gone_at: None }
    }

    fn daemon_set(&self) -> DaemonSet {
        DaemonSet::from_object(self.object.clone()).unwrap()
    }

    fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::empty(timestamp(self.now));
        snapshot.pods_complete = PodsComplete::Everywhere;
        snapshot.daemon_sets.push(self.daemon_set());
        let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "agent-uid", "controller": true}]);
        for (number, hash) in [(1, OLD), (2, NEW)] {
            let revision = json!({
                "metadata": {"name": format!("agent-{hash}"), "namespace": "default",
                    "labels": {"controller-revision-hash": hash, "app": "agent"}, "ownerReferences": owner},
                "revision": number,
                "data": {"spec": {"template": {"metadata": {"labels": {"app": "agent"}},
                    "spec": {"containers": [{"name": "agent", "image": format!("agent:{number}")}]}}}},
            });
            snapshot.controller_revisions.push(ControllerRevision::from_object(revision).unwrap());
        }
        for node in &self.nodes {
            let ready = if node.ready { "True" } else { "Unknown" };
            let mut labels = json!({"topology.kubernetes.io/zone": node.zone.to_string()});
            node.labels.iter().for_each(|(key, value)| labels[*key] = (*value).into());
            let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
            let taints = if self.faults.takes_nodes_down && !node.ready { vec![taint] } else { Vec::new() };
            let object = json!({
                "metadata": {"name": node.name, "labels": labels,
                    "creationTimestamp": timestamp(node.created).to_string()},
                "spec": {"taints": taints},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "conditions": [
                    {"type": "Ready", "status": ready, "lastTransitionTime": timestamp(node.since).to_string()}]},
            });
            snapshot.nodes.push(serde_json::from_value(object).unwrap());
            for pod in &node.pods {
                let (status, since) = match pod.ready_since {
                    Some(since) => ("True", since),
                    None => ("False", pod.created),
                };
                let object = json!({
                    "metadata": {"name": pod.name, "namespace": "default", "uid": format!("{}-uid", pod.name),
                        "creationTimestamp": timestamp(pod.created).to_string(), "ownerReferences": owner,
                        "deletionTimestamp": pod.gone_at.map(|at| timestamp(at).to_string()),
                        "labels": {"app": "agent", "controller-revision-hash": pod.hash}},
                    "spec": {"nodeName": node.name, "containers": [{"name": "agent", "image": "agent"}],
                        "tolerations": [{"operator": "Exists"}]},
                    "status": {"phase": "Running",
                        "conditions": [{"type": "PodScheduled", "status": "True"},
                            {"type": "Ready", "status": status, "lastTransitionTime": timestamp(since).to_string()}],
                        "containerStatuses": [{"name": "agent", "ready": pod.ready_since.is_some(),
                            "restartCount": pod.restarts, "state": {"running": {"startedAt": timestamp(pod.created).to_string()}}}]},
                });
                snapshot.pods.push(serde_json::from_value(object).unwrap());
            }
        }
        snapshot
    }

    /// Lets time pass: the controller, the kubelets, the faults and the other writers act.
    fn tick(&mut self) {
        self.now += TICK;
        let now = self.now;
        let faults = self.faults;
        for at in 0..self.nodes.len() {
            let has_new = self.nodes[at].pods.iter().any(|pod| pod.hash == NEW);
            if self.nodes[at].ready && (faults.takes_nodes_down && has_new || self.chance(faults.node_lost)) {
                let node = &mut self.nodes[at];
                (node.ready, node.since) = (false, now);
                node.pods.iter_mut().for_each(|pod| pod.ready_since = None);
            }
            if self.nodes[at].ready {
                self.nodes[at].pods.retain(|pod| pod.gone_at.is_none_or(|at| at > now));
                for pod in &mut self.nodes[at].pods {
                    if pod.ready_since.is_none() && pod.gone_at.is_none() && pod.ready_at <= now {
                        pod.ready_since = Some(now);
                        pod.restarts = i32::from(faults.crashes && pod.hash == NEW);
                    }
                }
            }
            if self.chance(faults.pod_deleted)
                && let Some(pod) = self.nodes[at].pods.first_mut()
            {
                pod.gone_at.get_or_insert(now);
            }
            if self.chance(faults.old_unready)
                && let Some(pod) = self.nodes[at].pods.iter_mut().find(|pod| pod.hash == OLD)
            {
                (pod.ready_since, pod.ready_at) = (None, i64::MAX);
            }
            if self.nodes[at].pods.is_empty() {
                let pod = self.pod(NEW, None);
                self.nodes[at].pods.push(pod);
            }
        }
        if self.chance(faults.node_added) {
            self.add_node();
        }
        if self.nodes.len() > 2 && self.chance(faults.node_deleted) {
            let at = usize::try_from(self.random(self.nodes.len() as u64)).unwrap();
            self.nodes.remove(at);
        }
        if self.chance(faults.strategy_put_back) {
            self.object["spec"]["updateStrategy"]["type"] = "RollingUpdate".into();
            self.object["metadata"]["generation"] = 9.into();
            self.object["status"]["observedGeneration"] = 9.into();
        }
    }

    fn apply(&mut self, plan: &Plan) {
        self.object = plan.applied_to(&self.object).unwrap();
    }

    fn old(&self) -> usize {
        let is_old = |pod: &ModelPod| pod.hash == OLD && pod.gone_at.is_none();
        self.nodes.iter().filter(|node| node.pods.iter().any(is_old)).count()
    }

    fn unavailable(&self) -> usize {
        let is_available = |pod: &ModelPod| pod.ready_since.is_some() && pod.gone_at.is_none();
        self.nodes.iter().filter(|node| !node.pods.iter().any(is_available)).count()
    }
}

/// A client, with what it sees of the cluster.
struct Client {
    stage: Stage,
    seen: VecDeque<Snapshot>,
}

/// How a run ended; `Refused` if there is no stage.
#[derive(Debug, PartialEq)]
enum End {
    Done,
    Stopped(Vec<GateFailure>),
    Lost(Loss),
    Refused,
}

impl Client {
    fn start(model: &mut Model, keep: IntOrPercent) -> Option<Self> {
        Self::start_with(model, keep, None)
    }

    fn start_with(model: &mut Model, keep: IntOrPercent, max_unavailable: Option<IntOrPercent>) -> Option<Self> {
        model.clients += 1;
        let run = format!("run {}", model.clients);
        let mut request = StageRequest::new(Amount::Keep(keep), NewTemplate::Live, run);
        request.max_unavailable = max_unavailable;
        // The gates have to stop what a plan would refuse.
        request.force = true;
        request.gates.soak = SignedDuration::from_secs(15);
        request.gates.progress_deadline = SignedDuration::from_secs(120);
        Self::request(model, &request).map(|(client, _)| client)
    }

    fn request(model: &mut Model, request: &StageRequest) -> Option<(Self, PartitionReport)> {
        let snapshot = model.snapshot();
        let index = Index::new(&snapshot);
        let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
        let PlannedStage { plan, stage, report, .. } = plan(&situation, request, None).ok()?;
        plan.step.as_ref()?;
        model.apply(&plan);
        Some((Client { stage, seen: VecDeque::new() }, report))
    }

    /// Starts the stage of several that comes next, and returns which it is.
    fn start_staged(model: &mut Model, passed: usize) -> Option<(Self, usize)> {
        model.clients += 1;
        let all = Amount::Keep(IntOrPercent::Int(0));
        let mut request = StageRequest::new(all, NewTemplate::Live, format!("run {}", model.clients));
        let (stages, strata) = (STAGES.parse().unwrap(), Stratum::DEFAULT.into());
        request.staging = Some(Staging { stages, strata, passed });
        request.force = true;
        request.gates.soak = SignedDuration::from_secs(15);
        request.gates.progress_deadline = SignedDuration::from_secs(120);
        request.max_unavailable = model.max_unavailable;
        let (client, report) = Self::request(model, &request).or_else(|| {
            // Pods that fail outside the stage use up the budget, unless it is one of this run; from then on, the command has it.
            model.max_unavailable = Some(IntOrPercent::Int(1));
            request.max_unavailable = model.max_unavailable;
            Self::request(model, &request)
        })?;
        let stages = report.staged.unwrap().stages;
        Some((client, stages.iter().position(|stage| stage.state == StageState::Now).unwrap()))
    }

    /// Starts a stage that takes the new revision back.
    fn start_back(model: &mut Model) -> Self {
        let request = StageRequest::roll_back(1, "back".to_owned(), &model.daemon_set());
        let snapshot = model.snapshot();
        let index = Index::new(&snapshot);
        let PlannedStage { plan, mut stage, .. } =
            plan(&Situation::new(&index, &snapshot.daemon_sets[0]), &request, None).unwrap();
        model.apply(&plan);
        stage.hash = OLD.to_owned();
        Client { stage, seen: VecDeque::new() }
    }

    /// Looks and acts once; returns how the run ended, if it did.
    fn act(&mut self, model: &mut Model, lag: usize) -> Result<(Option<End>, bool), TestCaseError> {
        self.seen.push_back(model.snapshot());
        while self.seen.len() > lag + 1 {
            self.seen.pop_front();
        }
        let mut snapshot = self.seen.front().unwrap().clone();
        snapshot.now = timestamp(model.now);
        self.stage.forget_found(&snapshot);
        let Look { step, .. } = next_instruction(&snapshot, &self.stage);
        let (node, pod) = match step {
            Instruction::Done(_) => return Ok((Some(End::Done), false)),
            Instruction::Stop(failures) => {
                prop_assert!(!failures.is_empty());
                return Ok((Some(End::Stopped(failures)), false));
            }
            Instruction::Lost(loss) => return Ok((Some(End::Lost(loss)), false)),
            Instruction::Wait(_) | Instruction::Verify { .. } => return Ok((None, false)),
            Instruction::Replace { node, pod } => (node, pod),
        };
        // As the command does right before.
        if let Some(loss) = loss(&model.daemon_set(), &self.stage) {
            return Ok((Some(End::Lost(loss)), false));
        }
        let is_planned = [&self.stage.nodes, &self.stage.others].iter().any(|nodes| nodes.contains(&node));
        prop_assert!(is_planned, "outside the plan: {node}");
        prop_assert!(!self.stage.deleted.contains(&pod.uid), "twice: {}", pod.name);
        let (unavailable, old, desired) = (model.unavailable(), model.old(), model.nodes.len());
        let has_faults = model.faults.node_lost + model.faults.old_unready + model.faults.pod_deleted > 0
            || model.faults.node_deleted + model.faults.node_added > 0;
        let is_gone = |name: &&String| model.nodes.iter().all(|node| node.name != **name);
        let is_number = matches!(self.stage.keep, IntOrPercent::Int(_));
        let gone = self.stage.stay.iter().filter(|_| is_number).filter(is_gone).count();
        let Some(target) = model.nodes.iter_mut().find(|other| other.name == node) else { return Ok((None, false)) };
        let found = target.pods.iter_mut().find(|other| format!("{}-uid", other.name) == pod.uid);
        let Some(found) = found.filter(|found| found.gone_at.is_none()) else {
            // It is gone already: the API server refuses the UID, or the deletion changes nothing.
            self.stage.deleted.insert(pod.uid.clone());
            return Ok((None, true));
        };
        prop_assert_eq!(found.hash, OLD, "an updated pod: {}", &pod.name);
        let keep = kept(self.stage.keep, desired).saturating_sub(gone);
        let is_available = found.ready_since.is_some();
        if !(has_faults && lag > 0) {
            prop_assert!(old > keep, "{old} old pods, {keep} are kept");
            let limit = allowed(self.stage.max_unavailable, desired) + self.stage.excused.len();
            prop_assert!(!is_available || unavailable < limit, "{unavailable} of {limit} are unavailable");
        }
        found.gone_at = Some(model.now + TICK);
        prop_assert!(!model.deleted.contains(&pod.uid), "twice: {}", pod.name);
        model.deleted.push(pod.uid.clone());
        self.stage.deleted.insert(pod.uid);
        self.stage.replaced_at.insert(node, timestamp(model.now));
        self.stage.last_progress = timestamp(model.now);
        Ok((None, true))
    }
}

/// Runs a stage to its end, killing clients and starting new ones on the way.
fn run(model: &mut Model, keep: IntOrPercent, lag: usize) -> Result<(End, Option<Stage>), TestCaseError> {
    let Some(mut client) = Client::start(model, keep) else { return Ok((End::Refused, None)) };
    let mut available = 0;
    for _ in 0..2_000 {
        loop {
            let (end, acted) = client.act(model, lag)?;
            if let Some(end) = end {
                return Ok((end, Some(client.stage)));
            }
            // The same command again, at any point.
            let killed = model.faults.killed;
            if model.chance(killed) {
                match Client::start(model, keep) {
                    Some(next) => client = next,
                    None => return Ok((End::Refused, None)),
                }
            }
            if !acted {
                break;
            }
        }
        model.tick();
        let now_available = model.nodes.len() - model.unavailable();
        if now_available > available {
            client.stage.last_progress = timestamp(model.now);
        }
        available = now_available;
    }
    Err(TestCaseError::fail("it does not end"))
}

const STAGES: &str = "canary,3,50%,100%";

/// Runs one stage after another to the end, killing clients and starting new ones on the way. After each, `check` gets its stage.
fn run_stages(
    model: &mut Model,
    lag: usize,
    check: impl Fn(&Model, &Stage, usize) -> Result<(), TestCaseError>,
) -> Result<(End, Option<Stage>), TestCaseError> {
    let Some((mut client, mut number)) = Client::start_staged(model, 0) else { return Ok((End::Refused, None)) };
    for _ in 0..8_000 {
        let (end, acted) = client.act(model, lag)?;
        match end {
            Some(End::Done) if kept(client.stage.keep, model.nodes.len()) > 0 => {
                check(model, &client.stage, number)?;
                let passed = number + 1;
                let Some((mut next, following)) = Client::start_staged(model, passed) else {
                    return Ok((End::Refused, None));
                };
                prop_assert_eq!(following, passed);
                next.stage.follow(client.stage);
                (client, number) = (next, following);
                continue;
            }
            Some(end) => return Ok((end, Some(client.stage))),
            None => {}
        }
        let killed = model.faults.killed;
        if model.chance(killed) {
            match Client::start_staged(model, 0) {
                Some(next) => (client, number) = next,
                None => return Ok((End::Refused, None)),
            }
            continue;
        }
        if !acted {
            model.tick();
            client.stage.last_progress = client.stage.last_progress.max(timestamp(model.now - 60));
        }
    }
    Err(TestCaseError::fail("it does not end"))
}

fn amounts() -> impl Strategy<Value = IntOrPercent> {
    prop_oneof![(0..14i64).prop_map(IntOrPercent::Int), (0..=100i64).prop_map(IntOrPercent::Percent)]
}

fn limits() -> impl Strategy<Value = Value> {
    prop_oneof![(1..4i64).prop_map(Value::from), (1..60i64).prop_map(|percent| format!("{percent}%").into())]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// Without faults a stage reaches what was asked for, however often its client is killed.
    #[test]
    fn a_stage_without_faults_is_completed(
        seed: u64, nodes in 1..14usize, limit in limits(), keep in amounts(), lag in 0..3usize, killed in prop_oneof![Just(0u64), 5..40u64],
    ) {
        let mut model = Model::new(seed, nodes, &limit, Faults { killed, ..Faults::default() });
        let before = model.old();
        prop_assume!(before > 0);
        let (end, stage) = run(&mut model, keep, lag)?;
        prop_assert_eq!(end, End::Done);
        let kept = kept(keep, nodes);
        prop_assert_eq!(model.old(), before.min(kept));
        let hold = Hold::of(&model.daemon_set());
        prop_assert!(hold.is_some_and(|hold| hold.is_in_force));
        prop_assert_eq!(model.deleted.len(), before.saturating_sub(kept));
        prop_assert!(stage.is_some());
    }

    /// A bad revision reaches as many nodes as may be unavailable at a time, and no more.
    #[test]
    fn a_bad_revision_is_stopped(
        seed: u64, nodes in 2..14usize, limit in limits(), lag in 0..3usize, killed in prop_oneof![Just(0u64), 5..40u64], crashes: bool,
    ) {
        let faults = Faults { bad_revision: !crashes, crashes, killed, ..Faults::default() };
        let mut model = Model::new(seed, nodes, &limit, faults);
        for node in &mut model.nodes {
            node.pods.iter_mut().for_each(|pod| (pod.hash, pod.ready_since) = (OLD, Some(0)));
        }
        let (end, stage) = run(&mut model, IntOrPercent::Int(0), lag)?;
        prop_assert!(matches!(end, End::Stopped(_)), "{:?}", end);
        let allowed = allowed(stage.unwrap().max_unavailable, nodes);
        // A pod that has restarted was available for a moment, so that the next one may have been replaced.
        prop_assert!(model.deleted.len() <= allowed * if crashes { 2 + lag } else { 1 }, "{} of {allowed}", model.deleted.len());
        // The same command again changes nothing.
        let deleted = model.deleted.len();
        let (again, _) = run(&mut model, IntOrPercent::Int(0), lag)?;
        prop_assert!(matches!(again, End::Stopped(_)), "{:?}", again);
        prop_assert_eq!(model.deleted.len(), deleted);
    }

    /// A revision that takes nodes down does so to as many as may be unavailable at a time, although most pods do not tolerate the
    /// taint of such nodes.
    #[test]
    fn a_revision_that_takes_nodes_down_is_stopped(
        seed: u64, nodes in 2..14usize, limit in limits(), lag in 0..3usize, killed in prop_oneof![Just(0u64), 5..40u64],
    ) {
        let mut model = Model::new(seed, nodes, &limit, Faults { takes_nodes_down: true, killed, ..Faults::default() });
        for node in &mut model.nodes {
            node.pods.iter_mut().for_each(|pod| (pod.hash, pod.ready_since) = (OLD, Some(0)));
        }
        let (end, stage) = run(&mut model, IntOrPercent::Int(0), lag)?;
        let End::Stopped(failures) = end else { return Err(TestCaseError::fail(format!("{end:?}"))) };
        prop_assert!(failures.iter().all(|failure| failure.gate == Gate::NodeReady), "{:?}", failures);
        let allowed = allowed(stage.unwrap().max_unavailable, nodes);
        prop_assert!(model.deleted.len() <= allowed * (1 + lag), "{} of {allowed}", model.deleted.len());
    }

    /// Whatever happens, no pod is deleted outside the plan, twice, or beyond the limit; and a stage ends.
    #[test]
    fn nothing_goes_wrong_whatever_happens(
        seed: u64, nodes in 1..14usize, limit in limits(), keep in amounts(), lag in 0..3usize,
        rates in proptest::array::uniform7(prop_oneof![3 => Just(0u64), 1 => 1..4u64]),
    ) {
        let [node_lost, pod_deleted, node_added, node_deleted, old_unready, strategy_put_back, killed] = rates;
        let faults = Faults {
            node_lost, pod_deleted, node_added, node_deleted, old_unready, strategy_put_back, killed: killed * 5,
            ..Faults::default()
        };
        let mut model = Model::new(seed, nodes, &limit, faults);
        let (end, stage) = run(&mut model, keep, lag)?;
        if strategy_put_back == 0 {
            prop_assert!(!matches!(end, End::Lost(_)), "{:?}", end);
        }
        // Each node that was replaced has an available pod, or was lost too late to be blamed on that.
        for (name, at) in stage.filter(|_| end == End::Done && lag == 0).into_iter().flat_map(|stage| stage.replaced_at) {
            let Some(node) = model.nodes.iter().find(|node| node.name == name) else { continue };
            let is_new = |pod: &ModelPod| pod.hash == NEW && pod.ready_since.is_some() && pod.gone_at.is_none();
            let is_late = !node.ready && timestamp(node.since).duration_since(at).as_secs() > 135;
            prop_assert!(is_late || node.pods.iter().any(is_new), "{:?} was replaced at {}", node, at);
        }
    }
}

proptest! {
    // Each is a rollout of several stages.
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    /// However often its client is killed, each stage updates as many nodes as it is to, and the canary has each zone.
    #[test]
    fn a_rollout_in_stages_without_faults_is_completed(
        seed: u64, nodes in 1..14usize, limit in limits(), lag in 0..3usize, killed in prop_oneof![Just(0u64), 2..10u64],
    ) {
        let mut model = Model::new(seed, nodes, &limit, Faults { killed, ..Faults::default() });
        let before = model.old();
        prop_assume!(before > 0);
        let is_new = |node: &&ModelNode| node.pods.iter().all(|pod| pod.hash == NEW);
        let zones = |nodes: &mut dyn Iterator<Item = &ModelNode>| nodes.map(|node| node.zone).collect::<BTreeSet<u64>>();
        let (end, _) = run_stages(&mut model, lag, |model, stage, number| {
            prop_assert!(model.old() <= kept(stage.keep, nodes), "{number}: {}", model.old());
            prop_assert_eq!(zones(&mut model.nodes.iter().filter(is_new)), zones(&mut model.nodes.iter()));
            Ok(())
        })?;
        prop_assert_eq!((end, model.old(), model.deleted.len()), (End::Done, 0, before));
    }

    /// A bad revision does not get beyond the canary, and not to more nodes than may be unavailable at a time.
    #[test]
    fn a_bad_revision_is_stopped_at_the_canary(
        seed: u64, nodes in 2..14usize, limit in limits(), lag in 0..3usize, killed in prop_oneof![Just(0u64), 2..10u64],
    ) {
        let mut model = Model::new(seed, nodes, &limit, Faults { bad_revision: true, killed, ..Faults::default() });
        for node in &mut model.nodes {
            node.pods.iter_mut().for_each(|pod| (pod.hash, pod.ready_since) = (OLD, Some(0)));
        }
        let canary = Client::start_staged(&mut model, 0).unwrap().0.stage.nodes.len();
        let (end, stage) = run_stages(&mut model, lag, |_, _, number| Err(TestCaseError::fail(format!("{number} has passed"))))?;
        prop_assert!(matches!(end, End::Stopped(_)), "{:?}", end);
        let allowed = allowed(stage.unwrap().max_unavailable, nodes).min(canary);
        prop_assert!(model.deleted.len() <= allowed, "{} of {allowed}", model.deleted.len());
    }
}

/// Two clients at once: the first one stops before it deletes another pod.
#[test]
fn the_client_that_began_first_gives_way() {
    let mut model = Model::new(7, 6, &json!(1), Faults::default());
    let mut first = Client::start(&mut model, IntOrPercent::Int(0)).unwrap();
    let mut second = Client::start(&mut model, IntOrPercent::Int(0)).unwrap();
    let deleted = model.deleted.len();
    assert_eq!(first.act(&mut model, 0).unwrap(), (Some(End::Lost(Loss::TakenOver)), false));
    assert_eq!(model.deleted.len(), deleted);
    assert!(second.act(&mut model, 0).unwrap().0.is_none());
    let uids: BTreeSet<&String> = model.deleted.iter().collect();
    assert_eq!(uids.len(), model.deleted.len());
}

/// Zones take turns, nodes without an available pod come first, and the order is the same after some were updated.
#[test]
fn the_order_is_stable() {
    let mut model = Model::new(3, 9, &json!(1), Faults::default());
    for (number, node) in model.nodes.iter_mut().enumerate() {
        node.zone = number as u64 / 4;
        node.pods.iter_mut().for_each(|pod| (pod.hash, pod.ready_since) = (OLD, Some(0)));
    }
    model.nodes[7].pods[0].ready_since = None;
    let name = |number: usize| format!("node-{:03}", 2 * number + 1);
    let expected: Vec<String> = [7, 0, 4, 8, 1, 5, 2, 6, 3].map(name).to_vec();
    let all = Client::start(&mut model, IntOrPercent::Int(0)).unwrap().stage.nodes;
    assert_eq!(all, expected);
    for at in [7, 0] {
        model.nodes[at].pods[0].hash = NEW;
        model.nodes[at].pods[0].ready_since = Some(0);
    }
    assert_eq!(Client::start(&mut model, IntOrPercent::Int(0)).unwrap().stage.nodes, expected[2..]);
    assert_eq!(Client::start(&mut model, IntOrPercent::Int(5)).unwrap().stage.nodes, expected[2..4]);
    assert_eq!(Client::start(&mut model, IntOrPercent::Percent(50)).unwrap().stage.nodes, expected[2..5]);
}
