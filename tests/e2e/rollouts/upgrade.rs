//! An upgrade of the control plane from a release that wrote `creationTimestamp: null` into revisions.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::program::run_on;
use crate::support::control_plane::{ControlPlane, Options};

/// The release that is upgraded, and the one that it is upgraded to.
const OLDEST: &str = "1.33";
const NEWEST: &str = "1.37";

fn image(control_plane: &ControlPlane, name: &str) -> Value {
    let daemon_set = control_plane.get(&["daemonset", name]);
    daemon_set["spec"]["template"]["spec"]["containers"][0]["image"].clone()
}

/// Returns the uids of all pods.
fn pods(control_plane: &ControlPlane) -> BTreeSet<String> {
    control_plane.items(&["pods"]).iter().map(|pod| pod["metadata"]["uid"].to_string()).collect()
}

fn settle(control_plane: &ControlPlane, name: &str) {
    control_plane.wait_until("the pods are available", || {
        let daemon_set = control_plane.get(&["daemonset", name]);
        let status = &daemon_set["status"];
        let is_settled = status["observedGeneration"] == daemon_set["metadata"]["generation"]
            && status["updatedNumberScheduled"] == 2
            && status["numberAvailable"] == 2;
        is_settled.then_some(())
    });
}

#[test]
#[ignore = "builds two releases, which takes minutes"]
fn after_an_upgrade_undo_goes_to_another_template_where_kubectl_stays() {
    let mut control_plane = ControlPlane::start(Options { kubernetes: OLDEST.to_owned(), ..Options::whole() });
    for name in ["node-1", "node-2"] {
        let metadata = json!({"name": name, "labels": {"type": "kwok"}});
        control_plane.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata}).to_string());
    }
    for name in ["ours", "kubectls"] {
        let labels = json!({"app": name});
        let containers = json!([{"name": "agent", "image": "agent:1"}]);
        let spec = json!({"selector": {"matchLabels": labels}, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}});
        let object = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec});
        control_plane.create(&object.to_string());
        settle(&control_plane, name);
        control_plane.kubectl(&["set", "image", &format!("daemonset/{name}"), "agent=agent:2"]);
        settle(&control_plane, name);
    }
    let before = pods(&control_plane);

    control_plane.upgrade(NEWEST, &[]);
    let report = control_plane.wait_until("the new controller has made its revisions", || {
        let report = run_on(&control_plane, &["history", "ours", "-o", "json"]).expect(0).json();
        let made =
            |name: &str| run_on(&control_plane, &["history", name, "-o", "name"]).expect(0).stdout.lines().count();
        (made("ours") == 3 && made("kubectls") == 3).then_some(report)
    });
    assert_eq!(pods(&control_plane), before, "an upgrade restarts nothing");
    assert_eq!((&report["revisions"][0]["revision"], &report["revisions"][0]["current"]), (&json!(3), &json!(true)));
    assert_eq!(report["revisions"][0]["changes"], json!([]), "{report}");
    let outdated = run_on(&control_plane, &["list", "-o", "json"]).expect(0).json();
    assert!(outdated["daemonSets"].as_array().unwrap().iter().all(|row| row["counts"]["outdated"] == 0), "{outdated}");

    assert!(control_plane.kubectl(&["rollout", "undo", "daemonset/kubectls"]).contains("rolled back"));
    assert_eq!(image(&control_plane, "kubectls"), "agent:2", "kubectl went somewhere after all");
    let undone = run_on(&control_plane, &["undo", "ours", "-o", "json"]).expect(0).json();
    assert_eq!(image(&control_plane, "ours"), "agent:1");
    assert_eq!((&undone["toRevision"], &undone["outcome"]["revision"]), (&json!(1), &json!(4)), "{undone}");
    settle(&control_plane, "ours");
    run_on(&control_plane, &["undo", "ours", "--to-revision=2"]).expect(0);
    assert_eq!(image(&control_plane, "ours"), "agent:2");
}
