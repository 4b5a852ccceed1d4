//! Who last changed which fields of an object, according to its `managedFields`.

use jiff::Timestamp;
use prost::Message as _;
use serde_json::{Map, Value};

use super::controller_revision::ControllerRevision;
use super::daemon_set::DaemonSet;
use super::metadata::ObjectMeta;
use super::node::Node;
use super::server_side_apply::{APPLY, BEFORE_FIRST_APPLY, known_manager, managed_fields, time_of};
use super::shared::Shared;
use super::time::Time;

/// The fields of a node's spec that keep pods off it.
const OF_INTEREST: [&str; 2] = ["taints", "unschedulable"];

/// The labels that the node controller copies from others on a new node (`labelReconcileInfo`,
/// pkg/controller/nodelifecycle/node_lifecycle_controller.go, release 1.37.2). It owns them forever, and also writes taints.
const COPIED: [&str; 2] = ["beta.kubernetes.io/os", "beta.kubernetes.io/arch"];

/// The contents of one `managedFields` entry: the last time that its manager changed the object, and which fields it owns.
///
/// It does not say which of them were changed at that time: perhaps none, because what it changed was removed since, or is now
/// owned by a later writer. For fields that it only removed, not even the time is kept (`managedFieldsUpdater.Update`,
/// k8s.io/apimachinery/pkg/util/managedfields/internal/managedfieldsupdater.go, and `Updater.Update`,
/// sigs.k8s.io/structured-merge-diff/v6/merge/update.go, release 1.37). Fields of another entry were last changed when its manager
/// last wrote the object, or earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The field manager, such as `kubectl-taint`; `None` if unknown.
    pub manager: Option<String>,
    /// When it last changed the object.
    pub at: Timestamp,
    /// Whether it applied the object, in which case it also owns fields that it never changed.
    pub applied: bool,
    /// The keys of its labels, which are the same on most nodes.
    pub labels: Shared<Vec<String>>,
    /// The names of its spec fields, such as `taints`, or `webhooks`.
    pub spec: Vec<String>,
}

impl Written {
    /// Returns the contents of an object's `managedFields`, except for its status and other subresources; `None` if it has none.
    pub fn all(object: &Value) -> Option<Vec<Written>> {
        let entries = managed_fields(object);
        let is_of_object = |entry: &&Value| entry["subresource"].as_str().is_none_or(str::is_empty);
        let written = entries.iter().filter(is_of_object).filter_map(|entry| {
            let is_applied = entry["operation"] == APPLY;
            Written::of(entry["manager"].as_str()?, is_applied, time_of(entry)?, &entry["fieldsV1"])
        });
        (!entries.is_empty()).then(|| written.collect())
    }

    fn of(manager: &str, applied: bool, at: Timestamp, fields: &Value) -> Option<Written> {
        // Nobody has written anything in this case.
        if !fields.is_object() || manager == BEFORE_FIRST_APPLY {
            return None;
        }
        let manager = known_manager(manager).map(str::to_owned);
        let (labels, mut spec) = (names(&fields["f:metadata"]["f:labels"]), names(&fields["f:spec"]));
        // Configurations of webhooks have no spec.
        spec.extend(fields.get("f:webhooks").map(|_| "webhooks".to_owned()));
        Some(Written { manager, at, applied, labels: labels.into(), spec })
    }

    /// Returns whether it owns a field of the spec.
    pub fn has(&self, field: &str) -> bool {
        self.spec.iter().any(|known| known == field)
    }
}

/// An object that limits, labels, admits or changes pods, or a DaemonSet in another namespace, of which only the writers are kept.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenObject {
    /// Its name and creation time.
    pub metadata: ObjectMeta,
    /// The contents of its managed fields; `None` if it has none.
    pub written: Option<Vec<Written>>,
    /// Whether it is about pods: the rules of a policy or of webhooks may only match other objects.
    pub concerns_pods: bool,
}

read_from_object!(WrittenObject WrittenNode);

impl WrittenObject {
    /// Reads the kept part of an object. Fails if its metadata has a wrong type.
    pub fn from_object(object: Value) -> Result<Self, String> {
        let metadata = serde_path_to_error::deserialize(&object["metadata"]).map_err(|error| error.to_string())?;
        Ok(WrittenObject { metadata, written: Written::all(&object), concerns_pods: concerns_pods(&object) })
    }

    /// Returns the kept part of a DaemonSet. Its revisions tell when its template was last written, which kubectl removes from
    /// what it prints otherwise.
    pub fn of_daemon_set(daemon_set: &DaemonSet, revisions: &[ControllerRevision]) -> Self {
        let is_own = |revision: &&ControllerRevision| {
            revision.metadata.controller().is_some_and(|owner| owner.uid == daemon_set.metadata.uid)
        };
        let began =
            |it: &ControllerRevision| it.numbered_at(daemon_set).or_else(|| it.metadata.creation_timestamp.get());
        let rolled_out = revisions.iter().filter(is_own).filter_map(began);
        let rolled_out = || {
            let spec = vec!["template".to_owned()];
            let at = rolled_out.max()?;
            Some(vec![Written { manager: None, at, applied: false, labels: Vec::new().into(), spec }])
        };
        let written = Written::all(&daemon_set.object).or_else(rolled_out);
        WrittenObject { metadata: daemon_set.metadata.clone(), written, concerns_pods: true }
    }
}

/// Returns whether a policy or a configuration of webhooks has a rule for pods, or the object is none of these.
///
/// Ported from `Matcher.Matches`, k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules/rules.go, release 0.37.2, as far as it
/// is about what is admitted.
fn concerns_pods(object: &Value) -> bool {
    let matches = |values: &Value, is_it: fn(&str) -> bool| {
        values.as_array().is_some_and(|values| values.iter().filter_map(Value::as_str).any(is_it))
    };
    let is_for_pods = |rule: &Value| {
        matches(&rule["apiGroups"], |group| matches!(group, "" | "*"))
            && matches(&rule["resources"], |resource| matches!(resource, "pods" | "pods/*" | "*" | "*/*"))
    };
    let of_policy = object.pointer("/spec/matchConstraints/resourceRules");
    let of_webhooks = object["webhooks"].as_array().into_iter().flatten().filter_map(|webhook| webhook.get("rules"));
    let mut rules = of_policy.into_iter().chain(of_webhooks).filter_map(Value::as_array).flatten().peekable();
    rules.peek().is_none() || rules.any(is_for_pods)
}

/// A node with the `managedFields` contents for labels, taints and cordons.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenNode {
    /// The node.
    pub node: Node,
    /// The contents; `None` if it has no managed fields.
    pub written: Option<Vec<Written>>,
}

impl WrittenNode {
    /// Reads a node from the whole object. Fails if a field has the wrong type.
    pub fn from_object(object: Value) -> Result<Self, String> {
        let written = Written::all(&object).map(of_interest);
        let node = serde_path_to_error::deserialize(object).map_err(|error| error.to_string())?;
        Ok(WrittenNode { node, written })
    }

    /// Reads a protobuf node. Fails if the bytes are not a node.
    pub fn from_protobuf(bytes: &[u8]) -> Result<Self, String> {
        let problem = |error: prost::DecodeError| error.to_string();
        let node = Node::decode(bytes).map_err(problem)?;
        let Managed { metadata } = Managed::decode(bytes).map_err(problem)?;
        let entries = metadata.unwrap_or_default().managed_fields;
        let written = entries.iter().filter(|entry| entry.subresource.is_empty()).filter_map(|entry| {
            let fields = serde_json::from_slice(&entry.fields.as_ref()?.raw).ok()?;
            Written::of(&entry.manager, entry.operation == APPLY, entry.time.get()?, &fields)
        });
        let written = (!entries.is_empty()).then(|| of_interest(written.collect()));
        Ok(WrittenNode { node, written })
    }
}

/// Returns what is kept for each of many nodes.
fn of_interest(mut written: Vec<Written>) -> Vec<Written> {
    for it in &mut written {
        if it.labels.iter().any(|label| COPIED.contains(&label.as_str())) {
            it.labels.retain(|label| !COPIED.contains(&label.as_str()));
        }
        it.spec.retain(|field| OF_INTEREST.contains(&field.as_str()));
        it.spec.shrink_to_fit();
    }
    written.retain(|it| !it.labels.is_empty() || !it.spec.is_empty());
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
    #[prost(string, tag = 2)]
    operation: String,
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

    use super::{Written, WrittenNode};

    #[test]
    fn labels_that_the_node_controller_has_copied_are_not_among_those_that_it_may_have_changed() {
        let labels = json!({"f:beta.kubernetes.io/arch": {}, "f:beta.kubernetes.io/os": {}});
        let kept = |spec: Value| {
            let fields = json!({"f:metadata": {"f:labels": labels}, "f:spec": spec});
            let entry =
                json!({"manager": "kube-controller-manager", "time": "2026-03-01T12:00:00Z", "fieldsV1": fields});
            let node = json!({"metadata": {"name": "a", "managedFields": [entry]}});
            let written = WrittenNode::from_object(node).unwrap().written.unwrap();
            written.into_iter().map(|it| (it.labels.len(), it.spec)).collect::<Vec<_>>()
        };
        assert_eq!(kept(json!({"f:podCIDR": {}})), []);
        assert_eq!(kept(json!({"f:podCIDR": {}, "f:taints": {}})), [(0, vec!["taints".to_owned()])]);
    }

    #[test]
    fn an_entry_tells_who_has_written_and_the_labels_and_fields_of_the_spec_that_it_owns() {
        let told = |manager: &str, fields: Value, subresource: &str| {
            let entry = json!({"manager": manager, "time": "2026-03-01T12:00:00Z", "fieldsV1": fields,
                "subresource": subresource});
            let all = Written::all(&json!({"metadata": {"managedFields": [entry]}})).unwrap();
            all.into_iter().map(|it| (it.manager.unwrap_or_default(), it.labels.join(","), it.spec.join(","))).next()
        };
        let one = |manager: &str, labels: &str, spec: &str| Some((manager.into(), labels.into(), spec.into()));
        let labels = json!({"f:metadata": {"f:labels": {".": {}, "f:pool": {}}}});
        assert_eq!(told("m", labels.clone(), ""), one("m", "pool", ""));
        let spec = json!({"f:metadata": {"f:annotations": {"f:a": {}}}, "f:spec": {"f:podCIDR": {}, "f:taints": {}}});
        assert_eq!(told("m", spec, ""), one("m", "", "podCIDR,taints"));
        assert_eq!(told("m", json!({"f:status": {"f:conditions": {}}}), "status"), None);
        assert_eq!(told("m", json!({"f:data": {}}), ""), one("m", "", ""));
        assert_eq!(told("m", Value::Null, ""), None);
        // The API server's own names: fields of several managers, and fields that nobody wrote at that time.
        assert_eq!(told("ancient-changes", labels.clone(), ""), one("", "pool", ""));
        assert_eq!(told("before-first-apply", labels, ""), None);
        assert_eq!(Written::all(&json!({"metadata": {}})), None);
    }
}
