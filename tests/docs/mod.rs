//! The documents that are generated, or that must name everything there is.
//!
//! `KUBECTL_DS_UPDATE=1 cargo test docs` writes the generated ones anew.

mod dependencies;
mod health;
mod man;
mod moving_picture;
mod pictures;
mod readme;
mod reason_codes;
mod reference;
mod schemas;
mod validator;

use std::path::PathBuf;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("docs/{name}: {error}"))
}

/// Holds a document against what it must be, or writes it anew.
pub(crate) fn must_be(name: &str, text: &str) {
    if std::env::var_os("KUBECTL_DS_UPDATE").is_some() {
        std::fs::write(path(name), text).unwrap();
    } else {
        let hint = "is stale: run `KUBECTL_DS_UPDATE=1 cargo test docs`, and look at what changed";
        assert!(std::fs::read_to_string(path(name)).is_ok_and(|there| there == text), "docs/{name} {hint}");
    }
}

#[test]
fn every_exit_code_is_documented() {
    use kubectl_ds::error::Exit;
    let document = read("exit-codes.md");
    for exit in [
        Exit::Success,
        Exit::Error,
        Exit::Usage,
        Exit::No,
        Exit::TimedOut,
        Exit::Partial,
        Exit::NotObserved,
        Exit::OutcomeUnknown,
        Exit::Interrupted,
    ] {
        // A new one must be added here, too.
        let code = match exit {
            Exit::Success
            | Exit::Error
            | Exit::Usage
            | Exit::No
            | Exit::TimedOut
            | Exit::Partial
            | Exit::NotObserved
            | Exit::OutcomeUnknown
            | Exit::Interrupted => exit as u8,
        };
        assert!(document.contains(&format!("| {code} |")), "{exit:?} is not documented");
    }
}
