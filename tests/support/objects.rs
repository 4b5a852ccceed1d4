//! Kubernetes objects as plain JSON from the API server, read without the library's model.

use std::collections::BTreeMap;

use serde_json::Value;

/// Returns namespace and name of the DaemonSet that controls a pod.
pub fn owner(pod: &Value) -> Option<String> {
    let owners = pod["metadata"]["ownerReferences"].as_array()?;
    let controller = owners.iter().find(|owner| owner["controller"] == true && owner["kind"] == "DaemonSet")?;
    Some(format!("{}/{}", pod["metadata"]["namespace"].as_str()?, controller["name"].as_str()?))
}

/// Returns a condition of a node or pod, or null.
pub fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().find(|condition| condition["type"] == type_).unwrap_or(&Value::Null)
}

/// Returns objects by namespace and name, with a slash between.
pub fn by_name(items: Vec<Value>) -> BTreeMap<String, Value> {
    let name = |item: &Value| {
        let metadata = &item["metadata"];
        format!("{}/{}", metadata["namespace"].as_str().unwrap_or_default(), metadata["name"].as_str().unwrap())
    };
    items.into_iter().map(|item| (name(&item), item)).collect()
}

/// Returns what events and pods' statuses say, by the DaemonSet that it is about.
pub fn said_about(pods: &[Value], events: &[Value]) -> BTreeMap<String, Vec<String>> {
    let mut said: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut owners = BTreeMap::new();
    for pod in pods {
        if let Some(owner) = owner(pod) {
            strings(&pod["status"], said.entry(owner.clone()).or_default());
            owners.insert(pod["metadata"]["uid"].as_str().unwrap().to_owned(), owner);
        }
    }
    for event in events {
        let object = &event["involvedObject"];
        let about = if object["kind"] == "DaemonSet" {
            Some(format!("{}/{}", object["namespace"].as_str().unwrap(), object["name"].as_str().unwrap()))
        } else {
            object["uid"].as_str().and_then(|uid| owners.get(uid).cloned())
        };
        if let (Some(about), Some(message)) = (about, event["message"].as_str()) {
            said.entry(about).or_default().push(message.to_owned());
        }
    }
    said
}

/// Adds every string in a value.
fn strings(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| strings(field, found)),
        _ => {}
    }
}
