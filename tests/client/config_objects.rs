//! ConfigMaps and Secrets: their data is never requested, and their metadata only by the one command that needs it.

use std::collections::BTreeMap;

use kubectl_ds::model::metadata::OwnerReference;
use kubectl_ds::model::time::Time;
use serde_json::{Value, json};

use super::server::{Asked, Reply, Server};
use super::{JSON, absent, cluster, daemon_set, json_list, node, pod, protobuf_list, refusal};
use crate::screens::{Ended, end, kubectl_ds};

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// The DaemonSet `agent`, which uses a ConfigMap and a Secret by variables; its pod started before both were changed.
fn using_both(asked: &Asked) -> Reply {
    let from = |kind: &str, name: &str| json!({"name": name, "valueFrom": {(kind): {"name": name, "key": "k"}}});
    let mut agent = daemon_set("agent");
    agent["spec"]["template"]["spec"] = json!({"containers": [{"name": "c", "image": "c", "env": [from("configMapKeyRef", "level"), from("secretKeyRef", "login")]}]});
    let mut pod = pod("agent-a", "agent", "n1");
    // Which template it is of, the template generation tells.
    agent["metadata"]["annotations"]["deprecated.daemonset.template.generation"] = json!("1");
    let labels =
        [("app", "agent"), ("pod-template-generation", "1")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    pod.metadata.labels = BTreeMap::from(labels).into();
    let (kind, name) = ("DaemonSet".to_owned(), "agent".to_owned());
    let owner = OwnerReference { kind, name, ..pod.metadata.owner_references[0].clone() };
    pod.metadata.owner_references = vec![owner].into();
    pod.metadata.creation_timestamp = Time::from("2026-11-20T10:00:00Z".parse::<jiff::Timestamp>().unwrap());
    match asked.path() {
        path if path.ends_with("/daemonsets/agent") => Reply::of(200, JSON, agent.to_string()),
        path if path.ends_with("/daemonsets") => json_list(path, &[agent]),
        path if path.ends_with("/pods") => protobuf_list("PodList", &[pod], ""),
        path if path.ends_with("/configmaps/level") => object("PartialObjectMetadata", "level"),
        path if path.ends_with("/secrets/login") => object("PartialObjectMetadata", "login"),
        _ => cluster(asked),
    }
}

fn object(kind: &str, name: &str) -> Reply {
    let managed = json!({"manager": "m", "time": "2026-11-20T11:00:00Z", "fieldsV1": {"f:data": {"f:k": {}}}});
    let metadata = json!({"name": name, "namespace": "team", "creationTimestamp": "2026-11-19T10:00:00Z", "managedFields": [managed]});
    Reply::of(200, JSON, json!({"kind": kind, "metadata": metadata, "data": {"k": "aHVudGVyMg=="}}).to_string())
}

fn run(server: &Server, command: &[&str]) -> Ended {
    let url = format!("http://{}", server.address);
    end(kubectl_ds(&[command, &["-n", "team", "-s", &url]].concat()), None)
}

/// Returns what was requested of ConfigMaps and Secrets, and in which form.
fn requested(server: &Server) -> Vec<(String, String)> {
    let of_config = |asked: &Asked| ["/configmaps", "/secrets"].iter().any(|it| asked.path().contains(it));
    let asked = server.asked().into_iter().filter(of_config);
    let mut asked: Vec<_> = asked.map(|it| (it.target.clone(), it.header("accept").to_owned())).collect();
    asked.sort();
    asked
}

#[test]
fn only_metadata_is_requested_of_each_object_by_its_name() {
    let server = Server::start(using_both);
    let ended = run(&server, &["status", "agent", "-o", "json"]);
    let report: Value = serde_json::from_str(&ended.out).expect(&ended.err);
    assert_eq!(report["daemonSets"][0]["staleConfig"]["changed"].as_array().unwrap().len(), 2, "{report}");
    let expected = ["configmaps/level", "secrets/login"].map(|it| format!("/api/v1/namespaces/team/{it}"));
    assert_eq!(requested(&server), expected.map(|target| (target, METADATA.to_owned())));
}

#[test]
fn an_answer_with_data_is_refused() {
    let server = Server::start(|asked| match asked.path() {
        path if path.ends_with("/secrets/login") => object("Secret", "login"),
        _ => using_both(asked),
    });
    let Ended { out, err, .. } = run(&server, &["status", "agent"]);
    // The ConfigMap is known to have changed.
    assert!(out.contains("ConfigMap level last written"), "{out}{err}");
    assert!(out.contains("last change not known: Secret login"), "{out}{err}");
    assert!(!format!("{out}{err}").contains("aHVudGVyMg"), "{out}{err}");
}

#[test]
fn no_other_command_requests_a_secret() {
    let server = Server::start(using_both);
    for command in
        [&["coverage"][..], &["list"], &["status"], &["history", "agent"], &["restart", "agent", "--dry-run"]]
    {
        run(&server, command);
        assert_eq!(requested(&server), [], "{command:?}");
    }
    let config_map = || ("/api/v1/namespaces/team/configmaps/level".to_owned(), METADATA.to_owned());
    let server = Server::start(using_both);
    let Ended { out: dump, err, .. } = run(&server, &["snapshot"]);
    assert_eq!(requested(&server), [config_map()]);
    assert!(dump.contains(r#""kind":"ConfigMap""#) && !dump.contains(r#""kind":"Secret""#), "{dump}{err}");
    assert!(!dump.contains("aHVudGVyMg") && !err.contains("warning"), "{dump}{err}");
}

/// One that was changed may be to blame for that.
#[test]
fn the_config_maps_of_what_fails_are_requested_by_commands_about_all_daemon_sets() {
    let failing = |asked: &Asked| match asked.path() {
        path if path.ends_with("/pods") => {
            let mut pod = pod("agent-a", "agent", "n1");
            pod.metadata.labels = BTreeMap::from([("app".to_owned(), "agent".to_owned())]).into();
            let crashes = json!({"name": "c", "restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
            pod.status.container_statuses = vec![serde_json::from_value(crashes).unwrap()];
            protobuf_list("PodList", &[pod], "")
        }
        _ => using_both(asked),
    };
    let server = Server::start(failing);
    let config_map = ("/api/v1/namespaces/team/configmaps/level".to_owned(), METADATA.to_owned());
    let commands = [&["coverage"][..], &["list"], &["status"], &["restart", "agent", "--dry-run"]];
    for (number, command) in commands.into_iter().enumerate() {
        let ended = run(&server, command);
        assert_eq!(requested(&server), vec![config_map.clone(); number + 1], "{command:?} {}", ended.err);
    }
    // What is not read is told, and nothing follows from it.
    let server = Server::start(move |asked| match asked.path() {
        path if path.contains("/configmaps/") => refusal(403, "Forbidden", "no"),
        _ => failing(asked),
    });
    let Ended { out, err, .. } = run(&server, &["status"]);
    assert!(out.contains("whether one was changed before pods failed is not known"), "{out}{err}");
}

#[test]
fn an_object_that_could_not_be_read_is_named_and_one_that_may_not_be_read_is_expected_in_a_dump() {
    let failing = |code: u16, reason: &'static str| {
        Server::start(move |asked| match asked.path() {
            path if path.contains("/configmaps/") => refusal(code, reason, "no"),
            _ => using_both(asked),
        })
    };
    let Ended { out, err, .. } = run(&failing(400, "BadRequest"), &["status", "agent"]);
    assert!(out.contains("skipped ConfigMap team/level: "), "{out}{err}");
    let warned = |server: &Server| run(server, &["snapshot"]).err.contains("onfig");
    assert!(warned(&failing(400, "BadRequest")));
    assert!(!warned(&failing(403, "Forbidden")));
}

#[test]
fn what_the_template_requires_and_does_not_exist_is_named() {
    let server = Server::start(|asked| match asked.path() {
        path if path.ends_with("/configmaps/level") => absent(path),
        _ => using_both(asked),
    });
    let Ended { out, err, .. } = run(&server, &["status", "agent"]);
    assert!(out.contains("1 of 1 pod use a change only once they start again:"), "{out}{err}");
    assert!(
        out.contains("  Secret login last written") && out.contains("  does not exist: ConfigMap level\n"),
        "{out}"
    );
    assert!(out.contains("do not restart the pods: ConfigMap level does not exist"), "{out}");
    let server = Server::start(|asked| match asked.path() {
        path if path.ends_with("/configmaps/level") || path.ends_with("/secrets/login") => absent(path),
        "/api/v1/nodes" => protobuf_list("NodeList", &[node("n1")], ""),
        _ => using_both(asked),
    });
    let Ended { out, err, .. } = run(&server, &["status", "agent"]);
    let told =
        "New pods would not start, because the template requires:\n  does not exist: ConfigMap level, Secret login\n";
    assert!(out.contains(told), "{out}{err}");
    let Ended { out, err, .. } = run(&server, &["status", "agent", "-o", "json"]);
    let report: Value = serde_json::from_str(&out).expect(&err);
    let missing = json!([{"kind": "ConfigMap", "name": "level"}, {"kind": "Secret", "name": "login"}]);
    assert_eq!(report["daemonSets"][0]["staleConfig"]["missing"], missing, "{report}");
}

/// Whether a rollout is complete does not depend on it.
#[test]
fn the_status_of_one_daemon_set_tells_what_its_pods_are_older_than() {
    let stale = |report: &Value| report["daemonSets"][0]["staleConfig"].clone();
    let server = Server::start(using_both);
    let ended = run(&server, &["status", "agent"]);
    let lines = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = "1 of 1 pod use a change only once they start again: ConfigMap level last written";
    assert!(lines(&ended.out).contains(told), "{}{}", ended.out, ended.err);
    assert!(lines(&ended.out).contains("restart the pods when none is"), "{}", ended.out);
    let report: Value = serde_json::from_str(&run(&server, &["status", "agent", "-o", "json"]).out).unwrap();
    let changed = &stale(&report)["changed"];
    assert_eq!((&changed[0]["name"], &changed[1]["name"]), (&json!("level"), &json!("login")), "{report}");
    let all: Value = serde_json::from_str(&run(&server, &["status", "-o", "json"]).out).unwrap();
    assert_eq!(stale(&all), Value::Null);

    let without_secrets = Server::start(|asked| match asked.path() {
        path if path.contains("/secrets/") => refusal(403, "Forbidden", "no"),
        _ => using_both(asked),
    });
    let told = run(&without_secrets, &["status", "agent"]);
    assert!(told.out.contains("  last change not known: Secret login\n"), "{}", told.out);
    assert!(!format!("{}{}", told.out, told.err).contains("could not be read"), "{}{}", told.out, told.err);
    assert_eq!(told.code, ended.code);

    let forbidden = Server::start(|asked| match asked.path() {
        path if path.contains("/configmaps/") || path.contains("/secrets/") => refusal(403, "Forbidden", "no"),
        _ => using_both(asked),
    });
    let refused = run(&forbidden, &["status", "agent"]);
    assert_eq!(refused.code, ended.code);
    assert!(!refused.out.contains("started before"), "{}", refused.out);
    let told = "configmaps in namespace team could not be read (get configmaps is forbidden): whether pods are older is not known";
    assert!(lines(&format!("{}{}", refused.out, refused.err)).contains(told), "{}{}", refused.out, refused.err);
    let report: Value = serde_json::from_str(&run(&forbidden, &["status", "agent", "-o", "json"]).out).unwrap();
    assert_eq!(stale(&report)["stalePods"], Value::Null, "{report}");
}
