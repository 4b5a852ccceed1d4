//! The width of the terminal, which characters it can show, and what suggested commands need.

use super::text::some_of;
use crate::encode::sanitize::{escape, sanitize};
use crate::report::fix::{Fix, Origin, PROGRAM};

/// What a renderer needs to know about the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// The width in columns for which text is laid out.
    pub width: usize,
    /// The width in columns that nothing may exceed; `None` for pipes: their output is not truncated.
    pub limit: Option<usize>,
    /// Whether text is wrapped, which it is except in a pipe.
    pub wraps: bool,
    /// Whether lists of names are complete, however long they are.
    pub all_names: bool,
    /// Whether text has colors.
    pub colored: bool,
    /// Whether only ASCII characters can be shown.
    pub ascii: bool,
    /// The source of the reports, which suggested commands have to use, too, if known.
    pub origin: Option<&'static Origin>,
    /// The name of this program in suggested commands, such as `kubectl ds`.
    pub program: &'static str,
}

/// The width in columns if it is unknown, as in a pipe.
const WIDTH_OF_A_PIPE: usize = 120;

/// The minimum width in columns; narrower terminals wrap by themselves.
const LEAST_WIDTH: usize = 40;

impl View {
    /// Creates a view with a width in columns, if known.
    pub fn new(width: Option<usize>, ascii: bool) -> Self {
        View {
            width: width.unwrap_or(WIDTH_OF_A_PIPE).max(LEAST_WIDTH),
            limit: width,
            wraps: width.is_some(),
            all_names: false,
            colored: true,
            ascii,
            origin: None,
            program: PROGRAM,
        }
    }

    /// Returns the number of columns to which text is wrapped.
    pub(crate) fn wrap_width(&self) -> usize {
        if self.wraps { self.width } else { usize::MAX }
    }

    /// Returns the same view without a limit, for wide tables and lists of all names.
    #[must_use]
    pub fn unlimited(self) -> Self {
        View { limit: None, all_names: true, ..self }
    }

    /// Returns how many columns of a line a list of names may take after `taken` others. Lists in a pipe are no longer
    /// than on a terminal: use `-o wide` or JSON for thousands of names.
    pub fn names_room(&self, taken: usize) -> usize {
        if self.all_names { usize::MAX } else { self.width.saturating_sub(taken) }
    }

    /// Lists as many names as fit after `taken` columns, at least one, and the number of the others.
    pub fn names(&self, names: &[String], taken: usize) -> String {
        some_of(names, self.names_room(taken))
    }

    /// Returns the arrow before a fix.
    pub fn arrow(&self) -> &'static str {
        if self.ascii { "->" } else { "→" }
    }

    /// Returns the arrow that marks the cause.
    pub fn back_arrow(&self) -> &'static str {
        if self.ascii { "<- this" } else { "← this" }
    }

    /// Completes a suggestion, so that it does not use another cluster by accident, and uses the name of the program.
    pub fn complete(&self, fix: &mut Fix) {
        if let Some(origin) = self.origin {
            origin.complete(fix);
        }
        fix.call(self.program);
    }

    /// Returns the advice of a fix, and its command to paste.
    pub fn suggest(&self, fix: &Fix) -> (String, Option<String>) {
        let mut fix = fix.clone();
        self.complete(&mut fix);
        (self.show(&fix.advice), fix.command.map(|command| command.quoted(self.ascii)))
    }

    /// Sanitizes text, and escapes non-ASCII characters if the terminal cannot show them.
    pub fn show(&self, text: &str) -> String {
        let text = sanitize(text);
        if self.ascii && !text.is_ascii() {
            text.chars()
                .map(|c| match c {
                    '→' => "->".to_owned(),
                    '…' => "...".to_owned(),
                    '–' | '—' => "-".to_owned(),
                    '≥' => ">=".to_owned(),
                    '≤' => "<=".to_owned(),
                    '×' => "x".to_owned(),
                    c if c.is_ascii() => c.to_string(),
                    c => c.escape_unicode().to_string(),
                })
                .collect()
        } else {
            text
        }
    }

    /// Makes a line of a script or a log safe, and keeps its spaces.
    pub(super) fn verbatim(&self, line: &str) -> String {
        let line = escape(line);
        if !self.ascii {
            return line;
        }
        line.chars().map(|c| if c.is_ascii() { c.to_string() } else { c.escape_unicode().to_string() }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::View;
    use crate::report::fix::{Command, Fix, Origin};

    #[test]
    fn a_suggested_command_is_quoted_for_the_terminal() {
        let origin = Box::leak(Box::new(Origin::Cluster(Command::default().flag("--context", "größe"))));
        let shown = |ascii| {
            let view = View { origin: Some(origin), ..View::new(None, ascii) };
            view.suggest(&Fix::new("to undo", Command::kubectl(&["ds", "undo"]).namespace("team").name("--agent"))).1
        };
        assert_eq!(shown(false).unwrap(), "kubectl ds undo -n team --context 'größe' -- --agent");
        assert_eq!(shown(true).unwrap(), r"kubectl ds undo -n team --context $'\147r\303\266\303\237e' -- --agent");
    }
}
