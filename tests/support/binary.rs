//! The real binary, and how its runs end.

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

const NO_AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tls/client-rsa-1024.crt");

/// How a command ended.
#[derive(Default)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Returns the real binary with a cleared environment, a width of 80 columns, a UTF-8 locale, and one certificate, which signs no other,
/// in the place of the system's: to read those takes most of an unoptimized start.
pub fn kubectl_ds(arguments: &[impl AsRef<str>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-ds"));
    command.args(arguments.iter().map(AsRef::as_ref));
    command
        .env_clear()
        .env("COLUMNS", "80")
        .env("LANG", "C.UTF-8")
        .env("SSL_CERT_FILE", NO_AUTHORITY)
        .stdin(Stdio::null());
    command
}

/// Runs a command to its end with the given standard input.
pub fn end(mut command: Command, input: Option<&[u8]>) -> Ended {
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    let mut child = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let output = thread::scope(|scope| {
        if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
            // A command that refuses its arguments does not read.
            scope.spawn(move || stdin.write_all(input));
        }
        child.wait_with_output().unwrap()
    });
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).expect("UTF-8 on standard output"),
        err: String::from_utf8(output.stderr).expect("UTF-8 on standard error"),
    }
}
