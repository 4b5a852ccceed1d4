//! Pods, and the pod spec that templates share with them.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::metadata::{CONTROLLER_REVISION_HASH_LABEL, ObjectMeta};
use super::quantity::Quantity;
use super::selector::LabelSelector;
use super::shared::Shared;
use super::storage::Volume;
use super::time::Time;

/// Amounts by resource name, such as `cpu` and `memory`.
pub type ResourceList = BTreeMap<String, Quantity>;

wire! {
    /// A pod: its node, its requests and its status.
    pub struct Pod {
        /// Name, labels and owner.
        metadata: ObjectMeta = 1,
        /// The spec.
        spec: PodSpec = 2,
        /// The status.
        status: PodStatus = 3,
    }

    /// A pod's spec.
    pub struct PodSpec {
        /// The volumes.
        volumes: Vec<Volume> = 1,
        /// The containers.
        containers: Shared<Vec<Container>> = 2,
        /// The grace period in seconds; 30 if absent.
        termination_grace_period_seconds: Option<i64> = 4,
        /// Labels that the node must have.
        node_selector: BTreeMap<String, String> = 7,
        /// The service account's name.
        service_account_name: String = 8,
        /// The node that the pod is bound to.
        node_name: String = 10,
        /// Whether the pod uses the node's own network.
        host_network: bool = 11,
        /// Rules about nodes and other pods.
        affinity: Option<Affinity> = 18,
        /// The scheduler's name; `default-scheduler` if empty.
        scheduler_name: String = 19,
        /// The init containers, including sidecars.
        init_containers: Vec<Container> = 20,
        /// The tolerations.
        tolerations: Vec<Toleration> = 22,
        /// The priority class.
        priority_class_name: String = 24,
        /// The priority, filled in by the API server.
        priority: Option<i32> = 25,
        /// How evenly the pods are to be spread.
        topology_spread_constraints: Vec<TopologySpreadConstraint> = 33,
        /// Conditions set by others that readiness depends on.
        readiness_gates: Vec<PodReadinessGate> = 28,
        /// The runtime class.
        runtime_class_name: Option<String> = 29,
        /// Whether the pod preempts others: `Never`, or `PreemptLowerPriority` (also if empty).
        preemption_policy: String = 31,
        /// The resources of the runtime itself, filled in by the API server.
        overhead: BTreeMap<String, Quantity> = 32,
        /// Whether the pod uses the node's own users; also if absent.
        host_users: Option<bool> = 37,
        /// The gates that keep the pod from being scheduled.
        scheduling_gates: Vec<PodSchedulingGate> = 38,
        /// The claims to devices.
        resource_claims: Vec<PodResourceClaim> = 39,
        /// Resources of the whole pod, which take precedence over those of its containers.
        resources: Option<ResourceRequirements> = 40,
    }

    /// A claim to devices: its name, or the template that it is created from.
    pub struct PodResourceClaim {
        /// The name in the pod.
        name: String = 1,
        /// The claim.
        resource_claim_name: Option<String> = 3,
        /// The template.
        resource_claim_template_name: Option<String> = 4,
    }

    /// A container.
    pub struct Container {
        /// The name.
        name: String = 1,
        /// The image.
        image: String = 2,
        /// The ports.
        ports: Vec<ContainerPort> = 6,
        /// Requests and limits.
        resources: ResourceRequirements = 8,
        /// The mounts that have options.
        volume_mounts: Vec<VolumeMount> = 9,
        /// The probe that restarts the container if it fails.
        liveness_probe: Option<Probe> = 10,
        /// The probe that must succeed before the others start, and restarts the container if it fails.
        startup_probe: Option<Probe> = 22,
        /// `Always` makes an init container a sidecar.
        restart_policy: Option<String> = 24,
        /// What happens if the container ends with certain exit codes.
        restart_policy_rules: Vec<ContainerRestartRule> = 25,
        /// The image that the node has, by its status, if that is not kept because the pod is well. The API has no such field.
        image_id: String = 1000,
    }

    /// A mount of a volume.
    pub struct VolumeMount {
        /// Its options.
        bind_mount_options: Vec<String> = 8,
    }

    /// How often and for how long the kubelet probes a container.
    pub struct Probe {
        /// The timeout in seconds; 1 if 0.
        timeout_seconds: i32 = 3,
    }

    /// What happens if a container ends with certain exit codes.
    pub struct ContainerRestartRule {
        /// `Restart`, or `RestartAllContainers`.
        action: String = 1,
        /// The exit codes.
        exit_codes: ContainerRestartRuleOnExitCodes = 2,
    }

    /// The exit codes to which a restart rule applies.
    pub struct ContainerRestartRuleOnExitCodes {
        /// `In` or `NotIn`.
        operator: String = 1,
        /// The exit codes to compare.
        values: Vec<i32> = 2,
    }

    /// A port of a container.
    pub struct ContainerPort {
        /// The port on the node, 0 if none.
        host_port: i32 = 2,
        /// The port in the container.
        container_port: i32 = 3,
        /// `TCP`, `UDP` or `SCTP`; TCP if empty.
        protocol: String = 4,
        /// The address on the node; all if empty.
        #[serde(rename = "hostIP")]
        host_ip: String = 5,
    }

    /// The requests and limits of a container or pod.
    pub struct ResourceRequirements {
        /// The limits.
        limits: BTreeMap<String, Quantity> = 1,
        /// The requests.
        requests: BTreeMap<String, Quantity> = 2,
    }

    /// Rules about nodes and other pods. Only the required ones are kept.
    pub struct Affinity {
        /// Rules about nodes.
        node_affinity: Option<NodeAffinity> = 1,
        /// Pods that must run in the same domain.
        pod_affinity: Option<PodAffinity> = 2,
        /// Pods that must not run in the same domain.
        pod_anti_affinity: Option<PodAffinity> = 3,
    }

    /// Rules about other pods, of a pod affinity or anti-affinity.
    pub struct PodAffinity {
        /// The rules that must all hold.
        required_during_scheduling_ignored_during_execution: Shared<Vec<PodAffinityTerm>> = 1,
    }

    /// Pods, and the domain in which they must or must not run: all nodes with the same value of a label.
    pub struct PodAffinityTerm {
        /// The labels of the pods; absent if there are none.
        label_selector: Option<LabelSelector> = 1,
        /// Their namespaces; that of the pod with the term if there is no selector, either.
        namespaces: Vec<String> = 2,
        /// The label of nodes whose values are the domains.
        topology_key: String = 3,
        /// Further namespaces, by their labels.
        namespace_selector: Option<LabelSelector> = 4,
        /// Labels of which the pods must have the same value as the pod with the term.
        match_label_keys: Vec<String> = 5,
        /// Labels of which they must have another value.
        mismatch_label_keys: Vec<String> = 6,
    }

    /// By how much the numbers of pods in two domains may differ.
    pub struct TopologySpreadConstraint {
        /// The difference to the domain with the fewest.
        max_skew: i32 = 1,
        /// The label of nodes whose values are the domains.
        topology_key: String = 2,
        /// `DoNotSchedule` or `ScheduleAnyway`.
        when_unsatisfiable: String = 3,
        /// The labels of the pods that are counted; absent if there are none.
        label_selector: Option<LabelSelector> = 4,
        /// With fewer domains, the fewest pods count as 0; 1 if absent.
        min_domains: Option<i32> = 5,
        /// Whether nodes count that the pod does not select: `Honor` (also if absent) or `Ignore`.
        node_affinity_policy: Option<String> = 6,
        /// Whether nodes count whose taints the pod does not tolerate: `Honor` or `Ignore` (also if absent).
        node_taints_policy: Option<String> = 7,
        /// Labels of which the pods must have the same value as the pod with the constraint.
        match_label_keys: Vec<String> = 8,
    }

    /// Rules about nodes.
    pub struct NodeAffinity {
        /// The rule that must hold.
        required_during_scheduling_ignored_during_execution: Option<NodeSelector> = 1,
    }

    /// Terms of which one must match.
    pub struct NodeSelector {
        /// The terms.
        node_selector_terms: Vec<NodeSelectorTerm> = 1,
    }

    /// Requirements that must all hold.
    pub struct NodeSelectorTerm {
        /// Requirements on labels.
        match_expressions: Vec<NodeSelectorRequirement> = 1,
        /// Requirements on fields; only `metadata.name` exists.
        match_fields: Vec<NodeSelectorRequirement> = 2,
    }

    /// One requirement on a label or field.
    pub struct NodeSelectorRequirement {
        /// The label's or field's key.
        key: String = 1,
        /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
        operator: String = 2,
        /// The values to compare.
        values: Vec<String> = 3,
    }

    /// A toleration: the taints that a pod tolerates.
    pub struct Toleration {
        /// The taint's key; every key if empty.
        key: String = 1,
        /// `Equal` (also if empty), `Exists`, `Gt` or `Lt`.
        operator: String = 2,
        /// The value that `Equal` compares.
        value: String = 3,
        /// The effect; every effect if empty.
        effect: String = 4,
        /// How many seconds a NoExecute taint is tolerated; forever if absent.
        toleration_seconds: Option<i64> = 5,
    }

    /// A condition set by others that readiness depends on.
    pub struct PodReadinessGate {
        /// The condition's type.
        condition_type: String = 1,
    }

    /// A gate that keeps a pod from being scheduled.
    pub struct PodSchedulingGate {
        /// The gate's name.
        name: String = 1,
    }

    /// A pod's status.
    pub struct PodStatus {
        /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
        phase: String = 1,
        /// The conditions.
        conditions: Vec<PodCondition> = 2,
        /// A sentence with the reason it is in this phase.
        message: String = 3,
        /// A CamelCase reason it is in this phase, such as `Evicted`.
        reason: String = 4,
        /// When the kubelet accepted the pod.
        start_time: Time = 7,
        /// The containers' states.
        container_statuses: Vec<ContainerStatus> = 8,
        /// The init containers' states.
        init_container_statuses: Vec<ContainerStatus> = 10,
        /// The node on which lower-priority pods are being preempted for this one.
        nominated_node_name: String = 11,
        /// The state of an in-place resize, before release 1.33.
        resize: String = 14,
        /// The claims that were created for the pod.
        resource_claim_statuses: Vec<PodResourceClaimStatus> = 15,
        /// Resources of the whole pod that are allocated.
        allocated_resources: BTreeMap<String, Quantity> = 19,
        /// Resources of the whole pod that are in force.
        resources: Option<ResourceRequirements> = 20,
    }

    /// A claim that was created for a pod, or is not needed.
    pub struct PodResourceClaimStatus {
        /// The name in the pod.
        name: String = 1,
        /// The claim; absent if it is not needed.
        resource_claim_name: Option<String> = 2,
    }

    /// One condition of a pod.
    pub struct PodCondition {
        /// The kind of condition, such as `PodScheduled`.
        #[serde(rename = "type")]
        type_: String = 1,
        /// `True`, `False` or `Unknown`.
        status: String = 2,
        /// When the status last changed.
        last_transition_time: Time = 4,
        /// A CamelCase reason.
        reason: String = 5,
        /// A sentence with the reason.
        message: String = 6,
    }

    /// A container's status.
    pub struct ContainerStatus {
        /// The container's name.
        name: String = 1,
        /// Its state now.
        state: ContainerState = 2,
        /// Its state before the last restart.
        last_state: ContainerState = 3,
        /// Whether its readiness probe passes.
        ready: bool = 4,
        /// How often it was restarted.
        restart_count: i32 = 5,
        /// The image that the node has, as the container runtime names it.
        #[serde(rename = "imageID")]
        image_id: String = 7,
        /// Whether its startup probe has passed.
        started: Option<bool> = 9,
        /// Resources that the node has allocated to it.
        allocated_resources: BTreeMap<String, Quantity> = 10,
        /// Resources that are in force.
        resources: Option<ResourceRequirements> = 11,
    }

    /// A container's state: at most one of the three.
    pub struct ContainerState {
        /// It has not started.
        waiting: Option<ContainerStateWaiting> = 1,
        /// It runs.
        running: Option<ContainerStateRunning> = 2,
        /// It has ended.
        terminated: Option<ContainerStateTerminated> = 3,
    }

    /// A container that has not started.
    pub struct ContainerStateWaiting {
        /// A CamelCase reason.
        reason: String = 1,
        /// A sentence with the reason.
        message: String = 2,
    }

    /// A container that runs.
    pub struct ContainerStateRunning {
        /// Since when.
        started_at: Time = 1,
    }

    /// A container that has ended.
    pub struct ContainerStateTerminated {
        /// Its exit code.
        exit_code: i32 = 1,
        /// The signal that ended it, 0 if none.
        signal: i32 = 2,
        /// A CamelCase reason.
        reason: String = 3,
        /// A sentence with the reason.
        message: String = 4,
        /// When it had started.
        started_at: Time = 5,
        /// When it ended.
        finished_at: Time = 6,
    }
}

impl Pod {
    /// Returns the condition with a type.
    pub fn condition(&self, type_: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Returns since when it has not been ready, according to its kubelet.
    pub fn unready_since(&self) -> Option<Timestamp> {
        self.condition("Ready").filter(|ready| ready.status != "True")?.last_transition_time.get()
    }

    /// Returns how often its containers have restarted.
    pub fn restarts(&self) -> i64 {
        self.container_statuses().map(|status| i64::from(status.restart_count)).sum()
    }

    /// Returns the image that a container runs, as the container runtime of its node names it; `None` if unknown.
    pub fn image_id(&self, container: &str) -> Option<&str> {
        let of_statuses = self.container_statuses().map(|status| (&status.name, &status.image_id));
        let of_containers = self.spec.containers.iter().map(|one| (&one.name, &one.image_id));
        let mut known = of_statuses.chain(of_containers).filter(|(name, id)| *name == container && !id.is_empty());
        known.next().map(|(_, id)| id.as_str())
    }

    /// Returns the states of all containers, init containers first.
    pub fn container_statuses(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.status.init_container_statuses.iter().chain(&self.status.container_statuses)
    }

    /// Returns whether the `Ready` condition is `True`.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|condition| condition.status == "True")
    }

    /// Returns the node that the pod is bound to, or those named in its node affinity.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        let bound = Some(self.spec.node_name.as_str()).filter(|node| !node.is_empty());
        let affinity = self.spec.required_node_affinity().filter(|_| bound.is_none());
        let terms = affinity.into_iter().flat_map(|affinity| &affinity.node_selector_terms);
        let named = terms.flat_map(|term| &term.match_fields).flat_map(|field| &field.values);
        bound.into_iter().chain(named.map(String::as_str))
    }

    /// Returns the hash of the revision from which the pod was created; empty if it has none, as upstream.
    pub fn revision_hash(&self) -> &str {
        self.metadata.labels.get(CONTROLLER_REVISION_HASH_LABEL).map_or("", String::as_str)
    }

    /// Returns whether the pod has ended: phase `Succeeded` or `Failed`.
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Returns whether the scheduler has yet to place the pod.
    pub fn waits_for_node(&self) -> bool {
        self.spec.node_name.is_empty() && !self.is_terminal() && !self.metadata.is_terminating()
    }
}

impl PodSpec {
    /// Returns the containers, followed by the init containers.
    pub fn all_containers(&self) -> impl Iterator<Item = &Container> {
        self.containers.iter().chain(&self.init_containers)
    }

    /// Returns the terms of the required node affinity, or `None` if there is none.
    pub fn required_node_affinity(&self) -> Option<&NodeSelector> {
        self.affinity.as_ref()?.node_affinity.as_ref()?.required_during_scheduling_ignored_during_execution.as_ref()
    }

    /// Returns the terms of the required pod affinity.
    pub fn required_pod_affinity(&self) -> &[PodAffinityTerm] {
        let affinity = self.affinity.as_ref().and_then(|affinity| affinity.pod_affinity.as_ref());
        affinity.map_or(&[], |affinity| &affinity.required_during_scheduling_ignored_during_execution)
    }

    /// Returns the terms of the required pod anti-affinity.
    pub fn required_pod_anti_affinity(&self) -> &[PodAffinityTerm] {
        let affinity = self.affinity.as_ref().and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        affinity.map_or(&[], |affinity| &affinity.required_during_scheduling_ignored_during_execution)
    }

    /// Returns the init containers that run for the pod's whole lifetime.
    pub fn sidecars(&self) -> impl Iterator<Item = &Container> {
        self.init_containers.iter().filter(|container| container.is_sidecar())
    }
}

impl Container {
    /// Returns whether an init container runs for its pod's whole lifetime: restart policy `Always`.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }

    /// Returns whether the kubelet restarts all containers of the pod if this one ends with an exit code: the first rule that
    /// matches decides.
    ///
    /// Ported from `FindMatchingContainerRestartRule`, pkg/api/v1/pod/util.go, release 1.37.2.
    pub fn restarts_all(&self, exit_code: i32) -> bool {
        let matches = |rule: &&ContainerRestartRule| {
            let has_it = rule.exit_codes.values.contains(&exit_code);
            match rule.exit_codes.operator.as_str() {
                "In" => has_it,
                "NotIn" => !has_it,
                _ => false,
            }
        };
        self.restart_policy_rules.iter().find(matches).is_some_and(ContainerRestartRule::restarts_all)
    }
}

impl ContainerRestartRule {
    /// Returns whether it restarts all containers of the pod.
    pub fn restarts_all(&self) -> bool {
        self.action == "RestartAllContainers"
    }
}

impl ContainerStatus {
    /// Returns whether the container is being created, for the first time or after a reboot of its node.
    pub fn is_being_created(&self) -> bool {
        let waiting = self.state.waiting.as_ref();
        waiting.is_some_and(|waiting| matches!(waiting.reason.as_str(), "ContainerCreating" | "PodInitializing"))
    }

    /// Returns whether the container was lost with the sandbox that it ran in, as when its node was rebooted, and was not started again.
    pub fn is_lost(&self) -> bool {
        let last = self.last_state.terminated.as_ref().filter(|_| self.is_being_created());
        self.state.terminated.as_ref().or(last).is_some_and(ContainerStateTerminated::is_unknown)
    }
}

impl ContainerStateTerminated {
    /// Returns whether nobody knows how the container ended, because it was gone when that was looked for: it has not crashed.
    ///
    /// containerd calls it `Unknown` (`loadContainer`, internal/cri/server/restart.go), and the kubelet `ContainerStatusUnknown` if the
    /// container runtime no longer has the container (`convertToAPIContainerStatuses`, pkg/kubelet/kubelet_pods.go, release 1.37.2).
    pub fn is_unknown(&self) -> bool {
        matches!(self.reason.as_str(), "Unknown" | "ContainerStatusUnknown")
    }
}
