//! Pod templates in JSON: what is written back, and what it means.

use serde_json::Value;

/// A pod template as JSON: every field is kept, also those that this program does not know.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    value: Value,
}

impl Template {
    /// Takes a template without what never means anything: nulls, and the `$patch` of a revision's data.
    pub fn new(mut value: Value) -> Self {
        drop_noise(&mut value);
        Template { value }
    }

    /// Returns the template as it is written back to the API.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the template in the one form that all spellings of it have in common.
    pub fn normal(&self) -> Value {
        self.value.clone()
    }

    /// Tells whether two templates mean the same, whatever their spelling.
    pub fn same_meaning(&self, other: &Template) -> bool {
        self.normal() == other.normal()
    }
}

/// Removes nulls, which Go reads as absent, and directives to a strategic merge patch.
fn drop_noise(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, field| !field.is_null() && name != "$patch");
            fields.values_mut().for_each(drop_noise);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_noise),
        _ => {}
    }
}
