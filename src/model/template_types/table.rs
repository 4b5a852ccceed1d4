//! The table of types, generated from the Go types: see `tests/e2e/differential`.

use super::{Field, FieldKind, Key, Scalar, Type, words};

types! {
    PodTemplateSpec { metadata: (ObjectMeta), spec: (PodSpec) }
    ObjectMeta {
        name: text, generateName: text, namespace: text, selfLink: text, uid: text, resourceVersion: text,
        generation: int64, creationTimestamp: time, deletionTimestamp: {Time}, deletionGracePeriodSeconds: {Int64},
        labels: texts, annotations: texts, ownerReferences: [OwnerReference by "uid"], finalizers: [Text],
        managedFields: [ManagedFieldsEntry as Loose],
    }
    OwnerReference {
        apiVersion: text, kind: text, name: text, uid: text, controller: {Bool}, blockOwnerDeletion: {Bool},
    }
    ManagedFieldsEntry {
        manager: text, operation: text, apiVersion: text, time: {Time}, fieldsType: text, fieldsV1: {Json},
        subresource: text,
    }
    PodSpec {
        initContainers: [Container as InitContainer], containers: [Container by "name"], volumes: [Volume by "name"],
        ephemeralContainers: [EphemeralContainer by "name"], restartPolicy: text,
        terminationGracePeriodSeconds: {Int64}, activeDeadlineSeconds: {Int64}, dnsPolicy: text, nodeSelector: texts,
        serviceAccountName: text, serviceAccount: text, automountServiceAccountToken: {Bool}, nodeName: text,
        hostNetwork: bool, hostPID: bool, hostIPC: bool, shareProcessNamespace: {Bool},
        securityContext: (?PodSecurityContext), imagePullSecrets: [LocalObjectReference by "name"], hostname: text,
        subdomain: text, affinity: (?Affinity), schedulerName: text, tolerations: [Toleration as Toleration],
        hostAliases: [HostAlias by "ip"], priorityClassName: text, priority: {Int32}, dnsConfig: (?PodDNSConfig),
        readinessGates: [PodReadinessGate by "conditionType"], runtimeClassName: {Text}, enableServiceLinks: {Bool},
        preemptionPolicy: {Text}, overhead: quantities, topologySpreadConstraints: [TopologySpreadConstraint as Spread],
        setHostnameAsFQDN: {Bool}, os: (?PodOS), hostUsers: {Bool}, schedulingGates: [PodSchedulingGate by "name"],
        resourceClaims: [PodResourceClaim by "name"], resources: (?ResourceRequirements), hostnameOverride: {Text},
        schedulingGroup: (?PodSchedulingGroup), evictionResponders: [EvictionResponder by "name"],
    }
    Container {
        name: text, image: text, command: [Text], args: [Text], workingDir: text, ports: [ContainerPort as Port],
        envFrom: [EnvFromSource as EnvFrom], env: [EnvVar as Env], resources: (ResourceRequirements),
        resizePolicy: [ContainerResizePolicy by "resourceName"], restartPolicy: {Text},
        restartPolicyRules: [ContainerRestartRule as Sequence], volumeMounts: [VolumeMount by "mountPath"],
        volumeDevices: [VolumeDevice by "devicePath"], livenessProbe: (?Probe), readinessProbe: (?Probe),
        startupProbe: (?Probe), lifecycle: (?Lifecycle), terminationMessagePath: text, terminationMessagePolicy: text,
        imagePullPolicy: text, securityContext: (?SecurityContext), stdin: bool, stdinOnce: bool, tty: bool,
    }
    ContainerPort { name: text, hostPort: int32, containerPort: int32, protocol: text, hostIP: text }
    EnvFromSource { prefix: text, configMapRef: (?ConfigMapEnvSource), secretRef: (?SecretEnvSource) }
    ConfigMapEnvSource { name: text, optional: {Bool} }
    SecretEnvSource { name: text, optional: {Bool} }
    EnvVar { name: text, value: text, valueFrom: (?EnvVarSource) }
    EnvVarSource {
        fieldRef: (?ObjectFieldSelector), resourceFieldRef: (?ResourceFieldSelector),
        configMapKeyRef: (?ConfigMapKeySelector), secretKeyRef: (?SecretKeySelector), fileKeyRef: (?FileKeySelector),
    }
    ObjectFieldSelector { apiVersion: text, fieldPath: text }
    ResourceFieldSelector { containerName: text, resource: text, divisor: quantity }
    ConfigMapKeySelector { name: text, key: text, optional: {Bool} }
    SecretKeySelector { name: text, key: text, optional: {Bool} }
    FileKeySelector { volumeName: text, path: text, key: text, optional: {Bool} }
    ResourceRequirements { limits: quantities, requests: quantities, claims: [ResourceClaim by "name"] }
    ResourceClaim { name: text, request: text }
    ContainerResizePolicy { resourceName: text, restartPolicy: text }
    ContainerRestartRule { action: text, exitCodes: (?ContainerRestartRuleOnExitCodes) }
    ContainerRestartRuleOnExitCodes { operator: text, values: [Int32] }
    VolumeMount {
        name: text, readOnly: bool, recursiveReadOnly: {Text}, mountPath: text, subPath: text, mountPropagation: {Text},
        subPathExpr: text, bindMountOptions: [Text],
    }
    VolumeDevice { name: text, devicePath: text }
    Probe {
        exec: (?ExecAction), httpGet: (?HTTPGetAction), tcpSocket: (?TCPSocketAction), grpc: (?GRPCAction),
        initialDelaySeconds: int32, timeoutSeconds: int32, periodSeconds: int32, successThreshold: int32,
        failureThreshold: int32, terminationGracePeriodSeconds: {Int64},
    }
    ExecAction { command: [Text] }
    HTTPGetAction {
        path: text, port: int_or_string, host: text, scheme: text, httpHeaders: [HTTPHeader by "name"],
        protocol: {Text},
    }
    HTTPHeader { name: text, value: text }
    TCPSocketAction { port: int_or_string, host: text }
    GRPCAction { port: int32, service: {Text}, mode: {Text} }
    Lifecycle { postStart: (?LifecycleHandler), preStop: (?LifecycleHandler), stopSignal: {Text} }
    LifecycleHandler {
        exec: (?ExecAction), httpGet: (?HTTPGetAction), tcpSocket: (?TCPSocketAction), sleep: (?SleepAction),
    }
    SleepAction { seconds: int64 }
    SecurityContext {
        capabilities: (?Capabilities), privileged: {Bool}, seLinuxOptions: (?SELinuxOptions),
        windowsOptions: (?WindowsSecurityContextOptions), runAsUser: {Int64}, runAsGroup: {Int64}, runAsNonRoot: {Bool},
        readOnlyRootFilesystem: {Bool}, allowPrivilegeEscalation: {Bool}, procMount: {Text},
        seccompProfile: (?SeccompProfile), appArmorProfile: (?AppArmorProfile),
    }
    Capabilities { add: [Text], drop: [Text] }
    SELinuxOptions { user: text, role: text, type: text, level: text }
    WindowsSecurityContextOptions {
        gmsaCredentialSpecName: {Text}, gmsaCredentialSpec: {Text}, runAsUserName: {Text}, hostProcess: {Bool},
    }
    SeccompProfile { type: text, localhostProfile: {Text} }
    AppArmorProfile { type: text, localhostProfile: {Text} }
    Volume {
        name: text, hostPath: (?HostPathVolumeSource), emptyDir: (?EmptyDirVolumeSource),
        gcePersistentDisk: (?GCEPersistentDiskVolumeSource), awsElasticBlockStore: (?AWSElasticBlockStoreVolumeSource),
        gitRepo: (?GitRepoVolumeSource), secret: (?SecretVolumeSource), nfs: (?NFSVolumeSource),
        iscsi: (?ISCSIVolumeSource), glusterfs: (?GlusterfsVolumeSource),
        persistentVolumeClaim: (?PersistentVolumeClaimVolumeSource), rbd: (?RBDVolumeSource),
        flexVolume: (?FlexVolumeSource), cinder: (?CinderVolumeSource), cephfs: (?CephFSVolumeSource),
        flocker: (?FlockerVolumeSource), downwardAPI: (?DownwardAPIVolumeSource), fc: (?FCVolumeSource),
        azureFile: (?AzureFileVolumeSource), configMap: (?ConfigMapVolumeSource),
        vsphereVolume: (?VsphereVirtualDiskVolumeSource), quobyte: (?QuobyteVolumeSource),
        azureDisk: (?AzureDiskVolumeSource), photonPersistentDisk: (?PhotonPersistentDiskVolumeSource),
        projected: (?ProjectedVolumeSource), portworxVolume: (?PortworxVolumeSource), scaleIO: (?ScaleIOVolumeSource),
        storageos: (?StorageOSVolumeSource), csi: (?CSIVolumeSource), ephemeral: (?EphemeralVolumeSource),
        image: (?ImageVolumeSource),
    }
    HostPathVolumeSource { path: text, type: {Text} }
    EmptyDirVolumeSource { medium: text, sizeLimit: optional_quantity, mode: {Int32} }
    GCEPersistentDiskVolumeSource { pdName: text, fsType: text, partition: int32, readOnly: bool }
    AWSElasticBlockStoreVolumeSource { volumeID: text, fsType: text, partition: int32, readOnly: bool }
    GitRepoVolumeSource { repository: text, revision: text, directory: text }
    SecretVolumeSource {
        secretName: text, items: [KeyToPath by "path"], defaultMode: {Int32}, optional: {Bool}, defaultUser: {Int64},
    }
    KeyToPath { key: text, path: text, mode: {Int32}, user: {Int64} }
    NFSVolumeSource { server: text, path: text, readOnly: bool }
    ISCSIVolumeSource {
        targetPortal: text, iqn: text, lun: int32, iscsiInterface: text, fsType: text, readOnly: bool, portals: [Text],
        chapAuthDiscovery: bool, chapAuthSession: bool, secretRef: (?LocalObjectReference), initiatorName: {Text},
    }
    LocalObjectReference { name: text }
    GlusterfsVolumeSource { endpoints: text, path: text, readOnly: bool }
    PersistentVolumeClaimVolumeSource { claimName: text, readOnly: bool }
    RBDVolumeSource {
        monitors: [Text], image: text, fsType: text, pool: text, user: text, keyring: text,
        secretRef: (?LocalObjectReference), readOnly: bool,
    }
    FlexVolumeSource { driver: text, fsType: text, secretRef: (?LocalObjectReference), readOnly: bool, options: texts }
    CinderVolumeSource { volumeID: text, fsType: text, readOnly: bool, secretRef: (?LocalObjectReference) }
    CephFSVolumeSource {
        monitors: [Text], path: text, user: text, secretFile: text, secretRef: (?LocalObjectReference), readOnly: bool,
    }
    FlockerVolumeSource { datasetName: text, datasetUUID: text }
    DownwardAPIVolumeSource { items: [DownwardAPIVolumeFile by "path"], defaultMode: {Int32}, defaultUser: {Int64} }
    DownwardAPIVolumeFile {
        path: text, fieldRef: (?ObjectFieldSelector), resourceFieldRef: (?ResourceFieldSelector), mode: {Int32},
        user: {Int64},
    }
    FCVolumeSource { targetWWNs: [Text], lun: {Int32}, fsType: text, readOnly: bool, wwids: [Text] }
    AzureFileVolumeSource { secretName: text, shareName: text, readOnly: bool }
    ConfigMapVolumeSource {
        name: text, items: [KeyToPath by "path"], defaultMode: {Int32}, optional: {Bool}, defaultUser: {Int64},
    }
    VsphereVirtualDiskVolumeSource { volumePath: text, fsType: text, storagePolicyName: text, storagePolicyID: text }
    QuobyteVolumeSource { registry: text, volume: text, readOnly: bool, user: text, group: text, tenant: text }
    AzureDiskVolumeSource {
        diskName: text, diskURI: text, cachingMode: {Text}, fsType: {Text}, readOnly: {Bool}, kind: {Text},
    }
    PhotonPersistentDiskVolumeSource { pdID: text, fsType: text }
    ProjectedVolumeSource { sources: [VolumeProjection as Projection], defaultMode: {Int32}, defaultUser: {Int64} }
    VolumeProjection {
        secret: (?SecretProjection), downwardAPI: (?DownwardAPIProjection), configMap: (?ConfigMapProjection),
        serviceAccountToken: (?ServiceAccountTokenProjection), clusterTrustBundle: (?ClusterTrustBundleProjection),
        podCertificate: (?PodCertificateProjection),
    }
    SecretProjection { name: text, items: [KeyToPath by "path"], optional: {Bool} }
    DownwardAPIProjection { items: [DownwardAPIVolumeFile by "path"] }
    ConfigMapProjection { name: text, items: [KeyToPath by "path"], optional: {Bool} }
    ServiceAccountTokenProjection { audience: text, expirationSeconds: {Int64}, path: text, user: {Int64} }
    ClusterTrustBundleProjection {
        name: {Text}, signerName: {Text}, labelSelector: (?LabelSelector), optional: {Bool}, path: text, user: {Int64},
    }
    LabelSelector { matchLabels: texts, matchExpressions: [LabelSelectorRequirement as Requirement] }
    LabelSelectorRequirement { key: text, operator: text, values: [Text] }
    PodCertificateProjection {
        signerName: text, keyType: text, maxExpirationSeconds: {Int32}, credentialBundlePath: text, keyPath: text,
        certificateChainPath: text, userAnnotations: texts, user: {Int64},
    }
    PortworxVolumeSource { volumeID: text, fsType: text, readOnly: bool }
    ScaleIOVolumeSource {
        gateway: text, system: text, secretRef: (?LocalObjectReference), sslEnabled: bool, protectionDomain: text,
        storagePool: text, storageMode: text, volumeName: text, fsType: text, readOnly: bool,
    }
    StorageOSVolumeSource {
        volumeName: text, volumeNamespace: text, fsType: text, readOnly: bool, secretRef: (?LocalObjectReference),
    }
    CSIVolumeSource {
        driver: text, readOnly: {Bool}, fsType: {Text}, volumeAttributes: texts,
        nodePublishSecretRef: (?LocalObjectReference),
    }
    EphemeralVolumeSource { volumeClaimTemplate: (?PersistentVolumeClaimTemplate) }
    PersistentVolumeClaimTemplate { metadata: (ObjectMeta), spec: (PersistentVolumeClaimSpec) }
    PersistentVolumeClaimSpec {
        accessModes: [Text], selector: (?LabelSelector), resources: (VolumeResourceRequirements), volumeName: text,
        storageClassName: {Text}, volumeMode: {Text}, dataSource: (?TypedLocalObjectReference),
        dataSourceRef: (?TypedObjectReference), volumeAttributesClassName: {Text},
    }
    VolumeResourceRequirements { limits: quantities, requests: quantities }
    TypedLocalObjectReference { apiGroup: {Text}, kind: text, name: text }
    TypedObjectReference { apiGroup: {Text}, kind: text, name: text, namespace: {Text} }
    ImageVolumeSource { reference: text, pullPolicy: text }
    EphemeralContainer {
        name: text, image: text, command: [Text], args: [Text], workingDir: text, ports: [ContainerPort as Port],
        envFrom: [EnvFromSource as EnvFrom], env: [EnvVar as Env], resources: (ResourceRequirements),
        resizePolicy: [ContainerResizePolicy by "resourceName"], restartPolicy: {Text},
        restartPolicyRules: [ContainerRestartRule as Sequence], volumeMounts: [VolumeMount by "mountPath"],
        volumeDevices: [VolumeDevice by "devicePath"], livenessProbe: (?Probe), readinessProbe: (?Probe),
        startupProbe: (?Probe), lifecycle: (?Lifecycle), terminationMessagePath: text, terminationMessagePolicy: text,
        imagePullPolicy: text, securityContext: (?SecurityContext), stdin: bool, stdinOnce: bool, tty: bool,
        targetContainerName: text,
    }
    PodSecurityContext {
        seLinuxOptions: (?SELinuxOptions), windowsOptions: (?WindowsSecurityContextOptions), runAsUser: {Int64},
        runAsGroup: {Int64}, runAsNonRoot: {Bool}, supplementalGroups: [Int64], supplementalGroupsPolicy: {Text},
        fsGroup: {Int64}, sysctls: [Sysctl by "name"], fsGroupChangePolicy: {Text}, seccompProfile: (?SeccompProfile),
        appArmorProfile: (?AppArmorProfile), seLinuxChangePolicy: {Text},
    }
    Sysctl { name: text, value: text }
    Affinity { nodeAffinity: (?NodeAffinity), podAffinity: (?PodAffinity), podAntiAffinity: (?PodAntiAffinity) }
    NodeAffinity {
        requiredDuringSchedulingIgnoredDuringExecution: (?NodeSelector),
        preferredDuringSchedulingIgnoredDuringExecution: [PreferredSchedulingTerm as Loose],
    }
    NodeSelector { nodeSelectorTerms: [NodeSelectorTerm as Loose] }
    NodeSelectorTerm {
        matchExpressions: [NodeSelectorRequirement as Requirement],
        matchFields: [NodeSelectorRequirement as Requirement],
    }
    NodeSelectorRequirement { key: text, operator: text, values: [Text] }
    PreferredSchedulingTerm { weight: int32, preference: (NodeSelectorTerm) }
    PodAffinity {
        requiredDuringSchedulingIgnoredDuringExecution: [PodAffinityTerm as Loose],
        preferredDuringSchedulingIgnoredDuringExecution: [WeightedPodAffinityTerm as Loose],
    }
    PodAffinityTerm {
        labelSelector: (?LabelSelector), namespaces: [Text], topologyKey: text, namespaceSelector: (?LabelSelector),
        matchLabelKeys: [Text], mismatchLabelKeys: [Text],
    }
    WeightedPodAffinityTerm { weight: int32, podAffinityTerm: (PodAffinityTerm) }
    PodAntiAffinity {
        requiredDuringSchedulingIgnoredDuringExecution: [PodAffinityTerm as Loose],
        preferredDuringSchedulingIgnoredDuringExecution: [WeightedPodAffinityTerm as Loose],
    }
    Toleration { key: text, operator: text, value: text, effect: text, tolerationSeconds: {Int64} }
    HostAlias { ip: text, hostnames: [Text] }
    PodDNSConfig { nameservers: [Text], searches: [Text], options: [PodDNSConfigOption by "name"] }
    PodDNSConfigOption { name: text, value: {Text} }
    PodReadinessGate { conditionType: text }
    TopologySpreadConstraint {
        maxSkew: int32, topologyKey: text, whenUnsatisfiable: text, labelSelector: (?LabelSelector),
        minDomains: {Int32}, nodeAffinityPolicy: {Text}, nodeTaintsPolicy: {Text}, matchLabelKeys: [Text],
    }
    PodOS { name: text }
    PodSchedulingGate { name: text }
    PodResourceClaim { name: text, resourceClaimName: {Text}, resourceClaimTemplateName: {Text} }
    PodSchedulingGroup { podGroupName: {Text} }
    EvictionResponder { name: text, priority: {Int32} }
    DaemonSet { apiVersion: text, kind: text, metadata: (ObjectMeta), spec: (DaemonSetSpec), status: (DaemonSetStatus) }
    DaemonSetCondition { lastTransitionTime: time, message: text, reason: text, status: text, type: text }
    DaemonSetSpec {
        minReadySeconds: int32, revisionHistoryLimit: {Int32}, selector: (?LabelSelector), template: (PodTemplateSpec),
        updateStrategy: (DaemonSetUpdateStrategy),
    }
    DaemonSetStatus {
        collisionCount: {Int32}, conditions: [DaemonSetCondition by "type"], currentNumberScheduled: int32,
        desiredNumberScheduled: int32, numberAvailable: int32, numberMisscheduled: int32, numberReady: int32,
        numberUnavailable: int32, observedGeneration: int64, updatedNumberScheduled: int32,
    }
    DaemonSetUpdateStrategy { rollingUpdate: (?RollingUpdateDaemonSet), type: text }
    RollingUpdateDaemonSet { maxSurge: {IntOrString}, maxUnavailable: {IntOrString} }
}
