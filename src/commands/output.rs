//! How a report is printed: as tables, or as data.

use std::ffi::OsStr;
use std::io::{self, Write};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{Error, ErrorKind};
use clap::{Arg, Command};
use serde::Serialize;
use serde_json::Value;

use super::Failure;
use crate::encode::json_path::JsonPath;
use crate::encode::{json, yaml};
use crate::error::CommandError;
use crate::render::view::View;
use crate::report::{Envelope, Report};

/// What `-o` takes.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// More columns or rows.
    Wide,
    /// The report as JSON.
    Json,
    /// The report as YAML.
    Yaml,
    /// Names only.
    Name,
    /// Values of the report in a text.
    JsonPath(JsonPath),
}

impl Output {
    /// Whether the report is printed as data, which is never truncated.
    pub fn is_data(&self) -> bool {
        !matches!(self, Output::Wide | Output::Name)
    }
}

/// Parses the value of `-o`, which is one of these.
#[derive(Clone)]
pub(super) struct OutputParser(pub(super) &'static [&'static str]);

impl TypedValueParser for OutputParser {
    type Value = Output;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<Output, Error> {
        let parsed = match value.to_str().and_then(|text| text.split_once('=')) {
            Some(("jsonpath", template)) if self.0.contains(&"jsonpath=") => {
                parse_template(template).map(Output::JsonPath)
            }
            _ => {
                let known = PossibleValuesParser::new(self.possible_values().into_iter().flatten());
                return known.parse_ref(command, argument, value).and_then(|name| match name.as_str() {
                    "wide" => Ok(Output::Wide),
                    "json" => Ok(Output::Json),
                    "yaml" => Ok(Output::Yaml),
                    "name" => Ok(Output::Name),
                    _ => Err(invalid(command, value, "give it a value, such as jsonpath='{.kind}'")),
                });
            }
        };
        parsed.map_err(|error| invalid(command, value, &error))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values = [
            ("wide", "More columns or rows"),
            ("json", "The report as JSON"),
            ("yaml", "The report as YAML"),
            ("name", "Names only"),
            ("jsonpath=", "Chosen values in a text"),
        ];
        let values = values.into_iter().filter(|(name, _)| self.0.contains(name));
        Some(Box::new(values.map(|(name, help)| PossibleValue::new(name).help(help))))
    }
}

fn invalid(command: &Command, value: &OsStr, why: &str) -> Error {
    let message = format!("invalid --output {:?}: {why}\n", value.to_string_lossy());
    Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
}

fn parse_template(text: &str) -> Result<JsonPath, String> {
    match text.contains('{') {
        true => JsonPath::parse(text),
        false => Err("the path must be in braces, as in jsonpath='{.kind}'".to_owned()),
    }
}

/// Prints a report as data, if requested, and returns whether it did.
///
/// # Errors
///
/// Fails if a path cannot be followed, or the output cannot be written.
pub fn print_data(
    output: Option<&Output>,
    report: &mut impl Report,
    view: &View,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    match output.is_some_and(Output::is_data) {
        true => print_value(output, &complete(report, view), out),
        false => Ok(false),
    }
}

/// Prints a value that is no report as data, if requested, and returns whether it did.
///
/// # Errors
///
/// Fails if a path cannot be followed, or the output cannot be written.
pub fn print_value(output: Option<&Output>, value: &impl Serialize, out: &mut dyn Write) -> Result<bool, Failure> {
    match output {
        Some(Output::Json) => json::indented(value, out)?,
        Some(Output::Yaml) => yaml::write(value, out)?,
        Some(Output::JsonPath(template)) => {
            let text = template
                .apply(&value_of(value)?)
                .map_err(|why| CommandError::new(format!("cannot apply -o jsonpath: {why}")))?;
            out.write_all(text.as_bytes())?;
        }
        Some(Output::Wide | Output::Name) | None => return Ok(false),
    }
    Ok(true)
}

/// Prints a report as JSON over several lines.
pub(super) fn print_json(report: &mut impl Report, view: &View, out: &mut dyn Write) -> io::Result<()> {
    json::indented(&complete(report, view), out)
}

/// Prints a report as JSON on one line.
pub(super) fn print_json_line(report: &mut impl Report, view: &View, out: &mut dyn Write) -> io::Result<()> {
    json::compact(&complete(report, view), out)?;
    writeln!(out)?;
    out.flush()
}

/// Returns a report with its version and kind, and with suggestions that lead back to where it comes from.
fn complete<'a, R: Report>(report: &'a mut R, view: &View) -> Envelope<&'a R> {
    report.suggestions(&mut |fix| view.complete(fix));
    Envelope::of(report)
}

fn value_of(report: &impl Serialize) -> Result<Value, CommandError> {
    serde_json::to_value(report).map_err(|error| CommandError::new("cannot encode the report").because(error))
}
