//! `pod` and `exec` against a server: which pod is meant, and what kubectl is given.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use kubectl_ds::model::metadata::OwnerReference;
use tempfile::TempDir;

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

/// Runs a command on the server, with a kubectl that prints its arguments and its input, and exits with 7.
fn run(server: &Server, arguments: &[&str], input: &[u8]) -> Ended {
    let folder = TempDir::new().unwrap();
    let kubectl = folder.path().join("kubectl");
    fs::write(&kubectl, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n/bin/cat\nexit 7\n").unwrap();
    fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755)).unwrap();
    run_with(server, arguments, input, folder.path().to_str().unwrap())
}

fn run_with(server: &Server, arguments: &[&str], input: &[u8], path: &str) -> Ended {
    let address = format!("http://{}", server.address);
    let at = arguments.iter().position(|word| *word == "--").unwrap_or(arguments.len());
    let (own, runs) = arguments.split_at(at);
    let mut command = kubectl_ds(&[own, &["-n", "team", "--server", &address, "--token", "t0ps3cr3t"], runs].concat());
    command.env("PATH", path);
    end(command, Some(input))
}

#[test]
fn the_pod_beside_another_is_the_one_on_its_node() {
    let server = Server::start(with_web);
    for place in [["--node", "n1"], ["--beside", "shop/web-1"]] {
        let ended = run(&server, &[&["pod", "agent"], &place[..]].concat(), b"");
        assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (Some(0), "pod/agent-a\n", ""));
    }
    for (beside, error) in [
        // Without a namespace, the one of the DaemonSet is meant.
        ("web-1", "error: pod team/web-1 not found\n"),
        ("shop/web-2", "error: pod shop/web-2 is not scheduled to a node yet\n"),
        ("shop/secret", "Error from server (Forbidden): pods \"secret\" is forbidden\n"),
    ] {
        let ended = run(&server, &["pod", "agent", "--beside", beside], b"");
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
        assert!(ended.err.starts_with(error), "{}", ended.err);
    }
}

#[test]
fn kubectl_gets_the_pod_the_command_its_input_and_the_flags_that_led_there() {
    let server = Server::start(with_web);
    let address = format!("http://{}", server.address);
    let flags = ["-c", "main", "-it", "--as", "jane doe", "--request-timeout", "9s"];
    let arguments = [&["exec", "agent", "--beside", "shop/web-1"], &flags[..], &["--", "ls", "--from", "-n"]].concat();
    let ended = run(&server, &arguments, b"typed");
    let given = ["exec", "-n", "team", "-c", "main", "-i", "-t", "--server", &address, "--as", "jane doe"];
    let secrets = ["--token", "t0ps3cr3t", "--request-timeout", "9000000000ns"];
    let given = [&given[..], &secrets, &["pod/agent-a", "--", "ls", "--from", "-n", "typed"]].concat();
    assert_eq!((ended.code, ended.err.as_str()), (Some(7), ""));
    assert_eq!(ended.out.lines().collect::<Vec<_>>(), given);
}

#[test]
fn without_kubectl_the_command_is_printed_without_secrets() {
    let server = Server::start(with_web);
    let folder = TempDir::new().unwrap();
    let run = |path: &str| run_with(&server, &["exec", "agent", "--node", "n1", "--", "ls", "-l"], b"", path);
    // A file that is not executable, and a script whose interpreter does not exist.
    for (mode, problem) in
        [(None, "not found in PATH"), (Some(0o644), "not found in PATH"), (Some(0o755), "No such file")]
    {
        if let Some(mode) = mode {
            let kubectl = folder.path().join("kubectl");
            fs::write(&kubectl, "#!/no/such/shell\n").unwrap();
            fs::set_permissions(&kubectl, fs::Permissions::from_mode(mode)).unwrap();
        }
        let ended = run(folder.path().to_str().unwrap());
        let shown = format!(
            "kubectl exec -n team --server http://{} --token \"${{TOKEN:?}}\" pod/agent-a -- ls -l\n",
            server.address
        );
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
        assert!(ended.err.starts_with("error: cannot run kubectl: ") && ended.err.contains(problem), "{}", ended.err);
        assert!(ended.err.ends_with(&shown), "{}", ended.err);
    }
}

#[test]
fn nothing_runs_if_the_node_has_no_pod() {
    let server = Server::start(with_web);
    let ended = run(&server, &["exec", "agent", "--node", "n2", "--", "ls"], b"");
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
