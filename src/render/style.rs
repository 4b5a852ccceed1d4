//! The meaning of colors, which only repeat what the text says.

use std::fmt::Display;

use owo_colors::OwoColorize;

/// Needs attention.
pub fn problem(text: impl Display) -> String {
    text.red().to_string()
}

/// In progress.
pub fn in_progress(text: impl Display) -> String {
    text.yellow().to_string()
}

/// Healthy.
pub fn healthy(text: impl Display) -> String {
    text.green().to_string()
}

/// Context.
pub fn context(text: impl Display) -> String {
    text.dimmed().to_string()
}

/// The summary.
pub fn summary(text: impl Display) -> String {
    text.bold().to_string()
}

/// No style.
pub fn plain(text: impl Display) -> String {
    text.to_string()
}

/// A removed word within a removed line.
pub fn removed_word(text: impl Display) -> String {
    text.red().bold().reversed().to_string()
}

/// An added word within an added line.
pub fn added_word(text: impl Display) -> String {
    text.green().bold().reversed().to_string()
}
