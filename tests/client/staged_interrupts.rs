//! An interrupted staged rollout ends soon, and says what it has done.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::refusal;
use super::server::Server;
use super::staged_faults::Cluster;
use crate::screens::kubectl_ds;

const PATIENCE: Duration = Duration::from_secs(60);

const COMMAND: &[&str] = &["partition", "agent", "-n", "team", "--image=agent=agent:2", "--server"];

/// The pods are never listed again.
#[test]
fn an_interruption_right_after_the_first_change_leaves_the_outcome() {
    let cluster = Cluster::new();
    let (sender, stalled) = channel();
    let sender = Mutex::new(sender);
    let server = Server::start(move |asked| {
        if asked.path().ends_with("/pods") && cluster.is_suspended() {
            sender.lock().unwrap().send(()).unwrap();
            thread::sleep(PATIENCE);
        }
        cluster.answer(asked)
    });
    let address = format!("http://{}", server.address);
    let mut command = kubectl_ds(&[COMMAND, &[&address, "0", "-o", "json"]].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    stalled.recv_timeout(PATIENCE).unwrap();
    assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    assert_eq!((output.status.code(), report["outcome"]["stage"].as_str()), (Some(130), Some("Begun")), "{err}");
    let command = format!("kubectl ds partition -n team --server {address} agent 0");
    let hint = json!({"advice": "the update strategy stays suspended; to continue", "command": command});
    let error: Value = serde_json::from_str(err.lines().last().unwrap()).unwrap();
    assert!(error["hints"].as_array().unwrap().contains(&hint), "{err}");
}

/// What has failed stays on the updated nodes.
#[test]
fn an_interruption_between_a_gate_and_its_rollback_says_how_to_go_on() {
    let cluster = Cluster::new();
    let (sender, stalled) = channel();
    let (sender, is_stopped) = (Mutex::new(sender), AtomicBool::new(false));
    let server = Server::start(move |asked| {
        let is_stop = asked.method == "POST" && String::from_utf8_lossy(&asked.body).contains("Stopped");
        is_stopped.fetch_or(is_stop, Ordering::SeqCst);
        if asked.path() == "/api/v1/nodes" && is_stopped.load(Ordering::SeqCst) {
            sender.lock().unwrap().send(()).unwrap();
            thread::sleep(PATIENCE);
        }
        cluster.answer(asked)
    });
    let address = format!("http://{}", server.address);
    let mut command = kubectl_ds(&[COMMAND, &[&address, "0", "--verify=false", "--on-failure=undo"]].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    stalled.recv_timeout(PATIENCE).unwrap();
    assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains("the stage is not rolled back") && err.contains("kubectl ds status -n team"), "{err}");
}

/// It is in neither of the other numbers.
#[test]
fn an_interruption_names_the_node_whose_pod_is_being_replaced() {
    let cluster = Cluster::new();
    let (sender, deleted) = channel();
    let sender = Mutex::new(sender);
    // The controller is late.
    let is_deleted = AtomicBool::new(false);
    let server = Server::start(move |asked| {
        is_deleted.fetch_or(asked.method == "DELETE", Ordering::SeqCst);
        let is_pods = asked.method == "GET" && asked.path().ends_with("/pods");
        if is_pods && asked.target.contains("watch=true") {
            return refusal(403, "Forbidden", "pods is forbidden: User \"a\" cannot watch them");
        }
        let mut reply = cluster.answer(asked);
        if is_pods && is_deleted.load(Ordering::SeqCst) {
            let mut list: Value = serde_json::from_slice(&reply.body).unwrap();
            list["items"].as_array_mut().unwrap().retain(|pod| pod["spec"]["nodeName"] != "n1");
            reply.body = list.to_string().into_bytes();
            let _ = sender.lock().unwrap().send(());
        }
        reply
    });
    let address = format!("http://{}", server.address);
    let mut command = kubectl_ds(&[COMMAND, &[&address, "0"]].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    deleted.recv_timeout(PATIENCE).unwrap();
    thread::sleep(Duration::from_secs(1));
    assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains("1 being replaced (n1)"), "{out}");
}
