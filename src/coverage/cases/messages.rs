//! Advice that follows from messages of the kubelet, the container runtime and the scheduler: one row per situation.

use serde_json::{Value, json};

use super::plain;
use crate::coverage::test_support::{CURRENT, World, at, world};
use crate::model::daemon_set::DaemonSet;
use crate::report::reason::{Reason, ReasonCode as R};

fn first(world: World) -> Reason {
    world.only_node().reasons.remove(0)
}

fn command(reason: &Reason) -> String {
    reason.fix.command.as_ref().map(ToString::to_string).unwrap_or_default()
}

fn waiting(reason: &str, message: &str) -> World {
    let status = json!({"state": {"waiting": {"reason": reason, "message": message}}});
    plain().unready_pod("agent-x", "n", status, json!({}))
}

fn creating() -> World {
    waiting("ContainerCreating", "")
}

/// Returns the rows of a table: a message, a tab, and a part of the advice.
fn rows(table: &'static str) -> Vec<(&'static str, &'static str)> {
    table.lines().map(|row| row.split_once('\t').unwrap()).collect()
}

/// Checks that each message results in a part of the advice.
fn hold(rows: &[(&str, &str)], world: impl Fn(&str) -> World, code: R) {
    let mut wrong = Vec::new();
    for (message, part) in rows {
        let reason = first(world(message));
        if reason.code != code || !reason.fix.advice.contains(part) {
            wrong.push(format!("{message}\n  {}: {}", reason.code, reason.fix.advice));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_image_that_cannot_be_pulled_gets_advice_by_what_the_runtime_says() {
    const REFERENCE: &str = "failed to pull and unpack image \"docker.io/library/agent:2\": failed to resolve reference \"docker.io/library/agent:2\": ";
    let rows = rows(include_str!("messages/image.txt"));
    hold(
        &rows,
        |message| waiting("ErrImagePull", &format!("rpc error: code = Unknown desc = {REFERENCE}{message}")),
        R::ImagePullFailed,
    );
    hold(
        &rows,
        |message| {
            waiting(
                "ImagePullBackOff",
                &format!("Back-off pulling image \"agent:2\": ErrImagePull: {REFERENCE}{message}"),
            )
        },
        R::ImagePullFailed,
    );
    // Before release 1.32, the back-off message had no cause; an earlier event contains it.
    let earlier = |message: &str| {
        let said = format!("Failed to pull image \"agent:2\": {REFERENCE}{message}");
        waiting("ImagePullBackOff", "Back-off pulling image \"agent:2\"")
            .event("Pod", "agent-x", "Failed", "Error: ImagePullBackOff", "11:59:30")
            .event("Pod", "agent-x", "Failed", &said, "11:58:00")
    };
    hold(&rows, earlier, R::ImagePullFailed);
    for (message, advice) in rows {
        let reason = first(waiting("ErrImagePull", message));
        assert_eq!(reason.fix.advice.contains("imagePullSecrets"), advice == "imagePullSecrets", "{message}");
    }
}

#[test]
fn what_the_kubelet_itself_says_of_an_image_has_advice_of_its_own() {
    for (reason, message, part) in [
        (
            "ErrImageNeverPull",
            "Container image \"agent:2\" is not present with pull policy of Never",
            "imagePullPolicy: IfNotPresent",
        ),
        ("ErrImageNeverPull", "", "imagePullPolicy: IfNotPresent"),
        ("InvalidImageName", "", "not a valid reference"),
        (
            "InvalidImageName",
            "Failed to apply default image tag \"Agent:2\": couldn't parse image name \"Agent:2\": invalid reference format: repository name (library/Agent) must be lowercase",
            "not a valid reference",
        ),
        (
            "SignatureValidationFailed",
            "image pull failed for agent:2 because the signature validation failed: Source image rejected: A signature was required, but no signature exists",
            "sign the image",
        ),
        ("RegistryUnavailable", "image pull failed for agent:2 because the registry is unavailable", "reaches it"),
        (
            "ErrImagePull",
            "short-name \"agent:2\" did not resolve to an alias and no unqualified-search registries are defined",
            "host name of its registry",
        ),
    ] {
        let reason = first(waiting(reason, message));
        let advice = &reason.fix.advice;
        assert!(reason.code == R::ImagePullFailed && advice.contains(part), "{message}: {advice}");
    }
    let secret = "Unable to retrieve some image pull secrets (regcred); attempting to pull the image may not succeed.";
    let reason = first(waiting("ErrImagePull", "401 Unauthorized").event(
        "Pod",
        "agent-x",
        "FailedToRetrieveImagePullSecret",
        secret,
        "11:59:00",
    ));
    assert!(
        reason.fix.advice.contains("create the missing Secret") && reason.fix.advice.contains("regcred"),
        "{}",
        reason.fix.advice
    );
}

#[test]
fn an_image_for_another_platform_is_kept_from_such_nodes() {
    let node = |world: World, name: &str, os: &str, arch: &str| {
        world.node(name, json!({"metadata": {"labels": {"kubernetes.io/os": os, "kubernetes.io/arch": arch}}}))
    };
    let status = json!({"state": {"waiting": {"reason": "ImagePullBackOff", "message":
        "Back-off pulling image \"agent:2\": ErrImagePull: no match for platform in manifest: not found"}}});
    for (os, arch, part) in [
        ("windows", "amd64", "add nodeSelector kubernetes.io/os: linux"),
        ("linux", "arm64", "add nodeSelector kubernetes.io/arch: amd64"),
        ("linux", "s390x", "add nodeSelector kubernetes.io/arch: amd64"),
        ("linux", "amd64", "other nodes of linux/amd64 run this image"),
    ] {
        let world = node(node(world(), "m", "linux", "amd64"), "n", os, arch).pod("agent-m", "m", json!({}));
        let coverage = world.unready_pod("agent-n", "n", status.clone(), json!({})).coverage();
        let reason = &coverage.nodes.iter().find(|node| node.name == "n").unwrap().reasons[0];
        assert!(reason.fix.advice.contains(part), "{}", reason.fix.advice);
        assert!(
            !reason.fix.advice.contains("imagePullSecrets") && !reason.fix.advice.contains("correct the"),
            "{}",
            reason.fix.advice
        );
        assert_eq!(coverage.problems[0].fix, reason.fix);
    }
}

/// Windows runs only images built for its own version.
#[test]
fn an_image_for_another_version_of_windows_is_not_kept_from_windows() {
    let labels = |os: &str, build: &str| json!({"metadata": {"labels": {"kubernetes.io/os": os, "kubernetes.io/arch": "amd64", "node.kubernetes.io/windows-build": build}}});
    let status = json!({"state": {"waiting": {"reason": "ImagePullBackOff", "message":
        "Back-off pulling image \"agent:2\": ErrImagePull: no match for platform in manifest: not found"}}});
    let selects = json!({"spec": {"nodeSelector": {"kubernetes.io/os": "windows"}}});
    for (other, selector, part) in [
        (
            Some("10.0.20348"),
            &selects,
            "Windows 10.0.26100: add nodeSelector node.kubernetes.io/windows-build: 10.0.20348",
        ),
        (
            Some("10.0.20348"),
            &json!({}),
            "Windows 10.0.26100: add nodeSelector node.kubernetes.io/windows-build: 10.0.20348",
        ),
        (Some("10.0.26100"), &selects, "not for this version of Windows (Windows 10.0.26100)"),
        (None, &selects, "not for this version of Windows (Windows 10.0.26100)"),
        (None, &json!({}), "add nodeSelector kubernetes.io/os: linux"),
    ] {
        let mut world = world().node("n", labels("windows", "10.0.26100"));
        if let Some(build) = other {
            world = world.node("m", labels("windows", build)).pod("agent-m", "m", json!({}));
        }
        let coverage = world.unready_pod("agent-n", "n", status.clone(), selector.clone()).coverage();
        let reason = &coverage.nodes.iter().find(|node| node.name == "n").unwrap().reasons[0];
        assert!(reason.fix.advice.contains(part), "{other:?}: {}", reason.fix.advice);
    }
}

/// A runtime's message about a path on the node that a volume of the template uses.
#[test]
fn a_path_of_the_node_that_cannot_be_used_is_that_of_the_hostpath_volume() {
    let mounts = |path: &str| json!({"volumes": [{"name": "host", "hostPath": {"path": path}}]});
    for (path, said, part) in [
        (
            "/usr/local/bin",
            "failed to generate spec: failed to mkdir \"/usr/local/bin\": mkdir /usr/local/bin: read-only file system",
            "read-only there",
        ),
        (
            "/opt/cni/bin",
            "Error response from daemon: error while creating mount source path '/opt/cni/bin': mkdir /opt/cni: read-only file system",
            "read-only there",
        ),
        ("/etc/hpe-storage/", "mkdir /etc/hpe-storage: read-only file system", "read-only there"),
        (
            "/run/containerd/containerd.sock",
            "failed to stat \"/run/containerd/containerd.sock\": stat /run/containerd/containerd.sock: no such file or directory",
            "does not exist on these nodes",
        ),
        (
            "/etc/machine-id",
            "failed to generate spec: failed to mkdir \"/etc/machine-id\": mkdir /etc/machine-id: not a directory",
            "is not a directory",
        ),
        ("/other", "mkdir /var/lib/containers/merged/host/usr: read-only file system", "mount at a path that exists"),
    ] {
        let reason = first(waiting("CreateContainerError", said).template(mounts(path)));
        assert!(
            reason.code == R::ContainerConfigError && reason.fix.advice.contains(part),
            "{said}: {}",
            reason.fix.advice
        );
        assert_eq!(reason.fix.advice.contains("hostPath volume"), path != "/other", "{}", reason.fix.advice);
    }
}

/// A template that works elsewhere with the same path does not have to change.
#[test]
fn a_path_that_other_nodes_have_is_to_be_made_usable() {
    let said = "failed to mkdir \"/opt/agent/\": mkdir /opt/agent: read-only file system";
    let status = json!({"state": {"waiting": {"reason": "CreateContainerError", "message": said}}});
    let volumes = json!({"volumes": [{"name": "host", "hostPath": {"path": "/opt/agent"}}]});
    let here = || {
        world().template(volumes.clone()).node("n", json!({})).unready_pod("agent-n", "n", status.clone(), json!({}))
    };
    assert!(first(here()).fix.advice.starts_with("use another path in the hostPath volume"));
    // For a single node, other nodes' pods are only read for comparison.
    let mut world = here();
    let other = here().node("m", json!({})).pod("agent-m", "m", json!({})).finish().pods.remove(1);
    world.snapshot.peers.push(other);
    let advice = first(world).fix.advice;
    assert!(advice.starts_with("make /opt/agent usable on these nodes") && advice.contains("another node"), "{advice}");
}

/// `localhost` is the node itself.
#[test]
fn a_registry_on_the_node_itself_is_told_by_its_host_port() {
    let said = "failed to do request: Head \"http://localhost:30500/v2/\": dial tcp 127.0.0.1:30500: connect: connection refused";
    let status = json!({"state": {"waiting": {"reason": "ErrImagePull", "message": said}}});
    let image = |image: &str| json!({"spec": {"containers": [{"name": "agent", "image": image}]}});
    let proxy = |port: i64, ready: &str| {
        json!({"metadata": {"namespace": "registry"}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
            "spec": {"containers": [{"name": "proxy", "ports": [{"containerPort": 5000, "hostPort": port, "protocol": "TCP"}]}]}})
    };
    for (name, pod, part) in [
        (
            "localhost:30500/agent:2",
            Some(proxy(30500, "False")),
            "host port of pod registry/proxy-x, which is not ready",
        ),
        ("127.0.0.1:30500/agent:2", Some(proxy(30500, "True")), "which is ready"),
        (
            "localhost:30500/agent:2",
            Some(proxy(30501, "False")),
            "check the pod or service that the registry has there",
        ),
        ("localhost:30500/agent:2", None, "nothing listens on localhost:30500 of the node"),
        ("registry.example.com:30500/agent:2", Some(proxy(30500, "False")), "routes, firewall, proxy"),
    ] {
        let mut world = plain().unready_pod("agent-x", "n", status.clone(), image(name));
        if let Some(pod) = pod {
            world = world.other_pod("proxy-x", "n", pod);
        }
        let reason = first(world);
        assert!(reason.code == R::ImagePullFailed && reason.fix.advice.contains(part), "{name}: {}", reason.fix.advice);
    }
}

/// Existing credentials may have expired.
#[test]
fn secrets_with_credentials_are_to_be_checked_where_the_template_has_them() {
    let secrets = || json!({"imagePullSecrets": [{"name": "pull-a"}, {"name": "pull-b"}]});
    for (said, part) in [
        ("failed to authorize: 401 Unauthorized", "Secret pull-a, pull-b"),
        ("pull access denied, repository does not exist or may require authorization", "check the name of the image"),
    ] {
        let reason = first(waiting("ErrImagePull", said).template(secrets()));
        assert!(
            reason.fix.advice.contains(part) && !reason.fix.advice.contains("add imagePullSecrets"),
            "{}",
            reason.fix.advice
        );
    }
}

/// If admission requires it, there is nothing to remove from the template.
#[test]
fn what_demands_that_containers_do_not_run_as_root_is_told() {
    let said = "container has runAsNonRoot and image will run as root (pod: \"a\", container: agent)";
    let of_pod = json!({"securityContext": {"runAsNonRoot": true}});
    let of_container =
        json!({"containers": [{"name": "agent", "image": "agent:2", "securityContext": {"runAsNonRoot": true}}]});
    for (template, is_added) in [(json!({}), true), (of_pod, false), (of_container, false)] {
        let advice = first(waiting("CreateContainerConfigError", said).template(template)).fix.advice;
        assert!(advice.starts_with("set securityContext.runAsUser"), "{advice}");
        assert_eq!(advice.contains("a mutating webhook or policy adds it"), is_added, "{advice}");
    }
}

/// If it works elsewhere, neither the image name nor the template is wrong.
#[test]
fn what_works_on_other_nodes_is_not_the_templates() {
    let two = |reason: &str, message: &str, works: bool| {
        let status = json!({"state": {"waiting": {"reason": reason, "message": message}}});
        let mut world = world().node("n", json!({})).unready_pod("agent-n", "n", status, json!({}));
        if works {
            world = world.node("m", json!({})).pod("agent-m", "m", json!({}));
        }
        let coverage = world.coverage();
        coverage.nodes.iter().find(|node| node.name == "n").unwrap().reasons[0].fix.clone()
    };
    for (reason, message, elsewhere, nowhere) in [
        ("ImagePullBackOff", "failed to authorize: 401 Unauthorized", "credentials of this node", "imagePullSecrets"),
        ("ErrImagePull", "no basic auth credentials", "credentials of this node", "imagePullSecrets"),
        (
            "ErrImagePull",
            "pull access denied, repository does not exist or may require authorization",
            "credentials of this node",
            "correct the name",
        ),
        (
            "ErrImagePull",
            "docker.io/agent:2: not found",
            "check which registry or mirror this node asks",
            "correct the tag or digest",
        ),
        (
            "CreateContainerError",
            "error mounting \"/etc/a\" to rootfs: not a directory: Are you trying to mount a directory onto a file",
            "compare the node with others",
            "correct the mount",
        ),
        (
            "RunContainerError",
            "error during container init: unable to apply caps: can't apply capabilities: operation not permitted",
            "compare the node with others",
            "correct capabilities",
        ),
        ("CreateContainerError", "something new", "compare the node with others", "read the message"),
        ("RunContainerError", "something else", "compare the node with others", "read the message"),
    ] {
        assert!(two(reason, message, true).advice.contains(elsewhere), "{message}");
        let fix = two(reason, message, false);
        assert!(fix.advice.contains(nowhere) && !fix.advice.contains(elsewhere), "{message}: {}", fix.advice);
    }
}

#[test]
fn the_image_of_a_volume_is_named_and_not_that_of_the_container() {
    let volume = |reference: &str| json!({"volumes": [{"name": "weights", "image": {"reference": reference}}]});
    for (reference, message, named) in [
        (
            "models/llama:2",
            "Back-off pulling image \"models/llama:2\": ErrImagePull: docker.io/models/llama:2: not found",
            true,
        ),
        ("models/llama", "failed to pull and unpack image \"docker.io/models/llama:latest\": not found", true),
        ("models/llama:2", "Container image \"models/llama:2\" is not present with pull policy of Never", true),
        ("team/agent:2", "Back-off pulling image \"team/agent:2\": ErrImagePull: not found", true),
        (
            "models/llama:2",
            "Back-off pulling image \"agent:2\": ErrImagePull: docker.io/library/agent:2: not found",
            false,
        ),
        ("models/llama:2", "no space left on device", false),
    ] {
        let reason = first(waiting("ImagePullBackOff", message).template(volume(reference)));
        let expected = if named {
            format!("volume weights: cannot pull {reference}")
        } else {
            "container agent: cannot pull agent:2".to_owned()
        };
        assert!(reason.message.starts_with(&expected), "{message}: {}", reason.message);
    }
}

#[test]
fn a_container_that_cannot_be_created_gets_advice_by_what_is_said() {
    let rows = rows(include_str!("messages/container.txt"));
    for reason in ["CreateContainerError", "RunContainerError", "CreateContainerConfigError"] {
        hold(&rows, |message| waiting(reason, message), R::ContainerConfigError);
    }
    // If the same pod runs on other nodes, an unknown message is not blamed on the template.
    let coverage =
        waiting("CreateContainerError", "something new").node("z", json!({})).pod("agent-z", "z", json!({})).coverage();
    let reason = &coverage.nodes[0].reasons[0];
    assert!(reason.fix.advice.contains("the same pod runs on another node"), "{}", reason.fix.advice);
}

#[test]
fn a_sandbox_gets_advice_by_what_is_said() {
    let rows = rows(include_str!("messages/sandbox.txt"));
    for reason in ["FailedCreatePodSandBox", "NetworkNotReady", "FailedCreatePodContainer"] {
        hold(
            &rows,
            |said| {
                creating().event(
                    "Pod",
                    "agent-x",
                    reason,
                    &format!("Failed to create pod sandbox: rpc error: {said}"),
                    "11:59:00",
                )
            },
            R::SandboxFailed,
        );
    }
}

/// What the runtime does for the whole pod is in the securityContext of the pod, if the template has it there.
#[test]
fn a_sandbox_that_fails_of_what_the_template_asks_for_names_the_field() {
    let labeled = json!({"securityContext": {"seLinuxOptions": {"type": "spc_t"}}});
    let in_container = json!({"containers": [{"name": "agent", "image": "agent:2",
        "securityContext": {"seLinuxOptions": {"type": "spc_t"}}}]});
    let sysctl = json!({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1"}]}});
    let keycreate =
        "failed to set /proc/self/attr/keycreate on procfs: write /proc/self/attr/keycreate: invalid argument";
    let no_sysctl = "error during container init: open /proc/sys/net/ipv4/tcp_rmem: no such file or directory";
    for (template, said, advice) in [
        (&labeled, keycreate, "correct seLinuxOptions"),
        (&in_container, keycreate, "check the container runtime"),
        (&json!({}), keycreate, "check the container runtime"),
        (&sysctl, no_sysctl, "correct sysctl net.ipv4.tcp_rmem"),
        (&labeled, no_sysctl, "check the container runtime"),
    ] {
        let message = format!("Failed to create pod sandbox: rpc error: {said}");
        let world = creating().template(template.clone());
        let reason = first(world.event("Pod", "agent-x", "FailedCreatePodSandBox", &message, "11:59:00"));
        assert!(reason.fix.advice.starts_with(advice), "{template} {said}: {}", reason.fix.advice);
    }
}

/// The container runtime was not called yet, so its log contains nothing.
#[test]
fn what_the_kubelet_says_of_a_sandbox_is_not_the_container_runtimes() {
    let rows = rows(include_str!("messages/kubelet.txt"));
    let failing = |said: &str| {
        creating().event(
            "Pod",
            "agent-x",
            "FailedCreatePodSandBox",
            &format!("Failed to create pod sandbox: {said}"),
            "11:59:00",
        )
    };
    hold(&rows, failing, R::SandboxFailed);
    for (said, _) in rows {
        let reason = first(failing(said));
        assert!(!reason.fix.advice.contains("check the container runtime"), "{said}: {}", reason.fix.advice);
    }
}

#[test]
fn a_volume_gets_advice_by_what_is_said() {
    let volumes = json!({"volumes": [{"name": "v", "configMap": {"name": "settings", "items": [{"key": "b", "path": "b"}]}},
        {"name": "s", "secret": {"secretName": "token"}}, {"name": "all", "projected": {"sources": [
            {"configMap": {"name": "ca-bundle", "items": [{"key": "tls.crt", "path": "ca"}]}},
            {"configMap": {"name": "trust", "items": [{"key": "ca", "path": "tls.crt"}]}}]}}]});
    let rows = rows(include_str!("messages/volume.txt"));
    for reason in ["FailedMount", "FailedAttachVolume", "FailedMapVolume"] {
        let failing = |said: &str| {
            // A message about all volumes together does not contain the cause.
            creating().template(volumes.clone()).event("Pod", "agent-x", reason, said, "11:58:00").event("Pod", "agent-x", "FailedMount",
                "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[]: timed out waiting for the condition", "11:59:00")
        };
        hold(&rows, failing, R::MountFailed);
    }
    let reason = first(creating().event("Pod", "agent-x", "FailedMount", rows[0].0, "11:59:00"));
    assert!(
        command(&reason).starts_with("kubectl edit ds")
            && !reason.fix.advice.contains("claim")
            && !reason.fix.advice.contains("driver")
    );
    // Volumes are mounted before images are pulled.
    let later = waiting("ImagePullBackOff", "Back-off pulling image \"agent:2\": ErrImagePull: not found");
    assert_eq!(first(later.event("Pod", "agent-x", "FailedMount", "timed out", "11:30:10")).code, R::ImagePullFailed);
}

#[test]
fn the_daemon_set_of_a_driver_is_named_with_what_keeps_it_from_the_node() {
    let plugin = |name: &str, spec: Value| {
        let spec = json!({"selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}}, "spec": spec}});
        DaemonSet::from_object(json!({"metadata": {"name": name, "namespace": "storage", "uid": name}, "spec": spec}))
            .unwrap()
    };
    let registrar = json!([{"name": "driver", "image": "driver:1"}, {"name": "node-driver-registrar", "image": "r:2"}]);
    let by_args = json!([{"name": "a", "image": "x:1", "args": ["--driver=secrets-store.csi.k8s.io"]}, {"name": "b", "image": "sig/csi-node-driver-registrar:2"}]);
    let taint = json!({"key": "dedicated", "value": "apps", "effect": "NoSchedule"});
    let driver = "secrets-store.csi.k8s.io";
    for (daemon_sets, taints, part, edits) in [
        (
            vec![plugin("secrets-store-csi-driver", json!({"containers": registrar}))],
            json!([taint]),
            "add to the tolerations of DaemonSet storage/secrets-store-csi-driver: {key: dedicated, value: \"apps\", effect: NoSchedule}",
            true,
        ),
        (
            vec![
                plugin("csi-ss", json!({"containers": by_args})),
                plugin("ebs-csi-node", json!({"containers": registrar})),
            ],
            json!([taint]),
            "DaemonSet storage/csi-ss",
            true,
        ),
        (
            vec![plugin("secrets-store-csi-driver", json!({"containers": registrar, "nodeSelector": {"pool": "x"}}))],
            json!([]),
            "make the node eligible for DaemonSet storage/secrets-store-csi-driver",
            true,
        ),
        (
            vec![plugin("secrets-store-csi-driver", json!({"containers": registrar}))],
            json!([]),
            "has no pod on the node",
            false,
        ),
        // It is unknown which one.
        (
            vec![plugin("ebs-csi-node", json!({"containers": registrar}))],
            json!([taint]),
            "find the DaemonSet of driver",
            false,
        ),
        (Vec::new(), json!([taint]), "find the DaemonSet of driver", false),
    ] {
        let said = format!(
            "MountVolume.SetUp failed for volume \"s\" : kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: driver name {driver} not found in the list of registered CSI drivers"
        );
        let mut world = world()
            .template(json!({"tolerations": [{"operator": "Exists"}]}))
            .node("n", json!({"spec": {"taints": taints}}))
            .unready_pod("agent-x", "n", json!({"state": {"waiting": {"reason": "ContainerCreating"}}}), json!({}))
            .event("Pod", "agent-x", "FailedMount", &said, "11:59:00");
        world.snapshot.node_agents = daemon_sets;
        let reason = first(world);
        assert!(reason.fix.advice.contains(part), "{part}: {}", reason.fix.advice);
        assert_eq!(command(&reason).starts_with("kubectl edit ds -n storage"), edits, "{part}: {}", command(&reason));
        assert!(
            !reason.fix.advice.contains("configmap") && !command(&reason).contains("secrets "),
            "{}",
            reason.fix.advice
        );
    }
}

/// What is on a socket of the node itself is the driver, and no server of the storage.
#[test]
fn a_driver_whose_socket_is_dead_is_the_one_to_look_at() {
    let plugin = |ready: bool, has_pod: bool| {
        let spec = json!({"selector": {"matchLabels": {"app": "smb"}}, "template": {"metadata": {"labels": {"app": "smb"}},
            "spec": {"containers": [{"name": "smb", "image": "smb:1", "args": ["--driver=smb.csi.k8s.io"]},
                {"name": "node-driver-registrar", "image": "r:2"}]}}});
        let metadata = json!({"name": "csi-smb-node", "namespace": "storage", "uid": "smb-uid"});
        let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "csi-smb-node", "uid": "smb-uid", "controller": true}]);
        let state = if ready { "True" } else { "False" };
        let mut world = creating().other_pod(
            "csi-smb-node-x",
            if has_pod { "n" } else { "elsewhere" },
            json!({"metadata": {"namespace": "storage", "labels": {"app": "smb"}, "ownerReferences": owner}, "status": {"conditions": [{"type": "Ready", "status": state}]}}),
        );
        world.snapshot.node_agents = vec![DaemonSet::from_object(json!({"metadata": metadata, "spec": spec})).unwrap()];
        world
    };
    const SOCKET: &str = "/var/lib/kubelet/plugins/smb.csi.k8s.io/csi.sock";
    let refused = format!("dial unix {SOCKET}: connect: connection refused");
    let absent = format!("dial unix {SOCKET}: connect: no such file or directory");
    let other = "dial unix /var/lib/kubelet/plugins/csi-nfsplugin/csi.sock: connect: connection refused";
    let k0s = "dial unix /var/lib/k0s/kubelet/plugins/smb.csi.k8s.io/csi.sock: connect: connection refused";
    for (world, said, part) in [
        (plugin(false, true), refused.as_str(), "fix the pod of DaemonSet storage/csi-smb-node on the node first"),
        (plugin(false, true), absent.as_str(), "fix the pod of DaemonSet storage/csi-smb-node on the node first"),
        (
            plugin(true, true),
            refused.as_str(),
            "the container of the driver in the pod of DaemonSet storage/csi-smb-node",
        ),
        (plugin(true, false), absent.as_str(), "find out why DaemonSet storage/csi-smb-node has no pod on the node"),
        (plugin(false, true), k0s, "fix the pod of DaemonSet storage/csi-smb-node on the node first"),
        (plugin(false, true), other, "find the DaemonSet of driver csi-nfsplugin"),
        (plugin(false, true), "dial tcp 10.0.0.9:2049: connect: connection refused", "reaches the file server"),
        (
            plugin(false, true),
            "dial unix /run/spire/agent.sock: connect: connection refused",
            "reaches the file server",
        ),
    ] {
        let message = format!(
            "MountVolume.MountDevice failed for volume \"s\" : rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing: {said}\""
        );
        let reason = first(world.event("Pod", "agent-x", "FailedMount", &message, "11:59:00"));
        assert!(reason.code == R::MountFailed && reason.fix.advice.contains(part), "{said}: {reason:?}");
        assert_eq!(reason.fix.advice.contains("file server"), part.contains("file server"), "{reason:?}");
    }
}

/// The pod of a plugin cannot fix the plugin if that keeps it from starting.
#[test]
fn a_network_plugin_that_blocks_its_own_pod_is_removed_from_the_node() {
    let path = |path: &str| json!({"volumes": [{"name": "cni", "hostPath": {"path": path}}]});
    let unauthorized = "plugin type=\"agent-cni\" failed (add): Unauthorized";
    for (template, said, is_own) in [
        (path("/etc/cni/net.d"), unauthorized, true),
        (
            path("/opt/cni/bin"),
            "plugin type=\"agent\" name=\"agent-network\" failed (add): dial unix /run/agent.sock: no such file",
            true,
        ),
        (
            path("/var/lib/rancher/k3s/agent/etc/cni/net.d"),
            "failed to find plugin \"agent-cni\" in path [/opt/cni/bin]",
            true,
        ),
        (path("/etc/cni/net.d"), "plugin type=\"calico\" failed (add): Unauthorized", false),
        (path("/var/log"), unauthorized, false),
        (
            path("/etc/cni/net.d"),
            "plugin type=\"agent-cni\" failed (add): no IP addresses available in range set",
            false,
        ),
        (json!({}), unauthorized, false),
    ] {
        let world = creating().template(template.clone());
        let reason = first(world.event("Pod", "agent-x", "FailedCreatePodSandBox", said, "11:59:00"));
        let removes = reason.fix.advice.contains("remove the plugin's entry from /etc/cni/net.d of n");
        assert!(reason.code == R::SandboxFailed && removes == is_own, "{said} {template}: {reason:?}");
    }
}

/// What an older revision does on other nodes says nothing about the node.
#[test]
fn a_node_is_compared_with_others_only_if_the_same_pod_runs_there() {
    for (hash, is_compared) in [(CURRENT, true), ("hash1", false)] {
        let status = json!({"state": {"waiting": {"reason": "RunContainerError", "message": "something new"}}});
        let of_revision = json!({"metadata": {"labels": {"controller-revision-hash": hash}}});
        let mut world = world().node("n", json!({})).unready_pod("agent-n", "n", status, json!({}));
        world = world.node("m", json!({})).pod("agent-m", "m", of_revision);
        world = world.daemon_set(
            json!({"status": {"numberReady": 1, "currentNumberScheduled": 2, "updatedNumberScheduled": 1}}),
        );
        world.snapshot.pods_complete = crate::model::snapshot::PodsComplete::default();
        let coverage = world.coverage();
        let advice = &coverage.nodes.iter().find(|node| node.name == "n").unwrap().reasons[0].fix.advice;
        assert_eq!(advice.starts_with("compare the node"), is_compared, "{hash}: {advice}");
    }
}

#[test]
fn the_daemon_set_of_the_network_plugin_is_named_where_it_does_not_run() {
    let plugin = |name: &str, spec: Value| {
        let mut spec = json!({"selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}}, "spec": spec}});
        spec["template"]["spec"]["volumes"] = json!([{"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}}]);
        spec["template"]["spec"]["hostNetwork"] = json!(true);
        DaemonSet::from_object(
            json!({"metadata": {"name": name, "namespace": "kube-system", "uid": name}, "spec": spec}),
        )
        .unwrap()
    };
    let bare = |name: &str| {
        let labels = json!({"app": name});
        let spec = json!({"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}});
        let object = json!({"metadata": {"name": name, "namespace": "kube-system", "uid": name}, "spec": spec});
        DaemonSet::from_object(object).unwrap()
    };
    let tolerant = json!({"tolerations": [{"operator": "Exists"}]});
    let calico = "plugin type=\"calico\" failed (add): stat /var/lib/calico/nodename: no such file or directory";
    let cilium = "plugin type=\"cilium-cni\" failed (add): unable to connect to Cilium daemon: dial unix /var/run/cilium/cilium.sock";
    let flannel = "plugin type=\"flannel\" failed (add): failed to load flannel 'subnet.env' file";
    let missing = "failed to find plugin \"calico\" in path [/opt/cni/bin]";
    let taint = json!([{"key": "dedicated", "value": "apps", "effect": "NoSchedule"}]);
    for (plugins, taints, version, said, part) in [
        (
            vec![plugin("calico-node", json!({}))],
            &taint,
            "v1.37.2",
            calico,
            "tolerations of DaemonSet kube-system/calico-node: {key: dedicated, value: \"apps\", effect: NoSchedule}",
        ),
        (
            vec![plugin("cilium", json!({"nodeSelector": {"pool": "x"}}))],
            &json!([]),
            "v1.37.2",
            cilium,
            "eligible for DaemonSet kube-system/cilium",
        ),
        (
            vec![plugin("calico-node", tolerant.clone())],
            &taint,
            "v1.37.2",
            missing,
            "DaemonSet kube-system/calico-node has no pod",
        ),
        // Multus is a network plugin, too, but the one named in the message is meant.
        (
            vec![plugin("kube-multus-ds", json!({})), plugin("canal-calico", json!({}))],
            &taint,
            "v1.37.2",
            calico,
            "DaemonSet kube-system/canal-calico",
        ),
        // An operator has the other half of it, or the dump has not all of the template.
        (
            vec![bare("calico-node"), bare("fluent-bit")],
            &json!([]),
            "v1.37.2",
            calico,
            "DaemonSet kube-system/calico-node has no pod",
        ),
        (
            vec![bare("calico-node"), bare("calico-csi")],
            &json!([]),
            "v1.37.2",
            calico,
            "check the pod of the network plugin",
        ),
        (
            vec![plugin("a", json!({})), plugin("b", json!({}))],
            &taint,
            "v1.37.2",
            calico,
            "check the pod of the network plugin",
        ),
        (
            vec![plugin("kube-multus-ds", json!({})), plugin("calico-node", json!({}))],
            &taint,
            "v1.37.2",
            calico,
            "DaemonSet kube-system/calico-node",
        ),
        (
            vec![plugin("istio-cni-node", json!({})), plugin("cilium", json!({}))],
            &taint,
            "v1.37.2",
            "istio-cni: no such file",
            "DaemonSet kube-system/istio-cni-node",
        ),
        (vec![plugin("istio-cni-node", json!({}))], &taint, "v1.37.2", calico, "check the pod of the network plugin"),
        (Vec::new(), &json!([]), "v1.37.2+k3s1", flannel, "k3s or k3s-agent"),
        (Vec::new(), &json!([]), "v1.37.2+rke2r1", flannel, "check the pod of the network plugin"),
    ] {
        let mut world = world()
            .template(tolerant.clone())
            .node("n", json!({"spec": {"taints": taints}, "status": {"nodeInfo": {"kubeletVersion": version}}}))
            .unready_pod("agent-x", "n", json!({"state": {"waiting": {"reason": "ContainerCreating"}}}), json!({}))
            .event("Pod", "agent-x", "FailedCreatePodSandBox", said, "11:59:00");
        world.snapshot.node_agents = plugins.clone();
        let reason = first(world);
        assert!(reason.fix.advice.contains(part), "{part}: {}", reason.fix.advice);
    }
    // It may be ready at the moment.
    for (ready, restarts, ended, part) in [
        ("False", 0, "10:00:00", "fix the pod of DaemonSet kube-system/calico-node"),
        ("True", 7, "11:57:00", "fix the pod of DaemonSet kube-system/calico-node"),
        ("True", 7, "10:00:00", "check the pod of the network plugin"),
        ("True", 0, "11:57:00", "check the pod of the network plugin"),
    ] {
        let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "calico-node", "uid": "calico-node", "controller": true}]);
        let container = json!({"name": "agent", "restartCount": restarts, "lastState": {"terminated": {"exitCode": 1, "finishedAt": at(ended)}}});
        let labels = json!({"app": "calico-node"});
        let pod = json!({"metadata": {"namespace": "kube-system", "labels": labels, "ownerReferences": owner},
            "status": {"conditions": [{"type": "Ready", "status": ready}], "containerStatuses": [container]}});
        let mut world = creating().other_pod("calico-node-x", "n", pod);
        world = world.event("Pod", "agent-x", "FailedCreatePodSandBox", calico, "11:59:00");
        // Not all pods of the node need to be known.
        world.snapshot.pods_complete = crate::model::snapshot::PodsComplete::default();
        world.snapshot.node_agents = vec![plugin("calico-node", tolerant.clone())];
        let reason = first(world);
        assert!(reason.fix.advice.contains(part), "{ready} {restarts} {ended}: {reason:?}");
    }
    let status = json!({"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("10:00:00"),
        "message": "container runtime network not ready: cni plugin not initialized"}]});
    let mut world = world().template(tolerant).node("n", json!({"spec": {"taints": taint}, "status": status}));
    world.snapshot.node_agents = vec![plugin("calico-node", json!({}))];
    let reasons = world.only_node().reasons;
    let unready = reasons.iter().find(|reason| reason.code == R::NodeUnreachable).unwrap();
    assert!(unready.fix.advice.contains("DaemonSet kube-system/calico-node"), "{}", unready.fix.advice);
}

fn ended(reason: &str, exit_code: i32, message: &str) -> Value {
    json!({"restartCount": 31, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
        "lastState": {"terminated": {"exitCode": exit_code, "reason": reason, "message": message,
            "startedAt": at("11:55:40"), "finishedAt": at("11:57:40")}}})
}

#[test]
fn a_probe_that_kills_is_named_with_its_timeout() {
    let probes = json!({"spec": {"containers": [{"name": "agent", "image": "agent:2",
        "livenessProbe": {"timeoutSeconds": 1}, "startupProbe": {"timeoutSeconds": 5}}]}});
    let slow = "Liveness probe failed: command timed out: \"/probe\" timed out after 1s";
    let refused =
        "Liveness probe failed: Get \"http://10.0.0.9:80/\": dial tcp 10.0.0.9:80: connect: connection refused";
    let startup = "Startup probe failed: HTTP probe failed with statuscode: 503";
    for (exit_code, killing, unhealthy, time, expected) in [
        (
            137,
            Some("Container agent failed liveness probe, will be restarted"),
            slow,
            "11:57:30",
            Some(("liveness probe fails (timeoutSeconds: 1)", "raise timeoutSeconds")),
        ),
        // An overview has no events of type Normal.
        (137, None, slow, "11:57:30", Some(("liveness probe fails (timeoutSeconds: 1)", "raise timeoutSeconds"))),
        (143, None, refused, "11:57:30", Some(("liveness", "correct the liveness probe"))),
        (0, None, refused, "11:57:30", Some(("liveness", "correct the liveness probe"))),
        (137, None, startup, "11:57:35", Some(("startup probe fails: Startup", "failureThreshold"))),
        (
            2,
            Some("Container agent failed startup probe, will be restarted"),
            startup,
            "11:57:35",
            Some(("startup", "failureThreshold")),
        ),
        // It failed a probe earlier, but ended by itself.
        (1, None, slow, "11:57:30", None),
        (137, None, slow, "11:30:00", None),
        (137, None, "Readiness probe failed: HTTP 503", "11:57:30", None),
    ] {
        let mut world = plain().unready_pod("agent-x", "n", ended("Error", exit_code, ""), probes.clone()).event(
            "Pod",
            "agent-x",
            "Unhealthy",
            unhealthy,
            time,
        );
        if let Some(killing) = killing {
            world = world.event("Pod", "agent-x", "Killing", killing, time);
        }
        world
            .snapshot
            .events
            .iter_mut()
            .for_each(|event| event.involved_object.field_path = "spec.containers{agent}".to_owned());
        let coverage = world.coverage();
        let reason = &coverage.nodes[0].reasons[0];
        let Some((message, advice)) = expected else {
            assert_eq!(reason.code, R::CrashLooping, "{unhealthy} {time}");
            continue;
        };
        assert_eq!(reason.code, R::LivenessFailing, "{unhealthy}");
        assert!(
            reason.message.contains(message) && reason.fix.advice.contains(advice),
            "{}: {}",
            reason.message,
            reason.fix.advice
        );
        assert!(!reason.fix.advice.contains("read the log"), "{}", reason.fix.advice);
        assert_eq!(coverage.problems[0].message, reason.message);
    }
}

/// A container that is told to stop may have logged earlier why it does not respond.
#[test]
fn what_a_container_says_before_a_probe_kills_it_tells_more_than_the_probe() {
    let startup = "Startup probe failed: HTTP probe failed with statuscode: 503";
    let liveness = "Liveness probe failed: HTTP probe failed with statuscode: 500";
    let bpf = "level=fatal msg=\"no BTF found for kernel version 6.18\"";
    for (unhealthy, exit_code, said, expected) in [
        (startup, 143, bpf, Some("read the log")),
        (liveness, 137, bpf, Some("read the log")),
        (liveness, 137, "error while loading shared libraries: libz.so.1", Some("correct the image")),
        (startup, 137, "open /data/lock: no space left on device", Some("free space")),
        (startup, 143, "", None),
        (startup, 143, "level=info msg=\"warming cache 40%\"", None),
        (startup, 143, "level=error msg=\"http: Server closed\"", None),
        // It ended as requested.
        (liveness, 0, "error: server closed", None),
    ] {
        let probes = json!({"spec": {"containers": [
            {"name": "agent", "image": "agent:2", "livenessProbe": {}, "startupProbe": {}}]}});
        let mut world = plain().unready_pod("agent-x", "n", ended("Error", exit_code, said), probes);
        world = world.event("Pod", "agent-x", "Unhealthy", unhealthy, "11:57:30");
        world.snapshot.events[0].involved_object.field_path = "spec.containers{agent}".to_owned();
        let reason = first(world);
        assert_eq!(reason.code, R::LivenessFailing);
        assert_eq!(reason.message.contains("it said last"), expected.is_some(), "{}", reason.message);
        let advice = &reason.fix.advice;
        let otherwise = if unhealthy == startup { "if it only takes longer to start" } else { "correct the" };
        assert!(advice.contains(expected.unwrap_or(otherwise)), "{said}: {advice}");
        assert!(command(&reason).contains("logs"), "{advice}");
    }
}

/// A probe that has succeeded for a long time is not misconfigured.
#[test]
fn a_probe_that_fails_after_it_has_succeeded_asks_what_has_changed() {
    for (started, unready, advice) in [
        ("10:00:00", "11:50:00", "find out what has changed since"),
        ("11:49:00", "11:50:00", "fix the probe"),
        ("11:50:00", "11:49:55", "fix the probe"),
    ] {
        let state = json!({"started": true, "state": {"running": {"startedAt": at(started)}}});
        let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at(unready)}]}});
        let reason = first(plain().unready_pod("agent-x", "n", state, unready));
        assert_eq!(
            (reason.code, reason.message.contains("and succeeded for")),
            (R::ReadinessFailing, advice.starts_with("find"))
        );
        assert!(reason.fix.advice.contains(advice), "{started}: {}", reason.fix.advice);
    }
}

#[test]
fn a_hook_that_fails_is_not_told_as_a_crash_of_the_program() {
    let with_end = |time: &str, field: &str, (code, said): (i32, &str)| {
        let mut world = plain().unready_pod("agent-x", "n", ended("Error", code, said), json!({})).event(
            "Pod",
            "agent-x",
            "FailedPostStartHook",
            "PostStartHook failed",
            time,
        );
        world.snapshot.events[0].involved_object.field_path = field.to_owned();
        first(world)
    };
    let with = |time: &str, field: &str| with_end(time, field, (143, ""));
    let reason = with("11:57:30", "spec.containers{agent}");
    assert!(reason.message.contains("its postStart hook fails"), "{}", reason.message);
    assert!(reason.fix.advice.starts_with("correct the postStart hook"), "{}", reason.fix.advice);
    // That was much earlier, or in another container.
    assert_eq!(with("11:30:00", "spec.containers{agent}").code, R::CrashLooping);
    assert_eq!(with("11:57:30", "spec.containers{other}").code, R::CrashLooping);
    // The program has ended first, and took the hook with it.
    for end in [(1, "Error: unknown flag: --enable-foo"), (139, ""), (2, ""), (143, "fatal: cannot open config.yaml")] {
        assert_eq!(with_end("11:57:30", "spec.containers{agent}", end).code, R::CrashLooping, "{end:?}");
    }
}

/// For example, a mesh of peers waits for one that is gone.
#[test]
fn a_probe_that_names_a_node_that_is_down_waits_for_it() {
    let addresses = json!([{"type": "Hostname", "address": "m"}, {"type": "InternalIP", "address": "10.0.1.3"},
        {"type": "InternalIP", "address": "fd00::3"}]);
    let m = |ready: &str| {
        json!({"status": {"addresses": addresses,
        "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": at("10:00:00")}]}})
    };
    let status = json!({"state": {"running": {"startedAt": at("11:00:00")}}, "started": true, "ready": false});
    for (said, ready, address) in [
        ("BIRD is not ready: BGP not established with 10.0.1.3", "Unknown", Some("10.0.1.3")),
        ("not established with 10.0.1.9,10.0.1.3.", "False", Some("10.0.1.3")),
        ("dial tcp 10.0.1.3:2380: i/o timeout", "Unknown", Some("10.0.1.3")),
        ("peer fd00::3 is missing", "Unknown", Some("fd00::3")),
        ("BGP not established with 10.0.1.3", "True", None),
        ("BGP not established with 10.0.1.30", "Unknown", None),
        ("HTTP probe failed with statuscode: 503", "Unknown", None),
    ] {
        let world = plain().node("m", m(ready)).unready_pod("agent-x", "n", status.clone(), json!({}));
        let world = world.event("Pod", "agent-x", "Unhealthy", &format!("Readiness probe failed: {said}"), "11:59:30");
        let coverage = world.coverage();
        let reason = &coverage.nodes.iter().find(|node| node.name == "n").unwrap().reasons[0];
        assert_eq!(reason.code, R::ReadinessFailing, "{said}");
        let expected = address.map(|address| format!("{address} is node m, which is not ready"));
        assert_eq!(reason.message.contains("which is not ready"), expected.is_some(), "{}", reason.message);
        assert!(reason.message.contains(&expected.unwrap_or_default()), "{}", reason.message);
        assert_eq!(reason.fix.advice.contains("repair node m"), address.is_some(), "{}", reason.fix.advice);
    }
}

/// The process in the container is not involved, whichever probe it is.
#[test]
fn a_probe_that_does_not_get_to_the_program_is_the_nodes() {
    const NETWORK: &str = "the network plugin of the node";
    const EITHER: &str = "as if it hung";
    const RUNTIME: &str = "check the container runtime of the node";
    const COMMAND: &str = "correct the command of the probe";
    let get = |error: &str| format!("probe failed: Get \"http://10.244.2.12:8080/healthz\": {error}");
    let exec = |error: &str| {
        format!(
            "probe errored and resulted in unknown state: rpc error: code = Unknown desc = failed to exec in container: failed to start exec \"95\": OCI runtime exec failed: exec failed: unable to start container process: {error}: unknown"
        )
    };
    for (said, host, expected) in [
        (get("dial tcp 10.244.2.12:8080: connect: no route to host"), None, NETWORK),
        (get("dial tcp 10.244.2.12:8080: connect: network is unreachable"), None, NETWORK),
        (get("dial tcp 10.244.2.12:8080: connect: invalid argument"), None, NETWORK),
        (get("dial tcp 10.244.2.12:8080: i/o timeout"), None, EITHER),
        (get("dial tcp [fd00::2]:8080: connect: operation not permitted"), None, NETWORK),
        ("probe failed: dial tcp 10.244.2.12:9000: i/o timeout".to_owned(), None, EITHER),
        ("probe failed: dial tcp 10.244.2.12:9000: connect: connection timed out".to_owned(), None, EITHER),
        (
            "probe failed: error: failed to connect service at \"10.244.2.12:9000\": connection error: desc = \"transport: Error while dialing: dial tcp 10.244.2.12:9000: connect: no route to host\"".to_owned(),
            None,
            NETWORK,
        ),
        (exec("error executing setns process: exit status 1"), None, RUNTIME),
        (exec("can't get final child's PID from pipe: EOF"), None, RUNTIME),
        (
            "probe errored: rpc error: code = Unknown desc = command error: exec failed: unable to start container process: error adding pid 7 to cgroups".to_owned(),
            None,
            RUNTIME,
        ),
        (exec("open /proc/self/fd: cannot allocate memory"), None, "free memory on the node"),
        (exec("exec: \"/bin/probe\": stat /bin/probe: no such file or directory"), None, COMMAND),
        (exec("exec: \"grpc_health_probe\": executable file not found in $PATH"), None, COMMAND),
        // The program's fault, or unknown.
        (get("dial tcp 10.244.2.12:8080: connect: connection refused"), None, ""),
        (get("context deadline exceeded (Client.Timeout exceeded while awaiting headers)"), None, ""),
        ("probe failed: HTTP probe failed with statuscode: 503".to_owned(), None, ""),
        ("probe failed: calico/node is not ready: dial tcp 10.96.0.1:443: i/o timeout".to_owned(), None, ""),
        (get("dial tcp 10.9.9.9:8080: i/o timeout"), Some("gateway.example.com"), ""),
        (exec("cannot exec in a stopped container"), None, ""),
    ] {
        for kind in ["readiness", "liveness", "startup"] {
            let probe = format!("{kind}Probe");
            let container = json!({"name": "agent", "image": "agent:2", &*probe: {"httpGet": {"host": host, "path": "/healthz"}}});
            let status = match kind {
                "readiness" => json!({"started": true, "state": {"running": {"startedAt": at("11:00:00")}}}),
                _ => ended("Error", 137, ""),
            };
            let title = kind[..1].to_uppercase() + &kind[1..];
            let mut world = plain()
                .template(json!({"containers": [container]}))
                .unready_pod("agent-x", "n", status, json!({"spec": {"containers": [container]}}))
                .event("Pod", "agent-x", "Unhealthy", &format!("{title} {said}"), "11:57:30");
            world.snapshot.events[0].involved_object.field_path = "spec.containers{agent}".to_owned();
            let reason = first(world);
            let code = if kind == "readiness" { R::ReadinessFailing } else { R::LivenessFailing };
            assert_eq!(reason.code, code, "{kind} {said}");
            let known = [NETWORK, EITHER, RUNTIME, COMMAND, "free memory on the node"];
            let given = known.into_iter().find(|part| reason.fix.advice.contains(part)).unwrap_or_default();
            assert_eq!(given, expected, "{kind} {said}: {}", reason.fix.advice);
            // The output of a command may have any words.
            assert!(!said.contains("calico") || !reason.fix.advice.contains("timeoutSeconds"), "{said}: {}", reason.fix.advice);
            let of_node = !matches!(expected, "" | COMMAND);
            assert!(!of_node || (!command(&reason).contains("logs") && !reason.message.contains("timeoutSeconds")), "{said}");
        }
    }
}

#[test]
fn a_node_without_memory_is_told_from_a_limit_that_is_reached() {
    let container = |limit: Value| json!({"spec": {"containers": [{"name": "agent", "image": "agent:2", "resources": {"limits": limit}}]}});
    let pressure = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "MemoryPressure", "status": "True"}]}});
    let limited = || container(json!({"memory": "64Mi"}));
    let later = json!({"status": {"conditions": [{"type": "Ready", "status": "True"},
        {"type": "MemoryPressure", "status": "True", "lastTransitionTime": at("11:59:50")}]}});
    for (reason, node, pod, oom_at, message, shows_node) in [
        ("OOMKilled", json!({}), limited(), None, "memory limit 64Mi", false),
        // The pressure began after it had ended.
        ("OOMKilled", later, limited(), None, "memory limit 64Mi", false),
        (
            "OOMKilled",
            json!({}),
            json!({"spec": {"resources": {"limits": {"memory": "1Gi"}}}}),
            None,
            "memory limit of the pod 1Gi",
            false,
        ),
        ("OOMKilled", json!({}), container(json!({})), None, "no memory limit", false),
        ("OOMKilled", json!({}), limited(), Some("11:57:39"), "the node ran out of memory (SystemOOM", true),
        ("OOMKilled", json!({}), container(json!({})), Some("11:57:39"), "the node ran out of memory (SystemOOM", true),
        ("Error", json!({}), container(json!({})), Some("11:57:39"), "the node ran out of memory (SystemOOM", true),
        ("OOMKilled", pressure.clone(), limited(), None, "MemoryPressure=True", true),
        ("OOMKilled", json!({}), limited(), Some("11:10:00"), "memory limit 64Mi", false),
    ] {
        let mut world = world().node("n", node).unready_pod("agent-x", "n", ended(reason, 137, ""), pod);
        if let Some(time) = oom_at {
            world =
                world.event("Node", "n", "SystemOOM", "System OOM encountered, victim process: agent, pid: 7", time);
            let about = &mut world.snapshot.events[0].involved_object;
            (about.uid, about.namespace) = ("n".to_owned(), String::new());
        }
        let reason = first(world);
        assert!(reason.code == R::OOMKilled && reason.message.contains(message), "{}", reason.message);
        assert_eq!(command(&reason) == "kubectl describe node n", shows_node, "{}", command(&reason));
    }
}

#[test]
fn what_never_ran_has_no_log() {
    for (reason, message, advice, command_part) in [
        (
            "StartError",
            "failed to create containerd task: exec: \"/app\": exec format error: unknown",
            "or build it for",
            "edit",
        ),
        (
            "StartError",
            "exec: \"agentd\": executable file not found in $PATH: unknown",
            "does not have this file",
            "edit",
        ),
        ("ContainerCannotRun", "exec: \"/app\": permission denied", "executable in the image", "edit"),
        ("Error", "exec /usr/bin/agent: exec format error", "or build it for", "edit"),
        ("Error", "panic: nil", "read the log", "logs"),
        ("Error", "Fatal glibc error: CPU does not support x86-64-v2", "image for older CPUs", "logs"),
        (
            "Error",
            "This program can only be run on AMD64 processors with v3 microarchitecture support.",
            "older CPUs",
            "logs",
        ),
        (
            "Error",
            "agent: error while loading shared libraries: libssl.so.1.1: cannot open shared object file",
            "needs a library",
            "logs",
        ),
        ("Error", "listen tcp 0.0.0.0:9100: bind: address already in use", "free the port", "logs"),
        ("Error", "[emerg] 7#7: bind() to 0.0.0.0:80 failed (13: Permission denied)", "NET_BIND_SERVICE", "logs"),
        ("Error", "listen tcp :80: bind: permission denied", "NET_BIND_SERVICE", "logs"),
        ("Error", "listen unix /run/a.sock: bind: permission denied", "read the log", "logs"),
        (
            "Error",
            "plugin/loop: Loop (127.0.0.1:55953 -> :1053) detected for zone \".\"",
            "resolv.conf of the node",
            "logs",
        ),
        ("Error", "failed to create fsnotify watcher: too many open files", "fs.inotify.max_user_instances", "logs"),
        ("Error", "inotify_add_watch /etc/x: no space left on device", "fs.inotify.max_user_watches", "logs"),
        ("Error", "open /dev/x: too many open files", "LimitNOFILE", "logs"),
        ("Error", "write /data/wal/1: no space left on device", "in the volume", "logs"),
        // Earlier output is not why it ended.
        ("Error", "warn: cache: no space left on device\nfatal: line 3: unknown key", "read the log", "logs"),
        ("Error", "bind: address already in use, trying the next one\npanic: nil", "read the log", "logs"),
        (
            "Error",
            "nodes is forbidden: User \"system:serviceaccount:a:b\" cannot list resource \"nodes\"",
            "give the service account a role",
            "logs",
        ),
        ("Error", "exec: \"git\": executable file not found in $PATH", "read the log", "logs"),
        (
            "Error",
            "level=fatal msg=\"nodes is forbidden: User \\\"system:serviceaccount:a:b\\\" cannot list\"",
            "give the service account a role",
            "logs",
        ),
        ("Error", "ENOSPC: System limit for number of file watchers reached", "fs.inotify.max_user_watches", "logs"),
        ("Error", "x509: certificate has expired or is not yet valid", "renew the certificate", "logs"),
        ("Error", "no matches for kind \"Widget\" in version \"example.com/v1\"", "CustomResourceDefinition", "logs"),
        ("Error", "exec user process caused: no such file or directory", "interpreter", "logs"),
    ] {
        let reason = first(plain().unready_pod("agent-x", "n", ended(reason, 128, message), json!({})));
        assert!(
            reason.code == R::CrashLooping && reason.fix.advice.contains(advice),
            "{message}: {}",
            reason.fix.advice
        );
        assert!(command(&reason).contains(command_part), "{}", command(&reason));
    }
}

#[test]
fn a_pod_on_the_host_network_resolves_names_of_the_cluster_only_by_its_policy() {
    let go = "dial tcp: lookup gateway.monitoring.svc.cluster.local on 10.0.0.2:53: no such host";
    for (said, host_network, policy, is_told) in [
        (go, true, None, true),
        (go, true, Some("ClusterFirst"), true),
        (go, true, Some("Default"), true),
        ("ping: bad address 'db.ops.svc'", true, None, true),
        ("curl: (6) Could not resolve host: api.ops.svc.cluster.local", true, None, true),
        ("getaddrinfo failed: db.ops.svc: Name or service not known", true, None, true),
        (go, true, Some("ClusterFirstWithHostNet"), false),
        (go, true, Some("None"), false),
        (go, false, None, false),
        ("dial tcp: lookup example.com on 10.0.0.2:53: no such host", true, None, false),
        ("db.ops.svc refused: connection refused", true, None, false),
    ] {
        let template = json!({"hostNetwork": host_network, "dnsPolicy": policy});
        let pod = json!({"spec": {"hostNetwork": host_network}});
        let reason = first(plain().template(template).unready_pod("agent-x", "n", ended("Error", 1, said), pod));
        assert_eq!(reason.fix.advice.contains("ClusterFirstWithHostNet"), is_told, "{said}: {}", reason.fix.advice);
    }
}

/// KEP-5532: the kubelet ends the pod's other containers, too.
#[test]
fn the_container_that_ended_first_is_why_all_were_restarted() {
    let rule = |operator: &str| json!([{"action": "RestartAllContainers", "exitCodes": {"operator": operator, "values": [42]}}]);
    let end = |name: &str, exit_code: i32, time: &str| json!({"name": name, "restartCount": 1, "state": {"terminated": {"exitCode": exit_code, "reason": "Error", "startedAt": at("11:50:00"), "finishedAt": at(time)}}});
    for (operator, ends, expected) in [
        ("In", [end("trainer", 137, "11:59:56"), end("watcher", 42, "11:59:56")], vec!["watcher"]),
        ("In", [end("trainer", 143, "11:59:59"), end("watcher", 42, "11:59:56")], vec!["watcher"]),
        ("NotIn", [end("trainer", 137, "11:59:56"), end("watcher", 7, "11:59:56")], vec!["watcher"]),
        // It has crashed before.
        ("In", [end("trainer", 1, "11:58:00"), end("watcher", 42, "11:59:56")], vec!["trainer"]),
        ("In", [end("trainer", 1, "11:59:56"), end("watcher", 7, "11:59:56")], vec!["trainer"]),
        ("NotIn", [end("trainer", 1, "11:59:56"), end("watcher", 42, "11:59:56")], vec!["trainer"]),
    ] {
        let pod = json!({"spec": {"containers": [{"name": "trainer"}, {"name": "watcher", "restartPolicyRules": rule(operator)}]},
            "status": {"containerStatuses": ends}});
        let reasons = plain().unready_pod("agent-x", "n", json!({}), pod).only_node().reasons;
        let named: Vec<&str> = reasons.iter().map(|reason| reason.message.split(' ').nth(1).unwrap()).collect();
        assert_eq!(named, expected, "{reasons:?}");
        let log = format!("kubectl ds logs -n default --node n -c {} agent", expected[0]);
        assert_eq!(command(&reasons[0]), log);
    }
    let removed = |name: &str| {
        json!({"name": name, "restartCount": 1, "state": {"waiting": {"reason": "RestartingAllContainers", "message": "The container is removed"}},
            "lastState": {"terminated": {"reason": "RestartingAllContainers", "exitCode": 137}}})
    };
    let pod = json!({"spec": {"containers": [{"name": "trainer"}, {"name": "watcher", "restartPolicyRules": rule("In")}]},
        "status": {"containerStatuses": [removed("trainer"), removed("watcher")]}});
    let reason = first(plain().unready_pod("agent-x", "n", json!({}), pod));
    assert!(reason.message.contains("watcher ended") && !reason.message.contains("trainer"), "{}", reason.message);
}

const SELECTOR: &str = "node(s) didn't match Pod's node affinity/selector";

#[test]
fn a_scheduler_that_has_lost_a_node_is_to_be_restarted() {
    let lost = format!(
        "0/4 nodes are available: 3 {SELECTOR}. preemption: 0/4 nodes are available: 3 Preemption is not helpful for scheduling."
    );
    let filler = "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity].";
    for (message, node, pod, advice) in [
        (lost.as_str(), json!({}), json!({}), "restart kube-scheduler"),
        (filler, json!({}), json!({}), "restart kube-scheduler"),
        (&lost, json!({}), json!({"spec": {"schedulerName": "batch"}}), "restart batch"),
        // A filter does not check whether the node is ready.
        (
            &lost,
            json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
            json!({}),
            "restart kube-scheduler",
        ),
        (filler, json!({"metadata": {"creationTimestamp": at("11:56:50")}}), json!({}), "wait"),
        (filler, json!({"metadata": {"creationTimestamp": at("11:59:00")}}), json!({}), "wait"),
    ] {
        let world = world()
            .template(json!({"tolerations": [{"operator": "Exists"}]}))
            .node("n", node)
            .pending_pod("agent-x", "n", message, pod);
        let node = world.only_node();
        let reason = &node.reasons[0];
        assert!(
            reason.code == R::SchedulerRejected && reason.fix.advice.starts_with(advice),
            "{message}: {}",
            reason.fix.advice
        );
        let told = format!("{:?}", node.explanation.unwrap().scheduler_says);
        assert!(!reason.message.contains("no longer true") && !told.contains("Some(false)"), "{told}");
    }
    let silent = first(plain().pending_pod("agent-x", "n", "", json!({"spec": {"schedulerName": "nobody"}})));
    assert!(silent.message.starts_with("scheduler \"nobody\" has not tried"), "{}", silent.message);
}

#[test]
fn a_surge_pod_that_cannot_be_beside_the_old_pod_needs_another_strategy() {
    let surging = || {
        plain().daemon_set(json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}}))
    };
    let requests = |resource: &str, amount: &str| json!({"containers": [{"name": "agent", "image": "agent:2", "resources": {"requests": {resource: amount}}}]});
    let says = |reason: &str| {
        format!(
            "0/3 nodes are available: 1 {reason}, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
        )
    };
    let old = |spec: Value| json!({"metadata": {"labels": {"controller-revision-hash": "hash1"}, "creationTimestamp": at("11:20:00")}, "spec": spec});
    let itself = |key: &str| {
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "agent"}}}]}}})
    };
    let others = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}}});
    let anti = "node(s) didn't match pod anti-affinity rules";
    for (reason, old_spec, new_spec, code, is_surge) in [
        ("Insufficient cpu", requests("cpu", "3"), requests("cpu", "3"), R::InsufficientResource, true),
        ("Insufficient memory", requests("memory", "5Gi"), requests("memory", "5Gi"), R::InsufficientResource, true),
        ("Insufficient cpu", requests("cpu", "1"), requests("cpu", "3500m"), R::InsufficientResource, true),
        ("Insufficient cpu", requests("cpu", "1"), requests("cpu", "6"), R::NeverFits, false),
        (anti, json!({}), itself("kubernetes.io/hostname"), R::PodAffinityBlocked, true),
        (
            "node(s) didn't satisfy existing pods anti-affinity rules",
            itself("kubernetes.io/hostname"),
            json!({}),
            R::PodAffinityBlocked,
            true,
        ),
        (anti, json!({}), others, R::PodAffinityBlocked, false),
        (
            "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
            json!({}),
            json!({}),
            R::VolumeUnsatisfiable,
            true,
        ),
    ] {
        let world = surging().pod("agent-old", "n", old(old_spec)).pending_pod(
            "agent-new",
            "n",
            &says(reason),
            json!({"spec": new_spec}),
        );
        let told = first(world);
        assert_eq!(told.code, code, "{reason}: {}", told.message);
        assert_eq!(
            told.fix.advice.contains("use maxUnavailable instead of maxSurge"),
            is_surge,
            "{reason}: {}",
            told.fix.advice
        );
        assert_eq!(
            command(&told) == "kubectl ds set --max-unavailable 1 -n default --delete-surge-pods agent",
            is_surge,
            "{}",
            command(&told)
        );
        assert!(!is_surge || !told.fix.advice.contains("priority"), "{}", told.fix.advice);
    }
    // Without surge there is no old pod to wait for.
    let world = plain().other_pod("other-a", "n", json!({"spec": requests("cpu", "3")})).pending_pod(
        "agent-x",
        "n",
        &says("Insufficient cpu"),
        json!({"spec": requests("cpu", "3")}),
    );
    assert!(!first(world).fix.advice.contains("maxSurge"));
}

/// Which of the volumes the kubelet tried last is chance.
#[test]
fn of_several_volumes_the_one_whose_node_is_at_fault_tells() {
    let (kubelets, own) = (
        "MountVolume.SetUp failed for volume \"token\" : mkdir /var/lib/kubelet/pods/u/volumes/token: read-only file system",
        "MountVolume.SetUp failed for volume \"data\" : mkdir /var/lib/agent: read-only file system",
    );
    for (times, is_of_node) in
        [(["11:59:00", "11:59:30"], true), (["11:59:30", "11:59:00"], true), (["11:40:00", "11:59:00"], false)]
    {
        let world = creating().event("Pod", "agent-x", "FailedMount", kubelets, times[0]);
        let reason = first(world.event("Pod", "agent-x", "FailedMount", own, times[1]));
        assert_eq!(reason.fix.advice.contains("check the disk of the node"), is_of_node, "{times:?} {reason:?}");
    }
}

/// A pod whose `driver` is killed because its probe is refused, and whose sidecar has ended with a message.
fn killed_beside(sidecar: &Value, message: &str) -> Reason {
    let containers = json!([{"name": "driver", "image": "driver:1", "livenessProbe": {}}, sidecar]);
    let status = |name: &str, exit_code: i32, message: &str| {
        let mut status = ended("Error", exit_code, message);
        status.as_object_mut().unwrap().insert("name".to_owned(), json!(name));
        status
    };
    let patch = json!({"spec": {"containers": containers},
        "status": {"containerStatuses": [status("driver", 143, ""), status("sidecar", 1, message)]}});
    let world = plain().template(json!({"containers": containers})).unready_pod("agent-x", "n", json!({}), patch);
    let refused = "Liveness probe failed: Get \"http://10.0.0.1:9808/healthz\": dial tcp 10.0.0.1:9808: connect: connection refused";
    let mut world = world.event("Pod", "agent-x", "Unhealthy", refused, "11:57:30");
    world.snapshot.events[0].involved_object.field_path = "spec.containers{driver}".to_owned();
    first(world)
}

#[test]
fn a_container_that_answers_for_another_one_is_the_cause() {
    let of = |image: &str, args: Value| json!({"name": "sidecar", "image": image, "args": args});
    let in_use = "failed to start http server: listen tcp :9808: bind: address already in use";
    for (sidecar, message, is_cause) in [
        (of("registry.k8s.io/sig-storage/livenessprobe:v2.15.0", json!([])), "", true),
        (of("mirror/livenessprobe@sha256:1", json!([])), "", true),
        (of("other:1", json!([])), "dial tcp 127.0.0.1:9808: connect: connection refused", false),
        (of("other:1", json!([])), in_use, true),
        (of("other:1", json!(["--port=19808"])), "panic: no level", false),
        (of("livenessprobe-exporter:1", json!([])), "", false),
    ] {
        let reason = killed_beside(&sidecar, message);
        assert_eq!(reason.message.starts_with("container sidecar crashes"), is_cause, "{sidecar}: {}", reason.message);
    }
}

#[test]
fn what_only_follows_another_container_is_told_after_it() {
    let follows = "Lost connection to CSI driver, exiting";
    let unanswered =
        "E0709 02:37:27.399487 1 main.go:166] \"Error connecting to CSI driver\" err=\"context deadline exceeded\"";
    let not_ready =
        "E1115 10:00:00.000001 1 main.go:130] \"CSI driver is not ready\" err=\"context deadline exceeded\"";
    for (sidecar, driver, first_is) in [
        (follows, "", "driver"),
        (follows, "panic: x", "driver"),
        (unanswered, "panic: x", "driver"),
        (not_ready, "", "driver"),
        ("panic: y", "", "sidecar"),
    ] {
        let containers = json!([{"name": "sidecar", "image": "a:1"}, {"name": "driver", "image": "b:1"}]);
        let status = |name: &str, message: &str| {
            let mut status = ended("Error", 1, message);
            status.as_object_mut().unwrap().insert("name".to_owned(), json!(name));
            status
        };
        let patch = json!({"spec": {"containers": containers},
            "status": {"containerStatuses": [status("sidecar", sidecar), status("driver", driver)]}});
        let world = plain().template(json!({"containers": containers})).unready_pod("agent-x", "n", json!({}), patch);
        let message = first(world).message;
        assert!(message.starts_with(&format!("container {first_is} ")), "{sidecar} {driver}: {message}");
    }
}

#[test]
fn what_others_wait_for_and_does_not_answer_is_told_before_them() {
    let follows = "Lost connection to CSI driver, exiting";
    for (said, code) in [(follows, R::ReadinessFailing), ("panic: x", R::CrashLooping)] {
        let containers = json!([{"name": "registrar", "image": "a:1"}, {"name": "driver", "image": "b:1"}]);
        let mut registrar = ended("Error", 1, said);
        registrar["name"] = json!("registrar");
        let driver = json!({"name": "driver", "ready": false, "started": true, "state": {"running": {"startedAt": at("11:40:00")}}});
        let patch = json!({"spec": {"containers": containers}, "status": {"containerStatuses": [registrar, driver]}});
        let world = plain().template(json!({"containers": containers})).unready_pod("agent-x", "n", json!({}), patch);
        let reason = first(world);
        assert_eq!(reason.code, code, "{}", reason.message);
        assert_eq!(reason.message.starts_with("container driver is running"), said == follows, "{}", reason.message);
    }
}

/// What waits for another container ends later, whatever the order of the template.
#[test]
fn of_containers_that_say_nothing_the_one_that_ends_sooner_is_told_first_and_the_others_with_it() {
    let status = |name: &str, seconds: u32, message: &str| {
        let started = at(&format!("11:58:{:02}", 50 - seconds));
        json!({"name": name, "restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated":
            {"exitCode": 1, "reason": "Error", "message": message, "startedAt": started, "finishedAt": at("11:58:50")}}})
    };
    let follows = "Lost connection to CSI driver, exiting";
    for (registrar, driver, first_is, also) in [
        ((31, ""), (1, ""), "driver", "; container registrar also crashes after running for 31s"),
        ((1, ""), (31, ""), "registrar", "; container driver also crashes after running for 31s"),
        // What one of them says tells more than when it has ended.
        ((31, "panic: x"), (1, ""), "registrar", ""),
        ((31, ""), (1, "panic: x"), "driver", ""),
        ((1, follows), (31, ""), "driver", ""),
        ((1, "panic: x"), (31, "panic: y"), "registrar", ""),
    ] {
        let containers = json!([{"name": "registrar", "image": "a:1"}, {"name": "driver", "image": "b:1"}]);
        let statuses = json!([status("registrar", registrar.0, registrar.1), status("driver", driver.0, driver.1)]);
        let patch = json!({"spec": {"containers": containers}, "status": {"containerStatuses": statuses}});
        let world = plain().template(json!({"containers": containers})).unready_pod("agent-x", "n", json!({}), patch);
        let reason = first(world);
        let message = &reason.message;
        assert!(message.starts_with(&format!("container {first_is} ")), "{registrar:?} {driver:?}: {message}");
        assert_eq!(message.contains("also crashes"), !also.is_empty(), "{registrar:?} {driver:?}: {message}");
        assert!(message.contains(also), "{registrar:?} {driver:?}: {message}");
        assert!(command(&reason).contains(&format!("-c {first_is} ")), "{}", command(&reason));
    }
}

/// What the template mounts, and nobody has put there.
#[test]
fn a_missing_path_that_is_mounted_is_told_with_where_it_comes_from() {
    let mounts = json!([{"name": "kmsg", "mountPath": "/dev/kmsg"}, {"name": "run", "mountPath": "/host/run"},
        {"name": "keys", "mountPath": "/etc/keys"}, {"name": "tmp", "mountPath": "/tmp"}, {"name": "pipe", "mountPath": "\\\\.\\pipe\\proxy"}]);
    let template = json!({"containers": [{"name": "agent", "image": "agent:1", "volumeMounts": mounts}], "volumes": [
        {"name": "kmsg", "hostPath": {"path": "/dev/kmsg"}}, {"name": "run", "hostPath": {"path": "/run"}},
        {"name": "keys", "secret": {"secretName": "agent-keys"}}, {"name": "tmp", "emptyDir": {}},
        {"name": "pipe", "hostPath": {"path": "\\\\.\\pipe\\proxy"}}]});
    for (message, advice) in [
        ("open /dev/kmsg: no such file or directory", "provide it on the node"),
        (
            "dial unix /host/run/a.sock: connect: no such file or directory",
            "start what serves it on the node: the template mounts /run ",
        ),
        ("dial unix /host/run/a.sock: connect: connection refused", "start what serves it on the node"),
        ("open \\\\.\\\\pipe\\\\proxy: The system cannot find the file specified.", "start what serves it on the node"),
        (
            "open /etc/keys/a: no such file or directory",
            "see whether Secret agent-keys, which is mounted at /etc/keys, has the file",
        ),
        ("open /tmp/a: no such file or directory", "read the log"),
        ("open /etc/agent.yaml: no such file or directory", "read the log"),
        ("open /dev/kmsg: permission denied", "read the log"),
    ] {
        let world = plain().template(template.clone()).unready_pod(
            "agent-x",
            "n",
            ended("Error", 1, message),
            json!({"spec": template}),
        );
        let told = first(world).fix.advice;
        assert!(told.starts_with(advice), "{message}: {told}");
    }
}

#[test]
fn a_startup_probe_may_fail_for_as_long_as_it_is_given() {
    for (threshold, waits) in [(60, true), (3, false)] {
        let containers = json!([{"name": "agent", "image": "agent:2", "startupProbe": {"failureThreshold": threshold, "periodSeconds": 10}}]);
        let status = json!({"restartCount": 0, "started": false, "state": {"running": {"startedAt": at("11:59:00")}}});
        let world = plain().template(json!({"containers": containers}));
        let advice =
            first(world.unready_pod("agent-x", "n", status, json!({"spec": {"containers": containers}}))).fix.advice;
        assert_eq!(advice.starts_with("wait: "), waits, "{threshold}: {advice}");
    }
}
