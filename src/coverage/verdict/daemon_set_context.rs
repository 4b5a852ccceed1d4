//! One DaemonSet, and what is computed about it once before its nodes are judged.

use std::cell::OnceCell;

use super::create_events::Creations;
use super::daemon_set_findings;
use super::finding::Finding;
use crate::coverage::index::{DaemonSetPods, Index};
use crate::model::daemon_set::{DaemonSet, UpdateStrategy};
use crate::model::pod::Pod;
use crate::model::snapshot::Kind;
use crate::report::strategy::{RollingStrategy, Strategy};
use crate::scheduling::daemon_pods;
use crate::scheduling::should_run::DaemonPod;

/// A DaemonSet, its simulated pod and its real ones.
pub struct Subject<'a> {
    /// The snapshot.
    pub index: &'a Index<'a>,
    /// The DaemonSet.
    pub daemon_set: &'a DaemonSet,
    /// The pod that the controller would create.
    pub daemon_pod: DaemonPod,
    /// The pods that the controller counts as its own.
    pub pods: DaemonSetPods<'a>,
    /// The hash of the current revision, if the revisions are known.
    pub current_hash: Option<&'a str>,
    /// What concerns it as a whole.
    pub concerns: Vec<Finding>,
    /// Whether its pods could be read.
    pub pods_known: bool,
    /// Whether the nodes could be read.
    pub nodes_known: bool,
    creations: OnceCell<Creations>,
}

impl<'a> Subject<'a> {
    /// Computes what is known of a DaemonSet in a snapshot.
    pub fn new(index: &'a Index<'a>, daemon_set: &'a DaemonSet) -> Self {
        let pods = index.pods_of(daemon_set);
        let namespace = &daemon_set.metadata.namespace;
        let pods_known = index.knows(Kind::Pods, namespace);
        Subject {
            index,
            daemon_set,
            daemon_pod: DaemonPod::new(&daemon_set.spec.template),
            pods,
            current_hash: index.current_revision(daemon_set).map(|revision| revision.hash()),
            concerns: daemon_set_findings::concerns(index, daemon_set),
            pods_known,
            nodes_known: !index.nodes.is_empty() || index.knows(Kind::Nodes, ""),
            creations: OnceCell::new(),
        }
    }

    /// Returns what events tell about creating its pods.
    pub fn creations(&self) -> &Creations {
        self.creations.get_or_init(|| Creations::new(self.index, self.daemon_set))
    }

    /// Returns whether a pod counts as available now.
    pub fn is_available(&self, pod: &Pod) -> bool {
        daemon_pods::is_available(pod, self.daemon_set.spec.min_ready_seconds, self.index.now())
    }

    /// Returns whether a pod counts as updated; `None` if the revisions are not known.
    pub fn is_updated(&self, pod: &Pod) -> Option<bool> {
        let updated = daemon_pods::is_updated(self.daemon_set, self.current_hash, pod);
        let namespace = &self.daemon_set.metadata.namespace;
        let not_created_yet =
            || !self.daemon_set.is_observed() && self.index.knows(Kind::ControllerRevisions, namespace);
        // Without the current hash, the template generation of a pod can only show that it is updated.
        (updated || self.current_hash.is_some() || not_created_yet()).then_some(updated)
    }

    /// Returns `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.daemon_set.metadata.namespace, self.daemon_set.metadata.name)
    }
}

/// Returns the update strategy in short.
pub fn strategy(strategy: &UpdateStrategy) -> Strategy {
    match strategy {
        UpdateStrategy::RollingUpdate(rolling) => Strategy::RollingUpdate(RollingStrategy {
            max_unavailable: rolling.max_unavailable,
            max_surge: rolling.max_surge,
            partition: rolling.partition,
            has_selector: rolling.selector.is_some(),
            in_place: rolling.rolling_update_type == "InPlaceIfPossible",
            paused: rolling.paused,
        }),
        UpdateStrategy::OnDelete => Strategy::OnDelete,
        UpdateStrategy::Unknown(name) => Strategy::Unknown(name.clone()),
    }
}
