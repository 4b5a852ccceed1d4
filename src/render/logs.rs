//! Logs: the lines of one pod, or lines of several pods with the nodes that have them.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::region::texts;
use super::style;
use super::text::{columns, count, some_of};
use super::view::View;
use crate::report::logs::{LogBlock, LogNodes, LogsReport, PodLog};

/// Number of DaemonSets with the same lines that are named.
const NAMED: usize = 5;

/// Writes the lines by the nodes that have them, and by the DaemonSets unless there is only one. They are not laid out
/// as a page, because there may be many.
pub fn blocks(report: &LogsReport, is_one: bool, view: &View, out: &mut dyn Write) -> io::Result<()> {
    for (index, LogBlock { daemon_sets, lines }) in report.blocks.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        for LogNodes { namespace, name, nodes } in daemon_sets.iter().take(NAMED) {
            let of = if is_one { String::new() } else { view.show(&format!("{namespace}/{name}")) + " " };
            let on = match nodes.len() {
                1 if is_one => "only on ".to_owned(),
                1 => "on ".to_owned(),
                several => format!("on {several} nodes: "),
            };
            let before = of + &on;
            let names = some_of(nodes, view.names_room(columns(&before)));
            view.write(out, |page| writeln!(page, "{}", style::summary(format!("{before}{names}"))))?;
        }
        let others = daemon_sets.get(NAMED..).unwrap_or_default();
        if !others.is_empty() {
            let nodes: BTreeSet<&String> = others.iter().flat_map(|one| &one.nodes).collect();
            let more = format!("and {} more on {}", count(others.len(), "DaemonSet"), count(nodes.len(), "node"));
            view.write(out, |page| writeln!(page, "{}", style::summary(more)))?;
        }
        for text in lines {
            writeln!(out, "    {}", line(text, view))?;
        }
    }
    Ok(())
}

/// Returns a line of a log for a terminal: without colors, and with any other control character escaped.
pub fn line(text: &str, view: &View) -> String {
    // It may end with a carriage return.
    view.verbatim(&texts(text.strip_suffix('\r').unwrap_or(text)).collect::<String>())
}

/// Returns a line of a followed log, prefixed with its node if there are several.
pub fn followed(node: &str, width: Option<usize>, text: &str, view: &View) -> String {
    let text = line(text, view);
    match width {
        Some(width) => {
            view.text(|page| writeln!(page, "{} {text}", style::context(format!("{:<width$}", view.show(node)))))
        }
        None => format!("{text}\n"),
    }
}

/// Returns which logs are omitted, are incomplete or could not be read.
pub fn remarks(report: &LogsReport) -> Vec<String> {
    let left_out = (report.left_out > 0).then(|| {
        let (read, all) = (report.logs.len(), report.logs.len() + report.left_out);
        format!(
            "of {all} pods that match, the logs of {read} were read, spread over DaemonSets and reasons; choose others with \
             --node, --node-selector or --reason"
        )
    });
    let unread = [false, true].map(|has_message| {
        let is_meant = |log: &&PodLog| log.error.is_some() && log.termination_message == has_message;
        let logs: Vec<&PodLog> = report.logs.iter().filter(is_meant).collect();
        let PodLog { node, pod, error, .. } = logs.first()?;
        let of = match logs.len() {
            1 => format!("the log of pod {pod} on {node}"),
            several => format!("the logs of {several} pods, such as that of pod {pod} on {node},"),
        };
        let instead = if has_message { "; shown instead: the termination message" } else { "" };
        Some(format!("{of} could not be read: {}{instead}", error.as_ref()?))
    });
    let is_empty = report.blocks.is_empty() && report.logs.iter().any(|log| log.error.is_none());
    let empty = is_empty.then(|| "nothing was logged".to_owned());
    let cut = report.logs.iter().filter(|log| log.truncated).count();
    let cut =
        (cut > 0).then(|| format!("of {} only the end is shown; --tail shows fewer lines", count(cut, "long log")));
    left_out.into_iter().chain(unread.into_iter().flatten()).chain(empty).chain(cut).collect()
}
