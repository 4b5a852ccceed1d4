//! Container logs, limited in size; the oldest lines are dropped first.

use std::time::Duration;

use super::error::ClusterError;

/// Limits on what is read from a log.
#[derive(Debug, Clone, Copy)]
pub struct LogLimits {
    /// How many lines, from the end.
    pub lines: usize,
    /// How many bytes, from the end.
    pub bytes: usize,
    /// How old the lines may be.
    pub since: Option<Duration>,
}

/// The end of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The lines.
    pub text: String,
    /// Whether it is that of the run before the last restart.
    pub previous: bool,
    /// Whether it has fewer lines than requested because they are too long.
    pub is_cut: bool,
    /// Whether there are more lines than requested.
    pub has_more: bool,
    /// Why it is incomplete, if its end could not be read.
    pub broken_off: Option<ClusterError>,
}

/// The last bytes of a log that is being read.
#[derive(Debug)]
pub(super) struct LogTail {
    bytes: Vec<u8>,
    limits: LogLimits,
    is_cut: bool,
}

impl LogTail {
    pub(super) fn new(limits: LogLimits) -> Self {
        LogTail { bytes: Vec::new(), limits, is_cut: false }
    }

    /// Returns whether no bytes have arrived.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        // Bytes are moved rarely, and never take twice the limit for long.
        for piece in bytes.chunks(self.limits.bytes.max(1)) {
            if self.bytes.len() + piece.len() > self.limits.bytes + self.limits.bytes / 2 {
                self.shorten(self.limits.bytes.saturating_sub(piece.len()));
            }
            self.bytes.extend_from_slice(piece);
        }
    }

    fn shorten(&mut self, length: usize) {
        let excess = self.bytes.len().saturating_sub(length);
        self.is_cut |= excess > 0;
        self.bytes.drain(..excess);
    }

    /// Returns the last lines.
    pub(super) fn finish(mut self, previous: bool) -> Log {
        self.shorten(self.limits.bytes);
        let LogTail { mut bytes, limits, is_cut } = self;
        // The beginning of the first line may be lost.
        let first = if is_cut { memchr::memchr(b'\n', &bytes).map_or(0, |end| end + 1) } else { 0 };
        let body = &bytes[first..];
        let body = body.strip_suffix(b"\n").unwrap_or(body);
        let before = memchr::memrchr_iter(b'\n', body).nth(limits.lines.saturating_sub(1));
        let first = if limits.lines == 0 { bytes.len() } else { before.map_or(first, |end| first + end + 1) };
        bytes.drain(..first);
        let text = String::from_utf8(bytes);
        let text = text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Log { text, previous, is_cut: is_cut && before.is_none(), has_more: before.is_some(), broken_off: None }
    }
}

#[cfg(test)]
mod tests {
    use super::{Log, LogLimits, LogTail};

    fn tail(pieces: &[&str], lines: usize, bytes: usize) -> (String, bool) {
        let mut tail = LogTail::new(LogLimits { lines, bytes, since: None });
        pieces.iter().for_each(|piece| tail.push(piece.as_bytes()));
        assert!(tail.bytes.len() <= bytes + bytes / 2);
        let Log { text, is_cut, .. } = tail.finish(false);
        (text, is_cut)
    }

    #[test]
    fn the_last_lines_are_kept_and_none_without_its_beginning() {
        for (pieces, lines, bytes, text, is_cut) in [
            (&["one\ntwo\n"][..], 9, 100, "one\ntwo\n", false),
            (&["one\ntwo\nthree"], 2, 100, "two\nthree", false),
            (&["one\ntwo\n"], 0, 100, "", false),
            (&["one\ntwo\nthree\n"], 9, 12, "two\nthree\n", true),
            (&["one\n", "two\n", "three\n"], 9, 11, "two\nthree\n", true),
            (&["one\ntwo\nthree\n"], 1, 12, "three\n", false),
            (&["a line that is longer than there is room for"], 9, 8, "room for", true),
            (&[], 9, 8, "", false),
        ] {
            assert_eq!(tail(pieces, lines, bytes), (text.to_owned(), is_cut), "{pieces:?} {lines} {bytes}");
        }
    }

    #[test]
    fn what_is_not_utf_8_is_shown_as_far_as_it_is() {
        let mut tail = LogTail::new(LogLimits { lines: 9, bytes: 100, since: None });
        tail.push(b"a\xffb\n");
        assert_eq!(
            tail.finish(true),
            Log { text: "a\u{fffd}b\n".to_owned(), previous: true, is_cut: false, has_more: false, broken_off: None }
        );
    }
}
