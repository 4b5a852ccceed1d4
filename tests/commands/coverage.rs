//! `coverage`.

use serde_json::json;

use unicode_width::UnicodeWidthStr;

use super::{FAULTY_CLUSTER, NOW, SHOP, end, kubectl_ds, on_shop, run};

#[test]
fn data_has_every_node_and_a_reason_for_each_that_is_not_available() {
    let json: serde_json::Value = serde_json::from_str(&on_shop(&["coverage", "-o", "json"])).unwrap();
    assert_eq!((&json["apiVersion"], &json["kind"]), (&"kubectl-ds/v1".into(), &"CoverageReport".into()));
    for daemon_set in json["daemonSets"].as_array().unwrap() {
        let nodes = daemon_set["nodes"].as_array().unwrap();
        assert_eq!(nodes.len(), 6);
        for node in nodes {
            let reasons = node["reasons"].as_array().unwrap();
            assert_eq!(node["state"] == "Available", reasons.is_empty(), "{node}");
        }
    }
    let yaml: serde_json::Value = serde_saphyr::from_str(&on_shop(&["coverage", "-o", "yaml"])).unwrap();
    assert_eq!(yaml, json);
}

#[test]
fn a_locale_without_unicode_gets_ascii() {
    for arguments in [["coverage"].as_slice(), &["coverage", "agent", "--node", "node-c"], &["coverage", "--nodes"]] {
        let ascii = on_shop(&[arguments, &["--ascii"]].concat());
        assert!(ascii.is_ascii(), "{ascii}");
        let mut command = kubectl_ds(&[arguments, &["--from", SHOP, "--now", NOW]].concat());
        command.env("LANG", "C");
        assert_eq!(end(command, None).out, ascii);
    }
}

#[test]
fn color_only_adds_to_the_text() {
    let plain = on_shop(&["coverage"]);
    let colored = on_shop(&["coverage", "--color", "always"]);
    assert!(!plain.contains('\u{1b}') && colored.contains('\u{1b}'));
    assert_eq!(anstream::adapter::strip_str(&colored).to_string(), plain);
    let mut command = kubectl_ds(&["coverage", "--from", SHOP, "--now", NOW]);
    command.env("NO_COLOR", "1").env("CLICOLOR_FORCE", "1");
    assert_eq!(end(command, None).out, plain);
}

#[test]
fn no_line_of_a_pipe_has_thousands_of_names() {
    let nodes = (0..2_000).map(|number| {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("node-{number:04}"), "uid": number.to_string()},
            "spec": {"taints": [{"key": "a", "effect": "NoExecute"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        })
    });
    let daemon_sets = (0..40).map(|number| {
        let tolerations = if number % 2 == 0 { json!([{"operator": "Exists"}]) } else { json!([]) };
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": format!("agent-{number}"), "namespace": "monitoring", "uid": format!("d{number}")},
            "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}},
                "spec": {"tolerations": tolerations, "containers": [{"name": "c", "image": "c:1"}]}}},
            "status": {"desiredNumberScheduled": 0, "currentNumberScheduled": 0},
        })
    });
    // With this one, the list has pods of all namespaces.
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true});
    let metadata = json!({"name": "p", "namespace": "elsewhere", "uid": "p", "ownerReferences": [owner]});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
    let items: Vec<_> = nodes.chain(daemon_sets).chain([pod]).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let dump = list.to_string();
    let print = |arguments: &[&str]| {
        let mut command = kubectl_ds(&[arguments, &["--from", "-", "--now", NOW]].concat());
        command.env_remove("COLUMNS");
        end(command, Some(dump.as_bytes())).out
    };
    for arguments in [
        ["coverage", "-A"].as_slice(),
        &["coverage", "-n", "monitoring", "agent-0"],
        &["status", "-A"],
        &["status", "-n", "monitoring", "agent-0"],
        &["list", "-A"],
    ] {
        let text = print(arguments);
        let longest = text.lines().map(str::len).max().unwrap_or(0);
        assert!((40..250).contains(&longest), "{arguments:?}: {longest}\n{text:.2000}");
    }
    let text = print(&["coverage", "-n", "monitoring", "agent-0"]);
    assert!(text.contains(" more") && !text.contains("node-1999"), "{text}");
    assert!(print(&["coverage", "-n", "monitoring", "agent-0", "-o", "wide"]).contains("node-1999"));
    assert!(print(&["coverage", "-n", "monitoring", "agent-0", "-o", "json"]).contains("node-1999"));
}

#[test]
fn room_that_is_not_known_is_not_none() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a", "uid": "u"}});
    let none = json!({"apiVersion": "apps/v1", "kind": "DaemonSetList", "items": []});
    let dump = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(dump.path(), format!("{node}{none}")).unwrap();
    let manifest = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "x"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "c", "image": "c:1"}]}}}});
    let dump = dump.path().to_str().unwrap();
    let ended = super::run_with_input(&["coverage", "-f", "-", "--from", dump], manifest.to_string().as_bytes());
    assert!(ended.out.contains("FIT UNKNOWN       1   node-a"), "{}{}", ended.out, ended.err);
    assert!(!ended.out.contains("DOES NOT FIT"), "{}", ended.out);
}

#[test]
fn no_row_for_a_node_is_wider_than_the_terminal() {
    let names = (0..3).map(|number| format!("ip-10-0-123-{number}.eu-central-1.compute.internal")).collect::<Vec<_>>();
    let nodes = names.iter().map(|name| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    });
    let pods = names.iter().map(|name| {
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "d", "controller": true});
        let waiting = json!({"waiting": {"reason": "CreateContainerConfigError", "message": "no ConfigMap"}});
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("telemetry-collector-{}-abcde", &name[..10]), "namespace": "monitoring",
                "uid": format!("pod of {name}"), "labels": {"app": "x"}, "ownerReferences": [owner]},
            "spec": {"nodeName": name, "containers": [{"name": "x", "image": "x"}]},
            "status": {"phase": "Pending", "containerStatuses": [{"name": "x", "state": waiting}]}})
    });
    let daemon_set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "monitoring", "uid": "d"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "x", "image": "x"}]}}}});
    let items: Vec<_> = nodes.chain(pods).chain([daemon_set]).collect();
    let dump = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let long = end(kubectl_ds(&["coverage", "-A", "--nodes", "--from", "-"]), Some(dump.as_bytes()));
    let recorded = run(&["coverage", "-A", "--nodes", "--from", FAULTY_CLUSTER]);
    for ended in [long, recorded] {
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        let too_wide: Vec<&str> = ended.out.lines().filter(|line| line.width() > 80).collect();
        assert!(too_wide.is_empty(), "{too_wide:#?}");
    }
}
