//! A restart, and what prevents it from having an effect.

use super::proposal::{Planned, propose_template};
use super::replacement_warnings::hopeless;
use super::situation::Situation;
use crate::model::daemon_set::UpdateStrategy;
use crate::plan::Plan;
use crate::report::plan::{PlanKind, Warning};
use crate::scheduling::rolling_update;

/// Plans to restart all pods.
///
/// # Errors
///
/// Fails with what is wrong if the controller would delete pods for new ones that fail or are refused, unless that is forced.
pub fn restart(before: &Situation<'_>, force: bool) -> Result<Planned, Vec<Warning>> {
    let (daemon_set, plan) = (before.daemon_set, Plan::restart(before.daemon_set, before.now()));
    let planned = propose_template(before, plan, PlanKind::RestartPlan, None);
    let deletes = matches!(&daemon_set.spec.update_strategy, UpdateStrategy::RollingUpdate(rolling) if !rolling.paused);
    // A surge takes no pod away.
    let deletes = deletes && !rolling_update::allows_surge(daemon_set);
    let worse = if deletes && !force { hopeless(&planned.report.warnings) } else { Vec::new() };
    if worse.is_empty() { Ok(planned) } else { Err(worse) }
}
