//! A rollout whose pods the API server refuses: the reason is reported, with maxSurge, too; a rollback is offered only
//! if its pods would be created; and after the fix, the printed command makes the controller try again. The printed
//! commands are pasted as they are.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::rollouts::program::{Run, run_on};
use crate::support::control_plane::{ControlPlane, Options};

const NODES: usize = 3;

/// How long pods are refused, so that the controller waits for at least half a minute before its next try.
const REFUSED_FOR: Duration = Duration::from_secs(50);

/// What refuses pods, by the namespace of the test.
const KINDS: [(&str, &str); 4] = [
    ("quota", "QuotaExceeded"),
    ("security", "PodSecurityDenied"),
    ("limits", "LimitRangeViolation"),
    ("policy", "WebhookDenied"),
];

fn create(cluster: &ControlPlane, object: &Value) {
    cluster.create(&object.to_string());
}

fn image(cluster: &ControlPlane, namespace: &str, image: &str) {
    let patch =
        json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image}]).to_string();
    cluster.kubectl(&["patch", "ds", "agent", "-n", namespace, "--type", "json", "-p", &patch]);
}

fn wait_for_pods(cluster: &ControlPlane, namespace: &str, image: &str) {
    cluster.wait_until(&format!("{namespace} has pods of {image}, all of them ready"), || {
        let all = cluster.items(&["pods", "-n", namespace]);
        let is_ready = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            pod["spec"]["containers"][0]["image"] == image
                && conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        };
        let ready = all.iter().filter(is_ready).count();
        (ready == NODES && all.len() == NODES).then_some(())
    });
}

fn status(cluster: &ControlPlane, namespace: &str) -> Run {
    run_on(cluster, &["status", "agent", "-n", namespace])
}

/// Returns the arguments of the one printed command that contains these words, without the program.
fn printed(run: &Run, words: &str) -> Vec<String> {
    shlex::split(command(run, words)).unwrap().split_off(1)
}

/// Pastes the one printed command of the program that contains these words into a shell.
fn paste(run: &Run, words: &str) {
    let script = format!("kubectl() {{ shift; \"$PROGRAM\" \"$@\"; }}\n{}", command(run, words));
    let shell =
        Command::new("sh").args(["-c", &script]).env("PROGRAM", env!("CARGO_BIN_EXE_kubectl-ds")).output().unwrap();
    assert!(shell.status.success(), "{script}: {shell:?}");
}

/// Returns the one printed command that contains these words.
fn command<'a>(run: &'a Run, words: &str) -> &'a str {
    let commands = run.stdout.lines().filter_map(|line| Some(&line[line.find("kubectl ")?..]));
    let mut commands: Vec<&str> = commands.filter(|command| command.contains(words)).collect();
    commands.dedup();
    let [command] = commands.as_slice() else { panic!("{words:?} is in {commands:?}: {run}") };
    command
}

/// No stage deletes pods whose successors would be refused like those that are missing. A restart deletes none as long as a pod
/// is missing.
fn a_template_that_is_refused_too_is_not_rolled_out(cluster: &ControlPlane) {
    let generation = |namespace: &str| cluster.get(&["ds", "agent", "-n", namespace])["metadata"]["generation"].clone();
    for (namespace, code) in &KINDS[1..3] {
        let before = generation(namespace);
        let partition = ["partition", "agent", "1", "--image=agent=agent:3", "-n", namespace];
        let partition = run_on(cluster, &partition).expect(1);
        partition.must_say("including those of the new template").must_say(code).must_say("add --force");
        let restart = run_on(cluster, &["restart", "agent", "-n", namespace, "--dry-run=server"]).expect(0);
        restart.must_say("the controller replaces no pod until it accepts them").must_say(code);
        assert_eq!(generation(namespace), before, "{namespace}");
    }
    let restart = run_on(cluster, &["restart", "agent", "-n", "policy", "--dry-run=server"]).expect(0);
    restart.must_say("kubectl ds undo");
}

#[test]
fn refused_pods_are_told_with_their_cause_and_what_is_printed_mends_it() {
    let cluster = ControlPlane::start(Options::whole());
    for number in 0..NODES {
        let metadata = json!({"name": format!("node-{number}"), "labels": {"type": "kwok"}});
        create(&cluster, &json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata}));
    }
    for (namespace, _) in KINDS {
        create(&cluster, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
        let rolling = if namespace == "quota" { json!({"maxSurge": 1, "maxUnavailable": 0}) } else { json!({}) };
        let container = json!({"name": "agent", "image": "agent:1", "resources": {"limits": {"memory": "128Mi"}}});
        create(
            &cluster,
            &json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": namespace},
                "spec": {
                    "selector": {"matchLabels": {"app": "agent"}},
                    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
                    "template": {
                        "metadata": {"labels": {"app": "agent"}},
                        "spec": {"hostPID": true, "containers": [container], "tolerations": [{"operator": "Exists"}]},
                    },
                },
            }),
        );
    }
    KINDS.iter().for_each(|(namespace, _)| wait_for_pods(&cluster, namespace, "agent:1"));

    let metadata = |name: &str, namespace: &str| json!({"name": name, "namespace": namespace});
    let hard = json!({"hard": {"pods": NODES}});
    create(
        &cluster,
        &json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata("few", "quota"), "spec": hard}),
    );
    let limits = json!({"limits": [{"type": "Container", "max": {"memory": "64Mi"}}]});
    create(
        &cluster,
        &json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata("small", "limits"), "spec": limits}),
    );
    cluster.kubectl(&["label", "namespace", "security", "pod-security.kubernetes.io/enforce=baseline"]);
    let (group, rules) = (
        "admissionregistration.k8s.io/v1",
        json!([{"apiGroups": [""], "apiVersions": ["v1"],
        "operations": ["CREATE"], "resources": ["pods"]}]),
    );
    for (policy, expression) in
        [("no-second", "object.spec.containers.all(c, c.image != 'agent:2')"), ("anything", "true")]
    {
        create(
            &cluster,
            &json!({"apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": policy},
            "spec": {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": expression}]}}),
        );
        let selector = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "policy"}}});
        create(
            &cluster,
            &json!({"apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": policy},
            "spec": {"policyName": policy, "validationActions": ["Deny"], "matchResources": selector}}),
        );
    }
    cluster.wait_until("the quota has counted the pods", || {
        (cluster.get(&["resourcequota", "few", "-n", "quota"])["status"]["used"]["pods"] == NODES.to_string().as_str())
            .then_some(())
    });
    // The API server takes a moment to heed a policy.
    sleep(Duration::from_secs(3));
    let began = Instant::now();
    KINDS.iter().for_each(|(namespace, _)| image(&cluster, namespace, "agent:2"));

    for (namespace, code) in KINDS {
        cluster.wait_until(&format!("{namespace} is blocked"), || status(&cluster, namespace).says(code).then_some(()));
        let blocked = status(&cluster, namespace).expect(3);
        blocked.must_say("the API server refuses new pods").must_say(code);
        // Only the policy is of the new image alone.
        assert_eq!(blocked.says("kubectl ds undo"), namespace == "policy", "{blocked}");
        assert!(!blocked.says("kubectl ds retry"), "{blocked}");
    }
    a_template_that_is_refused_too_is_not_rolled_out(&cluster);
    let blocked = status(&cluster, "policy");
    // The other policy is only among what has changed.
    let (told, _) = blocked.stdout.split_once("What else changed lately").unwrap();
    assert!(told.contains("no-second") && !told.contains("anything"), "{blocked}");
    let shown = cluster
        .kubectl(&printed(&blocked, "get validatingadmissionpolicies").iter().map(String::as_str).collect::<Vec<_>>());
    assert!(shown.contains("no-second") && !shown.contains("anything"), "{shown}");
    let undo = printed(&blocked, "ds undo");
    // The policy is about one image.
    let undone = run_on(&cluster, &undo[1..].iter().map(String::as_str).collect::<Vec<_>>()).expect(0);
    assert!(!undone.says("refuses new pods"), "{undone}");
    wait_for_pods(&cluster, "policy", "agent:1");
    status(&cluster, "policy").expect(0);

    sleep(REFUSED_FOR.saturating_sub(began.elapsed()));
    let more = r#"{"spec":{"hard":{"pods":"10"}}}"#;
    let privileged = "pod-security.kubernetes.io/enforce=privileged";
    let fix: [&[&str]; 3] = [
        &["patch", "resourcequota", "few", "-n", "quota", "--type", "merge", "-p", more],
        &["label", "namespace", "security", "--overwrite", privileged],
        &["delete", "limitrange", "small", "-n", "limits"],
    ];
    for ((namespace, code), fix) in KINDS.iter().zip(fix) {
        // Each right before it is looked at: the controller tries again by itself, too.
        cluster.kubectl(fix);
        cluster.wait_until(&format!("{namespace} is fixed"), || {
            status(&cluster, namespace).says("accepts such a pod now").then_some(())
        });
        let fixed = status(&cluster, namespace).expect(3);
        assert!(fixed.says(code) && !fixed.says("refuses new pods") && !fixed.says("kubectl ds undo"), "{fixed}");
        let restart = run_on(&cluster, &["restart", "agent", "-n", namespace, "--dry-run=server"]).expect(0);
        assert!(!restart.says("refuses new pods"), "{restart}");
        // All that tells of a refusal asks whether it still holds.
        let watched = run_on(&cluster, &["status", "agent", "-n", namespace, "--watch", "--timeout", "1s"]).expect(4);
        let covered = run_on(&cluster, &["coverage", "agent", "-n", namespace]).expect(0);
        // With maxSurge every node keeps its old pod, and coverage has nothing to explain.
        let covered = (*namespace != "quota").then_some((covered, "coverage"));
        for (told, what) in [(watched, "status --watch")].into_iter().chain(covered) {
            assert!(told.says("accepts such a pod now") && !told.says("refuses new pods"), "{what}: {told}");
            assert_eq!(printed(&told, "kubectl ds retry")[1], "retry", "{what}");
        }
        let before = cluster.get(&["ds", "agent", "-n", namespace]);
        paste(&fixed, "kubectl ds retry");
        let pasted = Instant::now();
        wait_for_pods(&cluster, namespace, "agent:2");
        assert!(pasted.elapsed() < Duration::from_secs(20), "{namespace} took {:?}", pasted.elapsed());
        // It began no rollout.
        let after = cluster.get(&["ds", "agent", "-n", namespace]);
        assert_eq!(before["metadata"]["generation"], after["metadata"]["generation"]);
    }
}
