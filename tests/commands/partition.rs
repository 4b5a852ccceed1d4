//! `partition` without a cluster: its plan as data. With one: tests/e2e/rollouts/partition.rs.

use serde_json::{Value, json};

use super::{NOW, ROLLOUTS, run};

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
