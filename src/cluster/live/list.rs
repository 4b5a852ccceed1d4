//! Lists objects of a kind, item by item as their bytes arrive, in protobuf where there are many.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::progress::Tally;
use super::transport::{JSON, PROTOBUF_OR_JSON, Response, Transport};
use super::{json_items, protobuf};
use crate::cluster::error::ClusterError;
use crate::model::event::Event;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::snapshot::{Kind, LimitRange, PriorityClass, RuntimeClass};

/// An object that a list can hold.
pub(super) trait Item: Sized {
    /// What to ask the server for.
    const ACCEPT: &'static str;

    /// Reads an item of a list in protobuf.
    fn from_protobuf(bytes: &[u8]) -> Result<Self, String>;

    /// Reads an item of a list in JSON.
    fn from_json(bytes: &[u8]) -> Result<Self, String>;
}

/// Reads JSON, with the error in words.
fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

macro_rules! items_in_both_forms {
    ($($name:ident)+) => { $(
        impl Item for $name {
            const ACCEPT: &'static str = PROTOBUF_OR_JSON;

            fn from_protobuf(bytes: &[u8]) -> Result<Self, String> {
                prost::Message::decode(bytes).map_err(|error| error.to_string())
            }

            fn from_json(bytes: &[u8]) -> Result<Self, String> {
                json(bytes)
            }
        }
    )+ };
}

macro_rules! items_in_json {
    ($($name:ident)+) => { $(
        impl Item for $name {
            const ACCEPT: &'static str = JSON;

            fn from_protobuf(_: &[u8]) -> Result<Self, String> {
                Err("it came in protobuf, and JSON was asked for".to_owned())
            }

            fn from_json(bytes: &[u8]) -> Result<Self, String> {
                json(bytes)
            }
        }
    )+ };
}

items_in_both_forms!(Node Pod Event);
items_in_json!(LimitRange RuntimeClass PriorityClass Value);

/// What to list.
#[derive(Debug, Clone, Default)]
pub(super) struct List {
    /// The namespace; every one where absent.
    pub namespace: Option<String>,
    /// Labels that the objects must have.
    pub label_selector: String,
    /// Fields that the objects must have.
    pub field_selector: String,
    /// Whether what the server has in its cache will do: faster, and some milliseconds old.
    pub from_cache: bool,
}

impl List {
    /// Returns the path and query of a page.
    fn path(&self, kind: Kind, page: Option<&str>) -> String {
        let mut path = collection(kind, self.namespace.as_deref());
        let mut parameters = vec![
            ("labelSelector", self.label_selector.as_str()),
            ("fieldSelector", self.field_selector.as_str()),
            ("continue", page.unwrap_or_default()),
        ];
        // A page goes on with the version of the first one.
        if self.from_cache && page.is_none() {
            parameters.push(("resourceVersion", "0"));
        }
        let mut separator = '?';
        for (name, value) in parameters.into_iter().filter(|(_, value)| !value.is_empty()) {
            path.push(separator);
            path.push_str(name);
            path.push('=');
            escape(value, &mut path);
            separator = '&';
        }
        path
    }
}

/// Returns the path of a kind's objects in a namespace, or everywhere.
pub(super) fn collection(kind: Kind, namespace: Option<&str>) -> String {
    let (api_version, _, resource) = kind.api_names();
    let mut path = match api_version {
        "v1" => "/api/v1".to_owned(),
        group => format!("/apis/{group}"),
    };
    if let Some(namespace) = namespace {
        path.push_str("/namespaces/");
        escape(namespace, &mut path);
    }
    path.push('/');
    path.push_str(resource);
    path
}

/// Appends text to a path or query, with what has a meaning there escaped.
pub(super) fn escape(text: &str, into: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            into.push(char::from(byte));
        } else {
            into.push('%');
            into.push(char::from(HEX[usize::from(byte >> 4)]));
            into.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// A list whose first page has begun to arrive.
#[derive(Debug)]
pub(super) struct Opened<'a> {
    transport: &'a Transport,
    kind: Kind,
    list: List,
    first: Response<'a>,
}

/// Asks for a list of a kind, and returns once the server begins to answer.
///
/// # Errors
///
/// Fails where the server cannot be reached, or refuses.
pub(super) async fn open<T: Item>(transport: &Transport, kind: Kind, list: List) -> Result<Opened<'_>, ClusterError> {
    let first = transport.get(&request(kind), &list.path(kind, None), T::ACCEPT).await?;
    Ok(Opened { transport, kind, list, first })
}

fn request(kind: Kind) -> String {
    format!("list {}", kind.resource())
}

impl Opened<'_> {
    /// Reads the list to its end, and returns what `keep` makes of its items.
    ///
    /// # Errors
    ///
    /// Fails where the connection is lost, or the answer is no list.
    pub(super) async fn collect<T: Item, U>(
        self,
        tally: &Tally,
        keep: impl Fn(T) -> Option<U>,
    ) -> Result<Vec<U>, ClusterError> {
        let Opened { transport, kind, list, first } = self;
        let (request, mut answer, mut kept, mut restarted) = (request(kind), first, Vec::new(), false);
        while let Some(page) = read_page(&mut answer, kind, tally, &keep, &mut kept).await? {
            answer = match transport.get(&request, &list.path(kind, Some(&page)), T::ACCEPT).await {
                Ok(next) => next,
                // The pages' common version is gone: another round, once.
                Err(ClusterError::Api { code: 410, .. }) if !restarted => {
                    (restarted, kept) = (true, Vec::new());
                    transport.get(&request, &list.path(kind, None), T::ACCEPT).await?
                }
                Err(error) => return Err(error),
            };
        }
        kept.shrink_to_fit();
        Ok(kept)
    }
}

/// Reads one page, and returns where the next begins, nothing where it was the last.
async fn read_page<T: Item, U>(
    answer: &mut Response<'_>,
    kind: Kind,
    tally: &Tally,
    keep: &impl Fn(T) -> Option<U>,
    kept: &mut Vec<U>,
) -> Result<Option<String>, ClusterError> {
    enum Decoder {
        Protobuf(protobuf::ListDecoder),
        Json(json_items::ListDecoder),
    }
    let mut decoder = match answer.content_type.as_str() {
        "application/vnd.kubernetes.protobuf" => Decoder::Protobuf(protobuf::ListDecoder::new()),
        "application/json" => Decoder::Json(json_items::ListDecoder::default()),
        other => return Err(answer.broken(format!("it is of type {other:?}, neither protobuf nor JSON"))),
    };
    while let Some(bytes) = answer.next().await? {
        let mut objects = 0;
        let mut take = |item: T| {
            objects += 1;
            kept.extend(keep(item));
            Ok(())
        };
        let pushed = match &mut decoder {
            Decoder::Protobuf(decoder) => decoder.push(&bytes, &mut |item| take(T::from_protobuf(item)?)),
            Decoder::Json(decoder) => decoder.push(&bytes, &mut |item| take(T::from_json(item)?)),
        };
        pushed.map_err(|problem| answer.broken(problem))?;
        tally.add(kind, objects, bytes.len());
    }
    let finished = match decoder {
        Decoder::Protobuf(decoder) => decoder.finish(),
        Decoder::Json(decoder) => decoder.finish(),
    };
    finished.map_err(|problem| answer.broken(problem))
}

#[cfg(test)]
mod tests {
    use super::List;
    use crate::model::snapshot::Kind;

    #[test]
    fn paths_have_group_namespace_and_escaped_selectors() {
        let list = List {
            namespace: Some("kube-system".to_owned()),
            label_selector: "a=b,c in (d,e)".to_owned(),
            from_cache: true,
            ..List::default()
        };
        assert_eq!(
            list.path(Kind::ControllerRevisions, None),
            "/apis/apps/v1/namespaces/kube-system/controllerrevisions?labelSelector=a%3Db%2Cc%20in%20%28d%2Ce%29&resourceVersion=0"
        );
        assert_eq!(
            list.path(Kind::Pods, Some("to+ken")),
            "/api/v1/namespaces/kube-system/pods?labelSelector=a%3Db%2Cc%20in%20%28d%2Ce%29&continue=to%2Bken"
        );
        assert_eq!(List::default().path(Kind::Nodes, None), "/api/v1/nodes");
    }
}
