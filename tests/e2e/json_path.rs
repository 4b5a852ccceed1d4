//! Templates of `-o jsonpath`, applied by the real kubectl.

use std::fs;
use std::process::{Command, Stdio};

use kubectl_ds::encode::json_path::JsonPath;
use serde_json::{Value, json};

use crate::support::control_plane::build;

/// Applies a template to an object in a file. That needs no server: nothing is changed, and that locally.
fn apply_by_kubectl(template: &str, file: &str) -> Result<String, String> {
    let output = Command::new(build("parts"))
        .args(["kubectl", "patch", "--local", "--type=merge", "--patch={}", "--filename", file, "--output"])
        .arg(format!("jsonpath={template}"))
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn object() -> Value {
    json!({
        "apiVersion": "kubectl-ds/v1",
        "kind": "CoverageReport",
        "metadata": {"name": "report", "labels": {"k8s-app": "a", "app.kubernetes.io/name": "b"}},
        "nothing": null,
        "truth": true,
        "share": 1.5,
        "daemonSets": [
            {"name": "agent", "count": 3, "nodes": [{"name": "a1"}, {"name": "a2", "zone": "x"}], "tags": ["p", "q"]},
            {"name": "it's \"quoted\"", "count": 10, "nodes": [{"name": "b1"}], "message": "two\nlines, é"},
            {"name": "c", "count": -1, "nodes": [{"name": "c1"}], "deep": [[1, 2], [3]]},
        ],
    })
}

#[test]
fn kubectl_applies_the_same_templates_in_the_same_way() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("object.json");
    fs::write(&file, object().to_string()).unwrap();
    for template in [
        "plain text",
        "{@}",
        "{.}",
        "{.kind}{.nothing}{.truth} {.share} {.none}",
        "{.metadata.labels.k8s-app} {.metadata.labels.app\\.kubernetes\\.io/name}",
        "{.metadata.labels['app\\.kubernetes\\.io/name','k8s-app']}",
        "{.daemonSets[*].name}",
        "{.daemonSets[-1:].deep}",
        "{.daemonSets[-1].deep[*][0]}",
        "{.daemonSets[0:3:2].name} {.daemonSets[:1].name} {.daemonSets[1:1].name}",
        "{.daemonSets[0,2].name}",
        "{.daemonSets[*]['name','count']}",
        "{.daemonSets[?(@.count>2)].count}",
        "{.daemonSets[?(@.count <= -1)].name}",
        "{.daemonSets[?(@.message)].message}",
        "{.daemonSets[?(@.name==\"agent\")].nodes[?(@.zone=='x')].name}",
        "{.daemonSets[?(@.tags[0]!=\"q\")].name}",
        "{..zone} {..nodes[0].name} {..tags}",
        "{range .daemonSets[*]}{.name}{\"\\t\"}{range .nodes[*]}{.name}{','}{end}{\"\\n\"}{end}end",
        "{range .daemonSets[?(@.none)]}{.name}{end}end",
        "{.daemonSets[3].name}",
        "{.daemonSets[2:1].name}",
        "{.daemonSets[::0].name}",
        "{.kind[0]}",
        "{.daemonSets[?(@.count=='3')].name}",
        "{.daemonSets[?(@.count=~3)].name}",
        "{.daemonSets",
        "{name}",
        "{end}",
        "{\"open}",
    ] {
        let ours = JsonPath::parse(template).and_then(|template| template.apply(&object()));
        let kubectls = apply_by_kubectl(template, file.to_str().unwrap());
        match (&ours, &kubectls) {
            (Ok(ours), Ok(kubectls)) => assert_eq!(ours, kubectls, "{template}"),
            (Err(_), Err(_)) => {}
            _ => panic!("{template}: {ours:?} instead of {kubectls:?}"),
        }
    }
}
