//! Which line of a termination message or a log tells why a program has ended.

use super::cause::{Cause, FixIn, cause};

/// How many characters of a termination message are shown; `--node` shows all.
pub const LONGEST_MESSAGE: usize = 320;

/// What explains an end wherever it is said: nothing before it can be the cause, and what follows misleads.
pub const DECISIVE: &[Cause] = &[
    cause(
        FixIn::Template,
        &["unsupported system page size"],
        "use an image that is built for the page size of these nodes, or exclude them with a nodeSelector",
    ),
    cause(
        FixIn::Node,
        &["workload is not ready for istio"],
        "delete the pod once the pod of istio-cni on the node is ready: it started before that had set up its network",
    ),
    cause(
        FixIn::Cluster,
        &["is already using the ipv4 address", "is already using the ipv6 address"],
        "if the node that has the address no longer exists, delete it from the network plugin's own list (`calicoctl get nodes`); otherwise \
         correct how the plugin detects addresses (IP_AUTODETECTION_METHOD): two nodes cannot have the same one",
    ),
];

/// What lines have that only follow what a program has failed of: that it tries again, how to learn more, or its stacks.
const CLOSING: &[&str] =
    &["error: exit status", "attempting again", "backtrace", "stack trace", "for more information"];

/// How such lines begin.
const BEGINS: &[&str] = &["note: ", "perhaps ", "goroutine "];

/// What such lines say if they say nothing else.
const ENDS: &[&str] = &["exiting", "terminating", "shutting down", "retrying", "goodbye", "failed to start"];

/// The most characters of a line that says nothing else.
const NOTHING_ELSE: usize = 40;

/// How many lines before the end may tell what it is about.
const MOST_LINES: usize = 12;

/// What lines have that tell of a failure.
const TELLING: &[&str] = &[
    "error",
    "fatal",
    "panic",
    "forbidden",
    "denied",
    "unauthorized",
    "cannot",
    "can't",
    "could not",
    "couldn't",
    "unable",
    "fail",
    "unsupported",
    "not supported",
    "invalid",
    "no such",
    "not found",
    "already",
    "refused",
    "exception",
    "sigsegv",
    "does not exist",
    "missing",
    "expected",
    "required",
    "unknown",
    "must ",
    "timed out",
    "timeout",
    "segmentation fault",
    "core dumped",
    "killed",
    "aborted",
    "illegal instruction",
    "no space left",
    "read-only file system",
    "deadline exceeded",
    "out of memory",
    "no route to host",
    "too many open files",
];

/// Returns the line of a text that tells most of why a program has ended, as far as it is shown: the last one that tells of a failure, or
/// else the last one.
pub fn last_line(text: &str) -> Option<String> {
    telling_line(text).map(shortened)
}

pub fn telling_line(text: &str) -> Option<&str> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty()).rev();
    let has = |line: &str, words: &[&str]| {
        let line = line.to_lowercase();
        words.iter().any(|word| line.contains(word))
    };
    let closes = |line: &&str| {
        has(line, CLOSING)
            || BEGINS.iter().any(|begin| line.to_lowercase().starts_with(begin))
            || (has(line, ENDS) && line.chars().count() <= NOTHING_ELSE)
            || is_of_a_dump(line)
    };
    let decisive = || lines().find(|line| Cause::among(DECISIVE, line).is_some());
    let telling = || lines().filter(|line| !closes(line)).take(MOST_LINES).find(|line| has(line, TELLING));
    decisive().or_else(telling).or_else(|| lines().find(|line| !closes(line))).or_else(|| lines().next())
}

/// What a program says that was told to end.
const TOLD_TO_END: &[&str] = &["server closed", "sigterm", "signal", "context canceled", "graceful"];

/// Returns whether a line tells of a failure, and not only that the program was told to end.
pub fn tells_of_failure(line: &str) -> bool {
    let line = line.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| line.contains(word));
    has(TELLING) && !has(TOLD_TO_END)
}

/// Cuts a long line in its middle: what is said last matters most.
fn shortened(line: &str) -> String {
    let length = line.chars().count();
    if length <= LONGEST_MESSAGE {
        return line.to_owned();
    }
    let begin: String = line.chars().take(LONGEST_MESSAGE / 2).collect();
    let end: String = line.chars().skip(length - LONGEST_MESSAGE / 2).collect();
    format!("{}…{}", begin.trim_end(), end.trim_start())
}

/// Returns whether a line is one of the registers, frames and addresses that runtimes print when a program has crashed.
fn is_of_a_dump(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let second = words.nth(1).unwrap_or_default();
    let is_frame = line.split_once(": ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    let is_call = line.starts_with("at ") && line.contains(['(', '/']);
    is_frame || is_call || second.starts_with("0x") && words.next().is_none() || line.contains(" +0x")
}
