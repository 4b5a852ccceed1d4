//! A Job that rolls out in stages in the cluster, so that no machine of a person has to run as long.

use serde_json::{Value, json};

use crate::report::history::DaemonSetName;

/// The most letters of a name that becomes a label of pods: `maxNameLength` of k8s.io/apiserver/pkg/storage/names/generate.go (1.37).
const LABEL: usize = 63;

/// The most letters of the name of an object.
const NAME: usize = 253;

/// Returns a list of what runs a command of this program in the cluster: a Job, and a service account with the permissions that it needs,
/// with `create` on evictions instead of `delete` on pods if it `evicts`.
///
/// The Job of another rollout has another name, because the template of a Job cannot be changed: `generation` is that of the DaemonSet.
/// It requests memory for as many `nodes` as there are: a run on 15,000 nodes, each with six pods, on a server that imitates a cluster,
/// had up to 805 MB resident (`/usr/bin/time -f %M`), when it compared all DaemonSets after the canary with those before.
///
/// What all namespaces have is read only, to notice trouble of other DaemonSets and of nodes.
pub(crate) fn job(
    (name, generation, nodes): (&DaemonSetName, i64, usize),
    arguments: &[&str],
    image: &str,
    evicts: bool,
) -> Value {
    let DaemonSetName { namespace, name, .. } = name;
    let own = shortened(name, "-rollout", NAME);
    let words = [&[namespace, name, image, &*generation.to_string()], arguments].concat().join("\0");
    // The kubelet would expand variables, and reads two dollars as one: `Expand`, third_party/forked/golang/expansion/expand.go,
    // release 1.37.2.
    let unexpanded: Vec<String> = arguments.iter().map(|argument| argument.replace('$', "$$")).collect();
    let hash = fnv(words.as_bytes());
    let job = json!({"namespace": namespace, "name": shortened(name, &format!("-rollout-{hash:08x}"), LABEL)});
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
    let (read, follow) = (["get", "list", "watch"], ["list", "watch"]);
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
                rule("apps", &["daemonsets"], &read),
                rule("apps", &["controllerrevisions"], &follow),
                rule("", &["nodes", "pods"], &read),
                rule("", &["events"], &follow),
                rule("coordination.k8s.io", &["leases"], &["get"]),
            ]}),
        ),
        rbac("ClusterRoleBinding", of_cluster, binding("ClusterRole", &in_cluster)),
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": job,
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
                        "name": "kubectl-ds", "image": image, "args": unexpanded,
                        "resources": {"requests": {"cpu": "50m", "memory": format!("{}Mi", 64 + nodes / 20)}},
                        "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                            "capabilities": {"drop": ["ALL"]}},
                    }],
                }},
            },
        }),
    ];
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// Returns the hash FNV-1a, as in the names of revisions.
pub(super) fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Returns a name that begins as another one does, and ends with a suffix.
fn shortened(name: &str, suffix: &str, most: usize) -> String {
    let begin = name.get(..most - suffix.len()).unwrap_or(name);
    format!("{}{suffix}", begin.trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::job;
    use crate::report::history::DaemonSetName;

    #[test]
    fn each_rollout_has_a_job_of_its_own_whose_name_is_short_enough() {
        let named = |name: &str, generation: i64, image: &str| {
            let name = DaemonSetName {
                api_version: "apps/v1".to_owned(),
                namespace: "team".to_owned(),
                name: name.to_owned(),
            };
            let list = job((&name, generation, 0), &["partition", "--image", image], "kubectl-ds:1", false);
            let items = list["items"].as_array().unwrap();
            let name = |kind: &str| {
                let object = items.iter().find(|object| object["kind"] == kind).unwrap();
                object["metadata"]["name"].as_str().unwrap().to_owned()
            };
            (name("ServiceAccount"), name("Job"))
        };
        let (account, first) = named("agent", 3, "agent=agent:2");
        assert_eq!(account, "agent-rollout");
        assert_eq!(named("agent", 3, "agent=agent:2").1, first, "the same one twice is one Job");
        let others = [named("agent", 4, "agent=agent:2").1, named("agent", 3, "agent=agent:3").1];
        assert!(others.iter().all(|other| other.starts_with("agent-rollout-") && *other != first), "{others:?}");
        // A DNS label ends with a letter or a digit.
        let long = format!("{}.{}", "a".repeat(45), "b".repeat(207));
        let (account, job) = named(&long, 3, "agent=agent:2");
        assert_eq!((long.len(), account.len()), (253, 253));
        assert!(job.len() <= 63 && job.starts_with(&format!("{}-rollout-", "a".repeat(45))), "{job}");
    }

    #[test]
    fn the_kubelet_expands_nothing_in_the_arguments() {
        let name =
            DaemonSetName { api_version: "apps/v1".to_owned(), namespace: "team".to_owned(), name: "agent".to_owned() };
        let arguments = ["partition", "--env", "agent:ADDRESS=$(HOST):$$PORT"];
        let list = job((&name, 1, 1), &arguments, "kubectl-ds:1", false);
        let job = list["items"].as_array().unwrap().last().unwrap();
        let args = &job["spec"]["template"]["spec"]["containers"][0]["args"];
        assert_eq!(*args, serde_json::json!(["partition", "--env", "agent:ADDRESS=$$(HOST):$$$$PORT"]));
    }

    #[test]
    fn the_job_requests_memory_for_the_nodes_that_there_are() {
        let name =
            DaemonSetName { api_version: "apps/v1".to_owned(), namespace: "team".to_owned(), name: "agent".to_owned() };
        let memory = |nodes: usize| {
            let list = job((&name, 1, nodes), &[], "kubectl-ds:1", false);
            let job = list["items"].as_array().unwrap().last().unwrap();
            job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"].clone()
        };
        assert_eq!([memory(0), memory(3_000), memory(15_000)], ["64Mi", "214Mi", "814Mi"]);
    }
}
