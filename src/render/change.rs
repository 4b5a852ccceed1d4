//! A change to a DaemonSet: the plan, its warnings and its outcome.

use super::list::age;
use super::page::Page;
use super::{backoff, changes, effect, style};
use crate::report::change::Change;
use crate::report::coverage::Incomplete;
use crate::report::fix::{Command, Fix};
use crate::report::plan::{ChangePlan, PlanKind, PodOnNode, Warning, WarningCode};

/// Writes the plan.
pub fn plan(plan: &ChangePlan, page: &mut Page<'_>) {
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
        PlanKind::RetryPlan => format!("{name} will be retried"),
    };
    page.paragraph(&text, style::summary);
    if let Some(effect) = &plan.effect {
        effect::nodes(&effect.nodes_gained, &effect.nodes_lost, page);
    }
    if let Some(why) = &plan.why {
        page.paragraph(why, style::context);
    }
    if !plan.changes.is_empty() {
        writeln!(page);
        changes::write(&plan.changes, page);
    }
    if let Some(effect) = &plan.effect {
        effect::write(effect, plan.kind, &plan.changes, page);
    }
    writeln!(page);
    if plan.kind == PlanKind::RetryPlan {
        backoff::backoffs(plan, page);
    }
    left(&plan.pods_left, page)
}

fn rolled_out(plan: &ChangePlan) -> String {
    plan.rolled_out_at.map_or_else(String::new, |at| format!(" (rolled out {} ago)", age(Some(at), plan.now)))
}

fn from(plan: &ChangePlan) -> String {
    match (plan.kind, plan.from_revision) {
        (PlanKind::UndoPlan, Some(from)) => format!(" from revision {from}"),
        (PlanKind::UndoPlan, None) => " from a template that has no revision yet".to_owned(),
        (PlanKind::RestartPlan, Some(from)) => format!(" (revision {from})"),
        (PlanKind::RestartPlan, None)
        | (PlanKind::SetPlan | PlanKind::PausePlan | PlanKind::ResumePlan | PlanKind::RetryPlan, _) => String::new(),
    }
}

/// Writes which pods keep their template.
fn left(pods: &[PodOnNode], page: &mut Page<'_>) {
    let view = page.view;
    if pods.is_empty() {
        return;
    }
    let mut nodes: Vec<String> = pods.iter().map(|pod| pod.node.clone()).filter(|node| !node.is_empty()).collect();
    nodes.dedup();
    let start = match pods.len() {
        1 => "1 pod keeps its template until it is deleted: ".to_owned(),
        pods => format!("{pods} pods keep their template until they are deleted: "),
    };
    let nodes = view.names(&nodes, start.len());
    writeln!(page, "{}", style::in_progress(format!("{start}{nodes}")));
    writeln!(page)
}

/// Writes warnings, and what could not be read.
pub fn warnings(warnings: &[Warning], incomplete: &[Incomplete], page: &mut Page<'_>) {
    let warnings = warnings.iter().map(|warning| (warning.message.clone(), warning.fix.as_ref()));
    for (message, fix) in warnings.chain(Incomplete::sentences(incomplete).into_iter().map(|gap| (gap, None))) {
        let text = format!("warning: {message}");
        page.hanging(["", "  "], &text, style::plain);
        fix.into_iter().for_each(|fix| page.what_to_do(fix, "  "));
    }
}

/// Writes what the server changed on top of the plan.
pub fn made_by_server(plan: &ChangePlan, page: &mut Page<'_>) {
    write_made("the server also changed:", &plan.outcome.made_by_server, page)
}

/// Writes the server's changes below a line, if there are any.
pub(super) fn write_made(head: &str, made: &[Change], page: &mut Page<'_>) {
    if made.is_empty() {
        return;
    }
    writeln!(page, "{head}");
    writeln!(page);
    changes::write(made, page);
    writeln!(page)
}

/// Writes what others have changed in a DaemonSet since it was read.
pub fn concurrent_edit(title: &str, changes: &[Change], page: &mut Page<'_>) {
    writeln!(page, "changes to {} since it was read:", page.view.show(title));
    let lines = page.view.text(|page| changes::write(changes, page));
    // Standard error is not colored.
    write!(page, "{}", anstream::adapter::strip_str(&lines));
}

/// Writes that there is nothing to do.
pub fn not_needed(plan: &ChangePlan, page: &mut Page<'_>) {
    let name = plan.daemon_set.full();
    let text = match (plan.kind, &plan.why) {
        (PlanKind::RetryPlan, Some(why)) => {
            page.paragraph(&format!("{name}: {why}; nothing was changed"), style::plain);
            if !plan.backoffs.is_empty() {
                writeln!(page);
                backoff::backoffs(plan, page);
            }
            return;
        }
        (PlanKind::RetryPlan, None) => format!("{name} was retried within this second; nothing was changed"),
        (PlanKind::SetPlan, _) => format!("{name} already has these values; nothing was changed"),
        (PlanKind::UndoPlan, Some(why)) => format!("{name}: {why}, whose template it has; nothing was changed"),
        (PlanKind::PausePlan | PlanKind::ResumePlan, Some(why)) => format!("{name}: {why}; nothing was changed"),
        _ => {
            let revision = plan.to_revision.map_or_else(String::new, |revision| format!(" of revision {revision}"));
            format!("{name} already has the template{revision}; nothing was changed")
        }
    };
    page.paragraph(&text, style::plain)
}

/// Writes the outcome, after the sentence that the change was made, and suggests the next commands; the one to watch
/// the rollout only if it is not being watched.
pub fn outcome(plan: &ChangePlan, is_watched: bool, page: &mut Page<'_>) {
    let outcome = &plan.outcome;
    if outcome.changed_again {
        writeln!(page);
        return writeln!(page, "{}", style::in_progress("the DaemonSet was changed again in the meantime"));
    }
    if !plan.kind.changes_template() {
        writeln!(page);
        return revert(plan, page);
    }
    let number = outcome.revision.unwrap_or_default();
    match plan.to_revision {
        Some(target) if outcome.is_target && target == number => {
            writeln!(page, "; revision {target} is current again")
        }
        Some(target) if outcome.is_target => writeln!(page, "; revision {target} is now revision {number}"),
        Some(target) => writeln!(page, "; the template of revision {target} is now revision {number}"),
        None => writeln!(page, "; the template is now revision {number}"),
    }
    made_by_server(plan, page);
    let name = plan.daemon_set.short();
    let on = |arguments: &[&str]| Command::kubectl(arguments).namespace(&plan.daemon_set.namespace);
    if plan.kind == PlanKind::UndoPlan {
        let text = plan.from_revision.map(|from| match outcome.can_return {
            // A command that restores what was just rolled back would be pasted by mistake. A template that was never
            // there before cannot be recognized as a rollback.
            true if !outcome.is_target => {
                style::in_progress(format!("revision {from} is retained, and the next `undo` may return to it"))
            }
            true => style::context(format!(
                "revision {from} is retained; `undo` returns to it only with --to-revision {from}"
            )),
            false => style::in_progress(format!("revision {from} is no longer retained (spec.revisionHistoryLimit)")),
        });
        text.iter().for_each(|text| writeln!(page, "{text}"));
    }
    if let Some(pod) = plan.pods_left.first() {
        page.hint(&Fix::new("to restart one", on(&["delete", "pod"]).name(&pod.pod)));
        if !plan.daemon_set.is_advanced() {
            page.hint(&Fix::new("one by one", on(&["ds", "partition"]).name(&name).name("0")));
        }
    }
    if is_watched {
        return;
    }
    let waits = |warning: &Warning| warning.code == WarningCode::OnDelete;
    page.hint(&if !plan.daemon_set.is_advanced() && !plan.warnings.iter().any(waits) {
        Fix::new("to watch", on(&["ds", "status"]).switch("--watch").name(name))
    } else {
        Fix::new("revisions", on(&["ds", "history"]).name(name))
    })
}

/// Writes what the server stored in addition to the change, and the command that restores the previous state.
pub fn revert(plan: &ChangePlan, page: &mut Page<'_>) {
    made_by_server(plan, page);
    plan.revert.iter().for_each(|fix| page.hint(fix));
}
