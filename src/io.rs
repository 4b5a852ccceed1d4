//! The only way to the outside: streams, the width of the terminal, the environment and the clock.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use jiff::Timestamp;

/// Streams and surroundings, handed down from `main`; nothing below it asks the system itself.
pub struct Io<'a> {
    /// Standard input.
    pub input: &'a mut dyn Read,
    /// Standard output: data and nothing else. Buffered.
    pub out: &'a mut dyn Write,
    /// Standard error: everything that is no data.
    pub err: &'a mut dyn Write,
    /// Whether standard output is a terminal.
    pub out_is_terminal: bool,
    /// Whether standard error is a terminal, so that progress can be shown.
    pub err_is_terminal: bool,
    /// The width to write tables for, in columns; nothing where there is no limit.
    pub width: Option<usize>,
    /// Whether the locale can show more than ASCII.
    pub unicode: bool,
    /// The environment variables.
    pub environment: BTreeMap<String, String>,
    /// The time at the start.
    pub now: Timestamp,
}

impl Io<'_> {
    /// Returns an environment variable; one that is empty counts as unset.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}
