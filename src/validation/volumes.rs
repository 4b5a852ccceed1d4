//! Rules for volumes that compare fields, from pkg/apis/core/validation/validation.go. Each names its upstream function.

use std::collections::BTreeSet;

use super::{At, Validation, formats};
use crate::model::quantity::Quantity;
use crate::model::template_types as types;
use crate::model::template_types::FieldKind;

/// The sources of a volume, in order of precedence.
#[rustfmt::skip]
const SOURCES: [&str; 30] = [
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi", "glusterfs", "flocker",
    "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc", "flexVolume", "configMap", "azureFile",
    "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk", "storageos", "projected", "scaleIO", "csi", "ephemeral",
    "image",
];

impl<'a> Validation<'a> {
    /// `ValidateVolumes`.
    pub(super) fn volumes(&mut self, pod: &At<'a>) {
        for volume in pod.list("volumes") {
            let before = self.problems.len();
            self.object(&types::Volume, &volume);
            let (path, name) = (volume.child("name"), volume.text("name"));
            if name.is_empty() {
                self.required(&*path)
            } else {
                self.check(&*path, name, formats::label)
            }
            if self.pod.volumes.contains_key(name) {
                self.duplicate(path, name);
            }
            if self.problems.len() == before {
                self.pod.volumes.insert(name, volume.value);
            }
        }
    }

    /// `validateVolumeSource`.
    pub(super) fn volume(&mut self, at: &At<'a>) {
        let mut sources = SOURCES.into_iter().filter(|name| at.has(name));
        if let Some(name) = sources.next() {
            let path = if name == "gcePersistentDisk" { "persistentDisk" } else { name };
            let source = at.field(name).named(at.child(path));
            if let Some(FieldKind::Optional(of)) = types::Volume.field(name).map(|field| &field.kind) {
                self.object(of, &source);
            }
            let portal = source.text("targetPortal");
            if name == "iscsi" && source.has("initiatorName") && at.text("name").len() + 1 + portal.len() > 64 {
                let why = "total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is \
                           specified";
                self.invalid(at.child("name"), at.text("name"), why);
            }
        }
        for name in sources {
            let path = match name {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                name => name,
            };
            self.forbidden(at.child(path), "may not specify more than 1 volume type");
        }
    }

    /// Checks what the table does not cover in a source, or in an object in it.
    pub(super) fn volume_source(&mut self, of: &str, at: &At<'a>) {
        match of {
            // With EmptyDirVolumeMode disabled.
            "EmptyDirVolumeSource" if at.text("sizeLimit").starts_with('-') => {
                self.forbidden(at.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
            }
            "HostPathVolumeSource" if at.has("path") => {
                let supported = [
                    "",
                    "BlockDevice",
                    "CharDevice",
                    "Directory",
                    "DirectoryOrCreate",
                    "File",
                    "FileOrCreate",
                    "Socket",
                ];
                self.one_of(at.child("type"), at.text("type"), &supported);
            }
            "ISCSIVolumeSource" => {
                if (at.is_true("chapAuthDiscovery") || at.is_true("chapAuthSession")) && !at.has("secretRef") {
                    self.required(at.child("secretRef"));
                }
                if at.has("initiatorName") {
                    self.check(at.child("initiatorname"), at.text("initiatorName"), formats::iscsi_name);
                }
            }
            "FCVolumeSource" => self.fibre_channel(at),
            "QuobyteVolumeSource" => self.quobyte(at),
            "FlockerVolumeSource" => {
                if at.has("datasetName") == at.has("datasetUUID") {
                    self.problem(&*at.path, "Required value: one of datasetName and datasetUUID is required");
                }
                if at.text("datasetName").contains('/') {
                    self.invalid(at.child("datasetName"), at.text("datasetName"), "must not contain '/'");
                }
            }
            "CinderVolumeSource" | "StorageOSVolumeSource"
                if at.has("secretRef") && !at.field("secretRef").has("name") =>
            {
                self.required(at.child("secretRef.name"));
            }
            "FlexVolumeSource" => {
                for (key, _) in at.texts("options") {
                    let namespace = format!(".{}", key.split('/').next().unwrap_or_default().to_lowercase());
                    if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
                        let why = "kubernetes.io and k8s.io namespaces are reserved";
                        self.invalid(at.field("options").entry(key), key, why);
                    }
                }
            }
            "AzureDiskVolumeSource" => {
                let start = if at.text("kind") == "Managed" { "/subscriptions/" } else { "https://" };
                if !at.text("diskURI").starts_with(start) {
                    self.invalid(at.child("diskURI"), at.text("diskURI"), &format!("must start with {start}"));
                }
            }
            "DownwardAPIVolumeSource" => {
                // The path lacks the list and the index.
                at.list("items")
                    .for_each(|file| self.object(&types::DownwardAPIVolumeFile, &file.named(at.path.clone())));
            }
            "DownwardAPIVolumeFile" => self.downward_file(at),
            "ProjectedVolumeSource" => self.projected(at),
            "CSIVolumeSource" if at.has("nodePublishSecretRef") => {
                match at.field("nodePublishSecretRef").text("name") {
                    "" => self.required(at.child("nodePublishSecretRef.name")),
                    // The path lacks the reference.
                    name => self.check(at.child("name"), name, formats::subdomain),
                }
            }
            "PersistentVolumeClaimTemplate" => self.claim_template(at),
            "TypedLocalObjectReference" | "TypedObjectReference"
                if at.text("apiGroup").is_empty() && at.text("kind") != "PersistentVolumeClaim" =>
            {
                let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
                self.invalid(&*at.path, at.text("kind"), why);
            }
            _ => {}
        }
    }

    /// `validateFCVolumeSource`.
    fn fibre_channel(&mut self, at: &At<'a>) {
        if at.has("targetWWNs") == at.has("wwids") {
            self.problem(
                at.child("targetWWNs"),
                "Required value: must specify either targetWWNs or wwids, but not both",
            );
        }
        if at.has("targetWWNs") {
            if at.has("lun") { self.range(&at.field("lun"), 0, 255) } else { self.required(at.child("lun")) }
        }
    }

    /// `validateQuobyteVolumeSource`.
    fn quobyte(&mut self, at: &At<'a>) {
        let registry = at.text("registry");
        if registry.is_empty() {
            self.required(at.child("registry"));
        } else if at.text("tenant").len() >= 65 {
            self.problem(
                at.child("tenant"),
                "Required value: must be a UUID and may not exceed a length of 64 characters",
            );
        } else if !registry.split(',').all(is_host_and_port) {
            self.invalid(
                at.child("registry"),
                registry,
                "must be a host:port pair or multiple pairs separated by commas",
            );
        }
        if !at.has("volume") {
            self.required(at.child("volume"));
        }
    }

    /// `validateDownwardAPIVolumeFile`.
    fn downward_file(&mut self, at: &At<'a>) {
        const FIELDS: [&str; 5] =
            ["metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid"];
        match (at.has("fieldRef"), at.has("resourceFieldRef")) {
            (true, both) => {
                self.field_selector(&at.field("fieldRef"), &FIELDS);
                if both {
                    let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                    self.problem(&*at.path, format!("Invalid value: {why}"));
                }
            }
            (false, true) => self.resource_selector(&at.field("resourceFieldRef"), true),
            (false, false) => {
                self.problem(&*at.path, "Required value: one of fieldRef and resourceFieldRef is required");
            }
        }
    }

    /// `validateProjectionSources`.
    fn projected(&mut self, at: &At<'a>) {
        let mut paths = BTreeSet::new();
        for source in at.list("sources") {
            let mut used: Vec<&str> = Vec::new();
            for field in types::VolumeProjection.fields.iter().filter(|field| source.has(field.name)) {
                let projection = source.field(field.name);
                match field.name {
                    "downwardAPI" => projection.list("items").for_each(|file| {
                        // The path lacks the list and the index.
                        used.push(file.text("path"));
                        self.object(&types::DownwardAPIVolumeFile, &file.named(projection.path.clone()));
                    }),
                    "serviceAccountToken" => {
                        self.fields("ServiceAccountTokenProjection", &projection);
                        // The path lacks the source.
                        match projection.text("path") {
                            "" => self.required(at.child("path")),
                            path => self.check(at.child("path"), path, formats::free_path),
                        }
                    }
                    "clusterTrustBundle" => {
                        self.trust_bundle(&projection);
                        if !paths.insert(projection.text("path")) {
                            self.invalid(&*at.path, projection.text("path"), "conflicting duplicate paths");
                        }
                    }
                    "podCertificate" => {
                        self.pod_certificate(&projection);
                        let fields = ["credentialBundlePath", "keyPath", "certificateChainPath"];
                        used.extend(fields.map(|field| projection.text(field)));
                    }
                    _ => {
                        let of = if field.name == "secret" { "SecretProjection" } else { "ConfigMapProjection" };
                        self.fields(of, &projection);
                        for item in projection.list("items") {
                            self.object(&types::KeyToPath, &item);
                            used.push(item.text("path"));
                        }
                    }
                }
            }
            for path in used.into_iter().filter(|path| !path.is_empty()) {
                if !paths.insert(path) {
                    self.invalid(&*at.path, path, "conflicting duplicate paths");
                }
            }
            if types::VolumeProjection.fields.iter().filter(|field| source.has(field.name)).count() > 1 {
                self.forbidden(&*source.path, "may not specify more than 1 volume type per source");
            }
        }
    }

    fn trust_bundle(&mut self, at: &At<'a>) {
        self.fields("ClusterTrustBundleProjection", at);
        let (name, signer) = (at.field("name"), at.field("signerName"));
        match (name.is_there(), signer.is_there()) {
            (true, true) => self.problem(&*at.path, "Invalid value: only one of name and signerName may be used"),
            (true, false) => {
                self.check(&*name.path, name.as_text(), formats::trust_bundle);
                if at.has("labelSelector") {
                    let path = at.child("labelSelector");
                    self.problem(path, "Invalid value: labelSelector must be unset if name is specified");
                }
            }
            (false, true) => {
                self.check(&*signer.path, signer.as_text(), formats::signer_name);
                self.label_selector(&at.field("labelSelector"));
            }
            (false, false) => {
                self.problem(&*at.path, "Required value: either name or signerName must be specified");
            }
        }
    }

    fn pod_certificate(&mut self, at: &At<'a>) {
        self.fields("PodCertificateProjection", at);
        let annotations = at.field("userAnnotations");
        let mut size = 0;
        for (key, value) in at.texts("userAnnotations") {
            // `IsDomainPrefixedKey`
            self.check(&*annotations.path, &key.to_lowercase(), formats::qualified_name);
            if !key.contains('/') {
                self.invalid(&*annotations.path, key, "must be a domain-prefixed key (such as \"acme.io/foo\")");
            }
            size += key.len() + value.len();
        }
        if size > 256 * 1024 {
            self.problem(&*annotations.path, "Too long: may not be more than 262144 bytes");
        }
        let host = at.text("signerName").split('/').next().unwrap_or_default();
        let days = if host == "kubernetes.io" || host.ends_with(".kubernetes.io") { 1 } else { 91 };
        self.range(&at.field("maxExpirationSeconds"), 3_600, days * 24 * 60 * 60);
        if !["credentialBundlePath", "keyPath", "certificateChainPath"].iter().any(|field| at.has(field)) {
            let why = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
            self.problem(&*at.path, format!("Required value: {why}"));
        }
    }

    /// `ValidatePersistentVolumeClaimTemplate`.
    fn claim_template(&mut self, at: &At<'a>) {
        let metadata = at.field("metadata");
        self.annotations(&metadata.field("annotations"));
        self.labels(&metadata.field("labels"));
        for field in types::ObjectMeta.fields.iter().filter(|field| !matches!(field.name, "annotations" | "labels")) {
            // An empty list counts as set.
            let given = &metadata.given[field.name];
            if metadata.has(field.name) || given.is_array() {
                self.forbidden(metadata.child(if field.name == "uid" { "uID" } else { field.name }), "cannot be set");
            }
        }
        self.object(&types::PersistentVolumeClaimSpec, &at.field("spec"));
    }

    /// `ValidatePersistentVolumeClaimSpec`, except for the table.
    pub(super) fn claim_spec(&mut self, at: &At<'a>) {
        let modes = at.field("accessModes");
        for mode in modes.items() {
            let supported = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
            self.one_of(&*modes.path, mode.as_text(), &supported);
        }
        let is = |mode: &At<'a>, one: bool| match mode.as_text() {
            "ReadWriteOncePod" => one,
            "ReadOnlyMany" | "ReadWriteMany" | "ReadWriteOnce" => !one,
            _ => false,
        };
        if modes.items().any(|mode| is(&mode, true)) && modes.items().any(|mode| is(&mode, false)) {
            self.forbidden(&*modes.path, "may not use ReadWriteOncePod with other access modes");
        }
        let storage = at.value["resources"]["requests"]["storage"].as_str();
        if storage.is_none_or(|storage| Quantity::new(storage).nanos().is_none_or(|nanos| nanos <= 0)) {
            let why = if storage.is_some() { "Invalid value: must be greater than zero" } else { "Required value" };
            self.problem(at.child("resources[storage]"), why);
        }
        let (source, reference) = (at.field("dataSource"), at.field("dataSourceRef"));
        let is_other = !reference.text("namespace").is_empty()
            || ["apiGroup", "kind", "name"].iter().any(|field| source.value[field] != reference.value[field]);
        if source.is_there() && reference.is_there() && is_other {
            self.problem(&*at.path, "Invalid value: dataSource must match dataSourceRef, which has no namespace then");
        }
    }
}

/// Go's `net.SplitHostPort`.
fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let inner = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']'),
        None => (!host.contains(':')).then_some(host),
    };
    inner.is_some_and(|inner| !inner.contains(['[', ']'])) && !port.contains(['[', ']'])
}
