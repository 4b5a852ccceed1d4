//! Runs the program of KUBECTL_EXTERNAL_DIFF on two values, as `kubectl diff` does.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use tempfile::TempDir;

use super::Failure;
use crate::error::CommandError;
use crate::io::Io;
use crate::render::unified::Labelled;

/// The environment variable that names the program.
pub const VARIABLE: &str = "KUBECTL_EXTERNAL_DIFF";

/// The most characters of a label that a file is named with.
const LONGEST_NAME: usize = 100;

/// Runs a program with arguments, as the variable holds them, on two values, and tells whether they differ.
///
/// The values are written as YAML to two files of a folder that only this user can read, and that is gone afterwards.
/// On a terminal the program has the terminal to itself, so that it can colour and page.
///
/// # Errors
///
/// Fails where the files cannot be written, the program cannot be run, or it ends with another exit code than 0, the
/// same, and 1, different.
pub fn run(
    program_and_arguments: &str,
    from: &Labelled,
    to: &Labelled,
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    let folder = folder(io).map_err(|error| CommandError::new("cannot make a folder for the diff").because(error))?;
    let (from_path, to_path) =
        files(&folder, from, to).map_err(|error| CommandError::new("cannot write what to compare").because(error))?;
    let (program, arguments) = split(program_and_arguments);
    let mut command = Command::new(program);
    command.args([from_path, to_path]).args(arguments);
    out.flush().map_err(Failure::Output)?;
    let status = if io.out_is_terminal {
        command.stdin(if io.input_is_terminal { Stdio::inherit() } else { Stdio::null() });
        command.status().map_err(|error| not_run(program, error))?
    } else {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        pass_on(command.spawn().map_err(|error| not_run(program, error))?, io, out)?
    };
    // Without this a folder that cannot be removed would stay unnoticed.
    folder.close().map_err(|error| CommandError::new("cannot remove the folder of the diff").because(error))?;
    match status.code() {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        _ => Err(ended(program, status).into()),
    }
}

/// Divides the variable as kubectl does: at each space. Of the arguments, kubectl passes on only those of letters,
/// digits, `-` and `=`.
fn split(program_and_arguments: &str) -> (&str, impl Iterator<Item = &str>) {
    let mut words = program_and_arguments.split(' ');
    let is_passed =
        |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '='));
    (words.next().unwrap_or_default(), words.filter(is_passed))
}

fn folder(io: &Io<'_>) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("kubectl-ds-");
    match io.variable("TMPDIR") {
        Some(parent) => builder.tempdir_in(parent),
        None => builder.tempdir(),
    }
}

/// Writes each value to a file that is named after it.
fn files(folder: &TempDir, from: &Labelled, to: &Labelled) -> io::Result<(PathBuf, PathBuf)> {
    let (from_name, to_name) = (file_name(&from.label), file_name(&to.label));
    let (from_name, to_name) = if from_name == to_name {
        (format!("from-{from_name}"), format!("to-{to_name}"))
    } else {
        (from_name, to_name)
    };
    let write = |name: String, value: &Labelled| {
        let path = folder.path().join(name);
        fs::write(&path, value.yaml(false)).map(|()| path)
    };
    Ok((write(from_name, from)?, write(to_name, to)?))
}

/// Makes a label a file name that no program takes for a flag and no shell for more than a word.
fn file_name(label: &str) -> String {
    let name: String = label
        .chars()
        .take(LONGEST_NAME)
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' })
        .collect();
    format!("{}.yaml", name.trim_start_matches(['-', '.']))
}

/// Passes on what a program prints until it ends.
fn pass_on(mut child: Child, io: &mut Io<'_>, out: &mut dyn Write) -> Result<ExitStatus, Failure> {
    let errors = child.stderr.take().map(|mut stream| {
        thread::spawn(move || {
            let mut text = Vec::new();
            // What could be read is shown, and that it ended is known from the exit code.
            let _ = stream.read_to_end(&mut text);
            text
        })
    });
    let copied = child.stdout.take().map_or(Ok(0), |mut stream| io::copy(&mut stream, out));
    let status = child.wait();
    if let Some(text) = errors.and_then(|thread| thread.join().ok()) {
        // Where even standard error is closed there is nobody left to tell.
        let _ = io.err.write_all(&text);
    }
    copied.map_err(Failure::Output)?;
    Ok(status.map_err(|error| CommandError::new("cannot wait for the diff program").because(error))?)
}

fn not_run(program: &str, error: io::Error) -> CommandError {
    let why = match error.kind() {
        io::ErrorKind::NotFound if Path::new(program).components().count() > 1 => "no such file".to_owned(),
        io::ErrorKind::NotFound => "executable file not found in $PATH".to_owned(),
        _ => error.to_string(),
    };
    CommandError::new(format!("failed to run {program:?}: {why}")).hint(format!(
        "{VARIABLE} names the program that shows differences; install it, or unset the variable to have them shown here"
    ))
}

fn ended(program: &str, status: ExitStatus) -> CommandError {
    let how = status.code().map_or_else(|| status.to_string(), |code| format!("exit status {code}"));
    CommandError::new(format!("failed to run {program:?}: {how}"))
        .hint(format!("a program in {VARIABLE} ends with 0 where nothing differs, with 1 where something does"))
}
