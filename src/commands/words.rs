//! The words of a command line that are neither flags nor their values, and what kubectl's habits make of them.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

use super::help;
use super::parse::flavor_of_type;
use crate::cluster::similar_names;
use crate::report::fix::PROGRAM;

/// Returns where the words are.
pub(super) fn places(arguments: &[OsString]) -> Vec<usize> {
    find(arguments).0
}

/// Turns `undo daemonset NAME`, as `kubectl rollout undo` takes it, into `undo daemonset/NAME`, wherever flags are; and of
/// a command that takes several names, each.
pub(super) fn join_type_and_names(arguments: &mut Vec<OsString>) {
    let (places, command) = find(arguments);
    let names = command.get_positionals().next().filter(|first| ["name", "names"].contains(&first.get_id().as_str()));
    let (Some(names), [_, kind, rest @ ..]) = (names, &places[..]) else { return };
    let Some(kind) = arguments[*kind].to_str().filter(|word| flavor_of_type(word).is_some()).map(str::to_owned) else {
        return;
    };
    let joined = if matches!(names.get_action(), ArgAction::Append) { rest.len() } else { 1 };
    for place in rest.iter().take(joined) {
        let mut word = OsString::from(format!("{kind}/"));
        word.push(&arguments[*place]);
        arguments[*place] = word;
    }
    if !rest.is_empty() {
        arguments.remove(places[1]);
    }
}

/// Returns whether the first of several words is a resource type of DaemonSets.
pub(super) fn begin_with_type(arguments: &[OsString]) -> bool {
    let places = places(arguments);
    places.len() > 1 && arguments[places[0]].to_str().is_some_and(|word| flavor_of_type(word).is_some())
}

/// Returns whether the first word is a mistyped subcommand: one letter of it differs, or two of a long one. Many names of DaemonSets begin
/// or end as a subcommand does, such as `node-agent` and `logstash`.
pub(super) fn begin_with_typo(arguments: &[OsString]) -> bool {
    let word = places(arguments).first().map(|place| arguments[*place].to_string_lossy().into_owned());
    let Some(word) = word.filter(|word| !word.contains(['-', '.', '/'])) else { return false };
    let command = help::command(PROGRAM);
    let names: Vec<&str> = command.get_subcommands().filter(|one| !one.is_hide_set()).map(Command::get_name).collect();
    let near = similar_names(&word, names);
    near.iter().any(|name| !name.contains(word.as_str()) && !word.contains(name.as_str()))
}

/// Returns a command of kubectl that was given instead of one of these, and the one that was meant, if there is one.
pub(super) fn command_of_kubectl(arguments: &[OsString]) -> Option<(String, Option<&'static str>)> {
    const OTHERS: [&str; 12] =
        ["annotate", "apply", "cordon", "create", "debug", "delete", "drain", "edit", "label", "patch", "top", "wait"];
    let places = places(arguments);
    let word = |index: usize| places.get(index).and_then(|place| arguments[*place].to_str()).unwrap_or_default();
    let meant = match (word(0), word(1)) {
        ("rollback", _) => "undo",
        ("rollout", verb) => {
            let verbs = ["undo", "status", "history", "restart", "pause", "resume"];
            let verb = verbs.into_iter().find(|known| *known == verb)?;
            return Some((format!("rollout {verb}"), Some(verb)));
        }
        ("get", _) => "list",
        ("describe", _) => "coverage",
        ("diff", _) => "history --diff",
        (other, _) if OTHERS.contains(&other) => return Some((other.to_owned(), None)),
        _ => return None,
    };
    Some((word(0).to_owned(), Some(meant)))
}

/// Returns where the words are, and the command that takes those after the first.
fn find(arguments: &[OsString]) -> (Vec<usize>, Command) {
    let mut command = help::command(PROGRAM);
    // Flags of every command become those of each subcommand.
    command.build();
    let mut places = Vec::new();
    let mut rest = arguments.iter().enumerate().skip(1);
    while let Some((place, argument)) = rest.next() {
        let text = argument.to_string_lossy();
        if text == "--" {
            places.extend(rest.by_ref().map(|(place, _)| place));
        } else if text.starts_with('-') && text.len() > 1 {
            if takes_the_next(&command, &text) {
                rest.next();
            }
        } else {
            if places.is_empty() {
                let subcommand = command.find_subcommand(argument).cloned();
                command = subcommand.unwrap_or(command);
            }
            places.push(place);
        }
    }
    (places, command)
}

/// Returns whether the value of a flag is the next argument.
fn takes_the_next(command: &Command, text: &str) -> bool {
    let takes_value = |flag: &Arg| flag.get_num_args().is_some_and(|values| values.min_values() > 0);
    if let Some(long) = text.strip_prefix("--") {
        let is_meant = |flag: &&Arg| {
            flag.get_long() == Some(long) || flag.get_all_aliases().is_some_and(|aliases| aliases.contains(&long))
        };
        return command.get_arguments().find(is_meant).is_some_and(takes_value);
    }
    let mut letters = text.chars().skip(1);
    while let Some(letter) = letters.next() {
        if command.get_arguments().any(|flag| flag.get_short() == Some(letter) && takes_value(flag)) {
            return letters.next().is_none();
        }
    }
    false
}
