//! Reads the DaemonSets in manifests, for previews, and the other objects that the manifests create.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ClusterError;
use super::text::{self, Format, STANDARD_INPUT, Text};
use super::yaml;
use crate::encode::documents::documents;
use crate::model::daemon_set::{ADVANCED_GROUP, DaemonSet, Flavor, drop_nulls};
use crate::model::metadata::LAST_APPLIED_ANNOTATION;
use crate::model::node::Node;
use crate::model::snapshot::Snapshot;
use crate::model::update_strategy::Problem;
use crate::model::{server_side_apply, strategic_merge};
use crate::report::fix::{Command, Fix};
use crate::validation;

/// How a manifest is applied to an existing DaemonSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Apply {
    /// `kubectl apply`.
    ClientSide,
    /// `kubectl apply --server-side`.
    ServerSide {
        /// Whether to take over fields of other managers.
        force_conflicts: bool,
    },
    /// `kubectl replace`.
    Replace,
}

impl Apply {
    /// Returns how a DaemonSet was last applied, and so is likely to be applied next.
    pub fn last_used_on(live: &DaemonSet) -> Self {
        let is_server_side = |entry: &Value| {
            let field = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            (field("manager"), field("operation"), field("subresource")) == ("kubectl", "Apply", "")
        };
        match server_side_apply::managed_fields(&live.object).iter().any(is_server_side) {
            true => Apply::ServerSide { force_conflicts: false },
            false => Apply::ClientSide,
        }
    }
}

/// The contents of manifests.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifests {
    /// The DaemonSets.
    pub daemon_sets: Vec<Manifest>,
    /// Objects of other kinds, with their namespaces.
    pub others: Vec<Value>,
    /// Likely mistakes that kubectl accepts.
    pub warnings: Vec<String>,
}

impl Manifests {
    /// Makes a manifest of an edited existing DaemonSet; errors name it by the changes.
    pub fn of_edited(object: Value, changes: String) -> Self {
        let manifest = Manifest { file: changes, object, lacks_namespace: false, warnings: Vec::new() };
        Manifests { daemon_sets: vec![manifest], others: Vec::new(), warnings: Vec::new() }
    }

    /// Returns another object that the manifests create. The namespace is compared if the object has one.
    pub fn other(&self, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.others.iter().find(|object| {
            let of = text_at(object, "/metadata/namespace");
            (text_at(object, "/kind"), text_at(object, "/metadata/name")) == (kind, name)
                && (of.is_empty() || of == namespace)
        })
    }

    /// Adds the classes that the manifests create to the existing ones, unless those could not be read.
    pub fn add_others_to(&self, snapshot: &mut Snapshot) {
        for object in &self.others {
            match text_at(object, "/kind") {
                "PriorityClass" if !snapshot.priority_classes.is_empty() => {
                    snapshot.priority_classes.extend(serde_json::from_value(object.clone()));
                }
                "RuntimeClass" => snapshot.runtime_classes.extend(serde_json::from_value(object.clone())),
                "ServiceAccount" => {
                    let text = |path| text_at(object, path).to_owned();
                    let name = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
                    snapshot.object_names.insert(name);
                }
                _ => {}
            }
        }
    }
}

/// A DaemonSet as written in a manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Its file, or `standard input`.
    file: String,
    object: Value,
    /// Whether it has no namespace.
    lacks_namespace: bool,
    /// Likely mistakes that kubectl accepts.
    warnings: Vec<String>,
}

impl Manifest {
    /// Returns the object, with its namespace.
    pub fn object(&self) -> &Value {
        &self.object
    }

    /// Returns the namespace.
    pub fn namespace(&self) -> &str {
        text_at(&self.object, "/metadata/namespace")
    }

    /// Returns whether the manifest itself has no namespace.
    pub fn lacks_namespace(&self) -> bool {
        self.lacks_namespace
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        text_at(&self.object, "/metadata/name")
    }

    /// Returns the patch that `kubectl apply` sends for an existing DaemonSet. Fails, as kubectl does, if lists cannot
    /// be merged, or the last applied configuration cannot be read.
    pub(super) fn client_side_patch(&self, live: &DaemonSet) -> Result<Value, ClusterError> {
        let cannot = |problem: String| {
            ClusterError::file(&*self.file, format!("DaemonSet {:?} cannot be merged: {problem}", self.name()))
        };
        let last_applied = match live.annotations.get(LAST_APPLIED_ANNOTATION) {
            Some(text) => serde_json::from_str(text)
                .map_err(|error| cannot(format!("annotation {LAST_APPLIED_ANNOTATION} is not JSON: {error}")))?,
            None => Value::Null,
        };
        let mut manifest = self.object.clone();
        if let Some(annotations) = manifest.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED_ANNOTATION);
        }
        let applied = manifest.to_string() + "\n";
        if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
            let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
            if annotations.is_null() {
                *annotations = json!({});
            }
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.insert(LAST_APPLIED_ANNOTATION.to_owned(), applied.into());
            }
        }
        strategic_merge::three_way_patch(&last_applied, &manifest, &live.object).map_err(cannot)
    }

    /// Returns the object that is stored if the manifest is applied, before the API server's defaults. Fails if
    /// `kubectl apply` cannot merge it either.
    pub fn merged(&self, live: Option<&DaemonSet>, how: Apply) -> Result<Value, ClusterError> {
        match (live, how) {
            (Some(live), Apply::ClientSide) => strategic_merge::patched(&live.object, self.client_side_patch(live)?)
                .map_err(|problem| ClusterError::file(&*self.file, problem)),
            (Some(live), Apply::ServerSide { .. }) => server_side_apply::applied(&live.object, &self.object)
                .map_err(|problem| ClusterError::file(&*self.file, problem)),
            (None, Apply::ClientSide) => Ok(self.without_nulls()),
            _ => Ok(self.object.clone()),
        }
    }

    /// Returns the object as `kubectl apply` creates it.
    pub(super) fn without_nulls(&self) -> Value {
        let mut object = self.object.clone();
        drop_nulls(&mut object);
        object
    }

    /// Returns the DaemonSet that is stored, given the merged manifest, and warnings. A live API server validates it in
    /// full. Fails if the API server would reject the DaemonSet for a reason that would make a preview wrong.
    pub fn validate(&self, merged: Value, snapshot: &Snapshot) -> Result<(DaemonSet, Vec<String>), ClusterError> {
        let is_advanced = text_at(&merged, "/apiVersion").starts_with(ADVANCED_GROUP);
        let refusals = |manifest: &Value, merged: &Value| match is_advanced {
            false => validation::problems_of_daemon_set(manifest, merged),
            // Its webhook validates the template as the API server does that of a DaemonSet.
            true => {
                let [manifest, merged] = [manifest, merged].map(|object| &object["spec"]["template"]);
                validation::problems_of_template(manifest, merged, "spec.template")
            }
        };
        let live = snapshot.daemon_set(self.namespace(), self.name());
        let live = live.filter(|live| (live.flavor() == Flavor::Advanced) == is_advanced);
        let mut refused = refusals(&self.object, &merged);
        if let Some(live) = live.filter(|_| !refused.is_empty()) {
            // An invalid stored object is accepted again: its server has other feature gates, or is of another release.
            let stored = refusals(&Value::Null, &live.object);
            refused.retain(|problem| stored.iter().all(|stored| !problem.is_like(stored)));
        }
        if !refused.is_empty() {
            return Err(self.invalid(&refused));
        }
        let daemon_set = self.daemon_set(merged)?;
        let mut problems =
            if is_advanced { daemon_set.spec.update_strategy.problems(Flavor::Advanced) } else { Vec::new() };
        // `ValidateDaemonSetSpecUpdate`, pkg/apis/apps/validation/validation.go, release 1.37.2.
        if let Some(live) = live.filter(|live| live.spec.selector != daemon_set.spec.selector) {
            let (old, new) = (&live.spec.selector, &daemon_set.spec.selector);
            let message = format!("Invalid value: {new}: field is immutable; the live one is {old}");
            problems.push(Problem { path: "spec.selector".to_owned(), message });
        }
        match problems.as_slice() {
            [] => Ok((daemon_set, self.warnings.clone())),
            problems => Err(self.invalid(problems)),
        }
    }

    /// Sets the namespace if there is none: the requested or else the default one. Fails if the DaemonSet has no name,
    /// or if another namespace is requested.
    fn set_namespace(&mut self, requested: Option<&str>, default: &str) -> Result<(), ClusterError> {
        let Manifest { file, object, lacks_namespace, warnings: _ } = self;
        if text_at(object, "/metadata/name").is_empty() {
            return Err(ClusterError::file(&**file, "its DaemonSet has no metadata.name"));
        }
        let given = text_at(object, "/metadata/namespace");
        if given.is_empty() {
            *lacks_namespace = true;
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.insert("namespace".to_owned(), requested.unwrap_or(default).into());
            }
        } else if let Some(requested) = requested.filter(|requested| *requested != given) {
            let problem = format!("its DaemonSet has namespace {given:?}, but {requested:?} is requested");
            let hint = Fix::new("omit -n, or use", Command::choice("-n", [given]));
            return Err(ClusterError::file(&**file, problem).hint(hint));
        }
        Ok(())
    }

    /// Returns the DaemonSet of an object, for example of this one with the API server's defaults. Fails if a field has
    /// a value of the wrong type.
    pub fn daemon_set(&self, object: Value) -> Result<DaemonSet, ClusterError> {
        DaemonSet::from_object(object).map_err(|error| {
            ClusterError::file(&*self.file, format!("DaemonSet {:?} cannot be read: {error}", self.name()))
        })
    }

    fn invalid(&self, problems: &[Problem]) -> ClusterError {
        let problems: Vec<_> = problems.iter().map(Problem::to_string).collect();
        ClusterError::file(&*self.file, format!("DaemonSet {:?} is invalid: {}", self.name(), problems.join("; ")))
            .hint("the API server would reject it too")
    }
}

/// Reads the DaemonSets and the other objects in manifests: in files, in the JSON and YAML files of directories, or,
/// for `-`, on standard input.
///
/// A DaemonSet without a namespace gets the requested one, or else the default one. Fails if a file cannot be read, if
/// there is no DaemonSet of `apps/v1`, if one has no name, or if another namespace is requested.
pub fn read_daemon_sets(
    paths: &[String],
    stdin: &mut dyn Read,
    requested_namespace: Option<&str>,
    default_namespace: &str,
) -> Result<Manifests, ClusterError> {
    let (mut manifests, mut others, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for path in paths {
        for file in files(path)? {
            let (name, objects, doubts) = read_objects(&file, stdin)?;
            let (daemon_sets, beside) = daemon_sets(objects, false);
            manifests.extend(daemon_sets.into_iter().map(|object| Manifest {
                file: name.to_owned(),
                object,
                lacks_namespace: false,
                warnings: Vec::new(),
            }));
            others.extend(beside);
            warnings.extend(doubts);
        }
    }
    if manifests.is_empty() {
        let name = if paths == ["-"] { STANDARD_INPUT.to_owned() } else { paths.join(", ") };
        return Err(no_daemon_set(&name, &others));
    }
    if is_dump(&others) {
        let what = "its nodes and pods are not looked at: -f previews only its DaemonSets; --from reads a dump";
        warnings.push(format!("{}: {what}", paths.join(", ")));
    }
    let mut known: BTreeMap<(String, String), String> = BTreeMap::new();
    for manifest in &mut manifests {
        manifest.set_namespace(requested_namespace, default_namespace)?;
        let key = (manifest.namespace().to_owned(), manifest.name().to_owned());
        if let Some(other) = known.insert(key, manifest.file.clone()) {
            let name = format!("DaemonSet {}/{}", manifest.namespace(), manifest.name());
            let problem = match other == manifest.file {
                true => format!("has {name} twice"),
                false => format!("{name} is also in {other}"),
            };
            return Err(ClusterError::file(&*manifest.file, problem).hint("remove one of them"));
        }
    }
    let namespace = requested_namespace.unwrap_or(default_namespace);
    for object in &mut others {
        let is_namespaced =
            matches!(text_at(object, "/kind"), "ServiceAccount" | "ConfigMap" | "PersistentVolumeClaim" | "Secret");
        if is_namespaced
            && text_at(object, "/metadata/namespace").is_empty()
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
    }
    Ok(Manifests { daemon_sets: manifests, others, warnings })
}

/// Reads the only DaemonSet or Advanced DaemonSet in a manifest. Fails for the same reasons as [`read_daemon_sets`],
/// and if there are several.
pub fn read_daemon_set_of_any_flavor(
    path: &str,
    stdin: &mut dyn Read,
    requested_namespace: Option<&str>,
    default_namespace: &str,
) -> Result<Manifest, ClusterError> {
    let (name, objects, warnings) = read_objects(path, stdin)?;
    let object = only_daemon_set(name, objects)?;
    let mut manifest = Manifest { file: name.to_owned(), object, lacks_namespace: false, warnings };
    manifest.set_namespace(requested_namespace, default_namespace)?;
    Ok(manifest)
}

/// Returns the files that a path denotes: itself or, as in kubectl, the JSON and YAML files of a directory, not
/// including subdirectories.
fn files(path: &str) -> Result<Vec<String>, ClusterError> {
    if path == "-" || !Path::new(path).is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| text::io_error(path, &error))? {
        let entry = entry.map_err(|error| text::io_error(path, &error))?.path();
        let is_manifest =
            entry.extension().is_some_and(|extension| ["json", "yaml", "yml"].iter().any(|one| extension == *one));
        if is_manifest && entry.is_file() {
            files.push(entry.to_string_lossy().into_owned());
        }
    }
    files.sort();
    Ok(files)
}

/// Reads the pod template of the only DaemonSet or Advanced DaemonSet in a manifest, from a file or, for `-`, from standard input;
/// returns warnings, too. Fails if the manifest cannot be read, or has no DaemonSet, several, or one without a template.
pub fn read_template(path: &str, stdin: &mut dyn Read) -> Result<(Value, Vec<String>), ClusterError> {
    let (name, objects, warnings) = read_objects(path, stdin)?;
    let mut object = only_daemon_set(name, objects)?;
    match object.pointer_mut("/spec/template").map(Value::take) {
        Some(template @ Value::Object(_)) => Ok((template, warnings)),
        _ => Err(ClusterError::file(name, "its DaemonSet has no spec.template")),
    }
}

/// Reads the only Node in a manifest, from a file or, for `-`, from standard input; returns warnings, too. Allocatable resources
/// default to the capacity. Fails if the manifest cannot be read, or has no Node, several, or one without resources.
pub fn read_node(path: &str, stdin: &mut dyn Read) -> Result<(Node, Vec<String>), ClusterError> {
    let (name, objects, mut warnings) = read_objects(path, stdin)?;
    let mut nodes: Vec<Value> = objects.into_iter().filter(|object| text_at(object, "/kind") == "Node").collect();
    let (Some(mut object), true) = (nodes.pop(), nodes.is_empty()) else {
        return Err(ClusterError::file(name, "it does not have exactly one Node"));
    };
    if object.pointer("/status/allocatable").is_none() {
        let Some(capacity) = object.pointer("/status/capacity").cloned() else {
            let error = ClusterError::file(name, "its Node has no status.allocatable");
            return Err(error.hint("add status.allocatable with cpu, memory and pods"));
        };
        object["status"]["allocatable"] = capacity;
        warnings.push(format!("{name}: the Node has no status.allocatable; its capacity is taken for it"));
    }
    let node = Node::deserialize(&object);
    let node = node.map_err(|error| ClusterError::file(name, format!("its Node cannot be read: {error}")))?;
    Ok((node, warnings))
}

/// Returns the name of a manifest in errors, all objects in it, including those in lists, and warnings. If a key is
/// duplicated, the last one is used, as in kubectl, with a warning.
fn read_objects<'a>(path: &'a str, stdin: &mut dyn Read) -> Result<(&'a str, Vec<Value>, Vec<String>), ClusterError> {
    let (name, text) = match path {
        "-" => (STANDARD_INPUT, Text::new(STANDARD_INPUT, stdin)?.into_string()?),
        path => (path, Text::open(Path::new(path))?.into_string()?),
    };
    let (text, mut warnings) = (text.as_str(), Vec::new());
    let documents: Vec<Value> = match text::format(name, text)? {
        // YAML includes JSON, and allows separators between documents.
        Format::Json if !text.lines().any(|line| line.trim_end() == "---") => serde_json::Deserializer::from_str(text)
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(|error| json_error(name, &error))?,
        Format::Json | Format::Yaml => documents(text)
            .into_iter()
            .map(|document| {
                yaml::value(document).or_else(|problem| match yaml::value_with_duplicate_keys(document) {
                    Ok(value) => {
                        warnings.push(format!("{name}: {problem}; kubectl accepts it, and the last one counts"));
                        Ok(value)
                    }
                    Err(_) => Err(problem),
                })
            })
            .collect::<Result<_, _>>()
            .map_err(|problem| ClusterError::file(name, problem))?,
    };
    let mut objects = Vec::new();
    for mut document in documents {
        convert_whole_numbers(&mut document);
        // In a typed list, the items may lack the type, which follows from the kind of the list.
        let (version, kind) = (document["apiVersion"].clone(), text_at(&document, "/kind").to_owned());
        let item_kind = kind.strip_suffix("List").filter(|_| document["items"].is_array());
        match (item_kind, document.get_mut("items").map(Value::take)) {
            (Some(kind), Some(Value::Array(items))) => objects.extend(items.into_iter().map(|mut item| {
                if let (false, Value::Object(fields)) = (kind.is_empty(), &mut item) {
                    fields.entry("apiVersion").or_insert_with(|| version.clone());
                    fields.entry("kind").or_insert_with(|| kind.into());
                }
                item
            })),
            (_, items) => {
                if let Some(items) = items {
                    document["items"] = items;
                }
                objects.push(document);
            }
        }
    }
    Ok((name, objects, warnings))
}

/// Converts numbers such as 30.0 to integers, as kubectl sends them.
fn convert_whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|float| float.fract() == 0.0).map(|float| format!("{float:.0}"));
            if let Some(whole) = whole.and_then(|digits| digits.parse::<i64>().ok()).filter(|_| !number.is_i64()) {
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(convert_whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(convert_whole_numbers),
        _ => {}
    }
}

fn text_at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the DaemonSets, and the other objects.
fn daemon_sets(objects: Vec<Value>, advanced_too: bool) -> (Vec<Value>, Vec<Value>) {
    objects.into_iter().partition(|object| match (text_at(object, "/apiVersion"), text_at(object, "/kind")) {
        (version, "DaemonSet") => version == "apps/v1" || (advanced_too && version.starts_with(ADVANCED_GROUP)),
        _ => false,
    })
}

fn only_daemon_set(name: &str, objects: Vec<Value>) -> Result<Value, ClusterError> {
    let (mut daemon_sets, others) = daemon_sets(objects, true);
    match daemon_sets.as_slice() {
        [one] if text_at(one, "/metadata/name").is_empty() => {
            Err(ClusterError::file(name, "its DaemonSet has no metadata.name"))
        }
        [_] => Ok(daemon_sets.remove(0)),
        [] => Err(no_daemon_set(name, &others)),
        several => {
            let label = |object| match (text_at(object, "/metadata/namespace"), text_at(object, "/metadata/name")) {
                ("", name) => name.to_owned(),
                (namespace, name) => format!("{namespace}/{name}"),
            };
            let names: Vec<_> = several.iter().map(label).collect();
            Err(ClusterError::file(name, format!("has {} DaemonSets: {}", names.len(), names.join(", ")))
                .hint(if is_dump(&others) { IS_DUMP } else { "pass a manifest with one of them" }))
        }
    }
}

const IS_DUMP: &str = "it is a dump, which --from takes; -f takes a manifest, such as one of these DaemonSets";

/// Returns whether the objects come from a cluster. Manifests may contain pods, too, such as the tests of a Helm chart.
fn is_dump(objects: &[Value]) -> bool {
    objects.iter().any(|object| {
        matches!(text_at(object, "/kind"), "Node" | "Pod" | "ControllerRevision" | "Event")
            && !text_at(object, "/metadata/uid").is_empty()
    })
}

/// Builds the error for manifests without a DaemonSet, given the objects of other kinds.
fn no_daemon_set(name: &str, objects: &[Value]) -> ClusterError {
    let mut others: BTreeMap<String, usize> = BTreeMap::new();
    for object in objects {
        let label = match text_at(object, "/kind") {
            "" => continue,
            "DaemonSet" => format!("{} DaemonSet", text_at(object, "/apiVersion")).trim().to_owned(),
            kind => kind.to_owned(),
        };
        *others.entry(label).or_default() += 1;
    }
    let old = others.keys().find(|kind| kind.ends_with("DaemonSet")).map(|kind| match kind.as_str() {
        "extensions/v1beta1 DaemonSet" | "apps/v1beta2 DaemonSet" => {
            "that version is no longer served: write `apiVersion: apps/v1`"
        }
        "DaemonSet" => "write `apiVersion: apps/v1` into it",
        _ => "only DaemonSets of `apps/v1` are understood",
    });
    let kustomization = others
        .contains_key("Kustomization")
        .then_some("for a kustomization, pipe the output of `kubectl kustomize DIR` into -f -");
    let found: Vec<_> = others.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
    let problem = match found.as_slice() {
        [] => "has no Kubernetes object".to_owned(),
        found => format!("has no DaemonSet of apps/v1, only {}", found.join(", ")),
    };
    ClusterError::file(name, problem).hint(old.or(kustomization).unwrap_or("-f takes manifests of DaemonSets"))
}

/// Builds the error for invalid JSON, with its position.
fn json_error(name: &str, error: &serde_json::Error) -> ClusterError {
    if error.is_eof() {
        let problem =
            format!("the JSON breaks off at line {}, column {}: the file is truncated", error.line(), error.column());
        return ClusterError::file(name, problem).hint("copy the file again");
    }
    ClusterError::file(name, format!("broken JSON: {error}"))
}
