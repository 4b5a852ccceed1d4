//! Every screen on a terminal of 80 columns: text is wrapped, but commands to paste are not. A run for a change tests
//! one command line per situation.

use std::thread;

use anstream::adapter::strip_str;
use unicode_width::UnicodeWidthStr;

use crate::client::suggestions::suggested;
use crate::screens::{end, folder, kubectl_ds, screens};
use crate::support::pty::InTerminal;
use crate::support::sampling::all_is_tried;

const COLUMNS: u16 = 80;

/// How many command lines run at once.
const THREADS: usize = 4;

/// What is data, source code, a log or a wide table is not wrapped; what is redrawn has tests of its own.
const OTHERS: [&str; 11] = [
    "-o",
    "--output",
    "--diff",
    "--unified",
    "--help",
    "completion",
    "help",
    "__complete",
    "--progress",
    "--color",
    "logs",
];

/// Returns the arguments of the command lines that need nothing but the files of the fixtures.
fn command_lines() -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (_, text) in screens(true) {
        let lines = text.lines().filter_map(|line| line.strip_prefix("$ kubectl ds "));
        let lines = lines.filter(|line| !line.ends_with('\\')).filter_map(shlex::split);
        let lines = lines.filter(|words| {
            let is_wrapped =
                |word: &String| !OTHERS.iter().any(|not| word == not || word.starts_with(&format!("{not}=")));
            words.iter().all(|word| !["|", "<"].contains(&word.as_str()) && is_wrapped(word))
        });
        found.extend(lines.take(if all_is_tried() { usize::MAX } else { 1 }));
    }
    found
}

/// Runs a command line in a pipe and on a terminal; returns how many commands it suggests, and what is wrong on the terminal.
fn wrapped(arguments: &[String], known: &clap::Command) -> (usize, Vec<String>) {
    let mut plain = kubectl_ds(arguments);
    plain.current_dir(folder()).env_remove("COLUMNS");
    let plain = end(plain, None);
    let mut command = kubectl_ds(arguments);
    command.current_dir(folder()).env_remove("COLUMNS").env("TERM", "xterm-256color");
    let (code, _, written) = InTerminal::start(command, (COLUMNS, 50)).end();
    assert_eq!(code, plain.code, "{arguments:?}: {written}");
    let written = strip_str(&written).to_string();
    let lines: Vec<&str> = written.split("\r\n").collect();
    // What clap says of flags is not wrapped.
    if plain.code == Some(2) {
        return (0, Vec::new());
    }
    // `kubectl ds` is also the name of who holds a DaemonSet, and `kubectl` of a field manager, in a column.
    let is_command = |command: &String| {
        let words: Vec<&str> = command.split(' ').collect();
        let is_known = |word: &&str| word.starts_with('-') || known.find_subcommand(word).is_some();
        !words[1].is_empty() && words[1] != "ds" || words.get(2).is_some_and(is_known)
    };
    let whole: Vec<String> = suggested(&(plain.out + &plain.err)).into_iter().filter(is_command).collect();
    let ends_with = |line: &str, command: &String| line.ends_with(command.as_str());
    let broken = whole.iter().filter(|command| !lines.iter().any(|line| ends_with(line, command)));
    let broken = broken.map(|command| format!("{}: broken: {command}", arguments.join(" ")));
    let wide = lines.iter().filter(|line| line.width() > usize::from(COLUMNS));
    let wide = wide.filter(|line| !whole.iter().any(|command| ends_with(line, command)));
    let wide = wide.map(|line| format!("{}: too wide: {line}", arguments.join(" ")));
    (whole.len(), broken.chain(wide).collect())
}

#[test]
fn no_line_is_wider_than_the_terminal_and_no_command_is_broken() {
    let (known, command_lines) = (kubectl_ds::commands::command(), command_lines());
    let check = |part: &[Vec<String>]| part.iter().map(|line| wrapped(line, &known)).collect::<Vec<_>>();
    // One after the other, they would be the last thing that the tests wait for.
    let checked: Vec<_> = thread::scope(|scope| {
        let parts = command_lines.chunks(command_lines.len().div_ceil(THREADS));
        let running: Vec<_> = parts.map(|part| scope.spawn(|| check(part))).collect();
        running.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    let commands: usize = checked.iter().map(|(commands, _)| commands).sum();
    let problems: Vec<String> = checked.into_iter().flat_map(|(_, problems)| problems).collect();
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    assert!(command_lines.len() > 100 && commands > 50, "{} command lines, {commands} commands", command_lines.len());
}
