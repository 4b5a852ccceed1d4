//! What has become worse for other DaemonSets on the nodes that a rollout has updated.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;

use crate::facts::Facts;
use crate::facts::index::Index;
use crate::model::daemon_set::DaemonSet;
use crate::model::hold::Hold;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::snapshot::Snapshot;
use crate::report::compare::{CompareReport, DaemonSetComparison};
use crate::report::history::DaemonSetName;
use crate::report::partition::{Gate, GateFailure};
use crate::report::reason::ReasonCode;
use crate::rollout::compare::{CompareOptions, compare};

/// What is worse, by DaemonSet and node.
pub(crate) type NewTrouble = BTreeMap<(String, String), Trouble>;

/// The namespace and the name of a DaemonSet, and a node.
type Place<'a> = (&'a str, &'a str, &'a str);

/// What is worse for a DaemonSet on a node.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    /// How the gate reports it.
    pub(crate) failure: GateFailure,
    /// Whether it may pass by itself.
    pub(crate) passing: bool,
}

/// Returns what is worse than before of all DaemonSets but one, on the nodes that it has updated. What was not read is no trouble, nor is
/// a node that is not ready, which a gate of its own judges, nor a DaemonSet that somebody has created or rolled out meanwhile, nor on a
/// node that has joined meanwhile what it had on others before, nor a pod whose deletion began before, nor what its revision has on nodes
/// that were not updated, too, or that has not worked anywhere.
///
/// If the rollout had begun before, what was broken already counts, too, unless it is known to be older than the rollout.
pub(crate) fn new_trouble(before: &Snapshot, after: &Snapshot, own: &DaemonSetName, updated: &[String]) -> NewTrouble {
    let ready = after.nodes.iter().filter(|node| node.is_ready()).map(|node| node.metadata.name.as_str());
    let ready: BTreeSet<&str> = ready.collect();
    let touched: BTreeSet<&str> = updated.iter().map(String::as_str).collect();
    let updated: BTreeSet<&str> = touched.intersection(&ready).copied().collect();
    let compared = |before: &Snapshot| compare(before, after, &CompareOptions::default());
    let report = compared(before);
    let all = LazyCell::new(|| compared(&Snapshot::empty(before.now)));
    let (index_before, index) = (LazyCell::new(|| Index::new(before)), LazyCell::new(|| Index::new(after)));
    let others = report.daemon_sets.iter().filter(|one| {
        let is_other = (&one.namespace, &one.name) != (&own.namespace, &own.name);
        is_other && one.status_before.is_some() && one.template_changes.is_empty()
    });
    let others: BTreeSet<(&str, &str)> = others.map(|one| (&*one.namespace, &*one.name)).collect();
    let mut trouble = NewTrouble::new();
    let existed: BTreeSet<&str> = before.nodes.iter().map(|node| node.metadata.name.as_str()).collect();
    let have_all_existed = updated.iter().all(|node| existed.contains(node));
    let broken = (!have_all_existed).then(|| compare(&Snapshot::empty(before.now), before, &CompareOptions::default()));
    let had_before = |one: &DaemonSetComparison, code| {
        let mut before = broken.iter().flat_map(|broken| &broken.daemon_sets);
        let before = before.find(|it| (&it.namespace, &it.name) == (&one.namespace, &one.name));
        before.map_or(0, |before| with(before, code).count())
    };
    let mut add = |report: &CompareReport, what: &str, since: &Since<'_>, counts: &dyn Fn(Place<'_>) -> bool| {
        let Since { saw_begin, existed, had } = since;
        for one in report.daemon_sets.iter().filter(|one| others.contains(&(&*one.namespace, &*one.name))) {
            let title = format!("{}/{}", one.namespace, one.name);
            let counts = |node: &str| counts((&one.namespace, &one.name, node));
            // A node that joined has what as many others had before.
            let mut known = BTreeMap::new();
            let mut is_known = |node: &str, code| {
                !existed.contains(node)
                    && *known.entry(code).or_insert_with(|| {
                        let had = had(one, code);
                        had > 0 && with(one, code).filter(|node| !existed.contains(node)).count() <= had
                    })
            };
            // A revision that has been ready nowhere since the rollout began is no evidence against this rollout, nor is one that fails in the same way on as large
            // a share of the nodes that were not updated.
            let of_revisions = LazyCell::new(|| OfRevisions::new(&index_before, &index, (&one.namespace, &one.name)));
            let mut excused = BTreeMap::new();
            let mut is_of_own_revision = |node: &str, code| {
                let Some(own) = of_revisions.by_node.get(node).map(|(_, hash)| *hash) else { return false };
                *excused.entry((code, own)).or_insert_with(|| {
                    let alike: BTreeSet<&str> = with(one, code).filter(|node| counts(node)).collect();
                    let count = |is_one: &dyn Fn(&str) -> bool| {
                        let of_own =
                            of_revisions.by_node.iter().filter(|(node, (_, hash))| *hash == own && is_one(node));
                        of_own
                            .fold((0, 0), |(fail, all), (node, _)| (fail + usize::from(alike.contains(node)), all + 1))
                    };
                    let (failing, updated) = count(&|node| updated.contains(node));
                    let (others_failing, others) = count(&|node| !touched.contains(node));
                    *saw_begin && !of_revisions.worked.contains(own)
                        || others_failing > 0 && others_failing * updated >= failing * others
                })
            };
            let setbacks = one.counted().flat_map(|setback| {
                let message = if setback.message.is_empty() { "no available pod" } else { &setback.message };
                setback.nodes.iter().map(move |node| (node, setback.code, setback.passing, message))
            });
            let restarting = one.restarting.iter().map(|node| (node, None, false, "its pod keeps restarting"));
            let on_updated = setbacks.chain(restarting).filter(|(node, code, ..)| {
                let is_one = updated.contains(&***node) && counts(node);
                is_one && !is_known(node, *code) && !is_of_own_revision(node, *code)
            });
            for (node, reason, passing, message) in on_updated {
                trouble.entry((title.clone(), node.clone())).or_insert_with(|| Trouble {
                    failure: GateFailure {
                        node: Some(node.clone()),
                        reason,
                        ..GateFailure::new(
                            Gate::OtherDaemonSets,
                            format!("DaemonSet {title} has a problem there that {what}: {message}"),
                        )
                    },
                    passing,
                });
            }
        }
    };
    let deleted = LazyCell::new(|| deleted_by(&index, before.now));
    let since = Since { saw_begin: true, existed: &existed, had: &had_before };
    add(&report, "it did not have before", &since, &|place| !deleted.contains(&place));
    let began = |snapshot: &Snapshot| Hold::in_force(snapshot.daemon_set(&own.namespace, &own.name)?)?.rollout_began();
    if let Some(began) = began(before).filter(|at| began(after) == Some(*at)) {
        let (older, unrelated) = (ready_or_older(&index, began), refused_before_or_changed_since(&index, began));
        let deleted = deleted_by(&index, began);
        let has_existed = |node: &&Node| node.metadata.creation_timestamp.get().is_none_or(|created| created < began);
        let existed = after.nodes.iter().filter(has_existed).map(|node| node.metadata.name.as_str()).collect();
        let had = |one: &DaemonSetComparison, code| {
            with(one, code).filter(|node| older.contains(&(&*one.namespace, &*one.name, *node))).count()
        };
        let since = Since { saw_begin: false, existed: &existed, had: &had };
        add(&all, "may be newer than the rollout", &since, &|(namespace, name, node)| {
            !older.contains(&(namespace, name, node))
                && !deleted.contains(&(namespace, name, node))
                && !unrelated.contains(&(namespace, name))
        });
    }
    trouble
}

/// What was before.
struct Since<'h> {
    /// Whether that is from before the rollout began.
    saw_begin: bool,
    /// The nodes that existed.
    existed: &'h BTreeSet<&'h str>,
    /// Returns on how many nodes a DaemonSet had a problem for a reason.
    had: &'h dyn Fn(&DaemonSetComparison, Option<ReasonCode>) -> usize,
}

/// Returns the nodes of a DaemonSet that are worse off for a reason, or whose pods keep restarting if that is not known.
fn with(one: &DaemonSetComparison, code: Option<ReasonCode>) -> impl Iterator<Item = &str> {
    let setbacks = one.counted().filter(move |setback| setback.code == code).flat_map(|setback| &setback.nodes);
    setbacks.chain(one.restarting.iter().filter(move |_| code.is_none())).map(String::as_str)
}

/// The revisions of the pods of a DaemonSet.
struct OfRevisions<'a> {
    /// The hash of a revision, and whether its pod is ready, by node: of two pods, that of the one that is not.
    by_node: BTreeMap<&'a str, (bool, &'a str)>,
    /// Those that have been ready anywhere.
    worked: BTreeSet<&'a str>,
}

impl<'a> OfRevisions<'a> {
    fn new(before: &Index<'a>, after: &Index<'a>, (namespace, name): (&str, &str)) -> Self {
        let pods = |index: &Index<'a>| -> Vec<(&'a str, &'a Pod)> {
            index.snapshot.daemon_set(namespace, name).map(|it| index.pods_of(it).collect()).unwrap_or_default()
        };
        let (was, now) = (pods(before), pods(after));
        let mut by_node = BTreeMap::new();
        for (node, pod) in &now {
            let one = (pod.is_ready(), pod.revision_hash());
            by_node.entry(*node).and_modify(|known| *known = one.min(*known)).or_insert(one);
        }
        let ready = was.iter().chain(&now).filter(|(_, pod)| pod.is_ready());
        OfRevisions { by_node, worked: ready.map(|(_, pod)| pod.revision_hash()).collect() }
    }
}

/// Returns where a pod is ready, or has not been ready since before a time, as the API server has it.
fn ready_or_older<'a>(index: &Index<'a>, time: Timestamp) -> HashSet<Place<'a>> {
    places(index, |pod| {
        // It is written in whole seconds.
        let since = pod.unready_since().or_else(|| pod.metadata.creation_timestamp.get());
        pod.is_ready() || since.is_some_and(|since| since.as_second() < time.as_second())
    })
}

/// Returns where the deletion of a pod began no later than in the second of a time.
fn deleted_by<'a>(index: &Index<'a>, time: Timestamp) -> HashSet<Place<'a>> {
    places(index, |pod| pod.metadata.deleted_at().is_some_and(|at| at.as_second() <= time.as_second()))
}

/// Returns the namespaces and names of DaemonSets, with the nodes where a pod of theirs is like this.
fn places<'a>(index: &Index<'a>, is_one: impl Fn(&Pod) -> bool) -> HashSet<Place<'a>> {
    let on_nodes = |daemon_set: &'a DaemonSet| {
        let pods = index.pods_of(daemon_set).filter(|(_, pod)| is_one(pod));
        pods.map(|(node, _)| (&*daemon_set.metadata.namespace, &*daemon_set.metadata.name, node)).collect::<Vec<_>>()
    };
    index.snapshot.daemon_sets.iter().flat_map(on_nodes).collect()
}

/// Returns the namespaces and names of DaemonSets whose pods have been refused since before a time, or that somebody has created or
/// rolled out since.
fn refused_before_or_changed_since<'a>(index: &Index<'a>, time: Timestamp) -> HashSet<(&'a str, &'a str)> {
    let is_unrelated = |daemon_set: &DaemonSet| {
        let created = daemon_set.metadata.creation_timestamp.get();
        let facts = Facts::new(index, daemon_set);
        let rolled_out = || facts.revisions.rollout_began_at(facts.revisions.current()?.object);
        created.is_some_and(|created| created >= time)
            || rolled_out().is_some_and(|rolled_out| rolled_out >= time)
            || facts.refused_since().is_some_and(|since| since < time)
    };
    let found = index.snapshot.daemon_sets.iter().filter(|daemon_set| is_unrelated(daemon_set));
    found.map(|daemon_set| (&*daemon_set.metadata.namespace, &*daemon_set.metadata.name)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{new_trouble, refused_before_or_changed_since};
    use crate::coverage::test_support::{at, world};
    use crate::facts::index::Index;
    use crate::model::daemon_set::DaemonSet;
    use crate::model::snapshot::Snapshot;
    use crate::report::history::DaemonSetName;

    fn nodes_in_trouble(before: &Snapshot, after: &Snapshot, updated: &[&str]) -> Vec<String> {
        let own = DaemonSetName { api_version: "apps/v1".into(), namespace: "default".into(), name: "own".into() };
        let updated: Vec<String> = updated.iter().map(|node| (*node).to_owned()).collect();
        new_trouble(before, after, &own, &updated).into_keys().map(|(_, node)| node).collect()
    }

    #[test]
    fn a_pod_whose_deletion_began_before_is_no_trouble_of_a_rollout() {
        let terminating = |deadline: &str, now: &str| {
            let metadata =
                json!({"deletionTimestamp": at(deadline), "deletionGracePeriodSeconds": 30, "finalizers": ["a/b"]});
            let world = world().node("a", json!({})).pod("agent-a", "a", json!({ "metadata": metadata }));
            Snapshot { now: at(now).parse().unwrap(), ..world.finish() }
        };
        let well = Snapshot {
            now: at("11:50:00").parse().unwrap(),
            ..world().node("a", json!({})).pod("agent-a", "a", json!({})).finish()
        };
        let before = terminating("11:50:20", "11:50:00");
        assert_eq!(nodes_in_trouble(&before, &terminating("11:50:20", "11:55:00"), &["a"]), [""; 0]);
        assert_eq!(nodes_in_trouble(&well, &terminating("11:51:20", "11:55:00"), &["a"]), ["a"]);
    }

    /// By node: the revision of the pod, and whether it is ready.
    fn with_pods(pods: &[(&str, bool)]) -> Snapshot {
        let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let world = world().revision_of_image("hash2", 2, "agent:1");
        let pods = pods.iter().enumerate();
        pods.fold(world, |world, (number, (hash, is_ready))| {
            let node = format!("n{number}");
            let (world, name) = (world.node(&node, json!({})), format!("agent-{node}-{hash}"));
            let labels = json!({"metadata": {"labels": {"controller-revision-hash": hash}}});
            match is_ready {
                true => world.pod(&name, &node, labels),
                false => world.unready_pod(&name, &node, crashes.clone(), labels),
            }
        })
        .finish()
    }

    #[test]
    fn what_the_rollout_of_another_daemon_set_breaks_is_no_trouble_of_this_one() {
        let of = with_pods;
        let (old, new, bad) = (("hash1", true), ("hash2", true), ("hash2", false));
        let trouble =
            |before: &[(&str, bool)], after: &[(&str, bool)]| nodes_in_trouble(&of(before), &of(after), &["n0"]);
        // It has not been ready anywhere.
        assert_eq!(trouble(&[old, old, old], &[bad, old, old]), [""; 0]);
        // It fails in the same way on all nodes that were not updated.
        assert_eq!(trouble(&[new, old, old], &[bad, bad, old]), [""; 0]);
        assert_eq!(trouble(&[new, new, new], &[bad, bad, bad]), [""; 0]);
        // It works elsewhere, also at the end of its rollout.
        assert_eq!(trouble(&[new, old, old], &[bad, new, old]), ["n0"]);
        assert_eq!(trouble(&[old, new, old], &[bad, new, new]), ["n0"]);
        // It fails less often there, or failed there before.
        assert_eq!(trouble(&[new, new, new], &[bad, bad, new]), ["n0"]);
        assert_eq!(trouble(&[new, bad], &[bad, bad]), ["n0"]);
    }

    /// What was broken already when a rollout is continued.
    #[test]
    fn what_another_daemon_set_has_on_nodes_that_a_continued_rollout_has_not_updated_is_no_trouble_of_it() {
        let held = |pods: &[(&str, bool)]| {
            let mut snapshot = with_pods(pods);
            let staged = json!({"stages": "100%", "strata": [], "began": at("11:45:00"), "stageBegan": at("11:45:00")});
            let gates = json!({"version": 1, "flags": {"progressDeadlineSeconds": 600, "staged": staged}});
            let hold = json!({"kubectl-ds/original-update-strategy": "{\"type\":\"RollingUpdate\"}",
                "kubectl-ds/gates": gates.to_string()});
            let own = json!({"metadata": {"name": "own", "namespace": "default", "uid": "own", "annotations": hold},
                "spec": {"updateStrategy": {"type": "OnDelete"}}});
            snapshot.daemon_sets.push(DaemonSet::from_object(own).unwrap());
            snapshot
        };
        let (good, bad) = (("hash1", true), ("hash1", false));
        for (pods, expected) in [
            (&[bad, bad, bad][..], &[][..]),
            (&[bad, good, good], &["n0"]),
            // All were updated.
            (&[bad], &["n0"]),
        ] {
            assert_eq!(nodes_in_trouble(&held(pods), &held(pods), &["n0"]), expected, "{pods:?}");
        }
        // What fails on a node that has joined since failed on others before.
        for (before, expected) in [("11:40:00", &[][..]), ("11:50:00", &["n0"])] {
            let mut snapshot = held(&[bad, bad, good]);
            snapshot.nodes[0].metadata.creation_timestamp = at("11:50:00").parse::<jiff::Timestamp>().unwrap().into();
            let condition = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(before)}]);
            let other = snapshot.pods.iter_mut().find(|pod| pod.spec.node_name == "n1").unwrap();
            other.status.conditions = serde_json::from_value(condition).unwrap();
            assert_eq!(nodes_in_trouble(&snapshot, &snapshot, &["n0"]), expected, "{before}");
        }
    }

    /// The nodes on which the other DaemonSet has new trouble, if so many others had it before that many more have joined.
    fn trouble(crashing: usize, joined: usize) -> usize {
        let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let of = |nodes: &[(String, bool)]| {
            nodes.iter().fold(world(), |world, (node, fails)| {
                let (world, name) = (world.node(node, json!({})), format!("agent-{node}"));
                match fails {
                    true => world.unready_pod(&name, node, crashes.clone(), json!({})),
                    false => world.pod(&name, node, json!({})),
                }
            })
        };
        let mut nodes: Vec<(String, bool)> = (0..4).map(|number| (format!("n{number}"), number < crashing)).collect();
        let before = of(&nodes).finish();
        nodes.extend((0..joined).map(|number| (format!("joined{number}"), true)));
        let after = of(&nodes).finish();
        let updated: Vec<&str> = nodes.iter().map(|(node, _)| &**node).collect();
        nodes_in_trouble(&before, &after, &updated).len()
    }

    #[test]
    fn a_node_that_joins_with_what_others_had_before_is_no_trouble_of_a_rollout() {
        assert_eq!([trouble(2, 1), trouble(1, 1), trouble(0, 1)], [0, 0, 1]);
        assert!(trouble(1, 6) > 0);
    }

    #[test]
    fn what_was_refused_before_a_rollout_or_created_since_is_no_trouble_of_its_own() {
        let of = |refused: &str, created: &str| {
            let refusal = "Error creating: pods \"agent-x\" is forbidden: exceeded quota: q, requested: pods=1";
            let world = world().daemon_set(json!({"metadata": {"creationTimestamp": at(created)}}));
            let snapshot =
                world.node("a", json!({})).event("DaemonSet", "agent", "FailedCreate", refusal, refused).finish();
            refused_before_or_changed_since(&Index::new(&snapshot), at("11:45:00").parse().unwrap()).len()
        };
        assert_eq!([of("11:40:00", "09:00:00"), of("11:50:00", "09:00:00"), of("11:50:00", "11:45:00")], [1, 0, 1]);
        // Nor is what somebody has rolled out since.
        let rolled_out = |time: &str| {
            let mut snapshot = world().node("a", json!({})).finish();
            let revision = snapshot.controller_revisions.last_mut().unwrap();
            revision.metadata.creation_timestamp = serde_json::from_value(json!(at(time))).unwrap();
            refused_before_or_changed_since(&Index::new(&snapshot), at("11:45:00").parse().unwrap()).len()
        };
        assert_eq!([rolled_out("11:40:00"), rolled_out("11:50:00")], [0, 1]);
    }
}
