//! A restart, and what prevents it from having an effect.

use super::proposal::{Planned, propose_template};
use super::replacement_warnings::certain;
use super::situation::Situation;
use crate::plan::Plan;
use crate::report::plan::{Pace, PlanKind, Warning};

/// Plans to restart all pods.
///
/// # Errors
///
/// Fails with what is wrong if the controller would delete healthy pods for new ones that certainly fail or are refused, unless
/// that is forced.
pub fn restart(before: &Situation<'_>, force: bool) -> Result<Planned, Vec<Warning>> {
    let plan = Plan::restart(before.daemon_set, before.now());
    let planned = propose_template(before, plan, PlanKind::RestartPlan, None);
    let after = planned.report.effect.as_ref().and_then(|effect| effect.after);
    let worse =
        if after.is_some_and(deletes_healthy) && !force { certain(&planned.report.warnings) } else { Vec::new() };
    if worse.is_empty() { Ok(planned) } else { Err(worse) }
}

/// Returns whether the controller certainly deletes available pods now. A surge takes no pod away.
fn deletes_healthy(pace: Pace) -> bool {
    let replaced = pace.replaced_now.zip(pace.replaced_regardless);
    !pace.surges && replaced.is_some_and(|(now, regardless)| now > regardless)
}
