//! A DaemonSet that loses nodes: to a revision, which looks like a complete rollout, and to failing nodes, which look
//! like a blocked one. The printed commands are pasted as they are.

use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::rollouts::program::{Run, run, run_on};
use super::rollouts::workload::{CRASHING, FATE};
use crate::support::control_plane::{ControlPlane, Options};

/// How many nodes there are in each pool.
const POOLS: [(&str, usize); 2] = [("general", 15), ("gpu", 2)];

fn cluster() -> ControlPlane {
    let flags = ["--node-monitor-grace-period=20s", "--node-monitor-period=1s"].map(str::to_owned);
    let cluster = ControlPlane::start(Options { controller_manager_flags: flags.into(), ..Options::whole() });
    let nodes = POOLS.iter().flat_map(|(pool, nodes)| (0..*nodes).map(move |number| (*pool, number)));
    let nodes = nodes.map(|(pool, number)| {
        let labels = json!({"type": "kwok", "pool": pool});
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("{pool}-{number}"), "labels": labels}})
    });
    let nodes: Vec<Value> = nodes.collect();
    cluster.create(&json!({"apiVersion": "v1", "kind": "List", "items": nodes}).to_string());
    cluster
}

fn create(cluster: &ControlPlane, name: &str) {
    let spec = json!({
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "agent", "image": "agent:1"}], "tolerations": [{"operator": "Exists"}]},
        },
    });
    let daemon_set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec});
    cluster.create(&daemon_set.to_string());
}

fn patch(cluster: &ControlPlane, name: &str, template: &Value) {
    let patch = json!({"spec": {"template": template}}).to_string();
    cluster.kubectl(&["patch", "ds", name, "--type", "merge", "-p", &patch]);
}

fn wait_for_pods(cluster: &ControlPlane, name: &str, pods: usize) {
    cluster.wait_until(&format!("{name} has {pods} pods, all of them ready"), || {
        let all = cluster.items(&["pods", "-l", &format!("app={name}")]);
        let is_ready = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        };
        let daemon_set = cluster.get(&["ds", name]);
        let is_observed = daemon_set["status"]["observedGeneration"] == daemon_set["metadata"]["generation"];
        let is_counted = daemon_set["status"]["updatedNumberScheduled"].as_u64().unwrap_or(0) == pods as u64;
        let ready = all.iter().filter(is_ready).count();
        (is_observed && is_counted && (ready, all.len()) == (pods, pods)).then_some(())
    });
}

/// Runs the one printed command that contains these words, as it was printed.
fn paste(cluster: &ControlPlane, printed: &Run, words: &str) -> Run {
    let commands = printed.stdout.lines().chain(printed.stderr.lines()).filter_map(|line| {
        let command = &line[line.find("kubectl ds ")?..];
        command.contains(words).then_some(command)
    });
    let commands: Vec<&str> = commands.collect();
    let [command] = commands.as_slice() else { panic!("{words:?} is in {commands:?}: {printed}") };
    let arguments = shlex::split(command).unwrap();
    run(&cluster.kubeconfig(), &arguments[2..])
}

#[test]
fn a_revision_that_removes_the_nodes_is_told_first_and_rolled_back_by_the_printed_command() {
    let cluster = cluster();
    create(&cluster, "agent");
    create(&cluster, "other");
    wait_for_pods(&cluster, "agent", 17);
    wait_for_pods(&cluster, "other", 17);
    let run = |arguments: &[&str]| run_on(&cluster, arguments);
    let first_line = |run: &Run| run.stdout.lines().next().unwrap_or_default().to_owned();
    let before = run(&["status", "agent"]).expect(0);
    assert!(!before.says("removed"), "{before}");

    for (selector, left, told) in [
        // With nodes of another pool, what is left is complete.
        ("gpu", 2, "revision 2 removed 15 of 17 nodes"),
        ("genral", 0, "removed all 17 nodes"),
    ] {
        let template = json!({"spec": {"nodeSelector": {"pool": selector}}});
        // It is seen before it is applied.
        let mut manifest = cluster.get(&["ds", "agent"]);
        manifest["spec"]["template"]["spec"]["nodeSelector"] = json!({"pool": selector});
        let file = cluster.folder().join(format!("{selector}.json"));
        std::fs::write(&file, manifest.to_string()).unwrap();
        let preview = run(&["preview", "-f", file.to_str().unwrap()]);
        preview.must_say(&format!("would lose {}", 17 - left));
        assert!(!preview.says("kubectl label"), "{preview}");
        let staged = run(&["partition", "agent", "0", "-f", file.to_str().unwrap(), "--dry-run"]);
        match left {
            0 => staged.expect(1).must_say("no node is eligible for default/agent with this template"),
            left => staged.expect(0).must_say(&format!("{} nodes lose their pods", 17 - left)),
        };

        patch(&cluster, "agent", &template);
        wait_for_pods(&cluster, "agent", left);
        let status = run(&["status", "agent"]).expect(3);
        assert!(first_line(&status).contains(told), "{status}");
        assert!(first_line(&status).contains("nodeSelector pool") || status.says("nodeSelector pool"), "{status}");
        assert!(!status.says("kubectl label"), "{status}");
        run(&["status", "agent", "--watch", "--timeout", "20s"]).expect(3);
        run(&["list"]).must_say(told).must_say("Degraded").must_say("other");
        run(&["list", "--problems", "-o", "name"]).must_say("daemonset.apps/agent");
        let all = run(&["coverage", "-A"]);
        let named: Vec<&str> = all.stdout.lines().filter(|line| line.contains("removed")).collect();
        assert!(all.says(told) && !named.is_empty() && named.iter().all(|line| line.contains("agent")), "{all}");
        let restart = run(&["restart", "agent", "--dry-run"]);
        restart.must_say("this does not give them their pods back");

        // A stage that brings them back shows it first, too.
        let staged = run(&["partition", "agent", "0", "--to-revision=1", "--dry-run"]);
        assert!(left == 0 || staged.stdout.contains("15 nodes get a pod immediately"), "{staged}");

        // Whoever means it says so, with the printed command.
        paste(&cluster, &status, "--accept fewer-nodes").expect(0).must_say("accepted");
        // The plan shows first what comes back, and the printed command brings it back.
        let undo = paste(&cluster, &status, "undo").expect(0);
        let plan: Vec<&str> = undo.stdout.lines().collect();
        assert!(plan[1].contains(&format!("{} nodes get a pod immediately", 17 - left)), "{undo}");
        wait_for_pods(&cluster, "agent", 17);
        let after = run(&["status", "agent"]).expect(0);
        assert!(!after.says("removed"), "{after}");
    }
}

#[test]
fn nodes_that_are_down_block_no_daemon_set_that_is_not_rolled_out() {
    let cluster = cluster();
    let names = ["a", "b", "stuck"];
    names.iter().for_each(|name| create(&cluster, name));
    names.iter().for_each(|name| wait_for_pods(&cluster, name, 17));
    for node in ["general-0", "general-1"] {
        cluster.kubectl(&["label", "node", node, "type-"]);
    }
    cluster.wait_until("the nodes are down", || {
        let nodes = cluster.items(&["nodes"]);
        let is_down = |node: &&Value| node["spec"]["taints"].to_string().contains("unreachable");
        (nodes.iter().filter(is_down).count() == 2).then_some(())
    });
    // One of them is being rolled out, and the nodes use up its budget.
    patch(&cluster, "stuck", &json!({"spec": {"containers": [{"name": "agent", "image": "agent:2"}]}}));
    let blocked_by = || -> Vec<(String, String)> {
        let report = run_on(&cluster, &["status", "-o", "json"]).json();
        let rollouts = report["daemonSets"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        rollouts
            .map(|rollout| (text(&rollout["name"]), rollout["blockedBy"].as_str().unwrap_or("no").to_owned()))
            .collect()
    };
    let expected = [("stuck", "Budget"), ("a", "no"), ("b", "no")];
    let expected = expected.map(|(name, by)| (name.to_owned(), by.to_owned()));
    cluster.wait_until("only the one that is rolled out is blocked", || (blocked_by() == expected).then_some(()));
    let list = run_on(&cluster, &["list"]).expect(0);
    list.must_say("1 blocked, 2 with nodes down");
    // What explains all three is told once, above each table.
    for table in [&["list", "-A"][..], &["coverage", "-A"], &["status", "-A"]] {
        let told =
            "2 nodes are down (general-0, general-1), which affects 3 DaemonSets; only default/stuck is in a rollout";
        let run = run_on(&cluster, table);
        run.must_say(told).must_say("kubectl describe node ");
        let (above, _) = run.stdout.split_once("DAEMONSETS").or_else(|| run.stdout.split_once("NAMESPACE")).unwrap();
        assert!(above.contains(told), "{run}");
    }
    let rows: Vec<&str> = list.stdout.lines().filter(|line| line.contains("NodeUnreachable")).collect();
    assert!(rows.len() == 3 && rows[0].starts_with("stuck") && rows[0].contains("Blocked"), "{list}");
    let degraded = run_on(&cluster, &["status", "a"]).expect(3);
    degraded.must_say("a has nodes down: revision 1 is rolled out to 17 nodes; 2 unavailable");
    // There is nothing to roll back, and no budget to raise.
    assert!(!degraded.says("undo") && !degraded.says("set --max-unavailable"), "{degraded}");
    // Nothing that is printed costs an available pod.
    let available = || cluster.get(&["ds", "a"])["status"]["numberAvailable"].clone();
    assert_eq!(available(), 15);
    let commands = degraded.stdout.lines().filter_map(|line| Some(line[line.find("kubectl ")?..].to_owned()));
    for command in commands {
        let words = shlex::split(&command).unwrap();
        match &words[1] {
            word if word == "ds" => drop(self::run(&cluster.kubeconfig(), &words[2..])),
            _ => drop(cluster.try_kubectl(&words[1..].iter().map(String::as_str).collect::<Vec<_>>(), None)),
        }
        std::thread::sleep(std::time::Duration::from_secs(2));
        assert_eq!(available(), 15, "{command}");
    }
    let overview = run_on(&cluster, &["status"]).expect(3);
    overview.must_say("3 DaemonSets: 1 blocked, 2 with nodes down");
    let accepted = run_on(&cluster, &["status", "--accept", "node"]).expect(3);
    accepted.must_say("3 DaemonSets: 1 blocked, 2 accepted");
}

/// Three of twenty nodes are down: `kubectl rollout status` waits for them.
#[test]
fn a_rollout_ends_although_nodes_are_down_if_that_is_accepted_and_not_if_the_revision_is_bad() {
    let cluster = cluster();
    let more = (0..3).map(|number| {
        let metadata = json!({"name": format!("more-{number}"), "labels": {"type": "kwok", "pool": "general"}});
        json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    });
    let more: Vec<Value> = more.collect();
    cluster.create(&json!({"apiVersion": "v1", "kind": "List", "items": more}).to_string());
    create(&cluster, "agent");
    wait_for_pods(&cluster, "agent", 20);
    let run = |arguments: &[&str]| run_on(&cluster, arguments);
    let rolling = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 5}}}}).to_string();
    cluster.kubectl(&["patch", "ds", "agent", "--type", "merge", "-p", &rolling]);
    for node in ["general-0", "general-1", "more-2"] {
        cluster.kubectl(&["label", "node", node, "type-"]);
    }
    cluster.wait_until("the nodes are down", || {
        let nodes = cluster.items(&["nodes"]);
        let is_down = |node: &&Value| node["spec"]["taints"].to_string().contains("unreachable");
        (nodes.iter().filter(is_down).count() == 3).then_some(())
    });
    run(&["status", "agent"]).expect(3).must_say("3 nodes are down; revision 1 looks healthy");
    run(&["status", "agent", "--accept", "node=14%"]).expect(3).must_say("accepts at most 2 nodes");
    run(&["status", "agent", "--accept", "node=15%"])
        .expect(0)
        .must_say("accepted: 3 nodes (node=15%: general-0, general-1, more-2)");
    run(&["list"]).must_say("NodesDown");

    patch(&cluster, "agent", &json!({"spec": {"containers": [{"name": "agent", "image": "agent:2"}]}}));
    let followed = run(&["status", "agent", "--watch", "--accept", "node", "--timeout", "3m"]).expect(0);
    followed.must_say("counts as complete: revision 2 is available on 17 of 20 nodes");
    let rollout = cluster.try_kubectl(&["rollout", "status", "ds/agent", "--timeout", "10s"], None);
    assert!(!rollout.status.success(), "kubectl has stopped waiting: {rollout:?}");

    let container = json!({"name": "agent", "image": "agent:3"});
    let annotations = |fate: Option<&str>| json!({"annotations": {FATE: fate}});
    for bad in [
        // Its pods crash; the API server refuses them.
        json!({"metadata": annotations(Some(CRASHING)), "spec": {"containers": [container]}}),
        json!({"spec": {"containers": [container], "serviceAccountName": "none"}}),
    ] {
        patch(&cluster, "agent", &bad);
        let began = Instant::now();
        let failed = run(&["status", "agent", "--watch", "--accept", "node"]).expect(3);
        assert!(began.elapsed().as_secs() < 60, "{:?}: {failed}", began.elapsed());
        let report = run(&["status", "agent", "-o", "json", "--accept", "node,cluster"]).expect(3).json();
        let faults = &report["daemonSets"][0]["faults"];
        assert!(faults["revision"].as_u64().unwrap() > 0, "{faults}");
        assert_eq!(faults["node"], 3, "{faults}");
        cluster.kubectl(&["rollout", "undo", "ds/agent"]);
        run(&["status", "agent", "--watch", "--accept", "node", "--timeout", "3m"]).expect(0);
    }

    // They hold the whole budget: what lets the rollout go on is printed, and does.
    let rolling = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}}).to_string();
    cluster.kubectl(&["patch", "ds", "agent", "--type", "merge", "-p", &rolling]);
    patch(&cluster, "agent", &json!({"spec": {"containers": [{"name": "agent", "image": "agent:4"}]}}));
    let blocked = run(&["status", "agent", "--watch", "--accept", "node"]).expect(3);
    paste(&cluster, &blocked, "--max-unavailable 4").expect(0);
    run(&["status", "agent", "--watch", "--accept", "node", "--timeout", "3m"]).expect(0);
    // Its default may be in the object; nodes that come back end it.
    cluster.kubectl(&["annotate", "ds", "agent", "kubectl-ds/accept=node"]);
    run(&["status", "agent"]).expect(0).must_say("by the annotation kubectl-ds/accept");
    for node in ["general-0", "general-1", "more-2"] {
        cluster.kubectl(&["label", "node", node, "type=kwok"]);
    }
    cluster.wait_until("the rollout is complete", || {
        let status = run(&["status", "agent"]);
        (status.code == Some(0) && status.says("is complete")).then_some(())
    });
    // What was raised for them is offered back.
    let complete = run(&["status", "agent"]).expect(0);
    complete.must_say("maxUnavailable 4 was set because the rollout was blocked");
    paste(&cluster, &complete, "--max-unavailable 1").expect(0);
    assert_eq!(cluster.get(&["ds", "agent"])["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"], 1);
    assert!(!run(&["status", "agent"]).expect(0).says("--max-unavailable"));
}

/// Autoscalers that remove nodes and do not get on: what is left on the nodes is named, and no rollout waits for them.
#[test]
fn a_removal_of_nodes_that_does_not_get_on_is_told_with_what_is_left() {
    let cluster = cluster();
    let names = ["agent", "other"];
    for name in names {
        create(&cluster, name);
        patch(&cluster, name, &json!({"spec": {"tolerations": null}}));
        wait_for_pods(&cluster, name, 17);
    }
    let web = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "finalizers": ["example.com/backup"],
        "labels": {"app": "web"}, "annotations": {"karpenter.sh/do-not-disrupt": "true"}},
        "spec": {"nodeName": "general-0", "containers": [{"name": "web", "image": "web:1"}]}});
    cluster.create(&web.to_string());
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    cluster.create(&budget.to_string());
    let ago = |seconds: i64| Timestamp::now() - SignedDuration::from_secs(seconds);
    let taint = |node: &str, key: &str, value: &str, added: Option<Timestamp>| {
        let added = added.map(|added| format!("{added:.0}"));
        let taint = json!({"key": key, "value": value, "effect": "NoSchedule", "timeAdded": added});
        let patch = json!({"spec": {"taints": [taint]}}).to_string();
        cluster.kubectl(&["patch", "node", node, "--type", "merge", "-p", &patch]);
    };
    let autoscaler = "ToBeDeletedByClusterAutoscaler";
    taint("general-0", "karpenter.sh/disrupted", "", Some(ago(1200)));
    taint("general-1", autoscaler, &ago(1000).as_second().to_string(), None);
    // These have just begun.
    taint("general-2", "karpenter.sh/disrupted", "", Some(ago(120)));
    taint("general-3", autoscaler, &ago(120).as_second().to_string(), None);

    let run = |arguments: &[&str]| run_on(&cluster, arguments);
    let coverage = run(&["coverage", "agent"]);
    coverage.must_say("NodeRemovalStuck").must_say("pods not evicted: 1, such as default/web");
    cluster.wait_until("what keeps the pod is named", || {
        let report = run(&["coverage", "agent", "-o", "json"]).json().to_string();
        let named = [
            "pods with karpenter.sh/do-not-disrupt=true: 1, such as default/web",
            "PodDisruptionBudgets that allow no eviction: 1, such as default/web",
        ];
        named.iter().all(|words| report.contains(words)).then_some(())
    });
    let report = run(&["coverage", "agent", "-o", "json"]).json();
    let stuck: Vec<&Value> = report["daemonSets"][0]["notEligible"]
        .as_array()
        .unwrap()
        .iter()
        .chain(report["daemonSets"][0]["problems"].as_array().unwrap())
        .filter(|group| group["code"] == "NodeRemovalStuck")
        .flat_map(|group| group["nodes"].as_array().unwrap())
        .collect();
    let mut stuck: Vec<&str> = stuck.into_iter().map(|node| node.as_str().unwrap()).collect();
    stuck.sort_unstable();
    assert_eq!(stuck, ["general-0", "general-1"], "{report}");
    run(&["list"]).must_say("the removal of 2 nodes is stuck (general-0, general-1)");
    cluster.kubectl(&["delete", "pod", "web", "--wait=false"]);
    cluster.wait_until("the pod is terminating", || {
        let coverage = run(&["coverage", "agent"]);
        coverage.says("still terminating: 1, such as default/web (finalizer example.com/backup)").then_some(())
    });

    // Such nodes get no new pod, and nobody waits for them unless a limit is exceeded.
    patch(&cluster, "agent", &json!({"spec": {"containers": [{"name": "agent", "image": "agent:2"}]}}));
    run(&["status", "agent", "--watch", "--accept", "node", "--timeout", "3m"]).expect(0).must_say("13 nodes");
    let release = json!({"metadata": {"finalizers": null}}).to_string();
    cluster.kubectl(&["patch", "pod", "web", "--type", "merge", "-p", &release]);
    for node in ["general-0", "general-1", "general-2", "general-3"] {
        cluster.kubectl(&["patch", "node", node, "--type", "merge", "-p", "{\"spec\": {\"taints\": null}}"]);
    }
    run(&["status", "agent", "--watch", "--timeout", "3m"]).expect(0).must_say("17 nodes");
    assert!(!run(&["coverage", "agent"]).says("NodeRemovalStuck"));
}
