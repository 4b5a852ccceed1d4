//! Label selectors: those of DaemonSets, and those of `-l`.

use std::collections::BTreeMap;

use super::names::{is_label_key, is_label_value};

wire! {
    /// A `metav1.LabelSelector`: requirements that must all hold.
    pub struct LabelSelector {
        /// Labels that must have exactly this value.
        match_labels: BTreeMap<String, String> = 1,
        /// Requirements with an operator.
        match_expressions: Vec<LabelSelectorRequirement> = 2,
    }

    /// One requirement of a label selector.
    pub struct LabelSelectorRequirement {
        /// The label's key.
        key: String = 1,
        /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
        operator: String = 2,
        /// The values it is held against.
        values: Vec<String> = 3,
    }
}

impl LabelSelector {
    /// Returns whether the labels meet every requirement; an empty selector matches all labels.
    ///
    /// A requirement with an unknown operator matches nothing.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.matches(labels))
    }

    /// Returns whether there are no requirements: it matches everything.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }
}

impl LabelSelectorRequirement {
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match self.operator.as_str() {
            "In" => value.is_some_and(|value| self.values.contains(value)),
            "NotIn" => value.is_none_or(|value| !self.values.contains(value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }
}

/// Writes the selector in the syntax of `-l` and the API's `labelSelector`.
impl std::fmt::Display for LabelSelector {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut separator = "";
        for (key, value) in &self.match_labels {
            write!(formatter, "{separator}{key}={value}")?;
            separator = ",";
        }
        for LabelSelectorRequirement { key, operator, values } in &self.match_expressions {
            let is_one = values.len() == 1;
            let values = values.join(",");
            match operator.as_str() {
                "In" if is_one => write!(formatter, "{separator}{key}={values}")?,
                "NotIn" if is_one => write!(formatter, "{separator}{key}!={values}")?,
                "In" => write!(formatter, "{separator}{key} in ({values})")?,
                "NotIn" => write!(formatter, "{separator}{key} notin ({values})")?,
                "DoesNotExist" => write!(formatter, "{separator}!{key}")?,
                _ => write!(formatter, "{separator}{key}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

/// Why a selector cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unable to parse requirement {requirement:?}: {problem}")]
pub struct SelectorError {
    /// The part that cannot be parsed.
    pub requirement: String,
    /// What is wrong with it, and the correct syntax.
    pub problem: String,
}

impl std::str::FromStr for LabelSelector {
    type Err = SelectorError;

    /// Parses a selector like kubectl's `-l`: `a=b,c!=d,e in (f,g),h notin (i),j,!k`. Fails with the first invalid requirement.
    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let mut selector = LabelSelector::default();
        for part in split_outside_parentheses(text) {
            let requirement = part.trim();
            if requirement.is_empty() {
                if text.trim().is_empty() {
                    continue;
                }
                return Err(problem(part, "a requirement is missing between two commas"));
            }
            selector.match_expressions.push(parse_requirement(requirement)?);
        }
        Ok(selector)
    }
}

fn parse_requirement(text: &str) -> Result<LabelSelectorRequirement, SelectorError> {
    let build = |key: &str, operator: &str, values: Vec<String>| -> Result<LabelSelectorRequirement, SelectorError> {
        let key = key.trim();
        if !is_label_key(key) {
            return Err(problem(text, &format!("{key:?} is no label key")));
        }
        if let Some(value) = values.iter().find(|value| !is_label_value(value)) {
            return Err(problem(text, &format!("{value:?} is no label value")));
        }
        Ok(LabelSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values })
    };
    if let Some(open) = text.find('(') {
        let values =
            text[open + 1..].strip_suffix(')').ok_or_else(|| problem(text, "the parenthesis is not closed"))?;
        let values = values.split(',').map(|value| value.trim().to_owned()).collect();
        let mut words = text[..open].split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(key), Some("in"), None) => build(key, "In", values),
            (Some(key), Some("notin"), None) => build(key, "NotIn", values),
            _ => Err(problem(text, "expected KEY in (VALUES) or KEY notin (VALUES)")),
        };
    }
    if let Some((key, value)) = text.split_once("!=") {
        return build(key, "NotIn", vec![value.trim().to_owned()]);
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return build(key, "In", vec![value.trim().to_owned()]);
    }
    match text.strip_prefix('!') {
        Some(key) => build(key, "DoesNotExist", Vec::new()),
        None => build(text, "Exists", Vec::new()),
    }
}

fn problem(requirement: &str, problem: &str) -> SelectorError {
    SelectorError { requirement: requirement.to_owned(), problem: problem.to_owned() }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_i32, 0);
    for (index, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::LabelSelector;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels: BTreeMap<_, _> = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        selector.parse::<LabelSelector>().unwrap().matches(&labels)
    }

    #[test]
    fn every_operator_is_understood() {
        assert!(matches("", &[]));
        assert!(matches("a=b", &[("a", "b")]));
        assert!(matches("a == b", &[("a", "b")]));
        assert!(!matches("a=b", &[("a", "c")]));
        assert!(matches("a!=b", &[]));
        assert!(!matches("a!=b", &[("a", "b")]));
        assert!(matches("a in (b, c),d", &[("a", "c"), ("d", "")]));
        assert!(matches("a notin (b,c)", &[]));
        assert!(matches("!a", &[("b", "")]));
        assert!(!matches("a", &[("b", "")]));
        assert!(matches("a=", &[("a", "")]));
    }

    #[test]
    fn text_that_is_no_selector_is_named() {
        for (text, message) in [
            ("a=b,,c", r#"unable to parse requirement "": a requirement is missing between two commas"#),
            ("a in (b", r#"unable to parse requirement "a in (b": the parenthesis is not closed"#),
            ("a of (b)", r#"unable to parse requirement "a of (b)": expected KEY in (VALUES) or KEY notin (VALUES)"#),
            ("=b", r#"unable to parse requirement "=b": "" is no label key"#),
            ("a=b c", r#"unable to parse requirement "a=b c": "b c" is no label value"#),
        ] {
            assert_eq!(text.parse::<LabelSelector>().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_selector_is_written_as_it_is_read() {
        let text = "a=b,c!=d,e in (f,g),h notin (i,j),!k,l";
        assert_eq!(text.parse::<LabelSelector>().unwrap().to_string(), text);
    }
}
