//! Input of every kind, changed at random: each run ends with an exit code and with text that cannot control a terminal.
//!
//! Mutations are aware of the structure: they remove, swap and repeat values of recorded objects, and insert nasty ones; some then
//! truncate or overwrite bytes. By default the seeds are fixed. `KUBECTL_DS_FUZZ=1000000` runs that many of each test,
//! `KUBECTL_DS_SEED` starts at that seed.

use std::collections::BTreeMap;
use std::env;
use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex};

use kubectl_ds::cluster::Query;
use kubectl_ds::connection::{ConnectOptions, names_in_kubeconfig};
use kubectl_ds::encode::sanitize::is_unsafe;
use kubectl_ds::interrupt::Interrupt;
use kubectl_ds::io::Io;
use serde_json::{Map, Value, json};

use crate::client::server::{Reply, Server};
use crate::client::{cluster, node, options, pod, protobuf_list, read};
use crate::recorded;
use crate::support::nasty_strings;
use crate::support::random::Random;
use crate::support::sampling::times;

/// Values that have been trouble somewhere.
static NASTY: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let values = [
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(1e300),
        json!(0.1),
        json!([]),
        json!({}),
        json!([null]),
        json!({"": null}),
        json!("\u{1b}[31mred\u{1b}]0;title\u{7}"),
        json!("line\nhint: run this"),
        json!("0001-01-01T00:00:00Z"),
        json!("9999-12-31T23:59:59.999999999Z"),
        json!("2026-11-21T25:00:00Z"),
        json!("1e999"),
        json!("-9223372036854775808"),
        json!("99999999999999999999Gi"),
        json!("150%"),
        json!("$(reboot)"),
        json!("-rf"),
        json!("\u{202e}\u{feff}é".repeat(300)),
    ];
    values.into_iter().chain(nasty_strings::all().into_iter().map(Value::String)).collect()
});

/// Says which seed has failed.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "failed with KUBECTL_DS_SEED={} KUBECTL_DS_FUZZ=1", self.0);
        }
    }
}

/// Runs a test with so many seeds, fewer on a change, unless the environment says how many.
fn each_seed(number: usize, mut test: impl FnMut(&mut Random)) {
    let from_environment = |name| env::var(name).ok().map(|value| value.parse().unwrap());
    let first = from_environment("KUBECTL_DS_SEED").unwrap_or(1);
    for seed in first..first + from_environment("KUBECTL_DS_FUZZ").unwrap_or(times(number) as u64) {
        let seed = Seed(seed);
        test(&mut Random::new(seed.0));
    }
}

/// Returns a value somewhere in a document, the deeper ones as likely as the others.
fn somewhere<'a>(value: &'a mut Value, random: &mut Random) -> &'a mut Value {
    let children = match value {
        Value::Object(fields) => fields.len(),
        Value::Array(items) => items.len(),
        _ => 0,
    };
    if children == 0 || random.percent(12) {
        return value;
    }
    let number = random.below(children);
    let child = match value {
        Value::Object(fields) => fields.values_mut().nth(number),
        Value::Array(items) => items.get_mut(number),
        _ => None,
    };
    somewhere(child.unwrap(), random)
}

/// Changes a document in a few places.
fn mutate(document: &mut Value, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let other = somewhere(document, random).clone();
        let found = somewhere(document, random);
        match (random.below(7), found) {
            (0, found) => *found = other,
            (1, Value::Object(fields)) => {
                let names: Vec<String> = fields.keys().cloned().collect();
                if !names.is_empty() {
                    fields.remove(random.pick(&names));
                }
            }
            (2, Value::Array(items)) if !items.is_empty() => items.push(items[random.below(items.len())].clone()),
            (3, Value::Array(items)) if !items.is_empty() => drop(items.remove(random.below(items.len()))),
            (4, Value::String(text)) => {
                let nasty = random.pick(&NASTY).as_str().unwrap_or("0").to_owned();
                let at = (0..=random.below(text.len() + 1)).rev().find(|at| text.is_char_boundary(*at)).unwrap();
                text.insert_str(at, &nasty);
            }
            (5, Value::Object(fields)) => {
                let nasty = random.pick(&NASTY);
                fields.insert(nasty.as_str().unwrap_or("name").to_owned(), nasty.clone());
            }
            (_, found) => *found = random.pick(&NASTY).clone(),
        }
    }
}

/// Sometimes cuts the bytes off, or overwrites, repeats or removes some.
fn break_bytes(bytes: &mut Vec<u8>, percent: usize, random: &mut Random) {
    if bytes.is_empty() || !random.percent(percent) {
        return;
    }
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len());
        let end = (at + 1 + random.below(20)).min(bytes.len());
        match random.below(4) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes[at] = u8::try_from(random.below(256)).unwrap(),
            2 => {
                let repeated = bytes[at..end].to_vec();
                bytes.splice(at..at, repeated);
            }
            _ => {
                bytes.drain(at..end.min(at + bytes.len() - 1));
            }
        }
    }
}

/// Runs a command within this process.
fn run(input: &[u8], arguments: &[&str]) {
    let (mut input, mut err, mut out) = (input, Vec::new(), Vec::new());
    let mut io = Io {
        input: &mut input,
        err: &mut err,
        input_is_terminal: false,
        out_is_terminal: true,
        err_is_terminal: true,
        terminal_width: || Some(80),
        terminal_size: || Some((80, 24)),
        unicode: true,
        environment: BTreeMap::from([("NO_COLOR".to_owned(), "1".to_owned())]),
        clock: || "2026-11-21T10:00:00Z".parse().unwrap(),
        interrupt: Interrupt::default(),
        program: kubectl_ds::report::fix::PROGRAM,
        server_warnings: 0,
        tells_waits: true,
    };
    let command_line = [&["kubectl-ds"], arguments].concat().into_iter().map(Into::into).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let exit = runtime.block_on(kubectl_ds::commands::run(command_line, &mut io, &mut out)) as u8;
    for printed in [out, err] {
        let text = String::from_utf8(printed).unwrap();
        let steers = |character: &char| is_unsafe(*character) && !matches!(character, '\n' | '\t');
        assert_eq!(text.chars().find(steers), None, "{arguments:?}: {text}");
    }
    assert!([0, 1, 3, 5].contains(&exit), "{arguments:?} ended with {exit}");
}

/// Returns a DaemonSet of the recording and what belongs to it: revisions, pods, nodes and events.
fn part(random: &mut Random) -> Vec<Value> {
    static ITEMS: LazyLock<Vec<Value>> = LazyLock::new(recorded::items);
    let of_kind = |kind: &'static str| ITEMS.iter().filter(move |item| item["kind"] == kind);
    let daemon_sets: Vec<&Value> = of_kind("DaemonSet").collect();
    let daemon_set = *random.pick(&daemon_sets);
    let (uid, namespace) = (&daemon_set["metadata"]["uid"], &daemon_set["metadata"]["namespace"]);
    let name = daemon_set["metadata"]["name"].as_str().unwrap();
    let is_owned = |item: &&Value| item["metadata"]["ownerReferences"][0]["uid"] == *uid;
    let pods: Vec<&Value> = of_kind("Pod").filter(is_owned).take(4).collect();
    let is_used = |node: &&Value| pods.iter().any(|pod| pod["spec"]["nodeName"] == node["metadata"]["name"]);
    let (used, unused): (Vec<&Value>, Vec<&Value>) = of_kind("Node").partition(is_used);
    let is_about = |event: &&Value| {
        let object = &event["involvedObject"];
        object["namespace"] == *namespace && object["name"].as_str().is_some_and(|about| about.starts_with(name))
    };
    let others = ["LimitRange", "PriorityClass", "RuntimeClass", "Lease"].into_iter().flat_map(of_kind);
    let found = [daemon_set].into_iter().chain(of_kind("ControllerRevision").filter(is_owned)).chain(used);
    let found = found.chain(unused.into_iter().take(2)).chain(of_kind("Event").filter(is_about).take(6));
    found.chain(pods.iter().copied()).chain(others.take(4)).cloned().collect()
}

/// Commands on a dump in standard input.
const COMMANDS: [&[&str]; 12] = [
    &["list", "-A"],
    &["coverage", "-A"],
    &["coverage", "-A", "--nodes", "-o", "wide"],
    &["coverage", "-A", "-o", "wide", "--by", "pool"],
    &["coverage", "-A", "-o", "json"],
    &["changes", "-A"],
    &["changes", "-A", "-o", "yaml"],
    &["status", "-A"],
    &["status", "-A", "--map"],
    &["status", "-A", "-o", "json"],
    &["snapshot", "-A", "--redact"],
    &["snapshot", "-A", "-o", "yaml"],
];

#[test]
fn dumps_never_break_a_command() {
    each_seed(1_500, |random| {
        let mut list = json!({"apiVersion": "v1", "kind": "List", "items": part(random)});
        mutate(&mut list, random);
        let mut text = list.to_string().into_bytes();
        break_bytes(&mut text, 15, random);
        run(&text, &[&["--from", "-"], *random.pick(&COMMANDS)].concat());
    });
}

#[test]
fn revisions_never_break_what_compares_them() {
    each_seed(500, |random| {
        let mut items = part(random);
        for revision in items.iter_mut().filter(|item| item["kind"] == "ControllerRevision") {
            mutate(&mut revision["data"], random);
        }
        let metadata = items[0]["metadata"].clone();
        let (name, namespace) = (metadata["name"].as_str().unwrap(), metadata["namespace"].as_str().unwrap());
        let text = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        let ways: [&[&str]; 4] =
            [&["history", "--diff"], &["history"], &["undo", "--dry-run"], &["restart", "--dry-run"]];
        let command = *random.pick(&ways);
        // After `--diff`, a name would be what is compared.
        let source = [name, "-n", namespace, "--from", "-"];
        run(text.as_bytes(), &[&command[..1], &source, &command[1..]].concat());
    });
}

#[test]
fn messages_of_the_scheduler_and_of_admission_never_break_coverage() {
    each_seed(500, |random| {
        let mut items = part(random);
        for item in &mut items {
            let mut nasty = |text: &mut Value| mutate(text, random);
            nasty(&mut item["message"]);
            for condition in item["status"]["conditions"].as_array_mut().into_iter().flatten() {
                nasty(&mut condition["message"]);
            }
        }
        let text = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        run(text.as_bytes(), &["coverage", "-A", "-o", "wide", "--from", "-"]);
    });
}

#[test]
fn manifests_never_break_previews() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manifest.yaml");
    each_seed(500, |random| {
        let items = part(random);
        let mut manifest = items[0].clone();
        for field in ["uid", "resourceVersion", "managedFields"] {
            manifest["metadata"].as_object_mut().map(|metadata: &mut Map<String, Value>| metadata.remove(field));
        }
        mutate(&mut manifest, random);
        let mut text = serde_saphyr::to_string(&manifest).unwrap_or_default().into_bytes();
        break_bytes(&mut text, 30, random);
        std::fs::write(&path, text).unwrap();
        let dump = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        run(dump.as_bytes(), &["preview", "-f", path.to_str().unwrap(), "--from", "-"]);
    });
}

#[test]
fn kubeconfigs_never_break_their_reader() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a", "preferences": {"colors": true},
        "clusters": [{"name": "a", "cluster": {
            "server": "https://127.0.0.1:1", "certificate-authority-data": "AAAA", "insecure-skip-tls-verify": false,
            "proxy-url": "socks5://127.0.0.1:1", "extensions": [{"name": "e", "extension": {"k": 1}}],
        }}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "x"}}],
        "users": [{"name": "a", "user": {"token": "t", "tokenFile": "f", "as": "b", "as-user-extra": {"k": ["v"]}, "exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "nothing", "args": ["-x"],
            "env": [{"name": "A", "value": "b"}], "interactiveMode": "Never", "provideClusterInfo": true,
        }}}],
    });
    each_seed(1_000, |random| {
        let mut config = config.clone();
        mutate(&mut config, random);
        let mut text = serde_saphyr::to_string(&config).unwrap_or_default().into_bytes();
        break_bytes(&mut text, 30, random);
        std::fs::write(&path, text).unwrap();
        let options =
            ConnectOptions { kubeconfig: Some(path.to_str().unwrap().to_owned()), ..ConnectOptions::default() };
        // Whether it can be read is not the question.
        let _ = names_in_kubeconfig(&options);
    });
}

#[test]
fn protobuf_never_breaks_the_client() {
    let bodies = Arc::new(Mutex::new([Vec::new(), Vec::new()]));
    let server = Server::start({
        let bodies = bodies.clone();
        move |asked| match asked.path() {
            "/api/v1/nodes" => Reply::of(200, "application/vnd.kubernetes.protobuf", bodies.lock().unwrap()[0].clone()),
            "/api/v1/pods" => Reply::of(200, "application/vnd.kubernetes.protobuf", bodies.lock().unwrap()[1].clone()),
            _ => cluster(asked),
        }
    });
    each_seed(300, |random| {
        let nodes = protobuf_list("NodeList", &[node("n1"), node("n2")], "");
        let pods = protobuf_list("PodList", &[pod("agent-a", "agent", "n1"), pod("web-a", "web", "n1")], "");
        let mut broken = [nodes.body, pods.body];
        broken.iter_mut().for_each(|body| break_bytes(body, 80, random));
        *bodies.lock().unwrap() = broken;
        let _ = read(&options(&server), &Query::default());
    });
}
