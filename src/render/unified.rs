//! Two values as a unified diff of their YAML, which `patch` and other programs can read.

use std::io::{self, Write};

use serde_json::Value;

use super::line_diff::{Mark, hunks};
use super::style;
use super::text::escape;
use super::tree::Tree;
use super::view::View;
use super::yaml;

/// A value, and what it is called where it is compared with another.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelled {
    /// What it is called, such as `agent revision 2`.
    pub label: String,
    /// The value, such as a pod template.
    pub value: Value,
}

impl Labelled {
    /// Gives a value a name.
    pub fn new(label: impl Into<String>, value: Value) -> Self {
        Labelled { label: label.into(), value }
    }

    /// Writes the value as YAML, with its fields in the customary order.
    pub fn yaml(&self, ascii: bool) -> String {
        yaml::text(&Tree::customary(&self.value), ascii)
    }
}

/// Writes a unified diff with so many lines of context, and tells whether there was a difference.
///
/// # Errors
///
/// Fails where the output cannot be written.
pub fn write(from: &Labelled, to: &Labelled, context: usize, view: &View, out: &mut dyn Write) -> io::Result<bool> {
    let (old, new) = (from.yaml(view.ascii), to.yaml(view.ascii));
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let hunks = hunks(&old, &new, context);
    if hunks.is_empty() {
        return Ok(false);
    }
    writeln!(out, "{}", style::answer(format!("--- {}", view.show(&from.label))))?;
    writeln!(out, "{}", style::answer(format!("+++ {}", view.show(&to.label))))?;
    for hunk in hunks {
        writeln!(out, "{}", style::context(&hunk.place))?;
        for (mark, pieces) in hunk.lines {
            writeln!(out, "{}", line(mark, "", &pieces))?;
        }
    }
    Ok(true)
}

/// Writes a line of a hunk with its mark, and points at the words that differ.
pub(super) fn line(mark: Mark, indent: &str, pieces: &[(bool, String)]) -> String {
    let (sign, paint, point): (_, fn(String) -> String, fn(String) -> String) = match mark {
        Mark::Both => (" ", style::plain, style::plain),
        Mark::From => ("-", style::trouble, style::removed_word),
        Mark::To => ("+", style::well, style::added_word),
    };
    let mut line = paint(format!("{sign}{indent}"));
    for (differs, piece) in pieces {
        line.push_str(&if *differs { point(escape(piece)) } else { paint(escape(piece)) });
    }
    line
}
