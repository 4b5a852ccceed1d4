//! Reads the objects in a text: lists, typed lists and single objects, in JSON or YAML.
//!
//! JSON is split as it arrives, and each item is decoded once its kind is known: an object that is not kept takes no
//! memory. An object of an unexpected shape is skipped without losing the others.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::dump_header::Header;
use super::error::ClusterError;
use super::json_document::{JsonCutter, JsonDocument, is_list};
use super::objects::{self, Objects, Reach};
use super::pieces::{MAX_AROUND, Piece, Position};
use super::text::{Format, Text, TextError, utf8_error};
use super::type_meta::TypeMeta;
use super::{log_section, yaml};
use crate::encode::documents::documents;
use crate::model::snapshot::Kind;

/// The error for a dump that would take too much memory.
pub(super) const TOO_MANY_OBJECTS: &str =
    "has too many objects: more than 2,000,000, or 200 MB of DaemonSets and revisions";

/// The most bytes of YAML: as values they take about ten times as much.
const YAML_LIMIT: usize = 32 << 20;

/// Adds every object in a text; `folder` is its directory, if a directory is read. Fails if the text is neither JSON
/// nor YAML, is broken or truncated, or has too many objects.
pub(super) fn read(objects: &mut Objects, text: &mut Text<'_>, folder: Option<&str>) -> Result<(), TextError> {
    let format = text.format().map_err(TextError::Foreign)?;
    let name = text.name().to_owned();
    let mut reader = DumpReader { objects, name: &name, folder, document: OpenDocument::default() };
    let result = match format {
        Format::Json => reader.read_json(text),
        Format::Yaml => reader.read_yaml(text),
    };
    if result.is_err() {
        // Other files of the directory or archive are still used, but the rest of this list is missing.
        reader.objects.truncated.extend(reader.document.counts.keys());
    }
    result
}

/// State of the document being read.
#[derive(Default)]
struct OpenDocument {
    /// The type, once it has been read.
    type_: Option<TypeMeta>,
    /// Items without a kind, and their lines, until the type of the list is known.
    pending: Vec<(String, usize)>,
    pending_length: usize,
    reach: Reach,
    /// Number of items of each kind.
    counts: BTreeMap<Kind, usize>,
}

struct DumpReader<'a> {
    objects: &'a mut Objects,
    name: &'a str,
    folder: Option<&'a str>,
    document: OpenDocument,
}

impl DumpReader<'_> {
    fn read_json(&mut self, text: &mut Text<'_>) -> Result<(), TextError> {
        let mut cutter = JsonCutter::default();
        let (mut lines, mut column) = (0, 0);
        while let Some(chunk) = text.next_chunk()? {
            cutter.push(chunk, &mut |piece, place| self.json_piece(piece, place))?;
            lines += super::pieces::newlines(chunk);
            column = memchr::memrchr(b'\n', chunk).map_or(column + chunk.len(), |at| chunk.len() - at - 1);
        }
        if !cutter.is_truncated() {
            return Ok(());
        }
        Err(self.truncated(&format!("the JSON breaks off at line {}, column {column}", lines + 1)))
    }

    fn json_piece(&mut self, piece: Piece<'_>, place: Position<'_>) -> Result<(), TextError> {
        match piece {
            Piece::Begin(text) => {
                let type_ = TypeMeta::of(&String::from_utf8_lossy(text));
                self.document.type_ = Some(type_).filter(|type_| !type_.kind.is_empty());
                Ok(())
            }
            Piece::Item(item) => {
                let item = self.utf8(item, place)?;
                let list = self.document.type_.as_ref().map(TypeMeta::of_items);
                match list {
                    // It is not a list.
                    Some(None) => Ok(()),
                    Some(Some(type_)) if !type_.kind.is_empty() => self.json_object(&type_, item, place),
                    _ => {
                        let type_ = TypeMeta::of(item);
                        if type_.kind.is_empty() && list.is_none() {
                            return self.defer(item, place);
                        }
                        self.json_object(&type_, item, place)
                    }
                }
            }
            Piece::TooLong => Err(self.too_long(place.line())),
            Piece::End(text) => {
                let text = self.utf8(text, place)?;
                self.end_json(text, place)
            }
        }
    }

    fn utf8<'t>(&self, bytes: &'t [u8], place: Position<'_>) -> Result<&'t str, TextError> {
        str::from_utf8(bytes).map_err(|error| utf8_error(self.name, place.line(), bytes, error).into())
    }

    /// Keeps an item until the type of its list is known.
    fn defer(&mut self, item: &str, place: Position<'_>) -> Result<(), TextError> {
        let line = place.line();
        self.document.pending_length += item.len();
        if self.document.pending_length > MAX_AROUND {
            return Err(self.too_long(line));
        }
        self.document.pending.push((item.to_owned(), line));
        Ok(())
    }

    fn end_json(&mut self, text: &str, place: Position<'_>) -> Result<(), TextError> {
        let whole: JsonDocument<'_> = serde_json::from_str(text).map_err(|error| self.json_error(&error, place))?;
        let type_ = TypeMeta { api_version: whole.api_version.into_owned(), kind: whole.kind.into_owned() };
        match type_.of_items() {
            Some(items) if is_list(whole.items) => {
                for (item, line) in std::mem::take(&mut self.document.pending) {
                    self.json_object(&items, &item, Position::on(line))?;
                }
                let header = whole.snapshot.map(|header| serde_json::from_str(header.get()));
                self.end_list(items.known(), header)?;
            }
            _ if type_.kind.is_empty() && is_list(whole.old_items) => return Err(self.too_old(place)),
            _ => self.json_object(&type_, text, place)?,
        }
        self.document = OpenDocument::default();
        Ok(())
    }

    fn foreign(&self, problem: &str) -> TextError {
        TextError::Foreign(ClusterError::file(self.name, problem))
    }

    fn truncated(&self, problem: &str) -> TextError {
        let error = ClusterError::file(self.name, format!("{problem}: the file is truncated"));
        error.hint("copy the file again, or make the dump again").into()
    }

    fn too_long(&self, line: usize) -> TextError {
        ClusterError::file(self.name, format!("line {line}: an object is longer than any object of Kubernetes")).into()
    }

    fn too_old(&self, place: Position<'_>) -> TextError {
        let problem =
            format!("the list at line {} has `Items` and no kind, as kubectl 1.9 and older wrote it", place.line());
        ClusterError::file(self.name, problem).hint("make the dump with a newer kubectl").into()
    }

    fn json_object(&mut self, type_: &TypeMeta, text: &str, place: Position<'_>) -> Result<(), TextError> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        self.objects.note_written(type_, || serde_json::from_str(text).ok());
        let result = match type_.known() {
            Some(kind) => {
                self.count(kind, text.len())?;
                let added = self.objects.add(kind, &mut deserializer, &mut self.document.reach);
                match added {
                    Err(error) if error.is_data() => {
                        let object = serde_json::from_str(text).map_err(|error| self.json_error(&error, place))?;
                        return self.skip(kind, &object, &error, Some(place.line()));
                    }
                    result => result,
                }
            }
            None => {
                self.objects.count_other(&type_.api_version, &type_.kind);
                self.objects.note_name(type_, || serde_json::from_str(text).ok());
                Deserialize::deserialize(&mut deserializer).map(|IgnoredAny| ())
            }
        };
        result.and_then(|()| deserializer.end()).map_err(|error| self.json_error(&error, place))
    }

    fn json_error(&self, error: &serde_json::Error, place: Position<'_>) -> TextError {
        let line = place.line() + error.line().saturating_sub(1);
        let problem = if error.is_eof() {
            // The text continues after the item.
            "expected value".to_owned()
        } else {
            let text = error.to_string();
            let place = format!(" at line {} column {}", error.line(), error.column());
            text.strip_suffix(&place).map_or(text.clone(), str::to_owned)
        };
        ClusterError::file(self.name, format!("line {line}: broken JSON: {problem}")).into()
    }

    /// Skips an object of an unexpected shape.
    fn skip(
        &mut self,
        kind: Kind,
        object: &Value,
        error: &dyn std::fmt::Display,
        line: Option<usize>,
    ) -> Result<(), TextError> {
        let problem = objects::problem(kind, object).unwrap_or_else(|| error.to_string());
        let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        let problem = format!("{}: {line}{problem}", self.name);
        self.objects.skip(kind, object, problem).map_err(|problem| ClusterError::file(self.name, problem).into())
    }

    /// Reads YAML, which is entirely in memory.
    fn read_yaml(&mut self, text: &mut Text<'_>) -> Result<(), TextError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = text.next_chunk()? {
            bytes.extend_from_slice(chunk);
            if bytes.len() > YAML_LIMIT {
                self.note_kinds(&bytes);
                return Err(ClusterError::file(self.name, "is larger than 32 MiB, too large for YAML")
                    .hint("make the dump in JSON, which is read as a stream: `kubectl get … -o json`")
                    .into());
            }
        }
        // kubectl cluster-info dump writes logs between its documents.
        if !log_section::blank(&mut bytes) {
            self.note_kinds(&bytes);
            return Err(self.truncated("ends in the middle of the logs of a container"));
        }
        let text = self.utf8(&bytes, Position::on(1))?;
        for document in documents(text) {
            let value = match yaml::value(document) {
                Ok(value) => value,
                Err(problem) => {
                    self.note_kinds(document.text.as_bytes());
                    return Err(ClusterError::file(self.name, problem).into());
                }
            };
            match value {
                Value::Object(fields) => {
                    self.end_yaml(fields, document.text.len(), document.lines_before + 1)?;
                    self.document = OpenDocument::default();
                }
                Value::Array(_) => return Err(self.foreign("holds a YAML sequence, not Kubernetes objects")),
                _ => return Err(self.foreign("holds plain text, not Kubernetes objects")),
            }
        }
        Ok(())
    }

    /// Records the kinds in an unreadable text: other files of the directory do not have all of their objects.
    fn note_kinds(&mut self, text: &[u8]) {
        for line in text.split(|byte| *byte == b'\n') {
            let line = line.trim_ascii_start();
            let line = line.strip_prefix(b"- ").unwrap_or(line);
            let name = line.strip_prefix(b"kind:").map(|name| String::from_utf8_lossy(name.trim_ascii()));
            let is_named = |kind: &Kind, name: &str| name.trim_end_matches("List") == kind.api_names().1;
            let named = name.and_then(|name| Kind::ALL.into_iter().find(|kind| is_named(kind, &name)));
            self.document.counts.extend(named.map(|kind| (kind, 0)));
        }
    }

    fn end_yaml(&mut self, mut fields: Map<String, Value>, length: usize, line: usize) -> Result<(), TextError> {
        let items = fields.remove("items");
        let header = fields.remove("snapshot").map(serde_json::from_value);
        let type_ = TypeMeta::of_value(&Value::Object(fields.clone()));
        let (Some(list), Some(Value::Array(_) | Value::Null)) = (type_.of_items(), &items) else {
            if type_.kind.is_empty() && matches!(items, Some(Value::Array(_) | Value::Null)) {
                // kubectl writes the kind of a list after its items.
                return Err(self.truncated(&format!("the list at line {line} has no kind")));
            }
            return self.value(&type_, &Value::Object(fields), length, Some(line));
        };
        let items = if let Some(Value::Array(items)) = items { items } else { Vec::new() };
        let count = items.len();
        for item in items {
            let own = if list.kind.is_empty() { &TypeMeta::of_value(&item) } else { &list };
            // On which line of the list it begins is not known.
            self.value(own, &item, length / count, None)?;
        }
        self.end_list(list.known(), header)
    }

    fn value(&mut self, type_: &TypeMeta, value: &Value, length: usize, line: Option<usize>) -> Result<(), TextError> {
        self.objects.note_written(type_, || Some(value.clone()));
        let Some(kind) = type_.known() else {
            self.objects.count_other(&type_.api_version, &type_.kind);
            self.objects.note_name(type_, || Deserialize::deserialize(value).ok());
            return Ok(());
        };
        self.count(kind, length)?;
        match self.objects.add(kind, value, &mut self.document.reach) {
            Ok(()) => Ok(()),
            Err(error) => self.skip(kind, value, &error, line),
        }
    }

    /// Counts an object before it is allocated.
    fn count(&mut self, kind: Kind, length: usize) -> Result<(), TextError> {
        *self.document.counts.entry(kind).or_default() += 1;
        self.objects.count_whole(kind, length);
        if self.objects.is_full() {
            return Err(ClusterError::file(self.name, TOO_MANY_OBJECTS).into());
        }
        Ok(())
    }

    fn end_list(
        &mut self,
        listed: Option<Kind>,
        header: Option<Result<Header, serde_json::Error>>,
    ) -> Result<(), TextError> {
        if let Some(header) = header {
            let header = header.map_err(|error| {
                ClusterError::file(self.name, format!("its field `snapshot` cannot be read: {error}"))
                    .hint("if a newer kubectl-ds wrote it, remove that field to read it as any other dump")
            })?;
            if let Some((kind, expected)) = header.missing(&self.document.counts) {
                let found = self.document.counts.get(&kind).copied().unwrap_or(0);
                let resource = kind.resource();
                let problem = format!("has {found} of its {expected} {resource}: the file is truncated, or was edited");
                return Err(ClusterError::file(self.name, problem)
                    .hint("copy the file again, or remove its field `snapshot` to read what it has")
                    .into());
            }
            self.objects.headers.push(header);
        }
        self.objects.end_list(listed, &self.document.reach, self.folder);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::cluster::error::ClusterError;
    use crate::cluster::objects::{MAX_OBJECTS, Objects};
    use crate::cluster::text::Text;

    #[test]
    fn memory_is_bounded_by_the_number_of_objects() {
        let pods = |count: usize| vec![r#"{"metadata":{"name":"a"}}"#; count].join(",");
        let daemon_set = format!(r#"{{"metadata":{{"name":"a"}},"spec":"{}"}}"#, "x".repeat(10_000));
        for (kind, items, kept, is_full) in [
            ("Pod", pods(1), MAX_OBJECTS - 2, false),
            ("Pod", pods(2), MAX_OBJECTS - 1, true),
            ("DaemonSet", "{}".to_owned(), MAX_OBJECTS - 20, true),
            ("DaemonSet", daemon_set.clone(), MAX_OBJECTS - 50, true),
            ("DaemonSet", daemon_set, MAX_OBJECTS - 200, false),
        ] {
            let api_version = if kind == "Pod" { "v1" } else { "apps/v1" };
            let json = format!(r#"{{"kind":"{kind}List","apiVersion":"{api_version}","items":[{items}]}}"#);
            for text in [
                json.clone(),
                format!("# YAML\n{json}"),
                format!("kind: {kind}List\napiVersion: {api_version}\nitems:\n- {}\n", items.replace("},{", "}\n- {")),
            ] {
                let mut objects = Objects { kept, ..Objects::default() };
                let result = read(&mut objects, &mut Text::new("x", text.as_bytes()).unwrap(), None);
                let expected = "x: has too many objects: more than 2,000,000, or 200 MB of DaemonSets and revisions";
                let error = result.map_err(|error| ClusterError::from(error).to_string()).err();
                assert_eq!(error.as_deref(), is_full.then_some(expected), "{kind} {kept} {text:.20}");
            }
        }
    }
}
