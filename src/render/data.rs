//! Reports as data.

use std::io::{self, Write};

use serde::Serialize;

/// Writes a report as JSON, indented as kubectl does.
///
/// # Errors
///
/// Fails where the output cannot be written.
pub fn json(report: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    report.serialize(&mut serde_json::Serializer::with_formatter(&mut *out, formatter))?;
    writeln!(out)
}

/// Writes a report as YAML that YAML 1.1 readers, kubectl among them, read as the same values.
///
/// # Errors
///
/// Fails where the output cannot be written.
pub fn yaml(report: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    let options = serde_saphyr::ser_options! { min_fold_chars: usize::MAX, folded_wrap_chars: usize::MAX };
    let text = serde_saphyr::to_string_with_options(report, options).map_err(io::Error::other)?;
    out.write_all(text.as_bytes())
}
