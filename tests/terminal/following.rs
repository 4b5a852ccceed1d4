//! The real binary in a pseudo-terminal, on a server whose events the test sends.

use std::fs::File;
use std::io::Read;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;

use super::Terminal;
use crate::client::daemon_set;
use crate::client::status::{DAEMON_SETS, Following, PODS, ready_pod};

/// How long a test may wait for something that normally takes a second.
const PATIENCE: Duration = Duration::from_secs(100);

/// How many lines are on the terminal already.
const ABOVE: usize = 60;

/// A command in a terminal.
struct InTerminal {
    child: Child,
    terminal: Terminal,
    pty: File,
    output: Receiver<Vec<u8>>,
    /// All that was written.
    written: Vec<u8>,
}

impl InTerminal {
    /// Starts `status -w` in a terminal in which something was printed already.
    fn start(following: &Following, flags: &[&str], environment: &[(&str, &str)], (columns, rows): (u16, u16)) -> Self {
        let pty = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&pty).unwrap();
        unlockpt(&pty).unwrap();
        let name = ptsname(&pty, Vec::new()).unwrap().into_string().unwrap();
        let screen = File::options().read(true).write(true).open(name).unwrap();
        tcsetwinsize(&pty, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let mut command = following.command(flags);
        command.env_remove("COLUMNS").env("TERM", "xterm-256color").envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(screen.try_clone().unwrap()).stderr(screen);
        let child = command.spawn().unwrap();
        drop(command);
        let (sender, output) = channel();
        let pty = File::from(pty);
        let mut reader = pty.try_clone().unwrap();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Once the other end is closed, Linux ends the reading with an error.
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        // An emulator cannot be without rows.
        let mut terminal = Terminal::new(usize::from(columns).max(80), usize::from(rows).max(10));
        (0..ABOVE).for_each(|line| terminal.write(format!("above {line}\r\n").as_bytes()));
        InTerminal { child, terminal, pty, output, written: Vec::new() }
    }

    fn resize(&mut self, columns: u16, rows: u16) {
        self.terminal.resize(columns.into(), rows.into());
        tcsetwinsize(&self.pty, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    }

    /// Waits until the terminal shows what is expected.
    fn wait_for(&mut self, what: &str, is_shown: impl Fn(&[String]) -> bool) {
        let start = Instant::now();
        while !is_shown(&self.terminal.screen()) {
            assert!(start.elapsed() < PATIENCE, "{what} is not shown:\n{:#?}", self.terminal.screen());
            if let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(50)) {
                self.terminal.write(&bytes);
                self.written.extend(bytes);
            }
        }
    }

    fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        assert!(std::process::Command::new("kill").args(["-s", name, &process]).status().unwrap().success());
    }

    /// Waits for the end, and returns the exit code, what the terminal shows below the lines that were there before, and
    /// what was written.
    fn end(mut self) -> (Option<i32>, Vec<String>, String) {
        let code = self.child.wait().unwrap().code();
        while let Ok(bytes) = self.output.recv_timeout(PATIENCE) {
            self.terminal.write(&bytes);
            self.written.extend(bytes);
        }
        let rows = self.terminal.rows();
        for (line, row) in rows.iter().take(ABOVE).enumerate() {
            assert_eq!(row, &format!("above {line}"), "{rows:#?}");
        }
        (code, rows[ABOVE..].to_vec(), String::from_utf8(self.written).unwrap())
    }
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
    let mut run = InTerminal::start(&following, &[], &[], (80, 24));
    run.wait_for("the map", |rows| has(rows, "✗ 1 failing"));
    run.wait_for("the verdict", |rows| has(rows, "team/agent is blocked"));
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
    let mut run = InTerminal::start(&following, &[], &[], (80, 24));
    run.wait_for("the map", |rows| has(rows, "✗ 1 failing"));
    for (columns, rows) in [(60, 24), (100, 40), (40, 40), (200, 50), (40, 10)] {
        run.resize(columns, rows);
        // What is drawn for a size uses its width.
        let reach = if columns < 64 { "team/agent is blocked: 1 of 1 node" } else { "updated; 1 unavailable" };
        let limit = usize::from(columns);
        run.wait_for("the screen", |rows| {
            count(rows, "team/agent is blocked") == 1
                && has(rows, reach)
                && rows.iter().all(|row| row.chars().count() < limit)
        });
    }
    following.send(PODS, "MODIFIED", &ready_pod());
    let (code, rows, _) = run.end();
    assert_eq!((code, count(&rows, "team/agent is complete")), (Some(0), 1), "{rows:#?}");
}

#[test]
fn ctrl_c_leaves_the_last_state() {
    let following = Following::new();
    let mut run = InTerminal::start(&following, &[], &[], (80, 24));
    run.wait_for("the map", |rows| has(rows, "✗ 1 failing"));
    run.signal("INT");
    let (code, rows, _) = run.end();
    assert_eq!(code, Some(130), "{rows:#?}");
    assert_eq!(count(&rows, "team/agent is blocked"), 1, "{rows:#?}");
    assert!(has(&rows, "error: interrupted") && has(&rows, "hint: the rollouts continue"), "{rows:#?}");
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
        let mut run = InTerminal::start(&following, &[&["--timeout", "1s"], flags].concat(), &[environment], (80, 24));
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
        let run = InTerminal::start(&following, &["--timeout", "1s"], &environment, size);
        let (code, _, written) = run.end();
        assert_eq!(code, Some(4), "{written}");
        assert!(!written.contains("\u{1b}[?2026h") && written.contains("Z team/agent is blocked"), "{written:?}");
    }
}

#[test]
fn the_end_of_a_daemon_set_is_reported_below_its_last_state() {
    let following = Following::new();
    let mut run = InTerminal::start(&following, &[], &[], (80, 24));
    run.wait_for("the map", |rows| has(rows, "✗ 1 failing"));
    let mut deleted = daemon_set("agent");
    deleted["metadata"]["resourceVersion"] = json!("50");
    following.send(DAEMON_SETS, "DELETED", &deleted);
    let (code, rows, _) = run.end();
    assert_eq!(code, Some(1), "{rows:#?}");
    assert_eq!(rows.last().unwrap(), "error: DaemonSet team/agent was deleted while it was watched", "{rows:#?}");
    assert_eq!(count(&rows, "team/agent is blocked"), 1, "{rows:#?}");
}
