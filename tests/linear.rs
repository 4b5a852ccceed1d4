//! Doubling any part of the input about doubles the processor time.

use std::process::Command;

use serde_json::{Value, json};

/// How much longer four times the input may take: at most 2.7 times for each doubling.
const MOST: f64 = 2.7 * 2.7;

/// What takes less than this, in seconds, is fast enough.
const SHORT: f64 = 0.25;

const SINCE: &str = "2026-11-01T00:00:00Z";

fn many<T>(n: usize, make: impl Fn(usize) -> T) -> Vec<T> {
    (0..n).map(make).collect()
}

fn node(number: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{number}"), "uid": format!("u-n{number}"),
            "creationTimestamp": SINCE, "labels": {"kubernetes.io/hostname": format!("n{number}"), "zone": format!("z{}", number % 3)}},
        "spec": {}, "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-20T12:00:00Z"}]}})
}

fn template(name: &str) -> Value {
    json!({"metadata": {"labels": {"app": name}}, "spec": {"restartPolicy": "Always", "containers": [{"name": name,
        "image": format!("{name}:1"), "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}]}})
}

fn daemon_set(name: &str, template: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": "big", "uid": format!("u-{name}"),
            "generation": 1, "creationTimestamp": SINCE},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}},
        "status": {"observedGeneration": 1}})
}

fn owner(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": format!("u-{name}"), "controller": true})
}

fn revision(number: usize, mut template: Value) -> Value {
    template["$patch"] = "replace".into();
    let time = format!("2026-11-{:02}T{:02}:{:02}:00Z", 1 + number / 1440 % 19, number / 60 % 24, number % 60);
    json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": format!("agent-{number}"), "namespace": "big",
            "uid": format!("u-r{number}"), "creationTimestamp": time, "ownerReferences": [owner("DaemonSet", "agent")],
            "labels": {"app": "agent", "controller-revision-hash": format!("h{number}")}},
        "revision": number, "data": {"spec": {"template": template}}})
}

fn pod(number: usize, node: usize, owner: Value, image: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{number}"), "namespace": "big", "uid": format!("u-p{number}"),
            "creationTimestamp": SINCE, "labels": {"app": "agent", "controller-revision-hash": "h1"}, "ownerReferences": [owner]},
        "spec": {"nodeName": format!("n{node}"), "containers": [{"name": "agent", "image": image, "resources": {}}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": SINCE}]}})
}

fn event(number: usize, kind: &str, name: &str, reason: &str, message: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("e{number}"), "namespace": "big"},
        "involvedObject": {"kind": kind, "namespace": "big", "name": name, "uid": format!("u-{name}")}, "reason": reason,
        "message": message, "type": "Warning", "count": 1, "lastTimestamp": "2026-11-20T11:00:00Z", "source": {"component": "kubelet"}})
}

/// Makes a cluster with a DaemonSet, one pod of it and a revision, after they were changed.
fn one(change: impl FnOnce(&mut Value, &mut Value, &mut Value)) -> Vec<Value> {
    let mut daemon_set = daemon_set("agent", template("agent"));
    let (mut node, mut pod) = (node(0), pod(0, 0, owner("DaemonSet", "agent"), "agent:1"));
    change(&mut daemon_set, &mut node, &mut pod);
    let revision = revision(1, daemon_set["spec"]["template"].clone());
    vec![node, daemon_set, pod, revision]
}

/// Makes a DaemonSet whose template was changed, with the revision before it.
fn changed(change: impl Fn(&mut Value)) -> Vec<Value> {
    let mut new = template("agent");
    change(&mut new);
    let mut old = new.clone();
    old["spec"]["containers"][0]["image"] = "agent:0".into();
    let daemon_set = daemon_set("agent", new.clone());
    vec![node(0), daemon_set, revision(1, old), revision(2, new)]
}

const COVERAGE: &[&str] = &["coverage", "-A", "-o", "json"];
const STATUS: &[&str] = &["status", "-A", "-o", "json"];
const HISTORY: &[&str] = &["history", "agent", "-n", "big"];
/// In BEFORE, which is made from the same, no node has a taint, and every pod is ready.
const COMPARE: &[&str] = &["compare", BEFORE, "--accept", "UntoleratedNoSchedule=1"];
const BEFORE: &str = "BEFORE";
const REDACT: &[&str] = &["snapshot", "-A", "--redact"];

type Make = fn(usize) -> Vec<Value>;

/// What there is much of, how much to begin with, and what reads it.
const KINDS: [(&str, usize, &[&[&str]], Make); 21] = [
    ("nodes that a taint excludes since", 1_500, &[COMPARE], |n| {
        let excluded = |i| {
            let mut node = node(i);
            node["spec"]["taints"] = json!([{"key": format!("t{i}"), "effect": "NoSchedule"}]);
            node
        };
        let revision = revision(1, template("agent"));
        let pods = many(n, |i| pod(i, i, owner("DaemonSet", "agent"), "agent:1"));
        [many(n, excluded), vec![daemon_set("agent", template("agent")), revision], pods].concat()
    }),
    ("node selector terms that match nothing", 800, &[COVERAGE], |n| {
        let term = |i| json!({"matchExpressions": [{"key": "pool", "operator": "In", "values": [format!("p{i}")]}]});
        let mut template = template("agent");
        let terms = json!({"nodeSelectorTerms": many(n, term)});
        template["spec"]["affinity"] =
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        [many(n / 15, node), vec![daemon_set("agent", template)]].concat()
    }),
    ("revisions", 150, &[HISTORY, COVERAGE, STATUS], |n| {
        let image = |i: usize| {
            let mut template = template("agent");
            template["spec"]["containers"][0]["image"] = format!("agent:{i}").into();
            template
        };
        [vec![node(0), daemon_set("agent", image(n))], many(n, |i| revision(i + 1, image(i + 1)))].concat()
    }),
    ("registries", 600, &[REDACT], |n| {
        let mut template = template("agent");
        template["spec"]["containers"][0]["args"] = json!(many(200, |i| format!("--to=r{i}.example.com/x")));
        let other = |i| pod(i, 0, owner("ReplicaSet", "r"), &format!("r{i}.example.com/app:1"));
        [vec![node(0), daemon_set("agent", template)], many(n, other)].concat()
    }),
    ("registries in messages", 600, &[REDACT, COVERAGE], |n| {
        let failed =
            |i| event(i, "Pod", "p0", "Failed", &format!("Failed to pull image \"r{i}.example.com/app:1\": not found"));
        [one(|_, _, _| {}), many(n, failed)].concat()
    }),
    ("DaemonSets", 60, &[&["overhead"], COVERAGE, STATUS, &["list", "-A"]], |n| {
        let name = |i: usize| format!("agent{i}");
        [many(50, node), many(n, |i| daemon_set(&name(i), template(&name(i))))].concat()
    }),
    ("nodes", 400, &[&["overhead"], COVERAGE, STATUS, &["list", "-A"]], |n| {
        let pods = many(n, |i| pod(i, i, owner("DaemonSet", "agent"), "agent:1"));
        [many(n, node), vec![daemon_set("agent", template("agent")), revision(1, template("agent"))], pods].concat()
    }),
    ("variables of one name that refer to themselves", 500, &[HISTORY], |n| {
        changed(|template| {
            let variable = |_| json!({"name": "PATH_", "value": "$(PATH_):x"});
            template["spec"]["containers"][0]["env"] = json!(many(n, variable));
        })
    }),
    ("variables that refer to each other", 500, &[HISTORY, REDACT], |n| {
        changed(|template| {
            let variable = |i: usize| json!({"name": format!("V{i}"), "value": format!("$(V{}):x", i / 2)});
            template["spec"]["containers"][0]["env"] = json!(many(n, variable));
        })
    }),
    ("blanks", 30_000, &[REDACT, COVERAGE], |n| {
        let message = format!("x{}x", " ".repeat(n));
        [one(|_, _, _| {}), vec![event(0, "DaemonSet", "agent", "FailedCreate", &message)]].concat()
    }),
    ("words of a message", 5_000, &[REDACT, COVERAGE], |n| {
        let message = format!("Error creating: {}", many(n, |i| format!("word{i}: 1 node(s), ")).concat());
        [one(|_, _, _| {}), vec![event(0, "DaemonSet", "agent", "FailedCreate", &message)]].concat()
    }),
    (
        "words of a refusal in a table",
        5_000,
        &[&["coverage", "-A"], &["status", "-A"], &["coverage", "agent", "-n", "big"]],
        |n| {
            let message = format!("Error creating: {}", "A ".repeat(4 * n));
            [vec![node(1)], one(|_, _, _| {}), vec![event(0, "DaemonSet", "agent", "FailedCreate", &message)]].concat()
        },
    ),
    ("images", 1_000, &[HISTORY, COVERAGE, REDACT], |n| {
        changed(|template| {
            let volume = |i| json!({"name": format!("v{i}"), "image": {"reference": format!("r{i}.corp/data:{i}")}});
            template["spec"]["volumes"] = json!(many(n, volume));
        })
    }),
    ("events", 1_500, &[COVERAGE, STATUS, &["changes", "-A"], REDACT], |n| {
        let failed = |i| event(i, "Pod", "p0", "BackOff", &format!("Back-off restarting failed container {i}"));
        [one(|_, _, _| {}), many(n, failed)].concat()
    }),
    ("taints", 500, &[COVERAGE, STATUS], |n| {
        let taint = |i| json!({"key": format!("t{i}"), "effect": "NoSchedule"});
        one(|_, node, _| node["spec"]["taints"] = json!(many(n, taint)))
    }),
    ("taints that are tolerated", 300, &[COVERAGE, HISTORY], |n| {
        one(|daemon_set, node, _| {
            node["spec"]["taints"] =
                json!(many(n.isqrt() * 10, |i| json!({"key": format!("t{i}"), "effect": "NoSchedule"})));
            let toleration = |i| json!({"key": format!("t{i}"), "operator": "Exists"});
            daemon_set["spec"]["template"]["spec"]["tolerations"] = json!(many(n.isqrt() * 10, toleration));
        })
    }),
    ("owner references", 1_000, &[COVERAGE, STATUS, REDACT], |n| {
        let reference =
            |i| json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": format!("o{i}"), "uid": format!("u{i}")});
        one(|_, _, pod| pod["metadata"]["ownerReferences"].as_array_mut().unwrap().extend(many(n, reference)))
    }),
    ("annotations", 1_500, &[HISTORY, REDACT], |n| {
        changed(|template| {
            let annotations = many(n, |i| (format!("example.com/a{i}"), json!(format!("v{i}")))).into_iter().collect();
            template["metadata"]["annotations"] = Value::Object(annotations);
        })
    }),
    ("conditions", 1_000, &[COVERAGE, STATUS, REDACT], |n| {
        let condition = |i| json!({"type": format!("C{i}"), "status": "True", "message": "all is well"});
        one(|_, node, pod| {
            node["status"]["conditions"].as_array_mut().unwrap().extend(many(n, condition));
            pod["status"]["conditions"].as_array_mut().unwrap().extend(many(n, condition));
        })
    }),
    ("containers", 300, &[COVERAGE, STATUS, HISTORY, REDACT], |n| {
        let container = |i| json!({"name": format!("c{i}"), "image": format!("image:{i}"), "resources": {"requests": {"cpu": "1m"}}});
        let status = |i| {
            json!({"name": format!("c{i}"), "ready": false, "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": format!("back-off 5m0s restarting failed container=c{i}")}}})
        };
        one(|daemon_set, _, pod| {
            daemon_set["spec"]["template"]["spec"]["containers"] = json!(many(n, container));
            pod["spec"]["containers"] = json!(many(n, container));
            pod["status"]["containerStatuses"] = json!(many(n, status));
        })
    }),
    ("labels", 1_000, &[COVERAGE, HISTORY, REDACT], |n| {
        one(|daemon_set, node, _| {
            let labels = || Value::Object(many(n, |i| (format!("l{i}"), json!(format!("v{i}")))).into_iter().collect());
            node["metadata"]["labels"] = labels();
            daemon_set["spec"]["template"]["spec"]["nodeSelector"] = labels();
        })
    }),
];

/// Returns an object as it is while all is well.
fn healthy(mut object: Value) -> Value {
    match object["kind"].as_str() {
        Some("Node") => object["spec"] = json!({}),
        Some("Pod") => object["status"]["conditions"][0]["status"] = "True".into(),
        _ => {}
    }
    object
}

/// Returns the processor time in seconds that a command takes, the least of several runs: the machine may be busy.
fn processor_time(arguments: &[&str], dump: &str, runs: usize) -> f64 {
    const TIMED: &str = "TIMEFORMAT='%3U %3S'; time \"$@\" > /dev/null 2> /dev/null";
    let time = || {
        let binary = env!("CARGO_BIN_EXE_kubectl-ds");
        let before = format!("{dump}{BEFORE}");
        let arguments: Vec<&str> = arguments.iter().map(|word| if *word == BEFORE { &before } else { *word }).collect();
        let words = [&["-c", TIMED, "bash", binary][..], &arguments, &["--from", dump]].concat();
        let output = Command::new("/bin/bash").args(words).env_clear().env("LC_ALL", "C").output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        let times: Vec<f64> = text.split_whitespace().map(|time| time.parse().unwrap()).collect();
        assert_eq!(times.len(), 2, "{text}");
        times.iter().sum::<f64>()
    };
    (0..runs).map(|_| time()).fold(f64::INFINITY, f64::min)
}

#[test]
fn four_times_the_input_takes_about_four_times_the_processor_time() {
    let directory = tempfile::tempdir().unwrap();
    let mut slow = Vec::new();
    for (what, n, commands, make) in KINDS {
        let dump = |n: usize| {
            let write = |name: &str, items: Vec<Value>| {
                let path = directory.path().join(format!("{n}.json{name}"));
                std::fs::write(&path, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
                path.to_str().unwrap().to_owned()
            };
            if commands.contains(&COMPARE) {
                write(BEFORE, make(n).into_iter().map(healthy).collect());
            }
            write("", make(n))
        };
        let (small, large) = (dump(n), dump(4 * n));
        for arguments in commands {
            let more = processor_time(arguments, &large, 1);
            if more < SHORT {
                continue;
            }
            if more / processor_time(arguments, &small, 1) <= MOST {
                continue;
            }
            let (less, more) = (processor_time(arguments, &small, 3), processor_time(arguments, &large, 3));
            if more / less > MOST {
                slow.push(format!(
                    "{what}: {} takes {less} s for {n}, and {more} s for four times as many",
                    arguments.join(" ")
                ));
            }
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}
