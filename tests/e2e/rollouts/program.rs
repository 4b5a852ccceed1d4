//! The program under test, and how its runs end.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::control_plane::ControlPlane;

/// How a run ended.
#[derive(Debug)]
pub struct Run {
    pub arguments: String,
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// Fails unless the run ended with this exit code.
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Returns what was printed as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("no JSON ({error}): {self}"))
    }

    /// Tells whether standard output or error contains the words.
    pub fn says(&self, words: &str) -> bool {
        self.stdout.contains(words) || self.stderr.contains(words)
    }

    /// Fails unless standard output or error contains the words.
    pub fn must_say(&self, words: &str) -> &Self {
        assert!(self.says(words), "{words:?} is missing: {self}");
        self
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Run { arguments, code, stdout, stderr } = self;
        write!(f, "kubectl-ds {arguments} ended with {code:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}

/// Returns the program with arguments for the cluster of a kubeconfig.
pub fn program(kubeconfig: &Path, arguments: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-ds"));
    // A suggested command names it already.
    if !arguments.iter().any(|argument| argument == "--kubeconfig") {
        command.arg("--kubeconfig").arg(kubeconfig);
    }
    command.args(arguments).env_remove("KUBECONFIG").stdin(Stdio::null());
    command
}

/// Runs the program.
pub fn run(kubeconfig: &Path, arguments: &[String]) -> Run {
    let output = program(kubeconfig, arguments).output().unwrap();
    Run {
        arguments: arguments.join(" "),
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs the program on a control plane, as the user who may do everything.
pub fn run_on(control_plane: &ControlPlane, arguments: &[&str]) -> Run {
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    run(&control_plane.kubeconfig(), &arguments)
}
