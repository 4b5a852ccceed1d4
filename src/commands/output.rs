//! How a report is printed: as tables, or as data.

use std::io::{self, Write};

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;

use super::Failure;
use crate::encode::sanitize::sanitize;
use crate::encode::{json, yaml};
use crate::render::page::Page;
use crate::render::view::View;
use crate::report::{Envelope, Report};

/// What `-o` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// More columns or rows
    Wide,
    /// The report as JSON
    Json,
    /// The report as YAML
    Yaml,
    /// Names only
    Name,
}

impl Output {
    /// Whether the report is printed as data, which is never truncated.
    pub fn is_data(self) -> bool {
        matches!(self, Output::Json | Output::Yaml)
    }
}

/// Parses the value of a flag that takes only some of its type, such as the formats of `-o`.
pub(super) fn formats<T: ValueEnum + Send + Sync + 'static>(
    offered: &[T],
) -> impl TypedValueParser<Value = T> + use<T> {
    PossibleValuesParser::new(offered.iter().filter_map(T::to_possible_value)).try_map(|name| T::from_str(&name, false))
}

/// Returns whether the reader has seen enough, as with `head`: what the command has found out is in its exit code, too.
pub(super) fn has_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Prints the report of a command that changes nothing as data or names if requested, or else as the text that is written on a page;
/// as much of it as is read.
pub(super) fn print<R: Report>(
    output: Option<Output>,
    report: &mut R,
    view: &View,
    out: &mut dyn Write,
    write: impl FnOnce(&R, &mut Page<'_>),
) -> Result<(), Failure> {
    let printed = || {
        if output == Some(Output::Name) {
            report.names().iter().try_for_each(|name| writeln!(out, "{}", sanitize(name)))?;
        } else if !print_data(output, report, view, out)? {
            view.write(out, |page| write(report, page))?;
        }
        Ok(())
    };
    match printed() {
        Err(Failure::Output(error)) if has_closed(&error) => Ok(()),
        printed => printed,
    }
}

/// Prints a report as data, if requested, and returns whether it did.
pub fn print_data(
    output: Option<Output>,
    report: &mut impl Report,
    view: &View,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    if output.is_some_and(Output::is_data) { print_value(output, &complete(report, view), out) } else { Ok(false) }
}

/// Prints a value that is not a report as data, if requested, and returns whether it did.
pub fn print_value(output: Option<Output>, value: &impl Serialize, out: &mut dyn Write) -> Result<bool, Failure> {
    match output {
        Some(Output::Json) => json::indented(value, out)?,
        Some(Output::Yaml) => yaml::write(value, out)?,
        Some(Output::Wide | Output::Name) | None => return Ok(false),
    }
    Ok(true)
}

/// Prints a report as JSON over several lines.
pub(super) fn print_json(report: &mut impl Report, view: &View, out: &mut dyn Write) -> io::Result<()> {
    json::indented(&complete(report, view), out)
}

pub(super) fn print_json_line(report: &mut impl Report, view: &View, out: &mut dyn Write) -> io::Result<()> {
    json::compact(&complete(report, view), out)?;
    writeln!(out)?;
    out.flush()
}

/// Returns a report with its version and kind, and with suggestions that use the same source.
fn complete<'a, R: Report>(report: &'a mut R, view: &View) -> Envelope<&'a R> {
    report.suggestions(&mut |fix| view.complete(fix));
    Envelope::of(report)
}
