//! Reads the one DaemonSet of a manifest, for what-if questions.
//!
//! A manifest often holds a DaemonSet's ConfigMap and ServiceAccount too; those are left alone.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::error::ClusterError;
use super::objects::json_error;
use super::text::{self, Format, STANDARD_INPUT};
use super::yaml;
use crate::model::daemon_set::{ADVANCED_GROUP, DaemonSet, UpdateStrategy};
use crate::model::int_or_percent::IntOrPercent;

/// Reads the DaemonSet of a manifest, from a file or, for `-`, from standard input.
///
/// Its namespace is its own; where it has none, the one asked for, and else the default one.
///
/// # Errors
///
/// Fails where the manifest cannot be read, holds no DaemonSet of `apps/v1` or several, where another
/// namespace is asked for, and where the API would refuse it.
pub fn read_daemon_set(
    path: &str,
    stdin: &mut dyn Read,
    asked_namespace: Option<&str>,
    default_namespace: &str,
) -> Result<DaemonSet, ClusterError> {
    let (name, text) = read_text(path, stdin)?;
    let mut object = only_daemon_set(name, objects(name, text::without_mark(&text))?, false)?;
    let given = text_at(&object, "/metadata/namespace");
    if given.is_empty() {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("namespace".to_owned(), asked_namespace.unwrap_or(default_namespace).into());
        }
    } else if let Some(asked) = asked_namespace.filter(|asked| *asked != given) {
        let problem = format!("its DaemonSet is of namespace {given:?}, and {asked:?} is asked for");
        return Err(ClusterError::file(name, problem).hint(format!("pass `-n {given}`, or leave -n out")));
    }
    let label = text_at(&object, "/metadata/name").to_owned();
    let daemon_set = DaemonSet::from_object(object)
        .map_err(|error| ClusterError::file(name, format!("DaemonSet {label:?} cannot be read: {error}")))?;
    let problems = problems(&daemon_set);
    if problems.is_empty() {
        return Ok(daemon_set);
    }
    Err(ClusterError::file(name, format!("the DaemonSet {label:?} is invalid: {}", problems.join("; ")))
        .hint("the API server would refuse it too; `kubectl apply --dry-run=server` checks everything"))
}

/// Reads the pod template of the one DaemonSet in a manifest, an Advanced DaemonSet's too, from a file or, for
/// `-`, from standard input.
///
/// # Errors
///
/// Fails where the manifest cannot be read, and where it holds no DaemonSet, several, or one without a template.
pub fn read_template(path: &str, stdin: &mut dyn Read) -> Result<Value, ClusterError> {
    let (name, text) = read_text(path, stdin)?;
    let mut object = only_daemon_set(name, objects(name, text::without_mark(&text))?, true)?;
    match object.pointer_mut("/spec/template").map(Value::take) {
        Some(template @ Value::Object(_)) => Ok(template),
        _ => Err(ClusterError::file(name, "its DaemonSet has no spec.template")),
    }
}

fn read_text<'a>(path: &'a str, stdin: &mut dyn Read) -> Result<(&'a str, String), ClusterError> {
    if path == "-" {
        return Ok((STANDARD_INPUT, text::read(STANDARD_INPUT, stdin)?));
    }
    Ok((path, text::read_file(Path::new(path))?))
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
                [] => "holds no DaemonSet, nor any other Kubernetes object".to_owned(),
                found => format!("holds no DaemonSet of apps/v1, only {}", found.join(", ")),
            };
            Err(ClusterError::file(name, problem).hint(old.unwrap_or("give the manifest of one DaemonSet")))
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

/// Returns what the API would refuse, as far as it is cheap to see.
///
/// Ported from `ValidateDaemonSetSpec` and `ValidateRollingUpdateDaemonSet`,
/// pkg/apis/apps/validation/validation.go, release 1.36.3; the pod's own validation is left out but for
/// containers that are missing.
fn problems(daemon_set: &DaemonSet) -> Vec<String> {
    let spec = &daemon_set.spec;
    let field = |pointer: &str| daemon_set.object.pointer(pointer).filter(|value| !value.is_null());
    let mut problems = Vec::new();
    let mut check = |holds: bool, problem: &str| {
        if !holds {
            problems.push(problem.to_owned());
        }
    };
    if field("/spec/selector").is_none() {
        check(false, "spec.selector is required");
    } else if spec.selector.is_empty() {
        check(false, "spec.selector is empty");
    } else {
        let matches = spec.selector.matches(&spec.template.metadata.labels);
        check(matches, "spec.selector does not match the labels of spec.template");
    }
    check(!spec.template.spec.containers.is_empty(), "spec.template.spec.containers is required");
    let restart_policy = field("/spec/template/spec/restartPolicy").and_then(Value::as_str);
    check(
        restart_policy.is_none_or(|policy| policy == "Always"),
        "spec.template.spec.restartPolicy can only be Always",
    );
    let has_deadline = field("/spec/template/spec/activeDeadlineSeconds").is_some();
    check(!has_deadline, "spec.template.spec.activeDeadlineSeconds is not allowed");
    check(spec.min_ready_seconds >= 0, "spec.minReadySeconds is negative");
    match &spec.update_strategy {
        UpdateStrategy::OnDelete => {}
        UpdateStrategy::RollingUpdate(rolling) => {
            let number = |amount| match amount {
                IntOrPercent::Int(number) | IntOrPercent::Percent(number) => number,
            };
            let fits = |amount| match amount {
                IntOrPercent::Int(number) => number >= 0,
                IntOrPercent::Percent(number) => (0..=100).contains(&number),
            };
            let (unavailable, surge) = (rolling.max_unavailable, rolling.max_surge);
            check(fits(unavailable), "maxUnavailable is neither a count nor a percentage up to 100%");
            check(fits(surge), "maxSurge is neither a count nor a percentage up to 100%");
            check(
                number(unavailable) == 0 || number(surge) == 0,
                "maxSurge may not be set when maxUnavailable is not 0 (it is 1 where it is left out)",
            );
            check(number(unavailable) != 0 || number(surge) != 0, "maxUnavailable cannot be 0 when maxSurge is 0");
        }
        UpdateStrategy::Unknown(_) => check(false, "spec.updateStrategy.type is neither RollingUpdate nor OnDelete"),
    }
    problems
}
