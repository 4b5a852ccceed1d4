//! Restarts all pods by an annotation of the template.

use jiff::Timestamp;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation};
use serde_json::{Value, json};

use super::DaemonSetPatch;
use crate::model::daemon_set::DaemonSet;

/// The annotation whose change restarts the pods, as kubectl sets it.
const RESTARTED_AT_ANNOTATION: &str = "kubectl.kubernetes.io/restartedAt";

/// Writes the time of a restart into the template, as `defaultObjectRestarter` of
/// k8s.io/kubectl/pkg/polymorphichelpers/objectrestarter.go, release 1.36.3, does.
///
/// Returns `None` if the template has this time already: it has seconds only.
pub(super) fn restart(daemon_set: &DaemonSet, now: Timestamp) -> Option<DaemonSetPatch> {
    let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    // Parents of the annotation that exist stay as they are.
    let mut path = vec!["spec", "template"];
    let mut place = daemon_set.object.pointer("/spec/template");
    for step in ["metadata", "annotations"] {
        match place.and_then(|place| place.get(step)).filter(|there| there.is_object()) {
            Some(there) => (place, _) = (Some(there), path.push(step)),
            None => break,
        }
    }
    if place.and_then(|place| place.get(RESTARTED_AT_ANNOTATION)).and_then(Value::as_str) == Some(at.as_str()) {
        return None;
    }
    let value: Value = match path.len() {
        2 => json!({"annotations": {RESTARTED_AT_ANNOTATION: at}}),
        3 => json!({RESTARTED_AT_ANNOTATION: at}),
        _ => at.into(),
    };
    path.push(["metadata", "annotations", RESTARTED_AT_ANNOTATION][path.len() - 2]);
    let add = PatchOperation::Add(AddOperation { path: PointerBuf::from_tokens(path), value });
    Some(DaemonSetPatch::new(daemon_set, vec![add]))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{DaemonSet, restart};

    fn restarted(template: Value) -> Option<Value> {
        let daemon_set = DaemonSet::from_object(json!({"spec": {"template": template}})).unwrap();
        let patch = restart(&daemon_set, "2026-11-21T06:00:00.5Z".parse().unwrap())?;
        Some(patch.applied_to(&daemon_set.object).unwrap()["spec"]["template"].take())
    }

    #[test]
    fn the_annotation_is_added_whatever_is_there_of_the_metadata() {
        let annotated = |others: Value| {
            let mut annotations = others;
            annotations["kubectl.kubernetes.io/restartedAt"] = "2026-11-21T06:00:00Z".into();
            annotations
        };
        for (before, after) in [
            (json!({}), json!({"metadata": {"annotations": annotated(json!({}))}})),
            (json!({"metadata": null}), json!({"metadata": {"annotations": annotated(json!({}))}})),
            (
                json!({"metadata": {"labels": {"a": "b"}}}),
                json!({"metadata": {"labels": {"a": "b"}, "annotations": annotated(json!({}))}}),
            ),
            (
                json!({"metadata": {"annotations": {"x/y": "z"}}}),
                json!({"metadata": {"annotations": annotated(json!({"x/y": "z"}))}}),
            ),
            (
                json!({"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-11-20T06:00:00Z"}}}),
                json!({"metadata": {"annotations": annotated(json!({}))}}),
            ),
        ] {
            assert_eq!(restarted(before.clone()), Some(after), "{before}");
        }
    }

    #[test]
    fn a_second_restart_in_the_same_second_is_none() {
        let annotations = json!({"kubectl.kubernetes.io/restartedAt": "2026-11-21T06:00:00Z"});
        assert_eq!(restarted(json!({"metadata": {"annotations": annotations}})), None);
    }
}
