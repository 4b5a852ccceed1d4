//! A hold: the update strategy of a DaemonSet is suspended, and annotations keep what it was.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::daemon_set::{DaemonSet, Flavor, UpdateStrategy};
use super::int_or_percent::IntOrPercent;

/// The annotation that keeps the update strategy as it was before the hold, in JSON.
pub const ORIGINAL_STRATEGY_ANNOTATION: &str = "kubectl-ds/original-update-strategy";

/// The annotation with the time at which the hold began.
pub const HELD_SINCE_ANNOTATION: &str = "kubectl-ds/held-since";

/// The annotation with the number or percentage of pods that stay on older revisions.
pub const PARTITION_ANNOTATION: &str = "kubectl-ds/partition";

/// The annotation that names the last client that has updated pods.
pub const RUN_ANNOTATION: &str = "kubectl-ds/run";

/// All annotations of a hold.
pub const ANNOTATIONS: [&str; 4] =
    [ORIGINAL_STRATEGY_ANNOTATION, HELD_SINCE_ANNOTATION, PARTITION_ANNOTATION, RUN_ANNOTATION];

/// A hold of a DaemonSet of Kubernetes' own.
#[derive(Debug, Clone, PartialEq)]
pub struct Hold {
    /// The update strategy before the hold, as the API has it.
    pub original: Value,
    /// Whether that is no longer known: somebody has edited the annotation.
    pub is_original_lost: bool,
    /// How many pods stay on older revisions; `None` if all are held.
    pub partition: Option<IntOrPercent>,
    /// When the hold began, if that can be read.
    pub since: Option<Timestamp>,
    /// Whether the strategy is still suspended: somebody else may have put it back.
    pub is_in_force: bool,
}

impl Hold {
    /// Returns the hold of a DaemonSet.
    ///
    /// If somebody has edited the original strategy so that the API server would refuse it, it is a rolling update at the pace
    /// that the DaemonSet still has: only the type changes when a hold begins.
    pub fn of(daemon_set: &DaemonSet) -> Option<Self> {
        let annotation = |key: &str| daemon_set.annotations.get(key).map(String::as_str);
        let original = annotation(ORIGINAL_STRATEGY_ANNOTATION)?;
        let original = serde_json::from_str(original).ok().filter(is_usable);
        Some(Hold {
            is_original_lost: original.is_none(),
            original: original.unwrap_or_else(|| {
                let mut live = live_strategy(daemon_set);
                live["type"] = "RollingUpdate".into();
                // Nobody has checked the pace while it was not in force.
                if is_usable(&live) { live } else { json!({"type": "RollingUpdate"}) }
            }),
            partition: annotation(PARTITION_ANNOTATION).and_then(|partition| partition.parse().ok()),
            since: annotation(HELD_SINCE_ANNOTATION).and_then(|since| since.parse().ok()),
            is_in_force: daemon_set.spec.update_strategy == UpdateStrategy::OnDelete,
        })
    }

    /// Returns the update strategy before the hold.
    pub fn original_strategy(&self) -> UpdateStrategy {
        strategy(&self.original).unwrap_or_default()
    }
}

/// Returns the update strategy of a DaemonSet as the API has it.
pub fn live_strategy(daemon_set: &DaemonSet) -> Value {
    let live = daemon_set.object.pointer("/spec/updateStrategy").filter(|strategy| strategy.is_object());
    live.cloned().unwrap_or_else(|| json!({"type": "RollingUpdate"}))
}

/// Returns whether the API server accepts an update strategy.
fn is_usable(value: &Value) -> bool {
    let strategy = strategy(value).filter(|_| value.is_object());
    strategy.is_some_and(|strategy| strategy.problems(Flavor::Apps).is_empty())
}

fn strategy(value: &Value) -> Option<UpdateStrategy> {
    let mut value = value.clone();
    super::daemon_set::drop_nulls(&mut value);
    UpdateStrategy::deserialize(value).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Hold, ORIGINAL_STRATEGY_ANNOTATION};
    use crate::model::daemon_set::DaemonSet;

    /// The pace stays in the spec under OnDelete, so that even a broken annotation loses nothing.
    #[test]
    fn the_original_strategy_survives_a_broken_annotation() {
        let original = |text: &str| {
            let object = json!({
                "metadata": {"annotations": {ORIGINAL_STRATEGY_ANNOTATION: text}},
                "spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"maxUnavailable": "10%"}}},
            });
            Hold::of(&DaemonSet::from_object(object).unwrap()).unwrap().original
        };
        let kept = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 3}});
        assert_eq!(original(&kept.to_string()), kept);
        let live = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}});
        for broken in ["", "{", "null", "[]", "3", r#"{"type": "Recreate"}"#, r#"{"rollingUpdate": {"maxSurge": "x"}}"#]
        {
            assert_eq!(original(broken), live, "{broken}");
        }
    }

    /// It would be refused when it is restored, again and again.
    #[test]
    fn an_original_strategy_that_the_api_server_refuses_is_not_used() {
        let hold = |original: &Value, pace: &Value| {
            let original = json!({"type": "RollingUpdate", "rollingUpdate": original}).to_string();
            let object = json!({
                "metadata": {"annotations": {ORIGINAL_STRATEGY_ANNOTATION: original}},
                "spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": pace}},
            });
            Hold::of(&DaemonSet::from_object(object).unwrap()).unwrap()
        };
        let (pace, rolling) = (json!({"maxUnavailable": "10%", "maxSurge": 0}), "RollingUpdate");
        for refused in [
            json!({"maxUnavailable": 0}),
            json!({"maxUnavailable": -5}),
            json!({"maxUnavailable": "999999999999%"}),
            json!({"maxUnavailable": "0%", "maxSurge": "0%"}),
            json!({"maxUnavailable": [1]}),
            json!({"maxSurge": 3}),
            json!({"maxUnavailable": 0, "maxSurge": "101%"}),
        ] {
            let found = hold(&refused, &pace);
            assert_eq!(
                (found.original, found.is_original_lost),
                (json!({"type": rolling, "rollingUpdate": pace}), true)
            );
            // The API server does not check the pace under OnDelete.
            assert_eq!(hold(&refused, &refused).original, json!({"type": rolling}), "{refused}");
        }
        for accepted in [json!({}), json!({"maxUnavailable": "100%"}), json!({"maxUnavailable": 0, "maxSurge": 3})] {
            let found = hold(&accepted, &pace);
            assert_eq!((&found.original["rollingUpdate"], found.is_original_lost), (&accepted, false));
        }
    }
}
