//! The width of the terminal, which characters it can show, and which flags suggested commands need.

use super::text::some_of;
use crate::report::fix::Command;

/// What a renderer must know about the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// The width in columns that text is laid out for.
    pub width: usize,
    /// The width in columns that nothing may exceed; `None` for pipes: their output is not truncated.
    pub limit: Option<usize>,
    /// Whether lists of names are complete, however long they are.
    pub all_names: bool,
    /// Whether only ASCII characters can be shown.
    pub ascii: bool,
    /// The flags that lead a suggested command to the same cluster, as the same user.
    pub connection_flags: &'static [String],
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
            all_names: false,
            ascii,
            connection_flags: &[],
        }
    }

    /// Returns the same view without a limit, for wide tables and lists of all names.
    #[must_use]
    pub fn unlimited(self) -> Self {
        View { limit: None, all_names: true, ..self }
    }

    /// Returns how many columns of a line a list of names may take after `taken` others. A pipe gets no longer lists
    /// than a terminal: thousands of names are for `-o wide` and JSON.
    pub fn names_room(&self, taken: usize) -> usize {
        if self.all_names { usize::MAX } else { self.width.saturating_sub(taken) }
    }

    /// Lists as many names as there is room for after `taken` columns, at least one, and the number of the others.
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

    /// Returns a suggested command, sanitized.
    pub fn command(&self, command: &Command) -> String {
        self.show(&command.clone().switches(self.connection_flags).to_string())
    }

    /// Sanitizes text, and escapes non-ASCII characters if the terminal cannot show them.
    pub fn show(&self, text: &str) -> String {
        let text = crate::encode::sanitize::sanitize(text);
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
}

#[cfg(test)]
mod tests {
    use super::View;
    use crate::report::fix::Command;

    #[test]
    fn a_suggested_command_goes_to_the_same_cluster() {
        let flags = ["--context".to_owned(), "prod ctx".to_owned()].to_vec();
        let view = View { connection_flags: flags.leak(), ..View::new(None, false) };
        let command = Command::kubectl(&["ds", "undo"]).namespace("team").name("--agent");
        assert_eq!(view.command(&command), "kubectl ds undo -n team --context 'prod ctx' -- --agent");
    }
}
