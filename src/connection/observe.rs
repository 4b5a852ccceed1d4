//! Records what responses carry besides their content: warnings, and the server's clock.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::header::{DATE, HeaderMap, WARNING};
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};

/// The most warnings that are kept: a server could send a different one with each response.
const MAX_WARNINGS: usize = 100;

/// What the responses of a server have shown.
#[derive(Debug)]
pub struct Observed {
    clock: fn() -> Timestamp,
    /// By how many seconds the server's clock is ahead of `clock`.
    skew: AtomicI64,
    /// The date of the last response that had one, in seconds.
    date: AtomicI64,
    warnings: Mutex<Warnings>,
}

/// The server's warnings, each text once.
#[derive(Debug, Default)]
struct Warnings {
    texts: Vec<String>,
    /// Number of warnings that were taken.
    taken: usize,
}

impl Warnings {
    fn add(&mut self, text: String) {
        let is_full = self.texts.len() == MAX_WARNINGS;
        if self.texts.len() <= MAX_WARNINGS && !self.texts.contains(&text) {
            self.texts.push(if is_full {
                "the server sends more warnings, which are not shown".to_owned()
            } else {
                text
            });
        }
    }
}

impl Observed {
    pub(super) fn new(clock: fn() -> Timestamp) -> Self {
        Observed { clock, skew: AtomicI64::new(0), date: AtomicI64::new(i64::MIN), warnings: Mutex::default() }
    }

    /// Returns the time by this machine's clock.
    pub(crate) fn local_time(&self) -> Timestamp {
        (self.clock)()
    }

    /// Returns the server's time for a time by this machine's clock.
    pub(crate) fn server_time(&self, local: Timestamp) -> Timestamp {
        local.checked_add(self.clock_difference()).unwrap_or(local)
    }

    /// Returns how far the server's clock is ahead of this machine's, according to the dates of its responses.
    pub(crate) fn clock_difference(&self) -> SignedDuration {
        SignedDuration::from_secs(self.skew.load(Ordering::Relaxed))
    }

    /// Returns and clears the server's new warnings. As in kubectl, each is shown once.
    pub fn take_warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings();
        let new = warnings.texts[warnings.taken..].to_vec();
        warnings.taken = warnings.texts.len();
        new
    }

    /// Returns the warnings that were taken.
    pub(crate) fn taken_warnings(&self) -> Vec<String> {
        let warnings = self.warnings();
        warnings.texts[..warnings.taken].to_vec()
    }

    /// Adds a warning about the server.
    pub(crate) fn warn(&self, text: String) {
        self.warnings().add(text);
    }

    /// Discards the new warnings: the server may send them again.
    pub(crate) fn forget_warnings(&self) {
        let mut warnings = self.warnings();
        let taken = warnings.taken;
        warnings.texts.truncate(taken);
    }

    /// Returns whether there are new warnings.
    pub fn has_warnings(&self) -> bool {
        let warnings = self.warnings();
        warnings.taken < warnings.texts.len()
    }

    /// Locks the warnings, which are consistent after every change.
    fn warnings(&self) -> MutexGuard<'_, Warnings> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a response to a request that was sent at a given time.
    pub(super) fn note(&self, sent: Timestamp, headers: &HeaderMap) {
        for header in headers.get_all(WARNING) {
            let texts = warning_texts(&String::from_utf8_lossy(header.as_bytes()));
            texts.into_iter().for_each(|text| self.warnings().add(text));
        }
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        let Some(date) = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok()) else { return };
        // Cached responses of a proxy repeat the same date.
        if self.date.swap(date.as_second(), Ordering::Relaxed) == date.as_second() {
            return;
        }
        let (least, most) = (date.duration_since((self.clock)()).as_secs(), date.duration_since(sent).as_secs());
        // The date is in whole seconds, and was written between request and response.
        let possible = least - 1..=most + 1;
        let known = self.skew.load(Ordering::Relaxed);
        // A slow response is imprecise: a known difference that is possible stays.
        let skew = [known, 0].into_iter().find(|skew| possible.contains(skew));
        self.skew.store(skew.unwrap_or(i64::midpoint(least, most)), Ordering::Relaxed);
    }
}

/// Returns the texts of the warnings in a header that are the API's own, such as `299 - "text"`; a proxy may have joined several.
///
/// As `ParseWarningHeaders`, k8s.io/apimachinery/pkg/util/net/http.go, release 0.37.2.
fn warning_texts(header: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut rest = header;
    while let Some((code, quoted)) = rest.trim_start_matches([',', ' ']).split_once(" \"") {
        let mut text = String::new();
        let mut characters = quoted.chars();
        let is_closed = loop {
            match characters.next() {
                None => break false,
                Some('"') => break true,
                Some('\\') => text.extend(characters.next()),
                Some(other) => text.push(other),
            }
        };
        if is_closed && code.starts_with("299 ") && !text.is_empty() {
            texts.push(text);
        }
        // A date in quotes may follow.
        rest = characters.as_str();
        if let Some(date) = rest.strip_prefix(" \"") {
            rest = date.split_once('"').map_or("", |(_, after)| after);
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use http::HeaderMap;
    use http::header::DATE;
    use jiff::{SignedDuration, Timestamp};

    use super::{MAX_WARNINGS, Observed, Warnings, warning_texts};

    #[test]
    fn time_goes_on_although_a_proxy_sends_the_same_date_again_and_again() {
        static SECOND: AtomicI64 = AtomicI64::new(1_000_000);
        let observed = Observed::new(|| Timestamp::from_second(SECOND.load(Ordering::Relaxed)).unwrap());
        let mut headers = HeaderMap::new();
        for (date, now) in [("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Thu, 01 Jan 1970 00:00:00 GMT", 60)] {
            headers.insert(DATE, date.parse().unwrap());
            observed.note(observed.local_time(), &headers);
            let shown = observed.server_time(observed.local_time());
            assert_eq!(shown.duration_since(Timestamp::UNIX_EPOCH), SignedDuration::from_secs(now));
            SECOND.fetch_add(60, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_server_that_warns_of_something_else_each_time_fills_no_memory() {
        let mut warnings = Warnings::default();
        (0..10 * MAX_WARNINGS).for_each(|number| warnings.add(format!("warning {number}")));
        assert_eq!(warnings.texts.len(), MAX_WARNINGS + 1);
        assert!(warnings.texts[MAX_WARNINGS].contains("more warnings"), "{:?}", warnings.texts);
    }

    #[test]
    fn a_warning_is_taken_out_of_its_quotes() {
        for (header, expected) in [
            (r#"299 - "old \"v1\" \\ API""#, vec![r#"old "v1" \ API"#]),
            (r#"199 - "misc", 299 - "a" "Tue, 15 Nov 1994 08:12:31 GMT",299 kube "b""#, vec!["a", "b"]),
            ("", vec![]),
            ("299", vec![]),
            ("199 - \"other code\"", vec![]),
            ("299 - \"no end", vec![]),
            ("299 - \"\"", vec![]),
        ] {
            assert_eq!(warning_texts(header), expected, "{header}");
        }
    }
}
