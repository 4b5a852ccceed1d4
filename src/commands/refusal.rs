//! Errors of commands that suspend or restore the update strategy, if that is refused or somebody else interferes.

use super::history::existing;
use crate::error::CommandError;
use crate::facts::revisions::{Revisions, name_of};
use crate::render::text::{count, some_of};
use crate::render::view::View;
use crate::report::history::{DaemonSetName, Subcommand};
use crate::report::partition::SKIP_LABEL;
use crate::rollout::effect::SurgePods;
use crate::rollout::partition::next_step::Loss;
use crate::rollout::partition::plan::Refusal;

/// The width in columns of a list of nodes.
const LINE: usize = 60;

/// Builds the error of a DaemonSet whose update strategy somebody else decides about.
pub(super) fn held_by(daemon_set: &DaemonSetName, holder: &str, instead: &str) -> CommandError {
    CommandError::new(format!("the update strategy of {} is managed by {holder}", daemon_set.title())).hint(instead)
}

/// Builds the error of a change that ends surge on nodes with two pods.
pub(super) fn surge_pods(SurgePods { pods, may_pass }: &SurgePods, otherwise: &str) -> CommandError {
    let shown: Vec<String> = pods.iter().take(3).map(|pod| format!("{} on {}", pod.pod, pod.node)).collect();
    let more = if pods.len() > shown.len() { ", ..." } else { "" };
    let nodes = if pods.len() == 1 { "1 node has".to_owned() } else { format!("{} nodes have", pods.len()) };
    let message = format!(
        "{nodes} two pods, and without surge the controller deletes the newer one of each: {}{more}",
        shown.join(", ")
    );
    CommandError::new(message).hint(match may_pass {
        true => format!("wait until the rollout is complete, or {otherwise}"),
        false => format!("the rollout is stuck, so the newer pods stay until they are deleted: {otherwise}"),
    })
}

/// Builds the error of a stage that cannot be as requested.
pub(super) fn partition(revisions: &Revisions<'_>, refusal: Refusal, view: &View) -> CommandError {
    let name = name_of(revisions.daemon_set);
    let title = name.title();
    match refusal {
        Refusal::HeldBy(holder) => held_by(&name, &holder, "stage the rollout there"),
        Refusal::SurgePods(pods) => surge_pods(&pods, "begin at once with --delete-surge-pods"),
        Refusal::Unknown(gaps) => {
            let error = CommandError::new(format!("not enough is known of {title} to choose nodes"));
            gaps.into_iter().fold(error, CommandError::hint)
        }
        Refusal::StrategyPutBack => {
            CommandError::new(format!("the update strategy of {title} was restored while it was partitioned"))
                .hint(view.command("to suspend it again", &name.command(Subcommand::Pause)))
                .hint(view.command("to let the controller finish", &name.command(Subcommand::Resume)))
        }
        Refusal::NoSuchRevision(number) => {
            CommandError::new(format!("revision {number} of {title} not found, or cannot be read"))
                .hint(existing(revisions))
        }
        Refusal::NoSuchContainer(container) => {
            CommandError::new(format!("the template of {title} has no container {container:?}"))
        }
        Refusal::OtherManifest(other) => {
            CommandError::new(format!("the manifest is for {}, not for {title}", other.title()))
                .hint("give the manifest, the name and the namespace of the same DaemonSet")
        }
        Refusal::SelectorMismatch => {
            CommandError::new(format!("the labels of the manifest's template do not match the selector of {title}"))
                .hint("the selector of a DaemonSet cannot be changed")
        }
        Refusal::NoSuchNode(node) => CommandError::new(format!("node {node:?} is not eligible for {title}")),
        Refusal::TooFewNodes { needed, found, not_ready, skipped } => {
            let needed = count(needed, "node");
            let error = CommandError::new(format!("{needed} must be updated, but only {found} can be"));
            let hints = [
                (&not_ready, "not ready".to_owned()),
                (&skipped, format!("skipped because of the label {SKIP_LABEL}")),
            ];
            let hints = hints.into_iter().filter(|(nodes, _)| !nodes.is_empty());
            let error = hints.fold(error, |error, (nodes, why)| error.hint(format!("{why}: {}", some_of(nodes, LINE))));
            match not_ready.is_empty() && skipped.is_empty() {
                true => error.hint("only nodes that match and have a pod of another revision can be updated"),
                false => error,
            }
        }
        Refusal::NoBudget { not_ready, allowed } => {
            let nodes = if not_ready.len() == 1 { "1 node is" } else { &format!("{} nodes are", not_ready.len()) };
            let at_most = count(allowed, "node");
            let message = format!(
                "no pod could be replaced: {nodes} not ready and without an available pod ({}), and at most {at_most} may be",
                some_of(&not_ready, LINE)
            );
            CommandError::new(message)
                .hint("nothing was changed; the stage can begin once they are ready again, or removed from the cluster")
                .hint(
                    "to update the others meanwhile, add --max-unavailable 1, which counts only nodes that become unavailable \
                     in this run",
                )
        }
        Refusal::Deleting => CommandError::new(format!("{title} is being deleted")),
    }
}

/// Adds to the error of a hold that is not in force what the controller does, and how to stop it; `back_to` is the revision
/// that the nodes had before.
pub(super) fn not_held(error: CommandError, name: &DaemonSetName, back_to: Option<i64>, view: &View) -> CommandError {
    let mut back = name.command(Subcommand::Undo);
    if let Some(number) = back_to {
        back = back.flag("--to-revision", number.to_string());
    }
    error
        .hint("the controller is replacing all pods of older revisions now, within maxUnavailable")
        .hint(view.command("to stop it, roll back", &back))
}

/// Builds the error of a DaemonSet that this client no longer holds.
pub(super) fn lost(name: &DaemonSetName, loss: Loss, view: &View) -> CommandError {
    let title = name.title();
    let stopped = "this run has stopped replacing pods";
    match loss {
        Loss::Deleted => CommandError::new(format!("{title} was deleted; {stopped}")),
        Loss::Recreated => CommandError::new(format!("{title} was deleted and recreated; {stopped}")),
        Loss::StrategyPutBack => {
            let message = format!(
                "the update strategy of {title} was restored, so the controller is replacing all pods now; {stopped}"
            );
            CommandError::new(message).hint(view.command("to suspend it again", &name.command(Subcommand::Pause)))
        }
        Loss::TakenOver => {
            CommandError::new(format!("{title} was paused, or is partitioned by another client; {stopped}"))
        }
        Loss::TemplateChanged => CommandError::new(format!("the template of {title} was changed; {stopped}")).hint(
            "to roll out the present template, run the command again without --image, --to-revision and --filename",
        ),
        Loss::Unknown => CommandError::new(format!("the nodes and pods of {title} can no longer be read; {stopped}")),
    }
}
