//! Standard output after a change, when nothing may hide that the change was applied.

use std::io::{self, Write};

use super::Failure;
use crate::error::{CommandError, Exit};

/// Standard output after a change was applied: a failure to write does not end the command.
pub(super) struct OutAfterChange<'a> {
    pub(super) out: &'a mut dyn Write,
    /// The first write error.
    pub(super) failure: Option<io::Error>,
}

impl<'a> OutAfterChange<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        OutAfterChange { out, failure: None }
    }

    /// Returns how the command ends: the change must look neither as if it had failed, nor as if it had been reported.
    pub(super) fn end(self, ended: Result<Exit, Failure>, done: &str) -> Result<Exit, Failure> {
        match (ended?, self.failure) {
            (exit, Some(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
                let exit = if exit == Exit::Success { Exit::NotObserved } else { exit };
                let error = CommandError::new(format!("{done}, and the output cannot be written")).because(error);
                Err(error.exit(exit).into())
            }
            (exit, _) => Ok(exit),
        }
    }

    fn note(&mut self, result: io::Result<()>) {
        if let (Err(error), None) = (result, &self.failure) {
            self.failure = Some(error);
        }
    }
}

impl Write for OutAfterChange<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write_all(bytes);
        self.note(written);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.note(flushed);
        Ok(())
    }
}
