//! A region at the end of a terminal's text that is redrawn in place.
//!
//! The terminal's state is not changed: no alternate screen, no raw mode, no hidden cursor, and no queries that the
//! terminal would have to answer. The cursor rests below the last line, so that nothing has to be restored however the
//! process ends, and later output follows below. A line never reaches the last column, unless it is a command, which
//! the terminal wraps so that it can be copied, and the region never reaches the last row, so that nothing scrolls.

use std::fmt::Write as _;
use std::io::{self, Write};

use unicode_width::UnicodeWidthChar;

use super::text::columns;

/// Begins and ends synchronized output (DEC mode 2026): terminals that support it show a frame at once.
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";

/// Clears to the end of the line, and to the end of the screen.
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// Clears to the end of the screen in two steps: if a screen is cleared from its first cell, tmux assumes that it
/// should be kept, and moves all of it to the scrollback.
const ERASE: &str = "\x1b[2K\x1b[1B\x1b[J\x1b[1A";

/// The size of a terminal in columns and rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// The columns.
    pub columns: usize,
    /// The rows.
    pub rows: usize,
}

/// A line of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The text, with styles.
    pub text: String,
    /// Whether it is never truncated.
    pub is_whole: bool,
}

impl<T: Into<String>> From<T> for Line {
    fn from(text: T) -> Self {
        Line { text: text.into(), is_whole: false }
    }
}

impl Line {
    /// Returns a line that is not truncated.
    pub(super) fn whole(text: String) -> Self {
        Line { text, is_whole: true }
    }

    /// Returns how many rows it takes on a terminal with this many columns.
    pub fn rows(&self, columns: usize) -> usize {
        if self.is_whole { rows_of(&self.text, columns) } else { 1 }
    }

    fn fitted(&self, width: usize) -> String {
        fit(&self.text, if self.is_whole { usize::MAX } else { width })
    }
}

/// The lines on the terminal.
#[derive(Debug, Default)]
pub struct Region {
    lines: Vec<String>,
    size: Option<Size>,
}

impl Region {
    /// Replaces the previous lines, with one write. Unchanged lines are not written again, and lines that do not fit
    /// are truncated. The only escape sequences that are kept are styles.
    pub fn draw(&mut self, lines: &[Line], size: Size, terminal: &mut dyn Write) -> io::Result<()> {
        let (mut rows, width) = (size.rows.saturating_sub(1), size.columns.saturating_sub(1));
        let fits = |line: &&Line| {
            let left = rows.checked_sub(line.rows(size.columns));
            rows = left.unwrap_or(0);
            left.is_some()
        };
        let lines: Vec<String> = lines.iter().take_while(fits).map(|line| line.fitted(width)).collect();
        let is_resized = self.size.is_some_and(|drawn| drawn != size);
        if lines == self.lines && !is_resized {
            return Ok(());
        }
        let mut frame = BEGIN.to_owned();
        self.move_to_top(size, &mut frame);
        // The row of a line depends on the lines above it, and clearing the rest of a line that fills its row would
        // clear its last character.
        let wraps = lines.iter().chain(&self.lines).any(|line| visible(line) > width);
        if is_resized || wraps || lines.is_empty() {
            frame.push_str(self.erase());
            self.lines.clear();
        }
        for (index, line) in lines.iter().enumerate() {
            if self.lines.get(index) != Some(line) {
                frame.push_str(line);
                frame.push_str(if wraps { "" } else { CLEAR_LINE });
            }
            frame.push_str("\r\n");
        }
        if !lines.is_empty() {
            frame.push_str(CLEAR_BELOW);
        }
        frame.push_str(END);
        (self.lines, self.size) = (lines, Some(size));
        terminal.write_all(frame.as_bytes())?;
        terminal.flush()
    }

    /// Returns whether it was last drawn for this size.
    pub fn has_size(&self, size: Size) -> bool {
        self.size == Some(size)
    }

    /// Removes the lines.
    pub fn clear(&mut self, size: Size, terminal: &mut dyn Write) -> io::Result<()> {
        if self.size.is_none() {
            return Ok(());
        }
        let mut frame = String::new();
        self.move_to_top(size, &mut frame);
        frame.push_str(self.erase());
        *self = Region::default();
        terminal.write_all(frame.as_bytes())?;
        terminal.flush()
    }

    /// Returns the sequence that clears the region from its first line. Without a line, there is no row below the cursor to go to.
    fn erase(&self) -> &'static str {
        if self.lines.is_empty() { CLEAR_BELOW } else { ERASE }
    }

    /// Moves the cursor to the first line. A terminal that has become narrower has wrapped the lines that no longer fit.
    fn move_to_top(&self, size: Size, frame: &mut String) {
        let rows: usize = self.lines.iter().map(|line| rows_of(line, size.columns)).sum();
        frame.push('\r');
        if rows > 0 {
            // Writing to a string does not fail.
            let _ = write!(frame, "\x1b[{rows}A");
        }
    }
}

/// Returns how many rows a line with styles takes. A character with two columns is not split across two rows.
fn rows_of(line: &str, width: usize) -> usize {
    let (mut rows, mut used) = (1, 0);
    for wide in texts(line).flat_map(str::chars).filter_map(UnicodeWidthChar::width) {
        if used > 0 && used + wide > width {
            (rows, used) = (rows + 1, 0);
        }
        used += wide;
    }
    rows
}

/// Returns the width of a line with styles, in columns.
fn visible(line: &str) -> usize {
    texts(line).map(columns).sum()
}

/// Returns the text of a line without its styles.
pub(super) fn texts(line: &str) -> impl Iterator<Item = &str> {
    parts(line).filter_map(|part| if let Part::Text(text) = part { Some(text) } else { None })
}

/// Truncates a line with styles to a width in columns, with an ellipsis, and removes all escape sequences that are not
/// styles. Trailing spaces are removed: terminals differ in whether they wrap them.
fn fit(line: &str, width: usize) -> String {
    let is_cut = visible(line) > width;
    let mut room = if is_cut { width.saturating_sub(1) } else { width };
    let mut fitted = String::with_capacity(line.len());
    let mut is_styled = false;
    let mut spaces = 0;
    'parts: for part in parts(line) {
        match part {
            Part::Style(style) => {
                fitted.push_str(style);
                is_styled = true;
            }
            Part::Text(text) => {
                for c in text.chars() {
                    let Some(wide) = c.width() else { continue };
                    if wide > room {
                        break 'parts;
                    }
                    room -= wide;
                    if c == ' ' {
                        spaces += 1;
                    } else {
                        fitted.extend(std::iter::repeat_n(' ', std::mem::take(&mut spaces)));
                        fitted.push(c);
                    }
                }
            }
        }
    }
    if is_cut && width > 0 {
        fitted.push(if line.is_ascii() { '>' } else { '…' });
    }
    if is_cut && is_styled {
        fitted.push_str("\x1b[0m");
    }
    fitted
}

/// A part of a line.
enum Part<'a> {
    Text(&'a str),
    Style(&'a str),
}

/// Splits a line into text and styles; other control characters are in the text and have no width.
fn parts(line: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = line;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some(length) = style_length(rest) {
            let (style, after) = rest.split_at(length);
            rest = after;
            return Some(Part::Style(style));
        }
        let next = rest.char_indices().skip(1).find(|(_, c)| *c == '\x1b').map_or(rest.len(), |(index, _)| index);
        let (text, after) = rest.split_at(next);
        rest = after;
        Some(Part::Text(text))
    })
}

/// Returns the length of the style at the start of a text.
fn style_length(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\x1b[")?;
    let length = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    parameters[length..].starts_with('m').then_some(2 + length + 1)
}

#[cfg(test)]
mod tests {
    use super::{Line, Region, Size, fit, rows_of, visible};

    fn draw(region: &mut Region, lines: &[&str], size: (usize, usize)) -> String {
        let lines: Vec<Line> = lines.iter().map(|line| Line::from(*line)).collect();
        let mut terminal = Vec::new();
        region.draw(&lines, Size { columns: size.0, rows: size.1 }, &mut terminal).unwrap();
        String::from_utf8(terminal).unwrap()
    }

    #[test]
    fn only_lines_that_have_changed_are_written() {
        let mut region = Region::default();
        let first = draw(&mut region, &["one", "two", "three"], (20, 5));
        assert_eq!(first, "\x1b[?2026h\rone\x1b[K\r\ntwo\x1b[K\r\nthree\x1b[K\r\n\x1b[J\x1b[?2026l");
        assert_eq!(draw(&mut region, &["one", "two", "three"], (20, 5)), "");
        let changed = draw(&mut region, &["one", "2", "three"], (20, 5));
        assert_eq!(changed, "\x1b[?2026h\r\x1b[3A\r\n2\x1b[K\r\n\r\n\x1b[J\x1b[?2026l");
        // A narrower terminal has wrapped "three".
        let resized = draw(&mut region, &["one"], (4, 5));
        assert!(resized.starts_with("\x1b[?2026h\r\x1b[4A\x1b[2K\x1b[1B\x1b[J\x1b[1Aone"), "{resized:?}");
    }

    #[test]
    fn a_wide_character_is_not_divided_between_rows() {
        assert_eq!(rows_of(&"日".repeat(31), 62), 1);
        assert_eq!(rows_of(&"日".repeat(31), 31), 3);
        assert_eq!(rows_of("", 31), 1);
        assert_eq!(rows_of("\x1b[31m日a\x1b[0m", 3), 1);
        assert_eq!(rows_of("日日", 1), 2);
    }

    #[test]
    fn lines_that_do_not_fit_are_cut_with_their_styles() {
        assert_eq!(fit("a \x1b[31mred\x1b[39m word  ", 12), "a\x1b[31m red\x1b[39m word");
        assert_eq!(fit("a \x1b[31mred\x1b[39m word", 6), "a\x1b[31m red\x1b[39m>\x1b[0m");
        assert_eq!(fit("a \x1b[31mred", 4), "a\x1b[31m r>\x1b[0m");
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit("日", 0), "");
        assert_eq!(visible("\x1b[1;31m日a\x1b[0m"), 3);
    }

    #[test]
    fn nothing_but_styles_steers_the_terminal() {
        assert_eq!(fit("a\x1b[2Jb\x1b]0;title\x07c\x1b", 40), "a[2Jb]0;titlec");
        assert_eq!(fit("\x1b[31;1Ha\x1b[", 40), "[31;1Ha[");
    }
}
