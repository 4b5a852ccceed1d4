//! Random changes to a manifest: fields are deleted, added, moved or set to something odd, and entries are duplicated.

use std::collections::BTreeMap;

use kubectl_ds::model::template_types::{DaemonSet, FieldKind, Scalar, TYPES, Type};
use serde_json::{Map, Value, json};

use crate::support::random::Random;
use crate::support::validation::manifests;

const TEXTS: &[&str] = &[
    "",
    "a",
    "A",
    "a b",
    "a.b",
    "-a",
    "a-",
    "a/b",
    "a/b/c",
    "/a",
    "../a",
    "a/../b",
    "..a",
    "..",
    "NoSchedule",
    "NoExecute",
    "Exists",
    "In",
    "Equal",
    "Always",
    "Never",
    "Gt",
    "é",
    "1",
    "01",
    "10%",
    "110%",
    "1Gi",
    "-1Gi",
    "1.5",
    "0.1m",
    "1e3",
    "12GB",
    "http",
    "9099",
    "$(A)",
    "a=b",
    "*.b",
    "example.com/a",
    "kubernetes.io/x",
    "requests.x/a",
    "10.0.0.1",
    "010.0.0.1",
    "::1",
    "::ffff:10.0.0.1",
    "metadata.name",
    "metadata.labels['a b']",
    "spec.host",
    "limits.cpu",
    "Localhost",
    "runtime/default",
    "localhost/a",
    "localhost//a",
    "Bidirectional",
    "None",
    "cpu",
    "memory",
    "agent",
    "config",
    "windows",
    "2020-01-01T00:00:00Z",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "iqn.2001-04.com.example:a",
    "eui.1",
    "a:1",
];
const NUMBERS: &[i64] = &[
    0,
    -1,
    1,
    2,
    80,
    255,
    256,
    420,
    511,
    512,
    599,
    600,
    65_535,
    65_536,
    99_999_999,
    2_147_483_647,
    2_147_483_648,
    1 << 40,
];
const AMOUNTS: &[&str] = &["1", "1Gi", "0", "-1", "1m", "3Mi", "1.5", "100m", "2Mi", "x", "1024", "1Ki"];
const RESOURCES: &[&str] = &[
    "cpu",
    "memory",
    "hugepages-2Mi",
    "hugepages-x",
    "example.com/gpu",
    "a",
    "ephemeral-storage",
    "pods",
    "requests.cpu",
    "kubernetes.io/z",
    "storage",
];

/// Makes changed manifests.
pub struct Changes {
    random: Random,
    manifests: Vec<Value>,
    /// The values of fields that the manifests have, by the field's name.
    known: BTreeMap<String, Vec<Value>>,
}

impl Changes {
    pub fn new(seed: u64) -> Self {
        let manifests = manifests();
        let mut known: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for manifest in &manifests {
            for path in paths(manifest) {
                if let Some(name) = path.rsplit('/').next().filter(|name| name.parse::<usize>().is_err()) {
                    known.entry(name.to_owned()).or_default().extend(manifest.pointer(&path).cloned());
                }
            }
        }
        Changes { random: Random::new(seed), manifests, known }
    }

    /// Returns a manifest with one to three changes; its name, its namespace and its type stay.
    pub fn next(&mut self) -> Value {
        let before = self.random.pick(&self.manifests).clone();
        let mut after = before.clone();
        for _ in 0..*self.random.pick(&[1, 1, 1, 1, 2, 3]) {
            self.change(&mut after);
        }
        if !after["metadata"].is_object() {
            after["metadata"] = json!({});
        }
        for pointer in ["apiVersion", "kind"] {
            after[pointer] = before[pointer].clone();
        }
        for field in ["name", "namespace"] {
            after["metadata"][field] = before["metadata"][field].clone();
        }
        // The server writes its own, and stores no object that has been stored before.
        let metadata = after["metadata"].as_object_mut().unwrap();
        metadata.retain(|field, _| !matches!(field.as_str(), "managedFields" | "resourceVersion" | "generateName"));
        after
    }

    fn change(&mut self, object: &mut Value) {
        let all = paths(object);
        let path = self.random.pick(&all).clone();
        let (parent, name) = path.rsplit_once('/').unwrap();
        let kind = kind_at(&path);
        match self.random.below(100) {
            0..15 => remove(object.pointer_mut(parent).unwrap(), name),
            15..40 => {
                let value = match kind {
                    Some(kind) if self.random.percent(50) => self.value(kind, 0),
                    _ => self.odd(),
                };
                *object.pointer_mut(&path).unwrap() = value;
            }
            40..52 => {
                if let Some(values) = self.known.get(name) {
                    *object.pointer_mut(&path).unwrap() = self.random.pick(values).clone();
                }
            }
            52..62 => {
                if let Some(list) = object.pointer_mut(parent).and_then(Value::as_array_mut) {
                    let entry = list[name.parse::<usize>().unwrap()].clone();
                    list.insert(self.random.below(list.len() + 1), entry);
                }
            }
            62..70 => {
                let value = object.pointer(&path).unwrap().clone();
                let place = self.random.pick(&all).as_str();
                *object.pointer_mut(place).unwrap() = value;
            }
            70..97 => {
                let root = String::new();
                let objects: Vec<(&String, &Type)> =
                    [&root].into_iter().chain(&all).filter_map(|path| Some((path, type_at(path)?))).collect();
                let (path, of) = *self.random.pick(&objects);
                let field = self.random.pick(of.fields);
                let value = self.field(field.name, &field.kind, 0);
                if let Some(fields) = object.pointer_mut(path).and_then(Value::as_object_mut) {
                    fields.insert(field.name.to_owned(), value);
                }
            }
            _ => {
                let value = self.odd();
                if let Some(fields) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
                    fields.insert(self.random.word(&["foo", "replicas", "Name", "hostPrt"]).to_owned(), value);
                }
            }
        }
    }

    fn odd(&mut self) -> Value {
        match self.random.below(100) {
            0..60 => json!(self.random.word(TEXTS)),
            60..85 => json!(self.random.pick(NUMBERS)),
            _ => {
                let odd = [
                    json!(null),
                    json!(true),
                    json!(1.5),
                    json!([]),
                    json!({}),
                    json!(["a"]),
                    json!({"a": "b"}),
                    json!([null]),
                ];
                self.random.pick(&odd).clone()
            }
        }
    }

    fn field(&mut self, name: &str, kind: &'static FieldKind, depth: usize) -> Value {
        match self.known.get(name) {
            Some(values) if self.random.percent(70) => self.random.pick(values).clone(),
            _ => self.value(kind, depth),
        }
    }

    fn value(&mut self, kind: &'static FieldKind, depth: usize) -> Value {
        let count = *self.random.pick(&[0, 1, 1, 2]);
        match kind {
            FieldKind::Value(scalar) | FieldKind::Pointer(scalar) => self.scalar(*scalar),
            FieldKind::IntOrString => self.scalar(Scalar::IntOrString),
            FieldKind::Quantity | FieldKind::OptionalQuantity => self.scalar(Scalar::Quantity),
            FieldKind::Quantities => {
                let entry = |random: &mut Random| (random.word(RESOURCES).to_owned(), json!(random.word(AMOUNTS)));
                (0..count).map(|_| entry(&mut self.random)).collect::<Map<_, _>>().into()
            }
            FieldKind::Texts => {
                let entry = |random: &mut Random| (random.word(TEXTS).to_owned(), json!(random.word(TEXTS)));
                (0..count).map(|_| entry(&mut self.random)).collect::<Map<_, _>>().into()
            }
            FieldKind::Values(scalar) => (0..count).map(|_| self.scalar(*scalar)).collect(),
            FieldKind::List(of, _) => (0..count).map(|_| self.object(of, depth + 1)).collect(),
            FieldKind::Struct(of) | FieldKind::Optional(of) => self.object(of, depth + 1),
        }
    }

    fn object(&mut self, of: &'static Type, depth: usize) -> Value {
        let mut fields = Map::new();
        for field in of.fields.iter().filter(|_| depth < 4) {
            if self.random.percent(30) {
                fields.insert(field.name.to_owned(), self.field(field.name, &field.kind, depth));
            }
        }
        Value::Object(fields)
    }

    fn scalar(&mut self, scalar: Scalar) -> Value {
        match scalar {
            Scalar::Int32 | Scalar::Int64 => json!(self.random.pick(NUMBERS)),
            Scalar::Bool => json!(self.random.percent(50)),
            Scalar::Quantity => json!(self.random.word(AMOUNTS)),
            Scalar::IntOrString if self.random.percent(50) => json!(self.random.pick(NUMBERS)),
            _ => json!(self.random.word(TEXTS)),
        }
    }
}

/// Returns the pointers to all that an object has.
fn paths(object: &Value) -> Vec<String> {
    fn add(value: &Value, path: &str, into: &mut Vec<String>) {
        let children: Vec<(String, &Value)> = match value {
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| (name.replace('~', "~0").replace('/', "~1"), value)).collect()
            }
            Value::Array(items) => items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
            _ => Vec::new(),
        };
        for (name, value) in children {
            let path = format!("{path}/{name}");
            into.push(path.clone());
            add(value, &path, into);
        }
    }
    let mut all = Vec::new();
    add(object, "", &mut all);
    all
}

/// Returns what the field at a pointer holds; `None` for entries of lists and maps, and if it is unknown.
fn kind_at(path: &str) -> Option<&'static FieldKind> {
    let (parent, name) = path.rsplit_once('/')?;
    Some(&type_at(parent)?.field(name)?.kind)
}

/// Returns the type of the object at a pointer.
fn type_at(path: &str) -> Option<&'static Type> {
    let mut of: &'static Type = TYPES.iter().find(|of| of.name == DaemonSet.name)?;
    let mut is_list = false;
    for name in path.split('/').skip(1) {
        if std::mem::take(&mut is_list) && name.parse::<usize>().is_ok() {
            continue;
        }
        (of, is_list) = match of.field(name)?.kind {
            FieldKind::Struct(of) | FieldKind::Optional(of) => (of, false),
            FieldKind::List(of, _) => (of, true),
            _ => return None,
        };
    }
    (!is_list).then_some(of)
}

fn remove(parent: &mut Value, name: &str) {
    match parent {
        Value::Array(items) => drop(items.remove(name.parse().unwrap())),
        Value::Object(fields) => drop(fields.remove(&name.replace("~1", "/").replace("~0", "~"))),
        _ => {}
    }
}
