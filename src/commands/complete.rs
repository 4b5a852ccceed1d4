//! Completion candidates: subcommands, flags, and values from the cluster, the dump or the kubeconfig.
//!
//! kubectl runs `__complete` through `kubectl_complete-ds`; a shell runs the program with [`VARIABLE`] set, as the
//! script of `completion` tells it to. Both complete twice with clap's engine: once to learn which value is needed, and
//! again with the values. Errors are not printed, because that would disturb the user who is typing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter, complete};
use clap_complete::env::{Bash, EnvCompleter, Fish, Powershell, Zsh};

use super::Failure;
use super::parse::{flavor_of_type, parse_name};
use super::session::{GlobalArgs, Session};
use crate::cluster::{Flavors, Query, Source, Wanted};
use crate::connection::names_in_kubeconfig;
use crate::encode::sanitize::sanitize;
use crate::error::Exit;
use crate::io::Io;
use crate::model::daemon_set::DaemonSetStatus;
use crate::model::names::{is_dns_label, is_dns_subdomain, is_label_key};
use crate::model::snapshot::{Kind, Snapshot};
use crate::model::template_parts;
use crate::rollout::history::histories;

/// The subcommand's name.
pub const NAME: &str = "__complete";

/// The environment variable that names the shell for which to complete.
pub const VARIABLE: &str = "KUBECTL_DS_COMPLETE";

/// The timeout for values: the user who is typing does not wait longer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Tells kubectl to suggest no file names in addition: `ShellCompDirectiveNoFileComp` of cobra.
const NO_FILES: &str = ":4";

/// Tells kubectl to suggest file names: `ShellCompDirectiveDefault` of cobra.
const FILES: &str = ":0";

/// Complete a command line
#[derive(Debug, Clone, Args)]
pub struct CompleteArgs {
    /// The words after `kubectl ds`, of which the last is to be completed
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Runs the subcommand: a line for each candidate with its description, then a directive for kubectl.
pub async fn run(arguments: CompleteArgs, io: &Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
    let CompleteArgs { words } = arguments;
    let mut line = vec![OsString::from("kubectl-ds")];
    line.extend(words);
    if line.len() == 1 {
        line.push(OsString::new());
    }
    let last = line.len() - 1;
    let (mut command, value) = command_with_values(&line, last, io).await;
    if value == Some(Value::File) {
        writeln!(out, "{FILES}")?;
        return Ok(Exit::Success);
    }
    let wants_flags = line[last].to_string_lossy().starts_with('-');
    let candidates = complete(&mut command, line, last, None).unwrap_or_default();
    // As with kubectl's own commands, flags are suggested once a dash is typed.
    let is_flag = |candidate: &CompletionCandidate| candidate.get_value().to_string_lossy().starts_with('-');
    let offered = |candidate: &&CompletionCandidate| !candidate.is_hide_set() && (wants_flags || !is_flag(candidate));
    for candidate in candidates.iter().filter(offered) {
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        let help = help.lines().next().unwrap_or_default();
        writeln!(out, "{}\t{help}", candidate.get_value().to_string_lossy())?;
    }
    writeln!(out, "{NO_FILES}")?;
    Ok(Exit::Success)
}

pub(super) fn shell(name: &str) -> Option<&'static dyn EnvCompleter> {
    let shells: [&dyn EnvCompleter; 4] = [&Bash, &Zsh, &Fish, &Powershell];
    shells.into_iter().find(|shell| shell.is(name))
}

/// Completes the command line that a shell passes after `--`.
pub(super) async fn run_for_shell(
    shell: &dyn EnvCompleter,
    arguments: Vec<OsString>,
    io: &Io<'_>,
    out: &mut dyn Write,
) -> Exit {
    let line: Vec<OsString> = arguments.into_iter().skip_while(|word| word != "--").skip(1).collect();
    let Some(last) = line.len().checked_sub(1) else { return Exit::Success };
    // Shells that complete in the middle of a line specify the position.
    let index = io.variable("_CLAP_COMPLETE_INDEX").and_then(|index| index.parse().ok()).unwrap_or(last);
    let (mut command, _) = command_with_values(&line, index.min(last), io).await;
    let mut text = Vec::new();
    // A shell without output suggests nothing.
    let _ = shell.write_complete(&mut command, line, None, &mut text);
    let _ = out.write_all(&text).and_then(|()| out.flush());
    Exit::Success
}

/// A value that is not part of the command line's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    DaemonSet,
    Node,
    /// A pod of any controller, as `NAMESPACE/NAME`.
    Pod,
    Namespace,
    NodeLabel,
    Revision,
    /// One revision, or two as `A..B`.
    Diff,
    Container,
    /// A container, followed by `=` for its image.
    Image,
    Context,
    Cluster,
    User,
    File,
}

impl Value {
    fn of(argument: &str) -> Option<Self> {
        Some(match argument {
            "name" | "names" => Value::DaemonSet,
            "node" | "nodes" | "like" => Value::Node,
            "beside" => Value::Pod,
            "namespace" => Value::Namespace,
            "by" | "spread_by" => Value::NodeLabel,
            "to_revision" | "revision" => Value::Revision,
            "diff" => Value::Diff,
            "container" => Value::Container,
            "image" => Value::Image,
            "context" | "contexts" => Value::Context,
            "cluster" => Value::Cluster,
            "user" => Value::User,
            "from"
            | "file"
            | "filename"
            | "install"
            | "kubeconfig"
            | "kuberc"
            | "certificate_authority"
            | "client_certificate"
            | "client_key"
            | "path"
            | "before"
            | "after" => Value::File,
            _ => return None,
        })
    }

    /// Returns whether the API accepts such a name. Other names come from a malicious server or dump, and a shell might
    /// interpret them.
    fn is_valid(self, text: &str) -> bool {
        match self {
            Value::DaemonSet | Value::Node | Value::Pod => text.split('/').all(is_dns_subdomain),
            Value::Namespace | Value::Container | Value::Image => is_dns_label(text.trim_end_matches('=')),
            Value::NodeLabel => is_label_key(text),
            Value::Revision | Value::Diff | Value::Context | Value::Cluster | Value::User | Value::File => {
                !text.chars().any(char::is_control)
            }
        }
    }
}

/// Returns the command with the possible values of the word at `index`, and their kind.
async fn command_with_values(line: &[OsString], index: usize, io: &Io<'_>) -> (Command, Option<Value>) {
    let wanted = Arc::new(Mutex::new(None));
    let noted = wanted.clone();
    let mut command = with_completer(move |value, _| {
        *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        Vec::new()
    });
    // This fails if no argument is possible here.
    let _ = complete(&mut command, line.to_vec(), index, None);
    let wanted = wanted.lock().unwrap_or_else(PoisonError::into_inner).take();
    let values = match wanted {
        None => return (super::command(), None),
        Some(Value::File) => return (with_completer(|_, typed| PathCompleter::any().complete(typed)), wanted),
        Some(value) => {
            let words = line.get(..index).unwrap_or_default();
            let typed = line.get(index).map(|word| word.to_string_lossy()).unwrap_or_default();
            let found = tokio::time::timeout(TIMEOUT, values(value, words, &typed, io)).await;
            let mut found = found.ok().and_then(Result::ok).unwrap_or_default();
            found.retain(|text, _| value.is_valid(text));
            found
        }
    };
    let command = with_completer(move |_, typed| {
        let typed = typed.to_string_lossy();
        let candidate = |(value, help): (&String, &String)| {
            let help = Some(sanitize(help).into()).filter(|_| !help.is_empty());
            CompletionCandidate::new(value).help(help)
        };
        values.iter().filter(|(value, _)| value.starts_with(typed.as_ref())).map(candidate).collect()
    });
    (command, wanted)
}

/// Returns the command with values from a function of their kind and the typed part.
fn with_completer(
    values: impl Fn(Value, &OsStr) -> Vec<CompletionCandidate> + Clone + Send + Sync + 'static,
) -> Command {
    let add = move |argument: clap::Arg| match Value::of(argument.get_id().as_str()) {
        Some(value) => {
            let values = values.clone();
            argument.add(ArgValueCompleter::new(move |typed: &OsStr| values(value, typed)))
        }
        None => argument,
    };
    let for_subcommands = add.clone();
    super::command().mut_args(add).mut_subcommands(move |subcommand| subcommand.mut_args(for_subcommands.clone()))
}

/// Reads values, each with a description, for a command line with the typed `words`, and a part of the value.
async fn values(
    value: Value,
    words: &[OsString],
    typed: &str,
    io: &Io<'_>,
) -> Result<BTreeMap<String, String>, Failure> {
    let none = BTreeMap::new();
    let parsed = super::command().ignore_errors(true).try_get_matches_from(words);
    let Some((matches, flags)) = parsed.ok().and_then(|matches| {
        let flags = GlobalArgs::from_arg_matches(&matches).ok()?;
        Some((matches, flags))
    }) else {
        return Ok(none);
    };
    let (mut input, mut err) = (io::empty(), io::sink());
    let mut io = io.with_streams(&mut input, &mut err);
    let kubeconfig_names =
        || if flags.is_dump() { None } else { names_in_kubeconfig(&flags.connect_options(&io)).ok() };
    match value {
        Value::Context => return Ok(undescribed(kubeconfig_names().unwrap_or_default().contexts)),
        Value::Cluster => return Ok(undescribed(kubeconfig_names().unwrap_or_default().clusters)),
        Value::User => return Ok(undescribed(kubeconfig_names().unwrap_or_default().users)),
        // Standard input is for the command itself.
        _ if flags.reads_input() => return Ok(none),
        _ => {}
    }
    if matches!(value, Value::Revision | Value::Diff | Value::Container | Value::Image) {
        let Some(name) = daemon_set_name(&matches) else { return Ok(none) };
        let name = parse_name(&name)?;
        let session = flags.open(name.namespace, &[], &io).await?;
        let wanted = Wanted::Revisions;
        let query = Query { names: vec![name.name], flavors: name.flavors, wanted, ..Query::default() };
        let snapshot = session.read(query, &mut io).await?;
        return Ok(match value {
            Value::Container => containers(&snapshot, ""),
            Value::Image => containers(&snapshot, "="),
            Value::Diff => sides(revisions(&snapshot), typed),
            _ => revisions(&snapshot),
        });
    }
    // The part before a name: its namespace, or a type.
    let before = typed.split_once('/').filter(|_| value == Value::DaemonSet).map(|(before, _)| before);
    let namespace = match before.map(|before| (before, flavor_of_type(before))) {
        Some((namespace, None)) => Some(namespace.to_owned()),
        // Lists of Kubernetes DaemonSets do not contain their names.
        Some((_, Some(Flavors::Advanced))) => return Ok(none),
        _ => None,
    };
    let mut found = found(value, &flags.open(namespace, &[], &io).await?, typed, &mut io).await?;
    // Only pods are suggested with their namespaces.
    found.retain(|name, _| matches!(value, Value::Pod | Value::NodeLabel) || !name.contains('/'));
    Ok(match before {
        Some(before) => found.into_iter().map(|(name, help)| (format!("{before}/{name}"), help)).collect(),
        None => found,
    })
}

/// Reads values of a kind in the whole cluster or namespace.
async fn found(
    value: Value,
    session: &Session,
    typed: &str,
    io: &mut Io<'_>,
) -> Result<BTreeMap<String, String>, Failure> {
    match &session.source {
        Source::Live(live) => {
            let namespace = session.namespace.as_deref();
            let of = |kind| live.names(kind, None, ["Status"]);
            let with_status =
                |rows: Vec<(String, [String; 1])>| rows.into_iter().map(|(name, [status])| (name, status));
            Ok(match value {
                Value::DaemonSet => {
                    let rows = live.names(Kind::DaemonSets, namespace, ["Available", "Desired"]).await?;
                    rows.into_iter().map(|(name, [available, desired])| (name, counts(&available, &desired))).collect()
                }
                Value::Node => with_status(of(Kind::Nodes).await?).collect(),
                Value::Pod => {
                    let (before, _) = typed.split_once('/').unwrap_or_default();
                    let namespace = before.rsplit('=').next().filter(|namespace| !namespace.is_empty());
                    undescribed(live.pod_names(namespace).await?)
                }
                Value::Namespace => with_status(of(Kind::Namespaces).await?).collect(),
                Value::NodeLabel => undescribed(live.node_label_keys().await?),
                _ => BTreeMap::new(),
            })
        }
        Source::File(_) => {
            let query = Query { wanted: Wanted::Everything, ..Query::default() };
            let snapshot = session.read(query, io).await?;
            Ok(of_snapshot(value, &snapshot))
        }
    }
}

/// Returns the DaemonSet that was typed before the flag being completed.
fn daemon_set_name(matches: &ArgMatches) -> Option<String> {
    let (_, matches) = matches.subcommand()?;
    let first = |id| matches.try_get_many::<String>(id).ok().flatten()?.next().cloned();
    first("name").or_else(|| first("names"))
}

fn counts(available: impl ToString, desired: impl ToString) -> String {
    format!("{}/{} available", available.to_string(), desired.to_string())
}

fn revisions(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let rows = histories(snapshot).into_iter().flat_map(|report| report.revisions);
    rows.map(|row| {
        let what = if row.current { "current".to_owned() } else { row.summary.join(", ") };
        (row.revision.to_string(), what)
    })
    .collect()
}

/// Returns the sides of a comparison: revisions, and the template itself, also after a typed `A..`.
fn sides(mut revisions: BTreeMap<String, String>, typed: &str) -> BTreeMap<String, String> {
    revisions.insert("live".to_owned(), "the template of the DaemonSet itself".to_owned());
    let typed = typed.rsplit('=').next().unwrap_or_default();
    let before = typed.rfind("..").map_or("", |at| &typed[..at + 2]);
    revisions.into_iter().map(|(side, help)| (format!("{before}{side}"), help)).collect()
}

/// Returns the containers of a DaemonSet, each followed by `after`, and its image.
fn containers(snapshot: &Snapshot, after: &str) -> BTreeMap<String, String> {
    let Some(daemon_set) = snapshot.daemon_sets_of_any_flavor().next() else { return BTreeMap::new() };
    let template = daemon_set.template();
    let text = |field: &serde_json::Value| field.as_str().unwrap_or_default().to_owned();
    template_parts::containers(template.value()).map(|one| (text(&one["name"]) + after, text(&one["image"]))).collect()
}

fn of_snapshot(value: Value, snapshot: &Snapshot) -> BTreeMap<String, String> {
    let (daemon_sets, nodes) = (snapshot.daemon_sets.iter(), snapshot.nodes.iter().map(|node| &node.metadata));
    match value {
        Value::DaemonSet => {
            let counts = |status: &DaemonSetStatus| counts(status.number_available, status.desired_number_scheduled);
            daemon_sets.map(|one| (one.metadata.name.clone(), counts(&one.status))).collect()
        }
        Value::Node => undescribed(nodes.map(|node| node.name.clone())),
        Value::Pod => {
            let pods = snapshot.pods.iter().map(|pod| &pod.metadata);
            undescribed(pods.map(|pod| format!("{}/{}", pod.namespace, pod.name)))
        }
        Value::Namespace => undescribed(daemon_sets.map(|one| one.metadata.namespace.clone())),
        Value::NodeLabel => undescribed(nodes.flat_map(|node| node.labels.keys().cloned())),
        _ => BTreeMap::new(),
    }
}

/// Returns values without a description.
fn undescribed(values: impl IntoIterator<Item = String>) -> BTreeMap<String, String> {
    values.into_iter().map(|value| (value, String::new())).collect()
}
