//! Who changed an object between reading and writing it.

use serde_json::Value;

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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::managers;

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
