//! Suspends the update strategy of a DaemonSet, and restores it.

use jiff::Timestamp;
use serde_json::json;

use super::Plan;
use super::edits::Edits;
use crate::model::daemon_set::{DaemonSet, Flavor, UpdateStrategy};
use crate::model::hold::{
    ANNOTATIONS, GATES_ANNOTATION, HELD_SINCE_ANNOTATION, Hold, ORIGINAL_STRATEGY_ANNOTATION, PARTITION_ANNOTATION,
    RUN_ANNOTATION, StageFlags, live_strategy,
};
use crate::model::int_or_percent::IntOrPercent;
use crate::model::template::Template;

impl Plan {
    /// Suspends the update strategy; does nothing if the controller replaces no pods already.
    pub fn pause(daemon_set: &DaemonSet, now: Timestamp) -> Self {
        let mut edits = Edits::of(daemon_set);
        match (daemon_set.flavor(), &daemon_set.spec.update_strategy) {
            // Stops a client that replaces pods.
            (_, UpdateStrategy::OnDelete) => edits.remove(&annotation(RUN_ANNOTATION)),
            (Flavor::Advanced, _) => edits.set(&["spec", "updateStrategy", "rollingUpdate", "paused"], true),
            (Flavor::Apps, _) => {
                suspend(daemon_set, now, &mut edits);
                // Left by an overridden hold: its client must not mistake this hold for its own.
                edits.remove(&annotation(PARTITION_ANNOTATION));
                edits.remove(&annotation(RUN_ANNOTATION));
                edits.remove(&annotation(GATES_ANNOTATION));
            }
        }
        edits.into_plan()
    }

    /// Suspends the update strategy if it is not suspended yet, and records how many pods stay on older revisions, which
    /// client replaces the others, and its flags, together with a new template. For an Advanced DaemonSet, its controller replaces them.
    pub(crate) fn partition(
        daemon_set: &DaemonSet,
        now: Timestamp,
        keep: IntOrPercent,
        run: &str,
        flags: &StageFlags,
        template: Option<&Template>,
    ) -> Self {
        let mut edits = Edits::of(daemon_set);
        if daemon_set.flavor() == Flavor::Advanced {
            edits.set(&["spec", "updateStrategy", "rollingUpdate", "partition"], json!(keep));
        } else {
            if Hold::in_force(daemon_set).is_none() {
                suspend(daemon_set, now, &mut edits);
            }
            edits.set(&annotation(PARTITION_ANNOTATION), keep.to_string());
            edits.set(&annotation(RUN_ANNOTATION), run);
            edits.set(&annotation(GATES_ANNOTATION), flags.to_annotation());
        }
        if let Some(template) = template {
            edits.set(&["spec", "template"], template.value().clone());
        }
        edits.into_plan()
    }

    /// Restores the update strategy that a hold has suspended. If it has been changed since, it stays.
    pub fn resume(daemon_set: &DaemonSet) -> Self {
        let mut edits = Edits::of(daemon_set);
        if let (Flavor::Advanced, UpdateStrategy::RollingUpdate(rolling)) =
            (daemon_set.flavor(), &daemon_set.spec.update_strategy)
            && rolling.paused
        {
            edits.set(&["spec", "updateStrategy", "rollingUpdate", "paused"], false);
        }
        if let Some(hold) = Hold::of(daemon_set) {
            if hold.is_in_force {
                edits.set(&["spec", "updateStrategy"], hold.original);
            }
            for key in ANNOTATIONS {
                edits.remove(&annotation(key));
            }
        }
        edits.into_plan()
    }
}

/// Sets the type of the update strategy to OnDelete, and stores the current strategy in an annotation.
///
/// The fields that pace a rolling update stay: the API server retains them, so they are stored twice.
fn suspend(daemon_set: &DaemonSet, now: Timestamp, edits: &mut Edits<'_>) {
    edits.set(&annotation(ORIGINAL_STRATEGY_ANNOTATION), live_strategy(daemon_set).to_string());
    // With fractions of a second, so that two clients that start in the same second do not mistake each other's patch for their
    // own.
    edits.set(&annotation(HELD_SINCE_ANNOTATION), now.to_string());
    edits.set(&["spec", "updateStrategy", "type"], "OnDelete");
}

fn annotation(key: &str) -> [&str; 3] {
    ["metadata", "annotations", key]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{DaemonSet, Hold, PARTITION_ANNOTATION, Plan, RUN_ANNOTATION};

    fn daemon_set(api_version: &str, strategy: &Value) -> DaemonSet {
        DaemonSet::from_object(json!({
            "apiVersion": api_version, "kind": "DaemonSet",
            "metadata": {"namespace": "team", "name": "agent", "resourceVersion": "7", "annotations": {"note": "mine"}},
            "spec": {"updateStrategy": strategy},
        }))
        .unwrap()
    }

    fn paused(daemon_set: &DaemonSet) -> Option<DaemonSet> {
        let plan = Plan::pause(daemon_set, "2026-11-21T06:00:00Z".parse().unwrap());
        Some(DaemonSet::from_object(plan.patch()?.applied_to(&daemon_set.object).unwrap()).unwrap())
    }

    fn resumed(daemon_set: &DaemonSet) -> Option<DaemonSet> {
        let plan = Plan::resume(daemon_set);
        Some(DaemonSet::from_object(plan.patch()?.applied_to(&daemon_set.object).unwrap()).unwrap())
    }

    #[test]
    fn resume_restores_what_pause_has_suspended_and_both_are_idempotent() {
        let strategies = [
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%", "maxSurge": 0}}),
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 3}}),
        ];
        for (strategy, api_version) in
            strategies.iter().flat_map(|one| [(one, "apps/v1"), (one, "apps.kruise.io/v1beta1")])
        {
            let before = daemon_set(api_version, strategy);
            assert_eq!(resumed(&before), None);
            let held = paused(&before).unwrap();
            assert_eq!(paused(&held), None);
            let mut after = resumed(&held).unwrap();
            assert_eq!(resumed(&after), None);
            if api_version != "apps/v1" {
                let rolling = after.object.pointer_mut("/spec/updateStrategy/rollingUpdate").unwrap();
                assert_eq!(rolling.as_object_mut().unwrap().remove("paused"), Some(json!(false)));
            }
            assert_eq!(after.object, before.object);
        }
    }

    #[test]
    fn a_strategy_that_somebody_has_put_back_stays_and_can_be_suspended_again() {
        let before = daemon_set("apps/v1", &json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}));
        let mut object = paused(&before).unwrap().object;
        let other = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 5}});
        object["spec"]["updateStrategy"] = other.clone();
        let overridden = DaemonSet::from_object(object).unwrap();
        let after = resumed(&overridden).unwrap();
        assert_eq!((&after.object["spec"]["updateStrategy"], after.annotations.len()), (&other, 1));
        let mut object = overridden.object.clone();
        object["metadata"]["annotations"][PARTITION_ANNOTATION] = "3".into();
        object["metadata"]["annotations"][RUN_ANNOTATION] = "a client".into();
        let again = paused(&DaemonSet::from_object(object).unwrap()).unwrap();
        assert_eq!(Hold::of(&again).map(|hold| (hold.partition, hold.is_in_force)), Some((None, true)));
        assert_eq!(again.annotations.get(RUN_ANNOTATION), None);
        assert_eq!(resumed(&again).unwrap().object["spec"]["updateStrategy"], other);
    }

    /// Nothing was suspended, so nothing must be restored.
    #[test]
    fn on_delete_by_choice_is_left_alone() {
        for api_version in ["apps/v1", "apps.kruise.io/v1beta1"] {
            let on_delete = daemon_set(api_version, &json!({"type": "OnDelete"}));
            assert_eq!((paused(&on_delete), resumed(&on_delete)), (None, None));
        }
    }
}
