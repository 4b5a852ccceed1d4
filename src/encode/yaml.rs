//! YAML that kubectl reads back as the same values, and that cannot control a terminal.
//!
//! It looks like kubectl's. We write it ourselves because serializers do not escape characters that could control a
//! terminal or deceive its reader: here, such strings are double-quoted and escaped. serde-saphyr also starts blocks
//! with a tab, which kubectl rejects.

use std::fmt::Write as _;
use std::io;

use serde::Serialize;

use super::ordered_value::Tree;
use super::sanitize::is_unsafe;

/// How many columns each level is indented.
const STEP: usize = 2;

/// The maximum length of an implicit key; kubectl's YAML reader gives up at 1,024 bytes.
const LONGEST_KEY: usize = 500;

/// Writes a value, with its fields in their order.
pub fn write(value: &impl Serialize, out: &mut dyn io::Write) -> io::Result<()> {
    out.write_all(text(&Tree::of(value)?, false).as_bytes())
}

/// Formats a tree as YAML, optionally in ASCII only.
pub fn text(tree: &Tree, ascii: bool) -> String {
    let mut writer = Writer { text: String::new(), ascii };
    match tree {
        Tree::Fields(fields) if !fields.is_empty() => writer.fields(fields, 0),
        Tree::List(items) if !items.is_empty() => writer.items(items, 0),
        other => writer.scalar(other, None),
    }
    writer.text
}

/// Returns whether a string needs no quotes.
///
/// YAML 1.1, which kubectl reads, and 1.2 read `yes`, `1_000` or `0o7` differently: anything that is not a string in
/// both is quoted.
pub fn is_plain(text: &str, ascii: bool) -> bool {
    // The serializer knows which strings are ambiguous; these options keep it from folding lines.
    let options = serde_saphyr::ser_options! { min_fold_chars: usize::MAX, folded_wrap_chars: usize::MAX };
    !text.contains(|c: char| c == '\n' || is_escaped(c, ascii))
        && serde_saphyr::to_string_with_options(&text, options)
            .is_ok_and(|written| written.strip_suffix('\n') == Some(text))
}

/// Formats a string in double quotes, and escapes characters that could control a terminal.
///
/// This is JSON, too, unless a character beyond U+FFFF has to be escaped.
pub fn quoted(text: &str, ascii: bool) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        let _ = match c {
            '"' => quoted.write_str("\\\""),
            '\\' => quoted.write_str("\\\\"),
            '\n' => quoted.write_str("\\n"),
            '\r' => quoted.write_str("\\r"),
            '\t' => quoted.write_str("\\t"),
            c if !is_escaped(c, ascii) => quoted.write_char(c),
            c => match u32::from(c) {
                code @ ..=0xffff => write!(quoted, "\\u{code:04x}"),
                code => write!(quoted, "\\U{code:08x}"),
            },
        };
    }
    quoted.push('"');
    quoted
}

/// Returns whether a character must be escaped. Line endings and tabs are not: they are part of scripts.
fn is_escaped(c: char, ascii: bool) -> bool {
    // YAML readers reject the last two.
    (is_unsafe(c) && c != '\n' && c != '\t') || (ascii && !c.is_ascii()) || matches!(c, '\u{fffe}' | '\u{ffff}')
}

struct Writer {
    text: String,
    ascii: bool,
}

impl Writer {
    fn indent(&mut self, columns: usize) {
        self.text.extend(std::iter::repeat_n(' ', columns));
    }

    /// Writes fields, the first one at the current position, the others indented.
    fn fields(&mut self, fields: &[(String, Tree)], columns: usize) {
        for (index, (key, value)) in fields.iter().enumerate() {
            if index > 0 {
                self.indent(columns);
            }
            let key =
                if is_plain(key, self.ascii) && !key.contains(':') { key.clone() } else { quoted(key, self.ascii) };
            if key.len() > LONGEST_KEY {
                let _ = writeln!(self.text, "? {key}");
                self.indent(columns);
            } else {
                self.text.push_str(&key);
            }
            self.text.push(':');
            match value {
                Tree::Fields(fields) if !fields.is_empty() => {
                    self.text.push('\n');
                    self.indent(columns + STEP);
                    self.fields(fields, columns + STEP);
                }
                Tree::List(items) if !items.is_empty() => {
                    self.text.push('\n');
                    self.indent(columns);
                    self.items(items, columns);
                }
                scalar => {
                    self.text.push(' ');
                    self.scalar(scalar, Some(columns));
                }
            }
        }
    }

    /// Writes items, the first one at the current position, the others indented.
    fn items(&mut self, items: &[Tree], columns: usize) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.indent(columns);
            }
            self.text.push_str("- ");
            match item {
                Tree::Fields(fields) if !fields.is_empty() => self.fields(fields, columns + STEP),
                Tree::List(items) if !items.is_empty() => self.items(items, columns + STEP),
                scalar => self.scalar(scalar, Some(columns)),
            }
        }
    }

    /// Writes a scalar on one line, or as a block below a parent with this indentation.
    fn scalar(&mut self, scalar: &Tree, parent: Option<usize>) {
        match (scalar, parent) {
            (Tree::Scalar(value), _) => {
                let _ = write!(self.text, "{value}");
            }
            (Tree::List(_), _) => self.text.push_str("[]"),
            (Tree::Fields(_), _) => self.text.push_str("{}"),
            (Tree::Text(text), Some(columns)) if is_block(text, self.ascii) => return self.block(text, columns + STEP),
            (Tree::Text(text), _) if is_plain(text, self.ascii) => self.text.push_str(text),
            (Tree::Text(text), _) => self.text.push_str(&quoted(text, self.ascii)),
        }
        self.text.push('\n');
    }

    /// Writes a literal block.
    fn block(&mut self, text: &str, columns: usize) {
        self.text.push('|');
        // Leading white space could be mistaken for indentation.
        if text.starts_with([' ', '\t', '\n']) {
            let _ = write!(self.text, "{STEP}");
        }
        self.text.push_str(block_end(text));
        self.text.push('\n');
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            if !line.is_empty() {
                self.indent(columns);
                self.text.push_str(line);
            }
            self.text.push('\n');
        }
    }
}

/// Returns the chomping indicator of a literal block.
pub fn block_end(text: &str) -> &'static str {
    match text.strip_suffix('\n') {
        None => "-",
        Some(rest) if rest.ends_with('\n') => "+",
        Some(_) => "",
    }
}

/// Returns whether text can be written as a literal block and read back unchanged.
fn is_block(text: &str, ascii: bool) -> bool {
    let lines = || text.strip_suffix('\n').unwrap_or(text).split('\n');
    // Readers disagree about lines of white space.
    text.contains('\n')
        && !text.contains(|c: char| is_escaped(c, ascii))
        && lines().any(|line| !line.is_empty())
        && !lines().any(|line| !line.is_empty() && line.trim().is_empty())
}
