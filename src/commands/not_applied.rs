//! Errors of changes that were not applied, or whose outcome is unknown.

use std::io;
use std::time::Duration;

use serde_json::Value;

use super::Failure;
use crate::error::{CommandError, Exit};
use crate::facts::controller::Controller;
use crate::model::daemon_set::DaemonSet;
use crate::render::change::concurrent_edit;
use crate::render::view::View;
use crate::report::change::Change;
use crate::report::fix::{Command, Fix};
use crate::report::history::DaemonSetName;
use crate::report::plan::ChangeStage;
use crate::rollout::apply::{Application, Kept, StepRefusal};

/// Returns how to find what modifies objects as they are written.
pub(super) fn who_keeps() -> Fix {
    let resources = "mutatingwebhookconfigurations,mutatingadmissionpolicies";
    Fix::new("to find what does that", Command::kubectl(&["get", resources]))
}

/// Names field managers.
pub(super) fn quoted(managers: &[String]) -> String {
    managers.iter().map(|manager| format!("{manager:?}")).collect::<Vec<_>>().join(" and ")
}

/// Builds the error for a plan that could not be shown: it must not be applied unseen. Stages before it may have been.
pub(super) fn not_shown(failure: Failure, is_next_stage: bool) -> Failure {
    match failure {
        Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => match is_next_stage {
            false => CommandError::new("the output was closed before the change was shown; nothing was sent").into(),
            true => CommandError::new("the output was closed before the next stage was shown; it was not begun")
                .unchanged()
                .into(),
        },
        failure => failure,
    }
}

/// Builds the error for a server that did not respond before anything was sent.
pub(super) fn not_read(time_limit: Option<Duration>) -> CommandError {
    let message = format!("the API server has not answered{}; nothing was changed", within(time_limit));
    CommandError::new(message).exit(Exit::TimedOut)
}

fn within(time_limit: Option<Duration>) -> String {
    time_limit.map_or_else(String::new, |time_limit| format!(" within {}s", time_limit.as_secs()))
}

/// Builds the error for a server that did not respond to a change in time.
pub(super) fn not_answered(time_limit: Duration) -> CommandError {
    CommandError::new(format!("the API server has not answered the change{}", within(Some(time_limit))))
}

/// Builds the error for a server that was too busy to process a change in time.
pub(super) fn not_processed(time_limit: Duration) -> CommandError {
    let message =
        format!("the API server was too busy to process the change{}; it was not applied", within(Some(time_limit)));
    CommandError::new(message).exit(Exit::TimedOut)
}

/// Builds the error for a controller that did not act in time.
pub(super) fn not_observed(controller: Controller, time_limit: Option<Duration>) -> CommandError {
    let within = within(time_limit);
    let message = format!("the change was applied, but the controller has not acted on it{within}");
    CommandError::new(message).exit(Exit::NotObserved).hint(controller.check())
}

/// Why a change was not applied.
pub(super) struct NotApplied {
    /// Whether it was refused, or its outcome is unknown.
    pub(super) stage: ChangeStage,
    /// Changes by others.
    pub(super) changes: Vec<Change>,
    /// The part of the change that was dropped, and the resulting DaemonSet.
    pub(super) kept: Option<(Kept, DaemonSet)>,
    pub(super) error: CommandError,
}

impl From<CommandError> for NotApplied {
    /// Nothing was changed.
    fn from(error: CommandError) -> Self {
        NotApplied { stage: ChangeStage::Refused, changes: Vec::new(), kept: None, error }
    }
}

impl NotApplied {
    /// Shows what others have changed.
    pub(super) fn show_changes(&self, name: &DaemonSetName, view: &View, out: &mut dyn io::Write) -> io::Result<()> {
        match self.changes.as_slice() {
            [] => Ok(()),
            changes => view.write(out, |page| concurrent_edit(&name.title(), changes, page)),
        }
    }
}

/// Builds the error for a dry run that was carried out, as far as the answer can be believed.
pub(super) fn not_dry(name: &DaemonSetName) -> CommandError {
    let title = name.title();
    let message =
        format!("the dry run of {title} was carried out: the API server, or a proxy before it, ignores dryRun");
    CommandError::new(message)
        .exit(Exit::OutcomeUnknown)
        .hint(Fix::new("to see what it is now", name.command("status")))
}

/// Returns the changed object, or the error for a change that was not applied or whose outcome is unknown.
pub(super) fn applied_or_not(
    application: Application<CommandError>,
    name: &DaemonSetName,
    repeat: Fix,
) -> Result<Value, Box<NotApplied>> {
    let title = name.title();
    let refused = |error: CommandError| NotApplied::from(error);
    let unknown = |error: CommandError, hint: Fix| {
        let exit = if error.exit == Exit::Interrupted { error.exit } else { Exit::OutcomeUnknown };
        NotApplied { stage: ChangeStage::Unknown, ..refused(error.exit(exit).hint(hint)) }
    };
    let kept = match &application {
        Application::Kept(kept, object) => DaemonSet::from_object(object.clone()).ok().map(|now| (*kept, now)),
        _ => None,
    };
    let not_applied = match application {
        Application::Applied(object) | Application::Overwritten(object) => return Ok(object),
        Application::Refused(StepRefusal::Changed { by, changes }) => {
            let by = if by.is_empty() { "somebody else".to_owned() } else { quoted(&by) };
            let message = format!("{title} was changed by {by} after it was read; this change was not applied");
            NotApplied { changes, ..refused(CommandError::new(message).hint(repeat.after("review that change"))) }
        }
        Application::Refused(StepRefusal::Deleted) => {
            refused(CommandError::new(format!("{title} was deleted after it was read")))
        }
        Application::Refused(StepRefusal::Contended | StepRefusal::Blocked(_)) => {
            let message = format!("{title} changes faster than it can be patched; this change was not applied");
            refused(CommandError::new(message).hint("find out what keeps writing its status"))
        }
        Application::Refused(StepRefusal::ByServer(error) | StepRefusal::NotProcessed(error)) => refused(error),
        Application::Refused(StepRefusal::NotApplied(error)) => {
            refused(error.hint(repeat.after(&format!("{title} was read again, and the change was not applied"))))
        }
        Application::Recreated => {
            let message = format!("{title} was deleted and recreated after it was read; the new one was not changed");
            refused(CommandError::new(message).hint("review the new DaemonSet before you change it"))
        }
        Application::Kept(kept, object) => {
            let message = match kept {
                Kept::All => {
                    format!("this change of {title} was not applied: an admission webhook or a policy drops it")
                }
                Kept::Template => format!(
                    "the template of {title} stays as it was: an admission webhook, a policy or another controller put it back at \
                     once"
                ),
                Kept::Strategy => {
                    let type_ = object.pointer("/spec/updateStrategy/type").and_then(Value::as_str).unwrap_or_default();
                    format!(
                        "the update strategy of {title} stays {type_:?}: an admission webhook, a policy or another controller put it \
                         back at once"
                    )
                }
                Kept::Annotation(key) => format!(
                    "annotation {key} of {title} is not as it was sent: an admission webhook or a policy drops or changes it"
                ),
            };
            let stage = if kept == Kept::All { ChangeStage::Refused } else { ChangeStage::Applied };
            NotApplied { stage, ..refused(CommandError::new(message).hint(who_keeps())) }
        }
        Application::NotDry => NotApplied { stage: ChangeStage::Unknown, ..refused(not_dry(name)) },
        Application::Unknown(error) => unknown(error, repeat.after("it is not known whether the change was applied")),
        Application::NotSeen(error) => {
            let found = "it is not known whether the change was applied; it was not when the DaemonSet was read again";
            unknown(error, repeat.after(found))
        }
    };
    Err(Box::new(NotApplied { kept, ..not_applied }))
}
