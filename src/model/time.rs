//! Kubernetes timestamps.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::civil::DateTime;
use serde::de::Error as _;
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
    /// Returns the timestamp, or `None` if unset, or if it is in the last hours of the year 9999, which the API accepts
    /// but which never occurs.
    pub fn get(&self) -> Option<Timestamp> {
        if self.is_set() { Timestamp::new(self.seconds, self.nanos).ok() } else { None }
    }

    /// Returns whether there is a time.
    pub fn is_set(&self) -> bool {
        *self != Time::default()
    }

    /// Reads a time that a `Timestamp` cannot represent.
    fn beyond_timestamps(text: &str) -> Option<Self> {
        let is_zone = |character: char| matches!(character, 'Z' | 'z' | '+') || character == '-';
        let zone = text.char_indices().skip("9999-12-31".len()).find(|(_, character)| is_zone(*character))?.0;
        let local: DateTime = text[..zone].parse().ok()?;
        Some(Time { seconds: local.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0)).as_secs(), nanos: 0 })
    }
}

impl From<Timestamp> for Time {
    fn from(timestamp: Timestamp) -> Self {
        Time { seconds: timestamp.as_second(), nanos: timestamp.subsec_nanosecond() }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(timestamp) = self.get() { serializer.collect_str(&timestamp) } else { serializer.serialize_none() }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Some(text) = Option::<Text<'_>>::deserialize(deserializer)? else { return Ok(Time::default()) };
        match text.0.parse::<Timestamp>() {
            Ok(timestamp) => Ok(Time::from(timestamp)),
            Err(error) => Time::beyond_timestamps(&text.0).ok_or_else(|| D::Error::custom(error)),
        }
    }
}

/// A text that is borrowed if possible.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::Time;

    #[test]
    fn every_time_that_the_api_takes_is_read() {
        for (text, seconds, is_known) in [
            ("2026-03-01T12:00:00Z", 1_772_366_400, true),
            ("2026-03-01T12:00:00.5+01:00", 1_772_362_800, true),
            ("0001-01-01T00:00:00Z", -62_135_596_800, true),
            ("9999-12-31T23:59:59Z", 253_402_300_799, false),
            ("9999-12-31T23:59:59.999999999Z", 253_402_300_799, false),
            ("9999-12-31T23:59:59+00:00", 253_402_300_799, false),
            ("9999-12-31T00:00:00-08:00", 253_402_214_400, false),
        ] {
            let time: Time = from_value(json!(text)).unwrap();
            assert_eq!((time.seconds, time.get().is_some(), time.is_set()), (seconds, is_known, true), "{text}");
        }
        assert_eq!(from_value::<Time>(json!(null)).unwrap(), Time::default());
        for text in ["", "yesterday", "2026-02-30T00:00:00Z", "10000-01-01T00:00:00Z"] {
            assert!(from_value::<Time>(json!(text)).is_err(), "{text}");
        }
        assert!(from_value::<Time>(json!(5)).is_err());
    }
}
