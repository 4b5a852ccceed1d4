//! Random clusters with random faults, on which a model of the controller acts until it has nothing left to do.

use proptest::prelude::*;
use serde_json::json;

use super::{Question, answer};
use crate::coverage::test_support::{at, world};
use crate::facts::index::Index;
use crate::model::controller_revision::ControllerRevision;
use crate::model::snapshot::Snapshot;
use crate::report::rollout_status::{RolloutStatus, Verdict};
use crate::rollout::situation::Situation;
use crate::rollout::situation::simulation::changes;

/// The hashes of the old and of the new revision.
const HASHES: [&str; 2] = ["hash1", "hash2"];

const OLD: usize = 0;
const NEW: usize = 1;

#[derive(Debug, Clone)]
struct Model {
    nodes: Vec<ModelNode>,
    strategy: UpdateBy,
    /// The revision of the live template.
    current: usize,
    created: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum UpdateBy {
    Unavailable(usize),
    Surge(usize),
    OnDelete,
}

#[derive(Debug, Clone)]
struct ModelNode {
    eligible: bool,
    reachable: bool,
    /// Whether pods of the old and of the new revision become available.
    works: [bool; 2],
    pods: Vec<ModelPod>,
}

#[derive(Debug, Clone)]
struct ModelPod {
    name: String,
    revision: usize,
    ready: bool,
    terminating: bool,
}

impl Model {
    fn snapshot(&self) -> Snapshot {
        let strategy = match self.strategy {
            UpdateBy::Unavailable(number) => json!({"rollingUpdate": {"maxUnavailable": number, "maxSurge": 0}}),
            UpdateBy::Surge(number) => json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": number}}),
            UpdateBy::OnDelete => json!({"type": "OnDelete"}),
        };
        let image = |revision: usize| format!("agent:{}", revision + 1);
        // Rolling back creates a new generation of the template.
        let generation = if self.current == NEW { 2 } else { 3 };
        let mut world = world().daemon_set(json!({
            "metadata": {"generation": generation,
                "annotations": {"deprecated.daemonset.template.generation": generation.to_string()}},
            "spec": {"updateStrategy": strategy,
                "template": {"spec": {"containers": [{"name": "agent", "image": image(self.current)}]}}},
            "status": {"observedGeneration": generation},
        }));
        for (number, node) in self.nodes.iter().enumerate() {
            let name = format!("node-{number}");
            let taint = json!([{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]);
            let taints = if node.eligible { json!([]) } else { taint };
            let ready = if node.reachable { "True" } else { "Unknown" };
            let ready = json!([{"type": "Ready", "status": ready, "lastTransitionTime": at("11:00:00")}]);
            world = world.node(&name, json!({"spec": {"taints": taints}, "status": {"conditions": ready}}));
            for pod in &node.pods {
                let mut patch = json!({"metadata": {"labels": {
                    "controller-revision-hash": HASHES[pod.revision],
                    "pod-template-generation": (pod.revision + 1).to_string()}}});
                if pod.terminating {
                    patch["metadata"]["deletionTimestamp"] = json!(at("11:50:00"));
                }
                let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
                world = match pod.ready {
                    true => world.pod(&pod.name, &name, patch),
                    false => world.unready_pod(&pod.name, &name, crashes, patch),
                };
            }
        }
        world.snapshot.controller_revisions = (0..2)
            .map(|revision| {
                let number = if revision == self.current { generation } else { revision + 1 };
                ControllerRevision::from_object(json!({
                    "metadata": {"name": format!("agent-{}", HASHES[revision]), "namespace": "default",
                        "creationTimestamp": at("11:00:00"), "labels": {"controller-revision-hash": HASHES[revision]},
                        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent",
                            "uid": "agent-uid", "controller": true}]},
                    "data": {"spec": {"template": {"metadata": {"labels": {"app": "agent"}},
                        "spec": {"containers": [{"name": "agent", "image": image(revision)}]}}}},
                    "revision": number,
                }))
                .unwrap()
            })
            .collect();
        world.finish()
    }

    fn status(&self) -> RolloutStatus {
        let accept = ["node".parse().unwrap(), "cluster".parse().unwrap()];
        answer(&self.snapshot(), &Question { accept: &accept, ..Question::default() }).daemon_sets.remove(0)
    }

    /// Performs one step of the controller, and starts and ends pods; returns whether the controller had anything to do.
    fn advance(&mut self) -> bool {
        let snapshot = self.snapshot();
        let index = Index::new(&snapshot);
        let step = Situation::new(&index, &snapshot.daemon_sets[0]).next_step();
        if !step.acts(false, false) {
            return false;
        }
        let (create, delete) = changes(&step);
        for (number, node) in self.nodes.iter_mut().enumerate() {
            for pod in &mut node.pods {
                pod.terminating |= delete.contains(&format!("{}-uid", pod.name));
            }
            // Without its kubelet, a pod stays terminating.
            node.pods.retain(|pod| !pod.terminating || !node.reachable);
            if create.contains(&format!("node-{number}")) {
                self.created += 1;
                let name = format!("made-{}", self.created);
                let ready = node.reachable && node.works[self.current];
                node.pods.push(ModelPod { name, revision: self.current, ready, terminating: false });
            }
        }
        true
    }

    /// Runs the controller until it has nothing left to do; checks the verdict on the way.
    fn run(&mut self) -> Result<RolloutStatus, TestCaseError> {
        for _ in 0..100 {
            let status = self.status();
            prop_assert_eq!(status.verdict == Verdict::Complete, self.is_complete(), "{:#?}", status);
            let accepted = status.accepted.as_ref().is_some_and(|accepted| accepted.complete);
            prop_assert!(!accepted || self.missing().all(|node| !node.reachable), "{:#?}", status);
            let may_act = self.clone().advance();
            prop_assert!(!may_act || !matches!(status.verdict, Verdict::Blocked | Verdict::Paused), "{:#?}", status);
            prop_assert!(status.verdict != Verdict::Progressing || may_act || self.pods_terminate(), "{:#?}", status);
            if !self.advance() {
                let mut missing = self.missing();
                let (_, reached) = self.reached();
                let can_come = reached == 0 || missing.any(|node| !node.eligible || node.reachable);
                prop_assert!(accepted || can_come, "{:#?}", status);
                return Ok(status);
            }
        }
        Err(TestCaseError::fail("the controller never stops"))
    }

    /// A pod that is terminating next to an available one will soon be deleted.
    fn pods_terminate(&self) -> bool {
        self.nodes.iter().any(|node| node.pods.iter().any(|pod| pod.terminating))
    }

    fn is_complete(&self) -> bool {
        self.missing().next().is_none()
    }

    /// Returns the nodes that prevent the rollout from being complete.
    fn missing(&self) -> impl Iterator<Item = &ModelNode> {
        self.nodes.iter().filter(|node| match node.pods.as_slice() {
            [pod] if node.eligible => pod.revision != self.current || !pod.ready || pod.terminating,
            _ if node.eligible => true,
            pods => pods.iter().any(|pod| !pod.terminating && pod.revision != self.current),
        })
    }

    /// Returns how many nodes can run the current revision, and on how many of them it is available.
    fn reached(&self) -> (usize, usize) {
        let is_stuck = |node: &ModelNode| node.pods.iter().any(|pod| pod.terminating);
        let working =
            |node: &&ModelNode| node.eligible && node.reachable && node.works[self.current] && !is_stuck(node);
        let reached = |node: &&ModelNode| {
            node.pods.iter().any(|pod| pod.revision == self.current && pod.ready && !pod.terminating)
        };
        (self.nodes.iter().filter(working).count(), self.nodes.iter().filter(working).filter(reached).count())
    }

    /// Applies a command of a way out.
    fn apply(&mut self, command: &str) {
        let words: Vec<&str> = command.split(' ').collect();
        match words.as_slice() {
            ["kubectl", "ds", "set", "--max-unavailable", number, ..] => {
                self.strategy = UpdateBy::Unavailable(number.parse().unwrap());
            }
            // `partition` replaces them one after the other, like a rolling update.
            ["kubectl", "ds", "set", "--type", "RollingUpdate", ..] | ["kubectl", "ds", "partition", ..] => {
                self.strategy = UpdateBy::Unavailable(1)
            }
            ["kubectl", "ds", "undo", "--to-revision", "1", ..] => {
                self.current = OLD;
                if self.strategy == UpdateBy::OnDelete {
                    // As `undo` warns in this case: these pods stay until somebody deletes them.
                    for node in &mut self.nodes {
                        node.pods.retain(|pod| pod.revision == OLD || pod.terminating);
                    }
                }
            }
            ["kubectl", "delete", "pod", .., name] => {
                for node in &mut self.nodes {
                    node.pods.retain(|pod| pod.name != *name);
                }
            }
            _ => panic!("unknown command: {command}"),
        }
    }
}

fn pod() -> impl Strategy<Value = (usize, bool)> {
    (0..2_usize, prop::bool::weighted(0.1))
}

fn node() -> impl Strategy<Value = ModelNode> {
    let often = prop::bool::weighted(0.8);
    (prop::bool::weighted(0.9), often, often, often, prop::collection::vec(pod(), 0..=2)).prop_map(
        |(eligible, reachable, old, new, pods)| {
            let works = [old, new];
            let pods = pods
                .into_iter()
                .map(|(revision, terminating)| ModelPod {
                    name: String::new(),
                    revision,
                    ready: reachable && works[revision],
                    terminating,
                })
                .collect();
            ModelNode { eligible, reachable, works, pods }
        },
    )
}

fn model() -> impl Strategy<Value = Model> {
    let strategy = prop_oneof![
        4 => (1..4_usize).prop_map(UpdateBy::Unavailable),
        3 => (1..4_usize).prop_map(UpdateBy::Surge),
        1 => Just(UpdateBy::OnDelete),
    ];
    (prop::collection::vec(node(), 1..8), strategy).prop_map(|(mut nodes, strategy)| {
        for (number, pod) in nodes.iter_mut().flat_map(|node| &mut node.pods).enumerate() {
            pod.name = format!("pod-{number}");
        }
        Model { nodes, strategy, current: NEW, created: 0 }
    })
}

/// Checks the verdict at each step, and that every way out unblocks the rollout.
fn check(mut model: Model) -> Result<(), TestCaseError> {
    let status = model.run()?;
    for way_out in &status.way_out {
        let command = way_out.command.as_ref().unwrap().to_string();
        let mut unblocked = model.clone();
        unblocked.apply(&command);
        let after = unblocked.run()?;
        let context = format!("{command}\n{status:#?}\n{after:#?}");
        if command.contains("delete pod") {
            prop_assert!(after.counts.outdated < status.counts.outdated, "{context}");
        } else if command.contains("undo") {
            // Nodes on which only the old revision works get it back.
            let fixed = |node: &&ModelNode| node.eligible && node.reachable && node.works == [true, false];
            let mut fixed = unblocked.nodes.iter().filter(fixed);
            prop_assert!(fixed.all(|node| node.pods.iter().all(|pod| pod.revision == OLD && pod.ready)), "{context}");
        } else {
            // A node that fails on the new revision may block it again.
            let (working, reached) = unblocked.reached();
            prop_assert!(after.counts.updated > status.counts.updated || reached == working, "{context}");
        }
        if let UpdateBy::Unavailable(enough) = unblocked.strategy
            && command.contains("--max-unavailable")
            && !matches!(model.strategy, UpdateBy::Surge(_))
        {
            // The controller may visit the nodes that keep their pods first. Pods terminating elsewhere end in this model.
            let mut less = Model { strategy: UpdateBy::Unavailable(enough - 1), ..model.clone() };
            less.nodes.sort_by_key(|node| (node.eligible, node.reachable));
            let ends = |node: &ModelNode| node.reachable && node.pods.iter().any(|pod| pod.terminating);
            if !less.nodes.iter().any(ends) {
                let after = less.run()?;
                prop_assert!(after.counts.updated == status.counts.updated, "{} is enough: {context}", enough - 1);
            }
        }
    }
    // An exhausted budget always has a way out, unless the revision is to blame.
    let waits = status.verdict == Verdict::Blocked && !status.next.candidates.is_empty();
    if waits && matches!(model.strategy, UpdateBy::Unavailable(_)) && status.suspect.is_none() {
        let (all, reached) = model.reached();
        prop_assert!(!status.way_out.is_empty() || reached == all, "{status:#?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_verdict_is_right_at_each_step_and_every_way_out_unblocks(model in model()) {
        check(model)?;
    }
}

/// Found by the test above: the pods of nodes that are not eligible use up the budget.
#[test]
fn a_budget_that_pods_of_ineligible_nodes_use_up_has_a_way_out() {
    let bools = [false, true];
    let each = bools.iter().flat_map(|a| bools.iter().flat_map(move |b| bools.map(|c| (*a, *b, c))));
    for (first_ready, second_revision_is_new, works) in each {
        let pod = |number: usize, revision, ready, terminating| ModelPod {
            name: format!("pod-{number}"),
            revision,
            ready,
            terminating,
        };
        let node = |eligible, reachable, pods| ModelNode { eligible, reachable, works: [true, works], pods };
        let second = if second_revision_is_new { NEW } else { OLD };
        let nodes = vec![
            node(false, false, vec![pod(0, OLD, first_ready, true)]),
            node(false, true, vec![pod(1, OLD, true, false), pod(2, second, true, true)]),
            node(true, true, vec![pod(3, OLD, true, false)]),
        ];
        check(Model { nodes, strategy: UpdateBy::Unavailable(1), current: NEW, created: 0 }).unwrap();
    }
}

/// Pods of ineligible nodes that do terminate take time, but no budget: a larger budget would take the fleet down.
#[test]
fn the_budget_that_is_offered_is_no_larger_than_needed() {
    let pod = |number: usize, terminating: bool| ModelPod {
        name: format!("pod-{number}"),
        revision: OLD,
        ready: !terminating,
        terminating,
    };
    let offered = |unreachable_edges: usize| {
        let node = |number: usize| {
            let (is_edge, is_stuck) = (number < 12, number == 14);
            let reachable = !is_stuck && (!is_edge || number >= unreachable_edges);
            ModelNode { eligible: !is_edge, reachable, works: [true, true], pods: vec![pod(number, is_stuck)] }
        };
        let nodes = (0..22).map(node).collect();
        let model = Model { nodes, strategy: UpdateBy::Unavailable(1), current: NEW, created: 0 };
        let way_out = model.clone().run().unwrap().way_out;
        if unreachable_edges < 12 {
            check(model).unwrap();
        }
        way_out.into_iter().filter_map(|fix| Some(fix.command?.to_string())).collect::<Vec<_>>()
    };
    assert_eq!(offered(0), ["kubectl ds set --max-unavailable 2 -n default agent"]);
    assert_eq!(offered(2), ["kubectl ds set --max-unavailable 4 -n default agent"]);
    // It would let the controller delete all ten pods of the eligible nodes at once.
    assert!(offered(12).is_empty());
}

#[test]
fn the_model_is_what_the_snapshot_says() {
    let pod = |revision, ready| ModelPod { name: format!("pod-{revision}"), revision, ready, terminating: false };
    let node = |pods| ModelNode { eligible: true, reachable: true, works: [true, true], pods };
    let mut model = Model {
        nodes: vec![node(vec![pod(OLD, true)]), node(vec![pod(NEW, true)])],
        strategy: UpdateBy::Unavailable(1),
        current: NEW,
        created: 0,
    };
    let status = model.status();
    assert_eq!((status.verdict, status.next.replace), (Verdict::Progressing, 1));
    assert_eq!((status.counts.updated, status.counts.outdated), (Some(1), Some(1)));
    assert_eq!(serde_json::to_value(&status.outdated).unwrap(), json!([{"revision": 1, "nodes": ["node-0"]}]));
    assert_eq!(model.run().unwrap().verdict, Verdict::Complete);
    model.current = OLD;
    let status = model.run().unwrap();
    assert_eq!((status.verdict, status.revision.unwrap().number), (Verdict::Complete, 3));
}
