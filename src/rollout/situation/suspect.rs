//! Whether the current revision or the nodes are to blame for failing pods.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::fault::{failing_since, was_broken};
use super::{RolloutNode, Situation, configuration};
use crate::coverage::stale_config::has_not_run_since_change;
use crate::coverage::{Origin, TemplatePart, common_cause, failed_end};
use crate::facts::revisions::MIN_CURRENT;
use crate::model::event::Event;
use crate::model::metadata::{GENERATED_LENGTH, generated_suffix};
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::report::age::seconds_between;
use crate::report::common_cause::{Feature, FeatureValue};
use crate::report::reason::{Class, ReasonCode};
use crate::report::rollout_status::{RaisedRequest, Suspect, SuspectKind};
use crate::scheduling::daemon_pods;

/// What tells failures for the same reason apart.
type End<'a> = (&'a str, i32, String);

/// A reason, and what tells failures for it apart, if the pod says that.
type Failure<'a> = (ReasonCode, Option<End<'a>>);

/// Returns why a pod of a node fails.
fn failure<'a>(node: &RolloutNode<'a>, pod: Option<&'a Pod>) -> Option<Failure<'a>> {
    let code = node.code()?;
    let says_why = matches!(code, ReasonCode::CrashLooping | ReasonCode::ImagePullFailed);
    Some((code, pod.filter(|_| says_why).and_then(failed_end)))
}

/// Returns whether the old pod of a node may be of the revision to roll back to: what fails on another one, too, may have come with that,
/// while the one before it works.
fn may_be_of_target(situation: &Situation<'_>, node: &RolloutNode<'_>) -> bool {
    let target = situation.revisions.target().filter(|(target, _)| target.available > 0);
    target.is_none_or(|(target, _)| node.old.is_some_and(|pod| pod.revision_hash() == target.object.hash()))
}

/// Compares pods of the current revision with older ones; `None` if no pod of the current revision fails, or there are
/// too few to tell.
pub(in crate::rollout) fn suspect(situation: &Situation<'_>) -> Option<Suspect> {
    // Failures on such a node say nothing about the revision, unless there are no others.
    let (broken, others): (Vec<_>, Vec<_>) = failing_nodes(situation).partition(|node| was_broken(situation, node));
    let is_only_broken = others.is_empty() && !broken.is_empty();
    let working = situation.working().count();
    // A cause that another revision shares is the node's if the same pod works on more other nodes.
    let in_common = || may_fail(situation).filter(|node| is_in_common(situation, node)).collect::<Vec<_>>();
    let others_are_empty = others.is_empty();
    let of_current = match is_only_broken {
        true => broken,
        false if others_are_empty => Some(in_common()).filter(|nodes| working > nodes.len()).unwrap_or_default(),
        false => others,
    };
    let for_itself = of_current.iter().filter(|node| node.excess.is_none());
    let configuration = configuration::changed(situation).filter(|_| !is_only_broken);
    let kind = match is_only_broken || others_are_empty {
        true => Vec::new(),
        false => kind_that_fails(situation, &of_current),
    };
    let failing = of_current.len();
    // The kubelet names what the revision has changed: pods of the other one were granted what they request.
    let is_of_requests = |node: &&RolloutNode<'_>| {
        use TemplatePart::{Requested, Requests};
        matches!(node.origin(), Some(Origin::Template(Requests | Requested { .. })))
    };
    let has_another = situation.revisions.target().is_some();
    let asks_otherwise = has_another && !others_are_empty && of_current.iter().all(is_of_requests);
    let mut ends: BTreeMap<ReasonCode, BTreeSet<Option<End<'_>>>> = BTreeMap::new();
    for (code, end) in for_itself.clone().filter_map(|node| failure(node, node.updated)) {
        ends.entry(code).or_default().insert(end);
    }
    // What says nothing may be anything.
    let is_alike = |(code, end): Failure<'_>| {
        let of_current = ends.get(&code);
        of_current.is_some_and(|ends| end.is_none() || ends.contains(&None) || ends.contains(&end))
    };
    let old_failing = situation
        .eligible()
        .filter(|node| node.updated.is_none() && node.old.is_some() && !node.old_is_available)
        .filter(|node| failure(node, node.old).is_some_and(is_alike))
        .filter(|node| may_be_of_target(situation, node))
        .count();
    let old_failing = match failed_before(situation) {
        true => old_failing.max(failing),
        false => old_failing,
    };
    let fails_everywhere = |nodes: &[&RolloutNode<'_>]| nodes.len() == situation.eligible().count();
    let is_refused = of_current.iter().all(|node| node.updated.is_none());
    let is_unseen = |node: &&RolloutNode<'_>| node.origin() == Some(&Origin::Template(TemplatePart::Scheduler));
    let is_unbound = |node: &&RolloutNode<'_>| node.updated.is_some_and(|pod| pod.spec.node_name.is_empty());
    let available = situation.eligible().filter(|node| node.updated_is_available).count();
    let old_available = situation.nodes.iter().filter(|node| node.old_is_available).count();
    let raised: BTreeSet<&RaisedRequest> =
        of_current.iter().filter_map(|node| node.excess.as_ref()).flatten().collect();
    let knows_others = |node: &&RolloutNode<'_>| situation.index.snapshot.knows_all_pods_on(node.name);
    let is_of_placement = |node: &&RolloutNode<'_>| {
        let is_of_class = node.code().is_some_and(|code| code.class() == Class::Placement);
        node.origin() == Some(&Origin::Placement) || is_of_class && !matches!(node.origin(), Some(Origin::Room(_)))
    };
    let apart = if is_only_broken { Vec::new() } else { kind_apart(situation, &of_current) };
    // What another revision has as well, or this one works with elsewhere, is not this one's.
    let is_of_configuration = configuration.is_some()
        && (others_are_empty
            || working > 0
            || !has_another
            || situation.only_restarts()
            || situation.has_worked_for_long());
    let what = match () {
        () if is_of_configuration => SuspectKind::Configuration,
        () if failing == 0 => return None,
        () if is_only_broken => SuspectKind::Nodes,
        () if old_failing > 0 => SuspectKind::EveryRevision,
        // Pods of the older revision would run on the nodes where these do not.
        () if for_itself.count() == 0 && !situation.has_worked_for_long() => SuspectKind::Revision,
        // A node is not to blame if its pod is refused.
        () if working > failing && of_current.iter().any(|node| node.updated.is_none()) => return None,
        () if working > failing && (!kind.is_empty() || asks_otherwise) => SuspectKind::Revision,
        // No scheduler looks at any node, whatever the revision.
        () if situation.raised().scheduler != Some(true) && of_current.iter().all(is_unseen) => return None,
        () if working > failing => SuspectKind::Nodes,
        // The same pods work on older nodes, and no other revision has run on these.
        () if works_on_older(situation, &of_current) => SuspectKind::Nodes,
        // Something else has broken.
        () if situation.has_worked_for_long() => return None,
        () if of_current.len() >= SEVERAL && !apart.is_empty() && !of_current.iter().all(is_of_placement) => {
            SuspectKind::Nodes
        }
        // A policy or a limit may be as new as the revision: only the API server can tell.
        () if is_refused && !situation.another_is_admitted() => return None,
        // What does not start finds nothing otherwise than before: something else has taken its place.
        () if situation.only_restarts() && of_current.iter().all(is_unbound) => return None,
        // The other pods of these nodes may fail, too, or have failed before: they were not read.
        () if situation.only_restarts() && !of_current.iter().any(knows_others) => return None,
        () if situation.only_restarts() => SuspectKind::Surroundings,
        // The controller replaces pods that are not available first: those of nodes on which older ones had failed, too.
        () if are_new(situation, &of_current) => return None,
        () if old_available > 0 || fails_everywhere(&of_current) && replaces_what_ran(situation, &of_current) => {
            SuspectKind::Revision
        }
        () => return None,
    };
    let is_to_start_again =
        |node: &&RolloutNode<'_>| node.updated.is_some_and(|pod| has_not_run_since_change(situation, pod));
    if matches!(what, SuspectKind::Nodes | SuspectKind::Surroundings) && of_current.iter().all(is_to_start_again) {
        return None;
    }
    if what == SuspectKind::Revision && may_have_failed_before(situation) {
        return None;
    }
    let mut kinds = match what {
        SuspectKind::Revision if working > failing => kind,
        SuspectKind::Nodes | SuspectKind::Configuration if apart.is_empty() => kind_of_later(situation, &of_current),
        SuspectKind::Nodes | SuspectKind::Configuration => apart,
        SuspectKind::Revision | SuspectKind::EveryRevision | SuspectKind::Surroundings => Vec::new(),
    }
    .into_iter();
    let on = kinds.next();
    let is_alike = |node: &&RolloutNode<'_>| {
        on.as_ref().is_none_or(|on| node.object.is_some_and(|node| common_cause::has(on, node)))
    };
    let old_available = situation.nodes.iter().filter(|node| node.old_is_available).filter(is_alike).count();
    let raised_requests = raised.into_iter().cloned().collect();
    let works_since_before = what == SuspectKind::Nodes && !has_proof(situation, &of_current);
    Some(Suspect {
        what,
        revision: situation.current.known().map(|revision| revision.revision),
        failing: configuration.as_ref().filter(|_| is_of_configuration).map_or(failing, |(_, failing)| *failing),
        is_refused,
        available,
        works_since_before,
        old_available,
        old_failing,
        on,
        also: kinds.collect(),
        raised_requests,
        configuration: configuration.map(|(configuration, _)| configuration),
    })
}

/// A node that joined less than this many seconds before the rollout may never have had an available pod.
const JOINED: i64 = 3600;

/// Returns whether pods of the current revision fail on nodes alone that joined shortly before its rollout, or since: whether those of
/// another one would work there is not known.
pub(in crate::rollout) fn only_new_nodes_fail(situation: &Situation<'_>) -> bool {
    let failing: Vec<&RolloutNode<'_>> = failing_nodes(situation).collect();
    !failing.is_empty() && are_new(situation, &failing)
}

/// Returns whether the failing nodes joined shortly before the rollout, or since, and after all nodes on which pods are available.
fn are_new(situation: &Situation<'_>, failing: &[&RolloutNode<'_>]) -> bool {
    let others = situation.nodes.iter().filter(|node| node.old_is_available || node.updated_is_available);
    let Some((others, began)) = others.filter_map(RolloutNode::joined).max().zip(situation.rollout_began_at()) else {
        return false;
    };
    let is_new = |at: Timestamp| at > others && seconds_between(at, began) < JOINED;
    failing.iter().all(|node| !node.meets_what_is_new() && node.joined().is_some_and(is_new))
}

/// Returns whether all nodes on which pods of the current revision fail joined since its rollout: none has run another one.
pub(in crate::rollout) fn only_later_nodes_fail(situation: &Situation<'_>) -> bool {
    let Some(began) = situation.rollout_began_at() else { return false };
    let mut failing = failing_nodes(situation).peekable();
    failing.peek().is_some() && failing.all(|node| node.joined().is_some_and(|at| at > began))
}

/// Returns whether all nodes on which pods of the current revision fail joined since its rollout, and after those on which it works.
fn works_on_older(situation: &Situation<'_>, failing: &[&RolloutNode<'_>]) -> bool {
    let working = situation.working().filter_map(RolloutNode::joined).max();
    let Some(since) = working.zip(situation.rollout_began_at()).map(|(working, began)| working.max(began)) else {
        return false;
    };
    failing.iter().all(|node| node.joined().is_some_and(|at| at > since))
}

/// Returns what only the failing nodes have, if they joined later: they may be of a new pool, or have a new image.
fn kind_of_later(situation: &Situation<'_>, failing: &[&RolloutNode<'_>]) -> Vec<FeatureValue> {
    if failing.len() < SEVERAL || !works_on_older(situation, failing) || are_of_network(failing) {
        return Vec::new();
    }
    let codes = codes_of(failing);
    let (working, failing) = (objects(situation.working()), objects(failing.iter().copied()));
    let kinds = common_cause::kinds_of(&codes, &failing, &failing, &working);
    if kinds.is_empty() { common_cause::pool_of(&failing, &working) } else { kinds }
}

/// Returns whether all pods fail because they do not reach something: it does not matter for which nodes they are made.
fn are_of_network(nodes: &[&RolloutNode<'_>]) -> bool {
    let is_of_network = |node: &&RolloutNode<'_>| {
        node.code() == Some(ReasonCode::CrashLooping) && node.origin() == Some(&Origin::Template(TemplatePart::Sandbox))
    };
    nodes.iter().all(is_of_network)
}

fn codes_of(nodes: &[&RolloutNode<'_>]) -> BTreeSet<ReasonCode> {
    nodes.iter().filter_map(|node| node.code()).collect()
}

fn objects<'n>(nodes: impl Iterator<Item = &'n RolloutNode<'n>>) -> Vec<&'n Node> {
    nodes.filter_map(|node| node.object).collect()
}

/// Returns what the failing nodes have in common, if the current revision works on no node of that kind, but an older
/// one does: its success on other nodes then says nothing about these.
fn kind_that_fails(situation: &Situation<'_>, failing: &[&RolloutNode<'_>]) -> Vec<FeatureValue> {
    if situation.has_worked_for_long() || situation.only_restarts() {
        return Vec::new();
    }
    let codes = codes_of(failing);
    let was_there = |node: &&RolloutNode<'_>| {
        node.joined().zip(situation.rollout_began_at()).is_some_and(|(joined, began)| joined < began)
    };
    let has_old = situation.nodes.iter().any(|node| node.old.is_some());
    let worked_before =
        !has_old && failing.len() >= SEVERAL && failing.iter().all(was_there) && replaces_what_ran(situation, failing);
    let failing = objects(failing.iter().copied());
    let old = match worked_before {
        true => failing.clone(),
        // During a surge, also that beside the pod that fails.
        false => objects(situation.eligible().filter(|node| node.old_is_available && !node.updated_is_available)),
    };
    common_cause::kinds_of(&codes, &failing, &old, &objects(situation.working()))
}

/// Returns what the failing nodes have and those where it works lack, if the only revision has failed there from the start: whether the
/// program or the nodes should be different, nothing tells.
fn kind_apart(situation: &Situation<'_>, failing: &[&RolloutNode<'_>]) -> Vec<FeatureValue> {
    let codes = codes_of(failing);
    let is_first = !are_of_network(failing)
        && situation.revisions.all.len() == 1
        && failing.iter().all(|node| node.updated.is_some());
    let (working, failing) = (objects(situation.working()), objects(failing.iter().copied()));
    let mut found = match is_first && working.len() >= SEVERAL {
        true => common_cause::kinds_of(&codes, &failing, &failing, &working),
        false => Vec::new(),
    };
    found.retain(|kind| failing.len() >= SEVERAL || kind.feature == Feature::Architecture);
    found
}

/// The fewest failing nodes that show a pattern: a single node may differ from all others by chance.
const SEVERAL: usize = 2;

/// How many seconds a former pod must have failed, or it may have been starting; and at most how many seconds before it was replaced
/// this must have been seen last.
const FAILED_BEFORE: i64 = 300;

/// At most how many seconds before it was replaced a former pod was seen crashing that may have done so to the end.
const CRASHED_TO_THE_END: i64 = 60;

/// Returns whether, according to events, as many former pods failed like the current ones until the revision to roll back to was replaced,
/// which may have been meant to fix that. Those of a revision between them may have failed because of what is new in both.
pub(in crate::rollout) fn failed_before(situation: &Situation<'_>) -> bool {
    former_failed(situation, false)
}

/// Returns whether as many former pods may have failed like the current ones, because they were crashing on the same nodes when they were
/// replaced. Each crash has its own cause: a rollout that was to mend one may bring another.
pub(in crate::rollout) fn may_have_failed_before(situation: &Situation<'_>) -> bool {
    former_failed(situation, true)
}

fn former_failed(situation: &Situation<'_>, may_be_another_cause: bool) -> bool {
    let failing: Vec<_> = failing_nodes(situation).filter(|node| node.excess.is_none()).collect();
    let codes: BTreeSet<ReasonCode> = failing.iter().filter_map(|node| node.code()).collect();
    let Some(replaced) = situation.replaced_at().filter(|_| !codes.is_empty()) else { return false };
    let metadata = &situation.daemon_set.metadata;
    let of_namespace = situation.index.snapshot.pods.iter().filter(|pod| pod.metadata.namespace == metadata.namespace);
    let present: BTreeSet<&str> = of_namespace.map(|pod| pod.metadata.name.as_str()).collect();
    let is_alike = |event: &Event| {
        codes.iter().any(|code| match code {
            ReasonCode::CrashLooping => {
                event.reason == "BackOff" && event.message.contains("restarting failed container")
            }
            ReasonCode::ReadinessFailing => {
                event.reason == "Unhealthy" && event.message.starts_with("Readiness probe ")
            }
            ReasonCode::LivenessFailing => event.reason == "Unhealthy" && event.message.starts_with("Liveness probe "),
            _ => false,
        })
    };
    let lasted = |event: &Event| {
        let (first, last) = event.first_seen().zip(event.last_seen())?;
        let is_there = event.reason == "BackOff" && failing.iter().any(|node| node.name == event.source.host);
        let (lasted, ended) = (seconds_between(first, last.min(replaced)), seconds_between(last, replaced));
        let is_long = lasted >= FAILED_BEFORE && ended < FAILED_BEFORE;
        let to_the_end = may_be_another_cause && is_there && ended < CRASHED_TO_THE_END;
        // The kubelet may still report it while the pod is being replaced.
        Some(first <= replaced && (is_long || to_the_end))
    };
    let former = situation.index.snapshot.events.iter().filter_map(|event| {
        let about = &event.involved_object;
        let is_pod = about.kind == "Pod" && about.namespace == metadata.namespace;
        let suffix = generated_suffix(&about.name, &metadata.name)?;
        let is_generated = suffix.len() == GENERATED_LENGTH && !suffix.contains('-');
        let is_own = is_pod && is_generated && !present.contains(about.name.as_str());
        (is_own && is_alike(event) && lasted(event) == Some(true)).then_some(about.name.as_str())
    });
    former.collect::<BTreeSet<&str>>().len() >= failing.iter().filter(|node| node.code().is_some()).count()
}

/// How many seconds after its creation a pod that never worked has failed at most.
const FROM_THE_START: i64 = 300;

/// Returns whether these pods of the current revision have failed from the start, and the revision before it ran for so long that it worked:
/// no pod of that is left to prove it.
fn replaces_what_ran(situation: &Situation<'_>, failing: &[&RolloutNode<'_>]) -> bool {
    let Some(began) = situation.rollout_began_at() else { return false };
    let ran = || {
        let (target, _) = situation.revisions.target()?;
        let from = situation.revisions.rollout_began_at(target.object)?;
        Some(target.failing == 0 && seconds_between(from, began) >= MIN_CURRENT)
    };
    let never_worked = |node: &&RolloutNode<'_>| {
        let times = || {
            let pod = node.updated?;
            Some((pod.metadata.creation_timestamp.get()?, failing_since(pod, situation.now())?))
        };
        // A pod that was created long after the rollout may be the successor of one that worked.
        times().is_some_and(|(created, since)| {
            // How long it has failed follows from its restarts, between which the kubelet may wait longer.
            let tolerance = FROM_THE_START.max(situation.seconds_since(since) / 5);
            seconds_between(created, since) < tolerance && seconds_between(began, created) < MIN_CURRENT
        })
    };
    failing.iter().all(never_worked) && ran() == Some(true)
}

/// A working pod that was started at most this many seconds before the first failing one proves that pods could start at that time.
const RECENT: i64 = 3600;

/// Returns whether a working pod was started not long before the first failing one, or later: a change to the cluster
/// only affects pods that start afterwards.
fn has_proof(situation: &Situation<'_>, failing: &[&RolloutNode<'_>]) -> bool {
    let since = |node: &&RolloutNode<'_>| {
        // The controller recreates a pod that has failed: when the first one did is not known.
        let pod = node.updated.filter(|pod| !daemon_pods::has_failed(pod))?;
        failing_since(pod, situation.now()).or_else(|| pod.metadata.creation_timestamp.get())
    };
    let Some(first) = failing.iter().filter_map(since).min() else { return true };
    let started = |pod: &Pod| {
        let statuses = pod.status.container_statuses.iter();
        let runs = statuses.filter_map(|status| status.state.running.as_ref()?.started_at.get());
        runs.max().max(pod.metadata.creation_timestamp.get())
    };
    let is_recent = |node: &RolloutNode<'_>| {
        let started = node.updated.and_then(started);
        started.is_none_or(|started| seconds_between(started, first) <= RECENT)
    };
    situation.working().any(is_recent)
}

/// Returns why pods of the current revision fail, or are refused: a reason about the pod for each eligible node, except
/// those where everything failed before.
pub(in crate::rollout) fn failing(situation: &Situation<'_>) -> Vec<ReasonCode> {
    let failing = failing_nodes(situation).filter(|node| !was_broken(situation, node));
    failing.filter_map(|node| node.code()).collect()
}

/// Returns on how many nodes pods of the current revision fail, if all do because of what the revision to roll back to has, too.
pub(in crate::rollout) fn failing_in_common(situation: &Situation<'_>) -> Option<usize> {
    let nodes: Vec<_> = may_fail(situation).collect();
    (!nodes.is_empty() && nodes.iter().all(|node| is_in_common(situation, node))).then_some(nodes.len())
}

fn failing_nodes<'s, 'a>(situation: &'s Situation<'a>) -> impl Iterator<Item = &'s RolloutNode<'a>> {
    may_fail(situation).filter(|node| !is_in_common(situation, node))
}

/// Returns the nodes on which pods of the current revision fail for a reason that may be due to the revision.
fn may_fail<'s, 'a>(situation: &'s Situation<'a>) -> impl Iterator<Item = &'s RolloutNode<'a>> {
    let fails = |node: &&RolloutNode<'_>| node.may_be_the_revisions() && !situation.passes(node);
    situation.eligible().filter(|node| node.is_on_current()).filter(fails)
}

/// Returns whether a pod fails because of a part of the template that the revision to roll back to has, too.
fn is_in_common(situation: &Situation<'_>, node: &RolloutNode<'_>) -> bool {
    node.origin().is_some_and(|origin| situation.has_in_common(origin))
}
