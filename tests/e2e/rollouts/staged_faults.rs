//! Each request of a staged rollout with each fault, in front of the real API server and controllers.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::partition::{annotations, pods, strategy, wait_until_available_on};
use super::program::Run;
use super::workload::{Api, Workload};
use super::{Cluster, NODES, Shared};
use crate::support::interceptor::{Fault, Interceptor, Request};
use crate::support::sampling::all_is_tried;
use crate::support::say;
use crate::support::server::{Reply, of_proxies};

/// The whole of it: partition 1, and then 0.
const COMMANDS: [&[&str]; 2] = [&["partition", "--update=2", "--image=agent=agent:2"], &["partition", "--update=3"]];

/// The variable that makes each request meet each fault, which takes many minutes; `2/5` is the second fifth of that.
const ALL: &str = "KUBECTL_DS_ALL_FAULTS";

/// What is said of a patch that was not applied.
const NOT_APPLIED: &str = "the change was not applied";

/// How many rollouts there are at a time.
const AT_A_TIME: usize = 16;

/// A control plane of its own: the pods of many DaemonSets are on these nodes.
fn cluster() -> &'static Cluster {
    static SHARED: Shared = Shared::new();
    SHARED.with_nodes(NODES)
}

/// Creates a DaemonSet in a namespace of its own, so that lists stay short.
fn create() -> Workload {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2, "maxSurge": 0}});
    let (namespace, spec) = (cluster().namespace(), json!({"updateStrategy": strategy}));
    let workload = Workload::create(cluster(), Api::Apps, &namespace, "agent", &spec);
    wait_until_available_on(NODES, &workload);
    workload
}

fn refusal(code: u16, reason: &str, headers: &str) -> Fault {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "reason": reason, "message": "the fault of this test"});
    let (status, length) = (status.to_string(), status.to_string().len());
    Fault::Answer(format!(
        "HTTP/1.1 {code} Fault\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n{status}"
    ))
}

/// Returns the faults, and whether a run goes on after it without any trace, by reads and writes.
fn faults() -> Vec<(String, Fault, [bool; 2])> {
    let faults = [
        ("429 with Retry-After", refusal(429, "TooManyRequests", "Retry-After: 1\r\n"), [true, true]),
        ("500", refusal(500, "InternalError", ""), [false, false]),
        ("503", refusal(503, "ServiceUnavailable", ""), [true, false]),
        ("409", refusal(409, "Conflict", ""), [false, false]),
        ("lost before", Fault::LostBefore, [true, false]),
        ("lost after", Fault::LostAfter, [true, true]),
        ("truncated", Fault::Truncated, [false, true]),
        ("stall", Fault::Stall(Duration::from_secs(2)), [true, true]),
    ];
    faults.map(|(name, fault, goes_on)| (name.to_owned(), fault, goes_on)).into()
}

/// Returns the answers of proxies, before which a request has reached the API server or not.
fn answers_of_proxies() -> Vec<(String, Fault, [bool; 2])> {
    let text = |reply: Reply| {
        let headers: String = reply.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let (status, length) = (reply.status, reply.body.len());
        let body = String::from_utf8(reply.body).unwrap();
        format!("HTTP/1.1 {status} Fault\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
    };
    let faults = of_proxies().map(|(name, reply)| {
        let text = text(reply);
        [
            (name.to_owned(), Fault::Answer(text.clone()), [false, false]),
            (format!("{name}, applied"), Fault::OtherAnswer(text), [false, true]),
        ]
    });
    faults.into_iter().flatten().collect()
}

/// One run in which one request meets a fault, and what follows.
struct Cell {
    number: usize,
    name: String,
    fault: Fault,
    goes_on: [bool; 2],
}

/// Returns what is wrong with the writes of a run: pods are deleted that must not be.
fn wrong_deletion(writes: &[Request], before: &BTreeSet<String>) -> Option<String> {
    let mut deleted = BTreeSet::new();
    let mut is_last_stage = false;
    for write in writes {
        if write.method == "PATCH" && write.body.contains(r#"kubectl-ds~1partition","value":"0""#) {
            is_last_stage = true;
        }
        if write.method != "DELETE" || !write.path.contains("/pods/") {
            continue;
        }
        let options: Value = serde_json::from_str(&write.body).unwrap();
        deleted.insert(options["preconditions"]["uid"].to_string());
        if deleted.len() == NODES && !is_last_stage {
            return Some("the pod that the first stage keeps is deleted in it".to_owned());
        }
    }
    let others: Vec<&String> = deleted.difference(before).collect();
    (!others.is_empty()).then(|| format!("{others:?} are deleted, which are not of the old revision"))
}

/// Runs one stage after the other, and returns the last one that was begun.
fn run_stages(workload: &Workload, kubeconfig: &Path) -> Run {
    let flags = ["--progress-deadline=20s", "--request-timeout=10s"];
    let stage = |command: &[&str]| workload.run_as(kubeconfig, &[command, &flags].concat());
    let first = stage(COMMANDS[0]);
    if first.code == Some(0) { stage(COMMANDS[1]) } else { first }
}

fn is_finished(workload: &Workload) -> bool {
    strategy(workload)["type"] == "RollingUpdate" && annotations(workload).is_empty() && pods(workload).1 == NODES
}

/// Tells whether a run denies a patch that was applied.
fn denies(met: &Request, run: &Run, workload: &Workload) -> bool {
    let patch: Vec<Value> = serde_json::from_str(&met.body).unwrap_or_default();
    let change = patch.iter().find(|operation| operation["path"].as_str().unwrap().ends_with("kubectl-ds~1partition"));
    let live = workload.live();
    change.is_some_and(|change| live["metadata"]["annotations"]["kubectl-ds/partition"] == change["value"])
        && run.stderr.contains(NOT_APPLIED)
}

/// Returns what is wrong with how a run ended whose request met a fault.
fn wrong_end(cell: &Cell, met: &Request, run: &Run, is_finished: bool) -> Option<String> {
    let says = |words: &str| Some(words.to_owned());
    let is_write = met.method != "GET";
    match run.code {
        Some(0) if !is_finished => return says("success before the end"),
        Some(0) => return None,
        // The status has changed since the plan was made: what was lost is a conflict.
        Some(1 | 6) if met.method == "PATCH" && run.stderr.contains(NOT_APPLIED) => {}
        _ if cell.goes_on[usize::from(is_write)] => return says("it does not go on"),
        Some(1) => {}
        Some(3) if run.stdout.contains("stopped") => return None,
        // The stage has begun, and is not finished.
        Some(6) if run.stderr.contains("to continue:") => {}
        Some(7) if is_write && run.stderr.contains("it is not known whether") => {}
        _ => return says("another exit code"),
    }
    let causes = ["the fault of this test", "connection", "cannot read the server's answer", "unexpected answer"];
    let names_the_cause = causes.iter().any(|cause| run.stderr.contains(cause));
    (!names_the_cause).then(|| "it does not say why".to_owned())
}

/// Returns what is wrong with a cell, if anything, and whether a request met the fault.
fn try_out(cell: &Cell) -> (bool, Vec<String>) {
    let workload = create();
    let before = pods(&workload).0;
    let folder = cluster().control_plane.folder();
    let with_fault = Interceptor::with_fault(cluster().api, folder, cell.number, cell.fault.clone());
    let run = run_stages(&workload, with_fault.kubeconfig());
    let Some(met) = with_fault.requests().get(cell.number).cloned() else {
        workload.delete();
        return (false, Vec::new());
    };
    let after_fault = is_finished(&workload);
    let kept = pods(&workload).0;
    let denies = denies(&met, &run, &workload);
    let plain = Interceptor::start(cluster().api, folder, |_, _| {});
    let again = run_stages(&workload, plain.kubeconfig());
    let writes = [with_fault.writes(), plain.writes()].concat();
    let mut problems = Vec::new();
    problems.extend(wrong_end(cell, &met, &run, after_fault));
    problems.extend(wrong_deletion(&writes, &before));
    problems.extend(denies.then(|| "it denies a change that was made".to_owned()));
    if again.code != Some(0) || !is_finished(&workload) {
        problems.push(format!("the same commands do not finish: {again}"));
    }
    let lost: Vec<&String> = kept.difference(&before).filter(|pod| !pods(&workload).0.contains(*pod)).collect();
    if !lost.is_empty() {
        problems.push(format!("{lost:?} of the new revision are gone"));
    }
    workload.delete();
    let describe = |problem| format!("{} {}: {}: {problem}\n{run}", met.method, met.path, cell.name);
    (true, problems.into_iter().map(describe).collect())
}

/// Returns what is tried out at night: each request meets a fault, and the first one of each kind of write, and each patch, meets all.
/// Each write meets an answer of a proxy, too. On a change it is a quarter of that.
fn cells(requests: &[Request]) -> Vec<Cell> {
    let part = std::env::var(ALL).ok();
    let all = part.is_some();
    let mut kinds = BTreeSet::new();
    let mut cells = Vec::new();
    for (number, request) in requests.iter().enumerate() {
        let resource = ["/pods/", "/events", "/daemonsets/"].iter().position(|part| request.path.contains(part));
        let is_first = request.method != "GET" && kinds.insert((&request.method, resource));
        let meets_all = all || is_first || request.method == "PATCH";
        let mut add = |faults: Vec<(String, Fault, [bool; 2])>, meets_all: bool| {
            let (one, count) = (number % faults.len(), faults.len());
            let met = faults.into_iter().skip(if meets_all { 0 } else { one }).take(if meets_all { count } else { 1 });
            cells.extend(met.map(|(name, fault, goes_on)| Cell { number, name, fault, goes_on }));
        };
        add(faults(), meets_all);
        if all || request.method != "GET" {
            add(answers_of_proxies(), all);
        }
    }
    let part = part.as_deref().and_then(|part| part.split_once('/'));
    let default = if all || all_is_tried() { (1, 1) } else { (1, 4) };
    let (part, parts) = part.map_or(default, |(part, parts)| (part.parse().unwrap(), parts.parse().unwrap()));
    cells.into_iter().skip(part - 1).step_by(parts).collect()
}

#[test]
fn no_fault_of_a_request_leads_a_staged_rollout_astray() {
    let plain = Interceptor::start(cluster().api, cluster().control_plane.folder(), |_, _| {});
    let workload = create();
    run_stages(&workload, plain.kubeconfig()).expect(0);
    assert!(is_finished(&workload));
    let requests = plain.requests();
    let cells = cells(&requests);
    let (next, met, problems) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                    let (is_met, wrong) = try_out(cell);
                    met.fetch_add(usize::from(is_met), Ordering::Relaxed);
                    problems.lock().unwrap().extend(wrong);
                }
            });
        }
    });
    let (met, problems) = (met.into_inner(), problems.into_inner().unwrap());
    say(&format!("{} requests, {} faults, of which {met} were met", requests.len(), cells.len()));
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n\n"));
    // A run makes a few requests more or less, depending on what it sees in time.
    assert!(met * 10 > cells.len() * 8, "{met} of {} faults were met", cells.len());
}
