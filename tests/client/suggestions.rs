//! Suggested commands: a shell parses them as intended, this program accepts them, and they use the same cluster as the
//! report.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use super::equal_reports::start;
use crate::commands::hostile;
use crate::recorded;
use crate::screens::{Ended, end, folder, kubectl_ds, screens};
use crate::support::has_program;
use crate::support::sampling::share;

/// Returns the commands that are printed to be pasted: in text up to the end of the line, in JSON and YAML as a string.
pub(crate) fn suggested(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let Some((before, rest)) =
            line.match_indices("kubectl").map(|(at, _)| line.split_at(at)).find(|(before, rest)| {
                rest.starts_with("kubectl ") && (before.is_empty() || before.ends_with([' ', '"', '\'']))
            })
        else {
            continue;
        };
        found.push(match before.chars().last() {
            Some('"') => match serde_json::from_str(&format!("\"{}", rest.trim_end_matches(','))) {
                Ok(command) => command,
                // In a sentence.
                Err(_) => continue,
            },
            Some('\'') => serde_saphyr::from_str(&format!("'{rest}")).unwrap(),
            _ => rest.to_owned(),
        });
    }
    found
}

/// Returns what is printed on both streams.
fn printed(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let mut command = kubectl_ds(arguments);
    command.env_remove("COLUMNS").envs(environment.iter().copied());
    let Ended { out, err, .. } = end(command, None);
    out + &err
}

/// Returns the arguments that a shell gives to `kubectl` in a command.
fn pasted(shell: &[&str], locale: &str, command: &str) -> Vec<String> {
    let script = format!("kubectl() {{ printf '%s\\0' \"$@\"; }}\n{command}\n");
    let mut run = Command::new(shell[0]);
    run.args(&shell[1..]).arg("-c").arg(script).env_clear();
    run.env("PATH", "/usr/bin:/bin").env("LC_ALL", locale).env("DUMP", "dump.json");
    let output = run.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{command}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap_or_else(|error| panic!("{command}: {error}"));
    text.split_terminator('\0').map(str::to_owned).collect()
}

/// What a person does not want to paste unquoted. Its bytes are the same in every locale.
const PATHS: [&str; 12] = [
    "plain.json",
    "two words.json",
    "it's \"quoted\".json",
    "$(touch pasted).json",
    "`touch pasted`;$HOME.json",
    "new\nline.json",
    "a\ttab\\n.json",
    "größe.json",
    "--watch",
    "!history *?[a] ~ #.json",
    "\u{1b}[31m\u{202e}.json",
    "line\n'\"\\$`!\tü",
];

fn pasted_commands_have_the_arguments_that_were_meant(shell: &[&str]) {
    let directory = TempDir::new().unwrap();
    let dump = fs::read(folder().join("shop.yaml")).unwrap();
    for name in PATHS {
        // A relative path may look like a flag.
        let from =
            if name.starts_with('-') { name.to_owned() } else { directory.path().join(name).display().to_string() };
        fs::write(directory.path().join(name), &dump).unwrap();
        for locale in ["C", "C.UTF-8"] {
            let mut command = kubectl_ds(&["coverage", "-A", &format!("--from={from}")]);
            command.current_dir(directory.path()).env("LANG", locale);
            let text = end(command, None).out;
            let commands = suggested(&text);
            assert!(commands.iter().any(|command| command.contains("--from")), "{from:?}: {text}");
            for command in commands.iter().filter(|command| command.contains("--from")) {
                assert!(locale != "C" || command.is_ascii(), "{command}");
                let words = pasted(shell, locale, command);
                let is_same = words.iter().any(|word| *word == from || *word == format!("--from={from}"));
                assert!(is_same, "{from:?} became {words:?} by {command}");
            }
        }
    }
    assert!(!directory.path().join("pasted").exists());
    // Names of objects, in data.
    let cluster = hostile::cluster().to_string();
    let report = end(kubectl_ds(&["coverage", "-o", "json", "--from", "-"]), Some(cluster.as_bytes())).out;
    let mut arguments = BTreeSet::new();
    for command in suggested(&report) {
        for locale in ["C", "C.UTF-8"] {
            arguments.extend(pasted(shell, locale, &command));
        }
    }
    assert!(arguments.contains(hostile::HOSTILE), "{arguments:?}");
}

#[test]
fn what_is_pasted_into_bash_is_what_was_meant() {
    pasted_commands_have_the_arguments_that_were_meant(&["bash", "--noprofile", "--norc"]);
}

#[test]
fn what_is_pasted_into_zsh_is_what_was_meant() {
    if !has_program("zsh") {
        return;
    }
    pasted_commands_have_the_arguments_that_were_meant(&["zsh", "-f"]);
}

/// Checks a command against the program's own definition, and returns its subcommand.
fn check(command: &str) -> String {
    let words = shlex::split(command).unwrap_or_else(|| panic!("unbalanced quotes: {command}"));
    // A word in capital letters stands for a value.
    let valued = |word| if word == "TIME" { "2026-11-20T10:00:00Z" } else { word };
    let mut words: Vec<&str> = words[2..].iter().map(String::as_str).map(valued).collect();
    let known = kubectl_ds::commands::command();
    let first = words.first().copied().unwrap_or_default();
    let is_subcommand = known.get_subcommands().any(|subcommand| subcommand.get_name() == first);
    if !first.is_empty() && !first.starts_with('-') && !is_subcommand {
        // A name, as `kubectl ds NAME` takes it.
        words.insert(0, "coverage");
    }
    words.insert(0, "kubectl-ds");
    let matches = match known.try_get_matches_from(&words) {
        Ok(matches) => matches,
        Err(error) if error.kind() == clap::error::ErrorKind::DisplayHelp => return "help".to_owned(),
        Err(error) => panic!("{command}\n{error}"),
    };
    let Some((subcommand, matches)) = matches.subcommand() else { return "list".to_owned() };
    let has = |argument: &str| matches.value_source(argument) == Some(clap::parser::ValueSource::CommandLine);
    // What is checked only once it runs.
    match subcommand {
        "partition" => assert!(has("partition") || has("update") || has("stages"), "no number of pods: {command}"),
        "set" => assert!(
            ["max_surge", "max_unavailable", "min_ready_seconds", "strategy_type", "revision_history_limit"]
                .into_iter()
                .any(has),
            "no field: {command}"
        ),
        _ => {}
    }
    subcommand.to_owned()
}

/// Joins the lines of examples that end with a backslash.
fn joined(text: &str) -> String {
    text.replace("\\\n", " ")
}

#[test]
fn this_program_takes_every_command_that_it_prints() {
    let known = kubectl_ds::commands::command();
    let mut checked = 0;
    for (path, text) in screens(true) {
        let is_help = path.parent().unwrap().ends_with("help");
        let mut command_line = String::new();
        for line in joined(&text).lines() {
            if let Some(line) = line.strip_prefix("$ ") {
                line.clone_into(&mut command_line);
                continue;
            }
            let is_usage = line.contains("Usage:") || line.contains("[OPTIONS]") || line.starts_with('#');
            // `kubectl ds` is also the name of who holds a DaemonSet.
            let is_command = |command: &String| {
                let word = command.split(' ').nth(2).unwrap_or_default();
                word.starts_with('-') || known.get_subcommands().any(|subcommand| subcommand.get_name() == word)
            };
            let in_backticks = line.split('`').skip(1).step_by(2);
            let in_backticks = in_backticks.filter(|code| code.starts_with("kubectl ds ") && !code.contains('…'));
            // Sentences may name a command without its arguments.
            in_backticks.filter(|code| code.contains(" -")).for_each(|command| drop(check(command)));
            for command in suggested(line)
                .into_iter()
                .filter(|command| command.starts_with("kubectl ds ") && is_command(command) && !is_usage)
            {
                let subcommand = check(&command);
                checked += 1;
                if is_help {
                    continue;
                }
                let words = shlex::split(&command).unwrap();
                let has = |flag: &str| words.iter().any(|word| word == flag || word.starts_with(&format!("{flag}=")));
                let is_of_one = ["undo", "restart", "set", "partition", "pause", "resume", "status", "history"];
                // Whoever gave no name is told where it goes.
                let names_one = is_of_one.contains(&subcommand.as_str()) && !words.iter().any(|word| word == "NAME");
                assert!(has("-n") || !names_one, "{}: no namespace: {command}", path.display());
                let reads = ["coverage", "list", "status", "history", "changes"].contains(&subcommand.as_str());
                assert!(
                    has("--from") || !reads || !command_line.contains("--from"),
                    "{}: leads elsewhere: {command}",
                    path.display()
                );
            }
        }
    }
    assert!(checked > 50, "only {checked} commands were found");
}

#[test]
fn every_suggested_command_leads_back_to_the_same_cluster_as_the_same_user() {
    let items = recorded::items();
    let names: Vec<[String; 2]> = items
        .iter()
        .filter(|item| item["kind"] == "DaemonSet")
        .map(|item| ["namespace", "name"].map(|field| item["metadata"][field].as_str().unwrap().to_owned()))
        .collect();
    let names = share(names);
    let server = start(items);
    let address = format!("http://{}", server.address);
    let flags = ["--server", &address, "--token", "t0ps3cr3t", "--as", "jane doe"];
    let mut runs: Vec<Vec<&str>> = vec![
        vec!["status", "-A"],
        vec!["coverage", "-A", "-o", "json"],
        vec!["coverage", "no-such-agent"],
        vec!["coverage", "-A", "--by", "no.such/label"],
    ];
    for [namespace, name] in &names {
        let on = |words: &[&'static str]| [words, &[name.as_str(), "-n", namespace.as_str()]].concat();
        runs.extend([on(&["coverage"]), on(&["status"]), on(&["undo", "--dry-run=client"])]);
        runs.extend([on(&["set", "--max-unavailable=3", "--dry-run=client"]), on(&["pause", "--dry-run=client"])]);
        runs.push(on(&["partition", "--update=1", "--dry-run"]));
    }
    let mut checked = 0;
    for run in runs {
        let text = printed(&[&run[..], &flags].concat(), &[]);
        assert!(!text.contains("t0ps3cr3t"), "{text}");
        for command in suggested(&text) {
            for needed in [&*format!("--server {address}"), "--token \"${TOKEN:?}\"", "--as 'jane doe'"] {
                assert!(command.contains(needed), "{run:?}: without {needed}: {command}\n{text}");
            }
            if command.starts_with("kubectl ds ") {
                check(&command);
            }
            checked += 1;
        }
        let mut quoted = text.split('`').skip(1).step_by(2);
        let not_to_paste = quoted.find(|code| code.starts_with("kubectl ds "));
        assert_eq!(not_to_paste, None, "{run:?}");
    }
    assert!(checked > 50, "only {checked} commands were found");
}

#[test]
fn what_cannot_be_taken_is_found() {
    for wrong in [
        "kubectl ds undo --no-such-flag agent",
        "kubectl ds partition agent",
        "kubectl ds set agent",
        "kubectl ds undo -n a",
    ] {
        assert!(std::panic::catch_unwind(|| check(wrong)).is_err(), "{wrong}");
    }
    let json = json!({"command": "kubectl ds undo 'a b'"});
    let text = format!("{}\nto undo: kubectl ds pause agent\n", serde_json::to_string_pretty(&json).unwrap());
    assert_eq!(suggested(&text), ["kubectl ds undo 'a b'", "kubectl ds pause agent"]);
}
