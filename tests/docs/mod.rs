//! The documents that are generated, or that must be complete.
//!
//! `KUBECTL_DS_UPDATE=1 cargo test docs` regenerates the generated ones.

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

use crate::support::documents::{must_be, path, read};

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
