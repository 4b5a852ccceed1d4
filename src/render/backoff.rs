//! What is backing off after failures.

use super::page::Page;
use super::style;
use super::text::{columns, count};
use crate::report::age::{format_age, seconds_between};
use crate::report::plan::{Attempt, Backoff, ChangePlan, Obstacle, WarningCode};

/// Writes what is backing off, one line per kind of attempt and obstacle to deleting the pods, and how to replace those of the last lines.
pub(super) fn backoffs(plan: &ChangePlan, page: &mut Page<'_>) {
    if plan.backoffs.is_empty() {
        let is_down = plan.warnings.iter().any(|warning| warning.code == WarningCode::ControllerDown);
        let tries = if is_down { "the controller tries nothing until it runs" } else { "nothing is known to back off" };
        page.paragraph(tries, style::context);
    }
    let mut rest: Vec<&Backoff> = plan.backoffs.iter().collect();
    rest.sort_by_key(|it| it.pod.is_some() && it.obstacle.is_none());
    while let Some(first) = rest.first().copied() {
        let is_alike = |other: &&Backoff| (other.attempt, other.obstacle) == (first.attempt, first.obstacle);
        let (alike, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(is_alike);
        let lead = match first.attempt {
            Attempt::CreatePods => created(first).to_owned(),
            Attempt::DeletePods => match first.obstacle {
                Some(_) => {
                    "the API server refused to delete pods, which are not deleted as long as the control plane is down"
                }
                None => "the API server refused to delete pods; the controller tries again now",
            }
            .to_owned(),
            Attempt::StartContainer => format!("{} in CrashLoopBackOff{}", count(alike.len(), "pod"), obstacle(first)),
            Attempt::PullImage => format!("{} in ImagePullBackOff{}", count(alike.len(), "pod"), obstacle(first)),
            Attempt::ReplaceFailedPod => format!("{}{}", count(alike.len(), "failed pod"), obstacle(first)),
        };
        page.hanging(["", "  "], &format!("{lead}; {}", by_itself(&alike, plan)), style::plain);
        let nodes: Vec<String> = alike.iter().filter_map(|it| Some(it.pod.as_ref()?.node.clone())).collect();
        if !nodes.is_empty() {
            let nodes = page.view.names(&nodes, columns("  "));
            page.hanging(["  "; 2], &nodes, style::plain);
        }
        rest = others;
    }
    plan.replace_pods.iter().for_each(|fix| page.what_to_do(fix, "  "));
    writeln!(page);
}

/// Returns what will happen to the refused pods.
fn created(backoff: &Backoff) -> &'static str {
    match backoff.obstacle {
        Some(Obstacle::ControlPlaneDown) => {
            "the API server refused pods, which are not created or do not start as long as the control plane is down"
        }
        Some(_) => {
            "the API server is not known to accept the pods that it refused; the controller tries now all the same"
        }
        None => "the API server refused pods and accepts them now; the controller tries to create them now",
    }
}

/// Returns why the pods should not be deleted.
fn obstacle(backoff: &Backoff) -> String {
    let why = match backoff.obstacle {
        None => return String::new(),
        Some(Obstacle::OtherRevision) => "not known to be of the current revision, so that the new pod may differ",
        Some(Obstacle::OthersRun) => "other containers run, which would be stopped",
        Some(Obstacle::NotRecreated) => "it would not be recreated",
        Some(Obstacle::Paused) => "while the DaemonSet is paused, it may not be recreated",
        Some(Obstacle::NodeNotReady) => "the node is not ready",
        Some(Obstacle::NodeUnknown) => "nodes could not be read",
        Some(Obstacle::CreationRefused) => "the API server refuses new pods",
        Some(Obstacle::ObjectsMissing) => "an object that new pods need does not exist",
        Some(Obstacle::ControlPlaneDown) => "it would not be replaced as long as the control plane is down",
    };
    format!(" (do not delete: {why})")
}

/// Returns the time of the next attempt, if known.
fn by_itself(alike: &[&Backoff], plan: &ChangePlan) -> String {
    let from_now = |at| format_age(seconds_between(plan.now, at));
    if let Some(next) = alike.iter().map(|it| it.next).collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().min())
    {
        return match next > plan.now {
            true => format!("the next attempt by itself is in {}", from_now(next)),
            false => "the next attempt is due".to_owned(),
        };
    }
    match alike.iter().filter_map(|it| it.latest).max().filter(|latest| *latest > plan.now) {
        Some(latest) => format!("the next attempt by itself is presumably within {}", from_now(latest)),
        None => "when the next attempt by itself would be is not known".to_owned(),
    }
}
