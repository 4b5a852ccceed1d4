//! `preview`: what would change if a manifest were applied, a DaemonSet edited, or nodes labeled and tainted?

use std::io::Write;

use clap::Args;

use super::change::only_one;
use super::coverage::check_label;
use super::node_choice::{NodeSelection, check_selected};
use super::output::{self, Output, formats};
use super::parse::{grouping_label, parse_names, parse_node};
use super::preview_changes::Changes;
use super::proposed::{self, admission, live, proposed};
use super::session::GlobalArgs;
use super::{Failure, RunCommand, gate};
use crate::cluster::manifest::{Apply, Manifests};
use crate::cluster::{CoverageScope, Query, Wanted};
use crate::coverage::preview::{PreviewOptions, Proposed, preview};
use crate::encode::sanitize::sanitize;
use crate::error::{CommandError, Exit};
use crate::facts::index::Index;
use crate::io::Io;
use crate::model::daemon_set::DaemonSet;
use crate::model::daemon_set_edit::DaemonSetEdit;
use crate::model::snapshot::{Kind, Snapshot};
use crate::render;
use crate::render::preview::PreviewDetail;
use crate::report::coverage::Incomplete;
use crate::report::fix::{Command, Fix};
use crate::report::plan::Warning;
use crate::report::preview::Preview;
use crate::rollout::change_warnings::down_warnings;
use crate::rollout::forecast;
use crate::rollout::replacement_warnings::{Replacement, replacement_warnings};
use crate::rollout::situation::Situation;

/// Show what a change would do, before it is made
///
/// Of a manifest, of a few fields of a DaemonSet, or of taints and labels of nodes: which nodes would gain, keep or lose a pod, and on
/// which one would not start or fit.
#[derive(Debug, Clone, Args)]
#[command(before_help = "# Show where the pods of a changed manifest would run, before applying it
kubectl ds preview -f daemonset.yaml

# The same for the DaemonSets of a directory, with a row per node
kubectl ds preview -f . --nodes

# Show where a DaemonSet would run if it tolerated a taint
kubectl ds preview falco -n falco --if 'toleration team=ml:NoSchedule'

# Show on which nodes its pods would not fit if they requested more
kubectl ds preview falco -n falco --if 'request cpu=500m,memory=1Gi'

# Show which DaemonSets would lose pods if nodes had a taint
kubectl ds preview --if 'taint team=ml:NoSchedule' --node general-a1")]
#[command(
    after_help = "Exit codes: 0, whatever would change; 1 error; 2 usage; 3 with --exit-code, if the change does harm, and 5 if the \
                        answer is partial; 4 timed out; 130 interrupted."
)]
pub struct PreviewArgs {
    /// The DaemonSet; of changed nodes, by default all
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Preview a manifest: what would change if applied.
    ///
    /// A file, a directory, or - for standard input; may be repeated.
    #[arg(short, long, value_name = "MANIFEST", conflicts_with_all = ["names", "selector", "all_namespaces"])]
    filename: Vec<String>,
    /// With -f: preview `kubectl apply --server-side`.
    ///
    /// By default what was used last, and else a client-side apply.
    #[arg(long, requires = "filename", conflicts_with = "replace")]
    server_side: bool,
    /// With -f: take over fields of other managers.
    ///
    /// As `kubectl apply --server-side --force-conflicts` does.
    #[arg(long, requires = "filename", conflicts_with = "replace")]
    force_conflicts: bool,
    /// With -f: preview `kubectl replace`
    #[arg(long, requires = "filename")]
    replace: bool,
    /// Preview this change; may be repeated.
    ///
    /// Of the DaemonSet NAME: 'toleration KEY[=VALUE][:EFFECT]', 'nodeSelector KEY=VALUE', 'nodeSelector KEY-', 'image
    /// CONTAINER=IMAGE', 'request [CONTAINER:]cpu=200m,memory=1Gi' (without CONTAINER of the only container), or 'maxUnavailable 10%'.
    /// Of nodes, which --node or --node-selector chooses, as kubectl takes it: 'taint KEY=VALUE:EFFECT', 'taint KEY:EFFECT-', 'label
    /// KEY=VALUE' or 'label KEY-'.
    #[arg(long = "if", value_name = "CHANGE")]
    changes: Vec<String>,
    /// Only this node
    #[arg(long, help_heading = "Nodes", value_name = "NODE", conflicts_with_all = ["nodes", "node_selector", "by"])]
    node: Option<String>,
    /// Only nodes with these labels
    #[arg(long, help_heading = "Nodes", value_name = "SELECTOR")]
    node_selector: Option<String>,
    /// Show a row per node
    #[arg(long, help_heading = "Nodes")]
    nodes: bool,
    /// Show the counts by the value of a node label.
    ///
    /// Such as topology.kubernetes.io/zone.
    #[arg(long, help_heading = "Nodes", value_name = "LABEL", conflicts_with = "nodes")]
    by: Option<String>,
    /// Exit with 3 if the change does harm.
    ///
    /// That is, if a pod would not start or fit, the rollout would block or delete a pod that is not recreated, or more than half of the
    /// nodes would lose theirs; with a change of nodes, also if a pod would be lost, evicted, or not be recreated. Exit with 5 if that could not be determined.
    #[arg(long)]
    exit_code: bool,
    /// Output format. One of: (wide, json, yaml).
    ///
    /// wide is --nodes without a limit to the width.
    #[arg(short, long, value_name = "FORMAT", value_parser = formats(&[Output::Wide, Output::Json, Output::Yaml]), hide_possible_values = true)]
    output: Option<Output>,
}

impl RunCommand for PreviewArgs {
    async fn run(self, mut target: GlobalArgs, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        let PreviewArgs {
            names,
            filename,
            server_side,
            force_conflicts,
            replace,
            changes: texts,
            node,
            node_selector,
            nodes,
            by,
            exit_code,
            output,
        } = self;
        let (namespace, names) = parse_names(&names)?;
        let changes = Changes::parse(&texts)?;
        let node = node.as_deref().map(parse_node).transpose()?;
        let node_selector = NodeSelection::parse(node_selector)?;
        let by = by.map(|label| grouping_label(Some(label), io)).transpose()?.flatten();
        let chooses_nodes = node.is_some() || !node_selector.selector.is_empty();
        check(&changes, (&names, &filename), chooses_nodes)?;
        let (session, read) = if filename.is_empty() {
            // Nodes without a DaemonSet's name mean every DaemonSet of the cluster.
            if names.is_empty() {
                target.widen();
            }
            (target.open(namespace, &names, io).await?, None)
        } else {
            let (session, read) = proposed::open(&filename, &target, io).await?;
            (session, Some(read))
        };
        let scope = CoverageScope {
            node: node.clone(),
            node_selector: node_selector.selector.clone(),
            admission: true,
            without_blame: true,
            ..CoverageScope::default()
        };
        let query = Query { names, wanted: Wanted::Coverage(scope), ..Query::default() };
        let all_nodes = |snapshot: &Snapshot| snapshot.nodes.iter().map(|node| node.metadata.name.clone()).collect();
        let mut snapshot = session.read_with_pods(query, io, all_nodes).await?;
        check_selected(&snapshot, &node_selector)?;
        session.check_unknown_names(&snapshot)?;
        if read.is_none() && snapshot.daemon_sets.is_empty() {
            return Err(session.none_found().into());
        }
        if !Index::new(&snapshot).knows_some_nodes() {
            return Err(CommandError::new("what would change is not known: the nodes could not be read")
                .exit(Exit::Partial)
                .into());
        }
        // A pod may be left of a node that is gone.
        if let Some(node) = node.as_ref().filter(|node| snapshot.nodes.iter().all(|it| it.metadata.name != **node)) {
            return Err(CommandError::new(format!("node {node:?} not found")).into());
        }
        let how = match (server_side || force_conflicts, replace) {
            (true, _) => Some(Apply::ServerSide { force_conflicts }),
            (false, true) => Some(Apply::Replace),
            (false, false) => None,
        };
        let read = match read {
            Some(read) => Some((read, how)),
            None if changes.daemon_set.is_empty() => None,
            None => Some((edited(only_one(&snapshot)?, &changes.daemon_set, &texts)?, Some(Apply::Replace))),
        };
        let mut all = Vec::new();
        if let Some((read, how)) = &read {
            read.add_others_to(&mut snapshot);
            session.read_quotas(&mut snapshot, io).await;
            session.note_admissions(&mut snapshot, io).await;
            for manifest in &read.daemon_sets {
                let live = live(&snapshot, manifest);
                let how = how.unwrap_or_else(|| live.map_or(Apply::ClientSide, Apply::last_used_on));
                let daemon_set = proposed(read, manifest, how, &snapshot, &session, io).await?;
                let admission = admission(&daemon_set, read, live, &snapshot, &session, io).await?;
                session.print_warnings(io)?;
                let preview = match (live, how) {
                    _ if !changes.daemon_set.is_empty() => Preview::Edit,
                    (None, _) => Preview::Create,
                    (Some(_), Apply::ClientSide) => Preview::ClientSideApply,
                    (Some(_), Apply::ServerSide { .. }) => Preview::ServerSideApply,
                    (Some(_), Apply::Replace) => Preview::Replace,
                };
                all.push(Proposed { daemon_set, preview, admission: Some(admission) });
            }
        } else {
            let existing = snapshot.daemon_sets.iter().filter(|one| !one.metadata.is_terminating()).cloned();
            all.extend(existing.map(|daemon_set| Proposed {
                daemon_set,
                preview: Preview::Unchanged,
                admission: None,
            }));
        }
        if let Some(label) = &by {
            check_label(&snapshot, label, io)?;
        }
        for one in &all {
            session.read_on_demand(&mut snapshot, &one.daemon_set).await;
        }
        let is_wide = output == Some(Output::Wide) && (all.len() == 1 || changes.nodes.is_empty());
        let rows = nodes || is_wide || by.is_some();
        let options = PreviewOptions { nodes: changes.nodes, changes: texts, by, all_nodes: !chooses_nodes, rows };
        let mut report = preview(&snapshot, &all, &options);
        if report.daemon_sets.iter().any(|one| !one.fits_by_preemption.is_empty()) {
            // They determine which pods the scheduler preempts.
            session.read_budgets(&mut snapshot, io).await?;
            report = preview(&snapshot, &all, &options);
        }
        for one in &mut report.daemon_sets {
            let mut proposed = all.iter().map(|proposed| &proposed.daemon_set);
            let after = proposed.find(|other| other.metadata.is_named(&one.namespace, &one.name));
            let live = snapshot.daemon_set(&one.namespace, &one.name);
            if let (Some(after), true) = (after, one.preview != Preview::Unchanged) {
                one.warnings = warnings(after, live, one.template_changes == Some(false), &snapshot);
            }
        }
        let shown = match (node, nodes || is_wide) {
            (Some(_), _) => PreviewDetail::Node,
            (None, true) => PreviewDetail::Nodes,
            (None, false) => PreviewDetail::Groups,
        };
        output::print(output, &mut report, &session.view_for(output), out, |report, page| {
            render::preview::preview(report, shown, page);
        })?;
        if !exit_code {
            return Ok(Exit::Success);
        }
        // Which pods the scheduler preempts does not affect whether a pod fits.
        let matters = |gap: &Incomplete| gap.resource != Kind::PodDisruptionBudgets.resource();
        let passes = report.passes();
        Ok(gate::preview(passes, &report.incomplete.into_iter().filter(matters).collect::<Vec<_>>())?)
    }
}

/// Checks that there is a change, and that its target is known.
fn check(changes: &Changes, of: (&[String], &[String]), chooses_nodes: bool) -> Result<(), CommandError> {
    let (edits, (names, manifests)) = (!changes.daemon_set.is_empty(), of);
    if manifests.is_empty() && !edits && changes.nodes.is_empty() {
        let file = names.iter().find(|name| [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end)));
        if let Some(file) = file {
            let preview = Command::kubectl(&["ds", "preview", "-f", file]);
            return Err(
                CommandError::usage("nothing to preview").hint(Fix::new("a manifest is given with -f", preview))
            );
        }
        return Err(CommandError::usage("nothing to preview")
            .hint("give -f MANIFEST, NAME --if 'toleration KEY=VALUE:EFFECT' or the like, or --if 'taint KEY=VALUE:EFFECT' of nodes"));
    }
    if edits && !manifests.is_empty() {
        return Err(CommandError::usage("-f and --if of a DaemonSet cannot be given together")
            .hint("make the change in the manifest; --if 'taint ...' and 'label ...' of nodes can be given with it"));
    }
    if edits && names.len() != 1 {
        return Err(CommandError::usage("a change of a DaemonSet needs one DaemonSet: give its name"));
    }
    if !changes.nodes.is_empty() && !chooses_nodes {
        return Err(CommandError::usage("a taint or label needs the nodes to change")
            .hint("give --node NODE or --node-selector SELECTOR; kubernetes.io/os=linux is most likely on all"));
    }
    Ok(())
}

/// Returns the named DaemonSet after the edits.
fn edited(live: &DaemonSet, edits: &[DaemonSetEdit], texts: &[String]) -> Result<Manifests, CommandError> {
    let mut object = live.object.clone();
    for edit in edits {
        edit.apply(&mut object).map_err(|problem| {
            CommandError::new(format!("cannot change DaemonSet {}: {problem}", sanitize(&live.metadata.name)))
        })?;
    }
    Ok(Manifests::of_edited(object, texts.join(", ")))
}

/// Warns about reasons that make a change ineffective, and about its effect on the pods of the existing DaemonSet.
fn warnings(after: &DaemonSet, live: Option<&DaemonSet>, is_same_template: bool, snapshot: &Snapshot) -> Vec<Warning> {
    let index = Index::new(snapshot);
    let Some(live) = live else { return down_warnings(&Situation::new(&index, after)) };
    if is_same_template && after.spec.update_strategy == live.spec.update_strategy {
        // There is no new rollout.
        return Vec::new();
    }
    let before = Situation::new(&index, live);
    let template = after.template();
    let hash = before.revisions.of_template(&template).map_or("", |revision| revision.object.hash());
    let mut then = if is_same_template { live.clone() } else { live.with_template(&template) };
    then.spec.update_strategy = after.spec.update_strategy.clone();
    let replacement = Replacement::of_template(&then, hash, is_same_template);
    let blocks = forecast::warning(forecast::standstill(&before, &replacement).as_ref(), &before, &replacement);
    let replaced = replacement_warnings(&before, &replacement);
    down_warnings(&before).into_iter().chain(blocks).chain(replaced).collect()
}
