//! ConfigMaps and Secrets: when they were changed, and who uses them. Their data is never kept.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::metadata::ObjectMeta;
use super::server_side_apply::{managed_fields, time_of};
use super::snapshot::Kind;
use super::template::Template;
use super::template_parts::{Reference, Referrer, items, references};

/// The fields of ConfigMaps and Secrets that are visible to containers.
const DATA: [&str; 3] = ["f:data", "f:binaryData", "f:stringData"];

/// The field that makes an object immutable; it cannot be unset.
const IMMUTABLE: &str = "f:immutable";

/// A ConfigMap or Secret.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigObject {
    /// Name, namespace and creation time.
    pub metadata: ObjectMeta,
    /// When a manager that owns data last set any field, not necessarily data; `None` if unknown. Removing a key leaves no time.
    pub changed_at: Option<Timestamp>,
    /// Whether its data cannot be changed, so that the kubelet does not watch it.
    pub immutable: bool,
}

read_from_object!(ConfigObject);

impl ConfigObject {
    /// Reads what is kept of an object. Fails if a field of its metadata has the wrong type.
    pub fn from_object(object: Value) -> Result<Self, String> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Slim {
            metadata: ObjectMeta,
        }
        let read: Slim = serde_path_to_error::deserialize(&object).map_err(|error| error.to_string())?;
        let ObjectMeta { name, namespace, resource_version, creation_timestamp, .. } = read.metadata;
        let entries = managed_fields(&object);
        let has = |entry: &Value, field: &str| entry["fieldsV1"].get(field).is_some();
        let has_data = |entry: &&Value| DATA.iter().any(|field| has(entry, field));
        let written = entries.iter().filter(has_data).filter_map(time_of).max();
        // An object that never had data has not been changed since its creation.
        let created = creation_timestamp.get().filter(|_| !entries.is_empty());
        let immutable = entries.iter().any(|entry| has(entry, IMMUTABLE));
        let metadata = ObjectMeta { name, namespace, resource_version, creation_timestamp, ..ObjectMeta::default() };
        Ok(ConfigObject { metadata, changed_at: written.or(created), immutable })
    }
}

impl Serialize for ConfigObject {
    /// Writes only the names of fields: the keys of a Secret must not be disclosed.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Wire<'a> {
            metadata: Metadata<'a>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata<'a> {
            #[serde(flatten)]
            kept: &'a ObjectMeta,
            #[serde(skip_serializing_if = "Option::is_none")]
            managed_fields: Option<[Entry; 1]>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Entry {
            time: Timestamp,
            fields_v1: Map<String, Value>,
        }
        let names = [Some(DATA[0]), self.immutable.then_some(IMMUTABLE)].into_iter().flatten();
        let fields_v1 = names.map(|name| (name.to_owned(), json!({}))).collect();
        let managed_fields = self.changed_at.map(|time| [Entry { time, fields_v1 }]);
        Wire { metadata: Metadata { kept: &self.metadata, managed_fields } }.serialize(serializer)
    }
}

/// How a container accesses a ConfigMap or Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Use {
    /// Through environment variables, which are set when the container starts.
    Env,
    /// Through a `subPath` mount, which stays as it was when the container started.
    SubPath,
    /// Through a volume of an init container, which ends before the kubelet refreshes the files.
    InitVolume,
    /// Through a mounted volume with an immutable object that was recreated: the kubelet keeps the files of the old one
    /// (pkg/kubelet/util/manager/watch_based_manager.go, release 1.37.2).
    ImmutableVolume,
    /// Through a mounted volume, whose files the kubelet refreshes.
    Volume,
}

impl Use {
    /// Returns the field of the template.
    pub fn field(self) -> &'static str {
        match self {
            Use::Env => "env",
            Use::SubPath => "subPath",
            Use::InitVolume => "volume of an init container",
            Use::ImmutableVolume => "volume of an immutable object",
            Use::Volume => "volume",
        }
    }

    /// Returns whether the kubelet refreshes the data after the container has started.
    pub fn is_refreshed(self) -> bool {
        self == Use::Volume
    }
}

/// A use of a ConfigMap or Secret by a container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigUse {
    /// [`Kind::ConfigMaps`] or [`Kind::Secrets`].
    pub kind: Kind,
    /// The name, in the namespace of the pod.
    pub name: String,
    /// The container.
    pub container: String,
    /// How it is used.
    pub by: Use,
    /// Whether a container starts without it.
    pub optional: bool,
}

/// Returns which ConfigMaps and Secrets the containers of a template use, excluding those that only the kubelet uses,
/// such as for pulling images.
pub fn uses(template: &Template) -> BTreeSet<ConfigUse> {
    let references = references(template.value());
    let mut uses = BTreeSet::new();
    let mut add = |container: &Value, of: &Reference<'_>, by: Use| {
        let kind = if of.kind == "ConfigMap" { Kind::ConfigMaps } else { Kind::Secrets };
        let container = container["name"].as_str().unwrap_or_default().to_owned();
        uses.insert(ConfigUse { kind, name: of.name.to_owned(), container, by, optional: of.is_optional() });
    };
    for of in &references {
        if let Referrer::Environment(container) = of.by {
            add(container, of, Use::Env);
        }
    }
    for list in ["initContainers", "containers"] {
        for container in items(&template.value()["spec"], list) {
            let ends = list == "initContainers" && container["restartPolicy"] != "Always";
            let whole = if ends { Use::InitVolume } else { Use::Volume };
            for mount in items(container, "volumeMounts") {
                let is_part = |field: &str| mount[field].as_str().is_some_and(|path| !path.is_empty());
                let by = if is_part("subPath") || is_part("subPathExpr") { Use::SubPath } else { whole };
                let is_mounted =
                    |it: &&Reference<'_>| matches!(it.by, Referrer::Files(volume) if volume["name"] == mount["name"]);
                references.iter().filter(is_mounted).for_each(|of| add(container, of, by));
            }
        }
    }
    uses
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ConfigObject, ConfigUse, uses};
    use crate::model::template::Template;

    fn object(metadata: Value) -> ConfigObject {
        serde_json::from_value(json!({"metadata": metadata, "data": {"password": "hunter2"}})).unwrap()
    }

    #[test]
    fn what_was_changed_is_the_data_and_not_a_label() {
        let entry = |time: &str, fields: Value| json!({"manager": "m", "time": time, "fieldsV1": fields});
        let changed = |managed: Value| {
            let metadata = json!({"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": managed});
            object(metadata).changed_at.map(|at| at.to_string())
        };
        let early = || entry("2026-02-01T00:00:00Z", json!({"f:data": {".": {}, "f:password": {}}}));
        assert_eq!(changed(json!([early()])).as_deref(), Some("2026-02-01T00:00:00Z"));
        let label = entry("2026-03-01T00:00:00Z", json!({"f:metadata": {"f:labels": {}}}));
        assert_eq!(changed(json!([early(), label.clone()])).as_deref(), Some("2026-02-01T00:00:00Z"));
        let binary = entry("2026-04-01T00:00:00Z", json!({"f:binaryData": {}}));
        assert_eq!(changed(json!([early(), binary])).as_deref(), Some("2026-04-01T00:00:00Z"));
        assert_eq!(changed(json!([label])).as_deref(), Some("2026-01-01T00:00:00Z"));
        // Without managed fields, a dump does not say.
        assert_eq!(changed(json!([])), None);
        assert_eq!(changed(Value::Null), None);
    }

    #[test]
    fn no_data_and_no_key_is_written() {
        let fields = json!({"f:data": {"f:password": {}}});
        let metadata = json!({"name": "a", "namespace": "b", "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"note": "hunter2"},
            "managedFields": [{"manager": "m", "time": "2026-02-01T00:00:00Z", "fieldsV1": fields}]});
        let read = object(metadata);
        let written = serde_json::to_value(&read).unwrap();
        let entry = json!({"time": "2026-02-01T00:00:00Z", "fieldsV1": {"f:data": {}}});
        let expected = json!({"name": "a", "namespace": "b", "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [entry]});
        assert_eq!(written, json!({"metadata": expected}));
        assert_eq!(serde_json::from_value::<ConfigObject>(written).unwrap(), read);
        let immutable = ConfigObject { immutable: true, ..read };
        let written = serde_json::to_value(&immutable).unwrap();
        assert_eq!(serde_json::from_value::<ConfigObject>(written).unwrap(), immutable);
    }

    #[test]
    fn everything_that_a_container_sees_is_a_use_of_it() {
        let template = Template::new(json!({"spec": {
            "imagePullSecrets": [{"name": "registry"}],
            "volumes": [
                {"name": "whole", "configMap": {"name": "files", "optional": true}},
                {"name": "keys", "secret": {"secretName": "tls"}},
                {"name": "both", "projected": {"sources": [{"secret": {"name": "token", "optional": true}}, {"configMap": {"name": "more"}},
                    {"serviceAccountToken": {"path": "t"}}]}},
                {"name": "unused", "configMap": {"name": "unused"}},
                {"name": "host", "hostPath": {"path": "/"}},
            ],
            "initContainers": [
                {"name": "init", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "start", "key": "a", "optional": true}}}],
                    "volumeMounts": [{"name": "whole", "mountPath": "/a"}, {"name": "keys", "mountPath": "/b", "subPath": "tls.key"}]},
                {"name": "sidecar", "restartPolicy": "Always", "volumeMounts": [{"name": "whole", "mountPath": "/a"}]},
            ],
            "containers": [{
                "name": "agent",
                "envFrom": [{"configMapRef": {"name": "level"}}, {"secretRef": {"name": "login"}}],
                "env": [{"name": "B", "value": "b"}, {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "key", "key": "c"}}}],
                "volumeMounts": [{"name": "whole", "mountPath": "/a"}, {"name": "keys", "mountPath": "/b", "subPath": "tls.key"},
                    {"name": "both", "mountPath": "/c"}, {"name": "host", "mountPath": "/d"},
                    {"name": "whole", "mountPath": "/e", "subPathExpr": "$(NODE)"}],
            }],
        }}));
        let told: Vec<String> = uses(&template)
            .into_iter()
            .map(|ConfigUse { kind, name, container, by, optional }| {
                let optional = if optional { " optional" } else { "" };
                format!("{} {name} {container} {by:?}{optional}", kind.api_names().1)
            })
            .collect();
        assert_eq!(
            told,
            [
                "ConfigMap files agent SubPath optional",
                "ConfigMap files agent Volume optional",
                "ConfigMap files init InitVolume optional",
                "ConfigMap files sidecar Volume optional",
                "ConfigMap key agent Env",
                "ConfigMap level agent Env",
                "ConfigMap more agent Volume",
                "Secret login agent Env",
                "Secret start init Env optional",
                "Secret tls agent SubPath",
                "Secret tls init SubPath",
                "Secret token agent Volume optional",
            ]
        );
    }
}
