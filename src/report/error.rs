//! What went wrong, as data.

use super::Report;
use super::fix::Fix;

/// What went wrong.
#[apply(answer!)]
pub struct ErrorReport {
    /// What failed, and why; a line each if several things did.
    pub message: String,
    /// What to do next.
    pub hints: Vec<Fix>,
    /// The exit code.
    pub exit_code: u8,
}

impl Report for ErrorReport {
    const KINDS: &'static [&'static str] = &["Error"];

    fn suggestions(&mut self, visit: &mut dyn FnMut(&mut Fix)) {
        self.hints.iter_mut().for_each(visit);
    }
}
