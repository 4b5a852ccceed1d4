//! Decodes the events of a watch as they arrive, in protobuf or JSON.

use bytes::{Buf, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::list::{Item, List};
use super::protobuf::{MAGIC, Unknown};
use super::request::Response;
use super::status::{self, Status};
use crate::cluster::error::ClusterError;
use crate::cluster::pieces::MAX_ITEM;

const TOO_LONG: &str = "an event is longer than any object of Kubernetes";

/// An event of a watch.
pub(super) enum Event<T> {
    Applied(T),
    Deleted(T),
    /// Nothing else happened up to this version.
    Bookmark(String),
    Error(ClusterError),
}

/// The events of an open watch, as they arrive.
pub(super) struct Events<'a> {
    response: Response<'a>,
    buffer: BytesMut,
    /// How many bytes of the buffer are known to have no line end.
    searched: usize,
    protobuf: bool,
}

impl<'a> Events<'a> {
    pub(super) fn new(response: Response<'a>) -> Result<Self, ClusterError> {
        let protobuf = match response.content_type.as_str() {
            "application/vnd.kubernetes.protobuf" => true,
            "application/json" => false,
            other => return Err(response.broken(format!("it is of type {other:?}, neither protobuf nor JSON"))),
        };
        Ok(Events { response, buffer: BytesMut::new(), searched: 0, protobuf })
    }

    /// Returns the next event; `None` at the end of the watch.
    pub(super) async fn next<T: Item>(&mut self, list: &List) -> Result<Option<Event<T>>, ClusterError> {
        loop {
            let frame = if self.protobuf { self.protobuf_frame() } else { self.json_frame() };
            if let Some(frame) = frame.map_err(|problem| self.response.broken(problem))? {
                let event = if self.protobuf { decode_protobuf(list, &frame) } else { decode_json(list, &frame) };
                return event.map(Some).map_err(|problem| self.response.broken(problem));
            }
            match self.response.next().await? {
                Some(bytes) => self.buffer.extend_from_slice(&bytes),
                None => return Ok(None),
            }
        }
    }

    /// Takes a frame of `LengthDelimitedFramer`, k8s.io/apimachinery/pkg/util/framer/framer.go, release 1.36: its
    /// length in four bytes, big-endian, and the frame.
    fn protobuf_frame(&mut self) -> Result<Option<BytesMut>, String> {
        let Some(header) = self.buffer.first_chunk() else { return Ok(None) };
        let length = u32::from_be_bytes(*header) as usize;
        if length > MAX_ITEM {
            return Err(TOO_LONG.to_owned());
        }
        if self.buffer.len() < 4 + length {
            return Ok(None);
        }
        self.buffer.advance(4);
        Ok(Some(self.buffer.split_to(length)))
    }

    fn json_frame(&mut self) -> Result<Option<BytesMut>, String> {
        let searched = std::mem::replace(&mut self.searched, self.buffer.len());
        match memchr::memchr(b'\n', &self.buffer[searched..]) {
            Some(end) => {
                self.searched = 0;
                Ok(Some(self.buffer.split_to(searched + end + 1)))
            }
            None if self.buffer.len() > MAX_ITEM => Err(TOO_LONG.to_owned()),
            None => Ok(None),
        }
    }
}

/// Decodes a `metav1.WatchEvent`, whose object is in an envelope of its own.
fn decode_protobuf<T: Item>(list: &List, frame: &[u8]) -> Result<Event<T>, String> {
    #[derive(Clone, PartialEq, prost::Message)]
    struct WatchEvent {
        #[prost(string, tag = 1)]
        type_: String,
        #[prost(message, optional, tag = 2)]
        object: Option<RawExtension>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct RawExtension {
        #[prost(bytes = "vec", tag = 1)]
        raw: Vec<u8>,
    }
    fn decode<M: prost::Message + Default>(bytes: &[u8]) -> Result<M, String> {
        M::decode(bytes).map_err(|error| error.to_string())
    }
    let WatchEvent { type_, object } = decode(frame)?;
    let whole = &object.unwrap_or_default().raw;
    let envelope = whole.strip_prefix(MAGIC).ok_or("an object is not in Kubernetes' protobuf format")?;
    let Unknown { type_meta, raw } = decode(envelope)?;
    let object = || {
        list.check_type(&type_meta.unwrap_or_default())?;
        T::from_protobuf(&raw)
    };
    event(list, &type_, object, whole)
}

fn decode_json<T: Item>(list: &List, line: &[u8]) -> Result<Event<T>, String> {
    #[derive(Deserialize)]
    struct WatchEvent<'a> {
        #[serde(rename = "type")]
        type_: String,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let WatchEvent { type_, object } = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    event(list, &type_, || list.decode_json(object.get()), object.get().as_bytes())
}

fn event<T: Item>(
    list: &List,
    type_: &str,
    object: impl FnOnce() -> Result<T, String>,
    whole: &[u8],
) -> Result<Event<T>, String> {
    Ok(match type_ {
        "ADDED" | "MODIFIED" => Event::Applied(list.check_namespace(object()?)?),
        "DELETED" => Event::Deleted(list.check_namespace(object()?)?),
        "BOOKMARK" => Event::Bookmark(object()?.metadata().resource_version.clone()),
        "ERROR" => Event::Error(status::of_status(Status::parse(whole).ok_or("an error is not a Status of the API")?)),
        other => return Err(format!("unknown event {other:?}")),
    })
}
