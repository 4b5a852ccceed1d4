//! Followed reports in pipes and logs: one line per change, each with its time.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::list;
use super::page::Page;
use super::text::{count, or_unknown};
use crate::report::age::seconds_between;
use crate::report::list::ListReport;

/// Number of seconds without a change after which a line shows that the cluster is still being followed.
pub(super) const HEARTBEAT: i64 = 60;

/// A sentence about each DaemonSet, by its title. Sentences contain no ages, so that they only change with the cluster.
pub(crate) type Sentences = BTreeMap<String, String>;

/// What has been written so far.
#[derive(Debug, Default)]
pub(crate) struct ChangeLines {
    shown: Sentences,
    written: Option<Timestamp>,
}

impl ChangeLines {
    /// Records the current sentences, and returns whether something has changed.
    pub(crate) fn note(&mut self, sentences: &Sentences) -> bool {
        let has_changed = self.written.is_none() || self.shown != *sentences;
        self.shown.clone_from(sentences);
        self.written = self.written.or(Some(Timestamp::UNIX_EPOCH));
        has_changed
    }

    /// Writes a line for each changed sentence, or one if none has changed for a while.
    pub(crate) fn update(&mut self, sentences: Sentences, now: Timestamp, page: &mut Page<'_>) {
        let mut lines: Vec<String> = Vec::new();
        let changed = sentences.iter().filter(|(title, sentence)| self.shown.get(*title) != Some(sentence));
        lines.extend(changed.map(|(title, sentence)| format!("{title}: {sentence}")));
        let gone = self.shown.keys().filter(|title| !sentences.contains_key(*title));
        lines.extend(gone.map(|title| format!("{title}: no longer shown")));
        let is_due = self.written.is_none_or(|written| seconds_between(written, now) >= HEARTBEAT);
        if lines.is_empty() && is_due {
            let known = count(sentences.len(), "DaemonSet");
            let is_first = self.written.is_none();
            lines.push(if is_first { format!("following {known}") } else { format!("no change: {known}") });
        }
        for line in &lines {
            write_line(now, line, page);
        }
        if !lines.is_empty() {
            self.written = Some(now);
        }
        self.shown = sentences;
    }
}

/// Writes a line with its time, to the second.
pub(crate) fn write_line(now: Timestamp, text: &str, page: &mut Page<'_>) {
    let time = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let text = page.view.show(text);
    writeln!(page, "{time} {text}");
}

/// Returns the sentences of a list.
pub(crate) fn of_list(report: &ListReport) -> Sentences {
    let rows = report.daemon_sets.iter().map(|row| {
        let counts = &row.counts;
        let problem = match list::problem(row, None, usize::MAX) {
            problem if problem.is_empty() => problem,
            problem => format!("; {problem}"),
        };
        let sentence = format!(
            "{:?}: {} desired, {} updated, {} available{problem}",
            row.status,
            or_unknown(counts.eligible),
            or_unknown(counts.updated),
            or_unknown(counts.available)
        );
        (format!("{}/{}", row.namespace, row.name), sentence)
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::{ChangeLines, Sentences};
    use crate::render::view::View;

    #[test]
    fn a_line_is_written_for_what_has_changed_and_once_a_minute() {
        let mut lines = ChangeLines::default();
        let mut at = |seconds: i64, sentences: &[(&str, &str)]| {
            let sentences: Sentences =
                sentences.iter().map(|(title, text)| ((*title).to_owned(), (*text).to_owned())).collect();
            let now = jiff::Timestamp::from_second(1_790_000_000 + seconds).unwrap();
            View::new(None, false).text(|page| lines.update(sentences, now, page))
        };
        let first = at(0, &[("a/b", "well"), ("a/c", "well")]);
        assert_eq!(first, "2026-09-21T14:13:20Z a/b: well\n2026-09-21T14:13:20Z a/c: well\n");
        assert_eq!(at(1, &[("a/b", "well"), ("a/c", "well")]), "");
        assert_eq!(at(2, &[("a/b", "ill\u{1b}"), ("a/c", "well")]), "2026-09-21T14:13:22Z a/b: ill\\u{1b}\n");
        assert_eq!(at(3, &[("a/c", "well")]), "2026-09-21T14:13:23Z a/b: no longer shown\n");
        assert_eq!(at(62, &[("a/c", "well")]), "");
        assert_eq!(at(63, &[("a/c", "well")]), "2026-09-21T14:14:23Z no change: 1 DaemonSet\n");
    }
}
