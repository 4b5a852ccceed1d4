//! Reports as plain data: the source of all tables, and what `-o json` prints.

use std::fmt::Display;

use serde::Serialize;

use fix::Fix;

/// What a report and its parts are: plain data, with the names that JSON has. What is absent is left out, and never `null`.
macro_rules! answer {
    ($($item:tt)*) => {
        #[serde_with::skip_serializing_none]
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        #[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
        #[serde(rename_all = "camelCase")]
        $($item)*
    };
}

/// What one of a few values is: an enum without fields.
macro_rules! value {
    ($($item:tt)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
        #[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
        $($item)*
    };
}

pub mod acceptance;
pub(crate) mod age;
pub mod agent_pod;
pub mod change;
pub mod clusters;
pub mod common_cause;
pub mod compare;
pub mod coverage;
pub mod error;
pub mod fix;
pub mod history;
pub mod incident;
pub mod list;
pub mod logs;
pub mod node_coverage;
pub mod node_event;
pub mod node_map;
pub mod overhead;
pub mod partition;
pub mod plan;
pub mod preview;
pub mod reason;
pub mod recent_changes;
pub mod rollout_status;
#[cfg(feature = "schemas")]
mod schemas;
pub mod stale_config;

/// The version that all reports carry.
const VERSION: &str = "kubectl-ds/v1";

/// A report, which is printed in an [`Envelope`].
pub trait Report: Serialize {
    /// What it may be, such as `CoverageReport`.
    const KINDS: &'static [&'static str];

    /// What several of them are, if they are printed together.
    const LIST: &'static str = "";

    /// Returns what it is.
    fn kind(&self) -> &'static str {
        Self::KINDS[0]
    }

    /// Calls a function with everything that the report suggests.
    fn suggestions(&mut self, _visit: &mut dyn FnMut(&mut Fix)) {}

    /// Returns the names of what it is about, as kubectl prints them with `-o name`.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A report as it is printed: what it is comes first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope<T> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    report: T,
}

impl<'a, T: Report> Envelope<&'a T> {
    /// Puts a report into its envelope.
    pub fn of(report: &'a T) -> Self {
        Envelope { api_version: VERSION, kind: report.kind(), report }
    }
}

/// Formats a count: `1 node`, `2 nodes`.
pub fn count<N: Display + PartialEq + From<u8>>(number: N, thing: &str) -> String {
    if number == N::from(1) { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// Lists names in a sentence, not too many: `a and b`, `a, b, c and 2 more`.
pub(crate) fn named(names: &[impl AsRef<str>]) -> String {
    listed(names, "and")
}

/// Lists names with this conjunction.
pub(crate) fn listed(names: &[impl AsRef<str>], conjunction: &str) -> String {
    const MOST: usize = 3;
    let mut shown: Vec<&str> = names.iter().take(MOST).map(AsRef::as_ref).collect();
    let last = match names.len().saturating_sub(MOST) {
        0 => shown.pop().unwrap_or_default().to_owned(),
        more => format!("{more} more"),
    };
    if shown.is_empty() { last } else { format!("{} {conjunction} {last}", shown.join(", ")) }
}

/// Formats all of a number of things: `the only node`, `both nodes`, `all 3 nodes`.
pub(crate) fn all(number: usize, thing: &str) -> String {
    match number {
        1 => format!("the only {thing}"),
        2 => format!("both {thing}s"),
        _ => format!("all {}", count(number, thing)),
    }
}

/// Formats a count with its verb: `1 node has`, `2 nodes have`.
pub(crate) fn count_and(number: usize, thing: &str, [one, several]: [&str; 2]) -> String {
    format!("{} {}", count(number, thing), if number == 1 { one } else { several })
}
