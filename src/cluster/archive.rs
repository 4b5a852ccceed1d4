//! Reads the files of an archive one by one, without unpacking it.

use std::cell::Cell;
use std::io::{self, Read};
use std::path::Path;

use super::error::ClusterError;
use super::file::{Contents, is_dump_name};
use super::text::Text;
use super::unpack::UNPACKED_LIMIT;

const TAR_BLOCK: usize = 512;

/// The most bytes of metadata before the contents of a file: headers, a long name and extended attributes, which the
/// reader keeps in memory.
const DESCRIPTION_LIMIT: u64 = 1 << 20;

/// Adds the files of a tar archive. Fails if the archive is truncated or broken, or unpacks to too much.
pub(super) fn add_tar(contents: &mut Contents, name: &str, reader: impl Read) -> Result<(), ClusterError> {
    each_file(name, reader, |path, file| {
        if is_dump_name(path) {
            contents.add_file(Text::new(&format!("{name}: {}", path.display()), file), path);
        }
        match contents.length > UNPACKED_LIMIT {
            true => Err(ClusterError::file(name, "unpacks to more than 16 GiB")
                .hint("unpack it, and give its parts in a directory")),
            false => Ok(()),
        }
    })
}

/// Calls a function with each file of a tar archive; the function need not read it. Fails if the archive is truncated
/// or broken, or if the function fails.
pub(super) fn each_file(
    name: &str,
    reader: impl Read,
    mut visit: impl FnMut(&Path, &mut dyn Read) -> Result<(), ClusterError>,
) -> Result<(), ClusterError> {
    let broken = |error: io::Error| broken(name, &error);
    let (position, limit) = (Cell::new(0), Cell::new(DESCRIPTION_LIMIT));
    let mut archive = tar::Archive::new(Blocks { reader, trailing: 0, position: &position, limit: &limit });
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        // The size of sparse files, which are not read, is not that of their data.
        let is_sparse = entry.header().entry_type().is_gnu_sparse();
        let size = if is_sparse { entry.header().entry_size().map_err(broken)? } else { entry.size() };
        limit.set(position.get().saturating_add(size).saturating_add(DESCRIPTION_LIMIT));
        if entry.header().entry_type().is_file() {
            let path = entry.path().map_err(broken)?.into_owned();
            visit(&path, &mut entry)?;
        }
    }
    limit.set(u64::MAX);
    // Truncated compressed data is only detected at its end.
    let mut rest = archive.into_inner();
    io::copy(&mut rest, &mut io::sink()).map_err(broken)?;
    // An archive ends with a block of zeros; without one it was truncated between two files.
    if rest.trailing < TAR_BLOCK {
        return Err(broken(io::Error::from(io::ErrorKind::UnexpectedEof)));
    }
    Ok(())
}

/// Reads an archive up to a limit, which grows with its files.
struct Blocks<'a, R> {
    reader: R,
    /// Number of zero bytes at the end of what has been read.
    trailing: usize,
    position: &'a Cell<u64>,
    limit: &'a Cell<u64>,
}

impl<R: Read> Read for Blocks<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        match buffer[..read].iter().rposition(|byte| *byte != 0) {
            Some(last) => self.trailing = read - last - 1,
            None => self.trailing += read,
        }
        self.position.set(self.position.get() + read as u64);
        if self.position.get() > self.limit.get() {
            return Err(io::Error::other("a file has a name or attributes of more than 1 MiB"));
        }
        Ok(read)
    }
}

fn broken(name: &str, error: &io::Error) -> ClusterError {
    if error.kind() == io::ErrorKind::FileTooLarge {
        return ClusterError::file(name, error.to_string());
    }
    ClusterError::file(name, format!("the tar archive is truncated or broken: {error}"))
        .hint("copy the file again, or make the archive again")
}
