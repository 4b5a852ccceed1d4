//! Nodes that a revision has removed, and nodes that have lost their pods for other reasons.

use jiff::Timestamp;

use super::page::Page;
use super::style;
use super::text::{count, time_since};
use crate::encode::sanitize::sanitize;
use crate::report::coverage::{LostPods, RemovedNodes, UnlikePool};
use crate::report::fix::Fix;

/// Writes which revision has removed nodes, which ones, and how to give them their pods back.
pub(super) fn write(removed: &RemovedNodes, now: Timestamp, page: &mut Page<'_>) {
    let view = page.view;
    let styled = if removed.needs_attention() { style::problem } else { style::in_progress };
    page.paragraph(&sentence(removed, now), styled);
    let lead = "  removed: ";
    writeln!(page, "{lead}{}", view.show(&view.names(&removed.nodes, lead.len())));
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

/// Writes how many nodes have lost their pod without a new revision, and where to find the reason.
pub(super) fn write_lost(lost: &LostPods, now: Timestamp, page: &mut Page<'_>) {
    let advice = format!("{}; {}", lost_in_short(lost, Some(now)), lost.fix.advice);
    page.remark(&Fix { advice, command: lost.fix.command.clone() }, style::in_progress);
}

/// Returns how many nodes have lost their pod without a new revision, or are unlike the others of their pool.
pub(super) fn lost_in_short(lost: &LostPods, now: Option<Timestamp>) -> String {
    let (are, their) = if lost.nodes == 1 { ("is", "its pod") } else { ("are", "their pods") };
    let nodes = count(lost.nodes, "node");
    if let Some(UnlikePool { others, by, .. }) = &lost.unlike {
        let by = sanitize(&by.join(", "));
        return format!("{nodes} {are} not eligible, unlike {others} similar ones ({by})");
    }
    let ago = lost.at.zip(now).map(|(at, now)| format!(" {} ago", time_since(at, now))).unwrap_or_default();
    format!("{nodes} {are} no longer eligible and lost {their}{ago}")
}
