//! Whether a ConfigMap or Secret was changed, and all pods that have started since then fail.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{RolloutNode, Situation};
use crate::coverage::stale_config::{find, last_changes, started_at};
use crate::coverage::{Origin, Step, TemplatePart};
use crate::model::config_object::{ConfigUse, uses};
use crate::model::pod::{ContainerStatus, Pod};
use crate::model::snapshot::Kind;
use crate::report::fix::{Command, Fix};
use crate::report::rollout_status::SuspectConfiguration;
use crate::report::stale_config::ConfigName;

/// Returns the object that was changed last of those that the failing pods use, if they were created since then, and all pods that work and
/// use it started before; if none is left because they were restarted, the change must have followed the rollout of their revision.
pub(super) fn changed(situation: &Situation<'_>) -> Option<(SuspectConfiguration, usize)> {
    let is_of_start = |node: &RolloutNode<'_>| {
        use TemplatePart::{Anything, Container, Mounted};
        let Some(Origin::Template(part)) = node.origin() else { return false };
        matches!(part, Anything | Container(_, Step::First | Step::Alone) | Mounted { .. })
    };
    let fails = |node: &&RolloutNode<'_>| !node.has_available_pod() && is_of_start(node) && !situation.recovers(node);
    let failing: Option<Vec<&Pod>> = situation.eligible().filter(fails).map(|node| node.updated.or(node.old)).collect();
    let failing = failing.filter(|pods| !pods.is_empty())?;
    let working = situation.nodes.iter().filter_map(|node| match node.updated_is_available {
        true => node.updated,
        false => node.old.filter(|_| node.old_is_available),
    });
    let working: Vec<(&Pod, BTreeSet<ConfigUse>)> =
        working.filter_map(|pod| Some((pod, uses(situation.revisions.template_of_pod(pod)?)))).collect();
    let has_started_since = |pod: &Pod, used: &ConfigUse, at: Timestamp| {
        // One that waits for another to start has not read anything.
        let has_run =
            |it: &ContainerStatus| it.restart_count > 0 || it.state.running.is_some() || it.state.terminated.is_some();
        let mut own = pod.container_statuses().filter(|it| it.name == used.container && !it.ready);
        pod.metadata.creation_timestamp.get().is_some_and(|created| created > at) && own.any(has_run)
    };
    let is_older = |(pod, of_pod): &(&Pod, BTreeSet<ConfigUse>), used: &ConfigUse, at: Timestamp| {
        let is_it = |it: &ConfigUse| (it.kind, &it.name) == (used.kind, &used.name);
        let mut own = of_pod.iter().filter(|it| is_it(it));
        own.all(|it| started_at(pod, &it.container).is_some_and(|started| started < at))
    };
    let uses_it = |of_pod: &BTreeSet<ConfigUse>, used: &ConfigUse| {
        of_pod.iter().any(|it| (it.kind, &it.name) == (used.kind, &used.name))
    };
    let target = || situation.revisions.rollout_began_at(situation.revisions.target()?.0.object);
    let ran_from = Some(()).filter(|()| working.is_empty() && situation.only_restarts()).and_then(|()| target());
    let mut changes = last_changes(situation);
    changes.sort_by_key(|(_, at)| std::cmp::Reverse(*at));
    let (used, changed_at) = changes.into_iter().find(|(used, at)| {
        failing.iter().all(|pod| has_started_since(pod, used, *at))
            && (working.iter().any(|(_, of_pod)| uses_it(of_pod, used)) || ran_from.is_some_and(|from| from < *at))
            && working.iter().all(|pod| is_older(pod, used, *at))
    })?;
    let kind = used.kind.api_names().1;
    let resource = if used.kind == Kind::Secrets { "secret" } else { "configmap" };
    let fix = match find(situation, &used).is_some_and(|found| found.immutable) {
        true => format!(
            "if the change is the cause, create a {kind} under another name that is correct, and use that in the template: this one is \
             immutable"
        )
        .into(),
        false => {
            let command = Command::kubectl(&["edit", resource]).namespace(&situation.daemon_set.metadata.namespace);
            let advice =
                format!("if the change is the cause, correct the {kind}, which containers read when they restart");
            Fix::new(advice, command.name(&used.name))
        }
    };
    Some((SuspectConfiguration { object: ConfigName { kind, name: used.name }, changed_at, fix }, failing.len()))
}
