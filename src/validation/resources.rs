//! Rules for resources, from pkg/apis/core/validation/validation.go. Each names its upstream function.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{At, Validation, formats};
use crate::model::amounts::{Exact, aggregate, is_hugepages};
use crate::model::quantity::Quantity;

/// `standardResources`, pkg/apis/core/helper/helpers.go, without those of containers.
const OF_QUOTAS: [&str; 17] = [
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// `IsNativeResource`, pkg/apis/core/helper/helpers.go.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// `IsExtendedResourceName`, pkg/apis/core/helper/helpers.go.
fn is_extended(name: &str) -> bool {
    let is_name = || formats::qualified_name(&format!("requests.{name}")).is_none();
    !is_native(name) && !name.starts_with("requests.") && is_name()
}

fn nanos(amount: &Value) -> i128 {
    Quantity::new(amount.as_str().unwrap_or_default()).nanos().unwrap_or_default()
}

fn amounts<'a>(at: &At<'a>) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
    at.value.as_object().into_iter().flatten().map(|(name, amount)| (name.as_str(), amount))
}

impl<'a> Validation<'a> {
    /// `ValidateContainerResourceRequirements`, or for an overhead, which is checked like limits.
    pub(super) fn container_resources(&mut self, at: &At<'a>, is_overhead: bool) {
        let limits = if is_overhead { at.clone().named(at.child("limits")) } else { at.field("limits") };
        let requests = if is_overhead { At { value: &Value::Null, ..at.clone() } } else { at.field("requests") };
        self.resources(at, &limits, &requests, Self::container_resource_name);
        if !is_overhead {
            self.resource_claims(&at.field("claims"));
        }
    }

    /// `validateResourceRequirements`.
    fn resources(&mut self, at: &At<'a>, limits: &At<'a>, requests: &At<'a>, check_name: fn(&mut Self, &str, &str)) {
        for (list, name, amount) in [limits, requests]
            .into_iter()
            .flat_map(|list| amounts(list).map(move |(name, amount)| (list, name, amount)))
        {
            let (path, value) = (list.entry(name), nanos(amount));
            check_name(self, name, &path);
            if value < 0 {
                self.problem(&*path, format!("Invalid value: {amount}: must be greater than or equal to 0"));
            }
            // `IsIntegerResourceName`
            let is_counted = OF_QUOTAS[6..].contains(&name) && !name.ends_with("storage");
            if (is_counted || is_extended(name)) && value % 1_000_000_000 != 0 {
                self.problem(&*path, format!("Invalid value: {amount}: must be an integer"));
            }
            // `IsHugePageResourceValueDivisible`
            if let Some(size) = name.strip_prefix("hugepages-") {
                let size = Quantity::new(size).nanos().filter(|size| *size > 0 && size % 1_000_000_000 == 0);
                let whole = value.div_euclid(1_000_000_000) + i128::from(value.rem_euclid(1_000_000_000) != 0);
                if size.is_none_or(|size| whole % (size / 1_000_000_000) != 0) {
                    self.problem(path, format!("Invalid value: {amount}: is not positive integer multiple of {name}"));
                }
            }
        }
        for (name, amount) in amounts(requests) {
            let may_overcommit = is_native(name) && !is_hugepages(name);
            match limits.value.get(name) {
                Some(limit) if !may_overcommit && nanos(amount) != nanos(limit) => {
                    let why = format!("must be equal to {name} limit of {}", limit.as_str().unwrap_or_default());
                    self.problem(&*requests.path, format!("Invalid value: {amount}: {why}"));
                }
                Some(limit) if nanos(amount) > nanos(limit) => {
                    let why =
                        format!("must be less than or equal to {name} limit of {}", limit.as_str().unwrap_or_default());
                    self.problem(&*requests.path, format!("Invalid value: {amount}: {why}"));
                }
                None if !may_overcommit => {
                    self.problem(&*limits.path, "Required value: Limit must be set for non overcommitable resources");
                }
                _ => {}
            }
        }
        let names: Vec<&str> = amounts(limits).chain(amounts(requests)).map(|(name, _)| name).collect();
        if names.iter().any(|name| is_hugepages(name)) && !names.contains(&"cpu") && !names.contains(&"memory") {
            self.forbidden(&*at.path, "HugePages require cpu or memory");
        }
    }

    /// `ValidateContainerResourceName`.
    fn container_resource_name(&mut self, name: &str, path: &str) {
        let is_standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_hugepages(name);
        let why = match () {
            () if formats::qualified_name(name).is_some() => "must be a qualified name",
            () if !name.contains('/') && !is_standard => "must be a standard resource for containers",
            () if !is_native(name) && !is_extended(name) => "doesn't follow extended resource name standard",
            () => return,
        };
        self.invalid(path, name, why);
    }

    /// `validatePodResourceName`.
    fn pod_resource_name(&mut self, name: &str, path: &str) {
        if formats::qualified_name(name).is_some() {
            self.invalid(path, name, "must be a qualified name");
        } else if !is_hugepages(name) {
            self.one_of(path, name, &["cpu", "hugepages-", "memory"]);
        }
    }

    /// `validateResourceClaimNames`.
    fn resource_claims(&mut self, list: &At<'a>) {
        let mut names: BTreeSet<String> = BTreeSet::new();
        for claim in list.items() {
            let (name, request) = (claim.text("name"), claim.text("request"));
            if name.is_empty() {
                self.required(&*claim.path);
                continue;
            }
            if names.contains(name) {
                self.duplicate(&*claim.path, name);
            } else {
                let key = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
                if !request.is_empty() {
                    self.check(claim.child("request"), request, formats::label);
                }
                let prefix = format!("{name}/");
                if names.contains(&key) || request.is_empty() && names.iter().any(|other| other.starts_with(&prefix)) {
                    self.duplicate(&*claim.path, &key);
                }
                names.insert(key);
            }
            if !self.pod.claims.contains(name) {
                let why = "must be one of the names in pod.spec.resourceClaims";
                self.problem(&*claim.path, format!("Not found: {name:?}: {why}"));
            }
        }
    }

    /// `validatePodResources`.
    pub(super) fn pod_resources(&mut self, pod: &At<'a>) {
        let at = pod.field("resources");
        if !at.is_there() {
            return;
        }
        if pod.value["os"]["name"] == "windows" {
            return self.forbidden(&*at.path, "may not be set for a windows pod");
        }
        // An empty list counts as set.
        if !at.given["claims"].is_null() {
            self.forbidden(at.child("claims"), "claims may not be set for Resources at pod-level");
        }
        let (limits, requests) = (at.field("limits"), at.field("requests"));
        self.resources(&at, &limits, &requests, Self::pod_resource_name);
        self.resource_claims(&at.field("claims"));
        // `validatePodResourceConsistency`
        for (list, only_huge_pages) in [(&requests, false), (&limits, true)] {
            let kind = if only_huge_pages { "limits" } else { "requests" };
            for (name, sum) in sums(pod, kind) {
                let Some(amount) = list.value.get(name).filter(|_| !only_huge_pages || is_hugepages(name)) else {
                    continue;
                };
                if sum > nanos(amount) {
                    let why = format!("must be greater than or equal to aggregate container {kind}");
                    self.problem(list.entry(name), format!("Invalid value: {amount}: {why}"));
                }
            }
        }
        for (index, container) in pod.list("containers").enumerate() {
            for (name, amount) in amounts(&container.field("resources").field("limits")) {
                if limits.value.get(name).is_some_and(|limit| nanos(amount) > nanos(limit)) {
                    let path = format!("{}.containers[{index}][{name}].limits", at.path);
                    self.problem(path, format!("Invalid value: {amount}: must be less than or equal to pod limits"));
                }
            }
        }
    }
}

/// Returns the sums for a pod's containers.
fn sums<'a>(pod: &At<'a>, kind: &str) -> Exact<'a> {
    let of = |container: &At<'a>| -> Exact<'a> {
        amounts(&container.field("resources").field(kind)).map(|(name, amount)| (name, nanos(amount))).collect()
    };
    let initial = pod.list("initContainers").map(|it| (of(&it), it.text("restartPolicy") == "Always"));
    aggregate(pod.list("containers").map(|it| of(&it)), initial)
}
