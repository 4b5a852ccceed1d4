//! Coverage of small test clusters.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::options::{Detail, Options};
use super::walk::coverage;
pub use crate::facts::test_support::*;
use crate::model::snapshot::Kind;
use crate::report::coverage::DaemonSetCoverage;
use crate::report::node_coverage::NodeCoverage;

fn list<T: DeserializeOwned>(objects: &Value, field: &str) -> Vec<T> {
    Option::deserialize(&objects[field]).unwrap().unwrap_or_default()
}

impl World {
    /// Adds the claims to devices of a cluster, their templates and classes, and the devices, all of which were read.
    pub fn devices(mut self, devices: &Value) -> Self {
        let snapshot = &mut self.snapshot;
        snapshot.resource_claims = list(devices, "claims");
        snapshot.resource_claim_templates = list(devices, "templates");
        snapshot.device_classes = list(devices, "classes");
        snapshot.resource_slices = list(devices, "slices");
        snapshot.read_on_demand = Kind::ON_DEMAND.into();
        self
    }

    /// Adds the storage of a cluster, all of which was read: claims, volumes, storage classes, CSI drivers
    /// and what storage these have left.
    pub fn storage(mut self, storage: &Value) -> Self {
        let snapshot = &mut self.snapshot;
        snapshot.persistent_volume_claims = list(storage, "claims");
        snapshot.persistent_volumes = list(storage, "volumes");
        snapshot.storage_classes = list(storage, "classes");
        snapshot.csi_nodes = list(storage, "csiNodes");
        snapshot.csi_drivers = list(storage, "csiDrivers");
        snapshot.csi_storage_capacities = list(storage, "capacities");
        snapshot.read_on_demand = Kind::ON_DEMAND.into();
        self
    }

    /// Returns the coverage of the DaemonSet, every node explained.
    pub fn coverage(self) -> DaemonSetCoverage {
        let options = Options { detail: Detail::Explain, ..Options::default() };
        coverage(&self.finish(), &options).daemon_sets.remove(0)
    }

    /// Returns the only node of the world in the DaemonSet's coverage.
    pub fn only_node(self) -> NodeCoverage {
        let mut coverage = self.coverage();
        assert_eq!(coverage.nodes.len(), 1);
        coverage.nodes.remove(0)
    }
}
