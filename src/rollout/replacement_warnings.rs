//! Warnings before pods are replaced: that their template fails, that the API server refuses new pods, and which pods
//! would not be recreated.

use super::situation::Situation;
use super::situation::suspect::{not_by_their_node, suspect};
use crate::coverage::{creation_refusal, refusal_reason};
use crate::facts::Facts;
use crate::facts::index::Index;
use crate::facts::revisions::name_of;
use crate::model::daemon_set::{DaemonSet, Flavor, UpdateStrategy};
use crate::model::pod::Pod;
use crate::report::coverage::RemovedNodes;
use crate::report::fix::Fix;
use crate::report::plan::{Warning, WarningCode};
use crate::report::reason::{Class, Reason, ReasonCode};
use crate::report::rollout_status::{Suspect, SuspectKind};
use crate::report::{count, count_and};
use crate::scheduling::daemon_pods;
use crate::scheduling::should_run::DaemonPod;

/// The most pods that a warning names.
const MAX_NAMES: usize = 3;

/// What replaces pods.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replacement<'a> {
    /// The DaemonSet as it becomes.
    pub(crate) after: &'a DaemonSet,
    /// The hash of the revision of its template; empty if there is none yet, so that every pod is replaced.
    pub(crate) hash: &'a str,
    /// Whether the new pods are those of the present template.
    pub(crate) is_same_template: bool,
    /// Whether the DaemonSet controller deletes the pods, and not the user.
    pub(crate) by_controller: bool,
    /// Whether pods on nodes that are not eligible are replaced, too.
    pub(crate) includes_ineligible: bool,
}

impl<'a> Replacement<'a> {
    /// Describes what a new template replaces: all pods of other revisions, by the controller or under OnDelete by the user.
    pub(crate) fn of_template(after: &'a DaemonSet, hash: &'a str, is_same_template: bool) -> Self {
        let by_controller = matches!(after.spec.update_strategy, UpdateStrategy::RollingUpdate(_));
        Replacement { after, hash, is_same_template, by_controller, includes_ineligible: true }
    }

    /// Describes what another update strategy replaces, if the controller replaces pods under it.
    pub(crate) fn of_strategy(after: &'a DaemonSet, before: &Facts<'a>) -> Option<Self> {
        let replaces = matches!(after.spec.update_strategy, UpdateStrategy::RollingUpdate(_));
        let hash = before.current_hash().unwrap_or("");
        replaces.then_some(Replacement {
            after,
            hash,
            is_same_template: true,
            by_controller: true,
            includes_ineligible: true,
        })
    }

    /// Returns why the API server refuses new pods, and whether that is known of those that replace the others; `None` if it
    /// creates them.
    pub(crate) fn refusal(&self, situation: &Situation<'_>) -> Option<(Reason, bool)> {
        let of_present = creation_refusal(situation)?;
        if self.is_same_template {
            return (situation.is_accepted() != Some(true)).then_some((of_present, true));
        }
        let snapshot = situation.index.snapshot;
        let Some(admission) = snapshot.admission(self.after, self.hash) else { return Some((of_present, false)) };
        let reason = refusal_reason(snapshot, self.after, admission.refusal.as_ref()?);
        // The pods that are replaced give back their quota.
        let is_certain = reason.code != ReasonCode::QuotaExceeded;
        Some(if is_certain { (reason, true) } else { (of_present, false) })
    }
}

/// Returns the warnings of new pods that would fail or be refused wherever they replace others.
pub(crate) fn hopeless(warnings: &[Warning]) -> Vec<Warning> {
    let is_hopeless = |code| matches!(code, WarningCode::RevisionFails | WarningCode::CreationRefused);
    warnings.iter().filter(|warning| is_hopeless(warning.code)).cloned().collect()
}

/// Returns what may go wrong as pods are replaced; nothing if none is, or if nodes and pods could not be read.
pub(crate) fn replacement_warnings(situation: &Situation<'_>, replacement: &Replacement<'_>) -> Vec<Warning> {
    let removed = situation.coverage.removed_nodes.as_ref().filter(|_| replacement.is_same_template);
    let removed = removed.filter(|removed| removed.needs_attention()).map(nodes_removed);
    let replaced = if situation.is_known { replaced(situation, replacement) } else { Vec::new() };
    if replaced.is_empty() {
        return removed.into_iter().collect();
    }
    let suspect = suspect(situation);
    let not_by_nodes = not_by_nodes(situation, replacement, suspect.as_ref());
    let failing = suspect.filter(|suspect| replacement.is_same_template && suspect.what == SuspectKind::Revision);
    let failing = failing.map(|failing| failing_revision(situation, &failing));
    let refused = replacement.refusal(situation).map(|refusal| refused(situation, replacement, refusal));
    let lost =
        replacement.includes_ineligible.then(|| not_recreated(situation.index, replacement, &replaced)).flatten();
    removed.into_iter().chain(failing).chain(refused).chain(not_by_nodes).chain(lost).collect()
}

/// Warns that a revision has removed nodes, which do not get their pods back.
fn nodes_removed(removed: &RemovedNodes) -> Warning {
    let RemovedNodes { revision, nodes, eligible_before, changes, fix, .. } = removed;
    let message = format!(
        "revision {revision} removed {} of {eligible_before} nodes ({}), and this does not give them their pods back",
        nodes.len(),
        changes.join(", ")
    );
    Warning { fix: Some(fix.clone()), ..Warning::new(WarningCode::NodesRemoved, message) }
}

/// Returns the pods that are replaced, with their nodes.
fn replaced<'a>(situation: &Situation<'a>, replacement: &Replacement<'_>) -> Vec<(&'a str, &'a Pod)> {
    let live = |pod: &&Pod| !pod.metadata.is_terminating();
    let is_old = |pod: &&Pod| !daemon_pods::is_updated(replacement.after, Some(replacement.hash), pod);
    let nodes = situation.node_pods.iter();
    nodes.flat_map(|node| node.pods.iter().copied().filter(live).filter(is_old).map(|pod| (node.node, pod))).collect()
}

/// Warns that the pods of the present template fail where older ones work, and how to roll back.
fn failing_revision(situation: &Situation<'_>, failing: &Suspect) -> Warning {
    let number =
        situation.current.map_or_else(|| "the current revision".to_owned(), |it| format!("revision {}", it.revision));
    let message = format!(
        "{number} fails on {}, while older pods are available on {}; this change rolls it out to more nodes",
        count(failing.failing, "node"),
        count(failing.old_available, "node")
    );
    let undo = |number| Fix::new("to roll back instead", name_of(situation.daemon_set).undo(number));
    let fix = situation.revisions.proven().map(|(works, _)| undo(works.number()));
    Warning { fix, ..Warning::new(WarningCode::RevisionFails, message) }
}

/// Warns that new pods do not become available, whichever node they are on; those of another template, because of the
/// cluster. Not of pods that the revision is to blame for, or that the API server refuses.
fn not_by_nodes(situation: &Situation<'_>, replacement: &Replacement<'_>, suspect: Option<&Suspect>) -> Vec<Warning> {
    let is_explained = suspect.is_some_and(|suspect| suspect.what == SuspectKind::Revision);
    let mut reasons = not_by_their_node(situation, suspect);
    reasons.retain(|code, _| {
        let is_cluster = code.class() == Class::Cluster;
        !situation.creation_is_refused() && (is_cluster || (replacement.is_same_template && !is_explained))
    });
    let group = |code| situation.coverage.groups.iter().find(|group| group.code == code);
    let found = reasons.into_iter().filter_map(|(code, nodes)| Some((group(code)?, nodes)));
    let warnings = found.map(|(group, nodes)| {
        let nodes = count_and(nodes.len(), "node", ["has", "have"]);
        let message = format!(
            "{nodes} no available pod because of {} ({}), which is not tied to the node: pods that are replaced would fare \
             no better",
            group.code, group.message
        );
        Warning { fix: Some(group.fix.clone()), ..Warning::new(WarningCode::NotByNodes, message) }
    });
    warnings.collect()
}

/// Warns that the API server refuses new pods.
fn refused(situation: &Situation<'_>, replacement: &Replacement<'_>, refusal: (Reason, bool)) -> Warning {
    let (Reason { code, message, fix }, is_certain) = refusal;
    let is_missing = situation.nodes.iter().any(|node| node.eligible && node.updated.is_none() && node.old.is_none());
    // As long as the controller fails to create pods, it does not get to the rolling update.
    let so = match replacement.by_controller && is_missing {
        true => "the controller replaces no pod",
        false => "a pod that is deleted is not recreated",
    };
    let (which, until) = match (replacement.is_same_template, is_certain) {
        (true, _) => ("new pods", "until it accepts them"),
        (false, true) => ("new pods, also those of the new template", "until it accepts them"),
        (false, false) => ("new pods", "unless it accepts those of the new template"),
    };
    let message = format!("the API server refuses {which} ({code}: {message}): {so} {until}");
    Warning { fix: Some(fix), ..Warning::new(WarningCode::CreationRefused, message) }
}

/// Warns of pods on nodes that should not run one: once deleted, they are not recreated.
fn not_recreated(index: &Index<'_>, replacement: &Replacement<'_>, replaced: &[(&str, &Pod)]) -> Option<Warning> {
    // OpenKruise's controller is not simulated.
    if replacement.after.flavor() == Flavor::Advanced {
        return None;
    }
    let daemon_pod = DaemonPod::new(&replacement.after.spec.template);
    let is_lost = |node: &str| {
        let decision = index.node(node).map(|node| daemon_pod.decide(node));
        decision.is_some_and(|decision| !decision.should_run && decision.should_continue_running)
    };
    let lost: Vec<String> = replaced
        .iter()
        .filter(|(node, _)| is_lost(node))
        .map(|(node, pod)| format!("{} on {node}", pod.metadata.name))
        .collect();
    let names = lost.iter().take(MAX_NAMES).cloned().collect::<Vec<_>>().join(", ");
    let message = match lost.len() {
        0 => return None,
        1 => format!("pod {names} will be deleted and not recreated, because its node is not eligible"),
        number @ 2..=MAX_NAMES => {
            format!("{number} pods are deleted and not recreated, because their nodes are not eligible: {names}")
        }
        number => format!(
            "{number} pods are deleted and not recreated, because their nodes are not eligible: {names} +{} more",
            number - MAX_NAMES
        ),
    };
    Some(Warning::new(WarningCode::NotRecreated, message))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Replacement, replacement_warnings};
    use crate::coverage::test_support::{World, at, world};
    use crate::facts::index::Index;
    use crate::report::plan::{ChangePlan, WarningCode};
    use crate::rollout::restart::restart;
    use crate::rollout::situation::Situation;
    use crate::rollout::undo::undo;

    fn old() -> Value {
        json!({"metadata": {"creationTimestamp": at("11:10:00"),
            "labels": {"controller-revision-hash": "hash1", "pod-template-generation": "1"}}})
    }

    /// Four nodes with pods of the older revision, and two on which those of the current one crash.
    fn bad_revision() -> World {
        let crashes = || json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let mut world = world().revision("hash1", 1);
        for number in 0..4 {
            world =
                world.node(&format!("n{number}"), json!({})).pod(&format!("a{number}"), &format!("n{number}"), old());
        }
        for number in 4..6 {
            let (node, pod) = (format!("n{number}"), format!("a{number}"));
            world = world.node(&node, json!({})).unready_pod(&pod, &node, crashes(), json!({}));
        }
        world
    }

    fn restarted(world: World) -> ChangePlan {
        let snapshot = world.finish();
        restart(&Situation::new(&Index::new(&snapshot), &snapshot.daemon_sets[0]), true).unwrap().report
    }

    fn codes(plan: &ChangePlan) -> Vec<WarningCode> {
        plan.warnings.iter().map(|warning| warning.code).collect()
    }

    #[test]
    fn a_restart_of_a_failing_revision_is_warned_of() {
        let plan = restarted(bad_revision());
        assert_eq!(codes(&plan), [WarningCode::RevisionFails]);
        let message = &plan.warnings[0].message;
        assert!(message.contains("fails on 2 nodes") && message.contains("available on 4 nodes"), "{message}");
        let plan = restarted(world().node("n", json!({})).pod("a", "n", json!({})));
        assert_eq!(codes(&plan), []);
    }

    #[test]
    fn a_strategy_that_replaces_the_pods_of_a_failing_revision_is_warned_of() {
        let warned_of = |strategy: &str| {
            let world = bad_revision().daemon_set(json!({"spec": {"updateStrategy": {"type": strategy}}}));
            let snapshot = world.finish();
            let index = Index::new(&snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            let replacement = Replacement::of_strategy(&snapshot.daemon_sets[0], &situation)?;
            let warnings = replacement_warnings(&situation, &replacement);
            Some(warnings.into_iter().map(|warning| warning.code).collect::<Vec<_>>())
        };
        assert_eq!(warned_of("RollingUpdate"), Some(vec![WarningCode::RevisionFails]));
        assert_eq!(warned_of("OnDelete"), None);
    }

    #[test]
    fn new_pods_that_are_refused_are_warned_of() {
        let refusal =
            "pods \"agent-x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2";
        let with = |world: World| restarted(world.refusal(refusal));
        let plan = with(world().node("n", json!({})).pod("a", "n", json!({})).node("m", json!({})));
        assert_eq!(codes(&plan), [WarningCode::CreationRefused]);
        assert!(plan.warnings[0].message.ends_with("the controller replaces no pod until it accepts them"));
        let plan = with(world().node("n", json!({})).pod("a", "n", json!({})));
        assert!(plan.warnings[0].message.ends_with("a pod that is deleted is not recreated until it accepts them"));
    }

    #[test]
    fn a_restart_that_deletes_pods_for_new_ones_that_fail_needs_force() {
        let refused = |world: World| {
            let snapshot = world.finish();
            let index = Index::new(&snapshot);
            let refused = restart(&Situation::new(&index, &snapshot.daemon_sets[0]), false).err();
            refused.map(|worse| worse.into_iter().map(|warning| warning.code).collect::<Vec<_>>())
        };
        let with = |strategy: Value| refused(bad_revision().daemon_set(json!({"spec": {"updateStrategy": strategy}})));
        assert_eq!(with(json!({})), Some(vec![WarningCode::RevisionFails]));
        let refusal = "pods \"agent-x\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces";
        let world = || world().node("n", json!({})).pod("a", "n", json!({})).node("m", json!({}));
        assert_eq!(refused(world().refusal(refusal)), Some(vec![WarningCode::CreationRefused]));
        assert_eq!(refused(world()), None);
        // Old pods stay until new ones are available, or until they are deleted.
        assert_eq!(with(json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})), None);
        assert_eq!(with(json!({"type": "OnDelete"})), None);
    }

    #[test]
    fn pods_that_would_not_be_recreated_are_warned_of() {
        let cordoned = || json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
        let world = || world().node("n", json!({})).pod("a", "n", json!({}));
        let plan = restarted(world().node("m", cordoned()).pod("b", "m", json!({})));
        assert_eq!(codes(&plan), [WarningCode::NotRecreated]);
        assert!(plan.warnings[0].message.starts_with("pod b on m will be deleted"), "{}", plan.warnings[0].message);
        let two = world().node("m", cordoned()).pod("b", "m", json!({})).node("o", cordoned()).pod("c", "o", json!({}));
        let plan = restarted(two);
        assert_eq!(codes(&plan), [WarningCode::NotRecreated]);
        let message = &plan.warnings[0].message;
        assert!(message.starts_with("2 pods") && message.ends_with("b on m, c on o"), "{message}");
        // The controller deletes the pod of an evicting node anyway.
        let evicting = json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}});
        assert_eq!(codes(&restarted(world().node("m", evicting).pod("b", "m", json!({})))), []);
    }

    #[test]
    fn the_effect_counts_the_pods_that_are_replaced() {
        let plan = restarted(bad_revision());
        let effect = plan.effect.unwrap();
        let after = effect.after.unwrap();
        assert_eq!((effect.desired, effect.outdated, after.allowed), (6, Some(6), 1));
        // The failing pods are replaced at once.
        assert_eq!((after.in_use, after.replaced_now), (Some(2), Some(2)));
        let snapshot = bad_revision().finish();
        let index = Index::new(&snapshot);
        let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
        assert!(undo(&situation, Some(9)).is_err());
    }
}
