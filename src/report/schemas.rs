//! What a report looks like in its envelope, for docs/schema.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::{Envelope, Report, VERSION};

impl<T: Report + JsonSchema> JsonSchema for Envelope<T> {
    fn schema_name() -> Cow<'static, str> {
        if let [kind] = T::KINDS { Cow::Borrowed(kind) } else { T::schema_name() }
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = T::json_schema(generator);
        let version = json!({"type": "string", "description": format!("Always `{VERSION}`.")});
        let kind = json!({"type": "string", "description": "What it is.", "enum": T::KINDS});
        for (field, value) in [("kind", kind), ("apiVersion", version)] {
            schema.ensure_object()["properties"][field] = value;
            if let Some(required) = schema.ensure_object()["required"].as_array_mut() {
                required.insert(0, Value::from(field));
            }
        }
        schema
    }
}
