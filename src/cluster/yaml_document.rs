//! Cuts YAML documents into items while their text arrives, so that a list is never in memory as a whole.
//!
//! Only lists in block style whose items stand beneath a line `items:` are cut, as all writers of Kubernetes objects
//! write them. Other documents, and those with anchors, which an alias in another item may refer to, stay whole.

use super::pieces::{MAX_AROUND, MAX_ITEM, Piece, Place, TooLong};

/// Cuts the documents of a text.
#[derive(Debug, Default)]
pub(super) struct YamlCutter {
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    /// The text of the document, with an empty list in place of the items.
    around: Vec<u8>,
    /// The item that has begun.
    item: Vec<u8>,
    state: State,
    /// Whether the document is more than comments and directives.
    has_content: bool,
    /// Whether there is a directive before the document, which belongs to it.
    has_directive: bool,
    /// How many lines have been taken.
    lines: usize,
    /// How many lines come before the document, and before the item.
    lines_before_document: usize,
    lines_before_item: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// Outside the items.
    #[default]
    Around,
    /// After the line `items:`.
    AtItems,
    /// In the items, whose dashes are indented so far.
    InItems(usize),
    /// Outside the items of a document that stays whole.
    Whole,
}

impl YamlCutter {
    /// Takes the next bytes, and hands over every piece that they complete.
    ///
    /// # Errors
    ///
    /// Fails if a piece is too long, or `hand` fails.
    pub(super) fn push<E: From<TooLong>>(
        &mut self,
        mut bytes: &[u8],
        hand: &mut impl FnMut(Piece<'_>, Place<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end + 1);
            if self.line.is_empty() {
                self.take_line(line, hand)?;
            } else {
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                self.take_line(&whole, hand)?;
            }
            bytes = rest;
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() > MAX_ITEM { Err(TooLong { line: self.lines + 1 }.into()) } else { Ok(()) }
    }

    /// Ends the text, and hands over what is left of it.
    ///
    /// # Errors
    ///
    /// Fails if `hand` fails.
    pub(super) fn finish<E: From<TooLong>>(
        mut self,
        hand: &mut impl FnMut(Piece<'_>, Place<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, hand)?;
        }
        self.end_document(hand)
    }

    fn take_line<E: From<TooLong>>(
        &mut self,
        line: &[u8],
        hand: &mut impl FnMut(Piece<'_>, Place<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        // YAML forbids `---` at the beginning of a line anywhere but between documents, even in block text.
        let after_marker = line.strip_prefix(b"---").filter(|rest| rest.first().is_none_or(u8::is_ascii_whitespace));
        // A directive belongs to the document after the marker.
        if after_marker.is_some() && !self.has_directive {
            self.end_document(hand)?;
            self.lines_before_document = self.lines;
        }
        let content = after_marker.unwrap_or(line).trim_ascii();
        self.has_directive =
            !self.has_content && (content.starts_with(b"%") || (self.has_directive && after_marker.is_none()));
        self.has_content |=
            !(content.is_empty() || content == b"..." || content.starts_with(b"#") || content.starts_with(b"%"));
        self.place_line(line, content, hand)?;
        self.lines += 1;
        if self.item.len() > MAX_ITEM || self.around.len() > MAX_AROUND {
            return Err(TooLong { line: self.lines_before_item.max(self.lines_before_document) + 1 }.into());
        }
        Ok(())
    }

    /// Adds a line to the item or to what is around the items.
    fn place_line<E: From<TooLong>>(
        &mut self,
        line: &[u8],
        content: &[u8],
        hand: &mut impl FnMut(Piece<'_>, Place<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let indent = line.iter().take_while(|byte| **byte == b' ').count();
        let is_item = content.first() == Some(&b'-') && content.get(1).is_none_or(u8::is_ascii_whitespace);
        match self.state {
            State::AtItems if content.is_empty() || content.starts_with(b"#") => return Ok(()),
            State::AtItems if is_item => {
                hand(Piece::Begin(&self.around), Place::on(self.lines_before_document + 1))?;
                self.begin_item(line, indent);
                return Ok(());
            }
            // No items, or something else.
            State::AtItems => {
                self.around.extend_from_slice(b"items:\n");
                self.state = State::Around;
            }
            // An empty line may be part of a text.
            State::InItems(dash) if content.is_empty() || indent > dash => {
                self.item.extend_from_slice(line);
                return Ok(());
            }
            State::InItems(_) if content.starts_with(b"#") => return Ok(()),
            State::InItems(dash) => {
                self.end_item(hand)?;
                if self.state == State::InItems(dash) && indent == dash && is_item {
                    self.begin_item(line, indent);
                    return Ok(());
                }
                if self.state == State::InItems(dash) {
                    self.around.extend_from_slice(b"items: []\n");
                    self.state = State::Around;
                }
            }
            State::Around | State::Whole => {}
        }
        let rest = line.strip_prefix(b"items:").map(<[u8]>::trim_ascii);
        if self.state == State::Around && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"#")) {
            self.state = if has_anchor(&self.around) { State::Whole } else { State::AtItems };
        }
        if self.state != State::AtItems {
            self.around.extend_from_slice(line);
        }
        Ok(())
    }

    fn begin_item(&mut self, line: &[u8], indent: usize) {
        self.state = State::InItems(indent);
        self.lines_before_item = self.lines;
        self.item.extend_from_slice(line);
    }

    /// Hands over the item, unless an alias elsewhere may refer to it.
    fn end_item<E: From<TooLong>>(
        &mut self,
        hand: &mut impl FnMut(Piece<'_>, Place<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if has_anchor(&self.item) {
            self.around.extend_from_slice(b"items:\n");
            self.around.append(&mut self.item);
            self.state = State::Whole;
            return Ok(());
        }
        hand(Piece::Item(&self.item), Place::on(self.lines_before_item + 1))?;
        self.item.clear();
        Ok(())
    }

    fn end_document<E: From<TooLong>>(
        &mut self,
        hand: &mut impl FnMut(Piece<'_>, Place<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.state {
            State::InItems(_) => {
                self.end_item(hand)?;
                if self.state != State::Whole {
                    self.around.extend_from_slice(b"items: []\n");
                }
            }
            State::AtItems => self.around.extend_from_slice(b"items:\n"),
            State::Around | State::Whole => {}
        }
        if self.has_content {
            hand(Piece::End(&self.around), Place::on(self.lines_before_document + 1))?;
        }
        self.around.clear();
        (self.state, self.has_content) = (State::Around, false);
        Ok(())
    }
}

/// Returns whether a text may have an anchor. An ampersand in a shell script may look like one.
fn has_anchor(text: &[u8]) -> bool {
    memchr::memchr_iter(b'&', text).any(|at| {
        let before = at.checked_sub(1).map_or(b' ', |before| text[before]);
        let is_start = before.is_ascii_whitespace() || matches!(before, b'[' | b'{' | b',');
        is_start && text.get(at + 1).is_some_and(u8::is_ascii_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::YamlCutter;
    use crate::cluster::pieces::{Piece, Place, TooLong};

    #[derive(Debug)]
    struct Never;

    impl From<TooLong> for Never {
        fn from(_: TooLong) -> Self {
            Never
        }
    }

    /// Returns the pieces: items with a `+`, documents with a `=`, each with its line.
    fn cut(text: &str, chunk: usize) -> Vec<String> {
        let mut pieces = Vec::new();
        let hand = &mut |piece: Piece<'_>, place: Place<'_>| {
            let (sign, text) = match piece {
                Piece::Begin(_) => return Ok::<_, Never>(()),
                Piece::Item(text) => ('+', text),
                Piece::End(text) => ('=', text),
            };
            pieces.push(format!("{sign}{} {}", place.line(), String::from_utf8_lossy(text)));
            Ok(())
        };
        let mut cutter = YamlCutter::default();
        for chunk in text.as_bytes().chunks(chunk) {
            cutter.push(chunk, hand).unwrap();
        }
        cutter.finish(hand).unwrap();
        pieces
    }

    #[test]
    fn items_in_block_style_are_cut_out() {
        let text = "apiVersion: v1\nitems:\n- a: 1\n  items:\n  - b\n\n- c: |\n    - d\n\n   # e\nkind: List\n";
        for chunk in [1, 3, 100] {
            assert_eq!(
                cut(text, chunk),
                [
                    "+3 - a: 1\n  items:\n  - b\n\n",
                    "+7 - c: |\n    - d\n\n   # e\n",
                    "=1 apiVersion: v1\nitems: []\nkind: List\n",
                ]
            );
        }
        let indented = "items: # all\n# first\n  - a: 1\n    b: 2\n# second\n  -\n    c: 3\n";
        assert_eq!(cut(indented, 100), ["+3   - a: 1\n    b: 2\n", "+6   -\n    c: 3\n", "=1 items: []\n"]);
    }

    #[test]
    fn other_documents_stay_whole() {
        for text in [
            "items: [1, 2]\n",
            "items:\n  a: 1\n",
            "items:\nkind: List\n",
            "{items: [1]}\n",
            "a: &a 1\nitems:\n- *a\n",
            "items:\n- a: &a 1\n- *a\nkind: x\n",
        ] {
            assert_eq!(cut(text, 100), [format!("=1 {text}")]);
        }
        assert_eq!(
            cut("items:\n- a: 1\n- b: &b 2\n- c: *b\n", 100),
            ["+2 - a: 1\n", "=1 items:\n- b: &b 2\n- c: *b\n"],
            "what came before an anchor is not part of the rest"
        );
    }

    #[test]
    fn documents_are_divided_by_lines_of_three_dashes() {
        let text =
            "# head\n%YAML 1.2\n---\na: 1\n--- # second\nb: |\n  ---\n  x\n---\n# empty\n---\n---\nc: ---x\n...\n---\n";
        let lines: Vec<String> = cut(text, 7).iter().map(|piece| piece[..3].trim().to_owned()).collect();
        assert_eq!(lines, ["=1", "=5", "=12"]);
        assert_eq!(
            cut("a: 1\n---\nitems:\n- b\n---\nc: 2", 3),
            ["=1 a: 1\n", "+4 - b\n", "=2 ---\nitems: []\n", "=5 ---\nc: 2"]
        );
        assert_eq!(cut("---\n# nothing\n", 100), [""; 0]);
    }
}
