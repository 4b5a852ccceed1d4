//! The meaning of a template, derived from plain JSON without the library.

use serde_json::{Value, json};

use super::workload::{clean, number, template};

/// Returns a template in a form that is equal for all spellings that the API server lets through:
/// the order of entries that have a name is no part of the meaning.
pub fn meaning(template: &Value) -> Value {
    let mut template = clean(template);
    drop_empty(&mut template);
    for path in ["/spec/containers", "/spec/containers/0/env"] {
        if let Some(items) = template.pointer_mut(path).and_then(Value::as_array_mut) {
            items.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
        }
    }
    for path in ["/spec/containers/0/resources/limits", "/spec/containers/1/resources/limits"] {
        if let Some(limits) = template.pointer_mut(path).and_then(Value::as_object_mut) {
            limits.values_mut().for_each(|quantity| *quantity = json!(thousandths(quantity)));
        }
    }
    template
}

/// Returns a quantity in thousandths, for the spellings that the steps use.
fn thousandths(quantity: &Value) -> u64 {
    let text = quantity.as_str().unwrap();
    let units = [("Gi", 1000 << 30), ("Mi", 1000 << 20), ("m", 1), (".0", 1000), ("", 1000)];
    let (digits, unit) = units.into_iter().find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, unit))).unwrap();
    digits.parse::<u64>().unwrap_or_else(|error| panic!("{text}: {error}")) * unit
}

/// Removes fields that hold nothing. OpenKruise keeps a template as it was written, and its revisions as
/// Go's types write them: without `env: []`, and with `resources: {}`.
fn drop_empty(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(drop_empty);
            fields.retain(|_, field| *field != json!({}) && *field != json!([]) && !field.is_null());
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        _ => {}
    }
}

/// Returns whether an older revision has the same meaning as the newest; they are sorted by number.
pub fn newest_has_twin(revisions: &[Value]) -> bool {
    let Some((newest, older)) = revisions.split_last() else { return false };
    older.iter().any(|revision| meaning(&template(revision)) == meaning(&template(newest)))
}

/// Returns the number of the newest revision whose template means something else than this one.
pub fn newest_of_other_meaning(revisions: &[Value], live: &Value) -> Option<u64> {
    let live = meaning(live);
    revisions.iter().filter(|revision| meaning(&template(revision)) != live).map(number).max()
}
