//! The progress of reading a big cluster.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::text::cut;

/// What has been read so far; shared between clones.
#[derive(Debug, Clone, Default)]
pub struct ReadProgress(Arc<Mutex<BTreeMap<&'static str, (usize, usize)>>>);

impl ReadProgress {
    /// Adds objects of a resource that have been read, and the bytes that they came in.
    pub fn add(&self, resource: &'static str, objects: usize, bytes: usize) {
        let mut read = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (all_objects, all_bytes) = read.entry(resource).or_default();
        *all_objects += objects;
        *all_bytes += bytes;
    }

    /// Returns the progress line after so long a wait.
    pub fn line(&self, waited: Duration) -> String {
        let long = waited >= LONG_WAIT;
        let long = long.then(|| format!("still waiting for the API server ({}s)", waited.as_secs()));
        let read = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if read.is_empty() {
            return long.unwrap_or_else(|| "waiting for the API server".to_owned());
        }
        let bytes: usize = read.values().map(|(_, bytes)| bytes).sum();
        let objects: Vec<String> =
            read.iter().map(|(resource, (objects, _))| format!("{objects} {resource}")).collect();
        let read = format!("read {} ({} MB)", objects.join(", "), bytes / 1_000_000);
        long.into_iter().chain([read]).collect::<Vec<_>>().join("; ")
    }
}

/// The wait after which it is said how long it has been.
pub(crate) const LONG_WAIT: Duration = Duration::from_secs(10);

/// The line of a terminal that progress is drawn in; dropping it clears the line.
pub(crate) struct ProgressLine<'a> {
    err: &'a mut dyn Write,
    is_drawn: bool,
}

/// Moves to the start of the line and clears it.
const CLEAR: &str = "\r\x1b[K";

impl<'a> ProgressLine<'a> {
    pub(crate) fn new(err: &'a mut dyn Write) -> Self {
        ProgressLine { err, is_drawn: false }
    }

    /// Draws the line, cut before the last of the columns: one that wraps would leave rows behind. Progress that cannot
    /// be drawn is no reason to stop.
    pub(crate) fn draw(&mut self, line: &str, columns: usize, ascii: bool) {
        self.is_drawn = true;
        let line = cut(line, columns.saturating_sub(1), ascii);
        let _ = write!(self.err, "{CLEAR}{line}").and_then(|()| self.err.flush());
    }
}

impl Drop for ProgressLine<'_> {
    fn drop(&mut self) {
        if self.is_drawn {
            let _ = write!(self.err, "{CLEAR}").and_then(|()| self.err.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LONG_WAIT, ProgressLine, ReadProgress};

    #[test]
    fn the_line_says_what_has_been_read() {
        let progress = ReadProgress::default();
        assert_eq!(progress.line(Duration::ZERO), "waiting for the API server");
        assert_eq!(progress.line(LONG_WAIT), "still waiting for the API server (10s)");
        progress.clone().add("pods", 1_200, 24_000_000);
        progress.add("nodes", 5_000, 63_000_000);
        assert_eq!(progress.line(Duration::ZERO), "read 5000 nodes, 1200 pods (87 MB)");
        assert_eq!(
            progress.line(2 * LONG_WAIT),
            "still waiting for the API server (20s); read 5000 nodes, 1200 pods (87 MB)"
        );
    }

    #[test]
    fn the_line_never_wraps() {
        let progress = ReadProgress::default();
        progress.add("nodes", 5_000, 63_000_000);
        progress.add("pods", 1_200, 24_000_000);
        for (columns, expected) in
            [(35, "read 5000 nodes, 1200 pods (87 MB)"), (34, "read 5000 nodes, 1200 pods (87 M…"), (10, "read 500…")]
        {
            let mut err = Vec::new();
            let mut line = ProgressLine::new(&mut err);
            line.draw(&progress.line(Duration::ZERO), columns, false);
            drop(line);
            assert_eq!(String::from_utf8(err).unwrap(), format!("\r\x1b[K{expected}\r\x1b[K"));
        }
    }
}
