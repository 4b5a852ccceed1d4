//! The kubectl plugin: passes the clock, the environment and the streams to the library.
#![expect(clippy::disallowed_methods, reason = "this is the edge: the one place that asks the system")]

use std::io::{BufWriter, IsTerminal, Write};
use std::process::ExitCode;

use jiff::Timestamp;
use kubectl_ds::error::Exit;
use kubectl_ds::interrupt::Interrupt;
use kubectl_ds::io::{Io, Unfailing, is_unicode};
use kubectl_ds::report::fix::PROGRAM;
use kubectl_ds::{commands, process};

fn main() -> ExitCode {
    let exit = process::run(command).unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "error: cannot start: {error}");
        Exit::Error
    });
    ExitCode::from(exit as u8)
}

async fn command(interrupt: Interrupt) -> Exit {
    // Windows ignores the case of names: its `Path` is `PATH`.
    let known = |name: String| if cfg!(windows) { name.to_uppercase() } else { name };
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((known(name.into_string().ok()?), value.into_string().ok()?)))
        .collect();
    let (mut input, stderr) = (std::io::stdin(), std::io::stderr());
    let stdout = std::io::stdout();
    let mut io = Io {
        input_is_terminal: input.is_terminal(),
        out_is_terminal: stdout.is_terminal(),
        err_is_terminal: stderr.is_terminal(),
        terminal_width,
        terminal_size,
        unicode: is_unicode(&environment),
        input: &mut input,
        err: &mut Unfailing(stderr),
        environment,
        clock: Timestamp::now,
        interrupt,
        program: PROGRAM,
        server_warnings: 0,
        tells_waits: true,
    };
    let mut out = BufWriter::with_capacity(1 << 16, stdout.lock());
    commands::run(std::env::args_os().collect(), &mut io, &mut out).await
}

/// Returns the width of the terminal of standard output.
#[cfg(unix)]
fn terminal_width() -> Option<usize> {
    // Unlike `terminal_size`, this also accepts the columns of a terminal that reports 0 rows.
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Returns the width of the terminal of standard output.
#[cfg(not(unix))]
fn terminal_width() -> Option<usize> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0))
}

/// Returns the columns and rows of the terminal of standard error.
#[cfg(unix)]
fn terminal_size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok()?;
    Some((size.ws_col.into(), size.ws_row.into())).filter(|(columns, rows)| *columns > 0 && *rows > 0)
}

/// Returns the columns and rows of the terminal of standard error.
#[cfg(not(unix))]
fn terminal_size() -> Option<(usize, usize)> {
    let (columns, rows) = terminal_size::terminal_size_of(std::io::stderr())?;
    Some((columns.0.into(), rows.0.into()))
}
