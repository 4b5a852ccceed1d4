//! Replaces a file as a whole: whatever happens, it is either the old one or the new one.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

/// Writes a file, which replaces the one at `path` once it is complete.
///
/// Only the user may read a new file; an existing one keeps its mode. Fails if `write` fails, the directory is not
/// writable, or `path` is a link that another user created.
pub(crate) fn replace_file(path: &Path, write: impl FnOnce(&mut File, &Path) -> io::Result<()>) -> io::Result<()> {
    let link = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_symlink);
    if link.is_some_and(|link| !is_own(&link)) {
        let problem = format!("{} is a symbolic link of another user", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    let existing = fs::metadata(path).ok();
    if existing.as_ref().is_some_and(|existing| !existing.is_file()) {
        // A pipe or a device cannot be replaced.
        return write(&mut File::options().write(true).open(path)?, path);
    }
    // A link points to the file to replace.
    let path = if existing.is_some() { fs::canonicalize(path)? } else { path.to_owned() };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut part = Part::new(directory)?;
    write(&mut part.file, &path)?;
    if let Some(existing) = existing.filter(is_own) {
        part.file.set_permissions(existing.permissions())?;
    }
    part.file.sync_all()?;
    fs::rename(&part.path, &path)
}

/// An incomplete file, which is removed unless it has been renamed.
struct Part {
    path: PathBuf,
    file: File,
}

impl Part {
    /// Creates a file with a random name, so that nobody can have prepared it.
    fn new(directory: &Path) -> io::Result<Self> {
        let path = directory.join(format!(".kubectl-ds-{:016x}.part", RandomState::new().hash_one(())));
        let mut options = File::options();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.read(true).write(true).create_new(true).open(&path)?;
        Ok(Part { path, file })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns whether the user or root owns a file. `/dev/stdout` is a link owned by root.
#[cfg(unix)]
fn is_own(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.uid() == 0 || metadata.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_own(_: &fs::Metadata) -> bool {
    true
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;
    use std::io::{self, Read, Write};
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use super::replace_file;

    fn mode(path: &std::path::Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_new_file_is_the_users_own_and_an_old_one_keeps_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dump.json");
        replace_file(&path, |file, _| file.write_all(b"1")).unwrap();
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        replace_file(&path, |file, _| file.write_all(b"2")).unwrap();
        assert_eq!((mode(&path), fs::read(&path).unwrap()), (0o644, b"2".to_vec()));
    }

    #[test]
    fn a_failure_leaves_the_old_file_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dump.json");
        fs::write(&path, "old").unwrap();
        let failed = replace_file(&path, |file, _| {
            file.write_all(b"part")?;
            Err(io::Error::other("no"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn a_pipe_is_written_in_place() {
        let (mut reader, writer) = io::pipe().unwrap();
        let descriptor = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
        if !std::path::Path::new(&descriptor).exists() {
            return;
        }
        replace_file(descriptor.as_ref(), |file, _| file.write_all(b"1")).unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "1");
    }

    #[test]
    fn links_are_followed_unless_somebody_else_made_them() {
        let directory = tempfile::tempdir().unwrap();
        let (target, link) = (directory.path().join("target"), directory.path().join("link"));
        fs::write(&target, b"0").unwrap();
        symlink("target", &link).unwrap();
        replace_file(&link, |file, _| file.write_all(b"1")).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"1");
        // Only root can change the owner of a link.
        if lchown(&link, Some(65534), Some(65534)).is_ok() {
            let error = replace_file(&link, |file, _| file.write_all(b"2")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            assert_eq!(fs::read(&target).unwrap(), b"1");
        }
    }
}
