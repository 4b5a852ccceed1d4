//! Shrinks a case as long as the two sides still disagree about it.

use serde_json::Value;

/// Returns every case that lacks one thing of this one: a field, an item, or the text of a value.
pub fn reductions(value: &Value) -> Vec<Value> {
    match value {
        Value::Object(fields) => {
            let mut smaller = Vec::new();
            for (key, field) in fields {
                let mut without = fields.clone();
                without.remove(key);
                smaller.push(without.into());
                smaller.extend(reductions(field).into_iter().map(|field| {
                    let mut with = fields.clone();
                    with.insert(key.clone(), field);
                    with.into()
                }));
            }
            smaller
        }
        Value::Array(items) => {
            let mut smaller = Vec::new();
            if items.len() > 2 {
                smaller.push(items[..items.len() / 2].to_vec().into());
                smaller.push(items[items.len() / 2..].to_vec().into());
            }
            for index in 0..items.len() {
                let mut without = items.clone();
                without.remove(index);
                smaller.push(without.into());
                smaller.extend(reductions(&items[index]).into_iter().map(|item| {
                    let mut with = items.clone();
                    with[index] = item;
                    with.into()
                }));
            }
            smaller
        }
        _ => Vec::new(),
    }
}
