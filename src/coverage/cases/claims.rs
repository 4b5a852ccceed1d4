//! Pods that claim devices or need something that another pod on the node holds, and nodes being removed.

use serde_json::{Value, json};

use crate::coverage::test_support::{World, at, world};
use crate::model::snapshot::Kind;
use crate::report::reason::{Reason, ReasonCode as R};

fn first(world: World) -> Reason {
    world.only_node().reasons.remove(0)
}

fn claiming(claim: &Value, says: &str, mut pod: Value) -> World {
    let mut claim = claim.clone();
    claim["name"] = json!("gpu");
    let spec = json!({"resourceClaims": [claim]});
    pod["spec"] = spec.clone();
    world().template(spec).node("n", json!({})).pending_pod("agent-x", "n", says, pod)
}

#[test]
fn a_pod_whose_claims_do_not_exist_does_not_wait_for_the_scheduler() {
    let by_template = json!({"resourceClaimTemplateName": "single-gpu"});
    let missing = "PodResourceClaim gpu: resource claim template \"single-gpu\": resourceclaimtemplate.resource.k8s.io \"single-gpu\" \
                   not found";
    for (claim, event, advice, command) in [
        (&by_template, Some(missing), "create ResourceClaimTemplate single-gpu", "get resourceclaimtemplates"),
        (
            &by_template,
            Some("PodResourceClaim gpu: failed to create ResourceClaim: admission webhook denied"),
            "kube-controller-manager",
            "get resourceclaims",
        ),
        (&by_template, None, "kube-controller-manager", "get resourceclaims"),
        (&json!({"resourceClaimName": "shared"}), None, "create ResourceClaim shared", "get resourceclaims"),
    ] {
        let world = claiming(claim, "", json!({}));
        let world = match event {
            Some(event) => world.event("Pod", "agent-x", "FailedResourceClaimCreation", event, "11:58:00"),
            None => world,
        };
        let reason = first(world);
        assert_eq!(reason.code, R::DeviceClaimUnsatisfied, "{reason:?}");
        assert!(reason.fix.advice.contains(advice), "{reason:?}");
        assert!(reason.fix.command.unwrap().to_string().contains(command), "{advice}");
    }
    // With its claims, or without any, the scheduler decides.
    let there = json!({"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "agent-x-gpu"}]}});
    assert_eq!(first(claiming(&by_template, "", there)).code, R::SchedulerSilent);
    let silent = world().node("n", json!({})).pending_pod("agent-x", "n", "", json!({}));
    assert_eq!(first(silent).code, R::SchedulerSilent);
}

#[test]
fn what_the_scheduler_says_of_classes_and_volumes_is_read() {
    for (said, code, advice) in [
        (
            "request req-1: device class gpu.example.com does not exist",
            R::DeviceClaimUnsatisfied,
            "install the driver that provides DeviceClass gpu.example.com",
        ),
        ("node(s) exceed max volume count", R::VolumeUnsatisfiable, "move pods with volumes"),
        ("node(s) had volume node affinity conflict", R::VolumeUnsatisfiable, "check the claims"),
    ] {
        let message = format!("0/1 nodes are available: 1 {said}.");
        let reason = first(world().node("n", json!({})).pending_pod("agent-x", "n", &message, json!({})));
        assert!(reason.code == code && reason.fix.advice.contains(advice), "{said}: {reason:?}");
    }
}

#[test]
fn what_the_kubelet_warns_of_before_the_containers_start_is_told() {
    let creating = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
    for (event, message, code, advice) in [
        (
            "FailedPrepareDynamicResources",
            "Failed to prepare dynamic resources: prepare dynamic resources: DRA driver gpu.nvidia.com is not registered",
            R::DeviceClaimUnsatisfied,
            "find the DaemonSet of driver gpu.nvidia.com",
        ),
        (
            "FailedPrepareDynamicResources",
            "Failed to prepare dynamic resources: pod ops/agent-x (uid) is not allowed to use ResourceClaim shared-nic (uid)",
            R::DeviceClaimUnsatisfied,
            "ResourceClaim shared-nic is reserved",
        ),
        (
            "FailedPrepareDynamicResources",
            "Failed to prepare dynamic resources: pod agent-x(uid) is not allowed to use resource claim shared-nic(uid)",
            R::DeviceClaimUnsatisfied,
            "ResourceClaim shared-nic is reserved",
        ),
        (
            "FailedPrepareDynamicResources",
            "Failed to prepare dynamic resources: NodePrepareResources failed for claim a: no such device",
            R::DeviceClaimUnsatisfied,
            "check the pod of the driver",
        ),
        (
            "VolumePermissionChangeInProgress",
            "Setting volume ownership for mount is taking longer than expected, consider using OnRootMismatch - https://kubernetes.io",
            R::ContainersStarting,
            "fsGroupChangePolicy",
        ),
        (
            "VolumePermissionChangeInProgress",
            "Setting volume ownership for mount, processed 5121525 files.",
            R::ContainersStarting,
            "fsGroupChangePolicy",
        ),
        (
            "FailedSync",
            "error determining status: rpc error: code = Unknown desc = Error response from daemon: layer does not exist",
            R::ContainersStarting,
            "restart the container runtime",
        ),
        ("SomethingNew", "the moon is full", R::ContainersStarting, "look at the pod"),
    ] {
        let world = world().node("n", json!({})).unready_pod("agent-x", "n", creating.clone(), json!({}));
        let reason = first(world.event("Pod", "agent-x", event, message, "11:58:00"));
        assert!(reason.code == code && reason.fix.advice.contains(advice), "{event}: {reason:?}");
        assert!(reason.message.contains(&message[..16]), "{event}: {reason:?}");
    }
    // Its own DaemonSet also registers the device driver.
    let spec = json!({"template": {"spec": {"volumes": [{"name": "registry",
        "hostPath": {"path": "/var/lib/kubelet/plugins_registry"}}], "containers": []}}});
    let object = json!({"metadata": {"name": "nvidia-dra-driver-gpu-kubelet-plugin", "namespace": "nvidia", "uid": "dra"}, "spec": spec});
    let mut world = world().node("n", json!({})).unready_pod("agent-x", "n", creating, json!({})).event(
        "Pod",
        "agent-x",
        "FailedPrepareDynamicResources",
        "DRA driver gpu.nvidia.com is not registered",
        "11:58:00",
    );
    world.snapshot.node_agents = vec![crate::model::daemon_set::DaemonSet::from_object(object).unwrap()];
    let reason = first(world);
    let says = "nvidia/nvidia-dra-driver-gpu-kubelet-plugin registers the driver";
    assert!(reason.message.contains(says) && reason.message.contains("has no pod on the node"), "{reason:?}");
}

#[test]
fn a_pod_that_never_runs_for_as_long_as_it_has_to_be_ready_crashes() {
    for (required, restarts, ran, code) in [
        (600, 21, 480, R::CrashLooping),
        (600, 21, 900, R::NotYetAvailable),
        (600, 2, 480, R::NotYetAvailable),
        (7200, 3, 3600, R::CrashLooping),
        (600, 0, 0, R::NotYetAvailable),
        // It has survived longer than its last run; the current one has lasted 90 seconds.
        (120, 4, 5, R::NotYetAvailable),
    ] {
        let ended = at("11:58:00").parse::<jiff::Timestamp>().unwrap();
        let began = ended - jiff::SignedDuration::from_secs(ran);
        let last =
            json!({"terminated": {"exitCode": 1, "startedAt": began.to_string(), "finishedAt": ended.to_string()}});
        let last = if restarts > 0 { last } else { json!({}) };
        let status = json!({"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at("11:59:00")}],
            "containerStatuses": [{"name": "agent", "ready": true, "restartCount": restarts,
                "state": {"running": {"startedAt": at("11:58:30")}}, "lastState": last}]});
        let world = world().daemon_set(json!({"spec": {"minReadySeconds": required}})).node("n", json!({}));
        let reason = first(world.pod("agent-x", "n", json!({"status": status})));
        assert_eq!(reason.code, code, "{required} {restarts} {ran}: {reason:?}");
        assert_eq!(reason.message.contains("never runs for minReadySeconds"), code == R::CrashLooping, "{reason:?}");
    }
}

#[test]
fn a_surge_pod_that_needs_what_the_old_pod_holds_is_no_crash_of_its_own() {
    let of_host = json!({"hostNetwork": true, "volumes": [{"name": "data", "hostPath": {"path": "/var/lib/agent"}}]});
    for (surge, has_old, template, said, is_beside) in [
        (1, true, &of_host, "data path already locked by another beat", true),
        (
            1,
            true,
            &of_host,
            "data path already locked by another beat. Please make sure that beats share no data path",
            true,
        ),
        (1, true, &of_host, "listen tcp :9100: bind: address already in use", true),
        (1, true, &of_host, "failed to acquire lock on /var/lib/agent", true),
        (1, true, &of_host, "cannot open /etc/agent.yaml", false),
        (1, true, &of_host, "failed to acquire lock: leases.coordination.k8s.io is forbidden", false),
        (1, true, &of_host, "could not acquire lock: connection refused", false),
        // No resource of the node is shared.
        (1, true, &json!({}), "data path already locked by another beat", false),
        (1, true, &json!({}), "listen tcp :9100: bind: address already in use", false),
        (1, false, &of_host, "data path already locked by another beat", false),
        (0, true, &of_host, "data path already locked by another beat", false),
    ] {
        let crash = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "message": said, "finishedAt": at("11:58:00")}}});
        let rolling = json!({"maxSurge": surge, "maxUnavailable": 1 - surge});
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
        let mut world = world().daemon_set(json!({"spec": {"updateStrategy": strategy}})).node("n", json!({}));
        world = world.template(template.clone()).revision_of_image("hash1", 1, "agent:1");
        let host_network = template["hostNetwork"] == true;
        world = world.unready_pod("agent-new", "n", crash, json!({"spec": {"hostNetwork": host_network}}));
        if has_old {
            let labels = json!({"controller-revision-hash": "hash1", "pod-template-generation": "1"});
            world = world.pod("agent-old", "n", json!({"metadata": {"labels": labels}}));
        }
        let reasons = world.only_node().reasons;
        let told = reasons.iter().any(|reason| reason.fix.advice.contains("two such pods exclude each other"));
        assert_eq!(told, is_beside, "{surge} {has_old} {template} {said}: {reasons:?}");
    }
}

#[test]
fn a_node_that_leaves_is_not_waited_for_to_come_back() {
    let ended = json!({"status": {"phase": "Failed", "reason": "NodeShutdown", "message": "Pod was rejected as the node is shutting down.",
        "containerStatuses": null, "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:51:00")}]}});
    for (metadata, taints, advice) in [
        (json!({}), json!([]), "once the node is up again"),
        (json!({"deletionTimestamp": at("11:55:00")}), json!([]), "the node is being removed"),
        (
            json!({}),
            json!([{"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"}]),
            "start the machine",
        ),
    ] {
        let tolerant = json!({"tolerations": [{"operator": "Exists"}]});
        let node = json!({"metadata": metadata, "spec": {"taints": taints}});
        let reason = first(world().template(tolerant).node("n", node).pod("agent-x", "n", ended.clone()));
        assert!(reason.fix.advice.contains(advice), "{advice}: {reason:?}");
    }
    // Nor is a pod looked at that only starts there.
    for (deleted, advice) in
        [("11:55:00", "wait: the node is being removed"), ("11:30:00", "check the controllers of its finalizers")]
    {
        let node = json!({"metadata": {"deletionTimestamp": at(deleted)}});
        let starting = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
        let reason = first(world().node("n", node).unready_pod("agent-x", "n", starting, json!({})));
        assert_eq!(reason.code, R::ContainersStarting);
        assert!(reason.message.ends_with("; the Node object is being deleted"), "{reason:?}");
        assert!(reason.fix.advice.contains(advice) && reason.fix.command.is_none(), "{reason:?}");
    }
}

#[test]
fn devices_that_a_plugin_no_longer_offers_are_not_freed_by_another_pod() {
    for (allocatable, used, advice) in
        [("1", 3, "restart the pod of the device plugin"), ("3", 3, "lower the example.com/vf request")]
    {
        let request = json!({"resources": {"requests": {"example.com/vf": "1"}, "limits": {"example.com/vf": "1"}}});
        let container = |name: &str| {
            let mut container = request.clone();
            container["name"] = json!(name);
            container["image"] = json!("agent:2");
            json!({"containers": [container]})
        };
        let node = json!({"status": {"allocatable": {"example.com/vf": allocatable}}});
        let mut world = world().template(container("agent")).node("n", node);
        for number in 0..used {
            world = world.other_pod(&format!("job-{number}"), "n", json!({"spec": container("job")}));
        }
        let said = "0/1 nodes are available: 1 Insufficient example.com/vf.";
        let reason = first(world.pending_pod("agent-x", "n", said, json!({"spec": container("agent")})));
        assert_eq!(reason.code, R::InsufficientResource);
        assert!(reason.fix.advice.contains(advice), "{reason:?}");
        assert_eq!(reason.fix.advice.contains("preempt"), allocatable == "3", "{reason:?}");
    }
}

/// All pods of a DaemonSet share the objects named in its template; a volume for one zone or one pod cannot serve them all.
#[test]
fn a_claim_that_all_pods_share_is_named() {
    let claims = |names: &[&str]| {
        json!({"volumes": names.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
        .collect::<Vec<_>>()})
    };
    let (shared, two) = (claims(&["geoip-db"]), claims(&["a", "b"]));
    let ephemeral = json!({"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]});
    let one_pod = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode";
    for (volumes, said, advice) in [
        (&shared, "node(s) had volume node affinity conflict", "share claim geoip-db, so that only nodes"),
        (&shared, "node(s) didn't match PersistentVolume's node affinity", "share claim geoip-db, so that only nodes"),
        (&two, "node(s) had volume node affinity conflict", "share claim a and claim b, so that only nodes"),
        (&shared, one_pod, "share claim geoip-db, and only one pod may have such a claim"),
        (&shared, "persistentvolumeclaim \"geoip-db\" not found", "check the claims"),
        (&shared, "persistentvolumeclaim \"geoip-db\" is being deleted", "check the claims"),
        (&shared, "pod has unbound immediate PersistentVolumeClaims", "check the claims"),
        (&shared, "node(s) didn't find available persistent volumes to bind", "check the claims"),
        (&shared, "node(s) did not have enough free storage", "check the claims"),
        (&shared, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", "check the claims"),
        (&ephemeral, "node(s) had volume node affinity conflict", "check the claims"),
        (&ephemeral, "x.csi.io CSI driver is not installed on the node", "find the DaemonSet of driver x.csi.io"),
    ] {
        let message = format!("0/1 nodes are available: 1 {said}.");
        let world = world().template(volumes.clone()).node("n", json!({}));
        let reason = first(world.pending_pod("agent-x", "n", &message, json!({"spec": volumes})));
        assert!(reason.code == R::VolumeUnsatisfiable && reason.fix.advice.contains(advice), "{said}: {reason:?}");
    }
}

/// The scheduler waits for the provisioner, which reports the reason on the claim.
#[test]
fn what_keeps_a_claim_from_being_provisioned_is_told() {
    let said = "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded";
    for why in ["SchedulerError", "Unschedulable"] {
        let condition = json!([{"type": "PodScheduled", "status": "False", "reason": why, "message": said}]);
        let pod = json!({"status": {"conditions": condition}});
        let reason = first(world().node("n", json!({})).pending_pod("agent-x", "n", said, pod));
        assert!(reason.code == R::VolumeUnsatisfiable && reason.fix.advice.contains("provisioner"), "{reason:?}");
    }
}

/// In a virtual cluster, and on nodes without a kubelet, other components report why a pod does not run.
#[test]
fn what_others_than_the_scheduler_and_the_kubelet_report_is_told() {
    let refused = "Error syncing to host cluster: pods \"agent-x\" is forbidden: violates PodSecurity";
    let silent = || world().node("n", json!({})).pending_pod("agent-x", "n", "", json!({}));
    let told = first(silent().event("Pod", "agent-x", "SyncError", refused, "11:58:00"));
    assert!(told.message.contains(refused) && !told.fix.advice.contains("kube-scheduler"), "{told:?}");
    let audited = first(silent().event("Pod", "agent-x", "PolicyViolation", "policy p/r fail: no limits", "11:58:00"));
    assert!([audited, first(silent())].iter().all(|told| told.fix.advice.contains("kube-scheduler")));

    let creating = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
    let failed = json!({"status": {"reason": "ProviderFailed", "message": "volume varlog is of an unsupported type"}});
    let virtual_node = json!({"metadata": {"labels": {"type": "virtual-kubelet"}}});
    for (node, advice) in
        [(virtual_node, "exclude these nodes with a node affinity"), (json!({}), "see why the provider of the node")]
    {
        let told = first(world().node("n", node).unready_pod("agent-x", "n", creating.clone(), failed.clone()));
        assert!(told.message.contains("unsupported type") && told.fix.advice.contains(advice), "{told:?}");
    }

    let fargate = first(world().node("n", json!({})).pending_pod(
        "agent-x",
        "n",
        "Pod not supported on Fargate: invalid SecurityContext fields: Privileged",
        json!({}),
    ));
    assert!(fargate.fix.advice.contains("a Fargate profile selects these pods"), "{fargate:?}");
}

#[test]
fn pods_that_do_not_start_on_virtual_nodes_are_excluded_from_these() {
    let fargate = || json!({"metadata": {"labels": {"eks.amazonaws.com/compute-type": "fargate"}}});
    let creating = || json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
    let of = |patch: Value| world().node("n", fargate()).unready_pod("agent-x", "n", creating(), patch);
    let rejected = json!({"status": {"phase": "Failed", "reason": "OutOfpods", "message": "Pod was rejected: Node didn't have enough \
        resource: pods, requested: 1, used: 1, capacity: 1", "containerStatuses": []}});
    let mount = "MountVolume.SetUp failed for volume \"log\" : hostPath type check failed: /var/log is not a directory";
    let old = || json!({"metadata": {"creationTimestamp": at("11:00:00")}});
    let mut no_room = fargate();
    no_room["status"] = json!({"allocatable": {"pods": "1"}});
    let full = "0/1 nodes are available: 1 Too many pods.";
    for world in [
        of(old()),
        of(old()).event("Pod", "agent-x", "FailedMount", mount, "11:59:00"),
        of(rejected),
        world().node("n", no_room).other_pod("other-a", "n", json!({})).pending_pod("agent-x", "n", full, json!({})),
    ] {
        let told = first(world);
        let advice = "exclude these nodes with a node affinity (eks.amazonaws.com/compute-type NotIn [fargate])";
        assert!(told.fix.advice.starts_with(advice), "{told:?}");
        assert_eq!(told.fix.command.as_ref().unwrap().to_string(), "kubectl edit ds -n default agent", "{told:?}");
    }
    // It may still start.
    let young = json!({"metadata": {"creationTimestamp": at("11:59:00")}});
    assert!(first(of(young)).fix.advice.starts_with("wait"));
}

/// The component that removes a taint must tolerate it.
#[test]
fn a_cloud_controller_manager_that_waits_for_itself_is_told() {
    let taint = json!({"spec": {"taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true",
        "effect": "NoSchedule"}]}});
    let of = |container: Value| world().template(json!({"containers": [container]})).node("n", taint.clone());
    for (container, waits_for_itself) in [
        (json!({"name": "a", "image": "hetznercloud/hcloud-cloud-controller-manager:v1"}), true),
        (json!({"name": "a", "image": "x", "command": ["/bin/openstack-cloud-controller-manager"]}), true),
        (json!({"name": "a", "image": "x", "args": ["exec /bin/aws-cloud-controller-manager --v=2"]}), true),
        (json!({"name": "a", "image": "mcr.microsoft.com/oss/kubernetes/azure-cloud-node-manager:v1.31"}), true),
        (json!({"name": "a", "image": "registry.k8s.io/cloud-pv-vsphere/cloud-provider-vsphere:v1.31"}), true),
        (json!({"name": "a", "image": "fluent-bit:4"}), false),
    ] {
        let reason = first(of(container.clone()));
        assert_eq!(
            reason.fix.advice.contains("add to the template's tolerations"),
            waits_for_itself,
            "{container}: {reason:?}"
        );
        assert_eq!(
            reason.fix.advice.contains("wait for the cloud controller manager"),
            !waits_for_itself,
            "{reason:?}"
        );
    }
}

/// A claim that is bound to a volume, and the volume.
fn bound(claim: &str, claim_spec: Value, volume: &str, volume_spec: Value) -> (Value, Value) {
    let mut spec = claim_spec;
    spec["volumeName"] = volume.into();
    let annotations = json!({"pv.kubernetes.io/bind-completed": "yes"});
    let claim = json!({"metadata": {"name": claim, "namespace": "default", "annotations": annotations}, "spec": spec});
    (claim, json!({"metadata": {"name": volume}, "spec": volume_spec}))
}

fn claiming_volumes(names: &[&str]) -> Value {
    let volume = |name: &&str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
    json!({"volumes": names.iter().map(volume).collect::<Vec<_>>()})
}

#[test]
fn what_keeps_a_pod_from_its_volumes_is_recomputed() {
    let of_zone = |zone: &str| {
        let expression = json!({"key": "zone", "operator": "In", "values": [zone]});
        json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}})
    };
    let csi = |handle: &str| json!({"csi": {"driver": "csi.example.com", "volumeHandle": handle}});
    let one_pod = json!({"accessModes": ["ReadWriteOncePod"]});
    let (elsewhere, of_b) = bound("db", json!({}), "v", of_zone("b"));
    let (here, of_a) = bound("db", json!({}), "v", of_zone("a"));
    let (single, anywhere) = bound("db", one_pod, "v", json!({}));
    let (attached, first) = bound("db", json!({}), "v", csi("h1"));
    let (another, second) = bound("cache", json!({}), "w", csi("h2"));
    let (zonal, mut of_zone_b) = bound("db", json!({}), "v", json!({}));
    of_zone_b["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": "b"});
    let unbound = json!({"metadata": {"name": "db", "namespace": "default"}, "spec": {"storageClassName": "local"}});
    let deleted = json!({"metadata": {"name": "db", "namespace": "default", "deletionTimestamp": at("11:59:00")}});
    let local = |mode: &str| json!([{"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": mode}]);
    let mut large = unbound.clone();
    large["spec"]["resources"] = json!({"requests": {"storage": "5Gi"}});
    let mut provisioned = local("WaitForFirstConsumer");
    provisioned[0]["provisioner"] = "csi.example.com".into();
    let watches = json!([{"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": true}}]);
    let left = json!([{"metadata": {"name": "s"}, "storageClassName": "local", "capacity": "4Gi", "nodeTopology": {}}]);
    let limited = json!([{"metadata": {"name": "n"}, "spec": {"drivers": [{"name": "csi.example.com", "allocatable": {"count": 1}}]}}]);
    let wary = json!([{"metadata": {"name": "csi.example.com"}, "spec": {"preventPodSchedulingIfMissing": true}}]);
    let in_use = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
    for (storage, said, message, advice) in [
        (json!({}), "persistentvolumeclaim \"db\" not found", "\"db\" not found", "create the claim"),
        (
            json!({"claims": [deleted]}),
            "persistentvolumeclaim \"db\" is being deleted",
            "is being deleted",
            "wait until it is gone",
        ),
        (
            json!({"claims": [elsewhere], "volumes": [of_b]}),
            "node(s) didn't match PersistentVolume's node affinity",
            "claim db is bound to volume v, which is for nodes with zone in (b)",
            "share claim db, so that only nodes",
        ),
        (
            json!({"claims": [here.clone()]}),
            "persistentvolume \"v\" not found",
            "persistentvolume \"v\" not found",
            "restore the volume",
        ),
        (
            json!({"claims": [zonal], "volumes": [of_zone_b]}),
            "node(s) had no available volume zone",
            "volume v has topology.kubernetes.io/zone=b",
            "share claim db, so that only nodes",
        ),
        (
            json!({"claims": [single, another.clone()], "volumes": [anywhere, second.clone()]}),
            in_use,
            "claim db is used by default/job-0",
            "only one pod may have such a claim",
        ),
        (
            json!({"claims": [attached.clone(), another], "volumes": [first.clone(), second], "csiNodes": limited}),
            "node(s) exceed max volume count",
            "driver csi.example.com has attached 1 of 1 to it, and the pod needs 1 more",
            "move pods with volumes",
        ),
        (
            json!({"claims": [attached], "volumes": [first], "csiDrivers": wary}),
            "csi.example.com CSI driver is not installed on the node",
            "csi.example.com CSI driver is not installed",
            "find the DaemonSet of driver csi.example.com",
        ),
        (
            json!({"claims": [unbound.clone()], "classes": local("Immediate")}),
            "pod has unbound immediate PersistentVolumeClaims",
            "claim db is not bound",
            "see the events of the claim",
        ),
        (
            json!({"claims": [unbound], "classes": local("WaitForFirstConsumer")}),
            "node(s) didn't find available persistent volumes to bind",
            "no volume is free for claim db, and storage class local provisions none",
            "create a volume for each node",
        ),
        (
            json!({"claims": [large], "classes": provisioned, "csiDrivers": watches, "capacities": left}),
            "node(s) did not have enough free storage",
            "claim db requests 5Gi, and no capacity of storage class local for this node is that large",
            "free or add storage for class local",
        ),
    ] {
        let node = json!({"metadata": {"labels": {"zone": "a", "topology.kubernetes.io/zone": "a"}}});
        let says = |said: &str| format!("0/1 nodes are available: 1 {said}.");
        let world = |storage: &Value| {
            let other = if said == in_use { "db" } else { "cache" };
            let job = json!({"spec": claiming_volumes(&[other])});
            let world =
                world().template(claiming_volumes(&["db"])).node("n", node.clone()).other_pod("job-0", "n", job);
            let pod = json!({"spec": claiming_volumes(&["db"])});
            world.pending_pod("agent-x", "n", &says(said), pod).storage(storage)
        };
        let told = world(&storage).only_node();
        let reason = &told.reasons[0];
        assert_eq!(reason.code, R::VolumeUnsatisfiable, "{reason:?}");
        assert!(reason.message.contains(message) && reason.fix.advice.contains(advice), "{said}: {reason:?}");
        let explained = told.explanation.unwrap();
        assert_eq!(explained.scheduler_says.unwrap().agrees, Some(true), "{said}");
        assert!(
            explained.scheduling.iter().any(|check| check.rule == "volumes" && check.passed == Some(false)),
            "{said}"
        );

        // The same words are no longer true once the node can have the volume, and stay as they are if that was not read.
        let fine = world(&json!({"claims": [here.clone()], "volumes": [of_a.clone()]})).only_node();
        assert!(fine.reasons[0].message.contains("no longer true"), "{said}: {:?}", fine.reasons[0]);
        for kind in [Kind::PersistentVolumeClaims, Kind::PersistentVolumes, Kind::CsiNodes] {
            let mut unread = world(&json!({"claims": [here.clone()], "volumes": [of_a.clone()]}));
            unread.snapshot.read_on_demand.remove(&kind);
            if kind == Kind::PersistentVolumeClaims {
                unread.snapshot.persistent_volume_claims.clear();
            }
            let unread = unread.only_node();
            let words = &unread.reasons[0].message;
            assert!(words.contains(said.trim_start_matches("node(s) ")), "{said}: {words}");
            assert!(!words.contains("no longer true"), "{said} without {kind:?}: {words}");
            let explained = unread.explanation.unwrap();
            assert_eq!(explained.scheduler_says.unwrap().agrees, None, "{said}");
            assert!(
                explained.scheduling.iter().any(|check| check.rule == "volumes" && check.passed.is_none()),
                "{said}"
            );
        }
    }
}

/// Returns a claim for one device, with the number of devices of node n that are allocated for it, and the number of pods that use it.
fn device_claim(name: &str, status: &Value) -> Value {
    let requests = json!([{"name": "req", "exactly": {"deviceClassName": "gpu"}}]);
    let metadata = json!({"name": name, "namespace": "default"});
    json!({"metadata": metadata, "spec": {"devices": {"requests": requests}}, "status": status})
}

fn allocated(device: &str, node: &str) -> Value {
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    json!({"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        "devices": {"results": [{"driver": "d", "pool": node, "device": device}]}})
}

fn devices_of(node: &str, names: &[&str]) -> Value {
    let devices: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
    json!({"metadata": {"name": node}, "spec": {"driver": "d", "pool": pool, "nodeName": node, "devices": devices}})
}

#[test]
fn what_keeps_a_pod_from_its_devices_is_recomputed() {
    let classes = json!([{"metadata": {"name": "gpu"}}]);
    let (one, none) = (json!([devices_of("n", &["d0"])]), json!([devices_of("other", &["d0"])]));
    let free = device_claim("gpu", &json!({}));
    let taken = device_claim("another", &json!({"allocation": allocated("d0", "n")}));
    let here = device_claim("gpu", &json!({"allocation": allocated("d0", "n")}));
    let elsewhere = device_claim("gpu", &json!({"allocation": allocated("d0", "other")}));
    let mut deleted = free.clone();
    deleted["metadata"]["deletionTimestamp"] = at("11:59:00").into();
    let pods: Vec<Value> = (0..256).map(|number| json!({"uid": format!("p{number}")})).collect();
    let full = device_claim("gpu", &json!({"allocation": allocated("d0", "n"), "reservedFor": pods}));
    let (unavailable, too_few) = ("resourceclaim not available on the node", "cannot allocate all claims");
    for (devices, said, message, advice) in [
        (json!({}), "could not find ResourceClaim \"default/gpu\"", "\"default/gpu\"", "create ResourceClaim gpu"),
        (
            json!({"claims": [deleted]}),
            "resourceclaim \"gpu\" is being deleted",
            "being deleted",
            "wait until it is gone",
        ),
        (
            json!({"claims": [free.clone()]}),
            "request req: device class gpu does not exist",
            "device class gpu does not exist",
            "install the driver that provides DeviceClass gpu",
        ),
        (
            json!({"claims": [elsewhere], "classes": classes}),
            unavailable,
            "claim gpu is allocated for other nodes",
            "each pod gets a claim of its own",
        ),
        (json!({"claims": [full]}), "", "gpu is reserved for 256 pods", "each pod gets a claim of its own"),
        (
            json!({"claims": [free.clone()], "classes": classes, "slices": none}),
            too_few,
            "requests 1, and 0 of 0 on the node are free",
            "free devices of the node",
        ),
        (
            json!({"claims": [free.clone(), taken], "classes": classes, "slices": one}),
            too_few,
            "requests 1, and 0 of 1 on the node are free",
            "free devices of the node",
        ),
    ] {
        let says = format!("0/1 nodes are available: 1 {said}.");
        let says = if said.is_empty() { "" } else { &says };
        let world = |devices: &Value| claiming(&json!({"resourceClaimName": "gpu"}), says, json!({})).devices(devices);
        let told = world(&devices).only_node();
        let reason = told.reasons.iter().find(|reason| reason.code == R::DeviceClaimUnsatisfied);
        let reason = reason.unwrap_or_else(|| panic!("{said}: {:?}", told.reasons));
        assert!(reason.message.contains(message) && reason.fix.advice.contains(advice), "{said}: {reason:?}");
        let explained = told.explanation.unwrap();
        assert!(explained.scheduling.iter().any(|check| check.rule == "devices" && check.passed == Some(false)));
        assert_eq!(explained.scheduler_says.and_then(|says| says.agrees), (!said.is_empty()).then_some(true), "{said}");

        // A claim that is allocated for the node is decided; what the scheduler would allocate is not.
        for (claim, passed) in [(&here, Some(true)), (&free, None)] {
            let fine = json!({"claims": [claim], "classes": classes, "slices": one});
            let told = world(&fine).only_node().explanation.unwrap();
            let check = told.scheduling.iter().find(|check| check.rule == "devices").unwrap();
            assert_eq!(check.passed, passed, "{said}: {check:?}");
            for kind in [Kind::ResourceClaims, Kind::ResourceSlices, Kind::DeviceClasses] {
                let mut unread = world(&json!({"claims": [claim], "classes": classes, "slices": one}));
                unread.snapshot.read_on_demand.remove(&kind);
                match kind {
                    Kind::ResourceClaims => unread.snapshot.resource_claims.clear(),
                    Kind::ResourceSlices => unread.snapshot.resource_slices.clear(),
                    _ => unread.snapshot.device_classes.clear(),
                }
                let told = unread.only_node().explanation.unwrap();
                let check = told.scheduling.iter().find(|check| check.rule == "devices").unwrap();
                let is_known = passed == Some(true) && kind != Kind::ResourceClaims;
                assert_eq!(check.passed, is_known.then_some(true), "{said} without {kind:?}: {check:?}");
            }
        }
    }
}
