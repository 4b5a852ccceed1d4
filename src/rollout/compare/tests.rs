use serde_json::{Value, json};

use super::{CompareOptions, compare};
use crate::coverage::test_support::{World, at, merge, world};
use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::{Gap, GapCause, Kind, Snapshot};
use crate::report::acceptance::Acceptance;
use crate::report::compare::{CompareReport, Comparison};
use crate::report::reason::ReasonCode;

const POOL: &str = "eks.amazonaws.com/nodegroup";

/// Returns a node of a pool.
fn of_pool(pool: &str) -> Value {
    json!({"metadata": {"labels": {POOL: pool, "kubernetes.io/os": "linux"}}})
}

fn with(mut value: Value, patch: Value) -> Value {
    merge(&mut value, patch);
    value
}

fn taint() -> Value {
    json!({"spec": {"taints": [{"key": "team", "value": "ml", "effect": "NoSchedule"}]}})
}

/// Adds nodes of the pool `one`, each with an available pod.
fn healthy(world: World, nodes: &[&str]) -> World {
    let add =
        |world: World, node: &&str| world.node(node, of_pool("one")).pod(&format!("agent-{node}"), node, json!({}));
    nodes.iter().fold(world, add)
}

/// Adds nodes of the pool `one`, each with a pod that crashes.
fn crashing(world: World, nodes: &[&str]) -> World {
    let status = || json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
    let add = |world: World, node: &&str| {
        world.node(node, of_pool("one")).unready_pod(&format!("agent-{node}"), node, status(), json!({}))
    };
    nodes.iter().fold(world, add)
}

/// Adds a node of the pool `one` with a pod that has just been created.
fn starting(world: World, node: &str) -> World {
    let starting = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
    let conditions = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at("12:59:50")}]);
    let young = json!({"metadata": {"creationTimestamp": at("12:59:50")}, "status": {"conditions": conditions}});
    world.node(node, of_pool("one")).unready_pod(&format!("new-{node}"), node, starting, young)
}

fn three() -> World {
    healthy(world(), &["a", "b", "c"])
}

/// Returns a world without a DaemonSet.
fn without_daemon_set(world: World) -> Snapshot {
    let mut snapshot = world.finish();
    snapshot.daemon_sets.clear();
    snapshot
}

fn without_nodes(mut snapshot: Snapshot) -> Snapshot {
    snapshot.daemon_sets.clear();
    snapshot.nodes.clear();
    snapshot
}

fn lacking(world: World, kinds: &[Kind]) -> Snapshot {
    let mut snapshot = world.finish();
    let gap = |kind: &Kind| Gap { kind: *kind, namespace: None, cause: GapCause::NotInDump };
    snapshot.gaps.extend(kinds.iter().map(gap));
    snapshot
}

/// Compares a world with one an hour later.
fn compared(before: Snapshot, after: Snapshot, accept: &[&str]) -> CompareReport {
    let accept: Vec<Acceptance> = accept.iter().map(|text| text.parse().unwrap()).collect();
    let after = Snapshot { now: at("13:00:00").parse().unwrap(), ..after };
    compare(&before, &after, &CompareOptions { accept: &accept, headroom: true })
}

/// Returns the verdict, what is worse of the nodes, and what else is.
fn told(report: &CompareReport) -> String {
    let mut words = vec![report.verdict.name().to_owned()];
    for pool in &report.pools {
        let name = pool.pool.as_deref().unwrap_or("none");
        words.extend((pool.gone && !pool.accepted).then(|| format!("{name} gone")));
        words.extend((!pool.replaced_by.is_empty()).then(|| format!("{name} by {}", pool.replaced_by.join("+"))));
    }
    for one in &report.daemon_sets {
        for setback in &one.setbacks {
            let code = setback.code.map_or("none", ReasonCode::name);
            let marks = [
                (setback.had_pod, "lost"),
                (setback.new_nodes, "new"),
                (setback.passing, "passing"),
                (setback.accepted, "accepted"),
                (setback.unconfirmed, "unconfirmed"),
            ];
            let marks: Vec<&str> = marks.into_iter().filter_map(|(is, mark)| is.then_some(mark)).collect();
            words.push(format!("{code} {} ({})", setback.nodes.join("+"), marks.join(" ")));
        }
        let marks = [
            (one.stopped == Some(true), "stopped".to_owned()),
            (one.stopped.is_none(), "stopped (unconfirmed)".to_owned()),
            (one.gone, "gone".to_owned()),
            (!one.gained.is_empty(), format!("gained {}", one.gained.join("+"))),
            (!one.restarting.is_empty(), format!("restarting {}", one.restarting.join("+"))),
        ];
        words.extend(marks.into_iter().filter_map(|(is, mark)| is.then_some(mark)));
        words.extend(one.new_concerns.iter().map(|concern| concern.code.name().to_owned()));
        words.extend(one.unconfirmed_concerns.iter().map(|concern| format!("{} (unconfirmed)", concern.code)));
    }
    words.join(", ")
}

/// The situations of the table at the top of the rule, and what is near them.
#[test]
fn what_is_worse_follows_the_table() {
    let restarted = |restarts: i64| {
        json!({"status": {"containerStatuses": [{"name": "agent", "ready": true, "started": true, "restartCount": restarts,
            "state": {"running": {"startedAt": at("11:31:00")}}}]}})
    };
    let with_restarts =
        |restarts: i64| three().node("d", of_pool("one")).pod("agent-d", "d", restarted(restarts)).finish();
    let excluded = |world: World, node: &str| world.node(node, with(of_pool("one"), taint()));
    let down = || {
        let unknown = json!([{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": at("12:00:00")}]);
        let node = with(of_pool("one"), json!({"status": {"conditions": unknown}}));
        let pod = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("12:00:00")}]}});
        healthy(world(), &["a", "b"]).node("c", node).pod("agent-c", "c", pod)
    };
    let refused = || {
        lacking(
            three().refusal(
                "pods \"agent-x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2",
            ),
            &[],
        )
    };
    let unobserved = || three().daemon_set(json!({"metadata": {"generation": 3}})).finish();
    let gpu = || three().node("g", of_pool("gpu")).pod("agent-g", "g", json!({}));
    let alone = |world: World| world.template(json!({"nodeSelector": {POOL: "gpu"}}));
    let a_gpu = || world().node("a", of_pool("one")).node("g", of_pool("gpu")).pod("agent-g", "g", json!({}));
    let eks = |pool: &str, nodes: &[&str]| {
        let add =
            |world: World, node: &&str| world.node(node, of_pool(pool)).pod(&format!("agent-{node}"), node, json!({}));
        nodes.iter().fold(world(), add)
    };
    let both = |pools: &[(&str, &[&str])]| {
        let nodes = pools.iter().flat_map(|(pool, nodes)| nodes.iter().map(move |node| (*pool, *node)));
        nodes.fold(world(), |world, (pool, node)| {
            let labels = if pool.is_empty() {
                json!({"metadata": {"labels": {"kubernetes.io/os": "linux"}}})
            } else {
                of_pool(pool)
            };
            world.node(node, labels).pod(&format!("agent-{node}"), node, json!({}))
        })
    };
    let tainted = |world: World, taint: Value| {
        let node = || with(of_pool("batch"), taint.clone());
        world.node("x", node()).node("y", node())
    };
    let of_autoscaler = || json!({"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}});
    let candidate =
        json!({"spec": {"taints": [{"key": "DeletionCandidateOfClusterAutoscaler", "effect": "PreferNoSchedule"}]}});
    let plain = |nodes: &[&str]| {
        let add =
            |world: World, node: &&str| world.node(node, json!({})).pod(&format!("agent-{node}"), node, json!({}));
        nodes.iter().fold(world(), add)
    };
    let all_replaced_with = |node: Value| {
        ["x", "y", "z"].iter().fold(world(), |world, name| world.node(name, with(of_pool("one"), node.clone())))
    };
    let mut others = Vec::new();
    for (situation, before, after, accept, expected) in [
        ("nothing has changed", three().finish(), three().finish(), vec![], "Same"),
        (
            "a pod crashes",
            three().finish(),
            crashing(healthy(world(), &["a", "b"]), &["c"]).finish(),
            vec![],
            "Worse, CrashLooping c (lost), stopped",
        ),
        (
            "a pod crashes on a node, which is accepted for that reason only if it is not the revision's fault",
            three().finish(),
            crashing(healthy(world(), &["a", "b"]), &["c"]).finish(),
            vec!["node"],
            "Worse, CrashLooping c (lost), stopped",
        ),
        (
            "a pod is replaced right now",
            three().finish(),
            starting(healthy(world(), &["a", "b"]), "c").finish(),
            vec![],
            "Worse, ContainersStarting c (lost passing)",
        ),
        (
            "a taint excludes a node",
            three().finish(),
            excluded(healthy(world(), &["a", "b"]), "c").finish(),
            vec![],
            "Worse, UntoleratedNoSchedule c (lost)",
        ),
        (
            "a taint excludes a node, which is accepted by its code",
            three().finish(),
            excluded(healthy(world(), &["a", "b"]), "c").finish(),
            vec!["UntoleratedNoSchedule"],
            "Same, UntoleratedNoSchedule c (lost accepted)",
        ),
        (
            "a taint excludes all nodes",
            three().finish(),
            excluded(excluded(excluded(world(), "a"), "b"), "c").finish(),
            vec![],
            "Worse, UntoleratedNoSchedule a+b+c (lost), stopped",
        ),
        (
            "a taint excludes all nodes, which is accepted by its code",
            three().finish(),
            excluded(excluded(excluded(world(), "a"), "b"), "c").finish(),
            vec!["UntoleratedNoSchedule"],
            "Same, UntoleratedNoSchedule a+b+c (lost accepted)",
        ),
        (
            "a taint excludes more nodes than are accepted",
            three().finish(),
            excluded(excluded(healthy(world(), &["a"]), "b"), "c").finish(),
            vec!["UntoleratedNoSchedule=1"],
            "Worse, UntoleratedNoSchedule b+c (lost)",
        ),
        (
            "a taint excludes a node, which is accepted as one node fewer",
            three().finish(),
            excluded(healthy(world(), &["a", "b"]), "c").finish(),
            vec!["fewer-nodes"],
            "Same, UntoleratedNoSchedule c (lost accepted)",
        ),
        ("a node is down", three().finish(), down().finish(), vec![], "Worse, NodeUnreachable c (lost)"),
        (
            "a node is down, which is accepted",
            three().finish(),
            down().finish(),
            vec!["node"],
            "Same, NodeUnreachable c (lost accepted)",
        ),
        ("a node was removed", three().finish(), healthy(world(), &["a", "b"]).finish(), vec![], "Same"),
        (
            "a node was removed, and its pod is still there",
            three().finish(),
            healthy(world(), &["a", "b"]).pod("agent-c", "c", json!({})).finish(),
            vec![],
            "Same",
        ),
        ("a node has joined", three().finish(), healthy(world(), &["a", "b", "c", "d"]).finish(), vec![], "Same"),
        (
            "a node has joined whose pod crashes",
            three().finish(),
            crashing(three(), &["d"]).finish(),
            vec![],
            "Worse, CrashLooping d (lost new), stopped",
        ),
        (
            "a node has joined that a taint excludes, unlike the others of its pool",
            three().finish(),
            excluded(three(), "d").finish(),
            vec![],
            "Worse, UntoleratedNoSchedule d (lost new)",
        ),
        (
            "a node of a new pool has joined that a taint excludes",
            three().finish(),
            three()
                .node(
                    "d",
                    with(
                        of_pool("two"),
                        with(taint(), json!({"metadata": {"labels": {"kubernetes.io/os": "windows"}}})),
                    ),
                )
                .finish(),
            vec![],
            "Same",
        ),
        (
            "a node of a new pool has joined whose pod is missing",
            three().finish(),
            three()
                .node("d", with(of_pool("two"), json!({"metadata": {"labels": {"kubernetes.io/os": "windows"}}})))
                .finish(),
            vec![],
            "Worse, Unexplained d (new), stopped",
        ),
        ("all nodes were replaced", three().finish(), healthy(world(), &["x", "y", "z"]).finish(), vec![], "Same"),
        (
            "all nodes were replaced, and the new ones have a taint",
            three().finish(),
            all_replaced_with(taint()).finish(),
            vec![],
            "Worse, UntoleratedNoSchedule x+y+z (lost new), stopped",
        ),
        (
            "the share of failing nodes is that of the nodes that were replaced",
            crashing(three(), &["d"]).finish(),
            crashing(healthy(world(), &["w", "x", "y"]), &["z"]).finish(),
            vec![],
            "Same",
        ),
        (
            "more of the nodes fail than of those that were replaced",
            crashing(three(), &["d"]).finish(),
            crashing(healthy(world(), &["w", "x"]), &["y", "z"]).finish(),
            vec![],
            "Worse, CrashLooping y (lost new)",
        ),
        (
            "a pool was replaced by one of another name",
            eks("blue", &["a", "b"]).finish(),
            eks("green", &["x", "y"]).finish(),
            vec![],
            "Same, blue by green",
        ),
        (
            "a pool was replaced, and another one was scaled down",
            both(&[("blue", &["a", "b"]), ("two", &["m", "n"])]).finish(),
            both(&[("green", &["x", "y"]), ("two", &["m"])]).finish(),
            vec![],
            "Same, blue by green",
        ),
        (
            "a pool was replaced, and nodes without a pool were removed",
            both(&[("blue", &["a", "b"]), ("", &["m", "n"])]).finish(),
            both(&[("green", &["x", "y"]), ("", &["m"])]).finish(),
            vec![],
            "Same, blue by green",
        ),
        (
            "two pools were replaced by one",
            both(&[("blue", &["a", "b"]), ("red", &["m", "n"])]).finish(),
            both(&[("green", &["w", "x", "y", "z"])]).finish(),
            vec![],
            "Same, blue by green, red by green",
        ),
        (
            "two pools are gone, and one of their size is new",
            both(&[("blue", &["a", "b"]), ("red", &["m", "n"])]).finish(),
            both(&[("green", &["x", "y"])]).finish(),
            vec![],
            "Worse, blue gone, blue by green, red gone, red by green",
        ),
        (
            "a pool is gone, and a tainted one is new, which is for other pods",
            both(&[("blue", &["a", "b"]), ("two", &["m"])]).finish(),
            tainted(both(&[("two", &["m"])]), taint()).finish(),
            vec![],
            "Worse, blue gone",
        ),
        (
            "a pool was replaced by one whose nodes are about to be removed",
            both(&[("blue", &["a", "b"]), ("two", &["m"])]).finish(),
            tainted(both(&[("two", &["m"])]), of_autoscaler()).finish(),
            vec![],
            "Worse, blue by batch, UntoleratedNoSchedule x+y (lost new)",
        ),
        (
            "a pool whose nodes the autoscaler may remove was replaced by an equal one",
            tainted(world(), candidate).pod("agent-x", "x", json!({})).pod("agent-y", "y", json!({})).finish(),
            both(&[("green", &["m", "n"])]).finish(),
            vec![],
            "Same, batch by green",
        ),
        (
            "nodes are of another pool, and are the same",
            both(&[("blue", &["a", "b"])]).finish(),
            both(&[("green", &["a", "b"])]).finish(),
            vec![],
            "Same",
        ),
        (
            "a pool was replaced by nodes without a pool",
            both(&[("blue", &["a", "b"])]).finish(),
            both(&[("", &["x", "y"])]).finish(),
            vec![],
            "Same",
        ),
        (
            "nodes without a pool were replaced",
            plain(&["a", "b"]).finish(),
            plain(&["x", "y"]).finish(),
            vec![],
            "Same",
        ),
        ("a pool is gone", gpu().finish(), three().finish(), vec![], "Worse, gpu gone"),
        ("a pool is gone, which is accepted", gpu().finish(), three().finish(), vec!["fewer-nodes"], "Same"),
        (
            "a pool is gone, and another one has grown",
            gpu().finish(),
            healthy(world(), &["a", "b", "c", "d"]).finish(),
            vec![],
            "Same, gpu by one",
        ),
        (
            "no node is eligible any more",
            alone(a_gpu()).finish(),
            alone(world().node("a", of_pool("one"))).finish(),
            vec![],
            "Worse, gpu gone, stopped",
        ),
        (
            "a node that crashed is available",
            crashing(healthy(world(), &["a", "b"]), &["c"]).finish(),
            three().finish(),
            vec![],
            "Better, gained c",
        ),
        (
            "a node that crashed was removed",
            crashing(healthy(world(), &["a", "b"]), &["c"]).finish(),
            healthy(world(), &["a", "b"]).finish(),
            vec![],
            "Same",
        ),
        (
            "a node that crashed was removed, and another one recovered",
            crashing(healthy(world(), &["a"]), &["b", "c"]).finish(),
            healthy(world(), &["a", "b"]).finish(),
            vec![],
            "Better, gained b",
        ),
        (
            "a node that crashed was replaced by one that does not",
            crashing(healthy(world(), &["a", "b"]), &["c"]).finish(),
            healthy(world(), &["a", "b", "d"]).finish(),
            vec![],
            "Better",
        ),
        (
            "a node that crashed was replaced by one that crashes",
            crashing(healthy(world(), &["a", "b"]), &["c"]).finish(),
            crashing(healthy(world(), &["a", "b"]), &["d"]).finish(),
            vec![],
            "Same",
        ),
        (
            "a node that crashed is no longer eligible",
            crashing(healthy(world(), &["a", "b"]), &["c"]).finish(),
            excluded(healthy(world(), &["a", "b"]), "c").finish(),
            vec![],
            "Same",
        ),
        (
            "a node that crashed was replaced by one that is not eligible",
            crashing(healthy(world(), &["a", "b"]), &["c"]).finish(),
            excluded(healthy(world(), &["a", "b"]), "d").finish(),
            vec![],
            "Same",
        ),
        (
            "fewer of the nodes fail than of those that were replaced",
            crashing(healthy(world(), &["a", "b"]), &["c", "d"]).finish(),
            crashing(healthy(world(), &["w", "x", "y"]), &["z"]).finish(),
            vec![],
            "Better",
        ),
        (
            "one node recovers, and another one is down, which is accepted",
            crashing(healthy(world(), &["a", "c"]), &["b"]).finish(),
            down().finish(),
            vec!["node"],
            "Same, NodeUnreachable c (lost accepted), gained b",
        ),
        (
            "a taint no longer excludes a node",
            excluded(healthy(world(), &["a", "b"]), "c").finish(),
            three().finish(),
            vec![],
            "Same, gained c",
        ),
        (
            "one node recovers, and another one fails",
            crashing(healthy(world(), &["a", "b"]), &["c"]).finish(),
            crashing(healthy(world(), &["b", "c"]), &["a"]).finish(),
            vec![],
            "Worse, CrashLooping a (lost), gained c",
        ),
        (
            "a node fails for another reason",
            crashing(healthy(world(), &["a", "b"]), &["c"]).finish(),
            down().finish(),
            vec![],
            "Same",
        ),
        (
            "a pod that was starting crashes",
            starting(healthy(world(), &["a", "b"]), "c").finish(),
            crashing(healthy(world(), &["a", "b"]), &["c"]).finish(),
            vec![],
            "Worse, CrashLooping c (), stopped",
        ),
        ("a DaemonSet is gone", three().finish(), without_daemon_set(three()), vec![], "Worse, gone"),
        (
            "a DaemonSet is gone, which is accepted",
            three().finish(),
            without_daemon_set(three()),
            vec!["fewer-nodes"],
            "Same",
        ),
        ("a DaemonSet is new", without_daemon_set(three()), three().finish(), vec![], "Same"),
        (
            "a DaemonSet is new, and fails",
            without_daemon_set(three()),
            crashing(healthy(world(), &["a", "b"]), &["c"]).finish(),
            vec![],
            "Worse, CrashLooping c (), stopped",
        ),
        ("the controller does not act", three().finish(), unobserved(), vec![], "Worse, ControllerNotObserved"),
        ("the controller did not act", unobserved(), three().finish(), vec![], "Better"),
        (
            "the controller does not act, and BEFORE lacks what may have said so",
            lacking(three(), &[Kind::Leases]),
            unobserved(),
            vec![],
            "Unknown, ControllerNotObserved (unconfirmed)",
        ),
        (
            "the controller did not act, and AFTER lacks what may say so",
            unobserved(),
            lacking(three(), &[Kind::Leases]),
            vec![],
            "Same",
        ),
        (
            "a pod that was starting crashes, and BEFORE has no events",
            lacking(starting(healthy(world(), &["a", "b"]), "c"), &[Kind::Events]),
            crashing(healthy(world(), &["a", "b"]), &["c"]).finish(),
            vec![],
            "Unknown, CrashLooping c (unconfirmed), stopped (unconfirmed)",
        ),
        (
            "a pod that was starting crashes, which is accepted, and BEFORE has no events",
            lacking(starting(healthy(world(), &["a", "b"]), "c"), &[Kind::Events]),
            crashing(healthy(world(), &["a", "b"]), &["c"]).finish(),
            vec!["CrashLooping"],
            "Same, CrashLooping c (accepted)",
        ),
        (
            "a pod that was available crashes, and BEFORE has no events",
            lacking(three(), &[Kind::Events]),
            crashing(healthy(world(), &["a", "b"]), &["c"]).finish(),
            vec![],
            "Worse, CrashLooping c (lost), stopped",
        ),
        (
            "a pod crashes on a node that a taint excluded, and BEFORE has no events",
            lacking(excluded(healthy(world(), &["a", "b"]), "c"), &[Kind::Events]),
            crashing(healthy(world(), &["a", "b"]), &["c"]).finish(),
            vec![],
            "Worse, CrashLooping c (), stopped",
        ),
        (
            "no node is eligible any more, and the rollout was blocked",
            crashing(healthy(world(), &["a", "b"]), &["c"]).finish(),
            ["a", "b", "c"].iter().fold(world(), |world, node| excluded(world, node)).finish(),
            vec![],
            "Worse, UntoleratedNoSchedule a+b (lost), stopped",
        ),
        (
            "no node is eligible any more, and no pod was available",
            crashing(world(), &["c"]).finish(),
            excluded(world(), "c").finish(),
            vec![],
            "Same",
        ),
        (
            "a DaemonSet is new, and fails, and the nodes of before were not read",
            without_nodes(lacking(three(), &[Kind::Nodes])),
            crashing(healthy(world(), &["a", "b"]), &["c"]).finish(),
            vec![],
            "Worse, CrashLooping c (), stopped",
        ),
        (
            "a DaemonSet is new, and fails on a node that has joined",
            without_daemon_set(healthy(world(), &["a", "b"])),
            crashing(healthy(world(), &["a", "b"]), &["c"]).finish(),
            vec![],
            "Worse, CrashLooping c (), stopped",
        ),
        ("pods are refused on nodes that have one", three().finish(), refused(), vec![], "Same"),
        ("a pod was restarted once", with_restarts(0), with_restarts(1), vec![], "Same"),
        ("a pod was restarted often", with_restarts(0), with_restarts(3), vec![], "Worse, restarting d"),
        ("a pod is restarted as often as before", with_restarts(30), with_restarts(35), vec![], "Same"),
        ("a pod was restarted a little more often than before", with_restarts(30), with_restarts(120), vec![], "Same"),
        (
            "a pod is restarted more than twice as often as before",
            with_restarts(3),
            with_restarts(18),
            vec![],
            "Worse, restarting d",
        ),
        (
            "a pod is restarted often, and as the one before it on its node was",
            with_restarts(30),
            three().node("d", of_pool("one")).pod("new-d", "d", restarted(40)).finish(),
            vec![],
            "Same",
        ),
        (
            "a pod of a new node is restarted often, and no pod was before",
            three().finish(),
            three().node("d", of_pool("one")).pod("new-d", "d", restarted(3)).finish(),
            vec![],
            "Worse, restarting d",
        ),
        (
            "one of many pods is restarted often, and others were before",
            with_restarts(300),
            healthy(world(), &["b", "c"])
                .node("a", of_pool("one"))
                .pod("agent-a", "a", restarted(5))
                .node("d", of_pool("one"))
                .pod("agent-d", "d", restarted(310))
                .finish(),
            vec![],
            "Worse, restarting a",
        ),
        ("the nodes of before were not read", lacking(three(), &[Kind::Nodes]), three().finish(), vec![], "Unknown"),
        ("the pods of now were not read", three().finish(), lacking(three(), &[Kind::Pods]), vec![], "Unknown"),
    ] {
        let told = told(&compared(before, after, &accept));
        if told != expected {
            others.push(format!("{situation}: {told}, and not: {expected}"));
        }
    }
    assert!(others.is_empty(), "{others:#?}");
}

#[test]
fn what_only_one_side_has_read_is_named_and_changes_no_number() {
    let report =
        compared(lacking(three(), &[Kind::Events]), crashing(healthy(world(), &["a", "b"]), &["c"]).finish(), &[]);
    assert_eq!((report.not_in_before, report.not_in_after), (vec!["events".to_owned()], vec![]));
    assert_eq!(report.daemon_sets[0].reasons, []);
    assert_eq!(report.headroom, []);
    assert_eq!(report.incomplete, []);
}

#[test]
fn reasons_are_counted_on_both_sides() {
    let report = compared(
        crashing(healthy(world(), &["a"]), &["b", "c"]).finish(),
        crashing(healthy(world(), &["a", "b"]), &["c"]).finish(),
        &[],
    );
    let [change] = report.daemon_sets[0].reasons[..] else { panic!("{:?}", report.daemon_sets[0].reasons) };
    assert_eq!((change.code, change.before, change.now), (ReasonCode::CrashLooping, 2, 1));
}

#[test]
fn templates_and_strategies_are_compared_by_meaning() {
    let image = |image: &str, value: &str| {
        let env = json!([{"name": "LEVEL", "value": value}]);
        three().template(json!({"containers": [{"name": "agent", "image": image, "env": env}]}))
    };
    let changes = |before: World, after: World| {
        let report = compared(before.finish(), after.finish(), &[]);
        let one = &report.daemon_sets[0];
        let strategy = one.strategy_before.iter().chain(&one.strategy).map(ToString::to_string);
        one.template_changes.iter().cloned().chain(strategy).collect::<Vec<_>>()
    };
    assert_eq!(changes(three(), three().template(json!({"restartPolicy": "Always"}))), Vec::<String>::new());
    assert_eq!(changes(image("a:1", "x"), image("a:2", "x")), ["image agent 1 → 2"]);
    assert_eq!(changes(image("a:1", "x"), image("a:1", "y")), ["env LEVEL"]);
    // What one side hides is not known.
    assert_eq!(changes(image("a:1", "x"), image("a:1", "REDACTED-1")), Vec::<String>::new());
    let hidden = || image("registry-1.redacted/a:1", "REDACTED-1");
    assert_eq!(changes(hidden(), image("example.com/a:1", "y")), Vec::<String>::new());
    assert_eq!(changes(hidden(), image("example.com/a:2", "y")), ["image agent 1 → 2"]);
    let on_delete = || three().daemon_set(json!({"spec": {"updateStrategy": {"type": "OnDelete"}}}));
    assert_eq!(changes(three(), on_delete()), ["RollingUpdate 1", "OnDelete"]);
}

#[test]
fn pods_that_are_ready_later_and_less_room_are_told_and_are_not_worse() {
    let more =
        || json!({"containers": [{"name": "agent", "image": "agent:2", "resources": {"requests": {"cpu": "100m"}}}]});
    let slow = |world: World, node: &str| {
        let conditions = json!([{"type": "Ready", "status": "True", "lastTransitionTime": at("12:42:00")}]);
        let patch = json!({"metadata": {"creationTimestamp": at("12:40:00")}, "spec": more(), "status": {"conditions": conditions}});
        world.node(node, of_pool("one")).pod(&format!("new-{node}"), node, patch)
    };
    let after = ["x", "y", "z"].iter().fold(world(), |world, node| slow(world, node)).template(more());
    let report = compared(three().finish(), after.finish(), &[]);
    let one = &report.daemon_sets[0];
    assert_eq!((one.seconds_to_ready_before, one.seconds_to_ready), (Some(60), Some(120)));
    let left: Vec<_> =
        report.headroom.iter().map(|one| (&*one.before.resource, one.before.value, one.now.value)).collect();
    assert_eq!(left, [("cpu", 4000, 3900)]);
    assert_eq!(report.verdict, Comparison::Same);
}

#[test]
fn objects_of_another_cluster_are_noticed() {
    let before = || healthy(world(), &["a"]).node("b", json!({"metadata": {"uid": "b-uid"}}));
    assert!(!compared(before().finish(), before().finish(), &[]).different_clusters);
    let other = || {
        let mut snapshot = healthy(world(), &["a"]).node("b", json!({"metadata": {"uid": "other"}})).finish();
        let mut object = snapshot.daemon_sets[0].object.clone();
        object["metadata"]["uid"] = json!("another");
        snapshot.daemon_sets = vec![DaemonSet::from_object(object).unwrap()];
        snapshot
    };
    assert!(compared(before().finish(), other(), &[]).different_clusters);
    // The namespace that every cluster has decides if both have it.
    let named = |uid: &str, mut snapshot: Snapshot| {
        let system = json!({"metadata": {"name": "kube-system", "uid": uid}});
        snapshot.namespaces.push(serde_json::from_value(system).unwrap());
        snapshot
    };
    assert!(!compared(named("u", before().finish()), named("u", other()), &[]).different_clusters);
    assert!(compared(named("u", before().finish()), named("v", before().finish()), &[]).different_clusters);
}

#[test]
fn a_dump_of_one_namespace_tells_nothing_of_others() {
    let of_one = || Snapshot { only_namespace: Some("other".to_owned()), ..without_daemon_set(three()) };
    for (before, after) in [(of_one(), three().finish()), (three().finish(), of_one())] {
        let report = compared(before, after, &[]);
        assert_eq!((report.verdict, report.daemon_sets.len()), (Comparison::Unknown, 0));
        assert_eq!(report.not_compared, ["default/agent"]);
        assert_eq!(report.headroom, []);
    }
}

/// A namespace may be forbidden, and an object unreadable.
#[test]
fn a_daemon_set_that_may_not_have_been_read_is_neither_gone_nor_new() {
    let unread = || {
        let mut snapshot = without_daemon_set(healthy(three(), &["a", "b", "c"]));
        let cause = GapCause::NotInDump;
        snapshot.gaps.push(Gap { kind: Kind::DaemonSets, namespace: None, cause });
        snapshot
    };
    let read = || healthy(three(), &["a", "b", "c"]).finish();
    for (before, after) in [(read(), unread()), (unread(), read())] {
        let report = compared(before, after, &[]);
        assert_eq!((report.verdict, report.daemon_sets.len()), (Comparison::Unknown, 0));
        assert_eq!(report.not_compared, ["default/agent"]);
    }
}

#[test]
fn a_gap_of_another_namespace_hides_no_daemon_set() {
    let mut after = without_daemon_set(three());
    let cause = GapCause::NotInDump;
    after.gaps.push(Gap { kind: Kind::DaemonSets, namespace: Some("other".to_owned()), cause });
    let report = compared(three().finish(), after, &[]);
    assert_eq!((told(&report).as_str(), report.not_compared.len()), ("Worse, gone", 0));
}

#[test]
fn the_order_is_not_known_of_a_dump_that_does_not_say_when_it_was_read() {
    let told = |before: bool, after: bool| {
        let [before, after] = [before, after].map(|is_now_estimated| Snapshot { is_now_estimated, ..three().finish() });
        let report = compared(before, after, &[]);
        (report.before.is_some(), report.seconds)
    };
    assert_eq!(told(false, false), (true, Some(3600)));
    assert_eq!(told(true, false), (false, None));
    assert_eq!(told(false, true), (true, None));
}

/// Three reboots in ninety days are not a pod that keeps restarting, and three restarts in three days are.
#[test]
fn restarts_count_by_how_often_they_happen() {
    let later = |days: i64, restarts: i64| {
        let status = json!({"status": {"containerStatuses": [{"name": "agent", "ready": true, "started": true, "restartCount": restarts,
            "state": {"running": {"startedAt": at("11:31:00")}}}]}});
        let before = healthy(world(), &["a"]).finish();
        let mut after = world().node("a", of_pool("one")).pod("agent-a", "a", status).finish();
        after.now = before.now + jiff::SignedDuration::from_hours(24 * days);
        let report = compare(&before, &after, &CompareOptions::default());
        (report.verdict, report.daemon_sets[0].restarting.len(), report.daemon_sets[0].restarts)
    };
    assert_eq!(later(90, 3), (Comparison::Same, 0, 3));
    assert_eq!(later(90, 89), (Comparison::Same, 0, 89));
    assert_eq!(later(3, 3), (Comparison::Worse, 1, 3));
    assert_eq!(later(3, 2), (Comparison::Same, 0, 2));
}
