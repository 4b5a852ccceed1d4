//! What a rule finds wrong: a reason whose sentences can still be merged with those of other nodes.

use super::sentence::Sentence;
use crate::report::reason::{Reason, ReasonCode};

/// What a rule finds wrong with one node.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The reason code.
    pub code: ReasonCode,
    /// What is wrong.
    pub message: Sentence,
    /// What to do.
    pub fix: Sentence,
}

impl Finding {
    /// Makes a finding of what is wrong and what to do.
    pub fn new(code: ReasonCode, message: impl Into<Sentence>, fix: impl Into<Sentence>) -> Self {
        Finding { code, message: message.into(), fix: fix.into() }
    }

    /// Returns the finding as a report gives it for one node.
    pub fn reason(&self) -> Reason {
        Reason { code: self.code, message: self.message.to_string(), fix: self.fix.to_string() }
    }
}
