//! Text layout.

use jiff::Timestamp;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::view::View;
use crate::encode::sanitize::sanitize;
use crate::report::age::{format_age, seconds_between};
use crate::report::fix::Fix;
use crate::report::list::Status;

/// Returns the width of text without styles, in columns.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// Wraps text at spaces into lines of at most `width` columns; longer words stay whole.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut taken = 0;
    for word in text.split(' ') {
        let needed = columns(word);
        match lines.last_mut() {
            Some(line) if taken + 1 + needed <= width => {
                line.push(' ');
                line.push_str(word);
                taken += 1 + needed;
            }
            _ => {
                lines.push(word.to_owned());
                taken = needed;
            }
        }
    }
    lines
}

/// Breaks a fix into lines of at most `width` columns. A command that does not fit after the advice is on a separate
/// line and stays whole, so that it can be copied.
pub fn wrap_fix(fix: &Fix, view: &View, width: usize) -> Vec<String> {
    let (advice, command) = view.suggest(fix);
    let Some(command) = command else { return wrap(&advice, width) };
    let line = format!("{advice}: {command}");
    if columns(&line) <= width {
        return vec![line];
    }
    let mut lines = wrap(&format!("{advice}:"), width);
    lines.push(command);
    lines
}

/// Lists as many names as fit into `width` columns, at least one, and the number of the others.
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

/// Writes a number, or `?` for an unknown one.
pub fn or_unknown(number: Option<usize>) -> String {
    number.map_or_else(|| "?".to_owned(), |number| number.to_string())
}

/// Formats the time since something happened, like kubectl's ages.
pub fn time_since(at: Timestamp, now: Timestamp) -> String {
    format_age(seconds_between(at, now))
}

/// Truncates text without styles to at most `width` columns, with an ellipsis.
pub fn cut(text: &str, width: usize, ascii: bool) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mark = ellipsis(ascii);
    let short = fitting(text.chars(), width.saturating_sub(columns(mark)));
    format!("{}{mark}", short.trim_end())
}

/// Truncates names to at most `width` columns: longer ones lose the domain that they share, or else their middles,
/// because they may differ only at their beginnings, or at their ends.
pub fn cut_names<'a>(names: impl Iterator<Item = &'a mut String>, width: usize, ascii: bool) {
    let long: Vec<&mut String> = names.filter(|name| columns(name) > width).collect();
    let domain = shared_domain(&long).to_owned();
    let mark = ellipsis(ascii);
    let room = width.saturating_sub(columns(mark));
    for name in long {
        let host = name.strip_suffix(&domain).unwrap_or(name);
        *name = match columns(host) <= room {
            true => format!("{host}{mark}"),
            false => {
                let start = fitting(host.chars(), room / 2);
                let end = fitting(host.chars().rev(), room - columns(&start));
                format!("{start}{mark}{}", end.chars().rev().collect::<String>())
            }
        };
    }
}

/// Returns the common suffix of all names, from a dot; empty if there is none.
fn shared_domain<'a>(names: &'a [&mut String]) -> &'a str {
    let shared = |one: &'a str, other: &String| {
        let pairs = one.chars().rev().zip(other.chars().rev());
        let length: usize = pairs.take_while(|(one, other)| one == other).map(|(c, _)| c.len_utf8()).sum();
        &one[one.len() - length..]
    };
    let Some((first, others)) = names.split_first() else { return "" };
    let end = others.iter().fold(first.as_str(), |end, name| shared(end, name));
    end.find('.').map_or("", |dot| &end[dot..])
}

fn ellipsis(ascii: bool) -> &'static str {
    if ascii { "..." } else { "…" }
}

/// Returns the first characters that fit into a number of columns.
fn fitting(text: impl Iterator<Item = char>, room: usize) -> String {
    let mut taken = 0;
    text.take_while(|c| {
        taken += c.width().unwrap_or(0);
        taken <= room
    })
    .collect()
}

pub use crate::report::count;

/// Returns a status and the problem, which may be too long, or only the problem if it includes the status, or if there is no room for a
/// status that is not as important.
pub(super) fn or_merged(status: Status, problem: impl Fn(usize) -> String, width: usize) -> String {
    let is_said = matches!(status, Status::NodesDown | Status::NoNodes);
    let may_be_left_out = matches!(status, Status::Degraded | Status::Progressing) && width > 0;
    let status = status.name();
    let least = problem(0);
    let is_too_long = columns(&least) + status.len() + 2 > width && columns(&least) <= width;
    match least.is_empty() {
        true => status.to_owned(),
        false if is_said || may_be_left_out && is_too_long => problem(width),
        false => format!("{status}: {}", problem(width.saturating_sub(status.len() + 2))),
    }
}

#[cfg(test)]
mod tests {
    use super::{cut, cut_names, some_of, wrap, wrap_fix};
    use crate::render::view::View;
    use crate::report::fix::{Command, Fix};

    #[test]
    fn lines_break_at_spaces_only() {
        assert_eq!(wrap("one two three-and-more four", 9), ["one two", "three-and-more", "four"]);
        assert_eq!(wrap("", 9), [""]);
    }

    #[test]
    fn a_command_to_copy_stays_whole() {
        let view = View::new(Some(80), false);
        let lines = |advice: &str, command: Option<&[&str]>, width| {
            let command = command.map(Command::kubectl);
            wrap_fix(&Fix { advice: advice.to_owned(), command }, &view, width)
        };
        assert_eq!(lines("try it", Some(&["get", "pods"]), 80), ["try it: kubectl get pods"]);
        assert_eq!(lines("try it and see", Some(&["get", "a b"]), 9), ["try it", "and see:", "kubectl get 'a b'"]);
        assert_eq!(lines("wait for it", None, 8), ["wait for", "it"]);
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
    fn names_that_are_cut_still_differ() {
        let cut = |names: &[&str], width, ascii| {
            let mut names: Vec<String> = names.iter().copied().map(str::to_owned).collect();
            cut_names(names.iter_mut(), width, ascii);
            names
        };
        let gke = &["gke-prod-3f2a", "gke-prod-pool-1-3f2a", "gke-prod-pool-1-3f2b"];
        assert_eq!(cut(gke, 13, false), ["gke-prod-3f2a", "gke-pr…1-3f2a", "gke-pr…1-3f2b"]);
        assert_eq!(cut(&gke[1..2], 13, true), ["gke-p...-3f2a"]);
        assert_eq!(cut(&["日本語日本語"], 8, false), ["日…本語"]);
        // A shared part does not distinguish them.
        let eks = &["ip-10-0-137-21.us-west-2.compute.internal", "ip-10-0-138-21.us-west-2.compute.internal", "short"];
        assert_eq!(cut(eks, 15, false), ["ip-10-0-137-21…", "ip-10-0-138-21…", "short"]);
        assert_eq!(cut(eks, 14, false), ["ip-10-…-137-21", "ip-10-…-138-21", "short"]);
        let regions = &["a-1.west.compute.internal", "a-1.east.compute.internal"];
        assert_eq!(cut(regions, 12, false), ["a-1.west…", "a-1.east…"]);
        assert_eq!(cut(&[".a.example", ".a.example"], 6, false), ["…", "…"]);
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
