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
    let template = |object: &Value| Template::new(object["spec"]["template"].clone());
    let of_template = difference(&template(before), &template(after));
    let in_object = |path: ChangePath| ChangePath([spec_path.field("template").0, path.0].concat());
    let mut changes: Vec<Change> =
        of_template.into_iter().map(|change| Change { path: in_object(change.path), ..change }).collect();
    let (before_spec, after_spec) = (&before["spec"], &after["spec"]);
    for name in names(before_spec, after_spec).filter(|name| *name != "template") {
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
    if [before, after].into_iter().flatten().any(|value| !value.is_object()) {
        changes.push(Change::new(path.clone(), before.cloned(), after.cloned()));
        return;
    }
    let (before, after) = (before.unwrap_or(&Value::Null), after.unwrap_or(&Value::Null));
    let has_keys = matches!(path.0.last(), Some(PathStep::Field(name)) if name == "labels" || name == "annotations");
    for name in names(before, after).filter(|name| !MAINTAINED.contains(&name.as_str())) {
        let path = if has_keys { path.entry(name) } else { path.field(name) };
        compare(&path, before.get(name), after.get(name), changes);
    }
}

/// Returns the fields of either of two objects.
fn names<'v>(before: &'v Value, after: &'v Value) -> impl Iterator<Item = &'v String> {
    let fields = |value: &'v Value| value.as_object().into_iter().flat_map(Map::keys);
    fields(before).chain(fields(after)).collect::<BTreeSet<_>>().into_iter()
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
