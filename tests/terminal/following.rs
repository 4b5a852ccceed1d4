//! The real binary in a pseudo-terminal, on a server whose events the test sends.

use serde_json::json;

use crate::client::daemon_set;
use crate::client::status::{DAEMON_SETS, Following, PODS, ready_pod};
use crate::support::pty::InTerminal;

/// Starts `status -w` in a terminal.
fn start(following: &Following, flags: &[&str], environment: &[(&str, &str)], size: (u16, u16)) -> InTerminal {
    let mut command = following.command(flags);
    command.env_remove("COLUMNS").env("TERM", "xterm-256color").envs(environment.iter().copied());
    InTerminal::start(command, size)
}

fn has(rows: &[String], text: &str) -> bool {
    rows.iter().any(|row| row.contains(text))
}

fn count(rows: &[String], text: &str) -> usize {
    rows.iter().filter(|row| row.contains(text)).count()
}

#[test]
fn a_rollout_is_redrawn_in_place_and_leaves_a_summary() {
    let following = Following::new();
    let mut run = start(&following, &[], &[], (80, 24));
    run.wait_for("the map", |rows| has(rows, "✗ 1 failing"));
    run.wait_for("the verdict", |rows| has(rows, "team/agent is degraded"));
    following.send(PODS, "MODIFIED", &ready_pod());
    let (code, rows, written) = run.end();
    assert_eq!(code, Some(0), "{rows:#?}");
    assert_eq!(rows[0], "team/agent is complete: revision 7 is available on its only node", "{rows:#?}");
    assert!(rows[1].starts_with("  followed for") && rows[1].contains("1 node updated; slowest: n1 ("), "{rows:#?}");
    assert_eq!((rows[2].trim(), rows.len()), ("failed: Unexplained on n1 (recovered)", 3), "{rows:#?}");
    for mode in ["\u{1b}[?1049", "\u{1b}[?25", "\u{1b}[6n"] {
        assert!(!written.contains(mode), "{mode:?} in {written:?}");
    }
}

#[test]
fn a_terminal_may_be_resized() {
    let following = Following::new();
    let mut run = start(&following, &[], &[], (80, 24));
    run.wait_for("the map", |rows| has(rows, "✗ 1 failing"));
    for (columns, rows) in [(60, 24), (100, 40), (40, 40), (200, 50), (40, 10)] {
        run.resize(columns, rows);
        // What is drawn for a size uses its width.
        let reach = if columns < 64 { "team/agent is degraded: revision 7" } else { "1 node; 1 unavailable" };
        let limit = usize::from(columns);
        run.wait_for("the screen", |rows| {
            count(rows, "team/agent is degraded") == 1
                && has(rows, reach)
                && rows.iter().all(|row| row.chars().count() < limit)
        });
    }
    following.send(PODS, "MODIFIED", &ready_pod());
    let (code, rows, _) = run.end();
    assert_eq!((code, count(&rows, "team/agent is complete")), (Some(0), 1), "{rows:#?}");
}

/// The shell has written over it: what has not changed is drawn again, too.
#[test]
fn a_screen_that_was_stopped_is_drawn_again_below_the_shell() {
    let following = Following::new();
    let mut run = start(&following, &[], &[], (80, 24));
    run.wait_for("the map", |rows| has(rows, "✗ 1 failing"));
    run.signal("STOP");
    run.enter("fg");
    run.wait_for("the shell", |rows| has(rows, "fg"));
    run.signal("CONT");
    run.wait_for("the map again", |rows| count(rows, "✗ 1 failing") == 2);
    run.signal("INT");
    let (code, rows, _) = run.end();
    assert_eq!((code, count(&rows, "team/agent is degraded:")), (Some(130), 2), "{rows:#?}");
}

#[test]
fn ctrl_c_leaves_the_last_state() {
    let following = Following::new();
    let mut run = start(&following, &[], &[], (80, 24));
    run.wait_for("the map", |rows| has(rows, "✗ 1 failing"));
    run.signal("INT");
    let (code, rows, _) = run.end();
    assert_eq!(code, Some(130), "{rows:#?}");
    assert_eq!(count(&rows, "team/agent is degraded:"), 1, "{rows:#?}");
    assert!(has(&rows, "error: interrupted") && has(&rows, "does not go on by itself"), "{rows:#?}");
}

#[test]
fn color_and_characters_are_those_that_are_wanted() {
    let following = Following::new();
    const USUAL: (&str, &str) = ("LANG", "C.UTF-8");
    let cases: [(&[&str], _, _, _); 4] = [
        (&[], USUAL, true, false),
        (&[], ("NO_COLOR", "1"), false, false),
        (&["--color", "never", "--ascii"], USUAL, false, true),
        (&[], ("LC_ALL", "C"), true, true),
    ];
    for (flags, environment, is_colored, is_ascii) in cases {
        let mut run = start(&following, &[&["--timeout", "1s"], flags].concat(), &[environment], (80, 24));
        let failing = if is_ascii { "X 1 failing" } else { "✗ 1 failing" };
        run.wait_for("the map", |rows| has(rows, failing));
        let (code, rows, written) = run.end();
        assert_eq!(code, Some(4), "{rows:#?}");
        assert_eq!(written.contains("\u{1b}[3"), is_colored, "{written:?}");
        assert_eq!(written.is_ascii(), is_ascii, "{written:?}");
    }
}

#[test]
fn a_terminal_that_cannot_be_redrawn_gets_lines() {
    let following = Following::new();
    for (environment, size) in
        [([("TERM", "dumb")], (80, 24)), ([("TERM", "xterm")], (0, 0)), ([("TERM", "xterm")], (80, 3))]
    {
        let run = start(&following, &["--timeout", "1s"], &environment, size);
        let (code, _, written) = run.end();
        assert_eq!(code, Some(4), "{written}");
        assert!(!written.contains("\u{1b}[?2026h") && written.contains("Z team/agent is degraded"), "{written:?}");
    }
}

#[test]
fn the_end_of_a_daemon_set_is_reported_below_its_last_state() {
    let following = Following::new();
    let mut run = start(&following, &[], &[], (80, 24));
    run.wait_for("the map", |rows| has(rows, "✗ 1 failing"));
    let mut deleted = daemon_set("agent");
    deleted["metadata"]["resourceVersion"] = json!("50");
    following.send(DAEMON_SETS, "DELETED", &deleted);
    let (code, rows, _) = run.end();
    assert_eq!(code, Some(1), "{rows:#?}");
    assert_eq!(rows.last().unwrap(), "error: DaemonSet team/agent was deleted while it was watched", "{rows:#?}");
    assert_eq!(count(&rows, "team/agent is degraded"), 1, "{rows:#?}");
}
