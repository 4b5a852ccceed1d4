//! `undo` without a cluster: what would be done, and what keeps it from having an effect. With one: tests/e2e/rollouts.

use serde_json::{Value, json};

use super::history::{REVISIONS, on_revisions, printed, refused};
use super::{run, run_with_input};

const DRY: &str = "--dry-run=client";

fn plan(arguments: &[&str]) -> Value {
    serde_json::from_str(&on_revisions(&[arguments, &[DRY, "-o", "plan"]].concat(), 80).out).unwrap()
}

/// Returns the recording with a DaemonSet changed.
fn dump_with(name: &str, change: impl Fn(&mut Value)) -> Vec<u8> {
    let mut dump: Value = serde_json::from_str(&std::fs::read_to_string(REVISIONS).unwrap()).unwrap();
    let items = dump["items"].as_array_mut().unwrap();
    let wanted = |item: &&mut Value| item["kind"] == "DaemonSet" && item["metadata"]["name"] == name;
    change(items.iter_mut().find(wanted).unwrap());
    dump.to_string().into_bytes()
}

/// Returns what undo warns of, with a DaemonSet changed.
fn warned(change: impl Fn(&mut Value)) -> String {
    let dump = dump_with("agent", change);
    let ended = run_with_input(&["undo", "agent", DRY, "--from", "-", "-o", "name"], &dump);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "daemonset.apps/agent\n"), "{}", ended.err);
    ended.err.replace("\n  ", " ")
}

#[test]
fn what_would_be_done_is_shown_with_the_reason_for_the_target() {
    assert_eq!(
        printed(&["undo", "upgraded", DRY], 120),
        "\
shop/upgraded goes back to revision 1 (rolled out 30m ago) from revision 4
revision 1 is the newest whose template differs from the live one; revision 3 has the live template in other bytes

~ spec.containers[agent].image  registry.example.com/upgraded:1.5  →  registry.example.com/upgraded:1.4

daemonset.apps/upgraded rolled back (dry run)
"
    );
    let to_one = printed(&["undo", "agent", "--to-revision=1", DRY], 100);
    assert_eq!(
        to_one,
        "\
shop/agent goes back to revision 1 (rolled out 30m ago) from revision 5

~ spec.containers[agent].image  registry.example.com/agent:1.5  →  registry.example.com/agent:1.4

daemonset.apps/agent rolled back (dry run)
"
    );
    assert_eq!(printed(&["undo", "ds/agent", "--to-revision", "0", DRY], 80), printed(&["undo", "agent", DRY], 80));
}

#[test]
fn a_revision_that_cannot_be_read_is_passed_over() {
    let shown = printed(&["undo", "broken", DRY], 140);
    assert!(shown.starts_with("shop/broken goes back to revision 1 "), "{shown}");
    assert!(shown.contains("revision 9 cannot be read (its data has no spec.template)"), "{shown}");
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
    let before: Value =
        serde_json::from_str(&printed(&["undo", "agent", "--to-revision=5", DRY, "-o", "json"], 80)).unwrap();
    let json: Value =
        serde_json::from_str(&printed(&["undo", "agent", "--to-revision=1", DRY, "-o", "json"], 80)).unwrap();
    let yaml: Value =
        serde_saphyr::from_str(&printed(&["undo", "agent", "--to-revision=1", DRY, "-o", "yaml"], 80)).unwrap();
    assert_eq!(yaml, json);
    assert!(json["metadata"].get("managedFields").is_none());
    let mut expected = before.clone();
    expected["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example.com/agent:1.4".into();
    assert_eq!(json, expected);
    assert_eq!(printed(&["undo", "agent", DRY, "-o", "name"], 80), "daemonset.apps/agent\n");
}

#[test]
fn where_the_template_is_that_of_the_revision_already_nothing_is_done() {
    assert_eq!(
        printed(&["undo", "agent", "--to-revision=5", DRY], 80),
        "daemonset.apps/agent has the template of revision 5 already; nothing was changed\n"
    );
    // In other bytes, too.
    let plan = plan(&["undo", "upgraded", "--to-revision=3"]);
    assert_eq!((&plan["needed"], &plan["patch"]), (&false.into(), &json!([])));
    assert_eq!(plan["outcome"]["stage"], "NotNeeded");
    // In another spelling, too.
    let dump = dump_with("agent", |object| {
        let container = &mut object["spec"]["template"]["spec"]["containers"][0];
        container["resources"]["requests"]["cpu"] = "0.1".into();
        container["env"].as_array_mut().unwrap().reverse();
    });
    let ended = run_with_input(&["undo", "agent", "--to-revision=5", DRY, "--from", "-"], &dump);
    assert_eq!(ended.out, "daemonset.apps/agent has the template of revision 5 already; nothing was changed\n");
}

#[test]
fn under_on_delete_the_nodes_that_stay_behind_are_named() {
    // All pods of `logs` are on revision 1 still: going back to it leaves none behind.
    let ended = on_revisions(&["undo", "logs", DRY], 100);
    assert!(!ended.out.contains("stay"), "{}", ended.out);
    assert_eq!(
        ended.err,
        "warning: Argo CD application \"platform\" manages this object and may put its own template back;\n  \
         change it in Git\n"
    );
    let dump = dump_with("agent", |object| object["spec"]["updateStrategy"] = json!({"type": "OnDelete"}));
    let ended = run_with_input(&["undo", "agent", "--to-revision=1", DRY, "--from", "-"], &dump);
    assert!(ended.err.contains("the update strategy is OnDelete"), "{}", ended.err);
    assert!(
        ended.out.contains("\n3 pods stay as they are until deleted, on node-1, node-2, node-3\n"),
        "{}",
        ended.out
    );
}

#[test]
fn whoever_may_put_the_template_back_is_named_before() {
    assert_eq!(warned(|_| {}), "");
    let label = |key: &'static str, value: &'static str| {
        move |object: &mut Value| object["metadata"]["labels"][key] = value.into()
    };
    let annotation = |key: &'static str, value: &'static str| {
        move |object: &mut Value| object["metadata"]["annotations"][key] = value.into()
    };
    let manager = |name: &'static str, operation: &'static str| {
        move |object: &mut Value| {
            let entry = json!({"manager": name, "operation": operation, "fieldsV1": {"f:spec": {"f:template": {}}}});
            object["metadata"]["managedFields"] = json!([entry]);
        }
    };
    let argo = "warning: Argo CD application \"infra\" manages this object and may put its own template back; change it in Git\n";
    assert_eq!(warned(annotation("argocd.argoproj.io/tracking-id", "infra:apps/DaemonSet:shop/agent")), argo);
    assert_eq!(warned(label("argocd.argoproj.io/instance", "infra")), argo);
    assert!(warned(manager("argocd-controller", "Apply")).starts_with("warning: Argo CD manages this object"));
    assert!(
        warned(label("kustomize.toolkit.fluxcd.io/name", "infra"))
            .starts_with("warning: Flux Kustomization \"/infra\" manages")
    );
    assert!(warned(manager("kustomize-controller", "Apply")).starts_with("warning: Flux manages this object"));
    assert!(
        warned(label("helm.toolkit.fluxcd.io/name", "cni")).starts_with("warning: Flux HelmRelease \"/cni\" manages")
    );
    let helm = warned(annotation("meta.helm.sh/release-name", "cni"));
    assert_eq!(
        helm,
        "warning: Helm release \"cni\" made this object: the next `helm upgrade` puts its chart's template back\n"
    );
    assert!(warned(label("app.kubernetes.io/managed-by", "Helm")).starts_with("warning: Helm made this object"));
    assert!(warned(manager("terraform", "Apply")).starts_with("warning: \"terraform\" manages fields of the template"));
    // What others update by hand is nobody's business.
    assert_eq!(warned(manager("kubectl-edit", "Update")), "");
    let owner = json!([{"apiVersion": "operator.example.com/v1", "kind": "Network", "name": "main", "uid": "1", "controller": true}]);
    let owned = warned(move |object| object["metadata"]["ownerReferences"] = owner.clone());
    assert!(
        owned.starts_with("warning: Network main controls this object and may put its own template back"),
        "{owned}"
    );
    let no_history = warned(|object| object["spec"]["revisionHistoryLimit"] = 0.into());
    assert!(
        no_history.starts_with("warning: revisionHistoryLimit is 0: the DaemonSet controller deletes"),
        "{no_history}"
    );
}

#[test]
fn a_manifest_that_was_applied_counts_only_where_it_says_something_else() {
    let applied = |tag: &'static str| {
        move |object: &mut Value| {
            // As people write it: without what the API adds.
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
    assert_eq!(to_one(&applied("1.4")), "", "the revision is what was applied");
    let warning = to_one(&applied("1.5"));
    assert!(warning.starts_with("warning: the manifest that was last applied has another template"), "{warning}");
}

#[test]
fn what_cannot_be_done_says_what_can() {
    for (arguments, code, words) in [
        (
            ["undo", "agent", "--to-revision=9", DRY].as_slice(),
            1,
            "error: no revision 9 of shop/agent\nhint: its revisions are 5 (current), 4, 3, 1\n",
        ),
        (
            &["undo", "agent", "--to-revision=2", DRY],
            1,
            "error: no revision 2 of shop/agent\nhint: its revisions are 5 (current), 4, 3, 1\n\
             hint: going back to a revision gives it the highest number; and old ones are deleted beyond \
             spec.revisionHistoryLimit\n",
        ),
        (
            &["undo", "broken", "--to-revision=9", DRY],
            1,
            "error: revision 9 of shop/broken cannot be read: its data has no spec.template\n\
             hint: its revisions are 9 (unreadable), 2 (current), 1\n",
        ),
        (
            &["undo", "agent", "--to-revision=-1", DRY],
            2,
            "error: there is no revision -1\nhint: `kubectl ds history NAME` shows the revisions\n",
        ),
        (
            &["undo", "agent"],
            2,
            "error: a dump cannot be changed\nhint: add --dry-run=client to see what would be done\n",
        ),
        (
            &["undo", "agent", "--dry-run=server"],
            2,
            "error: a dump cannot be changed\nhint: add --dry-run=client to see what would be done\n",
        ),
    ] {
        assert_eq!(refused(arguments), (Some(code), words.to_owned()), "{arguments:?}");
    }
    assert_eq!(run(&["undo", DRY, "--from", REVISIONS]).code, Some(2), "a name is needed");
}

#[test]
fn where_no_revision_differs_there_is_nothing_to_go_back_to() {
    let mut dump: Value = serde_json::from_str(&std::fs::read_to_string(REVISIONS).unwrap()).unwrap();
    let is_old = |item: &Value| {
        item["kind"] == "ControllerRevision" && item["metadata"]["labels"]["app"] == "upgraded" && item["revision"] == 1
    };
    dump["items"].as_array_mut().unwrap().retain(|item| !is_old(item));
    let ended = run_with_input(&["undo", "upgraded", DRY, "--from", "-"], dump.to_string().as_bytes());
    assert_eq!(
        (ended.code, ended.err.as_str()),
        (
            Some(1),
            "error: no revision of shop/upgraded differs from its live template\nhint: its revisions are 4 (current), 3\n"
        )
    );
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
