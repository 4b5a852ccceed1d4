//! DaemonSets as they would be after manifests were applied.

use serde_json::{Value, json};

use super::Failure;
use super::session::{GlobalArgs, Session, show_progress, warn};
use crate::cluster::Source;
use crate::cluster::error::{ClusterError, is_about_permission, is_dry_run_unsupported};
use crate::cluster::live::{Asked, Live};
use crate::cluster::manifest::{self, Apply, Manifest, Manifests};
use crate::coverage::needs::{self, needs};
use crate::coverage::proposed_daemon_set::{Admission, account_is_missing};
use crate::coverage::service_account;
use crate::encode::sanitize::sanitize;
use crate::error::{CommandError, Exit};
use crate::facts::revisions::name_of;
use crate::io::Io;
use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::Snapshot;
use crate::report::fix::Fix;
use crate::report::history::DaemonSetName;

/// Opens the source of a command, and reads manifests. Sets the session's namespace to that of their DaemonSets if it is
/// the same for all, else to none. Fails if a manifest cannot be read, or has no DaemonSet.
pub(super) async fn open(
    paths: &[String],
    target: &GlobalArgs,
    io: &mut Io<'_>,
) -> Result<(Session, Manifests), Failure> {
    target.check_input(paths)?;
    let mut session = target.open(None, &[], io).await?;
    paths.iter().try_for_each(|path| io.await_input(path, "a manifest"))?;
    let (requested, default) = (session.requested_namespace.as_deref(), &session.default_namespace);
    let read = manifest::read_daemon_sets(paths, io.input, requested, default)?;
    warn(read.warnings.clone(), io)?;
    for manifest in &read.daemon_sets {
        if manifest.lacks_namespace() && session.requested_namespace.is_none() {
            let (name, namespace) = (sanitize(manifest.name()), sanitize(manifest.namespace()));
            writeln!(io.err, "DaemonSet {name} has no namespace in its manifest; namespace {namespace} is assumed")?;
        }
    }
    let namespace = read.daemon_sets[0].namespace();
    let is_one_namespace = read.daemon_sets.iter().all(|manifest| manifest.namespace() == namespace);
    session.namespace = is_one_namespace.then(|| namespace.to_owned());
    Ok((session, read))
}

/// Returns the DaemonSet after a manifest is applied, with the API server's defaults. Fails if the API server would reject it.
pub(super) async fn proposed(
    read: &Manifests,
    manifest: &Manifest,
    how: Apply,
    snapshot: &Snapshot,
    session: &Session,
    io: &mut Io<'_>,
) -> Result<DaemonSet, Failure> {
    let live = live(snapshot, manifest);
    if let Some(daemon_set) = dry_run(read, manifest, live, how, session, io).await? {
        return Ok(daemon_set);
    }
    let merged = manifest.merged(live, how)?;
    let (daemon_set, warnings) = manifest.validate(merged, snapshot)?;
    warn(warnings, io)?;
    Ok(daemon_set)
}

/// Returns the DaemonSet that a manifest changes.
pub(super) fn live<'a>(snapshot: &'a Snapshot, manifest: &Manifest) -> Option<&'a DaemonSet> {
    snapshot.daemon_set(manifest.namespace(), manifest.name())
}

/// Returns the DaemonSet as the server would store it; `None` for a dump, and, with a warning, if the server could not be asked.
async fn dry_run(
    manifests: &Manifests,
    manifest: &Manifest,
    before: Option<&DaemonSet>,
    how: Apply,
    session: &Session,
    io: &mut Io<'_>,
) -> Result<Option<DaemonSet>, Failure> {
    let Source::Live(live) = &session.source else { return Ok(None) };
    match show_progress(Box::pin(live.preview(manifest, before, how)), &session.progress, io).await {
        Ok(object) => {
            let stored = manifest.daemon_set(object)?;
            let asked = Box::pin(has_become(live, before, &stored));
            match show_progress(asked, &session.progress, io).await {
                true => Err(may_not_be_dry(&name_of(&stored)).into()),
                false => Ok(Some(stored)),
            }
        }
        Err(error) if cannot_dry_run(&error, manifest.namespace()) => {
            let namespace = manifest.namespace();
            let is_new = manifests.other("Namespace", "", namespace).is_some();
            if !(is_new && error.is_absence_of("namespaces", namespace)) {
                warn(vec![format!("no server-side dry run, the manifest is not validated in full: {error}")], io)?;
            }
            Ok(None)
        }
        Err(error) if error.is_conflict() && how == (Apply::ServerSide { force_conflicts: false }) => {
            let error = CommandError::from(error);
            Err(error
                .hint("`kubectl apply` would fail, too; to preview it with --force-conflicts, add that here")
                .into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Builds the error for a DaemonSet that has become what a dry run was to show.
fn may_not_be_dry(name: &DaemonSetName) -> CommandError {
    let message = format!(
        "{} has become what this dry run was to show: somebody else has applied the same meanwhile, or the API server, or a proxy before \
         it, ignores dryRun",
        name.title()
    );
    CommandError::new(message)
        .exit(Exit::OutcomeUnknown)
        .hint(Fix::new("to see what it is now", name.command("status")))
}

/// Returns whether a DaemonSet has become what a dry run has returned, as far as it can be read again. The resource version does not tell:
/// a dry run returns that of the object that it found, whose status may have changed since it was read.
async fn has_become(live: &Live, before: Option<&DaemonSet>, stored: &DaemonSet) -> bool {
    let written = |daemon_set: &DaemonSet| {
        let object = &daemon_set.object;
        [&object["spec"], &object["metadata"]["labels"], &object["metadata"]["annotations"]].map(Value::clone)
    };
    if before.is_some_and(|before| written(before) == written(stored)) {
        return false;
    }
    matches!(live.read_daemon_set(stored).await, Ok(Some(now)) if written(&now) == written(stored))
}

/// Returns whether the server rejected the request before validating the manifest: the user may not change DaemonSets, the
/// namespace does not exist yet, or a webhook does not support dry runs. A denial by admission is a valid answer.
fn cannot_dry_run(error: &ClusterError, namespace: &str) -> bool {
    let ClusterError::Api { code, message, .. } = error else { return false };
    match code {
        403 => ["update", "patch", "create"].iter().any(|verb| is_about_permission(message, verb)),
        404 => error.is_absence_of("namespaces", namespace),
        400 => is_dry_run_unsupported(message),
        _ => false,
    }
}

/// Checks whether an API server would admit the pods, and whether the objects that they mount exist, including those in the
/// manifests.
pub(super) async fn admission(
    proposed: &DaemonSet,
    manifests: &Manifests,
    before: Option<&DaemonSet>,
    snapshot: &Snapshot,
    session: &Session,
    io: &mut Io<'_>,
) -> Result<Admission, Failure> {
    match &session.source {
        Source::Live(server) => {
            let asked = ask_admission(proposed, manifests, before, server);
            Ok(show_progress(asked, &session.progress, io).await?)
        }
        Source::File(_) => {
            let namespace = proposed.metadata.namespace.as_str();
            let creates = |kind: &str, name: &str| manifests.other(kind, namespace, name).is_some();
            Ok(needs::in_dump(snapshot, proposed, before, creates))
        }
    }
}

async fn ask_admission(
    proposed: &DaemonSet,
    manifests: &Manifests,
    before: Option<&DaemonSet>,
    live: &Live,
) -> Result<Admission, ClusterError> {
    let namespace = proposed.metadata.namespace.as_str();
    let creates = |kind: &str, name: &str| manifests.other(kind, namespace, name).is_some();
    let mut found = Admission::default();
    let template = &proposed.object["spec"]["template"];
    let account = service_account(proposed);
    if creates("Namespace", namespace) && matches!(live.exists("Namespace", None, namespace).await?, Asked::No(_)) {
        // A new namespace has only this service account.
        found.refusal =
            (account != "default" && !creates("ServiceAccount", account)).then(|| account_is_missing(proposed));
        let level = manifests
            .other("Namespace", "", namespace)
            .and_then(|object| object["metadata"]["labels"]["pod-security.kubernetes.io/enforce"].as_str());
        if let Some(level) = level.filter(|level| *level != "privileged") {
            let level =
                format!("whether pod security level {level:?} of the new namespace admits the pods is not known");
            found.unknown.push(level);
        }
    } else {
        match live.would_admit(namespace, &pod(proposed, template, &creates)).await? {
            Asked::Yes => {}
            Asked::No(message) => found.refusal = Some(message),
            Asked::Unknown(message) | Asked::NotDry(message) => {
                found.unknown.push(format!("whether the API server would admit the pods is not known: {message}"));
                if !creates("ServiceAccount", account)
                    && let Asked::No(_) = live.exists("ServiceAccount", Some(namespace), account).await?
                {
                    found.refusal = Some(account_is_missing(proposed));
                }
            }
        }
    }
    for need in needs(template).into_iter().filter(|need| !creates(need.kind, need.name)) {
        if need.kind == "Secret" {
            if !needs::is_in_use(&need, before) {
                need.unknown("Secrets are not requested", &mut found);
            }
            continue;
        }
        match live.exists(need.kind, Some(namespace), need.name).await? {
            Asked::Yes => {}
            Asked::No(_) => need.not_found(namespace, &mut found),
            Asked::Unknown(message) | Asked::NotDry(message) => need.unknown(&message, &mut found),
        }
    }
    Ok(found)
}

/// Returns a pod of the DaemonSet, without references to objects that the manifests create, which the server does not have yet.
fn pod(proposed: &DaemonSet, template: &Value, creates: &impl Fn(&str, &str) -> bool) -> Value {
    let metadata = &template["metadata"];
    let mut spec = template["spec"].clone();
    if let Some(fields) = spec.as_object_mut() {
        let references = [
            ("ServiceAccount", "serviceAccountName"),
            ("ServiceAccount", "serviceAccount"),
            ("PriorityClass", "priorityClassName"),
            ("RuntimeClass", "runtimeClassName"),
        ];
        for (kind, field) in references {
            if fields.get(field).and_then(Value::as_str).is_some_and(|name| creates(kind, name)) {
                fields.remove(field);
            }
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": format!("{}-", proposed.metadata.name),
            "namespace": proposed.metadata.namespace,
            "labels": metadata["labels"],
            "annotations": metadata["annotations"],
        },
        "spec": spec,
    })
}
