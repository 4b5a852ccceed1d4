//! Reads the files of an archive one after the other, without unpacking it.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use zip::result::ZipError;

use super::error::ClusterError;
use super::file::{Contents, is_dump_name};
use super::text::{self, Text};

const TAR_BLOCK: usize = 512;

/// Adds the files of a tar archive.
///
/// # Errors
///
/// Fails if the archive is truncated or broken.
pub(super) fn add_tar(contents: &mut Contents, name: &str, reader: impl Read) -> Result<(), ClusterError> {
    let broken = |error: io::Error| broken(name, "tar", &error);
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

/// Adds the files of a zip archive.
///
/// # Errors
///
/// Fails if the archive is truncated or broken.
pub(super) fn add_zip(contents: &mut Contents, path: &Path) -> Result<(), ClusterError> {
    let name = path.display().to_string();
    let broken = |error: ZipError| broken(&name, "zip", &error);
    // A zip archive has its directory at the end.
    let file = File::open(path).map_err(|error| text::io_error(&name, &error))?;
    let mut archive = zip::ZipArchive::new(BufReader::new(file)).map_err(broken)?;
    for index in 0..archive.len() {
        let entry = archive.by_index(index).map_err(broken)?;
        if entry.is_file() {
            let path = PathBuf::from(entry.name().map_err(broken)?.as_ref());
            add_entry(contents, &name, &path, entry);
        }
    }
    Ok(())
}

fn broken(name: &str, format: &str, error: &dyn Display) -> ClusterError {
    ClusterError::file(name, format!("the {format} archive is truncated or broken: {error}"))
        .hint("copy the file again, or make the archive again")
}

fn add_entry(contents: &mut Contents, archive: &str, path: &Path, entry: impl Read) {
    if is_dump_name(path) {
        contents.add_file(Text::new(&format!("{archive}: {}", path.display()), entry), path);
    }
}
