//! Coverage by groups of nodes: a summary, then one group per cause.

use jiff::Timestamp;

use super::clusters::Reports;
use super::page::Page;
use super::table::{self, Column};
use super::text::{columns, count, some_of};
use super::{common_cause, overview, removed_nodes, style};
use crate::report::count_and;
use crate::report::coverage::{
    Affected, Counters, CountsBy, CountsByRow, CoverageReport, DaemonSetCoverage, Incomplete, ReasonGroup,
};
use crate::report::fix::{Command, Fix};
use crate::report::reason::ReasonCode;

/// The columns of a group's reason code and number of nodes, with the space after them.
const CODE_WIDTH: usize = 28;
const COUNT_WIDTH: usize = 9;

/// Writes the coverage of each DaemonSet; a healthy one takes one line. Unless `wide` is set, ineligible nodes are only
/// counted while others are eligible, except those that taints exclude from the only DaemonSet.
pub fn groups(report: &CoverageReport, wide: bool, page: &mut Page<'_>) {
    let is_alone = report.daemon_sets.len() == 1;
    let (fine, troubled): (Vec<_>, Vec<_>) =
        report.daemon_sets.iter().partition(|daemon_set| is_one_line(daemon_set, (is_alone, wide)));
    if report.daemon_sets.len() > 1 && report.daemon_sets.iter().any(DaemonSetCoverage::needs_attention) {
        overview::head(&report.into(), page);
        writeln!(page);
    } else {
        incidents(report, page);
    }
    for (index, daemon_set) in troubled.iter().enumerate() {
        if index > 0 {
            writeln!(page);
        }
        daemon_set_groups(daemon_set, (is_alone, wide), report.now, page);
    }
    if !troubled.is_empty() && !fine.is_empty() {
        writeln!(page);
    }
    for daemon_set in fine {
        let is_fine = daemon_set.counts.all_available() == Some(true) && daemon_set.counts.eligible != Some(0);
        sentence(daemon_set, if is_fine { style::healthy } else { style::in_progress }, page);
    }
    incomplete(&report.incomplete, page)
}

/// Writes what explains more than the nodes of one DaemonSet do.
pub(super) fn incidents(report: &CoverageReport, page: &mut Page<'_>) {
    Reports::from(report).incidents(|report| (&report.incidents, report.now), page);
}

/// Writes what could not be read, and what is therefore unknown.
pub fn incomplete(incomplete: &[Incomplete], page: &mut Page<'_>) {
    partial(&Incomplete::sentences(incomplete), page);
}

/// Writes why an answer is partial.
pub(super) fn partial(sentences: &[String], page: &mut Page<'_>) {
    if sentences.is_empty() {
        return;
    }
    writeln!(page);
    for sentence in sentences {
        page.paragraph(&format!("partial answer: {sentence}"), style::in_progress);
    }
}

/// Returns whether one line is enough.
fn is_one_line(daemon_set: &DaemonSetCoverage, (is_alone, wide): (bool, bool)) -> bool {
    let is_question = is_alone && daemon_set.counts.eligible == Some(0) && !daemon_set.not_eligible.is_empty();
    !is_question
        && (!is_alone || listed_not_eligible(daemon_set, (is_alone, wide)).next().is_none())
        && daemon_set.problems.is_empty()
        && daemon_set.concerns.is_empty()
        && daemon_set.removed_nodes.is_none()
        && daemon_set.lost_pods.is_none()
        && daemon_set.restarting.is_empty()
        && !(is_alone && has_old_pods(daemon_set))
        && daemon_set.by.is_none()
        && daemon_set.counters.agrees != Some(false)
}

/// Returns whether pods are of an older revision, which `status` explains, unless the revisions are told apart already.
fn has_old_pods(daemon_set: &DaemonSetCoverage) -> bool {
    let is_told = daemon_set.suspect.is_some() || daemon_set.rollback.is_some();
    daemon_set.every_node && !is_told && daemon_set.counts.outdated.is_some_and(|nodes| nodes > 0)
}

/// Writes the summary, wrapped at the terminal width.
pub fn sentence(daemon_set: &DaemonSetCoverage, styled: fn(String) -> String, page: &mut Page<'_>) {
    page.hanging(["", "  "], &headline(daemon_set), styled);
}

/// Returns the summary.
fn headline(daemon_set: &DaemonSetCoverage) -> String {
    let counts = &daemon_set.counts;
    let name = format!("{}/{}", daemon_set.namespace, daemon_set.name);
    if counts.from_status {
        let numbers = [
            (counts.current, "current"),
            (counts.ready, "ready"),
            (counts.updated, "updated"),
            (counts.available, "available"),
        ];
        let numbers = numbers.map(|(number, word)| format!("{} {word}", number.unwrap_or_default()));
        let desired = daemon_set.counters.desired;
        return format!("{name}: status reports {desired} desired, {}", numbers.join(", "));
    }
    let mut line = match (counts.eligible, counts.available) {
        (None, _) => format!("{name}: eligible nodes unknown"),
        (Some(eligible @ 1..), None) => format!("{name}: {}, pods unknown", count(eligible, "eligible node")),
        (Some(0), _) if !daemon_set.every_node => {
            format!("{name}: none of the selected nodes is eligible{}", why_none(daemon_set))
        }
        (Some(0), _) => format!("{name}: no node is eligible{}", why_none(daemon_set)),
        (Some(1), Some(1)) => format!("{name}: the one eligible node has an available pod"),
        (Some(1), Some(0)) => format!("{name}: the one eligible node has no available pod"),
        (Some(2), Some(2)) => format!("{name}: both eligible nodes have an available pod"),
        (Some(eligible), Some(available)) if eligible == available => {
            format!("{name}: all {eligible} eligible nodes have an available pod")
        }
        (Some(eligible), Some(available)) => {
            format!("{name}: {available} of {eligible} eligible nodes have an available pod")
        }
    };
    if let Some(misscheduled @ 1..) = counts.misscheduled {
        line.push_str(&format!("; {} but should not", count_with_pods(misscheduled)));
    }
    if let (true, Some(not_eligible @ 1..), Some(1..)) =
        (daemon_set.problems.is_empty(), counts.not_eligible, counts.eligible)
    {
        let codes = codes_of_others(daemon_set);
        let why = if codes.is_empty() { codes } else { format!(": {codes}") };
        line.push_str(&format!(" ({not_eligible} not eligible{why})"));
    }
    line
}

/// Returns the reason codes in parentheses if no node is eligible.
fn why_none(daemon_set: &DaemonSetCoverage) -> String {
    let codes = codes_of_others(daemon_set);
    if codes.is_empty() { codes } else { format!(" ({codes})") }
}

/// Returns the codes of the ineligible nodes, with their numbers of nodes.
fn codes_of_others(daemon_set: &DaemonSetCoverage) -> String {
    some_codes(&Affected::of(&daemon_set.not_eligible), usize::MAX)
}

fn count_with_pods(nodes: usize) -> String {
    count_and(nodes, "node", ["has a pod", "have pods"])
}

fn daemon_set_groups(
    daemon_set: &DaemonSetCoverage,
    (is_alone, wide): (bool, bool),
    now: Timestamp,
    page: &mut Page<'_>,
) {
    if let Some(removed) = &daemon_set.removed_nodes {
        removed_nodes::write(removed, now, page);
    }
    sentence(daemon_set, style::summary, page);
    daemon_set.lost_pods.iter().for_each(|lost| removed_nodes::write_lost(lost, now, page));
    common_cause::causes(daemon_set, now, page);
    for concern in &daemon_set.concerns {
        page.advice(&format!("{}: {}", concern.code, concern.message), Some(&concern.fix), "");
    }
    if !daemon_set.problems.is_empty() {
        writeln!(page);
        writeln!(page, "{:<CODE_WIDTH$}{:>5}    WHERE", "REASON", "NODES");
        for group in &daemon_set.problems {
            head(group, style::problem, page);
            if !group.is_told_by(&daemon_set.concerns) {
                let said = daemon_set.common_causes.iter().flat_map(|cause| &cause.fixes).chain(&daemon_set.rollback);
                page.advice(&group.message, Some(&group.fix.unless_in(said)), "    ");
            }
        }
    }
    restarting(&daemon_set.restarting, page);
    if let Some(by) = &daemon_set.by {
        writeln!(page);
        counts_by(by, page);
    }
    not_eligible(daemon_set, (is_alone, wide || daemon_set.counts.eligible == Some(0)), page);
    if is_alone && has_old_pods(daemon_set) {
        let nodes = count_and(daemon_set.counts.outdated.unwrap_or(0), "node", ["has a pod", "have pods"]);
        let status = Command::kubectl(&["ds", "status"]).namespace(&daemon_set.namespace).name(&daemon_set.name);
        let advice = format!("{nodes} of an older revision; to see the rollout");
        page.remark(&Fix { advice, command: Some(status) }, style::in_progress);
    }
    stale_status(&daemon_set.counters, page)
}

/// Writes why containers of available pods keep failing.
pub fn restarting(groups: &[ReasonGroup], page: &mut Page<'_>) {
    let nodes: usize = groups.iter().map(|group| group.count).sum();
    if nodes > 0 {
        writeln!(page);
        page.paragraph(&format!("{}:", restarting_in_short(nodes)), style::in_progress);
        rows_of(groups, true, style::in_progress, page);
    }
}

/// Returns on how many nodes a container of an available pod keeps failing.
pub fn restarting_in_short(nodes: usize) -> String {
    format!("{} restarting", count_and(nodes, "available pod", ["keeps", "keep"]))
}

/// Writes groups of nodes, each with its message and optionally its fix.
pub fn rows_of<'g>(
    groups: impl IntoIterator<Item = &'g ReasonGroup>,
    says_what_to_do: bool,
    code_style: fn(String) -> String,
    page: &mut Page<'_>,
) {
    groups.into_iter().for_each(|group| {
        head(group, code_style, page);
        page.advice(&group.message, says_what_to_do.then_some(&group.fix), "    ")
    })
}

/// Writes a group's code, its number of nodes, and the first of them.
fn head(group: &ReasonGroup, code_style: fn(String) -> String, page: &mut Page<'_>) {
    let view = page.view;
    let code = code_style(format!("{:<CODE_WIDTH$}", group.code.name()));
    const BEFORE: usize = CODE_WIDTH + COUNT_WIDTH;
    let mut which = view.names(&group.nodes, BEFORE);
    if which.ends_with(" more") {
        let with_flag = format!("{} (--nodes)", view.names(&group.nodes, BEFORE + " (--nodes)".len()));
        which = if columns(&with_flag) <= view.names_room(BEFORE) { with_flag } else { which };
    }
    writeln!(page, "{code}{:>5}    {}", group.count, view.show(&which))
}

/// Returns the groups of ineligible nodes that are listed: those that taints exclude, or with `lists` all of them.
fn listed_not_eligible(
    daemon_set: &DaemonSetCoverage,
    (is_alone, lists): (bool, bool),
) -> impl Iterator<Item = &ReasonGroup> {
    let is_tainted = |group: &ReasonGroup| {
        matches!(group.code, ReasonCode::UntoleratedNoSchedule | ReasonCode::UntoleratedNoExecute)
    };
    let number = daemon_set.counts.not_eligible.unwrap_or(1);
    daemon_set.not_eligible.iter().filter(move |group| number > 0 && (lists || is_alone && is_tainted(group)))
}

/// Writes the number of other ineligible nodes and the codes, and the reasons of those that are listed, with fixes only for a single
/// DaemonSet with `lists`.
fn not_eligible(daemon_set: &DaemonSetCoverage, (is_alone, lists): (bool, bool), page: &mut Page<'_>) {
    let groups = &daemon_set.not_eligible;
    let without_pod: usize = groups.iter().map(|group| group.count).sum();
    let number = daemon_set.counts.not_eligible.unwrap_or(without_pod);
    if groups.is_empty() || number == 0 {
        return;
    }
    let others = number.saturating_sub(without_pod);
    let nodes = format!("{} not eligible", count_and(number, "node", ["is", "are"]));
    // The headline says that if nothing else is wrong.
    if lists || !daemon_set.problems.is_empty() || daemon_set.counts.from_status {
        writeln!(page);
        let with_pod = if others == 0 { String::new() } else { format!(", {others} with a pod, see above") };
        match others {
            _ if !lists => {
                let codes = some_codes(&Affected::of(groups), usize::MAX);
                let is_told = listed_not_eligible(daemon_set, (is_alone, lists)).count() == groups.len();
                let where_told = if is_told { "" } else { " (-o wide shows why)" };
                page.paragraph(&format!("{nodes}: {codes}{with_pod}{where_told}"), style::context)
            }
            0 => writeln!(page, "{nodes}:"),
            others => writeln!(page, "{nodes}; {without_pod} without a pod and {others} with one, see above:"),
        }
    }
    // Changing the nodes is not the advice if the template has excluded them.
    let says_what_to_do = lists && is_alone && daemon_set.removed_nodes.is_none();
    rows_of(listed_not_eligible(daemon_set, (is_alone, lists)), says_what_to_do, style::context, page)
}

/// Writes which counters of a status differ from the counted numbers, if any.
pub fn stale_status(counters: &Counters, page: &mut Page<'_>) {
    if counters.differences.is_empty() {
        return;
    }
    let differences = counters.differences.iter();
    let differences = differences.map(|it| format!("{} {}, actually {}", it.field, it.status, it.recomputed));
    let differences: Vec<String> = differences.collect();
    writeln!(page);
    page.paragraph(&format!("outdated numbers in kubectl: {}", differences.join("; ")), style::in_progress)
}

fn counts_by(by: &CountsBy, page: &mut Page<'_>) {
    let view = page.view;
    let value = |row: &CountsByRow| row.value.as_ref().map_or("(no such label)".to_owned(), |value| view.show(value));
    writeln!(page, "by {}:", view.show(&by.label));
    let columns = [
        Column::text("VALUE", value),
        Column::number("ELIGIBLE", |row: &CountsByRow| row.counts.eligible),
        Column::number("AVAILABLE", |row: &CountsByRow| row.counts.available),
        Column::number("NOT-ELIGIBLE", |row: &CountsByRow| row.counts.not_eligible),
        Column::codes("PROBLEM", |row: &CountsByRow, width| some_codes(&row.problems, width)),
    ];
    table::write(&columns, &by.rows, page)
}

/// Writes as many reason codes as fit into `width` columns, at least one, each with its number of nodes.
pub fn some_codes(problems: &[Affected], width: usize) -> String {
    let words = problems.iter().map(|problem| match problem.count {
        0 => problem.code.name().to_owned(),
        number => format!("{number} {}", problem.code),
    });
    let words: Vec<String> = words.collect();
    some_of(&words, width)
}
