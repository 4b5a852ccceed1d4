//! Signals, timeouts, and a standard output that is closed or full.

use std::fs;
use std::net::TcpListener;
use std::process::Stdio;

use super::{FAULTY_CLUSTER, SHOP, kubectl_ds, run};

/// A kubeconfig of one context that points at a port of this machine.
fn kubeconfig(port: u16) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "{{current-context: here, contexts: [{{name: here, context: {{cluster: one, user: me}}}}], \
         clusters: [{{name: one, cluster: {{server: 'https://127.0.0.1:{port}'}}}}], users: [{{name: me, user: {{}}}}]}}"
    );
    fs::write(&file, text).unwrap();
    file
}

fn path(file: &tempfile::NamedTempFile) -> &str {
    file.path().to_str().unwrap()
}

#[cfg(unix)]
#[test]
fn ctrl_c_exits_with_130_and_prints_no_partial_answer() {
    // It takes the connection, and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = kubeconfig(listener.local_addr().unwrap().port());
    let mut command = kubectl_ds(&["list", "--kubeconfig", path(&file)]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _connection = listener.accept().unwrap();
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(130), 0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "error: interrupted\n");
}

#[test]
fn a_request_timeout_exits_with_4() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = kubeconfig(listener.local_addr().unwrap().port());
    let ended = run(&["list", "--kubeconfig", path(&file), "--request-timeout", "200ms"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(4), ""), "{}", ended.err);
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let mut command = kubectl_ds(&["coverage", "-o", "json", "--from", FAULTY_CLUSTER]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Closed before anything is read: a pipe holds less than the report.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

#[test]
fn a_full_disk_is_a_failure() {
    let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") else { return };
    let mut command = kubectl_ds(&["coverage", "--from", SHOP]);
    let output = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(!output.stderr.is_empty());
}
