//! Records all kinds of revisions from a real control plane, for the hermetic tests of `history`, `undo` and `restart`.
//!
//! `KUBECTL_DS_RECORD=1 cargo test --test e2e revisions_are_recorded` writes `tests/fixtures/commands/revisions.json`.
//! Otherwise the recording is compared with what the control plane does now.

use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{fs, thread};

use serde_json::{Value, json};

use crate::support::control_plane::{ControlPlane, Options, kubernetes_is_at_least};
use crate::support::say;

const FIXTURE: &str = "tests/fixtures/commands/revisions.json";

/// Nodes, and a namespace for the DaemonSets.
const OBJECTS: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {type: kwok}}
---
apiVersion: v1
kind: Node
metadata: {name: node-2, labels: {type: kwok}}
---
apiVersion: v1
kind: Node
metadata: {name: node-3, labels: {type: kwok}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
"#;

fn daemon_set(name: &str, strategy: &str, metadata: &str) -> String {
    format!(
        r#"
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: {name}, namespace: shop, {metadata}}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  updateStrategy: {strategy}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: agent
        image: registry.example.com/{name}:1.4
        args: ["--config=/etc/agent.yaml", "--level=info"]
        env:
        - {{name: MODE, value: "yes"}}
        - {{name: NODE, valueFrom: {{fieldRef: {{fieldPath: spec.nodeName}}}}}}
        ports: [{{name: metrics, containerPort: 9100}}]
        resources: {{requests: {{cpu: 100m, memory: 64Mi}}, limits: {{memory: 128Mi}}}}
        volumeMounts: [{{name: config, mountPath: /etc/agent}}]
      volumes: [{{name: config, configMap: {{name: {name}}}}}]
"#
    )
}

struct Shop {
    control_plane: ControlPlane,
}

impl Shop {
    fn start() -> Self {
        let control_plane = ControlPlane::start(Options::whole());
        control_plane.create(OBJECTS);
        control_plane.wait_until("the namespace has its account", || {
            control_plane.has(&["serviceaccount", "default", "-n", "shop"]).then_some(())
        });
        Shop { control_plane }
    }

    fn kubectl(&self, args: &[&str]) {
        self.control_plane.kubectl(&[&["-n", "shop"], args].concat());
    }

    fn get(&self, kind: &str, name: &str) -> Value {
        self.control_plane.get(&[kind, name, "-n", "shop"])
    }

    /// Waits until the controller has acted on the DaemonSet and, unless it is OnDelete, all pods are new and ready.
    fn settle(&self, name: &str) {
        self.control_plane.wait_until(&format!("{name} is rolled out"), || {
            let object = self.get("daemonset", name);
            let status = |field: &str| object["status"][field].as_i64().unwrap_or(0);
            let seen = status("observedGeneration") == object["metadata"]["generation"].as_i64().unwrap();
            let on_delete = object["spec"]["updateStrategy"]["type"] == "OnDelete";
            let updated = on_delete || status("updatedNumberScheduled") == 3;
            (seen && updated && status("numberReady") == 3).then_some(())
        });
        // Times have whole seconds: so revisions differ in theirs.
        thread::sleep(Duration::from_millis(1100));
    }

    fn create(&self, name: &str, strategy: &str, metadata: &str) {
        self.control_plane.create(&daemon_set(name, strategy, metadata));
        self.settle(name);
    }

    fn patch(&self, name: &str, operations: Value) {
        self.kubectl(&["patch", "daemonset", name, "--type=json", "-p", &operations.to_string()]);
        self.settle(name);
    }

    fn image(&self, name: &str, tag: &str) {
        let image = format!("registry.example.com/{name}:{tag}");
        self.patch(name, json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image}]));
    }

    /// Adds a revision that the controller did not make.
    fn add_revision(&self, daemon_set: &str, name: &str, owner: Value, revision: i64, data: Value) {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision",
            "metadata": {"name": name, "namespace": "shop", "ownerReferences": [owner],
                "labels": {"app": daemon_set, "controller-revision-hash": name}},
            "revision": revision, "data": data,
        });
        self.control_plane.create(&object.to_string());
        thread::sleep(Duration::from_millis(1100));
    }

    fn owner(&self, name: &str) -> Value {
        let uid = self.get("daemonset", name)["metadata"]["uid"].clone();
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": uid,
            "controller": true, "blockOwnerDeletion": true})
    }
}

/// Gives the DaemonSets their histories; the comments say what to notice.
fn bring_about(shop: &Shop) {
    let rolling = "{rollingUpdate: {maxUnavailable: 3}}";
    // Five templates, of which the second was gone back to and is the newest.
    shop.create("agent", rolling, r#"annotations: {kubernetes.io/change-cause: "first install"}"#);
    shop.kubectl(&["annotate", "--overwrite", "daemonset", "agent", "kubernetes.io/change-cause=1.5: fixes the leak"]);
    shop.image("agent", "1.5");
    shop.patch(
        "agent",
        json!([
            {"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": {"name": "LEVEL", "value": "1_000"}},
            {"op": "replace", "path": "/spec/template/spec/containers/0/env/0/value", "value": "no"},
            {"op": "replace", "path": "/spec/template/spec/containers/0/args/1", "value": "--level=debug"},
            {"op": "replace", "path": "/spec/template/spec/containers/0/resources/limits/memory", "value": "256Mi"},
            {"op": "add", "path": "/spec/template/spec/tolerations", "value": [{"operator": "Exists"}]},
        ]),
    );
    shop.image("agent", "2.0-rc1");
    shop.kubectl(&["rollout", "undo", "daemonset/agent", "--to-revision=2"]);
    shop.settle("agent");

    // OnDelete: every pod is on the first template still. An Argo CD application manages it.
    let argo = "annotations: {argocd.argoproj.io/tracking-id: 'platform:apps/DaemonSet:shop/logs'}";
    shop.create("logs", "{type: OnDelete}", argo);
    shop.image("logs", "1.5");

    // As after an upgrade of the control plane from 1.33: the revision before the current one is the same template
    // with `creationTimestamp: null`.
    shop.create("upgraded", rolling, "labels: {app: upgraded}");
    shop.image("upgraded", "1.5");
    let mut data = json!({"spec": {"template": shop.get("daemonset", "upgraded")["spec"]["template"].clone()}});
    data["spec"]["template"]["$patch"] = "replace".into();
    data["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    shop.add_revision("upgraded", "upgraded-before", shop.owner("upgraded"), 3, data);
    // The controller gives its own revision the highest number when it looks the next time.
    shop.kubectl(&["patch", "daemonset", "upgraded", "--type=merge", "-p", r#"{"spec":{"minReadySeconds":1}}"#]);
    shop.settle("upgraded");

    // Among its revisions are one that cannot be read, and one of a StatefulSet with the same labels.
    shop.create("broken", rolling, "labels: {app: broken}");
    shop.image("broken", "1.5");
    shop.add_revision("broken", "broken-data", shop.owner("broken"), 9, json!({"spec": 5}));
    let labels = json!({"app": "broken"});
    let containers = json!([{"name": "web", "image": "registry.example.com/web:1"}]);
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let spec = json!({"replicas": 0, "serviceName": "web", "selector": {"matchLabels": labels}, "template": template});
    let metadata = json!({"name": "web", "namespace": "shop"});
    let object = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec});
    shop.control_plane.create(&object.to_string());
    shop.control_plane.wait_until("the StatefulSet has its revision", || {
        let revisions = shop.control_plane.items(&["controllerrevisions", "-n", "shop"]);
        let of_web = |revision: &Value| revision["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet";
        revisions.iter().any(of_web).then_some(())
    });
}

#[test]
fn revisions_are_recorded() {
    let shop = Shop::start();
    bring_about(&shop);
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl-ds"))
        .args(["snapshot", "-n", "shop", "--kubeconfig"])
        .arg(shop.control_plane.kubeconfig())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    the_snapshot_has_the_history_of_the_cluster(&shop, &output.stdout);
    let mut recording: Value = serde_json::from_slice(&output.stdout).unwrap();
    // What happened while the pods came up is no part of it.
    recording["items"]
        .as_array_mut()
        .unwrap()
        .retain(|item| !["Event", "Lease"].contains(&item["kind"].as_str().unwrap()));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FIXTURE);
    if std::env::var_os("KUBECTL_DS_RECORD").is_some_and(|value| !value.is_empty()) {
        let mut text = String::from("{\"apiVersion\":\"v1\",\"kind\":\"List\",\n\"snapshot\":");
        text.push_str(&recording["snapshot"].to_string());
        text.push_str(",\n\"items\":[\n");
        let items: Vec<_> = recording["items"].as_array().unwrap().iter().map(Value::to_string).collect();
        text.push_str(&items.join(",\n"));
        text.push_str("\n]}\n");
        fs::write(&path, text).unwrap();
        say(&format!("recorded {}", path.display()));
    }
    let recorded: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    // The hashes depend on the release, the templates and numbers do not.
    let revisions = |dump: &Value| {
        let mut revisions: Vec<(String, i64, Value)> = dump["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|item| item["kind"] == "ControllerRevision")
            // Up to 1.33 both spellings are one to the controller, which keeps the newer revision alone.
            .filter(|item| kubernetes_is_at_least(34) || item["metadata"]["labels"]["app"] != "upgraded")
            .map(|item| {
                let app = item["metadata"]["labels"]["app"].as_str().unwrap().to_owned();
                let mut data = item["data"].clone();
                if let Some(metadata) = data.pointer_mut("/spec/template/metadata").and_then(Value::as_object_mut) {
                    metadata.remove("creationTimestamp");
                }
                (app, item["revision"].as_i64().unwrap(), data)
            })
            .collect();
        revisions.sort_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
        revisions
    };
    assert_eq!(revisions(&recording), revisions(&recorded));
    what_was_changed_bears_the_tools_name(&shop);
}

fn the_snapshot_has_the_history_of_the_cluster(shop: &Shop, snapshot: &[u8]) {
    let file = shop.control_plane.folder().join("snapshot.json");
    fs::write(&file, snapshot).unwrap();
    let report = |question: &[&str], from: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_kubectl-ds"))
            .args(["history", "-n", "shop", "-o", "json"])
            .args(question)
            .args(from)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["now"].take();
        report
    };
    let questions: [&[&str]; 4] = [&["agent"], &["broken"], &["logs"], &["upgraded"]];
    let history = |from: &[&str]| questions.map(|question| report(question, from));
    let live = history(&["--kubeconfig", shop.control_plane.kubeconfig().to_str().unwrap()]);
    assert!(live[1].to_string().contains("StatefulSet web"), "{}", live[1]);
    assert_eq!(history(&["--from", file.to_str().unwrap()]), live);
}

/// The API server notes who has changed what.
fn what_was_changed_bears_the_tools_name(shop: &Shop) {
    // Without it, the rollback is refused: its pods would not start.
    shop.control_plane.kubectl(&["create", "configmap", "agent", "-n", "shop"]);
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl-ds"))
        .args(["undo", "agent", "--to-revision=1", "-n", "shop", "--kubeconfig"])
        .arg(shop.control_plane.kubeconfig())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let object = shop.control_plane.get(&["daemonset", "agent", "-n", "shop", "--show-managed-fields"]);
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let ours = entries.iter().find(|entry| entry["manager"] == "kubectl-ds").expect("an entry of ours");
    assert_eq!(ours["operation"], "Update");
    assert!(ours.pointer("/fieldsV1/f:spec/f:template").is_some(), "{ours}");
}
