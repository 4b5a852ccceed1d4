//! `--redact`: anything not known to be harmless is not written, wherever and however it occurs.

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
use crate::support::sampling::cases;

/// Names, words of the API, labels and images without registry, which stay, as docs/snapshots.md says.
const STAYS: [&str; 76] = [
    "image",
    "reference",
    "$patch",
    "accessModes",
    "action",
    "add",
    "apiVersion",
    "architecture",
    "claimName",
    "component",
    "conditionType",
    "configMapName",
    "containerName",
    "containerRuntimeVersion",
    "dnsPolicy",
    "driver",
    "drop",
    "effect",
    "fieldPath",
    "fieldsType",
    "finalizers",
    "fsGroupChangePolicy",
    "generateName",
    "handler",
    "holderIdentity",
    "hostname",
    "imagePullPolicy",
    "kernelVersion",
    "key",
    "kind",
    "kubeletVersion",
    "labels",
    "manager",
    "matchLabels",
    "mountPropagation",
    "name",
    "namespace",
    "nodeAffinityPolicy",
    "nodeName",
    "nodeSelector",
    "nodeTaintsPolicy",
    "nominatedNodeName",
    "operatingSystem",
    "operation",
    "operator",
    "phase",
    "preemptionPolicy",
    "priorityClassName",
    "procMount",
    "protocol",
    "pullPolicy",
    "qosClass",
    "reason",
    "reportingComponent",
    "resource",
    "resourceClaimName",
    "resourceClaimTemplateName",
    "resourceVersion",
    "restartPolicy",
    "rollingUpdateType",
    "runtimeClassName",
    "schedulerName",
    "scheme",
    "secretName",
    "serviceAccount",
    "serviceAccountName",
    "status",
    "subresource",
    "terminationMessagePolicy",
    "topologyKey",
    "type",
    "uid",
    "unhealthyPodEvictionPolicy",
    "value",
    "values",
    "whenUnsatisfiable",
];

/// Makes an object of a type of the API with a text in every field that may hold one.
fn planted(type_: &Type, text: &str, depth: usize) -> Value {
    let mut fields = Map::new();
    for field in type_.fields.iter().filter(|field| !STAYS.contains(&field.name)) {
        let value = match &field.kind {
            FieldKind::Value(_) | FieldKind::Pointer(_) | FieldKind::IntOrString => json!(text),
            FieldKind::Quantity | FieldKind::OptionalQuantity => json!("1"),
            FieldKind::Quantities => json!({"cpu": "1"}),
            // Some keys are names of fields elsewhere.
            FieldKind::Texts => json!({"a": text, "key": text, "pool": text, "annotations": text, "fieldsV1": text}),
            FieldKind::Values(_) => json!([text]),
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
    #![proptest_config(ProptestConfig { cases: cases(160), failure_persistence: None, ..ProptestConfig::default() })]

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

const WORDS: &str = "connection refused";

/// Makes a snapshot with a text in one of the places that people write secrets into; the place's name is for messages.
fn written_into(text: &str) -> Vec<(&'static str, Snapshot)> {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut object = daemon_set("x", "agent");
        change(&mut object);
        let template = object["spec"]["template"].clone();
        let revision =
            json!({"metadata": {"name": "agent-1", "namespace": "x"}, "data": {"spec": {"template": template}}});
        let mut snapshot = Snapshot::empty("2026-11-20T12:00:00Z".parse().unwrap());
        snapshot.daemon_sets = vec![DaemonSet::from_object(object).unwrap()];
        snapshot.controller_revisions = vec![ControllerRevision::from_object(revision).unwrap()];
        snapshot
    };
    let container = |field: &'static str, value: Value| {
        with(&move |object| object["spec"]["template"]["spec"]["containers"][0][field] = value.clone())
    };
    let annotated = |key: &'static str, value: &str| {
        let annotations = json!({key: value});
        with(&move |object| object["metadata"]["annotations"] = annotations.clone())
    };
    let with_pod = |change: &dyn Fn(&mut Pod)| {
        let mut snapshot = with(&|_| {});
        let mut pod = Pod::default();
        pod.metadata.name = "agent-1".to_owned();
        change(&mut pod);
        snapshot.pods = vec![pod];
        snapshot
    };
    let with_event = |message: String| {
        let mut snapshot = with(&|_| {});
        let event = json!({"metadata": {"name": "e", "namespace": "x"}, "reason": "Unhealthy", "message": message});
        snapshot.events = vec![serde_json::from_value::<Event>(event).unwrap()];
        snapshot
    };
    let with_node = |message: &str| {
        let mut snapshot = with(&|_| {});
        let node = json!({"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "False", "message": message}]}});
        snapshot.nodes = vec![serde_json::from_value::<Node>(node).unwrap()];
        snapshot
    };
    let manifest = |text: &str| json!({"spec": {"template": {"spec": {"containers": [{"args": [text]}]}}}}).to_string();
    let ended =
        |message: &str| ContainerStateTerminated { message: message.to_owned(), ..ContainerStateTerminated::default() };
    vec![
        ("an argument", container("args", json!(["run", text]))),
        ("an argument after a flag", container("args", json!(["--with", text, "--level"]))),
        ("a command", container("command", json!(["sh", "-c", format!("exec agent {text} --verbose")]))),
        ("a variable", container("env", json!([{"name": "A", "value": text}]))),
        ("a probe's path", container("livenessProbe", json!({"httpGet": {"path": format!("/{text}"), "port": 80}}))),
        ("a hook", container("lifecycle", json!({"preStop": {"exec": {"command": ["curl", text]}}}))),
        (
            "a mount",
            container("volumeMounts", json!([{"name": "v", "mountPath": format!("/{text}"), "subPathExpr": text}])),
        ),
        ("the change-cause", annotated("kubernetes.io/change-cause", &format!("kubectl set env {text}"))),
        ("another tool's annotation", annotated("example.com/note", text)),
        ("the last applied manifest", annotated("kubectl.kubernetes.io/last-applied-configuration", &manifest(text))),
        ("a manifest that is none", annotated("kubectl.kubernetes.io/last-applied-configuration", text)),
        ("an event", with_event(format!("Readiness probe failed: {text}: {WORDS}"))),
        ("an event's own text", with_event(text.to_owned())),
        ("a pod", with_pod(&|pod| pod.status.message = format!("{text}\nrefused"))),
        (
            "a termination message",
            with_pod(&|pod| {
                let last_state = ContainerState { terminated: Some(ended(text)), ..ContainerState::default() };
                pod.status.container_statuses = vec![ContainerStatus { last_state, ..ContainerStatus::default() }];
            }),
        ),
        ("a node", with_node(&format!("{WORDS}: {text}"))),
    ]
}

/// Ways to write a secret; `@` is where it is.
const SYNTAX: [&str; 26] = [
    "@",
    "--password=@",
    "--password @",
    "-p@",
    "\"--password\" \"@\"",
    "DB_PASSWORD=@ agent",
    "password: @",
    "db:\n  user: a\n  password: @\n  port: 5432\n",
    "{\"auths\":{\"hub\":{\"auth\":\"@\"}}}",
    "{\"tokens\": [\"x\", \"@\"]}",
    "--config={\\\"key\\\":\\\"@\\\"}",
    "X-Api-Key: @",
    "Authorization: Bearer @",
    "Cookie: session=@; Path=/",
    "https://ann:@@host/x",
    "https://@:x-oauth-basic@git.example/x.git",
    "amqp://bus:a/@?c@mq:5672/",
    "https://host/x?a=1&sig=@&b=2",
    "curl -u ann:@ http://10.0.0.1/",
    "mysql -h db -p@ shop",
    "the code is @, keep it",
    "login with @ failed: timed out",
    "secret @ not found",
    "<token>@</token>",
    "[auth]\nkey = @\n",
    "-----BEGIN KEY-----\n@\n-----END KEY-----",
];

/// Returns random secrets of every alphabet that they are made of.
fn secrets(random: &mut impl FnMut(usize) -> usize) -> Vec<String> {
    const ALPHABETS: [(&str, usize); 8] = [
        ("abcdefghijklmnopqrstuvwxyz", 12),
        ("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 16),
        ("0123456789", 10),
        ("0123456789abcdef", 32),
        ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", 20),
        ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 24),
        ("abcdefghijklmnopqrstuvwxyz0123456789-_.~", 16),
        ("abcdefghijklmnopqrstuvwxyzABCDEFGH0123456789!#%&*+=^?", 14),
    ];
    let mut one = |(alphabet, length): (&str, usize)| {
        let letters = alphabet.as_bytes();
        let secret: String = (0..length).map(|_| char::from(letters[random(letters.len())])).collect();
        // Nothing that quotes and punctuation around it could be part of.
        format!("{}{secret}{}", char::from(letters[0]), char::from(letters[1]))
    };
    ALPHABETS.into_iter().map(&mut one).collect()
}

/// Nothing here knows what the program looks at: 26 ways to write a secret in 16 places.
#[test]
fn random_secrets_in_four_hundred_shapes_are_hidden() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    let mut shown = Vec::new();
    for syntax in SYNTAX {
        for secret in secrets(&mut random) {
            for (place, snapshot) in written_into(&syntax.replacen('@', &secret, 1)) {
                let text = redacted(&snapshot);
                let escaped = serde_json::to_string(&secret).unwrap();
                if text.contains(&secret) || text.contains(escaped.trim_matches('"')) {
                    shown.push(format!("{secret} as {syntax:?} in {place}"));
                }
            }
        }
    }
    assert!(shown.is_empty(), "{}:\n{}", shown.len(), shown.join("\n"));
}

#[test]
fn what_components_say_stays_beside_what_is_hidden() {
    let (_, of_event) = written_into("PIN 1234-abcd").into_iter().find(|(place, _)| *place == "an event").unwrap();
    let event =
        |text: &str| text.lines().find(|line| line.contains("Readiness")).unwrap().trim_end_matches(',').to_owned();
    let text = redacted(&of_event);
    assert!(event(&text).contains("Readiness probe failed: REDACTED-"), "{text}");
    assert!(event(&text).contains(": connection refused"), "{text}");
    let again = open("-", &mut text.as_bytes(), None).unwrap().snapshot;
    assert_eq!(event(&redacted(&again)), event(&text), "it stays the same if it is done twice");
}
