//! Which words differ between two texts.

use std::time::Duration;

use similar::{Algorithm, ChangeTag, TextDiff};

/// A piece of a text, and whether the other text lacks it.
pub type Piece<'a> = (bool, &'a str);

/// The least part of two texts that must be the same for the rest to be worth pointing at.
const LEAST_ALIKE: f32 = 0.5;

/// How long is spent at most on texts that have next to nothing in common.
const PATIENCE: Duration = Duration::from_millis(200);

/// Divides two texts into pieces that both have and pieces that differ. Texts that are hardly alike stay whole.
pub fn compare<'a>(from: &'a str, to: &'a str) -> (Vec<Piece<'a>>, Vec<Piece<'a>>) {
    let (from_words, to_words) = (words(from), words(to));
    let difference =
        TextDiff::configure().algorithm(Algorithm::Patience).timeout(PATIENCE).diff_slices(&from_words, &to_words);
    let same: usize = difference
        .iter_all_changes()
        .filter(|change| change.tag() == ChangeTag::Equal && !change.value().trim().is_empty())
        .map(|change| change.value().len())
        .sum();
    let most = from.len().max(to.len());
    if most == 0 || (same as f32) < LEAST_ALIKE * most as f32 {
        return (vec![(false, from)], vec![(false, to)]);
    }
    let side = |left_out: ChangeTag, text: &'a str| {
        let mut pieces: Vec<Piece<'a>> = Vec::new();
        let (mut start, mut end, mut is_different) = (0, 0, false);
        for change in difference.iter_all_changes().filter(|change| change.tag() != left_out) {
            let differs = change.tag() != ChangeTag::Equal;
            if differs != is_different && end > start {
                pieces.push((is_different, &text[start..end]));
                start = end;
            }
            is_different = differs;
            end += change.value().len();
        }
        pieces.push((is_different, &text[start..end]));
        pieces
    };
    (side(ChangeTag::Insert, from), side(ChangeTag::Delete, to))
}

/// Divides text into words; each character that is no letter or digit is one by itself.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    for (at, c) in text.char_indices() {
        if !c.is_alphanumeric() {
            words.extend((start < at).then(|| &text[start..at]));
            start = at + c.len_utf8();
            words.push(&text[at..start]);
        }
    }
    words.extend((start < text.len()).then(|| &text[start..]));
    words
}
