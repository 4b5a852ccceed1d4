//! Servers that lie: with a wrong clock, with stale lists, and with responses that turn out to be wrong.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use serde_json::{Value, json};

use super::admission::live;
use super::server::{Asked, Reply, Server};
use super::staged_faults::Cluster;
use super::{JSON, refusal, side_by_side};
use crate::screens::{Ended, end, kubectl_ds};
use crate::support::in_process::{FastClock, run_fast};

fn run(server: &Server, arguments: &[&str]) -> Ended {
    let address = format!("http://{}", server.address);
    end(kubectl_ds(&[arguments, &["-n", "team", "--server", &address]].concat()), None)
}

/// The same on a fast clock, for runs that wait long for what no watch tells.
fn run_waiting(server: &Server, arguments: &[&str]) -> Ended {
    let address = format!("http://{}", server.address);
    run_fast(&[arguments, &["-n", "team", "--server", &address]].concat(), &FastClock::default()).0
}

fn is_watch_of_pods(asked: &Asked) -> bool {
    asked.target.contains("watch=true") && asked.path().ends_with("/pods")
}

/// Returns whether a request restores the update strategy, and does not only try that out.
fn restores(asked: &Asked) -> bool {
    asked.method == "PATCH"
        && !asked.target.contains("dryRun")
        && String::from_utf8_lossy(&asked.body).contains(r#""path":"/spec/updateStrategy","#)
}

const UPDATE: &[&str] =
    &["partition", "agent", "0", "--image=agent=agent:2", "--progress-deadline=15s", "--request-timeout=4s"];

#[test]
fn the_time_is_that_of_the_server() {
    let cluster = Cluster::new();
    let server = Server::start(move |asked| cluster.answer(asked).with("date", "Sun, 01 Feb 2026 00:00:00 GMT"));
    let status = run(&server, &["status", "agent", "-o", "json"]);
    let report: Value = serde_json::from_str(&status.out).expect(&status.err);
    assert!(report["now"].as_str().unwrap().starts_with("2026-02-01T00:0"), "{}", report["now"]);
}

#[test]
fn a_watch_that_says_nothing_does_not_stop_a_stage() {
    // What is read again shows pods that are ready, and not available yet.
    for min_ready_seconds in [0, 2] {
        let (cluster, silent) = (Cluster::new(), Mutex::new(Vec::new()));
        cluster.edit(|object| object["spec"]["minReadySeconds"] = min_ready_seconds.into());
        let server = Server::start({
            let cluster = cluster.clone();
            move |asked| match is_watch_of_pods(asked) {
                true => {
                    let (reply, sender) = Reply::open(JSON);
                    silent.lock().unwrap().push(sender);
                    reply
                }
                false => cluster.answer(asked),
            }
        });
        let ended = run_waiting(&server, UPDATE);
        assert_eq!(ended.code, Some(0), "{min_ready_seconds} {} {}", ended.out, ended.err);
        assert!(!cluster.is_suspended());
    }
}

#[test]
fn another_uid_in_a_watch_is_confirmed_before_it_ends_a_stage() {
    let (cluster, has_lied) = (Cluster::new(), Arc::new(AtomicBool::new(false)));
    let server = Server::start({
        let (cluster, has_lied, is_begun) = (cluster.clone(), has_lied.clone(), AtomicBool::new(false));
        move |asked| {
            is_begun.fetch_or(asked.method == "PATCH" && !asked.target.contains("dryRun"), Ordering::SeqCst);
            let is_watch = asked.target.contains("watch=true") && asked.path().ends_with("/daemonsets");
            if is_watch && is_begun.load(Ordering::SeqCst) && !has_lied.swap(true, Ordering::SeqCst) {
                let mut object: Value = serde_json::from_slice(&cluster.object()).unwrap();
                object["metadata"]["uid"] = "other".into();
                return Reply::of(200, JSON, json!({"type": "MODIFIED", "object": object}).to_string());
            }
            cluster.answer(asked)
        }
    });
    let ended = run(&server, UPDATE);
    assert!(has_lied.load(Ordering::SeqCst), "{} {}", ended.out, ended.err);
    assert_eq!(ended.code, Some(0), "{} {}", ended.out, ended.err);
    assert!(!cluster.is_suspended());
}

#[test]
fn a_stage_is_not_stopped_because_a_list_fails_once() {
    let (cluster, silent, failures) = (Cluster::new(), Mutex::new(Vec::new()), Arc::new(AtomicUsize::new(0)));
    let server = Server::start({
        let (cluster, failures) = (cluster.clone(), failures.clone());
        let is_begun = AtomicBool::new(false);
        move |asked| {
            is_begun.fetch_or(asked.method == "DELETE", Ordering::SeqCst);
            if is_watch_of_pods(asked) {
                let (reply, sender) = Reply::open(JSON);
                silent.lock().unwrap().push(sender);
                return reply;
            }
            let is_list = asked.method == "GET" && asked.path().ends_with("/pods");
            if is_list && is_begun.load(Ordering::SeqCst) && failures.fetch_add(1, Ordering::SeqCst) == 0 {
                return refusal(500, "InternalError", "etcdserver: leader changed");
            }
            cluster.answer(asked)
        }
    });
    let ended = run_waiting(&server, UPDATE);
    assert_eq!(ended.code, Some(0), "{} {}", ended.out, ended.err);
    assert!(failures.load(Ordering::SeqCst) > 1 && !cluster.is_suspended());
}

/// The strategy must not be restored for what the rest of a list may show, nor the controller be blamed for it.
#[test]
fn a_stage_does_not_end_for_lists_that_lack_what_the_status_counts() {
    let check = |lacking: &'static [&str]| {
        let (cluster, is_begun) = (Cluster::new(), AtomicBool::new(false));
        cluster.edit(|object| {
            let counts = ["desired", "current", "updated"].map(|count| format!("{count}NumberScheduled"));
            let counts = counts.into_iter().chain(["numberReady".to_owned(), "numberAvailable".to_owned()]);
            counts.for_each(|count| object["status"][count] = 2.into());
        });
        let server = Server::start({
            let cluster = cluster.clone();
            move |asked| {
                let begins = if lacking == ["/controllerrevisions"] { "PATCH" } else { "DELETE" };
                is_begun.fetch_or(asked.method == begins && !asked.target.contains("dryRun"), Ordering::SeqCst);
                let is_list = asked.method == "GET" && !asked.target.contains("watch=true");
                let mut reply = cluster.answer(asked);
                if is_list && is_begun.load(Ordering::SeqCst) && lacking.iter().any(|end| asked.path().ends_with(end)) {
                    let mut list: Value = serde_json::from_slice(&reply.body).unwrap();
                    let items = list["items"].as_array_mut().unwrap();
                    match lacking {
                        ["/controllerrevisions"] => drop(items.pop()),
                        ["/daemonsets"] => items.clear(),
                        _ => items.retain(|item| !item.to_string().contains("\"n2\"")),
                    }
                    reply.body = list.to_string().into_bytes();
                }
                reply
            }
        });
        let ended = run(&server, UPDATE);
        assert_eq!(ended.code, Some(6), "{lacking:?} {} {}", ended.out, ended.err);
        let said = match lacking {
            ["/controllerrevisions"] => "fewer objects were listed than the status counts",
            ["/daemonsets"] => {
                "the DaemonSet can be read by its name, but is not in the lists of the API server any more"
            }
            _ => "updatedNumberScheduled is 2, but the list of pods has 1 updated pods: the list is out of date",
        };
        assert!(ended.err.contains(said), "{lacking:?} {}", ended.err);
        assert!(ended.err.contains("to continue: kubectl ds partition") && cluster.is_suspended(), "{}", ended.err);
    };
    thread::scope(|scope| {
        for lacking in [&["/nodes", "/pods"][..], &["/pods"], &["/controllerrevisions"], &["/daemonsets"]] {
            scope.spawn(move || check(lacking));
        }
    });
}

/// Revisions are numbered anew as they become current, so that a second `undo` would go back to the bad one.
#[test]
fn an_undo_that_ends_early_is_not_to_be_repeated() {
    const BACK: &[&str] = &["partition", "agent", "0", "--to-revision=1", "--progress-deadline=2s"];
    for (is_lost, hint) in
        [(true, "how to continue: kubectl ds status -n team"), (false, "to continue: kubectl ds partition -n team")]
    {
        let (cluster, is_down) = (Cluster::new(), Arc::new(AtomicBool::new(false)));
        let server = Server::start({
            let (cluster, is_undo) = (cluster.clone(), AtomicBool::new(false));
            move |asked| {
                if is_down.load(Ordering::SeqCst) {
                    return refusal(500, "InternalError", "etcdserver: no leader");
                }
                let reply = cluster.answer(asked);
                let is_sent = asked.method == "PATCH" && !asked.target.contains("dryRun");
                if is_sent && is_undo.swap(true, Ordering::SeqCst) {
                    is_down.store(true, Ordering::SeqCst);
                    if is_lost {
                        return refusal(500, "InternalError", "etcdserver: request timed out");
                    }
                }
                reply
            }
        });
        let held = run(&server, &["partition", "agent", "100%", "--image=agent=agent:2"]);
        assert_eq!(held.code, Some(0), "{}", held.err);
        let ended = run(&server, if is_lost { &["undo", "agent"] } else { BACK });
        assert_eq!(ended.code, Some(if is_lost { 7 } else { 6 }), "{} {}", ended.out, ended.err);
        assert!(ended.err.contains(hint) && !ended.err.contains("same command"), "{}", ended.err);
    }
}

#[test]
fn a_stage_is_not_rolled_back_because_the_server_does_not_answer() {
    let (cluster, is_down) = (Cluster::new(), Arc::new(AtomicBool::new(false)));
    let server = Server::start({
        let cluster = cluster.clone();
        move |asked| {
            let is_read = asked.method == "GET" && asked.path().ends_with("/daemonsets/agent");
            if is_down.load(Ordering::SeqCst) && is_read {
                return refusal(500, "InternalError", "etcdserver: no leader");
            }
            if asked.method == "DELETE" {
                is_down.store(true, Ordering::SeqCst);
            }
            cluster.answer(asked)
        }
    });
    let ended = run(&server, &[UPDATE, &["--on-failure=undo"]].concat());
    assert_eq!(ended.code, Some(6), "{} {}", ended.out, ended.err);
    assert!(
        ended.err.contains("no leader") && ended.err.contains("to continue: kubectl ds partition"),
        "{}",
        ended.err
    );
    assert!(!ended.err.contains("rolling"), "{}", ended.err);
    assert!(cluster.is_suspended());
}

#[test]
fn a_strategy_that_is_not_restored_is_not_called_restored() {
    // A webhook changes what is sent; a server confirms it, and does nothing.
    side_by_side([false, true], |does_nothing| {
        let cluster = Cluster::new();
        let server = Server::start({
            let cluster = cluster.clone();
            move |asked| match restores(asked) {
                true if does_nothing => {
                    let mut object: Value = serde_json::from_slice(&cluster.object()).unwrap();
                    let patch = serde_json::from_slice::<json_patch::Patch>(&asked.body).unwrap();
                    json_patch::patch(&mut object, &patch).unwrap();
                    object["metadata"]["resourceVersion"] = "9999".into();
                    Reply::of(200, JSON, object.to_string())
                }
                true => {
                    cluster.answer(asked);
                    cluster.edit(|object| {
                        object["spec"]["updateStrategy"]["type"] = "OnDelete".into();
                        object["metadata"]["managedFields"] = json!([{"manager": "kubectl-ds"}]);
                    });
                    Reply::of(200, JSON, cluster.object())
                }
                false => cluster.answer(asked),
            }
        });
        let ended = run(&server, UPDATE);
        assert_eq!(ended.code, Some(7), "{} {}", ended.out, ended.err);
        assert!(!ended.out.contains("the update strategy is"), "{}", ended.out);
        assert!(ended.err.contains("RollingUpdate 1"), "{}", ended.err);
    });
}

#[test]
fn a_pod_that_was_not_deleted_is_not_counted_as_replaced() {
    let cluster = Cluster::new();
    let server = Server::start({
        let cluster = cluster.clone();
        move |asked| match asked.method == "DELETE" {
            true => {
                Reply::of(200, JSON, json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}).to_string())
            }
            false => cluster.answer(asked),
        }
    });
    let ended = run(&server, UPDATE);
    // A real one answers with the pod: whether it was deleted is not known.
    assert_eq!(ended.code, Some(7), "{} {}", ended.out, ended.err);
    assert!(!ended.out.contains("deleted (1 of"), "{}", ended.out);
    assert!(!ended.out.contains("no longer eligible"), "{}", ended.out);
}

/// A load balancer's page in the place of an answer.
fn not_found() -> Reply {
    Reply::of(404, "text/plain; charset=utf-8", "404 page not found\n")
}

#[test]
fn a_page_that_is_not_found_deletes_no_pod_and_rolls_nothing_back() {
    side_by_side([false, true], |evict| {
        let cluster = Cluster::new();
        let server = Server::start({
            let cluster = cluster.clone();
            move |asked| {
                let is_replacement = asked.method == "DELETE" || asked.path().ends_with("/eviction");
                if is_replacement { not_found() } else { cluster.answer(asked) }
            }
        });
        let flags: &[&str] = if evict { &["--on-failure=undo", "--evict"] } else { &["--on-failure=undo"] };
        let ended = run(&server, &[UPDATE, flags].concat());
        // What has answered may still send it on.
        assert_eq!(ended.code, Some(7), "{} {}", ended.out, ended.err);
        assert!(ended.err.contains("was deleted; it was not when it was read again"), "{}", ended.err);
        assert!(!ended.out.contains("deleted (1 of 2)") && !ended.out.contains("evicted (1"), "{}", ended.out);
        assert!(ended.err.contains("404 page not found"), "{}", ended.err);
        let object: Value = serde_json::from_slice(&cluster.object()).unwrap();
        assert_eq!(object["spec"]["template"]["spec"]["containers"][0]["image"], "agent:2", "it was rolled back");
    });
}

#[test]
fn a_page_that_is_not_found_once_does_not_end_a_run() {
    let (cluster, reads) = (Cluster::new(), AtomicUsize::new(0));
    let server = Server::start({
        let (cluster, is_begun) = (cluster.clone(), AtomicBool::new(false));
        move |asked| {
            is_begun.fetch_or(asked.method == "PATCH", Ordering::SeqCst);
            let is_read = asked.method == "GET" && asked.path().ends_with("/daemonsets/agent");
            if is_read && is_begun.load(Ordering::SeqCst) && reads.fetch_add(1, Ordering::SeqCst) == 0 {
                return not_found();
            }
            cluster.answer(asked)
        }
    });
    let ended = run(&server, UPDATE);
    assert_eq!(ended.code, Some(0), "{} {}", ended.out, ended.err);
    assert!(!ended.err.contains("was deleted") && !cluster.is_suspended(), "{}", ended.err);
}

/// A manifest of a DaemonSet that mounts a ConfigMap.
fn manifest_with_settings() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "other"}, "spec": {
        "selector": {"matchLabels": {"app": "other"}},
        "template": {"metadata": {"labels": {"app": "other"}}, "spec": {
            "containers": [{"name": "one", "image": "one"}],
            "volumes": [{"name": "settings", "configMap": {"name": "settings"}}],
        }},
    }})
}

/// A proxy may answer a request that it does not know with 200.
#[test]
fn only_the_object_that_was_asked_for_exists_in_a_preview() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.json");
    std::fs::write(&path, manifest_with_settings().to_string()).unwrap();
    let settings =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "team"}});
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other", "namespace": "team"}});
    let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {}, "items": []});
    for (answer, code) in [(json!({}), 5), (other, 5), (list, 5), (settings, 0)] {
        let (cluster, body) = (Cluster::new(), answer.to_string());
        let server = Server::start(move |asked| match asked.path().ends_with("/configmaps/settings") {
            true => Reply::of(200, JSON, body.clone()),
            false => cluster.answer(asked),
        });
        let ended = run(&server, &["preview", "--exit-code", "-f", path.to_str().unwrap()]);
        let shown = format!("{}{}", ended.out, ended.err);
        assert_eq!(ended.code, Some(code), "{answer}: {shown}");
        let unknown = "whether configmap settings exists is not known: the answer is not the requested object";
        assert_eq!(shown.contains(unknown), code == 5, "{answer}: {shown}");
    }
}

#[test]
fn only_the_daemon_set_of_the_manifest_is_what_the_server_would_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str, manifest: &Value| {
        let path = directory.path().join(name);
        std::fs::write(&path, manifest.to_string()).unwrap();
        path.display().to_string()
    };
    let mut manifest: Value = serde_json::from_slice(&Cluster::new().object()).unwrap();
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = "agent:9".into();
    let mut another = manifest.clone();
    another["metadata"]["name"] = "another".into();
    let mut elsewhere = manifest.clone();
    elsewhere["metadata"]["namespace"] = "elsewhere".into();
    let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "agent", "namespace": "team"}});
    let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []});
    let (live, new) = (path("agent.json", &manifest), path("other.json", &manifest_with_settings()));
    for (answer, problem) in [
        (json!({"ok": true}), "it is not a DaemonSet"),
        (list, "it is not a DaemonSet"),
        (pod, "it is not a DaemonSet"),
        (another, "it is not the requested object"),
        (elsewhere, "it is not the requested object"),
    ] {
        for (command, path) in [("status", &live), ("preview", &live), ("preview", &new)] {
            let (cluster, body) = (Cluster::new(), answer.to_string());
            let server = Server::start(move |asked| match asked.target.contains("dryRun=All") {
                true => Reply::of(200, JSON, body.clone()),
                false => cluster.answer(asked),
            });
            let ended = run(&server, &[command, "-f", path]);
            assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{command} {answer}: {}", ended.err);
            assert!(ended.err.contains(problem), "{command} {answer}: {}", ended.err);
        }
    }
}

/// Its resource version would not tell: a status that is written meanwhile changes it, too.
#[test]
fn a_preview_that_was_carried_out_is_told() {
    for is_carried_out in [true, false] {
        let cluster = Cluster::new();
        let stored = cluster.clone();
        let server = Server::start(move |asked| {
            if asked.method != "PUT" {
                return stored.answer(asked);
            }
            let mut object = live(&stored);
            object["spec"] = serde_json::from_slice::<Value>(&asked.body).unwrap()["spec"].clone();
            match is_carried_out {
                true => stored.edit(|live| live["spec"] = object["spec"].clone()),
                false => stored.edit(|live| live["status"]["observedGeneration"] = 1.into()),
            }
            Reply::of(200, JSON, object.to_string())
        });
        let ended = run(&server, &["preview", "agent", "--if", "image agent=agent:2"]);
        let is_told = ended.err.contains("team/agent has become what this dry run was to show");
        assert_eq!(
            (ended.code == Some(7), is_told),
            (is_carried_out, is_carried_out),
            "{:?} {}",
            ended.code,
            ended.err
        );
    }
}

/// The strategy is suspended by then, and a pod may be deleted.
#[test]
fn a_stage_that_cannot_be_watched_is_not_confirmed() {
    let stall = |_: &Asked| {
        thread::sleep(Duration::from_secs(20));
        Reply::hang_up()
    };
    let watches: [fn(&Asked) -> Reply; 3] =
        [|_| not_found(), |_| Reply::of(200, "text/html", "<html>Sign in</html>"), stall];
    side_by_side(watches, |watch| {
        let cluster = Cluster::new();
        let server = Server::start({
            let cluster = cluster.clone();
            move |asked| if asked.target.contains("watch=true") { watch(asked) } else { cluster.answer(asked) }
        });
        let ended = run(&server, UPDATE);
        assert!(matches!(ended.code, Some(0 | 6)), "{:?} {} {}", ended.code, ended.out, ended.err);
        assert_eq!(ended.code == Some(6), cluster.is_suspended(), "{:?} {} {}", ended.code, ended.out, ended.err);
        assert_eq!(ended.err.contains("to continue: kubectl ds partition"), ended.code == Some(6), "{}", ended.err);
    });
}

/// A webhook may use the API's reason, and a proxy its status: neither is about the object.
#[test]
fn a_status_that_names_no_object_makes_nothing_missing_in_a_preview() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.json");
    std::fs::write(&path, manifest_with_settings().to_string()).unwrap();
    for (denied, code, expected) in [
        ("/configmaps/settings", 0, "whether configmap settings exists is not known: no such rule"),
        ("/daemonsets", 1, "Error from server (NotFound): no such rule"),
    ] {
        let cluster = Cluster::new();
        let server = Server::start(move |asked| {
            let is_denied = asked.path().ends_with(denied) && (asked.method == "POST" || denied != "/daemonsets");
            if is_denied { refusal(404, "NotFound", "no such rule") } else { cluster.answer(asked) }
        });
        let ended = run(&server, &["preview", "-f", path.to_str().unwrap()]);
        let shown = format!("{}{}", ended.out, ended.err);
        assert!(shown.contains(expected), "{denied}: {shown}");
        assert_eq!(ended.code, Some(code), "{denied}: {shown}");
    }
}

/// Runs `status` against a server whose date is so many years off, and returns the status that it tells.
fn status_years_off(cluster: &Arc<Cluster>, years: i64) -> String {
    let date = Timestamp::now().to_zoned(TimeZone::UTC).checked_add(years.years()).unwrap();
    let date = date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let server = Server::start({
        let cluster = cluster.clone();
        move |asked| cluster.answer(asked).with("date", &date)
    });
    let status = run(&server, &["status", "agent", "-o", "json"]);
    let report: Value = serde_json::from_str(&status.out).expect(&status.err);
    report["daemonSets"][0]["status"].as_str().unwrap_or_else(|| panic!("{}", status.out)).to_owned()
}

#[test]
fn a_date_that_is_ahead_makes_no_pod_available() {
    let cluster = Cluster::new();
    // The pods have been ready since the beginning of 2026.
    cluster.edit(|object| object["spec"]["minReadySeconds"] = (10 * 366 * 86_400).into());
    assert_eq!(status_years_off(&cluster, 20), "Progressing");
}

#[test]
fn a_date_that_is_behind_makes_no_pod_unavailable_that_the_controller_counts() {
    let cluster = Cluster::new();
    cluster.edit(|object| object["spec"]["minReadySeconds"] = 30.into());
    assert_eq!(status_years_off(&cluster, -20), "Progressing");
    cluster.edit(|object| {
        object["status"]["numberAvailable"] = 2.into();
        object["metadata"]["managedFields"] = json!([{"manager": "kube-controller-manager", "operation": "Update",
            "subresource": "status", "time": "2026-01-01T00:01:00Z"}]);
    });
    assert_eq!(status_years_off(&cluster, -20), "Healthy");
    // A status from before the pods were available may count those before them.
    cluster.edit(|object| object["metadata"]["managedFields"][0]["time"] = "2026-01-01T00:00:20Z".into());
    assert_eq!(status_years_off(&cluster, -20), "Progressing");
}
