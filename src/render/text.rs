//! Text from a cluster, made safe to print; and text laid out in lines.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Makes text from a cluster safe for a terminal: one line, in which nothing can pass for another
/// thing or steer the terminal.
///
/// Line ends and tabs become spaces. Control characters, among them the escape that begins a
/// sequence, and invisible characters, among them those that turn the direction of text, are written
/// as `\u{1b}`.
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

/// Makes a line of text safe for a terminal and keeps its spaces and tabs, which mean something in a script.
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

/// Tells whether a character can steer a terminal or deceive its reader.
pub fn is_unsafe(c: char) -> bool {
    c.is_control() || is_invisible(c)
}

/// Tells whether a character takes up no room or turns the direction of text, so that it can deceive.
fn is_invisible(c: char) -> bool {
    // Combining marks have no width of their own but are part of ordinary words.
    let is_combining_mark = matches!(c, '\u{300}'..='\u{36f}');
    matches!(c, '\u{ad}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e0fff}')
        || (c.width() == Some(0) && !is_combining_mark)
}

/// Returns how many columns text takes up, which must have no styles in it.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// Breaks text at spaces into lines of at most `width` columns; longer words stay whole.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if columns(line) + 1 + columns(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Breaks what to do into lines of at most `width` columns. A command that ends it and has no room is a line of
/// its own and stays whole, however long, so that it can be copied.
pub fn wrap_fix(fix: &str, width: usize) -> Vec<String> {
    const COMMAND: &str = "kubectl ";
    let start = if fix.starts_with(COMMAND) { Some(0) } else { fix.rfind(": kubectl ").map(|at| at + 2) };
    // What goes on after the command is no part of it: such a text is prose with commands in it.
    let start = start.filter(|start| columns(fix) > width && !fix[*start..].contains("; "));
    let Some((prose, command)) = start.map(|start| fix.split_at(start)) else { return wrap(fix, width) };
    let mut lines = if prose.is_empty() { Vec::new() } else { wrap(prose.trim_end(), width) };
    lines.push(command.to_owned());
    lines
}

/// Lists as many names as fit into `width` columns, at least one, and says how many more there are.
pub fn some_of(names: &[String], width: usize) -> String {
    let mut text = String::new();
    for (index, name) in names.iter().enumerate() {
        let name = sanitize(name);
        let left = names.len() - index - 1;
        let more = if left == 0 { String::new() } else { format!(" +{left} more") };
        let separator = if index == 0 { "" } else { ", " };
        if index > 0 && columns(&text) + columns(separator) + columns(&name) + more.len() > width {
            text.push_str(&format!(" +{} more", left + 1));
            break;
        }
        text.push_str(separator);
        text.push_str(&name);
    }
    text
}

/// Cuts text that has no styles in it to at most `width` columns, and marks that it was cut.
pub fn cut(text: &str, width: usize, ascii: bool) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mark = if ascii { "..." } else { "…" };
    let mut short = String::new();
    let mut room = width.saturating_sub(columns(mark));
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if wide > room {
            break;
        }
        room -= wide;
        short.push(c);
    }
    short.truncate(short.trim_end().len());
    short + mark
}

/// Writes a number of things: `1 node`, `2 nodes`.
pub fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::{cut, sanitize, some_of, wrap, wrap_fix};

    #[test]
    fn nothing_that_steers_a_terminal_gets_through() {
        assert_eq!(sanitize("a\u{1b}[31mred\u{9b}2J"), r"a\u{1b}[31mred\u{9b}2J");
        assert_eq!(sanitize("two\nlines\r\n\tand a tab\n"), "two lines  and a tab");
        assert_eq!(sanitize("txt.\u{202e}gpj"), r"txt.\u{202e}gpj");
        assert_eq!(sanitize("zero\u{200b}width\u{feff}"), r"zero\u{200b}width\u{feff}");
        assert_eq!(sanitize("bell\u{7}\u{0}"), r"bell\u{7}\u{0}");
        assert_eq!(sanitize("größe → 日本 e\u{301}"), "größe → 日本 e\u{301}");
    }

    #[test]
    fn lines_break_at_spaces_only() {
        assert_eq!(wrap("one two three-and-more four", 9), ["one two", "three-and-more", "four"]);
        assert_eq!(wrap("", 9), [""]);
    }

    #[test]
    fn a_command_to_copy_stays_whole() {
        assert_eq!(wrap_fix("try it: kubectl get pods", 80), ["try it: kubectl get pods"]);
        assert_eq!(wrap_fix("if it is gone: kubectl delete pod a", 16), ["if it is gone:", "kubectl delete pod a"]);
        assert_eq!(wrap_fix("kubectl delete pod a", 9), ["kubectl delete pod a"]);
        assert_eq!(wrap_fix("see: kubectl get a; or do b", 12), ["see: kubectl", "get a; or do", "b"]);
        assert_eq!(wrap_fix("wait for it", 8), ["wait for", "it"]);
    }

    #[test]
    fn text_that_is_cut_says_so() {
        assert_eq!(cut("one two three", 13, false), "one two three");
        assert_eq!(cut("one two three", 12, false), "one two thr…");
        assert_eq!(cut("one two three", 9, false), "one two…");
        assert_eq!(cut("one two three", 9, true), "one tw...");
        assert_eq!(cut("日本語", 5, false), "日本…");
    }

    #[test]
    fn as_many_names_are_listed_as_fit() {
        let names: Vec<String> = (1..=5).map(|number| format!("node-{number}")).collect();
        assert_eq!(some_of(&names, 80), "node-1, node-2, node-3, node-4, node-5");
        assert_eq!(some_of(&names, 25), "node-1, node-2 +3 more");
        assert_eq!(some_of(&names, 1), "node-1 +4 more");
        assert_eq!(some_of(&names[..1], 1), "node-1");
        assert_eq!(some_of(&[], 10), "");
    }
}
