//! What a taint that is not tolerated does on a node, and what becomes of it.

use super::admission;
use super::finding::{Finding, describe_node, edit};
use super::node_health;
use super::node_plugin::{NodePlugin, with_network_plugin};
use super::node_removal;
use super::sentence::Sentence;
use crate::coverage::startup_taints::{Startup, startup};
use crate::facts::controller::Controller;
use crate::facts::index::Index;
use crate::facts::node_removal::{is_by_autoscaler, is_of_cluster_autoscaler};
use crate::model::daemon_set::DaemonSet;
use crate::model::node::{Node, Taint};
use crate::model::startup_taint::{UNINITIALIZED, Untainter, initializes_nodes, untainter};
use crate::report::fix::{Command, Fix};
use crate::report::reason::ReasonCode;
use crate::scheduling::taints::{TaintOutcome, repels};

/// Finds what a taint that is not tolerated does; `near` is what is wrong with the toleration that was likely meant.
pub fn untolerated(
    index: &Index<'_>,
    daemon_set: &DaemonSet,
    node: &Node,
    outcome: &TaintOutcome,
    near: Option<&str>,
) -> Finding {
    let taint = &outcome.taint;
    match (taint.key.as_str(), taint.effect.as_str()) {
        _ if outcome.depends_on_gate => comparison_operator_unknown(taint),
        (key, _) if is_by_autoscaler(key) => node_removal::finding(index, node, taint),
        ("node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable", "NoSchedule") => {
            node_not_ready_taint(index, daemon_set, node, taint)
        }
        ("node.kubernetes.io/network-unavailable", "NoSchedule") => network_unavailable(index, daemon_set, node),
        (UNINITIALIZED, _) if near.is_none() && initializes_nodes(daemon_set) => {
            let message = format!(
                "taint {taint} is not tolerated by the cloud controller manager, which removes it: it waits for itself"
            );
            let advice = format!("add to the template's tolerations: {}", toleration_for(taint));
            Finding::mistake(daemon_set, ReasonCode::UntoleratedNoSchedule, message, advice)
        }
        (_, effect) => {
            let (code, does) = match effect {
                "NoExecute" => (ReasonCode::UntoleratedNoExecute, "evicts pods and excludes the node"),
                _ => (ReasonCode::UntoleratedNoSchedule, "is not tolerated"),
            };
            let message = format!("taint {taint} {does}");
            let class = admission::runtime_class(index.snapshot, &daemon_set.spec.template.spec)
                .filter(|class| class.scheduling.as_ref().is_some_and(|it| !repels(taint, &it.tolerations)));
            if let Some(class) = class {
                let name = &class.metadata.name;
                let message =
                    format!("{message}; runtimeclass {name} does, which admission adds only to pods that are created");
                let advice = format!("add to the template's tolerations, too: {}", toleration_for(taint));
                return Finding::mistake(daemon_set, code, message, advice);
            }
            let Some(wrong) = near else {
                let of_startup =
                    startup(index, node, taint).map(|startup| of_startup(daemon_set, node, taint, code, startup));
                return of_startup.unwrap_or_else(|| Finding::new(code, message, taint_advice(taint)));
            };
            let message = format!("{message}; a toleration comes close, but has {wrong}");
            let advice = format!("if it was meant for this taint, correct it: {}", toleration_for(taint));
            Finding::mistake(daemon_set, code, message, advice)
        }
    }
}

/// Finds what becomes of a taint that a DaemonSet removes once it runs: to tolerate it elsewhere leaves the node closed to all other
/// pods.
fn of_startup(daemon_set: &DaemonSet, node: &Node, taint: &Taint, code: ReasonCode, startup: Startup<'_>) -> Finding {
    let is_same =
        |remover: &DaemonSet| remover.metadata.is_named(&daemon_set.metadata.namespace, &daemon_set.metadata.name);
    let untainter = untainter(&taint.key);
    let begin = |remover: &DaemonSet| match untainter {
        None => format!("taint {taint} is not tolerated; DaemonSet {} removes it", remover.metadata.full_name()),
        Some(untainter) => format!(
            "taint {taint} is not tolerated; {} removes it for DaemonSet {}",
            untainter.name,
            remover.metadata.full_name()
        ),
    };
    let when = if untainter.is_none() { "when it starts" } else { "when its pod is ready" };
    let on_node = |remover: &DaemonSet| {
        let coverage = Command::kubectl(&["ds", "coverage"]).namespace(&remover.metadata.namespace);
        coverage.flag("--node", &node.metadata.name).name(&remover.metadata.name)
    };
    match startup {
        Startup::Unread(remover) => {
            let message = format!("{} {when} there", begin(remover));
            let helps = match untainter {
                None => "restarting that pod".to_owned(),
                Some(untainter) => format!("repairing {}", untainter.name),
            };
            let advice = format!(
                "see whether its pod is ready there: if so, the taint was not removed, or was put back since, and {helps} or removing the \
                 taint helps: it keeps all other pods off the node"
            );
            Finding { likely_mistake: true, ..Finding::new(code, message, advice).with_command(on_node(remover)) }
        }
        Startup::PutBack { remover, pod, ready_for } => {
            let message = Sentence::from(format!("{} {when}, and its pod ", begin(remover)));
            let message = message.name(&pod.metadata.name, "there").words(" has been ready for ").age(ready_for);
            let message = message.words(": the taint was not removed then, or was put back since");
            let finding = match untainter {
                None => {
                    let advice = "restart the pod of that DaemonSet on the node, or remove the taint: it keeps all other pods off the node";
                    Finding::new(code, message, advice)
                }
                Some(Untainter { name, label }) => {
                    let advice = format!(
                        "check the pods of {name}, and their log, or remove the taint: it keeps all other pods off the node"
                    );
                    Finding::new(code, message, advice)
                        .with_command(Command::kubectl(&["get", "pods", "-A"]).flag("-l", label))
                }
            };
            Finding { likely_mistake: true, keeps_node_waiting: true, ..finding }
        }
        Startup::Starting(remover) => {
            let message = format!("{} once it is ready on the node", begin(remover));
            let advice = "wait; if it takes long, see why it is not ready there";
            Finding::new(code, message, advice).with_command(on_node(remover))
        }
        Startup::Kept { remover, .. } if is_same(remover) => {
            let message = match untainter {
                None => format!("taint {taint} is not tolerated by this DaemonSet, which removes it once it runs"),
                Some(it) => format!(
                    "taint {taint} is not tolerated by this DaemonSet, for which {} removes it once it runs",
                    it.name
                ),
            };
            let advice = format!("add to the template's tolerations: {}", toleration_for(taint));
            Finding { keeps_node_waiting: true, ..Finding::mistake(daemon_set, code, message, advice) }
        }
        Startup::Kept { remover, by, circle } => {
            let taints: Vec<String> = by.iter().map(ToString::to_string).collect();
            let message = match taints.as_slice() {
                [] => format!("{} once it runs, and it does not match the node", begin(remover)),
                taints => format!("{} once it runs, and it does not tolerate {}", begin(remover), taints.join(" and ")),
            };
            let mut advice = match by.as_slice() {
                [] => format!("check the nodeSelector and affinity of DaemonSet {}", remover.metadata.full_name()),
                taints => format!(
                    "add to the tolerations of DaemonSet {}: {}",
                    remover.metadata.full_name(),
                    taints.iter().map(toleration_for).collect::<Vec<_>>().join(", ")
                ),
            };
            let mut message = Sentence::from(message);
            if let [_, .., (last, _)] = circle.as_slice() {
                let names: Vec<String> = circle.iter().map(|(waiting, _)| waiting.metadata.full_name()).collect();
                message = message.words(format!("; {} wait for each other", names.join(" and ")));
                let toleration = toleration_for(taint);
                advice = format!(
                    "{advice}; or to those of {}: {toleration}; either one is enough",
                    last.metadata.full_name()
                );
            }
            Finding { likely_mistake: true, ..Finding::new(code, message, advice).with_command(edit(remover)) }
        }
    }
}

/// Finds that an `Lt` or `Gt` toleration would decide, which takes a feature gate.
fn comparison_operator_unknown(taint: &Taint) -> Finding {
    Finding::new(
        ReasonCode::ComparisonOperatorUnknown,
        format!(
            "taint {taint} is tolerated only by an Lt or Gt toleration, which needs feature gate \
             TaintTolerationComparisonOperators"
        ),
        "use operator Equal or Exists",
    )
}

/// Finds that a node that is not ready is excluded from the desired number; that is news for a DaemonSet without which
/// the node cannot become ready.
fn node_not_ready_taint(index: &Index<'_>, daemon_set: &DaemonSet, node: &Node, taint: &Taint) -> Finding {
    let now = index.now();
    let state = node_health::not_ready(index, node).unwrap_or_else(|| Sentence::from("node was not ready"));
    if taint.key == "node.kubernetes.io/not-ready"
        && let Some(plugin) = NodePlugin::of(daemon_set)
        && node_health::may_wait_for_plugin(node)
    {
        let message = state.words(format!(
            "; this is {}, but it does not tolerate {taint}, so the node may be waiting for it",
            plugin.noun()
        ));
        let advice = format!("add to the template's tolerations: {}", toleration_for(taint));
        return Finding::mistake(daemon_set, ReasonCode::NotReadyNotTolerated, message, advice);
    }
    if node.is_ready() {
        let message = format!(
            "the node is ready, but still has taint {taint}, which excludes it from desiredNumberScheduled: kube-controller-manager removes it"
        );
        let Fix { advice, command } = Controller::Kubernetes.check();
        let advice = format!("wait; if the taint remains, {advice}");
        return Finding::new(ReasonCode::NodeNotReadyTaint, message, advice).with_command(command);
    }
    let message = state.words(format!("; taint {taint} excludes the node from desiredNumberScheduled"));
    Finding::new(ReasonCode::NodeNotReadyTaint, message, node_health::repair(now, node))
        .with_command(describe_node(node))
}

/// Finds that the node's network is not up.
fn network_unavailable(index: &Index<'_>, daemon_set: &DaemonSet, node: &Node) -> Finding {
    const MESSAGE: &str = "the node's network is not up (taint node.kubernetes.io/network-unavailable), and the pods do \
                           not use the host network";
    if NodePlugin::of(daemon_set) == Some(NodePlugin::Network) {
        let message = format!("{MESSAGE}, although this is a network plugin (CNI)");
        let advice = "set hostNetwork: true in the template";
        return Finding::mistake(daemon_set, ReasonCode::NetworkUnavailable, message, advice);
    }
    const PLUGIN: &str = "check the network plugin on the node";
    let condition = node.condition("NetworkUnavailable").filter(|condition| !condition.reason.is_empty());
    let Some(condition) = condition else {
        let finding = Finding::new(ReasonCode::NetworkUnavailable, MESSAGE, PLUGIN);
        return with_network_plugin(index, daemon_set, Some(node), finding);
    };
    let mut message = Sentence::from(MESSAGE).words(format!("; condition NetworkUnavailable={}: ", condition.status));
    message = message.said(format!("{} ({})", condition.reason, condition.message));
    let finding = |message, advice: &str| {
        Finding::new(ReasonCode::NetworkUnavailable, message, advice.to_owned()).with_command(describe_node(node))
    };
    if condition.status != "True" {
        return finding(message, "check kube-controller-manager: it removes the taint of a node with such a condition");
    }
    if condition.reason != "NoRouteCreated" {
        return with_network_plugin(index, daemon_set, Some(node), finding(message, PLUGIN));
    }
    // `reconcile`, controllers/route/route_controller.go of k8s.io/cloud-provider, release 1.37.2; older ones put the name for the UID.
    let events = index.events_named("Node", "", &node.metadata.name);
    if let Some(event) = events.iter().find(|event| event.reason == "FailedToCreateRoute") {
        message = message.words("; ").event(event, index.now());
    }
    let advice = "check the route controller of the cloud provider (cloud-controller-manager), and its log: it makes the route to the pods of \
                  the node; if the network plugin needs no such routes, run it with --configure-cloud-routes=false";
    finding(message, advice)
}

/// Returns what to do about a taint: wait for whoever set it for the time being, or tolerate it.
fn taint_advice(taint: &Taint) -> String {
    match taint.key.as_str() {
        "node.kubernetes.io/out-of-service" => {
            "remove the taint once the node is back in service; do not tolerate it".to_owned()
        }
        UNINITIALIZED => {
            "wait for the cloud controller manager to initialize the node; if it does not, check its pods".to_owned()
        }
        "node.cloudprovider.kubernetes.io/shutdown" => "start the machine, or remove it".to_owned(),
        "karpenter.sh/unregistered" => "wait for the node to register".to_owned(),
        "node.cluster.x-k8s.io/uninitialized" => {
            "wait for Cluster API to initialize the node; if it does not, check its controllers in the management cluster".to_owned()
        }
        // Whoever else tolerates it runs on a node that is not set up yet.
        key if key.ends_with("/agent-not-ready") => {
            let (domain, _) = key.split_once('/').unwrap_or_default();
            format!("see why the agent of {domain} has not removed the taint: it does so once its pod runs on the node")
        }
        // `StartupTaintPrefix` and its former name `IgnoreTaintPrefix`, cluster-autoscaler/utils/taints/taints.go.
        key if ["startup-taint", "ignore-taint"]
            .iter()
            .any(|name| key.strip_prefix(name).is_some_and(|rest| rest.starts_with(".cluster-autoscaler.kubernetes.io/"))) =>
        {
            "wait for what the node starts with to remove the taint; if it stays, see why that is not ready there".to_owned()
        }
        "cloud.google.com/impending-node-termination" => "wait: the machine of the node is about to be terminated".to_owned(),
        key if key.starts_with(INTERRUPTED) => format!(
            "wait: the machine of the node is about to be interrupted; if the node should run these pods until then, add to the template's \
             tolerations: {}",
            toleration_for(taint)
        ),
        _ => format!("if the node should run these pods, add to the template's tolerations: {}", toleration_for(taint)),
    }
}

/// What the keys of AWS Node Termination Handler begin with; the value is the ID of an event (pkg/node/node.go).
const INTERRUPTED: &str = "aws-node-termination-handler/";

/// Writes the toleration for a taint as YAML. A value that is a time or the ID of an event is of one node and never seen again.
pub(super) fn toleration_for(taint: &Taint) -> String {
    let Taint { key, value, effect, .. } = taint;
    let is_unique = key.starts_with(INTERRUPTED) || is_of_cluster_autoscaler(key);
    let matching = match value.is_empty() || is_unique {
        true => "operator: Exists".to_owned(),
        false => format!("value: {value:?}"),
    };
    format!("{{key: {key}, {matching}, effect: {effect}}}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::coverage::test_support::world;

    #[test]
    fn a_taint_that_passes_or_warns_is_not_to_be_tolerated() {
        for (key, tolerate) in [
            ("dedicated", true),
            ("node.kubernetes.io/out-of-service", false),
            ("node.cloudprovider.kubernetes.io/uninitialized", false),
            ("node.cloudprovider.kubernetes.io/shutdown", false),
            ("ToBeDeletedByClusterAutoscaler", false),
            ("karpenter.sh/disrupted", false),
            ("karpenter.sh/unregistered", false),
            ("startup-taint.cluster-autoscaler.kubernetes.io/cni", false),
            ("ignore-taint.cluster-autoscaler.kubernetes.io/cni", false),
            ("cloud.google.com/impending-node-termination", false),
        ] {
            let taint = json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}});
            let advice = &world().node("n", taint).only_node().reasons[0].fix.advice;
            assert_eq!(advice.contains(&format!("key: {key}")), tolerate, "{key}: {advice}");
        }
    }

    #[test]
    fn a_value_that_no_other_node_has_is_not_to_be_tolerated() {
        for (key, is_value) in [
            ("dedicated", true),
            ("aws-node-termination-handler/spot-itn", false),
            ("aws-node-termination-handler/scheduled-maintenance", false),
            ("DeletionCandidateOfClusterAutoscaler", false),
        ] {
            let taint = json!({"spec": {"taints": [{"key": key, "value": "1795700000", "effect": "NoSchedule"}]}});
            let advice = &world().node("n", taint).only_node().reasons[0].fix.advice;
            let toleration = match is_value {
                true => format!("{{key: {key}, value: \"1795700000\", effect: NoSchedule}}"),
                false => format!("{{key: {key}, operator: Exists, effect: NoSchedule}}"),
            };
            assert!(advice.contains(&toleration), "{key}: {advice}");
        }
    }

    /// The controller has no pod yet to which admission could add it.
    #[test]
    fn a_toleration_that_only_the_runtime_class_has_is_to_be_in_the_template() {
        let exists = || json!({"key": "kata", "operator": "Exists", "effect": "NoSchedule"});
        for (class, tolerations, effect, is_told) in [
            ("kata", json!([exists()]), "NoSchedule", true),
            ("kata", json!([{"operator": "Exists"}]), "NoSchedule", true),
            ("kata", json!([{"key": "kata", "operator": "Exists"}]), "NoExecute", true),
            ("kata", json!([{"key": "kata", "value": "true"}]), "NoSchedule", true),
            ("kata", json!([{"key": "kata", "value": "no"}]), "NoSchedule", false),
            ("kata", json!([exists()]), "NoExecute", false),
            ("gvisor", json!([exists()]), "NoSchedule", false),
            ("kata", json!([]), "NoSchedule", false),
        ] {
            let node = json!({"spec": {"taints": [{"key": "kata", "value": "true", "effect": effect}]}});
            let mut world = world().template(json!({"runtimeClassName": class})).node("n", node);
            let kata = json!({"metadata": {"name": "kata"}, "scheduling": {"tolerations": tolerations}});
            world.snapshot.runtime_classes.push(serde_json::from_value(kata).unwrap());
            let reason = world.only_node().reasons.remove(0);
            assert_eq!(reason.message.contains("runtimeclass kata does"), is_told, "{}", reason.message);
            assert!(reason.fix.advice.contains("{key: kata"), "{}", reason.fix.advice);
        }
    }
}
