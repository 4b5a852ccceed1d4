//! `version`: the version of kubectl-ds.

use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::output::{self, Output, formats};
use super::session::GlobalArgs;
use super::{Failure, RunCommand};
use crate::encode::sanitize::sanitize;
use crate::error::Exit;
use crate::io::Io;

/// The Kubernetes release whose rules are ported.
const KUBERNETES: &str = "v1.37.2";

/// The commit from which a release was built, set by `.ci/release`.
const COMMIT: Option<&str> = option_env!("KUBECTL_DS_COMMIT");

/// Print client, rules and server versions
#[derive(Debug, Clone, Args)]
#[command(before_help = "# Print the versions of kubectl-ds and of the server
kubectl ds version

# Print what is known without a server
kubectl ds version --client")]
pub struct VersionArgs {
    /// Print the version of kubectl-ds only
    #[arg(long)]
    client: bool,
    /// Output format. One of: (json, yaml)
    #[arg(short, long, value_name = "FORMAT", value_parser = formats(&[Output::Json, Output::Yaml]), hide_possible_values = true)]
    output: Option<Output>,
}

/// The version of kubectl-ds, and of the server.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    client_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    git_commit: Option<&'static str>,
    kubernetes_rules: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_version: Option<String>,
}

impl RunCommand for VersionArgs {
    /// The client's version is printed even if the server cannot be reached.
    async fn run(self, target: GlobalArgs, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        let VersionArgs { client, output } = self;
        let server_version = match client {
            true => Ok(None),
            false => async { target.open(None, &[], io).await?.server_version(io).await }.await,
        };
        let (server_version, failure) = match server_version {
            Ok(version) => (version, None),
            Err(failure) => (None, Some(failure)),
        };
        if let Some(server) = server_version.as_ref().filter(|server| is_too_new(server)) {
            writeln!(
                io.err,
                "warning: the server is {}, the rules are those of Kubernetes {KUBERNETES}; look for a newer kubectl-ds",
                sanitize(server)
            )?;
        }
        let version = Version {
            client_version: format!("v{}", env!("CARGO_PKG_VERSION")),
            git_commit: COMMIT,
            kubernetes_rules: KUBERNETES.to_owned(),
            server_version,
        };
        if !output::print_value(output, &version, out)? {
            let Version { client_version, git_commit, kubernetes_rules, server_version } = version;
            writeln!(out, "Client Version: {client_version}")?;
            if let Some(commit) = git_commit {
                writeln!(out, "Git commit: {commit}")?;
            }
            writeln!(out, "Kubernetes rules: {kubernetes_rules}")?;
            if let Some(server_version) = server_version {
                writeln!(out, "Server Version: {}", sanitize(&server_version))?;
            }
        }
        failure.map_or(Ok(Exit::Success), Err)
    }
}

/// Returns whether a server is more than one minor release newer than the rules.
fn is_too_new(server: &str) -> bool {
    let minor = |version: &str| version.split('.').nth(1)?.parse::<u32>().ok();
    matches!((minor(server), minor(KUBERNETES)), (Some(server), Some(rules)) if server > rules + 1)
}
