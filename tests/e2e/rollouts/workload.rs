//! A test's DaemonSet, with its revisions and pods as plain JSON from the API server.

use std::path::Path;

use serde_json::{Value, json};

use super::meaning::meaning;
use super::program::{Run, run};
use super::{Cluster, NODES};
use crate::support::api::Patch;

/// The annotation that a restart changes.
pub const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// The annotation in which a template says what the kubelets make of its pods.
pub const FATE: &str = "kubelet.example.com/status";

/// What runs and never becomes ready.
pub const NEVER_READY: &str = "phase: Running\ncontainerStatuses: []\n";

/// What crashes again and again.
pub const CRASHING: &str = "phase: Running\ncontainerStatuses:\n- name: agent\n  image: agent\n  imageID: ''\n  ready: false\n  \
     restartCount: 5\n  state:\n    waiting:\n      reason: CrashLoopBackOff\n  lastState:\n    terminated:\n      \
     exitCode: 1\n      reason: Error\n      startedAt: NOW\n      finishedAt: NOW\n";

/// The API groups that have DaemonSets, by the path of their API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    Apps,
    KruiseV1Beta1,
    KruiseV1Alpha1,
}

impl Api {
    pub fn version(self) -> &'static str {
        match self {
            Api::Apps => "apps/v1",
            Api::KruiseV1Beta1 => "apps.kruise.io/v1beta1",
            Api::KruiseV1Alpha1 => "apps.kruise.io/v1alpha1",
        }
    }

    /// Returns the version that reports name, which is the one that the API server prefers.
    pub fn reported(self) -> &'static str {
        match self {
            Api::Apps => "apps/v1",
            Api::KruiseV1Beta1 | Api::KruiseV1Alpha1 => "apps.kruise.io/v1beta1",
        }
    }
}

/// A DaemonSet in a namespace.
#[derive(Clone)]
pub struct Workload {
    pub cluster: &'static Cluster,
    pub api: Api,
    pub namespace: String,
    pub name: String,
}

impl Workload {
    /// Makes a DaemonSet `name` whose pods have the label `app` of the same value.
    pub fn create(cluster: &'static Cluster, api: Api, namespace: &str, name: &str, more: &Value) -> Self {
        let workload = Workload { cluster, api, namespace: namespace.to_owned(), name: name.to_owned() };
        let mut spec = json!({
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "agent", "image": "agent:1"}]},
            },
        });
        merge(&mut spec, more);
        let object =
            json!({"apiVersion": api.version(), "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec});
        cluster.api.create(&workload.collection(), &object);
        workload
    }

    fn collection(&self) -> String {
        format!("/apis/{}/namespaces/{}/daemonsets", self.api.version(), self.namespace)
    }

    pub fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }

    /// Returns what the commands take for it.
    pub fn argument(&self) -> String {
        match self.api {
            Api::Apps => self.name.clone(),
            Api::KruiseV1Beta1 | Api::KruiseV1Alpha1 => format!("ads/{}", self.name),
        }
    }

    /// Returns what kubectl, and the program, print for it.
    pub fn shown(&self) -> String {
        match self.api {
            Api::Apps => format!("daemonset.apps/{}", self.name),
            Api::KruiseV1Beta1 | Api::KruiseV1Alpha1 => format!("daemonset.apps.kruise.io/{}", self.name),
        }
    }

    /// Runs a command of the program on it.
    pub fn run(&self, arguments: &[&str]) -> Run {
        self.run_as(&self.cluster.control_plane.kubeconfig(), arguments)
    }

    /// Runs a command of the program on it with another kubeconfig.
    pub fn run_as(&self, kubeconfig: &Path, arguments: &[&str]) -> Run {
        run(kubeconfig, &self.arguments(arguments))
    }

    /// Puts the DaemonSet behind the name of a command.
    pub fn arguments(&self, arguments: &[&str]) -> Vec<String> {
        let mut arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        arguments.splice(1..1, [self.argument(), "-n".to_owned(), self.namespace.clone()]);
        arguments
    }

    /// Returns the DaemonSet as it is.
    pub fn live(&self) -> Value {
        self.cluster.api.get(&self.path())
    }

    /// Deletes it, and its pods in a while.
    pub fn delete(&self) {
        self.cluster.api.delete(&format!("{}?propagationPolicy=Background", self.path()));
    }

    /// Returns the image of its container.
    pub fn image(&self) -> Value {
        self.template()["spec"]["containers"][0]["image"].take()
    }

    /// Returns the template as it is.
    pub fn template(&self) -> Value {
        self.live()["spec"]["template"].take()
    }

    /// Puts another template in.
    pub fn set_template(&self, template: &Value) {
        let patch = json!([{"op": "replace", "path": "/spec/template", "value": template}]);
        self.cluster.api.patch(&self.path(), Patch::Json, &patch);
    }

    /// Changes the image of the first container.
    pub fn set_image(&self, image: &str) {
        let patch = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image}]);
        self.cluster.api.patch(&self.path(), Patch::Json, &patch);
    }

    /// Changes anything by a merge patch.
    pub fn merge(&self, patch: &Value) {
        self.cluster.api.patch(&self.path(), Patch::Merge, patch);
    }

    /// Rolls images out one after the other, so that there is a revision for each.
    pub fn roll_out(&self, images: &[&str]) {
        for image in images {
            self.set_image(image);
            self.settle();
        }
    }

    /// Returns the ControllerRevisions that the DaemonSet controls, oldest first.
    pub fn revisions(&self) -> Vec<Value> {
        self.revisions_of(&self.live())
    }

    fn revisions_of(&self, live: &Value) -> Vec<Value> {
        let path = format!("/apis/apps/v1/namespaces/{}/controllerrevisions", self.namespace);
        let mut revisions = self.cluster.api.items(&path);
        revisions.retain(|revision| is_controlled(revision, live));
        revisions.sort_by_key(number);
        revisions
    }

    /// Returns the pods that the DaemonSet controls.
    pub fn pods(&self) -> Vec<Value> {
        self.pods_of(&self.live())
    }

    fn pods_of(&self, live: &Value) -> Vec<Value> {
        let mut pods = self.cluster.api.items(&format!("/api/v1/namespaces/{}/pods", self.namespace));
        pods.retain(|pod| is_controlled(pod, live));
        pods
    }

    /// Waits until the controller has seen the latest spec and has the revision of its template.
    pub fn wait_until_observed(&self) {
        let what = format!("{}/{} is observed", self.namespace, self.name);
        self.cluster.control_plane.wait_until(&what, || self.is_observed(&self.live()).then_some(()));
    }

    fn is_observed(&self, live: &Value) -> bool {
        live["status"]["observedGeneration"] == live["metadata"]["generation"]
            && self.revisions_of(live).last().is_some_and(|newest| self.is_of(newest, &live["spec"]["template"]))
    }

    /// Tells whether a revision is the one of a template.
    pub fn is_of(&self, revision: &Value, live: &Value) -> bool {
        match self.api {
            Api::Apps => template(revision) == clean(live),
            Api::KruiseV1Beta1 | Api::KruiseV1Alpha1 => meaning(&template(revision)) == meaning(live),
        }
    }

    /// Waits until nothing more will happen: the rollout is done, or cannot go on, or waits for
    /// somebody to delete pods.
    pub fn settle(&self) {
        let mut before = Value::Null;
        let mut same = 0;
        let what = format!("{}/{} has settled", self.namespace, self.name);
        self.cluster.control_plane.wait_until(&what, || {
            let live = self.live();
            let pods = self.pods_of(&live);
            let started = pods
                .iter()
                .all(|pod| pod["metadata"]["deletionTimestamp"].is_null() && !pod["status"]["startTime"].is_null());
            if !self.is_observed(&live) || !started || pods.len() < NODES {
                same = 0;
                return None;
            }
            let revisions = self.revisions_of(&live);
            let hash = hash(revisions.last()?);
            let limit = usize::try_from(live["spec"]["revisionHistoryLimit"].as_u64().unwrap_or(10)).unwrap();
            let status = &live["status"];
            let counted = status["numberAvailable"] == NODES && status["updatedNumberScheduled"] == NODES;
            let done =
                counted && pods.len() == NODES && pods.iter().all(|pod| hash_of_pod(pod) == hash && is_ready(pod));
            if done {
                return (revisions.len() <= limit + 1).then_some(());
            }
            // Where pods are not ready, or nobody replaces them, only time tells. OpenKruise takes more of it.
            let enough = if self.api == Api::Apps { 6 } else { 20 };
            let now = json!([pods, revisions, live]);
            same = if now == before { same + 1 } else { 0 };
            before = now;
            (same >= enough).then_some(())
        });
    }
}

/// Puts the fields of one object into another, whole values of other kinds replaced.
pub fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

fn is_controlled(object: &Value, by: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    owners.iter().any(|owner| owner["controller"] == true && owner["uid"] == by["metadata"]["uid"])
}

fn is_ready(pod: &Value) -> bool {
    crate::support::objects::condition(pod, "Ready")["status"] == "True"
}

/// Returns a revision's number.
pub fn number(revision: &Value) -> u64 {
    revision["revision"].as_u64().unwrap_or_else(|| panic!("no number: {revision}"))
}

/// Returns the hash that a revision's pods carry.
pub fn hash(revision: &Value) -> &str {
    revision["metadata"]["labels"]["controller-revision-hash"].as_str().unwrap_or_default()
}

pub fn hash_of_pod(pod: &Value) -> &str {
    pod["metadata"]["labels"]["controller-revision-hash"].as_str().unwrap_or_default()
}

/// Returns a revision's template without what is no part of it.
pub fn template(revision: &Value) -> Value {
    clean(&revision["data"]["spec"]["template"])
}

/// Returns a template without `$patch`, and without the null `creationTimestamp` that some releases
/// write and others do not.
pub fn clean(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(fields) = template.as_object_mut() {
        fields.remove("$patch");
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut)
            && metadata.get("creationTimestamp").is_some_and(Value::is_null)
        {
            metadata.remove("creationTimestamp");
        }
    }
    template
}

/// Returns a template without the time of a restart, which no two restarts share.
pub fn without_restart(template: &Value) -> Value {
    let mut template = clean(template);
    if let Some(annotations) = template.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
        && annotations.remove(RESTARTED_AT).is_some()
    {
        annotations.insert(RESTARTED_AT.to_owned(), json!("some time"));
    }
    template
}
