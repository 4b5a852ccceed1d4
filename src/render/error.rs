//! An error, and what to do next.

use super::page::Page;
use super::style;
use crate::report::fix::Fix;

/// Writes an error and its hints. On a terminal, lines are wrapped, except commands.
pub(crate) fn write(message: &str, hints: &[Fix], page: &mut Page<'_>) {
    message.lines().for_each(|line| page.paragraph(line, style::plain));
    for hint in hints {
        page.remark(&Fix { advice: format!("hint: {}", hint.advice), ..hint.clone() }, style::plain);
    }
}
