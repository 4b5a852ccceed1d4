//! Cases of pods that are bound and not available.

use serde_json::{Value, json};

use super::{Case, case, plain};
use crate::coverage::test_support::{World, at, world};
use crate::report::coverage::NodeState::{Failed, NotReady, Ready, Starting};
use crate::report::reason::ReasonCode as R;

fn failed(status: Value) -> World {
    let mut pod = json!({"status": {"phase": "Failed", "containerStatuses": null,
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:55:00")}]}});
    for (key, value) in status.as_object().unwrap() {
        pod["status"][key] = value.clone();
    }
    plain().pod("agent-x", "n", pod)
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

fn running() -> Value {
    json!({"started": true, "state": {"running": {"startedAt": at("11:31:00")}}})
}

pub(super) fn cases() -> Vec<Case> {
    let delete = "fix the cause; to try at once: kubectl delete pod -n default agent-x";
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
    vec![
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
            "kubelet silent for 2m10s",
            "repair the node, or if it is gone for good: kubectl delete node n",
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
            "node not ready for 10m: container runtime is down",
            "repair the node, or if it is gone for good: kubectl delete node n",
        ),
        case(
            "kubelet_refused_the_pod",
            failed(json!({"reason": "OutOfcpu", "message": "Pod was rejected: Node didn't have enough resource: cpu"})),
            (Failed, R::KubeletRejected),
            "the kubelet refused the pod: OutOfcpu: Node didn't have enough resource: cpu",
            "the scheduler saw more room than there is: free the node, or look for pods that it does not count (static \
             ones)",
        ),
        case(
            "kubelet_refused_the_pod_for_a_reason_that_is_not_listed",
            failed(json!({"reason": "NewReason", "message": "Pod was rejected: something new"})),
            (Failed, R::KubeletRejected),
            "the kubelet refused the pod: NewReason: something new",
            "see the kubelet's log on the node",
        ),
        case(
            "failed_pod_waits_for_the_next_try",
            failed(
                json!({"containerStatuses": [{"name": "agent", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}]}),
            ),
            (Failed, R::FailedPodBackoff),
            "the pod has failed (agent: exit 3) 5m ago; the controller waits up to 15m between tries",
            delete,
        ),
        case(
            "ended_pod_is_made_anew",
            failed(json!({"phase": "Succeeded"})),
            (Failed, R::FailedPodBackoff),
            "the pod has ended (Succeeded); the controller deletes it and makes a new one",
            delete,
        ),
        case(
            "pod_was_evicted",
            failed(json!({"reason": "Evicted", "message": "The node was low on resource: memory. "})),
            (Failed, R::Evicted),
            "evicted by the kubelet: The node was low on resource: memory.",
            "request what the pods really use, or free the node; a higher priority class is evicted later",
        ),
        case(
            "image_cannot_be_pulled",
            waiting("ImagePullBackOff", "Back-off pulling image \"agent:2\": ErrImagePull: manifest unknown"),
            (Starting, R::ImagePullFailed),
            "container agent: cannot pull agent:2 (ImagePullBackOff): ErrImagePull: manifest unknown",
            "correct the image, or add its registry's imagePullSecrets: kubectl set image ds/agent -n default agent=IMAGE",
        ),
        case(
            "secret_is_missing",
            waiting("CreateContainerConfigError", "secret \"token\" not found"),
            (Starting, R::ContainerConfigError),
            "container agent: CreateContainerConfigError: secret \"token\" not found",
            "create it: kubectl create secret generic token -n default --from-file=…",
        ),
        case(
            "container_crashes",
            crashed("Error", 1, json!({"name": "agent"})),
            (NotReady, R::CrashLooping),
            "container agent ends with exit 1 after 3s; restarts: 12",
            "kubectl logs -n default agent-x -c agent -p",
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
            "container agent ends with exit 139 (segmentation fault); restarts: 1",
            "kubectl logs -n default agent-x -c agent -p",
        ),
        case(
            "container_ran_out_of_memory",
            crashed("OOMKilled", 137, json!({"name": "agent", "resources": {"limits": {"memory": "64Mi"}}})),
            (NotReady, R::OOMKilled),
            "container agent was killed for want of memory; its limit is 64Mi; restarts: 12",
            "raise the limit: kubectl set resources ds/agent -n default -c agent --limits=memory=…",
        ),
        case(
            "init_container_takes_its_time",
            init(json!({"running": {"startedAt": at("11:31:00")}})),
            (Starting, R::InitBlocked),
            "init container migrate is not done, running for 29m",
            "kubectl logs -n default agent-x -c migrate",
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
            "the sandbox cannot be made: no IP addresses (60s ago)",
            "look at the network plugin and the runtime on the node",
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
            "a volume cannot be mounted: secret \"token\" not found (60s ago)",
            "create what is missing: kubectl get configmaps,secrets -n default",
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
            "container agent runs, and its readiness probe fails for 10m: Readiness probe failed: HTTP 503 (60s ago)",
            "fix the probe or what it asks: kubectl logs -n default agent-x -c agent",
        ),
        case(
            "startup_probe_has_not_passed",
            plain().unready_pod("agent-x", "n", json!({"started": false, "state": {"running": {}}}), json!({})),
            (NotReady, R::ReadinessFailing),
            "container agent runs, and its startup probe fails for 10m",
            "fix the probe or what it asks: kubectl logs -n default agent-x -c agent",
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
            "readiness gate example.com/balancer is not met: nobody has set the condition",
            "look at whoever sets the condition example.com/balancer",
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
            "ready for 40s of the 60s that minReadySeconds asks for: available in 20s",
            "wait",
        ),
        case(
            "containers_are_on_their_way",
            waiting("ContainerCreating", ""),
            (Starting, R::ContainersStarting),
            "the containers are being made (ContainerCreating) for 30m",
            "wait; if it lasts: kubectl describe pod -n default agent-x",
        ),
    ]
}
