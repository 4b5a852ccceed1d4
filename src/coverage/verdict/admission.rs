//! What admission adds to a pod that does not exist yet: requests, overhead, selectors and its priority.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::daemon_set::DaemonSet;
use crate::model::metadata::CONTROLLER_REVISION_HASH_LABEL;
use crate::model::pod::{Pod, PodSpec};
use crate::model::quantity::Quantity;
use crate::model::snapshot::{LimitRange, NODE_SELECTOR_ANNOTATIONS, Namespace, PriorityClass, RuntimeClass, Snapshot};
use crate::scheduling::critical::system_priority;
use crate::scheduling::neighborhood::apply_label_keys;
use crate::scheduling::taints::daemon_tolerations;

/// Returns the pod that a DaemonSet would get, as far as is known, without a name and a node.
pub fn admitted(snapshot: &Snapshot, daemon_set: &DaemonSet) -> Pod {
    let mut spec = daemon_set.spec.template.spec.clone();
    for limits in &snapshot.limit_ranges {
        if limits.metadata.namespace == daemon_set.metadata.namespace {
            apply_limit_range(&mut spec, limits);
        }
    }
    if let Some(class) = runtime_class(snapshot, &spec) {
        apply_runtime_class(&mut spec, class);
    }
    let namespace = snapshot.namespaces.iter().find(|it| it.metadata.name == daemon_set.metadata.namespace);
    namespace.into_iter().for_each(|namespace| apply_namespace(&mut spec, namespace));
    let class = priority_class(snapshot, &spec.priority_class_name);
    spec.priority = match class {
        Some(class) => {
            spec.preemption_policy.clone_from(&class.preemption_policy);
            Some(class.value)
        }
        // Every cluster has priority classes: none at all means that they were not read.
        None if snapshot.priority_classes.is_empty() => system_priority(&spec.priority_class_name),
        None => spec.priority_class_name.is_empty().then_some(0),
    };
    Pod { spec: spec.with_pod_level_defaults().unwrap_or(spec), ..Pod::default() }
}

/// Returns such a pod as the controller creates it for a revision, with the labels and tolerations that the rules about other pods go by.
/// No pod has the hash of a revision that is yet to be created.
pub fn created(mut pod: Pod, daemon_set: &DaemonSet, hash: &str) -> Pod {
    pod.metadata.namespace.clone_from(&daemon_set.metadata.namespace);
    let mut labels = (*daemon_set.spec.template.metadata.labels).clone();
    labels.insert(CONTROLLER_REVISION_HASH_LABEL.to_owned(), hash.to_owned());
    apply_label_keys(&mut pod.spec, &labels);
    pod.spec.tolerations = daemon_tolerations(&pod.spec);
    pod.metadata.labels = labels.into();
    pod
}

/// Returns the name of the account that the pods use.
pub fn service_account(daemon_set: &DaemonSet) -> &str {
    let account = daemon_set.object.pointer("/spec/template/spec/serviceAccountName").and_then(Value::as_str);
    account.filter(|account| !account.is_empty()).unwrap_or("default")
}

/// Returns the priority class of that name, or if none is named that of all other pods.
///
/// Ported from `admitPod` and `getDefaultPriorityClass`, plugin/pkg/admission/priority/admission.go, release 1.37.2.
fn priority_class<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a PriorityClass> {
    let classes = &snapshot.priority_classes;
    if name.is_empty() {
        return classes.iter().filter(|class| class.global_default).min_by_key(|class| class.value);
    }
    classes.iter().find(|class| class.metadata.name == name)
}

/// Adds the node selector that OpenShift takes from an annotation of the namespace, if that was read. The plugin of Kubernetes, which has
/// another annotation, is off by default: only a dry run shows whether it adds one.
///
/// As `Admit` and `getNamespaceNodeSelectorMap`, plugin/pkg/admission/podnodeselector/admission.go, release 1.37.2.
fn apply_namespace(spec: &mut PodSpec, namespace: &Namespace) {
    let [of_openshift, _] = NODE_SELECTOR_ANNOTATIONS;
    let selector = namespace.metadata.annotations.get(of_openshift);
    for (key, value) in
        selector.into_iter().flat_map(|selector| selector.split(',')).filter_map(|pair| pair.trim().split_once('='))
    {
        let value = value.trim_start_matches('=').trim();
        spec.node_selector.entry(key.trim().to_owned()).or_insert_with(|| value.to_owned());
    }
}

/// Returns the runtime class that a pod spec names, if it is known.
pub fn runtime_class<'a>(snapshot: &'a Snapshot, spec: &PodSpec) -> Option<&'a RuntimeClass> {
    let name = spec.runtime_class_name.as_ref()?;
    snapshot.runtime_classes.iter().find(|class| class.metadata.name == *name)
}

/// Fills in the limits and requests that containers do not set.
///
/// Ported from `mergePodResourceRequirements`, plugin/pkg/admission/limitranger/admission.go, release
/// 1.37.2.
fn apply_limit_range(spec: &mut PodSpec, limits: &LimitRange) {
    let fill = |to: &mut BTreeMap<String, Quantity>, from: &BTreeMap<String, Quantity>| {
        for (resource, quantity) in from {
            to.entry(resource.clone()).or_insert_with(|| quantity.clone());
        }
    };
    for item in limits.spec.limits.iter().filter(|item| item.type_ == "Container") {
        for container in spec.containers.iter_mut().chain(&mut spec.init_containers) {
            fill(&mut container.resources.limits, &item.default);
            fill(&mut container.resources.requests, &item.default_request);
        }
    }
}

/// Adds the overhead of the runtime and its scheduling constraints.
///
/// Ported from `setOverhead` and `setScheduling`, plugin/pkg/admission/runtimeclass/admission.go,
/// release 1.37.2.
fn apply_runtime_class(spec: &mut PodSpec, class: &RuntimeClass) {
    if let Some(overhead) = &class.overhead {
        spec.overhead.clone_from(&overhead.pod_fixed);
    }
    if let Some(scheduling) = &class.scheduling {
        spec.node_selector.extend(scheduling.node_selector.clone());
        let new: Vec<_> = scheduling
            .tolerations
            .iter()
            .filter(|toleration| !spec.tolerations.contains(toleration))
            .cloned()
            .collect();
        spec.tolerations.extend(new);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::admitted;
    use crate::coverage::test_support::world;
    use crate::scheduling::resources::{pod_requests, template_requests};

    #[test]
    fn limit_ranges_and_the_runtime_class_add_to_what_the_template_asks() {
        let mut snapshot = world()
            .template(json!({"runtimeClassName": "kata", "initContainers": [{"name": "init"}],
                "tolerations": [{"key": "a"}]}))
            .finish();
        snapshot.limit_ranges.push(
            from_value(json!({
                "metadata": {"name": "limits", "namespace": "default"},
                "spec": {"limits": [{"type": "Container", "default": {"memory": "64Mi"}, "defaultRequest": {"cpu": "100m"}}]},
            }))
            .unwrap(),
        );
        snapshot.runtime_classes.push(
            from_value(json!({
                "metadata": {"name": "kata"},
                "overhead": {"podFixed": {"cpu": "250m"}},
                "scheduling": {"nodeSelector": {"kata": "yes"}, "tolerations": [{"key": "a"}, {"key": "kata"}]},
            }))
            .unwrap(),
        );
        let spec = admitted(&snapshot, &snapshot.daemon_sets[0]).spec;
        assert_eq!(template_requests(&spec)["cpu"], 350);
        assert_eq!(spec.node_selector["kata"], "yes");
        let tolerated: Vec<&str> = spec.tolerations.iter().map(|toleration| toleration.key.as_str()).collect();
        assert_eq!(tolerated, ["a", "kata"]);
        assert_eq!(spec.containers[0].resources.limits["memory"].text, "64Mi");
    }

    #[test]
    fn what_a_limit_range_gives_to_containers_comes_before_the_limits_of_the_whole_pod() {
        let mut snapshot = world().template(json!({"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}})).finish();
        snapshot.limit_ranges.push(
            from_value(json!({
                "metadata": {"name": "limits", "namespace": "default"},
                "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "100m"}}]},
            }))
            .unwrap(),
        );
        let pod = admitted(&snapshot, &snapshot.daemon_sets[0]);
        for requests in [pod_requests(&pod), template_requests(&pod.spec)] {
            assert_eq!((requests["cpu"], requests["memory"]), (100, 1 << 30));
        }
    }

    #[test]
    fn limits_of_another_namespace_do_not_count() {
        let mut snapshot = world().finish();
        snapshot.limit_ranges.push(
            from_value(json!({
                "metadata": {"name": "limits", "namespace": "other"},
                "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "100m"}}]},
            }))
            .unwrap(),
        );
        assert!(template_requests(&admitted(&snapshot, &snapshot.daemon_sets[0]).spec).is_empty());
    }
}
