//! `completion`: what a shell needs to complete a command line.

use std::io::Write;

use clap::{Args, ValueEnum};
use clap_complete::{Shell, generate};

use super::Failure;
use crate::error::Exit;

/// Print the completion of a shell, to be sourced
#[derive(Debug, Clone, Args)]
#[command(after_help = "To load it: source <(kubectl ds completion bash). It completes `kubectl-ds`.")]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Target,
}

/// What the completion is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    Bash,
    Zsh,
    Fish,
    Powershell,
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
    };
    let mut text = Vec::new();
    generate(shell, &mut super::command(), "kubectl-ds", &mut text);
    out.write_all(&text).map_err(Failure::Output)?;
    Ok(Exit::Success)
}
