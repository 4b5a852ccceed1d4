//! Events.

use jiff::Timestamp;

use super::metadata::ObjectMeta;
use super::time::Time;

/// The events of the node controllers about a node that no longer exists (`monitorNodeHealth`,
/// pkg/controller/nodelifecycle/node_lifecycle_controller.go, and `MonitorNodes`,
/// k8s.io/cloud-provider/controllers/nodelifecycle/node_lifecycle_controller.go, release 1.37).
const REMOVAL_EVENTS: [&str; 2] = ["RemovingNode", ABOUT_TO_BE_DELETED];

/// The event before the deletion, which may fail.
pub const ABOUT_TO_BE_DELETED: &str = "DeletingNode";

wire! {
    /// One event, or one series of the same event.
    pub struct Event {
        /// Name and namespace of the event itself.
        metadata: ObjectMeta = 1,
        /// The object that the event is about.
        involved_object: ObjectReference = 2,
        /// A CamelCase word for what happened, such as `FailedCreate`.
        reason: String = 3,
        /// A sentence about what happened.
        message: String = 4,
        /// The reporting component, in core/v1 events.
        source: EventSource = 5,
        /// When it first happened.
        first_timestamp: Time = 6,
        /// When it last happened.
        last_timestamp: Time = 7,
        /// How often it happened.
        count: i32 = 8,
        /// `Normal` or `Warning`.
        #[serde(rename = "type")]
        type_: String = 9,
        /// When it happened, in events.k8s.io events.
        event_time: Time = 10,
        /// The repetitions, in events.k8s.io events.
        series: Option<EventSeries> = 11,
        /// The reporting component, in events.k8s.io events.
        reporting_component: String = 14,
    }

    /// A reference to the object an event is about.
    pub struct ObjectReference {
        /// The kind.
        kind: String = 1,
        /// The namespace.
        namespace: String = 2,
        /// The name.
        name: String = 3,
        /// The uid.
        uid: String = 4,
        /// The part of the object, such as `spec.containers{agent}`.
        field_path: String = 7,
    }

    /// The component that reported an event.
    pub struct EventSource {
        /// The component's name.
        component: String = 1,
        /// The node of a kubelet.
        host: String = 2,
    }

    /// The repetitions of an event.
    pub struct EventSeries {
        /// How often it happened.
        count: i32 = 1,
        /// When it last happened.
        last_observed_time: Time = 2,
    }
}

/// How many seconds an event counts as current: recurring failures are reported again every five minutes at the latest
/// (`EventAggregator`, k8s.io/client-go/tools/record/events_cache.go, release 1.37).
const RECENT: i64 = 600;

/// How many seconds events are kept by default: `--event-ttl` of kube-apiserver.
pub(crate) const EVENT_TTL: i64 = 3_600;

impl Event {
    /// Returns whether the event is recent.
    pub fn is_recent(&self, now: Timestamp) -> bool {
        self.last_seen().is_none_or(|at| now.duration_since(at).as_secs() <= RECENT)
    }

    /// Returns the name of the container that it is about, if it is about one: `spec.containers{agent}`.
    pub fn container(&self) -> Option<&str> {
        self.involved_object.field_path.split(['{', '}']).nth(1)
    }

    /// Returns whether the event tells that a node no longer exists.
    pub fn is_removal_of_node(&self) -> bool {
        self.involved_object.kind == "Node" && REMOVAL_EVENTS.contains(&self.reason.as_str())
    }

    /// Returns how often the event happened, in either format: at least once.
    pub fn times(&self) -> i32 {
        self.series.as_ref().map_or(self.count, |series| series.count).max(1)
    }

    /// Returns when the event first happened, in either format.
    pub fn first_seen(&self) -> Option<Timestamp> {
        self.first_timestamp.get().or_else(|| self.event_time.get()).or_else(|| self.last_seen())
    }

    /// Returns when the event last happened, in either format.
    pub fn last_seen(&self) -> Option<Timestamp> {
        let series = self.series.as_ref().and_then(|series| series.last_observed_time.get());
        series
            .max(self.last_timestamp.get())
            .or_else(|| self.event_time.get())
            .or_else(|| self.first_timestamp.get())
            .or_else(|| self.metadata.creation_timestamp.get())
    }
}
