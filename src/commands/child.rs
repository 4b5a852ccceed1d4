//! A program of the user's that runs until it ends, or until somebody ends this one.

use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use super::Failure;
use crate::error::{CommandError, Exit};
use crate::io::Io;

/// How often it is asked whether the program has printed something or ended.
const PAUSE: Duration = Duration::from_millis(5);

/// How many pieces of output may wait to be passed on.
const MOST_PIECES: usize = 16;

/// The most bytes of a piece of output.
const LONGEST_PIECE: usize = 1 << 16;

/// Runs a program and waits for it. On a terminal it has the terminal to itself, so that it can colour and page;
/// elsewhere what it prints is passed on.
///
/// # Errors
///
/// Fails where the program cannot be started, with what `not_started` makes of that, where the output cannot be
/// written, and where this process is told to end. The program has ended by then too.
pub fn run(
    mut command: Command,
    io: &mut Io<'_>,
    out: &mut dyn Write,
    not_started: impl FnOnce(io::Error) -> CommandError,
) -> Result<ExitStatus, Failure> {
    out.flush().map_err(Failure::Output)?;
    if io.out_is_terminal {
        command.stdin(if io.input_is_terminal { Stdio::inherit() } else { Stdio::null() });
    } else {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot_wait)?;
    runtime.block_on(async {
        // First, so that no signal comes too early to be noticed.
        let mut signals = Signals::new().map_err(cannot_wait)?;
        let mut child = Running(command.spawn().map_err(not_started)?);
        let (printed, errors) = (child.0.stdout.take().map(pieces), child.0.stderr.take().map(pieces));
        let mut is_interrupted = false;
        loop {
            tokio::select! {
                biased;
                told = signals.next() => match told {
                    Told::End => return Err(interrupted().into()),
                    // The program gets it too, and knows whether it means the end: a pager goes on.
                    Told::Interrupt => is_interrupted = true,
                },
                () = tokio::time::sleep(PAUSE) => {}
            }
            // In this order: what is printed before the end is there at the end.
            let status = child.0.try_wait().map_err(cannot_wait)?;
            let all_printed = pass_on(printed.as_ref(), out).map_err(Failure::Output)?;
            // Where even standard error is closed there is nobody left to tell.
            let all_errors = pass_on(errors.as_ref(), io.err).unwrap_or(true);
            match status {
                Some(status) if is_interrupted && !matches!(status.code(), Some(0 | 1)) => {
                    return Err(interrupted().into());
                }
                Some(status) if all_printed && all_errors => return Ok(status),
                _ => {}
            }
        }
    })
}

/// A program that does not outlive its handle.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only where it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads a stream to its end on a thread of its own.
fn pieces(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = sync_channel(MOST_PIECES);
    thread::spawn(move || {
        let mut piece = vec![0; LONGEST_PIECE];
        // What cannot be read has ended, and nobody may wait any more for what can.
        while let Ok(length @ 1..) = stream.read(&mut piece) {
            if sender.send(piece[..length].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Passes on what has been read, but not for ever, and tells whether that was all.
fn pass_on(pieces: Option<&Receiver<Vec<u8>>>, to: &mut dyn Write) -> io::Result<bool> {
    let Some(pieces) = pieces else { return Ok(true) };
    for _ in 0..MOST_PIECES {
        match pieces.try_recv() {
            Ok(piece) => to.write_all(&piece)?,
            Err(TryRecvError::Empty) => return Ok(false),
            Err(TryRecvError::Disconnected) => return Ok(true),
        }
    }
    Ok(false)
}

fn cannot_wait(error: io::Error) -> CommandError {
    CommandError::new("cannot wait for another program").because(error)
}

fn interrupted() -> CommandError {
    CommandError { exit: Exit::Interrupted, ..CommandError::new("interrupted") }
}

/// What this process can be told while it waits.
enum Told {
    /// Somebody pressed Ctrl-C.
    Interrupt,
    /// It must end, or its terminal is gone.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only Unix has signals that say so"))]
    End,
}

/// Hears what this process is told. From the first of these on none of it ends the process by itself.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.interrupt.recv() => Told::Interrupt,
            _ = self.terminate.recv() => Told::End,
            _ = self.hang_up.recv() => Told::End,
        }
    }
}

/// Hears what this process is told.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals)
    }

    async fn next(&mut self) -> Told {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Told::Interrupt,
            Err(_) => std::future::pending().await,
        }
    }
}
