//! Runs commands within the test process, as in a pipe: for tests that need no process of their own, and with a clock
//! faster than real time for commands that wait longer than a test may take.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use kubectl_ds::commands;
use kubectl_ds::interrupt::Interrupt;
use kubectl_ds::io::Io;
use kubectl_ds::report::fix::PROGRAM;
use tokio::runtime::Builder;
use tokio::time::Instant;

use super::binary::Ended;

/// How much faster the fast clock is, unless the machine is busy.
const PACE: u32 = 10;

/// How often the fast clock is set.
const STEP: Duration = Duration::from_millis(10);

/// The time since a command has begun, in milliseconds by a fast clock. What takes a server some milliseconds takes no more than ten
/// times as long by it, so that it is for commands that wait for many seconds.
#[derive(Debug, Clone, Default)]
pub struct FastClock(Arc<AtomicU64>);

impl FastClock {
    /// What the clock shows once the command has ended.
    const ENDED: u64 = u64::MAX;

    /// Blocks a thread for some time by this clock, or until the command has ended.
    pub fn sleep(&self, time: Duration) {
        let now = || self.0.load(Ordering::SeqCst);
        let end = now().saturating_add(u64::try_from(time.as_millis()).unwrap());
        while now() < end {
            thread::sleep(STEP);
        }
    }

    /// Sets the paused clock of the runtime, which does not jump to the next timer by itself as long as something blocks.
    async fn run(&self) {
        let began = Instant::now();
        loop {
            tokio::task::spawn_blocking(|| thread::sleep(STEP)).await.unwrap();
            tokio::time::advance(STEP * PACE).await;
            self.0.store(u64::try_from(began.elapsed().as_millis()).unwrap(), Ordering::SeqCst);
        }
    }
}

/// Runs a command with this standard input at this time.
pub fn run_at(arguments: &[&str], input: &[u8], clock: fn() -> Timestamp) -> Ended {
    Builder::new_current_thread().build().unwrap().block_on(run(arguments, input, clock))
}

/// Runs a command on a fast clock; returns how long it took by that clock, too.
pub fn run_fast(arguments: &[impl AsRef<str> + Sync], clock: &FastClock) -> (Ended, Duration) {
    let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    let on_runtime = || {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let began = Instant::now();
            let ended = tokio::select! {
                ended = run(&arguments, &[], Timestamp::now) => ended,
                () = clock.run() => unreachable!("the clock goes on"),
            };
            clock.0.store(FastClock::ENDED, Ordering::SeqCst);
            (ended, began.elapsed())
        })
    };
    thread::scope(|scope| {
        // As large a stack as the binary gives a command.
        thread::Builder::new().stack_size(8 << 20).spawn_scoped(scope, on_runtime).unwrap().join().unwrap()
    })
}

async fn run(arguments: &[&str], mut input: &[u8], clock: fn() -> Timestamp) -> Ended {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut io = Io {
        input: &mut input as &mut dyn io::Read,
        err: &mut err,
        input_is_terminal: false,
        out_is_terminal: false,
        err_is_terminal: false,
        terminal_width: || None,
        terminal_size: || None,
        unicode: true,
        environment: [].into(),
        clock,
        interrupt: Interrupt::default(),
        program: PROGRAM,
        server_warnings: 0,
        tells_waits: true,
    };
    let command_line: Vec<OsString> = ["kubectl-ds"].iter().chain(arguments).map(OsString::from).collect();
    let exit = commands::run(command_line, &mut io, &mut out).await;
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ended { code: Some(exit as i32), out: text(out), err: text(err) }
}
