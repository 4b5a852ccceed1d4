//! What has become worse for other DaemonSets on the nodes that a rollout has updated.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::snapshot::Snapshot;
use crate::report::history::DaemonSetName;
use crate::report::partition::{Gate, GateFailure};
use crate::rollout::compare::{CompareOptions, compare};

/// What is worse, by DaemonSet and node.
pub(crate) type NewTrouble = BTreeMap<(String, String), GateFailure>;

/// Returns what is worse than before of all DaemonSets but one, on the nodes that it has updated. What was not read is no trouble.
pub(crate) fn new_trouble(before: &Snapshot, after: &Snapshot, own: &DaemonSetName, updated: &[String]) -> NewTrouble {
    let updated: BTreeSet<&str> = updated.iter().map(String::as_str).collect();
    let report = compare(before, after, &CompareOptions::default());
    let others = report.daemon_sets.iter().filter(|one| (&one.namespace, &one.name) != (&own.namespace, &own.name));
    let mut trouble = NewTrouble::new();
    for one in others {
        let title = format!("{}/{}", one.namespace, one.name);
        let setbacks = one.counted().flat_map(|setback| {
            let message = match setback.message.as_str() {
                "" => "no available pod".to_owned(),
                message => message.to_owned(),
            };
            setback.nodes.iter().map(move |node| (node, setback.code, message.clone()))
        });
        let restarting = one.restarting.iter().map(|node| (node, None, "its pod keeps restarting".to_owned()));
        for (node, reason, message) in setbacks.chain(restarting).filter(|(node, ..)| updated.contains(node.as_str())) {
            trouble.entry((title.clone(), node.clone())).or_insert_with(|| GateFailure {
                gate: Gate::OtherDaemonSets,
                node: Some(node.clone()),
                pod: None,
                reason,
                message: format!("DaemonSet {title} has a problem there that it did not have before: {message}"),
            });
        }
    }
    trouble
}
