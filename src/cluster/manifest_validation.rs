//! What the API server would reject in a DaemonSet that it could decode: values that are not allowed.
//!
//! Messages and paths are those of k8s.io/apimachinery's `field.Error`, and the rules are those of
//! pkg/apis/core/validation/validation.go and pkg/apis/apps/validation/validation.go, release 1.36.3, except for what
//! admission plugins and feature gates decide.

use std::collections::BTreeMap;

use serde_json::Value;

use super::manifest_decoding::{join, quantity};
use crate::model::daemon_set::DaemonSet;
use crate::model::pod::{NodeSelectorRequirement, Toleration};
use crate::model::quantity::Quantity;
use crate::model::selector::{is_label_key, is_label_value};

/// Returns every problem that the validation of a DaemonSet finds, with its field path.
pub(super) fn problems(daemon_set: &DaemonSet) -> Vec<String> {
    let mut problems = Vec::new();
    spec_problems(daemon_set, &mut problems);
    let spec = &daemon_set.spec.template.spec;
    let path = "spec.template.spec";
    let mut add = |path: String, problem: String| problems.push(format!("{path}: {problem}"));
    for (key, value) in &spec.node_selector {
        label(&format!("{path}.nodeSelector"), key, value, &mut add);
    }
    for (key, value) in &daemon_set.spec.template.metadata.labels {
        label("spec.template.metadata.labels", key, value, &mut add);
    }
    for (number, entry) in spec.tolerations.iter().enumerate() {
        toleration(&format!("{path}.tolerations[{number}]"), entry, &mut add);
    }
    let required = format!("{path}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution");
    if let Some(selector) = spec.required_node_affinity() {
        let terms = format!("{required}.nodeSelectorTerms");
        if selector.node_selector_terms.is_empty() {
            add(terms.clone(), "Required value: must have at least one node selector term".to_owned());
        }
        for (number, term) in selector.node_selector_terms.iter().enumerate() {
            for (index, requirement) in term.match_expressions.iter().enumerate() {
                expression(&format!("{terms}[{number}].matchExpressions[{index}]"), requirement, &mut add);
            }
            for (index, requirement) in term.match_fields.iter().enumerate() {
                field_requirement(&format!("{terms}[{number}].matchFields[{index}]"), requirement, &mut add);
            }
        }
    }
    let volumes: Vec<&str> = daemon_set
        .object
        .pointer("/spec/template/spec/volumes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|volume| volume["name"].as_str())
        .collect();
    for list in ["initContainers", "containers"] {
        let containers = daemon_set.object.pointer(&format!("/spec/template/spec/{list}")).and_then(Value::as_array);
        for (number, entry) in containers.into_iter().flatten().enumerate() {
            container(&format!("{path}.{list}[{number}]"), entry, &volumes, &mut add);
        }
    }
    problems
}

/// Ported from `ValidateDaemonSetSpec`, pkg/apis/apps/validation/validation.go.
fn spec_problems(daemon_set: &DaemonSet, problems: &mut Vec<String>) {
    let spec = &daemon_set.spec;
    let field = |pointer: &str| daemon_set.object.pointer(pointer).filter(|value| !value.is_null());
    let mut check = |holds: bool, problem: &str| {
        if !holds {
            problems.push(problem.to_owned());
        }
    };
    if field("/spec/selector").is_none() {
        check(false, "spec.selector: Required value");
    } else if spec.selector.is_empty() {
        check(false, "spec.selector: Invalid value: empty selector is invalid for daemonset");
    } else {
        let matches = spec.selector.matches(&spec.template.metadata.labels);
        check(matches, "spec.template.metadata.labels: Invalid value: `selector` does not match template `labels`");
    }
    check(!spec.template.spec.containers.is_empty(), "spec.template.spec.containers: Required value");
    let restart_policy = field("/spec/template/spec/restartPolicy").and_then(Value::as_str);
    check(
        restart_policy.is_none_or(|policy| matches!(policy, "" | "Always")),
        "spec.template.spec.restartPolicy: Unsupported value: supported values: \"Always\"",
    );
    let has_deadline = field("/spec/template/spec/activeDeadlineSeconds").is_some();
    check(
        !has_deadline,
        "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in DaemonSet is not Supported",
    );
    let not_negative = "Invalid value: must be greater than or equal to 0";
    check(spec.min_ready_seconds >= 0, &format!("spec.minReadySeconds: {not_negative}"));
    let limit = spec.revision_history_limit;
    check(limit.is_none_or(|limit| limit >= 0), &format!("spec.revisionHistoryLimit: {not_negative}"));
    problems.extend(spec.update_strategy.problems(daemon_set.flavor()));
}

fn label(path: &str, key: &str, value: &str, add: &mut impl FnMut(String, String)) {
    if !is_label_key(key) {
        add(path.to_owned(), format!("Invalid value: {key:?}: must be a valid label key"));
    }
    if !is_label_value(value) {
        add(path.to_owned(), format!("Invalid value: {value:?}: must be a valid label value"));
    }
}

/// Ported from `ValidateTolerations`; whether `Lt` and `Gt` are allowed depends on a feature gate.
fn toleration(path: &str, toleration: &Toleration, add: &mut impl FnMut(String, String)) {
    let Toleration { key, operator, value, effect, toleration_seconds } = toleration;
    if key.is_empty() && operator != "Exists" {
        add(format!("{path}.operator"), format!("Invalid value: {operator:?}: must be Exists when `key` is empty"));
    }
    if !key.is_empty() && !is_label_key(key) {
        add(format!("{path}.key"), format!("Invalid value: {key:?}: must be a valid label key"));
    }
    if toleration_seconds.is_some() && effect != "NoExecute" {
        let problem = format!("Invalid value: {effect:?}: must be 'NoExecute' when `tolerationSeconds` is set");
        add(format!("{path}.effect"), problem);
    }
    match operator.as_str() {
        "" | "Equal" if !is_label_value(value) => {
            add(format!("{path}.value"), format!("Invalid value: {value:?}: must be a valid label value"));
        }
        "Exists" if !value.is_empty() => {
            let problem = format!("Invalid value: {value:?}: value must be empty when `operator` is 'Exists'");
            add(format!("{path}.operator"), problem);
        }
        _ => {}
    }
}

/// Ported from `ValidateNodeSelectorRequirement`.
fn expression(path: &str, requirement: &NodeSelectorRequirement, add: &mut impl FnMut(String, String)) {
    let NodeSelectorRequirement { key, operator, values } = requirement;
    let problem = match operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            Some("Required value: must be specified when `operator` is 'In' or 'NotIn'")
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            Some("Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        }
        "Gt" | "Lt" if values.len() != 1 => {
            Some("Required value: must be specified single value when `operator` is 'Lt' or 'Gt'")
        }
        _ => None,
    };
    if let Some(problem) = problem {
        add(format!("{path}.values"), problem.to_owned());
    }
    if !is_label_key(key) {
        add(format!("{path}.key"), format!("Invalid value: {key:?}: must be a valid label key"));
    }
    for (number, value) in values.iter().enumerate().filter(|(_, value)| !is_label_value(value)) {
        add(format!("{path}.values[{number}]"), format!("Invalid value: {value:?}: must be a valid label value"));
    }
}

/// Ported from `ValidateNodeFieldSelectorRequirement`.
fn field_requirement(path: &str, requirement: &NodeSelectorRequirement, add: &mut impl FnMut(String, String)) {
    let NodeSelectorRequirement { key, operator, values } = requirement;
    if !matches!(operator.as_str(), "In" | "NotIn") {
        add(format!("{path}.operator"), format!("Invalid value: {operator:?}: not a valid selector operator"));
    } else if values.len() != 1 {
        let problem =
            "Required value: must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
        add(format!("{path}.values"), problem.to_owned());
    }
    if key != "metadata.name" {
        add(format!("{path}.key"), format!("Invalid value: {key:?}: not a valid field selector key"));
    }
}

/// Checks what a container requires, its volume mounts and its resources.
fn container(path: &str, container: &Value, volumes: &[&str], add: &mut impl FnMut(String, String)) {
    for field in ["name", "image"] {
        if container[field].as_str().is_none_or(str::is_empty) {
            add(join(path, field), "Required value".to_owned());
        }
    }
    let mounts = container["volumeMounts"].as_array();
    for (number, mount) in mounts.into_iter().flatten().enumerate() {
        let name = mount["name"].as_str().unwrap_or_default();
        if !volumes.contains(&name) {
            add(format!("{path}.volumeMounts[{number}].name"), format!("Not found: {name:?}"));
        }
    }
    let ports = container["ports"].as_array();
    for (number, port) in ports.into_iter().flatten().enumerate() {
        if port["containerPort"].as_i64().is_none_or(|port| port == 0) {
            add(format!("{path}.ports[{number}].containerPort"), "Required value".to_owned());
        }
    }
    resources(&format!("{path}.resources"), &container["resources"], add);
}

/// Ported from `validateResourceRequirements`.
fn resources(path: &str, resources: &Value, add: &mut impl FnMut(String, String)) {
    let amounts = |list: &str| -> BTreeMap<&str, Quantity> {
        let amounts = resources[list].as_object().into_iter().flatten();
        amounts.filter_map(|(name, value)| Some((name.as_str(), quantity(value)?))).collect()
    };
    let (limits, requests) = (amounts("limits"), amounts("requests"));
    for (list, amounts) in [("limits", &limits), ("requests", &requests)] {
        for (name, amount) in amounts.iter().filter(|(_, amount)| amount.nanos().is_some_and(|nanos| nanos < 0)) {
            let problem = format!("Invalid value: {:?}: must be greater than or equal to 0", amount.text);
            add(format!("{path}.{list}[{name}]"), problem);
        }
    }
    for (name, request) in &requests {
        // `IsOvercommitAllowed`: huge pages and extended resources are not shared.
        let is_native = !name.contains('/') || name.contains("kubernetes.io/");
        let may_overcommit = is_native && !name.starts_with("hugepages-");
        match limits.get(name) {
            Some(limit) if request.nanos() > limit.nanos() => {
                let problem = format!("must be less than or equal to {name} limit of {}", limit.text);
                add(format!("{path}.requests"), format!("Invalid value: {:?}: {problem}", request.text));
            }
            Some(limit) if !may_overcommit && request.nanos() != limit.nanos() => {
                let problem = format!("must be equal to {name} limit of {}", limit.text);
                add(format!("{path}.requests"), format!("Invalid value: {:?}: {problem}", request.text));
            }
            None if !may_overcommit => {
                add(
                    format!("{path}.limits"),
                    "Required value: Limit must be set for non overcommitable resources".to_owned(),
                );
            }
            _ => {}
        }
    }
}
