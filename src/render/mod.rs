//! Reports as tables and text.
//!
//! A renderer writes styled text on a [`page::Page`], which is laid out for a [`view::View`]; `anstream` strips the styles
//! if color is off. Every string from a cluster goes through [`sanitize`](crate::encode::sanitize::sanitize).

mod backoff;
pub(crate) mod change;
pub(crate) mod change_lines;
pub mod changes;
mod clusters;
mod common_cause;
pub(crate) mod compare;
pub(crate) mod coverage;
mod effect;
pub(crate) mod error;
pub(crate) mod explanation;
pub(crate) mod follow_summary;
pub(crate) mod history;
mod incident;
mod line_diff;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod node;
pub(crate) mod node_map;
pub(crate) mod nodes;
pub(crate) mod overhead;
pub(crate) mod overview;
pub mod page;
pub(crate) mod partition;
pub(crate) mod preview;
pub(crate) mod progress;
pub(crate) mod recent_changes;
pub mod region;
mod removed_nodes;
pub mod rollout_screen;
pub(crate) mod stale_config;
pub(crate) mod status;
pub(crate) mod status_lines;
mod style;
pub(crate) mod table;
pub(crate) mod text;
pub mod unified;
pub mod view;
mod word_diff;
