//! The API server's defaults for pods: those that it sets in the pod of a template, but not in the template itself.

use super::amounts::{exact, is_hugepages, is_pod_level};
use super::pod::{Container, PodSpec, ResourceList, ResourceRequirements};
use super::quantity::Quantity;

impl PodSpec {
    /// Sets the defaults of the slim fields. Idempotent.
    ///
    /// Ported from `SetDefaults_PodSpec` and `SetDefaults_Pod`, pkg/apis/core/v1/defaults.go, release 1.37.2.
    pub fn apply_defaults(&mut self) {
        let PodSpec { scheduler_name, host_network, containers, init_containers, .. } = self;
        if scheduler_name.is_empty() {
            *scheduler_name = "default-scheduler".to_owned();
        }
        for container in containers.iter_mut().chain(init_containers) {
            container.apply_defaults(*host_network);
        }
        let containers = self.containers.iter_mut().chain(&mut self.init_containers);
        for resources in containers.map(|container| &mut container.resources).chain(&mut self.resources) {
            round_up(&mut resources.limits);
            round_up(&mut resources.requests);
        }
        round_up(&mut self.overhead);
    }

    /// Returns the pod with the pod-level requests that are derived from its limits and from its containers, and the
    /// limits on which they depend; `None` if it sets no pod-level resources. Other limits are not used here.
    ///
    /// They are set after admission, and so after a LimitRange has set defaults for containers; up to Kubernetes 1.36,
    /// before it. Ported from `DefaultPodLevelResources`, pkg/api/pod/util.go, release 1.37.2.
    pub fn with_pod_level_defaults(&self) -> Option<Self> {
        let ResourceRequirements { mut limits, mut requests } = self.resources.clone()?;
        if limits.is_empty() && requests.is_empty() {
            return None;
        }
        for (resource, amount) in self.aggregate(|container| exact(&container.resources.limits)) {
            if is_hugepages(resource) && !requests.contains_key(resource) {
                limits.entry(resource.to_owned()).or_insert_with(|| Quantity::from_nanos(amount));
            }
        }
        for (resource, amount) in self.aggregate(|container| exact(&container.resources.requests)) {
            if is_pod_level(resource) && !is_hugepages(resource) {
                requests.entry(resource.to_owned()).or_insert_with(|| Quantity::from_nanos(amount));
            }
        }
        set_missing(&mut requests, limits.iter().filter(|(resource, _)| is_pod_level(resource)));
        Some(PodSpec { resources: Some(ResourceRequirements { limits, requests }), ..self.clone() })
    }
}

impl Container {
    /// Sets the protocols, the node's ports, and requests from limits.
    fn apply_defaults(&mut self, host_network: bool) {
        for port in &mut self.ports {
            if port.protocol.is_empty() {
                port.protocol = "TCP".to_owned();
            }
            if host_network && port.host_port == 0 {
                port.host_port = port.container_port;
            }
        }
        set_missing(&mut self.resources.requests, self.resources.limits.iter());
    }
}

fn set_missing<'a>(amounts: &mut ResourceList, from: impl Iterator<Item = (&'a String, &'a Quantity)>) {
    for (resource, amount) in from {
        amounts.entry(resource.clone()).or_insert_with(|| amount.clone());
    }
}

/// Rounds up amounts with a precision finer than a thousandth.
///
/// Ported from `SetDefaults_ResourceList`, pkg/apis/core/v1/defaults.go, release 1.37.2.
fn round_up(amounts: &mut ResourceList) {
    for amount in amounts.values_mut() {
        if let Some(rounded) = amount.round_up_to_milli().filter(|rounded| rounded.nanos() != amount.nanos()) {
            *amount = rounded;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::PodSpec;

    /// Returns the requests and limits of a whole pod after its defaults are set.
    fn defaulted(resources: Value, containers: Value) -> Value {
        let mut spec: PodSpec = from_value(json!({"resources": resources, "containers": containers})).unwrap();
        spec.apply_defaults();
        json!(spec.with_pod_level_defaults().unwrap().resources)
    }

    #[test]
    fn limits_of_a_whole_pod_are_its_requests_unless_containers_request_something() {
        for (resources, container, expected) in [
            (json!({"limits": {"memory": "8Gi"}}), json!({}), json!({"memory": "8Gi"})),
            (json!({"limits": {"memory": "8Gi"}}), json!({"requests": {"memory": "1Gi"}}), json!({"memory": "1Gi"})),
            (
                json!({"limits": {"memory": "8Gi"}}),
                json!({"limits": {"cpu": "2"}}),
                json!({"cpu": "2", "memory": "8Gi"}),
            ),
            (json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}), json!({}), json!({"cpu": "1"})),
            (
                json!({"requests": {"cpu": "1"}}),
                json!({"requests": {"memory": "1Gi"}}),
                json!({"cpu": "1", "memory": "1Gi"}),
            ),
        ] {
            let requests =
                &defaulted(resources.clone(), json!([{"name": "agent", "resources": container}]))["requests"];
            let canonical = |amounts: &Value| -> Vec<(String, Option<i128>)> {
                let amounts: super::ResourceList = from_value(amounts.clone()).unwrap();
                amounts.into_iter().map(|(resource, amount)| (resource, amount.nanos())).collect()
            };
            assert_eq!(canonical(requests), canonical(&expected), "{resources} {container}");
        }
    }

    #[test]
    fn huge_pages_of_containers_become_those_of_the_whole_pod() {
        let containers = json!([{"name": "agent", "resources": {"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"}}},
            {"name": "sidecar", "resources": {"limits": {"hugepages-2Mi": "2Mi"}}}]);
        let resources = defaulted(json!({"requests": {"cpu": "1"}}), containers.clone());
        assert_eq!(resources["limits"]["hugepages-2Mi"], "6291456");
        assert_eq!(resources["requests"]["hugepages-2Mi"], "6291456");
        assert_eq!(resources["requests"]["memory"], "1073741824", "{resources}");
        let resources = defaulted(json!({"requests": {"hugepages-2Mi": "8Mi"}}), containers);
        assert_eq!(resources["limits"].get("hugepages-2Mi"), None);
    }
}
