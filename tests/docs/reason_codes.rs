//! docs/reason-codes.md: every code, what it means, and what to do. Only its introduction is written by hand.

use std::fmt::Write;

use kubectl_ds::report::reason::ReasonCode;

use super::{must_be, read};

#[test]
fn every_code_is_documented_once_with_its_meaning_and_what_to_do() {
    let document = read("reason-codes.md");
    let mut text = document.split("\n## ").next().unwrap().trim_end().to_owned() + "\n";
    for code in ReasonCode::ALL {
        let (meaning, to_do) = code.about();
        assert!(!to_do.trim().is_empty(), "{code}: nothing to do?");
        // A heading is the anchor of a code; below it are two paragraphs.
        let _ = write!(text, "\n## {code}\n\n{}\n\n{}\n", meaning.trim(), to_do.trim());
    }
    must_be("reason-codes.md", &text);
}
