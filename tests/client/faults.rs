//! Every request of every command with every fault, through the real binary.
//!
//! Each outcome is compared with that of the run without faults. It must be the same answer, an error, or a partial
//! answer that names the resource that could not be read; and a change is reported as made only if it was made.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::server::{Asked, JSON, Reply, Server, of_proxies};
use super::writing::Store;
use super::{cluster, json_list, refusal, unstored};
use crate::screens::{Ended, end, kubectl_ds};
use crate::support::sampling::{all_is_tried, share};

/// The command lines.
const COMMANDS: &[&[&str]] = &[
    &["coverage", "agent", "-n", "team", "-o", "json"],
    &["coverage", "-A", "-o", "json"],
    &["coverage", "--node", "n1", "-o", "json"],
    &["list", "-A", "-o", "json"],
    &["history", "agent", "-n", "team", "-o", "json"],
    &["snapshot", "-A"],
    &["version", "-o", "json"],
    &["undo", "agent", "-n", "team", "--to-revision=1", "--dry-run=server", "-o", "json"],
    &["undo", "agent", "-n", "team", "--to-revision=1", "-o", "json", "--timeout=2s"],
    &["restart", "agent", "-n", "team", "-o", "json", "--timeout=2s"],
    &["retry", "agent", "-n", "team", "-o", "json"],
    &["set", "agent", "-n", "team", "--max-unavailable=3", "-o", "json", "--timeout=2s"],
    &["pause", "agent", "-n", "team", "-o", "json", "--timeout=2s"],
    &["resume", "agent", "-n", "team", "-o", "json", "--timeout=2s"],
];

/// What follows the path of a change that is only tried out.
const DRY_RUN: &str = "?dryRun=All";

/// Cells that fail today: a command's prefix, the end of the request's path, the fault's prefix, and why.
const KNOWN: &[(&str, &str, &str, &str)] = &[];

/// What becomes of an answer.
pub(super) type Fault = Arc<dyn Fn(Reply) -> Reply + Send + Sync>;

/// Returns every fault by its name.
pub(super) fn faults(answer: &Reply) -> Vec<(String, Fault)> {
    let mut faults: Vec<(String, Fault)> = Vec::new();
    let mut add = |name: &str, fault: Fault| faults.push((name.to_owned(), fault));
    for (code, reason) in [
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (408, "Timeout"),
        (409, "Conflict"),
        (410, "Expired"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (502, "BadGateway"),
        (503, "ServiceUnavailable"),
        (504, "Timeout"),
    ] {
        add(&code.to_string(), Arc::new(move |_| refusal(code, reason, "refused by the test")));
    }
    let later = |_| refusal(429, "TooManyRequests", "refused by the test").with("retry-after", "60");
    add("429 with Retry-After", Arc::new(later));
    for (name, reply) in of_proxies() {
        add(name, Arc::new(move |_| reply.clone()));
    }
    add("closed", Arc::new(|_| Reply::hang_up()));
    add("stall", Arc::new(stall));
    add("trickle", Arc::new(trickle));
    add("lost", Arc::new(|reply| Reply { cut: true, ..reply }));
    for at in boundaries(&answer.body) {
        let cut = move |mut reply: Reply| {
            // With a time in it, the body may be shorter than that of the run without faults.
            reply.body.truncate(at.min(reply.body.len().saturating_sub(1)));
            reply
        };
        add(&format!("truncated at {at} of {}", answer.body.len()), Arc::new(cut));
    }
    let json_as_text = |reply: Reply| Reply::of(reply.status, "text/plain", reply.body);
    add("type text/plain", Arc::new(json_as_text));
    add("type JSON", Arc::new(|reply: Reply| Reply::of(reply.status, JSON, reply.body)));
    let html = "<!DOCTYPE html><html><title>Sign in</title></html>";
    add("HTML", Arc::new(move |_| Reply::of(200, "text/html", html)));
    add("HTML as JSON", Arc::new(move |_| Reply::of(200, JSON, html)));
    let status = |text: &'static str| Arc::new(move |_| Reply::of(200, JSON, text));
    add("200 with a failure", status(r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":500}"#));
    add("200 with a success", status(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#));
    add("200 with an error", status(r#"{"error":"session expired"}"#));
    add("200 with null items", status(r#"{"kind":"List","apiVersion":"v1","metadata":{},"items":[null]}"#));
    add("200 with {}", status("{}"));
    add("200 with null", status("null"));
    add("empty 200", status(""));
    let huge = "x\u{1b}[31m".repeat(200_000);
    add("huge 500", Arc::new(move |_| Reply::of(500, "text/plain", huge.clone())));
    faults
}

/// Returns the clocks of servers whose `Date` is wrong.
pub(super) fn wrong_dates() -> [(&'static str, SignedDuration); 6] {
    const YEARS: i64 = 20 * 365 * 24;
    [
        ("Date is 60 s ahead", SignedDuration::from_secs(60)),
        ("Date is 60 s behind", SignedDuration::from_secs(-60)),
        ("Date is 1 h ahead", SignedDuration::from_hours(1)),
        ("Date is 1 h behind", SignedDuration::from_hours(-1)),
        ("Date is 20 years ahead", SignedDuration::from_hours(YEARS)),
        ("Date is 20 years behind", SignedDuration::from_hours(-YEARS)),
    ]
}

/// Returns an answer with the `Date` of a clock that is off.
pub(super) fn dated(reply: Reply, off: SignedDuration) -> Reply {
    let date = Timestamp::now() + off;
    reply.with("date", &date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string())
}

/// Returns whether an answer means that the server has not looked at a change.
pub(super) fn refuses(fault: &str) -> bool {
    ["401", "403", "404", "410", "429", "429 with Retry-After"].contains(&fault)
}

/// How many requests meet a fault.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Extent {
    /// Each one to the same path.
    Same,
    /// The first one to the path.
    First,
    /// The first one to the path, and whatever follows it.
    Onward,
    /// All requests.
    All,
}

impl Extent {
    /// Returns whether a request meets the fault, before which so many to the path did.
    pub(super) fn includes(self, is_same: bool, before: usize) -> bool {
        match self {
            Extent::Same => is_same,
            Extent::First => is_same && before == 0,
            Extent::Onward => is_same || before > 0,
            Extent::All => true,
        }
    }
}

/// Never answers.
fn stall(_: Reply) -> Reply {
    loop {
        thread::sleep(Duration::from_secs(600));
    }
}

/// Answers with a byte of the body every 100 ms, which takes longer than any command waits.
fn trickle(reply: Reply) -> Reply {
    let (slow, sender) = Reply::open(JSON);
    thread::spawn(move || {
        for byte in &reply.body {
            thread::sleep(Duration::from_millis(100));
            if sender.send(vec![*byte]).is_err() {
                return;
            }
        }
    });
    Reply { status: reply.status, headers: reply.headers, ..slow }
}

/// Returns where a body can be cut so that something whole precedes the cut.
fn boundaries(body: &[u8]) -> BTreeSet<usize> {
    let mut boundaries: BTreeSet<usize> = [body.len() / 2, body.len().saturating_sub(1)].into();
    if body.starts_with(b"k8s\0") {
        // After the magic, after the type, and inside of the list.
        let type_ends = 6 + usize::from(body[5]);
        boundaries.extend([4, type_ends, type_ends + 1, type_ends + 4]);
    } else {
        let ends = (1..body.len()).filter(|at| b"{[,}]".contains(&body[at - 1]));
        let ends: Vec<_> = ends.collect();
        boundaries.extend(ends.iter().take(4));
        boundaries.extend(ends.iter().rev().take(4));
    }
    boundaries.retain(|at| *at > 0 && *at < body.len());
    boundaries
}

/// Answers as a cluster does, from a store that keeps the changes.
fn answer(store: &Store, asked: &Asked) -> Reply {
    if asked.method == "PATCH" {
        let before = store.object.lock().unwrap().clone();
        let answer = store.write(&asked.body);
        return if asked.target.contains("dryRun=All") { unstored(answer, &before) } else { answer };
    }
    match asked.path() {
        "/version" => Reply::of(200, JSON, r#"{"major":"1","minor":"37","gitVersion":"v1.37.2"}"#),
        "/login" => Reply::of(200, "text/html", "<html>Sign in</html>"),
        path if path.ends_with("/agent") => store.read(path).unwrap(),
        path if path.ends_with("/controllerrevisions") => revisions(store),
        "/apis/apps/v1/daemonsets" => {
            let object: Value = serde_json::from_slice(&store.read("agent").unwrap().body).unwrap();
            json_list(asked.path(), &[object])
        }
        _ => match cluster(asked) {
            reply if reply.status == 404 && !asked.path().contains("/leases/") => json_list(asked.path(), &[]),
            reply => reply,
        },
    }
}

/// Returns the revisions as the controller leaves them after a change.
fn revisions(store: &Store) -> Reply {
    let json = |path| -> Value { serde_json::from_slice(&store.read(path).unwrap().body).unwrap() };
    let (object, mut list) = (json("agent"), json("controllerrevisions"));
    let mut live = object["spec"]["template"].clone();
    live["$patch"] = "replace".into();
    let items = list["items"].as_array_mut().unwrap();
    match items.iter().position(|item| item["data"]["spec"]["template"] == live) {
        Some(1) => {}
        Some(other) => items[other]["revision"] = 3.into(),
        None => {
            let mut newest = items[1].clone();
            newest["revision"] = 3.into();
            newest["metadata"]["name"] = "agent-3".into();
            newest["metadata"]["labels"]["controller-revision-hash"] = "3".into();
            newest["data"]["spec"]["template"] = live;
            items.push(newest);
        }
    }
    Reply::of(200, JSON, list.to_string())
}

/// Returns the path of a request; that of a change that is only tried out is another one.
fn path_of(asked: &Asked) -> String {
    let is_dry_run = asked.target.contains("dryRun=All");
    format!("{}{}", asked.path(), if is_dry_run { DRY_RUN } else { "" })
}

/// A command, a request of it, and what happens to that request.
struct Cell {
    command: &'static [&'static str],
    method: String,
    path: String,
    name: String,
    fault: Fault,
    /// Whether a change is made although its answer is lost.
    applied: bool,
    extent: Extent,
}

/// Runs a command on a server with at most one fault; returns how it ended, whether the object was changed, and what
/// was requested.
fn run(command: &'static [&str], cell: Option<&Cell>, store: &Arc<Store>) -> (Ended, bool, Vec<Asked>) {
    let before = store.read("agent").unwrap().body;
    let fault =
        cell.map(|cell| (cell.method.clone(), cell.path.clone(), cell.fault.clone(), cell.applied, cell.extent));
    let met = AtomicUsize::new(0);
    let kept = store.clone();
    let server = Server::start(move |asked| {
        let meets = |method: &str, path: &str, extent: Extent| {
            let is_same = (method, path) == (asked.method.as_str(), &*path_of(asked));
            let before = if is_same { met.fetch_add(1, Ordering::SeqCst) } else { met.load(Ordering::SeqCst) };
            extent.includes(is_same, before)
        };
        match &fault {
            Some((method, path, fault, applied, extent)) if meets(method, path, *extent) => {
                // What is not made is answered from another store.
                let makes = *applied && !asked.target.contains("dryRun=All") || asked.method == "GET";
                fault(if makes { answer(&kept, asked) } else { answer(&new_store(command), asked) })
            }
            _ if asked.target.contains("dryRun=All") => answer(&new_store(command), asked),
            _ => answer(&kept, asked),
        }
    });
    let address = format!("http://{}", server.address);
    // Without a fault, only a busy machine makes it slow.
    let patient = |argument: &&'static str| if *argument == "--timeout=2s" { "--timeout=30s" } else { *argument };
    let mut arguments: Vec<&str> =
        if cell.is_some() { command.to_vec() } else { command.iter().map(patient).collect() };
    let timeout = if cell.is_some() { "--request-timeout=1s" } else { "--request-timeout=30s" };
    arguments.extend(["--server", &address, timeout]);
    let ended = end(kubectl_ds(&arguments), None);
    server.stop();
    (ended, store.read("agent").unwrap().body != before, server.asked())
}

/// Returns the store that a command begins with.
fn new_store(command: &[&str]) -> Store {
    if command[0] == "resume" { Store::held() } else { Store::new() }
}

/// Returns why a pause or a resume does not finish when it is repeated without a fault.
fn not_finished(command: &'static [&str], store: &Arc<Store>) -> Option<String> {
    let expected = match command[0] {
        "pause" => "OnDelete",
        "resume" => "RollingUpdate",
        _ => return None,
    };
    let (ended, ..) = run(command, None, store);
    let object: Value = serde_json::from_slice(&store.read("agent").unwrap().body).unwrap();
    let annotation = &object["metadata"]["annotations"]["kubectl-ds/original-update-strategy"];
    let is_done =
        object["spec"]["updateStrategy"]["type"] == expected && annotation.is_string() == (command[0] == "pause");
    (ended.code != Some(0) || !is_done).then(|| format!("the same command does not finish: {}", ended.err))
}

/// Returns JSON without what differs between two runs.
fn timeless(text: &str) -> Option<Value> {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, _| {
                    !matches!(name.as_str(), "now" | "takenAt" | "kubectl.kubernetes.io/restartedAt")
                });
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            // A patch and a change carry the time as a value.
            Value::String(text) if text.starts_with("20") && text.ends_with('Z') => *text = "TIME".to_owned(),
            // A suggested command names the server.
            Value::String(text) if text.contains("--server") => {
                let words = text.split(' ').filter(|word| !word.starts_with("http://127.0.0.1:"));
                *text = words.collect::<Vec<_>>().join(" ");
            }
            _ => {}
        }
    }
    let mut value = serde_json::from_str(text).ok()?;
    strip(&mut value);
    Some(value)
}

/// Returns the resources that an answer says it lacks.
fn gaps(report: &Value) -> Vec<String> {
    let of = |list: &Value, field: &str| -> Vec<String> {
        let gaps = list.as_array().into_iter().flatten();
        gaps.filter_map(|gap| gap[field].as_str().map(str::to_owned)).collect()
    };
    [of(&report["incomplete"], "resource"), of(&report["snapshot"]["gaps"], "kind")].concat()
}

/// Returns what is wrong with an outcome.
fn wrong(cell: &Cell, faultless: &Ended, ended: &Ended, changed: bool) -> Option<String> {
    let says = |words: &str| Some(words.to_owned());
    if ended.err.len() > 2_000 || ended.err.contains('\u{1b}') {
        return says("standard error is longer than a person reads, or steers the terminal");
    }
    if !matches!(ended.code, Some(0 | 1 | 4 | 5 | 6 | 7)) {
        return Some(format!("exit code {:?}", ended.code));
    }
    let (expected, found) = (timeless(&faultless.out), timeless(&ended.out));
    let failed = ended.code != Some(0);
    if failed && ended.err.is_empty() {
        return says("it fails silently");
    }
    if ["undo", "restart", "retry", "set", "pause", "resume"].contains(&cell.command[0]) {
        let stage = found.as_ref().and_then(|plan| plan["outcome"]["stage"].as_str());
        let claims_change = matches!(stage, Some("Applied" | "Observed"));
        if cell.command.contains(&"--dry-run=server") {
            return match (failed, stage) {
                (false, _) if found == expected => None,
                (false, _) => unnamed_gap(cell, &found.unwrap_or_default()).map(|gaps| format!("another plan, {gaps}")),
                (true, Some("TriedOut")) => says("reported as tried out, and it failed"),
                (true, _) => None,
            };
        }
        let is_unknown = ended.code == Some(7) && stage == Some("Unknown");
        let is_sent = cell.method == "PATCH" && !cell.path.ends_with(DRY_RUN);
        if is_sent && cell.extent == Extent::Onward && !is_unknown {
            return Some(format!("a change that cannot be known ends with {:?}, as {stage:?}", ended.code));
        }
        return match (changed, failed) {
            (false, false) => says("success, and nothing was changed"),
            (false, true) if claims_change => says("reported as changed, and nothing was"),
            (true, true) if !claims_change && stage != Some("Unknown") => says("a change that was made is hidden"),
            (true, false) if !claims_change => says("success that does not name the change"),
            _ => None,
        };
    }
    if failed {
        let is_version = cell.command[0] == "version";
        return (!ended.out.is_empty() && !is_version).then(|| format!("fails after printing {:.300}", ended.out));
    }
    if found.is_none() {
        return says("success without an answer");
    }
    if found == expected {
        return None;
    }
    unnamed_gap(cell, &found.unwrap()).map(|gaps| format!("another answer, {gaps}"))
}

/// Returns what an answer says that it lacks, if it does not name the resource that could not be read.
fn unnamed_gap(cell: &Cell, found: &Value) -> Option<String> {
    let resource = match cell.path.trim_end_matches(DRY_RUN).rsplit('/').next().unwrap() {
        "agent" => "daemonsets",
        "apis" => "daemonsets.apps.kruise.io",
        "n1" => "nodes",
        "kube-controller-manager" => "leases",
        resource => resource,
    };
    let gaps = gaps(found);
    (!gaps.iter().any(|kind| kind == resource)).then(|| format!("and the gaps are {gaps:?}"))
}

#[test]
fn no_fault_leads_to_a_wrong_answer() {
    let mut cells = Vec::new();
    let mut faultless = Vec::new();
    for command in COMMANDS {
        let (ended, _, asked) = run(command, None, &Arc::new(new_store(command)));
        assert_eq!(ended.code, Some(0), "{command:?}: {}", ended.err);
        let requests: BTreeSet<_> = asked.iter().map(|asked| (asked.method.clone(), path_of(asked))).collect();
        for (method, path) in requests {
            let request = asked.iter().find(|asked| asked.method == method && path_of(asked) == path).unwrap();
            for (name, fault) in faults(&answer(&new_store(command), request)) {
                let cell = |applied, extent| Cell {
                    command,
                    method: method.clone(),
                    path: path.clone(),
                    name: name.clone(),
                    fault: fault.clone(),
                    applied,
                    extent,
                };
                // An answer that is whole cannot be told from that of a server that made the change.
                if method == "GET" || !name.starts_with("type ") {
                    cells.push((faultless.len(), cell(false, Extent::Same)));
                }
                if method == "PATCH" && !refuses(&name) {
                    cells.push((faultless.len(), cell(true, Extent::Same)));
                }
                // After 429 the change is sent again.
                if method == "PATCH" && (!refuses(&name) || name == "429") {
                    cells.push((faultless.len(), cell(true, Extent::First)));
                }
                let is_of_proxy = of_proxies().iter().any(|(proxy, _)| *proxy == name);
                if method == "PATCH" && is_of_proxy && !command.contains(&"--dry-run=server") {
                    cells.extend([false, true].map(|applied| (faultless.len(), cell(applied, Extent::Onward))));
                }
            }
        }
        for (name, off) in wrong_dates() {
            let cell = Cell {
                command,
                method: "PATCH".to_owned(),
                path: String::new(),
                name: name.to_owned(),
                fault: Arc::new(move |reply| dated(reply, off)),
                applied: true,
                extent: Extent::All,
            };
            cells.push((faultless.len(), cell));
        }
        faultless.push(ended);
    }
    let cells = share(cells);
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // They wait for timeouts and retries most of the time.
    thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                while let Some((of, cell)) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let store = Arc::new(new_store(cell.command));
                    let (ended, changed, _) = run(cell.command, Some(cell), &store);
                    let problem = wrong(cell, &faultless[*of], &ended, changed);
                    if let Some(problem) = problem.or_else(|| not_finished(cell.command, &store)) {
                        failed.lock().unwrap().push((cell, problem, ended.err));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    let is_known = |cell: &Cell, (command, request, fault, _): &(&str, &str, &str, &str)| {
        cell.command.join(" ").starts_with(command) && cell.path.ends_with(request) && cell.name.starts_with(fault)
    };
    let mut problems: Vec<_> = failed
        .iter()
        .filter(|(cell, ..)| !KNOWN.iter().any(|known| is_known(cell, known)))
        .map(|(cell, problem, err)| {
            let when = if cell.applied { ", applied" } else { "" };
            let Cell { command, method, path, name, extent, .. } = cell;
            let line = format!("{}: {method} {path}: {name}{when}, {extent:?}", command.join(" "));
            format!("{line}: {problem}\n    {:.200}", err.replace('\n', "\n    "))
        })
        .collect();
    problems.sort();
    let stale: Vec<_> = KNOWN.iter().filter(|known| !failed.iter().any(|(cell, ..)| is_known(cell, known))).collect();
    assert!(problems.is_empty(), "{} of {} cells:\n{}", problems.len(), cells.len(), problems.join("\n"));
    assert!(stale.is_empty() || !all_is_tried(), "these no longer fail; remove them from KNOWN: {stale:#?}");
}
