//! What would change for DaemonSets if labels and taints of nodes were changed.

use std::collections::BTreeMap;

use super::coverage::incomplete;
use super::overhead;
use super::page::Page;
use super::style;
use super::table::{self, Column};
use super::text::count;
use crate::report::coverage::ReasonGroup;
use crate::report::node_what_if::{DaemonSetOnNodes, NodeWhatIfReport};

/// Writes a row for each DaemonSet for which something changes, and names the others.
pub fn node_what_if(report: &NodeWhatIfReport, page: &mut Page<'_>) {
    let view = page.view;
    let changes = report.changes.join(", ");
    let (changed, same): (Vec<&DaemonSetOnNodes>, Vec<&DaemonSetOnNodes>) =
        report.daemon_sets.iter().partition(|one| is_changed(one));
    let nodes = match report.nodes.as_slice() {
        [node] => node.clone(),
        nodes => count(nodes.len(), "node"),
    };
    let line = match changed.len() {
        0 => format!("{changes}: nothing would change for the DaemonSets on {nodes}"),
        some => format!("{changes}: on {nodes}, something would change for {}", count(some, "DaemonSet")),
    };
    page.paragraph(&line, style::answer);
    if !changed.is_empty() {
        writeln!(page);
        let sum = |groups: &[ReasonGroup]| Some(groups.iter().map(|group| group.count).sum());
        let columns = [
            Column::text("DAEMONSET", |one: &&DaemonSetOnNodes| view.show(&name(one))).shrinkable(),
            Column::number("KEEPS", |one: &&DaemonSetOnNodes| Some(one.keeps.len())),
            Column::number("GAINS", |one: &&DaemonSetOnNodes| Some(one.gains.len())),
            Column::number("LOSES", move |one: &&DaemonSetOnNodes| sum(&one.loses)),
            Column::number("STAYS", |one: &&DaemonSetOnNodes| Some(one.stays.len())),
        ];
        table::write(&columns, &changed, page);
        let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for one in changed.iter().filter(|one| !why(one).is_empty()) {
            reasons.entry(why(one)).or_default().push(name(one));
        }
        for (reason, of) in &reasons {
            let whose = if of.len() == changed.len() { String::new() } else { format!("{}: ", view.names(of, 24)) };
            page.paragraph(&format!("{whose}{reason}"), style::plain);
        }
    }
    if changed.iter().any(|one| !one.loses.is_empty()) {
        page.paragraph("LOSES: the pod is deleted, or is not created any more", style::context);
    }
    if changed.iter().any(|one| !one.stays.is_empty()) {
        page.paragraph("STAYS: the pod runs on, but is not created again once it is gone", style::context);
    }
    let same: Vec<String> = same.into_iter().filter(|one| !one.keeps.is_empty()).map(name).collect();
    if !same.is_empty() && !changed.is_empty() {
        let names = view.names(&same, 40);
        page.paragraph(&format!("nothing changes for {}: {names}", same.len()), style::context);
    }
    report.startup_taints.iter().for_each(|taint| overhead::startup_taint(taint, "", page));
    incomplete(&report.incomplete, page);
}

fn name(one: &DaemonSetOnNodes) -> String {
    format!("{}/{}", one.namespace, one.name)
}

fn is_changed(one: &DaemonSetOnNodes) -> bool {
    let DaemonSetOnNodes { gains, loses, stays, does_not_fit, evicted, .. } = one;
    !(gains.is_empty() && loses.is_empty() && stays.is_empty() && does_not_fit.is_empty()) || evicted.is_some()
}

fn why(one: &DaemonSetOnNodes) -> String {
    let evicted = one.evicted.iter().map(|evicted| {
        let (nodes, seconds) = (count(evicted.nodes.len(), "node"), evicted.after_seconds);
        format!("evicted from {nodes} every {seconds}s and created again: tolerated for that long only")
    });
    let lost = one.loses.iter().map(|group| group.message.clone());
    let unfit = one.does_not_fit.iter().map(|group| format!("{} without room: {}", group.count, group.message));
    evicted.chain(lost).chain(unfit).collect::<Vec<_>>().join("; ")
}
