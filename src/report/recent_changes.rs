//! The report of `changes`.

use jiff::Timestamp;

use super::coverage::Incomplete;
use super::history::DaemonSetName;
use super::reason::named_values;

/// What has changed in the cluster that DaemonSets depend on, the latest change first, as far as the API keeps times.
#[apply(answer!)]
pub struct ChangesReport {
    /// The time that ages are relative to.
    pub now: Timestamp,
    /// What could not be read, which makes the report partial.
    pub incomplete: Vec<Incomplete>,
    /// The time of `--since`: changes before it are left out; absent if all are listed.
    pub since: Option<Timestamp>,
    /// The changes, the latest first.
    pub changes: Vec<ClusterChange>,
    /// The latest change of a DaemonSet of another namespace, if those of one namespace are asked about; absent if there is none, and
    /// with --watch. Revisions of other namespaces are not read: a rollout there is a template that may have been changed.
    pub elsewhere: Option<ClusterChange>,
    /// The DaemonSets with rollouts whose time is unknown: they may be later than any change.
    pub rollouts_without_time: Vec<DaemonSetName>,
    /// How many nodes have no managed fields, so that changes of their labels, taints and cordons are not known.
    pub nodes_without_managed_fields: usize,
    /// How many other objects have none, so that changes of update strategies, quotas and labels are not known.
    pub others_without_managed_fields: usize,
}

impl super::Report for ChangesReport {
    const KINDS: &'static [&'static str] = &["ChangesReport"];

    const LIST: &'static str = "ChangesReportList";
}

/// A change of an object, or the same change of several nodes within 30 seconds of each other.
#[apply(answer!)]
pub struct ClusterChange {
    /// When it happened; of several objects, that of the last one.
    pub at: Timestamp,
    /// When the first of several objects was changed; absent if that is the same time.
    pub first_at: Option<Timestamp>,
    /// The kind of the objects.
    pub kind: ChangedKind,
    /// The namespace; absent for what has none, such as nodes.
    pub namespace: Option<String>,
    /// The names of the objects, sorted.
    pub names: Vec<String>,
    /// What happened.
    pub what: ChangeOf,
    /// Which revision of a DaemonSet was rolled out; absent unless `what` is `RolledOut`.
    pub rollout: Option<RolloutNumbers>,
    /// What was changed, in fragments: of a template each change; if `what` is `Written`, the fields that may have been changed.
    pub details: Vec<String>,
    /// The field manager that made the change, such as `helm`; absent if unknown.
    pub by: Option<String>,
}

impl ClusterChange {
    /// Makes a change of one object; its namespace is empty if it has none.
    pub(crate) fn new(at: Timestamp, kind: ChangedKind, (namespace, name): (&str, &str), what: ChangeOf) -> Self {
        ClusterChange {
            at,
            first_at: None,
            kind,
            namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
            names: vec![name.to_owned()],
            what,
            rollout: None,
            details: Vec::new(),
            by: None,
        }
    }
}

/// The numbers of the revision of a rollout, and of those that it is compared with. They may have other numbers by now, or have been
/// deleted.
#[apply(answer!)]
#[derive(Copy, Default)]
pub struct RolloutNumbers {
    /// The number that the revision got; absent if it has another one by now and the former one is unknown.
    pub revision: Option<i64>,
    /// The number of the rollout that `details` compares with, the last one before it that is known; absent if unknown.
    pub compared_with: Option<i64>,
    /// The number of the last rollout before it with an equivalent template, as of a rollback; absent if there is none, or it is
    /// unknown.
    pub same_as: Option<i64>,
}

named_values! {
    /// The kind of an object that was changed.
    ChangedKind {
        /// A DaemonSet, or an Advanced DaemonSet of OpenKruise.
        DaemonSet,
        /// A node.
        Node,
        /// A LimitRange of a namespace with DaemonSets.
        LimitRange,
        /// A ResourceQuota of a namespace with DaemonSets.
        ResourceQuota,
        /// A namespace with DaemonSets.
        Namespace,
        /// A policy for pods, or another one without rules.
        ValidatingAdmissionPolicy,
        /// A binding of such a policy.
        ValidatingAdmissionPolicyBinding,
        /// A policy that changes pods.
        MutatingAdmissionPolicy,
        /// A binding of such a policy.
        MutatingAdmissionPolicyBinding,
        /// A configuration of webhooks for pods.
        ValidatingWebhookConfiguration,
        /// A configuration of webhooks that change pods.
        MutatingWebhookConfiguration,
    }
}

/// What happened to an object.
#[apply(value!)]
#[derive(PartialOrd, Ord)]
pub enum ChangeOf {
    /// It was created.
    Created,
    /// It was deleted.
    Deleted,
    /// Its deletion was requested, and it still exists.
    Terminating,
    /// `pause` or `partition` has suspended the update strategy of a DaemonSet, which is still so.
    Held,
    /// The template of a DaemonSet got the highest revision number: it was changed, or rolled back.
    RolledOut,
    /// A node was cordoned: the node controller tainted it for that.
    Cordoned,
    /// A taint was added to a node, or a controller that found it there set its time again: the node controller does so when it
    /// starts.
    Tainted,
    /// A node was uncordoned, which only `--watch` can tell.
    Uncordoned,
    /// A taint was removed from a node, which only `--watch` can tell.
    Untainted,
    /// A node was rebooted, as its kubelet has found.
    Rebooted,
    /// A field manager changed the object. What it changed is not kept: perhaps some of the fields that it owns.
    Written,
}
