//! Writes a snapshot as a dump: an ordinary `v1.List`, to be read again by [`super::file`].

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::{Compression, GzBuilder, write::GzEncoder};
use serde::ser::{Error as _, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::dump_header::Header;
use super::redact::Redactor;
use super::text::Format;
use crate::model::metadata::ObjectMeta;
use crate::model::snapshot::{Kind, Snapshot};

/// How a dump is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOptions {
    /// JSON or YAML.
    pub format: Format,
    /// The one namespace that DaemonSets were read of; all of them where absent.
    pub namespace: Option<String>,
    /// Whether to hide env values, foreign annotations and image registries.
    pub redact: bool,
}

/// Writes a dump.
///
/// The order of the objects does not depend on the order in which they were read.
///
/// # Errors
///
/// Fails where the writer fails.
pub fn write_dump(snapshot: &Snapshot, options: &WriteOptions, out: &mut dyn Write) -> io::Result<()> {
    let redactor = options.redact.then(|| Redactor::new(snapshot));
    let list = List {
        api_version: "v1",
        kind: "List",
        snapshot: Header::of(snapshot, options.namespace.as_deref(), options.redact),
        items: Items { snapshot, redactor: redactor.as_ref() },
    };
    match options.format {
        Format::Json => {
            list.serialize(&mut serde_json::Serializer::with_formatter(&mut *out, LineAnItem::default()))?;
            out.write_all(b"\n")
        }
        Format::Yaml => {
            let written = serde_saphyr::to_io_writer_with_options(&mut &mut *out, &list, yaml_options());
            written.map_err(|error| match error {
                serde_saphyr::SerializeError::IO { error } => error,
                error => io::Error::other(error),
            })
        }
    }
}

fn yaml_options() -> serde_saphyr::SerializerOptions {
    // Folding would change texts that end in spaces.
    serde_saphyr::ser_options! { min_fold_chars: usize::MAX, folded_wrap_chars: usize::MAX }
}

/// Writes JSON with a line for each item: half as long as indented, and fit for grep and diff.
#[derive(Default)]
struct LineAnItem {
    depth: usize,
}

impl LineAnItem {
    fn break_line<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        if self.depth == 2 { writer.write_all(b"\n") } else { Ok(()) }
    }
}

impl serde_json::ser::Formatter for LineAnItem {
    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth += 1;
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        writer.write_all(b"}")
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth += 1;
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.break_line(writer)?;
        self.depth -= 1;
        writer.write_all(b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(b",")?;
        }
        self.break_line(writer)
    }
}

/// Writes a dump into a file, gzipped where its name ends in `.gz`.
///
/// It is written beside the file first and then takes its place, so that whatever happens the file is
/// either the old one or the new one.
///
/// # Errors
///
/// Fails where the folder or the file cannot be written.
pub fn write_dump_file(snapshot: &Snapshot, options: &WriteOptions, path: &Path) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if path.exists() && !path.is_file() {
        // A pipe or a device cannot be replaced.
        return write_into(snapshot, options, &path, File::options().write(true).open(&path)?);
    }
    let beside = path_beside(&path)?;
    let written = File::create_new(&beside).and_then(|file| {
        write_into(snapshot, options, &path, file)?;
        fs::rename(&beside, &path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

fn path_beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::other("it has no file name"))?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.part", std::process::id()));
    Ok(path.with_file_name(beside))
}

fn write_into(snapshot: &Snapshot, options: &WriteOptions, path: &Path, file: File) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 18, file);
    if path.extension().is_some_and(|extension| extension == "gz") {
        // Without the time of writing, so that the same objects give the same bytes.
        let mut gzip: GzEncoder<_> = GzBuilder::new().write(&mut out, Compression::default());
        write_dump(snapshot, options, &mut gzip)?;
        gzip.finish()?;
    } else {
        write_dump(snapshot, options, &mut out)?;
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all().or_else(|error| {
        // Pipes cannot be synced.
        if error.kind() == io::ErrorKind::InvalidInput { Ok(()) } else { Err(error) }
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    api_version: &'static str,
    kind: &'static str,
    snapshot: Header,
    items: Items<'a>,
}

/// Every object of a snapshot, written one at a time.
struct Items<'a> {
    snapshot: &'a Snapshot,
    redactor: Option<&'a Redactor>,
}

/// An object with its type before it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Typed<'a, T> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    object: &'a T,
}

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut items = serializer.serialize_seq(None)?;
        for kind in Kind::ALL.into_iter().chain([Kind::AdvancedDaemonSets]) {
            let snapshot = self.snapshot;
            match kind {
                Kind::DaemonSets => {
                    for daemon_set in sorted(&snapshot.daemon_sets, |object| &object.metadata) {
                        self.whole(&mut items, kind, &daemon_set.object)?;
                    }
                }
                Kind::AdvancedDaemonSets => {
                    for daemon_set in sorted(&snapshot.advanced_daemon_sets, |object| &object.metadata) {
                        self.whole(&mut items, kind, &daemon_set.object)?;
                    }
                }
                Kind::ControllerRevisions => {
                    for revision in sorted(&snapshot.controller_revisions, |object| &object.metadata) {
                        self.whole(&mut items, kind, &revision.object)?;
                    }
                }
                Kind::Nodes => self.slim(&mut items, kind, &snapshot.nodes, |object| &object.metadata)?,
                Kind::Pods => self.slim(&mut items, kind, &snapshot.pods, |object| &object.metadata)?,
                Kind::Events => self.slim(&mut items, kind, &snapshot.events, |object| &object.metadata)?,
                Kind::LimitRanges => self.slim(&mut items, kind, &snapshot.limit_ranges, |object| &object.metadata)?,
                Kind::RuntimeClasses => {
                    self.slim(&mut items, kind, &snapshot.runtime_classes, |object| &object.metadata)?
                }
                Kind::PriorityClasses => {
                    self.slim(&mut items, kind, &snapshot.priority_classes, |object| &object.metadata)?
                }
                Kind::Leases => self.slim(&mut items, kind, &snapshot.leases, |object| &object.metadata)?,
            }
        }
        items.end()
    }
}

impl Items<'_> {
    /// Writes an object that was kept whole.
    fn whole<S: SerializeSeq>(&self, items: &mut S, kind: Kind, object: &Value) -> Result<(), S::Error> {
        let (api_version, kind, _) = kind.api_names();
        let has_type = object.get("apiVersion").is_some() && object.get("kind").is_some();
        if has_type && self.redactor.is_none() {
            return items.serialize_element(object);
        }
        let mut object = object.clone();
        if let Some(fields) = object.as_object_mut() {
            fields.entry("apiVersion").or_insert_with(|| api_version.into());
            fields.entry("kind").or_insert_with(|| kind.into());
        }
        if let Some(redactor) = self.redactor {
            redactor.redact(&mut object);
        }
        items.serialize_element(&object)
    }

    /// Writes objects of which the fields that matter were kept.
    fn slim<S: SerializeSeq, T: Serialize>(
        &self,
        items: &mut S,
        kind: Kind,
        objects: &[T],
        metadata: impl Fn(&T) -> &ObjectMeta,
    ) -> Result<(), S::Error> {
        let (api_version, kind, _) = kind.api_names();
        for object in sorted(objects, metadata) {
            let typed = Typed { api_version, kind, object };
            match self.redactor {
                None => items.serialize_element(&typed)?,
                Some(redactor) => {
                    let mut value = serde_json::to_value(&typed).map_err(S::Error::custom)?;
                    redactor.redact(&mut value);
                    items.serialize_element(&value)?;
                }
            }
        }
        Ok(())
    }
}

fn sorted<T>(objects: &[T], metadata: impl Fn(&T) -> &ObjectMeta) -> Vec<&T> {
    let mut sorted: Vec<_> = objects.iter().collect();
    sorted.sort_by(|one, other| {
        let (one, other) = (metadata(one), metadata(other));
        (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name))
    });
    sorted
}
