//! A stage of a partition: the plan, and how it ended.

use super::change::write_made;
use super::page::Page;
use super::text::{count, some_of};
use super::{changes, effect, style};
use crate::report::age::format_age;
use crate::report::fix::{Command, Fix};
use crate::report::partition::{
    CanaryNode, Gate, PartitionReport, PartitionStage, RolloutStage, SKIP_LABEL, StageState, StagedRollout,
};
use crate::report::reason::ReasonCode;

/// Writes the plan.
pub(crate) fn plan(report: &PartitionReport, page: &mut Page<'_>) {
    let view = page.view;
    let stages =
        report.staged.iter().flat_map(|staged| staged.stages.iter().zip(1..).map(|it| (it, staged.stages.len())));
    let mut running = stages.filter(|((stage, _), _)| stage.state == StageState::Now);
    let stage = running.next().map(|((stage, number), all)| format!(", stage {} ({number} of {all})", stage.stage));
    let name = format!("{}{}", report.daemon_set.title(), stage.unwrap_or_default());
    let revision = report.revision.map_or_else(|| "the new revision".to_owned(), |number| format!("revision {number}"));
    let kept = report.old - report.update;
    // It does not wait for nodes that are not ready.
    let is_left_to_controller = report.restores_strategy && !report.original_strategy.is_on_delete();
    let head = match report.update {
        0 if !report.changes.is_empty() => {
            let what = if report.restores_strategy { "end the hold" } else { "hold the rollout" };
            let stay = match kept {
                0 => String::new(),
                kept if is_left_to_controller => format!(", and {kept} are left to the controller"),
                kept => format!(", and {kept} of {} stay on other revisions", count(report.desired, "node")),
            };
            format!("{name}: {what}; no node is updated{stay}")
        }
        0 if kept == 0 => format!("{name}: nothing to update; no node is on another revision"),
        0 => format!("{name}: nothing to update; {kept} of {} stay on other revisions", count(report.desired, "node")),
        update => {
            let nodes = format!("{update} of {}", count(report.desired, "node"));
            let what = match (report.rolls_back, report.restarts) {
                (true, _) => format!("roll {nodes} back to {revision}"),
                (false, true) => format!("restart the pods of {nodes} as {revision}"),
                (false, false) => format!("update {nodes} to {revision}"),
            };
            let kept = match kept {
                0 => String::new(),
                kept if is_left_to_controller => format!(", leave {kept} to the controller"),
                kept => format!(", keep {kept} on other revisions"),
            };
            let rest = [(report.already_updated, "already on it"), (report.without_pod, "without a pod")];
            let rest = rest.iter().filter(|(nodes, _)| *nodes > 0).map(|(nodes, how)| format!("{nodes} {how}"));
            let rest: Vec<String> = rest.collect();
            let rest = if rest.is_empty() { String::new() } else { format!(" ({})", rest.join(", ")) };
            format!("{name}: {what}{rest}{kept}")
        }
    };
    page.paragraph(&head, style::summary);
    effect::nodes(&report.nodes_gained, &report.nodes_lost, page);
    if !report.changes.is_empty() {
        writeln!(page);
        changes::write(&report.changes, page);
        writeln!(page);
    }
    write_made("the server also changes:", &report.made_by_server, page);
    if !report.not_applied.is_empty() {
        page.paragraph("only the template of the manifest is applied; these differences are ignored:", style::plain);
        writeln!(page);
        changes::write(&report.not_applied, page);
        writeln!(page);
    }
    if let Some(staged) = &report.staged {
        stages_and_canary(staged, page);
    }
    if !report.nodes.is_empty() {
        let allowed = report.max_unavailable;
        let now = match (report.unavailable, report.not_counted) {
            (0, _) => String::new(),
            (now, 0) => format!(" ({now} now)"),
            (now, more) if now == more => {
                format!(", besides the {now} that {} already", if now == 1 { "is" } else { "are" })
            }
            (now, more) => {
                format!(" ({} now), besides {more} that {} already", now - more, if more == 1 { "is" } else { "are" })
            }
        };
        let text = format!(
            "in this order, with at most {allowed} {} unavailable at a time{now}: {}",
            if allowed == 1 { "node" } else { "nodes" },
            some_of(&report.nodes, (view.width * 2).saturating_sub(70))
        );
        page.paragraph(&text, style::plain);
        if report.evicts {
            let text = "pods are evicted, so that a PodDisruptionBudget may delay the stage";
            page.paragraph(text, style::plain);
        }
        page.paragraph(&gates(report), style::plain);
    }
    if report.rolls_back && report.original_strategy.is_on_delete() && kept > 0 {
        let text =
            "only pods of the revision that is rolled back are replaced, because the update strategy is OnDelete";
        page.paragraph(text, style::plain);
    }
    left_out(report, page);
    if report.restores_strategy && !report.changes.is_empty() {
        let text = format!("at the end, the update strategy becomes {} again", report.original_strategy);
        page.paragraph(&text, style::plain);
    }
}

/// Writes which nodes are not updated.
fn left_out(report: &PartitionReport, page: &mut Page<'_>) {
    let labeled = format!("of the label {SKIP_LABEL}");
    for (nodes, why) in [(&report.not_ready, "the node is not ready"), (&report.skipped, &labeled)] {
        if !nodes.is_empty() {
            let text = format!("skipped because {why}: {}", some_of(nodes, page.view.width));
            page.paragraph(&text, style::in_progress);
        }
    }
}

/// Writes the plan of a stage that follows another one.
pub(crate) fn next_stage(report: &PartitionReport, page: &mut Page<'_>) {
    let stages = report.staged.iter().flat_map(|staged| &staged.stages);
    let now = stages.clone().find(|stage| stage.state == StageState::Now).map_or("", |stage| &stage.stage);
    let done = stages.clone().filter(|stage| stage.state == StageState::Done).count();
    let nodes = match report.update {
        0 => "no other node is updated".to_owned(),
        update => format!("update {}: {}", count(update, "node"), some_of(&report.nodes, page.view.width)),
    };
    page.paragraph(&format!("stage {now} ({} of {}): {nodes}", done + 1, stages.count()), style::summary);
    left_out(report, page);
}

/// Writes the stages of a rollout, and what its canary stands for.
fn stages_and_canary(staged: &StagedRollout, page: &mut Page<'_>) {
    const SHOWN: usize = 20;
    let text = format!("stages: {}; each begins once the one before has passed its gates", stages(&staged.stages));
    page.paragraph(&text, style::plain);
    for CanaryNode { node, stands_for } in staged.canary.iter().take(SHOWN) {
        let text = match stands_for.is_empty() {
            true => format!("{node}: stands for all nodes"),
            false => format!("{node}: stands for {}", stands_for.join(", ")),
        };
        page.hanging(["  ", "    "], &text, style::plain);
    }
    page.more(staged.canary.len().saturating_sub(SHOWN), "node", "-o json");
    if !staged.uncovered.is_empty() {
        let text = format!(
            "not covered by the canary, because no node with it can be updated: {}",
            some_of(&staged.uncovered, page.view.width)
        );
        page.paragraph(&text, style::in_progress);
    }
}

/// Returns the stages of a rollout in a line.
pub(super) fn stages(stages: &[RolloutStage]) -> String {
    let stage = |stage: &RolloutStage| {
        let nodes = stage.nodes.map(|nodes| format!("({})", count(nodes, "node"))).unwrap_or_default();
        match stage.state {
            StageState::Done => format!("{} done", stage.stage),
            StageState::Now => format!("{} now {nodes}", stage.stage),
            StageState::Next => format!("{} {nodes}", stage.stage),
            StageState::Skipped => format!("{} skipped {nodes}", stage.stage),
        }
    };
    stages.iter().map(stage).collect::<Vec<_>>().join(", ")
}

fn gates(report: &PartitionReport) -> String {
    let gates = &report.gates;
    let mut parts = vec![match gates.min_ready_seconds {
        0 => "each new pod must become available".to_owned(),
        seconds => format!("each new pod must be ready for {seconds}s"),
    }];
    parts.push(match gates.max_restarts {
        Some(0) => "without a restart".to_owned(),
        Some(1) => "with at most 1 restart".to_owned(),
        None => "however often it restarts".to_owned(),
        Some(restarts) => format!("with at most {restarts} restarts"),
    });
    if gates.verify.is_some() {
        parts.push("and pass --verify".to_owned());
    }
    let soak = match gates.soak_seconds {
        0 => String::new(),
        seconds => format!("; the stage ends once all of them have been available for {}", format_age(seconds)),
    };
    let deadline = format_age(gates.progress_deadline_seconds);
    format!("{}{soak}; the stage stops after {deadline} without progress", parts.join(" "))
}

/// Writes the sentence that a plan was only displayed.
pub(crate) fn dry_run(report: &PartitionReport, page: &mut Page<'_>) {
    writeln!(page);
    let done = match (report.rolls_back, report.restarts) {
        (true, _) => "rolled back",
        (false, true) => "restarted",
        (false, false) => "partitioned",
    };
    writeln!(page, "{} {done} (dry run)", page.view.show(&report.daemon_set.full()))
}

/// Writes how the stage ended, in a sentence; nothing if it was not started.
pub(crate) fn summary(report: &PartitionReport, page: &mut Page<'_>) {
    let name = report.daemon_set.title();
    let outcome = &report.outcome;
    // A revision that is rolled out again gets another number.
    let target = report.to_revision.map(|target| format!("the template of revision {target}"));
    let revision = match (report.revision, target) {
        (Some(number), Some(target)) if report.to_revision != report.revision => {
            format!("revision {number} ({target})")
        }
        (Some(number), _) => format!("revision {number}"),
        (None, Some(target)) => target,
        (None, None) => "the new revision".to_owned(),
    };
    let replaced = match outcome.being_replaced.len() {
        0 => String::new(),
        nodes => format!(" {nodes} being replaced ({}),", some_of(&outcome.being_replaced, page.view.width)),
    };
    let what = if report.rolls_back && outcome.stage == PartitionStage::Finished { "rolled back: " } else { "" };
    let done =
        format!("{what}{} on {revision},{replaced} {} on other revisions", count(outcome.updated, "node"), outcome.old);
    match outcome.stage {
        PartitionStage::Planned | PartitionStage::Unknown => {}
        PartitionStage::Finished => {
            // The strategy of an Advanced DaemonSet was never suspended.
            let restored = match !report.daemon_set.is_advanced() {
                true => format!("; the update strategy is {} again", report.original_strategy),
                false => String::new(),
            };
            let text = format!("{name}: {done}{restored}");
            page.paragraph(&text, if outcome.failures.is_empty() { style::healthy } else { style::problem })
        }
        PartitionStage::Complete => {
            page.paragraph(&format!("{name}: {done}"), style::healthy);
            page.paragraph("the stage has passed its gates", style::plain)
        }
        PartitionStage::Begun => page.paragraph(&format!("{name}: {done}"), style::in_progress),
        PartitionStage::Stopped => {
            // The pods of an Advanced DaemonSet are replaced by its controller.
            let replaced = match !report.daemon_set.is_advanced() {
                true => format!(" after {}", count(outcome.replaced.len(), "node")),
                false => String::new(),
            };
            let text = format!("{name}: stopped{replaced}; {done}");
            page.paragraph(&text, style::problem)
        }
    }
}

/// Writes how the stage ended, and the possible next commands.
pub(crate) fn outcome(report: &PartitionReport, page: &mut Page<'_>) {
    let view = page.view;
    let outcome = &report.outcome;
    if matches!(outcome.stage, PartitionStage::Planned | PartitionStage::Unknown) {
        return;
    }
    summary(report, page);
    for failure in outcome.failures.iter().take(5) {
        let place = match (&failure.pod, &failure.node) {
            (Some(pod), Some(node)) => format!("pod {pod} on {node}: "),
            (None, Some(node)) => format!("{node}: "),
            (_, None) => String::new(),
        };
        let code = failure.reason.map(|code| format!("{code}: ")).unwrap_or_default();
        page.paragraph(&format!("{place}{code}{}", failure.message), style::plain);
    }
    page.more(outcome.failures.len().saturating_sub(5), "node", "-o json");
    let failure = outcome.failures.first().filter(|failure| failure.reason.is_none_or(ReasonCode::has_log));
    if let Some((failure, pod)) = failure.and_then(|it| Some((it, it.pod.as_ref()?))) {
        let command = Command::kubectl(&["logs"]).namespace(&report.daemon_set.namespace).name(pod);
        let crashed = matches!(failure.reason, Some(ReasonCode::CrashLooping | ReasonCode::OOMKilled));
        // The current container may not have logged anything yet.
        let command = if crashed || failure.gate == Gate::Restarts { command.switch("--previous") } else { command };
        page.hint(&Fix::new("logs", command));
    }
    if !outcome.leaked.is_empty() {
        let done = if report.rolls_back { "rolled back" } else { "updated" };
        let text = format!(
            "also {done}, because their pods were created during this run: {}",
            some_of(&outcome.leaked, view.width)
        );
        page.paragraph(&text, style::in_progress);
    }
    if !outcome.gone.is_empty() {
        let text = format!("no longer eligible, or deleted: {}", some_of(&outcome.gone, view.width));
        page.paragraph(&text, style::in_progress);
    }
    if outcome.stage == PartitionStage::Finished {
        return;
    }
    if !report.skipped.is_empty() {
        let text = format!("skipped because of the label {SKIP_LABEL}: {}", some_of(&report.skipped, view.width));
        page.paragraph(&text, style::in_progress);
        let label = report.skipped.iter().fold(Command::kubectl(&["label", "node"]), Command::name);
        let it = if report.skipped.len() == 1 { "it" } else { "them" };
        page.hint(&Fix::new(format!("to update {it}"), label.name(format!("{SKIP_LABEL}-"))));
    }
    outcome.way_out.iter().for_each(|fix| page.hint(fix))
}

/// Returns the progress of a stage, in a line.
pub(crate) fn progress(report: &PartitionReport) -> String {
    let outcome = &report.outcome;
    let kept = match report.keep {
        0 => String::new(),
        kept => format!("; {kept} of {} stay on other revisions", report.desired),
    };
    let done = match report.daemon_set.is_advanced() {
        // Its controller replaces the pods.
        true => format!("{} of {} updated", outcome.updated, count(report.desired - report.keep, "node")),
        false => format!("{} of {} replaced", outcome.replaced.len(), count(report.nodes.len(), "pod")),
    };
    let stages = report.staged.iter().flat_map(|staged| &staged.stages);
    let name = stages.filter(|stage| stage.state == StageState::Now).map(|stage| format!(" {}", stage.stage));
    format!("stage{}: {done}{kept}", name.collect::<String>())
}
