//! Cases of nodes that are not eligible.

use serde_json::{Value, json};

use super::{Case, case, labelled, plain, tainted};
use crate::coverage::test_support::{World, at};
use crate::report::coverage::NodeState::{Misscheduled, NotEligible, ToBeDeleted};
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
            "the template pins its pods to node other",
            "remove nodeName: kubectl patch ds agent -n default --type=json \
             -p '[{\"op\":\"remove\",\"path\":\"/spec/template/spec/nodeName\"}]'",
        ),
        case(
            "selector_label_is_missing",
            selector(plain(), json!({"disk": "ssd"})),
            (NotEligible, R::NodeSelectorLabelMissing),
            "label disk is missing, needs disk=ssd",
            "if pods belong there: kubectl label node n disk=ssd",
        ),
        case(
            "selector_label_is_there_under_its_present_prefix",
            selector(labelled(json!({"kubernetes.io/os": "linux"})), json!({"beta.kubernetes.io/os": "linux"})),
            (NotEligible, R::NodeSelectorLabelMissing),
            "label beta.kubernetes.io/os is missing, needs beta.kubernetes.io/os=linux; kubernetes.io/os is there",
            "if pods belong there: kubectl label node n beta.kubernetes.io/os=linux",
        ),
        case(
            "selector_label_has_another_value",
            selector(labelled(json!({"disk": "hdd"})), json!({"disk": "ssd"})),
            (NotEligible, R::NodeSelectorValueMismatch),
            "label disk is hdd, needs ssd",
            "if pods belong there: kubectl label node n disk=ssd --overwrite",
        ),
        case(
            "selector_value_differs_in_case_alone",
            selector(labelled(json!({"os": "Linux"})), json!({"os": "linux"})),
            (NotEligible, R::NodeSelectorValueMismatch),
            "label os is Linux, needs linux (a slip of the pen?)",
            "if pods belong there: kubectl label node n os=linux --overwrite",
        ),
        case(
            "only_term_fails_on_one_requirement",
            labelled(json!({"zone": "c"}))
                .template(required(json!([{"matchExpressions": [zone("In", json!(["a", "b"]))]}]))),
            (NotEligible, R::AffinityTermMismatch),
            "node affinity fails on zone in (a,b), which is c",
            "if pods belong there: kubectl label node n zone=a --overwrite",
        ),
        case(
            "closest_of_two_terms_is_named",
            labelled(json!({"zone": "c"})).template(required(json!([
                {"matchExpressions": [zone("In", json!(["a"])), {"key": "disk", "operator": "Exists"}]},
                {"matchExpressions": [zone("Gt", json!(["3"]))]},
            ]))),
            (NotEligible, R::AffinityTermMismatch),
            "no term of the node affinity matches; the closest fails on zone > 3, which is c",
            "edit the term: kubectl edit ds agent -n default",
        ),
        case(
            "term_that_is_no_integer_never_matches",
            labelled(json!({"zone": "5"}))
                .template(required(json!([{"matchExpressions": [zone("Gt", json!(["three"]))]}]))),
            (NotEligible, R::AffinityTermInvalid),
            "term 1 of the node affinity can never match: matchExpressions[0]: Gt needs an integer of 64 bits, not \"three\"",
            "correct the value: kubectl edit ds agent -n default",
        ),
        case(
            "empty_term_matches_nothing",
            plain().template(required(json!([{}]))),
            (NotEligible, R::AffinityEmptyTerms),
            "the required node affinity has no term with a requirement, so it matches no node",
            "remove it: kubectl patch ds agent -n default --type=json -p '[{\"op\":\"remove\",\"path\":\
             \"/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\"}]'",
        ),
        case(
            "no_schedule_taint_keeps_pods_away",
            tainted("dedicated", "gpu", "NoSchedule"),
            (NotEligible, R::UntoleratedNoSchedule),
            "taint dedicated=gpu:NoSchedule is not tolerated",
            "if pods belong there, add to tolerations: {key: dedicated, value: \"gpu\", effect: NoSchedule}",
        ),
        case(
            "toleration_with_the_wrong_value_is_named",
            tolerating(
                tainted("dedicated", "gpu", "NoSchedule"),
                json!({"key": "dedicated", "value": "cpu", "effect": "NoSchedule"}),
            ),
            (NotEligible, R::UntoleratedNoSchedule),
            "taint dedicated=gpu:NoSchedule is not tolerated; a toleration comes close, but has the value \"cpu\", \
             where the taint has \"gpu\"",
            "if pods belong there, add to tolerations: {key: dedicated, value: \"gpu\", effect: NoSchedule}",
        ),
        case(
            "no_execute_taint_removes_pods",
            tainted("maintenance", "", "NoExecute"),
            (NotEligible, R::UntoleratedNoExecute),
            "taint maintenance:NoExecute removes pods and keeps them away",
            "if pods belong there, add to tolerations: {key: maintenance, operator: Exists, effect: NoExecute}",
        ),
        case(
            "silent_node_drops_out_of_the_desired_number",
            crate::coverage::test_support::world().node("n", silent.clone()),
            (NotEligible, R::NodeNotReadyTaint),
            "kubelet silent for 12m; taint node.kubernetes.io/unreachable:NoSchedule takes it out of the desired number",
            "repair the node, or if it is gone for good: kubectl delete node n",
        ),
        case(
            "silent_node_with_a_pod_is_news_before_the_misscheduled_pod",
            crate::coverage::test_support::world().node("n", silent).pod("agent-x", "n", json!({})),
            (Misscheduled, R::NodeNotReadyTaint),
            "kubelet silent for 12m; taint node.kubernetes.io/unreachable:NoSchedule takes it out of the desired number",
            "repair the node, or if it is gone for good: kubectl delete node n",
        ),
        case(
            "network_that_is_not_up_keeps_pods_away",
            tainted("node.kubernetes.io/network-unavailable", "", "NoSchedule"),
            (NotEligible, R::NetworkUnavailable),
            "the node's network is not up (taint node.kubernetes.io/network-unavailable), and the pods do not use the \
             node's own network",
            "fix the network plugin; if this is the network plugin itself, set hostNetwork: true",
        ),
        case(
            "greater_than_toleration_depends_on_a_gate",
            tolerating(
                tainted("level", "7", "NoSchedule"),
                json!({"key": "level", "operator": "Gt", "value": "5", "effect": "NoSchedule"}),
            ),
            (NotEligible, R::ComparisonOperatorUnknown),
            "taint level=7:NoSchedule is tolerated by an Lt or Gt toleration only, which counts only with the feature \
             gate TaintTolerationComparisonOperators",
            "use operator Equal or Exists",
        ),
        case(
            "pod_on_a_tainted_node_may_stay",
            tainted("dedicated", "gpu", "NoSchedule").pod("agent-x", "n", json!({})),
            (Misscheduled, R::Misscheduled),
            "pod agent-x runs, and would not be made again: taint dedicated=gpu:NoSchedule is not tolerated",
            "nothing, if it may stay; to be rid of it: kubectl delete pod -n default agent-x; if pods belong there, add \
             to tolerations: {key: dedicated, value: \"gpu\", effect: NoSchedule}",
        ),
        case(
            "pod_on_a_node_that_no_longer_matches_is_deleted",
            selector(plain().pod("agent-x", "n", json!({})), json!({"disk": "ssd"})),
            (ToBeDeleted, R::PodOnIneligibleNode),
            "pod agent-x will be deleted: label disk is missing, needs disk=ssd",
            "wait; if it stays, check kube-controller-manager",
        ),
    ]
}
