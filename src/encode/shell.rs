//! Text as one argument of a shell command.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::sanitize::is_unsafe;

/// Quotes an argument for a shell, if it needs quotes; optionally in ASCII only.
///
/// Printable text is quoted as in a POSIX shell. Anything else is written as `$'…'`, which bash, zsh, ksh and busybox
/// read back as the same bytes in every locale; for shells that do not support it, see [`is_unread`]. No argument can
/// contain a NUL byte, so it becomes U+FFFD, which matches no name.
pub fn quote(argument: &str, ascii: bool) -> Cow<'_, str> {
    if !argument.contains(|c| is_escaped(c, ascii))
        && let Ok(quoted) = shlex::try_quote(argument)
    {
        return quoted;
    }
    let mut quoted = "$'".to_owned();
    for (index, c) in argument.chars().enumerate() {
        let _ = match c {
            '\n' if index > 0 => quoted.write_str("\\n"),
            '\t' if index > 0 => quoted.write_str("\\t"),
            '\\' if index > 0 => quoted.write_str("\\\\"),
            // A quote would end it in a shell without `$'…'`, and `!` would expand the history.
            c if index > 0 && c != '\'' && c != '!' && !is_escaped(c, ascii) => quoted.write_char(c),
            '\0' => octal('\u{fffd}', &mut quoted),
            c => octal(c, &mut quoted),
        };
    }
    quoted.push('\'');
    Cow::Owned(quoted)
}

/// Returns whether an argument was quoted as `$'…'` and passed on by a shell that does not support it, such as dash.
///
/// [`quote`] starts it with an octal number, so that it cannot be mistaken for anything that a user writes.
pub fn is_unread(argument: &str) -> bool {
    let digits = argument.strip_prefix("$\\").and_then(|rest| rest.get(..3));
    digits.is_some_and(|digits| digits.bytes().all(|digit| matches!(digit, b'0'..=b'7')))
}

/// Returns whether a character cannot be printed and copied as it is.
fn is_escaped(c: char, ascii: bool) -> bool {
    is_unsafe(c) || (c.is_whitespace() && c != ' ') || (ascii && !c.is_ascii())
}

/// Writes the bytes of a character, which no locale can misread.
fn octal(c: char, quoted: &mut String) -> std::fmt::Result {
    c.encode_utf8(&mut [0; 4]).bytes().try_for_each(|byte| write!(quoted, "\\{byte:03o}"))
}

#[cfg(test)]
mod tests {
    use super::{is_unread, quote};

    #[test]
    fn plain_quotes_are_used_if_they_suffice() {
        for argument in
            ["agent", "", "a b", "$(reboot)", "`id`", "it's", "a;b", "!x", "~", "*", "-n", "é", "a!b'c", "=ls"]
        {
            let quoted = quote(argument, false);
            assert!(!quoted.contains("$'"), "{quoted}");
            assert_eq!(shlex::split(&quoted), Some(vec![argument.to_owned()]), "{argument:?}");
        }
        assert_eq!(quote("agent-x7k2p", false), "agent-x7k2p");
    }

    #[test]
    fn what_cannot_be_shown_is_escaped() {
        for (argument, ascii, expected) in [
            ("set -e\ncheck", false, r"$'\163et -e\ncheck'"),
            ("it's\ta\\b !x", false, r"$'\151t\047s\ta\\b \041x'"),
            ("grüße", false, "'grüße'"),
            ("grüße", true, r"$'\147r\303\274\303\237e'"),
            ("\u{1b}[31m", false, r"$'\033[31m'"),
            ("\n", false, r"$'\012'"),
            ("a\u{a0}b\u{202e}", false, r"$'\141\302\240b\342\200\256'"),
            ("a\0b", false, r"$'\141\357\277\275b'"),
        ] {
            assert_eq!(quote(argument, ascii), expected, "{argument:?}");
        }
    }

    /// dash passes on the `$` and the text between the quotes.
    #[test]
    fn an_argument_that_the_shell_did_not_read_is_recognized() {
        for argument in ["set -e\ncheck", "\n", "ü\t", "\\\n"] {
            let quoted = quote(argument, true);
            assert!(is_unread(&format!("${}", &quoted[2..quoted.len() - 1])), "{quoted}");
        }
        for argument in ["", "$", "$HOME/check", "$\\n", "$\\0", "\\163et", "$\\ü00"] {
            assert!(!is_unread(argument), "{argument}");
        }
    }
}
