//! What the end-to-end tests stand on.

use std::io::Write;

pub mod control_plane;
pub mod faulty_cluster;

/// Tells the person who runs the tests what goes on; unlike a test's own output it is never held back.
pub fn say(words: &str) {
    let _ = writeln!(std::io::stderr(), "{words}");
}
