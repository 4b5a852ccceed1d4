//! A live cluster and a dump of it give equal reports.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, LazyLock, Mutex};

use jiff::Timestamp;
use kubectl_ds::cluster::live::{Live, connect};
use kubectl_ds::cluster::{CoverageScope, Query, Wanted, file};
use kubectl_ds::coverage::options::{Detail, Options};
use kubectl_ds::coverage::walk::coverage;
use kubectl_ds::facts::index::nodes_needing_all_pods;
use kubectl_ds::model::snapshot::{Kind, Snapshot};
use kubectl_ds::report::recent_changes::ChangesReport;
use kubectl_ds::rollout::fleet::fleet;
use kubectl_ds::rollout::history::histories;
use kubectl_ds::rollout::recent_changes::recent_changes;
use kubectl_ds::rollout::status::rollout_status;
use serde::Serialize;
use serde_json::{Value, json};

use super::server::{Asked, Reply, Server};
use super::{JSON, absent, api_groups, json_list, options};
use crate::recorded;

/// Starts a server of recorded objects. What it has answered once it keeps: to write thousands of pods takes most of its time.
pub(super) fn start(items: Vec<Value>) -> Server {
    let answers: Mutex<BTreeMap<String, Reply>> = Mutex::default();
    Server::start(move |asked| {
        let known = answers.lock().unwrap().get(asked.path()).cloned();
        known.unwrap_or_else(|| {
            let answer = serve(&items, asked);
            answers.lock().unwrap().insert(asked.path().to_owned(), answer.clone());
            answer
        })
    })
}

/// Serves objects as lists, and each by its name.
fn serve(items: &[Value], asked: &Asked) -> Reply {
    let path: Vec<&str> = asked.path().trim_start_matches('/').split('/').collect();
    let (api_version, rest) = match path.as_slice() {
        ["apis"] => return api_groups(&[]),
        ["api", version, rest @ ..] => ((*version).to_owned(), rest),
        ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
        _ => return absent(asked.path()),
    };
    let (namespace, resource, name) = match rest {
        ["namespaces", namespace, resource] => (Some(*namespace), *resource, None),
        ["namespaces", namespace, resource, name] => (Some(*namespace), *resource, Some(*name)),
        [resource] => (None, *resource, None),
        [resource, name] => (None, *resource, Some(*name)),
        _ => return absent(asked.path()),
    };
    let is_meant = |item: &&Value| {
        let kind = item["kind"].as_str().unwrap().to_lowercase();
        let plural = if kind.ends_with('s') { format!("{kind}es") } else { format!("{kind}s") };
        item["apiVersion"] == api_version.as_str()
            && plural == resource
            && namespace.is_none_or(|namespace| item["metadata"]["namespace"] == namespace)
            && name.is_none_or(|name| item["metadata"]["name"] == name)
    };
    let found: Vec<Value> = items.iter().filter(is_meant).cloned().collect();
    match (name, found.as_slice()) {
        (None, found) => json_list(asked.path(), found),
        (Some(_), [object]) => Reply::of(200, JSON, object.to_string()),
        (Some(_), _) => absent(asked.path()),
    }
}

/// Reads from the server as commands do.
async fn read_live(live: &Live, query: &Query) -> Snapshot {
    let mut snapshot = live.read(query).await.unwrap();
    let nodes: BTreeSet<String> = nodes_needing_all_pods(&snapshot);
    live.read_pods_on(&mut snapshot, &nodes).await.unwrap();
    let refused = snapshot.events.iter().filter(|event| event.reason == "FailedCreate");
    let refused = refused.map(|event| event.involved_object.namespace.clone()).collect();
    live.read_limit_ranges(&mut snapshot, refused).await;
    snapshot.read_on_demand.insert(Kind::DeviceClasses);
    snapshot
}

/// Reads the recording.
fn from_dump(query: &Query) -> Snapshot {
    let dump = file::Dump::new(recorded::path().to_str().unwrap(), None);
    let snapshot = dump.read(query, &mut io::empty(), nodes_needing_all_pods).unwrap().snapshot;
    // From a cluster, there are logs.
    Snapshot { lacks_logs: false, ..snapshot }
}

/// When the recording was made, which is the time of the live client, too.
static NOW: LazyLock<Timestamp> = LazyLock::new(|| from_dump(&Query::default()).now);

fn value(report: &impl Serialize) -> Value {
    serde_json::to_value(report).unwrap()
}

#[test]
fn a_live_cluster_and_its_dump_give_equal_reports() {
    let items = recorded::items();
    let names = items.iter().filter(|item| item["kind"] == "DaemonSet");
    let names: Vec<(String, String)> = names
        .map(|item| &item["metadata"])
        .map(|metadata| {
            (metadata["namespace"].as_str().unwrap().to_owned(), metadata["name"].as_str().unwrap().to_owned())
        })
        .collect();
    let server = start(items);
    let options = options(&server);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let live = runtime.block_on(connect(&options, || *NOW, Arc::new(|_| ()))).unwrap();
    let from_server = |query: &Query| runtime.block_on(read_live(&live, query));

    let whole = Options { detail: Detail::Nodes, ..Options::default() };
    for admission in [true, false] {
        let scope = CoverageScope { admission, ..CoverageScope::default() };
        let query = Query { wanted: Wanted::Coverage(scope), ..Query::default() };
        let (here, there) = (from_dump(&query), from_server(&query));
        assert_equal("coverage -A", &value(&coverage(&there, &whole)), &value(&coverage(&here, &whole)));
        assert_equal("list -A", &value(&fleet(&there)), &value(&fleet(&here)));
        assert_equal("status -A", &value(&rollout_status(&there, None)), &value(&rollout_status(&here, None)));
    }
    for namespace in [None, Some(names[0].0.clone())] {
        let query = Query { namespace, wanted: Wanted::RecentChanges, ..Query::default() };
        let (here, there) = (recent_changes(&from_dump(&query), None), recent_changes(&from_server(&query), None));
        assert!(here.changes.len() > 3, "{here:?}");
        assert_eq!(here.elsewhere.is_some(), query.namespace.is_some());
        // The recorded objects have no managed fields, and the revisions of other namespaces are only in the dump.
        let comparable = |report: &ChangesReport| {
            let mut value = value(report);
            value.as_object_mut().unwrap().remove("elsewhere");
            value
        };
        assert_equal("changes", &comparable(&there), &comparable(&here));
    }
    let query = Query { wanted: Wanted::History, ..Query::default() };
    let (here, there) = (histories(&from_dump(&query)), histories(&from_server(&query)));
    assert_equal("history", &value(&there), &value(&here));

    // Of one DaemonSet less is read, and less of that is kept.
    for (namespace, name) in names.into_iter().step_by(5) {
        let scope = CoverageScope { admission: true, ..CoverageScope::default() };
        let wanted = Wanted::Coverage(scope);
        let query = Query { namespace: Some(namespace), names: vec![name.clone()], wanted, ..Query::default() };
        let (here, there) = (from_dump(&query), from_server(&query));
        assert_equal(&name, &value(&coverage(&there, &whole)), &value(&coverage(&here, &whole)));
        assert_equal(&name, &value(&rollout_status(&there, None)), &value(&rollout_status(&here, None)));
    }
}

/// Fails with the first values that differ, and where.
fn assert_equal(what: &str, live: &Value, dump: &Value) {
    fn differ(path: &str, live: &Value, dump: &Value) -> Option<String> {
        match (live, dump) {
            (Value::Object(live), Value::Object(dump)) => {
                let names: BTreeSet<&String> = live.keys().chain(dump.keys()).collect();
                names.into_iter().find_map(|name| {
                    let at = |object: &serde_json::Map<String, Value>| object.get(name).cloned().unwrap_or(json!(null));
                    differ(&format!("{path}.{name}"), &at(live), &at(dump))
                })
            }
            (Value::Array(live), Value::Array(dump)) if live.len() == dump.len() => {
                let pairs = live.iter().zip(dump).enumerate();
                pairs.into_iter().find_map(|(index, (live, dump))| differ(&format!("{path}[{index}]"), live, dump))
            }
            _ => (live != dump).then(|| format!("{path}:\nlive {live}\ndump {dump}")),
        }
    }
    // A field that is null equals one that is missing.
    if live != dump
        && let Some(difference) = differ(what, live, dump)
    {
        panic!("{difference}");
    }
}
