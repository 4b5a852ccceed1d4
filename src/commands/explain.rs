//! `explain`: what a reason code or a status means, and what to do.

use std::io::Write;

use clap::Args;

use super::Failure;
use super::parse::explained;
use crate::error::{CommandError, Exit};
use crate::io::Io;
use crate::render::table::{self, Column};
use crate::render::text::wrap;
use crate::render::view::View;
use crate::report::reason::ReasonCode;

/// What is known about every code, in a section each.
const CODES: &str = include_str!("../../docs/reason-codes.md");

/// What is known about every status, in a section each.
const STATUSES: &str = include_str!("../../docs/statuses.md");

/// Explain a reason code or a status, and what to do
///
/// Without CODE, lists them all.
#[derive(Debug, Clone, Args)]
#[command(before_help = "# Explain a reason code
kubectl ds explain CrashLooping

# Explain a status
kubectl ds explain Blocked

# List all of them
kubectl ds explain")]
pub struct ExplainArgs {
    /// The reason code or the status, such as CrashLooping or Blocked
    #[arg(value_name = "CODE", ignore_case = true, value_parser = explained(), hide_possible_values = true)]
    code: Option<&'static str>,
}

/// Returns the statuses that are explained.
pub(super) fn statuses() -> impl Iterator<Item = &'static str> {
    STATUSES.split("\n## ").skip(1).filter_map(|section| section.lines().next())
}

/// Runs the subcommand.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub fn run(arguments: &ExplainArgs, io: &Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
    let view = View::new(io.width(), false);
    let ExplainArgs { code: Some(code) } = arguments else {
        list("STATUS", statuses(), &view, out)?;
        writeln!(out)?;
        list("CODE", ReasonCode::ALL.iter().map(|code| code.name()), &view, out)?;
        return Ok(Exit::Success);
    };
    let section = section(code).ok_or_else(|| CommandError::new(format!("{code} is not documented")))?;
    writeln!(out, "{code}")?;
    for line in section.trim().lines() {
        wrap(line, view.width).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    Ok(Exit::Success)
}

/// Returns what stands below the heading of a code or a status.
fn section(name: &str) -> Option<&'static str> {
    let heading = format!("\n## {name}\n");
    let after = [CODES, STATUSES].into_iter().find_map(|document| Some(document.split_once(&heading)?.1))?;
    after.split("\n## ").next()
}

/// Writes a row for each name, with the first paragraph about it.
fn list(
    heading: &'static str,
    names: impl Iterator<Item = &'static str>,
    view: &View,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let rows: Vec<(&str, String)> = names
        .map(|name| {
            let paragraph = section(name).unwrap_or_default().trim().split("\n\n").next().unwrap_or_default();
            (name, paragraph.replace('\n', " "))
        })
        .collect();
    let columns = [
        Column::text(heading, |(name, _): &(&str, String)| (*name).to_owned()),
        Column::prose("MEANING", |(_, meaning): &(&str, String)| meaning.clone()),
    ];
    table::write(&columns, &rows, view, out)
}
