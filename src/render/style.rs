//! The meaning of colors, which only repeat what the text says.

use std::fmt::Display;

use owo_colors::OwoColorize;

macro_rules! styles {
    ($($(#[doc = $doc:literal])+ $name:ident $(.$style:ident())*;)+) => { $(
        $(#[doc = $doc])+
        pub fn $name(text: impl Display) -> String {
            text$(.$style())*.to_string()
        }
    )+ };
}

styles! {
    /// Needs attention.
    problem.red();
    /// In progress.
    in_progress.yellow();
    /// Healthy.
    healthy.green();
    /// Context.
    context.dimmed();
    /// The summary.
    summary.bold();
    /// No style.
    plain;
    /// A removed word within a removed line.
    removed_word.red().bold().reversed();
    /// An added word within an added line.
    added_word.green().bold().reversed();
}
