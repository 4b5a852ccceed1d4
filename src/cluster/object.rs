//! The objects of a snapshot: in which formats they are read, what identifies them, and what they tell about the time of a dump.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::newest_time::Times;
use crate::model::config_object::ConfigObject;
use crate::model::controller_revision::ControllerRevision;
use crate::model::daemon_set::{ADVANCED_GROUP, DaemonSet};
use crate::model::device_claim::{ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use crate::model::event::Event;
use crate::model::held_pod::HeldPod;
use crate::model::metadata::ObjectMeta;
use crate::model::node::Node;
use crate::model::pod::{ContainerState, Pod};
use crate::model::pod_disruption_budget::PodDisruptionBudget;
use crate::model::resource_quota::ResourceQuota;
use crate::model::server_side_apply::{managed_fields, time_of};
use crate::model::snapshot::{DeviceClass, Lease, LimitRange, Namespace, PriorityClass, RuntimeClass};
use crate::model::storage::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment,
};
use crate::model::written::{WrittenNode, WrittenObject};

/// JSON as the only accepted format.
pub(super) const JSON: &str = "application/json";
/// Protobuf as the preferred format: old servers and proxies send JSON.
const PROTOBUF_OR_JSON: &str = "application/vnd.kubernetes.protobuf, application/json";

/// Decodes an object in protobuf.
type Decode<T> = fn(&[u8]) -> Result<T, String>;

/// An object of a kind in a snapshot.
pub(super) trait Object: Clone + PartialEq + DeserializeOwned {
    /// Decodes the object in protobuf, if it is requested in that format.
    const DECODE: Option<Decode<Self>> = None;

    /// Returns the media types to request.
    fn accept() -> &'static str {
        if Self::DECODE.is_some() { PROTOBUF_OR_JSON } else { JSON }
    }

    /// Decodes the object in protobuf.
    fn from_protobuf(bytes: &[u8]) -> Result<Self, String> {
        let decode = Self::DECODE.ok_or("it came in protobuf, and JSON was requested")?;
        decode(bytes)
    }

    fn metadata(&self) -> &ObjectMeta;

    /// Returns its unique key within its kind.
    fn key(&self) -> (&str, &str) {
        (&self.metadata().namespace, &self.metadata().name)
    }

    /// Returns the whole object, if it is kept.
    fn whole(&self) -> Option<&Value> {
        None
    }

    /// Sets the type of an object that is kept whole: items of a list omit it.
    fn set_type(&mut self, _api_version: &str, _kind: &str) {}

    /// Returns when something last happened to it. Objects that seldom change after creation do not tell the time of a
    /// dump.
    fn newest_times(&self) -> Times {
        Times::default()
    }
}

macro_rules! seldom_changed {
    ($($name:ident $(.$of:ident)?)+) => { $(
        impl Object for $name {
            fn metadata(&self) -> &ObjectMeta {
                &self.$($of.)?metadata
            }
        }
    )+ };
}

seldom_changed!(Namespace LimitRange RuntimeClass PriorityClass DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice
    PersistentVolumeClaim PersistentVolume StorageClass CsiNode CsiDriver CsiStorageCapacity VolumeAttachment PodDisruptionBudget
    ConfigObject ResourceQuota WrittenObject HeldPod.pod);

macro_rules! kept_whole {
    ($($name:ident)+) => { $(
        impl Object for $name {
            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn whole(&self) -> Option<&Value> {
                Some(&self.object)
            }

            fn set_type(&mut self, api_version: &str, kind: &str) {
                let Some(fields) = self.object.as_object_mut() else { return };
                // OpenKruise serves two versions, and objects are written back in the version in which they were read.
                let is_advanced = |version: &Value| version.as_str().is_some_and(|it| it.starts_with(ADVANCED_GROUP));
                if !fields.get("apiVersion").is_some_and(is_advanced) {
                    fields.insert("apiVersion".to_owned(), api_version.into());
                }
                fields.insert("kind".to_owned(), kind.into());
            }

            fn newest_times(&self) -> Times {
                let entries = || managed_fields(&self.object).iter();
                let of_status = entries().filter(|entry| entry["subresource"] == "status");
                let times = Times::new(&self.metadata, entries().filter_map(time_of).max());
                Times { believed: times.believed.max(of_status.filter_map(time_of).max()), ..times }
            }
        }
    )+ };
}

kept_whole!(DaemonSet ControllerRevision);

/// Decodes an object in protobuf.
fn decoded<T: prost::Message + Default>(bytes: &[u8]) -> Result<T, String> {
    T::decode(bytes).map_err(|error| error.to_string())
}

impl Object for Node {
    const DECODE: Option<Decode<Self>> = Some(decoded);

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn newest_times(&self) -> Times {
        let conditions = self.status.conditions.iter();
        let times_of = conditions
            .flat_map(|condition| [condition.last_heartbeat_time.get(), condition.last_transition_time.get()]);
        let taints = self.spec.taints.iter().map(|taint| taint.time_added.get());
        Times {
            of_kubelet: times_of.max().flatten(),
            node: self.metadata.name.clone(),
            is_down: self.condition("Ready").is_some_and(|ready| ready.status == "Unknown"),
            ..Times::new(&self.metadata, taints.max().flatten())
        }
    }
}

impl Object for Pod {
    const DECODE: Option<Decode<Self>> = Some(decoded);

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn newest_times(&self) -> Times {
        let conditions = self.status.conditions.iter().map(|condition| condition.last_transition_time.get());
        let states = self.container_statuses().flat_map(|container| [&container.state, &container.last_state]);
        let times_of = conditions.chain(states.map(state_time));
        let claimed = times_of.fold(self.status.start_time.get(), Option::max);
        Times { node: self.spec.node_name.to_string(), ..Times::new(&self.metadata, claimed) }
    }
}

fn state_time(state: &ContainerState) -> Option<Timestamp> {
    let running = state.running.as_ref().and_then(|running| running.started_at.get());
    let terminated = state.terminated.as_ref();
    let finished = terminated.and_then(|terminated| terminated.finished_at.get().max(terminated.started_at.get()));
    running.max(finished)
}

impl Object for Event {
    const DECODE: Option<Decode<Self>> = Some(decoded);

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn newest_times(&self) -> Times {
        // Anyone may create events, with any times.
        let claimed = self.last_seen().max(self.metadata.creation_timestamp.get());
        Times { claimed, node: self.source.host.clone(), ..Times::default() }
    }
}

impl Object for WrittenNode {
    const DECODE: Option<Decode<Self>> = Some(WrittenNode::from_protobuf);

    fn metadata(&self) -> &ObjectMeta {
        &self.node.metadata
    }
}

impl Object for Lease {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn newest_times(&self) -> Times {
        let is_of_node = self.metadata.namespace == "kube-node-lease";
        let node = if is_of_node { self.metadata.name.clone() } else { String::new() };
        Times { node, ..Times::new(&self.metadata, self.spec.renew_time.get()) }
    }
}
