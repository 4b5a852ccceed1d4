//! Reads files with settings and credentials, up to a size limit: a device file may be endless.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The most bytes of such a file.
const LARGEST: u64 = 64 << 20;

/// Reads a file. Fails if it cannot be read, or is larger than any file of its kind.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
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
