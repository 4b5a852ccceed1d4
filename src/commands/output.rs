//! How a report is printed: as tables, or as data.

use std::ffi::OsStr;
use std::io::{self, Write};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{Error, ErrorKind};
use clap::{Arg, Command};
use serde_json::Value;

use super::Failure;
use crate::encode::json_path::{Path, Template, shown};
use crate::encode::{json, yaml};
use crate::error::CommandError;
use crate::render::table::{self, Column, Heading};
use crate::render::view::View;
use crate::report::Report;

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
    JsonPath(Template),
    /// Values of the report's rows in a table.
    CustomColumns(CustomColumns),
}

/// The columns of a table that the user defines.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomColumns {
    heading: Heading,
    /// The heading and the path of each.
    columns: Vec<(String, Path)>,
}

impl Output {
    /// Whether the report is printed as data, which is never truncated.
    pub fn is_data(&self) -> bool {
        !matches!(self, Output::Wide | Output::Name)
    }

    /// Returns the same output with or without the headings of custom columns.
    #[must_use]
    pub fn with(self, heading: Heading) -> Self {
        match self {
            Output::CustomColumns(columns) => Output::CustomColumns(CustomColumns { heading, ..columns }),
            other => other,
        }
    }
}

/// Parses the value of `-o`.
#[derive(Clone)]
pub(super) struct OutputParser;

impl TypedValueParser for OutputParser {
    type Value = Output;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<Output, Error> {
        let parsed = match value.to_str().and_then(|text| text.split_once('=')) {
            Some(("jsonpath", template)) => parse_template(template).map(Output::JsonPath),
            Some(("custom-columns", columns)) => parse_columns(columns).map(Output::CustomColumns),
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
            ("custom-columns=", "Chosen values in a table"),
        ];
        Some(Box::new(values.into_iter().map(|(name, help)| PossibleValue::new(name).help(help))))
    }
}

fn invalid(command: &Command, value: &OsStr, why: &str) -> Error {
    let message = format!("invalid --output {:?}: {why}\n", value.to_string_lossy());
    Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
}

fn parse_template(text: &str) -> Result<Template, String> {
    match text.contains('{') {
        true => Template::parse(text),
        false => Err("the path must be in braces, as in jsonpath='{.kind}'".to_owned()),
    }
}

fn parse_columns(text: &str) -> Result<CustomColumns, String> {
    let column = |column: &str| {
        let expected = || format!("expected HEADING:PATH instead of {column:?}");
        let (heading, path) = column.split_once(':').ok_or_else(expected)?;
        Ok((heading.to_owned(), Path::parse_relaxed(path)?))
    };
    let columns = text.split(',').map(column).collect::<Result<_, String>>()?;
    Ok(CustomColumns { heading: Heading::Shown, columns })
}

/// Prints a report as data, if requested, and returns whether it did.
///
/// # Errors
///
/// Fails if a path cannot be followed, or the output cannot be written.
pub fn print_data<R: Report>(
    output: Option<&Output>,
    report: &mut R,
    view: &View,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    if output.is_some_and(Output::is_data) {
        report.suggestions(&mut |fix| view.complete(fix));
    }
    match output {
        Some(Output::Json) => json::indented(report, out)?,
        Some(Output::Yaml) => yaml::write(report, out)?,
        Some(Output::JsonPath(template)) => {
            let text = template.apply(&value_of(report)?).map_err(|why| not_applied("jsonpath", &why))?;
            out.write_all(text.as_bytes())?;
        }
        Some(Output::CustomColumns(columns)) => columns.write(&value_of(report)?, R::ROWS, out)?,
        Some(Output::Wide | Output::Name) | None => return Ok(false),
    }
    Ok(true)
}

/// Prints a report as JSON over several lines.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub(super) fn print_json(report: &mut impl Report, view: &View, out: &mut dyn Write) -> io::Result<()> {
    report.suggestions(&mut |fix| view.complete(fix));
    json::indented(report, out)
}

/// Prints a report as JSON on one line.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub(super) fn print_json_line(report: &mut impl Report, view: &View, out: &mut dyn Write) -> io::Result<()> {
    report.suggestions(&mut |fix| view.complete(fix));
    json::compact(report, out)?;
    writeln!(out)?;
    out.flush()
}

fn value_of(report: &impl Report) -> Result<Value, CommandError> {
    serde_json::to_value(report).map_err(|error| CommandError::new("cannot encode the report").because(error))
}

fn not_applied(format: &str, why: &str) -> CommandError {
    CommandError::new(format!("cannot apply -o {format}: {why}"))
}

impl CustomColumns {
    /// Writes a row for each element of the report's field, or for the report if no field is given.
    fn write(&self, report: &Value, rows: Option<&str>, out: &mut dyn Write) -> Result<(), Failure> {
        let rows = match rows.and_then(|field| report[field].as_array()) {
            Some(rows) => rows.as_slice(),
            None => std::slice::from_ref(report),
        };
        let cells = |row| self.columns.iter().map(|(_, path)| cell(path, row)).collect::<Result<Vec<String>, String>>();
        let rows = rows.iter().map(cells).collect::<Result<Vec<_>, _>>();
        let rows = rows.map_err(|why| not_applied("custom-columns", &why))?;
        let headings = self.columns.iter().map(|(heading, _)| heading).enumerate();
        let layout: Vec<_> = headings
            .map(|(index, heading)| Column::text(heading, move |row: &Vec<String>| row[index].clone()))
            .collect();
        Ok(table::write_with(self.heading, &layout, &rows, &View::new(None, false), out)?)
    }
}

/// Returns the values that a path leads to, as kubectl joins them.
fn cell(path: &Path, row: &Value) -> Result<String, String> {
    let found = path.find(row)?.into_iter().filter(|value| !value.is_null());
    let texts: Vec<String> = found.map(|value| shown(value).replace('\n', "\\n")).collect();
    Ok(if texts.is_empty() { "<none>".to_owned() } else { texts.join(",") })
}
