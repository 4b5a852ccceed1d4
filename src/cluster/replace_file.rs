//! Replaces a file as a whole: whatever happens, it is either the old one or the new one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// The most symbolic links that are followed, as in Linux.
const MAX_LINKS: usize = 40;

/// Writes a file, which takes the place of the one at `path` when it is complete.
///
/// Only the user may read a new file; one that exists keeps its mode. On Linux the file has no name until it is
/// complete, so that no signal leaves a partial one.
///
/// # Errors
///
/// Fails if `write` fails, the directory cannot be written, or `path` is a link that another user made.
pub(super) fn replace_file(path: &Path, write: impl FnOnce(&mut File, &Path) -> io::Result<()>) -> io::Result<()> {
    let path = follow_links(path)?;
    let existing = fs::metadata(&path).ok();
    if existing.as_ref().is_some_and(|existing| !existing.is_file()) {
        // A pipe or a device cannot be replaced.
        return write(&mut File::options().write(true).open(&path)?, &path);
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut new = NewFile::create(directory)?;
    write(new.file(), &path)?;
    if let Some(existing) = existing.filter(is_own) {
        new.file().set_permissions(existing.permissions())?;
    }
    new.file().sync_all()?;
    new.name(directory)?.into_temp_path().persist(&path)?;
    Ok(())
}

/// A file that does not have its name yet.
enum NewFile {
    #[cfg(target_os = "linux")]
    Unnamed(File),
    Named(NamedTempFile),
}

impl NewFile {
    /// Creates a file that only the user may read.
    fn create(directory: &Path) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Some(file) = linux::create_unnamed(directory)? {
            return Ok(NewFile::Unnamed(file));
        }
        temporary().tempfile_in(directory).map(NewFile::Named)
    }

    fn file(&mut self) -> &mut File {
        match self {
            #[cfg(target_os = "linux")]
            NewFile::Unnamed(file) => file,
            NewFile::Named(named) => named.as_file_mut(),
        }
    }

    /// Gives the file a name beside the one that it is to get.
    fn name(self, directory: &Path) -> io::Result<NamedTempFile<()>> {
        match self {
            #[cfg(target_os = "linux")]
            NewFile::Unnamed(file) => temporary().make_in(directory, |path| linux::name(&file, path)),
            NewFile::Named(named) => {
                let path = named.into_temp_path();
                Ok(NamedTempFile::from_parts((), path))
            }
        }
    }
}

fn temporary() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(".kubectl-ds-").suffix(".part");
    builder
}

/// Follows the links at a path, unless somebody else made them.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => {
                if !is_own(&metadata) {
                    let problem = format!("{} is a symbolic link of another user", path.display());
                    return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
                }
                // `/dev/stdout` leads to a pipe, to which no path leads.
                if fs::metadata(&path).is_ok_and(|target| !target.is_file()) {
                    return Ok(path);
                }
                let target = fs::read_link(&path)?;
                path = path.parent().unwrap_or(Path::new("")).join(target);
            }
            _ => return Ok(path),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

/// Returns whether the user or root owns a file. `/dev/stdout` is a link of root's.
#[cfg(unix)]
fn is_own(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.uid() == 0 || metadata.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_own(_: &fs::Metadata) -> bool {
    true
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::path::Path;

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
    use rustix::io::Errno;

    /// Creates a file without a name; returns `None` if the file system cannot.
    pub(super) fn create_unnamed(directory: &Path) -> io::Result<Option<File>> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        match open(directory, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Ok(Some(File::from(file))),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Names a file that has no name.
    pub(super) fn name(file: &File, path: &Path) -> io::Result<()> {
        let source = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(linkat(CWD, source, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
    }
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
    fn there_is_no_other_file_while_it_is_written_nor_after_a_failure() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dump.json");
        fs::write(&path, "old").unwrap();
        let failed = replace_file(&path, |file, _| {
            file.write_all(b"part")?;
            if cfg!(target_os = "linux") {
                assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "a signal would leave nothing");
            }
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
        symlink("target", &link).unwrap();
        replace_file(&link, |file, _| file.write_all(b"1")).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"1");
        // Only root can give a link away.
        if lchown(&link, Some(65534), Some(65534)).is_ok() {
            let error = replace_file(&link, |file, _| file.write_all(b"2")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            assert_eq!(fs::read(&target).unwrap(), b"1");
        }
    }
}
