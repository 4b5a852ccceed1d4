//! Tries out a hold before anything is shown or applied: admission may keep the update strategy, or change the template
//! that is sent. Also tries out its end, after which the original strategy is no longer recorded.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::sleep;

use super::api_server::ApiServer;
use super::not_applied::{NotApplied, applied_or_not, not_dry, who_keeps};
use super::partition_progress::PAUSE;
use super::session::{Session, show_progress};
use super::{Failure, interrupted};
use crate::cluster::live::Live;
use crate::error::CommandError;
use crate::facts::revisions::name_of;
use crate::io::Io;
use crate::model::daemon_set::{DaemonSet, Flavor};
use crate::model::template::Template;
use crate::plan::{Plan, Step};
use crate::report::fix::Fix;
use crate::rollout::apply::{Application, Kept, StepRefusal, apply, template};
use crate::rollout::concurrent_edit::written_at;

/// Number of attempts to try out a hold.
const TRIES: u32 = 2;

/// The largest allowed error of the time of a hold.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(2);

/// Tries out the patch of a plan that was made for a time and suspends the update strategy. Returns when the hold
/// starts, and with which template: the plan is made again for these, so that the displayed change is the one that is
/// sent and applied. Fails if the patch is refused, or the strategy would not be suspended.
pub(super) async fn held_at(
    plan: &Plan,
    before: &DaemonSet,
    planned: Timestamp,
    repeat: Fix,
    session: &Session,
    io: &mut Io<'_>,
) -> Result<(Timestamp, Option<Template>), Failure> {
    let (Some(step), Flavor::Apps) = (&plan.step, before.flavor()) else { return Ok((planned, None)) };
    let live = session.source.live()?;
    let interrupt = io.interrupt.clone();
    let tried = interrupt.unless_requested(try_hold(live, step, before, repeat));
    let tried = show_progress(tried, &session.progress, io).await;
    session.print_warnings(io)?;
    let tried = tried.ok_or_else(|| interrupted().unchanged())?;
    let tried = tried.or_else(|not_applied| {
        not_applied.show_changes(&name_of(before), &session.view, io.err)?;
        Err(Failure::from(not_applied.error))
    })?;
    Ok((begins_at(planned, &tried), template(&tried)))
}

/// Tries out a patch that ends a hold. Returns the resulting DaemonSet; `None` if unknown. Fails if something keeps the update
/// strategy suspended, or the dry run was carried out. Any other error proves nothing about that.
pub(super) async fn check_end_of_hold(
    step: &Step,
    before: &DaemonSet,
    live: &Live,
    interrupted: impl Future<Output = ()>,
) -> Result<Option<Value>, CommandError> {
    match tried(step, before, live, interrupted).await? {
        Some(Application::Applied(object)) => Ok(Some(object)),
        Some(Application::Kept(Kept::Strategy, _)) => {
            let name = name_of(before);
            let message = format!(
                "the update strategy of {} cannot be restored: an admission webhook or a policy keeps it",
                name.title()
            );
            Err(CommandError::new(message)
                .hint("it stays suspended, and what it was is kept in the annotations")
                .hint(who_keeps())
                .hint(Fix::new("to resume once it is allowed", name.command("resume"))))
        }
        _ => Ok(None),
    }
}

/// Tries out a patch, and returns the resulting template of the DaemonSet; `None` if unknown. Fails if the dry run was carried out.
pub(super) async fn tried_template(
    step: &Step,
    before: &DaemonSet,
    live: &Live,
    interrupted: impl Future<Output = ()>,
) -> Result<Option<Template>, CommandError> {
    Ok(match tried(step, before, live, interrupted).await? {
        Some(Application::Applied(object) | Application::Kept(_, object)) => template(&object),
        _ => None,
    })
}

/// Tries out a patch; `None` if the command is interrupted, in which case nothing else is sent. Fails if the dry run was carried out:
/// nobody has agreed to the change yet.
pub(super) async fn tried(
    step: &Step,
    before: &DaemonSet,
    live: &Live,
    interrupted: impl Future<Output = ()>,
) -> Result<Option<Application<CommandError>>, CommandError> {
    let server = ApiServer { live, is_dry_run: true };
    tokio::select! {
        biased;
        tried = apply(&server, step, before, true) => match tried {
            Application::NotDry => Err(not_dry(&name_of(before))),
            tried => Ok(Some(tried)),
        },
        () = interrupted => Ok(None),
    }
}

async fn try_hold(live: &Live, step: &Step, before: &DaemonSet, repeat: Fix) -> Result<Value, Box<NotApplied>> {
    let server = ApiServer { live, is_dry_run: true };
    let title = name_of(before).title();
    let mut attempts = 0;
    loop {
        attempts += 1;
        return match apply(&server, step, before, true).await {
            // Another attempt changes nothing.
            Application::Refused(StepRefusal::ByServer(_)) if attempts < TRIES => {
                sleep(PAUSE).await;
                continue;
            }
            Application::Kept(Kept::Strategy, _) => {
                let message = format!(
                    "the update strategy of {title} cannot be suspended: an admission webhook or a policy keeps it, and the \
                     controller would replace all pods"
                );
                Err(Box::new(CommandError::new(message).unchanged().hint(who_keeps()).into()))
            }
            Application::Kept(Kept::Annotation(key), _) => {
                let message = format!(
                    "the update strategy of {title} cannot be suspended: an admission webhook or a policy drops or changes annotation {key}, \
                     by which the rollout is continued and the strategy is restored"
                );
                Err(Box::new(CommandError::new(message).unchanged().hint(who_keeps()).into()))
            }
            // The plan decides what this means.
            Application::Kept(Kept::Template, tried) => Ok(tried),
            application => applied_or_not(application, &name_of(before), repeat),
        };
    }
}

/// Returns when a hold starts, according to a dry run: a proxy may have written the `Date` of the responses that the
/// plan was based on, but not the time that the API server records in an object.
fn begins_at(planned: Timestamp, tried: &Value) -> Timestamp {
    let at = written_at(tried).filter(|at| planned.duration_since(*at).abs() > TOLERANCE);
    // The fraction distinguishes two clients that start in the same second.
    let fraction = SignedDuration::from_nanos(planned.subsec_nanosecond().into());
    at.and_then(|at| at.checked_add(fraction).ok()).unwrap_or(planned)
}
