//! The summary of a rollout that was followed.

use std::io::{self, Write};

use jiff::Timestamp;

use super::removed_nodes;
use super::status::{headline, styled};
use super::style;
use super::text::{count, hanging, paragraph, some_of};
use super::view::View;
use crate::report::age::format_age;
use crate::report::node_event::{FailedNodes, FollowSummary};
use crate::report::rollout_status::RolloutStatus;

/// Writes that a rollout is done.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub(crate) fn done(rollout: &RolloutStatus, now: Timestamp, view: &View, out: &mut dyn Write) -> io::Result<()> {
    if let Some(removed) = &rollout.removed_nodes {
        removed_nodes::write(removed, now, view, out)?;
    }
    paragraph(&headline(rollout, now), styled(rollout.verdict), view, out)
}

/// Writes what happened to a rollout while it was followed; nothing if nothing happened.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub(crate) fn summary(summary: &FollowSummary, view: &View, out: &mut dyn Write) -> io::Result<()> {
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
        let number = count(usize::try_from(restarts).unwrap_or(0), "container restart");
        lines.push(format!("{number}: {}", some_of(&nodes, view.width.saturating_sub(24))));
    }
    lines.extend(summary.failed.iter().map(|failed| format!("failed: {}", failure(failed, view))));
    lines.iter().try_for_each(|line| hanging(["  ", "    "], line, style::plain, view, out))
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
