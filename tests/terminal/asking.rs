//! The confirmation prompt before a risky change on a terminal.

use serde_json::{Value, json};

use crate::client::asking::{changes, command, server, template};
use crate::support::pty::InTerminal;

/// Starts a restart in a terminal, answers the question if there is one, and returns the exit code, what was shown, and how often
/// something was changed.
fn restart(
    (down, template): (&'static str, &Value),
    flags: &[&str],
    environment: &[(&str, &str)],
    answer: Option<&str>,
) -> (Option<i32>, Vec<String>, usize) {
    let (server, folder) = (server(down, template), tempfile::tempdir().unwrap());
    let mut command = command(&server, &folder, &[&["restart", "agent", "--no-wait"], flags].concat());
    command.env_remove("COLUMNS").env("TERM", "xterm-256color").envs(environment.iter().copied());
    let mut run = InTerminal::start(command, (160, 40));
    if let Some(answer) = answer {
        run.wait_for("the question", |rows| rows.iter().any(|row| row.contains("continue? [y/N]")));
        assert_eq!(changes(&server), 0);
        run.enter(answer);
    }
    let (code, rows, _) = run.end();
    let changes = changes(&server);
    server.stop();
    (code, rows, changes)
}

fn says(rows: &[String], text: &str) -> bool {
    rows.iter().any(|row| row.contains(text))
}

fn critical(spec: Value) -> Value {
    let mut template = template();
    for (name, value) in spec.as_object().unwrap() {
        template["spec"][name] = value.clone();
    }
    template
}

#[test]
fn a_change_that_blocks_is_made_only_if_that_is_confirmed() {
    let plain = template();
    let (code, rows, changes) = restart(("n3", &plain), &[], &[], Some("n"));
    assert_eq!((code, changes), (Some(1), 0), "{rows:#?}");
    assert!(says(&rows, "context prod-eu, team/agent:"), "{rows:#?}");
    assert!(says(&rows, "  no pod will be replaced: n3 is down and holds maxUnavailable 1"), "{rows:#?}");
    assert!(says(&rows, "error: not confirmed; nothing was changed"), "{rows:#?}");
    for (answer, expected) in [("y", (Some(0), 1)), ("YES", (Some(0), 1)), ("", (Some(1), 0)), ("yep", (Some(1), 0))] {
        let (code, rows, changes) = restart(("n3", &plain), &[], &[], Some(answer));
        assert_eq!((code, changes), expected, "{answer:?} {rows:#?}");
    }
    let (code, rows, changes) = restart(("n3", &plain), &["--yes"], &[], None);
    assert!((code, changes) == (Some(0), 1) && !says(&rows, "continue?"), "{rows:#?}");
}

#[test]
fn what_does_no_harm_is_not_asked_about_unless_its_context_is() {
    let plain = template();
    for (value, is_asked) in [
        ("", false),
        ("prod-*", true),
        ("live, prod-eu", true),
        ("prod-us,live", false),
        ("*", true),
        ("PROD-*", false),
    ] {
        let answer = is_asked.then_some("y");
        let (code, rows, changes) = restart(("", &plain), &[], &[("KUBECTL_DS_CONFIRM", value)], answer);
        assert_eq!((code, changes), (Some(0), 1), "{value} {rows:#?}");
        assert_eq!(says(&rows, "KUBECTL_DS_CONFIRM names this context"), is_asked, "{value} {rows:#?}");
        assert_eq!(says(&rows, "continue?"), is_asked, "{value} {rows:#?}");
    }
    let (code, rows, changes) = restart(("", &plain), &[], &[("KUBECTL_DS_CONFIRM", "prod-[")], None);
    assert_eq!((code, changes), (Some(1), 0), "{rows:#?}");
    let (code, _, changes) = restart(("", &plain), &["--dry-run=client"], &[("KUBECTL_DS_CONFIRM", "*")], None);
    assert_eq!((code, changes), (Some(0), 0));
}

/// The fleet of three nodes allows one at a time, so the template of a manifest that allows all is what is asked about.
#[test]
fn pods_that_nodes_cannot_do_without_are_not_replaced_on_all_at_once_without_a_question() {
    let volume = |path: &str| json!({"volumes": [{"name": "cni", "hostPath": {"path": path}}]});
    for (spec, what) in [
        (
            json!({"priorityClassName": "system-node-critical"}),
            Some("a DaemonSet of priority class system-node-critical"),
        ),
        (json!({"priority": 2_000_001_000}), Some("a DaemonSet of priority class system-node-critical")),
        (volume("/etc/cni/net.d"), Some("a network plugin (CNI)")),
        (volume("/opt/cni/bin/"), Some("a network plugin (CNI)")),
        (json!({"containers": [{"name": "kube-proxy", "image": "kube-proxy:1"}]}), Some("kube-proxy")),
        (volume("/var/log"), None),
        (json!({"priorityClassName": "system-cluster-critical"}), None),
    ] {
        let template = critical(spec);
        let (server, folder) = (server("", &template), tempfile::tempdir().unwrap());
        let mut command = command(&server, &folder, &["set", "agent", "--max-unavailable", "100%", "--no-wait"]);
        command.env_remove("COLUMNS").env("TERM", "xterm-256color");
        // Nothing is replaced by that.
        let (code, rows, _) = InTerminal::start(command, (160, 40)).end();
        assert!(code == Some(0) && !says(&rows, "continue?"), "{rows:#?}");
        let mut command = self::command(&server, &folder, &["restart", "agent", "--no-wait"]);
        command.env_remove("COLUMNS").env("TERM", "xterm-256color");
        let mut run = InTerminal::start(command, (160, 40));
        if let Some(what) = what {
            run.wait_for("the question", |rows| rows.iter().any(|row| row.contains("continue? [y/N]")));
            run.enter("n");
            let (code, rows, _) = run.end();
            assert_eq!((code, changes(&server)), (Some(1), 1), "{rows:#?}");
            assert!(says(&rows, &format!("  {what} is replaced on all 3 nodes at once")), "{rows:#?}");
        } else {
            let (code, rows, _) = run.end();
            assert_eq!((code, changes(&server)), (Some(0), 2), "{rows:#?}");
        }
        server.stop();
    }
}
