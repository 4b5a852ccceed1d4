//! Tables in kubectl's style: upper-case headings, three spaces between columns.
//!
//! On a narrow terminal, the least important columns are dropped, names and sentences are truncated, and prose is wrapped without breaking
//! non-breaking spaces. Cells may be styled.

use anstream::adapter::strip_str;

use super::page::Page;
use super::style;
use super::text::{columns, cut, cut_names, or_unknown, wrap};

/// The space between two columns.
const GAP: usize = 3;

/// The space between two columns if the terminal is too narrow for more.
const NARROW_GAP: usize = 2;

/// The minimum width of the last column.
const LEAST_SENTENCE: usize = 16;

/// The minimum width of a column that is truncated.
const LEAST_NAME: usize = 12;

/// The width of the last column for which other columns are dropped.
const ENOUGH_OF_A_SENTENCE: usize = 20;

/// A non-breaking space; written as a space.
pub const NO_BREAK_SPACE: char = '\u{a0}';

/// A column: its heading and its cells.
pub struct Column<'a, Row> {
    heading: &'a str,
    shape: Shape,
    /// On a narrow terminal, columns are dropped by this rank, the lowest first; `None` if it always stays.
    rank: Option<u8>,
    /// Whether its cells are truncated if nothing else can be dropped.
    is_shrinkable: bool,
    /// The last column to use instead if this one is dropped before a name is truncated.
    merged: Option<Box<Column<'a, Row>>>,
    cell: CellText<'a, Row>,
}

/// Returns the text of a row for a width in columns, which only [`Shape::Fitted`] uses.
type CellText<'a, Row> = Box<dyn Fn(&Row, usize) -> String + 'a>;

#[derive(Clone, Copy)]
enum Shape {
    Text,
    Number,
    /// Text that is truncated at the edge of the terminal.
    Sentence,
    /// Text that shortens itself.
    Fitted,
    /// Reason codes that shorten themselves, and then wrap at the edge of the terminal.
    Codes,
    /// Text that wraps at the edge of the terminal.
    Prose,
}

impl<'a, Row> Column<'a, Row> {
    fn new(heading: &'a str, shape: Shape, cell: impl Fn(&Row, usize) -> String + 'a) -> Self {
        Column { heading, shape, rank: None, is_shrinkable: false, merged: None, cell: Box::new(cell) }
    }

    /// Creates a column of text. Cells may be styled, and must be sanitized.
    pub fn text(heading: &'a str, cell: impl Fn(&Row) -> String + 'a) -> Self {
        Column::new(heading, Shape::Text, move |row, _| cell(row))
    }

    /// Creates the last column, with sentences without styles that are truncated at the edge of the terminal.
    pub fn sentence(heading: &'a str, cell: impl Fn(&Row) -> String + 'a) -> Self {
        Column::new(heading, Shape::Sentence, move |row, _| cell(row))
    }

    /// Creates the last column, with reason codes that shorten themselves like [`Column::fitted`]. What does not fit then wraps, and no code is
    /// truncated: people search for them.
    pub fn codes(heading: &'a str, cell: impl Fn(&Row, usize) -> String + 'a) -> Self {
        Column::new(heading, Shape::Codes, cell)
    }

    /// Creates the last column, with text without styles that shortens itself to a number of columns. Other columns are
    /// dropped before its shortest form, that for 0 columns, is truncated.
    pub fn fitted(heading: &'a str, cell: impl Fn(&Row, usize) -> String + 'a) -> Self {
        Column::new(heading, Shape::Fitted, cell)
    }

    /// Creates the last column, with text that wraps at the edge of the terminal.
    pub fn prose(heading: &'a str, cell: impl Fn(&Row) -> String + 'a) -> Self {
        Column::new(heading, Shape::Prose, move |row, _| cell(row))
    }

    /// Creates a column of numbers, aligned on the right; `?` for an unknown one.
    pub fn number(heading: &'a str, cell: impl Fn(&Row) -> Option<usize> + 'a) -> Self {
        Column::new(heading, Shape::Number, move |row, _| or_unknown(cell(row)))
    }
}

impl<'a, Row: 'a> Column<'a, Row> {
    /// Converts a column to rows that may be errors, which a last column that shortens itself shows.
    pub(super) fn or_error(self) -> Column<'a, (&'a str, Result<Row, String>)> {
        let Column { heading, shape, rank, is_shrinkable, merged, cell } = self;
        let cell = move |(_, row): &(&'a str, Result<Row, String>), width| match (row, shape) {
            (Ok(row), _) => cell(row, width),
            (Err(_), Shape::Number) => or_unknown(None),
            (Err(_), Shape::Text) if heading == "STATUS" => style::problem("Error"),
            (Err(_), Shape::Text) => String::new(),
            // No other column is dropped to show more of it.
            (Err(error), Shape::Fitted | Shape::Codes) if width == 0 => cut(error, ENOUGH_OF_A_SENTENCE, false),
            // It is truncated instead of being wrapped.
            (Err(error), Shape::Codes) => error.replace(' ', &NO_BREAK_SPACE.to_string()),
            (Err(error), Shape::Fitted | Shape::Sentence | Shape::Prose) => error.clone(),
        };
        let merged = merged.map(|column| Box::new(column.or_error()));
        Column { heading, shape, rank, is_shrinkable, merged, cell: Box::new(cell) }
    }
}

impl<'a, Row> Column<'a, Row> {
    /// Allows the column to be dropped before a name is truncated: a last column that contains both replaces the last
    /// one, in the style of this one.
    #[must_use]
    pub fn merged_into(mut self, last: Column<'a, Row>) -> Self {
        self.merged = Some(Box::new(last));
        self
    }

    /// Returns whether it is a last column that shortens itself.
    pub(super) fn is_fitted(&self) -> bool {
        matches!(self.shape, Shape::Fitted | Shape::Codes)
    }

    /// Allows the column to be dropped on a narrow terminal; columns with a lower rank are dropped first.
    #[must_use]
    pub fn droppable(mut self, rank: u8) -> Self {
        self.rank = Some(rank);
        self
    }

    /// Allows names without styles to be truncated if dropping columns is not enough on a narrow terminal; the last of
    /// several such columns first.
    #[must_use]
    pub fn shrinkable(mut self) -> Self {
        self.is_shrinkable = true;
        self
    }
}

/// Whether a table has a heading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heading {
    /// It has one.
    Shown,
    /// It has none, as with `--no-headers`.
    Hidden,
}

/// Writes a table with its heading.
pub fn write<Row>(layout: &[Column<'_, Row>], rows: &[Row], page: &mut Page<'_>) {
    write_rows(Heading::Shown, layout, rows, |_, _| String::new(), page)
}

/// Writes a table, and below each row its lines of text for a number of columns, unless there are none.
pub(super) fn write_rows<Row>(
    heading: Heading,
    layout: &[Column<'_, Row>],
    rows: &[Row],
    beneath: impl Fn(&Row, usize) -> String,
    page: &mut Page<'_>,
) {
    let view = page.view;
    let mut layout: Vec<&Column<'_, Row>> = layout.iter().collect();
    let mut cells: Vec<Vec<String>> =
        rows.iter().map(|row| layout.iter().map(|column| (column.cell)(row, 0)).collect()).collect();
    if let Some(limit) = view.limit {
        while width(&layout, &cells, GAP) > limit {
            let droppable = layout.iter().enumerate().filter_map(|(index, column)| Some((column.rank?, index)));
            let Some((_, index)) = droppable.min() else { break };
            layout.remove(index);
            for row in &mut cells {
                row.remove(index);
            }
        }
    }
    let mut styles: Vec<String> = Vec::new();
    if view.limit.is_some_and(|limit| width(&layout, &cells, NARROW_GAP) > limit)
        && let Some((index, merged)) = layout.iter().enumerate().find_map(|(at, it)| Some((at, it.merged.as_deref()?)))
    {
        layout.remove(index);
        layout.splice(layout.len() - 1.., [merged]);
        for (row, cells) in rows.iter().zip(&mut cells) {
            styles.push(cells.remove(index));
            cells.splice(cells.len() - 1.., [(merged.cell)(row, 0)]);
        }
    }
    let gap = match view.limit {
        Some(limit) if width(&layout, &cells, GAP) > limit => NARROW_GAP,
        _ => GAP,
    };
    if let (Some(limit), [before @ .., last]) = (view.limit, layout.as_slice()) {
        let widths: Vec<usize> = (0..layout.len()).map(|index| widest(&layout, &cells, index)).collect();
        let least = match last.shape {
            Shape::Sentence | Shape::Fitted => widths[before.len()].min(LEAST_SENTENCE),
            Shape::Codes => longest_word(&cells, before.len()).max(last.heading.len()),
            Shape::Text | Shape::Number | Shape::Prose => widths[before.len()],
        };
        let needed = widths[..before.len()].iter().sum::<usize>() + gap * before.len() + least;
        let mut excess = needed.saturating_sub(limit);
        for (index, _) in before.iter().enumerate().rev().filter(|(_, column)| column.is_shrinkable) {
            let room = widths[index].saturating_sub(excess).max(LEAST_NAME);
            excess = excess.saturating_sub(widths[index].saturating_sub(room));
            cut_names(cells.iter_mut().map(|row| &mut row[index]), room, view.ascii);
        }
    }
    if let [before @ .., last] = layout.as_slice() {
        let taken: usize = (0..before.len()).map(|index| widest(&layout, &cells, index) + gap).sum();
        let room = view.limit.map_or(usize::MAX, |limit| limit.saturating_sub(taken).max(LEAST_SENTENCE));
        for (row, cells) in rows.iter().zip(&mut cells) {
            let Some(cell) = cells.last_mut().filter(|cell| !cell.is_empty()) else { continue };
            *cell = match last.shape {
                Shape::Sentence => cut(cell, room, view.ascii),
                // In a pipe nothing is truncated, but lists of names shorten themselves there, too.
                Shape::Fitted => cut(&(last.cell)(row, room.min(view.names_room(0))), room, view.ascii),
                Shape::Codes => {
                    let text = (last.cell)(row, room.min(view.names_room(0)));
                    let lines = wrap(&text.replace(" more", &format!("{NO_BREAK_SPACE}more")), room);
                    let lines = lines.iter().map(|line| cut(line, room, view.ascii)).collect::<Vec<_>>();
                    lines.join("\n").replace(NO_BREAK_SPACE, " ")
                }
                Shape::Prose => wrap_with_no_break_spaces(cell, room),
                Shape::Text | Shape::Number => continue,
            };
        }
        for (style, cells) in styles.iter().zip(&mut cells) {
            let Some(cell) = cells.last_mut() else { continue };
            let (first, others) = cell.split_at(cell.find('\n').unwrap_or(cell.len()));
            *cell = style.replace(&strip_str(style).to_string(), first) + others;
        }
    }
    let width = |index| match heading {
        Heading::Shown => widest(&layout, &cells, index),
        Heading::Hidden => widest_cell(&cells, index),
    };
    let widths: Vec<usize> = (0..layout.len()).map(width).collect();
    let padded = |index: usize, cell: &str| {
        let padding = " ".repeat(widths[index].saturating_sub(columns_of(cell)));
        if matches!(layout[index].shape, Shape::Number) { padding + cell } else { cell.to_owned() + &padding }
    };
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<String> = cells.enumerate().map(|(index, cell)| padded(index, cell)).collect();
        cells.join(&" ".repeat(gap)).trim_end().to_owned()
    };
    if heading == Heading::Shown {
        writeln!(page, "{}", line(&mut layout.iter().map(|column| column.heading)));
    }
    let indent = widest(&layout, &cells, 0) + gap;
    for (row, of) in cells.iter().zip(rows) {
        let height = row.iter().map(|cell| cell.split('\n').count()).max().unwrap_or(1);
        for number in 0..height {
            writeln!(page, "{}", line(&mut row.iter().map(|cell| cell.split('\n').nth(number).unwrap_or_default())));
        }
        let room = view.limit.map_or(usize::MAX, |limit| limit.saturating_sub(indent).max(LEAST_SENTENCE));
        for line in beneath(of, room).lines() {
            writeln!(page, "{:indent$}{}", "", cut(line, room, view.ascii));
        }
    }
}

/// Wraps text, and keeps words together that are tied if there is room for them.
pub(super) fn wrap_with_no_break_spaces(text: &str, room: usize) -> String {
    let lines: Vec<_> = text.split('\n').flat_map(|line| wrap(&breakable(line, room), room)).collect();
    lines.join("\n").replace(NO_BREAK_SPACE, " ")
}

/// Breaks non-breaking spaces between words that do not fit otherwise.
fn breakable(line: &str, room: usize) -> String {
    let words = line
        .split(' ')
        .map(|word| if columns(word) > room { word.replace(NO_BREAK_SPACE, " ") } else { word.to_owned() });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the width that a table needs to show enough of its last column.
fn width<Row>(layout: &[&Column<'_, Row>], cells: &[Vec<String>], gap: usize) -> usize {
    let widths = (0..layout.len()).map(|index| match layout[index].shape {
        Shape::Sentence => widest(layout, cells, index).min(ENOUGH_OF_A_SENTENCE),
        Shape::Prose => widest(layout, cells, index).min(ENOUGH_OF_A_SENTENCE).max(longest_word(cells, index)),
        Shape::Text | Shape::Number | Shape::Fitted | Shape::Codes => widest(layout, cells, index),
    });
    widths.sum::<usize>() + gap * layout.len().saturating_sub(1)
}

/// Returns the width of the longest word of a column.
fn longest_word(cells: &[Vec<String>], index: usize) -> usize {
    cells.iter().flat_map(|row| row[index].split([' ', '\n'])).map(columns).max().unwrap_or(0)
}

/// Returns the width of a column.
fn widest<Row>(layout: &[&Column<'_, Row>], cells: &[Vec<String>], index: usize) -> usize {
    widest_cell(cells, index).max(layout[index].heading.len())
}

/// Returns the width of a column without a heading.
fn widest_cell(cells: &[Vec<String>], index: usize) -> usize {
    cells.iter().map(|row| columns_of(&row[index])).max().unwrap_or(0)
}

/// Returns the width of a cell, which may be styled.
fn columns_of(cell: &str) -> usize {
    strip_str(cell).map(columns).sum()
}
