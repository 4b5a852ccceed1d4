//! A JSON document before its items are decoded: parts of the text, whose kinds are looked up first.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::objects::Type;

/// A JSON document: a list whose items are parts of the text yet, or anything else.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JsonDocument<'a> {
    #[serde(default, borrow)]
    pub(super) api_version: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) items: JsonItems<'a>,
    #[serde(default, borrow)]
    pub(super) snapshot: Option<&'a RawValue>,
}

/// The field `items`: an array, or, in an object that is no list, whatever it likes.
#[derive(Default)]
pub(super) struct JsonItems<'a>(pub(super) Option<Vec<&'a RawValue>>);

impl<'de: 'a, 'a> Deserialize<'de> for JsonItems<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items;
        impl<'de> Visitor<'de> for Items {
            type Value = JsonItems<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of objects")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<JsonItems<'de>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = sequence.next_element()? {
                    items.push(item);
                }
                Ok(JsonItems(Some(items)))
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<JsonItems<'de>, E> {
                Ok(JsonItems(Some(Vec::new())))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonItems<'de>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(JsonItems(None))
            }

            fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<JsonItems<'de>, E> {
                Ok(JsonItems(None))
            }
        }
        deserializer.deserialize_any(Items)
    }
}

/// An item's own `apiVersion` and `kind`.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) api_version: String,
    pub(super) kind: String,
}

impl From<&Type<'_>> for Head {
    fn from(type_: &Type<'_>) -> Self {
        Head { api_version: type_.api_version.to_owned(), kind: type_.kind.to_owned() }
    }
}

impl Head {
    /// Looks for both fields, and no further once it has them: they mostly come first.
    pub(super) fn of(object: &str) -> Self {
        struct Peek<'a>(&'a mut Head);
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
        let mut head = Head::default();
        // Leaving before the end counts as an error; what is wrong with the object shows when it is decoded.
        let _ = serde_json::Deserializer::from_str(object).deserialize_map(Peek(&mut head));
        head
    }
}
