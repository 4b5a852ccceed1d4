//! The table of types, generated from the Go types: see `tests/e2e/differential`.

use super::{Field, FieldKind, Key, Type};

types! {
    PodTemplateSpec { metadata: (ObjectMeta), spec: (PodSpec) }
    ObjectMeta {
        name: value, generateName: value, namespace: value, selfLink: value, uid: value, resourceVersion: value,
        generation: value, creationTimestamp: value, deletionTimestamp: pointer, deletionGracePeriodSeconds: pointer,
        labels: texts, annotations: texts, ownerReferences: [OwnerReference by "uid"], finalizers: values,
        managedFields: [ManagedFieldsEntry as Loose],
    }
    OwnerReference {
        apiVersion: value, kind: value, name: value, uid: value, controller: pointer, blockOwnerDeletion: pointer,
    }
    ManagedFieldsEntry {
        manager: value, operation: value, apiVersion: value, time: pointer, fieldsType: value, fieldsV1: pointer,
        subresource: value,
    }
    PodSpec {
        initContainers: [Container as InitContainer], containers: [Container by "name"], volumes: [Volume by "name"],
        ephemeralContainers: [EphemeralContainer by "name"], restartPolicy: value,
        terminationGracePeriodSeconds: pointer, activeDeadlineSeconds: pointer, dnsPolicy: value, nodeSelector: texts,
        serviceAccountName: value, serviceAccount: value, automountServiceAccountToken: pointer, nodeName: value,
        hostNetwork: value, hostPID: value, hostIPC: value, shareProcessNamespace: pointer,
        securityContext: (?PodSecurityContext), imagePullSecrets: [LocalObjectReference by "name"], hostname: value,
        subdomain: value, affinity: (?Affinity), schedulerName: value, tolerations: [Toleration as Toleration],
        hostAliases: [HostAlias by "ip"], priorityClassName: value, priority: pointer, dnsConfig: (?PodDNSConfig),
        readinessGates: [PodReadinessGate by "conditionType"], runtimeClassName: pointer, enableServiceLinks: pointer,
        preemptionPolicy: pointer, overhead: quantities,
        topologySpreadConstraints: [TopologySpreadConstraint as Spread], setHostnameAsFQDN: pointer, os: (?PodOS),
        hostUsers: pointer, schedulingGates: [PodSchedulingGate by "name"],
        resourceClaims: [PodResourceClaim by "name"], resources: (?ResourceRequirements), hostnameOverride: pointer,
        schedulingGroup: (?PodSchedulingGroup), evictionResponders: [EvictionResponder by "name"],
    }
    Container {
        name: value, image: value, command: values, args: values, workingDir: value, ports: [ContainerPort as Port],
        envFrom: [EnvFromSource as EnvFrom], env: [EnvVar as Env], resources: (ResourceRequirements),
        resizePolicy: [ContainerResizePolicy by "resourceName"], restartPolicy: pointer,
        restartPolicyRules: [ContainerRestartRule as Sequence], volumeMounts: [VolumeMount by "mountPath"],
        volumeDevices: [VolumeDevice by "devicePath"], livenessProbe: (?Probe), readinessProbe: (?Probe),
        startupProbe: (?Probe), lifecycle: (?Lifecycle), terminationMessagePath: value, terminationMessagePolicy: value,
        imagePullPolicy: value, securityContext: (?SecurityContext), stdin: value, stdinOnce: value, tty: value,
    }
    ContainerPort { name: value, hostPort: value, containerPort: value, protocol: value, hostIP: value }
    EnvFromSource { prefix: value, configMapRef: (?ConfigMapEnvSource), secretRef: (?SecretEnvSource) }
    ConfigMapEnvSource { name: value, optional: pointer }
    SecretEnvSource { name: value, optional: pointer }
    EnvVar { name: value, value: value, valueFrom: (?EnvVarSource) }
    EnvVarSource {
        fieldRef: (?ObjectFieldSelector), resourceFieldRef: (?ResourceFieldSelector),
        configMapKeyRef: (?ConfigMapKeySelector), secretKeyRef: (?SecretKeySelector), fileKeyRef: (?FileKeySelector),
    }
    ObjectFieldSelector { apiVersion: value, fieldPath: value }
    ResourceFieldSelector { containerName: value, resource: value, divisor: quantity }
    ConfigMapKeySelector { name: value, key: value, optional: pointer }
    SecretKeySelector { name: value, key: value, optional: pointer }
    FileKeySelector { volumeName: value, path: value, key: value, optional: pointer }
    ResourceRequirements { limits: quantities, requests: quantities, claims: [ResourceClaim by "name"] }
    ResourceClaim { name: value, request: value }
    ContainerResizePolicy { resourceName: value, restartPolicy: value }
    ContainerRestartRule { action: value, exitCodes: (?ContainerRestartRuleOnExitCodes) }
    ContainerRestartRuleOnExitCodes { operator: value, values: values }
    VolumeMount {
        name: value, readOnly: value, recursiveReadOnly: pointer, mountPath: value, subPath: value,
        mountPropagation: pointer, subPathExpr: value, bindMountOptions: values,
    }
    VolumeDevice { name: value, devicePath: value }
    Probe {
        exec: (?ExecAction), httpGet: (?HTTPGetAction), tcpSocket: (?TCPSocketAction), grpc: (?GRPCAction),
        initialDelaySeconds: value, timeoutSeconds: value, periodSeconds: value, successThreshold: value,
        failureThreshold: value, terminationGracePeriodSeconds: pointer,
    }
    ExecAction { command: values }
    HTTPGetAction {
        path: value, port: int_or_string, host: value, scheme: value, httpHeaders: [HTTPHeader by "name"],
        protocol: pointer,
    }
    HTTPHeader { name: value, value: value }
    TCPSocketAction { port: int_or_string, host: value }
    GRPCAction { port: value, service: pointer, mode: pointer }
    Lifecycle { postStart: (?LifecycleHandler), preStop: (?LifecycleHandler), stopSignal: pointer }
    LifecycleHandler {
        exec: (?ExecAction), httpGet: (?HTTPGetAction), tcpSocket: (?TCPSocketAction), sleep: (?SleepAction),
    }
    SleepAction { seconds: value }
    SecurityContext {
        capabilities: (?Capabilities), privileged: pointer, seLinuxOptions: (?SELinuxOptions),
        windowsOptions: (?WindowsSecurityContextOptions), runAsUser: pointer, runAsGroup: pointer,
        runAsNonRoot: pointer, readOnlyRootFilesystem: pointer, allowPrivilegeEscalation: pointer, procMount: pointer,
        seccompProfile: (?SeccompProfile), appArmorProfile: (?AppArmorProfile),
    }
    Capabilities { add: values, drop: values }
    SELinuxOptions { user: value, role: value, type: value, level: value }
    WindowsSecurityContextOptions {
        gmsaCredentialSpecName: pointer, gmsaCredentialSpec: pointer, runAsUserName: pointer, hostProcess: pointer,
    }
    SeccompProfile { type: value, localhostProfile: pointer }
    AppArmorProfile { type: value, localhostProfile: pointer }
    Volume {
        name: value, hostPath: (?HostPathVolumeSource), emptyDir: (?EmptyDirVolumeSource),
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
    HostPathVolumeSource { path: value, type: pointer }
    EmptyDirVolumeSource { medium: value, sizeLimit: optional_quantity, mode: pointer }
    GCEPersistentDiskVolumeSource { pdName: value, fsType: value, partition: value, readOnly: value }
    AWSElasticBlockStoreVolumeSource { volumeID: value, fsType: value, partition: value, readOnly: value }
    GitRepoVolumeSource { repository: value, revision: value, directory: value }
    SecretVolumeSource {
        secretName: value, items: [KeyToPath by "path"], defaultMode: pointer, optional: pointer, defaultUser: pointer,
    }
    KeyToPath { key: value, path: value, mode: pointer, user: pointer }
    NFSVolumeSource { server: value, path: value, readOnly: value }
    ISCSIVolumeSource {
        targetPortal: value, iqn: value, lun: value, iscsiInterface: value, fsType: value, readOnly: value,
        portals: values, chapAuthDiscovery: value, chapAuthSession: value, secretRef: (?LocalObjectReference),
        initiatorName: pointer,
    }
    LocalObjectReference { name: value }
    GlusterfsVolumeSource { endpoints: value, path: value, readOnly: value }
    PersistentVolumeClaimVolumeSource { claimName: value, readOnly: value }
    RBDVolumeSource {
        monitors: values, image: value, fsType: value, pool: value, user: value, keyring: value,
        secretRef: (?LocalObjectReference), readOnly: value,
    }
    FlexVolumeSource {
        driver: value, fsType: value, secretRef: (?LocalObjectReference), readOnly: value, options: texts,
    }
    CinderVolumeSource { volumeID: value, fsType: value, readOnly: value, secretRef: (?LocalObjectReference) }
    CephFSVolumeSource {
        monitors: values, path: value, user: value, secretFile: value, secretRef: (?LocalObjectReference),
        readOnly: value,
    }
    FlockerVolumeSource { datasetName: value, datasetUUID: value }
    DownwardAPIVolumeSource { items: [DownwardAPIVolumeFile by "path"], defaultMode: pointer, defaultUser: pointer }
    DownwardAPIVolumeFile {
        path: value, fieldRef: (?ObjectFieldSelector), resourceFieldRef: (?ResourceFieldSelector), mode: pointer,
        user: pointer,
    }
    FCVolumeSource { targetWWNs: values, lun: pointer, fsType: value, readOnly: value, wwids: values }
    AzureFileVolumeSource { secretName: value, shareName: value, readOnly: value }
    ConfigMapVolumeSource {
        name: value, items: [KeyToPath by "path"], defaultMode: pointer, optional: pointer, defaultUser: pointer,
    }
    VsphereVirtualDiskVolumeSource {
        volumePath: value, fsType: value, storagePolicyName: value, storagePolicyID: value,
    }
    QuobyteVolumeSource { registry: value, volume: value, readOnly: value, user: value, group: value, tenant: value }
    AzureDiskVolumeSource {
        diskName: value, diskURI: value, cachingMode: pointer, fsType: pointer, readOnly: pointer, kind: pointer,
    }
    PhotonPersistentDiskVolumeSource { pdID: value, fsType: value }
    ProjectedVolumeSource { sources: [VolumeProjection as Projection], defaultMode: pointer, defaultUser: pointer }
    VolumeProjection {
        secret: (?SecretProjection), downwardAPI: (?DownwardAPIProjection), configMap: (?ConfigMapProjection),
        serviceAccountToken: (?ServiceAccountTokenProjection), clusterTrustBundle: (?ClusterTrustBundleProjection),
        podCertificate: (?PodCertificateProjection),
    }
    SecretProjection { name: value, items: [KeyToPath by "path"], optional: pointer }
    DownwardAPIProjection { items: [DownwardAPIVolumeFile by "path"] }
    ConfigMapProjection { name: value, items: [KeyToPath by "path"], optional: pointer }
    ServiceAccountTokenProjection { audience: value, expirationSeconds: pointer, path: value, user: pointer }
    ClusterTrustBundleProjection {
        name: pointer, signerName: pointer, labelSelector: (?LabelSelector), optional: pointer, path: value,
        user: pointer,
    }
    LabelSelector { matchLabels: texts, matchExpressions: [LabelSelectorRequirement as Requirement] }
    LabelSelectorRequirement { key: value, operator: value, values: values }
    PodCertificateProjection {
        signerName: value, keyType: value, maxExpirationSeconds: pointer, credentialBundlePath: value, keyPath: value,
        certificateChainPath: value, userAnnotations: texts, user: pointer,
    }
    PortworxVolumeSource { volumeID: value, fsType: value, readOnly: value }
    ScaleIOVolumeSource {
        gateway: value, system: value, secretRef: (?LocalObjectReference), sslEnabled: value, protectionDomain: value,
        storagePool: value, storageMode: value, volumeName: value, fsType: value, readOnly: value,
    }
    StorageOSVolumeSource {
        volumeName: value, volumeNamespace: value, fsType: value, readOnly: value, secretRef: (?LocalObjectReference),
    }
    CSIVolumeSource {
        driver: value, readOnly: pointer, fsType: pointer, volumeAttributes: texts,
        nodePublishSecretRef: (?LocalObjectReference),
    }
    EphemeralVolumeSource { volumeClaimTemplate: (?PersistentVolumeClaimTemplate) }
    PersistentVolumeClaimTemplate { metadata: (ObjectMeta), spec: (PersistentVolumeClaimSpec) }
    PersistentVolumeClaimSpec {
        accessModes: values, selector: (?LabelSelector), resources: (VolumeResourceRequirements), volumeName: value,
        storageClassName: pointer, volumeMode: pointer, dataSource: (?TypedLocalObjectReference),
        dataSourceRef: (?TypedObjectReference), volumeAttributesClassName: pointer,
    }
    VolumeResourceRequirements { limits: quantities, requests: quantities }
    TypedLocalObjectReference { apiGroup: pointer, kind: value, name: value }
    TypedObjectReference { apiGroup: pointer, kind: value, name: value, namespace: pointer }
    ImageVolumeSource { reference: value, pullPolicy: value }
    EphemeralContainer {
        name: value, image: value, command: values, args: values, workingDir: value, ports: [ContainerPort as Port],
        envFrom: [EnvFromSource as EnvFrom], env: [EnvVar as Env], resources: (ResourceRequirements),
        resizePolicy: [ContainerResizePolicy by "resourceName"], restartPolicy: pointer,
        restartPolicyRules: [ContainerRestartRule as Sequence], volumeMounts: [VolumeMount by "mountPath"],
        volumeDevices: [VolumeDevice by "devicePath"], livenessProbe: (?Probe), readinessProbe: (?Probe),
        startupProbe: (?Probe), lifecycle: (?Lifecycle), terminationMessagePath: value, terminationMessagePolicy: value,
        imagePullPolicy: value, securityContext: (?SecurityContext), stdin: value, stdinOnce: value, tty: value,
        targetContainerName: value,
    }
    PodSecurityContext {
        seLinuxOptions: (?SELinuxOptions), windowsOptions: (?WindowsSecurityContextOptions), runAsUser: pointer,
        runAsGroup: pointer, runAsNonRoot: pointer, supplementalGroups: values, supplementalGroupsPolicy: pointer,
        fsGroup: pointer, sysctls: [Sysctl by "name"], fsGroupChangePolicy: pointer, seccompProfile: (?SeccompProfile),
        appArmorProfile: (?AppArmorProfile), seLinuxChangePolicy: pointer,
    }
    Sysctl { name: value, value: value }
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
    NodeSelectorRequirement { key: value, operator: value, values: values }
    PreferredSchedulingTerm { weight: value, preference: (NodeSelectorTerm) }
    PodAffinity {
        requiredDuringSchedulingIgnoredDuringExecution: [PodAffinityTerm as Loose],
        preferredDuringSchedulingIgnoredDuringExecution: [WeightedPodAffinityTerm as Loose],
    }
    PodAffinityTerm {
        labelSelector: (?LabelSelector), namespaces: values, topologyKey: value, namespaceSelector: (?LabelSelector),
        matchLabelKeys: values, mismatchLabelKeys: values,
    }
    WeightedPodAffinityTerm { weight: value, podAffinityTerm: (PodAffinityTerm) }
    PodAntiAffinity {
        requiredDuringSchedulingIgnoredDuringExecution: [PodAffinityTerm as Loose],
        preferredDuringSchedulingIgnoredDuringExecution: [WeightedPodAffinityTerm as Loose],
    }
    Toleration { key: value, operator: value, value: value, effect: value, tolerationSeconds: pointer }
    HostAlias { ip: value, hostnames: values }
    PodDNSConfig { nameservers: values, searches: values, options: [PodDNSConfigOption by "name"] }
    PodDNSConfigOption { name: value, value: pointer }
    PodReadinessGate { conditionType: value }
    TopologySpreadConstraint {
        maxSkew: value, topologyKey: value, whenUnsatisfiable: value, labelSelector: (?LabelSelector),
        minDomains: pointer, nodeAffinityPolicy: pointer, nodeTaintsPolicy: pointer, matchLabelKeys: values,
    }
    PodOS { name: value }
    PodSchedulingGate { name: value }
    PodResourceClaim { name: value, resourceClaimName: pointer, resourceClaimTemplateName: pointer }
    PodSchedulingGroup { podGroupName: pointer }
    EvictionResponder { name: value, priority: pointer }
}
