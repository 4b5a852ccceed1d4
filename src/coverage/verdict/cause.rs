//! What the messages of kubelets, container runtimes, network plugins and drivers tell: tables of their words, each with what to do.
//!
//! A message is looked up among what ends anything on a node, then in the table of what has failed, and the first row wins: more
//! specific words come first. What no row knows gets advice that fits whatever the message says.

use super::finding::{Origin, TemplatePart};

/// A cause that messages tell.
#[derive(Debug)]
pub struct Cause {
    /// Words in lower case, of which one has to occur in a message; `…` stands for any text.
    says: &'static [&'static str],
    /// What to do.
    pub advice: &'static str,
    /// What has to change.
    pub mends: Mends,
}

/// What has to change so that a cause goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mends {
    /// The template: what it names, or what it asks for.
    Template,
    /// Which nodes the template selects.
    Placement,
    /// The node, or what runs on it: pods of every template fare alike there.
    Node,
    /// The node, for what this template asks of it.
    Host,
    /// A registry, the network, or another part of the cluster.
    Cluster,
    /// An object that the template names and that may be created.
    Object,
}

impl Mends {
    /// Returns where a cause comes from that a part of the template may have brought about.
    pub fn origin(self, part: TemplatePart) -> Origin {
        match self {
            Mends::Node => Origin::Node,
            Mends::Placement => Origin::Placement,
            Mends::Host | Mends::Template | Mends::Cluster | Mends::Object => Origin::Template(part),
        }
    }
}

/// Declares a row of a table.
pub const fn cause(mends: Mends, says: &'static [&'static str], advice: &'static str) -> Cause {
    Cause { says, advice, mends }
}

/// What keeps a node from anything, whatever has failed there.
const OF_NODES: &[Cause] = &[
    cause(
        Mends::Node,
        &["no space left on device", "disk quota exceeded"],
        "free disk space on the node, such as that of unused images, or enlarge its disk",
    ),
    cause(
        Mends::Node,
        &["too many open files", "resource temporarily unavailable", "cannot allocate memory"],
        "raise the limits of the node: it is out of memory, process IDs, open files or inotify instances (fs.inotify.max_user_instances)",
    ),
];

impl Cause {
    /// Finds the cause that a message tells.
    pub fn of(causes: &'static [Cause], message: &str) -> Option<&'static Cause> {
        let message = message.to_lowercase();
        OF_NODES.iter().chain(causes).find(|cause| cause.says.iter().any(|says| occurs(says, &message)))
    }
}

/// Returns whether the words occur in a message, those between `…` one after the other.
fn occurs(says: &str, message: &str) -> bool {
    let mut rest = Some(message);
    for words in says.split('…') {
        rest = rest.and_then(|rest| rest.split_once(words)).map(|(_, after)| after);
    }
    rest.is_some()
}

/// Returns the first text in double quotes after the words in a message.
pub fn quoted_after<'m>(message: &'m str, words: &str) -> Option<&'m str> {
    message.split_once(words)?.1.trim_start().strip_prefix('"')?.split_once('"').map(|(quoted, _)| quoted)
}

#[cfg(test)]
mod tests {
    use super::{occurs, quoted_after};

    #[test]
    fn words_occur_in_their_order() {
        for (says, message, expected) in [
            ("no such host", "dial tcp: lookup r on 10.0.0.2:53: no such host", true),
            ("lookup …: i/o timeout", "lookup r on 10.0.0.2:53: read udp: i/o timeout", true),
            ("lookup …: i/o timeout", "i/o timeout after lookup r", false),
        ] {
            assert_eq!(occurs(says, message), expected, "{says}: {message}");
        }
    }

    #[test]
    fn a_name_is_what_is_quoted_behind_its_kind() {
        assert_eq!(quoted_after("for volume \"data\" : timed out", "for volume"), Some("data"));
        assert_eq!(quoted_after("for volume data", "for volume"), None);
    }
}
