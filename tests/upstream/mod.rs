//! Upstream's own test tables, ported row by row as data, with upstream's names for the cases.
//!
//! The rows are those of Kubernetes 1.37.2. Rows are omitted if they change a feature gate from its default, or test
//! something that is not modeled (device classes, resources that a scheduler's configuration ignores, nil nodes and
//! pods); each module says which.

mod affinity;
mod conformance;
mod daemon_pods;
mod ports;
mod resources;
mod should_run;
mod taints;
mod update_strategy;

use serde::de::DeserializeOwned;

/// Reads the rows of a table.
fn rows<T: DeserializeOwned>(table: &str) -> Vec<T> {
    let rows: Vec<T> = serde_json::from_str(table).unwrap();
    assert!(!rows.is_empty());
    rows
}
