//! An error, and what to do next.

use std::io::{self, Write};

use super::text::{wrap, wrap_fix};
use super::view::View;
use crate::report::fix::Fix;

/// Writes an error and its hints. On a terminal lines are wrapped, but no command is.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub(crate) fn write(message: &str, hints: &[Fix], view: &View, err: &mut dyn Write) -> io::Result<()> {
    let width = view.wrap_width();
    for line in message.lines().flat_map(|line| wrap(&view.show(line), width)) {
        writeln!(err, "{line}")?;
    }
    let hints = hints.iter().map(|hint| Fix { advice: format!("hint: {}", hint.advice), ..hint.clone() });
    hints.flat_map(|hint| wrap_fix(&hint, view, width)).try_for_each(|line| writeln!(err, "{line}"))
}
