//! One file per subcommand: its arguments, the settings they resolve to, and its run.
//!
//! [`run`] parses the command line, passes the subcommand the common [`session`], and prints errors.

mod api_server;
mod change;
mod change_args;
mod changes;
mod child;
mod compare;
mod complete;
mod completion;
mod confirm;
mod coverage;
mod explain;
mod fleet_gate;
mod gate;
mod gate_args;
mod help;
mod history;
mod hold_trial;
mod list;
mod logs;
mod node_choice;
mod node_edit;
mod not_applied;
mod out_after_change;
mod output;
mod overhead;
mod parse;
mod partition;
mod partition_advanced;
mod partition_args;
mod partition_progress;
mod partition_requests;
mod partition_run;
mod pause;
mod pending_change;
mod place;
mod pod;
mod preview;
mod preview_changes;
mod program;
mod proposed;
mod refusal;
mod restart;
mod resume;
mod retry;
mod session;
mod set;
mod several;
mod snapshot;
mod status;
mod status_watch;
mod undo;
mod version;
mod watch;
mod words;

use std::ffi::OsString;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::pin::pin;
use std::task::Poll;

use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::cluster::error::ClusterError;
use crate::encode::shell;
use crate::error::{CommandError, Exit};
use crate::io::{Io, WIDTH};
use crate::render;
use crate::render::text::wrap;
use crate::render::view::View;
use crate::report::error::ErrorReport;
use crate::report::fix::Fix;
use list::{ListArgs, ListNamedArgs};
use parse::from_environment;
use session::GlobalArgs;
use words::UnknownCommand;

/// Find out why a node has no DaemonSet pod, what changed, and how to roll back.
///
/// Without a subcommand: the fleet, as `kubectl ds list` shows it. With the name of a DaemonSet instead: why its nodes
/// have no pod, as `kubectl ds coverage` shows it.
#[derive(Debug, Parser)]
#[command(name = "kubectl-ds", bin_name = "kubectl ds", version, max_term_width = 100)]
#[command(args_conflicts_with_subcommands = false, disable_version_flag = true, disable_help_subcommand = true)]
#[command(before_help = "# Show the DaemonSets that are not healthy first
kubectl ds -A

# Show why nodes lack a pod, and what to do
kubectl ds coverage node-exporter -n monitoring

# Try any command on a recorded cluster
kubectl ds --from demo")]
struct Cli {
    // Precedes the others, which are flattened under a heading of their own.
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    target: GlobalArgs,
    /// Print the version of kubectl-ds
    // Hidden: `version` shows more, and is listed.
    #[arg(long, hide = true, action = ArgAction::Version)]
    version: (),
    #[command(subcommand)]
    command: Option<Subcommands>,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    Coverage(coverage::CoverageArgs),
    List(ListNamedArgs),
    Status(status::StatusArgs),
    Compare(compare::CompareArgs),
    History(history::HistoryArgs),
    Changes(changes::ChangesArgs),
    Undo(undo::UndoArgs),
    Restart(restart::RestartArgs),
    Retry(retry::RetryArgs),
    Set(set::SetArgs),
    Preview(preview::PreviewArgs),
    Partition(partition_args::PartitionArgs),
    Pause(pause::PauseArgs),
    Resume(resume::ResumeArgs),
    Overhead(overhead::OverheadArgs),
    Logs(logs::LogsArgs),
    Pod(pod::PodArgs),
    Snapshot(snapshot::SnapshotArgs),
    Explain(explain::ExplainArgs),
    Completion(completion::CompletionArgs),
    Version(version::VersionArgs),
    #[command(name = complete::NAME, hide = true)]
    Complete(complete::CompleteArgs),
}

/// A subcommand that reads a cluster or a dump.
trait RunCommand {
    /// Runs the subcommand with its arguments, and returns the exit code. Fails if the arguments are invalid, the source cannot be
    /// read, an object is not found, a change is not applied or its outcome is unknown, or the output cannot be written.
    async fn run(self, target: GlobalArgs, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure>;
}

/// Why a command ended without its answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It failed for this reason.
    #[error(transparent)]
    Error(#[from] CommandError),
    /// Its output could not be written: commands do not use files directly.
    #[error(transparent)]
    Output(#[from] io::Error),
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        Failure::Error(error.into())
    }
}

/// Returns clap's definition of the whole command line, for completion and the reference.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Parses a command line. For a word that is not a command, and may be the name of a DaemonSet, also returns what may have been
/// meant.
fn parse(mut arguments: Vec<OsString>, program: &str) -> Result<(Cli, Option<UnknownCommand>), clap::Error> {
    let attempt = |arguments: &[OsString]| {
        let command = help::command(program, words::subcommand(arguments).as_deref());
        let parsed = command.try_get_matches_from(arguments).and_then(|found| Cli::from_arg_matches(&found));
        parsed.map_err(|error| words::explain(&error, arguments, program).unwrap_or(error))
    };
    if arguments.iter().any(|argument| argument.to_str().is_some_and(shell::is_unread)) {
        let message = "this shell does not know $'...', so an argument is not what was meant: use bash or zsh\n";
        return Err(clap::Error::raw(ErrorKind::ValueValidation, message));
    }
    let first = words::places(&arguments).first().copied();
    let (before, after) = arguments.split_at(first.unwrap_or(arguments.len()));
    for flag in ["--contexts", "--from"] {
        let has = |arguments: &[OsString]| {
            arguments.iter().any(|argument| argument.to_string_lossy().split('=').next() == Some(flag))
        };
        // clap would ignore those before the subcommand.
        if has(before) && has(after) {
            let message = format!("put every {flag} after the subcommand\n");
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, message));
        }
    }
    if let Some(first) = first.filter(|place| arguments[*place] == "help") {
        arguments.remove(first);
        arguments.push("--help".into());
    }
    words::drop_values_of_switches(&mut arguments);
    words::join_type_and_names(&mut arguments);
    match attempt(&arguments) {
        Err(error) if error.kind() == ErrorKind::InvalidSubcommand => {
            let unknown = words::unknown(&arguments, program);
            let is_name = words::places(&arguments).len() == 1 || unknown.is_none();
            // A word that is not a subcommand names a DaemonSet.
            arguments.insert(1, "coverage".into());
            words::join_type_and_names(&mut arguments);
            match (attempt(&arguments), unknown) {
                (Ok(cli), unknown) if is_name => Ok((cli, unknown)),
                (_, Some(unknown)) => {
                    Err(clap::Error::raw(ErrorKind::InvalidSubcommand, format!("{}\n", unknown.error(false))))
                }
                (parsed, None) => parsed.map(|cli| (cli, None)),
            }
        }
        parsed => parsed.map(|cli| (cli, None)),
    }
}

/// Runs a command line, and returns the exit code.
pub async fn run(arguments: Vec<OsString>, io: &mut Io<'_>, out: &mut dyn Write) -> Exit {
    io.program = program::called(&arguments);
    if let Some(shell) = io.variable(complete::VARIABLE).and_then(complete::shell) {
        return complete::run_for_shell(shell, arguments, io, out).await;
    }
    let as_json = wants_json(&arguments);
    let (cli, unknown) = match parse(arguments, io.program) {
        Ok(parsed) => parsed,
        Err(error) => return print_clap_error(&error, as_json, io, out),
    };
    io.unicode &= !cli.target.ascii;
    // The source that an error's hints have to use.
    let view = cli.target.view(io);
    if as_json {
        // A blocked command cannot report it itself.
        io.interrupt.report_with(document(&interrupted(), &view));
    }
    let ended = until_interrupted(cli, io, out).await;
    match ended.and_then(|exit| match out.flush() {
        Err(error) if output::has_closed(&error) => Ok(exit),
        flushed => Ok(flushed.map(|()| exit)?),
    }) {
        Ok(exit) => exit,
        // The reader has seen enough, as with `head`; this is not an error.
        Err(Failure::Output(error)) if output::has_closed(&error) => Exit::Success,
        Err(Failure::Output(error)) => {
            print_error(&CommandError::new("cannot write the output").because(error), as_json, &view, io)
        }
        Err(Failure::Error(error)) => {
            // Output from before the failure comes first.
            let _ = out.flush();
            let error = match unknown {
                Some(unknown) if is_absent(&error) => {
                    CommandError { hints: error.hints, ..CommandError::usage(unknown.error(true)) }
                }
                Some(unknown) => error.hint(unknown.error(false)),
                None => error,
            };
            print_error(&error, as_json, &view, io)
        }
    }
}

/// Returns whether `-o json` is given, even on an otherwise invalid command line.
fn wants_json(arguments: &[OsString]) -> bool {
    let mut words = arguments.iter().skip(1).map(|word| word.to_string_lossy()).take_while(|word| word != "--");
    while let Some(word) = words.next() {
        let long = word.strip_prefix("--output");
        // Switches may precede it in one word, as in `-Aojson`.
        let value = long.or_else(|| word.strip_prefix('-')?.trim_start_matches(['A', 'w', 'y']).strip_prefix('o'));
        let is_json = match value {
            Some("") => words.next().is_some_and(|next| next == "json"),
            Some(value) => value.trim_start_matches('=') == "json",
            None => false,
        };
        if is_json {
            return true;
        }
    }
    false
}

/// Returns the error of the cluster or dump that is the reason of another one.
fn cluster_error(error: &CommandError) -> Option<&ClusterError> {
    error.source.as_deref().and_then(|source| source.downcast_ref())
}

/// Returns whether a command has failed because something does not exist.
fn is_absent(error: &CommandError) -> bool {
    cluster_error(error).is_some_and(|error| !error.is_unread())
}

/// Runs a command until it ends or a signal asks it to.
async fn until_interrupted(cli: Cli, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
    let interrupt = io.interrupt.clone();
    let mut command = pin!(dispatch(cli, io, out));
    tokio::select! {
        biased;
        result = &mut command => return result,
        () = interrupt.requested() => {}
    }
    // A command that changes something reports what it has done, and may not have seen the request yet.
    match futures::poll!(&mut command) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(interrupted().into()),
    }
}

/// Builds the error for a command that a signal has ended.
fn interrupted() -> CommandError {
    CommandError::new("interrupted").exit(Exit::Interrupted)
}

/// The commands' futures are boxed: together they would overflow the stack of a thread.
async fn dispatch(cli: Cli, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
    let Cli { target, list, version: (), command } = cli;
    if command.is_some() && list != ListArgs::default() {
        return Err(CommandError::usage("put flags after the subcommand").into());
    }
    from_environment(WIDTH, io, |width| width.parse::<NonZeroUsize>().map_err(|_| "it is not a number of columns"))?;
    let warnings_as_errors = target.warnings_as_errors;
    let exit = match command {
        None => Box::pin(ListNamedArgs { names: Vec::new(), list }.run(target, io, out)).await,
        Some(Subcommands::List(arguments)) => Box::pin(arguments.run(target, io, out)).await,
        Some(Subcommands::Coverage(arguments)) => Box::pin(arguments.run(target, io, out)).await,
        Some(Subcommands::Status(arguments)) => Box::pin(arguments.run(target, io, out)).await,
        Some(Subcommands::Compare(arguments)) => Box::pin(arguments.run(target, io, out)).await,
        Some(Subcommands::History(arguments)) => Box::pin(arguments.run(target, io, out)).await,
        Some(Subcommands::Changes(arguments)) => Box::pin(arguments.run(target, io, out)).await,
        Some(Subcommands::Undo(arguments)) => Box::pin(arguments.run(target, io, out)).await,
        Some(Subcommands::Restart(arguments)) => Box::pin(arguments.run(target, io, out)).await,
        Some(Subcommands::Retry(arguments)) => Box::pin(arguments.run(target, io, out)).await,
        Some(Subcommands::Set(arguments)) => Box::pin(arguments.run(target, io, out)).await,
        Some(Subcommands::Preview(arguments)) => Box::pin(arguments.run(target, io, out)).await,
        Some(Subcommands::Partition(arguments)) => Box::pin(arguments.run(target, io, out)).await,
        Some(Subcommands::Pause(arguments)) => Box::pin(arguments.run(target, io, out)).await,
        Some(Subcommands::Resume(arguments)) => Box::pin(arguments.run(target, io, out)).await,
        Some(Subcommands::Overhead(arguments)) => Box::pin(arguments.run(target, io, out)).await,
        Some(Subcommands::Logs(arguments)) => Box::pin(arguments.run(target, io, out)).await,
        Some(Subcommands::Pod(arguments)) => Box::pin(arguments.run(target, io, out)).await,
        Some(Subcommands::Snapshot(arguments)) => Box::pin(arguments.run(target, io, out)).await,
        Some(Subcommands::Version(arguments)) => Box::pin(arguments.run(target, io, out)).await,
        Some(Subcommands::Explain(arguments)) => explain::run(&arguments, io, out),
        Some(Subcommands::Completion(arguments)) => completion::run(&arguments, io, out),
        Some(Subcommands::Complete(arguments)) => Box::pin(complete::run(arguments, io, out)).await,
    }?;
    // As in kubectl, only an otherwise successful command fails because of warnings.
    match io.server_warnings {
        warnings if warnings == 0 || !warnings_as_errors || exit != Exit::Success => Ok(exit),
        1 => Err(CommandError::new("1 warning received").into()),
        warnings => Err(CommandError::new(format!("{warnings} warnings received")).into()),
    }
}

/// Returns an error as a JSON document on one line.
fn document(error: &CommandError, view: &View) -> String {
    let message = error.lines(ToString::to_string);
    let hints = error.all_hints().into_iter().map(Fix::with_choice_in_words).collect();
    let mut report = ErrorReport { message, hints, exit_code: error.exit as u8 };
    let mut text = Vec::new();
    let _ = output::print_json_line(&mut report, view, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// Prints an error as kubectl does, with what to do next below it, or as JSON.
fn print_error(error: &CommandError, as_json: bool, view: &View, io: &mut Io<'_>) -> Exit {
    if error.exit == Exit::Interrupted && !io.interrupt.claim_report() {
        return error.exit;
    }
    // If standard error is closed, too, there is nowhere to report it.
    let text = match as_json {
        true => document(error, view),
        false => view.text(|page| render::error::write(&error.lines(CommandError::printed), &error.all_hints(), page)),
    };
    let _ = io.err.write_all(text.as_bytes());
    error.exit
}

/// Prints clap's output: help and the version are answers, everything else is about the arguments.
fn print_clap_error(error: &clap::Error, as_json: bool, io: &mut Io<'_>, out: &mut dyn Write) -> Exit {
    let text = error.render();
    if error.use_stderr() && as_json {
        let text = text.to_string();
        // Tips and the usage follow the message.
        let mut parts = text.strip_prefix("error: ").unwrap_or(&text).split("\n\n").map(str::trim);
        let error = CommandError::usage(parts.next().unwrap_or_default());
        print_error(&error.hints(parts), as_json, &View::new(None, !io.unicode), io)
    } else if error.use_stderr() {
        let width = View::new(session::width_of_errors(io), !io.unicode).wrap_width();
        for line in text.to_string().lines() {
            // Usage and tips have a layout of their own.
            let lines = if line.starts_with("error: ") { wrap(line, width) } else { vec![line.to_owned()] };
            let _ = lines.iter().try_for_each(|line| writeln!(io.err, "{line}"));
        }
        Exit::Usage
    } else {
        let _ = write!(out, "{text}").and_then(|()| out.flush());
        Exit::Success
    }
}
