//! One difference between two pod templates.

use std::fmt;

use serde_json::Value;
use serde_with::SerializeDisplay;

/// One difference between two pod templates.
#[apply(answer!)]
pub struct Change {
    /// Where it is in the template, such as `spec.containers[agent].image`.
    #[cfg_attr(feature = "schemas", schemars(with = "String"))]
    pub path: ChangePath,
    /// What happened to the value.
    pub op: Op,
    /// The value before; absent if it was added.
    pub from: Option<Value>,
    /// The value after; absent if it was removed.
    pub to: Option<Value>,
}

/// What happened to a value.
#[apply(value!)]
#[derive(PartialOrd, Ord, Hash)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// It was added.
    Add,
    /// It was removed.
    Remove,
    /// It was replaced by another value.
    Replace,
}

impl Change {
    /// Creates a change; an absent value makes it an addition or a removal.
    pub fn new(path: impl Into<ChangePath>, from: Option<Value>, to: Option<Value>) -> Self {
        let op = match (&from, &to) {
            (None, _) => Op::Add,
            (Some(_), None) => Op::Remove,
            (Some(_), Some(_)) => Op::Replace,
        };
        Change { path: path.into(), op, from, to }
    }
}

/// The steps from the root of a template to a value.
#[derive(Debug, Clone, Default, PartialEq, Eq, SerializeDisplay)]
pub struct ChangePath(pub Vec<PathStep>);

/// A step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathStep {
    /// A field.
    Field(String),
    /// An entry of a list or of a map, by its key.
    Entry(String),
    /// An item of a list, by its index.
    Index(usize),
    /// The order of a list.
    Order,
}

impl ChangePath {
    /// Returns the path of a field of this value.
    pub fn field(&self, name: &str) -> ChangePath {
        self.then(PathStep::Field(name.to_owned()))
    }

    /// Returns the path of an entry of this list or map.
    pub fn entry(&self, key: &str) -> ChangePath {
        self.then(PathStep::Entry(key.to_owned()))
    }

    /// Returns the path of an item of this list.
    pub fn index(&self, index: usize) -> ChangePath {
        self.then(PathStep::Index(index))
    }

    /// Returns the path of the order of this list.
    pub fn order(&self) -> ChangePath {
        self.then(PathStep::Order)
    }

    fn then(&self, step: PathStep) -> ChangePath {
        ChangePath(self.0.iter().cloned().chain([step]).collect())
    }
}

impl fmt::Display for ChangePath {
    /// Writes the path as users do. Keys that would make it ambiguous are quoted.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_identifier = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        for (depth, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Field(name) if is_identifier(name) && depth == 0 => formatter.write_str(name)?,
                PathStep::Field(name) if is_identifier(name) => write!(formatter, ".{name}")?,
                PathStep::Field(key) | PathStep::Entry(key) => {
                    if key.is_empty() || key.contains(['[', ']', '"']) || key.trim() != key {
                        write!(formatter, "[{}]", Value::from(key.as_str()))?;
                    } else {
                        write!(formatter, "[{key}]")?;
                    }
                }
                PathStep::Index(index) => write!(formatter, "[{index}]")?,
                PathStep::Order => formatter.write_str(" (order)")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{ChangePath, PathStep};

    /// Reads the plain paths that unit tests are written with.
    impl From<&str> for ChangePath {
        fn from(text: &str) -> ChangePath {
            let (mut rest, order) =
                text.strip_suffix(" (order)").map_or((text, None), |rest| (rest, Some(PathStep::Order)));
            let mut steps = Vec::new();
            while !rest.is_empty() {
                let (step, after) = match rest.strip_prefix('[') {
                    Some(entry) => {
                        let (key, after) = entry.split_once(']').unwrap();
                        (key.parse().map_or_else(|_| PathStep::Entry(key.to_owned()), PathStep::Index), after)
                    }
                    None => {
                        let name = rest.strip_prefix('.').unwrap_or(rest);
                        let (name, after) = name.split_at(name.find(['.', '[']).unwrap_or(name.len()));
                        (PathStep::Field(name.to_owned()), after)
                    }
                };
                steps.push(step);
                rest = after;
            }
            steps.extend(order);
            ChangePath(steps)
        }
    }

    #[test]
    fn keys_that_would_be_ambiguous_are_quoted() {
        let spec = ChangePath::default().field("spec");
        for (path, text) in [
            (spec.field("limits").field("memory"), "spec.limits.memory"),
            (spec.field("limits").field("example.com/gpu"), "spec.limits[example.com/gpu]"),
            (spec.entry("agent").field("image"), "spec[agent].image"),
            (spec.index(2), "spec[2]"),
            (spec.entry("a").order(), "spec[a] (order)"),
            (spec.entry("a.b/c=d:E"), "spec[a.b/c=d:E]"),
            (spec.entry("").field(""), r#"spec[""][""]"#),
            (spec.entry(" a"), r#"spec[" a"]"#),
            (spec.entry("a]b"), r#"spec["a]b"]"#),
            (spec.entry("\"\n"), r#"spec["\"\n"]"#),
            (ChangePath::default().entry("é"), "[é]"),
        ] {
            assert_eq!(path.to_string(), text);
        }
    }
}
