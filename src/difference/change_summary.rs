//! A short summary of the differences between two pod templates, for a table column.

use serde_json::Value;

use crate::model::image::Image;
use crate::model::metadata::RESTARTED_AT_ANNOTATION;
use crate::report::change::{Change, Op, PathStep};

/// The maximum length of shown values.
const SHOWN: usize = 16;

/// Returns short fragments, most important first, such as `image agent 1.4 → 1.5` and `+env LEVEL`; changes with the
/// same text are merged.
pub fn in_a_few_words(changes: &[Change]) -> Vec<String> {
    let mut fragments: Vec<(Rank, String)> = changes.iter().map(fragment).collect();
    fragments.sort_by_key(|(rank, _)| *rank);
    let mut words: Vec<String> = Vec::new();
    for (_, fragment) in fragments {
        if !words.contains(&fragment) {
            words.push(fragment);
        }
    }
    words
}

/// The importance of a change, the most important one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Image,
    Container,
    Spec,
    Restart,
    Metadata,
}

fn fragment(change: &Change) -> (Rank, String) {
    let (steps, order) = match change.path.0.as_slice() {
        [steps @ .., PathStep::Order] => (steps, true),
        steps => (steps, false),
    };
    let names = steps.iter().map(|step| match step {
        PathStep::Field(name) | PathStep::Entry(name) => name.clone(),
        PathStep::Index(index) => index.to_string(),
        PathStep::Order => "order".to_owned(),
    });
    let names: Vec<String> = names.collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match names[..] {
        ["spec", list] if order && is_containers(list) => (Rank::Container, format!("order of {}s", singular(list))),
        ["spec", list, container, field] if order && is_containers(list) => {
            (Rank::Spec, format!("order of {field} {container}"))
        }
        _ if order => (Rank::Spec, format!("order of {}", names.last().copied().unwrap_or_default())),
        ["metadata", "annotations", RESTARTED_AT_ANNOTATION] if change.op != Op::Remove => {
            (Rank::Restart, "restart".to_owned())
        }
        ["metadata", "annotations", key] => (Rank::Metadata, signed(change, &format!("annotation {}", short_key(key)))),
        ["metadata", "labels", key] => (Rank::Metadata, signed(change, &pair("label", short_key(key), change))),
        ["metadata", ref rest @ ..] => (Rank::Metadata, other(change, rest)),
        ["spec", list, name] if is_containers(list) => {
            (Rank::Container, signed(change, &format!("{} {name}", singular(list))))
        }
        ["spec", list, name, "image"] if is_containers(list) => (Rank::Image, image(name, change)),
        ["spec", list, name, ref rest @ ..] if is_containers(list) => (Rank::Spec, in_container(change, name, rest)),
        ["spec", ref rest @ ..] => (Rank::Spec, in_pod(change, rest)),
        ref rest => (Rank::Metadata, other(change, rest)),
    }
}

fn is_containers(list: &str) -> bool {
    matches!(list, "containers" | "initContainers" | "ephemeralContainers")
}

/// Summarizes a change in a container; the container's name is omitted if the changed entry has a name.
fn in_container(change: &Change, container: &str, path: &[&str]) -> String {
    match path {
        [list @ ("env" | "envFrom" | "ports" | "volumeMounts" | "volumeDevices"), name] => {
            signed(change, &format!("{} {name}", singular(list)))
        }
        [list @ ("env" | "envFrom" | "ports" | "volumeMounts" | "volumeDevices"), name, ..] => {
            format!("{} {name}", singular(list))
        }
        ["args" | "command", ..] => format!("{} {container}", path[0]),
        ["resources", kind @ ("limits" | "requests"), resource] => {
            signed(change, &with_values(&format!("{kind} {container} {}", short_key(resource)), change))
        }
        [field] => signed(change, &with_values(&format!("{field} {container}"), change)),
        [field, ..] => format!("{field} {container}"),
        [] => container.to_owned(),
    }
}

/// Summarizes a change in the pod spec outside of containers.
fn in_pod(change: &Change, path: &[&str]) -> String {
    match path {
        ["nodeSelector", key] if change.op == Op::Replace => {
            with_values(&format!("nodeSelector {}:", short_key(key)), change)
        }
        ["nodeSelector", key] => signed(change, &pair("nodeSelector", short_key(key), change)),
        ["affinity", kind] => signed(change, kind),
        ["affinity", kind, ..] => (*kind).to_owned(),
        [field, part] => signed(change, &with_values(&format!("{} {}", singular(field), short_key(part)), change)),
        [field, part, ..] => format!("{} {}", singular(field), short_key(part)),
        _ => other(change, path),
    }
}

/// Returns the name of the top-level field that changed.
fn other(change: &Change, path: &[&str]) -> String {
    match path {
        [field] => signed(change, &with_values(field, change)),
        [field, ..] => (*field).to_owned(),
        [] => "template".to_owned(),
    }
}

fn singular(list: &str) -> &str {
    match list {
        "containers" => "container",
        "initContainers" => "init container",
        "ephemeralContainers" => "ephemeral container",
        "ports" => "port",
        "volumeMounts" => "mount",
        "volumeDevices" => "device",
        "volumes" => "volume",
        "tolerations" => "toleration",
        "imagePullSecrets" => "imagePullSecret",
        "hostAliases" => "hostAlias",
        "topologySpreadConstraints" => "topologySpread",
        "readinessGates" => "readinessGate",
        "schedulingGates" => "schedulingGate",
        "resourceClaims" => "resourceClaim",
        other => other,
    }
}

/// Prefixes what was added or removed with a sign.
fn signed(change: &Change, what: &str) -> String {
    match change.op {
        Op::Add => format!("+{what}"),
        Op::Remove => format!("-{what}"),
        Op::Replace => what.to_owned(),
    }
}

/// Appends the values if they are short: both, or only the new one.
fn with_values(what: &str, change: &Change) -> String {
    match (change.from.as_ref().map(short), change.to.as_ref().map(short)) {
        (Some(Some(from)), Some(Some(to))) => format!("{what} {from} → {to}"),
        (None, Some(Some(to))) => format!("{what} {to}"),
        _ => what.to_owned(),
    }
}

/// Writes a key with its new value, such as `disk=ssd`.
fn pair(what: &str, key: &str, change: &Change) -> String {
    match change.to.as_ref().and_then(short) {
        Some(value) => format!("{what} {key}={value}"),
        None => format!("{what} {key}"),
    }
}

fn short(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) if text.is_empty() || text.contains(char::is_whitespace) => value.to_string(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        _ => return None,
    };
    (text.chars().count() <= SHOWN).then_some(text)
}

/// Removes the domain of a long key.
fn short_key(key: &str) -> &str {
    match key.rsplit_once('/') {
        Some((_, name)) if key.chars().count() > SHOWN && !name.is_empty() => name,
        _ => key,
    }
}

/// Summarizes the change of an image: its tag or digest, or all of it if the repository changed.
fn image(container: &str, change: &Change) -> String {
    let (Some(Value::String(from)), Some(Value::String(to))) = (&change.from, &change.to) else {
        return signed(change, &format!("image {container}"));
    };
    let (old, new) = (Image::new(from), Image::new(to));
    let (from, to) = if old.repository != new.repository {
        (whole(old), whole(new))
    } else if old.tag == new.tag && old.tag.is_some() {
        (digest(old), digest(new))
    } else {
        (version(old), version(new))
    };
    format!("image {container} {from} → {to}")
}

fn whole(image: Image) -> String {
    let tag = image.tag.map(|tag| format!(":{tag}")).unwrap_or_default();
    let digest = image.digest.map(|digest| format!("@{}", short_digest(digest))).unwrap_or_default();
    format!("{}{tag}{digest}", image.repository)
}

/// Returns the tag, or the digest if there is none; an image with neither is `latest`.
fn version(image: Image) -> String {
    match (image.tag, image.digest) {
        (Some(tag), _) => tag.to_owned(),
        (None, Some(_)) => digest(image),
        (None, None) => "latest".to_owned(),
    }
}

fn digest(image: Image) -> String {
    image.digest.map_or_else(|| "no digest".to_owned(), |digest| format!("@{}", short_digest(digest)))
}

/// Returns the first digits of a digest.
fn short_digest(digest: &str) -> &str {
    let digits = digest.split_once(':').map_or(digest, |(_, digits)| digits);
    digits.char_indices().nth(8).map_or(digits, |(end, _)| &digits[..end])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::in_a_few_words;
    use crate::report::change::Change;

    /// Summarizes one change; null values are absent.
    fn said(path: &str, from: Value, to: Value) -> String {
        let given = |value: Value| Some(value).filter(|value| !value.is_null());
        in_a_few_words(&[Change::new(path, given(from), given(to))]).join(", ")
    }

    #[test]
    fn of_an_image_the_part_that_changed_is_shown() {
        let image = |from: &str, to: &str| said("spec.containers[agent].image", json!(from), json!(to));
        let digest = |digits: &str| format!("sha256:{}", digits.repeat(8));
        assert_eq!(image("host:5000/agent:1.4", "host:5000/agent:1.5"), "image agent 1.4 → 1.5");
        assert_eq!(image("agent", "agent:1.5"), "image agent latest → 1.5");
        assert_eq!(image("agent:1", "agent2:1"), "image agent agent:1 → agent2:1");
        let (old, new) = (digest("0123abcd"), digest("89abcdef"));
        assert_eq!(image(&format!("a@{old}"), &format!("a@{new}")), "image agent @0123abcd → @89abcdef");
        assert_eq!(image(&format!("a:1@{old}"), &format!("a:2@{new}")), "image agent 1 → 2");
        assert_eq!(image(&format!("a:1@{old}"), &format!("a:1@{new}")), "image agent @0123abcd → @89abcdef");
        assert_eq!(image("a:1", &format!("a:1@{new}")), "image agent no digest → @89abcdef");
        assert_eq!(image(&format!("a:1@{old}"), "b:2"), "image agent a:1@0123abcd → b:2");
        assert_eq!(image("a", &format!("a@{new}")), "image agent latest → @89abcdef");
    }

    #[test]
    fn every_kind_of_change_has_words_of_its_own() {
        for (path, from, to, words) in [
            ("spec.containers[x]", json!(null), json!({"name": "x"}), "+container x"),
            ("spec.initContainers[x]", json!({"name": "x"}), json!(null), "-init container x"),
            ("spec.initContainers (order)", json!(["a", "b"]), json!(["b", "a"]), "order of init containers"),
            ("spec.containers[agent].env[LEVEL]", json!(null), json!("1_000"), "+env LEVEL"),
            ("spec.containers[agent].env[MODE]", json!("yes"), json!(null), "-env MODE"),
            ("spec.containers[agent].env[MODE]", json!("yes"), json!("no"), "env MODE"),
            ("spec.containers[agent].env[A].valueFrom.secretKeyRef.key", json!("a"), json!("b"), "env A"),
            ("spec.containers[agent].env (order)", json!(["A", "B"]), json!(["B", "A"]), "order of env agent"),
            ("spec.containers[agent].args[2]", json!("-v"), json!(null), "args agent"),
            (
                "spec.containers[agent].resources.limits.memory",
                json!("64Mi"),
                json!("128Mi"),
                "limits agent memory 64Mi → 128Mi",
            ),
            (
                "spec.containers[agent].resources.limits[example.com/gpu]",
                json!(null),
                json!("1"),
                "+limits agent example.com/gpu 1",
            ),
            ("spec.containers[agent].ports[9100/TCP].hostPort", json!(9100), json!(9200), "port 9100/TCP"),
            ("spec.containers[agent].volumeMounts[/data]", json!(null), json!({}), "+mount /data"),
            ("spec.containers[agent].livenessProbe", json!({}), json!(null), "-livenessProbe agent"),
            ("spec.containers[agent].livenessProbe.periodSeconds", json!(1), json!(2), "livenessProbe agent"),
            (
                "spec.containers[agent].imagePullPolicy",
                json!("Always"),
                json!("IfNotPresent"),
                "imagePullPolicy agent Always → IfNotPresent",
            ),
            ("spec.nodeSelector[disk]", json!("hdd"), json!("ssd"), "nodeSelector disk: hdd → ssd"),
            ("spec.nodeSelector[disk]", json!("ssd"), json!(null), "-nodeSelector disk"),
            (
                "spec.tolerations[dedicated=gpu:NoSchedule]",
                json!(null),
                json!({}),
                "+toleration dedicated=gpu:NoSchedule",
            ),
            ("spec.volumes[data].hostPath.path", json!("/a"), json!("/b"), "volume data"),
            ("spec.hostNetwork", json!(null), json!(true), "+hostNetwork true"),
            ("spec.priorityClassName", json!("low"), json!("high"), "priorityClassName low → high"),
            ("spec.securityContext.runAsUser", json!(0), json!(1000), "securityContext runAsUser 0 → 1000"),
            ("spec.affinity.nodeAffinity", json!(null), json!({}), "+nodeAffinity"),
            ("metadata.labels[app]", json!("a"), json!("b"), "label app=b"),
            ("metadata.annotations[checksum/config]", json!("a"), json!("b"), "annotation checksum/config"),
            ("metadata.annotations[kubectl.kubernetes.io/restartedAt]", json!(null), json!("2026"), "restart"),
            (
                "metadata.annotations[kubectl.kubernetes.io/restartedAt]",
                json!("2026"),
                json!(null),
                "-annotation restartedAt",
            ),
            ("newField", json!({}), json!([]), "newField"),
            // An image that is mounted as a volume is not a container's image.
            ("spec.volumes[data].image", json!(null), json!({"reference": "data:1"}), "volume data"),
            ("spec.containers", json!(null), json!([]), "+containers"),
            ("spec.hostAliases (order)", json!(["a", "b"]), json!(["b", "a"]), "order of hostAliases"),
            ("spec.ephemeralContainers[x]", json!(null), json!({}), "+ephemeral container x"),
            ("spec.containers[agent].volumeDevices[/dev/x]", json!(null), json!({}), "+device /dev/x"),
            ("spec.hostAliases[1.2.3.4]", json!(null), json!({}), "+hostAlias 1.2.3.4"),
            ("spec.topologySpreadConstraints[zone]", json!(null), json!({}), "+topologySpread zone"),
            ("spec.resourceClaims[x]", json!(null), json!({}), "+resourceClaim x"),
            ("spec.affinity.nodeAffinity.required", json!(null), json!({}), "nodeAffinity"),
            ("spec.imagePullSecrets[x]", json!(null), json!({}), "+imagePullSecret x"),
            ("spec.readinessGates[x]", json!(null), json!({}), "+readinessGate x"),
            ("spec.schedulingGates[x]", json!(null), json!({}), "+schedulingGate x"),
            // Only keys of more than 16 characters are shortened.
            ("spec.nodeSelector[example.com/disk]", json!(null), json!("ssd"), "+nodeSelector example.com/disk=ssd"),
            ("spec.nodeSelector[example.com/disks]", json!(null), json!("ssd"), "+nodeSelector disks=ssd"),
        ] {
            assert_eq!(said(path, from, to), words, "{path}");
        }
    }

    #[test]
    fn values_that_are_long_or_no_plain_text_are_left_out() {
        let priority = |to: Value| said("spec.priorityClassName", json!("low"), to);
        assert_eq!(priority(json!("x".repeat(17))), "priorityClassName");
        assert_eq!(priority(json!("x".repeat(16))), format!("priorityClassName low → {}", "x".repeat(16)));
        assert_eq!(priority(json!("a\nb")), "priorityClassName low → \"a\\nb\"");
        assert_eq!(priority(json!({})), "priorityClassName");
    }

    #[test]
    fn the_most_telling_comes_first_and_nothing_twice() {
        let changes = [
            Change::new("metadata.labels[app]", None, Some(json!("a"))),
            Change::new("metadata.annotations[kubectl.kubernetes.io/restartedAt]", None, Some(json!("2026"))),
            Change::new("spec.containers[agent].args[0]", Some(json!("a")), None),
            Change::new("spec.containers[agent].args[1]", None, Some(json!("b"))),
            Change::new("spec.containers[agent].image", Some(json!("a:1")), Some(json!("a:2"))),
            Change::new("spec.containers[x]", None, Some(json!({}))),
        ];
        assert_eq!(
            in_a_few_words(&changes).join(", "),
            "image agent 1 → 2, +container x, args agent, restart, +label app=a"
        );
    }
}
