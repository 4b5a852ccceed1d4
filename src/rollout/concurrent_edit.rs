//! Who changed an object between reading and writing it.

use jiff::Timestamp;
use serde_json::Value;

use crate::plan::FIELD_MANAGER;

/// Returns the field managers whose records differ between two versions of an object, except for its status.
pub(crate) fn managers(before: &Value, after: &Value) -> Vec<String> {
    let records = |object: &'_ Value| object.pointer("/metadata/managedFields").and_then(Value::as_array).cloned();
    let known = records(before).unwrap_or_default();
    let mut managers: Vec<String> = Vec::new();
    for record in records(after).unwrap_or_default().iter().filter(|record| !known.contains(record)) {
        let manager = record.get("manager").and_then(Value::as_str).unwrap_or_default();
        let is_status = record.get("subresource").and_then(Value::as_str) == Some("status");
        if !is_status && !manager.is_empty() && !managers.iter().any(|listed| listed == manager) {
            managers.push(manager.to_owned());
        }
    }
    managers
}

/// Returns when this program has last written an object, by the clock of the API server that has stored it.
pub(crate) fn written_at(object: &Value) -> Option<Timestamp> {
    let records = object.pointer("/metadata/managedFields").and_then(Value::as_array)?;
    let own = records.iter().filter(|record| record["manager"] == FIELD_MANAGER && record["operation"] == "Update");
    own.filter_map(|record| record["time"].as_str()?.parse().ok()).max()
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
        assert!(managers(&json!({}), &json!({})).is_empty());
    }
}
