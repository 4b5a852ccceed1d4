//! `history`: the table, differences, templates to be applied again.

use std::fs;

use serde_json::Value;

use super::{Ended, end, kubectl_ds, run, run_with_input};

/// Recorded from a real control plane; tests/e2e/revisions.rs says what to notice.
pub const REVISIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/commands/revisions.json");

/// Half an hour after the recording.
const SOURCE: [&str; 4] = ["--from", REVISIONS, "--now", "2026-11-21T07:00:00Z"];

/// Runs a command on the recording.
pub fn on_revisions(arguments: &[&str], columns: u16) -> Ended {
    let mut command = kubectl_ds(&[arguments, &SOURCE].concat());
    command.env("COLUMNS", columns.to_string());
    end(command)
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

/// Runs a command on the recording that must fail, and returns its exit code and its words.
pub fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let ended = on_revisions(arguments, 80);
    assert_eq!(ended.out, "", "{arguments:?} prints data although it fails");
    (ended.code, ended.err)
}

#[test]
fn the_newest_revision_comes_first_with_what_changed_and_why() {
    assert_eq!(
        printed(&["history", "agent"], 80),
        "\
shop/agent: revision 5 is current, on 3 of 3 pods

REVISION     PODS   MADE   ROLLED OUT   CHANGED
5  current   3/3    30m    30m          image agent 2.0-rc1 → 1.5, args agent,
                                        env MODE, -env LEVEL,
                                        limits agent memory 256Mi → 128Mi,
                                        -toleration *
                                        \"1.5: fixes the leak\"
4            0      30m    30m          image agent 1.5 → 2.0-rc1
                                        \"1.5: fixes the leak\"
3            0      30m    30m          image agent 1.4 → 1.5, args agent,
                                        env MODE, +env LEVEL,
                                        limits agent memory 128Mi → 256Mi,
                                        +toleration *
                                        \"1.5: fixes the leak\"
1            0      30m    30m          (oldest kept)
                                        \"first install\"
"
    );
}

#[test]
fn a_wide_screen_gives_the_cause_a_column() {
    assert_eq!(
        printed(&["history", "agent"], 130),
        "\
shop/agent: revision 5 is current, on 3 of 3 pods

REVISION     PODS   MADE   ROLLED OUT   CHANGE-CAUSE          CHANGED
5  current   3/3    30m    30m          1.5: fixes the leak   image agent 2.0-rc1 → 1.5, args agent, env MODE, -env LEVEL,
                                                              limits agent memory 256Mi → 128Mi, -toleration *
4            0      30m    30m          1.5: fixes the leak   image agent 1.5 → 2.0-rc1
3            0      30m    30m          1.5: fixes the leak   image agent 1.4 → 1.5, args agent, env MODE, +env LEVEL,
                                                              limits agent memory 128Mi → 256Mi, +toleration *
1            0      30m    30m          first install         (oldest kept)
"
    );
}

#[test]
fn pods_that_are_left_on_another_revision_are_told_in_the_answer() {
    assert_eq!(
        printed(&["history", "logs"], 80),
        "\
shop/logs: revision 2 is current, on 0 of 3 pods; 3 of revision 1

REVISION     PODS   MADE   ROLLED OUT   CHANGED
2  current   0      30m    30m          image agent 1.4 → 1.5
1            3/3    30m    30m          (oldest kept)
"
    );
}

#[test]
fn a_revision_of_the_same_meaning_is_told_from_a_change() {
    assert_eq!(
        printed(&["history", "upgraded"], 80),
        "\
shop/upgraded: revision 4 is current, on 3 of 3 pods

REVISION     PODS   MADE   ROLLED OUT   CHANGED
4  current   3/3    30m    30m          nothing: revision 3 in other bytes
3            0      30m    30m          image agent 1.4 → 1.5
1            0      30m    30m          (oldest kept)
"
    );
}

#[test]
fn a_revision_that_cannot_be_read_hides_no_other() {
    assert_eq!(
        printed(&["history", "broken"], 80),
        "\
shop/broken: revision 2 is current, on 3 of 3 pods

REVISION     PODS   MADE   ROLLED OUT   CHANGED
9            0      30m    30m          unreadable: its data has no
                                        spec.template
2  current   3/3    30m    30m          image agent 1.4 → 1.5
1            0      30m    30m          (oldest kept)
not counted: web-cb4975568 (it belongs to StatefulSet web)
"
    );
}

#[test]
fn every_daemon_set_has_its_revisions_in_one_table() {
    assert_eq!(
        printed(&["history"], 80),
        "\
NAMESPACE   NAME       REVISION     PODS   MADE   ROLLED OUT   CHANGED
shop        agent      5  current   3/3    30m    30m          image agent 2.0-rc1 → 1.5,
                                                               args agent,
                                                               env MODE,
                                                               -env LEVEL,
                                                               limits agent memory 256Mi → 128Mi,
                                                               -toleration *
                                                               \"1.5: fixes the
                                                               leak\"
shop        agent      4            0      30m    30m          image agent 1.5 → 2.0-rc1
                                                               \"1.5: fixes the
                                                               leak\"
shop        agent      3            0      30m    30m          image agent 1.4 → 1.5,
                                                               args agent,
                                                               env MODE,
                                                               +env LEVEL,
                                                               limits agent memory 128Mi → 256Mi,
                                                               +toleration *
                                                               \"1.5: fixes the
                                                               leak\"
shop        agent      1            0      30m    30m          (oldest kept)
                                                               \"first install\"
shop        broken     9            0      30m    30m          unreadable: its
                                                               data has no
                                                               spec.template
shop        broken     2  current   3/3    30m    30m          image agent 1.4 → 1.5
shop        broken     1            0      30m    30m          (oldest kept)
shop        logs       2  current   0      30m    30m          image agent 1.4 → 1.5
shop        logs       1            3/3    30m    30m          (oldest kept)
shop        upgraded   4  current   3/3    30m    30m          nothing: revision
                                                               3 in other bytes
shop        upgraded   3            0      30m    30m          image agent 1.4 → 1.5
shop        upgraded   1            0      30m    30m          (oldest kept)
"
    );
}

#[test]
fn the_current_template_is_compared_with_the_one_before() {
    assert_eq!(
        printed(&["history", "agent", "--diff"], 80),
        "\
shop/agent: revision 5 (current) compared with revision 4

~ spec.containers[agent].image
-    registry.example.com/agent:2.0-rc1
+    registry.example.com/agent:1.5
~ spec.containers[agent].args[1]                  --level=debug  →  --level=info
~ spec.containers[agent].env[MODE]                \"no\"           →  \"yes\"
- spec.containers[agent].env[LEVEL]               \"1_000\"
~ spec.containers[agent].resources.limits.memory  256Mi          →  128Mi
- spec.tolerations[*]
-    operator: Exists
"
    );
}

#[test]
fn two_revisions_are_compared_in_the_order_given() {
    assert_eq!(
        printed(&["history", "agent", "--diff", "4..3"], 100),
        "\
shop/agent: revision 3 compared with revision 4

~ spec.containers[agent].image
-    registry.example.com/agent:2.0-rc1
+    registry.example.com/agent:1.5
"
    );
}

#[test]
fn spelling_alone_is_no_difference() {
    assert_eq!(
        printed(&["history", "upgraded", "--diff", "3..4"], 80),
        "\
shop/upgraded: revision 4 (current) compared with revision 3: they mean the same
"
    );
}

#[test]
fn lines_of_yaml_are_shown_with_as_much_around_as_asked_for() {
    assert_eq!(
        printed(&["history", "agent", "--diff", "1..live", "--unified", "1"], 80),
        "\
--- agent.revision-1
+++ agent.revision-5
@@ -17,3 +17,3 @@
           fieldPath: spec.nodeName
-    image: registry.example.com/agent:1.4
+    image: registry.example.com/agent:1.5
     imagePullPolicy: IfNotPresent
"
    );
}

#[test]
fn no_column_is_cut_in_a_pipe() {
    let mut command = kubectl_ds(&[&["history", "agent"], SOURCE.as_slice()].concat());
    command.env_remove("COLUMNS");
    let table = end(command).out;
    let newest = table.lines().nth(3).unwrap();
    assert!(newest.contains("image agent 2.0-rc1 → 1.5, args agent, env MODE, -env LEVEL, limits"), "{newest}");
    assert!(newest.contains("1.5: fixes the leak"), "{newest}");
}

#[test]
fn wide_output_names_revisions_and_images() {
    let table = printed(&["history", "agent", "-o", "wide"], 80);
    let newest = table.lines().nth(3).unwrap();
    assert!(newest.contains("agent-85b8c4cb9c") && newest.contains("registry.example.com/agent:1.5"), "{newest}");
    let names = printed(&["history", "agent", "-o", "name"], 80);
    assert_eq!(names.lines().next(), Some("controllerrevision.apps/agent-85b8c4cb9c"));
    assert_eq!(names.lines().count(), 4);
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
fn without_a_name_data_is_a_list() {
    let list = json(&["history", "-o", "json"]);
    assert_eq!(list["kind"], "HistoryReportList");
    let names: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|item| item["daemonSet"]["name"].clone()).collect();
    assert_eq!(names, ["agent", "broken", "logs", "upgraded"]);
    assert_eq!(json(&["history", "-l", "app=upgraded", "-o", "json"])["items"].as_array().unwrap().len(), 1);
}

#[test]
fn strangers_with_the_same_labels_are_not_counted() {
    // A StatefulSet's revision with the labels of the DaemonSet's.
    let text = fs::read_to_string(REVISIONS).unwrap();
    let mut dump: Value = serde_json::from_str(&text).unwrap();
    let stranger = serde_json::json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 12,
        "metadata": {"name": "web-5d4f9c8b7d", "namespace": "shop",
            "labels": {"app": "agent", "controller-revision-hash": "web-5d4f9c8b7d"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "1", "controller": true}]},
        "data": {"spec": {"template": {"$patch": "replace", "spec": {"containers": [{"name": "web"}]}}}},
    });
    // One that a DaemonSet of the same name has left behind.
    let mut former = stranger.clone();
    former["metadata"]["name"] = "agent-former".into();
    former["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet".into();
    former["metadata"]["ownerReferences"][0]["name"] = "agent".into();
    dump["items"].as_array_mut().unwrap().extend([stranger, former]);
    let ended = run_with_input(&["history", "agent", "--from", "-"], dump.to_string().as_bytes());
    assert_eq!(ended.err, "");
    assert!(ended.out.starts_with("shop/agent: revision 5 is current"), "{}", ended.out);
    assert!(
        ended.out.ends_with(
            "\
not counted: agent-former (it belongs to a former DaemonSet of this name)
not counted: web-5d4f9c8b7d (it belongs to StatefulSet web)
"
        ),
        "{}",
        ended.out
    );
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
fn what_stands_after_diff_need_not_belong_to_it() {
    assert_eq!(printed(&["history", "--diff", "agent"], 80), printed(&["history", "agent", "--diff"], 80));
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
        printed(&["history", "agent", "--diff", "-2..-1"], 80),
        printed(&["history", "agent", "--diff", "3..4"], 80)
    );
    assert_eq!(
        printed(&["history", "ds/agent", "--diff", "4..live"], 80).lines().skip(1).collect::<Vec<_>>(),
        back.lines().skip(1).collect::<Vec<_>>()
    );
}

#[test]
fn a_template_that_was_printed_compares_as_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for format in ["yaml", "json"] {
        let path = folder.path().join(format!("agent.{format}"));
        fs::write(&path, printed(&["history", "agent", "--revision", "3", "-o", format], 80)).unwrap();
        let sides = format!("3..{}", path.display());
        let diff = printed(&["history", "agent", "--diff", &sides, "--exit-code"], 80);
        assert!(diff.trim_end().ends_with("compared with revision 3: they mean the same"), "{diff}");
    }
}

#[test]
fn a_manifest_means_what_the_api_makes_of_it() {
    // Neither the defaults nor the spelling of amounts are differences, not even in lines.
    let manifest = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: agent}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}, creationTimestamp: null}
    spec:
      terminationGracePeriodSeconds: 1
      hostNetwork: false
      containers:
      - name: agent
        image: registry.example.com/agent:1.6
        args: ["--config=/etc/agent.yaml", "--level=info"]
        env:
        - {name: MODE, value: "yes"}
        - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        ports: [{containerPort: 9100, name: metrics}]
        resources: {requests: {cpu: 0.1, memory: 65536Ki}, limits: {memory: "134217728"}}
        volumeMounts: [{name: config, mountPath: /etc/agent}]
      volumes: [{name: config, configMap: {name: agent}}]
"#;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.yaml");
    fs::write(&path, manifest).unwrap();
    let path = path.display().to_string();
    let ended = on_revisions(&["history", "agent", "--exit-code", "--diff", &format!("1..{path}")], 120);
    assert_eq!((ended.code, ended.err.as_str()), (Some(1), ""));
    assert_eq!(
        ended.out,
        format!(
            "\
shop/agent: {path} compared with revision 1

~ spec.containers[agent].image  registry.example.com/agent:1.4  →  registry.example.com/agent:1.6
"
        )
    );
    let ended = on_revisions(&["history", "agent", "--unified", "--diff", &format!("1..{path}")], 120);
    let changed: Vec<_> = ended.out.lines().skip(2).filter(|line| line.starts_with(['+', '-'])).collect();
    assert_eq!(
        changed,
        ["-    image: registry.example.com/agent:1.4", "+    image: registry.example.com/agent:1.6"],
        "{}",
        ended.out
    );
}

#[test]
fn the_exit_code_is_that_of_diff() {
    let code = |arguments: &[&str]| on_revisions(arguments, 80).code;
    assert_eq!(code(&["history", "agent", "--diff"]), Some(0));
    assert_eq!(code(&["history", "agent", "--diff", "--exit-code"]), Some(1));
    assert_eq!(code(&["history", "agent", "--diff", "--exit-code", "-o", "json"]), Some(1));
    assert_eq!(code(&["history", "agent", "--diff", "--exit-code", "--unified"]), Some(1));
    assert_eq!(code(&["history", "upgraded", "--diff", "--exit-code"]), Some(0));
    assert_eq!(code(&["history", "upgraded", "--diff", "--exit-code", "--unified"]), Some(0));
    assert_eq!(code(&["history", "agent", "--diff", "7", "--exit-code"]), Some(2));
    assert_eq!(code(&["history", "ghost", "--diff", "--exit-code"]), Some(2));
}

#[test]
fn an_external_program_compares_two_files() {
    let external = |program: &str, arguments: &[&str]| {
        let mut command = kubectl_ds(&[arguments, &SOURCE].concat());
        command.env("KUBECTL_EXTERNAL_DIFF", program).env("PATH", std::env::var_os("PATH").unwrap());
        end(command)
    };
    let ended = external("diff -u", &["history", "agent", "--diff", "1", "--exit-code"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(1), ""));
    let changed: Vec<_> = ended.out.lines().skip(2).filter(|line| line.starts_with(['+', '-'])).collect();
    assert_eq!(changed, ["-    image: registry.example.com/agent:1.4", "+    image: registry.example.com/agent:1.5"]);
    assert_eq!(external("diff -u", &["history", "upgraded", "--diff", "--exit-code"]).code, Some(0));
    // What was asked for by flag goes before what the environment says.
    assert!(
        external("false", &["history", "agent", "--diff", "1", "--unified"]).out.starts_with("--- agent.revision-1\n")
    );
    let ended = external("no-such-program", &["history", "agent", "--diff"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.starts_with("error: ") && ended.err.contains("no-such-program"), "{}", ended.err);
}

#[test]
fn colour_only_adds_to_the_words() {
    for arguments in [["history", "agent", "--color"].as_slice(), &["history", "agent", "--diff", "4..3", "--color"]] {
        let coloured = printed(&[arguments, &["always"]].concat(), 80);
        let plain = printed(&[arguments, &["never"]].concat(), 80);
        assert!(coloured.contains("\u{1b}["), "{coloured}");
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain);
    }
}

#[test]
fn ascii_is_kept_to_where_that_is_asked_for() {
    for arguments in [["history", "agent", "--ascii"].as_slice(), &["history", "agent", "--diff", "4..3", "--ascii"]] {
        let text = printed(arguments, 80);
        assert!(text.is_ascii(), "{text}");
    }
}

#[test]
fn what_cannot_be_answered_says_what_can() {
    for (arguments, words) in [
        (
            ["history", "agent", "--diff", "7"].as_slice(),
            "error: no revision 7 of shop/agent\nhint: its revisions are 5 (current), 4, 3, 1\n",
        ),
        (
            &["history", "agent", "--diff", "-9"],
            "error: no 9 revisions of shop/agent before the current one\nhint: its revisions are 5 (current), 4, 3, 1\n",
        ),
        (
            &["history", "broken", "--revision", "9"],
            "error: revision 9 of shop/broken cannot be read: its data has no spec.template\n",
        ),
    ] {
        assert_eq!(refused(arguments), (Some(1), words.to_owned()), "{arguments:?}");
    }
    for (arguments, words) in [
        (
            ["history", "--diff"].as_slice(),
            "error: --diff is about one DaemonSet, and there are 4\nhint: give a name and -n: agent, broken, logs, upgraded\n",
        ),
        (
            &["history", "agent", "--diff", "x..2"],
            "error: invalid revision \"x\"\nhint: give a number such as 3, a step back such as -1, or live\n",
        ),
        (
            &["history", "agent", "--diff", "2.."],
            "error: nothing to compare with after \"2..\"\n\
             hint: write A..B, such as 2..4, 2..live or 2..agent.yaml; A alone is compared with the current one\n",
        ),
        (
            &["history", "sts/agent"],
            "error: \"sts/agent\" does not name a DaemonSet\n\
             hint: give NAME, ds/NAME, NAMESPACE/NAME, or ads/NAME for an Advanced DaemonSet\n",
        ),
        (&["history", "agent", "--diff", "-o", "name"], "error: -o wide and -o name are for the table of revisions\n"),
        (&["history", "agent", "--diff", "--unified", "1", "-o", "json"], "error: --unified is text: leave out -o\n"),
    ] {
        assert_eq!(refused(arguments), (Some(2), words.to_owned()), "{arguments:?}");
    }
    let ended = run(&["history", "agent", "--diff", "1..-", "--from", "-"]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
}
