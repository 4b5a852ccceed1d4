//! `pod` against a server: which pod it finds.

use std::collections::BTreeMap;

use kubectl_ds::model::metadata::OwnerReference;

use super::server::{Asked, Reply, Server};
use super::{JSON, cluster, pod, protobuf_list, refusal};
use crate::screens::{Ended, end, kubectl_ds};

/// A cluster in which the pod `shop/web-1` is on the node `n1`, and `shop/web-2` is not scheduled.
fn with_web(asked: &Asked) -> Reply {
    let web = |name: &str, node: &str| {
        let mut web = serde_json::to_value(pod(name, "web", node)).unwrap();
        web["metadata"]["namespace"] = "shop".into();
        (web["kind"], web["apiVersion"]) = ("Pod".into(), "v1".into());
        Reply::of(200, JSON, web.to_string())
    };
    match asked.path() {
        "/api/v1/namespaces/shop/pods/web-1" => web("web-1", "n1"),
        "/api/v1/namespaces/shop/pods/web-2" => web("web-2", ""),
        "/api/v1/namespaces/shop/pods/secret" => refusal(403, "Forbidden", "pods \"secret\" is forbidden"),
        "/api/v1/pods" | "/api/v1/namespaces/team/pods" => {
            let mut own = pod("agent-a", "agent", "n1");
            own.metadata.owner_references = vec![OwnerReference {
                kind: "DaemonSet".to_owned(),
                name: "agent".to_owned(),
                ..own.metadata.owner_references[0].clone()
            }]
            .into();
            own.metadata.labels = BTreeMap::from([("app".to_owned(), "agent".to_owned())]).into();
            protobuf_list("PodList", &[own], "")
        }
        _ => cluster(asked),
    }
}

fn run(server: &Server, arguments: &[&str]) -> Ended {
    let address = format!("http://{}", server.address);
    end(kubectl_ds(&[arguments, &["-n", "team", "--server", &address, "--token", "t0ps3cr3t"]].concat()), None)
}

#[test]
fn the_pod_beside_another_is_the_one_on_its_node() {
    let server = Server::start(with_web);
    for place in [["--node", "n1"], ["--beside", "shop/web-1"]] {
        let ended = run(&server, &[&["pod", "agent"], &place[..]].concat());
        assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (Some(0), "pod/agent-a\n", ""));
    }
    for (beside, error) in [
        // Without a namespace, the one of the DaemonSet is meant.
        ("web-1", "error: pod team/web-1 not found\n"),
        ("shop/web-2", "error: pod shop/web-2 is not scheduled to a node yet\n"),
        ("shop/secret", "Error from server (Forbidden): pods \"secret\" is forbidden\n"),
    ] {
        let ended = run(&server, &["pod", "agent", "--beside", beside]);
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
        assert!(ended.err.starts_with(error), "{}", ended.err);
    }
}

#[test]
fn the_error_says_why_a_node_has_no_pod() {
    let server = Server::start(with_web);
    let ended = run(&server, &["pod", "agent", "--node", "n2"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    assert!(ended.err.starts_with("error: no pod of team/agent on node n2: "), "{}", ended.err);
}

#[test]
fn the_pods_of_a_namespace_are_offered_after_its_slash() {
    let server = Server::start(|asked: &Asked| match asked.path() {
        "/api/v1/namespaces/shop/pods" => {
            let row = |name: &str| {
                format!(r#"{{"cells": [], "object": {{"metadata": {{"namespace": "shop", "name": "{name}"}}}}}}"#)
            };
            Reply::of(200, JSON, format!(r#"{{"rows": [{}, {}]}}"#, row("web-1"), row("$(reboot)")))
        }
        _ => cluster(asked),
    });
    let address = format!("http://{}", server.address);
    for typed in [&["--beside", "shop/w"][..], &["--beside=shop/w"]] {
        let line = [&["__complete", "--", "pod", "agent", "--server", &address], typed].concat();
        let ended = end(kubectl_ds(&line), None);
        assert!(
            ended.out.ends_with("shop/web-1\t\n:4\n") && ended.out.lines().count() == 2,
            "{typed:?}: {}",
            ended.out
        );
    }
}
