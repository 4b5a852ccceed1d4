//! From bytes to text: unpacks gzip, and says what a file is that holds no text of Kubernetes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::error::ClusterError;

/// How a path names standard input.
pub const STANDARD_INPUT: &str = "standard input";

/// How many bytes a compressed file may unpack to: 4 GiB. More than any cluster, less than a bomb.
const UNPACKED_LIMIT: u64 = 4 << 30;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// How the text of a dump or manifest is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON documents, one after the other.
    Json,
    /// YAML documents, divided by `---`.
    Yaml,
}

/// Reads a file as text, gzipped or not.
///
/// # Errors
///
/// Fails where the file cannot be read, is cut off, or holds no UTF-8.
pub fn read_file(path: &Path) -> Result<String, ClusterError> {
    let name = path.display().to_string();
    if path.is_dir() {
        return Err(ClusterError::file(name, "is a folder"));
    }
    let file = File::open(path).map_err(|error| io_error(&name, &error))?;
    read(&name, file)
}

/// Makes the error for a file that the system does not hand out.
pub fn io_error(name: &str, error: &io::Error) -> ClusterError {
    match error.kind() {
        io::ErrorKind::NotFound => ClusterError::file(name, "no such file or folder"),
        io::ErrorKind::PermissionDenied => ClusterError::file(name, "permission denied"),
        _ => ClusterError::file(name, error.to_string()),
    }
}

/// Reads a stream as text, gzipped or not; its first bytes tell.
///
/// # Errors
///
/// Fails where the stream cannot be read, is cut off, or holds no UTF-8.
pub fn read(name: &str, mut reader: impl Read) -> Result<String, ClusterError> {
    let mut bytes = Vec::new();
    reader.by_ref().take(2).read_to_end(&mut bytes).map_err(|error| io_error(name, &error))?;
    if bytes == GZIP_MAGIC {
        bytes = unpack(name, io::Cursor::new(GZIP_MAGIC).chain(reader))?;
    } else {
        reader.read_to_end(&mut bytes).map_err(|error| io_error(name, &error))?;
    }
    into_text(name, bytes)
}

fn unpack(name: &str, reader: impl Read) -> Result<Vec<u8>, ClusterError> {
    let mut bytes = Vec::new();
    let read = MultiGzDecoder::new(reader).take(UNPACKED_LIMIT + 1).read_to_end(&mut bytes);
    read.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => ClusterError::file(name, "the gzip data ends too early: the file is truncated")
            .hint("copy the file again, or make the dump again"),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            ClusterError::file(name, format!("the gzip data is broken: {error}"))
        }
        _ => io_error(name, &error),
    })?;
    if bytes.len() as u64 > UNPACKED_LIMIT {
        return Err(ClusterError::file(name, "unpacks to more than 4 GiB: no dump is that big")
            .hint("where it really is one, unpack it and give the parts in a folder"));
    }
    Ok(bytes)
}

fn into_text(name: &str, bytes: Vec<u8>) -> Result<String, ClusterError> {
    if let Some((what, hint)) = foreign_bytes(&bytes) {
        return Err(ClusterError::file(name, format!("is {what}, not JSON or YAML")).hint(hint));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        ClusterError::file(name, format!("line {line} is not UTF-8: it holds the byte 0x{:02x}", bytes[at]))
            .hint("a dump is text: write it with `kubectl get … -o json` or `kubectl ds snapshot`")
    })
}

/// Names what bytes are, where they begin like something well known that is no text.
fn foreign_bytes(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    let unpack_first = "unpack it, and give the folder or the file that is in it";
    Some(match bytes {
        [b'P', b'K', 3, 4, ..] => ("a zip archive", unpack_first),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => ("compressed with zstd", unpack_first),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => ("compressed with xz", unpack_first),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => ("compressed with bzip2", unpack_first),
        _ if bytes.get(257..262) == Some(b"ustar") => ("a tar archive", unpack_first),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            ("UTF-16 text", "PowerShell's > writes it; use `| Out-File -Encoding utf8` instead")
        }
        [b'k', b'8', b's', 0, ..] => ("Kubernetes protobuf", "ask for JSON: `kubectl get … -o json`"),
        [0x7f, b'E', b'L', b'F', ..] => ("a program", "give a dump that `kubectl ds snapshot` wrote"),
        _ => return None,
    })
}

/// Takes away the mark that some editors put at the start of a text.
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Tells how a text is written by its first letters.
///
/// # Errors
///
/// Fails where it is empty, or written neither way.
pub fn format(name: &str, text: &str) -> Result<Format, ClusterError> {
    let text = without_mark(text).trim_start();
    let first_line = text.lines().next().unwrap_or_default();
    match text.as_bytes().first() {
        None => Err(ClusterError::file(name, "is empty")
            .hint("did the command that was to write it fail? `kubectl ds snapshot` writes a dump")),
        Some(b'{') => Ok(Format::Json),
        Some(b'[') => Err(ClusterError::file(name, "holds a JSON array, not Kubernetes objects")
            .hint("keep the List around the objects, as `kubectl get … -o json` prints it")),
        Some(b'<') => Err(ClusterError::file(name, "holds HTML or XML, not JSON or YAML")
            .hint("was it fetched through a page that asks for a login?")),
        _ if is_table(first_line) => Err(ClusterError::file(name, "holds a table for people, not JSON or YAML")
            .hint("add `-o json` to the kubectl command that wrote it")),
        _ => Ok(Format::Yaml),
    }
}

fn is_table(first_line: &str) -> bool {
    let mut words = first_line.split_whitespace();
    let upper = |word: &str| word.bytes().all(|byte| byte.is_ascii_uppercase() || b"-()".contains(&byte));
    first_line.starts_with("NAME") && words.clone().count() >= 2 && words.all(upper)
}

/// Returns the number of the line in which a part of the text begins.
pub fn line_of(text: &str, part: &str) -> usize {
    let at = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len());
    text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::{Format, format, line_of, read};

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_is_told_by_the_first_bytes() {
        assert_eq!(read("x", gzip(b"{}").as_slice()).unwrap(), "{}");
        assert_eq!(read("x", b"{}".as_slice()).unwrap(), "{}");
        assert_eq!(read("x", b"{".as_slice()).unwrap(), "{");
        let two_members = [gzip(b"a: 1\n"), gzip(b"b: 2\n")].concat();
        assert_eq!(read("x", two_members.as_slice()).unwrap(), "a: 1\nb: 2\n");
    }

    #[test]
    fn bytes_that_are_no_text_are_named() {
        let mut tar = vec![b'a'; 512];
        tar[257..262].copy_from_slice(b"ustar");
        let mut cut = gzip(&b"some text that is long enough to be cut in the middle".repeat(20));
        cut.truncate(30);
        for (bytes, message) in [
            (tar, "x: is a tar archive, not JSON or YAML"),
            (b"PK\x03\x04...".to_vec(), "x: is a zip archive, not JSON or YAML"),
            (b"\xff\xfek\0i\0".to_vec(), "x: is UTF-16 text, not JSON or YAML"),
            (b"k8s\0....".to_vec(), "x: is Kubernetes protobuf, not JSON or YAML"),
            (b"a: b\nc: \xff\n".to_vec(), "x: line 2 is not UTF-8: it holds the byte 0xff"),
            (cut, "x: the gzip data ends too early: the file is truncated"),
            (b"\x1f\x8b\x63garbage".to_vec(), "x: the gzip data is broken: invalid gzip header"),
        ] {
            assert_eq!(read("x", bytes.as_slice()).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn the_first_letters_tell_how_a_text_is_written() {
        assert_eq!(format("x", "\u{feff} \n{\"kind\"").unwrap(), Format::Json);
        assert_eq!(format("x", "# NAMES\nkind: Pod").unwrap(), Format::Yaml);
        assert_eq!(format("x", "NAME: value").unwrap(), Format::Yaml);
        for (text, message) in [
            (" \n", "x: is empty"),
            ("[1]", "x: holds a JSON array, not Kubernetes objects"),
            ("<!doctype html>", "x: holds HTML or XML, not JSON or YAML"),
            ("NAMESPACE   NAME   NODE-SELECTOR\n", "x: holds a table for people, not JSON or YAML"),
        ] {
            assert_eq!(format("x", text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_part_is_found_in_its_line() {
        let text = "one\ntwo\nthree";
        assert_eq!([line_of(text, text), line_of(text, &text[4..5]), line_of(text, &text[9..])], [1, 2, 3]);
    }
}
