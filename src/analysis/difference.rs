//! How two pod templates differ in meaning.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::model::template::Template;
use crate::report::change::Change;

/// Returns every difference in meaning between two templates, in the order of the template.
pub fn difference(from: &Template, to: &Template) -> Vec<Change> {
    let mut changes = Vec::new();
    compare(String::new(), &from.normal(), &to.normal(), &mut changes);
    changes
}

fn compare(path: String, from: &Value, to: &Value, changes: &mut Vec<Change>) {
    match (from, to) {
        (Value::Object(before), Value::Object(after)) => {
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for name in names {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match (before.get(name), after.get(name)) {
                    (Some(before), Some(after)) => compare(path, before, after, changes),
                    (before, after) => changes.push(Change::new(path, before.cloned(), after.cloned())),
                }
            }
        }
        _ if from == to => {}
        _ => changes.push(Change::new(path, Some(from.clone()), Some(to.clone()))),
    }
}
