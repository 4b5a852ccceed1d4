//! Skips the logs that `kubectl cluster-info dump` writes between the lists of objects.

/// How a section begins.
const START: &[u8] = b"==== START logs for ";

/// The most bytes of the line that begins a section.
const MAX_HEADING: usize = 1 << 10;

/// A section of logs, from a line `==== START logs for container …` to the same with END, which follows the last line of
/// the log even if that does not end.
#[derive(Debug, Default)]
pub(super) struct LogSection {
    heading: Vec<u8>,
    /// How the section ends, once its heading is complete.
    end: Vec<u8>,
    /// The last bytes of the log, which its end may begin in.
    tail: Vec<u8>,
}

/// How far a section goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// To this position of the bytes.
    Ends(usize),
    /// Beyond the bytes.
    GoesOn,
    /// It is no section of logs.
    Foreign,
}

impl LogSection {
    /// Takes the next bytes of the section.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Extent {
        let mut at = 0;
        if self.end.is_empty() {
            let line = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1);
            self.heading.extend_from_slice(&bytes[..line]);
            if self.heading.len() > MAX_HEADING {
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
            return Extent::Ends(at + found + self.end.len() - before);
        }
        self.tail.drain(..self.tail.len().saturating_sub(self.end.len() - 1));
        Extent::GoesOn
    }

    /// Returns the line that begins the section, as far as it has arrived.
    pub(super) fn heading(&self) -> &[u8] {
        &self.heading
    }
}

/// Blanks the sections of a whole text, so that its lines keep their numbers; returns whether the last one has an end.
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
    use super::{Extent, LogSection};

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
    fn other_lines_of_equals_signs_are_no_logs() {
        assert_eq!(LogSection::default().push(b"======\n"), Extent::Foreign);
        assert_eq!(LogSection::default().push(&[b'='; 5_000]), Extent::Foreign);
    }
}
