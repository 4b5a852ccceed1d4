//! The differences between two pod templates in a few words, for a column of a table.

use serde_json::Value;

use super::path::{Step, steps};
use crate::model::image::Image;
use crate::report::change::{Change, Op};

/// The annotation of a pod template that `kubectl rollout restart` sets.
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// Values up to that many characters are shown.
const SHOWN: usize = 16;

/// Returns short fragments, most telling first, such as `image agent 1.4 → 1.5` and `+env LEVEL`; changes that read
/// the same make one.
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

/// How much a change tells about why a template was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Image,
    Container,
    Spec,
    Restart,
    Metadata,
}

fn fragment(change: &Change) -> (Rank, String) {
    let steps = steps(&change.path);
    let names: Vec<&str> = steps
        .iter()
        .map(|step| match step {
            Step::Field(name) | Step::Entry(name) => name.as_str(),
            Step::Order => "order",
        })
        .collect();
    match names[..] {
        ["metadata", "annotations", RESTARTED_AT] if change.op != Op::Remove => (Rank::Restart, "restart".to_owned()),
        ["metadata", "annotations", key] => (Rank::Metadata, signed(change, &format!("annotation {}", short_key(key)))),
        ["metadata", "labels", key] => (Rank::Metadata, signed(change, &pair("label", short_key(key), change))),
        ["metadata", ref rest @ ..] => (Rank::Metadata, other(change, rest)),
        ["spec", list, "order"] if is_containers(list) => (Rank::Container, format!("order of {}s", singular(list))),
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

/// Says what changed within a container; its name is left out where what changed has one of its own.
fn in_container(change: &Change, container: &str, path: &[&str]) -> String {
    match path {
        ["env" | "envFrom", "order"] => format!("order of env {container}"),
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

/// Says what changed in the spec beside the containers.
fn in_pod(change: &Change, path: &[&str]) -> String {
    match path {
        ["nodeSelector", key] => signed(change, &pair("nodeSelector", short_key(key), change)),
        ["volumes" | "tolerations" | "imagePullSecrets" | "hostAliases" | "topologySpreadConstraints", name] => {
            signed(change, &format!("{} {}", singular(path[0]), short_key(name)))
        }
        ["volumes" | "tolerations" | "imagePullSecrets" | "hostAliases" | "topologySpreadConstraints", name, ..] => {
            format!("{} {}", singular(path[0]), short_key(name))
        }
        ["affinity", kind] => signed(change, kind),
        ["affinity", kind, ..] => (*kind).to_owned(),
        [field] => signed(change, &with_values(field, change)),
        [field @ ("securityContext" | "dnsConfig" | "overhead" | "resources" | "os"), part, ..] => {
            format!("{field} {}", short_key(part))
        }
        _ => other(change, path),
    }
}

/// Names the last field and the entry that it is in.
fn other(change: &Change, path: &[&str]) -> String {
    match path {
        [.., last] if path.len() == 1 => signed(change, &with_values(last, change)),
        [first, ..] => (*first).to_owned(),
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
        other => other,
    }
}

/// Puts a sign before what is new or gone.
fn signed(change: &Change, what: &str) -> String {
    match change.op {
        Op::Add => format!("+{what}"),
        Op::Remove => format!("-{what}"),
        Op::Replace => what.to_owned(),
    }
}

/// Adds the values, where they are short: both of them, or the one that is new.
fn with_values(what: &str, change: &Change) -> String {
    match (&change.from, &change.to) {
        (Some(from), Some(to)) => match (short(from), short(to)) {
            (Some(from), Some(to)) => format!("{what} {from} → {to}"),
            _ => what.to_owned(),
        },
        (None, Some(to)) => short(to).map_or_else(|| what.to_owned(), |to| format!("{what} {to}")),
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

/// Leaves the domain out of a long key.
fn short_key(key: &str) -> &str {
    match key.rsplit_once('/') {
        Some((_, name)) if key.chars().count() > SHOWN && !name.is_empty() => name,
        _ => key,
    }
}

/// Says which part of an image changed: the tag or the digest, or all of it where the repository did.
fn image(container: &str, change: &Change) -> String {
    let (Some(Value::String(from)), Some(Value::String(to))) = (&change.from, &change.to) else {
        return signed(change, &format!("image {container}"));
    };
    let (old, new) = (Image::new(from), Image::new(to));
    let (from, to) = if old.repository != new.repository {
        (whole(old), whole(new))
    } else if old.tag != new.tag {
        (version(old), version(new))
    } else {
        (digest(old), digest(new))
    };
    format!("image {container} {from} → {to}")
}

fn whole(image: Image) -> String {
    let tag = image.tag.map(|tag| format!(":{tag}")).unwrap_or_default();
    let digest = image.digest.map(|digest| format!("@{}", short_digest(digest))).unwrap_or_default();
    format!("{}{tag}{digest}", image.repository)
}

/// Returns the tag, or what stands for it: an image without tag and digest is the latest.
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

/// Returns the first digits of a digest, as many as tell two apart in practice.
fn short_digest(digest: &str) -> &str {
    let digits = digest.split_once(':').map_or(digest, |(_, digits)| digits);
    digits.char_indices().nth(8).map_or(digits, |(end, _)| &digits[..end])
}
