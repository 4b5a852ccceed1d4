//! A command in a pseudo-terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::terminal::Terminal;

/// How long a test may wait for something that normally takes a second.
const PATIENCE: Duration = Duration::from_secs(100);

/// How many lines are on the terminal already.
const ABOVE: usize = 60;

/// A command in a terminal.
pub struct InTerminal {
    child: Child,
    terminal: Terminal,
    pty: File,
    output: Receiver<Vec<u8>>,
    /// All that was written.
    written: Vec<u8>,
    /// When each part of it was written, for a recording.
    parts: Vec<(Instant, Vec<u8>)>,
}

impl InTerminal {
    /// Starts a command in a terminal in which something was printed already.
    pub fn start(mut command: Command, (columns, rows): (u16, u16)) -> Self {
        let pty = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&pty).unwrap();
        unlockpt(&pty).unwrap();
        let name = ptsname(&pty, Vec::new()).unwrap().into_string().unwrap();
        let screen = File::options().read(true).write(true).open(name).unwrap();
        tcsetwinsize(&pty, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        command.stdin(screen.try_clone().unwrap()).stdout(screen.try_clone().unwrap()).stderr(screen);
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
        InTerminal { child, terminal, pty, output, written: Vec::new(), parts: Vec::new() }
    }

    /// Types a line.
    pub fn enter(&mut self, line: &str) {
        self.pty.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.terminal.resize(columns.into(), rows.into());
        tcsetwinsize(&self.pty, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    }

    /// Waits until the terminal shows what is expected.
    pub fn wait_for(&mut self, what: &str, is_shown: impl Fn(&[String]) -> bool) {
        let start = Instant::now();
        while !is_shown(&self.terminal.screen()) {
            assert!(start.elapsed() < PATIENCE, "{what} is not shown:\n{:#?}", self.terminal.screen());
            if let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(50)) {
                self.take(bytes);
            }
        }
    }

    fn take(&mut self, bytes: Vec<u8>) {
        self.terminal.write(&bytes);
        self.written.extend(&bytes);
        self.parts.push((Instant::now(), bytes));
    }

    /// Lets the command go on for a while.
    pub fn go_on(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while let Ok(bytes) = self.output.recv_timeout(end.saturating_duration_since(Instant::now())) {
            self.take(bytes);
        }
    }

    /// Waits for the end, and returns what was written, with the seconds after which.
    pub fn record(mut self) -> Vec<(f64, String)> {
        while let Ok(bytes) = self.output.recv_timeout(PATIENCE) {
            self.take(bytes);
        }
        self.child.wait().unwrap();
        let begin = self.parts.first().expect("something was written").0;
        // A part may end within a character.
        let mut rest = Vec::new();
        let texts = self.parts.into_iter().filter_map(|(time, bytes)| {
            rest.extend(bytes);
            let text = String::from_utf8(rest.clone()).ok()?;
            rest.clear();
            Some((time.duration_since(begin).as_secs_f64(), text))
        });
        texts.collect()
    }

    pub fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &process]).status().unwrap().success());
    }

    /// Waits for the end, and returns the exit code, what the terminal shows below the lines that were there before, and
    /// what was written.
    pub fn end(mut self) -> (Option<i32>, Vec<String>, String) {
        let code = self.child.wait().unwrap().code();
        while let Ok(bytes) = self.output.recv_timeout(PATIENCE) {
            self.take(bytes);
        }
        let rows = self.terminal.rows();
        for (line, row) in rows.iter().take(ABOVE).enumerate() {
            assert_eq!(row, &format!("above {line}"), "{rows:#?}");
        }
        (code, rows[ABOVE..].to_vec(), String::from_utf8(self.written).unwrap())
    }
}
