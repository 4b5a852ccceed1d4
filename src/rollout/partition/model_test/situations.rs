//! Single situations: labels of nodes, and a pod that the controller has yet to create.

use serde_json::{Value, json};

use super::{Client, End, Faults, Model, NEW, OLD, timestamp};
use crate::coverage::test_support::merge;
use crate::model::daemon_set::DaemonSet;
use crate::model::hold::{PARTITION_ANNOTATION, RUN_ANNOTATION};
use crate::model::int_or_percent::IntOrPercent;
use crate::model::pod::Pod;
use crate::model::snapshot::{Gap, GapCause, Kind};
use crate::report::partition::{Gate, GateFailure, SKIP_LABEL};
use crate::report::reason::ReasonCode;
use crate::rollout::partition::Stage;
use crate::rollout::partition::instruction::{
    Instruction, Look, Loss, Waiting, broken_nodes, down_before, loss, next_instruction,
};
use crate::rollout::partition::plan::{Amount, StageRequest};
use crate::rollout::partition::template::NewTemplate;

/// Gives every node an available pod of the old revision.
fn all_old(model: &mut Model) {
    for node in &mut model.nodes {
        node.pods.iter_mut().for_each(|pod| (pod.hash, pod.ready_since) = (OLD, Some(0)));
    }
}

#[test]
fn a_node_with_the_label_for_it_is_skipped_even_if_it_gets_the_label_during_the_stage() {
    let mut model = Model::new(5, 6, &json!(1), Faults::default());
    all_old(&mut model);
    model.nodes[1].labels.push((SKIP_LABEL, ""));
    let mut client = Client::start(&mut model, IntOrPercent::Int(0)).unwrap();
    assert_eq!(client.stage.nodes.len(), 5);
    assert!(!client.stage.nodes.contains(&model.nodes[1].name));
    let counts = next_instruction(&model.snapshot(), &client.stage).counts;
    assert_eq!((counts.old, counts.held, counts.skipped), (6, 6, vec![model.nodes[1].name.clone()]));
    // Not ready, it is still one that the restored strategy would update.
    model.nodes[3].labels.push((SKIP_LABEL, "true"));
    (model.nodes[3].ready, model.nodes[3].since) = (false, 0);
    let end = loop {
        match client.act(&mut model, 0).unwrap() {
            (Some(end), _) => break end,
            (None, _) => model.tick(),
        }
    };
    assert_eq!((end, model.old()), (End::Done, 2));
    let counts = next_instruction(&model.snapshot(), &client.stage).counts;
    assert_eq!((counts.updated.len(), counts.held), (4, 2));
    assert_eq!(counts.skipped, [model.nodes[1].name.clone(), model.nodes[3].name.clone()]);
}

/// On an old DaemonSet, no event tells that the pod is about to be created.
#[test]
fn a_pod_that_the_controller_has_not_created_yet_is_awaited_until_the_deadline() {
    let mut model = Model::new(3, 4, &json!(1), Faults::default());
    all_old(&mut model);
    let mut client = Client::start(&mut model, IntOrPercent::Int(0)).unwrap();
    assert_eq!(client.act(&mut model, 0).unwrap().0, None);
    let node = model.nodes.iter_mut().find(|node| node.pods.iter().any(|pod| pod.gone_at.is_some())).unwrap();
    node.pods.clear();
    let name = node.name.clone();
    let look = |model: &Model| next_instruction(&model.snapshot(), &client.stage).step;
    assert_eq!(look(&model), Instruction::Wait(Waiting::Pods(vec![name.clone()])));
    model.now += client.stage.gates.progress_deadline.as_secs() + 1;
    let Instruction::Stop(failures) = look(&model) else { panic!("not stopped") };
    assert_eq!((failures[0].gate, failures[0].node.as_ref()), (Gate::ProgressDeadline, Some(&name)));
}

/// The controller creates a pod of the template that it knows: that of the stage which is taken over, or undone.
#[test]
fn a_node_without_a_pod_that_gets_one_of_the_older_revision_is_updated_too() {
    // Where some are kept, another stage updates it.
    for (keep, end_old) in [(0, 0), (2, 3)] {
        let mut model = Model::new(3, 4, &json!(1), Faults::default());
        all_old(&mut model);
        model.nodes[2].pods.clear();
        let mut client = Client::start(&mut model, IntOrPercent::Int(keep)).unwrap();
        let (has_stage, name) = (client.stage.nodes.contains(&model.nodes[2].name), model.nodes[2].name.clone());
        let pod = model.pod(OLD, Some(0));
        model.nodes[2].pods.push(pod);
        let end = loop {
            match client.act(&mut model, 0).unwrap() {
                (Some(end), _) => break end,
                (None, _) => model.tick(),
            }
        };
        assert_eq!((has_stage, end, model.old()), (false, End::Done, end_old), "{keep} {name}");
    }
}

/// A kubelet registers its node before that is ready, and the controller creates a pod at once.
#[test]
fn a_node_that_has_just_joined_fails_no_gate_until_it_has_been_ready() {
    let mut model = Model::new(5, 3, &json!(1), Faults::default());
    all_old(&mut model);
    let mut client = Client::start(&mut model, IntOrPercent::Int(0)).unwrap();
    model.add_node();
    let (now, pod) = (model.now, model.pod(NEW, None));
    let node = model.nodes.last_mut().unwrap();
    (node.ready, node.created, node.since) = (false, now, now + 10);
    node.pods.push(pod);
    model.now += 10;
    assert_eq!(client.act(&mut model, 0).unwrap().0, None);
    // It was ready for a while.
    model.nodes.last_mut().unwrap().since = now + 11;
    model.now = now + 11;
    let (Some(End::Stopped(failures)), _) = client.act(&mut model, 0).unwrap() else { panic!("it goes on") };
    assert_eq!((failures.len(), failures[0].gate), (1, Gate::NodeReady));
}

/// What ends with the old pod of a network agent may take its node with it.
#[test]
fn a_node_that_is_lost_before_it_has_a_new_pod_stops_the_stage() {
    let mut model = Model::new(3, 4, &json!(1), Faults::default());
    all_old(&mut model);
    let mut client = Client::start(&mut model, IntOrPercent::Int(3)).unwrap();
    assert_eq!(client.act(&mut model, 0).unwrap().0, None);
    let now = model.now;
    let is_deleted = |node: &&mut super::ModelNode| node.pods.iter().any(|pod| pod.gone_at.is_some());
    let node = model.nodes.iter_mut().find(is_deleted).unwrap();
    // In the same second, and its kubelet no longer confirms the deletion.
    (node.ready, node.since) = (false, now);
    let name = node.name.clone();
    let failures = |model: &Model, client: &Client| match next_instruction(&model.snapshot(), &client.stage).step {
        Instruction::Stop(failures) => failures,
        step => panic!("not stopped: {step:?}"),
    };
    let failed = &failures(&model, &client)[0];
    assert_eq!((failed.gate, failed.node.as_ref()), (Gate::NodeReady, Some(&name)));
    // Nobody knows since when: the stage is not complete without it.
    model.nodes.iter_mut().find(|node| node.name == name).unwrap().since = now - 3_000;
    assert_eq!(next_instruction(&model.snapshot(), &client.stage).step, Instruction::Wait(Waiting::Pods(vec![name])));
    model.now += client.stage.gates.progress_deadline.as_secs() + 1;
    assert_eq!(failures(&model, &client)[0].gate, Gate::ProgressDeadline);
}

/// Its kubelet could not have been taken down by the end of the old pod.
#[test]
fn a_node_that_was_down_before_its_pod_was_deleted_is_not_judged_and_counts_as_unavailable() {
    let (mut model, mut client, at) = begun(4);
    let (deleted, name) = (model.now, model.nodes[at].name.clone());
    model.now += 49;
    (model.nodes[at].ready, model.nodes[at].since) = (false, model.now);
    let step = |model: &Model, client: &Client| next_instruction(&model.snapshot(), &client.stage).step;
    let Instruction::Stop(failures) = step(&model, &client) else { panic!("not stopped") };
    client.stage.replaced_at.insert(name.clone(), timestamp(deleted));
    model.nodes[at].pods[0].gone_at = Some(deleted);
    for (renewed, gate, is_down) in [
        (Some(deleted - 13), Gate::NodeReady, true),
        (Some(deleted - 12), Gate::NodeReady, false),
        (Some(deleted + 5), Gate::NodeReady, false),
        (None, Gate::NodeReady, false),
        (Some(deleted - 13), Gate::Starts, false),
    ] {
        let renewed = renewed.map(|at| (name.clone(), timestamp(at))).into_iter().collect();
        let failures = [GateFailure { gate, ..failures[0].clone() }];
        // This run has deleted the pod, or an earlier one.
        for replaced_at in [client.stage.replaced_at.clone(), Default::default()] {
            let stage = Stage { replaced_at, ..client.stage.clone() };
            let found = down_before(&model.snapshot(), &stage, &failures, &renewed);
            assert_eq!(found.len(), usize::from(is_down), "{renewed:?} {gate:?}");
        }
    }
    client.stage.down.insert(name.clone());
    let budget = Waiting::Budget { nodes: vec![name.clone()], allowed: 1 };
    assert_eq!(step(&model, &client), Instruction::Wait(budget));
    client.stage.max_unavailable = IntOrPercent::Int(2);
    assert!(matches!(step(&model, &client), Instruction::Replace { .. }));
    // It is ready again, and is lost once more.
    model.nodes[at].ready = true;
    client.stage.forget_found(&model.snapshot());
    model.nodes[at].ready = false;
    assert!(matches!(step(&model, &client), Instruction::Stop(_)));
}

/// Old pods that were unavailable do not make up for others that become so.
#[test]
fn old_pods_that_become_unavailable_stop_a_stage_unless_it_goes_back() {
    let mut model = Model::new(5, 8, &json!(1), Faults::default());
    all_old(&mut model);
    (0..4).for_each(|at| model.nodes[at].pods[0].ready_since = None);
    let mut client = Client::start(&mut model, IntOrPercent::Int(0)).unwrap();
    for at in 0..4 {
        let pod = &mut model.nodes[at].pods[0];
        (pod.hash, pod.ready_since) = (NEW, Some(0));
    }
    let step = |model: &Model, client: &Client| next_instruction(&model.snapshot(), &client.stage).step;
    model.nodes[4].pods[0].ready_since = None;
    assert!(matches!(step(&model, &client), Instruction::Replace { .. }));
    model.nodes[5].pods[0].ready_since = None;
    let Instruction::Stop(failures) = step(&model, &client) else { panic!("not stopped") };
    assert_eq!((failures.len(), failures[0].gate), (1, Gate::OldPodsReady));
    // By the clock of the run, they were not available when it began.
    let mut later = client.stage.clone();
    later.begin(&model.snapshot());
    assert!(matches!(next_instruction(&model.snapshot(), &later).step, Instruction::Replace { .. }));
    client.stage.old_unready = None;
    assert!(matches!(step(&model, &client), Instruction::Replace { .. }));
    client.stage.begin(&model.snapshot());
    assert_eq!(client.stage.old_unready, None);
}

/// Such a stage would never begin, unless only outages count that are new.
#[test]
fn outages_that_are_older_than_a_stage_do_not_count_until_they_end() {
    let mut model = Model::new(5, 4, &json!(1), Faults::default());
    all_old(&mut model);
    (model.nodes[3].ready, model.nodes[3].since) = (false, 0);
    model.nodes[3].pods[0].ready_since = None;
    assert!(Client::start(&mut model, IntOrPercent::Int(0)).is_none());
    let mut client = Client::start_with(&mut model, IntOrPercent::Int(0), Some(IntOrPercent::Int(1))).unwrap();
    let lost = model.nodes[3].name.clone();
    assert_eq!((client.stage.nodes.len(), client.stage.nodes.contains(&lost)), (3, false));
    assert_eq!(client.act(&mut model, 0).unwrap(), (None, true));
    // The replaced one counts.
    assert_eq!(client.act(&mut model, 0).unwrap(), (None, false));
    let step = |model: &Model, client: &Client| next_instruction(&model.snapshot(), &client.stage).step;
    (0..8).for_each(|_| model.tick());
    assert!(matches!(step(&model, &client), Instruction::Replace { .. }));
    // The node has recovered, and is lost again.
    let now = model.now;
    let node = model.nodes.iter_mut().find(|node| node.name == lost).unwrap();
    (node.ready, node.since, node.pods[0].ready_since) = (true, now, Some(now));
    assert!(matches!(step(&model, &client), Instruction::Replace { .. }));
    let node = model.nodes.iter_mut().find(|node| node.name == lost).unwrap();
    (node.ready, node.pods[0].ready_since, node.pods[0].created) = (false, None, now);
    assert!(matches!(step(&model, &client), Instruction::Wait(Waiting::Budget { .. })));
}

/// Whatever became of its pod: that was replaced, and its kubelet, which is gone, does not confirm that; or the stage had not
/// come to it; or it is a new one that has never started.
#[test]
fn a_node_that_was_lost_before_does_not_keep_the_others_from_going_back() {
    for (hash, is_deleted) in [(NEW, true), (OLD, true), (OLD, false), (NEW, false)] {
        let mut model = Model::new(5, 4, &json!(1), Faults::default());
        all_old(&mut model);
        let now = model.now;
        for node in &mut model.nodes[..2] {
            node.pods[0].hash = NEW;
        }
        let lost = &mut model.nodes[3];
        (lost.ready, lost.since) = (false, now);
        (lost.pods[0].hash, lost.pods[0].ready_since, lost.pods[0].gone_at) = (hash, None, is_deleted.then_some(now));
        // A stage that goes on, which may be why it is lost, must not take down one more.
        if is_deleted {
            let limit = Some(IntOrPercent::Int(1));
            assert!(Client::start_with(&mut model, IntOrPercent::Int(0), limit).is_none(), "{hash}");
        }
        model.now += 1;
        let mut client = Client::start_back(&mut model);
        model.object["metadata"]["generation"] = 3.into();
        model.object["status"]["observedGeneration"] = 3.into();
        let step = |model: &Model, client: &Client| next_instruction(&model.snapshot(), &client.stage).step;
        assert!(matches!(step(&model, &client), Instruction::Replace { .. }), "{hash} {:?}", step(&model, &client));
        // Its kubelet says something again, and not that it is ready.
        model.nodes[3].since += 1;
        client.stage.forget_found(&model.snapshot());
        assert!(matches!(step(&model, &client), Instruction::Replace { .. }), "{hash} {:?}", step(&model, &client));
        // Nor do pods that fail, of which one is replaced at a time.
        for node in model.nodes.iter_mut().filter(|node| node.ready && node.pods[0].hash == NEW) {
            node.pods[0].ready_since = None;
        }
        assert!(matches!(step(&model, &client), Instruction::Replace { .. }), "{hash} {:?}", step(&model, &client));
        for node in model.nodes.iter_mut().filter(|node| node.ready && node.pods[0].hash == NEW) {
            node.pods[0].ready_since = Some(now);
        }
        // It is ready again, and is lost once more.
        model.nodes[3].ready = true;
        client.stage.forget_found(&model.snapshot());
        let now = model.now;
        let lost = &mut model.nodes[3];
        (lost.ready, lost.since, lost.pods[0].created) = (false, now, now);
        assert!(!matches!(step(&model, &client), Instruction::Replace { .. }), "{hash}");
    }
}

/// A pod is ready long before it counts as available.
#[test]
fn the_deadline_is_longer_by_min_ready_seconds_while_pods_become_available() {
    let mut model = Model::new(5, 4, &json!(1), Faults::default());
    all_old(&mut model);
    model.object["spec"]["minReadySeconds"] = 900.into();
    let mut client = Client::start(&mut model, IntOrPercent::Int(0)).unwrap();
    assert_eq!(client.stage.gates.progress_deadline.as_secs(), 120);
    assert_eq!(client.act(&mut model, 0).unwrap(), (None, true));
    let begun = model.now;
    let mut step = |after: i64| {
        model.now = begun + after;
        next_instruction(&model.snapshot(), &client.stage).step
    };
    assert!(matches!(step(1_000), Instruction::Wait(Waiting::Pods(_))));
    let Instruction::Stop(failures) = step(1_030) else { panic!("not stopped") };
    assert!(failures[0].message.starts_with("no progress for 1020s: "), "{failures:?}");
}

/// Returns a stage of which the first pod was deleted, and the position of its node.
fn begun(nodes: usize) -> (Model, Client, usize) {
    let mut model = Model::new(3, nodes, &json!(1), Faults::default());
    all_old(&mut model);
    let mut client = Client::start(&mut model, IntOrPercent::Int(0)).unwrap();
    assert_eq!(client.act(&mut model, 0).unwrap().0, None);
    let at = model.nodes.iter().position(|node| node.pods.iter().any(|pod| pod.gone_at.is_some())).unwrap();
    (model, client, at)
}

#[test]
fn a_stage_is_lost_if_somebody_else_decides_about_the_daemon_set() {
    let mut model = Model::new(5, 3, &json!(1), Faults::default());
    all_old(&mut model);
    let mut client = Client::start(&mut model, IntOrPercent::Int(0)).unwrap();
    let (own, on_delete) = (model.object.clone(), json!({"updateStrategy": {"type": "OnDelete"}}));
    let rolling = || json!({"updateStrategy": {"type": "RollingUpdate"}});
    let template = || json!({"metadata": {"labels": {"of": "another"}}});
    for (metadata, spec, expected) in [
        (json!({}), json!({}), None),
        (json!({"uid": "other"}), json!({}), Some(Loss::Recreated)),
        (json!({"deletionTimestamp": "2026-11-21T06:00:00Z"}), json!({}), Some(Loss::Deleted)),
        (json!({}), rolling(), Some(Loss::StrategyPutBack)),
        // Nothing is replaced if the template is the one from before, too.
        (
            json!({}),
            json!({"updateStrategy": {"type": "RollingUpdate"}, "template": template()}),
            Some(Loss::AllChanged),
        ),
        (json!({"annotations": {RUN_ANNOTATION: "another"}}), json!({}), Some(Loss::TakenOver)),
        (json!({"annotations": {RUN_ANNOTATION: null}}), json!({}), Some(Loss::TakenOver)),
        (json!({"annotations": {PARTITION_ANNOTATION: "2"}}), json!({}), Some(Loss::TakenOver)),
        (
            json!({"annotations": {PARTITION_ANNOTATION: null}}),
            json!({}),
            Some(Loss::AnnotationsRemoved { is_held: true }),
        ),
        (json!({"annotations": null}), on_delete, Some(Loss::AnnotationsRemoved { is_held: false })),
        (json!({"annotations": null}), rolling(), Some(Loss::StrategyPutBack)),
        (json!({}), json!({"template": template()}), Some(Loss::TemplateChanged)),
    ] {
        model.object = own.clone();
        merge(&mut model.object, json!({"metadata": metadata, "spec": spec}));
        let daemon_set = DaemonSet::from_object(model.object.clone()).unwrap();
        assert_eq!(loss(&daemon_set, &client.stage), expected, "{metadata} {spec}");
        let Look { step, .. } = next_instruction(&model.snapshot(), &client.stage);
        assert_eq!(matches!(step, Instruction::Lost(_)), expected.is_some(), "{metadata} {spec}");
    }
    model.object = own;
    let mut snapshot = model.snapshot();
    let cause = GapCause::Forbidden("list nodes".to_owned());
    snapshot.gaps.push(Gap { kind: Kind::Nodes, namespace: None, cause });
    assert_eq!(next_instruction(&snapshot, &client.stage).step, Instruction::Lost(Loss::Unknown));
    let mut snapshot = model.snapshot();
    snapshot.controller_revisions.pop();
    assert_eq!(
        next_instruction(&snapshot, &client.stage).step,
        Instruction::Wait(Waiting::Controller),
        "its revision comes later"
    );
    client.stage.hash = "of another template".to_owned();
    assert_eq!(next_instruction(&model.snapshot(), &client.stage).step, Instruction::Lost(Loss::TemplateChanged));
}

#[test]
fn nothing_is_replaced_before_the_controller_has_observed_the_hold() {
    let mut model = Model::new(5, 3, &json!(1), Faults::default());
    all_old(&mut model);
    let client = Client::start(&mut model, IntOrPercent::Int(0)).unwrap();
    let step = |model: &Model| next_instruction(&model.snapshot(), &client.stage).step;
    assert!(matches!(step(&model), Instruction::Replace { .. }));
    model.object["status"]["observedGeneration"] = 1.into();
    assert_eq!(step(&model), Instruction::Wait(Waiting::Controller));
    model.now += client.stage.gates.progress_deadline.as_secs();
    let Instruction::Stop(failures) = step(&model) else { panic!("not stopped") };
    assert_eq!((failures.len(), failures[0].gate), (1, Gate::ProgressDeadline));
}

#[test]
fn each_new_pod_is_verified_once_it_is_available() {
    let (mut model, mut client, at) = begun(3);
    client.stage.gates.verifies = true;
    let pod = model.pod(NEW, None);
    let (node, name, uid) = (model.nodes[at].name.clone(), pod.name.clone(), format!("{}-uid", pod.name));
    model.nodes[at].pods = vec![pod];
    let step = |model: &Model, client: &Client| next_instruction(&model.snapshot(), &client.stage).step;
    assert_eq!(step(&model, &client), Instruction::Wait(Waiting::Pods(vec![node.clone()])));
    model.nodes[at].pods[0].ready_since = Some(model.now);
    assert_eq!(step(&model, &client), Instruction::Verify { node: node.clone(), pod: name, uid: uid.clone() });
    client.stage.verified.insert(uid);
    let Instruction::Replace { node: next, .. } = step(&model, &client) else { panic!("it does not go on") };
    assert_ne!(next, node);
}

/// A list may lack nodes: their pods, which are of the older revision, would be replaced without gates.
#[test]
fn a_stage_does_not_end_while_an_old_pod_is_on_a_node_that_no_list_has() {
    let mut model = Model::new(3, 3, &json!(1), Faults::default());
    all_old(&mut model);
    let client = Client::start(&mut model, IntOrPercent::Int(0)).unwrap();
    for at in 1..3 {
        let pod = model.pod(NEW, Some(0));
        model.nodes[at].pods = vec![pod];
    }
    let missing = model.nodes[0].name.clone();
    let mut snapshot = model.snapshot();
    snapshot.nodes.retain(|node| node.metadata.name != missing);
    assert_eq!(next_instruction(&snapshot, &client.stage).step, Instruction::Wait(Waiting::Node(missing.clone())));
    // It was deleted.
    snapshot.pods.retain(|pod| pod.spec.node_name != missing);
    assert_eq!(next_instruction(&snapshot, &client.stage).step, Instruction::Done(Vec::new()));
}

/// A pod that somebody has created by hand is the DaemonSet's own once the controller has adopted it.
#[test]
fn a_pod_that_nobody_owns_is_not_replaced_before_it_is_adopted() {
    let mut model = Model::new(3, 3, &json!(1), Faults::default());
    all_old(&mut model);
    let client = Client::start(&mut model, IntOrPercent::Int(0)).unwrap();
    for at in 1..3 {
        let pod = model.pod(NEW, Some(0));
        model.nodes[at].pods = vec![pod];
    }
    let mut snapshot = model.snapshot();
    assert!(matches!(next_instruction(&snapshot, &client.stage).step, Instruction::Replace { .. }));
    let (node, bare) = (&model.nodes[0].name, |pod: &&mut Pod| pod.spec.node_name == model.nodes[0].name);
    let pod = snapshot.pods.iter_mut().find(bare).unwrap();
    pod.metadata.owner_references.clear();
    let waiting = Waiting::Adoption { node: node.clone(), pod: pod.metadata.name.clone() };
    assert_eq!(next_instruction(&snapshot, &client.stage).step, Instruction::Wait(waiting));
}

/// As a surge leaves it that was suspended: the controller deletes the older one.
#[test]
fn a_node_of_the_stage_with_two_pods_is_waited_for() {
    let mut model = Model::new(3, 2, &json!(1), Faults::default());
    all_old(&mut model);
    let client = Client::start(&mut model, IntOrPercent::Int(1)).unwrap();
    let [name] = client.stage.nodes.as_slice() else { panic!("more than one node") };
    let pod = model.pod(NEW, Some(0));
    model.nodes.iter_mut().find(|node| node.name == *name).unwrap().pods.push(pod);
    let step = |model: &Model| next_instruction(&model.snapshot(), &client.stage).step;
    assert_eq!(step(&model), Instruction::Wait(Waiting::Pods(vec![name.clone()])));
    // Another node was updated meanwhile, so that this one need not be.
    let pod = model.pod(NEW, Some(0));
    model.nodes.iter_mut().find(|node| node.name != *name).unwrap().pods = vec![pod];
    assert_eq!(step(&model), Instruction::Done(Vec::new()));
}

#[test]
fn unavailable_pods_are_replaced_at_no_cost_but_not_all_at_once() {
    let mut model = Model::new(5, 4, &json!(1), Faults::default());
    all_old(&mut model);
    (1..3).for_each(|at| model.nodes[at].pods[0].ready_since = None);
    let mut client = Client::start(&mut model, IntOrPercent::Int(0)).unwrap();
    assert_eq!(client.act(&mut model, 0).unwrap().0, None);
    let Look { step, .. } = next_instruction(&model.snapshot(), &client.stage);
    assert_eq!(step, Instruction::Wait(Waiting::Pods(vec![model.nodes[1].name.clone()])));
}

#[test]
fn nodes_that_are_unavailable_anyway_take_up_the_budget() {
    let mut model = Model::new(5, 4, &json!(1), Faults::default());
    all_old(&mut model);
    let client = Client::start(&mut model, IntOrPercent::Int(0)).unwrap();
    (model.nodes[2].ready, model.nodes[2].pods[0].ready_since) = (false, None);
    let nodes = vec![model.nodes[2].name.clone()];
    let Look { step, .. } = next_instruction(&model.snapshot(), &client.stage);
    assert_eq!(step, Instruction::Wait(Waiting::Budget { nodes, allowed: 1 }));
}

#[test]
fn a_stage_is_complete_once_all_new_pods_have_been_available_for_long_enough() {
    let (mut model, client, _) = begun(3);
    for at in 0..3 {
        let pod = model.pod(NEW, Some(model.now - i64::try_from(at).unwrap()));
        model.nodes[at].pods = vec![pod];
    }
    let step = |model: &Model| next_instruction(&model.snapshot(), &client.stage).step;
    let end = model.now + client.stage.gates.soak.as_secs();
    model.now = end - 1;
    assert_eq!(step(&model), Instruction::Wait(Waiting::Soak(timestamp(end))));
    model.now = end;
    assert_eq!(step(&model), Instruction::Done(Vec::new()));
}

/// Some states pass within seconds, such as a port that the old pod has just used.
#[test]
fn a_new_pod_that_cannot_start_stops_the_stage_after_a_moment() {
    let (mut model, client, at) = begun(3);
    let pod = model.pod(NEW, None);
    let (node, name) = (model.nodes[at].name.clone(), pod.name.clone());
    model.nodes[at].pods = vec![pod];
    let step = |model: &Model| {
        let mut snapshot = model.snapshot();
        let pod = snapshot.pods.iter_mut().find(|pod| pod.metadata.name == name).unwrap();
        let waiting = json!({"name": "agent", "state": {"waiting": {"reason": "CreateContainerConfigError"}}});
        pod.status.container_statuses = vec![serde_json::from_value(waiting).unwrap()];
        next_instruction(&snapshot, &client.stage).step
    };
    model.now += 9;
    assert_eq!(step(&model), Instruction::Wait(Waiting::Pods(vec![node.clone()])));
    model.now += 1;
    let Instruction::Stop(failures) = step(&model) else { panic!("not stopped") };
    let found = (failures.len(), failures[0].gate, failures[0].node.as_ref(), failures[0].pod.as_ref());
    assert_eq!(found, (1, Gate::Starts, Some(&node), Some(&name)));
}

#[test]
fn a_new_pod_that_fails_where_all_others_failed_before_does_not_stop_the_stage() {
    let (mut model, mut client, at) = begun(3);
    let pod = model.pod(NEW, None);
    let (node, name) = (model.nodes[at].name.clone(), pod.name.clone());
    model.nodes[at].pods = vec![pod];
    model.now += 10;
    let now = model.now;
    let mut snapshot = model.snapshot();
    let pod = snapshot.pods.iter_mut().find(|pod| pod.metadata.name == name).unwrap();
    let waiting = json!({"name": "agent", "state": {"waiting": {"reason": "CreateContainerConfigError"}}});
    pod.status.container_statuses = vec![serde_json::from_value(waiting).unwrap()];
    let began = json!(timestamp(now - 100).to_string());
    snapshot.controller_revisions[1].metadata.creation_timestamp = serde_json::from_value(began).unwrap();
    let with_others = |since: i64| {
        let mut all = snapshot.clone();
        for other in ["one", "two"] {
            let ready =
                json!([{"type": "Ready", "status": "False", "lastTransitionTime": timestamp(since).to_string()}]);
            let pod = json!({"metadata": {"name": other, "namespace": "default", "uid": other},
                "spec": {"nodeName": node}, "status": {"phase": "Running", "conditions": ready}});
            all.pods.push(serde_json::from_value(pod).unwrap());
        }
        all
    };
    let Instruction::Stop(failures) = next_instruction(&snapshot, &client.stage).step else { panic!("not stopped") };
    assert_eq!(broken_nodes(&with_others(now - 90), &failures), [].into());
    client.stage.broken = broken_nodes(&with_others(now - 110), &failures);
    assert_eq!(client.stage.broken, [node].into());
    let step = next_instruction(&snapshot, &client.stage).step;
    assert!(matches!(step, Instruction::Replace { .. }), "{step:?}");
}

/// A kubelet that has never posted a status may never run the new pod.
#[test]
fn a_node_without_a_condition_is_not_ready_and_keeps_its_pod() {
    let mut model = Model::new(5, 3, &json!(1), Faults::default());
    all_old(&mut model);
    let mut snapshot = model.snapshot();
    let client = Client::start(&mut model, IntOrPercent::Int(0)).unwrap();
    let Instruction::Replace { node, .. } = next_instruction(&model.snapshot(), &client.stage).step else {
        panic!("nothing")
    };
    snapshot.daemon_sets = model.snapshot().daemon_sets;
    snapshot.nodes.iter_mut().find(|it| it.metadata.name == node).unwrap().status.conditions.clear();
    let Instruction::Replace { node: other, .. } = next_instruction(&snapshot, &client.stage).step else {
        panic!("nothing")
    };
    assert_ne!(other, node);
}

/// What a screen calls passing does not decide about a stage.
#[test]
fn a_gate_gives_a_new_pod_the_time_that_starting_takes() {
    let (mut model, client, at) = begun(3);
    let (node, pod) = (model.nodes[at].name.clone(), model.pod(NEW, None));
    let name = pod.name.clone();
    model.nodes[at].pods = vec![pod];
    let mut step = |status: Value, seconds: i64| {
        model.now = model.nodes[at].pods[0].created + seconds;
        let mut snapshot = model.snapshot();
        let pod = snapshot.pods.iter_mut().find(|pod| pod.metadata.name == name).unwrap();
        pod.status.container_statuses = vec![serde_json::from_value(status).unwrap()];
        let mut stage = client.stage.clone();
        stage.last_progress = snapshot.now;
        next_instruction(&snapshot, &stage).step
    };
    let waiting = |reason: &str| json!({"name": "agent", "state": {"waiting": {"reason": reason}}});
    let unready =
        json!({"name": "agent", "ready": false, "state": {"running": {"startedAt": timestamp(0).to_string()}}});
    for (status, seconds) in [(waiting("ContainerCreating"), 600), (unready, 60), (waiting("ErrImagePull"), 10)] {
        assert_eq!(step(status.clone(), seconds - 1), Instruction::Wait(Waiting::Pods(vec![node.clone()])), "{status}");
        let Instruction::Stop(failures) = step(status.clone(), seconds) else { panic!("{status} goes on") };
        assert_eq!((failures.len(), failures[0].gate), (1, Gate::Starts), "{status}");
    }
}

/// Nothing proves that the revision works, and the nodes have lost their pods.
#[test]
fn a_stage_whose_nodes_are_all_excluded_is_not_complete() {
    let mut model = Model::new(5, 3, &json!(1), Faults::default());
    all_old(&mut model);
    let mut client = Client::start(&mut model, IntOrPercent::Int(0)).unwrap();
    assert_eq!(client.act(&mut model, 0).unwrap().0, None);
    let mut snapshot = model.snapshot();
    snapshot.pods.clear();
    for node in &mut snapshot.nodes {
        node.spec.taints = vec![serde_json::from_value(json!({"key": "moved", "effect": "NoExecute"})).unwrap()];
    }
    let Instruction::Stop(failures) = next_instruction(&snapshot, &client.stage).step else { panic!("it goes on") };
    assert!(failures[0].message.starts_with("no node of the stage is left"), "{failures:?}");
}

/// The others say nothing about the nodes that were chosen, and none of them has the revision if the stage was the first one.
#[test]
fn a_stage_is_not_complete_without_its_nodes() {
    const NAMES: [&str; 3] = ["node-001", "node-003", "node-005"];
    for (chosen, keep, updated, gone, is_complete) in [
        // Chosen by name.
        (&NAMES[..2], 2, 0, &NAMES[..2], false),
        (&NAMES[..2], 2, 1, &NAMES[..2], false),
        (&NAMES[..2], 2, 0, &NAMES[..1], true),
        (&NAMES[..3], 0, 1, &NAMES[..3], true),
        // By the plan.
        (&[], 3, 0, &NAMES[..1], false),
        (&[], 3, 1, &NAMES[..1], true),
        (&[], 3, 0, &[], true),
    ] {
        for is_deleted in [true, false] {
            let mut model = Model::new(5, 4, &json!(1), Faults::default());
            all_old(&mut model);
            model.nodes.iter_mut().for_each(|node| node.zone = 0);
            if updated > 0 {
                // Until now, it was kept.
                model.add_node();
                let pod = model.pod(NEW, Some(0));
                model.nodes.last_mut().unwrap().pods.push(pod);
            }
            let mut request =
                StageRequest::new(Amount::Keep(IntOrPercent::Int(keep)), NewTemplate::Live, "run".to_owned());
            request.nodes = chosen.iter().map(|&name| name.to_owned()).collect();
            if chosen.len() == 3 {
                model.nodes.remove(3);
            }
            let (mut client, _) = Client::request(&mut model, &request).unwrap();
            let look = |model: &Model, client: &Client| {
                let mut snapshot = model.snapshot();
                let moved = json!({"key": "moved", "effect": "NoExecute"});
                for node in snapshot.nodes.iter_mut().filter(|node| gone.contains(&&*node.metadata.name)) {
                    node.spec.taints = vec![serde_json::from_value(moved.clone()).unwrap()];
                }
                snapshot.pods.retain(|pod| !gone.contains(&&*pod.spec.node_name));
                snapshot.nodes.retain(|node| !is_deleted || !gone.contains(&&*node.metadata.name));
                next_instruction(&snapshot, &client.stage)
            };
            let Look { mut step, counts, .. } = look(&model, &client);
            assert_eq!(counts.gone, gone, "{chosen:?} {gone:?}");
            for _ in 0..30 {
                if let Instruction::Replace { node, .. } = &step {
                    let pod = model.pod(NEW, Some(model.now));
                    model.nodes.iter_mut().find(|other| other.name == *node).unwrap().pods = vec![pod];
                }
                model.now += 5;
                client.stage.last_progress = timestamp(model.now);
                step = look(&model, &client).step;
            }
            assert_eq!(matches!(step, Instruction::Done(_)), is_complete, "{chosen:?} {updated} {gone:?} {step:?}");
            assert_eq!(matches!(step, Instruction::Stop(_)), !is_complete, "{chosen:?} {updated} {gone:?} {step:?}");
        }
    }
}

/// Whoever labels a node takes the blame off the revision.
#[test]
fn a_node_that_is_skipped_stops_no_stage_whatever_its_new_pod_does() {
    let (mut model, client, at) = begun(3);
    model.nodes[at].pods = vec![model.pod(NEW, None)];
    model.now += 20;
    let name = model.nodes[at].pods[0].name.clone();
    let step = |model: &Model| {
        let mut snapshot = model.snapshot();
        let pod = snapshot.pods.iter_mut().find(|pod| pod.metadata.name == name).unwrap();
        let crashes = json!({"name": "agent", "restartCount": 5, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        pod.status.container_statuses = vec![serde_json::from_value(crashes).unwrap()];
        next_instruction(&snapshot, &client.stage).step
    };
    assert!(matches!(step(&model), Instruction::Stop(_)));
    model.nodes[at].labels.push((SKIP_LABEL, "true"));
    assert!(matches!(step(&model), Instruction::Replace { .. }), "{:?}", step(&model));
}

#[test]
fn a_pod_that_the_api_server_refuses_stops_the_stage() {
    let (mut model, client, at) = begun(4);
    model.nodes[at].pods.clear();
    let mut snapshot = model.snapshot();
    let message = "Error creating: pods \"agent-x\" is forbidden: exceeded quota: few, requested: pods=1, \
                   used: pods=3, limited: pods=3";
    let event = json!({
        "metadata": {"name": "event", "namespace": "default"},
        "involvedObject": {"kind": "DaemonSet", "namespace": "default", "name": "agent", "uid": "agent-uid"},
        "reason": "FailedCreate", "message": message, "type": "Warning", "count": 1,
        "lastTimestamp": timestamp(model.now).to_string(),
    });
    snapshot.events.push(serde_json::from_value(event).unwrap());
    let Instruction::Stop(failures) = next_instruction(&snapshot, &client.stage).step else { panic!("not stopped") };
    let found = (failures.len(), failures[0].gate, failures[0].node.as_ref(), failures[0].reason);
    assert_eq!(found, (1, Gate::Starts, Some(&model.nodes[at].name), Some(ReasonCode::QuotaExceeded)));
}

#[test]
fn an_old_pod_that_takes_its_time_to_end_is_waited_for_until_the_deadline() {
    let (mut model, client, at) = begun(4);
    let step = |model: &Model| next_instruction(&model.snapshot(), &client.stage).step;
    let expected = Instruction::Wait(Waiting::Pods(vec![model.nodes[at].name.clone()]));
    let deadline = client.stage.gates.progress_deadline.as_secs();
    for seconds in [20, 70, deadline - 90 - 1] {
        model.now += seconds;
        assert_eq!(step(&model), expected, "{seconds}");
    }
    model.now += 1;
    let Instruction::Stop(failures) = step(&model) else { panic!("not stopped") };
    let found = (failures.len(), failures[0].gate, failures[0].reason);
    assert_eq!(found, (1, Gate::ProgressDeadline, Some(ReasonCode::StuckTerminating)));
}

/// It may belong to another workload, whose volumes take long to unmount.
#[test]
fn a_pod_that_has_to_leave_for_the_new_one_is_waited_for_until_the_deadline() {
    let (mut model, client, at) = begun(4);
    model.nodes[at].pods = vec![model.pod(NEW, None)];
    let (node, name) = (model.nodes[at].name.clone(), model.nodes[at].pods[0].name.clone());
    let asking = |cpu: &str| json!([{"name": "agent", "image": "agent", "resources": {"requests": {"cpu": cpu}}}]);
    let ends = model.now;
    let step = |model: &Model, leaves: bool| {
        let mut snapshot = model.snapshot();
        let pod = snapshot.pods.iter_mut().find(|pod| pod.metadata.name == name).unwrap();
        let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
        let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}});
        pod.spec =
            serde_json::from_value(json!({"containers": asking("2"), "affinity": {"nodeAffinity": affinity}})).unwrap();
        pod.status = serde_json::from_value(json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/4 nodes are available: 1 \
             Insufficient cpu, 3 node(s) didn't satisfy plugin(s) [NodeAffinity]."}]})).unwrap();
        let mut other = json!({"metadata": {"name": "db-0", "namespace": "default", "uid": "db-0"},
            "spec": {"nodeName": node, "containers": asking("3")}, "status": {"phase": "Running"}});
        if leaves {
            other["metadata"]["deletionTimestamp"] = json!(timestamp(ends).to_string());
        }
        snapshot.pods.push(serde_json::from_value(other).unwrap());
        next_instruction(&snapshot, &client.stage).step
    };
    let deadline = client.stage.gates.progress_deadline.as_secs();
    for seconds in [20, 70, deadline - 90 - 1] {
        model.now += seconds;
        assert_eq!(step(&model, true), Instruction::Wait(Waiting::Pods(vec![node.clone()])), "{seconds}");
    }
    let gates = |model: &Model, leaves: bool| {
        let Instruction::Stop(failures) = step(model, leaves) else { panic!("not stopped") };
        failures.iter().map(|failure| failure.gate).collect::<Vec<_>>()
    };
    assert_eq!(gates(&model, false), [Gate::Starts]);
    model.now += 1;
    assert_eq!(gates(&model, true), [Gate::ProgressDeadline]);
}

/// A server may confirm a deletion that it does not carry out.
#[test]
fn a_deletion_that_was_not_carried_out_is_taken_back() {
    let mut model = Model::new(5, 3, &json!(1), Faults::default());
    all_old(&mut model);
    let mut client = Client::start(&mut model, IntOrPercent::Int(0)).unwrap();
    let mut snapshot = model.snapshot();
    let uids: Vec<String> = snapshot.pods.iter().map(|pod| pod.metadata.uid.clone()).collect();
    let (gone, node) = ("uid-of-a-pod-that-is-gone".to_owned(), snapshot.pods[1].spec.node_name.clone());
    snapshot.pods[0].metadata.deletion_timestamp = timestamp(0).into();
    client.stage.deleted = [uids[0].clone(), uids[1].clone(), gone.clone()].into();
    assert_eq!(client.stage.take_back_deletions(&snapshot), [node]);
    assert_eq!(client.stage.deleted, [uids[0].clone(), gone].into());
}

/// The client that has replaced the last pod was killed, and what it left fails.
#[test]
fn a_rollback_without_pods_to_replace_ends_and_tells_what_fails() {
    let mut model = Model::new(5, 2, &json!(1), Faults::default());
    all_old(&mut model);
    let mut client = Client::start_back(&mut model);
    client.stage.run = "back".to_owned();
    let step = |model: &Model, client: &Client| next_instruction(&model.snapshot(), &client.stage).step;
    model.now += client.stage.gates.soak.as_secs();
    assert_eq!(step(&model, &client), Instruction::Done(Vec::new()));
    let name = model.nodes[0].name.clone();
    model.nodes[0].pods[0].ready_since = None;
    // It may still become available.
    assert_eq!(step(&model, &client), Instruction::Wait(Waiting::Pods(vec![name.clone()])));
    model.now += 1_000;
    let Instruction::Done(failures) = step(&model, &client) else { panic!("the strategy stays suspended") };
    assert_eq!(failures[0].node, Some(name));
}

fn run_to_end(model: &mut Model, client: &mut Client) -> End {
    loop {
        match client.act(model, 0).unwrap() {
            (Some(end), _) => break end,
            (None, _) => model.tick(),
        }
    }
}

/// Otherwise the strategy would stay suspended because of it.
#[test]
fn a_node_that_comes_back_during_a_stage_of_all_nodes_is_updated_too() {
    let mut model = Model::new(5, 4, &json!(1), Faults::default());
    all_old(&mut model);
    model.nodes[2].ready = false;
    let mut client = Client::start_with(&mut model, IntOrPercent::Int(0), Some(IntOrPercent::Int(2))).unwrap();
    assert_eq!(client.act(&mut model, 0).unwrap().0, None);
    (model.nodes[2].ready, model.nodes[2].since) = (true, model.now);
    assert_eq!((run_to_end(&mut model, &mut client), model.old()), (End::Done, 0));
}

/// One that leaves is not down because of its new pod.
#[test]
fn a_node_that_an_autoscaler_removes_stops_no_stage() {
    let (mut model, client, at) = begun(4);
    let now = model.now;
    (model.nodes[at].ready, model.nodes[at].since) = (false, now);
    for (began, is_stopped) in [(None, true), (Some(now), false), (Some(now + 60), true)] {
        let mut snapshot = model.snapshot();
        let node = snapshot.nodes.iter_mut().find(|node| node.metadata.name == model.nodes[at].name).unwrap();
        node.spec.taints.extend(began.map(|began| {
            let value = timestamp(began).as_second().to_string();
            let taint = json!({"key": "ToBeDeletedByClusterAutoscaler", "value": value, "effect": "PreferNoSchedule"});
            serde_json::from_value(taint).unwrap()
        }));
        let step = next_instruction(&snapshot, &client.stage).step;
        assert_eq!(matches!(step, Instruction::Stop(_)), is_stopped, "{began:?} {step:?}");
    }
}

/// Otherwise a canary is smaller than it was shown, or none at all.
#[test]
fn another_node_that_is_gone_does_not_stand_for_one_that_is_to_be_updated() {
    for (amount, updated) in [(Amount::Update(IntOrPercent::Int(1)), 1), (Amount::Keep(IntOrPercent::Int(4)), 0)] {
        let mut model = Model::new(5, 5, &json!(1), Faults::default());
        all_old(&mut model);
        let request = StageRequest::new(amount, NewTemplate::Live, "run".to_owned());
        let (mut client, _) = Client::request(&mut model, &request).unwrap();
        let gone = model.nodes.iter().position(|node| !client.stage.nodes.contains(&node.name)).unwrap();
        model.nodes.remove(gone);
        let end = run_to_end(&mut model, &mut client);
        let is_new = |node: &&super::ModelNode| node.pods.iter().any(|pod| pod.hash == NEW);
        assert_eq!((end, model.nodes.iter().filter(is_new).count()), (End::Done, updated), "{amount:?}");
    }
}

/// Nothing is known of the revision then.
#[test]
fn a_stage_none_of_whose_nodes_was_updated_is_not_complete() {
    let mut model = Model::new(5, 4, &json!(1), Faults::default());
    all_old(&mut model);
    let mut request = StageRequest::new(Amount::Update(IntOrPercent::Int(1)), NewTemplate::Live, "run".to_owned());
    request.nodes = vec!["node-003".to_owned()];
    let (client, _) = Client::request(&mut model, &request).unwrap();
    let node = model.nodes.iter_mut().find(|node| node.name == "node-003").unwrap();
    (node.ready, node.since) = (false, model.now);
    let look = |model: &Model| next_instruction(&model.snapshot(), &client.stage).step;
    assert_eq!(look(&model), Instruction::Wait(Waiting::NotReady(vec!["node-003".to_owned()])));
    model.now += client.stage.gates.progress_deadline.as_secs() + 1;
    let Instruction::Stop(failures) = look(&model) else { panic!("not stopped") };
    assert!(failures[0].message.ends_with("no node of the stage was updated: node-003 is not ready"), "{failures:?}");
}
