//! Holds the sources to the import table of ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};

/// Parts of the standard library that reach outside the process, or start something.
const OUTSIDE: [&str; 6] = ["env", "fs", "io", "net", "process", "thread"];

/// Returns what each module of the crate may use: other modules, crates, and parts of `std` such as `std::fs`; and what
/// all of them may use.
fn table() -> (BTreeMap<String, BTreeSet<String>>, BTreeSet<String>) {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, section) = text.split_once("## Who may use whom\n").unwrap();
    let rows = section.lines().take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with("| "));
    let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
    let (mut modules, mut all) = (BTreeMap::new(), BTreeSet::new());
    for row in rows.skip(1) {
        let cells: Vec<&str> = row.split('|').collect();
        match names(cells[1]).pop_first() {
            Some(module) => drop(modules.insert(module, names(cells[3]))),
            None => all = names(cells[3]),
        }
    }
    (modules, all)
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the crates that the manifest declares, as Rust spells their names.
fn crates() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, section) = text.split_once("\n[dependencies]\n").unwrap();
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    lines.filter_map(|line| Some(line.split_once(" = ")?.0.replace('-', "_"))).collect()
}

#[test]
fn every_module_keeps_to_the_import_table() {
    let ((table, all), crates) = (table(), crates());
    let mut files: BTreeMap<String, Vec<(PathBuf, usize)>> = BTreeMap::new();
    for (file, depth) in rust_files(&root().join("src"), 0) {
        let below = file.strip_prefix(root().join("src")).unwrap().with_extension("");
        let module = below.iter().next().unwrap().to_str().unwrap().to_owned();
        files.entry(module).or_default().push((file, depth));
    }
    files.retain(|module, _| module != "lib" && module != "main");
    assert_eq!(
        table.keys().collect::<Vec<_>>(),
        files.keys().collect::<Vec<_>>(),
        "the table of ARCHITECTURE.md does not list the modules of src"
    );
    let mut breaches = Vec::new();
    for (module, files) in &files {
        let mut unused = table[module].clone();
        for (file, depth) in files {
            let tokens = TokenStream::from_str(&fs::read_to_string(file).unwrap()).unwrap();
            for name in uses(tokens, *depth, &crates) {
                unused.remove(&name);
                if name != *module && !table[module].contains(&name) && !all.contains(&name) {
                    breaches.push(format!("{}: {module} may not use {name}", file.display()));
                }
            }
        }
        breaches.extend(unused.iter().map(|name| format!("ARCHITECTURE.md: {module} does not use {name}")));
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

/// Returns the Rust files below a directory, with the number of modules between each one's items and the crate.
fn rust_files(directory: &Path, depth: usize) -> Vec<(PathBuf, usize)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path, depth + 1));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_directory_module = path.ends_with("mod.rs");
            files.push((path, if is_directory_module { depth } else { depth + 1 }));
        }
    }
    files
}

/// Returns the rooms, crates and parts of `std` that code names, in macros too.
///
/// A path starts a name unless it goes on from another one; `depth` tells how many `super` lead out of the room.
fn uses(code: TokenStream, depth: usize, crates: &BTreeSet<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    walk(&code.into_iter().collect::<Vec<_>>(), depth, crates, &mut found);
    found
}

fn walk(tokens: &[TokenTree], depth: usize, crates: &BTreeSet<String>, found: &mut BTreeSet<String>) {
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                // `mod tests { … }` is one module further down.
                let is_module = at >= 2 && is_ident(&tokens[at - 2], "mod");
                walk(&inner, depth + usize::from(is_module), crates, found);
            }
            TokenTree::Ident(ident) if !continues(tokens, at) && is_separator(tokens, at + 1) => {
                let name = ident.to_string();
                let mut rest = at + 3;
                let mut left = depth;
                if name == "super" {
                    left -= 1;
                    while tokens.get(rest).is_some_and(|token| is_ident(token, "super")) {
                        left -= 1;
                        rest += 3;
                    }
                }
                if name == "crate" || name == "super" && left == 0 {
                    found.extend(first_names(&tokens[rest..]));
                } else if name == "std" {
                    let parts = first_names(&tokens[rest..]);
                    let outside = parts.into_iter().filter(|part| OUTSIDE.contains(&part.as_str()));
                    found.extend(outside.map(|part| format!("std::{part}")));
                } else if crates.contains(&name) {
                    found.insert(name);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

fn is_ident(token: &TokenTree, name: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == name)
}

/// Tells whether a name goes on from another, as `Client` does in `kube::Client` and `kube` in `::kube` does not.
fn continues(tokens: &[TokenTree], at: usize) -> bool {
    let before = at.checked_sub(3).and_then(|before| tokens.get(before));
    is_separator(tokens, at.wrapping_sub(2))
        && before.is_some_and(|token| match token {
            TokenTree::Punct(punct) => punct.as_char() == '>',
            token => !is_ident(token, "use"),
        })
}

/// Tells whether `::` stands at this place.
fn is_separator(tokens: &[TokenTree], at: usize) -> bool {
    let is_colon = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    at.checked_add(1).is_some_and(|next| is_colon(at) && is_colon(next))
}

/// Returns what follows `crate::`: one name, or the first name of each path in braces.
fn first_names(tokens: &[TokenTree]) -> Vec<String> {
    match tokens.first() {
        Some(TokenTree::Ident(name)) => vec![name.to_string()],
        Some(TokenTree::Group(group)) => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
            inner.split(is_comma).flat_map(first_names).collect()
        }
        // `use crate::*`
        _ => vec!["*".to_owned()],
    }
}

#[test]
fn every_way_to_name_a_room_is_seen() {
    let crates = BTreeSet::from(["kube".to_owned()]);
    for (code, expected) in [
        ("use crate::report::age;", vec!["report"]),
        ("use crate::{io, report::{age, list}};", vec!["io", "report"]),
        ("use {crate::model::pod, kube::Client};", vec!["kube", "model"]),
        ("pub use crate::*;", vec!["*"]),
        ("use super::pod; use super::super::report::age;", vec!["report"]),
        ("mod tests { use super::super::node; use super::super::super::render::view; }", vec!["render"]),
        ("fn f() { let x = crate::io::Io::new(vec![crate::error::Exit::No]); }", vec!["error", "io"]),
        ("fn f() -> Result<kube::Client, io::Error> {}", vec!["kube"]),
        ("use ::kube::Client; fn f() { my::kube::new() }", vec!["kube"]),
        ("fn f() { my::kube::new(); <T>::kube::new() }", vec![]),
        ("use std::{fmt, fs::File}; fn f() { std::env::var(\"A\"); }", vec!["std::env", "std::fs"]),
        (
            "// crate::report\n/// [`crate::render`]\nfn f() { \"crate::plan\"; self::model::x(); reporter::y() }",
            vec![],
        ),
    ] {
        let found = uses(TokenStream::from_str(code).unwrap(), 2, &crates);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected, "{code}");
    }
}
