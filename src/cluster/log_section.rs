//! Recognizes the logs that `kubectl cluster-info dump` writes between the lists of objects, or into separate files.

/// How a section begins.
const START: &[u8] = b"==== START logs for ";

/// The most bytes in the first line of a section.
const MAX_HEADING: usize = 1 << 10;

/// A section of logs, from a line `==== START logs for container …` to the corresponding END line, which follows the
/// log even if its last line has no line end.
#[derive(Debug, Default)]
pub(super) struct LogSection {
    heading: Vec<u8>,
    /// The END line of the section, once its heading is complete.
    end: Vec<u8>,
    /// The last bytes of the log, which may contain the beginning of the END line.
    tail: Vec<u8>,
}

/// The extent of a section.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Up to this position in the bytes.
    Ends(usize),
    /// Continues after the bytes.
    GoesOn,
    /// Not a section of logs.
    Foreign,
}

impl LogSection {
    /// Processes the next bytes of the section.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Extent {
        self.read(bytes, &mut |_, _| ())
    }

    /// Processes the next bytes of the section, and calls a function with its first line and bytes that certainly
    /// belong to the log; if the log is empty, with no bytes.
    fn read(&mut self, bytes: &[u8], log: &mut impl FnMut(&[u8], &[u8])) -> Extent {
        let mut at = 0;
        if self.end.is_empty() {
            let line = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1);
            self.heading.extend_from_slice(&bytes[..line]);
            let known = self.heading.len().min(START.len());
            if self.heading[..known] != START[..known] || self.heading.len() > MAX_HEADING {
                return Extent::Foreign;
            }
            if !self.heading.ends_with(b"\n") {
                return Extent::GoesOn;
            }
            let Some(rest) = self.heading.strip_prefix(START) else { return Extent::Foreign };
            self.end = [b"==== END logs for ", rest].concat();
            at = line;
        }
        let before = self.tail.len();
        self.tail.extend_from_slice(&bytes[at..]);
        if let Some(found) = memchr::memmem::find(&self.tail, &self.end) {
            log(&self.heading, &self.tail[..found]);
            return Extent::Ends(at + found + self.end.len() - before);
        }
        let certain = self.tail.len().saturating_sub(self.end.len() - 1);
        log(&self.heading, &self.tail[..certain]);
        self.tail.drain(..certain);
        Extent::GoesOn
    }

    /// Returns the line that begins the section, as far as it has arrived.
    pub(super) fn heading(&self) -> &[u8] {
        &self.heading
    }
}

/// Finds the sections in a text that also has other lines.
#[derive(Debug, Default)]
pub(super) struct LogSections {
    /// A section, or what may turn out to be one.
    open: Option<LogSection>,
    /// Whether the next bytes belong to a line that does not start a section.
    in_line: bool,
}

impl LogSections {
    /// Processes the next bytes of the text, and calls a function with the first line of a section and the next bytes
    /// of its log, at least once per section.
    pub(super) fn push(&mut self, mut bytes: &[u8], log: &mut impl FnMut(&[u8], &[u8])) {
        while !bytes.is_empty() {
            if self.in_line {
                let Some(end) = memchr::memchr(b'\n', bytes) else { return };
                (self.in_line, bytes) = (false, &bytes[end + 1..]);
                continue;
            }
            match self.open.get_or_insert_default().read(bytes, log) {
                Extent::GoesOn => return,
                Extent::Ends(length) => (self.open, bytes) = (None, &bytes[length..]),
                Extent::Foreign => (self.open, self.in_line) = (None, true),
            }
        }
    }

    /// Ends the text, possibly inside a section: calls the function with the rest of its log.
    pub(super) fn finish(self, log: &mut impl FnMut(&[u8], &[u8])) {
        if let Some(LogSection { heading, tail, .. }) = self.open.filter(|section| !section.end.is_empty()) {
            log(&heading, &tail);
        }
    }
}

/// Blanks the sections in a whole text, preserving line numbers; returns whether the last one is complete.
pub(super) fn blank(text: &mut [u8]) -> bool {
    let mut at = 0;
    while let Some(found) = memchr::memmem::find(&text[at..], START) {
        let start = at + found;
        let is_line = start == 0 || text[start - 1] == b'\n';
        let end = match if is_line { LogSection::default().push(&text[start..]) } else { Extent::Foreign } {
            Extent::Ends(length) => start + length,
            Extent::GoesOn => return false,
            Extent::Foreign => {
                at = start + START.len();
                continue;
            }
        };
        text[start..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at = end;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{Extent, LogSection, LogSections};

    #[test]
    fn a_section_ends_at_its_own_end_however_it_is_divided() {
        let text = "==== START logs for container a of pod x/y ====\n{ log\n==== END logs for container b of pod x/y ====\n\
            no newline==== END logs for container a of pod x/y ====\n";
        let whole = format!("{text}{{}}");
        for chunk in 1..whole.len() {
            let (mut section, mut taken) = (LogSection::default(), 0);
            for bytes in whole.as_bytes().chunks(chunk) {
                match section.push(bytes) {
                    Extent::Ends(at) => {
                        taken += at;
                        break;
                    }
                    extent => assert_eq!(extent, Extent::GoesOn),
                }
                taken += bytes.len();
            }
            assert_eq!(taken, text.len(), "{chunk}");
        }
    }

    #[test]
    fn logs_are_found_between_other_lines_however_the_text_is_divided() {
        let section = |pod: &str, log: &str| {
            let of = format!("logs for container a of pod x/{pod} ====\n");
            format!("==== START {of}{log}==== END {of}")
        };
        let long = "7".repeat(300);
        let text =
            ["{}\n====\n\n", &section("y", "one\n"), &section("z", ""), "{ }\n ==== START\n", &section("w", &long)];
        let cut = format!("==== START logs for container a of pod x/v ====\ncut{}", "8".repeat(80));
        let text = text.concat() + &cut;
        for chunk in 1..text.len() {
            let (mut sections, mut found) = (LogSections::default(), Vec::<(String, String)>::new());
            let mut log = |heading: &[u8], bytes: &[u8]| {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                match found.last_mut().filter(|(last, _)| last.as_bytes() == heading) {
                    Some((_, log)) => log.push_str(&text(bytes)),
                    None => found.push((text(heading), text(bytes))),
                }
            };
            text.as_bytes().chunks(chunk).for_each(|bytes| sections.push(bytes, &mut log));
            sections.finish(&mut log);
            let found: Vec<(&str, &str)> =
                found.iter().map(|(heading, log)| (&heading[41..42], log.as_str())).collect();
            let cut = format!("cut{}", "8".repeat(80));
            assert_eq!(found, [("y", "one\n"), ("z", ""), ("w", &long), ("v", &cut)], "{chunk}");
        }
    }

    #[test]
    fn other_lines_of_equals_signs_are_no_logs() {
        assert_eq!(LogSection::default().push(b"======\n"), Extent::Foreign);
        assert_eq!(LogSection::default().push(&[b'='; 5_000]), Extent::Foreign);
    }
}
