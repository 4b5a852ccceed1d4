//! Admission that drops or rewrites changes, and controllers that take them back at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::JSON;
use super::server::{Asked, Reply, Server};
use super::staged_faults::Cluster;
use crate::screens::{Ended, end, kubectl_ds};

const TEMPLATE: &str = "/spec/template";
const STRATEGY: &str = "/spec/updateStrategy";
const UPDATE: &[&str] = &["partition", "agent", "0", "--image=agent=agent:2", "--progress-deadline=3s"];

/// Changes what would become of an object, of which the first one is what it was.
type Admission = fn(&Value, &mut Value);

/// Which changes meet an admission.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    All,
    /// Those that are more than tried out.
    Real,
}

fn run(server: &Server, arguments: &[&str]) -> Ended {
    end(kubectl_ds(&[arguments, &["-n", "team", "--server", &format!("http://{}", server.address)]].concat()), None)
}

fn is_dry_run(asked: &Asked) -> bool {
    asked.target.contains("dryRun=All")
}

fn live(cluster: &Cluster) -> Value {
    serde_json::from_slice(&cluster.object()).unwrap()
}

fn image(object: &Value) -> &Value {
    &object["spec"]["template"]["spec"]["containers"][0]["image"]
}

/// Serves a cluster with an admission.
fn admitting(cluster: &Arc<Cluster>, of: Of, admission: Admission) -> Server {
    let cluster = cluster.clone();
    Server::start(move |asked| {
        let before = live(&cluster);
        if asked.method != "PATCH" || is_dry_run(asked) && of == Of::Real {
            return cluster.answer(asked);
        }
        let tried = cluster.answer(&Asked { target: format!("{}?dryRun=All", asked.path()), ..asked.clone() });
        let Ok(mut object) = serde_json::from_slice::<Value>(&tried.body) else { return tried };
        if tried.status != 200 {
            return tried;
        }
        admission(&before, &mut object);
        let is_same = |path: &str| object.pointer(path) == before.pointer(path);
        let same = ["/spec", "/metadata/annotations"].into_iter().all(is_same);
        match is_dry_run(asked) {
            // As the API server does: what changes nothing is not written.
            _ if same => return Reply::of(200, JSON, before.to_string()),
            true => {}
            false => cluster.edit(|stored| *stored = object.clone()),
        }
        Reply::of(200, JSON, if is_dry_run(asked) { object.to_string().into_bytes() } else { cluster.object() })
    })
}

fn keep(path: &str, before: &Value, object: &mut Value) {
    *object.pointer_mut(path).unwrap() = before.pointer(path).unwrap().clone();
}

fn keep_template(before: &Value, object: &mut Value) {
    keep(TEMPLATE, before, object);
}

fn keep_suspended(before: &Value, object: &mut Value) {
    if before["spec"]["updateStrategy"]["type"] == "OnDelete" {
        keep(STRATEGY, before, object);
    }
}

/// Returns the cluster after a stage that has held the rollout of `agent:2`, with one node updated.
fn held() -> Arc<Cluster> {
    let cluster = Cluster::new();
    let server = Server::start({
        let cluster = cluster.clone();
        move |asked| cluster.answer(asked)
    });
    let ended = run(&server, &["partition", "agent", "1", "--image=agent=agent:2"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    cluster
}

/// Returns how many changes were sent that are more than tried out.
fn sent(server: &Server) -> usize {
    server.asked().iter().filter(|asked| asked.method != "GET" && asked.method != "POST" && !is_dry_run(asked)).count()
}

#[test]
fn a_stage_shows_and_rolls_out_the_template_that_admission_makes() {
    let cluster = Cluster::new();
    const MIRRORED: &[&str] = &["partition", "agent", "0", "--image=agent=mirror/agent:2", "--progress-deadline=3s"];
    let mirror: Admission = |_, object| {
        let image = object.pointer_mut("/spec/template/spec/containers/0/image").unwrap();
        if image == "mirror/agent:2" {
            *image = "agent:2".into();
        }
    };
    let ended = run(&admitting(&cluster, Of::All, mirror), MIRRORED);
    assert_eq!(ended.code, Some(0), "{} {}", ended.out, ended.err);
    let (_, changes) = ended.out.split_once("an admission webhook or a policy also changes:\n").expect(&ended.out);
    assert!(changes.contains("image") && changes.contains("agent:2"), "{}", ended.out);
    assert!(!cluster.is_suspended() && image(&live(&cluster)) == "agent:2", "{}", ended.out);
    let ended = run(&admitting(&Cluster::new(), Of::All, mirror), &[MIRRORED, &["-o", "json"]].concat());
    let report: Value = serde_json::from_str(&ended.out).expect(&ended.err);
    let change = &report["madeByServer"][0];
    assert_eq!((&change["from"], &change["to"]), (&json!("mirror/agent:2"), &json!("agent:2")), "{report}");
}

/// The nodes of a stage are chosen for the template that was shown.
#[test]
fn no_pod_is_replaced_for_a_template_that_was_not_shown() {
    let rewrite: Admission =
        |_, object| object["spec"]["template"]["metadata"]["annotations"] = json!({"by": "webhook"});
    for (admission, message) in [
        (rewrite, "became another one than was shown"),
        (keep_template as Admission, "the template of team/agent stays as it was"),
    ] {
        let cluster = Cluster::new();
        let server = admitting(&cluster, Of::Real, admission);
        let ended = run(&server, UPDATE);
        assert_eq!((ended.code, sent(&server)), (Some(1), 1), "{} {}", ended.out, ended.err);
        assert!(ended.err.contains(message) && ended.err.contains("mutatingwebhookconfigurations"), "{}", ended.err);
        assert!(ended.err.contains("no pod was deleted, and the update strategy is suspended"), "{}", ended.err);
        let shown = format!("{}{}", ended.out, ended.err);
        assert!(shown.contains("kubectl ds resume -n team") && cluster.is_suspended(), "{shown}");
    }
}

#[test]
fn an_undo_of_a_held_daemon_set_whose_template_admission_changes_is_refused() {
    let rewrite: Admission =
        |_, object| object["spec"]["template"]["metadata"]["annotations"] = json!({"by": "webhook"});
    for (admission, instead) in [(rewrite, true), (keep_template as Admission, false)] {
        let cluster = held();
        let (before, server) = (cluster.object(), admitting(&cluster, Of::All, admission));
        let ended = run(&server, &["undo", "agent"]);
        assert_eq!((ended.code, sent(&server)), (Some(1), 0), "{} {}", ended.out, ended.err);
        assert!(
            ended.err.starts_with("error: the template of team/agent cannot become that of revision 1: "),
            "{}",
            ended.err
        );
        assert!(ended.err.contains("nothing was changed; the update strategy stays suspended"), "{}", ended.err);
        assert!(ended.err.contains("how to continue: kubectl ds status -n team"), "{}", ended.err);
        assert_eq!(ended.err.contains("kubectl ds partition -n team"), instead, "{}", ended.err);
        assert_eq!(cluster.object(), before);
    }
    // That a dry run does not show it is no excuse.
    let cluster = held();
    let server = admitting(&cluster, Of::Real, keep_template);
    let ended = run(&server, &["undo", "agent"]);
    assert_eq!((ended.code, sent(&server)), (Some(1), 1), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("to continue: kubectl ds undo --to-revision 1 -n team"), "{}", ended.err);
}

#[test]
fn a_hold_does_not_lose_its_annotations_if_admission_keeps_the_strategy_suspended() {
    for (arguments, is_resume) in [(&["resume", "agent"][..], true), (&["partition", "agent", "0"], false)] {
        let cluster = held();
        let server = admitting(&cluster, Of::All, keep_suspended);
        let ended = run(&server, arguments);
        assert_eq!((ended.code, is_resume && sent(&server) > 0), (Some(1), false), "{} {}", ended.out, ended.err);
        let message =
            "error: the update strategy of team/agent cannot be restored: an admission webhook or a policy keeps it";
        assert!(ended.err.contains(message) && ended.err.contains("mutatingwebhook"), "{}", ended.err);
        let original = &live(&cluster)["metadata"]["annotations"]["kubectl-ds/original-update-strategy"];
        assert!(original.is_string(), "{arguments:?}");
        // Once admission lets it be, nothing is lost.
        let server = admitting(&cluster, Of::All, |_, _| {});
        assert_eq!(run(&server, &["resume", "agent", "--no-wait"]).code, Some(0));
        assert_eq!(live(&cluster)["spec"]["updateStrategy"]["type"], "RollingUpdate");
    }
    for arguments in [&["resume", "agent"][..], &["partition", "agent", "0"]] {
        let cluster = held();
        let ended = run(&admitting(&cluster, Of::Real, keep_suspended), arguments);
        assert_eq!(ended.code, Some(7), "{} {}", ended.out, ended.err);
        assert!(ended.err.contains("stays \"OnDelete\"") && !ended.err.contains("somebody else"), "{}", ended.err);
        assert!(ended.err.contains("kubectl ds set --type RollingUpdate -n team"), "{}", ended.err);
    }
}

#[test]
fn a_change_that_admission_drops_is_told_as_such() {
    for (arguments, admission) in [
        (&["restart", "agent"][..], keep_template as Admission),
        (&["restart", "agent", "--dry-run=server"], keep_template),
        (&["set", "agent", "--max-unavailable=2"], |before, object| keep(STRATEGY, before, object)),
    ] {
        let cluster = Cluster::new();
        let (before, server) = (cluster.object(), admitting(&cluster, Of::All, admission));
        let ended = run(&server, arguments);
        assert_eq!(ended.code, Some(1), "{} {}", ended.out, ended.err);
        let message = "error: this change of team/agent was not applied: an admission webhook or a policy drops it\n";
        assert!(ended.err.contains(message) && !ended.err.contains("proxy"), "{}", ended.err);
        assert_eq!(cluster.object(), before);
    }
    let ended = run(&admitting(&held(), Of::All, keep_template), &["undo", "agent", "--no-wait", "-o", "json"]);
    let report: Value = serde_json::from_str(&ended.out).expect(&ended.err);
    assert_eq!((ended.code, &report["outcome"]["stage"]), (Some(1), &json!("Refused")), "{}", ended.err);
}

#[test]
fn a_change_that_is_taken_back_at_once_is_no_success() {
    for arguments in [["restart", "agent"], ["restart", "agent --watch"], ["set", "agent --max-unavailable=2"]] {
        let cluster = Cluster::new();
        let server = Server::start({
            let cluster = cluster.clone();
            move |asked| {
                let (reply, before) = (cluster.answer(asked), cluster.clone());
                if asked.method == "PATCH" {
                    before.edit(|object| {
                        let first = live(&Cluster::new());
                        object["spec"] = first["spec"].clone();
                        object["metadata"]["generation"] = 3.into();
                        object["status"]["observedGeneration"] = 3.into();
                        object["metadata"]["managedFields"] = json!([{"manager": "argocd", "operation": "Update"}]);
                    });
                }
                reply
            }
        });
        let words: Vec<&str> = arguments.iter().flat_map(|words| words.split(' ')).collect();
        let ended = run(&server, &words);
        assert_eq!(ended.code, Some(7), "{words:?} {} {}", ended.out, ended.err);
        let message =
            "the API server confirmed the change, but the DaemonSet no longer has it: \"argocd\" has taken it back";
        assert!(ended.err.contains(message), "{}", ended.err);
    }
}

#[test]
fn an_undo_of_a_held_daemon_set_waits_for_the_controller_as_long_as_was_asked() {
    let cluster = held();
    let server = Server::start({
        let cluster = cluster.clone();
        move |asked| {
            let reply = cluster.answer(asked);
            if asked.method == "PATCH" && !is_dry_run(asked) {
                cluster.edit(|object| object["status"]["observedGeneration"] = 1.into());
            }
            reply
        }
    });
    let ended = run(&server, &["undo", "agent", "--timeout=3s"]);
    assert_eq!(ended.code, Some(6), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("the controller has not acted on it within 3s"), "{}", ended.err);
    assert!(
        ended.err.contains("the update strategy stays suspended; to see how far it is, and how to continue"),
        "{}",
        ended.err
    );
}

#[test]
fn a_pod_that_a_list_lacks_was_deleted_although_the_answer_was_lost() {
    for is_deleted in [true, false] {
        let (cluster, deletions) = (Cluster::new(), AtomicUsize::new(0));
        let server = Server::start({
            let cluster = cluster.clone();
            move |asked| {
                if asked.method == "GET" && asked.path().contains("/pods/") {
                    return Reply::of(404, "text/plain", "404 page not found");
                }
                if asked.method == "DELETE" && deletions.fetch_add(1, Ordering::SeqCst) == 0 {
                    if is_deleted {
                        cluster.answer(asked);
                    }
                    return Reply::hang_up();
                }
                cluster.answer(asked)
            }
        });
        let ended = run(&server, UPDATE);
        assert_eq!(ended.code, Some(if is_deleted { 0 } else { 7 }), "{} {}", ended.out, ended.err);
        assert_eq!(cluster.is_suspended(), !is_deleted);
    }
}

/// A cache on the way may answer with what was there before.
#[test]
fn an_answer_from_before_the_hold_is_not_taken_for_an_edit() {
    let cluster = Cluster::new();
    let server = Server::start({
        let (cluster, first) = (cluster.clone(), cluster.object());
        let (reads, is_begun) = (AtomicUsize::new(0), AtomicUsize::new(0));
        move |asked| {
            is_begun.fetch_add(usize::from(asked.method == "DELETE"), Ordering::SeqCst);
            let is_read = asked.method == "GET" && asked.path().ends_with("/daemonsets/agent");
            if is_read && is_begun.load(Ordering::SeqCst) > 0 && reads.fetch_add(1, Ordering::SeqCst) < 2 {
                return Reply::of(200, JSON, first.clone());
            }
            cluster.answer(asked)
        }
    });
    let ended = run(&server, UPDATE);
    assert_eq!(ended.code, Some(0), "{} {}", ended.out, ended.err);
    assert!(ended.out.contains("older than one that this run has seen") && !cluster.is_suspended(), "{}", ended.out);
}
