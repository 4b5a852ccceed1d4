//! `snapshot`: what the other commands read, written into a dump.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::session::GlobalArgs;
use super::{Failure, RunCommand, interrupted};
use crate::cluster::text::Format;
use crate::cluster::write_dump::{WriteOptions, write_dump, write_dump_file};
use crate::cluster::{Query, Wanted};
use crate::encode::sanitize::sanitize;
use crate::error::{CommandError, Exit};
use crate::io::Io;
use crate::model::snapshot::{Gap, GapCause, Kind, Snapshot};

/// What `-o` takes here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DumpOutput {
    /// A List in JSON, a line for each object.
    Json,
    /// A List in YAML.
    Yaml,
}

/// Save cluster state to a file for --from
///
/// The dump is an ordinary Kubernetes List of DaemonSets, revisions, nodes, pods and events; of nodes,
/// pods and events it has the fields that the commands use. DaemonSets are included in full, with the values
/// of their environment variables: --redact hides those, commands and arguments, other tools' annotations, the names of
/// image registries, and of messages what Kubernetes and its components do not write.
#[derive(Debug, Args)]
#[command(before_help = "# Write a dump to send to somebody, without secrets
kubectl ds snapshot -A --redact --file cluster.json.gz

# Look at it later
kubectl ds list --from cluster.json.gz")]
pub struct SnapshotArgs {
    /// The format: json or yaml; by default that of the file's name, or json
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    output: Option<DumpOutput>,
    /// The file to write, gzipped if its name ends in .gz; by default standard output
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Hide all but names, amounts, times and what Kubernetes' components write
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
        let SnapshotArgs { output, file, redact } = self;
        let file = file.filter(|file| file != Path::new("-"));
        let format = match output {
            Some(DumpOutput::Json) => Format::Json,
            Some(DumpOutput::Yaml) => Format::Yaml,
            None => file.as_deref().map_or(Format::Json, format_of_name),
        };
        let session = target.resolve(io)?.open(io).await?;
        let query = Query { wanted: Wanted::Everything, ..Query::default() };
        let snapshot = session.read(query, io, |_| BTreeSet::new()).await?;
        let options = WriteOptions { format, namespace: session.namespace.clone(), redact };
        match &file {
            None => write_dump(&snapshot, &options, out)?,
            Some(file) => write_file(&snapshot, &options, file, io)?,
        }
        if snapshot.daemon_sets.is_empty() {
            session.say_none_found(io)?;
        }
        say_what_is_missing(&snapshot, io)?;
        if let Some(file) = file {
            let file = sanitize(&file.display().to_string());
            writeln!(io.err, "{file}: {}", contents(&snapshot))?;
        }
        Ok(Exit::Success)
    }
}

/// Writes the dump into a file. If the process has to end meanwhile, it waits until what was written is removed.
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

fn say_what_is_missing(snapshot: &Snapshot, io: &mut Io<'_>) -> std::io::Result<()> {
    // Few may read ConfigMaps, and one command alone looks at them.
    let is_expected = |gap: &&Gap| gap.kind == Kind::ConfigMaps && matches!(gap.cause, GapCause::Forbidden(_));
    for gap in snapshot.gaps.iter().filter(|gap| !is_expected(gap)) {
        if let GapCause::Unreadable { object, problem } = &gap.cause {
            writeln!(io.err, "{}", sanitize(&format!("warning: skipped {object}: {problem}")))?;
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
            GapCause::NoneReturned => "the API server returned none".to_owned(),
            GapCause::NotRequested => "they were not requested".to_owned(),
            GapCause::NotInDump | GapCause::Unreadable { .. } => "the dump that was read has none".to_owned(),
        };
        let text = format!("warning: no {}{place} in it: {why}", gap.kind.resource());
        writeln!(io.err, "{}", sanitize(&text))?;
    }
    Ok(())
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
