//! What colours mean. They only repeat what the words say.

use std::fmt::Display;

use owo_colors::OwoColorize;

/// Marks what needs somebody.
pub fn trouble(text: impl Display) -> String {
    text.red().to_string()
}

/// Marks what is moving by itself.
pub fn moving(text: impl Display) -> String {
    text.yellow().to_string()
}

/// Marks what is well.
pub fn well(text: impl Display) -> String {
    text.green().to_string()
}

/// Marks context.
pub fn context(text: impl Display) -> String {
    text.dimmed().to_string()
}

/// Marks the answer.
pub fn answer(text: impl Display) -> String {
    text.bold().to_string()
}

/// Leaves text as it is.
pub fn plain(text: impl Display) -> String {
    text.to_string()
}

/// Marks a word that is not there any more, within a line that is marked already.
pub fn removed_word(text: impl Display) -> String {
    text.red().bold().reversed().to_string()
}

/// Marks a word that was not there before, within a line that is marked already.
pub fn added_word(text: impl Display) -> String {
    text.green().bold().reversed().to_string()
}
