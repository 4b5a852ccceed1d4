//! The validation rules for single fields, as a table by type, and the traversal of the types.

use super::formats::{
    Format, absolute_path, config_key, csi_driver, descending_path, free_path, ip, iscsi_name, label, port_name,
    qualified_name, signer_name, subdomain, subdomain_prefix, sysctl, variable, without_parent_directory,
};
use super::{At, Validation};
use crate::model::template_types::{FieldKind, Type};

/// A rule for a field. An absent field only violates `Required` and its variants.
#[derive(Clone, Copy)]
enum Rule {
    /// It must be present.
    Required,
    /// If present and not empty, it must have this format.
    Format(Format),
    /// If present, even if empty, it must have this format.
    Given(Format),
    /// It must be present, and have this format.
    RequiredFormat(Format),
    /// It must have this format, even if absent or empty.
    Always(Format),
    /// Each list entry must have this format.
    Each(Format),
    /// If present, it must be one of these.
    OneOf(&'static [&'static str]),
    /// It must be one of these.
    AlwaysOneOf(&'static [&'static str]),
    /// If present, it must be within these bounds.
    Range(i64, i64),
    /// It must be present, and within these bounds.
    RequiredRange(i64, i64),
}

use Rule::{Always, AlwaysOneOf, Each, Given, OneOf, Range, Required, RequiredFormat, RequiredRange};

/// `IsValidPortNum`.
const PORT: Rule = Range(1, 65_535);
/// `ValidateNonnegativeField`.
const NOT_NEGATIVE: Rule = Range(0, i64::MAX);
/// `IsValidUserID` and `IsValidGroupID`.
const ID: Rule = Range(0, i32::MAX as i64);
/// The check of file modes.
const MODE: Rule = Range(0, 0o777);
const PULL_POLICIES: Rule = OneOf(&["Always", "IfNotPresent", "Never"]);

/// Declares the rules by type, with their upstream functions (in pkg/apis/core/validation/validation.go).
macro_rules! rules {
    ($($of:ident ($function:ident) { $($field:ident: $rule:expr),* $(,)? })*) => {
        const RULES: &[(&str, &[(&str, Rule)])] =
            &[$((stringify!($of), { let _ = stringify!($function); &[$((stringify!($field), $rule)),*] })),*];
    };
}

rules! {
    PodSpec (ValidatePodSpec) {
        containers: Required, restartPolicy: OneOf(&["Always", "OnFailure", "Never"]),
        dnsPolicy: OneOf(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]),
        serviceAccountName: Rule::Format(subdomain), nodeName: Rule::Format(subdomain),
        activeDeadlineSeconds: Range(1, i32::MAX as i64), hostname: Rule::Format(label), subdomain: Rule::Format(label),
        priorityClassName: Rule::Format(subdomain), runtimeClassName: Given(subdomain),
        preemptionPolicy: OneOf(&["PreemptLowerPriority", "Never"]),
    }
    PodOS (validateOS) { name: Required }
    PodReadinessGate (validateReadinessGates) { conditionType: Always(qualified_name) }
    HostAlias (ValidateHostAliases) { ip: Always(ip), hostnames: Each(subdomain) }
    PodResourceClaim (validatePodResourceClaim) {
        name: RequiredFormat(label), resourceClaimName: Given(subdomain), resourceClaimTemplateName: Given(subdomain),
    }
    PodSecurityContext (validatePodSpecSecurityContext) {
        fsGroup: ID, runAsUser: ID, runAsGroup: ID, supplementalGroups: ID,
        fsGroupChangePolicy: OneOf(&["Always", "OnRootMismatch"]), supplementalGroupsPolicy: OneOf(&["Merge", "Strict"]),
        seLinuxChangePolicy: OneOf(&["MountOption", "Recursive"]),
    }
    Sysctl (validateSysctls) { name: RequiredFormat(sysctl) }
    SecurityContext (ValidateSecurityContext) { runAsUser: ID, runAsGroup: ID, procMount: OneOf(&["Default", "Unmasked"]) }
    Container (validateContainerCommon) {
        name: RequiredFormat(label), image: Required, terminationMessagePolicy: OneOf(&["File", "FallbackToLogsOnError"]),
        imagePullPolicy: PULL_POLICIES,
    }
    ContainerPort (validateContainerPorts) {
        name: Rule::Format(port_name), containerPort: RequiredRange(1, 65_535), hostPort: PORT,
        protocol: OneOf(&["SCTP", "TCP", "UDP"]),
    }
    EnvVar (ValidateEnv) { name: RequiredFormat(variable) }
    EnvFromSource (ValidateEnvFrom) { prefix: Rule::Format(variable) }
    ConfigMapEnvSource (validateConfigMapEnvSource) { name: RequiredFormat(subdomain_prefix) }
    SecretEnvSource (validateSecretEnvSource) { name: RequiredFormat(subdomain_prefix) }
    ConfigMapKeySelector (validateConfigMapKeySelector) { name: Always(subdomain), key: RequiredFormat(config_key) }
    SecretKeySelector (validateSecretKeySelector) { name: Always(subdomain), key: RequiredFormat(config_key) }
    FileKeySelector (validateFileKeySelector) {
        key: RequiredFormat(variable), volumeName: RequiredFormat(label), path: RequiredFormat(without_parent_directory),
    }
    Probe (validateProbe) {
        initialDelaySeconds: NOT_NEGATIVE, timeoutSeconds: NOT_NEGATIVE, periodSeconds: NOT_NEGATIVE,
        successThreshold: NOT_NEGATIVE, failureThreshold: NOT_NEGATIVE, terminationGracePeriodSeconds: Range(1, i64::MAX),
    }
    ExecAction (validateExecAction) { command: Required }
    HTTPGetAction (validateHTTPGetAction) { scheme: OneOf(&["HTTP", "HTTPS"]) }
    GRPCAction (validateGRPCAction) { port: RequiredRange(1, 65_535) }
    VolumeMount (ValidateVolumeMounts) { name: Required, mountPath: Required }
    VolumeDevice (ValidateVolumeDevices) { name: Required, devicePath: RequiredFormat(without_parent_directory) }
    HostPathVolumeSource (validateHostPathVolumeSource) { path: RequiredFormat(without_parent_directory) }
    GitRepoVolumeSource (validateGitRepoVolumeSource) { repository: Required, directory: Rule::Format(descending_path) }
    ISCSIVolumeSource (validateISCSIVolumeSource) { targetPortal: Required, iqn: RequiredFormat(iscsi_name), lun: Range(0, 255) }
    GCEPersistentDiskVolumeSource (validateGCEPersistentDiskVolumeSource) { pdName: Required, partition: Range(0, 255) }
    AWSElasticBlockStoreVolumeSource (validateAWSElasticBlockStoreVolumeSource) { volumeID: Required, partition: Range(0, 255) }
    SecretVolumeSource (validateSecretVolumeSource) { secretName: Required, defaultMode: MODE }
    ConfigMapVolumeSource (validateConfigMapVolumeSource) { name: Required, defaultMode: MODE }
    KeyToPath (validateKeyToPath) { key: Required, path: RequiredFormat(free_path), mode: MODE }
    PersistentVolumeClaimVolumeSource (validatePersistentClaimVolumeSource) { claimName: Required }
    NFSVolumeSource (validateNFSVolumeSource) { server: Required, path: RequiredFormat(absolute_path) }
    GlusterfsVolumeSource (validateGlusterfsVolumeSource) { endpoints: Required, path: Required }
    DownwardAPIVolumeSource (validateDownwardAPIVolumeSource) { defaultMode: MODE }
    DownwardAPIVolumeFile (validateDownwardAPIVolumeFile) { path: RequiredFormat(free_path), mode: MODE }
    ProjectedVolumeSource (validateProjectedVolumeSource) { defaultMode: MODE }
    SecretProjection (validateProjectionSources) { name: Required }
    ConfigMapProjection (validateProjectionSources) { name: Required }
    ServiceAccountTokenProjection (validateProjectionSources) { expirationSeconds: RequiredRange(600, 1 << 32) }
    ClusterTrustBundleProjection (validateProjectionSources) { path: RequiredFormat(free_path) }
    PodCertificateProjection (validateProjectionSources) {
        signerName: RequiredFormat(signer_name),
        keyType: AlwaysOneOf(&["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"]),
        credentialBundlePath: Rule::Format(free_path), keyPath: Rule::Format(free_path),
        certificateChainPath: Rule::Format(free_path),
    }
    RBDVolumeSource (validateRBDVolumeSource) { monitors: Required, image: Required }
    CinderVolumeSource (validateCinderVolumeSource) { volumeID: Required }
    CephFSVolumeSource (validateCephFSVolumeSource) { monitors: Required }
    FlexVolumeSource (validateFlexVolumeSource) { driver: Required }
    AzureFileVolumeSource (validateAzureFile) { secretName: Required, shareName: Required }
    AzureDiskVolumeSource (validateAzureDisk) {
        diskName: Required, diskURI: Required, cachingMode: OneOf(&["None", "ReadOnly", "ReadWrite"]),
        kind: OneOf(&["Dedicated", "Managed", "Shared"]),
    }
    VsphereVirtualDiskVolumeSource (validateVsphereVolumeSource) { volumePath: Required }
    PhotonPersistentDiskVolumeSource (validatePhotonPersistentDiskVolumeSource) { pdID: Required }
    PortworxVolumeSource (validatePortworxVolumeSource) { volumeID: Required }
    ScaleIOVolumeSource (validateScaleIOVolumeSource) { gateway: Required, system: Required, volumeName: Required }
    StorageOSVolumeSource (validateStorageOSVolumeSource) {
        volumeName: RequiredFormat(label), volumeNamespace: Rule::Format(label),
    }
    CSIVolumeSource (validateCSIVolumeSource) { driver: RequiredFormat(csi_driver) }
    EphemeralVolumeSource (validateEphemeralVolumeSource) { volumeClaimTemplate: Required }
    ImageVolumeSource (validateImageVolumeSource) { reference: Required, pullPolicy: PULL_POLICIES }
    PersistentVolumeClaimSpec (ValidatePersistentVolumeClaimSpec) {
        accessModes: Required, storageClassName: Rule::Format(subdomain), volumeMode: OneOf(&["Block", "Filesystem"]),
        volumeAttributesClassName: Rule::Format(subdomain),
    }
    TypedLocalObjectReference (validateDataSource) {
        name: Required, kind: Required, apiGroup: Rule::Format(subdomain), namespace: Rule::Format(label),
    }
    TypedObjectReference (validateDataSourceRef) {
        name: Required, kind: Required, apiGroup: Rule::Format(subdomain), namespace: Rule::Format(label),
    }
    TopologySpreadConstraint (validateTopologySpreadConstraints) {
        maxSkew: RequiredRange(1, i64::MAX), topologyKey: Required,
        whenUnsatisfiable: AlwaysOneOf(&["DoNotSchedule", "ScheduleAnyway"]), minDomains: Range(1, i64::MAX),
        nodeAffinityPolicy: OneOf(&["Honor", "Ignore"]), nodeTaintsPolicy: OneOf(&["Honor", "Ignore"]),
    }
    NodeSelector (ValidateNodeSelector) { nodeSelectorTerms: Required }
    PreferredSchedulingTerm (ValidatePreferredSchedulingTerms) { weight: RequiredRange(1, 100) }
    WeightedPodAffinityTerm (validateWeightedPodAffinityTerms) { weight: RequiredRange(1, 100) }
    PodAffinityTerm (validatePodAffinityTerm) { topologyKey: RequiredFormat(qualified_name) }
    Toleration (ValidateTolerations) {
        key: Rule::Format(qualified_name), effect: OneOf(&["NoSchedule", "PreferNoSchedule", "NoExecute"]),
    }
}

/// Types whose own function also checks their contents.
const LOOKED_AFTER: &[&str] = &[
    "PodSpec",
    "Container",
    "Lifecycle",
    "LifecycleHandler",
    "Probe",
    "EnvVarSource",
    "Volume",
    "DownwardAPIVolumeSource",
    "DownwardAPIVolumeFile",
    "DownwardAPIProjection",
    "VolumeProjection",
    "PersistentVolumeClaimTemplate",
    "LabelSelector",
    "NodeAffinity",
    "ClusterTrustBundleProjection",
];

impl<'a> Validation<'a> {
    /// Checks an object: the table, the rules of its type, and the objects in it.
    pub(super) fn object(&mut self, of: &'static Type, at: &At<'a>) {
        self.fields(of.name, at);
        match of.name {
            "PodSpec" => self.pod_spec(at),
            "SecurityContext" => self.security_context(at),
            "SeccompProfile" => self.seccomp_profile(at),
            "AppArmorProfile" => self.app_armor_profile(at),
            "WindowsSecurityContextOptions" => self.windows_options(at),
            "Toleration" => self.toleration(at),
            "LabelSelector" => self.label_selector(at),
            "NodeAffinity" => self.node_affinity(at),
            "PodAffinityTerm" => self.pod_affinity_term(at),
            "TopologySpreadConstraint" => self.match_label_keys(at),
            "PodDNSConfig" => self.dns_config(at),
            "Lifecycle" => self.lifecycle(at),
            "LifecycleHandler" => self.handler(at),
            "HTTPGetAction" => self.http_get(at),
            "TCPSocketAction" => self.port(&at.field("port")),
            "EnvVarSource" => self.variable_source(at),
            "Volume" => self.volume(at),
            "PersistentVolumeClaimSpec" => self.claim_spec(at),
            _ => self.volume_source(of.name, at),
        }
        if LOOKED_AFTER.contains(&of.name) {
            return;
        }
        for field in of.fields {
            match field.kind {
                // A struct that is not a pointer is always present in Go.
                FieldKind::Struct(of) => self.object(of, &at.field(field.name)),
                FieldKind::Optional(of) if at.has(field.name) => self.object(of, &at.field(field.name)),
                FieldKind::List(of, _) => at.list(field.name).for_each(|item| self.object(of, &item)),
                _ => {}
            }
        }
    }

    /// Checks the fields of an object against the table.
    pub(super) fn fields(&mut self, of: &str, at: &At<'a>) {
        let rules = RULES.iter().filter(|(name, _)| *name == of).flat_map(|(_, rules)| *rules);
        for (name, rule) in rules {
            let field = at.field(name);
            match rule {
                Required | RequiredFormat(_) | RequiredRange(..) if !field.is_there() => self.required(&*field.path),
                Required => {}
                _ if field.value.is_array() => field.items().for_each(|item| self.single(&item, *rule)),
                _ => self.single(&field, *rule),
            }
        }
    }

    fn single(&mut self, at: &At<'a>, rule: Rule) {
        match rule {
            Rule::Format(format) if !at.as_text().is_empty() => self.check(&*at.path, at.as_text(), format),
            Given(format) | RequiredFormat(format) if at.is_there() => self.check(&*at.path, at.as_text(), format),
            OneOf(supported) if at.is_there() => self.one_of(&*at.path, at.as_text(), supported),
            AlwaysOneOf(supported) => self.one_of(&*at.path, at.as_text(), supported),
            Each(_) if !at.is_there() => {}
            Always(format) | Each(format) => self.check(&*at.path, at.as_text(), format),
            Range(least, most) | RequiredRange(least, most) => self.range(at, least, most),
            _ => {}
        }
    }
}
