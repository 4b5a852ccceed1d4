//! Cases of nodes that are not eligible.

use serde_json::{Value, json};

use super::{Case, case, labeled, plain, tainted};
use crate::coverage::test_support::{World, at};
use crate::report::node_coverage::NodeState::{Misscheduled, NotEligible, ToBeDeleted};
use crate::report::reason::ReasonCode as R;

fn required(terms: Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

fn zone(operator: &str, values: Value) -> Value {
    json!({"key": "zone", "operator": operator, "values": values})
}

fn selector(world: World, selector: Value) -> World {
    world.template(json!({"nodeSelector": selector}))
}

fn tolerating(world: World, toleration: Value) -> World {
    world.template(json!({"tolerations": [toleration]}))
}

fn not_ready() -> World {
    crate::coverage::test_support::world().node(
        "n",
        json!({
            "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:50:00"),
                "message": "cni plugin not initialized"}]},
        }),
    )
}

/// A pod whose grace period ends at this time.
fn deleted(deadline: &str, finalizers: Value) -> Value {
    json!({"metadata": {"deletionTimestamp": at(deadline), "finalizers": finalizers}})
}

pub(super) fn cases() -> Vec<Case> {
    let silent = json!({
        "spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": at("11:48:00")}]},
    });
    vec![
        case(
            "template_pinned_to_another_node",
            plain().template(json!({"nodeName": "other"})),
            (NotEligible, R::NodeNameMismatch),
            &[],
            "kubectl edit ds -n default agent",
        ),
        case(
            "selector_label_is_missing",
            selector(plain(), json!({"disk": "ssd"})),
            (NotEligible, R::NodeSelectorLabelMissing),
            &["disk=ssd"],
            "kubectl ds preview --if 'label disk=ssd' --node n",
        ),
        case(
            "selector_label_is_there_under_its_present_prefix",
            selector(labeled(json!({"kubernetes.io/os": "linux"})), json!({"beta.kubernetes.io/os": "linux"})),
            (NotEligible, R::NodeSelectorLabelMissing),
            &["beta.kubernetes.io/os", "beta.kubernetes.io/os=linux", "kubernetes.io/os"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "selector_label_has_another_value",
            selector(labeled(json!({"disk": "hdd"})), json!({"disk": "ssd"})),
            (NotEligible, R::NodeSelectorValueMismatch),
            &["hdd", "ssd"],
            "kubectl ds preview --if 'label disk=ssd' --node n",
        ),
        case(
            "selector_value_differs_in_case_alone",
            selector(labeled(json!({"os": "Linux"})), json!({"os": "linux"})),
            (NotEligible, R::NodeSelectorValueMismatch),
            &[],
            "kubectl edit ds -n default agent",
        ),
        case(
            "only_term_fails_on_one_requirement",
            labeled(json!({"zone": "c"}))
                .template(required(json!([{"matchExpressions": [zone("In", json!(["a", "b"]))]}]))),
            (NotEligible, R::AffinityTermMismatch),
            &[],
            "",
        ),
        case(
            "closest_of_two_terms_is_named",
            labeled(json!({"zone": "c"})).template(required(json!([
                {"matchExpressions": [zone("In", json!(["a"])), {"key": "disk", "operator": "Exists"}]},
                {"matchExpressions": [zone("Gt", json!(["3"]))]},
            ]))),
            (NotEligible, R::AffinityTermMismatch),
            &["3"],
            "",
        ),
        case(
            "term_that_is_no_integer_never_matches",
            labeled(json!({"zone": "5"}))
                .template(required(json!([{"matchExpressions": [zone("Gt", json!(["three"]))]}]))),
            (NotEligible, R::AffinityTermInvalid),
            &["1", "matchExpressions[0]", "64"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "empty_term_matches_nothing",
            plain().template(required(json!([{}]))),
            (NotEligible, R::AffinityEmptyTerms),
            &[],
            "kubectl edit ds -n default agent",
        ),
        case(
            "no_schedule_taint_keeps_pods_away",
            tainted("dedicated", "gpu", "NoSchedule"),
            (NotEligible, R::UntoleratedNoSchedule),
            &["dedicated=gpu:NoSchedule"],
            "",
        ),
        case(
            "toleration_with_the_wrong_value_is_named",
            tolerating(
                tainted("dedicated", "gpu", "NoSchedule"),
                json!({"key": "dedicated", "value": "cpu", "effect": "NoSchedule"}),
            ),
            (NotEligible, R::UntoleratedNoSchedule),
            &["dedicated=gpu:NoSchedule"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "no_execute_taint_removes_pods",
            tainted("maintenance", "", "NoExecute"),
            (NotEligible, R::UntoleratedNoExecute),
            &["maintenance:NoExecute"],
            "",
        ),
        case(
            "silent_node_drops_out_of_the_desired_number",
            crate::coverage::test_support::world().node("n", silent.clone()),
            (NotEligible, R::NodeNotReadyTaint),
            &["12m", "node.kubernetes.io/unreachable:NoSchedule"],
            "kubectl describe node n",
        ),
        case(
            "silent_node_with_a_pod_is_news_before_the_misscheduled_pod",
            crate::coverage::test_support::world().node("n", silent).pod("agent-x", "n", json!({})),
            (Misscheduled, R::NodeNotReadyTaint),
            &["12m", "node.kubernetes.io/unreachable:NoSchedule"],
            "kubectl describe node n",
        ),
        case(
            "kubelet_that_stopped_4_seconds_ago_by_the_condition_posted_its_status_before_that",
            crate::coverage::test_support::world().node(
                "n",
                json!({"spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]},
                    "status": {"conditions": [{"type": "Ready", "status": "Unknown",
                        "lastTransitionTime": at("11:59:56"), "lastHeartbeatTime": at("11:59:32")}]}}),
            ),
            (NotEligible, R::NodeNotReadyTaint),
            &["Ready=Unknown for 4s", "28s ago"],
            "kubectl describe node n",
        ),
        case(
            "network_plugin_without_a_toleration_for_nodes_that_are_not_ready",
            not_ready().template(json!({"volumes": [{"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}}]})),
            (NotEligible, R::NotReadyNotTolerated),
            &["CNI", "node.kubernetes.io/not-ready:NoSchedule"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "csi_driver_without_a_toleration_for_nodes_that_are_not_ready",
            not_ready().template(
                json!({"volumes": [{"name": "r", "hostPath": {"path": "/var/lib/kubelet/plugins_registry/"}}]}),
            ),
            (NotEligible, R::NotReadyNotTolerated),
            &["CSI"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "running_network_plugin_on_a_node_that_is_not_ready_is_not_to_be_deleted",
            not_ready().template(json!({"volumes": [{"name": "cni", "hostPath": {"path": "/opt/cni/bin"}}]})).pod(
                "agent-x",
                "n",
                json!({}),
            ),
            (Misscheduled, R::NotReadyNotTolerated),
            &["CNI"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "network_plugin_without_host_network",
            tainted("node.kubernetes.io/network-unavailable", "", "NoSchedule")
                .template(json!({"volumes": [{"name": "cni", "hostPath": {"path": "/opt/cni/bin"}}]})),
            (NotEligible, R::NetworkUnavailable),
            &["CNI"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "label_that_the_kubelet_sets_is_not_to_be_changed",
            selector(plain(), json!({"kubernetes.io/arch": "arm64"})),
            (NotEligible, R::NodeSelectorLabelMissing),
            &["kubernetes.io/arch=arm64"],
            "",
        ),
        case(
            "network_that_is_not_up_keeps_pods_away",
            tainted("node.kubernetes.io/network-unavailable", "", "NoSchedule"),
            (NotEligible, R::NetworkUnavailable),
            &["node.kubernetes.io/network-unavailable"],
            "",
        ),
        case(
            "greater_than_toleration_depends_on_a_gate",
            tolerating(
                tainted("level", "7", "NoSchedule"),
                json!({"key": "level", "operator": "Gt", "value": "5", "effect": "NoSchedule"}),
            ),
            (NotEligible, R::ComparisonOperatorUnknown),
            &["level=7:NoSchedule"],
            "",
        ),
        case(
            "pod_on_a_tainted_node_may_stay",
            tainted("dedicated", "gpu", "NoSchedule").pod("agent-x", "n", json!({})),
            (Misscheduled, R::Misscheduled),
            &["is running but would not be recreated", "dedicated=gpu:NoSchedule"],
            "",
        ),
        case(
            "pod_on_a_tainted_node_that_is_starting_does_not_run",
            tainted("dedicated", "gpu", "NoSchedule").unready_pod(
                "agent-x",
                "n",
                json!({}),
                json!({"status": {"phase": "Pending"}}),
            ),
            (Misscheduled, R::Misscheduled),
            &["is starting but would not be recreated", "dedicated=gpu:NoSchedule"],
            "",
        ),
        case(
            "pod_for_a_tainted_node_that_is_not_scheduled_may_be_deleted",
            tainted("dedicated", "gpu", "NoSchedule").pending_pod("agent-x", "n", "", json!({})),
            (Misscheduled, R::Misscheduled),
            &["is not scheduled and would not be recreated", "dedicated=gpu:NoSchedule"],
            "",
        ),
        case(
            "pod_on_a_tainted_node_that_has_failed_does_not_run",
            tainted("dedicated", "gpu", "NoSchedule").pod("agent-x", "n", json!({"status": {"phase": "Failed"}})),
            (Misscheduled, R::Misscheduled),
            &["has ended, and the controller deletes it without recreating it", "dedicated=gpu:NoSchedule"],
            "",
        ),
        case(
            "pod_on_a_tainted_node_that_is_terminating_is_told_as_that",
            tainted("dedicated", "gpu", "NoSchedule").pod("agent-x", "n", deleted("12:00:20", json!([]))),
            (Misscheduled, R::Terminating),
            &["is terminating; grace period left: 20s"],
            "",
        ),
        case(
            "finalizer_of_a_pod_on_a_tainted_node_is_what_keeps_it",
            tainted("dedicated", "gpu", "NoSchedule").pod(
                "agent-x",
                "n",
                deleted("11:59:00", json!(["example.com/hold"])),
            ),
            (Misscheduled, R::StuckTerminating),
            &["finalizer example.com/hold"],
            "kubectl get pod -o yaml -n default agent-x",
        ),
        case(
            "pod_on_a_node_that_no_longer_matches_ends",
            selector(plain().pod("agent-x", "n", deleted("12:00:20", json!([]))), json!({"disk": "ssd"})),
            (ToBeDeleted, R::Terminating),
            &["is terminating; grace period left: 20s"],
            "",
        ),
        case(
            "pod_on_a_node_that_no_longer_matches_is_deleted",
            selector(plain().pod("agent-x", "n", json!({})), json!({"disk": "ssd"})),
            (ToBeDeleted, R::PodOnIneligibleNode),
            &["disk=ssd"],
            "",
        ),
        case(
            "label_that_the_only_term_forbids",
            labeled(json!({"zone": "c"}))
                .template(required(json!([{"matchExpressions": [zone("DoesNotExist", json!([]))]}]))),
            (NotEligible, R::AffinityTermMismatch),
            &["!zone"],
            "",
        ),
        case(
            "value_that_the_only_term_forbids",
            labeled(json!({"zone": "c"}))
                .template(required(json!([{"matchExpressions": [zone("NotIn", json!(["c"]))]}]))),
            (NotEligible, R::AffinityTermMismatch),
            &["zone notin (c)"],
            "",
        ),
        case(
            "node_that_its_autoscaler_has_been_removing_for_days",
            tainted("ToBeDeletedByClusterAutoscaler", "1771588800", "NoSchedule"),
            (NotEligible, R::NodeRemovalStuck),
            &["9d"],
            "kubectl describe node n",
        ),
        case(
            "only_term_fails_on_two_requirements",
            plain().template(required(json!([
                {"matchExpressions": [{"key": "disk", "operator": "Exists"}, zone("In", json!(["a"]))]}]))),
            (NotEligible, R::AffinityTermMismatch),
            &["requires disk and zone in (a)"],
            "",
        ),
        case(
            "label_of_the_affinity_is_there_under_its_former_prefix",
            labeled(json!({"beta.kubernetes.io/arch": "arm64"})).template(required(json!([
                {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]}]))),
            (NotEligible, R::AffinityTermMismatch),
            &["beta.kubernetes.io/arch"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "term_that_gives_exists_a_value_never_matches",
            labeled(json!({"zone": "5"}))
                .template(required(json!([{"matchExpressions": [zone("Exists", json!(["5"]))]}]))),
            (NotEligible, R::AffinityTermInvalid),
            &["matchExpressions[0]"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "label_that_the_only_term_requires",
            plain().template(required(json!([{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]))),
            (NotEligible, R::AffinityTermMismatch),
            &["disk"],
            "",
        ),
        case(
            "term_without_a_value_never_matches",
            labeled(json!({"zone": "c"})).template(required(json!([{"matchExpressions": [zone("NotIn", json!([]))]}]))),
            (NotEligible, R::AffinityTermInvalid),
            &["matchExpressions[0]"],
            "kubectl edit ds -n default agent",
        ),
    ]
}

/// The expectation for a node with a startup taint: a part of the advice, or the whole command.
enum Expected {
    Advice(&'static str),
    Command(&'static str),
}

#[test]
fn a_startup_taint_is_followed_to_the_pod_that_removes_it() {
    use crate::model::daemon_set::DaemonSet;

    let agent = |domain: &str, tolerations: Value| {
        let spec = json!({"containers": [{"name": "cilium-agent", "args": [format!("--taint-domain={domain}")]}], "tolerations": tolerations});
        DaemonSet::from_object(json!({"metadata": {"name": "net", "namespace": "system", "uid": "net"},
            "spec": {"selector": {"matchLabels": {"app": "net"}}, "template": {"metadata": {"labels": {"app": "net"}}, "spec": spec}}}))
        .unwrap()
    };
    let anything = json!([{"operator": "Exists"}]);
    let ready = |status: &str, since: &str| {
        json!({"metadata": {"namespace": "system", "labels": {"app": "net"}, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "net", "uid": "net", "controller": true}]},
            "status": {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": at(since)}]}})
    };
    let (old, young, failing) = (ready("True", "11:10:00"), ready("True", "11:58:00"), ready("False", "11:10:00"));
    let put_back = || Expected::Advice("restart the pod of that DaemonSet on the node");
    let of_operator = Expected::Command("kubectl get pods -A -l 'io.cilium/app=operator'");
    let starting = || Expected::Command("kubectl ds coverage -n system --node n net");
    // The taint's key, what removes it, that DaemonSet's tolerations, and its pod on the node.
    for (key, domain, tolerations, pod, expected) in [
        ("node.cilium.io/agent-not-ready", "", &anything, Some(&old), of_operator),
        (
            "node.cilium.io/agent-not-ready",
            "",
            &anything,
            Some(&old),
            Expected::Advice("cilium-operator removes it for"),
        ),
        ("efs.csi.aws.com/agent-not-ready", "efs.csi.aws.com", &anything, Some(&old), put_back()),
        ("ebs.csi.aws.com/agent-not-ready", "ebs.csi.aws.com", &anything, Some(&old), Expected::Advice("was put back")),
        ("ebs.csi.aws.com/agent-not-ready", "ebs.csi.aws.com", &anything, Some(&young), starting()),
        ("ebs.csi.aws.com/agent-not-ready", "ebs.csi.aws.com", &anything, Some(&failing), starting()),
        ("ebs.csi.aws.com/agent-not-ready", "ebs.csi.aws.com", &anything, None, starting()),
        ("disk.example.com/not-ready", "disk.example.com", &json!([]), None, Expected::Advice("system/net")),
        (
            "disk.example.com/not-ready",
            "efs.csi.aws.com",
            &anything,
            Some(&old),
            Expected::Advice("add to the template's tolerations"),
        ),
        (
            "example.com/dedicated",
            "example.com",
            &anything,
            Some(&old),
            Expected::Advice("add to the template's tolerations"),
        ),
    ] {
        let mut world = tainted(key, "", "NoSchedule");
        world.snapshot.node_agents = vec![agent(domain, tolerations.clone())];
        if let Some(pod) = pod {
            world = world.other_pod("net-x", "n", pod.clone());
        }
        let node = world.only_node();
        let reason = &node.reasons[0];
        let said = format!("{}; {}", reason.message, reason.fix.advice);
        let command = reason.fix.command.as_ref().map(ToString::to_string).unwrap_or_default();
        match expected {
            Expected::Advice(part) => assert!(said.contains(part), "{key} {domain}: {part}: {said}"),
            Expected::Command(whole) => assert_eq!(command, whole, "{key} {domain}: {said}"),
        }
        // If the agent only has to start, tolerating the taint is not the advice.
        assert_eq!(
            said.contains("toleration"),
            !command.contains("coverage") && !said.contains("put back"),
            "{key}: {said}"
        );
    }
}
