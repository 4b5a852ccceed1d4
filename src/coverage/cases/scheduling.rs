//! Cases of pods that are not bound.

use serde_json::{Value, json};

use super::{Case, case, plain, tainted};
use crate::coverage::test_support::{World, at, world};
use crate::model::snapshot::PodsComplete;
use crate::report::coverage::NodeState::{Available, Pending};
use crate::report::reason::ReasonCode as R;

fn says(reason: &str) -> String {
    format!(
        "0/24 nodes are available: 1 {reason}, 23 node(s) didn't satisfy plugin(s) [NodeAffinity]. no new claims to \
         deallocate, preemption: 0/24 nodes are available: 1 No preemption victims found for incoming pod, 23 Preemption \
         is not helpful for scheduling."
    )
}

fn asking(cpu: &str) -> Value {
    json!({"spec": {"containers": [{"name": "agent", "resources": {"requests": {"cpu": cpu}}}]}})
}

fn on_port(port: u32) -> Value {
    json!({"spec": {"containers": [{"name": "agent", "ports": [{"hostPort": port, "containerPort": 80, "protocol": "TCP"}]}]}})
}

fn pending(reason: &str, patch: Value) -> World {
    plain().pending_pod("agent-x", "n", &says(reason), patch)
}

fn without_other_pods(mut world: World) -> World {
    world.snapshot.pods_complete = PodsComplete::On(std::collections::BTreeSet::new());
    world
}

pub(super) fn cases() -> Vec<Case> {
    let describe = "kubectl describe pod -n default agent-x";
    vec![
        case(
            "cpu_is_short_and_the_biggest_user_is_named",
            pending("Insufficient cpu", asking("600m"))
                .other_pod("other-a", "n", asking("2500m"))
                .other_pod("other-b", "n", asking("1")),
            (Pending, R::InsufficientResource),
            "asks for 600m cpu, 500m free of 4; most is held by default/other (2500m)",
            "lower the cpu request, or give the pods a higher priority class",
        ),
        case(
            "ended_pods_take_no_room",
            pending("Insufficient cpu", asking("600m"))
                .other_pod("other-a", "n", asking("3900m"))
                .other_pod("other-b", "n", json!({"spec": asking("4")["spec"], "status": {"phase": "Succeeded"}})),
            (Pending, R::InsufficientResource),
            "asks for 600m cpu, 100m free of 4; most is held by default/other (3900m)",
            "lower the cpu request, or give the pods a higher priority class",
        ),
        case(
            "other_pods_that_were_not_read_leave_the_schedulers_words",
            without_other_pods(pending("Insufficient cpu", asking("600m"))),
            (Pending, R::InsufficientResource),
            "the scheduler says \"Insufficient cpu\"; room would do, but no pod there has a lower priority (the node's other \
             pods could not be read)",
            "lower the request, or give the pods a higher priority class",
        ),
        case(
            "room_that_has_come_since_is_told",
            pending("Insufficient cpu", asking("600m")),
            (Pending, R::InsufficientResource),
            "the scheduler said \"Insufficient cpu\" 3m ago, which no longer holds",
            "wait: the scheduler tries again within 5 minutes",
        ),
        case(
            "request_is_larger_than_the_node",
            pending("Insufficient cpu", asking("6")),
            (Pending, R::NeverFits),
            "asks for 6 cpu, the node has 4 in all",
            "lower the cpu request to 4 at most, or keep the pods off such nodes as n by a nodeSelector",
        ),
        case(
            "node_has_as_many_pods_as_it_may",
            world()
                .node("n", json!({"status": {"allocatable": {"pods": "1"}}}))
                .other_pod("other-a", "n", json!({}))
                .pending_pod("agent-x", "n", &says("Too many pods"), json!({})),
            (Pending, R::TooManyPods),
            "the node has 1 of 1 pods",
            "raise maxPods in the kubelet's configuration, or move pods away",
        ),
        case(
            "port_is_held_by_another_pod",
            pending("node(s) didn't have free ports for the requested pod ports", on_port(9100))
                .other_pod("other-a", "n", on_port(9100)),
            (Pending, R::HostPortConflict),
            "port 9100/TCP is held by default/other-a",
            "change the port of one of them, or keep them apart",
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
            "the new pod beside it cannot come up: port 9100/TCP is held by its own predecessor agent-old, which stays until \
             the new pod is available: the update cannot go on",
            "use maxUnavailable: kubectl patch ds agent -n default --type=merge -p \
             '{\"spec\":{\"updateStrategy\":{\"rollingUpdate\":{\"maxSurge\":0,\"maxUnavailable\":1}}}}'",
        ),
        case(
            "scheduler_that_nobody_runs",
            plain().pending_pod("agent-x", "n", "", json!({"spec": {"schedulerName": "ghost"}})),
            (Pending, R::SchedulerSilent),
            "ghost has not tried the pod, made 30m ago",
            "start ghost, or correct schedulerName: kubectl edit ds agent -n default",
        ),
        case(
            "gate_holds_the_pod_back",
            pending("", json!({"spec": {"schedulingGates": [{"name": "example.com/approval"}]}})),
            (Pending, R::SchedulingGated),
            "held back by scheduling gate example.com/approval",
            "whoever set the gate must remove it from the pod; if nobody does, take it out of the template",
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
            "volume: persistentvolumeclaim \"data\" not found",
            "look at the claims: kubectl get pvc -n default; kubectl describe pod -n default agent-x",
        ),
        case(
            "rule_about_other_pods_keeps_the_pod_away",
            pending("node(s) didn't match pod anti-affinity rules", json!({})),
            (Pending, R::PodAffinityBlocked),
            "the node didn't match pod anti-affinity rules",
            "a DaemonSet needs no such rule: kubectl edit ds agent -n default",
        ),
        case(
            "devices_cannot_be_had",
            pending("cannot allocate all claims", json!({})),
            (Pending, R::DeviceClaimUnsatisfied),
            "devices: cannot allocate all claims",
            "look at the claims and the drivers: kubectl get resourceclaims -n default; kubectl get resourceslices",
        ),
        case(
            "namespace_added_a_node_selector",
            pending("node(s) didn't match Pod's node affinity/selector", json!({"spec": {"nodeSelector": {"team": "blue"}}})),
            (Pending, R::InjectedNodeSelector),
            "admission added node selector team=blue to the pod, which the node does not meet",
            "see scheduler.alpha.kubernetes.io/node-selector: kubectl get namespace default -o yaml; or label the node: \
             kubectl label node n team=blue",
        ),
        case(
            "node_lacks_a_feature",
            world()
                .node("n", json!({"status": {"nodeInfo": {"kubeletVersion": "v1.34.1"}}}))
                .pending_pod("agent-x", "n", &says("node(s) didn't match Pod's required features"), json!({})),
            (Pending, R::NodeFeatureMissing),
            "the node didn't match Pod's required features; kubelet v1.34.1 declares none",
            "upgrade the kubelet, or do without the feature in the template",
        ),
        case(
            "lesser_pods_make_room",
            pending("Insufficient cpu", json!({"status": {"nominatedNodeName": "n"}}))
                .other_pod("other-a", "n", json!({"metadata": {"deletionTimestamp": at("12:00:20")}})),
            (Pending, R::WaitingForPreemption),
            "waits for default/other-a, being removed to make room for it",
            "wait for their grace period to end",
        ),
        case(
            "affinity_of_the_scheduler_itself",
            pending("node(s) didn't match scheduler-enforced node affinity", json!({})),
            (Pending, R::SchedulerRejected),
            "the scheduler says: node(s) didn't match scheduler-enforced node affinity",
            "the scheduler's configuration (NodeAffinityArgs.addedAffinity) excludes the node: change it or the label",
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
            "the scheduler did not know the node when it last tried",
            "wait; if it lasts, check that kube-scheduler sees the node",
        ),
        case(
            "old_pod_does_not_bear_a_taint_that_the_template_bears",
            tainted("dedicated", "gpu", "NoSchedule")
                .template(json!({"tolerations": [{"key": "dedicated", "operator": "Exists"}]}))
                .pending_pod("agent-x", "n", &says("node(s) had untolerated taint(s)"), json!({"spec": {"tolerations": []}})),
            (Pending, R::UntoleratedNoSchedule),
            "the pod itself does not tolerate taint dedicated=gpu:NoSchedule",
            "it was made before the template tolerated it: delete the pod: kubectl delete pod -n default agent-x",
        ),
        case(
            "condition_that_says_nothing",
            plain().pending_pod("agent-x", "n", "", json!({"status": {"conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}})),
            (Pending, R::Unexplained),
            "the pod is not bound, and nothing that was read says why",
            describe,
        ),
    ]
}
