//! What could not be read, and what the answer therefore leaves open.

use crate::model::snapshot::{Gap, GapCause, Kind, Snapshot};
use crate::report::coverage::Incomplete;

/// Returns a sentence for everything that could not be read and that matters for pods that exist.
pub fn incomplete(snapshot: &Snapshot) -> Vec<Incomplete> {
    let matters = |gap: &&Gap| !matches!(gap.kind, Kind::LimitRanges | Kind::RuntimeClasses | Kind::PriorityClasses);
    snapshot.gaps.iter().filter(matters).filter_map(|gap| sentence(snapshot, gap)).collect()
}

/// Returns a sentence for everything that could not be read and that matters for pods that are yet to be
/// made.
pub fn incomplete_for_new_pods(snapshot: &Snapshot) -> Vec<Incomplete> {
    let matters = |gap: &&Gap| !matches!(gap.kind, Kind::Events | Kind::ControllerRevisions);
    snapshot.gaps.iter().filter(matters).filter_map(|gap| sentence(snapshot, gap)).collect()
}

fn sentence(snapshot: &Snapshot, gap: &Gap) -> Option<Incomplete> {
    let left_open = left_open(snapshot, gap)?;
    let resource = gap.kind.resource();
    let place = match &gap.namespace {
        Some(namespace) => format!(" in namespace {namespace}"),
        None => String::new(),
    };
    let (permission, message) = match &gap.cause {
        GapCause::Forbidden(permission) => (
            Some(permission.clone()),
            format!("{resource}{place} could not be read ({permission} is forbidden): {left_open}"),
        ),
        GapCause::ForbiddenElsewhere(permission) => (
            Some(permission.clone()),
            format!("{resource} of other namespaces could not be read ({permission} is forbidden): {left_open}"),
        ),
        GapCause::NotInDump => (None, format!("the dump has no {resource}{place}: {left_open}")),
    };
    Some(Incomplete { resource: resource.to_owned(), namespace: gap.namespace.clone(), permission, message })
}

/// Says what a gap leaves open, or nothing where no answer depends on it.
fn left_open(snapshot: &Snapshot, gap: &Gap) -> Option<&'static str> {
    let elsewhere = matches!(gap.cause, GapCause::ForbiddenElsewhere(_));
    Some(match gap.kind {
        Kind::Pods if elsewhere => "free room and taken ports are known only in the scheduler's words",
        Kind::Pods => "numbers of pods are those of each status",
        Kind::DaemonSets => "its DaemonSets are left out",
        Kind::ControllerRevisions => "which pods are updated is known only by their template generation",
        Kind::Nodes if snapshot.nodes.is_empty() => {
            "numbers of eligible nodes are those of each status, and only nodes with a pod are named"
        }
        Kind::Nodes => "other nodes are left out",
        Kind::Events if elsewhere => return None,
        Kind::Events => "why pods were not made, scheduled or started may stay open",
        // Whether there is none or it could not be read, the lease only ever adds to an answer.
        Kind::Leases => return None,
        Kind::LimitRanges => "requests that a LimitRange would add are not counted",
        Kind::RuntimeClasses => "what a runtime class would add to pods is not counted",
        Kind::PriorityClasses => "priorities are not known",
    })
}
