//! What is reported while a component of the control plane is down.

use serde_json::{Value, json};

use super::rollouts::program::{Run, run, run_on};
use crate::support::control_plane::{ControlPlane, Options, Part};
use crate::support::faulty_cluster::Settled;
use crate::support::say;

fn node(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"type": "kwok"}}}).to_string()
}

fn daemon_set(name: &str) -> String {
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "agent", "image": "agent"}]},
            },
        },
    })
    .to_string()
}

#[test]
fn a_spec_that_the_controller_has_not_seen_and_a_pod_without_a_scheduler_are_named() {
    let cluster = ControlPlane::start(Options::whole());
    cluster.create(&node("a"));
    cluster.create(&daemon_set("changed"));
    cluster.wait_until("the pod is ready", || {
        (cluster.get(&["ds", "changed"])["status"]["numberReady"] == 1).then_some(())
    });

    cluster.stop_part(Part::Scheduler);
    cluster.create(&daemon_set("unscheduled"));
    cluster.wait_until("the pod is made", || {
        let status = &cluster.get(&["ds", "unscheduled"])["status"];
        (status["currentNumberScheduled"] == 1 && status["observedGeneration"] == 1).then_some(())
    });
    let report = Settled::at_once(&cluster).report;
    let unscheduled = &report["daemonSets"][1];
    assert_eq!(unscheduled["nodes"][0]["state"], "Pending", "{unscheduled}");
    assert_eq!(unscheduled["nodes"][0]["reasons"][0]["code"], "SchedulerSilent", "{unscheduled}");

    cluster.stop_part(Part::ControllerManager);
    cluster.kubectl(&["set", "image", "daemonset", "changed", "agent=agent:2"]);
    let report = Settled::at_once(&cluster).report;
    let changed = &report["daemonSets"][0];
    assert_eq!(changed["concerns"][0]["code"], "ControllerNotObserved", "{changed}");
    assert_eq!(changed["nodes"][0]["state"], "Available", "{changed}");

    cluster.start_part(Part::ControllerManager);
    cluster.start_part(Part::Scheduler);
    cluster.wait_until("the controller has replaced the pod", || {
        let status = &cluster.get(&["ds", "changed"])["status"];
        (status["observedGeneration"] == 2 && status["updatedNumberScheduled"] == 1 && status["numberReady"] == 1)
            .then_some(())
    });
    cluster.wait_until("the other pod is ready too", || {
        (cluster.get(&["ds", "unscheduled"])["status"]["numberReady"] == 1).then_some(())
    });
    let report = Settled::at_once(&cluster).report;
    for one in report["daemonSets"].as_array().unwrap() {
        assert_eq!(one["nodes"][0]["state"], "Available", "{one}");
        assert_eq!(one["concerns"], Value::Array(Vec::new()), "{one}");
    }
}

/// What explains several DaemonSets is one line above each table, with a command that works.
#[test]
fn what_concerns_several_daemon_sets_is_told_once_above_every_table() {
    let cluster = ControlPlane::start(Options::whole());
    cluster.create(&node("a"));
    cluster.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "q"}}).to_string());
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none", "namespace": "q"},
        "spec": {"hard": {"pods": "0"}}});
    cluster.create(&quota.to_string());
    cluster.wait_until("the quota is in force", || {
        (cluster.get(&["resourcequota", "none", "-n", "q"])["status"]["hard"]["pods"] == "0").then_some(())
    });
    for name in ["one", "two", "three"] {
        let mut daemon_set: Value = serde_json::from_str(&daemon_set(name)).unwrap();
        daemon_set["metadata"]["namespace"] = json!("q");
        cluster.create(&daemon_set.to_string());
    }
    let tables = [&["list", "-A"][..], &["coverage", "-A"], &["status", "-A"]];
    let told_above_every_table = |words: &str, command: &str| {
        let of_list = || run_on(&cluster, tables[0]);
        cluster.wait_until(words, || of_list().says(words).then_some(()));
        for table in tables {
            let run = run_on(&cluster, table);
            let lines: Vec<&str> = run.stdout.lines().collect();
            let at = lines.iter().position(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}: {run}"));
            let header = lines.iter().position(|line| line.starts_with("NAMESPACE") || line.starts_with("REASON"));
            assert!(header.is_some_and(|header| at < header), "{run}");
            assert_eq!(run.stdout.matches(words).count(), 1, "{run}");
            let printed = lines[at..].iter().find_map(|line| Some(&line[line.find("kubectl ")?..])).unwrap();
            // It has the flags that lead to the cluster, too.
            let pasted = shlex::split(printed).unwrap();
            assert!(command.split(' ').all(|word| pasted.iter().any(|other| other == word)), "{run}");
            let pasted: Vec<&str> = pasted[1..].iter().map(String::as_str).collect();
            // The only scheduler of this control plane elects no leader.
            if !command.ends_with("kube-scheduler") {
                cluster.kubectl(&pasted);
            }
        }
    };
    told_above_every_table(
        "quota none of namespace q refuses pods of 3 DaemonSets",
        "kubectl describe resourcequota -n q none",
    );

    cluster.stop_part(Part::Scheduler);
    cluster.create(&daemon_set("first"));
    cluster.create(&daemon_set("second"));
    told_above_every_table(
        "scheduler \"default-scheduler\" has not tried to schedule new pods of 2 DaemonSets",
        "kubectl get lease -o yaml -n kube-system kube-scheduler",
    );

    cluster.stop_part(Part::ControllerManager);
    told_above_every_table(
        "is created or replaced by kube-controller-manager, which has not renewed its lease for ",
        "kubectl get lease -n kube-system kube-controller-manager",
    );
}

/// Returns the commands that a run prints, as they are to be pasted.
fn printed(run: &Run) -> Vec<String> {
    let text = format!("{}\n{}", run.stdout, run.stderr).replace("\\\n", " ");
    text.lines().filter_map(|line| Some(line[line.find("kubectl ")?..].to_owned())).collect()
}

/// Whatever is printed is pasted, for as long as nothing is scheduled.
#[test]
fn no_advice_feeds_an_outage_of_the_scheduler() {
    const NODES: i64 = 6;
    let cluster = ControlPlane::start(Options::whole());
    (0..NODES).for_each(|number| cluster.create(&node(&format!("n{number}"))));
    cluster.create(&daemon_set("agent"));
    let available = || cluster.get(&["ds", "agent"])["status"]["numberAvailable"].as_i64().unwrap_or(0);
    cluster.wait_until("the pods are available", || (available() == NODES).then_some(()));

    cluster.stop_part(Part::Scheduler);
    cluster.kubectl(&["set", "image", "daemonset", "agent", "agent=agent:2"]);
    let blocked = cluster.wait_until("the rollout is blocked", || {
        let status = run_on(&cluster, &["status", "agent"]);
        status.says("is blocked").then_some(status)
    });
    say(&format!("{blocked}"));
    blocked.must_say("SchedulerSilent");
    let coverage = run_on(&cluster, &["coverage", "agent"]);
    let mut commands = [printed(&blocked), printed(&coverage)].concat();
    assert!(!commands.iter().any(|command| command.contains("max-unavailable")), "{commands:?}");
    // Nor can the budget be raised for the same cause.
    run_on(&cluster, &["set", "agent", "--max-unavailable=2"]).expect(1).must_say("worse");
    assert_eq!(available(), NODES - 1);

    commands.dedup();
    for command in &commands {
        let words = shlex::split(command).unwrap();
        match &words[1] {
            word if word == "ds" => drop(run(&cluster.kubeconfig(), &words[2..])),
            _ => drop(cluster.try_kubectl(&words[1..].iter().map(String::as_str).collect::<Vec<_>>(), None)),
        }
        // The controller acts within a second.
        std::thread::sleep(std::time::Duration::from_secs(2));
        assert!(available() >= NODES - 1, "{command}: {} of {commands:?}", available());
    }
    cluster.start_part(Part::Scheduler);
    cluster.wait_until("the pods are available again", || (available() == NODES).then_some(()));
}
