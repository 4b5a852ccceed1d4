//! Claims, volumes and what attaches them, and claims to devices: they are read only if a pod without a node has some, and what is forbidden is unknown.

use std::collections::BTreeMap;

use kubectl_ds::model::metadata::OwnerReference;
use kubectl_ds::model::pod::Pod;
use serde_json::{Value, json};

use super::server::{Asked, Reply, Server};
use super::{JSON, cluster, daemon_set, json_list, pod, protobuf_list, refusal};
use crate::screens::{end, kubectl_ds};

const STORAGE: [&str; 7] = [
    "persistentvolumeclaims",
    "persistentvolumes",
    "storageclasses",
    "csinodes",
    "csidrivers",
    "csistoragecapacities",
    "volumeattachments",
];

const DEVICES: [&str; 4] = ["resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses"];

/// The DaemonSet `agent` lacks a pod on one of two nodes; its pods have this spec.
fn lacking(asked: &Asked, spec: &Value, desired: usize) -> Reply {
    let mut agent = daemon_set("agent");
    agent["spec"]["template"]["spec"] = spec.clone();
    agent["status"] = json!({"desiredNumberScheduled": desired});
    match asked.path() {
        path if path.ends_with("/daemonsets/agent") => Reply::of(200, JSON, agent.to_string()),
        path if path.ends_with("/daemonsets") => json_list(path, &[agent]),
        path if path.ends_with("/pods") => protobuf_list("PodList", &[claimed()], ""),
        path if is_on_demand(path) => json_list(path, &[]),
        _ => cluster(asked),
    }
}

/// The pod of `agent` that its controller counts.
fn claimed() -> Pod {
    let mut pod = pod("agent-a", "agent", "n1");
    pod.metadata.labels = BTreeMap::from([("app".to_owned(), "agent".to_owned())]).into();
    let uid = "uid-of-agent".to_owned();
    let owner = OwnerReference {
        kind: "DaemonSet".to_owned(),
        name: "agent".to_owned(),
        uid,
        controller: true,
        ..OwnerReference::default()
    };
    pod.metadata.owner_references = vec![owner].into();
    pod
}

fn is_on_demand(path: &str) -> bool {
    STORAGE.iter().chain(&DEVICES).any(|resource| path.ends_with(resource))
}

/// Pods that share a claim to a volume, and pods that share one to devices, with what is read for them.
fn claiming() -> [(Value, &'static [&'static str]); 2] {
    let volume = json!({"volumes": [{"name": "db", "persistentVolumeClaim": {"claimName": "db"}}]});
    let device = json!({"resourceClaims": [{"name": "nic", "resourceClaimName": "nic"}]});
    [(volume, &STORAGE), (device, &DEVICES)]
}

fn coverage(server: &Server) -> Value {
    let address = format!("http://{}", server.address);
    let ended = end(kubectl_ds(&["coverage", "agent", "-n", "team", "-o", "json", "-s", &address]), None);
    serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{}", ended.err))
}

fn read_on_demand(server: &Server) -> Vec<String> {
    let asked = server.asked().into_iter().map(|asked| asked.path().to_owned());
    asked.filter(|path| is_on_demand(path)).collect()
}

#[test]
fn storage_and_devices_are_read_only_if_a_pod_without_a_node_has_some() {
    let [(volume, storage), (device, devices)] = claiming();
    for (spec, desired, count) in [
        (json!({}), 2, 0),
        (volume.clone(), 1, 0),
        (volume, 2, storage.len()),
        (device.clone(), 1, 0),
        (device, 2, devices.len()),
    ] {
        let of = spec.clone();
        let server = Server::start(move |asked| lacking(asked, &of, desired));
        coverage(&server);
        assert_eq!(read_on_demand(&server).len(), count, "{spec} {desired}");
    }
}

#[test]
fn what_is_forbidden_is_unknown_and_named() {
    for (spec, kinds) in claiming() {
        for &resource in kinds {
            let of = spec.clone();
            let server = Server::start(move |asked| match asked.path() {
                path if path.ends_with(resource) => refusal(403, "Forbidden", "no"),
                _ => lacking(asked, &of, 2),
            });
            let report = coverage(&server);
            let incomplete = report["incomplete"].as_array().unwrap_or_else(|| panic!("{resource}: {report}"));
            let named = incomplete.iter().find(|it| it["resource"] == resource);
            let message = named.unwrap_or_else(|| panic!("{resource}: {report}"))["message"].as_str().unwrap();
            let left_open =
                ["on which nodes pods can have their volumes", "which nodes have the devices", "device classes"];
            assert!(left_open.iter().any(|words| message.contains(words)), "{message}");
            let is_claim = resource.contains("claim");
            assert_eq!(read_on_demand(&server).len(), kinds.len() + usize::from(is_claim), "{resource}");
        }
    }
    // Claims of the DaemonSet's own namespace may be readable.
    for ((spec, _), path) in
        claiming().into_iter().zip(["/api/v1/persistentvolumeclaims", "/apis/resource.k8s.io/v1/resourceclaims"])
    {
        let server = Server::start(move |asked| match asked.path() {
            asked if asked == path => refusal(403, "Forbidden", "no"),
            _ => lacking(asked, &spec, 2),
        });
        coverage(&server);
        let (version, kind) = path.rsplit_once('/').unwrap();
        assert!(read_on_demand(&server).contains(&format!("{version}/namespaces/team/{kind}")));
    }
}
