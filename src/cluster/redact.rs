//! Takes out of objects what a bug report does not need and its sender may not want to show.
//!
//! Hidden are the values of environment variables, annotations that are neither Kubernetes' own nor
//! this tool's, and the names of image registries, wherever they stand. What is hidden gets a number, the same
//! one wherever it stands, so that what differs still does: a history tells the same revisions apart.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value, json};

use crate::model::metadata::{LAST_APPLIED_ANNOTATION, TEMPLATE_GENERATION_ANNOTATION};
use crate::model::snapshot::Snapshot;

/// Hides secrets in objects of one snapshot.
#[derive(Debug)]
pub struct Redactor {
    /// What stands for a registry, the longest names first.
    registries: Vec<(String, String)>,
    /// The numbers of the values that were hidden so far.
    values: HashMap<String, usize>,
    /// The numbers of the annotations' names that were hidden so far.
    names: HashMap<String, usize>,
}

impl Redactor {
    /// Finds the registries of every image in the snapshot.
    pub fn new(snapshot: &Snapshot) -> Self {
        let mut names = BTreeSet::new();
        for object in snapshot.daemon_sets_of_any_flavor().map(|daemon_set| &daemon_set.object) {
            collect_registries(object, &mut names);
        }
        for object in snapshot.controller_revisions.iter().map(|revision| &revision.object) {
            collect_registries(object, &mut names);
        }
        for pod in &snapshot.pods {
            let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
            names.extend(containers.filter_map(|container| registry(&container.image)).map(str::to_owned));
        }
        let mut stand_ins = BTreeMap::new();
        for name in names {
            let stand_in = format!("registry-{}.redacted", stand_ins.len() + 1);
            stand_ins.insert(name, stand_in);
        }
        // Messages often name the host without its port.
        let hosts: Vec<_> = stand_ins
            .iter()
            .filter_map(|(name, stand_in)| Some((name.split_once(':')?.0.to_owned(), stand_in.clone())))
            .collect();
        for (host, stand_in) in hosts {
            stand_ins.entry(host).or_insert(stand_in);
        }
        let mut registries: Vec<_> = stand_ins.into_iter().collect();
        registries.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Redactor { registries, values: HashMap::new(), names: HashMap::new() }
    }

    /// Hides what is to be hidden in an object.
    pub fn redact(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => self.hide_registries(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact(item)),
            Value::Object(fields) => {
                self.hide_fields(fields);
                fields.values_mut().for_each(|field| self.redact(field));
            }
            _ => {}
        }
    }

    fn hide_fields(&mut self, fields: &mut Map<String, Value>) {
        if let Some(Value::Array(variables)) = fields.get_mut("env") {
            for value in variables.iter_mut().filter_map(|variable| variable.get_mut("value")) {
                *value = self.stand_in(value);
            }
        }
        if let Some(Value::Object(annotations)) = fields.get_mut("annotations") {
            *annotations = self.hide_annotations(std::mem::take(annotations));
        }
        if let Some(Value::Array(managers)) = fields.get_mut("managedFields") {
            managers.iter_mut().filter_map(|manager| manager.get_mut("fieldsV1")).for_each(hide_owned_names);
        }
    }

    fn hide_annotations(&mut self, annotations: Map<String, Value>) -> Map<String, Value> {
        let mut hidden = Map::new();
        for (key, value) in annotations {
            if key == LAST_APPLIED_ANNOTATION {
                // It repeats the manifest, which says what the next apply changes.
                if let Some(mut manifest) = value.as_str().and_then(|text| serde_json::from_str(text).ok()) {
                    self.redact(&mut manifest);
                    hidden.insert(key, manifest.to_string().into());
                }
            } else if is_kept_annotation(&key) {
                hidden.insert(key, value);
            } else {
                let next = self.names.len() + 1;
                let number = *self.names.entry(key).or_insert(next);
                let value = self.stand_in(&value);
                hidden.insert(format!("redacted/annotation-{number}"), value);
            }
        }
        hidden
    }

    /// Returns what stands for a value; an empty one tells nothing, and means the same as none.
    fn stand_in(&mut self, value: &Value) -> Value {
        let text = match value {
            Value::String(text) if text.is_empty() => return json!(""),
            Value::Null => return Value::Null,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let next = self.values.len() + 1;
        format!("REDACTED-{}", self.values.entry(text).or_insert(next)).into()
    }

    fn hide_registries(&self, text: &mut String) {
        for (name, stand_in) in &self.registries {
            if text.contains(name.as_str()) {
                *text = replace_name(text, name, stand_in);
            }
        }
    }
}

/// Leaves of the fields that somebody owns the upper two levels: deeper ones name annotations and variables.
fn hide_owned_names(fields: &mut Value) {
    let children = fields.as_object_mut().into_iter().flat_map(|fields| fields.values_mut());
    for grandchild in children.filter_map(Value::as_object_mut).flat_map(|child| child.values_mut()) {
        *grandchild = json!({});
    }
}

/// Tells whether an annotation is Kubernetes' own or this tool's.
fn is_kept_annotation(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else {
        return key == TEMPLATE_GENERATION_ANNOTATION || key.starts_with("kubectl-ds");
    };
    let of = |parent: &str| domain.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    of("kubernetes.io") || of("k8s.io") || domain.starts_with("kubectl-ds")
}

fn collect_registries(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_registries(item, names)),
        Value::Object(fields) => {
            names.extend(fields.get("image").and_then(Value::as_str).and_then(registry).map(str::to_owned));
            fields.values().for_each(|field| collect_registries(field, names));
        }
        _ => {}
    }
}

/// Returns the registry that an image is pulled from, where the image names one.
fn registry(image: &str) -> Option<&str> {
    let (first, _) = image.split_once('/')?;
    (first.contains(['.', ':']) || first == "localhost").then_some(first)
}

/// Replaces a host's name wherever it stands by itself, not as a part of a longer one.
fn replace_name(text: &str, name: &str, stand_in: &str) -> String {
    let goes_on = |character: char| character.is_ascii_alphanumeric() || character == '-';
    let (mut replaced, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(name) {
        let (before, after) = (&rest[..at], &rest[at + name.len()..]);
        let starts = !before.ends_with(|character| goes_on(character) || character == '.');
        let ends =
            !after.starts_with(goes_on) && !after.strip_prefix('.').is_some_and(|after| after.starts_with(goes_on));
        replaced.push_str(before);
        replaced.push_str(if starts && ends { stand_in } else { name });
        rest = after;
    }
    replaced + rest
}

#[cfg(test)]
mod tests {
    use super::{is_kept_annotation, registry, replace_name};

    #[test]
    fn only_annotations_of_kubernetes_and_of_this_tool_are_kept() {
        for (key, kept) in [
            ("deprecated.daemonset.template.generation", true),
            ("kubernetes.io/change-cause", true),
            ("kubectl.kubernetes.io/restartedAt", true),
            ("scheduling.k8s.io/group", true),
            ("kubectl-ds.dev/note", true),
            ("example.com/owner", false),
            ("notkubernetes.io/x", false),
            ("note", false),
        ] {
            assert_eq!(is_kept_annotation(key), kept, "{key}");
        }
    }

    #[test]
    fn a_registry_is_the_part_before_the_slash_that_looks_like_a_host() {
        for (image, found) in [
            ("nginx:1.2", None),
            ("library/nginx", None),
            ("registry.example.com/app:1", Some("registry.example.com")),
            ("registry:5000/team/app@sha256:abc", Some("registry:5000")),
            ("localhost/app", Some("localhost")),
        ] {
            assert_eq!(registry(image), found, "{image}");
        }
    }

    #[test]
    fn a_name_is_replaced_only_where_it_is_whole() {
        for (text, expected) in [
            ("lookup a.io: no such host", "lookup X: no such host"),
            ("pull \"a.io/app:1\" from https://a.io/v2/.", "pull \"X/app:1\" from https://X/v2/."),
            ("no route to a.io.", "no route to X."),
            ("b.a.io/app, a.iox/app, a.io.com/app, ba.io", "b.a.io/app, a.iox/app, a.io.com/app, ba.io"),
        ] {
            assert_eq!(replace_name(text, "a.io", "X"), expected);
        }
    }
}
