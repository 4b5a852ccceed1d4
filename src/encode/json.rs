//! Reports as data.

use std::io::{self, Write};

use serde::Serialize;

use super::text::is_unsafe;
use super::tree::Tree;
use super::yaml;

/// Writes a report as JSON, indented as kubectl does.
///
/// Characters that could steer a terminal are escaped, which in JSON changes no value.
///
/// # Errors
///
/// Fails where the output cannot be written.
pub fn json(report: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut text = Vec::new();
    report.serialize(&mut serde_json::Serializer::with_formatter(&mut text, formatter))?;
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    let mut rest = text.as_str();
    while let Some(at) = rest.find(|c: char| c != '\n' && is_unsafe(c)) {
        out.write_all(&rest.as_bytes()[..at])?;
        let mut rest_characters = rest[at..].chars();
        for unit in rest_characters.by_ref().take(1).collect::<String>().encode_utf16() {
            write!(out, "\\u{unit:04x}")?;
        }
        rest = rest_characters.as_str();
    }
    writeln!(out, "{rest}")
}

/// Writes a report as YAML that YAML 1.1 readers, kubectl among them, read as the same values.
///
/// # Errors
///
/// Fails where the output cannot be written.
pub fn yaml(report: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(yaml::text(&Tree::of(report)?, false).as_bytes())
}
