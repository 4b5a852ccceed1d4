//! The API server's defaults for pod templates.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::image::default_pull_policy;
use super::template_types::{FieldKind, Volume};

/// The constant defaults of each type, by the field's name in JSON.
///
/// They are those of `SetObjectDefaults_DaemonSet`, pkg/apis/apps/v1/zz_generated.defaults.go, and of the functions in
/// pkg/apis/core/v1/defaults.go that it calls, release 1.37.2, excluding defaults that are set in pods but not in
/// templates, such as host ports under `hostNetwork` and requests from limits.
static DEFAULTS: LazyLock<BTreeMap<&str, Value>> = LazyLock::new(|| {
    let container = json!({"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"});
    let mode = json!({"defaultMode": 0o644});
    BTreeMap::from([
        (
            "PodSpec",
            json!({
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                "securityContext": {}, "terminationGracePeriodSeconds": 30,
            }),
        ),
        ("Container", container.clone()),
        ("EphemeralContainer", container),
        ("ContainerPort", json!({"protocol": "TCP"})),
        ("ObjectFieldSelector", json!({"apiVersion": "v1"})),
        ("FileKeySelector", json!({"optional": false})),
        ("Probe", json!({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3})),
        ("HTTPGetAction", json!({"path": "/", "scheme": "HTTP"})),
        ("GRPCAction", json!({"service": ""})),
        ("HostPathVolumeSource", json!({"type": ""})),
        ("SecretVolumeSource", mode.clone()),
        ("ConfigMapVolumeSource", mode.clone()),
        ("DownwardAPIVolumeSource", mode.clone()),
        ("ProjectedVolumeSource", mode),
        ("ServiceAccountTokenProjection", json!({"expirationSeconds": 3600})),
        ("ISCSIVolumeSource", json!({"iscsiInterface": "default"})),
        ("RBDVolumeSource", json!({"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"})),
        (
            "AzureDiskVolumeSource",
            json!({
                "cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": false, "kind": "Shared",
            }),
        ),
        ("ScaleIOVolumeSource", json!({"storageMode": "ThinProvisioned", "fsType": "xfs"})),
        ("PersistentVolumeClaimSpec", json!({"volumeMode": "Filesystem"})),
    ])
});

/// Sets the defaults of a type; values that are equivalent to absence must have been removed from the fields before.
pub(super) fn apply(of: &str, fields: &mut Map<String, Value>) {
    let defaults = DEFAULTS.get(of).and_then(Value::as_object);
    for (name, default) in defaults.into_iter().flatten() {
        fields.entry(name).or_insert_with(|| default.clone());
    }
    match of {
        "Container" | "EphemeralContainer" => fill_pull_policy(fields, "image", "imagePullPolicy"),
        "ImageVolumeSource" => fill_pull_policy(fields, "reference", "pullPolicy"),
        "Volume" => fill_volume_source(fields),
        "PodSpec" => mirror_service_account(fields),
        _ => {}
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
        fields.insert("emptyDir".to_owned(), json!({}));
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
