//! Reads files with settings and credentials, up to a size limit: a device file may be endless.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The most bytes of such a file.
const LARGEST: u64 = 64 << 20;

/// Reads a file. Fails if it cannot be read, is larger than any file of its kind, or is a pipe that may never end. One of the shell
/// (`<(…)`) ends with its command.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if is_pipe(path) && !["/dev/fd", "/proc"].iter().any(|of_shell| path.starts_with(of_shell)) {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is a named pipe, not a file"));
    }
    File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > LARGEST {
        true => Err(io::Error::new(ErrorKind::FileTooLarge, "it is larger than 64 MiB")),
        false => Ok(bytes),
    }
}

/// Returns whether a path is a pipe, which can be read only once.
pub(super) fn is_pipe(path: &Path) -> bool {
    #[cfg(unix)]
    return std::fs::metadata(path)
        .is_ok_and(|metadata| std::os::unix::fs::FileTypeExt::is_fifo(&metadata.file_type()));
    #[cfg(not(unix))]
    return false;
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Command;

    use super::read;

    #[test]
    fn a_pipe_to_which_nobody_writes_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(read(&pipe).unwrap_err().to_string(), "it is a named pipe, not a file");
    }
}
