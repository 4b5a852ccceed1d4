//! The real binary, as somebody at a shell runs it: its output, its words on standard error, its exit
//! code.

mod advanced;
mod bad_input;
mod completion;
mod coverage;
#[cfg(unix)]
mod external_diff;
pub mod history;
mod hostile;
mod list;
mod restart;
mod undo;
mod version;

use std::io::Write;
use std::process::{Command, Stdio};

/// The fixture that most commands are run on; a comment in it says what to notice.
pub const SHOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/commands/shop.yaml");

/// Half a minute after the last event in the fixture.
const NOW: &str = "2026-11-20T10:00:00Z";

/// How a command ended.
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Returns the binary with a cleared environment, a width of 80 columns and a locale of UTF-8.
fn kubectl_ds(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-ds"));
    command.args(arguments).env_clear().env("COLUMNS", "80").env("LANG", "C.UTF-8").stdin(Stdio::null());
    command
}

fn end(mut command: Command) -> Ended {
    let output = command.output().unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

pub fn run(arguments: &[&str]) -> Ended {
    end(kubectl_ds(arguments))
}

/// Runs a command that reads the given standard input.
pub fn run_with_input(arguments: &[&str], input: &[u8]) -> Ended {
    let mut command = kubectl_ds(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // Whoever refuses the arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs a reading command on the fixture, and returns what it prints; it must succeed quietly.
pub fn on_shop(arguments: &[&str]) -> String {
    let ended = run(&[arguments, &["--from", SHOP, "--now", NOW]].concat());
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{arguments:?}");
    ended.out
}

/// Runs a command that must fail, and returns its exit code and its words.
fn failure(arguments: &[&str]) -> (Option<i32>, String) {
    let ended = run(arguments);
    assert_eq!(ended.out, "", "{arguments:?} prints data although it fails");
    (ended.code, ended.err)
}

#[test]
fn every_subcommand_has_a_file_of_tests() {
    // `snapshot` is tested with the dumps that it writes.
    let files = [("tests/commands", ""), ("tests/dumps", "_command")];
    for subcommand in kubectl_ds::commands::command().get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        let name = subcommand.get_name();
        let exists = files.iter().any(|(folder, suffix)| {
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(format!("{name}{suffix}.rs")).exists()
        });
        assert!(exists, "no file of tests for `{name}`");
    }
}
