use kubectl_ds::cluster::Query;
use kubectl_ds::cluster::text::Format;
use kubectl_ds::cluster::write_dump::{WriteOptions, write_dump};
use kubectl_ds::model::snapshot::{Gap, GapCause, Kind, Snapshot};
use serde_json::{Value, json};

use super::{ask, complaint, daemon_set, list, node, on_node, pod, read, untyped};

fn yaml_text(value: &Value) -> String {
    serde_saphyr::to_string(value).unwrap()
}

fn yaml(items: &[Value]) -> String {
    serde_saphyr::to_string(&items).unwrap()
}

#[test]
fn a_truncated_dump_says_where_it_breaks_off() {
    let text = serde_json::to_string_pretty(&list(&[daemon_set("x", "agent"), node("a")])).unwrap();
    let cut = &text[..text.len() / 2];
    let (line, column) = (cut.lines().count(), cut.lines().last().unwrap().len());
    assert_eq!(
        complaint(cut),
        format!(
            "standard input: the JSON breaks off at line {line}, column {column}: the file is truncated\n\
             hint: copy the file again, or make the dump again"
        )
    );
}

#[test]
fn broken_text_is_named_with_its_line() {
    assert_eq!(
        complaint("{\"kind\": \"List\",\n \"items\": [,]}"),
        "standard input: line 2: broken JSON: expected value"
    );
    assert_eq!(
        complaint("kind: List\nitems:\n- kind: [\n"),
        "standard input: unclosed bracket '[' at line 3, column 9"
    );
    assert_eq!(complaint("just words"), "standard input: holds plain text, not Kubernetes objects");
    assert_eq!(complaint("- a\n- b\n"), "standard input: holds a YAML sequence, not Kubernetes objects");
}

/// Returns the gaps that unreadable objects left.
fn unreadable(snapshot: &Snapshot) -> Vec<(Kind, Option<&str>, String)> {
    let of = |gap: &'_ Gap| match &gap.cause {
        GapCause::Unreadable { object, problem } => Some(format!("{object}: {problem}")),
        _ => None,
    };
    snapshot.gaps.iter().filter_map(|gap| Some((gap.kind, gap.namespace.as_deref(), of(gap)?))).collect()
}

#[test]
fn a_node_of_an_unexpected_shape_is_left_out_with_its_pods() {
    let mut wrong = node("b");
    wrong["spec"]["unschedulable"] = json!("maybe");
    let mut there = pod("x", "agent-b", "DaemonSet");
    there["spec"]["nodeName"] = json!("b");
    let items = [daemon_set("x", "agent"), node("a"), wrong, pod("x", "agent-a", "DaemonSet"), there];
    let text = serde_json::to_string_pretty(&list(&items)).unwrap();
    let line = text.lines().position(|line| line.contains("\"b\"")).unwrap();
    let problem = "spec.unschedulable: invalid type: string \"maybe\", expected a boolean";
    let snapshot = read(&text).unwrap().snapshot;
    let names: Vec<_> = snapshot.nodes.iter().map(|node| node.metadata.name.as_str()).collect();
    assert_eq!((names, snapshot.pods.len()), (vec!["a"], 1));
    let found = unreadable(&snapshot);
    assert_eq!((found[0].0, found[0].1, found.len()), (Kind::Nodes, None, 1));
    let place = found[0].2.strip_prefix("Node b: standard input: line ").unwrap().strip_suffix(problem).unwrap();
    let begins: usize = place.strip_suffix(": ").unwrap().parse().unwrap();
    assert!(begins < line && line - begins < 20, "{begins} is the line on which the item begins");

    let yaml = serde_saphyr::to_string(&list(&items)).unwrap();
    assert!(unreadable(&read(yaml).unwrap().snapshot)[0].2.ends_with(problem));
    let on_b = on_node("b");
    let error = ask(&text, &on_b).unwrap_err().to_string();
    assert!(error.starts_with("Node b: standard input: line ") && error.ends_with(problem), "{error}");
}

#[test]
fn a_pod_of_an_unexpected_shape_is_never_taken_for_missing() {
    let wrong = |owner: &str| {
        let mut wrong = pod("x", "agent-a", owner);
        wrong["status"]["containerStatuses"] = json!([{"restartCount": "often"}]);
        wrong
    };
    let snapshot = |items: &[Value]| read(list(items).to_string()).unwrap().snapshot;
    let found = snapshot(&[daemon_set("x", "agent"), node("a"), node("b"), wrong("DaemonSet")]);
    assert_eq!(found.nodes.len(), 1, "its node is left out");
    assert_eq!(
        unreadable(&found),
        [(
            Kind::Nodes,
            None,
            "Pod x/agent-a: standard input: line 1: status.containerStatuses[0].restartCount: invalid type: string \
             \"often\", expected i32"
                .to_owned()
        )]
    );
    let mut unbound = wrong("DaemonSet");
    unbound["spec"]["nodeName"] = json!(7);
    let found = snapshot(&[daemon_set("x", "agent"), node("a"), unbound]);
    assert!(found.gap(Kind::Pods, "x").is_some() && found.gap(Kind::Pods, "y").is_none());
    let found = snapshot(&[daemon_set("x", "agent"), node("a"), wrong("ReplicaSet")]);
    assert_eq!((found.nodes.len(), found.gap(Kind::Pods, "x")), (1, None), "another controller's");
    assert!(!found.knows_all_pods_on("a"));
}

#[test]
fn a_daemon_set_of_an_unexpected_shape_is_an_error_only_if_it_is_requested() {
    let mut wrong = daemon_set("x", "agent");
    wrong["spec"]["minReadySeconds"] = json!("soon");
    let text = list(&[wrong, daemon_set("x", "other"), json!(null)]).to_string();
    let problem =
        "DaemonSet x/agent: standard input: line 1: spec.minReadySeconds: invalid type: string \"soon\", expected i64";
    let snapshot = ask(&text, &Query::default()).unwrap();
    assert_eq!(snapshot.daemon_sets.len(), 1);
    assert_eq!(unreadable(&snapshot), [(Kind::DaemonSets, Some("x"), problem.to_owned())]);
    let named = |name: &str| ask(&text, &Query { names: vec![name.to_owned()], ..Query::default() });
    assert_eq!(named("agent").unwrap_err().to_string(), problem);
    assert_eq!(named("other").unwrap().daemon_sets.len(), 1);
}

#[test]
fn what_cannot_be_read_of_a_daemon_set_is_named_by_its_path() {
    for (spec, problem) in [
        (
            json!({"updateStrategy": "OnDelete"}),
            "spec.updateStrategy: invalid type: string \"OnDelete\", expected an object",
        ),
        (
            json!({"updateStrategy": {"type": 5}}),
            "spec.updateStrategy.type: invalid type: integer `5`, expected a string",
        ),
        (
            json!({"updateStrategy": {"rollingUpdate": "fast"}}),
            "spec.updateStrategy.rollingUpdate: invalid type: string \"fast\", expected an object",
        ),
        (
            json!({"updateStrategy": {"rollingUpdate": {"paused": 1}}}),
            "spec.updateStrategy.rollingUpdate.paused: invalid type: integer `1`, expected a boolean",
        ),
        (json!({"template": 7}), "spec.template: invalid type: integer `7`, expected an object"),
        (json!({"selector": "app"}), "spec.selector: invalid type: string \"app\", expected an object"),
    ] {
        let mut wrong = daemon_set("x", "agent");
        spec.as_object().unwrap().iter().for_each(|(field, value)| wrong["spec"][field] = value.clone());
        let items = [wrong, daemon_set("x", "other")];
        let text = list(&items).to_string();
        for (text, place) in [(text, "line 1: "), (serde_saphyr::to_string(&list(&items)).unwrap(), "")] {
            let snapshot = ask(&text, &Query::default()).unwrap();
            let found = &unreadable(&snapshot)[0].2;
            assert_eq!(*found, format!("DaemonSet x/agent: standard input: {place}{problem}"));
        }
    }
}

#[test]
fn truncated_yaml_is_an_error_wherever_a_list_is_cut() {
    let items = [daemon_set("x", "agent"), node("a"), node("b"), pod("x", "agent-1", "DaemonSet")];
    let whole = format!("apiVersion: v1\nitems:\n{}kind: List\nmetadata:\n  resourceVersion: \"\"\n", yaml(&items));
    let end = whole.find("kind: List").unwrap();
    assert_eq!(read(&whole).unwrap().snapshot.nodes.len(), 2);
    // Without its last letter, the kind is another one.
    for cut in (20..end + "kind: List".len()).filter(|cut| whole.is_char_boundary(*cut)) {
        let error = read(&whole[..cut]).map(|reading| reading.snapshot.nodes.len());
        assert!(error.is_err(), "cut at {cut}: {error:?}");
    }
    assert_eq!(
        complaint(&whole[..end]),
        "standard input: the list at line 1 has no kind: the file is truncated\n\
         hint: copy the file again, or make the dump again"
    );
}

#[test]
fn yaml_is_read_by_the_type_of_its_lists_and_beside_documents_of_other_tools() {
    let pods = "apiVersion: v1\nkind: PodList\nitems:\n- kind: Pod\n  metadata: {name: a, namespace: x, uid: u}\n";
    assert_eq!(read(pods).unwrap().snapshot.pods.len(), 1);
    let others = "kind: ResourceList\nitems:\n- {apiVersion: v1, kind: Node, metadata: {name: n}}\n";
    assert_eq!(read(format!("{others}---\n{pods}")).unwrap().snapshot.nodes.len(), 0);
    for foreign in ["apiVersion: 1\ndatasources: []\n", "apiVersion:\nkind:\n", "kind: [1]\n"] {
        assert_eq!(read(format!("{foreign}---\n{pods}")).unwrap().snapshot.pods.len(), 1, "{foreign}");
    }
}

#[test]
fn a_snapshot_in_yaml_says_how_many_objects_it_has() {
    let items = [daemon_set("x", "agent"), node("a"), node("b")];
    let snapshot = read(list(&items).to_string()).unwrap().snapshot;
    let mut text = Vec::new();
    let options = WriteOptions { format: Format::Yaml, namespace: None, redact: false };
    write_dump(&snapshot, &options, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(read(&text).is_ok());
    let last = text.rfind("\n- apiVersion").unwrap() + 1;
    assert_eq!(
        complaint(&text[..last]),
        "standard input: has 1 of its 2 nodes: the file is truncated, or was edited\n\
         hint: copy the file again, or remove its field `snapshot` to read what it has"
    );
}

#[test]
fn memory_is_bounded_by_objects_not_by_text() {
    // An item that is not an object of Kubernetes is not kept, however many fit into a small file.
    let pods = vec![r#"{"apiVersion":"v1","kind":"Pod"}"#; 5_000].join(",");
    let error = complaint(format!("{{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[{pods}]}}"));
    assert!(error.starts_with("standard input: more than 1000 objects cannot be read, the last: "), "{error}");
    assert!(error.contains("metadata.name: is missing"), "{error}");
    let long =
        format!("{{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[{{\"a\":\"{}\"}}]}}", "x".repeat(17 << 20));
    assert_eq!(complaint(long), "standard input: line 1: an object is longer than any object of Kubernetes");
}

#[test]
fn items_are_found_however_their_key_is_spelled_and_null_is_not_an_object() {
    let text = list(&[daemon_set("x", "agent"), node("a")]).to_string().replace("\"items\"", "\"\\u0069tems\"");
    assert_eq!(read(text).unwrap().snapshot.nodes.len(), 1);
    let text = json!({"apiVersion": "v1", "kind": "NodeList", "items": [null, untyped(node("a"))]}).to_string();
    let snapshot = read(text).unwrap().snapshot;
    assert_eq!((snapshot.nodes.len(), unreadable(&snapshot).len()), (1, 1));
}

#[test]
fn foreign_text_is_told_from_a_dump() {
    let hint = "hint: `kubectl ds snapshot` writes a dump, and so does \
                `kubectl get ds,controllerrevisions,nodes,pods,events -A -o json`";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}});
    let manifest = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "x"}});
    for (text, problem) in [
        ("{}".to_owned(), "has no Kubernetes objects".to_owned()),
        (list(&[]).to_string(), "has no Kubernetes objects".to_owned()),
        ("# nothing\n---\n".to_owned(), "has no Kubernetes objects".to_owned()),
        (
            list(&[map.clone(), secret, map.clone()]).to_string(),
            "has no DaemonSet, node, pod or event, only ConfigMap (2), Secret (1)".to_owned(),
        ),
        (
            list(&["A", "B", "C", "D", "E"].map(|kind| json!({"apiVersion": "v1", "kind": kind, "metadata": {}})))
                .to_string(),
            "has no DaemonSet, node, pod or event, only A (1), B (1), C (1), D (1) and 1 other kind".to_owned(),
        ),
        // Whether all of it is a manifest is not known.
        (
            list(&[map, manifest]).to_string(),
            "has no DaemonSet, node, pod or event, only ConfigMap (1), DaemonSet of a manifest (1)\n\
             hint: a manifest is not read with --from: `preview -f` previews it, and `partition -f` rolls it out"
                .to_owned(),
        ),
    ] {
        assert_eq!(complaint(text), format!("standard input: {problem}\n{hint}"));
    }
    assert_eq!(
        complaint("<!DOCTYPE html>\n<html>"),
        "standard input: holds HTML or XML, not JSON or YAML\nhint: was it fetched through a page that asks for a login?"
    );
    assert_eq!(
        complaint(""),
        "standard input: is empty\nhint: did the command that was to write it fail? `kubectl ds snapshot` writes a dump"
    );
    assert_eq!(
        complaint("NAME    DESIRED   CURRENT\nagent   1   1\n"),
        "standard input: holds a table for people, not JSON or YAML\n\
         hint: add `-o json` to the kubectl command that wrote it"
    );
}

#[test]
fn yaml_beyond_a_size_is_refused_with_the_way_out() {
    let text = format!("{}{}", yaml_text(&node("a")), "# comment of a line\n".repeat(2 << 20));
    assert_eq!(
        complaint(&text),
        "standard input: is larger than 32 MiB, too large for YAML\n\
         hint: make the dump in JSON, which is read as a stream: `kubectl get … -o json`"
    );
    assert_eq!(read(&text[..20 << 20]).unwrap().snapshot.nodes.len(), 1);
}

#[test]
fn a_kind_of_which_a_file_cannot_be_read_is_a_gap() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("a.yaml", &yaml_text(&list(&[node("a"), daemon_set("x", "agent")])));
    write("b.yaml", &format!("{}\n  broken: [", yaml_text(&list(&[node("b")]))));
    let reading = super::open(directory.path().to_str().unwrap(), &mut std::io::empty(), None).unwrap();
    assert_eq!(reading.snapshot.nodes.len(), 1);
    assert!(reading.snapshot.gap(Kind::Nodes, "").is_some(), "{:?}", reading.snapshot.gaps);
    assert!(reading.snapshot.gap(Kind::DaemonSets, "x").is_none());
}
