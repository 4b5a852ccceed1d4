//! Lists: how they are requested, and how unexpected responses are handled.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kubectl_ds::cluster::{CoverageScope, Flavors, Query, Wanted};
use kubectl_ds::connection::ConnectOptions;
use kubectl_ds::model::node::Node;
use kubectl_ds::model::snapshot::{Gap, GapCause, Kind, PodsComplete, Snapshot};
use serde_json::{Value, json};

use super::server::{Reply, Server};
use super::{
    JSON, agent, all, api_groups, block_on, cluster, daemon_set, json_list, json_node, live, node, options, pod,
    protobuf_list, read, refusal,
};
use crate::screens::{Ended, end, kubectl_ds};
use crate::support::shown;

fn on_node(name: &str) -> Wanted {
    Wanted::Coverage(CoverageScope { node: Some(name.to_owned()), ..CoverageScope::default() })
}

fn names(snapshot: &Snapshot) -> (Vec<&str>, Vec<&str>) {
    let nodes = snapshot.nodes.iter().map(|node| node.metadata.name.as_str()).collect();
    (nodes, snapshot.pods.iter().map(|pod| pod.metadata.name.as_str()).collect())
}

#[test]
fn one_daemon_set_is_asked_for_with_no_more_than_belongs_to_it() {
    let server = Server::start(cluster);
    let (snapshot, _) = read(&options(&server), &agent()).unwrap();
    assert_eq!(names(&snapshot), (vec!["n1", "n2"], vec!["agent-a"]));
    assert_eq!(snapshot.pods_complete, PodsComplete::On(BTreeSet::new()));
    assert_eq!(snapshot.gaps, []);
    let asked: BTreeSet<String> = server.asked().into_iter().map(|asked| asked.target).collect();
    let expected = [
        "/api/v1/namespaces/team/events?&fieldSelector=involvedObject.kind%3DDaemonSet%2CinvolvedObject.name%3Dagent",
        "/api/v1/namespaces/team/events?&fieldSelector=involvedObject.kind%3DPod%2Ctype%21%3DNormal",
        "/api/v1/namespaces/team/pods?&labelSelector=app%3Dagent",
        "/api/v1/nodes?",
        "/apis/apps/v1/namespaces/team/controllerrevisions?&labelSelector=app%3Dagent",
        // Its selector may overlap with that of another one.
        "/apis/apps/v1/namespaces/team/daemonsets?",
        "/apis/apps/v1/namespaces/team/daemonsets/agent",
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager",
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler",
    ];
    assert_eq!(asked, expected.map(str::to_owned).into());
    let nodes = server.asked().into_iter().find(|asked| asked.path() == "/api/v1/nodes").unwrap();
    assert_eq!(nodes.header("accept"), "application/vnd.kubernetes.protobuf, application/json");
    assert!(nodes.header("user-agent").starts_with("kubectl-ds/"), "{nodes:?}");
}

/// Answers that need no PodDisruptionBudgets do not fail because of them.
#[test]
fn budgets_that_cannot_be_read_are_a_gap() {
    for reply in [
        Reply::of(403, "text/html", "<html>Forbidden</html>"),
        Reply::of(500, "text/html", "<html>broken</html>"),
        Reply::of(200, JSON, r#"{"ok":true}"#),
        Reply::of(204, "", ""),
        Reply::hang_up(),
    ] {
        let answer = reply.clone();
        let server = Server::start(move |asked| match asked.path().ends_with("/poddisruptionbudgets") {
            true => answer.clone(),
            false => cluster(asked),
        });
        let query = Query { wanted: Wanted::Everything, ..all() };
        let (snapshot, _) = read(&options(&server), &query).unwrap_or_else(|error| panic!("{reply:?}: {error}"));
        let gap = snapshot.gap(Kind::PodDisruptionBudgets, "").map(|gap| &gap.cause);
        assert!(matches!(gap, Some(GapCause::Failed(_))) && !snapshot.budgets_complete, "{reply:?}: {gap:?}");
    }
}

/// Requests and commands are made of names.
#[test]
fn a_list_with_what_is_no_name_is_not_read() {
    for name in ["", "../../nodes/x", "--all"] {
        let pods = [pod(name, "agent", "n1")];
        let server = Server::start(move |asked| match asked.path().ends_with("/pods") {
            true => protobuf_list("PodList", &pods, ""),
            false => cluster(asked),
        });
        let error = read(&options(&server), &agent()).expect_err(name).to_string();
        assert!(error.ends_with(&format!("{name:?} is not the name of an object")), "{error}");
    }
}

#[test]
fn every_daemon_set_is_asked_for_with_all_pods() {
    let server = Server::start(cluster);
    let (snapshot, _) = read(&options(&server), &all()).unwrap();
    assert_eq!(names(&snapshot), (vec!["n1", "n2"], vec!["agent-a", "web-a"]));
    assert_eq!(snapshot.pods_complete, PodsComplete::Everywhere);
    let object = &snapshot.daemon_sets[0].object;
    assert_eq!((&object["apiVersion"], &object["kind"]), (&json!("apps/v1"), &json!("DaemonSet")));
}

#[test]
fn one_node_is_asked_for_with_its_pods_and_those_that_no_node_has() {
    let server = Server::start(cluster);
    let query = Query { wanted: on_node("n1"), ..all() };
    let (snapshot, _) = read(&options(&server), &query).unwrap();
    assert_eq!(snapshot.pods_complete, PodsComplete::On(["n1".to_owned()].into()));
    let asked: BTreeSet<String> = server.asked().into_iter().map(|asked| asked.target).collect();
    for target in [
        "/api/v1/nodes?&fieldSelector=metadata.name%3Dn1",
        "/api/v1/pods?&fieldSelector=spec.nodeName%3Dn1",
        "/api/v1/pods?&fieldSelector=spec.nodeName%3D",
        "/api/v1/namespaces/default/events?&fieldSelector=involvedObject.kind%3DNode%2CinvolvedObject.name%3Dn1",
    ] {
        assert!(asked.contains(target), "{target} is not among {asked:#?}");
    }
}

#[test]
fn a_node_that_is_not_there_comes_with_near_ones() {
    let server = Server::start(|asked| match asked.target.as_str() {
        target if target.starts_with("/api/v1/nodes?&fieldSelector") => {
            protobuf_list("NodeList", &Vec::<kubectl_ds::model::node::Node>::new(), "")
        }
        _ => cluster(asked),
    });
    let query = Query { wanted: on_node("n3"), ..agent() };
    let error = read(&options(&server), &query).unwrap_err();
    assert_eq!(shown(error), "Error from server (NotFound): nodes \"n3\" not found\nhint: no node has a similar name");
}

#[test]
fn a_daemon_set_that_is_not_there_comes_with_near_ones() {
    let server = Server::start(cluster);
    let query = Query { names: vec!["agnet".to_owned()], ..agent() };
    assert_eq!(
        shown(read(&options(&server), &query).unwrap_err()),
        "Error from server (NotFound): daemonsets.apps \"agnet\" not found\nhint: similar names in namespace \"team\": agent"
    );
}

#[test]
fn json_in_answer_to_a_question_for_protobuf_gives_the_same_objects() {
    let server = Server::start(|asked| match asked.path() {
        "/api/v1/nodes" => {
            json_list(asked.path(), &[json!({"metadata": {"name": "n1"}}), json!({"metadata": {"name": "n2"}})])
        }
        "/api/v1/pods" => {
            let pods = [pod("agent-a", "agent", "n1"), pod("web-a", "web", "n1")];
            json_list(asked.path(), &pods.map(|pod| serde_json::to_value(pod).unwrap()))
        }
        _ => cluster(asked),
    });
    let (snapshot, _) = read(&options(&server), &all()).unwrap();
    let (expected, _) = read(&options(&Server::start(cluster)), &all()).unwrap();
    assert_eq!(snapshot, expected);
}

#[test]
fn a_busy_server_is_asked_again() {
    let asked_before = AtomicUsize::new(0);
    let server = Server::start(move |asked| match asked.path() {
        "/api/v1/nodes" if asked_before.fetch_add(1, Ordering::SeqCst) == 0 => {
            refusal(429, "TooManyRequests", "too many requests").with("retry-after", "1")
        }
        _ => cluster(asked),
    });
    let start = Instant::now();
    let (snapshot, _) = read(&options(&server), &agent()).unwrap();
    assert_eq!(names(&snapshot).0, ["n1", "n2"]);
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
}

#[test]
fn a_server_that_stays_busy_is_given_up_after_three_seconds() {
    let pauses = || {
        let times = Arc::new(Mutex::new(Vec::new()));
        let server = Server::start({
            let times = times.clone();
            move |asked| match asked.path() {
                "/apis/apps/v1/namespaces/team/daemonsets/agent" => {
                    times.lock().unwrap().push(Instant::now());
                    Reply::of(503, "text/plain", "no\nbackend")
                }
                _ => cluster(asked),
            }
        });
        let error = read(&options(&server), &agent()).unwrap_err();
        assert_eq!(
            shown(error),
            "unexpected answer to get daemonsets: HTTP status 503, \"no backend\"\n\
             hint: the server is overloaded or starting; try again later"
        );
        let ended = Instant::now();
        let mut times = times.lock().unwrap().clone();
        times.push(ended);
        times.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
    };
    // A machine that is busy makes single pauses of a run longer, but hardly the same ones of all runs.
    let runs = thread::scope(|scope| {
        let runs: Vec<_> = (0..6).map(|_| scope.spawn(pauses)).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect::<Vec<_>>()
    });
    // After the last answer there is no pause.
    assert!(runs.iter().all(|pauses| pauses.len() == 5), "{runs:?}");
    let shortest = (0..5).map(|at| runs.iter().map(|pauses| pauses[at]).min().unwrap()).sum::<Duration>();
    assert!((Duration::from_millis(2900)..Duration::from_secs(4)).contains(&shortest), "{shortest:?}: {runs:?}");
}

#[test]
fn a_server_that_says_when_to_retry_is_retried_ten_times() {
    for (status, requests) in [(429, 11), (500, 11), (404, 1)] {
        let server = Server::start(move |asked| match asked.path() {
            "/apis/apps/v1/namespaces/team/daemonsets/agent" => Reply::of(status, JSON, "{}").with("retry-after", "0"),
            _ => cluster(asked),
        });
        read(&options(&server), &agent()).unwrap_err();
        let asked = server.asked().iter().filter(|asked| asked.path().ends_with("/agent")).count();
        assert_eq!(asked, requests, "{status}");
    }
}

#[test]
fn a_server_that_says_to_retry_too_late_is_not_waited_for() {
    for (patience, wait) in [(Some(Duration::from_secs(3)), "4"), (None, "99999"), (None, "18446744073709551615")] {
        for status in [429, 503] {
            let server = Server::start(move |asked| match asked.path() {
                "/apis/apps/v1/namespaces/team/daemonsets/agent" => {
                    Reply::of(status, JSON, "{}").with("retry-after", wait)
                }
                _ => cluster(asked),
            });
            let options = ConnectOptions { request_timeout: patience, ..options(&server) };
            assert_eq!(
                shown(read(&options, &agent()).unwrap_err()),
                format!(
                    "unexpected answer to get daemonsets: HTTP status {status}, \"{{}}\"; \
                     it asks to wait {wait} s before the request is repeated\n\
                     hint: the server is overloaded or starting; try again later"
                )
            );
            assert_eq!(server.asked().iter().filter(|asked| asked.path().ends_with("/agent")).count(), 1);
        }
    }
}

#[test]
fn a_read_is_sent_again_if_the_connection_was_lost_before_the_answer() {
    let asked_before = AtomicUsize::new(0);
    let server = Server::start(move |asked| match asked.path() {
        "/api/v1/nodes" if asked_before.fetch_add(1, Ordering::SeqCst) == 0 => Reply::hang_up(),
        _ => cluster(asked),
    });
    let (snapshot, _) = read(&options(&server), &agent()).unwrap();
    assert_eq!(names(&snapshot).0, ["n1", "n2"]);
}

#[test]
fn redirects_are_not_followed() {
    let server = Server::start(cluster);
    let address = server.address;
    let elsewhere = Server::start(move |asked| {
        Reply::of(302, "text/plain", "").with("location", &format!("http://{address}{}", asked.target))
    });
    let error = shown(read(&options(&elsewhere), &agent()).unwrap_err());
    assert!(error.contains("status 302"), "{error}");
    assert_eq!(server.asked().len(), 0);
}

#[test]
fn a_connection_lost_in_the_middle_says_in_the_middle_of_what() {
    let server = Server::start(|asked| match asked.path() {
        "/api/v1/nodes" => Reply { cut: true, ..cluster(asked) },
        _ => cluster(asked),
    });
    let error = shown(read(&options(&server), &agent()).unwrap_err());
    let start = format!("the connection to the server {} was lost in the answer to list nodes: ", server.address);
    assert!(error.starts_with(&start), "{error}");
    assert!(error.ends_with("\nhint: try again"), "{error}");
}

#[test]
fn a_list_that_ends_in_the_middle_is_no_shorter_list() {
    let server = Server::start(|asked| {
        let mut reply = cluster(asked);
        if asked.path() == "/api/v1/nodes" {
            reply.body.truncate(reply.body.len() - 5);
        }
        reply
    });
    assert_eq!(
        shown(read(&options(&server), &agent()).unwrap_err()),
        "cannot read the server's answer to list nodes: it is truncated\n\
         hint: check that the server is a Kubernetes API server, and that no proxy changes its answers"
    );
}

#[test]
fn an_answer_of_another_kind_is_refused() {
    let server = Server::start(|asked| match asked.path() {
        "/api/v1/nodes" => Reply::of(200, "text/html; charset=utf-8", "<html>log in</html>"),
        _ => cluster(asked),
    });
    let error = read(&options(&server), &agent()).unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot read the server's answer to list nodes: it is of type \"text/html\", neither protobuf nor JSON"
    );
}

#[test]
fn warnings_are_kept_once_each() {
    let server = Server::start(|asked| cluster(asked).with("warning", "299 - \"this cluster is old\""));
    let (_, live) = read(&options(&server), &agent()).unwrap();
    assert_eq!(live.observed().take_warnings(), ["this cluster is old"]);
    assert_eq!(live.observed().take_warnings(), Vec::<String>::new());
    assert!(!live.observed().has_warnings());
}

#[test]
fn what_is_forbidden_becomes_a_gap_and_the_rest_is_answered() {
    let server = Server::start(|asked| match asked.path() {
        path if path.ends_with("/nodes") || path.ends_with("/events") || path.contains("/leases/") => {
            refusal(403, "Forbidden", "no")
        }
        _ => cluster(asked),
    });
    let (snapshot, _) = read(&options(&server), &agent()).unwrap();
    assert_eq!(names(&snapshot), (vec![], vec!["agent-a"]));
    let gap = |kind, namespace: Option<&str>, permission: &str| Gap {
        kind,
        namespace: namespace.map(str::to_owned),
        cause: GapCause::Forbidden(permission.to_owned()),
    };
    assert_eq!(
        snapshot.gaps,
        [
            gap(Kind::Nodes, None, "list nodes"),
            gap(Kind::Events, Some("team"), "list events"),
            gap(Kind::Leases, Some("kube-system"), "get leases.coordination.k8s.io"),
        ]
    );
}

#[test]
fn forbidden_daemon_sets_are_an_error() {
    let message = "daemonsets.apps is forbidden: User \"eve\" cannot list resource \"daemonsets\"";
    let server = Server::start(move |asked| match asked.path() {
        "/apis/apps/v1/daemonsets" => refusal(403, "Forbidden", message),
        _ => cluster(asked),
    });
    assert_eq!(
        shown(read(&options(&server), &all()).unwrap_err()),
        format!(
            "Error from server (Forbidden): {message}\nhint: ask your cluster administrator for this permission; \
             to list those that you have: kubectl auth can-i --list"
        )
    );
}

#[test]
fn where_all_pods_are_forbidden_the_daemon_sets_own_are_read() {
    let server = Server::start(|asked| match asked.path() {
        "/api/v1/pods" | "/api/v1/events" | "/apis/apps/v1/controllerrevisions" => refusal(403, "Forbidden", "no"),
        _ => cluster(asked),
    });
    let (snapshot, _) = read(&options(&server), &all()).unwrap();
    assert_eq!(names(&snapshot).1, ["agent-a"]);
    assert_eq!(snapshot.pods_complete, PodsComplete::On(BTreeSet::new()));
    let cause = GapCause::ForbiddenElsewhere("list pods".to_owned());
    assert_eq!(snapshot.gaps, [Gap { kind: Kind::Pods, namespace: None, cause }]);
    assert_eq!(snapshot.gap(Kind::Pods, "team"), None);
}

#[test]
fn pods_of_few_nodes_are_read_node_by_node_and_of_many_at_once() {
    let server = Server::start(cluster);
    block_on(async {
        let source = live(&options(&server)).await.unwrap();
        let mut snapshot = source.read(&agent()).await.unwrap();
        let before = server.asked().len();
        let two = BTreeSet::from(["n1".to_owned(), "n2".to_owned()]);
        source.read_pods_on(&mut snapshot, &two).await.unwrap();
        assert_eq!(names(&snapshot).1, ["agent-a", "web-a"]);
        assert_eq!(snapshot.pods_complete, PodsComplete::On(two.clone()));
        let mut asked: Vec<_> = server.asked().drain(before..).map(|asked| asked.target).collect();
        asked.sort();
        let target = |node: &str| format!("/api/v1/pods?&fieldSelector=spec.nodeName%3D{node}");
        // The scheduler may have nominated a node for a pod that no node has.
        assert_eq!(asked, [target(""), target("n1"), target("n2")]);

        source.read_pods_on(&mut snapshot, &two).await.unwrap();
        assert_eq!(server.asked().len(), before + 3, "what is known is not asked for again");
        let many: BTreeSet<String> = (0..50).map(|number| format!("node-{number}")).collect();
        source.read_pods_on(&mut snapshot, &many).await.unwrap();
        assert_eq!(server.asked().last().unwrap().target, "/api/v1/pods?");
        assert_eq!(snapshot.pods_complete, PodsComplete::Everywhere);
    });
}

#[test]
fn pods_that_are_forbidden_leave_the_arithmetic_open() {
    let server = Server::start(|asked| match asked.path() {
        "/api/v1/pods" => refusal(403, "Forbidden", "no"),
        _ => cluster(asked),
    });
    block_on(async {
        let source = live(&options(&server)).await.unwrap();
        let mut snapshot = source.read(&agent()).await.unwrap();
        source.read_pods_on(&mut snapshot, &["n1".to_owned()].into()).await.unwrap();
        assert!(!snapshot.knows_all_pods_on("n1"));
        assert_eq!(snapshot.gaps.len(), 1);
    });
}

#[test]
fn a_daemon_set_of_the_wrong_shape_is_told_by_the_field() {
    let server = Server::start(|asked| match asked.path() {
        "/apis/apps/v1/namespaces/team/daemonsets/agent" => {
            let mut object = daemon_set("agent");
            object["spec"]["minReadySeconds"] = json!("soon");
            Reply::of(200, JSON, object.to_string())
        }
        _ => cluster(asked),
    });
    let error = read(&options(&server), &agent()).unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot read the server's answer to get daemonsets: spec.minReadySeconds: invalid type: string \"soon\", expected i64"
    );
}

#[test]
fn lists_are_the_most_recent_ones() {
    let server = Server::start(cluster);
    for query in [agent(), all(), Query { wanted: Wanted::Everything, ..all() }] {
        read(&options(&server), &query).unwrap();
    }
    let from_cache: Vec<_> =
        server.asked().into_iter().filter(|asked| asked.target.contains("resourceVersion")).collect();
    assert!(from_cache.is_empty(), "{from_cache:?}");
}

#[test]
fn a_node_that_is_created_while_lists_are_read_is_not_gone() {
    let server = Server::start(|asked| match asked.target.as_str() {
        "/api/v1/pods?" => {
            let pods = [pod("agent-a", "agent", "n1"), pod("agent-b", "agent", "new"), pod("agent-c", "agent", "gone")];
            protobuf_list("PodList", &pods, "")
        }
        "/api/v1/nodes/new" => json_node("new"),
        _ => cluster(asked),
    });
    let (snapshot, _) = read(&options(&server), &all()).unwrap();
    assert_eq!(names(&snapshot).0, ["n1", "n2", "new"]);
    assert!(snapshot.deleted_nodes.iter().eq(["gone"]), "{:?}", snapshot.deleted_nodes);
}

#[test]
fn a_built_in_kind_that_is_not_found_is_not_an_empty_list() {
    let kinds = ["nodes", "pods", "events", "controllerrevisions", "daemonsets", "limitranges"];
    for missing in kinds {
        let server = Server::start(move |asked| match asked.path() {
            path if path.ends_with(missing) => Reply::of(404, "text/plain", "404 page not found"),
            _ => cluster(asked),
        });
        let everything = Query { wanted: Wanted::Everything, ..all() };
        for query in [Query { namespace: Some("team".to_owned()), ..everything.clone() }, everything] {
            let error = read(&options(&server), &query).unwrap_err().to_string();
            let expected = format!("unexpected answer to list {missing}");
            assert!(error.starts_with(&expected), "{missing}: {error}");
        }
    }
}

#[test]
fn a_list_that_is_only_a_first_page_is_refused() {
    let server = Server::start(|asked| match asked.path() {
        "/api/v1/nodes" => protobuf_list("NodeList", &[node("n1")], "next"),
        _ => cluster(asked),
    });
    assert_eq!(
        read(&options(&server), &agent()).unwrap_err().to_string(),
        "cannot read the server's answer to list nodes: it is only the first page of the list, and no limit was requested"
    );
    assert_eq!(server.asked().iter().filter(|asked| asked.path() == "/api/v1/nodes").count(), 1);
}

#[test]
fn lists_in_json_are_complete_or_refused() {
    let answer = |text: &'static str| {
        let server = Server::start(move |asked| match asked.path() {
            "/api/v1/nodes" => Reply::of(200, JSON, text),
            _ => cluster(asked),
        });
        match read(&options(&server), &agent()) {
            Ok((snapshot, _)) => Ok(snapshot.nodes.iter().map(|node| node.metadata.name.clone()).collect::<Vec<_>>()),
            Err(error) => Err(error.to_string().replace("cannot read the server's answer to list nodes: ", "")),
        }
    };
    let one = Ok(vec!["n1".to_owned()]);
    assert_eq!(answer(r#"{"kind": "NodeList", "items": [{"metadata": {"name": "n1"}}], "metadata": null}"#), one);
    assert_eq!(answer(r#"{"kind": "NodeList", "\u0069tems": [{"metadata": {"name": "n1"}}]}"#), one);
    assert_eq!(answer(r#"{"items": null, "kind": "NodeList"}"#), Ok(vec![]));
    for (text, problem) in [
        (r#"{"kind": "NodeList", "items": [null]}"#, "an item is null"),
        (r#"{"kind": "NodeList", "items": [{}]}"#, "\"\" is not the name of an object"),
        (
            r#"{"kind": "NodeList", "items": [{"metadata": {"name": "n1"}}, 5]}"#,
            "invalid type: integer `5`, expected struct Node at line 1 column 1",
        ),
        (r#"{"kind": "NodeList"}"#, "missing field `items` at line 1 column 20"),
        (r#"{"kind": "NodeList", "items": [], "items": []}"#, "duplicate field `items` at line 1 column 41"),
        (r#"{"kind": "Node", "items": []}"#, "it is not a list"),
        (r#"{"items": []}"#, "it is not a list"),
        (r#"{"kind": "NodeList", "items": [{}"#, "it is truncated"),
        (r#"{"kind": "NodeList", "items": []"#, "it is truncated"),
        ("", "it is truncated"),
        ("<html>", "expected value at line 1 column 1"),
    ] {
        assert_eq!(answer(text), Err(problem.to_owned()), "{text}");
    }
}

#[test]
fn advanced_daemon_sets_are_read_in_the_version_served() {
    let advanced = |name: &str| {
        let mut object = daemon_set(name);
        object.as_object_mut().unwrap().retain(|key, _| key != "kind" && key != "apiVersion");
        object
    };
    let list = move |names: [&str; 2]| {
        let list = json!({"kind": "DaemonSetList", "metadata": {}, "items": names.map(advanced)});
        Reply::of(200, JSON, list.to_string())
    };
    let resources = |names: &[&str]| {
        let resources: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        Reply::of(200, JSON, json!({"kind": "APIResourceList", "resources": resources}).to_string())
    };
    let server = Server::start(move |asked| match asked.target.as_str() {
        "/apis" => api_groups(&[("apps", &["v1"]), ("apps.kruise.io", &["v1beta1", "v1alpha1"])]),
        // Older releases of OpenKruise serve only other kinds in the newer version.
        "/apis/apps.kruise.io/v1beta1" => resources(&["statefulsets", "statefulsets/status"]),
        "/apis/apps.kruise.io/v1alpha1" => resources(&["clonesets", "daemonsets", "daemonsets/status"]),
        "/apis/apps.kruise.io/v1alpha1/daemonsets?" => list(["one", "two"]),
        _ => cluster(asked),
    });
    let query = Query { flavors: Flavors::Advanced, wanted: Wanted::Revisions, ..all() };
    let (snapshot, _) = read(&options(&server), &query).unwrap();
    let found: Vec<_> = snapshot
        .advanced_daemon_sets
        .iter()
        .map(|daemon_set| (daemon_set.metadata.name.as_str(), daemon_set.api_version()))
        .collect();
    assert_eq!(found, [("one", "apps.kruise.io/v1alpha1"), ("two", "apps.kruise.io/v1alpha1")]);
}

#[test]
fn a_list_without_nodes_beside_nodes_that_a_status_counts_is_no_answer() {
    let with = |desired: usize| {
        let server = Server::start(move |asked| match asked.path() {
            "/api/v1/nodes" => protobuf_list("NodeList", &Vec::<kubectl_ds::model::node::Node>::new(), ""),
            "/apis/apps/v1/namespaces/team/daemonsets/agent" => {
                let mut daemon_set = daemon_set("agent");
                daemon_set["status"] = json!({"desiredNumberScheduled": desired});
                Reply::of(200, JSON, daemon_set.to_string())
            }
            _ => cluster(asked),
        });
        read(&options(&server), &agent()).unwrap().0.gaps
    };
    assert_eq!(with(2), [Gap { kind: Kind::Nodes, namespace: None, cause: GapCause::NoneReturned }]);
    assert_eq!(with(0), []);
}

fn of_any_flavor() -> Query {
    Query { flavors: Flavors::Any, wanted: Wanted::Revisions, ..all() }
}

/// A load balancer says the same of every path as an API server of one that it does not know.
#[test]
fn what_a_proxy_does_not_find_is_unknown_and_not_absent() {
    let page = Reply::of(404, "text/plain; charset=utf-8", "404 page not found\n");
    let gateway = Reply::of(404, JSON, r#"{"code":404,"reason":"NotFound","message":"no route","status":"Failure"}"#);
    let webhook = refusal(404, "NotFound", "admission webhook \"policy\" denied the request: no policy");
    for answer in [page, gateway, webhook] {
        let ask = |query: &Query, failing: &'static str| {
            let answer = answer.clone();
            let server = Server::start(move |asked| match asked.path().ends_with(failing) {
                true => answer.clone(),
                false => cluster(asked),
            });
            read(&options(&server), query).map(|(snapshot, _)| snapshot).map_err(|error| error.to_string())
        };
        let (whole, change) = (Wanted::Everything, Wanted::Change);
        for failing in ["/daemonsets/agent", "/apis"] {
            let query = if failing == "/apis" { of_any_flavor() } else { agent() };
            let error = ask(&query, failing).unwrap_err();
            assert!(!error.contains("daemonsets.apps"), "{failing}: {error}");
        }
        for (wanted, failing, kind) in [
            (&change, "/poddisruptionbudgets", Kind::PodDisruptionBudgets),
            (&whole, "/runtimeclasses", Kind::RuntimeClasses),
            (&whole, "/priorityclasses", Kind::PriorityClasses),
            (&whole, "/leases/kube-controller-manager", Kind::Leases),
        ] {
            let gaps = ask(&Query { wanted: wanted.clone(), ..agent() }, failing).unwrap().gaps;
            assert_eq!(gaps.iter().map(|gap| gap.kind).collect::<Vec<_>>(), [kind], "{failing}");
        }
    }
}

#[test]
fn without_permission_for_discovery_advanced_daemon_sets_are_a_gap() {
    let server = Server::start(|asked| match asked.path() {
        "/apis" => refusal(403, "Forbidden", "forbidden: User \"alice\" cannot get path \"/apis\""),
        _ => cluster(asked),
    });
    let (snapshot, _) = read(&options(&server), &of_any_flavor()).unwrap();
    let cause = GapCause::Forbidden("get /apis".to_owned());
    assert_eq!(snapshot.gaps, [Gap { kind: Kind::AdvancedDaemonSets, namespace: None, cause }]);
    let missing = Query { names: vec!["agnet".to_owned()], ..agent() };
    assert!(shown(read(&options(&server), &missing).unwrap_err()).contains("similar names"));
}

/// A mistyped namespace must not look like one without problems.
#[test]
fn a_namespace_that_does_not_exist_is_an_error() {
    let server = Server::start(|asked| match asked.path() {
        "/api/v1/namespaces/quiet" => Reply::of(200, JSON, json!({"metadata": {"name": "quiet"}}).to_string()),
        "/api/v1/namespaces/secret" => refusal(403, "Forbidden", "namespaces \"secret\" is forbidden"),
        "/api/v1/namespaces/proxied" => Reply::of(404, "text/plain", "404 page not found"),
        path if path.ends_with("/daemonsets") => json_list(path, &[]),
        path if path.ends_with("/pods") => protobuf_list("PodList", &[] as &[Node], ""),
        _ => cluster(asked),
    });
    let url = format!("http://{}", server.address);
    let run = |command: &[&str], namespace: &str| {
        let Ended { code, out, err } = end(kubectl_ds(&[command, &["-n", namespace, "-s", &url]].concat()), None);
        (code, out + &err)
    };
    for command in [&["list"][..], &["coverage"], &["status"], &["changes"], &["status", "--watch"]] {
        let (code, told) = run(command, "kube-sytem");
        assert_eq!(code, Some(1), "{command:?}: {told}");
        assert!(told.starts_with("error: namespace \"kube-sytem\" not found\n"), "{command:?}: {told}");
    }
    for namespace in ["quiet", "secret", "proxied"] {
        let expected =
            (Some(0), format!("No DaemonSets found in {namespace} namespace; -A searches all namespaces.\n"));
        assert_eq!(run(&["list"], namespace), expected);
        assert_eq!(run(&["coverage"], namespace), expected);
    }
}
