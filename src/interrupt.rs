//! The request to stop, as seen by a running command.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// Tells a command that Ctrl-C was pressed or that the process was told to stop; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<State>);

#[derive(Debug, Default)]
struct State {
    requested: CancellationToken,
    /// Whether the command may have made changes in the cluster that it has not reported.
    has_changes: AtomicBool,
    reported: AtomicBool,
    /// Whether the process was stopped and continued, and what it had drawn may have been written over.
    continued: AtomicBool,
    /// The report, if it differs from the default of `report`.
    report: OnceLock<String>,
}

impl Interrupt {
    /// Asks the command to stop.
    pub(crate) fn request(&self) {
        self.0.requested.cancel();
    }

    /// Tells whether the command has to stop.
    pub(crate) fn is_requested(&self) -> bool {
        self.0.requested.is_cancelled()
    }

    /// Records that the process goes on after it was stopped, as by Ctrl-Z.
    #[cfg(unix)]
    pub(crate) fn note_continued(&self) {
        self.0.continued.store(true, Ordering::SeqCst);
    }

    /// Tells whether the process was stopped and nothing was drawn since.
    pub(crate) fn was_continued(&self) -> bool {
        self.0.continued.load(Ordering::SeqCst)
    }

    /// Tells whether everything has to be drawn again because the process was stopped: `true` once.
    pub(crate) fn claim_redraw(&self) -> bool {
        self.0.continued.swap(false, Ordering::SeqCst)
    }

    /// Returns once the command has to stop.
    pub(crate) async fn requested(&self) {
        self.0.requested.cancelled().await;
    }

    /// Waits for something; returns `None` if the command has to stop first.
    pub(crate) async fn unless_requested<T>(&self, wait: impl Future<Output = T>) -> Option<T> {
        self.0.requested.run_until_cancelled(wait).await
    }

    /// Records that a change is about to be sent, so that the command is given time to report the outcome.
    pub(crate) fn expect_changes(&self) {
        self.0.has_changes.store(true, Ordering::SeqCst);
    }

    /// Records that the command has reported the outcome of its changes, so that it can be ended at once again.
    pub(crate) fn changes_are_reported(&self) {
        self.0.has_changes.store(false, Ordering::SeqCst);
    }

    /// Tells whether the command may have changes to report.
    pub(crate) fn has_changes(&self) -> bool {
        self.0.has_changes.load(Ordering::SeqCst)
    }

    /// Returns `true` once, to the caller that then reports the interruption.
    pub(crate) fn claim_report(&self) -> bool {
        !self.0.reported.swap(true, Ordering::SeqCst)
    }

    /// Sets the report for a blocked command.
    pub(crate) fn report_with(&self, report: String) {
        let _ = self.0.report.set(report);
    }

    /// Returns the report for a blocked command.
    pub(crate) fn report(&self) -> &str {
        self.0.report.get().map_or("error: interrupted\n", String::as_str)
    }
}
