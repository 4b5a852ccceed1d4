//! `history`, `undo` and `restart` on real controllers, checked against kubectl and the ControllerRevisions themselves.

mod advanced;
mod agreement;
mod clocks;
mod dated;
mod drills;
mod faults;
mod gates;
mod kept_strategy;
mod meaning;
pub(super) mod partition;
mod pipelines;
pub(super) mod program;
mod retry;
mod sequence;
mod sequences;
mod settings;
mod staged_faults;
mod stages;
mod stale_config;
mod steps;
mod upgrade;
mod without_controllers;
pub(super) mod workload;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::api::Api;
use crate::support::control_plane::{ControlPlane, Options};

/// How many nodes there are.
const NODES: usize = 3;

/// The control plane that these tests share, each in namespaces of its own.
pub(super) struct Cluster {
    pub(super) control_plane: ControlPlane,
    pub(super) api: Api,
}

impl Cluster {
    /// Adds a node with these labels and taints.
    pub(super) fn add_node(&self, name: &str, labels: &Value, taints: &Value) {
        let mut all = json!({"type": "kwok", "kubernetes.io/hostname": name});
        workload::merge(&mut all, labels);
        let metadata = json!({"name": name, "labels": all});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": taints}});
        self.api.create("/api/v1/nodes", &node);
    }

    /// Makes a namespace in which pods can be made, and returns its name.
    pub(super) fn namespace(&self) -> String {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let name = format!("rollouts-{}", MADE.fetch_add(1, Ordering::Relaxed));
        self.make_namespace(&name);
        name
    }

    /// Makes a namespace of this name in which pods can be made.
    pub(super) fn make_namespace(&self, name: &str) {
        self.api.create(
            "/api/v1/namespaces",
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        );
        let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
        self.control_plane.wait_until("the namespace has its account", || self.api.has(&account).then_some(()));
    }
}

/// A control plane that is started when it is first needed, and ends with the process.
struct Shared {
    cluster: OnceLock<Cluster>,
    tried: AtomicBool,
}

impl Shared {
    const fn new() -> Self {
        Shared { cluster: OnceLock::new(), tried: AtomicBool::new(false) }
    }

    /// Returns the control plane, with the nodes `node-1` to `node-N`, in three zones.
    fn with_nodes(&self, nodes: usize) -> &Cluster {
        self.cluster.get_or_init(|| {
            let message = "it did not start; the first test that failed says why";
            assert!(!self.tried.swap(true, Ordering::Relaxed), "{message}");
            let control_plane = ControlPlane::start(Options::whole());
            let cluster = Cluster { api: control_plane.api(), control_plane };
            (1..=nodes).for_each(|number| {
                let zone = ["a", "b", "c"][number % 3];
                cluster.add_node(&format!("node-{number}"), &json!({"topology.kubernetes.io/zone": zone}), &json!([]));
            });
            cluster.control_plane.wait_until("the nodes are ready", || {
                let nodes = cluster.api.items("/api/v1/nodes");
                nodes.iter().all(|node| node["spec"]["taints"].is_null()).then_some(())
            });
            cluster
        })
    }
}

/// Returns the control plane of most tests.
fn cluster() -> &'static Cluster {
    static SHARED: Shared = Shared::new();
    SHARED.with_nodes(NODES)
}
