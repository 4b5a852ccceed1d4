//! Suggested commands, pasted into a shell: whatever the names in a cluster, a dump or a kubeconfig, nothing else is run.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::hostile::cluster_with;
use crate::screens::{end, kubectl_ds};

/// Names that would run something, be taken for another argument, or end a line. Without a `PATH` a redirection is all that can run.
const NAMES: [&str; 10] = [
    "$(echo>PWNED)",
    "`echo>PWNED`",
    "a'; echo>PWNED; '",
    "a\"; echo>PWNED; \"",
    "a\necho>PWNED\n",
    "a && echo>PWNED",
    "${PWNED:=x}",
    "-x",
    "--all",
    "a b\\' \u{1b}[31m\u{202e}ü",
];

/// Runs a line in bash, where kubectl is a function that writes its arguments, and returns those of the last call.
fn pasted(line: &str, directory: &Path) -> Vec<String> {
    let script = format!("kubectl() {{ printf '%s\\0' \"$@\" > arguments; }}\n{line}\n");
    let bash = Command::new("/bin/bash").arg("-c").arg(&script).current_dir(directory).env_clear().output().unwrap();
    let err = String::from_utf8_lossy(&bash.stderr);
    // What the user has to set is not.
    let lacks_variable = ["TOKEN", "DUMP", "PASSWORD", "LOGIN"].iter().any(|name| err.contains(name));
    assert!(bash.status.success() || lacks_variable, "{line}: {err}");
    assert!(!directory.join("PWNED").exists(), "it ran something: {line}");
    let arguments = std::fs::read(directory.join("arguments")).unwrap_or_default();
    let _ = std::fs::remove_file(directory.join("arguments"));
    String::from_utf8_lossy(&arguments).split('\0').map(str::to_owned).collect()
}

/// Returns the commands of a report, wherever they are.
fn commands(report: &Value) -> Vec<String> {
    match report {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, field)| match field.as_str().filter(|_| key == "command") {
                Some(command) => vec![command.to_owned()],
                None => commands(field),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(commands).collect(),
        _ => Vec::new(),
    }
}

/// Returns what is to be pasted of hints and advice: commands, and what is to be added to one.
fn suggested(text: &str) -> Vec<String> {
    let of_line = |line: &str| {
        let line = line.trim();
        if let Some(at) = line.find(": kubectl ") {
            return Some(line[at + 2..].to_owned());
        }
        let (_, added) = line.strip_prefix("hint: ")?.split_once(": ")?;
        (added.starts_with('-') || added.starts_with("'-")).then(|| format!("kubectl {added}"))
    };
    text.lines().filter_map(of_line).collect()
}

/// Returns whether one of the arguments is the name, or ends with it as the value of a flag or a label, or after a namespace.
fn names(arguments: &[String], name: &str) -> bool {
    arguments
        .iter()
        .any(|argument| argument == name || argument.ends_with(name) || argument.contains(&format!("{name}=")))
}

#[test]
fn no_suggested_command_runs_anything_else() {
    let directory = tempfile::tempdir().unwrap();
    for name in NAMES {
        let dump = cluster_with(name).to_string();
        let reports: [&[&str]; 8] = [
            &["list", "-A"],
            &["coverage", "-A"],
            &["coverage", "-A", "--nodes"],
            &["coverage", "-A", "--node", "other"],
            &["coverage", "-A", "--by", "zone"],
            &["status", "-A"],
            &["changes", "-A", "--since", "1h"],
            &["overhead", "-A"],
        ];
        let mut found = 0;
        for arguments in reports {
            let run = |flags: &[&str]| {
                let ended = end(kubectl_ds(&[arguments, flags, &["--from", "-"]].concat()), Some(dump.as_bytes()));
                (ended.out, ended.err)
            };
            let (text, err) = run(&[]);
            let (data, _) = run(&["-o", "json"]);
            let data = serde_json::from_str(&data).map_or_else(|_| Vec::new(), |report: Value| commands(&report));
            for line in suggested(&text).into_iter().chain(suggested(&err)).chain(data) {
                let arguments = pasted(&line, directory.path());
                found += usize::from(names(&arguments, name));
            }
        }
        assert!(found > 3, "{name:?}: {found}");
    }
}

#[test]
fn what_an_error_suggests_to_add_is_one_argument() {
    let directory = tempfile::tempdir().unwrap();
    let daemon_set = |namespace: &str, name: &str| {
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": namespace, "uid": name},
            "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "x", "image": "x:1"}]}}}})
    };
    let list = |items: &[Value]| json!({"apiVersion": "v1", "kind": "List", "items": items});
    let file = |file: &str, text: String| {
        let path = directory.path().join(file);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for name in NAMES {
        let mut of_namespace = list(&[daemon_set(name, "agent")]);
        of_namespace["snapshot"] = json!({"tool": "kubectl-ds 0.1.0", "takenAt": "2026-11-20T12:00:00Z", "namespace": name,
            "kinds": ["daemonsets", "nodes"], "pods": {"onNodes": []}, "counts": {"daemonsets": 1}});
        let dump = file("dump.json", of_namespace.to_string());
        let plain = file("plain.json", list(&[daemon_set(name, "agent")]).to_string());
        let manifest = file("manifest.json", daemon_set(name, "agent").to_string());
        let config = json!({"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "contexts": [{"name": name, "context": {"cluster": "c"}}]});
        let config = file("config", config.to_string());
        let situations: [(&str, &[&str]); 5] = [
            ("the namespace of a dump", &["coverage", "-n", "elsewhere", "--from", &dump]),
            ("the namespace of a manifest", &["preview", "-n", "elsewhere", "-f", &manifest, "--from", "demo"]),
            ("another namespace", &["coverage", "agent", "-n", "elsewhere", "--from", &plain]),
            ("another namespace, for its history", &["history", "agent", "-n", "elsewhere", "--from", &plain]),
            ("no current context", &["list", "--kubeconfig", &config]),
        ];
        for (what, arguments) in situations {
            let ended = end(kubectl_ds(arguments), None);
            assert_ne!(ended.code, Some(0), "{what} {name:?}: {}", ended.out);
            let lines = suggested(&ended.err);
            let pasted: Vec<Vec<String>> = lines
                .iter()
                .flat_map(|line| {
                    // Several may be offered, and one is taken.
                    let first = line.split(", -").next().unwrap_or_default();
                    [pasted(line, directory.path()), pasted(first, directory.path())]
                })
                .collect();
            let is_meant = |argument: &String| {
                argument == name
                    || argument.strip_prefix("-n=") == Some(name)
                    || argument.strip_prefix("--context=") == Some(name)
            };
            assert!(pasted.iter().flatten().any(is_meant), "{what} {name:?}: {pasted:?} of {}", ended.err);
        }
    }
}
