//! Splits JSON documents into items as their text arrives, so that a whole list is never in memory.
//!
//! Only brackets and strings are parsed here. Other errors are left to the decoder of the items and of the text around
//! them: no byte of a document is dropped except the commas between items.

use std::borrow::Cow;

use memchr::memchr2;
use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::value::RawValue;

use super::log_section::{Extent, LogSection};
use super::pieces::{MAX_AROUND, MAX_ITEM, OnPiece, Piece, Position, newlines};
use super::text::TextError;

/// Splits a text into its documents.
#[derive(Debug, Default)]
pub(super) struct JsonCutter {
    /// The text of the document, with an empty list instead of the items.
    around: Vec<u8>,
    /// The beginning of an item whose end has not arrived yet.
    item: Vec<u8>,
    /// Number of open brackets.
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Where the last string at the outermost level begins in `around`.
    string_start: usize,
    /// Whether the last string at the outermost level is `items`, followed by a colon at most.
    at_items: bool,
    in_items: bool,
    /// Whether the list has had an item, so that the next one must follow a comma.
    has_items: bool,
    /// The open section of logs.
    log: Option<LogSection>,
    /// Number of line ends before the next bytes.
    lines: usize,
    /// The line on which the document begins.
    document_line: usize,
    /// The first line of the item whose end has not arrived yet.
    item_line: usize,
}

impl JsonCutter {
    /// Processes the next bytes, and passes each piece they complete to `on_piece`. Fails if a piece is too long, or `on_piece`
    /// fails.
    pub(super) fn push(&mut self, bytes: &[u8], on_piece: &mut OnPiece<'_>) -> Result<(), TextError> {
        let mut at = 0;
        while at < bytes.len() {
            at = match &mut self.log {
                Some(log) => match log.push(&bytes[at..]) {
                    Extent::Ends(length) => {
                        self.log = None;
                        at + length
                    }
                    Extent::GoesOn => bytes.len(),
                    Extent::Foreign => {
                        on_piece(Piece::End(log.heading()), Position::on(self.document_line))?;
                        self.log = None;
                        bytes.len()
                    }
                },
                None if self.in_items => self.push_items(bytes, at, on_piece)?,
                None => self.push_around(bytes, at, on_piece)?,
            };
        }
        self.lines += newlines(bytes);
        Ok(())
    }

    /// Returns whether the text ends inside a document.
    pub(super) fn is_truncated(&self) -> bool {
        self.depth > 0 || self.in_string || self.log.is_some()
    }

    /// Processes text outside the items; returns where the items begin, or the end of the bytes.
    fn push_around(&mut self, bytes: &[u8], start: usize, on_piece: &mut OnPiece<'_>) -> Result<usize, TextError> {
        for (at, &byte) in bytes.iter().enumerate().skip(start) {
            if self.depth == 0 {
                if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                    continue;
                }
                self.document_line = self.lines + newlines(&bytes[..at]) + 1;
                if byte == b'=' {
                    self.log = Some(LogSection::default());
                    return Ok(at);
                }
                if byte != b'{' {
                    on_piece(Piece::End(&bytes[at..=at]), Position::on(self.document_line))?;
                    continue;
                }
            }
            self.around.push(byte);
            if self.around.len() > MAX_AROUND {
                on_piece(Piece::TooLong, Position::on(self.document_line))?;
            }
            if self.in_string {
                if self.end_of_string(byte) && self.depth == 1 {
                    self.at_items = is_items(&self.around[self.string_start..]);
                }
                continue;
            }
            match byte {
                b'"' => {
                    self.in_string = true;
                    self.string_start = self.around.len() - 1;
                }
                b'[' if self.at_items => {
                    on_piece(Piece::Begin(&self.around), Position::on(self.document_line))?;
                    (self.in_items, self.at_items, self.has_items) = (true, false, false);
                    self.depth = 2;
                    return Ok(at + 1);
                }
                b'[' | b'{' => self.depth += 1,
                b']' | b'}' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        on_piece(Piece::End(&self.around), Position::on(self.document_line))?;
                        self.around.clear();
                    }
                }
                _ => {}
            }
            if !matches!(byte, b':' | b' ' | b'\n' | b'\r' | b'\t') {
                self.at_items = false;
            }
        }
        Ok(bytes.len())
    }

    /// Processes text of the items; returns where they end, or the end of the bytes.
    fn push_items(&mut self, bytes: &[u8], mut start: usize, on_piece: &mut OnPiece<'_>) -> Result<usize, TextError> {
        let mut at = start;
        if std::mem::take(&mut self.escaped) {
            at += 1;
        }
        while at < bytes.len() {
            if self.in_string {
                match memchr2(b'"', b'\\', &bytes[at..]) {
                    None => at = bytes.len(),
                    Some(found) if bytes[at + found] == b'"' => {
                        self.in_string = false;
                        at += found + 1;
                    }
                    Some(found) => {
                        at += found + 2;
                        self.escaped = at > bytes.len();
                    }
                }
                continue;
            }
            match bytes[at] {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b',' if self.depth == 2 => {
                    self.emit_item(bytes, start, at, on_piece)?;
                    start = at + 1;
                    self.has_items = true;
                }
                byte @ (b'}' | b']') if self.depth == 2 => {
                    if self.has_items || !self.is_blank(&bytes[start..at]) {
                        self.emit_item(bytes, start, at, on_piece)?;
                    }
                    self.item.clear();
                    self.around.push(byte);
                    (self.in_items, self.depth) = (false, 1);
                    return Ok(at + 1);
                }
                b'}' | b']' => self.depth -= 1,
                _ => {}
            }
            at += 1;
        }
        start = start.min(bytes.len());
        if self.item.is_empty() {
            start += blanks(&bytes[start..]);
            self.item_line = self.lines + newlines(&bytes[..start]) + 1;
        }
        self.item.extend_from_slice(&bytes[start..]);
        if self.item.len() > MAX_ITEM {
            on_piece(Piece::TooLong, Position::on(self.item_line))?;
        }
        Ok(bytes.len())
    }

    fn is_blank(&self, rest: &[u8]) -> bool {
        self.item.iter().chain(rest).all(u8::is_ascii_whitespace)
    }

    /// Passes on an item that ends in these bytes, without a copy if it also begins in them.
    fn emit_item(
        &mut self,
        bytes: &[u8],
        start: usize,
        end: usize,
        on_piece: &mut OnPiece<'_>,
    ) -> Result<(), TextError> {
        if self.item.is_empty() {
            let start = start + blanks(&bytes[start..end]);
            return on_piece(Piece::Item(&bytes[start..end]), Position::after(self.lines, &bytes[..start]));
        }
        self.item.extend_from_slice(&bytes[start..end]);
        on_piece(Piece::Item(&self.item), Position::on(self.item_line))?;
        self.item.clear();
        Ok(())
    }

    /// Processes a byte inside a string; returns whether the string ends there.
    fn end_of_string(&mut self, byte: u8) -> bool {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => self.in_string = false,
            _ => {}
        }
        !self.in_string
    }
}

/// Returns whether a JSON string is `items`, in any spelling.
fn is_items(string: &[u8]) -> bool {
    string == b"\"items\""
        || (string.contains(&b'\\') && serde_json::from_slice::<String>(string).is_ok_and(|key| key == "items"))
}

/// A document without its items.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JsonDocument<'a> {
    #[serde(default, borrow)]
    pub(super) api_version: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(default, borrow, deserialize_with = "raw")]
    pub(super) items: Option<&'a RawValue>,
    /// The items of a list from kubectl 1.9 or older.
    #[serde(default, borrow, rename = "Items", deserialize_with = "raw")]
    pub(super) old_items: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) snapshot: Option<&'a RawValue>,
}

/// Returns whether a field is a list, or `null`, which Go writes for an empty list.
pub(super) fn is_list(field: Option<&RawValue>) -> bool {
    field.is_some_and(|field| field.get().starts_with('[') || field.get() == "null")
}

/// Reads a field, distinguishing `null` from absence.
fn raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Counts the whitespace before an item, whose line is that of its first character.
fn blanks(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::JsonCutter;
    use crate::cluster::pieces::Piece;

    /// Texts with the lines on which they begin.
    type Lines = Vec<(String, usize)>;

    /// Returns the items and documents with their lines, and whether the text is truncated.
    fn cut(text: &str, chunk: usize) -> (Lines, Lines, bool) {
        let (mut items, mut documents) = (Vec::new(), Vec::new());
        let mut cutter = JsonCutter::default();
        for chunk in text.as_bytes().chunks(chunk) {
            let on_piece = &mut |piece: Piece<'_>, place: crate::cluster::pieces::Position<'_>| {
                match piece {
                    Piece::Begin(_) | Piece::TooLong => {}
                    Piece::Item(item) => items.push((String::from_utf8_lossy(item).trim().to_owned(), place.line())),
                    Piece::End(text) => documents.push((String::from_utf8_lossy(text).into_owned(), place.line())),
                }
                Ok(())
            };
            cutter.push(chunk, on_piece).unwrap();
        }
        (items, documents, cutter.is_truncated())
    }

    #[test]
    fn items_are_the_same_however_the_text_is_divided() {
        let items = json!([
            {"metadata": {"name": "a", "labels": {"items": "[\"{}\\\"]"}}, "items": [1, [2]]},
            {"text": "]}\\", "items": []},
            {},
            null,
            "a,b",
            [3, 4],
        ]);
        let list = json!({"items": items, "kind": "PodList", "metadata": {"continue": "n\"e", "items": ["no"]}});
        let escaped = list.to_string().replacen("\"items\":[{\"meta", "\"\\u0069tems\":[{\"meta", 1);
        for text in [list.to_string(), serde_json::to_string_pretty(&list).unwrap(), escaped] {
            for chunk in [1, 2, 3, 10, text.len()] {
                let (found, documents, truncated) = cut(&text, chunk);
                let found: Vec<Value> = found.iter().map(|(item, _)| serde_json::from_str(item).unwrap()).collect();
                assert_eq!(Value::Array(found), items, "{chunk}");
                let around: Value = serde_json::from_str(&documents[0].0).unwrap();
                assert_eq!(around["metadata"], list["metadata"]);
                assert_eq!(around["items"], json!([]));
                assert!(!truncated);
            }
        }
    }

    #[test]
    fn pieces_know_their_line() {
        let text = "\n{\"a\": 1}\n{\"items\":\n[\n1,\n\n2], \"b\": 3}\n";
        for chunk in [1, 4, 100] {
            let (items, documents, _) = cut(text, chunk);
            let lines: Vec<_> = items.iter().map(|(item, line)| (item.as_str(), *line)).collect();
            assert_eq!(lines, [("1", 5), ("2", 7)], "{chunk}");
            let lines: Vec<_> = documents.iter().map(|(_, line)| *line).collect();
            assert_eq!(lines, [2, 3]);
        }
    }

    #[test]
    fn what_is_wrong_between_items_stays_in_a_piece() {
        assert_eq!(cut(r#"{"items": [1, , 2]}"#, 100).0[1].0, "");
        assert_eq!(cut(r#"{"items": [1, ]}"#, 100).0[1].0, "");
        assert_eq!(cut(r#"{"items": [{"a" 1}]}"#, 100).0[0].0, r#"{"a" 1}"#);
        assert_eq!(cut(r#"{"items": [1}}"#, 100).1[0].0, r#"{"items": [}}"#);
        assert_eq!(cut(r#"{"items": []} x"#, 100).1[1].0, "x");
        assert!(cut(r#"{"items": [{"a":1},{"b""#, 4).2 && cut(r#"{"kind":"List"#, 4).2);
    }
}
