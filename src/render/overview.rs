//! Coverage of several DaemonSets: what is wrong, by reason, on one screen.

use super::clusters::{InCluster, Reports, name_in};
use super::common_cause::sentence;
use super::page::Page;
use super::removed_nodes::sentence as sentence_of_removed;
use super::style;
use super::table::{Column, Heading};
use super::text::{columns, count, some_of};
use super::view::View;
use crate::report::count_and;
use crate::report::coverage::{Affected, CoverageReport, DaemonSetCoverage};
use crate::report::fix::{Command, Fix};

/// The most reasons that a terminal shows.
const MOST_REASONS: usize = 12;

/// The most likely causes that a terminal shows.
const MOST_CAUSES: usize = 2;

/// Writes how many pods are not available, and the causes that several DaemonSets share.
pub(super) fn head(reports: &Reports<'_, CoverageReport>, page: &mut Page<'_>) {
    let daemon_sets = reports.rows(|report| &report.daemon_sets);
    page.paragraph(&reports.headline(|place| summary(&daemon_sets, place)), style::summary);
    reports.incidents(|report| (&report.incidents, report.now), page);
}

/// Writes how many pods are not available, and a row per reason.
pub(crate) fn overview<'a>(reports: impl Into<Reports<'a, CoverageReport>>, page: &mut Page<'_>) {
    let (reports, view) = (&reports.into(), page.view);
    let daemon_sets = reports.rows(|report| &report.daemon_sets);
    head(reports, page);
    removed(reports, page);
    likely_causes(reports, page);
    let mut reasons = reports.rows(|report| &report.problems);
    reasons.sort_by_key(|(_, reason)| reason.rank());
    if reports.are_several() || !reasons.is_empty() {
        writeln!(page);
    }
    let found = reasons.len();
    reasons.truncate(if view.limit.is_some() { MOST_REASONS } else { usize::MAX });
    let hidden = found - reasons.len();
    reports.table(Heading::Shown, layout(view), reasons, |_, _| String::new(), page);
    page.more(hidden, "reason", "-o wide");
    named("no eligible node", &names(&daemon_sets, DaemonSetCoverage::has_no_eligible_node), page);
    let without_selected = names(&daemon_sets, DaemonSetCoverage::has_none_selected);
    named("no eligible node among the selected ones", &without_selected, page);
    let stale = names(&daemon_sets, |daemon_set| daemon_set.counters.agrees == Some(false));
    named("outdated numbers in kubectl", &stale, page);
    let in_trouble = daemon_sets.iter().filter(|(_, daemon_set)| daemon_set.needs_attention());
    if let Some((context, worst)) = in_trouble.min_by_key(|(_, one)| one.urgency(&one.problems_by_code())) {
        let coverage = Command::kubectl(&["ds", "coverage"]).namespace(&worst.namespace).name(&worst.name);
        let wide = if reports.are_several() { "" } else { " (-o wide shows all)" };
        let details = Fix::new(format!("For details, start with the worst{wide}"), coverage);
        page.remark(&reports.fix(context, details), style::context);
    }
    reports.incomplete(|report| &report.incomplete, page)
}

/// Writes which DaemonSets have lost nodes to a revision.
fn removed(reports: &Reports<'_, CoverageReport>, page: &mut Page<'_>) {
    for cluster in &reports.of {
        for daemon_set in &cluster.report.daemon_sets {
            let Some(removed) = &daemon_set.removed_nodes else { continue };
            let sentence = sentence_of_removed(removed, cluster.report.now);
            let text = format!("{}/{}: {sentence}", daemon_set.namespace, daemon_set.name);
            let styled = if removed.needs_attention() { style::problem } else { style::plain };
            page.paragraph(&cluster.sentence(&text), styled);
        }
    }
}

/// Writes for each DaemonSet what its failing nodes have in common.
fn likely_causes(reports: &Reports<'_, CoverageReport>, page: &mut Page<'_>) {
    let view = page.view;
    let mut causes: Vec<String> = Vec::new();
    for cluster in &reports.of {
        for daemon_set in &cluster.report.daemon_sets {
            let name = format!("{}/{}", daemon_set.namespace, daemon_set.name);
            let told = daemon_set.common_causes.iter().map(sentence);
            causes.extend(told.map(|cause| cluster.sentence(&format!("{name}: likely cause: {cause}"))));
        }
    }
    let most = if view.limit.is_some() { MOST_CAUSES } else { usize::MAX };
    for cause in causes.iter().take(most) {
        page.paragraph(cause, style::plain);
    }
    page.more(causes.len().saturating_sub(most), "likely cause", "-o wide");
}

fn summary(daemon_sets: &[InCluster<'_, &DaemonSetCoverage>], place: &str) -> String {
    let total = daemon_sets.len();
    let in_trouble = daemon_sets.iter().filter(|(_, daemon_set)| daemon_set.needs_attention()).count();
    let is_unseen =
        |one: &DaemonSetCoverage| !one.needs_attention() && one.counts.is_complete_by_status() == Some(true);
    let by_status = match daemon_sets.iter().filter(|(_, one)| is_unseen(one)).count() {
        0 => String::new(),
        some => format!(" ({} complete by the status alone)", count_and(some, "other", ["is", "are"])),
    };
    let counted = || daemon_sets.iter().map(|(_, daemon_set)| &daemon_set.counts);
    let desired: usize = counted().filter_map(|counts| counts.eligible).sum();
    // The surplus of one makes up for no other.
    let missing = counted().map(|counts| {
        counts.eligible.zip(counts.available).map_or(0, |(desired, available)| desired.saturating_sub(available))
    });
    let missing: usize = missing.sum();
    let are_known = counted().all(|counts| counts.eligible.is_some() && counts.available.is_some());
    let pods = match (missing, desired) {
        _ if !are_known => "how many pods are available is not known".to_owned(),
        (_, 0) => "no pods are desired".to_owned(),
        (0, 1) => "the desired pod is available".to_owned(),
        (0, _) => format!("all {desired} desired pods are available"),
        (1, _) => format!("1 of {} is not available", count(desired, "desired pod")),
        _ => format!("{missing} of {desired} desired pods are not available"),
    };
    match in_trouble {
        0 if total == 1 => format!("the only DaemonSet{place} needs no attention{by_status}; {pods}"),
        1 if total == 1 => format!("the only DaemonSet{place} needs attention; {pods}"),
        0 => format!("none of {total} DaemonSets{place} needs attention{by_status}; {pods}"),
        1 => format!("1 of {total} DaemonSets{place} needs attention{by_status}; {pods}"),
        _ => format!("{in_trouble} of {total} DaemonSets{place} need attention{by_status}; {pods}"),
    }
}

fn layout(view: &View) -> Vec<Column<'_, &Affected>> {
    vec![
        Column::text("REASON", |reason: &&Affected| style::problem(reason.code.name())),
        Column::number("DAEMONSETS", |reason: &&Affected| Some(reason.daemon_sets.len())).droppable(1),
        Column::number("NODES", |reason: &&Affected| Some(reason.count)),
        Column::fitted("WHERE", |reason: &&Affected, width| {
            let place = match reason.daemon_sets.as_slice() {
                [name] if !reason.nodes.is_empty() => {
                    let lead = format!("{name} on ");
                    let nodes = some_of(&reason.nodes, width.saturating_sub(columns(&lead)));
                    // The number of nodes already has a column.
                    if columns(&lead) + columns(&nodes) <= width { lead + &nodes } else { name.clone() }
                }
                names => some_of(names, width),
            };
            view.show(&place)
        }),
    ]
}

fn names(daemon_sets: &[InCluster<'_, &DaemonSetCoverage>], is: impl Fn(&DaemonSetCoverage) -> bool) -> Vec<String> {
    let found = daemon_sets.iter().filter(|(_, daemon_set)| is(daemon_set));
    found.map(|(context, one)| name_in(context, format!("{}/{}", one.namespace, one.name))).collect()
}

/// Writes on one line how many DaemonSets there are, and the names of as many as fit.
pub(super) fn named(what: &str, names: &[String], page: &mut Page<'_>) {
    let view = page.view;
    if names.is_empty() {
        return;
    }
    let lead = format!("{} {what}: ", count_and(names.len(), "DaemonSet", ["has", "have"]));
    page.paragraph(&format!("{lead}{}", view.names(names, lead.len())), style::plain)
}
