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
fn one_rule_of_several_that_fail_is_the_reason() {
    let cluster = |taints: serde_json::Value, spec: serde_json::Value| {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "n"}, "spec": {"taints": taints},
            "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]}});
        let mut template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "c:1",
            "resources": {"requests": {"cpu": "2", "memory": "2Gi"}}}]}});
        spec.as_object().unwrap().iter().for_each(|(field, value)| template["spec"][field] = value.clone());
        let daemon_set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "x", "uid": "d"},
            "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template}});
        json!({"apiVersion": "v1", "kind": "List", "items": [node, daemon_set]}).to_string()
    };
    let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
    for (dump, reason) in [
        (
            cluster(json!([taint("a", "NoExecute"), taint("b", "NoSchedule")]), json!({})),
            "a:NoExecute is not tolerated ← this",
        ),
        (
            cluster(json!([taint("a", "NoSchedule"), taint("b", "NoSchedule")]), json!({})),
            "a:NoSchedule is not tolerated ← this",
        ),
        (cluster(json!([taint("a", "NoSchedule")]), json!({"nodeSelector": {"b": "c"}})), "b=c: label missing ← this"),
    ] {
        let command = kubectl_ds(&["coverage", "agent", "-n", "x", "--node", "n", "--from", "-", "--now", NOW]);
        let out = end(command, Some(dump.as_bytes())).out;
        let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(out.contains(reason) && out.matches("← this").count() == 1, "{reason}: {out}");
    }
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
    let ended = super::run_with_input(&["preview", "-f", "-", "--from", dump], manifest.to_string().as_bytes());
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

/// Public reports as dumps: what `coverage` and `coverage --node` say, and what would mislead.
#[test]
fn situations_that_people_reported_get_the_advice_that_helps() {
    for (file, target, node, says, misleads) in [
        (
            "windows-no-platform.yaml",
            "observe/otel-agent",
            "win-0",
            "nodeSelector kubernetes.io/os: linux",
            "imagePullSecrets",
        ),
        (
            "not-a-shared-mount.yaml",
            "kube-system/csi-smb-node",
            "n-2",
            "mount --make-rshared /",
            "correct the template",
        ),
        (
            "liveness-probe-kills.yaml",
            "kube-system/vpc-agent",
            "n-2",
            "raise timeoutSeconds of the liveness probe",
            "read the log",
        ),
        ("hostpath-type-check.yaml", "logging/fluent-bit", "n-2", "create the file /etc/machine-id", "claim"),
        (
            "csi-driver-not-on-node.yaml",
            "edge/edge-proxy",
            "app-0",
            "add to the tolerations of DaemonSet kube-system/secrets-store-csi-driver: {key: dedicated, value: \"apps\", effect: NoSchedule}",
            "configmaps",
        ),
        ("scheduler-lost-the-node.yaml", "kube-system/calico-node", "n-3", "restart kube-scheduler", "no longer true"),
        ("surge-without-room.yaml", "edge/edge", "n-0", "use maxUnavailable instead of maxSurge", "a priority above"),
        ("surge-anti-affinity.yaml", "edge/edge", "n-0", "use maxUnavailable instead of maxSurge", "relax it"),
        (
            "image-volume.json",
            "ml/inference",
            "w-1",
            "volume weights: cannot pull models/llama:2",
            "cannot pull images/inference",
        ),
        ("restart-all-containers.json", "ml/trainer", "w-1", "container watcher ends", "container trainer crashes"),
    ] {
        let dump = format!("{}/tests/fixtures/cases/{file}", env!("CARGO_MANIFEST_DIR"));
        let (namespace, name) = target.split_once('/').unwrap();
        for more in [&[][..], &["--node", node]] {
            let shown = run(&[&["coverage", name, "-n", namespace, "--from", &dump], more].concat()).out;
            let flat = shown.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains(says) && !flat.contains(misleads), "{file} {more:?}:\n{shown}");
        }
    }
}

/// What a manifest needs, and what the dump has beside it: with others of a kind, all of the namespace are there.
#[test]
fn a_preview_from_a_dump_names_what_the_pods_lack_and_is_no_success() {
    let object = |kind: &str, name: &str| {
        let metadata = json!({"name": name, "namespace": "apps", "creationTimestamp": "2026-11-01T00:00:00Z"});
        json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})
    };
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "n"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}});
    let none = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "items": []});
    let dump = json!({"apiVersion": "v1", "kind": "List", "items": [
        node, object("ServiceAccount", "default"), object("ConfigMap", "kube-root-ca.crt"), object("Secret", "other"),
        object("PersistentVolumeClaim", "other"),
    ]});
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    let daemon_sets = json!({"apiVersion": "apps/v1", "kind": "DaemonSetList", "items": []});
    let lists = ["PodList", "LimitRangeList"].map(none).map(|list| list.to_string()).concat();
    std::fs::write(file.path(), format!("{dump}{daemon_sets}{lists}")).unwrap();
    let preview = |pod: &serde_json::Value, more: &str| {
        let mut spec = json!({"containers": [{"name": "a", "image": "a:1"}]});
        spec.as_object_mut().unwrap().extend(pod.as_object().unwrap().clone());
        let template = json!({"metadata": {"labels": {"app": "new"}}, "spec": spec});
        let manifest = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "new", "namespace": "apps"},
            "spec": {"selector": {"matchLabels": {"app": "new"}}, "template": template}});
        let from = file.path().to_str().unwrap();
        let command = kubectl_ds(&["preview", "-f", "-", "--from", from, "--exit-code", "--now", NOW]);
        end(command, Some(format!("{manifest}{more}").as_bytes()))
    };
    for (pod, named) in [
        (
            json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "shared"}}]}),
            "persistentvolumeclaim shared not found",
        ),
        (json!({"volumes": [{"name": "v", "configMap": {"name": "cfg"}}]}), "configmap cfg not found"),
        (json!({"volumes": [{"name": "v", "secret": {"secretName": "tls"}}]}), "secret tls not found"),
        (json!({"serviceAccountName": "agent-sa"}), "agent-sa"),
        (json!({"imagePullSecrets": [{"name": "registry"}]}), "secret registry of imagePullSecrets not found"),
    ] {
        let ended = preview(&pod, "");
        let text = [&ended.out, &ended.err].map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).concat();
        assert!(text.contains(named) && ended.code != Some(0), "{pod}: {:?} {text}", ended.code);
    }
    for pod in [
        json!({}),
        json!({"volumes": [{"name": "v", "configMap": {"name": "cfg", "optional": true}}]}),
        json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "other"}}]}),
    ] {
        let ended = preview(&pod, "");
        assert!(!ended.out.contains("not found") && !ended.out.contains("exists is not known"), "{pod}: {}", ended.out);
    }
    let created = preview(
        &json!({"volumes": [{"name": "v", "configMap": {"name": "cfg"}}]}),
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cfg", "namespace": "apps"}}).to_string(),
    );
    assert!(!created.out.contains("not found"), "{}", created.out);
}
