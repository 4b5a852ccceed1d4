//! Who has changed which fields of an object last, as its `managedFields` keep it.

use jiff::Timestamp;
use prost::Message as _;
use serde_json::{Map, Value};

use super::metadata::ObjectMeta;
use super::node::Node;
use super::server_side_apply::{managed_fields, time_of};
use super::time::Time;

/// What one entry of `managedFields` keeps: the last time that its manager has changed any of the fields.
///
/// What was changed at that time is one of them, or a field that the manager has removed. A later change by the same manager
/// overwrites the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The field manager, such as `kubectl-taint`.
    pub manager: String,
    /// When it has last changed one of its fields.
    pub at: Timestamp,
    /// The keys of its labels.
    pub labels: Vec<String>,
    /// The names of its fields of the spec, such as `taints`.
    pub spec: Vec<String>,
    /// Whether it has other fields, such as annotations.
    pub has_others: bool,
}

impl Written {
    /// Returns what the `managedFields` of an object keep, except for its status and other subresources.
    pub fn all(object: &Value) -> Vec<Written> {
        let is_of_object = |entry: &&Value| entry["subresource"].as_str().is_none_or(str::is_empty);
        let entries = managed_fields(object).iter().filter(is_of_object);
        entries
            .filter_map(|entry| Written::of(entry["manager"].as_str()?, time_of(entry)?, &entry["fieldsV1"]))
            .collect()
    }

    fn of(manager: &str, at: Timestamp, fields: &Value) -> Option<Written> {
        let (manager, all) = (manager.to_owned(), fields.as_object()?);
        let metadata = fields["f:metadata"].as_object();
        let spec = names(&fields["f:spec"]);
        let has_others = |fields: &Map<String, Value>, known: &[&str]| {
            fields.keys().any(|key| key != "." && !known.contains(&key.as_str()))
        };
        let has_others = has_others(all, &["f:metadata", "f:spec", "f:status"])
            || metadata.is_some_and(|metadata| has_others(metadata, &["f:labels"]));
        Some(Written { manager, at, labels: names(&fields["f:metadata"]["f:labels"]), spec, has_others })
    }

    /// Returns whether one of its fields is that of the spec.
    pub fn has(&self, field: &str) -> bool {
        self.spec.iter().any(|known| known == field)
    }
}

/// An object that limits or labels the pods of a namespace, of which only who has changed it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenObject {
    /// Its name, and when it was created.
    pub metadata: ObjectMeta,
    /// What its managed fields keep.
    pub written: Vec<Written>,
}

impl WrittenObject {
    /// Reads what is kept of an object.
    ///
    /// # Errors
    ///
    /// Fails if its metadata has a wrong type.
    pub fn from_object(object: &Value) -> Result<Self, String> {
        let metadata = serde_path_to_error::deserialize(&object["metadata"]).map_err(|error| error.to_string())?;
        Ok(WrittenObject { metadata, written: Written::all(object) })
    }
}

/// A node with what its `managedFields` keep of labels, taints and cordons.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenNode {
    /// The node.
    pub node: Node,
    /// What is kept; `None` if it has no managed fields.
    pub written: Option<Vec<Written>>,
}

impl WrittenNode {
    /// Reads a node from the whole object.
    ///
    /// # Errors
    ///
    /// Fails if a field has the wrong type.
    pub fn from_object(object: Value) -> Result<Self, String> {
        let written = (!managed_fields(&object).is_empty()).then(|| of_interest(Written::all(&object)));
        let node = serde_path_to_error::deserialize(object).map_err(|error| error.to_string())?;
        Ok(WrittenNode { node, written })
    }

    /// Reads a node in protobuf.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not a node.
    pub fn from_protobuf(bytes: &[u8]) -> Result<Self, String> {
        let problem = |error: prost::DecodeError| error.to_string();
        let node = Node::decode(bytes).map_err(problem)?;
        let Managed { metadata } = Managed::decode(bytes).map_err(problem)?;
        let entries = metadata.unwrap_or_default().managed_fields;
        let written = entries.iter().filter(|entry| entry.subresource.is_empty()).filter_map(|entry| {
            let fields = serde_json::from_slice(&entry.fields.as_ref()?.raw).ok()?;
            Written::of(&entry.manager, entry.time.get()?, &fields)
        });
        let written = (!entries.is_empty()).then(|| of_interest(written.collect()));
        Ok(WrittenNode { node, written })
    }
}

/// Returns what is kept of many nodes.
fn of_interest(mut written: Vec<Written>) -> Vec<Written> {
    written.retain(|it| !it.labels.is_empty() || it.has("taints") || it.has("unschedulable"));
    written.shrink_to_fit();
    written
}

/// An object, of which only the managed fields are read.
#[derive(Clone, PartialEq, prost::Message)]
struct Managed {
    #[prost(message, optional, tag = 1)]
    metadata: Option<ManagedMetadata>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ManagedMetadata {
    #[prost(message, repeated, tag = 17)]
    managed_fields: Vec<ManagedFieldsEntry>,
}

/// The used part of `metav1.ManagedFieldsEntry`.
#[derive(Clone, PartialEq, prost::Message)]
struct ManagedFieldsEntry {
    #[prost(string, tag = 1)]
    manager: String,
    #[prost(message, required, tag = 4)]
    time: Time,
    #[prost(message, optional, tag = 7)]
    fields: Option<FieldsV1>,
    #[prost(string, tag = 8)]
    subresource: String,
}

/// A set of fields, as JSON.
#[derive(Clone, PartialEq, prost::Message)]
struct FieldsV1 {
    #[prost(bytes = "vec", tag = 1)]
    raw: Vec<u8>,
}

fn names(fields: &Value) -> Vec<String> {
    let fields = fields.as_object().into_iter().flat_map(Map::keys);
    fields.filter_map(|key| key.strip_prefix("f:")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Written;

    #[test]
    fn an_entry_tells_labels_fields_of_the_spec_and_whether_there_are_others() {
        let told = |fields: Value, subresource: &str| {
            let entry = json!({"manager": "m", "time": "2026-03-01T12:00:00Z", "fieldsV1": fields,
                "subresource": subresource});
            let all = Written::all(&json!({"metadata": {"managedFields": [entry]}}));
            all.into_iter().map(|it| (it.labels.join(","), it.spec.join(","), it.has_others)).next()
        };
        let labels = json!({"f:metadata": {"f:labels": {".": {}, "f:pool": {}}}});
        assert_eq!(told(labels, ""), Some(("pool".to_owned(), String::new(), false)));
        let spec = json!({"f:metadata": {"f:annotations": {"f:a": {}}}, "f:spec": {"f:podCIDR": {}, "f:taints": {}}});
        assert_eq!(told(spec, ""), Some((String::new(), "podCIDR,taints".to_owned(), true)));
        assert_eq!(told(json!({"f:status": {"f:conditions": {}}}), "status"), None);
        assert_eq!(told(json!({"f:data": {}}), ""), Some((String::new(), String::new(), true)));
        assert_eq!(told(Value::Null, ""), None);
    }
}
