//! Jobs that pull the images of a template on nodes.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};

use crate::model::daemon_set::DaemonSet;
use crate::model::template::Template;

/// The label of these Jobs and their pods. Its value is the UID of the DaemonSet, which, unlike its name, always fits.
const LABEL: &str = "kubectl-ds/prepull";

/// How the names of the containers begin whose images are pulled; a webhook may add others.
pub(crate) const CONTAINER: &str = "image-";

/// How long a Job that has ended is retained if its client was killed.
const RETAINED_SECONDS: i64 = 30;

/// The longest that a Job may take in seconds, a day.
const LONGEST: i64 = 86_400;

/// A command that no image has: a container that cannot start has pulled its image, and does nothing else.
const COMMAND: &str = "/kubectl-ds-only-pulls-this-image";

/// A Job that pulls images on one node, and ends there.
#[derive(Debug, Clone, PartialEq)]
pub struct PrepullJob {
    /// The namespace and the name, which no other Job has.
    pub job: JobRef,
    /// The node.
    pub node: String,
    /// What is created.
    pub manifest: Value,
}

/// A Job by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRef {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// Returns the label selector of the Jobs for a DaemonSet, and of their pods.
pub(crate) fn selector(daemon_set: &DaemonSet) -> String {
    format!("{LABEL}={}", daemon_set.metadata.uid)
}

/// Returns the images of a template, and how they are pulled; those that are never pulled are left out.
fn images(template: &Template) -> BTreeSet<(&str, Option<&str>)> {
    let containers = ["/spec/initContainers", "/spec/containers"].into_iter();
    let containers = containers.filter_map(|path| template.value().pointer(path)?.as_array()).flatten();
    let images = containers.filter_map(|one| Some((one["image"].as_str()?, one["imagePullPolicy"].as_str())));
    images.filter(|(_, policy)| *policy != Some("Never")).collect()
}

/// Returns a Job for each node, which is deleted by the API server soon after it has ended, and with the DaemonSet.
///
/// A Job and not a pod: after `activeDeadlineSeconds` and `ttlSecondsAfterFinished` nothing is left of it, even if its client
/// was killed. Its pods have what pulling depends on, which is the image pull secrets and the service account, and satisfy
/// the Pod Security Standard "restricted". They request nothing, so that they fit on a full node.
pub(super) fn jobs(
    daemon_set: &DaemonSet,
    template: &Template,
    nodes: &[String],
    run: &str,
    deadline_seconds: i64,
) -> Vec<PrepullJob> {
    let metadata = &daemon_set.metadata;
    let containers: Vec<Value> = images(template).into_iter().enumerate().map(container).collect();
    if containers.is_empty() {
        return Vec::new();
    }
    let mut spec = json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": containers,
    });
    for field in ["imagePullSecrets", "serviceAccountName", "tolerations"] {
        if let Some(value) = template.value()["spec"].get(field) {
            spec[field] = value.clone();
        }
    }
    let labels = json!({LABEL: metadata.uid});
    let owner = json!({"apiVersion": daemon_set.api_version(), "kind": "DaemonSet", "name": metadata.name, "uid": metadata.uid});
    let job = |node: &String| {
        let mut spec = spec.clone();
        spec["nodeName"] = node.as_str().into();
        let name = name(&metadata.name, &metadata.uid, node, run);
        let manifest = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"namespace": metadata.namespace, "name": name, "labels": labels, "ownerReferences": [owner]},
            "spec": {
                "backoffLimit": 0,
                "activeDeadlineSeconds": deadline_seconds.clamp(1, LONGEST),
                "ttlSecondsAfterFinished": RETAINED_SECONDS,
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        });
        PrepullJob { job: JobRef { namespace: metadata.namespace.clone(), name }, node: node.clone(), manifest }
    };
    nodes.iter().map(job).collect()
}

fn container((number, (image, policy)): (usize, (&str, Option<&str>))) -> Value {
    let mut container = json!({
        "name": format!("{CONTAINER}{number}"),
        "image": image,
        "command": [COMMAND],
        "resources": {"requests": {"cpu": "0", "memory": "0"}, "limits": {"cpu": "100m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true,
        },
    });
    if let Some(policy) = policy {
        container["imagePullPolicy"] = policy.into();
    }
    container
}

/// Returns a name that no other Job has: it is that of one node in one run, so that a Job whose creation was not answered
/// can be created again. It fits into the label that pods of Jobs have.
fn name(daemon_set: &str, uid: &str, node: &str, run: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (uid, node, run).hash(&mut hasher);
    let start: String = daemon_set.chars().take(38).collect();
    format!("{}-prepull-{:016x}", start.trim_end_matches(['-', '.']), hasher.finish())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{jobs, selector};
    use crate::model::daemon_set::DaemonSet;
    use crate::model::template::Template;

    fn daemon_set(name: &str, template: &Value) -> DaemonSet {
        DaemonSet::from_object(json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"namespace": "team", "name": name, "uid": "uid-of-agent"},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template},
        }))
        .unwrap()
    }

    /// What makes the agent dangerous on a node must not be in a pod that only pulls its images.
    #[test]
    fn a_job_has_the_images_and_what_pulling_depends_on_and_nothing_else() {
        let template = json!({
            "metadata": {"labels": {"app": "agent"}, "annotations": {"some": "thing"}},
            "spec": {
                "hostNetwork": true, "hostPID": true, "priorityClassName": "system-node-critical",
                "serviceAccountName": "agent", "imagePullSecrets": [{"name": "registry"}],
                "tolerations": [{"operator": "Exists"}], "volumes": [{"name": "root", "hostPath": {"path": "/"}}],
                "nodeSelector": {"disk": "ssd"},
                "initContainers": [{"name": "init", "image": "agent:2", "imagePullPolicy": "Always"}],
                "containers": [
                    {"name": "agent", "image": "agent:2", "imagePullPolicy": "Always", "command": ["/agent"],
                        "args": ["--format-disks"], "env": [{"name": "A", "value": "B"}],
                        "securityContext": {"privileged": true}, "ports": [{"containerPort": 80, "hostPort": 80}],
                        "volumeMounts": [{"name": "root", "mountPath": "/host"}]},
                    {"name": "helper", "image": "helper:1"},
                    {"name": "local", "image": "local:1", "imagePullPolicy": "Never"},
                ],
            },
        });
        let daemon_set = daemon_set("agent", &template);
        let nodes = ["n1".to_owned(), "n2".to_owned()];
        let jobs = jobs(&daemon_set, &Template::new(template), &nodes, "run", 600);
        assert_eq!(jobs.len(), 2);
        assert_ne!(jobs[0].job.name, jobs[1].job.name);
        let manifest = &jobs[1].manifest;
        assert_eq!(manifest["metadata"]["name"], jobs[1].job.name.as_str());
        assert_eq!(manifest["metadata"]["ownerReferences"][0]["uid"], "uid-of-agent");
        assert!(manifest["metadata"]["ownerReferences"][0]["controller"].is_null());
        assert_eq!(manifest["spec"]["activeDeadlineSeconds"], 600);
        let template = &manifest["spec"]["template"];
        assert_eq!(template["metadata"], json!({"labels": {"kubectl-ds/prepull": "uid-of-agent"}}));
        assert_eq!(selector(&daemon_set), "kubectl-ds/prepull=uid-of-agent");
        let fields: Vec<&str> = template["spec"].as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = [
            "automountServiceAccountToken",
            "containers",
            "enableServiceLinks",
            "imagePullSecrets",
            "nodeName",
            "restartPolicy",
            "securityContext",
            "serviceAccountName",
            "terminationGracePeriodSeconds",
            "tolerations",
        ];
        expected.sort_unstable();
        let mut found = fields.clone();
        found.sort_unstable();
        assert_eq!(found, expected);
        assert_eq!(template["spec"]["nodeName"], "n2");
        assert_eq!(template["spec"]["automountServiceAccountToken"], false);
        let containers = template["spec"]["containers"].as_array().unwrap();
        let of = |container: &Value| (container["image"].clone(), container["imagePullPolicy"].clone());
        let pulled: Vec<_> = containers.iter().map(of).collect();
        assert_eq!(pulled, [(json!("agent:2"), json!("Always")), (json!("helper:1"), Value::Null)]);
        for container in containers {
            let mut fields: Vec<&String> = container.as_object().unwrap().keys().collect();
            fields.retain(|field| *field != "imagePullPolicy");
            fields.sort();
            assert_eq!(fields, ["command", "image", "name", "resources", "securityContext"]);
            assert_ne!(container["command"], json!(["/agent"]));
        }
    }

    /// A label of pods has the name of their Job, so that it is limited to 63 characters.
    #[test]
    fn names_fit_and_differ_by_node_and_run() {
        let template = json!({"spec": {"containers": [{"name": "agent", "image": "agent:2"}]}});
        let daemon_set = daemon_set(&format!("{}.{}", "a".repeat(37), "b".repeat(200)), &template);
        let name = |node: &str, run: &str| {
            let jobs = jobs(&daemon_set, &Template::new(template.clone()), &[node.to_owned()], run, i64::MAX);
            jobs[0].job.name.clone()
        };
        assert_eq!(name("n1", "run"), name("n1", "run"));
        assert_ne!(name("n1", "run"), name("n2", "run"));
        assert_ne!(name("n1", "run"), name("n1", "other"));
        assert!(name("n1", "run").len() <= 63);
        assert!(name("n1", "run").starts_with(&format!("{}-prepull-", "a".repeat(37))));
    }

    #[test]
    fn nothing_is_created_for_images_that_are_never_pulled() {
        let template =
            json!({"spec": {"containers": [{"name": "agent", "image": "agent:2", "imagePullPolicy": "Never"}]}});
        let daemon_set = daemon_set("agent", &template);
        assert_eq!(jobs(&daemon_set, &Template::new(template), &["n1".to_owned()], "run", 600), []);
    }
}
