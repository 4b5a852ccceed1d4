//! The progress of rollouts: one DaemonSet on its own screen, several as a table.

use jiff::Timestamp;

use super::clusters::{Reports, in_namespace, only_namespace};
use super::common_cause::blame;
use super::coverage::{incomplete, restarting, restarting_in_short, some_codes, stale_status};
use super::page::Page;
use super::table::{Column, Heading};
use super::text::{columns, count, or_merged, or_unknown, some_of, time_since, wrap};
use super::view::View;
use super::{list, partition, recent_changes, removed_nodes, stale_config, style};
use crate::report::age::format_age;
use crate::report::clusters::ClusterReports;
use crate::report::count_and;
use crate::report::coverage::ReasonGroup;
use crate::report::fix::{Command, Fix};
use crate::report::list::{Severity, Status};
use crate::report::reason::ReasonCode;
use crate::report::rollout_status::{
    Accepted, AcceptedNodes, BlockedBy, Eta, FaultCounts, HeldStages, NextActions, RolloutHold, RolloutStatus,
    RolloutStatusReport, RunStop, Verdict,
};

/// The width of the columns before the names of the nodes.
const BEFORE_NAMES: usize = 24 + 5 + 3 + 6 + 3;

/// Writes the only DaemonSet of a report in full, or a row for each of several.
pub fn status(report: &RolloutStatusReport, is_named: bool, page: &mut Page<'_>) {
    match report.daemon_sets.as_slice() {
        [] => {}
        [one] if is_named => detail(one, report.now, page),
        _ => table(&report.into(), page),
    }
    incomplete(&report.incomplete, page)
}

/// Writes a row for each DaemonSet of several clusters.
pub fn clusters(reports: &ClusterReports<RolloutStatusReport>, page: &mut Page<'_>) {
    let reports = Reports::from(reports);
    table(&reports, page);
    let is_quiet = |status| matches!(status, Status::Healthy | Status::Paused | Status::NoNodes);
    let needs_attention = |rollout: &RolloutStatus| !rollout.is_well() || !is_quiet(rollout.status);
    let rows = reports.rows(|report| &report.daemon_sets).into_iter();
    let worst = rows.filter(|(_, one)| needs_attention(one)).min_by_key(|(_, one)| rank(one));
    if let Some((context, worst)) = worst {
        let details = Fix::new("For details, start with the worst", worst.daemon_set().command("status"));
        page.remark(&reports.fix(context, details), style::context);
    }
    reports.incomplete(|report| &report.incomplete, page);
}

/// A row, and the time from which ages are counted.
type Row<'a> = (&'a RolloutStatus, Timestamp);

/// Returns the sort key of a rollout: an accepted one needs no attention, whatever is missing.
fn rank(rollout: &RolloutStatus) -> (bool, bool, Severity) {
    (rollout.matches_manifest != Some(false), is_accepted(rollout), rollout.severity)
}

/// Writes a summary, and a row for each DaemonSet.
pub(super) fn table(reports: &Reports<'_, RolloutStatusReport>, page: &mut Page<'_>) {
    let view = page.view;
    let mut rows = reports.rows(|report| report.daemon_sets.iter().map(|row| (row, report.now)));
    rows.sort_by_key(|(_, (rollout, _))| rank(rollout));
    let sorted: Vec<&RolloutStatus> = rows.iter().map(|(_, (rollout, _))| *rollout).collect();
    let is_another = |rollout: &RolloutStatus| rollout.matches_manifest == Some(false);
    let is_fine = |rollout: &RolloutStatus| !is_another(rollout) && is_accepted(rollout);
    let others = sorted.iter().filter(|rollout| is_another(rollout)).count();
    let accepted = sorted.iter().filter(|rollout| is_fine(rollout)).count();
    let mut numbers: Vec<String> = Vec::from_iter((others > 0).then(|| format!("{others} with another template")));
    let rest = sorted.iter().filter(|rollout| !is_another(rollout) && !is_accepted(rollout));
    numbers.extend(list::by_status(rest.map(|rollout| rollout.status)));
    numbers.extend((accepted > 0).then(|| format!("{accepted} accepted")));
    let numbers = if numbers.is_empty() { String::new() } else { format!(": {}", numbers.join(", ")) };
    let namespace = only_namespace(sorted.iter().map(|row| row.namespace.as_str()), Heading::Shown, view);
    let headline =
        |place: &str| format!("{}{}{numbers}", count(sorted.len(), "DaemonSet"), in_namespace(namespace, place));
    page.paragraph(&reports.headline(headline), style::summary);
    reports.incidents(|report| (&report.incidents, report.now), page);
    writeln!(page);
    let problems = |(row, now): &Row<'_>, width: usize| some_of(&problems(row, *now), width);
    let of = |number: Option<usize>, all: Option<usize>| format!("{}/{}", or_unknown(number), or_unknown(all));
    let status = |row: &RolloutStatus| match is_fine(row) {
        true => style::healthy(row.status.name().to_owned()),
        false => list::status(row.status),
    };
    let status = Column::text("STATUS", move |(row, _): &Row<'_>| status(row));
    let status = status.merged_into(Column::codes("STATUS", move |(row, now): &Row<'_>, width| {
        or_merged(row.status, |width| problems(&(*row, *now), width), width)
    }));
    let mut columns = vec![
        Column::text("NAME", |(row, _): &Row<'_>| view.show(&row.name)).shrinkable(),
        status,
        Column::text("UPDATED", |(row, _): &Row<'_>| of(row.counts.updated, row.counts.eligible)).droppable(1),
        Column::text("AVAILABLE", |(row, _): &Row<'_>| of(row.counts.available, row.counts.eligible)),
        Column::codes("PROBLEM", problems),
    ];
    if namespace.is_none() {
        columns.insert(0, Column::text("NAMESPACE", |(row, _): &Row<'_>| view.show(&row.namespace)));
    }
    let by_annotation = sorted.iter().any(|row| is_fine(row) && by_annotation(row));
    reports.table(Heading::Shown, columns, rows, |_, _| String::new(), page);
    if by_annotation {
        page.paragraph("* by the annotation kubectl-ds/accept", style::plain);
    }
}

/// Returns whether the DaemonSet's own annotation says what is accepted.
fn by_annotation(rollout: &RolloutStatus) -> bool {
    rollout.accepted.as_ref().is_some_and(|accepted| accepted.by_annotation)
}

/// Returns whether a rollout is complete except that more nodes are down than accepted.
fn is_not_accepted(rollout: &RolloutStatus) -> bool {
    rollout.verdict == Verdict::Complete && !rollout.counts_as_complete()
}

/// Returns the problems of a rollout in short, or the remaining time.
fn problems(rollout: &RolloutStatus, now: Timestamp) -> Vec<String> {
    let another = (rollout.matches_manifest == Some(false)).then(|| "another template".to_owned());
    let mark = if by_annotation(rollout) { "*" } else { "" };
    let accepted = (another.is_none() && is_accepted(rollout)).then(|| format!("accepted{mark}"));
    let mut words: Vec<String> = another.into_iter().chain(accepted).collect();
    words.extend(rollout.removed_nodes.iter().map(removed_nodes::in_short));
    let accepted = rollout.accepted.iter().filter(|_| is_not_accepted(rollout));
    words.extend(accepted.map(|accepted| format!("{} down, not accepted", count(accepted.not_accepted.len(), "node"))));
    // While it progresses, there are only transient problems.
    let shows_all = matches!(rollout.verdict, Verdict::Progressing | Verdict::Unknown)
        || rollout.blocked_by == Some(BlockedBy::NoProgress);
    let is_shown = |cause: &&ReasonGroup| !cause.passing || shows_all;
    let causes = rollout.problems.iter().filter(is_shown).map(|cause| (cause.code, cause.count));
    let is_settled = matches!(rollout.verdict, Verdict::Complete | Verdict::Unknown);
    let others = rollout.other_problems.iter().filter(|_| is_settled).map(|problem| (problem.code, problem.count));
    let mut by_code: Vec<(ReasonCode, usize)> = Vec::new();
    for (code, nodes) in causes.chain(others) {
        match by_code.iter_mut().find(|(known, _)| *known == code) {
            Some((_, all)) => *all += nodes,
            None => by_code.push((code, nodes)),
        }
    }
    let by_nodes = by_code.iter().map(|(code, nodes)| format!("{nodes} {code}"));
    let concerns = rollout.concerns.iter().map(|concern| concern.code);
    let concerns =
        concerns.filter(|code| by_code.iter().all(|(known, _)| known != code)).map(|code| code.name().to_owned());
    // While the controller does not act, what the nodes lack comes second.
    match rollout.verdict {
        Verdict::NotObserved | Verdict::Deleting => words.extend(concerns.chain(by_nodes)),
        _ => words.extend(by_nodes.chain(concerns)),
    }
    if let Some(since) = rollout.controller_silent_since.filter(|_| is_waiting(rollout)) {
        words.push(format!("kube-controller-manager lease not renewed for {}", time_since(since, now)));
    }
    words.extend(rollout.unchanged_since.map(|since| format!("no progress for {}", time_since(since, now))));
    words.extend(rollout.hold.as_ref().map(held_in_short));
    if rollout.verdict == Verdict::Paused {
        let old: usize = rollout.outdated.iter().map(|outdated| outdated.nodes.len()).sum();
        words.push(format!("{} on an older revision", count(old, "node")));
    }
    let nodes: usize = rollout.restarting.iter().map(|group| group.count).sum();
    words.extend((nodes > 0).then(|| restarting_in_short(nodes)));
    words.extend(rollout.eta.map(|eta| format!("about {} left", format_age(eta.seconds))));
    words.extend(
        (is_settled && rollout.rollout_complete && rollout.counts.eligible == Some(0))
            .then(|| "no eligible node".to_owned()),
    );
    words.extend(rollout.lost_pods.iter().map(|lost| removed_nodes::lost_in_short(lost, Some(now))));
    words
}

/// Returns whether a rollout does not go on by itself.
fn is_waiting(rollout: &RolloutStatus) -> bool {
    matches!(rollout.verdict, Verdict::Blocked | Verdict::Paused)
}

/// Says that the controller seems to be down, if so.
fn controller_down(rollout: &RolloutStatus, now: Timestamp) -> Option<String> {
    let silent = time_since(rollout.controller_silent_since?, now);
    Some(format!("; kube-controller-manager seems to be down: it has not renewed its lease for {silent}"))
}

/// Returns whether a rollout is not complete, but counts as complete.
fn is_accepted(rollout: &RolloutStatus) -> bool {
    rollout.verdict != Verdict::Complete && rollout.counts_as_complete()
}

fn detail(rollout: &RolloutStatus, now: Timestamp, page: &mut Page<'_>) {
    let view = page.view;
    if let Some(requested) = rollout.requested.filter(|requested| requested.current.is_none()) {
        let text = format!("cannot tell whether revision {} is the current revision", requested.number);
        writeln!(page, "{}", style::in_progress(text));
    }
    if let Some(requested) = rollout.requested.filter(|requested| requested.current == Some(false)) {
        let live = rollout.revision.as_ref().map(|live| format!("; revision {} is", live.number)).unwrap_or_default();
        let text = format!("revision {} is not the current revision{live}", requested.number);
        writeln!(page, "{}", style::problem(text));
    }
    if rollout.matches_manifest == Some(false) {
        let text = "the cluster has another template than the manifest; `kubectl diff -f MANIFEST` shows what differs";
        page.paragraph(text, style::problem);
    }
    if let Some(removed) = &rollout.removed_nodes {
        removed_nodes::write(removed, now, page);
        if removed.needs_attention() {
            let others = rollout.accepted.iter().flat_map(|accepted| &accepted.by).map(|one| one.what.to_string());
            let all: Vec<String> = others.chain(["fewer-nodes".to_owned()]).collect();
            let accept = Command::kubectl(&["ds", "status", "--accept", &all.join(",")]);
            let command = Some(accept.namespace(&rollout.namespace).name(rollout.daemon_set().short()));
            page.what_to_do(&Fix { advice: "if fewer nodes are intended".to_owned(), command }, "");
        }
    }
    page.paragraph(&headline(rollout, now), if rollout.is_well() { style::healthy } else { style::summary });
    rollout.lost_pods.iter().for_each(|lost| removed_nodes::write_lost(lost, now, page));
    if let Some(accepted) = rollout.accepted.as_ref().filter(|_| !rollout.counts_as_complete()) {
        page.paragraph(&not_accepted(accepted, rollout), style::plain);
    }
    if let Some(hold) = &rollout.hold {
        page.paragraph(&held(hold, now), style::plain);
        if let Some(RunStop { at, message }) = &hold.stopped {
            page.paragraph(&format!("the last run stopped {} ago: {message}", time_since(*at, now)), style::problem);
        }
        if let Some(HeldStages { stages, stage_began, seconds_left }) = &hold.staged {
            let began = format!("; the last run began its stage {} ago", time_since(*stage_began, now));
            let left = seconds_left.map(|seconds| format!("; about {} left at this pace", format_age(seconds)));
            let text = format!("stages: {}{began}{}", partition::stages(stages), left.unwrap_or_default());
            page.paragraph(&text, style::plain);
        }
    }
    let is_settled = matches!(rollout.verdict, Verdict::Complete | Verdict::Degraded | Verdict::Deleting);
    if let Some(text) = change(rollout, now).filter(|_| !is_settled) {
        page.paragraph(&text, style::plain);
    }
    let is_deleting = rollout.verdict == Verdict::Deleting;
    for (index, concern) in rollout.concerns.iter().enumerate().take(if is_deleting { 1 } else { usize::MAX }) {
        // The headline contains the first one.
        match (is_deleting || rollout.verdict == Verdict::NotObserved) && index == 0 {
            true => page.what_to_do(&concern.fix, ""),
            false => {
                let message = format!("{}: {}", concern.code, concern.message);
                page.advice(&message, Some(&concern.fix), "");
            }
        }
    }
    causes(rollout, now, page);
    let mut texts: Vec<String> = Vec::new();
    texts.extend(blame(&rollout.common_causes, rollout.suspect.as_ref(), now));
    texts.extend(nothing_against(rollout).filter(|_| rollout.suspect.is_none()));
    texts.extend(rollout.replaced_at_once.map(|pods| at_once(rollout, pods)));
    if !is_settled {
        texts.extend(next(rollout, view));
        texts.extend(outdated(rollout, view));
    }
    let mut remarks: Vec<Fix> = texts.into_iter().map(Fix::from).collect();
    remarks.extend(other_problems(rollout, view));
    if !remarks.is_empty() {
        writeln!(page);
        remarks.iter().for_each(|remark| page.remark(remark, style::plain));
    }
    let of_configuration = rollout.suspect.as_ref().and_then(|suspect| suspect.configuration.as_ref());
    of_configuration.iter().for_each(|it| page.what_to_do(&it.fix, "  "));
    if remarks.is_empty() && !rollout.way_out.is_empty() {
        writeln!(page);
    }
    way_out(&rollout.way_out, page);
    restarting(&rollout.restarting, page);
    rollout.stale_config.iter().for_each(|stale| {
        stale_config::section(stale, &rollout.problems, rollout.suspect.as_ref(), now, page);
    });
    if !rollout.recent_changes.is_empty() {
        writeln!(page, "\nWhat else changed lately:");
        recent_changes::with_ages(&rollout.recent_changes, now, page);
        let command = Some(Command::kubectl(&["ds", "changes"]).namespace(&rollout.namespace));
        page.what_to_do(&Fix { advice: "for all changes".to_owned(), command }, "  ");
    }
    // The controller does not update the status in these cases.
    if !matches!(rollout.verdict, Verdict::Deleting | Verdict::NotObserved) {
        stale_status(&rollout.counters, page);
    }
}

/// Returns the answer, with the most important numbers.
pub(super) fn headline(rollout: &RolloutStatus, now: Timestamp) -> String {
    let name = format!("{}/{}", rollout.namespace, rollout.name);
    let counts = &rollout.counts;
    let desired = counts.eligible.unwrap_or(0);
    let revision = rollout.revision.as_ref().map_or("it".to_owned(), |live| format!("revision {}", live.number));
    let updated = format!("{} of {} updated", or_unknown(counts.updated), count(desired, "node"));
    let unavailable = desired.saturating_sub(counts.available.unwrap_or(desired));
    let not_available = match unavailable {
        0 => String::new(),
        number => format!("; {number} unavailable"),
    };
    if let Some(accepted) = rollout.accepted.as_ref().filter(|_| is_accepted(rollout)) {
        let done = or_unknown(counts.updated_available);
        let by: Vec<String> = accepted.by.iter().filter(|one| !one.nodes.is_empty()).map(accepted_nodes).collect();
        let source = if accepted.by_annotation { ", by the annotation kubectl-ds/accept" } else { "" };
        return format!(
            "{name} counts as complete: {revision} is available on {done} of {}; accepted: {}{source}",
            count(desired, "node"),
            by.join(", ")
        );
    }
    match rollout.verdict {
        Verdict::Complete => {
            let degraded = match rollout.status {
                Status::Degraded => ", but degraded",
                Status::NodesDown => ", but has nodes down",
                _ => "",
            };
            match desired {
                0 if rollout.status == Status::Degraded => format!("{name} is degraded, and has no eligible node"),
                0 => format!("{name} has no eligible node, so no pods are created"),
                1 => format!("{name} is complete{degraded}: {revision} is available on its only node"),
                2 => format!("{name} is complete{degraded}: {revision} is available on both nodes"),
                all => format!("{name} is complete{degraded}: {revision} is available on all {all} nodes"),
            }
        }
        Verdict::Progressing => {
            let starting = counts.updated.unwrap_or(0).saturating_sub(counts.updated_available.unwrap_or(0));
            let starting = if starting == 0 { String::new() } else { format!("; {starting} not available yet") };
            let left = rollout.eta.map(|time| format!("; {} left", eta(time))).unwrap_or_default();
            format!("{name} is progressing: {updated}{starting}{left}")
        }
        Verdict::Blocked => {
            let why = match rollout.blocked_by {
                Some(BlockedBy::MissedSurgePods) => {
                    "; the controller has not noticed that surge pods have become available".to_owned()
                }
                Some(BlockedBy::ControllerDown) => controller_down(rollout, now).unwrap_or_default(),
                Some(BlockedBy::NoProgress) => {
                    let time = rollout.unchanged_since.map(|since| format!(" for {}", time_since(since, now)));
                    let lacks = rollout.lacks.as_ref().map(|lacks| format!("; {lacks}")).unwrap_or_default();
                    format!("; no pod was created, deleted or became available{}{lacks}", time.unwrap_or_default())
                }
                Some(BlockedBy::CreationBackoff) => {
                    "; the controller waits after the API server had refused new pods".to_owned()
                }
                Some(BlockedBy::CreationRefused) => "; the API server refuses new pods".to_owned(),
                Some(BlockedBy::DeletionRefused) => "; the API server has refused to delete pods".to_owned(),
                Some(BlockedBy::Budget) => {
                    let Some(budget) = &rollout.budget else { return format!("{name} is blocked: {updated}") };
                    let value =
                        if budget.value.is_percentage() { format!(" ({})", budget.value) } else { String::new() };
                    let field = budget.field.name();
                    let used = count_and(budget.used, "node", ["counts", "count"]);
                    return format!(
                        "{name} is blocked: {updated}; {used} against {field}, which allows {}{value}",
                        budget.allowed
                    );
                }
                Some(BlockedBy::NodeNotFound) => "; an old pod of a deleted node stops the rolling update".to_owned(),
                _ => String::new(),
            };
            format!("{name} is blocked: {updated}{not_available}{why}")
        }
        Verdict::Degraded => {
            let nodes = match counts.updated {
                Some(updated) if updated == desired => count(desired, "node"),
                updated => format!("{} of {}", or_unknown(updated), count(desired, "node")),
            };
            if let adopted @ 1.. = rollout.counted_by_generation.len() {
                let own = desired.saturating_sub(adopted);
                return format!("{name} is degraded: {own} of {} run this template", count(desired, "pod"));
            }
            let refused = if rollout.creation_refused { "; the API server refuses new pods" } else { "" };
            let is = if rollout.status == Status::NodesDown { "has nodes down" } else { "is degraded" };
            format!("{name} {is}: {revision} is rolled out to {nodes}{not_available}{refused}")
        }
        Verdict::Paused => {
            let retained = count(rollout.retained.len(), "old pod");
            let down = controller_down(rollout, now).unwrap_or_default();
            let why = if rollout.hold.is_some() {
                &down
            } else if !rollout.retained.is_empty() {
                &format!("; the partition or the selector of the update strategy retains {retained}")
            } else if rollout.strategy.is_on_delete() {
                // It was not paused.
                let why = "the update strategy is OnDelete, so pods are updated only when they are deleted";
                return format!("{name}: {updated}{not_available}; {why}");
            } else {
                "; the update strategy replaces no pods"
            };
            format!("{name} is paused: {updated}{not_available}{why}")
        }
        Verdict::NotObserved | Verdict::Deleting => {
            let what = if rollout.verdict == Verdict::Deleting { "being deleted" } else { "not observed yet" };
            let why = rollout.concerns.first().map(|concern| format!(": {}", concern.message)).unwrap_or_default();
            format!("{name} is {what}{why}")
        }
        Verdict::Unknown => {
            let why = if let Some(lacks) = &rollout.lacks { format!(": {lacks}") } else { String::new() };
            match rollout.incomplete_by_status() {
                Some((updated, available, eligible)) => format!(
                    "{name}: not complete by its status: {updated} of {} updated, {available} available{}",
                    count(eligible, "node"),
                    if rollout.problems.is_empty() { "; why is unknown" } else { "" }
                ),
                None => format!("{name}: whether the rollout is complete is unknown{why}"),
            }
        }
    }
}

fn accepted_nodes(accepted: &AcceptedNodes) -> String {
    let nodes = count(accepted.nodes.len(), "node");
    format!("{nodes} ({}: {})", accepted.what, some_of(&accepted.nodes, 60))
}

/// Returns why a rollout does not count as complete although something is accepted.
fn not_accepted(accepted: &Accepted, rollout: &RolloutStatus) -> String {
    let FaultCounts { waiting, revision, .. } = rollout.faults.unwrap_or_default();
    let from = if accepted.by_annotation { "the annotation kubectl-ds/accept" } else { "--accept" };
    if let Some(why) = &accepted.invalid {
        return format!("{from} accepts nothing: {why}");
    }
    let exceeds = |one: &AcceptedNodes| {
        let limit = one.limit.filter(|_| one.exceeds())?;
        let are = if one.nodes.len() == 1 { "is" } else { "are" };
        Some(format!("{} accepts at most {}, and {} {are} missing", one.what, count(limit, "node"), one.nodes.len()))
    };
    let mut parts = vec![match accepted.not_accepted.len() {
        0 => "the revision is available on no node, which is never accepted".to_owned(),
        nodes => {
            let waiting = match waiting.min(nodes) {
                0 => String::new(),
                1 if nodes == 1 => ", which waits for other nodes".to_owned(),
                all if all == nodes => ", all waiting for other nodes".to_owned(),
                some => format!(", {some} of them waiting for other nodes"),
            };
            let names = some_of(&accepted.not_accepted, 60);
            format!("{} not accepted by {from} ({names}){waiting}", count(nodes, "node"))
        }
    }];
    if revision > 0 && !accepted.not_accepted.is_empty() {
        let which = rollout.revision.as_ref().map_or("the revision".to_owned(), |it| format!("revision {}", it.number));
        parts.push(format!("never accepted: {which} is the cause"));
    }
    parts.extend(accepted.by.iter().filter_map(exceeds));
    let fine = |one: &&AcceptedNodes| !one.nodes.is_empty() && !one.exceeds();
    parts.extend(accepted.by.iter().filter(fine).map(|one| format!("accepted: {}", accepted_nodes(one))));
    parts.join("; ")
}

/// Returns that only nodes are to blame, if so and the revision works on others.
fn nothing_against(rollout: &RolloutStatus) -> Option<String> {
    let FaultCounts { node, cluster, revision, unknown, waiting } = rollout.faults?;
    let number = rollout.revision.as_ref()?.number;
    let nodes = node.checked_sub(waiting).filter(|nodes| *nodes > 0 && (cluster, revision, unknown) == (0, 0, 0))?;
    let available = rollout.counts.updated_available.filter(|available| *available > 0)?;
    let are_down = rollout.problems.iter().filter(|cause| cause.fault.is_some()).all(|cause| cause.code.is_node_down());
    let what = match (are_down, nodes) {
        (true, 1) => "1 node is down".to_owned(),
        (true, nodes) => format!("{nodes} nodes are down"),
        (false, 1) => "1 node has a problem of its own".to_owned(),
        (false, nodes) => format!("{nodes} nodes have problems of their own"),
    };
    // What fails on more nodes than it works on does not.
    let but = if are_down || available > nodes { format!("; revision {number} looks healthy") } else { String::new() };
    Some(format!("{what}{but}."))
}

/// Returns what `pause` or `partition` has done, for a table.
pub(super) fn held_in_short(hold: &RolloutHold) -> String {
    match &hold.partition {
        _ if !hold.in_force => "update strategy was restored by someone else".to_owned(),
        None => "paused by kubectl ds".to_owned(),
        Some(partition) => format!("partitioned by kubectl ds ({partition})"),
    }
}

/// Returns what `pause` or `partition` holds, since when, and which nodes were updated anyway.
fn held(hold: &RolloutHold, now: Timestamp) -> String {
    let since = hold.since.map(|since| format!(" {} ago", time_since(since, now))).unwrap_or_default();
    let what = match &hold.partition {
        None => format!("paused by kubectl ds{since}"),
        Some(none) if none.value() == 0 => format!("partitioned by kubectl ds{since}, to update all nodes"),
        Some(partition) => {
            format!("partitioned by kubectl ds{since}, keeping {partition} of the pods on older revisions")
        }
    };
    if !hold.in_force {
        return format!("{what}; the update strategy was restored since, so the controller replaces all pods");
    }
    let leaked = match hold.leaked {
        0 if hold.unverified => "; whether the command of its --verify has passed is not known".to_owned(),
        0 => String::new(),
        // Which it is, is not in the cluster: pods are new, nodes went down, or the template is one that they had.
        nodes if hold.partition.is_some() => {
            let fewer = if nodes == 1 { "1 fewer pod is".to_owned() } else { format!("{nodes} fewer pods are") };
            format!("; {fewer} left, because other nodes were updated or removed")
        }
        1 => "; 1 more node was updated because its pod is new".to_owned(),
        nodes => format!("; {nodes} more nodes were updated because their pods are new"),
    };
    let template = if hold.of_another_template { "; the template was changed after the last stage began" } else { "" };
    let suspended = match hold.original_assumed {
        false => format!("{} is suspended", hold.original_strategy),
        true => format!(
            "the suspended update strategy cannot be read from its annotation: `resume` restores {}, so check it afterwards",
            hold.original_strategy
        ),
    };
    format!("{what}; {suspended}{leaked}{template}")
}

/// Returns which revision is being rolled out, what it changes, and since when.
pub(super) fn change(rollout: &RolloutStatus, now: Timestamp) -> Option<String> {
    let revision = rollout.revision.as_ref()?;
    let mut text = format!("revision {}", revision.number);
    if let Some(replaces) = revision.replaces {
        let replaces_pods = if rollout.outdated.is_empty() { "replaced" } else { "replaces" };
        text = format!("{text} {replaces_pods} revision {replaces}");
    }
    if !revision.changes.is_empty() {
        text = format!("{text}: {}", revision.changes.join(", "));
    }
    if let Some(at) = revision.rolled_out_at {
        text = format!("{text}; rollout began {} ago", time_since(at, now));
    }
    Some(text)
}

/// Returns the remaining time, with its range if there is one.
fn eta(Eta { seconds, at_least, at_most }: Eta) -> String {
    if at_least == at_most {
        format!("about {}", format_age(seconds))
    } else {
        format!("about {} ({} to {})", format_age(seconds), format_age(at_least), format_age(at_most))
    }
}

fn causes(rollout: &RolloutStatus, now: Timestamp, page: &mut Page<'_>) {
    let view = page.view;
    if rollout.problems.is_empty() {
        return;
    }
    writeln!(page, "\n{:<24}{:>5}   {:>6}   WHERE", "REASON", "NODES", "FOR");
    for cause in &rollout.problems {
        let code = format!("{:<24}", cause.code.name());
        let code = if cause.passing { style::in_progress(code) } else { style::problem(code) };
        let at_least = if cause.since_at_latest { "≥" } else { "" };
        let since = cause.since.map_or_else(|| "?".to_owned(), |since| format!("{at_least}{}", time_since(since, now)));
        let since = view.show(&since);
        // Without the nodes, those that lack a pod have no name.
        let which = if cause.nodes.is_empty() { "?".to_owned() } else { view.names(&cause.nodes, BEFORE_NAMES) };
        writeln!(page, "{code}{:>5}   {since:>6}   {}", cause.count, view.show(&which));
        if cause.is_told_by(&rollout.concerns) {
            continue;
        }
        let compared = compared(rollout, cause);
        let message = if compared.is_empty() { &cause.message } else { cause.message.trim_end_matches('.') };
        let message = format!("{message}{compared}");
        page.hanging(["    "; 2], &message, style::plain);
        // Waiting is not advice, but other advice is not withheld because a pod is young.
        if !cause.passing || !cause.code.usual_passing().takes_time() {
            page.what_to_do(&cause.fix.unless_in(&rollout.way_out), "    ");
        }
    }
}

/// Returns how the failing nodes relate to the rollout.
fn compared(rollout: &RolloutStatus, cause: &ReasonGroup) -> String {
    let Some(revision) = rollout.revision.as_ref().filter(|_| !cause.passing) else { return String::new() };
    if cause.before_rollout == Some(true) {
        return "; since before this rollout".to_owned();
    }
    match (cause.on_current_revision.unwrap_or_default(), cause.nodes.len()) {
        (0, _) | (_, 0) => String::new(),
        (new, all) if new == all && all == 1 => format!("; on revision {}", revision.number),
        (new, all) if new == all => format!("; all on revision {}", revision.number),
        (new, _) => format!("; {new} on revision {}", revision.number),
    }
}

/// Returns the warning that old pods are replaced together.
pub(super) fn at_once(rollout: &RolloutStatus, pods: usize) -> String {
    let allowed = rollout.budget.as_ref().map(|budget| format!(" of {}", budget.allowed)).unwrap_or_default();
    let pods = count(pods, "unavailable old pod");
    match rollout.verdict {
        Verdict::NotObserved => {
            format!(
                "Warning: if the template changed, {pods} will be replaced at once, regardless of the budget{allowed}."
            )
        }
        _ => format!(
            "Warning: {pods} will be replaced at once: unavailable old pods do not wait for the budget{allowed}."
        ),
    }
}

/// Returns the problems that do not block the rollout, and the command that shows them.
fn other_problems(rollout: &RolloutStatus, view: &View) -> Option<Fix> {
    let mut problems = some_codes(&rollout.other_problems, usize::MAX);
    if let [problem] = rollout.other_problems.as_slice() {
        problems.push_str(&format!(" ({})", view.names(&problem.nodes, 40)));
    }
    let coverage = Command::kubectl(&["ds", "coverage"]).namespace(&rollout.namespace);
    // Nodes that are not eligible are shown with it alone.
    let is_wide = rollout.other_problems.iter().any(|problem| problem.code.excludes_node());
    let coverage = if is_wide { coverage.flag("-o", "wide") } else { coverage }.name(&rollout.name);
    (!problems.is_empty()).then(|| match rollout.daemon_set().is_advanced() {
        false => Fix { advice: format!("Other problems: {problems}; to see them"), command: Some(coverage) },
        // `coverage` does not support Advanced DaemonSets.
        true => Fix { advice: format!("Other problems: {problems}"), command: None },
    })
}

/// Returns what the controller does next.
fn next(rollout: &RolloutStatus, view: &View) -> Option<String> {
    let NextActions { create_on, delete, replace, candidates, not_recreated_on, in_place } = &rollout.next;
    let (delete_verb, replace_verb) =
        if *in_place { ("update in place or delete", "update in place or replace") } else { ("delete", "replace") };
    if rollout.verdict != Verdict::Progressing {
        return None;
    }
    let mut parts = Vec::new();
    if !create_on.is_empty() {
        parts.push(format!("create pods on {} ({})", count(create_on.len(), "node"), view.names(create_on, 40)));
    }
    if !delete.is_empty() {
        parts.push(format!("{delete_verb} {} ({})", count(delete.len(), "pod"), view.names(delete, 40)));
    }
    match (replace, candidates.len()) {
        (0, 0) => {}
        (0, left) if parts.is_empty() => {
            let allowed = rollout.budget.as_ref().map_or(1, |budget| budget.allowed);
            parts.push(format!("{replace_verb} {left} more, {allowed} at a time, as pods become available"));
        }
        (0, _) => {}
        (now, left) => parts.push(format!("{replace_verb} {now} of {left} ({})", view.names(candidates, 40))),
    }
    if *replace > 0 && !not_recreated_on.is_empty() {
        let (pods, nodes) = match not_recreated_on.len() {
            1 => ("the pod", "its node is"),
            _ => ("the pods", "their nodes are"),
        };
        let on = view.names(not_recreated_on, 40);
        parts.push(format!("{pods} on {on} will not be recreated, because {nodes} not eligible"));
    }
    (!parts.is_empty()).then(|| format!("Next, the controller will {}", parts.join("; ")))
}

/// Returns which nodes are outdated, if the strategy does not replace their pods.
fn outdated(rollout: &RolloutStatus, view: &View) -> Option<String> {
    if rollout.verdict != Verdict::Paused {
        return None;
    }
    let lists = rollout.outdated.iter().map(|old| {
        let revision = old.revision.map_or("a deleted revision".to_owned(), |number| format!("revision {number}"));
        format!("still on {revision}: {}", view.names(&old.nodes, 20))
    });
    Some(lists.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
}

fn way_out(fixes: &[Fix], page: &mut Page<'_>) {
    let view = page.view;
    let lines = fixes.iter().filter(|fix| fix.command.is_some()).map(|fix| {
        let (advice, command) = view.suggest(fix);
        (format!("{advice}:"), command)
    });
    let lines: Vec<(String, Option<String>)> = lines.collect();
    let widest = lines.iter().map(|(advice, _)| columns(advice)).max().unwrap_or(0);
    let longest = lines.iter().filter_map(|(_, command)| command.as_deref().map(columns)).max().unwrap_or(0);
    let is_one_line = 2 + widest + 2 + longest <= view.wrap_width();
    for (advice, command) in lines {
        let command = command.unwrap_or_default();
        if is_one_line {
            let gap = " ".repeat(widest - columns(&advice) + 2);
            writeln!(page, "  {advice}{gap}{command}");
        } else {
            wrap(&advice, view.wrap_width().saturating_sub(2)).iter().for_each(|line| writeln!(page, "  {line}"));
            writeln!(page, "    {command}");
        }
    }
    fixes.iter().filter(|fix| fix.command.is_none()).for_each(|fix| page.what_to_do(fix, "  "));
}
