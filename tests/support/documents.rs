//! The documents in `docs/`, including the generated ones.

use std::path::PathBuf;

/// Returns the path of a document.
pub fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)
}

/// Returns the text of a document.
pub fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("docs/{name}: {error}"))
}

/// Holds a document against what it must be, or writes it anew.
pub fn must_be(name: &str, text: &str) {
    if std::env::var_os("KUBECTL_DS_UPDATE").is_some() {
        std::fs::write(path(name), text).unwrap();
    } else {
        let hint = "is stale: run `KUBECTL_DS_UPDATE=1 cargo test docs`, and look at what changed";
        assert!(std::fs::read_to_string(path(name)).is_ok_and(|there| there == text), "docs/{name} {hint}");
    }
}
