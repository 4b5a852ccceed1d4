//! Watches that a proxy or a server breaks, while all lists work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::server::{Asked, JSON, Reply};
use super::status::{COMPLETE, DAEMON_SETS, Following, PODS, current_pod, ready_pod};
use super::{daemon_set, json_list, protobuf_list, refusal};

const EVENTS: &str = "/api/v1/namespaces/team/events";

fn is_watch(asked: &Asked) -> bool {
    asked.target.contains("watch=true")
}

fn pods(is_ready: bool) -> Reply {
    protobuf_list("PodList", &[current_pod(is_ready)], "")
}

/// Follows a rollout whose pod is ready from the second list on, and whose pods are watched like this.
fn with_pods(watch: impl Fn(&Asked) -> Option<Reply> + Send + Sync + 'static) -> Following {
    let lists = AtomicUsize::new(0);
    Following::with("status", &["team/agent"], move |asked| match (asked.path(), is_watch(asked)) {
        (PODS, true) => watch(asked),
        (PODS, false) if asked.target.contains("limit=1") => None,
        (PODS, false) => Some(pods(lists.fetch_add(1, Ordering::SeqCst) > 0)),
        _ => None,
    })
}

#[test]
fn events_that_cannot_be_watched_hold_no_verdict() {
    for broken in
        [refusal(500, "InternalError", "no"), refusal(404, "NotFound", "no"), Reply::of(200, JSON, "<html>\n")]
    {
        let following = Following::with("status", &["team/agent"], move |asked| {
            (asked.path() == EVENTS && is_watch(asked)).then(|| broken.clone())
        });
        let mut running = following.start(&["--timeout", "60s"]);
        running.read_line();
        while following.watched(EVENTS).len() < 3 {
            thread::sleep(Duration::from_millis(20));
        }
        following.send(PODS, "MODIFIED", &ready_pod());
        let (code, lines, err) = running.end();
        assert_eq!(code, Some(0), "{lines:#?} {err}");
        assert!(lines.iter().any(|line| line.starts_with(COMPLETE)), "{lines:#?} {err}");
    }
}

#[test]
fn what_a_watch_that_keeps_failing_is_about_is_listed_instead() {
    for (name, broken) in [
        ("500", refusal(500, "InternalError", "no")),
        ("404", refusal(404, "NotFound", "no")),
        ("410", refusal(410, "Expired", "too old")),
        ("HTML page", Reply::of(200, "text/html", "<html>Sign in</html>")),
        ("immediate close", Reply::of(200, JSON, "")),
        ("dropped connection", Reply::hang_up()),
        ("redirect", Reply::of(302, "text/html", "").with("location", "/login")),
    ] {
        let (ended, took) = with_pods(move |_| Some(broken.clone())).run_fast(&["--timeout", "5m"]);
        assert_eq!(ended.code, Some(0), "{name}: {} {}", ended.out, ended.err);
        assert!(ended.out.contains(COMPLETE), "{name}: {}", ended.out);
        assert!(took < Duration::from_secs(60), "{name}: {took:?}");
    }
}

#[test]
fn what_is_listed_is_watched_again_once_that_works() {
    let (watched, is_ready) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
    let following = Following::with("status", &["team/agent"], move |asked| match (asked.path(), is_watch(asked)) {
        (PODS, true) => match watched.fetch_add(1, Ordering::SeqCst) {
            0..4 => Some(refusal(500, "InternalError", "no")),
            4 => {
                let bookmark = json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "50"}}});
                Some(Reply::of(200, JSON, format!("{bookmark}\n")))
            }
            _ => {
                is_ready.store(true, Ordering::SeqCst);
                Some(Reply::of(200, JSON, format!("{}\n", json!({"type": "MODIFIED", "object": ready_pod()}))))
            }
        },
        (PODS, false) if asked.target.contains("limit=1") => None,
        (PODS, false) => Some(pods(is_ready.load(Ordering::SeqCst))),
        // The counters do not contradict the pods: all would be read again.
        (DAEMON_SETS, false) if !asked.target.contains("limit=1") => {
            let mut object = daemon_set("agent");
            object["status"] = json!({"desiredNumberScheduled": 1, "currentNumberScheduled": 1, "numberReady": 0,
                "updatedNumberScheduled": 1, "numberUnavailable": 1});
            Some(json_list(DAEMON_SETS, &[object]))
        }
        _ => None,
    });
    let (ended, took) = following.run_fast(&["--timeout", "5m"]);
    assert_eq!(ended.code, Some(0), "{} {}", ended.out, ended.err);
    let tries: Vec<bool> = following.watched(PODS).iter().map(|query| query.contains("timeoutSeconds=5&")).collect();
    assert_eq!(tries[..6], [false, false, false, false, true, false], "{:?}", following.watched(PODS));
    assert!(took > Duration::from_secs(30), "{took:?}");
    let warning = "warning: watch pods fails: listing every 5s; Error from server (InternalError): no\n";
    assert!(ended.err.contains(warning), "{}", ended.err);
}

/// The watch of the pods is silent, and nothing else tells that they are ready.
#[test]
fn a_verdict_at_a_timeout_is_made_from_a_fresh_list() {
    let (code, lines, err) = with_pods(|_| None).start(&["--timeout", "2s"]).end();
    assert_eq!((code, err.as_str()), (Some(0), ""), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with(COMPLETE)), "{lines:#?}");
}
