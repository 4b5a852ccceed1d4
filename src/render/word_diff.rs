//! The words that differ between two texts.

use std::time::Duration;

use similar::{Algorithm, ChangeTag, TextDiff};

/// A piece of a text, and whether it differs from the other text.
pub type Piece<'a> = (bool, &'a str);

/// The minimum share of common text for which differing words are highlighted.
const LEAST_ALIKE: f32 = 0.5;

/// The maximum number of bytes to compare.
const MOST_COMPARED: usize = 64 << 10;

/// The time limit for texts that have little in common.
const TIMEOUT: Duration = Duration::from_millis(200);

/// Splits two texts into common and differing pieces. Texts with little in common stay whole.
pub fn compare<'a>(from: &'a str, to: &'a str) -> (Vec<Piece<'a>>, Vec<Piece<'a>>) {
    let whole = (vec![(false, from)], vec![(false, to)]);
    if from.len() + to.len() > MOST_COMPARED {
        return whole;
    }
    let (from_words, to_words) = (words(from), words(to));
    let difference =
        TextDiff::configure().algorithm(Algorithm::Patience).timeout(TIMEOUT).diff_slices(&from_words, &to_words);
    let same: usize = difference
        .iter_all_changes()
        .filter(|change| change.tag() == ChangeTag::Equal)
        .map(|change| change.value().trim().len())
        .sum();
    // Spaces do not make texts similar.
    let weight = |words: &[&str]| words.iter().map(|word| word.trim().len()).sum::<usize>();
    let most = weight(&from_words).max(weight(&to_words));
    if most == 0 || (same as f32) < LEAST_ALIKE * most as f32 {
        return whole;
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

/// Splits text into words; every other character is a separate word.
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

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn the_words_that_differ_are_found() {
        let (from, to) = compare("registry/agent:1.4-debug", "registry/agent:1.5-debug");
        assert_eq!(from, [(false, "registry/agent:1."), (true, "4"), (false, "-debug")]);
        assert_eq!(to, [(false, "registry/agent:1."), (true, "5"), (false, "-debug")]);
        let (from, to) = compare("one  two four", "one  two three four");
        assert_eq!(from, [(false, "one  two four")]);
        assert_eq!(to, [(false, "one  two "), (true, "three "), (false, "four")]);
        let (from, _) = compare("größe日本 a", "größe日本 b");
        assert_eq!(from, [(false, "größe日本 "), (true, "a")]);
    }

    #[test]
    fn texts_that_are_hardly_alike_stay_whole() {
        for (from, to) in
            [("one two", "three four"), ("", "a"), ("a", ""), ("", ""), ("a b c d", "e f g h"), ("  a", "  b")]
        {
            assert_eq!(compare(from, to), (vec![(false, from)], vec![(false, to)]));
        }
        let (from, to) = ("a ".repeat(40_000), "a ".repeat(40_001));
        assert_eq!(compare(&from, &to).0, [(false, from.as_str())]);
    }
}
