//! The progress of reading a big cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::text::cut;
use crate::encode::sanitize::sanitize;

/// What has been read so far; shared between clones.
#[derive(Debug, Clone, Default)]
pub struct ReadProgress(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The objects by resource, and their size as received.
    read: BTreeMap<&'static str, (usize, usize)>,
    /// Number of clusters; 0 for a single one.
    clusters: usize,
    /// The clusters that have not answered completely yet.
    missing: BTreeSet<String>,
}

impl ReadProgress {
    /// Creates the progress of several clusters.
    pub fn of_clusters(names: impl IntoIterator<Item = String>) -> Self {
        let missing = BTreeSet::from_iter(names);
        ReadProgress(Arc::new(Mutex::new(State { clusters: missing.len(), missing, ..State::default() })))
    }

    /// Records that a cluster has answered completely, or has failed.
    pub fn is_done(&self, cluster: &str) {
        self.state().missing.remove(cluster);
    }

    /// Locks the state, which is consistent after every change.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds objects of a resource that have been read, and their size as received.
    pub fn add(&self, resource: &'static str, objects: usize, bytes: usize) {
        let mut state = self.state();
        let (all_objects, all_bytes) = state.read.entry(resource).or_default();
        *all_objects += objects;
        *all_bytes += bytes;
    }

    /// Returns the progress line after a given wait.
    pub fn line(&self, waited: Duration) -> String {
        let State { read, clusters, missing } = &*self.state();
        let names = || missing.iter().map(|name| sanitize(name)).collect::<Vec<_>>().join(", ");
        let whom = match clusters {
            0 => "the API server".to_owned(),
            clusters => format!("{} of {clusters} clusters: {}", missing.len(), names()),
        };
        let long = waited >= LONG_WAIT;
        let long = long.then(|| format!("still waiting for {whom} ({}s)", waited.as_secs()));
        if read.is_empty() {
            return long.unwrap_or_else(|| format!("waiting for {whom}"));
        }
        let long = long.or_else(|| (*clusters > 0).then(|| format!("waiting for {whom}")));
        let bytes: usize = read.values().map(|(_, bytes)| bytes).sum();
        let objects: Vec<String> =
            read.iter().map(|(resource, (objects, _))| format!("{objects} {resource}")).collect();
        let read = format!("read {} ({} MB)", objects.join(", "), bytes / 1_000_000);
        long.into_iter().chain([read]).collect::<Vec<_>>().join("; ")
    }
}

/// The wait after which its duration is shown.
pub(crate) const LONG_WAIT: Duration = Duration::from_secs(10);

/// The terminal line in which progress is drawn; dropping it clears the line.
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

    /// Draws the line, truncated before the last column: a line that wraps would leave rows behind. A failure to draw
    /// is ignored.
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
    fn the_line_names_the_clusters_that_are_missing() {
        let progress = ReadProgress::of_clusters(["b".to_owned(), "a".to_owned(), "c\u{1b}".to_owned()]);
        assert_eq!(progress.line(Duration::ZERO), "waiting for 3 of 3 clusters: a, b, c\\u{1b}");
        progress.add("nodes", 5, 63);
        progress.is_done("b");
        progress.is_done("c\u{1b}");
        assert_eq!(progress.line(Duration::ZERO), "waiting for 1 of 3 clusters: a; read 5 nodes (0 MB)");
        assert_eq!(progress.line(LONG_WAIT), "still waiting for 1 of 3 clusters: a (10s); read 5 nodes (0 MB)");
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
