//! A terminal emulator, for output that is redrawn in place.

use alacritty_terminal::Term;
use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::Config;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{Color, Processor};

/// A terminal that wraps its lines again when it is resized.
pub struct Terminal {
    term: Term<VoidListener>,
    parser: Processor,
}

/// Characters of a row that look alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub text: String,
    /// One of the first eight colors of the palette.
    pub color: Option<usize>,
    pub is_bold: bool,
    pub is_dim: bool,
    pub is_inverse: bool,
}

impl Span {
    fn of(cell: &Cell) -> Self {
        let color = match cell.fg {
            Color::Named(name) => Some(name as usize).filter(|index| *index < 8),
            Color::Spec(_) | Color::Indexed(_) => None,
        };
        let has = |flag| cell.flags.contains(flag);
        let [is_bold, is_dim, is_inverse] = [Flags::BOLD, Flags::DIM, Flags::INVERSE].map(has);
        Span { text: cell.c.to_string(), color, is_bold, is_dim, is_inverse }
    }

    fn looks_like(&self, other: &Span) -> bool {
        Span { text: String::new(), ..self.clone() } == Span { text: String::new(), ..other.clone() }
    }
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
    pub fn new(columns: usize, rows: usize) -> Self {
        let term = Term::new(Config::default(), &Dimension { columns, rows }, VoidListener);
        Terminal { term, parser: Processor::new() }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.parser.advance(&mut self.term, bytes);
    }

    pub fn resize(&mut self, columns: usize, rows: usize) {
        self.term.resize(Dimension { columns, rows });
    }

    /// Returns what is shown, and what has scrolled out of sight: a line per row, without empty ones at the end.
    pub fn rows(&self) -> Vec<String> {
        let grid = self.term.grid();
        let first = -i32::try_from(grid.history_size()).unwrap();
        let last = i32::try_from(grid.screen_lines()).unwrap();
        let mut rows: Vec<String> = (first..last).map(|line| self.row(line)).collect();
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows
    }

    /// Returns what is shown, and how it looks.
    pub fn styled(&self) -> Vec<Vec<Span>> {
        let rows = 0..i32::try_from(self.term.screen_lines()).unwrap();
        let styled = rows.map(|line| {
            let row = &self.term.grid()[Line(line)];
            let blank = |cell: &Cell| cell.c == ' ' && !cell.flags.contains(Flags::INVERSE);
            let width =
                (0..self.term.columns()).rev().find(|column| !blank(&row[Column(*column)])).map_or(0, |last| last + 1);
            let mut spans: Vec<Span> = Vec::new();
            for span in (0..width).map(|column| Span::of(&row[Column(column)])) {
                match spans.last_mut() {
                    Some(last) if last.looks_like(&span) => last.text.push_str(&span.text),
                    _ => spans.push(span),
                }
            }
            spans
        });
        styled.collect()
    }

    /// Returns what is shown.
    pub fn screen(&self) -> Vec<String> {
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
    pub fn lines(&self) -> Vec<String> {
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
