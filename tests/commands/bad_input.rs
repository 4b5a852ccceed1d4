//! What is said where the input makes no sense, and the exit code.
//!
//! Dumps and manifests that make none are tested in `tests/dumps`.

use std::fs;
use std::net::TcpListener;
use std::process::Stdio;

use super::{SHOP, end, failure, kubectl_ds, run};

/// What is said beneath every error about a kubeconfig that cannot be loaded.
const LOOK: &str = "hint: `kubectl config view` shows what kubectl reads; --kubeconfig names another file\n";

/// A kubeconfig of one context that points at a port of this machine.
fn kubeconfig(port: u16) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "{{current-context: here, contexts: [{{name: here, context: {{cluster: one, user: me}}}}], \
         clusters: [{{name: one, cluster: {{server: 'https://127.0.0.1:{port}'}}}}], users: [{{name: me, user: {{}}}}]}}"
    );
    fs::write(&file, text).unwrap();
    file
}

fn path(file: &tempfile::NamedTempFile) -> &str {
    file.path().to_str().unwrap()
}

#[test]
fn an_unknown_daemon_set_gets_names_that_look_alike() {
    assert_eq!(
        failure(&["coverage", "agnt", "--from", SHOP]),
        (Some(1), format!("error: {SHOP}: daemonsets.apps \"agnt\" not found\nhint: similar names: agent\n"))
    );
}

#[test]
fn a_daemon_set_of_another_namespace_is_found() {
    for command in ["coverage", "history"] {
        assert_eq!(
            failure(&[command, "agent", "-n", "lab", "--from", SHOP]),
            (
                Some(1),
                format!(
                    "error: {SHOP}: daemonsets.apps \"agent\" not found\nhint: found in namespace shop: add -n shop\n"
                )
            ),
            "{command}"
        );
    }
    assert_eq!(run(&["coverage", "shop/fine", "--from", SHOP]).out, run(&["coverage", "fine", "--from", SHOP]).out);
    let (code, err) = failure(&["coverage", "shop/fine", "-n", "lab", "--from", SHOP]);
    assert_eq!((code, err.as_str()), (Some(2), "error: shop/NAME and --namespace lab cannot be given together\n"));
    assert_eq!(failure(&["coverage", "shop/fine", "lab/agent", "--from", SHOP]).0, Some(2));
}

#[test]
fn an_unknown_name_among_several_hides_no_answer() {
    let ended = run(&["coverage", "fine", "fin", "agnt", "--from", SHOP]);
    assert!(ended.out.starts_with("shop/fine: all 2 eligible nodes have an available pod"), "{}", ended.out);
    let error = |name: &str| format!("error: {SHOP}: daemonsets.apps \"{name}\" not found\n");
    let hints = "hint: similar names: agent\nhint: similar names: fine\n";
    assert_eq!((ended.code, ended.err), (Some(1), format!("{}{}{hints}", error("agnt"), error("fin"))));
    let ended = run(&["coverage", "nope", "neither", "--from", SHOP]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
}

#[test]
fn durations_are_those_of_kubectl() {
    for (arguments, flag) in [
        (["list", "--request-timeout", "banana"].as_slice(), "--request-timeout"),
        (&["undo", "agent", "--dry-run", "--timeout", "5d", "--from", SHOP], "--timeout"),
    ] {
        let (code, err) = failure(arguments);
        assert_eq!(code, Some(2), "{err}");
        assert!(err.starts_with("error: invalid value '") && err.contains(flag), "{err}");
    }
    for timeout in ["30s", "5m", "30", "1h30m"] {
        let ended = run(&["restart", "fine", "--dry-run", "--timeout", timeout, "--from", SHOP]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{timeout}");
    }
}

#[test]
fn a_selector_that_cannot_be_read_is_shown() {
    let hint = "hint: a selector is a list such as app=agent,tier!=test,zone in (a,b),!legacy\n";
    for (flag, name) in [("-l", "--selector"), ("--node-selector", "--node-selector")] {
        assert_eq!(
            failure(&["coverage", flag, "app in (a", "--from", SHOP]),
            (
                Some(2),
                format!(
                    "error: invalid {name}: unable to parse requirement \"app in (a\": the parenthesis is not closed\n{hint}"
                )
            )
        );
    }
}

#[test]
fn flags_that_exclude_each_other_are_refused() {
    let cases: [(&[&str], &str); 8] = [
        (&["coverage", "--node", "a", "--nodes"], "error: the argument '--node <NODE>' cannot be used with '--nodes'"),
        (
            &["coverage", "-A", "-n", "x"],
            "error: the argument '--all-namespaces' cannot be used with '--namespace <NAMESPACE>'",
        ),
        (&["coverage", "agent", "-l", "a=b"], "error: names and --selector cannot be given together"),
        (&["coverage", "--by", "no key"], "error: invalid --by: \"no key\" is not a label key"),
        (&["coverage", "pod/agent"], "error: \"pod/agent\" does not name a DaemonSet"),
        (&["coverage", "-f", "-", "-o", "name"], "error: -o name and --filename cannot be given together"),
        (
            &["list", "--all", "-o", "json"],
            "error: --all is for tables: -o json, yaml and name always show every DaemonSet",
        ),
        (&["--all", "coverage"], "error: flags of `list` go after `list`, and those of another subcommand after it"),
    ];
    for (arguments, message) in cases {
        let (code, err) = failure(&[arguments, &["--from", SHOP]].concat());
        assert_eq!((code, err.lines().next()), (Some(2), Some(message)), "{arguments:?}");
    }
    let (code, err) = failure(&["coverage", "-f", "-", "--from", "-"]);
    assert_eq!((code, err.as_str()), (Some(2), "error: --from - and --filename - cannot both read standard input\n"));
    let (code, err) = failure(&["coverage", "--now", "2026-11-20T10:00:00Z"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("--from"), "{err}");
}

#[test]
fn an_unknown_subcommand_gets_one_that_looks_alike() {
    let (code, err) = failure(&["covrage"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("unrecognized subcommand 'covrage'") && err.contains("coverage"), "{err}");
}

#[test]
fn a_kubeconfig_that_is_not_there_is_named() {
    assert_eq!(
        failure(&["list", "--kubeconfig", "/nowhere/config"]),
        (Some(1), format!("error: error loading config file \"/nowhere/config\": no such file\n{LOOK}"))
    );
}

#[test]
fn a_broken_kubeconfig_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, "clusters: [").unwrap();
    let path = path(&file);
    let problem = "unclosed bracket '[' at line 1, column 11";
    assert_eq!(
        failure(&["list", "--kubeconfig", path]),
        (Some(1), format!("error: error loading config file \"{path}\": {problem}\n{LOOK}"))
    );
}

#[test]
fn no_kubeconfig_at_all_says_how_to_go_on() {
    let message = "\
error: no cluster is configured: there is no kubeconfig
hint: set KUBECONFIG, or give --kubeconfig or --server
hint: --from FILE reads a dump instead of a cluster, and --from demo the one inside this program
";
    assert_eq!(failure(&["list"]), (Some(1), message.to_owned()));
}

#[test]
fn an_unknown_context_gets_the_contexts_there_are() {
    let file = kubeconfig(1);
    assert_eq!(
        failure(&["list", "--kubeconfig", path(&file), "--context", "elsewhere"]),
        (Some(1), "error: context \"elsewhere\" does not exist\nhint: similar contexts: here\n".to_owned())
    );
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let file = kubeconfig(port);
    assert_eq!(
        failure(&["list", "--kubeconfig", path(&file)]),
        (
            Some(1),
            format!(
                "The connection to the server 127.0.0.1:{port} was refused - did you specify the right host or port?\n"
            )
        )
    );
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_with_130_and_prints_no_half_answer() {
    // It takes the connection, and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = kubeconfig(listener.local_addr().unwrap().port());
    let mut command = kubectl_ds(&["list", "--kubeconfig", path(&file)]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _connection = listener.accept().unwrap();
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(130), 0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "error: interrupted\n");
}

#[test]
fn a_server_that_does_not_answer_in_time_ends_with_4() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = kubeconfig(listener.local_addr().unwrap().port());
    let (code, err) = failure(&["list", "--kubeconfig", path(&file), "--request-timeout", "200ms"]);
    assert_eq!(code, Some(4), "{err}");
    assert!(err.contains("--request-timeout") && err.contains("\nhint: "), "{err}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut command = kubectl_ds(&["coverage", "-o", "json", "--from", "demo"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Closed before anything is read: a pipe holds less than the report.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

#[test]
fn an_output_that_is_full_is_a_failure() {
    let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") else { return };
    let mut command = kubectl_ds(&["coverage", "--from", SHOP]);
    let output = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "error: cannot write the output: No space left on device (os error 28)\n"
    );
}

#[test]
fn help_is_an_answer() {
    let ended = end(kubectl_ds(&["coverage", "--help"]));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert!(ended.out.contains("Usage: kubectl ds coverage [OPTIONS] [NAME]..."), "{}", ended.out);
}
