//! Random changes against an API server, which creates each manifest in a dry run.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::thread;

use serde_json::Value;

use super::changes::Changes;
use crate::differential::seed_of_the_clock;
use crate::support::control_plane::{ControlPlane, Options};
use crate::support::sampling::times;
use crate::support::say;
use crate::support::validation::{Answer, manifests};

/// How many random changes there are at night.
const CASES: usize = 5_000;

#[test]
fn manifests_are_refused_as_by_an_api_server() {
    let seed = env::var("KUBECTL_DS_SEED").ok().map_or_else(seed_of_the_clock, |seed| seed.parse().unwrap());
    let flags = vec!["--allow-privileged".to_owned()];
    let cluster = ControlPlane::start(Options { api_server_flags: flags, ..Options::api_server_only() });
    for namespace in ["storage", "logging", "monitoring"] {
        cluster.kubectl(&["create", "namespace", namespace]);
    }
    let mut proxy = cluster.kubectl_command().args(["proxy", "--port=0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut started = String::new();
    BufReader::new(proxy.stdout.take().unwrap()).read_line(&mut started).unwrap();
    let address = started.trim().rsplit(' ').next().unwrap().to_owned();

    let mut changes = Changes::new(seed);
    // The server drops repeated owners before it validates, which its functions alone do not.
    let repeats_an_owner = |case: &Value| {
        let owners = case["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
        owners.iter().enumerate().any(|(at, owner)| owners[..at].iter().any(|other| other["uid"] == owner["uid"]))
    };
    let cases = manifests().into_iter().chain((0..times(CASES)).map(|_| changes.next()));
    let cases: Vec<Value> = cases.filter(|case| !repeats_an_owner(case)).collect();
    let wrong: Vec<String> = thread::scope(|scope| {
        let parts = cases.chunks(cases.len().div_ceil(4));
        let workers: Vec<_> = parts.map(|part| scope.spawn(|| differences(&address, part))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    proxy.kill().unwrap();
    proxy.wait().unwrap();
    let count = cases.len();
    assert!(wrong.is_empty(), "KUBECTL_DS_SEED={seed}: {} of {count} differ, such as\n{}", wrong.len(), wrong[0]);
    say(&format!("KUBECTL_DS_SEED={seed}: {count} manifests are refused as by an API server\n"));
}

fn differences(address: &str, cases: &[Value]) -> Vec<String> {
    let differs = |object: &Value| {
        let (theirs, text) = create(address, object);
        let ours = Answer::ours(object);
        (!theirs.allows(&ours)).then(|| format!("{object}\nthe server says\n{text}\nand we say\n{ours:?}"))
    };
    cases.iter().filter_map(differs).collect()
}

/// Creates a DaemonSet in a dry run.
fn create(address: &str, object: &Value) -> (Answer, String) {
    let namespace = object["metadata"]["namespace"].as_str().unwrap();
    let path = format!("/apis/apps/v1/namespaces/{namespace}/daemonsets?dryRun=All&fieldValidation=Strict");
    let body = object.to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, text) = answer.split_once("\r\n\r\n").unwrap();
    let status: Value = serde_json::from_str(text).unwrap();
    let answer = match (status["kind"].as_str(), status["code"].as_u64()) {
        (Some("DaemonSet"), _) => Answer::Accepted,
        (Some("Status"), Some(400 | 500)) => Answer::Undecodable,
        (Some("Status"), Some(422)) => {
            let causes = status["details"]["causes"].as_array().into_iter().flatten();
            Answer::refused(causes.map(|cause| cause["field"].as_str().unwrap_or_default().to_owned()))
        }
        _ => panic!("{text}"),
    };
    (answer, text.to_owned())
}
