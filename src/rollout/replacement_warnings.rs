//! Warnings before pods are replaced: that their template fails, that the API server refuses new pods, and which pods
//! would not be recreated.

use super::proposal::Planned;
use super::quota_warnings::{allows_none, quota_warning, takes_no_more};
use super::rollback::{lacks, rollback};
use super::situation::fault::not_by_their_node;
use super::situation::suspect::suspect;
use super::situation::{RolloutNode, Situation};
use crate::coverage::{
    Origin, TemplatePart, creation_refusal, exceeds_quota, have_same_cause, is_above_quota, is_refused_like_controller,
    is_refused_within_quota, refusal_reason,
};
use crate::facts::Facts;
use crate::model::daemon_set::{DaemonSet, Flavor, UpdateStrategy};
use crate::model::pod::Pod;
use crate::model::snapshot::Admission;
use crate::report::coverage::RemovedNodes;
use crate::report::fix::Fix;
use crate::report::plan::{Warning, WarningCode};
use crate::report::reason::{Reason, ReasonCode};
use crate::report::rollout_status::{Suspect, SuspectKind};
use crate::report::{count, count_and, named};
use crate::scheduling::daemon_pods;
use crate::scheduling::rolling_update::allows_surge;
use crate::scheduling::should_run::DaemonPod;

/// A replacement of pods.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replacement<'a> {
    /// The resulting DaemonSet.
    pub(crate) after: &'a DaemonSet,
    /// The hash of the revision of its template; empty if there is none yet, so that every pod is replaced.
    pub(crate) hash: &'a str,
    /// Whether the new pods have the current template.
    pub(crate) is_same_template: bool,
    /// Whether the DaemonSet controller deletes the pods, rather than the user.
    pub(crate) by_controller: bool,
    /// Whether pods on ineligible nodes are replaced, too.
    pub(crate) includes_ineligible: bool,
    /// The most pods that are replaced.
    pub(crate) most: usize,
}

impl<'a> Replacement<'a> {
    /// Describes what a new template replaces: all pods of other revisions, by the controller or under OnDelete by the user.
    pub(crate) fn of_template(after: &'a DaemonSet, hash: &'a str, is_same_template: bool) -> Self {
        let by_controller = matches!(after.spec.update_strategy, UpdateStrategy::RollingUpdate(_));
        Replacement { after, hash, is_same_template, by_controller, includes_ineligible: true, most: usize::MAX }
    }

    /// Describes what another update strategy replaces, if the controller replaces pods under it.
    pub(crate) fn of_strategy(after: &'a DaemonSet, before: &Facts<'a>) -> Option<Self> {
        let replacement = Replacement::of_template(after, before.hash_for_rules()?, true);
        replacement.by_controller.then_some(replacement)
    }

    /// Returns whether the API server refuses the new pods, as far as it is known.
    pub(super) fn is_refused(&self, before: &Situation<'_>) -> bool {
        match self.is_same_template {
            true => before.still_refuses_pods() || self.refusal(before).is_some_and(|(_, is_certain)| is_certain),
            false => before.index.snapshot.is_admitted(self.after, self.hash) == Some(false),
        }
    }

    /// Returns the hash of the new pods, or one that no revision has.
    pub(super) fn hash_of_new(&self) -> &'a str {
        if self.hash.is_empty() { "new" } else { self.hash }
    }

    /// Returns whether a pod is one of the new ones.
    pub(super) fn is_updated(&self, pod: &Pod) -> bool {
        daemon_pods::is_updated(self.after, Some(self.hash_of_new()), pod)
    }

    /// Returns why the API server refuses new pods, and whether it certainly refuses the replacements; `None` if it
    /// would create them.
    fn refusal(&self, situation: &Situation<'_>) -> Option<(Reason, bool)> {
        let of_controller = creation_refusal(situation).map(|refusal| refusal.reason());
        let snapshot = situation.index.snapshot;
        let admission = self.admission(situation);
        if of_controller.is_some() && self.frees_quota(situation) {
            return None;
        }
        let Some(admission) = admission else {
            if !self.is_same_template && situation.admits(self.after, self.hash) == Some(true) {
                return None;
            }
            return Some((of_controller.filter(|_| situation.still_refuses_pods())?, false));
        };
        let message = admission.refusal.as_ref()?;
        let asked = refusal_reason(snapshot, self.after, message);
        let Some(of_controller) = of_controller else {
            let is_about_people = is_about_people(situation, asked.code, message);
            let depends_on_user = depends_on_user(asked.code);
            let may_differ = is_about_people || (self.is_same_template && depends_on_user);
            let is_certain = !gives_back(message) && !may_differ;
            let tells = !self.is_same_template || is_certain || (depends_on_user && !is_about_people);
            return tells.then_some((asked, is_certain));
        };
        // Users may be refused where the controller is not, and the replaced pods free their quota.
        let is_certain = is_refused_like_controller(situation, message) && !gives_back(message);
        let is_gone = !situation.still_refuses_pods();
        Some((if is_certain || is_gone { asked } else { of_controller }, is_certain))
    }
}

impl Replacement<'_> {
    /// Returns what the API server answers to a dry run of a new pod.
    fn admission<'s>(&self, situation: &Situation<'s>) -> Option<&'s Admission> {
        let hash = if self.is_same_template { situation.current_hash() } else { Some(self.hash) };
        hash.and_then(|hash| situation.index.snapshot.admission(self.after, hash))
    }

    /// Returns whether only a quota is in the way of the new pods, and the deleted pods free what they need of it.
    pub(crate) fn frees_quota(&self, situation: &Situation<'_>) -> bool {
        let refused_now = self.admission(situation).and_then(|admission| admission.refusal.as_deref());
        is_refused_within_quota(situation) && refused_now.is_none_or(exceeds_quota) && self.gives_back(situation)
    }

    /// Returns whether the deleted pods free what the new ones need of a quota: no node waits for its first pod, none gets a second one,
    /// and no new pod takes more.
    fn gives_back(&self, situation: &Situation<'_>) -> bool {
        self.by_controller
            && !allows_surge(self.after)
            && situation.is_known
            && !situation.lacks_pods()
            && takes_no_more(situation, self, &replaced(situation, self))
    }
}

/// For how many seconds a pod created by the controller proves that the API server refuses only users: a policy, or a
/// failure of a webhook, may be newer than an older one.
const JUST_CREATED: i64 = 30;

/// Returns whether a refusal may end once a pod is deleted, which frees its share of a quota.
fn gives_back(message: &str) -> bool {
    exceeds_quota(message) && !is_above_quota(message)
}

/// Returns whether a refusal may depend on who creates the pod, so that the controller may not be refused. Those with other codes are
/// about the pod.
pub(crate) fn depends_on_user(code: ReasonCode) -> bool {
    matches!(code, ReasonCode::WebhookDenied | ReasonCode::SecurityConstraintDenied)
}

/// Returns whether the API server refuses users a pod with a message, but not the controller: it has just created pods
/// of the current revision, which users are refused for the same reason.
fn is_about_people(situation: &Situation<'_>, code: ReasonCode, message: &str) -> bool {
    // A webhook that is down may apply only to users, because of its matchConditions.
    if !depends_on_user(code) && code != ReasonCode::WebhookUnavailable {
        return false;
    }
    let Facts { index, daemon_set, .. } = **situation;
    let of_current = situation.current_hash().and_then(|hash| index.snapshot.admission(daemon_set, hash));
    let refusal = of_current.and_then(|admission| admission.refusal.as_ref());
    let updated = situation.nodes.iter().filter_map(|node| node.updated?.metadata.creation_timestamp.get());
    refusal.is_some_and(|refusal| have_same_cause(index.snapshot, daemon_set, refusal, message))
        && situation.is_recent(updated.max(), JUST_CREATED)
}

/// Checks that the controller would not delete available pods for new ones that certainly fail or are refused, unless forced. A surge
/// does not delete available pods. An unknown number of deletions counts as harm.
///
/// # Errors
///
/// Fails with the reasons if it would.
pub(super) fn unless_harmful(planned: Planned, force: bool) -> Result<Planned, Vec<Warning>> {
    let report = &planned.report;
    let after = report.effect.as_ref().and_then(|effect| effect.after).filter(|pace| !pace.surges);
    let deletes_available = after.is_some_and(|pace| {
        pace.replaced_now.zip(pace.replaced_regardless).is_none_or(|(now, regardless)| now > regardless)
    });
    let worse = if deletes_available && !force { certain(&report.warnings) } else { Vec::new() };
    if worse.is_empty() { Ok(planned) } else { Err(worse) }
}

/// Returns the warnings because of which a change is refused: about new pods that certainly fail or are refused.
pub(crate) fn certain(warnings: &[Warning]) -> Vec<Warning> {
    warnings.iter().filter(|warning| warning.is_certain).cloned().collect()
}

/// Returns what may go wrong as pods are replaced; nothing if none are. If nodes or pods could not be read, it is only what new pods
/// would lack on any node.
pub(crate) fn replacement_warnings(situation: &Situation<'_>, replacement: &Replacement<'_>) -> Vec<Warning> {
    let removed = situation.coverage.removed_nodes.as_ref().filter(|_| replacement.is_same_template);
    let removed = removed.filter(|removed| removed.needs_attention()).map(nodes_removed);
    let replaced = if situation.is_known { replaced(situation, replacement) } else { Vec::new() };
    let few = replaced.get(..replacement.most).unwrap_or(&replaced);
    // What the first pods give back may be too little for the new ones.
    let is_never =
        |reason: &Reason| reason.code == ReasonCode::QuotaExceeded && allows_none(situation, replacement, few);
    let refused = || {
        let (reason, is_certain) = replacement.refusal(situation)?;
        let is_certain = is_certain || is_never(&reason);
        Some(refused(situation, replacement, (reason, is_certain)))
    };
    if replaced.is_empty() {
        if !situation.is_known {
            return removed.into_iter().chain(refused()).chain(missing_objects(situation, replacement)).collect();
        }
        // Nodes that wait for their pods will get one of the new template.
        let waits = situation.creation_is_refused() && situation.lacks_pods();
        return removed.into_iter().chain(waits.then(refused).flatten()).collect();
    }
    let suspect = suspect(situation);
    let not_by_nodes = not_by_nodes(situation, replacement, suspect.as_ref());
    let failing = suspect.filter(|suspect| replacement.is_same_template && suspect.what == SuspectKind::Revision);
    let so = "this change would roll it out to the others";
    let failing = failing.map(|failing| failing_revision(situation, &failing, so));
    let refused = refused();
    let lost = match replacement.includes_ineligible {
        true => not_recreated(situation, replacement, &replaced),
        false => Default::default(),
    };
    let missing = missing_objects(situation, replacement);
    let quota = quota_warning(situation, replacement, few).filter(|_| refused.is_none());
    let refused = refused.into_iter().chain(quota);
    removed.into_iter().chain(failing).chain(refused).chain(missing).chain(not_by_nodes).chain(lost).collect()
}

/// Warns that the new pods would not start, because an object that they need does not exist.
fn missing_objects(situation: &Situation<'_>, replacement: &Replacement<'_>) -> Option<Warning> {
    let hash = match replacement.is_same_template {
        true => situation.current_hash().unwrap_or_default(),
        false => replacement.hash,
    };
    let lacks = lacks(situation, hash, &replacement.after.template());
    if lacks.is_empty() {
        return None;
    }
    let namespace = &situation.daemon_set.metadata.namespace;
    let does = if lacks.len() == 1 { "does" } else { "do" };
    let message =
        format!("the new pods would not start: {} {does} not exist in namespace {namespace}", lacks.join(" and "));
    Some(Warning { is_certain: true, ..Warning::new(WarningCode::MissingObjects, message) })
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
    let is_old = |pod: &&Pod| !replacement.is_updated(pod);
    let nodes = situation.node_pods.iter();
    nodes.flat_map(|node| node.pods.iter().copied().filter(live).filter(is_old).map(|pod| (node.node, pod))).collect()
}

/// Warns that pods of the current template fail where older ones work, and how to roll back. It is certain if they are
/// available nowhere.
pub(super) fn failing_revision(situation: &Situation<'_>, failing: &Suspect, so: &str) -> Warning {
    let number = situation
        .current
        .known()
        .map_or_else(|| "the current revision".to_owned(), |it| format!("revision {}", it.revision));
    let available = if failing.available == 0 { "none".to_owned() } else { failing.available.to_string() };
    let message = format!(
        "{number} fails on {} and is available on {available}, while older pods are available on {}; {so}",
        count(failing.failing, "node"),
        count(failing.old_available, "node")
    );
    let fix = rollback(situation).ok().map(|fix| Fix { advice: "to roll back instead".to_owned(), ..fix });
    Warning { fix, is_certain: failing.available == 0, ..Warning::new(WarningCode::RevisionFails, message) }
}

/// Warns that new pods do not become available on any node; those of another template, because of the cluster. It
/// excludes pods for which the revision is to blame, or that the API server refuses.
fn not_by_nodes(situation: &Situation<'_>, replacement: &Replacement<'_>, suspect: Option<&Suspect>) -> Vec<Warning> {
    let is_explained = suspect.is_some_and(|suspect| suspect.what == SuspectKind::Revision);
    let mut reasons = not_by_their_node(situation, suspect);
    let scheduler = |daemon_set: &DaemonSet| daemon_set.spec.template.spec.scheduler_name.clone();
    let has_same_scheduler = scheduler(replacement.after) == scheduler(situation.daemon_set);
    let is_cluster = |node: &&str| match situation.node(node).and_then(RolloutNode::origin) {
        Some(Origin::ControlPlane | Origin::Quota) => true,
        Some(Origin::Template(TemplatePart::Scheduler)) => has_same_scheduler,
        _ => false,
    };
    reasons.retain(|_, nodes| {
        let is_same = replacement.is_same_template && !is_explained;
        !situation.creation_is_refused() && (is_same || nodes.iter().any(is_cluster))
    });
    let group = |code, node: &str| {
        situation
            .coverage
            .problems
            .iter()
            .find(|group| group.code == code && group.nodes.iter().any(|name| name == node))
    };
    let found = reasons.into_iter().filter_map(|(code, nodes)| Some((group(code, nodes.first()?)?, nodes)));
    let warnings = found.map(|(group, nodes)| {
        let nodes = count_and(nodes.len(), "node", ["has", "have"]);
        let is_of_node = |name: &String| situation.node(name).is_some_and(RolloutNode::is_of_node);
        let which = match group.nodes.first().is_some_and(is_of_node) {
            true => "may be because of this revision",
            false => "is not tied to the node",
        };
        let message = format!(
            "{nodes} no available pod because of {} ({}), which {which}: pods that are replaced would fare no better",
            group.code, group.message
        );
        Warning { fix: Some(group.fix.clone()), ..Warning::new(WarningCode::NotByNodes, message) }
    });
    warnings.collect()
}

/// Warns that the API server refuses new pods.
fn refused(situation: &Situation<'_>, replacement: &Replacement<'_>, refusal: (Reason, bool)) -> Warning {
    let (Reason { code, message, fix, .. }, is_certain) = refusal;
    // As long as the controller fails to create pods, it does not get to the rolling update.
    let so = match replacement.by_controller && situation.is_known && situation.lacks_pods() {
        true => "the controller replaces no pod",
        false => "a pod that is deleted is not recreated",
    };
    let is_of_new_template = !replacement.is_same_template && !situation.still_refuses_pods();
    let (which, until) = match (replacement.is_same_template, is_certain) {
        _ if is_of_new_template => ("pods of the new template", "until it accepts them"),
        (true, _) => ("new pods", "until it accepts them"),
        (false, true) => ("new pods, including those of the new template", "until it accepts them"),
        (false, false) => ("new pods", "unless it accepts those of the new template"),
    };
    let depends_on_user = !is_certain && replacement.is_same_template && !situation.creation_is_refused();
    let message = match depends_on_user {
        true => format!(
            "the API server refuses you such a pod ({code}: {message}): if it refuses the controller one, too, {so} {until}"
        ),
        false => format!("the API server refuses {which} ({code}: {message}): {so} {until}"),
    };
    Warning { fix: Some(fix), is_certain, ..Warning::new(WarningCode::CreationRefused, message) }
}

/// Warns about pods that are not recreated after deletion: those on ineligible nodes, and, until their nodes return,
/// those on nodes that are down, whose kubelets cannot end a pod.
fn not_recreated(situation: &Situation<'_>, replacement: &Replacement<'_>, replaced: &[(&str, &Pod)]) -> Vec<Warning> {
    // OpenKruise's controller is not simulated.
    if replacement.after.flavor() == Flavor::Advanced {
        return Vec::new();
    }
    let daemon_pod = DaemonPod::new(&replacement.after.spec.template);
    let surges = replacement.by_controller && allows_surge(replacement.after);
    let (mut lost, mut stay) = (Vec::new(), Vec::new());
    for (name, pod) in replaced {
        let Some((node, object)) = situation.node(name).and_then(|node| Some((node, node.object?))) else { continue };
        let decision = daemon_pod.decide(object);
        let text = format!("{} on {name}", pod.metadata.name);
        match (situation.is_down(node), decision.should_run, decision.should_continue_running) {
            // A surge also creates one next to it, which waits for the node.
            (true, true, _) if !surges => stay.push(text),
            (true, false, true) => stay.push(text),
            (false, false, true) => lost.push(text),
            _ => {}
        }
    }
    let warn = |code, pods: &[String], [one, several]: [&str; 2]| {
        let message = match pods {
            [] => return None,
            [pod] => format!("pod {pod} {one}"),
            pods => format!("{} pods {several}: {}", pods.len(), named(pods)),
        };
        Some(Warning::new(code, message))
    };
    let stay = warn(
        WarningCode::NodesDown,
        &stay,
        [
            "stays Terminating until its node returns, because that is down",
            "stay Terminating until their nodes return, because those are down",
        ],
    );
    let lost = warn(
        WarningCode::NotRecreated,
        &lost,
        [
            "will be deleted and not recreated, because its node is not eligible",
            "are deleted and not recreated, because their nodes are not eligible",
        ],
    );
    stay.into_iter().chain(lost).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Replacement, replacement_warnings};
    use crate::coverage::test_support::{CURRENT, World, at, world};
    use crate::facts::index::Index;
    use crate::model::snapshot::{Admission, Gap, GapCause, Kind};
    use crate::report::plan::{ChangePlan, WarningCode};
    use crate::rollout::restart::restart;
    use crate::rollout::situation::Situation;
    use crate::rollout::undo::{NoTarget, undo, undo_safely};

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

    /// Adds the API server's answer to a dry run of a pod of a revision.
    fn asked(mut world: World, hash: &str, refusal: Option<&str>) -> World {
        let (daemon_set_uid, hash) = ("agent-uid".to_owned(), hash.to_owned());
        world.snapshot.admissions.push(Admission {
            daemon_set_uid,
            hash,
            refusal: refusal.map(str::to_owned),
            lacks: Vec::new(),
        });
        world
    }

    fn codes(plan: &ChangePlan) -> Vec<WarningCode> {
        plan.warnings.iter().map(|warning| warning.code).collect()
    }

    #[test]
    fn a_restart_of_a_failing_revision_is_warned_of() {
        let plan = restarted(bad_revision());
        assert_eq!(codes(&plan), [WarningCode::RevisionFails, WarningCode::MayBlock]);
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
        // A deleted pod frees its share, unless the quota was lowered since, or the new pod uses more.
        let one = || world().node("n", json!({})).pod("a", "n", json!({}));
        assert_eq!(codes(&with(one())), []);
        // A webhook has added a container to it, and adds it to the new one.
        let sidecar = json!({"name": "sidecar", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}});
        let injected = json!({"spec": {"containers": [{"name": "agent", "image": "agent:2"}, sidecar]}});
        assert_eq!(codes(&with(world().node("n", json!({})).pod("a", "n", injected))), []);
        // Something else refuses it, too.
        let denied = "pods \"agent-x\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces";
        assert_eq!(codes(&with(asked(one(), CURRENT, Some(denied)))), [WarningCode::CreationRefused]);
        assert_eq!(codes(&with(asked(one(), CURRENT, Some(refusal)))), []);
        let of_a_class = json!({"priorityClassName": "high"});
        assert_eq!(codes(&with(one().template(of_a_class))), [WarningCode::CreationRefused]);
        let asks_more = json!({"containers": [{"name": "agent", "resources": {"requests": {"cpu": "1"}}}]});
        let overdrawn = refusal.replace("limited: pods=2", "limited: pods=1");
        for plan in [with(one().template(asks_more)), restarted(one().refusal(&overdrawn))] {
            assert!(plan.warnings[0].message.ends_with("a pod that is deleted is not recreated until it accepts them"));
        }
    }

    fn refused(world: World) -> Option<Vec<WarningCode>> {
        let snapshot = world.finish();
        let index = Index::new(&snapshot);
        let refused = restart(&Situation::new(&index, &snapshot.daemon_sets[0]), false).err();
        refused.map(|worse| worse.into_iter().map(|warning| warning.code).collect())
    }

    /// What is refused on any node is refused on those that could not be read.
    #[test]
    fn a_refusal_counts_if_nodes_or_pods_were_not_read() {
        let denied = "pods \"agent-x\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces";
        for kind in [Kind::Nodes, Kind::Pods] {
            let unread = |refusal: Option<&str>, strategy: Value| {
                let mut world = asked(world().node("n", json!({})).pod("a", "n", json!({})), CURRENT, refusal);
                let cause = GapCause::Forbidden("list".to_owned());
                world.snapshot.gaps.push(Gap { kind, namespace: None, cause });
                refused(with_strategy(world, &strategy))
            };
            assert_eq!(unread(Some(denied), json!({})), Some(vec![WarningCode::CreationRefused]), "{kind:?}");
            assert_eq!(unread(None, json!({})), None, "{kind:?}");
            assert_eq!(unread(Some(denied), json!({"type": "OnDelete"})), None, "{kind:?}");
            let surge = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
            assert_eq!(unread(Some(denied), surge), None, "{kind:?}");
        }
    }

    fn with_strategy(world: World, strategy: &Value) -> World {
        world.daemon_set(json!({"spec": {"updateStrategy": strategy}}))
    }

    #[test]
    fn a_restart_that_deletes_available_pods_for_new_ones_that_fail_needs_force() {
        let with = |strategy: Value| refused(with_strategy(bad_revision(), &strategy));
        let three = || json!({"rollingUpdate": {"maxUnavailable": 3}});
        assert_eq!(with(three()), Some(vec![WarningCode::RevisionFails]));
        // The budget is used up: only failing pods are replaced, and the restart may be the fix.
        assert_eq!(with(json!({})), None);
        assert_eq!(with(json!({"rollingUpdate": {"maxUnavailable": 2}})), None);
        // Old pods stay until new ones are available, or until they are deleted.
        assert_eq!(with(json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})), None);
        assert_eq!(with(json!({"type": "OnDelete"})), None);
        // The behavior of another controller is unknown.
        let advanced = with_strategy(bad_revision(), &three());
        assert_eq!(refused(advanced.daemon_set(json!({"apiVersion": "apps.kruise.io/v1beta1"}))), None);
        // If the revision is available on some nodes, it is not certain that it fails.
        let works_elsewhere = || {
            (6..8).fold(with_strategy(bad_revision(), &three()), |world, number| {
                let node = format!("n{number}");
                world.node(&node, json!({})).pod(&format!("a{number}"), &node, json!({}))
            })
        };
        assert_eq!(refused(works_elsewhere()), None);
        let message = &restarted(works_elsewhere()).warnings[0].message;
        assert!(message.contains("fails on 2 nodes and is available on 2, while"), "{message}");
    }

    #[test]
    fn a_restart_needs_force_only_if_its_pods_are_certainly_refused_and_available_ones_deleted() {
        let denied = "pods \"agent-x\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces";
        let quota =
            "pods \"agent-x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2";
        let demand = "pods \"agent-x\" is forbidden: failed quota: few: must specify limits.memory for: agent";
        let of = |event: &str| world().node("n", json!({})).pod("a", "n", json!({})).refusal(event);
        let is_refused = Some(vec![WarningCode::CreationRefused]);
        assert_eq!(refused(asked(of(denied), CURRENT, Some(denied))), is_refused);
        assert_eq!(refused(asked(of(demand), CURRENT, Some(demand))), is_refused);
        // It cannot be checked, for example without permission to create pods.
        assert_eq!((refused(of(denied)), codes(&restarted(of(denied)))), (None, vec![WarningCode::CreationRefused]));
        // A policy about users' pods does not affect those of the controller.
        let policy = "admission webhook \"people.example.com\" denied the request: no bare pods";
        assert_eq!(refused(asked(of(denied), CURRENT, Some(policy))), None);
        let message = &restarted(asked(of(denied), CURRENT, Some(policy))).warnings[0].message;
        assert!(message.contains("PodSecurityDenied"), "{message}");
        // A refusal that anyone may get is the same only if the same component refuses it.
        for (event, same, other) in [
            (
                "admission webhook \"pods.example.com\" denied the request: image a:1",
                "admission webhook \"pods.example.com\" denied the request: image a:2",
                policy,
            ),
            (
                "pods \"agent-x\" is forbidden: ValidatingAdmissionPolicy 'one' with binding 'b' denied request: no",
                "pods \"agent-y\" is forbidden: ValidatingAdmissionPolicy 'one' with binding 'c' denied request: so",
                "pods \"agent-y\" is forbidden: ValidatingAdmissionPolicy 'two' with binding 'b' denied request: no",
            ),
            (
                "Pod \"agent-x\" is invalid: spec.hostNetwork: Forbidden: no",
                "Pod \"agent-y\" is invalid: spec.hostNetwork: Forbidden: no",
                "Pod \"agent-x\" is invalid: spec.hostUsers: Forbidden: no",
            ),
        ] {
            assert_eq!(refused(asked(of(event), CURRENT, Some(same))), is_refused, "{same}");
            assert_eq!(refused(asked(of(event), CURRENT, Some(other))), None, "{other}");
        }
        // The replaced pods free their quota, unless it was lowered since.
        assert_eq!(refused(asked(of(quota), CURRENT, Some(quota))), None);
        let overdrawn = quota.replace("limited: pods=2", "limited: pods=1");
        assert_eq!(refused(asked(of(&overdrawn), CURRENT, Some(&overdrawn))), is_refused);
        // Until the missing pod is created, the controller deletes none.
        assert_eq!(refused(asked(of(denied), CURRENT, Some(denied)).node("m", json!({}))), None);
    }

    /// Before the first refusal, only an answer that does not depend on the user counts.
    #[test]
    fn a_restart_is_refused_because_of_what_no_user_is_exempt_from() {
        let with = |refusal: &str| {
            refused(asked(world().node("n", json!({})).pod("a", "n", json!({})), CURRENT, Some(refusal)))
        };
        let forbidden = |words: &str| format!("pods \"agent-x\" is forbidden: {words}");
        let is_refused = Some(vec![WarningCode::CreationRefused]);
        for (words, expected) in [
            ("violates PodSecurity \"baseline:latest\": host namespaces", &is_refused),
            ("maximum cpu usage per Container is 500m, but limit is 1", &is_refused),
            ("error looking up service account default/agent: serviceaccount \"agent\" not found", &is_refused),
            ("no PriorityClass with name high was found", &is_refused),
            ("exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2", &None),
            ("exceeded quota: few, requested: pods=1, used: pods=8, limited: pods=7", &is_refused),
            ("ValidatingAdmissionPolicy 'people' with binding 'b' denied request: no bare pods", &None),
            ("unable to validate against any security context constraint: []", &None),
        ] {
            assert_eq!(&with(&forbidden(words)), expected, "{words}");
        }
        let policy = "admission webhook \"people.example.com\" denied the request: no bare pods";
        assert_eq!(with(policy), None);
        // It may refuse the controller, too, which has not tried for a long time.
        let world = world().node("n", json!({})).pod("a", "n", json!({}));
        let plan = restarted(asked(world, CURRENT, Some(policy)));
        assert_eq!(codes(&plan), [WarningCode::CreationRefused]);
        assert!(plan.warnings[0].message.contains("refuses you such a pod"), "{}", plan.warnings[0].message);
    }

    /// The controller has not tried again, and the target was not tried either.
    #[test]
    fn a_refusal_that_is_gone_is_not_told_of_another_template() {
        let denied = "pods \"agent-x\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces";
        let back = |world: World| {
            let world = world.revision_of_image("hash1", 1, "agent:1").node("n", json!({})).node("m", json!({}));
            let snapshot = world.pod("a", "n", json!({})).refusal(denied).finish();
            let index = Index::new(&snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            let [back, again] = [undo(&situation, Some(1)).unwrap(), restart(&situation, false).unwrap()];
            let replaced = again.report.effect.unwrap().after.unwrap().replaced_now;
            let refused = back.report.warnings.into_iter().filter(|it| it.code == WarningCode::CreationRefused);
            (refused.map(|warning| warning.message).collect::<Vec<_>>(), replaced)
        };
        let (warnings, replaced) = back(world());
        assert!(warnings[0].contains("unless it accepts those of the new template"), "{warnings:?}");
        assert_eq!(replaced, Some(0));
        let accepted = || asked(world(), CURRENT, None);
        assert_eq!(
            back(accepted().daemon_set(json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}}))),
            (Vec::new(), Some(1))
        );
        let (warnings, _) = back(asked(accepted(), "hash1", Some(denied)));
        assert!(
            warnings[0].starts_with("the API server refuses pods of the new template (PodSecurityDenied"),
            "{warnings:?}"
        );
        assert!(!warnings[0].contains("accepts such a pod now"), "{warnings:?}");
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
        assert!(message.starts_with("2 pods") && message.ends_with("b on m and c on o"), "{message}");
        // The controller deletes the pod of an evicting node anyway.
        let evicting = json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}});
        assert_eq!(codes(&restarted(world().node("m", evicting).pod("b", "m", json!({})))), []);
    }

    /// Their kubelets cannot end a pod.
    #[test]
    fn pods_of_nodes_that_are_down_stay_until_their_nodes_return() {
        let down = |effects: &[&str]| {
            let taints =
                effects.iter().map(|effect| json!({"key": "node.kubernetes.io/unreachable", "effect": effect}));
            json!({"spec": {"taints": taints.collect::<Vec<_>>()},
                "status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": at("11:40:00")}]}})
        };
        let cordoned = || json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
        let unready = || json!({"status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:40:00")}]}});
        let of = |pace: &Value, nodes: &[(&str, Value)]| {
            let world = nodes
                .iter()
                .fold(with_strategy(world(), &json!({ "rollingUpdate": pace })), |world, (node, object)| {
                    world.node(node, object.clone()).pod(&format!("pod-{node}"), node, unready())
                });
            let plan = restarted(world.node("n", json!({})).pod("a", "n", json!({})));
            let codes = [WarningCode::NodesDown, WarningCode::NotRecreated];
            let warnings = plan.warnings.into_iter().filter(|it| codes.contains(&it.code));
            warnings.map(|warning| warning.message).collect::<Vec<_>>()
        };
        let both = || down(&["NoSchedule", "NoExecute"]);
        let stays = "stays Terminating until its node returns, because that is down";
        let stay = "stay Terminating until their nodes return, because those are down";
        let lost = "pod pod-m on m will be deleted and not recreated, because its node is not eligible";
        for (nodes, expected) in [
            (&[("d", both())][..], vec![format!("pod pod-d on d {stays}")]),
            (&[("d", both()), ("e", both())], vec![format!("2 pods {stay}: pod-d on d and pod-e on e")]),
            (&[("d", both()), ("m", cordoned())], vec![format!("pod pod-d on d {stays}"), lost.to_owned()]),
            (&[("m", cordoned())], vec![lost.to_owned()]),
            // Its pods tolerate the taints.
            (&[("d", down(&[]))], vec![format!("pod pod-d on d {stays}")]),
            (&[("d", down(&["NoExecute"]))], vec![format!("pod pod-d on d {stays}")]),
        ] {
            assert_eq!(of(&json!({"maxUnavailable": 9}), nodes), expected);
        }
        assert_eq!(of(&json!({"maxSurge": 9, "maxUnavailable": 0}), &[("d", down(&[]))]), [""; 0]);
    }

    /// There is no event about a refusal yet: the pods of the target revision are older than the policy that refuses them.
    #[test]
    fn a_rollback_whose_pods_are_refused_deletes_no_available_pod() {
        let policy =
            "pods \"agent-x\" is forbidden: ValidatingAdmissionPolicy 'registry' with binding 'b' denied request: no";
        let security = "pods \"agent-x\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces";
        let quota =
            "pods \"agent-x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2";
        let webhook = "admission webhook \"people.example.com\" denied the request: no bare pods";
        let limits = "pods \"agent-x\" is forbidden: maximum memory usage per Container is 8Mi, but limit is 16Mi";
        let invalid = "Pod \"agent-x\" is invalid: spec.hostNetwork: Forbidden: no";
        let running = |world: World, created: &str| {
            world.node("n", json!({})).pod("a", "n", json!({"metadata": {"creationTimestamp": at(created)}}))
        };
        let of = |target: Option<&str>, current: Option<&str>, created: &str| {
            let world = world().revision_of_image("hash1", 1, "agent:1");
            let world = asked(asked(running(world, created), "hash1", target), CURRENT, current);
            let snapshot = world.finish();
            let index = Index::new(&snapshot);
            let refused = undo_safely(&Situation::new(&index, &snapshot.daemon_sets[0]), Some(1)).err();
            refused.map(|refused| match refused {
                NoTarget::Refused(warnings) => warnings[0].message.clone(),
                other => panic!("{other:?}"),
            })
        };
        for (target, who) in [
            (policy, "admission policy registry"),
            (security, "PodSecurityDenied"),
            (webhook, "people.example.com"),
            (limits, "8Mi"),
            (invalid, "hostNetwork"),
        ] {
            let message = of(Some(target), None, "11:30:00").unwrap();
            assert!(message.contains(who) && message.contains("pods of the new template"), "{message}");
        }
        assert_eq!(of(None, None, "11:30:00"), None);
        // The replaced pods free their quota.
        assert_eq!(of(Some(quota), None, "11:30:00"), None);
        // The controller has just created a pod that users are refused for the same reason.
        assert_eq!(of(Some(webhook), Some(webhook), "11:59:45"), None);
        // The policy that refuses them may be newer than that pod.
        assert!(of(Some(webhook), Some(webhook), "11:59:15").is_some());
        assert!(of(Some(security), Some(webhook), "11:59:45").is_some());
    }

    /// Includes which nodes get one, unless the API server is known to refuse that, too.
    #[test]
    fn a_rollback_creates_the_pods_that_are_refused() {
        let denied = "pods \"agent-x\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces";
        let labels = json!({"controller-revision-hash": "hash1", "pod-template-generation": "1"});
        let cordoned = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
        let of = |nodes: &[(&str, bool)], is_refused: bool, target: Option<Option<&str>>| {
            let mut world = world().revision_of_image("hash1", 1, "agent:1").node("gpu", cordoned.clone());
            for (node, has_old) in nodes {
                world = world.node(node, json!({}));
                if *has_old {
                    world = world.pod(&format!("pod-{node}"), node, json!({"metadata": {"labels": labels}}));
                }
            }
            let world = if is_refused { world.refusal(denied) } else { world };
            let world = target.into_iter().fold(world, |world, refusal| asked(world, "hash1", refusal));
            let snapshot = world.finish();
            let index = Index::new(&snapshot);
            let report = undo(&Situation::new(&index, &snapshot.daemon_sets[0]), Some(1)).unwrap().report;
            let warnings = report.warnings.into_iter().filter(|it| it.code == WarningCode::CreationRefused);
            (report.effect.unwrap().nodes_gained, warnings.map(|warning| warning.message).collect::<String>())
        };
        let (old, none) = (true, false);
        let nodes = [("n0", none), ("n1", old), ("n4", none), ("n7", none)];
        let waits = || ["n0", "n4", "n7"].map(str::to_owned).to_vec();
        assert_eq!(of(&nodes, true, Some(None)), (waits(), String::new()));
        let (gained, warning) = of(&nodes, true, None);
        assert!(gained.is_empty() && warning.ends_with("unless it accepts those of the new template"), "{warning}");
        let (gained, warning) = of(&nodes, true, Some(Some(denied)));
        assert!(gained.is_empty() && warning.contains("including those of the new template"), "{warning}");
        // The controller is about to create them.
        assert_eq!(of(&nodes, false, None), (Vec::new(), String::new()));
        assert_eq!(of(&[("n0", none)], true, Some(None)), (vec!["n0".to_owned()], String::new()));
        assert_eq!(of(&[("n1", old)], true, Some(None)), (Vec::new(), String::new()));
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
