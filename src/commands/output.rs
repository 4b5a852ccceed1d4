//! How a report is printed: as tables, or as data.

use std::io::Write;

use clap::ValueEnum;
use serde::Serialize;

use super::Failure;
use crate::encode::{json, yaml};

/// What `-o` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// More columns or rows.
    Wide,
    /// The report as JSON.
    Json,
    /// The report as YAML.
    Yaml,
    /// Names only.
    Name,
}

/// Prints a report as data, where that was asked for, and tells whether it was.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub fn print_data(output: Option<Output>, report: &impl Serialize, out: &mut dyn Write) -> Result<bool, Failure> {
    match output {
        Some(Output::Json) => json::indented(report, out)?,
        Some(Output::Yaml) => yaml::write(report, out)?,
        Some(Output::Wide | Output::Name) | None => return Ok(false),
    }
    Ok(true)
}
