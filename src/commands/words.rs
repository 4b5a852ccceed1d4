//! The words of a command line that are neither flags nor their values, and what kubectl's habits make of them.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

use super::parse::flavor_of_type;
use crate::cluster::similar_names;

/// Returns where the words are.
pub(super) fn places(arguments: &[OsString]) -> Vec<usize> {
    find(&super::command(), arguments).0
}

/// Returns the name of the subcommand.
pub(super) fn subcommand(arguments: &[OsString]) -> Option<String> {
    find(&super::command(), arguments).1.map(|subcommand| subcommand.get_name().to_owned())
}

/// Turns `undo daemonset NAME`, as `kubectl rollout undo` takes it, into `undo daemonset/NAME`, wherever flags are; and of
/// a command that takes several names, each.
pub(super) fn join_type_and_names(arguments: &mut Vec<OsString>) {
    let root = super::command();
    let (places, subcommand) = find(&root, arguments);
    let names = subcommand
        .and_then(|subcommand| subcommand.get_positionals().next())
        .filter(|first| ["name", "names"].contains(&first.get_id().as_str()));
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
    let command = super::command();
    let names: Vec<&str> = command.get_subcommands().filter(|one| !one.is_hide_set()).map(Command::get_name).collect();
    let near = similar_names(&word, names);
    near.iter().any(|name| !name.contains(word.as_str()) && !word.contains(name.as_str()))
}

/// Returns a command of kubectl that was given instead of one of these, and the one that was meant, if there is one.
pub(super) fn command_of_kubectl(arguments: &[OsString]) -> Option<(String, Option<&'static str>)> {
    const OTHERS: [&str; 13] = [
        "annotate", "apply", "cordon", "create", "debug", "delete", "drain", "edit", "exec", "label", "patch", "top",
        "wait",
    ];
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

/// Returns where the words are, and the subcommand that takes those after the first.
fn find<'a>(root: &'a Command, arguments: &[OsString]) -> (Vec<usize>, Option<&'a Command>) {
    let mut subcommand = None;
    let mut places = Vec::new();
    let mut rest = arguments.iter().enumerate().skip(1);
    while let Some((place, argument)) = rest.next() {
        let text = argument.to_string_lossy();
        if text == "--" {
            places.extend(rest.by_ref().map(|(place, _)| place));
        } else if text.starts_with('-') && text.len() > 1 {
            if takes_the_next(root, subcommand, &text) {
                rest.next();
            }
        } else {
            if places.is_empty() {
                subcommand = root.find_subcommand(argument);
            }
            places.push(place);
        }
    }
    (places, subcommand)
}

/// Returns whether the value of a flag is the next argument.
fn takes_the_next(root: &Command, subcommand: Option<&Command>, text: &str) -> bool {
    let takes_value = |flag: &Arg| match flag.get_num_args() {
        Some(values) => values.min_values() > 0,
        None => flag.get_action().takes_values(),
    };
    // A subcommand may have its own form of a flag of every command.
    let of_root = || root.get_arguments().filter(|flag| subcommand.is_none() || flag.is_global_set());
    let flags = || subcommand.into_iter().flat_map(Command::get_arguments).chain(of_root());
    if let Some(long) = text.strip_prefix("--") {
        let is_meant = |flag: &&Arg| {
            flag.get_long() == Some(long) || flag.get_all_aliases().is_some_and(|aliases| aliases.contains(&long))
        };
        return flags().find(is_meant).is_some_and(takes_value);
    }
    let mut letters = text.chars().skip(1);
    while let Some(letter) = letters.next() {
        if flags().find(|flag| flag.get_short() == Some(letter)).is_some_and(takes_value) {
            return letters.next().is_none();
        }
    }
    false
}
