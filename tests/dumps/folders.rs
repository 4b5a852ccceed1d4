use std::fs;
use std::path::Path;

use kubectl_ds::cluster::error::ClusterError;
use kubectl_ds::cluster::file::Reading;
use kubectl_ds::model::snapshot::{Kind, PodsComplete};
use serde_json::{Value, json};

use super::{daemon_set, node, open, pod, untyped};
use crate::support::shown;

fn write(folder: &Path, files: &[(&str, String)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn read(folder: &Path) -> Result<Reading, ClusterError> {
    open(folder.to_str().unwrap(), &mut std::io::empty(), None)
}

pub fn typed_list(kind: &str, api_version: &str, items: &[Value]) -> String {
    let items: Vec<_> = items.iter().cloned().map(untyped).collect();
    json!({"kind": kind, "apiVersion": api_version, "metadata": {}, "items": items}).to_string()
}

#[test]
fn the_folder_of_cluster_info_dump_is_read() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        &[
            ("nodes.json", typed_list("NodeList", "v1", &[node("a"), node("b")])),
            (
                "kube-system/daemonsets.json",
                typed_list("DaemonSetList", "apps/v1", &[daemon_set("kube-system", "cni")]),
            ),
            ("kube-system/pods.json", typed_list("PodList", "v1", &[pod("kube-system", "cni-1", "DaemonSet")])),
            ("kube-system/events.json", typed_list("EventList", "v1", &[])),
            ("kube-system/cni-1/logs.txt", "{ no json".to_owned()),
            ("default/daemonsets.json", typed_list("DaemonSetList", "apps/v1", &[daemon_set("default", "agent")])),
            ("default/pods.json", typed_list("PodList", "v1", &[])),
        ],
    );
    let dump = read(folder.path()).unwrap();
    let snapshot = &dump.snapshot;
    assert_eq!((snapshot.daemon_sets.len(), snapshot.nodes.len(), snapshot.pods.len()), (2, 2, 1));
    assert_eq!(dump.warnings, Vec::<String>::new());
    assert_eq!(snapshot.gap(Kind::Events, "default"), None);
    assert_eq!(snapshot.gap(Kind::Pods, "default"), None, "an empty list is no gap");
    assert_eq!(snapshot.pods_complete, PodsComplete::On([].into()), "only two namespaces were dumped");

    write(folder.path(), &[("kube-node-lease/pods.json", typed_list("PodList", "v1", &[]))]);
    assert_eq!(read(folder.path()).unwrap().snapshot.pods_complete, PodsComplete::Everywhere);
}

#[test]
fn the_folder_of_must_gather_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = |value: &Value| format!("---\n{}", serde_saphyr::to_string(value).unwrap());
    let events = json!({"apiVersion": "v1", "kind": "EventList", "items": [
        {"metadata": {"name": "e", "namespace": "x"}, "reason": "FailedCreate", "lastTimestamp": "2026-11-20T11:00:00Z"}]});
    write(
        folder.path(),
        &[
            ("cluster-scoped-resources/core/nodes/a.yaml", yaml(&node("a"))),
            (
                "namespaces/x/apps/daemonsets.yaml",
                yaml(&json!({"apiVersion": "apps/v1", "kind": "DaemonSetList",
                "items": [untyped(daemon_set("x", "agent"))]})),
            ),
            ("namespaces/x/pods/agent-1/agent-1.yaml", yaml(&pod("x", "agent-1", "DaemonSet"))),
            ("namespaces/x/pods/agent-1/c/c/logs/current.log", "\u{1}\n".to_owned()),
            ("namespaces/x/core/events.yaml", yaml(&events)),
            ("namespaces/x/x.yaml", yaml(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}))),
            ("metrics.json", "[1, 2]".to_owned()),
            ("version", "v1".to_owned()),
        ],
    );
    let dump = read(folder.path()).unwrap();
    let snapshot = &dump.snapshot;
    assert_eq!((snapshot.daemon_sets.len(), snapshot.nodes.len(), snapshot.pods.len()), (1, 1, 1));
    assert_eq!((snapshot.events.len(), snapshot.now.to_string().as_str()), (1, "2026-11-20T11:00:00Z"));
    assert_eq!(dump.warnings, Vec::<String>::new());
}

#[test]
fn a_broken_file_of_a_folder_is_named_and_the_others_count() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[("a.json", daemon_set("x", "agent").to_string()), ("b.json", "{\n\"kind\"".to_owned())]);
    let dump = read(folder.path()).unwrap();
    assert_eq!(dump.snapshot.daemon_sets.len(), 1);
    let broken = folder.path().join("b.json");
    let warning = format!("{}: the JSON breaks off at line 2, column 6: the file is truncated", broken.display());
    assert_eq!(dump.warnings[0], warning);
    let error = open(broken.to_str().unwrap(), &mut std::io::empty(), None).unwrap_err();
    assert_eq!(error.to_string(), warning, "named itself, it is an error");
}

#[test]
fn a_folder_without_objects_says_so() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[("readme.txt", "hello".to_owned())]);
    let error = shown(read(folder.path()).unwrap_err());
    assert!(error.starts_with(&format!("{}: has no Kubernetes objects\nhint: ", folder.path().display())), "{error}");
    let missing = folder.path().join("missing.json");
    assert_eq!(read(&missing).unwrap_err().to_string(), format!("{}: no such file or directory", missing.display()));
}

#[test]
fn a_list_that_breaks_off_in_one_file_of_a_folder_is_not_taken_for_all_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let pods: Vec<String> = ["agent-1", "agent-2"].map(|name| pod("x", name, "DaemonSet").to_string()).into();
    let pods = format!(r#"{{"kind":"PodList","apiVersion":"v1","items":[{}]}}"#, pods.join(","));
    write(
        folder.path(),
        &[
            ("nodes.json", typed_list("NodeList", "v1", &[node("a"), node("b")])),
            ("x/daemonsets.json", typed_list("DaemonSetList", "apps/v1", &[daemon_set("x", "agent")])),
            ("x/pods.json", pods[..pods.len() - 10].to_owned()),
            ("kube-public/pods.json", typed_list("PodList", "v1", &[])),
        ],
    );
    let Reading { snapshot, warnings, .. } = read(folder.path()).unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(snapshot.pods.len(), 1);
    assert!(snapshot.gap(Kind::Pods, "x").is_some());
    assert_eq!(snapshot.gap(Kind::Nodes, ""), None);
    assert_eq!(snapshot.pods_complete, PodsComplete::On([].into()));
}

/// A dump that says what it was read for: see `Header`.
fn whole(namespace: Option<&str>, items: &[Value]) -> String {
    let kinds = ["daemonsets", "nodes", "pods"];
    let header = json!({"tool": "test", "takenAt": "2026-11-20T09:00:00Z", "namespace": namespace, "kinds": kinds,
        "pods": "everywhere"});
    json!({"apiVersion": "v1", "kind": "List", "snapshot": header, "items": items}).to_string()
}

fn with_uid(uid: &str, mut object: Value) -> Value {
    object["metadata"]["uid"] = json!(uid);
    object
}

#[test]
fn dumps_of_different_clusters_are_not_read_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let dump = |uid: &str, name: &str| {
        whole(Some(name), &[with_uid(uid, node("a")), with_uid(&format!("{uid}-{name}"), daemon_set(name, "x"))])
    };
    write(folder.path(), &[("one.json", dump("u", "one")), ("two.json", dump("u", "two"))]);
    assert_eq!(read(folder.path()).unwrap().snapshot.daemon_sets.len(), 2, "they have a node in common");
    write(folder.path(), &[("other.json", dump("v", "other"))]);
    let said = shown(read(folder.path()).unwrap_err());
    assert!(said.contains("has dumps of different clusters: "), "{said}");
    assert!(
        said.contains("one.json and ") && said.contains("other.json\nhint: give the path of one of them"),
        "{said}"
    );
}

#[test]
fn nodes_and_pods_that_a_status_counts_and_a_dump_lacks_were_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let gaps = |status: Value| {
        let mut agent = daemon_set("default", "agent");
        agent["status"] = status;
        write(folder.path(), &[("dump.json", whole(None, &[agent]))]);
        let snapshot = read(folder.path()).unwrap().snapshot;
        [Kind::Nodes, Kind::Pods].map(|kind| snapshot.gap(kind, "default").is_some())
    };
    assert_eq!(gaps(json!({"desiredNumberScheduled": 2, "currentNumberScheduled": 2})), [true, true]);
    assert_eq!(gaps(json!({"desiredNumberScheduled": 2})), [true, false]);
    assert_eq!(gaps(json!({"desiredNumberScheduled": 0})), [false, false]);
}

#[test]
fn the_time_and_the_namespace_of_a_dump_are_known_if_it_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let known = |text: String| {
        write(folder.path(), &[("dump.json", text)]);
        let snapshot = read(folder.path()).unwrap().snapshot;
        (snapshot.is_now_estimated, snapshot.only_namespace)
    };
    let of = |namespaces: &[&str]| namespaces.iter().map(|name| daemon_set(name, "agent")).collect::<Vec<_>>();
    assert_eq!(known(whole(None, &of(&["a"]))), (false, None));
    assert_eq!(known(whole(Some("a"), &of(&["a"]))), (false, Some("a".to_owned())));
    // What kubectl writes says nothing: it may be all that there is of one namespace.
    assert_eq!(known(typed_list("DaemonSetList", "apps/v1", &of(&["a"]))), (true, Some("a".to_owned())));
    assert_eq!(known(typed_list("DaemonSetList", "apps/v1", &of(&["a", "b"]))), (true, None));
}

#[test]
fn quotas_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "default"},
        "status": {"hard": {"pods": "4"}, "used": {"pods": "4"}}});
    write(folder.path(), &[("dump.json", whole(None, &[daemon_set("default", "agent"), quota]))]);
    let quotas = read(folder.path()).unwrap().snapshot.resource_quotas;
    assert_eq!(quotas[0].status.hard["pods"].text.to_string(), "4");
}
