//! From bytes to text: unpacks gzip and UTF-16, and identifies files that do not contain Kubernetes objects.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::str::Utf8Error;

use super::error::ClusterError;
use super::unpack::{Gunzip, UNPACKED_LIMIT, Utf16, is_utf16};

/// The path that denotes standard input in messages.
pub const STANDARD_INPUT: &str = "standard input";

/// The most bytes of a manifest.
const MANIFEST_LIMIT: usize = 64 << 20;

/// Number of bytes read at a time.
const CHUNK: usize = 1 << 18;

/// Number of bytes that determine the kind of a text.
const HEAD: usize = 4096;

/// The mark that some editors write at the beginning of a text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The format of a dump or manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON documents, one after the other.
    Json,
    /// YAML documents, separated by `---`.
    Yaml,
}

/// A text that is read in chunks, gzipped or not, which its first bytes tell.
pub struct Text<'a> {
    name: String,
    reader: Box<dyn Read + 'a>,
    /// The beginning, until it is returned.
    head: Vec<u8>,
    buffer: Vec<u8>,
    gzipped: bool,
    /// Number of bytes read, unpacked.
    length: u64,
}

/// Why a text cannot be read.
#[derive(Debug)]
pub enum TextError {
    /// It is not JSON or YAML.
    Foreign(ClusterError),
    /// It is truncated, broken, or cannot be read at all.
    Unreadable(ClusterError),
}

impl From<ClusterError> for TextError {
    fn from(error: ClusterError) -> Self {
        TextError::Unreadable(error)
    }
}

impl From<TextError> for ClusterError {
    fn from(error: TextError) -> Self {
        match error {
            TextError::Foreign(error) | TextError::Unreadable(error) => error,
        }
    }
}

/// A file or stream that may be an archive, which its first bytes tell.
pub(super) enum Input<'a> {
    Text(Text<'a>),
    Tar(Box<dyn Read + 'a>),
}

impl<'a> Input<'a> {
    /// Opens a file. Fails if the file cannot be read, or is neither text nor an archive.
    pub(super) fn open(path: &Path) -> Result<Input<'static>, TextError> {
        let (name, file) = open_file(path)?;
        Input::new(&name, file)
    }

    /// Opens a stream. Fails if the stream cannot be read, or is neither text nor an archive.
    pub(super) fn new(name: &str, reader: impl Read + 'a) -> Result<Self, TextError> {
        let text = Text::start(name, reader)?;
        if is_tar(&text.head) {
            let rest = io::Cursor::new(text.head).chain(text.reader);
            return Ok(Input::Tar(Box::new(rest.take(UNPACKED_LIMIT))));
        }
        text.checked().map(Input::Text)
    }
}

fn open_file(path: &Path) -> Result<(String, File), TextError> {
    let name = path.display().to_string();
    if path.is_dir() {
        return Err(ClusterError::file(name, "is a directory").into());
    }
    let file = File::open(path).map_err(|error| io_error(&name, &error))?;
    Ok((name, file))
}

impl<'a> Text<'a> {
    /// Opens a file. Fails if the file cannot be read, or is not text.
    pub fn open(path: &Path) -> Result<Text<'static>, TextError> {
        let (name, file) = open_file(path)?;
        Text::new(&name, file)
    }

    /// Opens a stream. Fails if the stream cannot be read, or is not text.
    pub fn new(name: &str, reader: impl Read + 'a) -> Result<Self, TextError> {
        Text::start(name, reader)?.checked()
    }

    fn start(name: &str, mut reader: impl Read + 'a) -> Result<Self, TextError> {
        let mut start = Vec::new();
        let read = reader.by_ref().take(2).read_to_end(&mut start);
        read.map_err(|error| io_error(name, &error))?;
        let gzipped = start == GZIP_MAGIC;
        let reader = io::Cursor::new(start).chain(reader);
        let reader: Box<dyn Read + 'a> = if gzipped { Box::new(Gunzip::new(reader)) } else { Box::new(reader) };
        let mut text =
            Text { name: name.to_owned(), reader, head: Vec::new(), buffer: vec![0; CHUNK], gzipped, length: 0 };
        text.read_head()?;
        if is_utf16(&text.head) {
            let head = std::mem::take(&mut text.head);
            text.length = 0;
            text.reader = Box::new(Utf16::new(io::Cursor::new(head).chain(text.reader)));
            text.read_head()?;
        }
        Ok(text)
    }

    fn read_head(&mut self) -> Result<(), TextError> {
        while self.head.len() < HEAD
            && let Some(chunk) = self.read_chunk()?
        {
            let chunk = chunk.to_vec();
            self.head.extend(chunk);
        }
        Ok(())
    }

    fn checked(mut self) -> Result<Self, TextError> {
        if let Some((what, hint)) = foreign_bytes(&self.head) {
            let error = ClusterError::file(&self.name, format!("is {what}, not JSON or YAML")).hint(hint);
            return Err(TextError::Foreign(error));
        }
        if self.head.starts_with(BYTE_ORDER_MARK) {
            self.head.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(self)
    }

    /// Returns the number of bytes read so far, unpacked.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Returns the name of the text in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the beginning of the text has a field of Kubernetes objects.
    pub fn mentions_objects(&self) -> bool {
        ["apiVersion", "kind"].iter().any(|field| memchr::memmem::find(&self.head, field.as_bytes()).is_some())
    }

    /// Returns the format of the text. Fails if it is empty, or neither JSON nor YAML.
    pub fn format(&self) -> Result<Format, ClusterError> {
        format(&self.name, &String::from_utf8_lossy(&self.head))
    }

    /// Returns the next bytes, or `None` at the end. Fails if they cannot be read, and if the text is too long.
    pub fn next_chunk(&mut self) -> Result<Option<&[u8]>, ClusterError> {
        if self.head.is_empty() {
            return self.read_chunk();
        }
        let head = std::mem::take(&mut self.head);
        self.buffer.resize(CHUNK.max(head.len()), 0);
        self.buffer[..head.len()].copy_from_slice(&head);
        Ok(Some(&self.buffer[..head.len()]))
    }

    fn read_chunk(&mut self) -> Result<Option<&[u8]>, ClusterError> {
        let read = loop {
            match self.reader.read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.read_error(&error)),
                Ok(read) => break read,
            }
        };
        self.length += read as u64;
        Ok((read > 0).then_some(&self.buffer[..read]))
    }

    fn read_error(&self, error: &io::Error) -> ClusterError {
        match error.kind() {
            io::ErrorKind::FileTooLarge => {
                ClusterError::file(&self.name, error.to_string()).hint("unpack it, and give its parts in a directory")
            }
            io::ErrorKind::UnexpectedEof if self.gzipped => ClusterError::file(
                &self.name,
                "the gzip data ends in the middle: the file is truncated, or something was appended",
            )
            .hint("copy the file again, or make the dump again"),
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData if self.gzipped => {
                ClusterError::file(&self.name, format!("the gzip data is broken: {error}"))
            }
            _ => io_error(&self.name, error),
        }
    }

    /// Reads the rest of the text. Fails if it cannot be read, is not UTF-8, or is larger than any manifest.
    pub fn into_string(mut self) -> Result<String, ClusterError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.next_chunk()? {
            bytes.extend_from_slice(chunk);
            if bytes.len() > MANIFEST_LIMIT {
                return Err(ClusterError::file(&self.name, "is larger than 64 MiB, too large for a manifest"));
            }
        }
        match str::from_utf8(&bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(utf8_error(&self.name, 1, &bytes, error)),
        }
    }
}

/// Builds the error for a file that cannot be read.
pub fn io_error(name: &str, error: &io::Error) -> ClusterError {
    match error.kind() {
        io::ErrorKind::NotFound => ClusterError::file(name, "no such file or directory"),
        io::ErrorKind::PermissionDenied => ClusterError::file(name, "permission denied"),
        _ => ClusterError::file(name, error.to_string()),
    }
}

/// Builds the error for bytes that are not UTF-8, in a text that starts on a line.
pub fn utf8_error(name: &str, line: usize, bytes: &[u8], error: Utf8Error) -> ClusterError {
    let at = error.valid_up_to();
    let line = line + memchr::memchr_iter(b'\n', &bytes[..at]).count();
    ClusterError::file(name, format!("line {line} is not UTF-8: it has the byte 0x{:02x}", bytes[at]))
        .hint("a dump is text: write it with `kubectl get … -o json` or `kubectl ds snapshot`")
}

fn is_tar(bytes: &[u8]) -> bool {
    bytes.get(257..262) == Some(b"ustar")
}

/// Names the file type of bytes that start like a well-known binary format.
fn foreign_bytes(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    let unpack_first = "unpack it, and pass the directory or the file in it";
    Some(match bytes {
        [b'P', b'K', 3, 4, ..] => ("a zip archive", unpack_first),
        _ if is_tar(bytes) => ("a tar archive", unpack_first),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => ("compressed with zstd", unpack_first),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => ("compressed with xz", unpack_first),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => ("compressed with bzip2", unpack_first),
        [b'k', b'8', b's', 0, ..] => ("Kubernetes protobuf", "ask for JSON: `kubectl get … -o json`"),
        [0x7f, b'E', b'L', b'F', ..] => ("a program", "give a dump that `kubectl ds snapshot` wrote"),
        _ => return None,
    })
}

/// Returns the format of a text, by its beginning. Fails if it is empty or in neither format.
pub fn format(name: &str, text: &str) -> Result<Format, ClusterError> {
    let text = text.trim_start();
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::{Format, Text, format};
    use crate::cluster::error::ClusterError;

    fn read(name: &str, bytes: &[u8]) -> Result<String, ClusterError> {
        Text::new(name, bytes)?.into_string()
    }

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
        let utf16: Vec<u8> = "\u{feff}kind: ä".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(read("x", &utf16).unwrap(), "kind: ä");
        assert_eq!(read("x", &gzip(&utf16)).unwrap(), "kind: ä");
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
            (b"k8s\0....".to_vec(), "x: is Kubernetes protobuf, not JSON or YAML"),
            (b"a: b\nc: \xff\n".to_vec(), "x: line 2 is not UTF-8: it has the byte 0xff"),
            (cut, "x: the gzip data ends in the middle: the file is truncated, or something was appended"),
            (b"\x1f\x8b\x63garbage".to_vec(), "x: the gzip data is broken: invalid gzip header"),
        ] {
            assert_eq!(read("x", bytes.as_slice()).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn the_first_letters_tell_how_a_text_is_written() {
        assert_eq!(format("x", " \n{\"kind\"").unwrap(), Format::Json);
        assert_eq!(format("x", "# NAMES\nkind: Pod").unwrap(), Format::Yaml);
        assert_eq!(format("x", "NAME: value").unwrap(), Format::Yaml);
        for (text, message) in [(" \n", "x: is empty"), ("[1]", "x: holds a JSON array, not Kubernetes objects")] {
            assert_eq!(format("x", text).unwrap_err().to_string(), message);
        }
    }
}
