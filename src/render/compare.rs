//! Whether DaemonSets are worse off than before.

use std::collections::BTreeSet;

use jiff::Unit;

use super::coverage::incomplete;
use super::list::MOST_ROWS;
use super::page::Page;
use super::style;
use super::table::{self, Column, Heading};
use super::text::{count, or_unknown, some_of, time_since};
use crate::report::compare::{CompareReport, Comparison, DaemonSetComparison, Headroom, PoolComparison, Setback};
use crate::report::count_and;
use crate::report::coverage::Counts;
use crate::report::list::Status;

/// The most setbacks that a terminal shows.
const MOST_SETBACKS: usize = 6;

/// The most other lines of one kind that a terminal shows.
const MOST_LINES: usize = 4;

/// Writes whether it is worse, by what, and what else has changed. On a terminal, long lists are cut unless all is asked for.
pub fn compare(report: &CompareReport, all: bool, page: &mut Page<'_>) {
    let view = page.view;
    let all = all || view.limit.is_none();
    let styled = match report.verdict {
        Comparison::Worse => style::trouble,
        Comparison::Better => style::well,
        Comparison::Same | Comparison::Unknown => style::answer,
    };
    page.paragraph(&headline(report), styled);
    page.paragraph(&context(report), style::context);
    for warning in warnings(report) {
        page.paragraph(&format!("warning: {warning}"), style::moving);
    }
    let (pools, hidden) = cut(report.pools.iter().collect(), MOST_LINES, all);
    for pool in pools {
        page.paragraph(&of_pool(pool), if is_counted(pool) { style::trouble } else { style::plain });
    }
    page.more(hidden, "pool", "--all");
    rows(report, all, page);
    setbacks(report, all, page);
    let (headroom, hidden) = cut(report.headroom.iter().collect(), MOST_LINES, all);
    if !headroom.is_empty() {
        writeln!(page);
        headroom.into_iter().for_each(|one| page.paragraph(&left(one), style::plain));
        page.more(hidden, "resource", "--all");
    }
    for (side, resources) in [("BEFORE", &report.not_in_before), ("AFTER", &report.not_in_after)] {
        if !resources.is_empty() {
            let text =
                format!("not in {side}: {}; what follows from these alone is not compared", resources.join(", "));
            page.paragraph(&text, style::moving);
        }
    }
    incomplete(&report.incomplete, page);
}

/// Leaves out the last ones of a list that is too long, and returns how many.
fn cut<T>(mut list: Vec<T>, most: usize, all: bool) -> (Vec<T>, usize) {
    let hidden = if all { 0 } else { list.len().saturating_sub(most) };
    list.truncate(list.len() - hidden);
    (list, hidden)
}

/// Returns the verdict, and by what.
pub fn headline(report: &CompareReport) -> String {
    match report.verdict {
        Comparison::Worse => format!("Worse: {}", worse(report).join(", ")),
        Comparison::Better => format!("Better: {}", better(report).join(", ")),
        Comparison::Same => {
            let daemon_sets = count_and(report.daemon_sets.len(), "DaemonSet", ["is", "are"]);
            format!("Same: {daemon_sets} neither worse nor better off")
        }
        Comparison::Unknown => {
            let of = |one: &&DaemonSetComparison| one.verdict == Comparison::Unknown;
            let (open, unread): (Vec<_>, Vec<_>) = report.daemon_sets.iter().filter(of).partition(|one| is_open(one));
            let mut words = Vec::new();
            words.extend((!unread.is_empty()).then(|| {
                let daemon_sets = count(unread.len(), "DaemonSet");
                format!("the nodes or pods of {daemon_sets} were not read on one side")
            }));
            words.extend((!open.is_empty()).then(|| {
                let verbs = ["has problems that may not be new", "have problems that may not be new"];
                count_and(open.len(), "DaemonSet", verbs)
            }));
            if words.is_empty() {
                words.push("not all DaemonSets could be read".to_owned());
            }
            format!("Not known: {}", words.join(", "))
        }
    }
}

/// Returns whether a DaemonSet has problems that may not be new.
fn is_open(one: &DaemonSetComparison) -> bool {
    one.stopped.is_none()
        || !one.unconfirmed_concerns.is_empty()
        || one.setbacks.iter().any(|setback| setback.unconfirmed)
}

fn worse(report: &CompareReport) -> Vec<String> {
    let all = &report.daemon_sets;
    let pools = report.pools.iter().filter(|pool| is_counted(pool));
    let mut words: Vec<String> =
        pools.map(|pool| format!("pool {} is gone", pool.pool.as_deref().unwrap_or_default())).collect();
    let number = |is: fn(&DaemonSetComparison) -> bool| all.iter().filter(|one| is(one)).count();
    let mut say = |number: usize, thing: &str, verbs: [&str; 2]| {
        words.extend((number > 0).then(|| count_and(number, thing, verbs)));
    };
    say(number(|one| one.gone), "DaemonSet", ["is gone", "are gone"]);
    let nodes = |is: fn(&Setback) -> bool| {
        let setbacks = all.iter().flat_map(DaemonSetComparison::counted).filter(|setback| is(setback));
        setbacks.flat_map(|setback| &setback.nodes).collect::<BTreeSet<_>>()
    };
    let lost = nodes(|it| it.had_pod && !it.new_nodes);
    let pods = if all.len() == 1 { ["lost its pod", "lost their pods"] } else { ["lost a pod", "lost pods"] };
    say(lost.len(), "node", pods);
    let lacking = nodes(|it| it.new_nodes);
    say(lacking.len(), "new node", ["lacks a pod", "lack pods"]);
    let others = nodes(|it| !it.had_pod && !it.new_nodes);
    say(others.difference(&lost).count(), "node", ["has a new problem", "have new problems"]);
    say(
        number(|one| one.stopped == Some(true) && one.status == Some(Status::Blocked)),
        "rollout",
        ["is blocked", "are blocked"],
    );
    say(
        number(|one| one.stopped == Some(true) && one.status == Some(Status::NoNodes)),
        "DaemonSet",
        ["has no eligible node", "have no eligible node"],
    );
    let only_degraded = |one: &DaemonSetComparison| {
        one.stopped == Some(true) && one.status == Some(Status::Degraded) && one.counted().next().is_none()
    };
    say(number(only_degraded), "DaemonSet", ["is degraded", "are degraded"]);
    say(number(|one| !one.new_concerns.is_empty()), "DaemonSet", ["has a new problem", "have new problems"]);
    let restarting: BTreeSet<&String> = all.iter().flat_map(|one| &one.restarting).collect();
    say(restarting.len(), "node", ["has a pod that keeps restarting", "have pods that keep restarting"]);
    let mut counted = all.iter().flat_map(DaemonSetComparison::counted).peekable();
    if counted.peek().is_some() && counted.all(|setback| setback.passing) {
        words.push("all of these are still starting".to_owned());
    }
    words
}

fn better(report: &CompareReport) -> Vec<String> {
    let better: Vec<&DaemonSetComparison> =
        report.daemon_sets.iter().filter(|one| one.verdict == Comparison::Better).collect();
    let gained: BTreeSet<&String> = better.iter().flat_map(|one| &one.gained).collect();
    match gained.len() {
        0 => vec![count_and(better.len(), "DaemonSet", ["has fewer problems", "have fewer problems"])],
        nodes => vec![count_and(nodes, "node", ["gained a pod", "gained pods"])],
    }
}

/// Says what is compared with what.
fn context(report: &CompareReport) -> String {
    let nodes = match (report.nodes_before, report.nodes) {
        (Some(before), Some(now)) if before == now => format!("{}, as many as then", count(now, "node")),
        (before, now) => format!("{} nodes then, {} now", or_unknown(before), or_unknown(now)),
    };
    let before = report.before.round(Unit::Second).unwrap_or(report.before);
    let age = match report.before > report.now {
        true => format!("{} later", time_since(report.now, report.before)),
        false => format!("{} earlier", time_since(report.before, report.now)),
    };
    format!("compared with {before} ({age}): {nodes}")
}

fn warnings(report: &CompareReport) -> Vec<&'static str> {
    let later = "BEFORE is later than what it is compared with: what is gained was lost, and the other way around";
    let different = "these are most likely different clusters";
    let all = [(report.before > report.now, later), (report.different_clusters, different)];
    all.into_iter().filter(|(is, _)| *is).map(|(_, warning)| warning).collect()
}

fn is_counted(pool: &PoolComparison) -> bool {
    pool.gone && !pool.accepted
}

fn of_pool(pool: &PoolComparison) -> String {
    let name = pool.pool.as_ref().map_or_else(|| "nodes without a pool".to_owned(), |pool| format!("pool {pool}"));
    let accepted = if pool.accepted { "; accepted" } else { "" };
    match (pool.removed, pool.added) {
        _ if pool.gone && pool.replaced_by.is_empty() => {
            format!("{name} is gone: {}, not replaced{accepted}", count(pool.before, "node"))
        }
        _ if pool.gone => {
            let nodes = count(pool.before, "node");
            format!("{name} is gone: {nodes}, more than were added to {}{accepted}", pools(&pool.replaced_by))
        }
        (removed, 0) if pool.now == 0 && removed == pool.before => {
            let nodes = count(pool.before, "node");
            format!("{name} is gone: {nodes}, assumed to be replaced by {}", pools(&pool.replaced_by))
        }
        (removed, added) if removed == added => format!("{name}: {removed} of {} replaced", count(pool.now, "node")),
        (removed, added) => format!("{name}: {removed} removed, {added} added, {} now", pool.now),
    }
}

/// Names pools; none are nodes without one.
fn pools(names: &[String]) -> String {
    match names {
        [] => "nodes without a pool".to_owned(),
        [one] => format!("pool {one}"),
        several => format!("pools {}", several.join(", ")),
    }
}

/// Writes a row for each DaemonSet that differs, and below it what has changed.
fn rows(report: &CompareReport, all: bool, page: &mut Page<'_>) {
    let view = page.view;
    let differs = |one: &&DaemonSetComparison| one.verdict != Comparison::Same || !changed(one).is_empty();
    let (rows, hidden) = cut(report.daemon_sets.iter().filter(differs).collect(), MOST_ROWS / 2, all);
    if rows.is_empty() {
        return;
    }
    writeln!(page);
    let columns = [
        Column::text("DAEMONSET", |one: &&DaemonSetComparison| view.show(&name(one))).shrinkable(),
        Column::text("VERDICT", |one: &&DaemonSetComparison| verdict(one)),
        Column::text("STATUS", |one: &&DaemonSetComparison| view.show(&status(one))).droppable(1),
        Column::text("AVAILABLE", |one: &&DaemonSetComparison| view.show(&available(one))),
    ];
    let beneath = |one: &&DaemonSetComparison, width| view.show(&some_of(&changed(one), width));
    table::write_rows(Heading::Shown, &columns, &rows, beneath, page);
    page.more(hidden, "DaemonSet", "--all");
}

fn name(one: &DaemonSetComparison) -> String {
    format!("{}/{}", one.namespace, one.name)
}

fn verdict(one: &DaemonSetComparison) -> String {
    let styled = match one.verdict {
        Comparison::Worse => style::trouble,
        Comparison::Better => style::well,
        Comparison::Unknown | Comparison::Same => style::context,
    };
    styled(one.verdict.name().to_lowercase())
}

fn status(one: &DaemonSetComparison) -> String {
    let word = |status: Option<Status>| status.map_or("-", Status::name);
    from_to(word(one.status_before), word(one.status))
}

fn available(one: &DaemonSetComparison) -> String {
    let word = |counts: &Option<Counts>| {
        let of = |counts: &Counts| format!("{}/{}", or_unknown(counts.available), or_unknown(counts.eligible));
        counts.as_ref().map_or_else(|| "-".to_owned(), of)
    };
    from_to(&word(&one.counts_before), &word(&one.counts))
}

fn from_to(before: &str, now: &str) -> String {
    if before == now { now.to_owned() } else { format!("{before} → {now}") }
}

/// Returns what has changed, in short.
fn changed(one: &DaemonSetComparison) -> Vec<String> {
    let existence = match (one.status_before, one.status) {
        (None, _) => Some("new".to_owned()),
        (_, None) => Some("gone".to_owned()),
        _ => None,
    };
    let strategy = one.strategy_before.iter().zip(&one.strategy).map(|(was, is)| format!("{was} → {is}"));
    let reasons = one.reasons.iter().map(|change| format!("{} {} → {}", change.code, change.before, change.now));
    let restarts = (one.restarts > 0).then(|| count(usize::try_from(one.restarts).unwrap_or(usize::MAX), "restart"));
    let later = one.seconds_to_ready_before.zip(one.seconds_to_ready);
    let later = later.map(|(was, is)| format!("ready after {is}s instead of {was}s"));
    let gained = (!one.gained.is_empty()).then(|| format!("gained {}", one.gained.len()));
    let words = existence.into_iter().chain(gained).chain(reasons).chain(restarts).chain(later);
    words.chain(one.template_changes.iter().cloned()).chain(strategy).collect()
}

/// Writes what is worse, and why.
fn setbacks(report: &CompareReport, all: bool, page: &mut Page<'_>) {
    let view = page.view;
    let setbacks = report.daemon_sets.iter().flat_map(|one| one.setbacks.iter().map(move |setback| (one, setback)));
    let (shown, hidden) = cut(setbacks.collect(), MOST_SETBACKS, all);
    let shown_nodes = |lead: &str, nodes: &[String]| format!("{lead} {}", view.names(nodes, lead.len() + 1));
    if !shown.is_empty() {
        writeln!(page);
    }
    for (one, setback) in shown {
        let nodes = count(setback.nodes.len(), if setback.new_nodes { "new node" } else { "node" });
        let what = match (setback.had_pod, setback.new_nodes) {
            (true, false) => "lost:",
            (_, true) => "without a pod:",
            (false, false) => "with a new problem:",
        };
        let lead = format!("{}: {nodes} {what}", name(one));
        page.paragraph(&shown_nodes(&lead, &setback.nodes), style::plain);
        let code = setback.code.map_or("no reason was found", |code| code.name());
        let accepted = match (setback.accepted, setback.unconfirmed) {
            (true, _) => " (accepted)",
            (false, true) => " (may not be new)",
            (false, false) => "",
        };
        let message = if setback.message.is_empty() { String::new() } else { format!(": {}", setback.message) };
        page.hanging(["    "; 2], &format!("{code}{accepted}{message}"), style::plain);
    }
    page.more(hidden, "reason", "--all");
    for one in &report.daemon_sets {
        let unconfirmed = one.unconfirmed_concerns.iter().map(|concern| (concern, " (may not be new)"));
        for (concern, mark) in one.new_concerns.iter().map(|concern| (concern, "")).chain(unconfirmed) {
            let text = format!("{}: {}{mark}: {}", name(one), concern.code, concern.message);
            page.advice(&text, Some(&concern.fix), "");
        }
        if !one.restarting.is_empty() {
            let lead = format!("{}: pods keep restarting on", name(one));
            page.paragraph(&shown_nodes(&lead, &one.restarting), style::plain);
        }
    }
    if let Some(details) = report.daemon_sets.iter().find_map(|one| one.details.as_ref()) {
        page.what_to_do(details, "");
    }
}

fn left(headroom: &Headroom) -> String {
    let Headroom { instance_type, before, now } = headroom;
    let of = instance_type.as_ref().map_or_else(|| "nodes without a type".to_owned(), Clone::clone);
    format!("left for other pods on {of}: {} {} → {}", before.resource, before.text, now.text)
}
