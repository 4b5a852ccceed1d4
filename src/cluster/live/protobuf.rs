//! Decodes a protobuf list as its bytes arrive, one item at a time.
//!
//! A body is the magic `k8s\0` and a `runtime.Unknown` {typeMeta = 1, raw = 2}; `raw` is the list {metadata = 1, items
//! = 2}, as k8s.io/apimachinery/pkg/runtime/serializer/protobuf writes it.

use bytes::{Buf, BytesMut};

use super::list::{List, ListMeta};
use crate::cluster::pieces::MAX_ITEM;
use crate::cluster::type_meta::TypeMeta;

/// The first bytes of every body.
pub(super) const MAGIC: &[u8] = b"k8s\0";

/// The wire type of fields that begin with their length.
const LENGTH_DELIMITED: u64 = 2;

/// The most bytes a field other than an item may have: fields are buffered until they are complete.
const MAX_FIELD: usize = 1 << 20;

/// The used part of `runtime.Unknown`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Unknown {
    #[prost(message, optional, tag = 1)]
    pub(super) type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", tag = 2)]
    pub(super) raw: Vec<u8>,
}

/// The position in the body of the next byte.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// Before the magic.
    Start,
    /// Between fields of `runtime.Unknown`.
    Envelope,
    /// Between fields of the list, with the number of bytes left.
    List(usize),
}

/// A list whose bytes are still arriving.
#[derive(Debug)]
pub(super) struct ListDecoder<'a> {
    list: &'a List,
    buffer: BytesMut,
    place: Place,
    is_list: bool,
    seen_list: bool,
    meta: ListMeta,
}

impl<'a> ListDecoder<'a> {
    pub(super) fn new(list: &'a List) -> Self {
        ListDecoder {
            list,
            buffer: BytesMut::new(),
            place: Place::Start,
            is_list: false,
            seen_list: false,
            meta: ListMeta::default(),
        }
    }

    /// Decodes the next bytes, and calls `item` for each item that they complete. Fails if the bytes are not a list, or `item`
    /// fails.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        item: &mut dyn FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        self.buffer.extend_from_slice(bytes);
        loop {
            match self.place {
                Place::Start => {
                    if self.buffer.len() < MAGIC.len() {
                        return Ok(());
                    }
                    if !self.buffer.starts_with(MAGIC) {
                        return Err("it is not in Kubernetes' protobuf format".to_owned());
                    }
                    self.buffer.advance(MAGIC.len());
                    self.place = Place::Envelope;
                }
                Place::Envelope => {
                    let Some(field) = Field::read(&self.buffer)? else { return Ok(()) };
                    if field.number == 2 && field.wire_type == LENGTH_DELIMITED {
                        if !self.is_list {
                            return Err(NOT_A_LIST.to_owned());
                        }
                        self.seen_list = true;
                        self.buffer.advance(field.header);
                        self.place = Place::List(field.length);
                        continue;
                    }
                    let Some(body) = field.body(&self.buffer, MAX_FIELD)? else { return Ok(()) };
                    if field.number == 1 {
                        let type_meta: TypeMeta = prost::Message::decode(body).map_err(|error| error.to_string())?;
                        self.list.check_list_type(&type_meta)?;
                        self.is_list = true;
                    }
                    self.buffer.advance(field.header + field.length);
                }
                Place::List(0) => self.place = Place::Envelope,
                Place::List(left) => {
                    let Some(field) = Field::read(&self.buffer)? else { return Ok(()) };
                    let whole = field.header + field.length;
                    if whole > left {
                        return Err("an item is longer than the list".to_owned());
                    }
                    let is_item = field.number == 2 && field.wire_type == LENGTH_DELIMITED;
                    let Some(body) = field.body(&self.buffer, if is_item { MAX_ITEM } else { MAX_FIELD })? else {
                        return Ok(());
                    };
                    if is_item {
                        item(body)?;
                    } else if field.number == 1 {
                        self.meta = prost::Message::decode(body).map_err(|error| error.to_string())?;
                    }
                    self.buffer.advance(whole);
                    self.place = Place::List(left - whole);
                }
            }
        }
    }

    /// Returns the metadata of the list, once all bytes have been pushed. Fails if bytes are missing.
    pub(super) fn finish(self) -> Result<ListMeta, String> {
        let complete = match self.place {
            Place::Start | Place::List(1..) => false,
            Place::Envelope | Place::List(0) => self.buffer.is_empty() && self.seen_list,
        };
        if complete { Ok(self.meta) } else { Err(TRUNCATED.to_owned()) }
    }
}

/// The error for a body that ends early.
pub(super) const TRUNCATED: &str = "it is truncated";

/// The error for a body that is something else.
pub(super) const NOT_A_LIST: &str = "it is not a list";

/// A field's header.
struct Field {
    number: u64,
    wire_type: u64,
    /// Number of bytes before the body.
    header: usize,
    /// Number of bytes in the body.
    length: usize,
}

impl Field {
    /// Reads a header; `None` if it is not complete yet.
    fn read(bytes: &[u8]) -> Result<Option<Field>, String> {
        let Some((key, key_length)) = varint(bytes)? else { return Ok(None) };
        let (number, wire_type) = (key >> 3, key & 7);
        let after = &bytes[key_length..];
        let (header, length) = match wire_type {
            0 => match varint(after)? {
                Some((_, length)) => (key_length, length),
                None => return Ok(None),
            },
            1 => (key_length, 8),
            LENGTH_DELIMITED => match varint(after)? {
                Some((length, bytes)) => {
                    let length = usize::try_from(length).ok().filter(|length| *length <= isize::MAX as usize / 2);
                    (key_length + bytes, length.ok_or("a field is too long")?)
                }
                None => return Ok(None),
            },
            5 => (key_length, 4),
            other => return Err(format!("unknown wire type {other}")),
        };
        Ok(Some(Field { number, wire_type, header, length }))
    }

    /// Returns the body; `None` if it is not complete yet.
    fn body<'a>(&self, bytes: &'a [u8], max: usize) -> Result<Option<&'a [u8]>, String> {
        if self.length > max {
            return Err(format!("a field of {} bytes is too long", self.length));
        }
        Ok(bytes.get(self.header..self.header + self.length))
    }
}

/// Reads a variable-length number and its length in bytes; `None` if it is not complete yet.
fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, String> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(Some((value, index + 1)));
        }
    }
    if bytes.len() >= 10 { Err("a number has too many bytes".to_owned()) } else { Ok(None) }
}

#[cfg(test)]
pub(super) mod tests {
    use prost::Message;

    use super::{List, ListDecoder};
    use crate::model::metadata::ObjectMeta;
    use crate::model::node::Node;
    use crate::model::snapshot::Kind;

    fn field(number: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2];
        prost::encoding::encode_varint(body.len() as u64, &mut bytes);
        bytes.extend_from_slice(body);
        bytes
    }

    /// Writes a list as the API server does.
    pub(in crate::cluster::live) fn encode(kind: &str, items: &[impl Message], next: &str) -> Vec<u8> {
        let mut list = field(1, &[field(2, b"42"), field(3, next.as_bytes())].concat());
        for item in items {
            list.extend(field(2, &item.encode_to_vec()));
        }
        let type_meta = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
        [b"k8s\0".to_vec(), field(1, &type_meta), field(2, &list), field(3, b""), field(4, b"")].concat()
    }

    pub(in crate::cluster::live) fn node(name: &str) -> Node {
        let metadata = ObjectMeta { name: name.to_owned(), ..ObjectMeta::default() };
        Node { metadata, ..Node::default() }
    }

    fn decode(bytes: &[u8], chunk: usize) -> Result<(Vec<Node>, String), String> {
        let list = List::of(Kind::Nodes);
        let mut decoder = ListDecoder::new(&list);
        let mut nodes = Vec::new();
        for chunk in bytes.chunks(chunk) {
            decoder.push(chunk, &mut |item| {
                nodes.push(Node::decode(item).map_err(|error| error.to_string())?);
                Ok(())
            })?;
        }
        Ok((nodes, decoder.finish()?.continue_))
    }

    #[test]
    fn items_come_out_however_the_bytes_are_cut() {
        let nodes = [node("a"), node(&"long".repeat(100)), node("")];
        let bytes = encode("NodeList", &nodes, "next");
        for chunk in [1, 2, 3, 7, 64, bytes.len()] {
            assert_eq!(decode(&bytes, chunk).unwrap(), (nodes.to_vec(), "next".to_owned()), "{chunk}");
        }
    }

    #[test]
    fn an_empty_list_is_a_list() {
        assert_eq!(decode(&encode("NodeList", &[] as &[Node], ""), 5).unwrap(), (Vec::new(), String::new()));
    }

    #[test]
    fn every_truncated_body_is_refused() {
        let nodes = [node("a"), node("b")];
        let bytes = encode("NodeList", &nodes, "");
        // The two empty fields after the list may be missing.
        for end in 0..bytes.len() - 4 {
            assert_eq!(decode(&bytes[..end], 16).unwrap_err(), "it is truncated", "{end}");
        }
        assert_eq!(decode(&bytes[..bytes.len() - 3], 16).unwrap_err(), "it is truncated");
    }

    #[test]
    fn other_bodies_are_refused() {
        assert_eq!(decode(b"<html>", 3).unwrap_err(), "it is not in Kubernetes' protobuf format");
        assert_eq!(decode(&encode("Node", &[node("a")], ""), 9).unwrap_err(), "it is not a list");
        assert_eq!(decode(b"k8s\0\x0f", 9).unwrap_err(), "unknown wire type 7");
        assert_eq!(
            decode(&[b"k8s\0".as_slice(), &[0xff; 11]].concat(), 99).unwrap_err(),
            "a number has too many bytes"
        );
        let mut longer = b"k8s\0".to_vec();
        longer.extend(field(1, &field(2, b"NodeList")));
        longer.extend([0x12, 2, 0x12, 100]);
        assert_eq!(decode(&longer, 99).unwrap_err(), "an item is longer than the list");
    }
}
