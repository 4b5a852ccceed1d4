//! docs/reference.md: every flag, from clap's definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use clap::{Arg, Command};

use super::must_be;

const ENVIRONMENT: &str = "
## Environment

Defaults for your shell or your CI. A flag that is given counts instead, and a variable that is empty counts as unset. The `defaults` and
`aliases` of a kuberc file are for kubectl's own commands: kubectl applies them to no plugin.

| Variable | What it does |
|---|---|
| `KUBECTL_DS_WIDTH` | The width of the output in columns, also in a pipe; counts before `COLUMNS` |
| `KUBECTL_DS_BY` | The label of `--by`, for `coverage`, `overhead` and the maps of `status`, where `--by` can be combined with the other flags |
| `KUBECTL_DS_ACCEPT` | The value of `--accept`, such as `node=10%,on-delete=7d` |
| `KUBECTL_DS_CONFIRM`, `KUBECTL_DS_READ_ONLY` | What is [asked before a change](safeguards.md), or refused |
| `NO_COLOR`, `CLICOLOR_FORCE` | Whether output is colored; `--color` counts instead |
| `KUBECONFIG`, `KUBERC`, `HTTPS_PROXY`, `NO_PROXY` and the like | As for [kubectl](kubectl-differences.md) |
";

#[test]
fn the_reference_is_fresh() {
    must_be("reference.md", &reference());
}

fn reference() -> String {
    let mut command = kubectl_ds::commands::command();
    command.build();
    let mut text =
        "# Reference\n\nGenerated from the program; `kubectl ds COMMAND --help` shows the same.\n".to_owned();
    for subcommand in subcommands(&command) {
        section(&mut text, subcommand);
    }
    let every = "\n## Flags of every command\n\nThey may stand before the command or after it.\n";
    text.push_str(every);
    flags(&mut text, command.get_arguments().filter(|arg| arg.is_global_set()));
    text.push_str(ENVIRONMENT);
    matrix(&mut text, &command);
    text
}

/// Which command has which flag, of those that several commands have and not every one.
fn matrix(text: &mut String, root: &Command) {
    let own = |arg: &&Arg| !arg.is_positional() && !arg.is_hide_set() && !arg.is_global_set() && arg.get_id() != "help";
    let mut by_flag: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for command in subcommands(root) {
        for flag in command.get_arguments().filter(own).filter_map(Arg::get_long) {
            by_flag.entry(flag).or_default().insert(command.get_name());
        }
    }
    by_flag.retain(|_, of| of.len() > 1);
    let columns = subcommands(root).map(Command::get_name).filter(|name| by_flag.values().any(|of| of.contains(name)));
    let columns: Vec<&str> = columns.collect();
    let row = |first: &str, cells: Vec<&str>| format!("| {first} | {} |\n", cells.join(" | "));
    text.push_str("\n## Which command has which flag\n\nFlags of a single command are left out.\n\n");
    text.push_str(&row("Flag", columns.clone()));
    text.push_str(&format!("|---|{}\n", ":-:|".repeat(columns.len())));
    for (flag, of) in &by_flag {
        let cell = |name: &&str| if of.contains(name) { "x" } else { "" };
        text.push_str(&row(&format!("`--{flag}`"), columns.iter().map(cell).collect()));
    }
}

/// Returns the subcommands that are documented.
pub(super) fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set() && subcommand.get_name() != "help")
}

/// Returns how a command is called, with its positional arguments.
pub(super) fn usage(command: &Command) -> String {
    if command.has_subcommands() {
        return "kubectl ds [NAME | COMMAND] [flags]".to_owned();
    }
    let words: String = positionals(command).map(|arg| format!(" {arg}")).collect();
    format!("kubectl ds {}{words} [flags]", command.get_name())
}

fn positionals(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_positionals().filter(|arg| !arg.is_hide_set())
}

fn section(text: &mut String, command: &Command) {
    let _ = write!(text, "\n## kubectl ds {}\n\n", command.get_name());
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(text, "{about}\n");
    let _ = writeln!(text, "    {}", usage(command));
    let own = |arg: &&Arg| !arg.is_global_set();
    flags(text, positionals(command).chain(command.get_opts().filter(own)).chain(switches(command)));
}

/// Returns the flags that take no value.
fn switches(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| {
        !arg.is_positional() && !arg.get_action().takes_values() && !arg.is_global_set() && arg.get_id() != "help"
    })
}

fn flags<'a>(text: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    let shown: Vec<&Arg> = arguments.filter(|arg| !arg.is_hide_set() && arg.get_id() != "help").collect();
    if shown.is_empty() {
        return;
    }
    text.push_str("\n| Flag | What it does |\n|---|---|\n");
    for arg in shown {
        let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
        let values: Vec<String> = arg
            .get_possible_values()
            .iter()
            .filter(|value| !value.is_hide_set() && arg.get_action().takes_values())
            .map(|value| value.get_name().to_owned())
            .collect();
        // Some flags name their values in words, for one because not all fit the command.
        let values = if values.iter().any(|value| help.contains(value)) { Vec::new() } else { values };
        let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        let values = if values.is_empty() { String::new() } else { format!(" ({})", values.join(", ")) };
        let help = help.replace("\n\n", " ").replace('\n', " ").replace('|', "\\|");
        let _ = writeln!(text, "| `{}` | {help}{values} |", name(arg).replace('|', "\\|"));
    }
}

fn name(arg: &Arg) -> String {
    if arg.is_positional() {
        return arg.to_string();
    }
    let short = arg.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    let long = arg.get_long().unwrap_or_default();
    let value = match arg.get_value_names() {
        Some([value, ..]) if arg.get_action().takes_values() => format!(" {value}"),
        _ => String::new(),
    };
    format!("{short}--{long}{value}")
}
