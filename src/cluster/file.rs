//! Reads a dump of a cluster: a file, a folder of files, or standard input.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::dump_header::Pods;
use super::error::ClusterError;
use super::newest_time::newest_time;
use super::objects::{Objects, Origin};
use super::suggestions;
use super::text::{self, STANDARD_INPUT};
use super::{CoverageScope, Query, Wanted};
use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::{Gap, GapCause, Kind, PodsComplete, Snapshot};

/// The path that names the dump inside the program.
pub const DEMO: &str = "demo";

/// A faulty cluster, recorded from a real control plane by the end-to-end tests.
const DEMO_BYTES: &[u8] = include_bytes!("../../tests/fixtures/demo.json.gz");

/// A dump that was read whole.
#[derive(Debug, Clone)]
pub struct Dump {
    /// Everything in the dump, until it is handed out.
    snapshot: RefCell<Option<Snapshot>>,
    /// Files of a folder that could not be read, a fragment each; the others count all the same.
    pub warnings: Vec<String>,
    /// What errors call the dump.
    name: String,
    /// The one namespace that the dump is about, where it says so.
    namespace: Option<String>,
}

/// Reads a dump: a file, a folder, `-` for standard input, or `demo` for the one inside the program.
///
/// "Now" is the time given, else when the dump was made, where it says so, else the newest time in it.
///
/// # Errors
///
/// Fails where there is nothing to read, where a file that is named is broken, and where nothing in it
/// says anything about DaemonSets.
pub fn open(path: &str, stdin: &mut dyn Read, now: Option<Timestamp>) -> Result<Dump, ClusterError> {
    let mut objects = Objects::default();
    let mut warnings = Vec::new();
    let mut name = path.to_owned();
    if path == "-" {
        STANDARD_INPUT.clone_into(&mut name);
        objects.add_text(Origin { name: &name, folder: None }, &text::read(&name, stdin)?)?;
    } else if path == DEMO {
        objects.add_text(Origin { name: &name, folder: None }, &text::read(&name, DEMO_BYTES)?)?;
    } else if Path::new(path).is_dir() {
        for file in files_of(Path::new(path))? {
            warnings.extend(add_file_of_folder(&mut objects, &file).err().map(|error| error.to_string()));
        }
    } else {
        objects.add_text(Origin { name: &name, folder: None }, &text::read_file(Path::new(path))?)?;
    }
    objects.keep_newest();
    if objects.kinds.is_empty() {
        let error = ClusterError::file(name, nothing_of_use(&objects));
        let hint = "`kubectl ds snapshot` writes a dump, and so does `kubectl get ds,controllerrevisions,nodes,pods,events -A -o json`";
        return Err(warnings.into_iter().fold(error.hint(hint), ClusterError::hint));
    }
    Ok(Dump::of(objects, name, warnings, now))
}

fn add_file_of_folder(objects: &mut Objects, file: &Path) -> Result<(), ClusterError> {
    let text = text::read_file(file)?;
    if text::without_mark(&text).trim_start().starts_with('[') {
        return Ok(());
    }
    let folder = file.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    objects.add_text(Origin { name: &file.display().to_string(), folder }, &text)
}

/// Finds the files of a folder that are JSON or YAML by name, in a steady order.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, ClusterError> {
    let unreadable = |error: &std::io::Error| text::io_error(&folder.display().to_string(), error);
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| unreadable(&error))? {
        entries.push(entry.map_err(|error| unreadable(&error))?);
    }
    entries.sort_by_key(std::fs::DirEntry::file_name);
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.path();
        // A link to a folder is not followed, so that a ring of them ends.
        if entry.file_type().is_ok_and(|type_| type_.is_dir()) {
            files.extend(files_of(&path)?);
        } else if is_dump_name(&path) && path.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

fn is_dump_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    [".json", ".yaml", ".yml"].iter().any(|ending| name.ends_with(ending))
}

fn nothing_of_use(objects: &Objects) -> String {
    let mut found: Vec<_> = objects.others.iter().collect();
    found.sort_by_key(|(kind, count)| (std::cmp::Reverse(**count), *kind));
    let listed: Vec<_> = found.iter().take(4).map(|(kind, count)| format!("{kind} ({count})")).collect();
    match found.len() {
        0 => "holds no Kubernetes objects".to_owned(),
        1..=4 => format!("holds no DaemonSet, node, pod or event, only {}", listed.join(", ")),
        more => {
            format!("holds no DaemonSet, node, pod or event, only {} and {} other kinds", listed.join(", "), more - 4)
        }
    }
}

impl Dump {
    fn of(objects: Objects, name: String, mut warnings: Vec<String>, now: Option<Timestamp>) -> Self {
        let pods_complete = pods_complete(&objects);
        let gaps = gaps(&objects, &pods_complete);
        if gaps.iter().any(|gap| gap.kind == Kind::DaemonSets) {
            let kinds: Vec<_> = objects.kinds.iter().map(|kind| kind.resource()).collect();
            warnings.push(format!("{name}: holds no DaemonSet of apps/v1, only {}", kinds.join(", ")));
        }
        let taken_at = objects.headers.iter().map(|header| header.taken_at).max();
        let namespaces: BTreeSet<_> = objects.headers.iter().map(|header| &header.namespace).collect();
        let namespace = match namespaces.first() {
            Some(Some(namespace)) if namespaces.len() == 1 => Some((*namespace).clone()),
            _ => None,
        };
        let mut snapshot = Snapshot {
            now: Timestamp::UNIX_EPOCH,
            daemon_sets: objects.daemon_sets,
            advanced_daemon_sets: objects.advanced_daemon_sets,
            controller_revisions: objects.controller_revisions,
            nodes: objects.nodes,
            pods: objects.pods,
            pods_complete,
            events: objects.events,
            limit_ranges: objects.limit_ranges,
            runtime_classes: objects.runtime_classes,
            priority_classes: objects.priority_classes,
            leases: objects.leases,
            gaps,
            unknown_names: Vec::new(),
        };
        // Where there is no time at all there is no age to be counted either.
        snapshot.now = now.or(taken_at).or_else(|| newest_time(&snapshot)).unwrap_or_default();
        Dump { snapshot: RefCell::new(Some(snapshot)), warnings, name, namespace }
    }

    /// Returns everything in the dump; nothing where it was handed out before.
    pub fn into_snapshot(self) -> Option<Snapshot> {
        self.snapshot.into_inner()
    }

    /// Hands out what the query asks for. A dump answers one query, since a copy of a big one takes as
    /// much time and memory as reading it.
    ///
    /// # Errors
    ///
    /// Fails where the query names a DaemonSet or node that is not in the dump, where the dump is about
    /// another namespace, and where it was handed out before.
    pub fn read(&self, query: &Query) -> Result<Snapshot, ClusterError> {
        let mut snapshot = self.take(query.namespace.as_deref())?;
        snapshot.unknown_names = query
            .choose(&mut snapshot.daemon_sets, &mut snapshot.advanced_daemon_sets)
            .map_err(|error| self.not_found(error))?;
        if let Wanted::Coverage(CoverageScope { node, node_selector, .. }) = &query.wanted {
            if let Some(node) = node {
                self.check_node(node, &snapshot)?;
                snapshot.nodes.retain(|existing| existing.metadata.name == *node);
                // As from a live cluster: the node's pods, and those that are not bound.
                snapshot.pods.retain(|pod| pod.spec.node_name.is_empty() || pod.spec.node_name == *node);
            }
            snapshot.nodes.retain(|node| node_selector.matches(&node.metadata.labels));
        }
        Ok(snapshot)
    }

    /// Takes the snapshot out, which is possible once.
    fn take(&self, namespace: Option<&str>) -> Result<Snapshot, ClusterError> {
        if let (Some(wanted), Some(dumped)) = (namespace, &self.namespace)
            && wanted != dumped
        {
            let problem = format!("was made of namespace {dumped:?} only, and {wanted:?} is asked for");
            return Err(ClusterError::file(&self.name, problem)
                .hint(format!("ask with `-n {dumped}`, or make a dump with `kubectl ds snapshot -A`")));
        }
        let taken = self.snapshot.borrow_mut().take();
        taken.ok_or_else(|| ClusterError::file(&self.name, "was read before, and is read once"))
    }

    /// Makes the error of a change that is asked of a dump.
    pub(super) fn refuse_write(&self) -> ClusterError {
        ClusterError::file(&self.name, "is a dump, which cannot be changed")
    }

    fn check_node(&self, node: &str, snapshot: &Snapshot) -> Result<(), ClusterError> {
        if snapshot.gaps.iter().any(|gap| gap.kind == Kind::Nodes) {
            return Err(ClusterError::file(&self.name, format!("has no nodes, so that nothing is known of {node:?}"))
                .hint("make the dump with `kubectl ds snapshot`, or add `kubectl get nodes -o json` to it"));
        }
        let existing = || snapshot.nodes.iter().map(|existing| existing.metadata.name.as_str());
        // Pods may outlive their node.
        if existing().any(|name| name == node) || snapshot.pods.iter().any(|pod| suggestions::is_for_node(pod, node)) {
            return Ok(());
        }
        Err(self.not_found(suggestions::unknown_node(node, existing())))
    }

    /// Turns the server's not-found error into one about this dump.
    pub(super) fn not_found(&self, error: ClusterError) -> ClusterError {
        let ClusterError::NotFound { resource, name, near, elsewhere, .. } = &error else { return error };
        let in_dump = ClusterError::file(&self.name, format!("{resource} {name:?} not found"));
        // Other hints are about commands against a cluster.
        if near.is_empty() && elsewhere.is_empty() {
            in_dump
        } else {
            error.hints().into_iter().fold(in_dump, ClusterError::hint)
        }
    }
}

/// Tells whose pods are all there, as far as it is certain.
fn pods_complete(objects: &Objects) -> PodsComplete {
    let mut nodes = BTreeSet::new();
    for header in &objects.headers {
        match &header.pods {
            Pods::Everywhere => return PodsComplete::Everywhere,
            Pods::OnNodes(names) => nodes.extend(names.iter().cloned()),
        }
    }
    if objects.headers.is_empty() && objects.pods_everywhere {
        PodsComplete::Everywhere
    } else {
        PodsComplete::On(nodes)
    }
}

/// Says what the dump lacks: whole kinds, and pods of namespaces that have a DaemonSet.
fn gaps(objects: &Objects, pods_complete: &PodsComplete) -> Vec<Gap> {
    let mut gaps: Vec<Gap> = Vec::new();
    for gap in objects.headers.iter().flat_map(|header| header.gaps()) {
        if !gaps.contains(&gap) {
            gaps.push(gap);
        }
    }
    let not_in_dump = |kind, namespace| Gap { kind, namespace, cause: GapCause::NotInDump };
    let read: BTreeSet<Kind> =
        objects.headers.iter().flat_map(|header| header.kinds()).chain(objects.kinds.iter().copied()).collect();
    for kind in Kind::ALL {
        if !read.contains(&kind) && !gaps.iter().any(|gap| gap.kind == kind && gap.namespace.is_none()) {
            gaps.push(not_in_dump(kind, None));
        }
    }
    if objects.headers.is_empty() && *pods_complete != PodsComplete::Everywhere && read.contains(&Kind::Pods) {
        // A list of all namespaces has no pod of a namespace that has none, if the status of its DaemonSets agrees.
        let lacks_pods = |daemon_set: &&DaemonSet| {
            let is_listed = objects.lists_all_namespaces && !daemon_set.status.counts_pods();
            !is_listed && !objects.pod_namespaces.contains(&daemon_set.metadata.namespace)
        };
        let missing: BTreeSet<_> =
            objects.daemon_sets.iter().filter(lacks_pods).map(|daemon_set| &daemon_set.metadata.namespace).collect();
        gaps.extend(missing.into_iter().map(|namespace| not_in_dump(Kind::Pods, Some(namespace.clone()))));
    }
    gaps
}
