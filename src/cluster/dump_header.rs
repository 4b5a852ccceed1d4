//! The header of a dump, next to its items: when it was made, and what was read for it.
//!
//! A dump is an ordinary `v1.List`, in which kubectl ignores unknown fields. With the header, reading a dump returns
//! the snapshot that was written: a kind without objects can be distinguished from one that was not read.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::kind::with_place;
use crate::model::snapshot::{Gap, GapCause, Kind, PodsComplete, Snapshot};

/// The field `snapshot` of a dump's list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The program that made the dump, and its version.
    pub tool: String,
    /// When the cluster was read, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<Timestamp>,
    /// The namespace whose DaemonSets were read; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Whether the dump was redacted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
    /// The kinds that were read, including those without objects.
    pub kinds: Vec<String>,
    /// How many objects of each kind there are, so that a truncated dump is noticed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, usize>,
    /// Which pods the dump contains.
    pub pods: PodsComplete,
    /// Nodes that have pods and did not exist.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub deleted_nodes: BTreeSet<String>,
    /// What could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<HeaderGap>,
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderGap {
    /// The kind, by its resource's name.
    pub kind: String,
    /// The namespace; `None` if the gap is cluster-wide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Why it could not be read; absent if the reason would not help the reader of the dump.
    #[serde(flatten)]
    pub cause: Option<GapCause>,
}

impl Header {
    /// Describes a snapshot.
    pub fn of(snapshot: &Snapshot, namespace: Option<&str>, redacted: bool) -> Self {
        let missing = |kind| {
            let mut gaps = snapshot.gaps.iter().filter(|gap| gap.kind == kind && gap.namespace.is_none());
            gaps.any(|gap| !matches!(gap.cause, GapCause::ForbiddenElsewhere(_)))
        };
        Header {
            tool: format!("kubectl-ds {}", env!("CARGO_PKG_VERSION")),
            taken_at: (!snapshot.is_now_estimated).then_some(snapshot.now),
            namespace: namespace.map(str::to_owned),
            redacted,
            kinds: Kind::ALL
                .into_iter()
                .filter(|kind| !missing(*kind))
                .chain(snapshot.budgets_complete.then_some(Kind::PodDisruptionBudgets))
                .chain(snapshot.read_on_demand.iter().copied())
                .chain((!snapshot.namespaces.is_empty()).then_some(Kind::Namespaces))
                .map(|kind| kind.resource().to_owned())
                .collect(),
            counts: counts(snapshot).map(|(kind, count)| (kind.resource().to_owned(), count)).collect(),
            pods: snapshot.pods_complete.clone(),
            deleted_nodes: snapshot.deleted_nodes.clone(),
            gaps: snapshot
                .gaps
                .iter()
                .map(|gap| HeaderGap {
                    kind: gap.kind.resource().to_owned(),
                    namespace: gap.namespace.clone(),
                    cause: match &gap.cause {
                        // The problem may quote a value of the object.
                        GapCause::Unreadable { object, .. } if redacted => {
                            let problem = "unexpected shape".to_owned();
                            Some(GapCause::Unreadable { object: object.clone(), problem })
                        }
                        GapCause::Failed(_) | GapCause::NotInDump | GapCause::NoneReturned => None,
                        cause => Some(cause.clone()),
                    },
                })
                .collect(),
        }
    }

    /// Returns the kinds that were read; those of a later version are omitted.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.kinds.iter().filter_map(|name| kind_of_resource(name))
    }

    /// Returns a kind with fewer or more objects than expected, and the expected number.
    pub(super) fn missing(&self, counts: &BTreeMap<Kind, usize>) -> Option<(Kind, usize)> {
        let expected = |name: &String, count: &usize| Some((kind_of_resource(name)?, *count));
        let mut expected = self.counts.iter().filter_map(|(name, count)| expected(name, count));
        expected.find(|(kind, count)| counts.get(kind).copied().unwrap_or(0) != *count)
    }

    /// Returns what could not be read; kinds of a later version are omitted.
    pub fn gaps(&self) -> impl Iterator<Item = Gap> {
        self.gaps.iter().cloned().filter_map(|HeaderGap { kind, namespace, cause }| {
            Some(Gap { kind: kind_of_resource(&kind)?, namespace, cause: cause.unwrap_or(GapCause::NotInDump) })
        })
    }
}

/// Returns the number of objects of each kind in a snapshot.
fn counts(snapshot: &Snapshot) -> impl Iterator<Item = (Kind, usize)> {
    let count = |kind| with_place!(kind, place => (place.of)(snapshot).len()).unwrap_or(0);
    Kind::every().map(move |kind| (kind, count(kind))).filter(|(_, count)| *count > 0)
}

fn kind_of_resource(name: &str) -> Option<Kind> {
    Kind::every().find(|kind| kind.resource() == name)
}
