//! Where something is in a template, as users write it: `spec.containers[agent].image`.

use serde_json::Value;

/// A step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A field.
    Field(String),
    /// An entry of a list or of a map, by what it is known by.
    Entry(String),
    /// The order of a list.
    Order,
}

/// What a path ends in that names the order of a list.
const ORDER: &str = " (order)";

/// Divides a path into its steps.
pub fn steps(path: &str) -> Vec<Step> {
    let (mut rest, order) = path.strip_suffix(ORDER).map_or((path, None), |rest| (rest, Some(Step::Order)));
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('[').filter(|rest| rest.starts_with('"')) {
            let mut texts = serde_json::Deserializer::from_str(quoted).into_iter::<String>();
            let text = texts.next().and_then(Result::ok).unwrap_or_default();
            rest = quoted.get(texts.byte_offset()..).unwrap_or_default();
            rest = rest.strip_prefix(']').unwrap_or(rest);
            steps.push(Step::Entry(text));
        } else if let Some(entry) = rest.strip_prefix('[') {
            let (text, after) = entry.split_once(']').unwrap_or((entry, ""));
            steps.push(Step::Entry(text.to_owned()));
            rest = after;
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            steps.push(Step::Field(rest[..end].to_owned()));
            rest = &rest[end..];
        }
    }
    steps.extend(order);
    steps
}

/// Writes the path of the order of a list.
pub fn order(path: &str) -> String {
    format!("{path}{ORDER}")
}

/// Writes the path of something that is known by a text, which is quoted where it would not be clear where it ends.
pub fn in_brackets(path: &str, name: &str) -> String {
    if name.is_empty() || name.contains(['[', ']', '"']) || name.trim() != name {
        format!("{path}[{}]", Value::from(name))
    } else {
        format!("{path}[{name}]")
    }
}

/// Writes the path of a field.
pub fn child(path: &str, name: &str) -> String {
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
        in_brackets(path, name)
    } else if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::{Step, child, in_brackets, order, steps};

    #[test]
    fn every_path_that_is_written_is_read_back() {
        let names =
            ["agent", "9100/TCP", "a.b/c", "", " ", "a]b", "[", "\"", "]\"[", "\\", "a b=c:D", "(order)", "\n", "é"];
        for name in names {
            let path = child(&in_brackets(&child("", "spec"), name), "image");
            let expected = [Step::Field("spec".into()), Step::Entry(name.into()), Step::Field("image".into())];
            assert_eq!(steps(&path), expected, "{path}");
            let of_order = [&expected[..2], &[Step::Order]].concat();
            assert_eq!(steps(&order(&in_brackets("spec", name))), of_order, "{name:?}");
        }
    }

    #[test]
    fn fields_with_odd_names_stand_in_brackets() {
        assert_eq!(child("limits", "memory"), "limits.memory");
        assert_eq!(child("limits", "example.com/gpu"), "limits[example.com/gpu]");
        assert_eq!(child("", "spec"), "spec");
    }

    #[test]
    fn text_that_is_no_path_is_read_somehow() {
        for text in ["", "[", "[\"", "[\"a", ".", "..", "a[b", "a]b", " (order)"] {
            steps(text);
        }
    }
}
