//! Checks the sources against the import table of ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use kubectl_ds::report::reason::ReasonCode;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Parts of the standard library that reach outside the process, or start something.
const OUTSIDE: [&str; 6] = ["env", "fs", "io", "net", "process", "thread"];

/// Returns what each module of the crate may use: other modules, crates, and parts of `std` such as `std::fs`; and what
/// all of them may use.
fn table() -> (BTreeMap<String, BTreeSet<String>>, BTreeSet<String>) {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, section) = text.split_once("## Module dependencies\n").unwrap();
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
    let mut files: BTreeMap<String, Vec<Source>> = BTreeMap::new();
    // The judgement of whole dumps is a test that reads them.
    for source in sources().into_iter().filter(|source| !source.file.ends_with("judgement_test.rs")) {
        files.entry(source.module[0].clone()).or_default().push(source);
    }
    assert_eq!(
        table.keys().collect::<Vec<_>>(),
        files.keys().collect::<Vec<_>>(),
        "the table of ARCHITECTURE.md does not list the modules of src"
    );
    let mut breaches = Vec::new();
    for (module, files) in &files {
        let mut unused = table[module].clone();
        for source in files {
            for name in uses(&source.tokens, &source.module, &crates) {
                unused.remove(&name);
                if !table[module].contains(&name) && !all.contains(&name) {
                    breaches.push(format!("{}: {module} may not use {name}", source.file.display()));
                }
            }
        }
        breaches.extend(unused.iter().map(|name| format!("ARCHITECTURE.md: {module} does not use {name}")));
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn no_circle_leads_through_a_folder() {
    let circles = circles(sources());
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

/// Whoever adds a reason code writes the row of the table and one rule. A second list of codes would have to be found, too.
#[test]
fn no_file_but_the_table_lists_the_reason_codes() {
    for Source { file, .. } in sources() {
        let text = fs::read_to_string(&file).unwrap();
        let words: BTreeSet<&str> = text.split(|symbol: char| !symbol.is_alphanumeric()).collect();
        let named = ReasonCode::ALL.iter().filter(|code| words.contains(code.name())).count();
        let is_table = file.ends_with("report/reason.rs");
        assert_eq!(named > ReasonCode::ALL.len() / 2, is_table, "{} names {named} codes", file.display());
    }
}

/// A file of the crate, with the path of its module and its code.
struct Source {
    file: PathBuf,
    module: Vec<String>,
    tokens: Vec<TokenTree>,
}

/// Returns the files of the crate's modules.
fn sources() -> Vec<Source> {
    let src = root().join("src");
    let mut sources = Vec::new();
    for file in rust_files(&src) {
        let below = file.strip_prefix(&src).unwrap().with_extension("");
        let mut module: Vec<String> = below.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
        module.pop_if(|name| name == "mod");
        if !["lib", "main"].contains(&module[0].as_str()) {
            let code = TokenStream::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
            sources.push(Source { file, module, tokens: code.into_iter().collect() });
        }
    }
    sources
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// Returns what names another module of the same folder, if that uses the first one in turn and one of both is a folder.
/// Tests do not count: they may use whatever makes a situation.
fn circles(mut sources: Vec<Source>) -> Vec<String> {
    let mut tests = Vec::new();
    for Source { module, tokens, .. } in &mut sources {
        let names = without_tests(tokens).into_iter();
        tests.extend(names.map(|name| [module.as_slice(), &[name]].concat()));
    }
    sources.retain(|source| !tests.iter().any(|test| source.module.starts_with(test)));
    let modules: BTreeSet<&[String]> = sources.iter().map(|source| source.module.as_slice()).collect();
    let is_folder =
        |module: &[String]| modules.iter().any(|other| other.len() > module.len() && other.starts_with(module));
    let mut uses: BTreeMap<(&[String], &[String]), &Path> = BTreeMap::new();
    for Source { file, module, tokens } in &sources {
        for path in paths(tokens, module).iter().filter(|path| path[0] == "crate") {
            let target = (2..=path.len()).rev().find_map(|length| modules.get(&path[1..length]));
            let Some(target) = target else { continue };
            let fork = module.iter().zip(*target).take_while(|(one, other)| one == other).count();
            if fork < module.len() && fork < target.len() {
                uses.entry((&module[..=fork], &target[..=fork])).or_insert(file);
            }
        }
    }
    let leads_to = |from: &[String], to: &[String]| {
        let (mut reached, mut next) = (BTreeSet::from([from]), vec![from]);
        while let Some(module) = next.pop() {
            let used = uses.keys().filter(|(user, _)| *user == module).map(|(_, used)| *used);
            next.extend(used.filter(|used| reached.insert(used)));
        }
        reached.contains(to)
    };
    let circles = uses.iter().filter(|((user, used), _)| (is_folder(user) || is_folder(used)) && leads_to(used, user));
    circles
        .map(|((user, used), file)| format!("{}: {user:?} uses {used:?}, which leads back", file.display()))
        .collect()
}

/// Removes what is compiled for tests only, and returns the names of the modules among it.
fn without_tests(tokens: &mut Vec<TokenTree>) -> Vec<String> {
    let (mut code, mut names, mut rest) = (Vec::new(), Vec::new(), std::mem::take(tokens).into_iter());
    while let Some(token) = rest.next() {
        let is_for_tests = matches!(&token, TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket
            && group.to_string().replace(' ', "").starts_with("[cfg(test"));
        if !is_for_tests {
            code.push(token);
            continue;
        }
        let is_end = |token: &TokenTree| match token {
            TokenTree::Punct(punct) => punct.as_char() == ';',
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            _ => false,
        };
        names.extend(rest.by_ref().take_while(|token| !is_end(token)).last().map(|name| name.to_string()));
    }
    *tokens = code;
    names
}

/// Returns the other modules, the crates and the parts of `std` that code names.
fn uses(code: &[TokenTree], module: &[String], crates: &BTreeSet<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in paths(code, module) {
        match (path[0].as_str(), path.get(1)) {
            ("crate", Some(other)) if *other != module[0] => drop(found.insert(other.clone())),
            ("std", Some(part)) if OUTSIDE.contains(&part.as_str()) => drop(found.insert(format!("std::{part}"))),
            (name, _) if crates.contains(name) => drop(found.insert(name.to_owned())),
            _ => {}
        }
    }
    found
}

/// Returns the paths that code in a module names, in macros too; those that lead through the crate begin with `crate`.
fn paths(tokens: &[TokenTree], module: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                // `mod tests { … }` is one module further down.
                let is_module = at >= 2 && is_ident(&tokens[at - 2], "mod");
                let below = is_module.then(|| tokens[at - 1].to_string());
                found.extend(paths(&inner, &module.iter().cloned().chain(below).collect::<Vec<_>>()));
            }
            TokenTree::Ident(_) if !continues(tokens, at) && is_separator(tokens, at + 1) => {
                found.extend(branches(&tokens[at..]).into_iter().map(|path| absolute(&path, module)));
            }
            _ => {}
        }
    }
    found
}

/// Returns the path from `crate` on; one that begins with another crate as it is.
fn absolute(path: &[String], module: &[String]) -> Vec<String> {
    let ups = path.iter().take_while(|name| *name == "super").count();
    if ups == 0 && path[0] != "self" {
        return path.to_vec();
    }
    let above = &module[..module.len() - ups];
    ["crate".to_owned()].iter().chain(above).chain(&path[ups.max(1)..]).cloned().collect()
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

/// Returns the path that begins here, or each path if it ends in braces.
fn branches(tokens: &[TokenTree]) -> Vec<Vec<String>> {
    let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
    match tokens.first() {
        Some(TokenTree::Ident(name)) => {
            let rest = if is_separator(tokens, 1) { branches(&tokens[3..]) } else { vec![Vec::new()] };
            rest.into_iter().map(|rest| [vec![name.to_string()], rest].concat()).collect()
        }
        Some(TokenTree::Group(group)) => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            inner.split(is_comma).flat_map(branches).collect()
        }
        // `use crate::*`
        _ => vec![vec!["*".to_owned()]],
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
        let module = ["directory", "file"].map(str::to_owned);
        let found = uses(&TokenStream::from_str(code).unwrap().into_iter().collect::<Vec<_>>(), &module, &crates);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected, "{code}");
    }
}

#[test]
fn a_circle_is_one_only_through_a_folder_and_outside_of_tests() {
    let source = |module: &str, code: &str| Source {
        file: PathBuf::from(module),
        module: module.split("::").map(str::to_owned).collect(),
        tokens: TokenStream::from_str(code).unwrap().into_iter().collect(),
    };
    for (code, expected) in [
        ("use super::set;", 0),
        ("mod inner { use super::super::set; }", 0),
        ("use super::status::way_out::leave;", 2),
        ("fn f() { crate::rollout::status::leave() }", 2),
        ("use super::set; pub use super::{set::x, status::{self, leave}};", 2),
        ("use super::unit;", 0),
        ("#[cfg(test)] #[path] mod tests { use super::super::status; } fn f() {}", 0),
    ] {
        let sources = vec![
            source("rollout", "mod hold; mod status;"),
            source("rollout::hold", code),
            source("rollout::set", "use super::hold;"),
            source("rollout::unit", "#[cfg(test)] mod tests;"),
            source("rollout::unit::tests", "use super::super::hold; use crate::rollout::unit;"),
            source("rollout::status", "mod way_out; use super::undo;"),
            source("rollout::status::way_out", "use crate::rollout::hold::x; fn f() { super::leave() }"),
        ];
        assert_eq!(circles(sources).len(), expected, "{code}");
    }
}
