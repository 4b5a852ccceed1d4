//! A diff program of the user's, run by the real binary: what it prints, and that nothing of it stays behind.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::kubectl_ds;

/// Revisions of a DaemonSet, among them two that differ.
const REVISIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/commands/revisions.json");

/// How long anything may take that takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// A folder with a diff program in it, and one for what it is given.
struct Stage {
    folder: TempDir,
}

impl Stage {
    /// Writes a program that knows the folder as `$HERE`.
    fn new(script: &str) -> Stage {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("temporary")).unwrap();
        let program = folder.path().join("draft");
        fs::write(&program, format!("#!/bin/sh\nHERE='{}'\n{script}\n", folder.path().display())).unwrap();
        // A process that starts at this moment inherits the file that was written to, which then cannot be run.
        assert!(Command::new("cp").args([&program, &folder.path().join("differ")]).status().unwrap().success());
        fs::set_permissions(folder.path().join("differ"), Permissions::from_mode(0o755)).unwrap();
        Stage { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self) -> Command {
        let mut command = kubectl_ds(&["history", "agent", "--diff", "--from", REVISIONS, "-n", "shop"]);
        command
            .env("PATH", "/usr/bin:/bin")
            .env("TMPDIR", self.path("temporary"))
            .env("KUBECTL_EXTERNAL_DIFF", self.path("differ"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts the command, and waits until the program runs and has written its process id.
    fn start(&self) -> (Child, String) {
        let child = self.command().spawn().unwrap();
        wait_for(&self.path("pid"));
        (child, fs::read_to_string(self.path("pid")).unwrap().trim().to_owned())
    }

    fn nothing_is_left(&self) -> bool {
        fs::read_dir(self.path("temporary")).unwrap().count() == 0
    }
}

fn wait_for(path: &Path) {
    let start = Instant::now();
    while !path.exists() {
        assert!(start.elapsed() < PATIENCE, "{} does not come", path.display());
        thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to a process, and tells whether there is one.
fn signal(signal: &str, pid: &str) -> bool {
    Command::new("kill").args([signal, pid]).stderr(Stdio::null()).status().unwrap().success()
}

#[test]
fn the_program_compares_two_templates() {
    let stage = Stage::new(r#"basename "$1"; diff "$@" | grep -c '^[<>]'; exit 1"#);
    let output = stage.command().output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!((output.status.code(), err.as_str()), (Some(0), ""));
    let (name, lines) = out.trim().split_once('\n').unwrap();
    assert!(name.starts_with("agent.revision-") && name.ends_with(".yaml"), "{name}");
    assert!(lines.parse::<usize>().unwrap() > 2, "{lines}");
    assert!(stage.nothing_is_left());
}

/// Returns whether these tests were started by `nohup`: the processes that they start ignore SIGHUP, too.
fn ignores_hangups() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[test]
fn a_signal_ends_the_program_too_and_removes_its_files() {
    for name in ["-INT", "-TERM", "-HUP"].into_iter().filter(|name| *name != "-HUP" || !ignores_hangups()) {
        let stage = Stage::new(r#"trap '' INT; echo $$ >"$HERE/new"; mv "$HERE/new" "$HERE/pid"; exec sleep 60"#);
        let (child, program) = stage.start();
        assert!(!stage.nothing_is_left());
        assert!(signal(name, &child.id().to_string()));
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(130), b"error: interrupted\n".as_slice()));
        assert!(stage.nothing_is_left(), "{name}");
        assert!(!signal("-0", &program), "the program still runs after {name}");
    }
}

/// Runs the command in a terminal, presses Ctrl-C there, and lets the program end afterwards.
fn ctrl_c_in_a_terminal(stage: &Stage) -> std::process::Output {
    let command = stage.command();
    let quoted = |word: &std::ffi::OsStr| format!("'{}'", word.to_str().unwrap());
    let words: Vec<String> = [command.get_program()].into_iter().chain(command.get_args()).map(quoted).collect();
    let mut terminal = Command::new("script");
    // Without `exec`, a shell that forks would get Ctrl-C, too, and end with a code of its own.
    terminal
        .args(["-qec", &format!("exec {}", words.join(" ")), "/dev/null"])
        .envs(command.get_envs().filter_map(|(k, v)| Some((k, v?))));
    let mut child = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    wait_for(&stage.path("pid"));
    child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    wait_for(&stage.path("interrupted"));
    fs::write(stage.path("go"), "").unwrap();
    let keeps_the_terminal_open = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(keeps_the_terminal_open);
    output
}

#[test]
fn in_a_terminal_ctrl_c_is_for_the_program() {
    let waits = |end: &str| {
        Stage::new(&format!(
            r#"trap 'touch "$HERE/interrupted"' INT
            echo $$ >"$HERE/new"; mv "$HERE/new" "$HERE/pid"
            while [ ! -e "$HERE/go" ]; do sleep 0.01; done; {end}"#
        ))
    };
    let stage = waits("echo still here; exit 1");
    let output = ctrl_c_in_a_terminal(&stage);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("still here"), "{:?} {text}", output.status);
    assert!(stage.nothing_is_left());

    let stage = waits("trap - INT; kill -INT $$");
    let output = ctrl_c_in_a_terminal(&stage);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(130) && text.contains("error: interrupted"), "{:?} {text}", output.status);
    assert!(stage.nothing_is_left());
}
