//! Nodes that a revision has removed.

use jiff::Timestamp;

use super::page::Page;
use super::style;
use super::text::{some_of, time_since};
use crate::report::coverage::RemovedNodes;

/// Writes which revision has removed nodes, which ones, and what gives them their pods back.
pub(super) fn write(removed: &RemovedNodes, now: Timestamp, page: &mut Page<'_>) {
    let view = page.view;
    let styled = if removed.needs_attention() { style::trouble } else { style::moving };
    page.paragraph(&sentence(removed, now), styled);
    let lead = "  removed: ";
    writeln!(page, "{lead}{}", view.show(&some_of(&removed.nodes, view.width.saturating_sub(lead.len()))));
    if !removed.accepted {
        page.what_to_do(&removed.fix, "");
    }
}

/// Returns which revision has removed how many nodes, when, and by what.
pub(super) fn sentence(removed: &RemovedNodes, now: Timestamp) -> String {
    let age = time_since(removed.at, now);
    let accepted = if removed.accepted { "; accepted" } else { "" };
    format!("{} {age} ago ({}){accepted}", in_short(removed), removed.changes.join(", "))
}

/// Returns which revision has removed how many nodes.
pub(super) fn in_short(removed: &RemovedNodes) -> String {
    let nodes = match (removed.nodes.len(), removed.eligible_before) {
        (1, 1) => "the only node".to_owned(),
        (nodes, before) if nodes == before => format!("all {nodes} nodes"),
        (nodes, before) => format!("{nodes} of {before} nodes"),
    };
    format!("revision {} removed {nodes}", removed.revision)
}
