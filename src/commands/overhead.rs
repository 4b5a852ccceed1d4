//! `overhead`: what do DaemonSets cost on each node, and what would run on a node that does not exist yet?

use std::collections::BTreeSet;
use std::io::Write;

use clap::Args;

use super::coverage::check_label;
use super::node_choice::{NodeSelection, check_selected};
use super::node_edit::EditArgs;
use super::output::{self, Output, formats};
use super::parse::{grouping_label, parse_node};
use super::session::{GlobalArgs, warn};
use super::{Failure, RunCommand, gate};
use crate::cluster::{CoverageScope, Query, Wanted, manifest};
use crate::coverage::overhead::{OfNodes, PodRequests, new_node_like, overhead};
use crate::encode::sanitize::sanitize;
use crate::error::{CommandError, Exit};
use crate::facts::index::Index;
use crate::io::Io;
use crate::model::node::{INSTANCE_TYPE, Node};
use crate::model::snapshot::Snapshot;
use crate::render;
use crate::report::overhead::OverheadReport;

/// Show what DaemonSets cost per node, and what a new node would run
///
/// The DaemonSets of all namespaces count, with the requests that their pods get when they are created, and for nodes with no other
/// pods than static ones. Advanced DaemonSets of OpenKruise are not counted.
#[derive(Debug, Clone, Args)]
#[command(before_help = "# Show what DaemonSets cost on each type of node
kubectl ds overhead

# Show whether a pod fits beside the DaemonSets on a new node like this one
kubectl ds overhead --like general-a1 --pod cpu=7,memory=20Gi

# Show which DaemonSets a new pool with a taint would run
kubectl ds overhead --like gpu-a1 --taint team=ml:NoSchedule --label pool=ml")]
pub struct OverheadArgs {
    /// Group the nodes by this label.
    ///
    /// The default is that of KUBECTL_DS_BY, or node.kubernetes.io/instance-type.
    #[arg(long, value_name = "LABEL", conflicts_with_all = ["node", "like", "filename"])]
    by: Option<String>,
    /// Only nodes with these labels
    #[arg(long, value_name = "SELECTOR", conflicts_with_all = ["node", "like", "filename"])]
    node_selector: Option<String>,
    /// Only this node
    #[arg(long, value_name = "NODE", conflicts_with_all = ["like", "filename"])]
    node: Option<String>,
    /// A new node like this one
    #[arg(long, value_name = "NODE", conflicts_with = "filename")]
    like: Option<String>,
    /// A new node like that of a manifest.
    ///
    /// - is standard input.
    #[arg(short, long, value_name = "FILE")]
    filename: Option<String>,
    #[command(flatten)]
    edit: EditArgs,
    /// How many pods with these requests fit.
    ///
    /// Beside the DaemonSets, such as cpu=15,memory=48Gi.
    #[arg(long, value_name = "REQUESTS")]
    pod: Option<String>,
    /// Exit with 3 if a DaemonSet does not fit.
    ///
    /// Or the pod of --pod; with 5 if that is not known.
    #[arg(long)]
    exit_code: bool,
    /// Output format. One of: (json, yaml, wide)
    #[arg(short, long, value_name = "FORMAT", value_parser = formats(&[Output::Json, Output::Yaml, Output::Wide]), hide_possible_values = true)]
    output: Option<Output>,
}

impl RunCommand for OverheadArgs {
    async fn run(self, mut target: GlobalArgs, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        let OverheadArgs { by, node_selector, node, like, filename, edit, pod, exit_code, output } = self;
        // A single node cannot be grouped.
        let by = if node.is_none() && like.is_none() && filename.is_none() { grouping_label(by, io)? } else { None };
        let node_selector = NodeSelection::parse(node_selector)?;
        let [node, like] = [node, like].map(|name| name.as_deref().map(parse_node).transpose());
        let (node, like) = (node?, like?);
        let edit = edit.resolve()?;
        if !edit.is_empty() && like.is_none() && filename.is_none() {
            let error = CommandError::usage("--taint, --label and the like change a new node");
            let hint = "give --like NODE; of existing nodes, `kubectl ds preview --if 'taint KEY=VALUE:EFFECT' --node-selector SELECTOR` tells what would change";
            return Err(error.hint(hint).into());
        }
        let pod = pod.map(|text| {
            text.parse::<PodRequests>().map_err(|why| {
                CommandError::usage(format!("invalid --pod {text:?}: {why}"))
                    .hint("give requests such as cpu=15,memory=48Gi,nvidia.com/gpu=1")
            })
        });
        let pod = pod.transpose()?;
        target.widen();
        target.check_input(&filename)?;
        let session = target.open(None, &[], io).await?;
        let described = filename.map(|path| read_node(&path, io)).transpose()?;
        let alone = node.clone().or_else(|| like.clone());
        let scope = CoverageScope {
            node: alone.clone(),
            node_selector: node_selector.selector.clone(),
            admission: true,
            without_blame: true,
            ..CoverageScope::default()
        };
        let query = Query { wanted: Wanted::Coverage(scope), ..Query::default() };
        let all_nodes = |snapshot: &Snapshot| match &alone {
            Some(node) => BTreeSet::from([node.clone()]),
            None => snapshot.nodes.iter().map(|node| node.metadata.name.clone()).collect(),
        };
        let snapshot = session.read_with_pods(query, io, all_nodes).await?;
        check_selected(&snapshot, &node_selector)?;
        if described.is_none() && !Index::new(&snapshot).knows_some_nodes() {
            return Err(CommandError::new("what the nodes run is not known: they could not be read")
                .exit(Exit::Partial)
                .into());
        }
        let existing = |name: &str| -> Result<&Node, CommandError> {
            let found = snapshot.nodes.iter().find(|node| node.metadata.name == name);
            found.ok_or_else(|| CommandError::new(format!("node {name:?} not found")))
        };
        let of = match (described, node, like) {
            (Some(node), ..) => OfNodes::New { node: edit.applied(&node), like: None, left_out: Vec::new() },
            (None, Some(name), _) => OfNodes::Existing(existing(&name)?.clone()),
            (None, None, Some(name)) => {
                let (node, left_out) = new_node_like(existing(&name)?);
                OfNodes::New { node: edit.applied(&node), like: Some(name), left_out }
            }
            (None, None, None) => OfNodes::By(match by {
                Some(label) => {
                    check_label(&snapshot, &label, io)?;
                    label
                }
                None => INSTANCE_TYPE.to_owned(),
            }),
        };
        let mut report = overhead(&snapshot, &of, pod.as_ref());
        if report.daemon_sets_total == 0 && !output.is_some_and(Output::is_data) {
            session.say_none_found(io)?;
        }
        if !session.selector.is_empty() || session.namespace.is_some() {
            let place = session.place();
            let text = format!("only the DaemonSets{place} are counted: less may be left of the nodes than is shown");
            warn(vec![text], io)?;
        } else if let Some(namespace) = &snapshot.only_namespace {
            let text = format!(
                "the dump has the DaemonSets of namespace {} and may lack those of others: less may be left of the nodes than is shown",
                sanitize(namespace)
            );
            warn(vec![text], io)?;
        }
        output::print(output, &mut report, &session.view_for(output), out, |report, page| {
            render::overhead::overhead(report, output == Some(Output::Wide), page);
        })?;
        if exit_code { Ok(gate::preview(passes(&report), &report.incomplete)?) } else { Ok(Exit::Success) }
    }
}

/// Returns whether every DaemonSet fits on its eligible nodes, and the requested pod on each node.
fn passes(report: &OverheadReport) -> bool {
    let mut shapes = report.groups.iter().flat_map(|group| &group.shapes);
    shapes.all(|shape| {
        shape.does_not_fit.is_empty() && shape.may_run.is_empty() && shape.pod_fits.is_none_or(|fits| fits.least > 0)
    })
}

fn read_node(path: &str, io: &mut Io<'_>) -> Result<Node, Failure> {
    io.await_input(path, "a manifest")?;
    let (node, warnings) = manifest::read_node(path, io.input)?;
    warn(warnings, io)?;
    Ok(node)
}
