//! A restart, and what prevents it from having an effect.

use super::proposal::{Planned, propose_template};
use super::situation::Situation;
use crate::plan::Plan;
use crate::report::plan::PlanKind;

/// Plans to restart all pods.
pub fn restart(before: &Situation<'_>) -> Planned {
    propose_template(before, Plan::restart(before.daemon_set, before.now()), PlanKind::RestartPlan, None)
}
