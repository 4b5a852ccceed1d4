//! What would change if a manifest were applied.

use std::io::{self, Write};

use super::coverage::{incomplete, rows_of};
use super::style;
use super::text::{count, some_of};
use super::view::View;
use crate::report::coverage::{ReasonGroup, WhatIfReport};

/// Writes which nodes would gain, lose or keep a pod, and on which it would not fit.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub fn what_if(report: &WhatIfReport, view: &View, out: &mut dyn Write) -> io::Result<()> {
    let name = view.show(&format!("{}/{}", report.namespace, report.name));
    let now = if report.exists { format!("now {}", report.eligible_now) } else { "and does not exist yet".to_owned() };
    let headline =
        format!("{name} would run on {} of {}, {now}", report.eligible_then, count(report.nodes_total, "node"));
    writeln!(out, "{}\n", style::answer(headline))?;
    row("KEEPS", &report.keeps, style::context, view, out)?;
    row("GAINS", &report.gains, style::well, view, out)?;
    let lost: usize = report.loses.iter().map(|group| group.count).sum();
    groups("LOSES", lost, &report.loses, view, out)?;
    let unfit: usize = report.does_not_fit.iter().map(|group| group.count).sum();
    groups("DOES NOT FIT", unfit, &report.does_not_fit, view, out)?;
    if !report.not_eligible.is_empty() && report.loses.is_empty() {
        let count = report.not_eligible.iter().map(|group| group.count).sum();
        groups("NOT ELIGIBLE", count, &report.not_eligible, view, out)?;
    }
    incomplete(&report.incomplete, view, out)
}

fn row(
    heading: &str,
    nodes: &[String],
    styled: fn(String) -> String,
    view: &View,
    out: &mut dyn Write,
) -> io::Result<()> {
    let which = view.show(&some_of(nodes, view.width.saturating_sub(22)));
    let line = format!("{heading:<14}{:>5}   {which}", nodes.len());
    writeln!(out, "{}", styled(line.trim_end().to_owned()))
}

fn groups(heading: &str, nodes: usize, groups: &[ReasonGroup], view: &View, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{heading:<14}{nodes:>5}")?;
    rows_of(groups, true, style::trouble, view, out)
}
