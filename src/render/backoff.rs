//! What backs off after failures.

use super::page::Page;
use super::style;
use super::text::{columns, count};
use crate::report::age::{format_age, seconds_between};
use crate::report::plan::{Attempt, Backoff, ChangePlan, LeftBecause};

/// Writes what backs off, a line for each kind of attempt and what is done about it.
pub(super) fn backoffs(plan: &ChangePlan, page: &mut Page<'_>) {
    if plan.backoffs.is_empty() {
        page.paragraph("nothing is known to back off", style::context);
    }
    let mut rest: Vec<&Backoff> = plan.backoffs.iter().collect();
    while let Some(first) = rest.first().copied() {
        let is_alike = |other: &&Backoff| (other.attempt, other.left) == (first.attempt, first.left);
        let (alike, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(is_alike);
        let lead = match first.attempt {
            Attempt::CreatePods => created(first).to_owned(),
            Attempt::StartContainer => format!("{} in CrashLoopBackOff {}", count(alike.len(), "pod"), done(first)),
            Attempt::PullImage => format!("{} in ImagePullBackOff {}", count(alike.len(), "pod"), done(first)),
            Attempt::ReplaceFailedPod => format!("{} {}", count(alike.len(), "failed pod"), done(first)),
        };
        page.hanging(["", "  "], &format!("{lead}; {}", by_itself(&alike, plan)), style::plain);
        let nodes: Vec<String> = alike.iter().filter_map(|it| Some(it.pod.as_ref()?.node.clone())).collect();
        if !nodes.is_empty() {
            let nodes = page.view.names(&nodes, columns("  "));
            page.hanging(["  "; 2], &nodes, style::plain);
        }
        rest = others;
    }
    writeln!(page);
}

/// Returns what comes of the pods that were refused.
fn created(backoff: &Backoff) -> &'static str {
    match backoff.left {
        Some(LeftBecause::ControlPlaneDown) => {
            "the API server refused pods, which are not created or do not start as long as the control plane is down"
        }
        Some(_) => {
            "the API server is not known to accept the pods that it refused; the controller tries now all the same"
        }
        None => "the API server refused pods and accepts them now; the controller tries to create them now",
    }
}

fn done(backoff: &Backoff) -> &'static str {
    match backoff.left {
        None => "will be deleted",
        Some(LeftBecause::MaxUnavailable) => "left for now: maxUnavailable allows no more at a time; repeat `retry`",
        Some(LeftBecause::OtherRevision) => {
            "left: not known to be of the current revision, so that the new pod may differ"
        }
        Some(LeftBecause::OthersRun) => "left: other containers run, which --force would stop, too",
        Some(LeftBecause::NotRecreated) => "left: it would not be recreated",
        Some(LeftBecause::Paused) => "left: while the DaemonSet is paused, it may not be recreated",
        Some(LeftBecause::NodeNotReady) => "left: the node is not ready",
        Some(LeftBecause::NodeUnknown) => "left: nodes could not be read",
        Some(LeftBecause::CreationRefused) => "left: the API server refuses new pods",
        Some(LeftBecause::ControlPlaneDown) => "left: it would not be replaced as long as the control plane is down",
        Some(LeftBecause::Changed) => "left: it was changed since it was read",
        Some(LeftBecause::NotReached | LeftBecause::Unknown) => "left",
    }
}

/// Returns when the next attempt would be otherwise, as far as that is known.
fn by_itself(alike: &[&Backoff], plan: &ChangePlan) -> String {
    let from_now = |at| format_age(seconds_between(plan.now, at));
    if let Some(next) = alike.iter().map(|it| it.next).collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().min())
    {
        return match next > plan.now {
            true => format!("the next attempt by itself is in {}", from_now(next)),
            false => "the next attempt by itself is due".to_owned(),
        };
    }
    match alike.iter().filter_map(|it| it.latest).max().filter(|latest| *latest > plan.now) {
        Some(latest) => format!("the next attempt by itself is presumably within {}", from_now(latest)),
        None => "when the next attempt by itself would be is not known".to_owned(),
    }
}
