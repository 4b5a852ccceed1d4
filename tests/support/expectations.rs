//! The known problems of the recorded clusters.

use kubectl_ds::report::reason::ReasonCode::{self, *};

/// What is known of a DaemonSet before anybody looks at it.
#[derive(Debug, Clone, Copy)]
pub struct Expectation {
    /// Namespace and name of the DaemonSet, with a slash between.
    pub daemon_set: &'static str,
    /// The reason that has to come first.
    pub code: ReasonCode,
    /// The nodes for which it has to.
    pub nodes: Nodes,
    /// Words of the control plane itself, in an event or a pod's status, that have to be there
    /// before the cluster counts as settled; empty where it says nothing.
    pub evidence: &'static str,
}

/// Some of the cluster's nodes.
#[derive(Debug, Clone, Copy)]
pub enum Nodes {
    /// These.
    Are(&'static [&'static str]),
    /// As many as this; chance decides which.
    Number(usize),
}

use Nodes::{Are, Number};

const fn expect(daemon_set: &'static str, code: ReasonCode, nodes: Nodes, evidence: &'static str) -> Expectation {
    Expectation { daemon_set, code, nodes, evidence }
}

const ZONE_A: Nodes = Are(&["worker-a1", "worker-a2", "worker-a3", "worker-a4"]);
const ZONE_B: Nodes = Are(&["worker-b1", "worker-b2", "worker-b3", "worker-b4"]);
const ZONE_C: Nodes = Are(&["worker-c1", "worker-c2"]);
const GENERAL: Nodes = Are(&[
    "worker-a1",
    "worker-a2",
    "worker-a3",
    "worker-a4",
    "worker-b1",
    "worker-b2",
    "worker-b3",
    "worker-b4",
    "worker-c1",
    "worker-c2",
]);
const GPU: Nodes = Are(&["gpu-a1", "gpu-b1"]);
const EDGE: Nodes = Are(&["edge-1", "edge-2", "edge-3"]);

/// The problems of the demo.
pub const DEMO: &[Expectation] = &[
    expect("logging/fluent-bit", CrashLooping, Number(3), ""),
    expect(
        "falco/falco",
        CrashLooping,
        Are(&["general-a4", "general-b4", "general-c4", "spot-a2", "spot-b2", "spot-c2"]),
        "",
    ),
    expect("datadog/datadog-agent", InsufficientResource, Are(&["memory-a1", "memory-c1"]), ""),
    expect("velero/node-agent", PodSecurityDenied, Are(&["spot-a2", "spot-b2"]), ""),
    expect("monitoring/node-exporter", HostPortConflict, Are(&["general-c4"]), ""),
    expect("nvidia/dcgm-exporter", NodeSelectorLabelMissing, Are(&["gpu-a1", "gpu-b1"]), ""),
];

/// Every trouble, by the file its DaemonSet is in.
pub const EXPECTATIONS: &[Expectation] = &[
    // creation.yaml
    expect("payments/audit-agent", QuotaExceeded, Number(7), "exceeded quota: few-pods"),
    expect("ledger/bookkeeper", QuotaExceeded, ZONE_A, "failed quota: memory: must specify limits.memory"),
    expect("research/model-cache", LimitRangeViolation, GPU, "maximum memory usage per Container is 1Gi"),
    expect("research/heartbeat", LimitRangeViolation, GPU, "minimum cpu usage per Container is 50m"),
    expect("research/sampler", LimitRangeViolation, GPU, "max limit to request ratio per Container is 4"),
    expect("frugal/indexer", LimitRangeViolation, ZONE_C, "must be less than or equal to memory limit"),
    expect("hardened/file-monitor", PodSecurityDenied, GENERAL, "violates PodSecurity \"restricted:latest\""),
    expect("governed/nameless", WebhookDenied, ZONE_C, "ValidatingAdmissionPolicy 'owner-label'"),
    expect("misgoverned/accountant", WebhookDenied, ZONE_C, "ValidatingAdmissionPolicy 'cost-center'"),
    expect("scanned/image-gc", WebhookUnavailable, EDGE, "failed calling webhook \"images.scanner.example.com\""),
    expect("storage/csi-node", ServiceAccountMissing, GENERAL, "error looking up service account storage/csi-node"),
    expect("lab/urgent", PriorityClassMissing, EDGE, "no PriorityClass with name mission-critical was found"),
    expect("lab/sandboxed", RuntimeClassMissing, EDGE, "RuntimeClass \"firecracker\" not found"),
    expect("lab/torn-by-runtime", PodSpecRejected, Are(&["arm-c1"]), "conflict: runtimeClass.scheduling"),
    expect("blue/torn-by-team", PodSpecRejected, Are(&["worker-b1"]), "pod node label selector conflicts"),
    expect(
        "signed/unsigned",
        WebhookDenied,
        EDGE,
        "admission webhook \"signatures.scanner.example.com\" denied the request",
    ),
    // scheduling.yaml
    expect("networking/packet-inspector", InsufficientResource, Are(&["worker-b1"]), "1 Insufficient cpu"),
    expect("logging/log-buffer", InsufficientResource, Are(&["worker-b2"]), "1 Insufficient memory"),
    expect("lab/isolated-agent", NeverFits, EDGE, "1 Insufficient cpu"),
    expect("gpu/fpga-plugin", NeverFits, GPU, "1 Insufficient example.com/fpga"),
    expect("monitoring/queue-metrics", TooManyPods, Are(&["batch-1"]), "1 Too many pods"),
    expect("monitoring/node-exporter", HostPortConflict, Are(&["worker-a1"]), "free ports for the requested pod ports"),
    expect("lab/quiet-please", PodAffinityBlocked, Are(&["worker-a2"]), "match pod anti-affinity rules"),
    expect("lab/spread-over-racks", PodAffinityBlocked, EDGE, "topology spread constraints (missing required label)"),
    expect("lab/awaiting-approval", SchedulingGated, EDGE, "Scheduling is blocked due to non-empty scheduling gates"),
    expect("lab/custom-scheduled", SchedulerSilent, EDGE, ""),
    expect(
        "blue/team-agent",
        InjectedNodeSelector,
        Are(&["worker-a3", "worker-a4", "worker-b1", "worker-b2", "worker-b3", "worker-b4", "worker-c1", "worker-c2"]),
        "1 node(s) didn't match Pod's node affinity/selector",
    ),
    expect("storage/claims-nothing", VolumeUnsatisfiable, EDGE, "persistentvolumeclaim \"absent\" not found"),
    expect("storage/claims-unbound", VolumeUnsatisfiable, EDGE, "unbound immediate PersistentVolumeClaims"),
    expect("storage/zonal-cache", VolumeUnsatisfiable, Are(&["gpu-b1"]), "node affinity"),
    expect("storage/storage-node", WaitingForPreemption, Are(&["worker-c1"]), "worker-c1"),
    // eligibility.yaml
    expect(
        "logging/fluent-bit",
        UntoleratedNoSchedule,
        Are(&["gpu-a1", "gpu-b1", "windows-1", "control-1", "batch-1"]),
        "",
    ),
    expect("logging/fluent-bit", UntoleratedNoExecute, Are(&["maintenance-1"]), ""),
    expect("logging/fluent-bit", NetworkUnavailable, Are(&["fresh-1"]), ""),
    expect("logging/fluent-bit", NodeNotReadyTaint, Are(&["broken-1", "spot-a1"]), ""),
    expect("logging/fluent-bit", Misscheduled, Are(&["spot-b1"]), ""),
    expect("kube-system/kube-proxy", NodeUnreachable, Are(&["spot-a1"]), ""),
    expect("kube-system/kube-proxy", TooManyPods, Are(&["batch-1"]), "1 Too many pods"),
    expect("gpu/device-plugin", UntoleratedNoSchedule, GPU, ""),
    expect("gpu/dcgm-exporter", NodeSelectorLabelMissing, GPU, ""),
    expect("lab/zone-profiler", NodeSelectorLabelMissing, ZONE_C, ""),
    expect("lab/shop-gateway", NodeSelectorValueMismatch, EDGE, ""),
    expect("lab/modern-hardware", AffinityTermMismatch, Are(&["worker-b1", "worker-b2"]), ""),
    expect("lab/newest-hardware", AffinityTermInvalid, Are(&["worker-a1"]), ""),
    expect("lab/nowhere", AffinityEmptyTerms, Are(&["worker-a1"]), ""),
    expect("lab/pinned", NodeNameMismatch, Are(&["worker-a1"]), ""),
    expect("lab/all-but-one", AffinityTermMismatch, Are(&["worker-a4"]), ""),
    expect("lab/rack-lights", PodOnIneligibleNode, Are(&["arm-c1"]), ""),
    // kubelets.yaml
    expect("monitoring/crasher", CrashLooping, ZONE_A, "CrashLoopBackOff"),
    expect("monitoring/memory-hog", OOMKilled, ZONE_B, "OOMKilled"),
    expect("monitoring/typo-in-tag", ImagePullFailed, ZONE_C, "ImagePullBackOff"),
    expect("monitoring/private-image", ImagePullFailed, EDGE, "ErrImagePull"),
    expect("lab/bad-image-name", ImagePullFailed, EDGE, "InvalidImageName"),
    expect("logging/no-config", ContainerConfigError, EDGE, "CreateContainerConfigError"),
    expect("lab/no-command", ContainerConfigError, EDGE, "CreateContainerError"),
    expect("networking/waits-for-dns", InitBlocked, EDGE, "PodInitializing"),
    expect("networking/broken-sidecar", CrashLooping, ZONE_C, "restarting failed container=proxy"),
    expect("monitoring/never-ready", ReadinessFailing, EDGE, "Readiness probe failed"),
    expect("networking/gated-by-balancer", ReadinessGate, EDGE, "ReadinessGatesNotReady"),
    expect("lab/slow-start", ContainersStarting, Are(&["arm-c1"]), "ContainerCreating"),
    expect("storage/mounts-secret", MountFailed, EDGE, "secret \"absent\" not found"),
    expect("networking/no-addresses", SandboxFailed, EDGE, "no IP addresses available"),
    expect("lab/rejected", KubeletRejected, Are(&["edge-1"]), "OutOfcpu"),
    expect("lab/evicted", Evicted, Are(&["edge-1"]), "Evicted"),
    expect("lab/shut-down", KubeletRejected, Are(&["edge-2"]), "NodeShutdown"),
    expect("lab/completes", CrashLooping, Are(&["edge-2"]), "Completed"),
    expect("lab/patient", NotYetAvailable, EDGE, ""),
    expect("lab/held", StuckTerminating, EDGE, ""),
    expect("lab/lingering", Terminating, Are(&["edge-2"]), ""),
    // rollouts.yaml
    expect("monitoring/half-way", CrashLooping, Number(2), "restarting failed container=agent"),
    expect("lab/blocked-rollout", NeverFits, Number(1), "1 Insufficient memory"),
    expect("lab/leaving", DaemonSetDeleting, Are(&["edge-1"]), ""),
    expect("networking/surging", ReadinessFailing, Number(2), ""),
    expect("networking/port-holder", SurgeHostPortDeadlock, Number(1), "free ports for the requested pod ports"),
    expect("lab/leaving", DuplicatePod, Are(&["edge-2"]), ""),
    // comparisons.yaml
    expect("lab/reliability-probe", ComparisonOperatorUnknown, Are(&["reliable-1"]), ""),
    // features.yaml
    expect("lab/restarts-together", NodeFeatureMissing, EDGE, "didn't match Pod's required features"),
    // devices.yaml
    expect("networking/smartnic-agent", DeviceClaimUnsatisfied, EDGE, "cannot allocate all claims"),
];
