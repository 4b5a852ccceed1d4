//! Causes that explain the problems of several DaemonSets at once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::slice;

use jiff::Timestamp;

use super::options::Options;
use super::verdict::finding::describe;
use super::verdict::node_removal::stuck;
use crate::facts::Facts;
use crate::facts::index::STARTUP;
use crate::model::daemon_set::DaemonSet;
use crate::model::pod::Pod;
use crate::report::coverage::{DaemonSetCoverage, ReasonGroup};
use crate::report::fix::Fix;
use crate::report::incident::{Incident, IncidentCause, Refuser};
use crate::report::reason::{Class, ReasonCode};

/// Advice for nodes that need different fixes.
const SEVERAL: &str = "see what each of these nodes reports";

/// The most nodes that are described.
const DESCRIBED: usize = 3;

/// The fewest DaemonSets that a cause must affect.
const LEAST_DAEMON_SETS: usize = 2;

/// Collects the causes of DaemonSets' problems, one DaemonSet after the other.
#[derive(Debug, Default)]
pub(crate) struct Incidents {
    found: BTreeMap<IncidentCause, Found>,
    daemon_sets: usize,
}

#[derive(Debug)]
struct Found {
    since: Option<Timestamp>,
    nodes: BTreeSet<String>,
    daemon_sets: BTreeSet<String>,
    /// `None` once it is unknown for one of them.
    in_rollout: Option<BTreeSet<String>>,
    fix: Fix,
}

impl Incidents {
    /// Adds the causes of one DaemonSet, as far as they affect the selected nodes; `None` means that it is unknown
    /// whether it is in a rollout.
    pub(crate) fn add(
        &mut self,
        facts: &Facts<'_>,
        coverage: &DaemonSetCoverage,
        options: &Options,
        in_rollout: Option<bool>,
    ) {
        let mut add = |cause: IncidentCause, since: Option<Timestamp>, nodes: &[String], fix: &Fix| {
            let new = || Found {
                since: None,
                nodes: BTreeSet::new(),
                daemon_sets: BTreeSet::new(),
                in_rollout: Some(BTreeSet::new()),
                fix: fix.clone(),
            };
            use IncidentCause as C;
            let is_of_nodes = matches!(
                cause,
                C::NodesDown | C::NetworkUnavailable | C::NodeRemovalStuck | C::NodesUnlikeOthers { .. }
            );
            let node = if let C::NothingReady { node } = &cause { Some(node.clone()) } else { None };
            let found = self.found.entry(cause).or_insert_with(new);
            let name = format!("{}/{}", coverage.namespace, coverage.name);
            found.since = found.since.into_iter().chain(since).min();
            found.nodes.extend(nodes.iter().cloned());
            found.in_rollout = found.in_rollout.take().zip(in_rollout).map(|(mut names, is_one)| {
                names.extend(is_one.then(|| name.clone()));
                names
            });
            if let Some(node) = node.filter(|_| found.fix != *fix) {
                let alike = found.fix.advice == fix.advice;
                found.fix = all_fail(&node);
                if alike {
                    found.fix.advice.clone_from(&fix.advice);
                }
            }
            if is_of_nodes && found.fix.advice != fix.advice {
                // The report of one node does not help with the others.
                found.fix.advice = SEVERAL.to_owned();
            }
            found.daemon_sets.insert(name);
        };
        self.daemon_sets += 1;
        if let Some(unlike) = coverage.lost_pods.as_ref().and_then(|lost| lost.unlike.as_ref()) {
            let fix = Fix::new(
                "if that is not intended, see what excludes such a node",
                describe(&unlike.nodes.iter().take(1).collect::<Vec<_>>()),
            );
            add(IncidentCause::NodesUnlikeOthers { by: unlike.by.clone() }, None, &unlike.nodes, &fix);
        }
        if let Some(since) = facts.controller_silent_since() {
            add(IncidentCause::ControllerSilent, Some(since), &[], &facts.controller.check());
        }
        for group in coverage.problems.iter().chain(coverage.excluded_by_down_nodes()) {
            let Some(cause) = cause(facts.daemon_set, group) else { continue };
            let mut since = None;
            if group.code == ReasonCode::SchedulerSilent {
                since = oldest_waiting_pod(facts, group);
                // A scheduler may take a moment.
                if since.is_none_or(|since| facts.seconds_since(since) < STARTUP) {
                    continue;
                }
            }
            add(cause, since, &group.nodes, &group.fix);
        }
        // Pods that tolerate it are available, so nothing else reveals the problem with the node.
        for (node, pods) in facts.nodes() {
            let Some(node) = node.filter(|node| pods.should_run() && node.is_ready() && options.selects(node)) else {
                continue;
            };
            if let Some(finding) = stuck(facts.index, node) {
                add(IncidentCause::NodeRemovalStuck, None, slice::from_ref(&node.metadata.name), &finding.fix());
            }
        }
        let failing = coverage.problems.iter().filter(|group| group.code.class() == Class::Revision);
        // What works nowhere does not tell one node from another.
        let nodes: BTreeSet<&String> = failing.clone().flat_map(|group| &group.nodes).collect();
        let failing = failing.filter(|_| nodes.len() == 1 || coverage.counts.available != Some(0));
        for (group, name) in failing.flat_map(|group| group.nodes.iter().map(move |node| (group, node))) {
            if facts.index.node(name).is_some_and(|node| node.is_ready() && nothing_is_ready(facts, name)) {
                // What they say in unison, such as a registry that limits pulls, says more.
                let says_why = matches!(group.code, ReasonCode::ImagePullFailed | ReasonCode::SandboxFailed);
                let fix = if says_why { group.fix.clone() } else { all_fail(name) };
                add(IncidentCause::NothingReady { node: name.clone() }, None, slice::from_ref(name), &fix);
            }
        }
    }

    /// Returns the causes that several DaemonSets share, those of the most DaemonSets first. That the controller is down
    /// concerns all of them, whether others were asked about or not.
    pub(crate) fn finish(self) -> Vec<Incident> {
        let most = self.daemon_sets / 2 + 1;
        let is_common = |(cause, found): &(IncidentCause, Found)| {
            let least = if cause.may_be_intended() { LEAST_DAEMON_SETS.max(most) } else { LEAST_DAEMON_SETS };
            *cause == IncidentCause::ControllerSilent || found.daemon_sets.len() >= least
        };
        let incident = |(cause, mut found): (IncidentCause, Found)| {
            // The advice for the first node applies to all of them.
            if let (2..=DESCRIBED, Some(command)) = (found.nodes.len(), &mut found.fix.command)
                && found.nodes.iter().any(|node| *command == describe(&[&node.to_owned()]))
            {
                *command = describe(&found.nodes.iter().collect::<Vec<_>>());
            }
            Incident {
                cause,
                since: found.since,
                nodes: found.nodes.into_iter().collect(),
                daemon_sets: found.daemon_sets.into_iter().collect(),
                in_rollout: found.in_rollout.map(|names| names.into_iter().collect()),
                fix: found.fix,
            }
        };
        let mut incidents: Vec<Incident> = self.found.into_iter().filter(is_common).map(incident).collect();
        incidents.sort_by_key(|incident| (incident.cause.may_be_intended(), Reverse(incident.daemon_sets.len())));
        incidents
    }
}

/// Returns the advice for a node on which pods fail in different ways.
fn all_fail(node: &str) -> Fix {
    Fix::new(
        "check what all pods of the node depend on, such as its runtime and network",
        describe(&[&node.to_owned()]),
    )
}

/// Returns whether all pods on a node report that they are not ready, which several DaemonSets share: it is no evidence against the node
/// as `was_broken` in `rollout/situation/fault.rs` demands it, of several other pods and for some time. For other
/// controllers' pods, the condition is kept only then.
fn nothing_is_ready(facts: &Facts<'_>, node: &str) -> bool {
    let pods = facts.index.bound_to(node).into_iter();
    let mut pods = pods.filter(|pod| !pod.is_terminal() && !pod.metadata.is_terminating()).peekable();
    let is_unready = |pod: &Pod| pod.condition("Ready").is_some_and(|ready| ready.status != "True");
    facts.index.snapshot.knows_all_pods_on(node) && pods.peek().is_some() && pods.all(is_unready)
}

/// Returns the cause that nodes with a reason may share with those of other DaemonSets.
fn cause(daemon_set: &DaemonSet, group: &ReasonGroup) -> Option<IncidentCause> {
    if let Some(refused_by) = &group.refused_by {
        let is_of_namespace =
            matches!(refused_by, Refuser::Quota(_) | Refuser::PodSecurity(_) | Refuser::LimitRange(_));
        let namespace = is_of_namespace.then(|| daemon_set.metadata.namespace.clone());
        return Some(IncidentCause::PodsRefused { refused_by: refused_by.clone(), namespace });
    }
    match group.code {
        ReasonCode::NodeUnreachable | ReasonCode::NodeNotReadyTaint => Some(IncidentCause::NodesDown),
        ReasonCode::NetworkUnavailable => Some(IncidentCause::NetworkUnavailable),
        ReasonCode::NodeRemovalStuck => Some(IncidentCause::NodeRemovalStuck),
        ReasonCode::SchedulerSilent => {
            let scheduler = daemon_set.spec.template.spec.scheduler_name.clone();
            Some(IncidentCause::SchedulerSilent { scheduler })
        }
        _ => None,
    }
}

/// Returns since when the oldest pending pod for the nodes of a group has been waiting to be scheduled.
fn oldest_waiting_pod(facts: &Facts<'_>, group: &ReasonGroup) -> Option<Timestamp> {
    let nodes: BTreeSet<&str> = group.nodes.iter().map(String::as_str).collect();
    let pods = facts.index.pods_of(facts.daemon_set).filter(|(node, _)| nodes.contains(node)).map(|(_, pod)| pod);
    let waiting = pods.filter(|pod| pod.waits_for_node());
    waiting.filter_map(|pod| pod.metadata.creation_timestamp.get()).min()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use crate::coverage::options::Options;
    use crate::coverage::test_support::{World, at, world};
    use crate::coverage::walk::coverage;
    use crate::model::controller_revision::ControllerRevision;
    use crate::model::daemon_set::DaemonSet;
    use crate::model::metadata::ObjectMeta;
    use crate::model::pod::Pod;
    use crate::model::snapshot::Snapshot;
    use crate::report::incident::{Incident, IncidentCause, Refuser};

    /// Returns the incidents in a world whose DaemonSet `other` differs from `agent` only in name and namespace.
    fn incidents(world: World, namespace: &str) -> Vec<Incident> {
        coverage(&of_two(world, namespace), &Options::default()).incidents
    }

    /// Adds the DaemonSet `other`, which differs from `agent` only in name and namespace.
    fn of_two(world: World, namespace: &str) -> Snapshot {
        let mut snapshot = world.finish();
        let mut object = snapshot.daemon_sets[0].object.clone();
        for (field, value) in [("name", "other"), ("uid", "other-uid"), ("namespace", namespace)] {
            object["metadata"][field] = json!(value);
        }
        snapshot.daemon_sets.push(DaemonSet::from_object(object).unwrap());
        let of_other = json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "other",
            "uid": "other-uid", "controller": true}]});
        let of_other: ObjectMeta = from_value(of_other).unwrap();
        let copy = |pod: &Pod| {
            let mut pod = pod.clone();
            for text in [&mut pod.metadata.name, &mut pod.metadata.uid] {
                text.push_str("-other");
            }
            pod.metadata.owner_references = of_other.owner_references.clone();
            pod
        };
        let revisions: Vec<ControllerRevision> = snapshot
            .controller_revisions
            .iter()
            .cloned()
            .map(|mut revision| {
                revision.metadata.name.push_str("-other");
                revision.metadata.owner_references = of_other.owner_references.clone();
                revision
            })
            .collect();
        snapshot.controller_revisions.extend(revisions);
        let pods: Vec<Pod> = snapshot.pods.iter().map(copy).collect();
        snapshot.pods.extend(pods);
        let about = |event: &mut crate::model::event::Event| {
            event.metadata.name = format!("{}-other", event.metadata.name);
            event.metadata.namespace = namespace.to_owned();
            event.involved_object.namespace = namespace.to_owned();
            event.involved_object.name = "other".to_owned();
            event.involved_object.uid = "other-uid".to_owned();
        };
        let mut events = snapshot.events.clone();
        events.iter_mut().for_each(about);
        snapshot.events.extend(events);
        snapshot
    }

    fn refused(message: &str, namespace: &str) -> Vec<IncidentCause> {
        let world = world().node("a", json!({})).event("DaemonSet", "agent", "FailedCreate", message, "11:59:00");
        incidents(world, namespace).into_iter().map(|incident| incident.cause).collect()
    }

    #[test]
    fn what_refuses_pods_of_several_daemon_sets_is_told_once() {
        let quota = r#"Error creating: pods "agent-" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=3, limited: pods=3"#;
        let refused_by = Refuser::Quota("compute".to_owned());
        let cause = IncidentCause::PodsRefused { refused_by, namespace: Some("default".to_owned()) };
        assert_eq!(refused(quota, "default"), [cause]);
        // A quota in another namespace is a different one.
        assert_eq!(refused(quota, "shop"), []);
        let webhook = r#"Error creating: admission webhook "policy.example.com" denied the request: no"#;
        let refused_by = Refuser::Webhook("policy.example.com".to_owned());
        assert_eq!(refused(webhook, "shop"), [IncidentCause::PodsRefused { refused_by, namespace: None }]);
        // A problem that must be fixed in each template is not an incident.
        assert_eq!(refused("Error creating: Pod is invalid: spec.containers: Required value", "default"), []);
    }

    #[test]
    fn that_the_controller_is_down_concerns_a_single_daemon_set_and_a_single_node() {
        let lease = json!({"metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
            "spec": {"renewTime": at("11:48:00"), "leaseDurationSeconds": 15}});
        let mut snapshot = world().node("a", json!({})).finish();
        snapshot.leases.push(from_value(lease).unwrap());
        for node in [None, Some("a".to_owned())] {
            let incidents = coverage(&snapshot, &Options { node, ..Options::default() }).incidents;
            let causes: Vec<_> = incidents.into_iter().map(|incident| incident.cause).collect();
            assert_eq!(causes, [IncidentCause::ControllerSilent]);
        }
    }

    #[test]
    fn a_refusal_that_may_be_over_is_no_incident() {
        let quota = r#"Error creating: pods "agent-" is forbidden: exceeded quota: compute"#;
        let of = |created: &str| {
            let created = json!({"metadata": {"creationTimestamp": at(created)}});
            let world = world().node("a", json!({})).node("b", json!({})).pod("agent-a", "a", created);
            let world = world.event("DaemonSet", "agent", "FailedCreate", quota, "11:40:00");
            incidents(world.event("DaemonSet", "agent", "SuccessfulCreate", "Created pod", "11:50:00"), "default").len()
        };
        assert_eq!(of("11:50:00"), 0);
    }

    #[test]
    fn nodes_that_are_down_are_told_once_with_the_daemon_sets_that_are_being_rolled_out() {
        let half_updated = {
            let down = json!({"status": {"conditions": [
                {"type": "Ready", "status": "Unknown", "lastTransitionTime": at("11:50:00")}]}});
            let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
            let old =
                json!({"metadata": {"labels": {"controller-revision-hash": "old", "pod-template-generation": "1"}}});
            let world = world().node("a", down.clone()).node("b", down).node("c", json!({}));
            world.pod("agent-a", "a", not_ready.clone()).pod("agent-b", "b", not_ready).pod("agent-c", "c", old)
        };
        let found = incidents(half_updated, "default");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].cause, IncidentCause::NodesDown);
        assert_eq!(found[0].nodes, ["a", "b"]);
        assert_eq!(found[0].daemon_sets, ["default/agent", "default/other"]);
        // The verdicts on the rollouts are decided elsewhere.
        assert_eq!(found[0].in_rollout, None);
    }

    #[test]
    fn a_node_that_is_down_affects_those_that_have_no_pod_there_too() {
        let conditions = json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": at("11:50:00")}]);
        let taints = json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]);
        let down = json!({"status": {"conditions": conditions}, "spec": {"taints": taints}});
        let found = incidents(world().node("a", down).node("b", json!({})).pod("agent-b", "b", json!({})), "default");
        let told: Vec<_> = found.iter().map(|one| (&one.cause, one.daemon_sets.len(), one.nodes.join(","))).collect();
        assert_eq!(told, [(&IncidentCause::NodesDown, 2, "a".to_owned())]);
    }

    #[test]
    fn a_taint_that_keeps_most_daemon_sets_off_is_told_once_and_last() {
        let tainted = json!({"spec": {"taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]}});
        let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let mut world = world().node("t", tainted);
        for name in ["a", "b", "c"] {
            world = world.node(name, json!({})).pod(&format!("agent-{name}"), name, json!({}));
        }
        let world = world.node("d", json!({})).unready_pod("agent-d", "d", crashes, json!({}));
        let snapshot = of_two(world, "default");
        let report = coverage(&snapshot, &Options::default());
        let told: Vec<_> = report.incidents.iter().map(|one| (&one.cause, one.nodes.join(","))).collect();
        let by = vec!["taint dedicated=gpu:NoSchedule".to_owned()];
        let expected = [
            (&IncidentCause::NothingReady { node: "d".to_owned() }, "d".to_owned()),
            (&IncidentCause::NodesUnlikeOthers { by }, "t".to_owned()),
        ];
        assert_eq!(told, expected);
        assert!(report.daemon_sets.iter().all(|it| it.lost_pods.is_none()));
        // It is not told of a DaemonSet that is alone.
        let mut alone = snapshot;
        alone.daemon_sets.truncate(1);
        let report = coverage(&alone, &Options::default());
        assert!(report.daemon_sets[0].lost_pods.is_some());
    }

    #[test]
    fn a_node_on_which_nothing_is_ready_is_named_once() {
        let found = |is_ready: bool| {
            let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
            let world = world().node("a", json!({})).unready_pod("agent-a", "a", crashes, json!({}));
            let ready = json!([{"type": "Ready", "status": if is_ready { "True" } else { "False" }}]);
            let world = world.other_pod("app", "a", json!({"status": {"phase": "Running", "conditions": ready}}));
            incidents(world, "default").into_iter().map(|one| (one.cause, one.daemon_sets.len())).collect::<Vec<_>>()
        };
        assert_eq!(found(false), [(IncidentCause::NothingReady { node: "a".to_owned() }, 2)]);
        assert_eq!(found(true), []);
    }

    #[test]
    fn daemon_sets_that_work_nowhere_are_not_the_fault_of_each_node() {
        let found = |c_is_ready: bool| {
            let crashes = || json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
            let mut world = world().node("c", json!({}));
            if c_is_ready {
                world = world.pod("agent-c", "c", json!({}));
            }
            for node in ["a", "b"] {
                let name = format!("agent-{node}");
                world = world.node(node, json!({})).unready_pod(&name, node, crashes(), json!({}));
            }
            incidents(world, "default").len()
        };
        assert_eq!((found(true), found(false)), (2, 0));
    }

    #[test]
    fn a_scheduler_is_silent_only_about_pods_that_it_has_had_time_for() {
        let of = |created: &str| {
            let created = json!({"metadata": {"creationTimestamp": at(created)}});
            let tried = json!({"metadata": {"creationTimestamp": at("08:00:00")}});
            let world = world().node("a", json!({})).node("b", json!({})).pending_pod("agent-a", "a", "", created);
            let world = world.pending_pod("agent-b", "b", "0/2 nodes are available: 2 Insufficient cpu.", tried);
            let found = incidents(world, "default");
            let silent = |one: &&Incident| matches!(one.cause, IncidentCause::SchedulerSilent { .. });
            found.iter().find(silent).map(|one| one.since.map(|since| since.to_string()))
        };
        assert_eq!(of("11:59:58"), None);
        assert_eq!(of("11:58:00"), Some(Some(at("11:58:00"))));
    }

    #[test]
    fn a_removal_that_is_stuck_is_told_although_the_pods_there_are_available() {
        let told = |metadata: Value, taints: Value| {
            let tolerations = json!({"spec": {"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}}});
            let world = world()
                .daemon_set(tolerations)
                .node("n", json!({"metadata": metadata, "spec": {"taints": taints}}))
                .pod("agent-n", "n", json!({}));
            let incidents = incidents(world, "default");
            incidents.first().map(|found| {
                assert_eq!((found.cause.clone(), found.nodes.len()), (IncidentCause::NodeRemovalStuck, 1));
                (found.daemon_sets.len(), found.fix.advice.clone())
            })
        };
        let deleted = |time: &str| json!({"deletionTimestamp": at(time), "finalizers": ["example.com/storage"]});
        let disrupted =
            |time: &str| json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule", "timeAdded": at(time)}]);
        let finalizers = "the Node object is being deleted: check the controllers of its finalizers".to_owned();
        assert_eq!(told(deleted("11:30:00"), json!([])), Some((2, finalizers)));
        assert_eq!(told(deleted("11:50:00"), json!([])), None);
        let (daemon_sets, advice) = told(json!({}), disrupted("11:30:00")).unwrap();
        assert!(daemon_sets == 2 && advice.starts_with("check what blocks the drain"), "{advice}");
        assert_eq!(told(json!({}), disrupted("11:50:00")), None);
    }

    #[test]
    fn a_controller_that_does_not_act_concerns_every_daemon_set() {
        let mut world = world().node("a", json!({})).pod("agent-a", "a", json!({}));
        let lease = json!({"metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
            "spec": {"renewTime": at("11:48:00"), "leaseDurationSeconds": 15}});
        world.snapshot.leases.push(from_value(lease).unwrap());
        let found = incidents(world, "default");
        assert_eq!(found[0].cause, IncidentCause::ControllerSilent);
        assert_eq!(found[0].daemon_sets.len(), 2);
        assert_eq!(found[0].since.map(|since| since.to_string()), Some(at("11:48:00").to_string()));
    }
}
