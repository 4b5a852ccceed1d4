//! Differences between lists whose order matters, such as the arguments of a command.

use std::ops::Range;

use serde_json::Value;

use crate::report::change::{Change, ChangePath};

/// Above this, the longest common subsequence takes too long, and nobody would read the result.
const MOST_COMPARED: usize = 1_000_000;

/// Returns the differences between two lists, by the index of each item: removed items by their old index, others by
/// their new index.
///
/// An item at the same index counts as replaced, otherwise as removed and added. Lists without common items are one
/// change.
pub fn difference(path: &ChangePath, from: &[Value], to: &[Value]) -> Vec<Change> {
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
    path: &ChangePath,
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{difference, longest_common_subsequence};
    use crate::report::change::{ChangePath, Op};

    /// Returns every list of at most this many items, of which there are three kinds.
    fn lists(longest: usize) -> Vec<Vec<Value>> {
        let mut all = vec![Vec::new()];
        let mut last = all.clone();
        for _ in 0..longest {
            let longer = |list: &Vec<Value>| ["a", "b", "c"].map(|item| [&list[..], &[json!(item)]].concat());
            last = last.iter().flat_map(longer).collect();
            all.extend(last.clone());
        }
        all
    }

    /// Returns the length of the longest common subsequence by its definition.
    fn longest(from: &[Value], to: &[Value]) -> usize {
        match (from, to) {
            ([one, from @ ..], [other, to @ ..]) if one == other => 1 + longest(from, to),
            ([_, shorter @ ..], [_, rest @ ..]) => longest(shorter, to).max(longest(from, rest)),
            _ => 0,
        }
    }

    #[test]
    fn what_stays_is_as_much_as_possible_and_the_same_in_both_directions() {
        for from in lists(4) {
            for to in lists(4) {
                let common = longest_common_subsequence(&from, &to);
                assert!(common.iter().all(|&(old, new)| from[old] == to[new]), "{from:?} {to:?}");
                assert!(
                    common.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1),
                    "{from:?} {to:?}"
                );
                assert_eq!(common.len(), longest(&from, &to), "{from:?} {to:?}");
                let reverse = longest_common_subsequence(&to, &from);
                let reverse: Vec<(usize, usize)> = reverse.into_iter().map(|(new, old)| (old, new)).collect();
                assert_eq!(common, reverse, "{from:?} {to:?}");
            }
        }
    }

    #[test]
    fn a_flag_with_another_value_is_replaced_even_beside_items_that_were_added() {
        let ops = |from: &[&str], to: &[&str]| {
            let values = |items: &[&str]| items.iter().map(|&item| json!(item)).collect::<Vec<_>>();
            let changes = difference(&ChangePath::default(), &values(from), &values(to));
            changes.iter().map(|change| (change.path.to_string(), change.op)).collect::<Vec<_>>()
        };
        let at = |index: usize, op: Op| (format!("[{index}]"), op);
        let from = ["-a", "--level=info", "-z"];
        assert_eq!(ops(&from, &["-a", "--level=debug", "-b", "-z"]), [at(1, Op::Replace), at(2, Op::Add)]);
        assert_eq!(ops(&from, &["-a", "--mode=fast", "-b", "-z"]), [at(1, Op::Remove), at(1, Op::Add), at(2, Op::Add)]);
    }
}
