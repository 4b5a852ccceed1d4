//! Validates a document against a JSON schema, supporting the subset that schemars writes, and more strictly: an
//! unknown field is an error.

use serde_json::Value;

/// The words of a schema that are understood; a new one must be taught here before it counts as held.
const KNOWN: [&str; 18] = [
    "$schema",
    "$defs",
    "$ref",
    "title",
    "description",
    "type",
    "properties",
    "required",
    "items",
    "enum",
    "const",
    "oneOf",
    "anyOf",
    "allOf",
    "format",
    "minimum",
    "maximum",
    "default",
];

/// Returns what is wrong with a document, each with its place.
pub fn problems(schema: &Value, document: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    check(schema, schema, document, "", &mut problems);
    // The same problem at every node need not be read at every node.
    problems.truncate(5);
    problems
}

fn check(root: &Value, schema: &Value, document: &Value, place: &str, problems: &mut Vec<String>) {
    let mut complain = |problem: String| problems.push(format!("{place}: {problem}"));
    for word in schema.as_object().into_iter().flatten().map(|(word, _)| word) {
        if !KNOWN.contains(&word.as_str()) {
            complain(format!("the schema's word {word:?} is not understood"));
        }
    }
    if let Some(types) = schema.get("type") {
        let allowed: Vec<&str> = types.as_array().map_or_else(
            || types.as_str().into_iter().collect(),
            |types| types.iter().filter_map(Value::as_str).collect(),
        );
        if !allowed.iter().any(|type_| is_of(document, type_)) {
            complain(format!("{document} is not of type {types}"));
        }
    }
    if let Some(wanted) = schema.get("const").filter(|wanted| *wanted != document) {
        complain(format!("{document} is not {wanted}"));
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array).filter(|values| !values.contains(document)) {
        complain(format!("{document} is none of {values:?}"));
    }
    if let Some(least) = schema.get("minimum").and_then(Value::as_f64)
        && document.as_f64().is_some_and(|number| number < least)
    {
        complain(format!("{document} is less than {least}"));
    }
    if let Some(most) = schema.get("maximum").and_then(Value::as_f64)
        && document.as_f64().is_some_and(|number| number > most)
    {
        complain(format!("{document} is more than {most}"));
    }
    if schema.get("format").is_some_and(|format| format == "date-time")
        && document.as_str().is_some_and(|text| text.parse::<jiff::Timestamp>().is_err())
    {
        complain(format!("{document} is not an RFC 3339 timestamp"));
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if document.get(name).is_none() {
            complain(format!("{name} is missing"));
        }
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(reference.trim_start_matches('#'));
        check(root, target.expect("references lead somewhere"), document, place, problems);
    }
    for word in ["oneOf", "anyOf"] {
        if let Some(choices) = schema.get(word).and_then(Value::as_array) {
            let fits = |choice: &&Value| {
                let mut found = Vec::new();
                check(root, choice, document, place, &mut found);
                found.is_empty()
            };
            let number = choices.iter().filter(fits).count();
            if number == 0 || (word == "oneOf" && number > 1) {
                problems.push(format!("{place}: {document} fits {number} of {word}"));
            }
        }
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        check(root, part, document, place, problems);
    }
    if let (Some(items), Some(documents)) = (schema.get("items"), document.as_array()) {
        for (index, item) in documents.iter().enumerate() {
            check(root, items, item, &format!("{place}/{index}"), problems);
        }
    }
    if let (Some(properties), Some(fields)) = (schema["properties"].as_object(), document.as_object()) {
        for (name, value) in fields {
            match properties.get(name) {
                Some(property) => check(root, property, value, &format!("{place}/{name}"), problems),
                None => problems.push(format!("{place}: {name} is not in the schema")),
            }
        }
    }
}

fn is_of(document: &Value, type_: &str) -> bool {
    match type_ {
        "object" => document.is_object(),
        "array" => document.is_array(),
        "string" => document.is_string(),
        "boolean" => document.is_boolean(),
        "integer" => document.is_i64() || document.is_u64(),
        "number" => document.is_number(),
        "null" => document.is_null(),
        _ => false,
    }
}

#[test]
fn what_does_not_fit_is_found() {
    let schema = serde_json::json!({
        "type": "object", "required": ["a"],
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"type": "array", "items": {"type": "integer", "minimum": 0}}},
        "$defs": {"A": {"oneOf": [{"const": "x"}, {"const": "y"}]}},
    });
    let problems = |document| super::validator::problems(&schema, &document);
    assert!(problems(serde_json::json!({"a": "x", "b": [1, 2]})).is_empty());
    assert_eq!(problems(serde_json::json!({"b": [1]})), [": a is missing"]);
    assert_eq!(problems(serde_json::json!({"a": "z"})), ["/a: \"z\" fits 0 of oneOf"]);
    assert_eq!(problems(serde_json::json!({"a": "x", "b": [-1]})), ["/b/0: -1 is less than 0"]);
    assert_eq!(problems(serde_json::json!({"a": "x", "b": ["1"]})), ["/b/0: \"1\" is not of type \"integer\""]);
    assert_eq!(problems(serde_json::json!({"a": "x", "c": 1})), [": c is not in the schema"]);
}
