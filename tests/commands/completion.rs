//! Completion: the output for kubectl, and the TAB key in real shells.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::run;
use crate::support::has_program;

const PATIENCE: Duration = Duration::from_secs(60);

/// Returns what kubectl is offered for the words after `kubectl ds`: values, and the directive.
fn offered(words: &[&str]) -> (Vec<String>, String) {
    let ended = run(&[&["__complete", "--"], words].concat());
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{words:?}");
    let mut lines: Vec<String> = ended.out.lines().map(str::to_owned).collect();
    let directive = lines.pop().unwrap();
    (lines, directive)
}

fn values(words: &[&str]) -> Vec<String> {
    let (lines, directive) = offered(words);
    assert_eq!(directive, ":4", "{words:?}");
    lines.iter().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[test]
fn subcommands_come_first_and_flags_after_a_dash() {
    let first = values(&[""]);
    assert!(first.contains(&"coverage".to_owned()) && first.contains(&"undo".to_owned()), "{first:?}");
    assert!(!first.iter().any(|value| value.starts_with('-') || value == "__complete"), "{first:?}");
    assert_eq!(values(&["cov"]), ["coverage"]);
    assert_eq!(values(&["coverage", "--node-s"]), ["--node-selector"]);
    assert_eq!(values(&["list", "-o", "js"]), ["json"]);
}

#[test]
fn values_are_those_of_the_dump() {
    assert_eq!(offered(&["coverage", "--from", "demo", "cil"]).0, ["cilium\t26/26 available"]);
    assert_eq!(values(&["coverage", "--from", "demo", "--node=general-a1"]), ["--node=general-a1"]);
    assert_eq!(values(&["coverage", "--from", "demo", "--node", "general-a1"]), ["general-a1"]);
    assert_eq!(values(&["list", "--from", "demo", "-n", "sho"]), Vec::<String>::new());
    assert_eq!(values(&["list", "--from", "demo", "-n", "vel"]), ["velero"]);
    let zone = "topology.kubernetes.io/zone";
    assert_eq!(values(&["coverage", "--from", "demo", "--by", "topology.kubernetes.io/z"]), [zone]);
    assert_eq!(offered(&["coverage", "--from", "demo", "logging/"]).0, ["logging/fluent-bit\t23/26 available"]);
    assert_eq!(values(&["status", "--from", "demo", "-n", "logging", "logging/f"]), ["logging/fluent-bit"]);
    assert_eq!(values(&["status", "--from", "demo", "-n", "velero", "logging/f"]), Vec::<String>::new());
    assert_eq!(values(&["coverage", "--from", "demo", "daemonset/flu"]), ["daemonset/fluent-bit"]);
    // No Advanced DaemonSet has the names of the others.
    assert_eq!(values(&["status", "--from", "demo", "ads/"]), Vec::<String>::new());
    let (image, _) = offered(&["partition", "logging/fluent-bit", "--from", "demo", "--image", ""]);
    assert_eq!(image, ["fluent-bit=\tcr.fluentbit.io/fluent/fluent-bit:4.2.0"]);
    let history = ["history", "fluent-bit", "--from", "demo"];
    assert_eq!(values(&[&history[..], &["--diff", ""]].concat()), ["1", "2", "3", "4", "live"]);
    let ranges = ["--diff=2..1", "--diff=2..2", "--diff=2..3", "--diff=2..4", "--diff=2..live"];
    assert_eq!(values(&[&history[..], &["--diff=2.."]].concat()), ranges);
    for (command, flag) in [("undo", "--to-revision"), ("status", "--to-revision"), ("logs", "--revision")] {
        assert_eq!(values(&[command, "logging/fluent-bit", "--from", "demo", flag, ""]), ["1", "2", "3", "4"]);
    }
    let revisions = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/commands/revisions.json");
    let (lines, _) = offered(&["history", "agent", "-n", "shop", "--from", revisions, "--revision", ""]);
    assert!(lines.len() > 1 && lines.iter().any(|line| line.ends_with("\tcurrent")), "{lines:?}");
    assert!(lines.iter().all(|line| line.split('\t').next().unwrap().parse::<u32>().is_ok()), "{lines:?}");
}

#[test]
fn contexts_are_those_of_the_kubeconfig() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("config");
    let text = "apiVersion: v1\nkind: Config\ncontexts:\n- {name: east, context: {cluster: a}}\n- {name: west, context: {cluster: b}}\n";
    fs::write(&kubeconfig, text).unwrap();
    let path = kubeconfig.to_str().unwrap();
    assert_eq!(values(&["list", "--kubeconfig", path, "--context", ""]), ["east", "west"]);
    assert_eq!(values(&["list", "--kubeconfig", path, "--contexts", "e"]), ["east"]);
    assert_eq!(values(&["list", "--kubeconfig", path, "--contexts", "east,w"]), ["east,west"]);
}

#[test]
fn files_are_completed_by_the_shell() {
    assert_eq!(offered(&["coverage", "--from", ""]), (Vec::new(), ":0".to_owned()));
    assert_eq!(offered(&["preview", "-f", "x"]), (Vec::new(), ":0".to_owned()));
}

#[test]
fn errors_are_silent() {
    for words in [
        &["coverage", "--from", "no-such-file", ""][..],
        &["coverage", "--server", "http://127.0.0.1:1", ""],
        &["coverage", "--kubeconfig", "no-such-file", ""],
        &["coverage", "--no-such-flag", ""],
        &["undo", "a/b/c", "--from", "demo", "--to-revision", ""],
    ] {
        assert_eq!(values(words), Vec::<String>::new(), "{words:?}");
    }
}

#[cfg(unix)]
#[test]
fn the_program_for_kubectl_is_installed_once_and_replaces_no_other() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let folder = tempfile::tempdir().unwrap();
    symlink(env!("CARGO_BIN_EXE_kubectl-ds"), folder.path().join("kubectl-ds")).unwrap();
    let install = || super::kubectl_ds(&["completion", "--install"]).env("PATH", folder.path()).output().unwrap();
    let shim = folder.path().join("kubectl_complete-ds");
    for _ in 0..2 {
        let output = install();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.starts_with(&format!("{} installed\n", shim.display())), "{text}");
        assert!(!text.contains("once"), "{text}");
        assert_eq!(fs::metadata(&shim).unwrap().permissions().mode() & 0o777, 0o755);
    }
    let words = ["coverage", "--from", "demo", "cil"];
    let output = Command::new(&shim).args(words).env("PATH", folder.path()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "cilium\t26/26 available\n:4\n");

    fs::write(&shim, "#!/bin/sh\necho mine\n").unwrap();
    let output = install();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("exists and is another program"));
    assert_eq!(fs::read_to_string(&shim).unwrap(), "#!/bin/sh\necho mine\n");
}

#[test]
fn the_scripts_in_the_repository_are_those_that_are_printed() {
    for (shell, file) in [
        ("bash", "kubectl-ds.bash"),
        ("zsh", "_kubectl-ds"),
        ("fish", "kubectl-ds.fish"),
        ("powershell", "kubectl-ds.ps1"),
        ("kubectl", "kubectl_complete-ds"),
    ] {
        let ended = run(&["completion", shell]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{shell}");
        crate::support::documents::must_be(&format!("../completions/{file}"), &ended.out);
    }
}

/// A shell in a terminal, with kubectl-ds in PATH.
struct Shell {
    child: std::process::Child,
    shown: Arc<Mutex<String>>,
    _folder: TempDir,
}

impl Shell {
    /// Starts a shell, and loads the completion with `setup`.
    fn start(command: &str, setup: &str) -> Shell {
        let folder = tempfile::tempdir().unwrap();
        let programs: PathBuf = Path::new(env!("CARGO_BIN_EXE_kubectl-ds")).parent().unwrap().to_owned();
        let mut child = Command::new("script")
            .args(["-qec", command, "/dev/null"])
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", programs.display()))
            .env("HOME", folder.path())
            .env("TERM", "vt100")
            .env("LC_ALL", "C.UTF-8")
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        fs::write(folder.path().join("shop.json"), "").unwrap();
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut output, to) = (child.stdout.take().unwrap(), shown.clone());
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut piece) {
                to.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..length]));
            }
        });
        let mut shell = Shell { child, shown, _folder: folder };
        // Written in two pieces, so that the echo of what is typed is not taken for the answer.
        shell.send(&format!("{setup}\necho LOAD\"\"ED\n"));
        shell.wait_for("LOADED");
        shell
    }

    fn send(&mut self, keys: &str) {
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    fn wait_for(&self, text: &str) {
        let start = Instant::now();
        while !self.shown.lock().unwrap().contains(text) {
            assert!(start.elapsed() < PATIENCE, "{text:?} does not come: {:?}", self.shown.lock().unwrap());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Types a part of a command line, presses TAB, and returns the line that the shell has made of it.
    fn completed(&mut self, typed: &str) -> String {
        self.shown.lock().unwrap().clear();
        // Ctrl-A goes to the beginning of the line.
        self.send(&format!("{typed}\t\x01echo \"<<\"\x05\"EN\"\"D\"\n"));
        self.wait_for("END");
        let shown = self.shown.lock().unwrap();
        let answer = shown.lines().rev().find(|line| line.contains("END")).unwrap().trim();
        let (_, line) = answer.rsplit_once("<<").unwrap_or_else(|| panic!("{shown:?}"));
        line.strip_suffix("END").unwrap().trim().to_owned()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tab_completes(mut shell: Shell) {
    for (typed, completed) in [
        ("kubectl-ds cov", "kubectl-ds coverage"),
        ("kubectl-ds coverage --node-s", "kubectl-ds coverage --node-selector"),
        ("kubectl-ds coverage --from demo cil", "kubectl-ds coverage --from demo cilium"),
        ("kubectl-ds coverage --from demo --node general-a", "kubectl-ds coverage --from demo --node general-a"),
        ("kubectl-ds coverage --from demo kube-p", "kubectl-ds coverage --from demo kube-proxy"),
        ("kubectl-ds coverage --from demo -n vel", "kubectl-ds coverage --from demo -n velero"),
        ("kubectl-ds coverage --from demo logging/", "kubectl-ds coverage --from demo logging/fluent-bit"),
        ("kubectl-ds coverage --from demo ds/fl", "kubectl-ds coverage --from demo ds/fluent-bit"),
        (
            "kubectl-ds history fluent-bit --from demo --diff 3..l",
            "kubectl-ds history fluent-bit --from demo --diff 3..live",
        ),
        (
            "kubectl-ds partition fluent-bit --from demo --image fl",
            "kubectl-ds partition fluent-bit --from demo --image fluent-bit=",
        ),
        (
            "kubectl-ds partition fluent-bit --from demo --nodes gpu-b1,spot-a",
            "kubectl-ds partition fluent-bit --from demo --nodes gpu-b1,spot-a",
        ),
        (
            "kubectl-ds partition fluent-bit --from demo --nodes gpu-b1,gpu-a",
            "kubectl-ds partition fluent-bit --from demo --nodes gpu-b1,gpu-a1",
        ),
        (
            "kubectl-ds overhead --from demo --by topology.kubernetes.io/z",
            "kubectl-ds overhead --from demo --by topology.kubernetes.io/zone",
        ),
        (
            "kubectl-ds partition fluent-bit --from demo --spread-by topology.kubernetes.io/z",
            "kubectl-ds partition fluent-bit --from demo --spread-by topology.kubernetes.io/zone",
        ),
        ("kubectl-ds logs fluent-bit --from demo -c fl", "kubectl-ds logs fluent-bit --from demo -c fluent-bit"),
        ("kubectl-ds snapshot --file sh", "kubectl-ds snapshot --file shop.json"),
    ] {
        assert_eq!(shell.completed(typed), completed);
    }
}

#[test]
fn tab_completes_in_bash() {
    tab_completes(Shell::start("bash --noprofile --norc -i", "source <(kubectl-ds completion bash)"));
}

#[test]
fn tab_completes_in_zsh() {
    if has_program("zsh") {
        let setup = "autoload -U compinit && compinit -u -D; source <(kubectl-ds completion zsh)";
        tab_completes(Shell::start("zsh -f -i", setup));
    }
}

#[test]
fn tab_completes_in_fish() {
    if has_program("fish") {
        tab_completes(Shell::start("fish --no-config -i", "kubectl-ds completion fish | source"));
    }
}
