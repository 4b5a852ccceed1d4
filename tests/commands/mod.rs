//! The real binary, as run from a shell: relations between outputs, data, streams, signals.
//!
//! Exact text is in `tests/screens/`.

mod advanced;
mod completion;
mod coverage;
mod demo;
mod errors;
#[cfg(unix)]
mod help;
pub mod history;
pub mod hostile;
mod list;
mod logs;
mod partition;
#[cfg(unix)]
mod pasted;
mod pause;
mod restart;
mod streams;
mod undo;
mod version;

use crate::screens::{Ended, end, kubectl_ds};

/// The fixture that most commands are run on; a comment in it says what to notice.
pub const SHOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/commands/shop.yaml");

/// A recorded cluster in which nearly every DaemonSet has a different problem; see `tests/README.md`.
pub const FAULTY_CLUSTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/faulty-cluster.json.gz");

/// A rollout of each verdict; a comment in it says what to notice.
pub const ROLLOUTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/commands/rollouts.yaml");

/// Half a minute after the last event in the fixture.
const NOW: &str = "2026-11-20T10:00:00Z";

pub fn run(arguments: &[&str]) -> Ended {
    end(kubectl_ds(arguments), None)
}

/// Runs a command that reads the given standard input.
pub fn run_with_input(arguments: &[&str], input: &[u8]) -> Ended {
    end(kubectl_ds(arguments), Some(input))
}

/// Runs a reading command on the fixture that must succeed without warnings, and returns what it prints.
pub fn on_shop(arguments: &[&str]) -> String {
    let ended = run(&[arguments, &["--from", SHOP, "--now", NOW]].concat());
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{arguments:?}");
    ended.out
}
