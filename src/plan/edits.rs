//! Edits to single fields, as JSON Patch operations.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation};
use serde_json::{Value, json};

use super::{DaemonSetPatch, Plan, Step};
use crate::model::daemon_set::DaemonSet;

/// Edits to one object. Each operation applies to the result of the ones before it.
pub(super) struct Edits<'a> {
    daemon_set: &'a DaemonSet,
    object: Value,
    operations: Vec<PatchOperation>,
}

impl<'a> Edits<'a> {
    pub(super) fn of(daemon_set: &'a DaemonSet) -> Self {
        Edits { daemon_set, object: daemon_set.object.clone(), operations: Vec::new() }
    }

    /// Sets a field, and creates missing parents; their other fields stay as they are. Does nothing if the field has the value.
    pub(super) fn set(&mut self, path: &[&str], value: impl Into<Value>) {
        let mut value = value.into();
        let find = |path: &[&str]| path.iter().try_fold(&self.object, |value, name| value.get(*name));
        let parents = (1..path.len()).take_while(|&depth| find(&path[..depth]).is_some_and(Value::is_object)).count();
        if find(path) == Some(&value) {
            return;
        }
        for name in path[parents + 1..].iter().rev() {
            value = json!({*name: value});
        }
        let parent = path[..parents].iter().try_fold(&mut self.object, |value, name| value.get_mut(*name));
        if let Some(fields) = parent.and_then(Value::as_object_mut) {
            fields.insert(path[parents].to_owned(), value.clone());
        }
        let path = PointerBuf::from_tokens(path[..=parents].iter().copied());
        self.operations.push(PatchOperation::Add(AddOperation { path, value }));
    }

    /// Removes a field. Does nothing if the object lacks it.
    pub(super) fn remove(&mut self, path: &[&str]) {
        let Some((name, parents)) = path.split_last() else { return };
        let parent = parents.iter().try_fold(&mut self.object, |value, name| value.get_mut(*name));
        if parent.and_then(Value::as_object_mut).is_some_and(|fields| fields.remove(*name).is_some()) {
            let path = PointerBuf::from_tokens(path.iter().copied());
            self.operations.push(PatchOperation::Remove(RemoveOperation { path }));
        }
    }

    /// Returns the plan to make the edits.
    pub(super) fn into_plan(self) -> Plan {
        let Edits { daemon_set, operations, .. } = self;
        let patch = (!operations.is_empty()).then(|| DaemonSetPatch::new(daemon_set, operations));
        Plan { step: patch.map(Step::PatchDaemonSet) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{DaemonSet, Edits};

    /// Applies edits to an object by their patch, and returns the result and the number of operations.
    fn edited(object: &Value, edit: impl Fn(&mut Edits<'_>)) -> (Value, usize) {
        let daemon_set = DaemonSet::from_object(object.clone()).unwrap();
        let mut edits = Edits::of(&daemon_set);
        edit(&mut edits);
        let (expected, operations) = (edits.object.clone(), edits.operations.len());
        let object = edits.into_plan().applied_to(object).unwrap();
        assert_eq!(object, expected);
        (object, operations)
    }

    #[test]
    fn a_field_is_set_whatever_of_its_parents_exists() {
        let edit = |edits: &mut Edits<'_>| {
            edits.set(&["spec", "updateStrategy", "rollingUpdate", "maxSurge"], 1);
            edits.set(&["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"], 0);
        };
        let both = json!({"maxSurge": 1, "maxUnavailable": 0});
        for before in [
            json!({}),
            json!({"spec": {"minReadySeconds": 3}}),
            json!({"spec": {"updateStrategy": null}}),
            json!({"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": null}}}),
            json!({"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}}}),
        ] {
            let (after, operations) = edited(&before, edit);
            assert_eq!((&after["spec"]["updateStrategy"]["rollingUpdate"], operations), (&both, 2), "{before}");
            assert_eq!(after["spec"]["minReadySeconds"], before["spec"]["minReadySeconds"]);
            assert_eq!(edited(&after, edit), (after, 0));
        }
    }

    #[test]
    fn a_field_is_removed_if_it_exists() {
        let edit = |edits: &mut Edits<'_>| edits.remove(&["metadata", "annotations", "a/b"]);
        for (before, after) in [
            (json!({"metadata": {"annotations": {"a/b": "1", "c": "2"}}}), json!({"c": "2"})),
            (json!({"metadata": {"annotations": {"c": "2"}}}), json!({"c": "2"})),
            (json!({"metadata": {"annotations": null}}), json!(null)),
            (json!({}), json!(null)),
        ] {
            assert_eq!(edited(&before, edit).0["metadata"]["annotations"], after);
        }
    }
}
