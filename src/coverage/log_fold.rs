//! Folds the logs of several pods: lines that differ only in times, numbers and names become one line.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::report::logs::{LogBlock, LogNodes, PodLog};

/// The lines of several logs, each once.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    by_pattern: HashMap<u64, usize>,
    lines: Vec<FoldedLine>,
}

#[derive(Debug)]
struct FoldedLine {
    text: String,
    /// The logs that contain it.
    logs: Vec<u32>,
}

impl Fold {
    /// Adds a log; `names` are those of its node and pod.
    pub(crate) fn add(&mut self, log: u32, names: [&str; 2], text: &str) {
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let mut hasher = DefaultHasher::new();
            pattern(line, names).hash(&mut hasher);
            let next = self.lines.len();
            let index = *self.by_pattern.entry(hasher.finish()).or_insert(next);
            if index == next {
                self.lines.push(FoldedLine { text: line.to_owned(), logs: Vec::new() });
            }
            let logs = &mut self.lines[index].logs;
            if logs.last() != Some(&log) {
                logs.push(log);
            }
        }
    }

    /// Returns the lines by the nodes that have them: those in the most logs first, in the order of the first log with
    /// them. `of` are the logs by index.
    pub(crate) fn blocks(self, of: &[PodLog]) -> Vec<LogBlock> {
        let mut by_logs: BTreeMap<Vec<u32>, Vec<String>> = BTreeMap::new();
        for FoldedLine { text, mut logs } in self.lines {
            // Logs arrive in any order.
            logs.sort_unstable();
            logs.dedup();
            by_logs.entry(logs).or_default().push(text);
        }
        let mut blocks: Vec<(Vec<u32>, Vec<String>)> = by_logs.into_iter().collect();
        blocks.sort_by_key(|(logs, _)| std::cmp::Reverse(logs.len()));
        let block = |(logs, lines): (Vec<u32>, Vec<String>)| LogBlock {
            daemon_sets: LogNodes::of(logs.into_iter().map(|log| &of[log as usize])),
            lines,
        };
        blocks.into_iter().map(block).collect()
    }
}

/// Returns the pattern shared by lines that differ only in times, numbers and names.
pub(super) fn pattern(line: &str, names: [&str; 2]) -> String {
    let line =
        names.into_iter().filter(|name| !name.is_empty()).fold(line.to_owned(), |line, name| without(&line, name));
    let mut pattern = String::with_capacity(line.len());
    let mut rest = line.as_str();
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c: char| c.is_alphanumeric() != first.is_alphanumeric()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        if first.is_alphanumeric() && (word.contains(|c: char| c.is_ascii_digit()) || is_date(word)) {
            // The parts of a time, an address or a UUID count as one number, however many there are.
            if let Some(before) =
                pattern.strip_suffix([':', '.', '-', ',', '+', '/', ' ']).filter(|it| it.ends_with('#'))
            {
                pattern.truncate(before.len());
            } else {
                pattern.push('#');
            }
        } else {
            pattern.push_str(if word.trim().is_empty() { " " } else { word });
        }
    }
    pattern
}

/// Returns a line in which a name is replaced by a number, unless it is part of another word.
fn without(line: &str, name: &str) -> String {
    let (mut text, mut rest) = (String::with_capacity(line.len()), line);
    while let Some((before, after)) = rest.split_once(name) {
        let is_whole = !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric);
        text.push_str(before);
        text.push_str(if is_whole { "0" } else { name });
        rest = after;
    }
    text + rest
}

/// Returns whether a word is part of a date in the format of syslog or C.
fn is_date(word: &str) -> bool {
    const WORDS: [&str; 19] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Mon", "Tue", "Wed", "Thu",
        "Fri", "Sat", "Sun",
    ];
    WORDS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::{Fold, pattern};
    use crate::report::logs::{LogNodes, PodLog};

    #[test]
    fn lines_that_differ_in_times_numbers_and_names_are_the_same() {
        for (one, other, same) in [
            ("2026-11-24T03:11:46.5Z Error: scap_init", "2026-11-23T22:59:01Z Error: scap_init", true),
            ("Nov 24 03:11:46 kernel: oom", "Dec  1 03:11:46 kernel: oom", true),
            ("[2026/11/24 03:11:46] [error] x", "[2026/11/24 03:11:47] [error] x", true),
            ("E1124 03:11:46.123456       1 main.go:12] boom", "E1123 13:01:06.999999       1 main.go:12] boom", true),
            ("dial tcp 10.0.0.7:443: refused", "dial tcp 10.12.0.71:6443: refused", true),
            ("node n-a has no driver", "node n-b has no driver", true),
            ("id 3f2a9c1e-77aa-4b1c-9d3e-0a1b2c3d4e5f", "id 9d3e0a1b-1111-4b1c-8d3e-0a1b2c3d4e50", true),
            ("cannot open /etc/a.conf", "cannot open /etc/b.conf", false),
            ("Error: a", "Warning: a", false),
        ] {
            let is_same = pattern(one, ["n-a", "pod-x"]) == pattern(other, ["n-b", "pod-y"]);
            assert_eq!(is_same, same, "{one} {other}: {} {}", pattern(one, ["n-a", ""]), pattern(other, ["n-b", ""]));
        }
    }

    #[test]
    fn what_most_nodes_have_comes_first_and_the_odd_ones_after() {
        let mut fold = Fold::default();
        fold.add(2, ["c", "pod-c"], "start\nodd\nError 7\n");
        fold.add(0, ["a", "pod-a"], "start\n\nError 8\nError 9\n");
        fold.add(1, ["b", "pod-b"], "start\nagain\nagain\n");
        let logs = [("x", "a"), ("x", "b"), ("y", "c")].map(|(daemon_set, node)| PodLog {
            namespace: "team".to_owned(),
            daemon_set: daemon_set.to_owned(),
            node: node.to_owned(),
            pod: String::new(),
            container: String::new(),
            previous: false,
            termination_message: false,
            truncated: false,
            error: None,
        });
        let of = |of: LogNodes| format!("{}: {}", of.name, of.nodes.join(" "));
        let nodes = |daemon_sets: Vec<LogNodes>| daemon_sets.into_iter().map(of).collect::<Vec<_>>().join(", ");
        let blocks = fold.blocks(&logs).into_iter().map(|block| (nodes(block.daemon_sets), block.lines.join("|")));
        let expected = [("x: a b, y: c", "start"), ("x: a, y: c", "Error 7"), ("x: b", "again"), ("y: c", "odd")];
        assert_eq!(blocks.collect::<Vec<_>>(), expected.map(|(nodes, lines)| (nodes.to_owned(), lines.to_owned())));
    }
}
