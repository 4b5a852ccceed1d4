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

/// The documentation of every code, one section each.
const CODES: &str = include_str!("../../docs/reason-codes.md");

/// The documentation of every status, and every state of a node, one section each.
const STATUSES: &str = concat!(include_str!("../../docs/statuses.md"), include_str!("../../docs/node-states.md"));

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

/// Returns the documented statuses.
pub(super) fn statuses() -> impl Iterator<Item = &'static str> {
    STATUSES.split("\n## ").skip(1).filter_map(|section| section.lines().next())
}

/// Runs the subcommand.
pub fn run(arguments: &ExplainArgs, io: &Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
    let view = View::new(io.width(), false);
    let ExplainArgs { code: Some(code) } = arguments else {
        list("STATUS", statuses(), STATUSES, &view, out)?;
        writeln!(out)?;
        list("CODE", ReasonCode::ALL.iter().map(|code| code.name()), CODES, &view, out)?;
        return Ok(Exit::Success);
    };
    // What kubectl calls NotReady is a node; here it is a pod, too.
    let of_kubectl = ReasonCode::of_word(code).map(ReasonCode::name).filter(|other| other != code);
    let of_kubectl = of_kubectl.and_then(|other| Some((other, section(CODES, other)?)));
    let found = match (section(CODES, code), section(STATUSES, code), of_kubectl) {
        (None, None, _) => return Err(CommandError::new(format!("{code} is not documented")).into()),
        (_, Some(state), Some((other, reason))) => vec![
            (format!("{code} (state of a node's pod)"), state),
            (format!("{other} (what kubectl calls {code})"), reason),
        ],
        (Some(section), None, _) | (None, Some(section), None) => vec![((*code).to_owned(), section)],
        // Only the name of a node's state can also be a reason code.
        (Some(reason), Some(state), None) => {
            vec![(format!("{code} (reason code)"), reason), (format!("{code} (state of a node)"), state)]
        }
    };
    for (index, (heading, section)) in found.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        explain(heading, section, &view, out)?;
    }
    Ok(Exit::Success)
}

/// Writes a section below its heading.
fn explain(heading: &str, section: &str, view: &View, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "{heading}")?;
    // The document has its own line breaks.
    let paragraphs = section.trim().split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
    for (index, paragraph) in paragraphs.enumerate() {
        let lead = if index == 0 { "" } else { "\n" };
        writeln!(out, "{lead}{}", wrap(&paragraph, view.wrap_width()).join("\n"))?;
    }
    Ok(())
}

/// Returns the section about a code or a status in a document.
fn section(document: &'static str, name: &str) -> Option<&'static str> {
    document.split_once(&format!("\n## {name}\n"))?.1.split("\n#").next()
}

/// Writes a row for each name, with the first paragraph of its section.
fn list(
    heading: &'static str,
    names: impl Iterator<Item = &'static str>,
    document: &'static str,
    view: &View,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let rows = names.map(|name| {
        let paragraph = section(document, name).unwrap_or_default().trim().split("\n\n").next().unwrap_or_default();
        (name, paragraph.replace('\n', " "))
    });
    let rows: Vec<(&str, String)> = rows.collect();
    let columns = [
        Column::text(heading, |(name, _): &(&str, String)| (*name).to_owned()),
        Column::prose("MEANING", |(_, meaning): &(&str, String)| meaning.clone()),
    ];
    view.write(out, |page| table::write(&columns, &rows, page))
}
