//! `changes`: what has changed lately, and who changed it.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use clap::Args;

use super::output::{self, Output, OutputParser};
use super::session::GlobalArgs;
use super::{Failure, RunCommand};
use crate::cluster::{Flavors, Query, Wanted};
use crate::connection::parse_duration;
use crate::error::{CommandError, Exit};
use crate::io::Io;
use crate::render;
use crate::rollout::recent_changes::recent_changes;

/// Show what changed lately: rollouts, update strategies, nodes, their taints, labels and cordons, quotas
///
/// The latest change comes first, with who made it, as far as the API keeps times. A field manager's time is that of its last
/// change of any of its fields: `labels pool or taints dedicated=db:NoSchedule` means that one of them was changed then.
#[derive(Debug, Args)]
#[command(before_help = "# Show what changed in the last 15 minutes
kubectl ds changes --since 15m

# Show all changes that are known, with the DaemonSets of all namespaces
kubectl ds changes -A --all")]
pub struct ChangesArgs {
    /// Show only changes within this duration, such as 15m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    since: Option<Duration>,
    /// Show all changes, however many there are
    #[arg(long)]
    all: bool,
    /// Output format. One of: (wide, json, yaml, jsonpath=TEMPLATE)
    #[arg(short, long, value_name = "FORMAT", value_parser = OutputParser(&["wide", "json", "yaml", "jsonpath="]), hide_possible_values = true)]
    output: Option<Output>,
}

impl RunCommand for ChangesArgs {
    async fn run(self, target: GlobalArgs, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        let ChangesArgs { since, all, output } = self;
        if all && output.as_ref().is_some_and(|output| *output != Output::Wide) {
            let message = "--all is for the table: -o json, yaml and the like always show every change";
            return Err(CommandError::usage(message).into());
        }
        let mut target = target.resolve(io)?;
        target.choose(None, &[])?;
        let session = target.open(io).await?;
        let query = Query { flavors: Flavors::Any, wanted: Wanted::RecentChanges, ..Query::default() };
        let snapshot = session.read(query, io, |_| BTreeSet::new()).await?;
        let view = target.view_for(output.as_ref(), io);
        // A duration that reaches back further than time can be told leaves nothing out.
        let since = since.and_then(|since| snapshot.now.checked_sub(since).ok());
        let mut report = recent_changes(&snapshot, since);
        if !output::print_data(output.as_ref(), &mut report, &view, out)? {
            let text = view
                .text(|page| render::recent_changes::recent_changes(&report, output == Some(Output::Wide), all, page));
            out.write_all(text.as_bytes())?;
        }
        Ok(Exit::Success)
    }
}
