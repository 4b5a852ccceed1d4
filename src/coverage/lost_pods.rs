//! Nodes that have lost their pod without a rollout: their labels were changed, or they were tainted.
//!
//! After an hour no event tells. What remains is the difference between nodes that are otherwise alike.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::{SignedDuration, Timestamp};

use super::common_cause::POOL_LABELS;
use super::node_class::NodeClasses;
use crate::facts::Facts;
use crate::facts::node_removal::is_of_state;
use crate::model::daemon_set::Flavor;
use crate::model::event::{EVENT_TTL, Event};
use crate::model::node::{HOSTNAME, Node, Taint};
use crate::model::pod::Pod;
use crate::model::startup_taint::is_startup;
use crate::report::coverage::{LostPods, RemovedNodes, UnlikePool};
use crate::report::fix::{Command, Fix};
use crate::scheduling::affinity::{AffinityOutcome, TermOutcome};
use crate::scheduling::daemon_pods::NodePods;
use crate::scheduling::should_run::Eligibility;
use crate::scheduling::taints::repels;

/// How many nodes of a pool must be eligible for each one that is not: a pool that is divided otherwise is so on purpose.
const ELIGIBLE_PER_EXCLUDED: usize = 3;

/// Returns which nodes have lost their pod, by events, or else are likely to have, because they are not eligible although most nodes
/// of their pool are.
pub(super) fn lost_pods(facts: &Facts<'_>, removed: Option<&RemovedNodes>) -> Option<LostPods> {
    by_events(facts, removed).or_else(|| unlike_pool(facts))
}

/// Returns how many pods the controller has deleted from nodes that are no longer eligible, according to events: pods
/// that it deletes for other reasons are recreated. Those from nodes that a revision has removed are reported with it.
fn by_events(facts: &Facts<'_>, removed: Option<&RemovedNodes>) -> Option<LostPods> {
    let since = facts.now().checked_sub(SignedDuration::from_secs(EVENT_TTL)).ok()?;
    let events = facts.events();
    let of = |reason: &str| {
        let is_recent = |event: &&&Event| event.reason == reason && event.last_seen() >= Some(since);
        events.iter().filter(is_recent).copied().collect::<Vec<&Event>>()
    };
    let number =
        |events: &[&Event]| events.iter().map(|event| usize::try_from(event.times()).unwrap_or(1)).sum::<usize>();
    let created = of("SuccessfulCreate");
    let deleted = of("SuccessfulDelete").into_iter().map(|event| (event, node_of(facts, event)));
    let mut deleted: Vec<_> = deleted.collect();
    let is_known = deleted.iter().all(|(_, node)| node.is_some());
    // The second pod of a surge, for example.
    deleted.retain(|(_, node)| !node.is_some_and(|node| !node.pods.is_empty() && node.should_run()));
    let first = deleted.iter().filter_map(|(event, _)| event.last_seen()).min()?;
    let began = facts.rollout_began_at();
    let without_pod = |is_eligible: bool| {
        let nodes = facts.node_pods.iter();
        nodes.filter(|node| node.decision.is_some() && node.should_run() == is_eligible && node.pods.is_empty()).count()
    };
    // What a rollout has replaced since, numbers do not tell apart from what was lost before.
    let is_unclear = began.is_none_or(|began| began >= first && !is_known);
    if is_unclear || without_pod(true) > 0 || facts.daemon_set.metadata.is_terminating() {
        return None;
    }
    if is_known {
        let is_removed = |name: &str| removed.is_some_and(|removed| removed.nodes.iter().any(|node| node == name));
        let is_lost = |node: &NodePods<'_>| node.decision.is_some() && node.pods.is_empty() && !is_removed(node.node);
        deleted.retain(|(_, node)| node.is_some_and(is_lost));
    }
    let lost = deleted.iter().filter_map(|(event, node)| {
        let node = node.as_ref()?.node;
        Some((node, lost_at(facts, node, event)?))
    });
    let lost: BTreeMap<&str, Timestamp> = lost.collect();
    let deleted: Vec<&Event> = deleted.into_iter().map(|(event, _)| event).collect();
    // Pods created earlier do not replace deleted ones, unless they are those of a surge.
    let first = began.filter(|began| *began < first && facts.revisions.all.len() > 1).unwrap_or(first);
    let created: Vec<&Event> = created.into_iter().filter(|event| event.last_seen() >= Some(first)).collect();
    // The client drops events of an object that has many (`EventSourceObjectSpamFilter`, k8s.io/client-go/tools/record/events_cache.go,
    // release 0.37.2).
    let is_since = |pod: &&Pod| pod.metadata.creation_timestamp.get().is_some_and(|at| at >= first);
    let eligible = facts.node_pods.iter().filter(|node| node.should_run());
    let replaced = eligible.flat_map(|node| node.pods.iter().copied()).filter(is_since).count();
    let nodes = match is_known {
        true => lost.len(),
        false => number(&deleted).saturating_sub(number(&created).max(replaced)).min(without_pod(false)),
    };
    let at = match is_known {
        true => lost.into_values().max()?,
        false => deleted.iter().filter_map(|event| event.last_seen()).max()?,
    };
    let changes = Command::kubectl(&["ds", "changes"]).namespace(&facts.daemon_set.metadata.namespace);
    let fix = Fix::new("to see what has changed", changes);
    (nodes > 0).then_some(LostPods { nodes, at: Some(at), unlike: None, fix })
}

/// Returns when a node lost the last of its pods, one of which the controller has deleted; `None` if that one was replaced, and nothing
/// tells when the next one went.
fn lost_at(facts: &Facts<'_>, node: &str, deleted: &Event) -> Option<Timestamp> {
    let (at, pod) = (deleted.last_seen()?, deleted_pod(deleted)?);
    let metadata = &facts.daemon_set.metadata;
    let is_own = |event: &&Event| {
        let object = &event.involved_object;
        let suffix = object.name.strip_prefix(&*metadata.name).and_then(|rest| rest.strip_prefix('-'));
        object.kind == "Pod" && object.namespace == metadata.namespace && suffix.is_some() && object.name != pod
    };
    let later = facts.index.snapshot.events.iter().filter(is_own).filter(|event| event.last_seen() >= Some(at));
    let (mut is_replaced, mut evicted) = (false, None);
    for event in later {
        match &*event.reason {
            "Scheduled" => is_replaced |= event.message.rsplit_once(' ').is_some_and(|(_, name)| name == node),
            "TaintManagerEviction" if is_on(facts, &event.involved_object.name, node) => {
                evicted = evicted.max(event.last_seen());
            }
            _ => {}
        }
    }
    evicted.or(Some(at).filter(|_| !is_replaced))
}

fn is_on(facts: &Facts<'_>, pod: &str, node: &str) -> bool {
    node_of_pod(facts, pod).is_some_and(|pods| pods.node == node)
}

/// Returns the pod that an event of the controller tells was deleted.
fn deleted_pod(event: &Event) -> Option<&str> {
    event.message.strip_prefix("Deleted pod: ")
}

/// Returns the node of a deleted pod; `None` if no event says where it was.
fn node_of<'f, 'a>(facts: &'f Facts<'a>, deleted: &Event) -> Option<&'f NodePods<'a>> {
    node_of_pod(facts, deleted_pod(deleted)?)
}

fn node_of_pod<'f, 'a>(facts: &'f Facts<'a>, pod: &str) -> Option<&'f NodePods<'a>> {
    let mut events = facts.index.events_named("Pod", &facts.daemon_set.metadata.namespace, pod).into_iter();
    // Its kubelet has stopped it, even if it was scheduled long ago.
    let node = events.find_map(|event| match (&*event.reason, &*event.source.host) {
        ("Scheduled", _) => Some(event.message.rsplit_once(' ')?.1),
        (_, host) => Some(host).filter(|host| !host.is_empty()),
    })?;
    facts.node_pods.iter().find(|pods| pods.node == node)
}

/// Returns the nodes without a pod that are excluded by nothing but taints and missing labels, which most nodes of their pool do not
/// have or have.
fn unlike_pool(facts: &Facts<'_>) -> Option<LostPods> {
    let Facts { index, daemon_set, .. } = facts;
    // `coverage`, which shows why, has no Advanced DaemonSets.
    let is_shown = daemon_set.flavor() == Flavor::Apps && !daemon_set.metadata.is_terminating();
    if !is_shown || !index.nodes_are_read() || !facts.pods_known {
        return None;
    }
    let nodes = || facts.nodes().filter_map(|(node, pods)| Some((node?, pods)));
    let tolerations = facts.daemon_pod.tolerations();
    let is_apart = |node: &Node| node.spec.taints.iter().any(|it| is_intended(it) && repels(it, tolerations));
    let excluded = nodes().filter(|(node, pods)| !pods.should_run() && pods.pods.is_empty() && !is_apart(node));
    let excluded: Vec<&Node> = excluded.map(|(node, _)| node).collect();
    if excluded.is_empty() {
        return None;
    }
    let classes = NodeClasses::new(daemon_set);
    // Where a pod is missing for another reason, the node is eligible as well.
    let mut eligible: HashMap<u64, (usize, usize)> = HashMap::new();
    for (node, pods) in nodes().filter(|(_, pods)| pods.should_run()) {
        let (all, with_pod) = eligible.entry(pool_of(node, &classes)).or_default();
        (*all, *with_pod) = (*all + 1, *with_pod + usize::from(!pods.pods.is_empty()));
    }
    let mut pools: HashMap<u64, Vec<&Node>> = HashMap::new();
    for node in excluded {
        pools.entry(pool_of(node, &classes)).or_default().push(node);
    }
    let (mut others, mut names, mut by) = (0, BTreeSet::new(), BTreeSet::new());
    for (pool, excluded) in pools {
        let (eligible, with_pod) = eligible.get(&pool).copied().unwrap_or_default();
        // To explain is expensive.
        if excluded.len() * ELIGIBLE_PER_EXCLUDED > with_pod {
            continue;
        }
        let why = excluded.iter().filter_map(|node| Some((*node, excluded_by(&facts.daemon_pod.explain(node))?)));
        let (named, reasons): (Vec<&Node>, Vec<Vec<String>>) = why.unzip();
        others += if named.is_empty() { 0 } else { eligible };
        names.extend(named.iter().map(|node| node.metadata.name.as_str()));
        by.extend(reasons.into_iter().flatten());
    }
    let coverage = Command::kubectl(&["ds", "coverage"]).namespace(&daemon_set.metadata.namespace);
    let coverage = coverage.flag("--node", *names.first()?).name(&daemon_set.metadata.name);
    Some(LostPods {
        nodes: names.len(),
        at: None,
        unlike: Some(UnlikePool {
            others,
            by: by.into_iter().collect(),
            nodes: names.into_iter().map(str::to_owned).collect(),
        }),
        fix: Fix::new("if that is not intended, see what excludes them", coverage),
    })
}

/// Returns whether a taint is for the role of a node, or passes by itself.
fn is_intended(taint: &Taint) -> bool {
    is_of_state(taint) || is_startup(&taint.key) || taint.key.starts_with("node-role.kubernetes.io/")
}

/// Returns the taints and the missing labels that exclude a node; `None` if anything else does, or something that is intentional or
/// passes by itself: a role, the state of a node, an opt-out.
fn excluded_by(eligibility: &Eligibility) -> Option<Vec<String>> {
    let mut by = Vec::new();
    for outcome in eligibility.taints.iter().filter(|outcome| outcome.is_untolerated()) {
        if is_intended(&outcome.taint) {
            return None;
        }
        by.push(format!("taint {}", outcome.taint));
    }
    for check in eligibility.node_selector.iter().filter(|check| !check.matches) {
        if check.actual.is_some() {
            return None;
        }
        by.push(format!("no label {}={}", check.key, check.wanted));
    }
    match &eligibility.affinity {
        AffinityOutcome::NotSet | AffinityOutcome::Matches { .. } => {}
        AffinityOutcome::NoTerms => return None,
        AffinityOutcome::NoMatch { terms } => {
            // One label is enough for one of the terms.
            let missing = terms.iter().find_map(|term| match term {
                TermOutcome::Mismatch { failing, .. } => match failing.as_slice() {
                    [one]
                        if !one.field && one.actual.is_none() && matches!(&*one.written.operator, "In" | "Exists") =>
                    {
                        Some(format!("no label {}", one.written.key))
                    }
                    _ => None,
                },
                _ => None,
            });
            by.push(missing?);
        }
    }
    (eligibility.pinned_to.is_none() && !by.is_empty()).then_some(by)
}

/// Returns a hash that nodes share only if they belong to one pool, according to their labels. Labels that the DaemonSet depends on do
/// not count. The nodes have the same label keys, and the same value of the label that names the pool. Without such a label, the values
/// of all labels are the same, except those that name the node, its zone or its region.
fn pool_of(node: &Node, classes: &NodeClasses<'_>) -> u64 {
    let labels = &node.metadata.labels;
    let pool = POOL_LABELS.iter().find(|label| labels.contains_key(**label) && !classes.depends_on(label));
    let is_own = |key: &str, value: &str| {
        key == HOSTNAME || key.ends_with("/zone") || key.ends_with("/region") || value == node.metadata.name
    };
    let mut hasher = DefaultHasher::new();
    for (key, value) in labels.iter().filter(|(key, _)| !classes.depends_on(key)) {
        key.hash(&mut hasher);
        if pool.is_none_or(|pool| pool == key) && !is_own(key, value) {
            value.hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::coverage::test_support::{World, at, world};

    #[test]
    fn nodes_that_have_lost_their_pods_are_counted_by_events() {
        let tainted = || json!({"spec": {"taints": [{"key": "dedicated", "effect": "NoExecute"}]}});
        let with = |nodes: &[(&str, Value, bool)], events: &[(&str, &str)]| {
            let world = nodes.iter().fold(world(), |world: World, (name, patch, has_pod)| {
                let world = world.node(name, patch.clone());
                if *has_pod { world.pod(&format!("agent-{name}"), name, json!({})) } else { world }
            });
            let world = events.iter().fold(world, |world, (reason, time)| {
                world.event("DaemonSet", "agent", reason, &format!("{reason} {time}"), time)
            });
            world.coverage().lost_pods.map(|lost| (lost.nodes, lost.at.unwrap().to_string()))
        };
        let (stays, lost) = (|| ("a", json!({}), true), |name: &'static str| (name, tainted(), false));
        let deleted = |time| ("SuccessfulDelete", time);
        let two = [stays(), lost("b"), lost("c")];
        let told = |nodes: usize, time: &str| Some((nodes, at(time)));
        assert_eq!(with(&two, &[deleted("11:59:20"), deleted("11:59:21")]), told(2, "11:59:21"));
        assert_eq!(with(&two, &[deleted("11:59:20"), ("SuccessfulCreate", "11:59:25")]), None, "a pod was replaced");
        let new =
            [("SuccessfulCreate", "11:59:00"), ("SuccessfulCreate", "11:59:01"), ("SuccessfulCreate", "11:59:02")];
        let events = [new.as_slice(), &[deleted("11:59:20"), deleted("11:59:21")]].concat();
        assert_eq!(with(&two, &events), told(2, "11:59:21"), "the DaemonSet is new");
        assert_eq!(with(&two, &[]), None, "they were never eligible");
        assert_eq!(with(&two, &[deleted("10:59:59")]), None, "an hour ago");
        assert_eq!(with(&[stays(), lost("b")], &[deleted("11:59:20"), deleted("11:59:21")]), told(1, "11:59:21"));
        assert_eq!(with(&[stays()], &[deleted("11:59:20")]), None, "a surplus pod");
        let surge = |node: &str| {
            let scheduled = format!("Successfully assigned default/agent-x to {node}");
            world()
                .node("a", json!({}))
                .pod("agent-a", "a", json!({}))
                .node("b", tainted())
                .event("DaemonSet", "agent", "SuccessfulDelete", "Deleted pod: agent-x", "11:59:20")
                .event("Pod", "agent-x", "Scheduled", &scheduled, "11:50:00")
                .coverage()
                .lost_pods
                .is_some()
        };
        assert_eq!((surge("a"), surge("b")), (false, true), "the second pod of a node");
        assert_eq!(with(&[("a", json!({}), false), lost("b")], &[deleted("11:59:20")]), None, "one is to be created");
    }

    #[test]
    fn a_pod_that_a_rollout_has_replaced_is_not_the_one_that_was_lost_later() {
        let lost_at = |evicted: Option<&str>| {
            let assigned = |pod: &str| format!("Successfully assigned default/{pod} to b");
            let world = world()
                .node("a", json!({}))
                .pod("agent-a", "a", json!({}))
                .node("b", json!({"spec": {"taints": [{"key": "dedicated", "effect": "NoExecute"}]}}))
                .event("Pod", "agent-x", "Scheduled", &assigned("agent-x"), "11:30:00")
                .event("DaemonSet", "agent", "SuccessfulDelete", "Deleted pod: agent-x", "11:40:00")
                .event("Pod", "agent-y", "Scheduled", &assigned("agent-y"), "11:40:00");
            let world = evicted.into_iter().fold(world, |world, time| {
                world.event("Pod", "agent-y", "TaintManagerEviction", "Marking for deletion Pod default/agent-y", time)
            });
            world.coverage().lost_pods.and_then(|lost| Some(lost.at?.to_string()))
        };
        assert_eq!(lost_at(Some("11:59:00")), Some(at("11:59:00")));
        assert_eq!(lost_at(None), None);
    }

    /// A rollout deletes and creates pods, too: only where each pod was tells them apart.
    #[test]
    fn nodes_that_have_lost_their_pods_are_not_forgotten_once_a_rollout_follows() {
        let lost = |began: &str, node: &str, event: &str| {
            let tainted = || json!({"spec": {"taints": [{"key": "dedicated", "effect": "NoExecute"}]}});
            let mut world = world().node("a", json!({})).pod("agent-a", "a", json!({})).node("b", tainted());
            // One node has lost two pods, and another one has never been eligible.
            world = world.node("never", tainted());
            for (pod, node, time) in [("agent-w", node, event), ("agent-y", node, event), ("agent-x", "a", "11:59:30")]
            {
                let scheduled = format!("Successfully assigned default/{pod} to {node}");
                world = world
                    .event("DaemonSet", "agent", "SuccessfulDelete", &format!("Deleted pod: {pod}"), time)
                    .event("Pod", pod, if pod == "agent-x" { "Scheduled" } else { "Killing" }, &scheduled, "11:50:00");
                world.snapshot.events.last_mut().unwrap().source.host = node.to_owned();
                world =
                    world.event("DaemonSet", "agent", "SuccessfulCreate", &format!("Created pod: {pod}-2"), "11:59:31");
            }
            let current = world.snapshot.controller_revisions.last_mut().unwrap();
            current.metadata.creation_timestamp = serde_json::from_value(json!(at(began))).unwrap();
            world.coverage().lost_pods.map(|lost| (lost.nodes, lost.at.unwrap().to_string()))
        };
        assert_eq!(lost("11:59:29", "b", "11:59:10"), Some((1, at("11:59:10"))), "before the rollout");
        assert_eq!(lost("11:59:05", "b", "11:59:15"), Some((1, at("11:59:15"))), "by it");
        assert_eq!(lost("11:59:29", "a", "11:59:10"), None, "it was replaced");
        assert_eq!(lost("11:59:29", "gone", "11:59:10"), None, "the node does not exist");
    }

    #[test]
    fn pods_of_a_surge_replace_those_that_are_deleted_after_them() {
        let lost = |template: Value, events: &[(&str, &str)]| {
            let mut world = world();
            world.snapshot.controller_revisions.clear();
            let world = world.revision_of_template("hash0", 1).template(template).revision_of_template("hash1", 2);
            let mut world = world
                .node("a", json!({}))
                .pod("agent-a", "a", json!({"metadata": {"creationTimestamp": at("11:59:10")}}))
                .node("b", json!({"spec": {"taints": [{"key": "dedicated", "effect": "NoExecute"}]}}));
            let created = serde_json::from_value(json!(at("11:59:00"))).unwrap();
            world.snapshot.controller_revisions[1].metadata.creation_timestamp = created;
            let events = events.iter().fold(world, |world, (reason, time)| {
                world.event("DaemonSet", "agent", reason, &format!("{reason} {time}"), time)
            });
            events.coverage().lost_pods.map(|lost| lost.nodes)
        };
        let new = || json!({"containers": [{"name": "agent", "image": "agent:2"}]});
        let (created, deleted) = (|time| ("SuccessfulCreate", time), |time| ("SuccessfulDelete", time));
        assert_eq!(lost(new(), &[created("11:59:10"), deleted("11:59:20")]), None);
        assert_eq!(lost(new(), &[created("11:59:10"), deleted("11:59:20"), deleted("11:59:30")]), Some(1));
        assert_eq!(lost(new(), &[created("11:58:59"), deleted("11:59:20"), deleted("11:59:30")]), Some(1), "before it");
    }

    /// A cluster of nodes with these labels and taints and a pod, besides one that is excluded; returns what that one is told to be
    /// excluded by, and unlike how many others.
    fn told(template: Value, all: &Value, others: usize, excluded: &Value) -> Option<(Vec<String>, usize)> {
        let patch = |labels: &Value| json!({"metadata": {"labels": labels}});
        let mut world = (0..others).fold(world().template(template), |world, number| {
            let name = format!("n{number}");
            world.node(&name, patch(all)).pod(&format!("agent-{number}"), &name, json!({}))
        });
        let mut node = patch(all);
        crate::coverage::test_support::merge(&mut node, excluded.clone());
        world = world.node("odd", node);
        let lost = world.coverage().lost_pods?;
        let unlike = lost.unlike?;
        assert_eq!((lost.at, lost.nodes, unlike.nodes), (None, 1, vec!["odd".to_owned()]));
        Some((unlike.by, unlike.others))
    }

    #[test]
    fn without_events_a_node_that_only_a_taint_or_a_missing_label_tells_from_its_pool_is_named() {
        let tainted = |key: &str, effect: &str| json!({"spec": {"taints": [{"key": key, "effect": effect}]}});
        let unlabeled = |key: &str| json!({"metadata": {"labels": {key: null}}});
        let plain = || json!({"node.kubernetes.io/instance-type": "m7"});
        let with = |key: &str, value: &str| json!({"node.kubernetes.io/instance-type": "m7", key: value});
        let selector = |key: &str| json!({"nodeSelector": {key: "yes"}});
        let affinity = |operator: &str, values: &[&str]| {
            let terms = json!([{"matchExpressions": [{"key": "disk", "operator": operator, "values": values}]}]);
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": terms}}}})
        };
        for (template, all, others, excluded, expected) in [
            (json!({}), plain(), 3, tainted("maintenance", "NoExecute"), Some("taint maintenance:NoExecute")),
            (
                json!({}),
                plain(),
                3,
                tainted("example.com/broken", "NoSchedule"),
                Some("taint example.com/broken:NoSchedule"),
            ),
            (selector("agent"), with("agent", "yes"), 3, unlabeled("agent"), Some("no label agent=yes")),
            (affinity("In", &["ssd"]), with("disk", "ssd"), 5, unlabeled("disk"), Some("no label disk")),
            // Even if the labels of the instance type differ.
            (
                json!({}),
                with("karpenter.sh/nodepool", "general"),
                4,
                json!({"metadata": {"labels": {"node.kubernetes.io/instance-type": "c7"}},
                    "spec": {"taints": [{"key": "debug", "effect": "NoSchedule"}]}}),
                Some("taint debug:NoSchedule"),
            ),
            // Too many of the pool are excluded.
            (json!({}), plain(), 2, tainted("maintenance", "NoExecute"), None),
            (json!({}), plain(), 9, tainted("node-role.kubernetes.io/control-plane", "NoSchedule"), None),
            (json!({}), plain(), 9, tainted("node.kubernetes.io/out-of-service", "NoExecute"), None),
            (json!({}), plain(), 9, tainted("node.cilium.io/agent-not-ready", "NoSchedule"), None),
            (json!({}), plain(), 9, tainted("preferred", "PreferNoSchedule"), None),
            // Nodes for something have a label that says so.
            (
                json!({}),
                plain(),
                9,
                json!({"metadata": {"labels": {"dedicated": "db"}},
                    "spec": {"taints": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]}}),
                None,
            ),
            // Another value is a choice, and so is an opt-out.
            (selector("agent"), with("agent", "yes"), 9, json!({"metadata": {"labels": {"agent": "no"}}}), None),
            (affinity("DoesNotExist", &[]), plain(), 9, json!({"metadata": {"labels": {"disk": "x"}}}), None),
            (affinity("NotIn", &["hdd"]), plain(), 9, json!({"metadata": {"labels": {"disk": "hdd"}}}), None),
        ] {
            let expected = expected.map(|by| (vec![by.to_owned()], others));
            assert_eq!(told(template, &all, others, &excluded), expected, "{excluded}");
        }
    }
}
