//! Generates random pod templates, with all types of a template and every oddity.

use kubectl_ds::model::template_keys::Key;
use kubectl_ds::model::template_types::{Field, FieldKind, PodTemplateSpec, Type};
use serde_json::{Map, Value, json};

use super::random::Random;

/// What a template may have in it that the API server would refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taste {
    /// Nothing: the API server reads it.
    Readable,
    /// Fields that are not known.
    Unknown,
    /// Values of a wrong type too.
    Broken,
}

/// Makes a template.
pub fn template(random: &mut Random, taste: Taste) -> Value {
    object(random, &PodTemplateSpec, taste)
}

fn object(random: &mut Random, of: &Type, taste: Taste) -> Value {
    let mut fields = Map::new();
    for field in of.fields {
        if random.percent(likelihood(of, field)) {
            fields.insert(field.name.to_owned(), value(random, of, field, taste));
        }
    }
    if of.name == "Volume" {
        let sources: Vec<&Field> =
            of.fields.iter().filter(|field| matches!(field.kind, FieldKind::Optional(_))).collect();
        for _ in 0..*random.pick(&[0, 1, 1, 1, 1, 1, 1, 2]) {
            let usual = ["hostPath", "emptyDir", "configMap", "secret", "projected", "downwardAPI", "ephemeral"];
            let mut source = *random.pick(&sources);
            if random.percent(60) {
                source = of.field(random.word(&usual)).unwrap();
            }
            fields.insert(source.name.to_owned(), value(random, of, source, taste));
        }
    }
    if taste != Taste::Readable && random.percent(3) {
        fields.insert(random.word(&["newField", "odd.field"]).to_owned(), unknown(random));
    }
    Value::Object(fields)
}

/// Returns how often of a hundred times a field is there.
fn likelihood(of: &Type, field: &Field) -> usize {
    match (of.name, field.name) {
        ("PodTemplateSpec", _) | (_, "name" | "image" | "mountPath" | "containerPort" | "key" | "containers") => 96,
        ("ObjectMeta", "labels" | "annotations") => 60,
        ("ObjectMeta", _) => 2,
        ("PodSpec", "volumes") => 75,
        ("PodSpec", "initContainers" | "tolerations" | "nodeSelector") => 45,
        ("PodSpec", "ephemeralContainers") => 3,
        ("PodSpec", _) => 14,
        ("Container" | "EphemeralContainer", "env" | "ports" | "volumeMounts" | "resources" | "args") => 45,
        ("Container" | "EphemeralContainer", _) => 14,
        ("EnvVar", "valueFrom") => 25,
        ("Volume", _) => 0,
        _ => 45,
    }
}

fn value(random: &mut Random, of: &Type, field: &Field, taste: Taste) -> Value {
    if random.percent(2) {
        return Value::Null;
    }
    if taste == Taste::Broken && random.percent(2) {
        return unknown(random);
    }
    match &field.kind {
        FieldKind::Value(_) | FieldKind::Pointer(_) => scalar(random, of.name, field.name),
        FieldKind::IntOrString => {
            random.pick(&[json!(0), json!(80), json!(8080), json!(""), json!("http"), json!("0")]).clone()
        }
        FieldKind::Quantity | FieldKind::OptionalQuantity => quantity(random),
        FieldKind::Quantities => {
            let names = ["cpu", "memory", "example.com/gpu", "hugepages-2Mi", "storage"];
            texts(random, &names, quantity)
        }
        FieldKind::Texts => {
            let keys = ["app", "disk", "example.com/a.b", "kubectl.kubernetes.io/restartedAt", "odd]key"];
            texts(random, &keys, |random| if random.percent(2) { Value::Null } else { word(random).into() })
        }
        FieldKind::Values(_) => {
            let is_number = field.name == "supplementalGroups" || of.name == "ContainerRestartRuleOnExitCodes";
            let item = |random: &mut Random| match is_number {
                true => random.below(3).into(),
                false => random.word(&["", "a", "b", "--level=1", "--level=2", "--all", "c"]).into(),
            };
            random.some(8, item).into()
        }
        FieldKind::Struct(of) | FieldKind::Optional(of) => object(random, of, taste),
        FieldKind::List(of, _) => {
            let most = match field.name {
                "volumes" => 8,
                "env" | "sources" => 5,
                _ => 3,
            };
            let mut entries = random.some(most, |random| object(random, of, taste));
            if field.name == "containers" {
                entries.push(object(random, of, taste));
            }
            entries.into()
        }
    }
}

/// The fields that hold numbers, and those that hold truth values; the others hold text.
const NUMBERS: &[&str] = &[
    "containerPort",
    "hostPort",
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
    "terminationGracePeriodSeconds",
    "activeDeadlineSeconds",
    "priority",
    "runAsUser",
    "runAsGroup",
    "fsGroup",
    "defaultMode",
    "defaultUser",
    "expirationSeconds",
    "maxExpirationSeconds",
    "tolerationSeconds",
    "weight",
    "maxSkew",
    "minDomains",
    "seconds",
    "lun",
    "partition",
    "generation",
    "deletionGracePeriodSeconds",
];
const TRUTHS: &[&str] = &[
    "stdin",
    "stdinOnce",
    "tty",
    "privileged",
    "runAsNonRoot",
    "readOnlyRootFilesystem",
    "allowPrivilegeEscalation",
    "hostProcess",
    "optional",
    "readOnly",
    "sslEnabled",
    "chapAuthDiscovery",
    "chapAuthSession",
    "controller",
    "blockOwnerDeletion",
    "automountServiceAccountToken",
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "shareProcessNamespace",
    "enableServiceLinks",
    "setHostnameAsFQDN",
    "hostUsers",
];

fn scalar(random: &mut Random, of: &str, field: &str) -> Value {
    let is_number = match field {
        "port" => of == "GRPCAction",
        "mode" => of != "GRPCAction",
        // Elsewhere it is a name.
        "user" => matches!(of, "KeyToPath" | "DownwardAPIVolumeFile") || of.ends_with("Projection"),
        _ => NUMBERS.contains(&field),
    };
    if is_number {
        return (*random.pick(&[0, 0, 1, 1, 3, 10, 30, 420, 9100])).into();
    }
    if TRUTHS.contains(&field) {
        return random.percent(60).into();
    }
    match (of, field) {
        (_, "image" | "reference") => image(random).into(),
        (_, "creationTimestamp" | "deletionTimestamp" | "time") => "2026-01-02T12:05:00Z".into(),
        (_, "fieldsV1") => json!({"f:spec": {}}),
        ("EnvVar", "name") => random.word(&["A", "B", "C", "LEVEL", "MODE"]).into(),
        ("EnvVar", "value") => {
            let values = ["", "x", "yes", "1_000", "$(A)", "http://$(B):80/$(C)", "$$(A)", "$(", "$(MODE)$(NONE)"];
            random.word(&values).into()
        }
        (_, "name") => random.mostly(97, &["a", "b", "c", "agent", "sidecar", "data"], &["", "a]b"]).into(),
        (_, "protocol") => random.word(&["TCP", "TCP", "UDP", "SCTP", ""]).into(),
        (_, "operator") => random.word(&["Exists", "Equal", "In", ""]).into(),
        (_, "effect") => random.word(&["NoSchedule", "NoExecute", ""]).into(),
        _ => word(random).into(),
    }
}

fn word(random: &mut Random) -> &'static str {
    random.mostly(85, &["a", "b", "c", "/a", "/b", "d/e"], &["", "x y", "é", "[x]", "\n", "\"", "$(A)", "File"])
}

fn image(random: &mut Random) -> String {
    let names = [
        "agent",
        "agent",
        "library/agent",
        "host:5000/team/agent",
        "docker.io/agent",
        "a__b/c--d",
        "index.docker.io/x",
    ];
    let odd = [
        "",
        "Agent",
        "Host/agent",
        "a..b",
        "a/-b",
        "-a",
        "https://host/agent",
        "agent/",
        "/agent",
        "localhost/a",
        "[::1]:5000/agent",
        "[::1/agent",
        "foo_bar.x/agent",
        "foo_bar:80/agent",
        "host:/agent",
        "host:x/agent",
        "a.b-/c",
        "é",
        " agent",
        "7cc4b5aefd1d0cadf8d97d4350462ba51c694ebca145b08d7d41b41acc8db5aa",
        "é/agent",
        "É/a",
        "host.x/",
        "a___b",
        "LOCALHOST/b",
        "x@y",
        "host:5000",
    ];
    let tags = ["", "", ":latest", ":latest", ":1.4", ":", ":-x", ":a:b", ":LATEST", ":a/b"];
    let digests = [
        "@sha256:7cc4b5aefd1d0cadf8d97d4350462ba51c694ebca145b08d7d41b41acc8db5aa",
        "@sha256:7CC4B5AEFD1D0CADF8D97D4350462BA51C694EBCA145B08D7D41B41ACC8DB5AA",
        "@sha256:7cc4b5",
        "@md5:7cc4b5aefd1d0cadf8d97d4350462ba5",
        "@",
        "@sha384:7cc4b5aefd1d0cadf8d97d4350462ba51c694ebca145b08d7d41b41acc8db5aa",
    ];
    let digest = if random.percent(25) { random.word(&digests) } else { "" };
    let long = if random.percent(2) { "x".repeat(240 + random.below(20)) } else { String::new() };
    format!("{}{long}{}{digest}", random.mostly(70, &names, &odd), random.word(&tags))
}

fn quantity(random: &mut Random) -> Value {
    let usual = ["100m", "250m", "1", "1000m", "0.1", "64Mi", "1024Mi", "1Gi", "0.5Gi", "128974848", "1k", "1000"];
    let odd = [
        "0",
        "0m",
        "1n",
        "3333u",
        "1e3",
        "1E3",
        "1e-3",
        "1.1Ki",
        "0.1Ki",
        "0.0000000001",
        "12E6",
        "1Ti",
        "2Ei",
        "8Ei",
        "9223372036854775807",
        "9223372036854775808",
        "99999999999999999999",
        "1.5E",
        "-1",
        "-1500u",
        "-0.0001",
        "-1Mi",
        "+1",
        ".5",
        "1.",
        "1000000000000000000n",
        "0.9999",
        "1500000u",
        "1024",
        "1048576",
        "000100",
        "0.000000000",
        "7E",
    ];
    match random.below(20) {
        0 => random.below(2000).into(),
        1 => 0.25.into(),
        _ => random.mostly(60, &usual, &odd).into(),
    }
}

fn texts(random: &mut Random, keys: &[&str], mut value: impl FnMut(&mut Random) -> Value) -> Value {
    let mut texts = Map::new();
    for key in keys {
        if random.percent(45) {
            texts.insert((*key).to_owned(), value(random));
        }
    }
    Value::Object(texts)
}

fn unknown(random: &mut Random) -> Value {
    let values = [
        json!(1),
        json!("x"),
        json!(true),
        json!([]),
        json!({}),
        json!([1, 2, "x"]),
        json!(["x", 2]),
        json!({"a": {"b": null, "c": [1]}, "d": 0}),
        json!({"a": {"c": [2]}}),
        json!([{"name": 5}, "x", null]),
        json!("12Q"),
    ];
    random.pick(&values).clone()
}

/// Makes another template of this one, as somebody does who edits it: some parts are taken from a fresh one, entries of
/// lists come, go and move.
pub fn edited(random: &mut Random, template: &Value, taste: Taste) -> Value {
    let fresh = self::template(random, taste);
    let percent = *random.pick(&[1, 1, 5, 20]);
    mixed(random, Some(&FieldKind::Struct(&PodTemplateSpec)), template, &fresh, percent)
}

fn mixed(random: &mut Random, kind: Option<&FieldKind>, old: &Value, fresh: &Value, percent: usize) -> Value {
    if random.percent(percent) {
        return fresh.clone();
    }
    match (kind, old, fresh) {
        (Some(FieldKind::Struct(of) | FieldKind::Optional(of)), Value::Object(old), Value::Object(fresh)) => {
            let mut fields = Map::new();
            for (name, value) in old {
                let kind = of.field(name).map(|field| &field.kind);
                match fresh.get(name) {
                    Some(fresh) => fields.insert(name.clone(), mixed(random, kind, value, fresh, percent)),
                    None if random.percent(percent) => None,
                    None => fields.insert(name.clone(), value.clone()),
                };
            }
            for (name, value) in fresh {
                if !fields.contains_key(name) && random.percent(percent) {
                    fields.insert(name.clone(), value.clone());
                }
            }
            Value::Object(fields)
        }
        (Some(FieldKind::Texts | FieldKind::Quantities), Value::Object(old), Value::Object(fresh)) => {
            let both = old.iter().chain(fresh);
            both.filter(|_| !random.percent(percent)).map(|(name, value)| (name.clone(), value.clone())).collect()
        }
        (Some(FieldKind::List(of, _)), Value::Array(old), Value::Array(fresh)) => {
            let mut entries: Vec<Value> = Vec::new();
            for entry in old {
                match random.below(100 / percent) {
                    0 => {}
                    1 => entries.extend([entry.clone(), entry.clone()]),
                    2..5 if !fresh.is_empty() => {
                        let fresh = random.pick(fresh);
                        entries.push(mixed(random, Some(&FieldKind::Struct(of)), entry, fresh, percent));
                    }
                    _ => entries.push(entry.clone()),
                }
            }
            entries.extend(fresh.iter().filter(|_| random.percent(percent)).cloned());
            if random.percent(percent) {
                shuffle(random, &mut entries);
            }
            entries.into()
        }
        (Some(FieldKind::Values(_)), Value::Array(old), Value::Array(fresh)) => {
            let mut items = old.clone();
            for item in fresh {
                match random.below(6) {
                    0 => items.insert(random.below(items.len() + 1), item.clone()),
                    1 if !items.is_empty() => drop(items.remove(random.below(items.len()))),
                    2 if !items.is_empty() => {
                        let place = random.below(items.len());
                        items[place] = item.clone();
                    }
                    _ => {}
                }
            }
            items.into()
        }
        _ => old.clone(),
    }
}

fn shuffle(random: &mut Random, entries: &mut [Value]) {
    for place in (1..entries.len()).rev() {
        entries.swap(place, random.below(place + 1));
    }
}

/// Moves the entries of every list whose order means nothing, and leaves those of the same name in their order.
pub fn moved(random: &mut Random, of: &Type, value: &Value) -> Value {
    let Value::Object(fields) = value else { return value.clone() };
    let moved_field = |(name, value): (&String, &Value)| {
        let value = match (of.field(name).map(|field| &field.kind), value) {
            (Some(FieldKind::Struct(of) | FieldKind::Optional(of)), _) => moved(random, of, value),
            (Some(FieldKind::List(of, key)), Value::Array(entries)) => {
                let mut entries: Vec<Value> = entries.iter().map(|entry| moved(random, of, entry)).collect();
                if may_move(*key, &entries) {
                    shuffle(random, &mut entries);
                }
                entries.into()
            }
            _ => value.clone(),
        };
        (name.clone(), value)
    };
    Value::Object(fields.iter().map(moved_field).collect())
}

/// Tells whether the order of entries means nothing at all.
fn may_move(key: Key, entries: &[Value]) -> bool {
    match key {
        Key::InitContainer | Key::EnvFrom | Key::Sequence => false,
        Key::Env => {
            let names: Vec<_> = entries.iter().map(|entry| &entry["name"]).collect();
            let are_unique = names.iter().enumerate().all(|(place, name)| !names[..place].contains(name));
            are_unique && !entries.iter().any(|entry| entry["value"].as_str().is_some_and(|text| text.contains('$')))
        }
        _ => true,
    }
}
