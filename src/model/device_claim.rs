//! Claims to devices (resource.k8s.io/v1), and the devices that drivers offer.

use serde::{Deserialize, Serialize};

use super::metadata::ObjectMeta;
use super::pod::NodeSelector;
use super::wire::null_is_default;

/// A claim to devices.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceClaim {
    /// The name, and the owner.
    pub metadata: ObjectMeta,
    /// What is requested.
    pub spec: ResourceClaimSpec,
    /// What is allocated.
    pub status: ResourceClaimStatus,
}

/// The spec of a claim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceClaimSpec {
    /// The devices.
    pub devices: DeviceClaim,
}

/// The devices that a claim requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceClaim {
    /// The requests, which must all be met.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<DeviceRequest>,
}

/// Devices that are requested together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceRequest {
    /// The name.
    pub name: String,
    /// The devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exactly: Option<ExactDeviceRequest>,
    /// Alternatives, of which the first that is available is taken.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub first_available: Vec<ExactDeviceRequest>,
}

/// Devices of a class. Which of them match is written in CEL, which is not kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExactDeviceRequest {
    /// The name, if it is one of several alternatives.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The class.
    pub device_class_name: String,
    /// `ExactCount` (also if empty) or `All`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub allocation_mode: String,
    /// How many; 1 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// Whether devices may be those of other claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_access: Option<bool>,
}

/// The status of a claim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceClaimStatus {
    /// What is allocated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<AllocationResult>,
    /// The pods that may use it.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub reserved_for: Vec<ResourceClaimConsumer>,
}

/// A pod that may use a claim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceClaimConsumer {
    /// The kind.
    pub resource: String,
    /// The name.
    pub name: String,
    /// The uid.
    pub uid: String,
}

/// The devices that are allocated for a claim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocationResult {
    /// The devices.
    pub devices: DeviceAllocationResult,
    /// The nodes that can use them; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<NodeSelector>,
}

/// A list of devices.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceAllocationResult {
    /// The devices.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<AllocatedDevice>,
}

/// A device that is allocated: `DeviceRequestAllocationResult`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocatedDevice {
    /// The driver.
    pub driver: String,
    /// The pool.
    pub pool: String,
    /// The device.
    pub device: String,
    /// Whether other claims may have it, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_access: Option<bool>,
    /// Which share of the device it is, if it has several.
    #[serde(rename = "shareID", skip_serializing_if = "Option::is_none")]
    pub share_id: Option<String>,
    /// Conditions of the device that a pod waits for.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub binding_conditions: Vec<String>,
}

/// What the claims of pods are created from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceClaimTemplate {
    /// The name.
    pub metadata: ObjectMeta,
    /// The claim.
    pub spec: ResourceClaimTemplateSpec,
}

/// The spec of a template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceClaimTemplateSpec {
    /// The spec of the claims.
    pub spec: ResourceClaimSpec,
}

/// Devices of a driver.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceSlice {
    /// The name.
    pub metadata: ObjectMeta,
    /// The devices.
    pub spec: ResourceSliceSpec,
}

/// The spec of a slice.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceSliceSpec {
    /// The driver.
    pub driver: String,
    /// The pool that the devices are of.
    pub pool: ResourcePool,
    /// The nodes that can use the devices.
    #[serde(flatten)]
    pub nodes: DeviceNodes,
    /// Whether each device has nodes of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_device_node_selection: Option<bool>,
    /// The devices.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
}

/// A pool of devices.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourcePool {
    /// The name.
    pub name: String,
}

/// The nodes that can use devices; none if all is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceNodes {
    /// The only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Those with certain labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<NodeSelector>,
    /// All.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_nodes: Option<bool>,
}

/// A device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Device {
    /// The name, unique in its pool.
    pub name: String,
    /// The nodes that can use it, if each device of the slice has its own.
    #[serde(flatten)]
    pub nodes: DeviceNodes,
    /// Whether it may be allocated for several claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_multiple_allocations: Option<bool>,
}
