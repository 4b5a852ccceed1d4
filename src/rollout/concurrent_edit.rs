//! Who changed an object between reading and writing it.

use jiff::Timestamp;
use serde_json::Value;

use crate::model::server_side_apply::{managed_fields, time_of};
use crate::plan::FIELD_MANAGER;

/// Returns the field managers that have written an object between two versions of it, except for its status. An entry that has only
/// lost fields was not written: another manager has taken over or removed them, and its time stays the same.
pub(crate) fn managers(before: &Value, after: &Value) -> Vec<String> {
    let known = managed_fields(before);
    let mut managers: Vec<String> = Vec::new();
    let is_known = |record: &&Value| {
        known.iter().any(|known| {
            ["manager", "operation", "subresource", "time"].iter().all(|field| known.get(field) == record.get(field))
                && has_all(&known["fieldsV1"], &record["fieldsV1"])
        })
    };
    for record in managed_fields(after).iter().filter(|record| !is_known(record)) {
        let manager = record.get("manager").and_then(Value::as_str).unwrap_or_default();
        let is_status = record.get("subresource").and_then(Value::as_str) == Some("status");
        if !is_status && !manager.is_empty() && !managers.iter().any(|listed| listed == manager) {
            managers.push(manager.to_owned());
        }
    }
    managers
}

/// Returns whether anybody else has written an object between two versions of it: what admission changes is written by this program.
pub(crate) fn is_of_others(before: &Value, after: &Value) -> bool {
    managers(before, after).iter().any(|manager| manager != FIELD_MANAGER)
}

/// Returns whether a set of fields contains another one.
fn has_all(fields: &Value, others: &Value) -> bool {
    let others = others.as_object().into_iter().flatten();
    others.into_iter().all(|(name, below)| fields.get(name).is_some_and(|fields| has_all(fields, below)))
}

/// Returns when this program last wrote an object, by the clock of the API server that stored it.
pub(crate) fn written_at(object: &Value) -> Option<Timestamp> {
    let is_own = |record: &&Value| record["manager"] == FIELD_MANAGER && record["operation"] == "Update";
    managed_fields(object).iter().filter(is_own).filter_map(time_of).max()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{managers, written_at};

    #[test]
    fn the_api_server_notes_when_this_program_has_written() {
        let record = |manager: &str, time: &str| json!({"manager": manager, "operation": "Update", "time": time});
        let (early, late) = ("2026-11-21T06:00:00Z", "2026-11-21T07:00:00Z");
        let records = [record("kubectl-ds", early), record("helm", late), json!({"manager": "kubectl-ds"})];
        assert_eq!(written_at(&json!({"metadata": {"managedFields": records}})), early.parse().ok());
        assert_eq!(written_at(&json!({"metadata": {"managedFields": [record("helm", late)]}})), None);
        assert_eq!(written_at(&json!({})), None);
    }

    #[test]
    fn each_manager_with_a_new_record_is_named_once_unless_it_is_of_the_status() {
        let record = |manager: &str, time: &str| json!({"manager": manager, "operation": "Update", "time": time});
        let object = |records: &[Value]| json!({"metadata": {"managedFields": records}});
        let status = json!({"manager": "kube-controller-manager", "subresource": "status", "time": "2"});
        let before = object(&[record("helm", "1"), record("kubectl-edit", "1")]);
        let after =
            [record("helm", "1"), record("kubectl-edit", "2"), record("argocd", "2"), record("kubectl-edit", "3")];
        assert_eq!(managers(&before, &object(&[&after[..], &[status]].concat())), ["kubectl-edit", "argocd"]);
        assert!(managers(&before, &before).is_empty());
        // Another manager has taken over a field.
        let mine =
            |fields: Value| json!({"manager": "kubectl-ds", "operation": "Update", "time": "1", "fieldsV1": fields});
        let two = object(&[mine(json!({"f:spec": {"f:a": {}, "f:b": {}}}))]);
        let one = object(&[mine(json!({"f:spec": {"f:b": {}}})), record("helm", "1")]);
        assert_eq!(
            (managers(&two, &one), managers(&one, &two)),
            (vec!["helm".to_owned()], vec!["kubectl-ds".to_owned()])
        );
        assert!(managers(&json!({}), &json!({})).is_empty());
    }
}
