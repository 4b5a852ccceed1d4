//! A unified diff of two values' YAML, which `patch` and other programs can read.

use serde_json::Value;

use super::line_diff::{Mark, hunks};
use super::style;
use super::view::View;
use crate::encode::ordered_value::Tree;
use crate::encode::sanitize::escape;
use crate::encode::yaml;

/// A value and its name in a diff.
#[derive(Debug, Clone, PartialEq)]
pub struct Labeled {
    /// The name, such as `agent revision 2`.
    pub label: String,
    /// The value, such as a pod template.
    pub value: Value,
}

impl Labeled {
    /// Creates a named value.
    pub fn new(label: impl Into<String>, value: Value) -> Self {
        Labeled { label: label.into(), value }
    }

    /// Formats the value as YAML, with its fields in the customary order.
    pub fn yaml(&self, ascii: bool) -> String {
        yaml::text(&Tree::customary(&self.value), ascii)
    }
}

/// Returns a unified diff with `context` lines of context, or `None` if there is no difference.
pub fn diff(from: &Labeled, to: &Labeled, context: usize, view: &View) -> Option<String> {
    let (old, new) = (from.yaml(view.ascii), to.yaml(view.ascii));
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let hunks = Some(hunks(&old, &new, context)).filter(|hunks| !hunks.is_empty())?;
    Some(view.text(|page| {
        writeln!(page, "{}", style::summary(format!("--- {}", view.show(&from.label))));
        writeln!(page, "{}", style::summary(format!("+++ {}", view.show(&to.label))));
        for hunk in hunks {
            writeln!(page, "{}", style::context(&hunk.place));
            for (mark, pieces) in hunk.lines {
                writeln!(page, "{}", line(mark, "", &pieces));
            }
        }
    }))
}

/// Applies a style to text.
type Paint = fn(String) -> String;

/// Formats a line of a hunk with its mark, and highlights the words that differ.
pub(super) fn line(mark: Mark, indent: &str, pieces: &[(bool, String)]) -> String {
    let (sign, paint, point): (_, Paint, Paint) = match mark {
        Mark::Both => (" ", style::plain, style::plain),
        Mark::From => ("-", style::problem, style::removed_word),
        Mark::To => ("+", style::healthy, style::added_word),
    };
    // Do not indent empty lines.
    let is_empty = pieces.iter().all(|(_, piece)| piece.is_empty());
    let mut line = paint(if is_empty { sign.to_owned() } else { format!("{sign}{indent}") });
    for (differs, piece) in pieces {
        line.push_str(&if *differs { point(escape(piece)) } else { paint(escape(piece)) });
    }
    line
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;
    use serde_json::{Value, json};

    use super::{Labeled, diff};
    use crate::render::view::View;

    fn template(image: &str, level: &str, script: &str, env: Value) -> Labeled {
        let container = json!({"name": "agent", "image": image, "args": [level, "-c", script], "env": env});
        Labeled::new(format!("{image} \u{1b}[2J"), json!({"spec": {"containers": [container], "hostNetwork": true}}))
    }

    fn diff_of(from: &Labeled, to: &Labeled, context: usize, ascii: bool) -> Option<String> {
        diff(from, to, context, &View::new(Some(80), ascii))
    }

    #[test]
    fn lines_that_differ_are_shown_in_hunks() {
        let from = template("agent:2", "--level=1", "set -e\nrun a b c\n", json!([{"name": "A", "value": "yes"}]));
        let red = json!([{"name": "A", "value": "no"}, {"name": "RED", "value": "\u{1b}[31m é"}]);
        let to = template("agent:3", "--level=2", "set -e\nrun a x c\n", red);
        let expected = r#"--- agent:2 \u{1b}[2J
+++ agent:3 \u{1b}[2J
@@ -3,12 +3,14 @@
   - name: agent
     args:
-    - --level=1
+    - --level=2
     - -c
     - |
       set -e
-      run a b c
+      run a x c
     env:
     - name: A
-      value: "yes"
-    image: agent:2
+      value: "no"
+    - name: RED
+      value: "\u001b[31m é"
+    image: agent:3
   hostNetwork: true
"#;
        let text = diff_of(&from, &to, 2, false).unwrap();
        assert_eq!(strip_str(&text).to_string(), expected);
        let ascii = diff_of(&from, &to, 2, true).unwrap();
        assert!(ascii.is_ascii() && ascii.contains(r"\u00e9"), "{ascii}");
        let text = diff_of(&from, &to, 0, false).unwrap();
        let hunks: Vec<_> =
            text.lines().filter(|line| line.contains("@@")).map(|line| strip_str(line).to_string()).collect();
        assert_eq!(hunks, ["@@ -5 +5 @@", "@@ -9 +9 @@", "@@ -12,2 +12,4 @@"]);
    }

    #[test]
    fn the_words_that_differ_are_pointed_at_by_color_alone() {
        let from = template("agent:2", "--level=1", "a", json!([]));
        let to = template("agent:2", "--level=2", "a", json!([]));
        let text = diff_of(&from, &to, 3, false).unwrap();
        assert!(text.contains("\u{1b}[7m\u{1b}[1m\u{1b}[31m1\u{1b}[39m"), "{text:?}");
        assert!(text.contains("\u{1b}[7m\u{1b}[1m\u{1b}[32m2\u{1b}[39m"), "{text:?}");
    }

    #[test]
    fn nothing_is_written_where_nothing_differs() {
        let from = template("agent:2", "--level=1", "a", json!([]));
        assert_eq!(diff_of(&from, &from.clone(), 3, false), None);
    }
}
