//! What a template means, worked out from plain JSON without the library.

use serde_json::Value;

use super::workload::{clean, number, template};

/// Returns a template in a form that is equal for all spellings that the API server lets through:
/// the order of entries that have a name is no part of the meaning.
pub fn meaning(template: &Value) -> Value {
    let mut template = clean(template);
    for path in ["/spec/containers", "/spec/containers/0/env"] {
        if let Some(items) = template.pointer_mut(path).and_then(Value::as_array_mut) {
            items.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
        }
    }
    template
}

/// Returns the number of the newest revision whose template means something else than this one.
pub fn newest_of_other_meaning(revisions: &[Value], live: &Value) -> Option<u64> {
    let live = meaning(live);
    revisions.iter().filter(|revision| meaning(&template(revision)) != live).map(number).max()
}
