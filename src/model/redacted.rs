//! The placeholders for hidden text in a redacted dump.

/// What stands for a value begins with this, and ends with its number.
pub const STAND_IN: &str = "REDACTED-";

/// What stands for the registry of an image ends with this.
pub const REGISTRY: &str = ".redacted";

/// Returns whether a text has a part that is hidden, so that it tells nothing about another snapshot.
pub fn hides(text: &str) -> bool {
    text.contains(STAND_IN) || text.contains(REGISTRY)
}
