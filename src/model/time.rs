//! Kubernetes timestamps.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A `metav1.Time` or `MicroTime`: seconds and nanoseconds since 1970, both zero if unset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub struct Time {
    /// Whole seconds since 1970-01-01T00:00:00Z.
    #[prost(int64, tag = 1)]
    pub seconds: i64,
    /// Nanoseconds past the second.
    #[prost(int32, tag = 2)]
    pub nanos: i32,
}

impl Time {
    /// Returns the timestamp, or `None` if unset.
    pub fn get(&self) -> Option<Timestamp> {
        if *self == Time::default() { None } else { Timestamp::new(self.seconds, self.nanos).ok() }
    }
}

impl From<Timestamp> for Time {
    fn from(timestamp: Timestamp) -> Self {
        Time { seconds: timestamp.as_second(), nanos: timestamp.subsec_nanosecond() }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.get() {
            Some(timestamp) => serializer.collect_str(&timestamp),
            None => serializer.serialize_none(),
        }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<Timestamp>::deserialize(deserializer)?.map(Time::from).unwrap_or_default())
    }
}
