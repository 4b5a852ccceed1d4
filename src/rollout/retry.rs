//! What backs off after failures, when it would try again by itself, and how to make it try now.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::change_warnings;
use super::proposal::{Planned, Proposal};
use super::situation::Situation;
use crate::coverage::gaps::unread_events;
use crate::model::node::Node;
use crate::model::pod::{ContainerState, ContainerStatus, Pod};
use crate::model::snapshot::Kind;
use crate::plan::{Plan, PodRef};
use crate::report::plan::{Attempt, Backoff, LeftBecause, PlanKind, PodOnNode};
use crate::scheduling::daemon_pods::NodePods;
use crate::scheduling::rolling_update::limits;

/// The longest delay before a DaemonSet that could not be synced is synced again (`DefaultTypedControllerRateLimiter`,
/// client-go/util/workqueue, release 0.37.2).
const LONGEST_DELAY: SignedDuration = SignedDuration::from_secs(1000);

/// Plans to make the controller try now to create pods, and to delete the pods whose containers back off.
///
/// Only a pod that is not available and that the controller recreates from the same revision is deleted, so that no available pod
/// is lost and no PodDisruptionBudget is concerned. At most maxUnavailable nodes wait for a new pod at a time.
pub(crate) fn retry(before: &Situation<'_>) -> Planned {
    let daemon_set = before.daemon_set;
    let (mut backoffs, mut deleted) = (Vec::new(), Vec::new());
    if before.creation_is_refused() {
        let latest = before.last_event("FailedCreate").and_then(|at| at.checked_add(LONGEST_DELAY).ok());
        backoffs.push(Backoff { attempt: Attempt::CreatePods, pod: None, next: None, latest, left: None });
    }
    let nodes: Vec<(Option<&Node>, &NodePods<'_>)> = before.nodes().collect();
    let mut room = room(before, &nodes);
    for (node, pods) in nodes {
        for (pod, (attempt, next)) in pods.pods.iter().filter_map(|pod| Some((*pod, backs_off(pod)?))) {
            let left = why_left(before, node, pods, pod);
            let left = left.or_else(|| (room <= 0).then_some(LeftBecause::MaxUnavailable));
            if left.is_none() {
                room -= 1;
                deleted.push(PodRef::of(pod));
            }
            let pod = PodOnNode { node: pods.node.to_owned(), pod: pod.metadata.name.clone(), revision: None };
            backoffs.push(Backoff { attempt, pod: Some(pod), next, latest: None, left });
        }
    }
    let proposal = Proposal::new(before, Plan::retry(daemon_set, before.now(), deleted));
    let mut report = proposal.report(PlanKind::RetryPlan);
    report.warnings.extend(change_warnings::deleting(daemon_set));
    report.incomplete = proposal.unread(false);
    report.incomplete.extend(unread_events(before.index.snapshot, &daemon_set.metadata.namespace));
    report.backoffs = backoffs;
    proposal.planned(report)
}

/// Returns how many more nodes may wait for a new pod: maxUnavailable, and one if that is 0, without those that wait for one.
fn room(before: &Situation<'_>, nodes: &[(Option<&Node>, &NodePods<'_>)]) -> i64 {
    let desired: BTreeSet<&str> =
        nodes.iter().filter(|(_, pods)| pods.should_run()).map(|(_, pods)| pods.node).collect();
    let waits = |(node, pods): &&(Option<&Node>, &NodePods<'_>)| {
        let settles = |pod: &&Pod| before.is_available(pod) || backs_off(pod).is_some();
        pods.should_run() && node.is_some_and(is_ready) && !pods.pods.iter().any(settles)
    };
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let allowed = limits(before.daemon_set, count(desired.len())).max_unavailable.max(1);
    allowed - count(nodes.iter().filter(waits).count())
}

/// Returns why a pod is not deleted, besides the limit.
fn why_left(before: &Situation<'_>, node: Option<&Node>, pods: &NodePods<'_>, pod: &Pod) -> Option<LeftBecause> {
    match () {
        () if before.still_refuses_pods() => Some(LeftBecause::CreationRefused),
        () if !pods.should_run() || before.daemon_set.metadata.is_terminating() => Some(LeftBecause::NotRecreated),
        () if !node.is_some_and(is_ready) => Some(LeftBecause::NodeNotReady),
        () if !before.knows(Kind::ControllerRevisions) || before.is_updated(pod) != Some(true) => {
            Some(LeftBecause::OtherRevision)
        }
        () => None,
    }
}

fn is_ready(node: &Node) -> bool {
    node.condition("Ready").is_none_or(|ready| ready.status == "True")
}

/// Returns what a pod waits for to be tried again, and when that is, if it is known. A pod that is ready or that is being deleted
/// waits for nothing.
fn backs_off(pod: &Pod) -> Option<(Attempt, Option<Timestamp>)> {
    if pod.metadata.is_terminating() || pod.is_ready() {
        return None;
    }
    if pod.status.phase == "Failed" {
        // The controller deletes it, and waits longer each time (`failedPodsBackoff`).
        return Some((Attempt::ReplaceFailedPod, None));
    }
    let statuses = pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses);
    let waiting = |status: &ContainerStatus| {
        let reason = status.state.waiting.as_ref()?.reason.as_str();
        match reason {
            "CrashLoopBackOff" => Some((Attempt::StartContainer, next_start(status))),
            "ImagePullBackOff" | "ErrImagePull" => Some((Attempt::PullImage, None)),
            _ => None,
        }
    };
    statuses.filter_map(waiting).next()
}

/// Returns when the kubelet starts a container again: it names the delay, which counts from the end of the last run (`doBackOff`,
/// pkg/kubelet/kuberuntime/kuberuntime_manager.go, release 1.37.2).
fn next_start(status: &ContainerStatus) -> Option<Timestamp> {
    let ContainerState { terminated: Some(last), .. } = &status.last_state else { return None };
    let message = &status.state.waiting.as_ref()?.message;
    let delay = message.strip_prefix("back-off ")?.split(' ').next()?;
    last.finished_at.get()?.checked_add(delay.parse::<SignedDuration>().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::retry;
    use crate::coverage::test_support::{World, at, world};
    use crate::facts::index::Index;
    use crate::plan::Step;
    use crate::report::plan::{Attempt, LeftBecause};
    use crate::rollout::situation::Situation;

    fn crashing() -> Value {
        json!({"restartCount": 4,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 2m40s restarting failed container=agent pod=a"}},
            "lastState": {"terminated": {"exitCode": 1, "finishedAt": at("11:58:00")}}})
    }

    fn pulling() -> Value {
        json!({"state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image agent:2"}}})
    }

    fn with_max_unavailable(world: World, number: i64) -> World {
        let rolling = json!({"maxUnavailable": number, "maxSurge": 0});
        world.daemon_set(json!({"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}}))
    }

    /// What is tried again, by which pod, and why that is left.
    type Told = (Attempt, String, Option<LeftBecause>);

    /// Returns the names of the deleted pods, what is tried again, and how many steps there are.
    fn planned(world: World) -> (Vec<String>, Vec<Told>, usize) {
        let snapshot = world.finish();
        let index = Index::new(&snapshot);
        let planned = retry(&Situation::new(&index, &snapshot.daemon_sets[0]));
        let deleted = planned.plan.steps.iter().filter_map(|step| match step {
            Step::DeletePod(pod) => Some(pod.name.clone()),
            _ => None,
        });
        let backoffs = planned.report.backoffs.iter().map(|backoff| {
            let pod = backoff.pod.as_ref().map(|pod| pod.pod.clone()).unwrap_or_default();
            (backoff.attempt, pod, backoff.left)
        });
        (deleted.collect(), backoffs.collect(), planned.plan.steps.len())
    }

    #[test]
    fn pods_that_back_off_are_deleted_and_no_others() {
        let old = json!({"metadata": {"labels": {"controller-revision-hash": "old", "pod-template-generation": "1"}}});
        let world = with_max_unavailable(world(), 5)
            .node("a", json!({}))
            .unready_pod("crashes", "a", crashing(), json!({}))
            .node("b", json!({}))
            .unready_pod("pulls", "b", pulling(), json!({}))
            .node("c", json!({}))
            .pod("fine", "c", json!({}))
            .node("d", json!({}))
            .unready_pod("of-old", "d", crashing(), old)
            .node("e", json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}))
            .unready_pod("on-down", "e", crashing(), json!({}))
            .node("f", json!({}))
            .unready_pod("goes", "f", crashing(), json!({"metadata": {"deletionTimestamp": at("11:59:00")}}))
            .node("g", json!({"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}}))
            .unready_pod("stays", "g", crashing(), json!({}));
        let (deleted, backoffs, steps) = planned(world);
        assert_eq!((deleted, steps), (vec!["crashes".to_owned(), "pulls".to_owned()], 3));
        let told: Vec<_> = backoffs.iter().map(|(attempt, pod, left)| (*attempt, pod.as_str(), *left)).collect();
        let start = Attempt::StartContainer;
        assert_eq!(
            told,
            [
                (start, "crashes", None),
                (Attempt::PullImage, "pulls", None),
                (start, "of-old", Some(LeftBecause::OtherRevision)),
                (start, "on-down", Some(LeftBecause::NodeNotReady)),
                (start, "stays", Some(LeftBecause::NotRecreated)),
            ]
        );
    }

    #[test]
    fn no_more_nodes_than_max_unavailable_wait_for_a_new_pod() {
        let world = |limit: i64, starting: usize| {
            let failing = (0..4).fold(with_max_unavailable(world(), limit), |world, i| {
                world.node(&format!("n{i}"), json!({})).unready_pod(
                    &format!("p{i}"),
                    &format!("n{i}"),
                    crashing(),
                    json!({}),
                )
            });
            let creating = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
            (0..starting).fold(failing, |world, i| {
                world.node(&format!("s{i}"), json!({})).unready_pod(
                    &format!("s{i}"),
                    &format!("s{i}"),
                    creating.clone(),
                    json!({}),
                )
            })
        };
        let deleted = |limit, starting| planned(world(limit, starting)).0.len();
        assert_eq!((deleted(2, 0), deleted(2, 1), deleted(2, 2), deleted(2, 3)), (2, 1, 0, 0));
        assert_eq!((deleted(0, 0), deleted(9, 0)), (1, 4));
    }

    #[test]
    fn the_next_start_is_told_and_a_refusal_is_known_to_end_within_its_longest_delay() {
        let world = world().node("a", json!({})).unready_pod("crashes", "a", crashing(), json!({}));
        let world = world.event("DaemonSet", "agent", "FailedCreate", "Error creating: exceeded quota", "11:59:00");
        let snapshot = world.finish();
        let index = Index::new(&snapshot);
        let report = retry(&Situation::new(&index, &snapshot.daemon_sets[0])).report;
        let times: Vec<_> = report
            .backoffs
            .iter()
            .map(|it| (it.next.map(|at| at.to_string()), it.latest.map(|at| at.to_string())))
            .collect();
        assert_eq!(times, [(None, Some(at("12:15:40"))), (Some(at("12:00:40")), None)]);
        // It would not be recreated.
        assert_eq!(report.backoffs[1].left, Some(LeftBecause::CreationRefused));
        assert_eq!(report.changes.len(), 1);
    }
}
