//! What to do about a reason: advice, and a command that is safe to paste.

use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::encode::shell::quote;

/// What to do about a reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Fix {
    /// What to do.
    pub advice: String,
    /// A kubectl command for it, quoted for a POSIX shell; absent if there is none that is safe to paste.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub command: Option<Command>,
}

/// A kubectl command whose arguments may come from the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    arguments: Vec<String>,
    names: Vec<String>,
}

impl Command {
    /// Starts a command with its verb, resource and flags.
    pub fn kubectl(arguments: &[&str]) -> Self {
        Command { arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(), names: Vec::new() }
    }

    /// Adds a flag and its value.
    #[must_use]
    pub fn flag(mut self, flag: &str, value: impl Into<String>) -> Self {
        self.arguments.extend([flag.to_owned(), value.into()]);
        self
    }

    /// Adds a flag without a value.
    #[must_use]
    pub fn switch(mut self, flag: &str) -> Self {
        self.arguments.push(flag.to_owned());
        self
    }

    /// Adds flags with their values.
    #[must_use]
    pub fn switches(mut self, flags: &[String]) -> Self {
        self.arguments.extend_from_slice(flags);
        self
    }

    /// Adds the namespace.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        self.flag("-n", namespace)
    }

    /// Adds the name of an object.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into());
        self
    }
}

impl fmt::Display for Command {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("kubectl")?;
        // After `--` kubectl takes no argument for a flag.
        let separator = self.names.iter().any(|name| name.starts_with('-')).then_some("--");
        let arguments = self.arguments.iter().map(String::as_str).chain(separator);
        arguments
            .chain(self.names.iter().map(String::as_str))
            .try_for_each(|word| write!(formatter, " {}", quote(word)))
    }
}

impl Serialize for Command {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::Command;

    #[test]
    fn names_from_the_cluster_stay_arguments() {
        let describe = |name: &str| Command::kubectl(&["describe", "pod"]).namespace("a b").name(name).to_string();
        assert_eq!(describe("agent-x"), "kubectl describe pod -n 'a b' agent-x");
        assert_eq!(describe("--all"), "kubectl describe pod -n 'a b' -- --all");
        assert_eq!(describe("x; reboot"), "kubectl describe pod -n 'a b' 'x; reboot'");
    }
}
