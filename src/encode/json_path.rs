//! JSONPath templates, as kubectl's `-o jsonpath` takes them: text with paths in braces, and loops.
//!
//! The language is that of client-go 1.36, `util/jsonpath`, which is older than RFC 9535 and differs from it: there are
//! loops, names with dashes and slashes need no quotes, and a dot in a name is escaped by a backslash.

use std::cmp::Ordering;
use std::fmt::Write;

use serde_json::Value;

use super::sanitize::{escape, is_unsafe};

/// A template.
#[derive(Debug, Clone, PartialEq)]
pub struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    Print(Path),
    /// Repeats parts for each value that is found.
    Range(Path, Vec<Part>),
}

/// A path from a value to values below it.
#[derive(Debug, Clone, PartialEq)]
pub struct Path(Vec<Step>);

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    /// All values of an object or an array.
    Wildcard,
    /// The value itself and all values below it that have values below them.
    Recursive,
    Slice(Slice),
    Union(Vec<Path>),
    Filter(Filter),
    /// A value that the template contains.
    Literal(Value),
}

/// Elements of an array, counted from the end if negative.
#[derive(Debug, Clone, PartialEq)]
enum Slice {
    Index(i64),
    Range { from: Option<i64>, to: Option<i64>, step: Option<i64> },
}

/// Elements of an array for which a path leads to a value, or to a value that compares as required.
#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: Path,
    comparison: Option<(Operator, Path)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What is wrong with a template, or with applying it.
type Result<T> = std::result::Result<T, String>;

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with it.
    pub fn parse(text: &str) -> Result<Template> {
        let mut open: Vec<(Path, Vec<Part>)> = Vec::new();
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            let mut parser = Parser { rest: after };
            match parser.action()? {
                Action::Print(path) => parts.push(Part::Print(path)),
                Action::Range(path) => open.push((path, std::mem::take(&mut parts))),
                Action::End => {
                    let (path, before) = open.pop().ok_or("not in range, nothing to end")?;
                    let repeated = std::mem::replace(&mut parts, before);
                    parts.push(Part::Range(path, repeated));
                }
            }
            rest = parser.rest;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        // Without an end, a range is that of the rest.
        while let Some((path, before)) = open.pop() {
            let repeated = std::mem::replace(&mut parts, before);
            parts.push(Part::Range(path, repeated));
        }
        Ok(Template(parts))
    }

    /// Applies the template to a value. What controls a terminal is escaped in values, not in the template's own text.
    ///
    /// # Errors
    ///
    /// Returns why a path cannot be followed, as where an index is beyond the end of an array. A field that does not exist
    /// is no error.
    pub fn apply(&self, value: &Value) -> Result<String> {
        let mut text = String::new();
        apply(&self.0, value, &mut text)?;
        Ok(text)
    }
}

fn apply(parts: &[Part], value: &Value, text: &mut String) -> Result<()> {
    for part in parts {
        match part {
            Part::Text(literal) => text.push_str(literal),
            Part::Print(path) => {
                if let [Step::Literal(Value::String(literal))] = path.0.as_slice() {
                    text.push_str(literal);
                    continue;
                }
                let found: Vec<String> = path.find(value)?.into_iter().map(shown).collect();
                text.push_str(&found.join(" "));
            }
            Part::Range(path, repeated) => {
                for value in path.find(value)? {
                    apply(repeated, value, text)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns a value as kubectl prints it: strings as they are, objects and arrays as compact JSON.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.split('\n').map(escape).collect::<Vec<_>>().join("\n"),
        other => other.to_string().chars().fold(String::new(), |mut text, c| {
            match is_unsafe(c) {
                true => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(text, "\\u{unit:04x}")),
                false => text.push(c),
            }
            text
        }),
    }
}

impl Path {
    /// Parses a path as `-o custom-columns` takes it, where braces and the first dot may be left out.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with it.
    pub fn parse_relaxed(text: &str) -> Result<Path> {
        let inner = text.strip_prefix('{').map_or(Some(text), |inner| inner.strip_suffix('}'));
        let inner = inner.map(|inner| inner.strip_prefix('.').unwrap_or(inner));
        let inner = inner.filter(|inner| !inner.is_empty() && !inner.contains(['{', '}']));
        let inner = inner.ok_or_else(|| format!("invalid path {text:?}, expected one such as .name or {{.name}}"))?;
        Parser { rest: &format!(".{inner}}}") }.path()
    }

    /// Returns the values that the path leads to.
    ///
    /// # Errors
    ///
    /// Returns why it cannot be followed.
    pub fn find<'a>(&'a self, value: &'a Value) -> Result<Vec<&'a Value>> {
        self.0.iter().try_fold(vec![value], |values, step| step.find(values))
    }
}

impl Step {
    fn find<'a>(&'a self, values: Vec<&'a Value>) -> Result<Vec<&'a Value>> {
        let found = match self {
            Step::Field(name) => values.into_iter().filter_map(|value| value.as_object()?.get(name)).collect(),
            Step::Wildcard => values.into_iter().flat_map(children).collect(),
            Step::Recursive => {
                let mut found = Vec::new();
                values.into_iter().for_each(|value| descend(value, &mut found));
                found
            }
            Step::Slice(slice) => {
                let mut found = Vec::new();
                for value in values.into_iter().filter(|value| !value.is_null()) {
                    found.extend(slice.of(array(value)?)?);
                }
                found
            }
            Step::Union(paths) => {
                let mut found = Vec::new();
                for path in paths {
                    found.extend(path.0.iter().try_fold(values.clone(), |values, step| step.find(values))?);
                }
                found
            }
            Step::Filter(filter) => {
                let mut found = Vec::new();
                for value in values {
                    for element in array(value)? {
                        if filter.takes(element)? {
                            found.push(element);
                        }
                    }
                }
                found
            }
            Step::Literal(text @ Value::String(_)) => vec![text],
            Step::Literal(literal) => values.iter().map(|_| literal).collect(),
        };
        Ok(found)
    }
}

fn array(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().ok_or_else(|| match value {
        Value::Object(_) => "an object is not an array".to_owned(),
        other => format!("{other} is not an array"),
    })
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(values) => values.iter().collect(),
        Value::Object(values) => values.values().collect(),
        _ => Vec::new(),
    }
}

fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    let children = children(value);
    if !children.is_empty() {
        found.push(value);
        children.into_iter().for_each(|child| descend(child, found));
    }
}

impl Slice {
    fn of<'a>(&self, values: &'a [Value]) -> Result<Vec<&'a Value>> {
        let length = i64::try_from(values.len()).unwrap_or(i64::MAX);
        let from_start = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
        let (from, to, step) = match *self {
            Slice::Index(index) => (from_start(index), from_start(index).saturating_add(1), 1),
            Slice::Range { from, to, step } => {
                (from_start(from.unwrap_or(0)), from_start(to.unwrap_or(length)), step.unwrap_or(1))
            }
        };
        if from == to {
            return Ok(Vec::new());
        }
        let out_of_bounds = |index: i64| format!("array index out of bounds: index {index}, length {length}");
        if !(0..length).contains(&from) {
            return Err(out_of_bounds(from));
        }
        if !(0..=length).contains(&to) {
            return Err(out_of_bounds(to.saturating_sub(1)));
        }
        if from > to {
            return Err(format!("starting index {from} is greater than ending index {to}"));
        }
        let index = |index: i64| usize::try_from(index).map_err(|_| "step must be > 0".to_owned());
        match index(step)? {
            0 => Err("step must be > 0".to_owned()),
            step => Ok(values[index(from)?..index(to)?].iter().step_by(step).collect()),
        }
    }
}

impl Filter {
    fn takes(&self, element: &Value) -> Result<bool> {
        let Some((operator, right)) = &self.comparison else {
            return Ok(self.left.find(element).is_ok_and(|found| !found.is_empty()));
        };
        let (left, right) = (self.left.find(element)?, right.find(element)?);
        match (left.as_slice(), right.as_slice()) {
            ([], _) | (_, []) => Ok(false),
            ([left], [right]) => operator.holds(left, right),
            _ => Err("can only compare one element at a time".to_owned()),
        }
    }
}

impl Operator {
    fn holds(self, left: &Value, right: &Value) -> Result<bool> {
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (Value::Number(left), Value::Number(right)) => left.as_f64().partial_cmp(&right.as_f64()),
            // Boolean values are equal or not.
            (Value::Bool(left), Value::Bool(right)) if left == right => Some(Ordering::Equal),
            (Value::Bool(_), Value::Bool(_)) => None,
            _ => return Err("incompatible types for comparison".to_owned()),
        };
        Ok(match self {
            Operator::Equal => order == Some(Ordering::Equal),
            Operator::NotEqual => order != Some(Ordering::Equal),
            Operator::Less => order == Some(Ordering::Less),
            Operator::LessOrEqual => order.is_some_and(Ordering::is_le),
            Operator::Greater => order == Some(Ordering::Greater),
            Operator::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        })
    }
}

/// What braces contain.
enum Action {
    Print(Path),
    Range(Path),
    End,
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn action(&mut self) -> Result<Action> {
        self.rest = self.rest.trim_start_matches(' ');
        let word = &self.rest[..self.rest.find(ends_word).unwrap_or(self.rest.len())];
        match word {
            "range" | "end" => {
                self.rest = &self.rest[word.len()..];
                let path = self.path()?;
                Ok(if word == "range" { Action::Range(path) } else { Action::End })
            }
            _ => self.path().map(Action::Print),
        }
    }

    /// Parses the steps up to the closing brace, which is consumed.
    fn path(&mut self) -> Result<Path> {
        let mut steps = Vec::new();
        loop {
            if let Some(rest) = self.rest.strip_prefix("[?(") {
                self.rest = rest;
                steps.push(Step::Filter(self.filter()?));
                continue;
            }
            if let Some(rest) = self.rest.strip_prefix("..") {
                self.rest = rest;
                if steps.last() == Some(&Step::Recursive) {
                    return Err("invalid multiple recursive descent".to_owned());
                }
                steps.push(Step::Recursive);
                if rest.starts_with(is_word) {
                    steps.push(self.field());
                }
                continue;
            }
            let mut characters = self.rest.chars();
            let first = characters.next().filter(|c| !matches!(c, '\r' | '\n')).ok_or("unclosed action")?;
            match first {
                '}' => {
                    self.rest = characters.as_str();
                    return Ok(Path(steps));
                }
                ' ' | '@' | '$' => self.rest = characters.as_str(),
                '.' => {
                    self.rest = characters.as_str();
                    steps.push(self.field());
                }
                '[' => {
                    self.rest = characters.as_str();
                    self.brackets(&mut steps)?;
                }
                '"' | '\'' => steps.push(Step::Literal(Value::String(self.quoted(first)?))),
                '+' | '-' | '0'..='9' => steps.push(Step::Literal(self.number()?)),
                c if is_word(c) => match self.take(|c| !ends_word(c)) {
                    "true" => steps.push(Step::Literal(Value::Bool(true))),
                    "false" => steps.push(Step::Literal(Value::Bool(false))),
                    word => return Err(format!("unrecognized identifier {word}")),
                },
                c => return Err(format!("unrecognized character in action: {c:?}")),
            }
        }
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn field(&mut self) -> Step {
        let mut name = String::new();
        let mut characters = self.rest.chars();
        loop {
            self.rest = characters.as_str();
            match characters.next() {
                Some('\\') => name.extend(characters.next()),
                Some(c) if !ends_word(c) => name.push(c),
                _ => break,
            }
        }
        if name == "*" { Step::Wildcard } else { Step::Field(name) }
    }

    fn number(&mut self) -> Result<Value> {
        let sign = self.take(|c| matches!(c, '+' | '-'));
        let digits = self.take(|c| c.is_ascii_digit() || c == '.');
        let text = format!("{}{digits}", sign.trim_start_matches('+'));
        let number = text.parse::<i64>().map(Value::from);
        number
            .or_else(|_| text.parse::<f64>().map(Value::from))
            .map_err(|_| format!("cannot parse number {sign}{digits}"))
    }

    /// Parses a quoted string and its escape sequences.
    fn quoted(&mut self, quote: char) -> Result<String> {
        let mut characters = self.rest.chars().skip(1);
        let mut text = String::new();
        let mut length = quote.len_utf8();
        loop {
            let c = characters.next().filter(|c| *c != '\n').ok_or("unterminated quoted string")?;
            length += c.len_utf8();
            match c {
                '\\' => {
                    let escaped = characters.next().ok_or("unterminated quoted string")?;
                    length += escaped.len_utf8();
                    text.push(match escaped {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        '\\' | '"' | '\'' => escaped,
                        other => return Err(format!("invalid escape sequence \\{other}")),
                    });
                }
                c if c == quote => break,
                c => text.push(c),
            }
        }
        self.rest = &self.rest[length..];
        Ok(text)
    }

    /// Parses what is between brackets: an index, a slice, a name in quotes, or several of them.
    fn brackets(&mut self, steps: &mut Vec<Step>) -> Result<()> {
        let (inner, rest) = self.rest.split_once(']').ok_or("unterminated array")?;
        self.rest = rest;
        match inner.contains(',') {
            true => {
                let paths = inner.split(',').map(|one| element(one.trim_matches(' ')).map(Path));
                steps.push(Step::Union(paths.collect::<Result<_>>()?));
            }
            false => steps.extend(element(inner)?),
        }
        Ok(())
    }

    fn filter(&mut self) -> Result<Filter> {
        let mut quote = None;
        let end = self.rest.char_indices().find(|(at, c)| match (quote, c) {
            (None, '"' | '\'') => {
                quote = Some(*c);
                false
            }
            (Some(open), c) if open == *c && !self.rest[..*at].ends_with('\\') => {
                quote = None;
                false
            }
            (None, ')') => true,
            _ => false,
        });
        let (end, _) = end.ok_or("unterminated filter")?;
        let inner = &self.rest[..end];
        self.rest = self.rest[end + 1..].strip_prefix(']').ok_or("unclosed array, expected ]")?;
        let path = |text: &str| Parser { rest: &format!("{text}}}") }.path();
        let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let Some(at) = inner.find(is_operator) else {
            return Ok(Filter { left: path(inner)?, comparison: None });
        };
        let (left, right) = inner.split_at(at);
        let operand = right.trim_start_matches(is_operator);
        let operator = match &right[..right.len() - operand.len()] {
            "==" => Operator::Equal,
            "!=" => Operator::NotEqual,
            "<" => Operator::Less,
            "<=" => Operator::LessOrEqual,
            ">" => Operator::Greater,
            ">=" => Operator::GreaterOrEqual,
            other => return Err(format!("unrecognized filter operator {other}")),
        };
        Ok(Filter { left: path(left)?, comparison: Some((operator, path(operand)?)) })
    }
}

/// Parses a name in quotes, in which a dot must be escaped, too, or an index, or a slice.
fn element(text: &str) -> Result<Vec<Step>> {
    if let Some(name) = text.strip_prefix('\'').and_then(|name| name.strip_suffix('\'')) {
        return Ok(Parser { rest: &format!(".{name}}}") }.path()?.0);
    }
    if text == "*" {
        return Ok(vec![Step::Slice(Slice::Range { from: None, to: None, step: None })]);
    }
    let invalid = || format!("invalid array index {text}");
    let number = |text: &str| match text {
        "" => Ok(None),
        digits => digits.parse().map(Some).map_err(|_| invalid()),
    };
    let slice = match text.split(':').collect::<Vec<_>>().as_slice() {
        [index] => Slice::Index(number(index)?.ok_or_else(invalid)?),
        [from, to] => Slice::Range { from: number(from)?, to: number(to)?, step: None },
        [from, to, step] => Slice::Range { from: number(from)?, to: number(to)?, step: number(step)? },
        _ => return Err(invalid()),
    };
    Ok(vec![Step::Slice(slice)])
}

/// Whether a character can begin a word.
fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Whether a character ends a name unless it is escaped.
fn ends_word(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Path, Template};

    fn apply(template: &str, value: &Value) -> Result<String, String> {
        Template::parse(template)?.apply(value)
    }

    fn store() -> Value {
        json!({
            "name": "jsonpath",
            "book": [
                {"category": "reference", "author": "Nigel Rees", "price": 8.95},
                {"category": "fiction", "author": "Evelyn Waugh", "price": 12.99},
                {"category": "fiction", "author": "Herman Melville", "price": 8.99, "sold": null},
            ],
            "bicycle": [{"color": "red", "isNew": true}, {"color": "green", "isNew": false}],
            "labels": {"engineer": 10, "web/html": 15, "k8s-app": 20, "example.com/a": "b"},
            "numbers": [0, 1, 2, 3, 4],
            "lists": [[1], [], [2]],
        })
    }

    /// The cases of `jsonpath_test.go` that JSON can have, and others.
    #[test]
    fn templates_are_applied_as_by_kubectl() {
        for (template, expected) in [
            ("hello jsonpath", "hello jsonpath"),
            ("hello {.name}", "hello jsonpath"),
            (r#"{"{"}"#, "{"),
            (r#"{"a\tb\n"}{'\''}"#, "a\tb\n'"),
            ("{.numbers}", "[0,1,2,3,4]"),
            ("{.numbers[?(@<2)]}", "0 1"),
            ("{.numbers[?(@ >= 3)]}", "3 4"),
            ("{.numbers[1,3,4]}", "1 3 4"),
            ("{.numbers[0:2]} {.numbers[:2]} {.numbers[3:]}", "0 1 0 1 3 4"),
            ("{.numbers[-1]} {.numbers[-2:]} {.numbers[::2]} {.numbers[2:2]}", "4 3 4 0 2 4 "),
            ("{.numbers[*]}", "0 1 2 3 4"),
            ("{.lists[*][*]}", "1 2"),
            ("{$.labels.web/html}", "15"),
            ("{.labels.k8s-app}", "20"),
            (r"{.labels.example\.com/a}", "b"),
            (r"{.labels['k8s-app', 'example\.com/a']}", "20 b"),
            ("{.bicycle[*].color}", "red green"),
            ("{.bicycle.*.color}", "red green"),
            (r#"{range .bicycle[*]}{ "<" }{ @.* }{ "> " }{end}"#, "<red true> <green false> "),
            ("{..price}", "8.95 12.99 8.99"),
            ("{...price}", "8.95 12.99 8.99"),
            ("{..book[2].author}", "Herman Melville"),
            ("{.bicycle[?(@.isNew==true)]}", r#"{"color":"red","isNew":true}"#),
            ("{.bicycle[?(@.isNew!=true)].color}", "green"),
            (r#"{.book[?(@.author=="Evelyn Waugh")].price}"#, "12.99"),
            ("{.book[?(@.author=='A) B')].price}", ""),
            ("{.book[?(@.sold)].author}", "Herman Melville"),
            ("{.book[2].sold}", "null"),
            ("{.book[2].sold.to}", ""),
            ("before-{.none}after {.none[0].of} {.name.of}", "before-after  "),
            (r#"{range .lists[*]}{range @[*]}{@}{","}{end}{";"}{end}end"#, "1,;;2,;end"),
            (r#"{range .bicycle[*]}{.color}{" "}"#, "red green "),
            ("{.bicycle[0]['color']}{true}{-1}{2.5}", "redtrue-12.5"),
        ] {
            assert_eq!(apply(template, &store()).as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_template_is_named() {
        for (template, expected) in [
            ("{.name", "unclosed action"),
            ("{hello}", "unrecognized identifier hello"),
            ("{.labels[0]}", "an object is not an array"),
            ("{.name[?(@)]}", "\"jsonpath\" is not an array"),
            ("{.numbers[7]}", "array index out of bounds: index 7, length 5"),
            ("{.numbers[0:9]}", "array index out of bounds: index 8, length 5"),
            ("{.numbers[3:1]}", "starting index 3 is greater than ending index 1"),
            ("{.numbers[::0]}", "step must be > 0"),
            ("{.numbers[]}", "invalid array index "),
            ("{.numbers[a]}", "invalid array index a"),
            ("{.numbers[1}", "unterminated array"),
            ("{.book[?(@.price<>10)]}", "unrecognized filter operator <>"),
            ("{.book[?(@.price=='10')]}", "incompatible types for comparison"),
            ("{.book[?(@.price]}", "unterminated filter"),
            ("{.book[?(@.*=='x')]}", "can only compare one element at a time"),
            ("{range .labels.*}{@}{end}{end}", "not in range, nothing to end"),
            ("{........name}", "invalid multiple recursive descent"),
            (r#"{"x}"#, "unterminated quoted string"),
            ("{#}", "unrecognized character in action: '#'"),
        ] {
            assert_eq!(apply(template, &store()), Err(expected.to_owned()), "{template}");
        }
    }

    #[test]
    fn values_cannot_control_a_terminal() {
        let value = json!({"a": "\u{1b}[31m\n\u{202e}b", "c": ["\u{1b}\u{e0001}", "é"]});
        let expected = "\\u{1b}[31m\n\\u{202e}b [\"\\u001b\\udb40\\udc01\",\"é\"]";
        assert_eq!(apply("{.a} {.c}", &value).as_deref(), Ok(expected));
    }

    #[test]
    fn paths_of_columns_need_no_braces() {
        for path in ["name", ".name", "{name}", "{.name}"] {
            assert_eq!(Path::parse_relaxed(path).unwrap().find(&store()), Ok(vec![&json!("jsonpath")]), "{path}");
        }
        for path in ["", "{", "{.a}{.b}", ".a}", "{}"] {
            assert!(Path::parse_relaxed(path).is_err(), "{path}");
        }
    }
}
