//! What would change if a manifest were applied.

use super::change::write_warnings;
use super::coverage::{incomplete, rows_of};
use super::page::Page;
use super::style;
use super::table::{self, Column};
use super::text::count;
use crate::report::coverage::ReasonGroup;
use crate::report::what_if::{ChangesBy, ChangesByRow, NodeChange, PodChange, Preview, WhatIfReport};

/// What is shown below the headline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhatIfDetail {
    /// The nodes by what would change, in groups; or by the value of a label if the report has that.
    Groups,
    /// A row per node.
    Nodes,
    /// The only node of the report, in a sentence.
    Node,
}

/// Writes which nodes would gain, lose or keep a pod, and on which it would not fit.
pub fn what_if(report: &WhatIfReport, shown: WhatIfDetail, page: &mut Page<'_>) {
    match (shown, report.nodes.as_slice()) {
        (WhatIfDetail::Node, [node]) => one_node(report, node, page),
        (WhatIfDetail::Nodes, nodes) => {
            headline(report, page);
            rows(nodes, page);
        }
        _ => {
            headline(report, page);
            match &report.by {
                Some(by) => changes_by(by, page),
                None => all_groups(report, page),
            }
        }
    }
    if !report.admission_checked {
        writeln!(page);
        page.paragraph("not checked in a dump: admission", style::context);
    }
    incomplete(&report.incomplete, page)
}

fn sum(groups: &[ReasonGroup]) -> usize {
    groups.iter().map(|group| group.count).sum()
}

fn name(report: &WhatIfReport) -> String {
    format!("{}/{}", report.namespace, report.name)
}

fn headline(report: &WhatIfReport, page: &mut Page<'_>) {
    let (name, then, now) = (name(report), report.eligible_then, report.eligible_now);
    let nodes = count(report.nodes_total, "node");
    let lost = sum(&report.loses);
    let mut line = match report.exists {
        true if lost > 0 => {
            let gained = match report.gains.len() {
                0 => String::new(),
                nodes => format!(" and gain {nodes}"),
            };
            let lost = count(lost, "node");
            format!("{name} would lose {lost}{gained}; {then} of {nodes} would be eligible instead of {now}")
        }
        false => format!("{name} does not exist yet; {then} of {nodes} would be eligible"),
        true if then == now => format!("{name}: {then} of {nodes} would be eligible, as many as now"),
        true => format!("{name}: {then} of {nodes} would be eligible instead of {now}"),
    };
    let (refused, unfit) = (sum(&report.does_not_start), sum(&report.does_not_fit));
    let preempting = sum(&report.fits_by_preemption);
    if refused > 0 {
        line += "; no pod would start";
    }
    if unfit > 0 {
        line += &format!("; on {unfit} of them a pod would not fit");
    }
    if preempting > 0 {
        line += &format!("; on {preempting} of them it would preempt other pods");
    }
    if let Some(changes) = report.template_changes {
        line += match (changes, report.on_delete) {
            (false, _) => "; the template stays the same",
            (true, false) => "; the template changes, so all pods would be replaced",
            (true, true) => "; the template changes, and each pod keeps the present one until it is deleted",
        };
    }
    line += match report.preview {
        Preview::Create | Preview::ClientSideApply => "",
        Preview::ServerSideApply => " (kubectl apply --server-side)",
        Preview::Replace => " (kubectl replace)",
    };
    page.paragraph(&line, style::answer);
    write_warnings(&report.warnings, &[], page);
    writeln!(page)
}

fn all_groups(report: &WhatIfReport, page: &mut Page<'_>) {
    // What is lost comes first: nothing else hurts as much.
    groups("LOSES", &report.loses, page);
    row("GAINS", &report.gains, style::well, page);
    row("KEEPS", &report.keeps, style::context, page);
    if !report.missing.is_empty() {
        row("MISSING NOW", &report.missing, style::trouble, page);
    }
    if !report.does_not_start.is_empty() {
        groups("DOES NOT START", &report.does_not_start, page);
    }
    if !report.fits_by_preemption.is_empty() {
        groups("PREEMPTS", &report.fits_by_preemption, page);
    }
    let is_unknown = |node: &&NodeChange| {
        node.fits.is_none() && matches!(node.change, PodChange::Gains | PodChange::Keeps | PodChange::Missing)
    };
    let unknown: Vec<String> = report.nodes.iter().filter(is_unknown).map(|node| node.name.clone()).collect();
    if unknown.is_empty() || !report.does_not_fit.is_empty() {
        groups("DOES NOT FIT", &report.does_not_fit, page);
    }
    if !unknown.is_empty() {
        row("FIT UNKNOWN", &unknown, style::moving, page);
    }
    if !report.not_eligible.is_empty() && report.loses.is_empty() {
        match report.eligible_then {
            0 => groups("NOT ELIGIBLE", &report.not_eligible, page),
            _ => {
                let nodes: Vec<String> = report.not_eligible.iter().flat_map(|group| group.nodes.clone()).collect();
                row("NOT ELIGIBLE", &nodes, style::context, page);
            }
        }
    }
}

fn one_node(report: &WhatIfReport, node: &NodeChange, page: &mut Page<'_>) {
    let verb = match node.change {
        PodChange::Loses => "would lose its pod of",
        PodChange::Gains => "would gain a pod of",
        PodChange::Keeps => "would keep its pod of",
        PodChange::Missing => "has no pod now, and would get one of",
        PodChange::None => "would still run no pod of",
    };
    let but = match (node.fits, report.does_not_start.is_empty(), node.change) {
        (Some(false), _, PodChange::None) => "",
        (Some(false), true, _) => ", but it would not fit",
        (Some(false), false, _) => ", but it would not start",
        (Some(true), ..) if node.preemption.is_some() => ", which",
        _ => "",
    };
    let separator = if node.preemption.is_some() { " " } else { ": " };
    let why = node.reason.as_ref().map(|reason| format!("{separator}{}", reason.message)).unwrap_or_default();
    page.paragraph(&format!("{} {verb} {}{but}{why}", node.name, name(report)), style::answer);
    node.reason.iter().for_each(|reason| page.what_to_do(&reason.fix, ""));
}

/// Writes a row per node, those on which a pod would not fit first.
fn rows(nodes: &[NodeChange], page: &mut Page<'_>) {
    let view = page.view;
    let columns = [
        Column::text("NODE", |node: &&NodeChange| view.show(&node.name)),
        Column::text("POD", |node: &&NodeChange| change(node.change)),
        Column::text("FITS", |node: &&NodeChange| fits(node)),
        Column::text("REASON", |node: &&NodeChange| {
            node.reason.as_ref().map_or("-".to_owned(), |reason| reason.code.name().to_owned())
        }),
        Column::sentence("WHAT", |node: &&NodeChange| {
            node.reason.as_ref().map(|reason| view.show(&reason.message)).unwrap_or_default()
        })
        .droppable(1),
    ];
    let mut rows: Vec<&NodeChange> = nodes.iter().collect();
    rows.sort_by_key(|node| (node.fits != Some(false), node.preemption.is_none(), node.change));
    table::write(&columns, &rows, page)
}

fn change(change: PodChange) -> String {
    match change {
        PodChange::Loses => style::trouble("loses".to_owned()),
        PodChange::Gains => style::well("gains".to_owned()),
        PodChange::Keeps => "keeps".to_owned(),
        PodChange::Missing => style::trouble("missing now".to_owned()),
        PodChange::None => style::context("none".to_owned()),
    }
}

fn fits(node: &NodeChange) -> String {
    match (node.fits, node.change) {
        (Some(true), _) if node.preemption.is_some() => style::moving("preempts".to_owned()),
        (Some(true), _) => "yes".to_owned(),
        (Some(false), _) => style::trouble("no".to_owned()),
        (None, PodChange::Gains | PodChange::Keeps | PodChange::Missing) => "?".to_owned(),
        (None, _) => "-".to_owned(),
    }
}

fn changes_by(by: &ChangesBy, page: &mut Page<'_>) {
    let view = page.view;
    let value = |row: &ChangesByRow| row.value.as_ref().map_or("(no such label)".to_owned(), |value| view.show(value));
    writeln!(page, "by {}:", view.show(&by.label));
    let columns = [
        Column::text("VALUE", value),
        Column::number("NOW", |row: &ChangesByRow| Some(row.eligible_now)),
        Column::number("THEN", |row: &ChangesByRow| Some(row.eligible_then)),
        Column::number("DOES-NOT-START", |row: &ChangesByRow| Some(row.does_not_start)),
        Column::number("DOES-NOT-FIT", |row: &ChangesByRow| Some(row.does_not_fit)),
    ];
    table::write(&columns, &by.rows, page)
}

fn row(heading: &str, nodes: &[String], styled: fn(String) -> String, page: &mut Page<'_>) {
    let view = page.view;
    let which = view.show(&view.names(nodes, 22));
    let line = format!("{heading:<14}{:>5}   {which}", nodes.len());
    writeln!(page, "{}", styled(line.trim_end().to_owned()))
}

fn groups(heading: &str, groups: &[ReasonGroup], page: &mut Page<'_>) {
    writeln!(page, "{heading:<14}{:>5}", sum(groups));
    rows_of(groups, true, style::trouble, page)
}
