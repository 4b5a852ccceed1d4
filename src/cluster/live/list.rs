//! Lists objects of a kind: item by item as bytes arrive in protobuf, and as a whole in JSON.

use kube::api::{ListParams, WatchParams};
use kube::core::Request;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::protobuf;
use super::request::{Response, Transport};
use crate::cluster::dump_reader::TOO_MANY_OBJECTS;
use crate::cluster::error::ClusterError;
use crate::cluster::object::Object;
use crate::cluster::objects::{MAX_OBJECTS, newest, weight};
use crate::cluster::type_meta::TypeMeta;
use crate::connection::error::ConnectionError;
use crate::model::daemon_set::DaemonSet;
use crate::model::metadata::ObjectMeta;
use crate::model::snapshot::Kind;

/// The most bytes in a JSON list: lists that can be larger are requested in protobuf.
pub(super) const MAX_JSON: usize = 1 << 28;

/// The error for a response with a different object.
pub(super) const NOT_REQUESTED: &str = "it is not the requested object";

fn decode_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// A list request.
#[derive(Debug, Clone)]
pub(super) struct List {
    pub kind: Kind,
    /// The group and version in which to read the kind.
    pub api_version: String,
    /// The namespace; `None` for all.
    pub namespace: Option<String>,
    /// Labels that the objects must match.
    pub label_selector: String,
    /// Fields that the objects must match.
    pub field_selector: String,
}

impl List {
    /// Lists a kind in all namespaces, in the version that every supported release serves.
    pub(super) fn of(kind: Kind) -> Self {
        let (api_version, ..) = kind.api_names();
        let (label_selector, field_selector) = (String::new(), String::new());
        List { kind, api_version: api_version.to_owned(), namespace: None, label_selector, field_selector }
    }

    /// Lists the objects of a kind that match the selector of a DaemonSet.
    pub(super) fn of_selected(kind: Kind, DaemonSet { metadata, spec, .. }: &DaemonSet) -> Self {
        let (namespace, label_selector) = (Some(metadata.namespace.clone()), spec.selector.to_string());
        List { namespace, label_selector, ..List::of(kind) }
    }

    /// Returns the path of the kind's objects in the namespace, or in all.
    pub(super) fn collection(&self) -> String {
        collection(&self.api_version, self.namespace.as_deref(), plural(self.kind))
    }

    /// Returns the path of one object of the kind.
    pub(super) fn object(&self, name: &str) -> String {
        object(&self.api_version, self.namespace.as_deref(), plural(self.kind), name)
    }

    /// Returns the path and query of the list, limited to this many objects if given.
    fn path(&self, limit: Option<u32>) -> Result<String, ClusterError> {
        let parameters = ListParams {
            label_selector: some(&self.label_selector),
            field_selector: some(&self.field_selector),
            limit,
            ..ListParams::default()
        };
        path_of(Request::new(self.collection()).list(&parameters))
    }

    /// Returns the path and query of a watch of the list from a version.
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

    /// Decodes a JSON object, which may lack its type.
    pub(super) fn decode_json<T: Object>(&self, text: &str) -> Result<T, String> {
        let mut object: T = decode_json(text)?;
        self.check_type(&decode_json(text)?)?;
        object.set_type(&self.api_version, self.kind.api_names().1);
        Ok(object)
    }

    /// Decodes a JSON object that is not an item of a list, and so must have a type.
    pub(super) fn decode_object<T: Object>(&self, text: &str) -> Result<T, String> {
        let found: TypeMeta = decode_json(text)?;
        if found.kind.is_empty() {
            return Err(format!("it is not a {}", self.kind.api_names().1));
        }
        self.decode_json(text)
    }

    /// Checks the type of an object, if it has one.
    pub(super) fn check_type(&self, found: &TypeMeta) -> Result<(), String> {
        self.check(found, self.kind.api_names().1)
    }

    pub(super) fn check_list_type(&self, found: &TypeMeta) -> Result<(), String> {
        if !found.kind.ends_with("List") {
            return Err(protobuf::NOT_A_LIST.to_owned());
        }
        self.check(found, &format!("{}List", self.kind.api_names().1))
    }

    fn check(&self, found: &TypeMeta, kind: &str) -> Result<(), String> {
        for (field, found, expected) in
            [("kind", &found.kind, kind), ("apiVersion", &found.api_version, &self.api_version)]
        {
            if !found.is_empty() && found != expected {
                return Err(format!("its {field} is {:?}, not {expected:?}", shortened(found)));
            }
        }
        Ok(())
    }

    /// Checks that an object has the type, the namespace and the name that were requested.
    pub(super) fn check_requested(&self, found: &Value, name: &str) -> Result<(), String> {
        let text = |path: &str| found.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let kind = self.kind.api_names().1;
        if (text("/apiVersion"), text("/kind")) != (&self.api_version, kind) {
            return Err(format!("it is not a {kind}"));
        }
        let namespace = self.namespace.as_deref().unwrap_or_default();
        match (text("/metadata/namespace"), text("/metadata/name")) == (namespace, name) {
            true => Ok(()),
            false => Err(NOT_REQUESTED.to_owned()),
        }
    }

    /// Checks that an object has a name, and is in the requested namespace, if any. A DaemonSet must have a UID, by which it owns its pods.
    pub(super) fn check_place<T: Object>(&self, object: T) -> Result<T, String> {
        let ObjectMeta { name, namespace: found, uid, .. } = object.metadata();
        check_name(name)?;
        if self.kind == Kind::DaemonSets && uid.is_empty() {
            return Err(format!("{:?} has no metadata.uid", shortened(name)));
        }
        match &self.namespace {
            Some(expected) if found != expected => {
                let (name, found) = (shortened(name), shortened(found));
                Err(format!("{name:?} is in namespace {found:?}, not {expected:?}"))
            }
            _ => Ok(object),
        }
    }
}

/// Returns the path of the objects of a resource in a namespace, or in all.
pub(super) fn collection(api_version: &str, namespace: Option<&str>, resource: &str) -> String {
    let root = if api_version.contains('/') { "apis" } else { "api" };
    match namespace {
        Some(namespace) => format!("/{root}/{api_version}/namespaces/{}/{resource}", escape(namespace)),
        None => format!("/{root}/{api_version}/{resource}"),
    }
}

/// Returns the path of one object of a resource.
pub(super) fn object(api_version: &str, namespace: Option<&str>, resource: &str, name: &str) -> String {
    format!("{}/{}", collection(api_version, namespace, resource), escape(name))
}

/// Checks that a name can be a path segment, like that of every object (`IsValidPathSegmentName`,
/// k8s.io/apimachinery/pkg/api/validation/path, release 1.37), and is not a flag: it becomes part of requests and commands.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let is_segment = !matches!(name, "" | "." | "..") && !name.contains(['/', '%']);
    match is_segment && !name.starts_with('-') {
        true => Ok(()),
        false => Err(format!("{:?} is not the name of an object", shortened(name))),
    }
}

/// Returns a text of the server, truncated for an error.
fn shortened(text: &str) -> String {
    text.chars().take(100).collect()
}

/// Returns the resource without its group.
pub(super) fn plural(kind: Kind) -> &'static str {
    kind.resource().split('.').next().unwrap_or_default()
}

/// Returns the permission for a verb on a kind, in the syntax of `kubectl auth can-i`.
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
        Err(error) => Err(ConnectionError::config(format!("cannot build the request: {error}")).into()),
    }
}

/// Escapes a path segment. `kube` inserts names and namespaces unescaped.
pub(super) fn escape(segment: &str) -> String {
    const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(segment, RESERVED).to_string()
}

/// A list that has started to arrive.
#[derive(Debug)]
pub(super) struct Opened<'a> {
    list: List,
    answer: Response<'a>,
}

/// A complete list.
#[derive(Debug)]
pub(super) struct Listed<T> {
    pub(super) items: Vec<T>,
    /// The version of the list, from which to watch it.
    pub(super) resource_version: String,
}

/// Requests a list, and returns once the server starts to respond.
///
/// No resource version is requested, so that the list is up to date. Two lists at version 0 may come from servers that
/// are minutes apart. Fails if the server cannot be reached, or refuses.
pub(super) async fn open<T: Object>(transport: &Transport, list: List) -> Result<Opened<'_>, ClusterError> {
    let answer = transport.get(&list.request(), &list.path(None)?, T::accept()).await?;
    Ok(Opened { list, answer })
}

/// Returns the version that a list would have now. Fails if the server cannot be reached or refuses, or if the response is not such
/// a list.
pub(super) async fn version<T: Object>(transport: &Transport, list: &List) -> Result<String, ClusterError> {
    let mut answer = transport.get(&list.request(), &list.path(Some(1))?, T::accept()).await?;
    Ok(read_items(&mut answer, &|_: T| None, &mut Items::of(list)).await?.resource_version)
}

impl Opened<'_> {
    /// Reads the list to its end, and returns the results of `keep` for its items. Fails if the connection is lost, or
    /// if the response is not such a list or incomplete: no API server pages a list without a limit.
    pub(super) async fn collect<T: Object>(mut self, keep: impl Fn(T) -> Option<T>) -> Result<Listed<T>, ClusterError> {
        let mut items = Items::of(&self.list);
        let ListMeta { resource_version, continue_ } = read_items(&mut self.answer, &keep, &mut items).await?;
        if !continue_.is_empty() {
            return Err(self.answer.broken("it is only the first page of the list, and no limit was requested"));
        }
        // API servers list no object twice, and what stands in front of several may.
        if !items.kept.is_sorted_by(|one, other| one.key() < other.key()) {
            newest(&mut items.kept);
        }
        items.kept.shrink_to_fit();
        Ok(Listed { items: items.kept, resource_version })
    }
}

/// The items of a list that have arrived so far.
struct Items<'a, T> {
    list: &'a List,
    kept: Vec<T>,
    /// Number of items, including dropped ones, weighted like the objects of a dump.
    count: usize,
}

impl<'a, T: Object> Items<'a, T> {
    fn of(list: &'a List) -> Self {
        Items { list, kept: Vec::new(), count: 0 }
    }

    /// Adds an item with the length of its text.
    fn add(&mut self, item: T, length: usize, keep: impl Fn(T) -> Option<T>) -> Result<(), String> {
        self.count += weight(self.list.kind, length);
        if self.count > MAX_OBJECTS {
            return Err(format!("it {TOO_MANY_OBJECTS}"));
        }
        self.kept.extend(keep(self.list.check_place(item)?));
        Ok(())
    }
}

/// `metav1.ListMeta`, in both wire formats.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListMeta {
    #[prost(string, tag = 2)]
    #[serde(deserialize_with = "crate::model::wire::null_is_default")]
    pub resource_version: String,
    /// Where the next page begins; empty if the list is complete.
    #[prost(string, tag = 3)]
    #[serde(rename = "continue", deserialize_with = "crate::model::wire::null_is_default")]
    pub continue_: String,
}

/// Reads the items of a list, and returns its metadata.
async fn read_items<T: Object>(
    answer: &mut Response<'_>,
    keep: &impl Fn(T) -> Option<T>,
    items: &mut Items<'_, T>,
) -> Result<ListMeta, ClusterError> {
    let list = items.list;
    match answer.content_type.as_str() {
        "application/vnd.kubernetes.protobuf" => {
            let mut decoder = protobuf::ListDecoder::new(list);
            while let Some(bytes) = answer.next().await? {
                let mut objects = 0;
                let pushed = decoder.push(&bytes, &mut |item| {
                    objects += 1;
                    items.add(T::from_protobuf(item)?, item.len(), keep)
                });
                pushed.map_err(|problem| answer.broken(problem))?;
                answer.transport.progress(list.kind, objects, bytes.len());
            }
            decoder.finish().map_err(|problem| answer.broken(problem))
        }
        "application/json" => {
            let text = answer.text(MAX_JSON).await?;
            let JsonList { api_version, kind, metadata, items: texts } =
                serde_json::from_str(&text).map_err(|error| answer.broken(json_problem(&error)))?;
            list.check_list_type(&TypeMeta { api_version, kind }).map_err(|problem| answer.broken(problem))?;
            let texts = texts.unwrap_or_default();
            answer.transport.progress(list.kind, texts.len(), text.len());
            for text in texts {
                if text.get() == "null" {
                    return Err(answer.broken("an item is null"));
                }
                let added = list.decode_json(text.get()).and_then(|item| items.add(item, text.get().len(), keep));
                added.map_err(|problem| answer.broken(problem))?;
            }
            Ok(metadata)
        }
        other => Err(answer.broken(format!("it is of type {other:?}, neither protobuf nor JSON"))),
    }
}

/// A JSON list whose items are decoded one by one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonList<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default, deserialize_with = "crate::model::wire::null_is_default")]
    metadata: ListMeta,
    /// Go writes an empty list as `null`; the field is always present.
    #[serde(borrow, deserialize_with = "Option::deserialize")]
    items: Option<Vec<&'a RawValue>>,
}

pub(super) fn json_problem(error: &serde_json::Error) -> String {
    if error.is_eof() { protobuf::TRUNCATED.to_owned() } else { error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::{Items, List, check_name};
    use crate::cluster::live::protobuf::tests::node;
    use crate::cluster::objects::MAX_OBJECTS;
    use crate::model::node::Node;
    use crate::model::snapshot::Kind;

    #[test]
    fn a_list_has_no_more_objects_than_a_dump() {
        let add = |kind: Kind, count: usize, length: usize| {
            let list = List::of(kind);
            let mut items = Items::<Node> { count, ..Items::of(&list) };
            items.add(node("a"), length, |_| None).is_ok()
        };
        assert!(add(Kind::Nodes, MAX_OBJECTS - 1, 5_000));
        assert!(!add(Kind::Nodes, MAX_OBJECTS, 5_000));
        assert!(add(Kind::ControllerRevisions, MAX_OBJECTS - 71, 5_000));
        assert!(!add(Kind::ControllerRevisions, MAX_OBJECTS - 70, 5_000));
    }

    #[test]
    fn a_name_is_a_segment_of_a_path_and_no_flag() {
        for name in ["", ".", "..", "../../nodes/x", "a/b", "a%2fb", "--all", "-n"] {
            assert!(check_name(name).is_err(), "{name}");
        }
        for name in ["agent-x7v2p", "a.b", "system:node-proxier", "kube-root-ca.crt"] {
            assert_eq!(check_name(name), Ok(()));
        }
        let list = List::of(Kind::Nodes);
        assert!(list.check_place(node("")).is_err() && list.check_place(node("a")).is_ok());
    }

    #[test]
    fn paths_have_group_namespace_and_escaped_selectors() {
        let list = List {
            namespace: Some("kube-system".to_owned()),
            label_selector: "a=b,c in (d,e)".to_owned(),
            ..List::of(Kind::ControllerRevisions)
        };
        let collection = "/apis/apps/v1/namespaces/kube-system/controllerrevisions";
        assert_eq!(list.path(None).unwrap(), format!("{collection}?&labelSelector=a%3Db%2Cc+in+%28d%2Ce%29"));
        assert_eq!(
            list.path(Some(1)).unwrap(),
            format!("{collection}?&labelSelector=a%3Db%2Cc+in+%28d%2Ce%29&limit=1")
        );
        assert_eq!(list.object("a/b?c"), format!("{collection}/a%2Fb%3Fc"));
        assert_eq!(List::of(Kind::Nodes).collection(), "/api/v1/nodes");
        let elsewhere = List { namespace: Some("x/../y".to_owned()), ..List::of(Kind::Pods) };
        assert_eq!(elsewhere.collection(), "/api/v1/namespaces/x%2F..%2Fy/pods");
        assert_eq!(List::of(Kind::AdvancedDaemonSets).collection(), "/apis/apps.kruise.io/v1beta1/daemonsets");
    }
}
