//! The rollouts in `changes`, compared with the actual times.

use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::cluster;
use super::program::run_on;
use super::workload::{Api, Workload, number};

#[test]
fn every_rollout_is_listed_with_its_number_what_it_changed_and_by_whom() {
    let cluster = cluster();
    let namespace = cluster.namespace();
    let create = |name| {
        let workload = Workload::create(cluster, Api::Apps, &namespace, name, &json!({}));
        workload.settle();
        workload
    };
    // Times have whole seconds.
    let wait = || sleep(Duration::from_millis(1100));
    let mut was: Vec<(&str, i64, &str)> = Vec::new();
    let agent = create("agent");
    was.push(("agent", 1, "(first)"));
    wait();
    let logs = create("logs");
    was.push(("logs", 1, "(first)"));
    for (workload, image, number, changed) in [
        (&agent, "agent:2", 2, "image agent 1 → 2"),
        (&agent, "agent:3", 3, "image agent 2 → 3"),
        (&logs, "agent:9", 2, "image agent 1 → 9"),
    ] {
        wait();
        workload.roll_out(&[image]);
        was.push((&workload.name, number, changed));
    }
    for (revision, number, changed) in [(1, 4, "image agent 3 → 1"), (3, 5, "image agent 1 → 3")] {
        wait();
        agent.run(&["undo", &format!("--to-revision={revision}")]).expect(0);
        agent.settle();
        was.push(("agent", number, changed));
    }
    assert_eq!(agent.revisions().iter().map(number).collect::<Vec<_>>(), [2, 4, 5]);
    wait();
    logs.run(&["restart"]).expect(0);
    logs.settle();
    was.push(("logs", 3, "restart"));

    let read =
        |more: &[&str]| run_on(&cluster.control_plane, &[&["changes", "-n", &namespace], more].concat()).expect(0);
    let report = read(&["-o", "json"]).json();
    let of = |name: &'static str| {
        let changes = report["changes"].as_array().unwrap().iter();
        changes.filter(move |change| change["kind"] == "DaemonSet" && (name.is_empty() || change["names"][0] == name))
    };
    let told: Vec<(&str, i64, &str)> = of("").rev().map(told).collect();
    assert_eq!(told, was, "{report}");
    let begins: Vec<&str> = of("").map(|change| change["at"].as_str().unwrap()).collect();
    assert!(begins.is_sorted_by(|later, earlier| later > earlier), "{begins:?}");
    // The last rollout of each was made by this program.
    for (name, same_as) in [("logs", Value::Null), ("agent", 3.into())] {
        let latest = of(name).next().unwrap();
        assert_eq!((&latest["by"], &latest["rollout"]["sameAs"]), (&"kubectl-ds".into(), &same_as), "{latest}");
    }
    let one = read(&["agent", "-o", "json"]).json();
    let of_one = one["changes"].as_array().unwrap().iter().filter(|change| change["kind"] == "DaemonSet");
    assert_eq!(of_one.count(), of("agent").count(), "{one}");

    // What was rolled out before a time is left out, though a slow machine takes seconds to ask.
    let since = begins[4].parse::<jiff::Timestamp>().unwrap();
    let ago = report["now"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().duration_since(since).as_secs();
    let latest = read(&["--since", &format!("{ago}s"), "-o", "json"]).json();
    let daemon_sets = latest["changes"].as_array().unwrap().iter().filter(|change| change["kind"] == "DaemonSet");
    assert!((1..=5).contains(&daemon_sets.count()), "{latest}");
    read(&[]).must_say("equivalent to revision 3");
}

/// Returns the name of the DaemonSet, the number, and what was changed.
fn told(change: &Value) -> (&str, i64, &str) {
    let name = change["names"][0].as_str().unwrap();
    match change["what"].as_str() {
        Some("Created") => (name, 1, "(first)"),
        _ => (name, change["rollout"]["revision"].as_i64().unwrap_or(-1), change["details"][0].as_str().unwrap_or("")),
    }
}
