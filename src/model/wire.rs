//! One struct, two wire formats: the macro that declares a slim struct once for protobuf and JSON.
//!
//! The field numbers are those of the `generated.proto` files of k8s.io/api and k8s.io/apimachinery (release 1.37);
//! they are part of the API and do not change.

use serde::{Deserialize, Deserializer};

/// Reads a JSON value in which `null` is the same as an absent field, as in Go. Fails if the value is neither `null` nor a `T`.
pub fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Returns whether a field has its zero value, which JSON omits.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Returns an error about a field without the name of the struct that was expected.
pub fn without_struct(error: impl std::fmt::Display) -> String {
    let text = error.to_string();
    let Some((before, rest)) = text.split_once("expected struct ") else { return text };
    let name = rest.find(|character: char| !character.is_alphanumeric()).unwrap_or(rest.len());
    format!("{before}expected an object{}", &rest[name..])
}

/// Implements reading of types from whole objects, with their `from_object`.
macro_rules! read_from_object {
    ($($name:ident)+) => { $(
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let object = serde::Deserialize::deserialize(deserializer)?;
                $name::from_object(object).map_err(serde::de::Error::custom)
            }
        }
    )+ };
}

/// Implements reading of types from whole objects, and writing them as the objects that they keep.
macro_rules! kept_whole {
    ($name:ident) => {
        read_from_object!($name);

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.object.serialize(serializer)
            }
        }
    };
}

/// Declares structs with both wire formats: one `field: Type = number,` per line.
///
/// The type determines the protobuf encoding: a scalar, a message, `Vec` for repeated and `Option` for optional fields.
/// A message without `Option` is equal to an empty one when absent.
macro_rules! wire {
    ($( $(#[$meta:meta])* pub struct $name:ident { $($body:tt)* } )+) => {
        $( wire!(@fields [$(#[$meta])*] $name [] $($body)*); )+
    };
    (@fields [$($meta:tt)*] $name:ident [$($done:tt)*]) => {
        $($meta)*
        #[derive(Clone, PartialEq, prost::Message, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name { $($done)* }
    };
    (@field [$($shape:tt)*] [$($type:tt)*] $head:tt $name:ident [$($done:tt)*] [$($meta:tt)*] $field:ident = $tag:tt, $($rest:tt)*) => {
        wire!(@fields $head $name [$($done)*
            $($meta)*
            #[prost($($shape)*, tag = $tag)]
            #[serde(deserialize_with = "crate::model::wire::null_is_default", skip_serializing_if = "crate::model::wire::is_default")]
            pub $field: $($type)*,
        ] $($rest)*);
    };
    (@fields $head:tt $name:ident $done:tt $(#[$meta:meta])* $field:ident: String = $tag:tt, $($rest:tt)*) => {
        wire!(@field [string] [String] $head $name $done [$(#[$meta])*] $field = $tag, $($rest)*);
    };
    (@fields $head:tt $name:ident $done:tt $(#[$meta:meta])* $field:ident: bool = $tag:tt, $($rest:tt)*) => {
        wire!(@field [bool] [bool] $head $name $done [$(#[$meta])*] $field = $tag, $($rest)*);
    };
    (@fields $head:tt $name:ident $done:tt $(#[$meta:meta])* $field:ident: i32 = $tag:tt, $($rest:tt)*) => {
        wire!(@field [int32] [i32] $head $name $done [$(#[$meta])*] $field = $tag, $($rest)*);
    };
    (@fields $head:tt $name:ident $done:tt $(#[$meta:meta])* $field:ident: i64 = $tag:tt, $($rest:tt)*) => {
        wire!(@field [int64] [i64] $head $name $done [$(#[$meta])*] $field = $tag, $($rest)*);
    };
    (@fields $head:tt $name:ident $done:tt $(#[$meta:meta])* $field:ident: Option<String> = $tag:tt, $($rest:tt)*) => {
        wire!(@field [string, optional] [Option<String>] $head $name $done [$(#[$meta])*] $field = $tag, $($rest)*);
    };
    (@fields $head:tt $name:ident $done:tt $(#[$meta:meta])* $field:ident: Option<bool> = $tag:tt, $($rest:tt)*) => {
        wire!(@field [bool, optional] [Option<bool>] $head $name $done [$(#[$meta])*] $field = $tag, $($rest)*);
    };
    (@fields $head:tt $name:ident $done:tt $(#[$meta:meta])* $field:ident: Option<i32> = $tag:tt, $($rest:tt)*) => {
        wire!(@field [int32, optional] [Option<i32>] $head $name $done [$(#[$meta])*] $field = $tag, $($rest)*);
    };
    (@fields $head:tt $name:ident $done:tt $(#[$meta:meta])* $field:ident: Option<i64> = $tag:tt, $($rest:tt)*) => {
        wire!(@field [int64, optional] [Option<i64>] $head $name $done [$(#[$meta])*] $field = $tag, $($rest)*);
    };
    (@fields $head:tt $name:ident $done:tt $(#[$meta:meta])* $field:ident: Option<$type:ident> = $tag:tt, $($rest:tt)*) => {
        wire!(@field [message, optional] [Option<$type>] $head $name $done [$(#[$meta])*] $field = $tag, $($rest)*);
    };
    (@fields $head:tt $name:ident $done:tt $(#[$meta:meta])* $field:ident: Vec<String> = $tag:tt, $($rest:tt)*) => {
        wire!(@field [string, repeated] [Vec<String>] $head $name $done [$(#[$meta])*] $field = $tag, $($rest)*);
    };
    (@fields $head:tt $name:ident $done:tt $(#[$meta:meta])* $field:ident: Vec<i32> = $tag:tt, $($rest:tt)*) => {
        wire!(@field [int32, repeated, packed = "false"] [Vec<i32>] $head $name $done [$(#[$meta])*] $field = $tag, $($rest)*);
    };
    (@fields $head:tt $name:ident $done:tt $(#[$meta:meta])* $field:ident: Vec<$type:ident> = $tag:tt, $($rest:tt)*) => {
        wire!(@field [message, repeated] [Vec<$type>] $head $name $done [$(#[$meta])*] $field = $tag, $($rest)*);
    };
    (@fields $head:tt $name:ident $done:tt $(#[$meta:meta])* $field:ident: Shared<Vec<$type:ident>> = $tag:tt, $($rest:tt)*) => {
        wire!(@field [message, repeated] [Shared<Vec<$type>>] $head $name $done [$(#[$meta])*] $field = $tag, $($rest)*);
    };
    (@fields $head:tt $name:ident $done:tt $(#[$meta:meta])* $field:ident: BTreeMap<String, String> = $tag:tt, $($rest:tt)*) => {
        wire!(@field [btree_map = "string, string"] [BTreeMap<String, String>] $head $name $done [$(#[$meta])*] $field = $tag, $($rest)*);
    };
    (@fields $head:tt $name:ident $done:tt $(#[$meta:meta])* $field:ident: Shared<BTreeMap<String, String>> = $tag:tt, $($rest:tt)*) => {
        wire!(@field [btree_map = "string, string"] [Shared<BTreeMap<String, String>>] $head $name $done [$(#[$meta])*] $field = $tag, $($rest)*);
    };
    (@fields $head:tt $name:ident $done:tt $(#[$meta:meta])* $field:ident: BTreeMap<String, $type:ident> = $tag:tt, $($rest:tt)*) => {
        wire!(@field [btree_map = "string, message"] [BTreeMap<String, $type>] $head $name $done [$(#[$meta])*] $field = $tag, $($rest)*);
    };
    (@fields $head:tt $name:ident $done:tt $(#[$meta:meta])* $field:ident: $type:ident = $tag:tt, $($rest:tt)*) => {
        wire!(@field [message, required] [$type] $head $name $done [$(#[$meta])*] $field = $tag, $($rest)*);
    };
}

/// Declares structs that are read and written in JSON only, one `field: Type,` per line, by the rules of [`wire!`].
macro_rules! json_object {
    ($( $(#[$meta:meta])* pub struct $name:ident { $( $(#[$of_field:meta])* $field:ident: $type:ty, )* } )+) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name { $(
            $(#[$of_field])*
            #[serde(deserialize_with = "crate::model::wire::null_is_default", skip_serializing_if = "crate::model::wire::is_default")]
            pub $field: $type,
        )* }
    )+ };
}
