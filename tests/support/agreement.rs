//! Compares what `coverage` reports with what the control plane did.
//!
//! Nothing here uses the library's model or rules: pods, nodes and DaemonSets are read as plain JSON, and the expected
//! state of a node is derived independently, so that an error in the library cannot hide in the test.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::expectations::{Expectation, Nodes};
use super::objects::{by_name, condition, owner};

/// The objects that the control plane left behind.
#[derive(Debug, Clone, PartialEq)]
pub struct World {
    nodes: BTreeSet<String>,
    daemon_sets: BTreeMap<String, Value>,
    /// Those of which the controller says that it cannot make a pod, or of which it makes none any more.
    without_new_pods: BTreeSet<String>,
    /// By DaemonSet and node, in the order in which the controller looks at them.
    pods: BTreeMap<(String, String), Vec<Value>>,
}

impl World {
    /// Sorts out the items of a `v1.List`; kinds that do not matter are passed over.
    pub fn new(items: &[Value]) -> Self {
        let of_kind = |kind: &'static str| items.iter().filter(move |item| item["kind"] == kind).cloned();
        let nodes = of_kind("Node").map(|node| text(&node["metadata"]["name"])).collect();
        let mut pods: BTreeMap<_, Vec<Value>> = BTreeMap::new();
        for pod in of_kind("Pod") {
            if let (Some(owner), Some(node)) = (owner(&pod), target(&pod)) {
                pods.entry((owner, node)).or_default().push(pod);
            }
        }
        for pods in pods.values_mut() {
            pods.sort_by_key(|pod| {
                let metadata = &pod["metadata"];
                (Reverse(is_bound(pod)), text(&metadata["creationTimestamp"]), text(&metadata["name"]))
            });
        }
        let daemon_sets = by_name(of_kind("DaemonSet").collect());
        let refused = of_kind("Event").filter(|event| event["reason"] == "FailedCreate").map(|event| {
            let object = &event["involvedObject"];
            format!("{}/{}", text(&object["namespace"]), text(&object["name"]))
        });
        let deleted = daemon_sets.iter().filter(|(_, one)| is_terminating(one)).map(|(name, _)| name.clone());
        let without_new_pods = refused.chain(deleted).collect();
        World { nodes, daemon_sets, without_new_pods, pods }
    }

    /// Returns what changes whenever an object that matters does.
    pub fn versions(&self) -> BTreeSet<String> {
        self.daemon_sets
            .values()
            .chain(self.pods.values().flatten())
            .map(|object| format!("{} {}", object["metadata"]["uid"], object["metadata"]["resourceVersion"]))
            .collect()
    }

    /// Returns the nodes that pods of a DaemonSet are on or wait for, gone ones among them.
    fn targets(&self, daemon_set: &str) -> BTreeSet<String> {
        self.pods.keys().filter(|(owner, _)| owner == daemon_set).map(|(_, node)| node.clone()).collect()
    }

    fn pods(&self, daemon_set: &str, node: &str) -> &[Value] {
        self.pods.get(&(daemon_set.to_owned(), node.to_owned())).map(Vec::as_slice).unwrap_or_default()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the node that a pod is on or waits for.
fn target(pod: &Value) -> Option<String> {
    if let Some(node) = pod["spec"]["nodeName"].as_str() {
        return Some(node.to_owned());
    }
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let field = &required["nodeSelectorTerms"][0]["matchFields"][0];
    (field["key"] == "metadata.name").then(|| text(&field["values"][0]))
}

fn is_bound(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_string()
}

fn is_terminating(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}

/// Returns the states that a node may be reported in; two where the pod's own status leaves it open.
fn possible_states(node: &Value, daemon_set: &Value, pods: &[Value]) -> &'static [&'static str] {
    match (node["shouldRun"] == true, node["shouldContinueRunning"] == true, pods.is_empty()) {
        (true, _, true) => return &["Missing"],
        (false, _, true) => return &["NotEligible"],
        (false, true, false) => return &["Misscheduled"],
        (false, false, false) => return &["ToBeDeleted"],
        (true, _, false) => {}
    }
    let Some(pod) = pods.iter().find(|pod| !is_terminating(pod)) else {
        // The controller counts a pod that is on its way out as available for as long as it is ready.
        let is_ready = condition(&pods[0], "Ready")["status"] == "True";
        return if is_ready { &["Terminating", "Available"] } else { &["Terminating"] };
    };
    if ["Failed", "Succeeded"].contains(&pod["status"]["phase"].as_str().unwrap_or_default()) {
        return &["Failed"];
    }
    if !is_bound(pod) {
        return &["Pending"];
    }
    if condition(pod, "Ready")["status"] == "True" {
        // The test's DaemonSets have a day of it, or none.
        return if daemon_set["spec"]["minReadySeconds"].as_i64().unwrap_or(0) > 0 {
            &["Ready"]
        } else {
            &["Available"]
        };
    }
    &["Starting", "NotReady"]
}

/// Returns where a report and the control plane disagree, a sentence each; none is what one wants.
pub fn disagreements(report: &Value, world: &World) -> Vec<String> {
    let mut wrong = Vec::new();
    let reported = reported(report);
    for (name, daemon_set) in &world.daemon_sets {
        let Some(coverage) = reported.get(name) else {
            wrong.push(format!("{name} is not in the report"));
            continue;
        };
        let nodes = coverage["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let names: BTreeSet<_> = nodes.iter().map(|node| text(&node["name"])).collect();
        let there: BTreeSet<_> = world.nodes.union(&world.targets(name)).cloned().collect();
        if names != there {
            wrong.push(format!("{name} is reported for the nodes {names:?}, and it has to do with {there:?}"));
        }
        for node in nodes {
            let node_name = text(&node["name"]);
            if node["state"] == "Missing" && !world.without_new_pods.contains(name) {
                wrong.push(format!("{name} on {node_name}: should run, and the controller makes no pod"));
            }
            for fault in node_disagreements(node, daemon_set, world.pods(name, &node_name)) {
                wrong.push(format!("{name} on {node_name}: {fault}"));
            }
        }
        let (nodes, gone): (Vec<_>, Vec<_>) =
            nodes.iter().cloned().partition(|node| world.nodes.contains(&text(&node["name"])));
        wrong.extend(count_disagreements(coverage, &nodes).into_iter().map(|fault| format!("{name}: {fault}")));
        for node in gone {
            if node["shouldRun"] == true || !codes(&node).contains(&"OrphanedTarget".to_owned()) {
                wrong.push(format!("{name} on {}: the node is gone, and the report says {node}", node["name"]));
            }
        }
    }
    if reported.len() != world.daemon_sets.len() {
        wrong.push(format!("{} DaemonSets are reported, and {} are there", reported.len(), world.daemon_sets.len()));
    }
    wrong
}

fn reported(report: &Value) -> BTreeMap<String, &Value> {
    let daemon_sets = report["daemonSets"].as_array().expect("a CoverageReport");
    daemon_sets.iter().map(|one| (format!("{}/{}", text(&one["namespace"]), text(&one["name"])), one)).collect()
}

fn node_disagreements(node: &Value, daemon_set: &Value, pods: &[Value]) -> Vec<String> {
    let mut wrong = Vec::new();
    let state = text(&node["state"]);
    let possible = possible_states(node, daemon_set, pods);
    if !possible.contains(&state.as_str()) {
        wrong.push(format!("the state is {state}, and by its pods it is {possible:?}"));
    }
    let reported: Vec<_> = node["pods"].as_array().into_iter().flatten().map(|pod| text(&pod["name"])).collect();
    let there: Vec<_> = pods.iter().map(|pod| text(&pod["metadata"]["name"])).collect();
    if reported != there {
        wrong.push(format!("reported are the pods {reported:?}, and there are {there:?}"));
    }
    for (pod, reported) in pods.iter().zip(node["pods"].as_array().into_iter().flatten()) {
        let hash = text(&pod["metadata"]["labels"]["controller-revision-hash"]);
        let facts = [
            ("revision", Value::from(hash)),
            ("phase", pod["status"]["phase"].clone()),
            ("bound", Value::from(is_bound(pod))),
            ("ready", Value::from(condition(pod, "Ready")["status"] == "True")),
            ("terminating", Value::from(is_terminating(pod))),
        ];
        for (field, fact) in facts {
            if reported[field] != fact {
                wrong.push(format!(
                    "{field} of {} is {}, and was reported {}",
                    pod["metadata"]["name"], fact, reported[field]
                ));
            }
        }
    }
    let codes = codes(node);
    if state != "Available" && codes.is_empty() {
        wrong.push(format!("{state}, and no reason is given"));
    }
    for reason in node["reasons"].as_array().into_iter().flatten() {
        if text(&reason["message"]).is_empty() || text(&reason["fix"]["advice"]).is_empty() {
            wrong.push(format!("{} has no message or nothing to do about it", reason["code"]));
        }
    }
    if state == "Pending" {
        let said = text(&condition(&pods[0], "PodScheduled")["message"]);
        let plausible = codes_for_schedulers_words(&said);
        if !plausible.is_empty() && !codes.iter().any(|code| plausible.contains(&code.as_str())) {
            wrong.push(format!("the scheduler says “{said}”, and the reasons are {codes:?}"));
        }
    }
    wrong
}

fn codes(node: &Value) -> Vec<String> {
    node["reasons"].as_array().into_iter().flatten().map(|reason| text(&reason["code"])).collect()
}

/// Returns the codes that fit what the scheduler said of a pod; none where it says nothing.
fn codes_for_schedulers_words(words: &str) -> &'static [&'static str] {
    const MEANINGS: &[(&str, &[&str])] = &[
        ("Insufficient ", &["InsufficientResource", "NeverFits", "WaitingForPreemption"]),
        ("Too many pods", &["TooManyPods"]),
        ("free ports", &["HostPortConflict", "SurgeHostPortDeadlock"]),
        ("didn't match Pod's node affinity/selector", &["InjectedNodeSelector"]),
        ("ersistentVolumeClaim", &["VolumeUnsatisfiable"]),
        ("ersistentvolumeclaim", &["VolumeUnsatisfiable"]),
        ("PersistentVolume's node affinity", &["VolumeUnsatisfiable"]),
        ("volume node affinity conflict", &["VolumeUnsatisfiable"]),
        ("anti-affinity rules", &["PodAffinityBlocked"]),
        ("topology spread constraints", &["PodAffinityBlocked"]),
        ("cannot allocate all claims", &["DeviceClaimUnsatisfied"]),
        ("non-empty scheduling gates", &["SchedulingGated"]),
    ];
    MEANINGS.iter().find(|(phrase, _)| words.contains(phrase)).map(|(_, codes)| *codes).unwrap_or_default()
}

/// Checks the counts of a DaemonSet against its own nodes.
fn count_disagreements(coverage: &Value, nodes: &[Value]) -> Vec<String> {
    let count = |is: &dyn Fn(&Value) -> bool| nodes.iter().filter(|node| is(node)).count();
    let should_run = |node: &Value| node["shouldRun"] == true;
    let has_pods = |node: &Value| node["pods"].as_array().is_some_and(|pods| !pods.is_empty());
    let first = |node: &Value, field: &str| node["pods"][0][field] == true;
    let has_live = |node: &Value, updated: bool| {
        let pods = node["pods"].as_array().into_iter().flatten();
        pods.filter(|pod| pod["terminating"] == false).any(|pod| pod["updated"] == updated)
    };
    let counts = [
        ("nodesTotal", nodes.len()),
        ("eligible", count(&should_run)),
        ("notEligible", count(&|node| !should_run(node))),
        ("current", count(&|node| should_run(node) && has_pods(node))),
        ("missing", count(&|node| should_run(node) && !has_pods(node))),
        ("ready", count(&|node| should_run(node) && first(node, "ready"))),
        ("available", count(&|node| node["state"] == "Available")),
        ("updated", count(&|node| should_run(node) && has_live(node, true))),
        ("outdated", count(&|node| should_run(node) && has_live(node, false))),
        ("misscheduled", count(&|node| !should_run(node) && has_pods(node))),
    ];
    counts
        .into_iter()
        .filter(|(field, count)| coverage["counts"][field] != *count)
        .map(|(field, count)| format!("{field} is {}, and by the nodes it is {count}", coverage["counts"][field]))
        .collect()
}

/// Returns which expectations a report does not meet, a sentence each.
///
/// A trouble of eligible nodes has to come first on exactly the nodes that are expected; why a node
/// is not eligible may be the same on others too.
pub fn unmet<'a>(report: &Value, expectations: impl IntoIterator<Item = &'a Expectation>) -> Vec<String> {
    let mut wrong = Vec::new();
    let reported = reported(report);
    for Expectation { daemon_set, code, nodes: expected, .. } in expectations {
        let Some(coverage) = reported.get(*daemon_set) else {
            wrong.push(format!("{daemon_set} is not in the report"));
            continue;
        };
        let nodes = coverage["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let with_code: BTreeSet<_> = nodes
            .iter()
            .filter(|node| codes(node).first().is_some_and(|first| first == code.name()))
            .map(|node| text(&node["name"]))
            .collect();
        let met = match expected {
            Nodes::Number(number) => with_code.len() == *number,
            Nodes::Are(names) => {
                let names: BTreeSet<_> = names.iter().map(|name| (*name).to_owned()).collect();
                let others_are_not_eligible = with_code
                    .difference(&names)
                    .all(|other| nodes.iter().any(|node| node["name"] == **other && node["state"] == "NotEligible"));
                with_code.is_superset(&names) && others_are_not_eligible
            }
        };
        if !met {
            let actual: Vec<_> = nodes
                .iter()
                .filter(|node| node["state"] != "NotEligible" || with_code.contains(&text(&node["name"])))
                .map(|node| format!("{} {} {:?}", text(&node["name"]), text(&node["state"]), codes(node)))
                .collect();
            wrong.push(format!(
                "{daemon_set}: {code} expected on {expected:?}, and the report has\n    {}",
                actual.join("\n    ")
            ));
        }
    }
    wrong
}

/// Returns where counters recomputed by a report differ from the status of DaemonSets that the
/// controller has just synced.
pub fn status_disagreements(report: &Value, world: &World) -> Vec<String> {
    const FIELDS: [(&str, &str); 6] = [
        ("eligible", "desiredNumberScheduled"),
        ("current", "currentNumberScheduled"),
        ("ready", "numberReady"),
        ("available", "numberAvailable"),
        ("updated", "updatedNumberScheduled"),
        ("misscheduled", "numberMisscheduled"),
    ];
    let mut wrong = Vec::new();
    for (name, coverage) in reported(report) {
        let status = &world.daemon_sets[&name]["status"];
        for (count, field) in FIELDS {
            let said = status[field].as_i64().unwrap_or(0);
            let mut recomputed = coverage["counts"][count].as_i64();
            if count == "available" {
                // The controller also counts ready pods that are stuck terminating.
                let nodes = coverage["nodes"].as_array().into_iter().flatten();
                let stuck = nodes.filter(|node| node["state"] == "Terminating" && node["pods"][0]["ready"] == true);
                recomputed = recomputed.map(|available| available + i64::try_from(stuck.count()).unwrap());
            }
            if count == "updated" {
                // The controller looks at the first pod alone, even if it is terminating.
                let nodes = coverage["nodes"].as_array().into_iter().flatten();
                let first = nodes.filter(|node| node["shouldRun"] == true && node["pods"][0]["updated"] == true);
                recomputed = Some(i64::try_from(first.count()).unwrap());
            }
            if recomputed != Some(said) {
                wrong.push(format!("{name}: {count} is {recomputed:?}, and the controller's {field} is {said}"));
            }
        }
    }
    wrong
}

/// Returns where the controller, having just synced, left a pod where by a report none may stay.
/// Pods on nodes that are gone are not its business.
pub fn pods_left_behind(report: &Value, world: &World) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, coverage) in reported(report) {
        for node in coverage["nodes"].as_array().into_iter().flatten() {
            let stays = node["pods"].as_array().into_iter().flatten().any(|pod| pod["terminating"] == false);
            if node["shouldContinueRunning"] == false && stays && world.nodes.contains(&text(&node["name"])) {
                wrong.push(format!("{name} on {}: may not stay, and the controller leaves it", node["name"]));
            }
        }
    }
    wrong
}
