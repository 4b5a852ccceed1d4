//! Removes from a dump anything that a bug report does not need and its sender may not want to share.
//!
//! It does not search for secrets: anything not known to be harmless is hidden. Names and words of the API are kept by field,
//! quantities and times by their format, and text by [`super::known_text`]. Every other string is replaced by a number, the same
//! one wherever it occurs, so that different values stay different and a history can tell revisions apart.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::LazyLock;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::known_text::{Known, image_parts, is_stand_in};
use crate::model::kind::with_place;
use crate::model::metadata::{LAST_APPLIED_ANNOTATION, TEMPLATE_GENERATION_ANNOTATION};
use crate::model::quantity::Quantity;
use crate::model::snapshot::{Kind, Snapshot};

/// Names of fields.
type Words = LazyLock<HashSet<&'static str>>;

fn words(text: &'static str) -> HashSet<&'static str> {
    text.split_whitespace().collect()
}

/// Fields with names of objects and words of the API.
static NAMES: Words = LazyLock::new(|| {
    words(
        "$patch accessModes action add allocationMode apiVersion architecture attacher claimName component conditionType configMapName \
         containerName containerRuntimeVersion device deviceClassName dnsPolicy driver drop effect fieldPath fieldsType finalizers \
         fsGroupChangePolicy generateName handler holderIdentity hostname imagePullPolicy kernelVersion key kind \
         kubeletVersion manager mountPropagation name namespace nodeAffinityPolicy nodeName nodeTaintsPolicy \
         nominatedNodeName operatingSystem operation operator persistentVolumeName phase pool preemptionPolicy priorityClassName procMount \
         protocol provisioner pullPolicy qosClass reason reportingComponent resource resourceClaimName resourceClaimTemplateName \
         resourceVersion restartPolicy rollingUpdateType runtimeClassName schedulerName scheme secretName \
         serviceAccount serviceAccountName shareID status storageClassName subresource terminationMessagePolicy topologyKey type uid \
         unhealthyPodEvictionPolicy values volumeAttributesClassName volumeBindingMode volumeMode volumeName whenUnsatisfiable",
    )
});

/// Fields with text, of which known parts are kept.
static TEXTS: Words = LazyLock::new(|| {
    words(
        "address host hostIP ip maxSurge maxUnavailable message minAvailable mountPath nodeSelector nodes partition \
         path podIP port priority replacedRevision reportingInstance spreadBy terminationMessagePath updateRevision",
    )
});

/// Fields with the name of an image.
const IMAGES: [&str; 3] = ["image", "imageID", "reference"];

/// Fields with an amount.
const AMOUNTS: [&str; 4] = ["capacity", "divisor", "maximumVolumeSize", "sizeLimit"];

/// Maps of any text, whatever its key.
const FREE_FORM: [&str; 4] = ["options", "parameters", "userAnnotations", "volumeAttributes"];

/// Maps of labels.
const LABELS: [&str; 3] = ["labels", "matchLabels", "nodeSelector"];

/// Maps of amounts of resources.
static RESOURCES: Words = LazyLock::new(|| {
    words(
        "allocatable allocatedResources capacity default defaultRequest hard limits max maxLimitRequestRatio min \
         overhead podFixed requests used",
    )
});

/// Hides everything in the objects of one snapshot that is not known to be harmless.
#[derive(Debug)]
pub struct Redactor {
    known: Known,
    /// The numbers of the hidden values so far.
    values: HashMap<String, usize>,
    /// The numbers of the hidden annotation names so far.
    annotations: HashMap<String, usize>,
}

impl Redactor {
    /// Collects the names and the registries in a snapshot.
    pub fn new(snapshot: &Snapshot) -> Self {
        let mut found = Found::default();
        for kind in Kind::every() {
            with_place!(kind, place => found.collect_all((place.of)(snapshot)));
        }
        let known = Known::new(&found.names, &found.registries);
        Redactor { known, values: HashMap::new(), annotations: HashMap::new() }
    }

    /// Hides everything in an object that is not known to be harmless.
    pub fn redact(&mut self, object: &mut Value) {
        self.redact_field("", "", object);
    }

    /// Redacts a field of an object or list that is the value of another field.
    fn redact_field(&mut self, parent: &str, key: &str, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.shown(parent, key, text),
            // Only maps of this name are free-form.
            Value::Array(items) => {
                let key = if FREE_FORM.contains(&key) { "" } else { key };
                items.iter_mut().for_each(|item| self.redact_field(parent, key, item));
            }
            Value::Object(fields) if FREE_FORM.contains(&key) => {
                fields.values_mut().for_each(|field| self.hide_texts(field));
            }
            Value::Object(fields) => {
                if let Some(Value::Object(annotations)) = fields.get_mut("annotations") {
                    *annotations = self.hide_annotations(std::mem::take(annotations));
                }
                if let Some(Value::Array(managers)) = fields.get_mut("managedFields") {
                    managers.iter_mut().filter_map(|manager| manager.get_mut("fieldsV1")).for_each(hide_owned_names);
                }
                let is_done = |name: &str, field: &Value| {
                    name == "annotations" && field.is_object() || name == "fieldsV1" && key == "managedFields"
                };
                let fields = fields.iter_mut().filter(|(name, field)| !is_done(name, field));
                fields.for_each(|(name, field)| self.redact_field(key, name, field));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Hides each text in a value.
    fn hide_texts(&mut self, value: &mut Value) {
        match value {
            Value::String(text) if !text.is_empty() && !is_stand_in(text) => *text = self.number(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_texts(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.hide_texts(field)),
            _ => {}
        }
    }

    fn shown(&mut self, parent: &str, key: &str, text: &str) -> String {
        let is_harmless = match () {
            () if text.is_empty() || is_stand_in(text) => true,
            () if is_name_field(parent, key) => is_name(text),
            () if RESOURCES.contains(parent) || AMOUNTS.contains(&key) => Quantity::new(text).nanos().is_some(),
            () if IMAGES.contains(&key) => match self.known.image(text) {
                Some(image) => return image,
                None => false,
            },
            () if TEXTS.contains(key) => return self.hide(text),
            () => is_time_field(key) && text.parse::<jiff::Timestamp>().is_ok(),
        };
        if is_harmless { text.to_owned() } else { self.number(text) }
    }

    fn hide(&mut self, text: &str) -> String {
        let Redactor { known, values, .. } = self;
        known.shown(text, &mut |hidden| number(values, hidden))
    }

    fn hide_annotations(&mut self, annotations: Map<String, Value>) -> Map<String, Value> {
        let mut shown = Map::new();
        for (key, value) in annotations {
            let text = value.as_str().unwrap_or_default();
            let is_json = key == LAST_APPLIED_ANNOTATION || key.starts_with("kubectl-ds/");
            let json = serde_json::from_str::<Value>(text).ok().filter(|json| is_json && json.is_object());
            let (key, value) = match json {
                _ if !is_kept_annotation(&key) => {
                    let next = self.annotations.len() + 1;
                    let number = *self.annotations.entry(key).or_insert(next);
                    let value = if text.is_empty() || is_stand_in(text) { text.to_owned() } else { self.number(text) };
                    (format!("redacted/annotation-{number}"), value)
                }
                Some(mut json) => {
                    self.redact(&mut json);
                    (key, json.to_string())
                }
                // It repeats a manifest, which determines what the next apply changes.
                None if key == LAST_APPLIED_ANNOTATION => continue,
                None => (key, self.hide(text)),
            };
            shown.insert(key, value.into());
        }
        shown
    }

    fn number(&mut self, hidden: &str) -> String {
        number(&mut self.values, hidden)
    }
}

/// Returns the replacement for a hidden text.
fn number(values: &mut HashMap<String, usize>, hidden: &str) -> String {
    let next = values.len() + 1;
    format!("REDACTED-{}", values.entry(hidden.to_owned()).or_insert(next))
}

/// What may be shown.
#[derive(Default)]
struct Found {
    names: BTreeSet<String>,
    registries: BTreeSet<String>,
}

impl Found {
    /// Collects from objects of which only some fields are kept.
    fn collect_all(&mut self, objects: &[impl Serialize]) {
        let objects = objects.iter().filter_map(|object| serde_json::to_value(object).ok());
        objects.for_each(|object| self.collect("", &object));
    }

    fn collect(&mut self, key: &str, value: &Value) {
        let Value::Object(fields) = value else {
            let key = if FREE_FORM.contains(&key) { "" } else { key };
            return value.as_array().into_iter().flatten().for_each(|item| self.collect(key, item));
        };
        if FREE_FORM.contains(&key) {
            return;
        }
        for (name, field) in fields {
            match field {
                Value::String(text) if is_name_field(key, name) && is_name(text) => {
                    self.names.insert(text.clone());
                }
                Value::String(text) if IMAGES.contains(&name.as_str()) => {
                    if let Some((registry, path)) = image_parts(text) {
                        self.registries.extend(registry.map(str::to_owned));
                        self.names.extend(path.split(['/', ':', '@']).map(str::to_owned));
                    }
                }
                Value::String(text) if name == LAST_APPLIED_ANNOTATION => {
                    if let Ok(manifest) = serde_json::from_str(text) {
                        self.collect("", &manifest);
                    }
                }
                Value::Array(items) if is_name_field(key, name) => {
                    let texts = items.iter().filter_map(Value::as_str).filter(|text| is_name(text));
                    self.names.extend(texts.map(str::to_owned));
                }
                _ => {}
            }
            // Keys and resources.
            if LABELS.contains(&key) || RESOURCES.contains(key) {
                self.names.insert(name.clone());
            }
            self.collect(name, field);
        }
    }
}

/// Returns whether a field contains a name, or the value of a label or a taint.
fn is_name_field(parent: &str, key: &str) -> bool {
    let is_of_taint = key == "value" && ["tolerations", "taints"].contains(&parent);
    NAMES.contains(key) || LABELS.contains(&parent) || is_of_taint
}

/// Returns whether a text is in the format of an API name or path: no whitespace, and nothing that a URL with a password needs.
fn is_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/:+{}[]()'$".contains(&byte);
    text.len() <= 512 && text.bytes().all(is_allowed)
}

fn is_time_field(key: &str) -> bool {
    ["Time", "Timestamp", "At", "timeAdded", "time"].iter().any(|end| key.ends_with(end))
}

/// Keeps only the upper two levels of owned fields: deeper ones name annotations and variables.
fn hide_owned_names(fields: &mut Value) {
    let Value::Object(fields) = fields else {
        *fields = json!({});
        return;
    };
    for child in fields.values_mut() {
        match child {
            Value::Object(grandchildren) => grandchildren.values_mut().for_each(|grandchild| *grandchild = json!({})),
            other => *other = json!({}),
        }
    }
}

/// Tells whether an annotation is Kubernetes' own or this tool's.
fn is_kept_annotation(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else {
        return key == TEMPLATE_GENERATION_ANNOTATION || key == "kubectl-ds";
    };
    let of = |parent: &str| domain.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    of("kubernetes.io") || of("k8s.io") || domain == "kubectl-ds" || domain.starts_with("kubectl-ds.")
}

#[cfg(test)]
mod tests {
    use super::is_kept_annotation;

    #[test]
    fn only_annotations_of_kubernetes_and_of_this_tool_are_kept() {
        for (key, kept) in [
            ("deprecated.daemonset.template.generation", true),
            ("kubernetes.io/change-cause", true),
            ("kubectl.kubernetes.io/restartedAt", true),
            ("scheduling.k8s.io/group", true),
            ("kubectl-ds.dev/note", true),
            ("redacted/annotation-1", false),
            ("example.com/owner", false),
            ("notkubernetes.io/x", false),
            ("note", false),
        ] {
            assert_eq!(is_kept_annotation(key), kept, "{key}");
        }
    }
}
