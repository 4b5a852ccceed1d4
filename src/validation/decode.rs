//! Whether an object can be decoded into the Go types: no unknown fields, no values of another type.

use serde_json::Value;

use super::Validation;
use crate::model::quantity::Quantity;
use crate::model::template_types::{FieldKind, Scalar, Type};
use crate::model::update_strategy::Problem;

/// Reports unknown fields, and values of another type.
///
/// The server decodes like encoding/json, and so is less exact about the path of a value with the wrong type.
pub(super) fn problems(of: &'static Type, value: &Value, path: &str) -> Vec<Problem> {
    let mut found = Validation::default();
    check(of, value, path, &mut found);
    found.problems
}

fn check(of: &'static Type, value: &Value, path: &str, found: &mut Validation<'_>) {
    let Value::Object(fields) = value else {
        if !value.is_null() {
            found.problem(path, format!("Invalid value: {}: must be an object", shortened(value)));
        }
        return;
    };
    for (name, value) in fields {
        let child = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match of.field(name) {
            Some(field) => check_field(&field.kind, value, &child, found),
            None => {
                let known = of.fields.iter().map(|field| (strsim::osa_distance(field.name, name), field.name)).min();
                let hint = match known {
                    Some((..=2, near)) => format!(" (did you mean {near:?}?)"),
                    _ => String::new(),
                };
                found.problem(child.clone(), format!("unknown field {child:?}{hint}"));
            }
        }
    }
}

fn check_field(kind: &'static FieldKind, value: &Value, path: &str, found: &mut Validation<'_>) {
    let expected = match (kind, value) {
        (_, Value::Null) => None,
        (FieldKind::Struct(of) | FieldKind::Optional(of), _) => return check(of, value, path, found),
        (FieldKind::List(of, _), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                check(of, item, &format!("{path}[{index}]"), found);
            }
            None
        }
        (FieldKind::Values(scalar), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                let expected = scalar.expected(item);
                report(expected, item, &format!("{path}[{index}]"), found);
            }
            None
        }
        (FieldKind::Texts | FieldKind::Quantities, Value::Object(entries)) => {
            let scalar = if matches!(kind, FieldKind::Texts) { Scalar::Text } else { Scalar::Quantity };
            for (key, entry) in entries {
                report(scalar.expected(entry), entry, &format!("{path}[{key}]"), found);
            }
            None
        }
        (FieldKind::List(..) | FieldKind::Values(_), _) => Some("a list"),
        (FieldKind::Texts | FieldKind::Quantities, _) => Some("an object"),
        (FieldKind::Value(scalar) | FieldKind::Pointer(scalar), _) => scalar.expected(value),
        (FieldKind::IntOrString, _) => Scalar::IntOrString.expected(value),
        (FieldKind::Quantity | FieldKind::OptionalQuantity, _) => Scalar::Quantity.expected(value),
    };
    report(expected, value, path, found);
}

fn report(expected: Option<&str>, value: &Value, path: &str, found: &mut Validation<'_>) {
    if let Some(expected) = expected {
        found.problem(path, format!("Invalid value: {}: must be {expected}", shortened(value)));
    }
}

/// Returns a value, shortened for a message.
fn shortened(value: &Value) -> String {
    match value {
        Value::Array(_) => "[…]".to_owned(),
        Value::Object(_) => "{…}".to_owned(),
        value => value.to_string(),
    }
}

impl Scalar {
    /// Returns the expected type of a value, if it is a different one.
    fn expected(self, value: &Value) -> Option<&'static str> {
        let is_int32 = || value.as_i64().is_some_and(|number| i32::try_from(number).is_ok());
        let (holds, expected) = match self {
            _ if value.is_null() => return None,
            Scalar::Text => (value.is_string(), "a string"),
            Scalar::Bool => (value.is_boolean(), "true or false"),
            Scalar::Int32 => (is_int32(), "a 32-bit integer"),
            Scalar::Int64 => (value.is_i64(), "an integer"),
            Scalar::Time => (value.as_str().is_some_and(is_time), "a time such as 2026-01-02T03:04:05Z"),
            Scalar::Json => (true, ""),
            Scalar::IntOrString => (value.is_string() || is_int32(), "a string or a 32-bit integer"),
            Scalar::Quantity => (is_quantity(value), "a quantity such as 500m, 2 or 64Mi"),
        };
        (!holds).then_some(expected)
    }
}

/// Returns whether an amount, given as text or as a number, is a quantity.
fn is_quantity(amount: &Value) -> bool {
    let text = amount.as_str().map_or_else(|| amount.to_string(), |text| text.trim().to_owned());
    // `ParseQuantity` reads `m` and `.` as zero.
    let digits = text.strip_prefix(['+', '-']).unwrap_or(&text);
    !text.is_empty() && Quantity::new(format!("0{digits}")).nanos().is_some()
}

/// Returns whether a text has the format of RFC 3339.
fn is_time(text: &str) -> bool {
    let layout = text.get(..19).is_some_and(|text| {
        text.bytes().enumerate().all(|(index, byte)| match index {
            4 | 7 => byte == b'-',
            10 => byte == b'T',
            13 | 16 => byte == b':',
            _ => byte.is_ascii_digit(),
        })
    });
    layout && text.parse::<jiff::Timestamp>().is_ok()
}
