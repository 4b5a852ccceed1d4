//! Lists objects of a kind: item by item as bytes arrive in protobuf, page by page in JSON.

use kube::api::{ListParams, WatchParams};
use kube::core::Request;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::progress::Tally;
use super::protobuf;
use super::transport::{JSON, PROTOBUF_OR_JSON, Response, Transport};
use crate::cluster::error::ClusterError;
use crate::model::controller_revision::ControllerRevision;
use crate::model::daemon_set::DaemonSet;
use crate::model::event::Event;
use crate::model::metadata::ObjectMeta;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::pod_disruption_budget::PodDisruptionBudget;
use crate::model::snapshot::{Kind, Lease, LimitRange, PriorityClass, RuntimeClass};

/// The most pages a list may have. No API server pages a list without a limit; a proxy might.
const MAX_PAGES: usize = 1_000;

/// The most bytes a page in JSON may have: lists that can be larger come in protobuf.
pub(super) const MAX_JSON: usize = protobuf::MAX_ITEM;

/// An object that a list can hold.
pub(super) trait Item: Clone + PartialEq {
    /// The media types to request.
    const ACCEPT: &'static str;

    /// Decodes an item in protobuf.
    fn from_protobuf(bytes: &[u8]) -> Result<Self, String>;

    /// Decodes an item in JSON.
    fn from_json(list: &List, text: &str) -> Result<Self, String>;

    fn metadata(&self) -> &ObjectMeta;
}

fn decode_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

macro_rules! items_in_both_forms {
    ($($name:ident)+) => { $(
        impl Item for $name {
            const ACCEPT: &'static str = PROTOBUF_OR_JSON;

            fn from_protobuf(bytes: &[u8]) -> Result<Self, String> {
                prost::Message::decode(bytes).map_err(|error| error.to_string())
            }

            fn from_json(_: &List, text: &str) -> Result<Self, String> {
                decode_json(text)
            }

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }
        }
    )+ };
}

macro_rules! items_in_json {
    ($($name:ident: $decode:expr,)+) => { $(
        impl Item for $name {
            const ACCEPT: &'static str = JSON;

            fn from_protobuf(_: &[u8]) -> Result<Self, String> {
                Err("it came in protobuf, and JSON was requested".to_owned())
            }

            fn from_json(list: &List, text: &str) -> Result<Self, String> {
                $decode(list, text)
            }

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }
        }
    )+ };
}

items_in_both_forms!(Node Pod Event);
items_in_json!(
    Lease: |_, text| decode_json(text),
    PodDisruptionBudget: |_, text| decode_json(text),
    LimitRange: |_, text| decode_json(text),
    RuntimeClass: |_, text| decode_json(text),
    PriorityClass: |_, text| decode_json(text),
    DaemonSet: |list: &List, text| {
        DaemonSet::from_object(list.with_type(decode_json(text)?)).map_err(|error| error.to_string())
    },
    ControllerRevision: |list: &List, text| {
        ControllerRevision::from_object(list.with_type(decode_json(text)?)).map_err(|error| error.to_string())
    },
);

/// What to list.
#[derive(Debug, Clone)]
pub(super) struct List {
    /// The kind.
    pub kind: Kind,
    /// The group and version to read the kind in.
    pub api_version: &'static str,
    /// The namespace; `None` for all.
    pub namespace: Option<String>,
    /// Labels that the objects must have.
    pub label_selector: String,
    /// Fields that the objects must have.
    pub field_selector: String,
}

impl List {
    /// Lists a kind in all namespaces, in the version that every supported release serves.
    pub(super) fn of(kind: Kind) -> Self {
        let (api_version, ..) = kind.api_names();
        List { kind, api_version, namespace: None, label_selector: String::new(), field_selector: String::new() }
    }

    /// Returns the path of the kind's objects in the namespace, or in all.
    pub(super) fn collection(&self) -> String {
        let List { kind, api_version, namespace, .. } = self;
        let root = if api_version.contains('/') { "apis" } else { "api" };
        let resource = plural(*kind);
        match namespace {
            Some(namespace) => format!("/{root}/{api_version}/namespaces/{}/{resource}", escape(namespace)),
            None => format!("/{root}/{api_version}/{resource}"),
        }
    }

    /// Returns the path of one object of the kind.
    pub(super) fn object(&self, name: &str) -> String {
        format!("{}/{}", self.collection(), escape(name))
    }

    /// Returns the path and query of a page.
    fn page(&self, page: Option<&str>) -> Result<String, ClusterError> {
        let parameters = ListParams {
            label_selector: some(&self.label_selector),
            field_selector: some(&self.field_selector),
            continue_token: page.map(str::to_owned),
            ..ListParams::default()
        };
        path_of(Request::new(self.collection()).list(&parameters))
    }

    /// Returns the path and query that watch the list from a version on.
    pub(super) fn watch(&self, version: &str, seconds: u32) -> Result<String, ClusterError> {
        let parameters = WatchParams {
            label_selector: some(&self.label_selector),
            field_selector: some(&self.field_selector),
            timeout: Some(seconds),
            ..WatchParams::default()
        };
        path_of(Request::new(self.collection()).watch(&parameters, version))
    }

    /// Describes the request for errors, such as `list pods`.
    pub(super) fn request(&self) -> String {
        format!("list {}", self.kind.resource())
    }

    /// Adds what items of a list leave out: their type.
    pub(super) fn with_type(&self, mut object: Value) -> Value {
        if let Value::Object(fields) = &mut object {
            fields.entry("apiVersion").or_insert_with(|| self.api_version.into());
            fields.entry("kind").or_insert_with(|| self.kind.api_names().1.into());
        }
        object
    }
}

/// Returns the resource without its group.
fn plural(kind: Kind) -> &'static str {
    kind.resource().split('.').next().unwrap_or_default()
}

/// Returns the permission for a verb on a kind, in the words of `kubectl auth can-i`.
pub(super) fn permission(verb: &str, kind: Kind) -> String {
    let (api_version, ..) = kind.api_names();
    match api_version.split_once('/') {
        Some((group, _)) => format!("{verb} {}.{group}", plural(kind)),
        None => format!("{verb} {}", plural(kind)),
    }
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

fn path_of(request: Result<http::Request<Vec<u8>>, kube::core::request::Error>) -> Result<String, ClusterError> {
    match request {
        Ok(request) => Ok(request.uri().to_string()),
        Err(error) => Err(ClusterError::config(format!("cannot build the request: {error}"))),
    }
}

/// Escapes a segment of a path. `kube` puts names and namespaces into paths as they are.
pub(super) fn escape(segment: &str) -> String {
    const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(segment, RESERVED).to_string()
}

/// A list whose first page has begun to arrive.
#[derive(Debug)]
pub(super) struct Opened<'a> {
    transport: &'a Transport,
    list: List,
    first: Response<'a>,
}

/// A whole list.
#[derive(Debug)]
pub(super) struct Listed<T> {
    pub(super) items: Vec<T>,
    /// The version of the list, to watch it from.
    pub(super) resource_version: String,
}

/// Requests a list, and returns once the server begins to answer.
///
/// No resource version is requested, so that the list is the most recent one. Two lists at version 0 may come
/// from servers that are minutes apart.
///
/// # Errors
///
/// Fails if the server cannot be reached, or refuses.
pub(super) async fn open<T: Item>(transport: &Transport, list: List) -> Result<Opened<'_>, ClusterError> {
    let first = transport.get(&list.request(), &list.page(None)?, T::ACCEPT).await?;
    Ok(Opened { transport, list, first })
}

impl Opened<'_> {
    /// Reads the list to its end, and returns what `keep` makes of its items.
    ///
    /// # Errors
    ///
    /// Fails if the connection is lost, if the answer is not a list, and if the list does not end.
    pub(super) async fn collect<T: Item, U>(
        self,
        tally: &Tally,
        keep: impl Fn(T) -> Option<U>,
    ) -> Result<Listed<U>, ClusterError> {
        let Opened { transport, list, first } = self;
        let (request, mut answer, mut items, mut restarted) = (list.request(), first, Vec::new(), false);
        for _ in 0..MAX_PAGES {
            let ListMeta { resource_version, continue_ } =
                read_page(&mut answer, &list, tally, &keep, &mut items).await?;
            if continue_.is_empty() {
                items.shrink_to_fit();
                return Ok(Listed { items, resource_version });
            }
            answer = match transport.get(&request, &list.page(Some(&continue_))?, T::ACCEPT).await {
                Ok(next) => next,
                // The version that all pages share is gone: start over, once.
                Err(ClusterError::Api { code: 410, .. }) if !restarted => {
                    (restarted, items) = (true, Vec::new());
                    transport.get(&request, &list.page(None)?, T::ACCEPT).await?
                }
                // The first page was there: nothing is known about the kind, rather than that none exist.
                Err(ClusterError::Api { code: 404, message, .. }) => {
                    let problem = format!("a page after the first was not found: {message}");
                    return Err(ClusterError::Answer { request, problem });
                }
                Err(error) => return Err(error),
            };
        }
        Err(answer.broken(format!("it has more than {MAX_PAGES} pages")))
    }
}

/// `metav1.ListMeta`, in both wire forms.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListMeta {
    #[prost(string, tag = 2)]
    #[serde(deserialize_with = "crate::model::wire::null_is_default")]
    pub resource_version: String,
    /// Where the next page begins; empty on the last one.
    #[prost(string, tag = 3)]
    #[serde(rename = "continue", deserialize_with = "crate::model::wire::null_is_default")]
    pub continue_: String,
}

/// Reads one page, and returns what it says about the list.
async fn read_page<T: Item, U>(
    answer: &mut Response<'_>,
    list: &List,
    tally: &Tally,
    keep: &impl Fn(T) -> Option<U>,
    items: &mut Vec<U>,
) -> Result<ListMeta, ClusterError> {
    match answer.content_type.as_str() {
        "application/vnd.kubernetes.protobuf" => {
            let mut decoder = protobuf::ListDecoder::new();
            while let Some(bytes) = answer.next().await? {
                let mut objects = 0;
                let pushed = decoder.push(&bytes, &mut |item| {
                    objects += 1;
                    items.extend(keep(T::from_protobuf(item)?));
                    Ok(())
                });
                pushed.map_err(|problem| answer.broken(problem))?;
                tally.add(list.kind, objects, bytes.len());
            }
            decoder.finish().map_err(|problem| answer.broken(problem))
        }
        "application/json" => {
            let text = answer.text(MAX_JSON).await?;
            let JsonPage { kind, metadata, items: texts } =
                serde_json::from_str(&text).map_err(|error| answer.broken(json_problem(&error)))?;
            if !kind.ends_with("List") {
                return Err(answer.broken(protobuf::NOT_A_LIST));
            }
            let texts = texts.unwrap_or_default();
            tally.add(list.kind, texts.len(), text.len());
            for text in texts {
                if text.get() == "null" {
                    return Err(answer.broken("an item is null"));
                }
                items.extend(keep(T::from_json(list, text.get()).map_err(|problem| answer.broken(problem))?));
            }
            Ok(metadata)
        }
        other => Err(answer.broken(format!("it is of type {other:?}, neither protobuf nor JSON"))),
    }
}

/// A page in JSON, whose items are decoded one by one.
#[derive(Deserialize)]
struct JsonPage<'a> {
    #[serde(default)]
    kind: String,
    #[serde(default, deserialize_with = "crate::model::wire::null_is_default")]
    metadata: ListMeta,
    /// Go writes a list that was never filled as `null`; the field itself is always there.
    #[serde(borrow, deserialize_with = "Option::deserialize")]
    items: Option<Vec<&'a RawValue>>,
}

pub(super) fn json_problem(error: &serde_json::Error) -> String {
    if error.is_eof() { protobuf::TRUNCATED.to_owned() } else { error.to_string() }
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
            ..List::of(Kind::ControllerRevisions)
        };
        let collection = "/apis/apps/v1/namespaces/kube-system/controllerrevisions";
        assert_eq!(list.page(None).unwrap(), format!("{collection}?&labelSelector=a%3Db%2Cc+in+%28d%2Ce%29"));
        assert_eq!(
            list.page(Some("to+ken")).unwrap(),
            format!("{collection}?&labelSelector=a%3Db%2Cc+in+%28d%2Ce%29&continue=to%2Bken")
        );
        assert_eq!(list.object("a/b?c"), format!("{collection}/a%2Fb%3Fc"));
        assert_eq!(List::of(Kind::Nodes).collection(), "/api/v1/nodes");
        let elsewhere = List { namespace: Some("x/../y".to_owned()), ..List::of(Kind::Pods) };
        assert_eq!(elsewhere.collection(), "/api/v1/namespaces/x%2F..%2Fy/pods");
        assert_eq!(List::of(Kind::AdvancedDaemonSets).collection(), "/apis/apps.kruise.io/v1beta1/daemonsets");
    }
}
