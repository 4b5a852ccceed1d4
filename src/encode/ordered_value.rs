//! Values whose fields keep their order.

use std::{fmt, io};

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

/// A value whose fields keep their order.
#[derive(Debug, Clone, PartialEq)]
pub enum Tree {
    /// Null, a boolean or a number.
    Scalar(Value),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Tree>),
    /// Fields in order.
    Fields(Vec<(String, Tree)>),
}

impl Tree {
    /// Converts a report to a tree, with its fields in the order of the report.
    ///
    /// # Errors
    ///
    /// Fails if the report cannot be serialized.
    pub fn of(report: &impl Serialize) -> io::Result<Tree> {
        // A `Value` in between would sort the fields.
        Ok(serde_json::from_slice(&serde_json::to_vec(report)?)?)
    }

    /// Converts an API object to a tree in the customary order: fields that identify an object or a list entry come
    /// first, and the rest is sorted, as in kubectl.
    pub fn customary(value: &Value) -> Tree {
        match value {
            Value::String(text) => Tree::Text(text.clone()),
            Value::Array(items) => Tree::List(items.iter().map(Tree::customary).collect()),
            Value::Object(fields) => {
                let mut fields: Vec<_> =
                    fields.iter().map(|(key, value)| (key.clone(), Tree::customary(value))).collect();
                fields.sort_by(|(a, _), (b, _)| rank(a).cmp(&rank(b)).then_with(|| a.cmp(b)));
                Tree::Fields(fields)
            }
            scalar => Tree::Scalar(scalar.clone()),
        }
    }
}

/// Returns the position of a field among the others.
fn rank(key: &str) -> usize {
    const FIRST: [&str; 4] = ["apiVersion", "kind", "metadata", "name"];
    FIRST.iter().position(|first| *first == key).unwrap_or(FIRST.len())
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Scalar(Number::from_f64(value).map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Tree::Fields(fields))
    }
}
