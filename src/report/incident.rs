//! What explains the troubles of several DaemonSets at once.

use jiff::Timestamp;
use serde::Serialize;

use super::coverage::{LostPods, UnlikePool};
use super::fix::Fix;

/// A cause that several DaemonSets have in common.
#[apply(answer!)]
pub struct Incident {
    /// The cause.
    #[serde(flatten)]
    pub cause: IncidentCause,
    /// Since when, as far as that is known.
    pub since: Option<Timestamp>,
    /// The nodes that it concerns, by name.
    pub nodes: Vec<String>,
    /// The DaemonSets that it concerns, as `NAMESPACE/NAME`.
    pub daemon_sets: Vec<String>,
    /// Those of them that have pods of an older revision, which the controller replaces; absent if that is not known of all.
    pub in_rollout: Option<Vec<String>>,
    /// What to do.
    pub fix: Fix,
}

/// The cause of an incident.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(tag = "cause", rename_all_fields = "camelCase")]
pub enum IncidentCause {
    /// kube-controller-manager has not renewed its lease; it concerns every DaemonSet of Kubernetes' own.
    ControllerSilent,
    /// The scheduler has not tried to schedule new pods.
    SchedulerSilent {
        /// The scheduler.
        scheduler: String,
    },
    /// New pods are refused.
    PodsRefused {
        /// What refuses them.
        refused_by: Refuser,
        /// The namespace; absent if it may refuse pods of every namespace.
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
    },
    /// Nodes are not ready, or have stopped to post their status.
    NodesDown,
    /// The network of nodes is not up.
    NetworkUnavailable,
    /// No pod of a node is ready, although the node is.
    NothingReady {
        /// The node.
        node: String,
    },
    /// An autoscaler does not get nodes removed.
    NodeRemovalStuck,
    /// Nodes are not eligible for most DaemonSets, although most others of their pools are: what `lostPods` tells of one.
    NodesUnlikeOthers {
        /// What excludes them and not the others, such as `taint maintenance:NoExecute`.
        by: Vec<String>,
    },
}

impl IncidentCause {
    /// Returns whether nothing is wrong if it is intended: it is told last.
    pub(crate) fn may_be_intended(&self) -> bool {
        matches!(self, IncidentCause::NodesUnlikeOthers { .. })
    }
}

/// Removes what an incident tells of the nodes of a DaemonSet, too.
pub(crate) fn tell_once(incidents: &[Incident], namespace: &str, name: &str, lost_pods: &mut Option<LostPods>) {
    let Some(UnlikePool { by: own, .. }) = lost_pods.as_ref().and_then(|lost| lost.unlike.as_ref()) else { return };
    let name = format!("{namespace}/{name}");
    let tells = |incident: &Incident| match &incident.cause {
        IncidentCause::NodesUnlikeOthers { by } => by == own && incident.daemon_sets.contains(&name),
        _ => false,
    };
    if incidents.iter().any(tells) {
        *lost_pods = None;
    }
}

/// What refuses new pods.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(tag = "kind", content = "name")]
pub enum Refuser {
    /// A ResourceQuota, by its name.
    Quota(String),
    /// The level of pod security that the namespace enforces.
    PodSecurity(String),
    /// An admission webhook that denies pods.
    Webhook(String),
    /// An admission webhook that cannot be called.
    UnavailableWebhook(String),
    /// An admission policy.
    Policy(String),
    /// A LimitRange, by its name.
    LimitRange(String),
    /// A namespace that is being deleted.
    Namespace(String),
}
