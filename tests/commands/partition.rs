//! `partition` without a cluster: its plan as data. With one: tests/e2e/rollouts/partition.rs.

use serde_json::{Value, json};

use super::{Ended, NOW, ROLLOUTS, run};

const STAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/commands/stages.json");

fn as_job(arguments: &[&str]) -> Ended {
    let command = ["partition", "agent", "0", "--stages", "canary,100%", "--as-job", "kubectl-ds:1", "-n", "infra"];
    run(&[&command[..], arguments, &["--from", STAGES, "--now", NOW]].concat())
}

/// What a code means for a person is in docs/exit-codes.md. A Job is for what nobody watches: whatever may pass is repeated, and what a
/// gate or somebody has stopped is not.
#[test]
fn each_exit_code_is_repeated_by_the_job_or_not_on_purpose() {
    let ended = as_job(&[]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let list: Value = serde_saphyr::from_str(&ended.out).unwrap();
    let job = list["items"].as_array().unwrap().iter().find(|object| object["kind"] == "Job").unwrap();
    let rules = job["spec"]["podFailurePolicy"]["rules"].as_array().unwrap();
    let not_repeated: Vec<i64> = rules
        .iter()
        .flat_map(|rule| rule["onExitCodes"]["values"].as_array())
        .flatten()
        .filter_map(Value::as_i64)
        .collect();
    let codes = [
        // Refused, or somebody else has changed the DaemonSet.
        (1, false),
        (2, false),
        // A gate has stopped it; with --on-failure undo, all is rolled back.
        (3, false),
        // The API server did not answer.
        (4, true),
        // No command that changes something has it.
        (5, true),
        // Begun, or being rolled back, and not at its end.
        (6, true),
        // It may have been taken back by whoever is against it.
        (7, false),
        // The pod was told to stop.
        (130, true),
    ];
    for (code, is_repeated) in codes {
        assert_eq!(!not_repeated.contains(&code), is_repeated, "{code}");
    }
    let docs = include_str!("../../docs/exit-codes.md");
    let documented = docs.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next()?.parse::<i64>().ok());
    let known = codes.iter().map(|(code, _)| *code);
    assert_eq!(documented.collect::<Vec<_>>(), std::iter::once(0).chain(known).collect::<Vec<_>>());
}

/// Its pods would fail, or it could not be what was asked for.
#[test]
fn a_job_is_not_printed_for_what_cannot_be_done() {
    for (arguments, code, said) in [
        (&["--image", "nope=agent:2"][..], 1, "has no container \"nope\""),
        (&["-o", "json"], 2, "cannot be used with"),
        (&["-o", "yaml"], 2, "invalid value 'yaml'"),
    ] {
        let ended = as_job(arguments);
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{arguments:?} {}", ended.err);
        assert!(ended.err.contains(said), "{arguments:?} {}", ended.err);
    }
}

fn planned(arguments: &[&str]) -> Value {
    let dump = ["-n", "infra", "--from", ROLLOUTS, "--now", NOW, "--dry-run", "-o", "json"];
    let ended = run(&[&["partition", "moving"], arguments, &dump].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    serde_json::from_str(&ended.out).unwrap()
}

#[test]
fn what_is_kept_and_what_is_updated_say_the_same_from_two_sides() {
    for (keep, update) in [("1", "7"), ("25%", "75%"), ("0", "100%")] {
        let (kept, updated) = (planned(&[keep]), planned(&["--update", update]));
        assert_eq!((&kept["nodes"], &kept["keep"]), (&updated["nodes"], &updated["keep"]), "{keep}");
        assert_eq!(kept["outcome"]["stage"], "Planned");
    }
    let plan = planned(&["1"]);
    assert_eq!(
        (&plan["nodes"], &plan["old"], &plan["maxUnavailable"]),
        (&json!(["node-06", "node-07"]), &json!(3), &json!(1))
    );
    assert_eq!(plan["patch"][0]["path"], "/metadata/resourceVersion");
}

#[test]
fn only_the_template_of_a_manifest_is_in_the_patch() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/commands/moving.yaml");
    let plan = planned(&["50%", "-f", manifest]);
    let paths = |field: &str, key: &str| -> Vec<String> {
        let list = plan[field].as_array().unwrap().iter();
        list.map(|one| one[key].as_str().unwrap().to_owned()).collect()
    };
    let patched = paths("patch", "path");
    assert!(patched.contains(&"/spec/template".to_owned()), "{patched:?}");
    let rest = ["/metadata/resourceVersion", "/metadata/annotations", "/spec/updateStrategy/type", "/spec/template"];
    assert!(patched.iter().all(|path| rest.iter().any(|known| path.starts_with(known))), "{patched:?}");
    assert_eq!(
        paths("notApplied", "path"),
        ["spec.updateStrategy.rollingUpdate.maxUnavailable", "metadata.labels[team]"]
    );
}
