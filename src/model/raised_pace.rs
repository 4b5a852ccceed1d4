//! A rolling update's pace that was raised because the rollout was blocked: an annotation records the original.

use std::fmt;

use super::daemon_set::{DaemonSet, UpdateStrategy};
use super::int_or_percent::IntOrPercent;

/// The annotation with the pace before and after it was raised, such as `maxUnavailable=1 -> maxUnavailable=2`.
pub const RAISED_PACE_ANNOTATION: &str = "kubectl-ds/raised-pace";

/// A pace that was raised and not changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RaisedPace {
    /// The previous pace.
    pub before: Limit,
    /// The raised pace.
    pub after: Limit,
}

/// The number of nodes that a rolling update may affect at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// This many may have a second pod.
    MaxSurge(IntOrPercent),
    /// This many may be without an available pod.
    MaxUnavailable(IntOrPercent),
}

impl Limit {
    /// Returns the limit for these two fields, one of which is 0.
    pub fn new(max_surge: IntOrPercent, max_unavailable: IntOrPercent) -> Self {
        if max_surge.value() == 0 { Limit::MaxUnavailable(max_unavailable) } else { Limit::MaxSurge(max_surge) }
    }

    /// Returns the limit of a DaemonSet; `None` if its controller replaces no pods.
    pub fn of(daemon_set: &DaemonSet) -> Option<Self> {
        let UpdateStrategy::RollingUpdate(rolling) = &daemon_set.spec.update_strategy else { return None };
        Some(Limit::new(rolling.max_surge, rolling.max_unavailable))
    }

    fn field(self) -> (&'static str, IntOrPercent) {
        match self {
            Limit::MaxSurge(amount) => ("maxSurge", amount),
            Limit::MaxUnavailable(amount) => ("maxUnavailable", amount),
        }
    }

    fn read(text: &str) -> Option<Self> {
        let (field, amount) = text.split_once('=')?;
        let amount = amount.parse().ok()?;
        match field {
            "maxSurge" => Some(Limit::MaxSurge(amount)),
            "maxUnavailable" => Some(Limit::MaxUnavailable(amount)),
            _ => None,
        }
    }
}

/// Writes the field and its value, such as `maxUnavailable 10%`.
impl fmt::Display for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (field, amount) = self.field();
        write!(formatter, "{field} {amount}")
    }
}

impl RaisedPace {
    /// Returns the recorded pace of a DaemonSet, unless the pace has been changed since.
    pub fn of(daemon_set: &DaemonSet) -> Option<Self> {
        let (before, after) = daemon_set.annotations.get(RAISED_PACE_ANNOTATION)?.split_once(" -> ")?;
        let (before, after) = (Limit::read(before)?, Limit::read(after)?);
        (Limit::of(daemon_set) == Some(after) && before != after).then_some(RaisedPace { before, after })
    }
}

impl fmt::Display for RaisedPace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((before, from), (after, to)) = (self.before.field(), self.after.field());
        write!(formatter, "{before}={from} -> {after}={to}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Limit, RAISED_PACE_ANNOTATION, RaisedPace};
    use crate::model::daemon_set::DaemonSet;
    use crate::model::int_or_percent::IntOrPercent;

    #[test]
    fn a_raised_pace_is_remembered_until_somebody_changes_it() {
        let noted = |annotation: &str, max_unavailable: i64, strategy: &str| {
            let object = json!({
                "metadata": {"annotations": {RAISED_PACE_ANNOTATION: annotation}},
                "spec": {"updateStrategy": {"type": strategy, "rollingUpdate": {"maxUnavailable": max_unavailable}}},
            });
            RaisedPace::of(&DaemonSet::from_object(object).unwrap())
        };
        let raised = |before| RaisedPace { before, after: Limit::MaxUnavailable(IntOrPercent::Int(2)) };
        for before in [Limit::MaxUnavailable(IntOrPercent::Percent(10)), Limit::MaxSurge(IntOrPercent::Int(1))] {
            let raised = raised(before);
            assert_eq!(noted(&raised.to_string(), 2, "RollingUpdate"), Some(raised));
            assert_eq!(noted(&raised.to_string(), 3, "RollingUpdate"), None);
            assert_eq!(noted(&raised.to_string(), 2, "OnDelete"), None);
        }
        for broken in ["", " -> ", "maxUnavailable=x -> maxUnavailable=2", "maxUnavailable=2 -> maxUnavailable=2"] {
            assert_eq!(noted(broken, 2, "RollingUpdate"), None, "{broken}");
        }
    }
}
