//! The first commands that a user tries, on the demo: each fits on one screen and answers in its first two lines.

use kubectl_ds::cluster::file;

use super::{run, run_with_input};
use crate::support::agreement::unmet;
use crate::support::expectations::DEMO;

/// Command lines, each with what its first two lines must say.
const FIRST_SCREENS: [(&str, &[&str]); 14] = [
    ("", &["15 DaemonSets on 26 nodes", "1 blocked, 5 degraded"]),
    ("coverage", &["of 15 DaemonSets need attention"]),
    ("coverage fluent-bit -n logging", &["23 of 26", "3"]),
    ("coverage falco -n falco", &["20 of 26", "kernel 6.12"]),
    ("coverage datadog-agent -n datadog", &["19 of 21"]),
    ("coverage node-agent -n velero", &["19 of 21"]),
    ("coverage dcgm-exporter -n nvidia", &["no node is eligible"]),
    ("coverage node-exporter -n monitoring --node general-c4", &["9100", "node-exporter-debug"]),
    ("coverage datadog-agent -n datadog --node memory-a1", &["requests 1Gi memory", "891Mi free"]),
    ("coverage --node spot-a2", &["spot-a2"]),
    ("history fluent-bit -n logging", &["revision 4 is current", "3 of 26"]),
    ("undo fluent-bit -n logging --dry-run=client", &["revision 3"]),
    ("status", &["15 DaemonSets", "blocked"]),
    ("status fluent-bit -n logging", &["blocked", "3 of 26"]),
];

#[test]
fn first_screens_of_the_demo_fit_and_answer() {
    let mut wrong = String::new();
    for (line, answers) in FIRST_SCREENS {
        let arguments: Vec<&str> = line.split_whitespace().chain(["--from", file::DEMO]).collect();
        let ended = run(&arguments);
        let lines: Vec<&str> = ended.out.lines().collect();
        let first = lines.iter().take(2).copied().collect::<Vec<_>>().join(" ");
        let missing: Vec<_> = answers.iter().filter(|answer| !first.contains(**answer)).collect();
        let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        // One row is the command line, and one the prompt after it. A change in a template is not broken in the middle, so
        // that a terminal wraps it.
        let wrapped: usize = lines.iter().map(|line| line.chars().count().saturating_sub(1) / 80).sum();
        let rows = lines.len() + wrapped + ended.err.lines().count();
        if rows > 22 || wrapped > 1 || !missing.is_empty() {
            wrong += &format!(
                "$ kubectl ds {line}\n{}{}===== {} rows, {width} columns; missing {missing:?}\n\n",
                ended.out,
                ended.err,
                lines.len()
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_problem_of_the_demo_is_named() {
    let report = run(&["coverage", "--nodes", "-o", "json", "--from", file::DEMO]).out;
    let wrong = unmet(&serde_json::from_str(&report).unwrap(), DEMO);
    assert!(wrong.is_empty(), "{} are unmet:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_dump_of_one_namespace_says_so_where_all_are_asked_for() {
    let dump = run(&["snapshot", "-n", "falco", "--from", file::DEMO]).out;
    for (arguments, says_so) in [
        (&["coverage", "--node", "general-c2"][..], true),
        (&["status", "-A"], true),
        (&["list", "-n", "falco"], false),
    ] {
        let ended = run_with_input(&[arguments, &["--from", "-"]].concat(), dump.as_bytes());
        let warning = "warning: standard input: this is a dump of namespace \"falco\" only\n";
        assert_eq!(ended.err, if says_so { warning } else { "" }, "{arguments:?}");
    }
}
