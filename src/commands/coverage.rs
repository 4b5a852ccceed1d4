//! `coverage`: why does this node have no pod?

use std::collections::BTreeSet;
use std::io::Write;

use clap::Args;

use super::Failure;
use super::output::{self, Output};
use super::session::{GlobalArgs, Target, parse_name, parse_selector};
use crate::cluster::{Query, manifest};
use crate::coverage::walk::{Detail, Options, coverage, nodes_needing_all_pods};
use crate::coverage::what_if::what_if;
use crate::error::{CommandError, Exit};
use crate::io::Io;
use crate::model::selector::{LabelSelector, is_label_key};
use crate::render;
use crate::render::view::View;

/// Say which nodes lack an available pod, why, and what to do
#[derive(Debug, Clone, Args)]
#[command(after_help = "Exit codes: 0; 1 error; 2 usage; 3 with --exit-code, where an eligible node lacks an \
                        available pod; 4 timed out; 130 interrupted.")]
pub struct CoverageArgs {
    /// The DaemonSets; every one in the namespace where none is named
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Explain this one node in full; without NAME, say what of every namespace should run on it
    #[arg(long, value_name = "NODE", conflicts_with_all = ["nodes", "node_selector", "by"])]
    node: Option<String>,
    /// Show a row per node
    #[arg(long)]
    nodes: bool,
    /// Only nodes with these labels
    #[arg(long, value_name = "SELECTOR")]
    node_selector: Option<String>,
    /// Show the counts by the value of this node label, such as topology.kubernetes.io/zone
    #[arg(long, value_name = "LABEL", conflicts_with = "nodes")]
    by: Option<String>,
    /// What if: hold the DaemonSet of this manifest (`-` is standard input) against the cluster
    #[arg(short, long, value_name = "MANIFEST", conflicts_with_all = ["names", "selector", "all_namespaces", "node", "nodes", "by"])]
    filename: Option<String>,
    /// Exit with 3 if an eligible node lacks an available pod; with -f, if a pod would not fit
    #[arg(long)]
    exit_code: bool,
    /// How to print: wide, json, yaml or name
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    output: Option<Output>,
}

struct Settings {
    question: Question,
    node_selector: LabelSelector,
    exit_code: bool,
    output: Option<Output>,
}

enum Question {
    /// How the DaemonSets are covered: by groups of nodes, by node, or by the value of a label.
    Coverage { names: Vec<String>, by: Option<String>, nodes: bool },
    /// One node in full, or what should run on it.
    Node { names: Vec<String>, node: String },
    /// What a manifest would change.
    WhatIf { manifest: String },
}

impl CoverageArgs {
    fn resolve(self, target: &Target) -> Result<Settings, CommandError> {
        let CoverageArgs { names, node, nodes, node_selector, by, filename, exit_code, output } = self;
        let names = names.iter().map(|name| parse_name(name)).collect::<Result<Vec<_>, _>>()?;
        if !names.is_empty() && !target.selector.is_empty() {
            return Err(CommandError::usage("names and --selector cannot be given together"));
        }
        if let Some(label) = by.as_ref().filter(|label| !is_label_key(label)) {
            return Err(CommandError::usage(format!("invalid --by: {label:?} is no label key"))
                .hint("give the key of a node label, such as topology.kubernetes.io/zone"));
        }
        let node_selector = parse_selector("--node-selector", node_selector.as_deref())?;
        let question = match (filename, node) {
            (Some(_), _) if output == Some(Output::Name) => {
                return Err(CommandError::usage("-o name does not go with --filename"));
            }
            (Some(manifest), _) => Question::WhatIf { manifest },
            (None, Some(node)) => Question::Node { names, node },
            (None, None) => Question::Coverage { names, by, nodes: nodes || output == Some(Output::Wide) },
        };
        Ok(Settings { question, node_selector, exit_code, output })
    }
}

/// Runs the subcommand.
///
/// # Errors
///
/// Fails where the source or the manifest cannot be read, or the output not written.
pub fn run(arguments: CoverageArgs, target: GlobalArgs, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut target = target.resolve(io)?;
    let Settings { question, node_selector, exit_code, output } = arguments.resolve(&target)?;
    let view = View::new(io.width, target.ascii);
    let view = if output == Some(Output::Wide) { view.unlimited() } else { view };
    let complete = match question {
        Question::WhatIf { manifest } => run_what_if(&target, &manifest, node_selector, output, &view, io, out)?,
        Question::Coverage { names, by, nodes } => {
            let is_data = matches!(output, Some(Output::Json | Output::Yaml));
            let detail = if nodes || is_data { Detail::Nodes } else { Detail::Groups };
            let options = Options { detail, node: None, by, node_selector: node_selector.clone() };
            let query = Query { names, node_selector, ..Query::default() };
            let session = target.open(io)?;
            let snapshot = session.read(query, io, nodes_needing_all_pods)?;
            let report = coverage(&snapshot, &options);
            if !output::print_data(output, &report, out)? {
                let result = match output {
                    Some(Output::Name) => render::coverage::names(&report, out),
                    _ if nodes => render::nodes::table(&report, &view, out),
                    _ => render::coverage::groups(&report, &view, out),
                };
                result.map_err(Failure::Output)?;
                if report.daemon_sets.is_empty() {
                    session.say_none_found(io)?;
                }
            }
            report.daemon_sets.iter().all(|daemon_set| daemon_set.counts.available == daemon_set.counts.eligible)
        }
        Question::Node { names, node } => {
            // A node is no namespace's: what should run on it is asked of all of them.
            if names.is_empty() {
                target.widen();
            }
            let explain = names.len() == 1 || matches!(output, Some(Output::Json | Output::Yaml));
            let options = Options { detail: Detail::Explain, node: Some(node.clone()), ..Options::default() };
            let query = Query { names, node: Some(node.clone()), ..Query::default() };
            let session = target.open(io)?;
            let snapshot = session.read(query, io, |_| BTreeSet::from([node.clone()]))?;
            let report = coverage(&snapshot, &options);
            if !output::print_data(output, &report, out)? {
                let result = match output {
                    Some(Output::Name) => render::coverage::names(&report, out),
                    _ if explain => render::explanation::explanation(&report, &view, out),
                    _ => render::node::table(&report, &node, output == Some(Output::Wide), &view, out),
                };
                result.map_err(Failure::Output)?;
                if report.daemon_sets.is_empty() {
                    session.say_none_found(io)?;
                }
            }
            report.daemon_sets.iter().all(|daemon_set| daemon_set.counts.available == daemon_set.counts.eligible)
        }
    };
    Ok(if exit_code && !complete { Exit::No } else { Exit::Success })
}

/// Runs `-f`, and tells whether every pod that would be there would fit.
fn run_what_if(
    target: &Target,
    manifest: &str,
    node_selector: LabelSelector,
    output: Option<Output>,
    view: &View,
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    if manifest == "-" && target.reads_input() {
        return Err(CommandError::usage("--from - and --filename - cannot both read standard input").into());
    }
    let session = target.open(io)?;
    let proposed =
        manifest::read_daemon_set(manifest, io.input, session.namespace.as_deref(), &session.default_namespace)?;
    let query = Query {
        namespace: Some(proposed.metadata.namespace.clone()),
        node_selector,
        admission: true,
        ..Query::default()
    };
    let snapshot =
        session.read(query, io, |snapshot| snapshot.nodes.iter().map(|node| node.metadata.name.clone()).collect())?;
    let report = what_if(&snapshot, &proposed);
    if !output::print_data(output, &report, out)? {
        render::what_if::what_if(&report, view, out).map_err(Failure::Output)?;
    }
    Ok(report.does_not_fit.is_empty())
}
