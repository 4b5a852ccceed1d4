//! Differences between lists whose order matters, such as the arguments of a command.

use std::ops::Range;

use serde_json::Value;

use crate::report::change::{Change, Path};

/// Above this, the longest common subsequence takes too long, and nobody would read the result.
const MOST_COMPARED: usize = 1_000_000;

/// Returns the differences between two lists, by the index of each item: removed items by their index before,
/// others by their index after.
///
/// An item at the same index counts as replaced, otherwise as removed and added. Lists that have nothing
/// in common are one change.
pub fn difference(path: &Path, from: &[Value], to: &[Value]) -> Vec<Change> {
    let start = from.iter().zip(to).take_while(|(before, after)| before == after).count();
    let rest = (&from[start..], &to[start..]);
    let end = rest.0.iter().rev().zip(rest.1.iter().rev()).take_while(|(before, after)| before == after).count();
    let (before, after) = (&from[start..from.len() - end], &to[start..to.len() - end]);
    let whole = || vec![Change::new(path.clone(), Some(from.into()), Some(to.into()))];
    if before.len().saturating_mul(after.len()) > MOST_COMPARED {
        return whole();
    }
    let common = longest_common_subsequence(before, after);
    if start + end + common.len() == 0 && from.len().max(to.len()) > 1 {
        return whole();
    }
    let mut changes = Vec::new();
    let (mut old, mut new) = (0, 0);
    for (common_old, common_new) in common.into_iter().chain([(before.len(), after.len())]) {
        gap(path, start, (before, old..common_old), (after, new..common_new), &mut changes);
        (old, new) = (common_old + 1, common_new + 1);
    }
    changes
}

/// Adds the changes between two unchanged items.
fn gap(
    path: &Path,
    start: usize,
    (from, old): (&[Value], Range<usize>),
    (to, new): (&[Value], Range<usize>),
    changes: &mut Vec<Change>,
) {
    let is_replaced = |&place: &usize| {
        old.contains(&place)
            && new.contains(&place)
            && (old == new || flag(&from[place]).is_some_and(|name| flag(&to[place]) == Some(name)))
    };
    let path = |place: usize| path.index(start + place);
    for place in old.clone() {
        let after = is_replaced(&place).then(|| to[place].clone());
        changes.push(Change::new(path(place), Some(from[place].clone()), after));
    }
    for place in new.clone().filter(|place| !is_replaced(place)) {
        changes.push(Change::new(path(place), None, Some(to[place].clone())));
    }
}

/// Returns the name of the flag that an argument such as `--level=info` sets.
fn flag(item: &Value) -> Option<&str> {
    item.as_str()?.strip_prefix('-')?.split_once('=').map(|(flag, _)| flag)
}

/// Returns the indices of items that both lists have in the same order.
fn longest_common_subsequence(from: &[Value], to: &[Value]) -> Vec<(usize, usize)> {
    let width = to.len() + 1;
    let mut lengths = vec![0_usize; (from.len() + 1) * width];
    for old in (0..from.len()).rev() {
        for new in (0..to.len()).rev() {
            lengths[old * width + new] = if from[old] == to[new] {
                lengths[(old + 1) * width + new + 1] + 1
            } else {
                lengths[(old + 1) * width + new].max(lengths[old * width + new + 1])
            };
        }
    }
    let texts = |items: &[Value]| items.iter().map(Value::to_string).collect::<Vec<_>>();
    let texts = (texts(from), texts(to));
    let mut common = Vec::new();
    let (mut old, mut new) = (0, 0);
    while old < from.len() && new < to.len() {
        if from[old] == to[new] {
            common.push((old, new));
            (old, new) = (old + 1, new + 1);
        } else {
            // Break ties by the items, so that the reverse comparison finds the same subsequence.
            let (skip_old, skip_new) = (lengths[(old + 1) * width + new], lengths[old * width + new + 1]);
            let is_first = texts.0[old] < texts.1[new];
            if skip_old > skip_new || skip_old == skip_new && is_first { old += 1 } else { new += 1 }
        }
    }
    common
}
