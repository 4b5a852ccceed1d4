//! A command's access to the outside: streams, the terminal, the environment, the clock, and the request to stop.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use jiff::Timestamp;

use crate::interrupt::Interrupt;

/// The environment variable that sets the width of what is printed, in columns.
pub const WIDTH: &str = "KUBECTL_DS_WIDTH";

/// The environment of a command, passed in from `main`; nothing below `main` asks the system itself.
///
/// Standard output is passed separately, since it carries only data.
pub struct Io<'a> {
    /// Standard input.
    pub input: &'a mut dyn Read,
    /// Standard error: everything that is not data.
    pub err: &'a mut dyn Write,
    /// Whether standard input is a terminal.
    pub input_is_terminal: bool,
    /// Whether standard output is a terminal.
    pub out_is_terminal: bool,
    /// Whether standard error is a terminal, so that progress can be shown.
    pub err_is_terminal: bool,
    /// Returns the current width of the terminal in columns; `None` if standard output is not one.
    pub terminal_width: fn() -> Option<usize>,
    /// Returns the current columns and rows of the terminal of standard error; `None` if it is not one, or has no size.
    pub terminal_size: fn() -> Option<(usize, usize)>,
    /// Whether the locale can show more than ASCII.
    pub unicode: bool,
    /// The environment variables.
    pub environment: BTreeMap<String, String>,
    /// Returns the time.
    pub clock: fn() -> Timestamp,
    /// Whether the command has to stop.
    pub interrupt: Interrupt,
    /// How to call the program again, such as `kubectl ds`.
    pub program: &'static str,
    /// Number of warnings from a server that have been written, for `--warnings-as-errors`.
    pub server_warnings: usize,
    /// Whether waits are reported: not for one of several clusters, which report them together.
    pub tells_waits: bool,
}

impl Io<'_> {
    /// Returns the same environment for unattended work: nothing prompts, and no progress is shown.
    pub(crate) fn with_streams<'a>(&self, input: &'a mut dyn Read, err: &'a mut dyn Write) -> Io<'a> {
        Io {
            input,
            err,
            input_is_terminal: false,
            out_is_terminal: false,
            err_is_terminal: false,
            environment: self.environment.clone(),
            interrupt: self.interrupt.clone(),
            server_warnings: 0,
            tells_waits: false,
            ..*self
        }
    }

    /// Returns an environment variable; one that is empty counts as unset.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Reports that the command waits for typed or pasted input if it is to read `-` and standard input is a terminal.
    ///
    /// # Errors
    ///
    /// Fails if standard error cannot be written.
    pub fn await_input(&mut self, path: &str, what: &str) -> io::Result<()> {
        match self.input_is_terminal && path == "-" {
            true => writeln!(self.err, "reading {what} from the terminal; press Ctrl-D to end it"),
            false => Ok(()),
        }
    }

    /// Returns the current width in columns: that of the environment, else the terminal's.
    pub fn width(&self) -> Option<usize> {
        self.columns().or_else(self.terminal_width)
    }

    /// Returns the width in the environment for this program, or in `COLUMNS`, if it is a number.
    pub fn columns(&self) -> Option<usize> {
        let mut columns = [WIDTH, "COLUMNS"].into_iter().filter_map(|name| self.variable(name)?.parse().ok());
        columns.find(|columns| *columns > 0)
    }
}

/// Tells whether the locale uses UTF-8; an unset locale counts as such.
pub fn is_unicode(environment: &BTreeMap<String, String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| environment.get(name).filter(|value| !value.is_empty()));
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.ends_with("utf-8") || locale.ends_with("utf8")
    })
}

/// Standard error: a write error does not end a command half-way, since there is nowhere to report it.
pub struct Unfailing<W>(pub W);

impl<W: Write> Write for Unfailing<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        Ok(self.0.write(buffer).unwrap_or(buffer.len()))
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}
