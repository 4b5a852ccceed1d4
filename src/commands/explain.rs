//! `explain`: what a reason code means, and what to do.

use std::io::Write;

use clap::Args;

use super::Failure;
use super::parse::reason_codes;
use crate::error::{CommandError, Exit};
use crate::io::Io;
use crate::render::text::wrap;
use crate::render::view::View;
use crate::report::reason::ReasonCode;

/// What is known about every code, in a section each.
const DOCUMENT: &str = include_str!("../../docs/reason-codes.md");

/// Print what a reason code means, and what to do
#[derive(Debug, Clone, Args)]
#[command(before_help = "# Say what a code in the reports means
kubectl ds explain CrashLooping")]
pub struct ExplainArgs {
    /// The code, such as CrashLooping
    #[arg(value_name = "CODE", ignore_case = true, value_parser = reason_codes(), hide_possible_values = true)]
    code: ReasonCode,
}

/// Runs the subcommand.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub fn run(arguments: &ExplainArgs, io: &Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
    let ExplainArgs { code } = arguments;
    let heading = format!("\n## {code}\n");
    let (_, after) =
        DOCUMENT.split_once(&heading).ok_or_else(|| CommandError::new(format!("{code} is not documented")))?;
    let section = after.split("\n## ").next().unwrap_or_default();
    writeln!(out, "{code}")?;
    for line in section.trim().lines() {
        let lines = wrap(line, View::new(io.width(), false).width);
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    Ok(Exit::Success)
}
