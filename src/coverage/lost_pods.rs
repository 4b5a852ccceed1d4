//! Nodes that have lost their pod without a rollout: their labels were changed, or they were tainted.

use jiff::{SignedDuration, Timestamp};

use crate::facts::Facts;
use crate::model::event::Event;
use crate::report::coverage::LostPods;
use crate::report::fix::{Command, Fix};

/// How many seconds events are kept by default: `--event-ttl` of kube-apiserver.
const EVENT_TTL: i64 = 3600;

/// Returns how many pods the controller has deleted from nodes that are no longer eligible, according to events: pods
/// that it deletes for other reasons are recreated. Those that a rollout has deleted are reported with it.
pub(super) fn lost_pods(facts: &Facts<'_>) -> Option<LostPods> {
    let since = facts.now().checked_sub(SignedDuration::from_secs(EVENT_TTL)).ok()?;
    let events = facts.index.events_about("DaemonSet", &facts.daemon_set.metadata);
    let of = |reason: &str| {
        let is_recent = |event: &&&Event| event.reason == reason && event.last_seen() >= Some(since);
        events.iter().filter(is_recent).copied().collect::<Vec<&Event>>()
    };
    let number =
        |events: &[&Event]| events.iter().map(|event| usize::try_from(event.count).unwrap_or(0).max(1)).sum::<usize>();
    let (deleted, created) = (of("SuccessfulDelete"), of("SuccessfulCreate"));
    let first = deleted.iter().filter_map(|event| event.last_seen()).min()?;
    let began: Option<Timestamp> = facts.current.known().and_then(|current| current.rollout_began_at(facts.daemon_set));
    let without_pod = |is_eligible: bool| {
        let nodes = facts.node_pods.iter();
        nodes.filter(|node| node.decision.is_some() && node.should_run() == is_eligible && node.pods.is_empty()).count()
    };
    if began.is_none_or(|began| began >= first) || without_pod(true) > 0 || facts.daemon_set.metadata.is_terminating() {
        return None;
    }
    // Pods created earlier do not replace deleted ones.
    let created: Vec<&Event> = created.into_iter().filter(|event| event.last_seen() >= Some(first)).collect();
    let nodes = number(&deleted).saturating_sub(number(&created)).min(without_pod(false));
    let at = deleted.iter().filter_map(|event| event.last_seen()).max()?;
    let changes = Command::kubectl(&["ds", "changes"]).namespace(&facts.daemon_set.metadata.namespace);
    (nodes > 0).then(|| LostPods { nodes, at, fix: Fix::new("to see what has changed", changes) })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::coverage::test_support::{World, at, world};

    #[test]
    fn nodes_that_have_lost_their_pods_are_counted_by_events() {
        let tainted = || json!({"spec": {"taints": [{"key": "dedicated", "effect": "NoExecute"}]}});
        let with = |nodes: &[(&str, Value, bool)], events: &[(&str, &str)]| {
            let world = nodes.iter().fold(world(), |world: World, (name, patch, has_pod)| {
                let world = world.node(name, patch.clone());
                if *has_pod { world.pod(&format!("agent-{name}"), name, json!({})) } else { world }
            });
            let world = events.iter().fold(world, |world, (reason, time)| {
                world.event("DaemonSet", "agent", reason, &format!("{reason} {time}"), time)
            });
            world.coverage().lost_pods.map(|lost| (lost.nodes, lost.at.to_string()))
        };
        let (stays, lost) = (|| ("a", json!({}), true), |name: &'static str| (name, tainted(), false));
        let deleted = |time| ("SuccessfulDelete", time);
        let two = [stays(), lost("b"), lost("c")];
        let told = |nodes: usize, time: &str| Some((nodes, at(time)));
        assert_eq!(with(&two, &[deleted("11:59:20"), deleted("11:59:21")]), told(2, "11:59:21"));
        assert_eq!(with(&two, &[deleted("11:59:20"), ("SuccessfulCreate", "11:59:25")]), None, "a pod was replaced");
        let new =
            [("SuccessfulCreate", "11:59:00"), ("SuccessfulCreate", "11:59:01"), ("SuccessfulCreate", "11:59:02")];
        let events = [new.as_slice(), &[deleted("11:59:20"), deleted("11:59:21")]].concat();
        assert_eq!(with(&two, &events), told(2, "11:59:21"), "the DaemonSet is new");
        assert_eq!(with(&two, &[]), None, "they were never eligible");
        assert_eq!(with(&two, &[deleted("10:59:59")]), None, "an hour ago");
        assert_eq!(with(&[stays(), lost("b")], &[deleted("11:59:20"), deleted("11:59:21")]), told(1, "11:59:21"));
        assert_eq!(with(&[stays()], &[deleted("11:59:20")]), None, "a surplus pod");
        assert_eq!(with(&[("a", json!({}), false), lost("b")], &[deleted("11:59:20")]), None, "one is to be created");
    }
}
