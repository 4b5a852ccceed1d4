//! OpenKruise's Advanced DaemonSets in dumps. The recording is of the real controller: a paused DaemonSet with a
//! partition and in-place updates, after an undo and a restart.

use serde_json::Value;

use super::{Ended, run, run_with_input};

const ADVANCED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/commands/advanced.json");
const DRY: &str = "--dry-run=client";

fn on_advanced(arguments: &[&str]) -> Ended {
    run(&[arguments, &["--from", ADVANCED, "--now", "2026-11-21T07:00:00Z"]].concat())
}

#[test]
fn a_plain_name_finds_an_advanced_daemon_set() {
    for name in ["gpu", "ads/gpu", "daemon/gpu", "daemonsets.apps.kruise.io/gpu"] {
        assert_eq!(on_advanced(&["history", name]).out, on_advanced(&["history", "ads/gpu"]).out, "{name}");
    }
}

#[test]
fn undo_keeps_the_api_version() {
    let text = std::fs::read_to_string(ADVANCED).unwrap();
    for version in ["v1beta1", "v1alpha1"] {
        let dump = text.replace("apps.kruise.io/v1beta1", &format!("apps.kruise.io/{version}"));
        let ended =
            run_with_input(&["undo", "gpu", "--to-revision=1", DRY, "-o", "json", "--from", "-"], dump.as_bytes());
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        let object = &serde_json::from_str::<Value>(&ended.out).unwrap()["object"];
        assert_eq!(object["apiVersion"], format!("apps.kruise.io/{version}"));
        let template = &object["spec"]["template"];
        assert_eq!(template["spec"]["tolerations"], serde_json::json!([{"operator": "Exists"}]));
        assert!(template.get("$patch").is_none(), "{template}");
    }
}

#[test]
fn they_come_back_from_a_dump_of_a_dump() {
    let dump = on_advanced(&["snapshot"]);
    let again = run_with_input(&["history", "gpu", "--from", "-"], dump.out.as_bytes());
    assert_eq!(again.err, "");
    assert!(again.out.starts_with("Advanced DaemonSet team/gpu: revision 5 is current"), "{}", again.out);
    let redacted = on_advanced(&["snapshot", "--redact"]);
    let again = run_with_input(&["history", "gpu", "--from", "-"], redacted.out.as_bytes());
    let newest = again.out.lines().find(|line| line.starts_with("5  current")).unwrap_or_default();
    let cells: Vec<&str> = newest.split_whitespace().take(5).collect();
    assert_eq!(cells, ["5", "current", "0/4", "11m", "11m"], "{}", again.out);
    assert!(!redacted.out.contains("registry.example.com"), "{}", redacted.out);
}
