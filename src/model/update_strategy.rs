//! What the API server rejects in an update strategy.

use std::fmt;

use super::daemon_set::{Flavor, RollingUpdate, UpdateStrategy};
use super::int_or_percent::IntOrPercent;

/// An error that the API server or a webhook reports.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The path of the field, as the server names it.
    pub path: String,
    /// What is wrong, in the words of `field.Error` of k8s.io/apimachinery.
    pub message: String,
}

impl Problem {
    /// Returns whether another problem is the same, possibly for another list entry.
    pub(crate) fn is_like(&self, other: &Problem) -> bool {
        let plain = |problem: &Problem| problem.path.split(['[', ']']).step_by(2).collect::<String>();
        self.message == other.message && plain(self) == plain(other)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The message of an unknown field names it.
        match self.message.starts_with("unknown field") {
            true => formatter.write_str(&self.message),
            false => write!(formatter, "{}: {}", self.path, self.message),
        }
    }
}

/// Writes it in short, such as `RollingUpdate 10%`, `RollingUpdate surge 1` or `OnDelete`.
impl fmt::Display for UpdateStrategy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rolling = match self {
            UpdateStrategy::RollingUpdate(rolling) => rolling,
            UpdateStrategy::OnDelete => return formatter.write_str("OnDelete"),
            UpdateStrategy::Unknown(name) => return formatter.write_str(name),
        };
        formatter.write_str("RollingUpdate")?;
        let RollingUpdate { max_unavailable, max_surge, .. } = rolling;
        let surges = *max_surge != IntOrPercent::Int(0);
        if !surges || *max_unavailable != IntOrPercent::Int(0) {
            write!(formatter, " {max_unavailable}")?;
        }
        if surges {
            write!(formatter, " surge {max_surge}")?;
        }
        if let Some(partition) = rolling.partition {
            write!(formatter, " partition {partition}")?;
        }
        for (is_set, word) in [
            (rolling.selector.is_some(), " with selector"),
            (rolling.is_in_place(), " in place"),
            (rolling.paused, " paused"),
        ] {
            formatter.write_str(if is_set { word } else { "" })?;
        }
        Ok(())
    }
}

/// The path of the fields that pace a rolling update.
const ROLLING_UPDATE: &str = "spec.updateStrategy.rollingUpdate";

impl UpdateStrategy {
    /// Returns whether pods are updated only when they are deleted.
    pub(crate) fn is_on_delete(&self) -> bool {
        *self == UpdateStrategy::OnDelete
    }

    /// Returns the errors of the API server or, for an Advanced DaemonSet, of OpenKruise's webhook, with the field's
    /// path; under `OnDelete` neither validates the other fields.
    ///
    /// Ported from `ValidateDaemonSetUpdateStrategy`, pkg/apis/apps/validation/validation.go, release 1.37.2, and from
    /// `validateDaemonSetUpdateStrategy`, pkg/webhook/daemonset/validating/daemonset_validation.go of OpenKruise 1.9.
    pub fn problems(&self, flavor: Flavor) -> Vec<Problem> {
        match self {
            UpdateStrategy::OnDelete => Vec::new(),
            UpdateStrategy::RollingUpdate(rolling) => rolling.problems(flavor),
            UpdateStrategy::Unknown(given) => vec![Problem {
                path: "spec.updateStrategy".to_owned(),
                message: format!("Unsupported value: {given:?}: supported values: \"RollingUpdate\", \"OnDelete\""),
            }],
        }
    }
}

impl RollingUpdate {
    /// Returns whether pods are updated in place if possible.
    pub(crate) fn is_in_place(&self) -> bool {
        self.rolling_update_type == "InPlaceIfPossible"
    }

    fn problems(&self, flavor: Flavor) -> Vec<Problem> {
        let RollingUpdate { max_unavailable, max_surge, rolling_update_type, .. } = self;
        let mut problems = Vec::new();
        let mut problem = |field: &str, text: &str| {
            problems.push(Problem { path: format!("{ROLLING_UPDATE}.{field}"), message: text.to_owned() });
        };
        for (field, amount) in [("maxUnavailable", *max_unavailable), ("maxSurge", *max_surge)] {
            match amount {
                IntOrPercent::Int(number) if number < 0 => {
                    problem(field, &format!("Invalid value: {number}: must be greater than or equal to 0"));
                }
                IntOrPercent::Percent(percent) if percent > 100 => {
                    problem(field, "Invalid value: must not be greater than 100%");
                }
                IntOrPercent::Int(_) | IntOrPercent::Percent(0..) => {}
                IntOrPercent::Percent(_) => problem(field, "Invalid value: must be a percentage such as 10%"),
            }
        }
        let (has_unavailable, has_surge) = (max_unavailable.value() != 0, max_surge.value() != 0);
        match (has_unavailable, has_surge) {
            (true, true) => {
                problem("maxSurge", "Invalid value: may not be set when maxUnavailable is non-zero (its default is 1)")
            }
            (false, false) => problem("maxUnavailable", "Required value: cannot be 0 when maxSurge is 0"),
            _ => {}
        }
        match (flavor, rolling_update_type.as_str()) {
            (Flavor::Advanced, "InPlaceIfPossible") if has_surge => {
                problem("maxSurge", "Required value: must be 0 for InPlaceIfPossible type");
            }
            (Flavor::Advanced, "Surging") if has_unavailable => {
                problem("maxUnavailable", "Required value: must be 0 for Surging type");
            }
            _ => {}
        }
        problems
    }
}
