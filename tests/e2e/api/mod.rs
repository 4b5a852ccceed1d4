//! The client against a real API server, without controllers: objects stay as they are written.

mod objects;
mod watching;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use kubectl_ds::cluster::error::ClusterError;
use kubectl_ds::cluster::live::{Live, connect};
use kubectl_ds::cluster::{CoverageScope, Query, Wanted};
use kubectl_ds::connection::ConnectOptions;
use kubectl_ds::model::event::Event;
use kubectl_ds::model::snapshot::{GapCause, Kind, PodsComplete, Snapshot};
use kubectl_ds::report::fix::{Command, Fix};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::support::control_plane::{ControlPlane, Options};

/// Starts an API server with one of everything that the client reads.
fn control_plane() -> ControlPlane {
    let control_plane = ControlPlane::start(Options::api_server_only());
    control_plane.create(objects::NAMESPACES);
    control_plane.create(objects::OBJECTS);
    // A status is no part of what makes a pod: it is written by itself.
    for pod in ["agent-run1", "agent-wait"] {
        let status = objects::status(pod);
        control_plane.kubectl(&[
            "patch",
            "pod",
            pod,
            "-n",
            "team",
            "--subresource=status",
            "--type=merge",
            "-p",
            &status,
        ]);
    }
    control_plane
}

/// Reads as one of the harness's users.
fn read(control_plane: &ControlPlane, user: &str, query: &Query) -> Result<(Snapshot, Live), ClusterError> {
    let options = ConnectOptions {
        kubeconfig: Some(control_plane.kubeconfig_of(user).display().to_string()),
        ..ConnectOptions::default()
    };
    block_on(async {
        let live = connect(&options, clock, Arc::new(|_| ())).await?;
        let snapshot = live.read(query).await?;
        Ok((snapshot, live))
    })
}

fn clock() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn everything() -> Query {
    Query { wanted: Wanted::Everything, ..Query::default() }
}

fn on_node(name: &str) -> Wanted {
    Wanted::Coverage(CoverageScope { node: Some(name.to_owned()), ..CoverageScope::default() })
}

fn in_team(name: &str) -> Query {
    Query { namespace: Some("team".to_owned()), names: vec![name.to_owned()], ..Query::default() }
}

/// Returns objects as JSON gives them.
fn from_json<T: DeserializeOwned>(control_plane: &ControlPlane, resource: &str) -> Vec<T> {
    let objects = control_plane.items(&[resource, "-A"]);
    objects.into_iter().map(|object| serde_json::from_value(object).unwrap()).collect()
}

fn names(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.pods.iter().map(|pod| pod.metadata.name.as_str()).collect()
}

/// One test for all that only reads: a control plane takes seconds to start.
#[test]
fn a_real_api_server_is_read_as_it_is() {
    let control_plane = control_plane();
    both_wire_forms_give_equal_values(&control_plane);
    a_daemon_set_is_read_with_what_belongs_to_it(&control_plane);
    one_node_is_read_with_all_that_runs_on_it(&control_plane);
    what_a_user_may_not_read_becomes_a_gap(&control_plane);
    a_name_that_is_not_there_comes_with_near_ones(&control_plane);
}

fn both_wire_forms_give_equal_values(control_plane: &ControlPlane) {
    let (snapshot, _) = read(control_plane, "admin", &everything()).unwrap();
    assert_eq!(snapshot.gaps, []);
    assert_eq!(snapshot.pods_complete, PodsComplete::Everywhere);
    assert_eq!(snapshot.nodes, from_json(control_plane, "nodes"));
    assert_eq!(snapshot.pods, from_json(control_plane, "pods"));
    // The API server may say something of its own service meanwhile, in another namespace.
    let in_team = |mut events: Vec<Event>| {
        events.retain(|event| event.metadata.namespace == "team");
        events.sort_by_key(|event| event.metadata.name.clone());
        events
    };
    let events = in_team(snapshot.events);
    assert_eq!(events, in_team(from_json(control_plane, "events")));
    // Equal values prove little where the objects say little.
    let pod = snapshot.pods.iter().find(|pod| pod.metadata.name == "agent-run1").unwrap();
    assert_eq!(pod.spec.containers[0].ports[0].host_ip, "127.0.0.9");
    assert_eq!(pod.spec.overhead["memory"].text, "120Mi");
    assert_eq!(pod.status.container_statuses[0].last_state.terminated.as_ref().unwrap().exit_code, 137);
    assert!(pod.status.start_time.get().is_some());
    let node = snapshot.nodes.iter().find(|node| node.metadata.name == "n1").unwrap();
    // The third is the not-ready taint, which admission sets.
    assert_eq!((node.spec.taints.len(), node.status.allocatable["cpu"].text.as_str()), (3, "3920m"));
    let series = events.iter().find(|event| event.series.is_some()).expect("an event of the new form");
    assert_eq!((series.reporting_component.as_str(), series.series.as_ref().unwrap().count), ("default-scheduler", 7));
    assert_eq!(events.len(), 4);
    assert_eq!(snapshot.limit_ranges[0].spec.limits[0].default_request["cpu"].text, "50m");
    assert_eq!(snapshot.runtime_classes[0].overhead.as_ref().unwrap().pod_fixed["memory"].text, "120Mi");
    assert!(snapshot.priority_classes.iter().any(|class| class.metadata.name == "high" && class.value == 1000));
}

fn a_daemon_set_is_read_with_what_belongs_to_it(control_plane: &ControlPlane) {
    let (mut snapshot, source) = read(control_plane, "admin", &in_team("agent")).unwrap();
    assert_eq!(snapshot.daemon_sets.len(), 1);
    let object: Value = control_plane.get(&["daemonset", "agent", "-n", "team"]);
    assert_eq!(without_managed_fields(snapshot.daemon_sets[0].object.clone()), without_managed_fields(object));
    assert_eq!(names(&snapshot), ["agent-run1", "agent-wait"]);
    let hashes: Vec<&str> = snapshot.controller_revisions.iter().map(|revision| revision.hash()).collect();
    assert_eq!(hashes, ["aaa"]);
    let about: BTreeSet<_> = snapshot.events.iter().map(|event| event.involved_object.name.as_str()).collect();
    assert_eq!(about, ["agent", "agent-run1"].into(), "another's events and normal ones stay away");

    let on_n1 = BTreeSet::from(["n1".to_owned()]);
    block_on(async {
        // The client's own task ended with the runtime that it was made in.
        drop(source);
        let options = ConnectOptions {
            kubeconfig: Some(control_plane.kubeconfig().display().to_string()),
            ..ConnectOptions::default()
        };
        let live = connect(&options, clock, Arc::new(|_| ())).await.unwrap();
        live.read_pods_on(&mut snapshot, &on_n1).await.unwrap();
    });
    assert_eq!(names(&snapshot), ["agent-run1", "agent-wait", "web-1"]);
    assert_eq!(snapshot.pods_complete, PodsComplete::On(on_n1));
}

fn one_node_is_read_with_all_that_runs_on_it(control_plane: &ControlPlane) {
    let query = Query { wanted: on_node("n1"), ..Query::default() };
    let (snapshot, _) = read(control_plane, "admin", &query).unwrap();
    assert_eq!(names(&snapshot).into_iter().collect::<BTreeSet<_>>(), ["agent-run1", "agent-wait", "web-1"].into());
    assert_eq!(snapshot.nodes.len(), 1);
    assert!(snapshot.events.iter().any(|event| event.type_ == "Normal" && event.involved_object.name == "agent-run1"));
}

fn what_a_user_may_not_read_becomes_a_gap(control_plane: &ControlPlane) {
    let error = read(control_plane, "bob", &in_team("agent")).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("Error from server (Forbidden): daemonsets.apps \"agent\" is forbidden: User \"bob\""),
        "{error}"
    );
    let (snapshot, _) = read(control_plane, "alice", &in_team("agent")).unwrap();
    assert_eq!(names(&snapshot), ["agent-run1", "agent-wait"]);
    let gaps: Vec<_> = snapshot.gaps.iter().map(|gap| (gap.kind, gap.namespace.as_deref())).collect();
    assert_eq!(
        gaps,
        [
            (Kind::ControllerRevisions, Some("team")),
            (Kind::Nodes, None),
            (Kind::Events, Some("team")),
            (Kind::Leases, Some("kube-system")),
        ]
    );
    assert_eq!(snapshot.gaps[0].cause, GapCause::Forbidden("list controllerrevisions.apps".to_owned()));
}

fn a_name_that_is_not_there_comes_with_near_ones(control_plane: &ControlPlane) {
    let error = read(control_plane, "admin", &in_team("agnet")).unwrap_err();
    assert_eq!(error.to_string(), "Error from server (NotFound): daemonsets.apps \"agnet\" not found");
    let near = Command::choice("", ["agent"]);
    assert_eq!(error.hints(), [Fix::new("similar names in namespace \"team\"", near)]);
    let query = Query { wanted: on_node("node-1"), ..in_team("agent") };
    let error = read(control_plane, "admin", &query).unwrap_err();
    assert_eq!(error.to_string(), "Error from server (NotFound): nodes \"node-1\" not found");
}

/// The order of managed fields' text is the server's business; the rest must be the same.
fn without_managed_fields(mut object: Value) -> Value {
    object["metadata"].as_object_mut().unwrap().remove("managedFields");
    object
}
