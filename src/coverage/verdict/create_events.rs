//! What events tell about creating a DaemonSet's pods: when the last one was created, and which were refused.

use jiff::Timestamp;

use super::create_failure;
use super::finding::Finding;
use super::sentence::Sentence;
use crate::coverage::index::Index;
use crate::model::controller_revision::ControllerRevision;
use crate::model::daemon_set::DaemonSet;
use crate::model::event::Event;
use crate::report::age::seconds_between;
use crate::report::reason::Reason;

/// How many seconds a success must be newer than a refusal to cast doubt on it: the pods of one batch
/// are created at once, and their events come in no order.
const SAME_BATCH: i64 = 5;

/// How many different refusals are reported.
const MAX_REFUSALS: usize = 3;

/// What events tell about creating a DaemonSet's pods.
pub struct Creations {
    /// Why the API server refused pods, newest refusal first.
    pub refusals: Vec<Finding>,
    /// When a pod was last created.
    pub created: Option<Timestamp>,
    /// When the controller last deleted a pod.
    pub deleted: Option<Timestamp>,
}

impl Creations {
    /// Reads the events about a DaemonSet.
    pub fn new(index: &Index, daemon_set: &DaemonSet) -> Self {
        let events = index.events_about("DaemonSet", &daemon_set.metadata);
        let last =
            |reason: &str| events.iter().find(|event| event.reason == reason).and_then(|event| event.last_seen());
        let (created, deleted) = (last("SuccessfulCreate"), last("SuccessfulDelete"));
        Creations { refusals: refusals(index, daemon_set, &events, created), created, deleted }
    }
}

/// Returns whether the API server refuses a DaemonSet's pods: it refused one after the last one was created and after the
/// revision was rolled out.
///
/// On many nodes client-go's spam filter drops events about created pods, so the pods count, too.
pub(crate) fn creation_is_refused(index: &Index, daemon_set: &DaemonSet) -> bool {
    let events = index.events_about("DaemonSet", &daemon_set.metadata);
    let last = |reason: &str| events.iter().find(|event| event.reason == reason).and_then(|event| event.last_seen());
    let began = index.current_revision(daemon_set).and_then(ControllerRevision::rollout_began_at);
    let pods = index.pods_of(daemon_set);
    let newest_pod = pods.iter().filter_map(|pod| pod.metadata.creation_timestamp.get()).max();
    let created = last("SuccessfulCreate").max(newest_pod);
    last("FailedCreate").is_some_and(|refused| Some(refused) > created && Some(refused) >= began)
}

/// Returns why the API server refuses a DaemonSet's pods at present.
pub(crate) fn creation_refusal(index: &Index, daemon_set: &DaemonSet) -> Option<Reason> {
    let refusal = || Some(Creations::new(index, daemon_set).refusals.first()?.reason());
    creation_is_refused(index, daemon_set).then(refusal).flatten()
}

/// Finds why the API server refused pods, newest refusal first.
fn refusals(index: &Index, daemon_set: &DaemonSet, events: &[&Event], created: Option<Timestamp>) -> Vec<Finding> {
    let changed = index.current_revision(daemon_set).and_then(|revision| revision.metadata.creation_timestamp.get());
    let mut findings: Vec<Finding> = Vec::new();
    for event in events.iter().filter(|event| event.reason == "FailedCreate") {
        let mut finding = create_failure::classify(index.snapshot, daemon_set, &event.message);
        if findings.iter().any(|known| known.code == finding.code) {
            continue;
        }
        let at = event.last_seen();
        let since = |later: Option<Timestamp>| at.zip(later).map_or(0, |(at, later)| seconds_between(at, later));
        if since(created) > SAME_BATCH || since(changed) > 0 {
            finding.message =
                Sentence::from("likely ").then(finding.message).words(" (a pod was created or the spec changed since)");
        }
        finding.message = finding.message.seen(event, index.now());
        findings.push(finding);
        if findings.len() == MAX_REFUSALS {
            break;
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::creation_is_refused;
    use crate::coverage::index::Index;
    use crate::coverage::test_support::{at, world};

    #[test]
    fn a_pod_that_was_created_since_shows_that_creation_works() {
        let refused = |created: &str| {
            let snapshot = world()
                .node("n", json!({}))
                .pod("agent-n", "n", json!({"metadata": {"creationTimestamp": at(created)}}))
                .event("DaemonSet", "agent", "FailedCreate", "Error creating: timeout", "11:40:00")
                .finish();
            creation_is_refused(&Index::new(&snapshot), &snapshot.daemon_sets[0])
        };
        assert_eq!((refused("11:30:00"), refused("11:50:00")), (true, false));
    }
}
