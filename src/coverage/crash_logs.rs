//! Pods that crash without a termination message, so that only their logs tell why.

use super::verdict::containers::silent_crash;
use super::verdict::telling::last_line;
use crate::facts::index::Index;
use crate::model::snapshot::Snapshot;
use crate::report::coverage::{CoverageReport, CrashLog, ReasonGroup};
use crate::report::reason::ReasonCode;

/// The most logs that are read.
const MOST: usize = 3;

/// A pod that crashes without a termination message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SilentCrash {
    /// The namespace.
    pub(crate) namespace: String,
    /// The pod.
    pub(crate) pod: String,
    /// The node.
    pub(crate) node: String,
    /// The container that crashes.
    pub(crate) container: String,
    /// Whether the log of its previous run tells why.
    pub(crate) previous: bool,
}

/// Returns one such pod of each group of nodes whose pods crash, of at most three groups.
pub(crate) fn silent_crashes(report: &CoverageReport, snapshot: &Snapshot) -> Vec<SilentCrash> {
    let index = Index::new(snapshot);
    let daemon_sets = index.daemon_sets();
    let groups = report.daemon_sets.iter().flat_map(|daemon_set| {
        let object = daemon_sets.iter().find(|object| {
            let name = &object.metadata;
            (&name.namespace, &name.name) == (&daemon_set.namespace, &daemon_set.name)
        });
        object.into_iter().flat_map(|object| daemon_set.groups.iter().map(|group| (*object, group)))
    });
    let crashing = groups.filter(|(_, group)| group.code == ReasonCode::CrashLooping);
    let first = |(daemon_set, group): (_, &ReasonGroup)| {
        let is_in_group = |node: &str| group.nodes.binary_search_by(|name| name.as_str().cmp(node)).is_ok();
        let pods = index.pods_of(daemon_set).filter(|(node, _)| is_in_group(node));
        let crashes = pods.filter_map(|(node, pod)| {
            let (container, previous) = silent_crash(pod, snapshot.now)?;
            let (namespace, pod) = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
            Some(SilentCrash { namespace, pod, node: node.to_owned(), container: container.to_owned(), previous })
        });
        crashes.min_by(|one, other| (&one.node, &one.pod).cmp(&(&other.node, &other.pod)))
    };
    crashing.filter_map(first).take(MOST).collect()
}

/// Adds to a report the last line that a pod has logged before it crashed: to its group, and to the row of its node.
/// `previous` tells whether the log is that of the previous run.
pub(crate) fn add_crash_log(report: &mut CoverageReport, crash: &SilentCrash, previous: bool, log: &str) {
    let SilentCrash { namespace, pod, node, container, .. } = crash;
    let last_line = last_line(log);
    let words = match &last_line {
        Some(line) => format!("; last log line of {pod}: {line:?}"),
        None => format!("; the log of {pod} is empty"),
    };
    for daemon_set in report.daemon_sets.iter_mut().filter(|daemon_set| daemon_set.namespace == *namespace) {
        let is_meant = |group: &&mut ReasonGroup| group.code == ReasonCode::CrashLooping && group.nodes.contains(node);
        let Some(group) = daemon_set.groups.iter_mut().find(is_meant) else { continue };
        group.message += &words;
        let (pod, container) = (pod.clone(), container.clone());
        group.crash_log = Some(CrashLog { pod, container, previous, last_line: last_line.clone() });
        let row = daemon_set.nodes.iter_mut().find(|row| row.name == *node);
        let Some(row) = row else { continue };
        let Some(reason) = row.reasons.iter_mut().find(|reason| reason.code == ReasonCode::CrashLooping) else {
            continue;
        };
        if let Some(explanation) = row.explanation.as_mut().filter(|it| it.summary.ends_with(&reason.message)) {
            explanation.summary += &words;
        }
        reason.message += &words;
    }
}
