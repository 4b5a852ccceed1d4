//! Errors in kubectl's style: what failed, why, and what to do next.

use std::error::Error;
use std::fmt;

use crate::report::fix::Fix;

/// The exit codes, documented in docs/exit-codes.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done; the answer to the question, if any, is yes.
    Success = 0,
    /// Something failed.
    Error = 1,
    /// The arguments are invalid.
    Usage = 2,
    /// Done; the answer to the question is no.
    No = 3,
    /// The time allowed ran out.
    TimedOut = 4,
    /// Done; the answer is partial, so the question remains open.
    Partial = 5,
    /// A change was applied, but the controller was not seen to act on it.
    NotObserved = 6,
    /// A change was sent, and it is unknown whether it was applied.
    OutcomeUnknown = 7,
    /// Ctrl-C was pressed, or the process was told to stop.
    Interrupted = 130,
}

/// An error at the edge: what is printed, and the exit code.
#[derive(Debug)]
pub struct CommandError {
    /// The exit code.
    pub exit: Exit,
    /// What failed, in a fragment; its sources say why.
    pub message: String,
    /// Why it failed.
    pub source: Option<Box<dyn Error + Send + Sync>>,
    /// Other errors of the same kind, each printed on a separate line.
    pub also: Vec<CommandError>,
    /// What to do next, for all of them.
    pub hints: Vec<Fix>,
    /// Whether the message is printed without the prefix `error: `, like kubectl's output of server messages.
    pub stands_alone: bool,
    /// Whether the command has changed nothing, which is the first hint.
    pub(crate) is_unchanged: bool,
}

impl CommandError {
    /// Creates an error with exit code 1.
    pub fn new(message: impl Into<String>) -> Self {
        CommandError {
            exit: Exit::Error,
            message: message.into(),
            source: None,
            also: Vec::new(),
            hints: Vec::new(),
            stands_alone: false,
            is_unchanged: false,
        }
    }

    /// Notes that nothing was changed.
    #[must_use]
    pub(crate) fn unchanged(self) -> Self {
        CommandError { is_unchanged: true, ..self }
    }

    /// Creates an error about the arguments, with exit code 2.
    pub fn usage(message: impl Into<String>) -> Self {
        CommandError::new(message).exit(Exit::Usage)
    }

    /// Sets the exit code.
    #[must_use]
    pub(crate) fn exit(self, exit: Exit) -> Self {
        CommandError { exit, ..self }
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Adds another error of the same kind.
    #[must_use]
    pub(crate) fn and(mut self, mut other: CommandError) -> Self {
        self.hints.append(&mut other.hints);
        self.also.push(other);
        self
    }

    /// Returns the lines of this error and of the added ones, each written by `line`.
    pub(crate) fn lines(&self, line: impl Fn(&CommandError) -> String) -> String {
        let lines: Vec<String> = std::iter::once(self).chain(&self.also).map(line).collect();
        lines.join("\n")
    }

    /// Returns the error as kubectl prints it.
    pub(crate) fn printed(&self) -> String {
        let prefix = if self.stands_alone { "" } else { "error: " };
        format!("{prefix}{self}")
    }

    /// Returns all hints.
    pub(crate) fn all_hints(&self) -> Vec<Fix> {
        let unchanged = self.is_unchanged.then(|| "nothing was changed".into());
        unchanged.into_iter().chain(self.hints.iter().cloned()).collect()
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Fix>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds several things to do next.
    #[must_use]
    pub(crate) fn hints(mut self, hints: impl IntoIterator<Item = impl Into<Fix>>) -> Self {
        self.hints.extend(hints.into_iter().map(Into::into));
        self
    }
}

/// Writes the message, then each source that adds information.
impl fmt::Display for CommandError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.message.clone();
        let mut source = self.source.as_deref().map(|source| source as &dyn Error);
        while let Some(error) = source {
            let words = error.to_string();
            if !text.contains(&words) {
                text.push_str(": ");
                text.push_str(&words);
            }
            source = error.source();
        }
        formatter.write_str(&text)
    }
}

impl Error for CommandError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
