//! What tests of a whole cluster stand on, recorded or live.

#[cfg(feature = "e2e")]
use std::io::Write;

use kubectl_ds::error::CommandError;
use kubectl_ds::report::fix::Fix;

pub mod agreement;
#[cfg(feature = "e2e")]
pub mod api;
#[cfg(feature = "e2e")]
pub mod control_plane;
#[cfg(feature = "e2e")]
pub mod demo_cluster;
pub mod expectations;
#[cfg(feature = "e2e")]
pub mod faulty_cluster;
pub mod hard_values;
#[cfg(feature = "e2e")]
pub mod interceptor;
#[cfg(feature = "e2e")]
pub mod kruise;
pub mod nasty_strings;
pub mod objects;

/// Returns an error and its hints as a person sees them in a pipe.
pub fn shown(error: impl Into<CommandError>) -> String {
    let error = error.into();
    let command = |hint: &Fix| hint.command.as_ref().map_or_else(String::new, |command| format!(": {command}"));
    let hints = error.hints.iter().map(|hint| format!("\nhint: {}{}", hint.advice, command(hint)));
    std::iter::once(error.to_string()).chain(hints).collect()
}

/// Tells the person who runs the tests what goes on; unlike a test's own output it is never held back.
#[cfg(feature = "e2e")]
pub fn say(words: &str) {
    let _ = writeln!(std::io::stderr(), "{words}");
}
