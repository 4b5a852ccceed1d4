//! The width of the terminal, and which characters it can show.

/// What a renderer must know about the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// The width in columns that text is laid out for.
    pub width: usize,
    /// The width in columns that nothing may exceed; `None` for pipes, where nothing is truncated.
    pub limit: Option<usize>,
    /// Whether only ASCII characters can be shown.
    pub ascii: bool,
}

/// The width in columns if it is unknown, as in a pipe.
const WIDTH_OF_A_PIPE: usize = 120;

/// The minimum width in columns; narrower terminals wrap by themselves.
const LEAST_WIDTH: usize = 40;

impl View {
    /// Creates a view with a width in columns, if known.
    pub fn new(width: Option<usize>, ascii: bool) -> Self {
        View { width: width.unwrap_or(WIDTH_OF_A_PIPE).max(LEAST_WIDTH), limit: width, ascii }
    }

    /// Returns the same view without a limit, for wide tables.
    #[must_use]
    pub fn unlimited(self) -> Self {
        View { limit: None, ..self }
    }

    /// Returns the arrow before a fix.
    pub fn arrow(&self) -> &'static str {
        if self.ascii { "->" } else { "→" }
    }

    /// Returns the arrow that marks the cause.
    pub fn back_arrow(&self) -> &'static str {
        if self.ascii { "<- this" } else { "← this" }
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
