//! The newest time in a snapshot: the "now" of a dump that does not say when it was made.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::model::metadata::ObjectMeta;
use crate::model::pod::ContainerState;
use crate::model::snapshot::Snapshot;

/// Returns the newest time at which anything in the snapshot happened; nothing where there is none.
pub fn newest_time(snapshot: &Snapshot) -> Option<Timestamp> {
    let whole_objects = snapshot
        .daemon_sets
        .iter()
        .map(|daemon_set| (&daemon_set.metadata, &daemon_set.object))
        .chain(snapshot.controller_revisions.iter().map(|revision| (&revision.metadata, &revision.object)))
        .map(|(metadata, object)| metadata_time(metadata).max(managed_fields_time(object)));
    let nodes = snapshot.nodes.iter().map(|node| {
        let conditions = node.status.conditions.iter();
        let times = conditions
            .flat_map(|condition| [condition.last_heartbeat_time.get(), condition.last_transition_time.get()]);
        let taints = node.spec.taints.iter().map(|taint| taint.time_added.get());
        times.chain(taints).fold(metadata_time(&node.metadata), Option::max)
    });
    let pods = snapshot.pods.iter().map(|pod| {
        let status = &pod.status;
        let conditions = status.conditions.iter().map(|condition| condition.last_transition_time.get());
        let containers = status.container_statuses.iter().chain(&status.init_container_statuses);
        let states = containers.map(|container| state_time(&container.state).max(state_time(&container.last_state)));
        conditions.chain(states).fold(metadata_time(&pod.metadata).max(status.start_time.get()), Option::max)
    });
    let events = snapshot.events.iter().map(|event| event.last_seen().max(metadata_time(&event.metadata)));
    let leases = snapshot.leases.iter().map(|lease| lease.spec.renew_time.get().max(metadata_time(&lease.metadata)));
    whole_objects.chain(nodes).chain(pods).chain(events).chain(leases).flatten().max()
}

/// A deletion's time lies ahead by its grace period.
fn metadata_time(metadata: &ObjectMeta) -> Option<Timestamp> {
    let grace = SignedDuration::from_secs(metadata.deletion_grace_period_seconds.unwrap_or(0));
    let deletion = metadata.deletion_timestamp.get().and_then(|time| time.checked_sub(grace).ok());
    metadata.creation_timestamp.get().max(deletion)
}

fn managed_fields_time(object: &Value) -> Option<Timestamp> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    entries.into_iter().flatten().filter_map(|entry| entry.get("time")?.as_str()?.parse().ok()).max()
}

fn state_time(state: &ContainerState) -> Option<Timestamp> {
    let running = state.running.as_ref().and_then(|running| running.started_at.get());
    let terminated = state.terminated.as_ref();
    let finished = terminated.and_then(|terminated| terminated.finished_at.get().max(terminated.started_at.get()));
    running.max(finished)
}
