//! Who changed an object between reading and writing it.

use serde_json::Value;

/// Returns the field managers whose records differ between two versions of an object, except for its status.
pub(crate) fn managers(before: &Value, after: &Value) -> Vec<String> {
    let records = |object: &'_ Value| object.pointer("/metadata/managedFields").and_then(Value::as_array).cloned();
    let known = records(before).unwrap_or_default();
    let mut managers: Vec<String> = Vec::new();
    for record in records(after).unwrap_or_default().iter().filter(|record| !known.contains(record)) {
        let manager = record.get("manager").and_then(Value::as_str).unwrap_or_default();
        let is_status = record.get("subresource").and_then(Value::as_str) == Some("status");
        if !is_status && !manager.is_empty() && !managers.iter().any(|listed| listed == manager) {
            managers.push(manager.to_owned());
        }
    }
    managers
}
