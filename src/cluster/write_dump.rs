//! Writes a snapshot as a dump: an ordinary `v1.List`, to be read again by [`super::file`].

use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::{Compression, GzBuilder, write::GzEncoder};
use serde::Serialize;

use super::dump_header::Header;
use super::object::Object;
use super::redact::Redactor;
use super::replace_file::replace_file;
use super::text::Format;
use crate::encode::{json, yaml};
use crate::model::kind::with_place;
use crate::model::snapshot::{Kind, Snapshot};

/// How a dump is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOptions {
    /// JSON or YAML.
    pub format: Format,
    /// The namespace whose DaemonSets were read; `None` for all.
    pub namespace: Option<String>,
    /// Whether to hide everything that is not known to be harmless.
    pub redact: bool,
}

/// Writes a dump.
///
/// The order of the objects does not depend on the order in which they were read. Fails if writing to `out` fails.
pub fn write_dump(snapshot: &Snapshot, options: &WriteOptions, out: &mut dyn Write) -> io::Result<()> {
    write_unless(&|| false, redactor(snapshot, options), snapshot, options, out)
}

fn redactor(snapshot: &Snapshot, options: &WriteOptions) -> Option<Redactor> {
    options.redact.then(|| Redactor::new(snapshot))
}

fn write_unless(
    has_to_end: &dyn Fn() -> bool,
    redactor: Option<Redactor>,
    snapshot: &Snapshot,
    options: &WriteOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut dump = DumpWriter { out, format: options.format, redactor, has_to_end, is_empty: true };
    dump.begin(Header::of(snapshot, options.namespace.as_deref(), options.redact))?;
    for kind in Kind::every() {
        with_place!(kind, place => dump.objects(kind, (place.of)(snapshot))?);
    }
    dump.end()
}

/// Writes a dump to a file, gzipped if its name ends in `.gz`. Fails if the directory or the file is not writable, or
/// the process is asked to stop; then no partial file is left.
pub fn write_dump_file(
    snapshot: &Snapshot,
    options: &WriteOptions,
    path: &Path,
    has_to_end: &dyn Fn() -> bool,
) -> io::Result<()> {
    let redactor = redactor(snapshot, options);
    replace_file(path, |file, name| {
        let mut out = BufWriter::with_capacity(1 << 18, file);
        if name.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz")) {
            // No timestamp, so that the same objects give the same bytes.
            let mut gzip: GzEncoder<_> = GzBuilder::new().write(&mut out, Compression::default());
            write_unless(has_to_end, redactor, snapshot, options, &mut gzip)?;
            gzip.finish()?;
        } else {
            write_unless(has_to_end, redactor, snapshot, options, &mut out)?;
        }
        out.flush()
    })
}

/// Writes a dump, one object at a time.
struct DumpWriter<'a> {
    out: &'a mut dyn Write,
    format: Format,
    redactor: Option<Redactor>,
    has_to_end: &'a dyn Fn() -> bool,
    is_empty: bool,
}

/// The fields before the items.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    api_version: &'static str,
    kind: &'static str,
    snapshot: Header,
}

/// An object with its type first.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Typed<'a, T> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    object: &'a T,
}

impl DumpWriter<'_> {
    fn begin(&mut self, snapshot: Header) -> io::Result<()> {
        let head = Head { api_version: "v1", kind: "List", snapshot };
        match self.format {
            Format::Json => {
                let mut text = Vec::new();
                json::compact(&head, &mut text)?;
                // The items are the last field.
                self.out.write_all(text.strip_suffix(b"}").unwrap_or(&text))?;
                self.out.write_all(b",\"items\":[")
            }
            Format::Yaml => yaml::write(&head, self.out),
        }
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.write_all(match self.format {
            Format::Json if self.is_empty => b"]}\n",
            Format::Json => b"\n]}\n",
            Format::Yaml if self.is_empty => b"items: []\n",
            Format::Yaml => b"",
        })
    }

    /// Writes the objects of a kind, each with its type.
    fn objects<T: Object + Serialize>(&mut self, kind: Kind, objects: &[T]) -> io::Result<()> {
        let (api_version, kind, _) = kind.api_names();
        let mut sorted: Vec<&T> = objects.iter().collect();
        sorted.sort_by_key(|object| object.key());
        for object in sorted {
            match object.whole() {
                Some(whole) if whole.get("apiVersion").is_some() && whole.get("kind").is_some() => {
                    self.object(whole)?
                }
                _ => self.object(&Typed { api_version, kind, object })?,
            }
        }
        Ok(())
    }

    fn object(&mut self, object: &impl Serialize) -> io::Result<()> {
        let Some(redactor) = &mut self.redactor else { return self.item(object) };
        let mut value = serde_json::to_value(object)?;
        redactor.redact(&mut value);
        self.item(&value)
    }

    /// Writes an item; in JSON on a single line, which is half as long as indented and works with grep and diff.
    fn item(&mut self, item: &impl Serialize) -> io::Result<()> {
        if (self.has_to_end)() {
            return Err(io::Error::other("interrupted"));
        }
        let is_first = std::mem::take(&mut self.is_empty);
        match self.format {
            Format::Json => {
                self.out.write_all(if is_first { b"\n" } else { b",\n" })?;
                json::compact(item, self.out)
            }
            Format::Yaml => {
                self.out.write_all(if is_first { b"items:\n" } else { b"" })?;
                yaml::write(&[item], self.out)
            }
        }
    }
}
