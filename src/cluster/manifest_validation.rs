//! What would make the preview of a manifest wrong without an API server that validates it: required and misspelled fields,
//! a selector that its own pods do not match, and amounts that are not quantities.
//!
//! Messages and paths are those of k8s.io/apimachinery's `field.Error`.

use serde_json::Value;

use crate::model::daemon_set::DaemonSet;
use crate::model::quantity::Quantity;
use crate::model::template_types::{FieldKind, PodTemplateSpec, Type};

/// Returns the problems of a manifest, and of the DaemonSet that it is merged to.
pub(super) fn problems(manifest: &Value, daemon_set: &DaemonSet) -> Vec<String> {
    let mut problems = Vec::new();
    misspelled_fields(&PodTemplateSpec, &manifest["spec"]["template"], "spec.template", &mut problems);
    // Ported from `ValidateDaemonSetSpec`, pkg/apis/apps/validation/validation.go, release 1.37.2.
    let spec = &daemon_set.spec;
    let selector = match (&daemon_set.object["spec"]["selector"], spec.selector.is_empty()) {
        (Value::Null, _) => Some("spec.selector: Required value"),
        (_, true) => Some("spec.selector: Invalid value: empty selector is invalid for daemonset"),
        _ if spec.selector.matches(&spec.template.metadata.labels) => None,
        _ => Some("spec.template.metadata.labels: Invalid value: `selector` does not match template `labels`"),
    };
    problems.extend(selector.map(str::to_owned));
    problems.extend(spec.update_strategy.problems(daemon_set.flavor()));
    let pod = &daemon_set.object["spec"]["template"]["spec"];
    if spec.template.spec.containers.is_empty() {
        problems.push("spec.template.spec.containers: Required value".to_owned());
    }
    for list in ["initContainers", "containers"] {
        for (number, container) in pod[list].as_array().into_iter().flatten().enumerate() {
            let path = format!("spec.template.spec.{list}[{number}]");
            for field in ["name", "image"] {
                if container[field].as_str().is_none_or(str::is_empty) {
                    problems.push(format!("{path}.{field}: Required value"));
                }
            }
            for list in ["requests", "limits"] {
                let amounts = container["resources"][list].as_object().into_iter().flatten();
                for (name, amount) in amounts.filter(|(_, amount)| !is_quantity(amount)) {
                    let path = format!("{path}.resources.{list}[{name}]");
                    problems
                        .push(format!("{path}: Invalid value: {amount}: must be a quantity such as 500m, 2 or 64Mi"));
                }
            }
        }
    }
    problems
}

/// Finds fields that are unknown, and similar to a known one.
fn misspelled_fields(of: &Type, object: &Value, path: &str, problems: &mut Vec<String>) {
    for (name, value) in object.as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        match of.fields.iter().find(|field| field.name == name).map(|field| &field.kind) {
            Some(FieldKind::Struct(of) | FieldKind::Optional(of)) => misspelled_fields(of, value, &path, problems),
            Some(FieldKind::List(of, _)) => {
                for (number, entry) in value.as_array().into_iter().flatten().enumerate() {
                    misspelled_fields(of, entry, &format!("{path}[{number}]"), problems);
                }
            }
            Some(_) => {}
            None => {
                let known = of.fields.iter().map(|field| (strsim::osa_distance(field.name, name), field.name));
                if let Some((..=2, near)) = known.min() {
                    problems.push(format!("unknown field {path:?} (did you mean {near:?}?)"));
                }
            }
        }
    }
}

/// Tells whether an amount is absent or a quantity, which may be written as text or as a number.
fn is_quantity(amount: &Value) -> bool {
    let text = match amount {
        Value::Null => return true,
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    Quantity::new(text).nanos().is_some()
}
