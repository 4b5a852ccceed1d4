//! JSONPath templates, as kubectl's `-o jsonpath` takes them: text with paths in braces, and loops.
//!
//! The language is that of client-go 1.37, `util/jsonpath`, which is older than RFC 9535 and differs from it: there are
//! loops, names with dashes and slashes need no quotes, and a dot in a name is escaped by a backslash.

mod parser;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use serde_json::Value;

use super::json;
use super::sanitize::escape;

/// A template.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath(Vec<Part>);

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    Print(Path),
    /// Repeats parts for each value that is found.
    Range(Path, Vec<Part>),
}

/// A path from a value to values below it.
#[derive(Debug, Clone, PartialEq)]
struct Path(Vec<Segment>);

#[derive(Debug, Clone, PartialEq)]
enum Segment {
    Field(String),
    /// All values of an object or an array.
    Wildcard,
    /// The value itself and all values below it that have values below them.
    Recursive,
    Slice(Slice),
    Union(Vec<Path>),
    Filter(Filter),
    /// A value that the template contains.
    Literal(Value),
}

/// Elements of an array, counted from the end if negative.
#[derive(Debug, Clone, PartialEq)]
enum Slice {
    Index(i64),
    Range { from: Option<i64>, to: Option<i64>, step: Option<i64> },
}

/// Elements of an array for which a path leads to a value, or to a value that compares as required.
#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: Path,
    comparison: Option<(Operator, Path)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What is wrong with a template, or with applying it.
type Result<T> = std::result::Result<T, String>;

impl JsonPath {
    /// Applies the template to a value. What controls a terminal is escaped in values, not in the template's own text.
    ///
    /// # Errors
    ///
    /// Returns why a path cannot be followed, as where an index is beyond the end of an array. A field that does not exist
    /// is no error.
    pub fn apply(&self, value: &Value) -> Result<String> {
        let mut text = String::new();
        apply(&self.0, value, &mut text)?;
        Ok(text)
    }
}

fn apply(parts: &[Part], value: &Value, text: &mut String) -> Result<()> {
    for part in parts {
        match part {
            Part::Text(literal) => text.push_str(literal),
            Part::Print(path) => {
                if let [Segment::Literal(Value::String(literal))] = path.0.as_slice() {
                    text.push_str(literal);
                    continue;
                }
                let found: Vec<String> = path.find(value)?.into_iter().map(shown).collect();
                text.push_str(&found.join(" "));
            }
            Part::Range(path, repeated) => {
                for value in path.find(value)? {
                    apply(repeated, value, text)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns a value as kubectl prints it: strings as they are, objects and arrays as compact JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.split('\n').map(escape).collect::<Vec<_>>().join("\n"),
        other => {
            let mut text = Vec::new();
            // A vector grows.
            let _ = json::compact(other, &mut text);
            String::from_utf8_lossy(&text).into_owned()
        }
    }
}

impl Path {
    /// Returns the values that the path leads to.
    fn find<'a>(&'a self, value: &'a Value) -> Result<Vec<&'a Value>> {
        self.0.iter().try_fold(vec![value], |values, step| step.find(values))
    }
}

impl Segment {
    fn find<'a>(&'a self, values: Vec<&'a Value>) -> Result<Vec<&'a Value>> {
        let found = match self {
            Segment::Field(name) => values.into_iter().filter_map(|value| value.as_object()?.get(name)).collect(),
            Segment::Wildcard => values.into_iter().flat_map(children).collect(),
            Segment::Recursive => {
                let mut found = Vec::new();
                values.into_iter().for_each(|value| descend(value, &mut found));
                found
            }
            Segment::Slice(slice) => {
                let mut found = Vec::new();
                for value in values.into_iter().filter(|value| !value.is_null()) {
                    found.extend(slice.of(array(value)?)?);
                }
                found
            }
            Segment::Union(paths) => {
                let mut found = Vec::new();
                for path in paths {
                    found.extend(path.0.iter().try_fold(values.clone(), |values, step| step.find(values))?);
                }
                found
            }
            Segment::Filter(filter) => {
                let mut found = Vec::new();
                for value in values {
                    for element in array(value)? {
                        if filter.takes(element)? {
                            found.push(element);
                        }
                    }
                }
                found
            }
            Segment::Literal(text @ Value::String(_)) => vec![text],
            Segment::Literal(literal) => values.iter().map(|_| literal).collect(),
        };
        Ok(found)
    }
}

fn array(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().ok_or_else(|| match value {
        Value::Object(_) => "an object is not an array".to_owned(),
        other => format!("{other} is not an array"),
    })
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(values) => values.iter().collect(),
        Value::Object(values) => values.values().collect(),
        _ => Vec::new(),
    }
}

fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    let children = children(value);
    if !children.is_empty() {
        found.push(value);
        children.into_iter().for_each(|child| descend(child, found));
    }
}

impl Slice {
    fn of<'a>(&self, values: &'a [Value]) -> Result<Vec<&'a Value>> {
        let length = i64::try_from(values.len()).unwrap_or(i64::MAX);
        let from_start = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
        let (from, to, step) = match *self {
            Slice::Index(index) => (from_start(index), from_start(index).saturating_add(1), 1),
            Slice::Range { from, to, step } => {
                (from_start(from.unwrap_or(0)), from_start(to.unwrap_or(length)), step.unwrap_or(1))
            }
        };
        if from == to {
            return Ok(Vec::new());
        }
        let out_of_bounds = |index: i64| format!("array index out of bounds: index {index}, length {length}");
        if !(0..length).contains(&from) {
            return Err(out_of_bounds(from));
        }
        if !(0..=length).contains(&to) {
            return Err(out_of_bounds(to.saturating_sub(1)));
        }
        if from > to {
            return Err(format!("starting index {from} is greater than ending index {to}"));
        }
        let index = |index: i64| usize::try_from(index).map_err(|_| "step must be > 0".to_owned());
        match index(step)? {
            0 => Err("step must be > 0".to_owned()),
            step => Ok(values[index(from)?..index(to)?].iter().step_by(step).collect()),
        }
    }
}

impl Filter {
    fn takes(&self, element: &Value) -> Result<bool> {
        let Some((operator, right)) = &self.comparison else {
            return Ok(self.left.find(element).is_ok_and(|found| !found.is_empty()));
        };
        let (left, right) = (self.left.find(element)?, right.find(element)?);
        match (left.as_slice(), right.as_slice()) {
            ([], _) | (_, []) => Ok(false),
            ([left], [right]) => operator.holds(left, right),
            _ => Err("can only compare one element at a time".to_owned()),
        }
    }
}

impl Operator {
    fn holds(self, left: &Value, right: &Value) -> Result<bool> {
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (Value::Number(left), Value::Number(right)) => left.as_f64().partial_cmp(&right.as_f64()),
            // Boolean values are equal or not.
            (Value::Bool(left), Value::Bool(right)) if left == right => Some(Ordering::Equal),
            (Value::Bool(_), Value::Bool(_)) => None,
            _ => return Err("incompatible types for comparison".to_owned()),
        };
        Ok(match self {
            Operator::Equal => order == Some(Ordering::Equal),
            Operator::NotEqual => order != Some(Ordering::Equal),
            Operator::Less => order == Some(Ordering::Less),
            Operator::LessOrEqual => order.is_some_and(Ordering::is_le),
            Operator::Greater => order == Some(Ordering::Greater),
            Operator::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        })
    }
}
