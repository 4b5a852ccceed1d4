//! The gate between the stages of a rollout: no new trouble of other DaemonSets on the nodes that were updated.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::Failure;
use super::api_server::REREAD;
use super::partition_run::Run;
use super::session::{SECOND_LOOK, Session, read_twice_if_short, read_what_it_needs, show_progress, warn};
use crate::cluster::error::ClusterError;
use crate::cluster::live::Live;
use crate::cluster::{CoverageScope, Flavors, Query, Wanted};
use crate::error::CommandError;
use crate::facts::short_lists::unlisted_controllers;
use crate::io::Io;
use crate::model::snapshot::{Gap, GapCause, Kind, Snapshot};
use crate::report::partition::GateFailure;
use crate::rollout::new_trouble::{NewTrouble, Trouble, new_trouble};

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
        warn(vec![message], io)?;
        Ok(None)
    }
}

/// Returns what of the fleet was not read; `None` if nothing is missing.
fn unread(snapshot: &Snapshot) -> Option<String> {
    let kinds = [Kind::DaemonSets, Kind::Pods, Kind::Nodes];
    let gap = snapshot.gaps.iter().find(|gap| kinds.contains(&gap.kind))?;
    Some(format!("cannot read all {}", gap.kind.resource()))
}

/// How long trouble has lasted.
struct Patience {
    /// When each DaemonSet was first seen to have trouble on a node, and has had it since.
    first_seen: BTreeMap<(String, String), Instant>,
    /// How long what may pass by itself may last.
    limit: Duration,
}

impl Patience {
    /// Returns which of the trouble that there is at a time has lasted too long.
    fn lasting(&mut self, now: NewTrouble, at: Instant) -> Vec<GateFailure> {
        self.first_seen.retain(|key, _| now.contains_key(key));
        let mut has_lasted = |key, passing: bool| {
            let most = if passing { self.limit } else { MIN_TROUBLE.min(self.limit) };
            at.duration_since(*self.first_seen.entry(key).or_insert(at)) >= most
        };
        now.into_iter()
            .filter_map(|(key, Trouble { failure, passing })| has_lasted(key, passing).then_some(failure))
            .collect()
    }
}

/// Reads all DaemonSets, and again if the list lacks one that exists; that it still does is a gap.
async fn read(live: &Live) -> Result<Snapshot, ClusterError> {
    let snapshot = read_once(live).await?;
    if unlisted(live, &snapshot).await.is_none() {
        return Ok(snapshot);
    }
    sleep(SECOND_LOOK).await;
    let mut snapshot = read_once(live).await?;
    if let Some(lacks) = unlisted(live, &snapshot).await {
        snapshot.gaps.push(Gap { kind: Kind::DaemonSets, namespace: None, cause: GapCause::Failed(lacks) });
    }
    Ok(snapshot)
}

/// Returns a DaemonSet that the list lacks although pods tell of it, unless it is gone by its name, too.
async fn unlisted(live: &Live, snapshot: &Snapshot) -> Option<String> {
    for (namespace, owner) in unlisted_controllers(snapshot) {
        match timeout(REREAD, live.read_controller(namespace, owner)).await {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(found))) if found.metadata.uid != owner.uid || found.metadata.is_terminating() => {}
            _ => return Some(format!("the list lacks {namespace}/{}", owner.name)),
        }
    }
    None
}

async fn read_once(live: &Live) -> Result<Snapshot, ClusterError> {
    let scope = CoverageScope { without_held_pods: true, without_blame: true, ..CoverageScope::default() };
    let query = Query { flavors: Flavors::Apps, wanted: Wanted::Coverage(scope), ..Query::default() };
    let mut snapshot = read_twice_if_short(live, &query).await?;
    read_what_it_needs(live, &query, &mut snapshot).await;
    Ok(snapshot)
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
        let mut patience = Patience { first_seen: BTreeMap::new(), limit };
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
                    let Some(((daemon_set, node), _)) = now.first_key_value() else { return Ok(Vec::new()) };
                    let why = format!("{daemon_set} is not available on {node}");
                    let lasting = patience.lasting(now, read_at);
                    if !lasting.is_empty() {
                        return Ok(lasting);
                    }
                    why
                }
                Err(error) if error.is_transient() && read_at.elapsed() < limit => error.to_string(),
                Err(error) => return Err(self.unread(error).into()),
            };
            self.progress.wait_for(Some(format!("waiting: {why}")), self.view, out)?;
            self.pause(io, pause).await?;
            // A look reads the whole fleet.
            pause = (2 * pause).min(MIN_TROUBLE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, Duration, GateFailure, Instant, MIN_TROUBLE, NewTrouble, Patience, Trouble};
    use crate::report::partition::Gate;

    fn trouble(all: &[(&str, bool)]) -> NewTrouble {
        let failure = |node: &str| GateFailure {
            gate: Gate::OtherDaemonSets,
            node: Some(node.to_owned()),
            pod: None,
            reason: None,
            message: String::new(),
        };
        let of = |(node, passing): &(&str, bool)| {
            (("team/cni".to_owned(), (*node).to_owned()), Trouble { failure: failure(node), passing: *passing })
        };
        all.iter().map(of).collect()
    }

    /// A pod that is restarted, or a new one that starts, must not stop a rollout.
    #[test]
    fn only_trouble_that_lasts_stops_a_stage() {
        let (stays, starts) = (("n1", false), ("n2", true));
        let began = Instant::now();
        let looks = |limit: u64, looks: &[(u64, &[(&str, bool)])]| {
            let mut patience = Patience { first_seen: BTreeMap::new(), limit: Duration::from_secs(limit) };
            let mut look = |(second, now): &(u64, &[(&str, bool)])| {
                let stopped = patience.lasting(trouble(now), began + Duration::from_secs(*second));
                stopped.into_iter().filter_map(|failure| failure.node).collect::<Vec<_>>().join(" ")
            };
            looks.iter().map(&mut look).collect::<Vec<_>>()
        };
        assert_eq!(MIN_TROUBLE, Duration::from_secs(30));
        assert_eq!(looks(60, &[(0, &[stays]), (29, &[stays]), (30, &[stays])]), ["", "", "n1"]);
        assert_eq!(looks(60, &[(0, &[starts]), (59, &[starts]), (60, &[starts])]), ["", "", "n2"]);
        // What has passed, and has begun again, is other trouble.
        assert_eq!(looks(60, &[(0, &[stays]), (20, &[]), (25, &[stays]), (54, &[stays])]), ["", "", "", ""]);
        // Each has its own time.
        assert_eq!(looks(60, &[(0, &[starts]), (25, &[stays, starts]), (55, &[stays, starts])]), ["", "", "n1"]);
        // Nothing has longer than the stage has without progress.
        assert_eq!(looks(4, &[(0, &[stays, starts]), (4, &[stays, starts])]), ["", "n1 n2"]);
    }
}
