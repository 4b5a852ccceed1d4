//! Hides in a dump what a bug report does not need and its sender may not want to show.
//!
//! Secrets are the values of environment variables, of annotations of other tools, of HTTP headers, of volume
//! attributes, and of flags and URL parameters that are named like one, and the passwords of URLs. They are hidden there, and wherever else one occurs: in commands, messages, the manifest that
//! `kubectl apply` keeps, and other annotations. So are the names of image registries. Each gets a number, the same
//! one wherever it occurs, so that what differs still differs and a history tells the same revisions apart.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::{Map, Value, json};

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
        for pod in &snapshot.pods {
            let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
            found.registries.extend(containers.filter_map(|container| registry(&container.image)).map(str::to_owned));
            found.kept.extend([pod.metadata.name.clone(), pod.metadata.namespace.clone()]);
        }
        found.kept.extend(snapshot.nodes.iter().map(|node| node.metadata.name.clone()));
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
    fn collect(&mut self, value: &Value) {
        match value {
            Value::String(text) => secrets_in_urls(text).for_each(|secret| self.add_secret(&secret.into())),
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            Value::Object(fields) => {
                for list in ["args", "command"] {
                    let words = fields.get(list).and_then(Value::as_array).into_iter().flatten();
                    let words: Vec<&str> = words.filter_map(Value::as_str).collect();
                    secrets_in_flags(&words).for_each(|secret| self.add_secret(&secret.into()));
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
                self.registries
                    .extend(fields.get("image").and_then(Value::as_str).and_then(registry).map(str::to_owned));
                let volume = fields.get("image").and_then(|image| image.get("reference")).and_then(Value::as_str);
                self.registries.extend(volume.and_then(registry).map(str::to_owned));
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

/// Returns the passwords of URLs such as `https://user:password@host?token=…`, and the secret parameters.
fn secrets_in_urls(text: &str) -> impl Iterator<Item = &str> {
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>');
    text.split("://").skip(1).flat_map(move |rest| {
        let url = rest.split(ends).next().unwrap_or_default();
        let (rest, query) = url.split_once('?').unwrap_or((url, ""));
        let authority = rest.split('/').next().unwrap_or_default();
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        let password = user.and_then(|user| user.split_once(':')).map(|(_, password)| password);
        let parameters = query.split(['&', '#']).filter_map(|parameter| parameter.split_once('='));
        password.into_iter().chain(parameters.filter(|(name, _)| is_secret_name(name)).map(|(_, value)| value))
    })
}

/// Returns the values of flags such as `--password=…` or `--token …`.
fn secrets_in_flags<'a>(words: &[&'a str]) -> impl Iterator<Item = &'a str> {
    words.iter().enumerate().filter_map(|(index, word)| {
        let (name, value) = match word.strip_prefix('-')?.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (*word, words.get(index + 1).copied()),
        };
        value.filter(|value| is_secret_name(name) && !value.starts_with(['-', '/']))
    })
}

/// Returns whether a flag or parameter of this name usually has a secret as its value; those of files have none.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['-', '_'], "");
    let is_of_file = ["file", "path", "dir", "name"].iter().any(|end| name.ends_with(end));
    !is_of_file
        && ["password", "passwd", "secret", "token", "apikey", "credential"].iter().any(|word| name.contains(word))
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
    use super::{is_kept_annotation, registry, replace_name, secrets_in_flags, secrets_in_urls};

    #[test]
    fn passwords_in_urls_and_flags_are_found() {
        let in_urls = |text| secrets_in_urls(text).collect::<Vec<_>>();
        assert_eq!(in_urls("push to https://bot:S3CRET@host:9091/x?job=a&api_key=K3Y#top now"), ["S3CRET", "K3Y"]);
        assert_eq!(in_urls("http://user@host/a:b@c, redis://:pass@r/0"), ["pass"]);
        assert_eq!(in_urls("https://host/x?page=2"), [""; 0]);
        let in_flags = |words: &[&'static str]| secrets_in_flags(words).collect::<Vec<_>>();
        assert_eq!(
            in_flags(&["agent", "--db-password=one", "--token", "two", "--token-file=/x", "--secret-name=s", "-v=3"]),
            ["one", "two"]
        );
        assert_eq!(in_flags(&["--token", "--verbose", "--client-secret", "/etc/secret"]), [""; 0]);
    }

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
