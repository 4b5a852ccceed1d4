//! What would change if a manifest were applied, a DaemonSet edited, or nodes labeled and tainted.

use std::collections::{BTreeMap, BTreeSet};

use super::change::warnings;
use super::coverage::{incomplete, rows_of};
use super::page::Page;
use super::table::{self, Column};
use super::text::count;
use super::{changes, overhead, style};
use crate::report::count_and;
use crate::report::coverage::ReasonGroup;
use crate::report::plan::WarningCode;
use crate::report::preview::{
    ChangesBy, ChangesByRow, DaemonSetPreview, EvictedPods, NodeChange, PodChange, Preview, PreviewReport, nodes_of,
};

/// The details below the headline of a DaemonSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreviewDetail {
    /// The nodes in groups by what would change; or by the value of a label if the report has one.
    Groups,
    /// A row per node.
    Nodes,
    /// The only node of the report, in a sentence.
    Node,
}

/// Writes which nodes would gain, lose or keep a pod, and on which it would not fit.
pub fn preview(report: &PreviewReport, shown: PreviewDetail, page: &mut Page<'_>) {
    let has_by = report.daemon_sets.iter().any(|one| one.by.is_some());
    match report.daemon_sets.as_slice() {
        // A row each.
        several if report.changes_nodes && several.len() != 1 && shown != PreviewDetail::Nodes && !has_by => {
            of_nodes(report, page);
        }
        all => all.iter().enumerate().for_each(|(index, one)| {
            if index > 0 {
                writeln!(page);
            }
            of_daemon_set(one, report, shown, page);
        }),
    }
    report.startup_taints.iter().for_each(|taint| overhead::startup_taint(taint, "", page));
    if report.daemon_sets.len() > 1 && !report.changes_nodes {
        writeln!(page);
        page.paragraph("Each DaemonSet is previewed by itself: the pods of the others are not counted.", style::plain);
    }
    if report.daemon_sets.iter().any(|one| !one.admission_checked && one.preview != Preview::Unchanged) {
        writeln!(page);
        page.paragraph("not checked in a dump: admission", style::context);
    }
    incomplete(&report.incomplete, page)
}

fn of_daemon_set(one: &DaemonSetPreview, report: &PreviewReport, shown: PreviewDetail, page: &mut Page<'_>) {
    match (shown, one.nodes.as_slice()) {
        (PreviewDetail::Node, [node]) => one_node(one, node, page),
        (PreviewDetail::Nodes, nodes) => {
            headline(one, report, page);
            rows(nodes, page);
        }
        _ => {
            headline(one, report, page);
            if let Some(by) = &one.by { changes_by(by, page) } else { all_groups(one, report.changes_nodes, page) }
        }
    }
}

/// Writes a row for each DaemonSet that a change to nodes affects, and names the others.
fn of_nodes(report: &PreviewReport, page: &mut Page<'_>) {
    let view = page.view;
    let changes = report.changes.join(", ");
    let (changed, same): (Vec<&DaemonSetPreview>, Vec<&DaemonSetPreview>) =
        report.daemon_sets.iter().partition(|one| is_changed(one));
    let nodes = match report.nodes.as_slice() {
        [node] => node.clone(),
        nodes => count(nodes.len(), "node"),
    };
    let line = match changed.len() {
        0 => format!("{changes}: nothing would change for the DaemonSets on {nodes}"),
        some => format!("{changes}: on {nodes}, something would change for {}", count(some, "DaemonSet")),
    };
    page.paragraph(&line, style::summary);
    if !changed.is_empty() {
        writeln!(page);
        let columns = [
            Column::text("DAEMONSET", |one: &&DaemonSetPreview| view.show(&name(one))).shrinkable(),
            Column::number("KEEPS", |one: &&DaemonSetPreview| Some(one.keeps.len() + one.missing.len())),
            Column::number("GAINS", |one: &&DaemonSetPreview| Some(one.gains.len())),
            Column::number("LOSES", |one: &&DaemonSetPreview| Some(nodes_of(&one.loses) - one.stays.len())),
            Column::number("STAYS", |one: &&DaemonSetPreview| Some(one.stays.len())),
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
    if changed.iter().any(|one| nodes_of(&one.loses) > one.stays.len()) {
        page.paragraph("LOSES: the pod is deleted, or is not created any more", style::context);
    }
    if changed.iter().any(|one| !one.stays.is_empty()) {
        page.paragraph("STAYS: the pod runs on, but is not created again once it is gone", style::context);
    }
    let is_there = |one: &&DaemonSetPreview| !(one.keeps.is_empty() && one.missing.is_empty());
    let same: Vec<String> = same.into_iter().filter(is_there).map(name).collect();
    if !same.is_empty() && !changed.is_empty() {
        let names = view.names(&same, 40);
        page.paragraph(&format!("nothing changes for {}: {names}", same.len()), style::context);
    }
}

fn is_changed(one: &DaemonSetPreview) -> bool {
    let DaemonSetPreview { gains, loses, does_not_fit, does_not_start, evicted, .. } = one;
    !(gains.is_empty()
        && loses.is_empty()
        && does_not_fit.is_empty()
        && does_not_start.is_empty()
        && evicted.is_empty())
}

fn why(one: &DaemonSetPreview) -> String {
    // A group has only nodes whose pod stays, or only others: the messages differ.
    let is_gone = |group: &&ReasonGroup| group.nodes.first().is_none_or(|node| !one.stays.contains(node));
    let lost = one.loses.iter().filter(is_gone).map(|group| group.message.clone());
    let unfit = one.does_not_fit.iter().map(|group| format!("{} without room: {}", group.count, group.message));
    let refused = one.does_not_start.iter().map(|group| format!("{} would not start: {}", group.count, group.message));
    one.evicted.iter().map(eviction).chain(lost).chain(unfit).chain(refused).collect::<Vec<_>>().join("; ")
}

fn eviction(evicted: &EvictedPods) -> String {
    let (nodes, seconds) = (count(evicted.nodes.len(), "node"), evicted.after_seconds);
    format!("evicted from {nodes} every {seconds}s and created again: tolerated for that long only")
}

/// Returns whether the rollout would come to a standstill.
fn blocks(one: &DaemonSetPreview) -> bool {
    one.warnings.iter().any(|warning| warning.code == WarningCode::Blocks)
}

fn name(one: &DaemonSetPreview) -> String {
    format!("{}/{}", one.namespace, one.name)
}

fn headline(one: &DaemonSetPreview, report: &PreviewReport, page: &mut Page<'_>) {
    let (name, then, now) = (name(one), one.eligible_then, one.eligible_now);
    let nodes = count(report.nodes.len(), "node");
    let lost = nodes_of(&one.loses);
    let mut line = match one.preview != Preview::Create {
        true if lost > 0 => {
            let gained = match one.gains.len() {
                0 => String::new(),
                nodes => format!(" and gain {nodes}"),
            };
            let lost = count(lost, "node");
            format!("{name} would lose {lost}{gained}; {then} of {nodes} would be eligible instead of {now}")
        }
        false => {
            let adopts = match one.keeps.len() + lost {
                0 => String::new(),
                pods => format!(", and would adopt the pods of {}", count(pods, "node")),
            };
            format!("{name} does not exist yet{adopts}; {then} of {nodes} would be eligible")
        }
        true if then == now => format!("{name}: {then} of {nodes} would be eligible, as many as now"),
        true => format!("{name}: {then} of {nodes} would be eligible instead of {now}"),
    };
    let (refused, unfit) = (nodes_of(&one.does_not_start), nodes_of(&one.does_not_fit));
    let preempting = nodes_of(&one.fits_by_preemption);
    if refused > 0 {
        line += "; no pod would start";
    }
    if unfit > 0 {
        let already = match one.does_not_fit_now {
            0 => String::new(),
            all if all == unfit => ", as now".to_owned(),
            some => format!(", as on {some} of these now"),
        };
        line += &format!("; on {unfit} of them a pod would not fit{already}");
    }
    if preempting > 0 {
        line += &format!("; on {preempting} of them it would preempt other pods");
    }
    let already = count_and(one.updated_already, "pod", ["has", "have"]);
    let already = format!("; the template becomes that of an older revision, which {already} already");
    if let Some(changes) = one.template_changes.filter(|_| one.preview != Preview::Unchanged) {
        line += match (changes, one.on_delete) {
            (false, _) if one.nothing_changes => "; nothing changes in the DaemonSet",
            (false, _) => "; the template stays the same",
            (true, _) if one.updated_already > 0 => &already,
            // If they do not start, the rollout does not get that far.
            (true, false) if refused > 0 || unfit > 0 || blocks(one) => {
                "; the template changes, so a rollout would begin"
            }
            (true, false) => "; the template changes, so all pods would be replaced",
            (true, true) if one.held => {
                "; the template changes, but the rollout is paused: each pod keeps the present one until it is resumed"
            }
            (true, true) => "; the template changes, and each pod keeps the present one until it is deleted",
        };
    }
    if let (Some(now), Some(then)) = (one.may_be_unavailable_now, one.may_be_unavailable_then)
        && one.eligible_then == one.eligible_now
        && now != then
    {
        line += &format!("; up to {then} instead of {now} nodes may be without an available pod during a rollout");
    }
    line += match one.preview {
        Preview::Unchanged | Preview::Edit | Preview::Create | Preview::ClientSideApply => "",
        Preview::ServerSideApply => " (kubectl apply --server-side)",
        Preview::Replace => " (kubectl replace)",
    };
    page.paragraph(&line, style::summary);
    warnings(&one.warnings, &[], page);
    writeln!(page);
    // A user who has given them with --if knows them.
    if one.preview != Preview::Edit && !one.differences.is_empty() {
        changes::write(&one.differences, page);
        writeln!(page)
    }
}

fn all_groups(one: &DaemonSetPreview, changes_nodes: bool, page: &mut Page<'_>) {
    // Losses come first: nothing else does as much harm.
    groups("LOSES", &one.loses, page);
    for evicted in &one.evicted {
        row("EVICTED", &evicted.nodes, style::problem, page);
        page.hanging(["    "; 2], &eviction(evicted), style::plain);
    }
    row("GAINS", &one.gains, style::healthy, page);
    // Each node is in one row.
    let failing: BTreeSet<&String> =
        one.does_not_start.iter().chain(&one.does_not_fit).flat_map(|group| &group.nodes).collect();
    let keeps: Vec<String> = one.keeps.iter().filter(|node| !failing.contains(node)).cloned().collect();
    row("KEEPS", &keeps, style::context, page);
    if !one.missing.is_empty() {
        row("MISSING NOW", &one.missing, style::problem, page);
    }
    if !one.does_not_start.is_empty() {
        groups("DOES NOT START", &one.does_not_start, page);
    }
    if !one.fits_by_preemption.is_empty() {
        groups("PREEMPTS", &one.fits_by_preemption, page);
    }
    let is_unknown = |node: &&NodeChange| match node.change {
        PodChange::Gains | PodChange::Keeps => node.fits.is_none(),
        // If the nodes change, it was not checked whether it fits.
        PodChange::Missing => node.fits.is_none() && !changes_nodes,
        PodChange::Evicted | PodChange::Loses | PodChange::Excluded | PodChange::Stays | PodChange::None => false,
    };
    let unknown: Vec<String> = one.nodes.iter().filter(is_unknown).map(|node| node.name.clone()).collect();
    if unknown.is_empty() || !one.does_not_fit.is_empty() {
        groups("DOES NOT FIT", &one.does_not_fit, page);
    }
    if !unknown.is_empty() {
        row("FIT UNKNOWN", &unknown, style::in_progress, page);
    }
    if !one.not_eligible.is_empty() && one.loses.is_empty() {
        match one.eligible_then {
            0 => groups("NOT ELIGIBLE", &one.not_eligible, page),
            _ => {
                let nodes: Vec<String> = one.not_eligible.iter().flat_map(|group| group.nodes.clone()).collect();
                row("NOT ELIGIBLE", &nodes, style::context, page);
            }
        }
    }
    if !keeps.is_empty() && one.template_changes == Some(true) && one.updated_already == 0 && !one.on_delete {
        page.paragraph("KEEPS: the node has a pod before and after; the rollout replaces it", style::context);
    }
}

fn one_node(one: &DaemonSetPreview, node: &NodeChange, page: &mut Page<'_>) {
    let verb = match node.change {
        PodChange::Loses => "would lose its pod of",
        PodChange::Excluded => "would no longer get a pod of",
        PodChange::Stays => "would keep its pod until it is gone, and get no other one of",
        PodChange::Evicted => "would evict again and again its pod of",
        PodChange::Gains => "would gain a pod of",
        PodChange::Keeps => "would keep its pod of",
        PodChange::Missing => "has no pod now, and should run one before and after the change, of",
        PodChange::None => "would still run no pod of",
    };
    let but = match (node.fits, one.does_not_start.is_empty(), node.change) {
        (Some(false), _, PodChange::None) => "",
        (Some(false), true, _) => ", but it would not fit",
        (Some(false), false, _) => ", but it would not start",
        (Some(true), ..) if node.preemption.is_some() => ", which",
        _ => "",
    };
    let separator = if node.preemption.is_some() { " " } else { ": " };
    let why = node.reason.as_ref().map(|reason| format!("{separator}{}", reason.message)).unwrap_or_default();
    page.paragraph(&format!("{} {verb} {}{but}{why}", node.name, name(one)), style::summary);
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
        PodChange::Loses => style::problem("loses".to_owned()),
        PodChange::Excluded => style::problem("excluded".to_owned()),
        PodChange::Stays => style::problem("stays".to_owned()),
        PodChange::Evicted => style::problem("evicted".to_owned()),
        PodChange::Gains => style::healthy("gains".to_owned()),
        PodChange::Keeps => "keeps".to_owned(),
        PodChange::Missing => style::problem("missing now".to_owned()),
        PodChange::None => style::context("none".to_owned()),
    }
}

fn fits(node: &NodeChange) -> String {
    match (node.fits, node.change) {
        (Some(true), _) if node.preemption.is_some() => style::in_progress("preempts".to_owned()),
        (Some(true), _) => "yes".to_owned(),
        (Some(false), _) => style::problem("no".to_owned()),
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
    writeln!(page, "{heading:<14}{:>5}", nodes_of(groups));
    rows_of(groups, true, style::problem, page)
}
