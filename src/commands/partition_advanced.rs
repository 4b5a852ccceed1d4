//! Sets the partition of an Advanced DaemonSet, whose controller replaces the pods.

use std::io::Write;

use tokio::time::Instant;

use super::Failure;
use super::partition_run::{Run, Staleness};
use crate::error::Exit;
use crate::io::Io;
use crate::model::daemon_set::{DaemonSet, UpdateStrategy};
use crate::report::partition::PartitionStage;
use crate::rollout::partition::instruction::{Loss, late};
use crate::rollout::partition::unseen::is_older;

impl<'a> Run<'a> {
    /// Returns whether nobody has changed the partition or paused the rollout since.
    fn is_in_force(&self, live: &DaemonSet) -> bool {
        match &live.spec.update_strategy {
            UpdateStrategy::RollingUpdate(rolling) => {
                let was_paused = matches!(&self.before.spec.update_strategy,
                    UpdateStrategy::RollingUpdate(before) if before.paused);
                rolling.partition == Some(self.stage.keep) && (was_paused || !rolling.paused)
            }
            UpdateStrategy::OnDelete | UpdateStrategy::Unknown(_) => {
                live.spec.update_strategy == self.before.spec.update_strategy
            }
        }
    }

    /// Sets the partition of an Advanced DaemonSet, and waits until its controller has replaced the pods.
    pub(super) async fn follow_advanced(&mut self, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        self.write_plan(io).await?;
        self.report.outcome.stage = PartitionStage::Begun;
        self.stage.last_progress = self.clock.now();
        let mut updated = None;
        let before = &self.before.status;
        let unavailable_before = before.desired_number_scheduled - before.number_available;
        let mut watch = self.watch(&mut None, io, out).await?;
        let mut doubt = Staleness::default();
        loop {
            let looked = Instant::now();
            self.check(&mut watch, &mut doubt, io).await?;
            let snapshot = self.unless_interrupted(io, watch.snapshot()).await?;
            match snapshot.advanced_daemon_sets.first() {
                None => return Err(self.lost(Loss::Deleted)),
                Some(live) if live.metadata.uid != self.stage.uid => return Err(self.lost(Loss::Recreated)),
                // A list may be from before the change.
                Some(live) if is_older(live, self.written.as_ref()) => {}
                Some(live) if !self.is_in_force(live) => return Err(self.lost(Loss::TakenOver)),
                Some(live) if !live.template().same_meaning(&self.stage.template) => {
                    return Err(self.lost(Loss::TemplateChanged));
                }
                // Its status is that of an earlier generation, or may be out of date.
                Some(live) if !live.is_observed() || doubt.since.is_some() => {}
                Some(live) => {
                    let status = &live.status;
                    let desired = status.desired_number_scheduled;
                    let wanted = desired - self.stage.keep.scaled_down(desired).min(desired);
                    let outcome = &mut self.report.outcome;
                    (outcome.updated, outcome.old) =
                        (status.updated_number_scheduled, desired - status.updated_number_scheduled);
                    if updated.replace((outcome.updated, status.number_available)) != updated {
                        self.stage.last_progress = self.clock.now();
                        let text = format!("{} of {wanted} nodes updated", self.report.outcome.updated);
                        self.progress.say(&text, self.view, out)?;
                    }
                    // Nodes that were unavailable before may stay so.
                    let is_available = desired - status.number_available <= unavailable_before;
                    if status.updated_number_scheduled >= wanted && is_available {
                        self.report.outcome.stage = match wanted == desired {
                            true => PartitionStage::Finished,
                            false => PartitionStage::Complete,
                        };
                        return Ok(Exit::Success);
                    }
                }
            }
            if self.is_late_again(&mut watch, &mut doubt, io).await? {
                self.report.outcome.stage = PartitionStage::Stopped;
                self.report.outcome.failures = vec![late("the controller has not updated the nodes", &self.stage)];
                return Ok(Exit::No);
            }
            self.wait(None, &mut watch, looked, io, out).await?;
        }
    }
}
