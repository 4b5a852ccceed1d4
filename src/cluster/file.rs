//! Reads a dump of a cluster: a file, a directory of files, or standard input.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::error::ClusterError;
use super::needs::{Cluster, Needs};
use super::object::Object;
use super::objects::{Objects, PackedPods, Unreadable};
use super::text::{self, Input, STANDARD_INPUT, Text, TextError};
use super::{CoverageScope, Flavors, Query, Wanted, archive, dump_reader, suggestions};
use crate::model::daemon_set::{DaemonSet, Flavor};
use crate::model::kind::with_place;
use crate::model::metadata::ObjectMeta;
use crate::model::snapshot::{Gap, GapCause, Kind, PodsComplete, Snapshot};
use crate::model::startup_taint::{is_node_agent, startup_keys};
use crate::model::written::WrittenObject;
use crate::report::fix::{Command, Fix};
use crate::report::logs::PodLog;
use crate::report::{count, count_and};

/// The path of the dump built into the program.
pub const DEMO: &str = "demo";

/// A cluster with some problems, recorded from a real control plane by the end-to-end tests.
pub(super) const DEMO_BYTES: &[u8] = include_bytes!("../../tests/fixtures/demo.json.gz");

/// Advice for DaemonSets of extensions/v1beta1 and other old versions.
const ASK_FOR_CURRENT_VERSION: &str =
    "ask for the current version of the DaemonSets: `kubectl get daemonsets.apps -A -o json`";

/// Number of unreadable objects that are named.
const NAMED: usize = 20;

/// Number of unreadable files of a directory or archive that are named.
const MOST_WARNINGS: usize = 50;

/// The location of a dump, and the point in time from which ages are counted.
#[derive(Debug, Clone)]
pub struct Dump {
    path: String,
    now: Option<Timestamp>,
}

/// The result of reading a dump.
#[derive(Debug, Clone)]
pub struct Reading {
    /// What the query wants.
    pub snapshot: Snapshot,
    /// Files that could not be read although others could, and oddities of the dump.
    pub warnings: Vec<String>,
    /// How many JSON and YAML files of a directory or archive have no Kubernetes objects.
    pub foreign_files: usize,
}

/// Everything found in a dump.
#[derive(Default)]
pub(super) struct Contents {
    objects: Objects,
    warnings: Vec<String>,
    /// How many JSON and YAML files of a directory or archive have no Kubernetes objects.
    foreign_files: usize,
    /// Number of unreadable files without a warning of their own.
    other_unreadable_files: usize,
    /// The files of a directory or archive that say what they were read for, with the UIDs of their DaemonSets and nodes.
    dumps: Vec<(PathBuf, BTreeSet<String>)>,
    /// Number of bytes read from the files of a directory or archive, unpacked.
    pub(super) length: u64,
}

impl Contents {
    /// Adds one input of a dump.
    fn add_input(&mut self, name: &str, input: Input<'_>) -> Result<(), ClusterError> {
        match input {
            Input::Text(mut text) => Ok(dump_reader::read(&mut self.objects, &mut text, None)?),
            Input::Tar(reader) => archive::add_tar(self, name, reader),
        }
    }

    /// Adds a file of a directory or archive. Only a file that looks like Kubernetes objects gets a warning.
    pub(super) fn add_file(&mut self, text: Result<Text<'_>, TextError>, path: &Path) {
        let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let Objects { headers, snapshot, .. } = &self.objects;
        let known = (headers.len(), snapshot.daemon_sets.len(), snapshot.nodes.len());
        let result = text.and_then(|mut text| {
            let has_objects = text.mentions_objects();
            let result = dump_reader::read(&mut self.objects, &mut text, folder);
            self.length = self.length.saturating_add(text.length());
            result.map_err(|error| match error {
                TextError::Unreadable(error) if !has_objects => TextError::Foreign(error),
                error => error,
            })
        });
        let Objects { headers, snapshot, .. } = &self.objects;
        if headers.len() > known.0 {
            let daemon_sets = snapshot.daemon_sets[known.1..].iter().map(|one| &one.metadata.uid);
            let uids = daemon_sets.chain(snapshot.nodes[known.2..].iter().map(|one| &one.metadata.uid));
            self.dumps.push((path.to_owned(), uids.filter(|uid| !uid.is_empty()).cloned().collect()));
        }
        match result {
            Ok(()) => {}
            Err(TextError::Foreign(_)) => self.foreign_files += 1,
            Err(TextError::Unreadable(error)) if self.warnings.len() < MOST_WARNINGS => {
                self.warnings.push(error.to_string());
            }
            Err(TextError::Unreadable(_)) => self.other_unreadable_files += 1,
        }
    }
}

/// Checks that dumps are not of different clusters, of which no DaemonSet and no node is the same object.
fn check_one_cluster(name: &str, dumps: &[(PathBuf, BTreeSet<String>)]) -> Result<(), ClusterError> {
    let mut dumps = dumps.iter().filter(|(_, uids)| !uids.is_empty());
    let Some((first, uids)) = dumps.next() else { return Ok(()) };
    let mut known = uids.clone();
    for (path, uids) in dumps {
        if known.is_disjoint(uids) {
            let (first, path) = (first.display(), path.display());
            return Err(ClusterError::file(name, format!("has dumps of different clusters: {first} and {path}"))
                .hint("give the path of one of them"));
        }
        known.extend(uids.iter().cloned());
    }
    Ok(())
}

/// Finds the files in a directory whose paths are wanted, in a deterministic order.
pub(super) fn files_of(directory: &Path, is_wanted: &dyn Fn(&Path) -> bool) -> Result<Vec<PathBuf>, ClusterError> {
    let unreadable = |error: &std::io::Error| text::io_error(&directory.display().to_string(), error);
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| unreadable(&error))? {
        entries.push(entry.map_err(|error| unreadable(&error))?);
    }
    entries.sort_by_key(std::fs::DirEntry::file_name);
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.path();
        // Links to directories are not followed, because they may form a cycle.
        if entry.file_type().is_ok_and(|type_| type_.is_dir()) {
            files.extend(files_of(&path, is_wanted)?);
        } else if is_wanted(&path) && path.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

pub(super) fn is_dump_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    [".json", ".yaml", ".yml"].iter().any(|ending| name.ends_with(ending))
}

/// The gap of a dump that has neither DaemonSets nor a list of them.
const NO_DAEMON_SETS: Gap = Gap { kind: Kind::DaemonSets, namespace: None, cause: GapCause::NotInDump };

/// Lists the kinds that were found instead of DaemonSets.
fn found_kinds(objects: &Objects) -> String {
    let kinds = objects.kinds.iter().map(|kind| kind.resource().to_owned());
    let others = objects.others.keys().filter(|name| name.ends_with(" DaemonSet")).cloned();
    kinds.chain(others).collect::<Vec<_>>().join(", ")
}

/// Returns the only namespace whose DaemonSets were read for a dump, if it has this information.
fn only_namespace(objects: &Objects) -> Option<&String> {
    let dumped: BTreeSet<_> = objects.headers.iter().map(|header| header.namespace.as_ref()).collect();
    dumped.first().copied().flatten().filter(|_| dumped.len() == 1)
}

/// Returns the only namespace that objects of a dump are in which does not say what it was read for.
fn only_namespace_found(objects: &Objects) -> Option<&String> {
    let Objects { headers, snapshot, pod_namespaces, lists_all_namespaces, .. } = objects;
    let daemon_sets = snapshot.daemon_sets.iter().map(|one| &one.metadata.namespace);
    let others = snapshot.controller_revisions.iter().map(|one| &one.metadata.namespace);
    let others = others.chain(snapshot.events.iter().map(|one| &one.metadata.namespace)).chain(pod_namespaces);
    let found: BTreeSet<&String> = daemon_sets.chain(others).collect();
    found.first().copied().filter(|_| found.len() == 1 && headers.is_empty() && !lists_all_namespaces)
}

/// Returns whether all DaemonSets are manifests that no cluster has stored.
fn is_manifest(objects: &Objects) -> bool {
    objects.manifests > 0 && objects.others.is_empty() && !objects.has_other_daemon_sets
}

fn nothing_of_use(objects: &Objects) -> String {
    let mut found: Vec<_> = objects.others.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    found.extend((objects.manifests > 0).then_some(("DaemonSet of a manifest", objects.manifests)));
    found.sort_by_key(|(kind, count)| (std::cmp::Reverse(*count), *kind));
    let listed: Vec<_> = found.iter().take(4).map(|(kind, count)| format!("{kind} ({count})")).collect();
    match found.len() {
        _ if is_manifest(objects) => "is a manifest, not a dump".to_owned(),
        0 => "has no Kubernetes objects".to_owned(),
        1..=4 => format!("has no DaemonSet, node, pod or event, only {}", listed.join(", ")),
        more => {
            let others = count(more - listed.len(), "other kind");
            format!("has no DaemonSet, node, pod or event, only {} and {others}", listed.join(", "))
        }
    }
}

impl Dump {
    /// Names a dump: a file, a directory, `-` for standard input, or `demo` for the built-in one.
    ///
    /// "Now" is the given time, or the recorded time of the dump, or the newest time in it.
    pub fn new(path: impl Into<String>, now: Option<Timestamp>) -> Self {
        Dump { path: path.into(), now }
    }

    /// Returns the path as it was given.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the name of the dump in errors.
    fn name(&self) -> &str {
        if self.path == "-" { STANDARD_INPUT } else { &self.path }
    }

    fn error(&self, problem: impl Into<String>) -> ClusterError {
        ClusterError::file(self.name(), problem)
    }

    /// Reads what the query wants, and all pods on some nodes.
    ///
    /// Objects are decoded as the text arrives. Of objects that the query does not want, only what the computation of
    /// free resources needs is kept. Fails if the dump cannot be read or is of another namespace, and if a DaemonSet or
    /// node of the query is missing or cannot be read.
    pub fn read(
        &self,
        query: &Query,
        stdin: &mut dyn Read,
        needs_all_pods_on: impl Fn(&Snapshot) -> BTreeSet<String>,
    ) -> Result<Reading, ClusterError> {
        let needs = query.needs();
        let CoverageScope { node, node_selector, config, secrets, .. } = &needs.scope;
        let Contents { mut objects, mut warnings, foreign_files, .. } = self.collect(stdin, &needs)?;
        warnings.extend(self.check_namespace(&objects, query)?);
        if let Some(unreadable) = objects.unreadable.iter().find(|unreadable| unreadable.is_requested(query)) {
            return Err(unreadable.error());
        }
        // Whatever was asked for by name was read.
        let (of_others, unreadable) = std::mem::take(&mut objects.unreadable)
            .into_iter()
            .partition::<Vec<_>, _>(|it| it.kind == Kind::DaemonSets && !query.names.is_empty());
        objects.unreadable = unreadable;
        let of_others = of_others.iter().take(NAMED);
        warnings.extend(of_others.map(|other| format!("skipped {}: {}", other.object(), other.problem)));
        let foreign_pods = std::mem::take(&mut objects.foreign_pods);
        if let manifests @ 1.. = objects.manifests {
            let what = if manifests == 1 { "a DaemonSet that is a manifest" } else { "DaemonSets that are manifests" };
            warnings.push(format!("{}: left out {what}, not of a cluster; `preview -f` previews those", self.name()));
        }
        let (has_other_daemon_sets, found) = (objects.has_other_daemon_sets, found_kinds(&objects));
        let has_budgets = objects.kinds.contains(&Kind::PodDisruptionBudgets);
        let mut snapshot = self.snapshot(objects, &mut warnings);
        let has_budgets = has_budgets || snapshot.budgets_complete;
        let existing: Vec<ObjectMeta> =
            snapshot.daemon_sets_of_any_flavor().map(|daemon_set| daemon_set.metadata.clone()).collect();
        let has_gap = snapshot.daemon_sets.is_empty() && snapshot.gaps.contains(&NO_DAEMON_SETS);
        if has_gap && !needs.everything && snapshot.advanced_daemon_sets.is_empty() {
            return Err(self.error(format!("has no DaemonSet of apps/v1, only {found}")).hint(
                match has_other_daemon_sets {
                    true => ASK_FOR_CURRENT_VERSION,
                    false => "make the dump with `kubectl ds snapshot -A`, or add `kubectl get ds -A -o json` to it",
                },
            ));
        }
        if has_gap {
            warnings.push(format!("{}: has no DaemonSet of apps/v1, only {found}", self.name()));
        }
        let keys = startup_keys(&snapshot.nodes);
        let others = snapshot.daemon_sets.iter().filter(|other| !query.wants(&other.metadata));
        snapshot.node_agents = others.filter(|other| is_node_agent(other, &keys)).cloned().collect();
        if let (Cluster::Writes, Some(namespace)) = (needs.cluster, query.namespace_beside_others()) {
            let is_meant = |other: &&DaemonSet| {
                other.metadata.namespace != namespace && query.selector.matches(&other.metadata.labels)
            };
            let others = snapshot.daemon_sets.iter().filter(is_meant);
            let others =
                others.map(|other| WrittenObject::of_daemon_set(other, &snapshot.controller_revisions)).collect();
            snapshot.written_objects.insert(Kind::DaemonSets, others);
        }
        let is_unshown = |other: &&DaemonSet| query.flavors == Flavors::Apps && query.wants(&other.metadata);
        if let (Wanted::Coverage(_), [], others @ 1..) =
            (&query.wanted, query.names.as_slice(), snapshot.advanced_daemon_sets.iter().filter(is_unshown).count())
        {
            let others = count_and(others, "Advanced DaemonSet", ["is", "are"]);
            warnings.push(format!("{}: {others} not shown: `kubectl ds status ads/NAME` shows one", self.name()));
        }
        query.choose(&mut snapshot).map_err(|error| {
            let is_node = |name: &str| snapshot.nodes.iter().any(|node| node.metadata.name == name);
            self.not_found(match &error {
                ClusterError::NotFound { name, .. } if is_node(name) => suggestions::is_a_node(error),
                _ => error,
            })
        })?;
        if let Some(warning) = self.mistyped_namespace(query, &snapshot, &existing) {
            warnings.push(warning);
        }
        if let (true, Some(namespace)) = (needs.everything, &query.namespace) {
            // As from a live cluster: pods of other namespaces use resources of the nodes.
            use Kind::{ConfigMaps, ControllerRevisions, Events, LimitRanges, ResourceQuotas, Secrets};
            for kind in [ControllerRevisions, Events, LimitRanges, ConfigMaps, ResourceQuotas, Secrets] {
                with_place!(kind, place => {
                    (place.of_mut)(&mut snapshot).retain(|object| object.metadata().namespace == *namespace)
                });
            }
            snapshot.namespaces.retain(|it| it.metadata.name == *namespace);
        }
        if let Some(node) = node {
            self.check_node(node, &snapshot, &existing)?;
            snapshot.nodes.retain(|existing| existing.metadata.name == *node);
            // As from a live cluster: the node's pods, and those that are not bound.
            let pods = std::mem::take(&mut snapshot.pods).into_iter();
            (snapshot.pods, snapshot.peers) =
                pods.partition(|pod| pod.spec.node_name.is_empty() || pod.spec.node_name == *node);
        }
        snapshot.nodes_limited = node.is_some() || !node_selector.is_empty();
        snapshot.nodes.retain(|node| node_selector.matches(&node.metadata.labels));
        // Objects that a dump lacks may exist.
        let lacking = [
            (*config, Kind::ConfigMaps),
            (*secrets, Kind::Secrets),
            (needs.budgets && !has_budgets, Kind::PodDisruptionBudgets),
        ];
        let lacking = lacking.into_iter().filter(|(is_lacking, _)| *is_lacking && !needs.everything);
        snapshot.gaps.extend(lacking.map(|(_, kind)| Gap { kind, namespace: None, cause: GapCause::NotInDump }));
        if !needs.everything {
            let dumped = std::mem::replace(&mut snapshot.pods_complete, PodsComplete::On(BTreeSet::new()));
            let mut nodes = match query.wanted {
                // Live, those of the nodes that turn out to matter are read later.
                Wanted::Change => snapshot.nodes.iter().map(|node| node.metadata.name.clone()).collect(),
                _ => needs_all_pods_on(&snapshot),
            };
            if let PodsComplete::On(dumped) = dumped {
                nodes.retain(|node| dumped.contains(node));
            }
            add_foreign_pods(&mut snapshot, foreign_pods, nodes);
        }
        Ok(Reading { snapshot, warnings, foreign_files })
    }

    /// Reads every object of the dump.
    fn collect(&self, stdin: &mut dyn Read, needs: &Needs) -> Result<Contents, ClusterError> {
        let mut contents = Contents::default();
        contents.objects.needs = needs.clone();
        let path = Path::new(&self.path);
        if self.path == "-" {
            contents.add_input(self.name(), Input::new(self.name(), stdin)?)?;
        } else if self.path == DEMO {
            contents.add_input(self.name(), Input::new(self.name(), DEMO_BYTES)?)?;
        } else if path.is_dir() {
            for file in files_of(path, &is_dump_name)? {
                contents.add_file(Text::open(&file), &file);
            }
        } else {
            contents.add_input(self.name(), Input::open(path)?)?;
        }
        if let more @ 1.. = contents.other_unreadable_files {
            contents.warnings.push(format!("{}: {more} more files cannot be read", self.name()));
        }
        if contents.objects.is_full() {
            return Err(self.error(dump_reader::TOO_MANY_OBJECTS));
        }
        check_one_cluster(self.name(), &contents.dumps)?;
        contents.objects.keep_newest();
        if contents.objects.kinds.is_empty() {
            let is_only_manifest = is_manifest(&contents.objects);
            let Objects { has_other_daemon_sets, manifests, .. } = contents.objects;
            let hints = [
                (has_other_daemon_sets, ASK_FOR_CURRENT_VERSION),
                (
                    manifests > 0 && !has_other_daemon_sets,
                    "a manifest is not read with --from: `preview -f` previews it, and `partition -f` rolls it out",
                ),
                (
                    !is_only_manifest && !has_other_daemon_sets,
                    "`kubectl ds snapshot` writes a dump, and so does `kubectl get ds,controllerrevisions,nodes,pods,events -A -o json`",
                ),
            ];
            let error = self.error(nothing_of_use(&contents.objects));
            let hints = hints.into_iter().filter(|(is_given, _)| *is_given);
            let error = hints.fold(error, |error, (_, hint)| error.hint(hint));
            return Err(contents.warnings.into_iter().fold(error, ClusterError::hint));
        }
        Ok(contents)
    }

    /// Checks that the dump is not of another namespace, and warns if it covers only one but all are wanted.
    fn check_namespace(&self, objects: &Objects, query: &Query) -> Result<Option<String>, ClusterError> {
        let Some(dumped_one) = only_namespace(objects) else { return Ok(None) };
        match &query.namespace {
            Some(wanted) if wanted != dumped_one => {
                let problem = format!("is a dump of namespace {dumped_one:?} only, not of {wanted:?}");
                Err(self.error(problem).hint(Fix::new(
                    "make a dump with `kubectl ds snapshot -A`, or pass",
                    Command::choice("-n", [dumped_one]),
                )))
            }
            None if query.names.is_empty() => {
                Ok(Some(format!("{}: this is a dump of namespace {dumped_one:?} only", self.name())))
            }
            _ => Ok(None),
        }
    }

    /// Makes a snapshot of everything that was read except foreign pods.
    fn snapshot(&self, objects: Objects, warnings: &mut Vec<String>) -> Snapshot {
        let pods_complete = pods_complete(&objects);
        let declared = objects.headers.iter().flat_map(|header| header.kinds());
        let read: BTreeSet<Kind> = objects.kinds.iter().copied().chain(declared).collect();
        let is_whole = |kind: &Kind| {
            let is_unreadable = || objects.unreadable.iter().any(|it| it.kind == *kind);
            read.contains(kind) && !objects.truncated.contains(kind) && !is_unreadable()
        };
        let read_on_demand = Kind::ON_DEMAND.into_iter().filter(is_whole).collect();
        let budgets_complete = has_all_budgets(&objects, &pods_complete);
        let gaps = gaps(&objects, &pods_complete);
        let only_namespace = only_namespace(&objects).or_else(|| only_namespace_found(&objects)).cloned();
        let has_pods = !objects.pod_namespaces.is_empty();
        let deleted_nodes = objects.headers.iter().flat_map(|header| header.deleted_nodes.clone()).collect();
        let taken_at = objects.headers.iter().filter_map(|header| header.taken_at).max();
        let path = Path::new(&self.path);
        let is_recent = objects.newest_times.are_of_kubelets() || !objects.snapshot.leases.is_empty();
        let newest_time = objects.newest_times.newest();
        let newest = taken_at.max(newest_time);
        if let (Some(given), Some(newest)) = (self.now, newest)
            && given < newest
        {
            warnings.push(format!("{}: --now is before {newest}, the newest time in it: ages are wrong", self.name()));
        }
        let is_now_estimated = self.now.or(taken_at).is_none();
        // Kubelets report every few minutes; other objects may not have changed for months.
        if let (true, Some(newest)) = (is_now_estimated && !is_recent, newest) {
            let message = format!("does not say when it was made: ages count from {newest}, the newest time in it");
            warnings.push(format!("{}: {message}; --now sets another", self.name()));
        }
        let mut snapshot = Snapshot {
            only_namespace,
            lacks_logs: self.path == DEMO || (is_dump_name(path) && !path.is_dir()),
            read_on_demand,
            // Without any time in the dump, there are no ages either.
            now: self.now.or(taken_at).or(newest_time).unwrap_or_default(),
            is_now_estimated,
            pods_complete,
            deleted_nodes,
            budgets_complete,
            gaps,
            ..objects.snapshot
        };
        leave_out(&mut snapshot, &objects.unreadable);
        if !snapshot.daemon_sets.is_empty() {
            snapshot.note_missing_nodes();
        }
        let counts_pods = || snapshot.daemon_sets.iter().any(|one| one.status.counts_pods());
        if !has_pods && snapshot.gaps.iter().all(|gap| gap.kind != Kind::Pods) && counts_pods() {
            snapshot.gaps.push(Gap { kind: Kind::Pods, namespace: None, cause: GapCause::NoneReturned });
        }
        snapshot
    }

    /// Builds the error for a log that the dump does not have.
    pub(crate) fn has_no_log(&self, of: &PodLog) -> ClusterError {
        let PodLog { namespace, pod, container, previous, .. } = of;
        let command = Command::kubectl(&["logs"]).namespace(namespace).flag("-c", container);
        let command = if *previous { command.switch("--previous") } else { command }.name(pod);
        self.error(format!("has no log of container {container} of pod {namespace}/{pod}"))
            .hint("`kubectl cluster-info dump`, must-gathers and support bundles have logs")
            .hint(Fix::new("to read it from the cluster of the current context", command))
    }

    /// Builds the error for an attempt to change a dump.
    pub(super) fn refuse_write(&self) -> ClusterError {
        self.error("is a dump, which cannot be changed")
    }

    fn check_node(&self, node: &str, snapshot: &Snapshot, daemon_sets: &[ObjectMeta]) -> Result<(), ClusterError> {
        let existing = || snapshot.nodes.iter().map(|existing| existing.metadata.name.as_str());
        // Pods may outlive their node, or tell of it without nodes.
        if existing().any(|name| name == node) || snapshot.pods.iter().any(|pod| suggestions::is_for_node(pod, node)) {
            return Ok(());
        }
        if snapshot.nodes.is_empty() && snapshot.gaps.iter().any(|gap| gap.kind == Kind::Nodes) {
            let message = format!("has neither nodes nor a pod on {node:?}, so that nothing is known of it");
            return Err(self
                .error(message)
                .hint("make the dump with `kubectl ds snapshot`, or add `kubectl get nodes -o json` to it"));
        }
        let unknown = suggestions::unknown_node(node, existing());
        Err(self.not_found(suggestions::or_a_daemon_set(unknown, daemon_sets)))
    }

    /// Warns if nothing is found in a namespace, but there are DaemonSets in one with a similar name.
    fn mistyped_namespace(&self, query: &Query, found: &Snapshot, existing: &[ObjectMeta]) -> Option<String> {
        let wanted = query.namespace.as_ref().filter(|_| found.daemon_sets_of_any_flavor().next().is_none())?;
        let namespaces: BTreeSet<&str> = existing.iter().map(|existing| existing.namespace.as_str()).collect();
        let is_known = namespaces.contains(wanted.as_str());
        let near = suggestions::near(wanted, namespaces);
        (!is_known && !near.is_empty())
            .then(|| format!("{}: no DaemonSet is in namespace {wanted:?}; similar: {}", self.name(), near.join(", ")))
    }

    /// Turns the server's not-found error into one about this dump.
    pub(super) fn not_found(&self, error: ClusterError) -> ClusterError {
        let ClusterError::NotFound { resource, name, near, elsewhere, instead, .. } = &error else { return error };
        let problem = format!("{resource} {name:?} not found");
        let in_dump = ClusterError::File { path: self.name().to_owned(), problem, hints: Vec::new(), is_absence: true };
        // Other hints suggest commands for a cluster.
        if near.is_empty() && elsewhere.is_empty() && instead.is_none() {
            in_dump
        } else {
            error.hints().into_iter().fold(in_dump, ClusterError::hint)
        }
    }
}

/// Adds the pods of other controllers on some nodes, so that free resources can be computed there.
fn add_foreign_pods(snapshot: &mut Snapshot, mut foreign_pods: PackedPods, nodes: BTreeSet<String>) {
    for node in &nodes {
        snapshot.pods.extend(foreign_pods.take(node));
    }
    snapshot.pods_complete = PodsComplete::On(nodes);
}

impl Unreadable {
    fn object(&self) -> String {
        let kind = self.kind.api_names().1;
        match (self.namespace.as_str(), self.name.as_str()) {
            (_, "") => format!("a {kind} without a name"),
            ("", name) => format!("{kind} {name}"),
            (namespace, name) => format!("{kind} {namespace}/{name}"),
        }
    }

    /// Returns whether a query requests the object by name.
    fn is_requested(&self, query: &Query) -> bool {
        let is_named = |flavor| {
            query.flavors.include(flavor)
                && query.names.contains(&self.name)
                && query.namespace.as_ref().is_none_or(|namespace| *namespace == self.namespace)
        };
        match (self.kind, &query.wanted) {
            (Kind::DaemonSets, _) => is_named(Flavor::Apps),
            (Kind::AdvancedDaemonSets, _) => is_named(Flavor::Advanced),
            (Kind::Nodes, Wanted::Coverage(scope)) => scope.node.as_ref() == Some(&self.name),
            _ => false,
        }
    }

    fn error(&self) -> ClusterError {
        ClusterError::file(self.object(), self.problem.clone())
    }

    /// Returns what is unknown because of the unreadable object.
    fn gap(&self) -> Gap {
        // If a pod of a DaemonSet is omitted, so is its node; otherwise the node would be reported as having no pod.
        let (kind, namespace) = match (self.kind, &self.node) {
            (Kind::Nodes, _) => (Kind::Nodes, None),
            (Kind::Pods, _) if self.is_foreign => (Kind::Pods, None),
            (Kind::Pods, Some(_)) => (Kind::Nodes, None),
            (kind, _) => (kind, Some(self.namespace.clone()).filter(|namespace| !namespace.is_empty())),
        };
        Gap { kind, namespace, cause: GapCause::Unreadable { object: self.object(), problem: self.problem.clone() } }
    }
}

/// Omits from a snapshot what unreadable objects make uncertain, to avoid wrong statements about it.
fn leave_out(snapshot: &mut Snapshot, unreadable: &[Unreadable]) {
    let (mut nodes, mut nodes_of_pods, mut revisions) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for Unreadable { kind, namespace, name, node, is_foreign, .. } in unreadable {
        match kind {
            Kind::Nodes => drop(nodes.insert(name)),
            // Not all pods on the node are known.
            Kind::Pods if *is_foreign => nodes_of_pods.extend(node),
            Kind::Pods => nodes.extend(node),
            Kind::ControllerRevisions => drop(revisions.insert(namespace)),
            _ => {}
        }
    }
    if nodes.is_empty() && nodes_of_pods.is_empty() && revisions.is_empty() {
        return;
    }
    snapshot.nodes.retain(|node| !nodes.contains(&node.metadata.name));
    snapshot.pods.retain(|pod| !pod.nodes().any(|node| nodes.iter().any(|unknown| *unknown == node)));
    snapshot.controller_revisions.retain(|revision| !revisions.contains(&revision.metadata.namespace));
    let is_known = |node: &String| !nodes.contains(node) && !nodes_of_pods.contains(node);
    match &mut snapshot.pods_complete {
        PodsComplete::On(complete) => complete.retain(is_known),
        complete => {
            let existing = snapshot.nodes.iter().map(|node| node.metadata.name.clone());
            *complete = PodsComplete::On(existing.filter(is_known).collect());
        }
    }
}

/// Determines which pods are certainly complete.
fn pods_complete(objects: &Objects) -> PodsComplete {
    let mut nodes = BTreeSet::new();
    for header in &objects.headers {
        match &header.pods {
            PodsComplete::Everywhere => return PodsComplete::Everywhere,
            PodsComplete::On(names) => nodes.extend(names.iter().cloned()),
        }
    }
    if objects.headers.is_empty() && objects.pods_everywhere && !objects.truncated.contains(&Kind::Pods) {
        PodsComplete::Everywhere
    } else {
        PodsComplete::On(nodes)
    }
}

/// Tells whether a dump has all PodDisruptionBudgets of the cluster: it says so, or it has those of a dump that has all pods.
fn has_all_budgets(objects: &Objects, pods_complete: &PodsComplete) -> bool {
    let budgets = Kind::PodDisruptionBudgets;
    let is_listed = || objects.kinds.contains(&budgets) && !objects.truncated.contains(&budgets);
    match objects.headers.as_slice() {
        [] => *pods_complete == PodsComplete::Everywhere && is_listed(),
        headers => headers.iter().any(|header| header.kinds().any(|kind| kind == budgets)),
    }
}

/// Returns the gaps of a dump: whole kinds, and pods of namespaces that have a DaemonSet.
fn gaps(objects: &Objects, pods_complete: &PodsComplete) -> Vec<Gap> {
    let mut gaps: Vec<Gap> = Vec::new();
    for gap in objects.headers.iter().flat_map(|header| header.gaps()) {
        if !gaps.contains(&gap) {
            gaps.push(gap);
        }
    }
    for (index, gap) in objects.unreadable.iter().map(Unreadable::gap).enumerate() {
        let is_known = |known: &Gap| known.kind == gap.kind && known.namespace == gap.namespace;
        if index < NAMED || !gaps.iter().any(is_known) {
            gaps.push(gap);
        }
    }
    let not_in_dump = |kind, namespace| Gap { kind, namespace, cause: GapCause::NotInDump };
    let read: BTreeSet<Kind> =
        objects.headers.iter().flat_map(|header| header.kinds()).chain(objects.kinds.iter().copied()).collect();
    for kind in Kind::ALL {
        let is_read = read.contains(&kind) && !objects.truncated.contains(&kind);
        if !is_read && !gaps.iter().any(|gap| gap.kind == kind && gap.namespace.is_none()) {
            gaps.push(not_in_dump(kind, None));
        }
    }
    if objects.headers.is_empty() && *pods_complete != PodsComplete::Everywhere && read.contains(&Kind::Pods) {
        // A list of all namespaces without a pod in a namespace means that there is none, if the status of its DaemonSets agrees.
        let lacks_pods = |daemon_set: &&DaemonSet| {
            let is_listed = objects.lists_all_namespaces && !daemon_set.status.counts_pods();
            !is_listed && !objects.pod_namespaces.contains(&daemon_set.metadata.namespace)
        };
        let missing: BTreeSet<_> = objects
            .snapshot
            .daemon_sets
            .iter()
            .filter(lacks_pods)
            .map(|daemon_set| &daemon_set.metadata.namespace)
            .collect();
        gaps.extend(missing.into_iter().map(|namespace| not_in_dump(Kind::Pods, Some(namespace.clone()))));
    }
    gaps
}
