//! Logs: the lines of a pod, or those of several by the nodes that have them.

use std::io::{self, Write};

use super::style;
use super::text::{count, some_of};
use super::view::View;
use crate::encode::sanitize::escape;
use crate::report::logs::{LogBlock, LogsReport, PodLog};

/// Writes the lines by the nodes that have them. They may be many, so that they are not laid out as a page.
pub fn blocks(report: &LogsReport, view: &View, out: &mut dyn Write) -> io::Result<()> {
    for (index, LogBlock { nodes, lines }) in report.blocks.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        let (on, room) = (format!("on {}: ", count(nodes.len(), "node")), view.names_room(12));
        let on = if nodes.len() == 1 { "only on ".to_owned() } else { on };
        let heading = view.text(|page| writeln!(page, "{}", style::answer(format!("{on}{}", some_of(nodes, room)))));
        out.write_all(heading.as_bytes())?;
        for text in lines {
            writeln!(out, "    {}", line(text, view))?;
        }
    }
    Ok(())
}

/// Returns a line of a log for a terminal: without colors, and with any other control character escaped.
pub fn line(text: &str, view: &View) -> String {
    let safe = escape(&without_colors(text));
    if view.ascii {
        safe.chars().map(|c| if c.is_ascii() { c.to_string() } else { c.escape_unicode().to_string() }).collect()
    } else {
        safe
    }
}

/// Returns a line of a log without colors, and without the carriage return at its end.
pub(crate) fn without_colors(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.strip_suffix('\r').unwrap_or(text);
    while let Some(at) = rest.find("\u{1b}[") {
        let after = &rest[at + 2..];
        let end = after.find(|c: char| !c.is_ascii_digit() && c != ';');
        let (kept, next) = match end {
            Some(end) if after[end..].starts_with('m') => (at, &after[end + 1..]),
            _ => (at + 2, after),
        };
        plain.push_str(&rest[..kept]);
        rest = next;
    }
    plain.push_str(rest);
    plain
}

/// Returns a line that is followed, after its node if there are several.
pub fn followed(node: &str, width: Option<usize>, text: &str, view: &View) -> String {
    let text = line(text, view);
    match width {
        Some(width) => {
            view.text(|page| writeln!(page, "{} {text}", style::context(format!("{:<width$}", view.show(node)))))
        }
        None => format!("{text}\n"),
    }
}

/// Returns which logs are incomplete or could not be read.
pub fn remarks(report: &LogsReport) -> Vec<String> {
    let unread = report.logs.iter().filter_map(|PodLog { node, pod, error, .. }| {
        Some(format!("the log of pod {pod} on {node} could not be read: {}", error.as_ref()?))
    });
    let cut = report.logs.iter().filter(|log| log.truncated).count();
    let cut =
        (cut > 0).then(|| format!("of {} only the end is shown; --tail shows fewer lines", count(cut, "long log")));
    unread.chain(cut).collect()
}
