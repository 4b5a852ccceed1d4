//! What the revision before would not do better either, and what nobody knows of it.

use serde_json::{Value, json};

use super::blame_test::{created, revisions, rolls_back, with_old, young};
use super::fault_test::{commands, status};
use crate::coverage::test_support::{World, at, world};
use crate::model::snapshot::PodsComplete;
use crate::report::rollout_status::{RolloutStatus, Suspect, SuspectKind};

const SINCE: &str = "11:46:00";

/// The template of a pod whose container has these fields beside its name and its image.
fn of(image: &str, fields: Value) -> Value {
    let mut container = json!({"name": "agent", "image": image});
    container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"containers": [container]})
}

fn with_variable(name: &str) -> Value {
    json!({"env": [{"name": name, "value": "x"}]})
}

fn waits(reason: &str, message: &str) -> Value {
    json!({"restartCount": 0, "state": {"waiting": {"reason": reason, "message": message}}})
}

fn crashes(message: &str, reason: &str) -> Value {
    json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 128, "reason": reason, "message": message, "finishedAt": at("11:59:00")}}})
}

fn since(time: &str) -> Value {
    json!({"metadata": {"creationTimestamp": at(time)}, "status": {"conditions": [
        {"type": "Ready", "status": "False", "lastTransitionTime": at(time)}]}})
}

fn blames_revision(status: &RolloutStatus) -> bool {
    status.suspect.as_ref().is_some_and(|suspect| suspect.what == SuspectKind::Revision)
}

/// A container is created from its image, its command and its security settings, whatever is in its environment.
#[test]
fn what_keeps_a_container_from_starting_in_both_revisions_is_not_the_fault_of_one() {
    let (plain, quiet) = (json!({}), with_variable("LOG_LEVEL"));
    let probe = json!({"livenessProbe": {"exec": {"command": ["true"]}}});
    let non_root = json!({"securityContext": {"runAsNonRoot": true}});
    let privileged = json!({"securityContext": {"procMount": "Default", "privileged": true}});
    let default_mount = json!({"securityContext": {"procMount": "Default"}});
    let default_policy = json!({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]});
    let both = |one: &Value, other: &Value| {
        let mut both = one.clone();
        both.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        both
    };
    let missing = "failed to create containerd task: exec: \"agent\": executable file not found in $PATH";
    let as_root = "container has runAsNonRoot and image will run as root";
    let device = "error during container init: nvidia-container-cli: device error: unknown device";
    for (image, before, after, state, is_revision) in [
        ("agent:1", &plain, &quiet, crashes(missing, "StartError"), false),
        ("agent:1", &plain, &probe, crashes(missing, "StartError"), false),
        ("agent:2", &plain, &plain, crashes(missing, "StartError"), true),
        ("agent:1", &plain, &json!({"command": ["agent"]}), crashes(missing, "StartError"), true),
        // What has run may have failed because of anything.
        ("agent:1", &plain, &quiet, crashes("panic: no level x", "Error"), true),
        ("agent:1", &plain, &privileged, crashes("panic: no level x", "Error"), true),
        // Another release of Kubernetes writes what is meant anyway.
        ("agent:1", &plain, &default_mount, crashes("panic: no level x", "Error"), false),
        ("agent:1", &plain, &default_policy, crashes("panic: no level x", "Error"), false),
        ("agent:1", &non_root, &both(&non_root, &quiet), waits("CreateContainerConfigError", as_root), false),
        ("agent:1", &plain, &non_root, waits("CreateContainerConfigError", as_root), true),
        ("agent:1", &plain, &quiet, waits("CreateContainerError", "something that nobody knows"), false),
        ("agent:2", &plain, &plain, waits("CreateContainerError", "something that nobody knows"), true),
        // A runtime reads which devices a container gets.
        ("agent:1", &plain, &with_variable("NVIDIA_VISIBLE_DEVICES"), waits("CreateContainerError", device), true),
    ] {
        let world = revisions(of("agent:1", before.clone()), of(image, after.clone())).node("b", json!({}));
        let mut pod = since(SINCE);
        pod["spec"] = of(image, after.clone());
        let status = status(with_old(world.unready_pod("agent-b", "b", state.clone(), pod), &["c", "d"]), &[]);
        assert_eq!(rolls_back(&status), is_revision, "{image} {after} {state}: {:?}", commands(&status));
        assert_eq!(blames_revision(&status), is_revision, "{image} {after} {state}: {:?}", status.suspect);
        assert_eq!(status.faults.unwrap().revision > 0, is_revision, "{image} {after} {state}");
    }
}

fn limited(memory: &str) -> Value {
    json!({"resources": {"limits": {"memory": memory}}})
}

fn probed(timeout: i64, failures: i64) -> Value {
    json!({"livenessProbe": {"exec": {"command": ["true"]}, "timeoutSeconds": timeout, "failureThreshold": failures}})
}

/// Pods that fail anyway are replaced first: a revision that was to help them is not why they fail.
#[test]
fn a_revision_that_only_gives_its_containers_more_is_not_to_blame() {
    let both = json!({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}});
    for (before, after, is_revision) in [
        (limited("256Mi"), limited("0.5Gi"), false),
        (limited("256Mi"), json!({}), false),
        (limited("512Mi"), limited("256Mi"), true),
        (json!({}), limited("256Mi"), true),
        (limited("1Gi"), both.clone(), true),
        (both, limited("1Gi"), false),
        (json!({"resources": {"requests": {"cpu": "10m"}}}), json!({"resources": {"requests": {"cpu": "1"}}}), false),
        (json!({"resources": {"requests": {"cpu": "1"}}}), json!({"resources": {"requests": {"cpu": "10m"}}}), true),
        (probed(1, 3), probed(5, 10), false),
        (probed(1, 3), json!({}), false),
        (probed(5, 3), probed(1, 3), true),
        (json!({}), probed(5, 3), true),
    ] {
        let (old, new) = (of("agent:1", before), of("agent:1", after.clone()));
        let world = revisions(old, new.clone()).node("b", json!({}));
        let mut pod = since(SINCE);
        pod["spec"] = new;
        let failing = crashes("panic: no level x", "Error");
        let status = status(with_old(world.unready_pod("agent-b", "b", failing, pod), &["c", "d"]), &[]);
        assert_eq!(blames_revision(&status), is_revision, "{after}: {:?}", status.suspect);
    }
}

#[test]
fn a_port_that_something_else_has_is_not_the_fault_of_a_revision_that_has_it_in_common() {
    let on = |host: bool, image: &str, container: &Value| {
        let mut spec = of(image, container.clone());
        spec["hostNetwork"] = json!(host);
        spec
    };
    let declared = json!({"ports": [{"containerPort": 9100, "hostPort": 9100}]});
    let argument = |port: u32| json!({"args": [format!("--web.listen-address=[$(IP)]:{port}")]});
    let probed =
        |port: u32| json!({"livenessProbe": {"httpGet": {"host": "10.1.0.1", "path": "/health", "port": port}}});
    let at_home = json!({"livenessProbe": {"httpGet": {"host": "localhost", "path": "/health", "port": 9100}}});
    let pod_ip = json!({"livenessProbe": {"httpGet": {"path": "/health", "port": 9100}}});
    let both = |one: &Value, other: &Value| {
        let mut both = one.clone();
        both.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        both
    };
    for (before, after, is_revision) in [
        (on(true, "agent:1", &declared), on(true, "agent:2", &declared), false),
        (on(true, "agent:1", &argument(9100)), on(true, "agent:2", &argument(9100)), false),
        (on(true, "agent:1", &probed(9100)), on(true, "agent:2", &probed(9100)), false),
        (on(true, "agent:1", &probed(9101)), on(true, "agent:2", &probed(9100)), true),
        // A new program may listen twice.
        (on(true, "agent:1", &pod_ip), on(true, "agent:2", &pod_ip), true),
        (on(false, "agent:1", &probed(9100)), on(true, "agent:2", &probed(9100)), true),
        (on(true, "agent:1", &argument(9101)), on(true, "agent:1", &argument(9100)), true),
        (on(true, "agent:1", &argument(91001)), on(true, "agent:1", &argument(9100)), true),
        (on(false, "agent:1", &argument(9100)), on(true, "agent:1", &argument(9100)), true),
        (on(false, "agent:1", &argument(9100)), on(false, "agent:2", &argument(9100)), true),
        (on(true, "agent:1", &at_home), on(true, "agent:2", &at_home), false),
        // What else is told to use it may take it.
        (on(true, "agent:1", &declared), on(true, "agent:2", &both(&declared, &argument(9100))), true),
        (on(true, "agent:1", &declared), on(true, "agent:2", &both(&declared, &argument(9199))), false),
    ] {
        let world = revisions(before, after.clone()).node("b", json!({}));
        let mut pod = since(SINCE);
        pod["spec"] = after.clone();
        let is_at_home = after["containers"][0]["livenessProbe"]["httpGet"]["host"] == "localhost";
        let address = if is_at_home { "127.0.0.1:9100" } else { "10.1.0.1:9100" };
        let failing = crashes(&format!("listen tcp {address}: bind: address already in use"), "Error");
        let mut world = with_old(world.unready_pod("agent-b", "b", failing, pod), &["c", "d"]);
        world.snapshot.pods_complete = PodsComplete::default();
        let status = status(world, &[]);
        assert_eq!(blames_revision(&status), is_revision, "{after}: {:?}", status.suspect);
    }
    let declaring = |port: u32| json!([{"name": "other", "ports": [{"containerPort": port, "hostPort": port}]}]);
    let taken = "listen tcp :9100: bind: address already in use";
    for (other, works, is_revision) in [(9101, false, false), (9100, false, false), (9101, true, false)] {
        let world = revisions(on(true, "agent:1", &declared), on(true, "agent:2", &declared)).node("b", json!({}));
        let mut pod = since(SINCE);
        pod["spec"] = on(true, "agent:2", &declared);
        let mut world = world.unready_pod("agent-b", "b", crashes(taken, "Error"), pod);
        world = world.other_pod("other-b", "b", json!({"spec": {"containers": declaring(other)}}));
        if works {
            world = world.node("e", json!({})).pod("agent-e", "e", young());
        }
        world.snapshot.pods_complete = PodsComplete::Everywhere;
        let status = status(with_old(world, &["c", "d"]), &[]);
        assert_eq!(blames_revision(&status), is_revision, "{other} {works}: {:?}", status.suspect);
    }
}

/// Pods of either revision look for it, and would not find it if they started now.
#[test]
fn what_both_revisions_mount_and_no_node_or_object_has_is_not_the_fault_of_one() {
    let on_node = |path: &str| ("hostPath", json!({"path": path}));
    let secret = |name: &str| ("secret", json!({"secretName": name}));
    let spec = |image: &str, at: &str, (kind, source): &(&str, Value), env: &str| {
        let mut spec = of(
            image,
            json!({"volumeMounts": [{"name": "v", "mountPath": at}], "env": [{"name": "KEYS", "value": env}]}),
        );
        spec["volumes"] = json!([{"name": "v", *kind: source}]);
        spec
    };
    let with = |spec: &Value, image: &str| {
        let mut spec = spec.clone();
        let mount = json!({"name": "v", "mountPath": "/run/x"});
        spec["containers"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "driver", "image": image, "volumeMounts": [mount]}));
        spec
    };
    let unmounted = |image: &str| of(image, json!({}));
    let pipe = "\\\\.\\pipe\\proxy";
    let (kmsg, run, keys) = (on_node("/dev/kmsg"), on_node("/run/x"), secret("keys"));
    let (no_kmsg, no_key) =
        ("open /dev/kmsg: no such file or directory", "open /etc/keys/a: no such file or directory");
    let no_pipe = "open \\\\.\\\\pipe\\\\proxy: The system cannot find the file specified.";
    let no_socket = "dial unix /run/x/a.sock: connect: no such file or directory";
    let refused = "dial unix /run/x/a.sock: connect: connection refused";
    let socket = "--socket=unix:///run/x/a.sock";
    let with_init = |mut spec: Value| {
        let mount = json!({"name": "v", "mountPath": "/out"});
        spec["initContainers"] = json!([{"name": "prepare", "image": "prepare:1", "volumeMounts": [mount]}]);
        spec
    };
    let in_field = |mut spec: Value, field: &str, value: &str| {
        spec["containers"][0]["volumeMounts"][0][field] = json!(value);
        spec
    };
    let tolerating = |mut spec: Value, key: &str| {
        spec["tolerations"] = json!([{"key": key, "operator": "Exists"}]);
        spec
    };
    for (before, after, said, is_revision) in [
        (spec("agent:1", "/dev/kmsg", &kmsg, ""), spec("agent:2", "/dev/kmsg", &kmsg, ""), no_kmsg, false),
        (spec("agent:1", pipe, &on_node(pipe), ""), spec("agent:2", pipe, &on_node(pipe), ""), no_pipe, false),
        (spec("agent:1", "/run/x", &run, socket), spec("agent:2", "/run/x", &run, socket), no_socket, false),
        // A new program may look for another file.
        (spec("agent:1", "/run/x", &run, "/run/x"), spec("agent:2", "/run/x", &run, "/run/x"), no_socket, true),
        (spec("agent:1", "/run/x", &run, ""), spec("agent:2", "/run/x", &run, socket), no_socket, true),
        // Another path of the node is mounted, or none.
        (spec("agent:1", "/dev/kmsg", &run, ""), spec("agent:2", "/dev/kmsg", &kmsg, ""), no_kmsg, true),
        (unmounted("agent:1"), spec("agent:2", "/dev/kmsg", &kmsg, ""), no_kmsg, true),
        (unmounted("agent:1"), unmounted("agent:2"), no_kmsg, true),
        // Another container may serve it.
        (
            with(&spec("agent:1", "/run/x", &run, socket), "driver:1"),
            with(&spec("agent:1", "/run/x", &run, socket), "driver:2"),
            no_socket,
            true,
        ),
        (
            with(&spec("agent:1", "/run/x", &run, socket), "driver:1"),
            with(&spec("agent:2", "/run/x", &run, socket), "driver:1"),
            no_socket,
            false,
        ),
        (
            with(&spec("agent:1", "/run/x", &run, socket), "driver:1"),
            spec("agent:1", "/run/x", &run, socket),
            no_socket,
            true,
        ),
        (with_init(spec("agent:1", "/run/x", &run, socket)), spec("agent:1", "/run/x", &run, socket), no_socket, true),
        // A new program may serve it itself.
        (spec("agent:1", "/run/x", &run, socket), spec("agent:2", "/run/x", &run, socket), refused, true),
        (
            in_field(spec("agent:1", "/run/x", &run, socket), "subPathExpr", "$(NODE)"),
            spec("agent:2", "/run/x", &run, socket),
            no_socket,
            true,
        ),
        (
            in_field(spec("agent:1", "/run/x", &run, socket), "mountPropagation", "HostToContainer"),
            spec("agent:2", "/run/x", &run, socket),
            no_socket,
            true,
        ),
        // The node is tainted with x.
        (
            spec("agent:1", "/run/x", &run, socket),
            tolerating(spec("agent:1", "/run/x", &run, socket), "x"),
            no_socket,
            true,
        ),
        (
            tolerating(spec("agent:1", "/run/x", &run, socket), "x"),
            tolerating(spec("agent:2", "/run/x", &run, socket), "x"),
            no_socket,
            false,
        ),
        // The object was not read.
        (
            spec("agent:1", "/etc/keys", &keys, "/etc/keys"),
            spec("agent:2", "/etc/keys", &keys, "/etc/keys"),
            no_key,
            true,
        ),
        (
            spec("agent:1", "/etc/keys", &keys, "/etc/keys/a"),
            spec("agent:2", "/etc/keys", &keys, "/etc/keys/a"),
            no_key,
            false,
        ),
        (
            spec("agent:1", "/etc/keys", &secret("k"), "/etc/keys"),
            spec("agent:2", "/etc/keys", &keys, "/etc/keys"),
            no_key,
            true,
        ),
        (
            spec("agent:1", "/etc/keys", &keys, "/etc/keys/b"),
            spec("agent:2", "/etc/keys", &keys, "/etc/keys/a"),
            no_key,
            true,
        ),
        (spec("agent:1", "/etc/keys", &keys, ""), spec("agent:2", "/etc/keys", &keys, ""), no_key, true),
    ] {
        let is_tainted = after["tolerations"].is_array();
        let taints = json!([{"key": "x", "effect": "NoSchedule"}]);
        let node = if is_tainted { json!({"spec": {"taints": taints}}) } else { json!({}) };
        let world = revisions(before, after.clone()).node("b", node);
        let mut pod = since(SINCE);
        pod["spec"] = after.clone();
        let status = status(with_old(world.unready_pod("agent-b", "b", crashes(said, "Error"), pod), &["c", "d"]), &[]);
        assert_eq!(blames_revision(&status), is_revision, "{said} {after}: {:?}", status.suspect);
    }
    // Older pods of an object that has not been changed since have started with it.
    for (changed, is_revision) in [("11:00:00", true), ("11:40:00", false)] {
        let of_image = |image: &str| spec(image, "/etc/keys", &keys, "/etc/keys");
        let mut world = revisions(of_image("agent:1"), of_image("agent:2")).node("b", json!({}));
        let metadata = json!({"name": "keys", "namespace": "default", "creationTimestamp": at("07:00:00"),
            "managedFields": [{"time": at(changed), "fieldsV1": {"f:data": {}}}]});
        world.snapshot.secrets.push(serde_json::from_value(json!({"metadata": metadata})).unwrap());
        let mut pod = since(SINCE);
        pod["spec"] = of_image("agent:2");
        let status =
            status(with_old(world.unready_pod("agent-b", "b", crashes(no_key, "Error"), pod), &["c", "d"]), &[]);
        assert_eq!(blames_revision(&status), is_revision, "{changed}: {:?}", status.suspect);
    }
}

/// The resolv.conf of a node, and the way to the API server, which no image changes.
#[test]
fn what_a_node_gives_to_every_program_is_not_the_fault_of_an_image() {
    let in_loop = "[FATAL] plugin/loop: Loop (169.254.25.10:46893 -> 169.254.25.10:53) detected for zone \".\"";
    let api = "Get \"https://10.96.0.1:443/api/v1/nodes/n\": dial tcp 10.96.0.1:443: i/o timeout";
    let intake = "Post \"https://intake.example.com/api/v1/check\": dial tcp 10.4.0.8:443: i/o timeout";
    let named = "[https://docs.example.com] Get \"https://a.hcp.example.com:443/api/v1/nodes/n\": dial tcp 20.103.7.9:443: i/o timeout";
    let public = "Post \"https://20.103.7.9/api/v1/check\": dial tcp 20.103.7.9:443: i/o timeout";
    let with = |image: &str, policy: &str, host: &str| {
        let mut spec = of(image, json!({"env": [{"name": "KUBERNETES_SERVICE_HOST", "value": host}]}));
        spec["dnsPolicy"] = json!(policy);
        spec
    };
    for (before, after, said, is_revision) in [
        (with("agent:1", "Default", ""), with("agent:2", "Default", ""), in_loop, false),
        (with("agent:1", "ClusterFirst", ""), with("agent:2", "Default", ""), in_loop, true),
        (with("agent:1", "Default", ""), with("agent:2", "Default", ""), api, false),
        (with("agent:1", "Default", ""), with("agent:2", "Default", "10.96.0.1"), api, true),
        (with("agent:1", "Default", ""), with("agent:2", "Default", ""), named, false),
        (with("agent:1", "Default", ""), with("agent:2", "Default", ""), public, true),
        (with("agent:1", "Default", ""), with("agent:2", "ClusterFirst", ""), api, true),
        (with("agent:1", "Default", ""), with("agent:2", "Default", ""), "dial tcp 10.4.0.8:5432: i/o timeout", true),
        // Another server has an API, too, and which one is asked, or forwarded to, the template may say.
        (with("agent:1", "Default", ""), with("agent:2", "Default", ""), intake, true),
        (
            with("agent:1", "Default", "x.old"),
            with("agent:1", "Default", "x.new"),
            "dial tcp 10.4.0.8:443: i/o timeout",
            true,
        ),
        (with("agent:1", "Default", ""), with("agent:2", "Default", ""), "dial tcp 10.4.0.8:443: i/o timeout", false),
        (with("agent:1", "Default", "kube-dns-upstream"), with("agent:1", "Default", "kube-dns"), in_loop, true),
    ] {
        let world = revisions(before, after.clone()).node("b", json!({}));
        let mut pod = since(SINCE);
        pod["spec"] = after.clone();
        let status = status(with_old(world.unready_pod("agent-b", "b", crashes(said, "Error"), pod), &["c", "d"]), &[]);
        assert_eq!(blames_revision(&status), is_revision, "{said} {after}: {:?}", status.suspect);
    }
}

/// Another process, a server or a file, which a program finds by what it is told.
#[test]
fn what_a_program_finds_outside_of_its_pod_is_not_the_fault_of_an_image() {
    let with = |image: &str, argument: &str, is_read_only: bool| {
        let mut spec = of(
            image,
            json!({"args": [argument],
            "volumeMounts": [{"name": "d", "mountPath": "/var/lib/agent", "readOnly": is_read_only}]}),
        );
        spec["volumes"] = json!([{"name": "d", "hostPath": {"path": "/var/lib/agent"}}]);
        spec
    };
    let templates = || {
        [
            (with("agent:1", "a", false), with("agent:2", "a", false)),
            (with("agent:1", "a", false), with("agent:2", "b", false)),
            (with("agent:1", "a", false), with("agent:2", "a", true)),
        ]
    };
    let expired = "x509: certificate has expired or is not yet valid: current time 2026-11-30T11:58:00Z is after 2026-11-30T11:20:00Z";
    let unanswered = "lookup config.example on 10.96.0.10:53: read udp 10.2.3.7:41234->10.96.0.10:53: i/o timeout";
    let [always, unless_told, unless_told_or_mounted] = [[true; 3], [false, true, false], [false, true, true]];
    for (said, is_revision) in [
        ("cp: cannot create regular file '/host/opt/cni/bin/x': Text file busy", unless_told_or_mounted),
        (expired, unless_told_or_mounted),
        ("open /var/lib/agent/state.json: read-only file system", unless_told_or_mounted),
        ("open /etc/agent/state.json: read-only file system", always),
        (
            "failed to open database: lock /var/lib/agent/db/LOCK: resource temporarily unavailable",
            unless_told_or_mounted,
        ),
        ("could not lock /var/lib/agent/pid: already locked", unless_told_or_mounted),
        ("failed to lock memory: cannot allocate memory", always),
        // What reaches no server does not depend on files.
        (unanswered, unless_told),
        ("lookup config.example on 10.96.0.10:53: server misbehaving", unless_told_or_mounted),
        ("lookup config.example on 10.96.0.10:53: no such host", always),
        ("write /var/lib/agent/wal: disk quota exceeded", [false, false, true]),
        ("panic: no level x", always),
    ] {
        let templates = templates().into_iter().zip(is_revision);
        for ((before, after), is_revision) in templates {
            let world = revisions(before, after.clone()).node("b", json!({}));
            let mut pod = since(SINCE);
            pod["spec"] = after.clone();
            let world = world.unready_pod("agent-b", "b", crashes(said, "Error"), pod);
            let status = status(with_old(world, &["c", "d"]), &[]);
            assert_eq!(blames_revision(&status), is_revision, "{said} {after}: {:?}", status.suspect);
        }
    }
}

/// A restart that does not find free what it needs shows no change of what it reads.
#[test]
fn a_restart_that_finds_something_taken_tells_of_no_change() {
    let busy = "cp: cannot create regular file '/host/opt/cni/bin/x': Text file busy";
    for (said, expected) in [(busy, None), ("panic: no level x", Some(SuspectKind::Surroundings))] {
        let mut world = world();
        world.snapshot.controller_revisions.clear();
        let world = world.revision_of_template("hash1", 1);
        let restart =
            json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "x"}}}}});
        let mut world = world.daemon_set(restart).revision_of_template("hash2", 2);
        created(&mut world, 1, "11:45:00");
        let world = world.node("b", json!({})).unready_pod("agent-b", "b", crashes(said, "Error"), since(SINCE));
        let status = status(with_old(world, &["c", "d"]), &[]);
        assert_eq!(status.suspect.as_ref().map(|it| it.what), expected, "{said}");
    }
}

/// A container that did not change fails by itself, whatever runs beside it.
#[test]
fn what_another_container_changes_is_not_why_one_fails_by_itself() {
    let with = |image: &str, mounts: Value, own: &str| {
        let mut spec = of(
            own,
            json!({"resources": {"limits": {"memory": "100Mi"}}, "volumeMounts": [{"name": "d", "mountPath": "/d"}]}),
        );
        let exporter = json!({"name": "exporter", "image": image, "volumeMounts": mounts});
        spec["containers"].as_array_mut().unwrap().push(exporter);
        spec["volumes"] = json!([{"name": "d", "emptyDir": {}}]);
        spec
    };
    let shared = || json!([{"name": "d", "mountPath": "/d"}]);
    let killed = || {
        json!({"name": "agent", "restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": at("11:59:00")}}})
    };
    let crash = |said: &str| crashes(said, "Error");
    for (before, after, state, is_revision) in [
        (with("e:1", json!([]), "agent:1"), with("e:2", json!([]), "agent:1"), killed(), false),
        (with("e:1", json!([]), "agent:1"), with("e:2", json!([]), "agent:2"), killed(), true),
        (with("e:1", shared(), "agent:1"), with("e:2", shared(), "agent:1"), killed(), true),
        (
            with("e:1", json!([]), "agent:1"),
            with("e:2", json!([]), "agent:1"),
            crash("dial tcp 10.1.1.1:5432: connect: connection refused"),
            false,
        ),
        (
            with("e:1", json!([]), "agent:1"),
            with("e:2", json!([]), "agent:1"),
            crash("dial tcp 127.0.0.1:5432: connect: connection refused"),
            true,
        ),
        (with("e:1", json!([]), "agent:1"), with("e:2", json!([]), "agent:1"), crash(""), true),
    ] {
        let world = revisions(before, after.clone()).node("b", json!({}));
        let mut pod = since(SINCE);
        pod["spec"] = after.clone();
        let status = status(with_old(world.unready_pod("agent-b", "b", state.clone(), pod), &["c", "d"]), &[]);
        assert_eq!(blames_revision(&status), is_revision, "{after} {state}: {:?}", status.suspect);
    }
}

/// A plugin for the network cannot become ready on a node that something else keeps from it.
#[test]
fn a_node_that_was_not_ready_before_the_rollout_is_to_blame_itself() {
    let of = |image: &str| {
        let mut spec = of(image, json!({}));
        spec["hostNetwork"] = json!(true);
        spec
    };
    for (lost, is_of_node) in [("11:40:00", true), ("11:46:30", false)] {
        let ready = json!([{"type": "Ready", "status": "False", "reason": "KubeletNotReady", "lastTransitionTime": at(lost),
            "message": "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady"}]);
        let (old, new) = (of("agent:1"), of("agent:2"));
        let world = revisions(old, new.clone()).node("b", json!({"status": {"conditions": ready}}));
        let mut pod = since(SINCE);
        pod["spec"] = new;
        let failing = crashes("panic: no level x", "Error");
        let status = status(with_old(world.unready_pod("agent-b", "b", failing, pod), &["c", "d"]), &[]);
        let blames_node = status.suspect.as_ref().is_some_and(|suspect| suspect.what == SuspectKind::Nodes);
        assert_eq!(blames_node, is_of_node, "{lost}: {:?}", status.suspect);
    }
}

/// A container starts after the init containers.
#[test]
fn an_init_container_does_not_fail_because_of_what_starts_later() {
    let of = |image: &str, init: &str, account: &str| {
        let mut spec = of(image, json!({}));
        spec["initContainers"] = json!([{"name": "install", "image": init}]);
        spec["serviceAccountName"] = json!(account);
        spec
    };
    for (after, is_revision) in [
        (of("agent:2", "install:1", "a"), false),
        (of("agent:2", "install:2", "a"), true),
        (of("agent:2", "install:1", "b"), true),
    ] {
        let mut pod = since(SINCE);
        pod["spec"] = after.clone();
        let mut failing = crashes("cp: Permission denied", "Error");
        failing["name"] = json!("install");
        pod["status"]["initContainerStatuses"] = json!([failing]);
        let world = revisions(of("agent:1", "install:1", "a"), after.clone()).node("b", json!({}));
        let pending = json!({"restartCount": 0, "state": {"waiting": {"reason": "PodInitializing"}}});
        let status = status(with_old(world.unready_pod("agent-b", "b", pending, pod), &["c", "d"]), &[]);
        assert_eq!(blames_revision(&status), is_revision, "{after}: {:?}", status.problems);
    }
}

/// The kubelet goes through the containers one after the other, and says what it begins.
#[test]
fn what_comes_before_a_changed_container_does_not_fail_because_of_it() {
    let of = |install: &str, agent: &str, exporter: &str, group: i64| {
        json!({"securityContext": {"fsGroup": group}, "initContainers": [{"name": "install", "image": install}],
            "containers": [{"name": "agent", "image": agent}, {"name": "exporter", "image": exporter}]})
    };
    let before = || of("install:1", "agent:1", "exporter:1", 1);
    let agent = || of("install:1", "agent:2", "exporter:1", 1);
    let waits = |reason: &str| json!({"waiting": {"reason": reason}});
    let (creating, runs, done) =
        (waits("ContainerCreating"), json!({"running": {}}), json!({"terminated": {"exitCode": 0}}));
    let starting = || [done.clone(), creating.clone(), creating.clone()];
    let fresh = || [waits("PodInitializing"), waits("PodInitializing"), waits("PodInitializing")];
    let blocked = || [runs.clone(), waits("PodInitializing"), waits("PodInitializing")];
    let beside = |last: &Value| [done.clone(), runs.clone(), last.clone()];
    let fails = waits("CreateContainerError");
    for (after, states, said, is_revision) in [
        (agent(), blocked(), None, false),
        (of("install:2", "agent:1", "exporter:1", 1), blocked(), None, true),
        (agent(), starting(), Some(("Pulling", "exporter")), false),
        (agent(), starting(), Some(("Created", "exporter")), false),
        (agent(), starting(), Some(("Pulling", "agent")), true),
        (agent(), starting(), Some(("Started", "install")), true),
        (agent(), fresh(), Some(("FailedKillPod", "")), false),
        (of("install:1", "agent:1", "exporter:1", 2), fresh(), Some(("FailedKillPod", "")), true),
        // Nothing tells what the kubelet is about.
        (agent(), starting(), None, true),
        (agent(), beside(&fails), None, false),
        (of("install:1", "agent:1", "exporter:2", 1), beside(&fails), None, true),
        // It ends by itself.
        (agent(), beside(&done), None, false),
    ] {
        let mut pod = since(SINCE);
        pod["spec"] = after.clone();
        let [init, first, last] = states.clone();
        pod["status"]["initContainerStatuses"] = json!([{"name": "install", "ready": false, "state": init}]);
        pod["status"]["containerStatuses"] = json!([{"name": "agent", "ready": false, "state": first},
            {"name": "exporter", "ready": false, "state": last}]);
        let mut world = revisions(before(), after.clone()).node("b", json!({})).pod("agent-b", "b", pod);
        if let Some((reason, container)) = said {
            world = world.event("Pod", "agent-b", reason, "it says", "11:59:00");
            let field = if container.is_empty() { String::new() } else { format!("spec.containers{{{container}}}") };
            world.snapshot.events[0].involved_object.field_path = field;
        }
        let status = status(with_old(world, &["c", "d"]), &[]);
        assert_eq!(blames_revision(&status), is_revision, "{after} {states:?} {said:?}: {:?}", status.problems);
    }
}

/// A scheduler reads no images, and binds every pod in the same way.
#[test]
fn what_a_scheduler_does_not_read_is_not_why_it_fails() {
    let with = |image: &str, field: &str, value: Value| {
        let mut spec = of(image, json!({}));
        spec[field] = value;
        spec
    };
    let plain = |image: &str| of(image, json!({}));
    let volume = |class: &str| {
        json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"],
            "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}}}}}])
    };
    let gate = || json!([{"name": "example.com/gate"}]);
    let tolerations = || json!([{"key": "x", "operator": "Exists"}]);
    let bind = "running Bind plugin \"DefaultBinder\": etcdserver: request timed out";
    let filter = "running \"Queue\" filter plugin: no answer";
    let only = |reason: &str| {
        format!("0/3 nodes are available: 1 {reason}, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].")
    };
    let (queue, storage) = (only("node(s) queue is full"), only("node(s) did not have enough free storage"));
    let (queue, storage) = (queue.as_str(), storage.as_str());
    for (before, after, reason, said, is_revision) in [
        (plain("agent:1"), with("agent:2", "tolerations", tolerations()), "SchedulerError", bind, false),
        (plain("agent:1"), with("agent:2", "schedulerName", json!("second")), "SchedulerError", bind, true),
        (plain("agent:1"), plain("agent:2"), "SchedulerError", filter, false),
        (plain("agent:1"), with("agent:2", "tolerations", tolerations()), "SchedulerError", filter, true),
        (plain("agent:1"), plain("agent:2"), "Unschedulable", queue, false),
        (plain("agent:1"), with("agent:2", "priorityClassName", json!("high")), "Unschedulable", queue, true),
        (
            with("agent:1", "volumes", volume("a")),
            with("agent:2", "volumes", volume("a")),
            "Unschedulable",
            storage,
            false,
        ),
        (
            with("agent:1", "volumes", volume("b")),
            with("agent:2", "volumes", volume("a")),
            "Unschedulable",
            storage,
            true,
        ),
        (
            with("agent:1", "schedulingGates", gate()),
            with("agent:2", "schedulingGates", gate()),
            "SchedulingGated",
            "",
            false,
        ),
        (plain("agent:1"), with("agent:2", "schedulingGates", gate()), "SchedulingGated", "", true),
    ] {
        let mut pod = json!({"metadata": {"creationTimestamp": at(SINCE)}, "status": {"conditions": [{"type": "PodScheduled",
            "status": "False", "reason": reason, "message": said, "lastTransitionTime": at("11:57:00")}]}});
        pod["spec"] = after.clone();
        let world = revisions(before.clone(), after.clone()).node("b", json!({}));
        let status = status(with_old(world.pending_pod("agent-b", "b", said, pod), &["c", "d"]), &[]);
        assert_eq!(blames_revision(&status), is_revision, "{before} {after} {said}: {:?}", status.problems);
    }
}

/// Rules about other pods that the revision before has, too.
#[test]
fn a_rule_about_other_pods_in_both_revisions_is_not_the_fault_of_one() {
    let spread = |skew: i64| {
        json!([{"maxSkew": skew, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "nodeAffinityPolicy": "Ignore", "labelSelector": {"matchLabels": {"app": "agent"}}}])
    };
    for (before, after, is_revision) in [(1, 1, false), (2, 1, true)] {
        let of = |image: &str, skew: i64| {
            let mut spec = of(image, json!({}));
            spec["topologySpreadConstraints"] = spread(skew);
            spec
        };
        let world = revisions(of("agent:1", before), of("agent:2", after));
        let zone = |world: World, name: &str, zone: &str| {
            let labels = json!({"metadata": {"labels": {"zone": zone}}, "spec": {}});
            let mut pod = super::fault_test::old();
            pod["spec"] = of("agent:1", before);
            let world = world.node(name, labels);
            if name == "b" { world } else { world.pod(&format!("agent-{name}"), name, pod) }
        };
        let nodes = [("b", "z1"), ("c", "z1"), ("d", "z1"), ("e", "z2")];
        let world = nodes.iter().fold(world, |world, (name, value)| zone(world, name, value));
        let mut pod = json!({"metadata": {"creationTimestamp": at(SINCE)}});
        pod["spec"] = of("agent:2", after);
        let says = "0/4 nodes are available: 1 node(s) didn't match pod topology spread constraints, 3 node(s) didn't match Pod's node affinity/selector.";
        let status = status(world.pending_pod("agent-b", "b", says, pod), &[]);
        assert_eq!(blames_revision(&status), is_revision, "{before} {after}: {status:?}");
    }
}

/// Without another revision, nothing says that one with other requests fits.
#[test]
fn the_only_revision_is_not_to_blame_for_what_a_kubelet_rejects_on_one_node() {
    for reason in ["TopologyAffinityError", "SMTAlignmentError"] {
        let rejected = || {
            json!({"metadata": {"creationTimestamp": at("11:58:00")}, "status": {"phase": "Failed", "reason": reason,
                "containerStatuses": null, "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:58:00")}]}})
        };
        let suspect = |world: World| -> Option<Suspect> {
            let world = world.node("b", json!({})).pod("agent-b", "b", rejected());
            let works = ["c", "d", "e"]
                .iter()
                .fold(world, |world, node| world.node(node, json!({})).pod(&format!("agent-{node}"), node, young()));
            status(works, &[]).suspect
        };
        let requesting = |cpu: &str| of("agent:1", json!({"resources": {"requests": {"cpu": cpu}}}));
        let mut only = revisions(requesting("1"), requesting("1"));
        only.snapshot.controller_revisions.remove(0);
        let told = suspect(only).unwrap();
        // The controller recreates such a pod every few minutes: since when it is rejected is not known.
        assert_eq!((told.what, told.works_since_before), (SuspectKind::Nodes, false), "{reason}");
        assert_eq!(suspect(revisions(requesting("1"), requesting("2"))).unwrap().what, SuspectKind::Revision);
        assert_eq!(suspect(revisions(requesting("2"), requesting("2"))).unwrap().what, SuspectKind::Nodes);
    }
}

/// Once all pods are replaced, that the revision before ran on a kind of node for long still tells.
#[test]
fn a_revision_that_fails_on_all_nodes_of_a_kind_is_to_blame_after_its_rollout_too() {
    let arch = |name: &str| json!({"status": {"nodeInfo": {"architecture": name}}});
    for (failing, joined, began, expected) in [
        (&["arm64", "arm64"][..], "08:00:00", "09:00:00", SuspectKind::Revision),
        // It may be a node.
        (&["arm64"], "08:00:00", "09:00:00", SuspectKind::Nodes),
        (&["arm64", "amd64"], "08:00:00", "09:00:00", SuspectKind::Nodes),
        // Nobody knows whether the one before ran there, or for long.
        (&["arm64", "arm64"], "11:50:00", "09:00:00", SuspectKind::Nodes),
        (&["arm64", "arm64"], "08:00:00", "11:30:00", SuspectKind::Nodes),
    ] {
        let mut world = revisions(of("agent:1", json!({})), of("agent:2", json!({})));
        created(&mut world, 0, began);
        for (number, kind) in failing.iter().enumerate() {
            let name = format!("f{number}");
            let mut node = arch(kind);
            node["metadata"] = json!({"creationTimestamp": at(joined)});
            world = world.node(&name, node).unready_pod(
                &format!("agent-{name}"),
                &name,
                crashes("", "Error"),
                since(SINCE),
            );
        }
        for name in ["c", "d", "e"] {
            world = world.node(name, arch("amd64")).pod(&format!("agent-{name}"), name, young());
        }
        let status = status(world, &[]);
        assert_eq!(
            status.suspect.as_ref().unwrap().what,
            expected,
            "{failing:?} {joined} {began}: {:?}",
            status.suspect
        );
        assert_eq!(rolls_back(&status), expected == SuspectKind::Revision, "{failing:?} {joined} {began}");
    }
}

/// The controller replaces pods that are not available first.
#[test]
fn a_revision_that_only_new_nodes_have_is_not_known_to_fail() {
    for (joined, others, is_blamed) in [
        ("11:40:00", "10:00:00", false),
        ("11:50:00", "10:00:00", false),
        // It has been there for long, or so have the others not.
        ("10:30:00", "10:00:00", true),
        ("11:40:00", "11:41:00", true),
    ] {
        let mut world = revisions(of("agent:1", json!({})), of("agent:2", json!({})));
        let of_time = |time: &str| json!({"metadata": {"creationTimestamp": at(time)}});
        world = world.node("b", of_time(joined)).unready_pod("agent-b", "b", crashes("", "Error"), since(SINCE));
        for name in ["c", "d"] {
            world = world.node(name, of_time(others)).pod(&format!("agent-{name}"), name, super::fault_test::old());
        }
        let status = status(world, &[]);
        assert_eq!(blames_revision(&status), is_blamed, "{joined} {others}: {:?}", status.suspect);
        assert_eq!(rolls_back(&status), is_blamed, "{joined} {others}: {:?}", commands(&status));
    }
}

/// Nothing speaks for rolling it out further, and the other nodes are spared if it is rolled back.
#[test]
fn a_paused_revision_that_works_nowhere_is_rolled_back_rather_than_rolled_out() {
    let of_time = |time: &str| json!({"metadata": {"creationTimestamp": at(time)}});
    for (failing, expected) in [
        (&["x", "y"][..], &["undo", "once partition", "once resume"][..]),
        (&["x"], &["once partition", "once resume"]),
        (&[], &["partition", "resume"]),
    ] {
        let original = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 3}}).to_string();
        let held = json!({"metadata": {"annotations": {"kubectl-ds/original-update-strategy": original,
            "kubectl-ds/held-since": at("11:44:00")}}, "spec": {"updateStrategy": {"type": "OnDelete"}}});
        let mut world = revisions(of("agent:1", json!({})), of("agent:2", json!({}))).daemon_set(held);
        for name in failing {
            let pod = since("11:50:00");
            world = world.node(name, of_time("11:50:00"));
            world = world.unready_pod(&format!("agent-{name}"), name, crashes("", "Error"), pod);
        }
        for name in ["c", "d", "e"] {
            world = world.node(name, of_time("10:00:00")).pod(&format!("agent-{name}"), name, super::fault_test::old());
        }
        let snapshot = world.finish();
        let told = crate::rollout::status::rollout_status(&snapshot, None).daemon_sets.remove(0);
        let verbs = told.way_out.iter().map(|fix| {
            let condition = if fix.advice.contains("once ") { "once " } else { "" };
            format!("{condition}{}", fix.command.as_ref().unwrap().verbs().1)
        });
        assert_eq!(verbs.collect::<Vec<_>>(), expected, "{:?}", told.way_out);
    }
}

/// Newer nodes may have another kernel than those on which it works.
#[test]
fn a_revision_that_works_on_older_nodes_is_not_known_to_fail_on_those_that_joined_since() {
    // How many older nodes have it, and when the others joined; whether a rollback is suggested, and with a doubt.
    for (older, joined, rolls_back_to, is_doubted) in [
        (1, "11:40:00", false, false),
        (3, "11:40:00", false, false),
        (0, "11:40:00", true, true),
        (0, "08:00:00", true, false),
    ] {
        let mut world = revisions(of("agent:1", json!({})), of("agent:2", json!({})));
        created(&mut world, 0, "06:00:00");
        created(&mut world, 1, "10:00:00");
        let of_time = |time: &str| json!({"metadata": {"creationTimestamp": at(time)}});
        for name in ["f", "g", "h"] {
            let pod = since(if joined == "08:00:00" { "10:01:00" } else { "11:41:00" });
            let mut node = of_time(joined);
            node["metadata"]["labels"] = json!({"pool": "new"});
            world = world.node(name, node).unready_pod(&format!("agent-{name}"), name, crashes("", "Error"), pod);
        }
        for name in ["c", "d", "e"].into_iter().take(older) {
            world = world.node(name, of_time("05:00:00")).pod(&format!("agent-{name}"), name, young());
        }
        let status = status(world, &[]);
        assert_eq!(rolls_back(&status), rolls_back_to, "{older} {joined}: {:?}", commands(&status));
        let says = format!("{status:?}");
        assert_eq!(says.contains("unless the nodes are at fault"), is_doubted, "{older} {joined}: {says}");
        let by_nodes = status.suspect.filter(|suspect| suspect.what == SuspectKind::Nodes);
        let pool = by_nodes.and_then(|suspect| suspect.on).map(|on| on.value);
        assert_eq!(pool.as_deref(), Some("new").filter(|_| older > 0), "{older} {joined}");
    }
}

/// Another DaemonSet that is to replace this one, or one for the same purpose, takes the port of any revision.
#[test]
fn a_port_that_another_pod_took_after_the_rollout_is_not_the_fault_of_the_revision() {
    for (taken, is_blamed) in [("11:45:00", false), ("09:00:00", true)] {
        let mut world = revisions(of("agent:1", json!({})), of("agent:2", json!({})));
        created(&mut world, 0, "06:00:00");
        created(&mut world, 1, "11:00:00");
        let said = crashes("listen tcp :9100: bind: address already in use", "Error");
        let ports = json!([{"name": "green", "ports": [{"containerPort": 9100, "hostPort": 9100}]}]);
        for name in ["a", "b", "c"] {
            let mut pod = since("11:46:00");
            pod["spec"] = json!({"hostNetwork": true});
            let green = json!({"metadata": {"creationTimestamp": at(taken)}, "spec": {"containers": ports}});
            world = world.node(name, json!({})).unready_pod(&format!("agent-{name}"), name, said.clone(), pod);
            world = world.other_pod(&format!("green-{name}"), name, green);
        }
        for name in ["x", "y"] {
            world = world.node(name, json!({})).pod(&format!("agent-{name}"), name, super::fault_test::old());
        }
        let status = status(world, &[]);
        assert_eq!(blames_revision(&status), is_blamed, "{taken}: {:?}", status.suspect);
        assert_eq!(rolls_back(&status), is_blamed, "{taken}: {:?}", commands(&status));
    }
}

/// What every pod reads that starts, whatever its revision.
#[test]
fn a_configmap_that_was_changed_since_all_working_pods_started_is_named() {
    let spec = |image: &str| {
        let mut spec = of(image, json!({"volumeMounts": [{"name": "files", "mountPath": "/etc/agent"}]}));
        spec["volumes"] = json!([{"name": "files", "configMap": {"name": "files"}}]);
        spec
    };
    // Old pods were created at 09:00, and the rollout began at 11:45.
    for (changed, image, working, expected, rolls_back_with) in [
        // A pod of this revision works, or this is none: it is not the revision.
        (Some("11:45:45"), "agent:2", Some("11:45:30"), Some(SuspectKind::Configuration), None),
        (Some("11:45:45"), "agent:1", None, Some(SuspectKind::Configuration), None),
        // It may be either.
        (Some("11:40:00"), "agent:2", None, Some(SuspectKind::Revision), Some("leaves ConfigMap files as it is")),
        // A pod that has started since works.
        (Some("11:45:00"), "agent:2", Some("11:45:30"), None, Some("to roll back")),
        (Some("11:45:45"), "agent:2", Some("11:50:00"), None, Some("to roll back")),
        // Older pods had read it, too.
        (Some("08:00:00"), "agent:2", None, Some(SuspectKind::Revision), Some("to roll back")),
        // It began to fail before.
        (Some("11:59:30"), "agent:2", None, Some(SuspectKind::Revision), Some("to roll back")),
        // When it was changed is not known.
        (None, "agent:2", None, Some(SuspectKind::Revision), Some("to roll back")),
    ] {
        let mut pod = since(SINCE);
        pod["spec"] = spec(image);
        let mut world = revisions(spec("agent:1"), spec(image)).node("b", json!({}));
        world = world.unready_pod("agent-b", "b", crashes("error: files", "Error"), pod);
        if let Some(time) = working {
            let pod = json!({"metadata": {"creationTimestamp": at(time)}, "spec": spec(image)});
            world = world.node("e", json!({})).pod("agent-e", "e", pod);
        }
        let mut metadata = json!({"name": "files", "namespace": "default", "creationTimestamp": at("07:00:00")});
        if let Some(changed) = changed {
            metadata["managedFields"] = json!([{"time": at(changed), "fieldsV1": {"f:data": {}}}]);
        }
        world.snapshot.config_maps.push(serde_json::from_value(json!({"metadata": metadata})).unwrap());
        let status = status(with_old(world, &["c", "d"]), &[]);
        let what = status.suspect.as_ref().map(|suspect| suspect.what);
        let case = format!("{changed:?} {image} {working:?}: {:?}", status.suspect);
        assert!(what == expected || expected.is_none() && what != Some(SuspectKind::Configuration), "{case}");
        let is_named = status.suspect.as_ref().is_some_and(|suspect| suspect.configuration.is_some());
        assert_eq!(is_named, expected == Some(SuspectKind::Configuration) || changed == Some("11:40:00"), "{case}");
        match rolls_back_with {
            Some(words) => assert!(status.way_out[0].advice.contains(words), "{case}: {:?}", status.way_out),
            None => assert!(!rolls_back(&status), "{case}: {:?}", status.way_out),
        }
    }
}

/// None works that could have started before.
#[test]
fn a_configmap_that_was_changed_before_all_pods_were_restarted_is_named() {
    let spec = of("agent:1", json!({"volumeMounts": [{"name": "files", "mountPath": "/etc/agent"}]}));
    let spec = || {
        let mut spec = spec.clone();
        spec["volumes"] = json!([{"name": "files", "configMap": {"name": "files"}}]);
        spec
    };
    // The revision before was rolled out at 11:00, and all pods were restarted at 11:45.
    for (changed, ended, works, expected) in [
        ("11:44:00", "11:59:00", false, Some(SuspectKind::Configuration)),
        // The pods before this restart had read it, too.
        ("10:59:00", "11:59:00", false, Some(SuspectKind::Surroundings)),
        // It may have been corrected since.
        ("11:59:30", "11:59:00", false, None),
        ("11:59:30", "11:59:00", true, None),
        // One that has started since works.
        ("11:46:10", "11:59:00", true, Some(SuspectKind::Nodes)),
    ] {
        let mut world = world();
        world.snapshot.controller_revisions.clear();
        let restarted = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "x"}}});
        let world = world.template(spec()).revision_of_template("hash1", 1);
        let mut world = world.daemon_set(json!({"spec": {"template": restarted}})).revision_of_template("hash2", 2);
        created(&mut world, 1, "11:45:00");
        for node in ["b", "c"] {
            let mut pod = since(SINCE);
            pod["spec"] = spec();
            let last = json!({"exitCode": 1, "reason": "Error", "startedAt": at(ended), "finishedAt": at(ended)});
            let mut state = crashes("error: files", "Error");
            state["lastState"] = json!({"terminated": last});
            world = world.node(node, json!({})).unready_pod(&format!("agent-{node}"), node, state, pod);
        }
        for node in ["d", "e", "f"].into_iter().filter(|_| works) {
            let pod = json!({"metadata": {"creationTimestamp": at("11:47:00")}, "spec": spec()});
            world = world.node(node, json!({})).pod(&format!("agent-{node}"), node, pod);
        }
        let metadata = json!({"name": "files", "namespace": "default", "creationTimestamp": at("07:00:00"),
            "managedFields": [{"time": at(changed), "fieldsV1": {"f:data": {}}}]});
        world.snapshot.config_maps.push(serde_json::from_value(json!({"metadata": metadata})).unwrap());
        let status = status(world, &[]);
        let what = status.suspect.as_ref().map(|suspect| suspect.what);
        assert_eq!(what, expected, "{changed} {ended} {works}: {:?}", status.suspect);
    }
}
