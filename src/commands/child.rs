//! Runs another program to its end, or until this process has to end.

use std::cell::RefCell;
use std::io::{self, Write};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::{Failure, interrupted};
use crate::error::CommandError;
use crate::io::Io;

/// The size in bytes of the largest piece of output that is passed on at once.
const PIECE_SIZE: usize = 1 << 16;

/// How long what a program has left in its streams may take to be passed on, after it has ended.
const REST: Duration = Duration::from_millis(200);

/// Where the output of a program goes.
pub(super) enum Streams<'a> {
    /// It gets the terminal to itself, so that it can color and page, and it handles Ctrl-C from then on.
    Terminal,
    /// Its output is passed on to this, and its errors to standard error; Ctrl-C ends it.
    Separate(&'a mut dyn Write),
    /// All is passed on to standard error; Ctrl-C ends it.
    StandardError,
}

/// Runs a program and waits until it ends, whatever those that it has left in the background do.
///
/// # Errors
///
/// Fails if the program cannot be started, with the error that `not_started` returns, if the output cannot be
/// written, and if this process has to end. The program has ended by then, too.
pub(super) async fn run(
    mut command: Command,
    streams: Streams<'_>,
    io: &mut Io<'_>,
    not_started: impl FnOnce(io::Error) -> CommandError,
) -> Result<ExitStatus, Failure> {
    let gets_terminal = matches!(streams, Streams::Terminal);
    command.kill_on_drop(true).stdin(Stdio::null());
    if !gets_terminal {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        command.process_group(0);
    } else if io.input_is_terminal {
        command.stdin(Stdio::inherit());
    }
    let interrupt = io.interrupt.clone();
    if gets_terminal {
        interrupt.leave_to_other_program();
    }
    let mut child = command.spawn().map_err(not_started)?;
    #[cfg(unix)]
    let mut group = (!gets_terminal).then(|| Group::of(&child)).flatten();
    let (printed, errors) = (child.stdout.take(), child.stderr.take());
    let err = RefCell::new(&mut *io.err);
    let to_err = |piece: &[u8]| {
        // If standard error is closed, nobody can be told.
        let _ = err.borrow_mut().write_all(piece);
        Ok(())
    };
    let mut out = match streams {
        Streams::Separate(out) => Some(out),
        Streams::Terminal | Streams::StandardError => None,
    };
    let to_out = |piece: &[u8]| out.as_mut().map_or_else(|| to_err(piece), |out| out.write_all(piece));
    let ended = async {
        let mut passed_on = pin!(async { futures::try_join!(pass_on(printed, to_out), pass_on(errors, to_err)) });
        let mut is_passed_on = false;
        let status = loop {
            tokio::select! {
                biased;
                passed = &mut passed_on, if !is_passed_on => {
                    passed?;
                    is_passed_on = true;
                }
                status = child.wait() => break status,
            }
        };
        // A program in the background may hold the streams open.
        if !is_passed_on && let Ok(passed) = timeout(REST, passed_on).await {
            passed?;
        }
        let status = status.map_err(|error| CommandError::new("cannot wait for another program").because(error))?;
        Ok::<_, Failure>(status)
    };
    let status = tokio::select! {
        status = ended => Some(status?),
        () = interrupt.requested() => None,
    };
    #[cfg(unix)]
    if let Some(group) = group.as_mut().filter(|_| status.is_some()) {
        group.has_ended = true;
    }
    let Some(status) = status else {
        // It fails only if the program has ended. There is nothing to await in here: the interruption drops this.
        let _ = child.start_kill();
        while matches!(child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(1));
        }
        return Err(interrupted().into());
    };
    // A pager goes on after Ctrl-C; a program that ends by it does so with another code. Its end may be known here
    // before the signal that this process received with it.
    let is_interrupted =
        is_ended_by_ctrl_c(status) || interrupt.was_left_to_other_program() && !matches!(status.code(), Some(0 | 1));
    match gets_terminal && is_interrupted {
        true => Err(interrupted().into()),
        false => Ok(status),
    }
}

/// A program and those that it has started, all of which end when this is dropped too early, as by a time limit.
#[cfg(unix)]
struct Group {
    leader: rustix::process::Pid,
    has_ended: bool,
}

#[cfg(unix)]
impl Group {
    fn of(leader: &Child) -> Option<Self> {
        let leader = rustix::process::Pid::from_raw(i32::try_from(leader.id()?).ok()?)?;
        Some(Group { leader, has_ended: false })
    }
}

#[cfg(unix)]
impl Drop for Group {
    fn drop(&mut self) {
        if !self.has_ended {
            // It fails only if they have ended.
            let _ = rustix::process::kill_process_group(self.leader, rustix::process::Signal::KILL);
        }
    }
}

#[cfg(unix)]
fn is_ended_by_ctrl_c(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    status.signal() == Some(tokio::signal::unix::SignalKind::interrupt().as_raw_value())
}

#[cfg(not(unix))]
fn is_ended_by_ctrl_c(_: ExitStatus) -> bool {
    false
}

/// Passes a stream on until its end. A stream that cannot be read has ended.
async fn pass_on(
    stream: Option<impl AsyncRead + Unpin>,
    mut to: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let Some(mut stream) = stream else { return Ok(()) };
    let mut piece = vec![0; PIECE_SIZE];
    while let Ok(length @ 1..) = stream.read(&mut piece).await {
        to(&piece[..length])?;
    }
    Ok(())
}
