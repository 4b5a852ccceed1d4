//! The type of an object, or of a list of objects.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::model::daemon_set::ADVANCED_GROUP;
use crate::model::snapshot::Kind;

/// `runtime.TypeMeta` of k8s.io/apimachinery, in both wire formats. A field is empty if the object does not have it.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TypeMeta {
    #[prost(string, tag = 1)]
    pub(super) api_version: String,
    #[prost(string, tag = 2)]
    pub(super) kind: String,
}

impl TypeMeta {
    /// Finds the type of a JSON object, and stops there: its fields usually come first.
    pub(super) fn of(object: &str) -> Self {
        struct Peek<'a>(&'a mut TypeMeta);
        impl<'de> Visitor<'de> for Peek<'_> {
            type Value = ();

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
                while self.0.api_version.is_empty() || self.0.kind.is_empty() {
                    match map.next_key::<Cow<'_, str>>()?.as_deref() {
                        Some("apiVersion") => self.0.api_version = map.next_value()?,
                        Some("kind") => self.0.kind = map.next_value()?,
                        Some(_) => drop(map.next_value::<IgnoredAny>()?),
                        None => break,
                    }
                }
                Ok(())
            }
        }
        let mut found = TypeMeta::default();
        // Stopping before the end counts as an error; errors in the object are found when it is decoded.
        let _ = serde_json::Deserializer::from_str(object).deserialize_map(Peek(&mut found));
        found
    }

    /// Returns the type of an object, whatever else it has.
    pub(super) fn of_value(object: &Value) -> Self {
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        TypeMeta { api_version: text("apiVersion"), kind: text("kind") }
    }

    /// Returns the type of the items of a list, empty for a plain `List`; `None` for other types.
    pub(super) fn of_items(&self) -> Option<TypeMeta> {
        match self.kind.strip_suffix("List")? {
            "" => Some(TypeMeta::default()),
            kind => Some(TypeMeta { api_version: self.api_version.clone(), kind: kind.to_owned() }),
        }
    }

    /// Returns the kind if a snapshot contains it.
    pub(super) fn known(&self) -> Option<Kind> {
        if self.kind == "DaemonSet" && self.api_version.starts_with(ADVANCED_GROUP) {
            return Some(Kind::AdvancedDaemonSets);
        }
        Kind::every().find(|kind| kind.is(&self.api_version, &self.kind))
    }
}
