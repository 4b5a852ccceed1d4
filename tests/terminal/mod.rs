//! What is drawn on a terminal and redrawn in place, held against a terminal emulator.

#[cfg(unix)]
mod following;
#[cfg(unix)]
pub mod pty;
mod region;
mod rollout_screen;
#[cfg(unix)]
mod wrapping;

use alacritty_terminal::Term;
use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::Config;
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::vte::ansi::Processor;

/// A terminal that wraps its lines again when it is resized.
struct Terminal {
    term: Term<VoidListener>,
    parser: Processor,
}

/// The size of a terminal.
struct Dimension {
    columns: usize,
    rows: usize,
}

impl Dimensions for Dimension {
    fn total_lines(&self) -> usize {
        self.rows
    }

    fn screen_lines(&self) -> usize {
        self.rows
    }

    fn columns(&self) -> usize {
        self.columns
    }
}

impl Terminal {
    fn new(columns: usize, rows: usize) -> Self {
        let term = Term::new(Config::default(), &Dimension { columns, rows }, VoidListener);
        Terminal { term, parser: Processor::new() }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.parser.advance(&mut self.term, bytes);
    }

    fn resize(&mut self, columns: usize, rows: usize) {
        self.term.resize(Dimension { columns, rows });
    }

    /// Returns what is shown, and what has scrolled out of sight: a line per row, without empty ones at the end.
    fn rows(&self) -> Vec<String> {
        let grid = self.term.grid();
        let first = -i32::try_from(grid.history_size()).unwrap();
        let last = i32::try_from(grid.screen_lines()).unwrap();
        let mut rows: Vec<String> = (first..last).map(|line| self.row(line)).collect();
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows
    }

    /// Returns what is shown.
    fn screen(&self) -> Vec<String> {
        (0..i32::try_from(self.term.screen_lines()).unwrap()).map(|line| self.row(line)).collect()
    }

    fn row(&self, line: i32) -> String {
        let row = &self.term.grid()[Line(line)];
        let cells = (0..self.term.columns()).map(|column| &row[Column(column)]);
        let text: String =
            cells.filter(|cell| !cell.flags.contains(Flags::WIDE_CHAR_SPACER)).map(|cell| cell.c).collect();
        text.trim_end().to_owned()
    }

    /// Returns the lines as they were written: rows that were wrapped are joined.
    fn lines(&self) -> Vec<String> {
        let grid = self.term.grid();
        let first = -i32::try_from(grid.history_size()).unwrap();
        let last = i32::try_from(grid.screen_lines()).unwrap();
        let mut lines: Vec<String> = Vec::new();
        let mut is_wrapped = false;
        for line in first..last {
            let row = &grid[Line(line)];
            let cells = (0..self.term.columns()).map(|column| &row[Column(column)]);
            let is_text = |flags: Flags| !flags.intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER);
            let text: String = cells.filter(|cell| is_text(cell.flags)).map(|cell| cell.c).collect();
            match lines.last_mut() {
                Some(last) if is_wrapped => last.push_str(&text),
                _ => lines.push(text),
            }
            is_wrapped = row[Column(self.term.columns() - 1)].flags.contains(Flags::WRAPLINE);
        }
        let mut lines: Vec<String> = lines.iter().map(|line| line.trim_end().to_owned()).collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    }
}
