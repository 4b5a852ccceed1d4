//! Reports as plain data: the source of all tables, and what `-o json` prints.

use serde::Serialize;

use fix::Fix;

pub(crate) mod age;
pub mod change;
pub mod common_cause;
pub mod coverage;
pub mod fix;
pub mod history;
pub mod list;
pub mod node_event;
pub mod node_map;
pub mod partition;
pub mod plan;
pub mod reason;
pub mod rollout_status;
pub mod strategy;
pub mod what_if;

/// A report, or an object of the API, that can be printed as data.
pub trait Report: Serialize {
    /// Calls a function with everything that the report suggests.
    fn suggestions(&mut self, _visit: &mut dyn FnMut(&mut Fix)) {}
}

impl Report for serde_json::Value {}

/// Formats a count: `1 node`, `2 nodes`.
pub fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// Formats a count with its verb: `1 node has`, `2 nodes have`.
pub(crate) fn count_and(number: usize, thing: &str, [one, several]: [&str; 2]) -> String {
    format!("{} {}", count(number, thing), if number == 1 { one } else { several })
}
