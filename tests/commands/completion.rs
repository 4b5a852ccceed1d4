//! `completion`.

use std::io::Write;
use std::process::{Command, Stdio};

use super::run;

#[test]
fn every_shell_gets_a_script_that_knows_the_subcommands() {
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let ended = run(&["completion", shell]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{shell}");
        for word in ["coverage", "snapshot", "node-selector"] {
            assert!(ended.out.contains(word), "{shell} does not know {word}");
        }
    }
}

#[test]
fn bash_accepts_its_script() {
    let script = run(&["completion", "bash"]).out;
    let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = bash.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns what kubectl is told to offer after `kubectl ds` and these words.
fn offered(words: &[&str]) -> Vec<String> {
    let ended = run(&[&["__complete", "--"], words].concat());
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{words:?}");
    let mut lines: Vec<String> = ended.out.lines().map(str::to_owned).collect();
    assert_eq!(lines.pop().as_deref(), Some(":4"), "{words:?}: kubectl reads a number at the end");
    lines.iter().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[test]
fn kubectl_is_told_what_can_follow() {
    assert_eq!(offered(&["cov"]), ["coverage"]);
    assert_eq!(offered(&["coverage", "-o", ""]), ["wide", "json", "yaml", "name"]);
    assert_eq!(offered(&["coverage", "--nod"]), ["--node", "--nodes", "--node-selector"]);
    assert_eq!(offered(&["-A", "list", "--al"]), ["--all", "--all-namespaces"]);
    assert!(offered(&[]).contains(&"list".to_owned()));
    assert!(!offered(&["__"]).contains(&"__complete".to_owned()));
}

#[test]
fn what_cannot_be_completed_has_no_answers() {
    assert_eq!(offered(&["no-such-command", "--no-such-flag", "x"]), Vec::<String>::new());
}

#[cfg(unix)]
#[test]
fn the_program_for_kubectl_hands_its_words_on() {
    let folder = tempfile::tempdir().unwrap();
    let script = run(&["completion", "kubectl"]).out;
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubectl-ds"), folder.path().join("kubectl-ds")).unwrap();
    let output = Command::new("/bin/sh")
        .args(["-c", &script, "kubectl_complete-ds", "coverage", "--from"])
        .env("PATH", folder.path())
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "--from\tRead a dump instead of a cluster: a file, a folder, `-`, or `demo` for the one built in\n:4\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
