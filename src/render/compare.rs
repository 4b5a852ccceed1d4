//! Whether DaemonSets are worse off than before.

use std::collections::BTreeSet;

use jiff::Unit;

use super::coverage::incomplete;
use super::list::MOST_ROWS;
use super::page::Page;
use super::style;
use super::table::{self, Column, Heading, NO_BREAK_SPACE, wrap_with_no_break_spaces};
use super::text::{count, or_unknown, some_of};
use super::view::View;
use crate::report::age::format_age;
use crate::report::compare::{CompareReport, Comparison, DaemonSetComparison, Headroom, PoolComparison, Setback};
use crate::report::count_and;
use crate::report::coverage::Counts;
use crate::report::fix::{Command, Fix};
use crate::report::list::Status;

/// The most setbacks that a terminal shows.
const MOST_SETBACKS: usize = 6;

/// The most changes of a DaemonSet that a terminal shows.
const MOST_CHANGES: usize = 6;

/// The most other lines of one kind that a terminal shows.
const MOST_LINES: usize = 4;

/// Writes whether it is worse, by what, and what else has changed. On a terminal, long lists are cut unless all is asked for.
pub fn compare(report: &CompareReport, all: bool, page: &mut Page<'_>) {
    let view = page.view;
    let (all, all_names) = (all || view.limit.is_none(), all);
    let styled = match report.verdict {
        Comparison::Worse => style::problem,
        Comparison::Better => style::healthy,
        Comparison::Same | Comparison::Unknown => style::summary,
    };
    page.paragraph(&headline(report), styled);
    page.paragraph(&context(report), style::context);
    for warning in warnings(report) {
        page.paragraph(&format!("warning: {warning}"), style::in_progress);
    }
    let (pools, hidden) = cut(report.pools.iter().collect(), MOST_LINES, all);
    for pool in pools {
        page.paragraph(&of_pool(pool), if is_counted(pool) { style::problem } else { style::plain });
    }
    page.more(hidden, "pool", "--all");
    rows(report, all, page);
    setbacks(report, [all, all_names], page);
    let (headroom, hidden) = cut(report.headroom.iter().collect(), MOST_LINES, all);
    if !headroom.is_empty() {
        writeln!(page);
        headroom.into_iter().for_each(|one| page.paragraph(&left(one), style::plain));
        page.more(hidden, "resource", "--all");
    }
    not_compared(report, all_names, page);
    for (side, resources) in [("BEFORE", &report.not_in_before), ("AFTER", &report.not_in_after)] {
        if !resources.is_empty() {
            let text =
                format!("not in {side}: {}; differences that depend on these are not compared", resources.join(", "));
            page.paragraph(&text, style::in_progress);
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
            let is_accepted =
                |one: &DaemonSetComparison| one.gone || one.setbacks.iter().any(|setback| setback.accepted);
            let but = if report.daemon_sets.iter().any(is_accepted) { ", except for what is accepted" } else { "" };
            format!("Same{but}: {daemon_sets} neither worse nor better off")
        }
        Comparison::Unknown => {
            let of = |one: &&DaemonSetComparison| one.verdict == Comparison::Unknown;
            let (open, unread): (Vec<_>, Vec<_>) = report.daemon_sets.iter().filter(of).partition(|one| is_open(one));
            let mut words = Vec::new();
            words.extend((!unread.is_empty()).then(|| {
                let daemon_sets = count(unread.len(), "DaemonSet");
                format!("nodes or pods of {daemon_sets} could not be read")
            }));
            words.extend((!open.is_empty()).then(|| {
                let verbs = ["has problems that may not be new", "have problems that may not be new"];
                count_and(open.len(), "DaemonSet", verbs)
            }));
            words.extend((!report.not_compared.is_empty()).then(|| {
                count_and(
                    report.not_compared.len(),
                    "DaemonSet",
                    ["was read on one side only", "were read on one side only"],
                )
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
    let gone = number(|one| one.gone);
    words.extend((gone > 0).then(|| count_and(gone, "DaemonSet", ["is gone", "are gone"])));
    let setbacks = || all.iter().flat_map(|one| one.counted().map(move |setback| (one, setback)));
    let nodes = |is: fn(&Setback) -> bool| {
        let setbacks = setbacks().filter(|(_, setback)| is(setback));
        setbacks.flat_map(|(_, setback)| &setback.nodes).collect::<BTreeSet<_>>()
    };
    // Which pod, if there are several.
    let of = |is: fn(&Setback) -> bool| {
        let of: BTreeSet<String> = setbacks().filter(|(_, setback)| is(setback)).map(|(one, _)| name(one)).collect();
        match of.len() {
            _ if all.len() == 1 => String::new(),
            1 => of.iter().map(|one| format!(" of {one}")).collect(),
            several => format!(" of {}", count(several, "DaemonSet")),
        }
    };
    let starting = |is: fn(&Setback) -> bool| {
        let is_passing = setbacks().filter(|(_, setback)| is(setback)).all(|(_, setback)| setback.passing);
        if is_passing { " (still starting)" } else { "" }
    };
    let mut say_nodes = |nodes: usize, thing: &str, verbs: [&str; 2], pod: &str, is: fn(&Setback) -> bool| {
        words.extend((nodes > 0).then(|| {
            let pod = if pod.is_empty() { String::new() } else { format!(" {pod}{}", of(is)) };
            format!("{}{pod}{}", count_and(nodes, thing, verbs), starting(is))
        }));
    };
    let is_lost = |it: &Setback| it.had_pod && !it.new_nodes;
    let lost = nodes(is_lost);
    say_nodes(lost.len(), "node", ["no longer has", "no longer have"], "an available pod", is_lost);
    let is_lacking = |it: &Setback| it.new_nodes;
    say_nodes(nodes(is_lacking).len(), "new node", ["has", "have"], "no available pod", is_lacking);
    let is_other = |it: &Setback| !it.had_pod && !it.new_nodes;
    let others = nodes(is_other).difference(&lost).count();
    say_nodes(others, "node", ["has a new problem", "have new problems"], "", is_other);
    let mut say = |number: usize, thing: &str, verbs: [&str; 2]| {
        words.extend((number > 0).then(|| count_and(number, thing, verbs)));
    };
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
    words
}

fn better(report: &CompareReport) -> Vec<String> {
    let better: Vec<&DaemonSetComparison> =
        report.daemon_sets.iter().filter(|one| one.verdict == Comparison::Better).collect();
    let gained: BTreeSet<&String> = better.iter().flat_map(|one| &one.gained).collect();
    match gained.len() {
        0 => vec![count_and(better.len(), "DaemonSet", ["has fewer problems", "have fewer problems"])],
        nodes => vec![count_and(nodes, "node", ["now has an available pod", "now have an available pod"])],
    }
}

/// Says what is compared with what.
fn context(report: &CompareReport) -> String {
    let nodes = match (report.nodes_before, report.nodes) {
        (Some(before), Some(now)) if before == now => format!("{}, as many as then", count(now, "node")),
        (before, now) => format!("{} nodes then, {} now", or_unknown(before), or_unknown(now)),
    };
    let Some(before) = report.before else {
        return format!("compared with an earlier state of unknown time: {nodes}");
    };
    let before = before.round(Unit::Second).unwrap_or(before);
    let age = match report.seconds {
        None => String::new(),
        Some(seconds @ ..0) => format!(" ({} later)", format_age(-seconds)),
        Some(seconds) => format!(" ({} earlier)", format_age(seconds)),
    };
    format!("compared with {before}{age}: {nodes}")
}

fn warnings(report: &CompareReport) -> Vec<&'static str> {
    let is_later = report.seconds.is_some_and(|seconds| seconds < 0);
    let all = [
        (is_later, "BEFORE is later than what it is compared with; did you swap them?"),
        (report.different_clusters, "these are most likely different clusters"),
    ];
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
        (removed, 0) if pool.pool.is_some() && pool.now == 0 && removed == pool.before => {
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
    let beneath = |one: &&DaemonSetComparison, width| {
        let (changes, hidden) = cut(changed(one), MOST_CHANGES, all);
        let more = if hidden > 0 { format!(" +{hidden} more (--all)") } else { String::new() };
        let whole = |change: &String| view.show(change).replace(' ', &NO_BREAK_SPACE.to_string());
        let changes: Vec<String> = changes.iter().map(whole).collect();
        wrap_with_no_break_spaces(&format!("{}{more}", changes.join(", ")), width)
    };
    table::write_rows(Heading::Shown, &columns, &rows, beneath, page);
    page.more(hidden, "DaemonSet", "--all");
}

fn name(one: &DaemonSetComparison) -> String {
    format!("{}/{}", one.namespace, one.name)
}

fn verdict(one: &DaemonSetComparison) -> String {
    let styled = match one.verdict {
        Comparison::Worse => style::problem,
        Comparison::Better => style::healthy,
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
    let restarts = (one.restarts > 0).then(|| count(one.restarts, "restart"));
    let later = one.seconds_to_ready_before.zip(one.seconds_to_ready);
    let later = later.map(|(was, is)| format!("ready after {is}s instead of {was}s"));
    let gained =
        (!one.gained.is_empty()).then(|| format!("{} with an available pod", count(one.gained.len(), "more node")));
    let words = existence.into_iter().chain(gained).chain(reasons).chain(restarts).chain(later);
    words.chain(one.template_changes.iter().cloned()).chain(strategy).collect()
}

/// Writes what is worse, and why.
fn setbacks(report: &CompareReport, [all, all_names]: [bool; 2], page: &mut Page<'_>) {
    let view = page.view;
    let setbacks = report.daemon_sets.iter().flat_map(|one| one.setbacks.iter().map(move |setback| (one, setback)));
    let (shown, hidden) = cut(setbacks.collect(), MOST_SETBACKS, all);
    let shown_nodes = |lead: &str, nodes: &[String]| format!("{lead} {}", names(nodes, lead, all_names, view));
    if !shown.is_empty() {
        writeln!(page);
    }
    for (one, setback) in shown {
        let nodes = |thing, verbs| count_and(setback.nodes.len(), thing, verbs);
        let what = match (setback.had_pod, setback.new_nodes) {
            _ if setback.unconfirmed => nodes("node", ["has a problem", "have problems"]),
            (true, false) => nodes("node", ["no longer has an available pod", "no longer have an available pod"]),
            (_, true) => nodes("new node", ["has no available pod", "have no available pod"]),
            (false, false) => nodes("node", ["has a new problem", "have new problems"]),
        };
        let lead = format!("{}: {what}:", name(one));
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

/// Names as many nodes as fit into two lines, or all of them.
fn names(nodes: &[String], lead: &str, all: bool, view: &View) -> String {
    const FLAG: &str = " (--all)";
    if all {
        return view.unlimited().names(nodes, 0);
    }
    let fitting = |taken: usize| some_of(nodes, view.names_room(taken).saturating_add(view.width));
    let text = fitting(lead.len() + 1);
    if text.ends_with(" more") { fitting(lead.len() + 1 + FLAG.len()) + FLAG } else { text }
}

/// Writes what only one side has, and how to compare what both have.
fn not_compared(report: &CompareReport, all: bool, page: &mut Page<'_>) {
    if report.not_compared.is_empty() {
        return;
    }
    let lead = "not compared, because the other side may lack them:";
    let text = format!("{lead} {}", names(&report.not_compared, lead, all, page.view));
    page.paragraph(&text, style::in_progress);
    let compared: BTreeSet<&str> = report.daemon_sets.iter().map(|one| one.namespace.as_str()).collect();
    if let (Some(namespace), 1) = (compared.first(), compared.len()) {
        page.what_to_do(&Fix::new("to compare only what both have, add", Command::choice("-n", [*namespace])), "");
    }
}

fn left(headroom: &Headroom) -> String {
    let Headroom { instance_type, before, now } = headroom;
    let of = instance_type.as_ref().map_or_else(|| "nodes without a type".to_owned(), Clone::clone);
    format!("left for other pods on {of}: {} {} → {}", before.resource, before.text, now.text)
}
