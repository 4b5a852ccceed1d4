//! Recurring failures, and outages outside the pod: the current pod, or its message alone, would mislead.

use serde_json::{Value, json};

use super::plain;
use crate::coverage::test_support::{World, at, world};
use crate::model::daemon_set::DaemonSet;
use crate::report::node_coverage::NodeState;
use crate::report::reason::{Reason, ReasonCode as R};

fn first(world: World) -> Reason {
    world.only_node().reasons.remove(0)
}

fn not_ready(status: &str, reason: &str, message: &str) -> World {
    let ready = json!({"type": "Ready", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": at("11:00:00")});
    world()
        .node("n", json!({"status": {"conditions": [ready]}}))
        .template(json!({"tolerations": [{"operator": "Exists"}]}))
}

const NO_NETWORK: &str = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin \
                          returns error: cni plugin not initialized";

fn waiting(reason: &str, message: &str) -> Value {
    json!({"restartCount": 4, "state": {"waiting": {"reason": reason, "message": message}}})
}

#[test]
fn a_pod_of_the_host_network_fails_for_itself_where_only_the_pod_network_is_missing() {
    let pull = waiting(
        "ImagePullBackOff",
        "Back-off pulling image \"agent:2\": ErrImagePull: dial tcp 10.0.0.9:443: i/o timeout",
    );
    let crash = || {
        let mut crash = waiting("CrashLoopBackOff", "back-off 5m0s");
        crash["lastState"] = json!({"terminated": {"exitCode": 1, "reason": "Error", "message": "no subnet", "finishedAt": at("11:59:00")}});
        crash
    };
    let runtime = "container runtime is down, PLEG is not healthy: pleg was last seen active 4m ago";
    let both = format!("[{NO_NETWORK}, PLEG is not healthy: pleg was last seen active 4m ago]");
    for (status, message, host_network, container, expected) in [
        ("False", NO_NETWORK, true, pull.clone(), R::ImagePullFailed),
        ("False", NO_NETWORK, true, crash(), R::CrashLooping),
        ("False", "network plugin is not ready: cni config uninitialized", true, crash(), R::CrashLooping),
        ("False", NO_NETWORK, false, pull.clone(), R::NodeUnreachable),
        ("False", runtime, true, pull.clone(), R::NodeUnreachable),
        ("False", both.as_str(), true, pull.clone(), R::NodeUnreachable),
        ("Unknown", "Kubelet stopped posting node status.", true, pull, R::NodeUnreachable),
    ] {
        let pod = json!({"spec": {"hostNetwork": host_network}});
        let world = not_ready(status, "KubeletNotReady", message).unready_pod("agent-n", "n", container, pod);
        let codes: Vec<R> = world.only_node().reasons.iter().map(|reason| reason.code).collect();
        assert_eq!(codes[0], expected, "{message} {host_network}");
        // It would read as a second cause, although it follows from the first, or does not matter.
        assert_eq!(codes.contains(&R::NodeUnreachable), expected == R::NodeUnreachable, "{codes:?}");
    }
}

#[test]
fn whatever_the_scheduler_says_a_node_whose_kubelet_is_gone_starts_no_pod() {
    for (status, message, expected) in [
        ("Unknown", "0/1 nodes are available: 1 Insufficient cpu.", R::NodeUnreachable),
        ("Unknown", "0/1 nodes are available: 1 Too many pods.", R::NodeUnreachable),
        ("Unknown", "", R::NodeUnreachable),
        ("True", "0/1 nodes are available: 1 Too many pods.", R::TooManyPods),
        ("False", "0/1 nodes are available: 1 Too many pods.", R::TooManyPods),
    ] {
        let world = not_ready(status, "NodeStatusNeverUpdated", "").pending_pod("agent-n", "n", message, json!({}));
        let reason = first(world);
        assert_eq!(reason.code, expected, "{status} {message}");
        let is_new = reason.message.contains("has never posted its status");
        assert_eq!(is_new, status == "Unknown", "{}", reason.message);
    }
}

#[test]
fn a_toleration_that_ends_evicts_pod_after_pod() {
    let taint = |effect: &str| json!({"spec": {"taints": [{"key": "a", "value": "b", "effect": effect}]}});
    let with = |seconds: Value| json!({"key": "a", "operator": "Exists", "tolerationSeconds": seconds});
    for (effect, tolerations, evicts) in [
        ("NoExecute", json!([with(json!(10))]), true),
        ("NoExecute", json!([with(json!(0))]), true),
        ("NoExecute", json!([with(json!(null))]), false),
        // The first toleration that matches the taint is used.
        ("NoExecute", json!([{"operator": "Exists"}, with(json!(10))]), false),
        (
            "NoExecute",
            json!([{"key": "other", "operator": "Exists", "tolerationSeconds": 5}, {"operator": "Exists"}]),
            false,
        ),
        ("NoSchedule", json!([{"operator": "Exists"}, with(json!(10))]), false),
    ] {
        let world = || world().node("n", taint(effect)).template(json!({"tolerations": tolerations}));
        let young = json!({"metadata": {"creationTimestamp": at("11:59:57")}});
        for world in [world().pod("agent-n", "n", young), world()] {
            let node = world.only_node();
            let is_told = node.reasons.first().is_some_and(|reason| reason.code == R::Evicted);
            assert_eq!(is_told, evicts, "{tolerations}: {:?}", node.reasons);
            assert!(!evicts || node.reasons[0].fix.advice.starts_with("remove tolerationSeconds"));
        }
    }
}

#[test]
fn a_pod_that_follows_on_rejected_ones_only_seems_to_start() {
    let rejected = |reason: &str, says: &str, node: &str, pods: usize, time: &str| {
        (0..pods).fold(plain(), |world, number| {
            let pod = format!("agent-{number}");
            let found = format!("Found failed daemon pod default/{pod} on node {node}, will try to kill it");
            let mut world = world
                .event("DaemonSet", "agent", "FailedDaemonPod", &found, time)
                .event("Pod", &pod, reason, says, time);
            let from = world.snapshot.events.len() - 2;
            world.snapshot.events[from..].iter_mut().for_each(|event| event.count = 1);
            world
        })
    };
    let says = "Allocate failed due to device nvidia0 is unhealthy, which is unexpected";
    let unexpected = |pods, time| rejected("UnexpectedAdmissionError", says, "n", pods, time);
    for (name, world, expected) in [
        ("six times", unexpected(6, "11:58:00"), Some("check the device plugins")),
        (
            "no room",
            rejected("OutOfcpu", "Node didn't have enough resource: cpu", "n", 3, "11:58:00"),
            Some("the node has less free"),
        ),
        (
            "a label",
            rejected("NodeAffinity", "Predicate NodeAffinity failed", "n", 4, "11:58:00"),
            Some("restart the kubelet"),
        ),
        ("at the longest backoff", unexpected(6, "11:44:30"), Some("check the device plugins")),
        ("once", unexpected(1, "11:58:00"), None),
        ("long ago", unexpected(6, "11:30:00"), None),
        ("elsewhere", rejected("UnexpectedAdmissionError", says, "other", 6, "11:58:00"), None),
        ("crashed", rejected("BackOff", "Back-off restarting failed container", "n", 6, "11:58:00"), None),
    ] {
        let young = json!({"metadata": {"creationTimestamp": at("11:59:57")}});
        let node = world.pending_pod("agent-n", "n", "", young).only_node();
        let reason = &node.reasons[0];
        assert_eq!(
            (node.state, reason.code == R::KubeletRejected),
            (NodeState::Pending, expected.is_some()),
            "{name}: {reason:?}"
        );
        assert!(expected.is_none_or(|expected| reason.fix.advice.contains(expected)), "{name}: {}", reason.fix.advice);
    }
    let missing = unexpected(6, "11:58:00").only_node();
    assert_eq!((missing.state, missing.reasons[0].code), (NodeState::Missing, R::KubeletRejected));
    let creating = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
    let young = json!({"metadata": {"creationTimestamp": at("11:59:57")}});
    let starting = unexpected(6, "11:58:00").unready_pod("agent-n", "n", creating, young.clone()).only_node();
    assert_eq!(
        (starting.state, starting.reasons[0].code),
        (NodeState::Starting, R::ContainersStarting),
        "it was admitted"
    );
    let runs = unexpected(6, "11:58:00").pod("agent-n", "n", json!({})).only_node();
    assert!(runs.reasons.is_empty(), "{:?}", runs.reasons);
}

#[test]
fn a_scheduler_is_not_missed_seconds_after_a_pod_was_created() {
    for (created, waits) in [("11:59:57", true), ("11:59:46", true), ("11:59:30", false), ("11:30:00", false)] {
        let pod = json!({"metadata": {"creationTimestamp": at(created)}});
        let reason = first(plain().pending_pod("agent-n", "n", "", pod));
        assert_eq!((reason.code, reason.fix.advice.starts_with("wait")), (R::SchedulerSilent, waits), "{created}");
    }
}

#[test]
fn a_template_that_changes_back_again_and_again_has_two_writers() {
    let told = |number: i64, kept: i64, times: [&str; 2], patch: Value| {
        let mut world = plain().daemon_set(patch);
        world.snapshot.controller_revisions.clear();
        for (at_number, hash) in ((number - kept + 1)..=number).zip("abcdefghijkl".chars()) {
            world = world.revision_of_image(&hash.to_string(), at_number, &format!("agent:{hash}"));
        }
        for (revision, time) in world.snapshot.controller_revisions.iter_mut().rev().zip(times) {
            revision.metadata.creation_timestamp = serde_json::from_value(json!(at(time))).unwrap();
        }
        let concerns = world.coverage().concerns;
        concerns.into_iter().find(|concern| concern.code == R::TemplateChangesBack).map(|concern| concern.message)
    };
    let lately = ["11:58:00", "11:40:00"];
    let written = |manager: &str| json!({"manager": manager, "fieldsV1": {"f:spec": {"f:template": {}}}});
    let managed = json!({"metadata": {"managedFields": [written("operator"), written("argocd"),
        {"manager": "kubectl", "fieldsV1": {"f:metadata": {}}}]}});
    let message = told(112, 2, lately, managed).unwrap();
    assert!(
        message.contains("112 rollouts of only 2 templates") && message.ends_with("written by argocd and operator"),
        "{message}"
    );
    for (number, kept, times, patch, expected) in [
        (13, 3, lately, json!({}), true),
        (12, 3, lately, json!({}), false),
        (112, 10, lately, json!({}), false),
        // Years of rollbacks, and two new templates.
        (13, 3, lately, json!({"metadata": {"creationTimestamp": "2024-01-01T00:00:00Z"}}), false),
        (112, 10, lately, json!({"spec": {"revisionHistoryLimit": 20}}), true),
        (112, 2, ["11:58:00", "10:40:00"], json!({}), false),
        (2, 2, lately, json!({}), false),
    ] {
        assert_eq!(told(number, kept, times, patch).is_some(), expected, "{number} {kept} {times:?}");
    }
    // Anyone who may write revisions chooses their numbers.
    for number in [1 << 53, i64::MAX - 1, i64::MAX] {
        assert!(told(number, 2, lately, json!({})).is_some(), "{number}");
    }
}

#[test]
fn a_crash_because_of_what_the_whole_cluster_needs_names_that() {
    let dns = |ready: &str| {
        json!({"metadata": {"namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}},
        "status": {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": at("11:00:00")}]}})
    };
    let proxy = |ready: &str| {
        json!({"metadata": {"namespace": "kube-system", "labels": {"k8s-app": "kube-proxy"}},
        "status": {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": at("11:00:00")}]}})
    };
    let lookup = "dial tcp: lookup otel.monitoring.svc.cluster.local on 10.96.0.10:53: read udp 10.1.0.4:4012->10.96.0.10:53: i/o timeout";
    let api = "Get \"https://10.96.0.1:443/api/v1/nodes/n\": dial tcp 10.96.0.1:443: i/o timeout";
    for (message, other, expected) in [
        (lookup, json!({}), Some("see first whether the cluster DNS works")),
        (lookup, dns("False"), Some("fix the cluster DNS")),
        ("getaddrinfo: Temporary failure in name resolution", dns("False"), Some("fix the cluster DNS")),
        (lookup, dns("True"), None),
        ("lookup nothing on 10.96.0.10:53: no such host", dns("False"), None),
        (api, proxy("False"), Some("fix kube-proxy")),
        ("failed to reach apiserver: connect: connection refused", proxy("False"), Some("fix kube-proxy")),
        (api, proxy("True"), None),
        ("dial tcp 172.20.0.1:443: i/o timeout", proxy("False"), Some("fix kube-proxy")),
        ("dial tcp 172.20.0.1:443: i/o timeout", proxy("True"), None),
        ("dial tcp 172.217.0.1:443: i/o timeout", proxy("False"), None),
        ("Get \"https://intake.example.com/\": dial tcp 10.4.0.8:443: i/o timeout", proxy("False"), None),
        ("dial tcp 10.4.0.8:5432: i/o timeout", proxy("False"), None),
        (api, json!({}), None),
    ] {
        let crash = json!({"restartCount": 31, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": message, "finishedAt": at("11:57:40")}}});
        let world = plain().unready_pod("agent-n", "n", crash, json!({})).other_pod("kube-proxy-x", "n", other);
        let reason = first(world);
        assert_eq!(reason.code, R::CrashLooping);
        let is_told = expected.is_some_and(|expected| reason.fix.advice.starts_with(expected));
        assert_eq!(is_told, expected.is_some(), "{message}: {}", reason.fix.advice);
        assert!(expected.is_some() || !reason.fix.advice.contains("fix"), "{message}: {}", reason.fix.advice);
    }
    // A DaemonSet that binds the address of the DNS server serves it on every node; one that asks it has it in its template, too.
    let local = lookup.replace("10.96.0.10", "169.254.20.10");
    for (message, ready, flag, on_host, is_told) in [
        (&*local, "False", "-localip", true, true),
        (&*local, "True", "-localip", true, false),
        (&*local, "False", "-localip", false, false),
        (&*local, "False", "-resolver", true, false),
        (lookup, "False", "-localip", true, false),
    ] {
        let crash = json!({"restartCount": 31, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": message, "finishedAt": at("11:57:40")}}});
        let mut world = plain().unready_pod("agent-n", "n", crash, json!({}));
        let args = json!([flag, "169.254.20.10,10.96.0.11", "-upstream", "10.96.0.10"]);
        let cache = json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "cache", "namespace": "kube-system", "uid": "cache"},
            "spec": {"selector": {"matchLabels": {"app": "cache"}}, "template": {"metadata": {"labels": {"app": "cache"}},
                "spec": {"containers": [{"name": "cache", "image": "cache:1", "args": args}]}}}});
        world.snapshot.daemon_sets.push(DaemonSet::from_object(cache).unwrap());
        let pod = json!({"metadata": {"namespace": "kube-system", "labels": {"app": "cache"}, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "cache", "uid": "cache", "controller": true}]},
            "spec": {"hostNetwork": on_host},
            "status": {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": at("11:00:00")}]}});
        let told = first(world.other_pod("cache-x", "n", pod)).fix.advice;
        assert_eq!(
            told.starts_with("fix the DNS cache on the node first"),
            is_told,
            "{message} {ready} {flag} {on_host}: {told}"
        );
    }
    // Without a kube-proxy, a network plugin that is to replace it cannot reach the API server through what it provides.
    let cni = json!({"hostNetwork": true, "volumes": [{"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}}]});
    for (message, template, is_told) in [
        (api, cni.clone(), true),
        (api, json!({}), false),
        ("Get \"https://10.0.0.7:6443/api/v1/nodes\": dial tcp 10.0.0.7:6443: i/o timeout", cni, false),
    ] {
        let crash = json!({"restartCount": 31, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": message, "finishedAt": at("11:57:40")}}});
        let reason = first(plain().template(template).unready_pod("agent-n", "n", crash, json!({})));
        assert_eq!(reason.fix.advice.contains("k8sServiceHost"), is_told, "{message}: {}", reason.fix.advice);
    }
    // A pod that does not query the DNS, or is the DNS, does not wait for it; and pods that were not read may be healthy.
    let crash = || {
        json!({"restartCount": 31, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": lookup, "finishedAt": at("11:57:40")}}})
    };
    let told = |pod: Value, template: Value, is_complete: bool| {
        let world = plain().template(template).unready_pod("agent-n", "n", crash(), pod);
        let mut world = world.other_pod("coredns-x", "n", dns("False"));
        if !is_complete {
            world.snapshot.pods_complete = crate::model::snapshot::PodsComplete::On(["n".to_owned()].into());
        }
        first(world).fix.advice
    };
    let host = || json!({"spec": {"hostNetwork": true}});
    assert!(told(json!({}), json!({}), true).starts_with("fix the cluster DNS"));
    assert!(told(json!({}), json!({}), false).starts_with("see first whether"));
    assert!(!told(host(), json!({"hostNetwork": true}), true).contains("cluster DNS"));
    assert!(told(host(), json!({"dnsPolicy": "ClusterFirstWithHostNet"}), true).starts_with("fix the cluster DNS"));
    assert!(!told(json!({}), json!({"dnsPolicy": "Default"}), true).contains("cluster DNS"));
}

#[test]
fn a_failure_because_of_another_pod_of_the_node_names_that() {
    let other = |ready: &str, spec: Value| {
        json!({"metadata": {"namespace": "gpu"}, "spec": spec,
            "status": {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": at("11:00:00")}]}})
    };
    let has_port = |port: i32| json!({"hostNetwork": true, "containers": [{"name": "c", "ports": [{"containerPort": port, "hostPort": port}]}]});
    let (driver, smb) = ("nvidia-driver-daemonset-x", "csi-smb-node-x");
    let nvml = "failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND";
    let port = "failed to listen: listen tcp :9808: bind: address already in use";
    for (message, name, pod, advice) in [
        (nvml, driver, other("False", json!({})), Some("fix the GPU driver on the node first")),
        (nvml, driver, other("True", json!({})), None),
        (nvml, "nvidia-device-plugin-x", other("False", json!({})), None),
        (port, smb, other("True", has_port(9808)), Some("port 9808 of the node belongs to gpu/csi-smb-node-x")),
        (port, smb, other("True", has_port(9809)), None),
    ] {
        let crash = json!({"restartCount": 31, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": message, "finishedAt": at("11:57:40")}}});
        let host = json!({"spec": {"hostNetwork": true}});
        let reason = first(plain().unready_pod("agent-n", "n", crash, host).other_pod(name, "n", pod));
        let said = format!("{} {}", reason.message, reason.fix.advice);
        assert_eq!(reason.code, R::CrashLooping);
        assert_eq!(advice.is_some_and(|advice| said.contains(advice)), advice.is_some(), "{message} {name}: {said}");
        assert!(advice.is_some() || !said.contains(name) && !said.contains("first"), "{message} {name}: {said}");
    }
    // Of a chain, the first that is not ready is what the others wait for.
    let toolkit = "nvidia-container-toolkit-daemonset-x";
    for (container, driver_ready, toolkit_ready, first_of) in [
        ("toolkit-validation", "True", "False", Some("the NVIDIA container toolkit")),
        ("toolkit-validation", "False", "False", Some("the GPU driver")),
        ("plugin-validation", "True", "False", Some("the NVIDIA container toolkit")),
        ("driver-validation", "True", "False", None),
        // The runtime does not know the class yet.
        ("", "True", "False", Some("the NVIDIA container toolkit")),
        ("", "True", "True", None),
    ] {
        let init = json!([{"name": container, "state": {"running": {"startedAt": at("11:00:00")}}}]);
        let mut pod =
            json!({"spec": {"initContainers": [{"name": container}]}, "status": {"initContainerStatuses": init}});
        let waiting = json!({"state": {"waiting": {"reason": "PodInitializing"}}});
        let mut world = plain();
        if container.is_empty() {
            pod = json!({"spec": {"runtimeClassName": "nvidia"}});
            let said = "failed to get sandbox runtime: no runtime for \"nvidia\" is configured";
            world = world.event("Pod", "agent-n", "FailedCreatePodSandBox", said, "11:59:00");
        }
        let world =
            world.unready_pod("agent-n", "n", waiting, pod).other_pod(driver, "n", other(driver_ready, json!({})));
        let reason = first(world.other_pod(toolkit, "n", other(toolkit_ready, json!({}))));
        let advice = &reason.fix.advice;
        let expected = first_of.map(|noun| format!("fix {noun} on the node first"));
        assert_eq!(expected.is_some(), advice.contains("on the node first"), "{container}: {reason:?}");
        assert!(expected.is_none_or(|expected| advice.contains(&expected)), "{container}: {reason:?}");
    }
    // Init containers of NVIDIA's GPU operator wait for the driver.
    for (container, ready, is_told) in
        [("driver-validation", "False", true), ("toolkit-validation", "True", false), ("wait-for-db", "False", false)]
    {
        let init = json!([{"name": container, "state": {"running": {"startedAt": at("11:00:00")}}}]);
        let pod = json!({"spec": {"initContainers": [{"name": container}]}, "status": {"initContainerStatuses": init}});
        let waiting = json!({"state": {"waiting": {"reason": "PodInitializing"}}});
        let world = plain().unready_pod("agent-n", "n", waiting, pod);
        let reason = first(world.other_pod(driver, "n", other(ready, json!({}))));
        assert_eq!(reason.code, R::InitBlocked, "{reason:?}");
        assert_eq!(reason.fix.advice.contains("fix the GPU driver"), is_told, "{container} {ready}: {reason:?}");
    }
}

/// A node was rebooted, or its container runtime was replaced: the kubelet starts the pod again, from its sandbox on.
#[test]
fn what_was_lost_with_the_sandbox_has_not_crashed() {
    let ended = |reason: &str, code: i32| json!({"exitCode": code, "reason": reason, "startedAt": at("11:30:10"), "finishedAt": at("11:50:00")});
    let unknown = || json!({"state": {"terminated": ended("Unknown", 255)}});
    let gone = || {
        json!({"restartCount": 1, "state": {"waiting": {"reason": "ContainerCreating"}},
            "lastState": {"terminated": ended("ContainerStatusUnknown", 137)}})
    };
    let again = || json!({"restartCount": 1, "state": {"running": {"startedAt": at("11:59:30")}}, "lastState": unknown()["state"]});
    let back_off = || {
        json!({"restartCount": 7, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
            "lastState": unknown()["state"]})
    };
    let error = || json!({"state": {"terminated": ended("Error", 255)}});
    let creating = || json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
    let (network, volume) = ("plugin type=\"flannel\" failed (add)", "configmap \"agent-config\" not found");
    let sandbox = ("FailedCreatePodSandBox", network, "11:59:50");
    let done = json!({"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
    let init_runs = json!({"state": {"running": {"startedAt": at("11:55:00")}}});
    let no_init = || Value::Null;
    for (status, has_sandbox, init, event, code, part) in [
        (unknown(), Some(false), no_init(), Some(sandbox), R::SandboxFailed, network),
        (unknown(), None, no_init(), Some(sandbox), R::SandboxFailed, network),
        (gone(), Some(false), no_init(), Some(sandbox), R::SandboxFailed, network),
        (unknown(), None, done.clone(), Some(sandbox), R::SandboxFailed, network),
        // Other container runtimes tell no more than the exit code.
        (error(), Some(false), no_init(), Some(sandbox), R::SandboxFailed, network),
        (error(), Some(true), no_init(), Some(sandbox), R::CrashLooping, "exit code 255"),
        // The sandbox was created after that.
        (
            creating(),
            Some(true),
            no_init(),
            Some(("FailedCreatePodSandBox", network, "11:40:00")),
            R::ContainersStarting,
            "",
        ),
        (creating(), Some(true), no_init(), Some(("FailedMount", volume, "11:40:00")), R::ContainersStarting, ""),
        (creating(), Some(true), no_init(), Some(("FailedMount", volume, "11:58:00")), R::MountFailed, volume),
        (
            creating(),
            Some(false),
            no_init(),
            Some(("FailedCreatePodSandBox", network, "11:40:00")),
            R::SandboxFailed,
            network,
        ),
        (unknown(), Some(false), no_init(), Some(("FailedMount", volume, "11:58:00")), R::MountFailed, volume),
        (unknown(), Some(true), init_runs, None, R::InitBlocked, "init container migrate"),
        (unknown(), Some(false), no_init(), None, R::ContainersStarting, "have not started again for 10m"),
        (gone(), None, no_init(), None, R::ContainersStarting, "have not started again for 10m"),
        // It is from when the pod started first.
        (unknown(), None, no_init(), Some(("FailedMount", volume, "11:30:20")), R::ContainersStarting, "for 10m"),
        (again(), Some(true), no_init(), None, R::ReadinessFailing, "is running"),
        (back_off(), Some(true), no_init(), None, R::CrashLooping, "restarts: 7"),
    ] {
        let mut pod = json!({"status": {"startTime": at("11:30:00")}});
        if let Some(has) = has_sandbox {
            pod["status"]["conditions"] = json!([
                {"type": "PodReadyToStartContainers", "status": if has { "True" } else { "False" }, "lastTransitionTime": at("11:52:00")},
                {"type": "Ready", "status": "False", "lastTransitionTime": at("11:50:00")},
            ]);
        }
        if !init.is_null() {
            let mut of_init = init.clone();
            of_init["name"] = json!("migrate");
            pod["spec"] = json!({"initContainers": [{"name": "migrate"}]});
            pod["status"]["initContainerStatuses"] = json!([of_init]);
        }
        let mut world = world().node("n", json!({})).unready_pod("agent-x", "n", status.clone(), pod);
        if let Some((reason, message, time)) = event {
            world = world.event("Pod", "agent-x", reason, message, time);
        }
        let reasons = world.only_node().reasons;
        let told = format!("{status} {has_sandbox:?} {init} {event:?}: {reasons:?}");
        assert!(reasons[0].code == code && reasons[0].message.contains(part), "{told}");
        assert!(reasons.len() == 1, "{told}");
    }
}

#[test]
fn a_container_that_its_kubelet_does_not_restart_does_not_loop() {
    for (ended, ready, policy, code, is_stuck) in [
        ("09:00:00", "True", None, 1, true),
        ("09:00:00", "True", None, 0, true),
        ("09:00:00", "True", Some("Always"), 1, true),
        // It waits for up to 5 minutes.
        ("11:56:00", "True", None, 1, false),
        ("09:00:00", "True", Some("Never"), 1, false),
    ] {
        let status = json!({"restartCount": 0, "state": {"terminated": {"exitCode": code, "reason": "Error",
            "startedAt": at("08:00:00"), "finishedAt": at(ended)}}});
        let node = json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}});
        let container = json!({"name": "agent", "restartPolicy": policy});
        let spec = json!({"spec": {"nodeName": "n", "containers": [container]}});
        let reason = first(world().node("n", node).unready_pod("agent-x", "n", status, spec));
        assert_eq!(reason.code, R::CrashLooping, "{reason:?}");
        let advice = &reason.fix.advice;
        assert_eq!(advice.starts_with("delete the pod: the kubelet"), is_stuck, "{ended} {policy:?}: {reason:?}");
        assert_eq!(reason.message.contains("not restarted for 3h"), is_stuck, "{reason:?}");
    }
}
