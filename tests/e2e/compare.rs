//! `compare` across upgrades of nodes on a real control plane, and the scripts of docs/pipelines-upgrades.md.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::rollouts::program::run_on;
use crate::support::control_plane::{ControlPlane, Options};

/// How many nodes there are at a time.
const NODES: usize = 3;

fn node(name: &str, patch: &Value) -> Value {
    let labels = json!({"type": "kwok", "kubernetes.io/os": "linux", "eks.amazonaws.com/nodegroup": "workers"});
    let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
    json_patch::merge(&mut node, patch);
    node
}

/// Creates an agent that tolerates everything, and one that tolerates nothing.
fn create_agents(cluster: &ControlPlane) {
    for (name, tolerations) in [("agent", json!([])), ("tolerant", json!([{"operator": "Exists"}]))] {
        let requests = json!({"requests": {"cpu": "100m"}});
        let containers = json!([{"name": "agent", "image": "agent:1", "resources": requests}]);
        let spec = json!({"selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": containers, "tolerations": tolerations}}});
        let daemon_set =
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec});
        cluster.create(&daemon_set.to_string());
    }
}

/// Waits until so many pods of an agent are available.
fn wait_for(cluster: &ControlPlane, name: &str, pods: usize) {
    cluster.wait_until(&format!("{pods} pods of {name} are available"), || {
        let status = cluster.get(&["ds", name])["status"].clone();
        let number = |field: &str| status[field].as_u64().unwrap_or(0);
        let is_settled = number("numberAvailable") == pods as u64 && number("desiredNumberScheduled") == pods as u64;
        is_settled.then_some(())
    });
}

/// Replaces each node by one of another name, and waits for the agent that tolerates everything.
fn replace_nodes(cluster: &ControlPlane, prefix: &str, patch: &Value) {
    let old = cluster.items(&["nodes"]);
    for number in 0..NODES {
        cluster.create(&node(&format!("{prefix}{number}"), patch).to_string());
        if let Some(old) = old.get(number) {
            cluster.kubectl(&["delete", "node", old["metadata"]["name"].as_str().unwrap()]);
        }
    }
}

#[test]
fn nodes_that_are_replaced_are_no_loss_unless_an_agent_does_not_run_on_the_new_ones() {
    let cluster = ControlPlane::start(Options::whole());
    replace_nodes(&cluster, "old", &json!({}));
    create_agents(&cluster);
    ["agent", "tolerant"].iter().for_each(|name| wait_for(&cluster, name, NODES));
    let file = cluster.folder().join("before.json.gz");
    let before = file.to_str().unwrap();
    run_on(&cluster, &["snapshot", "-A", before]).expect(0);
    let compare = |flags: &[&str]| run_on(&cluster, &[&["compare", before], flags].concat());
    compare(&["--exit-code"]).expect(0).must_say("Same: 2 DaemonSets");

    // Under other names, and everything runs.
    replace_nodes(&cluster, "good", &json!({}));
    let good = compare(&["--watch", "--timeout", "2m"]).expect(0);
    good.must_say("Same: 2 DaemonSets").must_say("pool workers: 3 of 3 nodes replaced");
    compare(&["--exit-code"]).expect(0);
    // The pods of nodes that are gone are the same.
    let report = compare(&["-o", "json"]).json();
    assert_eq!((&report["verdict"], &report["differentClusters"]), (&json!("Same"), &Value::Null), "{report}");

    // With a taint that one of them does not tolerate.
    let taint = json!({"spec": {"taints": [{"key": "team", "value": "ml", "effect": "NoSchedule"}]}});
    replace_nodes(&cluster, "tainted", &taint);
    wait_for(&cluster, "agent", 0);
    wait_for(&cluster, "tolerant", NODES);
    let worse = compare(&["--exit-code"]).expect(3);
    worse
        .must_say("Worse: 3 new nodes have no available pod")
        .must_say("UntoleratedNoSchedule: taint team=ml:NoSchedule");
    assert!(!worse.says("default/tolerant:"), "{worse}");
    compare(&["--watch", "--timeout", "3s"]).expect(4).must_say("it is worse than before");
    compare(&["--exit-code", "--accept", "UntoleratedNoSchedule"]).expect(0).must_say("(accepted)");
    compare(&["--exit-code", "--name", "tolerant"]).expect(0);

    // Of a smaller shape: one agent fits, and not both.
    let small = json!({"status": {"allocatable": {"cpu": "150m", "memory": "1Gi", "pods": "10"}}});
    replace_nodes(&cluster, "small", &small);
    cluster.wait_until("the scheduler has tried all pods", || {
        let pods = cluster.items(&["pods"]);
        let is_small = |pod: &&Value| pod["spec"].to_string().contains("small");
        let is_tried = |pod: &Value| {
            pod["spec"]["nodeName"].is_string() || pod["status"]["conditions"][0]["reason"] == "Unschedulable"
        };
        let pods: Vec<&Value> = pods.iter().filter(is_small).collect();
        (pods.len() == 2 * NODES && pods.into_iter().all(is_tried)).then_some(())
    });
    let worse = compare(&["--exit-code"]).expect(3);
    worse.must_say("Worse: 3 new nodes have no available pod").must_say("InsufficientResource");
}

/// What an upgraded API server refuses: pods that are not restricted.
const RESTRICTED: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: PodSecurity\n  \
     configuration:\n    apiVersion: pod-security.admission.config.k8s.io/v1\n    kind: PodSecurityConfiguration\n    \
     defaults: {enforce: restricted}\n";

/// From the release that is tested to the newest one; if that is the one that is tested, its parts are started again on the same etcd.
#[test]
fn an_upgrade_of_the_control_plane_on_the_same_etcd_is_told_from_one_after_which_pods_are_refused_or_do_not_fit() {
    let mut cluster = ControlPlane::start(Options::whole());
    replace_nodes(&cluster, "node", &json!({}));
    create_agents(&cluster);
    let agents = ["agent", "tolerant"];
    agents.iter().for_each(|name| wait_for(&cluster, name, NODES));
    let uids = |cluster: &ControlPlane| -> BTreeSet<String> {
        cluster.items(&["pods"]).iter().map(|pod| pod["metadata"]["uid"].to_string()).collect()
    };
    let (pods, file) = (uids(&cluster), cluster.folder().join("before.json.gz"));
    let before = file.to_str().unwrap();
    run_on(&cluster, &["snapshot", "-A", before]).expect(0);
    let compare = |cluster: &ControlPlane, flags: &[&str]| run_on(cluster, &[&["compare", before], flags].concat());

    cluster.upgrade("1.37", &[]);
    compare(&cluster, &["--watch", "--timeout", "2m"]).expect(0).must_say("Same: 2 DaemonSets");
    compare(&cluster, &["--exit-code"]).expect(0);
    assert_eq!(uids(&cluster), pods, "an upgrade restarts nothing");

    // Its kubelet keeps more for itself, so that it rejects what it ran.
    let restart = |cluster: &ControlPlane| cluster.kubectl(&["delete", "pods", "--field-selector=spec.nodeName=node0"]);
    let offers = |cluster: &ControlPlane, cpu: &str| {
        let patch = json!({"status": {"allocatable": {"cpu": cpu}}}).to_string();
        cluster.kubectl(&["patch", "node", "node0", "--subresource=status", "--type=merge", "-p", &patch]);
    };
    offers(&cluster, "50m");
    restart(&cluster);
    let worse = cluster.wait_until("the scheduler has tried the pods", || {
        let worse = compare(&cluster, &["--exit-code"]);
        (worse.code == Some(3) && worse.says("NeverFits")).then_some(worse)
    });
    worse.must_say("node0").must_say("requests 100m cpu; node allocatable: 50m");
    offers(&cluster, "16");
    agents.iter().for_each(|name| wait_for(&cluster, name, NODES));
    compare(&cluster, &["--exit-code"]).expect(0).must_say("Same: 2 DaemonSets");

    // Nothing is wrong until a pod has to be replaced.
    let restricted = cluster.folder().join("admission.yaml");
    fs::write(&restricted, RESTRICTED).unwrap();
    cluster.upgrade("1.37", &[&format!("--admission-control-config-file={}", restricted.display())]);
    compare(&cluster, &["--exit-code"]).expect(0);
    restart(&cluster);
    let worse = cluster.wait_until("the controller is refused a pod", || {
        let worse = compare(&cluster, &["--exit-code"]);
        (worse.code == Some(3) && worse.says("PodSecurityDenied")).then_some(worse)
    });
    worse.must_say("node0");
    compare(&cluster, &["--watch", "--timeout", "3s"]).expect(4).must_say("it is worse than before");
}

/// Returns the scripts of the page.
fn scripts() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pipelines-upgrades.md");
    let text = fs::read_to_string(page).unwrap();
    text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// What upgrades the nodes is played: it replaces a node, as the real one does.
#[test]
fn the_scripts_of_the_page_pass_after_good_upgrades_and_fail_after_bad_ones() {
    let cluster = ControlPlane::start(Options::whole());
    replace_nodes(&cluster, "old", &json!({}));
    create_agents(&cluster);
    ["agent", "tolerant"].iter().for_each(|name| wait_for(&cluster, name, NODES));
    let folder = tempfile::tempdir().unwrap();
    let kubectl = cluster.kubectl_command();
    let real = format!("{} kubectl", kubectl.get_program().display());
    let untainted = "{{range .items}}{{if not .spec.taints}}{{.metadata.name}}{{\"\\n\"}}{{end}}{{end}}";
    let upgrade = format!(
        "old=$({real} get nodes -o go-template='{untainted}' | head -n 1)\nnumber=$(cat number)\n\
         echo $((number + 1)) > number\nsed \"s/NAME/new$number/\" node.json | {real} create -f - >&2\n\
         {real} delete node $old >&2\n"
    );
    let write = |name: &str, script: String| {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh -e\n{script}")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    fs::write(folder.path().join("number"), "0").unwrap();
    // No node is replaced by kubeadm, which upgrades it in place.
    write("kubeadm", format!("{real} label nodes --all version=v1 --overwrite >&2\n{real} apply -f taints.json >&2\n"));
    write("aws", format!("case $2 in update-nodegroup-version) {upgrade};; esac\n"));
    write(
        "kubectl",
        format!(
            "case \"$1 $2\" in\n'get nodeclaims') echo nodeclaim.karpenter.sh/old;;\n'patch ec2nodeclass')\n{upgrade};;\n\
             'wait --for=delete') test \"$3\" = nodeclaim.karpenter.sh/old;;\n*) exec {real} \"$@\";; esac\n"
        ),
    );
    symlink(env!("CARGO_BIN_EXE_kubectl-ds"), folder.path().join("kubectl-ds")).unwrap();
    let run = |script: &str, patch: &Value, bad: bool| {
        let _ = fs::remove_file(folder.path().join("before.json.gz"));
        fs::write(folder.path().join("node.json"), node("NAME", patch).to_string()).unwrap();
        // What is left behind after a bad upgrade in place.
        let first = cluster.items(&["nodes"])[0]["metadata"]["name"].as_str().unwrap().to_owned();
        let taints = node(&first, patch);
        fs::write(folder.path().join("taints.json"), taints.to_string()).unwrap();
        let path = [folder.path(), Path::new("/usr/local/bin"), Path::new("/usr/bin"), Path::new("/bin")];
        let timeout = if bad { "--timeout 5s" } else { "--timeout 2m" };
        let output = Command::new("sh")
            .args(["-ec", &script.replace("--timeout 15m", timeout)])
            .env_clear()
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("HOME", folder.path())
            .env("KUBECONFIG", cluster.kubeconfig())
            .current_dir(folder.path())
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let scripts = scripts();
    assert_eq!(scripts.len(), 3);
    for script in &scripts {
        let (code, printed) = run(script, &json!({}), false);
        assert_eq!(code, Some(0), "{script}\n{printed}");
        assert!(printed.contains("Same: "), "{printed}");
    }
    let taint = json!({"spec": {"taints": [{"key": "team", "value": "ml", "effect": "NoExecute"}]}});
    for script in &scripts {
        let (code, printed) = run(script, &taint, true);
        assert_eq!(code, Some(4), "{script}\n{printed}");
        assert!(printed.contains("Worse: ") && printed.contains("UntoleratedNoExecute"), "{printed}");
    }
}
