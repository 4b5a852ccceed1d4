//! Admission that drops or rewrites changes, and controllers that revert them immediately.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::{Asked, Reply, Server};
use super::staged_faults::Cluster;
use super::stalled::refused_pod;
use super::{JSON, api_groups, json_list, refusal};
use crate::screens::{Ended, end, kubectl_ds};

const TEMPLATE: &str = "/spec/template";
const STRATEGY: &str = "/spec/updateStrategy";
pub(super) const UPDATE: &[&str] = &["partition", "agent", "0", "--image=agent=agent:2", "--progress-deadline=3s"];

/// Changes what would become of an object, of which the first one is what it was.
pub(super) type Admission = fn(&Value, &mut Value);

/// Which changes meet an admission.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Of {
    All,
    /// Those that are more than tried out.
    Real,
}

pub(super) fn run(server: &Server, arguments: &[&str]) -> Ended {
    end(kubectl_ds(&[arguments, &["-n", "team", "--server", &format!("http://{}", server.address)]].concat()), None)
}

pub(super) fn is_dry_run(asked: &Asked) -> bool {
    asked.target.contains("dryRun=All")
}

pub(super) fn live(cluster: &Cluster) -> Value {
    serde_json::from_slice(&cluster.object()).unwrap()
}

pub(super) fn image(object: &Value) -> &Value {
    &object["spec"]["template"]["spec"]["containers"][0]["image"]
}

/// Serves a cluster with an admission.
pub(super) fn admitting(cluster: &Arc<Cluster>, of: Of, admission: Admission) -> Server {
    Server::start(admitted(cluster, of, admission))
}

/// Returns what a cluster with an admission answers.
pub(super) fn admitted(cluster: &Arc<Cluster>, of: Of, admission: Admission) -> impl Fn(&Asked) -> Reply + use<> {
    let cluster = cluster.clone();
    move |asked| {
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
    }
}

fn keep(path: &str, before: &Value, object: &mut Value) {
    *object.pointer_mut(path).unwrap() = before.pointer(path).unwrap().clone();
}

pub(super) fn keep_template(before: &Value, object: &mut Value) {
    keep(TEMPLATE, before, object);
}

fn keep_suspended(before: &Value, object: &mut Value) {
    if before["spec"]["updateStrategy"]["type"] == "OnDelete" {
        keep(STRATEGY, before, object);
    }
}

/// Returns the cluster after a stage that has held the rollout of `agent:2`, with one node updated.
pub(super) fn held() -> Arc<Cluster> {
    held_by(&[])
}

fn held_by(flags: &[&str]) -> Arc<Cluster> {
    let cluster = Cluster::new();
    let server = Server::start({
        let cluster = cluster.clone();
        move |asked| cluster.answer(asked)
    });
    let ended = run(&server, &[&["partition", "agent", "1", "--image=agent=agent:2"], flags].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    cluster
}

/// Returns how many changes were sent that are more than tried out.
pub(super) fn sent(server: &Server) -> usize {
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
    let (_, changes) = ended.out.split_once("the server also changes:\n").expect(&ended.out);
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
    for (admission, code, message) in [
        (rewrite, 6, "differs from the one that was shown: an admission webhook or a policy has changed it"),
        (keep_template as Admission, 1, "the template of team/agent stays as it was"),
    ] {
        let cluster = Cluster::new();
        let server = admitting(&cluster, Of::Real, admission);
        let ended = run(&server, UPDATE);
        assert_eq!((ended.code, sent(&server)), (Some(code), 1), "{} {}", ended.out, ended.err);
        assert!(ended.err.contains(message) && ended.err.contains("mutatingwebhookconfigurations"), "{}", ended.err);
        assert!(ended.err.contains("no pod was deleted, and the update strategy is suspended"), "{}", ended.err);
        let shown = format!("{}{}", ended.out, ended.err);
        assert!(shown.contains("kubectl ds resume -n team") && cluster.is_suspended(), "{shown}");
        assert!(!shown.contains("to continue: kubectl ds partition -n team --image"), "{shown}");
    }
    // One that is altered although none is sent would be so the next time, too.
    let cluster = held();
    let ended = run(&admitting(&cluster, Of::Real, rewrite), &["partition", "agent", "0"]);
    assert_eq!((ended.code, cluster.is_suspended()), (Some(1), true), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("makes another one each time"), "{}", ended.err);
    let shown = format!("{}{}", ended.out, ended.err);
    assert!(shown.contains("kubectl ds status -n team"), "{shown}");
    assert!(!shown.contains("kubectl ds partition"), "{shown}");
    // What was held before would be rolled out.
    let cluster = held();
    let ended =
        run(&admitting(&cluster, Of::Real, keep_template), &["partition", "agent", "0", "--image=agent=agent:3"]);
    assert_eq!((ended.code, cluster.is_suspended()), (Some(1), true), "{} {}", ended.out, ended.err);
    let shown = format!("{}{}", ended.out, ended.err);
    assert!(!shown.contains("kubectl ds resume"), "{shown}");
    let status = run(&admitting(&cluster, Of::All, |_, _| {}), &["status", "agent"]);
    assert!(status.out.contains("the template of the last stage is not there"), "{}", status.out);
    assert!(!status.out.contains("at its own pace"), "{}", status.out);
}

pub(super) fn mirror(_: &Value, object: &mut Value) {
    let image = object.pointer_mut("/spec/template/spec/containers/0/image").unwrap();
    if image == "agent:1" {
        *image = "mirror/agent:1".into();
    }
}

/// A rollback must get through: no other one would be better.
#[test]
fn an_undo_of_a_held_daemon_set_rolls_back_to_what_admission_makes_of_the_template() {
    for (of, is_evict, arguments) in [
        (Of::All, false, &["undo", "agent"][..]),
        (Of::All, true, &["undo", "agent"]),
        (Of::Real, false, &["undo", "agent"]),
        (Of::Real, false, &["partition", "agent", "0", "--to-revision=1"]),
    ] {
        let cluster = match is_evict {
            true => held_by(&["--evict"]),
            false => held(),
        };
        let server = admitting(&cluster, of, mirror);
        let ended = run(&server, arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?} {} {}", ended.out, ended.err);
        // The other node has the revision that was asked for: an undo leaves it as it is, and to the hold.
        let is_undo = arguments[0] == "undo";
        assert_eq!(
            (image(&live(&cluster)).as_str(), cluster.is_suspended()),
            (Some("mirror/agent:1"), is_undo),
            "{}",
            ended.out
        );
        assert_eq!(ended.out.contains("to finish: "), is_undo, "{}", ended.out);
        let shown = if of == Of::All { &ended.out } else { &ended.err };
        assert!(shown.contains("the server also changes:") && shown.contains("mirror/agent:1"), "{shown}");
        let is_again = ended.err.contains("the template differs from the one that was shown; the new plan:");
        assert_eq!(is_again, of == Of::Real, "{}", ended.err);
        let asked = server.asked();
        let deletions = asked.iter().filter(|asked| asked.method == "DELETE").count();
        let evictions = asked.iter().filter(|asked| asked.path().ends_with("/eviction")).count();
        let expected = if is_undo { 1 } else { 2 };
        assert_eq!((deletions, evictions), if is_evict { (0, expected) } else { (expected, 0) }, "{}", ended.out);
    }
}

#[test]
fn why_a_way_back_cannot_go_on_with_the_template_of_admission_is_told() {
    let elsewhere: Admission = |_, object| object["spec"]["template"]["spec"]["nodeSelector"] = json!({"pool": "x"});
    let server = admitting(&held(), Of::Real, elsewhere);
    let ended = run(&server, &["partition", "agent", "0", "--to-revision=1", "--nodes=n1"]);
    assert_eq!((ended.code, sent(&server)), (Some(6), 1), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("differs from the one that was shown"), "{}", ended.err);
    assert!(ended.err.contains("no node is eligible for team/agent with this template"), "{}", ended.err);
}

#[test]
fn an_undo_of_a_held_daemon_set_whose_template_admission_keeps_is_refused() {
    let cluster = held();
    let (before, server) = (cluster.object(), admitting(&cluster, Of::All, keep_template));
    let ended = run(&server, &["undo", "agent"]);
    assert_eq!((ended.code, sent(&server)), (Some(1), 0), "{} {}", ended.out, ended.err);
    assert!(
        ended.err.starts_with("error: the template of team/agent cannot become that of revision 1: "),
        "{}",
        ended.err
    );
    let hints = "hint: nothing was changed\nhint: the update strategy stays suspended\n";
    assert!(ended.err.contains(hints), "{}", ended.err);
    assert!(ended.err.contains("how to continue: kubectl ds status -n team"), "{}", ended.err);
    assert_eq!(cluster.object(), before);
    // That a dry run does not show it is no excuse.
    let cluster = held();
    let server = admitting(&cluster, Of::Real, keep_template);
    let ended = run(&server, &["undo", "agent"]);
    assert_eq!((ended.code, sent(&server)), (Some(1), 1), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("to continue: kubectl ds undo --to-revision 1 -n team"), "{}", ended.err);
    assert!(!format!("{}{}", ended.out, ended.err).contains("kubectl ds resume"), "{} {}", ended.out, ended.err);
    // The annotation says that an undo was begun, and the revision that it was to leave is the current one.
    let server = admitting(&cluster, Of::All, |_, _| {});
    let status = run(&server, &["status", "agent"]);
    assert!(status.out.contains("kubectl ds undo --to-revision 1 -n team"), "{}", status.out);
    assert!(!status.out.contains("--to-revision 2") && !status.out.contains("at its own pace"), "{}", status.out);
    let ended = run(&server, &["undo", "--to-revision=1", "agent"]);
    assert_eq!((ended.code, image(&live(&cluster))), (Some(0), &json!("agent:1")), "{} {}", ended.out, ended.err);
}

/// A pod of the template as it was sent would tell nothing: another one is created.
#[test]
fn the_pod_that_is_tried_has_what_admission_makes_of_the_template() {
    let mirror: Admission = |_, object| {
        let image = object.pointer_mut("/spec/template/spec/containers/0/image").unwrap();
        if image == "mirror/agent:2" {
            *image = "agent:2".into();
        }
    };
    const MIRRORED: &[&str] = &["partition", "agent", "1", "--image=agent=mirror/agent:2", "--progress-deadline=3s"];
    for (refused, expected) in [("mirror/agent:2", 0), ("agent:2", 1)] {
        let cluster = Cluster::new();
        let answer = admitted(&cluster, Of::All, mirror);
        let server = Server::start(move |asked| match asked.path() {
            path if path.ends_with("/events") && !asked.target.contains("watch=true") => {
                json_list(path, &[refused_pod()])
            }
            path if path.ends_with("/pods") && asked.method == "POST" => {
                let pod: Value = serde_json::from_slice(&asked.body).unwrap();
                let message = refused_pod()["message"].as_str().unwrap().replace("Error creating: ", "");
                match pod["spec"]["containers"][0]["image"] == refused {
                    true => refusal(403, "Forbidden", &message),
                    false => Reply::of(201, JSON, asked.body.clone()),
                }
            }
            _ => answer(asked),
        });
        let ended = run(&server, MIRRORED);
        assert_eq!((ended.code, sent(&server) > 0), (Some(expected), expected == 0), "{} {}", ended.out, ended.err);
        assert_eq!(ended.err.contains("error: that would make things worse"), expected == 1, "{}", ended.err);
    }
}

/// Starts a cluster whose new pods are refused, those of `agent:2` and of another image. Its DaemonSet is not held, and it warns
/// of each change.
fn refusing(cluster: &Arc<Cluster>, refused: &'static str) -> Server {
    cluster.edit(|object| {
        object["spec"]["updateStrategy"] = json!({"type": "RollingUpdate"});
        object["metadata"]["annotations"] = json!({});
    });
    let answer = admitted(cluster, Of::All, mirror);
    Server::start(move |asked| match asked.path() {
        path if path.ends_with("/events") && !asked.target.contains("watch=true") => json_list(path, &[refused_pod()]),
        path if path.ends_with("/pods") && asked.method == "POST" => {
            let pod: Value = serde_json::from_slice(&asked.body).unwrap();
            let message = refused_pod()["message"].as_str().unwrap().replace("Error creating: ", "");
            let image = &pod["spec"]["containers"][0]["image"];
            match image == "agent:2" || image == refused {
                true => refusal(403, "Forbidden", &message),
                false => Reply::of(201, JSON, asked.body.clone()),
            }
        }
        _ if asked.method == "PATCH" => answer(asked).with("warning", "299 - \"would violate PodSecurity\""),
        _ => answer(asked),
    })
}

/// The same, of an undo of what is not held.
#[test]
fn the_pod_that_an_undo_is_tried_with_has_what_admission_makes_of_the_template() {
    for (refused, is_warned) in [("agent:1", false), ("mirror/agent:1", true)] {
        let cluster = held();
        let server = refusing(&cluster, refused);
        let ended = run(&server, &["undo", "agent", "--to-revision=1", "--no-wait"]);
        assert_eq!(ended.err.contains("the API server refuses new pods"), is_warned, "{refused}: {}", ended.err);
        let ended = match is_warned {
            true => {
                assert_eq!((ended.code, image(&live(&cluster))), (Some(1), &json!("agent:2")), "{}", ended.err);
                run(&server, &["undo", "agent", "--to-revision=1", "--no-wait", "--force"])
            }
            false => ended,
        };
        assert_eq!((ended.code, image(&live(&cluster))), (Some(0), &json!("mirror/agent:1")), "{}", ended.err);
    }
}

/// The dry run that is made before the plan is shown brings the same warnings.
#[test]
fn a_change_that_was_tried_out_still_shows_the_warnings_of_the_server() {
    let server = refusing(&held(), "agent:2");
    let ended = run(&server, &["undo", "agent", "--to-revision=1", "--no-wait", "--warnings-as-errors"]);
    assert!(server.asked().iter().any(|asked| asked.method == "PATCH" && is_dry_run(asked)));
    assert_eq!((ended.code, ended.err.matches("would violate PodSecurity").count()), (Some(1), 1), "{}", ended.err);
}

/// What a webhook does in every write goes further than the change that was shown.
#[test]
fn what_the_server_would_do_beside_a_change_is_told_before_it_is_made() {
    let annotate: Admission =
        |_, object| object["spec"]["template"]["metadata"]["annotations"] = json!({"by": "webhook"});
    let unpace: Admission =
        |_, object| object["spec"]["updateStrategy"]["rollingUpdate"] = json!({"maxUnavailable": "100%"});
    let pin: Admission = |_, object| object["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "none"});
    let rolls_out = "the server also changes the template, and the controller rolls that out: ";
    let changes = "the server also changes spec.updateStrategy.rollingUpdate";
    let set: &[&str] = &["set", "agent", "--min-ready-seconds=5", "--no-wait"];
    for (arguments, admission, expected) in [
        (set, annotate, Some(rolls_out)),
        (&["restart", "agent", "--no-wait"], annotate, Some(rolls_out)),
        (&["undo", "agent", "--to-revision=1", "--no-wait"], annotate, Some(rolls_out)),
        (set, pin, Some("; 2 nodes lose their pods immediately")),
        (set, unpace, Some(changes)),
        (&["restart", "agent", "--no-wait"], unpace, Some(changes)),
        (set, |_, _| {}, None),
        (&["restart", "agent", "--no-wait"], |_, _| {}, None),
    ] {
        let on = || {
            let cluster = held();
            cluster.edit(|object| {
                object["spec"]["updateStrategy"] =
                    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
                object["metadata"]["annotations"] = json!({});
            });
            admitting(&cluster, Of::All, admission)
        };
        let server = on();
        let ended = run(&server, arguments);
        assert_eq!((ended.code, sent(&server)), (Some(0), 1), "{arguments:?} {} {}", ended.out, ended.err);
        let is_told = expected.is_some_and(|expected| ended.err.contains(expected));
        assert_eq!(
            (is_told, ended.err.contains("the server also")),
            (expected.is_some(), expected.is_some()),
            "{}",
            ended.err
        );
        let ended = run(&on(), &[arguments, &["-o", "json"]].concat());
        let report: Value = serde_json::from_str(&ended.out).expect(&ended.err);
        let codes = report["warnings"].as_array().unwrap().iter().map(|warning| &warning["code"]);
        assert_eq!(codes.filter(|code| *code == "ServerChangesMore").count(), usize::from(expected.is_some()));
    }
}

#[test]
fn the_warnings_of_the_server_are_in_the_report_of_a_change() {
    let warnings = |ended: Ended| {
        let report: Value = serde_json::from_str(&ended.out).expect(&ended.err);
        report["outcome"]["serverWarnings"].clone()
    };
    let ended = run(&refusing(&held(), "agent:1"), &["undo", "agent", "--to-revision=1", "--no-wait", "-o", "json"]);
    assert_eq!(warnings(ended), json!(["would violate PodSecurity"]));
    let answer = admitted(&Cluster::new(), Of::All, |_, _| {});
    let server = Server::start(move |asked| match asked.method.as_str() {
        "PATCH" => answer(asked).with("warning", "299 - \"deprecated\""),
        _ => answer(asked),
    });
    assert_eq!(warnings(run(&server, &[UPDATE, &["-o", "json"]].concat())), json!(["deprecated"]));
    let ended = run(&admitting(&Cluster::new(), Of::All, |_, _| {}), &["restart", "agent", "--no-wait", "-o", "json"]);
    assert_eq!(warnings(ended), json!([]));
}

#[test]
fn a_hold_does_not_lose_its_annotations_if_admission_keeps_the_strategy_suspended() {
    for (arguments, code) in [(&["resume", "agent"][..], 1), (&["partition", "agent", "0"], 6)] {
        let cluster = held();
        let server = admitting(&cluster, Of::All, keep_suspended);
        let ended = run(&server, arguments);
        assert_eq!((ended.code, code == 1 && sent(&server) > 0), (Some(code), false), "{} {}", ended.out, ended.err);
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
    let ended = run(&admitting(&held(), Of::All, keep_suspended), &["resume", "agent", "-o", "json"]);
    let report: Value = serde_json::from_str(&ended.out).expect(&ended.err);
    assert_eq!((ended.code, &report["outcome"]["stage"]), (Some(1), &json!("Refused")), "{}", ended.err);
    for arguments in [&["resume", "agent"][..], &["partition", "agent", "0"]] {
        let cluster = held();
        let ended = run(&admitting(&cluster, Of::Real, keep_suspended), arguments);
        assert_eq!(ended.code, Some(7), "{} {}", ended.out, ended.err);
        assert!(ended.err.contains("stays \"OnDelete\"") && !ended.err.contains("somebody else"), "{}", ended.err);
        assert!(ended.err.contains("kubectl ds set --type RollingUpdate -n team"), "{}", ended.err);
    }
}

/// The last patch of a stage must not roll out what nobody was shown.
#[test]
fn a_hold_does_not_end_with_another_template() {
    let alter: Admission = |before, object| {
        let is_suspended = |object: &Value| object["spec"]["updateStrategy"]["type"] == "OnDelete";
        if is_suspended(before) && !is_suspended(object) {
            object["spec"]["template"]["metadata"]["annotations"] = json!({"by": "webhook"});
        }
    };
    let cluster = held();
    let ended = run(&admitting(&cluster, Of::All, alter), &["partition", "agent", "0"]);
    assert_eq!((ended.code, cluster.is_suspended()), (Some(1), true), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("would also change the template"), "{}", ended.err);
    assert!(ended.err.contains("to do it anyway: kubectl ds resume -n team"), "{}", ended.err);
    let ended = run(&admitting(&cluster, Of::All, alter), &["resume", "agent", "--no-wait"]);
    assert_eq!((ended.code, cluster.is_suspended()), (Some(0), false), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("the server also changes the template"), "{}", ended.err);
    let cluster = held();
    let ended = run(&admitting(&cluster, Of::Real, alter), &["partition", "agent", "0"]);
    assert_eq!((ended.code, cluster.is_suspended()), (Some(1), false), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("to stop the controller: kubectl ds pause -n team"), "{}", ended.err);
}

/// Under OnDelete, nobody rolls out anything when a hold ends.
#[test]
fn the_end_of_a_hold_does_not_speak_of_a_controller_that_replaces_no_pods() {
    let alter: Admission = |before, object| {
        let is_held = |object: &Value| object["metadata"]["annotations"]["kubectl-ds/run"].is_string();
        if is_held(before) && !is_held(object) {
            object["spec"]["template"]["metadata"]["annotations"] = json!({"by": "webhook"});
        }
    };
    let finish: &[&str] = &["partition", "agent", "0"];
    for (of, arguments, code, message) in [
        (Of::All, finish, 1, "would also change the template\nhint: no ready node is left to update"),
        (Of::Real, finish, 1, "was changed when its update strategy was restored"),
        (Of::All, &["resume", "agent", "--no-wait"], 0, "the server also changes the template: "),
    ] {
        let cluster = Cluster::new();
        cluster.edit(|object| object["spec"]["updateStrategy"]["type"] = "OnDelete".into());
        let update = ["partition", "agent", "1", "--image=agent=agent:2"];
        assert_eq!(run(&admitting(&cluster, Of::All, |_, _| {}), &update).code, Some(0));
        let ended = run(&admitting(&cluster, of, alter), arguments);
        assert_eq!(ended.code, Some(code), "{} {}", ended.out, ended.err);
        assert!(ended.err.contains(message) && !ended.err.contains("the controller"), "{}", ended.err);
    }
}

/// OpenKruise's controller replaces the pods, so that nothing is suspended.
#[test]
fn the_partition_of_an_advanced_daemon_set_is_told_although_its_template_is_dropped() {
    let cluster = Cluster::new();
    cluster.edit(|object| object["apiVersion"] = "apps.kruise.io/v1beta1".into());
    let answer = admitted(&cluster, Of::Real, keep_template);
    let server = Server::start(move |asked| match asked.path() {
        "/apis" => api_groups(&[("apps", &["v1"]), ("apps.kruise.io", &["v1beta1"])]),
        "/apis/apps.kruise.io/v1beta1" => {
            let resources = json!({"kind": "APIResourceList", "resources": [{"name": "daemonsets"}]});
            Reply::of(200, JSON, resources.to_string())
        }
        _ => answer(asked),
    });
    let ended = run(&server, &["partition", "ads/agent", "1", "--image=agent=agent:2"]);
    assert_eq!((ended.code, sent(&server)), (Some(1), 1), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("the controller continues with the current template"), "{}", ended.err);
    assert!(ended.err.contains("to set the partition as it was: kubectl ds partition -n team"), "{}", ended.err);
    assert!(!ended.err.contains("suspended"), "{}", ended.err);
}

/// Makes the first node be lost, with a pod that does not end, so that the other one waits.
fn blocked(asked: &Asked, mut reply: Reply) -> Reply {
    let since = "2026-01-02T00:00:00Z";
    let is_of_pods = asked.path().ends_with("/pods");
    if asked.method == "GET" && (is_of_pods || asked.path() == "/api/v1/nodes") && !asked.target.contains("watch=true")
    {
        let mut list: Value = serde_json::from_slice(&reply.body).unwrap();
        let first = &mut list["items"][0];
        first["status"]["conditions"] = json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": since}]);
        if is_of_pods {
            first["metadata"]["deletionTimestamp"] = since.into();
        }
        reply.body = list.to_string().into_bytes();
    }
    reply
}

#[test]
fn a_pace_that_was_noted_and_not_set_is_told() {
    let cluster = Cluster::new();
    cluster.edit(|object| object["spec"]["template"]["spec"]["containers"][0]["image"] = "agent:2".into());
    let answer = admitted(&cluster, Of::All, |before, object| keep(STRATEGY, before, object));
    let server = Server::start(move |asked| blocked(asked, answer(asked)));
    let status = run(&server, &["status", "agent"]);
    assert!(status.out.contains("blocked"), "{} {}", status.out, status.err);
    let ended = run(&server, &["set", "agent", "--max-unavailable=2"]);
    assert_eq!(ended.code, Some(1), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("was not applied: an admission webhook or a policy drops it"), "{}", ended.err);
    let remove = "to remove it: kubectl annotate -n team";
    assert!(ended.err.contains(remove) && ended.err.contains("kubectl-ds/raised-pace-"), "{}", ended.err);
}

/// That the controller replaces all pods must not be told as if nothing had happened.
#[test]
fn a_hold_that_is_not_in_force_is_no_all_clear() {
    let roll_out_another: Admission = |before, object| {
        keep(STRATEGY, before, object);
        object["spec"]["template"]["metadata"]["annotations"] = json!({"by": "webhook"});
    };
    let roll_out_the_same: Admission = |before, object| {
        keep_template(before, object);
        object["spec"]["updateStrategy"] = json!({"type": "RollingUpdate"});
    };
    let on_delete = Cluster::new();
    on_delete.edit(|object| object["spec"]["updateStrategy"]["type"] = "OnDelete".into());
    for (cluster, admission, back) in [
        (Cluster::new(), roll_out_another, "kubectl ds undo --to-revision 1 -n team"),
        (held(), roll_out_the_same, "kubectl ds undo -n team"),
        (on_delete, roll_out_the_same, "kubectl ds undo -n team"),
    ] {
        let server = admitting(&cluster, Of::Real, admission);
        let ended = run(&server, &["partition", "agent", "0", "--image=agent=agent:3"]);
        assert_eq!((ended.code, sent(&server)), (Some(1), 1), "{} {}", ended.out, ended.err);
        assert!(ended.err.contains("the controller is replacing all pods of older revisions now"), "{}", ended.err);
        assert!(ended.err.contains(&format!("to stop it, roll back: {back}")), "{}", ended.err);
        assert!(!ended.err.contains("no pod is replaced"), "{}", ended.err);
    }
}

#[test]
fn a_hold_of_which_only_the_annotations_are_kept_is_told_as_such() {
    let annotations_only: Admission = |before, object| {
        keep(STRATEGY, before, object);
        keep_template(before, object);
    };
    let server = admitting(&Cluster::new(), Of::Real, annotations_only);
    let ended = run(&server, UPDATE);
    assert_eq!((ended.code, sent(&server)), (Some(1), 1), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("no pod is replaced because of this run"), "{}", ended.err);
    assert!(ended.err.contains("to remove the annotations of the hold: kubectl ds resume -n team"), "{}", ended.err);
    assert!(!ended.err.contains("is replacing"), "{}", ended.err);
}

/// `resume` would find nothing to restore.
#[test]
fn a_hold_without_any_annotation_is_left_by_what_is_stored() {
    let without: Admission = |_, object| {
        object["metadata"]["annotations"].as_object_mut().unwrap().retain(|key, _| !key.starts_with("kubectl-ds/"));
    };
    for (cluster, arguments, is_new) in [
        (held(), &["undo", "agent"][..], true),
        (held(), &["partition", "agent", "0"], false),
        (Cluster::new(), UPDATE, true),
        (Cluster::new(), &["pause", "agent"], false),
    ] {
        let ended = run(&admitting(&cluster, Of::Real, without), arguments);
        assert!(!matches!(ended.code, Some(0 | 3)), "{arguments:?}: {:?} {}", ended.code, ended.err);
        assert!(!ended.err.contains("kubectl ds resume"), "{arguments:?}: {}", ended.err);
        let restore = "kubectl ds set --type RollingUpdate -n team --server";
        assert!(ended.err.contains(restore), "{arguments:?}: {}", ended.err);
        assert_eq!(ended.err.contains("the new template is stored"), is_new, "{arguments:?}: {}", ended.err);
    }
}

/// The DaemonSet looks as if it had never been held.
#[test]
fn a_hold_that_has_lost_its_annotations_later_is_not_resumed() {
    let set_type = json!({"f:spec": {"f:updateStrategy": {"f:type": {}}}});
    for (manager, code) in [("kubectl-ds", 1), ("kubectl-edit", 0)] {
        let cluster = held();
        cluster.edit(|object| {
            object["metadata"]["annotations"] = json!({});
            object["metadata"]["managedFields"] =
                json!([{"manager": manager, "operation": "Update", "fieldsV1": set_type}]);
        });
        let server = Server::start({
            let cluster = cluster.clone();
            move |asked| cluster.answer(asked)
        });
        let ended = run(&server, &["resume", "agent"]);
        assert_eq!((ended.code, sent(&server)), (Some(code), 0), "{} {}", ended.out, ended.err);
        let restore = "with the stored maxUnavailable of 1 and maxSurge of 0: kubectl ds set --type RollingUpdate";
        assert_eq!(ended.err.contains(restore), code == 1, "{}", ended.err);
        assert!(cluster.is_suspended());
    }
}

/// Nobody can review what is not shown.
#[test]
fn what_somebody_changes_before_a_stage_is_tried_out_is_shown() {
    let cluster = Cluster::new();
    let (kept, tried) = (cluster.clone(), AtomicUsize::new(0));
    let server = Server::start(move |asked| {
        if asked.method == "PATCH" && tried.fetch_add(1, Ordering::SeqCst) == 0 {
            kept.edit(|object| object["spec"]["minReadySeconds"] = 7.into());
        }
        kept.answer(asked)
    });
    let ended = run(&server, UPDATE);
    assert_eq!((ended.code, sent(&server)), (Some(1), 0), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("review that change"), "{}", ended.err);
    assert!(
        ended.err.contains("changes to team/agent since it was read:") && ended.err.contains("minReadySeconds"),
        "{}",
        ended.err
    );
}

/// It is for one version of the DaemonSet, so that it cannot be applied twice.
#[test]
fn a_patch_whose_connection_breaks_is_sent_again() {
    for (broken, is_applied, code) in [(1, false, 0), (2, false, 0), (3, false, 7), (1, true, 0)] {
        let cluster = Cluster::new();
        let (kept, sent) = (cluster.clone(), AtomicUsize::new(0));
        let server = Server::start(move |asked| {
            let is_real = asked.method == "PATCH" && !is_dry_run(asked);
            if !is_real || sent.fetch_add(1, Ordering::SeqCst) >= broken {
                return kept.answer(asked);
            }
            if is_applied {
                kept.answer(asked);
            }
            Reply::hang_up()
        });
        let ended = run(&server, UPDATE);
        assert_eq!(ended.code, Some(code), "{broken} {is_applied}: {} {}", ended.out, ended.err);
        assert!(!cluster.is_suspended(), "{broken} {is_applied}: {}", ended.err);
        assert_eq!(image(&live(&cluster)) == "agent:2", code == 0, "{broken} {is_applied}: {}", ended.err);
    }
}

/// A proxy may answer with the object as it was, and send the change on later.
#[test]
fn a_change_that_may_still_be_on_its_way_is_unknown() {
    for (arguments, expected) in [(["undo", "agent", "--no-wait"], 7), (["undo", "agent", "--dry-run=server"], 0)] {
        let cluster = held();
        let server = Server::start({
            let cluster = cluster.clone();
            move |asked| match asked.method == "PATCH" && !is_dry_run(asked) {
                true => Reply::of(200, JSON, cluster.object()),
                false => cluster.answer(asked),
            }
        });
        let ended = run(&server, &arguments);
        assert_eq!(ended.code, Some(expected), "{} {}", ended.out, ended.err);
        assert!(!ended.err.contains("an admission webhook"), "{}", ended.err);
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
                if asked.method == "PATCH" && !is_dry_run(asked) {
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
            "the API server confirmed the change, but the DaemonSet no longer has it: \"argocd\" has overwritten it";
        assert!(ended.err.contains(message), "{}", ended.err);
    }
}

#[test]
fn an_undo_of_a_held_daemon_set_waits_for_the_controller_as_long_as_was_asked() {
    // How long pods may take is another matter.
    let cluster = held_by(&["--progress-deadline=1s"]);
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

/// Whether a watch fails at the moment at which the time is over, or the controller has not acted, the change was applied.
#[test]
fn an_undo_that_cannot_read_ends_in_time() {
    let is_watch: fn(&Asked) -> bool = |asked| asked.target.contains("watch=true");
    let is_list: fn(&Asked) -> bool = |asked| asked.method == "GET" && asked.path().ends_with("/pods");
    for (fails, cause) in [(is_watch, "the change was applied, "), (is_list, "waiting for the controller failed: ")] {
        let cluster = held();
        let server = Server::start({
            let (cluster, is_begun) = (cluster.clone(), AtomicUsize::new(0));
            move |asked| {
                let is_change = asked.method == "PATCH" && !is_dry_run(asked);
                if fails(asked) && is_begun.load(Ordering::SeqCst) > 0 {
                    return Reply::of(503, "text/plain", "starting");
                }
                let reply = cluster.answer(asked);
                if is_change {
                    is_begun.store(1, Ordering::SeqCst);
                    cluster.edit(|object| object["status"]["observedGeneration"] = 1.into());
                }
                reply
            }
        });
        let began = Instant::now();
        let ended = run(&server, &["undo", "agent", "--timeout=3s"]);
        assert_eq!(ended.code, Some(6), "{} {}", ended.out, ended.err);
        assert!(ended.err.contains("error: the change was applied, ") && ended.err.contains(cause), "{}", ended.err);
        assert!(ended.err.contains("the update strategy stays suspended"), "{}", ended.err);
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }
}

#[test]
fn a_lost_deletion_is_seen_in_the_next_list_or_sent_again() {
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
        assert_eq!((ended.code, cluster.is_suspended()), (Some(0), false), "{is_deleted} {} {}", ended.out, ended.err);
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

/// The same, of an answer that decides how a stage ends.
#[test]
fn an_answer_from_before_the_hold_ends_no_stage() {
    for (is_restored, fails) in [(false, false), (true, false), (false, true)] {
        let cluster = Cluster::new();
        let server = Server::start({
            let (cluster, first) = (cluster.clone(), cluster.object());
            let (deleted, reads, held) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
            move |asked| {
                deleted.fetch_add(usize::from(asked.method == "DELETE"), Ordering::SeqCst);
                let is_read = asked.method == "GET" && asked.path().ends_with("/daemonsets/agent");
                if is_read && deleted.load(Ordering::SeqCst) == 2 && reads.load(Ordering::SeqCst) < 2 {
                    let stale = match (is_restored, cluster.is_suspended()) {
                        (false, true) => first.clone(),
                        (true, false) => held.lock().unwrap().clone(),
                        _ => return cluster.answer(asked),
                    };
                    reads.fetch_add(1, Ordering::SeqCst);
                    return match fails {
                        // Nor does a server that is restarted.
                        true => refusal(500, "InternalError", "etcdserver: leader changed"),
                        false => Reply::of(200, JSON, stale),
                    };
                }
                let reply = cluster.answer(asked);
                if cluster.is_suspended() {
                    *held.lock().unwrap() = cluster.object();
                }
                reply
            }
        });
        let ended = run(&server, UPDATE);
        assert_eq!((ended.code, cluster.is_suspended()), (Some(0), false), "{} {}", ended.out, ended.err);
        let is_told = ended.out.contains("waiting: the API server answers") || ended.out.contains("leader changed");
        assert!(is_told || is_restored, "{} {}", ended.out, ended.err);
    }
}

/// Nobody knows how long that lasts: it is told, and has an end.
#[test]
fn answers_that_stay_older_than_the_hold_are_not_waited_for_for_ever() {
    for is_end in [true, false] {
        let cluster = Cluster::new();
        let server = Server::start({
            let (cluster, first) = (cluster.clone(), live(&cluster));
            let (deleted, is_begun) = (AtomicUsize::new(0), AtomicUsize::new(0));
            move |asked| {
                let is_get = asked.method == "GET" && !asked.target.contains("watch=true");
                let reply = cluster.answer(asked);
                deleted.fetch_add(usize::from(asked.method == "DELETE"), Ordering::SeqCst);
                is_begun.fetch_add(usize::from(asked.method == "PATCH" && !is_dry_run(asked)), Ordering::SeqCst);
                match asked.path() {
                    path if is_end
                        && is_get
                        && path.ends_with("/daemonsets/agent")
                        && deleted.load(Ordering::SeqCst) == 2 =>
                    {
                        Reply::of(200, JSON, first.to_string())
                    }
                    path if !is_end
                        && is_get
                        && path.ends_with("/daemonsets")
                        && is_begun.load(Ordering::SeqCst) > 0 =>
                    {
                        let mut list: Value = serde_json::from_slice(&reply.body).unwrap();
                        list["metadata"]["resourceVersion"] = "1".into();
                        list["items"][0] = first.clone();
                        Reply::of(200, JSON, list.to_string())
                    }
                    _ => reply,
                }
            }
        });
        let began = Instant::now();
        let ended = run(&server, UPDATE);
        assert_eq!((ended.code, cluster.is_suspended()), (Some(6), true), "{} {}", ended.out, ended.err);
        assert!(ended.out.contains("waiting: the API server answers with a DaemonSet that is older"), "{}", ended.out);
        assert!(ended.err.contains("older than one that this run has seen"), "{}", ended.err);
        assert!(ended.err.contains("to continue: kubectl ds partition"), "{}", ended.err);
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }
}

/// Nothing that it says decides about a rollback.
#[test]
fn a_daemon_set_from_before_the_hold_is_not_rolled_back() {
    let cluster = Cluster::new();
    let server = Server::start({
        let (cluster, first, is_stopped) = (cluster.clone(), cluster.object(), AtomicUsize::new(0));
        move |asked| {
            if asked.method == "POST" && String::from_utf8_lossy(&asked.body).contains("Stopped") {
                is_stopped.store(1, Ordering::SeqCst);
            }
            let is_read = asked.method == "GET" && asked.path().ends_with("/daemonsets/agent");
            match is_read && is_stopped.load(Ordering::SeqCst) > 0 {
                true => Reply::of(200, JSON, first.clone()),
                false => cluster.answer(asked),
            }
        }
    });
    let flags = &["--image=agent=agent:2", "--progress-deadline=6s", "--verify=false", "--on-failure=undo"];
    let ended = run(&server, &[&["partition", "agent", "0"][..], flags].concat());
    assert_eq!((ended.code, cluster.is_suspended()), (Some(6), true), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("older than one that this run has seen"), "{}", ended.err);
    assert!(!ended.err.contains("restored") && ended.err.contains("kubectl ds status -n team"), "{}", ended.err);
    let asked = server.asked();
    let stopped = asked.iter().position(|asked| String::from_utf8_lossy(&asked.body).contains("Stopped")).unwrap();
    let reads = asked[stopped..].iter().filter(|asked| asked.path() == "/api/v1/nodes").count();
    assert!((2..=5).contains(&reads), "{reads}");
}

/// The first list of a run, and that of a rollback after a gate has failed, may be as old.
#[test]
fn a_list_from_before_the_hold_is_not_taken_for_an_edit() {
    for (is_rollback, expected) in [(false, 0), (true, 3)] {
        let cluster = Cluster::new();
        let server = Server::start({
            let (cluster, first) = (cluster.clone(), live(&cluster));
            let (is_begun, stale) = (AtomicUsize::new(0), AtomicUsize::new(0));
            move |asked| {
                let is_change = asked.method == "PATCH" && !is_dry_run(asked);
                let is_list = asked.method == "GET"
                    && asked.path().ends_with("/daemonsets")
                    && !asked.target.contains("watch=true");
                let reply = cluster.answer(asked);
                match is_rollback {
                    true if asked.method == "POST" && String::from_utf8_lossy(&asked.body).contains("Stopped") => {
                        is_begun.store(1, Ordering::SeqCst);
                    }
                    false if is_change => is_begun.store(1, Ordering::SeqCst),
                    _ => {}
                }
                if is_list && is_begun.load(Ordering::SeqCst) > 0 && stale.fetch_add(1, Ordering::SeqCst) < 1 {
                    let mut list: Value = serde_json::from_slice(&reply.body).unwrap();
                    list["metadata"]["resourceVersion"] = "1".into();
                    list["items"][0] = first.clone();
                    return Reply::of(200, JSON, list.to_string());
                }
                reply
            }
        });
        let flags: &[&str] = if is_rollback { &["--verify=false", "--on-failure=undo"] } else { &[] };
        let ended = run(&server, &[UPDATE, flags].concat());
        assert_eq!((ended.code, cluster.is_suspended()), (Some(expected), false), "{} {}", ended.out, ended.err);
        let restored = if is_rollback { "agent:1" } else { "agent:2" };
        assert_eq!(image(&live(&cluster)), restored, "{} {}", ended.out, ended.err);
    }
}
