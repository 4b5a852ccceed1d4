//! Cases of pods that are bound but not available.

use serde_json::{Value, json};

use super::{Case, case, plain};
use crate::coverage::test_support::{World, at, world};
use crate::report::node_coverage::NodeState::{Available, Failed, NotReady, Ready, Starting};
use crate::report::reason::ReasonCode as R;

fn failed(status: Value) -> World {
    let mut pod = json!({"status": {"phase": "Failed", "containerStatuses": null,
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:55:00")}]}});
    for (key, value) in status.as_object().unwrap() {
        pod["status"][key] = value.clone();
    }
    plain().pod("agent-x", "n", pod)
}

fn ended(time: &str) -> Value {
    json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(time)}])
}

fn waiting(reason: &str, message: &str) -> World {
    plain().unready_pod(
        "agent-x",
        "n",
        json!({"state": {"waiting": {"reason": reason, "message": message}}}),
        json!({}),
    )
}

fn crashed(reason: &str, exit_code: i32, container: Value) -> World {
    plain().unready_pod(
        "agent-x",
        "n",
        json!({
            "restartCount": 12,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
            "lastState": {"terminated": {"exitCode": exit_code, "reason": reason,
                "startedAt": at("11:50:00"), "finishedAt": at("11:50:03")}},
        }),
        json!({"spec": {"containers": [container]}}),
    )
}

fn unhealthy(world: World) -> World {
    let mut world = world.event("Pod", "agent-x", "Unhealthy", "Liveness probe failed: command timed out", "11:50:00");
    world.snapshot.events[0].involved_object.field_path = "spec.containers{agent}".to_owned();
    world
}

fn running() -> Value {
    json!({"started": true, "state": {"running": {"startedAt": at("11:31:00")}}})
}

pub(super) fn cases() -> Vec<Case> {
    let init = |state: Value| {
        plain().unready_pod(
            "agent-x",
            "n",
            json!({"state": {"waiting": {"reason": "PodInitializing"}}}),
            json!({
                "spec": {"initContainers": [{"name": "migrate"}]},
                "status": {"phase": "Pending", "initContainerStatuses": [{"name": "migrate", "state": state}]},
            }),
        )
    };
    let sidecar = |status: Value, container_status: Value| {
        plain().unready_pod(
            "agent-x",
            "n",
            container_status,
            json!({
                "spec": {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}]},
                "status": {"initContainerStatuses": [status]},
            }),
        )
    };
    vec![
        case(
            "surge_pod_that_does_not_start",
            plain()
                .daemon_set(
                    json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}}),
                )
                .pod("agent-old", "n", json!({"metadata": {"labels": {"controller-revision-hash": "hash1"}}}))
                .unready_pod(
                    "agent-new",
                    "n",
                    json!({"state": {"waiting": {"reason": "ContainerCreating"}}}),
                    json!({"metadata": {"creationTimestamp": at("11:40:00")}}),
                ),
            (Available, R::ContainersStarting),
            &["surge pod"],
            "kubectl describe pod -n default agent-new",
        ),
        case(
            "silent_kubelet_comes_before_the_probe",
            world()
                .node(
                    "n",
                    json!({"status": {"conditions": [
                    {"type": "Ready", "status": "Unknown", "lastTransitionTime": at("11:57:50")}]}}),
                )
                .unready_pod("agent-x", "n", running(), json!({})),
            (NotReady, R::NodeUnreachable),
            &["2m10s"],
            "kubectl describe node n",
        ),
        case(
            "kubelet_says_that_the_node_is_not_ready",
            world()
                .node(
                    "n",
                    json!({"status": {"conditions": [{"type": "Ready", "status": "False",
                    "message": "container runtime is down", "lastTransitionTime": at("11:50:00")}]}}),
                )
                .unready_pod("agent-x", "n", running(), json!({})),
            (NotReady, R::NodeUnreachable),
            &["10m"],
            "kubectl describe node n",
        ),
        case(
            "kubelet_refused_the_pod",
            failed(json!({"reason": "OutOfcpu", "message": "Pod was rejected: Node didn't have enough resource: cpu"})),
            (Failed, R::KubeletRejected),
            &[],
            "",
        ),
        case(
            "kubelet_refused_the_pod_for_a_reason_that_is_not_listed",
            failed(json!({"reason": "NewReason", "message": "Pod was rejected: something new"})),
            (Failed, R::KubeletRejected),
            &[],
            "",
        ),
        case(
            "container_waits_for_a_reason_of_another_kubelet",
            plain().unready_pod(
                "agent-x",
                "n",
                json!({"restartCount": 7, "state": {"waiting": {"reason": "KillContainerError", "message": "it hangs"}},
                    "lastState": {"terminated": {"exitCode": 1, "finishedAt": at("11:50:00")}}}),
                json!({}),
            ),
            (NotReady, R::ContainerConfigError),
            &["KillContainerError", "it hangs"],
            "kubectl describe pod -n default agent-x",
        ),
        case(
            "failed_pod_waits_for_the_next_try",
            failed(
                json!({"containerStatuses": [{"name": "agent", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}]}),
            ),
            (Failed, R::FailedPodBackoff),
            &["3", "5m ago", "15m"],
            "kubectl delete pod -n default agent-x",
        ),
        case(
            "failed_pod_whose_deletion_is_refused",
            failed(json!({})).event(
                "DaemonSet",
                "agent",
                "FailedDelete",
                "Error deleting: denied the request",
                "11:58:00",
            ),
            (Failed, R::FailedPodBackoff),
            &[],
            "",
        ),
        case("ended_pod_is_recreated", failed(json!({"phase": "Succeeded"})), (Failed, R::FailedPodBackoff), &[], ""),
        case(
            "ended_pod_is_left",
            failed(json!({"phase": "Succeeded", "conditions": ended("11:30:00")})),
            (Failed, R::FailedPodBackoff),
            &["it ended 30m ago, and the controller has not recreated it"],
            "kubectl delete pod -n default agent-x",
        ),
        case(
            "failed_pod_is_left",
            failed(json!({"reason": "DeadlineExceeded", "conditions": ended("06:00:00")})),
            (Failed, R::FailedPodBackoff),
            &["DeadlineExceeded", "it ended 6h ago, and the controller has not recreated it"],
            "kubectl delete pod -n default agent-x",
        ),
        case(
            "shut_down_node_is_up_again",
            failed(
                json!({"reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."}),
            ),
            (Failed, R::KubeletRejected),
            &["shutting down; the controller recreates it within 15m"],
            "",
        ),
        case(
            "shut_down_node_is_up_again_for_long",
            failed(json!({"reason": "Terminated", "conditions": ended("11:00:00")})),
            (Failed, R::KubeletRejected),
            &["it ended 60m ago, and the controller has not recreated it"],
            "kubectl delete pod -n default agent-x",
        ),
        case(
            "pod_was_evicted",
            failed(json!({"reason": "Evicted", "message": "The node was low on resource: memory. "})),
            (Failed, R::Evicted),
            &[],
            "",
        ),
        case(
            "image_cannot_be_pulled",
            waiting("ImagePullBackOff", "Back-off pulling image \"agent:2\": ErrImagePull: manifest unknown"),
            (Starting, R::ImagePullFailed),
            &["agent:2", "manifest unknown"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "secret_is_missing",
            waiting("CreateContainerConfigError", "secret \"token\" not found"),
            (Starting, R::ContainerConfigError),
            &["secret \"token\""],
            "kubectl get secret -n default",
        ),
        case(
            "container_crashes",
            crashed("Error", 1, json!({"name": "agent"})),
            (NotReady, R::CrashLooping),
            &["1", "3s", "12"],
            "kubectl ds logs -n default --node n -c agent agent",
        ),
        case(
            "container_crashes_and_writes_why",
            plain().unready_pod(
                "agent-x",
                "n",
                json!({
                    "restartCount": 4,
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {"terminated": {"exitCode": 1, "reason": "Error",
                        "message": "reading /etc/agent.yaml\ninvalid key \"levle\"\n"}},
                }),
                json!({}),
            ),
            (NotReady, R::CrashLooping),
            &["exit code 1", "invalid key", "4"],
            "kubectl ds logs -n default --node n -c agent agent",
        ),
        case(
            "container_crashed_a_short_while_ago_and_is_not_ready_again",
            plain().unready_pod(
                "agent-x",
                "n",
                json!({
                    "restartCount": 1,
                    "state": {"running": {"startedAt": at("11:58:00")}},
                    "lastState": {"terminated": {"exitCode": 139, "reason": "Error", "finishedAt": at("11:57:00")}},
                }),
                json!({}),
            ),
            (NotReady, R::CrashLooping),
            &["139", "1"],
            "kubectl ds logs -n default --node n -c agent agent",
        ),
        case(
            "container_ran_out_of_memory",
            crashed("OOMKilled", 137, json!({"name": "agent", "resources": {"limits": {"memory": "64Mi"}}})),
            (NotReady, R::OOMKilled),
            &["64Mi", "12"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "liveness_probe_kills",
            unhealthy(crashed("Error", 137, json!({"name": "agent", "livenessProbe": {"timeoutSeconds": 1}}))),
            (NotReady, R::LivenessFailing),
            &["timeoutSeconds: 1", "timed out", "12"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "init_container_takes_its_time",
            init(json!({"running": {"startedAt": at("11:31:00")}})),
            (Starting, R::InitBlocked),
            &["29m"],
            "kubectl ds logs -n default --node n -c migrate agent",
        ),
        case(
            "sandbox_cannot_be_made",
            waiting("ContainerCreating", "").event(
                "Pod",
                "agent-x",
                "FailedCreatePodSandBox",
                "no IP addresses",
                "11:59:00",
            ),
            (Starting, R::SandboxFailed),
            &["60s"],
            "",
        ),
        case(
            "volume_cannot_be_mounted",
            waiting("ContainerCreating", "").event(
                "Pod",
                "agent-x",
                "FailedMount",
                "secret \"token\" not found",
                "11:59:00",
            ),
            (Starting, R::MountFailed),
            &["60s"],
            "kubectl get secret -n default",
        ),
        case(
            "readiness_probe_fails",
            plain().unready_pod("agent-x", "n", running(), json!({})).event(
                "Pod",
                "agent-x",
                "Unhealthy",
                "Readiness probe failed: HTTP 503",
                "11:59:00",
            ),
            (NotReady, R::ReadinessFailing),
            &["10m", "503", "60s"],
            "kubectl ds logs -n default --node n -c agent agent",
        ),
        case(
            "startup_probe_has_not_passed",
            plain().unready_pod("agent-x", "n", json!({"started": false, "state": {"running": {}}}), json!({})),
            (NotReady, R::ReadinessFailing),
            &["10m"],
            "kubectl ds logs -n default --node n -c agent agent",
        ),
        case(
            "readiness_gate_is_not_set",
            plain().unready_pod(
                "agent-x",
                "n",
                json!({"ready": true, "started": true, "state": {"running": {}}}),
                json!({"spec": {"readinessGates": [{"conditionType": "example.com/balancer"}]}}),
            ),
            (NotReady, R::ReadinessGate),
            &["example.com/balancer"],
            "",
        ),
        case(
            "ready_for_a_part_of_min_ready_seconds",
            plain().daemon_set(json!({"spec": {"minReadySeconds": 60}})).pod(
                "agent-x",
                "n",
                json!({"status": {"conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": at("11:59:20")}]}}),
            ),
            (Ready, R::NotYetAvailable),
            &["40s", "60s", "20s"],
            "",
        ),
        case(
            "containers_are_on_their_way",
            waiting("ContainerCreating", ""),
            (Starting, R::ContainersStarting),
            &["ContainerCreating", "30m"],
            "kubectl describe pod -n default agent-x",
        ),
        case(
            "an_image_is_pulled_for_too_long",
            waiting("ContainerCreating", "").event(
                "Pod",
                "agent-x",
                "Pulling",
                "Pulling image \"agent:2\"",
                "11:31:00",
            ),
            (Starting, R::ContainersStarting),
            &["pulling image agent:2 for 29m"],
            "kubectl describe pod -n default agent-x",
        ),
        case(
            "kubelet_ended_a_pod_that_it_had_admitted",
            failed(
                json!({"reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."}),
            ),
            (Failed, R::KubeletRejected),
            &["the node was shutting down"],
            "",
        ),
        case(
            "running_container_has_its_volumes",
            plain().unready_pod("agent-x", "n", running(), json!({})).event(
                "Pod",
                "agent-x",
                "FailedMount",
                "timed out",
                "11:30:30",
            ),
            (NotReady, R::ReadinessFailing),
            &["10m"],
            "kubectl ds logs -n default --node n -c agent agent",
        ),
        case(
            "completed_init_container_holds_nothing_up",
            plain().unready_pod(
                "agent-x",
                "n",
                running(),
                json!({
                    "spec": {"initContainers": [{"name": "migrate"}]},
                    "status": {"initContainerStatuses": [
                        {"name": "migrate", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]},
                }),
            ),
            (NotReady, R::ReadinessFailing),
            &["agent"],
            "kubectl ds logs -n default --node n -c agent agent",
        ),
        case(
            "init_container_fails",
            init(json!({"terminated": {"exitCode": 1, "reason": "Error"}})),
            (Starting, R::CrashLooping),
            &["migrate", "exit code 1"],
            "kubectl ds logs -n default --node n -c migrate agent",
        ),
        case(
            "init_container_is_on_its_way",
            init(json!({"waiting": {"reason": "PodInitializing"}})),
            (Starting, R::ContainersStarting),
            &["PodInitializing"],
            "kubectl describe pod -n default agent-x",
        ),
        case(
            "started_sidecar_holds_nothing_up",
            sidecar(json!({"name": "proxy", "ready": false, "started": true, "state": {"running": {}}}), running()),
            (NotReady, R::ReadinessFailing),
            &["proxy"],
            "kubectl ds logs -n default --node n -c proxy agent",
        ),
        case(
            "sidecar_that_has_not_started_holds_the_others_up",
            sidecar(
                json!({"name": "proxy", "ready": false, "started": false,
                    "state": {"running": {"startedAt": at("11:31:00")}}}),
                json!({"state": {"waiting": {"reason": "PodInitializing"}}}),
            ),
            (Starting, R::InitBlocked),
            &["proxy", "29m"],
            "kubectl ds logs -n default --node n -c proxy agent",
        ),
        case(
            "readiness_gate_is_not_met",
            plain().unready_pod(
                "agent-x",
                "n",
                json!({"ready": true, "started": true, "state": {"running": {}}}),
                json!({
                    "spec": {"readinessGates": [{"conditionType": "example.com/balancer"}]},
                    "status": {"conditions": [{"type": "Ready", "status": "False"},
                        {"type": "example.com/balancer", "status": "False", "message": "target is draining"}]},
                }),
            ),
            (NotReady, R::ReadinessGate),
            &["example.com/balancer", "target is draining"],
            "",
        ),
    ]
}
