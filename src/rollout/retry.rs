//! What is backing off after failures, when it would try again by itself, and how to make it try now.

use std::cmp::Reverse;

use jiff::{SignedDuration, Timestamp};

use super::change_warnings::{self, waits_for_scheduler};
use super::new_pods::not_asked;
use super::proposal::{Planned, Proposal};
use super::replacement_warnings::failing_revision;
use super::rollback::may_not_exist;
use super::situation::Situation;
use super::situation::suspect::suspect;
use crate::coverage::{creation_refusal, is_image_pull_failure, refusal_reason};
use crate::facts::LONGEST_DELAY;
use crate::facts::controller::FAILED_POD_BACKOFF;
use crate::model::daemon_set::{Flavor, UpdateStrategy};
use crate::model::node::Node;
use crate::model::pod::{ContainerState, ContainerStatus, Pod};
use crate::model::snapshot::{GapCause, Kind};
use crate::plan::Plan;
use crate::report::coverage::Incomplete;
use crate::report::fix::{Command, Fix, MOST_DELETED};
use crate::report::plan::{Attempt, Backoff, Obstacle, PlanKind, PodOnNode, Warning, WarningCode};
use crate::report::rollout_status::SuspectKind;
use crate::scheduling::daemon_pods::NodePods;

/// The longest delay before a kubelet pulls an image or starts a container again (`MaxImageBackOff` and `MaxCrashLoopBackOff`,
/// pkg/kubelet/kubelet.go, release 1.37.2).
const LONGEST_DELAY_OF_KUBELET: SignedDuration = SignedDuration::from_mins(5);

/// Plans to make the controller create pods now, and suggests deleting the pods that back off longest.
///
/// Only a pod that is not available and that the controller recreates from the same revision is suggested, so that no
/// available pod is lost and no PodDisruptionBudget is affected.
pub(crate) fn retry(before: &Situation<'_>) -> Planned {
    let daemon_set = before.daemon_set;
    let mut backoffs = Vec::new();
    let hopeless = no_new_pods(before);
    let of_controller = |attempt: Attempt, refused: Option<Timestamp>, obstacle: Option<Obstacle>| {
        // OpenKruise's controller may have another limit, and one that is down has none.
        let has_limit = daemon_set.flavor() == Flavor::Apps && obstacle != Some(Obstacle::ControlPlaneDown);
        let latest =
            refused.filter(|_| has_limit).and_then(|at| at.checked_add(SignedDuration::from_secs(LONGEST_DELAY)).ok());
        Backoff { attempt, pod: None, next: None, latest, obstacle }
    };
    if before.creation_is_refused() {
        // A pod that cannot start is created all the same.
        let obstacle = hopeless.filter(|obstacle| *obstacle != Obstacle::ObjectsMissing);
        backoffs.push(of_controller(Attempt::CreatePods, before.last_event("FailedCreate"), obstacle));
    }
    if let Some(refused) = before.deletion_refusal() {
        // Whether the API server still refuses is not known, and no scheduler is needed.
        let obstacle = before.controller_silent_since().map(|_| Obstacle::ControlPlaneDown);
        backoffs.push(of_controller(Attempt::DeletePods, refused.last_seen(), obstacle));
    }
    for (node, pods) in before.nodes() {
        for (pod, (attempt, next)) in pods.pods.iter().filter_map(|pod| Some((*pod, backs_off(pod)?))) {
            let obstacle = hopeless.or_else(|| obstacle(before, node, pods, pod));
            // A kubelet without contact does nothing at that time.
            let next = next.filter(|_| node.is_some_and(Node::is_ready));
            let latest = latest(before, node, attempt, pod, obstacle).filter(|_| next.is_none());
            let pod = PodOnNode { node: pods.node.to_owned(), pod: pod.metadata.name.clone(), revision: None };
            backoffs.push(Backoff { attempt, pod: Some(pod), next, latest, obstacle });
        }
    }
    let replace_pods = replace_pods(before, &backoffs);
    let replaces = replace_pods.is_some();
    let mut plan = Plan::retry(daemon_set, before.now());
    if !may_wait(before) {
        plan.step = None;
    }
    let proposal = Proposal::new(before, plan);
    let mut report = proposal.report(PlanKind::RetryPlan);
    if !may_wait(before) {
        report.why = Some("every node has its pod, so the controller has none to create".to_owned());
    }
    // It tries refused deletions again.
    let down = change_warnings::down_warnings(before).into_iter();
    report.warnings.extend(down.filter(|warning| warning.code != WarningCode::DeletionRefused));
    report.warnings.extend(failure_warnings(before, replaces));
    report.incomplete = proposal.unread(false);
    report.incomplete.extend(proposal.unread_refusals());
    report.incomplete.extend(unread_lease(before).filter(|_| replaces));
    report.incomplete.extend((replaces && before.is_accepted().is_none()).then(not_asked));
    report.backoffs = backoffs;
    report.replace_pods = replace_pods;
    proposal.planned(report)
}

/// Returns whether the controller may be waiting to create or delete pods: some were refused or are missing, or that is unknown.
fn may_wait(before: &Situation<'_>) -> bool {
    let is_known = before.is_known && before.knows(Kind::Events);
    !is_known || before.creation_is_refused() || before.deletion_refusal().is_some() || before.lacks_pods()
}

/// Suggests deleting the pods that back off longest, if they are recreated. Attempts that are due happen anyway.
fn replace_pods(before: &Situation<'_>, backoffs: &[Backoff]) -> Option<Fix> {
    let mut pods: Vec<_> = backoffs
        .iter()
        .filter(|backoff| backoff.obstacle.is_none() && backoff.next.is_none_or(|next| next > before.now()))
        .filter_map(|backoff| Some((backoff.next.or(backoff.latest), backoff.pod.as_ref()?)))
        .collect();
    pods.sort_by_key(|(at, _)| Reverse(*at));
    let advice = match pods.len() {
        0 => return None,
        1 => "to replace it now".to_owned(),
        all if all <= MOST_DELETED => "to replace them now".to_owned(),
        _ => format!("to replace the {MOST_DELETED} that wait longest now"),
    };
    let names = pods.iter().map(|(_, pod)| pod.pod.as_str());
    Some(Fix::new(advice, Command::delete_pods(&before.daemon_set.metadata.namespace, names)))
}

/// Returns why no new pod is created or starts, on any node.
fn no_new_pods(before: &Situation<'_>) -> Option<Obstacle> {
    let is_scheduler_down = || before.scheduler_silent_since().is_some() || waits_for_scheduler(before);
    match () {
        () if before.controller_silent_since().is_some() || is_scheduler_down() => Some(Obstacle::ControlPlaneDown),
        // A dry run may be refused where the controller is not, but then no pod is known to come back.
        () if before.still_refuses_pods() || before.is_accepted() == Some(false) => Some(Obstacle::CreationRefused),
        () if may_not_exist(before) => Some(Obstacle::ObjectsMissing),
        () => None,
    }
}

/// Warns about reasons for a new attempt to fail like the last one.
fn failure_warnings(before: &Situation<'_>, replaces: bool) -> Vec<Warning> {
    let (daemon_set, snapshot) = (before.daemon_set, before.index.snapshot);
    let asked = before.current_hash().and_then(|hash| snapshot.admission(daemon_set, hash));
    let refusal = match asked {
        Some(asked) => asked.refusal.as_ref().map(|message| refusal_reason(snapshot, daemon_set, message)),
        None => creation_refusal(before).map(|refusal| refusal.reason()),
    };
    let refused = refusal.map(|refusal| {
        let (refuses, unless) = match asked {
            Some(_) => ("refuses", ""),
            None => ("has refused", "unless the cause was removed, "),
        };
        let message = format!(
            "the API server {refuses} new pods ({}: {}): {unless}they are refused again, and the controller waits longer after \
             each attempt that fails",
            refusal.code, refusal.message
        );
        Warning { fix: Some(refusal.fix), ..Warning::new(WarningCode::CreationRefused, message) }
    });
    let failing = suspect(before).filter(|suspect| replaces && suspect.what == SuspectKind::Revision);
    let so = "unless what it depends on was changed, new pods of it fail, too";
    let failing = failing.map(|failing| failing_revision(before, &failing, so));
    refused.into_iter().chain(failing).collect()
}

/// Returns that the controller manager may be down if the lease could not be read. If it is merely forbidden, this means nothing.
fn unread_lease(before: &Situation<'_>) -> Option<Incomplete> {
    let gaps = &before.index.snapshot.gaps;
    let problem = gaps.iter().filter(|gap| gap.kind == Kind::Leases).find_map(|gap| match &gap.cause {
        GapCause::Unreadable { problem, .. } | GapCause::Failed(problem) => Some(problem),
        _ => None,
    })?;
    let message =
        format!("whether {} runs is unknown: its lease could not be read ({problem})", before.controller.program());
    Some(Incomplete::new(Kind::Leases.resource(), message, false))
}

/// Returns why a pod should not be deleted, given that new pods are created at all.
fn obstacle(before: &Situation<'_>, node: Option<&Node>, pods: &NodePods<'_>, pod: &Pod) -> Option<Obstacle> {
    let daemon_set = before.daemon_set;
    let is_paused =
        matches!(&daemon_set.spec.update_strategy, UpdateStrategy::RollingUpdate(rolling) if rolling.paused);
    let is_reconciled = !daemon_set.metadata.is_terminating() && !daemon_set.spec.selector.is_empty();
    match node {
        None if !before.nodes_known => Some(Obstacle::NodeUnknown),
        _ if !pods.should_run() || !is_reconciled => Some(Obstacle::NotRecreated),
        Some(node) if node.is_ready() => match () {
            // `syncDaemonSet`, pkg/controller/daemonset/daemonset_controller.go of OpenKruise, returned early in older releases.
            () if is_paused => Some(Obstacle::Paused),
            // A controller that has not observed the template may still create pods of the previous one.
            () if !before.knows(Kind::ControllerRevisions)
                || !daemon_set.is_observed()
                || before.is_updated(pod) != Some(true) =>
            {
                Some(Obstacle::OtherRevision)
            }
            () if pod.container_statuses().any(|status| status.state.running.is_some()) => Some(Obstacle::OthersRun),
            () => None,
        },
        _ => Some(Obstacle::NodeNotReady),
    }
}

/// Returns the latest time at which a pod that backs off is presumably retried: the start and the length of the current
/// delay usually cannot be read.
fn latest(
    before: &Situation<'_>,
    node: Option<&Node>,
    attempt: Attempt,
    pod: &Pod,
    obstacle: Option<Obstacle>,
) -> Option<Timestamp> {
    match attempt {
        Attempt::PullImage | Attempt::StartContainer => {
            before.now().checked_add(LONGEST_DELAY_OF_KUBELET).ok().filter(|_| node.is_some_and(Node::is_ready))
        }
        // OpenKruise's controller may have another limit; one that is down has none, nor does a pod that would not be replaced.
        Attempt::ReplaceFailedPod if before.daemon_set.flavor() == Flavor::Apps => {
            let is_replaced = !matches!(obstacle, Some(Obstacle::ControlPlaneDown | Obstacle::NotRecreated));
            let created = pod.metadata.creation_timestamp.get().filter(|_| is_replaced);
            created?.checked_add(SignedDuration::from_secs(FAILED_POD_BACKOFF)).ok()
        }
        Attempt::ReplaceFailedPod | Attempt::CreatePods | Attempt::DeletePods => None,
    }
}

/// Returns the attempt that a pod waits for, and its time, if known. A pod that is ready or terminating waits for nothing.
fn backs_off(pod: &Pod) -> Option<(Attempt, Option<Timestamp>)> {
    if pod.metadata.is_terminating() || pod.is_ready() {
        return None;
    }
    if pod.status.phase == "Failed" {
        // The controller deletes it, and waits longer each time (`failedPodsBackoff`).
        return Some((Attempt::ReplaceFailedPod, None));
    }
    let waiting = |status: &ContainerStatus| {
        let reason = status.state.waiting.as_ref()?.reason.as_str();
        match reason {
            "CrashLoopBackOff" => Some((Attempt::StartContainer, next_start(status))),
            // No image is pulled, or none before something else succeeds, which the kubelet tries at each sync.
            "InvalidImageName" | "ErrImageNeverPull" | "ImageInspectError" => None,
            reason => is_image_pull_failure(reason).then_some((Attempt::PullImage, None)),
        }
    };
    pod.container_statuses().find_map(waiting)
}

/// Returns when the kubelet restarts a container: its message contains the delay, which starts at the end of the last
/// run (`doBackOff`, pkg/kubelet/kuberuntime/kuberuntime_manager.go, release 1.37.2).
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
    use crate::coverage::test_support::{CURRENT, World, at, world};
    use crate::facts::index::Index;
    use crate::model::snapshot::{Admission, Gap, GapCause, Kind};
    use crate::report::plan::{Attempt, Obstacle, WarningCode};
    use crate::rollout::situation::Situation;

    fn crashing() -> Value {
        json!({"restartCount": 4,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 2m40s restarting failed container=agent pod=a"}},
            "lastState": {"terminated": {"exitCode": 1, "finishedAt": at("11:58:00")}}})
    }

    fn pulling() -> Value {
        json!({"state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image agent:2"}}})
    }

    /// What is retried, by which pod, and why that should not be deleted.
    type Told = (Attempt, String, Option<Obstacle>);

    /// Returns the suggested command, and what is backing off.
    fn planned(world: World) -> (Option<String>, Vec<Told>) {
        let snapshot = world.finish();
        let index = Index::new(&snapshot);
        let planned = retry(&Situation::new(&index, &snapshot.daemon_sets[0]));
        let backoffs = planned.report.backoffs.iter().map(|backoff| {
            let pod = backoff.pod.as_ref().map(|pod| pod.pod.clone()).unwrap_or_default();
            (backoff.attempt, pod, backoff.obstacle)
        });
        let command = planned.report.replace_pods.map(|fix| fix.command.unwrap().to_string());
        (command, backoffs.collect())
    }

    fn delete(pods: &str) -> Option<String> {
        Some(format!("kubectl delete pod -n default {pods}"))
    }

    #[test]
    fn only_pods_that_back_off_and_come_back_are_suggested() {
        let old = json!({"metadata": {"labels": {"controller-revision-hash": "old", "pod-template-generation": "1"}}});
        let world = world()
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
        let (command, backoffs) = planned(world);
        // The image is pulled again within five minutes.
        assert_eq!(command, delete("pulls crashes"));
        let told: Vec<_> =
            backoffs.iter().map(|(attempt, pod, obstacle)| (*attempt, pod.as_str(), *obstacle)).collect();
        let start = Attempt::StartContainer;
        assert_eq!(
            told,
            [
                (start, "crashes", None),
                (Attempt::PullImage, "pulls", None),
                (start, "of-old", Some(Obstacle::OtherRevision)),
                (start, "on-down", Some(Obstacle::NodeNotReady)),
                (start, "stays", Some(Obstacle::NotRecreated)),
            ]
        );
    }

    /// The policy may be gone.
    #[test]
    fn the_controller_tries_refused_deletions_again() {
        let message =
            "Error deleting: pods \"agent-n\" is forbidden: ValidatingAdmissionPolicy 'protect' denied request";
        let world = || world().node("n", json!({})).pod("agent-n", "n", json!({}));
        assert_eq!(planned(world()).1, []);
        let refused = || world().event("DaemonSet", "agent", "FailedDelete", message, "11:58:00");
        assert_eq!(planned(refused()).1, [(Attempt::DeletePods, String::new(), None)]);
        let snapshot = refused().finish();
        let index = Index::new(&snapshot);
        assert!(retry(&Situation::new(&index, &snapshot.daemon_sets[0])).plan.step.is_some());
    }

    #[test]
    fn a_pod_that_is_due_is_tried_again_without_being_deleted() {
        let mut due = crashing();
        due["lastState"]["terminated"]["finishedAt"] = at("11:57:00").into();
        assert_eq!(planned(world().node("n", json!({})).unready_pod("a", "n", due, json!({}))).0, None);
    }

    #[test]
    fn of_many_pods_those_that_wait_longest_are_suggested() {
        let world = (0..8).fold(world(), |world, i| {
            let mut status = crashing();
            status["lastState"]["terminated"]["finishedAt"] = at(&format!("11:58:0{i}")).into();
            let node = format!("n{i}");
            world.node(&node, json!({})).unready_pod(&format!("p{i}"), &node, status, json!({}))
        });
        assert_eq!(planned(world).0, delete("p7 p6 p5 p4 p3"));
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
        assert_eq!(report.backoffs[1].obstacle, Some(Obstacle::CreationRefused));
        assert_eq!(report.changes.len(), 1);
    }

    #[test]
    fn what_has_no_time_of_its_own_is_tried_again_within_the_longest_delay() {
        let failed = |created: &str| {
            json!({"metadata": {"creationTimestamp": at(created)},
            "status": {"phase": "Failed", "conditions": [], "containerStatuses": []}})
        };
        let unnamed = json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let down = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
        let snapshot = world()
            .node("a", json!({}))
            .unready_pod("pulls", "a", pulling(), json!({}))
            .node("b", json!({}))
            .pod("failed", "b", failed("11:58:00"))
            .node("c", json!({}))
            .unready_pod("crashes", "c", unnamed, json!({}))
            .node("d", down)
            .unready_pod("pulls-on-down", "d", pulling(), json!({}))
            .node("e", json!({"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}}))
            .pod("stays", "e", failed("11:58:00"))
            .finish();
        let index = Index::new(&snapshot);
        let report = retry(&Situation::new(&index, &snapshot.daemon_sets[0])).report;
        let times = report.backoffs.iter().map(|it| {
            assert_eq!(it.next, None, "{it:?}");
            (it.pod.as_ref().unwrap().pod.as_str(), it.latest.map(|at| at.to_string()))
        });
        assert_eq!(
            times.collect::<Vec<_>>(),
            [
                ("pulls", Some(at("12:05:00"))),
                ("failed", Some(at("12:13:00"))),
                ("crashes", Some(at("12:05:00"))),
                ("pulls-on-down", None),
                ("stays", None),
            ]
        );
    }

    /// Returns why the only pod in a world should not be deleted.
    fn obstacle(world: World) -> Option<Obstacle> {
        let (command, mut backoffs) = planned(world);
        let found = backoffs.pop().expect("a pod that backs off").2;
        assert_eq!(command.is_some(), found.is_none());
        found
    }

    fn one_crashes() -> World {
        world().node("n", json!({})).unready_pod("a", "n", crashing(), json!({}))
    }

    #[test]
    fn a_pod_is_suggested_only_if_it_is_known_to_come_back() {
        let asked = |refusal: Option<&str>| {
            let mut world = one_crashes();
            let (daemon_set_uid, hash) = ("agent-uid".to_owned(), CURRENT.to_owned());
            world.snapshot.admissions.push(Admission {
                daemon_set_uid,
                hash,
                refusal: refusal.map(str::to_owned),
                lacks: Vec::new(),
            });
            world
        };
        let lacks = || {
            let mut world = asked(None);
            world.snapshot.admissions[0].lacks.push(("ConfigMap", "agent".to_owned()));
            world
        };
        let lease = |program: &str, renewed: &str| {
            let mut world = one_crashes();
            let lease = json!({"metadata": {"name": program, "namespace": "kube-system"},
                "spec": {"renewTime": at(renewed), "leaseDurationSeconds": 15}});
            world.snapshot.leases.push(serde_json::from_value(lease).unwrap());
            world
        };
        let without = |kind: Kind| {
            let mut world = one_crashes();
            world.snapshot.gaps.push(Gap { kind, namespace: None, cause: GapCause::Forbidden("list".to_owned()) });
            if kind == Kind::Nodes {
                world.snapshot.nodes.clear();
            }
            world
        };
        let pending = |created: &str| {
            let created = json!({"metadata": {"creationTimestamp": at(created)}});
            one_crashes().node("m", json!({})).pending_pod("b", "m", "", created)
        };
        for (world, expected) in [
            (asked(None), None),
            (asked(Some("pods \"agent-\" is forbidden: no")), Some(Obstacle::CreationRefused)),
            (lacks(), Some(Obstacle::ObjectsMissing)),
            (lease("kube-controller-manager", "11:59:50"), None),
            (lease("kube-controller-manager", "11:50:00"), Some(Obstacle::ControlPlaneDown)),
            (lease("kube-scheduler", "11:59:50"), None),
            (lease("kube-scheduler", "11:50:00"), Some(Obstacle::ControlPlaneDown)),
            (pending("11:30:00"), Some(Obstacle::ControlPlaneDown)),
            (pending("11:59:58"), None),
            (without(Kind::Nodes), Some(Obstacle::NodeUnknown)),
            (without(Kind::ControllerRevisions), Some(Obstacle::OtherRevision)),
            // The controller has not observed the template yet, and may create pods of the previous one.
            (one_crashes().daemon_set(json!({"metadata": {"generation": 3}})), Some(Obstacle::OtherRevision)),
            (
                one_crashes().daemon_set(json!({"metadata": {"deletionTimestamp": at("11:59:00")}})),
                Some(Obstacle::NotRecreated),
            ),
        ] {
            assert_eq!(obstacle(world), expected);
        }
    }

    #[test]
    fn a_pod_of_which_other_containers_run_is_not_suggested() {
        let running = json!([{"name": "main", "ready": true, "state": {"running": {"startedAt": at("11:31:00")}}}]);
        let status = json!({"status": {"initContainerStatuses": running}});
        let world = world().node("n", json!({})).unready_pod("a", "n", crashing(), status);
        assert_eq!(obstacle(world), Some(Obstacle::OthersRun));
    }

    /// The controller has just synced it.
    #[test]
    fn a_run_at_the_same_moment_as_another_changes_nothing() {
        let retried = json!({"metadata": {"annotations": {"kubectl-ds/retried-at": at("12:00:00")}}});
        let snapshot = one_crashes().daemon_set(retried).finish();
        let index = Index::new(&snapshot);
        assert_eq!(retry(&Situation::new(&index, &snapshot.daemon_sets[0])).plan.step, None);
    }

    #[test]
    fn the_next_attempt_is_not_told_of_a_kubelet_or_a_controller_that_does_not_act() {
        let down = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
        let mut world = world().node("a", down).unready_pod("a", "a", crashing(), json!({}));
        let lease = json!({"metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
            "spec": {"renewTime": at("11:50:00"), "leaseDurationSeconds": 15}});
        world.snapshot.leases.push(serde_json::from_value(lease).unwrap());
        let snapshot = world.refusal("exceeded quota").finish();
        let index = Index::new(&snapshot);
        let report = retry(&Situation::new(&index, &snapshot.daemon_sets[0])).report;
        let times = report.backoffs.iter().map(|it| (it.next, it.latest));
        assert_eq!(times.collect::<Vec<_>>(), [(None, None), (None, None)]);
        assert!(report.warnings.iter().any(|warning| warning.code == WarningCode::ControllerDown));
    }
}
