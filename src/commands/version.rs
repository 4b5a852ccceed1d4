//! `version`: which kubectl-ds this is.

use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::Failure;
use super::output::{self, Output};
use crate::error::{CommandError, Exit};

/// The Kubernetes release whose rules are ported.
const KUBERNETES: &str = "1.36.3";

/// Print the version
#[derive(Debug, Clone, Args)]
pub struct VersionArgs {
    /// Only the version of kubectl-ds; the cluster is never asked, so this changes nothing
    #[arg(long, hide = true)]
    client: bool,
    /// How to print: json or yaml
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    output: Option<Output>,
}

/// Which kubectl-ds this is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    client_version: &'static str,
    kubernetes_rules: &'static str,
}

/// Runs the subcommand.
///
/// # Errors
///
/// Fails where the output cannot be written.
pub fn run(arguments: &VersionArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let VersionArgs { client: _, output } = arguments;
    if matches!(output, Some(Output::Wide | Output::Name)) {
        return Err(CommandError::usage("version prints -o json or -o yaml only").into());
    }
    let version = Version { client_version: env!("CARGO_PKG_VERSION"), kubernetes_rules: KUBERNETES };
    if !output::print_data(*output, &version, out)? {
        writeln!(out, "Client Version: v{}\nKubernetes rules: v{}", version.client_version, version.kubernetes_rules)
            .map_err(Failure::Output)?;
    }
    Ok(Exit::Success)
}
