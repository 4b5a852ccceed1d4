//! The newest time at which anything happened to an object. The newest of a dump that does not say when it was made
//! is its "now".

use jiff::Timestamp;
use serde_json::Value;

use super::Object;
use crate::model::config_object::ConfigObject;
use crate::model::controller_revision::ControllerRevision;
use crate::model::daemon_set::DaemonSet;
use crate::model::event::Event;
use crate::model::metadata::ObjectMeta;
use crate::model::node::Node;
use crate::model::pod::{ContainerState, Pod};
use crate::model::pod_disruption_budget::PodDisruptionBudget;
use crate::model::server_side_apply::{managed_fields, time_of};
use crate::model::snapshot::{Lease, LimitRange, PriorityClass, RuntimeClass};

/// An object to which something happened.
pub(super) trait NewestTime: Object {
    /// Returns the newest time at which anything happened to it. Objects that are made once and seldom change say nothing about
    /// when a dump was made.
    fn newest_time(&self) -> Option<Timestamp> {
        None
    }
}

impl NewestTime for LimitRange {}
impl NewestTime for RuntimeClass {}
impl NewestTime for PriorityClass {}
impl NewestTime for PodDisruptionBudget {}
impl NewestTime for ConfigObject {}

impl NewestTime for DaemonSet {
    fn newest_time(&self) -> Option<Timestamp> {
        metadata_time(&self.metadata).max(managed_fields_time(&self.object))
    }
}

impl NewestTime for ControllerRevision {
    fn newest_time(&self) -> Option<Timestamp> {
        metadata_time(&self.metadata).max(managed_fields_time(&self.object))
    }
}

impl NewestTime for Node {
    fn newest_time(&self) -> Option<Timestamp> {
        let conditions = self.status.conditions.iter();
        let times = conditions
            .flat_map(|condition| [condition.last_heartbeat_time.get(), condition.last_transition_time.get()]);
        let taints = self.spec.taints.iter().map(|taint| taint.time_added.get());
        times.chain(taints).fold(metadata_time(&self.metadata), Option::max)
    }
}

impl NewestTime for Pod {
    fn newest_time(&self) -> Option<Timestamp> {
        let status = &self.status;
        let conditions = status.conditions.iter().map(|condition| condition.last_transition_time.get());
        let containers = status.container_statuses.iter().chain(&status.init_container_statuses);
        let states = containers.map(|container| state_time(&container.state).max(state_time(&container.last_state)));
        conditions.chain(states).fold(metadata_time(&self.metadata).max(status.start_time.get()), Option::max)
    }
}

impl NewestTime for Event {
    fn newest_time(&self) -> Option<Timestamp> {
        self.last_seen().max(metadata_time(&self.metadata))
    }
}

impl NewestTime for Lease {
    fn newest_time(&self) -> Option<Timestamp> {
        self.spec.renew_time.get().max(metadata_time(&self.metadata))
    }
}

/// A deletion's time lies ahead by its grace period.
fn metadata_time(metadata: &ObjectMeta) -> Option<Timestamp> {
    metadata.creation_timestamp.get().max(metadata.deleted_at())
}

fn managed_fields_time(object: &Value) -> Option<Timestamp> {
    managed_fields(object).iter().filter_map(time_of).max()
}

fn state_time(state: &ContainerState) -> Option<Timestamp> {
    let running = state.running.as_ref().and_then(|running| running.started_at.get());
    let terminated = state.terminated.as_ref();
    let finished = terminated.and_then(|terminated| terminated.finished_at.get().max(terminated.started_at.get()));
    running.max(finished)
}
