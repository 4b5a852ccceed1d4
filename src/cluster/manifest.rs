//! Reads the one DaemonSet of a manifest, for what-if questions.
//!
//! A manifest often also has the DaemonSet's ConfigMap and ServiceAccount; those are ignored.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::error::ClusterError;
use super::manifest_validation;
use super::text::{self, Format, STANDARD_INPUT, Text};
use super::yaml;
use crate::model::daemon_set::{ADVANCED_GROUP, DaemonSet};

/// Reads the DaemonSet of a manifest, from a file or, for `-`, from standard input.
///
/// If it has no namespace, it gets the requested one, or else the default one.
///
/// # Errors
///
/// Fails if the manifest cannot be read, has no DaemonSet of `apps/v1` or several, if another namespace is
/// requested, and if the API server would reject the DaemonSet.
pub fn read_daemon_set(
    path: &str,
    stdin: &mut dyn Read,
    asked_namespace: Option<&str>,
    default_namespace: &str,
) -> Result<DaemonSet, ClusterError> {
    let (name, text) = read_text(path, stdin)?;
    let mut object = only_daemon_set(name, objects(name, &text)?, false)?;
    let given = text_at(&object, "/metadata/namespace");
    if given.is_empty() {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("namespace".to_owned(), asked_namespace.unwrap_or(default_namespace).into());
        }
    } else if let Some(asked) = asked_namespace.filter(|asked| *asked != given) {
        let problem = format!("its DaemonSet has namespace {given:?}, but {asked:?} is requested");
        return Err(ClusterError::file(name, problem).hint(format!("use `-n {given}`, or omit -n")));
    }
    let label = text_at(&object, "/metadata/name").to_owned();
    let refuse = |problems: &[String]| {
        ClusterError::file(name, format!("DaemonSet {label:?} is invalid: {}", problems.join("; ")))
            .hint("the API server would reject it too")
    };
    let problems = manifest_validation::decoding_problems(&object);
    if !problems.is_empty() {
        return Err(refuse(&problems));
    }
    let daemon_set = DaemonSet::from_object(object)
        .map_err(|error| ClusterError::file(name, format!("DaemonSet {label:?} cannot be read: {error}")))?;
    let problems = manifest_validation::problems(&daemon_set);
    if problems.is_empty() { Ok(daemon_set) } else { Err(refuse(&problems)) }
}

/// Reads the pod template of the one DaemonSet or Advanced DaemonSet in a manifest, from a file or, for `-`, from
/// standard input.
///
/// # Errors
///
/// Fails if the manifest cannot be read, or has no DaemonSet, several, or one without a template.
pub fn read_template(path: &str, stdin: &mut dyn Read) -> Result<Value, ClusterError> {
    let (name, text) = read_text(path, stdin)?;
    let mut object = only_daemon_set(name, objects(name, &text)?, true)?;
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
        Format::Json => serde_json::Deserializer::from_str(text)
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(|error| json_error(name, &error))?,
        Format::Yaml => yaml::documents(text)
            .into_iter()
            .map(yaml::value)
            .collect::<Result<_, _>>()
            .map_err(|problem| ClusterError::file(name, problem))?,
    };
    let mut objects = Vec::new();
    for mut document in documents {
        let items =
            (text_at(&document, "/kind") == "List").then(|| document.get_mut("items").map(Value::take)).flatten();
        match items {
            Some(Value::Array(items)) => objects.extend(items),
            _ => objects.push(document),
        }
    }
    Ok(objects)
}

fn text_at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn only_daemon_set(name: &str, objects: Vec<Value>, advanced_too: bool) -> Result<Value, ClusterError> {
    let mut others: BTreeMap<String, usize> = BTreeMap::new();
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
    match daemon_sets.as_slice() {
        [one] if text_at(one, "/metadata/name").is_empty() => {
            Err(ClusterError::file(name, "its DaemonSet has no metadata.name"))
        }
        [_] => Ok(daemon_sets.remove(0)),
        [] => {
            let old = others.keys().find(|kind| kind.ends_with("DaemonSet")).map(|kind| match kind.as_str() {
                "extensions/v1beta1 DaemonSet" | "apps/v1beta2 DaemonSet" => {
                    "that version is no longer served: write `apiVersion: apps/v1`"
                }
                "DaemonSet" => "write `apiVersion: apps/v1` into it",
                _ => "only DaemonSets of `apps/v1` are understood",
            });
            let found: Vec<_> = others.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
            let problem = match found.as_slice() {
                [] => "has no Kubernetes object".to_owned(),
                found => format!("holds no DaemonSet of apps/v1, only {}", found.join(", ")),
            };
            Err(ClusterError::file(name, problem).hint(old.unwrap_or("-f takes the manifest of one DaemonSet")))
        }
        several => {
            let label = |object| match (text_at(object, "/metadata/namespace"), text_at(object, "/metadata/name")) {
                ("", name) => name.to_owned(),
                (namespace, name) => format!("{namespace}/{name}"),
            };
            let names: Vec<_> = several.iter().map(label).collect();
            Err(ClusterError::file(name, format!("holds {} DaemonSets: {}", names.len(), names.join(", ")))
                .hint("give a manifest with one of them"))
        }
    }
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
