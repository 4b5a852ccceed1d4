//! Common mistakes, each with the path that the API server names, and similar specs that are valid.

use kubectl_ds::validation::problems_of_daemon_set;
use serde_json::{Value, json};

/// Returns a DaemonSet with fields of its pod, in which `agent` stands for the container that each has.
fn daemon_set(pod: Value) -> Value {
    let mut spec = json!({"containers": [{"name": "agent", "image": "images/a:1"}]});
    for (field, value) in pod.as_object().unwrap() {
        match field.as_str() {
            "agent" => spec["containers"][0].as_object_mut().unwrap().extend(value.as_object().unwrap().clone()),
            _ => spec[field] = value.clone(),
        }
    }
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": spec},
        },
    })
}

fn paths(object: &Value) -> Vec<String> {
    problems_of_daemon_set(object, object).into_iter().map(|problem| problem.path).collect()
}

/// What is in a pod, and the path below `spec.template.spec`; empty if it is valid.
#[test]
fn mistakes_in_a_pod_are_refused_with_the_path_that_the_api_server_names() {
    let affinity = |expression: Value| {
        let terms = json!([{"matchExpressions": [expression]}]);
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    };
    let required = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]";
    let in_affinity = |field: &str| format!("{required}.matchExpressions[0].{field}");
    let (operator, values) = (in_affinity("operator"), in_affinity("values"));
    let agent = |field: &str| format!("containers[0].{field}");
    let toleration = |toleration: Value| json!({"tolerations": [toleration]});
    let port = |port: Value| json!({"agent": {"ports": [port]}});
    let resources =
        |requests: Value, limits: Value| json!({"agent": {"resources": {"requests": requests, "limits": limits}}});
    let mount = |mount: Value| json!({"agent": {"volumeMounts": [mount]}, "volumes": [{"name": "v", "emptyDir": {}}]});
    let context = |context: Value| json!({"agent": {"securityContext": context}});
    let rows: Vec<(&str, Value, String)> = vec![
        (
            "effect",
            toleration(json!({"key": "k", "operator": "Exists", "effect": "NoSchedul"})),
            "tolerations[0].effect".into(),
        ),
        ("operator", toleration(json!({"key": "k", "operator": "Exist"})), "tolerations[0].operator".into()),
        (
            "Exists with a value",
            toleration(json!({"key": "k", "operator": "Exists", "value": "x"})),
            "tolerations[0].operator".into(),
        ),
        ("no key", toleration(json!({"value": "x"})), "tolerations[0].operator".into()),
        (
            "seconds of NoSchedule",
            toleration(json!({"key": "k", "effect": "NoSchedule", "tolerationSeconds": 5})),
            "tolerations[0].effect".into(),
        ),
        (
            "disabled operator",
            toleration(json!({"key": "k", "operator": "Gt", "value": "5"})),
            "tolerations[0].operator".into(),
        ),
        ("everything is tolerated", toleration(json!({"operator": "Exists"})), String::new()),
        ("host port", port(json!({"containerPort": 80, "hostPort": 99_999_999})), agent("ports[0].hostPort")),
        ("highest host port", port(json!({"containerPort": 80, "hostPort": 65_535})), String::new()),
        ("protocol", port(json!({"containerPort": 80, "protocol": "HTTP"})), agent("ports[0].protocol")),
        ("no container port", port(json!({"hostPort": 80})), agent("ports[0].containerPort")),
        ("port name", port(json!({"name": "http-of-the-agent", "containerPort": 80})), agent("ports[0].name")),
        (
            "two names",
            json!({"agent": {"ports": [{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}]}}),
            agent("ports[1].name"),
        ),
        (
            "two protocols",
            json!({"agent": {"ports": [{"containerPort": 1, "hostPort": 1}, {"containerPort": 1, "hostPort": 1, "protocol": "UDP"}]}}),
            String::new(),
        ),
        (
            "the same host port",
            json!({"agent": {"ports": [{"containerPort": 1, "hostPort": 1}, {"containerPort": 2, "hostPort": 1}]}}),
            agent("ports[1].hostPort"),
        ),
        (
            "other port of the host",
            json!({"hostNetwork": true, "agent": {"ports": [{"containerPort": 1, "hostPort": 2}]}}),
            agent("ports[0].hostPort"),
        ),
        ("affinity operator", affinity(json!({"key": "zone", "operator": "in", "values": ["a"]})), operator),
        ("In without values", affinity(json!({"key": "zone", "operator": "In"})), values.clone()),
        ("Gt with two values", affinity(json!({"key": "cores", "operator": "Gt", "values": ["1", "2"]})), values),
        ("Exists without values", affinity(json!({"key": "zone", "operator": "Exists"})), String::new()),
        ("container name", json!({"agent": {"name": "My_Agent"}}), agent("name")),
        ("pull policy", json!({"agent": {"imagePullPolicy": "IfNotpresent"}}), agent("imagePullPolicy")),
        ("image with a blank", json!({"agent": {"image": " a"}}), String::new()),
        ("request above its limit", resources(json!({"cpu": "2"}), json!({"cpu": "1"})), agent("resources.requests")),
        ("1000m of 1", resources(json!({"cpu": "1000m"}), json!({"cpu": "1"})), String::new()),
        ("negative request", resources(json!({"memory": "-1Gi"}), json!({})), agent("resources.requests[memory]")),
        (
            "part of a device",
            resources(json!({}), json!({"example.com/gpu": "500m"})),
            agent("resources.limits[example.com/gpu]"),
        ),
        ("device without limit", resources(json!({"example.com/gpu": 1}), json!({})), agent("resources.limits")),
        ("huge pages alone", resources(json!({}), json!({"hugepages-2Mi": "4Mi"})), agent("resources")),
        ("unknown resource", resources(json!({"gpu": 1}), json!({})), agent("resources.requests[gpu]")),
        ("no such quantity", resources(json!({"memory": "12GB"}), json!({})), agent("resources.requests[memory]")),
        ("no volume", mount(json!({"name": "x", "mountPath": "/x"})), agent("volumeMounts[0].name")),
        (
            "path outside",
            mount(json!({"name": "v", "mountPath": "/v", "subPath": "../x"})),
            agent("volumeMounts.subPath"),
        ),
        (
            "not privileged",
            mount(json!({"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"})),
            agent("volumeMounts.mountPropagation"),
        ),
        (
            "recursive",
            mount(json!({"name": "v", "mountPath": "/v", "recursiveReadOnly": "Enabled"})),
            agent("volumeMounts.recursiveReadOnly"),
        ),
        (
            "two sources",
            json!({"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/v"}}]}),
            "volumes[0].hostPath".into(),
        ),
        ("no source", json!({"volumes": [{"name": "v"}]}), String::new()),
        (
            "host path type",
            json!({"volumes": [{"name": "v", "hostPath": {"path": "/v", "type": "Dir"}}]}),
            "volumes[0].hostPath.type".into(),
        ),
        (
            "claim without name",
            json!({"volumes": [{"name": "v", "persistentVolumeClaim": {}}]}),
            "volumes[0].persistentVolumeClaim.claimName".into(),
        ),
        (
            "mode",
            json!({"volumes": [{"name": "v", "secret": {"secretName": "s", "defaultMode": 644}}]}),
            "volumes[0].secret.defaultMode".into(),
        ),
        ("two volumes of a name", json!({"volumes": [{"name": "v"}, {"name": "v"}]}), "volumes[1].name".into()),
        ("restart policy", json!({"restartPolicy": "OnFailure"}), "restartPolicy".into()),
        ("deadline", json!({"activeDeadlineSeconds": 60}), "activeDeadlineSeconds".into()),
        ("node selector", json!({"nodeSelector": {"disk": "s s d"}}), "nodeSelector".into()),
        ("probe without handler", json!({"agent": {"livenessProbe": {"periodSeconds": 5}}}), agent("livenessProbe")),
        (
            "two handlers",
            json!({"agent": {"livenessProbe": {"exec": {"command": ["a"]}, "tcpSocket": {"port": 1}}}}),
            agent("livenessProbe.tcpSocket"),
        ),
        (
            "threshold",
            json!({"agent": {"livenessProbe": {"exec": {"command": ["a"]}, "successThreshold": 2}}}),
            agent("livenessProbe.successThreshold"),
        ),
        (
            "scheme",
            json!({"agent": {"readinessProbe": {"httpGet": {"port": 1, "scheme": "http"}}}}),
            agent("readinessProbe.httpGet.scheme"),
        ),
        (
            "long sleep",
            json!({"agent": {"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}}),
            agent("lifecycle.preStop.sleep"),
        ),
        (
            "probe of an init container",
            json!({"initContainers": [{"name": "i", "image": "a", "livenessProbe": {"exec": {"command": ["a"]}}}]}),
            "initContainers[0].livenessProbe".into(),
        ),
        (
            "probe of a sidecar",
            json!({"initContainers": [{"name": "i", "image": "a", "restartPolicy": "Always", "livenessProbe": {"exec": {"command": ["a"]}}}]}),
            String::new(),
        ),
        ("name of both", json!({"initContainers": [{"name": "agent", "image": "a"}]}), "initContainers[0].name".into()),
        (
            "value and source",
            json!({"agent": {"env": [{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}}),
            agent("env[0].valueFrom"),
        ),
        (
            "field of a variable",
            json!({"agent": {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.nodeName"}}}]}}),
            agent("env[0].valueFrom.fieldRef.fieldPath"),
        ),
        ("odd variable", json!({"agent": {"env": [{"name": "a b-c.d"}]}}), String::new()),
        (
            "escalation",
            context(json!({"privileged": true, "allowPrivilegeEscalation": false})),
            agent("securityContext"),
        ),
        (
            "profile",
            context(json!({"seccompProfile": {"type": "Localhost"}})),
            agent("securityContext.seccompProfile.localhostProfile"),
        ),
        ("user", context(json!({"runAsUser": -1})), agent("securityContext.runAsUser")),
        (
            "spread",
            json!({"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 0, "whenUnsatisfiable": "DoNotSchedule"}]}),
            "topologySpreadConstraints[0].maxSkew".into(),
        ),
        ("no DNS server", json!({"dnsPolicy": "None"}), "dnsConfig".into()),
        ("IP with zeros", json!({"hostAliases": [{"ip": "010.0.0.1"}]}), "hostAliases[0].ip".into()),
        (
            "sysctl of the host",
            json!({"hostNetwork": true, "securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]}}),
            "securityContext.sysctls[0].name".into(),
        ),
        (
            "linux on windows",
            json!({"os": {"name": "windows"}, "securityContext": {"runAsUser": 1}}),
            "securityContext.runAsUser".into(),
        ),
        ("unknown field", json!({"nodeSelectr": {"disk": "ssd"}}), "nodeSelectr".into()),
        ("a list that is none", json!({"tolerations": {"key": "k"}}), "tolerations".into()),
        ("text for a number", json!({"agent": {"ports": [{"containerPort": "80"}]}}), agent("ports[0].containerPort")),
        ("number for a text", json!({"agent": {"env": [{"name": "A", "value": 1}]}}), agent("env[0].value")),
    ];
    for (what, pod, path) in rows {
        let found = paths(&daemon_set(pod.clone()));
        let expected: Vec<String> =
            (!path.is_empty()).then(|| format!("spec.template.spec.{path}")).into_iter().collect();
        assert_eq!(found, expected, "{what}: {pod}");
    }
}

#[test]
fn mistakes_outside_of_the_pod_are_refused_too() {
    for (pointer, value, path) in [
        ("/spec/template/metadata/labels", json!({"app": "other"}), "spec.template.metadata.labels"),
        ("/spec/template/metadata/labels", json!({"app": "agent", "a": "b c"}), "spec.template.labels"),
        ("/spec/template/metadata/annotations", json!({"a b": "c"}), "spec.template.annotations"),
        ("/spec/selector", json!({}), "spec.selector"),
        ("/spec/selector", json!(null), "spec.template.metadata.labels"),
        (
            "/spec/selector",
            json!({"matchExpressions": [{"key": "app", "operator": "in", "values": ["agent"]}]}),
            "spec.selector.matchExpressions[0].operator",
        ),
        ("/spec/minReadySeconds", json!(-1), "spec.minReadySeconds"),
        ("/spec/minReadySeconds", json!(3_000_000_000_i64), "spec.minReadySeconds"),
        ("/spec/revisionHistoryLimit", json!(-1), "spec.revisionHistoryLimit"),
        ("/spec/revisionHistoryLimit", json!(0), ""),
        ("/spec/replicas", json!(1), "spec.replicas"),
        ("/spec/updateStrategy", json!({"type": "Recreate"}), "spec.updateStrategy"),
        (
            "/spec/updateStrategy",
            json!({"rollingUpdate": {"maxUnavailable": "10"}}),
            "spec.updateStrategy.rollingUpdate.maxUnavailable",
        ),
        (
            "/spec/updateStrategy",
            json!({"rollingUpdate": {"maxSurge": 1}}),
            "spec.updateStrategy.rollingUpdate.maxSurge",
        ),
        (
            "/spec/updateStrategy",
            json!({"rollingUpdate": {"maxSurge": "101%", "maxUnavailable": 0}}),
            "spec.updateStrategy.rollingUpdate.maxSurge",
        ),
        ("/spec/updateStrategy", json!({"type": "OnDelete", "rollingUpdate": {"maxSurge": 1}}), ""),
        (
            "/spec/updateStrategy",
            json!({"type": "OnDelete", "rollingUpdate": {"maxSurge": true}}),
            "spec.updateStrategy.rollingUpdate.maxSurge",
        ),
        ("/metadata/name", json!("My_Agent"), "metadata.name"),
        ("/metadata/labels", json!({"a": "-"}), "metadata.labels"),
        ("/metadata/finalizers", json!(["cleanup"]), "metadata.finalizers[0]"),
        ("/metadata/annotations", json!({"example.com/any": "text of any kind, with spaces"}), ""),
    ] {
        let mut object = daemon_set(json!({}));
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value.clone();
        let mut found = paths(&object);
        found.dedup();
        let expected: Vec<&str> = Some(path).filter(|path| !path.is_empty()).into_iter().collect();
        assert_eq!(found, expected, "{pointer} = {value}");
    }
}
