//! Before a change is sent: whether this session may change anything, and whether the user confirms a risky change.

use std::io::{self, Read};

use super::Failure;
use super::session::Session;
use crate::cluster::error::ClusterError;
use crate::connection::{context_in_use, is_among};
use crate::error::CommandError;
use crate::io::Io;
use crate::report::history::DaemonSetName;

/// The environment variable that forbids changes.
const READ_ONLY: &str = "KUBECTL_DS_READ_ONLY";

/// The environment variable with the contexts in which every change has to be confirmed.
const CONFIRM: &str = "KUBECTL_DS_CONFIRM";

/// Refuses a change, before any request, if the environment forbids changes.
pub(super) fn check_writable(io: &Io<'_>) -> Result<(), CommandError> {
    match io.variable(READ_ONLY).map(str::to_ascii_lowercase).as_deref() {
        None | Some("0" | "f" | "false" | "n" | "no" | "off") => Ok(()),
        Some(_) => {
            let error = CommandError::new(format!("{READ_ONLY} is set, so nothing may be changed"));
            Err(error.hint("to see what a change would do, add --dry-run"))
        }
    }
}

/// Asks once, on a terminal, whether to make a change that has `risks`, or that goes to a context named in the
/// environment. Fails if the user declines, or if a pattern in the environment is invalid.
pub(super) fn confirm(
    mut risks: Vec<String>,
    name: &DaemonSetName,
    session: &Session,
    io: &mut Io<'_>,
) -> Result<(), Failure> {
    let Some(connection) = session.connection.as_ref().filter(|_| io.input_is_terminal && io.err_is_terminal) else {
        return Ok(());
    };
    // Without a kubeconfig, the cluster is that of the pod in which this program runs.
    let context = context_in_use(connection).ok().flatten().unwrap_or_default();
    if let Some(patterns) = io.variable(CONFIRM)
        && is_among(&context, patterns).map_err(|error| ClusterError::from(error.hint(format!("see {CONFIRM}"))))?
    {
        risks.push(format!("{CONFIRM} names this context"));
    }
    if risks.is_empty() {
        return Ok(());
    }
    let view = session.view;
    let context = if context.is_empty() { String::new() } else { format!("context {context}, ") };
    writeln!(io.err, "{}", view.show(&format!("{context}{}:", name.title())))?;
    for risk in &risks {
        writeln!(io.err, "  {}", view.show(risk))?;
    }
    write!(io.err, "continue? [y/N] ")?;
    io.err.flush()?;
    match read_line(io.input)?.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(CommandError::new("not confirmed; nothing was changed").into()),
    }
}

/// Reads input up to the end of the line.
fn read_line(input: &mut dyn Read) -> io::Result<String> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while input.read(&mut byte)? == 1 && byte != *b"\n" {
        line.extend(byte);
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::read_line;

    #[test]
    fn no_more_than_a_line_is_read() {
        let mut input = &b"yes\nno\n"[..];
        assert_eq!((read_line(&mut input).unwrap(), input), ("yes".to_owned(), &b"no\n"[..]));
        assert_eq!(read_line(&mut &b""[..]).unwrap(), "");
    }
}
