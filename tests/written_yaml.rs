//! YAML from our writer is read back as the same value, whatever it contains.

use kubectl_ds::cluster::yaml::value;
use kubectl_ds::encode::documents::documents;
use kubectl_ds::encode::ordered_value::Tree;
use kubectl_ds::encode::sanitize::is_unsafe;
use kubectl_ds::encode::yaml;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::support::hard_values::hard_value;
use crate::support::nasty_strings;
use crate::support::sampling::cases;

/// Reads a text that must be a single document.
fn read(text: &str) -> Value {
    let found = documents(text);
    assert_eq!(found.len(), 1, "not one document: {text:?}");
    value(found[0]).unwrap_or_else(|error| panic!("{error}: {text:?}"))
}

/// Writes a value, and holds what is written to what every writer has to keep.
fn written(value: &Value, ascii: bool) -> String {
    let text = yaml::text(&Tree::customary(value), ascii);
    let odd = text.chars().find(|c| is_unsafe(*c) && !matches!(c, '\n' | '\t'));
    assert_eq!(odd, None, "it could steer a terminal: {text:?}");
    assert!(!ascii || text.is_ascii(), "{text:?}");
    assert!(text.ends_with('\n'), "{text:?}");
    text
}

fn assert_same(value: &Value) {
    for ascii in [false, true] {
        let text = written(value, ascii);
        assert_eq!(&read(&text), value, "{text}");
    }
}

#[test]
fn nasty_strings_are_read_back_wherever_they_stand() {
    let strings = nasty_strings::all();
    assert!(strings.len() > 300, "{}", strings.len());
    for string in &strings {
        assert_same(&json!({ "a": string }));
        assert_same(&json!({ string: "a" }));
        assert_same(&json!({ string: { string: [string] } }));
        assert_same(&json!([string, [string, [string]], { "a": string, "b": [string, string], "c": { "d": string } }]));
        assert_same(&json!([{ string: string, "name": string }]));
    }
    assert_same(&json!(strings));
    let keys: Map<String, Value> = strings.iter().map(|string| (string.clone(), json!(string))).collect();
    assert_same(&Value::Object(keys));
}

#[test]
fn other_values_are_read_back_too() {
    assert_same(&json!({
        "null": null, "true": true, "false": false, "zero": 0, "minus": -1, "most": u64::MAX, "least": i64::MIN,
        "float": 0.1, "big": 1e300, "small": 5e-324, "whole": 1.0, "list": [], "map": {}, "in": [[], {}, [[]], [{}]],
    }));
    for lone in [json!([]), json!({}), json!(true), json!(1), json!("a"), json!("a\nb\n"), json!("  a\nb")] {
        assert_same(&lone);
    }
}

#[test]
fn it_looks_as_kubectl_writes_it() {
    let template = json!({
        "spec": {
            "containers": [
                {"image": "agent:2", "name": "agent", "args": ["--level", "1_000", "5Gi"], "command": ["sh", "-c", "set -e\nrun\n"]},
                {"name": "odd", "env": [{"value": "\u{1b}[31m", "name": "RED"}], "resources": {}},
            ],
            "apiGroup": "x",
        },
        "metadata": {"labels": {"app": "agent", "yes": "no"}},
        "kind": "DaemonSet",
        "apiVersion": "apps/v1",
    });
    let expected = r#"apiVersion: apps/v1
kind: DaemonSet
metadata:
  labels:
    app: agent
    "yes": "no"
spec:
  apiGroup: x
  containers:
  - name: agent
    args:
    - --level
    - "1_000"
    - 5Gi
    command:
    - sh
    - -c
    - |
      set -e
      run
    image: agent:2
  - name: odd
    env:
    - name: RED
      value: "\u001b[31m"
    resources: {}
"#;
    assert_eq!(written(&template, false), expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(2_000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_value_is_read_back(value in hard_value()) {
        for ascii in [false, true] {
            let text = written(&json!({ "a": value }), ascii);
            prop_assert_eq!(&read(&text)["a"], &value, "{}", text);
        }
    }
}
