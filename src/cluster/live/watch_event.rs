//! Decodes the events of a watch as they arrive, in protobuf or JSON.

use bytes::BytesMut;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_util::codec::{Decoder, LengthDelimitedCodec, LinesCodec, LinesCodecError};

use super::list::List;
use super::protobuf::{MAGIC, Unknown};
use super::request::Response;
use super::status::{self, Status};
use crate::cluster::error::ClusterError;
use crate::cluster::object::Object;
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
    framing: Framing,
}

/// How events are framed.
enum Framing {
    /// `NewLengthDelimitedFrameReader`, k8s.io/apimachinery/pkg/util/framer/framer.go, release 1.37.2: the length of a frame in
    /// four bytes, big-endian, and the frame.
    Protobuf(LengthDelimitedCodec),
    Json(LinesCodec),
}

impl<'a> Events<'a> {
    pub(super) fn new(response: Response<'a>) -> Result<Self, ClusterError> {
        let framing = match response.content_type.as_str() {
            "application/vnd.kubernetes.protobuf" => {
                Framing::Protobuf(LengthDelimitedCodec::builder().max_frame_length(MAX_ITEM).new_codec())
            }
            "application/json" => Framing::Json(LinesCodec::new_with_max_length(MAX_ITEM)),
            other => return Err(response.broken(format!("it is of type {other:?}, neither protobuf nor JSON"))),
        };
        Ok(Events { response, buffer: BytesMut::new(), framing })
    }

    /// Returns the next event; `None` at the end of the watch.
    pub(super) async fn next<T: Object>(&mut self, list: &List) -> Result<Option<Event<T>>, ClusterError> {
        loop {
            let event = match &mut self.framing {
                Framing::Protobuf(codec) => match codec.decode(&mut self.buffer) {
                    Ok(frame) => frame.map(|frame| decode_protobuf(list, &frame)),
                    Err(_) => Some(Err(TOO_LONG.to_owned())),
                },
                Framing::Json(codec) => match codec.decode(&mut self.buffer) {
                    Ok(line) => line.map(|line| decode_json(list, &line)),
                    Err(LinesCodecError::MaxLineLengthExceeded) => Some(Err(TOO_LONG.to_owned())),
                    Err(error) => Some(Err(error.to_string())),
                },
            };
            if let Some(event) = event {
                return event.map(Some).map_err(|problem| self.response.broken(problem));
            }
            match self.response.next().await? {
                Some(bytes) => self.buffer.extend_from_slice(&bytes),
                None => return Ok(None),
            }
        }
    }
}

/// Decodes a `metav1.WatchEvent`, whose object is in an envelope of its own.
fn decode_protobuf<T: Object>(list: &List, frame: &[u8]) -> Result<Event<T>, String> {
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

fn decode_json<T: Object>(list: &List, line: &str) -> Result<Event<T>, String> {
    #[derive(Deserialize)]
    struct WatchEvent<'a> {
        #[serde(rename = "type")]
        type_: String,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let WatchEvent { type_, object } = serde_json::from_str(line).map_err(|error| error.to_string())?;
    event(list, &type_, || list.decode_json(object.get()), object.get().as_bytes())
}

fn event<T: Object>(
    list: &List,
    type_: &str,
    object: impl FnOnce() -> Result<T, String>,
    whole: &[u8],
) -> Result<Event<T>, String> {
    Ok(match type_ {
        "ADDED" | "MODIFIED" => Event::Applied(list.check_place(object()?)?),
        "DELETED" => Event::Deleted(list.check_place(object()?)?),
        "BOOKMARK" => Event::Bookmark(object()?.metadata().resource_version.clone()),
        "ERROR" => Event::Error(status::of_status(Status::parse(whole).ok_or("an error is not a Status of the API")?)),
        other => return Err(format!("unknown event {other:?}")),
    })
}
