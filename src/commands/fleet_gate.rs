//! The gate between the stages of a rollout: no new trouble of other DaemonSets on the nodes that were updated.

use std::io::Write;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Failure;
use super::partition_run::Run;
use super::session::{Session, show_progress};
use crate::cluster::error::ClusterError;
use crate::cluster::live::Live;
use crate::cluster::{CoverageScope, Flavors, Query, Wanted};
use crate::io::Io;
use crate::model::snapshot::{Kind, Snapshot};
use crate::report::partition::GateFailure;
use crate::rollout::new_trouble::{NewTrouble, new_trouble};

/// For how long trouble must last: other DaemonSets may be rolled out meanwhile, too.
const LASTING: Duration = Duration::from_secs(30);

/// The time between two looks at the whole fleet.
const PAUSE: Duration = Duration::from_secs(5);

/// All DaemonSets before the first stage of a run.
pub(super) struct Fleet {
    before: Snapshot,
}

impl Fleet {
    /// Reads all DaemonSets. If that is forbidden, says so and returns none.
    pub(super) async fn read(session: &Session, io: &mut Io<'_>) -> Result<Option<Self>, Failure> {
        let live = session.source.live()?;
        let why = match show_progress(read(live), &session.progress, io).await {
            Err(error) if error.is_transient() => return Err(error.into()),
            Err(error) => Some(error.to_string()),
            Ok(before) => {
                let kinds = [Kind::DaemonSets, Kind::Pods, Kind::Nodes];
                let unread = before.gaps.iter().find(|gap| kinds.contains(&gap.kind));
                match unread {
                    Some(gap) => Some(format!("cannot read all {}", gap.kind.resource())),
                    None => return Ok(Some(Fleet { before })),
                }
            }
        };
        let message = format!("trouble of other DaemonSets will not stop the rollout: {}", why.unwrap_or_default());
        writeln!(io.err, "warning: {}", session.view.show(&message))?;
        Ok(None)
    }
}

async fn read(live: &Live) -> Result<Snapshot, ClusterError> {
    let scope = CoverageScope { held_pods: false, ..CoverageScope::default() };
    live.read(&Query { flavors: Flavors::Apps, wanted: Wanted::Coverage(scope), ..Query::default() }).await
}

impl Run<'_> {
    /// Returns what is worse of other DaemonSets on the updated nodes than before the first stage, if it lasts.
    pub(super) async fn new_trouble(
        &mut self,
        fleet: &Fleet,
        updated: &[String],
        io: &mut Io<'_>,
        out: &mut dyn Write,
    ) -> Result<Vec<GateFailure>, Failure> {
        let (began, mut lasting): (_, Option<NewTrouble>) = (Instant::now(), None);
        loop {
            let why = match self.unless_interrupted(io, Box::pin(read(self.live))).await? {
                Ok(after) => {
                    let now = new_trouble(&fleet.before, &after, &self.report.daemon_set, updated);
                    let trouble = lasting.get_or_insert_with(|| now.clone());
                    trouble.retain(|key, _| now.contains_key(key));
                    match trouble.first_key_value() {
                        None => return Ok(Vec::new()),
                        Some(_) if began.elapsed() >= LASTING.min(self.limit()) => {
                            return Ok(std::mem::take(trouble).into_values().collect());
                        }
                        Some(((daemon_set, node), _)) => format!("{daemon_set} is not available on {node}"),
                    }
                }
                Err(error) if error.is_transient() && began.elapsed() < self.limit() => error.to_string(),
                Err(error) => return Err(self.unread(error).into()),
            };
            self.progress.wait_for(Some(format!("waiting: {why}")), self.view, out)?;
            self.unless_interrupted(io, sleep(PAUSE)).await?;
        }
    }
}
