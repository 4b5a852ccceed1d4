//! The result of `kubectl apply --server-side` on an object, according to its `managedFields`.
//!
//! A live server computes this itself, except for what kubectl does after a client-side apply; see
//! [`without_abandoned`]. From a dump it is computed here.

use jiff::Timestamp;
use serde_json::Value;

use super::metadata::LAST_APPLIED_ANNOTATION;
use super::strategic_merge;

/// Returns the entries of `managedFields`.
pub fn managed_fields(object: &Value) -> &[Value] {
    object.pointer("/metadata/managedFields").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns those of managers that have written something of a DaemonSet's template.
pub fn of_template(daemon_set: &Value) -> impl Iterator<Item = &Value> {
    managed_fields(daemon_set).iter().filter(|entry| entry.pointer("/fieldsV1/f:spec/f:template").is_some())
}

/// The operation of `managedFields` entries whose manager has applied the object.
pub const APPLY: &str = "Apply";

/// The manager to which the API server assigns all fields at the first apply of an object without managed fields
/// (`NewSkipNonAppliedManager`, k8s.io/apimachinery/pkg/util/managedfields/internal/skipnonapplied.go, release 1.37).
pub const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The manager into which the API server merges the oldest ones (`NewCapManagersManager`, capmanagers.go in the same directory).
const ANCIENT_CHANGES: &str = "ancient-changes";

/// Returns a field manager, unless its name was made up by the API server.
pub fn known_manager(name: &str) -> Option<&str> {
    Some(name).filter(|name| ![BEFORE_FIRST_APPLY, ANCIENT_CHANGES].contains(name))
}

/// Returns when the manager of a `managedFields` entry last changed the object.
pub fn time_of(entry: &Value) -> Option<Timestamp> {
    entry.get("time")?.as_str()?.parse().ok()
}

/// Returns an object without the fields that only kubectl has set and that are no longer in a manifest; `None` if there are none.
pub fn without_abandoned(object: &Value, manifest: &Value) -> Option<Value> {
    let (own, others) = owners(object);
    let mut left = object.clone();
    for fields in own {
        remove(&mut left, fields, &others, Some(manifest));
    }
    (left != *object).then_some(left)
}

/// Returns an object after a server-side apply of a manifest, before the API server's defaults. Fails if a list entry lacks its
/// key.
pub fn applied(object: &Value, manifest: &Value) -> Result<Value, String> {
    let mut left = without_abandoned(object, manifest).unwrap_or_else(|| object.clone());
    for entry in managed_fields(object) {
        replace_atomic(&mut left, &entry["fieldsV1"], manifest);
    }
    strategic_merge::overlaid(&left, manifest.clone())
}

/// Returns whether a field in a set has different values in two objects.
pub fn differs(fields: &Value, one: &Value, other: &Value) -> bool {
    members(fields).any(|(key, inner)| match (found(one, key), found(other, key)) {
        (Some(one), Some(other)) if members(inner).next().is_some() => differs(inner, one, other),
        (one, other) => one != other,
    })
}

/// Returns the fields of kubectl, and those of other managers. `kubectl apply --server-side` takes over the fields of
/// the manager that last wrote the annotation of a client-side apply: see `migrateToSSAIfNecessary`,
/// k8s.io/kubectl/pkg/cmd/apply/apply.go, release 0.37.2.
fn owners(object: &Value) -> (Vec<&Value>, Vec<&Value>) {
    let entries = managed_fields(object).iter().filter(|entry| entry["subresource"].as_str().is_none_or(str::is_empty));
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for entry in entries {
        let is_own = match entry["operation"].as_str() {
            Some(APPLY) => entry["manager"] == "kubectl",
            _ => entry["fieldsV1"]["f:metadata"]["f:annotations"].get(format!("f:{LAST_APPLIED_ANNOTATION}")).is_some(),
        };
        let owners = if is_own { &mut own } else { &mut others };
        owners.extend(entry.get("fieldsV1"));
    }
    (own, others)
}

/// Removes the fields in a set that neither the manifest nor another manager has, including the defaults in them.
fn remove(object: &mut Value, fields: &Value, others: &[&Value], manifest: Option<&Value>) {
    for (key, inner) in members(fields) {
        let Some(place) = place(object, key) else { continue };
        let others: Vec<&Value> = others.iter().filter_map(|other| other.get(key)).collect();
        let manifest = manifest.and_then(|manifest| found(manifest, key));
        // A list item belongs to a manager only if its set contains the item itself.
        let is_own = !key.starts_with("k:") || inner.get(".").is_some();
        if others.is_empty() && manifest.is_none() && is_own {
            take(object, key);
        } else {
            remove(place, inner, &others, manifest);
        }
    }
}

/// Removes the values in the manifest that are replaced as a whole: their sets have no members.
fn replace_atomic(object: &mut Value, fields: &Value, manifest: &Value) {
    for (key, inner) in members(fields) {
        let (Some(place), Some(manifest)) = (place(object, key), found(manifest, key)) else { continue };
        if members(inner).next().is_some() {
            replace_atomic(place, inner, manifest);
        } else if place.is_object() || place.is_array() {
            take(object, key);
        }
    }
}

/// Returns the members of a set of `fieldsV1`, without `.`, which is the value itself.
fn members(fields: &Value) -> impl Iterator<Item = (&String, &Value)> {
    fields.as_object().into_iter().flatten().filter(|(key, _)| *key != ".")
}

/// Returns the index of the item that `k:{…}` or `v:…` names.
fn position(items: &[Value], key: &str) -> Option<usize> {
    let (form, text) = key.split_at_checked(2)?;
    let wanted: Value = serde_json::from_str(text).ok()?;
    items.iter().position(|item| match (form, &wanted) {
        ("k:", Value::Object(keys)) => keys.iter().all(|(field, value)| match item.get(field) {
            Some(found) => found == value,
            // The API's default, which a manifest may omit.
            None => field == "protocol" && value == "TCP",
        }),
        ("v:", value) => item == value,
        _ => false,
    })
}

fn found<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => fields.get(key.strip_prefix("f:")?),
        Value::Array(items) => items.get(position(items, key)?),
        _ => None,
    }
}

fn place<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    match value {
        Value::Object(fields) => fields.get_mut(key.strip_prefix("f:")?),
        Value::Array(items) => {
            let at = position(items, key)?;
            items.get_mut(at)
        }
        _ => None,
    }
}

fn take(value: &mut Value, key: &str) {
    match value {
        Value::Object(fields) => drop(key.strip_prefix("f:").and_then(|field| fields.remove(field))),
        Value::Array(items) => drop(position(items, key).map(|at| items.remove(at))),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{applied, differs, without_abandoned};

    /// Returns an object in which kubectl owns the first fields, and another manager the others.
    fn object(pod: Value, own: Value, others: Value) -> Value {
        let entry = |manager: &str, fields: Value| {
            let fields = json!({"f:spec": {"f:template": {"f:spec": fields}}});
            json!({"manager": manager, "operation": "Apply", "fieldsV1": fields})
        };
        json!({
            "metadata": {"managedFields": [entry("kubectl", own), entry("editor", others)]},
            "spec": {"template": {"spec": pod}},
        })
    }

    fn manifest(pod: Value) -> Value {
        json!({"spec": {"template": {"spec": pod}}})
    }

    fn pod(object: &Value) -> &Value {
        &object["spec"]["template"]["spec"]
    }

    #[test]
    fn fields_that_kubectl_alone_had_are_removed() {
        let container = |name: &str| json!({"name": name, "image": "a", "imagePullPolicy": "Always"});
        let own = json!({"f:hostNetwork": {}, "f:hostPID": {}, "f:containers": {
            "k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:image": {}},
            "k:{\"name\":\"b\"}": {".": {}, "f:name": {}, "f:image": {}},
        }});
        let live = json!({"hostNetwork": true, "hostPID": true, "containers": [container("a"), container("b")]});
        let live = object(live, own, json!({"f:hostPID": {}}));
        let left = without_abandoned(&live, &manifest(json!({"containers": [{"name": "a"}]}))).unwrap();
        let expected = json!({"hostPID": true, "containers": [{"name": "a", "imagePullPolicy": "Always"}]});
        assert_eq!(*pod(&left), expected, "a default inside an entry goes with it");
        assert_eq!(without_abandoned(&live, &live), None);
    }

    #[test]
    fn what_is_owned_as_a_whole_is_replaced_as_a_whole() {
        let live = json!({"nodeSelector": {"disk": "ssd", "zone": "a"}});
        let live = object(live, json!({}), json!({"f:nodeSelector": {}}));
        let then = json!({"nodeSelector": {"disk": "hdd"}});
        assert_eq!(*pod(&applied(&live, &manifest(then.clone())).unwrap()), then);
    }

    #[test]
    fn values_differ_only_within_the_set() {
        let fields = json!({"f:a": {"f:b": {}}, "f:list": {"k:{\"name\":\"x\"}": {".": {}, "f:value": {}}}});
        let value = |b: u8, other: u8, item: u8| json!({"a": {"b": b, "c": other}, "list": [{"name": "x", "value": item, "more": other}]});
        assert!(!differs(&fields, &value(1, 1, 1), &value(1, 2, 1)));
        assert!(differs(&fields, &value(1, 1, 1), &value(2, 1, 1)));
        assert!(differs(&fields, &value(1, 1, 1), &value(1, 1, 2)));
        assert!(differs(&fields, &value(1, 1, 1), &json!({})));
    }
}
