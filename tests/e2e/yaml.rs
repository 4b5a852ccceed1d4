//! YAML from our writer, read by the real kubectl.

use std::io::Write;
use std::process::{Command, Stdio};

use kubectl_ds::encode::ordered_value::Tree;
use kubectl_ds::encode::yaml;
use serde_json::{Map, Value, json};

use crate::support::control_plane::build;
use crate::support::nasty_strings;

/// Has kubectl read an object and tell it in JSON. That needs no server: nothing is changed, and that locally.
fn read_by_kubectl(text: &str) -> Result<Value, String> {
    let mut kubectl = Command::new(build("parts"))
        .args(["kubectl", "patch", "--local", "--type=merge", "--patch={}", "--output=json", "--filename=-"])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = kubectl.stdin.take().unwrap();
    // Where kubectl refuses what it reads, it says why.
    let _ = input.write_all(text.as_bytes());
    drop(input);
    let output = kubectl.wait_with_output().unwrap();
    if output.status.success() {
        Ok(serde_json::from_slice(&output.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Puts strings wherever a DaemonSet can have them, and where it has names of its own.
fn daemon_set(strings: &[String]) -> Value {
    let by_name: Map<String, Value> = strings.iter().map(|string| (string.clone(), json!(string))).collect();
    let env: Vec<Value> = strings.iter().map(|string| json!({ "name": string, "value": string })).collect();
    let nested: Vec<Value> = strings.iter().map(|string| json!([[string], { string: { string: [string] } }])).collect();
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": { "name": "agent", "annotations": by_name },
        "spec": { "template": {
            "metadata": { "labels": by_name },
            "spec": { "containers": [
                { "name": "agent", "image": strings[0], "command": strings, "args": strings, "env": env, "nested": nested },
            ] },
        } },
    })
}

/// Tells whether kubectl reads back what is written.
fn is_read_back(strings: &[String], ascii: bool) -> Result<(), String> {
    let object = daemon_set(strings);
    let text = yaml::text(&Tree::customary(&object), ascii);
    match read_by_kubectl(&text)? {
        read if read == object => Ok(()),
        read => Err(format!("read as {read}")),
    }
}

#[test]
fn kubectl_reads_nasty_strings_as_they_were_written() {
    let strings = nasty_strings::all();
    assert!(strings.len() > 300, "{}", strings.len());
    for ascii in [false, true] {
        if is_read_back(&strings, ascii).is_err() {
            // Only now one by one, for it takes a process each.
            let wrong: Vec<String> = strings
                .iter()
                .filter_map(|string| {
                    is_read_back(std::slice::from_ref(string), ascii).err().map(|why| format!("{string:?}: {why}"))
                })
                .collect();
            panic!("{} strings, such as these:\n{}", wrong.len(), wrong.join("\n"));
        }
    }
}

#[test]
fn kubectl_reads_other_values_as_they_were_written() {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent" },
        "values": {
            "true": true, "false": false, "zero": 0, "minus": -1, "least": i64::MIN, "most": i64::MAX,
            "float": 0.5, "list": [], "map": {}, "in": [[], {}, [[]], [{}], [[1, [2]], { "a": [] }]],
        },
    });
    let text = yaml::text(&Tree::customary(&object), false);
    assert_eq!(read_by_kubectl(&text).unwrap(), object, "{text}");
}
