//! Validates names, and keys and values of labels.
//!
//! Ported from k8s.io/apimachinery/pkg/util/validation/validation.go, release 1.37.

/// Returns whether a text is the name of a namespace or a container (`IsDNS1123Label`).
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_part(text)
}

/// Returns whether a text is the name of most other objects (`IsDNS1123Subdomain`).
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_part)
}

fn is_dns_part(text: &str) -> bool {
    has_alphanumeric_ends(text) && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Returns whether a text is a valid label key: an optional DNS prefix, a slash, and a name (`IsLabelKey`).
pub fn is_label_key(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_dns_subdomain) && !name.is_empty() && is_label_value(name)
}

/// Returns whether a text is a valid label value: at most 63 characters, or empty (`IsLabelValue`).
pub fn is_label_value(text: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    text.is_empty() || (text.len() <= 63 && has_alphanumeric_ends(text) && text.bytes().all(is_inner))
}

fn has_alphanumeric_ends(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric) && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}
