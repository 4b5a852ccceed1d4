//! Runs a command next to the process's only signal handler.
//!
//! The command has its own thread, since writing to a pipe, rendering and reading a file block it. That thread also
//! drives the command's connections and timers: on another one, each part of a response would cost context switches.
//! The main thread only waits for signals, so that a signal ends the process whatever the command is doing.

use std::io::{self, Write};
use std::panic::resume_unwind;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;

use crate::error::Exit;
use crate::interrupt::Interrupt;

/// How long a command may take after a signal to report what it did and to clean up.
const GRACE: Duration = Duration::from_millis(120);

/// How much longer a command may take that has sent a change. It needs this only on a busy machine, or if its output is
/// a pipe that nobody reads.
const CHANGE_GRACE: Duration = Duration::from_secs(5);

/// How long the report of an interruption may take, on a busy machine: standard error may be a pipe that nobody reads.
const REPORT_GRACE: Duration = Duration::from_millis(250);

/// The stack of the command's thread in bytes, as large as that of a main thread.
const STACK_SIZE: usize = 8 << 20;

/// Runs a command until it ends, or until a signal ends it.
///
/// # Errors
///
/// Fails if the system cannot create a thread or a signal handler.
pub fn run(command: impl AsyncFnOnce(Interrupt) -> Exit + Send + 'static) -> io::Result<Exit> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let interrupt = Interrupt::default();
    // Before the command starts, so that no signal is missed.
    let mut signals = {
        let _context = runtime.enter();
        Signals::new()?
    };
    let (sender, mut ended) = oneshot::channel();
    let (own, given) = (Builder::new_current_thread().enable_all().build()?, interrupt.clone());
    let thread = thread::Builder::new().name("command".to_owned()).stack_size(STACK_SIZE).spawn(move || {
        let exit = own.block_on(command(given));
        // Name lookups block a thread of the runtime; do not wait for them.
        own.shutdown_background();
        // If nobody receives it, the process is ending.
        let _ = sender.send(exit);
    })?;
    let exit = runtime.block_on(async {
        tokio::select! {
            exit = &mut ended => Some(exit),
            () = signals.next(&interrupt) => end(&mut ended, &interrupt).await,
        }
    });
    match exit {
        Some(Ok(exit)) => Ok(exit),
        Some(Err(_)) => match thread.join() {
            Err(panic) => resume_unwind(panic),
            Ok(()) => Ok(Exit::Error),
        },
        None => {
            report_interruption(&interrupt);
            Ok(Exit::Interrupted)
        }
    }
}

/// Waits for a command that has to stop; returns `None` if it is blocked.
async fn end<T>(ended: &mut oneshot::Receiver<T>, interrupt: &Interrupt) -> Option<Result<T, RecvError>> {
    match tokio::time::timeout(GRACE, &mut *ended).await {
        Err(_) if interrupt.has_changes() => tokio::time::timeout(CHANGE_GRACE, ended).await.ok(),
        exit => exit.ok(),
    }
}

/// Reports the interruption of a blocked command.
fn report_interruption(interrupt: &Interrupt) {
    let (sender, reported) = mpsc::channel();
    let interrupt = interrupt.clone();
    thread::spawn(move || {
        if interrupt.claim_report() {
            // If standard error is closed, there is nowhere to report it.
            let _ = io::stderr().write_all(interrupt.report().as_bytes());
            let _ = sender.send(());
        } else {
            // The command is writing its own report.
            thread::sleep(REPORT_GRACE);
        }
    });
    let _ = reported.recv_timeout(REPORT_GRACE);
}

/// Listens for signals, which then no longer end the process by themselves.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    continued: tokio::signal::unix::Signal,
    /// `None` if the process was started to outlive its terminal, as by `nohup`.
    hang_up: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            continued: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
            hang_up: if hang_up_is_ignored() { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    /// Waits for a signal that ends the command, and passes it on.
    async fn next(&mut self, interrupt: &Interrupt) {
        loop {
            let hang_up = async {
                if let Some(hang_up) = &mut self.hang_up { hang_up.recv().await } else { std::future::pending().await }
            };
            tokio::select! {
                _ = self.interrupt.recv() => break,
                _ = self.terminate.recv() => break,
                _ = hang_up => break,
                _ = self.continued.recv() => interrupt.note_continued(),
            }
        }
        interrupt.request();
    }
}

/// Tells whether SIGHUP is ignored, as under `nohup`.
#[cfg(unix)]
fn hang_up_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // SIGHUP is signal 1, the lowest bit.
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.map_or_else(|| child_survives_hang_up(&[]), |mask| mask & 1 == 1)
}

/// Tells whether a child process ignores SIGHUP, which it does if this process does: without `/proc`, for example on
/// macOS, there is no other way in safe Rust.
#[cfg(unix)]
fn child_survives_hang_up(through: &[&str]) -> bool {
    let words: Vec<&str> = through.iter().copied().chain(["/bin/sh", "-c", "kill -HUP $$"]).collect();
    let [program, arguments @ ..] = words.as_slice() else { return false };
    let null = std::process::Stdio::null;
    let child =
        std::process::Command::new(program).args(arguments).stdin(null()).stdout(null()).stderr(null()).status();
    child.is_ok_and(|status| status.success())
}

/// Listens for Ctrl-C.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals)
    }

    async fn next(&mut self, interrupt: &Interrupt) {
        match tokio::signal::ctrl_c().await {
            Ok(()) => interrupt.request(),
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::{child_survives_hang_up, hang_up_is_ignored};

    #[test]
    fn a_child_shows_whether_sighup_is_ignored() {
        // These tests may have been started by `nohup`.
        assert_eq!(child_survives_hang_up(&[]), hang_up_is_ignored());
        let ignoring = ["/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh"];
        assert!(child_survives_hang_up(&ignoring));
    }
}
