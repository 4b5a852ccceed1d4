//! docs/dependencies.md states the purpose of every direct dependency.

use std::collections::BTreeSet;

use super::read;

/// Returns the names in the sections of Cargo.toml whose header is accepted.
fn named(is_wanted: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let manifest = include_str!("../../Cargo.toml");
    let mut section = "";
    let mut names = BTreeSet::new();
    for line in manifest.lines() {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
        } else if let Some((name, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#') && is_wanted(section))
        {
            names.insert(name.to_owned());
        }
    }
    // The package itself, with the features of its tests.
    names.remove("kubectl-ds");
    names
}

/// Returns the crates that the first column of the tables below a heading names.
fn documented(document: &str, heading: &str) -> BTreeSet<String> {
    let part = document.split_once(heading).unwrap_or_else(|| panic!("no {heading:?}")).1;
    let rows = part.lines().take_while(|line| !line.starts_with("## ")).filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.map(|row| row.split(" |").next().unwrap());
    cells.flat_map(|cell| cell.split(", ")).map(|name| name.trim_matches('`').to_owned()).collect()
}

#[test]
fn every_dependency_has_a_line() {
    let document = read("dependencies.md");
    let is_dev = |section: &str| section.ends_with("dev-dependencies");
    assert_eq!(
        documented(&document, "## What is linked\n"),
        named(|section| section.ends_with("dependencies") && !is_dev(section)),
    );
    let linked = named(|section| section == "dependencies");
    let only_tests: BTreeSet<String> = named(is_dev).difference(&linked).cloned().collect();
    // `rustix` is for both.
    let unix = named(|section| section.starts_with("target.") && !is_dev(section));
    let only_tests: BTreeSet<String> = only_tests.difference(&unix).cloned().collect();
    assert_eq!(documented(&document, "## What only the tests need\n"), only_tests);
}
