//! Changes between two pod templates: one line each, or a block below the path.

use serde_json::Value;

use super::line_diff::{Mark, hunks};
use super::page::Page;
use super::text::{columns, cut};
use super::unified::line;
use super::view::View;
use super::{style, word_diff};
use crate::encode::ordered_value::Tree;
use crate::encode::yaml;
use crate::report::change::{Change, Op, PathStep};

/// The space between two columns.
const GAP: &str = "  ";

/// The indentation of blocks below a path, without the mark.
const INDENT: &str = "    ";

/// Number of lines shown around the differing lines of a script.
const CONTEXT: usize = 2;

/// Writes changes with their marks, paths and values. A value that does not fit on the line of its path is written
/// below it, and not truncated, unless it is JSON in an annotation, which tools write for themselves, and the output is
/// a terminal. Such JSON is not quoted again.
pub fn write(changes: &[Change], page: &mut Page<'_>) {
    let view = page.view;
    let rows: Vec<Row> = changes.iter().map(|change| Row::new(change, view)).collect();
    let widths = Widths::of(&rows, view);
    rows.iter().for_each(|row| row.write(&widths, page))
}

/// A change as it is shown.
struct Row {
    op: Op,
    path: String,
    shape: Shape,
}

/// How the values of a change are displayed.
enum Shape {
    /// On the line of the path.
    Short(Vec<String>),
    /// Below it, one line per value.
    Long(Vec<String>),
    /// Below it, as a block of lines.
    Block(Mark, Block),
    /// Below it, as the lines that differ.
    Difference(Block, Block),
}

impl Row {
    fn new(change: &Change, view: &View) -> Row {
        let is_json = is_annotation_in_json(change);
        let shape = match (&change.from, &change.to) {
            (Some(from), Some(to)) if is_block(from) || is_block(to) => {
                Shape::Difference(Block::of(from, view), Block::of(to, view))
            }
            (Some(value), None) if is_block(value) => Shape::Block(Mark::From, Block::of(value, view)),
            (None, Some(value)) if is_block(value) => Shape::Block(Mark::To, Block::of(value, view)),
            (from, to) => {
                let values = [from, to].into_iter().flatten();
                Shape::Short(match is_json {
                    true => values.filter_map(Value::as_str).map(|text| view.verbatim(text)).collect(),
                    false => values.map(|value| word(value, view)).collect(),
                })
            }
        };
        let mut row = Row { op: change.op, path: view.show(&change.path.to_string()), shape };
        if let Shape::Short(values) = &mut row.shape {
            let values = std::mem::take(values);
            let taken: usize = values.iter().map(|value| GAP.len() + columns(value)).sum();
            let arrow = if values.len() > 1 { GAP.len() + columns(view.arrow()) } else { 0 };
            let fits = 2 + columns(&row.path) + taken + arrow <= view.width;
            let room = view.width.saturating_sub(1 + INDENT.len());
            row.shape = match fits {
                true => Shape::Short(values),
                false if view.limit.is_some() && is_json => {
                    Shape::Long(values.iter().map(|value| cut(value, room, view.ascii)).collect())
                }
                false => Shape::Long(values),
            };
        }
        row
    }

    fn write(&self, widths: &Widths, page: &mut Page<'_>) {
        let mark = match self.op {
            Op::Add => style::healthy("+"),
            Op::Remove => style::problem("-"),
            Op::Replace => style::in_progress("~"),
        };
        write!(page, "{mark} {}", self.path);
        match &self.shape {
            Shape::Short(values) => self.write_short(values, widths, page),
            Shape::Long(values) => {
                writeln!(page);
                let marks = match self.op {
                    Op::Add => [Mark::To, Mark::To],
                    Op::Remove | Op::Replace => [Mark::From, Mark::To],
                };
                let pieces = match values.as_slice() {
                    [from, to] => {
                        let (from, to) = word_diff::compare(from, to);
                        vec![owned(&from), owned(&to)]
                    }
                    values => values.iter().map(|value| vec![(false, value.clone())]).collect(),
                };
                marks.iter().zip(&pieces).for_each(|(mark, pieces)| writeln!(page, "{}", line(*mark, INDENT, pieces)))
            }
            Shape::Block(mark, block) => {
                writeln!(page, "{}", block.head.map(|head| format!("{GAP}{head}")).unwrap_or_default());
                block.lines.iter().for_each(|text| writeln!(page, "{}", line(*mark, INDENT, &[(false, text.clone())])))
            }
            Shape::Difference(from, to) => {
                let head = from.head.filter(|_| from.head == to.head);
                writeln!(page, "{}", head.map(|head| format!("{GAP}{head}")).unwrap_or_default());
                for (mark, block) in [(Mark::From, from), (Mark::To, to)] {
                    if let Some(head) = block.head.filter(|_| from.head != to.head) {
                        writeln!(page, "{}", line(mark, GAP, &[(false, head.to_owned())]));
                    }
                }
                write_difference(from, to, page)
            }
        }
    }

    /// Writes values on the line of the path, aligned in columns as far as they fit.
    fn write_short(&self, values: &[String], widths: &Widths, page: &mut Page<'_>) {
        let view = page.view;
        let taken: usize = values.iter().map(|value| GAP.len() + columns(value)).sum();
        let arrow = if values.len() > 1 { GAP.len() + columns(view.arrow()) } else { 0 };
        let mut room = view.width.saturating_sub(2 + columns(&self.path) + taken + arrow);
        let mut pad = |text: &str, width: usize| {
            let missing = Some(width.saturating_sub(columns(text))).filter(|missing| *missing <= room).unwrap_or(0);
            room -= missing;
            " ".repeat(missing)
        };
        write!(page, "{}{GAP}", pad(&self.path, widths.path));
        match (self.op, values) {
            (Op::Replace, [from, to]) => {
                let padding = pad(from, widths.from);
                let (from, to) = (style::problem(from), style::healthy(to));
                writeln!(page, "{from}{padding}{GAP}{}{GAP}{to}", view.arrow())
            }
            (Op::Remove, values) => writeln!(page, "{}", style::problem(values.join(GAP))),
            (_, values) => writeln!(page, "{}", style::healthy(values.join(GAP))),
        }
    }
}

fn owned(pieces: &[word_diff::Piece<'_>]) -> Vec<(bool, String)> {
    pieces.iter().map(|(differs, piece)| (*differs, (*piece).to_owned())).collect()
}

/// Writes the differing lines, with a hunk header if lines before them are omitted.
fn write_difference(from: &Block, to: &Block, page: &mut Page<'_>) {
    let [from, to] = [from, to].map(|block| block.lines.iter().map(String::as_str).collect::<Vec<&str>>());
    for hunk in hunks(&from, &to, CONTEXT) {
        if hunk.start > 0 {
            writeln!(page, "{GAP}{}", style::context(hunk.place));
        }
        for (mark, pieces) in hunk.lines {
            writeln!(page, "{}", line(mark, INDENT, &pieces));
        }
    }
}

/// The widths of the columns.
struct Widths {
    path: usize,
    from: usize,
}

impl Widths {
    /// Measures single-line changes. Very long values do not widen the columns.
    fn of(rows: &[Row], view: &View) -> Widths {
        let mut widths = Widths { path: 0, from: 0 };
        for row in rows {
            let Shape::Short(values) = &row.shape else { continue };
            let path = columns(&row.path);
            widths.path = widths.path.max(if path <= view.width * 3 / 5 { path } else { 0 });
            if let [from, _] = values.as_slice() {
                let from = columns(from);
                widths.from = widths.from.max(if from <= view.width / 3 { from } else { 0 });
            }
        }
        widths
    }
}

/// A value as lines.
struct Block {
    /// The YAML block indicator and header for text with several lines.
    head: Option<&'static str>,
    lines: Vec<String>,
}

impl Block {
    fn of(value: &Value, view: &View) -> Block {
        match value {
            Value::String(text) if text.contains('\n') => {
                let head = match yaml::block_end(text) {
                    "-" => "|-",
                    "+" => "|+",
                    _ => "|",
                };
                // Not as YAML, which would put a script with one special character on a single line.
                let lines = text.strip_suffix('\n').unwrap_or(text).split('\n');
                Block { head: Some(head), lines: lines.map(|line| view.verbatim(line)).collect() }
            }
            value => {
                let text = yaml::text(&Tree::customary(value), view.ascii);
                Block { head: None, lines: text.lines().map(str::to_owned).collect() }
            }
        }
    }
}

/// Returns whether a change is to an annotation whose value is an object or a list in JSON.
fn is_annotation_in_json(change: &Change) -> bool {
    let is_json = |value: &Value| value.as_str().is_some_and(|text| text.starts_with(['{', '[']));
    let is_annotation = change.path.0.iter().any(|step| *step == PathStep::Field("annotations".to_owned()));
    is_annotation && [&change.from, &change.to].into_iter().flatten().all(is_json)
}

/// Returns whether a value needs several lines.
fn is_block(value: &Value) -> bool {
    match value {
        Value::String(text) => text.trim_end_matches('\n').contains('\n'),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => false,
    }
}

/// Formats a scalar; strings are unquoted if that is unambiguous.
fn word(value: &Value, view: &View) -> String {
    match value {
        Value::String(text) if !text.contains(char::is_whitespace) && yaml::is_plain(text, view.ascii) => text.clone(),
        Value::String(text) => yaml::quoted(text, view.ascii),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;
    use serde_json::{Value, json};

    use super::{word, write};
    use crate::encode::sanitize::is_unsafe;
    use crate::render::text::columns;
    use crate::render::view::View;
    use crate::report::change::{Change, ChangePath};

    fn changes() -> Vec<Change> {
        let replace = |path: &str, from: Value, to: Value| Change::new(path, Some(from), Some(to));
        let add = |path: &str, to: Value| Change::new(path, None, Some(to));
        let remove = |path: &str, from: Value| Change::new(path, Some(from), None);
        vec![
            replace("spec.containers[agent].image", json!("agent:2"), json!("agent:3")),
            add("spec.containers[agent].env[LEVEL].value", json!("1_000")),
            replace("spec.containers[agent].env[MODE].value", json!("yes"), json!("a b")),
            remove("spec.containers[agent].env[OLD].value", json!("no")),
            replace("spec.hostNetwork", json!(false), json!(true)),
            replace("spec.terminationGracePeriodSeconds", json!(30), json!("30")),
            replace(
                "spec.containers[agent].env[URL].value",
                json!("https://registry.example.com/v2/very/long/path/to/the/thing?token=a"),
                json!("https://registry.example.com/v2/very/long/path/to/the/other?token=a"),
            ),
            add(
                "spec.containers[sidecar]",
                json!({"name": "sidecar", "image": "sidecar:1", "args": ["--a", "on"], "resources": {}, "command": ["sh", "-c", "a\nb\n"]}),
            ),
            remove("spec.tolerations[gpu]", json!({"key": "gpu", "operator": "Exists"})),
            replace(
                "spec.containers[agent].args[2]",
                json!("set -e\na\nb\nc\nrun --level=1 now\nd\ne\nf\ng\n"),
                json!("set -e\na\nb\nc\nrun --level=2 now\nd\ne\nf\ng"),
            ),
            add("spec.containers[agent].args[3]", json!("one\n\ttwo\r\n\n  three\u{1b}[31m\n\n")),
            replace("spec.nodeSelector", json!({"a": "b", "c": "d"}), json!({"a": "b", "c": "e"})),
            replace("metadata.annotations[x]", json!(""), json!([])),
        ]
    }

    fn shown(changes: &[Change], view: &View) -> String {
        view.text(|page| write(changes, page))
    }

    /// Returns the output without styles.
    fn plain(changes: &[Change], view: &View) -> String {
        strip_str(&shown(changes, view)).to_string()
    }

    /// Strips only the styles used here; a general stripper would also strip hostile sequences.
    fn without_own_styles(text: &str) -> String {
        ["0", "1", "2", "7", "31", "32", "33", "39"]
            .iter()
            .fold(text.to_owned(), |text, style| text.replace(&format!("\u{1b}[{style}m"), ""))
    }

    #[test]
    fn short_values_stand_in_columns_and_long_ones_beneath() {
        let expected = r#"
~ spec.containers[agent].image             agent:2  →  agent:3
+ spec.containers[agent].env[LEVEL].value  "1_000"
~ spec.containers[agent].env[MODE].value   "yes"    →  "a b"
- spec.containers[agent].env[OLD].value    "no"
~ spec.hostNetwork                         false    →  true
~ spec.terminationGracePeriodSeconds       30       →  "30"
~ spec.containers[agent].env[URL].value
-    https://registry.example.com/v2/very/long/path/to/the/thing?token=a
+    https://registry.example.com/v2/very/long/path/to/the/other?token=a
+ spec.containers[sidecar]
+    name: sidecar
+    args:
+    - --a
+    - "on"
+    command:
+    - sh
+    - -c
+    - |
+      a
+      b
+    image: sidecar:1
+    resources: {}
- spec.tolerations[gpu]
-    key: gpu
-    operator: Exists
~ spec.containers[agent].args[2]
-  |
+  |-
  @@ -3,5 +3,5 @@
     b
     c
-    run --level=1 now
+    run --level=2 now
     d
     e
+ spec.containers[agent].args[3]  |+
+    one
+    \ttwo\r
+
+      three\u{1b}[31m
+
~ spec.nodeSelector
     a: b
-    c: d
+    c: e
~ metadata.annotations[x]                  ""       →  []
"#;
        let text = plain(&changes(), &View::new(Some(80), false));
        assert_eq!(text, expected.trim_start().replace(r"\t", "\t"));
    }

    #[test]
    fn a_wide_screen_and_a_pipe_have_room_for_long_values() {
        let from = "https://registry.example.com/v2/very/long/path/to/the/thing?token=a";
        let long = |width| plain(&changes()[6..7], &View::new(width, false));
        assert_eq!(
            long(Some(200)),
            format!("~ spec.containers[agent].env[URL].value  {from}  →  {}\n", from.replace("thing", "other"))
        );
        // A pipe gets the default width, and anything that does not fit goes below, untruncated.
        assert_eq!(long(None).lines().count(), 3);
        for width in [Some(40), Some(80), None] {
            let text = long(width);
            assert!(text.contains(from) && text.contains(&from.replace("thing", "other")), "{text}");
        }
    }

    #[test]
    fn json_in_annotations_takes_one_line_of_a_terminal() {
        let json =
            json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"}, "type": "RollingUpdate"}).to_string();
        let path =
            ChangePath::default().field("metadata").field("annotations").entry("kubectl-ds/original-update-strategy");
        let changes = [Change::new(path, None, Some(json!(json)))];
        let text = plain(&changes, &View::new(Some(60), false));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() == 2 && columns(lines[1]) <= 60 && lines[1].ends_with('…'), "{text}");
        // The reader of a pipe gets all of it.
        assert!(plain(&changes, &View::new(None, false)).contains("\"type\":\"RollingUpdate\"}\n"));
    }

    #[test]
    fn lines_end_where_the_screen_ends_as_long_as_values_fit() {
        for width in [40, 60, 80, 120, 200] {
            for line in plain(&changes()[..6], &View::new(Some(width), false)).lines() {
                assert!(columns(line) <= width || !line.contains("  "), "{width}: {line}");
            }
        }
    }

    #[test]
    fn one_long_path_or_value_does_not_move_the_others() {
        let long = "x".repeat(60);
        let changes = [
            Change::new("spec.a", Some(json!("b")), Some(json!("c"))),
            Change::new("spec.bcd", Some(json!("bc")), Some(json!("d"))),
            Change::new(ChangePath::default().field("spec").field(&long), Some(json!("b")), Some(json!("c"))),
            Change::new("spec.b", Some(json!(long)), Some(json!("c"))),
        ];
        let expected =
            format!("~ spec.a    b   →  c\n~ spec.bcd  bc  →  d\n~ spec.{long}  b   →  c\n~ spec.b    {long}  →  c\n");
        assert_eq!(plain(&changes, &View::new(Some(80), false)), expected);
    }

    #[test]
    fn screens_without_unicode_get_ascii() {
        let mut changes = changes();
        changes.push(Change::new("metadata.annotations[größe]", Some(json!("é")), Some(json!("😀"))));
        changes.push(Change::new("spec.x", None, Some(json!("é\n日本\n"))));
        changes.push(Change::new("spec.y", None, Some(json!({"é": ["日本"]}))));
        let text = plain(&changes, &View::new(Some(80), true));
        assert!(text.is_ascii(), "{text}");
        for part in [
            "agent:2   ->  agent:3",
            r#""\u00e9""#,
            r#""\U0001f600""#,
            r"gr\u{f6}",
            r"\u{65e5}\u{672c}",
            r#""\u65e5\u672c""#,
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn nothing_from_the_cluster_steers_the_terminal() {
        let evil = "\u{1b}]0;x\u{7}\u{202e}\u{9b}2J\u{200b}\r";
        let texts = [evil.to_owned(), format!("{evil} {}", "x".repeat(200)), format!("a\n{evil}\n{evil}b\n")];
        let mut changes = Vec::new();
        for text in &texts {
            let values = [json!(text), json!([text]), json!({ text: { "a": [text] } })];
            for value in values {
                changes.push(Change::new(ChangePath::default().field("spec").entry(text), None, Some(value.clone())));
                changes.push(Change::new(ChangePath::default().field(text), Some(value.clone()), Some(json!("a"))));
                changes.push(Change::new("spec.a", Some(value), Some(json!(format!("{text}\n{evil}c")))));
            }
        }
        for view in [View::new(Some(80), false), View::new(Some(80), true), View::new(None, false)] {
            let text = without_own_styles(&shown(&changes, &view));
            let odd = text.chars().find(|c| is_unsafe(*c) && *c != '\n');
            assert_eq!(odd, None, "{text:?}");
            assert!(text.contains("]0;x"), "it is shown all the same: {text:?}");
        }
    }

    #[test]
    fn color_only_repeats_the_mark() {
        let text = shown(&changes()[..4], &View::new(Some(80), false));
        let marks: Vec<&str> = text.lines().map(|line| &line[..7]).collect();
        assert_eq!(
            marks,
            ["\u{1b}[33m~\u{1b}", "\u{1b}[32m+\u{1b}", "\u{1b}[33m~\u{1b}", "\u{1b}[31m-\u{1b}"].map(|mark| &mark[..7])
        );
        let text = shown(&changes()[6..7], &View::new(Some(80), false));
        assert!(text.contains("\u{1b}[7m\u{1b}[1m\u{1b}[31mthing\u{1b}"), "{text:?}");
        let nothing = shown(&[], &View::new(Some(80), false));
        assert_eq!(nothing, "");
    }

    #[test]
    fn strings_that_could_be_something_else_are_quoted() {
        for plain_word in ["agent:2", "100m", "a/b@sha256:0f", "--flag=x", "größe"] {
            assert_eq!(word(&json!(plain_word), &View::new(None, false)), plain_word);
        }
        for odd in
            ["", "yes", "1", "1_000", "null", "a b", " a", "0x1F", "2026-01-01", "{}", "[]", "a: b", "#x", "\"a\""]
        {
            let written = word(&json!(odd), &View::new(None, false));
            assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), json!(odd), "{written}");
        }
        assert_eq!(word(&json!(null), &View::new(None, false)), "null");
        assert_eq!(word(&json!({}), &View::new(None, false)), "{}");
    }
}
