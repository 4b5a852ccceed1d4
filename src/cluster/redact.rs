//! Hides in a dump what a bug report does not need and its sender may not want to show.
//!
//! Secrets are the values of environment variables, of annotations of other tools, of HTTP headers and of volume
//! attributes, and what [`super::secret_text`] finds in any text that stays. They are hidden there, and wherever else one
//! occurs: in commands, messages, the manifest that `kubectl apply` keeps, and other annotations. So are the names of
//! image registries. Each gets a number, the same one wherever it occurs, so that what differs still differs and a history
//! tells the same revisions apart.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aho_corasick::{AhoCorasick, MatchKind};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::secret_text::{registries_in, registry, secrets_in, secrets_in_words};
use crate::model::metadata::{LAST_APPLIED_ANNOTATION, TEMPLATE_GENERATION_ANNOTATION};
use crate::model::quantity::Quantity;
use crate::model::snapshot::Snapshot;

/// How many bytes a secret must have to be looked for in other text. Shorter ones are part of ordinary words.
const SHORTEST_SECRET: usize = 6;

/// Fields whose strings stay as they are: they identify objects, or are words of the API.
const KEPT_FIELDS: [&str; 24] = [
    "apiVersion",
    "kind",
    "name",
    "namespace",
    "generateName",
    "uid",
    "nodeName",
    "type",
    "phase",
    "status",
    "reason",
    "operator",
    "effect",
    "protocol",
    "imagePullPolicy",
    "restartPolicy",
    "dnsPolicy",
    "schedulerName",
    "serviceAccountName",
    "priorityClassName",
    "runtimeClassName",
    "terminationMessagePolicy",
    // Of selectors.
    "key",
    "values",
];

/// Lists of words, which a flag and its value may be two of.
const COMMANDS: [&str; 2] = ["args", "command"];

/// Maps of labels, which stay as they are.
const LABELS: [&str; 3] = ["labels", "matchLabels", "nodeSelector"];

/// Hides secrets in objects of one snapshot.
#[derive(Debug)]
pub struct Redactor {
    /// What stands for a registry, the longest names first.
    registries: Vec<(String, String)>,
    /// Finds secrets in other text; `None` if there are none.
    finder: Option<AhoCorasick>,
    /// The secrets that `finder` finds, by its numbers.
    secrets: Vec<String>,
    /// The numbers of the values that were hidden so far.
    values: HashMap<String, usize>,
    /// The numbers of the annotations' names that were hidden so far.
    names: HashMap<String, usize>,
}

/// What is to be hidden, and what must not be.
#[derive(Default)]
struct Found {
    registries: BTreeSet<String>,
    secrets: BTreeSet<String>,
    kept: BTreeSet<String>,
}

impl Redactor {
    /// Finds the secrets and registries of a snapshot.
    pub fn new(snapshot: &Snapshot) -> Self {
        let mut found = Found::default();
        for object in snapshot.daemon_sets_of_any_flavor().map(|daemon_set| &daemon_set.object) {
            found.collect(object);
        }
        for object in snapshot.controller_revisions.iter().map(|revision| &revision.object) {
            found.collect(object);
        }
        found.collect_all(&snapshot.pods);
        found.collect_all(&snapshot.nodes);
        found.collect_all(&snapshot.events);
        let mut stand_ins = BTreeMap::new();
        for name in found.registries {
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
        let secrets: Vec<String> = found.secrets.into_iter().filter(|secret| !found.kept.contains(secret)).collect();
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&secrets);
        // Too many secrets for a finder would be more text than a dump may have.
        let finder = finder.ok().filter(|_| !secrets.is_empty());
        Redactor { registries, finder, secrets, values: HashMap::new(), names: HashMap::new() }
    }

    /// Hides what is to be hidden in an object.
    pub fn redact(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => self.hide(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact(item)),
            Value::Object(fields) => {
                self.hide_fields(fields);
                let is_kept = |key: &str, field: &Value| match field {
                    Value::Object(_) => LABELS.contains(&key),
                    _ => KEPT_FIELDS.contains(&key),
                };
                fields.iter_mut().filter(|(key, field)| !is_kept(key, field)).for_each(|(_, field)| self.redact(field));
            }
            _ => {}
        }
    }

    fn hide_fields(&mut self, fields: &mut Map<String, Value>) {
        for list in COMMANDS {
            let Some(Value::Array(words)) = fields.get_mut(list) else { continue };
            let texts: Vec<&str> = words.iter().map(|word| word.as_str().unwrap_or_default()).collect();
            let hidden: Vec<(usize, String)> = secrets_in_words(&texts)
                .filter(|(_, secret)| !is_stand_in(secret))
                .map(|(index, secret)| {
                    let before = &texts[index][..texts[index].len() - secret.len()];
                    (index, format!("{before}{}", self.number(secret.to_owned())))
                })
                .collect();
            hidden.into_iter().for_each(|(index, text)| words[index] = text.into());
        }
        secret_fields(fields, &mut |value| *value = self.stand_in(value));
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

    /// Returns what stands for a value. An empty one reveals nothing, and means the same as none.
    fn stand_in(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) if text.is_empty() => json!(""),
            Value::Null => Value::Null,
            Value::String(text) if is_stand_in(text) => value.clone(),
            Value::String(text) => self.number(text.clone()).into(),
            other => self.number(other.to_string()).into(),
        }
    }

    fn number(&mut self, secret: String) -> String {
        let next = self.values.len() + 1;
        format!("REDACTED-{}", self.values.entry(secret).or_insert(next))
    }

    fn hide(&mut self, text: &mut String) {
        for range in secrets_in(text).into_iter().rev() {
            if !is_stand_in(&text[range.clone()]) {
                let stand_in = self.number(text[range.clone()].to_owned());
                text.replace_range(range, &stand_in);
            }
        }
        for (name, stand_in) in &self.registries {
            if text.contains(name.as_str()) {
                *text = replace_name(text, name, stand_in);
            }
        }
        let Some(finder) = &self.finder else { return };
        let found: Vec<_> = finder.find_iter(text.as_str()).map(|found| (found.pattern(), found.range())).collect();
        for (pattern, range) in found.into_iter().rev() {
            let secret = &self.secrets[pattern.as_usize()];
            let is_part =
                text[..range.start].ends_with(is_name_letter) || text[range.end..].starts_with(is_name_letter);
            if !(is_part && is_word(secret)) {
                let stand_in = self.number(secret.clone());
                text.replace_range(range, &stand_in);
            }
        }
    }
}

/// Returns whether a secret is an ordinary word or name, which may well be part of another one.
fn is_word(secret: &str) -> bool {
    secret.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'.' | b'_'))
}

fn is_name_letter(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '.' | '_')
}

impl Found {
    /// Collects from objects of which some fields are kept.
    fn collect_all(&mut self, objects: &[impl Serialize]) {
        objects.iter().filter_map(|object| serde_json::to_value(object).ok()).for_each(|object| self.collect(&object));
    }

    fn collect(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                secrets_in(text).into_iter().for_each(|range| self.add_secret(&text[range].into()));
                self.registries.extend(registries_in(text).map(str::to_owned));
            }
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            Value::Object(fields) => {
                for list in COMMANDS {
                    let words = fields.get(list).and_then(Value::as_array).into_iter().flatten();
                    let words: Vec<&str> = words.map(|word| word.as_str().unwrap_or_default()).collect();
                    secrets_in_words(&words).for_each(|(_, secret)| self.add_secret(&secret.into()));
                }
                let mut copy = fields.clone();
                secret_fields(&mut copy, &mut |value| self.add_secret(value));
                if let Some(Value::Object(annotations)) = fields.get("annotations") {
                    for (key, value) in annotations {
                        match value
                            .as_str()
                            .filter(|_| key == LAST_APPLIED_ANNOTATION)
                            .map(serde_json::from_str::<Value>)
                        {
                            Some(Ok(manifest)) => self.collect(&manifest),
                            _ if !is_kept_annotation(key) => self.add_secret(value),
                            _ => {}
                        }
                    }
                }
                let images = ["image", "imageID", "reference"].iter().filter_map(|field| fields.get(*field)?.as_str());
                self.registries.extend(images.filter_map(registry).map(str::to_owned));
                let kept = KEPT_FIELDS.iter().filter_map(|field| fields.get(*field)?.as_str());
                self.kept.extend(kept.map(str::to_owned));
                for labels in LABELS {
                    let labels = fields.get(labels).and_then(Value::as_object).into_iter().flatten();
                    self.kept.extend(labels.filter_map(|(_, value)| value.as_str()).map(str::to_owned));
                }
                fields.values().for_each(|field| self.collect(field));
            }
            _ => {}
        }
    }

    fn add_secret(&mut self, value: &Value) {
        let is_ordinary = |text: &str| {
            text.len() < SHORTEST_SECRET
                || Quantity::new(text).nanos().is_some()
                || text.parse::<jiff::Timestamp>().is_ok()
                || is_stand_in(text)
        };
        self.secrets.extend(value.as_str().filter(|text| !is_ordinary(text)).map(str::to_owned));
    }
}

/// Returns whether a text is what [`Redactor`] writes, as in a dump that was redacted before.
fn is_stand_in(text: &str) -> bool {
    text.strip_prefix("REDACTED-").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Visits the values of an object's own fields that are secrets: those of environment variables, HTTP headers,
/// and volume attributes.
fn secret_fields(fields: &mut Map<String, Value>, visit: &mut impl FnMut(&mut Value)) {
    for list in ["env", "httpHeaders"] {
        if let Some(Value::Array(entries)) = fields.get_mut(list) {
            entries.iter_mut().filter_map(|entry| entry.get_mut("value")).for_each(&mut *visit);
        }
    }
    for (volume, attributes) in [("csi", "volumeAttributes"), ("flexVolume", "options")] {
        let attributes = fields.get_mut(volume).and_then(|volume| volume.get_mut(attributes));
        attributes.and_then(Value::as_object_mut).into_iter().flat_map(|map| map.values_mut()).for_each(&mut *visit);
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
        return key == TEMPLATE_GENERATION_ANNOTATION || key == "kubectl-ds";
    };
    let of = |parent: &str| domain.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    of("kubernetes.io") || of("k8s.io") || domain == "kubectl-ds" || domain.starts_with("kubectl-ds.")
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
    use super::{is_kept_annotation, replace_name};

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
