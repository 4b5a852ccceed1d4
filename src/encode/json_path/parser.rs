//! Parses templates and paths.

use serde_json::Value;

use super::{Filter, JsonPath, Operator, Part, Path, Result, Segment, Slice};

impl JsonPath {
    /// Parses a template.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with it.
    pub fn parse(text: &str) -> Result<JsonPath> {
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
        Ok(JsonPath(parts))
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
                steps.push(Segment::Filter(self.filter()?));
                continue;
            }
            if let Some(rest) = self.rest.strip_prefix("..") {
                self.rest = rest;
                if steps.last() == Some(&Segment::Recursive) {
                    return Err("invalid multiple recursive descent".to_owned());
                }
                steps.push(Segment::Recursive);
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
                '"' | '\'' => steps.push(Segment::Literal(Value::String(self.quoted(first)?))),
                '+' | '-' | '0'..='9' => steps.push(Segment::Literal(self.number()?)),
                c if is_word(c) => match self.take(|c| !ends_word(c)) {
                    "true" => steps.push(Segment::Literal(Value::Bool(true))),
                    "false" => steps.push(Segment::Literal(Value::Bool(false))),
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

    fn field(&mut self) -> Segment {
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
        if name == "*" { Segment::Wildcard } else { Segment::Field(name) }
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
    fn brackets(&mut self, steps: &mut Vec<Segment>) -> Result<()> {
        let (inner, rest) = self.rest.split_once(']').ok_or("unterminated array")?;
        self.rest = rest;
        match inner.contains(',') {
            true => {
                let paths = inner.split(',').map(|one| element(one.trim_matches(' ')).map(Path));
                steps.push(Segment::Union(paths.collect::<Result<_>>()?));
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
fn element(text: &str) -> Result<Vec<Segment>> {
    if let Some(name) = text.strip_prefix('\'').and_then(|name| name.strip_suffix('\'')) {
        return Ok(Parser { rest: &format!(".{name}}}") }.path()?.0);
    }
    if text == "*" {
        return Ok(vec![Segment::Slice(Slice::Range { from: None, to: None, step: None })]);
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
    Ok(vec![Segment::Slice(slice)])
}

/// Whether a character can begin a word.
fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Whether a character ends a name unless it is escaped.
fn ends_word(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}
