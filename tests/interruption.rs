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
    let (code, err) = ended;
    let said: Vec<&str> = err.lines().filter(|line| !line.starts_with("warning: ")).collect();
    assert_eq!((*code, said), (Some(130), vec!["error: interrupted"]));
}

/// The same with `-o json`, also if the command is blocked.
fn was_interrupted_as_json((code, err): &(Option<i32>, String)) {
    let document = r#"{"apiVersion":"kubectl-ds/v1","kind":"Error","message":"interrupted","hints":[],"exitCode":130}"#;
    assert_eq!((*code, err.lines().last()), (Some(130), Some(document)), "{err}");
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
    was_interrupted_as_json(&end(child));
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

/// Whatever is on its way: objects, their compression, what a redactor looks at first, and a file of that name that exists.
#[test]
fn a_signal_leaves_no_part_of_a_file() {
    let mut dump = br#"{"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "default", "uid": "a"}}"#
        .to_vec();
    for number in 0..10_000 {
        let labels: Vec<String> = (0..30).map(|label| format!(r#""label-{label}": "value-{number}""#)).collect();
        let labels = labels.join(",");
        let node = format!(
            r#",{{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "node-{number}", "labels": {{{labels}}}}}}}"#
        );
        dump.extend(node.bytes());
    }
    dump.extend(b"]}");
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("from.json");
    std::fs::write(&from, dump).unwrap();
    for (name, flags, file, milliseconds) in [
        ("INT", &[][..], "dump.json", 0),
        ("TERM", &[], "dump.json", 20),
        ("INT", &[], "dump.json.gz", 0),
        ("INT", &[], "dump.json.gz", 100),
        ("INT", &["-o", "yaml"], "dump.yaml", 50),
        ("HUP", &["--redact"], "dump.json", 50),
    ] {
        let written = tempfile::tempdir().unwrap();
        let path = written.path().join(file);
        std::fs::write(&path, "old").unwrap();
        let arguments = ["snapshot", "-A", "--from", from.to_str().unwrap(), "--force", path.to_str().unwrap()];
        let mut child = start(&[&arguments[..], flags].concat());
        let parts = || std::fs::read_dir(written.path()).unwrap().count() > 1;
        while !parts() {
            assert_eq!(child.try_wait().unwrap(), None);
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(milliseconds));
        signal(&child, name);
        was_interrupted(&end(child));
        assert!(!parts(), "{name} {flags:?} {file}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old", "{name} {flags:?} {file}");
    }
}
