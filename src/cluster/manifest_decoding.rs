//! What the API server would reject while it decodes a DaemonSet: unknown fields, wrong types, and numbers and words
//! that a field cannot have.
//!
//! Fields come from the table of template types. Messages and paths are those of k8s.io/apimachinery's `field.Error`.

use serde_json::Value;

use crate::model::quantity::Quantity;
use crate::model::template_types::{self, Kind, Type};

/// What is wrong with an object that is to be a DaemonSet, with field paths.
#[derive(Debug, Default)]
pub(super) struct DecodingProblems {
    /// What no release accepts.
    pub(super) errors: Vec<String>,
    /// Fields that Kubernetes 1.36 does not know; a later release may.
    pub(super) unknown_fields: Vec<String>,
}

/// Returns every problem of an object that is to be a DaemonSet and cannot be decoded as one.
pub(super) fn decoding_problems(object: &Value) -> DecodingProblems {
    let mut checker = Checker::default();
    checker.known_fields(object, "", &["apiVersion", "kind", "metadata", "spec", "status"]);
    checker.at(object, "metadata", |checker, metadata| {
        checker.object(&template_types::ObjectMeta, metadata, "metadata");
    });
    checker.at(object, "spec", |checker, spec| {
        let fields = ["selector", "template", "updateStrategy", "minReadySeconds", "revisionHistoryLimit"];
        checker.known_fields(spec, "spec", &fields);
        checker.at(spec, "selector", |checker, selector| {
            checker.object(&template_types::LabelSelector, selector, "spec.selector");
        });
        checker.at(spec, "template", |checker, template| {
            checker.object(&template_types::PodTemplateSpec, template, "spec.template");
        });
        checker.at(spec, "updateStrategy", |checker, strategy| {
            checker.known_fields(strategy, "spec.updateStrategy", &["type", "rollingUpdate"]);
            checker.at(strategy, "rollingUpdate", |checker, rolling| {
                let path = "spec.updateStrategy.rollingUpdate";
                checker.known_fields(rolling, path, &["maxUnavailable", "maxSurge"]);
                for field in ["maxUnavailable", "maxSurge"] {
                    checker.at(rolling, field, |checker, value| checker.integer_or_text(value, &join(path, field)));
                }
            });
        });
        for field in ["minReadySeconds", "revisionHistoryLimit"] {
            checker.at(spec, field, |checker, value| checker.integer(value, &join("spec", field)));
        }
    });
    checker.problems
}

/// Allowed values, by type and field.
const ENUMS: &[(&str, &str, &[&str])] = &[
    ("Toleration", "effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"]),
    ("Toleration", "operator", &["Equal", "Exists", "Lt", "Gt"]),
    ("NodeSelectorRequirement", "operator", &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    ("LabelSelectorRequirement", "operator", &["In", "NotIn", "Exists", "DoesNotExist"]),
    ("ContainerPort", "protocol", &["SCTP", "TCP", "UDP"]),
    ("Container", "imagePullPolicy", &["Always", "IfNotPresent", "Never"]),
    ("Container", "terminationMessagePolicy", &["FallbackToLogsOnError", "File"]),
    ("HTTPGetAction", "scheme", &["HTTP", "HTTPS"]),
    ("VolumeMount", "mountPropagation", &["Bidirectional", "HostToContainer", "None"]),
    ("PodSpec", "dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]),
    ("PodSpec", "preemptionPolicy", &["PreemptLowerPriority", "Never"]),
    ("PodOS", "name", &["linux", "windows"]),
    ("TopologySpreadConstraint", "whenUnsatisfiable", &["DoNotSchedule", "ScheduleAnyway"]),
    (
        "HostPathVolumeSource",
        "type",
        &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"],
    ),
];

/// The smallest and largest number that is allowed, by type and field.
///
/// A pod's negative grace period is not among them: the API server changes it to 1.
const RANGES: &[(&str, &str, i64, i64)] = &[
    ("ContainerPort", "containerPort", 0, 65_535),
    ("ContainerPort", "hostPort", 0, 65_535),
    ("Probe", "initialDelaySeconds", 0, i64::MAX),
    ("Probe", "timeoutSeconds", 0, i64::MAX),
    ("Probe", "periodSeconds", 0, i64::MAX),
    ("Probe", "successThreshold", 0, i64::MAX),
    ("Probe", "failureThreshold", 0, i64::MAX),
    ("Probe", "terminationGracePeriodSeconds", 1, i64::MAX),
    ("TopologySpreadConstraint", "maxSkew", 1, i64::MAX),
    ("PreferredSchedulingTerm", "weight", 1, 100),
    ("WeightedPodAffinityTerm", "weight", 1, 100),
];

/// The scalar fields that are integers of 32 bits; each name has one meaning among the template types.
const INTEGERS: &[&str] = &[
    "containerPort",
    "defaultMode",
    "failureThreshold",
    "hostPort",
    "initialDelaySeconds",
    "lun",
    "maxExpirationSeconds",
    "maxSkew",
    "minDomains",
    "mode",
    "partition",
    "periodSeconds",
    "priority",
    "successThreshold",
    "timeoutSeconds",
    "weight",
];

/// Those of 64 bits.
const LONG_INTEGERS: &[&str] = &[
    "activeDeadlineSeconds",
    "deletionGracePeriodSeconds",
    "expirationSeconds",
    "fsGroup",
    "generation",
    "runAsGroup",
    "runAsUser",
    "seconds",
    "terminationGracePeriodSeconds",
    "tolerationSeconds",
];

/// The scalar fields that are truth values.
const BOOLEANS: &[&str] = &[
    "allowPrivilegeEscalation",
    "automountServiceAccountToken",
    "blockOwnerDeletion",
    "chapAuthDiscovery",
    "chapAuthSession",
    "controller",
    "enableServiceLinks",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostProcess",
    "hostUsers",
    "optional",
    "privileged",
    "readOnly",
    "readOnlyRootFilesystem",
    "runAsNonRoot",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "sslEnabled",
    "stdin",
    "stdinOnce",
    "tty",
];

/// Collects problems while it walks an object along the table of types.
#[derive(Default)]
struct Checker {
    problems: DecodingProblems,
}

impl Checker {
    fn add(&mut self, path: &str, problem: &str) {
        self.problems.errors.push(format!("{path}: {problem}"));
    }

    /// Checks a field that is set.
    fn at(&mut self, object: &Value, field: &str, check: impl FnOnce(&mut Self, &Value)) {
        if let Some(value) = object.get(field).filter(|value| !value.is_null()) {
            check(self, value);
        }
    }

    fn known_fields(&mut self, object: &Value, path: &str, known: &[&str]) {
        let Some(fields) = object.as_object() else {
            return self.add(path, &format!("Invalid value: {}: must be an object", shown(object)));
        };
        for field in fields.keys().filter(|field| !known.contains(&field.as_str())) {
            let near = known.iter().filter(|known| strsim::osa_distance(known, field) <= 2);
            let near = near.min_by_key(|known| strsim::osa_distance(known, field));
            let path = join(path, field);
            match near {
                Some(near) => {
                    self.problems.errors.push(format!("unknown field {path:?} (did you mean {near:?}?)"));
                }
                None => self.problems.unknown_fields.push(format!("unknown field {path:?}")),
            }
        }
    }

    fn object(&mut self, of: &'static Type, object: &Value, path: &str) {
        let known: Vec<&str> = of.fields.iter().map(|field| field.name).collect();
        self.known_fields(object, path, &known);
        for field in of.fields {
            let path = join(path, field.name);
            self.at(object, field.name, |checker, value| checker.value(of.name, field.name, &field.kind, value, &path));
        }
    }

    fn value(&mut self, of: &str, field: &str, kind: &Kind, value: &Value, path: &str) {
        match kind {
            Kind::Struct(of) | Kind::Optional(of) => self.object(of, value, path),
            Kind::List(of, _) => self.list(value, path, |checker, entry, path| checker.object(of, entry, path)),
            Kind::Values
                if matches!((of, field), ("PodSecurityContext", _) | ("ContainerRestartRuleOnExitCodes", _)) =>
            {
                self.list(value, path, |checker, entry, path| checker.long_integer(entry, path));
            }
            Kind::Values => self.list(value, path, |checker, entry, path| checker.text(entry, path)),
            Kind::Texts => self.map(value, path, |checker, entry, path| checker.text(entry, path)),
            Kind::Quantities => self.map(value, path, |checker, entry, path| checker.quantity(entry, path)),
            Kind::Quantity | Kind::OptionalQuantity => self.quantity(value, path),
            Kind::IntOrString => self.integer_or_text(value, path),
            Kind::Value | Kind::Pointer => self.scalar(of, field, value, path),
        }
    }

    fn scalar(&mut self, of: &str, field: &str, value: &Value, path: &str) {
        if field == "fieldsV1" {
            return;
        }
        if LONG_INTEGERS.contains(&field) {
            self.long_integer(value, path);
        } else if INTEGERS.contains(&field) || (of, field) == ("GRPCAction", "port") {
            self.integer(value, path);
        } else if BOOLEANS.contains(&field) {
            if !value.is_boolean() {
                self.add(path, &format!("Invalid value: {}: must be a boolean", shown(value)));
            }
        } else {
            self.text(value, path);
        }
        let allowed =
            ENUMS.iter().find(|(owner, name, _)| (*owner, *name) == (of, field)).map(|(.., allowed)| *allowed);
        if let (Some(allowed), Some(text)) = (allowed, value.as_str())
            && !allowed.contains(&text)
            // Defaults are filled in for an empty value.
            && !text.is_empty()
        {
            let supported: Vec<String> = allowed.iter().map(|value| format!("{value:?}")).collect();
            self.add(path, &format!("Unsupported value: {text:?}: supported values: {}", supported.join(", ")));
        }
        let range = RANGES.iter().find(|(owner, name, ..)| (*owner, *name) == (of, field));
        if let (Some((.., low, high)), Some(number)) = (range, value.as_i64())
            && !(*low..=*high).contains(&number)
        {
            let range = match *high {
                i64::MAX => format!("must be greater than or equal to {low}"),
                high => format!("must be between {} and {high}, inclusive", (*low).max(1)),
            };
            self.add(path, &format!("Invalid value: {number}: {range}"));
        }
    }

    fn list(&mut self, value: &Value, path: &str, check: impl Fn(&mut Self, &Value, &str)) {
        let Some(entries) = value.as_array() else {
            return self.add(path, &format!("Invalid value: {}: must be a list", shown(value)));
        };
        for (number, entry) in entries.iter().enumerate().filter(|(_, entry)| !entry.is_null()) {
            check(self, entry, &format!("{path}[{number}]"));
        }
    }

    fn map(&mut self, value: &Value, path: &str, check: impl Fn(&mut Self, &Value, &str)) {
        let Some(entries) = value.as_object() else {
            return self.add(path, &format!("Invalid value: {}: must be an object", shown(value)));
        };
        for (key, entry) in entries.iter().filter(|(_, entry)| !entry.is_null()) {
            check(self, entry, &format!("{path}[{key}]"));
        }
    }

    fn text(&mut self, value: &Value, path: &str) {
        if !value.is_string() {
            self.add(path, &format!("Invalid value: {}: must be a string", shown(value)));
        }
    }

    fn integer_or_text(&mut self, value: &Value, path: &str) {
        if !value.is_string() && value.as_i64().is_none_or(|number| i32::try_from(number).is_err()) {
            self.add(path, &format!("Invalid value: {}: must be a 32-bit integer or a string", shown(value)));
        }
    }

    fn long_integer(&mut self, value: &Value, path: &str) {
        if !value.is_i64() {
            self.add(path, &format!("Invalid value: {}: must be an integer", shown(value)));
        }
    }

    fn integer(&mut self, value: &Value, path: &str) {
        self.long_integer(value, path);
        if value.as_i64().is_some_and(|number| i32::try_from(number).is_err()) {
            self.add(path, &format!("Invalid value: {value}: must be a 32-bit integer"));
        }
    }

    fn quantity(&mut self, value: &Value, path: &str) {
        if quantity(value).is_none_or(|quantity| quantity.nanos().is_none()) {
            self.add(path, &format!("Invalid value: {}: must be a quantity such as 500m, 2 or 64Mi", shown(value)));
        }
    }
}

pub(super) fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// Reads a quantity, which may be written as text or as a number.
pub(super) fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Some(Quantity::new(text.trim())),
        Value::Number(number) => Some(Quantity::new(number.to_string())),
        _ => None,
    }
}

/// Writes a value as JSON, or its type if that is long.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        scalar => scalar.to_string(),
    }
}
