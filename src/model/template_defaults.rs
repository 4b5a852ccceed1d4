//! The API server's defaults for pod templates.

use serde_json::{Map, Value, json};

use super::image::default_pull_policy;
use super::template_types::{FieldKind, Volume};

/// A default of the API.
enum Default {
    Text(&'static str),
    Number(i64),
    False,
    NoFields,
}

use Default::{False, NoFields, Number, Text};

/// The constant defaults of each type, by the field's name in JSON.
///
/// They are those of `SetObjectDefaults_DaemonSet`, pkg/apis/apps/v1/zz_generated.defaults.go, and of the functions in
/// pkg/apis/core/v1/defaults.go that it calls, release 1.37.2, excluding defaults that are set in pods but not in
/// templates, such as host ports under `hostNetwork` and requests from limits.
const DEFAULTS: &[(&str, &[(&str, Default)])] = &[
    (
        "PodSpec",
        &[
            ("dnsPolicy", Text("ClusterFirst")),
            ("restartPolicy", Text("Always")),
            ("schedulerName", Text("default-scheduler")),
            ("securityContext", NoFields),
            ("terminationGracePeriodSeconds", Number(30)),
        ],
    ),
    ("Container", CONTAINER),
    ("EphemeralContainer", CONTAINER),
    ("ContainerPort", &[("protocol", Text("TCP"))]),
    ("ObjectFieldSelector", &[("apiVersion", Text("v1"))]),
    ("FileKeySelector", &[("optional", False)]),
    (
        "Probe",
        &[
            ("timeoutSeconds", Number(1)),
            ("periodSeconds", Number(10)),
            ("successThreshold", Number(1)),
            ("failureThreshold", Number(3)),
        ],
    ),
    ("HTTPGetAction", &[("path", Text("/")), ("scheme", Text("HTTP"))]),
    ("GRPCAction", &[("service", Text(""))]),
    ("HostPathVolumeSource", &[("type", Text(""))]),
    ("SecretVolumeSource", &[("defaultMode", Number(0o644))]),
    ("ConfigMapVolumeSource", &[("defaultMode", Number(0o644))]),
    ("DownwardAPIVolumeSource", &[("defaultMode", Number(0o644))]),
    ("ProjectedVolumeSource", &[("defaultMode", Number(0o644))]),
    ("ServiceAccountTokenProjection", &[("expirationSeconds", Number(3600))]),
    ("ISCSIVolumeSource", &[("iscsiInterface", Text("default"))]),
    ("RBDVolumeSource", &[("pool", Text("rbd")), ("user", Text("admin")), ("keyring", Text("/etc/ceph/keyring"))]),
    (
        "AzureDiskVolumeSource",
        &[("cachingMode", Text("ReadWrite")), ("fsType", Text("ext4")), ("readOnly", False), ("kind", Text("Shared"))],
    ),
    ("ScaleIOVolumeSource", &[("storageMode", Text("ThinProvisioned")), ("fsType", Text("xfs"))]),
    ("PersistentVolumeClaimSpec", &[("volumeMode", Text("Filesystem"))]),
];

/// The defaults of `SetDefaults_Container`, except for the pull policy.
const CONTAINER: &[(&str, Default)] =
    &[("terminationMessagePath", Text("/dev/termination-log")), ("terminationMessagePolicy", Text("File"))];

/// Sets the defaults of a type; values that are equivalent to absence must have been removed from the fields before.
pub(super) fn apply(of: &str, fields: &mut Map<String, Value>) {
    let defaults = DEFAULTS.iter().find(|(name, _)| *name == of).map_or(&[][..], |(_, defaults)| *defaults);
    for (name, default) in defaults {
        fields.entry(*name).or_insert_with(|| default.value());
    }
    match of {
        "Container" | "EphemeralContainer" => fill_pull_policy(fields, "image", "imagePullPolicy"),
        "ImageVolumeSource" => fill_pull_policy(fields, "reference", "pullPolicy"),
        "Volume" => fill_volume_source(fields),
        "PodSpec" => mirror_service_account(fields),
        _ => {}
    }
}

impl Default {
    fn value(&self) -> Value {
        match self {
            Text(text) => json!(text),
            Number(number) => json!(number),
            False => json!(false),
            NoFields => json!({}),
        }
    }
}

fn fill_pull_policy(fields: &mut Map<String, Value>, image: &str, policy: &str) {
    if !fields.contains_key(policy) {
        let image = fields.get(image).and_then(Value::as_str).unwrap_or_default();
        fields.insert(policy.to_owned(), default_pull_policy(image).into());
    }
}

/// Turns a volume without a source into an empty directory: `SetDefaults_Volume`.
///
/// An unknown field may be the source, so no default is set next to one.
fn fill_volume_source(fields: &mut Map<String, Value>) {
    let is_no_source =
        |name: &String| Volume.field(name).is_some_and(|field| !matches!(field.kind, FieldKind::Optional(_)));
    if fields.keys().all(is_no_source) {
        fields.insert("emptyDir".to_owned(), NoFields.value());
    }
}

/// Keeps the old and the new name of the service account equal; the new one takes precedence.
///
/// Ported from `SetDefaults_PodSpec`, pkg/apis/core/v1/defaults.go, release 1.37.2.
fn mirror_service_account(fields: &mut Map<String, Value>) {
    if let Some(name) = fields.get("serviceAccountName").or(fields.get("serviceAccount")).cloned() {
        fields.insert("serviceAccountName".to_owned(), name.clone());
        fields.insert("serviceAccount".to_owned(), name);
    }
}
