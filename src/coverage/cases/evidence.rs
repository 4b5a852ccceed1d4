//! Evidence besides the message: which pods run elsewhere since when, what admission adds, and who writes the DaemonSet.

use serde_json::{Value, json};

use super::plain;
use crate::coverage::test_support::{World, at, merge, world};
use crate::report::node_coverage::NodeCoverage;
use crate::report::reason::{Reason, ReasonCode as R};

fn on(world: World, node: &str) -> NodeCoverage {
    world.coverage().nodes.into_iter().find(|it| it.name == node).unwrap()
}

fn first(world: World) -> Reason {
    world.only_node().reasons.remove(0)
}

fn crash(message: &str) -> Value {
    json!({"restartCount": 31, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": message, "finishedAt": at("11:57:40")}}})
}

/// If a refusal was last reported longer ago than the controller waits, it no longer explains the missing pod.
#[test]
fn a_controller_that_has_stopped_trying_is_made_to_try_again() {
    let lease = |time: &str| {
        json!({"metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
            "spec": {"renewTime": at(time), "leaseDurationSeconds": 15}})
    };
    let active = |mut world: World| {
        world.snapshot.namespaces = vec![serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap()];
        world
    };
    let timeout =
        "Error creating: Post \"https://api:6443/api/v1/namespaces/default/pods\": net/http: TLS handshake timeout";
    let quota = "Error creating: pods \"agent-x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=9, limited: pods=9";
    let refused = |message: &str, time: &str| plain().event("DaemonSet", "agent", "FailedCreate", message, time);
    for (world, renewed, code, advice, retries) in [
        (refused(timeout, "11:20:00"), "11:59:50", R::ApiServerFailing, "make the controller try again", true),
        (refused(timeout, "11:50:00"), "11:59:50", R::ApiServerFailing, "wait", false),
        (refused(timeout, "11:20:00"), "11:21:00", R::ApiServerFailing, "wait", false),
        (refused(quota, "11:20:00"), "11:59:50", R::QuotaExceeded, "", false),
        (plain(), "11:59:50", R::Unexplained, "make the controller look", true),
        (plain(), "11:40:00", R::ControllerNotObserved, "", false),
    ] {
        let mut world = active(world);
        world.snapshot.leases.push(serde_json::from_value(lease(renewed)).unwrap());
        let reason = first(world);
        let command = reason.fix.command.map(|command| command.to_string()).unwrap_or_default();
        assert_eq!(reason.code, code, "{}", reason.message);
        assert!(reason.fix.advice.contains(advice), "{}", reason.fix.advice);
        assert_eq!(command.starts_with("kubectl ds retry"), retries, "{code:?}: {command}");
    }
    // It is unknown whether the controller is running.
    assert!(first(active(plain())).fix.advice.starts_with("check the namespace"));
}

/// What the kubelet did not find may have been created since, and an immutable object gets no other keys.
#[test]
fn what_a_pod_lacks_is_told_by_what_exists_now() {
    let object = |fields: Value| {
        let metadata = json!({"name": "trust", "namespace": "default", "creationTimestamp": at("11:59:00"),
            "managedFields": [{"time": at("11:59:00"), "fieldsV1": fields}]});
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    };
    let (plain, immutable) = (json!({"f:data": {}}), json!({"f:data": {}, "f:immutable": {}}));
    let not_found = "configmap \"trust\" not found";
    let no_key = "couldn't find key ca in ConfigMap default/trust";
    for (message, read, is_named, advice, command) in [
        (not_found, None, false, "create configmap trust", "kubectl get configmap"),
        (not_found, None, true, "wait: configmap trust exists by now", ""),
        (not_found, Some(&plain), false, "wait: configmap trust exists by now", ""),
        (no_key, Some(&plain), true, "add key ca to configmap trust", "kubectl describe configmap"),
        (no_key, None, true, "add key ca to configmap trust", "kubectl describe configmap"),
        (no_key, Some(&immutable), false, "configmap trust is immutable", "kubectl edit ds"),
    ] {
        let waiting = json!({"state": {"waiting": {"reason": "CreateContainerConfigError", "message": message}}});
        let mut world = world().node("n", json!({})).unready_pod("agent-n", "n", waiting, json!({}));
        world.snapshot.config_maps.extend(read.map(|fields| object(fields.clone())));
        if is_named {
            world.snapshot.object_names.insert(("ConfigMap".into(), "default".into(), "trust".into()));
        }
        let fix = first(world).fix;
        let shown = fix.command.map(|command| command.to_string()).unwrap_or_default();
        assert!(fix.advice.contains(advice) && shown.starts_with(command), "{message}: {} {shown}", fix.advice);
        assert_eq!(shown.is_empty(), command.is_empty(), "{message}: {shown}");
    }
}

#[test]
fn the_line_that_tells_why_a_program_has_ended_is_shown() {
    let half = "x".repeat(80);
    let long = format!(
        "E0 cannot retrieve pod spec: pods \"flannel-abcde\" is {half}{half} cannot get resource \"pods\" in the namespace"
    );
    for (message, expected) in [
        (
            "2026-01-01 INFO Calico node 'n-5' is already using the IPv4 address 10.140.0.21:\nTerminating\nCalico node failed to start",
            "is already using the IPv4 address",
        ),
        (
            "<jemalloc>: Unsupported system page size\n[FATAL tini (1)] Failed to allocate memory for child args: 'Cannot allocate memory'",
            "Unsupported system page size",
        ),
        (
            "iptables v1.8.4: can't initialize iptables table `nat': Permission denied (you must be root)\nError: exit status 3",
            "Permission denied",
        ),
        (
            "iptables v1.6.2: can't initialize iptables table `nat': Table does not exist\nPerhaps iptables or your kernel needs to be upgraded.",
            "Table does not exist",
        ),
        (
            "thread 'main' panicked at 'Failed to init EAL', src/env.rs:658\nnote: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.",
            "Failed to init EAL",
        ),
        (
            "SIGSEGV: segmentation violation\nPC=0x7f2 m=0\nsignal arrived during cgo execution\n\nrax    0x0\nrbx    0x7f21\nrip    0x7f2\nrflags 0x10246\ncs     0x33\nfs     0x0\ngs     0x0",
            "SIGSEGV",
        ),
        (
            "Could not unload NVIDIA driver kernel modules, driver is in use\nUnable to cleanup driver modules, attempting again with node drain...",
            "Could not unload",
        ),
        ("reading /etc/agent.yaml\nlistening on 9100\ndone", "done"),
        (
            "starting agent v1.2\nlevel=fatal msg=\"cannot open /etc/agent.yaml: permission denied, exiting\"",
            "permission denied",
        ),
        ("config missing, using default\nSegmentation fault (core dumped)", "Segmentation fault"),
        ("reading /etc/agent.yaml\nat least one endpoint is required", "at least one endpoint"),
        // What follows the usage describes the flags.
        (
            "flag provided but not defined: -watched-dir\nUsage of /reloader:\n  -retries int\n    the times to retry a failed request",
            "flag provided but not defined",
        ),
        // What a logger calls no error does not tell why it ended, if something else does.
        (
            "E1127 03:11:46.1 1 main.go:337] Error registering network: operation not supported\nW1127 03:11:47.2 1 reflector.go:492] watch ended with: an error on the server",
            "Error registering network",
        ),
        (
            "level=error msg=\"cannot open /etc/agent.yaml\"\nlevel=info msg=\"flushed 0 errors, shutting down gracefully after the last batch\"",
            "cannot open /etc/agent.yaml",
        ),
        ("2026-01-01T00:00:00Z\tERROR\tunable to bind\n2026-01-01T00:00:01Z\tWARN\tfailed to flush", "unable to bind"),
        (
            "{\"level\":\"fatal\",\"msg\":\"no such host\"}\n{\"level\":\"warn\",\"msg\":\"lease not released: timeout\"}",
            "no such host",
        ),
        ("W1127 03:11:47.2 1 reflector.go:492] watch ended with: an error on the server", "an error on the server"),
        ("[error] [in_tail] errno=24] Too many open files\n[error] [lib] backend failed", "Too many open files"),
        ("bind() to 0.0.0.0:80 failed (98: Address already in use)\nstill could not bind()", "Address already in use"),
        (
            "[emerg] 7#7: bind() to 0.0.0.0:80 failed (13: Permission denied)\nnginx: configuration file /tmp/nginx-cfg891 test failed",
            "Permission denied",
        ),
        ("nginx: configuration file /tmp/nginx-cfg891 test failed", "test failed"),
        (
            "Could not unload NVIDIA driver kernel modules, driver is in use\nFailed to uninstall nvidia driver components",
            "Could not unload",
        ),
        ("time=\"1\" level=fatal msg=\"open \\\"/x\\\": denied\"", "open \"/x\": denied"),
        // The level and the time of a line say nothing, and neither does what else it has.
        (
            "ts=2026-01-01 level=error caller=main.go:7 msg=\"cannot start\" err=\"open /x: denied\" id=7",
            ", \"cannot start: open /x: denied\";",
        ),
        (
            "{\"ts\":1.5,\"level\":\"error\",\"msg\":\"cannot start\",\"error\":\"open /x: denied\"}",
            ", \"cannot start: open /x: denied\";",
        ),
        ("{\"severity\":\"ERROR\",\"message\":\"cannot start:\\nno such key\"}", ", \"cannot start: no such key\";"),
        ("time=1 level=fatal msg=\"failed: denied\" error=denied", ", \"failed: denied\";"),
        ("{\"level\":\"error\",\"msg\":\"cannot sta", "{\"level\":\"error\",\"msg\":\"cannot sta"),
        ("cannot parse msg=7", ", \"cannot parse msg=7\";"),
        (
            "{\"ts\":1,\"level\":\"error\",\"msg\":\"no such host\"}\n{\"ts\":2,\"level\":\"info\",\"msg\":\"0 errors\"}",
            ", \"no such host\";",
        ),
        (&long, "cannot get resource"),
    ] {
        let reason = first(plain().unready_pod("agent-x", "n", crash(message), json!({})));
        assert!(reason.code == R::CrashLooping && reason.message.contains(expected), "{expected}: {}", reason.message);
    }
}

#[test]
fn an_image_that_others_have_from_before_proves_nothing() {
    let failing = |said: &str, created: &str| {
        let world = world()
            .node("old", json!({}))
            .node("n", json!({}))
            .pod("agent-old", "old", json!({"metadata": {"creationTimestamp": created}}))
            .unready_pod(
                "agent-x",
                "n",
                json!({"state": {"waiting": {"reason": "ErrImagePull", "message": format!("failed to pull \"agent:2\": {said}")}}}),
                json!({}),
            );
        on(world, "n").reasons.remove(0).fix.advice
    };
    let (long_ago, lately) = ("2026-02-01T00:00:00Z".to_owned(), at("11:10:00"));
    for (said, before, since) in [
        ("docker.io/bitnami/agent:2: not found", "do not drain or replace", "registry or mirror this node asks"),
        ("manifest unknown", "do not drain or replace", "registry or mirror this node asks"),
        ("name unknown: repository gone", "do not drain or replace", "registry or mirror this node asks"),
        (
            "pull access denied, repository does not exist or may require authorization",
            "still there",
            "credentials of this node",
        ),
        // These do not depend on the node.
        (
            "\"v1+prettyjws\" is no longer supported since containerd v2.1, please rebuild the image",
            "build and push",
            "build and push",
        ),
        (
            "short name mode is enforcing, but image name agent:2 returns ambiguous list",
            "write the image with the host name",
            "write the image with the host name",
        ),
    ] {
        for (created, expected) in [(&long_ago, before), (&lately, since)] {
            let advice = failing(said, created);
            assert!(advice.contains(expected), "{said}, {created}: {advice}");
        }
    }
}

#[test]
fn what_admission_adds_is_blamed_on_no_revision() {
    let proxy = |state: Value| {
        json!({
            "spec": {"containers": [{"name": "agent", "image": "agent:2"}, {"name": "istio-proxy", "image": "istio/proxyv2:1"}]},
            "status": {"containerStatuses": [
                {"name": "agent", "ready": true, "state": {"running": {}}},
                {"name": "istio-proxy", "ready": false, "started": true, "state": state},
            ]},
        })
    };
    for (state, code) in [
        (json!({"running": {}}), R::ReadinessFailing),
        (json!({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}), R::ImagePullFailed),
        (
            json!({"waiting": {"reason": "CreateContainerConfigError", "message": "secret \"istio\" not found"}}),
            R::ContainerConfigError,
        ),
    ] {
        let world = world().node("n", json!({})).revision_of_image("of-agent", 3, "agent:2");
        let mut pod = proxy(state);
        pod["metadata"] = json!({"labels": {"controller-revision-hash": "of-agent"}});
        let reason = first(world.unready_pod("agent-x", "n", json!({}), pod));
        assert_eq!(reason.code, code);
        let command = reason.fix.command.unwrap().to_string();
        assert!(
            reason.message.contains("the template has no container istio-proxy") && !command.contains("edit"),
            "{} {command}",
            reason.message
        );
    }
    // If the same pod runs with the container elsewhere, the template is fine.
    for (has_it, is_of_node) in [(true, true), (false, false)] {
        let mut pod = proxy(json!({"waiting": {"reason": "CrashLoopBackOff"}}));
        pod["metadata"] = json!({"labels": {"controller-revision-hash": "of-agent"}});
        let mut other = proxy(json!({"running": {}}));
        other["metadata"] = pod["metadata"].clone();
        other["status"]["containerStatuses"][1]["ready"] = json!(true);
        if !has_it {
            other["spec"]["containers"].as_array_mut().unwrap().truncate(1);
        }
        let world = world().node("n", json!({})).node("m", json!({})).revision_of_image("of-agent", 3, "agent:2");
        let world = world.pod("agent-m", "m", other).unready_pod("agent-x", "n", json!({}), pod);
        let reason = on(world, "n").reasons.remove(0);
        assert_eq!(reason.fix.advice.contains("delete the pod"), is_of_node, "{has_it}: {reason:?}");
    }
    let early = crash(
        "iptables validation failed; workload is not ready for Istio.\nwhen using Istio CNI, retry on another node",
    );
    let mut pod = proxy(json!({"waiting": {"reason": "CrashLoopBackOff"}}));
    pod["metadata"] = json!({"labels": {"controller-revision-hash": "of-agent"}});
    merge(&mut pod["status"]["containerStatuses"][1], early);
    let early = world().node("n", json!({})).revision_of_image("of-agent", 3, "agent:2");
    let reason = first(early.unready_pod("agent-x", "n", json!({}), pod));
    assert!(reason.fix.advice.contains("pod of istio-cni on the node"), "{reason:?}");
    // The template requests too little to be lowered.
    let requests = |cpu: &str| json!({"containers": [{"name": "agent", "image": "agent:2", "resources": {"requests": {"cpu": cpu}}}]});
    for (own, of_pod, says) in [("1", "6", true), ("5", "6", false), ("5", "5", false)] {
        let world = world().node("n", json!({})).template(requests(own)).revision_of_image("of-agent", 3, "agent:2");
        let labels = json!({"labels": {"controller-revision-hash": "of-agent"}});
        let pod = json!({"metadata": labels, "spec": requests(of_pod)});
        let reason = first(world.pending_pod("agent-x", "n", "0/1 nodes are available: 1 Insufficient cpu.", pod));
        assert_eq!(reason.message.contains("the template requests 1"), says, "{}", reason.message);
        assert_eq!(reason.fix.advice.contains("VerticalPodAutoscaler"), says, "{}", reason.fix.advice);
    }
}

/// A request that is not in the template cannot be lowered there.
#[test]
fn a_request_that_the_template_does_not_have_is_admissions() {
    let requests = |requests: Value| json!({"containers": [{"name": "agent", "image": "agent:2", "resources": {"requests": requests}}]});
    let range = |namespace: &str, resource: &str, amount: &str| {
        let item = json!({"type": "Container", "default": {resource: amount}, "defaultRequest": {resource: amount}});
        let metadata = json!({"name": "defaults", "namespace": namespace});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"limits": [item]}})).unwrap()
    };
    for (own, of_pod, of_range, told, advice) in [
        (
            json!({}),
            json!({"memory": "9Gi"}),
            Some(("default", "memory", "9Gi")),
            "limitrange defaults sets this",
            "set the memory request",
        ),
        (
            json!({"cpu": "1"}),
            json!({"cpu": "1", "memory": "9Gi"}),
            Some(("default", "memory", "9Gi")),
            "limitrange defaults sets this",
            "set the memory request",
        ),
        (
            json!({}),
            json!({"ephemeral-storage": "9Ti"}),
            Some(("default", "ephemeral-storage", "9Ti")),
            "limitrange defaults sets this",
            "change limitrange defaults",
        ),
        (
            json!({}),
            json!({"memory": "9Gi"}),
            Some(("other", "memory", "9Gi")),
            "admission adds this",
            "a LimitRange, whose default",
        ),
        (
            json!({}),
            json!({"memory": "9Gi"}),
            Some(("default", "memory", "1Gi")),
            "admission adds this",
            "a LimitRange, whose default",
        ),
        (json!({}), json!({"cpu": "99"}), None, "admission adds this", "a mutating webhook"),
        (json!({}), json!({"vpc.amazonaws.com/pod-eni": "1"}), None, "admission adds this", "SecurityGroupPolicy"),
        (json!({}), json!({"example.com/fpga": "1"}), None, "admission adds this", "a mutating webhook"),
        // The template has it, or the RuntimeClass.
        (
            json!({"memory": "9Gi"}),
            json!({"memory": "9Gi"}),
            Some(("default", "memory", "9Gi")),
            "",
            "lower the memory request",
        ),
    ] {
        let mut world =
            world().node("n", json!({})).template(requests(own)).revision_of_image("of-agent", 3, "agent:2");
        world
            .snapshot
            .limit_ranges
            .extend(of_range.map(|(namespace, resource, amount)| range(namespace, resource, amount)));
        let pod =
            json!({"metadata": {"labels": {"controller-revision-hash": "of-agent"}}, "spec": requests(of_pod.clone())});
        let resource = of_pod.as_object().unwrap().keys().next_back().unwrap();
        let says = format!("0/1 nodes are available: 1 Insufficient {resource}.");
        let reason = first(world.pending_pod("agent-x", "n", &says, pod));
        assert_eq!(reason.code, R::NeverFits, "{of_pod}");
        assert_eq!(reason.message.contains("the template requests none"), !told.is_empty(), "{}", reason.message);
        assert!(reason.message.contains(told) && reason.fix.advice.contains(advice), "{reason:?}");
        assert!(told.is_empty() || !reason.fix.advice.contains("lower"), "{}", reason.fix.advice);
        let command = reason.fix.command.map(|command| command.to_string()).unwrap_or_default();
        assert_eq!(
            command == "kubectl describe limitrange -n default defaults",
            told.contains("limitrange"),
            "{command}"
        );
    }
}

/// The node must have every topology label that a required rule uses.
#[test]
fn a_node_without_the_label_of_a_topology_is_told_so() {
    let spread = |rules: &[(&str, &str)]| {
        let rules: Vec<Value> = rules
            .iter()
            .map(|(key, when)| json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when}))
            .collect();
        json!({"topologySpreadConstraints": rules})
    };
    let near = |key: &str| {
        let term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": "db"}}});
        json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
    };
    let zone = "topology.kubernetes.io/zone";
    let missing = "didn't match pod topology spread constraints (missing required label)";
    for (template, says, label, by) in [
        (spread(&[(zone, "DoNotSchedule")]), missing, zone, "cloud provider"),
        (spread(&[("rack", "ScheduleAnyway"), ("row", "DoNotSchedule")]), missing, "row", ""),
        (
            spread(&[("kubernetes.io/hostname", "DoNotSchedule"), ("topology.ebs.csi.aws.com/zone", "DoNotSchedule")]),
            missing,
            "topology.ebs.csi.aws.com/zone",
            "",
        ),
        (
            spread(&[("karpenter.sh/capacity-type", "DoNotSchedule")]),
            missing,
            "karpenter.sh/capacity-type",
            "the node's pool",
        ),
        (near("rack"), "didn't match pod affinity rules", "rack", ""),
        (near(zone), "didn't match pod affinity rules", zone, "cloud provider"),
        // It has the label.
        (near("kubernetes.io/hostname"), "didn't match pod affinity rules", "", ""),
        // It has lost the label since.
        (spread(&[("row", "DoNotSchedule")]), "didn't match pod topology spread constraints", "row", ""),
        (spread(&[("row", "ScheduleAnyway")]), missing, "", ""),
    ] {
        let says = format!("0/1 nodes are available: 1 node(s) {says}.");
        let labels = json!({"metadata": {"labels": {"kubernetes.io/hostname": "n"}}});
        let pod = json!({"spec": template});
        let reason = first(world().node("n", labels).pending_pod("agent-x", "n", &says, pod));
        assert_eq!(reason.code, R::PodAffinityBlocked);
        let set = format!("set label {label} on the node");
        assert_eq!(reason.fix.advice.starts_with(&set), !label.is_empty(), "{reason:?}");
        assert!(reason.fix.advice.contains(by), "{}", reason.fix.advice);
        let shows_node = reason.fix.command.is_some_and(|command| command.to_string() == "kubectl describe node n");
        assert_eq!(shows_node, !label.is_empty());
    }
}

/// The condition tells which component has to set up the node's network.
#[test]
fn the_condition_of_a_network_that_is_not_up_is_read() {
    const PLUGIN: &str = "check the network plugin";
    for (status, reason, message, advice) in [
        (
            "True",
            "NoRouteCreated",
            "RouteController failed to create a route",
            "route controller of the cloud provider",
        ),
        ("True", "NoRouteCreated", "Node created without a route", "route controller of the cloud provider"),
        ("True", "CalicoIsDown", "Calico is shutting down on this node", PLUGIN),
        ("True", "AgentDown", "the agent of the network is gone", PLUGIN),
        ("False", "CalicoIsUp", "Calico is running on this node", "check kube-controller-manager"),
        ("False", "RouteCreated", "RouteController created a route", "check kube-controller-manager"),
        ("True", "", "", PLUGIN),
    ] {
        let condition = json!({"type": "NetworkUnavailable", "status": status, "reason": reason, "message": message});
        let ready = json!({"type": "Ready", "status": "True"});
        let taint = json!({"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"});
        let node = json!({"spec": {"taints": [taint]}, "status": {"conditions": [ready, condition]}});
        let said = "Could not create route 1 10.0.6.0/26 for node n after 4ms: RouteTableFull";
        let mut world = world().node("n", node).event("Node", "n", "FailedToCreateRoute", said, "11:59:00");
        let about = &mut world.snapshot.events[0].involved_object;
        (about.uid, about.namespace) = ("n".to_owned(), String::new());
        let told = first(world);
        assert_eq!(told.code, R::NetworkUnavailable);
        assert!(told.message.contains(reason) && told.message.contains(message), "{}", told.message);
        assert!(told.fix.advice.contains(advice), "{}", told.fix.advice);
        assert_eq!(told.message.contains("RouteTableFull"), reason == "NoRouteCreated", "{}", told.message);
    }
}

#[test]
fn a_daemon_set_that_is_written_back_is_not_to_be_edited() {
    let taint = json!({"spec": {"taints": [{"key": "old", "effect": "NoSchedule"}]}});
    let near = json!({"tolerations": [{"key": "Old", "operator": "Exists"}]});
    let failing = crash("cannot open /etc/agent.yaml");
    for (metadata, writer) in [
        (json!({"labels": {"addonmanager.kubernetes.io/mode": "Reconcile"}}), Some("the addon manager")),
        (json!({"labels": {"addonmanager.kubernetes.io/mode": "EnsureExists"}}), None),
        (
            json!({"annotations": {"objectset.rio.cattle.io/owner-gvk": "/v1, Kind=Service",
                "objectset.rio.cattle.io/owner-name": "traefik", "objectset.rio.cattle.io/owner-namespace": "kube-system"}}),
            Some("Service kube-system/traefik"),
        ),
        (
            json!({"ownerReferences": [{"apiVersion": "a/v1", "kind": "ClusterPolicy", "name": "gpu", "uid": "g", "controller": true}]}),
            Some("ClusterPolicy gpu"),
        ),
        (json!({}), None),
    ] {
        let of = |world: World| world.daemon_set(json!({"metadata": metadata}));
        let excluded = of(world().node("n", taint.clone()).template(near.clone())).coverage().not_eligible.remove(0);
        let oom = json!({"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": at("11:57:40")}}});
        let limited = json!({"spec": {"containers": [{"name": "agent", "image": "agent:2", "resources": {"limits": {"memory": "1Mi"}}}]}});
        let killed = first(of(world().node("n", json!({})).unready_pod("agent-x", "n", oom, limited)));
        for fix in [excluded.fix, killed.fix] {
            let command = fix.command.map(|command| command.to_string()).unwrap_or_default();
            assert_eq!(fix.advice.contains("change it there"), writer.is_some(), "{}", fix.advice);
            assert!(
                writer.is_none_or(|writer| fix.advice.contains(writer) && !command.contains("edit")),
                "{}",
                fix.advice
            );
        }
        // The log is read as before.
        let crashing = first(of(world().node("n", json!({})).unready_pod("agent-x", "n", failing.clone(), json!({}))));
        assert!(!crashing.fix.advice.contains("change it there"), "{}", crashing.fix.advice);
    }
}

#[test]
fn a_request_above_all_that_a_node_has_never_fits_whatever_was_read() {
    let requests = json!({"spec": {"containers": [{"name": "agent", "image": "agent:2", "resources": {"requests": {"memory": "9Gi", "cpu": "1"}}}]}});
    let mut world = world().node("n", json!({})).pending_pod(
        "agent-x",
        "n",
        "0/1 nodes are available: 1 Insufficient memory.",
        requests,
    );
    world.snapshot.pods_complete = crate::model::snapshot::PodsComplete::On(std::iter::empty::<String>().collect());
    let reason = first(world);
    assert!(reason.code == R::NeverFits && reason.fix.advice.contains("lower the memory request to 8Gi"), "{reason:?}");
}

#[test]
fn a_kubelet_that_rejects_a_pod_is_read_by_its_words() {
    for (said, expected) in [
        (
            "Allocate failed due to failed to write checkpoint file \"kubelet_internal_checkpoint\": write /var/lib/kubelet/d: no space left on device",
            "free space",
        ),
        (
            "failed to write checkpoint file \"memory_manager_state\": read-only file system",
            "file system has become read-only",
        ),
        (
            "preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [(res: pods, q: 1), ]",
            "may preempt",
        ),
        (
            "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available",
            "NUMA node",
        ),
        ("[memorymanager] failed to find NUMA nodes to extend the current topology hint", "NUMA node"),
        ("Allocate failed due to no healthy devices present; cannot allocate unhealthy devices", "device plugins"),
    ] {
        let status = json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "conditions": [], "containerStatuses": [],
            "message": format!("Pod was rejected: {said}")});
        let reason = first(world().node("n", json!({})).pod("agent-x", "n", json!({"status": status})));
        assert!(reason.fix.advice.contains(expected), "{said}: {}", reason.fix.advice);
    }
}

#[test]
fn a_path_of_another_type_is_removed_where_the_kubelet_would_create_it() {
    let volume =
        |kind: &str| json!({"volumes": [{"name": "lock", "hostPath": {"path": "/run/xtables.lock", "type": kind}}]});
    for (kind, said, expected) in [
        ("FileOrCreate", "/run/xtables.lock is not a file", "if nothing uses /run/xtables.lock"),
        ("FileOrCreate", "/run/xtables.lock is not a file, it's a directory", "if nothing uses /run/xtables.lock"),
        ("DirectoryOrCreate", "/run/xtables.lock is not a directory", "if nothing uses /run/xtables.lock"),
        ("File", "/run/xtables.lock is not a file", "create the file"),
        ("Directory", "/run/xtables.lock is not a directory, it's a file", "replace it by a directory"),
    ] {
        let message = format!("MountVolume.SetUp failed for volume \"lock\" : hostPath type check failed: {said}");
        let creating = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
        let world =
            world().node("n", json!({})).template(volume(kind)).unready_pod("agent-x", "n", creating, json!({}));
        let reason = first(world.event("Pod", "agent-x", "FailedMount", &message, "11:59:00"));
        assert!(reason.fix.advice.contains(expected), "{kind} {said}: {}", reason.fix.advice);
    }
}

#[test]
fn kernels_and_profiles_of_a_node_are_no_fault_of_the_template() {
    for (said, expected) in [
        (
            "runc create failed: unable to start container process: error loading seccomp filter into kernel: error loading seccomp filter: errno 524",
            "bpf_jit_limit",
        ),
        (
            "invalid mount config for type \"bind\": bind source path does not exist: /var/lib/agent/data",
            "exclude these nodes",
        ),
        (
            "failed to mount /var/lib/containerd/tmpmounts/containerd-mount1: open /var/lib/containerd/tmpmounts/containerd-mount1/etc/passwd: no such file or directory",
            "remove the image from the node",
        ),
    ] {
        let status = json!({"state": {"waiting": {"reason": "CreateContainerError", "message": said}}});
        let volume = json!({"volumes": [{"name": "data", "hostPath": {"path": "/var/lib/agent/data"}}]});
        let reason =
            first(world().node("n", json!({})).template(volume).unready_pod("agent-x", "n", status, json!({})));
        assert!(reason.fix.advice.contains(expected), "{said}: {}", reason.fix.advice);
    }
    let deleted = json!({"metadata": {"deletionTimestamp": at("11:40:00"), "deletionGracePeriodSeconds": 30}});
    let said = "error killing pod: failed to \"KillContainer\" for \"agent\": runc did not terminate successfully: unable to signal init: permission denied";
    let world = world().node("n", json!({})).pod("agent-x", "n", deleted).event(
        "Pod",
        "agent-x",
        "FailedKillPod",
        said,
        "11:59:00",
    );
    let reason = first(world);
    assert!(reason.code == R::StuckTerminating && reason.fix.advice.contains("AppArmor"), "{}", reason.fix.advice);
}

#[test]
fn a_label_that_an_operator_has_paused_is_left_alone() {
    for (value, expected) in [
        ("paused-for-driver-upgrade", "wait for the operator"),
        ("upgrade-required", "wait for the operator"),
        ("false", "the GPU operator, which sets label"),
    ] {
        let key = "nvidia.com/gpu.deploy.device-plugin";
        let world = world()
            .node("n", json!({"metadata": {"labels": {key: value}}}))
            .template(json!({"nodeSelector": {key: "true"}}));
        let group = world.coverage().not_eligible.remove(0);
        assert!(group.fix.advice.contains(expected), "{value}: {}", group.fix.advice);
    }
}

/// Once the containers have ended, only the volumes can block the deletion; events from before the deletion are ignored.
#[test]
fn what_keeps_a_pod_whose_containers_have_ended_is_a_volume() {
    let deleted = json!({"metadata": {"deletionTimestamp": at("11:50:00"), "deletionGracePeriodSeconds": 30}});
    let ended = json!({"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
    for (reason, said, keeps) in [
        ("FailedMount", "configmap \"agent\" not found", true),
        ("FailedAttachVolume", "Multi-Attach error for volume \"pvc-1\"", true),
        ("Unhealthy", "Readiness probe failed", false),
        ("BackOff", "Back-off restarting failed container agent", false),
        ("FailedPreStopHook", "PreStopHook failed", false),
    ] {
        let world = world().node("n", json!({})).unready_pod("agent-x", "n", ended.clone(), deleted.clone());
        let finding = first(world.event("Pod", "agent-x", reason, said, "11:58:00"));
        assert_eq!(finding.code, R::StuckTerminating, "{reason}");
        assert_eq!(finding.message.contains(said), keeps, "{reason}: {finding:?}");
    }
}

/// To edit the template does not help if admission makes something else of it.
#[test]
fn what_admission_makes_of_a_pod_is_told_with_what_the_template_has() {
    let container = |image: &str, limit: Value, env: Value| json!({"name": "agent", "image": image, "resources": {"limits": limit}, "env": env});
    let own = |image: &str, limit: Value| container(image, limit, json!([]));
    let pull = |image: &str, why: &str| json!({"state": {"waiting": {"reason": "ErrImagePull", "message": format!("failed to pull \"{image}\": {why}")}}});
    let killed = || {
        json!({"restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "b"}},
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": at("11:59:00")}}})
    };
    let config =
        |message: &str| json!({"state": {"waiting": {"reason": "CreateContainerConfigError", "message": message}}});
    let creating = || json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
    let mount = |volume: &str, why: &str| format!("MountVolume.SetUp failed for volume \"{volume}\" : {why}");
    let (none, limit) = (json!({}), |memory: &str| json!({"memory": memory}));
    let doubled = "harbor/harbor/agent:2";
    let missing = mount("istiod-ca-cert", "configmap \"istio-ca-root-cert\" not found");
    let secret = json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "a", "key": "k"}}}]);
    let claim = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}});
    let host = json!({"name": "logs", "hostPath": {"path": "/var/log"}});
    let webhooks = "kubectl get mutatingwebhookconfigurations";
    for (template, volumes, of_pod, elsewhere, status, event, told, advice, command) in [
        (
            own("agent:2", none.clone()),
            json!([]),
            own(doubled, none.clone()),
            Some("harbor/agent:2"),
            pull(doubled, "not found"),
            None,
            "the template has image agent:2: admission made it harbor/harbor/agent:2",
            "the template is not at fault",
            webhooks,
        ),
        // The name may be wrong in the template, too.
        (
            own("agent:2", none.clone()),
            json!([]),
            own("mirror/agent:2", none.clone()),
            None,
            pull("mirror/agent:2", "not found"),
            None,
            "the template has image agent:2: admission made it mirror/agent:2",
            "correct the tag or digest",
            "kubectl edit ds -n default agent",
        ),
        (
            own("agent:2", none.clone()),
            json!([]),
            own("agent:2", none.clone()),
            None,
            pull("agent:2", "not found"),
            None,
            "",
            "correct the tag or digest",
            "kubectl edit ds -n default agent",
        ),
        (
            own("agent:2", limit("1Gi")),
            json!([]),
            own("agent:2", limit("64Mi")),
            None,
            killed(),
            None,
            "the template has memory limit 1Gi: admission made it 64Mi",
            "VerticalPodAutoscaler",
            webhooks,
        ),
        (
            own("agent:2", none.clone()),
            json!([]),
            own("agent:2", limit("64Mi")),
            None,
            killed(),
            None,
            "the template has no memory limit: admission adds it",
            "fix what adds it",
            webhooks,
        ),
        (
            own("agent:2", none.clone()),
            json!([]),
            own("agent:2", limit("128Mi")),
            None,
            killed(),
            None,
            "limitrange defaults sets this by default",
            "set the memory limit",
            "kubectl edit ds -n default agent",
        ),
        (
            own("agent:2", limit("1Gi")),
            json!([]),
            own("agent:2", limit("1024Mi")),
            None,
            killed(),
            None,
            "",
            "raise the memory limit",
            "kubectl edit ds -n default agent",
        ),
        (
            own("agent:2", none.clone()),
            json!([host]),
            own("agent:2", none.clone()),
            None,
            creating(),
            Some(missing.clone()),
            "the template has no volume istiod-ca-cert: admission adds it",
            "fix what adds it",
            webhooks,
        ),
        (
            own("agent:2", none.clone()),
            json!([host]),
            own("agent:2", none.clone()),
            None,
            creating(),
            Some(mount("logs", "hostPath type check failed: /var/log is not a directory")),
            "",
            "/var/log",
            "kubectl edit ds -n default agent",
        ),
        // Its PersistentVolume is named.
        (
            own("agent:2", none.clone()),
            json!([claim]),
            own("agent:2", none.clone()),
            None,
            creating(),
            Some(mount("pvc-1", "permission denied")),
            "",
            "who may write",
            "kubectl edit ds -n default agent",
        ),
        (
            own("agent:2", none.clone()),
            json!([]),
            own("agent:2", none.clone()),
            None,
            creating(),
            Some(mount("kube-api-access-x", "failed to fetch token: 500")),
            "",
            "gives the kubelet no token",
            "kubectl describe pod -n default agent-x",
        ),
        (
            own("agent:2", none.clone()),
            json!([]),
            own("agent:2", none.clone()),
            None,
            config("secret \"a\" not found"),
            None,
            "the template has no reference to secret a: admission adds it",
            "fix what adds it",
            webhooks,
        ),
        (
            container("agent:2", none.clone(), secret),
            json!([]),
            own("agent:2", none.clone()),
            None,
            config("secret \"a\" not found"),
            None,
            "",
            "create secret a",
            "kubectl get secret -n default",
        ),
    ] {
        let template = json!({"containers": [template], "volumes": volumes});
        let mut world = world().node("n", json!({})).template(template).revision_of_image("of-agent", 3, "agent:2");
        let defaults = json!({"metadata": {"name": "defaults", "namespace": "default"},
            "spec": {"limits": [{"type": "Container", "default": {"memory": "128Mi"}}]}});
        world.snapshot.limit_ranges.push(serde_json::from_value(defaults).unwrap());
        let labels = json!({"labels": {"controller-revision-hash": "of-agent"}});
        let pod = json!({"metadata": labels, "spec": {"containers": [of_pod]}});
        let mut world = world.unready_pod("agent-x", "n", status, pod);
        if let Some(image) = elsewhere {
            let other = json!({"metadata": labels, "spec": {"containers": [own(image, json!({}))]}});
            world = world.node("m", json!({})).pod("agent-m", "m", other);
        }
        if let Some(said) = &event {
            world = world.event("Pod", "agent-x", "FailedMount", said, "11:59:00");
        }
        let reason = on(world, "n").reasons.remove(0);
        assert_eq!(
            reason.message.contains("admission") || reason.message.contains("by default"),
            !told.is_empty(),
            "{reason:?}"
        );
        assert!(reason.message.contains(told) && reason.fix.advice.contains(advice), "{told}: {reason:?}");
        assert_eq!(reason.fix.command.unwrap().to_string(), command, "{told} {event:?}");
    }
}

/// The container runtime applies a profile of its own where the template names none.
#[test]
fn a_profile_that_the_template_does_not_name_is_the_runtimes() {
    let empty = "applying apparmor profile to container 1: empty localhost AppArmor profile is forbidden";
    let missing = "failed to generate apparmor spec opts: apparmor profile not found k8s-agent";
    let of_filter = "failed to generate seccomp spec opts: cannot load seccomp profile \"/var/lib/kubelet/seccomp/a.json\": no such file";
    let apparmor = |kind: &str| json!({"appArmorProfile": {"type": kind, "localhostProfile": "k8s-agent"}});
    let of_container =
        |context: Value| json!({"containers": [{"name": "agent", "image": "agent:2", "securityContext": context}]});
    for (said, template, is_runtimes) in [
        (empty, of_container(json!({"appArmorProfile": {"type": "Unconfined"}})), true),
        (empty, json!({}), true),
        (missing, of_container(apparmor("Localhost")), false),
        (missing, json!({"securityContext": apparmor("Localhost")}), false),
        (
            missing,
            json!({"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "a.json"}}}),
            true,
        ),
        (
            of_filter,
            json!({"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "a.json"}}}),
            false,
        ),
    ] {
        let status = |reason: &str| json!({"state": {"waiting": {"reason": reason, "message": said}}});
        let world = || world().node("n", json!({})).template(template.clone());
        let of_container = first(world().unready_pod("agent-x", "n", status("CreateContainerError"), json!({})));
        let creating = world().unready_pod(
            "agent-x",
            "n",
            json!({"state": {"waiting": {"reason": "ContainerCreating"}}}),
            json!({}),
        );
        let of_sandbox = first(creating.event("Pod", "agent-x", "FailedCreatePodSandBox", said, "11:59:00"));
        for reason in [of_container, of_sandbox] {
            let advice = &reason.fix.advice;
            assert_eq!(advice.contains("the template names no profile"), is_runtimes, "{said} {template}: {advice}");
            assert!(is_runtimes || advice.contains("install the profile on the node"), "{said} {template}: {advice}");
            assert!(!is_runtimes || reason.fix.command.is_none(), "{reason:?}");
        }
    }
    // The kubelet gives such a path for type Localhost alone.
    let by_default = json!({"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}});
    let status = json!({"state": {"waiting": {"reason": "CreateContainerError", "message": of_filter}}});
    let reason = first(world().node("n", json!({})).template(by_default).revision_of_template("own", 3).unready_pod(
        "agent-x",
        "n",
        status,
        json!({"metadata": {"labels": {"controller-revision-hash": "own"}}}),
    ));
    assert!(reason.message.contains("admission adds it"), "{reason:?}");
    let annotated = json!({"spec": {"template": {"metadata": {"annotations":
        {"container.apparmor.security.beta.kubernetes.io/agent": "localhost/k8s-agent"}}}}});
    let status = json!({"state": {"waiting": {"reason": "CreateContainerError", "message": missing}}});
    let reason =
        first(world().node("n", json!({})).daemon_set(annotated).unready_pod("agent-x", "n", status, json!({})));
    assert!(reason.fix.advice.contains("install the profile"), "{reason:?}");
}

#[test]
fn a_runtime_class_that_was_not_read_is_looked_at_before_the_namespace() {
    let says = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.";
    for (class, annotation, command) in [
        (Some("nvidia"), None, "kubectl get runtimeclass -o yaml nvidia"),
        (Some("nvidia"), Some("accelerator=a100"), "kubectl get namespace -o yaml default"),
        (Some("nvidia"), Some("team=blue"), "kubectl get runtimeclass -o yaml nvidia"),
        (None, None, "kubectl get namespace -o yaml default"),
        (None, Some("accelerator=a100"), "kubectl get namespace -o yaml default"),
    ] {
        let mut world = world().node("n", json!({})).template(json!({"runtimeClassName": class})).pending_pod(
            "agent-x",
            "n",
            says,
            json!({"spec": {"nodeSelector": {"accelerator": "a100"}}}),
        );
        let annotations = annotation.map(|it| json!({"scheduler.alpha.kubernetes.io/node-selector": it}));
        let namespace = json!({"metadata": {"name": "default", "annotations": annotations.unwrap_or(json!({}))}});
        world.snapshot.namespaces.push(serde_json::from_value(namespace).unwrap());
        let reason = first(world);
        assert_eq!(reason.code, R::InjectedNodeSelector);
        assert_eq!(reason.fix.command.unwrap().to_string(), command, "{class:?} {annotation:?}");
    }
}

/// Whichever of them is lowered alone, the pod still does not fit.
#[test]
fn all_resources_that_never_fit_are_named_together() {
    let pod =
        json!({"spec": {"containers": [{"name": "agent", "resources": {"requests": {"cpu": "6", "memory": "9Gi"}}}]}});
    let says = "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.";
    let reason = first(plain().pending_pod("agent-x", "n", says, pod));
    for part in ["lower the cpu request to 4", "lower the memory request to 8Gi"] {
        assert!(reason.fix.advice.contains(part), "{reason:?}");
    }
}

/// Pods on several addresses of the node exclude one that wants all of them.
#[test]
fn every_pod_that_uses_a_host_port_is_named() {
    let on = |address: &str| json!([{"name": "agent", "ports": [{"hostPort": 9100, "containerPort": 9100, "hostIP": address}]}]);
    let pod = |address: &str| json!({"spec": {"containers": on(address)}});
    let says = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
    for (wanted, held, parts, advice) in [
        (
            "",
            vec!["127.0.0.1", "127.0.0.2"],
            vec!["default/held-0 and by default/held-1"],
            "each of these pods uses it",
        ),
        ("", vec!["", "10.0.0.1"], vec!["default/held-0 and by default/held-1"], "each of these pods uses it"),
        ("", vec!["127.0.0.1"], vec!["default/held-0"], "change the host port of one of them"),
        ("127.0.0.2", vec!["127.0.0.1", "127.0.0.2"], vec!["by default/held-1"], "change the host port of one of them"),
        ("127.0.0.2", vec!["127.0.0.1", ""], vec!["by default/held-1"], "change the host port of one of them"),
    ] {
        let mut world = plain().pending_pod("agent-x", "n", says, pod(wanted));
        for (at, address) in held.iter().enumerate() {
            world = world.other_pod(&format!("held-{at}"), "n", pod(address));
        }
        let reason = first(world);
        assert!(parts.iter().all(|part| reason.message.contains(part)), "{wanted} {held:?}: {reason:?}");
        assert!(reason.fix.advice.contains(advice), "{wanted} {held:?}: {reason:?}");
    }
}

/// Nobody but kube-controller-manager removes it.
#[test]
fn a_taint_that_outlasts_what_it_was_for_is_the_controllers() {
    for (key, status, is_controllers) in [
        ("node.kubernetes.io/not-ready", "True", true),
        ("node.kubernetes.io/unreachable", "True", true),
        ("node.kubernetes.io/not-ready", "False", false),
        ("node.kubernetes.io/unreachable", "Unknown", false),
    ] {
        let node = json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": at("11:50:00")}]}});
        let reason = first(world().node("n", node));
        assert_eq!(reason.code, R::NodeNotReadyTaint);
        assert_eq!(
            reason.fix.advice.contains("check kube-controller-manager"),
            is_controllers,
            "{key} {status}: {reason:?}"
        );
    }
}
