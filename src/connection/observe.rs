//! Notes what answers show beside their content: warnings, and the server's clock.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::header::{DATE, HeaderMap, WARNING};
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};

/// What the answers of a server have shown.
#[derive(Debug)]
pub(crate) struct Observed {
    clock: fn() -> Timestamp,
    /// By how many seconds the server's clock is ahead of `clock`.
    skew: AtomicI64,
    warnings: Mutex<Vec<String>>,
}

impl Observed {
    pub(super) fn new(clock: fn() -> Timestamp) -> Self {
        Observed { clock, skew: AtomicI64::new(0), warnings: Mutex::default() }
    }

    /// Returns the time by this machine's clock.
    pub(crate) fn local_time(&self) -> Timestamp {
        (self.clock)()
    }

    /// Returns what the server's clock has shown at a time by this machine's.
    pub(crate) fn server_time(&self, local: Timestamp) -> Timestamp {
        local.checked_add(self.clock_difference()).unwrap_or(local)
    }

    /// Returns by how much the server's clock is ahead of this machine's, as the dates of its answers show it.
    pub(crate) fn clock_difference(&self) -> SignedDuration {
        SignedDuration::from_secs(self.skew.load(Ordering::Relaxed))
    }

    /// Returns the warnings that the server has sent since the last call, each once.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings())
    }

    /// Returns whether there are warnings that were not taken yet.
    pub(crate) fn has_warnings(&self) -> bool {
        !self.warnings().is_empty()
    }

    /// Locks the warnings, which are whole after every change.
    fn warnings(&self) -> MutexGuard<'_, Vec<String>> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an answer to a request sent at a time.
    pub(super) fn note(&self, sent: Timestamp, headers: &HeaderMap) {
        for header in headers.get_all(WARNING) {
            let text = String::from_utf8_lossy(header.as_bytes());
            let mut warnings = self.warnings();
            if let Some(text) = warning_text(&text).filter(|text| !warnings.contains(text)) {
                warnings.push(text);
            }
        }
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        let Some(date) = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok()) else { return };
        let (least, most) = (date.duration_since((self.clock)()).as_secs(), date.duration_since(sent).as_secs());
        // The date is in whole seconds, and was written somewhere between request and answer.
        let possible = least - 1..=most + 1;
        let known = self.skew.load(Ordering::Relaxed);
        // A slow answer says little: what it does not contradict stays.
        let skew = [known, 0].into_iter().find(|skew| possible.contains(skew));
        self.skew.store(skew.unwrap_or(i64::midpoint(least, most)), Ordering::Relaxed);
    }
}

/// Returns the text of a warning in the API's form: `299 - "text"`.
fn warning_text(header: &str) -> Option<String> {
    let (_, quoted) = header.strip_prefix("299 ")?.split_once(" \"")?;
    let mut text = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => return Some(text).filter(|text| !text.is_empty()),
            '\\' => text.push(characters.next()?),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::warning_text;

    #[test]
    fn a_warning_is_taken_out_of_its_quotes() {
        assert_eq!(warning_text(r#"299 - "old \"v1\" \\ API""#).as_deref(), Some(r#"old "v1" \ API"#));
        for header in ["", "299", "199 - \"other code\"", "299 - \"no end", "299 - \"\""] {
            assert_eq!(warning_text(header), None, "{header}");
        }
    }
}
