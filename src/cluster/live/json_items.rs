//! Takes a list apart while its JSON text arrives: one item at a time, nothing kept.
//!
//! The text is not parsed here, only cut: brackets and strings are enough to see where the items of
//! the outermost object begin and end. What is around them is parsed at the end.

use serde::Deserialize;

/// The most bytes that the text around the items may have.
const AROUND: usize = 1 << 20;

/// What stands around the items of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Around {
    kind: String,
    metadata: ListMeta,
    items: Option<Vec<serde::de::IgnoredAny>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ListMeta {
    #[serde(rename = "continue")]
    continue_: Option<String>,
}

/// A list whose text is still arriving.
#[derive(Debug, Default)]
pub(super) struct ListDecoder {
    /// The text outside the items, with an empty list in their place.
    around: Vec<u8>,
    /// The item that has begun.
    item: Vec<u8>,
    /// How many brackets are open.
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Where the last string at the outermost level begins in `around`.
    string_start: usize,
    /// The last string at the outermost level is `items`, and nothing but a colon came since.
    at_items: bool,
    /// Between the brackets of the items.
    in_items: bool,
}

impl ListDecoder {
    /// Takes the next bytes, and hands every item that they complete to `item`.
    ///
    /// # Errors
    ///
    /// Fails where what is around the items is too long, or `item` fails.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        item: &mut dyn FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = if self.in_items { self.push_items(rest, item)? } else { self.push_around(rest) };
            rest = &rest[taken..];
            if self.around.len() > AROUND {
                return Err("it is no list".to_owned());
            }
        }
        Ok(())
    }

    /// Takes text outside the items, up to where they begin; returns how many bytes it took.
    fn push_around(&mut self, bytes: &[u8]) -> usize {
        for (index, &byte) in bytes.iter().enumerate() {
            self.around.push(byte);
            if self.in_string {
                if self.end_of_string(byte) && self.depth == 1 {
                    self.at_items = &self.around[self.string_start..] == b"\"items\"";
                }
                continue;
            }
            match byte {
                b'"' => {
                    self.in_string = true;
                    self.string_start = self.around.len() - 1;
                }
                b'[' if self.at_items && self.depth == 1 => {
                    self.around.push(b']');
                    (self.in_items, self.at_items) = (true, false);
                    self.depth = 2;
                    return index + 1;
                }
                b'[' | b'{' => self.depth += 1,
                b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            if !matches!(byte, b':' | b' ' | b'\n' | b'\r' | b'\t') {
                self.at_items = false;
            }
        }
        bytes.len()
    }

    /// Takes text of the items, up to where they end; returns how many bytes it took.
    fn push_items(&mut self, bytes: &[u8], item: &mut dyn FnMut(&[u8]) -> Result<(), String>) -> Result<usize, String> {
        // An item that begins and ends in these bytes is handed over without a copy.
        let mut start = (self.depth > 2).then_some(0);
        for (index, &byte) in bytes.iter().enumerate() {
            if self.in_string {
                self.end_of_string(byte);
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'[' | b'{' => {
                    if self.depth == 2 {
                        start = Some(index);
                    }
                    self.depth += 1;
                }
                b']' | b'}' => {
                    self.depth -= 1;
                    if self.depth == 2 {
                        let end = &bytes[start.take().unwrap_or(index)..=index];
                        if self.item.is_empty() {
                            item(end)?;
                        } else {
                            self.item.extend_from_slice(end);
                            item(&self.item)?;
                            self.item.clear();
                        }
                    } else if self.depth == 1 {
                        self.in_items = false;
                        return Ok(index + 1);
                    }
                }
                _ => {}
            }
        }
        if let Some(start) = start {
            self.item.extend_from_slice(&bytes[start..]);
        }
        Ok(bytes.len())
    }

    /// Takes a byte inside a string, and tells whether it ends there.
    fn end_of_string(&mut self, byte: u8) -> bool {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => self.in_string = false,
            _ => {}
        }
        !self.in_string
    }

    /// Returns where the next page begins, nothing on the last one, once all text has been taken.
    ///
    /// # Errors
    ///
    /// Fails where text is missing, or the text is no list.
    pub(super) fn finish(self) -> Result<Option<String>, String> {
        if self.in_items || self.depth > 0 {
            return Err(super::protobuf::TRUNCATED.to_owned());
        }
        let around: Around = serde_json::from_slice(&self.around).map_err(|error| error.to_string())?;
        if around.items.is_none() && !around.kind.ends_with("List") {
            return Err("it is no list".to_owned());
        }
        Ok(around.metadata.continue_.filter(|next| !next.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::ListDecoder;

    fn decode(text: &str, chunk: usize) -> Result<(Vec<Value>, Option<String>), String> {
        let mut decoder = ListDecoder::default();
        let mut items = Vec::new();
        for chunk in text.as_bytes().chunks(chunk) {
            decoder.push(chunk, &mut |item| {
                items.push(serde_json::from_slice(item).map_err(|error| error.to_string())?);
                Ok(())
            })?;
        }
        Ok((items, decoder.finish()?))
    }

    #[test]
    fn items_come_out_however_the_text_is_cut() {
        let items = json!([
            {"metadata": {"name": "a", "labels": {"items": "[\"{}\\\"]"}}, "items": [1, [2]]},
            {"text": "]}\\", "items": []},
            {},
        ]);
        let list = json!({"items": items, "kind": "PodList", "metadata": {"continue": "n\"e", "items": ["no"]}});
        for text in [list.to_string(), serde_json::to_string_pretty(&list).unwrap()] {
            for chunk in [1, 2, 3, 10, text.len()] {
                let (found, next) = decode(&text, chunk).unwrap();
                assert_eq!((Value::Array(found), next), (items.clone(), Some("n\"e".to_owned())), "{chunk}");
            }
        }
    }

    #[test]
    fn lists_without_items_are_empty() {
        for text in [r#"{"kind":"PodList","items":null}"#, r#"{"kind":"PodList","items":[]}"#, r#"{"items":[]}"#] {
            assert_eq!(decode(text, 4).unwrap(), (Vec::new(), None), "{text}");
        }
    }

    #[test]
    fn what_is_no_list_or_not_whole_is_refused() {
        assert_eq!(decode(r#"{"kind":"Pod"}"#, 4).unwrap_err(), "it is no list");
        assert_eq!(decode(r#"{"kind":"PodList","items":[{"a":1},{"b""#, 4).unwrap_err(), "it ends in the middle");
        assert_eq!(decode("", 4).unwrap_err(), "EOF while parsing a value at line 1 column 0");
        assert_eq!(decode("<html>", 4).unwrap_err(), "expected value at line 1 column 1");
        assert!(decode(r#"{"items":[{"a" 1}]}"#, 4).unwrap_err().starts_with("expected `:`"));
    }
}
