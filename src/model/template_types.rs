//! The types in a DaemonSet: the fields of each, and what the absence of each field means.
//!
//! The table is generated from the Go types in k8s.io/api/apps/v1/types.go, k8s.io/api/core/v1/types.go and
//! k8s.io/apimachinery/pkg/apis/meta/v1/types.go, release 1.37.2. The order in which fields are shown and the keys of
//! lists are not in the Go types and are edited by hand.

use super::template_keys::Key;

/// A type of the API that is part of a DaemonSet.
#[derive(Debug)]
pub struct Type {
    /// The name of the Go type.
    pub name: &'static str,
    /// Its fields.
    pub fields: &'static [Field],
}

/// A field of a type.
#[derive(Debug)]
pub struct Field {
    /// The name in JSON.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: FieldKind,
}

/// The kind of a field, as far as it determines what its absence means.
#[derive(Debug)]
pub enum FieldKind {
    /// A string, number or boolean whose zero value is equivalent to absence.
    Value(Scalar),
    /// A pointer: the zero value differs from absence.
    Pointer(Scalar),
    /// A port by number or name; the number 0 is equivalent to absence.
    IntOrString,
    /// A quantity whose zero value is equivalent to absence.
    Quantity,
    /// A quantity whose zero value differs from absence.
    OptionalQuantity,
    /// Quantities by resource name.
    Quantities,
    /// A map of strings.
    Texts,
    /// A list of strings or numbers whose order matters.
    Values(Scalar),
    /// A struct; an empty one is equivalent to absence.
    Struct(&'static Type),
    /// A pointer to a struct: an empty one differs from absence.
    Optional(&'static Type),
    /// A list of structs, and their key.
    List(&'static Type, Key),
}

/// A value that is not an object or list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// A string.
    Text,
    /// A boolean.
    Bool,
    /// A 32-bit number.
    Int32,
    /// A 64-bit number.
    Int64,
    /// A time.
    Time,
    /// Anything.
    Json,
    /// A 32-bit number, or a string.
    IntOrString,
    /// An amount of a resource.
    Quantity,
}

impl Type {
    /// Returns the field with a name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// The names of the kinds in the table.
mod words {
    #![expect(non_upper_case_globals, reason = "they stand for types in the table")]
    use super::{FieldKind, Scalar};

    pub(super) const text: FieldKind = FieldKind::Value(Scalar::Text);
    pub(super) const bool: FieldKind = FieldKind::Value(Scalar::Bool);
    pub(super) const int32: FieldKind = FieldKind::Value(Scalar::Int32);
    pub(super) const int64: FieldKind = FieldKind::Value(Scalar::Int64);
    pub(super) const time: FieldKind = FieldKind::Value(Scalar::Time);
    pub(super) const int_or_string: FieldKind = FieldKind::IntOrString;
    pub(super) const quantity: FieldKind = FieldKind::Quantity;
    pub(super) const optional_quantity: FieldKind = FieldKind::OptionalQuantity;
    pub(super) const quantities: FieldKind = FieldKind::Quantities;
    pub(super) const texts: FieldKind = FieldKind::Texts;
}

macro_rules! kind {
    ($word:ident) => {
        words::$word
    };
    ({ $scalar:ident }) => {
        FieldKind::Pointer(Scalar::$scalar)
    };
    ([$scalar:ident]) => {
        FieldKind::Values(Scalar::$scalar)
    };
    ((?$of:ident)) => {
        FieldKind::Optional(&$of)
    };
    (($of:ident)) => {
        FieldKind::Struct(&$of)
    };
    ([$of:ident by $field:literal]) => {
        FieldKind::List(&$of, Key::Field($field))
    };
    ([$of:ident as $key:ident]) => {
        FieldKind::List(&$of, Key::$key)
    };
}

/// Declares types: `?` and braces mark pointers in Go, and lists of objects name the key of their entries.
macro_rules! types {
    ($($name:ident { $($field:ident: $kind:tt),* $(,)? })*) => {
        $(
            #[doc = concat!("The fields of `", stringify!($name), "`.")]
            #[expect(non_upper_case_globals, reason = "it is the name of the Go type")]
            pub static $name: Type = Type {
                name: stringify!($name),
                fields: &[$(Field { name: stringify!($field), kind: kind!($kind) }),*],
            };
        )*

        /// All types of a DaemonSet.
        pub static TYPES: &[&Type] = &[$(&$name),*];
    };
}

mod table;

pub use table::*;
