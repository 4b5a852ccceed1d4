//! Help: every command has examples, and each of them works.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::run;

/// Returns the examples of every command, with the command's name; that without a subcommand has an empty one.
fn examples() -> Vec<(String, Vec<String>)> {
    let command = kubectl_ds::commands::command();
    let lines = |command: &clap::Command| {
        let text = command.get_before_help().map(ToString::to_string).unwrap_or_default();
        // A line that a terminal of 80 columns wraps would be pasted in parts.
        assert!(text.lines().all(|line| line.len() <= 76), "{text}");
        text.replace("\\\n  ", "")
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let subcommands = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    let subcommands = subcommands.map(|subcommand| (subcommand.get_name().to_owned(), lines(subcommand)));
    [(String::new(), lines(&command))].into_iter().chain(subcommands).collect()
}

fn run_example(line: &str, folder: &Path) {
    let words = line.strip_prefix("kubectl ds ").unwrap();
    let command = kubectl_ds::commands::command();
    let subcommand =
        command.get_subcommands().find(|subcommand| words.split(' ').next() == Some(subcommand.get_name()));
    let takes = |flag: &str| subcommand.is_some_and(|command| command.get_arguments().any(|one| one.get_id() == flag));
    // The demo has no contexts; several dumps are read in the same way.
    let words = words.replace("--contexts 'prod-*'", "--from demo --from demo");
    let (words, runs) = words.split_once(" -- ").map_or((words.as_str(), None), |(words, runs)| (words, Some(runs)));
    let words_of_shell = shlex::split(words).unwrap();
    let mut arguments: Vec<&str> = words_of_shell.iter().map(String::as_str).collect();
    if takes("dry_run") && !line.contains("--dry-run") {
        arguments.push("--dry-run=client");
    }
    if takes("client") {
        arguments.retain(|argument| *argument != "--client");
        arguments.push("--client");
    } else if !words.contains("--from") && !takes("install") {
        arguments.extend(["--from", "demo"]);
    }
    let rest = runs.iter().flat_map(|runs| ["--"].into_iter().chain(runs.split(' ')));
    let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-ds"));
    program.args(arguments.iter().copied().chain(rest)).env_clear().env("PATH", folder).current_dir(folder);
    let output = program.output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    if let Some(runs) = runs {
        // No command can run in a recording: what would run in the cluster is shown.
        let ends = format!(" -- {runs}\n");
        assert!(err.contains(": kubectl exec -n ") && err.ends_with(&ends), "{line}: {err}");
        return;
    }
    // 3 is the answer to a question about a cluster with troubles.
    let is_answered = output.status.success() || output.status.code() == Some(3);
    assert!(is_answered && !err.contains("error:"), "{line}: {:?} {err}", output.status);
    assert!(!output.stdout.is_empty() || line.contains(" snapshot "), "{line}");
}

#[cfg(unix)]
#[test]
fn every_example_works_on_the_demo() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubectl-ds"), folder.path().join("kubectl-ds")).unwrap();
    let manifest = run(&["history", "fluent-bit", "-n", "logging", "--from", "demo", "--revision", "1", "-o", "yaml"]);
    fs::write(folder.path().join("daemonset.yaml"), manifest.out).unwrap();
    for (_, lines) in examples() {
        for line in lines.iter().filter(|line| line.starts_with("kubectl ds ")) {
            run_example(line, folder.path());
        }
    }
}

#[test]
fn every_command_has_examples() {
    let without: Vec<String> =
        examples().into_iter().filter(|(_, lines)| lines.is_empty()).map(|(name, _)| name).collect();
    assert!(without.is_empty(), "{without:?}");
}

/// Returns what a command prints, without wrapping of its own, on a terminal of 80 columns.
fn at_80_columns(arguments: &[&str]) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-ds"));
    let output = program.args(arguments).env_clear().env("COLUMNS", "80").output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn short_help_fits_a_screen_and_long_help_has_every_flag_under_a_heading() {
    let root = kubectl_ds::commands::command();
    let commands = || root.get_subcommands().filter(|command| !command.is_hide_set());
    let summary = at_80_columns(&["-h"]);
    for command in commands() {
        let row = format!("\n  {:10}  {}\n", command.get_name(), command.get_about().unwrap());
        assert!(summary.contains(&row), "{row} is not in {summary}");
    }
    for command in commands().map(Some).chain([None]) {
        let name = command.map(clap::Command::get_name);
        let [short, long] = ["-h", "--help"].map(|flag| at_80_columns(&[name.as_slice(), &[flag]].concat()));
        let lines: Vec<&str> = short.lines().collect();
        assert!(lines.len() <= 40, "{} lines: {short}", lines.len());
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{short}");
        assert_eq!(lines[0], command.unwrap_or(&root).get_about().unwrap().to_string());
        assert!(short.contains("--help"), "{short}");
        let has = |text: &str, flag: &str| text.lines().any(|line| line.split([' ', '[']).any(|word| word == flag));
        let flags = command.unwrap_or(&root).get_arguments();
        for argument in flags.filter(|flag| !flag.is_hide_set() && !flag.is_positional()) {
            let flag = format!("--{}", argument.get_long().unwrap());
            // In a row of its own, beside its text. What only scripts need is not in the short help.
            let is_short = command.is_some() && !argument.is_hide_short_help_set();
            let row = short.lines().find(|line| line.trim_start().split([' ', '[']).take(2).any(|word| word == flag));
            assert!(!is_short || row.is_some_and(|row| row.trim_end().contains("  ")), "{flag}: {short}");
            assert!(has(&long, &flag), "{flag}: {long}");
        }
        for (heading, flag) in [("Global flags:", "--color"), ("Connection to the API server:", "--as-group")] {
            assert!(long.contains(&format!("\n{heading}\n")) && has(&long, flag) && !has(&short, flag), "{long}");
        }
    }
}

/// Flags that are another flag in one command than in the others, and why.
const OTHER_FLAGS: [(&str, &str, &str); 2] = [
    ("partition", "nodes", "takes the nodes to update: elsewhere it asks for a row per node"),
    ("overhead", "filename", "takes the manifest of one node"),
];

/// Whoever knows a flag from one command must not meet another one under its name.
#[test]
fn a_flag_has_one_form_in_all_commands() {
    let root = kubectl_ds::commands::command();
    let mut known: BTreeMap<String, (String, &str)> = BTreeMap::new();
    let mut others = Vec::new();
    for command in root.get_subcommands().chain([&root]).filter(|command| !command.is_hide_set()) {
        for flag in command.get_arguments().filter(|flag| !flag.is_positional()) {
            let long = flag.get_long().unwrap().to_owned();
            let values = flag.get_action().takes_values().then(|| flag.get_value_names());
            let form = format!("{:?} {:?} {values:?}", flag.get_short(), flag.get_num_args());
            let is_other = |(of, name, _): &&(&str, &str, &str)| *of == command.get_name() && *name == long;
            let (before, of) = known.entry(long.clone()).or_insert_with(|| (form.clone(), command.get_name()));
            match OTHER_FLAGS.iter().find(is_other) {
                Some((of, name, _)) => others.push((*of, *name, form != *before)),
                None => assert_eq!(form, *before, "--{long} of {} and of {of}", command.get_name()),
            }
        }
    }
    let expected: Vec<_> = OTHER_FLAGS.iter().map(|(of, name, _)| (*of, *name, true)).collect();
    assert_eq!(others, expected, "a flag that no longer differs is no exception");
}

/// Runs the program as kubectl does if its file has another name, as the one that krew installs.
fn run_as(file: &str, arguments: &[&str], path: &Path) -> (Option<i32>, String) {
    use std::os::unix::process::CommandExt;
    let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-ds"));
    let output = program.arg0(file).args(arguments).env_clear().env("PATH", path).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[cfg(unix)]
#[test]
fn help_and_suggested_commands_have_the_name_under_which_the_program_was_called() {
    let folder = tempfile::tempdir().unwrap();
    let called = |arguments: &[&str]| run_as("/opt/krew/bin/kubectl-daemonset_doctor", arguments, folder.path()).1;
    let fluent_bit = ["fluent-bit", "-n", "logging", "--from", "demo"];
    for (command, suggested) in [
        (&["coverage"][..], "kubectl daemonset-doctor undo --to-revision 3 -n logging fluent-bit"),
        (&["coverage", "-o", "json"], "kubectl daemonset-doctor undo --to-revision 3 -n logging fluent-bit"),
        (&["coverage"], "kubectl daemonset-doctor history -n logging --diff 3..4 --from demo fluent-bit"),
        (&["status"], "kubectl daemonset-doctor undo --to-revision 3 -n logging fluent-bit"),
        (&["status", "-o", "json", "--from", "demo"], "kubectl daemonset-doctor undo --to-revision 3 -n logging"),
        (&["status"], "kubectl daemonset-doctor logs -n logging --reason CrashLooping"),
    ] {
        let text = called(&[command, &fluent_bit[..]].concat());
        assert!(text.contains(suggested) && !text.contains("kubectl ds"), "{command:?}: {text}");
    }
    // Without a cluster, and of other mistakes.
    for arguments in [&["list"][..], &["rollout", "undo", "x"], &["coverage", "--banana"], &["undo", "--from", "demo"]]
    {
        let (code, text) = run_as("kubectl-daemonset_doctor", arguments, folder.path());
        assert!(code != Some(0) && !text.contains("kubectl ds"), "{arguments:?}: {text}");
    }
    assert!(called(&["rollout", "undo", "x"]).contains("did you mean `kubectl daemonset-doctor undo x`?"));
    let command = kubectl_ds::commands::command();
    for name in command.get_subcommands().map(clap::Command::get_name).chain([""]) {
        let help = called(&[&[name][..usize::from(!name.is_empty())], &["--help"]].concat());
        assert!(!help.contains("kubectl ds") && !help.contains("complete-ds"), "{help}");
        assert!(help.contains("kubectl daemonset-doctor"), "{help}");
    }
}

#[cfg(unix)]
#[test]
fn completion_is_installed_for_the_name_under_which_the_program_was_called() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubectl-daemonset_doctor");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubectl-ds"), &file).unwrap();
    let (code, text) = run_as(file.to_str().unwrap(), &["completion", "--install"], folder.path());
    assert_eq!(code, Some(0), "{text}");
    let shim = folder.path().join("kubectl_complete-daemonset_doctor");
    assert!(fs::read_to_string(&shim).unwrap().contains("exec kubectl-daemonset_doctor __complete -- "));
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let offered = Command::new(shim).args(["cover"]).env_clear().env("PATH", path).output().unwrap();
    assert_eq!(String::from_utf8(offered.stdout).unwrap().split('\t').next(), Some("coverage"));
}
