//! `history`, `undo` and `restart` on real controllers, held against what kubectl says and does and
//! against the ControllerRevisions themselves.

mod advanced;
mod agreement;
mod faults;
mod meaning;
mod partition;
pub(super) mod program;
mod sequence;
mod sequences;
mod settings;
mod steps;
mod upgrade;
mod without_controllers;
pub(super) mod workload;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;

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
    /// Makes a namespace in which pods can be made, and returns its name.
    pub(super) fn namespace(&self) -> String {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let name = format!("rollouts-{}", MADE.fetch_add(1, Ordering::Relaxed));
        self.api.create(
            "/api/v1/namespaces",
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        );
        let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
        self.control_plane.wait_until("the namespace has its account", || {
            (self.api.request("GET", &account, "application/json", "").status == 200).then_some(())
        });
        name
    }
}

/// Returns the control plane; the first call starts it, and it ends with the process.
fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    static TRIED: AtomicBool = AtomicBool::new(false);
    CLUSTER.get_or_init(|| {
        assert!(!TRIED.swap(true, Ordering::Relaxed), "it did not start; the first test that failed says why");
        let control_plane = ControlPlane::start(Options::whole());
        let api = Api::start(&control_plane);
        for number in 1..=NODES {
            let name = format!("node-{number}");
            let labels = json!({"type": "kwok", "kubernetes.io/hostname": name});
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
            api.create("/api/v1/nodes", &node);
        }
        control_plane.wait_until("the nodes are ready", || {
            let nodes = api.items("/api/v1/nodes");
            nodes.iter().all(|node| node["spec"]["taints"].is_null()).then_some(())
        });
        Cluster { control_plane, api }
    })
}
