//! Cases of pods that are not bound.

use serde_json::{Value, json};

use super::{Case, case, plain, tainted};
use crate::coverage::test_support::{World, at, world};
use crate::model::snapshot::PodsComplete;
use crate::report::node_coverage::NodeState::{Available, Pending};
use crate::report::reason::ReasonCode as R;

fn says(reason: &str) -> String {
    format!(
        "0/24 nodes are available: 1 {reason}, 23 node(s) didn't satisfy plugin(s) [NodeAffinity]. no new claims to \
         deallocate, preemption: 0/24 nodes are available: 1 No preemption victims found for incoming pod, 23 Preemption \
         is not helpful for scheduling."
    )
}

/// Reports a reason without the outcome of preemption.
fn only_says(reason: &str) -> String {
    says(reason).split_once(" no new claims").map(|(before, _)| before.to_owned()).unwrap_or_default()
}

fn asking(cpu: &str) -> Value {
    json!({"spec": {"containers": [{"name": "agent", "resources": {"requests": {"cpu": cpu}}}]}})
}

fn of_priority(priority: i32, cpu: &str) -> Value {
    json!({"spec": {"priority": priority, "containers": asking(cpu)["spec"]["containers"]}})
}

fn on_port(port: u32) -> Value {
    json!({"spec": {"containers": [{"name": "agent", "ports": [{"hostPort": port, "containerPort": 80, "protocol": "TCP"}]}]}})
}

fn pending(reason: &str, patch: Value) -> World {
    plain().pending_pod("agent-x", "n", &says(reason), patch)
}

fn anti_affinity_to(app: &str) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}]}}})
}

fn anti_affinity() -> Value {
    json!({"spec": anti_affinity_to("other")})
}

fn without_other_pods(mut world: World) -> World {
    world.snapshot.pods_complete = PodsComplete::On(std::collections::BTreeSet::new());
    world
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        case(
            "cpu_is_short_and_the_biggest_user_is_named",
            pending("Insufficient cpu", asking("600m"))
                .other_pod("other-a", "n", asking("2500m"))
                .other_pod("other-b", "n", asking("1")),
            (Pending, R::InsufficientResource),
            &["600m", "500m", "4", "default/other", "3500m, 2 pods"],
            "",
        ),
        case(
            "cpu_and_memory_are_short",
            pending("Insufficient cpu, 1 Insufficient memory", json!({"spec": {"containers": [{"name": "agent",
                "image": "agent:1", "resources": {"requests": {"cpu": "600m", "memory": "3Gi"}}}]}}))
                .other_pod("other-a", "n", json!({"spec": {"containers": [{"name": "a",
                    "resources": {"requests": {"cpu": "3500m", "memory": "7Gi"}}}]}})),
            (Pending, R::InsufficientResource),
            &["600m", "500m", "also requests 3Gi memory; 1Gi free"],
            "",
        ),
        case(
            "what_outranks_the_pod_is_named_with_its_priority",
            pending("Insufficient cpu", asking("600m")).other_pod("other-a", "n", json!({"spec": {"priority": 7,
                "priorityClassName": "high", "containers": asking("3900m")["spec"]["containers"]}})),
            (Pending, R::InsufficientResource),
            &["default/other", "(3900m), which has a higher priority: 7 (PriorityClass high)"],
            "",
        ),
        case(
            "ended_pods_take_no_room",
            pending("Insufficient cpu", asking("600m"))
                .other_pod("other-a", "n", asking("3900m"))
                .other_pod("other-b", "n", json!({"spec": asking("4")["spec"], "status": {"phase": "Succeeded"}})),
            (Pending, R::InsufficientResource),
            &["600m", "100m", "4", "default/other", "3900m"],
            "",
        ),
        case(
            "other_pods_that_were_not_read_leave_the_schedulers_words",
            without_other_pods(pending("Insufficient cpu", asking("600m"))),
            (Pending, R::InsufficientResource),
            &[],
            "",
        ),
        case(
            "room_that_has_come_since_is_told",
            pending("Insufficient cpu", asking("600m")),
            (Pending, R::InsufficientResource),
            &["3m"],
            "",
        ),
        case(
            "request_is_larger_than_the_node",
            pending("Insufficient cpu", asking("6")),
            (Pending, R::NeverFits),
            &["6", "4"],
            "",
        ),
        case(
            "node_has_as_many_pods_as_it_may",
            world()
                .node("n", json!({"status": {"allocatable": {"pods": "1"}}}))
                .other_pod("other-a", "n", json!({}))
                .pending_pod("agent-x", "n", &says("Too many pods"), json!({})),
            (Pending, R::TooManyPods),
            &["1"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "port_is_held_by_another_pod",
            pending("node(s) didn't have free ports for the requested pod ports", on_port(9100))
                .other_pod("other-a", "n", on_port(9100)),
            (Pending, R::HostPortConflict),
            &["9100/TCP", "default/other-a"],
            "",
        ),
        case(
            "surging_pod_waits_for_the_port_of_its_predecessor",
            pending("node(s) didn't have free ports for the requested pod ports", on_port(9100))
                .daemon_set(json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}}))
                .pod("agent-old", "n", json!({
                    "metadata": {"labels": {"controller-revision-hash": "hash1"}, "creationTimestamp": at("11:20:00")},
                    "spec": on_port(9100)["spec"],
                })),
            (Available, R::SurgeHostPortDeadlock),
            &["9100/TCP"],
            "kubectl ds set --max-unavailable 1 -n default --delete-surge-pods agent",
        ),
        case(
            "surging_pod_waits_for_the_port_of_its_predecessor_beside_pods_that_were_not_read",
            without_other_pods(pending("node(s) didn't have free ports for the requested pod ports", on_port(9100)))
                .daemon_set(json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}}))
                .pod("agent-old", "n", json!({
                    "metadata": {"labels": {"controller-revision-hash": "hash1"}, "creationTimestamp": at("11:20:00")},
                    "spec": on_port(9100)["spec"],
                })),
            (Available, R::SurgeHostPortDeadlock),
            &["9100/TCP"],
            "kubectl ds set --max-unavailable 1 -n default --delete-surge-pods agent",
        ),
        case(
            "scheduler_that_nobody_runs",
            plain().pending_pod("agent-x", "n", "", json!({"spec": {"schedulerName": "ghost"}})),
            (Pending, R::SchedulerSilent),
            &["30m"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "gate_holds_the_pod_back",
            pending("", json!({"spec": {"schedulingGates": [{"name": "example.com/approval"}]}})),
            (Pending, R::SchedulingGated),
            &["example.com/approval"],
            "",
        ),
        case(
            "claim_does_not_exist",
            plain().pending_pod(
                "agent-x",
                "n",
                "0/24 nodes are available: persistentvolumeclaim \"data\" not found. not found",
                json!({}),
            ),
            (Pending, R::VolumeUnsatisfiable),
            &["\"data\" not found"],
            "kubectl get pvc -n default",
        ),
        case(
            "rule_about_other_pods_keeps_the_pod_away",
            pending("node(s) didn't match pod anti-affinity rules", anti_affinity()).other_pod("db-0", "n", json!({})),
            (Pending, R::PodAffinityBlocked),
            &["didn't match pod anti-affinity rules", "default/db-0", "on the node"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "another_pod_keeps_the_pod_away",
            pending("node(s) didn't satisfy existing pods anti-affinity rules", json!({})).other_pod(
                "db-0",
                "n",
                json!({"spec": anti_affinity_to("agent")}),
            ),
            (Pending, R::PodAffinityBlocked),
            &["existing pods anti-affinity rules", "default/db-0"],
            "kubectl describe pod -n default db-0",
        ),
        case(
            "pod_that_kept_the_pod_away_is_gone",
            pending("node(s) didn't match pod anti-affinity rules", anti_affinity()),
            (Pending, R::PodAffinityBlocked),
            &["no longer true"],
            "",
        ),
        case(
            "pods_of_other_nodes_that_keep_the_pod_away_are_not_read",
            without_other_pods(pending("node(s) didn't match pod anti-affinity rules", anti_affinity())),
            (Pending, R::PodAffinityBlocked),
            &["the node didn't match pod anti-affinity rules"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "no_pod_is_there_that_the_pod_has_to_be_beside",
            pending(
                "node(s) didn't match pod affinity rules",
                json!({"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}]}}}}),
            ),
            (Pending, R::PodAffinityBlocked),
            &["no pod with app=db runs on the node"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "domain_has_too_many_pods",
            pending(
                "node(s) didn't match pod topology spread constraints",
                json!({"spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2, "labelSelector": {"matchLabels": {"app": "other"}}}]}}),
            )
            .other_pod("db-0", "n", json!({}))
            .other_pod("db-1", "n", json!({})),
            (Pending, R::PodAffinityBlocked),
            &["kubernetes.io/hostname=n has 2 matching pods", "fewest has 0", "maxSkew: 1"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "devices_cannot_be_had",
            pending("cannot allocate all claims", json!({})),
            (Pending, R::DeviceClaimUnsatisfied),
            &[],
            "kubectl get resourceclaims -n default",
        ),
        case(
            "namespace_added_a_node_selector",
            pending("node(s) didn't match Pod's node affinity/selector", json!({"spec": {"nodeSelector": {"team": "blue"}}})),
            (Pending, R::InjectedNodeSelector),
            &["team=blue"],
            "kubectl get namespace -o yaml default",
        ),
        case(
            "node_lacks_a_feature",
            world()
                .node("n", json!({"status": {"nodeInfo": {"kubeletVersion": "v1.34.1"}}}))
                .pending_pod("agent-x", "n", &says("node(s) didn't match Pod's required features"), json!({})),
            (Pending, R::NodeFeatureMissing),
            &["v1.34.1"],
            "",
        ),
        case(
            "lesser_pods_make_room",
            pending("Insufficient cpu", json!({"spec": {"priority": 100}, "status": {"nominatedNodeName": "n"}}))
                .other_pod("other-0", "n", json!({"metadata": {"deletionTimestamp": at("12:00:20")}}))
                .other_pod("other-a", "n", json!({"metadata": {"deletionTimestamp": at("12:00:20")}, "status": {
                    "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}})),
            (Pending, R::WaitingForPreemption),
            &["has nominated the node", "waits for default/other-a (priority 0) to terminate"],
            "",
        ),
        case(
            "lesser_pod_is_held_by_a_finalizer",
            pending("Insufficient cpu", json!({"spec": {"priority": 100}, "status": {"nominatedNodeName": "n"}}))
                .other_pod("other-a", "n", json!({"metadata": {"deletionTimestamp": at("11:50:00"),
                    "finalizers": ["example.com/drain"]}, "status": {
                    "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}})),
            (Pending, R::WaitingForPreemption),
            &["preempted pod other-a is stuck terminating", "finalizer example.com/drain"],
            "kubectl get pod -o yaml -n default other-a",
        ),
        case(
            "lesser_pod_does_not_end",
            pending("Insufficient cpu", json!({"spec": {"priority": 100}, "status": {"nominatedNodeName": "n"}}))
                .other_pod("other-a", "n", json!({"metadata": {"deletionTimestamp": at("11:50:00")}, "status": {
                    "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}})),
            (Pending, R::WaitingForPreemption),
            &["preempted pod other-a is stuck terminating, 10m past its grace period", "its kubelet has not terminated it"],
            "kubectl describe pod -n default other-a",
        ),
        case(
            "lesser_pod_cannot_end_without_the_network_of_the_pod",
            pending("Insufficient cpu", json!({"spec": {"priority": 100}, "status": {"nominatedNodeName": "n"}}))
                .template(json!({"volumes": [{"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}}]}))
                .other_pod("other-a", "n", json!({"metadata": {"deletionTimestamp": at("11:50:00")}, "status": {
                    "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}}))
                .event("Pod", "other-a", "FailedKillPod", "error killing pod: failed to \"KillPodSandbox\" for \"u\" with \
                    KillPodSandboxError: \"rpc error: code = Unknown desc = failed to destroy network for sandbox: plugin type=\\\"agent-cni\\\" \
                    failed (delete): unable to connect to the agent\"", "11:59:00"),
            (Pending, R::WaitingForPreemption),
            &["preempted pod other-a is stuck terminating", "unable to connect to the agent"],
            "kubectl describe pod -n default other-a",
        ),
        case(
            "lesser_pod_cannot_end_without_the_network_that_the_pod_has_by_its_name",
            pending("Insufficient cpu", json!({"spec": {"priority": 100}, "status": {"nominatedNodeName": "n"}}))
                .other_pod("other-a", "n", json!({"metadata": {"deletionTimestamp": at("11:50:00")}, "status": {
                    "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}}))
                .event("Pod", "other-a", "FailedKillPod", "error killing pod: failed to \"KillPodSandbox\" for \"u\" with \
                    KillPodSandboxError: \"rpc error: code = Unknown desc = failed to destroy network for sandbox: plugin type=\\\"agent-cni\\\" \
                    failed (delete): unable to connect to the agent\"", "11:59:00"),
            (Pending, R::WaitingForPreemption),
            &["preempted pod other-a is stuck terminating", "unable to connect to the agent"],
            "kubectl describe pod -n default other-a",
        ),
        case(
            "lesser_pod_will_be_preempted",
            plain()
                .pending_pod("agent-x", "n", &only_says("Insufficient cpu"), of_priority(100, "600m"))
                .other_pod("other-a", "n", asking("3900m")),
            (Pending, R::InsufficientResource),
            &["the scheduler will preempt default/other-a (priority 0) for the pod"],
            "",
        ),
        case(
            "scheduler_that_could_not_preempt_is_believed",
            pending("Insufficient cpu", of_priority(100, "600m")).other_pod("other-a", "n", asking("3900m")),
            (Pending, R::InsufficientResource),
            &["; preempting default/other-a (priority 0) would make room"],
            "",
        ),
        case(
            "another_scheduler_may_not_preempt",
            plain()
                .pending_pod("agent-x", "n", &only_says("Insufficient cpu"), json!({"spec": {
                    "schedulerName": "other", "priority": 100, "containers": asking("600m")["spec"]["containers"]}}))
                .other_pod("other-a", "n", asking("3900m")),
            (Pending, R::InsufficientResource),
            &["; preempting default/other-a (priority 0) would make room"],
            "",
        ),
        case(
            "equal_pod_that_terminates_makes_room",
            pending("Insufficient cpu", of_priority(0, "2"))
                .other_pod("other-a", "n", json!({"metadata": {"deletionTimestamp": at("12:00:20")}, "spec": asking("3")["spec"]})),
            (Pending, R::InsufficientResource),
            &["; the pod fits once default/other-a, which is terminating, has left"],
            "",
        ),
        case(
            "equal_pod_that_is_stuck_terminating_is_looked_at",
            pending("Insufficient cpu", of_priority(0, "2"))
                .other_pod("other-a", "n", json!({"metadata": {"deletionTimestamp": at("11:50:00")}, "spec": asking("3")["spec"]})),
            (Pending, R::InsufficientResource),
            &["; the pod fits once default/other-a, which is terminating, has left"],
            "kubectl describe pod -n default other-a",
        ),
        case(
            "lesser_pod_that_terminates_is_not_preempted",
            plain()
                .pending_pod("agent-x", "n", &only_says("Insufficient cpu"), of_priority(100, "2"))
                .other_pod("other-a", "n", json!({"metadata": {"deletionTimestamp": at("12:00:20")}, "spec": asking("3")["spec"]})),
            (Pending, R::InsufficientResource),
            &["; the pod fits once default/other-a, which is terminating, has left"],
            "",
        ),
        case(
            "node_is_nominated_before_a_slow_binding",
            plain().pending_pod("agent-x", "n", "", json!({"status": {"nominatedNodeName": "n"}})),
            (Pending, R::WaitingForPreemption),
            &["the scheduler has nominated the node for the pod"],
            "",
        ),
        case(
            "one_of_equally_important_pods_will_be_preempted",
            plain()
                .pending_pod("agent-x", "n", &only_says("Insufficient cpu"), of_priority(100, "600m"))
                .other_pod("other-a", "n", asking("1900m"))
                .other_pod("other-b", "n", asking("1900m")),
            (Pending, R::InsufficientResource),
            &["will preempt 1 of default/other-a or default/other-b (priority 0) for the pod"],
            "",
        ),
        case(
            "equal_priority_never_preempts",
            pending("Insufficient cpu", of_priority(100, "600m")).other_pod("other-a", "n", of_priority(100, "3900m")),
            (Pending, R::InsufficientResource),
            &["stays Pending: no pod on the node has a lower priority (equal priority never preempts)"],
            "",
        ),
        case(
            "preemption_does_not_make_room",
            pending("Insufficient cpu", of_priority(100, "600m"))
                .other_pod("other-a", "n", of_priority(1000, "3600m"))
                .other_pod("other-b", "n", asking("300m")),
            (Pending, R::InsufficientResource),
            &["stays Pending: preempting the pods of lower priority would not make room"],
            "",
        ),
        case(
            "pod_that_may_not_preempt",
            pending("Insufficient cpu", json!({"spec": {"preemptionPolicy": "Never", "priority": 100,
                "containers": asking("600m")["spec"]["containers"]}}))
                .other_pod("other-a", "n", asking("3900m")),
            (Pending, R::InsufficientResource),
            &["stays Pending: its preemptionPolicy is Never"],
            "",
        ),
        case(
            "affinity_of_the_scheduler_itself",
            pending("node(s) didn't match scheduler-enforced node affinity", json!({})),
            (Pending, R::SchedulerRejected),
            &[],
            "",
        ),
        case(
            "scheduler_that_does_not_know_the_node",
            plain().pending_pod(
                "agent-x",
                "n",
                "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [NodeAffinity].",
                json!({}),
            ),
            (Pending, R::SchedulerRejected),
            &[],
            "kubectl get pods -n kube-system -l 'component=kube-scheduler'",
        ),
        case(
            "old_pod_does_not_bear_a_taint_that_the_template_bears",
            tainted("dedicated", "gpu", "NoSchedule")
                .template(json!({"tolerations": [{"key": "dedicated", "operator": "Exists"}]}))
                .pending_pod("agent-x", "n", &says("node(s) had untolerated taint(s)"), json!({"spec": {"tolerations": []}})),
            (Pending, R::UntoleratedNoSchedule),
            &["dedicated=gpu:NoSchedule"],
            "kubectl delete pod -n default agent-x",
        ),
        case(
            "condition_that_says_nothing",
            plain().pending_pod("agent-x", "n", "", json!({"status": {"conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}})),
            (Pending, R::Unexplained),
            &[],
            "kubectl describe pod -n default agent-x",
        ),
        case(
            "event_tells_what_the_condition_does_not",
            plain()
                .pending_pod("agent-x", "n", "", json!({"status": {"conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}}))
                .event("Pod", "agent-x", "FailedScheduling", &says("Insufficient memory"), "11:59:00"),
            (Pending, R::InsufficientResource),
            &["Insufficient memory", "60s"],
            "",
        ),
        case(
            "condition_comes_before_an_event_that_may_be_cut",
            pending("Insufficient cpu", json!({}))
                .event("Pod", "agent-x", "FailedScheduling", &says("Too many pods"), "11:56:00"),
            (Pending, R::InsufficientResource),
            &["Insufficient cpu", "3m"],
            "",
        ),
        case(
            "taint_that_has_gone_since_is_told",
            pending("node(s) had untolerated taint(s)", json!({})),
            (Pending, R::UntoleratedNoSchedule),
            &["3m"],
            "",
        ),
        case(
            "port_of_a_stranger_does_not_concern_the_rollout",
            pending("node(s) didn't have free ports for the requested pod ports", on_port(9100))
                .daemon_set(
                    json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}}),
                )
                .other_pod("other-a", "n", on_port(9100)),
            (Pending, R::HostPortConflict),
            &["9100/TCP", "default/other-a"],
            "",
        ),
    ]
}

#[test]
fn what_adds_a_node_selector_is_named_by_the_annotations_of_the_namespace() {
    let (openshift, plugin) = ("openshift.io/node-selector", "scheduler.alpha.kubernetes.io/node-selector");
    let injected = "node(s) didn't match Pod's node affinity/selector";
    for (annotations, parts, no_part) in [
        (None, vec![openshift, plugin], "no annotation"),
        (
            Some(json!({openshift: "team=blue"})),
            vec![
                "annotation openshift.io/node-selector of namespace default has it",
                "set openshift.io/node-selector to \"\"",
            ],
            plugin,
        ),
        (
            Some(json!({openshift: "disk=ssd, team=blue"})),
            vec!["annotation openshift.io/node-selector of namespace default has it"],
            plugin,
        ),
        (
            Some(json!({plugin: "team=blue"})),
            vec!["annotation scheduler.alpha.kubernetes.io/node-selector of namespace default has it"],
            openshift,
        ),
        (
            Some(json!({openshift: "", plugin: "team=blue"})),
            vec!["annotation scheduler.alpha.kubernetes.io/node-selector of namespace default has it"],
            openshift,
        ),
        // The annotation replaces the default of the cluster.
        (Some(json!({openshift: "team=red"})), vec!["delete the pending pod", "a mutating webhook"], "the default of"),
        (Some(json!({openshift: ""})), vec!["delete the pending pod", "a mutating webhook"], "the default of"),
        (Some(json!({"other": "team=blue"})), vec!["the default of the cluster or a mutating webhook"], plugin),
    ] {
        let mut world = pending(injected, json!({"spec": {"nodeSelector": {"team": "blue"}}}));
        let namespace = |annotations: Value| json!({"metadata": {"name": "default", "annotations": annotations}});
        world.snapshot.namespaces.extend(annotations.clone().map(|it| serde_json::from_value(namespace(it)).unwrap()));
        let advice = world.only_node().reasons[0].fix.advice.clone();
        assert!(
            parts.iter().all(|part| advice.contains(part)) && !advice.contains(no_part),
            "{annotations:?}: {advice}"
        );
        assert_eq!(advice.contains("put the selector into the template"), !advice.contains("has it now"), "{advice}");
    }
}
