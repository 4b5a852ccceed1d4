//! Sanitizes text from a cluster for a terminal.

use unicode_width::UnicodeWidthChar;

/// Sanitizes text from a cluster for a terminal: one line, which can neither imitate other output nor control the
/// terminal.
///
/// Line endings and tabs become spaces. Control characters, including the escape that starts a sequence, and invisible
/// characters, including those that change the direction of text, are written as `\u{1b}`.
pub fn sanitize(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.trim_end().chars() {
        match c {
            '\n' | '\t' => safe.push(' '),
            '\r' => {}
            c if is_unsafe(c) => safe.extend(c.escape_unicode()),
            c => safe.push(c),
        }
    }
    safe
}

/// Makes a line of text safe for a terminal, and keeps its spaces and tabs, which are significant in a script.
pub fn escape(line: &str) -> String {
    let mut safe = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            '\t' => safe.push(c),
            '\r' => safe.push_str("\\r"),
            c if is_unsafe(c) => safe.extend(c.escape_unicode()),
            c => safe.push(c),
        }
    }
    safe
}

/// Returns whether a character can control a terminal or deceive its reader.
pub fn is_unsafe(c: char) -> bool {
    c.is_control() || is_invisible(c)
}

/// Returns whether a character has no width or changes the direction of text, and so can deceive its reader.
fn is_invisible(c: char) -> bool {
    // Combining marks have no width of their own but are part of ordinary words.
    let is_combining_mark = matches!(c, '\u{300}'..='\u{36f}');
    matches!(c, '\u{ad}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e0fff}')
        || (c.width() == Some(0) && !is_combining_mark)
}

#[cfg(test)]
mod tests {
    use super::sanitize;

    #[test]
    fn nothing_that_steers_a_terminal_gets_through() {
        assert_eq!(sanitize("a\u{1b}[31mred\u{9b}2J"), r"a\u{1b}[31mred\u{9b}2J");
        assert_eq!(sanitize("two\nlines\r\n\tand a tab\n"), "two lines  and a tab");
        assert_eq!(sanitize("txt.\u{202e}gpj"), r"txt.\u{202e}gpj");
        assert_eq!(sanitize("zero\u{200b}width\u{feff}"), r"zero\u{200b}width\u{feff}");
        assert_eq!(sanitize("bell\u{7}\u{0}"), r"bell\u{7}\u{0}");
        assert_eq!(sanitize("größe → 日本 e\u{301}"), "größe → 日本 e\u{301}");
    }
}
