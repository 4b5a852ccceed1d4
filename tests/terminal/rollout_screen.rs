//! The rollout screen in terminals of several sizes, stored as files.

use std::collections::BTreeSet;

use kubectl_ds::cluster::Query;
use kubectl_ds::cluster::file::Dump;
use kubectl_ds::model::snapshot::Snapshot;
use kubectl_ds::render::region::{Region, Size};
use kubectl_ds::render::rollout_screen::{Moment, lines};
use kubectl_ds::render::view::View;
use kubectl_ds::report::node_event::{NodeEvent, NodeEventKind};
use kubectl_ds::report::reason::ReasonCode;
use kubectl_ds::rollout::status::{Question, answer, rollout_status};
use serde_json::{Value, json};

use crate::screens::{Ended, check};
use crate::support::terminal::Terminal;

const NOW: &str = "2026-11-20T10:00:00Z";
const ZONE: &str = "topology.kubernetes.io/zone";

/// The pod of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Updated,
    Starting,
    Crashing,
    Missing,
    Old,
    /// An old pod on a node that is not ready.
    Lost,
}

/// Returns a cluster in which a DaemonSet is rolled out.
fn cluster(fates: &[Fate], max_unavailable: &Value) -> Snapshot {
    let template = |tag: &str| {
        json!({"metadata": {"labels": {"app": "agent"}},
            "spec": {"containers": [{"name": "agent", "image": format!("registry.example/agent:{tag}")}]}})
    };
    let mut items = vec![json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "monitoring", "uid": "agent", "generation": 2},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}}, "template": template("3.0"),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": max_unavailable, "maxSurge": 0}},
        },
        "status": {"observedGeneration": 2},
    })];
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "agent", "controller": true}]);
    let [first, second, third] = ["2026-10-01T10:00:00Z", "2026-11-01T10:00:00Z", "2026-11-20T09:57:19Z"];
    for (number, tag, created) in [(5, "2.8", first), (6, "2.9", second), (7, "3.0", third)] {
        let mut data = template(tag);
        data["$patch"] = "replace".into();
        items.push(json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number, "data": {"spec": {"template": data}},
            "metadata": {"name": format!("agent-{number}"), "namespace": "monitoring", "uid": format!("r{number}"),
                "creationTimestamp": created, "ownerReferences": owner, "managedFields": [{"time": created}],
                "labels": {"app": "agent", "controller-revision-hash": format!("hash{number}")}},
        }));
    }
    for (index, fate) in fates.iter().enumerate() {
        let name = format!("pool-{}-{index:04}", ["a", "b", "c"][index % 3]);
        let ready = if *fate == Fate::Lost { "Unknown" } else { "True" };
        items.push(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {ZONE: format!("eu-west-1{}", ["a", "b", "c"][index % 3])}},
            "spec": if *fate == Fate::Lost {
                json!({"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]})
            } else { json!({}) },
            "status": {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-11-20T09:19:00Z"}]},
        }));
        if *fate == Fate::Missing {
            continue;
        }
        let is_new = !matches!(fate, Fate::Old | Fate::Lost);
        let is_ready = matches!(fate, Fate::Updated | Fate::Old);
        let since = if is_new {
            format!("2026-11-20T09:{:02}:{:02}Z", 58 + index % 2, index % 50)
        } else {
            "2026-11-02T10:00:00Z".to_owned()
        };
        let state = match fate {
            Fate::Crashing => json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}),
            Fate::Starting => json!({"waiting": {"reason": "ContainerCreating"}}),
            _ => json!({"running": {"startedAt": since}}),
        };
        let mut status = json!({"name": "agent", "ready": is_ready, "restartCount": 0, "state": state,
            "image": "registry.example/agent", "imageID": "agent"});
        if *fate == Fate::Crashing {
            status["restartCount"] = 3.into();
            status["lastState"] = json!({"terminated": {"exitCode": 1, "reason": "Error",
                "startedAt": "2026-11-20T09:59:00Z", "finishedAt": "2026-11-20T09:59:02Z"}});
        }
        let condition = |kind: &str, status: bool| json!({"type": kind, "status": if status { "True" } else { "False" }, "lastTransitionTime": since});
        items.push(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("agent-{index:05}"), "namespace": "monitoring", "uid": format!("p{index}"),
                "creationTimestamp": since, "ownerReferences": owner,
                "labels": {"app": "agent", "controller-revision-hash": if is_new { "hash7" } else { "hash6" }}},
            "spec": {"nodeName": name, "containers": [{"name": "agent", "image": "registry.example/agent"}]},
            "status": {"phase": if *fate == Fate::Starting { "Pending" } else { "Running" }, "containerStatuses": [status],
                "conditions": [condition("PodScheduled", true), condition("Ready", is_ready)]},
        }));
    }
    let dump = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let dump_of = Dump::new("-", Some(NOW.parse().unwrap()));
    dump_of.read(&Query::default(), &mut dump.as_bytes(), |_| BTreeSet::new()).unwrap().snapshot
}

/// Returns so many of each fate.
fn fates(numbers: &[(Fate, usize)]) -> Vec<Fate> {
    numbers.iter().flat_map(|(fate, number)| std::iter::repeat_n(*fate, *number)).collect()
}

fn events() -> Vec<NodeEvent> {
    let event = |seconds: i64, node: &str, pod: &str, change: NodeEventKind| NodeEvent {
        at: NOW.parse::<jiff::Timestamp>().unwrap() - jiff::SignedDuration::from_secs(seconds),
        node: node.to_owned(),
        pod: Some(pod.to_owned()),
        change,
    };
    vec![
        event(2, "pool-b-0061", "agent-00061", NodeEventKind::Updating),
        event(12, "pool-c-0056", "agent-00056", NodeEventKind::Updated(Some(8))),
        event(31, "pool-a-0054", "agent-00054", NodeEventKind::Restarted(3)),
        event(75, "pool-a-0054", "agent-00054", NodeEventKind::Failing(Some(ReasonCode::CrashLooping))),
    ]
}

/// Returns what a terminal shows, with a frame so that its size can be seen.
fn shown(snapshot: &Snapshot, (columns, rows): (usize, usize), ascii: bool) -> String {
    let report = answer(snapshot, &Question { map_label: Some(ZONE), ..Question::default() });
    let events = events();
    let events: Vec<&NodeEvent> = events.iter().collect();
    let moment = Moment { report: &report, events: &events, notices: &[] };
    let view = View { width: columns - 1, limit: Some(columns - 1), ..View::new(None, ascii) };
    let drawn = lines(&moment, &view, rows - 1);
    assert!(drawn.iter().map(|line| line.rows(columns)).sum::<usize>() < rows, "{drawn:#?}");
    let mut terminal = Terminal::new(columns, rows);
    terminal.write(b"$ kubectl ds status agent -w\r\n");
    let mut frame = Vec::new();
    Region::default().draw(&drawn, Size { columns, rows }, &mut frame).unwrap();
    terminal.write(&frame);
    let edge = format!("+{}+\n", "-".repeat(columns));
    let rows: String = terminal
        .screen()
        .iter()
        .map(|row| {
            let width = unicode_width::UnicodeWidthStr::width(row.as_str());
            format!("|{row}{}|\n", " ".repeat(columns - width))
        })
        .collect();
    format!("{columns}x{rows_number}\n{edge}{rows}{edge}", rows_number = terminal.screen().len())
}

/// Compares the screens of every size with a file.
fn check_sizes(file: &str, snapshot: &Snapshot) {
    let mut out: String = [(80, 24), (200, 50), (40, 10)].map(|size| shown(snapshot, size, false)).join("\n");
    out += "\nonly ASCII, ";
    out += &shown(snapshot, (60, 16), true);
    check(file, &Ended { code: Some(0), out, err: String::new() });
}

#[test]
fn a_rollout_that_goes_on() {
    let fates = fates(&[(Fate::Updated, 58), (Fate::Starting, 3), (Fate::Missing, 1), (Fate::Old, 74)]);
    check_sizes("status/screen-progressing.txt", &cluster(&fates, &json!("10%")));
}

#[test]
fn a_rollout_that_is_blocked_by_its_revision() {
    let fates = fates(&[(Fate::Updated, 1), (Fate::Crashing, 6), (Fate::Old, 53)]);
    check_sizes("status/screen-blocked-by-the-revision.txt", &cluster(&fates, &json!(6)));
}

#[test]
fn a_rollout_that_is_blocked_by_lost_nodes() {
    let fates = fates(&[(Fate::Updated, 6), (Fate::Lost, 20), (Fate::Old, 110)]);
    check_sizes("status/screen-blocked-by-lost-nodes.txt", &cluster(&fates, &json!("10%")));
}

#[test]
fn a_rollout_of_5_000_nodes() {
    let fates = fates(&[(Fate::Updated, 3_210), (Fate::Crashing, 1), (Fate::Starting, 42), (Fate::Old, 1_747)]);
    check_sizes("status/screen-5000-nodes.txt", &cluster(&fates, &json!(50)));
}

#[test]
fn several_rollouts() {
    let snapshot = cluster(&fates(&[(Fate::Updated, 3), (Fate::Old, 3)]), &json!(1));
    let mut report = rollout_status(&snapshot, None);
    report.daemon_sets = vec![report.daemon_sets.remove(0); 30];
    let notices = ["watch pods is forbidden: listing every 5s".to_owned()];
    let moment = Moment { report: &report, events: &[], notices: &notices };
    let drawn = lines(&moment, &View::new(Some(79), false), 23);
    let drawn: Vec<String> = drawn.iter().map(|line| anstream::adapter::strip_str(&line.text).to_string()).collect();
    assert_eq!((drawn.len(), drawn[0].as_str()), (23, notices[0].as_str()), "{drawn:#?}");
    assert_eq!(drawn[22], "+12 lines more (enlarge the terminal)", "{drawn:#?}");
}
