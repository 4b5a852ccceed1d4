//! The documents in a YAML text.

/// One document of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Document<'a> {
    /// The text, with the `---` before it.
    pub text: &'a str,
    /// Number of lines before it.
    pub lines_before: usize,
}

/// Splits a text into its documents, and omits the empty ones.
///
/// YAML forbids a line that starts with `---` anywhere but between documents, even in block text.
pub fn documents(text: &str) -> Vec<Document<'_>> {
    let mut documents = Vec::new();
    let (mut start, mut lines_before, mut position) = (0, 0, 0);
    let (mut has_content, mut has_directive) = (false, false);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let after_marker =
            line.strip_prefix("---").filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        // A directive belongs to the document after the marker.
        if after_marker.is_some() && !has_directive {
            if has_content {
                documents.push(Document { text: &text[start..position], lines_before });
            }
            (start, lines_before, has_content) = (position, number, false);
        }
        let content = after_marker.unwrap_or(line).trim();
        has_directive = !has_content && (content.starts_with('%') || (has_directive && after_marker.is_none()));
        has_content |= !(content.is_empty() || content == "..." || content.starts_with(['#', '%']));
        position += line.len();
    }
    if has_content {
        documents.push(Document { text: &text[start..], lines_before });
    }
    documents
}
