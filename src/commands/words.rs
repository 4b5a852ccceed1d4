//! The arguments of a command line that are neither flags nor their values, interpreted as in kubectl.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};

use super::parse::{flavor_of_type, is_other_kind};
use crate::cluster::{Flavors, similar_names};
use crate::encode::shell::quote;

/// Returns the positions of the words.
pub(super) fn places(arguments: &[OsString]) -> Vec<usize> {
    find(&super::command(), arguments).0
}

/// Returns the name of the subcommand.
pub(super) fn subcommand(arguments: &[OsString]) -> Option<String> {
    find(&super::command(), arguments).1.map(|subcommand| subcommand.get_name().to_owned())
}

/// Turns `undo daemonset NAME`, the syntax of `kubectl rollout undo`, into `undo daemonset/NAME`, wherever flags are;
/// for a command that accepts several names, each of them.
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

/// Turns `--watch=true` into `--watch`, and removes `-w=false`: kubectl takes a value for every switch.
pub(super) fn drop_values_of_switches(arguments: &mut Vec<OsString>) {
    let root = super::command();
    let subcommand = find(&root, arguments).1;
    let is_switch = |flag: &str| {
        let mut known = subcommand.into_iter().chain([&root]).flat_map(Command::get_arguments);
        let is_it = |arg: &Arg| match flag.strip_prefix("--") {
            Some(long) => arg.get_long() == Some(long),
            None => arg.get_short().is_some_and(|short| flag == format!("-{short}")),
        };
        known.any(|arg| matches!(arg.get_action(), ArgAction::SetTrue) && is_it(arg))
    };
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let rest = arguments.split_off(end);
    let given = std::mem::take(arguments).into_iter().filter_map(|argument| {
        let flag = argument.to_str().and_then(|text| text.split_once('=')).filter(|(flag, _)| is_switch(flag));
        match flag {
            Some((flag, "true")) => Some(flag.into()),
            Some((_, "false")) => None,
            _ => Some(argument),
        }
    });
    *arguments = given.chain(rest).collect();
}

/// Words that users of kubectl or another tool may type, the command that they mean, if any, and other options, or what to
/// use instead; `{}` is replaced by the name of this program.
const OF_OTHERS: &[(&[&str], Option<&str>, &str)] = &[
    (&["ls"], Some("list"), ""),
    (
        &["get"],
        Some("list"),
        "`{} history NAME --revision live -o yaml` has the template of a DaemonSet, `kubectl get ds` the object",
    ),
    (&["describe", "why"], Some("coverage"), ""),
    (&["watch"], Some("status -w"), "`{} list` takes -w, too"),
    (&["wait"], Some("status -w"), ""),
    (&["rollback", "revert"], Some("undo"), ""),
    (&["nodes", "node"], Some("coverage"), "It takes --node NODE, and --nodes for a row per node"),
    (&["log"], Some("logs"), ""),
    (&["fix", "repair"], Some("status"), "It says what to do"),
    (&["hold", "stop", "freeze"], Some("pause"), ""),
    (&["continue", "unpause"], Some("resume"), ""),
    (&["diff"], Some("history --diff"), "`{} preview -f FILE` shows what a manifest changes"),
    (&["events"], Some("changes"), "`kubectl events --for daemonset/NAME` has the events of a DaemonSet itself"),
    (&["top"], Some("overhead"), "What pods use is in `kubectl top pods`"),
    (
        &["drain", "cordon", "uncordon"],
        None,
        "use kubectl; `{} coverage --node NODE` shows which DaemonSets have pods there",
    ),
    (
        &["scale", "autoscale"],
        None,
        "a DaemonSet has no replicas; it runs one pod on each eligible node, which `{} coverage NAME` shows; nodeSelector and \
               tolerations of its template decide which those are",
    ),
    (
        &["delete"],
        None,
        "use kubectl, which deletes a pod as well as a DaemonSet; to have all pods replaced, `{} restart`",
    ),
    (&["edit", "patch", "replace"], None, "use kubectl; for the update strategy, `{} set`"),
    (&["apply", "create"], None, "use kubectl; `{} preview -f FILE` shows before what a manifest changes"),
    (
        &["exec", "attach", "debug", "port-forward", "cp"],
        None,
        "use kubectl; `{} pod NAME --node NODE` has the name of the pod",
    ),
    (&["options"], None, "`{} --help` lists the flags of every command"),
    (
        &["annotate", "label", "taint"],
        None,
        "use kubectl; `{} preview --if` shows before what a label or a taint changes",
    ),
];

/// Flags that users may pass to a command that has another one for it, or needs none.
const FLAGS_OF_OTHERS: &[(&str, &[&str], &str)] = &[
    ("undo", &["--revision", "--to", "-r"], "did you mean `--to-revision`?"),
    ("coverage", &["--watch", "-w"], "did you mean `status --watch`? `list` takes it, too"),
    ("status", &["--revision"], "did you mean `--to-revision`?"),
    ("status", &["--wait"], "did you mean `--watch`?"),
    ("logs", &["--previous", "-p"], "of a container that crashes, the log of its previous run is shown anyway"),
];

/// A word that should be a command but is not.
pub(super) struct UnknownCommand {
    given: String,
    hint: String,
}

impl UnknownCommand {
    /// Writes the error; `is_no_name` if it was looked for as a DaemonSet, too.
    pub(super) fn error(&self, is_no_name: bool) -> String {
        let UnknownCommand { given, hint } = self;
        let nor = if is_no_name { ", and no DaemonSet here has that name" } else { "" };
        format!("unknown command \"{given}\"{nor}: {hint}")
    }
}

/// Finds a word of kubectl or another tool, or a mistyped command, where a command belongs; `None` if the words name DaemonSets.
pub(super) fn unknown(arguments: &[OsString], program: &str) -> Option<UnknownCommand> {
    let places = places(arguments);
    let word = |index: usize| places.get(index).and_then(|place| arguments[*place].to_str()).unwrap_or_default();
    let (first, second) = (word(0), word(1));
    let is_type = !second.is_empty() && flavor_of_type(first).is_some();
    let meant =
        |command: &str, arguments: &[OsString]| format!("did you mean `{program} {}`?", as_command(command, arguments));
    let without = |index: usize| {
        let mut rest = arguments.to_vec();
        rest.remove(places[index]);
        rest
    };
    let (given, hint) = match OF_OTHERS.iter().find(|(words, ..)| words.contains(&first)) {
        _ if first == "rollout" => {
            let verbs = ["undo", "status", "history", "restart", "pause", "resume"];
            let verb = verbs.into_iter().find(|known| *known == second)?;
            (format!("rollout {verb}"), meant(verb, &without(1)))
        }
        Some(_) if is_other_kind(second) => {
            let hint = "use kubectl; `{} coverage NAME --nodes` has a row for each node, with its pod";
            (format!("{first} {second}"), hint.replace("{}", program))
        }
        Some((_, command, rest)) => {
            // A flag in it may take the next word as its value.
            let meant = command.map(|command| match places.len() == 1 || !command.contains("--") {
                true => meant(command, arguments),
                false => format!("did you mean `{program} {command}`?"),
            });
            let rest = (!rest.is_empty()).then(|| rest.replace("{}", program));
            (first.to_owned(), meant.into_iter().chain(rest).collect::<Vec<_>>().join(" "))
        }
        None if is_type => return None,
        None => match near_command(first) {
            Some(near) => (first.to_owned(), meant(&near, arguments)),
            // The name precedes the command.
            None if places.len() == 2 && super::command().find_subcommand(second).is_some() => {
                let mut swapped = arguments.to_vec();
                swapped.swap(places[0], places[1]);
                (first.to_owned(), meant(second, &swapped))
            }
            None => return None,
        },
    };
    Some(UnknownCommand { given, hint })
}

/// Returns the command that a word abbreviates, if only one begins so, or of which it is a misspelling: one letter differs, or two in a
/// long one, or one is missing or added. Names of DaemonSets may start or end with a command, such as `logstash`.
fn near_command(word: &str) -> Option<String> {
    let command = super::command();
    let names: Vec<&str> = command.get_subcommands().filter(|one| !one.is_hide_set()).map(Command::get_name).collect();
    let mut begun = names.iter().filter(|name| word.len() > 1 && name.starts_with(word));
    if let (Some(only), None) = (begun.next(), begun.next()) {
        return Some((*only).to_owned());
    }
    let near = similar_names(word, names).into_iter().filter(|_| !word.contains(['-', '.', '/']));
    near.map(|name| name.to_string()).find(|name| {
        let is_part = name.contains(word) || word.contains(name.as_str());
        !is_part || name.len().abs_diff(word.len()) == 1
    })
}

/// Explains an error of clap, unless it has nothing to add: which flag was meant, what an extra word may be, or what is missing.
pub(super) fn explain(error: &clap::Error, arguments: &[OsString], program: &str) -> Option<clap::Error> {
    let message = match (error.kind(), error.get(ContextKind::InvalidArg)?) {
        (ErrorKind::UnknownArgument, ContextValue::String(flag)) if flag.starts_with('-') => {
            format!("unknown flag {flag}: {}", unknown_flag(flag, arguments, program))
        }
        (ErrorKind::UnknownArgument, ContextValue::String(word)) => {
            format!("unexpected argument {}: {}", quote(word, true), extra_word(word, arguments, program)?)
        }
        (ErrorKind::MissingRequiredArgument, ContextValue::Strings(missing)) => {
            missing_name(missing, arguments, program)?
        }
        _ => return None,
    };
    Some(clap::Error::raw(error.kind(), format!("{message}\n")))
}

fn has(command: &Command, flag: &str) -> bool {
    command.get_arguments().any(|one| one.get_long() == Some(flag))
}

/// Returns what an extra word may be: kubectl's `set image`, or a node that a flag selects.
fn extra_word(given: &str, arguments: &[OsString], program: &str) -> Option<String> {
    let name = subcommand(arguments)?;
    let second = places(arguments).get(1).and_then(|place| arguments[*place].to_str());
    Some(match (name.as_str(), second) {
        ("undo" | "status", _) if given.parse::<u32>().is_ok() => format!("did you mean `--to-revision {given}`?"),
        ("history", _) if given.parse::<u32>().is_ok() => format!("did you mean `--diff FROM..{given}`?"),
        ("set", Some(kind @ ("image" | "env" | "resources"))) => format!(
            "`{program} set` changes the update strategy; use `kubectl set {kind}`, and before `{program} preview NAME --if` to see \
             what it would do"
        ),
        _ => match super::command().find_subcommand(&name)? {
            command if has(command, "dry-run") => {
                format!("{name} takes one DaemonSet at a time; repeat the command for each")
            }
            command if has(command, "node") => format!("to choose a node, add `--node {}`", quote(given, true)),
            _ => return None,
        },
    })
}

/// Returns for an unknown flag which commands have it, or which flag was meant.
fn unknown_flag(given: &str, arguments: &[OsString], program: &str) -> String {
    let root = super::command();
    let name = subcommand(arguments);
    let shown_by = match given {
        _ if name.as_deref() != Some("coverage") => None,
        "--if" | "--on" | "--server-side" | "--force-conflicts" | "--replace" => {
            Some(("a change is previewed", "preview"))
        }
        "--logs" => Some(("what pods have logged is shown", "logs")),
        "--stale-config" => Some(("of one DaemonSet that is shown", "status")),
        _ => None,
    };
    if let Some((what, command)) = shown_by {
        return format!("{what} by\n    {program} {}", as_command(command, arguments));
    }
    let is_it =
        |(command, flags, _): &&(&str, &[&str], &str)| name.as_deref() == Some(*command) && flags.contains(&given);
    if let Some((_, _, hint)) = FLAGS_OF_OTHERS.iter().find(is_it) {
        return (*hint).to_owned();
    }
    let of = name.as_deref().and_then(|name| root.find_subcommand(name));
    if matches!(given, "-f" | "--filename") && !of.is_some_and(|it| has(it, "filename")) {
        return format!(
            "a dump is read with `--from FILE`, and `{program} preview -f FILE` shows what a manifest would change"
        );
    }
    let long = given.trim_start_matches('-');
    let has_it = |command: &&Command| {
        let is_it = |flag: &Arg| {
            !flag.is_hide_set()
                && (flag.get_long() == Some(long) || flag.get_short().is_some_and(|it| long == it.to_string()))
        };
        !command.is_hide_set() && command.get_arguments().any(is_it)
    };
    let others: Vec<String> =
        root.get_subcommands().filter(has_it).map(|it| format!("`{program} {}`", it.get_name())).collect();
    let own = || {
        let flags = of.into_iter().chain([&root]).flat_map(Command::get_arguments);
        let flags = flags.filter(|flag| of.is_none() || !flag.is_hide_set()).filter_map(Arg::get_long);
        similar_names(long, flags).into_iter().next()
    };
    match (others.as_slice(), given.starts_with("--").then(own).flatten()) {
        ([one], _) => format!("{one} has it"),
        ([first @ .., last], _) => format!("{} and {last} have it", first.join(", ")),
        ([], Some(near)) => format!("did you mean `--{near}`?"),
        ([], None) => {
            let command = name.map_or_else(String::new, |name| format!(" {name}"));
            format!("see `{program}{command} --help`")
        }
    }
}

/// Returns the arguments of `coverage` in the syntax of `preview` or `status`, quoted.
fn as_command(name: &str, arguments: &[OsString]) -> String {
    let places = places(arguments);
    let verb = if name == "status" && places.len() == 1 { "status NAME" } else { name };
    let is_output = |text: &str| text.starts_with("--output") || text.starts_with("-o");
    let has_namespace = arguments.iter().any(|argument| argument.to_string_lossy().starts_with("--namespace"))
        || arguments.iter().any(|argument| argument == "-n");
    let word = |(place, argument): (usize, &OsString)| {
        let text = argument.to_string_lossy();
        match &*text {
            _ if Some(&place) == places.first() => None,
            // `kubectl get ds` is the list.
            text if places.get(1) == Some(&place) && flavor_of_type(text) == Some(Flavors::Apps) => None,
            "--stale-config" | "--logs" | "--watch=false" | "-w=false" => None,
            "--exit-code" if name == "status" => None,
            "-A" | "--all-namespaces" if name == "status" || has_namespace => None,
            // The output format is not part of the intended command.
            text if is_output(text) => None,
            _ if place > 0 && matches!(arguments[place - 1].to_str(), Some("-o" | "--output")) => None,
            text => {
                let selector = text.strip_prefix("--on").filter(|rest| rest.is_empty() || rest.starts_with('='));
                let text = selector.map_or(text.to_owned(), |value| format!("--node-selector{value}"));
                Some(quote(&text, true).into_owned())
            }
        }
    };
    let rest = arguments.iter().enumerate().skip(1).filter_map(word);
    [verb.to_owned()].into_iter().chain(rest).collect::<Vec<_>>().join(" ")
}

/// Explains what to type for a command without the name of a DaemonSet.
fn missing_name(missing: &[String], arguments: &[OsString], program: &str) -> Option<String> {
    if let [flag] = missing
        && flag.starts_with("--")
    {
        // The time of a dump that is compared.
        let hint = match flag.starts_with("--from") && subcommand(arguments).as_deref() == Some("compare") {
            true => format!(", as in `{program} compare BEFORE --from AFTER --now TIME`"),
            false => String::new(),
        };
        return Some(format!("add {flag}: another flag that was given requires it{hint}"));
    }
    if !missing.iter().any(|one| one == "<NAME>") {
        return None;
    }
    let name = subcommand(arguments)?;
    // No example of a real name, because it may be pasted.
    Some(format!(
        "{name} needs the name of a DaemonSet, as in `{program} {name} NAME`; `{program} list` lists them, and `{program} {name} -h` \
         has examples"
    ))
}

/// Returns the positions of the words, and the subcommand to which those after the first belong.
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
    // A subcommand may have its own version of a global flag.
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
