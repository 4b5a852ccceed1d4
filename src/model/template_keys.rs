//! The keys that identify the entries of a template's lists.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// What identifies the entries of a list, and whether their order matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// The value of this field.
    Field(&'static str),
    /// The name; the order matters, because they run one after another.
    InitContainer,
    /// The name; the last entry with a name wins, and a value may refer to variables above it.
    Env,
    /// The reference and prefix; the last entry with a variable wins.
    EnvFrom,
    /// The port and protocol.
    Port,
    /// All fields that determine what is tolerated.
    Toleration,
    /// The topology key and `whenUnsatisfiable`.
    Spread,
    /// The kind of the source and the name of the object.
    Projection,
    /// The key and operator.
    Requirement,
    /// None; the order does not matter.
    Loose,
    /// Only the index.
    Sequence,
}

impl Key {
    /// Returns the key of an entry, as shown in the brackets of a path; empty if it has none.
    pub fn of(self, entry: &Value) -> String {
        let text = |field: &str| match entry.get(field) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        };
        match self {
            Key::Field(field) => text(field),
            Key::InitContainer | Key::Env => text("name"),
            Key::EnvFrom => {
                let prefix = text("prefix");
                let reference = reference(entry, &["configMapRef", "secretRef"]);
                if prefix.is_empty() { reference } else { format!("{prefix}*={reference}") }
            }
            Key::Port => format!("{}/{}", text("containerPort"), text("protocol")),
            Key::Toleration => toleration(&text("key"), &text("operator"), &text("value"), &text("effect")),
            Key::Spread => format!("{}:{}", text("topologyKey"), text("whenUnsatisfiable")),
            Key::Projection => {
                let kinds = ["secret", "configMap", "downwardAPI", "serviceAccountToken"];
                reference(entry, &[&kinds[..], &["clusterTrustBundle", "podCertificate"]].concat())
            }
            Key::Requirement => format!("{} {}", text("key"), text("operator")),
            Key::Loose | Key::Sequence => String::new(),
        }
    }

    /// Returns whether the order among entries of the same key matters.
    pub fn last_wins(self) -> bool {
        matches!(self, Key::InitContainer | Key::Env | Key::EnvFrom | Key::Sequence)
    }

    /// Returns the entries in canonical order: sorted unless their order matters.
    pub fn arrange(self, entries: &[Value]) -> Vec<Value> {
        match self {
            Key::InitContainer | Key::EnvFrom | Key::Sequence => entries.to_vec(),
            Key::Env => arrange_variables(entries),
            _ => {
                let mut entries = entries.to_vec();
                entries.sort_by_cached_key(|entry| (self.of(entry), entry.to_string()));
                entries
            }
        }
    }
}

/// Sorts variables by name without moving one past a variable that it refers to, or past one with the same name.
fn arrange_variables(entries: &[Value]) -> Vec<Value> {
    let names: Vec<String> = entries.iter().map(|entry| Key::Env.of(entry)).collect();
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, name) in names.iter().enumerate() {
        places.entry(name).or_default().push(place);
    }
    let of_one_name = places.values().flat_map(|places| places.windows(2).map(|pair| (pair[0], pair[1])));
    // Entries with the same name keep their relative order, so the nearest ones above and below constrain the others, too.
    let of_references = entries.iter().enumerate().flat_map(|(place, entry)| {
        let others = references(entry).into_iter().filter_map(|name| places.get(name));
        others.flat_map(move |others| {
            let (above, below) = others.split_at(others.partition_point(|other| *other < place));
            let below = below.iter().find(|other| **other != place);
            above.last().into_iter().map(move |above| (*above, place)).chain(below.map(|below| (place, *below)))
        })
    });
    let bound: BTreeSet<(usize, usize)> = of_one_name.chain(of_references).collect();
    let mut waits_for = vec![0_usize; entries.len()];
    for (_, below) in &bound {
        waits_for[*below] += 1;
    }
    let free = (0..entries.len()).filter(|&place| waits_for[place] == 0);
    let mut free: BTreeSet<(&str, usize)> = free.map(|place| (names[place].as_str(), place)).collect();
    let mut arranged = Vec::with_capacity(entries.len());
    while let Some((_, above)) = free.pop_first() {
        arranged.push(entries[above].clone());
        for &(_, below) in bound.range((above, 0)..(above + 1, 0)) {
            waits_for[below] -= 1;
            if waits_for[below] == 0 {
                free.insert((names[below].as_str(), below));
            }
        }
    }
    arranged
}

/// Returns the names of the variables that a variable's value refers to, as in `http://$(HOST)`; `$$` is a plain `$`.
///
/// Ported from `Expand`, third_party/forked/golang/expansion/expand.go, release 1.37.2.
fn references(entry: &Value) -> Vec<&str> {
    let mut rest = entry.get("value").and_then(Value::as_str).unwrap_or_default();
    let mut names = Vec::new();
    while let Some(dollar) = rest.find('$') {
        rest = &rest[dollar + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            names.push(name);
            rest = after;
        }
    }
    names
}

/// Returns the first of the fields that is present, with its name or path, such as `secret/tls`.
fn reference(entry: &Value, fields: &[&str]) -> String {
    let Some((field, target)) = fields.iter().find_map(|field| Some((*field, entry.get(*field)?))) else {
        return String::new();
    };
    let name = ["name", "signerName", "path"].iter().find_map(|name| target.get(*name)?.as_str());
    let kind = field.strip_suffix("Ref").unwrap_or(field);
    name.map_or_else(|| kind.to_owned(), |name| format!("{kind}/{name}"))
}

/// Writes a toleration as taints are written, such as `dedicated=gpu:NoSchedule`.
fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> String {
    let what = match (key, operator) {
        ("", "Exists") if value.is_empty() => "*".to_owned(),
        (key, "Exists") if value.is_empty() => key.to_owned(),
        (key, "" | "Equal") => format!("{key}={value}"),
        (key, "Gt") => format!("{key}>{value}"),
        (key, "Lt") => format!("{key}<{value}"),
        (key, operator) => format!("{key} {operator} {value}"),
    };
    if effect.is_empty() { what } else { format!("{what}:{effect}") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Key;

    #[test]
    fn entries_are_known_by_what_tells_them_apart() {
        for (key, entry, known_by) in [
            (Key::Field("mountPath"), json!({"name": "data", "mountPath": "/data"}), "/data"),
            (Key::Field("name"), json!({"image": "agent"}), ""),
            (Key::Field("name"), json!({"name": 5}), "5"),
            (Key::Port, json!({"containerPort": 9100, "protocol": "TCP"}), "9100/TCP"),
            (Key::EnvFrom, json!({"secretRef": {"name": "s"}, "prefix": "A_"}), "A_*=secret/s"),
            (Key::EnvFrom, json!({"configMapRef": {"name": "c"}}), "configMap/c"),
            (Key::Projection, json!({"serviceAccountToken": {"path": "token"}}), "serviceAccountToken/token"),
            (Key::Projection, json!({"downwardAPI": {"items": []}}), "downwardAPI"),
            (Key::Spread, json!({"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}), "zone:DoNotSchedule"),
            (Key::Toleration, json!({"operator": "Exists"}), "*"),
            (Key::Toleration, json!({"operator": "Exists", "effect": "NoExecute"}), "*:NoExecute"),
            (Key::Toleration, json!({"key": "a", "operator": "Exists"}), "a"),
            (Key::Toleration, json!({"key": "a", "value": "b", "effect": "NoSchedule"}), "a=b:NoSchedule"),
            (Key::Toleration, json!({"key": "a", "operator": "Gt", "value": "5"}), "a>5"),
            (Key::Requirement, json!({"key": "disk", "operator": "In", "values": ["ssd"]}), "disk In"),
            (Key::Loose, json!({"name": "a"}), ""),
        ] {
            assert_eq!(key.of(&entry), known_by, "{key:?} {entry}");
        }
    }

    #[test]
    fn variables_keep_to_the_side_of_those_that_they_refer_to() {
        let arrange = |variables: &[(&str, &str)]| {
            let entries: Vec<Value> =
                variables.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
            Key::Env
                .arrange(&entries)
                .iter()
                .map(|entry| entry["value"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(arrange(&[("C", "1"), ("B", "2"), ("A", "3")]), ["3", "2", "1"]);
        assert_eq!(arrange(&[("C", "1"), ("B", "2"), ("A", "$(C)")]), ["2", "1", "$(C)"]);
        assert_eq!(arrange(&[("B", "2"), ("C", "1"), ("A", "$(C)")]), ["2", "1", "$(C)"]);
        assert_eq!(arrange(&[("A", "$(C)"), ("B", "2"), ("C", "1")]), ["$(C)", "2", "1"]);
        assert_eq!(arrange(&[("C", "1"), ("A", "$$(C)")]), ["$$(C)", "1"]);
        assert_eq!(arrange(&[("C", "1"), ("A", "$$$(C)")]), ["1", "$$$(C)"]);
        assert_eq!(arrange(&[("A", "2"), ("A", "1"), ("A", "3")]), ["2", "1", "3"]);
        assert_eq!(arrange(&[("A", "$(A)")]), ["$(A)"]);
        assert_eq!(arrange(&[("B", "1"), ("A", "$(B)"), ("B", "2")]), ["1", "$(B)", "2"]);
        assert_eq!(arrange(&[("B", "1"), ("B", "2"), ("A", "$(B)")]), ["1", "2", "$(B)"]);
        assert_eq!(arrange(&[("A", "$(B)"), ("B", "1"), ("B", "2")]), ["$(B)", "1", "2"]);
        let many = vec![("A", "$(A)$(B)"); 20_000];
        assert_eq!(arrange(&many).len(), many.len());
    }
}
