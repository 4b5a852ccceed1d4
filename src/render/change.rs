//! A change of a DaemonSet: the plan, its warnings and its outcome.

use std::io::{self, Write};

use super::changes;
use super::coverage::what_to_do;
use super::effect;
use super::list::age;
use super::style;
use super::text::{columns, hanging, paragraph, wrap};
use super::view::View;
use crate::report::change::Change;
use crate::report::coverage::Incomplete;
use crate::report::fix::{Command, Fix};
use crate::report::plan::{ChangePlan, PlanKind, PodOnNode, Warning, WarningCode};

/// Writes the plan.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub fn plan(plan: &ChangePlan, view: &View, out: &mut dyn Write) -> io::Result<()> {
    let name = plan.daemon_set.title();
    let text = match plan.kind {
        PlanKind::UndoPlan => {
            let revision = plan.to_revision.unwrap_or_default();
            format!("{name} will be rolled back to revision {revision}{}{}", rolled_out(plan), from(plan))
        }
        PlanKind::RestartPlan => format!("{name} will restart{}", from(plan)),
        PlanKind::SetPlan => format!("{name} will be updated"),
        PlanKind::PausePlan => format!("{name} will be paused"),
        PlanKind::ResumePlan => format!("{name} will be resumed"),
    };
    paragraph(&text, style::answer, view, out)?;
    if let Some(effect) = &plan.effect {
        effect::nodes(&effect.nodes_gained, &effect.nodes_lost, view, out)?;
    }
    if let Some(why) = &plan.why {
        paragraph(why, style::context, view, out)?;
    }
    writeln!(out)?;
    changes::write(&plan.changes, view, out)?;
    if let Some(effect) = &plan.effect {
        effect::write(effect, plan.kind, &plan.changes, view, out)?;
    }
    writeln!(out)?;
    left(&plan.pods_left, view, out)
}

fn rolled_out(plan: &ChangePlan) -> String {
    plan.rolled_out_at.map_or_else(String::new, |at| format!(" (rolled out {} ago)", age(Some(at), plan.now)))
}

fn from(plan: &ChangePlan) -> String {
    match (plan.kind, plan.from_revision) {
        (PlanKind::UndoPlan, Some(from)) => format!(" from revision {from}"),
        (PlanKind::UndoPlan, None) => " from a template that has no revision yet".to_owned(),
        (PlanKind::RestartPlan, Some(from)) => format!(" (revision {from})"),
        (PlanKind::RestartPlan, None) | (PlanKind::SetPlan | PlanKind::PausePlan | PlanKind::ResumePlan, _) => {
            String::new()
        }
    }
}

/// Writes which pods keep their template.
fn left(pods: &[PodOnNode], view: &View, out: &mut dyn Write) -> io::Result<()> {
    if pods.is_empty() {
        return Ok(());
    }
    let mut nodes: Vec<String> = pods.iter().map(|pod| pod.node.clone()).filter(|node| !node.is_empty()).collect();
    nodes.dedup();
    let start = match pods.len() {
        1 => "1 pod keeps its template until it is deleted: ".to_owned(),
        pods => format!("{pods} pods keep their template until they are deleted: "),
    };
    let nodes = view.names(&nodes, start.len());
    writeln!(out, "{}", style::moving(format!("{start}{nodes}")))?;
    writeln!(out)
}

/// Writes the warnings, and what could not be read.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub fn warnings(plan: &ChangePlan, view: &View, err: &mut dyn Write) -> io::Result<()> {
    write_warnings(&plan.warnings, &plan.incomplete, view, err)
}

/// Writes warnings, and what could not be read.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub(super) fn write_warnings(
    warnings: &[Warning],
    incomplete: &[Incomplete],
    view: &View,
    err: &mut dyn Write,
) -> io::Result<()> {
    let warnings = warnings.iter().map(|warning| (&warning.message, warning.fix.as_ref()));
    for (message, fix) in warnings.chain(incomplete.iter().map(|incomplete| (&incomplete.message, None))) {
        let text = format!("warning: {message}");
        hanging(["", "  "], &text, style::plain, view, err)?;
        fix.map_or(Ok(()), |fix| what_to_do(fix, "  ", view, err))?;
    }
    Ok(())
}

/// Writes what the server changed on top of the plan.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub fn made_by_server(plan: &ChangePlan, view: &View, out: &mut dyn Write) -> io::Result<()> {
    if plan.outcome.made_by_server.is_empty() {
        return Ok(());
    }
    writeln!(out, "the server also changed:")?;
    writeln!(out)?;
    changes::write(&plan.outcome.made_by_server, view, out)?;
    writeln!(out)
}

/// Writes what others have changed in a DaemonSet since it was read.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub fn concurrent_edit(title: &str, changes: &[Change], view: &View, err: &mut dyn Write) -> io::Result<()> {
    writeln!(err, "changes to {} since it was read:", view.show(title))?;
    let mut lines = Vec::new();
    changes::write(changes, view, &mut lines)?;
    // Standard error has no color.
    write!(err, "{}", anstream::adapter::strip_str(&String::from_utf8_lossy(&lines)))
}

/// Writes that there is nothing to do.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub fn not_needed(plan: &ChangePlan, view: &View, out: &mut dyn Write) -> io::Result<()> {
    let name = plan.daemon_set.full();
    let text = match (plan.kind, &plan.why) {
        (PlanKind::SetPlan, _) => format!("{name} already has these values; nothing was changed"),
        (PlanKind::PausePlan | PlanKind::ResumePlan, Some(why)) => format!("{name}: {why}; nothing was changed"),
        _ => {
            let revision = plan.to_revision.map_or_else(String::new, |revision| format!(" of revision {revision}"));
            format!("{name} already has the template{revision}; nothing was changed")
        }
    };
    paragraph(&text, style::plain, view, out)
}

/// Writes the outcome, after the sentence that the change was made, and suggests the next commands.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub fn outcome(plan: &ChangePlan, view: &View, out: &mut dyn Write) -> io::Result<()> {
    let outcome = &plan.outcome;
    if outcome.changed_again {
        writeln!(out)?;
        return writeln!(out, "{}", style::moving("the DaemonSet was changed again in the meantime"));
    }
    if !plan.kind.changes_template() {
        writeln!(out)?;
        made_by_server(plan, view, out)?;
        return revert(plan, view, out);
    }
    let number = outcome.revision.unwrap_or_default();
    match plan.to_revision {
        Some(target) if outcome.is_target && target == number => writeln!(out, "; revision {target} is current again")?,
        Some(target) if outcome.is_target => writeln!(out, "; revision {target} is now revision {number}")?,
        Some(target) => writeln!(out, "; the template of revision {target} is now revision {number}")?,
        None => writeln!(out, "; the template is now revision {number}")?,
    }
    if !plan.outcome.made_by_server.is_empty() {
        made_by_server(plan, view, out)?;
    }
    let name = plan.daemon_set.short();
    let on = |arguments: &[&str]| Command::kubectl(arguments).namespace(&plan.daemon_set.namespace);
    if plan.kind == PlanKind::UndoPlan {
        match plan.from_revision {
            // A command that brings back what was just rolled back would be pasted by mistake.
            Some(from) if outcome.can_return => {
                let text = format!("revision {from} is retained; `undo` returns to it only with --to-revision {from}");
                writeln!(out, "{}", style::context(text))?;
            }
            Some(from) => {
                let text = format!("revision {from} is no longer retained (spec.revisionHistoryLimit)");
                writeln!(out, "{}", style::moving(text))?;
            }
            None => {}
        }
    }
    if let Some(pod) = plan.pods_left.first() {
        hint(&Fix::new("to restart one", on(&["delete", "pod"]).name(&pod.pod)), view, out)?;
        if !plan.daemon_set.is_advanced() {
            hint(&Fix::new("one by one", on(&["ds", "partition"]).name(&name).name("0")), view, out)?;
        }
    }
    let waits = |warning: &Warning| warning.code == WarningCode::OnDelete;
    let watch = if !plan.daemon_set.is_advanced() && !plan.warnings.iter().any(waits) {
        on(&["ds", "status"]).switch("--watch").name(name)
    } else {
        on(&["ds", "history"]).name(name)
    };
    hint(&Fix::new("to watch", watch), view, out)
}

/// Writes the command that restores what was before the change.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub fn revert(plan: &ChangePlan, view: &View, out: &mut dyn Write) -> io::Result<()> {
    plan.revert.as_ref().map_or(Ok(()), |fix| hint(fix, view, out))
}

/// Writes a command with what it is for.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub(super) fn hint(fix: &Fix, view: &View, out: &mut dyn Write) -> io::Result<()> {
    const COLUMN: usize = 15;
    let (advice, command) = view.suggest(fix);
    let (advice, command) = (format!("{advice}:"), command.unwrap_or_default());
    if columns(&advice) <= COLUMN || columns(&advice) + 1 + columns(&command) <= view.wrap_width() {
        return writeln!(out, "{} {command}", style::context(format!("{advice:<COLUMN$}")));
    }
    for line in wrap(&advice, view.wrap_width()) {
        writeln!(out, "{}", style::context(line))?;
    }
    writeln!(out, "    {command}")
}
