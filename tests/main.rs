//! The hermetic tests: Rust alone, no cluster, no network.

mod architecture;
mod client;
mod commands;
mod docs;
mod dumps;
mod fuzzing;
#[cfg(unix)]
mod interruption;
#[cfg(unix)]
mod linear;
mod numbers;
mod recorded;
mod recorded_answers;
mod screens;
mod shown_changes;
#[expect(dead_code, reason = "the end-to-end tests use more of it")]
mod support;
mod templates;
mod terminal;
mod unified_diff;
mod upstream;
mod validation;
#[cfg(unix)]
mod workflows;
mod written_yaml;
