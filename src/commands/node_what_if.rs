//! `coverage --if`: what would change if labels and taints of nodes were changed?

use std::io::Write;

use super::Failure;
use super::gate;
use super::node_choice::{NodeSelection, check_selected};
use super::node_edit::parse_changes;
use super::output::{self, Output};
use super::session::Target;
use crate::cluster::{CoverageScope, Query, Wanted};
use crate::coverage::node_what_if::node_what_if;
use crate::error::{CommandError, Exit};
use crate::io::Io;
use crate::model::snapshot::{Kind, Snapshot};
use crate::render;

/// Prints what changes of nodes would change for DaemonSets, and returns the answer for `--exit-code`.
///
/// # Errors
///
/// Fails if a change is invalid, the source cannot be read, or no node is chosen.
pub(super) async fn run(
    changes: &[String],
    on: NodeSelection,
    names: Vec<String>,
    target: &Target,
    output: Option<&Output>,
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<Result<Exit, CommandError>, Failure> {
    let edit = parse_changes(changes)?;
    let scope = CoverageScope { node_selector: on.selector.clone(), admission: true, ..CoverageScope::default() };
    let query = Query { names, wanted: Wanted::Coverage(scope), ..Query::default() };
    let session = target.open(io).await?;
    let all_nodes = |snapshot: &Snapshot| snapshot.nodes.iter().map(|node| node.metadata.name.clone()).collect();
    let snapshot = session.read(query, io, all_nodes).await?;
    check_selected(&snapshot, &on)?;
    session.check_unknown_names(&snapshot)?;
    if snapshot.gap(Kind::Nodes, "").is_some() {
        let error = CommandError::new("what would change is not known: the nodes could not be read");
        return Err(CommandError { exit: Exit::Partial, ..error }.into());
    }
    let mut report = node_what_if(&snapshot, &edit, changes);
    let view = target.view_for(output, io);
    if !output::print_data(output, &mut report, &view, out)? {
        write!(out, "{}", view.text(|page| render::node_what_if::node_what_if(&report, page)))?;
    }
    Ok(gate::preview(report.passes(), &report.incomplete))
}
