//! Which line of a termination message or a log tells why a program has ended.

use std::borrow::Cow;

use serde_json::{Map, Value};

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

/// What sidecars say last that only end because another container has, or does not answer: `ExitOnConnectionLoss`, connection/connection.go,
/// github.com/kubernetes-csi/csi-lib-utils, and those of node-driver-registrar and livenessprobe beside it.
const FOLLOWING: &[&str] = &[
    "lost connection to csi driver",
    "error connecting to csi driver",
    "failed to connect to csi driver",
    "failed to establish connection to csi driver",
    "csi driver is not ready",
];

/// Returns whether a line tells of another container that has ended, not of what says it.
pub fn only_follows(line: &str) -> bool {
    let line = line.to_lowercase();
    FOLLOWING.iter().any(|words| line.contains(words))
}

/// What lines have that only follow what a program has failed of: that it tries again, how to learn more, or its stacks.
const CLOSING: &[&str] = &[
    "error: exit status",
    "attempting again",
    "backtrace",
    "stack trace",
    "for more information",
    // Fluent Bit, nginx, Go, Weave and NVIDIA's driver manager, of what the lines before tell.
    "[lib] backend failed",
    "[engine] input initialization failed",
    "failed initialize input",
    "still could not bind",
    "fatal error: newosproc",
    "failed to get peers",
    "nginx: configuration file",
    "failed to uninstall nvidia driver components",
];

/// The levels of lines that do not tell why a program has ended if others do, as loggers write them.
const LOWER: &[&str] = &["INFO", "WARN", "WARNING", "NOTICE", "DEBUG", "TRACE"];

/// How many words before its text a line has at most.
const WORDS_BEFORE: usize = 5;

/// Returns whether a logger says of a line that it tells of no error.
fn is_of_lower_level(line: &str) -> bool {
    // klog: `W1127 03:11:46.123456       1 reflector.go:12] …`.
    let is_klog = matches!(line.as_bytes(), [b'I' | b'W', digits @ ..] if digits.iter().take_while(|b| b.is_ascii_digit()).count() == 4);
    let is_named = |word: &str| {
        let level = ["level=", "{\"level\":", "\"level\":"].iter().find_map(|key| word.strip_prefix(key));
        let (word, is_marked) = match level {
            Some(word) => (word, true),
            None => (word, word.starts_with('[')),
        };
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        LOWER.iter().any(|level| if is_marked { level.eq_ignore_ascii_case(word) } else { *level == word })
    };
    is_klog || line.split([' ', '\t', ',']).filter(|word| !word.is_empty()).take(WORDS_BEFORE).any(is_named)
}

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
    "not defined",
    "unrecognized",
    "unexpected",
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
    telling_line(text).map(|line| shortened(&message_of(line)))
}

/// The keys under which loggers write what they tell, and the error, the first that a line has.
const MESSAGE: &[&str] = &["msg", "message"];
const ERROR: &[&str] = &["error", "err", "exception"];

/// Returns the message and the error of a line in JSON or logfmt, without its level, its time and the rest; another line as it is.
fn message_of(line: &str) -> Cow<'_, str> {
    let json: Option<Map<String, Value>> = line.starts_with('{').then(|| serde_json::from_str(line).ok()).flatten();
    let text = |keys: &[&str]| match &json {
        Some(fields) => keys.iter().find_map(|key| fields.get(*key)?.as_str().map(str::to_owned)),
        None => keys.iter().find_map(|key| logfmt(line, key)),
    };
    let Some(message) = text(MESSAGE).filter(|message| !message.is_empty()) else { return Cow::Borrowed(line) };
    let message = match text(ERROR).filter(|error| !error.is_empty() && !message.contains(&**error)) {
        Some(error) => format!("{message}: {error}"),
        None => message,
    };
    Cow::Owned(message.replace(['\n', '\r'], " "))
}

/// Returns the value of a key in a line of several.
fn logfmt(line: &str, key: &str) -> Option<String> {
    let value = line.match_indices(&format!("{key}=")).find_map(|(at, key)| {
        // A line of prose may have one.
        let is_one_of_several = at == 0 || line[..at].ends_with(' ') && line[..at].contains('=');
        is_one_of_several.then(|| &line[at + key.len()..])
    })?;
    let Some(quoted) = value.strip_prefix('"') else { return value.split(' ').next().map(str::to_owned) };
    let mut is_escaped = false;
    let end = quoted.find(|character: char| {
        let is_end = character == '"' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        is_end
    })?;
    Some(unescaped(&quoted[..end]).into_owned())
}

pub fn telling_line(text: &str) -> Option<&str> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let tells = |line: &&str| {
        let line = line.to_lowercase();
        TELLING.iter().any(|word| line.contains(word))
    };
    // What follows then describes the flags.
    let usage = lines().position(|line| line.to_lowercase().starts_with("usage"));
    let usage = usage.filter(|usage| lines().take(*usage).any(|line| tells(&line))).unwrap_or(usize::MAX);
    let lines = || lines().take(usage).collect::<Vec<&str>>().into_iter().rev();
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
    let telling = || lines().filter(|line| !closes(line)).take(MOST_LINES).filter(tells);
    let of_error = || telling().find(|line| !is_of_lower_level(line));
    decisive()
        .or_else(of_error)
        .or_else(|| telling().next())
        .or_else(|| lines().find(|line| !closes(line)))
        .or_else(|| lines().next())
}

/// Writes what a program has said in quotes, without the escapes of its logger.
pub fn quoted(text: &str) -> String {
    let text = unescaped(text);
    let quote = if text.contains('"') { '\'' } else { '"' };
    let text = text.chars().map(|c| if c == '\t' { ' ' } else { c });
    std::iter::once(quote).chain(text).chain([quote]).collect()
}

/// Returns a text in which quotes are not escaped, as they are in a line of JSON or logfmt.
pub fn unescaped(text: &str) -> Cow<'_, str> {
    match text.contains("\\\"") {
        true => Cow::Owned(text.replace("\\\\", "").replace("\\\"", "\"")),
        false => Cow::Borrowed(text),
    }
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
