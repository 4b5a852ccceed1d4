//! Text from a cluster that would control the terminal, in every place where there can be text.

use serde_json::{Value, json};

use super::run_with_input;

/// An escape sequence, a C1 control, a bell, a turn of direction, and a line of its own.
pub const HOSTILE: &str = "x\u{1b}[31m\u{9b}2J\u{7}\u{202e}\u{200b}\r\nfake: all is well";

pub fn cluster() -> Value {
    cluster_with(HOSTILE)
}

/// A cluster with a text in every place where there can be text.
pub fn cluster_with(text: &str) -> Value {
    let daemon_set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": text, "namespace": text, "uid": "u", "generation": 1, "creationTimestamp": "2026-11-20T09:00:00Z"},
        "spec": {
            "selector": {"matchLabels": {"a": text}},
            "updateStrategy": {"type": text},
            "template": {"metadata": {"labels": {"a": text}}, "spec": {
                "nodeSelector": {"zone": text}, "containers": [{"name": text, "image": text}],
            }},
        },
        "status": {"observedGeneration": 1, "desiredNumberScheduled": 7},
    });
    let node = |name: &str, zone: &str| {
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"zone": zone}},
            "spec": {"taints": [{"key": text, "value": text, "effect": "PreferNoSchedule"}]},
            "status": {"allocatable": {"cpu": "4", "pods": "9"}, "conditions": [{"type": "Ready", "status": "False", "reason": text, "message": text}]},
        })
    };
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": text, "uid": "u", "controller": true}]);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": text, "namespace": text, "labels": {"a": text, "controller-revision-hash": text},
            "ownerReferences": owner, "finalizers": [text]},
        "spec": {"nodeName": text, "containers": [{"name": text, "image": text}], "readinessGates": [{"conditionType": text}]},
        "status": {"phase": "Running", "reason": text, "message": text,
            "conditions": [{"type": "Ready", "status": "False", "reason": text, "message": text}],
            "containerStatuses": [{"name": text, "state": {"waiting": {"reason": text, "message": text}}, "restartCount": 3,
                "lastState": {"terminated": {"exitCode": 1, "reason": text, "message": text}}}]},
    });
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": text},
        "involvedObject": {"kind": "Pod", "namespace": text, "name": text}, "reason": text, "message": text,
        "type": "Warning", "lastTimestamp": "2026-11-20T09:30:00Z",
    });
    let failed = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "f", "namespace": text},
        "involvedObject": {"kind": "DaemonSet", "namespace": text, "name": text, "uid": "u"},
        "reason": "FailedCreate", "message": format!("Error creating: {text}"), "type": "Warning",
        "lastTimestamp": "2026-11-20T09:30:00Z",
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [
        daemon_set, node(text, text), node("other", text), node("third", "elsewhere"), pod, event, failed,
    ]})
}

#[test]
fn no_command_lets_it_through() {
    let cluster = cluster().to_string();
    let commands: [&[&str]; 12] = [
        &["list"],
        &["list", "-o", "wide"],
        &["list", "-o", "name"],
        &["coverage"],
        &["coverage", "--nodes"],
        &["coverage", "-o", "name"],
        &["coverage", "--by", "zone"],
        &["coverage", "--node", HOSTILE],
        &["pod", "--node", HOSTILE, HOSTILE],
        &["coverage", "--node", HOSTILE, HOSTILE],
        &["coverage", "--node", "other", HOSTILE],
        &["coverage", "--node", "third", HOSTILE],
    ];
    for arguments in commands {
        let ended = run_with_input(&[arguments, &["--from", "-"]].concat(), cluster.as_bytes());
        let printed = ended.out + &ended.err;
        assert!(printed.contains(r"x\u{1b}[31m\u{9b}2J\u{7}\u{202e}\u{200b}"), "{arguments:?}: {printed}");
        let bad = printed.chars().find(|c| (c.is_control() && *c != '\n') || matches!(c, '\u{202e}' | '\u{200b}'));
        assert_eq!(bad, None, "{arguments:?}");
        assert!(!printed.lines().any(|line| line.starts_with("fake")), "{arguments:?}: {printed}");
    }
}

#[test]
fn no_error_lets_it_through() {
    let ended = run_with_input(&["coverage", HOSTILE, "--from", "-"], br#"{"kind": "List", "items": []}"#);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    assert!(!ended.err.contains('\u{1b}') && !ended.err.contains('\u{202e}'), "{}", ended.err);
}

#[test]
fn data_is_harmless_and_means_the_same() {
    let reports = ["json", "yaml"].map(|format| {
        let ended = run_with_input(&["coverage", "-o", format, "--from", "-"], cluster().to_string().as_bytes());
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        let bad = ended.out.chars().find(|c| (c.is_control() && *c != '\n') || matches!(c, '\u{202e}' | '\u{200b}'));
        assert_eq!(bad, None, "{format}");
        let report: Value = serde_saphyr::from_str(&ended.out).unwrap();
        report
    });
    assert_eq!(reports[0], reports[1]);
    assert_eq!(reports[0]["daemonSets"][0]["name"], HOSTILE);
}
