//! Expected output, one file per situation under `tests/screens/`: command lines, and below each its standard
//! output, standard error and exit code. tests/README.md says how to write and update them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use snapbox::assert::DEFAULT_ACTION_ENV;
use snapbox::{Assert, Data};

pub use crate::support::binary::{Ended, end, kubectl_ds};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Compares what a Rust test observed with the file of this name under `tests/screens/`.
pub fn check(file: &str, ended: &Ended) {
    if let Err(difference) = compare(&Path::new(ROOT).join("tests/screens").join(file), &shown(ended)) {
        panic!("{difference}");
    }
}

fn compare(file: &Path, actual: &str) -> snapbox::assert::Result<()> {
    // Raw: an output line such as `...` must not become a wildcard.
    let expected = Data::read_from(file, None).raw();
    Assert::new().action_env(DEFAULT_ACTION_ENV).try_eq(Some(&"actual"), Data::text(actual), expected)
}

/// Returns what a command printed, and its exit code unless it is 0, as one text.
fn shown(ended: &Ended) -> String {
    let mut text = visible(&ended.out);
    if !ended.err.is_empty() {
        text += "----- stderr -----\n";
        text += &visible(&ended.err);
    }
    match ended.code {
        Some(0) => {}
        Some(code) => writeln!(text, "----- exit code {code} -----").unwrap(),
        None => text += "----- killed by a signal -----\n",
    }
    assert!(!text.lines().any(|line| line.starts_with("$ ")), "reads as a command line:\n{text}");
    text
}

/// Shows control characters as their Unicode pictures, and hides the program's version.
fn visible(text: &str) -> String {
    let mut shown: String = text
        .replace(env!("CARGO_PKG_VERSION"), "[VERSION]")
        .chars()
        .map(|c| match u32::from(c) {
            code @ (0..=9 | 11..=31) => char::from_u32(0x2400 + code).unwrap(),
            _ => c,
        })
        .collect();
    if !shown.is_empty() && !shown.ends_with('\n') {
        shown += "⏎ (no newline at the end)\n";
    }
    shown
}

/// Runs every command line of a file, and returns the file as it should be.
fn rerun(text: &str) -> String {
    let mut actual = String::new();
    let mut comment = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with('#') {
            comment += line;
            comment.push('\n');
        } else if let Some(command) = line.strip_prefix("$ ") {
            if !actual.is_empty() {
                actual.push('\n');
            }
            actual += &comment;
            comment.clear();
            writeln!(actual, "{line}").unwrap();
            let mut command = command.to_owned();
            while let Some(start) = command.strip_suffix('\\') {
                let next = lines.next().expect("a line after a backslash");
                writeln!(actual, "{next}").unwrap();
                command = format!("{start}{}", next.trim_start());
            }
            actual += &shown(&run_line(&command));
        } else {
            // A comment stands directly above its command; other lines with `#` are output.
            comment.clear();
        }
    }
    actual
}

/// Runs a pipeline of `kubectl ds` and `merge-patch`, whose last command may fail.
fn run_line(line: &str) -> Ended {
    let words = shlex::split(line).unwrap_or_else(|| panic!("unbalanced quotes: {line}"));
    let mut input = None;
    let mut ended = Ended::default();
    let mut commands = words.split(|word| word == "|").peekable();
    while let Some(words) = commands.next() {
        let assigned = words.iter().take_while(|word| is_assignment(word)).count();
        let (environment, words) = words.split_at(assigned);
        let mut words = words.to_vec();
        if let Some(at) = words.iter().position(|word| word == "<") {
            input = Some(fs::read(folder().join(&words[at + 1])).expect("the file after <"));
            words.drain(at..at + 2);
        }
        ended = match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["kubectl", "ds", arguments @ ..] => {
                let mut command = kubectl_ds(arguments);
                command.current_dir(folder());
                for (name, value) in environment.iter().filter_map(|word| word.split_once('=')) {
                    match value {
                        "" => command.env_remove(name),
                        _ => command.env(name, value),
                    };
                }
                end(command, input.as_deref())
            }
            ["merge-patch", file, patches @ ..] => {
                Ended { code: Some(0), out: merge_patch(file, patches), ..Ended::default() }
            }
            _ => panic!("neither `kubectl ds` nor `merge-patch`: {line}"),
        };
        if commands.peek().is_some() {
            assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{line}");
            input = Some(std::mem::take(&mut ended.out).into_bytes());
        }
    }
    ended
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
}

/// The directory that command lines run in.
pub fn folder() -> PathBuf {
    Path::new(ROOT).join("tests/fixtures/commands")
}

/// Returns a dump after JSON merge patches, each after the `KIND/NAME` or `KIND/*` that it applies to.
///
/// `null` removes objects; a patch with an `apiVersion` may add one.
fn merge_patch(file: &str, patches: &[&str]) -> String {
    let text = fs::read_to_string(folder().join(file)).expect("the dump to patch");
    let mut dump: Value = serde_saphyr::from_str(&text).unwrap();
    let items = dump["items"].as_array_mut().unwrap();
    for pair in patches.chunks(2) {
        let (kind, name) = pair[0].split_once('/').expect("KIND/NAME");
        let patch: Value = serde_json::from_str(pair[1]).unwrap_or_else(|error| panic!("{error}: {}", pair[1]));
        let is_meant = |item: &Value| item["kind"] == kind && (name == "*" || item["metadata"]["name"] == name);
        if !items.iter().any(is_meant) {
            assert!(patch["apiVersion"].is_string(), "no {} in {file}", pair[0]);
            items.push(json!({"kind": kind, "metadata": {"name": name}}));
        }
        if patch.is_null() {
            items.retain(|item| !is_meant(item));
        }
        for item in items.iter_mut().filter(|item| is_meant(item)) {
            json_patch::merge(item, &patch);
        }
    }
    dump.to_string()
}

/// Returns the files below a directory with this extension.
pub fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else {
            assert!(
                extension != "txt" || path.extension().is_some_and(|e| e == "txt"),
                "no screen: {}",
                path.display()
            );
            found.extend(path.extension().is_some_and(|e| e == extension).then_some(path));
        }
    }
    found.sort();
    found
}

/// Returns the screens with or without command lines, and their text.
pub fn screens(with_commands: bool) -> Vec<(PathBuf, String)> {
    let screens = files(&Path::new(ROOT).join("tests/screens"), "txt").into_iter();
    screens
        .map(|path| (fs::read_to_string(&path).unwrap(), path))
        .filter(|(text, _)| text.lines().any(|line| line.starts_with("$ ")) == with_commands)
        .map(|(text, path)| (path, text))
        .collect()
}

/// Declares a test for each screen, so that each can be run by its name.
macro_rules! screens {
    ($($folder:ident: $($name:ident)+;)+) => {
        $(mod $folder {
            $(#[test]
            fn $name() {
                super::is_as_expected(concat!(stringify!($folder), "/", stringify!($name)));
            })+
        })+
    };
}

include!("screen_list.rs");

/// Runs the command lines of a screen, whose name has `_` for each `-`.
fn is_as_expected(name: &str) {
    let path = Path::new(ROOT).join(format!("tests/screens/{}.txt", name.replace('_', "-")));
    if let Err(difference) = compare(&path, &rerun(&fs::read_to_string(&path).unwrap())) {
        panic!("{difference}");
    }
}

#[test]
fn every_screen_with_a_command_line_has_a_test() {
    let mut folders: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, _) in screens(true) {
        let name = path.strip_prefix(Path::new(ROOT).join("tests/screens")).unwrap().with_extension("");
        let name = name.to_str().unwrap().replace('-', "_");
        let (folder, name) = name.split_once('/').expect("FOLDER/NAME");
        folders.entry(folder.to_owned()).or_default().insert(name.to_owned());
    }
    let list = Path::new(ROOT).join("tests/screen_list.rs");
    let before = fs::read_to_string(&list).unwrap();
    let mut text = "// The screens with command lines. `just accept` writes this list.\nscreens! {\n".to_owned();
    for (folder, names) in &folders {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let _ = writeln!(text, "    {folder}:\n        {};", names.join("\n        "));
    }
    text += "}\n";
    if std::env::var_os("KUBECTL_DS_UPDATE").is_none() {
        assert!(before == text, "tests/screen_list.rs is stale: run `just accept`, and look at what changed");
        return;
    }
    fs::write(list, text).unwrap();
    // Those that are new have a test only from the next build on.
    let mut folder = "";
    let mut known = BTreeSet::new();
    for line in before.lines() {
        match line.trim().strip_suffix(':') {
            Some(name) => folder = name,
            None => drop(known.insert(format!("{folder}/{}", line.trim().trim_end_matches(';')))),
        }
    }
    for (folder, names) in &folders {
        let all = names.iter().map(|name| format!("{folder}/{name}"));
        all.filter(|name| !known.contains(name)).for_each(|name| is_as_expected(&name));
    }
}

#[test]
fn every_screen_without_a_command_line_belongs_to_a_test() {
    let sources: String =
        files(&Path::new(ROOT).join("tests"), "rs").iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    for (path, _) in screens(false) {
        let name = path.strip_prefix(Path::new(ROOT).join("tests/screens")).unwrap();
        let literal = format!("\"{}\"", name.display());
        assert!(sources.contains(&literal), "{} has no command line, and no test compares with it", path.display());
    }
}

#[test]
fn every_subcommand_has_screens() {
    for subcommand in kubectl_ds::commands::command().get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        let folder = Path::new(ROOT).join("tests/screens").join(subcommand.get_name());
        assert!(folder.is_dir(), "no screens of `{}`: {}", subcommand.get_name(), folder.display());
    }
}
