//! Coverage agrees with the control plane, for every node of every DaemonSet.

use std::fs;

use serde_json::{Value, json};

use crate::support::agreement::{World, disagreements, pods_left_behind, status_disagreements, unmet};
use crate::support::faulty_cluster::{
    FaultyCluster, STALE, Settled, can_be_had, coverage, coverage_with, expectations, faulty_cluster, items,
};
use crate::support::say;

/// The DaemonSet that is being deleted: the controller does not look at it any more.
const DELETING: &str = "lab/leaving";

#[test]
fn every_node_is_reported_as_the_control_plane_left_it() {
    let settled = faulty_cluster().settled;
    let world = World::new(&settled.items);
    let wrong = disagreements(&settled.report, &world);
    assert!(wrong.is_empty(), "{} disagreements:\n{}", wrong.len(), wrong.join("\n"));
    let daemon_sets = settled.report["daemonSets"].as_array().unwrap();
    let nodes: usize = daemon_sets.iter().map(|one| one["nodes"].as_array().unwrap().len()).sum();
    say(&format!("{nodes} nodes of {} DaemonSets agree with the control plane", daemon_sets.len()));
}

#[test]
fn every_trouble_is_named() {
    let wrong = unmet(&faulty_cluster().settled.report, expectations());
    assert!(wrong.is_empty(), "{} are unmet:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_stale_status_is_told_from_the_truth() {
    if !can_be_had(STALE) {
        return say(&format!("a_stale_status_is_told_from_the_truth: left out, {STALE} cannot be had"));
    }
    let settled = faulty_cluster().settled;
    // Its node lost the label, and the controller does not look at nodes whose pod is not bound.
    let daemon_sets = settled.report["daemonSets"].as_array().unwrap();
    let rack_lights = daemon_sets.iter().find(|one| name(one) == STALE).unwrap();
    assert_eq!(rack_lights["counters"]["agrees"], false, "{rack_lights}");
    let difference = json!({"field": "desiredNumberScheduled", "status": 1, "recomputed": 0});
    assert!(rack_lights["counters"]["differences"].as_array().unwrap().contains(&difference), "{rack_lights}");
}

#[test]
fn a_dump_and_the_cluster_that_it_was_taken_of_give_the_same_report() {
    let cluster = faulty_cluster();
    // Ages count from now, and events come at any time.
    let (items, mut live) = cluster.wait_until("not even an event comes for a moment", || {
        let before = items(&cluster);
        let live = coverage(&cluster);
        (without_leases(&before) == without_leases(&items(&cluster))).then_some((before, live))
    });
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("dump.json");
    // Of a list without objects of a kind nothing follows; one shows that there are no others.
    let other = |version: &str, kind: &str, spec: Value| {
        let metadata = json!({"name": "other.example.com", "namespace": "other"});
        json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec, "provisioner": "other.example.com"})
    };
    let (storage, resource) = ("storage.k8s.io/v1", "resource.k8s.io/v1");
    let others = vec![
        other(resource, "DeviceClass", json!({})),
        other(resource, "ResourceClaim", json!({})),
        other(resource, "ResourceClaimTemplate", json!({})),
        other(resource, "ResourceSlice", json!({})),
        other("v1", "PersistentVolumeClaim", json!({})),
        other("v1", "PersistentVolume", json!({})),
        other(storage, "StorageClass", json!({})),
        other(storage, "CSINode", json!({"drivers": []})),
        other(storage, "CSIDriver", json!({})),
        other(storage, "CSIStorageCapacity", json!({})),
        other(storage, "VolumeAttachment", json!({"attacher": "other.example.com", "nodeName": "other", "source": {}})),
    ];
    let kinds = "persistentvolumeclaims,persistentvolumes,storageclasses,csinodes,csidrivers,csistoragecapacities,volumeattachments,\
                 deviceclasses,resourceclaims,resourceclaimtemplates,resourceslices";
    // Those that matter are read from the cluster: which annotation adds a node selector, and which claims there are.
    let items = [items, others, cluster.items(&["namespaces"]), cluster.items(&[kinds, "-A"])].concat();
    fs::write(&dump, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
    let mut from_dump = coverage_with(&["--from", dump.to_str().unwrap(), "--now", live["now"].as_str().unwrap()]);
    [&mut live, &mut from_dump].into_iter().for_each(without_origin);
    let daemon_sets = live["daemonSets"].as_array().unwrap().iter().zip(from_dump["daemonSets"].as_array().unwrap());
    for (live, from_dump) in daemon_sets {
        assert_eq!(live, from_dump);
    }
    assert_eq!(live, from_dump);
}

/// Leaves out what is renewed every two seconds, which is more often than a busy machine reads a
/// cluster twice; a report tells only whether it has expired.
fn without_leases(items: &[Value]) -> Vec<&Value> {
    items.iter().filter(|item| item["kind"] != "Lease").collect()
}

/// Changes every DaemonSet in a way that makes the controller sync it and nothing else, so that
/// every status is right, and holds what is recomputed against it.
#[test]
fn recomputed_counters_are_those_of_a_controller_that_has_just_synced() {
    let cluster = faulty_cluster();
    sync_all(&cluster);
    let settled = Settled::at_once(&cluster);
    let world = World::new(&settled.items);
    let mut report = settled.report.clone();
    report["daemonSets"].as_array_mut().unwrap().retain(|one| name(one) != DELETING);

    let wrong = [
        disagreements(&settled.report, &world),
        status_disagreements(&report, &world),
        pods_left_behind(&report, &world),
    ]
    .concat();
    assert!(wrong.is_empty(), "{} disagreements:\n{}", wrong.len(), wrong.join("\n"));
    for one in report["daemonSets"].as_array().unwrap() {
        assert_eq!(one["counters"]["agrees"], true, "{}: {}", name(one), one["counters"]);
    }
}

/// Raises every DaemonSet's generation without touching its template, and waits until the
/// controller has seen it.
fn sync_all(cluster: &FaultyCluster) {
    let daemon_sets = cluster.items(&["daemonsets", "-A"]);
    for one in daemon_sets.iter().filter(|one| name(&one["metadata"]) != DELETING) {
        let (namespace, name) =
            (one["metadata"]["namespace"].as_str().unwrap(), one["metadata"]["name"].as_str().unwrap());
        let limit = one["spec"]["revisionHistoryLimit"].as_i64().unwrap() + 1;
        let patch = json!({"spec": {"revisionHistoryLimit": limit}}).to_string();
        cluster.kubectl(&["patch", "daemonset", name, "-n", namespace, "--type=merge", "-p", &patch]);
    }
    cluster.wait_until("every DaemonSet is synced", || {
        let daemon_sets = cluster.items(&["daemonsets", "-A"]);
        daemon_sets
            .iter()
            .filter(|one| name(&one["metadata"]) != DELETING)
            .all(|one| one["metadata"]["generation"] == one["status"]["observedGeneration"])
            .then_some(())
    });
}

/// Returns namespace and name, with a slash between.
fn name(one: &Value) -> String {
    format!("{}/{}", one["namespace"].as_str().unwrap(), one["name"].as_str().unwrap())
}

/// Removes from suggested commands what leads back to where the report comes from.
fn without_origin(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(advice)) = fields.get_mut("advice") {
                *advice = advice.replace(" (current context, not the dump)", "");
            }
            if let Some(Value::String(command)) = fields.get_mut("command") {
                let mut words = command.split(' ').map(str::to_owned).collect::<Vec<_>>();
                while let Some(at) =
                    words.iter().position(|word| ["--kubeconfig", "--from", "--now"].contains(&&**word))
                {
                    words.drain(at..at + 2);
                }
                // Those of the cluster are shown by kubectl: a dump may have none.
                let shows_log = words.iter().take(3).any(|word| word == "logs");
                *command = if shows_log { "logs".to_owned() } else { words.join(" ") };
            }
            fields.values_mut().for_each(without_origin);
        }
        Value::Array(items) => items.iter_mut().for_each(without_origin),
        _ => {}
    }
}
