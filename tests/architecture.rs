//! Holds the import table of ARCHITECTURE.md: which layer may use which.

use std::fs;
use std::path::{Path, PathBuf};

/// A layer's folder under `src/`, and the crates and layers that it may not name.
const FORBIDDEN: &[(&str, &[&str])] = &[
    (
        "model",
        &[
            "kube::",
            "k8s_openapi::",
            "clap::",
            "tokio::",
            "std::fs",
            "std::env",
            "std::io",
            "crate::scheduling",
            "crate::report",
            "crate::coverage",
            "crate::rollout",
            "crate::encode",
            "crate::render",
            "crate::cluster",
            "crate::commands",
        ],
    ),
    (
        "scheduling",
        &[
            "kube::",
            "clap::",
            "tokio::",
            "std::fs",
            "std::env",
            "std::io",
            "crate::report",
            "crate::coverage",
            "crate::rollout",
            "crate::encode",
            "crate::render",
            "crate::cluster",
            "crate::commands",
        ],
    ),
    (
        "plan",
        &[
            "kube::",
            "clap::",
            "tokio::",
            "std::fs",
            "std::env",
            "std::io",
            "crate::scheduling",
            "crate::report",
            "crate::coverage",
            "crate::rollout",
            "crate::encode",
            "crate::render",
            "crate::cluster",
            "crate::commands",
        ],
    ),
    (
        "report",
        &[
            "kube::",
            "clap::",
            "tokio::",
            "std::fs",
            "std::env",
            "crate::scheduling",
            "crate::coverage",
            "crate::rollout",
            "crate::render",
            "crate::cluster",
            "crate::commands",
        ],
    ),
    (
        "coverage",
        &[
            "kube::",
            "clap::",
            "tokio::",
            "std::fs",
            "std::env",
            "std::io",
            "crate::io",
            "crate::rollout",
            "crate::encode",
            "crate::render",
            "crate::cluster",
            "crate::commands",
        ],
    ),
    (
        "rollout",
        &[
            "kube::",
            "clap::",
            "tokio::",
            "std::fs",
            "std::env",
            "std::io",
            "crate::io",
            "crate::encode",
            "crate::render",
            "crate::cluster",
            "crate::commands",
        ],
    ),
    (
        "encode",
        &[
            "kube::",
            "clap::",
            "tokio::",
            "std::fs",
            "std::env",
            "crate::model",
            "crate::scheduling",
            "crate::plan",
            "crate::report",
            "crate::coverage",
            "crate::rollout",
            "crate::render",
            "crate::cluster",
            "crate::commands",
        ],
    ),
    (
        "render",
        &[
            "kube::",
            "clap::",
            "tokio::",
            "std::fs",
            "std::env",
            "terminal_size",
            "crate::model",
            "crate::scheduling",
            "crate::coverage",
            "crate::rollout",
            "crate::cluster",
            "crate::commands",
        ],
    ),
    (
        "cluster",
        &[
            "clap::",
            "crate::scheduling",
            "crate::coverage",
            "crate::rollout",
            "crate::report",
            "crate::render",
            "crate::commands",
        ],
    ),
    ("commands", &["kube::", "k8s_openapi::", "std::env"]),
];

#[test]
fn every_layer_keeps_to_the_import_table() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut breaches = Vec::new();
    for (layer, forbidden) in FORBIDDEN {
        let files = rust_files(&source.join(layer));
        assert!(!files.is_empty(), "src/{layer} has no Rust files: the table is out of date");
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                breaches.extend(
                    forbidden
                        .iter()
                        .filter(|name| names(code, name))
                        .map(|name| format!("{}:{}: {layer} may not use {name}", file.display(), number + 1)),
                );
            }
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

/// Tells whether code names a path, and not one that merely ends alike.
fn names(code: &str, path: &str) -> bool {
    code.match_indices(path).any(|(at, _)| {
        !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':')
            && (path.ends_with(':') || !code[at + path.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

#[test]
fn a_name_is_found_only_as_a_whole() {
    assert!(names("use kube::Client;", "kube::"));
    assert!(!names("use my_kube::Client;", "kube::"));
    assert!(names("use crate::report;", "crate::report"));
    assert!(!names("use crate::reporter;", "crate::report"));
}
