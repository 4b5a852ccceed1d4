//! Several clusters at once: one screen, one exit code, and no cluster is omitted.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::server::{Asked, Reply, Server, closed_port};
use super::status::rollout;
use super::suggestions::suggested;
use super::{JSON, cluster, refusal};
use crate::screens::{Ended, check, end, kubectl_ds};

/// A kubeconfig with a context for each server, and one that no test means.
struct Clusters {
    directory: TempDir,
    contexts: Vec<(&'static str, String)>,
    /// It is asked nothing.
    other: Server,
}

impl Clusters {
    fn new(contexts: &[(&'static str, String)]) -> Self {
        let other = Server::start(cluster);
        let all = contexts.iter().cloned().chain([("test-a", other.address.to_string())]);
        let (mut entries, mut servers) = (Vec::new(), Vec::new());
        for (name, address) in all {
            let context = json!({"cluster": name, "user": "me", "namespace": "team"});
            entries.push(json!({"name": name, "context": context}));
            servers.push(json!({"name": name, "cluster": {"server": format!("http://{address}")}}));
        }
        let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "test-a", "contexts": entries,
            "clusters": servers, "users": [{"name": "me", "user": {}}]});
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("config"), kubeconfig.to_string()).unwrap();
        Clusters { directory, contexts: contexts.to_vec(), other }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("config")
    }

    /// Runs a command on `prod-*`, with addresses replaced by what they are for, of the same length for every port of five digits.
    fn run(&self, arguments: &[&str], columns: &str) -> Ended {
        let path = self.kubeconfig();
        let mut command = kubectl_ds(&[arguments, &["--contexts", "prod-*"]].concat());
        command.env("COLUMNS", columns).env("KUBECONFIG", &path);
        let Ended { code, mut out, mut err } = end(command, None);
        assert!(self.other.asked().is_empty(), "{arguments:?}: it does not match");
        for (_, address) in &self.contexts {
            (out, err) = (out.replace(address, "127.0.0.1:PORT."), err.replace(address, "127.0.0.1:PORT."));
        }
        Ended { code, out, err }
    }

    fn data(&self, arguments: &[&str]) -> (Value, Ended) {
        let ended = self.run(&[arguments, &["-o", "json"]].concat(), "80");
        (serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {}", ended.err)), ended)
    }
}

fn forbidden(asked: &Asked) -> Reply {
    match asked.path() {
        "/apis" => super::api_groups(&[]),
        path => refusal(403, "Forbidden", &format!("{path} is forbidden: User \"me\" cannot list it")),
    }
}

/// Two clusters that answer alike, one of them late; one that refuses connections, and one that answers 403.
fn clusters(answer: fn(&Asked) -> Reply) -> (Clusters, [Server; 3]) {
    let slow = move |asked: &Asked| {
        if asked.path().ends_with("/nodes") {
            thread::sleep(Duration::from_millis(700));
        }
        answer(asked)
    };
    let servers = [Server::start(answer), Server::start(forbidden), Server::start(slow)];
    let [good, denied, late] = servers.each_ref().map(|server| server.address.to_string());
    let contexts = [("prod-a", good), ("prod-b", closed_port().to_string()), ("prod-c", denied), ("prod-d", late)];
    (Clusters::new(&contexts), servers)
}

const COMMANDS: [&[&str]; 4] = [&["list"], &["status"], &["coverage"], &["changes", "--since", "24h"]];

#[test]
fn each_command_shows_all_clusters_in_one_table() {
    let files = [
        ["list/clusters-80.txt", "list/clusters-200.txt"],
        ["status/clusters-80.txt", "status/clusters-200.txt"],
        ["coverage/clusters-80.txt", "coverage/clusters-200.txt"],
        ["changes/clusters-80.txt", "changes/clusters-200.txt"],
    ];
    for (arguments, [narrow, wide]) in COMMANDS.into_iter().zip(files) {
        // A rollout that was is older each day.
        let (clusters, _servers) = clusters(if arguments[0] == "changes" { cluster } else { rollout });
        check(narrow, &clusters.run(arguments, "80"));
        check(wide, &clusters.run(arguments, "200"));
    }
}

#[test]
fn a_cluster_that_cannot_be_read_is_an_item_and_makes_the_answer_unknown() {
    let (clusters, _servers) = clusters(rollout);
    for (arguments, code) in
        [(COMMANDS[0], 5), (&["list", "--exit-code"], 3), (COMMANDS[1], 3), (COMMANDS[2], 5), (COMMANDS[3], 5)]
    {
        let (report, ended) = clusters.data(arguments);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.err);
        let items = report["items"].as_array().unwrap();
        let of = |item: &Value| {
            let exit = item["exitCode"].as_i64().unwrap();
            (item["context"].as_str().unwrap().to_owned(), exit, item["report"].is_object(), item["error"].is_string())
        };
        let found: Vec<_> = items.iter().map(of).collect();
        let own = if code == 3 { 3 } else { 0 };
        let expected = [("prod-a", own, true, false), ("prod-b", 5, false, true), ("prod-c", 5, false, true)];
        let expected = expected.into_iter().chain([("prod-d", own, true, false)]);
        let expected: Vec<_> =
            expected.map(|(name, exit, report, error)| (name.to_owned(), exit, report, error)).collect();
        assert_eq!(found, expected, "{arguments:?}");
        assert!(items[1]["error"].as_str().unwrap().contains("was refused"), "{}", items[1]);
        assert!(items[2]["error"].as_str().unwrap().contains("Forbidden"), "{}", items[2]);
    }
}

#[test]
fn a_name_that_one_cluster_lacks_is_worse_than_an_incomplete_rollout() {
    let lacks = |asked: &Asked| match asked.path() {
        "/apis/apps/v1/namespaces/team/daemonsets" | "/apis/apps/v1/daemonsets" => super::json_list(asked.path(), &[]),
        "/apis/apps/v1/namespaces/team/daemonsets/agent" => super::absent(asked.path()),
        "/api/v1/namespaces/team" => {
            Reply::of(200, JSON, r#"{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "team"}}"#)
        }
        _ => cluster(asked),
    };
    let servers = [Server::start(rollout), Server::start(lacks)];
    let [has, lacks] = servers.each_ref().map(|server| server.address.to_string());
    let clusters = Clusters::new(&[("prod-a", has), ("prod-b", lacks), ("prod-c", closed_port().to_string())]);
    let (report, ended) = clusters.data(&["status", "agent"]);
    let codes: Vec<_> = report["items"].as_array().unwrap().iter().map(|item| item["exitCode"].clone()).collect();
    assert_eq!((codes, ended.code), (vec![json!(3), json!(1), json!(5)], Some(1)), "{}", ended.err);
    assert!(
        ended.err.contains(r#"prod-b: Error from server (NotFound): daemonsets.apps \"agent\" not found"#),
        "{}",
        ended.err
    );
}

#[test]
fn what_is_suggested_leads_to_the_cluster_that_it_is_about() {
    let (clusters, _servers) = clusters(rollout);
    for arguments in [COMMANDS[0], COMMANDS[1], COMMANDS[2], COMMANDS[3], &["coverage", "-o", "json"]] {
        let ended = clusters.run(arguments, "200");
        let all = suggested(&(ended.out + &ended.err));
        assert!(!all.is_empty(), "{arguments:?}");
        for command in all {
            assert_eq!(command.matches("--context prod-").count(), 1, "{arguments:?}: {command}");
        }
    }
}

/// One that hangs delays no other, and is named while it is waited for.
#[test]
fn a_cluster_that_hangs_ends_with_the_request_timeout_and_is_named_meanwhile() {
    let hangs = |asked: &Asked| {
        thread::sleep(Duration::from_secs(30));
        cluster(asked)
    };
    let servers = [Server::start(cluster), Server::start(hangs)];
    let [good, silent] = servers.each_ref().map(|server| server.address.to_string());
    let clusters = Clusters::new(&[("prod-a", good), ("prod-b", silent)]);
    let began = Instant::now();
    let ended = clusters.run(&["list", "--request-timeout", "11s"], "80");
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    assert_eq!(ended.code, Some(5), "{}", ended.err);
    assert!(ended.out.contains("prod-a") && ended.out.contains("team"), "{}", ended.out);
    let waiting: Vec<&str> = ended.err.lines().filter(|line| line.contains("waiting")).collect();
    assert_eq!(waiting.len(), 1, "{}", ended.err);
    assert!(waiting[0].starts_with("still waiting for 1 of 2 clusters: prod-b (10s)"), "{}", waiting[0]);
    assert!(ended.err.contains("prod-b: ") && ended.err.contains("(--request-timeout)"), "{}", ended.err);
}

/// They are read at the same time: each of many would otherwise add its delay.
#[test]
fn many_clusters_are_read_at_once_and_warnings_say_whose_they_are() {
    let late = |asked: &Asked| {
        thread::sleep(Duration::from_millis(400));
        let reply = cluster(asked);
        if asked.path().ends_with("/daemonsets") { reply.with("warning", "299 - \"old API\"") } else { reply }
    };
    const NAMES: [&str; 12] = [
        "prod-a", "prod-b", "prod-c", "prod-d", "prod-e", "prod-f", "prod-g", "prod-h", "prod-i", "prod-j", "prod-k",
        "prod-l",
    ];
    let servers = NAMES.map(|name| (name, Server::start(late)));
    let clusters = Clusters::new(&servers.each_ref().map(|(name, server)| (*name, server.address.to_string())));
    let alone = Instant::now();
    let one = [("prod-a", servers[0].1.address.to_string())];
    assert_eq!(Clusters::new(&one).run(&["list"], "80").code, Some(0));
    let alone = alone.elapsed();
    let began = Instant::now();
    let ended = clusters.run(&["list"], "80");
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(began.elapsed() < alone * 6, "{:?} for 12, {alone:?} for one", began.elapsed());
    assert!(ended.out.starts_with("12 DaemonSets on 24 nodes"), "{}", ended.out);
    let warnings: Vec<String> = NAMES.iter().map(|name| format!("{name}: warning: old API")).collect();
    assert_eq!(ended.err.lines().collect::<Vec<_>>(), warnings);
    let strict = clusters.run(&["list", "--warnings-as-errors"], "80");
    assert_eq!(strict.code, Some(1));
    assert!(strict.err.ends_with("error: 12 warnings received\n"), "{}", strict.err);
}
