//! Findings about a DaemonSet as a whole: what keeps the controller from acting on it.

use std::collections::BTreeSet;

use super::create_events::{creation_refusal, passes_by_itself};
use super::create_failure::classify;
use super::finding::{Finding, resource};
use super::sentence::Sentence;
use super::terminating::{is_overdue, stuck_terminating};
use crate::difference::change_summary::in_a_few_words;
use crate::difference::difference;
use crate::facts::Facts;
use crate::facts::controller::Controller;
use crate::facts::index::Index;
use crate::facts::revisions::{Revision, name_of};
use crate::model::daemon_set::DaemonSet;
use crate::model::pod::Pod;
use crate::model::server_side_apply::of_template;
use crate::report::age::seconds_between;
use crate::report::fix::{Command, Fix};
use crate::report::incident::Refuser;
use crate::report::named;
use crate::report::reason::ReasonCode;
use crate::scheduling::rolling_update::allows_surge;

/// How many terminating pods of a namespace are named.
const TERMINATING: usize = 3;

/// Creates the finding that the controller does not act.
fn not_observed(facts: &Facts<'_>, message: Sentence) -> Finding {
    let Fix { advice, command } = facts.controller.look_at(facts.index.snapshot);
    Finding::new(ReasonCode::ControllerNotObserved, message, advice).with_command(command)
}

/// Finds what keeps the controller from acting on a DaemonSet.
pub fn concerns(facts: &Facts<'_>) -> Vec<Finding> {
    let found = [
        daemon_set_deleting(facts),
        namespace_terminating(facts),
        selecting_all(facts.daemon_set),
        controller_not_observed(facts),
    ];
    found.into_iter().flatten().collect()
}

/// Finds that the API server does not delete pods for the controller, because it fails or something refuses, such as a policy that
/// protects them.
fn deletion_refused(facts: &Facts<'_>) -> Option<Finding> {
    let event = facts.deletion_refusal()?;
    let failure = classify(facts.index.snapshot, facts.daemon_set, &event.message);
    let is_of_server = passes_by_itself(failure.code);
    let verb = if is_of_server { "could not" } else { "refused to" };
    let message = Sentence::from(format!("the API server {verb} delete pods: ")).example(event.message.trim());
    // A deletion is not tried in a dry run, as a creation is: what ignores `dryRun` would delete the pod.
    let message = message.seen(event, facts.now()).words("; whether it still does shows at the controller's next try");
    let code = ReasonCode::DeletionRefused;
    if is_of_server {
        return Some(Finding { code, message, ..failure });
    }
    let advice = "correct the policy or webhook that refuses, or exempt the controller's service account from it: no pod is replaced until then";
    let kinds = "validatingadmissionpolicies,validatingwebhookconfigurations";
    Some(Finding::new(code, message, advice).with_command(Command::kubectl(&["get", kinds])))
}

/// How many seconds after the deletion of a DaemonSet began its pods are being deleted, too, if the garbage collector works.
const UNDELETED: i64 = 60;

/// Finds that the DaemonSet is being deleted, so that the controller no longer reconciles it.
fn daemon_set_deleting(facts: &Facts<'_>) -> Option<Finding> {
    let metadata = &facts.daemon_set.metadata;
    let since = metadata.deletion_timestamp.get()?;
    let message = Sentence::from("deletion of the DaemonSet began ").age(facts.seconds_since(since)).words(" ago");
    let message = match metadata.finalizers.as_slice() {
        [] => message,
        finalizers => message.words(format!("; finalizer {}", finalizers.join(", "))),
    };
    // The others are those of the garbage collector.
    let is_own = |finalizer: &&String| !matches!(finalizer.as_str(), "foregroundDeletion" | "orphan");
    let own: Vec<String> = metadata.finalizers.iter().filter(is_own).cloned().collect();
    let waits_for_pods = own.is_empty() && metadata.finalizers.iter().any(|it| it == "foregroundDeletion");
    let overdue = facts.pods().filter(|pod| waits_for_pods && is_overdue(facts, pod) && !pod.spec.node_name.is_empty());
    let deadline = |pod: &Pod| pod.metadata.deletion_timestamp.get();
    // The oldest of several tells most.
    if let Some((deadline, pod)) = overdue.filter_map(|pod| Some((deadline(pod)?, pod))).min_by_key(|(at, _)| *at) {
        let stuck = stuck_terminating(facts, facts.index.node(&pod.spec.node_name), pod, deadline);
        let message = message.words("; on ").example(&pod.spec.node_name).words(", ").then(stuck.message);
        return Some(Finding::new(ReasonCode::DaemonSetDeleting, message, stuck.advice).with_command(stuck.command));
    }
    let is_late = facts.seconds_since(since) > UNDELETED;
    let (leaving, kept): (Vec<&Pod>, Vec<&Pod>) = facts.pods().partition(|pod| pod.metadata.is_terminating());
    // `orphanDependents`, pkg/controller/garbagecollector/garbagecollector.go, release 1.37.2.
    let orphans = own.is_empty() && !waits_for_pods && !metadata.finalizers.is_empty();
    let undone = match kept.len() {
        _ if orphans => {
            "; its pods stay: the garbage collector of kube-controller-manager only releases them".to_owned()
        }
        kept @ 1.. if waits_for_pods && is_late && leaving.is_empty() => {
            let are = if kept == 1 { "its pod is" } else { &format!("{kept} of its pods are") };
            format!("; {are} not being deleted: the garbage collector of kube-controller-manager does that")
        }
        _ => String::new(),
    };
    let is_stuck = is_late && !undone.is_empty();
    let message = message.words(undone);
    if is_stuck {
        let Fix { advice, command } = Controller::Kubernetes.look_at(facts.index.snapshot);
        return Some(Finding::new(ReasonCode::DaemonSetDeleting, message, advice).with_command(command));
    }
    let advice = if orphans {
        "wait for that; until then its status is not updated".to_owned()
    } else if own.is_empty() {
        "wait for its pods to be deleted; until then its status is not updated".to_owned()
    } else {
        format!("check the controller that owns finalizer {}: it removes the finalizer when it is done", own.join(", "))
    };
    let get = Command::kubectl(&["get", resource(facts.daemon_set), "-o", "yaml"])
        .namespace(&metadata.namespace)
        .name(&metadata.name);
    Some(Finding::new(ReasonCode::DaemonSetDeleting, message, advice).with_command(get))
}

/// Finds pods that count as updated and are of another template: they were adopted from a DaemonSet of the same name.
///
/// `IsPodUpdated`, pkg/controller/daemon/util/daemonset_util.go, release 1.37.2, compares the template generation, too.
fn adopted_pods(facts: &Facts<'_>) -> Option<Finding> {
    let adopted = facts.counted_by_generation();
    let (_, first) = adopted.first()?;
    let all = facts.node_pods.iter().filter(|node| node.should_run());
    let all = all.filter(|node| facts.by_revision(&node.pods).is_some_and(|pods| pods.updated.is_some())).count();
    let nodes: Vec<&str> = adopted.iter().map(|(node, _)| *node).collect();
    let differ = differences(facts, first);
    let differ = if differ.is_empty() { String::new() } else { format!(" ({})", differ.join(", ")) };
    let message = format!(
        "{} of {all} pods run this template; those on {} are of another one{differ}, and the controller counts them as \
         updated because their label pod-template-generation matches",
        all - adopted.len(),
        named(&nodes),
    );
    let restart = (!facts.still_refuses_pods()).then(|| name_of(facts.daemon_set).command("restart"));
    Some(Finding::new(ReasonCode::AdoptedPods, message, "restart the pods to replace them").with_command(restart))
}

/// Returns how the template differs from a pod, in short: from its revision if there still is one, else from its images.
fn differences(facts: &Facts<'_>, pod: &Pod) -> Vec<String> {
    let live = &facts.revisions.live;
    if let Some(Ok(template)) = facts.revisions.of_pod(pod).map(|revision| &revision.template) {
        return in_a_few_words(&difference(template, live));
    }
    let containers = &facts.daemon_set.spec.template.spec.containers;
    let other = containers.iter().filter_map(|container| {
        let own = pod.spec.containers.iter().find(|own| own.name == container.name)?;
        let (own, new) = (&own.image, &container.image);
        (!own.is_empty() && own != new).then(|| format!("image of {}: {own} → {new}", container.name))
    });
    other.collect()
}

/// Finds that the namespace is being deleted: no pod is created in it, which the controller does not report.
///
/// Ported from `syncNodes`, pkg/controller/daemon/daemon_controller.go, and `syncAllNamespaces` with its conditions,
/// pkg/controller/namespace/deletion/status_condition_utils.go, release 1.37.2.
pub fn namespace_terminating(facts: &Facts<'_>) -> Option<Finding> {
    let namespace = facts.terminating_namespace()?;
    let name = &namespace.metadata.name;
    let mut message = Sentence::from(format!("namespace {name} is being deleted"));
    if let Some(since) = namespace.metadata.deleted_at() {
        message = Sentence::from(format!("namespace {name} has been terminating for ")).age(facts.seconds_since(since));
    }
    message = message.words(": no pod is created in it");
    let terminating = facts.pods().filter(|pod| pod.metadata.is_terminating());
    let of_pods = terminating.take(TERMINATING).map(|pod| {
        let node = facts.index.node(&pod.spec.node_name).map_or("does not exist", |node| match node.is_ready() {
            true => "is ready",
            false => "is not ready",
        });
        format!("pod {} on {}, which {node}", pod.metadata.name, pod.spec.node_name)
    });
    let said = namespace.status.conditions.iter().filter(|condition| condition.status == "True");
    let holds: Vec<String> = said.map(|condition| condition.message.clone()).chain(of_pods).collect();
    if !holds.is_empty() {
        message = message.words(format!("; blocked by: {}", holds.join("; ")));
    }
    let advice = "the template is right; find what blocks the deletion: the conditions of the namespace name it";
    let get = Command::kubectl(&["get", "namespace", "-o", "yaml"]).name(name);
    let finding = Finding::new(ReasonCode::NamespaceTerminating, message, advice).with_command(get);
    Some(finding.refused_by(Refuser::Namespace(name.clone())))
}

/// Finds a selector that selects every pod, which the controller refuses to act on.
///
/// Ported from `syncDaemonSet`, pkg/controller/daemon/daemon_controller.go, release 1.37.2.
fn selecting_all(daemon_set: &DaemonSet) -> Option<Finding> {
    if !daemon_set.spec.selector.is_empty() {
        return None;
    }
    Some(Finding::new(
        ReasonCode::SelectingAll,
        "the selector is empty and selects every pod, so the controller does nothing",
        "recreate the DaemonSet with a selector; deleting it with --cascade=orphan keeps its pods",
    ))
}

/// Finds what is odd about a DaemonSet, although the controller acts on it, and what is no reason for a node without a pod.
pub fn oddities(facts: &Facts<'_>) -> impl Iterator<Item = Finding> {
    let overlap = selector_overlap(facts.index, facts.daemon_set);
    let found = [adopted_pods(facts), overlap, changes_back(facts), deletion_refused(facts), surge_refused(facts)];
    found.into_iter().flatten()
}

/// Finds that the API server refuses a surge's new pods while every node still has a pod, so that no node shows the reason.
fn surge_refused(facts: &Facts<'_>) -> Option<Finding> {
    let is_told = || facts.node_pods.iter().any(|node| node.should_run() && node.pods.is_empty());
    let is_of_surge = allows_surge(facts.daemon_set) && facts.still_refuses_pods() && !is_told();
    is_of_surge.then(|| creation_refusal(facts)).flatten()
}

/// How often a template must have come back, and within how many seconds the last two times.
const RETURNS: (i64, i64) = (10, 3_600);

/// How often an hour since the DaemonSet was made at least, if nothing tells when revisions got their numbers.
const OFTEN: i64 = 2;

/// Finds that the template changes to one that it had before, again and again, as if two writers disagreed.
///
/// Each new template makes a revision, and one that comes back gets the next number (`constructHistory`); revisions are deleted only
/// beyond the history limit (`cleanupHistory`, pkg/controller/daemon/update.go, release 1.37.2).
fn changes_back(facts: &Facts<'_>) -> Option<Finding> {
    let (Facts { daemon_set, revisions, .. }, (returns, seconds)) = (facts, RETURNS);
    let limit = daemon_set.spec.revisions_kept();
    let kept = i64::try_from(revisions.all.len()).ok()?;
    let [last, before, ..] = revisions.all.as_slice() else { return None };
    let began = |revision: &Revision<'_>| revisions.rollout_began_at(revision.object);
    let is_recent = |revision| began(revision).is_some_and(|at| facts.seconds_since(at) < seconds);
    // Over years, what is counted may be many rollbacks; a rollout of a new template is none.
    let is_return = |revision: &Revision<'_>| {
        let created = revision.object.metadata.creation_timestamp.get();
        began(revision).zip(created).is_some_and(|(began, created)| seconds_between(created, began) > 60)
    };
    let age = daemon_set.metadata.creation_timestamp.get().map(|created| facts.seconds_since(created));
    // Whoever may write revisions chooses their numbers.
    let returned = last.number().saturating_sub(kept);
    let is_often = age.is_some_and(|age| returned.saturating_mul(seconds) > age.max(1).saturating_mul(OFTEN));
    if kept >= limit
        || returned < returns
        || !is_recent(last)
        || !is_recent(before)
        || !(is_often || is_return(last) && is_return(before))
    {
        return None;
    }
    let writers = of_template(&daemon_set.object);
    let writers: BTreeSet<&str> = writers.filter_map(|entry| entry["manager"].as_str()).collect();
    let writers: Vec<&str> = writers.into_iter().collect();
    let by = if writers.is_empty() { String::new() } else { format!("; written by {}", named(&writers)) };
    let message = format!(
        "the template changes back again and again: {} rollouts of only {kept} templates, and two of them in the last hour{by}",
        last.number()
    );
    let advice =
        "find the two that write the template, each its own, and stop one of them: otherwise the rollout never ends";
    let command = Command::kubectl(&["get", resource(daemon_set), "-o", "yaml", "--show-managed-fields"])
        .namespace(&daemon_set.metadata.namespace)
        .name(&daemon_set.metadata.name);
    Some(Finding::new(ReasonCode::TemplateChangesBack, message, advice).with_command(command))
}

/// Finds other DaemonSets whose pods the selector selects, too. Each controller acts on the pods that it owns, but adopts those
/// that have lost their owner, and whoever uses the selector acts on both.
fn selector_overlap(index: &Index, daemon_set: &DaemonSet) -> Option<Finding> {
    let selector = &daemon_set.spec.selector;
    let read = index.snapshot.daemon_sets.iter().map(|other| {
        let DaemonSet { metadata, spec, .. } = other;
        (&metadata.namespace, metadata.name.as_str(), &*spec.template.metadata.labels)
    });
    let not_requested = index.snapshot.neighbors.iter();
    let not_requested = not_requested.map(|other| (&other.namespace, other.name.as_str(), &other.pod_labels));
    let is_other = |namespace: &String, name: &str| {
        *namespace == daemon_set.metadata.namespace && name != daemon_set.metadata.name
    };
    let overlapping: BTreeSet<&str> = read
        .chain(not_requested)
        .filter(|(namespace, name, labels)| {
            is_other(namespace, name) && !selector.is_empty() && selector.matches(labels)
        })
        .map(|(_, name, _)| name)
        .collect();
    let overlapping: Vec<&str> = overlapping.into_iter().collect();
    let noun = if overlapping.len() == 1 { "DaemonSet" } else { "DaemonSets" };
    (!overlapping.is_empty()).then(|| {
        let message = format!("selector {selector} also selects the pods of {noun} {}", named(&overlapping));
        let advice = "recreate one of them with labels of its own; a selector cannot be changed";
        Finding::new(ReasonCode::SelectorOverlap, message, advice)
    })
}

/// Finds that the controller has not observed the current spec.
fn controller_not_observed(facts: &Facts<'_>) -> Option<Finding> {
    let daemon_set = facts.daemon_set;
    if daemon_set.metadata.is_terminating() {
        // It is no longer reconciled.
        return None;
    }
    let (generation, observed) = (daemon_set.metadata.generation, daemon_set.status.observed_generation);
    if facts.awaits_revision() {
        let message = format!("none of the revisions that were read has the template of generation {generation}");
        return Some(not_observed(facts, Sentence::from(message)));
    }
    if generation <= observed {
        return None;
    }
    let message =
        Sentence::from(format!("the controller has not observed generation {generation} of the spec, only {observed}"));
    let message = match facts.controller_silent_since() {
        Some(since) => message
            .words(format!("; {} has not renewed its lease for ", facts.controller.program()))
            .age(facts.seconds_since(since))
            .words(" and seems to be down"),
        None => message,
    };
    Some(not_observed(facts, message))
}

/// Finds that the controller seems to be down, by its stale lease.
pub fn controller_seems_down(facts: &Facts<'_>) -> Option<Finding> {
    let since = facts.controller_silent_since()?;
    let silent = format!("no pod was created, and {} has not renewed its lease for ", facts.controller.program());
    let message = Sentence::from(silent).age(facts.seconds_since(since)).words(": it seems to be down");
    Some(not_observed(facts, message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::coverage::test_support::{at, world};

    #[test]
    fn a_finalizer_is_told_only_if_there_is_one() {
        let told = |finalizers: &[&str]| {
            let metadata = json!({"deletionTimestamp": at("11:50:00"), "finalizers": finalizers});
            world()
                .daemon_set(json!({"metadata": metadata}))
                .coverage()
                .concerns
                .remove(0)
                .message
                .contains("finalizer")
        };
        assert_eq!((told(&[]), told(&["orphan"])), (false, true));
    }

    #[test]
    fn pods_that_a_deletion_leaves_are_not_waited_for() {
        let told = |deleted: &str| {
            let metadata = json!({"deletionTimestamp": at(deleted), "finalizers": ["orphan"]});
            let world =
                world().node("a", json!({})).pod("agent-a", "a", json!({})).daemon_set(json!({"metadata": metadata}));
            let concern = world.coverage().concerns.remove(0);
            assert!(concern.message.ends_with("only releases them"), "{}", concern.message);
            concern.fix.advice
        };
        assert_eq!(told("11:59:50"), "wait for that; until then its status is not updated");
        assert!(told("11:40:00").contains("kube-controller-manager"), "{}", told("11:40:00"));
    }

    #[test]
    fn daemon_sets_that_select_each_others_pods_are_named() {
        let told = |labels: serde_json::Value, namespace: &str| {
            let mut snapshot = world().node("a", json!({})).pod("agent-a", "a", json!({})).finish();
            let mut other = snapshot.daemon_sets[0].object.clone();
            other["metadata"]["name"] = json!("other");
            other["metadata"]["namespace"] = json!(namespace);
            other["metadata"]["uid"] = json!("other-uid");
            other["spec"]["template"]["metadata"]["labels"] = labels;
            snapshot.daemon_sets.push(crate::model::daemon_set::DaemonSet::from_object(other).unwrap());
            let coverage = crate::coverage::walk::coverage(&snapshot, &crate::coverage::options::Options::default());
            coverage.daemon_sets[0].concerns.iter().map(|concern| concern.message.clone()).collect::<Vec<_>>()
        };
        let overlap = ["selector app=agent also selects the pods of DaemonSet other"];
        assert_eq!(told(json!({"app": "agent", "tier": "b"}), "default"), overlap);
        assert_eq!(told(json!({"app": "other"}), "default"), [""; 0]);
        assert_eq!(told(json!({"app": "agent"}), "elsewhere"), [""; 0]);
    }
}
