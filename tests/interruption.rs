//! SIGINT and SIGTERM end the program at any point, with exit code 130.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The time that anything may take; without a signal handler the program never ends.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_kubectl-ds"))
        .args(arguments)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap().success());
}

/// Waits for the end, and returns the exit code and standard error; standard output is left unread.
fn end(mut child: Child) -> (Option<i32>, String) {
    let (sender, ended) = mpsc::channel();
    let (pid, mut err) = (child.id(), child.stderr.take().unwrap());
    thread::spawn(move || {
        let code = child.wait().unwrap().code();
        let mut text = String::new();
        err.read_to_string(&mut text).unwrap();
        sender.send((code, text))
    });
    ended.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        let _ = Command::new("kill").args(["-s", "KILL", &pid.to_string()]).status();
        panic!("the signal was ignored")
    })
}

fn was_interrupted(ended: &(Option<i32>, String)) {
    assert_eq!(ended, &(Some(130), "error: interrupted\n".to_owned()));
}

#[test]
fn a_signal_ends_a_snapshot_that_is_written_to_a_slow_pipe() {
    for name in ["INT", "TERM"] {
        let mut child = start(&["snapshot", "--from", "demo"]);
        // The rest does not fit into the pipe.
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 1]).unwrap();
        thread::sleep(Duration::from_millis(50));
        signal(&child, name);
        let pipe = child.stdout.take();
        was_interrupted(&end(child));
        drop(pipe);
    }
}

#[test]
fn a_signal_ends_a_report_that_is_computed_and_rendered() {
    let mut dump = br#"{"apiVersion": "v1", "kind": "List", "items": ["#.to_vec();
    for number in 0..60_000 {
        let node = format!(r#"{{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "node-{number}"}}}},"#);
        dump.extend(node.bytes());
    }
    dump.extend(
        br#"{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "team", "uid": "1"},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {"metadata": {"labels": {"app": "agent"}}}}}]}"#,
    );
    let mut child = start(&["coverage", "--nodes", "-o", "json", "--from", "-"]);
    child.stdin.take().unwrap().write_all(&dump).unwrap();
    signal(&child, "INT");
    let pipe = child.stdout.take();
    was_interrupted(&end(child));
    drop(pipe);
}

#[test]
fn a_signal_ends_the_wait_for_a_server() {
    for name in ["INT", "TERM"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let child = start(&["list", "--server", &server]);
        let (mut connection, _) = listener.accept().unwrap();
        connection.read_exact(&mut [0; 1]).unwrap();
        signal(&child, name);
        was_interrupted(&end(child));
    }
}
