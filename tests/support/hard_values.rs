//! Random values that are hard to write as YAML.

use proptest::prelude::*;
use serde_json::Value;

/// Strings made of what makes YAML hard.
pub fn hard_string() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "a", "b", "0", "1", "_", "e", "x", "o", ".", "-", "+", ":", "#", " ", "  ", "\n", "\t", "\r", "'", "\"", "\\",
        "[", "]", "{", "}", ",", "&", "*", "!", "|", ">", "%", "@", "`", "?", "~", "=", "<<", "yes", "null", "---",
        "...", "é", "\u{85}", "\u{2028}", "\u{feff}", "\u{1b}", "😀", "\u{202e}", "\0",
    ]);
    prop::collection::vec(pieces, 0..8).prop_map(|pieces| pieces.concat())
}

/// Values of any shape that hold such strings.
pub fn hard_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        6 => hard_string().prop_map(Value::String),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((hard_string(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}
