//! Help: `-h` fits on a screen, and `--help` shows everything under headings.

use std::fmt::Write;

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Command};

use super::program;
use crate::report::fix::PROGRAM;

/// The commands by purpose; the first of each has the example that `-h` shows.
const GROUPS: [(&str, &[&str]); 5] = [
    ("See", &["list", "status", "compare", "changes", "overhead"]),
    ("Explain", &["coverage", "history", "logs", "explain"]),
    ("Change", &["undo", "restart", "retry", "set", "preview"]),
    ("Stage", &["partition", "pause", "resume"]),
    ("Files and tools", &["snapshot", "pod", "completion", "version"]),
];

const TEMPLATE: &str = "{about-with-newline}\nUsage: {usage}\n\n{before-help}{all-args}{after-help}\n";

/// The exit codes, unless a command says more about its own.
const EXIT_CODES: &str = "Exit codes: 0 done; 1 error; 2 usage; 3 the answer to what was asked is no; 4 timed out; 5 partial answer; \
                          6 the controller was not seen to act on a change; 7 not known whether a change was applied; 130 interrupted.";

/// Returns the whole command line, with help for the root and for one subcommand, using the name by which the program was called.
pub(super) fn command(program: &str, subcommand: Option<&str>) -> Command {
    let help = Arg::new("help").short('h').long("help").global(true).hide(true).action(ArgAction::Help);
    // The flags of `list` are in its own `-h`, and the global ones in `--help`.
    let root = super::command().bin_name(program).disable_help_flag(true).arg(help);
    let root = root.mut_args(|flag| flag_help(flag, program).hide_short_help(true));
    let flags: Vec<Arg> = root.get_arguments().filter(|flag| flag.is_global_set()).cloned().collect();
    let root = describe_root(root, program);
    match subcommand {
        Some(name) => root.mut_subcommand(name, |command| {
            // A subcommand keeps its own version of a global flag.
            let hidden = without_effect(&command);
            let hidden = flags.iter().filter(|flag| hidden.contains(&flag.get_id().as_str()));
            let hidden: Vec<Arg> = hidden.map(|flag| flag.clone().hide(true)).collect();
            describe(command.mut_args(|flag| flag_help(flag, program)).args(hidden), program)
        }),
        None => root,
    }
}

/// Returns the global flags that have no effect on this command, or that it rejects.
fn without_effect(command: &Command) -> &'static [&'static str] {
    let has = |flag: &str| command.get_arguments().any(|one| one.get_id() == flag);
    match command.get_name() {
        "version" | "completion" | "explain" => &["namespace", "all_namespaces", "selector", "from", "contexts", "now"],
        _ if has("dry_run") => &["all_namespaces", "selector", "contexts"],
        "pod" => &["selector", "contexts"],
        "logs" | "compare" | "history" | "preview" | "overhead" | "snapshot" => &["contexts"],
        _ => &[],
    }
}

/// Returns a text with the name by which the program was called.
fn renamed(text: &str, called: &str) -> String {
    let file = program::file(called);
    let text = text.replace(PROGRAM, called).replace("kubectl_complete-ds", &program::completer(called));
    text.replace("kubectl-ds completion", &format!("{file} completion")).replace("`kubectl-ds`", &format!("`{file}`"))
}

fn text(help: Option<&StyledStr>) -> String {
    help.map(ToString::to_string).unwrap_or_default()
}

/// Lists the values of a flag only in `--help`, unless its help names them.
fn flag_help(flag: Arg, program: &str) -> Arg {
    let short = text(flag.get_help());
    let mut long = text(flag.get_long_help().or(flag.get_help())).replace("\n\n", " ");
    let takes_values = flag.get_action().takes_values();
    let values = if takes_values { flag.get_possible_values() } else { Vec::new() };
    if !flag.is_hide_possible_values_set() && !values.iter().all(|value| long.contains(value.get_name())) {
        long.push_str("\nPossible values:");
        for value in values {
            let help = value.get_help().map(|help| format!(": {help}")).unwrap_or_default();
            let _ = write!(long, "\n- {}{help}", value.get_name());
        }
    }
    flag.hide_possible_values(takes_values).help(renamed(&short, program)).long_help(renamed(&long, program))
}

/// Returns examples under a heading.
fn examples(heading: &str, lines: &str) -> String {
    lines.lines().fold(format!("{heading}:"), |text, line| match line {
        "" => text + "\n",
        line => text + "\n  " + line,
    })
}

fn describe(command: Command, program: &str) -> Command {
    let all = text(command.get_before_help());
    let first = all.split("\n\n").next().unwrap_or_default();
    let notes = command.get_after_help().map_or_else(|| EXIT_CODES.to_owned(), ToString::to_string);
    let more = format!("Global flags, and more on these: {program} {} --help", command.get_name());
    let (about, long_about) = (text(command.get_about()), text(command.get_long_about().or(command.get_about())));
    command
        .about(renamed(&about, program))
        .long_about(renamed(&long_about, program))
        .before_help(renamed(&examples("Example", first), program))
        .before_long_help(renamed(&examples("Examples", &all), program))
        .after_help(more)
        .after_long_help(renamed(&notes, program))
        .help_template(TEMPLATE)
}

fn describe_root(root: Command, program: &str) -> Command {
    let mut groups = Vec::new();
    for (heading, names) in GROUPS {
        let mut commands = names.iter().filter_map(|name| root.find_subcommand(name)).peekable();
        let all = commands.peek().map(|command| text(command.get_before_help())).unwrap_or_default();
        let example = all.lines().find(|line| line.starts_with(PROGRAM)).unwrap_or_default();
        groups.push(commands.fold(format!("{heading}: {example}"), |text, command| {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            format!("{text}\n  {:10}  {about}", command.get_name())
        }));
    }
    let groups = renamed(&groups.join("\n\n"), program);
    let more = format!(
        "{groups}\n\nTry any command on a recorded cluster: {program} --from demo\nMore: {program} COMMAND -h; global flags: {program} --help"
    );
    let root = describe(root, program).before_help(more).after_help("");
    let long = format!("{}\n\n{groups}", text(root.get_before_long_help()));
    let root = root.before_long_help(long).mut_subcommands(|command| command.hide(true));
    root.override_usage(format!("{program} [NAME | COMMAND] [OPTIONS]"))
}
