//! Rolls back to the template of a revision.

use super::{DaemonSetPatch, Plan, Step, replace};
use crate::model::daemon_set::DaemonSet;
use crate::model::template::Template;

impl Plan {
    /// Replaces the whole template of a DaemonSet with that of a revision.
    ///
    /// Only the template is changed, as in `Rollback` in k8s.io/kubectl/pkg/polymorphichelpers/rollback.go, release 1.37.2;
    /// a JSON Patch also works for custom resources, which do not support its strategic merge patch.
    ///
    /// There is nothing to do if it has that template.
    pub fn undo(daemon_set: &DaemonSet, template: &Template) -> Self {
        let patch = || DaemonSetPatch::new(daemon_set, vec![replace(["spec", "template"], template.value().clone())]);
        let needed = !template.same_meaning(&daemon_set.template());
        Plan { step: needed.then(patch).map(Step::PatchDaemonSet) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::{DaemonSet, Plan, Template};

    #[test]
    fn the_template_is_replaced_whole_and_only_on_the_version_that_was_read() {
        let object = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "DaemonSet",
            "metadata": {"namespace": "team", "name": "agent", "resourceVersion": "7"},
            "spec": {"minReadySeconds": 5, "template": {"spec": {"containers": [{"name": "a", "image": "a:2"}]}}},
        });
        let daemon_set = DaemonSet::from_object(object.clone()).unwrap();
        let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a"}]}});
        let plan = Plan::undo(&daemon_set, &Template::new(template.clone()));
        let patch = plan.patch().unwrap();
        assert_eq!(patch.api_version, "apps.kruise.io/v1alpha1");
        assert_eq!(
            to_value(patch.patch()).unwrap(),
            json!([
                {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "replace", "path": "/spec/template", "value": template},
            ])
        );
        let mut after = object.clone();
        after["spec"]["template"] = template;
        assert_eq!(patch.applied_to(&object).unwrap(), after);
        assert_eq!(to_value(patch.with_resource_version("8").patch()).unwrap()[0]["value"], "8");
    }
}
