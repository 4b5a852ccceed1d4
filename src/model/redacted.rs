//! The placeholders for hidden text in a redacted dump.

/// The prefix of the placeholder for a value, followed by its number.
pub const STAND_IN: &str = "REDACTED-";

/// The suffix of the placeholder for an image's registry.
pub const REGISTRY: &str = ".redacted";

/// Returns whether a part of a text is hidden, so that it cannot be compared with another snapshot.
pub fn hides(text: &str) -> bool {
    text.contains(STAND_IN) || text.contains(REGISTRY)
}
