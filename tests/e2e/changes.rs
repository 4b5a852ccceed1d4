//! `changes` on a real control plane: changes are listed in order, with who made them.

use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::rollouts::program::{program, run_on};
use crate::support::control_plane::{ControlPlane, Options};

/// How long after its creation what is written to a node belongs to its creation, and more.
const SETUP: Duration = Duration::from_secs(32);

fn create_node(cluster: &ControlPlane, name: &str) {
    let metadata = json!({"name": name, "labels": {"type": "kwok"}});
    cluster.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata}).to_string());
}

#[test]
fn what_was_changed_is_listed_in_its_order_with_who_changed_it() {
    let flags = ["--node-monitor-period=1s"].map(str::to_owned);
    let cluster = ControlPlane::start(Options { controller_manager_flags: flags.into(), ..Options::whole() });
    ["tainted", "labeled", "cordoned", "lost"].iter().for_each(|name| create_node(&cluster, name));
    let spec = json!({
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {
            "metadata": {"labels": {"app": "agent"}},
            "spec": {"containers": [{"name": "agent", "image": "agent:1"}], "tolerations": [{"operator": "Exists"}]},
        },
    });
    let daemon_set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": spec});
    cluster.create(&daemon_set.to_string());
    let metadata = json!({"name": "pods", "namespace": "default"});
    let spec = json!({"hard": {"pods": "100"}});
    cluster
        .create(&json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec}).to_string());
    sleep(SETUP);

    // Times have whole seconds.
    let wait = || sleep(Duration::from_millis(1100));
    let kubectl = |arguments: &[&str]| {
        cluster.kubectl(arguments);
        wait();
    };
    kubectl(&["taint", "node", "tainted", "dedicated=db:NoSchedule"]);
    kubectl(&["label", "node", "labeled", "pool=db"]);
    kubectl(&["cordon", "cordoned"]);
    create_node(&cluster, "new");
    wait();
    let patch = |manager: &str, spec: Value| {
        let patch = json!({"spec": spec}).to_string();
        kubectl(&["patch", "ds", "agent", "--type", "merge", "--field-manager", manager, "-p", &patch]);
    };
    patch("releaser", json!({"template": {"metadata": {"annotations": {"release": "2"}}}}));
    patch("operator", json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}));
    kubectl(&["label", "namespace", "default", "pod-security.kubernetes.io/warn=restricted"]);
    let hard = json!({"spec": {"hard": {"pods": "99"}}}).to_string();
    kubectl(&["patch", "resourcequota", "pods", "--type", "merge", "--field-manager", "quotas", "-p", &hard]);
    cluster.kubectl(&["delete", "node", "lost"]);
    cluster.wait_until("the controller has told that the node is gone", || {
        let events = cluster.items(&["events", "-n", "default"]);
        events.iter().any(|event| event["reason"] == "RemovingNode").then_some(())
    });

    let report = run_on(&cluster, &["changes", "-o", "json"]).expect(0).json();
    let changes = report["changes"].as_array().unwrap();
    let told = |change: &Value| {
        let text = |field: &str| change[field].as_str().unwrap_or("?").to_owned();
        let names: Vec<&str> = change["names"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let details: Vec<&str> = change["details"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let by = text("by").replace("kubectl-cordon", "kubectl");
        format!("{} {} by {by}: {}", names.join("+"), text("what"), details.join(" or "))
    };
    let lines: Vec<String> = changes.iter().take(9).map(told).collect();
    assert_eq!(
        lines,
        [
            "lost Deleted by ?: ",
            "pods Written by quotas: spec.hard",
            "default Written by kubectl-label: labels pod-security.kubernetes.io/warn",
            "agent Written by operator: update strategy",
            "agent RolledOut by releaser: +annotation release",
            "new Created by ?: ",
            "cordoned Cordoned by kubectl: ",
            "labeled Written by kubectl-label: labels pool",
            "tainted Written by kubectl-taint: taints dedicated=db:NoSchedule",
        ],
        "{report}"
    );
    // What was there before is that the nodes and the DaemonSet were created.
    assert!(changes[9..].iter().all(|change| change["what"] == "Created"), "{report}");
    assert_eq!((&report["nodesWithoutManagedFields"], &report["incomplete"]), (&0.into(), &json!([])), "{report}");

    let screen = run_on(&cluster, &["changes", "--since", "25s"]).expect(0);
    screen.must_say("9 known changes in the last 25s").must_say("node tainted").must_say("operator");
    sleep(Duration::from_secs(2));
    run_on(&cluster, &["changes", "--since", "1s"]).must_say("No known changes in the last 1s");

    // Those who watch also see what is removed from nodes.
    let arguments = ["changes", "--watch"].map(str::to_owned);
    let mut watching =
        program(&cluster.kubeconfig(), &arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    sleep(Duration::from_secs(3));
    kubectl(&["taint", "node", "labeled", "team=ml:NoSchedule"]);
    kubectl(&["taint", "node", "tainted", "dedicated-"]);
    kubectl(&["uncordon", "cordoned"]);
    sleep(Duration::from_secs(2));
    watching.kill().unwrap();
    let lines = String::from_utf8(watching.wait_with_output().unwrap().stdout).unwrap();
    let at = |words: &str| lines.find(words).unwrap_or_else(|| panic!("{words}: {lines}"));
    let told = [
        "node labeled: may have changed taints team=ml:NoSchedule (kubectl-taint)",
        "node tainted: taint removed: dedicated=db:NoSchedule",
        "node cordoned: uncordoned",
    ];
    assert!(told.map(at).is_sorted(), "{lines}");

    // A rollout that a quota blocks names who has written the quota.
    let hard = json!({"spec": {"hard": {"pods": "0"}}}).to_string();
    kubectl(&["patch", "resourcequota", "pods", "--type", "merge", "--field-manager", "quotas", "-p", &hard]);
    patch("releaser", json!({"template": {"metadata": {"annotations": {"release": "3"}}}}));
    let told = "resourcequota default/pods: may have changed spec.hard (quotas)";
    cluster.wait_until("status tells of the quota", || run_on(&cluster, &["status", "agent"]).says(told).then_some(()));
}
