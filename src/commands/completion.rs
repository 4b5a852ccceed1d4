//! `completion`: what a shell needs to complete a command line.

use std::io::Write;

use clap::{Args, ValueEnum};
use clap_complete::{Shell, generate};

use super::Failure;
use crate::error::Exit;

/// The program that kubectl asks how to complete `kubectl ds`.
const KUBECTL_COMPLETE_DS: &str = "#!/bin/sh
# Completes `kubectl ds`: to be named kubectl_complete-ds, executable, in a folder of PATH.
exec kubectl-ds __complete -- \"$@\"
";

/// Print what completes the command line: in a shell, or in kubectl
#[derive(Debug, Clone, Args)]
#[command(after_help = "`kubectl ds <TAB>` needs kubectl's own completion, and a program in PATH:
  kubectl ds completion kubectl > ~/bin/kubectl_complete-ds
  chmod +x ~/bin/kubectl_complete-ds

The other scripts complete `kubectl-ds`: source <(kubectl ds completion bash)")]
pub struct CompletionArgs {
    /// The shell, or kubectl
    #[arg(value_name = "FOR", value_enum)]
    shell: Target,
}

/// What the completion is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    Bash,
    Zsh,
    Fish,
    Powershell,
    Kubectl,
}

/// Runs the subcommand.
///
/// # Errors
///
/// Fails where the output cannot be written.
pub fn run(arguments: &CompletionArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let CompletionArgs { shell } = arguments;
    let shell = match shell {
        Target::Bash => Shell::Bash,
        Target::Zsh => Shell::Zsh,
        Target::Fish => Shell::Fish,
        Target::Powershell => Shell::PowerShell,
        Target::Kubectl => {
            out.write_all(KUBECTL_COMPLETE_DS.as_bytes())?;
            return Ok(Exit::Success);
        }
    };
    let mut text = Vec::new();
    generate(shell, &mut super::command(), "kubectl-ds", &mut text);
    out.write_all(&text)?;
    Ok(Exit::Success)
}
