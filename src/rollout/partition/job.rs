//! A Job that rolls out in stages in the cluster, so that no machine of a person has to run as long.

use serde_json::{Value, json};

use crate::report::history::DaemonSetName;

/// Returns a list of what runs a command of this program in the cluster: a Job, and a service account with the permissions that it needs,
/// with `create` on evictions instead of `delete` on pods if it `evicts`.
///
/// What all namespaces have is read only, to notice trouble of other DaemonSets and of nodes.
pub(crate) fn job(name: &DaemonSetName, arguments: &[&str], image: &str, evicts: bool) -> Value {
    let DaemonSetName { namespace, name, .. } = name;
    let own = format!("{name}-rollout");
    let in_cluster = format!("{namespace}:{own}");
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let replaces = match evicts {
        true => rule("", &["pods/eviction"], &["create"]),
        false => rule("", &["pods"], &["delete"]),
    };
    let rbac = |kind: &str, metadata: Value, more: Value| {
        let mut object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata});
        if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
            object.extend(more);
        }
        object
    };
    let binding = |kind: &str, role: &str| {
        json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": own}],
        })
    };
    let (in_namespace, of_cluster) = (json!({"namespace": namespace, "name": own}), json!({"name": in_cluster}));
    let read = ["get", "list", "watch"];
    let items = [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": in_namespace}),
        rbac(
            "Role",
            in_namespace.clone(),
            json!({"rules": [
                rule("apps", &["daemonsets"], &["patch"]),
                replaces,
                rule("", &["pods", "events"], &["create"]),
                rule("policy", &["poddisruptionbudgets"], &["list"]),
            ]}),
        ),
        rbac("RoleBinding", in_namespace.clone(), binding("Role", &own)),
        rbac(
            "ClusterRole",
            of_cluster.clone(),
            json!({"rules": [
                rule("apps", &["daemonsets", "controllerrevisions"], &read),
                rule("", &["nodes", "pods", "events"], &read),
                rule("coordination.k8s.io", &["leases"], &["get"]),
            ]}),
        ),
        rbac("ClusterRoleBinding", of_cluster, binding("ClusterRole", &in_cluster)),
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": in_namespace,
            "spec": {
                // A client that was killed, or that lost the API server, is replaced. What a gate has stopped is not repeated, nor
                // what somebody has stopped, who would otherwise have to stop it again and again.
                "backoffLimit": 20,
                "podFailurePolicy": {"rules": [
                    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2, 3, 7]}},
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                ]},
                "template": {"spec": {
                    "serviceAccountName": own,
                    "restartPolicy": "Never",
                    "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [{
                        "name": "kubectl-ds", "image": image, "args": arguments,
                        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
                        "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                            "capabilities": {"drop": ["ALL"]}},
                    }],
                }},
            },
        }),
    ];
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}
