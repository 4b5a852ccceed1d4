//! How reports are shown: tables and text.
//!
//! A renderer writes styled text for a [`view::View`]; whoever prints it takes the styles out where
//! colour is not wanted. Every string that comes from a cluster goes through [`sanitize`](crate::encode::sanitize::sanitize).

pub mod change;
pub mod changes;
pub mod coverage;
pub mod explanation;
pub mod history;
pub mod line_diff;
pub mod list;
pub mod node;
pub mod nodes;
pub mod progress;
pub mod style;
pub mod table;
pub mod text;
pub mod unified;
pub mod view;
pub mod what_if;
pub mod word_diff;
