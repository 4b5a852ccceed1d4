//! Runs another program until it ends, or until this process has to end.

use std::cell::RefCell;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use std::{io, thread};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

use super::{Failure, interrupted};
#[cfg(unix)]
use crate::connection::process_group::ProcessGroup;
use crate::error::CommandError;
use crate::io::Io;

/// The size in bytes of the largest piece of output that is passed on at once.
const PIECE_SIZE: usize = 1 << 16;

/// How long to wait for the rest of a program's output after it has ended.
const REST: Duration = Duration::from_millis(200);

/// Runs a program and waits until it ends, regardless of its background processes. Its output is forwarded to standard
/// error; Ctrl-C ends it. Fails if the program cannot be started, with the error that `not_started` returns, or if this
/// process has to end. The program has ended by then, too.
pub(super) async fn run(
    mut command: Command,
    io: &mut Io<'_>,
    not_started: impl FnOnce(io::Error) -> CommandError,
) -> Result<ExitStatus, Failure> {
    command.kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    command.process_group(0);
    let interrupt = io.interrupt.clone();
    let mut child = command.spawn().map_err(not_started)?;
    #[cfg(unix)]
    let mut group = ProcessGroup::of(&child);
    let (printed, errors) = (child.stdout.take(), child.stderr.take());
    let err = RefCell::new(&mut *io.err);
    let to_err = |piece: &[u8]| {
        // If standard error is closed, there is nowhere to report it.
        let _ = err.borrow_mut().write_all(piece);
    };
    let ended = async {
        let mut passed_on = pin!(async { futures::join!(pass_on(printed, to_err), pass_on(errors, to_err)) });
        let mut is_passed_on = false;
        let status = loop {
            tokio::select! {
                biased;
                _ = &mut passed_on, if !is_passed_on => is_passed_on = true,
                status = child.wait() => break status,
            }
        };
        // A background process may hold the streams open.
        if !is_passed_on {
            let _ = timeout(REST, passed_on).await;
        }
        status.map_err(|error| CommandError::new("cannot wait for another program").because(error))
    };
    let status = interrupt.unless_requested(ended).await.transpose()?;
    #[cfg(unix)]
    if let Some(group) = group.as_mut().filter(|_| status.is_some()) {
        group.has_ended = true;
    }
    let Some(status) = status else {
        // This fails only if the program has ended. Nothing can be awaited here: the interruption drops this.
        let _ = child.start_kill();
        while matches!(child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(1));
        }
        return Err(interrupted().into());
    };
    Ok(status)
}

/// Forwards a stream until its end. A stream that cannot be read has ended.
async fn pass_on(stream: Option<impl AsyncRead + Unpin>, to: impl Fn(&[u8])) {
    let Some(mut stream) = stream else { return };
    let mut piece = vec![0; PIECE_SIZE];
    while let Ok(length @ 1..) = stream.read(&mut piece).await {
        to(&piece[..length]);
    }
}
