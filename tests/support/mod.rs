//! Shared by several kinds of tests.

use std::io::Write;

use kubectl_ds::error::CommandError;
use kubectl_ds::report::fix::Fix;

pub mod agreement;
pub mod binary;
pub mod documents;
pub mod expectations;
pub mod hard_values;
pub mod in_process;
pub mod nasty_strings;
pub mod objects;
pub mod oracle;
#[cfg(unix)]
pub mod pty;
pub mod random;
pub mod sampling;
pub mod server;
pub mod template_generator;
pub mod terminal;
pub mod validation;

/// Returns an error and its hints as a person sees them in a pipe.
pub fn shown(error: impl Into<CommandError>) -> String {
    let error = error.into();
    let command = |hint: &Fix| hint.command.as_ref().map_or_else(String::new, |command| format!(": {command}"));
    let hints = error.hints.iter().map(|hint| format!("\nhint: {}{}", hint.advice, command(hint)));
    std::iter::once(error.to_string()).chain(hints).collect()
}

/// Tells the person who runs the tests what goes on; unlike a test's own output it is never held back.
pub fn say(words: &str) {
    let _ = writeln!(std::io::stderr(), "{words}");
}

/// Tells why a test ends before it has shown anything.
pub fn not_run(why: &str) {
    say(&format!("{}: not run: {why}", std::thread::current().name().unwrap_or("a test")));
}

/// Tells whether there is a program of this name; if not, the test that asks is not run, which is told.
pub fn has_program(name: &str) -> bool {
    let has =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|path| path.join(name).is_file());
    if !has {
        not_run(&format!("needs {name}"));
    }
    has
}
