//! `snapshot`: writes everything that the other commands read to a dump.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use serde_json::Value;

use super::output::{Output, formats};
use super::session::{GlobalArgs, warn};
use super::{Failure, RunCommand, interrupted};
use crate::cluster::text::Format;
use crate::cluster::write_dump::{WriteOptions, write_dump, write_dump_file};
use crate::cluster::{Query, Wanted};
use crate::encode::sanitize::sanitize;
use crate::error::{CommandError, Exit};
use crate::io::Io;
use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::{Gap, GapCause, Kind, Snapshot};
use crate::model::template_parts::{containers, items};

/// Save cluster state to a file for --from
///
/// The dump is an ordinary Kubernetes List of DaemonSets, revisions, nodes, pods and events; of nodes,
/// pods and events it has the fields that the commands use. DaemonSets are included in full, with the values
/// of their environment variables: --redact hides those, commands and arguments, other tools' annotations, the names of
/// image registries, and of messages what Kubernetes and its components do not write.
#[derive(Debug, Args)]
#[command(before_help = "# Write a dump to send to somebody, without secrets
kubectl ds snapshot -A --redact cluster.json.gz

# Look at it later
kubectl ds list --from cluster.json.gz")]
pub struct SnapshotArgs {
    /// The format: json or yaml.
    ///
    /// By default that of the file's name, or json.
    #[arg(short, long, value_name = "FORMAT", value_parser = formats(&[Output::Json, Output::Yaml]))]
    output: Option<Output>,
    /// The file to write; by default standard output.
    ///
    /// Gzipped if its name ends in .gz.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "file")]
    path: Option<PathBuf>,
    /// The file to write, as FILE
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,
    /// Hide values, commands and foreign messages.
    ///
    /// Hides all but names, amounts, times and what Kubernetes' components write.
    #[arg(long)]
    redact: bool,
}

fn format_of_name(file: &Path) -> Format {
    let name = file.to_string_lossy().to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    if name.ends_with(".yaml") || name.ends_with(".yml") { Format::Yaml } else { Format::Json }
}

impl RunCommand for SnapshotArgs {
    async fn run(self, target: GlobalArgs, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        let SnapshotArgs { output, path, file, force, redact } = self;
        let file = path.or(file).filter(|file| file != Path::new("-"));
        if let Some(file) = file.as_deref().filter(|file| !force && file.is_file()) {
            let exists = CommandError::new(format!("{} exists already", sanitize(&file.display().to_string())));
            return Err(exists.hint("to overwrite it, add --force").into());
        }
        let format = match output {
            Some(Output::Yaml) => Format::Yaml,
            Some(_) => Format::Json,
            None => file.as_deref().map_or(Format::Json, format_of_name),
        };
        let session = target.open(None, &[], io).await?;
        let query = Query { wanted: Wanted::Everything, ..Query::default() };
        let snapshot = session.read(query, io).await?;
        if snapshot.daemon_sets_of_any_flavor().next().is_none() {
            return Err(session.none_found().into());
        }
        let options = WriteOptions { format, namespace: session.namespace.clone(), redact };
        match &file {
            None => write_dump(&snapshot, &options, out)?,
            Some(file) => write_file(&snapshot, &options, file, io)?,
        }
        say_what_is_missing(&snapshot, io)?;
        if let Some(file) = file {
            let file = sanitize(&file.display().to_string());
            writeln!(io.err, "{file}: {}", contents(&snapshot))?;
            if let Some(private) = private(&snapshot).filter(|_| !redact) {
                writeln!(io.err, "hint: {private} are in it; --redact leaves out what may be secret")?;
            }
        }
        Ok(Exit::Success)
    }
}

/// Writes the dump to a file. If the process is asked to stop in the meantime, it waits until the partial file is removed.
fn write_file(snapshot: &Snapshot, options: &WriteOptions, file: &Path, io: &Io<'_>) -> Result<(), CommandError> {
    let interrupt = &io.interrupt;
    interrupt.expect_changes();
    let written = write_dump_file(snapshot, options, file, &|| interrupt.is_requested());
    interrupt.changes_are_reported();
    written.map_err(|error| match interrupt.is_requested() {
        true => interrupted(),
        false => CommandError::new(format!("cannot write {}", file.display())).because(error),
    })
}

fn say_what_is_missing(snapshot: &Snapshot, io: &mut Io<'_>) -> Result<(), Failure> {
    // Few users may read ConfigMaps, and only one command uses them.
    let is_expected = |gap: &&Gap| gap.kind == Kind::ConfigMaps && matches!(gap.cause, GapCause::Forbidden(_));
    for gap in snapshot.gaps.iter().filter(|gap| !is_expected(gap)) {
        if let GapCause::Unreadable { object, problem } = &gap.cause {
            warn(vec![format!("skipped {object}: {problem}")], io)?;
            continue;
        }
        let place = match (&gap.namespace, &gap.cause) {
            (Some(namespace), _) => format!(" in namespace {namespace}"),
            (None, GapCause::ForbiddenElsewhere(_)) => " in other namespaces".to_owned(),
            (None, _) => String::new(),
        };
        let why = match &gap.cause {
            GapCause::Forbidden(permission) | GapCause::ForbiddenElsewhere(permission) => {
                format!("this needs the permission to {permission}")
            }
            GapCause::Failed(problem) => problem.clone(),
            GapCause::NoneReturned => "there are none, although the status of a DaemonSet counts some".to_owned(),
            GapCause::LessThanStatus { of, .. } => format!("some are missing that the status of {of} tells of"),
            GapCause::NotInDump | GapCause::Unreadable { .. } => "the dump that was read has none".to_owned(),
        };
        let few = if matches!(gap.cause, GapCause::LessThanStatus { .. }) { "too few" } else { "no" };
        warn(vec![format!("{few} {}{place} in it: {why}", gap.kind.resource())], io)?;
    }
    Ok(())
}

/// Returns where secrets may be: in what users write into templates, and in messages of programs.
fn private(snapshot: &Snapshot) -> Option<String> {
    let has_value = |variable: &Value| variable["value"].as_str().is_some_and(|value| !value.is_empty());
    let mut templates = snapshot.daemon_sets_of_any_flavor().map(DaemonSet::template);
    let variables =
        templates.any(|template| containers(template.value()).any(|container| items(container, "env").any(has_value)));
    let found = [(variables, "environment variables"), (!snapshot.events.is_empty(), "messages of events")];
    let found: Vec<&str> = found.into_iter().filter_map(|(has, what)| has.then_some(what)).collect();
    (!found.is_empty()).then(|| found.join(" and "))
}

fn contents(snapshot: &Snapshot) -> String {
    let counts = [
        (Kind::DaemonSets, snapshot.daemon_sets.len()),
        (Kind::ControllerRevisions, snapshot.controller_revisions.len()),
        (Kind::Nodes, snapshot.nodes.len()),
        (Kind::Pods, snapshot.pods.len()),
        (Kind::Events, snapshot.events.len()),
    ];
    let text = |(kind, number): (Kind, usize)| match number {
        1 => format!("1 {}", kind.resource().trim_end_matches('s')),
        number => format!("{number} {}", kind.resource()),
    };
    counts.map(text).join(", ")
}
