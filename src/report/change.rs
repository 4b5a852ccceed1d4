//! One difference between two pod templates, as plain data.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// One difference between two pod templates.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Where it is in the template, such as `spec.containers[agent].image`.
    pub path: String,
    /// What became of the value.
    pub op: Op,
    /// The value before, absent where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    /// The value after, absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
}

/// What became of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// It was not there before.
    Add,
    /// It is not there any more.
    Remove,
    /// It is another one.
    Replace,
}

impl Change {
    /// Makes the change from one value to another; what is missing says which operation it is.
    pub fn new(path: impl Into<String>, from: Option<Value>, to: Option<Value>) -> Self {
        let op = match (&from, &to) {
            (None, _) => Op::Add,
            (Some(_), None) => Op::Remove,
            (Some(_), Some(_)) => Op::Replace,
        };
        Change { path: path.into(), op, from, to }
    }
}
