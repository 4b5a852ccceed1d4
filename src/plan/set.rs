//! Changes fields of a DaemonSet's spec besides its template.

use serde_json::Value;

use super::Plan;
use super::edits::Edits;
use crate::model::daemon_set::{DaemonSet, RollingUpdate, UpdateStrategy};
use crate::model::hold;
use crate::model::int_or_percent::IntOrPercent;
use crate::model::raised_pace::{Limit, RAISED_PACE_ANNOTATION, RaisedPace};

/// What replaces pods of an older revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrategyType {
    /// The controller.
    RollingUpdate,
    /// Nothing; they stay until somebody deletes them.
    OnDelete,
}

impl StrategyType {
    /// Returns its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            StrategyType::RollingUpdate => "RollingUpdate",
            StrategyType::OnDelete => "OnDelete",
        }
    }
}

/// Values of fields of a DaemonSet's spec; `None` for a field that is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpecFields {
    /// The type of the update strategy.
    pub strategy_type: Option<StrategyType>,
    /// The number of nodes that may have a second pod.
    pub max_surge: Option<IntOrPercent>,
    /// The number of nodes that may be without an available pod.
    pub max_unavailable: Option<IntOrPercent>,
    /// How long in seconds a pod must be ready to count as available.
    pub min_ready_seconds: Option<i64>,
    /// The number of old revisions to retain.
    pub revision_history_limit: Option<i64>,
}

impl SpecFields {
    /// Returns the values of a DaemonSet, with the API's defaults for absent ones. The type is absent if the API does not know it.
    pub fn of(daemon_set: &DaemonSet) -> Self {
        let spec = &daemon_set.spec;
        // The API server retains these fields under OnDelete.
        let rolling = RollingUpdate::retained(&daemon_set.object["spec"]["updateStrategy"]);
        SpecFields {
            strategy_type: match spec.update_strategy {
                UpdateStrategy::RollingUpdate(_) => Some(StrategyType::RollingUpdate),
                UpdateStrategy::OnDelete => Some(StrategyType::OnDelete),
                UpdateStrategy::Unknown(_) => None,
            },
            max_surge: Some(rolling.max_surge),
            max_unavailable: Some(rolling.max_unavailable),
            min_ready_seconds: Some(spec.min_ready_seconds),
            revision_history_limit: Some(spec.revisions_kept()),
        }
    }

    /// If `maxSurge` or `maxUnavailable` is given and not 0, returns the same change with the other one set to 0: only
    /// one of them may be non-zero.
    #[must_use]
    pub fn with_other_zero(self) -> Self {
        let is_set = |amount: Option<IntOrPercent>| amount.is_some_and(|amount| amount.value() != 0);
        let zero = Some(IntOrPercent::Int(0));
        match (self.max_surge, self.max_unavailable) {
            (surge, None) if is_set(surge) => SpecFields { max_unavailable: zero, ..self },
            (None, unavailable) if is_set(unavailable) => SpecFields { max_surge: zero, ..self },
            _ => self,
        }
    }

    /// Returns the values that differ from others.
    #[must_use]
    pub fn different_from(self, others: SpecFields) -> Self {
        fn changed<T: PartialEq>(value: Option<T>, other: Option<T>) -> Option<T> {
            if value == other { None } else { value }
        }
        SpecFields {
            strategy_type: changed(self.strategy_type, others.strategy_type),
            max_surge: changed(self.max_surge, others.max_surge),
            max_unavailable: changed(self.max_unavailable, others.max_unavailable),
            min_ready_seconds: changed(self.min_ready_seconds, others.min_ready_seconds),
            revision_history_limit: changed(self.revision_history_limit, others.revision_history_limit),
        }
    }

    /// Returns the values whose fields are set in `fields`.
    #[must_use]
    pub fn of_fields(self, fields: SpecFields) -> Self {
        SpecFields {
            strategy_type: fields.strategy_type.and(self.strategy_type),
            max_surge: fields.max_surge.and(self.max_surge),
            max_unavailable: fields.max_unavailable.and(self.max_unavailable),
            min_ready_seconds: fields.min_ready_seconds.and(self.min_ready_seconds),
            revision_history_limit: fields.revision_history_limit.and(self.revision_history_limit),
        }
    }

    /// Returns the paths and values of the fields.
    pub fn entries(self) -> Vec<(&'static [&'static str], Value)> {
        let amount = |amount: IntOrPercent| match amount {
            IntOrPercent::Int(number) => Value::from(number),
            IntOrPercent::Percent(_) => Value::from(amount.to_string()),
        };
        let entries: [(&[&str], Option<Value>); 5] = [
            (&["spec", "updateStrategy", "type"], self.strategy_type.map(|strategy| strategy.name().into())),
            (&["spec", "updateStrategy", "rollingUpdate", "maxSurge"], self.max_surge.map(amount)),
            (&["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"], self.max_unavailable.map(amount)),
            (&["spec", "minReadySeconds"], self.min_ready_seconds.map(Value::from)),
            (&["spec", "revisionHistoryLimit"], self.revision_history_limit.map(Value::from)),
        ];
        entries.into_iter().filter_map(|(path, value)| Some((path, value?))).collect()
    }
}

impl Plan {
    /// Sets the fields whose values differ from those of the DaemonSet. If it `remembers` the pace, it records the previous
    /// one; otherwise a pace that is set is permanent, and the record is removed.
    pub fn set(daemon_set: &DaemonSet, fields: SpecFields, remembers: bool) -> Self {
        const RAISED: [&str; 3] = ["metadata", "annotations", RAISED_PACE_ANNOTATION];
        let mut edits = Edits::of(daemon_set);
        let current = SpecFields::of(daemon_set);
        let changed = fields.different_from(current);
        for (path, value) in changed.entries() {
            edits.set(path, value);
        }
        if remembers {
            // If a pace is raised twice, the original is the one to restore.
            let before = RaisedPace::of(daemon_set).map(|raised| raised.before).or_else(|| Limit::of(daemon_set));
            let after =
                (fields.max_surge.or(current.max_surge)).zip(fields.max_unavailable.or(current.max_unavailable));
            let after = after.map(|(max_surge, max_unavailable)| Limit::new(max_surge, max_unavailable));
            if let Some((before, after)) = before.zip(after) {
                edits.set(&RAISED, RaisedPace { before, after }.to_string());
            }
        } else if changed.max_surge.is_some() || changed.max_unavailable.is_some() {
            edits.remove(&RAISED);
        }
        if changed.strategy_type.is_some() {
            // A user who changes the type ends a hold, which must not take effect again later.
            for key in hold::ANNOTATIONS {
                edits.remove(&["metadata", "annotations", key]);
            }
        }
        edits.into_plan()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json, to_value};

    use super::{DaemonSet, Plan, SpecFields, StrategyType};
    use crate::model::int_or_percent::IntOrPercent::{Int, Percent};

    fn operations(spec: &Value, fields: SpecFields) -> Value {
        let object = json!({"metadata": {"name": "agent", "namespace": "team", "resourceVersion": "7"}, "spec": spec});
        let daemon_set = DaemonSet::from_object(object).unwrap();
        let plan = Plan::set(&daemon_set, fields.with_other_zero(), false);
        let patch = plan.patch().map(|patch| to_value(patch.patch()).unwrap());
        let Some(mut patch) = patch else { return json!([]) };
        let first = patch.as_array_mut().unwrap().remove(0);
        assert_eq!(first, json!({"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}));
        let short = |operation: &Value| json!([operation["path"], operation["value"]]);
        patch.as_array().unwrap().iter().map(short).collect()
    }

    #[test]
    fn only_fields_with_another_value_are_patched() {
        let rolling = |unavailable: Value, surge: Value| {
            let rolling = json!({"maxUnavailable": unavailable, "maxSurge": surge});
            json!({"minReadySeconds": 5, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}})
        };
        let path = |field: &str| format!("/spec/updateStrategy/rollingUpdate/{field}");
        let surge = |surge| SpecFields { max_surge: Some(surge), ..SpecFields::default() };
        let unavailable = |unavailable| SpecFields { max_unavailable: Some(unavailable), ..SpecFields::default() };
        for (spec, fields, expected) in [
            (rolling(json!("10%"), json!(0)), unavailable(Percent(20)), json!([[path("maxUnavailable"), "20%"]])),
            (rolling(json!("10%"), json!(0)), unavailable(Percent(10)), json!([])),
            (
                rolling(json!("10%"), json!(0)),
                surge(Int(2)),
                json!([[path("maxSurge"), 2], [path("maxUnavailable"), 0]]),
            ),
            (
                rolling(json!(0), json!("5%")),
                unavailable(Int(1)),
                json!([[path("maxSurge"), 0], [path("maxUnavailable"), 1]]),
            ),
            (rolling(json!(1), json!(0)), surge(Int(0)), json!([])),
            (json!({}), unavailable(Int(1)), json!([])),
            (
                json!({"updateStrategy": {"type": "OnDelete"}}),
                SpecFields { strategy_type: Some(StrategyType::RollingUpdate), ..surge(Int(1)) },
                json!([
                    ["/spec/updateStrategy/type", "RollingUpdate"],
                    ["/spec/updateStrategy/rollingUpdate", {"maxSurge": 1}],
                    [path("maxUnavailable"), 0],
                ]),
            ),
            (
                json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}}),
                SpecFields { strategy_type: Some(StrategyType::RollingUpdate), ..SpecFields::default() },
                json!([["/spec/updateStrategy/type", "RollingUpdate"]]),
            ),
            (
                rolling(json!(1), json!(0)),
                SpecFields {
                    min_ready_seconds: Some(30),
                    revision_history_limit: Some(10),
                    strategy_type: Some(StrategyType::OnDelete),
                    ..SpecFields::default()
                },
                json!([["/spec/updateStrategy/type", "OnDelete"], ["/spec/minReadySeconds", 30]]),
            ),
        ] {
            assert_eq!(operations(&spec, fields), expected, "{spec} {fields:?}");
        }
    }

    #[test]
    fn what_is_left_of_a_hold_does_not_come_back_with_another_type() {
        let object = json!({
            "metadata": {"name": "agent", "namespace": "team", "resourceVersion": "7",
                "annotations": {"kubectl-ds/original-update-strategy": "{}", "kubectl-ds/held-since": "", "other": ""}},
            "spec": {"updateStrategy": {"type": "RollingUpdate"}},
        });
        let daemon_set = DaemonSet::from_object(object.clone()).unwrap();
        let annotations = |fields| {
            let changed = Plan::set(&daemon_set, fields, false).applied_to(&object).unwrap();
            changed["metadata"]["annotations"].as_object().unwrap().len()
        };
        let on_delete = SpecFields { strategy_type: Some(StrategyType::OnDelete), ..SpecFields::default() };
        assert_eq!(annotations(on_delete), 1);
        assert_eq!(annotations(SpecFields { min_ready_seconds: Some(3), ..SpecFields::default() }), 3);
    }
}
