//! Generates random cases: from small vocabularies, so that matches are frequent, and with every oddity.

use serde_json::{Map, Value, json};

use crate::support::random::Random;

const LABEL_KEYS: &[&str] = &[
    "zone",
    "arch",
    "kubernetes.io/os",
    "beta.kubernetes.io/os",
    "example.com/generation",
    "UPPER_case.x",
    "node-role.kubernetes.io/worker",
];
const BAD_KEYS: &[&str] = &["", "-zone", "a/b/c", "Bad_Prefix/x", "/x", "x/", "zone ", "a..b/x", "metadata.name"];
const LABEL_VALUES: &[&str] = &["a", "b", "linux", "", "5", "3", "9"];
const ODD_VALUES: &[&str] = &[
    "010",
    "+5",
    "-0",
    "-5",
    "0",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "5.0",
    "0x10",
    "1_0",
    " 5",
    "5 ",
    "A",
    "a-",
    "a b",
    "x123456789012345678901234567890123456789012345678901234567890123",
];
const OPERATORS: &[&str] = &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
const BAD_OPERATORS: &[&str] = &["", "in", "Equals", "Gte"];
/// Keys and values of taints are few in most cases, so that a toleration's every field gets to decide.
const TAINT_KEYS: &[&str] = &[
    "dedicated",
    "dedicated",
    "dedicated",
    "dedicated",
    "gpu",
    "sla",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/out-of-service",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.alpha.kubernetes.io/notReady",
];
const TAINT_VALUES: &[&str] = &["", "", "", "a", "a", "b", "5", "010", "950"];
const EFFECTS: &[&str] = &["NoSchedule", "NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule"];
const BAD_EFFECTS: &[&str] = &["", "noSchedule", "NoScheduleNoAdmit"];

fn label_value(random: &mut Random) -> &'static str {
    random.mostly(85, LABEL_VALUES, ODD_VALUES)
}

fn labels(random: &mut Random) -> Value {
    let mut labels = Map::new();
    for key in LABEL_KEYS {
        if random.percent(60) {
            labels.insert((*key).to_owned(), label_value(random).into());
        }
    }
    Value::Object(labels)
}

fn node_name(random: &mut Random) -> String {
    if random.percent(2) { String::new() } else { format!("n{}", random.below(12)) }
}

/// Makes a node with labels and taints.
pub fn node(random: &mut Random) -> Value {
    let taints = if random.percent(50) { random.some(3, taint) } else { Vec::new() };
    json!({"metadata": {"name": node_name(random), "labels": labels(random)}, "spec": {
        "taints": taints,
        "unschedulable": random.percent(10),
    }})
}

fn taint(random: &mut Random) -> Value {
    let key = if random.percent(98) { random.word(TAINT_KEYS) } else { "" };
    let effect = random.mostly(95, EFFECTS, BAD_EFFECTS);
    json!({"key": key, "value": random.word(TAINT_VALUES), "effect": effect})
}

fn toleration(random: &mut Random) -> Value {
    let operator = match random.below(20) {
        0..8 => "Exists",
        8..12 => "Equal",
        12..15 => "",
        15 | 16 => "Gt",
        17 | 18 => "Lt",
        _ => random.word(&["exists", "NotEqual", "In"]),
    };
    let value = if operator == "Exists" && random.percent(90) { "" } else { random.word(TAINT_VALUES) };
    let key = if random.percent(90) { random.word(TAINT_KEYS) } else { "" };
    let effect = if random.percent(25) { "" } else { random.word(EFFECTS) };
    let mut toleration = json!({"key": key, "operator": operator, "value": value, "effect": effect});
    if random.percent(25) {
        toleration["tolerationSeconds"] = (*random.pick(&[0, 60, -1])).into();
    }
    toleration
}

fn requirement(random: &mut Random) -> Value {
    let key = random.mostly(97, LABEL_KEYS, BAD_KEYS);
    let operator = random.mostly(97, OPERATORS, BAD_OPERATORS);
    let count = match operator {
        _ if random.percent(4) => random.below(3),
        "Exists" | "DoesNotExist" => 0,
        "Gt" | "Lt" => 1,
        _ => 1 + random.below(3),
    };
    let numeric = matches!(operator, "Gt" | "Lt") && random.percent(80);
    let values: Vec<_> = (0..count)
        .map(|_| {
            if numeric { random.word(&["0", "3", "4", "5", "010", "9223372036854775806"]) } else { label_value(random) }
        })
        .collect();
    json!({"key": key, "operator": operator, "values": values})
}

fn field_requirement(random: &mut Random) -> Value {
    let key = if random.percent(90) { "metadata.name" } else { random.word(&["metadata.namespace", "", "spec.x"]) };
    let operator =
        if random.percent(92) { random.word(&["In", "NotIn"]) } else { random.word(&["Exists", "Gt", "", "in"]) };
    let count = if random.percent(85) { 1 } else { random.below(4) };
    let values: Vec<_> =
        (0..count).map(|_| if random.percent(95) { node_name(random) } else { String::new() }).collect();
    json!({"key": key, "operator": operator, "values": values})
}

fn term(random: &mut Random) -> Value {
    let mut term = json!({});
    if random.percent(85) {
        term["matchExpressions"] = random.some(4, requirement).into();
    }
    if random.percent(25) {
        term["matchFields"] = random.some(2, field_requirement).into();
    }
    term
}

/// Makes the spec of a template, as far as it matters for where the pods run.
fn placement(random: &mut Random) -> Value {
    let mut spec = json!({"containers": [], "tolerations": random.some(4, toleration)});
    if random.percent(20) {
        spec["hostNetwork"] = true.into();
    }
    if random.percent(6) {
        spec["nodeName"] = node_name(random).into();
    }
    if random.percent(25) {
        let mut selector = Map::new();
        for _ in 0..1 + random.below(2) {
            let key = random.mostly(95, LABEL_KEYS, BAD_KEYS);
            selector.insert(key.to_owned(), label_value(random).into());
        }
        spec["nodeSelector"] = selector.into();
    }
    if random.percent(55) {
        let terms = if random.percent(97) { 1 + random.below(3) } else { 0 };
        let terms: Vec<_> = (0..terms).map(|_| term(random)).collect();
        spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] =
            terms.into();
    }
    if random.percent(10) {
        // Preferences are not the controller's business.
        spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
            json!([{"weight": 1, "preference": term(random)}]);
    }
    spec
}

fn update_strategy(random: &mut Random) -> Value {
    if random.percent(10) {
        return json!({"type": "OnDelete"});
    }
    let mut count = || match random.below(3) {
        0 => json!(random.below(12)),
        1 => json!(format!("{}%", random.below(101))),
        _ => json!(0),
    };
    let (max_unavailable, max_surge) = (count(), count());
    let mut rolling_update = json!({"maxUnavailable": max_unavailable});
    if random.percent(70) {
        rolling_update["maxSurge"] = max_surge;
    }
    json!({"type": "RollingUpdate", "rollingUpdate": rolling_update})
}

/// Makes a DaemonSet and names some of the nodes of a pool by their index.
pub fn eligibility(random: &mut Random, pool: usize, nodes: usize) -> Value {
    let nodes: Vec<_> = (0..nodes).map(|_| random.below(pool)).collect();
    let daemon_set = json!({
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"template": {"spec": placement(random)}, "updateStrategy": update_strategy(random)},
    });
    json!({"eligibility": {"daemonSet": daemon_set, "nodes": nodes}})
}

const RESOURCES: &[&str] = &["cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi"];
const ODD_RESOURCES: &[&str] = &[
    "hugepages-1Gi",
    "attachable-volumes-csi-x",
    "kubernetes.io/batch-cpu",
    "x.kubernetes.io/y",
    "pods",
    "storage",
    "requests.example.com/gpu",
    "Example.com/gpu",
    "bad//name",
    "example.com/",
    "no-slash",
    "deviceclass.resource.kubernetes.io/gpu",
];

fn quantity(random: &mut Random, resource: &str) -> Value {
    let usual: &[&str] = match resource {
        "cpu" => &["100m", "250m", "1", "1500m", "0.1", "2"],
        "memory" | "ephemeral-storage" | "hugepages-2Mi" => &["64Mi", "128974848", "200M", "0.25Gi", "512Mi", "1G"],
        _ => &["1", "2", "3"],
    };
    let odd = &["0", "1n", "3333u", "100m", "0.5", "1e3", "1.1Ki", "0.0000000001", "12E6", "1Ti", "4294967296", "1m"];
    match random.below(30) {
        0..24 => random.word(usual).into(),
        24 => random.below(4).into(),
        _ => random.word(odd).into(),
    }
}

fn resource_list(random: &mut Random, percent: usize) -> Value {
    let mut list = Map::new();
    for resource in RESOURCES {
        if random.percent(percent) {
            list.insert((*resource).to_owned(), quantity(random, resource));
        }
    }
    if random.percent(15) {
        let resource = random.word(ODD_RESOURCES);
        list.insert(resource.to_owned(), quantity(random, resource));
    }
    Value::Object(list)
}

fn port(random: &mut Random) -> Value {
    let host_port = *random.pick(&[0, 80, 80, 443, 8080, 8080, -1, 65535]);
    let mut port = json!({"containerPort": 80, "hostPort": host_port});
    if random.percent(60) {
        port["protocol"] = random.word(&["TCP", "TCP", "UDP", "SCTP", "tcp", ""]).into();
    }
    if random.percent(60) {
        port["hostIP"] = random.word(&["", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::", "::1"]).into();
    }
    port
}

fn container(random: &mut Random, name: &str, init: bool) -> Value {
    let mut container = json!({"name": name, "ports": random.some(3, port), "resources": {}});
    if random.percent(80) {
        container["resources"]["requests"] = resource_list(random, 45);
    }
    if random.percent(20) {
        container["resources"]["limits"] = resource_list(random, 40);
    }
    if init && random.percent(50) {
        container["restartPolicy"] = "Always".into();
    } else if random.percent(5) {
        container["restartPolicy"] = random.word(&["Always", "Never", "OnFailure", ""]).into();
    }
    container
}

fn container_status(random: &mut Random) -> Value {
    let name = random.word(&["c0", "c1", "i0", "i1", "i2"]);
    let mut status = json!({"name": name});
    if random.percent(75) {
        status["resources"] = json!({"requests": resource_list(random, 50)});
    }
    if random.percent(60) {
        status["allocatedResources"] = resource_list(random, 50);
    }
    status
}

fn pod_with_resources(random: &mut Random, bound: bool) -> Value {
    let containers = 1 + random.below(2);
    let containers: Vec<_> = (0..containers).map(|index| container(random, &format!("c{index}"), false)).collect();
    let init_containers = random.below(4) * usize::from(random.percent(50));
    let init_containers: Vec<_> =
        (0..init_containers).map(|index| container(random, &format!("i{index}"), true)).collect();
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {
        "containers": containers,
        "initContainers": init_containers,
    }, "status": {}});
    if random.percent(20) {
        pod["spec"]["overhead"] = resource_list(random, 30);
    }
    if random.percent(35) {
        pod["spec"]["resources"] = json!({});
        for (amounts, percent) in [("requests", 65), ("limits", 50)] {
            if random.percent(percent) {
                pod["spec"]["resources"][amounts] = resource_list(random, 30);
            }
        }
    }
    if random.percent(10) {
        pod["spec"]["hostNetwork"] = true.into();
    }
    if bound {
        pod["spec"]["nodeName"] = "n1".into();
    } else if random.percent(80) {
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] =
            random.some(3, term).into();
    }
    if random.percent(50) {
        pod["status"]["containerStatuses"] = random.some(3, container_status).into();
        pod["status"]["initContainerStatuses"] = random.some(3, container_status).into();
    }
    if random.percent(25) {
        pod["status"]["resources"] = json!({"requests": resource_list(random, 50)});
        pod["status"]["allocatedResources"] = resource_list(random, 50);
    }
    if random.percent(50) {
        pod["status"]["conditions"] = random
            .some(2, |random| {
                let type_ = random.word(&["PodResizePending", "PodResizePending", "PodResizeInProgress", "Ready"]);
                json!({"type": type_, "status": "True", "reason": random.word(&["Infeasible", "Infeasible", "Deferred", "Error"])})
            })
            .into();
    }
    pod["status"]["phase"] = random.word(&["Pending", "Running", "Running", "Running", "Succeeded", "Failed"]).into();
    pod
}

/// Makes a pod, a node, and the pods that are on the node already.
pub fn room(random: &mut Random) -> Value {
    let mut allocatable = json!({
        "cpu": random.word(&["2", "4", "8", "3920m"]),
        "memory": random.word(&["1Gi", "4Gi", "7134Mi"]),
        "pods": random.word(&["3", "110", "110", "110"]),
    });
    for (resource, amounts) in [
        ("ephemeral-storage", ["1Gi", "10Gi", "47093746742"]),
        ("example.com/gpu", ["0", "4", "8"]),
        ("hugepages-2Mi", ["0", "512Mi", "4Gi"]),
        ("kubernetes.io/batch-cpu", ["4", "1500m", "0"]),
        ("attachable-volumes-csi-x", ["4", "25", "1"]),
    ] {
        if random.percent(75) {
            allocatable[resource] = random.word(&amounts).into();
        }
    }
    let mut pods = random.some(5, |random| {
        let bound = random.percent(85);
        pod_with_resources(random, bound)
    });
    pods.extend(random.some(2, |random| pod_with_resources(random, true)));
    let mut pod = pod_with_resources(random, false);
    if random.percent(10) {
        pod["spec"]["containers"] = json!([{"name": "c0"}]);
    }
    json!({"room": {"pod": pod, "node": {"metadata": {"name": "n1"}, "status": {"allocatable": allocatable}}, "pods": pods}})
}

const APPS: &[&str] = &["a", "a", "b", "c"];
const NAMESPACES: &[&str] = &["x", "x", "y", "z"];

fn pod_labels(random: &mut Random) -> Value {
    let mut labels = json!({"app": random.word(APPS)});
    if random.percent(50) {
        labels["version"] = random.word(&["1", "2"]).into();
    }
    if random.percent(8) {
        labels = json!({});
    }
    labels
}

fn label_selector(random: &mut Random) -> Value {
    match random.below(16) {
        0 => Value::Null,
        1 => json!({}),
        2 => json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [random.word(APPS)]}]}),
        3 => json!({"matchExpressions": [{"key": "version", "operator": random.word(&["Exists", "DoesNotExist"])}]}),
        4 => json!({"matchLabels": {"app": random.word(APPS)}, "matchExpressions": [
            {"key": "version", "operator": "In", "values": [random.word(&["1", "2"])]}]}),
        _ => json!({"matchLabels": {"app": random.word(APPS)}}),
    }
}

fn label_keys(random: &mut Random) -> Value {
    random.some(2, |random| random.word(&["app", "version", "absent"]).into()).into()
}

fn topology_key(random: &mut Random) -> &'static str {
    random.word(&["zone", "zone", "zone", "rack", "kubernetes.io/hostname", "kubernetes.io/hostname"])
}

fn pod_affinity_term(random: &mut Random) -> Value {
    let mut term = json!({"labelSelector": label_selector(random), "topologyKey": topology_key(random)});
    if random.percent(25) {
        term["namespaces"] = random.some(3, |random| random.word(NAMESPACES).into()).into();
    }
    if random.percent(30) {
        term["namespaceSelector"] = match random.below(4) {
            0 => json!({}),
            1 => {
                json!({"matchExpressions": [{"key": "team", "operator": random.word(&["NotIn", "In"]), "values": ["t"]}]})
            }
            2 => json!({"matchExpressions": [{"key": "team", "operator": random.word(&["Exists", "DoesNotExist"])}]}),
            _ => json!({"matchLabels": {"team": random.word(&["t", "u"])}}),
        };
    }
    if random.percent(15) {
        term["matchLabelKeys"] = label_keys(random);
    }
    if random.percent(15) {
        term["mismatchLabelKeys"] = label_keys(random);
    }
    term
}

fn spread_constraint(random: &mut Random) -> Value {
    let mut constraint = json!({
        "maxSkew": 1 + random.below(2),
        "topologyKey": topology_key(random),
        "whenUnsatisfiable": random.mostly(85, &["DoNotSchedule"], &["ScheduleAnyway"]),
        "labelSelector": label_selector(random),
    });
    if random.percent(30) {
        constraint["minDomains"] = (1 + random.below(4)).into();
    }
    for (policy, percent) in [("nodeAffinityPolicy", 60), ("nodeTaintsPolicy", 50)] {
        if random.percent(percent) {
            constraint[policy] = random.word(&["Honor", "Ignore"]).into();
        }
    }
    if random.percent(20) {
        constraint["matchLabelKeys"] = label_keys(random);
    }
    constraint
}

/// Makes a new pod and a small cluster, in which rules about other pods keep it from some of the nodes.
pub fn fit(random: &mut Random) -> Value {
    let names: Vec<String> = (0..1 + random.below(6)).map(|number| format!("n{number}")).collect();
    let nodes: Vec<Value> = names
        .iter()
        .map(|name| {
            let mut labels = json!({});
            for (key, percent, values) in
                [("zone", 90, &["a", "b", "c"][..]), ("rack", 75, &["1", "2"]), ("disk", 60, &["ssd", "hdd"])]
            {
                if random.percent(percent) {
                    labels[key] = random.word(values).into();
                }
            }
            if random.percent(95) {
                labels["kubernetes.io/hostname"] = name.as_str().into();
            }
            let taints = if random.percent(20) { random.some(2, taint) } else { Vec::new() };
            let features: Vec<&str> = FEATURES.iter().copied().filter(|_| random.percent(40)).collect();
            json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints},
            "status": {"allocatable": {"pods": "110"}, "declaredFeatures": features}})
        })
        .collect();
    let pod = |random: &mut Random, name: &str| {
        let mut pod = json!({
            "metadata": {"name": name, "uid": name, "namespace": random.word(NAMESPACES), "labels": pod_labels(random)},
            "spec": {"containers": [{"name": "c", "image": "i"}], "priority": random.pick(&[0, 0, 5, 100])},
            "status": {"phase": random.mostly(92, &["Running"], &["Succeeded", "Failed"])},
        });
        if random.percent(10) {
            pod["metadata"]["deletionTimestamp"] = time(random).into();
        }
        if random.percent(30) {
            let required = random.some(2, pod_affinity_term);
            pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                required.into();
        }
        if random.percent(10) {
            let required = random.some(2, pod_affinity_term);
            pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = required.into();
        }
        pod
    };
    let mut pods = Vec::new();
    for number in 0..random.below(13) {
        let mut pod = pod(random, &format!("p{number}"));
        if random.percent(90) {
            pod["spec"]["nodeName"] = random.pick(&names).as_str().into();
        } else if random.percent(70) {
            pod["status"]["nominatedNodeName"] = random.pick(&names).as_str().into();
        }
        pods.push(pod);
    }
    let mut new = pod(random, "agent");
    new["status"] = json!({});
    new["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
    for (rule, percent) in [("podAffinity", 35), ("podAntiAffinity", 45)] {
        if random.percent(percent) {
            let required = random.some(3, pod_affinity_term);
            new["spec"]["affinity"][rule]["requiredDuringSchedulingIgnoredDuringExecution"] = required.into();
        }
    }
    if random.percent(50) {
        new["spec"]["topologySpreadConstraints"] = random.some(3, spread_constraint).into();
    }
    if random.percent(40) {
        new["spec"]["tolerations"] = random.some(3, toleration).into();
    }
    if random.percent(15) {
        new["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    }
    // Features are looked at last: where nominated pods help, the scheduler names them before it tries without these pods.
    if random.percent(12) && pods.iter().all(|pod| pod["status"]["nominatedNodeName"].is_null()) {
        add_features(random, &mut new["spec"]);
    }
    // The pods of DaemonSets are meant for one node each.
    if random.percent(50) {
        let name = random.pick(&names).as_str();
        new["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] =
            json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]);
    }
    let namespaces = [
        json!({"metadata": {"name": "x", "labels": {"team": "t"}}}),
        json!({"metadata": {"name": "y", "labels": {"team": random.word(&["t", "u"])}}}),
        json!({"metadata": {"name": "z"}}),
    ];
    let mut case = json!({"pod": new, "nodes": nodes, "pods": pods, "namespaces": namespaces});
    if random.percent(50) {
        add_storage(random, &mut case);
    }
    // As for features.
    if random.percent(40)
        && case["pods"].as_array().unwrap().iter().all(|pod| pod["status"]["nominatedNodeName"].is_null())
    {
        add_devices(random, &mut case);
    }
    json!({"fit": case})
}

/// Nodes declare them in this order.
const FEATURES: &[&str] =
    &["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "VolumeBindMountOptions"];

/// Adds to a pod what only some kubelets can do.
fn add_features(random: &mut Random, spec: &mut Value) {
    let field = random.word(&["containers", "containers", "initContainers"]);
    if field == "initContainers" {
        spec[field] = json!([{"name": "i", "image": "i"}]);
    }
    let container = &mut spec[field][0];
    if random.percent(60) {
        let action = random.word(&["RestartAllContainers", "RestartAllContainers", "Restart"]);
        container["restartPolicyRules"] = json!([{"action": action, "exitCodes": {"operator": "In", "values": [1]}}]);
    }
    if random.percent(60) {
        (spec["hostNetwork"], spec["hostUsers"]) = (random.percent(70).into(), random.percent(30).into());
    }
}

const DEVICE_CLASSES: &[&str] = &["gpu", "gpu", "gpu", "nic", "nic", "nic", "nic", "absent"];
const DEVICE_DRIVERS: &[&str] = &["gpu.example.com", "nic.example.com"];

/// Adds claims to devices to the new pod, the devices, and claims for which some are allocated.
fn add_devices(random: &mut Random, case: &mut Value) {
    let namespace = case["pod"]["metadata"]["namespace"].clone();
    let list = |objects: &Value| objects.as_array().unwrap().iter().map(|it| it["metadata"]["name"].clone()).collect();
    let (nodes, pods): (Vec<Value>, Vec<Value>) = (list(&case["nodes"]), list(&case["pods"]));
    let is_calm = random.percent(70);
    let mut slices = Vec::new();
    for node in &nodes {
        if random.percent(75) {
            slices.push(slice(random, node.as_str().unwrap(), &json!({"nodeName": node})));
        }
    }
    for number in 0..random.below(3) * usize::from(random.percent(50)) {
        let nodes = match random.below(3) {
            0 => json!({"allNodes": true}),
            1 => json!({"nodeSelector": node_selector(random, &nodes)}),
            _ => json!({"perDeviceNodeSelection": true}),
        };
        slices.push(slice(random, &format!("shared-{number}"), &nodes));
    }
    for slice in &mut slices {
        if slice["spec"]["perDeviceNodeSelection"] == true {
            for device in slice["spec"]["devices"].as_array_mut().unwrap() {
                match random.below(3) {
                    0 => device["allNodes"] = true.into(),
                    1 => device["nodeName"] = random.pick(&nodes).clone(),
                    _ => device["nodeSelector"] = node_selector(random, &nodes),
                }
            }
        }
    }
    let devices: Vec<Value> = slices
        .iter()
        .flat_map(|slice| {
            let of = |device: &Value| json!({"driver": slice["spec"]["driver"], "pool": slice["spec"]["pool"]["name"], "device": device["name"]});
            slice["spec"]["devices"].as_array().unwrap().iter().map(of).collect::<Vec<Value>>()
        })
        .collect();
    let mut claims = Vec::new();
    for name in ["g0", "g1", "g2", "agent-gpu"] {
        if random.percent(if is_calm { 99 } else { 85 }) {
            let allocated = random.percent(40);
            let mut claim = device_claim(random, name, &namespace, &devices, &nodes, allocated);
            if !is_calm && random.percent(15) {
                claim["metadata"]["deletionTimestamp"] = time(random).into();
            }
            if name == "agent-gpu" && (is_calm || random.percent(80)) {
                let uid = &case["pod"]["metadata"]["uid"];
                claim["metadata"]["ownerReferences"] =
                    json!([{"apiVersion": "v1", "kind": "Pod", "name": "agent", "uid": uid, "controller": true}]);
            }
            if allocated && random.percent(60) {
                let consumers = random.some(3, |random| {
                    let pod =
                        if pods.is_empty() || random.percent(20) { json!("agent") } else { random.pick(&pods).clone() };
                    json!({"resource": "pods", "name": pod, "uid": pod})
                });
                claim["status"]["reservedFor"] = consumers.into();
            }
            claims.push(claim);
        }
    }
    for number in 0..random.below(5) {
        claims.push(device_claim(random, &format!("other-{number}"), &"y".into(), &devices, &nodes, true));
    }
    let class = |random: &mut Random, name: &str| {
        let selectors = if random.percent(30) { json!([selector(random)]) } else { json!([]) };
        let mut class = json!({"metadata": {"name": name}, "spec": {"selectors": selectors}});
        if random.percent(60) {
            class["spec"]["extendedResourceName"] = random.word(&DEVICE_RESOURCES[..2]).into();
        }
        class
    };
    let mut classes = vec![class(random, "gpu"), class(random, "nic")];
    if is_calm {
        classes.push(class(random, "absent"));
    }
    let spec = &mut case["pod"]["spec"];
    let mut of_pod = vec![json!({"name": "first", "resourceClaimName": random.word(&["g0", "g1"])})];
    match random.below(4) {
        0 => of_pod.push(json!({"name": "second", "resourceClaimName": "g2"})),
        1 => of_pod.push(json!({"name": "second", "resourceClaimTemplateName": "template"})),
        2 => of_pod[0] = json!({"name": "second", "resourceClaimTemplateName": "template"}),
        _ => {}
    }
    spec["resourceClaims"] = of_pod.into();
    if is_calm || random.percent(80) {
        let created = if random.percent(95) {
            json!({"name": "second", "resourceClaimName": "agent-gpu"})
        } else {
            json!({"name": "second"})
        };
        case["pod"]["status"]["resourceClaimStatuses"] = json!([created]);
    }
    for (field, objects) in [("deviceClaims", claims), ("deviceClasses", classes), ("slices", slices)] {
        case[field] = objects.into();
    }
    if random.percent(35) {
        add_resources_of_devices(random, case);
    }
}

const DEVICE_RESOURCES: [&str; 4] =
    ["example.com/gpu", "example.com/nic", "deviceclass.resource.kubernetes.io/gpu", "example.com/of-nobody"];

/// Adds requests for resources that device classes may provide, and that some nodes offer themselves.
fn add_resources_of_devices(random: &mut Random, case: &mut Value) {
    for node in case["nodes"].as_array_mut().unwrap() {
        for resource in DEVICE_RESOURCES {
            if random.percent(if resource == "example.com/of-nobody" { 85 } else { 20 }) {
                node["status"]["allocatable"][resource] = random.word(&["0", "1", "2", "4"]).into();
            }
        }
    }
    let spec = &mut case["pod"]["spec"];
    if random.percent(60) {
        spec.as_object_mut().unwrap().remove("resourceClaims");
    }
    let mut container = |name: &str, sidecar: bool| {
        let mut container = json!({"name": name, "image": "i"});
        for _ in 0..random.below(3) {
            let resource = random.mostly(95, &DEVICE_RESOURCES[..3], &DEVICE_RESOURCES[3..]);
            container["resources"]["requests"][resource] = random.word(&["0", "1", "1", "1", "2", "3"]).into();
        }
        if sidecar {
            container["restartPolicy"] = "Always".into();
        }
        container
    };
    spec["containers"] = json!([container("c", false), container("d", false)]);
    spec["initContainers"] = json!([container("i", false), container("j", true), container("k", false)]);
    if random.percent(5) {
        spec["overhead"] = json!({"example.com/gpu": "1"});
    }
}

fn node_selector(random: &mut Random, nodes: &[Value]) -> Value {
    let term = match random.below(3) {
        0 => json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [random.pick(nodes)]}]}),
        1 => {
            json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [random.word(&["a", "b"]), "c"]}]})
        }
        _ => json!({"matchExpressions": [{"key": "rack", "operator": random.word(&["Exists", "DoesNotExist"])}]}),
    };
    json!({"nodeSelectorTerms": [term]})
}

/// Makes the devices of a pool: all of them, or what is known of them while its driver replaces them.
fn slice(random: &mut Random, pool: &str, nodes: &Value) -> Value {
    let driver = random.word(DEVICE_DRIVERS);
    let mut slice = json!({"metadata": {"name": format!("{pool}-{driver}")}, "spec": {"driver": driver,
        "pool": {"name": pool, "generation": 1, "resourceSliceCount": if random.percent(93) { 1 } else { 2 }}}});
    for (field, value) in nodes.as_object().unwrap() {
        slice["spec"][field] = value.clone();
    }
    let devices = (0..random.below(4)).map(|number| {
        let mut device = json!({"name": format!("d{number}")});
        if random.percent(4) {
            device["allowMultipleAllocations"] = true.into();
        }
        if random.percent(5) {
            device["taints"] = json!([{"key": "broken", "effect": "NoSchedule"}]);
        }
        device
    });
    slice["spec"]["devices"] = devices.collect::<Vec<Value>>().into();
    slice
}

fn selector(random: &mut Random) -> Value {
    json!({"cel": {"expression": format!("device.driver == {:?}", random.word(DEVICE_DRIVERS))}})
}

fn device_claim(
    random: &mut Random,
    name: &str,
    namespace: &Value,
    devices: &[Value],
    nodes: &[Value],
    is_allocated: bool,
) -> Value {
    let exactly = |random: &mut Random| {
        let mut request = json!({"deviceClassName": random.word(DEVICE_CLASSES)});
        match random.below(5) {
            0 => request["allocationMode"] = "All".into(),
            _ => {
                request["allocationMode"] = "ExactCount".into();
                request["count"] = (*random.pick(&[1, 1, 1, 2, 3])).into();
            }
        }
        if random.percent(30) {
            request["selectors"] = json!([selector(random)]);
        }
        request
    };
    let requests: Vec<Value> = (0..*random.pick(&[0, 1, 1, 1, 2]))
        .map(|number| {
            let mut request = json!({"name": format!("r{number}")});
            if random.percent(20) {
                let alternatives = (0..2).map(|number| {
                    let mut request = exactly(random);
                    request["name"] = format!("s{number}").into();
                    request
                });
                request["firstAvailable"] = alternatives.collect::<Vec<Value>>().into();
            } else {
                request["exactly"] = exactly(random);
                if random.percent(10) {
                    request["exactly"]["adminAccess"] = true.into();
                }
            }
            request
        })
        .collect();
    let metadata = json!({"name": name, "namespace": namespace, "uid": format!("uid-{name}")});
    let mut claim = json!({"metadata": metadata, "spec": {"devices": {"requests": requests}}, "status": {}});
    if is_allocated {
        let results: Vec<Value> = (0..random.below(3) * usize::from(!devices.is_empty()))
            .map(|_| {
                let mut result = random.pick(devices).clone();
                result["request"] = "r0".into();
                if random.percent(10) {
                    result["adminAccess"] = true.into();
                }
                if random.percent(5) {
                    result["shareID"] = "1b671a64-40d5-491e-99b0-da01ff1f3341".into();
                }
                if random.percent(4) {
                    result["bindingConditions"] = json!(["attached"]);
                }
                result
            })
            .collect();
        claim["status"]["allocation"] = json!({"devices": {"results": results}});
        if random.percent(75) {
            claim["status"]["allocation"]["nodeSelector"] = node_selector(random, nodes);
        }
    }
    claim
}

const DRIVERS: &[&str] = &["a.csi.example.com", "a.csi.example.com", "b.csi.example.com"];
const CLASSES: &[&str] = &["waits", "waits", "zonal", "static", "static", "immediate", "absent", ""];

/// Adds volumes to the pods of a case, with the claims, the volumes and the drivers that they are about. Volumes have different sizes:
/// of equally large ones the scheduler takes any.
fn add_storage(random: &mut Random, case: &mut Value) {
    let namespace = case["pod"]["metadata"]["namespace"].clone();
    let nodes: Vec<String> = case["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    for node in case["nodes"].as_array_mut().unwrap() {
        for (label, percent) in [
            ("topology.kubernetes.io/zone", 50),
            ("failure-domain.beta.kubernetes.io/zone", 15),
            ("topology.kubernetes.io/region", 15),
        ] {
            if random.percent(percent) {
                node["metadata"]["labels"][label] = random.word(&["a", "a", "b"]).into();
            }
        }
    }
    let mut claims = Vec::new();
    let is_calm = random.percent(60);
    for number in 0..4 {
        if random.percent(if is_calm { 99 } else { 90 }) {
            claims.push(claim(random, &format!("c{number}"), &namespace, &nodes, is_calm));
        }
    }
    if random.percent(30) {
        claims.push(claim(random, "c0", &"y".into(), &nodes, true));
    }
    let names = |claim: &Value| (claim["metadata"]["name"].to_string(), claim["metadata"]["namespace"].to_string());
    let mut seen = Vec::new();
    claims.retain(|claim| {
        !seen.contains(&names(claim)) && {
            seen.push(names(claim));
            true
        }
    });
    let pods = case["pods"].as_array_mut().unwrap();
    for pod in pods {
        if random.percent(60) {
            pod["spec"]["volumes"] = random.some(3, pod_volume).into();
        }
    }
    let own = random.below(4);
    let own: Vec<Value> = (0..own).map(|_| pod_volume(random)).collect();
    case["pod"]["spec"]["volumes"] = own.into();
    for pod in case["pods"].as_array().unwrap().iter().chain([&case["pod"]]) {
        let metadata = &pod["metadata"];
        let is_new = metadata["name"] == "agent";
        if random.percent(85) {
            let name = format!("{}-data", metadata["name"].as_str().unwrap());
            let mut claim = claim(random, &name, &metadata["namespace"], &nodes, is_calm);
            let uid = if is_new && random.percent(5) { "another".into() } else { metadata["uid"].clone() };
            claim["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": uid, "controller": true}]);
            claims.push(claim);
        }
    }
    let reverse = random.percent(50);
    let volumes: Vec<Value> = (0..random.below(7))
        .map(|number| {
            let size = if reverse { 14 - 2 * number } else { 2 * number + 1 };
            volume(random, &format!("v{number}"), size, &namespace, &nodes)
        })
        .collect();
    let class = |name: &str, mode: &str, provisioner: &str| json!({"metadata": {"name": name}, "volumeBindingMode": mode, "provisioner": provisioner});
    let mut classes = vec![
        class("waits", "WaitForFirstConsumer", random.word(DRIVERS)),
        class("zonal", "WaitForFirstConsumer", random.word(DRIVERS)),
        class("static", "WaitForFirstConsumer", "kubernetes.io/no-provisioner"),
        class("immediate", "Immediate", random.word(DRIVERS)),
    ];
    classes[1]["allowedTopologies"] = random
        .some(3, |random| {
            let expressions = random.some(3, |random| {
                json!({"key": random.word(&["zone", "zone", "rack"]), "values": [random.word(&["a", "b", "1"]), random.word(&["a", "c", "2"])]})
            });
            json!({"matchLabelExpressions": expressions})
        })
        .into();
    let drivers_of = |random: &mut Random| {
        let names = if random.percent(80) { &DRIVERS[1..] } else { &DRIVERS[2..] };
        let drivers = names.iter().map(|name| {
            let mut driver = json!({"name": name, "nodeID": "n"});
            if random.percent(70) {
                driver["allocatable"] = json!({"count": random.below(5)});
            }
            driver
        });
        drivers.collect::<Vec<Value>>()
    };
    let mut csi_nodes = Vec::new();
    for node in nodes.iter().filter(|_| random.percent(75)).collect::<Vec<_>>() {
        csi_nodes.push(json!({"metadata": {"name": node}, "spec": {"drivers": drivers_of(random)}}));
    }
    let attachments: Vec<Value> = (0..random.below(4))
        .map(|number| {
            json!({"metadata": {"name": format!("a{number}")}, "spec": {"attacher": random.word(DRIVERS), "nodeName": random.pick(&nodes),
                "source": {"persistentVolumeName": format!("v{}", random.below(7))}}})
        })
        .collect();
    // If two drivers were missing, the scheduler would name any of them.
    let mut csi_drivers = json!([{"metadata": {"name": DRIVERS[0]}, "spec": {"preventPodSchedulingIfMissing": random.percent(50)}},
        {"metadata": {"name": DRIVERS[2]}, "spec": {}}]);
    for driver in csi_drivers.as_array_mut().unwrap() {
        if random.percent(50) {
            driver["spec"]["storageCapacity"] = random.percent(80).into();
        }
    }
    let capacities: Vec<Value> = (0..random.below(6)).map(|number| capacity(random, &format!("s{number}"))).collect();
    for (field, objects) in [
        ("claims", claims.into()),
        ("volumes", volumes.into()),
        ("classes", classes.into()),
        ("csiNodes", csi_nodes.into()),
        ("csiDrivers", csi_drivers),
        ("capacities", capacities.into()),
        ("attachments", attachments.into()),
    ] {
        case[field] = objects;
    }
}

/// Makes what a driver has left.
fn capacity(random: &mut Random, name: &str) -> Value {
    let mut capacity = json!({"metadata": {"name": name, "namespace": "y"}, "storageClassName": random.word(&["waits", "waits", "zonal"])});
    for (field, percent) in [("capacity", 80), ("maximumVolumeSize", 40)] {
        if random.percent(percent) {
            capacity[field] = random.word(&["0", "2Gi", "4Gi", "5368709120", "8589934592m", "9G", "1Ti"]).into();
        }
    }
    if random.percent(90) {
        capacity["nodeTopology"] = match random.below(5) {
            0 => json!({}),
            1 | 2 => json!({"matchLabels": {"zone": random.word(&["a", "b", "c"])}}),
            3 => {
                json!({"matchExpressions": [{"key": "rack", "operator": random.word(&["NotIn", "In"]), "values": ["1"]}]})
            }
            _ => {
                json!({"matchExpressions": [{"key": "disk", "operator": random.word(&["Exists", "DoesNotExist", "Odd"])}]})
            }
        };
    }
    capacity
}

fn pod_volume(random: &mut Random) -> Value {
    let read_only = random.percent(40);
    let source = match random.below(12) {
        0 => json!({"gcePersistentDisk": {"pdName": random.word(&["p", "q"]), "readOnly": read_only}}),
        1 => json!({"awsElasticBlockStore": {"volumeID": random.word(&["vol-1", "vol-2"])}}),
        2 => {
            json!({"iscsi": {"iqn": random.word(&["iqn.a", "iqn.b"]), "lun": 0, "targetPortal": "t", "readOnly": read_only}})
        }
        3 => {
            json!({"rbd": {"monitors": random.some(3, |random| random.word(&["m1", "m2", "m3"]).into()), "image": random.word(&["i", "j"]),
            "pool": random.word(&["p", "p", "q"]), "readOnly": read_only}})
        }
        4 => json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}),
        5 => json!({"hostPath": {"path": "/"}}),
        _ => json!({"persistentVolumeClaim": {"claimName": format!("c{}", random.below(4))}}),
    };
    let mut volume = source;
    volume["name"] = if volume["ephemeral"].is_null() { random.word(&["v", "w"]).into() } else { "data".into() };
    volume
}

fn claim(random: &mut Random, name: &str, namespace: &Value, nodes: &[String], is_calm: bool) -> Value {
    let mut claim = json!({
        "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}"), "annotations": {}},
        "spec": {"accessModes": [random.word(&["ReadWriteOnce", "ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod"])],
            "resources": {"requests": {"storage": format!("{}Gi", random.below(9))}}},
        "status": {"phase": "Pending"},
    });
    if random.percent(95) {
        let class = if is_calm { random.word(&CLASSES[..5]) } else { random.word(CLASSES) };
        claim["spec"]["storageClassName"] = class.into();
    }
    let volume = format!("v{}", random.below(if is_calm { 4 } else { 7 }));
    match random.below(10) {
        0..6 => {
            claim["spec"]["volumeName"] = volume.into();
            claim["status"]["phase"] = if is_calm { "Bound" } else { random.mostly(90, &["Bound"], &["Lost"]) }.into();
            if is_calm || random.percent(90) {
                claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes".into();
            }
        }
        6 => {
            claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = random.pick(nodes).as_str().into()
        }
        7 if !is_calm => claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes".into(),
        8 if !is_calm => {
            claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"] = random.word(CLASSES).into()
        }
        _ => {}
    }
    if random.percent(15) {
        claim["spec"]["selector"] = json!({"matchLabels": {"tier": random.word(&["a", "b"])}});
    }
    if random.percent(10) {
        claim["spec"]["volumeMode"] = random.word(&["Block", "Filesystem"]).into();
    }
    if random.percent(8) {
        claim["spec"]["volumeAttributesClassName"] = random.word(&["gold", ""]).into();
    }
    if !is_calm && random.percent(5) {
        claim["metadata"]["deletionTimestamp"] = time(random).into();
    }
    claim
}

fn volume(random: &mut Random, name: &str, size: usize, namespace: &Value, nodes: &[String]) -> Value {
    let mut labels = json!({"tier": random.word(&["a", "b"])});
    for (label, percent) in [
        ("topology.kubernetes.io/zone", 20),
        ("failure-domain.beta.kubernetes.io/zone", 15),
        ("topology.kubernetes.io/region", 8),
    ] {
        if random.percent(percent) {
            labels[label] = random.word(&["a", "b", "a__b", "a__", " a __c", ""]).into();
        }
    }
    let mut volume = json!({
        "metadata": {"name": name, "labels": labels, "annotations": {}},
        "spec": {"capacity": {"storage": format!("{size}Gi")}, "storageClassName": random.mostly(80, &CLASSES[..5], CLASSES),
            "accessModes": random.mostly(50, &["all"], &["ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany"])},
        "status": {"phase": random.mostly(75, &["Available"], &["Bound", "Released", "Pending"])},
    });
    let mode = volume["spec"]["accessModes"].take();
    volume["spec"]["accessModes"] = match mode.as_str() {
        Some("all") => json!(["ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany"]),
        _ => json!([mode]),
    };
    match random.below(10) {
        0..8 => {
            volume["spec"]["csi"] = json!({"driver": random.word(DRIVERS), "volumeHandle": if random.percent(80) { name } else { "shared" }})
        }
        _ => volume["spec"]["local"] = json!({"path": "/"}),
    }
    if random.percent(45) {
        let expression = |random: &mut Random| match random.below(3) {
            0 => {
                json!({"key": "kubernetes.io/hostname", "operator": random.word(&["In", "NotIn"]), "values": [random.pick(nodes)]})
            }
            1 => json!({"key": "rack", "operator": random.word(&["Exists", "DoesNotExist"])}),
            _ => json!({"key": "zone", "operator": "In", "values": [random.word(&["a", "b"]), "c"]}),
        };
        let terms = random.some(3, |random| json!({"matchExpressions": random.some(3, expression)}));
        volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
    }
    if random.percent(35) {
        let claim = format!("c{}", random.below(4));
        volume["spec"]["claimRef"] = json!({"namespace": namespace, "name": claim});
        if random.percent(60) {
            volume["spec"]["claimRef"]["uid"] = random.mostly(85, &["right"], &["another"]).into();
            if volume["spec"]["claimRef"]["uid"] == "right" {
                volume["spec"]["claimRef"]["uid"] = format!("uid-{claim}").into();
            }
        }
    }
    if random.percent(8) {
        volume["spec"]["volumeMode"] = "Block".into();
    }
    if random.percent(6) {
        volume["spec"]["volumeAttributesClassName"] = "gold".into();
    }
    if random.percent(5) {
        volume["metadata"]["deletionTimestamp"] = time(random).into();
    }
    if random.percent(5) {
        volume["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"] = random.word(CLASSES).into();
    }
    volume
}

/// Makes a pod that is meant for a node, and a node that is nearly full of pods of various priorities, with budgets.
pub fn preemption(random: &mut Random) -> Value {
    const PRIORITIES: &[i64] = &[-10, 0, 0, 0, 5, 100, 1000];
    let ties = random.percent(50);
    let (mut taken, mut held) = (0, Vec::new());
    let mut pod = |random: &mut Random, name: &str, bound: bool| {
        let cpu = 100 * (1 + random.below(if ties { 2 } else { 12 }));
        let mut requests = json!({"cpu": format!("{cpu}m")});
        if random.percent(40) {
            requests["memory"] = random.word(&["64Mi", "256Mi", "1Gi"]).into();
        }
        if random.percent(10) {
            requests["example.com/gpu"] = random.word(&["1", "2"]).into();
        }
        let mut container = json!({"name": "c", "resources": {"requests": requests}});
        // Two pods of a node never have the same host port: the scheduler would take it for free once either is gone.
        let port = *random.pick(&[80, 8080, 9100]);
        if random.percent(25) && (!bound || !held.contains(&port)) {
            container["ports"] = json!([{"containerPort": 80, "hostPort": port}]);
            if bound {
                held.push(port);
            }
        }
        let mut pod = json!({
            "metadata": {"name": name, "uid": name, "namespace": random.word(&["x", "x", "y"]),
                "labels": {"app": random.word(&["a", "b", "c"])}},
            "spec": {"containers": [container], "priority": random.pick(PRIORITIES)},
            "status": {},
        });
        if random.percent(10) {
            pod["metadata"]["labels"] = json!({});
        }
        if random.percent(10) {
            pod["spec"].as_object_mut().unwrap().remove("priority");
        }
        if random.percent(85) {
            let second = if ties { random.below(2) } else { random.below(4000) };
            pod["status"]["startTime"] = format!("2026-01-02T{:02}:{:02}:00Z", second / 60 % 24, second % 60).into();
        }
        if bound {
            taken += cpu;
            pod["spec"]["nodeName"] = "n1".into();
        }
        if random.percent(10) {
            pod["metadata"]["deletionTimestamp"] = time(random).into();
            let reason = random.word(&["PreemptionByScheduler", "PreemptionByScheduler", "EvictionByEvictionAPI"]);
            let status = random.mostly(85, &["True"], &["False"]);
            pod["status"]["conditions"] = json!([{"type": "DisruptionTarget", "status": status, "reason": reason}]);
        }
        pod
    };
    let count = if random.percent(15) { 13 + random.below(8) } else { 1 + random.below(9) };
    let mut pods: Vec<Value> = (0..count).map(|number| pod(random, &format!("p{number}"), true)).collect();
    for number in 0..random.below(3) * usize::from(random.percent(30)) {
        let mut nominated = pod(random, &format!("q{number}"), false);
        nominated["status"]["nominatedNodeName"] = random.mostly(90, &["n1"], &["n2"]).into();
        pods.push(nominated);
    }
    for pod in &mut pods {
        if random.percent(4) {
            pod["status"]["phase"] = random.word(&["Succeeded", "Failed"]).into();
        }
    }
    let mut preemptor = pod(random, "agent", false);
    preemptor["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
    if random.percent(60) {
        preemptor["spec"]["priority"] = (*random.pick(&[5, 100, 1000])).into();
    }
    if random.percent(12) {
        preemptor["spec"]["preemptionPolicy"] = random.word(&["Never", "Never", "PreemptLowerPriority"]).into();
    }
    if random.percent(25) {
        preemptor["status"]["nominatedNodeName"] = "n1".into();
    }
    if random.percent(4) {
        preemptor["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100".into();
    }
    let memory = random.word(&["1Gi", "8Gi", "64Gi"]);
    let mut allocatable =
        json!({"cpu": format!("{}m", taken + 100 * random.below(4)), "memory": memory, "pods": "110"});
    if random.percent(20) {
        allocatable["pods"] = count.max(1).to_string().into();
    }
    if random.percent(50) {
        allocatable["example.com/gpu"] = random.word(&["1", "2", "4"]).into();
    }
    let budgets: Vec<Value> = (0..random.below(4))
        .map(|number| {
            let selector = match random.below(10) {
                0 => json!({}),
                1 => json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}),
                2 => json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
                _ => json!({"matchLabels": {"app": random.word(&["a", "b", "c"])}}),
            };
            let mut budget = json!({
                "metadata": {"name": format!("b{number}"), "namespace": random.word(&["x", "x", "y"])},
                "spec": {"selector": selector},
                "status": {"disruptionsAllowed": *random.pick(&[0, 0, 1, 2, 5])},
            });
            if random.percent(10) {
                budget["spec"].as_object_mut().unwrap().remove("selector");
            }
            if random.percent(15) {
                budget["status"]["disruptedPods"] = json!({format!("p{}", random.below(4)): time(random)});
            }
            budget
        })
        .collect();
    let node = json!({"metadata": {"name": "n1"}, "status": {"allocatable": allocatable}});
    json!({"preemption": {"pod": preemptor, "node": node, "pods": pods, "budgets": budgets}})
}

/// Minutes are few, so that times are often equal; the present is 12:05.
fn time(random: &mut Random) -> String {
    format!("2026-01-02T12:0{}:{}Z", random.below(6), random.word(&["00", "00", "30"]))
}

fn daemon_pod(random: &mut Random, name: usize) -> Value {
    let mut pod = json!({
        "metadata": {
            "name": format!("agent-{name}"),
            "namespace": if random.percent(95) { "default" } else { "other" },
            "creationTimestamp": time(random),
            "labels": {"app": if random.percent(85) { "agent" } else { "else" }},
        },
        "spec": {"containers": []},
        "status": {"phase": random.word(&[
            "Pending", "Running", "Running", "Running", "Running", "Running", "Failed", "Failed", "Succeeded", "Unknown",
        ])},
    });
    if random.percent(80) {
        pod["metadata"]["labels"]["controller-revision-hash"] = random.word(&["new", "old", "older", ""]).into();
    }
    if random.percent(40) {
        pod["metadata"]["labels"]["pod-template-generation"] = random.word(&["1", "2", "03", "x"]).into();
    }
    if random.percent(80) {
        let mut owner =
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u1", "controller": true});
        match random.below(25) {
            0 => owner["uid"] = "u2".into(),
            1 => owner["kind"] = "ReplicaSet".into(),
            2 => owner["name"] = "other".into(),
            3 => owner["controller"] = false.into(),
            _ => {}
        }
        pod["metadata"]["ownerReferences"] = json!([owner]);
    }
    if random.percent(12) {
        pod["metadata"]["deletionTimestamp"] = time(random).into();
    }
    let node = if random.percent(92) { "n1" } else { "n2" };
    if random.percent(80) {
        pod["spec"]["nodeName"] = node.into();
    } else {
        let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] =
            json!([{"matchFields": [field]}]);
    }
    if random.percent(75) {
        let status = if random.percent(75) { "True" } else { "False" };
        let mut ready = json!({"type": "Ready", "status": status});
        if random.percent(90) {
            ready["lastTransitionTime"] = time(random).into();
        }
        pod["status"]["conditions"] = json!([ready]);
    }
    pod
}

/// Makes a DaemonSet, a node, and pods that may be the DaemonSet's on that node.
pub fn manage(random: &mut Random) -> Value {
    let mut taints = Vec::new();
    if random.percent(30) {
        taints.push(json!({"key": "dedicated", "effect": random.word(&["NoSchedule", "NoSchedule", "NoExecute"])}));
    }
    let selector = match random.below(10) {
        0 => json!({}),
        1 => json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["else"]}]}),
        2 => json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        _ => json!({"matchLabels": {"app": "agent"}}),
    };
    let mut daemon_set = json!({
        "metadata": {"name": "agent", "namespace": "default", "uid": "u1"},
        "spec": {
            "selector": selector,
            "template": {"spec": {"containers": []}},
            "updateStrategy": update_strategy(random),
            "minReadySeconds": *random.pick(&[0, 0, 0, 30, 60, 120]),
        },
    });
    if random.percent(50) {
        daemon_set["metadata"]["annotations"] =
            json!({"deprecated.daemonset.template.generation": random.word(&["1", "2", "x", "+2"])});
    }
    if random.percent(5) {
        daemon_set["metadata"]["deletionTimestamp"] = time(random).into();
    }
    let pods = random.below(6);
    let pods: Vec<_> = (0..pods).map(|index| daemon_pod(random, (index * 7 + 3) % 10)).collect();
    json!({"manage": {
        "daemonSet": daemon_set,
        "node": {"metadata": {"name": "n1"}, "spec": {"taints": taints}},
        "pods": pods,
        "hash": if random.percent(95) { "new" } else { "" },
        "inBackoff": random.percent(30),
        "now": "2026-01-02T12:05:00Z",
    }})
}

/// Makes a DaemonSet in the middle of a rollout: nodes, most with a pod of the old or the new revision, some with both,
/// none, or a pod that is being deleted.
pub fn rollout(random: &mut Random) -> Value {
    let nodes = random.below(10);
    let surges = random.percent(50);
    let count = |random: &mut Random| match random.below(3) {
        0 => json!(format!("{}%", 1 + random.below(100))),
        _ => json!(1 + random.below(5)),
    };
    let strategy = match (random.below(12), surges) {
        (0, _) => json!({"type": "OnDelete"}),
        (1, _) => update_strategy(random),
        (_, true) => {
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": count(random)}})
        }
        (_, false) => json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": count(random)}}),
    };
    let daemon_set = json!({
        "metadata": {"name": "agent", "namespace": "default", "uid": "u1"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": []}},
            "updateStrategy": strategy,
            "minReadySeconds": *random.pick(&[0, 0, 0, 60]),
        },
    });
    let mut pods: Vec<Value> = Vec::new();
    let mut last_node = None;
    let mut pod = |random: &mut Random, node: usize, hash: &str| {
        let mut pod = json!({
            "metadata": {
                "name": format!("agent-{}", pods.len()), "namespace": "default", "creationTimestamp": time(random),
                "labels": {"app": "agent", "controller-revision-hash": hash},
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u1", "controller": true}
                ],
            },
            "spec": {"containers": [], "nodeName": format!("n{node}")},
            "status": {"phase": "Running"},
        });
        // Of several failed pods on a node the controller deletes one, which one depends on a Go map.
        if last_node.replace(node) != Some(node) {
            pod["status"]["phase"] = random.mostly(94, &["Running"], &["Pending", "Failed", "Succeeded"]).into();
        }
        if random.percent(4) {
            let field = json!({"key": "metadata.name", "operator": "In", "values": [format!("n{node}")]});
            pod["spec"] = json!({"containers": [], "affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}}});
        }
        if random.percent(8) {
            pod["metadata"]["deletionTimestamp"] = time(random).into();
        }
        let status = if random.percent(80) { "True" } else { "False" };
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": status, "lastTransitionTime": time(random)}]);
        pods.push(pod);
    };
    let tidy = random.percent(50);
    for node in 0..nodes {
        match random.below(if tidy { 12 } else { 16 }) {
            0..6 => pod(random, node, "old"),
            6..10 => pod(random, node, "new"),
            10 | 11 if surges => {
                pod(random, node, "old");
                pod(random, node, "new");
            }
            10 | 11 => pod(random, node, "new"),
            12 => {}
            13 => {
                pod(random, node, "old");
                pod(random, node, "older");
            }
            14 => {
                pod(random, node, "new");
                pod(random, node, "new");
                pod(random, node, "old");
            }
            _ => {
                pod(random, node, "old");
                pod(random, node, "new");
            }
        }
    }
    let gone = nodes > 0 && random.percent(15);
    let nodes: Vec<_> = (usize::from(gone)..nodes)
        .map(|node| {
            let mut taints = Vec::new();
            if random.percent(12) {
                taints.push(
                    json!({"key": "dedicated", "effect": random.word(&["NoSchedule", "NoSchedule", "NoExecute"])}),
                );
            }
            json!({"metadata": {"name": format!("n{node}")}, "spec": {"taints": taints}})
        })
        .collect();
    let in_backoff: Vec<_> = (0..10).filter(|_| random.percent(20)).map(|node| format!("n{node}")).collect();
    json!({"rollout": {
        "daemonSet": daemon_set, "nodes": nodes, "pods": pods, "hash": "new", "inBackoff": in_backoff,
        "now": "2026-01-02T12:05:00Z",
    }})
}
