//! The kubectl plugin: hands the clock, the environment and the streams to the library.
#![expect(clippy::disallowed_methods, reason = "this is the edge: the one place that asks the system")]

use std::io::{BufWriter, IsTerminal};
use std::process::ExitCode;

use jiff::Timestamp;
use kubectl_ds::io::{Io, width_of};

fn main() -> ExitCode {
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let (mut input, mut err) = (std::io::stdin(), std::io::stderr());
    let stdout = std::io::stdout();
    let terminal_width = terminal_size::terminal_size_of(&stdout).map(|(width, _)| usize::from(width.0));
    let mut io = Io {
        input_is_terminal: input.is_terminal(),
        out_is_terminal: stdout.is_terminal(),
        err_is_terminal: err.is_terminal(),
        width: width_of(&environment, terminal_width),
        unicode: kubectl_ds::io::is_unicode(&environment),
        input: &mut input,
        err: &mut err,
        environment,
        now: Timestamp::now(),
    };
    let mut out = BufWriter::with_capacity(1 << 16, stdout.lock());
    let exit = kubectl_ds::commands::run(std::env::args_os().collect(), &mut io, &mut out);
    // Snapshots of big clusters are left to the system: freeing them one by one takes longer.
    ExitCode::from(exit as u8)
}
