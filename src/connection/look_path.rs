//! Finds programs as Go's `os/exec` does: in the `PATH` of this process, regardless of the program's own environment,
//! and never in the current directory.

use std::path::{Path, PathBuf};

use super::options::ConnectOptions;

const NOT_FOUND: &str = "executable file not found in PATH";

/// `exec.ErrDot`.
const IN_CURRENT_DIRECTORY: &str = "it is only in the current directory, which is not searched; give its path";

/// Returns the path of a program, or why it cannot be run.
///
/// Ported from `LookPath`, os/exec/lp_unix.go and lp_windows.go, Go 1.26.
pub(crate) fn look_path(program: &str, options: &ConnectOptions) -> Result<PathBuf, &'static str> {
    if program.contains(std::path::is_separator) {
        return executable(Path::new(program), options).ok_or(NOT_FOUND);
    }
    for directory in std::env::split_paths(options.variable("PATH").unwrap_or_default()) {
        // An empty element means the current directory.
        let directory = if directory.as_os_str().is_empty() { PathBuf::from(".") } else { directory };
        if let Some(path) = executable(&directory.join(program), options) {
            return if path.is_absolute() { Ok(path) } else { Err(IN_CURRENT_DIRECTORY) };
        }
    }
    Err(NOT_FOUND)
}

#[cfg(unix)]
fn executable(path: &Path, _: &ConnectOptions) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = std::fs::metadata(path).ok()?;
    (!metadata.is_dir() && metadata.permissions().mode() & 0o111 != 0).then(|| path.to_owned())
}

#[cfg(not(unix))]
fn executable(path: &Path, options: &ConnectOptions) -> Option<PathBuf> {
    let extensions = options.variable("PATHEXT").unwrap_or(".com;.exe;.bat;.cmd");
    let with_extension = extensions.split(';').map(|extension| {
        let mut path = path.as_os_str().to_owned();
        path.push(extension);
        PathBuf::from(path)
    });
    let as_is = path.extension().map(|_| path.to_owned());
    as_is.into_iter().chain(with_extension).find(|path| path.is_file())
}
