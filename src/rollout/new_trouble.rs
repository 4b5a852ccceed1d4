//! What has become worse for other DaemonSets on the nodes that a rollout has updated.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::snapshot::Snapshot;
use crate::report::history::DaemonSetName;
use crate::report::partition::{Gate, GateFailure};
use crate::rollout::compare::{CompareOptions, compare};

/// What is worse, by DaemonSet and node.
pub(crate) type NewTrouble = BTreeMap<(String, String), Trouble>;

/// What is worse for a DaemonSet on a node.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    /// How the gate reports it.
    pub(crate) failure: GateFailure,
    /// Whether it may pass by itself.
    pub(crate) passing: bool,
}

/// Returns what is worse than before of all DaemonSets but one, on the nodes that it has updated. What was not read is no trouble, nor is
/// a node that is not ready, which a gate of its own judges, nor a DaemonSet that somebody has created or rolled out meanwhile.
pub(crate) fn new_trouble(before: &Snapshot, after: &Snapshot, own: &DaemonSetName, updated: &[String]) -> NewTrouble {
    let ready = after.nodes.iter().filter(|node| node.is_ready()).map(|node| node.metadata.name.as_str());
    let ready: BTreeSet<&str> = ready.collect();
    let updated: BTreeSet<&str> = updated.iter().map(String::as_str).filter(|node| ready.contains(node)).collect();
    let report = compare(before, after, &CompareOptions::default());
    let others = report.daemon_sets.iter().filter(|one| {
        let is_other = (&one.namespace, &one.name) != (&own.namespace, &own.name);
        is_other && one.status_before.is_some() && one.template_changes.is_empty()
    });
    let mut trouble = NewTrouble::new();
    for one in others {
        let title = format!("{}/{}", one.namespace, one.name);
        let setbacks = one.counted().flat_map(|setback| {
            let message = match setback.message.as_str() {
                "" => "no available pod".to_owned(),
                message => message.to_owned(),
            };
            setback.nodes.iter().map(move |node| (node, setback.code, setback.passing, message.clone()))
        });
        let restarting = one.restarting.iter().map(|node| (node, None, false, "its pod keeps restarting".to_owned()));
        let on_updated = setbacks.chain(restarting).filter(|(node, ..)| updated.contains(node.as_str()));
        for (node, reason, passing, message) in on_updated {
            trouble.entry((title.clone(), node.clone())).or_insert_with(|| Trouble {
                failure: GateFailure {
                    gate: Gate::OtherDaemonSets,
                    node: Some(node.clone()),
                    pod: None,
                    reason,
                    message: format!("DaemonSet {title} has a problem there that it did not have before: {message}"),
                },
                passing,
            });
        }
    }
    trouble
}
