//! Whose fault it is, and whether to roll back: one table per kind of cause, one row per situation.

use serde_json::{Value, json};

use super::fault_test::{commands, old, status};
use crate::coverage::test_support::{World, at, world};
use crate::report::rollout_status::{Fault, RolloutStatus, SuspectKind};

pub(super) fn rolls_back(status: &RolloutStatus) -> bool {
    commands(status).iter().any(|command| command.contains(" undo "))
}

/// Two revisions, each with one of these templates, the newer one since 11:45.
pub(super) fn revisions(before: Value, after: Value) -> World {
    let mut world = world();
    world.snapshot.controller_revisions.clear();
    let image = |template: &Value| template["containers"][0]["image"].as_str().unwrap_or("agent:1").to_owned();
    let (first, second) = (image(&before), image(&after));
    let world = world.template(before).revision_of_image("hash1", 1, &first);
    let mut world = world.template(after).revision_of_image("hash2", 2, &second);
    created(&mut world, 1, "11:45:00");
    world
}

pub(super) fn created(world: &mut World, revision: usize, time: &str) {
    let metadata = &mut world.snapshot.controller_revisions[revision].metadata;
    metadata.creation_timestamp = serde_json::from_value(json!(at(time))).unwrap();
}

fn images() -> World {
    revisions(
        json!({"containers": [{"name": "agent", "image": "agent:1"}]}),
        json!({"containers": [{"name": "agent", "image": "agent:2"}]}),
    )
}

/// A pod of the current revision that was created after its rollout started.
pub(super) fn young() -> Value {
    json!({"metadata": {"creationTimestamp": at("11:46:00")}, "status": {"conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": at("11:46:10")}]}})
}

pub(super) fn with_old(world: World, nodes: &[&str]) -> World {
    nodes.iter().fold(world, |world, node| world.node(node, json!({})).pod(&format!("agent-{node}"), node, old()))
}

#[test]
fn what_the_kubelet_ends_is_the_nodes_fault_and_never_the_revisions() {
    let low = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61448Ki. ";
    for (phase, reason, message) in [
        (
            "Failed",
            "OutOfcpu",
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 100, used: 3980, capacity: 4000",
        ),
        ("Failed", "OutOfmemory", ""),
        ("Failed", "OutOfpods", "Pod was rejected: Node didn't have enough resource: pods"),
        ("Failed", "OutOfexample.com/gpu", ""),
        ("Failed", "NodeShutdown", "Pod was rejected as the node is shutting down."),
        ("Failed", "Terminated", "Pod was terminated in response to imminent node shutdown."),
        ("Succeeded", "Terminated", "Pod was terminated in response to imminent node shutdown."),
        ("Failed", "NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed"),
        ("Failed", "NodePorts", ""),
        ("Failed", "TaintToleration", ""),
        ("Failed", "UnexpectedAdmissionError", "Pod was rejected: Allocate failed"),
        ("Failed", "VolumeAttachmentLimitExceeded", ""),
        ("Failed", "Preempting", "Preempted in order to admit critical pod"),
        ("Failed", "Evicted", low),
        ("Failed", "Evicted", "Pod was rejected: The node had condition: [DiskPressure]. "),
        ("Failed", "Evicted", "Pod was rejected: The node had condition: [MemoryPressure PIDPressure]. "),
    ] {
        let ended = json!({"metadata": {"creationTimestamp": at("11:50:00")}, "status": {"phase": phase, "reason": reason,
            "message": message, "containerStatuses": null,
            "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:51:00")}]}});
        let begun = || images().node("a", json!({})).pod("agent-a", "a", young());
        let begun = || begun().node("b", json!({})).pod("agent-b", "b", ended.clone());
        let begins = status(with_old(begun(), &["c", "d"]), &[]);
        assert_eq!(begins.faults.unwrap().revision, 0, "{reason} {message}");
        assert!(begins.suspect.as_ref().is_none_or(|it| it.what != SuspectKind::Revision), "{reason} {message}");
        assert!(!rolls_back(&begins), "{reason} {message}: {:?}", commands(&begins));
        let cause = begins.problems.iter().find(|cause| cause.nodes == ["b"]).unwrap();
        assert_eq!(cause.fault, Some(Fault::Node), "{reason} {message}");
        assert!(status(begun(), &["node"]).counts_as_complete(), "{reason} {message}");
        assert!(!status(begun(), &["cluster"]).counts_as_complete(), "{reason} {message}");
    }
}

#[test]
fn a_pod_that_was_evicted_for_what_it_uses_itself_may_be_the_revisions() {
    for message in [
        "",
        "The node was low on resource: memory. Container agent was using 5Gi, request is 1Gi, has larger consumption of memory. ",
        "Container agent exceeded its local ephemeral storage limit \"1Gi\". ",
        "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
        "Usage of EmptyDir volume \"cache\" exceeds the limit \"1Gi\". ",
    ] {
        let ended = json!({"metadata": {"creationTimestamp": at("11:50:00")}, "status": {"phase": "Failed", "reason": "Evicted",
            "message": message, "containerStatuses": null,
            "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:51:00")}]}});
        let world = images().node("b", json!({})).pod("agent-b", "b", ended);
        let status = status(with_old(world, &["c", "d"]), &["node"]);
        assert!(rolls_back(&status) && !status.counts_as_complete(), "{message}: {:?}", commands(&status));
    }
}

#[test]
fn a_revision_is_not_at_fault_for_a_part_that_the_other_one_has_too() {
    let container = |fields: Value| {
        let mut container = json!({"name": "agent", "image": "agent:1", "env": [], "envFrom": []});
        crate::coverage::test_support::merge(&mut container, fields);
        json!({"containers": [container]})
    };
    let key = |secret: &str, key: &str, optional: bool| {
        let from = json!({"secretKeyRef": {"name": secret, "key": key, "optional": optional}});
        container(json!({"env": [{"name": "TOKEN", "valueFrom": from}]}))
    };
    let from = |kind: &str, name: &str| container(json!({"envFrom": [{kind: {"name": name}}]}));
    let image = |image: &str, policy: &str| container(json!({"image": image, "imagePullPolicy": policy}));
    let config = "CreateContainerConfigError";
    let missing = "secret \"token\" not found";
    for (what, before, after, reason, message, is_revision) in [
        ("both use the Secret", key("token", "a", false), key("token", "b", false), config, missing, false),
        ("only the new one uses it", key("other", "a", false), key("token", "a", false), config, missing, true),
        ("the old one can do without", key("token", "a", true), key("token", "a", false), config, missing, true),
        ("by envFrom and by key", from("secretRef", "token"), key("token", "a", false), config, missing, false),
        ("a ConfigMap of that name", from("configMapRef", "token"), from("secretRef", "token"), config, missing, true),
        (
            "a ConfigMap of both",
            from("configMapRef", "files"),
            from("configMapRef", "files"),
            config,
            "configmap \"files\" not found",
            false,
        ),
        (
            "both use the key",
            key("token", "user", false),
            key("token", "user", false),
            config,
            "couldn't find key user in Secret default/token",
            false,
        ),
        (
            "only the new one uses the key",
            key("token", "name", false),
            key("token", "user", false),
            config,
            "couldn't find key user in Secret default/token",
            true,
        ),
        ("the same image", image("agent:1", "Always"), image("agent:1", "Always"), "ImagePullBackOff", "", false),
        ("another image", image("agent:1", "Always"), image("agent:2", "Always"), "ImagePullBackOff", "", true),
        (
            "another way to pull it",
            image("agent:1", "Always"),
            image("agent:1", "Never"),
            "ErrImageNeverPull",
            "",
            true,
        ),
        (
            "a crash",
            image("agent:1", "Always"),
            image("agent:2", "Always"),
            "CreateContainerError",
            "no such file",
            true,
        ),
    ] {
        let other = |template: Value, name: &str| {
            let mut template = template;
            template["terminationGracePeriodSeconds"] = json!(if name == "a" { 30 } else { 31 });
            template
        };
        let pod_image = after["containers"][0]["image"].clone();
        let mut world = revisions(other(before, "a"), other(after, "b"));
        world = world.node("b", json!({}));
        let state = json!({"restartCount": 0, "state": {"waiting": {"reason": reason, "message": message}}});
        let pod = json!({"metadata": {"creationTimestamp": at("11:46:00")}, "status": {"phase": "Pending"},
            "spec": {"containers": [{"name": "agent", "image": pod_image}]}});
        let world = with_old(world.unready_pod("agent-b", "b", state, pod), &["c", "d"]);
        let status = status(world, &[]);
        assert_eq!(rolls_back(&status), is_revision, "{what}: {:?}", commands(&status));
        assert_eq!(status.faults.unwrap().revision > 0, is_revision, "{what}: {:?}", status.faults);
        assert_eq!(status.suspect.is_some(), is_revision, "{what}");
    }
}

/// What a node or the cluster keeps from pods alone that have a part of the new template, which those of the older one do without.
#[test]
fn what_only_the_new_revision_asks_for_is_its_fault() {
    let of = |pod: Value, container: Value| {
        let mut spec = json!({"containers": [{"name": "agent", "image": "agent:1"}], "priorityClassName": "",
            "serviceAccountName": "", "hostNetwork": false, "volumes": []});
        crate::coverage::test_support::merge(&mut spec, pod);
        let own = spec["containers"][0].as_object_mut().unwrap();
        own.extend(container.as_object().unwrap().clone());
        spec
    };
    let none = || of(json!({}), json!({}));
    let asks = |resource: &str, amount: &str| {
        of(json!({}), json!({"resources": {"requests": {resource: amount}, "limits": {resource: amount}}}))
    };
    let pod = |fields: Value| of(fields, json!({}));
    let class = |class: &str| pod(json!({"priorityClassName": class}));
    let volume = |source: Value| pod(json!({"volumes": [source]}));
    let csi = || volume(json!({"name": "v", "csi": {"driver": "smb.csi.k8s.io"}}));
    let nfs = || volume(json!({"name": "v", "nfs": {"server": "10.0.0.1", "path": "/x"}}));
    let config = || volume(json!({"name": "v", "configMap": {"name": "c", "optional": true}}));
    let host_network = || pod(json!({"hostNetwork": true}));
    let account = |name: &str| pod(json!({"serviceAccountName": name}));
    let profile = |kind: &str| of(json!({}), json!({"securityContext": {"appArmorProfile": {"type": kind}}}));
    let port = |port: u32| of(json!({}), json!({"ports": [{"containerPort": port, "hostPort": port}]}));
    let out = |requested: u64, used: u64, capacity: u64| {
        format!(
            "Pod was rejected: Node didn't have enough resource: x, requested: {requested}, used: {used}, capacity: {capacity}"
        )
    };
    let unexpected = |why: &str| format!("Pod was rejected: Allocate failed due to {why}, which is unexpected");
    let fpgas = unexpected("requested number of devices unavailable for example.com/fpga. Requested: 2, Available: 1");
    let cpus = unexpected("not enough cpus available to satisfy request: requested=3, available=2");
    let numa = unexpected(
        "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available",
    );
    let plugin = unexpected("rpc error: code = Unknown desc = device x is not healthy");
    let pressure = "Pod was rejected: The node had condition: [DiskPressure]. ".to_owned();
    let calico = "Failed to create pod sandbox: plugin type=\"calico\" failed (add): error getting ClusterInformation: Unauthorized";
    let stale = "MountVolume.SetUp failed for volume \"v\" : stat /var/lib/kubelet/pods/1/volumes/kubernetes.io~nfs/v: stale NFS file handle";
    let driver = "MountVolume.SetUp failed for volume \"v\" : driver name smb.csi.k8s.io not found in the list of registered CSI drivers";
    let token = "MountVolume.SetUp failed for volume \"kube-api-access-x\" : failed to fetch token: serviceaccounts \"b\" not found";
    let apparmor = "applying apparmor profile to container 43ed: empty localhost AppArmor profile is forbidden";
    for (before, after, reason, message, is_revision) in [
        (asks("cpu", "100m"), asks("cpu", "3"), "OutOfcpu", out(3000, 1950, 4000), true),
        (asks("cpu", "2500m"), asks("cpu", "3"), "OutOfcpu", out(3000, 1950, 4000), false),
        (asks("cpu", "3"), asks("cpu", "2"), "OutOfcpu", out(2000, 3500, 4000), false),
        (asks("memory", "64Mi"), asks("memory", "12Gi"), "OutOfmemory", out(12 << 30, 8 << 30, 16 << 30), true),
        (asks("cpu", "1"), asks("memory", "1Gi"), "OutOfcpu", out(1000, 3500, 4000), false),
        (none(), asks("example.com/gpu", "1"), "OutOfexample.com/gpu", out(1, 0, 0), true),
        (none(), asks("hugepages-2Mi", "512Mi"), "OutOfhugepages-2Mi", out(512 << 20, 0, 0), true),
        (none(), asks("ephemeral-storage", "45Gi"), "OutOfephemeral-storage", out(45 << 30, 10 << 30, 50 << 30), true),
        (asks("example.com/fpga", "1"), asks("example.com/fpga", "2"), "UnexpectedAdmissionError", fpgas.clone(), true),
        (asks("example.com/fpga", "2"), asks("example.com/fpga", "2"), "UnexpectedAdmissionError", fpgas, false),
        (none(), asks("cpu", "3"), "UnexpectedAdmissionError", cpus.clone(), true),
        (asks("memory", "1Gi"), asks("memory", "2Gi"), "UnexpectedAdmissionError", cpus, false),
        (none(), asks("memory", "8Gi"), "UnexpectedAdmissionError", numa.clone(), true),
        (none(), asks("cpu", "1"), "UnexpectedAdmissionError", numa, false),
        (none(), asks("example.com/fpga", "2"), "UnexpectedAdmissionError", plugin.clone(), true),
        (none(), asks("memory", "2Gi"), "UnexpectedAdmissionError", plugin, false),
        (class("system-node-critical"), none(), "Preempting", String::new(), true),
        (class("system-cluster-critical"), none(), "Evicted", pressure.clone(), true),
        (class("low"), none(), "Preempting", String::new(), false),
        (none(), class("system-node-critical"), "Evicted", pressure, false),
        (none(), port(80), "NodePorts", String::new(), true),
        (port(80), none(), "NodePorts", String::new(), false),
        (none(), csi(), "VolumeAttachmentLimitExceeded", String::new(), true),
        (none(), config(), "VolumeAttachmentLimitExceeded", String::new(), false),
        (csi(), none(), "VolumeAttachmentLimitExceeded", String::new(), false),
        (host_network(), none(), "FailedCreatePodSandBox", calico.to_owned(), true),
        (none(), asks("cpu", "3"), "FailedCreatePodSandBox", calico.to_owned(), false),
        (none(), nfs(), "FailedMount", stale.to_owned(), true),
        (nfs(), nfs(), "FailedMount", stale.to_owned(), false),
        (none(), csi(), "FailedMount", driver.to_owned(), true),
        (csi(), csi(), "FailedMount", driver.to_owned(), false),
        (account("a"), account("b"), "FailedMount", token.to_owned(), true),
        (account("b"), account("b"), "FailedMount", token.to_owned(), false),
        (none(), profile("Unconfined"), "CreateContainerError", apparmor.to_owned(), true),
        (profile("Unconfined"), profile("Unconfined"), "CreateContainerError", apparmor.to_owned(), false),
    ] {
        let mut after = after;
        after["containers"][0]["image"] = json!("agent:2");
        let world = revisions(before.clone(), after.clone()).node("b", json!({}));
        let since = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at("11:46:10")}]);
        let mut pod =
            json!({"metadata": {"creationTimestamp": at("11:46:00")}, "spec": after, "status": {"conditions": since}});
        let creating = json!({"restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}});
        let world = match reason {
            "CreateContainerError" => {
                let waits = json!({"restartCount": 0, "state": {"waiting": {"reason": reason, "message": message}}});
                world.unready_pod("agent-b", "b", waits, pod)
            }
            "FailedMount" | "FailedCreatePodSandBox" => {
                let world = world.unready_pod("agent-b", "b", creating, pod);
                world.event("Pod", "agent-b", reason, &message, "11:59:30")
            }
            _ => {
                let of_status =
                    json!({"phase": "Failed", "reason": reason, "message": message, "containerStatuses": null});
                crate::coverage::test_support::merge(&mut pod["status"], of_status);
                world.pod("agent-b", "b", pod)
            }
        };
        let told = status(with_old(world, &["c", "d"]), &[]);
        let blamed = told.suspect.as_ref().is_some_and(|it| it.what == SuspectKind::Revision);
        assert_eq!(
            (blamed, rolls_back(&told)),
            (is_revision, is_revision),
            "{before} {after} {reason} {message}: {:?}",
            told.problems
        );
        assert_eq!(told.faults.unwrap().revision > 0, is_revision, "{before} {after} {reason} {message}");
    }
}

/// A new node may be at fault for anything but what pods without a new part of the template do not meet.
#[test]
fn a_new_node_is_no_excuse_for_what_only_the_new_revision_asks_for() {
    let requesting = |cpu: &str| json!({"containers": [{"name": "agent", "image": "agent:1", "resources": {"requests": {"cpu": cpu}}}]});
    for (requested, is_revision) in [("3", true), ("100m", false)] {
        let mut after = requesting(requested);
        after["containers"][0]["image"] = json!("agent:2");
        let message =
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 3000, used: 1950, capacity: 4000";
        let ended = json!({"metadata": {"creationTimestamp": at("11:51:00")}, "status": {"phase": "Failed", "reason": "OutOfcpu",
            "message": message, "containerStatuses": null,
            "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:51:00")}]}});
        let joined = |time: &str| json!({"metadata": {"creationTimestamp": at(time)}});
        let world = revisions(requesting("100m"), after).node("b", joined("11:50:00")).pod("agent-b", "b", ended);
        let world = ["c", "d"]
            .iter()
            .fold(world, |world, node| world.node(node, joined("06:00:00")).pod(&format!("agent-{node}"), node, old()));
        let told = status(world, &[]);
        let blamed = told.suspect.as_ref().is_some_and(|it| it.what == SuspectKind::Revision);
        assert_eq!(blamed, is_revision, "{requested}: {:?}", told.suspect);
    }
}

/// The API server admitted the older pods, as far as its own words tell.
#[test]
fn what_is_refused_for_what_the_older_revision_does_not_have_is_rolled_back() {
    let of = |image: &str, memory: Option<&str>| {
        let resources =
            memory.map_or(json!({}), |memory| json!({"requests": {"memory": memory}, "limits": {"memory": memory}}));
        json!({"containers": [{"name": "agent", "image": image, "resources": resources}]})
    };
    let quota = |used: &str| {
        format!(
            "pods \"agent-x\" is forbidden: exceeded quota: q, requested: requests.memory=2Gi, used: requests.memory={used}, limited: requests.memory=2Gi"
        )
    };
    let range = "pods \"agent-x\" is forbidden: maximum memory usage per Container is 4Gi, but limit is 8Gi".to_owned();
    let webhook = "admission webhook \"validate.kyverno.svc-fail\" denied the request: \n\nresource Pod/default/agent-x was blocked due to the following \
         policies \n\nregistries:\n  check: 'validation error: Unknown image registry. rule check failed at path /spec/containers/0/image/'".to_owned();
    for (before, after, refusal, is_revision) in [
        (of("agent:1", Some("64Mi")), of("agent:1", Some("2Gi")), quota("320Mi"), true),
        (of("agent:1", Some("1Gi")), of("agent:1", Some("2Gi")), quota("1.5Gi"), false),
        (of("agent:1", Some("2Gi")), of("agent:2", Some("2Gi")), quota("320Mi"), false),
        (of("agent:1", None), of("agent:1", Some("8Gi")), range.clone(), true),
        (of("agent:1", Some("4Gi")), of("agent:1", Some("8Gi")), range.clone(), true),
        (of("agent:1", Some("5Gi")), of("agent:1", Some("8Gi")), range, false),
        (of("reg.example/agent:1", None), of("docker.io/agent:1", None), webhook.clone(), true),
        (of("docker.io/agent:1", None), of("docker.io/agent:2", None), webhook.clone(), false),
        (of("docker.io/agent:1", None), of("docker.io/agent:1", Some("1Gi")), webhook, false),
    ] {
        let world = revisions(before.clone(), after.clone()).node("b", json!({})).refusal(&refusal);
        let told = status(with_old(world, &["c", "d"]), &[]);
        assert_eq!(rolls_back(&told), is_revision, "{before} {after} {refusal}: {:?}", told.problems);
    }
}

/// The pods of the older revision were created while the registry and the nodes still worked.
#[test]
fn a_registry_or_a_node_that_fails_both_revisions_alike_is_not_the_revisions_fault() {
    let of = |image: &str, devices: &str| json!({"containers": [{"name": "agent", "image": image, "env": [{"name": "DEVICES", "value": devices}]}]});
    let same = ("quay.io/acme/agent:1", "quay.io/acme/agent:2");
    let moved = ("quay.io/acme/agent:1", "registry.example:5000/agent:2");
    let pull = "ErrImagePull";
    let create = "CreateContainerError";
    let missing = "unresolvable CDI devices management.nvidia.com/gpu=all";
    for (images, devices, reason, message, is_revision) in [
        (same, "all", pull, "unexpected status code: 503 Service Unavailable", false),
        (same, "all", pull, "dial tcp 10.0.0.1:443: i/o timeout", false),
        (same, "all", pull, "dial tcp: lookup quay.io: no such host", false),
        (same, "all", pull, "toomanyrequests: You have reached your pull rate limit", false),
        (same, "all", pull, "proxyconnect tcp: dial tcp 10.0.0.9:3128: connect: connection refused", false),
        (same, "all", pull, "tls: failed to verify certificate: x509: certificate signed by unknown authority", false),
        (same, "all", pull, "manifest unknown", true),
        (same, "all", pull, "Source image rejected: A signature was required, but no signature exists", true),
        (("agent:1", "acme/agent:2"), "all", pull, "503 Service Unavailable", false),
        (moved, "all", pull, "dial tcp: lookup registry.example: no such host", true),
        (moved, "all", pull, "server gave HTTP response to HTTPS client", true),
        // These are the node's fault, whatever image it pulls.
        (moved, "all", pull, "pull QPS exceeded", false),
        (
            moved,
            "all",
            pull,
            "x509: certificate is not yet valid: current time 1970-01-01T00:00:00Z is before 2026",
            false,
        ),
        (same, "all", create, missing, false),
        // The image requires a driver.
        (same, "all", create, "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4", true),
        (same, "gpu=0", create, missing, true),
        (same, "all", create, "failed to sync configmap cache: timed out", false),
        (same, "all", create, "exec: \"agent\": executable file not found in $PATH", true),
    ] {
        let world = revisions(of(images.0, "all"), of(images.1, devices)).node("b", json!({}));
        let state = json!({"restartCount": 0, "state": {"waiting": {"reason": reason, "message": message}}});
        let pod = json!({"metadata": {"creationTimestamp": at("11:46:00")}, "status": {"phase": "Pending"},
            "spec": {"containers": [{"name": "agent", "image": images.1}]}});
        let status = status(with_old(world.unready_pod("agent-b", "b", state, pod), &["c", "d"]), &[]);
        assert_eq!(rolls_back(&status), is_revision, "{images:?} {message}: {:?}", commands(&status));
        assert_eq!(status.faults.unwrap().revision > 0, is_revision, "{images:?} {message}: {:?}", status.faults);
    }
    // If the same pod works on more nodes, the nodes on which it fails are at fault.
    let of = |image: &str| json!({"containers": [{"name": "agent", "image": image}], "volumes": [{"name": "v", "nfs": {"server": "s", "path": "/"}}]});
    for (working, expected) in [(0, None), (1, None), (2, Some(SuspectKind::Nodes))] {
        let state = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
        let pod = json!({"metadata": {"creationTimestamp": at("11:46:00")}, "status": {"phase": "Pending"}});
        let refused =
            "MountVolume.SetUp failed for volume \"v\" : mount.nfs: access denied by server while mounting s:/";
        let world =
            revisions(of("agent:1"), of("agent:2")).node("b", json!({})).unready_pod("agent-b", "b", state, pod);
        let mut world = world.event("Pod", "agent-b", "FailedMount", refused, "11:59:00");
        for number in 0..working {
            let name = format!("w{number}");
            world = world.node(&name, json!({})).pod(&format!("agent-{name}"), &name, young());
        }
        assert_eq!(status(world, &[]).suspect.map(|suspect| suspect.what), expected, "{working}");
    }
}

/// The writer of the DaemonSet reverts a rollback.
#[test]
fn no_rollback_is_offered_that_would_be_reverted() {
    let owner = |kind: &str| json!({"ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": "policy", "uid": "u", "controller": true}]});
    let addon = |kind: &str| {
        json!({"annotations": {"objectset.rio.cattle.io/owner-gvk": format!("k3s.cattle.io/v1, Kind={kind}"),
            "objectset.rio.cattle.io/owner-namespace": "kube-system", "objectset.rio.cattle.io/owner-name": "lb"}})
    };
    for (metadata, is_offered) in [
        (json!({}), true),
        (owner("ClusterPolicy"), false),
        (json!({"labels": {"addonmanager.kubernetes.io/mode": "Reconcile"}}), false),
        (addon("HelmChart"), false),
        (addon("Addon"), true),
    ] {
        let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "finishedAt": at("11:58:00")}}});
        let world = images().daemon_set(json!({"metadata": metadata})).node("b", json!({}));
        let world =
            world.unready_pod("agent-b", "b", crashes, json!({"metadata": {"creationTimestamp": at("11:46:00")}}));
        let status = status(with_old(world, &["c", "d"]), &[]);
        assert_eq!(rolls_back(&status), is_offered, "{metadata}: {:?}", commands(&status));
    }
}

#[test]
fn another_scheduler_is_the_fault_of_the_revision_and_undo_cures_it() {
    let with = |scheduler: &str, image: &str| json!({"schedulerName": scheduler, "containers": [{"name": "agent", "image": image}]});
    for (before, after, is_revision) in [
        ("default-scheduler", "nobody", true),
        ("first", "second", true),
        ("nobody", "nobody", false),
        ("default-scheduler", "default-scheduler", false),
        ("nobody", "default-scheduler", true),
    ] {
        let pending = json!({"metadata": {"creationTimestamp": at("11:46:00")}, "spec": {"schedulerName": after}});
        let world = revisions(with(before, "agent:1"), with(after, "agent:2")).node("b", json!({}));
        let status = status(with_old(world.pending_pod("agent-b", "b", "", pending), &["c", "d"]), &[]);
        assert_eq!(rolls_back(&status), is_revision, "{before} {after}: {status:?}");
        assert_eq!(status.faults.unwrap().revision > 0, is_revision, "{before} {after}");
    }
}

#[test]
fn a_revision_that_was_tried_for_less_than_an_hour_is_no_target_beside_one_that_lasted() {
    for (began, target) in [
        // The rollout time of each revision; the last one is the current one.
        (&["10:00:00", "11:10:00", "11:50:00"][..], 1),
        (&["09:00:00", "10:00:00", "10:50:00", "11:45:00"], 1),
        (&["09:00:00", "10:00:00", "11:30:00"], 2),
        (&["08:00:00", "09:00:00", "09:05:00", "11:45:00"], 3),
        (&["07:00:00", "11:00:00", "11:20:00", "11:30:00", "11:40:00"], 1),
        // If each lasted less than an hour, the newest.
        (&["11:30:00", "11:40:00"], 1),
    ] {
        let mut world = world();
        world.snapshot.controller_revisions.clear();
        for number in 1..=began.len() {
            let hash = if number == began.len() { "hash2".to_owned() } else { format!("h{number}") };
            let image = format!("agent:{number}");
            world = world.template(json!({"containers": [{"name": "agent", "image": image}]}));
            world = world.revision_of_image(&hash, i64::try_from(number).unwrap(), &image);
            created(&mut world, number - 1, began[number - 1]);
        }
        let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let world = ["a", "b"].into_iter().fold(world, |world, node| {
            world.node(node, json!({})).unready_pod(&format!("agent-{node}"), node, crashes.clone(), json!({}))
        });
        let snapshot = world.finish();
        let index = crate::facts::index::Index::new(&snapshot);
        let facts = crate::facts::Facts::new(&index, &snapshot.daemon_sets[0]);
        assert_eq!(facts.revisions.target().unwrap().0.number(), target, "{began:?}");
    }
}

/// Both revisions have this in common: without a surge, the new pod would replace the old one.
#[test]
fn a_surge_that_cannot_be_is_no_fault_of_the_revision() {
    let cpu = |amount: &str, image: &str| json!({"containers": [{"name": "agent", "image": image, "resources": {"requests": {"cpu": amount}}}]});
    let excludes = |labels: Value, key: &str, image: &str| {
        let term = json!({"topologyKey": key, "labelSelector": {"matchLabels": labels}});
        json!({"containers": [{"name": "agent", "image": image}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
    };
    let itself = json!({"app": "agent"});
    let no_room = "0/1 nodes are available: 1 Insufficient cpu.";
    let rules = "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.";
    let existing = "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.";
    let host = "kubernetes.io/hostname";
    for (what, before, after, says, is_beside) in [
        ("no room for two", cpu("3", "agent:1"), cpu("3", "agent:2"), no_room, true),
        ("no room for two, and less than before", cpu("3", "agent:1"), cpu("2", "agent:2"), no_room, true),
        ("no room for two because of more", cpu("1", "agent:1"), cpu("3500m", "agent:2"), no_room, true),
        ("room for none", cpu("3", "agent:1"), cpu("5", "agent:2"), no_room, false),
        (
            "excludes itself",
            excludes(itself.clone(), host, "agent:1"),
            excludes(itself.clone(), host, "agent:2"),
            rules,
            true,
        ),
        (
            "in a zone",
            excludes(itself.clone(), "zone", "agent:1"),
            excludes(itself.clone(), "zone", "agent:2"),
            rules,
            true,
        ),
        ("the old one excludes it", excludes(itself.clone(), host, "agent:1"), cpu("1", "agent:2"), existing, true),
        (
            "excludes others",
            excludes(json!({"app": "other"}), host, "agent:1"),
            excludes(json!({"app": "other"}), host, "agent:2"),
            rules,
            false,
        ),
    ] {
        let strategy = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
        let (of_old, of_new) = (json!({"spec": before}), json!({"spec": after}));
        let world = revisions(before, after).daemon_set(json!({"spec": {"updateStrategy": strategy}}));
        let mut older = old();
        crate::coverage::test_support::merge(&mut older, of_old);
        let mut newer = json!({"metadata": {"creationTimestamp": at("11:46:00")}});
        crate::coverage::test_support::merge(&mut newer, of_new);
        let zone = json!({"metadata": {"labels": {"zone": "a"}}});
        let world = world.node("a", zone).pod("agent-a", "a", older).pending_pod("agent-b", "a", says, newer);
        let status = status(world, &[]);
        let advises = |status: &RolloutStatus| {
            status.problems.iter().any(|cause| cause.fix.advice == "use maxUnavailable instead of maxSurge")
                || commands(status).iter().any(|command| command.contains("set --max-unavailable 1"))
        };
        assert_eq!(advises(&status), is_beside, "{what}: {:?} {:?}", status.problems, commands(&status));
        let is_more = what.ends_with("more");
        assert!(!is_beside || is_more || !rolls_back(&status), "{what}: {:?}", commands(&status));
        assert!(!is_beside || is_more || status.faults.unwrap().revision == 0, "{what}: {:?}", status.faults);
    }
}

#[test]
fn a_failing_pod_of_a_revision_that_was_rolled_back_is_deleted_and_not_corrected() {
    let waits = |reason: &str| json!({"restartCount": 0, "state": {"waiting": {"reason": reason}}});
    let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
    for state in [
        waits("ImagePullBackOff"),
        waits("ErrImagePull"),
        waits("InvalidImageName"),
        waits("CreateContainerConfigError"),
        waits("CreateContainerError"),
        crashes,
    ] {
        for strategy in ["OnDelete", "RollingUpdate"] {
            let mut world = world();
            world.snapshot.controller_revisions.clear();
            // Revision 1 was rolled out again as revision 3, after revision 2.
            let world = world.template(json!({"containers": [{"name": "agent", "image": "agent:1"}]}));
            let world = world.revision_of_image("bad", 2, "agent:9").revision_of_image("hash2", 3, "agent:1");
            let mut world = world.daemon_set(json!({"spec": {"updateStrategy": {"type": strategy}}}));
            created(&mut world, 0, "11:20:00");
            created(&mut world, 1, "11:00:00");
            let bad =
                json!({"metadata": {"labels": {"controller-revision-hash": "bad", "pod-template-generation": "1"}}});
            let world = world.node("a", json!({})).pod("agent-a", "a", json!({})).node("b", json!({}));
            let status = status(world.unready_pod("agent-b", "b", state.clone(), bad), &[]);
            let cause = status.problems.iter().find(|cause| cause.nodes == ["b"]).unwrap();
            let command = cause.fix.command.as_ref().map(ToString::to_string).unwrap_or_default();
            let is_by_hand = strategy == "OnDelete";
            assert!(cause.message.contains("still of revision 2, which was rolled back"), "{state}");
            assert_eq!(command == "kubectl delete pod -n default agent-b", is_by_hand, "{state}: {command}");
        }
    }
}

#[test]
fn once_no_old_pod_is_left_the_revision_that_fits_nowhere_is_still_taken_back() {
    let requests = |cpu: &str| json!({"containers": [{"name": "agent", "image": "agent:1", "resources": {"requests": {"cpu": cpu}}}]});
    let pending = |world: World, cpu: &str| {
        ["a", "b", "c"].iter().fold(world, |world, node| {
            let pod = json!({"spec": requests(cpu), "metadata": {"creationTimestamp": at("11:50:00")}});
            world.node(node, json!({})).pending_pod(
                &format!("agent-{node}"),
                node,
                "0/3 nodes are available: 3 Insufficient cpu.",
                pod,
            )
        })
    };
    for (before, after, since, rolled_back) in [
        ("100m", "1000", "11:00:00", true),
        // However short it lasted: the current one cannot run at all.
        ("100m", "1000", "11:44:00", true),
        ("100m", "4100m", "11:00:00", true),
        ("1000", "2000", "11:00:00", false),
        ("1000", "1000", "11:00:00", false),
    ] {
        let mut world = revisions(requests(before), requests(after));
        created(&mut world, 0, since);
        let status = status(pending(world, after), &[]);
        assert_eq!(rolls_back(&status), rolled_back, "{before} {after}: {:?}", commands(&status));
        let replaces = status.revision.as_ref().and_then(|revision| revision.replaces);
        assert_eq!(replaces, (before != after).then_some(1), "{before} {after}");
    }
}

#[test]
fn nodes_that_a_revision_may_take_down_are_not_called_nodes_with_a_problem() {
    // Excluded by a taint, like a pod without tolerations.
    let down = json!({"spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": at("11:55:00")}]}});
    let updated = |world: World, node: &str, patch: &Value| {
        // The node controller sets this for the pods of a node that is down.
        let lost = json!({"metadata": {"creationTimestamp": at("11:46:00")}, "status": {"conditions": [
            {"type": "Ready", "status": "False", "lastTransitionTime": at("11:55:00")}]}});
        world.node(node, patch.clone()).pod(&format!("agent-{node}"), node, lost)
    };
    let world = updated(updated(images(), "a", &down), "b", &down);
    let status = status(with_old(world, &["c", "d", "e"]), &[]);
    let faults = status.faults.unwrap();
    assert_eq!((faults.unknown >= 2, faults.node), (true, 0), "{faults:?}");
}

/// Whatever the template is like, its pods do not run on such a node.
#[test]
fn what_a_node_or_its_provider_does_to_every_revision_is_not_the_revisions_fault() {
    let image = |image: &str| json!({"containers": [{"name": "agent", "image": image}]});
    let env = json!({"containers": [{"name": "agent", "image": "agent:2",
        "env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]}]});
    let creating =
        json!({"containerStatuses": [{"name": "agent", "state": {"waiting": {"reason": "ContainerCreating"}}}]});
    let provider = |mut status: Value| {
        status["reason"] = json!("ProviderFailed");
        status["message"] = json!("Pod agent requires volume lib-modules which is of an unsupported type");
        status
    };
    let waits = |reason: &str, message: &str| json!({"containerStatuses": [{"name": "agent", "state": {"waiting": {"reason": reason, "message": message}}}]});
    let config = |message: &str| waits("CreateContainerConfigError", message);
    let failed = json!({"phase": "Failed", "reason": "ProviderFailed", "containerStatuses": null});
    let aci = json!({"metadata": {"labels": {"type": "virtual-kubelet"}}});
    let fargate = json!({"metadata": {"labels": {"eks.amazonaws.com/compute-type": "fargate"}}});
    let host = "host IP unknown; known addresses: [{Hostname b}]";
    let directory =
        "create container log directory for container agent failed: mkdir /var/log/pods: read-only file system";
    for (before, after, node, pod, is_revisions) in [
        (image("agent:1"), image("agent:2"), aci.clone(), provider(creating.clone()), false),
        (image("agent:1"), env.clone(), aci, provider(creating.clone()), false),
        (image("agent:1"), image("agent:2"), json!({}), provider(creating.clone()), false),
        (image("agent:1"), image("agent:2"), fargate, failed, false),
        (image("agent:1"), image("agent:2"), json!({}), config(host), false),
        (image("agent:1"), env.clone(), json!({}), config(host), false),
        (image("agent:1"), image("agent:2"), json!({}), config(directory), false),
        // Nobody knows what it is, but the image is not looked at before that.
        (image("agent:1"), image("agent:2"), json!({}), config("something that only a later kubelet says"), false),
        (image("agent:2"), env, json!({}), config("something that only a later kubelet says"), true),
        (image("agent:1"), image("agent:2"), json!({}), waits("CreateContainerError", "something new"), true),
    ] {
        let mut status_of =
            json!({"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:46:10")}]});
        status_of.as_object_mut().unwrap().extend(pod.as_object().unwrap().clone());
        let ended = json!({"metadata": {"creationTimestamp": at("11:46:00")}, "status": status_of});
        let world = revisions(before, after).node("b", node).pod("agent-b", "b", ended);
        let told = status(with_old(world, &["c", "d"]), &[]);
        let blamed = told.suspect.as_ref().is_some_and(|it| it.what == SuspectKind::Revision);
        assert_eq!((blamed, rolls_back(&told)), (is_revisions, is_revisions), "{pod}: {:?}", told.suspect);
        assert_eq!(told.faults.unwrap().revision > 0, is_revisions, "{pod}");
        assert!(told.problems.iter().all(|problem| !problem.passing), "{pod}");
    }
}

/// A pod that is not scheduled has not looked at what may have changed, and says nothing about its node if no scheduler looks at it.
#[test]
fn what_no_pod_has_started_to_see_is_not_said_to_have_changed() {
    let restarted = |mut world: World| {
        world.snapshot.controller_revisions.clear();
        let world = world.revision_of_template("hash1", 1);
        let annotated =
            json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "x"}}}}});
        let mut world = world.daemon_set(annotated).revision_of_template("hash2", 2);
        created(&mut world, 1, "11:45:00");
        world
    };
    let affinity = "0/3 nodes are available: 1 node(s) didn't match pod affinity rules, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].";
    let resource =
        "0/3 nodes are available: 1 Insufficient example.com/x, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].";
    let new = || json!({"metadata": {"creationTimestamp": at("11:46:00")}});
    let crash = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "b"}}});
    for (says, more_work, kind) in [
        (Some(affinity), false, None),
        (Some(resource), false, None),
        (Some(""), false, None),
        // No scheduler looks at it.
        (Some(""), true, None),
        (None, false, Some(SuspectKind::Surroundings)),
        (None, true, Some(SuspectKind::Nodes)),
    ] {
        let world = restarted(world()).node("b", json!({}));
        let mut world = match says {
            Some(says) => world.pending_pod("agent-b", "b", says, new()),
            None => world.unready_pod("agent-b", "b", crash.clone(), new()),
        };
        for node in ["e", "f"].iter().filter(|_| more_work) {
            world = world.node(node, json!({})).pod(&format!("agent-{node}"), node, young());
        }
        let told = status(with_old(world, &["c", "d"]), &[]);
        assert_eq!(told.suspect.map(|it| it.what), kind, "{says:?} {more_work}");
    }
}
