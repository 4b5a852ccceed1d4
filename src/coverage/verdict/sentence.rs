//! Sentences whose values may differ from node to node, so that one sentence stands for many nodes.
//!
//! A rule builds a [`Sentence`] for one node from fixed words and values. Sentences with the same words
//! are merged: amounts become ranges, and names become the name that they share.

use jiff::Timestamp;

use crate::model::event::Event;
use crate::report::age::{format_age, seconds_between};
use crate::scheduling::resources::format_amount;

/// How many different values a merged sentence lists.
const VALUES_SHOWN: usize = 3;

/// A sentence made of words and values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sentence {
    parts: Vec<SentencePart>,
}

/// A piece of a sentence.
#[derive(Debug, Clone, PartialEq)]
enum SentencePart {
    /// Words that must be the same for two sentences to merge.
    Words(String),
    /// An amount of a resource, lowest and highest.
    Amount { resource: String, low: i64, high: i64 },
    /// The most of a resource that is possible, on the node with the least and on the one with the most.
    Most { resource: String, low: i64, high: i64 },
    /// A time span in seconds, shortest and longest.
    Age { low: i64, high: i64 },
    /// A number, lowest and highest.
    Number { low: i64, high: i64 },
    /// A number of which the highest one counts, and words that belong to it.
    Greatest { number: i64, words: String },
    /// A name that is of one node only, and what replaces it for several.
    Name { one: Option<String>, many: String },
    /// Values that are listed if they differ; the first few, and how many more there are. What others have said differs only if more
    /// than identifiers do.
    Values { shown: Vec<String>, more: usize, are_said: bool },
    /// A value of which the first one serves as an example.
    Example(String),
    /// What tells sentences with the same words apart, without being written.
    Apart(String),
}

impl Sentence {
    /// Creates an empty sentence.
    pub fn new() -> Self {
        Sentence::default()
    }

    /// Adds words that are the same if the cause is the same.
    pub fn words(mut self, words: impl AsRef<str>) -> Self {
        if let Some(SentencePart::Words(last)) = self.parts.last_mut() {
            last.push_str(words.as_ref());
        } else {
            self.parts.push(SentencePart::Words(words.as_ref().to_owned()));
        }
        self
    }

    /// Adds the message of an event, and how long ago it was last seen.
    pub fn event(self, event: &Event, now: Timestamp) -> Self {
        self.said(event.message.trim()).seen(event, now)
    }

    /// Adds how long ago an event was last seen.
    pub fn seen(self, event: &Event, now: Timestamp) -> Self {
        match event.last_seen() {
            Some(at) => self.words(" (").age(seconds_between(at, now)).words(" ago)"),
            None => self,
        }
    }

    /// Adds an amount of a resource, in its own unit (cpu in thousandths).
    pub fn amount(self, resource: &str, amount: i64) -> Self {
        self.with(SentencePart::Amount { resource: resource.to_owned(), low: amount, high: amount })
    }

    /// Adds the most of a resource that is possible on a node; for several nodes, the least of that is for all of them.
    pub fn at_most(self, resource: &str, amount: i64) -> Self {
        self.with(SentencePart::Most { resource: resource.to_owned(), low: amount, high: amount })
    }

    /// Adds a time span in seconds.
    pub fn age(self, seconds: i64) -> Self {
        self.with(SentencePart::Age { low: seconds, high: seconds })
    }

    /// Adds a number.
    pub fn number(self, number: i64) -> Self {
        self.with(SentencePart::Number { low: number, high: number })
    }

    /// Adds a number of which the highest one counts for several nodes, and words that belong to it.
    pub fn greatest(self, number: i64, words: impl Into<String>) -> Self {
        self.with(SentencePart::Greatest { number, words: words.into() })
    }

    /// Adds a name, which the second one replaces for several nodes.
    pub fn name(self, one: impl Into<String>, many: impl Into<String>) -> Self {
        self.with(SentencePart::Name { one: Some(one.into()), many: many.into() })
    }

    /// Adds a value that is listed with others if it differs from node to node.
    pub fn value(self, value: impl Into<String>) -> Self {
        self.with(SentencePart::Values { shown: vec![value.into()], more: 0, are_said: false })
    }

    /// Adds what another program has said, which is listed with others if it differs in more than addresses and names of pods.
    pub fn said(self, text: impl Into<String>) -> Self {
        self.with(SentencePart::Values { shown: vec![text.into()], more: 0, are_said: true })
    }

    /// Adds a value of which the first one serves as an example.
    pub fn example(self, value: impl Into<String>) -> Self {
        self.with(SentencePart::Example(value.into()))
    }

    /// Keeps the sentence from being merged with those that are told apart by something else, such as what follows from a value.
    pub fn apart(self, by: impl Into<String>) -> Self {
        self.with(SentencePart::Apart(by.into()))
    }

    /// Adds another sentence's parts.
    pub fn then(mut self, other: Sentence) -> Self {
        for part in other.parts {
            self = match part {
                SentencePart::Words(words) => self.words(words),
                part => self.with(part),
            };
        }
        self
    }

    fn with(mut self, part: SentencePart) -> Self {
        self.parts.push(part);
        self
    }

    /// Writes what two sentences must have in common to be merged.
    pub fn write_key(&self, key: &mut String) {
        for part in &self.parts {
            match part {
                SentencePart::Words(words) | SentencePart::Apart(words) => key.push_str(words),
                SentencePart::Name { many, .. } => key.push_str(many),
                SentencePart::Amount { resource, .. } | SentencePart::Most { resource, .. } => key.push_str(resource),
                _ => {}
            }
            key.push('\u{1f}');
        }
    }

    /// Takes in the values of another sentence of the same words; other sentences are left out.
    pub fn merge(&mut self, other: &Sentence) {
        for (mine, theirs) in self.parts.iter_mut().zip(&other.parts) {
            mine.merge(theirs);
        }
    }
}

impl SentencePart {
    fn merge(&mut self, other: &SentencePart) {
        match (self, other) {
            (SentencePart::Amount { low, high, .. }, SentencePart::Amount { low: other_low, high: other_high, .. })
            | (SentencePart::Most { low, high, .. }, SentencePart::Most { low: other_low, high: other_high, .. })
            | (SentencePart::Age { low, high }, SentencePart::Age { low: other_low, high: other_high })
            | (SentencePart::Number { low, high }, SentencePart::Number { low: other_low, high: other_high }) => {
                *low = (*low).min(*other_low);
                *high = (*high).max(*other_high);
            }
            (SentencePart::Greatest { number, words }, SentencePart::Greatest { number: other, words: others })
                if other > number =>
            {
                *number = *other;
                words.clone_from(others);
            }
            (SentencePart::Name { one, .. }, SentencePart::Name { one: other, .. }) if one != other => *one = None,
            (SentencePart::Values { shown, more, are_said }, SentencePart::Values { shown: other, .. }) => {
                let is_same =
                    |mine: &String, value: &String| mine == value || (*are_said && says_the_same(mine, value));
                for value in other {
                    if !shown.iter().any(|mine| is_same(mine, value)) {
                        if shown.len() < VALUES_SHOWN {
                            shown.push(value.clone());
                        } else {
                            // Beyond the first few it no longer matters which they are.
                            *more += 1;
                        }
                    }
                }
            }
            _ => {}
        }
    }
}

/// Returns whether two texts differ at most in identifiers, such as the addresses of pods.
fn says_the_same(one: &str, other: &str) -> bool {
    fn words(text: &str) -> impl Iterator<Item = &str> {
        text.split(|c: char| c.is_whitespace() || "\"'`/:,;()[]{}<>=@_".contains(c))
    }
    let mut others = words(other);
    words(one)
        .all(|word| others.next().is_some_and(|other| word == other || (is_identifier(word) && is_identifier(other))))
        && others.next().is_none()
}

/// Returns whether a word is an address, a UID, a hash or the generated name of a pod, rather than an exit code or a time span.
fn is_identifier(word: &str) -> bool {
    // The alphabet of `rand.String`, k8s.io/apimachinery/pkg/util/rand, release 1.37.2.
    let is_generated =
        |end: &str| end.len() == 5 && end.bytes().all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte));
    let is_hex = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    let is_hash = word.len() > 7 && word.bytes().all(is_hex) && word.bytes().any(|byte| byte.is_ascii_digit());
    let is_address = || word.split('.').count() == 4 && word.split('.').all(|part| part.parse::<u8>().is_ok());
    is_hash || is_address() || word.rsplit_once('-').is_some_and(|(_, end)| is_generated(end))
}

impl From<&str> for Sentence {
    fn from(words: &str) -> Self {
        Sentence::new().words(words)
    }
}

impl From<String> for Sentence {
    fn from(words: String) -> Self {
        Sentence::new().words(words)
    }
}

impl std::fmt::Display for Sentence {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for part in &self.parts {
            match part {
                SentencePart::Words(words) => formatter.write_str(words)?,
                SentencePart::Amount { resource, low, high } => {
                    write_range(formatter, &format_amount(resource, *low), &format_amount(resource, *high))?;
                }
                SentencePart::Most { resource, low, high } => {
                    write!(formatter, "{} at most", format_amount(resource, *low))?;
                    if format_amount(resource, *low) != format_amount(resource, *high) {
                        write!(formatter, " for all of these nodes ({} for some)", format_amount(resource, *high))?;
                    }
                }
                SentencePart::Age { low, high } => write_range(formatter, &format_age(*low), &format_age(*high))?,
                SentencePart::Number { low, high } => write_range(formatter, &low.to_string(), &high.to_string())?,
                SentencePart::Greatest { number, words } => write!(formatter, "{number}{words}")?,
                SentencePart::Name { one, many } => formatter.write_str(one.as_ref().unwrap_or(many))?,
                SentencePart::Values { shown, more, .. } => write_values(formatter, shown, *more)?,
                SentencePart::Example(value) => formatter.write_str(value)?,
                SentencePart::Apart(_) => {}
            }
        }
        Ok(())
    }
}

fn write_range(formatter: &mut std::fmt::Formatter<'_>, low: &str, high: &str) -> std::fmt::Result {
    formatter.write_str(low)?;
    if low != high {
        write!(formatter, " to {high}")?;
    }
    Ok(())
}

fn write_values(formatter: &mut std::fmt::Formatter<'_>, shown: &[String], more: usize) -> std::fmt::Result {
    for (position, value) in shown.iter().enumerate() {
        let last = position + 1 == shown.len() && more == 0;
        match position {
            0 => {}
            _ if last => formatter.write_str(" or ")?,
            _ => formatter.write_str(", ")?,
        }
        formatter.write_str(value)?;
    }
    if more > 0 {
        formatter.write_str(" or others")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Sentence;

    fn merged(sentences: impl IntoIterator<Item = Sentence>) -> String {
        let mut sentences = sentences.into_iter();
        let mut first = sentences.next().unwrap();
        sentences.for_each(|other| first.merge(&other));
        first.to_string()
    }

    #[test]
    fn amounts_that_differ_become_a_range() {
        let sentence =
            |free| Sentence::from("requests ").amount("cpu", 600).words("; ").amount("cpu", free).words(" free");
        assert_eq!(merged([sentence(410), sentence(100), sentence(250)]), "requests 600m; 100m to 410m free");
        assert_eq!(merged([sentence(410), sentence(410)]), "requests 600m; 410m free");
    }

    #[test]
    fn the_most_for_all_nodes_is_the_least_of_them() {
        let sentence = |most| Sentence::from("lower it to ").at_most("cpu", most);
        assert_eq!(merged([sentence(410), sentence(410)]), "lower it to 410m at most");
        let several = "lower it to 100m at most for all of these nodes (410m for some)";
        assert_eq!(merged([sentence(410), sentence(100)]), several);
    }

    #[test]
    fn the_highest_number_counts_with_its_words() {
        let sentence = |number, words: &str| Sentence::from("above ").greatest(number, words);
        assert_eq!(merged([sentence(1, " (a)"), sentence(5, " (b)"), sentence(3, " (c)")]), "above 5 (b)");
    }

    #[test]
    fn a_name_stays_only_while_it_is_shared() {
        let sentence = |pod| Sentence::from("held by ").name(pod, "pods of default/web");
        assert_eq!(merged([sentence("default/web-a"), sentence("default/web-a")]), "held by default/web-a");
        assert_eq!(merged([sentence("default/web-a"), sentence("default/web-b")]), "held by pods of default/web");
    }

    #[test]
    fn values_beyond_the_third_are_not_listed() {
        let sentence = |code: &str| Sentence::from("exit ").value(code);
        assert_eq!(merged(["1", "137", "1"].map(sentence)), "exit 1 or 137");
        assert_eq!(merged(["1", "2", "3", "4"].map(sentence)), "exit 1, 2, 3 or others");
    }

    #[test]
    fn what_is_said_of_other_pods_is_the_same() {
        let sentence = |text: &str| Sentence::new().said(text);
        for (one, other, same) in [
            (r#"Get "http://10.0.0.7:8080/healthz": EOF"#, r#"Get "http://10.0.11.9:8080/healthz": EOF"#, true),
            ("pod agent-bcdfg is unhealthy", "pod agent-x7k2p is unhealthy", true),
            (
                "(pod: \"agent-x7k2p_kube-system(0f3c11ab-2c55)\")",
                "(pod: \"agent-bcdfg_kube-system(77aa4b1c-9d3e)\")",
                true,
            ),
            ("exit status 0xc0000135", "exit status 0xc0000142", false),
            ("lookup registry-eu1.example.com", "lookup registry-us2.example.com", false),
            ("volume data-volume-1", "volume data-volume-2", false),
            ("HTTP probe failed with statuscode: 500", "HTTP probe failed with statuscode: 503", false),
            ("open /etc/a.conf", "open /etc/b.conf", false),
            ("10.0.0.7 is down", "10.0.0.8 is down, too", false),
            ("timeout after 30s", "timeout after 60s", false),
        ] {
            let expected = if same { one.to_owned() } else { format!("{one} or {other}") };
            assert_eq!(merged([one, other].map(sentence)), expected);
        }
    }

    #[test]
    fn only_words_and_not_values_tell_two_causes_apart() {
        let key = |sentence: Sentence| {
            let mut key = String::new();
            sentence.write_key(&mut key);
            key
        };
        let sentence = |words: &str, number| key(Sentence::from(words).number(number));
        assert_eq!(sentence("a", 1), sentence("a", 2));
        assert_ne!(sentence("a", 1), sentence("b", 1));
        let amount = |resource| key(Sentence::from("free: ").amount(resource, 1));
        assert_ne!(amount("cpu"), amount("memory"));
        let name = |many| key(Sentence::from("held by ").name("default/a", many));
        assert_ne!(name("pods of default/web"), name("pods of default/db"));
    }

    #[test]
    fn words_are_the_same_however_they_were_joined() {
        assert_eq!(Sentence::from("a ").then(Sentence::from("b").number(1)), Sentence::from("a b").number(1));
    }
}
