//! The reports of `history`.

use jiff::Timestamp;

use super::change::Change;
use super::coverage::Incomplete;
use super::fix::Command;

/// The revisions of one DaemonSet, the newest first.
#[apply(answer!)]
pub struct HistoryReport {
    /// The DaemonSet.
    pub daemon_set: DaemonSetName,
    /// The time that ages are relative to.
    pub now: Timestamp,
    /// What could not be read, which makes the report partial.
    pub incomplete: Vec<Incomplete>,
    /// Further remarks, a sentence each.
    pub notes: Vec<String>,
    /// Revisions that match the selector but belong to another owner.
    pub skipped: Vec<SkippedRevision>,
    /// The revisions, the newest first.
    pub revisions: Vec<RevisionRow>,
    /// How many pods are of revisions that are no longer retained; absent if that is not known.
    pub other_pods: Option<usize>,
}

impl super::Report for HistoryReport {
    const KINDS: &'static [&'static str] = &["HistoryReport"];

    fn names(&self) -> Vec<String> {
        self.revisions.iter().map(|row| format!("controllerrevision.apps/{}", row.name)).collect()
    }
}

/// Names a DaemonSet.
#[apply(answer!)]
#[derive(Eq)]
pub struct DaemonSetName {
    /// `apps/v1`, or of an Advanced DaemonSet `apps.kruise.io/v1beta1` or `apps.kruise.io/v1alpha1`.
    pub api_version: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl DaemonSetName {
    /// Returns the command that runs a subcommand on it.
    pub(crate) fn command(&self, subcommand: &str) -> Command {
        Command::kubectl(&["ds", subcommand]).namespace(&self.namespace).name(self.short())
    }

    /// Returns the command that rolls it back to a revision. Everywhere it is the same, so that it is not suggested twice.
    pub(crate) fn undo(&self, revision: i64) -> Command {
        let undo = Command::kubectl(&["ds", "undo"]).flag("--to-revision", revision.to_string());
        undo.namespace(&self.namespace).name(self.short())
    }

    /// Returns the command that compares two of its revisions.
    pub(crate) fn diff(&self, from: i64, to: i64) -> Command {
        let history = Command::kubectl(&["ds", "history"]).namespace(&self.namespace);
        history.flag("--diff", format!("{from}..{to}")).name(self.short())
    }

    /// Returns the name as kubectl prints it, such as `daemonset.apps/agent`.
    pub fn full(&self) -> String {
        let group = self.api_version.split('/').next().unwrap_or_default();
        format!("daemonset.{group}/{}", self.name)
    }

    /// Returns the name as sentences begin with it, such as `team/agent` or `Advanced DaemonSet team/agent`.
    pub fn title(&self) -> String {
        let flavor = if self.is_advanced() { "Advanced DaemonSet " } else { "" };
        format!("{flavor}{}/{}", self.namespace, self.name)
    }

    /// Returns the name as commands of this tool take it, such as `agent` or `ads/agent`.
    pub fn short(&self) -> String {
        if self.is_advanced() { format!("ads/{}", self.name) } else { self.name.clone() }
    }

    /// Returns whether it is an Advanced DaemonSet of OpenKruise.
    pub(crate) fn is_advanced(&self) -> bool {
        self.api_version != "apps/v1"
    }
}

/// A revision that belongs to another owner.
#[apply(answer!)]
pub struct SkippedRevision {
    /// The name of the ControllerRevision.
    pub name: String,
    /// Why it is not counted, a fragment.
    pub reason: String,
}

/// One revision.
#[apply(answer!)]
pub struct RevisionRow {
    /// The number: the highest is the current one, once the controller has acted.
    pub revision: i64,
    /// The name of the ControllerRevision.
    pub name: String,
    /// The hash that pods of it carry.
    pub hash: String,
    /// Whether the live template is this one.
    pub current: bool,
    /// When it was created; absent if unknown.
    pub created_at: Option<Timestamp>,
    /// When it was last rolled out; absent if unknown.
    pub rolled_out_at: Option<Timestamp>,
    /// Whether it was rolled out again after its creation, which has raised its number.
    pub rolled_out_again: bool,
    /// The images, init containers' first.
    pub images: Vec<String>,
    /// The change-cause annotation at the time the revision was created.
    pub change_cause: Option<String>,
    /// Its pods; absent if pods could not be read.
    pub pods: Option<RevisionPods>,
    /// The differences from what ran before: the previous revision, or one that was returned to since; empty for the oldest.
    pub changes: Vec<Change>,
    /// A short summary of each difference.
    pub summary: Vec<String>,
    /// The revision that was rolled back to this one, which existed before it; absent if this one was rolled out first.
    pub rolled_back_from: Option<i64>,
    /// An older revision, or the one that it replaced, with an equivalent template.
    pub same_as: Option<i64>,
    /// Why its template cannot be read, a fragment; absent if it can.
    pub problem: Option<String>,
}

/// The pods of a revision.
#[apply(answer!)]
#[derive(Copy, Default)]
pub struct RevisionPods {
    /// Those that are ready.
    pub ready: usize,
    /// All of them, including terminating ones.
    pub total: usize,
}

/// How two templates differ.
#[apply(answer!)]
pub struct RevisionDiff {
    /// The DaemonSet.
    pub daemon_set: DaemonSetName,
    /// The template before.
    pub from: DiffSide,
    /// The template after.
    pub to: DiffSide,
    /// The differences.
    pub changes: Vec<Change>,
}

impl super::Report for RevisionDiff {
    const KINDS: &'static [&'static str] = &["RevisionDiff"];
}

/// One of the two compared templates.
#[apply(answer!)]
pub struct DiffSide {
    /// Where the template is from.
    pub source: TemplateSource,
    /// The file of a manifest; `-` for standard input.
    pub file: Option<String>,
    /// The number of the revision; absent if the template is not that of a revision.
    pub revision: Option<i64>,
    /// Whether it is the live template.
    pub current: bool,
}

/// Where a template is from.
#[apply(value!)]
pub enum TemplateSource {
    /// A revision.
    Revision,
    /// The DaemonSet itself.
    Live,
    /// A manifest that the user gave.
    Manifest,
}
