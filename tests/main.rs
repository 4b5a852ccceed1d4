//! The hermetic tests: Rust alone, no cluster, no network.

mod architecture;
#[cfg(feature = "live")]
mod client;
#[cfg(feature = "live")]
mod commands;
#[cfg(feature = "live")]
mod docs;
mod dumps;
#[cfg(feature = "live")]
mod fuzzing;
#[cfg(unix)]
mod interruption;
#[cfg(unix)]
mod linear;
#[cfg(feature = "live")]
mod numbers;
mod recorded;
mod recorded_answers;
#[cfg(feature = "live")]
mod screens;
mod shown_changes;
#[expect(dead_code, reason = "the end-to-end tests use more of it")]
mod support;
mod templates;
#[cfg(feature = "live")]
mod terminal;
mod unified_diff;
mod upstream;
mod validation;
#[cfg(unix)]
mod workflows;
mod written_yaml;
