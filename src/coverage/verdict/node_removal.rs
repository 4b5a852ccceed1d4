//! Nodes that an autoscaler is removing, and what holds up those whose removal does not get on.

use super::finding::{Finding, describe_node};
use super::node_health::CHECK_FINALIZERS;
use super::node_plugin::{Lacks, without_driver};
use super::sentence::Sentence;
use super::volumes::absent_driver;
use crate::facts::index::Index;
use crate::facts::node_removal::{autoscaler, began_at, is_stuck, stuck_deletion, stuck_drain};
use crate::model::held_pod::Autoscaler;
use crate::model::metadata::{ObjectMeta, OwnerReference};
use crate::model::node::{Node, Taint};
use crate::model::pod::Pod;
use crate::model::pod_disruption_budget::{Eviction, PodDisruptionBudget, eviction};
use crate::model::snapshot::{GapCause, Kind, Snapshot};
use crate::report::age::seconds_between;
use crate::report::reason::ReasonCode;

/// Finds that an autoscaler removes the node, and whether that takes too long.
pub fn finding(index: &Index<'_>, node: &Node, taint: &Taint) -> Finding {
    let code = match taint.effect.as_str() {
        "NoExecute" => ReasonCode::UntoleratedNoExecute,
        _ => ReasonCode::UntoleratedNoSchedule,
    };
    let now = index.now();
    let Some(began) = began_at(node, taint) else {
        let message = format!("taint {taint} is not tolerated: the autoscaler is removing the node");
        let advice = "wait until the autoscaler has removed the node; if that takes more than 15m, check its log";
        return Finding::new(code, message, advice).with_command(describe_node(node));
    };
    // The value of the taint is a time, which differs from node to node.
    let (key, since) = (&taint.key, seconds_between(began, now));
    if !is_stuck(began, now) {
        let message = Sentence::from(format!("taint {key} is not tolerated: the autoscaler began to remove the node "));
        return Finding::new(code, message.age(since).words(" ago"), "wait until the autoscaler has removed the node");
    }
    let message =
        Sentence::from("the autoscaler has been removing the node for ").age(since).words(format!(" (taint {key})"));
    let message =
        if node.metadata.is_terminating() { with_finalizers(message, &node.metadata.finalizers) } else { message };
    let advice = "check what blocks the drain: a PodDisruptionBudget, the annotation karpenter.sh/do-not-disrupt or \
                  cluster-autoscaler.kubernetes.io/safe-to-evict of a pod, or a finalizer; and the log of the autoscaler; \
                  if it has given the node up or is no longer installed, remove the taint";
    let message = held_on(index, node, taint, left_on(index, node, message));
    let finding = Finding::new(ReasonCode::NodeRemovalStuck, message, advice).with_command(describe_node(node));
    let finding = match not_unmounted(index, node) {
        Some((pod, driver, lacks)) => {
            let held = Sentence::from("; the volumes of pod ").example(pod.metadata.full_name());
            let held =
                held.words(format!(" cannot be unmounted without driver {driver}, which the kubelet does not reach"));
            without_driver(index, Some(node), driver, lacks, finding.and(held))
        }
        None => finding,
    };
    Finding { likely_mistake: true, ..finding }
}

/// Returns a terminating pod of a node whose volumes cannot be unmounted, and the driver that the kubelet lacks for that.
fn not_unmounted<'a>(index: &Index<'a>, node: &Node) -> Option<(&'a Pod, &'a str, Lacks)> {
    let terminating = index.bound_to(&node.metadata.name).into_iter().filter(|pod| pod.metadata.is_terminating());
    let of_events =
        terminating.flat_map(|pod| index.events_about("Pod", &pod.metadata).into_iter().map(move |event| (pod, event)));
    let mut unmounts = of_events.filter(|(_, event)| event.reason == "FailedUnmount" && event.is_recent(index.now()));
    unmounts.find_map(|(pod, event)| absent_driver(&event.message).map(|(driver, lacks)| (pod, driver, lacks)))
}

/// Finds that the removal of a node takes too long, by an autoscaler or because somebody has deleted its object, whether or not the pods
/// of a DaemonSet tolerate that.
pub fn stuck(index: &Index<'_>, node: &Node) -> Option<Finding> {
    let now = index.now();
    if let Some(taint) = stuck_drain(node, now) {
        return Some(finding(index, node, taint));
    }
    let age = seconds_between(stuck_deletion(node, now)?, now);
    let message = Sentence::from("the Node object has been terminating for ").age(age);
    let message = with_finalizers(message, &node.metadata.finalizers);
    Some(Finding::new(ReasonCode::NodeRemovalStuck, message, CHECK_FINALIZERS).with_command(describe_node(node)))
}

/// Adds the finalizers that hold an object whose deletion has begun.
pub fn with_finalizers(sentence: Sentence, finalizers: &[String]) -> Sentence {
    match finalizers {
        [] => sentence,
        finalizers => sentence.words(format!("; finalizer {}", finalizers.join(", "))),
    }
}

/// Returns whether a drain leaves a pod: those of DaemonSets, static ones, and those that have ended.
fn stays(pod: &Pod) -> bool {
    let is_left = |owner: &OwnerReference| matches!(&*owner.kind, "DaemonSet" | "Node");
    pod.is_terminal() || pod.metadata.controller().is_some_and(is_left)
}

/// Adds what keeps the pods of a node from being evicted by the autoscaler that has set a taint, as far as it was read.
fn held_on(index: &Index<'_>, node: &Node, taint: &Taint, sentence: Sentence) -> Sentence {
    let Snapshot { held_pods, held_pods_unread, pod_disruption_budgets, gaps, .. } = index.snapshot;
    let is_held = |(pod, _): &(&Pod, &[Autoscaler])| {
        pod.spec.node_name == node.metadata.name && !stays(pod) && !pod.metadata.is_terminating()
    };
    let of_live = held_pods.iter().map(|held| (&held.pod, held.left_by.as_slice()));
    let mut held: Vec<(&Pod, &[Autoscaler])> = of_live.filter(is_held).collect();
    if held_pods.is_empty() {
        // A dump has the pods without their annotations.
        held = index.bound_to(&node.metadata.name).into_iter().map(|pod| (pod, &[][..])).filter(is_held).collect();
    }
    let mut sentence = sentence;
    let mut add = |words: &str, found: &[&ObjectMeta]| {
        let Some(first) = found.first() else { return };
        let number = i64::try_from(found.len()).unwrap_or(i64::MAX);
        let added = std::mem::take(&mut sentence).words(words).number(number).words(", such as ");
        sentence = added.example(format!("{}/{}", first.namespace, first.name));
    };
    if let Some(autoscaler) = autoscaler(&taint.key) {
        let (annotation, value) = autoscaler.annotation();
        let left = held.iter().filter(|(_, left_by)| left_by.contains(&autoscaler));
        let left: Vec<&ObjectMeta> = left.map(|(pod, _)| &pod.metadata).collect();
        add(&format!("; pods with {annotation}={value}: "), &left);
    }
    let (mut refusing, mut of_several): (Vec<&PodDisruptionBudget>, Vec<&ObjectMeta>) = Default::default();
    for (pod, _) in &held {
        match eviction(pod_disruption_budgets, pod) {
            Eviction::Allowed => {}
            Eviction::RefusedBy(budget) if refusing.iter().any(|known| std::ptr::eq(*known, budget)) => {}
            Eviction::RefusedBy(budget) => refusing.push(budget),
            Eviction::SeveralBudgets => of_several.push(&pod.metadata),
        }
    }
    let refusing: Vec<&ObjectMeta> = refusing.into_iter().map(|budget| &budget.metadata).collect();
    add("; PodDisruptionBudgets that allow no eviction: ", &refusing);
    add("; pods that are never evicted, because more than one PodDisruptionBudget selects them: ", &of_several);
    // A dump is complete without them.
    let of_budgets = gaps.iter().filter(|gap| gap.kind == Kind::PodDisruptionBudgets).map(|gap| &gap.cause);
    let unread = held_pods_unread.iter().chain(of_budgets).find_map(|cause| match cause {
        GapCause::Forbidden(permission) => Some(format!("{permission} is forbidden")),
        GapCause::Failed(problem) => Some(problem.clone()),
        _ => None,
    });
    match unread {
        Some(why) => sentence.words("; what keeps them from being evicted is not known (").value(why).words(")"),
        None => sentence,
    }
}

/// Adds the pods that a drain has yet to evict or that do not terminate, if all pods of the node are known.
fn left_on(index: &Index<'_>, node: &Node, sentence: Sentence) -> Sentence {
    if !index.snapshot.knows_all_pods_on(&node.metadata.name) {
        return sentence;
    }
    let left = index.bound_to(&node.metadata.name).into_iter().filter(|pod| !stays(pod));
    let (terminating, kept): (Vec<&Pod>, Vec<&Pod>) = left.partition(|pod| pod.metadata.is_terminating());
    [("; pods not evicted: ", kept), ("; pods still terminating: ", terminating)].into_iter().fold(
        sentence,
        |sentence, (words, pods)| {
            let Some(first) = pods.first() else { return sentence };
            let number = i64::try_from(pods.len()).unwrap_or(i64::MAX);
            let name = first.metadata.full_name();
            let name = match first.metadata.finalizers.as_slice() {
                [finalizer, ..] if first.metadata.is_terminating() => format!("{name} (finalizer {finalizer})"),
                _ => name,
            };
            sentence.words(words).number(number).words(", such as ").example(name)
        },
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use crate::coverage::test_support::{World, at, merge, world};
    use crate::model::daemon_set::DaemonSet;
    use crate::model::held_pod::HeldPod;
    use crate::model::snapshot::{Gap, GapCause, Kind, PodsComplete};
    use crate::report::coverage::DaemonSetCoverage;
    use crate::report::reason::ReasonCode;

    fn with(taint: Value, metadata: Value) -> DaemonSetCoverage {
        world()
            .node("fine", json!({}))
            .pod("agent-x", "fine", json!({}))
            .node("n", json!({"metadata": metadata, "spec": {"taints": [taint]}}))
            .coverage()
    }

    #[test]
    fn a_removal_that_takes_more_than_a_quarter_of_an_hour_is_a_trouble() {
        let noon = 1_772_366_400;
        let added =
            |time: &str| json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule", "timeAdded": at(time)});
        let value = |ago: i64| json!({"key": "ToBeDeletedByClusterAutoscaler", "value": (noon - ago).to_string(), "effect": "NoSchedule"});
        let disrupted = || json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"});
        for (taint, metadata, is_stuck, words) in [
            (value(9 * 86_400), json!({}), true, "for 9d"),
            (value(901), json!({}), true, "for 15m"),
            (value(900), json!({}), false, "15m ago"),
            (added("11:40:00"), json!({}), true, "for 20m"),
            (added("11:50:00"), json!({}), false, "10m ago"),
            (disrupted(), json!({"deletionTimestamp": at("11:00:00")}), true, "for 60m"),
            (
                disrupted(),
                json!({"deletionTimestamp": at("11:00:00"), "finalizers": ["karpenter.sh/termination"]}),
                true,
                "disrupted); finalizer karpenter.sh/termination",
            ),
            (value(901), json!({"finalizers": ["karpenter.sh/termination"]}), true, "ClusterAutoscaler)"),
            (disrupted(), json!({}), false, "is removing"),
            (
                json!({"key": "karpenter.sh/disrupted", "value": "7", "effect": "NoSchedule"}),
                json!({}),
                false,
                "is removing",
            ),
        ] {
            let coverage = with(taint.clone(), metadata);
            let reason = coverage.nodes.iter().find(|node| node.name == "n").unwrap().reasons[0].clone();
            assert_eq!(reason.code == ReasonCode::NodeRemovalStuck, is_stuck, "{taint}");
            assert_eq!(coverage.needs_attention(), is_stuck, "{taint}");
            assert!(reason.message.contains(words), "{}", reason.message);
            assert_eq!(reason.fix.advice.starts_with("wait"), !is_stuck);
        }
    }

    #[test]
    fn the_removal_of_a_node_that_is_not_selected_is_no_trouble_of_the_daemon_set() {
        let taint = json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule", "timeAdded": at("11:00:00")});
        let coverage = world()
            .template(json!({"nodeSelector": {"pool": "a"}}))
            .node("fine", json!({"metadata": {"labels": {"pool": "a"}}}))
            .pod("agent-x", "fine", json!({}))
            .node("n", json!({"spec": {"taints": [taint]}}))
            .coverage();
        assert!(!coverage.needs_attention(), "{:?}", coverage.concerns);
    }

    #[test]
    fn what_a_stuck_drain_waits_for_is_named_if_all_pods_are_known() {
        let taint = json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule", "timeAdded": at("11:00:00")});
        let world = || {
            let held = json!({"metadata": {"deletionTimestamp": at("11:30:00"), "finalizers": ["team/backup"]}});
            let with_owner = |kind: &str| {
                json!({"metadata": {"ownerReferences": [
                {"apiVersion": "v1", "kind": kind, "name": "it", "uid": "it", "controller": true}]}})
            };
            world()
                .node("n", json!({"spec": {"taints": [taint.clone()]}}))
                .other_pod("web-1", "n", json!({}))
                .other_pod("web-2", "n", json!({}))
                .other_pod("db-0", "n", held)
                .other_pod("ended", "n", json!({"status": {"phase": "Succeeded"}}))
                .other_pod("static", "n", with_owner("Node"))
                .other_pod("agent", "n", with_owner("DaemonSet"))
        };
        let told = |world: World| {
            let coverage = world.coverage();
            coverage.nodes.iter().find(|node| node.name == "n").unwrap().reasons[0].message.clone()
        };
        let mut dumped = world();
        let budget = json!({"metadata": {"name": "other", "namespace": "default", "generation": 1},
            "spec": {"selector": {"matchLabels": {"app": "other"}}}, "status": {"observedGeneration": 1}});
        dumped.snapshot.pod_disruption_budgets.push(from_value(budget).unwrap());
        // A dump has the pods, and no others with their annotations.
        let held = "; PodDisruptionBudgets that allow no eviction: 1, such as default/other";
        let message = told(dumped);
        assert!(message.ends_with(held), "{message}");
        let message = told(world());
        let left = "; pods not evicted: 2, such as default/web-1; pods still terminating: 1, such as default/db-0 (finalizer team/backup)";
        assert!(message.ends_with(left), "{message}");
        let mut partly = world();
        partly.snapshot.pods_complete = PodsComplete::On([].into());
        let message = told(partly);
        assert!(message.ends_with("disrupted)"), "{message}");
    }

    #[test]
    fn a_driver_that_the_taint_keeps_from_unmounting_volumes_is_to_tolerate_it() {
        let driver = |tolerations: Value| {
            let socket = json!([{"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/plugins_registry"}},
                {"name": "socket", "hostPath": {"path": "/var/lib/kubelet/plugins/ebs.csi.aws.com"}}]);
            let spec = json!({"containers": [{"name": "driver"}], "volumes": socket, "tolerations": tolerations});
            DaemonSet::from_object(json!({"metadata": {"name": "ebs-csi-node", "namespace": "system", "uid": "ebs"},
                "spec": {"selector": {"matchLabels": {"app": "ebs"}},
                    "template": {"metadata": {"labels": {"app": "ebs"}}, "spec": spec}}}))
            .unwrap()
        };
        let message = "UnmountVolume.TearDown failed for volume \"pvc-1\": kubernetes.io/csi: driver name ebs.csi.aws.com not found in the list \
                       of registered CSI drivers";
        let told = |key: &str, tolerations: Value, reason: &str| {
            let taint = json!({"key": key, "value": "1795700000", "effect": "NoSchedule", "timeAdded": at("11:00:00")});
            let deleted = json!({"metadata": {"deletionTimestamp": at("11:30:00")}});
            let mut world = world().node("n", json!({"spec": {"taints": [taint]}})).other_pod("db-0", "n", deleted);
            world = world.event("Pod", "db-0", reason, message, "11:59:00");
            world.snapshot.node_agents = vec![driver(tolerations)];
            world.coverage().nodes.iter().find(|node| node.name == "n").unwrap().reasons[0].clone()
        };
        for key in ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"] {
            let reason = told(key, json!([]), "FailedUnmount");
            let toleration = format!("DaemonSet system/ebs-csi-node: {{key: {key}, ");
            assert_eq!(reason.code, ReasonCode::NodeRemovalStuck);
            assert!(
                reason.message.contains("cannot be unmounted without driver ebs.csi.aws.com"),
                "{}",
                reason.message
            );
            assert!(reason.fix.advice.contains(&toleration), "{}", reason.fix.advice);
            assert_eq!(reason.fix.command.unwrap().to_string(), "kubectl edit ds -n system ebs-csi-node");
        }
        let reason = told("karpenter.sh/disrupted", json!([{"operator": "Exists"}]), "FailedUnmount");
        assert!(
            reason.fix.advice.contains("find out why DaemonSet system/ebs-csi-node has no pod"),
            "{}",
            reason.fix.advice
        );
        let reason = told("karpenter.sh/disrupted", json!([]), "FailedMount");
        assert!(reason.fix.advice.starts_with("check what blocks the drain"), "{}", reason.fix.advice);
    }

    #[test]
    fn what_keeps_pods_from_being_evicted_is_named_as_far_as_it_was_read() {
        let taint = json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule", "timeAdded": at("11:00:00")});
        let held = |name: &str, annotations: Value, more: Value| {
            let ready = json!([{"type": "Ready", "status": "True"}]);
            let mut pod = json!({"metadata": {"name": name, "namespace": "shop", "labels": {"app": name}, "annotations": annotations},
                "spec": {"nodeName": "n"}, "status": {"phase": "Running", "conditions": ready}});
            merge(&mut pod, more);
            HeldPod::from_object(pod).unwrap()
        };
        let budget = |app: &str, allowed: i64| {
            from_value(json!({"metadata": {"name": format!("{app}-budget"), "namespace": "shop", "generation": 1},
                "spec": {"selector": {"matchLabels": {"app": app}}},
                "status": {"observedGeneration": 1, "disruptionsAllowed": allowed}}))
            .unwrap()
        };
        let told = |pods: Vec<HeldPod>, budgets: &[(&str, i64)], gap: Option<GapCause>| {
            let mut world = world().node("n", json!({"spec": {"taints": [taint.clone()]}}));
            world.snapshot.held_pods = pods;
            world.snapshot.pod_disruption_budgets =
                budgets.iter().map(|(app, allowed)| budget(app, *allowed)).collect();
            let gap = gap.map(|cause| Gap { kind: Kind::PodDisruptionBudgets, namespace: None, cause });
            world.snapshot.gaps.extend(gap);
            let coverage = world.coverage();
            let message = coverage.nodes.iter().find(|node| node.name == "n").unwrap().reasons[0].message.clone();
            message.split_once("disrupted)").unwrap().1.to_owned()
        };
        let karpenter = json!({"karpenter.sh/do-not-disrupt": "true"});
        let job = || held("job", karpenter.clone(), json!({}));
        let web = |more: Value| held("web", json!({"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}), more);
        assert_eq!(told(vec![job()], &[], None), "; pods with karpenter.sh/do-not-disrupt=true: 1, such as shop/job");
        let named = "; PodDisruptionBudgets that allow no eviction: 1, such as shop/web-budget";
        assert_eq!(told(vec![web(json!({}))], &[("other", 0), ("web", 0)], None), named);
        assert_eq!(told(vec![web(json!({}))], &[("web", 1)], None), "");
        let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        assert_eq!(told(vec![web(unready)], &[("web", 0)], None), named);
        let several = "; pods that are never evicted, because more than one PodDisruptionBudget selects them: 1, such as shop/web";
        assert_eq!(told(vec![web(json!({}))], &[("web", 1), ("web", 1)], None), several);
        // One that is being deleted is told already, and one of a DaemonSet stays.
        let deleted = json!({"metadata": {"deletionTimestamp": at("11:30:00")}});
        let owner = json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true}]}});
        for more in [deleted, owner] {
            assert_eq!(told(vec![web(more)], &[("web", 0)], None), "");
        }
        let forbidden = GapCause::Forbidden("list poddisruptionbudgets.policy".to_owned());
        let unknown =
            "; what keeps them from being evicted is not known (list poddisruptionbudgets.policy is forbidden)";
        assert_eq!(told(vec![web(json!({}))], &[], Some(forbidden)), unknown);
        assert_eq!(told(vec![], &[], Some(GapCause::NotInDump)), "");
    }

    #[test]
    fn pods_that_could_not_be_read_are_not_blamed_on_the_budgets() {
        let taint = json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule", "timeAdded": at("11:00:00")});
        let mut world = world().node("n", json!({"spec": {"taints": [taint]}}));
        world.snapshot.held_pods_unread = Some(GapCause::Forbidden("list pods".to_owned()));
        let coverage = world.coverage();
        let message = &coverage.nodes.iter().find(|node| node.name == "n").unwrap().reasons[0].message;
        let unknown = "; what keeps them from being evicted is not known (list pods is forbidden)";
        assert!(message.ends_with(unknown), "{message}");
    }

    #[test]
    fn a_pod_is_said_to_be_left_only_by_the_autoscaler_that_has_set_the_taint() {
        let (karpenter, cluster_autoscaler) =
            ("karpenter.sh/do-not-disrupt", "cluster-autoscaler.kubernetes.io/safe-to-evict");
        let told = |key: &str, annotations: Value| {
            let taint = json!({"key": key, "effect": "NoSchedule", "timeAdded": at("11:00:00")});
            let mut world = world().node("n", json!({"spec": {"taints": [taint]}}));
            let metadata = json!({"name": "db", "namespace": "shop", "annotations": annotations});
            let pod = json!({"metadata": metadata, "spec": {"nodeName": "n"}});
            world.snapshot.held_pods = vec![HeldPod::from_object(pod).unwrap()];
            let coverage = world.coverage();
            let message = coverage.nodes.iter().find(|node| node.name == "n").unwrap().reasons[0].message.clone();
            let (_, held) = message.split_once(&format!("{key})")).unwrap();
            held.to_owned()
        };
        let both = || json!({karpenter: "true", cluster_autoscaler: "false"});
        let by_karpenter = "; pods with karpenter.sh/do-not-disrupt=true: 1, such as shop/db";
        let by_cluster_autoscaler =
            "; pods with cluster-autoscaler.kubernetes.io/safe-to-evict=false: 1, such as shop/db";
        assert_eq!(told("karpenter.sh/disrupted", both()), by_karpenter);
        assert_eq!(told("ToBeDeletedByClusterAutoscaler", both()), by_cluster_autoscaler);
        assert_eq!(told("ToBeDeletedByClusterAutoscaler", json!({karpenter: "true"})), "");
        assert_eq!(told("karpenter.sh/disrupted", json!({cluster_autoscaler: "false"})), "");
    }
}
