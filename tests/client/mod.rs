//! The client against a server that misbehaves on purpose.

mod admission;
#[cfg(unix)]
mod agent_pods;
pub(crate) mod asking;
mod broken_watches;
mod clusters;
mod compare;
mod config_objects;
mod connecting;
mod equal_reports;
mod faults;
mod lies;
#[cfg(unix)]
mod logs;
mod nonsense;
mod reading;
mod retry;
mod rollbacks;
mod staged_faults;
#[cfg(unix)]
mod staged_interrupts;
#[cfg(unix)]
mod staged_rollouts;
#[cfg(unix)]
mod staged_verify;
mod stalled;
pub(crate) mod status;
mod storage;
pub(crate) mod suggestions;
#[cfg(unix)]
mod watch_commands;
mod watching;
mod writing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use jiff::Timestamp;
use kubectl_ds::cluster::Query;
use kubectl_ds::cluster::error::ClusterError;
use kubectl_ds::cluster::live::{Live, connect};
use kubectl_ds::connection::ConnectOptions;
use kubectl_ds::model::metadata::{ObjectMeta, OwnerReference};
use kubectl_ds::model::node::Node;
use kubectl_ds::model::pod::{Pod, PodSpec};
use kubectl_ds::model::snapshot::{Kind, Snapshot};
use serde_json::{Value, json};

pub(crate) use crate::support::server;
use server::{Asked, JSON, Reply, Server};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Flags that lead to a server, in an empty environment.
pub(crate) fn options(server: &Server) -> ConnectOptions {
    ConnectOptions { server: Some(format!("http://{}", server.address)), ..ConnectOptions::default() }
}

async fn live(options: &ConnectOptions) -> Result<Live, ClusterError> {
    live_at(options, || "2026-11-21T12:00:00Z".parse().unwrap()).await
}

async fn live_at(options: &ConnectOptions, clock: fn() -> Timestamp) -> Result<Live, ClusterError> {
    connect(options, clock, Arc::new(|_| ())).await
}

/// Connects and reads, as a command does.
pub(crate) fn read(options: &ConnectOptions, query: &Query) -> Result<(Snapshot, Live), ClusterError> {
    block_on(async {
        let live = live(options).await?;
        let snapshot = live.read(query).await?;
        Ok((snapshot, live))
    })
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Checks each case in a thread of its own, for runs that wait most of the time.
fn side_by_side<T: Send>(cases: impl IntoIterator<Item = T>, check: impl Fn(T) + Sync) {
    thread::scope(|scope| {
        for case in cases {
            let check = &check;
            scope.spawn(move || check(case));
        }
    });
}

/// Asks for the DaemonSet `agent` in the namespace `team`.
fn agent() -> Query {
    Query { namespace: Some("team".to_owned()), names: vec!["agent".to_owned()], ..Query::default() }
}

/// Asks for every DaemonSet.
fn all() -> Query {
    Query::default()
}

/// Returns the answer to a patch of an object as that to a dry run, which stores nothing: it has the version of the object.
pub(crate) fn unstored(answer: Reply, object: &Value) -> Reply {
    let Ok(mut tried) = serde_json::from_slice::<Value>(&answer.body) else { return answer };
    if answer.status != 200 {
        return answer;
    }
    tried["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
    Reply::of(200, JSON, tried.to_string())
}

pub(crate) fn daemon_set(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "team", "uid": format!("uid-of-{name}")},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}}}},
    })
}

pub(crate) fn node(name: &str) -> Node {
    Node { metadata: ObjectMeta { name: name.to_owned(), ..ObjectMeta::default() }, ..Node::default() }
}

/// Writes a node as an API server does in JSON.
fn json_node(name: &str) -> Reply {
    Reply::of(200, JSON, json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}}).to_string())
}

/// A pod on a node, of a DaemonSet or of something else.
pub(crate) fn pod(name: &str, owner: &str, node: &str) -> Pod {
    let owner = OwnerReference { uid: format!("uid-of-{owner}"), controller: true, ..OwnerReference::default() };
    let metadata = ObjectMeta {
        name: name.to_owned(),
        namespace: "team".to_owned(),
        uid: format!("uid-of-{name}"),
        owner_references: vec![owner].into(),
        ..ObjectMeta::default()
    };
    Pod { metadata, spec: PodSpec { node_name: node.to_owned(), ..PodSpec::default() }, ..Pod::default() }
}

/// Writes a list as an API server does in protobuf.
pub(crate) fn protobuf_list(kind: &str, items: &[impl prost::Message], next: &str) -> Reply {
    fn field(number: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2];
        prost::encoding::encode_varint(body.len() as u64, &mut bytes);
        bytes.extend_from_slice(body);
        bytes
    }
    let mut list = field(1, &[field(2, b"42"), field(3, next.as_bytes())].concat());
    for item in items {
        list.extend(field(2, &item.encode_to_vec()));
    }
    let type_meta = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
    Reply::of(200, PROTOBUF, [b"k8s\0".to_vec(), field(1, &type_meta), field(2, &list)].concat())
}

/// Writes the list at a path as an API server does in JSON.
fn json_list(path: &str, items: &[Value]) -> Reply {
    let (api_version, kind, _) = Kind::every()
        .chain(Kind::ADMISSION)
        .map(Kind::api_names)
        .find(|(.., resource)| path.ends_with(&format!("/{resource}")))
        .expect("a known kind");
    let list = json!({"kind": format!("{kind}List"), "apiVersion": api_version, "metadata": {}, "items": items});
    Reply::of(200, JSON, list.to_string())
}

/// Refuses as the API does, with a `Status`.
fn refusal(code: u16, reason: &str, message: &str) -> Reply {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason,
        "message": message, "code": code});
    Reply::of(code, JSON, status.to_string())
}

/// Says that the object at a path does not exist, as the API does: by its name.
fn absent(path: &str) -> Reply {
    let mut segments = path.rsplit('/');
    let (name, resource) = (segments.next().unwrap(), segments.next().unwrap());
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound",
        "message": format!("{resource} {name:?} not found"), "details": {"name": name, "kind": resource}, "code": 404});
    Reply::of(404, JSON, status.to_string())
}

/// Lists API groups, each with its versions.
fn api_groups(groups: &[(&str, &[&str])]) -> Reply {
    let groups = groups.iter().map(|(name, versions)| {
        let version = |version: &&str| json!({"groupVersion": format!("{name}/{version}"), "version": version});
        json!({"name": name, "versions": versions.iter().map(version).collect::<Vec<_>>()})
    });
    let list = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups.collect::<Vec<_>>()});
    Reply::of(200, JSON, list.to_string())
}

/// The resources of which [`cluster`] has no object.
const EMPTY: [&str; 8] = [
    "controllerrevisions",
    "namespaces",
    "limitranges",
    "resourcequotas",
    "runtimeclasses",
    "priorityclasses",
    "poddisruptionbudgets",
    "leases",
];

/// A cluster with one DaemonSet `agent` in `team`, two nodes, and a pod of its own and one of another's
/// on the first.
pub(crate) fn cluster(asked: &Asked) -> Reply {
    let pods = [pod("agent-a", "agent", "n1"), pod("web-a", "web", "n1")];
    match asked.path() {
        "/apis/apps/v1/namespaces/team/daemonsets/agent" => Reply::of(200, JSON, daemon_set("agent").to_string()),
        "/apis/apps/v1/namespaces/team/daemonsets" | "/apis/apps/v1/daemonsets" => {
            json_list(asked.path(), &[daemon_set("agent")])
        }
        "/api/v1/nodes" => protobuf_list("NodeList", &[node("n1"), node("n2")], ""),
        "/api/v1/pods" => protobuf_list("PodList", &pods, ""),
        "/api/v1/namespaces/team/pods" => protobuf_list("PodList", &pods[..1], ""),
        path if path.ends_with("/events") => protobuf_list("EventList", &[] as &[Node], ""),
        "/apis" => api_groups(&[]),
        path if EMPTY.iter().any(|resource| path.ends_with(resource)) => json_list(path, &[]),
        path => absent(path),
    }
}

/// Returns the environment variables as the edge hands them down.
fn environment(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}
