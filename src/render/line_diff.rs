//! Two texts compared line by line, in hunks with the words that differ.

use std::time::Duration;

use similar::udiff::UnifiedHunkHeader;
use similar::{DiffOp, TextDiff};

use super::word_diff;

/// The time limit for texts that have little in common.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The side of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It is in both texts.
    Both,
    /// It is in the first text only.
    From,
    /// It is in the second text only.
    To,
}

/// A line of a hunk, without its line ending, in pieces; each with whether it differs.
pub type DiffLine = (Mark, Vec<(bool, String)>);

/// Changed lines that are near each other, and the lines around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// The hunk header, such as `@@ -1,7 +1,7 @@`.
    pub place: String,
    /// The number of its first line in the first text, from 0.
    pub start: usize,
    /// Its lines.
    pub lines: Vec<DiffLine>,
}

/// Compares two texts, given as lines.
pub fn hunks(from: &[&str], to: &[&str], context: usize) -> Vec<Hunk> {
    let difference = TextDiff::configure().timeout(TIMEOUT).diff_slices(from, to);
    let mut hunks = Vec::new();
    for operations in difference.grouped_ops(context) {
        let Some(first) = operations.first() else { continue };
        let start = first.old_range().start;
        let place = UnifiedHunkHeader::new(&operations).to_string();
        let lines = operations.iter().flat_map(|operation| lines(operation, from, to)).collect();
        hunks.push(Hunk { place, start, lines });
    }
    hunks
}

fn lines(operation: &DiffOp, from: &[&str], to: &[&str]) -> Vec<DiffLine> {
    let (old, new) = (&from[operation.old_range()], &to[operation.new_range()]);
    match operation {
        DiffOp::Equal { .. } => old.iter().map(|line| (Mark::Both, vec![(false, (*line).to_owned())])).collect(),
        DiffOp::Replace { .. } => {
            // If the number of lines is the same, they most likely correspond one to one.
            let (mut removed, mut added) = (Vec::new(), Vec::new());
            let mut compare = |old: &str, new: &str| {
                let (old, new) = word_diff::compare(old, new);
                removed.extend(split(Mark::From, &old));
                added.extend(split(Mark::To, &new));
            };
            if old.len() == new.len() {
                old.iter().zip(new).for_each(|(old, new)| compare(old, new));
            } else {
                compare(&old.join("\n"), &new.join("\n"));
            }
            removed.into_iter().chain(added).collect()
        }
        DiffOp::Delete { .. } | DiffOp::Insert { .. } => {
            let whole = |mark| move |line: &&str| (mark, vec![(false, (*line).to_owned())]);
            old.iter().map(whole(Mark::From)).chain(new.iter().map(whole(Mark::To))).collect()
        }
    }
}

/// Splits pieces at line endings.
fn split(mark: Mark, pieces: &[word_diff::Piece<'_>]) -> Vec<DiffLine> {
    let mut lines = vec![(mark, Vec::new())];
    for (differs, piece) in pieces {
        for (index, part) in piece.split('\n').enumerate() {
            if index > 0 {
                lines.push((mark, Vec::new()));
            }
            if let (Some((_, parts)), false) = (lines.last_mut(), part.is_empty()) {
                parts.push((*differs, part.to_owned()));
            }
        }
    }
    lines
}
