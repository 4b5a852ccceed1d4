//! Finds secrets in text, by what stands before them: in URLs, shell commands, messages and embedded JSON.

use std::ops::Range;

/// Returns where the secrets of a text are: passwords of URLs, and values that are named like a secret, such as
/// `?token=…`, `DB_PASSWORD=…`, `--password …` and `"apiKey": "…"`.
pub(super) fn secrets_in(text: &str) -> Vec<Range<usize>> {
    let assigned = text.match_indices('=').filter_map(|(at, _)| {
        let (_, name) = split_name(&text[..at]);
        is_secret_name(name).then(|| value_at(text, at + 1))
    });
    let members = text.match_indices(':').filter_map(|(at, _)| {
        let (quote, before) =
            text[..at].trim_end().char_indices().next_back().map(|(at, quote)| (quote, &text[..at]))?;
        let (_, name) = split_name(before.trim_end_matches('\\'));
        let start = at + 1 + blanks(&text[at + 1..]);
        (is_quote(quote) && is_secret_name(name) && opening(&text[start..]).is_some()).then(|| value_at(text, start))
    });
    let flags = text.match_indices(|c: char| c.is_ascii_whitespace()).filter_map(|(at, _)| {
        let (before, name) = split_name(&text[..at]);
        let is_flag = name.starts_with('-')
            && (before.is_empty() || before.ends_with(|c: char| c.is_whitespace() || is_quote(c)));
        let start = at + blanks(&text[at..]);
        (is_flag && is_secret_name(name) && !is_flag_name(&text[start..])).then(|| value_at(text, start))
    });
    let mut found: Vec<Range<usize>> = passwords(text).chain(assigned).chain(members).chain(flags).collect();
    found.retain(|range| !range.is_empty());
    found.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    found.dedup_by(|later, earlier| later.start < earlier.end);
    found
}

/// Returns the words of a command that are secrets, and where in the word: the values of flags such as `--password=…`
/// and `--token …`. A word needs no quotes, so that a value takes all of it.
pub(super) fn secrets_in_words<'a>(words: &[&'a str]) -> impl Iterator<Item = (usize, &'a str)> {
    words.iter().enumerate().filter_map(|(index, word)| {
        if !word.starts_with('-') {
            return None;
        }
        match word.split_once('=') {
            Some((name, value)) => is_secret_name(name).then_some((index, value)),
            None => {
                let value = words.get(index + 1)?;
                (is_secret_name(word) && !is_flag_name(value)).then_some((index + 1, *value))
            }
        }
    })
}

/// Returns whether a flag, variable or parameter of this name usually has a secret as its value; those of files have none.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['-', '_', '.'], "");
    let is_of_file = ["file", "path", "dir", "name"].iter().any(|end| name.ends_with(end));
    !is_of_file
        && ["password", "passwd", "secret", "token", "apikey", "credential"].iter().any(|word| name.contains(word))
}

/// Returns whether a text begins with a flag, such as `--verbose` or `-v`, rather than with a secret.
fn is_flag_name(text: &str) -> bool {
    let word = text.split(|c: char| c.is_whitespace() || is_quote(c)).next().unwrap_or_default();
    let is_short = word.len() == 2 && word.starts_with('-');
    is_short || word.strip_prefix("--").is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
}

/// Splits the name off that a text ends with.
fn split_name(text: &str) -> (&str, &str) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.split_at(text.trim_end_matches(is_part).len())
}

/// Returns where the value is that begins at a position: to the closing quote, or to what ends a word.
fn value_at(text: &str, start: usize) -> Range<usize> {
    let rest = &text[start..];
    if let Some((length, quote)) = opening(rest) {
        let inside = &rest[length..];
        // An escaped quote is escaped once more than those around the value.
        let escapes = length - quote.len_utf8();
        let mut ends = inside.match_indices(quote);
        let end = ends.find_map(|(at, _)| {
            let before = inside[..at].len() - inside[..at].trim_end_matches('\\').len();
            (before <= escapes).then_some(at - before)
        });
        return start + length..start + length + end.unwrap_or(inside.len());
    }
    let ends =
        |c: char| c.is_whitespace() || is_quote(c) || matches!(c, '&' | '#' | ';' | '|' | '<' | '>' | '(' | ')' | '\\');
    let value = rest.split(ends).next().unwrap_or_default();
    // In `password=x,user=y` there are two.
    let mut commas = value.match_indices(',');
    let end = commas.find(|(at, _)| {
        value[at + 1..].split_once('=').is_some_and(|(name, _)| !name.is_empty() && split_name(name).0.is_empty())
    });
    start..start + end.map_or(value.len(), |(at, _)| at)
}

/// Returns the quote that a text begins with, and the length of it with its escapes.
fn opening(text: &str) -> Option<(usize, char)> {
    let escapes = text.len() - text.trim_start_matches('\\').len();
    let quote = text[escapes..].chars().next().filter(|c| is_quote(*c))?;
    Some((escapes + quote.len_utf8(), quote))
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '`')
}

fn blanks(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

/// Returns where the passwords of URLs such as `https://user:password@host` are.
fn passwords(text: &str) -> impl Iterator<Item = Range<usize>> {
    let ends = |c: char| c.is_whitespace() || is_quote(c) || matches!(c, '<' | '>' | '/' | '?' | '#' | '\\');
    text.match_indices("://").filter_map(move |(at, scheme)| {
        let start = at + scheme.len();
        let authority = text[start..].split(ends).next().unwrap_or_default();
        let (user, _) = authority.rsplit_once('@')?;
        let (name, password) = user.split_once(':')?;
        let start = start + name.len() + 1;
        Some(start..start + password.len())
    })
}

/// Returns the registries that a message of the kubelet names: those of images, and those of URLs of the registry API.
pub(super) fn registries_in(text: &str) -> impl Iterator<Item = &str> {
    let quoted = ["image \"", "reference \"", "image '"].into_iter().flat_map(|before| text.split(before).skip(1));
    let images = quoted.filter_map(|rest| registry(rest.split(is_quote).next()?));
    let urls = text.split("://").skip(1).filter_map(|rest| {
        let (host, path) = rest.split_once('/')?;
        let is_host = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:".contains(&byte));
        (is_host && path.starts_with("v2/")).then_some(host)
    });
    images.chain(urls)
}

/// Returns the registry that an image is pulled from, if the image names one.
pub(super) fn registry(image: &str) -> Option<&str> {
    let image = image.split_once("://").map_or(image, |(_, image)| image);
    let (first, _) = image.split_once('/')?;
    (first.contains(['.', ':']) || first == "localhost").then_some(first)
}

#[cfg(test)]
mod tests {
    use super::{registries_in, registry, secrets_in, secrets_in_words};

    #[test]
    fn secrets_are_found_by_what_stands_before_them() {
        for (text, expected) in [
            ("push to https://bot:S3CRET@host:9091/x?job=a&api_key=K3Y#top now", ["S3CRET", "K3Y"].as_slice()),
            ("http://user@host/a:b@c, redis://:pass@r/0", &["pass"]),
            ("https://host/x?page=2", &[]),
            ("/healthz?token=abc&x=1", &["abc"]),
            ("curl -s localhost/quit?access_token='a b'", &["a b"]),
            ("exec agent --db-password=one --token two --token-file=/x --secret-name=s -v=3", &["one", "two"]),
            ("agent --password /x/y --client-secret -a1b2 --token --verbose --secret -v", &["/x/y", "-a1b2"]),
            ("kubectl set env ds/agent DB_PASSWORD=hunter2 --record=true", &["hunter2"]),
            ("helm upgrade --set password=x,user=y,auth.token=z", &["x", "z"]),
            (r#"{"password": "a\"b", "token": 5, "secretName": "s"}"#, &[r#"a\"b"#]),
            (r#"--config={\"apiKey\":\"k\",\"user\":\"u\"}"#, &["k"]),
            (r#"sh -c "agent --password=\"a b\" -x""#, &["a b"]),
            ("Liveness probe failed: Get \"http://u:p@10.0.0.1/?secret=s\": EOF", &["p", "s"]),
            ("secret \"agent-token\" not found, token: expired, password=", &[]),
        ] {
            let found: Vec<&str> = secrets_in(text).into_iter().map(|range| &text[range]).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn the_value_of_a_flag_is_the_whole_word() {
        let found = |words: &[&'static str]| secrets_in_words(words).collect::<Vec<_>>();
        assert_eq!(
            found(&["agent", "--db-password=o;n e", "--token", "two", "--token-file=/x", "--secret-name=s", "-v=3"]),
            [(1, "o;n e"), (3, "two")]
        );
        assert_eq!(
            found(&["--token", "--verbose", "--client-secret", "/etc/secret", "--password=-x"]),
            [(3, "/etc/secret"), (4, "-x")]
        );
    }

    #[test]
    fn a_registry_is_the_part_before_the_slash_that_looks_like_a_host() {
        for (image, found) in [
            ("nginx:1.2", None),
            ("library/nginx", None),
            ("registry.example.com/app:1", Some("registry.example.com")),
            ("registry:5000/team/app@sha256:abc", Some("registry:5000")),
            ("docker-pullable://registry:5000/team/app@sha256:abc", Some("registry:5000")),
            ("localhost/app", Some("localhost")),
        ] {
            assert_eq!(registry(image), found, "{image}");
        }
        let message = "Failed to pull image \"a.corp/x:1\": failed to resolve reference \"b.corp:5000/x:1\": Head \
            \"https://c.corp/v2/x/manifests/1\": lookup c.corp: no such host; taint \"node.kubernetes.io/unreachable\"";
        assert_eq!(registries_in(message).collect::<Vec<_>>(), ["a.corp", "b.corp:5000", "c.corp"]);
    }
}
