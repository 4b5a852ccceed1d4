//! One file a subcommand: its arguments, the settings they resolve to, and its run.
//!
//! [`run`] parses the command line, hands the subcommand what every one has in common
//! ([`session`]), and prints what goes wrong.

pub mod change;
pub mod child;
pub mod complete;
pub mod completion;
pub mod coverage;
pub mod external_diff;
mod gate;
pub mod history;
pub mod list;
pub mod output;
pub mod restart;
pub mod session;
pub mod snapshot;
pub mod undo;
pub mod version;

use std::ffi::OsString;
use std::io::{self, Write};

use anstream::adapter::StripBytes;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::encode::sanitize::sanitize;
use crate::error::{CommandError, Exit};
use crate::io::Io;
use session::GlobalArgs;

/// Say why a node has no DaemonSet pod, what changed, and how to get back.
///
/// Without a subcommand: the fleet, as `kubectl ds list` shows it.
#[derive(Debug, Parser)]
#[command(name = "kubectl-ds", bin_name = "kubectl ds", version, max_term_width = 100)]
#[command(args_conflicts_with_subcommands = false, disable_version_flag = true)]
struct Cli {
    #[command(flatten)]
    target: GlobalArgs,
    #[command(flatten)]
    list: list::ListArgs,
    #[command(subcommand)]
    command: Option<Subcommands>,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    Coverage(coverage::CoverageArgs),
    List(list::ListArgs),
    History(history::HistoryArgs),
    Undo(undo::UndoArgs),
    Restart(restart::RestartArgs),
    Snapshot(snapshot::SnapshotArgs),
    Completion(completion::CompletionArgs),
    Version(version::VersionArgs),
    #[command(name = complete::NAME, hide = true)]
    Complete(complete::CompleteArgs),
}

/// Why a command ended without its answer.
#[derive(Debug)]
pub enum Failure {
    /// It failed, and this says why.
    Error(CommandError),
    /// Its output could not be written.
    Output(io::Error),
}

impl<T: Into<CommandError>> From<T> for Failure {
    fn from(error: T) -> Self {
        Failure::Error(error.into())
    }
}

/// Returns the whole command line as clap knows it, for help, completions and the reference.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs a command line, and returns the exit code.
pub fn run(arguments: Vec<OsString>, io: &mut Io<'_>, out: &mut dyn Write) -> Exit {
    let parsed = Cli::command()
        .try_get_matches_from(history::with_ranges_joined(arguments))
        .and_then(|found| Cli::from_arg_matches(&found));
    let result = match parsed {
        Ok(cli) if session::is_coloured(cli.target.color, io) => dispatch(cli, io, out),
        Ok(cli) => dispatch(cli, io, &mut Plain { out: &mut *out, stripper: StripBytes::new() }),
        Err(error) => return print_clap_error(&error, io, out),
    };
    match result.and_then(|exit| out.flush().map(|()| exit).map_err(Failure::Output)) {
        Ok(exit) => exit,
        // Whoever reads has seen enough, as `head` does; that is no failure of ours.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Success,
        Err(Failure::Output(error)) => print_error(&CommandError::new("cannot write the output").because(error), io),
        Err(Failure::Error(error)) => {
            // What was printed before it went wrong comes first.
            let _ = out.flush();
            print_error(&error, io)
        }
    }
}

fn dispatch(cli: Cli, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
    let Cli { target, list, command } = cli;
    if command.is_some() && list != list::ListArgs::default() {
        return Err(
            CommandError::usage("flags of `list` go after `list`, and those of another subcommand after it").into()
        );
    }
    match command {
        None => list::run(list, target, io, out),
        Some(Subcommands::List(arguments)) => list::run(arguments, target, io, out),
        Some(Subcommands::Coverage(arguments)) => coverage::run(arguments, target, io, out),
        Some(Subcommands::History(arguments)) => history::run(arguments, target, io, out),
        Some(Subcommands::Undo(arguments)) => undo::run(arguments, target, io, out),
        Some(Subcommands::Restart(arguments)) => restart::run(arguments, target, io, out),
        Some(Subcommands::Snapshot(arguments)) => snapshot::run(arguments, target, io, out),
        Some(Subcommands::Completion(arguments)) => completion::run(&arguments, out),
        Some(Subcommands::Complete(arguments)) => complete::run(arguments, out),
        Some(Subcommands::Version(arguments)) => version::run(&arguments, target, io, out),
    }
}

/// Prints an error as kubectl does, with what to do next beneath it.
fn print_error(error: &CommandError, io: &mut Io<'_>) -> Exit {
    let prefix = if error.stands_alone { "" } else { "error: " };
    let text = error.to_string().lines().map(sanitize).collect::<Vec<_>>().join("\n");
    // Where even standard error is closed there is nobody left to tell.
    let _ = writeln!(io.err, "{prefix}{text}");
    error.exit
}

/// Prints what clap says: help and the version are answers, all else is about the arguments.
fn print_clap_error(error: &clap::Error, io: &mut Io<'_>, out: &mut dyn Write) -> Exit {
    let text = error.render();
    if error.use_stderr() {
        let _ = write!(io.err, "{text}");
        Exit::Usage
    } else {
        let _ = write!(out, "{text}").and_then(|()| out.flush());
        Exit::Success
    }
}

/// Standard output where colour is not wanted: takes the styles out.
struct Plain<'a> {
    out: &'a mut dyn Write,
    stripper: StripBytes,
}

impl Write for Plain<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for plain in self.stripper.strip_next(bytes) {
            self.out.write_all(plain)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
