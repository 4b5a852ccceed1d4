//! A unified diff, applied as `patch` does, turns one text into the other.

use anstream::adapter::strip_str;
use kubectl_ds::render::unified::{self, Labeled};
use kubectl_ds::render::view::View;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::hard_values::hard_value;
use crate::support::sampling::cases;

/// Returns where a side of a hunk begins, how many lines come before it, and how many lines it has.
fn range(text: &str) -> (usize, usize) {
    let (start, length) = text[1..].split_once(',').unwrap_or((&text[1..], "1"));
    let (start, length): (usize, usize) = (start.parse().unwrap(), length.parse().unwrap());
    // A range of no lines is named by the line before it.
    (if length == 0 { start } else { start - 1 }, length)
}

/// Applies a diff to a text, and refuses whatever `patch` would have to guess.
fn apply(diff: &str, from: &str) -> String {
    let from: Vec<&str> = from.split_inclusive('\n').collect();
    let mut lines = diff.split_inclusive('\n').peekable();
    assert!(lines.next().unwrap().starts_with("--- ") && lines.next().unwrap().starts_with("+++ "), "{diff}");
    let (mut position, mut text) = (0, String::new());
    while let Some(header) = lines.next() {
        let words: Vec<&str> = header.trim_end().split(' ').collect();
        let ["@@", old, new, "@@"] = words[..] else { panic!("no header: {header:?} in {diff}") };
        let ((start, old_length), (new_start, new_length)) = (range(old), range(new));
        text.extend(from[position..start].iter().copied());
        position = start;
        assert_eq!(text.split_inclusive('\n').count(), new_start, "{header}");
        let (mut old_seen, mut new_seen) = (0, 0);
        while old_seen < old_length || new_seen < new_length {
            let line = lines.next().unwrap();
            let (mark, rest) = line.split_at(1);
            assert!(rest.ends_with('\n'));
            if mark != "+" {
                assert_eq!(from[position], rest, "{diff}");
                position += 1;
                old_seen += 1;
            }
            if mark != "-" {
                text.push_str(rest);
                new_seen += 1;
            }
            assert!(matches!(mark, " " | "-" | "+"), "{line:?}");
        }
        assert_eq!((old_seen, new_seen), (old_length, new_length), "{diff}");
    }
    text.extend(from[position..].iter().copied());
    text
}

/// Returns the diff without its styles, which must be all that steers a terminal in it.
fn diff(from: &Labeled, to: &Labeled, context: usize, ascii: bool) -> Option<String> {
    let text = unified::diff(from, to, context, &View::new(Some(80), ascii))?;
    let text = strip_str(&text).to_string();
    assert!(!text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')), "{text:?}");
    Some(text)
}

fn assert_applies(from: &Value, to: &Value, context: usize) {
    let (old, new) = (Labeled::new("old", from.clone()), Labeled::new("new", to.clone()));
    for ascii in [false, true] {
        match diff(&old, &new, context, ascii) {
            Some(diff) => assert_eq!(apply(&diff, &old.yaml(ascii)), new.yaml(ascii), "{diff}"),
            None => assert_eq!(from, to),
        }
    }
}

#[test]
fn changes_at_either_end_and_of_everything_apply() {
    let script = |lines: &[&str]| json!({ "args": lines, "z": "last" });
    let (few, more) =
        (script(&["a", "b", "c", "d", "e", "f", "g", "h"]), script(&["a", "c", "x", "d", "e", "f", "g", "h", "i"]));
    for context in [0, 1, 2, 3, 100] {
        assert_applies(&few, &more, context);
        assert_applies(&more, &few, context);
        assert_applies(&few, &json!({}), context);
        assert_applies(&json!("a"), &json!("a\nb\n"), context);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(1_000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_difference_applies(from in hard_value(), to in hard_value(), both in hard_value(), context in 0_usize..5) {
        assert_applies(&json!({ "a": both, "b": from, "c": both }), &json!({ "a": both, "b": to, "c": both }), context);
    }
}
