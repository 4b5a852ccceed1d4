//! `__complete`: what kubectl asks, through `kubectl_complete-ds`, for `kubectl ds <TAB>`.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use clap_complete::engine::complete;

use super::Failure;
use crate::error::Exit;

/// The subcommand's name.
pub const NAME: &str = "__complete";

/// Tells kubectl to offer no file names beside the answers.
const NO_FILES: &str = ":4";

/// Complete a command line
#[derive(Debug, Clone, Args)]
pub struct CompleteArgs {
    /// The words after `kubectl ds`, of which the last is to be completed
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Runs the subcommand: a line for each value with what it is for, then a number for kubectl.
///
/// # Errors
///
/// Fails where the output cannot be written.
pub fn run(arguments: CompleteArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let CompleteArgs { words } = arguments;
    let mut line = vec![OsString::from("kubectl-ds")];
    line.extend(words);
    if line.len() == 1 {
        line.push(OsString::new());
    }
    let last = line.len() - 1;
    // What cannot be completed has no candidates: an error would disturb whoever is typing.
    let candidates = complete(&mut super::command(), line, last, None).unwrap_or_default();
    for candidate in candidates.iter().filter(|candidate| !candidate.is_hide_set()) {
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        let help = help.lines().next().unwrap_or_default();
        writeln!(out, "{}\t{help}", candidate.get_value().to_string_lossy())?;
    }
    writeln!(out, "{NO_FILES}")?;
    Ok(Exit::Success)
}
