//! `completion`: the code that a shell or kubectl needs to complete a command line.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::complete::{self, VARIABLE};
use super::{Failure, program};
use crate::cluster::replace_file;
use crate::encode::shell::quote;
use crate::error::{CommandError, Exit};
use crate::io::Io;

/// Returns the program that kubectl runs to complete this one.
fn completer(program: &str) -> String {
    let file = program::file(program);
    if cfg!(windows) {
        return format!(
            "@rem Completes `{program}`. kubectl runs this file, which must be in PATH.
@{file} __complete -- %*
"
        );
    }
    format!(
        "#!/bin/sh
# Completes `{program}`. kubectl runs this file, which must be executable and in PATH.
exec {file} __complete -- \"$@\"
"
    )
}

/// Output shell completion code
///
/// To complete `kubectl ds`, kubectl's own completion must be loaded (see `kubectl completion --help`), and the
/// program kubectl_complete-ds must be in PATH: --install writes it. Names of DaemonSets, nodes, namespaces, contexts and
/// revisions are completed, too. To complete `kubectl-ds`, without kubectl, load the code for your shell.
#[derive(Debug, Clone, Args)]
#[command(before_help = "# Complete `kubectl ds`
kubectl ds completion --install

# Complete `kubectl-ds` in bash
source <(kubectl-ds completion bash)

# In zsh
source <(kubectl-ds completion zsh)

# In fish
kubectl-ds completion fish | source

# In PowerShell
kubectl-ds completion powershell | Out-String | Invoke-Expression")]
pub struct CompletionArgs {
    /// The shell: bash, zsh, fish, powershell or kubectl.
    ///
    /// `kubectl` outputs the program kubectl_complete-ds.
    #[arg(value_name = "SHELL", required_unless_present = "install", conflicts_with = "install")]
    #[arg(value_parser = ["bash", "zsh", "fish", "powershell", "kubectl"])]
    shell: Option<String>,
    /// Write kubectl_complete-ds to this directory.
    ///
    /// By default to that of kubectl-ds in PATH.
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    install: Option<Option<PathBuf>>,
}

/// Runs the subcommand. Fails if the output or the program cannot be written.
pub fn run(arguments: &CompletionArgs, io: &Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
    let CompletionArgs { shell, install } = arguments;
    let Some(name) = shell else {
        return install_shim(install.as_ref().and_then(Option::as_deref), io, out);
    };
    let Some(shell) = complete::shell(name) else {
        // Only kubectl is not a shell.
        out.write_all(completer(io.program).as_bytes())?;
        return Ok(Exit::Success);
    };
    let mut text = Vec::new();
    let file = program::file(io.program);
    shell.write_registration(VARIABLE, &file, &file, &file, &mut text)?;
    out.write_all(&text)?;
    Ok(Exit::Success)
}

fn install_shim(directory: Option<&Path>, io: &Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
    let search: Vec<&Path> = io.variable("PATH").unwrap_or_default().split(PATH_SEPARATOR).map(Path::new).collect();
    let file = program::file(io.program);
    // On Windows a program is recognized by its extension.
    let extension = |extension| if cfg!(windows) { extension } else { "" };
    let name = format!("{file}{}", extension(".exe"));
    let found = search.iter().copied().find(|directory| directory.join(&name).is_file());
    let Some(directory) = directory.or(found) else {
        let error = CommandError::new(format!("{file} is not in PATH"));
        return Err(error.hint("name a directory of PATH: `kubectl ds completion --install DIR`").into());
    };
    let path = directory.join(format!("{}{}", program::completer(io.program), extension(".cmd")));
    let failed = |error: std::io::Error| {
        let is_missing = error.kind() == std::io::ErrorKind::NotFound && !directory.is_dir();
        let hint = is_missing
            .then(|| format!("create the directory first: mkdir -p {}", quote(&directory.to_string_lossy(), true)));
        CommandError::new(format!("cannot write {}", path.display())).because(error).hints(hint)
    };
    match fs::read_to_string(&path) {
        Ok(text) if text.contains(&format!("{file} __complete")) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Ok(_) => {
            let error = CommandError::new(format!("{} exists and is another program", path.display()));
            return Err(error.hint("remove it, or name another directory of PATH").into());
        }
        Err(error) => return Err(failed(error).into()),
    }
    let written = replace_file(&path, |file, _| file.write_all(completer(io.program).as_bytes()));
    written.and_then(|()| make_executable(&path)).map_err(failed)?;
    writeln!(out, "{} installed", path.display())?;
    if !search.contains(&directory) {
        writeln!(out, "It works once {} is in PATH.", directory.display())?;
    }
    writeln!(out, "It needs kubectl's own completion, which `kubectl completion --help` explains.")?;
    Ok(Exit::Success)
}

const PATH_SEPARATOR: char = if cfg!(windows) { ';' } else { ':' };

#[cfg(unix)]
fn make_executable(path: &Path) -> std::io::Result<()> {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> std::io::Result<()> {
    Ok(())
}
