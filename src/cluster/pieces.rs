//! The pieces into which a text of Kubernetes objects is split: items of lists, and the text around them.

use super::text::TextError;

/// The most bytes of an item. etcd accepts 1.5 MB by default.
pub(super) const MAX_ITEM: usize = 16 << 20;

/// The most bytes of a document without its items.
pub(super) const MAX_AROUND: usize = 64 << 20;

/// A piece of a document.
#[derive(Debug, Clone, Copy)]
pub(super) enum Piece<'a> {
    /// The text before the first item of a list.
    Begin(&'a [u8]),
    /// An item of a list.
    Item(&'a [u8]),
    /// The whole document, with an empty list instead of its items.
    End(&'a [u8]),
    /// A piece that is longer than any object of Kubernetes; nothing follows it.
    TooLong,
}

/// Where a piece begins. Lines are only counted for errors, because that takes time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position<'a> {
    lines: usize,
    before: &'a [u8],
}

impl<'a> Position<'a> {
    /// A position on a line, counted from 1.
    pub(super) fn on(line: usize) -> Self {
        Position { lines: line - 1, before: &[] }
    }

    /// A position after some lines and some bytes.
    pub(super) fn after(lines: usize, before: &'a [u8]) -> Self {
        Position { lines, before }
    }

    /// Returns the line, counted from 1.
    pub(super) fn line(self) -> usize {
        self.lines + newlines(self.before) + 1
    }
}

/// Counts the line ends in a text.
pub(super) fn newlines(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

/// A callback that receives each piece with its position.
pub(super) type OnPiece<'h> = dyn FnMut(Piece<'_>, Position<'_>) -> Result<(), TextError> + 'h;
