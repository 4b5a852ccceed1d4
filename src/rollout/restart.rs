//! A restart, and what prevents it from having an effect.

use super::proposal::{Planned, propose_template};
use super::replacement_warnings::certain_harm;
use super::situation::Situation;
use crate::plan::Plan;
use crate::report::plan::{PlanKind, Warning};

/// Plans to restart all pods.
///
/// # Errors
///
/// Fails with the reasons if the controller would delete healthy pods for new ones that certainly fail or are refused,
/// unless forced.
pub fn restart(before: &Situation<'_>, force: bool) -> Result<Planned, Vec<Warning>> {
    let plan = Plan::restart(before.daemon_set, before.now());
    let planned = propose_template(before, plan, PlanKind::RestartPlan, None);
    let worse = if force { Vec::new() } else { certain_harm(&planned.report) };
    if worse.is_empty() { Ok(planned) } else { Err(worse) }
}
