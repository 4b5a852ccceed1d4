//! The one test binary.

#[cfg(feature = "e2e")]
mod api;
mod architecture;
#[cfg(feature = "live")]
mod client;
#[cfg(feature = "live")]
mod commands;
#[cfg(feature = "e2e")]
mod differential;
#[cfg(feature = "live")]
mod docs;
mod dumps;
#[cfg(feature = "e2e")]
mod e2e;
#[cfg(feature = "live")]
mod fuzzing;
#[cfg(unix)]
mod interruption;
#[cfg(feature = "live")]
mod numbers;
mod oracle;
mod recorded;
#[cfg(feature = "live")]
mod screens;
mod shown_changes;
mod support;
mod templates;
#[cfg(feature = "live")]
mod terminal;
mod unified_diff;
mod upstream;
mod written_yaml;
