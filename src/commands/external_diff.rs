//! Runs the program in KUBECTL_EXTERNAL_DIFF on two values, as `kubectl diff` does.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use tempfile::TempDir;
use tokio::process::Command;

use super::Failure;
use super::child::{self, Streams};
use crate::error::CommandError;
use crate::io::Io;
use crate::render::unified::Labeled;

/// The environment variable that names the program.
pub const VARIABLE: &str = "KUBECTL_EXTERNAL_DIFF";

/// The maximum number of characters of a label in a file name.
const MAX_NAME_LENGTH: usize = 100;

/// Runs a program with arguments, as the variable holds them, on two values, and tells whether they differ.
///
/// The values are written as YAML to two files in a temporary directory that only this user can read.
///
/// # Errors
///
/// Fails if the files cannot be written, the program cannot be run, or it ends with an exit code other than 0 (no
/// differences) and 1 (differences).
pub async fn run(
    program_and_arguments: &str,
    from: &Labeled,
    to: &Labeled,
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    let failed = |message: &str, error: io::Error| CommandError::new(message).because(error);
    let directory = directory(io).map_err(|error| failed("cannot create a temporary directory for the diff", error))?;
    let (from_path, to_path) =
        files(&directory, from, to).map_err(|error| failed("cannot write the files to compare", error))?;
    let (program, arguments) = split(program_and_arguments);
    let mut command = Command::new(program);
    command.args([from_path, to_path]).args(arguments);
    out.flush()?;
    let streams = if io.out_is_terminal { Streams::Terminal } else { Streams::Separate(out) };
    let status = child::run(command, streams, io, |error| not_run(program, error)).await?;
    // Dropping it would ignore an error.
    directory.close().map_err(|error| failed("cannot remove the temporary directory of the diff", error))?;
    match status.code() {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        _ => Err(ended(program, status).into()),
    }
}

/// Splits the variable as kubectl does: at each space. kubectl passes on only arguments that consist of letters,
/// digits, `-` and `=`.
fn split(program_and_arguments: &str) -> (&str, impl Iterator<Item = &str>) {
    let mut words = program_and_arguments.split(' ');
    let is_passed =
        |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '='));
    (words.next().unwrap_or_default(), words.filter(is_passed))
}

fn directory(io: &Io<'_>) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("kubectl-ds-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    match io.variable("TMPDIR") {
        Some(parent) => builder.tempdir_in(parent),
        None => builder.tempdir(),
    }
}

/// Writes each value to a file with its name.
fn files(directory: &TempDir, from: &Labeled, to: &Labeled) -> io::Result<(PathBuf, PathBuf)> {
    let (from_name, to_name) = (file_name(&from.label), file_name(&to.label));
    let (from_name, to_name) = if from_name == to_name {
        (format!("from-{from_name}"), format!("to-{to_name}"))
    } else {
        (from_name, to_name)
    };
    let write = |name: String, value: &Labeled| {
        let path = directory.path().join(name);
        fs::write(&path, value.yaml(false)).map(|()| path)
    };
    Ok((write(from_name, from)?, write(to_name, to)?))
}

/// Turns a label into a file name that is no flag to a program and one word to a shell.
fn file_name(label: &str) -> String {
    let name: String = label
        .chars()
        .take(MAX_NAME_LENGTH)
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' })
        .collect();
    format!("{}.yaml", name.trim_start_matches(['-', '.']))
}

fn not_run(program: &str, error: io::Error) -> CommandError {
    let why = match error.kind() {
        io::ErrorKind::NotFound if Path::new(program).components().count() > 1 => "no such file".to_owned(),
        io::ErrorKind::NotFound => "executable file not found in $PATH".to_owned(),
        _ => error.to_string(),
    };
    CommandError::new(format!("failed to run {program:?}: {why}")).hint(format!(
        "{VARIABLE} names the program that shows differences; install it, or unset the variable to see them here"
    ))
}

fn ended(program: &str, status: ExitStatus) -> CommandError {
    let how = status.code().map_or_else(|| status.to_string(), |code| format!("exit status {code}"));
    CommandError::new(format!("failed to run {program:?}: {how}"))
        .hint(format!("a program in {VARIABLE} must exit with 0 if there are no differences and with 1 if there are"))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::{self, Permissions};
    use std::io::{self, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use serde_json::json;
    use tempfile::TempDir;

    use super::{Failure, Labeled, file_name, run};
    use crate::interrupt::Interrupt;
    use crate::io::Io;

    /// How a program ended, what it printed, and what lies in the folder for temporary files afterwards.
    struct Ended {
        result: Result<bool, Failure>,
        out: String,
        err: String,
        left: usize,
    }

    impl Ended {
        fn error(self) -> String {
            match self.result {
                Err(Failure::Error(error)) => error.to_string(),
                other => panic!("{other:?}"),
            }
        }
    }

    fn run_in(folder: &Path, variable: &str, terminal: bool, out: &mut dyn Write) -> (Result<bool, Failure>, String) {
        let (mut input, mut err) = (io::empty(), Vec::new());
        let mut io = Io {
            input: &mut input,
            err: &mut err,
            input_is_terminal: false,
            out_is_terminal: terminal,
            err_is_terminal: false,
            terminal_width: || None,
            terminal_size: || None,
            unicode: true,
            environment: BTreeMap::from([("TMPDIR".to_owned(), folder.display().to_string())]),
            clock: || "2026-11-20T10:00:00Z".parse().unwrap(),
            interrupt: Interrupt::default(),
            server_warnings: 0,
        };
        let from = Labeled::new("agent.revision-2", json!({"image": "agent:2"}));
        let to = Labeled::new("agent.revision-3", json!({"image": "agent:3"}));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let result = runtime.block_on(run(variable, &from, &to, &mut io, out));
        (result, String::from_utf8(err).unwrap())
    }

    /// Runs a script that is written first, with what follows its name in the variable.
    fn run_script(script: &str, arguments: &str) -> Ended {
        let folder = TempDir::new().unwrap();
        let program = folder.path().join("differ");
        // A process that is started at this moment would hold a file open that is written to, and nobody could run it.
        let draft = folder.path().join("draft");
        fs::write(&draft, format!("#!/bin/sh\n{script}\n")).unwrap();
        let copied = std::process::Command::new("cp").args([&draft, &program]).status().unwrap();
        assert!(copied.success());
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(folder.path().join("temporary")).unwrap();
        let mut out = Vec::new();
        let variable = format!("{}{arguments}", program.display());
        let (result, err) = run_in(&folder.path().join("temporary"), &variable, false, &mut out);
        let left = fs::read_dir(folder.path().join("temporary")).unwrap().count();
        Ended { result, out: String::from_utf8(out).unwrap(), err, left }
    }

    #[test]
    fn the_program_gets_two_files_and_what_it_prints_is_passed_on() {
        let ended = run_script(r#"for file; do basename "$file"; cat "$file"; done; echo careful >&2; exit 1"#, "");
        assert!(matches!(ended.result, Ok(true)), "{:?}", ended.result);
        assert_eq!(ended.out, "agent.revision-2.yaml\nimage: agent:2\nagent.revision-3.yaml\nimage: agent:3\n");
        assert_eq!((ended.err.as_str(), ended.left), ("careful\n", 0));
    }

    #[test]
    fn exit_code_0_says_that_nothing_differs() {
        let ended = run_script("exit 0", "");
        assert!(matches!(ended.result, Ok(false)), "{:?}", ended.result);
        assert_eq!((ended.out.as_str(), ended.left), ("", 0));
    }

    #[test]
    fn arguments_come_after_the_files_and_are_those_that_kubectl_passes_on() {
        let ended = run_script(r#"shift 2; printf '<%s>' "$@""#, " -u  --color=always --label=a/b $(id) 'x' -N ä ;");
        assert_eq!(ended.out, "<-u><--color=always><-N>");
    }

    #[test]
    fn nobody_else_can_read_the_files() {
        let ended = run_script(r#"stat -c %a "$(dirname "$1")""#, "");
        assert_eq!(ended.out, "700\n");
    }

    #[test]
    fn another_exit_code_is_an_error_that_names_it() {
        let ended = run_script("echo half; exit 2", "");
        assert_eq!((ended.out.as_str(), ended.left), ("half\n", 0));
        let error = ended.error();
        assert!(error.starts_with("failed to run \"") && error.contains("/differ\": exit status 2\nhint: "), "{error}");
        let ended = run_script("kill -9 $$", "");
        assert_eq!(ended.left, 0);
        assert!(ended.error().contains("signal: 9"), "a killed program is no answer");
    }

    #[test]
    fn a_program_that_is_not_there_is_named_with_what_to_do() {
        let folder = TempDir::new().unwrap();
        for (variable, why) in [
            (
                "kubectl-ds-no-such-program -u",
                "failed to run \"kubectl-ds-no-such-program\": executable file not found in $PATH",
            ),
            ("/no/such/program", "failed to run \"/no/such/program\": no such file"),
        ] {
            let (result, _) = run_in(folder.path(), variable, false, &mut io::sink());
            let Err(Failure::Error(error)) = result else { panic!("{result:?}") };
            let text = error.to_string();
            assert!(text.starts_with(why) && text.contains("\nhint: KUBECTL_EXTERNAL_DIFF"), "{text}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn much_output_on_both_streams_does_not_block() {
        let ended = run_script("i=0; while [ $i -lt 20000 ]; do echo $i; echo $i >&2; i=$((i+1)); done; exit 1", "");
        assert!(matches!(ended.result, Ok(true)), "{:?}", ended.result);
        assert_eq!((ended.out.lines().count(), ended.err.lines().count()), (20_000, 20_000));
    }

    #[test]
    fn a_reader_that_has_seen_enough_ends_the_program_too() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let folder = TempDir::new().unwrap();
        let (result, _) = run_in(folder.path(), "yes", false, &mut Closed);
        assert!(matches!(result, Err(Failure::Output(_))), "{result:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn on_a_terminal_the_program_prints_by_itself() {
        let folder = TempDir::new().unwrap();
        let mut out = Vec::new();
        let (result, _) = run_in(folder.path(), "cmp -s", true, &mut out);
        assert!(matches!(result, Ok(true)), "{result:?}");
        assert!(out.is_empty());
    }

    #[test]
    fn labels_become_names_of_files() {
        assert_eq!(file_name("agent revision 2"), "agent-revision-2.yaml");
        assert_eq!(file_name("../../etc/passwd"), "etc-passwd.yaml");
        assert_eq!(file_name("-rf \u{1b}[2J ; é"), "rf---2J----.yaml");
        assert_eq!(file_name(&"x".repeat(1_000)).len(), 105);
    }
}
