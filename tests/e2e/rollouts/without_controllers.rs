//! An API server without controllers, and with only the older version of Advanced DaemonSets.

use std::process::Stdio;
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::program::{program, run_on};
use crate::support::control_plane::{ControlPlane, Options};

/// What OpenKruise before 1.9 serves, but for the schema.
const OLDER_VERSION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: daemonsets.apps.kruise.io}
spec:
  group: apps.kruise.io
  scope: Namespaced
  names: {kind: DaemonSet, listKind: DaemonSetList, plural: daemonsets, singular: daemonset, shortNames: [daemon, ads]}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"#;

/// The API server that most of these tests share, each in a namespace of its own.
static API_SERVER: LazyLock<ControlPlane> = LazyLock::new(|| ControlPlane::start(Options::api_server_only()));

/// Returns the API server after a namespace was created.
fn with_namespace(name: &str) -> &'static ControlPlane {
    API_SERVER.kubectl(&["create", "namespace", name]);
    &API_SERVER
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "agent", "image": image}]}})
}

fn daemon_set(version: &str, namespace: &str) -> Value {
    let spec = json!({"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent:2")});
    json!({"apiVersion": version, "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": namespace},
        "spec": spec})
}

/// Writes the revisions that a controller would have made.
fn create_revisions(control_plane: &ControlPlane, owner: &Value) {
    let namespace = &owner["metadata"]["namespace"];
    for number in [1, 2] {
        let mut data = template(&format!("agent:{number}"));
        data["$patch"] = json!("replace");
        let reference = json!({"apiVersion": owner["apiVersion"], "kind": "DaemonSet", "name": "agent",
            "uid": owner["metadata"]["uid"], "controller": true});
        let labels = json!({"app": "agent", "controller-revision-hash": number.to_string()});
        let metadata = json!({"name": format!("agent-{number}"), "namespace": namespace, "labels": labels, "ownerReferences": [reference]});
        let revision = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata,
            "revision": number, "data": {"spec": {"template": data}}});
        control_plane.create(&revision.to_string());
    }
}

#[test]
fn where_v1alpha1_alone_is_served_history_and_undo_use_it() {
    // DaemonSets of the same name would be suggested.
    let control_plane = &ControlPlane::start(Options::api_server_only());
    control_plane.create(OLDER_VERSION);
    let manifest = daemon_set("apps.kruise.io/v1alpha1", "default").to_string();
    control_plane.wait_until("the resource is served", || {
        control_plane.try_kubectl(&["create", "-f", "-"], Some(&manifest)).status.success().then_some(())
    });
    let live = || control_plane.api().get("/apis/apps.kruise.io/v1alpha1/namespaces/default/daemonsets/agent");
    create_revisions(control_plane, &live());

    for name in ["agent", "ads/agent"] {
        let report = run_on(control_plane, &["history", name, "-o", "json"]).expect(0).json();
        assert_eq!(report["daemonSet"]["apiVersion"], "apps.kruise.io/v1alpha1", "{report}");
        assert_eq!(report["revisions"][0]["current"], true, "{report}");
        assert_eq!(report["revisions"][1]["images"], json!(["agent:1"]), "{report}");
    }
    run_on(control_plane, &["history", "ds/agent"]).expect(1).must_say("ads/agent");
    run_on(control_plane, &["undo", "agent", "--no-wait"]).expect(0);
    assert_eq!(live()["spec"]["template"], template("agent:1"));
}

#[test]
fn an_undo_that_no_controller_sees_is_made_and_said_to_be_unseen() {
    const NAMESPACE: &str = "unseen";
    let control_plane = with_namespace(NAMESPACE);
    control_plane.create(&daemon_set("apps/v1", NAMESPACE).to_string());
    let live = || control_plane.get(&["daemonsets.apps", "agent", "-n", NAMESPACE]);
    create_revisions(control_plane, &live());
    let run = run_on(control_plane, &["undo", "agent", "-n", NAMESPACE, "--timeout=1"]);
    assert!(run.code.is_some_and(|code| code > 1), "it says that all is well, or that nothing was done: {run}");
    run.must_say("rolled back").must_say("controller");
    assert_eq!(live()["spec"]["template"]["spec"]["containers"][0]["image"], "agent:1");
    // Nobody has made a revision of it, so that its number has not changed.
    run_on(control_plane, &["undo", "agent", "-n", NAMESPACE, "--to-revision=1"]).expect(0).must_say("already");
}

#[test]
fn a_stage_ends_if_another_template_is_written_before_the_controller_has_looked() {
    const NAMESPACE: &str = "overwritten";
    let control_plane = with_namespace(NAMESPACE);
    control_plane.create(&daemon_set("apps/v1", NAMESPACE).to_string());
    let live = || control_plane.get(&["daemonsets.apps", "agent", "-n", NAMESPACE]);
    create_revisions(control_plane, &live());
    let image = || live()["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    // There is no node that could hold anything.
    let arguments = ["partition", "agent", "0", "-n", NAMESPACE, "--image=agent=agent:3", "--force"].map(str::to_owned);
    let client = program(&control_plane.kubeconfig(), &arguments).stderr(Stdio::piped()).spawn().unwrap();
    control_plane.wait_until("the template is written", || (image() == "agent:3").then_some(()));
    control_plane.kubectl(&["set", "image", "-n", NAMESPACE, "daemonset/agent", "agent=agent:4"]);
    let output = client.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("the template of overwritten/agent was changed; this run has stopped"), "{errors}");
    assert_eq!(image(), "agent:4");
}
