//! Coverage by groups of nodes: a summary, then a group for each cause.

use jiff::Timestamp;

use super::common_cause;
use super::overview;
use super::page::Page;
use super::removed_nodes;
use super::style;
use super::table::{self, Column};
use super::text::{columns, count, some_of, wrap};
use crate::report::coverage::{
    Affected, CountsBy, CountsByRow, CoverageReport, DaemonSetCoverage, Incomplete, ReasonGroup, StatusDifference,
};

/// The columns that a group's reason code and number of nodes take up, with the space after them.
const CODE_WIDTH: usize = 28;
const COUNT_WIDTH: usize = 9;

/// Writes the coverage of each DaemonSet; a healthy one takes one line. Unless it is `wide`, nodes that are not
/// eligible are only counted while others are.
pub fn groups(report: &CoverageReport, wide: bool, page: &mut Page<'_>) {
    let is_alone = report.daemon_sets.len() == 1;
    let (fine, troubled): (Vec<_>, Vec<_>) =
        report.daemon_sets.iter().partition(|daemon_set| is_one_line(daemon_set, is_alone));
    if report.daemon_sets.len() > 1 && report.daemon_sets.iter().any(DaemonSetCoverage::needs_attention) {
        overview::head(&report.into(), page);
        writeln!(page);
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
        sentence(daemon_set, if is_fine { style::well } else { style::moving }, page);
    }
    incomplete(&report.incomplete, page)
}

/// Writes the names of the DaemonSets, as `-o name` does; with one node, of those that have to do with it.
pub fn names(report: &CoverageReport, node: Option<&str>, page: &mut Page<'_>) {
    let concerns = |daemon_set: &&DaemonSetCoverage| {
        node.is_none_or(|node| {
            daemon_set.nodes.iter().any(|row| row.name == node && (row.should_run || !row.pods.is_empty()))
        })
    };
    report
        .daemon_sets
        .iter()
        .filter(concerns)
        .for_each(|daemon_set| writeln!(page, "daemonset.apps/{}", crate::encode::sanitize::sanitize(&daemon_set.name)))
}

/// Writes what could not be read, and what is therefore unknown.
pub fn incomplete(incomplete: &[Incomplete], page: &mut Page<'_>) {
    if incomplete.is_empty() {
        return;
    }
    writeln!(page);
    for gap in incomplete {
        page.paragraph(&format!("partial answer: {}", gap.message), style::moving);
    }
}

/// Returns whether one line is enough.
fn is_one_line(daemon_set: &DaemonSetCoverage, is_alone: bool) -> bool {
    let is_question = is_alone && daemon_set.counts.eligible == Some(0) && !daemon_set.not_eligible_groups.is_empty();
    !is_question
        && daemon_set.groups.is_empty()
        && daemon_set.concerns.is_empty()
        && daemon_set.removed_nodes.is_none()
        && daemon_set.lost_pods.is_none()
        && daemon_set.by.is_none()
        && daemon_set.status.agrees != Some(false)
}

/// Writes the summary, wrapped at the terminal width.
pub fn sentence(daemon_set: &DaemonSetCoverage, styled: fn(String) -> String, page: &mut Page<'_>) {
    let mut indent = "";
    for line in wrap(&page.view.show(&headline(daemon_set)), page.view.wrap_width()) {
        writeln!(page, "{indent}{}", styled(line));
        indent = "  ";
    }
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
        let desired = daemon_set.status.desired;
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
        (daemon_set.groups.is_empty(), counts.not_eligible, counts.eligible)
    {
        let why = why_none(daemon_set).replacen('(', ": ", 1).replace([')'], "");
        line.push_str(&format!(" ({not_eligible} not eligible{})", why.trim_end()));
    }
    line
}

/// Returns in parentheses the codes of why no node is eligible.
fn why_none(daemon_set: &DaemonSetCoverage) -> String {
    let codes = codes(&daemon_set.not_eligible_groups);
    if codes.is_empty() { String::new() } else { format!(" ({})", troubles(&codes, usize::MAX)) }
}

/// Counts the nodes of each code.
fn codes(groups: &[ReasonGroup]) -> Vec<Affected> {
    Affected::count(groups.iter().map(|group| (group.code, group.count)))
}

fn count_with_pods(nodes: usize) -> String {
    if nodes == 1 { "1 node has a pod".to_owned() } else { format!("{nodes} nodes have pods") }
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
    sentence(daemon_set, style::answer, page);
    daemon_set.lost_pods.iter().for_each(|lost| removed_nodes::write_lost(lost, now, page));
    common_cause::causes(daemon_set, page);
    for concern in &daemon_set.concerns {
        page.advice(&format!("{}: {}", concern.code, concern.message), Some(&concern.fix), "");
    }
    if !daemon_set.groups.is_empty() {
        writeln!(page);
        writeln!(page, "{:<CODE_WIDTH$}{:>5}    WHICH", "REASON", "NODES");
        for group in &daemon_set.groups {
            // What is wrong with the whole DaemonSet was explained above.
            let is_explained =
                daemon_set.concerns.iter().any(|known| known.code == group.code && known.message == group.message);
            head(group, style::trouble, page);
            if !is_explained {
                let said = daemon_set.common_causes.iter().flat_map(|cause| &cause.fixes).chain(&daemon_set.rollback);
                page.advice(&group.message, Some(&group.fix.unless_in(said)), "    ");
            }
        }
    }
    if let Some(by) = &daemon_set.by {
        writeln!(page);
        counts_by(by, page);
    }
    if wide || daemon_set.counts.eligible == Some(0) {
        not_eligible(daemon_set, is_alone, page);
    } else {
        not_eligible_summary(daemon_set, page);
    }
    status(daemon_set, page)
}

/// Writes groups of nodes, each with its message and optionally its fix.
pub fn rows_of(groups: &[ReasonGroup], says_what_to_do: bool, code_style: fn(String) -> String, page: &mut Page<'_>) {
    groups.iter().for_each(|group| {
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

/// Writes how many other nodes are not eligible, and the codes.
fn not_eligible_summary(daemon_set: &DaemonSetCoverage, page: &mut Page<'_>) {
    let number = daemon_set.counts.not_eligible.unwrap_or_default();
    if number == 0 || daemon_set.not_eligible_groups.is_empty() {
        return;
    }
    let without_pod: usize = daemon_set.not_eligible_groups.iter().map(|group| group.count).sum();
    let with_pod = match number.saturating_sub(without_pod) {
        0 => String::new(),
        others => format!(", {others} with a pod, see above"),
    };
    let codes = troubles(&codes(&daemon_set.not_eligible_groups), usize::MAX);
    let verb = if number == 1 { "is" } else { "are" };
    let text = format!("{} {verb} not eligible: {codes}{with_pod} (-o wide shows why)", count(number, "node"));
    writeln!(page);
    page.paragraph(&text, style::context)
}

/// Writes why the other nodes are not eligible, with fixes only for a DaemonSet that is alone.
fn not_eligible(daemon_set: &DaemonSetCoverage, is_alone: bool, page: &mut Page<'_>) {
    let groups = &daemon_set.not_eligible_groups;
    if groups.is_empty() {
        return;
    }
    let without_pod: usize = groups.iter().map(|group| group.count).sum();
    let number = daemon_set.counts.not_eligible.unwrap_or(without_pod);
    let verb = if number == 1 { "is" } else { "are" };
    let with_pod = match number.saturating_sub(without_pod) {
        0 => String::new(),
        others => format!("; {without_pod} without a pod and {others} with one, see above"),
    };
    writeln!(page, "\n{} {verb} not eligible{with_pod}:", count(number, "node"));
    // To change the nodes is no advice if the template has excluded them.
    rows_of(groups, is_alone && daemon_set.removed_nodes.is_none(), style::context, page)
}

fn status(daemon_set: &DaemonSetCoverage, page: &mut Page<'_>) {
    if daemon_set.status.agrees != Some(false) {
        return;
    }
    writeln!(page);
    page.paragraph(&stale_status(&daemon_set.status.differences), style::moving)
}

/// Lists the counters of a status that differ from what was counted.
pub fn stale_status(differences: &[StatusDifference]) -> String {
    let differences: Vec<String> = differences
        .iter()
        .map(|difference| format!("{} {}, actually {}", difference.field, difference.status, difference.recomputed))
        .collect();
    format!("outdated numbers in kubectl: {}", differences.join("; "))
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
        Column::fitted("PROBLEM", |row: &CountsByRow, width| troubles(&row.troubles, width)),
    ];
    table::write(&columns, &by.rows, page)
}

/// Writes as many reason codes as fit into `width` columns, at least one, each with its number of nodes.
pub fn troubles(troubles: &[Affected], width: usize) -> String {
    let words: Vec<String> = troubles
        .iter()
        .map(|trouble| match trouble.count {
            0 => trouble.code.name().to_owned(),
            number => format!("{number} {}", trouble.code),
        })
        .collect();
    some_of(&words, width)
}
