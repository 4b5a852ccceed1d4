//! pkg/scheduler/framework/plugins/noderesources/fit_test.go and k8s.io/component-helpers/resource/helpers_test.go

use std::collections::BTreeMap;

use kubectl_ds::model::node::Node;
use kubectl_ds::model::pod::{Pod, ResourceList};
use kubectl_ds::scheduling::resources::{NodeUsage, amount, fits, is_counted, pod_requests, template_requests};
use serde::Deserialize;

use super::rows;

/// TestEnoughRequests, TestNotEnoughRequests, TestStorageRequests, TestRestartableInitContainers and
/// TestIsFit; without the rows about ignored resources and device classes, and those that turn sidecars
/// or resources of whole pods off.
#[test]
fn pods_fit_as_they_do_upstream() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Insufficient {
        resource: String,
        requested: i64,
        used: i64,
        allocatable: i64,
    }
    #[derive(Deserialize)]
    struct Row {
        table: String,
        name: String,
        pod: Pod,
        node: Node,
        pods: Option<Vec<Pod>>,
        /// A row says one of these three.
        insufficient: Option<Vec<Insufficient>>,
        reasons: Option<Vec<String>>,
        fits: Option<bool>,
    }
    for Row { table, name, pod, node, pods, insufficient, reasons, fits: want } in rows(include_str!("fit.json")) {
        let mut pods = pods.unwrap_or_default();
        // Upstream's tables put pods on the node without naming it in them.
        pods.iter_mut().for_each(|pod| pod.spec.node_name = "node".to_owned());
        let found = fits(&template_requests(&pod.spec), &node, &NodeUsage::of(pods.iter()));
        let found: Vec<Insufficient> = found
            .into_iter()
            .map(|found| Insufficient {
                resource: found.resource,
                requested: found.requested,
                used: found.used,
                allocatable: found.allocatable,
            })
            .collect();
        let found_reasons: Vec<String> = found
            .iter()
            .map(|found| match found.resource.as_str() {
                "pods" => "Too many pods".to_owned(),
                resource => format!("Insufficient {resource}"),
            })
            .collect();
        assert_eq!(want.unwrap_or(found.is_empty()), found.is_empty(), "{table}: {name}");
        assert_eq!(reasons.as_ref().unwrap_or(&found_reasons), &found_reasons, "{table}: {name}");
        if let Some(insufficient) = insufficient {
            assert_eq!(found, insufficient, "{table}: {name}");
        }
    }
}

/// TestPodResourceRequests, TestPodLevelResourceRequests and TestAggregateContainerRequestsAndLimits;
/// without the rows that leave out overhead, containers or the resources of whole pods. Of what they
/// request only what the scheduler counts is looked at.
#[test]
fn pods_request_what_they_request_upstream() {
    #[derive(Deserialize)]
    struct Row {
        table: String,
        name: String,
        /// Whether the pod's status counts, as it does for pods that are bound.
        bound: bool,
        pod: Pod,
        want: ResourceList,
    }
    for Row { table, name, bound, mut pod, want } in rows(include_str!("requests.json")) {
        pod.spec.node_name = if bound { "node".to_owned() } else { String::new() };
        let want: BTreeMap<String, i64> = want
            .iter()
            .map(|(resource, quantity)| (resource.clone(), amount(resource, quantity)))
            .filter(|(resource, amount)| is_counted(resource) && *amount != 0)
            .collect();
        assert_eq!(pod_requests(&pod), want, "{table}: {name}");
    }
}
