//! Standard output once nothing may hide that a change was applied.

use std::io::{self, Write};

/// Standard output after a change was applied: that it cannot be written does not end the command.
pub(super) struct OutAfterChange<'a> {
    pub(super) out: &'a mut dyn Write,
    /// Why it could not be written first.
    pub(super) failure: Option<io::Error>,
}

impl<'a> OutAfterChange<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        OutAfterChange { out, failure: None }
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
