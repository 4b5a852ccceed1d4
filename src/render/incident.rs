//! Causes that explain the problems of several DaemonSets at once, shown above their table.

use jiff::Timestamp;

use super::page::Page;
use super::style;
use super::text::{count, time_since};
use crate::report::count_and;
use crate::report::fix::Fix;
use crate::report::incident::{Incident, IncidentCause, Refuser};

/// The most incidents that a terminal shows.
const MOST_INCIDENTS: usize = 3;

/// The most nodes or DaemonSets that are named.
const MOST_NAMES: usize = 3;

/// Writes the sentence of each incident with what to do.
pub(super) fn incidents(incidents: &[(String, &Fix)], page: &mut Page<'_>) {
    let most = if page.view.limit.is_some() { MOST_INCIDENTS } else { usize::MAX };
    for (sentence, fix) in incidents.iter().take(most) {
        page.paragraph(sentence, style::problem);
        page.what_to_do(fix, "");
    }
    page.more(incidents.len().saturating_sub(most), "cause", "-o json");
}

/// Returns the description of an incident.
pub(super) fn sentence(incident: &Incident, now: Timestamp) -> String {
    let Incident { cause, since, nodes, daemon_sets, in_rollout, .. } = incident;
    let ago = since.map(|since| time_since(since, now));
    let is_alone = daemon_sets.len() == 1;
    let daemon_sets = count(daemon_sets.len(), "DaemonSet");
    let rollouts = match in_rollout.as_deref() {
        None => String::new(),
        _ if is_alone => String::new(),
        Some([]) => "; none of them is in a rollout".to_owned(),
        Some([name]) => format!("; only {name} is in a rollout"),
        Some(names) => format!("; {} of them are in a rollout{}", names.len(), named(names)),
    };
    match cause {
        IncidentCause::ControllerSilent => {
            let ago = ago.map(|ago| format!(", which has not renewed its lease for {ago}")).unwrap_or_default();
            let of = if is_alone { String::new() } else { format!(" of {daemon_sets}") };
            format!("no pod{of} is created or replaced by kube-controller-manager{ago}{rollouts}")
        }
        IncidentCause::SchedulerSilent { scheduler } => {
            let ago = ago.map(|ago| format!(", for up to {ago}")).unwrap_or_default();
            format!("scheduler {scheduler:?} has not tried to schedule new pods of {daemon_sets}{ago}")
        }
        IncidentCause::PodsRefused { refused_by, namespace } => {
            let of = namespace.as_ref().map(|namespace| format!(" of namespace {namespace}")).unwrap_or_default();
            match refused_by {
                Refuser::Quota(name) => format!("quota {name}{of} refuses pods of {daemon_sets}"),
                Refuser::PodSecurity(level) => {
                    format!("pod security level {level}{of} refuses pods of {daemon_sets}")
                }
                Refuser::Webhook(name) => format!("admission webhook {name} denies pods of {daemon_sets}"),
                Refuser::UnavailableWebhook(name) => {
                    format!("admission webhook {name} cannot be called, which refuses pods of {daemon_sets}")
                }
                Refuser::Policy(name) => format!("admission policy {name} denies pods of {daemon_sets}"),
                Refuser::LimitRange(name) => format!("limitrange {name}{of} refuses pods of {daemon_sets}"),
                Refuser::Namespace(name) => {
                    format!("namespace {name} is being deleted, so that no pods of {daemon_sets} are created")
                }
            }
        }
        IncidentCause::NodesDown => {
            let (nodes, names) = (count_and(nodes.len(), "node", ["is", "are"]), named(nodes));
            format!("{nodes} down{names}, which affects {daemon_sets}{rollouts}")
        }
        IncidentCause::NetworkUnavailable => {
            let (nodes, names) = (count(nodes.len(), "node"), named(nodes));
            format!("the network of {nodes} is not up{names}, which affects {daemon_sets}{rollouts}")
        }
        IncidentCause::NothingReady { node } => {
            format!("on node {node}, no pod is ready, although the node is; that affects {daemon_sets}{rollouts}")
        }
        IncidentCause::NodesUnlikeOthers { by } => {
            let (nodes, names) = (count_and(nodes.len(), "node", ["is", "are"]), named(nodes));
            let by = by.join(", ");
            format!("{nodes} not eligible for {daemon_sets}, unlike similar ones{names}: {by}")
        }
        IncidentCause::NodeRemovalStuck => {
            let (nodes, names) = (count(nodes.len(), "node"), named(nodes));
            format!("the removal of {nodes} is stuck{names}, which affects {daemon_sets}{rollouts}")
        }
    }
}

/// Names a few in parentheses.
fn named(names: &[String]) -> String {
    if names.len() > MOST_NAMES { String::new() } else { format!(" ({})", names.join(", ")) }
}
