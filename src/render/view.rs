//! How wide a reader's screen is, and which characters it can show.

/// What a renderer must know of the reader's screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// The width in columns that text is laid out for.
    pub width: usize,
    /// The width in columns that nothing may exceed; nothing in a pipe, where nothing is cut.
    pub limit: Option<usize>,
    /// Whether only ASCII characters can be shown.
    pub ascii: bool,
}

/// The width in columns where none is known, as in a pipe.
const WIDTH_OF_A_PIPE: usize = 120;

/// The least width in columns that text is laid out for; narrower screens wrap by themselves.
const LEAST_WIDTH: usize = 40;

impl View {
    /// Makes a view of a width in columns, or of one that is not known.
    pub fn new(width: Option<usize>, ascii: bool) -> Self {
        View { width: width.unwrap_or(WIDTH_OF_A_PIPE).max(LEAST_WIDTH), limit: width, ascii }
    }

    /// Returns the same view without a limit, for tables that were asked to be wide.
    #[must_use]
    pub fn unlimited(self) -> Self {
        View { limit: None, ..self }
    }

    /// Returns the arrow that points at what to do.
    pub fn arrow(&self) -> &'static str {
        if self.ascii { "->" } else { "→" }
    }

    /// Returns the arrow that points back at the cause.
    pub fn back_arrow(&self) -> &'static str {
        if self.ascii { "<- this" } else { "← this" }
    }

    /// Returns text with characters beyond ASCII escaped, where the screen cannot show them.
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
