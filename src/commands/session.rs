//! Shared by all subcommands: which cluster or dump, which DaemonSets, and how to print.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::Future;
use std::iter;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, ValueEnum};
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep, timeout_at};

use super::Failure;
use super::output::Output;
use super::parse::{Named, parse_selector};
use super::several;
use crate::cluster::error::ClusterError;
use crate::cluster::file::{Dump, Reading};
use crate::cluster::live::{self, Asked, Live, Watch};
use crate::cluster::{CoverageScope, Query, Source, Wanted};
use crate::connection::error::ConnectionError;
use crate::connection::{ConnectOptions, contexts_matching};
use crate::coverage::filter::CoverageFilter;
use crate::coverage::needs::needs;
use crate::coverage::refused_namespaces;
use crate::encode::sanitize::sanitize;
use crate::error::{CommandError, Exit};
use crate::facts::index::{
    awaits, namespaces_to_read, needs_device_claims, needs_device_classes, needs_storage, nodes_with_held_pods,
    owners_of_failing_pods,
};
use crate::facts::short_lists::short_lists;
use crate::io::Io;
use crate::model::daemon_set::DaemonSet;
use crate::model::selector::LabelSelector;
use crate::model::snapshot::{Admission, Gap, GapCause, Kind, Snapshot};
use crate::render::progress::{LONG_WAIT, ProgressLine, ReadProgress};
use crate::render::text::wrap;
use crate::render::view::View;
use crate::report::age::format_age;
use crate::report::coverage::Incomplete;
use crate::report::fix::{Command, Fix, Origin};
use crate::report::plan::Warning;
use crate::rollout::new_pods::{Trial, trials};
use crate::rollout::room::NewPods;

/// The difference between clocks above which it is reported.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_mins(1);

/// The timeout for optional requests, such as dry runs of pods.
pub(super) const TRIAL: Duration = Duration::from_secs(3);

/// The time limit for all reads that tell whether new pods fit.
const ROOM: Duration = Duration::from_secs(10);

/// How long to wait before lists that lack objects are read again: in a big cluster, the controller takes seconds for a sync.
pub(super) const SECOND_LOOK: Duration = Duration::from_secs(2);

/// When output is colored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The flags that every subcommand takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global flags")]
pub struct GlobalArgs {
    /// If present, the namespace scope for this request; -A takes precedence
    #[arg(short, long, global = true, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// If present, across all namespaces
    #[arg(short = 'A', long, global = true)]
    pub(super) all_namespaces: bool,
    /// Selector (label query) of DaemonSets, such as `app=agent,tier!=test`
    #[arg(short = 'l', long, global = true, value_name = "SELECTOR")]
    pub(super) selector: Option<String>,
    /// Read a dump instead of a cluster: a file, a directory, `-` for standard input, or `demo` for the built-in one; several are
    /// read as --contexts reads several clusters
    #[arg(long, global = true, value_name = "FILE|DIR|-|demo")]
    from: Vec<String>,
    /// Read the clusters of all contexts that match, such as `prod-*`, and show them together; several patterns are separated by
    /// commas, or the flag is repeated. For `list`, `coverage`, `status` and `changes`
    #[arg(
        long, global = true, value_name = "PATTERN", value_delimiter = ',',
        conflicts_with_all = ["from", "context", "cluster", "server", "user", "token", "username", "password", "client_certificate", "client_key"],
    )]
    contexts: Vec<String>,
    /// Count ages from this time (RFC 3339) instead of the newest time in the dump
    #[arg(long, global = true, value_name = "TIME", requires = "from")]
    now: Option<Timestamp>,
    /// When to color the output
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    pub(super) color: Color,
    /// Use only ASCII characters
    #[arg(long, global = true)]
    pub(super) ascii: bool,
    /// Exit with an error if the server sends a warning
    #[arg(
        long, global = true, num_args = 0..=1, require_equals = true, action = ArgAction::Set,
        value_parser = BoolishValueParser::new(), default_value = "false", default_missing_value = "true", hide_default_value = true,
        hide_possible_values = true, value_name = "BOOL",
    )]
    pub(super) warnings_as_errors: bool,
    #[command(flatten)]
    connection: ConnectOptions,
    /// As in kubectl, with no effect but one: from 1, the files of a dump that were skipped are counted
    #[arg(short = 'v', long = "v", global = true, hide = true, value_name = "LEVEL", default_value_t)]
    verbosity: i32,
}

/// An open source, and the namespace to search.
pub struct Session {
    pub(super) source: Source,
    pub(super) progress: ReadProgress,
    verbosity: i32,
    /// Labels that the DaemonSets must match.
    pub(super) selector: LabelSelector,
    /// The flags about the connection; `None` for a dump.
    pub(super) connection: Option<ConnectOptions>,
    /// The format of standard output, and when output is colored.
    pub(super) view: View,
    pub(super) color: Color,
    /// Whether the difference between the clocks was already reported.
    said_clock: Cell<bool>,
    /// Whether a pod was created in a dry run.
    ignores_dry_runs: Cell<bool>,
    /// The requested namespace, or `None` for all.
    pub namespace: Option<String>,
    /// The given namespace.
    pub requested_namespace: Option<String>,
    /// The default namespace of objects.
    pub default_namespace: String,
}

impl GlobalArgs {
    /// Returns the view of standard error.
    pub(super) fn view(&self, io: &Io<'_>) -> View {
        // Suggestions for one of several clusters already have its flags.
        let origin = Some(self.origin()).filter(|_| !self.are_several());
        View { origin, program: io.program, ..View::new(width_of_errors(io), !io.unicode) }
    }

    /// Returns whether several clusters or dumps are requested.
    pub(super) fn are_several(&self) -> bool {
        !self.contexts.is_empty() || self.from.len() > 1
    }

    /// Adds to a command the flags that select the DaemonSets.
    pub(super) fn add_scope(&self, command: Command) -> Command {
        let command = if self.all_namespaces { command.switch("-A") } else { command };
        let command = self.namespace.iter().fold(command, |command, namespace| command.namespace(namespace));
        self.selector.iter().fold(command, |command, selector| command.flag("-l", selector))
    }

    /// Returns whether a namespace is given.
    pub(super) fn has_namespace(&self) -> bool {
        self.namespace.as_ref().is_some_and(|namespace| !namespace.is_empty())
    }

    /// Returns the flags for each of several clusters, by its context, or of several dumps, by the given path. Fails if
    /// the kubeconfig cannot be read, or a pattern matches no context.
    pub(super) fn each(&self, io: &Io<'_>) -> Result<Vec<(String, GlobalArgs)>, CommandError> {
        if self.contexts.is_empty() {
            if self.from.iter().any(|path| path == "-") {
                return Err(CommandError::usage("--from - cannot be one of several dumps"));
            }
            let paths: BTreeSet<&String> = self.from.iter().collect();
            let one = |path: &String| (path.clone(), GlobalArgs { from: vec![path.clone()], ..self.clone() });
            return Ok(paths.into_iter().map(one).collect());
        }
        let contexts = contexts_matching(&self.connect_options(io), &self.contexts).map_err(|error| {
            let mut error = CommandError::from(ClusterError::from(error));
            error.hints.iter_mut().for_each(|hint| self.origin().complete(hint));
            error
        })?;
        let one = |context: String| {
            let connection = ConnectOptions { context: Some(context.clone()), ..self.connection.clone() };
            (context, GlobalArgs { contexts: Vec::new(), connection, ..self.clone() })
        };
        Ok(contexts.into_iter().map(one).collect())
    }

    /// Returns the source that suggested commands have to use, for the lifetime of the process.
    pub(super) fn origin(&self) -> &'static Origin {
        let at = |flags: Command| self.now.iter().fold(flags, |flags, now| flags.flag("--now", now.to_string()));
        let origin = match self.from.first().map(String::as_str) {
            Some("-") => Origin::Input(at(Command::default().variable("--from", "DUMP"))),
            Some(path) => Origin::Dump(at(Command::default().flag("--from", path))),
            None => Origin::Cluster(self.connection.repeated()),
        };
        Box::leak(Box::new(origin))
    }

    /// Returns the view of standard output for a format: `-o wide` has no limit.
    pub(super) fn view_for(&self, output: Option<Output>, io: &Io<'_>) -> View {
        let view = View::new(io.width(), !io.unicode);
        let colored = is_colored(self.color, io.out_is_terminal, io);
        let view = View { origin: Some(self.origin()), program: io.program, colored, ..view };
        if output == Some(Output::Wide) { view.unlimited() } else { view }
    }

    /// Searches every namespace, unless one was given.
    pub(super) fn widen(&mut self) {
        self.all_namespaces |= !self.has_namespace();
    }

    /// Returns the flags for a dump instead of the source that they specify, to which alone `--now` applies.
    pub(super) fn with_dump(&self, path: &str) -> GlobalArgs {
        GlobalArgs { from: vec![path.to_owned()], now: None, ..self.clone() }
    }

    /// Tells whether a dump is read instead of a cluster.
    pub(super) fn is_dump(&self) -> bool {
        !self.from.is_empty()
    }

    /// Tells whether the dump is read from standard input.
    pub(super) fn reads_input(&self) -> bool {
        self.from.first().is_some_and(|path| path == "-")
    }

    /// Fails if a file and the dump are both to be read from standard input.
    pub(super) fn check_input<'p>(&self, files: impl IntoIterator<Item = &'p String>) -> Result<(), CommandError> {
        if self.reads_input() && files.into_iter().any(|file| file == "-") {
            return Err(CommandError::usage("--from - and --filename - cannot both read standard input"));
        }
        Ok(())
    }

    /// Returns the flags about the connection, and the parts of the environment that affect it.
    pub(super) fn connect_options(&self, io: &Io<'_>) -> ConnectOptions {
        let (environment, input_is_terminal) = (io.environment.clone(), io.input_is_terminal);
        ConnectOptions { environment, input_is_terminal, ..self.connection.clone() }
    }

    /// Opens the source to look for named DaemonSets, in the namespace given with them, as in `NAMESPACE/NAME`; a live cluster is
    /// not read yet. Fails if a selector or another namespace was given, too, or if the dump or the kubeconfig cannot be read.
    pub(super) async fn open(
        &self,
        namespace: Option<String>,
        names: &[String],
        io: &Io<'_>,
    ) -> Result<Session, Failure> {
        self.open_counted(namespace, names, ReadProgress::default(), io).await
    }

    /// Opens the source, and adds whatever is read to a progress.
    pub(super) async fn open_counted(
        &self,
        namespace: Option<String>,
        names: &[String],
        progress: ReadProgress,
        io: &Io<'_>,
    ) -> Result<Session, Failure> {
        if self.are_several() {
            return Err(several::refuse("this command"));
        }
        let selector = parse_selector("--selector", self.selector.as_deref())?;
        if !names.is_empty() && !selector.is_empty() {
            return Err(CommandError::usage("a name and --selector cannot be given together").into());
        }
        let given = self.namespace.clone().filter(|given| !given.is_empty() && !self.all_namespaces);
        if let (Some(namespace), Some(other)) = (&namespace, &given)
            && namespace != other
        {
            let message = format!("{namespace}/NAME and --namespace {other} cannot be given together");
            return Err(CommandError::usage(message).into());
        }
        let requested_namespace = namespace.or(given);
        let connection = (!self.is_dump()).then(|| self.connect_options(io));
        let (source, default_namespace) = match (&connection, self.from.first()) {
            (Some(options), _) => {
                let progress = progress.clone();
                let tell = move |read: live::KindRead| progress.add(read.kind.resource(), read.objects, read.bytes);
                let live = live::connect(options, io.clock, Arc::new(tell)).await?;
                let default_namespace = live.default_namespace().to_owned();
                (Source::Live(Box::new(live)), Some(default_namespace))
            }
            (None, path) => (Source::File(Dump::new(path.map_or("-", String::as_str), self.now)), None),
        };
        // All namespaces of a dump are used unless one is named.
        let all = self.all_namespaces || requested_namespace.is_some();
        let namespace = requested_namespace.clone().or_else(|| default_namespace.clone().filter(|_| !all));
        Ok(Session {
            source,
            progress,
            verbosity: self.verbosity,
            selector,
            connection,
            view: self.view_for(None, io),
            color: self.color,
            said_clock: Cell::default(),
            ignores_dry_runs: Cell::default(),
            namespace,
            requested_namespace,
            default_namespace: default_namespace.unwrap_or_else(|| "default".to_owned()),
        })
    }
}

/// Returns whether a query reads what a status counts.
fn has_lists(query: &Query) -> bool {
    matches!(query.wanted, Wanted::Coverage(_) | Wanted::Change | Wanted::Everything)
}

/// Reads the objects of a query, and again if the lists seem to lack some; what they still lack is a gap.
pub(super) async fn read_twice_if_short(live: &Live, query: &Query) -> Result<Snapshot, ClusterError> {
    let snapshot = live.read(query).await?;
    let short = if has_lists(query) { short_lists(&snapshot) } else { Vec::new() };
    if short.is_empty() {
        return Ok(snapshot);
    }
    sleep(SECOND_LOOK).await;
    let mut snapshot = live.read(query).await?;
    let still_short = short_lists(&snapshot).into_iter().filter(|gap| short.contains(gap));
    snapshot.gaps.extend(still_short);
    Ok(snapshot)
}

/// Reads what the answer to a query turns out to need beside its lists.
pub(super) async fn read_what_it_needs(live: &Live, query: &Query, snapshot: &mut Snapshot) {
    let refused = refused_namespaces(snapshot);
    live.read_limit_ranges(snapshot, refused).await;
    if needs_device_classes(snapshot, snapshot.daemon_sets.iter()) {
        live.read_device_classes(snapshot).await;
    }
    let is_dump = query.wanted == Wanted::Everything;
    let judges_nodes = matches!(query.wanted, Wanted::Coverage(_) | Wanted::Change);
    let is_needed = |snapshot: &Snapshot, needs: fn(&Snapshot, &DaemonSet) -> bool| {
        judges_nodes && awaits(snapshot, needs) || is_dump && snapshot.daemon_sets.iter().any(|it| needs(snapshot, it))
    };
    if is_needed(snapshot, needs_storage) {
        Box::pin(live.read_storage(snapshot)).await;
    }
    if is_needed(snapshot, needs_device_claims) {
        Box::pin(live.read_device_claims(snapshot)).await;
    }
    if matches!(&query.wanted, Wanted::Coverage(scope) if !scope.without_held_pods) {
        let nodes = nodes_with_held_pods(snapshot);
        live.read_held_pods(snapshot, &nodes).await;
    }
    if query.wanted == Wanted::Change {
        live.read_quotas(snapshot).await;
    }
    if judges_nodes && !matches!(&query.wanted, Wanted::Coverage(scope) if scope.config || scope.without_blame) {
        // One that was changed may be to blame, and not the revision.
        let failing = owners_of_failing_pods(snapshot);
        live.read_config_maps(snapshot, &failing).await;
    }
    if let Wanted::Coverage(CoverageScope { node: Some(node), .. }) = &query.wanted {
        live.read_peers(snapshot, node).await;
    }
    if matches!(query.wanted, Wanted::Coverage(_) | Wanted::Change) {
        let mut namespaces = namespaces_to_read(snapshot);
        if matches!(&query.wanted, Wanted::Coverage(scope) if scope.admission) {
            // They may add a node selector to new pods.
            let all = snapshot.daemon_sets.iter().map(|daemon_set| daemon_set.metadata.namespace.clone());
            namespaces.extend(all);
        }
        live.read_namespaces(snapshot, &namespaces).await;
    }
}

/// Returns the error for a namespace that does not exist; `None` if it does, or may exist without being readable.
async fn no_namespace(live: &Live, namespace: &str) -> Option<CommandError> {
    let Ok(Asked::No(_)) = live.exists("Namespace", None, namespace).await else { return None };
    let error = CommandError::new(format!("namespace {namespace:?} not found"));
    let near = live.similar_namespaces(namespace).await;
    let list = || Fix::new("to list the namespaces", Command::kubectl(&["get", "namespaces"]));
    Some(error.hint(if near.is_empty() { list() } else { Fix::new("similar names", Command::choice("", near)) }))
}

impl Session {
    /// Returns the view of standard output for a format: `-o wide` has no limit.
    pub(super) fn view_for(&self, output: Option<Output>) -> View {
        if output == Some(Output::Wide) { self.view.unlimited() } else { self.view }
    }

    /// Returns the version of the server, or nothing for a dump.
    pub async fn server_version(&self, io: &mut Io<'_>) -> Result<Option<String>, Failure> {
        match &self.source {
            Source::Live(live) => Ok(Some(show_progress(live.server_version(), &self.progress, io).await?)),
            Source::File(_) => Ok(None),
        }
    }

    /// Reads the objects of a query, with the selector, and the namespace unless the query has one.
    pub(super) async fn read(&self, query: Query, io: &mut Io<'_>) -> Result<Snapshot, Failure> {
        self.read_with_pods(query, io, |_| BTreeSet::new()).await
    }

    /// Reads the objects of a query, and then the pods that the answer turns out to need: `needs_all_pods_on` names the
    /// nodes whose free resources must be known although not all of their pods were read.
    pub(super) async fn read_with_pods(
        &self,
        query: Query,
        io: &mut Io<'_>,
        needs_all_pods_on: impl Fn(&Snapshot) -> BTreeSet<String>,
    ) -> Result<Snapshot, Failure> {
        let namespace = query.namespace.clone().or_else(|| self.namespace.clone());
        let query = Query { namespace, selector: self.selector.clone(), ..query };
        let live = match &self.source {
            Source::Live(live) => live,
            Source::File(dump) => {
                io.await_input(dump.path(), "a dump")?;
                let Reading { mut snapshot, warnings, foreign_files } =
                    dump.read(&query, io.input, needs_all_pods_on)?;
                warn(warnings, io)?;
                if self.verbosity > 0 && foreign_files > 0 {
                    writeln!(io.err, "skipped {foreign_files} files without Kubernetes objects")?;
                }
                if has_lists(&query) {
                    // Somebody may have edited a template in it.
                    let short = short_lists(&snapshot).into_iter().filter(|gap| gap.kind != Kind::ControllerRevisions);
                    let short: Vec<_> = short.collect();
                    snapshot.gaps.extend(short);
                }
                return Ok(snapshot);
            }
        };
        let work = async {
            let mut snapshot = Box::pin(read_twice_if_short(live, &query)).await?;
            let nodes = needs_all_pods_on(&snapshot);
            if !nodes.is_empty() {
                live.read_pods_on(&mut snapshot, &nodes).await?;
            }
            Box::pin(read_what_it_needs(live, &query, &mut snapshot)).await;
            Ok::<_, ClusterError>(snapshot)
        };
        let read = show_progress(work, &self.progress, io).await;
        if let Err(unknown @ ClusterError::NotFound { namespace: Some(namespace), elsewhere, .. }) = &read
            && let Some(error) = no_namespace(live, namespace).await
        {
            let hints = unknown.hints().into_iter().filter(|_| !elsewhere.is_empty());
            return Err(error.hints(hints).into());
        }
        let snapshot = read?;
        self.print_warnings(io)?;
        self.check_namespace(&query, &snapshot).await?;
        Ok(snapshot)
    }

    /// Checks that the namespace exists if nothing was found in it: a mistyped one must not look like one without problems.
    async fn check_namespace(&self, query: &Query, snapshot: &Snapshot) -> Result<(), CommandError> {
        // A previewed manifest may create it.
        let is_preview = matches!(&query.wanted, Wanted::Coverage(scope) if scope.admission);
        let is_empty = !is_preview && query.names.is_empty() && snapshot.daemon_sets_of_any_flavor().next().is_none();
        let (Source::Live(live), Some(namespace), true) = (&self.source, &query.namespace, is_empty) else {
            return Ok(());
        };
        no_namespace(live, namespace).await.map_or(Ok(()), Err)
    }

    /// Adds to a snapshot the API server's current answers about pods that it has refused.
    pub(super) async fn note_admissions(&self, snapshot: &mut Snapshot, io: &mut Io<'_>) {
        if matches!(self.source, Source::Live(_)) {
            snapshot.admissions = self.ask(trials(snapshot), io).await;
        }
    }

    /// Tries pods in dry runs before a change.
    ///
    /// # Errors
    ///
    /// Fails if one was created: a dry run of the change would be carried out, too.
    pub(super) async fn ask_before_change(
        &self,
        pods: impl IntoIterator<Item = Trial>,
        io: &mut Io<'_>,
    ) -> Result<Vec<Admission>, CommandError> {
        let asked = self.ask(pods, io).await;
        match self.ignores_dry_runs.get() {
            true => {
                Err(CommandError::new("dry runs are carried out, so nothing can be tried before it is changed")
                    .unchanged())
            }
            false => Ok(asked),
        }
    }

    /// Tries pods in dry runs, and shows the progress; a dump has no API server to ask.
    pub(super) async fn ask(&self, pods: impl IntoIterator<Item = Trial>, io: &mut Io<'_>) -> Vec<Admission> {
        match &self.source {
            Source::Live(_) => {
                let asked = show_progress(self.try_pods(pods, None), &self.progress, io).await;
                // A failure to write them is found when the answer is written.
                drop(self.print_warnings(io));
                asked
            }
            Source::File(_) => Vec::new(),
        }
    }

    /// Adds to a snapshot of one DaemonSet who has written what limits, admits and changes its pods, if the API server has refused
    /// some pods. Anything that is not read within a few seconds is omitted.
    pub(super) async fn note_written_limits(&self, snapshot: &mut Snapshot) {
        let Source::Live(live) = &self.source else { return };
        let Some(Trial { namespace, .. }) = trials(snapshot).into_iter().next() else { return };
        let read = timeout_at(Instant::now() + TRIAL, live.written_objects(&namespace)).await;
        snapshot.written_objects = read.unwrap_or_default();
    }

    /// Tries pods in dry runs. If the API server does not answer within a few seconds, or by `deadline`, the result is
    /// unknown: a webhook that hangs must not delay anything else.
    pub(super) async fn try_pods(
        &self,
        pods: impl IntoIterator<Item = Trial>,
        deadline: Option<Instant>,
    ) -> Vec<Admission> {
        let Source::Live(live) = &self.source else { return Vec::new() };
        let end = Instant::now() + TRIAL;
        let end = deadline.map_or(end, |deadline| deadline.min(end));
        let created = RefCell::new(Vec::new());
        let created = &created;
        let ask = |Trial { daemon_set_uid, hash, namespace, pod }| async move {
            let refusal = match timeout_at(end, live.would_admit(&namespace, &pod)).await {
                Ok(Ok(Asked::NotDry(message))) => {
                    created.borrow_mut().push(message);
                    return None;
                }
                Ok(Ok(Asked::Yes)) => None,
                Ok(Ok(Asked::No(message))) => Some(message),
                Ok(Ok(Asked::Unknown(_)) | Err(_)) | Err(_) => return None,
            };
            let mut lacks = Vec::new();
            // The existence of a Secret is not checked: the response would contain the Secret.
            for need in needs(&pod).into_iter().filter(|need| refusal.is_none() && need.kind != "Secret") {
                if let Ok(Ok(Asked::No(_))) = timeout_at(end, live.exists(need.kind, Some(&namespace), need.name)).await
                {
                    lacks.push((need.kind, need.name.to_owned()));
                }
            }
            Some(Admission { daemon_set_uid, hash, refusal, lacks })
        };
        let admissions = join_all(pods.into_iter().map(ask)).await;
        // They are about pods that nobody creates.
        live.observed().forget_warnings();
        let created = created.take();
        self.ignores_dry_runs.set(self.ignores_dry_runs.get() || !created.is_empty());
        created.into_iter().for_each(|message| live.observed().warn(message));
        admissions.into_iter().flatten().collect()
    }

    /// Adds to a snapshot of a live cluster all pods on these nodes.
    pub(super) async fn read_pods_on(
        &self,
        snapshot: &mut Snapshot,
        nodes: &BTreeSet<String>,
    ) -> Result<(), ClusterError> {
        match &self.source {
            Source::Live(live) => live.read_pods_on(snapshot, nodes).await,
            Source::File(_) => Ok(()),
        }
    }

    /// Adds the device classes to what is found beside a snapshot of a live cluster, if they may provide resources that its DaemonSets
    /// request.
    pub(super) async fn read_device_classes(&self, snapshot: &Snapshot, found: &mut Snapshot) {
        if let Source::Live(live) = &self.source
            && needs_device_classes(snapshot, snapshot.daemon_sets.iter())
        {
            live.read_device_classes(found).await;
        }
    }

    /// Adds the ConfigMaps of the DaemonSets of a snapshot whose pods fail to what is found beside it.
    pub(super) async fn read_config_maps(&self, snapshot: &Snapshot, found: &mut Snapshot) {
        if let Source::Live(live) = &self.source {
            live.read_config_maps(found, &owners_of_failing_pods(snapshot)).await;
        }
    }

    /// Adds to a snapshot of a live cluster the device classes, if they may provide resources that a proposed DaemonSet requests, the
    /// storage, if it has volumes, and the devices, if it claims some.
    pub(super) async fn read_on_demand(&self, snapshot: &mut Snapshot, proposed: &DaemonSet) {
        let Source::Live(live) = &self.source else { return };
        if needs_device_classes(snapshot, iter::once(proposed)) {
            live.read_device_classes(snapshot).await;
        }
        if needs_storage(snapshot, proposed) {
            Box::pin(live.read_storage(snapshot)).await;
        }
        if needs_device_claims(snapshot, proposed) {
            Box::pin(live.read_device_claims(snapshot)).await;
        }
    }

    /// Warns if pods that replace others would not fit, and tells what of that is not known; what decides it is read.
    pub(super) async fn room(
        &self,
        new_pods: &NewPods,
        snapshot: &Snapshot,
        io: &mut Io<'_>,
    ) -> (Vec<Warning>, Vec<Incomplete>) {
        if new_pods.grown.is_empty() && new_pods.vacated.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let mut all = snapshot.clone();
        let read = async {
            // Whether one waits is not known without the permission.
            let mut pending = match &self.source {
                Source::Live(live) if !new_pods.vacated.is_empty() => live.pending_pods().await.unwrap_or_default(),
                Source::Live(_) => Vec::new(),
                Source::File(_) => all.pods.clone(),
            };
            pending.retain(|pod| new_pods.may_lose_to(pod));
            let nodes = if pending.is_empty() { &new_pods.grown } else { &(&new_pods.grown | &new_pods.vacated) };
            // Where the other pods cannot be read, the warning says so.
            let _ = self.read_pods_on(&mut all, nodes).await;
            if !new_pods.grown.is_empty() {
                self.read_on_demand(&mut all, &new_pods.after).await;
            }
            pending
        };
        if matches!(self.source, Source::File(_)) {
            let pending = read.await;
            // In a dump, nothing is replaced.
            return (new_pods.warnings(&all, &pending).0, Vec::new());
        }
        // A server that is slow must not hold up a change: what is not read by then is not known.
        let read = timeout_at(Instant::now() + ROOM, read);
        let pending = show_progress(read, &self.progress, io).await.unwrap_or_default();
        new_pods.warnings(&all, &pending)
    }

    /// Adds to a snapshot of a live cluster the ResourceQuotas that new pods may exceed.
    pub(super) async fn read_quotas(&self, snapshot: &mut Snapshot, io: &mut Io<'_>) {
        if let Source::Live(live) = &self.source {
            show_progress(live.read_quotas(snapshot), &self.progress, io).await;
        }
    }

    /// Adds to a snapshot the PodDisruptionBudgets, on which the scheduler's choice of pods to preempt depends.
    pub(super) async fn read_budgets(&self, snapshot: &mut Snapshot, io: &mut Io<'_>) -> Result<(), Failure> {
        match &self.source {
            Source::Live(live) => {
                show_progress(live.read_budgets(snapshot), &self.progress, io).await;
                Ok(())
            }
            Source::File(_) => {
                let cause = GapCause::NotInDump;
                let gap = Gap { kind: Kind::PodDisruptionBudgets, namespace: None, cause };
                if !snapshot.budgets_complete {
                    snapshot.gaps.push(gap);
                }
                Ok(())
            }
        }
    }

    /// Returns the time by the server's clock.
    pub(super) fn now(&self, io: &Io<'_>) -> Timestamp {
        match &self.source {
            Source::Live(live) => live.now(),
            Source::File(_) => (io.clock)(),
        }
    }

    /// Follows the objects that [`Session::read`] reads. Fails if the server cannot be read, or the source is a dump.
    pub(super) async fn watch(&self, query: Query) -> Result<Watch<'_>, Failure> {
        let namespace = query.namespace.or_else(|| self.namespace.clone());
        let query = Query { namespace, selector: self.selector.clone(), ..query };
        match &self.source {
            Source::Live(live) => {
                let watch = Box::pin(live.watch(query.clone())).await?;
                self.check_namespace(&query, watch.last_snapshot()).await?;
                Ok(watch)
            }
            Source::File(_) => Err(CommandError::usage("a dump cannot be watched").into()),
        }
    }

    /// Reads a DaemonSet, and everything needed to decide about changing it; `asks` tells whether refused pods are tried again.
    pub(super) async fn read_for_change(
        &self,
        named: &Named,
        asks: bool,
        io: &mut Io<'_>,
    ) -> Result<Snapshot, Failure> {
        let names = vec![named.name.clone()];
        let query = Query { names, flavors: named.flavors, wanted: Wanted::Change, ..Query::default() };
        let mut snapshot = self.read(query, io).await?;
        if asks {
            self.note_admissions(&mut snapshot, io).await;
        }
        Ok(snapshot)
    }

    /// Reads the objects of a query repeatedly until they are found; returns `None` on timeout. Transient failures do
    /// not end the wait. Fails if the server refuses, or if it answers none of the requests in time.
    pub(super) async fn poll_until<T>(
        &self,
        query: &Query,
        time_limit: Duration,
        find: impl Fn(&Snapshot) -> Option<T>,
    ) -> Result<Option<T>, ClusterError> {
        let Source::Live(live) = &self.source else { return Ok(None) };
        let end = Instant::now() + time_limit;
        let mut pause = Duration::from_millis(50);
        let mut last = Err(ConnectionError::timed_out("the server did not answer in time").into());
        loop {
            match timeout_at(end, live.read(query)).await {
                Ok(Ok(snapshot)) => match find(&snapshot) {
                    Some(found) => return Ok(Some(found)),
                    None => last = Ok(None),
                },
                Ok(Err(error)) if error.is_transient() => last = Err(error),
                Ok(Err(error)) => return Err(error),
                Err(_) => return last,
            }
            if Instant::now() + pause > end {
                return last;
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Returns whether there are warnings that were not printed yet.
    pub(super) fn has_warnings(&self) -> bool {
        let has_other_clock =
            |live: &Live| !self.said_clock.get() && live.observed().clock_difference().abs() > CLOCK_TOLERANCE;
        matches!(&self.source, Source::Live(live) if live.observed().has_warnings() || has_other_clock(live))
    }

    /// Reports once if the server's clock and this machine's differ by more than a minute.
    fn compare_clocks(&self, difference: SignedDuration, io: &mut Io<'_>) -> Result<(), Failure> {
        if difference.abs() <= CLOCK_TOLERANCE || self.said_clock.replace(true) {
            return Ok(());
        }
        let side = if difference.is_positive() { "ahead of" } else { "behind" };
        let age = format_age(difference.abs().as_secs());
        let message = format!(
            "the clock of the API server, or of a proxy before it, is {age} {side} that of this machine; ages may be wrong"
        );
        warn(vec![message], io)
    }

    pub(super) fn print_warnings(&self, io: &mut Io<'_>) -> Result<(), Failure> {
        match &self.source {
            Source::Live(live) => {
                self.compare_clocks(live.observed().clock_difference(), io)?;
                let warnings = live.observed().take_warnings();
                io.server_warnings += warnings.len();
                warn(warnings, io)
            }
            Source::File(_) => Ok(()),
        }
    }

    /// Returns the server's warnings that were printed.
    pub(super) fn server_warnings(&self) -> Vec<String> {
        self.source.live().map(|live| live.observed().taken_warnings()).unwrap_or_default()
    }

    /// Checks that each DaemonSet that was requested by name exists. Errors about several names are combined.
    pub(super) fn check_unknown_names(&self, snapshot: &Snapshot) -> Result<(), CommandError> {
        let errors = snapshot.unknown_names.iter().map(|unknown| {
            let is_node = snapshot.nodes.iter().any(|node| node.metadata.name == unknown.name);
            let error = CommandError::from(self.source.unknown_daemon_set(self.namespace.as_deref(), unknown.clone()));
            let name = sanitize(&unknown.name);
            match super::command().find_subcommand(&unknown.name) {
                _ if is_node => error.hint(format!("{name} is a node; to choose it, add --node")),
                Some(_) => error.hint(format!("the command {name} comes before the name of a DaemonSet")),
                None => error,
            }
        });
        errors.reduce(CommandError::and).map_or(Ok(()), Err)
    }

    /// Builds the error for a command that needs a DaemonSet and finds none.
    pub fn none_found(&self) -> CommandError {
        let error = CommandError::new(format!("no DaemonSets found{}{}", self.labels(), self.place()));
        error.hints(self.namespace.is_some().then_some("-A searches all namespaces"))
    }

    /// Prints that there is nothing to report on, as kubectl does.
    pub fn say_none_found(&self, io: &mut Io<'_>) -> Result<(), Failure> {
        let elsewhere = if self.namespace.is_some() { "; -A searches all namespaces" } else { "" };
        Ok(writeln!(io.err, "No DaemonSets found{}{}{elsewhere}.", self.labels(), self.place())?)
    }

    /// Returns which labels were asked for, if any, in words.
    fn labels(&self) -> String {
        let selector = sanitize(&self.selector.to_string());
        if self.selector.is_empty() { String::new() } else { format!(" matching {selector}") }
    }

    /// Says why a report is empty, unless a name is unknown, and decides the exit code: of the gate, if one was asked for.
    pub(super) fn conclude(
        &self,
        snapshot: &Snapshot,
        filter: &CoverageFilter,
        is_shown: bool,
        gate: Option<Result<Exit, CommandError>>,
        io: &mut Io<'_>,
    ) -> Result<Result<Exit, CommandError>, Failure> {
        if !is_shown && snapshot.unknown_names.is_empty() {
            match snapshot.daemon_sets.is_empty() {
                true => self.say_none_found(io)?,
                false => writeln!(io.err, "No DaemonSets match {}{}.", filter.flags(), self.place())?,
            }
        }
        Ok(self.check_unknown_names(snapshot).and_then(|()| gate.unwrap_or(Ok(Exit::Success))))
    }

    /// Returns ` in NAMESPACE namespace`, or nothing for every namespace.
    pub(super) fn place(&self) -> String {
        self.namespace.as_ref().map(|namespace| format!(" in {} namespace", sanitize(namespace))).unwrap_or_default()
    }
}

pub(super) fn warn(warnings: Vec<String>, io: &mut Io<'_>) -> Result<(), Failure> {
    let view = View::new(width_of_errors(io), !io.unicode);
    for warning in warnings {
        for line in wrap(&view.show(&format!("warning: {warning}")), view.wrap_width()) {
            writeln!(io.err, "{line}")?;
        }
    }
    Ok(())
}

/// Returns the columns of the terminal of standard error; `None` if it is not a terminal.
pub(super) fn width_of_errors(io: &Io<'_>) -> Option<usize> {
    let terminal = || (io.terminal_size)().map_or(COLUMNS_OF_A_TERMINAL, |(columns, _)| columns);
    io.err_is_terminal.then(|| io.columns().unwrap_or_else(terminal))
}

/// The columns of a terminal of unknown size.
const COLUMNS_OF_A_TERMINAL: usize = 80;

/// Waits for the API server, and shows the progress on a terminal; elsewhere, only a long wait is reported.
pub(super) async fn show_progress<T>(work: impl Future<Output = T>, progress: &ReadProgress, io: &mut Io<'_>) -> T {
    if !io.tells_waits {
        return work.await;
    }
    if !io.err_is_terminal {
        return tell_long_wait(work, progress, io).await;
    }
    let mut work = pin!(work);
    // Operations under 500 ms show no progress.
    let began = Instant::now();
    let mut ticks = tokio::time::interval_at(began + Duration::from_millis(500), Duration::from_millis(100));
    let (terminal_size, ascii) = (io.terminal_size, !io.unicode);
    let mut line = ProgressLine::new(io.err);
    loop {
        tokio::select! {
            result = &mut work => return result,
            _ = ticks.tick() => {
                let columns = terminal_size().map_or(COLUMNS_OF_A_TERMINAL, |(columns, _)| columns);
                line.draw(&progress.line(began.elapsed()), columns, ascii);
            }
        }
    }
}

/// Waits for the API server, and writes a line if that takes long, and then each time it has taken twice as long.
pub(super) async fn tell_long_wait<T>(work: impl Future<Output = T>, progress: &ReadProgress, io: &mut Io<'_>) -> T {
    let (mut work, began, mut wait) = (pin!(work), Instant::now(), LONG_WAIT);
    loop {
        if let Ok(done) = timeout_at(began + wait, &mut work).await {
            return done;
        }
        // A failure to report it is ignored.
        let _ = writeln!(io.err, "{}", progress.line(wait));
        wait *= 2;
    }
}

/// Tells whether to color output that may go to a terminal.
pub fn is_colored(color: Color, is_terminal: bool, io: &Io<'_>) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto if io.variable("NO_COLOR").is_some() => false,
        Color::Auto if io.variable("CLICOLOR_FORCE").is_some_and(|force| force != "0") => true,
        Color::Auto => is_terminal && io.variable("TERM") != Some("dumb"),
    }
}
