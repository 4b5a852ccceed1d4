//! The test harness itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::control_plane::{ControlPlane, Options, kubernetes};

const NODE_AND_DAEMON_SET: &str = r#"
apiVersion: v1
kind: Node
metadata:
  name: a
  labels: {type: kwok}
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
      containers: [{name: agent, image: agent}]
"#;

#[test]
fn a_daemon_set_becomes_ready_and_nothing_stays_behind() {
    let control_plane = ControlPlane::start(Options::whole());
    let version = control_plane.kubectl(&["version"]);
    assert!(version.contains(&format!("Server Version: v{}.", kubernetes())), "{version}");
    control_plane.create(NODE_AND_DAEMON_SET);
    control_plane.wait_until("the DaemonSet has a ready pod", || {
        (control_plane.get(&["ds", "agent"])["status"]["numberReady"] == 1).then_some(())
    });
    let folder = control_plane.kubeconfig().parent().unwrap().to_owned();
    drop(control_plane);
    assert!(!folder.exists(), "{} is still there", folder.display());
    assert_eq!(processes_of(&folder), Vec::<String>::new());
}

#[test]
fn users_without_rights_are_refused() {
    let control_plane = ControlPlane::start(Options::api_server_only());
    assert!(fs::metadata(control_plane.certificate_authority()).is_ok());
    let alice = control_plane.kubeconfig_of("alice");
    let output = control_plane.try_kubectl(&["--kubeconfig", alice.to_str().unwrap(), "get", "nodes"], None);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && complaint.contains("nodes is forbidden: User \"alice\""), "{complaint}");
}

#[test]
fn a_killed_test_process_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let says_where = folder.path().join("where");
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "tools::a_process_that_is_killed"])
        .env("SAY_WHERE", &says_where)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let kubeconfig = loop {
        if let Some(said) = fs::read_to_string(&says_where).ok().filter(|said| !said.is_empty()) {
            break PathBuf::from(said);
        }
        assert!(victim.try_wait().unwrap().is_none(), "the control plane did not start");
        thread::sleep(Duration::from_millis(50));
    };
    let of_the_victim = kubeconfig.parent().unwrap();
    assert!(processes_of(of_the_victim).len() >= 3, "etcd, the API server and the watchdog run");
    victim.kill().unwrap();
    victim.wait().unwrap();
    let start = Instant::now();
    while of_the_victim.exists() || !processes_of(of_the_victim).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(10), "{:#?}", processes_of(of_the_victim));
        thread::sleep(Duration::from_millis(50));
    }
}

/// Returns the command lines of the processes that have a folder's name in their arguments.
fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|arguments| String::from_utf8_lossy(&arguments).replace('\0', " "))
        .filter(|arguments| arguments.contains(folder))
        .collect()
}
