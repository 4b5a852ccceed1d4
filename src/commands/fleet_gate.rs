//! The gate between the stages of a rollout: no new trouble of other DaemonSets on the nodes that were updated.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Failure;
use super::partition_run::Run;
use super::session::{Session, show_progress};
use crate::cluster::error::ClusterError;
use crate::cluster::live::Live;
use crate::cluster::{CoverageScope, Flavors, Query, Wanted};
use crate::error::CommandError;
use crate::io::Io;
use crate::model::snapshot::{Kind, Snapshot};
use crate::report::partition::GateFailure;
use crate::rollout::new_trouble::{Trouble, new_trouble};

/// How long trouble must last that does not pass by itself. What may pass has as long as the stage without progress.
const MIN_TROUBLE: Duration = Duration::from_secs(30);

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
            Ok(before) => match unread(&before) {
                Some(why) => Some(why),
                None => return Ok(Some(Fleet { before })),
            },
        };
        let message = format!("trouble of other DaemonSets will not stop the rollout: {}", why.unwrap_or_default());
        writeln!(io.err, "warning: {}", session.view.show(&message))?;
        Ok(None)
    }
}

/// Returns what of the fleet was not read; `None` if nothing is missing.
fn unread(snapshot: &Snapshot) -> Option<String> {
    let kinds = [Kind::DaemonSets, Kind::Pods, Kind::Nodes];
    let gap = snapshot.gaps.iter().find(|gap| kinds.contains(&gap.kind))?;
    Some(format!("cannot read all {}", gap.kind.resource()))
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
        let limit = self.limit();
        let mut first_seen: BTreeMap<(String, String), Instant> = BTreeMap::new();
        let (mut read_at, mut pause) = (Instant::now(), PAUSE);
        loop {
            let why = match self.unless_interrupted(io, Box::pin(read(self.live))).await? {
                Ok(after) if let Some(why) = unread(&after) => {
                    if read_at.elapsed() >= limit {
                        return Err(self.unread(CommandError::new(why)).into());
                    }
                    why
                }
                Ok(after) => {
                    read_at = Instant::now();
                    let now = new_trouble(&fleet.before, &after, &self.report.daemon_set, updated);
                    first_seen.retain(|key, _| now.contains_key(key));
                    let Some(((daemon_set, node), _)) = now.first_key_value() else { return Ok(Vec::new()) };
                    let why = format!("{daemon_set} is not available on {node}");
                    let mut has_lasted = |(key, trouble): &((String, String), Trouble)| {
                        let patience = if trouble.passing { limit } else { MIN_TROUBLE.min(limit) };
                        first_seen.entry(key.clone()).or_insert(read_at).elapsed() >= patience
                    };
                    let lasting: Vec<_> = now.into_iter().filter(|one| has_lasted(one)).collect();
                    if !lasting.is_empty() {
                        return Ok(lasting.into_iter().map(|(_, trouble)| trouble.failure).collect());
                    }
                    why
                }
                Err(error) if error.is_transient() && read_at.elapsed() < limit => error.to_string(),
                Err(error) => return Err(self.unread(error).into()),
            };
            self.progress.wait_for(Some(format!("waiting: {why}")), self.view, out)?;
            self.unless_interrupted(io, sleep(pause)).await?;
            // A look reads the whole fleet.
            pause = (2 * pause).min(MIN_TROUBLE);
        }
    }
}
