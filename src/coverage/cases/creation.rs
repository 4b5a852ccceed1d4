//! Cases of eligible nodes without a pod.

use serde_json::json;

use super::{Case, case, plain};
use crate::coverage::test_support::{World, at};
use crate::model::snapshot::{Gap, GapCause, Kind};
use crate::report::coverage::NodeState::{Missing, Terminating};
use crate::report::reason::ReasonCode as R;

const CHECK_CONTROLLER: &str =
    "check kube-controller-manager: kubectl get lease -n kube-system kube-controller-manager -o yaml";

fn stale_lease(mut world: World) -> World {
    let lease = json!({
        "metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
        "spec": {"renewTime": at("11:48:00"), "leaseDurationSeconds": 15},
    });
    world.snapshot.leases.push(serde_json::from_value(lease).unwrap());
    world
}

fn with_classes(mut world: World) -> World {
    let class = |name: &str| json!({"metadata": {"name": name}});
    world.snapshot.priority_classes.push(serde_json::from_value(class("system-node-critical")).unwrap());
    world.snapshot.runtime_classes.push(serde_json::from_value(class("gvisor")).unwrap());
    world
}

fn without_events(mut world: World) -> World {
    let cause = GapCause::Forbidden("list events".to_owned());
    world.snapshot.gaps.push(Gap { kind: Kind::Events, namespace: None, cause });
    world
}

pub(super) fn cases() -> Vec<Case> {
    let refused = |message: &str| plain().refusal(message);
    vec![
        case(
            "quota_is_used_up",
            refused("pods \"agent-x\" is forbidden: exceeded quota: few-pods, requested: pods=1, used: pods=5, limited: pods=5"),
            (Missing, R::QuotaExceeded),
            "quota few-pods is used up: asks for pods=1, used pods=5, limited to pods=5 (60s ago)",
            "raise it or free some: kubectl edit resourcequota few-pods -n default",
        ),
        case(
            "quota_demands_a_limit",
            refused("pods \"agent-x\" is forbidden: failed quota: memory: must specify limits.memory for: agent"),
            (Missing, R::QuotaExceeded),
            "quota memory demands of every pod: must specify limits.memory for: agent (60s ago)",
            "set those in the template; see kubectl describe resourcequota memory -n default",
        ),
        case(
            "quota_of_a_priority_class_is_not_covered",
            refused("pods \"agent-x\" is forbidden: insufficient quota to match these scopes: [{PriorityClass In [high]}]"),
            (Missing, R::QuotaExceeded),
            "no quota of the namespace allows to match these scopes: [{PriorityClass In [high]}] (60s ago)",
            "make a quota that covers it: kubectl get resourcequota -n default",
        ),
        case(
            "quota_without_a_status_lets_nothing_in",
            refused("pods \"agent-x\" is forbidden: status unknown for quota: few-pods, resources: pods"),
            (Missing, R::QuotaExceeded),
            "the usage of quota few-pods is not known yet, and until then nothing is let in (60s ago)",
            "wait, or check kube-controller-manager: kubectl get resourcequota few-pods -n default",
        ),
        case(
            "limit_range_is_exceeded",
            refused("pods \"agent-x\" is forbidden: maximum memory usage per Container is 64Mi, but limit is 128Mi"),
            (Missing, R::LimitRangeViolation),
            "a LimitRange of namespace default refuses the pod: maximum memory usage per Container is 64Mi, but limit is \
             128Mi (60s ago)",
            "change the template's resources, or the limits: kubectl describe limitrange -n default",
        ),
        case(
            "pod_security_is_violated",
            refused(
                "pods \"agent-x\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != \
                 false (container \"agent\" must set it), seccompProfile (pod or container must set it)",
            ),
            (Missing, R::PodSecurityDenied),
            "namespace default enforces pod security restricted:latest: allowPrivilegeEscalation != false, seccompProfile \
             (60s ago)",
            "set the securityContext, or: kubectl label namespace default \
             pod-security.kubernetes.io/enforce=privileged --overwrite",
        ),
        case(
            "webhook_refuses",
            refused("admission webhook \"images.example.com\" denied the request: no signature"),
            (Missing, R::WebhookDenied),
            "admission webhook images.example.com refused the pod: no signature (60s ago)",
            "change the template as it asks, or the webhook's rule",
        ),
        case(
            "admission_policy_refuses",
            refused(
                "pods \"agent-x\" is forbidden: ValidatingAdmissionPolicy 'owner' with binding 'owner' denied request: no \
                 owner",
            ),
            (Missing, R::WebhookDenied),
            "admission policy owner refused the pod: no owner (60s ago)",
            "change the template as it asks, or the policy: \
             kubectl get validatingadmissionpolicies,mutatingadmissionpolicies",
        ),
        case(
            "webhook_cannot_be_reached",
            refused(
                "Internal error occurred: failed calling webhook \"images.example.com\": failed to call webhook: Post \
                 \"https://images.svc/\": connection refused",
            ),
            (Missing, R::WebhookUnavailable),
            "admission webhook images.example.com cannot be called: Post \"https://images.svc/\": connection refused (60s \
             ago)",
            "bring its service back, or delete its configuration: \
             kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations",
        ),
        case(
            "service_account_does_not_exist",
            refused(
                "pods \"agent-x\" is forbidden: error looking up service account default/ghost: serviceaccount \"ghost\" \
                 not found",
            ),
            (Missing, R::ServiceAccountMissing),
            "service account ghost does not exist in namespace default (60s ago)",
            "kubectl create serviceaccount ghost -n default",
        ),
        case(
            "priority_class_is_misspelt",
            with_classes(refused(
                "pods \"agent-x\" is forbidden: no PriorityClass with name system-node-critcal was found",
            )),
            (Missing, R::PriorityClassMissing),
            "priority class system-node-critcal does not exist (60s ago)",
            "likely system-node-critical is meant: kubectl patch ds agent -n default --type=merge -p \
             '{\"spec\":{\"template\":{\"spec\":{\"priorityClassName\":\"system-node-critical\"}}}}'",
        ),
        case(
            "runtime_class_does_not_exist",
            with_classes(refused("pods \"agent-x\" is forbidden: pod rejected: RuntimeClass \"kata\" not found")),
            (Missing, R::RuntimeClassMissing),
            "runtime class kata does not exist (60s ago)",
            "create the runtime class, or correct runtimeClassName: kubectl edit ds agent -n default",
        ),
        case(
            "template_is_invalid",
            refused("Pod \"agent-x\" is invalid: spec.containers[0].image: Required value"),
            (Missing, R::PodSpecRejected),
            "the API server refused the pod: Pod \"agent-x\" is invalid: spec.containers[0].image: Required value (60s ago)",
            "correct the template: kubectl edit ds agent -n default",
        ),
        case(
            "refusal_before_the_last_success_is_only_likely",
            refused("pods \"agent-x\" is forbidden: exceeded quota: few-pods, requested: pods=1, used: pods=5, limited: pods=5")
                .event("DaemonSet", "agent", "SuccessfulCreate", "Created pod: agent-y", "11:59:30"),
            (Missing, R::QuotaExceeded),
            "likely quota few-pods is used up: asks for pods=1, used pods=5, limited to pods=5 (a pod was made, or the \
             spec changed, since) (60s ago)",
            "raise it or free some: kubectl edit resourcequota few-pods -n default",
        ),
        case(
            "combined_events_are_read_like_single_ones",
            plain().event(
                "DaemonSet",
                "agent",
                "FailedCreate",
                "(combined from similar events): Error creating: pods \"agent-x\" is forbidden: no PriorityClass with name \
                 ghost was found",
                "11:59:00",
            ),
            (Missing, R::PriorityClassMissing),
            "priority class ghost does not exist (60s ago)",
            "create the priority class, or correct priorityClassName: kubectl edit ds agent -n default",
        ),
        case(
            "young_node_is_still_to_get_its_pod",
            crate::coverage::test_support::world().node("n", json!({"metadata": {"creationTimestamp": at("11:59:00")}})),
            (Missing, R::CreatePending),
            "the pod is still to be made: the node is 60s old",
            "wait: the controller makes at most 250 pods at a time",
        ),
        case(
            "nothing_says_why_there_is_no_pod",
            plain(),
            (Missing, R::Unexplained),
            "no pod was made, and no event says why (events are kept for an hour, and a namespace that is being deleted \
             has none)",
            "look at the namespace and the controller: kubectl get namespace default; kubectl describe ds agent -n default",
        ),
        case(
            "events_that_could_not_be_read_are_named",
            without_events(plain()),
            (Missing, R::Unexplained),
            "no pod was made; the events that would say why could not be read",
            "kubectl get events -n default --field-selector involvedObject.kind=DaemonSet,involvedObject.name=agent",
        ),
        case(
            "spec_that_the_controller_has_not_seen",
            plain().daemon_set(json!({"metadata": {"generation": 3}})),
            (Missing, R::ControllerNotObserved),
            "the controller has not acted on generation 3 of the spec, only on 2",
            CHECK_CONTROLLER,
        ),
        case(
            "spec_that_a_dead_controller_has_not_seen",
            stale_lease(plain().daemon_set(json!({"metadata": {"generation": 3}}))),
            (Missing, R::ControllerNotObserved),
            "the controller has not acted on generation 3 of the spec, only on 2; kube-controller-manager has not renewed \
             its lease for 12m and seems down",
            CHECK_CONTROLLER,
        ),
        case(
            "missing_pod_and_a_stale_lease_mean_a_dead_controller",
            stale_lease(plain()),
            (Missing, R::ControllerNotObserved),
            "no pod was made, and kube-controller-manager has not renewed its lease for 12m: it seems down",
            CHECK_CONTROLLER,
        ),
        case(
            "selector_that_selects_everything_is_refused",
            plain().daemon_set(json!({"spec": {"selector": {"matchLabels": null}}})),
            (Missing, R::SelectingAll),
            "the selector is empty and selects every pod: the controller does nothing",
            "make it anew with a selector: kubectl delete ds agent -n default --cascade=orphan, then apply it",
        ),
        case(
            "daemon_set_that_a_finalizer_holds_makes_no_pods",
            plain().daemon_set(json!({"metadata": {"deletionTimestamp": at("11:50:00"), "finalizers": ["example.com/hold"]}})),
            (Missing, R::DaemonSetDeleting),
            "deletion of the DaemonSet began 10m ago, held by finalizer example.com/hold",
            "if nobody is left to remove example.com/hold: kubectl patch ds agent -n default --type=merge -p \
             '{\"metadata\":{\"finalizers\":null}}'",
        ),
        case(
            "daemon_set_that_is_deleted_in_the_foreground_waits_for_its_pods",
            plain()
                .daemon_set(json!({"metadata": {"deletionTimestamp": at("11:59:50"), "finalizers": ["foregroundDeletion"]}}))
                .unready_pod("agent-x", "n", json!({}), json!({"metadata": {"deletionTimestamp": at("12:00:20")}})),
            (Terminating, R::DaemonSetDeleting),
            "deletion of the DaemonSet began 10s ago, held by finalizer foregroundDeletion",
            "wait for its pods to go; the status is frozen meanwhile",
        ),
    ]
}
