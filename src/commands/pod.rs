//! `pod`: which pod does a DaemonSet have on a node?

use std::io::Write;

use clap::{ArgGroup, Args};

use super::output::{self, Output, formats};
use super::parse::parse_names;
use super::place::{Place, PlaceArgs, pod_on};
use super::session::GlobalArgs;
use super::{Failure, RunCommand};
use crate::error::{CommandError, Exit};
use crate::io::Io;

/// Output the pod that a DaemonSet has on a node, for other tools
///
/// If there is none, the error says why. If there are two, the one that works is output.
#[derive(Debug, Clone, Args)]
#[command(before_help = "# Output the pod of the agent on a node
kubectl ds pod cilium -n kube-system --node general-c2

# Output the one next to another pod
kubectl ds pod cilium -n kube-system --beside default/node-exporter-debug

# Output its name alone, for tools such as kubectl exec
kubectl ds pod kube-system/cilium --node general-c2 -o name")]
#[command(group = ArgGroup::new("place").required(true).args(["node", "beside"]))]
pub struct PodArgs {
    /// The DaemonSet
    name: String,
    #[command(flatten)]
    place: PlaceArgs,
    /// Output format. One of: (json, yaml, name)
    #[arg(short, long, value_name = "FORMAT", value_parser = formats(&[Output::Json, Output::Yaml, Output::Name]), hide_possible_values = true)]
    output: Option<Output>,
}

impl RunCommand for PodArgs {
    async fn run(self, target: GlobalArgs, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        let PodArgs { name, place, output } = self;
        let (namespace, names) = parse_names(&[name])?;
        let place = place.resolve()?;
        let session = target.open(namespace, &names, io).await?;
        // clap ensures that there is one.
        let place = place.ok_or_else(|| CommandError::usage("give --node or --beside"))?;
        let (snapshot, node) = Place::read(place, &session, names, io).await?;
        let (mut report, _) = pod_on(&snapshot, &node, &session)?;
        let output = output.or(Some(Output::Name));
        output::print(output, &mut report, &session.view, out, |_, _| {})?;
        Ok(Exit::Success)
    }
}
