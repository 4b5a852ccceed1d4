//! Reads YAML as kubectl does, whatever its size, but limits the expansion of aliases.
//!
//! Expanded aliases are counted, so that a few lines that expand to gigabytes fail immediately.

use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error, SnippetMode, UserMessageFormatter};

use crate::encode::documents::Document;

fn read(document: Document<'_>, duplicate_keys: DuplicateKeyPolicy) -> Result<Value, String> {
    // The values themselves are bounded by the text, which is already in memory; the expansion of aliases counts, too.
    let limit = 4 * document.text.len() + (1 << 20);
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: limit,
            max_nodes: limit,
            max_total_scalar_bytes: limit,
            max_depth: 100,
        },
        emit_comments: false,
        // kubectl reads `defaultMode: 0644` as 420.
        legacy_octal_numbers: true,
        duplicate_keys: duplicate_keys,
        with_snippet: false,
    };
    let read = serde_saphyr::with_deserializer_from_str_with_options(document.text, options, |deserializer| {
        Value::deserialize(deserializer)
    });
    read.map_err(|error| match is_bomb(&error) {
        true => {
            let line = error.location().map_or(0, |location| location.line()) + document.lines_before as u64;
            format!("its aliases unfold to far more than its size (line {line}): it looks like a YAML bomb")
        }
        false => describe(&error, document),
    })
}

fn describe(error: &Error, document: Document<'_>) -> String {
    error.render_with_options(serde_saphyr::render_options! {
        formatter: &UserMessageFormatter,
        snippets: SnippetMode::Off,
        line_offset: document.lines_before as u64,
    })
}

fn is_bomb(error: &Error) -> bool {
    match error.without_snippet() {
        Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => true,
        Error::Budget { breach, .. } => !matches!(breach, serde_saphyr::budget::BudgetBreach::Depth { .. }),
        Error::AliasError { error, .. } => is_bomb(error),
        _ => false,
    }
}

/// Reads one document as a value. Fails with a fragment that names the line, if the text is not YAML or its aliases expand too far.
pub fn value(document: Document<'_>) -> Result<Value, String> {
    read(document, DuplicateKeyPolicy::Error)
}

/// Reads one document as a value. If a key is duplicated, the last one is used, as in `kubectl apply`. Fails as [`value`] does.
pub(super) fn value_with_duplicate_keys(document: Document<'_>) -> Result<Value, String> {
    read(document, DuplicateKeyPolicy::LastWins)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::value;
    use crate::encode::documents::documents;

    fn values(text: &str) -> Vec<Result<serde_json::Value, String>> {
        documents(text).into_iter().map(value).collect()
    }

    #[test]
    fn documents_are_divided_by_lines_of_three_dashes_only() {
        let text =
            "# head\n%YAML 1.2\n---\na: 1\n--- # second\nb: |\n  ---\n  x\n---\n# empty\n---\n---\nc: ---x\n...\n---\n";
        let found: Vec<_> = documents(text).iter().map(|document| document.lines_before).collect();
        assert_eq!(found, [0, 4, 11]);
        let values: Vec<_> = values(text).into_iter().map(Result::unwrap).collect();
        assert_eq!(values, [json!({"a": 1}), json!({"b": "---\nx\n"}), json!({"c": "---x"})]);
    }

    #[test]
    fn scalars_mean_what_they_mean_to_kubectl() {
        let text = "{a: 0644, b: yes, c: 'yes', d: 1_0.5x, e: ~, f: 1e3, g: 2026-01-01T00:00:00Z, h: 100m}";
        assert_eq!(
            values(text)[0].as_ref().unwrap(),
            &json!({"a": 420, "b": true, "c": "yes", "d": "1_0.5x", "e": null, "f": 1000.0,
                "g": "2026-01-01T00:00:00Z", "h": "100m"})
        );
    }

    #[test]
    fn an_anchor_that_is_used_a_few_times_is_fine() {
        let text = "a: &labels {app: x}\nb: *labels\nc:\n  <<: *labels\n  d: e\n";
        assert_eq!(
            values(text)[0].as_ref().unwrap(),
            &json!({"a": {"app": "x"}, "b": {"app": "x"}, "c": {"app": "x", "d": "e"}})
        );
    }

    #[test]
    fn a_bomb_ends_at_once() {
        let mut doubling = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let before = format!("*a{}, ", level - 1).repeat(9);
            doubling.push_str(&format!("a{level}: &a{level} [{}]\n", before.trim_end_matches(", ")));
        }
        let long_text = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), "*a, ".repeat(2_000));
        for (text, line) in [(doubling, 7), (long_text, 2)] {
            let error = values(&text)[0].as_ref().unwrap_err().clone();
            assert!(error.starts_with("its aliases unfold to far more than its size (line "), "{error}");
            assert!(error.ends_with("): it looks like a YAML bomb"), "{error} {line}");
        }
    }

    #[test]
    fn errors_name_the_line_of_the_whole_text() {
        assert_eq!(
            values("a: 1\n---\nb: [1\nc: 2\n")[1].as_ref().unwrap_err(),
            "illegal placement of ':' indicator at line 4, column 2"
        );
    }
}
