//! Claims to devices (resource.k8s.io/v1), and the devices that drivers offer.

use serde::{Deserialize, Serialize};

use super::metadata::ObjectMeta;
use super::pod::NodeSelector;
use super::wire::null_is_default;

json_object! {
    /// A claim to devices.
    pub struct ResourceClaim {
        /// The name, and the owner.
        metadata: ObjectMeta,
        /// What is requested.
        spec: ResourceClaimSpec,
        /// What is allocated.
        status: ResourceClaimStatus,
    }

    /// The spec of a claim.
    pub struct ResourceClaimSpec {
        /// The devices.
        devices: DeviceClaim,
    }

    /// The devices that a claim requests.
    pub struct DeviceClaim {
        /// The requests, which must all be met.
        requests: Vec<DeviceRequest>,
    }

    /// Devices that are requested together.
    pub struct DeviceRequest {
        /// The name.
        name: String,
        /// The devices.
        exactly: Option<ExactDeviceRequest>,
        /// Alternatives, of which the first that is available is taken.
        first_available: Vec<ExactDeviceRequest>,
    }

    /// Devices of a class. Which of them match is written in CEL, which is not kept.
    pub struct ExactDeviceRequest {
        /// The name, if it is one of several alternatives.
        name: String,
        /// The class.
        device_class_name: String,
        /// `ExactCount` (also if empty) or `All`.
        allocation_mode: String,
        /// How many; 1 if absent.
        count: Option<usize>,
        /// Whether devices may be those of other claims.
        admin_access: Option<bool>,
    }

    /// The status of a claim.
    pub struct ResourceClaimStatus {
        /// What is allocated.
        allocation: Option<AllocationResult>,
        /// The pods that may use it.
        reserved_for: Vec<ResourceClaimConsumer>,
    }

    /// A pod that may use a claim.
    pub struct ResourceClaimConsumer {
        /// The kind.
        resource: String,
        /// The name.
        name: String,
        /// The uid.
        uid: String,
    }

    /// The devices that are allocated for a claim.
    pub struct AllocationResult {
        /// The devices.
        devices: DeviceAllocationResult,
        /// The nodes that can use them; all if absent.
        node_selector: Option<NodeSelector>,
    }

    /// A list of devices.
    pub struct DeviceAllocationResult {
        /// The devices.
        results: Vec<AllocatedDevice>,
    }

    /// A device that is allocated: `DeviceRequestAllocationResult`.
    pub struct AllocatedDevice {
        /// The driver.
        driver: String,
        /// The pool.
        pool: String,
        /// The device.
        device: String,
        /// Whether other claims may have it, too.
        admin_access: Option<bool>,
        /// Which share of the device it is, if it has several.
        #[serde(rename = "shareID")]
        share_id: Option<String>,
        /// Conditions of the device that a pod waits for.
        binding_conditions: Vec<String>,
    }

    /// What the claims of pods are created from.
    pub struct ResourceClaimTemplate {
        /// The name.
        metadata: ObjectMeta,
        /// The claim.
        spec: ResourceClaimTemplateSpec,
    }

    /// The spec of a template.
    pub struct ResourceClaimTemplateSpec {
        /// The spec of the claims.
        spec: ResourceClaimSpec,
    }

    /// Devices of a driver.
    pub struct ResourceSlice {
        /// The name.
        metadata: ObjectMeta,
        /// The devices.
        spec: ResourceSliceSpec,
    }

    /// A pool of devices.
    pub struct ResourcePool {
        /// The name.
        name: String,
    }

    /// The nodes that can use devices; none if all is absent.
    pub struct DeviceNodes {
        /// The only one.
        node_name: Option<String>,
        /// Those with certain labels.
        node_selector: Option<NodeSelector>,
        /// All.
        all_nodes: Option<bool>,
    }
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
