//! Restarts all pods by setting an annotation in the template.

use jiff::Timestamp;

use super::Plan;
use super::edits::Edits;
use crate::model::daemon_set::DaemonSet;
use crate::model::metadata::RESTARTED_AT_ANNOTATION;

impl Plan {
    /// Writes the time of a restart into the template, like `defaultObjectRestarter` in
    /// k8s.io/kubectl/pkg/polymorphichelpers/objectrestarter.go, release 1.37.2.
    ///
    /// There is nothing to do if the template already has this time, which has a resolution of one second.
    pub fn restart(daemon_set: &DaemonSet, now: Timestamp) -> Self {
        let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let mut edits = Edits::of(daemon_set);
        edits.set(&["spec", "template", "metadata", "annotations", RESTARTED_AT_ANNOTATION], at);
        edits.into_plan()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{DaemonSet, Plan};

    fn restarted(template: Value) -> Option<Value> {
        let daemon_set = DaemonSet::from_object(json!({"spec": {"template": template}})).unwrap();
        let plan = Plan::restart(&daemon_set, "2026-11-21T06:00:00.5Z".parse().unwrap());
        Some(plan.patch()?.applied_to(&daemon_set.object).unwrap()["spec"]["template"].take())
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
