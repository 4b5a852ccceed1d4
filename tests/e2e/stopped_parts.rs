//! What is reported while a part of the control plane is down.

use serde_json::{Value, json};

use crate::support::control_plane::{ControlPlane, Options, Part};
use crate::support::faulty_cluster::Settled;

fn node() -> String {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": {"type": "kwok"}}}).to_string()
}

fn daemon_set(name: &str) -> String {
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "agent", "image": "agent"}]},
            },
        },
    })
    .to_string()
}

#[test]
fn a_spec_that_the_controller_has_not_seen_and_a_pod_without_a_scheduler_are_named() {
    let cluster = ControlPlane::start(Options::whole());
    cluster.create(&node());
    cluster.create(&daemon_set("changed"));
    cluster.wait_until("the pod is ready", || {
        (cluster.get(&["ds", "changed"])["status"]["numberReady"] == 1).then_some(())
    });

    cluster.stop_part(Part::Scheduler);
    cluster.create(&daemon_set("unscheduled"));
    cluster.wait_until("the pod is made", || {
        let status = &cluster.get(&["ds", "unscheduled"])["status"];
        (status["currentNumberScheduled"] == 1 && status["observedGeneration"] == 1).then_some(())
    });
    let report = Settled::at_once(&cluster).report;
    let unscheduled = &report["daemonSets"][1];
    assert_eq!(unscheduled["nodes"][0]["state"], "Pending", "{unscheduled}");
    assert_eq!(unscheduled["nodes"][0]["reasons"][0]["code"], "SchedulerSilent", "{unscheduled}");

    cluster.stop_part(Part::ControllerManager);
    cluster.kubectl(&["set", "image", "daemonset", "changed", "agent=agent:2"]);
    let report = Settled::at_once(&cluster).report;
    let changed = &report["daemonSets"][0];
    assert_eq!(changed["concerns"][0]["code"], "ControllerNotObserved", "{changed}");
    assert_eq!(changed["nodes"][0]["state"], "Available", "{changed}");

    cluster.start_part(Part::ControllerManager);
    cluster.start_part(Part::Scheduler);
    cluster.wait_until("the controller has replaced the pod", || {
        let status = &cluster.get(&["ds", "changed"])["status"];
        (status["observedGeneration"] == 2 && status["updatedNumberScheduled"] == 1 && status["numberReady"] == 1)
            .then_some(())
    });
    cluster.wait_until("the other pod is ready too", || {
        (cluster.get(&["ds", "unscheduled"])["status"]["numberReady"] == 1).then_some(())
    });
    let report = Settled::at_once(&cluster).report;
    for one in report["daemonSets"].as_array().unwrap() {
        assert_eq!(one["nodes"][0]["state"], "Available", "{one}");
        assert_eq!(one["concerns"], Value::Array(Vec::new()), "{one}");
    }
}
