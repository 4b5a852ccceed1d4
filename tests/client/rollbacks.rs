//! Rollbacks of held DaemonSets, after a gate has failed or by `undo`: the data that they depend on may have changed,
//! may be stale, or may not be readable.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::admission::{
    Of, UPDATE, admitted, admitting, held, image, is_dry_run, keep_template, live, mirror, run, sent,
};
use super::server::{Asked, Reply, Server};
use super::staged_faults::{Cluster, TEMPLATE_GENERATION};
use super::{JSON, api_groups, refusal, side_by_side};
use crate::screens::kubectl_ds;

const UNDO: &[&str] = &["--verify=false", "--on-failure=undo"];

fn is_read(asked: &Asked) -> bool {
    asked.method == "GET" && asked.path().ends_with("/daemonsets/agent")
}

/// Returns whether a run says that a gate has stopped it.
fn is_stop(asked: &Asked) -> bool {
    asked.method == "POST" && String::from_utf8_lossy(&asked.body).contains("Stopped")
}

/// Rolls another template out, as somebody else does.
fn roll_out(cluster: &Cluster, image: &str) {
    cluster.edit(|object| {
        object["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
        let generation = object["metadata"]["generation"].as_i64().unwrap() + 1;
        object["metadata"]["generation"] = generation.into();
        object["status"]["observedGeneration"] = generation.into();
        object["metadata"]["managedFields"] = json!([{"manager": "kubectl-edit", "operation": "Update"}]);
    });
}

/// A rollback is decided by what was read, and must not overwrite what came after that.
#[test]
fn what_somebody_rolls_out_while_a_rollback_is_planned_stays() {
    for (is_gate, code) in [(true, 3), (false, 1)] {
        let cluster = if is_gate { Cluster::new() } else { held() };
        let server = Server::start({
            let (cluster, reads) = (cluster.clone(), AtomicUsize::new(0));
            let is_stopped = AtomicUsize::new(usize::from(!is_gate));
            move |asked| {
                is_stopped.fetch_add(usize::from(is_stop(asked)), Ordering::SeqCst);
                let reply = cluster.answer(asked);
                let is_deciding = is_read(asked) && is_stopped.load(Ordering::SeqCst) > 0;
                if is_deciding && reads.fetch_add(1, Ordering::SeqCst) == 0 {
                    roll_out(&cluster, "agent:3");
                }
                reply
            }
        });
        let ended = match is_gate {
            true => run(&server, &[UPDATE, UNDO].concat()),
            false => run(&server, &["undo", "agent"]),
        };
        assert_eq!(
            (ended.code, image(&live(&cluster))),
            (Some(code), &json!("agent:3")),
            "{} {}",
            ended.out,
            ended.err
        );
        assert!(ended.err.contains("was changed by \"kubectl-edit\" after it was read"), "{}", ended.err);
    }
}

/// That no pod can be seen is not that none is available.
#[test]
fn a_stage_is_not_rolled_back_by_pods_that_cannot_be_read() {
    for resource in ["pods", "controllerrevisions"] {
        let cluster = Cluster::new();
        let server = Server::start({
            let (cluster, is_stopped) = (cluster.clone(), AtomicUsize::new(0));
            move |asked| {
                is_stopped.fetch_add(usize::from(is_stop(asked)), Ordering::SeqCst);
                let is_list = asked.method == "GET" && asked.path().ends_with(&format!("/{resource}"));
                match is_list && is_stopped.load(Ordering::SeqCst) > 0 {
                    true => refusal(403, "Forbidden", &format!("{resource} is forbidden: User \"a\" cannot list them")),
                    false => cluster.answer(asked),
                }
            }
        });
        let ended = run(&server, &[UPDATE, UNDO].concat());
        assert_eq!((ended.code, cluster.is_suspended()), (Some(6), true), "{} {}", ended.out, ended.err);
        assert!(!ended.err.contains("available on any node"), "{}", ended.err);
        assert!(ended.err.contains(&format!("{resource} in namespace team could not be read")), "{}", ended.err);
        assert_eq!(image(&live(&cluster)), "agent:2");
    }
}

/// Whatever has failed its gates would stay.
#[test]
fn one_request_that_fails_does_not_prevent_a_rollback() {
    side_by_side(["pods", "nodes", "controllerrevisions", "daemonsets/agent"], |resource| {
        let cluster = Cluster::new();
        // The run asks for nothing while its command runs, and its event may be given up before it gets here.
        let folder = tempfile::tempdir().unwrap();
        let is_stopped = folder.path().join("stopped");
        let verify = format!("--verify=sleep 2; touch '{}'; false", is_stopped.display());
        let server = Server::start({
            let (cluster, failures) = (cluster.clone(), AtomicUsize::new(0));
            move |asked| {
                let fails = asked.method == "GET"
                    && !asked.target.contains("watch=true")
                    && asked.path().ends_with(&format!("/{resource}"))
                    && is_stopped.exists()
                    && failures.fetch_add(1, Ordering::SeqCst) < 1;
                match fails {
                    true => refusal(500, "InternalError", "etcdserver: leader changed"),
                    false => cluster.answer(asked),
                }
            }
        });
        let update = ["partition", "agent", "0", "--image=agent=agent:2", "--on-failure=undo", &verify];
        let ended = run(&server, &update);
        assert_eq!((ended.code, cluster.is_suspended()), (Some(3), false), "{resource} {} {}", ended.out, ended.err);
        assert_eq!(image(&live(&cluster)), "agent:1", "{resource} {} {}", ended.out, ended.err);
        assert!(ended.err.contains("waiting: "), "{resource} {}", ended.err);
    });
}

/// They are often stored apart from everything else, and tell no gate anything.
#[test]
fn events_that_cannot_be_read_do_not_prevent_a_rollback() {
    let cluster = Cluster::new();
    let (kept, is_deleted) = (cluster.clone(), AtomicBool::new(false));
    let server = Server::start(move |asked| {
        is_deleted.fetch_or(asked.method == "DELETE", Ordering::SeqCst);
        match asked.method == "GET" && asked.path().ends_with("/events") && is_deleted.load(Ordering::SeqCst) {
            true => refusal(500, "InternalError", "etcd-events is gone"),
            false => kept.answer(asked),
        }
    });
    let ended = run(&server, &[UPDATE, UNDO].concat());
    assert_eq!((ended.code, cluster.is_suspended()), (Some(3), false), "{} {}", ended.out, ended.err);
    assert_eq!(image(&live(&cluster)), "agent:1", "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("events could not be read"), "{}", ended.err);
}

/// Nothing tells how the new pods are, and those that are there are not the ones that fail.
#[test]
fn lists_of_pods_that_a_cache_answers_are_named_and_roll_nothing_back() {
    let cluster = Cluster::new();
    let (kept, frozen) = (cluster.clone(), Mutex::new(None::<Reply>));
    let server = Server::start(move |asked| {
        if asked.method == "DELETE" {
            kept.edit(|object| object["status"]["updatedNumberScheduled"] = 1.into());
        }
        match asked.method == "GET" && asked.path().ends_with("/pods") && !asked.target.contains("watch=true") {
            true => frozen.lock().unwrap().get_or_insert_with(|| kept.answer(asked)).clone(),
            false => kept.answer(asked),
        }
    });
    let update = ["partition", "agent", "0", "--image=agent=agent:2", "--progress-deadline=13s", "--on-failure=undo"];
    let ended = run(&server, &update);
    assert_eq!((ended.code, image(&live(&cluster))), (Some(6), &json!("agent:2")), "{} {}", ended.out, ended.err);
    let said = "updatedNumberScheduled is 1, but the list of pods has 0 updated pods: the list is out of date";
    assert!(ended.out.contains(&format!("waiting: {said}")) && ended.err.contains(said), "{} {}", ended.out, ended.err);
    assert!(!ended.out.contains("no pod is available") && cluster.is_suspended(), "{} {}", ended.out, ended.err);
    let deletions = server.asked().iter().filter(|asked| asked.method == "DELETE").count();
    assert_eq!(deletions, 1, "{}", ended.out);
}

/// Requests that fail for as long as progress may take say nothing about the new pods, which may be available by then.
#[test]
fn a_gate_that_could_not_be_confirmed_rolls_nothing_back() {
    let cluster = Cluster::new();
    let server = Server::start({
        let (cluster, lists) = (cluster.clone(), AtomicUsize::new(0));
        let (is_deleted, began) = (AtomicBool::new(false), Mutex::new(None::<Instant>));
        move |asked| {
            is_deleted.fetch_or(asked.method == "DELETE", Ordering::SeqCst);
            let is_list =
                asked.method == "GET" && asked.path().ends_with("/pods") && !asked.target.contains("watch=true");
            let mut reply = cluster.answer(asked);
            // The outage is as long on a slow machine.
            let outage = || began.lock().unwrap().get_or_insert_with(Instant::now).elapsed();
            if is_list && is_deleted.load(Ordering::SeqCst) && outage() < Duration::from_millis(4500) {
                if lists.fetch_add(1, Ordering::SeqCst) > 0 {
                    return refusal(500, "InternalError", "etcdserver: leader changed");
                }
                // What is read after the outage does not fail the gate.
                let body = String::from_utf8(reply.body).unwrap();
                reply.body = body.replacen("\"restartCount\":0", "\"restartCount\":3", 2).into_bytes();
            }
            reply
        }
    });
    let arguments = ["partition", "agent", "0", "--image=agent=agent:2", "--progress-deadline=2s", "--on-failure=undo"];
    let ended = run(&server, &arguments);
    assert_eq!((ended.code, image(&live(&cluster))), (Some(6), &json!("agent:2")), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("a gate had failed before that"), "{}", ended.err);
    assert!(ended.err.contains("the stage is not rolled back"), "{}", ended.err);
}

#[test]
fn a_gate_that_fails_on_the_last_node_rolls_all_nodes_back() {
    let cluster = Cluster::new();
    let server = admitting(&cluster, Of::All, |_, _| {});
    let flags = ["--verify=test \"$NODE\" = n1", "--on-failure=undo"];
    let ended = run(&server, &[UPDATE, &flags].concat());
    assert_eq!(ended.code, Some(3), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("rolling the updated nodes back to revision 1"), "{}", ended.err);
    assert_eq!((image(&live(&cluster)), cluster.is_suspended()), (&json!("agent:1"), false), "{}", ended.err);
    let deletions = server.asked().iter().filter(|asked| asked.method == "DELETE").count();
    assert_eq!(deletions, 4, "{} {}", ended.out, ended.err);
}

/// Nodes that are skipped keep what all others have left long ago.
#[test]
fn a_rollback_returns_to_what_most_nodes_had_before_the_stage() {
    let cluster = Cluster::new();
    let answer = admitted(&cluster, Of::All, |_, _| {});
    let server = Server::start(move |asked| {
        let mut reply = answer(asked);
        if asked.method != "GET" || asked.target.contains("watch=true") {
            return reply;
        }
        let resource = asked.path().rsplit('/').next().unwrap();
        let Ok(mut list) = serde_json::from_slice::<Value>(&reply.body) else { return reply };
        let Some(mut more) = list["items"].get(0).cloned() else { return reply };
        match resource {
            "nodes" => {
                more["metadata"]["name"] = "n3".into();
                more["metadata"]["labels"] = json!({"kubectl-ds/skip": "true"});
            }
            "pods" => {
                (more["metadata"]["name"], more["metadata"]["uid"]) = ("agent-old".into(), "uid-of-old".into());
                more["metadata"]["labels"]["controller-revision-hash"] = "agent-0".into();
                more["spec"]["nodeName"] = "n3".into();
            }
            "controllerrevisions" => {
                more["metadata"]["name"] = "agent-0".into();
                more["metadata"]["labels"]["controller-revision-hash"] = "agent-0".into();
                more["revision"] = 0.into();
                more["data"]["spec"]["template"]["spec"]["containers"][0]["image"] = "agent:0".into();
            }
            _ => return reply,
        }
        list["items"].as_array_mut().unwrap().push(more);
        reply.body = list.to_string().into_bytes();
        reply
    });
    let flags = ["--verify=test \"$NODE\" = n1", "--on-failure=undo"];
    let ended = run(&server, &[UPDATE, &flags].concat());
    assert_eq!(ended.code, Some(3), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("rolling the updated nodes back to revision 1"), "{}", ended.err);
    assert_eq!(image(&live(&cluster)), "agent:1", "{} {}", ended.out, ended.err);
}

/// Nothing is rolled back then: the others would be updated, past the gates of the stage.
#[test]
fn an_undo_to_the_template_that_is_held_updates_no_node() {
    let cluster = held();
    let before = cluster.object();
    let server = admitting(&cluster, Of::All, |_, _| {});
    for flags in [&["--dry-run=client"][..], &[]] {
        let ended = run(&server, &[&["undo", "agent", "--to-revision=2"], flags].concat());
        assert_eq!((ended.code, sent(&server)), (Some(0), 0), "{} {}", ended.out, ended.err);
        assert!(ended.out.contains("already has the template of revision 2; nothing was changed"), "{}", ended.out);
    }
    assert_eq!(cluster.object(), before);
    // What `--no-wait` has left of a rollback is carried out.
    assert_eq!(run(&server, &["undo", "agent", "--no-wait"]).code, Some(0));
    let ended = run(&server, &["undo", "agent", "--to-revision=1"]);
    assert_eq!((ended.code, cluster.is_suspended()), (Some(0), false), "{} {}", ended.out, ended.err);
    assert_eq!(server.asked().iter().filter(|asked| asked.method == "DELETE").count(), 1);
}

/// To resume would go on with what the stage was to replace.
#[test]
fn a_rollout_that_is_not_over_is_not_resumed_after_its_template_was_kept() {
    for (updated, resumes) in [(1, false), (2, true)] {
        let cluster = Cluster::new();
        roll_out(&cluster, "agent:2");
        cluster.edit(|object| {
            object["status"]["desiredNumberScheduled"] = 2.into();
            object["status"]["updatedNumberScheduled"] = updated.into();
        });
        let server = admitting(&cluster, Of::Real, keep_template);
        let ended = run(&server, &["partition", "agent", "0", "--to-revision=1"]);
        assert_eq!((ended.code, cluster.is_suspended()), (Some(1), true), "{} {}", ended.out, ended.err);
        let shown = format!("{}{}", ended.out, ended.err);
        assert_eq!(shown.contains("kubectl ds resume"), resumes, "{shown}");
    }
}

#[test]
fn a_template_that_an_undo_was_to_leave_is_not_said_to_be_continued() {
    let cluster = held();
    let other = ["partition", "agent", "0", "--image=agent=agent:3"];
    for is_left in [false, true] {
        if is_left {
            assert_eq!(run(&admitting(&cluster, Of::Real, keep_template), &["undo", "agent"]).code, Some(1));
        }
        let ended = run(&admitting(&cluster, Of::All, keep_template), &other);
        assert_eq!(ended.code, Some(1), "{} {}", ended.out, ended.err);
        assert!(ended.err.contains("the template of team/agent cannot be changed"), "{}", ended.err);
        assert_eq!(ended.err.contains("leave out --image"), !is_left, "{}", ended.err);
    }
}

/// The revision that was left does not show that it was.
#[test]
fn a_revision_that_admission_has_made_does_not_promise_what_the_next_undo_does() {
    let cluster = Cluster::new();
    roll_out(&cluster, "agent:2");
    let ended = run(&admitting(&cluster, Of::All, mirror), &["undo", "agent", "--to-revision=1"]);
    assert_eq!(ended.code, Some(0), "{} {}", ended.out, ended.err);
    assert!(ended.out.contains("revision 2 is retained, and the next `undo` may return to it"), "{}", ended.out);
    assert!(!ended.out.contains("only with --to-revision"), "{}", ended.out);
}

/// What is stored is not what was rolled back to, whether or not the controller is waited for.
#[test]
fn an_image_that_admission_has_rewritten_is_named() {
    for (arguments, code) in [
        (&["undo", "agent", "--to-revision=1", "--no-wait"][..], 0),
        (&["undo", "agent", "--to-revision=1"], 0),
        (&["undo", "agent", "--to-revision=1", "--timeout=30s"], 0),
        (&["undo", "agent", "--to-revision=1", "--dry-run=server"], 0),
        (&["undo", "agent", "--to-revision=1", "--no-wait", "-o", "json"], 0),
        (&["undo", "agent", "--to-revision=1", "--no-wait", "-o", "yaml"], 0),
    ] {
        let cluster = Cluster::new();
        roll_out(&cluster, "agent:2");
        let ended = run(&admitting(&cluster, Of::All, mirror), arguments);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {} {}", ended.out, ended.err);
        assert!(ended.out.contains("mirror/agent:1"), "{arguments:?}: {}", ended.out);
    }
}

/// What an undo was to leave may have been put back.
#[test]
fn what_replaces_the_template_of_a_rollback_is_not_rolled_out() {
    let cluster = held();
    let server = Server::start({
        let cluster = cluster.clone();
        move |asked| {
            let reply = cluster.answer(asked);
            if asked.method == "PATCH" && !is_dry_run(asked) {
                roll_out(&cluster, "agent:2");
            }
            reply
        }
    });
    let ended = run(&server, &["undo", "agent"]);
    assert_eq!((ended.code, cluster.is_suspended()), (Some(1), true), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("the template of team/agent was changed"), "{}", ended.err);
    assert!(ended.err.contains("how to continue: kubectl ds status -n team"), "{}", ended.err);
    assert!(!ended.err.contains("kubectl ds resume"), "{}", ended.err);
}

#[test]
fn an_undo_waits_for_the_first_answers_no_longer_than_was_asked() {
    let cluster = held();
    let server = Server::start({
        let (cluster, silent) = (cluster.clone(), Mutex::new(Vec::new()));
        move |asked| match asked.path().ends_with("/pods") {
            true => {
                let (reply, sender) = Reply::open(JSON);
                silent.lock().unwrap().push(sender);
                reply
            }
            false => cluster.answer(asked),
        }
    });
    let began = Instant::now();
    let ended = run(&server, &["undo", "agent", "--timeout=1s"]);
    assert_eq!((ended.code, sent(&server)), (Some(4), 0), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("the API server has not answered within 1s; nothing was changed"), "{}", ended.err);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// A cache on the way may answer with the partition from before.
#[test]
fn an_older_answer_is_not_another_client_of_an_advanced_daemon_set() {
    let cluster = Cluster::new();
    cluster.edit(|object| object["apiVersion"] = "apps.kruise.io/v1beta1".into());
    let server = Server::start({
        let (cluster, first): (Arc<Cluster>, _) = (cluster.clone(), live(&cluster));
        let (is_begun, stale) = (AtomicUsize::new(0), AtomicUsize::new(0));
        move |asked| match asked.path() {
            "/apis" => api_groups(&[("apps", &["v1"]), ("apps.kruise.io", &["v1beta1"])]),
            "/apis/apps.kruise.io/v1beta1" => {
                let resources = json!({"kind": "APIResourceList", "resources": [{"name": "daemonsets"}]});
                Reply::of(200, JSON, resources.to_string())
            }
            path => {
                is_begun.fetch_add(usize::from(asked.method == "PATCH" && !is_dry_run(asked)), Ordering::SeqCst);
                let mut reply = cluster.answer(asked);
                if path.ends_with("/daemonsets") {
                    let body = String::from_utf8(reply.body).unwrap();
                    reply.body = body.replace("\"apps/v1\"", "\"apps.kruise.io/v1beta1\"").into_bytes();
                }
                let is_list = asked.method == "GET"
                    && path.starts_with("/apis/apps.kruise.io/")
                    && path.ends_with("/daemonsets")
                    && !asked.target.contains("watch=true");
                if is_list && is_begun.load(Ordering::SeqCst) > 0 && stale.fetch_add(1, Ordering::SeqCst) < 1 {
                    let mut list: Value = serde_json::from_slice(&reply.body).unwrap();
                    list["metadata"]["resourceVersion"] = "1".into();
                    list["items"][0] = first.clone();
                    return Reply::of(200, JSON, list.to_string());
                }
                reply
            }
        }
    });
    let ended = run(&server, &["partition", "ads/agent", "1", "--progress-deadline=5s"]);
    assert_eq!(ended.code, Some(0), "{} {}", ended.out, ended.err);
}

/// Serves a cluster with a policy that refuses pods of an image, and is newer than those that run.
fn refusing(cluster: &Arc<Cluster>, image: &'static str) -> Server {
    let cluster = cluster.clone();
    Server::start(move |asked| {
        let is_pod = asked.method == "POST" && asked.path().ends_with("/pods");
        match is_pod && String::from_utf8_lossy(&asked.body).contains(&format!("\"image\":\"{image}\"")) {
            true => refusal(
                422,
                "Invalid",
                "pods \"agent-\" is forbidden: ValidatingAdmissionPolicy 'registry' with binding 'registry' denied request: \
                 images must start with registry.local/",
            ),
            false => cluster.answer(asked),
        }
    })
}

/// Returns how many pods were deleted.
fn deletions(server: &Server) -> usize {
    server.asked().iter().filter(|asked| asked.method == "DELETE").count()
}

#[test]
fn no_way_back_deletes_pods_for_such_as_are_refused() {
    let updated = || {
        let cluster = Cluster::new();
        let server = admitting(&cluster, Of::All, |_, _| {});
        assert_eq!(run(&server, UPDATE).code, Some(0));
        cluster
    };
    for (cluster, arguments) in [
        (held(), &["undo", "agent"][..]),
        (held(), &["undo", "agent", "--to-revision=1"]),
        (held(), &["partition", "agent", "0", "--to-revision=1"]),
        (updated(), &["partition", "agent", "50%", "--to-revision=1"]),
        (updated(), &["undo", "agent"]),
        (updated(), &["undo", "agent", "--to-revision=1", "--dry-run=server"]),
    ] {
        let before = live(&cluster);
        let server = refusing(&cluster, "agent:1");
        let ended = run(&server, arguments);
        assert_eq!((ended.code, deletions(&server), sent(&server)), (Some(1), 0, 0), "{arguments:?} {}", ended.err);
        assert!(
            ended.err.contains("admission policy registry denied") && ended.err.contains("--force"),
            "{arguments:?} {}",
            ended.err
        );
        assert_eq!(live(&cluster)["spec"], before["spec"]);
    }
    // Whoever knows better may, and what is not refused goes on.
    let cluster = held();
    let ended = run(&refusing(&cluster, "agent:1"), &["undo", "agent", "--force"]);
    assert_eq!((ended.code, image(&live(&cluster))), (Some(0), &json!("agent:1")), "{}", ended.err);
    let cluster = held();
    let ended = run(&refusing(&cluster, "agent:3"), &["undo", "agent"]);
    assert_eq!((ended.code, image(&live(&cluster))), (Some(0), &json!("agent:1")), "{}", ended.err);
}

#[test]
fn a_gate_that_fails_rolls_nothing_back_to_a_revision_whose_pods_are_refused() {
    let cluster = Cluster::new();
    let server = refusing(&cluster, "agent:1");
    let ended = run(&server, &[UPDATE, UNDO].concat());
    assert_eq!((ended.code, deletions(&server)), (Some(3), 1), "{} {}", ended.out, ended.err);
    assert!(
        ended.err.contains("admission policy registry denied") && ended.err.contains("kubectl ds undo"),
        "{}",
        ended.err
    );
    assert_eq!((image(&live(&cluster)), cluster.is_suspended()), (&json!("agent:2"), true));
}

/// The strategy that was restored at the end replaces nothing.
#[test]
fn a_rollout_that_was_finished_without_its_client_is_not_said_to_go_on() {
    let runs = [
        (None, "the rollout was finished without this run"),
        (Some("kubectl-ds"), "another client has finished the rollout"),
        (Some("flux"), "\"flux\" has restored the update strategy, and the controller has finished the rollout"),
    ];
    side_by_side(runs, |(manager, how)| {
        let (cluster, folder) = (Cluster::new(), tempfile::tempdir().unwrap());
        let server = admitting(&cluster, Of::All, |_, _| {});
        let is_verifying = folder.path().join("verifying");
        let verify = format!("--verify=touch '{}'; sleep 3", is_verifying.display());
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_verifying.exists() {
                    std::thread::sleep(Duration::from_millis(50));
                }
                let written = manager.map(|manager| json!({"manager": manager, "operation": "Update"}));
                cluster.edit(|object| object["metadata"]["managedFields"] = written.into_iter().collect());
                cluster.finish();
            });
            run(&server, &["partition", "agent", "50%", "--image=agent=agent:2", &verify])
        });
        assert_eq!(ended.code, Some(1), "{} {}", ended.out, ended.err);
        assert!(ended.err.contains(&format!("{how}: 2 of 2 on revision 2")), "{}", ended.err);
        assert!(ended.out.contains("2 nodes on revision 2, 0 on other revisions"), "{}", ended.out);
        assert!(!ended.err.contains("pause") && !ended.err.contains("replacing"), "{}", ended.err);
    });
}

/// Returns a cluster whose API server counts templates.
fn counting() -> Arc<Cluster> {
    let cluster = Cluster::new();
    cluster.edit(|object| object["metadata"]["annotations"] = json!({TEMPLATE_GENERATION: "1"}));
    cluster
}

/// Serves a cluster in which somebody does something right before a change is made, counted from 0.
fn before_change(cluster: &Arc<Cluster>, method: &'static str, nth: usize, meddle: fn(&Cluster)) -> Server {
    let (cluster, changes) = (cluster.clone(), AtomicUsize::new(0));
    Server::start(move |asked| {
        let is_change = asked.method == method && !is_dry_run(asked);
        if is_change && changes.fetch_add(1, Ordering::SeqCst) == nth {
            meddle(&cluster);
        }
        cluster.answer(asked)
    })
}

fn restore(cluster: &Cluster) {
    cluster.edit(|object| object["spec"]["updateStrategy"]["type"] = "RollingUpdate".into());
}

/// The rollback was to another template, and a Job repeats its command.
#[test]
fn what_somebody_rolls_out_in_a_rollback_is_not_taken_for_its_target() {
    let cluster = counting();
    let server = before_change(&cluster, "PATCH", 2, |cluster| {
        roll_out(cluster, "agent:3");
        cluster.edit(|object| object["metadata"]["annotations"][TEMPLATE_GENERATION] = "4".into());
    });
    let update = [UPDATE, UNDO].concat();
    let ended = run(&server, &update);
    assert_eq!((ended.code, image(&live(&cluster))), (Some(3), &json!("agent:3")), "{} {}", ended.out, ended.err);
    let server = admitting(&cluster, Of::All, |_, _| {});
    for flags in [&[][..], &["--if-generation=1"], &["--dry-run"]] {
        let ended = run(&server, &[&update[..], flags].concat());
        assert_eq!((ended.code, sent(&server)), (Some(3), 0), "{flags:?} {} {}", ended.out, ended.err);
        assert!(ended.err.contains("and the template was changed since"), "{}", ended.err);
        assert!(ended.err.contains("to finish the rollback: kubectl ds undo --to-revision 1"), "{}", ended.err);
    }
    let ended = run(&server, &["undo", "agent", "--to-revision=1"]);
    assert_eq!((ended.code, image(&live(&cluster))), (Some(0), &json!("agent:1")), "{} {}", ended.out, ended.err);
    assert!(!cluster.is_suspended());
}

/// Without a number it would go back further.
#[test]
fn a_rollback_whose_hold_somebody_ends_is_repeated_to_the_same_revision() {
    let cluster = held();
    let ended = run(&before_change(&cluster, "DELETE", 0, restore), &["undo", "agent"]);
    // It was deleted before that was seen.
    assert!(matches!(ended.code, Some(0 | 1)), "{} {}", ended.out, ended.err);
    let cluster = held();
    let ended = run(&before_change(&cluster, "PATCH", 1, restore), &["undo", "agent"]);
    assert_eq!(ended.code, Some(1), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("roll back: kubectl ds undo --to-revision 1"), "{}", ended.err);
}

#[test]
fn a_strategy_that_is_restored_right_before_the_last_patch_is_no_edit_to_review() {
    for (gates, code) in [(&[][..], 1), (UNDO, 3)] {
        let cluster = Cluster::new();
        let last = if code == 3 { 2 } else { 1 };
        let ended = run(&before_change(&cluster, "PATCH", last, restore), &[UPDATE, gates].concat());
        assert_eq!(ended.code, Some(code), "{} {}", ended.out, ended.err);
        assert!(ended.err.contains("was restored, so the controller"), "{}", ended.err);
        assert!(ended.err.contains("kubectl ds resume") && !ended.err.contains("review"), "{}", ended.err);
    }
}

/// Begun by somebody else for another template.
#[test]
fn a_rollout_for_one_generation_does_not_replace_another_one_that_is_held() {
    let cluster = counting();
    let server = admitting(&cluster, Of::All, |_, _| {});
    let of = |image: &str, keep: &str| {
        let image = format!("--image=agent=agent:{image}");
        run(&server, &["partition", "agent", keep, &image, "--progress-deadline=3s", "--if-generation=1"])
    };
    assert_eq!(of("2", "1").code, Some(0));
    assert_eq!(of("2", "0").code, Some(0), "the same command goes on");
    let cluster = counting();
    let server = admitting(&cluster, Of::All, |_, _| {});
    assert_eq!(run(&server, &["partition", "agent", "1", "--image=agent=agent:3"]).code, Some(0));
    let before = sent(&server);
    for flags in [&["0", "--stages=50%,100%"][..], &["--update=2"]] {
        let ended =
            run(&server, &[&["partition", "agent", "--image=agent=agent:2", "--if-generation=1"], flags].concat());
        assert_eq!((ended.code, sent(&server)), (Some(3), before), "{} {}", ended.out, ended.err);
        assert!(ended.err.contains("the rollout was not begun"), "{}", ended.err);
    }
}

/// A Job repeats its command, whatever somebody has done since its client died.
#[test]
fn a_rollout_for_one_generation_does_not_go_on_over_a_pause_or_another_template() {
    let of = |image: &str, meddle: &dyn Fn(&Cluster, &Server)| {
        let cluster = counting();
        let server = admitting(&cluster, Of::All, |_, _| {});
        let again = |keep: &str| {
            let image = format!("--image={image}=agent:2");
            run(&server, &["partition", "agent", keep, &image, "--progress-deadline=3s", "--if-generation=1"])
        };
        assert_eq!(again("1").code, Some(0));
        meddle(&cluster, &server);
        let before = sent(&server);
        let ended = again("0");
        assert_eq!((ended.code, sent(&server)), (Some(3), before), "{} {}", ended.out, ended.err);
        ended.err
    };
    let pause = |_: &Cluster, server: &Server| assert_eq!(run(server, &["pause", "agent"]).code, Some(0));
    assert!(of("agent", &pause).contains("was paused after the rollout had begun"));
    let change = |cluster: &Cluster, path: &str, value: Value| {
        cluster.edit(|object| {
            *object["spec"]["template"]["spec"].pointer_mut(path).unwrap() = value;
            object["metadata"]["annotations"][TEMPLATE_GENERATION] = "3".into();
            object["metadata"]["generation"] = 9.into();
        });
    };
    let scale = |cluster: &Cluster, _: &Server| {
        cluster.edit(|object| object["spec"]["template"]["spec"]["nodeSelector"] = json!({}));
        change(cluster, "/nodeSelector", json!({"no": "node"}));
    };
    assert!(of("agent", &scale).contains("has changed (generation 9, expected 1)"));
    let rename = |cluster: &Cluster, _: &Server| change(cluster, "/containers/0/name", json!("other"));
    assert!(of("agent", &rename).contains("has changed (generation 9, expected 1)"));
}

/// A stage of which nothing was updated has shown nothing.
#[test]
fn a_stage_whose_only_node_is_skipped_meanwhile_does_not_pass() {
    let cluster = Cluster::new();
    let server = Server::start({
        let (cluster, is_begun) = (cluster.clone(), AtomicBool::new(false));
        move |asked| {
            is_begun.fetch_or(asked.method == "PATCH" && !is_dry_run(asked), Ordering::SeqCst);
            let mut reply = cluster.answer(asked);
            if asked.path() == "/api/v1/nodes" && is_begun.load(Ordering::SeqCst) {
                let body = String::from_utf8(reply.body).unwrap();
                let labels = r#""labels":{"kubectl-ds/skip":""},"name":"n1""#;
                reply.body = body.replace(r#""name":"n1""#, labels).into_bytes();
            }
            reply
        }
    });
    let stages = ["partition", "agent", "0", "--image=agent=agent:2", "--progress-deadline=3s", "--stages=1,100%"];
    let ended = run(&server, &stages);
    assert_eq!((ended.code, deletions(&server)), (Some(3), 0), "{} {}", ended.out, ended.err);
    assert!(ended.out.contains("n1 is skipped because of the label kubectl-ds/skip"), "{} {}", ended.out, ended.err);
}

/// As with `head`, or a `tee` that dies.
#[test]
fn a_gate_that_fails_is_told_although_nobody_reads_the_output() {
    for (flags, code) in [(&["--verify=sleep 1; false"][..], 3), (&["--verify=sleep 1", "--stages=1,100%"], 6)] {
        let cluster = Cluster::new();
        let server = admitting(&cluster, Of::All, |_, _| {});
        let address = format!("http://{}", server.address);
        let mut command = kubectl_ds(&[UPDATE, flags, &["-n", "team", "--server", &address]].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{first} {err}");
        match code {
            3 => assert!(err.contains("--verify command failed") && err.contains("to roll back"), "{err}"),
            _ => assert!(err.contains("before the next stage was shown; it was not begun"), "{err}"),
        }
    }
}
