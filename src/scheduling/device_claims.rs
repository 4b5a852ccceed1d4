//! Whether the claims of a pod to devices let it run on a node: the filter DynamicResources.
//!
//! Ported from pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go and
//! k8s.io/dynamic-resource-allocation/structured/internal/incubating, release 1.37.2, with their feature gates at their defaults. Extended
//! resources that device classes provide (KEP-5004) are one more claim, as in extendeddynamicresources.go. Which devices match a request
//! is written in CEL, and which of them are taken is searched for; neither is done here. If a node has too few devices, whatever they
//! are, none of that matters. Otherwise only claims that are allocated are decided.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use super::affinity::RequiredNodeAffinity;
use super::devices::Devices;
use super::neighborhood;
use crate::model::device_claim::{
    DeviceNodes, ExactDeviceRequest, ResourceClaim, ResourceClaimConsumer, ResourceSliceSpec,
};
use crate::model::metadata::ObjectMeta;
use crate::model::node::Node;
use crate::model::pod::{NodeSelector, Pod};
use crate::model::snapshot::{Kind, Snapshot};

/// For how many pods a claim may be reserved: `ResourceClaimReservedForMaxSize`, k8s.io/api/resource/v1/types.go, release 1.37. The
/// scheduler does not look at it, but the API server refuses the reservation that precedes the binding.
const MOST_CONSUMERS: usize = 256;

/// Why the claims of a pod keep it from all nodes, or from one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// A claim has not been created for the pod.
    AwaitsClaim,
    /// There is no claim of this name.
    ClaimNotFound(String),
    /// There is no template of this name.
    TemplateNotFound(String),
    /// The claim of this name is being deleted.
    ClaimDeleted(String),
    /// The claim of this name is that of another object.
    NotOwner(String),
    /// There is no device class of this name.
    ClassNotFound {
        /// The request.
        request: String,
        /// The class.
        class: String,
    },
    /// The devices of the claim of this name are those of other nodes.
    NotAvailable(String),
    /// The claim of this name is reserved for as many pods as it may be.
    Full(String),
    /// The claims request more devices than the node has.
    TooFewDevices {
        /// How many they request, at least.
        requested: usize,
        /// How many are not allocated.
        free: usize,
        /// How many there are.
        all: usize,
    },
}

/// What leaves open whether the claims of a pod let it run on a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Open {
    /// Objects of this kind were not read.
    Unread(Kind),
    /// The claim of this name, or one from the template of this name, is not allocated.
    NotAllocated(String),
    /// Devices may provide this resource, which the node does not offer.
    Resource(String),
    /// A pod waits for conditions of the devices of the claim of this name.
    Conditions(String),
    /// The claim of this name will be allocated again, once the pods that use it are replaced.
    AllocatedAgain(String),
    /// The claim, or the template of claims, of this name does not exist yet.
    NotCreated(String),
}

/// What keeps a pod from a node because of its claims, or leaves that open.
pub type Obstacle = neighborhood::Obstacle<Rejection, Open>;

impl From<Open> for Obstacle {
    fn from(open: Open) -> Self {
        Obstacle::Unknown(open)
    }
}

impl From<Rejection> for Obstacle {
    fn from(rejection: Rejection) -> Self {
        Obstacle::Rejects(rejection)
    }
}

impl Rejection {
    /// Returns what the scheduler says, if it says so.
    pub fn reason(&self, pod: &Pod) -> Option<String> {
        let ObjectMeta { name, namespace, .. } = &pod.metadata;
        Some(match self {
            Rejection::AwaitsClaim => format!("pod \"{namespace}/{name}\": ResourceClaim not created yet"),
            Rejection::ClaimNotFound(claim) => format!("could not find ResourceClaim \"{namespace}/{claim}\""),
            Rejection::ClaimDeleted(claim) => format!("resourceclaim {claim:?} is being deleted"),
            Rejection::NotOwner(claim) => format!(
                "ResourceClaim {namespace}/{claim} was not created for Pod {namespace}/{name} (Pod is not owner)"
            ),
            Rejection::ClassNotFound { request, class } => {
                format!("request {request}: device class {class} does not exist")
            }
            Rejection::NotAvailable(_) => "resourceclaim not available on the node".to_owned(),
            Rejection::TooFewDevices { .. } => "cannot allocate all claims".to_owned(),
            Rejection::TemplateNotFound(_) | Rejection::Full(_) => return None,
        })
    }

    /// Returns whether this is so of all nodes.
    pub fn is_of_pod(&self) -> bool {
        !matches!(self, Rejection::NotAvailable(_) | Rejection::TooFewDevices { .. })
    }
}

/// A device: its driver, its pool and its name.
type DeviceId<'a> = (&'a str, &'a str, &'a str);

/// What was read about claims to devices.
#[derive(Debug)]
pub struct DeviceClaims<'a> {
    /// Resources that device classes may provide.
    pub classes: Devices,
    snapshot: &'a Snapshot,
    claims: HashMap<(&'a str, &'a str), &'a ResourceClaim>,
    /// The pods that claims are reserved for, by uid.
    consumers: HashMap<&'a str, &'a Pod>,
    /// The claims that devices are allocated for, and that need not share them.
    allocated: HashMap<DeviceId<'a>, Vec<&'a ResourceClaim>>,
    /// The slices of a single node, and then those of several.
    of_node: HashMap<&'a str, Vec<&'a ResourceSliceSpec>>,
    of_nodes: Vec<&'a ResourceSliceSpec>,
}

/// The devices of a node.
struct NodeDevices<'a> {
    all: BTreeSet<DeviceId<'a>>,
    /// Whether one of them may be allocated for several claims.
    is_shared: bool,
}

impl<'a> DeviceClaims<'a> {
    /// Indexes what was read.
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let all = &snapshot.resource_claims;
        let key = |claim: &'a ResourceClaim| (&*claim.metadata.namespace, &*claim.metadata.name);
        let uids: BTreeSet<&str> = all.iter().flat_map(|it| &it.status.reserved_for).map(|it| &*it.uid).collect();
        let pods = snapshot.pods.iter().filter(|_| !uids.is_empty());
        let consumers = pods.filter(|pod| uids.contains(&*pod.metadata.uid));
        let (mut of_node, mut of_nodes): (HashMap<&str, Vec<_>>, _) = (HashMap::new(), Vec::new());
        for spec in snapshot.resource_slices.iter().map(|slice| &slice.spec) {
            match spec.nodes.node_name.as_deref() {
                Some(name) if !name.is_empty() => of_node.entry(name).or_default().push(spec),
                _ => of_nodes.push(spec),
            }
        }
        DeviceClaims {
            classes: Devices::of(snapshot),
            snapshot,
            claims: all.iter().map(|it| (key(it), it)).collect(),
            consumers: consumers.map(|pod| (&*pod.metadata.uid, pod)).collect(),
            allocated: allocated(all),
            of_node,
            of_nodes,
        }
    }

    /// Applies the filter to a pod; one that does not exist yet has no name. `leaves` tells which pods leave.
    ///
    /// # Errors
    /// Returns what rejects the node, or else what is not known.
    pub fn filter(&self, pod: &Pod, node: &Node, leaves: impl Fn(&Pod) -> bool) -> Result<(), Obstacle> {
        if !self.concerns(pod, node) {
            return Ok(());
        }
        let is_gone = |it: &ResourceClaimConsumer| self.consumers.get(&*it.uid).is_some_and(|pod| leaves(pod));
        let claims = self.claims_of(pod)?;
        Obstacle::first([
            self.check_classes(&claims),
            Self::check_allocated(pod, node, &claims, is_gone),
            self.check_unallocated(pod, node, &claims, is_gone),
        ])
    }

    /// Returns whether a pod needs devices of a node.
    pub fn concerns(&self, pod: &Pod, node: &Node) -> bool {
        !pod.spec.resource_claims.is_empty() || self.classes.of_pod(pod, node).next().is_some()
    }

    /// Returns whether the claims of a pod exist.
    ///
    /// # Errors
    /// Returns what the scheduler waits for before it tries the pod, or else what is not known.
    pub fn exist(&self, pod: &Pod) -> Result<(), Obstacle> {
        self.claims_of(pod).map(drop)
    }

    /// Returns the claims of a pod.
    ///
    /// Ported from `foreachPodResourceClaim`, and `Name` and `IsForPod`, k8s.io/dynamic-resource-allocation/resourceclaim.
    fn claims_of(&self, pod: &Pod) -> Result<Vec<Cow<'a, ResourceClaim>>, Obstacle> {
        let namespace = &pod.metadata.namespace;
        let mut claims = Vec::new();
        for of_pod in &pod.spec.resource_claims {
            let (name, is_created) = match (&of_pod.resource_claim_name, &of_pod.resource_claim_template_name) {
                (Some(name), _) => (name, false),
                (None, Some(template)) if pod.metadata.name.is_empty() => {
                    claims.push(Cow::Owned(self.new_claim(namespace, template)?));
                    continue;
                }
                (None, _) => {
                    let known = pod.status.resource_claim_statuses.iter().find(|it| it.name == of_pod.name);
                    match &known.ok_or(Rejection::AwaitsClaim)?.resource_claim_name {
                        Some(name) => (name, true),
                        // It is not needed.
                        None => continue,
                    }
                }
            };
            let Some(claim) = self.claims.get(&(namespace.as_str(), name.as_str())) else {
                return Err(self.not_found(Kind::ResourceClaims, namespace, Rejection::ClaimNotFound(name.clone())));
            };
            if claim.metadata.is_terminating() {
                return Err(Rejection::ClaimDeleted(name.clone()).into());
            }
            let is_owned = || claim.metadata.controller().is_some_and(|owner| owner.uid == pod.metadata.uid);
            if is_created && !is_owned() {
                return Err(Rejection::NotOwner(name.clone()).into());
            }
            claims.push(Cow::Borrowed(*claim));
        }
        Ok(claims)
    }

    /// Returns the claim that will be created for a pod that does not exist yet; it has the name of its template.
    fn new_claim(&self, namespace: &str, template: &str) -> Result<ResourceClaim, Obstacle> {
        let mut templates = self.snapshot.resource_claim_templates.iter();
        let found = templates.find(|it| it.metadata.is_named(namespace, template));
        let not_found = Rejection::TemplateNotFound(template.to_owned());
        let found = found.ok_or_else(|| self.not_found(Kind::ResourceClaimTemplates, namespace, not_found))?;
        let metadata = found.metadata.clone();
        Ok(ResourceClaim { metadata, spec: found.spec.spec.clone(), ..ResourceClaim::default() })
    }

    fn not_found(&self, kind: Kind, namespace: &str, rejection: Rejection) -> Obstacle {
        if self.snapshot.has_all(kind, namespace) { rejection.into() } else { Open::Unread(kind).into() }
    }

    /// Ported from `PreFilter` and `validateDeviceClass`.
    fn check_classes(&self, claims: &[Cow<'a, ResourceClaim>]) -> Result<(), Obstacle> {
        let requests =
            claims.iter().filter(|it| it.status.allocation.is_none()).flat_map(|it| &it.spec.devices.requests);
        let asked = requests.flat_map(|request| {
            let exactly = request.exactly.iter().map(|it| (request.name.clone(), it));
            exactly.chain(request.first_available.iter().map(|it| (format!("{}/{}", request.name, it.name), it)))
        });
        for (request, ExactDeviceRequest { device_class_name: class, .. }) in asked {
            if self.snapshot.device_classes.iter().all(|it| it.metadata.name != *class) {
                let not_found = Rejection::ClassNotFound { request, class: class.clone() };
                return Err(self.not_found(Kind::DeviceClasses, "", not_found));
            }
        }
        Ok(())
    }

    /// Ported from `Filter`, for claims that are allocated.
    fn check_allocated(
        pod: &Pod,
        node: &Node,
        claims: &[Cow<'a, ResourceClaim>],
        is_gone: impl Fn(&ResourceClaimConsumer) -> bool,
    ) -> Result<(), Obstacle> {
        let mut known = Ok(());
        for claim in claims {
            let (name, status) = (&claim.metadata.name, &claim.status);
            let Some(allocation) = &status.allocation else { continue };
            let consumers = status.reserved_for.iter().filter(|it| !is_gone(it)).count();
            if pod.metadata.name.is_empty() && consumers == 0 {
                known = known.and(Err(Open::AllocatedAgain(name.clone()).into()));
                continue;
            }
            if allocation.node_selector.as_ref().is_some_and(|selector| !matches(selector, node)) {
                return Err(Rejection::NotAvailable(name.clone()).into());
            }
            let is_reserved = status.reserved_for.iter().any(|it| it.uid == pod.metadata.uid);
            if consumers >= MOST_CONSUMERS && !is_reserved {
                return Err(Rejection::Full(name.clone()).into());
            }
            if allocation.devices.results.iter().any(|it| !it.binding_conditions.is_empty()) {
                known = known.and(Err(Open::Conditions(name.clone()).into()));
            }
        }
        known
    }

    /// Tells whether a node has as many devices as claims that are not allocated request, whatever they are.
    ///
    /// Follows from `Allocate` and `allocateOne`, allocator_incubating.go: a device is allocated for one request, unless that may have those of other
    /// claims, or the device is shared; and a request of all devices requires one.
    fn check_unallocated(
        &self,
        pod: &Pod,
        node: &Node,
        claims: &[Cow<'a, ResourceClaim>],
        is_gone: impl Fn(&ResourceClaimConsumer) -> bool,
    ) -> Result<(), Obstacle> {
        let is_unmet =
            |it: &&Cow<'a, ResourceClaim>| it.status.allocation.is_none() && !it.spec.devices.requests.is_empty();
        let unmet: Vec<_> = claims.iter().filter(is_unmet).collect();
        let resources: Vec<_> = self.classes.of_pod(pod, node).collect();
        let open = match (unmet.first(), resources.first()) {
            (Some(claim), _) => Open::NotAllocated(claim.metadata.name.clone()),
            (None, Some((resource, _))) => Open::Resource(resource.clone()),
            (None, None) => return Ok(()),
        };
        // Without the classes, it may be the node that lacks the resource.
        if !resources.is_empty() && self.classes == Devices::Unread {
            return Err(open.into());
        }
        if !self.snapshot.read_on_demand.contains(&Kind::ResourceSlices) {
            return Err(Open::Unread(Kind::ResourceSlices).into());
        }
        let NodeDevices { all, is_shared } = self.devices_of(node);
        // A claim that is reserved for nobody is not freed before its pod is scheduled.
        let is_freed = |claim: &ResourceClaim| {
            let consumers = &claim.status.reserved_for;
            !consumers.is_empty() && consumers.iter().all(&is_gone)
        };
        let holders = |device| self.allocated.get(device).into_iter().flatten();
        let free = all.iter().filter(|device| holders(*device).all(|claim| is_freed(claim))).count();
        let requests = unmet.iter().flat_map(|it| &it.spec.devices.requests);
        let least = |alternatives: &mut dyn Iterator<Item = &ExactDeviceRequest>| alternatives.map(own_devices).min();
        let requested = requests
            .map(|it| least(&mut it.exactly.iter().chain(&it.first_available)).unwrap_or_default())
            .chain(resources.iter().map(|(_, devices)| *devices))
            .fold(0_usize, usize::saturating_add);
        if all.is_empty() || (requested > free && !is_shared) {
            return Err(Rejection::TooFewDevices { requested, free, all: all.len() }.into());
        }
        Err(open.into())
    }

    /// Ported from `GatherPools`, pools_incubating.go, without what it leaves out: pools that are incomplete, and outdated slices.
    fn devices_of(&self, node: &Node) -> NodeDevices<'a> {
        let mut devices = NodeDevices { all: BTreeSet::new(), is_shared: false };
        let of_node = self.of_node.get(&*node.metadata.name).into_iter().flatten();
        for spec in of_node.chain(&self.of_nodes) {
            let is_per_device = spec.per_device_node_selection == Some(true);
            if !is_per_device && !is_for(&spec.nodes, node) {
                continue;
            }
            for device in spec.devices.iter().filter(|device| !is_per_device || is_for(&device.nodes, node)) {
                devices.all.insert((&spec.driver, &spec.pool.name, &device.name));
                devices.is_shared |= device.allow_multiple_allocations == Some(true);
            }
        }
        devices
    }
}

/// Returns the claims that devices are allocated for, and that need not share them.
///
/// Ported from `foreachAllocatedDevice`, allocateddevices.go.
fn allocated(claims: &[ResourceClaim]) -> HashMap<DeviceId<'_>, Vec<&ResourceClaim>> {
    let mut allocated: HashMap<DeviceId<'_>, Vec<&ResourceClaim>> = HashMap::new();
    for claim in claims {
        let results = claim.status.allocation.iter().flat_map(|it| &it.devices.results);
        for it in results.filter(|it| it.admin_access != Some(true) && it.share_id.is_none()) {
            allocated.entry((&it.driver, &it.pool, &it.device)).or_default().push(claim);
        }
    }
    allocated
}

/// Returns how many devices a request takes for itself, at least.
fn own_devices(request: &ExactDeviceRequest) -> usize {
    match () {
        () if request.admin_access == Some(true) => 0,
        () if request.allocation_mode == "All" => 1,
        () => request.count.unwrap_or(1),
    }
}

/// Ported from `NodeMatches`, pools_incubating.go.
fn is_for(nodes: &DeviceNodes, node: &Node) -> bool {
    match (nodes.node_name.as_deref(), &nodes.node_selector) {
        (Some(name), _) if !name.is_empty() => name == node.metadata.name,
        _ if nodes.all_nodes == Some(true) => true,
        (_, Some(selector)) => matches(selector, node),
        (_, None) => false,
    }
}

fn matches(selector: &NodeSelector, node: &Node) -> bool {
    RequiredNodeAffinity::of_terms(selector).matches(node)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::{DeviceClaims, Obstacle, Open, Rejection};
    use crate::model::node::Node;
    use crate::model::pod::Pod;
    use crate::model::snapshot::{Kind, Snapshot};

    /// Of a slice of node n with devices d0 and d1, d0 is allocated for another claim.
    #[test]
    fn a_node_has_as_many_devices_as_are_requested_or_not() {
        let request = |fields: Value| {
            let mut request = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
            request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            request
        };
        let exactly = |fields: Value| json!([{"name": "r", "exactly": request(fields)}]);
        let first = |fields: [Value; 2]| json!([{"name": "r", "firstAvailable": fields.map(request)}]);
        let own = json!({"nodeName": "n"});
        let labels = |value: &str| {
            let expression = json!({"key": "zone", "operator": "In", "values": [value]});
            json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]})
        };
        let (none, some) = (json!({}), exactly(json!({})));
        let (two, all) = (exactly(json!({"count": 2})), exactly(json!({"allocationMode": "All"})));
        let (admin, three) = (exactly(json!({"count": 2, "adminAccess": true})), exactly(json!({"count": 3})));
        let alternatives = |count| first([json!({"count": 3}), json!({"count": count})]);
        for (requests, nodes, device, allocated, free) in [
            (&some, &own, &none, &none, None),
            (&two, &own, &none, &none, Some(1)),
            (&all, &own, &none, &none, None),
            (&admin, &own, &none, &none, None),
            (&alternatives(1), &own, &none, &none, None),
            (&alternatives(2), &own, &none, &none, Some(1)),
            (&two, &own, &json!({"allowMultipleAllocations": true}), &none, None),
            (&two, &own, &none, &json!({"adminAccess": true}), None),
            (&two, &own, &none, &json!({"shareID": "a"}), None),
            (&three, &own, &none, &json!({"adminAccess": true}), Some(2)),
            (&some, &json!({"nodeName": "other"}), &none, &none, Some(0)),
            (&admin, &json!({"nodeName": "other"}), &none, &none, Some(0)),
            (&some, &json!({"allNodes": true}), &none, &none, None),
            (&some, &json!({"nodeSelector": labels("a")}), &none, &none, None),
            (&some, &json!({"nodeSelector": labels("b")}), &none, &none, Some(0)),
            (&some, &json!({"perDeviceNodeSelection": true}), &own, &none, None),
            (&some, &json!({"perDeviceNodeSelection": true}), &json!({"allNodes": false}), &none, Some(0)),
            (&some, &none, &none, &none, Some(0)),
        ] {
            let mut spec = json!({"driver": "d", "pool": {"name": "p"}});
            spec.as_object_mut().unwrap().extend(nodes.as_object().unwrap().clone());
            let with = |name: &str, fields: &Value, key: &str| {
                let mut object = json!({"driver": "d", "pool": "p"});
                object[key] = name.into();
                object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
                object
            };
            spec["devices"] = json!([with("d0", device, "name"), with("d1", device, "name")]);
            let results = json!([with("d0", allocated, "device")]);
            let claims = json!([
                {"metadata": {"name": "c", "namespace": "x"}, "spec": {"devices": {"requests": requests}}},
                {"metadata": {"name": "other", "namespace": "y"}, "status": {"allocation": {"devices": {"results": results}}}},
            ]);
            match (filter(claims, json!([{"spec": spec}])), free) {
                (Err(Obstacle::Unknown(Open::NotAllocated(_))), None) => {}
                (Err(Obstacle::Rejects(Rejection::TooFewDevices { free: found, .. })), Some(free)) if found == free => {
                }
                (outcome, _) => panic!("{requests} {nodes} {device} {allocated}: {outcome:?}"),
            }
        }
    }

    #[test]
    fn a_claim_without_requests_needs_no_devices_and_conditions_are_waited_for() {
        let claim = |status: Value| json!([{"metadata": {"name": "c", "namespace": "x"}, "status": status}]);
        let allocated = |fields: Value| claim(json!({"allocation": {"devices": {"results": [fields]}}}));
        assert_eq!(filter(claim(json!({})), json!([])), Ok(()));
        assert_eq!(filter(allocated(json!({})), json!([])), Ok(()));
        let waits = Open::Conditions("c".to_owned());
        assert_eq!(filter(allocated(json!({"bindingConditions": ["ready"]})), json!([])), Err(waits.into()));
    }

    /// Of a node without the resource that class gpu provides, but with two free devices.
    #[test]
    fn a_resource_of_a_device_class_takes_devices_as_a_claim_does() {
        let slices = json!([{"spec": {"driver": "d", "pool": {"name": "p"}, "nodeName": "n", "devices": [{"name": "d0"}, {"name": "d1"}]}}]);
        let open = Open::Resource("vendor.example/gpu".to_owned());
        let lacks = |requested, free| Err(Rejection::TooFewDevices { requested, free, all: free }.into());
        for (requested, claimed, slices, outcome) in [
            ("2", 0, &slices, Err(open.into())),
            ("3", 0, &slices, lacks(3, 2)),
            ("1", 1, &slices, Err(Open::NotAllocated("c".to_owned()).into())),
            ("1", 2, &slices, lacks(3, 2)),
            ("1", 0, &json!([]), lacks(1, 0)),
        ] {
            let request = json!([{"name": "r", "exactly": {"deviceClassName": "gpu", "count": claimed}}]);
            let claims =
                json!([{"metadata": {"name": "c", "namespace": "x"}, "spec": {"devices": {"requests": request}}}]);
            let mut pod = json!({"metadata": {"name": "p", "namespace": "x"}, "spec": {"containers": [
                {"name": "c", "resources": {"requests": {"vendor.example/gpu": requested}}}]}});
            if claimed > 0 {
                pod["spec"]["resourceClaims"] = json!([{"name": "c", "resourceClaimName": "c"}]);
            }
            assert_eq!(filter_pod(pod, claims, slices.clone()), outcome, "{requested} {claimed} {slices}");
        }
    }

    fn filter(claims: Value, slices: Value) -> Result<(), Obstacle> {
        let spec = json!({"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]});
        filter_pod(json!({"metadata": {"name": "p", "namespace": "x"}, "spec": spec}), claims, slices)
    }

    fn filter_pod(pod: Value, claims: Value, slices: Value) -> Result<(), Obstacle> {
        let class = json!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "vendor.example/gpu"}});
        let snapshot = Snapshot {
            resource_claims: from_value(claims).unwrap(),
            resource_slices: from_value(slices).unwrap(),
            device_classes: vec![from_value(class).unwrap()],
            read_on_demand: Kind::ON_DEMAND.into(),
            ..Snapshot::default()
        };
        let pod: Pod = from_value(pod).unwrap();
        let node: Node = from_value(json!({"metadata": {"name": "n", "labels": {"zone": "a"}}})).unwrap();
        DeviceClaims::of(&snapshot).filter(&pod, &node, |_| false)
    }
}
