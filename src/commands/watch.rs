//! Shared by commands that follow a cluster: how to show changes, and when to look again.

use std::io;
use std::time::Duration;

use clap::ValueEnum;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::output::Output;
use super::session::{GlobalArgs, Session, is_colored, warn};
use super::{Failure, several};
use crate::cluster::Flavors;
use crate::cluster::error::ClusterError;
use crate::cluster::live::Watch;
use crate::encode::sanitize::sanitize;
use crate::error::CommandError;
use crate::interrupt::Interrupt;
use crate::io::Io;
use crate::model::snapshot::{GapCause, Kind, Snapshot};
use crate::render::region::{Line, Region, Size};
use crate::render::view::View;

/// The longest time between two looks at the cluster: pods become available merely by the passage of time, and ages grow.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The shortest time between two looks when writing lines, and when redrawing a terminal.
const PAUSE_OF_LINES: Duration = Duration::from_secs(1);
const PAUSE_OF_REGION: Duration = Duration::from_millis(100);

/// The inverse of the largest share of time that is spent on looks, and the longest pause for that: a look may only have waited for an
/// answer.
const LOAD: u32 = 4;
const LONGEST_REST: Duration = Duration::from_secs(10);

/// How long the server may reject credentials before following ends: requests are retried three times until then.
const REJECTION_LIMIT: Duration = Duration::from_secs(5);

/// How often the size of the terminal is checked; it must be the same twice.
const RESIZE_PAUSE: Duration = Duration::from_millis(100);

/// The smallest terminal on which a region is drawn unless requested.
const LEAST_SIZE: Size = Size { columns: 20, rows: 6 };

/// How to show what happens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ProgressStyle {
    /// On a terminal as tty, elsewhere as plain
    #[default]
    Auto,
    /// A screen, redrawn in place
    Tty,
    /// A line per change
    Plain,
    /// Only the end
    None,
}

/// How changes are displayed.
pub(super) enum Display {
    Screen(Screen),
    Lines,
    /// A JSON object per change.
    Json,
    None,
}

impl ProgressStyle {
    /// Chooses the display. Fails if a requested screen cannot be drawn.
    pub(super) fn display(
        self,
        output: Option<Output>,
        session: &Session,
        io: &Io<'_>,
    ) -> Result<Display, CommandError> {
        let is_json = output == Some(Output::Json);
        let is_terminal = io.err_is_terminal && io.variable("TERM") != Some("dumb");
        let size = size_of(io.terminal_size).filter(|_| is_terminal);
        let screen = |size| {
            let colored = is_colored(session.color, io.err_is_terminal, io);
            let view = session.view_for(output);
            let (region, interrupt) = (Region::default(), io.interrupt.clone());
            Display::Screen(Screen { region, size, terminal_size: io.terminal_size, colored, view, interrupt })
        };
        match self {
            ProgressStyle::None => Ok(Display::None),
            ProgressStyle::Tty if is_json => {
                Err(CommandError::usage("--progress=tty and -o json cannot be given together"))
            }
            _ if is_json => Ok(Display::Json),
            ProgressStyle::Tty => {
                size.map(screen).ok_or_else(|| CommandError::usage("--progress=tty needs a terminal as standard error"))
            }
            ProgressStyle::Auto => Ok(match size {
                Some(size)
                    if io.out_is_terminal && size.columns >= LEAST_SIZE.columns && size.rows >= LEAST_SIZE.rows =>
                {
                    screen(size)
                }
                _ => Display::Lines,
            }),
            ProgressStyle::Plain => Ok(Display::Lines),
        }
    }
}

fn size_of(terminal_size: fn() -> Option<(usize, usize)>) -> Option<Size> {
    terminal_size().map(|(columns, rows)| Size { columns, rows })
}

/// A screen at the end of the terminal's text.
pub(super) struct Screen {
    region: Region,
    /// The last known size.
    size: Size,
    terminal_size: fn() -> Option<(usize, usize)>,
    colored: bool,
    view: View,
    /// What tells that the process was stopped.
    interrupt: Interrupt,
}

impl Screen {
    /// Draws lines, which are laid out for a view and a number of rows.
    pub(super) fn draw(&mut self, io: &mut Io<'_>, lines: impl FnOnce(&View, usize) -> Vec<Line>) -> io::Result<()> {
        let size = size_of(self.terminal_size).unwrap_or(self.size);
        if self.interrupt.claim_redraw() {
            // The shell has written below the screen.
            self.region = Region::default();
        }
        if size != self.size {
            // The terminal may still be resizing: the next look draws.
            self.size = size;
            return Ok(());
        }
        // The region does not use the last column and the last row.
        let view = View { width: size.columns.saturating_sub(1), colored: self.colored, ..self.view };
        let view = View { limit: Some(view.width), wraps: true, ..view };
        let mut lines = lines(&view, size.rows.saturating_sub(1));
        if !self.colored {
            lines.iter_mut().for_each(|line| line.text = anstream::adapter::strip_str(&line.text).to_string());
        }
        self.region.draw(&lines, size, io.err)
    }

    /// Removes the screen, so that a report can replace it.
    pub(super) fn clear(&mut self, io: &mut Io<'_>) -> io::Result<()> {
        self.region.clear(size_of(self.terminal_size).unwrap_or(self.size), io.err)
    }

    /// Waits until the size of the terminal differs from the drawn one, or the process was stopped.
    async fn resized(&self) {
        loop {
            sleep(RESIZE_PAUSE).await;
            let size = size_of(self.terminal_size).unwrap_or(self.size);
            if size != self.size || !self.region.has_size(size) || self.interrupt.was_continued() {
                return;
            }
        }
    }
}

impl Display {
    /// Prints the warnings of the server, above a screen.
    pub(super) fn print_warnings(&mut self, session: &Session, io: &mut Io<'_>) -> Result<(), Failure> {
        if let (Display::Screen(screen), true) = (&mut *self, session.has_warnings()) {
            screen.clear(io)?;
        }
        session.print_warnings(io)
    }

    /// Waits until it is time to look again: something has changed, time has passed, or the terminal was resized.
    pub(super) async fn next_look(&self, watch: &mut Watch<'_>, looked: Instant) {
        let cost = looked.elapsed();
        let resized = async {
            if let Display::Screen(screen) = self { screen.resized().await } else { std::future::pending().await }
        };
        let pause = match self {
            Display::Screen(_) => PAUSE_OF_REGION,
            Display::Lines | Display::Json | Display::None => PAUSE_OF_LINES,
        };
        tokio::select! {
            _ = timeout(LONGEST_PAUSE, watch.changed()) => {
                sleep_until(looked + pause.max(cost + (cost * (LOAD - 1)).min(LONGEST_REST))).await;
            }
            () = resized => {}
        }
    }
}

/// Since when the server has rejected the credentials.
#[derive(Default)]
pub(super) struct RejectedCredentials(Option<Instant>);

impl RejectedCredentials {
    /// Checks that the server does not keep rejecting the credentials: each request renews them once, so only a new
    /// login would help. Fails with the server's error.
    pub(super) fn check(&mut self, watch: &Watch<'_>) -> Result<(), ClusterError> {
        match watch.failure() {
            Some(error) if error.is_unauthorized() => {
                let since = *self.0.get_or_insert_with(Instant::now);
                if since.elapsed() < REJECTION_LIMIT { Ok(()) } else { Err(error.clone()) }
            }
            _ => {
                self.0 = None;
                Ok(())
            }
        }
    }
}

/// Writes warnings that were not written yet.
pub(super) fn warn_once(notices: Vec<String>, warned: &mut Vec<String>, io: &mut Io<'_>) -> Result<(), Failure> {
    let new: Vec<String> = notices.into_iter().filter(|notice| !warned.contains(notice)).collect();
    warned.extend_from_slice(&new);
    warn(new, io)
}

/// Looks at the cluster, and prints the warnings of the server. Fails if it keeps rejecting the credentials, or DaemonSets cannot be
/// listed.
pub(super) async fn look<'a>(
    watch: &'a mut Watch<'_>,
    display: &mut Display,
    rejection: &mut RejectedCredentials,
    session: &Session,
    io: &mut Io<'_>,
) -> Result<&'a Snapshot, Failure> {
    watch.snapshot().await;
    rejection.check(watch)?;
    display.print_warnings(session, io)?;
    let is_named = !watch.query().names.is_empty();
    let hint = is_named.then_some("without --watch, permission to get the DaemonSet is enough");
    check_readable(watch).map_err(|error| error.hints(hint))?;
    Ok(watch.last_snapshot())
}

/// Checks that DaemonSets can be listed: one that is read by name may exist without that.
pub(super) fn check_readable(watch: &Watch<'_>) -> Result<(), CommandError> {
    let kind = if watch.query().flavors == Flavors::Advanced { Kind::AdvancedDaemonSets } else { Kind::DaemonSets };
    match watch.last_snapshot().gaps.iter().find(|gap| gap.kind == kind).map(|gap| &gap.cause) {
        Some(GapCause::Forbidden(permission) | GapCause::ForbiddenElsewhere(permission)) => {
            Err(CommandError::new("DaemonSets cannot be followed")
                .hint(format!("this needs the permission to {permission}")))
        }
        _ => Ok(()),
    }
}

/// Checks that there is one source, which can be followed, and that the output can be printed as it changes.
pub(super) fn check_watch(target: &GlobalArgs, output: Option<Output>) -> Result<(), Failure> {
    if target.are_several() {
        return Err(several::refuse("--watch"));
    }
    if target.is_dump() {
        let message = "--watch and --from cannot be given together: a dump does not change";
        return Err(CommandError::usage(message).into());
    }
    match output {
        Some(Output::Wide | Output::Json) | None => Ok(()),
        Some(_) => Err(CommandError::usage("--watch supports only -o wide and -o json").into()),
    }
}

/// Waits for a deadline; forever if there is none.
pub(super) async fn until(deadline: Option<Instant>) {
    if let Some(deadline) = deadline { sleep_until(deadline).await } else { std::future::pending().await }
}

/// Returns why the snapshot may be stale.
pub(super) fn notices(watch: &Watch<'_>) -> Vec<String> {
    let stale = watch.staleness().map(|error| format!("{error}; what follows may be out of date"));
    let other =
        || watch.failures().next().map(|(kind, error)| format!("{} could not be read: {error}", kind.resource()));
    let failure = stale.or_else(other).map(|failure| sanitize(&failure));
    let unwatched = watch.unwatched().into_iter().map(|(permission, error)| match error.is_forbidden() {
        true => format!("{permission} is forbidden: listing every 5s"),
        false => sanitize(&format!("{permission} fails: listing every 5s; {error}")),
    });
    failure.into_iter().chain(unwatched).collect()
}
