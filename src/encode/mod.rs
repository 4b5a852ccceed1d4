//! Values as text: JSON and YAML that are read back as the same values, and that cannot control a terminal.

pub mod documents;
pub(crate) mod json;
pub mod ordered_value;
pub mod sanitize;
pub mod shell;
pub mod yaml;
