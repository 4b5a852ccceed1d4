//! Tables that look at home beside kubectl's: upper-case headings, three spaces between columns.

use std::io::{self, Write};

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

/// A column: its heading, and what it shows of a row.
pub struct Column<'a, Row> {
    heading: &'static str,
    is_number: bool,
    cell: Box<dyn Fn(&Row) -> String + 'a>,
}

impl<'a, Row> Column<'a, Row> {
    /// Makes a column of text. The cells may be styled, and must have been made safe.
    pub fn text(heading: &'static str, cell: impl Fn(&Row) -> String + 'a) -> Self {
        Column { heading, is_number: false, cell: Box::new(cell) }
    }

    /// Makes a column of numbers, aligned on the right.
    pub fn number(heading: &'static str, cell: impl Fn(&Row) -> usize + 'a) -> Self {
        Column { heading, is_number: true, cell: Box::new(move |row| cell(row).to_string()) }
    }

    /// Makes a column of numbers that are styled unless they are 0.
    pub fn styled_number(heading: &'static str, style: fn(usize) -> String, cell: impl Fn(&Row) -> usize + 'a) -> Self {
        let styled = move |row: &Row| match cell(row) {
            0 => "0".to_owned(),
            number => style(number),
        };
        Column { heading, is_number: true, cell: Box::new(styled) }
    }
}

/// Writes a table.
///
/// # Errors
///
/// Fails where the output cannot be written.
pub fn write<Row>(columns: &[Column<'_, Row>], rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|column| Cell::new(column.heading)));
    for row in rows {
        table.add_row(columns.iter().map(|column| Cell::new((column.cell)(row))));
    }
    for (column, layout) in columns.iter().zip(table.column_iter_mut()) {
        layout.set_padding((0, 3));
        if column.is_number {
            layout.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
