//! What events tell about creating a DaemonSet's pods: when the last one was created, and which were refused.

use jiff::Timestamp;

use super::create_failure::{self, have_same_cause};
use super::daemon_set_findings::namespace_terminating;
use super::finding::Finding;
use super::quota::is_within_quota;
use super::sentence::Sentence;
use crate::facts::revisions::name_of;
use crate::facts::{Facts, GIVEN_UP};
use crate::model::daemon_set::DaemonSet;
use crate::model::event::Event;
use crate::model::snapshot::Snapshot;
use crate::report::age::seconds_between;
use crate::report::reason::{Reason, ReasonCode};

/// How many different refusals are reported.
const MAX_REFUSALS: usize = 3;

/// What events tell about creating a DaemonSet's pods.
pub struct Creations {
    /// Why the API server refused pods, newest refusal first.
    pub refusals: Vec<Finding>,
    /// When a pod was last created.
    pub created: Option<Timestamp>,
    /// When the controller last deleted a pod.
    pub deleted: Option<Timestamp>,
    /// How many nodes are to get a pod.
    pub missing: usize,
}

impl Creations {
    /// Reads the events about a DaemonSet.
    pub fn new(facts: &Facts<'_>) -> Self {
        let (created, deleted) = (facts.last_created(), facts.last_event("SuccessfulDelete"));
        let missing = facts.node_pods.iter().filter(|node| node.lacks_pod(facts.daemon_set)).count();
        let has_ended = has_ended(facts, created, deleted) && !facts.creation_is_refused();
        let refusals = if has_ended { Vec::new() } else { refusals(facts) };
        Creations { refusals, created, deleted, missing }
    }
}

/// Returns whether the API server has created pods since it last refused one, and all of them: the controller deletes pods of
/// a rolling update only then (`updateDaemonSet`, pkg/controller/daemon/daemon_controller.go, release 1.37.2). What is missing now
/// is about to be created, as it is if the last one was created just now.
fn has_ended(facts: &Facts<'_>, created: Option<Timestamp>, deleted: Option<Timestamp>) -> bool {
    let refused = facts.last_event("FailedCreate");
    let is_creating = || refused.is_some_and(|refused| facts.has_created_since(refused)) && !facts.waits_for_pods();
    created > refused && deleted > refused || is_creating()
}

/// Returns why the API server refuses a DaemonSet's pods at present.
pub(crate) fn creation_refusal(facts: &Facts<'_>) -> Option<Finding> {
    let refusal = || Creations::new(facts).refusals.into_iter().next();
    facts.creation_is_refused().then(refusal).flatten()
}

/// Returns whether the API server refuses a pod with a message for the reason for which it refuses those of the controller.
pub(crate) fn is_refused_like_controller(facts: &Facts<'_>, message: &str) -> bool {
    let Facts { index, daemon_set, .. } = *facts;
    newest_refusal(facts).is_some_and(|newest| have_same_cause(index.snapshot, daemon_set, &newest.message, message))
}

/// Returns whether the API server refuses the controller pods because of a quota that has room again once one like them is deleted.
pub(crate) fn is_refused_within_quota(facts: &Facts<'_>) -> bool {
    newest_refusal(facts).is_some_and(|newest| is_within_quota(&newest.message))
}

/// Returns the last event with which the controller could not create a pod.
pub(crate) fn newest_refusal<'a>(facts: &Facts<'a>) -> Option<&'a Event> {
    facts.newest_event("FailedCreate")
}

/// Returns what a message means with which the API server refuses a pod of a DaemonSet.
pub(crate) fn refusal_reason(snapshot: &Snapshot, daemon_set: &DaemonSet, message: &str) -> Reason {
    create_failure::classify(snapshot, daemon_set, message).reason()
}

/// Finds why the API server refused pods, newest refusal first.
fn refusals(facts: &Facts<'_>) -> Vec<Finding> {
    let Facts { index, daemon_set, .. } = *facts;
    let changed = facts.rollout_began_at();
    let mut findings: Vec<Finding> = namespace_terminating(facts).into_iter().collect();
    let asked = facts.current_hash().and_then(|hash| index.snapshot.admission(daemon_set, hash)?.refusal.as_deref());
    let mut asked = asked.filter(|_| findings.is_empty() && facts.creation_is_refused());
    for event in facts.events().into_iter().filter(|event| event.reason == "FailedCreate") {
        let mut finding = create_failure::classify(index.snapshot, daemon_set, &event.message);
        if findings.iter().any(|known| known.code == finding.code) {
            continue;
        }
        let at = event.last_seen();
        let is_doubtful =
            at.is_some_and(|at| facts.has_created_since(at) || changed.is_some_and(|changed| changed > at));
        let is_silent = facts.controller_silent_since().is_some();
        // Pods are missing now because the controller is down.
        if is_doubtful && is_silent {
            continue;
        }
        match asked {
            // What was refused before was something else.
            Some(now) if is_doubtful && !have_same_cause(index.snapshot, daemon_set, &event.message, now) => continue,
            Some(_) => asked = None,
            None => {}
        }
        if facts.is_accepted() != Some(false) && is_doubtful {
            finding.message =
                Sentence::from("likely ").then(finding.message).words(" (a pod was created or the spec changed since)");
            finding.refused_by = None;
        }
        let is_given_up = at.is_some_and(|at| seconds_between(at, index.now()) > GIVEN_UP);
        if is_given_up && !is_silent && facts.is_accepted().is_none() && passes_by_itself(finding.code) {
            finding = not_tried_again(daemon_set, finding, event, index.now());
        } else if facts.refusal_is_over() {
            let why = match facts.is_accepted() {
                Some(_) => "the API server accepts such a pod now",
                None => "the quota has room for such a pod now",
            };
            finding = no_longer_refused(daemon_set, why, finding.message.seen(event, index.now()), finding.code);
        } else {
            finding.message = finding.message.seen(event, index.now());
        }
        findings.push(finding);
        if findings.len() == MAX_REFUSALS {
            break;
        }
    }
    findings.extend(
        asked.map(|message| {
            create_failure::classify(index.snapshot, daemon_set, message).and(" (in a dry run just now)")
        }),
    );
    findings
}

/// Returns whether a refusal comes from what the cluster recovers from without anybody's change.
pub(super) fn passes_by_itself(code: ReasonCode) -> bool {
    matches!(code, ReasonCode::ApiServerFailing | ReasonCode::WebhookUnavailable)
}

/// Finds that the controller has not tried again for longer than it waits, by its events: of those that are made every few minutes, the
/// spam filter of client-go keeps some.
fn not_tried_again(daemon_set: &DaemonSet, refused: Finding, event: &Event, now: Timestamp) -> Finding {
    let advice =
        "make the controller try again: it waits at most 17m after a try that fails; if no pod follows, restart it";
    refused
        .and(Sentence::new().seen(event, now))
        .and("; since then the controller has not tried again, as far as events tell")
        .with_advice(advice)
        .with_command(name_of(daemon_set).command("retry"))
}

/// Finds that the cause of a refusal is gone, and that the controller has not tried again since: it waits longer after each
/// failure.
fn no_longer_refused(daemon_set: &DaemonSet, why: &str, refusal: Sentence, code: ReasonCode) -> Finding {
    let message = Sentence::from(format!("{why}, and the controller has not tried again since: "));
    let advice = "wait: the controller tries again within 17m of its last try; or make it try now";
    Finding::new(code, message.then(refusal), advice).with_command(name_of(daemon_set).command("retry"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Creations;
    use crate::coverage::test_support::{CURRENT, World, at, world};
    use crate::facts::Facts;
    use crate::facts::index::Index;
    use crate::model::snapshot::Admission;
    use crate::report::reason::ReasonCode;

    fn creations(world: World) -> Creations {
        let snapshot = world.finish();
        Creations::new(&Facts::new(&Index::new(&snapshot), &snapshot.daemon_sets[0]))
    }

    #[test]
    fn a_pod_that_was_created_since_shows_that_creation_works() {
        let refused = |created: &str| {
            let snapshot = world()
                .node("n", json!({}))
                .pod("agent-n", "n", json!({"metadata": {"creationTimestamp": at(created)}}))
                .event("DaemonSet", "agent", "FailedCreate", "Error creating: timeout", "11:40:00")
                .finish();
            Facts::new(&Index::new(&snapshot), &snapshot.daemon_sets[0]).creation_is_refused()
        };
        assert_eq!((refused("11:30:00"), refused("11:40:00"), refused("11:50:00")), (true, false, false));
    }

    /// Some pods of a batch were created before the quota was used up, and later refusals have left no event.
    #[test]
    fn a_pod_that_was_created_in_the_same_batch_shows_nothing_if_others_are_still_missing() {
        let refused = |created: &str| {
            let snapshot = world()
                .node("n", json!({}))
                .pod("agent-n", "n", json!({"metadata": {"creationTimestamp": at(created)}}))
                .node("m", json!({}))
                .event("DaemonSet", "agent", "FailedCreate", "Error creating: exceeded quota", "11:40:00")
                .finish();
            Facts::new(&Index::new(&snapshot), &snapshot.daemon_sets[0]).creation_is_refused()
        };
        assert_eq!((refused("11:40:00"), refused("11:40:05"), refused("11:40:06")), (true, true, false));
    }

    #[test]
    fn a_refusal_counts_from_the_second_in_which_the_revision_was_made() {
        let refused = |time: &str| {
            let snapshot =
                world().event("DaemonSet", "agent", "FailedCreate", "Error creating: timeout", time).finish();
            Facts::new(&Index::new(&snapshot), &snapshot.daemon_sets[0]).creation_is_refused()
        };
        assert_eq!((refused("10:59:59"), refused("11:00:00")), (false, true));
    }

    #[test]
    fn events_tell_when_a_pod_was_last_created_and_deleted() {
        let event = |world: World, reason: &str, time: &str| world.event("DaemonSet", "agent", reason, "", time);
        let world = event(world(), "SuccessfulCreate", "11:55:00");
        let world = event(event(world, "SuccessfulCreate", "11:57:00"), "SuccessfulDelete", "11:58:00");
        let Creations { created, deleted, .. } = creations(event(world, "FailedCreate", "11:59:00"));
        assert_eq!((created, deleted), (at("11:57:00").parse().ok(), at("11:58:00").parse().ok()));
    }

    /// The events of a controller that was refused often are dropped; only the API server tells then.
    #[test]
    fn a_pod_that_is_missing_for_long_is_refused_if_a_dry_run_is() {
        let quota = "pods \"agent-x\" is forbidden: exceeded quota: pods";
        let policy =
            "pods \"agent-x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no team";
        let told = |refusal: Option<&str>, event: Option<(&str, &str)>, deleted: &str| {
            let world = world().node("n", json!({})).event("DaemonSet", "agent", "SuccessfulDelete", "", deleted);
            let mut world = match event {
                Some((message, time)) => world.event("DaemonSet", "agent", "FailedCreate", message, time),
                None => world,
            };
            world.snapshot.admissions.push(Admission {
                daemon_set_uid: "agent-uid".to_owned(),
                hash: CURRENT.to_owned(),
                refusal: refusal.map(str::to_owned),
                lacks: Vec::new(),
            });
            let snapshot = world.finish();
            let index = Index::new(&snapshot);
            let facts = Facts::new(&index, &snapshot.daemon_sets[0]);
            let codes = Creations::new(&facts).refusals.iter().map(|refusal| refusal.code).collect::<Vec<_>>();
            (facts.creation_is_refused(), codes)
        };
        use ReasonCode as R;
        assert_eq!(told(Some(policy), None, "11:58:00"), (true, vec![R::WebhookDenied]));
        assert_eq!(told(Some(policy), None, "11:59:50"), (false, vec![]), "the controller is about to create it");
        assert_eq!(told(None, None, "11:58:00"), (false, vec![]));
        let before_the_revision = Some((quota, "10:59:00"));
        assert_eq!(told(Some(policy), before_the_revision, "11:58:00"), (true, vec![R::WebhookDenied]));
        assert_eq!(told(Some(quota), before_the_revision, "11:58:00"), (true, vec![R::QuotaExceeded]));
        // What the controller was told last counts: a policy may be about the pods of people.
        assert_eq!(told(Some(policy), Some((quota, "11:59:00")), "11:58:00"), (true, vec![R::QuotaExceeded]));
    }

    /// The controller waits longer after each failure, and a dump was not asked.
    #[test]
    fn a_refusal_by_a_quota_that_has_room_by_now_is_over() {
        let told = |quota: &str, hard: &str, is_asked: bool| {
            let refusal =
                "pods \"agent-x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=4, limited: pods=4";
            let mut world = world().node("n", json!({})).refusal(refusal);
            let quota = json!({"metadata": {"name": quota, "namespace": "default"},
                "status": {"hard": {"pods": hard}, "used": {"pods": "4"}}});
            world.snapshot.resource_quotas.push(serde_json::from_value(quota).unwrap());
            world.snapshot.admissions.extend(is_asked.then(|| Admission {
                daemon_set_uid: "agent-uid".to_owned(),
                hash: CURRENT.to_owned(),
                refusal: Some(refusal.to_owned()),
                lacks: Vec::new(),
            }));
            let snapshot = world.finish();
            let index = Index::new(&snapshot);
            let facts = Facts::new(&index, &snapshot.daemon_sets[0]);
            let message = Creations::new(&facts).refusals[0].message.to_string();
            (facts.still_refuses_pods(), message.starts_with("the quota has room for such a pod now"))
        };
        assert_eq!(told("few", "6", false), (false, true));
        assert_eq!(told("few", "4", false), (true, false));
        assert_eq!(told("other", "6", false), (true, false));
        assert_eq!(told("few", "6", true), (true, false));
    }

    #[test]
    fn three_kinds_of_refusals_are_told_each_once() {
        let world = world()
            .refusal("pods \"agent-x\" is forbidden: exceeded quota: pods")
            .refusal("pods \"agent-y\" is forbidden: exceeded quota: cpu")
            .refusal("admission webhook \"images.example.com\" denied the request: no signature")
            .refusal("pods \"agent-x\" is forbidden: no PriorityClass with name ghost was found")
            .refusal("Pod \"agent-x\" is invalid: spec: Required value");
        let codes: Vec<ReasonCode> = creations(world).refusals.iter().map(|refusal| refusal.code).collect();
        use ReasonCode as R;
        assert_eq!(codes, [R::QuotaExceeded, R::WebhookDenied, R::PriorityClassMissing]);
    }

    /// The pod of a node that is missing now is just being replaced.
    #[test]
    fn a_refusal_has_ended_once_the_controller_replaces_pods_again() {
        for (created, pod, deleted, is_told) in [
            (Some("11:59:30"), None, Some("11:59:40"), false),
            // Events about created pods may be dropped.
            (None, Some("11:59:30"), Some("11:59:40"), false),
            (Some("11:40:00"), Some("11:59:30"), Some("11:59:40"), false),
            // That of before the refusal.
            (Some("11:40:00"), Some("11:40:00"), Some("11:58:00"), true),
            (Some("11:59:10"), None, Some("11:58:00"), true),
            (Some("11:59:10"), None, None, true),
            // What is missing is about to be created.
            (Some("11:59:40"), None, Some("11:58:00"), false),
            // What has failed is deleted although nothing can be created.
            (None, None, Some("11:59:40"), true),
            (Some("11:59:00"), None, Some("11:59:00"), true),
        ] {
            let world = world().node("m", json!({}));
            let world = world.event("DaemonSet", "agent", "FailedCreate", "Error creating: timeout", "11:59:00");
            let event = |world: World, reason, time: Option<&str>| match time {
                Some(time) => world.event("DaemonSet", "agent", reason, "", time),
                None => world,
            };
            let world = event(event(world, "SuccessfulCreate", created), "SuccessfulDelete", deleted);
            let world = match pod {
                Some(time) => world.pod("agent-n", "n", json!({"metadata": {"creationTimestamp": at(time)}})),
                None => world,
            };
            assert_eq!(creations(world).refusals.len(), usize::from(is_told), "{created:?} {pod:?} {deleted:?}");
        }
    }

    #[test]
    fn a_refusal_before_a_later_success_or_another_spec_is_only_likely() {
        for (refused, created, likely) in [
            ("11:59:00", None, false),
            ("11:59:00", Some("11:59:05"), false),
            ("11:59:00", Some("11:59:06"), true),
            // The revision is of 11:00:00.
            ("11:00:00", None, false),
            ("10:59:59", None, true),
        ] {
            let world = world().node("n", json!({}));
            let world = world.event("DaemonSet", "agent", "FailedCreate", "Error creating: timeout", refused);
            let world = match created {
                Some(time) => world.event("DaemonSet", "agent", "SuccessfulCreate", "Created pod: agent-y", time),
                None => world,
            };
            let message = creations(world).refusals[0].message.to_string();
            assert_eq!(message.starts_with("likely "), likely, "{refused} {created:?}: {message}");
        }
    }
}
