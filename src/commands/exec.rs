//! `exec`: runs a command in the pod that a DaemonSet has on a node, by handing over to kubectl.

use std::io::{self, Write};
use std::process;

use clap::{ArgGroup, Args};

use super::place::PlaceArgs;
use super::session::GlobalArgs;
use super::{Failure, RunCommand, pod};
use crate::connection::look_path;
use crate::error::{CommandError, Exit};
use crate::io::Io;
use crate::report::fix::{Command, Fix};

/// Run a command in the pod that a DaemonSet has on a node
///
/// It runs `kubectl exec` with that pod and the flags that chose the cluster and the user, and exits as kubectl does. If kubectl
/// is not in PATH, the error shows the command.
#[derive(Debug, Clone, Args)]
#[command(before_help = "# Ask the agent on a node for its status
kubectl ds exec cilium -n kube-system --node general-c2 -- cilium status

# Open a shell in the agent next to another pod
kubectl ds exec cilium -n kube-system \\
  --beside default/node-exporter-debug -it -- sh")]
#[command(group = ArgGroup::new("place").required(true).args(["node", "beside"]))]
pub struct ExecArgs {
    /// The DaemonSet
    name: String,
    #[command(flatten)]
    place: PlaceArgs,
    /// The container; by default the one that kubectl chooses
    #[arg(short, long, value_name = "CONTAINER")]
    container: Option<String>,
    /// Pass standard input to the container
    #[arg(short = 'i', long)]
    stdin: bool,
    /// Standard input is a terminal
    #[arg(short = 't', long)]
    tty: bool,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl RunCommand for ExecArgs {
    async fn run(self, target: GlobalArgs, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        let ExecArgs { name, place, container, stdin, tty, command } = self;
        let (target, _, found) = pod::find(name, place, target, io).await?;
        let mut exec = Command::kubectl(&["exec"]).namespace(&found.namespace);
        if let Some(container) = container {
            exec = exec.flag("-c", container);
        }
        for (is_given, flag) in [(stdin, "-i"), (tty, "-t")] {
            exec = if is_given { exec.switch(flag) } else { exec };
        }
        let exec = exec.name(format!("pod/{}", found.pod.name)).running(command);
        let shown = |error: CommandError| Failure::from(error.hint(Fix::new("to run it", exec.clone())));
        let Some(connection) = target.connection() else {
            return Err(shown(CommandError::usage("a dump has no container that a command could run in")));
        };
        let kubectl = look_path("kubectl", connection).map_err(|error| shown(not_started().because(error)))?;
        let mut kubectl = process::Command::new(kubectl);
        kubectl.args(exec.clone().with(&connection.literal()).words());
        out.flush()?;
        hand_over(kubectl).map_err(|error| shown(not_started().because(error)))
    }
}

fn not_started() -> CommandError {
    CommandError::new("cannot run kubectl")
}

/// Lets another program take the place of this one. It returns only if that fails.
#[cfg(unix)]
fn hand_over(mut program: process::Command) -> io::Result<Exit> {
    use std::os::unix::process::CommandExt;
    Err(program.exec())
}

/// Runs another program to its end, and exits as it does.
#[cfg(not(unix))]
fn hand_over(mut program: process::Command) -> io::Result<Exit> {
    process::exit(program.status()?.code().unwrap_or(Exit::Error as i32))
}
