//! Decides what to show of a text from an unknown author: only what the components of a cluster write.
//!
//! The text is split where one error wraps another, and where a sentence or a line ends. A part stays if each of its
//! words is one that components write (`message_words.txt`), a name that the dump shows anyway, or a number of a size
//! that occurs in messages. Any other part is hidden as a whole.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use crate::model::redacted::{REGISTRY, STAND_IN};

/// The words in messages of Kubernetes, container runtimes and registries, and paths that exist on every node.
const WORDS: &str = include_str!("message_words.txt");

/// Words that precede the name of an object that may no longer exist, or that dumps do not contain.
const BEFORE_NAME: [&str; 13] = [
    "binding",
    "container",
    "node",
    "pod",
    "pods",
    "policy",
    "quota",
    "storageclass",
    "validatingadmissionpolicy",
    "mutatingadmissionpolicy",
    "volume",
    "webhook",
    "constraint",
];

/// Words that precede the name of an image.
const BEFORE_IMAGE: [&str; 3] = ["image", "reference", "manifest"];

/// Words that precede an amount without a unit.
const BEFORE_AMOUNT: [&str; 9] =
    ["requested", "used", "capacity", "limited", "available", "limit", "request", "memory", "storage"];

/// The most digits of a number without a unit.
const MAX_DIGITS: usize = 5;

/// The most characters between two words of one chunk, as in `://`.
const MAX_BETWEEN: usize = 3;

/// Distinguishes known text from text that must be hidden.
#[derive(Debug)]
pub(super) struct Known {
    words: HashSet<&'static str>,
    names: HashSet<String>,
    /// The replacement for a registry, and for its host alone.
    registries: HashMap<String, String>,
    /// Number of registries that have a replacement.
    registries_count: usize,
}

impl Known {
    /// Registers the names that a dump shows, and the replacements for registries.
    pub(super) fn new(names: &BTreeSet<String>, registries: &BTreeSet<String>) -> Self {
        let parts = names.iter().flat_map(|name| name.split(|c| !is_of_part(c)).chain([name.as_str()]));
        let names = parts.map(str::to_owned).collect();
        let words = WORDS.split_whitespace().collect();
        let mut known = Known { words, names, registries: HashMap::new(), registries_count: 0 };
        registries.iter().for_each(|registry| drop(known.registry(registry)));
        known
    }

    /// Returns the text as it is shown; `number` returns the replacement for a hidden part.
    pub(super) fn shown(&mut self, text: &str, number: &mut impl FnMut(&str) -> String) -> String {
        if text.parse::<jiff::Timestamp>().is_ok() {
            return text.to_owned();
        }
        let (mut shown, mut hidden, mut before) = (String::with_capacity(text.len()), None, String::new());
        let mut start = 0;
        for end in ends_of_parts(text) {
            let part = &text[start..end];
            let known = self.part(part, &mut before, number);
            // A single word after a hidden part may belong to it, as in `password: x`.
            let is_alone = hidden.is_some() && part.split_whitespace().nth(1).is_none();
            match known.filter(|_| !is_alone) {
                Some(known) => {
                    hide(hidden.take().map(|from| &text[from..start]), &mut shown, number);
                    shown.push_str(&known);
                }
                None => {
                    hidden = hidden.or(Some(start));
                    before.clear();
                }
            }
            start = end;
        }
        hide(hidden.map(|from| &text[from..]), &mut shown, number);
        shown
    }

    /// Returns a part of a text as it is shown; `None` if it contains anything unknown. `before` is the last word so far.
    fn part(&mut self, part: &str, before: &mut String, number: &mut impl FnMut(&str) -> String) -> Option<String> {
        let mut shown = String::with_capacity(part.len());
        for chunk in part.split_inclusive(char::is_whitespace) {
            let (word, blank) = chunk.split_at(chunk.trim_end().len());
            let inner = word.trim_matches(|c: char| "\"'`()[]{}<>,;:.!?\\".contains(c));
            let (open, close) = word.split_once(inner).filter(|_| !inner.is_empty()).unwrap_or((word, ""));
            if open.len() > MAX_BETWEEN || close.len() > MAX_BETWEEN + 1 {
                return None;
            }
            let known = match self.chunk(inner, before) {
                Some(known) => known,
                // Only the URL is hidden, since the rest of the message rarely depends on it.
                None if inner.contains("://") => Cow::Owned(number(inner)),
                None => return None,
            };
            shown.push_str(open);
            shown.push_str(&known);
            shown.push_str(close);
            shown.push_str(blank);
            if !inner.is_empty() {
                *before = inner.to_ascii_lowercase();
            }
        }
        Some(shown)
    }

    /// Returns a whitespace-delimited chunk as it is shown, without the quotes and punctuation around it.
    fn chunk<'a>(&mut self, chunk: &'a str, before: &str) -> Option<Cow<'a, str>> {
        let is_amount = BEFORE_AMOUNT.contains(&before) && chunk.bytes().all(|byte| byte.is_ascii_digit());
        let is_named = BEFORE_NAME.contains(&before) && is_object_name(chunk);
        if chunk.is_empty() || is_amount || is_named || chunk.parse::<IpAddr>().is_ok() || self.names.contains(chunk) {
            return Some(chunk.into());
        }
        if BEFORE_IMAGE.contains(&before)
            && let Some(image) = self.image(chunk)
        {
            return Some(image.into());
        }
        if let Some((scheme, rest)) = chunk.split_once("://") {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let is_host = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.:".contains(&byte));
            let host = match path.starts_with("/v2/") && is_host {
                true => self.registry(host),
                false => self.compound(host)?.into_owned(),
            };
            let (scheme, path) = (self.compound(scheme)?, self.compound(path)?);
            return Some(format!("{scheme}://{host}{path}").into());
        }
        self.compound(chunk)
    }

    /// Returns words with punctuation between them as they are shown.
    fn compound<'a>(&self, chunk: &'a str) -> Option<Cow<'a, str>> {
        if let Some(stand_in) = self.registries.get(chunk) {
            return Some(stand_in.clone().into());
        }
        // `host:port/path`
        if let Some((registry, rest)) = chunk.split_once('/')
            && let Some(stand_in) = self.registries.get(registry)
        {
            return Some(format!("{stand_in}/{}", self.compound(rest)?).into());
        }
        let mut rest = chunk;
        while !rest.is_empty() {
            let (between, after) = rest.split_at(rest.find(is_of_part).unwrap_or(rest.len()));
            let (part, after) = after.split_at(after.find(|c| !is_of_part(c)).unwrap_or(after.len()));
            if between.len() > MAX_BETWEEN || !(part.is_empty() || self.is_known(part)) {
                return None;
            }
            rest = after;
        }
        Some(chunk.into())
    }

    /// Returns whether a run of letters, digits, dots, hyphens and underscores is known words, a name or a number.
    fn is_known(&self, part: &str) -> bool {
        let part = part.trim_matches(['.', '-', '_']);
        let is_registry = |part: &str| part.strip_prefix("registry-").is_some_and(|rest| rest.ends_with(REGISTRY));
        if is_number(part) || self.names.contains(part) || is_stand_in(part) || is_registry(part) {
            return true;
        }
        let is_word =
            |word: &str| word.is_empty() || is_number(word) || self.words.contains(word.to_ascii_lowercase().as_str());
        let is_known = |word: &str| is_word(word) || self.names.contains(word) || camel_case_words(word).all(is_word);
        part.split('_').all(|piece| self.names.contains(piece) || piece.split(['.', '-']).all(is_known))
    }

    /// Returns the name of an image as it is shown; `None` if it is not in the format of one.
    pub(super) fn image(&mut self, image: &str) -> Option<String> {
        let (registry, path) = image_parts(image)?;
        let scheme = image.split_once("://").map_or("", |(scheme, _)| &image[..scheme.len() + 3]);
        let registry = registry.map_or_else(String::new, |registry| self.registry(registry) + "/");
        Some(format!("{scheme}{registry}{path}"))
    }

    /// Returns the replacement for a registry. Messages often name the host without its port.
    fn registry(&mut self, registry: &str) -> String {
        if registry.ends_with(REGISTRY) {
            return registry.to_owned();
        }
        let host = registry.split(':').next().unwrap_or_default();
        let known = [registry, host].into_iter().find_map(|name| self.registries.get(name));
        let stand_in = known.cloned().unwrap_or_else(|| {
            self.registries_count += 1;
            format!("registry-{}{REGISTRY}", self.registries_count)
        });
        for name in [registry, host] {
            self.registries.entry(name.to_owned()).or_insert_with(|| stand_in.clone());
        }
        stand_in
    }
}

/// Returns whether a text is a replacement, as in a dump that was redacted before.
pub(super) fn is_stand_in(text: &str) -> bool {
    text.strip_prefix(STAND_IN).is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the registry of an image, if it names one, and the rest; `None` if it is not in the format of an image.
pub(super) fn image_parts(image: &str) -> Option<(Option<&str>, &str)> {
    let image = image.split_once("://").map_or(image, |(_, image)| image);
    let (registry, path) = match image.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (Some(first), rest),
        _ => (None, image),
    };
    let (name, digest) = path.split_once('@').map_or((path, None), |(name, digest)| (name, Some(digest)));
    let (name, tag) = name.split_once(':').map_or((name, ""), |(name, tag)| (name, tag));
    let is_of = |text: &str, others: &[u8]| {
        text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || others.contains(&byte))
    };
    let is_tag = tag.len() <= 128 && is_of(&tag.to_ascii_lowercase(), b"._-");
    let is_digest = digest.is_none_or(|digest| {
        let hex = digest.strip_prefix("sha256:").unwrap_or_default();
        hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    let is_registry = registry.is_none_or(|registry| is_of(registry, b".-:"));
    (is_registry && is_of(name, b"._-/") && is_tag && is_digest).then_some((registry, path))
}

/// Writes the replacement for a hidden part, and keeps the whitespace after it.
fn hide(hidden: Option<&str>, shown: &mut String, number: &mut impl FnMut(&str) -> String) {
    let Some(hidden) = hidden else { return };
    let text = hidden.trim_end();
    let blanks = &hidden[text.len()..];
    let text = text.strip_suffix([':', ',', ';', '.']).unwrap_or(text);
    if !text.is_empty() {
        shown.push_str(&number(text));
    }
    shown.push_str(&hidden[text.len()..hidden.len() - blanks.len()]);
    shown.push_str(blanks);
}

/// Returns where the parts of a text end: after punctuation followed by whitespace, and after a line.
fn ends_of_parts(text: &str) -> impl Iterator<Item = usize> {
    let bytes = text.as_bytes();
    let is_end = move |at: &usize| {
        let next = bytes.get(at + 1);
        let is_after_punctuation = *at > 0 && b":,;.".contains(&bytes[at - 1]);
        bytes[*at] == b'\n' || bytes[*at] == b' ' && is_after_punctuation && next != Some(&b' ')
    };
    (0..text.len()).filter(is_end).map(|at| at + 1).filter(move |end| *end < text.len()).chain([text.len()])
}

fn is_of_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') || !c.is_ascii()
}

/// Returns whether a text is in the format of an object name.
fn is_object_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    !text.is_empty() && text.len() <= 253 && text.bytes().all(is_allowed)
}

/// Returns whether a text is a number, an amount, a duration or a version, of a size that occurs in messages.
fn is_number(text: &str) -> bool {
    const UNITS: [&str; 26] = [
        "", "%", "m", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi", "KiB", "MiB", "GiB", "kB", "MB", "GB",
        "B", "s", "ms", "h", "d", "us", "ns",
    ];
    // Durations have several units: `1h30m`.
    const OF_TIME: [&str; 8] = [".", "d", "h", "m", "s", "ms", "us", "ns"];
    let mut rest = text.strip_prefix('v').unwrap_or(text);
    if !rest.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let (mut is_version_so_far, mut is_duration_so_far) = (true, true);
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        let (unit, after) = after.split_at(after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len()));
        let is_version = matches!(unit, "." | "-");
        if number.len() > MAX_DIGITS + 5 * usize::from(!unit.is_empty() && !is_version)
            || !(is_version && !after.is_empty() || UNITS.contains(&unit))
        {
            return false;
        }
        is_duration_so_far &= OF_TIME.contains(&unit);
        is_version_so_far &= is_version;
        if !after.is_empty() && !is_duration_so_far && !is_version_so_far {
            return false;
        }
        rest = after;
    }
    true
}

/// Splits a word such as `ErrImagePull` at its capital letters.
fn camel_case_words(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let upper = rest.bytes().take_while(u8::is_ascii_uppercase).count();
        let lower = rest[upper..].bytes().position(|byte| byte.is_ascii_uppercase());
        let end = match (upper, lower) {
            // The last of several capitals starts the next word: `PIDPressure`.
            (2.., _) if upper < rest.len() => upper - 1,
            (_, lower) => lower.map_or(rest.len(), |lower| upper + lower),
        };
        let (hump, after) = rest.split_at(end);
        rest = after;
        (!hump.is_empty()).then_some(hump)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Known, image_parts};

    fn shown(text: &str) -> String {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let names =
            set(&["agent", "agent-x7v2p", "team", "node.kubernetes.io/not-ready", "gpu", "dedicated", "absent"]);
        let mut known = Known::new(&names, &set(&["a.corp:5000"]));
        let mut count = 0;
        known.shown(text, &mut |_| {
            count += 1;
            format!("REDACTED-{count}")
        })
    }

    #[test]
    fn what_components_write_stays() {
        for text in [
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {dedicated: gpu}.",
            "0/1 nodes are available: 1 Too many pods. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
            "Error creating: pods \"agent-x7v2p\" is forbidden: exceeded quota: few-pods, requested: pods=1, used: pods=2, limited: pods=2",
            "Error creating: admission webhook \"check.example.com\" denied the request",
            "back-off 5m0s restarting failed container=agent pod=agent-x7v2p_team",
            "Readiness probe failed: HTTP probe failed with statuscode: 503",
            "Node didn't have enough resource: memory, requested: 2147483648, used: 12147483648, capacity: 16147483648",
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 82828Ki.",
            "MountVolume.SetUp failed for volume \"config\" : configmap \"absent\" not found",
            "dial tcp 10.0.0.1:443: connect: connection refused",
            "REDACTED-7: not found",
            "kubelet is posting ready status",
            "2026-11-20T11:10:00Z",
            "",
        ] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn what_is_not_known_is_hidden_as_a_whole() {
        for (text, expected) in [
            ("panic: no route to mars", "panic: REDACTED-1"),
            // Parts that could be an amount, a size and a version do not form a number together.
            ("https://user:=0k0x7", "REDACTED-1"),
            ("took 3h2Gi7", "REDACTED-1"),
            ("password: hunter2", "REDACTED-1"),
            ("password: timeout", "REDACTED-1"),
            (
                "Readiness probe failed: user=ann pass=x: connection refused",
                "Readiness probe failed: REDACTED-1: connection refused",
            ),
            ("Get \"http://ann:pass@10.0.0.1/\": connection refused", "Get \"REDACTED-1\": connection refused"),
            ("exited with 48213377", "REDACTED-1"),
            ("key=!@#$%^&*", "REDACTED-1"),
            ("invalid secret hunter2", "REDACTED-1"),
            ("config is invalid:\nuser: shipper\nport: 5432\n", "config is invalid:\nuser: REDACTED-1\n"),
            (
                "Failed to pull image \"b.corp/x:1\": lookup b.corp: no such host",
                "Failed to pull image \"registry-2.redacted/x:1\": lookup registry-2.redacted: no such host",
            ),
            (
                "Head \"https://a.corp:5000/v2/agent/manifests/1\": lookup a.corp: no such host",
                "Head \"https://registry-1.redacted/v2/agent/manifests/1\": lookup registry-1.redacted: no such host",
            ),
        ] {
            assert_eq!(shown(text), expected, "{text}");
            assert_eq!(shown(expected), expected, "it stays the same if it is done twice");
        }
    }

    #[test]
    fn a_registry_is_the_part_before_the_slash_that_looks_like_a_host() {
        const HASH: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        for (image, parts) in [
            ("nginx:1.2", Some((None, "nginx:1.2"))),
            ("library/nginx", Some((None, "library/nginx"))),
            ("registry.example.com/app:V1", Some((Some("registry.example.com"), "app:V1"))),
            ("registry:5000/team/app", Some((Some("registry:5000"), "team/app"))),
            ("docker-pullable://registry:5000/app", Some((Some("registry:5000"), "app"))),
            ("localhost/app", Some((Some("localhost"), "app"))),
            ("https://ann:pass@host/app", None),
            ("App", None),
            ("app@sha256:abc", None),
        ] {
            assert_eq!(image_parts(image), parts, "{image}");
        }
        assert!(image_parts(&format!("a.corp/x@{HASH}")).is_some());
    }
}
