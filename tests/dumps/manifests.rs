use kubectl_ds::cluster::manifest::read_daemon_set;
use kubectl_ds::error::CommandError;
use kubectl_ds::model::daemon_set::DaemonSet;
use serde_json::{Value, json};

use super::{daemon_set, list};

const MANIFEST: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: agent}
data: {a: b}
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: agent
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers:
      - {name: agent, image: 'agent:1'}
      volumes:
      - {name: v, configMap: {name: agent, defaultMode: 0644}}
";

fn read(text: &str, namespace: Option<&str>) -> Result<DaemonSet, String> {
    read_daemon_set("-", &mut text.as_bytes(), namespace, "fallback")
        .map_err(|error| CommandError::from(error).to_string())
}

fn complaint(object: &Value) -> String {
    read(&object.to_string(), None).unwrap_err()
}

#[test]
fn the_daemon_set_is_found_beside_its_config_map() {
    let found = read(MANIFEST, None).unwrap();
    assert_eq!((found.metadata.namespace.as_str(), found.metadata.name.as_str()), ("fallback", "agent"));
    assert_eq!(found.object["metadata"]["namespace"], "fallback");
    assert_eq!(found.object.pointer("/spec/template/spec/volumes/0/configMap/defaultMode"), Some(&json!(420)));
    assert_eq!(
        read(&list(&[json!({"kind": "Secret"}), daemon_set("x", "agent")]).to_string(), None).unwrap().metadata.name,
        "agent"
    );
}

#[test]
fn the_namespace_is_the_manifests_own_unless_it_has_none() {
    assert_eq!(read(MANIFEST, Some("asked")).unwrap().metadata.namespace, "asked");
    let own = daemon_set("x", "agent").to_string();
    assert_eq!(read(&own, None).unwrap().metadata.namespace, "x");
    assert_eq!(read(&own, Some("x")).unwrap().metadata.namespace, "x");
    assert_eq!(
        read(&own, Some("y")).unwrap_err(),
        "standard input: its DaemonSet is of namespace \"x\", and \"y\" is asked for\nhint: pass `-n x`, or leave -n out"
    );
}

#[test]
fn a_manifest_with_none_or_several_says_what_it_holds() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    assert_eq!(
        complaint(&list(&[map.clone(), map.clone()])),
        "standard input: holds no DaemonSet of apps/v1, only ConfigMap (2)\nhint: give the manifest of one DaemonSet"
    );
    assert_eq!(
        complaint(&json!({"a": 1})),
        "standard input: holds no DaemonSet, nor any other Kubernetes object\nhint: give the manifest of one DaemonSet"
    );
    assert_eq!(
        complaint(&list(&[daemon_set("x", "agent"), map, daemon_set("", "proxy")])),
        "standard input: holds 2 DaemonSets: x/agent, proxy\nhint: give a manifest with one of them"
    );
    let mut other = daemon_set("x", "agent");
    other["metadata"].as_object_mut().unwrap().remove("name");
    assert_eq!(complaint(&other), "standard input: its DaemonSet has no metadata.name");
}

#[test]
fn other_versions_are_named() {
    let version = |version: &str| {
        let mut object = daemon_set("x", "agent");
        object["apiVersion"] = json!(version);
        complaint(&object)
    };
    assert_eq!(
        version("extensions/v1beta1"),
        "standard input: holds no DaemonSet of apps/v1, only extensions/v1beta1 DaemonSet (1)\n\
         hint: that version is no longer served: write `apiVersion: apps/v1`"
    );
    assert_eq!(
        version("apps.kruise.io/v1alpha1"),
        "standard input: holds no DaemonSet of apps/v1, only apps.kruise.io/v1alpha1 DaemonSet (1)\n\
         hint: only DaemonSets of `apps/v1` are understood"
    );
    assert_eq!(
        version(""),
        "standard input: holds no DaemonSet of apps/v1, only DaemonSet (1)\nhint: write `apiVersion: apps/v1` into it"
    );
}

#[test]
fn what_the_api_would_refuse_is_refused() {
    let with = |pointer: &str, value: Value| {
        let mut object = daemon_set("x", "agent");
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value;
        complaint(&object)
    };
    for (pointer, value, problem) in [
        ("/spec/selector", json!(null), "spec.selector is required"),
        ("/spec/selector", json!({}), "spec.selector is empty"),
        (
            "/spec/selector",
            json!({"matchLabels": {"app": "b"}}),
            "spec.selector does not match the labels of spec.template",
        ),
        ("/spec/template/spec/containers", json!([]), "spec.template.spec.containers is required"),
        ("/spec/template/spec/restartPolicy", json!("Never"), "spec.template.spec.restartPolicy can only be Always"),
        (
            "/spec/template/spec/activeDeadlineSeconds",
            json!(1),
            "spec.template.spec.activeDeadlineSeconds is not allowed",
        ),
        ("/spec/minReadySeconds", json!(-1), "spec.minReadySeconds is negative"),
        (
            "/spec/updateStrategy",
            json!({"type": "Recreate"}),
            "spec.updateStrategy.type is neither RollingUpdate nor OnDelete",
        ),
        (
            "/spec/updateStrategy",
            json!({"rollingUpdate": {"maxSurge": 1}}),
            "maxSurge may not be set when maxUnavailable is not 0 (it is 1 where it is left out)",
        ),
        (
            "/spec/updateStrategy",
            json!({"rollingUpdate": {"maxUnavailable": 0}}),
            "maxUnavailable cannot be 0 when maxSurge is 0",
        ),
        (
            "/spec/updateStrategy",
            json!({"rollingUpdate": {"maxUnavailable": "150%"}}),
            "maxUnavailable is neither a count nor a percentage up to 100%",
        ),
    ] {
        assert_eq!(
            with(pointer, value),
            format!(
                "standard input: the DaemonSet \"agent\" is invalid: {problem}\n\
                 hint: the API server would refuse it too; `kubectl apply --dry-run=server` checks everything"
            )
        );
    }
    assert_eq!(
        with("/spec/minReadySeconds", json!("soon")),
        "standard input: DaemonSet \"agent\" cannot be read: invalid type: string \"soon\", expected i64"
    );
}

#[test]
fn a_manifest_that_is_no_text_of_kubernetes_says_so() {
    assert_eq!(
        read("{\"kind\": ", None).unwrap_err(),
        "standard input: the JSON breaks off at line 1, column 9: the file is truncated\n\
         hint: copy the file again, or make the dump again"
    );
    assert_eq!(
        read("a: &a [x]\nb: [*a, *missing]\n", None).unwrap_err(),
        "standard input: reference to unknown value at line 2, column 9"
    );
}
