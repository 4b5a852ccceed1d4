//! The result of `kubectl apply` on a DaemonSet: the strategic merge patch computed from the last applied
//! configuration, the manifest and the live object, and the effect of such a patch on the API server.
//!
//! Ported from k8s.io/apimachinery/pkg/util/strategicpatch/patch.go, release 0.37.2, including its quirks: ports are
//! merged by `containerPort` alone, so entries with one port and two protocols are mixed up. Not ported: directives in
//! the manifest itself, and merging lists of strings, of which a DaemonSet has only `finalizers`.

use serde_json::{Map, Value, json};

use super::daemon_set::drop_nulls;
use super::template_types::{DaemonSet, FieldKind, Type};

type Object = Map<String, Value>;

/// Returns the merge key of a list (`patchMergeKey` in k8s.io/api/core/v1/types.go, release 0.37.2); `None` for lists that
/// are replaced as a whole.
fn merge_key(of: Option<&Type>, field: &str) -> Option<&'static str> {
    match (of?.name, field) {
        ("PodSpec", "volumes" | "initContainers" | "containers" | "ephemeralContainers" | "imagePullSecrets")
        | ("PodSpec", "schedulingGates" | "resourceClaims" | "evictionResponders")
        | ("Container" | "EphemeralContainer", "env") => Some("name"),
        ("PodSpec", "hostAliases") => Some("ip"),
        ("PodSpec", "topologySpreadConstraints") => Some("topologyKey"),
        ("Container" | "EphemeralContainer", "ports") => Some("containerPort"),
        ("Container" | "EphemeralContainer", "volumeMounts") => Some("mountPath"),
        ("Container" | "EphemeralContainer", "volumeDevices") => Some("devicePath"),
        ("ObjectMeta", "ownerReferences") => Some("uid"),
        _ => None,
    }
}

/// Returns whether fields that an entry no longer has are cleared (`patchStrategy:"merge,retainKeys"`), so that one
/// source of a volume replaces another.
fn retains_keys(field: &str) -> bool {
    matches!(field, "volumes" | "resourceClaims")
}

fn type_of(of: Option<&'static Type>, field: &str) -> Option<&'static Type> {
    match of?.field(field)?.kind {
        FieldKind::Struct(of) | FieldKind::Optional(of) | FieldKind::List(of, _) => Some(of),
        _ => None,
    }
}

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// Returns the patch that `kubectl apply` sends: the changes from the live object to the manifest, and the deletions from the last
/// applied configuration. Fails, as kubectl does, if a list entry lacks its merge key or is not an object.
pub fn three_way_patch(last_applied: &Value, manifest: &Value, live: &Value) -> Result<Value, String> {
    let (of, empty) = (Some(&DaemonSet), Object::new());
    let [last_applied, manifest, live] =
        [last_applied, manifest, live].map(|value| value.as_object().unwrap_or(&empty));
    let mut patch = diff(last_applied, manifest, of, false, Only::Deletions)?;
    merge(&mut patch, diff(live, manifest, of, false, Only::Changes)?, of, Mode::Combine)?;
    Ok(Value::Object(patch))
}

/// Returns an object after a strategic merge patch, before the API server's defaults. Fails if a list entry lacks its
/// merge key or is not an object.
pub fn patched(object: &Value, patch: Value) -> Result<Value, String> {
    merged(object, patch, Mode::Apply)
}

/// Returns an object with the fields of a manifest, matching list entries as in a server-side apply. Fails as [`patched`] does.
pub(super) fn overlaid(object: &Value, manifest: Value) -> Result<Value, String> {
    merged(object, manifest, Mode::ServerSide)
}

fn merged(object: &Value, patch: Value, mode: Mode) -> Result<Value, String> {
    let (Value::Object(mut object), Value::Object(patch)) = (object.clone(), patch) else {
        return Err("it is not an object".to_owned());
    };
    merge(&mut object, patch, Some(&DaemonSet), mode)?;
    Ok(Value::Object(object))
}

/// Which differences a patch contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Only {
    Changes,
    Deletions,
}

/// Ported from `diffMaps`.
fn diff(from: &Object, to: &Object, of: Option<&'static Type>, retain: bool, only: Only) -> Result<Object, String> {
    let mut patch = Object::new();
    for (key, value) in to {
        let changed = match (from.get(key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                let fields = diff(old, new, type_of(of, key), false, only)?;
                (!fields.is_empty()).then_some(Value::Object(fields))
            }
            (Some(Value::Array(old)), Value::Array(new)) if merge_key(of, key).is_some() => {
                let merge_key = merge_key(of, key).unwrap_or_default();
                let (entries, order) = diff_lists(old, new, type_of(of, key), merge_key, retains_keys(key), only)?;
                if let Some(order) = order {
                    patch.insert(format!("{ELEMENT_ORDER}{key}"), order);
                }
                (!entries.is_empty()).then_some(Value::Array(entries))
            }
            (old, new) => (only == Only::Changes && old != Some(new)).then(|| new.clone()),
        };
        patch.extend(changed.map(|changed| (key.clone(), changed)));
    }
    let is_left_out = |key: &&String| !to.contains_key(*key);
    if only == Only::Deletions {
        patch.extend(from.keys().filter(is_left_out).map(|key| (key.clone(), Value::Null)));
    }
    let retained: Vec<&String> = to.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| key).collect();
    if retain
        && !retained.is_empty()
        && (!patch.is_empty() || from.iter().any(|(key, value)| !value.is_null() && !to.contains_key(key)))
    {
        patch.insert(RETAIN_KEYS.to_owned(), json!(retained));
    }
    Ok(patch)
}

/// Ported from `diffLists` and `diffListsOfMaps`; returns the entries of the patch and the order of all.
fn diff_lists(
    from: &[Value],
    to: &[Value],
    of: Option<&'static Type>,
    key: &str,
    retain: bool,
    only: Only,
) -> Result<(Vec<Value>, Option<Value>), String> {
    if from.is_empty() {
        return Ok((if only == Only::Changes { to.to_vec() } else { Vec::new() }, None));
    }
    let (mut old, mut new) = (by_key(from, key)?.into_iter().peekable(), by_key(to, key)?.into_iter().peekable());
    let (mut entries, mut deletions) = (Vec::new(), Vec::new());
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => break,
            (Some((old, ..)), Some((new, ..))) => old.cmp(new),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
        };
        let gone = if order.is_le() { old.next() } else { None };
        let kept = if order.is_ge() { new.next() } else { None };
        match (gone, kept) {
            (Some((.., old)), Some((.., new))) => {
                let mut fields = diff(old, new, of, retain, only)?;
                if !fields.is_empty() {
                    fields.insert(key.to_owned(), new[key].clone());
                    entries.push(Value::Object(fields));
                }
            }
            (None, Some((.., new))) if only == Only::Changes => entries.push(Value::Object(new.clone())),
            (Some((.., old)), None) if only == Only::Deletions => {
                deletions.push(json!({key: old[key], PATCH: "delete"}));
            }
            _ => {}
        }
    }
    sort_like(&mut entries, to, key);
    entries.extend(deletions);
    let is_same_order = from.len() == to.len() && from.iter().zip(to).all(|(old, new)| old[key] == new[key]);
    let sets_order = !entries.is_empty() || (only == Only::Changes && !is_same_order);
    let order = sets_order.then(|| to.iter().map(|entry| json!({key: entry[key]})).collect());
    Ok((entries, order))
}

/// Returns the entries sorted by their merge keys as text. Go's sort puts the last of equal ones first.
fn by_key<'a>(list: &'a [Value], key: &str) -> Result<Vec<(String, usize, &'a Object)>, String> {
    let entry = |(at, value): (usize, &'a Value)| {
        let object = value.as_object().ok_or_else(|| format!("{value} is not an object"))?;
        let key = object.get(key).ok_or_else(|| format!("{value} does not contain the merge key {key}"))?;
        Ok((key.as_str().map_or_else(|| key.to_string(), str::to_owned), usize::MAX - at, object))
    };
    let mut entries: Vec<_> = list.iter().enumerate().map(entry).collect::<Result<_, String>>()?;
    entries.sort_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
    Ok(entries)
}

/// The target of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Another patch: nulls and directives are kept.
    Combine,
    /// An object.
    Apply,
    /// An object, with a manifest that is applied server-side: ports are distinguished by their protocols, too.
    ServerSide,
}

/// Ported from `mergeMap`.
fn merge(into: &mut Object, mut patch: Object, of: Option<&'static Type>, mode: Mode) -> Result<(), String> {
    if let Some(retained) = patch.remove(RETAIN_KEYS) {
        match mode {
            Mode::Combine => drop(into.insert(RETAIN_KEYS.to_owned(), retained)),
            Mode::Apply | Mode::ServerSide => {
                into.retain(|key, _| retained.as_array().is_some_and(|keys| keys.contains(&json!(key))))
            }
        }
    }
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let Some(Value::Array(order)) = patch.remove(&directive) else { continue };
        let field = &directive[ELEMENT_ORDER.len()..];
        let key = merge_key(of, field).unwrap_or_default();
        let live = if let Some(Value::Array(live)) = into.get(field) { live.clone() } else { Vec::new() };
        let merged = match (into.remove(field), patch.remove(field)) {
            (Some(Value::Array(live)), Some(Value::Array(entries))) => {
                Some(merge_lists(live, entries, key, type_of(of, field), mode)?)
            }
            (_, Some(Value::Array(entries))) => Some(entries.into_iter().filter_map(without_directives).collect()),
            (Some(Value::Array(live)), None) => Some(live),
            _ => None,
        };
        if let Some(merged) = merged {
            into.insert(field.to_owned(), in_order(merged, &order, &live, key).into());
        }
        if mode == Mode::Combine {
            into.insert(directive, Value::Array(order));
        }
    }
    for (field, value) in patch {
        let of_field = type_of(of, &field);
        match (into.get_mut(&field), value) {
            (_, Value::Null) if mode != Mode::Combine => drop(into.remove(&field)),
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new, of_field, mode)?,
            (Some(Value::Array(old)), Value::Array(new)) if merge_key(of, &field).is_some() => {
                let key = merge_key(of, &field).unwrap_or_default();
                let (live, order) = (old.clone(), new.clone());
                *old = in_order(merge_lists(std::mem::take(old), new, key, of_field, mode)?, &order, &live, key);
            }
            (_, mut new) => {
                if mode != Mode::Combine {
                    drop_nulls(&mut new);
                }
                into.extend(without_directives(new).map(|new| (field, new)));
            }
        }
    }
    Ok(())
}

/// Ported from `mergeSlice`, without the order.
fn merge_lists(
    mut list: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
    of: Option<&'static Type>,
    mode: Mode,
) -> Result<Vec<Value>, String> {
    let (deletions, entries): (Vec<Value>, Vec<Value>) = patch.into_iter().partition(is_deletion);
    list.retain(|old| !deletions.iter().any(|deleted| deleted[key] == old[key]));
    let protocol = |port: &Value| port["protocol"].as_str().unwrap_or("TCP").to_owned();
    for entry in entries {
        let is_same = |old: &&mut Value| {
            let tells_protocols = mode == Mode::ServerSide && key == "containerPort";
            old[key] == entry[key] && (!tells_protocols || protocol(old) == protocol(&entry))
        };
        match (list.iter_mut().find(is_same), entry) {
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new, of, mode)?,
            (_, new) => list.push(new),
        }
    }
    Ok(list)
}

fn is_deletion(entry: &Value) -> bool {
    entry[PATCH] == "delete"
}

/// Sorts entries in the order of a list that has all of them. Ported from `normalizeSliceOrder`.
fn sort_like(entries: &mut [Value], order: &[Value], key: &str) {
    entries.sort_by_key(|entry| (is_deletion(entry), position(order, entry, key)));
}

fn position(order: &[Value], entry: &Value, key: &str) -> usize {
    order.iter().position(|other| other[key] == entry[key]).unwrap_or(usize::MAX)
}

/// Puts the entries in `order` into that order, with the others, which only the live object has, between them in their
/// original places. Ported from `normalizeElementOrder` and `mergeSortedSlice`.
fn in_order(merged: Vec<Value>, order: &[Value], live: &[Value], key: &str) -> Vec<Value> {
    let (mut ordered, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|entry| position(order, entry, key) != usize::MAX);
    sort_like(&mut ordered, order, key);
    sort_like(&mut others, live, key);
    let mut all = Vec::with_capacity(ordered.len() + others.len());
    let mut others = others.into_iter().peekable();
    for entry in ordered {
        let place = position(live, &entry, key);
        let is_before = |other: &Value| place != usize::MAX && position(live, other, key) < place;
        while let Some(other) = others.next_if(is_before) {
            all.push(other);
        }
        all.push(entry);
    }
    all.extend(others);
    all
}

/// Returns a value without the maps that only carry a directive. Ported from `removeDirectives`.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(PATCH) => None,
        Value::Object(fields) => {
            let fields = fields.into_iter().filter_map(|(key, field)| Some((key, without_directives(field)?)));
            Some(Value::Object(fields.collect()))
        }
        Value::Array(items) => Some(items.into_iter().filter_map(without_directives).collect()),
        scalar => Some(scalar),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{patched, three_way_patch};

    fn object(pod: Value) -> Value {
        json!({"spec": {"template": {"spec": pod}}})
    }

    /// Returns the pod spec of the live object after `kubectl apply`.
    fn applied(last: Value, manifest: Value, live: Value) -> Value {
        let live = object(live);
        let patch = three_way_patch(&object(last), &object(manifest), &live).unwrap();
        patched(&live, patch).unwrap()["spec"]["template"]["spec"].take()
    }

    #[test]
    fn what_the_last_manifest_had_is_removed_and_what_others_added_stays() {
        let last = json!({"nodeSelector": {"disk": "ssd"}, "hostNetwork": true});
        let live = json!({"nodeSelector": {"disk": "ssd", "zone": "a"}, "hostNetwork": true, "dnsPolicy": "Default"});
        let expected = json!({"nodeSelector": {"zone": "a"}, "dnsPolicy": "Default"});
        assert_eq!(applied(last, json!({"nodeSelector": {}}), live.clone()), expected);
        assert_eq!(applied(json!({}), json!({}), live.clone()), live);
    }

    #[test]
    fn entries_of_lists_are_merged_by_key_in_the_order_of_the_manifest() {
        let last = json!({"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]});
        let manifest = json!({"containers": [{"name": "c", "image": "c:1"}, {"name": "a", "image": "a:2"}]});
        let live = json!({"containers": [
            {"name": "injected", "image": "x:1"},
            {"name": "a", "image": "a:1", "imagePullPolicy": "IfNotPresent"},
            {"name": "b", "image": "b:1"},
        ]});
        let expected = json!({"containers": [
            {"name": "c", "image": "c:1"},
            {"name": "injected", "image": "x:1"},
            {"name": "a", "image": "a:2", "imagePullPolicy": "IfNotPresent"},
        ]});
        assert_eq!(applied(last, manifest, live), expected);
    }

    #[test]
    fn eviction_responders_are_merged_by_name() {
        let manifest = json!({"evictionResponders": [{"name": "a.example/b"}]});
        let live = json!({"evictionResponders": [{"name": "a.example/b", "priority": 1}]});
        assert_eq!(applied(manifest.clone(), manifest, live.clone()), live);
    }

    #[test]
    fn lists_without_a_merge_key_are_replaced() {
        let live = json!({"tolerations": [{"key": "by-hand", "operator": "Exists"}]});
        let manifest = json!({"tolerations": [{"key": "a", "operator": "Exists"}]});
        assert_eq!(applied(json!({}), manifest.clone(), live), manifest);
    }

    #[test]
    fn one_source_of_a_volume_replaces_another() {
        let volume = |source: &str| json!({"volumes": [{"name": "data", source: {}}]});
        assert_eq!(applied(volume("emptyDir"), volume("hostPath"), volume("emptyDir")), volume("hostPath"));
        assert_eq!(applied(volume("hostPath"), volume("hostPath"), volume("emptyDir")), volume("hostPath"));
    }

    #[test]
    fn ports_of_one_number_are_mixed_up_as_by_kubectl() {
        let port = |protocol: &str| json!({"containerPort": 53, "protocol": protocol});
        let with = |ports: Value| json!({"containers": [{"name": "dns", "ports": ports}]});
        let both = with(json!([port("UDP"), port("TCP")]));
        assert_eq!(applied(both.clone(), both.clone(), both.clone()), both, "nothing changes");
        let one = applied(both.clone(), with(json!([port("UDP")])), both);
        assert_ne!(one, with(json!([port("UDP")])), "kubectl does not leave the one that the manifest has");
    }

    #[test]
    fn an_entry_without_its_key_cannot_be_merged() {
        let broken = object(json!({"containers": [{"image": "a"}]}));
        assert!(
            three_way_patch(&broken, &broken, &broken).unwrap_err().contains("does not contain the merge key name")
        );
    }
}
