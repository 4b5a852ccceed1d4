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
    let rows: Vec<Vec<&str>> = document
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    let codes: Vec<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
    assert_eq!(codes, ReasonCode::ALL.iter().map(|code| code.name()).collect::<Vec<_>>());
    for row in &rows {
        let code = row[0].trim_matches('`');
        assert_eq!(row.len(), 3, "{code}");
        assert_eq!(row[1].replace('`', ""), meanings[code].replace('`', ""), "{code}");
        assert!(!row[2].is_empty(), "{code}: nothing to do?");
    }
}
