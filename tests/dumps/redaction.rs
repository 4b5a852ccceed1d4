//! Secrets and `--redact`: wherever one that is known occurs, it is not written.

use kubectl_ds::cluster::text::Format;
use kubectl_ds::cluster::write_dump::{WriteOptions, write_dump};
use kubectl_ds::model::controller_revision::ControllerRevision;
use kubectl_ds::model::daemon_set::DaemonSet;
use kubectl_ds::model::event::Event;
use kubectl_ds::model::node::Node;
use kubectl_ds::model::pod::{ContainerState, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, Pod};
use kubectl_ds::model::snapshot::{self, Gap, GapCause, Snapshot};
use kubectl_ds::model::template_types::{FieldKind, TYPES, Type};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{daemon_set, open};

/// What stays, as docs/dumps.md says: names and words of the API, and labels.
const STAYS: [&str; 27] = [
    "apiVersion",
    "name",
    "namespace",
    "generateName",
    "uid",
    "nodeName",
    "type",
    "phase",
    "status",
    "reason",
    "operator",
    "effect",
    "protocol",
    "imagePullPolicy",
    "restartPolicy",
    "dnsPolicy",
    "schedulerName",
    "serviceAccountName",
    "priorityClassName",
    "runtimeClassName",
    "terminationMessagePolicy",
    "key",
    "values",
    "labels",
    "matchLabels",
    "nodeSelector",
    "kind",
];

/// Makes an object of a type of the API with a text in every field that may hold one.
fn planted(type_: &Type, text: &str, depth: usize) -> Value {
    let mut fields = Map::new();
    for field in type_.fields.iter().filter(|field| !STAYS.contains(&field.name)) {
        let value = match &field.kind {
            FieldKind::Value | FieldKind::Pointer | FieldKind::IntOrString => json!(text),
            FieldKind::Quantity | FieldKind::OptionalQuantity => json!("1"),
            FieldKind::Quantities => json!({"cpu": "1"}),
            FieldKind::Texts => json!({"a": text}),
            FieldKind::Values => json!([text]),
            FieldKind::Struct(type_) | FieldKind::Optional(type_) if depth > 0 => planted(type_, text, depth - 1),
            FieldKind::List(type_, _) if depth > 0 => json!([planted(type_, text, depth - 1)]),
            FieldKind::Struct(_) | FieldKind::Optional(_) | FieldKind::List(..) => continue,
        };
        fields.insert(field.name.to_owned(), value);
    }
    Value::Object(fields)
}

fn snapshot(secret: &str, text: &str) -> Snapshot {
    let template = TYPES.iter().find(|type_| type_.name == "PodTemplateSpec").unwrap();
    let template = planted(template, text, 12);
    let mut object = daemon_set("x", "agent");
    object["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "TOKEN", "value": secret}]);
    let manifest = json!({"spec": {"template": template}}).to_string();
    object["metadata"]["annotations"] = json!({
        "kubectl.kubernetes.io/last-applied-configuration": manifest,
        "kubernetes.io/change-cause": format!("kubectl set env ds/agent {text}"),
        "example.com/owner": text,
    });
    let revision = json!({"metadata": {"name": "agent-1", "namespace": "x", "annotations": {"kubernetes.io/change-cause": text}},
        "data": {"spec": {"template": template}}});
    let mut snapshot = Snapshot::empty("2026-11-20T12:00:00Z".parse().unwrap());
    snapshot.daemon_sets = vec![DaemonSet::from_object(object).unwrap()];
    snapshot.controller_revisions = vec![ControllerRevision::from_object(revision).unwrap()];
    let mut event = Event { message: text.to_owned(), ..Event::default() };
    event.metadata.name = "e".to_owned();
    snapshot.events = vec![event];
    let mut pod = Pod::default();
    pod.metadata.name = "agent-1".to_owned();
    pod.status.message = text.to_owned();
    let waiting = ContainerStateWaiting { message: text.to_owned(), ..ContainerStateWaiting::default() };
    let terminated = ContainerStateTerminated { message: text.to_owned(), ..ContainerStateTerminated::default() };
    pod.status.container_statuses = vec![ContainerStatus {
        state: ContainerState { waiting: Some(waiting), ..ContainerState::default() },
        last_state: ContainerState { terminated: Some(terminated), ..ContainerState::default() },
        ..ContainerStatus::default()
    }];
    snapshot.pods = vec![pod];
    snapshot
}

fn redacted(snapshot: &Snapshot) -> String {
    let mut bytes = Vec::new();
    write_dump(snapshot, &WriteOptions { format: Format::Json, namespace: None, redact: true }, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_known_secret_occurs_nowhere(
        secret in "[A-Za-z0-9+/=!#%&*._-]{4,30}x7",
        before in prop::sample::select(vec!["", "--token=", "Bearer ", "https://user:", "a", "{\"a\":\""]),
        after in prop::sample::select(vec!["", "@host/path", " ", "z", "\"}", "\n"]),
    ) {
        let snapshot = snapshot(&secret, &format!("{before}{secret}{after}"));
        let text = redacted(&snapshot);
        prop_assert!(!text.contains(&secret), "{secret} in {text}");
        let read = open("-", &mut text.as_bytes(), None).unwrap().snapshot;
        prop_assert_eq!(read.daemon_sets.len(), 1);
    }
}

#[test]
fn a_word_inside_a_longer_name_stays() {
    let mut object = daemon_set("x", "agent");
    object["spec"]["template"]["spec"]["containers"][0]["env"] = json!([
        {"name": "A", "value": "kubernetes"},
        {"name": "B", "value": "agent"},
        {"name": "C", "value": "12345678"},
    ]);
    let mut snapshot = Snapshot::empty("2026-11-20T12:00:00Z".parse().unwrap());
    snapshot.daemon_sets = vec![DaemonSet::from_object(object).unwrap()];
    let mut event = Event { message: "kubernetes-host of kubernetes".to_owned(), ..Event::default() };
    event.metadata.name = "e".to_owned();
    snapshot.events = vec![event];
    let text = redacted(&snapshot);
    assert!(text.contains("kubernetes-host of REDACTED-1"), "{text}");
    assert!(text.contains(r#""name":"agent""#), "{text}");
    assert!(!text.contains("12345678"), "{text}");
}

#[test]
fn registries_of_image_volumes_and_http_headers_are_hidden() {
    let mut object = daemon_set("x", "agent");
    let pod = &mut object["spec"]["template"]["spec"];
    pod["volumes"] = json!([{"name": "v", "image": {"reference": "private.example.net/data:1"}},
        {"name": "w", "csi": {"driver": "d", "volumeAttributes": {"password": "hunter22"}}}]);
    pod["containers"][0]["args"] = json!(["--password", "hunter22"]);
    pod["containers"][0]["livenessProbe"] =
        json!({"httpGet": {"port": 80, "httpHeaders": [{"name": "Authorization", "value": "Basic Zm9v"}]}});
    let mut snapshot = Snapshot::empty("2026-11-20T12:00:00Z".parse().unwrap());
    snapshot.daemon_sets = vec![DaemonSet::from_object(object).unwrap()];
    let text = redacted(&snapshot);
    for secret in ["private.example.net", "hunter22", "Zm9v"] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn what_is_wrong_with_a_skipped_object_does_not_quote_it() {
    let problem = "dump.json: line 3: spec.containers[0].env: invalid type: string \"hunter22\", expected a sequence";
    let mut snapshot = Snapshot::empty("2026-11-20T12:00:00Z".parse().unwrap());
    let cause = GapCause::Unreadable { object: "Pod x/agent-1".to_owned(), problem: problem.to_owned() };
    snapshot.gaps = vec![Gap { kind: snapshot::Kind::Pods, namespace: Some("x".to_owned()), cause }];
    let text = redacted(&snapshot);
    assert!(text.contains("Pod x/agent-1") && !text.contains("hunter22"), "{text}");
}

/// What people really write secrets into, beside variables: each in text that stays.
#[test]
fn the_same_rules_hold_for_all_text_that_stays() {
    let mut object = daemon_set("x", "agent");
    object["metadata"]["annotations"] = json!({"kubernetes.io/change-cause": "kubectl run --password=Cause1 --record"});
    let container = &mut object["spec"]["template"]["spec"]["containers"][0];
    container["livenessProbe"] = json!({"httpGet": {"path": "/healthz?token=Probe1&v=1", "port": 80}});
    container["lifecycle"] = json!({"preStop": {
        "httpGet": {"path": "stop?token=Stop1", "port": 80},
        "exec": {"command": ["sh", "-c", "curl --token 'Stop 2' localhost; x --password=/Shell1 --secret=-Shell2"]},
    }});
    container["args"] =
        json!(["--password=/Slash1", "--token", "-Dash1", "--api-key", "/Slash2", "--token", "--verbose"]);
    let mut snapshot = Snapshot::empty("2026-11-20T12:00:00Z".parse().unwrap());
    snapshot.daemon_sets = vec![DaemonSet::from_object(object).unwrap()];
    let event = |name: &str, text: &str| -> Event {
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "x"}, "message": text})).unwrap()
    };
    snapshot.events = vec![
        event("a", "Liveness probe failed: Get \"http://ann:Event1@10.0.0.1/?token=Event2\": EOF"),
        event(
            "b",
            "Failed to pull image \"only.events.corp/x:1\": Head \"https://mirror.events.corp:5000/v2/x\": no such host",
        ),
    ];
    let mut pod = Pod::default();
    pod.metadata.name = "agent-1".to_owned();
    pod.status.message = "cannot mount https://ann:Pod1@nas".to_owned();
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n"},
        "status": {"conditions": [{"type": "Ready", "status": "False", "message": "join --token=Node1 failed"}]}}))
    .unwrap();
    (snapshot.pods, snapshot.nodes) = (vec![pod], vec![node]);
    let text = redacted(&snapshot);
    for secret in [
        "Cause1",
        "Probe1",
        "Stop1",
        "Stop 2",
        "Shell1",
        "Shell2",
        "Slash1",
        "Dash1",
        "Slash2",
        "Event1",
        "Event2",
        "Pod1",
        "Node1",
        "events.corp",
    ] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    for kept in ["/healthz?token=REDACTED-", "&v=1", "--verbose", "--record", "http://ann:REDACTED-", "@10.0.0.1/"] {
        assert!(text.contains(kept), "{kept} in {text}");
    }
    let again = open("-", &mut text.as_bytes(), None).unwrap().snapshot;
    assert!(!redacted(&again).contains("REDACTED-REDACTED"), "it stays the same if it is done twice");
}
