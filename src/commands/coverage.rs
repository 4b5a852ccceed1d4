//! `coverage`: why does this node have no pod?

use std::collections::BTreeSet;
use std::io::Write;

use clap::Args;

use super::node_choice::{NodeChoiceArgs, NodeSelection, check_selected, labels};
use super::output::{self, Output, formats};
use super::parse::{grouping_label, parse_names, parse_node};
use super::session::{GlobalArgs, Session};
use super::several::{self, Answer};
use super::{Failure, RunCommand, gate};
use crate::cluster::{CoverageScope, Query, Wanted, similar_names};
use crate::coverage::filter::CoverageFilter;
use crate::coverage::options::{Detail, Options};
use crate::coverage::pending_preemption::preempts;
use crate::coverage::walk::coverage;
use crate::error::{CommandError, Exit};
use crate::facts::index::nodes_needing_all_pods;
use crate::facts::revisions::Revisions;
use crate::io::Io;
use crate::model::node::ZONE;
use crate::model::snapshot::Snapshot;
use crate::render;
use crate::render::page::Page;
use crate::report::clusters::ClusterReports;
use crate::report::coverage::CoverageReport;
use crate::report::fix::{Command, Fix};
use crate::rollout::fleet::note_rollouts;
use crate::rollout::history::changes_between;
use crate::rollout::status::coverage::add_blame;

/// Show which nodes lack an available pod, why, and what to do
#[derive(Debug, Clone, Args)]
#[command(before_help = "# Group what is wrong with all DaemonSets by reason
kubectl ds coverage -A

# Show which nodes lack a pod of one DaemonSet, why, and what to do
kubectl ds coverage node-exporter -n monitoring

# Explain one node in full
kubectl ds coverage node-exporter -n monitoring --node general-c4

# Fail a pipeline if an eligible node lacks an available pod
kubectl ds coverage node-exporter -n monitoring --exit-code")]
#[command(
    after_help = "Exit codes: 0, also if nothing matches; 1 error; 2 usage; 3 with --exit-code, if an eligible node lacks an \
                        available pod, and 5 if the answer is partial; 4 timed out; 130 interrupted."
)]
pub struct CoverageArgs {
    /// The DaemonSets; by default all in the namespace
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Explain this one node in full.
    ///
    /// Without NAME, list the DaemonSets of all namespaces that should run on it.
    #[arg(long, help_heading = "Nodes", value_name = "NODE", conflicts_with_all = ["nodes", "node_selector", "by", "state"])]
    node: Option<String>,
    /// Show a row per node, those in trouble first
    #[arg(long, help_heading = "Nodes")]
    nodes: bool,
    #[command(flatten)]
    choice: NodeChoiceArgs,
    /// Only nodes and DaemonSets that need attention
    #[arg(long)]
    problems: bool,
    /// Show the counts by the value of a node label.
    ///
    /// Such as topology.kubernetes.io/zone. The default is that of KUBECTL_DS_BY.
    #[arg(long, help_heading = "Nodes", value_name = "LABEL", conflicts_with_all = ["nodes", "state"])]
    by: Option<String>,
    /// Show a map of the nodes, a glyph for each.
    ///
    /// Grouped by the label of --by, or by zone.
    #[arg(long, help_heading = "Nodes", conflicts_with_all = ["node", "nodes", "state"])]
    map: bool,
    /// Exit with 3 if an eligible node lacks an available pod.
    ///
    /// Exit with 5 if that could not be determined, and with 1 if there is no DaemonSet.
    #[arg(long)]
    exit_code: bool,
    /// Output format. One of: (wide, json, yaml, name).
    ///
    /// wide shows each DaemonSet in full, however many there are, and with --nodes or --node more columns.
    #[arg(short, long, value_name = "FORMAT", value_parser = formats(&[Output::Wide, Output::Json, Output::Yaml, Output::Name]), hide_possible_values = true)]
    output: Option<Output>,
}

/// Which DaemonSets and nodes to report, and how to display them.
struct CoverageQuestion {
    names: Vec<String>,
    options: Options,
    /// Whether every node has a row.
    nodes: bool,
    selection: NodeSelection,
    /// The selected part of the report.
    filter: CoverageFilter,
    output: Option<Output>,
    /// Whether the exit code tells if every eligible node has an available pod.
    exit_code: bool,
}

impl RunCommand for CoverageArgs {
    async fn run(self, mut target: GlobalArgs, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        let CoverageArgs { names, node, nodes, choice, problems, by, map, exit_code, output } = self;
        let (namespace, names) = parse_names(&names)?;
        let node = node.as_deref().map(parse_node).transpose()?;
        let has_counts = node.is_none() && !nodes && choice.state.is_empty();
        // If `--by` cannot be used, the environment variable is ignored, too.
        let by = if has_counts && !target.are_several() { grouping_label(by, io)? } else { by };
        let (filter, selection) = choice.resolve()?;
        let nodes = nodes || !filter.states.is_empty();
        let detail = match node {
            Some(_) => Detail::Explain,
            None if nodes || map || output.is_some_and(Output::is_data) => Detail::Nodes,
            None => Detail::Groups,
        };
        let options = Options {
            detail,
            node,
            map: map.then(|| by.clone().unwrap_or_else(|| ZONE.to_owned())),
            by: by.filter(|_| !map),
            node_selector: selection.selector.clone(),
        };
        let filter = CoverageFilter { problems, ..filter };
        let question = CoverageQuestion { names, options, nodes, selection, filter, output, exit_code };
        let CoverageQuestion { names, options: Options { node, by, .. }, .. } = &question;
        if target.are_several() {
            let one = [(node.is_some(), "--node"), (nodes, "a row per node"), (by.is_some(), "--by"), (map, "--map")];
            if let Some((_, flag)) = one.into_iter().find(|(is_given, _)| *is_given) {
                return Err(several::refuse(flag));
            }
            let ask = async |session: &Session, io: &mut Io<'_>| question.answer(session, io).await;
            let named = (namespace.as_deref(), names.as_slice());
            let text = |reports: &ClusterReports<_>, page: &mut Page<'_>| render::overview::overview(reports, page);
            return several::run(&target, named, output, io, out, ask, text).await;
        }
        // A node without a DaemonSet's name means every DaemonSet of the cluster.
        if node.is_some() && names.is_empty() {
            target.widen();
        }
        let session = target.open(namespace, names, io).await?;
        let Answer { mut report, exit } = question.answer(&session, io).await?;
        output::print(output, &mut report, &session.view_for(output), out, |report, page| {
            question.write(report, page)
        })?;
        Ok(exit?)
    }
}

impl CoverageQuestion {
    async fn answer(&self, session: &Session, io: &mut Io<'_>) -> Result<Answer<CoverageReport>, Failure> {
        let CoverageQuestion { names, options, selection, filter, output, exit_code, .. } = self;
        let Options { node, by, map, node_selector, .. } = options;
        let is_data = output.is_some_and(Output::is_data);
        let (node_selector, only) = (node_selector.clone(), node.clone());
        let config = names.len() == 1 && only.is_none();
        let scope = CoverageScope { node: only, node_selector, config, ..CoverageScope::default() };
        let query = Query { names: names.clone(), wanted: Wanted::Coverage(scope), ..Query::default() };
        let needs_all_pods_on = |snapshot: &Snapshot| match node {
            Some(node) => BTreeSet::from([node.clone()]),
            None => nodes_needing_all_pods(snapshot),
        };
        let mut snapshot = session.read_with_pods(query, io, needs_all_pods_on).await?;
        if !snapshot.budgets_complete && preempts(&snapshot) {
            session.read_budgets(&mut snapshot, io).await?;
        }
        session.note_admissions(&mut snapshot, io).await;
        check_selected(&snapshot, selection)?;
        check_grouping(&snapshot, by.as_deref(), map.as_deref(), io)?;
        let mut report = coverage(&snapshot, options);
        add_blame(&snapshot, &mut report);
        if let Some(node) = report.node.as_mut().filter(|_| names.is_empty()) {
            node.namespace = session.namespace.clone();
        }
        note_rollouts(&mut report.incidents, &snapshot);
        tell_changes(&mut report, &snapshot);
        let counts = report.daemon_sets.iter().map(|daemon_set| &daemon_set.counts);
        let gate = gate::all_available(counts, &report.incomplete, session);
        filter.apply(&mut report);
        let is_shown = is_data || !report.daemon_sets.is_empty();
        let exit = session.conclude(&snapshot, filter, is_shown, exit_code.then_some(gate), io)?;
        Ok(Answer { report, exit })
    }

    fn write(&self, report: &CoverageReport, page: &mut Page<'_>) {
        let wide = self.output == Some(Output::Wide);
        match &self.options.node {
            Some(_) if self.names.len() == 1 && report.daemon_sets.iter().any(|one| !one.nodes.is_empty()) => {
                render::explanation::explanation(report, wide, page)
            }
            Some(node) => render::node::table(report, node, wide, page),
            None if self.nodes => render::nodes::table(report, wide, page),
            None if report.daemon_sets.len() > 1 && !wide && self.options.by.is_none() => {
                render::overview::overview(report, page)
            }
            None => render::coverage::groups(report, wide, page),
        }
        let maps = report.daemon_sets.iter().map(|one| (&*one.namespace, &*one.name, one.map.as_ref()));
        render::node_map::maps(maps, page);
    }
}

/// Adds to each failing revision what it changed.
fn tell_changes(report: &mut CoverageReport, snapshot: &Snapshot) {
    for daemon_set in &mut report.daemon_sets {
        let revisions = daemon_set.common_causes.iter_mut().filter_map(|cause| cause.revision.as_mut());
        for failing in revisions {
            let (Some(from), Some(to)) = (failing.available_revision, failing.number) else { continue };
            if let Some(daemon_set) = snapshot.daemon_set(&daemon_set.namespace, &daemon_set.name) {
                failing.changes = changes_between(&Revisions::of(daemon_set, snapshot), from, to);
            }
        }
    }
}

/// Checks that some node has the label by which counts or a map are grouped; the default label of a map is shown as missing.
fn check_grouping(snapshot: &Snapshot, by: Option<&str>, map: Option<&str>, io: &Io<'_>) -> Result<(), CommandError> {
    by.or(map.filter(|label| *label != ZONE)).map_or(Ok(()), |label| check_label(snapshot, label, io))
}

/// Checks that some node has the label by which counts are broken down.
pub(super) fn check_label(snapshot: &Snapshot, label: &str, io: &Io<'_>) -> Result<(), CommandError> {
    let keys: BTreeSet<&str> =
        snapshot.nodes.iter().flat_map(|node| node.metadata.labels.keys()).map(String::as_str).collect();
    if keys.is_empty() || keys.contains(label) {
        return Ok(());
    }
    let of_variable = if io.variable("KUBECTL_DS_BY") == Some(label) { ", which KUBECTL_DS_BY names" } else { "" };
    let error = CommandError::new(format!("no node has label {label:?}{of_variable}"));
    Err(match similar_names(label, keys).as_slice() {
        [] => error.hint(labels()),
        near => error.hint(Fix::new("similar labels", Command::choice("", near))),
    })
}
