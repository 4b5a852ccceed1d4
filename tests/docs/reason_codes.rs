//! docs/reason-codes.md: every code, what it means, and what to do.

use std::collections::BTreeMap;

use kubectl_ds::report::reason::ReasonCode;
use schemars::schema_for;

use super::read;

#[test]
fn every_code_is_documented_once_with_its_meaning_and_what_to_do() {
    let schema = schema_for!(ReasonCode).to_value();
    let meanings: BTreeMap<&str, &str> = schema["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .map(|code| (code["const"].as_str().unwrap(), code["description"].as_str().unwrap()))
        .collect();
    let document = read("reason-codes.md");
    // A heading is the anchor of a code; below it are two paragraphs.
    let sections: Vec<Vec<&str>> =
        document.split("\n## ").skip(1).map(|section| section.trim().split("\n\n").collect()).collect();
    let codes: Vec<&str> = sections.iter().map(|section| section[0]).collect();
    assert_eq!(codes, ReasonCode::ALL.iter().map(|code| code.name()).collect::<Vec<_>>());
    for section in &sections {
        let [code, meaning, to_do] = section[..] else { panic!("{section:?}") };
        assert_eq!(meaning.replace('`', ""), meanings[code].replace('`', ""), "{code}");
        assert!(!to_do.is_empty(), "{code}: nothing to do?");
    }
}
