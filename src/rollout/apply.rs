//! Applies a step and determines its outcome: the only place that handles conflicts and lost responses.

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde_json::Value;

use super::concurrent_edit;
use crate::difference::object::changes;
use crate::model::daemon_set::DaemonSet;
use crate::model::hold::{ANNOTATIONS, ORIGINAL_STRATEGY_ANNOTATION, RUN_ANNOTATION};
use crate::model::pod::Pod;
use crate::model::template::Template;
use crate::plan::{DaemonSetPatch, FIELD_MANAGER, PodRef, Step};
use crate::report::change::Change;

/// The number of times a patch is sent while the status of its object keeps changing.
const MAX_CONFLICT_RETRIES: u32 = 20;

/// How much longer each pause before such a retry is than the previous one.
const CONFLICT_PAUSE: Duration = Duration::from_millis(10);

/// How often a patch is sent again whose connection broke, and that was not applied: as it is for one version, it cannot be applied twice.
const MAX_REPEATS: u32 = 2;

/// The pauses before the object is read again after a lost response: the server may still be processing the request.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(300), Duration::from_millis(700)];

/// This field must be stored as sent: it decides what replaces pods.
const STRATEGY_TYPE: &str = "/spec/updateStrategy/type";

/// The path of the annotations.
const ANNOTATIONS_OF_OBJECT: &str = "/metadata/annotations";

/// The path of the update strategy.
const STRATEGY: &str = "/spec/updateStrategy";

/// The part of a change that the API server did not store: something, such as an admission webhook, dropped it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The whole change.
    All,
    /// The type of the update strategy, so that the wrong party replaces pods.
    Strategy,
    /// The template, which is still the previous one.
    Template,
    /// This annotation, without which a hold does not work as intended.
    Annotation(&'static str),
}

/// Why a response is not the DaemonSet with the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Problem {
    /// It is the DaemonSet without this part.
    Kept(Kept),
    /// Anything else, as a clause.
    Other(&'static str),
}

impl Problem {
    fn describe(self) -> &'static str {
        match self {
            Problem::Kept(Kept::All) => "the change is not in it",
            Problem::Kept(Kept::Strategy) => "spec.updateStrategy.type is not as sent",
            Problem::Kept(Kept::Template) => "its template is the one from before the change",
            Problem::Kept(Kept::Annotation(_)) => "an annotation of the hold is not as sent",
            Problem::Other(problem) => problem,
        }
    }
}

/// What applying a step needs from an API server.
pub(crate) trait Server {
    /// Why a request failed.
    type Error;

    /// Sends a step once, and returns the server's response, unchecked.
    async fn send(&self, step: &Step) -> Result<Value, Failed<Self::Error>>;

    /// Sends a step as a dry run, and returns the server's response, unchecked.
    async fn try_out(&self, step: &Step) -> Result<Value, Failed<Self::Error>>;

    /// Reads a DaemonSet again; `None` if it does not exist.
    async fn read_daemon_set(&self, before: &DaemonSet) -> Result<Option<DaemonSet>, Self::Error>;

    /// Reads a pod again; `None` if it does not exist.
    async fn read_pod(&self, pod: &PodRef) -> Result<Option<Pod>, Self::Error>;

    /// Waits.
    async fn pause(&self, pause: Duration);

    /// Builds the error for a response that does not belong to the step.
    fn unexpected(&self, step: &Step, problem: &str) -> Self::Error;
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum Failed<E> {
    /// The object has another resource version, or a proxy sent the request twice and the first one was applied.
    Conflict(E),
    /// It may have been applied, or may still be: the response was lost, or is not from the API server, and whatever
    /// has responded instead may still forward the request.
    OutcomeUnknown(E),
    /// The same, because the connection broke: unlike a server that is slow or in trouble, it may be sent the request again at once.
    Lost(E),
    /// It was not applied.
    Refused(E),
    /// It was not applied: the API server was too busy to process it.
    Busy(E),
    /// The object does not exist.
    NotFound,
    /// A PodDisruptionBudget does not currently allow the eviction; contains the API server's message about the budget.
    Blocked(String),
}

/// The outcome of a step.
#[derive(Debug, PartialEq)]
pub(crate) enum Application<E> {
    /// The server has applied it; contains the resulting object, or null if it was deleted.
    Applied(Value),
    /// The same, and others have changed its spec since, so that this is not what the server has made of the step.
    Overwritten(Value),
    /// Nothing was changed.
    Refused(StepRefusal<E>),
    /// The object was deleted and recreated under the same name; the new one was not changed.
    Recreated,
    /// The server has responded, and this part of the change was dropped. Contains the resulting object, or that of a dry run.
    Kept(Kept, Value),
    /// It was sent, and it is unknown whether it was applied.
    Unknown(E),
    /// The server, or a proxy before it, has ignored that it was a dry run: it was applied.
    NotDry,
    /// Like [`Application::Unknown`], but it was not applied when the object was read again. It may still be applied.
    NotSeen(E),
}

/// Why a step was not applied.
#[derive(Debug, PartialEq)]
pub(crate) enum StepRefusal<E> {
    /// The object was changed after it was read.
    Changed {
        /// The field managers that changed it, if the server records them.
        by: Vec<String>,
        /// What they changed.
        changes: Vec<Change>,
    },
    /// The object was deleted after it was read.
    Deleted,
    /// Something changes its status faster than it can be patched.
    Contended,
    /// A PodDisruptionBudget does not currently allow the eviction; contains the API server's message about the budget.
    Blocked(String),
    /// The server refused the request.
    ByServer(E),
    /// The server was too busy to process it in time.
    NotProcessed(E),
    /// The request failed, and the object was read again without the change.
    NotApplied(E),
}

/// Applies a step that was planned for a DaemonSet as it was read.
pub(crate) async fn apply<S: Server>(
    server: &S,
    step: &Step,
    before: &DaemonSet,
    is_dry_run: bool,
) -> Application<S::Error> {
    match step {
        Step::PatchDaemonSet(patch) => apply_patch(server, patch, before, is_dry_run).await,
        Step::DeletePod(pod) | Step::EvictPod(pod) => remove_pod(server, step, pod).await,
    }
}

/// Determines the outcome of a step that was given up on before it was answered. It may have been sent for a newer version than it was
/// planned for, so that it may still be applied as long as nothing tells otherwise.
pub(crate) async fn look_again<S: Server>(
    server: &S,
    step: &Step,
    before: &DaemonSet,
    error: S::Error,
) -> Application<S::Error> {
    let found = match step {
        Step::PatchDaemonSet(patch) => after_lost_answer(server, patch, before, error).await,
        Step::DeletePod(pod) | Step::EvictPod(pod) => after_lost_removal(server, pod, error).await,
    };
    match found {
        Application::Refused(StepRefusal::NotApplied(error)) => Application::NotSeen(error),
        found => found,
    }
}

/// Patches a DaemonSet. If only its status has changed since it was read, the patch is applied to the newer version.
async fn apply_patch<S: Server>(
    server: &S,
    patch: &DaemonSetPatch,
    before: &DaemonSet,
    is_dry_run: bool,
) -> Application<S::Error> {
    let mut patch = patch.clone();
    let (mut unseen, mut repeats) = (None, 0);
    // Without them, the API server would apply it to any current object.
    if patch.resource_version.is_empty() || before.metadata.uid.is_empty() {
        let problem = "the DaemonSet was read without a resourceVersion or a uid";
        let error = server.unexpected(&Step::PatchDaemonSet(patch), problem);
        return Application::Refused(StepRefusal::ByServer(error));
    }
    for retry in 1..=MAX_CONFLICT_RETRIES {
        let step = Step::PatchDaemonSet(patch.clone());
        let failed = match server.send(&step).await {
            // A dry run stores nothing, and so returns the version of the precondition (`DryRunnableStorage.GuaranteedUpdate`,
            // k8s.io/apiserver/pkg/registry/generic/registry/dryrun.go, release 0.37.2).
            Ok(answer) if is_dry_run && is_later_version(&answer, &patch, before) => return Application::NotDry,
            Ok(answer) => match problem_of(&answer, &patch, before, is_dry_run) {
                None => return Application::Applied(answer),
                Some(Problem::Kept(kept)) if is_dry_run => return Application::Kept(kept, answer),
                Some(Problem::Kept(kept)) if is_confirmed(server, &answer, &patch, before).await => {
                    return Application::Kept(kept, answer);
                }
                Some(problem) => Failed::OutcomeUnknown(server.unexpected(&step, problem.describe())),
            },
            Err(failed) => failed,
        };
        let error = match failed {
            // A proxy may have asked another server.
            Failed::NotFound if !matches!(server.read_daemon_set(before).await, Ok(None)) => {
                let error = server.unexpected(&step, "it says that the DaemonSet does not exist");
                match is_dry_run {
                    true => return Application::Refused(StepRefusal::ByServer(error)),
                    false => return after_lost_answer(server, &patch, before, error).await,
                }
            }
            Failed::NotFound => return Application::Refused(StepRefusal::Deleted),
            Failed::Blocked(budget) => return Application::Refused(StepRefusal::Blocked(budget)),
            Failed::Refused(error) | Failed::Busy(error) | Failed::OutcomeUnknown(error) | Failed::Lost(error)
                if is_dry_run =>
            {
                return Application::Refused(StepRefusal::ByServer(error));
            }
            // What was lost may still arrive.
            Failed::Refused(error) | Failed::Busy(error) if repeats > 0 => {
                return after_lost_answer(server, &patch, before, error).await;
            }
            Failed::Refused(error) | Failed::Busy(error) => return after_refusal(server, &patch, before, error).await,
            Failed::OutcomeUnknown(error) => return after_lost_answer(server, &patch, before, error).await,
            Failed::Lost(error) => match after_lost_answer(server, &patch, before, error).await {
                Application::NotSeen(_) | Application::Refused(StepRefusal::NotApplied(_)) if repeats < MAX_REPEATS => {
                    repeats += 1;
                    continue;
                }
                found => return found,
            },
            Failed::Conflict(error) => error,
        };
        let mut read = server.read_daemon_set(before).await;
        for pause in PAUSES.into_iter().filter(|_| !is_dry_run) {
            if read.is_err() {
                server.pause(pause).await;
                read = server.read_daemon_set(before).await;
            }
        }
        match read {
            Ok(None) => return Application::Refused(StepRefusal::Deleted),
            // A proxy may have sent the patch twice, and return the object from before the first one was applied.
            Ok(Some(now)) if now.metadata.is_older_than(&patch.resource_version) => unseen = Some(error),
            // What was lost may have been applied after all, whatever has become of that since.
            Ok(Some(now))
                if repeats > 0
                    && (now.metadata.generation != before.metadata.generation
                        || !matches!(compare(before, &patch, &now), Reread::Nothing)) =>
            {
                return after_lost_answer(server, &patch, before, error).await;
            }
            Ok(Some(now)) => match compare(before, &patch, &now) {
                // A value to remove was removed by somebody else, which does not show as a change.
                Reread::Nothing if patch.applied_to(&now.object).is_err() => {
                    let by = concurrent_edit::managers(&before.object, &now.object);
                    return Application::Refused(StepRefusal::Changed { by, changes: Vec::new() });
                }
                Reread::Nothing if now.metadata.resource_version == patch.resource_version => unseen = Some(error),
                Reread::Nothing => {
                    unseen = None;
                    patch = patch.with_resource_version(&now.metadata.resource_version);
                }
                Reread::Change | Reread::ChangeWithout(_) if is_dry_run => {
                    return Application::Refused(StepRefusal::NotApplied(error));
                }
                // Of a patch that was refused, nothing dropped a part: somebody else has written the rest, or another template with it.
                found @ (Reread::Change | Reread::ChangeWithout(Kept::Annotation(_)))
                    if (!matches!(found, Reread::Change) || !has_planned_template(&patch, before, &now))
                        && !is_own_write(&patch, before, &now) =>
                {
                    let by = concurrent_edit::managers(&before.object, &now.object);
                    let changes = changes(&before.object, &now.object);
                    return Application::Refused(StepRefusal::Changed { by, changes });
                }
                found => return conclude(server, &patch, before, found, now, error).await,
            },
            Err(error) if is_dry_run => return Application::Refused(StepRefusal::ByServer(error)),
            Err(_) => return Application::Unknown(error),
        }
        server.pause(CONFLICT_PAUSE * retry).await;
    }
    unseen.filter(|_| !is_dry_run).map_or(Application::Refused(StepRefusal::Contended), Application::NotSeen)
}

/// Deletes or evicts a pod as it was read, and determines the outcome. A pod that does not exist counts as deleted.
///
/// A pod that has changed in any way is left alone: the caller decides again.
async fn remove_pod<S: Server>(server: &S, step: &Step, pod: &PodRef) -> Application<S::Error> {
    let is_done = |answer: &Value| match answer["kind"].as_str() {
        Some("Pod") => answer["metadata"]["uid"] == pod.uid.as_str(),
        // The response to a deletion is the pod (`ReturnDeletedObject`, pkg/registry/core/pod/storage/storage.go, release 1.37.2).
        Some("Status") => {
            matches!(step, Step::EvictPod(_)) && answer["status"] == "Success" && answer["apiVersion"] == "v1"
        }
        _ => false,
    };
    if pod.uid.is_empty() {
        let error = server.unexpected(step, "the pod was read without a uid");
        return Application::Refused(StepRefusal::ByServer(error));
    }
    let failed = match server.send(step).await {
        Ok(answer) if is_done(&answer) => return Application::Applied(answer),
        // A proxy may return anything.
        Ok(_) => Failed::OutcomeUnknown(server.unexpected(step, "it is not the deleted pod")),
        Err(failed) => failed,
    };
    let error = match failed {
        Failed::NotFound => match server.read_pod(pod).await {
            Ok(now) if removal::<S::Error>(pod, now.as_ref()).is_some() => return Application::Applied(Value::Null),
            _ => server.unexpected(step, "it says that the pod does not exist"),
        },
        Failed::Blocked(budget) => return Application::Refused(StepRefusal::Blocked(budget)),
        Failed::OutcomeUnknown(error) | Failed::Lost(error) => error,
        Failed::Refused(error) => return removed_or(server, pod, |_| StepRefusal::ByServer(error)).await,
        Failed::Busy(error) => return removed_or(server, pod, |_| StepRefusal::NotApplied(error)).await,
        // It has another version, or it is a different pod.
        Failed::Conflict(error) => {
            let refusal = |is_read| if is_read { StepRefusal::Contended } else { StepRefusal::NotApplied(error) };
            return removed_or(server, pod, refusal).await;
        }
    };
    after_lost_removal(server, pod, error).await
}

/// Reads a pod again to determine whether it was removed although the response was lost.
async fn after_lost_removal<S: Server>(server: &S, pod: &PodRef, error: S::Error) -> Application<S::Error> {
    let mut is_unchanged = false;
    for pause in PAUSES {
        server.pause(pause).await;
        match server.read_pod(pod).await {
            // It may have been applied since it was last read.
            Err(_) => is_unchanged = false,
            Ok(now) => match removal(pod, now.as_ref()) {
                Some(removed) => return removed,
                None => is_unchanged = true,
            },
        }
    }
    match is_unchanged {
        true => Application::NotSeen(error),
        false => Application::Unknown(error),
    }
}

/// Returns the outcome for a pod whose removal was refused: a proxy may have sent it twice, and the first one was
/// applied. Otherwise the refusal is returned, which may depend on whether the pod could be read again.
async fn removed_or<S: Server>(
    server: &S,
    pod: &PodRef,
    refusal: impl FnOnce(bool) -> StepRefusal<S::Error>,
) -> Application<S::Error> {
    let read = server.read_pod(pod).await;
    let is_read = read.is_ok();
    let removed = read.ok().and_then(|now| removal(pod, now.as_ref()));
    removed.unwrap_or_else(|| Application::Refused(refusal(is_read)))
}

/// Returns the outcome for a pod that was read again after its removal was requested; `None` if it still exists.
fn removal<E>(pod: &PodRef, now: Option<&Pod>) -> Option<Application<E>> {
    match now {
        None => Some(Application::Applied(Value::Null)),
        Some(now) if now.metadata.uid != pod.uid => Some(Application::Recreated),
        Some(now) => now.metadata.is_terminating().then_some(Application::Applied(Value::Null)),
    }
}

/// Reads the object again after a refusal: a proxy may have sent the patch twice, and the first one was applied.
async fn after_refusal<S: Server>(
    server: &S,
    patch: &DaemonSetPatch,
    before: &DaemonSet,
    error: S::Error,
) -> Application<S::Error> {
    if let Ok(Some(now)) = server.read_daemon_set(before).await
        && let found @ (Reread::Change | Reread::ChangeWithout(_)) = compare(before, patch, &now)
    {
        return conclude(server, patch, before, found, now, error).await;
    }
    Application::Refused(StepRefusal::ByServer(error))
}

/// Returns whether the object stays unchanged after a response without the change: a proxy may return anything, and a
/// request that it has not forwarded yet may still be applied. It is not enough that nothing was written: only a dry
/// run of the patch proves that the server drops it.
async fn is_confirmed<S: Server>(server: &S, answer: &Value, patch: &DaemonSetPatch, before: &DaemonSet) -> bool {
    let is_unwritten = answer["metadata"]["resourceVersion"] == patch.resource_version;
    let mut again = patch.clone();
    for pause in PAUSES {
        server.pause(pause).await;
        let Ok(Some(now)) = server.read_daemon_set(before).await else { return false };
        let is_same = match is_unwritten {
            // The status may change in the meantime.
            true => {
                now.metadata.generation == before.metadata.generation
                    && matches!(compare(before, patch, &now), Reread::Nothing)
            }
            false => run_of(answer) == run_of(&now.object) && changes(answer, &now.object).is_empty(),
        };
        if !is_same || now.metadata.uid != before.metadata.uid {
            return false;
        }
        again = again.with_resource_version(&now.metadata.resource_version);
    }
    if !is_unwritten {
        return true;
    }
    let tried = server.try_out(&Step::PatchDaemonSet(again)).await;
    tried.is_ok_and(|tried| {
        tried["metadata"]["uid"] == before.metadata.uid.as_str() && is_undone(patch, &before.object, &tried)
    })
}

/// Reads the object again to determine whether a patch whose response was lost was applied.
///
/// It may still be in flight, so the server may apply it as long as the object has the resource version in the patch's
/// precondition.
async fn after_lost_answer<S: Server>(
    server: &S,
    patch: &DaemonSetPatch,
    before: &DaemonSet,
    error: S::Error,
) -> Application<S::Error> {
    let mut is_unchanged = false;
    for pause in PAUSES {
        server.pause(pause).await;
        match server.read_daemon_set(before).await {
            // It may have been applied since the object was last read.
            Err(_) => is_unchanged = false,
            Ok(None) => return Application::Refused(StepRefusal::Deleted),
            Ok(Some(now)) if now.metadata.is_older_than(&patch.resource_version) => is_unchanged = false,
            Ok(Some(now)) if is_overwritten(patch, before, &now) => return Application::Overwritten(now.object),
            Ok(Some(now)) => match compare(before, patch, &now) {
                Reread::Nothing if now.metadata.resource_version == patch.resource_version => is_unchanged = true,
                // It may have been applied and reverted.
                Reread::Nothing if now.metadata.generation > before.metadata.generation => {
                    return Application::Unknown(error);
                }
                // It may have been applied and overwritten.
                Reread::AnotherChange { is_of_client, .. }
                    if is_of_client || now.metadata.generation > before.metadata.generation + 1 =>
                {
                    return Application::Unknown(error);
                }
                found => return conclude(server, patch, before, found, now, error).await,
            },
        }
    }
    match is_unchanged {
        true => Application::NotSeen(error),
        false => Application::Unknown(error),
    }
}

/// Returns whether the only write of the spec since a patch was planned was that of the patch, as admission has stored it: a proxy has
/// sent it twice, and the second one was refused. Another client would have annotations of its own.
fn is_own_write(patch: &DaemonSetPatch, before: &DaemonSet, now: &DaemonSet) -> bool {
    let Ok(planned) = patch.applied_to(&before.object) else { return false };
    let value = |object: &Value, key: &str| object.pointer(ANNOTATIONS_OF_OBJECT)?.get(key).cloned();
    let is_own = |key: &str| [None, value(&planned, key)].contains(&value(&now.object, key));
    let names_run = run_of(&planned).is_some()
        && run_of(&planned) == run_of(&now.object)
        && run_of(&before.object) != run_of(&planned);
    let by = concurrent_edit::managers(&before.object, &now.object);
    now.metadata.generation == before.metadata.generation + 1
        && ANNOTATIONS.into_iter().all(is_own)
        && by.iter().all(|manager| manager == FIELD_MANAGER)
        && (names_run || !by.is_empty())
}

/// Returns whether an object has what only this program writes, the annotations of a hold as a patch leaves them, although its spec was
/// written once more than by the patch: whatever differs otherwise is of others, not of admission.
fn is_overwritten(patch: &DaemonSetPatch, before: &DaemonSet, now: &DaemonSet) -> bool {
    let own_writes = i64::from(patch.paths().any(|path| path.starts_with("/spec/")));
    let Ok(planned) = patch.applied_to(&before.object) else { return false };
    let value = |object: &Value, key: &str| object.pointer(ANNOTATIONS_OF_OBJECT)?.get(key).cloned();
    let mut written =
        ANNOTATIONS.into_iter().filter(|key| value(&planned, key) != value(&before.object, key)).peekable();
    now.metadata.uid == before.metadata.uid
        && now.metadata.generation > before.metadata.generation + own_writes
        && written.peek().is_some()
        && written.all(|key| value(&planned, key) == value(&now.object, key))
}

/// The result of reading an object again.
enum Reread {
    Change,
    /// The change, except for this part.
    ChangeWithout(Kept),
    /// Only the status has changed.
    Nothing,
    /// A different object with the same name.
    AnotherObject,
    /// Another change; by another client of this tool, it has started to replace pods, or has paused the rollout.
    AnotherChange {
        is_of_client: bool,
        by: Vec<String>,
        changes: Vec<Change>,
    },
}

fn compare(before: &DaemonSet, patch: &DaemonSetPatch, now: &DaemonSet) -> Reread {
    if now.metadata.uid != before.metadata.uid {
        return Reread::AnotherObject;
    }
    let planned = patch.applied_to(&before.object);
    let another_change = |is_of_client| Reread::AnotherChange {
        is_of_client,
        by: concurrent_edit::managers(&before.object, &now.object),
        changes: changes(&before.object, &now.object),
    };
    // The name of the run is not among the displayed changes, but it tells which client replaces pods.
    let (known, found) = (run_of(&before.object), run_of(&now.object));
    let is_of_another_run = found != known && !planned.as_ref().is_ok_and(|planned| run_of(planned) == found);
    // Nothing else writes such a name, whatever else is as planned.
    if is_of_another_run && found.is_some() {
        return another_change(true);
    }
    if let Ok(planned) = &planned {
        let is_written = |path: &str| has_change(path, planned, &now.object);
        let keeps_strategy = has_other_strategy(patch, planned, &now.object);
        if !keeps_strategy && patch.paths().all(is_written) {
            return Reread::Change;
        }
        let has_rest = |is_left_out: fn(&str) -> bool| {
            let mut rest = patch.paths().filter(|path| !is_left_out(path)).peekable();
            rest.peek().is_some() && rest.all(is_written)
        };
        let is_hold = planned.pointer(STRATEGY_TYPE).is_some_and(|planned| planned == "OnDelete");
        if keeps_strategy && is_hold && has_rest(|path| path.starts_with(STRATEGY)) {
            return Reread::ChangeWithout(Kept::Strategy);
        }
        // What removes the annotations of a hold leaves its strategy.
        let had_spec = || has_spec_of(patch, planned, &before.object);
        if !keeps_strategy
            && has_rest(|path| path.starts_with(ANNOTATIONS_OF_OBJECT))
            && !had_spec()
            && let Some(Problem::Kept(lost @ Kept::Annotation(_))) =
                lost_annotation(planned, &before.object, &now.object)
        {
            return Reread::ChangeWithout(lost);
        }
        // Nobody else writes the name of this run.
        let names_run = run_of(planned) != run_of(&before.object);
        if !keeps_strategy && names_run && has_rest(is_in_template) {
            if same_template(&before.object, &now.object) {
                return Reread::ChangeWithout(Kept::Template);
            }
            // Admission has changed it to a different one. Somebody else may have, too, but not in the same write.
            if now.metadata.generation == before.metadata.generation + 1 {
                return Reread::Change;
            }
        }
    }
    match another_change(is_of_another_run) {
        Reread::AnotherChange { is_of_client: false, changes, .. } if changes.is_empty() => Reread::Nothing,
        found => found,
    }
}

async fn conclude<S: Server>(
    server: &S,
    patch: &DaemonSetPatch,
    before: &DaemonSet,
    found: Reread,
    now: DaemonSet,
    error: S::Error,
) -> Application<S::Error> {
    match found {
        Reread::Change => Application::Applied(now.object),
        Reread::ChangeWithout(kept) => match concurrent_edit::managers(&before.object, &now.object) {
            by if by.is_empty() || by.iter().any(|manager| manager == FIELD_MANAGER) => {
                Application::Kept(kept, now.object)
            }
            // Of what only others have written, nothing was dropped.
            by => {
                let changes = changes(&before.object, &now.object);
                Application::Refused(StepRefusal::Changed { by, changes })
            }
        },
        Reread::AnotherObject => Application::Recreated,
        // A webhook may have modified what this tool has sent.
        Reread::AnotherChange { is_of_client: false, by, changes } if by.iter().any(|it| it == FIELD_MANAGER) => {
            match as_stored(server, patch, before, &now).await {
                Some(Stored::AsSent) => Application::Refused(StepRefusal::Changed { by, changes }),
                Some(Stored::AsFound) if is_own_write(patch, before, &now) => Application::Applied(now.object),
                _ => Application::Unknown(error),
            }
        }
        Reread::AnotherChange { by, changes, .. } => Application::Refused(StepRefusal::Changed { by, changes }),
        Reread::Nothing => Application::Refused(StepRefusal::NotApplied(error)),
    }
}

/// How the server would store the spec of a patch.
enum Stored {
    /// As it was sent, so that the only other change of the spec since it was planned is that of another client.
    AsSent,
    /// As an object has it, so that admission has made that of the patch.
    AsFound,
}

/// Tries out a patch of the spec on an object whose spec was written once since it was planned.
async fn as_stored<S: Server>(
    server: &S,
    patch: &DaemonSetPatch,
    before: &DaemonSet,
    now: &DaemonSet,
) -> Option<Stored> {
    if now.metadata.generation != before.metadata.generation + 1
        || !patch.paths().any(|path| path.starts_with("/spec/"))
    {
        return None;
    }
    let again = patch.with_resource_version(&now.metadata.resource_version);
    let planned = again.applied_to(&now.object).ok()?;
    let tried = server.try_out(&Step::PatchDaemonSet(again)).await.ok()?;
    let is_same = tried["metadata"]["uid"] == before.metadata.uid.as_str();
    [(Stored::AsSent, &planned), (Stored::AsFound, &now.object)]
        .into_iter()
        .find_map(|(stored, spec)| (is_same && has_spec_of(patch, spec, &tried)).then_some(stored))
}

/// Returns whether a response is a later version of the DaemonSet than the one in the precondition of a patch.
fn is_later_version(answer: &Value, patch: &DaemonSetPatch, before: &DaemonSet) -> bool {
    if answer["metadata"]["uid"] != before.metadata.uid.as_str() {
        return false;
    }
    let version = |version: &str| version.parse::<u64>().ok();
    let found = answer.pointer("/metadata/resourceVersion").and_then(Value::as_str).and_then(version);
    found.zip(version(&patch.resource_version)).is_some_and(|(found, sent)| found > sent)
}

/// Returns the evidence that a response is not the DaemonSet with the change.
fn problem_of(answer: &Value, patch: &DaemonSetPatch, before: &DaemonSet, is_dry_run: bool) -> Option<Problem> {
    let text = |path: &str| answer.pointer(path).and_then(Value::as_str);
    let metadata = &before.metadata;
    if (text("/kind"), text("/apiVersion")) != (Some("DaemonSet"), Some(before.api_version())) {
        return Some(Problem::Other("it is not a DaemonSet"));
    }
    let found = (text("/metadata/uid"), text("/metadata/namespace"), text("/metadata/name"));
    if found != (Some(&metadata.uid), Some(&metadata.namespace), Some(&metadata.name)) {
        return Some(Problem::Other("it is another object"));
    }
    if template(answer).is_none() {
        return Some(Problem::Other("it has no spec.template"));
    }
    let is_unchanged = is_undone(patch, &before.object, answer) && run_of(answer) == run_of(&before.object);
    if !is_dry_run && text("/metadata/resourceVersion") == Some(&patch.resource_version) {
        return Some(match is_unchanged {
            true => Problem::Kept(Kept::All),
            false => Problem::Other("its resourceVersion is that from before the change"),
        });
    }
    let planned = patch.applied_to(&before.object).unwrap_or_default();
    if has_other_strategy(patch, &planned, answer) {
        return Some(Problem::Kept(Kept::Strategy));
    }
    if let Some(lost) = lost_annotation(&planned, &before.object, answer) {
        return Some(lost);
    }
    let changes_strategy_only =
        patch.paths().any(|path| path.starts_with("/spec/")) && !patch.paths().any(is_in_template);
    if is_unchanged && changes_strategy_only {
        return Some(Problem::Kept(Kept::All));
    }
    // Admission may have dropped another template, or mapped it to the existing one, which cannot be distinguished:
    // pods must not be replaced for a template that nobody asked for. The server's other changes are shown to the user.
    let keeps_template = || same_template(&before.object, answer) && !same_template(&before.object, &planned);
    match patch.paths().any(is_in_template) && keeps_template() {
        _ if is_unchanged => Some(Problem::Kept(Kept::All)),
        true => Some(Problem::Kept(Kept::Template)),
        false => None,
    }
}

/// Finds an annotation of a hold that is missing in a response, or has another value.
fn lost_annotation(planned: &Value, before: &Value, answer: &Value) -> Option<Problem> {
    let value = |object: &Value, key: &str| object.pointer("/metadata/annotations")?.get(key).cloned();
    let lost = ANNOTATIONS.into_iter().find(|key| {
        let planned = value(planned, key);
        planned != value(before, key) && planned != value(answer, key)
    })?;
    // After the end of a hold, it has no effect besides that of the strategy.
    match value(planned, lost) {
        Some(_) => Some(Problem::Kept(Kept::Annotation(lost))),
        None if lost == ORIGINAL_STRATEGY_ANNOTATION => {
            Some(Problem::Other("the annotation with the original update strategy is still there"))
        }
        None => None,
    }
}

/// Returns whether an object contains nothing of a patch: all fields that it changes are as before. Annotations about
/// the spec do not count by themselves.
pub(crate) fn is_undone(patch: &DaemonSetPatch, before: &Value, now: &Value) -> bool {
    let is_in_spec = |path: &&str| path.starts_with("/spec/");
    let has_spec = patch.paths().any(|path| is_in_spec(&path));
    patch.paths().filter(|path| !has_spec || is_in_spec(path)).all(|path| match is_in_template(path) {
        true => same_template(before, now),
        false => before.pointer(path) == now.pointer(path),
    })
}

/// Returns whether an object has all that a patch writes in the spec, as another one has it.
pub(crate) fn has_spec_of(patch: &DaemonSetPatch, stored: &Value, now: &Value) -> bool {
    patch.paths().filter(|path| path.starts_with("/spec/")).all(|path| has_change(path, stored, now))
}

/// Returns whether an object has the template that a patch leaves, or sets.
fn has_planned_template(patch: &DaemonSetPatch, before: &DaemonSet, now: &DaemonSet) -> bool {
    patch.applied_to(&before.object).is_ok_and(|planned| same_template(&planned, &now.object))
}

/// Returns the client that replaces pods, which is not among the displayed changes.
fn run_of(object: &Value) -> Option<&Value> {
    object.pointer("/metadata/annotations")?.get(RUN_ANNOTATION)
}

/// Returns whether the type of the update strategy differs from the one that a patch sets, or leaves as OnDelete.
fn has_other_strategy(patch: &DaemonSetPatch, planned: &Value, found: &Value) -> bool {
    let sets = patch.paths().any(|path| path.starts_with(STRATEGY_TYPE) || STRATEGY_TYPE.starts_with(path));
    let (planned, found) = (planned.pointer(STRATEGY_TYPE), found.pointer(STRATEGY_TYPE));
    (sets || planned.is_some_and(|planned| planned == "OnDelete")) && planned != found
}

/// Returns whether an object has the values that a patch writes at a path. Templates are compared semantically: the server adds
/// defaults.
fn has_change(path: &str, planned: &Value, found: &Value) -> bool {
    match is_in_template(path) {
        true => same_template(planned, found),
        false => has(found.pointer(path), planned.pointer(path)),
    }
}

/// Returns whether a value is as planned, or an object that has all planned fields.
fn has(found: Option<&Value>, planned: Option<&Value>) -> bool {
    match (found, planned) {
        (Some(Value::Object(found)), Some(Value::Object(planned))) => {
            planned.iter().all(|(name, planned)| has(found.get(name), Some(planned)))
        }
        (found, planned) => found == planned,
    }
}

fn is_in_template(path: &str) -> bool {
    path.strip_prefix("/spec/template").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn same_template(one: &Value, other: &Value) -> bool {
    template(one).zip(template(other)).is_some_and(|(one, other)| one.same_meaning(&other))
}

/// Returns the template of a DaemonSet.
pub(crate) fn template(object: &Value) -> Option<Template> {
    object.pointer("/spec/template").filter(|template| template.is_object()).cloned().map(Template::new)
}
