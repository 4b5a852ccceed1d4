//! Single situations: labels of nodes, and a pod that the controller has yet to create.

use serde_json::json;

use super::{Client, End, Faults, Model, NEW, OLD};
use crate::model::int_or_percent::IntOrPercent;
use crate::report::partition::{Gate, SKIP_LABEL};
use crate::rollout::partition::NodeLabel;
use crate::rollout::partition::next_step::{Look, Step, Waiting, next_step};

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
    let counts = next_step(&model.snapshot(), &client.stage).counts;
    assert_eq!((counts.updated.len(), counts.held), (4, 2));
    assert_eq!(counts.skipped, [model.nodes[1].name.clone(), model.nodes[3].name.clone()]);
}

#[test]
fn a_node_without_the_label_that_is_waited_for_takes_up_the_budget_until_the_deadline() {
    let label = NodeLabel { key: "ready".to_owned(), value: "2".to_owned() };
    let mut model = Model::new(5, 4, &json!(1), Faults::default());
    all_old(&mut model);
    let mut client = Client::start(&mut model, IntOrPercent::Int(0)).unwrap();
    client.stage.gates.wait_for_label = Some(label);
    let updated = |model: &Model| model.nodes.len() - model.old();
    for expected in 1..=3 {
        // The last value is that of another version.
        if let Some(node) = model.nodes.iter_mut().find(|node| node.pods[0].hash == NEW && node.labels.is_empty()) {
            node.labels.push(("ready", "1"));
            node.labels.push(("ready", "2"));
        }
        for _ in 0..10 {
            assert_eq!(client.act(&mut model, 0).unwrap().0, None);
            model.tick();
        }
        assert_eq!(updated(&model), expected);
        let Look { step, .. } = next_step(&model.snapshot(), &client.stage);
        assert!(matches!(step, Step::Wait(Waiting::Label(nodes)) if nodes.len() == 1));
    }
    (0..40).for_each(|_| model.tick());
    let Look { step: Step::Stop(failures), .. } = next_step(&model.snapshot(), &client.stage) else {
        panic!("not stopped")
    };
    assert_eq!((failures.len(), failures[0].gate), (1, Gate::NodeLabel));
    assert!(failures[0].message.contains("ready=2"), "{failures:?}");
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
    let look = |model: &Model| next_step(&model.snapshot(), &client.stage).step;
    assert_eq!(look(&model), Step::Wait(Waiting::Pods(vec![name.clone()])));
    model.now += client.stage.gates.progress_deadline.as_secs() + 1;
    let Step::Stop(failures) = look(&model) else { panic!("not stopped") };
    assert_eq!((failures[0].gate, failures[0].node.as_ref()), (Gate::ProgressDeadline, Some(&name)));
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
    (node.ready, node.created, node.since) = (false, now, now + 1);
    node.pods.push(pod);
    model.now += 5;
    assert_eq!(client.act(&mut model, 0).unwrap().0, None);
    // It was ready for a while.
    model.nodes.last_mut().unwrap().since = now + 60;
    model.now = now + 65;
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
    let failures = |model: &Model, client: &Client| match next_step(&model.snapshot(), &client.stage).step {
        Step::Stop(failures) => failures,
        step => panic!("not stopped: {step:?}"),
    };
    let failed = &failures(&model, &client)[0];
    assert_eq!((failed.gate, failed.node.as_ref()), (Gate::NodeReady, Some(&name)));
    // Nobody knows since when: the stage is not complete without it.
    model.nodes.iter_mut().find(|node| node.name == name).unwrap().since = now - 3_000;
    assert_eq!(next_step(&model.snapshot(), &client.stage).step, Step::Wait(Waiting::Pods(vec![name])));
    model.now += client.stage.gates.progress_deadline.as_secs() + 1;
    assert_eq!(failures(&model, &client)[0].gate, Gate::ProgressDeadline);
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
    let step = |model: &Model, client: &Client| next_step(&model.snapshot(), &client.stage).step;
    model.nodes[4].pods[0].ready_since = None;
    assert!(matches!(step(&model, &client), Step::Replace { .. }));
    model.nodes[5].pods[0].ready_since = None;
    let Step::Stop(failures) = step(&model, &client) else { panic!("not stopped") };
    assert_eq!((failures.len(), failures[0].gate), (1, Gate::OldPodsReady));
    client.stage.old_unready = None;
    assert!(matches!(step(&model, &client), Step::Replace { .. }));
}
