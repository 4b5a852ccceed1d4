//! Reports as plain data: the source of all tables, and what `-o json` prints.

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
