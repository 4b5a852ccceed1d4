//! Reads the files of an archive one after the other, without unpacking it.

use std::io::{self, Read};
use std::path::Path;

use super::error::ClusterError;
use super::file::{Contents, is_dump_name};
use super::text::Text;

const TAR_BLOCK: usize = 512;

/// Adds the files of a tar archive.
///
/// # Errors
///
/// Fails if the archive is truncated or broken.
pub(super) fn add_tar(contents: &mut Contents, name: &str, reader: impl Read) -> Result<(), ClusterError> {
    let broken = |error: io::Error| broken(name, &error);
    let mut archive = tar::Archive::new(Zeros { reader, trailing: 0 });
    for entry in archive.entries().map_err(broken)? {
        let entry = entry.map_err(broken)?;
        if entry.header().entry_type().is_file() {
            let path = entry.path().map_err(broken)?.into_owned();
            add_entry(contents, name, &path, entry);
        }
    }
    // Whether compressed data is truncated shows at its end.
    let mut rest = archive.into_inner();
    io::copy(&mut rest, &mut io::sink()).map_err(broken)?;
    // An archive ends with a block of zeros; without one it breaks off between two files.
    if rest.trailing < TAR_BLOCK {
        return Err(broken(io::Error::from(io::ErrorKind::UnexpectedEof)));
    }
    Ok(())
}

/// Counts the zero bytes at the end of what has been read.
struct Zeros<R> {
    reader: R,
    trailing: usize,
}

impl<R: Read> Read for Zeros<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        match buffer[..read].iter().rposition(|byte| *byte != 0) {
            Some(last) => self.trailing = read - last - 1,
            None => self.trailing += read,
        }
        Ok(read)
    }
}

fn broken(name: &str, error: &io::Error) -> ClusterError {
    ClusterError::file(name, format!("the tar archive is truncated or broken: {error}"))
        .hint("copy the file again, or make the archive again")
}

fn add_entry(contents: &mut Contents, archive: &str, path: &Path, entry: impl Read) {
    if is_dump_name(path) {
        contents.add_file(Text::new(&format!("{archive}: {}", path.display()), entry), path);
    }
}
