//! What admission has made of a pod, which of several containers tells why it fails, and what time tells of it.

use serde_json::{Value, json};

use crate::coverage::test_support::{World, at, world};
use crate::report::reason::{Reason, ReasonCode as R};

fn first(world: World) -> Reason {
    world.only_node().reasons.remove(0)
}

/// A world whose pods have a revision with this spec of their template.
fn of_template(patch: Value) -> World {
    world().template(patch).revision_of_image("of-agent", 3, "agent:2")
}

fn with(patch: Value) -> Value {
    let mut pod = json!({"metadata": {"labels": {"controller-revision-hash": "of-agent"}}});
    crate::coverage::test_support::merge(&mut pod, patch);
    pod
}

/// No revision of the template is without what admission adds to each pod.
#[test]
fn what_admission_has_added_to_a_pod_is_not_corrected_in_the_template() {
    let gate = |name: &str| json!({"schedulingGates": [{"name": name}]});
    let ready = |kind: &str| json!({"readinessGates": [{"conditionType": kind}]});
    let scheduler = |name: &str| json!({"schedulerName": name});
    for (own, of_pod, code, told) in [
        (json!({}), gate("queue"), R::SchedulingGated, "the template has no scheduling gate queue"),
        (gate("other"), gate("queue"), R::SchedulingGated, "the template has no scheduling gate queue"),
        (gate("queue"), gate("queue"), R::SchedulingGated, ""),
        (
            json!({}),
            scheduler("stork"),
            R::SchedulerSilent,
            "the template has schedulerName default-scheduler: admission made it stork",
        ),
        (scheduler("stork"), scheduler("stork"), R::SchedulerSilent, ""),
    ] {
        let world = of_template(own.clone()).node("n", json!({}));
        let reason = first(world.pending_pod("agent-x", "n", "", with(json!({"spec": of_pod}))));
        assert_eq!((reason.code, reason.message.contains("admission")), (code, !told.is_empty()), "{own} {reason:?}");
        assert!(reason.message.contains(told), "{own} {reason:?}");
    }
    for (own, told) in [(json!({}), "the template has no readiness gate lb: admission adds it"), (ready("lb"), "")] {
        let running = json!({"ready": true, "state": {"running": {"startedAt": at("11:40:00")}}});
        let world = of_template(own.clone()).node("n", json!({}));
        let reason = first(world.unready_pod("agent-x", "n", running, with(json!({"spec": ready("lb")}))));
        assert_eq!(
            (reason.code, reason.message.contains("admission")),
            (R::ReadinessGate, !told.is_empty()),
            "{reason:?}"
        );
        assert!(reason.message.contains(told), "{own} {reason:?}");
    }
    let said = "failed to generate security options for container \"agent\": failed to generate seccomp security options: cannot load \
                seccomp profile \"/var/lib/kubelet/seccomp/profiles/a.json\": no such file or directory";
    let profile =
        json!({"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "profiles/a.json"}}});
    for (own, is_added) in [(json!({}), true), (profile, false)] {
        let waits = json!({"state": {"waiting": {"reason": "CreateContainerError", "message": said}}});
        let reason = first(of_template(own).node("n", json!({})).unready_pod("agent-x", "n", waits, with(json!({}))));
        assert_eq!(reason.message.contains("the template has no profile of type Localhost"), is_added, "{reason:?}");
        assert_eq!(reason.fix.advice.contains("mutating webhook"), is_added, "{reason:?}");
    }
}

/// A container that ends without a word may only lack another one.
#[test]
fn a_container_that_says_what_is_wrong_goes_before_one_that_does_not() {
    let silent = json!({"name": "registrar", "restartCount": 5, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "finishedAt": at("11:59:00")}}});
    let waits = |reason: &str, message: &str| json!({"name": "agent", "state": {"waiting": {"reason": reason, "message": message}}});
    let ended = |reason: &str, message: &str| {
        json!({"name": "agent", "restartCount": 5, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 137, "reason": reason, "message": message, "finishedAt": at("11:59:00")}}})
    };
    for (of_agent, code, container) in [
        (waits("ImagePullBackOff", "not found"), R::ImagePullFailed, "agent"),
        (waits("CreateContainerConfigError", "configmap \"c\" not found"), R::ContainerConfigError, "agent"),
        (ended("OOMKilled", ""), R::OOMKilled, "agent"),
        (ended("Error", "modprobe: FATAL: Module rbd not found"), R::CrashLooping, "agent"),
        (ended("Error", ""), R::CrashLooping, "registrar"),
        (json!({"name": "agent", "ready": true, "state": {"running": {}}}), R::CrashLooping, "registrar"),
    ] {
        let names = ["registrar", "agent"].map(|name| json!({"name": name, "image": "agent:2"}));
        let pod = json!({"spec": {"containers": names}, "status": {"containerStatuses": [silent, of_agent]}});
        let world = world().node("n", json!({})).unready_pod("agent-x", "n", json!({}), pod);
        let reason = first(world);
        assert_eq!(reason.code, code, "{of_agent} {reason:?}");
        assert!(reason.message.contains(&format!("container {container}")), "{of_agent} {reason:?}");
    }
}

/// A pod whose probe fails again and again never becomes available, however short ago it was ready.
#[test]
fn a_pod_that_is_ready_now_and_then_is_not_waited_for() {
    for (created, times, last, code) in [
        ("10:00:00", 61, "11:58:00", R::ReadinessFailing),
        // It may have needed that long to start, or may be well since.
        ("11:50:00", 61, "11:58:00", R::NotYetAvailable),
        ("10:00:00", 2, "11:58:00", R::NotYetAvailable),
        ("10:00:00", 61, "10:02:00", R::NotYetAvailable),
    ] {
        let ready = json!({"metadata": {"creationTimestamp": at(created)}, "status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": at("11:59:10")}]}});
        let world = world().daemon_set(json!({"spec": {"minReadySeconds": 300}})).node("n", json!({}));
        let mut world = world.pod("agent-x", "n", ready).event(
            "Pod",
            "agent-x",
            "Unhealthy",
            "Readiness probe failed: HTTP probe failed with statuscode: 503",
            last,
        );
        world.snapshot.events.last_mut().unwrap().count = times;
        let reason = first(world);
        assert_eq!(reason.code, code, "{created} {times} {last} {reason:?}");
    }
    // By the clock of the node, it is ready only later.
    let ahead =
        json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at("12:07:00")}]}});
    let world = world().daemon_set(json!({"spec": {"minReadySeconds": 30}})).node("n", json!({}));
    let reason = first(world.pod("agent-x", "n", ahead));
    assert!(reason.message.contains("clock of the node is ahead") && reason.message.contains("7m30s"), "{reason:?}");
}

/// Kubelets of cloud providers pull by the identity of their node.
#[test]
fn a_registry_of_a_cloud_provider_asks_for_the_identity_of_the_node() {
    for (registry, by_identity) in [
        ("123456789012.dkr.ecr.eu-west-1.amazonaws.com", true),
        ("123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com", true),
        ("europe-docker.pkg.dev", true),
        ("gcr.io", true),
        ("eu.gcr.io", true),
        ("acme.azurecr.io", true),
        ("quay.io", false),
        ("gcr.io.example.com", false),
        ("amazonaws.com.example.com", false),
    ] {
        let image = format!("{registry}/team/agent:2");
        let waits = json!({"image": image, "state": {"waiting": {"reason": "ImagePullBackOff",
            "message": format!("failed to pull image \"{image}\": no basic auth credentials")}}});
        let pod = json!({"spec": {"containers": [{"name": "agent", "image": image}]}});
        let reason = first(world().node("n", json!({})).unready_pod("agent-x", "n", waits, pod));
        assert_eq!(reason.fix.advice.contains("identity of the node"), by_identity, "{image} {reason:?}");
    }
}

/// What a kubelet says of its node tells what to do, and others may say something else.
#[test]
fn nodes_that_are_not_ready_for_other_reasons_are_told_apart() {
    let says = [
        ("a", "container runtime network not ready: cni plugin not initialized", "network plugin"),
        ("b", "container runtime is down", "container runtime"),
        ("c", "PLEG is not healthy: pleg was last seen active 4m ago", "container runtime"),
    ];
    let world = says.iter().fold(
        world().template(json!({"tolerations": [{"operator": "Exists"}]})),
        |world, (name, says, _)| {
            let ready =
                json!([{"type": "Ready", "status": "False", "message": says, "lastTransitionTime": at("11:00:00")}]);
            let running = json!({"ready": false, "state": {"running": {"startedAt": at("10:00:00")}}});
            world.node(name, json!({"status": {"conditions": ready}})).unready_pod(
                &format!("agent-{name}"),
                name,
                running,
                json!({}),
            )
        },
    );
    let coverage = world.coverage();
    for (name, _, advice) in says {
        let group = coverage.problems.iter().find(|group| group.nodes.iter().any(|node| node == name)).unwrap();
        assert!(group.fix.advice.contains(advice), "{name}: {group:?}");
    }
}

/// An Advanced DaemonSet keeps a pod that has ended.
#[test]
fn a_pod_that_has_succeeded_is_recreated_by_one_of_the_controllers() {
    let ended = json!({"phase": "Succeeded", "containerStatuses": null});
    for (api_version, told) in [("apps/v1", "deletes and recreates it"), ("apps.kruise.io/v1alpha1", "leaves it alone")]
    {
        let world = world().daemon_set(json!({"apiVersion": api_version})).node("n", json!({}));
        let reasons = world.unready_pod("agent-x", "n", json!({}), json!({"status": ended})).only_node().reasons;
        assert!(reasons[0].message.contains(told), "{api_version}: {reasons:?}");
    }
}

/// What ends with its sandbox does not crash.
#[test]
fn containers_whose_sandbox_is_replaced_again_and_again_do_not_crash_by_themselves() {
    for (times, last, began, is_told) in [
        (213, "11:59:00", "11:58:30", true),
        (2, "11:59:00", "11:58:30", false),
        (213, "11:30:00", "11:29:30", false),
        // The network was down after the node had started, and the container crashes since.
        (5, "11:52:30", "11:58:30", false),
    ] {
        let ended = json!({"restartCount": 212, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 2, "startedAt": at(began), "finishedAt": at("11:59:00")}}});
        let says = "Pod sandbox changed, it will be killed and re-created.";
        let world = world().node("n", json!({})).unready_pod("agent-x", "n", ended.clone(), json!({}));
        let mut world = world.event("Pod", "agent-x", "SandboxChanged", says, last);
        world.snapshot.events.last_mut().unwrap().count = times;
        let reason = first(world);
        assert_eq!(reason.fix.advice.contains("cgroup driver"), is_told, "{times} {last} {reason:?}");
    }
}

/// The kubelet waits for the network, and mounts the volumes then.
#[test]
fn a_network_that_came_up_does_not_hide_the_volume_that_a_pod_waits_for() {
    for (mounted, expected) in [("11:59:50", R::MountFailed), ("11:22:00", R::SandboxFailed)] {
        let creating = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
        let world = world().node("n", json!({})).unready_pod("agent-x", "n", creating, json!({}));
        let says = "network is not ready: cni plugin not initialized";
        let world = world.event("Pod", "agent-x", "NetworkNotReady", says, "11:21:00");
        let says = "MountVolume.SetUp failed for volume \"v\" : secret \"token\" not found";
        assert_eq!(first(world.event("Pod", "agent-x", "FailedMount", says, mounted)).code, expected, "{mounted}");
    }
}

/// It was made after the newest time in it, which may be when a pod became ready.
#[test]
fn a_dump_without_a_time_believes_the_status_about_what_is_available() {
    for (available, is_estimated, is_available) in [(1, true, true), (0, true, false), (1, false, false)] {
        let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": at("12:00:00")}]);
        let daemon_set = json!({"spec": {"minReadySeconds": 6}, "status": {"numberAvailable": available}});
        let mut world = world().daemon_set(daemon_set).node("n", json!({}));
        world.snapshot.is_now_estimated = is_estimated;
        let node = world.pod("agent-x", "n", json!({"status": {"conditions": ready}})).only_node();
        assert_eq!(node.reasons.is_empty(), is_available, "{available} {is_estimated}: {node:?}");
    }
}
