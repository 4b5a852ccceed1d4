//! JSON in which characters that could control a terminal are escaped, which does not change the values.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

use super::sanitize::is_unsafe;

/// Writes a value over several lines, indented as kubectl does.
pub fn indented(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    write(value, PrettyFormatter::with_indent(b"    "), out)?;
    writeln!(out)
}

/// Writes a value on one line.
pub fn compact(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    write(value, CompactFormatter, out)
}

fn write(value: &impl Serialize, formatter: impl Formatter, out: &mut dyn Write) -> io::Result<()> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, formatter))?;
    // The serializer has escaped everything below a space; in ASCII text, only DEL is left to look for.
    if text.is_ascii() && !text.contains(&0x7f) {
        return out.write_all(&text);
    }
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    let mut rest = text.as_str();
    // Line endings are between values; in strings they are already escaped.
    while let Some(at) = rest.find(|c: char| c != '\n' && is_unsafe(c)) {
        out.write_all(&rest.as_bytes()[..at])?;
        let mut characters = rest[at..].chars();
        for unit in characters.next().into_iter().flat_map(|c| c.encode_utf16(&mut [0; 2]).to_vec()) {
            write!(out, "\\u{unit:04x}")?;
        }
        rest = characters.as_str();
    }
    out.write_all(rest.as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{compact, indented};

    #[test]
    fn what_could_steer_a_terminal_is_escaped_and_read_back_the_same() {
        for (value, expected) in [("\u{1b}", r#""\u001b""#), ("\u{7f}", r#""\u007f""#), ("\t", r#""\t""#)] {
            let mut line = Vec::new();
            compact(&value, &mut line).unwrap();
            assert_eq!(String::from_utf8(line).unwrap(), expected);
        }
        let value = json!({"a": "\u{1b}[31m\u{9b}2J\n", "txt.\u{202e}gpj": ["\u{e0001}", "größe 日本"]});
        let (mut line, mut lines) = (Vec::new(), Vec::new());
        compact(&value, &mut line).unwrap();
        indented(&value, &mut lines).unwrap();
        let expected = r#"{"a":"\u001b[31m\u009b2J\n","txt.\u202egpj":["\udb40\udc01","größe 日本"]}"#;
        assert_eq!(String::from_utf8(line).unwrap(), expected);
        assert_eq!(serde_json::from_slice::<Value>(&lines).unwrap(), value);
        assert_eq!(serde_json::from_str::<Value>(expected).unwrap(), value);
    }
}
