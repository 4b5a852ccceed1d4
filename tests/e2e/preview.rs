//! Previews of manifests: the dry run of a real API server, and the rules that replace it when there is no server.

use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::rollouts::program::run_on;
use crate::support::binary::{Ended, end};
use crate::support::control_plane::{ControlPlane, Options};

/// The API server that these tests share, each in a namespace of its own.
static API_SERVER: LazyLock<ControlPlane> = LazyLock::new(|| ControlPlane::start(Options::api_server_only()));

/// Returns the API server after a namespace was created.
fn with_namespace(name: &str) -> &'static ControlPlane {
    API_SERVER.kubectl(&["create", "namespace", name]);
    &API_SERVER
}

fn daemon_set(namespace: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "agent", "image": "agent:1", "ports": [{"containerPort": 80}]}]},
            },
        },
    })
}

/// Returns values of fields, and whether Kubernetes 1.36 accepts them.
fn cases() -> Vec<(&'static str, Value, bool)> {
    let container = "/spec/template/spec/containers/0";
    let at = |field: &str| -> &'static str { format!("{container}/{field}").leak() };
    vec![
        ("/spec/minReadySeconds", json!(30.0), true),
        ("/spec/minReadySeconds", json!(30.5), false),
        ("/spec/minReadySeconds", json!("30"), false),
        ("/spec/minReadySeconds", json!(3_000_000_000_i64), false),
        ("/spec/template/spec/terminationGracePeriodSeconds", json!(3_000_000_000_i64), true),
        ("/spec/template/spec/terminationGracePeriodSeconds", json!(60.0), true),
        ("/spec/template/spec/hostnameOverride", json!("agent"), true),
        (at("resources"), json!({"requests": {"memory": " 1Gi", "cpu": "1 "}}), true),
        (at("resources"), json!({"requests": {"memory": "1 Gi"}}), false),
        (at("resources"), json!({"requests": {"cpu": 0.5, "memory": 1e9}}), true),
        (at("resources"), json!({"requests": {"memory": "30Gigs"}}), false),
        (at("resources"), json!({"limits": {"memory": "12GB"}}), false),
        (at("ports"), json!([{"containerPort": 80.0}]), true),
        (at("ports"), json!([{"containerPort": 99_999_999}]), false),
        ("/spec/updateStrategy", json!({"type": "OnDelete", "rollingUpdate": {"maxUnavailable": "many"}}), true),
        ("/spec/updateStrategy", json!({"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 0}}), true),
        ("/spec/updateStrategy", json!({"type": "OnDelete", "rollingUpdate": {"maxUnavailable": true}}), false),
        ("/spec/updateStrategy", json!({"rollingUpdate": {"maxUnavailable": "many"}}), false),
        ("/spec/updateStrategy", json!({"rollingUpdate": {"maxUnavailable": 10.0}}), true),
        ("/spec/updateStrategy", json!({"rollingUpdate": {"maxSurge": 1}}), false),
        ("/spec/template/spec/nodeSelectr", json!({"disk": "ssd"}), false),
        ("/spec/replicas", json!(1), false),
        ("/spec/template/spec/nodeSelector", json!({"disk": true}), false),
        ("/spec/template/spec/tolerations", json!([{"operator": "Exists", "effect": "NoSchedul"}]), false),
        ("/spec/selector", json!({"matchLabels": {"app": "other"}}), false),
    ]
}

fn preview(arguments: &[&str], manifest: &str) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-ds"));
    command.args(["preview", "-f", "-"]).args(arguments).env_remove("KUBECONFIG");
    end(command, Some(manifest.as_bytes()))
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

#[test]
fn previews_accept_and_reject_what_the_api_server_does() {
    let cluster = with_namespace("accepted");
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
        "status": {"nodeInfo": {"kubeletVersion": "v1.37.2"}}});
    cluster.create(&node.to_string());
    let dump = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [node]});
    let none = json!({"apiVersion": "apps/v1", "kind": "DaemonSetList", "items": []});
    std::fs::write(dump.path(), format!("{list}{none}")).unwrap();
    let kubeconfig = cluster.kubeconfig();

    let mut wrong = String::new();
    for (pointer, value, accepted) in cases() {
        let mut object = daemon_set("accepted");
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value.clone();
        let manifest = object.to_string();
        let server = cluster.try_kubectl(&["create", "--dry-run=server", "-f", "-"], Some(&manifest));
        let online = preview(&["--kubeconfig", kubeconfig.to_str().unwrap()], &manifest);
        let offline = preview(&["--from", dump.path().to_str().unwrap()], &manifest);
        let answers = (server.status.success(), online.code == Some(0), offline.code == Some(0));
        // kubectl leaves out the group, and prints several problems as a list.
        let reason = complaint(&server);
        let reason = reason.split_once("is invalid: ").map_or("", |(_, reason)| reason);
        let reason = if reason.contains('\n') { "" } else { reason };
        if answers != (accepted, accepted, accepted) || !online.err.contains(reason) {
            wrong += &format!(
                "{pointer} = {value}: expected {accepted}, got {answers:?}\n  server: {}\n  online: {}\n  offline: {}\n",
                complaint(&server),
                online.err.trim(),
                offline.err.trim()
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong}");

    // The live object has another selector, which cannot be changed.
    cluster.create(&daemon_set("accepted").to_string());
    let mut changed = daemon_set("accepted");
    changed["spec"]["selector"]["matchLabels"] = json!({"tier": "node"});
    changed["spec"]["template"]["metadata"]["labels"] = json!({"tier": "node"});
    let online = preview(&["--kubeconfig", kubeconfig.to_str().unwrap()], &changed.to_string());
    assert!(online.code == Some(1) && online.err.contains("field is immutable"), "{}", online.err);

    let resources = "nodes,pods,events,limitranges,daemonsets.apps,controllerrevisions.apps,leases.coordination.k8s.io,\
                     runtimeclasses.node.k8s.io,priorityclasses.scheduling.k8s.io";
    let role = ["create", "clusterrole", "reader", "--verb=get,list,watch"];
    cluster.kubectl(&[&role[..], &[&format!("--resource={resources}")]].concat());
    cluster.kubectl(&["create", "clusterrolebinding", "reader", "--clusterrole=reader", "--user=bob"]);
    let reader = cluster.kubeconfig_of("bob");
    let reader = ["--kubeconfig", reader.to_str().unwrap()];
    let allowed = cluster.wait_until("bob may read", || {
        let ended = preview(&reader, &daemon_set("accepted").to_string());
        (ended.code == Some(0)).then_some(ended)
    });
    assert!(allowed.err.starts_with("warning: no server-side dry run"), "{}", allowed.err);
    assert!(allowed.err.contains("cannot patch resource \"daemonsets\""), "{}", allowed.err);
    let mut invalid = daemon_set("accepted");
    invalid["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
    let rejected = preview(&reader, &invalid.to_string());
    let problem = "spec.template.metadata.labels: Invalid";
    assert!(rejected.code == Some(1) && rejected.err.contains(problem), "{}", rejected.err);
}

/// Returns a DaemonSet whose pod spec has these fields, too.
fn with_pod(fields: Value) -> Value {
    let mut object = daemon_set("started");
    object["spec"]["template"]["spec"]["nodeSelector"] = json!({"pool": "started"});
    object["spec"]["template"]["spec"].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    object
}

#[test]
fn pods_that_would_not_start_are_counted_unless_the_manifest_creates_what_they_lack() {
    let cluster = with_namespace("started");
    let allocatable = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-s", "labels": {"pool": "started"}},
        "status": {"allocatable": allocatable, "nodeInfo": {"kubeletVersion": "v1.37.2"}}});
    cluster.create(&node.to_string());
    // Admission has added that it is not ready.
    cluster.kubectl(&["patch", "node", "node-s", "--type=merge", "-p", r#"{"spec": {"taints": []}}"#]);
    cluster.kubectl(&["create", "namespace", "locked"]);
    cluster.kubectl(&["label", "namespace", "locked", "pod-security.kubernetes.io/enforce=baseline"]);
    for namespace in ["started", "locked"] {
        cluster.kubectl(&["create", "serviceaccount", "default", "-n", namespace]);
    }
    let object = |version: &str, kind: &str, name: &str, fields: Value| {
        let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
        object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        if ["ServiceAccount", "PersistentVolumeClaim", "ConfigMap"].contains(&kind) {
            object["metadata"]["namespace"] = json!("started");
        }
        object
    };
    let volume = |source: Value| json!({"volumes": [{"name": "data", source["kind"].as_str().unwrap(): source["of"]}]});
    let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let cases = [
        (
            "ServiceAccountMissing",
            json!({"serviceAccountName": "agent"}),
            object("v1", "ServiceAccount", "agent", json!({})),
        ),
        (
            "PriorityClassMissing",
            json!({"priorityClassName": "storage-critical"}),
            object("scheduling.k8s.io/v1", "PriorityClass", "storage-critical", json!({"value": 1000})),
        ),
        (
            "RuntimeClassMissing",
            json!({"runtimeClassName": "kata"}),
            object("node.k8s.io/v1", "RuntimeClass", "kata", json!({"handler": "kata"})),
        ),
        (
            "VolumeUnsatisfiable",
            volume(json!({"kind": "persistentVolumeClaim", "of": {"claimName": "data"}})),
            object("v1", "PersistentVolumeClaim", "data", claim),
        ),
        (
            "ContainerConfigError",
            volume(json!({"kind": "configMap", "of": {"name": "agent"}})),
            object("v1", "ConfigMap", "agent", json!({})),
        ),
    ];
    let kubeconfig = cluster.kubeconfig();
    let preview = |documents: &[&Value]| {
        let manifest: Vec<String> = documents.iter().map(|document| document.to_string()).collect();
        let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--exit-code", "-o", "json"];
        let ended = preview(&arguments, &manifest.join("\n---\n"));
        let report: Value = serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {}", ended.err));
        let report = &report["daemonSets"][0];
        let codes =
            report["doesNotStart"].as_array().unwrap().iter().map(|group| group["code"].as_str().unwrap().to_owned());
        (codes.collect::<Vec<_>>(), report["gains"].as_array().unwrap().len(), ended)
    };
    for (code, fields, beside) in &cases {
        let daemon_set = with_pod(fields.clone());
        let (codes, gains, ended) = preview(&[&daemon_set]);
        assert_eq!((codes.as_slice(), gains, ended.code), (&[(*code).to_owned()][..], 0, Some(3)), "{}", ended.out);
        assert!(!ended.out.contains("kubectl edit"), "the DaemonSet does not exist: {}", ended.out);
        let (codes, gains, ended) = preview(&[beside, &daemon_set]);
        assert_eq!(
            (codes.as_slice(), gains, ended.code),
            (&[][..], 1, Some(0)),
            "{code}: {}\n{}",
            ended.err,
            ended.out
        );
    }
    let mut locked = with_pod(json!({"hostNetwork": true}));
    locked["metadata"]["namespace"] = json!("locked");
    let (codes, gains, ended) = preview(&[&locked]);
    assert_eq!((codes.as_slice(), gains, ended.code), (&["PodSecurityDenied".to_owned()][..], 0, Some(3)));

    // A namespace that the manifest creates.
    let mut new = with_pod(json!({"serviceAccountName": "agent"}));
    new["metadata"]["namespace"] = json!("new");
    let namespace = object("v1", "Namespace", "new", json!({}));
    let mut account = object("v1", "ServiceAccount", "agent", json!({}));
    account["metadata"]["namespace"] = json!("new");
    let (codes, gains, ended) = preview(&[&namespace, &account, &new]);
    assert_eq!((codes.as_slice(), gains, ended.code, ended.err.as_str()), (&[][..], 1, Some(0), ""), "{}", ended.out);
    let (codes, _, ended) = preview(&[&namespace, &new]);
    assert_eq!((codes.as_slice(), ended.code), (&["ServiceAccountMissing".to_owned()][..], Some(3)), "{}", ended.out);
    let (_, _, ended) = preview(&[&new]);
    assert!(ended.err.contains("namespaces \"new\" not found"), "{}", ended.err);
}

#[test]
fn a_conflict_of_managers_fails_as_the_apply_does_unless_it_is_forced() {
    let cluster = with_namespace("conflicts");
    // The nodes of other tests, which share the API server, are none of it.
    let labels = json!({"pool": "conflicts"});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-c", "labels": labels}});
    cluster.create(&node.to_string());
    let mut manifest = daemon_set("conflicts");
    manifest["spec"]["template"]["spec"]["nodeSelector"] = labels;
    let manifest = manifest.to_string();
    let apply = ["apply", "--server-side", "-f", "-"];
    assert!(cluster.try_kubectl(&apply, Some(&manifest)).status.success());
    let edit = r#"{"spec": {"template": {"spec": {"containers": [{"name": "agent", "image": "agent:2"}]}}}}"#;
    cluster.kubectl(&["patch", "ds", "agent", "-n", "conflicts", "--field-manager=editor", "-p", edit]);
    assert!(complaint(&cluster.try_kubectl(&apply, Some(&manifest))).contains("conflict"), "kubectl refuses, too");
    let kubeconfig = cluster.kubeconfig();
    let preview =
        |flags: &[&str]| preview(&[&["--kubeconfig", kubeconfig.to_str().unwrap()], flags].concat(), &manifest);
    let refused = preview(&[]);
    assert!(refused.code == Some(1) && refused.err.contains("conflict with \"editor\""), "{}", refused.err);
    assert!(refused.err.contains("hint: ") && refused.err.contains("--force-conflicts"), "{}", refused.err);
    for (flags, what) in
        [(&["--force-conflicts"][..], "(kubectl apply --server-side)"), (&["--replace"], "(kubectl replace)")]
    {
        let ended = preview(flags);
        let words = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(ended.code == Some(0), "{}", ended.err);
        assert!(words.contains(&format!("all pods would be replaced {what}")), "{words}");
    }
}

/// What became of the DaemonSet `agent`: of each node with a pod whether that runs, and the hash of the current revision.
#[derive(Debug, PartialEq)]
struct Settled {
    nodes: BTreeMap<String, bool>,
    hash: String,
}

/// Waits until every pod is of the current revision, and runs or was found not to fit.
fn settle(cluster: &ControlPlane) -> Settled {
    cluster.wait_until("the rollout has ended", || {
        let agent = cluster.get(&["ds", "agent"]);
        let status = &agent["status"];
        let revisions = cluster.items(&["controllerrevisions"]);
        let current = revisions.iter().max_by_key(|revision| revision["revision"].as_i64())?;
        let hash = current["metadata"]["labels"]["controller-revision-hash"].as_str()?.to_owned();
        let pods = cluster.items(&["pods"]);
        let node = |pod: &Value| {
            let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
            Some(pod.pointer(&format!("{terms}/0/matchFields/0/values/0"))?.as_str()?.to_owned())
        };
        let runs = |pod: &Value| {
            let is_of = pod["metadata"]["labels"]["controller-revision-hash"] == hash.as_str();
            if !is_of || !pod["metadata"]["deletionTimestamp"].is_null() {
                return None;
            }
            let is_unschedulable = |condition: &Value| condition["reason"] == "Unschedulable";
            let is_pending = pod["status"]["conditions"].as_array()?.iter().any(is_unschedulable);
            let is_running = pod["status"]["phase"] == "Running";
            (is_pending || is_running).then_some(is_running)
        };
        let nodes: Option<BTreeMap<String, bool>> = pods.iter().map(|pod| Some((node(pod)?, runs(pod)?))).collect();
        let nodes =
            nodes.filter(|nodes| nodes.len() as u64 == status["desiredNumberScheduled"].as_u64().unwrap_or(99))?;
        let is_seen = status["observedGeneration"] == agent["metadata"]["generation"];
        is_seen.then_some(Settled { nodes, hash })
    })
}

#[test]
fn what_a_change_without_a_manifest_would_do_is_what_it_then_does() {
    let cluster = ControlPlane::start(Options::whole());
    for (name, cpu, labels, taints) in [
        ("plain", "4", json!({}), json!([])),
        ("big", "8", json!({"pool": "a"}), json!([])),
        ("small", "1", json!({"pool": "a"}), json!([])),
        ("gpu", "4", json!({"pool": "a"}), json!([{"key": "gpu", "value": "true", "effect": "NoSchedule"}])),
        ("own", "4", json!({"pool": "b"}), json!([{"key": "team", "value": "b", "effect": "NoExecute"}])),
    ] {
        let mut metadata = json!({"name": name, "labels": labels});
        metadata["labels"]["type"] = json!("kwok");
        let allocatable = json!({"cpu": cpu, "memory": "8Gi", "pods": "110"});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": taints},
            "status": {"allocatable": allocatable}});
        cluster.create(&node.to_string());
    }
    let container =
        |name: &str| json!({"name": name, "image": format!("{name}:1"), "resources": {"requests": {"cpu": "200m"}}});
    let strategy = json!({"rollingUpdate": {"maxUnavailable": "100%"}});
    let template = json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [container("agent"), container("log")]}});
    let agent = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "updateStrategy": strategy, "template": template}});
    cluster.create(&agent.to_string());
    let mut before = settle(&cluster);
    assert_eq!(before.nodes.keys().collect::<Vec<_>>(), ["big", "plain", "small"]);

    let merge = |patch: Value| vec!["patch", "ds/agent", "--type=merge", "-p", patch.to_string().leak()];
    let pod = |spec: Value| merge(json!({"spec": {"template": {"spec": spec}}}));
    let tolerations = json!([{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]);
    let both = json!([tolerations[0], {"key": "team", "operator": "Equal", "value": "b"}]);
    let mut seen = BTreeMap::<String, usize>::new();
    for (changes, kubectl) in [
        (&["toleration gpu:NoSchedule"][..], pod(json!({"tolerations": tolerations}))),
        (&["nodeSelector pool=a"], pod(json!({"nodeSelector": {"pool": "a"}}))),
        (&["request agent:cpu=900m"], vec!["set", "resources", "ds/agent", "-c", "agent", "--requests=cpu=900m"]),
        (&["image log=log:2"], vec!["set", "image", "ds/agent", "log=log:2"]),
        (&["maxUnavailable 3"], merge(json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 3}}}}))),
        (
            &["nodeSelector pool-", "toleration team=b"],
            pod(json!({"nodeSelector": {"pool": null}, "tolerations": both})),
        ),
    ] {
        let flags: Vec<&str> = changes.iter().flat_map(|change| ["--if", change]).collect();
        let file = cluster.folder().join(format!("before {}.json", changes[0].replace('/', " ")));
        let file = file.to_str().unwrap();
        run_on(&cluster, &["snapshot", "-A", "-f", file]).expect(0);
        let live = run_on(&cluster, &[&["preview", "agent", "-o", "json"], &flags[..]].concat()).expect(0).json();
        let dump = [&["preview", "agent", "-n", "default", "-o", "json", "--from", file], &flags[..]].concat();
        let dump = end(crate::support::binary::kubectl_ds(&dump), None);
        let dump: Value = serde_json::from_str(&dump.out).unwrap_or_else(|error| panic!("{error}: {}", dump.err));
        cluster.kubectl(&kubectl);
        let after = settle(&cluster);
        for report in [&live, &dump] {
            let one = &report["daemonSets"][0];
            let mut expected = BTreeMap::new();
            for node in one["nodes"].as_array().unwrap() {
                let name = node["name"].as_str().unwrap();
                let (had, has) = (before.nodes.contains_key(name), after.nodes.get(name));
                *seen.entry(node["change"].as_str().unwrap().to_owned()).or_default() += 1;
                match node["change"].as_str().unwrap() {
                    "Keeps" => assert!(had && has.is_some(), "{changes:?} {node}"),
                    "Gains" => assert!(!had && has.is_some(), "{changes:?} {node}"),
                    "Loses" => assert!(had && has.is_none(), "{changes:?} {node}"),
                    // One that does not fit is created, too, and stays Pending.
                    "None" => assert!(!had && (has.is_none() || node["fits"] == false), "{changes:?} {node}"),
                    change => panic!("{changes:?} {change}"),
                }
                if let Some(fits) = node["fits"].as_bool() {
                    *seen.entry(if fits { "fits" } else { "does not fit" }.to_owned()).or_default() += 1;
                    expected.insert(name.to_owned(), fits);
                }
            }
            assert_eq!(after.nodes, expected, "{changes:?} {report}");
            assert_eq!(one["templateChanges"], before.hash != after.hash, "{changes:?}");
        }
        before = after;
    }
    for answer in ["Keeps", "Gains", "Loses", "None", "fits", "does not fit"] {
        assert!(seen.contains_key(answer), "{answer} never happened: {seen:?}");
    }
}
