//! Reads the DaemonSets of manifests, for what-if questions.
//!
//! A manifest often also has a DaemonSet's ConfigMap and ServiceAccount; those are ignored.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::error::ClusterError;
use super::manifest_decoding::{DecodingProblems, decoding_problems};
use super::manifest_validation;
use super::text::{self, Format, STANDARD_INPUT, Text};
use super::yaml;
use crate::model::daemon_set::{ADVANCED_GROUP, DaemonSet};
use crate::model::snapshot::Snapshot;

/// The release whose rules [`Manifest::validate`] applies: 1.36.
const MINOR: u32 = 36;

/// A DaemonSet as it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The file that it is in, or `standard input`.
    file: String,
    object: Value,
    /// Whether it says no namespace.
    lacks_namespace: bool,
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

    /// Returns whether the manifest itself says no namespace.
    pub fn lacks_namespace(&self) -> bool {
        self.lacks_namespace
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        text_at(&self.object, "/metadata/name")
    }

    /// Returns the DaemonSet if the rules of Kubernetes 1.36 allow it, and warnings.
    ///
    /// Fields that 1.36 does not have are an error, unless the server or a node is of a later release. Of an Advanced
    /// DaemonSet, the API server may reject more than its template and its selector.
    ///
    /// # Errors
    ///
    /// Fails if the API server would reject the DaemonSet.
    pub fn validate(
        &self,
        snapshot: &Snapshot,
        server_version: Option<&str>,
    ) -> Result<(DaemonSet, Vec<String>), ClusterError> {
        let kubelets = snapshot.nodes.iter().map(|node| node.status.node_info.kubelet_version.as_str());
        let minor = |version: &str| -> Option<u32> {
            let minor = version.strip_prefix("v1.")?.split('.').next()?;
            minor.trim_end_matches('+').parse().ok()
        };
        let is_later = kubelets.chain(server_version).filter_map(minor).any(|minor| minor > MINOR);
        let (daemon_set, warnings) = self.validate_for(is_later)?;
        let same_name =
            |live: &&DaemonSet| (&*live.metadata.namespace, self.name()) == (self.namespace(), &*live.metadata.name);
        let live = snapshot.daemon_sets.iter().find(same_name).filter(|live| live.flavor() == daemon_set.flavor());
        // `ValidateDaemonSetSpecUpdate`, pkg/apis/apps/validation/validation.go, release 1.36.3.
        if let Some(live) = live.filter(|live| live.spec.selector != daemon_set.spec.selector) {
            let (old, new) = (&live.spec.selector, &daemon_set.spec.selector);
            let problem = format!("spec.selector: Invalid value: {new}: field is immutable; the live one is {old}");
            return Err(self.invalid(&[problem]));
        }
        Ok((daemon_set, warnings))
    }

    /// Validates the DaemonSet for a release that may have fields which Kubernetes 1.36 does not have.
    fn validate_for(&self, is_later: bool) -> Result<(DaemonSet, Vec<String>), ClusterError> {
        let DecodingProblems { mut errors, mut unknown_fields } =
            match text_at(&self.object, "/apiVersion").starts_with(ADVANCED_GROUP) {
                true => decoding_problems(&as_apps(&self.object)),
                false => decoding_problems(&self.object),
            };
        if !is_later {
            errors.append(&mut unknown_fields);
        }
        if !errors.is_empty() {
            return Err(self.invalid(&errors));
        }
        let daemon_set = self.daemon_set(self.object.clone())?;
        let problems = manifest_validation::problems(&daemon_set);
        if !problems.is_empty() {
            return Err(self.invalid(&problems));
        }
        let warnings = unknown_fields.iter().map(|field| format!("{}: {field}; it is ignored", self.file)).collect();
        Ok((daemon_set, warnings))
    }

    /// Sets the namespace if there is none: the requested one, or else the default one.
    ///
    /// # Errors
    ///
    /// Fails if the DaemonSet has no name, and if another namespace is requested.
    fn set_namespace(&mut self, requested: Option<&str>, default: &str) -> Result<(), ClusterError> {
        let Manifest { file, object, lacks_namespace } = self;
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
            let hint = format!("use `-n {given}`, or omit -n");
            return Err(ClusterError::file(&**file, problem).hint(hint));
        }
        Ok(())
    }

    /// Returns the DaemonSet of an object, for example of this one after the API server added its defaults.
    ///
    /// # Errors
    ///
    /// Fails if a field has a value of the wrong type.
    pub fn daemon_set(&self, object: Value) -> Result<DaemonSet, ClusterError> {
        DaemonSet::from_object(object).map_err(|error| {
            ClusterError::file(&*self.file, format!("DaemonSet {:?} cannot be read: {error}", self.name()))
        })
    }

    fn invalid(&self, problems: &[String]) -> ClusterError {
        ClusterError::file(&*self.file, format!("DaemonSet {:?} is invalid: {}", self.name(), problems.join("; ")))
            .hint("the API server would reject it too")
    }
}

/// Reads the DaemonSets of manifests: of files, of the JSON and YAML files of directories, or, for `-`, of standard
/// input. Other objects are ignored.
///
/// A DaemonSet without a namespace gets the requested one, or else the default one.
///
/// # Errors
///
/// Fails if a file cannot be read, if there is no DaemonSet of `apps/v1`, if one has no name, and if another namespace
/// is requested.
pub fn read_daemon_sets(
    paths: &[String],
    stdin: &mut dyn Read,
    requested_namespace: Option<&str>,
    default_namespace: &str,
) -> Result<Vec<Manifest>, ClusterError> {
    let mut manifests = Vec::new();
    let mut others = BTreeMap::new();
    for path in paths {
        for file in files(path)? {
            let (name, text) = read_text(&file, stdin)?;
            let found = daemon_sets(objects(name, &text)?, false, &mut others);
            manifests.extend(found.into_iter().map(|object| Manifest {
                file: name.to_owned(),
                object,
                lacks_namespace: false,
            }));
        }
    }
    if manifests.is_empty() {
        let name = if paths == ["-"] { STANDARD_INPUT.to_owned() } else { paths.join(", ") };
        return Err(no_daemon_set(&name, &others));
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
    Ok(manifests)
}

/// Reads the one DaemonSet or Advanced DaemonSet of a manifest, as [`read_daemon_sets`] does.
///
/// # Errors
///
/// Fails for the same reasons, and if there are several.
pub fn read_daemon_set_of_any_flavor(
    path: &str,
    stdin: &mut dyn Read,
    requested_namespace: Option<&str>,
    default_namespace: &str,
) -> Result<Manifest, ClusterError> {
    let (name, text) = read_text(path, stdin)?;
    let object = only_daemon_set(name, objects(name, &text)?)?;
    let mut manifest = Manifest { file: name.to_owned(), object, lacks_namespace: false };
    manifest.set_namespace(requested_namespace, default_namespace)?;
    Ok(manifest)
}

/// Returns the files that a path means: itself, or as for kubectl the JSON and YAML files of a directory, without those
/// of directories in it.
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

/// Returns what Advanced DaemonSets have in common with those of Kubernetes.
fn as_apps(advanced: &Value) -> Value {
    let mut common = advanced.clone();
    if let Some(spec) = common.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|field, _| matches!(field.as_str(), "selector" | "template"));
    }
    common
}

/// Reads the pod template of the one DaemonSet or Advanced DaemonSet in a manifest, from a file or, for `-`, from
/// standard input.
///
/// # Errors
///
/// Fails if the manifest cannot be read, or has no DaemonSet, several, or one without a template.
pub fn read_template(path: &str, stdin: &mut dyn Read) -> Result<Value, ClusterError> {
    let (name, text) = read_text(path, stdin)?;
    let mut object = only_daemon_set(name, objects(name, &text)?)?;
    match object.pointer_mut("/spec/template").map(Value::take) {
        Some(template @ Value::Object(_)) => Ok(template),
        _ => Err(ClusterError::file(name, "its DaemonSet has no spec.template")),
    }
}

fn read_text<'a>(path: &'a str, stdin: &mut dyn Read) -> Result<(&'a str, String), ClusterError> {
    if path == "-" {
        return Ok((STANDARD_INPUT, Text::new(STANDARD_INPUT, stdin)?.into_string()?));
    }
    Ok((path, Text::open(Path::new(path))?.into_string()?))
}

/// Returns every object, those in lists too.
fn objects(name: &str, text: &str) -> Result<Vec<Value>, ClusterError> {
    let documents: Vec<Value> = match text::format(name, text)? {
        // YAML includes JSON, and has a separator of documents.
        Format::Json if !text.lines().any(|line| line.trim_end() == "---") => serde_json::Deserializer::from_str(text)
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(|error| json_error(name, &error))?,
        Format::Json | Format::Yaml => yaml::documents(text)
            .into_iter()
            .map(yaml::value)
            .collect::<Result<_, _>>()
            .map_err(|problem| ClusterError::file(name, problem))?,
    };
    let mut objects = Vec::new();
    for mut document in documents {
        convert_whole_numbers(&mut document);
        let items =
            (text_at(&document, "/kind") == "List").then(|| document.get_mut("items").map(Value::take)).flatten();
        match items {
            Some(Value::Array(items)) => objects.extend(items),
            _ => objects.push(document),
        }
    }
    Ok(objects)
}

/// Writes numbers such as 30.0 as integers, as kubectl sends them.
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

/// Retains the DaemonSets, and counts the other kinds.
fn daemon_sets(objects: Vec<Value>, advanced_too: bool, others: &mut BTreeMap<String, usize>) -> Vec<Value> {
    let mut daemon_sets = Vec::new();
    for object in objects {
        let api_version = text_at(&object, "/apiVersion");
        match (api_version, text_at(&object, "/kind")) {
            ("apps/v1", "DaemonSet") => daemon_sets.push(object),
            (version, "DaemonSet") if advanced_too && version.starts_with(ADVANCED_GROUP) => daemon_sets.push(object),
            (_, "") => {}
            (_, kind) => {
                let label = if kind == "DaemonSet" { format!("{api_version} DaemonSet") } else { kind.to_owned() };
                *others.entry(label.trim().to_owned()).or_default() += 1;
            }
        }
    }
    daemon_sets
}

fn only_daemon_set(name: &str, objects: Vec<Value>) -> Result<Value, ClusterError> {
    let mut others = BTreeMap::new();
    let mut daemon_sets = daemon_sets(objects, true, &mut others);
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
                .hint("pass a manifest with one of them"))
        }
    }
}

/// Returns the error about manifests without a DaemonSet, given the number of objects of other kinds.
fn no_daemon_set(name: &str, others: &BTreeMap<String, usize>) -> ClusterError {
    let old = others.keys().find(|kind| kind.ends_with("DaemonSet")).map(|kind| match kind.as_str() {
        "extensions/v1beta1 DaemonSet" | "apps/v1beta2 DaemonSet" => {
            "that version is no longer served: write `apiVersion: apps/v1`"
        }
        "DaemonSet" => "write `apiVersion: apps/v1` into it",
        _ => "only DaemonSets of `apps/v1` are understood",
    });
    let kustomization = others
        .contains_key("Kustomization")
        .then_some("for a kustomization: kubectl kustomize DIR | kubectl ds coverage -f -");
    let found: Vec<_> = others.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
    let problem = match found.as_slice() {
        [] => "has no Kubernetes object".to_owned(),
        found => format!("has no DaemonSet of apps/v1, only {}", found.join(", ")),
    };
    ClusterError::file(name, problem).hint(old.or(kustomization).unwrap_or("-f takes manifests of DaemonSets"))
}

/// Says what is wrong with JSON, and where.
fn json_error(name: &str, error: &serde_json::Error) -> ClusterError {
    if error.is_eof() {
        let problem =
            format!("the JSON breaks off at line {}, column {}: the file is truncated", error.line(), error.column());
        return ClusterError::file(name, problem).hint("copy the file again");
    }
    ClusterError::file(name, format!("broken JSON: {error}"))
}
