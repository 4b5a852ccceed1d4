//! How a stage is shown while it is carried out: as the screen of `status --watch`, or a line for each thing that happens.

use std::io::{self, Write};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::Failure;
use super::watch::{Display, notices, warn_once};
use crate::cluster::live::Watch;
use crate::facts::controller::Controller;
use crate::io::Io;
use crate::model::node::ZONE;
use crate::render::partition::progress;
use crate::render::rollout_screen::{self, Moment};
use crate::render::view::View;
use crate::report::list::Status;
use crate::report::partition::PartitionReport;
use crate::report::rollout_status::Verdict;
use crate::rollout::events::NodeEvents;
use crate::rollout::status::{self as rollout_status, Question};

/// The longest time between two looks at the cluster: time alone can make a pod available.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// How a stage is shown.
pub(super) struct StageProgress {
    pub(super) display: Display,
    events: NodeEvents,
    /// What is waited for.
    waiting: Option<String>,
    /// What was said last, if it was that.
    said: Option<String>,
    warned: Vec<String>,
    drawn: Option<Instant>,
}

impl StageProgress {
    pub(super) fn new(display: Display) -> Self {
        StageProgress {
            display,
            events: NodeEvents::default(),
            waiting: None,
            said: None,
            warned: Vec::new(),
            drawn: None,
        }
    }

    /// Says that something has happened; a screen shows it anyway.
    pub(super) fn say(&mut self, text: &str, view: &View, out: &mut dyn Write) -> io::Result<()> {
        (self.waiting, self.said) = (None, None);
        self.line(text, view, out)
    }

    /// Notes what is waited for, and says it unless it was said last.
    pub(super) fn wait_for(&mut self, text: Option<String>, view: &View, out: &mut dyn Write) -> io::Result<()> {
        self.waiting.clone_from(&text);
        let Some(text) = text.filter(|text| self.said.as_ref() != Some(text)) else { return Ok(()) };
        self.line(&text, view, out)?;
        self.said = Some(text);
        Ok(())
    }

    /// Returns whether a screen is drawn.
    pub(super) fn has_screen(&self) -> bool {
        matches!(self.display, Display::Screen(_))
    }

    fn line(&self, text: &str, view: &View, out: &mut dyn Write) -> io::Result<()> {
        if !matches!(self.display, Display::Lines) {
            return Ok(());
        }
        writeln!(out, "{}", view.show(text))?;
        out.flush()
    }

    /// Warns that the cluster cannot be read, or that the controller does nothing; a screen says it anyway.
    pub(super) fn warn(&mut self, watch: &Watch<'_>, io: &mut Io<'_>) -> Result<(), Failure> {
        if let Display::Screen(_) = self.display {
            return Ok(());
        }
        let (mut notices, snapshot) = (notices(watch), watch.last_snapshot());
        let controller = snapshot.daemon_sets_of_any_flavor().next().map(Controller::of);
        let silent = controller.filter(|controller| controller.silent_since(snapshot).is_some());
        notices.extend(
            silent.map(|silent| {
                format!("{} has not renewed its lease: no pod is created until it does", silent.program())
            }),
        );
        warn_once(notices, &mut self.warned, io)
    }

    /// Draws the screen in the middle of a series of changes.
    pub(super) fn draw_if_due(
        &mut self,
        stage: &PartitionReport,
        watch: &Watch<'_>,
        io: &mut Io<'_>,
    ) -> io::Result<()> {
        match self.drawn {
            Some(drawn) if drawn.elapsed() < PAUSE => Ok(()),
            _ => self.draw(stage, watch, io),
        }
    }

    /// Draws the screen, if there is one.
    pub(super) fn draw(&mut self, stage: &PartitionReport, watch: &Watch<'_>, io: &mut Io<'_>) -> io::Result<()> {
        let Display::Screen(screen) = &mut self.display else { return Ok(()) };
        self.drawn = Some(Instant::now());
        let mut report =
            rollout_status::answer(watch.last_snapshot(), &Question { map_label: Some(ZONE), ..Question::default() });
        self.events.update(&report);
        for rollout in &mut report.daemon_sets {
            // How to leave the stage is said at its end.
            rollout.way_out.clear();
            if rollout.verdict == Verdict::Paused && !stage.daemon_set.is_advanced() {
                // It is this client that replaces the pods.
                (rollout.verdict, rollout.status) = (Verdict::Progressing, Status::Progressing);
            }
        }
        let events = report.daemon_sets.first().map(|rollout| self.events.of(rollout)).unwrap_or_default();
        let notices: Vec<String> =
            std::iter::once(progress(stage)).chain(self.waiting.clone()).chain(notices(watch)).collect();
        let moment = Moment { report: &report, events: &events, notices: &notices };
        screen.draw(io, |view, rows| rollout_screen::lines(&moment, view, rows))
    }

    /// Removes the screen, if there is one, so that something else can be written.
    pub(super) fn clear(&mut self, io: &mut Io<'_>) -> io::Result<()> {
        if let Display::Screen(screen) = &mut self.display { screen.clear(io) } else { Ok(()) }
    }

    /// Waits until it is time to look again.
    pub(super) async fn next_look(&self, watch: &mut Watch<'_>, looked: Instant) {
        match self.display {
            Display::Screen(_) => self.display.next_look(watch, looked).await,
            // Lines are written for what this client does, and that is not to be delayed.
            _ => drop(timeout(PAUSE, watch.changed()).await),
        }
    }
}
