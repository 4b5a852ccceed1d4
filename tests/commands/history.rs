//! `history`: the table, differences, templates to be applied again.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Ended, end, kubectl_ds};

/// Recorded from a real control plane; tests/e2e/revisions.rs says what to notice.
pub const REVISIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/commands/revisions.json");

/// Half an hour after the recording.
const SOURCE: [&str; 4] = ["--from", REVISIONS, "--now", "2026-11-21T07:00:00Z"];

/// Runs a command on the recording.
pub fn on_revisions(arguments: &[&str], columns: u16) -> Ended {
    let mut command = kubectl_ds(&[arguments, &SOURCE].concat());
    command.env("COLUMNS", columns.to_string());
    end(command, None)
}

/// Runs a command on the recording that must succeed quietly, and returns what it prints.
pub fn printed(arguments: &[&str], columns: u16) -> String {
    let ended = on_revisions(arguments, columns);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{arguments:?}");
    ended.out
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(arguments, 80)).unwrap()
}

#[test]
fn data_carries_what_the_table_shows() {
    let report = json(&["history", "agent", "-o", "json"]);
    assert_eq!(report["kind"], "HistoryReport");
    assert_eq!(report["daemonSet"], serde_json::json!({"apiVersion": "apps/v1", "namespace": "shop", "name": "agent"}));
    let newest = &report["revisions"][0];
    assert_eq!((&newest["revision"], &newest["current"]), (&5.into(), &true.into()));
    assert_eq!(newest["hash"], "85b8c4cb9c");
    assert_eq!(newest["name"], "agent-85b8c4cb9c");
    assert_eq!(newest["pods"], serde_json::json!({"ready": 3, "total": 3}));
    assert_eq!(newest["changeCause"], "1.5: fixes the leak");
    assert_eq!(newest["images"], serde_json::json!(["registry.example.com/agent:1.5"]));
    // It was made second and rolled out last.
    assert!(newest["createdAt"].as_str().unwrap() < report["revisions"][1]["createdAt"].as_str().unwrap());
    assert!(newest["rolledOutAt"].as_str().unwrap() > report["revisions"][1]["rolledOutAt"].as_str().unwrap());
    assert_eq!(
        newest["changes"][0],
        serde_json::json!({"path": "spec.containers[agent].image", "op": "replace",
            "from": "registry.example.com/agent:2.0-rc1", "to": "registry.example.com/agent:1.5"})
    );
    let yaml: Value = serde_saphyr::from_str(&printed(&["history", "agent", "-o", "yaml"], 80)).unwrap();
    assert_eq!(yaml, report);
    let upgraded = json(&["history", "upgraded", "-o", "json"]);
    assert_eq!(
        (&upgraded["revisions"][0]["sameAs"], &upgraded["revisions"][0]["changes"]),
        (&3.into(), &serde_json::json!([]))
    );
    let broken = json(&["history", "broken", "-o", "json"]);
    assert_eq!(broken["revisions"][0]["problem"], "its data has no spec.template");
    assert_eq!(broken["revisions"][0]["current"], false);
}

#[test]
fn without_a_name_what_lists_the_rollouts_of_all_is_suggested() {
    for (arguments, suggested) in [
        (&["history", "-A"][..], "kubectl ds changes -A"),
        (&["history", "-n", "shop", "-l", "app=agent", "-o", "yaml"], "kubectl ds changes -n shop -l 'app=agent'"),
    ] {
        let ended = on_revisions(arguments, 80);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{arguments:?}");
        let hint = format!("hint: to list the rollouts of all: {suggested} --from ");
        assert!(ended.err.contains(&hint), "{}", ended.err);
    }
}

#[test]
fn changes_have_the_rollouts_of_all_daemon_sets_or_of_one() {
    let report = json(&["changes", "-n", "shop", "-o", "json"]);
    let changes = report["changes"].as_array().unwrap();
    let rollouts = |name: &'static str| {
        changes.iter().filter(move |it| it["names"] == serde_json::json!([name]) && it["what"] == "RolledOut")
    };
    // The template of revision 2 was rolled out again, as 5.
    let numbers: Vec<&Value> = rollouts("agent").map(|it| &it["rollout"]["revision"]).collect();
    assert_eq!(numbers, [5, 4, 3, 2]);
    let latest = rollouts("agent").next().unwrap();
    assert_eq!(latest["rollout"], serde_json::json!({"revision": 5, "comparedWith": 4, "sameAs": 2}));
    // That replaced no pods.
    assert_eq!(rollouts("upgraded").count(), 1);
    let of = |arguments: &[&str]| {
        let report = json(&[&["changes", "-o", "json"], arguments].concat());
        let changes = report["changes"].as_array().unwrap().iter().filter(|it| it["kind"] == "DaemonSet");
        changes.map(|it| it["names"][0].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    for arguments in [&["agent"][..], &["shop/agent"], &["ds/agent", "-n", "shop"]] {
        assert_eq!(of(arguments), BTreeSet::from(["agent".to_owned()]), "{arguments:?}");
    }
    assert_eq!(of(&["-n", "shop", "-l", "app=upgraded"]), BTreeSet::from(["upgraded".to_owned()]));
    assert_eq!(on_revisions(&["changes", "ghost"], 80).code, Some(1));
    assert_eq!(on_revisions(&["changes", "agent", "-l", "app=agent"], 80).code, Some(2));
}

#[test]
fn a_diff_is_data_too() {
    let report = json(&["history", "agent", "--diff", "1", "-o", "json"]);
    assert_eq!(report["kind"], "RevisionDiff");
    assert_eq!(report["from"], serde_json::json!({"source": "Revision", "revision": 1, "current": false}));
    assert_eq!(report["to"], serde_json::json!({"source": "Revision", "revision": 5, "current": true}));
    assert_eq!(report["changes"].as_array().unwrap().len(), 1);
}

#[test]
fn what_stands_after_diff_is_a_range() {
    let ended = on_revisions(&["history", "--diff", "agent"], 80);
    assert!(ended.code == Some(2) && ended.err.contains("hint: the name goes before --diff"), "{}", ended.err);
    let range = printed(&["history", "agent", "--diff", "3..4"], 80);
    for arguments in [["history", "--diff", "3..4", "agent"], ["history", "agent", "--diff", "3...4"]] {
        assert_eq!(printed(&arguments, 80), range, "{arguments:?}");
    }
    for arguments in [["history", "agent", "3..4"].as_slice(), &["history", "agent", "--diff", "--typo"]] {
        assert_eq!(on_revisions(arguments, 80).code, Some(2), "{arguments:?}");
    }
    let back = printed(&["history", "agent", "--diff", "-1"], 80);
    assert_eq!(back, printed(&["history", "agent", "--diff"], 80));
    assert_eq!(
        printed(&["history", "agent", "--diff=-2..-1"], 80),
        printed(&["history", "agent", "--diff", "3..4"], 80)
    );
    assert_eq!(
        printed(&["history", "ds/agent", "--diff", "4..live"], 80).lines().skip(1).collect::<Vec<_>>(),
        back.lines().skip(1).collect::<Vec<_>>()
    );
}

#[test]
fn color_only_adds_to_the_words() {
    for arguments in [["history", "agent", "--color"].as_slice(), &["history", "agent", "--diff", "4..3", "--color"]] {
        let colored = printed(&[arguments, &["always"]].concat(), 80);
        let plain = printed(&[arguments, &["never"]].concat(), 80);
        assert!(colored.contains("\u{1b}["), "{colored}");
        assert_eq!(anstream::adapter::strip_str(&colored).to_string(), plain);
    }
}

#[test]
fn flags_with_their_value_attached_are_not_taken_for_a_range() {
    let attached = printed(&["history", "agent", "-ojson"], 80);
    assert_eq!(attached, printed(&["history", "agent", "-o", "json"], 80));
    assert_eq!(attached, printed(&["history", "agent", "-v=0", "-o=json"], 80));
}

#[test]
fn ascii_is_kept_to_where_that_is_asked_for() {
    for arguments in [["history", "agent", "--ascii"].as_slice(), &["history", "agent", "--diff", "4..3", "--ascii"]] {
        let text = printed(arguments, 80);
        assert!(text.is_ascii(), "{text}");
    }
}
