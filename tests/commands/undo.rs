//! `undo` without a cluster: what it would do, and what makes it ineffective. With one: tests/e2e/rollouts.

use serde_json::{Value, json};

use super::history::{REVISIONS, on_revisions};
use super::run_with_input;

const DRY: &str = "--dry-run=client";

fn plan(arguments: &[&str]) -> Value {
    serde_json::from_str(&on_revisions(&[arguments, &[DRY, "-o", "json"]].concat(), 80).out).unwrap()
}

/// Returns the recording with a DaemonSet changed.
fn dump_with(name: &str, change: impl Fn(&mut Value)) -> Vec<u8> {
    let mut dump: Value = serde_json::from_str(&std::fs::read_to_string(REVISIONS).unwrap()).unwrap();
    let items = dump["items"].as_array_mut().unwrap();
    let wanted = |item: &&mut Value| item["kind"] == "DaemonSet" && item["metadata"]["name"] == name;
    change(items.iter_mut().find(wanted).unwrap());
    dump.to_string().into_bytes()
}

#[test]
fn revision_0_means_the_previous_one() {
    let runs = [&["undo", "ds/agent", "--to-revision", "0", DRY][..], &["undo", "agent", DRY]];
    let [zero, previous] = runs.map(|arguments| on_revisions(arguments, 80));
    assert_eq!((zero.code, zero.out, zero.err), (Some(0), previous.out, previous.err));
}

#[test]
fn the_patch_is_locked_and_replaces_the_template_without_its_directive() {
    let plan = plan(&["undo", "upgraded", "--to-revision=1"]);
    assert_eq!((&plan["kind"], &plan["fromRevision"], &plan["toRevision"]), (&"UndoPlan".into(), &4.into(), &1.into()));
    let patch = plan["patch"].as_array().unwrap();
    assert_eq!((&patch[0]["op"], &patch[0]["path"]), (&"replace".into(), &"/metadata/resourceVersion".into()));
    assert!(patch[0]["value"].as_str().unwrap().parse::<u64>().is_ok());
    assert_eq!((&patch[1]["op"], &patch[1]["path"]), (&"replace".into(), &"/spec/template".into()));
    let template = &patch[1]["value"];
    assert_eq!(template["spec"]["containers"][0]["image"], "registry.example.com/upgraded:1.4");
    assert!(template.get("$patch").is_none(), "{template}");
    assert_eq!(patch.len(), 2);
    assert_eq!(plan["outcome"]["stage"], "Planned");
}

#[test]
fn the_object_comes_out_as_it_would_become() {
    let to = |revision: &str, form: &str| {
        let ended = on_revisions(&["undo", "agent", revision, DRY, "-o", form], 80);
        let is_known = |line: &str| line.contains("may not work: it was replaced after ");
        assert!(ended.code == Some(0) && ended.err.lines().all(is_known), "{}", ended.err);
        ended.out
    };
    let before: Value = serde_json::from_str(&to("--to-revision=5", "json")).unwrap();
    let json: Value = serde_json::from_str(&to("--to-revision=1", "json")).unwrap();
    let yaml: Value = serde_saphyr::from_str(&to("--to-revision=1", "yaml")).unwrap();
    assert_eq!(yaml, json);
    assert!(json["object"]["metadata"].get("managedFields").is_none());
    let mut expected = before["object"].clone();
    expected["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example.com/agent:1.4".into();
    assert_eq!(json["object"], expected);
    let named = on_revisions(&["undo", "agent", DRY, "-o", "name"], 80);
    assert_eq!((named.code, named.out.as_str()), (Some(0), "daemonset.apps/agent\n"));
}

#[test]
fn a_template_of_the_same_meaning_needs_no_change() {
    // In other bytes.
    let plan = plan(&["undo", "upgraded", "--to-revision=3"]);
    assert_eq!((&plan["needed"], &plan["patch"]), (&false.into(), &json!([])));
    assert_eq!(plan["outcome"]["stage"], "NotNeeded");
    // In another spelling.
    let dump = dump_with("agent", |object| {
        let container = &mut object["spec"]["template"]["spec"]["containers"][0];
        container["resources"]["requests"]["cpu"] = "0.1".into();
        container["env"].as_array_mut().unwrap().reverse();
    });
    let ended = run_with_input(&["undo", "agent", "--to-revision=5", DRY, "-o", "json", "--from", "-"], &dump);
    let plan: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(plan["outcome"]["stage"], "NotNeeded");
}

#[test]
fn a_last_applied_manifest_is_warned_of_only_if_it_differs() {
    let applied = |tag: &'static str| {
        move |object: &mut Value| {
            // As people write it: without what the API server adds.
            let mut template = object["spec"]["template"].clone();
            let container = &mut template["spec"]["containers"][0];
            container["image"] = format!("registry.example.com/agent:{tag}").into();
            container.as_object_mut().unwrap().remove("terminationMessagePath");
            container["ports"][0].as_object_mut().unwrap().remove("protocol");
            template["spec"].as_object_mut().unwrap().remove("dnsPolicy");
            let manifest = json!({"spec": {"template": template}}).to_string();
            object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = manifest.into();
        }
    };
    let to_one = |change: &dyn Fn(&mut Value)| {
        let dump = dump_with("agent", change);
        run_with_input(&["undo", "agent", "--to-revision=1", DRY, "--from", "-"], &dump).err
    };
    let of_the_revision = "warning: revision 1 may not work: it was replaced after 3s\n";
    assert_eq!(to_one(&applied("1.4")), of_the_revision, "the revision is what was applied");
    assert!(to_one(&applied("1.5")).contains("the last applied manifest has"));
}

#[test]
fn hostile_text_does_not_reach_the_terminal() {
    let dump = dump_with("agent", |object| {
        object["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] = "\u{1b}[2Jgone\u{202e}".into();
        object["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"] = "\u{1b}]0;x\u{7}:a".into();
    });
    let shown = run_with_input(&["history", "agent", "--diff", "4..live", "--from", "-"], &dump);
    assert!(shown.out.contains("gone"), "{}", shown.out);
    for arguments in [
        ["undo", "agent", DRY].as_slice(),
        &["undo", "agent", DRY, "-o", "yaml"],
        &["undo", "agent", DRY, "-o", "json"],
        &["history", "agent", "--diff", "4..live"],
        &["history", "agent", "--diff", "4..live", "--unified"],
        &["history", "agent", "--diff", "4..live", "-o", "yaml"],
    ] {
        let ended = run_with_input(&[arguments, &["--from", "-"]].concat(), &dump);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.err);
        assert!(!ended.out.is_empty(), "{arguments:?}");
        for text in [&ended.out, &ended.err] {
            assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{arguments:?}: {text:?}");
        }
    }
}
