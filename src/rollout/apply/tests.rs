//! Each response of a server to a step, and how it is reported.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Application, Failed, Kept, Server, StepRefusal, apply, look_again};
use crate::coverage::test_support::merge;
use crate::model::daemon_set::DaemonSet;
use crate::model::hold::StageFlags;
use crate::model::pod::Pod;
use crate::plan::{Plan, PodRef, SpecFields, Step, StrategyType};

/// A server with scripted responses; objects are read from the end of the list, and the first one stays.
struct Script {
    answers: RefCell<Vec<Result<Value, Failed<&'static str>>>>,
    now: RefCell<Vec<Result<Option<Value>, &'static str>>>,
    sent: Cell<usize>,
}

impl Script {
    fn new(answer: Result<Value, Failed<&'static str>>, now: Vec<Result<Option<Value>, &'static str>>) -> Self {
        Script { answers: RefCell::new(vec![answer]), now: RefCell::new(now), sent: Cell::new(0) }
    }

    fn read_now(&self) -> Result<Option<Value>, &'static str> {
        let mut now = self.now.borrow_mut();
        let read = if now.len() > 1 { now.pop() } else { now.last().cloned() };
        read.unwrap()
    }
}

impl Server for Script {
    type Error = &'static str;

    async fn send(&self, step: &Step) -> Result<Value, Failed<&'static str>> {
        self.sent.set(self.sent.get() + 1);
        let Step::PatchDaemonSet(patch) = step else { return self.answers.borrow_mut().pop().unwrap() };
        let locked_on = patch.patch().0.first().map(|operation| serde_json::to_value(operation).unwrap());
        let now = self.now.borrow().last().cloned().and_then(Result::ok).flatten();
        let now = now.as_ref();
        match self.answers.borrow_mut().pop() {
            Some(answer) => answer,
            // Like a real server, it compares the resource version.
            None if now.is_some_and(|now| locked_on.unwrap()["value"] == now["metadata"]["resourceVersion"]) => {
                let mut changed = patch.applied_to(now.unwrap()).unwrap();
                changed["metadata"]["resourceVersion"] = "9".into();
                Ok(changed)
            }
            None => Err(Failed::Conflict("conflict")),
        }
    }

    async fn try_out(&self, step: &Step) -> Result<Value, Failed<&'static str>> {
        let tried = self.send(step).await;
        self.sent.set(self.sent.get() - 1);
        tried
    }

    async fn read_daemon_set(&self, _: &DaemonSet) -> Result<Option<DaemonSet>, &'static str> {
        self.read_now().map(|object| object.map(|object| DaemonSet::from_object(object).unwrap()))
    }

    async fn read_pod(&self, _: &PodRef) -> Result<Option<Pod>, &'static str> {
        self.read_now().map(|object| object.map(|object| serde_json::from_value(object).unwrap()))
    }

    async fn pause(&self, _: Duration) {}

    fn unexpected(&self, _: &Step, _: &str) -> &'static str {
        "unexpected"
    }
}

fn object(image: &str, change: impl Fn(&mut Value)) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"namespace": "team", "name": "agent", "uid": "1", "resourceVersion": "7"},
        "spec": {"template": {"spec": {"containers": [{"name": "agent", "image": image}]}}},
    });
    change(&mut object);
    object
}

/// Applies a rollback to `agent:1`, and returns the outcome and how often it was sent.
fn applied(
    answer: Result<Value, Failed<&'static str>>,
    now: Result<Option<Value>, &'static str>,
    is_dry_run: bool,
) -> (Application<&'static str>, usize) {
    apply_to(&Script::new(answer, vec![now]), is_dry_run)
}

/// Applies a rollback whose response is lost, and returns the outcome.
fn reads(
    answer: Result<Value, Failed<&'static str>>,
    now: Vec<Result<Option<Value>, &'static str>>,
) -> Application<&'static str> {
    apply_to(&Script::new(answer, now), false).0
}

fn apply_to(script: &Script, is_dry_run: bool) -> (Application<&'static str>, usize) {
    let target = DaemonSet::from_object(object("agent:1", |_| {})).unwrap().template();
    let before = before();
    carried_out(script, &Plan::undo(&before, &target), &before, is_dry_run)
}

/// Returns the answer to a dry run, which stores nothing.
fn unstored(mut answer: Value) -> Value {
    answer["metadata"]["resourceVersion"] = "7".into();
    answer
}

fn before() -> DaemonSet {
    DaemonSet::from_object(object("agent:2", |_| {})).unwrap()
}

fn carried_out(
    script: &Script,
    plan: &Plan,
    before: &DaemonSet,
    is_dry_run: bool,
) -> (Application<&'static str>, usize) {
    let application = pin!(apply(script, plan.step.as_ref().unwrap(), before, is_dry_run));
    match application.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(application) => (application, script.sent.get()),
        Poll::Pending => panic!("nothing here waits"),
    }
}

/// Nobody knows for which version it was sent last.
#[test]
fn what_became_of_a_patch_that_was_given_up_on_is_read_again() {
    let target = DaemonSet::from_object(object("agent:1", |_| {})).unwrap().template();
    let version =
        |image: &str, version: &str| object(image, |object| object["metadata"]["resourceVersion"] = version.into());
    for (now, expected) in [
        (Ok(Some(version("agent:1", "8"))), Application::Applied(version("agent:1", "8"))),
        (Ok(Some(version("agent:2", "7"))), Application::NotSeen("late")),
        (Ok(Some(version("agent:2", "8"))), Application::NotSeen("late")),
        (Ok(Some(version("agent:2", "6"))), Application::Unknown("late")),
        (Ok(None), Application::Refused(StepRefusal::Deleted)),
        (Err("down"), Application::Unknown("late")),
    ] {
        let (script, before) = (Script::new(Err(Failed::NotFound), vec![now.clone()]), before());
        let plan = Plan::undo(&before, &target);
        let application = pin!(look_again(&script, plan.step.as_ref().unwrap(), &before, "late"));
        assert_eq!(application.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(expected), "{now:?}");
        assert_eq!(script.sent.get(), 0);
    }
}

#[test]
fn that_an_object_does_not_exist_is_believed_only_if_it_cannot_be_read_either() {
    let told = |now| applied(Err(Failed::NotFound), now, false).0;
    let version = |image| object(image, |object| object["metadata"]["resourceVersion"] = "8".into());
    assert_eq!(told(Ok(None)), Application::Refused(StepRefusal::Deleted));
    assert_eq!(told(Err("down")), Application::Unknown("unexpected"));
    assert_eq!(told(Ok(Some(version("agent:1")))), Application::Applied(version("agent:1")));
    assert_eq!(told(Ok(Some(object("agent:2", |_| {})))), Application::NotSeen("unexpected"));
}

#[test]
fn a_dry_run_that_was_carried_out_is_told() {
    let of_version = |version: &str| object("agent:1", |object| object["metadata"]["resourceVersion"] = version.into());
    let tried = |version: &str| applied(Ok(of_version(version)), Err("down"), true);
    assert_eq!(tried("7"), (Application::Applied(of_version("7")), 1));
    assert_eq!(tried("8"), (Application::NotDry, 1));
}

#[test]
fn nothing_is_sent_that_no_version_locks() {
    let without = |field: &str| {
        let object = object("agent:2", |object| drop(object["metadata"].as_object_mut().unwrap().remove(field)));
        DaemonSet::from_object(object).unwrap()
    };
    let target = DaemonSet::from_object(object("agent:1", |_| {})).unwrap().template();
    for field in ["resourceVersion", "uid"] {
        let before = without(field);
        let script = Script::new(Ok(object("agent:1", |_| {})), vec![Ok(None)]);
        let (application, sent) = carried_out(&script, &Plan::undo(&before, &target), &before, false);
        assert_eq!((application, sent), (Application::Refused(StepRefusal::ByServer("unexpected")), 0), "{field}");
    }
    let pod = PodRef {
        namespace: "team".to_owned(),
        name: "agent-x".to_owned(),
        uid: String::new(),
        resource_version: "7".to_owned(),
    };
    let script = Script::new(Ok(json!({})), vec![Ok(None)]);
    let (deletion, before) = (Step::DeletePod(pod), before());
    let application = pin!(apply(&script, &deletion, &before, false));
    let refused = Application::Refused(StepRefusal::ByServer("unexpected"));
    assert_eq!(application.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(refused));
    assert_eq!(script.sent.get(), 0);
}

#[test]
fn what_became_of_a_deletion_is_told_from_the_pod() {
    let pod = |uid: &str, deleted: Option<&str>| json!({"kind": "Pod", "metadata": {"name": "agent-x", "uid": uid, "deletionTimestamp": deleted}});
    let at = Some("2026-11-21T06:00:00Z");
    let deletion = Step::DeletePod(PodRef {
        namespace: "team".to_owned(),
        name: "agent-x".to_owned(),
        uid: "1".to_owned(),
        resource_version: "7".to_owned(),
    });
    let before = DaemonSet::from_object(object("agent:2", |_| {})).unwrap();
    let success = json!({"kind": "Status", "apiVersion": "v1", "status": "Success"});
    let failure = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure"});
    let gone = || Application::Applied(Value::Null);
    let lost = || Err(Failed::OutcomeUnknown("lost"));
    let conflict = || Err(Failed::Conflict("conflict"));
    let refused = || Err(Failed::Refused("no"));
    let busy = || Err(Failed::Busy("busy"));
    let odd = |answer: Value| Ok(answer);
    for (answer, now, expected) in [
        (Ok(pod("1", at)), Err("down"), Application::Applied(pod("1", at))),
        (Ok(success.clone()), Ok(None), gone()),
        (Ok(success.clone()), Ok(Some(pod("1", None))), Application::NotSeen("unexpected")),
        (Err(Failed::NotFound), Err("down"), Application::Unknown("unexpected")),
        (Err(Failed::NotFound), Ok(Some(pod("1", at))), gone()),
        // Another server was asked.
        (Err(Failed::NotFound), Ok(Some(pod("1", None))), Application::NotSeen("unexpected")),
        (refused(), Err("down"), Application::Refused(StepRefusal::ByServer("no"))),
        (refused(), Ok(Some(pod("1", None))), Application::Refused(StepRefusal::ByServer("no"))),
        (refused(), Ok(Some(pod("1", at))), gone()),
        (refused(), Ok(Some(pod("2", None))), Application::Recreated),
        (refused(), Ok(None), gone()),
        (lost(), Ok(None), gone()),
        (lost(), Ok(Some(pod("1", at))), gone()),
        // It may still be in flight.
        (lost(), Ok(Some(pod("1", None))), Application::NotSeen("lost")),
        (busy(), Ok(Some(pod("1", None))), Application::Refused(StepRefusal::NotApplied("busy"))),
        (busy(), Ok(Some(pod("1", at))), gone()),
        (lost(), Ok(Some(pod("2", None))), Application::Recreated),
        (lost(), Err("down"), Application::Unknown("lost")),
        (conflict(), Ok(Some(pod("1", None))), Application::Refused(StepRefusal::Contended)),
        (conflict(), Ok(Some(pod("1", at))), gone()),
        (
            Err(Failed::Blocked("no".to_owned())),
            Err("down"),
            Application::Refused(StepRefusal::Blocked("no".to_owned())),
        ),
        (conflict(), Ok(Some(pod("2", None))), Application::Recreated),
        (odd(json!({})), Ok(Some(pod("1", None))), Application::NotSeen("unexpected")),
        (odd(pod("2", at)), Ok(None), gone()),
        (odd(failure), Ok(Some(pod("1", None))), Application::NotSeen("unexpected")),
    ] {
        let script = Script::new(answer, vec![now]);
        let application = pin!(apply(&script, &deletion, &before, false));
        assert_eq!(application.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(expected));
    }
}

#[test]
fn what_became_of_a_patch_is_told_from_the_object() {
    let changed = || object("agent:1", |object| object["metadata"]["resourceVersion"] = "8".into());
    let edited = |manager: &'static str| {
        object("agent:3", move |object| {
            object["metadata"]["resourceVersion"] = "8".into();
            object["metadata"]["managedFields"] = json!([{"manager": manager, "operation": "Update"}]);
        })
    };
    let recreated = || object("agent:1", |object| object["metadata"]["uid"] = "2".into());
    let status = || object("agent:2", |object| object["metadata"]["resourceVersion"] = "8".into());
    let conflict = || Err(Failed::Conflict("conflict"));
    let lost = || Err(Failed::OutcomeUnknown("lost"));
    let is_changed_by = |application: &Application<&str>, manager: &str| {
        matches!(application, Application::Refused(StepRefusal::Changed { by, changes })
            if by.as_slice() == [manager] && changes.len() == 1)
    };
    let not_applied = |error| Application::Refused(StepRefusal::NotApplied(error));

    assert_eq!(applied(Ok(changed()), Err("down"), false), (Application::Applied(changed()), 1));
    let refused = || Err(Failed::Refused("no"));
    for now in [Err("down"), Ok(Some(status())), Ok(Some(edited("kubectl-edit"))), Ok(None)] {
        assert_eq!(applied(refused(), now, false), (Application::Refused(StepRefusal::ByServer("no")), 1));
    }
    // A proxy has sent it twice, and only the second one was refused.
    assert_eq!(applied(refused(), Ok(Some(changed())), false), (Application::Applied(changed()), 1));
    for failed in [conflict, lost] {
        assert_eq!(applied(failed(), Ok(Some(changed())), false), (Application::Applied(changed()), 1));
        assert_eq!(applied(failed(), Ok(Some(recreated())), false), (Application::Recreated, 1));
        assert_eq!(applied(failed(), Ok(None), false), (Application::Refused(StepRefusal::Deleted), 1));
        let (application, sent) = applied(failed(), Ok(Some(edited("kubectl-edit"))), false);
        assert!(is_changed_by(&application, "kubectl-edit") && sent == 1, "{application:?}");
        // Under this tool's own name it may have been this very patch, modified by a webhook.
        let (application, _) = applied(failed(), Ok(Some(edited("kubectl-ds"))), false);
        assert!(matches!(application, Application::Unknown(_)), "{application:?}");
        // Not if the spec was written once, and a dry run shows that no webhook modifies the patch.
        for (generation, tried, is_known) in [(1, "agent:1", true), (1, "agent:3", false), (2, "agent:1", false)] {
            let mut edited = edited("kubectl-ds");
            edited["metadata"]["generation"] = generation.into();
            let answers = vec![Ok(object(tried, |_| {})), failed()];
            let script = Script {
                answers: RefCell::new(answers),
                now: RefCell::new(vec![Ok(Some(edited))]),
                sent: Cell::new(0),
            };
            let (application, sent) = apply_to(&script, false);
            assert_eq!((is_changed_by(&application, "kubectl-ds"), sent), (is_known, 1), "{application:?}");
            // If it makes of the patch what is stored, the patch was applied.
            assert_eq!(matches!(application, Application::Applied(_)), tried == "agent:3", "{application:?}");
        }
    }
    // The server may still apply it, as long as nothing has been written since.
    let same = || object("agent:2", |_| {});
    assert_eq!(applied(lost(), Ok(Some(same())), false), (Application::NotSeen("lost"), 1));
    assert_eq!(reads(lost(), vec![Ok(Some(changed())), Ok(Some(same()))]), Application::Applied(changed()));
    assert_eq!(reads(lost(), vec![Err("down"), Ok(Some(same()))]), Application::Unknown("lost"));
    assert_eq!(reads(lost(), vec![Err("down"), Ok(Some(status()))]), not_applied("lost"));
    // It may have been applied, and overwritten by somebody else.
    let twice = |generation: i64| {
        let mut edited = edited("kubectl-edit");
        edited["metadata"]["generation"] = generation.into();
        edited
    };
    assert!(is_changed_by(&applied(lost(), Ok(Some(twice(1))), false).0, "kubectl-edit"));
    assert_eq!(applied(lost(), Ok(Some(twice(2))), false), (Application::Unknown("lost"), 1));
    assert!(is_changed_by(&applied(conflict(), Ok(Some(twice(2))), false).0, "kubectl-edit"));
    // It may have been applied, and reverted.
    let reverted = object("agent:2", |object| {
        merge(&mut object["metadata"], json!({"resourceVersion": "9", "generation": 2}));
    });
    assert_eq!(applied(lost(), Ok(Some(reverted.clone())), false), (Application::Unknown("lost"), 1));
    // Also after a read that did not show it yet.
    let found = vec![Ok(Some(reverted)), Ok(Some(same()))];
    assert_eq!(reads(lost(), found), Application::Unknown("lost"));
    // A response that is older than the change.
    let stale = object("agent:1", |_| {});
    assert_eq!(applied(Ok(stale), Ok(Some(same())), false), (Application::NotSeen("unexpected"), 1));
    assert_eq!(applied(conflict(), Err("down"), false), (Application::Unknown("conflict"), 1));
    // An object older than one read before proves nothing.
    let older = |image: &str| object(image, |object| object["metadata"]["resourceVersion"] = "6".into());
    for image in ["agent:2", "agent:0"] {
        assert_eq!(applied(lost(), Ok(Some(older(image))), false), (Application::Unknown("lost"), 1));
    }
    // The API server has not processed it.
    let busy = || Err(Failed::Busy("busy"));
    assert_eq!(applied(busy(), Ok(Some(same())), false), (Application::Refused(StepRefusal::ByServer("busy")), 1));
    // A single failed read does not hide the outcome.
    let sent_again = reads(conflict(), vec![Ok(Some(status())), Err("down")]);
    assert!(matches!(sent_again, Application::Applied(_)), "{sent_again:?}");
    assert_eq!(reads(conflict(), vec![Ok(Some(changed())), Err("down")]), Application::Applied(changed()));
    assert_eq!(applied(lost(), Err("down"), false), (Application::Unknown("lost"), 1));
    assert_eq!(applied(lost(), Ok(Some(status())), false), (not_applied("lost"), 1));
    // The server adds defaults.
    let mut with_defaults = changed();
    let container = with_defaults.pointer_mut("/spec/template/spec/containers/0").unwrap();
    merge(container, json!({"imagePullPolicy": "IfNotPresent", "terminationMessagePolicy": "File"}));
    let found = applied(lost(), Ok(Some(with_defaults.clone())), false);
    assert_eq!(found, (Application::Applied(with_defaults), 1));
    let wrong = object("agent:2", |_| {});
    assert_eq!(applied(Ok(wrong), Ok(Some(status())), false), (not_applied("unexpected"), 1));
    // Another client replaces pods now, which is not among the displayed changes.
    let taken_over = || {
        object("agent:2", |object| {
            object["metadata"]["resourceVersion"] = "8".into();
            object["metadata"]["annotations"] = json!({"kubectl-ds/run": "another"});
            object["metadata"]["managedFields"] = json!([{"manager": "kubectl-ds"}]);
        })
    };
    let (application, sent) = applied(conflict(), Ok(Some(taken_over())), false);
    assert_eq!(
        application,
        Application::Refused(StepRefusal::Changed { by: vec!["kubectl-ds".into()], changes: vec![] })
    );
    assert_eq!(sent, 1);
    assert_eq!(applied(lost(), Ok(Some(taken_over())), false), (Application::Unknown("lost"), 1));
    // Only the status has changed: it is sent again for the newer version.
    let (application, sent) = applied(conflict(), Ok(Some(status())), false);
    assert!(matches!(application, Application::Applied(_)) && sent == 2, "{application:?}");
}

/// It is for one version, so that it cannot be applied twice.
#[test]
fn a_patch_whose_connection_broke_is_sent_again_a_few_times() {
    let broken = || Err(Failed::Lost("lost"));
    let version =
        |image: &str, version: &str| object(image, |object| object["metadata"]["resourceVersion"] = version.into());
    let run = |times: usize, now: Vec<Result<Option<Value>, &'static str>>| {
        let answers = (0..times).map(|_| broken()).collect();
        apply_to(&Script { answers: RefCell::new(answers), now: RefCell::new(now), sent: Cell::new(0) }, false)
    };
    let same = || Ok(Some(version("agent:2", "7")));
    for (times, sent) in [(1, 2), (2, 3)] {
        let (application, is_sent) = run(times, vec![same()]);
        assert!(matches!(application, Application::Applied(_)) && is_sent == sent, "{times}: {application:?}");
    }
    assert_eq!(run(3, vec![same()]), (Application::NotSeen("lost"), 3));
    // It was applied, or cannot be read.
    let changed = version("agent:1", "8");
    assert_eq!(run(1, vec![Ok(Some(changed.clone()))]), (Application::Applied(changed.clone()), 1));
    assert_eq!(run(1, vec![Err("down")]), (Application::Unknown("lost"), 1));
    // Only the status has changed since.
    let (application, sent) = run(1, vec![Ok(Some(version("agent:2", "8")))]);
    assert!(matches!(application, Application::Applied(_)) && sent == 3, "{sent} {application:?}");
    // The first one arrives after it was looked for, and may be reverted at once.
    let reverted = object("agent:2", |object| {
        merge(&mut object["metadata"], json!({"resourceVersion": "9", "generation": 2}));
    });
    for (now, expected) in
        [(changed.clone(), Application::Applied(changed)), (reverted, Application::Unknown("conflict"))]
    {
        let answers = RefCell::new(vec![Err(Failed::Conflict("conflict")), broken()]);
        let reads = RefCell::new(vec![Ok(Some(now)), same(), same(), same()]);
        let script = Script { answers, now: reads, sent: Cell::new(0) };
        assert_eq!(apply_to(&script, false), (expected, 2));
    }
}

/// Somebody else has suspended the strategy, and there is no webhook that would have dropped the annotations of this pause.
#[test]
fn what_only_others_have_written_was_not_dropped_by_admission() {
    let now = "2026-11-21T06:00:00Z".parse().unwrap();
    let plan = Plan::pause(&before(), now);
    for (manager, is_theirs) in [(Some("kubectl-edit"), true), (Some("kubectl-ds"), false), (None, false)] {
        let suspended = object("agent:2", |object| {
            merge(&mut object["metadata"], json!({"resourceVersion": "8", "generation": 1}));
            object["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
            let written = manager.map(|manager| json!({"manager": manager, "operation": "Update"}));
            object["metadata"]["managedFields"] = written.into_iter().collect();
        });
        for failed in [Failed::OutcomeUnknown("lost"), Failed::Refused("no")] {
            let script = Script::new(Err(failed), vec![Ok(Some(suspended.clone()))]);
            let application = carried_out(&script, &plan, &before(), false).0;
            match is_theirs {
                true => assert!(
                    matches!(&application, Application::Refused(StepRefusal::Changed { by, .. }) if by == &["kubectl-edit"]),
                    "{application:?}"
                ),
                false => assert!(matches!(application, Application::Kept(Kept::Annotation(_), _)), "{application:?}"),
            }
        }
    }
}

/// A proxy has sent it twice: the first one was applied, the response is to the second one, and a cache returns the old object.
#[test]
fn conflicts_without_another_version_leave_open_whether_the_first_patch_was_applied() {
    let version =
        |version: &'static str| object("agent:2", move |object| object["metadata"]["resourceVersion"] = version.into());
    let contended = || Application::Refused(StepRefusal::Contended);
    for (now, is_dry_run, expected) in [
        ("7", false, Application::NotSeen("conflict")),
        ("6", false, Application::NotSeen("conflict")),
        ("7", true, contended()),
    ] {
        let script = Script::new(Err(Failed::Conflict("conflict")), vec![Ok(Some(version(now)))]);
        *script.answers.borrow_mut() = (0..20).map(|_| Err(Failed::Conflict("conflict"))).collect();
        assert_eq!(apply_to(&script, is_dry_run), (expected, 20), "{now}");
    }
    // Each is newer than the previous one, and has nothing of the change.
    let newer = (8..30).rev().map(|number: u64| {
        Ok(Some(object("agent:2", move |object| object["metadata"]["resourceVersion"] = number.to_string().into())))
    });
    let script = Script::new(Err(Failed::Conflict("conflict")), newer.collect());
    *script.answers.borrow_mut() = (0..20).map(|_| Err(Failed::Conflict("conflict"))).collect();
    assert_eq!(apply_to(&script, false), (contended(), 20));
}

#[test]
fn a_dry_run_that_fails_has_changed_nothing() {
    let same_edit = object("agent:1", |object| object["metadata"]["resourceVersion"] = "8".into());
    for (failed, now, error) in [
        (Failed::OutcomeUnknown("lost"), Err("down"), "lost"),
        (Failed::Conflict("conflict"), Err("down"), "down"),
        (Failed::Conflict("conflict"), Ok(Some(same_edit)), "conflict"),
    ] {
        let (application, sent) = applied(Err(failed), now, true);
        assert_eq!(sent, 1);
        assert!(
            matches!(&application, Application::Refused(StepRefusal::ByServer(found) | StepRefusal::NotApplied(found))
                if *found == error),
            "{application:?}"
        );
    }
}

#[test]
fn a_hold_is_applied_if_the_server_keeps_the_original_strategy_as_it_was_sent() {
    let before = before();
    let plan = Plan::pause(&before, "2026-11-21T06:00:00Z".parse().unwrap());
    let with = |value: &str, key: &str| {
        let mut held = plan.applied_to(&before.object).unwrap();
        held["metadata"]["resourceVersion"] = "8".into();
        held["metadata"]["annotations"][key] = value.into();
        held
    };
    let held = with("mine", "note");
    let altered = with("{}", "kubectl-ds/original-update-strategy");
    for (answer, now, expected) in [
        (Ok(held.clone()), Err("down"), Application::Applied(held.clone())),
        (Err(Failed::OutcomeUnknown("lost")), Ok(Some(held.clone())), Application::Applied(held)),
        (Ok(altered.clone()), Err("down"), Application::Unknown("unexpected")),
        (
            Ok(altered.clone()),
            Ok(Some(altered.clone())),
            Application::Kept(Kept::Annotation("kubectl-ds/original-update-strategy"), altered),
        ),
    ] {
        assert_eq!(carried_out(&Script::new(answer, vec![now]), &plan, &before, false), (expected, 1));
    }
}

/// An admission webhook, or a policy, restores the strategy in the same request.
#[test]
fn a_hold_without_its_update_strategy_is_told_from_one_that_is_not_known() {
    let rolling = |object: &mut Value| object["spec"]["updateStrategy"] = json!({"type": "RollingUpdate"});
    let before = DaemonSet::from_object(object("agent:2", rolling)).unwrap();
    let now = "2026-11-21T06:00:00Z".parse().unwrap();
    let plan = Plan::pause(&before, now);
    let mut held = plan.applied_to(&before.object).unwrap();
    held["metadata"]["resourceVersion"] = "8".into();
    let mut kept = held.clone();
    rolling(&mut kept);
    let of = |plan: &Plan, before: &DaemonSet, answer, now, is_dry_run| {
        carried_out(&Script::new(answer, vec![now]), plan, before, is_dry_run).0
    };
    let lost = || Err(Failed::OutcomeUnknown("lost"));
    assert_eq!(
        of(&plan, &before, Ok(unstored(kept.clone())), Err("down"), true),
        Application::Kept(Kept::Strategy, unstored(kept.clone()))
    );
    for answer in [Ok(kept.clone()), lost(), Err(Failed::Refused("no"))] {
        assert_eq!(
            of(&plan, &before, answer, Ok(Some(kept.clone())), false),
            Application::Kept(Kept::Strategy, kept.clone())
        );
    }
    // The response came from a proxy.
    assert_eq!(of(&plan, &before, Ok(kept.clone()), Ok(Some(held.clone())), false), Application::Applied(held.clone()));
    assert_eq!(of(&plan, &before, Ok(kept.clone()), Err("down"), false), Application::Unknown("unexpected"));
    // A client that takes over a hold writes only annotations.
    let held = DaemonSet::from_object(held).unwrap();
    let plan = Plan::partition(&held, now, "3".parse().unwrap(), "run 1", &StageFlags::default(), None);
    let mut kept = plan.applied_to(&held.object).unwrap();
    kept["metadata"]["resourceVersion"] = "9".into();
    rolling(&mut kept);
    let tried = of(&plan, &held, Ok(unstored(kept.clone())), Err("down"), true);
    assert_eq!(tried, Application::Kept(Kept::Strategy, unstored(kept.clone())));
    assert_eq!(of(&plan, &held, lost(), Ok(Some(kept.clone())), false), Application::Kept(Kept::Strategy, kept));
    // Nothing else is written, so it is unknown whether this was.
    let mut edits = before.object.clone();
    edits["metadata"]["resourceVersion"] = "8".into();
    let fields = SpecFields { strategy_type: Some(StrategyType::OnDelete), ..SpecFields::default() };
    let set = Plan::set(&before, fields, false);
    let application = of(&set, &before, lost(), Ok(Some(edits)), false);
    assert_eq!(application, Application::Refused(StepRefusal::NotApplied("lost")));
}

#[test]
fn a_hold_has_not_ended_if_the_server_keeps_the_strategy_suspended() {
    let paused = Plan::pause(&before(), "2026-11-21T06:00:00Z".parse().unwrap()).applied_to(&before().object).unwrap();
    let held = DaemonSet::from_object(paused).unwrap();
    let plan = Plan::resume(&held);
    let mut resumed = plan.applied_to(&held.object).unwrap();
    resumed["metadata"]["resourceVersion"] = "8".into();
    let mut suspended = resumed.clone();
    suspended["spec"]["updateStrategy"]["type"] = "OnDelete".into();
    for (answer, expected) in
        [(resumed.clone(), Application::Applied(resumed)), (suspended, Application::Unknown("unexpected"))]
    {
        let script = Script::new(Ok(answer), vec![Err("down")]);
        assert_eq!(carried_out(&script, &plan, &held, false), (expected, 1));
    }
}

/// A webhook keeps the old image, but accepts the annotations.
#[test]
fn a_hold_whose_template_was_dropped_is_not_applied() {
    let before = before();
    let now = "2026-11-21T06:00:00Z".parse().unwrap();
    let template = DaemonSet::from_object(object("agent:3", |_| {})).unwrap().template();
    let plan = Plan::partition(&before, now, "3".parse().unwrap(), "run 1", &StageFlags::default(), Some(&template));
    let patch = plan.patch().unwrap();
    let mut answer = unstored(patch.applied_to(&before.object).unwrap());
    let dry_run =
        |answer: &Value| carried_out(&Script::new(Ok(answer.clone()), vec![Err("down")]), &plan, &before, true);
    assert!(matches!(dry_run(&answer).0, Application::Applied(_)));
    answer["spec"]["template"] = before.object["spec"]["template"].clone();
    assert_eq!(dry_run(&answer).0, Application::Kept(Kept::Template, answer));
    // The same holds for a DaemonSet that is already held, whether its template was derived from this one or is unrelated.
    let mut held = plan.applied_to(&before.object).unwrap();
    held["spec"]["template"] = object("agent:9", |_| {})["spec"]["template"].clone();
    let held = DaemonSet::from_object(held).unwrap();
    let again = Plan::partition(&held, now, "3".parse().unwrap(), "run 2", &StageFlags::default(), Some(&template));
    let patch = again.patch().unwrap();
    let mut answer = unstored(patch.applied_to(&held.object).unwrap());
    answer["spec"]["template"] = held.object["spec"]["template"].clone();
    let script = Script::new(Ok(answer.clone()), vec![Err("down")]);
    assert_eq!(carried_out(&script, &again, &held, true).0, Application::Kept(Kept::Template, answer));
}

/// Another client has paused the rollout, which removes an annotation that this one would remove.
#[test]
fn what_was_removed_meanwhile_is_removed_by_nobody_else() {
    let held = |annotations: Value| {
        object("agent:2", move |object| {
            object["metadata"]["annotations"] = annotations.clone();
            object["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
        })
    };
    let original = json!({"type": "RollingUpdate"}).to_string();
    let before = held(json!({"kubectl-ds/original-update-strategy": original, "kubectl-ds/run": "run 1"}));
    let before = DaemonSet::from_object(before).unwrap();
    let mut paused = held(json!({"kubectl-ds/original-update-strategy": original}));
    paused["metadata"]["resourceVersion"] = "8".into();
    let script = Script::new(Err(Failed::Conflict("conflict")), vec![Ok(Some(paused))]);
    let (application, sent) = carried_out(&script, &Plan::resume(&before), &before, false);
    let changed = StepRefusal::Changed { by: Vec::new(), changes: Vec::new() };
    assert_eq!((application, sent), (Application::Refused(changed), 1));
}

/// A proxy has sent the patch twice, and a webhook has changed more, or dropped the annotations.
#[test]
fn a_conflict_with_the_write_of_the_same_patch_is_told_from_one_with_another_client() {
    let rolling = |object: &mut Value| object["spec"]["updateStrategy"] = json!({"type": "RollingUpdate"});
    let before = DaemonSet::from_object(object("agent:2", rolling)).unwrap();
    let pause = Plan::pause(&before, "2026-11-21T06:00:00Z".parse().unwrap());
    let set = Plan::set(&before, SpecFields { min_ready_seconds: Some(30), ..SpecFields::default() }, false);
    let mirror =
        |now: &mut Value| now["spec"]["template"] = object("mirror/agent:2", |_| {})["spec"]["template"].clone();
    let drop_all = |now: &mut Value| drop(now["metadata"].as_object_mut().unwrap().remove("annotations"));
    let other =
        |now: &mut Value| now["metadata"]["annotations"]["kubectl-ds/held-since"] = "2026-11-21T06:00:01Z".into();
    let none = |_: &mut Value| {};
    for (plan, change, manager, generation, is_own) in [
        (&set, &mirror as &dyn Fn(&mut Value), "kubectl-ds", 1, true),
        (&set, &mirror, "kubectl-edit", 1, false),
        (&set, &mirror, "kubectl-ds", 2, false),
        (&pause, &none, "kubectl-ds", 1, true),
        (&pause, &drop_all, "kubectl-ds", 1, true),
        (&pause, &other, "kubectl-ds", 1, false),
    ] {
        let mut now = plan.applied_to(&before.object).unwrap();
        let fields = json!([{"manager": manager, "operation": "Update"}]);
        merge(&mut now["metadata"], json!({"resourceVersion": "8", "generation": generation, "managedFields": fields}));
        change(&mut now);
        let script = Script::new(Err(Failed::Conflict("conflict")), vec![Ok(Some(now))]);
        let (application, _) = carried_out(&script, plan, &before, false);
        let is_changed = matches!(application, Application::Refused(StepRefusal::Changed { .. }));
        assert_eq!(is_changed, !is_own, "{manager} {generation}: {application:?}");
    }
}

/// Its own annotation, which does not exist yet, is not that of another client.
#[test]
fn a_client_that_begins_to_replace_pods_retries_if_only_the_status_has_changed() {
    let before = before();
    let now = "2026-11-21T06:00:00Z".parse().unwrap();
    let plan = Plan::partition(&before, now, "3".parse().unwrap(), "run 1", &StageFlags::default(), None);
    let status = object("agent:2", |object| object["metadata"]["resourceVersion"] = "8".into());
    let script = Script::new(Err(Failed::Conflict("conflict")), vec![Ok(Some(status))]);
    let (application, sent) = carried_out(&script, &plan, &before, false);
    assert!(matches!(application, Application::Applied(_)) && sent == 2, "{application:?}");
}

/// A proxy may return the old object, and forward the change later.
#[test]
fn an_answer_without_the_change_is_believed_if_the_object_stays_like_that() {
    let same = || object("agent:2", |_| {});
    let changed = || object("agent:1", |object| object["metadata"]["resourceVersion"] = "8".into());
    let dropped = || Application::Kept(Kept::All, same());
    assert_eq!(applied(Ok(same()), Err("down"), true), (dropped(), 1));
    let newer = |generation: i64| {
        object("agent:2", |object| {
            object["metadata"]["resourceVersion"] = "8".into();
            object["metadata"]["generation"] = generation.into();
        })
    };
    let unknown = || Application::Unknown("unexpected");
    let not_seen = || Application::NotSeen("unexpected");
    let not_applied = || Application::Refused(StepRefusal::NotApplied("unexpected"));
    // A dry run shows whether the server would drop it again. If not, it may still apply it, as long as its precondition holds.
    for (now, tried, expected) in [
        (same(), Ok(same()), dropped()),
        (same(), Ok(changed()), not_seen()),
        (same(), Err(Failed::Refused("no")), not_seen()),
        (newer(0), Ok(same()), dropped()),
        (newer(0), Ok(changed()), not_applied()),
        (newer(1), Ok(same()), unknown()),
    ] {
        let script = Script::new(tried, vec![Ok(Some(now))]);
        script.answers.borrow_mut().push(Ok(same()));
        assert_eq!(apply_to(&script, false), (expected, 1));
    }
    assert_eq!(applied(Ok(same()), Err("down"), false), (Application::Unknown("unexpected"), 1));
    let late = vec![Ok(Some(changed())), Ok(Some(same()))];
    assert_eq!(reads(Ok(same()), late), Application::Applied(changed()));
}

/// The name of the run shows that it was this patch.
#[test]
fn a_hold_whose_answer_was_lost_is_found_without_its_template_or_with_another_one() {
    let before = before();
    let now = "2026-11-21T06:00:00Z".parse().unwrap();
    let template = DaemonSet::from_object(object("agent:3", |_| {})).unwrap().template();
    let plan = Plan::partition(&before, now, "3".parse().unwrap(), "run 1", &StageFlags::default(), Some(&template));
    let found = |image: &str, run: &str, generation: i64| {
        let mut found = plan.applied_to(&before.object).unwrap();
        found["metadata"]["resourceVersion"] = "8".into();
        found["metadata"]["annotations"]["kubectl-ds/run"] = run.into();
        found["metadata"]["generation"] = generation.into();
        found["spec"]["template"] = object(image, |_| {})["spec"]["template"].clone();
        let of =
            |failed| carried_out(&Script::new(Err(failed), vec![Ok(Some(found.clone()))]), &plan, &before, false).0;
        (of(Failed::OutcomeUnknown("lost")), of(Failed::Conflict("conflict")), found)
    };
    let (lost, conflict, object) = found("agent:2", "run 1", 1);
    assert_eq!([lost, conflict], [(); 2].map(|()| Application::Kept(Kept::Template, object.clone())));
    // A conflict may be the answer to a second request of a proxy.
    let (lost, conflict, object) = found("mirror/agent:3", "run 1", 1);
    assert_eq!([lost, conflict], [(); 2].map(|()| Application::Applied(object.clone())));
    // Another client has done the same, or something else.
    for image in ["agent:2", "agent:3"] {
        let (lost, conflict, _) = found(image, "run 2", 1);
        assert_eq!(lost, Application::Unknown("lost"));
        assert!(matches!(conflict, Application::Refused(StepRefusal::Changed { .. })), "{conflict:?}");
    }
    // Somebody has changed it after this run: its spec was written twice.
    for image in ["mirror/agent:3", "agent:2"] {
        let (application, _, object) = found(image, "run 1", 2);
        assert_eq!(application, Application::Overwritten(object));
    }
}

/// Nothing else removes all annotations of a hold, and restores its strategy.
#[test]
fn a_hold_whose_end_was_not_answered_has_ended_whatever_others_have_changed_since() {
    let now = "2026-11-21T06:00:00Z".parse().unwrap();
    let held = Plan::partition(&before(), now, "0".parse().unwrap(), "run 1", &StageFlags::default(), None);
    let mut held = held.applied_to(&before().object).unwrap();
    held["metadata"]["resourceVersion"] = "7".into();
    let held = DaemonSet::from_object(held).unwrap();
    let plan = Plan::resume(&held);
    let found = |generation: i64, change: &dyn Fn(&mut Value)| {
        let mut found = plan.applied_to(&held.object).unwrap();
        merge(&mut found["metadata"], json!({"resourceVersion": "9", "generation": generation}));
        change(&mut found);
        let script = Script::new(Err(Failed::OutcomeUnknown("lost")), vec![Ok(Some(found.clone()))]);
        (carried_out(&script, &plan, &held, false).0, found)
    };
    let edit = |found: &mut Value| found["spec"]["template"] = object("agent:9", |_| {})["spec"]["template"].clone();
    let pace = |found: &mut Value| found["spec"]["updateStrategy"]["rollingUpdate"] = json!({"maxUnavailable": 3});
    for change in [&edit as &dyn Fn(&mut Value), &pace] {
        let (application, found) = found(2, change);
        assert_eq!(application, Application::Overwritten(found));
    }
    let (application, once) = found(1, &edit);
    assert_eq!(application, Application::Applied(once), "admission may have changed the template along with it");
    let pause = |found: &mut Value| {
        edit(found);
        found["metadata"]["annotations"] = json!({"kubectl-ds/held-since": "2026-11-21T06:00:09Z"});
    };
    assert!(!matches!(found(2, &pause).0, Application::Overwritten(_)));
}

/// A record of the pace in an annotation does not change the pace.
#[test]
fn a_change_of_the_spec_of_which_only_an_annotation_is_written_was_dropped() {
    let strategy =
        |amount: i64| json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": amount, "maxSurge": 0}});
    let before = object("agent:2", |object| object["spec"]["updateStrategy"] = strategy(1));
    let before = DaemonSet::from_object(before).unwrap();
    let fields = SpecFields { max_unavailable: Some("3".parse().unwrap()), ..SpecFields::default() };
    let plan = Plan::set(&before, fields, true);
    let mut answer = plan.applied_to(&before.object).unwrap();
    assert!(answer.pointer("/metadata/annotations/kubectl-ds~1raised-pace").is_some());
    answer["metadata"]["resourceVersion"] = "8".into();
    answer["spec"]["updateStrategy"] = strategy(1);
    for (answer, is_dry_run) in [(unstored(answer.clone()), true), (answer, false)] {
        let script = Script::new(Ok(answer.clone()), vec![Ok(Some(answer.clone()))]);
        let (application, _) = carried_out(&script, &plan, &before, is_dry_run);
        assert_eq!(application, Application::Kept(Kept::All, answer));
    }
}
