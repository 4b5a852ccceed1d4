//! Cases of eligible nodes without a pod.

use serde_json::{Value, json};

use super::{Case, case, plain};
use crate::coverage::test_support::{World, at, merge, world};
use crate::model::snapshot::{Gap, GapCause, Kind};
use crate::report::node_coverage::NodeState::{Missing, Terminating};
use crate::report::reason::ReasonCode as R;

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

fn terminating(mut world: World, patch: Value) -> World {
    let mut namespace = json!({"metadata": {"name": "default", "deletionTimestamp": at("11:58:53")}});
    merge(&mut namespace, patch);
    world.snapshot.namespaces.push(serde_json::from_value(namespace).unwrap());
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
            "what_was_refused_before_the_last_pod_says_nothing_of_one_that_a_dead_controller_does_not_create",
            stale_lease(
                plain()
                    .event("DaemonSet", "agent", "FailedCreate", "Error creating: pods \"agent-x\" is forbidden: error looking up service account default/agent: serviceaccount \"agent\" not found", "11:40:00")
                    .event("DaemonSet", "agent", "SuccessfulCreate", "Created pod: agent-x", "11:45:00"),
            ),
            (Missing, R::ControllerNotObserved),
            &[],
            "kubectl get lease -o yaml -n kube-system kube-controller-manager",
        ),
        case(
            "quota_is_used_up",
            refused("pods \"agent-x\" is forbidden: exceeded quota: few-pods, requested: pods=1, used: pods=5, limited: pods=5"),
            (Missing, R::QuotaExceeded),
            &["pods=1", "pods=5", "60s"],
            "kubectl describe resourcequota -n default few-pods",
        ),
        case(
            "quota_demands_a_limit",
            refused("pods \"agent-x\" is forbidden: failed quota: memory: must specify limits.memory for: agent"),
            (Missing, R::QuotaExceeded),
            &["60s"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "quota_of_a_priority_class_is_not_covered",
            refused("pods \"agent-x\" is forbidden: insufficient quota to match these scopes: [{PriorityClass In [high]}]"),
            (Missing, R::QuotaExceeded),
            &["60s"],
            "kubectl describe resourcequota -n default",
        ),
        case(
            "quota_without_a_status_lets_nothing_in",
            refused("pods \"agent-x\" is forbidden: status unknown for quota: few-pods, resources: pods"),
            (Missing, R::QuotaExceeded),
            &["60s"],
            "kubectl describe resourcequota -n default few-pods",
        ),
        case(
            "limit_range_is_exceeded",
            refused("pods \"agent-x\" is forbidden: maximum memory usage per Container is 64Mi, but limit is 128Mi"),
            (Missing, R::LimitRangeViolation),
            &["64Mi", "128Mi", "60s"],
            "kubectl describe limitrange -n default",
        ),
        case(
            "pod_security_is_violated",
            refused(
                "pods \"agent-x\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != \
                 false (container \"agent\" must set it), seccompProfile (pod or container must set it)",
            ),
            (Missing, R::PodSecurityDenied),
            &["restricted:latest", "!=", "60s"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "pod_security_forbids_the_host_of_a_probe",
            refused(
                "pods \"agent-x\" is forbidden: violates PodSecurity \"baseline:latest\": probe or lifecycle host (container \
                 \"agent\" uses probe or lifecycle host \"127.0.0.1\")",
            ),
            (Missing, R::PodSecurityDenied),
            &["baseline:latest", "probe or lifecycle host", "60s"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "a_field_has_the_name_of_a_fault",
            refused(
                "Pod \"agent-x\" is invalid: spec.containers[1].readinessProbe.timeoutSeconds: Invalid value: 0: must be greater than 0",
            ),
            (Missing, R::PodSpecRejected),
            &["timeoutSeconds", "60s"],
            "kubectl get 'mutatingwebhookconfigurations,validatingwebhookconfigurations'",
        ),
        case(
            "webhook_refuses",
            refused("admission webhook \"images.example.com\" denied the request: no signature"),
            (Missing, R::WebhookDenied),
            &["60s"],
            "",
        ),
        case(
            "admission_policy_refuses",
            refused(
                "pods \"agent-x\" is forbidden: ValidatingAdmissionPolicy 'owner' with binding 'owner' denied request: no \
                 owner",
            ),
            (Missing, R::WebhookDenied),
            &["60s"],
            "kubectl get validatingadmissionpolicies -o yaml owner",
        ),
        case(
            "webhook_cannot_be_reached",
            refused(
                "Internal error occurred: failed calling webhook \"images.example.com\": failed to call webhook: Post \
                 \"https://images.svc/\": connection refused",
            ),
            (Missing, R::WebhookUnavailable),
            &["https://images.svc/", "60s"],
            "kubectl get 'mutatingwebhookconfigurations,validatingwebhookconfigurations'",
        ),
        case(
            "service_account_does_not_exist",
            refused(
                "pods \"agent-x\" is forbidden: error looking up service account default/ghost: serviceaccount \"ghost\" \
                 not found",
            ),
            (Missing, R::ServiceAccountMissing),
            &["60s"],
            "kubectl create serviceaccount -n default ghost",
        ),
        case(
            "priority_class_is_misspelt",
            with_classes(refused(
                "pods \"agent-x\" is forbidden: no PriorityClass with name system-node-critcal was found",
            )),
            (Missing, R::PriorityClassMissing),
            &["60s"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "runtime_class_does_not_exist",
            with_classes(refused("pods \"agent-x\" is forbidden: pod rejected: RuntimeClass \"kata\" not found")),
            (Missing, R::RuntimeClassMissing),
            &["60s"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "template_is_invalid",
            refused("Pod \"agent-x\" is invalid: spec.containers[0].image: Required value")
                .template(json!({"containers": [{"name": "agent", "image": ""}]})),
            (Missing, R::PodSpecRejected),
            &["spec.containers[0].image", "60s"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "refusal_before_the_last_success_is_only_likely",
            refused("pods \"agent-x\" is forbidden: exceeded quota: few-pods, requested: pods=1, used: pods=5, limited: pods=5")
                .event("DaemonSet", "agent", "SuccessfulCreate", "Created pod: agent-y", "11:59:10"),
            (Missing, R::QuotaExceeded),
            &["pods=1", "pods=5", "60s"],
            "kubectl describe resourcequota -n default few-pods",
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
            &["60s"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "young_node_is_still_to_get_its_pod",
            crate::coverage::test_support::world().node("n", json!({"metadata": {"creationTimestamp": at("11:59:00")}})),
            (Missing, R::CreatePending),
            &["60s"],
            "",
        ),
        case(
            "young_node_without_events_is_not_known_to_wait_for_its_pod",
            without_events(
                crate::coverage::test_support::world()
                    .node("n", json!({"metadata": {"creationTimestamp": at("11:59:00")}})),
            ),
            (Missing, R::Unexplained),
            &["events"],
            "kubectl get events -n default --field-selector 'involvedObject.kind=DaemonSet,involvedObject.name=agent'",
        ),
        case(
            "nothing_says_why_there_is_no_pod",
            plain(),
            (Missing, R::Unexplained),
            &[],
            "kubectl describe ds -n default agent",
        ),
        case(
            "no_pod_was_read_although_the_status_counts_one",
            plain().daemon_set(json!({
                "metadata": {"managedFields": [
                    {"manager": "kube-controller-manager", "subresource": "status", "time": at("11:59:50"), "fieldsV1": {}},
                    {"manager": "kubectl", "time": at("11:59:55"), "fieldsV1": {}}]},
                "status": {"currentNumberScheduled": 1},
            })),
            (Missing, R::Unexplained),
            &["written 10s ago, counts 1 node with a pod", "different states"],
            "",
        ),
        case(
            "events_that_could_not_be_read_are_named",
            without_events(plain()),
            (Missing, R::Unexplained),
            &[],
            "kubectl get events -n default --field-selector 'involvedObject.kind=DaemonSet,involvedObject.name=agent'",
        ),
        case(
            "spec_that_the_controller_has_not_seen",
            plain().daemon_set(json!({"metadata": {"generation": 3}})),
            (Missing, R::ControllerNotObserved),
            &["3", "2"],
            "kubectl get lease -o yaml -n kube-system kube-controller-manager",
        ),
        case(
            "spec_that_a_dead_controller_has_not_seen",
            stale_lease(plain().daemon_set(json!({"metadata": {"generation": 3}}))),
            (Missing, R::ControllerNotObserved),
            &["3", "2", "12m"],
            "kubectl get lease -o yaml -n kube-system kube-controller-manager",
        ),
        case(
            "missing_pod_and_a_stale_lease_mean_a_dead_controller",
            stale_lease(plain()),
            (Missing, R::ControllerNotObserved),
            &["12m"],
            "kubectl get lease -o yaml -n kube-system kube-controller-manager",
        ),
        case(
            "namespace_that_is_being_deleted",
            terminating(plain(), json!({})),
            (Missing, R::NamespaceTerminating),
            &["default", "67s"],
            "kubectl get namespace -o yaml default",
        ),
        case(
            "namespace_that_is_being_deleted_explains_a_young_node",
            terminating(world().node("n", json!({"metadata": {"creationTimestamp": at("11:59:30")}})), json!({})),
            (Missing, R::NamespaceTerminating),
            &["67s"],
            "kubectl get namespace -o yaml default",
        ),
        case(
            "namespace_that_a_finalizer_holds",
            terminating(plain(), json!({"status": {"conditions": [
                {"type": "NamespaceDeletionDiscoveryFailure", "status": "False", "message": "All resources successfully discovered"},
                {"type": "NamespaceFinalizersRemaining", "status": "True",
                    "message": "Some content in the namespace has finalizers remaining: a.example.com/b in 1 resource instances"}]}})),
            (Missing, R::NamespaceTerminating),
            &["a.example.com/b"],
            "kubectl get namespace -o yaml default",
        ),
        case(
            "namespace_that_is_deleted_and_refuses_pods",
            terminating(
                refused("pods \"agent-x\" is forbidden: unable to create new content in namespace default because it is being terminated"),
                json!({}),
            ),
            (Missing, R::NamespaceTerminating),
            &["67s"],
            "kubectl get namespace -o yaml default",
        ),
        case(
            "namespace_that_is_not_being_deleted",
            terminating(plain(), json!({"metadata": {"deletionTimestamp": null}})),
            (Missing, R::Unexplained),
            &[],
            "kubectl describe ds -n default agent",
        ),
        case(
            "another_namespace_that_is_being_deleted",
            terminating(plain(), json!({"metadata": {"name": "other"}})),
            (Missing, R::Unexplained),
            &[],
            "kubectl describe ds -n default agent",
        ),
        case(
            "selector_that_selects_everything_is_refused",
            plain().daemon_set(json!({"spec": {"selector": {"matchLabels": null}}})),
            (Missing, R::SelectingAll),
            &[],
            "",
        ),
        case(
            "daemon_set_that_a_finalizer_holds_makes_no_pods",
            plain().daemon_set(json!({"metadata": {"deletionTimestamp": at("11:50:00"), "finalizers": ["example.com/hold"]}})),
            (Missing, R::DaemonSetDeleting),
            &["10m", "example.com/hold"],
            "kubectl get ds -o yaml -n default agent",
        ),
        case(
            "daemon_set_that_is_deleted_in_the_foreground_waits_for_its_pods",
            plain()
                .daemon_set(json!({"metadata": {"deletionTimestamp": at("11:59:50"), "finalizers": ["foregroundDeletion"]}}))
                .unready_pod("agent-x", "n", json!({}), json!({"metadata": {"deletionTimestamp": at("12:00:20")}})),
            (Terminating, R::DaemonSetDeleting),
            &["10s"],
            "kubectl get ds -o yaml -n default agent",
        ),
        case(
            "a_pod_that_a_finalizer_holds_keeps_a_daemon_set_that_is_deleted_in_the_foreground",
            plain()
                .daemon_set(json!({"metadata": {"deletionTimestamp": at("11:50:00"), "finalizers": ["foregroundDeletion"]}}))
                .unready_pod(
                    "agent-x",
                    "n",
                    json!({}),
                    json!({"metadata": {"deletionTimestamp": at("11:50:20"), "finalizers": ["example.com/hold"]}}),
                ),
            (Terminating, R::DaemonSetDeleting),
            &["on n, pod agent-x", "finalizer example.com/hold"],
            "kubectl get pod -o yaml -n default agent-x",
        ),
        case(
            "node_is_young_for_just_under_five_minutes",
            world().node("n", json!({"metadata": {"creationTimestamp": at("11:55:01")}})),
            (Missing, R::CreatePending),
            &["4m59s"],
            "",
        ),
        case(
            "node_is_not_young_after_five_minutes",
            world().node("n", json!({"metadata": {"creationTimestamp": at("11:55:00")}})),
            (Missing, R::Unexplained),
            &[],
            "kubectl describe ds -n default agent",
        ),
        case(
            "maximum_of_the_api_is_no_limit_range",
            refused("Pod \"agent-x\" is invalid: metadata.annotations: Too long: maximum of 262144 bytes")
                .daemon_set(json!({"spec": {"template": {"metadata": {"annotations": {"long": "text"}}}}})),
            (Missing, R::PodSpecRejected),
            &["262144", "60s"],
            "kubectl edit ds -n default agent",
        ),
        case(
            "namespace_is_being_deleted",
            refused("pods \"agent-x\" is forbidden: unable to create new content in namespace default because it is being terminated"),
            (Missing, R::NamespaceTerminating),
            &["namespace default", "60s"],
            "kubectl get namespace -o yaml default",
        ),
        case(
            "no_security_context_constraint_allows_the_pod",
            refused(
                "pods \"agent-\" is forbidden: unable to validate against any security context constraint: [provider \"anyuid\": \
                 Forbidden: not usable by user or serviceaccount, .containers[0].privileged: Invalid value: true: Privileged \
                 containers are not allowed, provider \"privileged\": Forbidden: not usable by user or serviceaccount]",
            ),
            (Missing, R::SecurityConstraintDenied),
            &["serviceaccount default", "Privileged containers are not allowed", "60s"],
            "oc adm policy add-scc-to-user -n default -z default privileged",
        ),
        case(
            "etcd_is_out_of_space",
            refused("etcdserver: mvcc: database space exceeded"),
            (Missing, R::ApiServerFailing),
            &["database space exceeded", "60s"],
            "",
        ),
    ]
}
