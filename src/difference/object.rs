//! Differences between two versions of a whole DaemonSet.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::difference;
use crate::model::hold::{GATES_ANNOTATION, RUN_ANNOTATION};
use crate::model::metadata::TEMPLATE_GENERATION_ANNOTATION;
use crate::model::template::Template;
use crate::report::change::{Change, ChangePath, PathStep};

/// The metadata that people and tools change.
const METADATA: [&str; 5] = ["labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp"];

/// Annotations that controllers and clients maintain for their own use.
const MAINTAINED: [&str; 4] =
    [TEMPLATE_GENERATION_ANNOTATION, RUN_ANNOTATION, GATES_ANNOTATION, "field.cattle.io/publicEndpoints"];

/// Returns the differences between two versions of a DaemonSet, except for its status and what controllers maintain for
/// their own use: the template first, which users look for, and annotations after the spec.
///
/// The status changes continually during a rollout, which is not a conflict.
pub(crate) fn changes(before: &Value, after: &Value) -> Vec<Change> {
    let spec_path = ChangePath::default().field("spec");
    let nothing = Map::new();
    let spec = |object: &'_ Value| object.get("spec").and_then(Value::as_object).cloned().unwrap_or(nothing.clone());
    let (before_spec, after_spec) = (spec(before), spec(after));
    let template = |spec: &Map<String, Value>| Template::new(spec.get("template").cloned().unwrap_or_default());
    let of_template = difference(&template(&before_spec), &template(&after_spec));
    let in_object = |path: ChangePath| ChangePath([spec_path.field("template").0, path.0].concat());
    let mut changes: Vec<Change> =
        of_template.into_iter().map(|change| Change { path: in_object(change.path), ..change }).collect();
    let names: BTreeSet<&String> = before_spec.keys().chain(after_spec.keys()).collect();
    for name in names.into_iter().filter(|name| *name != "template") {
        compare(&spec_path.field(name), before_spec.get(name), after_spec.get(name), &mut changes);
    }
    let metadata = ChangePath::default().field("metadata");
    for name in METADATA {
        let (before, after) = (field(before, "metadata", name), field(after, "metadata", name));
        compare(&metadata.field(name), before, after, &mut changes);
    }
    changes
}

fn field<'a>(object: &'a Value, parent: &str, name: &str) -> Option<&'a Value> {
    object.get(parent)?.get(name).filter(|value| !value.is_null())
}

/// Compares maps by key, and other values as a whole.
fn compare(path: &ChangePath, before: Option<&Value>, after: Option<&Value>, changes: &mut Vec<Change>) {
    if before == after {
        return;
    }
    let empty = Map::new();
    let fields = |value: Option<&'_ Value>| match value {
        None => Some(empty.clone()),
        Some(value) => value.as_object().cloned(),
    };
    match (fields(before), fields(after)) {
        (Some(before), Some(after)) => {
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for name in names.into_iter().filter(|name| !MAINTAINED.contains(&name.as_str())) {
                let parent = if let Some(PathStep::Field(parent)) = path.0.last() { parent.as_str() } else { "" };
                let path = match parent {
                    "labels" | "annotations" => path.entry(name),
                    _ => path.field(name),
                };
                compare(&path, before.get(name), after.get(name), changes);
            }
        }
        _ => changes.push(Change::new(path.clone(), before.cloned(), after.cloned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::changes;

    #[test]
    fn what_people_change_is_a_difference_and_what_controllers_maintain_is_not() {
        let before = json!({
            "metadata": {"resourceVersion": "1", "generation": 4, "labels": {"app": "a"},
                "annotations": {"deprecated.daemonset.template.generation": "1"}},
            "spec": {"minReadySeconds": 5, "updateStrategy": {"type": "OnDelete"},
                "template": {"spec": {"containers": [{"name": "a", "image": "a:1"}]}}},
            "status": {"numberReady": 1},
        });
        let mut after = before.clone();
        after["metadata"]["resourceVersion"] = "2".into();
        after["metadata"]["managedFields"] = json!([1]);
        after["metadata"]["annotations"]["deprecated.daemonset.template.generation"] = "2".into();
        after["status"]["numberReady"] = 2.into();
        assert_eq!(changes(&before, &after), []);

        after["metadata"]["annotations"]["note"] = "mine".into();
        after["metadata"]["deletionTimestamp"] = "2026-11-21T06:00:00Z".into();
        after["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}});
        after["spec"]["template"]["spec"]["containers"][0]["image"] = "a:2".into();
        let paths: Vec<_> = changes(&before, &after).iter().map(|change| change.path.to_string()).collect();
        assert_eq!(
            paths,
            [
                "spec.template.spec.containers[a].image",
                "spec.updateStrategy.rollingUpdate.maxSurge",
                "spec.updateStrategy.type",
                "metadata.annotations[note]",
                "metadata.deletionTimestamp",
            ]
        );
    }
}
