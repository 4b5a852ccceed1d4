use serde_json::json;

use super::{complaint, daemon_set, list, node};

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
        "standard input: broken JSON: expected value at line 2 column 12"
    );
    assert_eq!(
        complaint("kind: List\nitems:\n- kind: [\n"),
        "standard input: unclosed bracket '[' at line 3, column 9"
    );
    assert_eq!(complaint("just words"), "standard input: holds plain text, not Kubernetes objects");
    assert_eq!(complaint("- a\n- b\n"), "standard input: holds a YAML sequence, not Kubernetes objects");
}

#[test]
fn a_field_of_the_wrong_type_is_named_with_its_object() {
    let mut wrong = node("b");
    wrong["spec"]["unschedulable"] = json!("maybe");
    let text = serde_json::to_string_pretty(&list(&[node("a"), wrong.clone()])).unwrap();
    let line = text.lines().position(|line| line.contains("maybe")).unwrap() + 1;
    assert_eq!(
        complaint(&text),
        format!("standard input: line {line}: Node b: invalid type: string \"maybe\", expected a boolean")
    );
    assert_eq!(
        complaint(serde_saphyr::to_string(&list(&[node("a"), wrong])).unwrap()),
        "standard input: Node b: invalid type: string \"maybe\", expected a boolean"
    );
    let mut wrong = daemon_set("x", "agent");
    wrong["spec"]["minReadySeconds"] = json!("soon");
    assert_eq!(
        complaint(list(&[wrong]).to_string()),
        "standard input: line 1: DaemonSet x/agent: invalid type: string \"soon\", expected i64"
    );
}

#[test]
fn foreign_text_is_told_from_a_dump() {
    let hint = "hint: `kubectl ds snapshot` writes a dump, and so does \
                `kubectl get ds,controllerrevisions,nodes,pods,events -A -o json`";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}});
    for (text, problem) in [
        ("{}".to_owned(), "holds no Kubernetes objects".to_owned()),
        (list(&[]).to_string(), "holds no Kubernetes objects".to_owned()),
        ("# nothing\n---\n".to_owned(), "holds no Kubernetes objects".to_owned()),
        (
            list(&[map.clone(), secret, map]).to_string(),
            "holds no DaemonSet, node, pod or event, only ConfigMap (2), Secret (1)".to_owned(),
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
