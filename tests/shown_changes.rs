//! A shown change contains the whole value.

use anstream::adapter::strip_str;
use kubectl_ds::cluster::yaml::value;
use kubectl_ds::encode::documents::documents;
use kubectl_ds::render::changes;
use kubectl_ds::render::view::View;
use kubectl_ds::report::change::{Change, ChangePath};
use proptest::prelude::*;
use serde_json::Value;

use crate::support::hard_values::hard_value;
use crate::support::sampling::cases;

fn spec_x() -> ChangePath {
    ChangePath::default().field("spec").field("x")
}

/// Shows one change, and returns its lines.
fn shown(change: Change, view: &View) -> Vec<String> {
    strip_str(&view.text(|page| changes::write(&[change], page)))
        .to_string()
        .split_terminator('\n')
        .map(str::to_owned)
        .collect()
}

/// Reads the value back from the lines, where nothing but the value itself says what it is.
fn read(lines: &[String], mark: &str) -> Value {
    let head = lines[0].strip_prefix(&format!("{mark} spec.x")).unwrap();
    let beneath: Vec<&str> = lines[1..]
        .iter()
        .map(|line| {
            let line = line.strip_prefix(mark).unwrap();
            line.strip_prefix("    ").unwrap_or_else(|| {
                assert_eq!(line, "", "{lines:?}");
                line
            })
        })
        .collect();
    if let Some(end) = head.strip_prefix("  |") {
        // A script, as it is.
        return Value::String(beneath.join("\n") + if end == "-" { "" } else { "\n" });
    }
    let text = format!("{}\n", if beneath.is_empty() { head.trim_start().to_owned() } else { beneath.join("\n") });
    value(documents(&text)[0]).unwrap_or_else(|error| panic!("{error}: {lines:?}"))
}

/// Writes what is escaped in a script in the way that scripts are shown.
fn as_shown(value: Value) -> Value {
    match value {
        Value::String(text) if text.trim_end_matches('\n').contains('\n') => {
            let lines: Vec<String> = text.split('\n').map(kubectl_ds::encode::sanitize::escape).collect();
            Value::String(lines.join("\n"))
        }
        value => value,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(1_000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn added_and_removed_values_are_whole(value in hard_value(), width in prop::sample::select(vec![None, Some(40), Some(80), Some(200)])) {
        let view = View::new(width, false);
        let added = shown(Change::new(spec_x(), None, Some(value.clone())), &view);
        prop_assert_eq!(read(&added, "+"), as_shown(value.clone()), "{:?}", added);
        let removed = shown(Change::new(spec_x(), Some(value.clone()), None), &view);
        prop_assert_eq!(read(&removed, "-"), as_shown(value), "{:?}", removed);
    }
}
