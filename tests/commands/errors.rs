//! With `-o json`, an error is a JSON document on the last line of standard error.

use serde_json::Value;

use super::run;
use crate::screens::{Ended, end, kubectl_ds};

/// Returns the document that a command ends with, which warnings may precede.
fn document(ended: &Ended) -> Value {
    let last = ended.err.lines().last().unwrap_or_default();
    let error: Value = serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {}", ended.err));
    assert_eq!((&error["apiVersion"], &error["kind"]), (&"kubectl-ds/v1".into(), &"Error".into()));
    assert_eq!(error["exitCode"].as_i64(), ended.code.map(i64::from), "{error}");
    error
}

#[test]
fn a_document_says_what_the_text_says() {
    for (arguments, code) in [
        (&["coverage", "--from", "no-such.json"][..], 1),
        (&["status", "no-such", "-n", "logging", "--from", "demo"], 1),
        // A similar name is no command.
        (&["status", "fluentbit", "-n", "logging", "--from", "demo"], 1),
        // An error about each.
        (&["status", "no", "such", "-n", "logging", "--from", "demo"], 1),
        (&["list", "--from", "demo", "--from", "no-such.json"], 5),
        // It cannot be applied to a dump.
        (&["undo", "fluent-bit", "-n", "logging", "--from", "demo"], 2),
        (&["undo", "--from", "demo"], 2),
        (&["coverage", "--banana"], 2),
        (&["coverage", "--problem"], 2),
        (&["status", "--fail-fast"], 2),
        (&["rollout", "undo", "agent"], 2),
        (&["ls", "--from", "demo"], 2),
    ] {
        let text = run(&[arguments, &["-o", "yaml"]].concat());
        assert_eq!(text.code, Some(code), "{arguments:?}: {}", text.err);
        let error = document(&run(&[arguments, &["-o", "json"]].concat()));
        for flags in [&["-ojson"][..], &["-o=json"], &["--output", "json"], &["--output=json"]] {
            assert_eq!(document(&run(&[arguments, flags].concat())), error, "{arguments:?} {flags:?}");
        }
        let lines: Vec<&str> = error["message"].as_str().unwrap().lines().collect();
        assert!(text.err.contains(&format!("error: {}\n", lines[0])), "{error}: {}", text.err);
        let hints = error["hints"].as_array().unwrap().iter();
        let hints = hints.flat_map(|hint| [hint["advice"].as_str(), hint["command"].as_str()]).flatten();
        for said in lines.into_iter().chain(hints.flat_map(str::lines)) {
            assert!(text.err.contains(said.trim()), "{said:?} is not in {}", text.err);
        }
    }
}

#[test]
fn a_hint_has_its_command() {
    let error = document(&run(&["history", "-Aojson", "--from", "demo"]));
    assert_eq!(error["hints"][0]["command"], "kubectl ds changes -A --from demo", "{error}");
    let mut command = kubectl_ds(&["undo", "agent", "-n", "team", "-o", "json", "--server", "http://127.0.0.1:9"]);
    command.env("KUBECTL_DS_READ_ONLY", "1");
    let error = document(&end(command, None));
    let advice = &error["hints"][0]["advice"];
    assert_eq!((error["exitCode"].as_i64(), advice), (Some(1), &"to see what a change would do, add --dry-run".into()));
}

#[test]
fn without_o_json_an_error_is_text() {
    for arguments in
        [&["list", "--banana", "-o", "yaml"][..], &["list", "--banana"], &["list", "--banana", "--", "-o", "json"]]
    {
        assert!(run(arguments).err.starts_with("error: unknown flag --banana"), "{arguments:?}");
    }
}

#[test]
fn a_reason_may_be_abbreviated_to_ask_for_its_name() {
    for arguments in [&["explain", "oom"][..], &["list", "--reason", "crash", "--from", "demo"]] {
        let ended = run(arguments);
        let suggests = ["OOMKilled", "CrashLooping"].into_iter().any(|code| ended.err.contains(code));
        assert!(ended.code == Some(2) && suggests, "{}", ended.err);
    }
}

/// As kubectl does.
#[test]
fn a_switch_may_have_a_value() {
    let plain = run(&["list", "-A", "--from", "demo"]);
    for flags in [&["-A=true", "-w=false"][..], &["--all-namespaces=true", "--watch=false"]] {
        let ended = run(&[&["list", "--from", "demo"], flags].concat());
        assert_eq!((ended.code, &ended.out), (Some(0), &plain.out), "{flags:?} {}", ended.err);
    }
    assert!(run(&["list", "-A=maybe", "--from", "demo"]).err.starts_with("error: "));
}

#[test]
fn what_was_asked_for_and_not_found_is_told() {
    let ended = run(&["list", "-l", "app=nope", "-n", "logging", "--from", "demo"]);
    let expected = "No DaemonSets found matching app=nope in logging namespace; -A searches all namespaces.\n";
    assert_eq!(ended.err, expected);
    let ended = run(&["completion", "--install", "no/such/directory"]);
    assert!(ended.code == Some(1) && ended.err.contains("mkdir -p no/such/directory"), "{}", ended.err);
}
