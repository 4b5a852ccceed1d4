//! Two contexts of a kubeconfig on one real control plane, one of them for a user without permissions in another namespace.

use std::fs;

use serde_json::{Value, json};

use crate::support::binary::{end, kubectl_ds};
use crate::support::control_plane::{ControlPlane, Options};

#[test]
fn contexts_of_a_kubeconfig_are_read_together() {
    let cluster = ControlPlane::start(Options::whole());
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": {"type": "kwok"}}});
    let spec = json!({"selector": {"matchLabels": {"app": "agent"}}, "template": {"metadata": {"labels": {"app": "agent"}},
        "spec": {"containers": [{"name": "agent", "image": "agent"}]}}});
    let agent = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": spec});
    cluster.create(&json!({"apiVersion": "v1", "kind": "List", "items": [node, agent]}).to_string());
    cluster.wait_until("the DaemonSet has a ready pod", || {
        (cluster.get(&["ds", "agent"])["status"]["numberAvailable"] == 1).then_some(())
    });
    let mut kubeconfig: Value = serde_json::from_str(&fs::read_to_string(cluster.kubeconfig()).unwrap()).unwrap();
    let alice: Value = serde_json::from_str(&fs::read_to_string(cluster.kubeconfig_of("alice")).unwrap()).unwrap();
    kubeconfig["users"].as_array_mut().unwrap().push(alice["users"][0].clone());
    let context = |name: &str, user: &str| json!({"name": name, "context": {"cluster": "test", "user": user}});
    kubeconfig["contexts"] = json!([context("east", "admin"), context("west", "admin"), context("closed", "alice")]);
    kubeconfig["current-context"] = json!("closed");
    let path = cluster.folder().join("several.kubeconfig");
    fs::write(&path, kubeconfig.to_string()).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = kubectl_ds(arguments);
        command.env("KUBECONFIG", &path).env("COLUMNS", "120");
        end(command, None)
    };
    let both = run(&["status", "agent", "--contexts", "?ast,?est"]);
    assert_eq!((both.code, both.err.as_str()), (Some(0), ""), "{}", both.out);
    assert!(both.out.contains(" in 2 clusters: 2 healthy\n"), "{}", both.out);
    for context in ["east", "west"] {
        assert!(both.out.lines().any(|line| line.starts_with(context) && line.contains("Healthy")), "{}", both.out);
    }
    let all = run(&["list", "--contexts", "*"]);
    assert_eq!(all.code, Some(5), "{}", all.err);
    assert!(all.out.contains(" in 2 of 3 clusters: 2 healthy\n"), "{}", all.out);
    assert!(all.err.starts_with("closed: Error from server (Forbidden): daemonsets.apps is forbidden"), "{}", all.err);
    assert!(all.err.contains("kubectl auth can-i --list -n default --context closed\n"), "{}", all.err);
    for command in [&["coverage"][..], &["list"]] {
        let ended = run(&[command, &["--contexts", "east,west", "-o", "json"]].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        let reports: Value = serde_json::from_str(&ended.out).unwrap();
        let daemon_sets = |item: &Value| item["report"]["daemonSets"].as_array().unwrap().len();
        let found: Vec<usize> = reports["items"].as_array().unwrap().iter().map(daemon_sets).collect();
        assert_eq!(found, [1, 1], "{command:?}");
    }
}
