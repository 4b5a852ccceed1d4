//! A page of text, which is laid out for a view and written in one go.

use std::fmt::{self, Write as _};
use std::io::{self, Write};

use anstream::adapter::strip_str;

use super::style;
use super::text::{columns, count, wrap, wrap_fix};
use super::view::View;
use crate::report::fix::Fix;

/// The text for a terminal or a pipe. `write!` appends to it, and never fails.
#[derive(Debug)]
pub struct Page<'a> {
    /// The view for which it is laid out.
    pub view: &'a View,
    text: String,
}

impl View {
    /// Returns the text that a renderer writes on a page.
    pub fn text(&self, write: impl FnOnce(&mut Page<'_>)) -> String {
        let mut page = Page { view: self, text: String::new() };
        write(&mut page);
        if self.colored { page.text } else { strip_str(&page.text).to_string() }
    }

    /// Writes the page of a renderer to a stream.
    pub(crate) fn write(&self, out: &mut dyn Write, write: impl FnOnce(&mut Page<'_>)) -> io::Result<()> {
        out.write_all(self.text(write).as_bytes())
    }
}

impl Page<'_> {
    /// Adds formatted text, for `write!` and `writeln!`.
    pub fn write_fmt(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.text.write_fmt(text);
    }

    /// Writes text in a style, wrapped at the width of the terminal.
    pub(crate) fn paragraph(&mut self, text: &str, style: fn(String) -> String) {
        self.hanging(["", ""], text, style);
    }

    /// Writes text in a style, wrapped, after an indent for its first line and one for the others.
    pub(super) fn hanging(&mut self, [mut indent, others]: [&str; 2], text: &str, style: fn(String) -> String) {
        let (text, width) = (self.view.show(text), self.view.wrap_width());
        // What fits on one line needs no room for the indent of others.
        let room =
            if columns(indent) + columns(&text) <= width { width } else { width.saturating_sub(columns(others)) };
        for line in wrap(&text, room) {
            writeln!(self, "{indent}{}", style(line));
            indent = others;
        }
    }

    /// Writes a fix after an arrow.
    pub(super) fn what_to_do(&mut self, fix: &Fix, indent: &str) {
        let arrow = self.view.arrow();
        let width = self.view.wrap_width().saturating_sub(columns(indent) + columns(arrow) + 1);
        let hanging = " ".repeat(columns(arrow));
        let mut lead = arrow;
        for line in wrap_fix(fix, self.view, width) {
            writeln!(self, "{indent}{lead} {line}");
            lead = &hanging;
        }
    }

    /// Writes a message, and the fix below it.
    pub(super) fn advice(&mut self, message: &str, fix: Option<&Fix>, indent: &str) {
        self.hanging([indent; 2], message, style::plain);
        if let Some(fix) = fix {
            self.what_to_do(fix, indent);
        }
    }

    /// Writes a fix as a remark in a style.
    pub(super) fn remark(&mut self, fix: &Fix, style: fn(String) -> String) {
        for line in wrap_fix(fix, self.view, self.view.wrap_width()) {
            writeln!(self, "{}", style(line));
        }
    }

    /// Writes how many more things there are than shown, if any, and the flag that shows them.
    pub(super) fn more(&mut self, hidden: usize, thing: &str, flag: &str) {
        if hidden > 0 {
            writeln!(self, "{}", style::context(format!("+{} ({flag})", count(hidden, &format!("more {thing}")))));
        }
    }

    /// Writes a command with its purpose.
    pub(super) fn hint(&mut self, fix: &Fix) {
        const COLUMN: usize = 15;
        let (advice, command) = self.view.suggest(fix);
        let (advice, command) = (format!("{advice}:"), command.unwrap_or_default());
        let width = self.view.wrap_width();
        if columns(&advice) <= COLUMN || columns(&advice) + 1 + columns(&command) <= width {
            writeln!(self, "{} {command}", style::context(format!("{advice:<COLUMN$}")));
            return;
        }
        for line in wrap(&advice, width) {
            writeln!(self, "{}", style::context(line));
        }
        writeln!(self, "    {command}");
    }
}
