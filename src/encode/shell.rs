//! Text as one argument of a POSIX shell command.

use std::borrow::Cow;

/// Quotes an argument for a POSIX shell, if it needs quotes.
///
/// No shell can pass on a NUL byte, so it is left out.
pub fn quote(argument: &str) -> Cow<'_, str> {
    match shlex::try_quote(argument) {
        Ok(quoted) => quoted,
        Err(_) => {
            let argument = argument.replace('\0', "");
            Cow::Owned(shlex::try_quote(&argument).map(Cow::into_owned).unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn a_shell_reads_back_the_argument() {
        for argument in
            ["agent", "", "a b", "$(reboot)", "`id`", "it's", "a;b", "a\nb", "!x", "~", "*", "-n", "é", "^x", "a!b'c"]
        {
            assert_eq!(shlex::split(&quote(argument)), Some(vec![argument.to_owned()]), "{argument:?}");
        }
        assert_eq!(quote("agent-x7k2p"), "agent-x7k2p");
        assert_eq!(quote("a\0b"), "ab");
    }
}
