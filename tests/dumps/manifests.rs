use jiff::Timestamp;
use kubectl_ds::cluster::manifest::{Manifest, read_daemon_sets};
use kubectl_ds::model::daemon_set::DaemonSet;
use kubectl_ds::model::snapshot::Snapshot;
use serde_json::{Value, json};

use super::{daemon_set, list};
use crate::support::random::Random;
use crate::support::shown;
use crate::support::template_generator::{Taste, template};

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
    let manifest = all(text, namespace)?.remove(0);
    let validated = manifest.validate(manifest.object().clone(), &Snapshot::empty(Timestamp::UNIX_EPOCH));
    validated.map(|(daemon_set, _)| daemon_set).map_err(shown)
}

fn all(text: &str, namespace: Option<&str>) -> Result<Vec<Manifest>, String> {
    read_daemon_sets(&["-".to_owned()], &mut text.as_bytes(), namespace, "fallback")
        .map(|manifests| manifests.daemon_sets)
        .map_err(shown)
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
        "standard input: its DaemonSet has namespace \"x\", but \"y\" is requested\nhint: omit -n, or use: -n x"
    );
}

#[test]
fn a_manifest_without_a_daemon_set_says_what_it_has() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    assert_eq!(
        complaint(&list(&[map.clone(), map])),
        "standard input: has no DaemonSet of apps/v1, only ConfigMap (2)\nhint: -f takes manifests of DaemonSets"
    );
    assert_eq!(
        complaint(&json!({"a": 1})),
        "standard input: has no Kubernetes object\nhint: -f takes manifests of DaemonSets"
    );
    let mut other = daemon_set("x", "agent");
    other["metadata"].as_object_mut().unwrap().remove("name");
    assert_eq!(complaint(&other), "standard input: its DaemonSet has no metadata.name");
}

/// A chart may have a pod that tests it, and another product a kind that is called Node.
#[test]
fn a_dump_is_told_from_a_manifest_by_what_a_cluster_has_stored() {
    let warnings = |metadata: Value| {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
        let text = list(&[daemon_set("x", "agent"), pod]).to_string();
        read_daemon_sets(&["-".to_owned()], &mut text.as_bytes(), None, "fallback").unwrap().warnings
    };
    let test = json!({"name": "agent-test", "annotations": {"helm.sh/hook": "test"}});
    assert_eq!(warnings(test), [""; 0]);
    assert_eq!(warnings(json!({"name": "agent-x", "uid": "u"})).len(), 1);
}

#[test]
fn of_a_key_that_is_given_twice_the_last_value_counts_and_there_is_a_warning() {
    let text = MANIFEST.replace("  name: agent\n", "  name: agent\n  name: agent-2\n");
    let read = read_daemon_sets(&["-".to_owned()], &mut text.as_bytes(), None, "fallback").unwrap();
    assert_eq!(read.daemon_sets[0].name(), "agent-2");
    assert_eq!(
        read.warnings,
        [
            "standard input: duplicate mapping key: name not allowed here at line 11, column 3; kubectl accepts it, and the last one \
          counts"
        ]
    );
    assert_eq!(read.others.len(), 1);
}

#[test]
fn every_daemon_set_of_several_documents_is_read() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    let text = list(&[daemon_set("x", "agent"), map, daemon_set("", "proxy")]).to_string();
    let found = all(&format!("---\n{text}\n---\n{}", daemon_set("y", "dns")), None).unwrap();
    let names: Vec<_> = found.iter().map(|manifest| (manifest.namespace(), manifest.name())).collect();
    assert_eq!(names, [("x", "agent"), ("fallback", "proxy"), ("y", "dns")]);
}

/// As `kubectl get --raw` prints them, of which the items lack what the list says.
#[test]
fn the_items_of_typed_lists_are_read() {
    let bare = |name: &str| {
        let mut object = daemon_set("x", name);
        object.as_object_mut().unwrap().retain(|field, _| field != "kind" && field != "apiVersion");
        object
    };
    let typed =
        |version: &str, kind: &str, items: Vec<Value>| json!({"apiVersion": version, "kind": kind, "items": items});
    let map = json!({"metadata": {"name": "m", "namespace": "x"}});
    for (lists, names) in [
        (vec![typed("apps/v1", "DaemonSetList", vec![bare("a"), bare("b")])], vec!["a", "b"]),
        (vec![typed("apps/v1", "DaemonSetList", vec![daemon_set("x", "a"), bare("b")])], vec!["a", "b"]),
        (vec![typed("v1", "List", vec![daemon_set("x", "a")])], vec!["a"]),
        (vec![typed("v1", "ConfigMapList", vec![map.clone()]), daemon_set("x", "a")], vec!["a"]),
        (vec![typed("apps/v1", "DaemonSetList", Vec::new()), daemon_set("x", "a")], vec!["a"]),
        (vec![typed("apps/v1", "DaemonSetList", vec![bare("a")]), typed("v1", "ConfigMapList", vec![map])], vec!["a"]),
    ] {
        let text: Vec<_> = lists.iter().map(Value::to_string).collect();
        let read = read_daemon_sets(&["-".to_owned()], &mut text.join("\n---\n").as_bytes(), None, "fallback").unwrap();
        assert_eq!(read.daemon_sets.iter().map(Manifest::name).collect::<Vec<_>>(), names, "{lists:?}");
        let has_map = lists.iter().any(|list| list["kind"] == "ConfigMapList");
        assert_eq!(read.other("ConfigMap", "x", "m").is_some(), has_map);
    }
    // Of the old version nothing is taken for one of apps/v1.
    let old = typed("extensions/v1beta1", "DaemonSetList", vec![bare("a")]);
    assert!(complaint(&old).contains("extensions/v1beta1 DaemonSet (1)"));
}

#[test]
fn the_manifests_of_a_directory_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("b.json", &daemon_set("x", "agent").to_string());
    write("a.yml", MANIFEST);
    write("kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n");
    write("README.md", "not YAML: [");
    std::fs::create_dir(folder.path().join("base")).unwrap();
    write("base/c.yaml", MANIFEST);
    let path = folder.path().to_str().unwrap().to_owned();
    let found = read_daemon_sets(&[path], &mut std::io::empty(), None, "fallback").unwrap().daemon_sets;
    let namespaces: Vec<_> = found.iter().map(Manifest::namespace).collect();
    assert_eq!(namespaces, ["fallback", "x"]);
    let path = folder.path().join("kustomization.yaml").to_str().unwrap().to_owned();
    let error = read_daemon_sets(&[path], &mut std::io::empty(), None, "fallback").unwrap_err();
    assert!(error.hints()[0].advice.contains("pipe the output of `kubectl kustomize DIR` into -f -"), "{error:?}");
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
        "standard input: has no DaemonSet of apps/v1, only extensions/v1beta1 DaemonSet (1)\n\
         hint: that version is no longer served: write `apiVersion: apps/v1`"
    );
    assert_eq!(
        version("apps.kruise.io/v1alpha1"),
        "standard input: has no DaemonSet of apps/v1, only apps.kruise.io/v1alpha1 DaemonSet (1)\n\
         hint: only DaemonSets of `apps/v1` are understood"
    );
    assert_eq!(
        version(""),
        "standard input: has no DaemonSet of apps/v1, only DaemonSet (1)\nhint: write `apiVersion: apps/v1` into it"
    );
}

/// Returns the complaint about a DaemonSet with a field set to a value.
fn complaint_about(pointer: &str, value: Value) -> String {
    let mut object = daemon_set("x", "agent");
    object["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80}]);
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    complaint(&object)
}

#[test]
fn what_would_make_a_preview_wrong_is_rejected_with_the_path_of_its_field() {
    let container = "/spec/template/spec/containers/0";
    for (pointer, value, path) in [
        ("/spec/selector", json!(null), "spec.template.metadata.labels: Invalid"),
        ("/spec/selector", json!({}), "spec.selector: Invalid"),
        ("/spec/selector", json!({"matchLabels": {"app": "b"}}), "spec.template.metadata.labels: Invalid"),
        ("/spec/template/spec/containers", json!([]), "spec.template.spec.containers: Required"),
        ("/spec/minReadySeconds", json!(1.5), "spec.minReadySeconds: Invalid value: 1.5: must be a 32-bit integer"),
        ("/spec/updateStrategy", json!({"type": "Recreate"}), "spec.updateStrategy: Unsupported"),
        ("/spec/updateStrategy", json!({"rollingUpdate": {"maxSurge": 1}}), "rollingUpdate.maxSurge: Invalid"),
        ("/spec/updateStrategy", json!({"rollingUpdate": {"maxUnavailable": 0}}), "maxUnavailable: Required"),
        ("/spec/updateStrategy", json!({"rollingUpdate": {"maxUnavailable": "150%"}}), "maxUnavailable: Invalid"),
        (
            "/spec/template/spec/nodeSelectr",
            json!({"disk": "ssd"}),
            "unknown field \"spec.template.spec.nodeSelectr\" (did you mean \"nodeSelector\"?)",
        ),
        (
            &format!("{container}/ports/0/hostPrt"),
            json!(80),
            "unknown field \"spec.template.spec.containers[0].ports[0].hostPrt\" (did you mean \"hostPort\"?)",
        ),
        ("/spec/template/spec/nodeSelector", json!({"disk": true}), "spec.template.spec.nodeSelector[disk]: Invalid"),
        (
            &format!("{container}/resources"),
            json!({"requests": {"memory": "30Gigs"}}),
            "spec.template.spec.containers[0].resources.requests[memory]: Invalid value: \"30Gigs\"",
        ),
        (
            &format!("{container}/resources"),
            json!({"limits": {"memory": "12GB"}}),
            "spec.template.spec.containers[0].resources.limits[memory]: Invalid value: \"12GB\"",
        ),
        (&format!("{container}/image"), json!(""), "spec.template.spec.containers[0].image: Required"),
    ] {
        let complaint = complaint_about(pointer, value);
        assert!(complaint.contains(path), "{pointer}: {path}: {complaint}");
    }
}

#[test]
fn daemon_sets_of_a_real_cluster_are_valid() {
    let cluster = crate::recorded::items();
    let daemon_sets: Vec<&Value> = cluster.iter().filter(|object| object["kind"] == "DaemonSet").collect();
    assert!(daemon_sets.len() > 60, "{}", daemon_sets.len());
    // One of them has what only a disabled feature allows: the server that has stored it accepts it.
    let mut refused = 0;
    for object in daemon_sets {
        let manifest = all(&object.to_string(), None).unwrap().remove(0);
        let mut snapshot = Snapshot::empty(Timestamp::UNIX_EPOCH);
        refused += usize::from(manifest.validate(object.clone(), &snapshot).is_err());
        snapshot.daemon_sets.push(DaemonSet::from_object(object.clone()).unwrap());
        if let Err(complaint) = manifest.validate(object.clone(), &snapshot) {
            panic!("{}", shown(complaint));
        }
    }
    assert_eq!(refused, 1);
}

#[test]
fn values_that_the_api_server_converts_are_valid() {
    for (field, value) in [
        // Defaults are filled in for an empty value, and a negative grace period becomes 1.
        ("restartPolicy", json!("")),
        ("dnsPolicy", json!("")),
        ("terminationGracePeriodSeconds", json!(-1)),
        // kubectl sends 1000.0 as 1000.
        ("securityContext", json!({"runAsUser": 1000.0})),
        ("terminationGracePeriodSeconds", json!(30.0)),
        ("containers", json!([{"name": "a", "image": "a", "resources": {"limits": {"memory": " 1Gi ", "cpu": 1.0}}}])),
        ("readinessGates", json!(null)),
        ("dnsConfig", json!({"options": [{"name": "edns0", "value": null}]})),
        ("tolerations", json!([{"operator": "Exists", "key": ""}, {"key": "a"}])),
    ] {
        let mut object = daemon_set("x", "agent");
        object["spec"]["template"]["spec"][field] = value.clone();
        if let Err(complaint) = read(&object.to_string(), None) {
            panic!("{field}: {value}: {complaint}");
        }
    }
}

#[test]
fn templates_that_the_api_server_can_decode_have_no_misspelled_fields() {
    let mut random = Random::new(36);
    let mut object = daemon_set("x", "agent");
    for _ in 0..300 {
        object["spec"]["template"] = template(&mut random, Taste::Readable);
        let complaint = read(&object.to_string(), None).err().unwrap_or_default();
        for problem in ["unknown field", "must be a quantity"] {
            assert!(!complaint.contains(problem), "{complaint}: {object}");
        }
    }
}

#[test]
fn a_manifest_that_is_no_text_of_kubernetes_says_so() {
    assert_eq!(
        read("{\"kind\": ", None).unwrap_err(),
        "standard input: the JSON breaks off at line 1, column 9: the file is truncated\n\
         hint: copy the file again"
    );
    assert_eq!(
        read("a: &a [x]\nb: [*a, *missing]\n", None).unwrap_err(),
        "standard input: reference to unknown value at line 2, column 9"
    );
}
