//! Errors of commands that suspend or restore the update strategy, if that is refused or another client interferes.

use super::history::not_there;
use super::not_applied::who_keeps;
use crate::error::{CommandError, Exit};
use crate::facts::revisions::{Address, Revisions, name_of};
use crate::model::daemon_set::{DaemonSet, RollingUpdate, UpdateStrategy};
use crate::model::hold::{Hold, live_strategy};
use crate::model::int_or_percent::IntOrPercent;
use crate::model::template_parts::containers;
use crate::plan::{Plan, SpecFields, StrategyType};
use crate::render::text::{count, some_of};
use crate::report::fix::{Command, Fix};
use crate::report::history::DaemonSetName;
use crate::report::partition::SKIP_LABEL;
use crate::report::plan::Warning;
use crate::report::{count_and, named};
use crate::rollout::effect::SurgePods;
use crate::rollout::partition::instruction::Loss;
use crate::rollout::partition::plan::{StageRefusal, StageRequest};
use crate::rollout::partition::way_out::Continued;
use crate::rollout::set;

/// The width in columns of a list of nodes.
const LINE: usize = 60;

const SUSPENDED: &str = "no pod was deleted, and the update strategy is suspended";

/// Builds the error for a DaemonSet whose update strategy another manager decides about.
pub(super) fn held_by(daemon_set: &DaemonSetName, holder: &str, instead: &str) -> CommandError {
    CommandError::new(format!("the update strategy of {} is managed by {holder}", daemon_set.title())).hint(instead)
}

/// Builds the error for a flag of `partition`, for a DaemonSet whose pods this program does not replace.
pub(super) fn advanced(flag: &str) -> CommandError {
    CommandError::usage(format!("{flag} does not work with Advanced DaemonSets of OpenKruise"))
        .hint("their controller chooses the nodes and replaces the pods")
}

/// Builds the error for a restart with gates, for a DaemonSet that is held for another reason.
pub(super) fn held_otherwise(name: &DaemonSetName) -> CommandError {
    let message = format!(
        "{} is paused or partitioned: a restart would update all its nodes, and restore the update strategy",
        name.title()
    );
    let status = name.command("status");
    CommandError::new(message).hint(Fix::new("end that first; to see how far it is, and how to continue", status))
}

/// Builds the error for a stage whose rollback has begun, to the revision with this number if that is known, after somebody has changed
/// the template.
pub(super) fn overtaken(name: &DaemonSetName, back_to: Option<i64>) -> CommandError {
    let message =
        format!("a rollback of {} has begun, and the template was changed since; nothing is rolled out", name.title());
    let finish = back_to.map(|number| Fix::new("to finish the rollback", name.undo(number)));
    let status = Fix::new("to see what the template is, and how to continue", name.command("status"));
    CommandError::new(message).exit(Exit::No).unchanged().hints(finish).hint(status)
}

/// Builds the error for a change that ends surge on nodes with two pods.
pub(super) fn surge_pods(SurgePods { pods, may_pass }: &SurgePods, otherwise: impl Into<Fix>) -> CommandError {
    let all: Vec<String> = pods.iter().map(|pod| format!("{} on {}", pod.pod, pod.node)).collect();
    let nodes = count_and(pods.len(), "node", ["has", "have"]);
    let message =
        format!("{nodes} two pods, and without surge the controller deletes the newer one of each: {}", named(&all));
    CommandError::new(message).hint(otherwise.into().after(match may_pass {
        true => "if the newer pods become ready, wait until the rollout is complete",
        false => "the rollout is stuck, so the newer pods stay until they are deleted",
    }))
}

/// Builds the error for a change after which more pods would become unavailable, and stay so.
pub(super) fn worse(warnings: Vec<Warning>) -> CommandError {
    let messages: Vec<String> = warnings.iter().map(|warning| warning.message.replace(['\r', '\n'], " ")).collect();
    CommandError::new(format!("that would make things worse: {}", messages.join("; ")))
        .hints(warnings.into_iter().filter_map(|warning| warning.fix))
}

/// Builds the error for a stage that is not possible as requested.
pub(super) fn partition(revisions: &Revisions<'_>, request: &StageRequest, refusal: StageRefusal) -> CommandError {
    let name = name_of(revisions.daemon_set);
    let title = name.title();
    match refusal {
        StageRefusal::HeldBy(holder) => held_by(&name, &holder, "stage the rollout there"),
        StageRefusal::SurgePods(pods) => surge_pods(&pods, "to begin at once, add --delete-surge-pods"),
        StageRefusal::Unknown(gaps) => {
            CommandError::new(format!("not enough is known of {title} to choose nodes")).hints(gaps)
        }
        StageRefusal::StrategyPutBack => {
            let message = format!(
                "the update strategy of {title} was restored while it was partitioned, so the controller replaces all pods"
            );
            suspend_again(CommandError::new(message), &name, Continued::of_request(&name, request).again())
                .hint(Fix::new("to let the controller finish", name.command("resume")))
        }
        StageRefusal::NoTemplate(number, unknown) => not_there(revisions, Address::Number(number), unknown),
        StageRefusal::NoSuchContainer(container) => {
            let names: Vec<&str> =
                containers(revisions.live.value()).filter_map(|container| container["name"].as_str()).collect();
            CommandError::new(format!("the template of {title} has no container {container:?}"))
                .hint(format!("its containers: {}", names.join(", ")))
        }
        StageRefusal::OtherManifest(other) => {
            CommandError::new(format!("the manifest is for {}, not for {title}", other.title()))
                .hint("give the manifest, the name and the namespace of the same DaemonSet")
        }
        StageRefusal::SelectorMismatch => {
            CommandError::new(format!("the labels of the manifest's template do not match the selector of {title}"))
                .hint("the selector of a DaemonSet cannot be changed")
        }
        StageRefusal::NoNodes { with_pods } => {
            let error = CommandError::new(format!(
                "no node is eligible for {title} with this template, so no stage can hold it"
            ));
            match with_pods.as_slice() {
                [] => error.hint("to change it all the same, use `set`, `kubectl set image` or `kubectl apply`"),
                nodes => error.hint(format!("nodes with its pods: {}", some_of(nodes, LINE))),
            }
        }
        StageRefusal::NoSuchNode(node) => CommandError::new(format!("node {node:?} is not eligible for {title}")),
        StageRefusal::TooFewNodes { needed, found, not_ready, skipped } => {
            let needed = count(needed, "node");
            let error = CommandError::new(format!("{needed} must be updated, but only {found} can be"));
            let hints = [
                (&not_ready, "not ready".to_owned()),
                (&skipped, format!("skipped because of the label {SKIP_LABEL}")),
            ];
            let hints = hints.into_iter().filter(|(nodes, _)| !nodes.is_empty());
            let error = error.hints(hints.map(|(nodes, why)| format!("{why}: {}", some_of(nodes, LINE))));
            match not_ready.is_empty() && skipped.is_empty() {
                true => error.hint("only nodes that match and have a pod of another revision can be updated"),
                false => error,
            }
        }
        StageRefusal::NoBudget { unavailable, allowed, enough } => {
            let nodes = count_and(unavailable.len(), "node", ["has", "have"]);
            let at_most = count(allowed, "node");
            let message = format!(
                "no pod could be replaced: {nodes} no available pod, which this stage would not change ({}), and at most \
                 {at_most} may be without one",
                some_of(&unavailable, LINE)
            );
            CommandError::new(message)
                .unchanged()
                .hint("the stage can begin once they have an available pod, or are removed from the cluster")
                .hint(format!(
                    "to update the others meanwhile, add --max-unavailable {enough}, which does not count nodes whose old pod was \
                     unavailable before this run"
                ))
        }
        StageRefusal::BroadCanary { nodes, desired, stratum, values } => {
            let message = format!(
                "the canary would have {nodes} of {desired} nodes: {stratum} alone has {values} values, each of which needs a node"
            );
            CommandError::new(message).hint(
                "give --strata with what many nodes have in common, such as zone,kernel,instance-type, or begin with a number of \
                 nodes, such as --stages 5,10%,100%",
            )
        }
        StageRefusal::SeveralBudgets(budgets) => {
            let message = format!(
                "no pod of {title} can be evicted: more than one PodDisruptionBudget matches them ({})",
                some_of(&budgets, LINE)
            );
            CommandError::new(message).hint(
                "the API server refuses to evict such pods; change the selector of a budget, or leave out --evict, which \
                 bypasses them",
            )
        }
        StageRefusal::BudgetFails { budget, why } => {
            let message = format!(
                "no pod of {title} can be evicted: poddisruptionbudget {budget} allows none, because it cannot be computed: {why}"
            );
            CommandError::new(message).hint(
                "for the pods of a DaemonSet, set minAvailable of the budget to a number, neither a percentage nor maxUnavailable; or leave \
                 out --evict, which bypasses it",
            )
        }
        StageRefusal::Worse(warnings) => match Continued::of_request(&name, request).again() {
            Some(undo) if request.is_undo() => {
                worse(warnings).hint(Fix::new("to roll back anyway", undo.switch("--force")))
            }
            _ => worse(warnings).hint("to begin anyway, add --force"),
        },
        StageRefusal::Deleting => CommandError::new(format!("{title} is being deleted")),
    }
}

/// Adds to the error for a hold that is not in force what the controller does, and how to stop it; `back_to` is the
/// revision that the nodes had before.
pub(super) fn not_held(error: CommandError, name: &DaemonSetName, back_to: Option<i64>) -> CommandError {
    error
        .hint("the controller is replacing all pods of older revisions now, within maxUnavailable")
        .hint(Fix::new("to stop it, roll back", undo(name, back_to)))
}

/// Adds to the error for a pause that is not in force what the controller does, if anything, and how to stop it.
pub(super) fn not_paused(error: CommandError, before: &DaemonSet) -> CommandError {
    let name = name_of(before);
    match nothing_is_outdated(before) {
        true => nothing_held(error, &name, "no pod is of an older revision, so none is replaced"),
        false => not_held(error, &name, None),
    }
}

/// Adds to the error for a hold that is not in force why no pod is replaced all the same, and how to remove the rest of it.
pub(super) fn nothing_held(error: CommandError, name: &DaemonSetName, why: &str) -> CommandError {
    error.hint(why).hint(Fix::new("to remove the annotations of the hold", name.command("resume")))
}

/// Returns whether, according to its status, no pod of a DaemonSet has an older revision.
fn nothing_is_outdated(daemon_set: &DaemonSet) -> bool {
    let status = &daemon_set.status;
    daemon_set.is_observed() && status.updated_number_scheduled >= status.desired_number_scheduled
}

/// Adds to the error for a hold that lacks an annotation what is stored, and how to restore the update strategy: a repeated command would
/// mistake the suspended one for the original.
pub(super) fn half_held(error: CommandError, before: &DaemonSet, now: &DaemonSet) -> CommandError {
    let (name, error) = (name_of(before), error.exit(Exit::OutcomeUnknown));
    // With any annotation of the hold, it counts as paused. Without, `resume` does nothing, nor is what was suspended before recorded.
    let is_lost = Hold::of(now).is_none();
    let original = resumed(before).unwrap_or_else(|| before.clone());
    let fields = SpecFields::of(&original).different_from(SpecFields::of(now));
    if is_lost && fields == SpecFields::default() {
        return error.hint("the update strategy is as it was before this command, and no pod was replaced");
    }
    let restore = if is_lost { set::command(&name, fields) } else { name.command("resume") };
    let error = error.hint("the update strategy is suspended all the same, and no pod was replaced");
    if !is_lost || now.template().same_meaning(&before.template()) {
        return error.hint(Fix::new("to restore it", restore));
    }
    let advice = "the new template is stored, which the controller then rolls out to all nodes, without gates; to restore the strategy";
    error
        .hint(Fix::new("to take the new template back first", name.command("undo")))
        .hint(Fix::new(advice, restore))
        .hint(Fix::new("to see the new template", name.command("history").switch("--diff")))
}

/// Builds the error for a resumption of which no annotation says what was suspended.
pub(super) fn lost_hold(daemon_set: &DaemonSet) -> CommandError {
    let name = name_of(daemon_set);
    let message = format!(
        "the update strategy of {} is OnDelete, which kubectl-ds has set, and no annotation says what it was before",
        name.title()
    );
    let live = live_strategy(daemon_set);
    let stored = if live["rollingUpdate"].is_object() {
        let RollingUpdate { max_unavailable, max_surge, .. } = RollingUpdate::retained(&live);
        format!(", with the stored maxUnavailable of {max_unavailable} and maxSurge of {max_surge}")
    } else {
        String::new()
    };
    let fields = SpecFields { strategy_type: Some(StrategyType::RollingUpdate), ..SpecFields::default() };
    CommandError::new(message)
        .unchanged()
        .hint(who_keeps().after("if the rollout was paused or partitioned, something has removed the annotations"))
        .hint(Fix::new(format!("to make it a rolling update again{stored}"), set::command(&name, fields)))
}

/// Returns a DaemonSet whose hold has ended.
fn resumed(held: &DaemonSet) -> Option<DaemonSet> {
    DaemonSet::from_object(Plan::resume(held).applied_to(&held.object).ok()?).ok()
}

/// Adds to the error for a hold whose template was dropped how to continue.
pub(super) fn template_dropped(error: CommandError, before: &DaemonSet, continued: Fix) -> CommandError {
    let name = name_of(before);
    let status = name.command("status");
    let is_told = continued.command.as_ref() == Some(&status);
    let error = error.hint(continued.after(SUSPENDED));
    let is_on_delete = before.spec.update_strategy == UpdateStrategy::OnDelete;
    match Hold::in_force(before) {
        // It would let the controller roll out the template from before this run, such as the one that an undo was to replace.
        Some(_) => error,
        None if is_on_delete || nothing_is_outdated(before) => {
            error.hint(Fix::new("to restore it", name.command("resume")))
        }
        // The same, for the template that the controller was rolling out.
        None if is_told => error,
        None => error.hint(Fix::new("to see how far the rollout is, and how to continue", status)),
    }
}

/// Adds to the error for an Advanced DaemonSet whose partition was set, but whose template was dropped, what its controller does.
pub(super) fn only_partitioned(error: CommandError, before: &DaemonSet, now: &DaemonSet) -> CommandError {
    let name = name_of(before);
    let partition = |daemon_set: &DaemonSet| match &daemon_set.spec.update_strategy {
        UpdateStrategy::RollingUpdate(rolling) => rolling.partition.unwrap_or(IntOrPercent::Int(0)),
        UpdateStrategy::OnDelete | UpdateStrategy::Unknown(_) => IntOrPercent::Int(0),
    };
    let error = error.hint("the partition is set, and the controller continues with the current template");
    let error = match partition(before) {
        old if old == partition(now) => error,
        old => {
            let back = name.command("partition").name(old.to_string());
            error.hint(Fix::new("to set the partition as it was", back))
        }
    };
    error.hint(Fix::new("to see how far it is", name.command("status")))
}

/// Adds to the error for a hold that was to end, but only lost its annotations, how to restore the update strategy.
pub(super) fn not_restored(error: CommandError, held: &DaemonSet, kept: &DaemonSet) -> CommandError {
    let Some(resumed) = resumed(held) else { return error };
    let fields = SpecFields::of(&resumed).different_from(SpecFields::of(kept));
    // The hold has ended, but the strategy is not restored.
    let error = error.exit(Exit::OutcomeUnknown).hint("the annotations that kept the original strategy were removed");
    match fields == SpecFields::default() {
        true => error,
        false => error.hint(Fix::new("to restore it once that is allowed", set::command(&name_of(held), fields))),
    }
}

/// Builds the error for a stage whose template admission drops, according to a dry run.
pub(super) fn template_kept(revisions: &Revisions<'_>, request: &StageRequest) -> CommandError {
    let (name, hold) = (name_of(revisions.daemon_set), Hold::in_force(revisions.daemon_set));
    let current = revisions.current().map(|current| current.object.hash());
    // The template may be the one that an undo was to replace.
    let (is_held, lacks_template) = (hold.is_some(), hold.is_some_and(|hold| hold.lacks_template(current)));
    let title = name.title();
    let undo = request.undone_revision();
    let cannot = if let Some(number) = undo { &format!("become that of revision {number}") } else { "be changed" };
    let message =
        format!("the template of {title} cannot {cannot}: an admission webhook or a policy keeps it as it is");
    let error = CommandError::new(message);
    let error = match is_held {
        true => error
            .unchanged()
            .hint("the update strategy stays suspended")
            .hint(Fix::new("to see how far the rollout is, and how to continue", name.command("status"))),
        false => error.unchanged(),
    };
    let error = match undo {
        None if is_held && !lacks_template => error.hint(
            "to continue a stage with the template that is there, leave out --image, --filename or --to-revision",
        ),
        _ => error,
    };
    error.hint(who_keeps())
}

/// Builds the error for a template that differs from the displayed one; `continued` is `None` if that would happen
/// again, and `why` is why the stage cannot continue with it.
pub(super) fn template_altered(
    name: &DaemonSetName,
    continued: Option<Fix>,
    why: Option<CommandError>,
) -> CommandError {
    let message = format!(
        "the template of {} differs from the one that was shown: an admission webhook or a policy has changed it",
        name.title()
    );
    let continued = continued.unwrap_or_else(|| {
        let advice = "no stage can continue while it makes another one each time; to see how to continue then";
        Fix::new(advice, name.command("status"))
    });
    let error = CommandError::new(message).hint(continued.after(SUSPENDED));
    let error = match why {
        Some(why) => error.hint(format!("a stage of it is not possible: {why}")).hints(why.hints),
        None => error,
    };
    error.hint(who_keeps())
}

/// Builds the error for a hold that is not ended, because admission would change the template along with it.
pub(super) fn template_would_change(name: &DaemonSetName, hold: &Hold) -> CommandError {
    let rolled_out = match hold.original_strategy() {
        UpdateStrategy::OnDelete => "",
        _ => ", and the controller would roll that out",
    };
    let message = format!(
        "the update strategy of {} is not restored: an admission webhook or a policy would also change the template{rolled_out}",
        name.title()
    );
    let resume = Fix::new("to do it anyway", name.command("resume"));
    CommandError::new(message)
        .hint(resume.after("no ready node is left to update, and the strategy stays suspended"))
        .hint(who_keeps())
}

/// Builds the error for a hold that has ended, but admission has changed the template along with it, or others have since.
pub(super) fn template_has_changed(name: &DaemonSetName, hold: &Hold, by_others: bool) -> CommandError {
    let error = match hold.original_strategy() {
        // The controller replaces no pods.
        UpdateStrategy::OnDelete => {
            let title = name.title();
            CommandError::new(format!("the template of {title} was changed when its update strategy was restored"))
                .hint("the update strategy is OnDelete again: pods get that template when they are deleted")
        }
        _ => lost(name, Loss::AllChanged, None, None),
    };
    error.hints((!by_others).then(who_keeps))
}

/// Builds the error for a DaemonSet that this client no longer holds; `again` continues its stage, and `back_to` is the
/// revision that the nodes had before.
pub(super) fn lost(name: &DaemonSetName, loss: Loss, again: Option<Command>, back_to: Option<i64>) -> CommandError {
    let title = name.title();
    let is_advanced = name.is_advanced();
    let stopped = if is_advanced { "this run no longer follows it" } else { "this run has stopped replacing pods" };
    match loss {
        Loss::TemplateChanged if is_advanced => {
            let message = format!("the template of {title} was changed; the controller rolls it out, and {stopped}");
            let error = CommandError::new(message).hint(Fix::new("to stop it", name.command("pause")));
            error.hint(Fix::new("to see how far it is", name.command("status")))
        }
        Loss::Deleted => CommandError::new(format!("{title} was deleted; {stopped}")),
        Loss::Recreated => CommandError::new(format!("{title} was deleted and recreated; {stopped}")),
        Loss::StrategyPutBack => {
            let message = format!(
                "the update strategy of {title} was restored, so the controller is replacing all pods now; {stopped}"
            );
            let error = suspend_again(CommandError::new(message), name, again);
            let error = error.hint(Fix::new("if the strategy is restored once more, roll back", undo(name, back_to)));
            error.hint(Fix::new("to let the controller update all nodes", name.command("resume")))
        }
        Loss::AllChanged => {
            let message = format!(
                "the update strategy and the template of {title} were changed, so the controller replaces the pods that do not \
                 have the current template; {stopped}"
            );
            CommandError::new(message)
                .hint(Fix::new("to see how far it is", name.command("status")))
                .hint(Fix::new("to stop the controller", name.command("pause")))
        }
        Loss::TakenOver => {
            CommandError::new(format!("{title} was paused, or is partitioned by another client; {stopped}"))
                .hint(Fix::new("to see how far it is", name.command("status")))
        }
        Loss::AnnotationsRemoved { .. } => {
            let message =
                format!("the annotations by which the rollout of {title} is continued were removed; {stopped}");
            CommandError::new(message)
                .hint("the update strategy is still OnDelete, so the controller replaces no pod until it is deleted")
                .hint(Fix::new("to see how far it is", name.command("status")))
        }
        Loss::TemplateChanged => {
            let error = CommandError::new(format!("the template of {title} was changed; {stopped}"));
            // It may be the one from before this rollout, or one that a rollback was to replace.
            let status = Fix::new("to see what it is, and how to continue", name.command("status"));
            error.hint(status.after("the update strategy stays suspended"))
        }
        Loss::Unknown => CommandError::new(format!("the nodes and pods of {title} can no longer be read; {stopped}")),
    }
}

/// Adds how to stop the controller after the strategy was restored, and how to continue then.
fn suspend_again(error: CommandError, name: &DaemonSetName, again: Option<Command>) -> CommandError {
    let error = error.hint(Fix::new("to stop it", name.command("pause")));
    error.hints(again.map(|again| Fix::new("then, to continue", again)))
}

fn undo(name: &DaemonSetName, back_to: Option<i64>) -> Command {
    back_to.map_or_else(|| name.command("undo"), |number| name.undo(number))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{CommandError, only_partitioned};
    use crate::model::daemon_set::DaemonSet;

    #[test]
    fn an_advanced_daemon_set_is_not_suspended_while_its_template_is_dropped() {
        let at = |partition: i64| {
            DaemonSet::from_object(json!({
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet",
                "metadata": {"namespace": "team", "name": "agent"},
                "spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}},
            }))
            .unwrap()
        };
        let commands = |old, new| {
            let error = only_partitioned(CommandError::new("kept"), &at(old), &at(new));
            error.hints.into_iter().filter_map(|fix| fix.command).map(|it| it.to_string()).collect::<Vec<_>>()
        };
        let (back, status) = ("kubectl ds partition -n team ads/agent 5", "kubectl ds status -n team ads/agent");
        assert_eq!(commands(5, 0), [back, status]);
        assert_eq!(commands(0, 0), [status]);
    }
}
