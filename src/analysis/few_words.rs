//! The differences between two pod templates in a few words, for a column of a table.

use crate::report::change::{Change, Op};

/// Returns a short fragment for each change.
pub fn in_a_few_words(changes: &[Change]) -> Vec<String> {
    changes.iter().map(fragment).collect()
}

fn fragment(change: &Change) -> String {
    let name = change.path.rsplit('.').next().unwrap_or(&change.path);
    match change.op {
        Op::Add => format!("+{name}"),
        Op::Remove => format!("-{name}"),
        Op::Replace => name.to_owned(),
    }
}
