//! Advanced DaemonSets of OpenKruise in dumps. The recording is of the real controller: a DaemonSet that is paused
//! with a partition and updates in place, after an undo and a restart.

use serde_json::Value;

use super::{Ended, run, run_with_input};

const ADVANCED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/commands/advanced.json");
const DRY: &str = "--dry-run=client";

fn on_advanced(arguments: &[&str]) -> Ended {
    run(&[arguments, &["--from", ADVANCED, "--now", "2026-11-21T07:00:00Z"]].concat())
}

#[test]
fn revisions_are_shown_as_those_of_any_daemon_set() {
    let ended = on_advanced(&["history", "ads/gpu"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert_eq!(
        ended.out,
        "\
Advanced DaemonSet team/gpu: revision 5 is current, on 4 of 4 pods

REVISION     PODS   MADE   ROLLED OUT   CHANGED
5  current   0/4    11m    11m          restart
4            0      11m    11m          image gpu 2 → 1
3            0      11m    11m          image gpu 1 → 2, -toleration *
1            0      12m    12m          (oldest kept)
"
    );
    let table = on_advanced(&["history"]).out;
    assert!(table.contains("\nteam        ads/gpu   5  current "), "{table}");
    let report: Value = serde_json::from_str(&on_advanced(&["history", "gpu", "-o", "json"]).out).unwrap();
    assert_eq!(report["daemonSet"]["apiVersion"], "apps.kruise.io/v1beta1");
}

#[test]
fn a_plain_name_means_it_where_kubernetes_has_none_of_that_name() {
    for name in ["gpu", "ads/gpu", "daemon/gpu", "daemonsets.apps.kruise.io/gpu"] {
        assert_eq!(on_advanced(&["history", name]).out, on_advanced(&["history", "ads/gpu"]).out, "{name}");
    }
    let ended = on_advanced(&["history", "ds/gpu"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.starts_with(&format!("error: {ADVANCED}: daemonsets.apps \"gpu\" not found\n")), "{}", ended.err);
    let ended = on_advanced(&["history", "ads/gpus"]);
    let not_found = format!("error: {ADVANCED}: daemonsets.apps.kruise.io \"gpus\" not found\n");
    assert!(ended.err.starts_with(&not_found), "{}", ended.err);
    assert!(ended.err.contains("similar names: gpu"), "{}", ended.err);
}

#[test]
fn undo_says_what_holds_pods_back_and_keeps_the_version_of_the_api() {
    let text = std::fs::read_to_string(ADVANCED).unwrap();
    for version in ["v1beta1", "v1alpha1"] {
        let dump = text.replace("apps.kruise.io/v1beta1", &format!("apps.kruise.io/{version}"));
        let ended =
            run_with_input(&["undo", "gpu", "--to-revision=1", DRY, "-o", "json", "--from", "-"], dump.as_bytes());
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert_eq!(
            ended.err,
            "\
warning: the rolling update is paused
  (spec.updateStrategy.rollingUpdate.paused): pods stay as they are until it
  goes on; new pods get the new template
warning: the partition keeps 2 pods as they are
"
        );
        let object: Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!(object["apiVersion"], format!("apps.kruise.io/{version}"));
        let template = &object["spec"]["template"];
        assert_eq!(template["spec"]["tolerations"], serde_json::json!([{"operator": "Exists"}]));
        assert!(template.get("$patch").is_none(), "{template}");
    }
}

#[test]
fn a_restart_that_restarts_nothing_says_so() {
    let ended = on_advanced(&["restart", "gpu", DRY]);
    assert_eq!(ended.code, Some(0));
    assert!(
        ended.err.contains("warning: the update type is InPlaceIfPossible: pods that were made under it\n"),
        "{}",
        ended.err
    );
    assert!(ended.out.ends_with("daemonset.apps.kruise.io/gpu restarted (dry run)\n"), "{}", ended.out);
    assert!(!on_advanced(&["undo", "gpu", DRY]).err.contains("InPlace"));
}

#[test]
fn what_counts_nodes_does_not_take_them_for_kubernetes_own() {
    for command in ["list", "coverage"] {
        let ended = on_advanced(&[command]);
        assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (Some(0), "", "No DaemonSets found.\n"));
    }
}

#[test]
fn a_name_of_the_other_flavor_is_offered() {
    let ended = on_advanced(&["history", "ds/gpu", "-n", "team"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    assert_eq!(
        ended.err,
        format!(
            "error: {ADVANCED}: daemonsets.apps \"gpu\" not found\n\
             hint: similar names in namespace \"team\": ads/gpu\n"
        )
    );
}

#[test]
fn they_come_back_from_a_dump_of_a_dump() {
    let dump = on_advanced(&["snapshot"]);
    let again = run_with_input(&["history", "gpu", "--from", "-"], dump.out.as_bytes());
    assert_eq!(again.err, "");
    assert!(again.out.starts_with("Advanced DaemonSet team/gpu: revision 5 is current"), "{}", again.out);
    let redacted = on_advanced(&["snapshot", "--redact"]);
    let again = run_with_input(&["history", "gpu", "--from", "-"], redacted.out.as_bytes());
    assert!(again.out.contains("\n5  current   0/4    11m    11m "), "{}", again.out);
    assert!(!redacted.out.contains("registry.example.com"), "{}", redacted.out);
}
