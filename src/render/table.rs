//! Tables in kubectl's style: upper-case headings, three spaces between columns.

use std::io::{self, Write};

use anstream::adapter::strip_str;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use super::text::{columns, cut, wrap};
use super::view::View;

/// The space between two columns.
const GAP: u16 = 3;

/// The minimum width of the last column.
const LEAST_SENTENCE: usize = 16;

/// A non-breaking space; written as a space.
pub const TIED: char = '\u{a0}';

/// A column: its heading and its cells.
pub struct Column<'a, Row> {
    heading: &'static str,
    shape: Shape,
    cell: Box<dyn Fn(&Row) -> String + 'a>,
}

#[derive(Clone, Copy)]
enum Shape {
    Text,
    Number,
    /// The style is applied after truncation, which measures plain text.
    Sentence(fn(String) -> String),
    /// Text that wraps at the edge of the terminal.
    Prose,
}

impl<'a, Row> Column<'a, Row> {
    /// Creates a column of text. Cells may be styled, and must be sanitized.
    pub fn text(heading: &'static str, cell: impl Fn(&Row) -> String + 'a) -> Self {
        Column { heading, shape: Shape::Text, cell: Box::new(cell) }
    }

    /// Creates the last column, of sentences that are truncated at the edge of the terminal and then styled.
    pub fn sentence(heading: &'static str, style: fn(String) -> String, cell: impl Fn(&Row) -> String + 'a) -> Self {
        Column { heading, shape: Shape::Sentence(style), cell: Box::new(cell) }
    }

    /// Creates the last column, of text that wraps at the edge of the terminal.
    pub fn prose(heading: &'static str, cell: impl Fn(&Row) -> String + 'a) -> Self {
        Column { heading, shape: Shape::Prose, cell: Box::new(cell) }
    }

    /// Creates a column of numbers, aligned on the right; `?` for an unknown one.
    pub fn number(heading: &'static str, cell: impl Fn(&Row) -> Option<usize> + 'a) -> Self {
        Column::styled_number(heading, |number| number.to_string(), cell)
    }

    /// Creates a column of numbers that are styled unless they are 0 or unknown.
    pub fn styled_number(
        heading: &'static str,
        style: fn(usize) -> String,
        cell: impl Fn(&Row) -> Option<usize> + 'a,
    ) -> Self {
        let styled = move |row: &Row| match cell(row) {
            None => "?".to_owned(),
            Some(0) => "0".to_owned(),
            Some(number) => style(number),
        };
        Column { heading, shape: Shape::Number, cell: Box::new(styled) }
    }
}

/// Writes a table.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub fn write<Row>(layout: &[Column<'_, Row>], rows: &[Row], view: &View, out: &mut dyn Write) -> io::Result<()> {
    let mut cells: Vec<Vec<String>> =
        rows.iter().map(|row| layout.iter().map(|column| (column.cell)(row)).collect()).collect();
    if let [before @ .., Column { shape: shape @ (Shape::Sentence(_) | Shape::Prose), .. }] = layout {
        let widest = |index: usize| cells.iter().map(|row| columns(&strip_str(&row[index]).to_string())).max();
        let widths =
            before.iter().enumerate().map(|(index, column)| widest(index).unwrap_or(0).max(column.heading.len()));
        let taken: usize = widths.map(|width| width + usize::from(GAP)).sum();
        let room = view.limit.map(|limit| limit.saturating_sub(taken).max(LEAST_SENTENCE));
        for cell in cells.iter_mut().filter_map(|row| row.last_mut()).filter(|cell| !cell.is_empty()) {
            *cell = match (shape, room) {
                (Shape::Sentence(style), None) => style(std::mem::take(cell)),
                (Shape::Sentence(style), Some(room)) => style(cut(cell, room, view.ascii)),
                (_, None) => cell.replace(TIED, " "),
                (_, Some(room)) => {
                    let lines: Vec<_> = cell.split('\n').flat_map(|line| wrap(line, room)).collect();
                    lines.join("\n").replace(TIED, " ")
                }
            };
        }
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(layout.iter().map(|column| Cell::new(column.heading)));
    table.add_rows(cells);
    for (column, place) in layout.iter().zip(table.column_iter_mut()) {
        place.set_padding((0, GAP));
        if matches!(column.shape, Shape::Number) {
            place.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}
