//! Whether what a run has seen is what the API server answers right before a pod is replaced.

use std::collections::BTreeSet;

use super::instruction::StageCounts;
use crate::model::daemon_set::DaemonSet;
use crate::model::int_or_percent::int;
use crate::rollout::situation::Situation;

/// Returns whether a DaemonSet is older than one that was seen. One whose version cannot be compared never is.
pub(crate) fn is_older(live: &DaemonSet, seen: Option<&DaemonSet>) -> bool {
    let seen = seen.filter(|seen| seen.metadata.uid == live.metadata.uid);
    seen.is_some_and(|seen| live.metadata.is_older_than(&seen.metadata.resource_version))
}

/// Says what a DaemonSet shows that was not seen. What is ready depends on no clock, other than what is available.
pub(crate) fn unseen(live: &DaemonSet, seen: Option<&DaemonSet>, counts: &StageCounts) -> Option<String> {
    if seen.is_none_or(|seen| seen.metadata.generation != live.metadata.generation) {
        return Some("the DaemonSet has changed, and this run has not seen that".to_owned());
    }
    let (desired, ready) = (live.status.desired_number_scheduled, live.status.number_ready);
    let (eligible, found) = (counts.eligible, counts.eligible - counts.unready);
    (desired - ready > counts.unready).then(|| match desired == eligible {
        true => format!("the DaemonSet's status says numberReady {ready}, but {found} pods are ready"),
        false => format!(
            "the DaemonSet's status says desiredNumberScheduled {desired} and numberReady {ready}, but {found} of {eligible} \
             nodes have a ready pod"
        ),
    })
}

/// Says that the controller counts more updated nodes than a list has: a cache on the way may answer with the pods of long ago.
pub(super) fn unlisted(situation: &Situation<'_>) -> Option<String> {
    let daemon_set = Some(situation.daemon_set).filter(|it| it.is_observed())?;
    let updated = situation.index.pods_of(daemon_set).filter(|(_, pod)| situation.is_updated(pod) != Some(false));
    let found = int(updated.map(|(node, _)| node).collect::<BTreeSet<_>>().len());
    let counted = daemon_set.status.updated_number_scheduled;
    // The status of a controller that is down is old, and one whose pods are refused may not update it.
    let is_current = situation.controller_silent_since().is_none() && !situation.creation_is_refused();
    (counted > found && is_current).then(|| {
        format!("updatedNumberScheduled is {counted}, but the list of pods has {found} updated pods: the list is out of date")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{is_older, unseen};
    use crate::model::daemon_set::DaemonSet;
    use crate::rollout::partition::instruction::StageCounts;

    fn daemon_set(version: &str, generation: i64, status: Value) -> DaemonSet {
        DaemonSet::from_object(json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "agent", "uid": "1", "resourceVersion": version, "generation": generation},
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn an_answer_from_before_what_was_seen_is_older() {
        let at = |version| daemon_set(version, 1, json!({}));
        let seen = at("10");
        for (version, expected) in [("9", true), ("10", false), ("11", false), ("100", false), ("x", false)] {
            assert_eq!(is_older(&at(version), Some(&seen)), expected, "{version}");
        }
        assert!(!is_older(&at("9"), None));
        let mut recreated = at("9");
        recreated.metadata.uid = "2".to_owned();
        assert!(!is_older(&recreated, Some(&seen)));
    }

    #[test]
    fn what_the_controller_counts_and_a_watch_does_not_is_said_in_numbers() {
        let counts = StageCounts { eligible: 4, unready: 0, ..StageCounts::default() };
        let told = |generation, desired, ready| {
            let status = json!({"desiredNumberScheduled": desired, "numberReady": ready});
            unseen(&daemon_set("9", generation, status), Some(&daemon_set("8", 2, json!({}))), &counts)
        };
        assert_eq!(told(2, 4, 4), None);
        // Pods that are ready by the controller alone are no reason to wait.
        assert_eq!(told(2, 4, 5), None);
        assert!(told(2, 4, 3).unwrap().ends_with("numberReady 3, but 4 pods are ready"));
        assert!(told(2, 5, 4).unwrap().ends_with("but 4 of 4 nodes have a ready pod"));
        assert!(told(3, 4, 4).unwrap().contains("has changed"));
    }
}
