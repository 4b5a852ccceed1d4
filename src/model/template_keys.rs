//! What the entries of a template's lists are known by.

use serde_json::Value;

/// How the entries of a list are told from each other, and whether their order means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// By the text of that field.
    Field(&'static str),
    /// By name; they run one after the other, so that their order matters.
    InitContainer,
    /// By name; the last of a name wins, and a value may refer to variables above it.
    Env,
    /// By reference and prefix; the last that has a variable wins.
    EnvFrom,
    /// By port and protocol.
    Port,
    /// By all that decides what is tolerated.
    Toleration,
    /// By topology key and what happens when it cannot be satisfied.
    Spread,
    /// By the kind of the source and the name of what it reads.
    Projection,
    /// By key and operator.
    Requirement,
    /// By nothing; the order does not matter.
    Loose,
    /// By nothing but their place.
    Sequence,
}

impl Key {
    /// Returns what an entry is known by, as it stands between the brackets of a path; nothing where an entry has no
    /// such thing.
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

    /// Tells whether the order among entries of the same key means something.
    pub fn last_wins(self) -> bool {
        matches!(self, Key::InitContainer | Key::Env | Key::EnvFrom | Key::Sequence)
    }

    /// Returns the entries in an order that all orders of the same meaning have in common.
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

/// Sorts variables by name as far as none comes to stand on the other side of one that it refers to, or of one of
/// the same name.
fn arrange_variables(entries: &[Value]) -> Vec<Value> {
    let names: Vec<String> = entries.iter().map(|entry| Key::Env.of(entry)).collect();
    let refers: Vec<Vec<&str>> = entries.iter().map(references).collect();
    let are_bound = |one: usize, other: usize| {
        names[one] == names[other]
            || refers[one].contains(&names[other].as_str())
            || refers[other].contains(&names[one].as_str())
    };
    let mut left: Vec<usize> = (0..entries.len()).collect();
    let mut arranged = Vec::with_capacity(entries.len());
    while !left.is_empty() {
        let is_free = |&place: &usize| left[..place].iter().all(|&above| !are_bound(above, left[place]));
        let next = (0..left.len()).filter(is_free).min_by_key(|&place| &names[left[place]]).unwrap_or_default();
        arranged.push(entries[left.remove(next)].clone());
    }
    arranged
}

/// Returns the names of the variables that a variable's value refers to, as in `http://$(HOST)`; `$$` is a plain `$`.
///
/// Ported from `Expand`, third_party/forked/golang/expansion/expand.go, release 1.36.3.
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

/// Returns the first of the fields that is there, with the name or path in it, such as `secret/tls`.
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
