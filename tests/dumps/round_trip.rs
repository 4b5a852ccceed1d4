use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kubectl_ds::cluster::text::Format;
use kubectl_ds::cluster::write_dump::{WriteOptions, write_dump, write_dump_file};
use kubectl_ds::model::controller_revision::ControllerRevision;
use kubectl_ds::model::daemon_set::DaemonSet;
use kubectl_ds::model::event::{Event, EventSeries, ObjectReference};
use kubectl_ds::model::metadata::{ObjectMeta, OwnerReference};
use kubectl_ds::model::node::{Node, NodeCondition, Taint};
use kubectl_ds::model::pod::{
    Affinity, Container, ContainerPort, ContainerState, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodAffinity,
    PodAffinityTerm, PodCondition, ResourceRequirements, Toleration,
};
use kubectl_ds::model::quantity::Quantity;
use kubectl_ds::model::selector::LabelSelector;
use kubectl_ds::model::snapshot::{
    Gap, GapCause, Kind, Lease, LimitRange, LimitRangeItem, Overhead, PodsComplete, PriorityClass, RuntimeClass,
    RuntimeScheduling, Snapshot,
};
use kubectl_ds::model::time::Time;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use serde_json::json;

use super::{ask, daemon_set, open};
use crate::support::sampling::cases;
use crate::support::shown;

fn options(format: Format) -> WriteOptions {
    WriteOptions { format, namespace: None, redact: false }
}

fn written(snapshot: &Snapshot, options: &WriteOptions) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_dump(snapshot, options, &mut bytes).unwrap();
    bytes
}

fn read(bytes: &[u8]) -> Snapshot {
    open("-", &mut &*bytes, None).unwrap().snapshot
}

/// Text that YAML readers like to take for something else, and any text at all.
fn text() -> BoxedStrategy<String> {
    prop_oneof![
        3 => "[a-z][a-z0-9.-]{0,12}",
        1 => prop::sample::select(vec![
            "yes", "no", "on", "~", "null", "1_000", "0644", "1e3", "- a", "a: b", "#", "---", "'", "\"", " a ", "a\n",
            "\n\n", "|", ">-", "*a", "&a", "!!str", "2026-01-01T00:00:00Z", "a\n  b\n c", "\t", "\u{1b}[31m", "\u{0}", "é",
            "%", "@", "`", ".nan", "0x1f", "1:30", "=", "<<", "\u{85}", "\u{2028}", "\u{feff}",
        ]).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
    .boxed()
}

fn time() -> BoxedStrategy<Time> {
    prop_oneof![
        Just(Time::default()),
        (1_600_000_000_i64..1_900_000_000, prop_oneof![Just(0), 0..1_000_000_000])
            .prop_map(|(seconds, nanos)| Time { seconds, nanos }),
    ]
    .boxed()
}

fn texts() -> BoxedStrategy<BTreeMap<String, String>> {
    btree_map(text(), text(), 0..3).boxed()
}

fn quantities() -> BoxedStrategy<BTreeMap<String, Quantity>> {
    let amount = prop::sample::select(vec!["1", "100m", "1.5Gi", "1e3", "0"]);
    btree_map(text(), amount.prop_map(Quantity::new), 0..3).boxed()
}

fn metadata() -> BoxedStrategy<ObjectMeta> {
    let owner = (text(), text(), any::<bool>()).prop_map(|(kind, name, controller)| OwnerReference {
        kind,
        name,
        controller,
        ..OwnerReference::default()
    });
    (text(), any::<i64>(), time(), time(), any::<Option<i64>>(), texts(), vec(owner, 0..2), vec(text(), 0..2))
        .prop_map(|(uid, generation, created, deleted, grace, labels, owner_references, finalizers)| ObjectMeta {
            uid,
            generation,
            creation_timestamp: created,
            deletion_timestamp: deleted,
            deletion_grace_period_seconds: grace,
            labels: labels.into(),
            owner_references: owner_references.into(),
            finalizers,
            ..ObjectMeta::default()
        })
        .boxed()
}

fn node() -> BoxedStrategy<Node> {
    let taint = (text(), text(), text(), time()).prop_map(|(key, value, effect, time_added)| Taint {
        key,
        value,
        effect,
        time_added,
    });
    let condition =
        (text(), text(), time(), time(), text()).prop_map(|(type_, status, beat, transition, message)| NodeCondition {
            type_,
            status,
            last_heartbeat_time: beat,
            last_transition_time: transition,
            message,
            ..NodeCondition::default()
        });
    (metadata(), any::<bool>(), vec(taint, 0..2), quantities(), vec(condition, 0..2))
        .prop_map(|(metadata, unschedulable, taints, allocatable, conditions)| {
            let mut node = Node { metadata, ..Node::default() };
            node.spec.unschedulable = unschedulable;
            node.spec.taints = taints;
            node.status.allocatable = allocatable;
            node.status.conditions = conditions;
            node
        })
        .boxed()
}

fn container() -> BoxedStrategy<Container> {
    let port =
        (any::<i32>(), any::<i32>(), text(), text()).prop_map(|(host_port, container_port, protocol, host_ip)| {
            ContainerPort { host_port, container_port, protocol, host_ip }
        });
    (text(), text(), vec(port, 0..2), quantities(), quantities(), proptest::option::of(text()))
        .prop_map(|(name, image, ports, limits, requests, restart_policy)| Container {
            name,
            image,
            ports,
            resources: ResourceRequirements { limits, requests },
            restart_policy,
            ..Container::default()
        })
        .boxed()
}

fn status() -> BoxedStrategy<ContainerStatus> {
    let waiting = (text(), text()).prop_map(|(reason, message)| ContainerStateWaiting { reason, message });
    let terminated = (any::<i32>(), text(), time()).prop_map(|(exit_code, reason, finished_at)| {
        ContainerStateTerminated { exit_code, reason, finished_at, ..ContainerStateTerminated::default() }
    });
    (
        text(),
        proptest::option::of(waiting),
        proptest::option::of(terminated),
        any::<bool>(),
        any::<i32>(),
        any::<Option<bool>>(),
    )
        .prop_map(|(name, waiting, terminated, ready, restart_count, started)| ContainerStatus {
            name,
            state: ContainerState { waiting, ..ContainerState::default() },
            last_state: ContainerState { terminated, ..ContainerState::default() },
            ready,
            restart_count,
            started,
            ..ContainerStatus::default()
        })
        .boxed()
}

fn pod() -> BoxedStrategy<Pod> {
    let toleration = (text(), text(), any::<Option<i64>>()).prop_map(|(key, operator, toleration_seconds)| {
        Toleration { key, operator, toleration_seconds, ..Toleration::default() }
    });
    let requirement = (text(), text(), vec(text(), 0..2)).prop_map(|(key, operator, values)| NodeSelectorRequirement {
        key,
        operator,
        values,
    });
    let term = (vec(requirement.clone(), 0..2), vec(requirement, 0..2))
        .prop_map(|(match_expressions, match_fields)| NodeSelectorTerm { match_expressions, match_fields });
    let selector = proptest::option::of(text().prop_map(|key| LabelSelector {
        match_labels: [(key, "value".to_owned())].into(),
        ..LabelSelector::default()
    }));
    let of_pods = (selector, text(), vec(text(), 0..2)).prop_map(|(label_selector, topology_key, namespaces)| {
        let term = PodAffinityTerm { label_selector, topology_key, namespaces, ..PodAffinityTerm::default() };
        PodAffinity { required_during_scheduling_ignored_during_execution: vec![term].into() }
    });
    let of_pods = proptest::option::of(of_pods);
    let affinity =
        proptest::option::of((vec(term, 0..2), of_pods).prop_map(|(node_selector_terms, of_pods)| Affinity {
            node_affinity: Some(NodeAffinity {
                required_during_scheduling_ignored_during_execution: Some(NodeSelector { node_selector_terms }),
            }),
            pod_affinity: of_pods.clone(),
            pod_anti_affinity: of_pods,
        }));
    let condition = (text(), time(), text()).prop_map(|(type_, time, message)| PodCondition {
        type_,
        last_transition_time: time,
        message,
        ..PodCondition::default()
    });
    (
        metadata(),
        vec(container(), 0..2),
        vec(container(), 0..2),
        affinity,
        vec(toleration, 0..2),
        text(),
        vec(status(), 0..2),
        vec(condition, 0..2),
    )
        .prop_map(
            |(metadata, containers, init_containers, affinity, tolerations, phase, container_statuses, conditions)| {
                let mut pod = Pod { metadata, ..Pod::default() };
                pod.spec.containers = containers.into();
                pod.spec.init_containers = init_containers;
                pod.spec.affinity = affinity;
                pod.spec.tolerations = tolerations;
                pod.status.phase = phase;
                pod.status.container_statuses = container_statuses;
                pod.status.conditions = conditions;
                pod
            },
        )
        .boxed()
}

fn event() -> BoxedStrategy<Event> {
    let series = (any::<i32>(), time()).prop_map(|(count, time)| EventSeries { count, last_observed_time: time });
    (metadata(), text(), text(), time(), any::<i32>(), proptest::option::of(series))
        .prop_map(|(metadata, name, message, last_timestamp, count, series)| Event {
            metadata,
            involved_object: ObjectReference { name, ..ObjectReference::default() },
            message,
            last_timestamp,
            count,
            series,
            ..Event::default()
        })
        .boxed()
}

fn gap() -> BoxedStrategy<Gap> {
    let cause = prop_oneof![
        Just(GapCause::NotInDump),
        text().prop_map(GapCause::Forbidden),
        text().prop_map(GapCause::ForbiddenElsewhere),
    ];
    (prop::sample::select(Kind::ALL.to_vec()), proptest::option::of(text()), cause)
        .prop_map(|(kind, namespace, cause)| Gap { kind, namespace, cause })
        .boxed()
}

/// Gives each object a name and namespace of its own, in the order of a dump.
fn named<T>(objects: Vec<T>, metadata: impl Fn(&mut T) -> &mut ObjectMeta) -> Vec<T> {
    let names = objects.into_iter().enumerate();
    names
        .map(|(number, mut object)| {
            metadata(&mut object).name = format!("object-{number}");
            metadata(&mut object).namespace = format!("namespace-{}", number / 2);
            object
        })
        .collect()
}

fn snapshot() -> BoxedStrategy<Snapshot> {
    let limit_range =
        (metadata(), text(), quantities(), quantities()).prop_map(|(metadata, type_, default, default_request)| {
            let mut limit_range = LimitRange { metadata, ..LimitRange::default() };
            limit_range.spec.limits =
                vec![LimitRangeItem { type_, default, default_request, ..LimitRangeItem::default() }];
            limit_range
        });
    let runtime_class = (metadata(), proptest::option::of(quantities()), proptest::option::of(texts())).prop_map(
        |(metadata, overhead, selector)| RuntimeClass {
            metadata,
            overhead: overhead.map(|pod_fixed| Overhead { pod_fixed }),
            scheduling: selector
                .map(|node_selector| RuntimeScheduling { node_selector, ..RuntimeScheduling::default() }),
        },
    );
    let priority_class =
        (metadata(), any::<i32>(), any::<bool>(), text()).prop_map(|(metadata, value, global_default, policy)| {
            PriorityClass { metadata, value, global_default, preemption_policy: policy }
        });
    let lease = (metadata(), time(), any::<Option<i64>>()).prop_map(|(metadata, renew_time, duration)| {
        let mut lease = Lease { metadata, ..Lease::default() };
        lease.spec.renew_time = renew_time;
        lease.spec.lease_duration_seconds = duration;
        lease
    });
    let value =
        prop_oneof![text().prop_map(serde_json::Value::from), any::<i64>().prop_map(Into::into), Just(json!(null))];
    let whole = btree_map(text(), value, 0..3);
    let pods_complete = prop_oneof![Just(PodsComplete::Everywhere), btree_set(text(), 0..3).prop_map(PodsComplete::On)];
    let pods_complete = (pods_complete, btree_set(text(), 0..3));
    let gaps = vec(gap(), 0..3).prop_map(|mut gaps| {
        gaps.dedup();
        let mut seen: Vec<Gap> = Vec::new();
        gaps.retain(|gap| {
            !seen.contains(gap) && {
                seen.push(gap.clone());
                true
            }
        });
        gaps
    });
    let namespaced = (vec(pod(), 0..3), vec(event(), 0..2), vec(limit_range, 0..2), vec(lease, 0..2));
    let cluster = (vec(node(), 0..3), vec(runtime_class, 0..2), vec(priority_class, 0..2));
    (
        1_600_000_000_i64..1_900_000_000,
        vec(whole.clone(), 0..3),
        vec(whole, 0..3),
        namespaced,
        cluster,
        pods_complete,
        gaps,
    )
        .prop_map(|(now, daemon_sets, revisions, namespaced, cluster, (pods_complete, deleted_nodes), gaps)| Snapshot {
            deleted_nodes,
            only_namespace: None,
            is_now_estimated: false,
            lacks_logs: false,
            peers: Vec::new(),
            node_agents: Vec::new(),
            nodes_limited: false,
            device_classes: Vec::new(),
            resource_claims: Vec::new(),
            resource_claim_templates: Vec::new(),
            resource_slices: Vec::new(),
            read_on_demand: BTreeSet::new(),
            persistent_volume_claims: Vec::new(),
            persistent_volumes: Vec::new(),
            storage_classes: Vec::new(),
            csi_nodes: Vec::new(),
            csi_drivers: Vec::new(),
            csi_storage_capacities: Vec::new(),
            volume_attachments: Vec::new(),
            clock_difference: jiff::SignedDuration::ZERO,
            reachable_since: None,
            advanced_daemon_sets: Vec::new(),
            pod_disruption_budgets: Vec::new(),
            resource_quotas: Vec::new(),
            budgets_complete: false,
            config_maps: Vec::new(),
            secrets: Vec::new(),
            object_names: BTreeSet::new(),
            admissions: Vec::new(),
            now: Timestamp::from_second(now).unwrap(),
            daemon_sets: daemon_sets
                .into_iter()
                .enumerate()
                .map(|(number, extra)| {
                    let mut object = daemon_set("x", &format!("agent-{number}"));
                    object["spec"]["extra"] = json!(extra);
                    DaemonSet::from_object(object).unwrap()
                })
                .collect(),
            controller_revisions: revisions
                .into_iter()
                .enumerate()
                .map(|(number, data)| {
                    let object = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number,
                        "metadata": {"name": format!("agent-{number}"), "namespace": "x"}, "data": data});
                    ControllerRevision::from_object(object).unwrap()
                })
                .collect(),
            pods: named(namespaced.0, |object| &mut object.metadata),
            events: named(namespaced.1, |object| &mut object.metadata),
            limit_ranges: named(namespaced.2, |object| &mut object.metadata),
            leases: named(namespaced.3, |object| &mut object.metadata),
            nodes: named(cluster.0, |object| &mut object.metadata),
            runtime_classes: named(cluster.1, |object| &mut object.metadata),
            priority_classes: named(cluster.2, |object| &mut object.metadata),
            pods_complete,
            node_writes: Default::default(),
            held_pods: Vec::new(),
            held_pods_unread: None,
            written_objects: Default::default(),
            gaps,
            namespaces: Vec::new(),
            neighbors: Vec::new(),
            unknown_names: Vec::new(),
        })
        .boxed()
}

/// Reads a dump, without the gaps that follow from what the status of a DaemonSet counts.
fn read_without_counts(bytes: &[u8]) -> Snapshot {
    let mut snapshot = read(bytes);
    snapshot.gaps.retain(|gap| gap.cause != GapCause::NoneReturned);
    snapshot
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(160), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_snapshot_comes_back_as_it_was_written(snapshot in snapshot()) {
        // A dump without any object is no dump.
        prop_assume!(!(snapshot.nodes.is_empty() && snapshot.pods.is_empty() && snapshot.daemon_sets.is_empty()));
        for format in [Format::Json, Format::Yaml] {
            let bytes = written(&snapshot, &options(format));
            prop_assert_eq!(&read_without_counts(&bytes), &snapshot, "{:?}: {}", format, String::from_utf8_lossy(&bytes));
        }
    }
}

fn small_snapshot() -> Snapshot {
    let mut snapshot = Snapshot::empty("2026-11-20T12:00:00Z".parse().unwrap());
    snapshot.pods_complete = PodsComplete::Everywhere;
    snapshot.daemon_sets = ["b", "a"].map(|name| DaemonSet::from_object(daemon_set("x", name)).unwrap()).into();
    snapshot
}

#[test]
fn kinds_without_an_object_are_no_gaps_in_a_dump_of_this_tool() {
    let snapshot = read_without_counts(&written(&small_snapshot(), &options(Format::Json)));
    assert_eq!(snapshot.gaps, []);
    assert_eq!(snapshot.pods_complete, PodsComplete::Everywhere);
    assert_eq!(snapshot.now, small_snapshot().now);
}

#[test]
fn the_order_of_reading_does_not_show() {
    let mut other = small_snapshot();
    other.daemon_sets.reverse();
    assert_eq!(written(&small_snapshot(), &options(Format::Json)), written(&other, &options(Format::Json)));
}

#[test]
fn a_dump_of_one_namespace_does_not_answer_for_others() {
    use kubectl_ds::cluster::Query;
    let options = WriteOptions { namespace: Some("x".to_owned()), ..options(Format::Json) };
    let dump = written(&small_snapshot(), &options);
    assert_eq!(ask(&dump, &Query::default()).unwrap().daemon_sets.len(), 2);
    let error = ask(&dump, &Query { namespace: Some("y".to_owned()), ..Query::default() }).unwrap_err();
    assert_eq!(
        shown(error),
        "standard input: is a dump of namespace \"x\" only, not of \"y\"\n\
         hint: make a dump with `kubectl ds snapshot -A`, or pass: -n x"
    );
}

#[test]
fn a_file_is_replaced_as_a_whole_and_gzipped_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["dump.json", "dump.json.gz"] {
        let path = folder.path().join(name);
        std::fs::write(&path, "old").unwrap();
        write_dump_file(&small_snapshot(), &options(Format::Json), &path, &|| false).unwrap();
        assert_eq!(std::fs::read(&path).unwrap().starts_with(b"\x1f\x8b"), name.ends_with("gz"));
        let dump = open(path.to_str().unwrap(), &mut std::io::empty(), None).unwrap();
        assert_eq!(dump.snapshot.daemon_sets.len(), 2);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left beside them");
    let error =
        write_dump_file(&small_snapshot(), &options(Format::Json), &folder.path().join("no/dump.json"), &|| false);
    assert_eq!(error.unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn redaction_hides_values_annotations_and_registries_and_keeps_the_rest() {
    let mut object = daemon_set("x", "agent");
    object["metadata"]["annotations"] = json!({
        "deprecated.daemonset.template.generation": "2",
        "kubectl.kubernetes.io/last-applied-configuration": r#"{"env": [{"name": "TOKEN", "value": "secret"}]}"#,
        "example.com/secret": "secret",
    });
    object["metadata"]["managedFields"] = json!([
        {"manager": "m", "fieldsV1": {"f:metadata": {"f:annotations": {"f:example.com/secret": {}}}, "f:spec": {"f:template": {"f:x": {}}}}},
    ]);
    object["spec"]["template"]["metadata"]["annotations"] = json!({"vault/secret": "secret"});
    object["spec"]["template"]["spec"]["containers"][0] = json!({
        "name": "c", "image": "secret.example.com:5000/app:1",
        "env": [
            {"name": "TOKEN", "value": "secret"},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "OTHER", "value": "secret-2"},
            {"name": "EMPTY", "value": ""},
        ],
    });
    let mut snapshot = small_snapshot();
    snapshot.daemon_sets = vec![DaemonSet::from_object(object.clone()).unwrap()];
    snapshot.controller_revisions = vec![
        ControllerRevision::from_object(json!({"metadata": {"name": "agent-1", "namespace": "x"},
            "data": {"spec": {"template": object["spec"]["template"]}}}))
        .unwrap(),
    ];
    let message = "pull secret.example.com:5000/app:1: lookup secret.example.com: no such host";
    let mut event = Event { message: message.to_owned(), ..Event::default() };
    event.metadata.name = "e".to_owned();
    snapshot.events = vec![event];
    let mut pod = Pod::default();
    pod.metadata.name = "agent-1".to_owned();
    pod.spec.containers = vec![Container { image: "other.secret.net/app".to_owned(), ..Container::default() }].into();
    snapshot.pods = vec![pod];

    let options = WriteOptions { redact: true, ..options(Format::Json) };
    let text = String::from_utf8(written(&snapshot, &options)).unwrap();
    assert!(!text.contains("secret"), "{text}");
    let read = read(text.as_bytes());
    assert_eq!(read.events[0].message, "pull registry-2.redacted/app:1: lookup registry-2.redacted: no such host");
    assert_eq!(read.pods[0].spec.containers[0].image, "registry-1.redacted/app");
    assert_eq!(read.daemon_sets[0].template_generation(), Some(2));
    let env = &read.daemon_sets[0].object["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(env[0], json!({"name": "TOKEN", "value": "REDACTED-1"}));
    assert_eq!(env[1]["valueFrom"]["fieldRef"]["fieldPath"], "spec.nodeName");
    assert_eq!(env[2], json!({"name": "OTHER", "value": "REDACTED-2"}), "other values stay others");
    assert_eq!(env[3], json!({"name": "EMPTY", "value": ""}));
    let metadata = &read.daemon_sets[0].object["metadata"];
    assert_eq!(
        metadata["annotations"],
        json!({
            "deprecated.daemonset.template.generation": "2",
            "kubectl.kubernetes.io/last-applied-configuration": r#"{"env":[{"name":"TOKEN","value":"REDACTED-1"}]}"#,
            "redacted/annotation-1": "REDACTED-1",
        })
    );
    let owned = json!({"f:metadata": {"f:annotations": {}}, "f:spec": {"f:template": {}}});
    assert_eq!(metadata["managedFields"][0]["fieldsV1"], owned);
    let annotations = &read.daemon_sets[0].object["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(*annotations, json!({"redacted/annotation-2": "REDACTED-1"}));
    assert_eq!(read.controller_revisions[0].object["data"]["spec"]["template"]["spec"]["containers"][0]["env"], *env);
}
