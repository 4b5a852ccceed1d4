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

#[cfg(unix)]
#[test]
fn the_script_for_kubectl_forwards_its_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let script = run(&["completion", "kubectl"]).out;
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubectl-ds"), folder.path().join("kubectl-ds")).unwrap();
    let output = Command::new("/bin/sh")
        .args(["-c", &script, "kubectl_complete-ds", "coverage", "--from"])
        .env("PATH", folder.path())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(out.starts_with("--from\t") && out.ends_with("\n:4\n"), "{out}{err}");
}
