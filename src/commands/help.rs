//! Help in kubectl's form: the description, examples, the command's own flags, and usage. The flags of every command are
//! listed by `options`.

use std::io::Write;

use clap::{Arg, ArgAction, Args, Command};

use super::{Failure, program};
use crate::error::Exit;
use crate::report::fix::PROGRAM;

/// The flags of every command that choose what it is about; its help shows them below its own.
const SHOWN: [&str; 5] = ["namespace", "all_namespaces", "selector", "from", "now"];

/// Those that have no effect on a command, or that it refuses.
const WITHOUT_EFFECT: [(&str, &[&str]); 13] = [
    ("undo", &["all_namespaces", "selector"]),
    ("restart", &["all_namespaces", "selector"]),
    ("retry", &["all_namespaces", "selector"]),
    ("set", &["all_namespaces", "selector"]),
    ("partition", &["all_namespaces", "selector"]),
    ("pause", &["all_namespaces", "selector"]),
    ("resume", &["all_namespaces", "selector"]),
    ("logs", &["selector"]),
    ("pod", &["selector"]),
    ("version", &SHOWN),
    ("completion", &SHOWN),
    ("options", &SHOWN),
    ("explain", &SHOWN),
];

/// Where the flags of every command come in the list of flags; a command's own are before them.
const LAST: usize = 900;

const TEMPLATE: &str = "{before-help}{all-args}\n\nUsage:\n  {usage}{after-help}\n";

/// For a command without flags; the text before the help ends in an empty line.
const TEMPLATE_WITHOUT_FLAGS: &str = "{before-help}Usage:\n  {usage}{after-help}\n";

const SEE_OPTIONS: &str =
    "Use \"kubectl ds options\" for a list of global command-line options (applies to all commands).";

/// List the flags that apply to all commands
#[derive(Debug, Clone, Args)]
pub struct OptionsArgs {}

/// Runs `options`.
pub fn run_options(is_colored: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let flags = super::command();
    let flags = flags.get_arguments().filter(|flag| flag.is_global_set() && !flag.is_hide_set()).cloned();
    let mut options = Command::new("options")
        .disable_help_flag(true)
        .max_term_width(100)
        .help_template("The following options can be passed to any command:\n\n{all-args}\n")
        .args(flags.map(|flag| flag.help_heading("Options")));
    let help = options.render_help();
    if is_colored {
        write!(out, "{}", help.ansi())?;
    } else {
        write!(out, "{help}")?;
    }
    Ok(Exit::Success)
}

/// Returns the whole command line, with help in kubectl's form for the root and for one subcommand, for a program that is called so.
pub(super) fn command(program: &str, subcommand: Option<&str>) -> Command {
    let command = super::command()
        .bin_name(program)
        .disable_help_flag(true)
        .arg(Arg::new("help").short('h').long("help").global(true).help("Print help").action(ArgAction::HelpShort))
        .mut_args(|flag| match flag.is_global_set() {
            true => {
                let is_shown = SHOWN.contains(&flag.get_id().as_str());
                flag.display_order(LAST).hide(!is_shown)
            }
            false => values_once(flag),
        });
    let globals: Vec<Arg> = command.get_arguments().filter(|flag| flag.is_global_set()).cloned().collect();
    let describe = |subcommand: Command| {
        let (_, hidden) = WITHOUT_EFFECT.iter().find(|(name, _)| *name == subcommand.get_name()).unwrap_or(&("", &[]));
        // A subcommand keeps its own form of a flag of every command.
        let hidden = globals.iter().filter(|flag| hidden.contains(&flag.get_id().as_str()));
        let hidden: Vec<Arg> = hidden.map(|flag| flag.clone().hide(true)).collect();
        let own = |flag: Arg| match flag.get_help().map(ToString::to_string) {
            Some(help) => values_once(flag).help(renamed(&help, program)),
            None => values_once(flag),
        };
        describe(subcommand.mut_args(own).args(hidden), program)
    };
    let command = super::help::describe(command, program);
    match subcommand {
        Some(name) => command.mut_subcommand(name, describe),
        None => command,
    }
}

/// Returns a text that calls the program as it was called.
fn renamed(text: &str, called: &str) -> String {
    let file = program::file(called);
    let text = text.replace(PROGRAM, called).replace("kubectl_complete-ds", &program::completer(called));
    text.replace("kubectl-ds completion", &format!("{file} completion")).replace("`kubectl-ds`", &format!("`{file}`"))
}

/// Does not list the values of a flag again whose help names them.
fn values_once(flag: Arg) -> Arg {
    let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
    let takes_value = flag.get_action().takes_values();
    let is_named = takes_value && flag.get_possible_values().iter().all(|value| help.contains(value.get_name()));
    if is_named { flag.hide_possible_values(true) } else { flag }
}

/// Puts the description and the examples before the flags.
fn describe(command: Command, program: &str) -> Command {
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string).unwrap_or_default();
    let mut text = about.trim_end().to_owned();
    if let Some(examples) = command.get_before_help() {
        text.push_str("\n\nExamples:\n");
        text.extend(examples.to_string().lines().map(|line| match line {
            "" => "\n".to_owned(),
            line => format!("  {line}\n"),
        }));
    }
    let notes = command.get_after_help().map(|notes| format!("{notes}\n\n")).unwrap_or_default();
    let after_help = format!("{notes}{SEE_OPTIONS}");
    let (text, after_help) = (renamed(&text, program), renamed(&after_help, program));
    let has_flags = command.get_arguments().any(|flag| !flag.is_hide_set());
    let template = if has_flags { TEMPLATE } else { TEMPLATE_WITHOUT_FLAGS };
    command.before_help(text.trim_end().to_owned()).after_help(after_help).help_template(template)
}

#[cfg(test)]
mod tests {
    use super::WITHOUT_EFFECT;

    #[test]
    fn commands_that_change_one_daemon_set_hide_the_flags_that_choose_several() {
        let command = crate::commands::command();
        let changes =
            command.get_subcommands().filter(|one| one.get_arguments().any(|flag| flag.get_id() == "dry_run"));
        let mut changes: Vec<&str> = changes.map(clap::Command::get_name).collect();
        changes.sort_unstable();
        let hidden = &["all_namespaces", "selector"][..];
        let listed = WITHOUT_EFFECT.iter().filter(|(_, flags)| *flags == hidden).map(|(name, _)| *name);
        let mut listed: Vec<&str> = listed.collect();
        listed.sort_unstable();
        assert_eq!(changes, listed);
    }
}
