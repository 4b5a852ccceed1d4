//! `list`: the fleet.

use std::collections::BTreeSet;
use std::io::Write;

use clap::Args;

use super::Failure;
use super::output::{self, Output};
use super::session::GlobalArgs;
use crate::cluster::Query;
use crate::coverage::list;
use crate::coverage::walk::nodes_needing_all_pods;
use crate::error::{CommandError, Exit};
use crate::io::Io;
use crate::model::snapshot::Snapshot;
use crate::render;
use crate::render::view::View;

/// List DaemonSets with how they fare, those in trouble first
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct ListArgs {
    /// How to print: wide, json, yaml or name
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    output: Option<Output>,
    /// Show DaemonSets without trouble too, however many there are
    #[arg(long)]
    all: bool,
}

struct Settings {
    output: Option<Output>,
    all: bool,
}

impl ListArgs {
    fn resolve(self) -> Result<Settings, CommandError> {
        let ListArgs { output, all } = self;
        if all && matches!(output, Some(Output::Json | Output::Yaml | Output::Name)) {
            return Err(CommandError::usage("--all is for tables: -o json, yaml and name always show every DaemonSet"));
        }
        Ok(Settings { output, all })
    }
}

/// Runs the subcommand.
///
/// # Errors
///
/// Fails where the source cannot be read, or the output not written.
pub async fn run(
    arguments: ListArgs,
    target: GlobalArgs,
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let settings = arguments.resolve()?;
    let target = target.resolve(io)?;
    let session = target.open(io).await?;
    let needs_all_pods_on = |snapshot: &Snapshot| match settings.output {
        Some(Output::Name) => BTreeSet::new(),
        _ => nodes_needing_all_pods(snapshot),
    };
    let snapshot = session.read(Query::default(), io, needs_all_pods_on).await?;
    let report = list::list(&snapshot);
    if output::print_data(settings.output, &report, out)? {
        return Ok(Exit::Success);
    }
    let view = View::new(io.width(), target.ascii);
    let view = if settings.output == Some(Output::Wide) { view.unlimited() } else { view };
    let result = match settings.output {
        Some(Output::Name) => render::list::names(&report, out),
        output => {
            let columns =
                render::list::Columns { namespace: session.namespace.is_none(), wide: output == Some(Output::Wide) };
            render::list::table(&report, columns, settings.all, &view, out)
        }
    };
    result?;
    if report.daemon_sets.is_empty() {
        session.say_none_found(io)?;
    }
    Ok(Exit::Success)
}
