//! The summary of a followed rollout.

use jiff::Timestamp;

use super::list::styled;
use super::page::Page;
use super::status::headline;
use super::text::{count, some_of};
use super::view::View;
use super::{removed_nodes, style};
use crate::report::age::format_age;
use crate::report::node_event::{FailedNodes, FollowSummary};
use crate::report::rollout_status::RolloutStatus;

/// Writes that a rollout is done.
pub(crate) fn done(rollout: &RolloutStatus, now: Timestamp, page: &mut Page<'_>) {
    if let Some(removed) = &rollout.removed_nodes {
        removed_nodes::write(removed, now, page);
    }
    let style = if rollout.counts_as_complete() { style::healthy } else { styled(rollout.status) };
    page.paragraph(&headline(rollout, now), style)
}

/// Writes what happened to a rollout while it was followed; nothing if nothing happened.
pub(crate) fn summary(summary: &FollowSummary, page: &mut Page<'_>) {
    let view = page.view;
    let mut lines = Vec::new();
    if summary.updated > 0 {
        let slowest: Vec<String> =
            summary.slowest.iter().map(|(node, seconds)| format!("{node} ({})", format_age(*seconds))).collect();
        let slowest = if slowest.is_empty() { String::new() } else { format!("; slowest: {}", slowest.join(", ")) };
        let (nodes, took) = (count(summary.updated, "node"), format_age(summary.seconds));
        lines.push(format!("followed for {took}: {nodes} updated{slowest}"));
    }
    if !summary.restarts.is_empty() {
        let restarts: i64 = summary.restarts.iter().map(|(_, restarts)| restarts).sum();
        let nodes: Vec<String> =
            summary.restarts.iter().map(|(node, restarts)| format!("{node} ({restarts})")).collect();
        let number = count(restarts, "container restart");
        lines.push(format!("{number}: {}", some_of(&nodes, view.width.saturating_sub(24))));
    }
    lines.extend(summary.failed.iter().map(|failed| format!("failed: {}", failure(failed, view))));
    lines.iter().for_each(|line| page.hanging(["  ", "    "], line, style::plain))
}

fn failure(failed: &FailedNodes, view: &View) -> String {
    let code = failed.code.map_or("not available", |code| code.name());
    let recovered = match (failed.recovered, failed.nodes.len()) {
        (0, _) => "",
        (recovered, all) if recovered == all => " (recovered)",
        _ => " (some recovered)",
    };
    format!("{code} on {}{recovered}", some_of(&failed.nodes, view.width.saturating_sub(40)))
}
