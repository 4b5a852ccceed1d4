//! What to do about a reason: advice, and a command that is safe to paste.

use std::fmt;

use serde_with::SerializeDisplay;

use crate::encode::shell::quote;

/// How the program is called unless its file has another name.
pub const PROGRAM: &str = "kubectl ds";

/// What to do about a reason.
#[apply(answer!)]
#[derive(Eq)]
pub struct Fix {
    /// What to do.
    pub advice: String,
    /// A kubectl command for it, quoted for bash and zsh; absent if there is none that is safe to paste.
    #[cfg_attr(feature = "schemas", schemars(with = "Option<String>"))]
    pub command: Option<Command>,
}

impl Fix {
    /// Makes advice with a command for it.
    pub fn new(advice: impl Into<String>, command: Command) -> Self {
        Fix { advice: advice.into(), command: Some(command) }
    }

    /// Returns it without its command if one of the others has the same.
    pub(crate) fn unless_in<'a>(&self, others: impl IntoIterator<Item = &'a Fix>) -> Fix {
        let is_said = others.into_iter().any(|other| other.command == self.command);
        Fix { advice: self.advice.clone(), command: self.command.clone().filter(|_| !is_said) }
    }

    /// Names this program as it was called, in words such as `kubectl ds`.
    pub(crate) fn call(&mut self, program: &str) {
        if program == PROGRAM {
            return;
        }
        self.advice = self.advice.replace(&format!("`{PROGRAM}"), &format!("`{program}"));
        if let Some(command) = self.command.as_mut().filter(|command| command.verbs().0 == "ds") {
            command.arguments.splice(..1, program.split(' ').skip(1).map(text));
        }
    }

    /// Returns it with what may be added to a command in the advice, since that is no command by itself.
    pub(crate) fn with_choice_in_words(mut self) -> Self {
        if let Some(choice) = self.command.take_if(|command| command.is_choice) {
            self.advice = format!("{}: {choice}", self.advice);
        }
        self
    }

    /// Returns it for every node with a reason, if it shows the logs of one.
    #[must_use]
    pub(crate) fn for_reason(mut self, code: &str) -> Self {
        if let Some(command) = self.command.as_mut().filter(|command| command.verbs() == ("ds", "logs"))
            && let Some(at) = command.arguments.iter().position(|word| *word == text("--node"))
        {
            command.arguments.splice(at..at + 2, [text("--reason"), text(code)]);
        }
        self
    }

    /// Begins the advice with another fragment.
    #[must_use]
    pub fn after(mut self, fragment: &str) -> Self {
        self.advice = format!("{fragment}; {}", self.advice);
        self
    }
}

impl From<String> for Fix {
    fn from(advice: String) -> Self {
        Fix { advice, command: None }
    }
}

impl From<&str> for Fix {
    fn from(advice: &str) -> Self {
        advice.to_owned().into()
    }
}

/// A kubectl command whose arguments may come from the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, SerializeDisplay)]
pub struct Command {
    /// The program, if it is not kubectl.
    program: Option<&'static str>,
    arguments: Vec<Word>,
    names: Vec<String>,
    /// Whether it is not a command, but what to add to one: any of the names as the value of a flag, or by itself.
    is_choice: bool,
}

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Text(String),
    /// Text around a shell variable that the user has to set. A command with one that is not set, or empty, does not run.
    Variable {
        before: String,
        name: &'static str,
        after: String,
    },
}

/// The most pods that a suggested command deletes.
pub const MOST_DELETED: usize = 5;

impl Command {
    /// Returns the command that deletes these pods, or the first of them if they are many.
    pub fn delete_pods<'p>(namespace: &str, pods: impl IntoIterator<Item = &'p str>) -> Self {
        let delete = Command::kubectl(&["delete", "pod"]).namespace(namespace);
        pods.into_iter().take(MOST_DELETED).fold(delete, Command::name)
    }

    /// Starts a command with its verb, resource and flags.
    pub fn kubectl(arguments: &[&str]) -> Self {
        Command { arguments: arguments.iter().copied().map(text).collect(), ..Command::default() }
    }

    /// Starts a command of OpenShift's `oc`, which takes kubectl's flags.
    pub fn oc(arguments: &[&str]) -> Self {
        Command { program: Some("oc"), ..Command::kubectl(arguments) }
    }

    /// Makes what may be added to a command: one of these values, for a flag unless it is empty.
    pub fn choice(flag: &str, values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let flag = (!flag.is_empty()).then(|| text(flag));
        let names = values.into_iter().map(Into::into).collect();
        Command { arguments: flag.into_iter().collect(), names, is_choice: true, ..Command::default() }
    }

    /// Adds a flag and its value.
    #[must_use]
    pub fn flag(mut self, flag: &str, value: impl Into<String>) -> Self {
        match value.into() {
            // It would be read as a flag.
            value if value.starts_with('-') => self.arguments.push(Word::Text(format!("{flag}={value}"))),
            value => self.arguments.extend([text(flag), Word::Text(value)]),
        }
        self
    }

    /// Adds a flag whose value the user has to set as a shell variable: it is secret, or not known.
    #[must_use]
    pub fn variable(self, flag: &str, name: &'static str) -> Self {
        self.partly_variable(flag, "", name, "")
    }

    /// Adds a flag, a part of whose value the user has to set as a shell variable.
    #[must_use]
    pub fn partly_variable(mut self, flag: &str, before: &str, name: &'static str, after: &str) -> Self {
        let (before, after) = (before.to_owned(), after.to_owned());
        self.arguments.extend([text(flag), Word::Variable { before, name, after }]);
        self
    }

    /// Adds a flag without a value.
    #[must_use]
    pub fn switch(mut self, flag: &str) -> Self {
        self.arguments.push(text(flag));
        self
    }

    /// Adds the flags of another command.
    #[must_use]
    pub fn with(mut self, flags: &Command) -> Self {
        self.arguments.extend_from_slice(&flags.arguments);
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

    /// Makes it the same command for another object: replaces the words that are the name of the first one.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        let arguments = self.arguments.iter_mut().filter_map(|word| match word {
            Word::Text(text) => Some(text),
            Word::Variable { .. } => None,
        });
        arguments.chain(&mut self.names).filter(|word| *word == from).for_each(|word| to.clone_into(word));
    }

    /// Returns the command for a shell, optionally in ASCII only.
    pub fn quoted(&self, ascii: bool) -> String {
        if self.is_choice {
            let (flag, _) = self.verbs();
            let choices = self.names.iter().map(|name| match flag {
                "" => quote(name, ascii).into_owned(),
                flag => Command::default().flag(flag, name).quoted(ascii).split_off("kubectl ".len()),
            });
            return choices.collect::<Vec<_>>().join(", ");
        }
        // After `--` kubectl takes no argument for a flag.
        let separator = self.names.iter().any(|name| name.starts_with('-')).then(|| "--".to_owned());
        let arguments = self.arguments.iter().map(|word| match word {
            Word::Text(text) => quote(text, ascii).into_owned(),
            Word::Variable { before, name, after } => {
                let around = |text: &str| if text.is_empty() { String::new() } else { quote(text, ascii).into_owned() };
                format!("{}\"${{{name}:?}}\"{}", around(before), around(after))
            }
        });
        let names = self.names.iter().map(|name| quote(name, ascii).into_owned());
        let program = self.program.unwrap_or("kubectl").to_owned();
        let words = [program].into_iter().chain(arguments).chain(separator).chain(names);
        let words: Vec<String> = words.collect();
        words.join(" ")
    }

    /// Returns its words after the program, if the user has to set none of them.
    pub(crate) fn words(&self) -> Option<Vec<&str>> {
        let mut words = Vec::new();
        for argument in &self.arguments {
            let Word::Text(word) = argument else { return None };
            words.push(word.as_str());
        }
        words.extend(self.names.iter().map(String::as_str));
        Some(words)
    }

    /// Returns the words before the names that are the same for every user and cluster.
    pub(crate) fn verbs(&self) -> (&str, &str) {
        let word = |index| match self.arguments.get(index) {
            Some(Word::Text(word)) => word.as_str(),
            Some(Word::Variable { .. }) | None => "",
        };
        (word(0), word(1))
    }

    /// Returns whether it rolls back.
    pub(crate) fn is_rollback(&self) -> bool {
        self.verbs() == ("ds", "undo")
    }

    /// Returns whether this program can run it on a dump.
    fn reads_dumps(&self) -> bool {
        matches!(
            self.verbs(),
            ("ds", "coverage" | "list" | "status" | "history" | "changes" | "logs" | "overhead" | "pod" | "preview")
        )
    }

    /// Returns whether it may change something in a cluster.
    fn is_change(&self) -> bool {
        let reads = matches!(
            self.verbs(),
            ("ds", "snapshot" | "compare" | "explain" | "version")
                | ("auth" | "config" | "describe" | "get" | "logs", _)
        );
        !reads && !self.reads_dumps()
    }
}

fn text(word: &str) -> Word {
    Word::Text(word.to_owned())
}

impl fmt::Display for Command {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.quoted(false))
    }
}

/// Where a report comes from, so that the commands that it suggests lead back there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A cluster, with the flags that lead to it, as the same user.
    Cluster(Command),
    /// A dump, with the flags that read it again.
    Dump(Command),
    /// A dump that came from standard input and is gone, with the flags that read it once it is a file.
    Input(Command),
}

impl Origin {
    /// Completes what is suggested, so that it does not reach another cluster unnoticed.
    pub fn complete(&self, fix: &mut Fix) {
        let Some(command) = fix.command.as_mut().filter(|command| !command.is_choice) else { return };
        match self {
            Origin::Cluster(flags) => *command = std::mem::take(command).with(flags),
            Origin::Dump(flags) if command.reads_dumps() => *command = std::mem::take(command).with(flags),
            Origin::Input(flags) if command.reads_dumps() => {
                *command = std::mem::take(command).with(flags);
                fix.advice.push_str("; set DUMP to a file with this dump");
            }
            Origin::Dump(_) | Origin::Input(_) if command.is_change() => {
                fix.advice.push_str(" (current context, not the dump)");
            }
            Origin::Dump(_) | Origin::Input(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Command, Fix, Origin};

    #[test]
    fn names_from_the_cluster_stay_arguments() {
        let describe = |name: &str| Command::kubectl(&["describe", "pod"]).namespace("a b").name(name).to_string();
        assert_eq!(describe("agent-x"), "kubectl describe pod -n 'a b' agent-x");
        assert_eq!(describe("--all"), "kubectl describe pod -n 'a b' -- --all");
        assert_eq!(describe("x; reboot"), "kubectl describe pod -n 'a b' 'x; reboot'");
    }

    #[test]
    fn what_is_added_to_a_command_is_quoted_as_it_is() {
        let choice = |flag, values: &[&str]| {
            let mut fix = Fix::new("add", Command::choice(flag, values.iter().copied()));
            Origin::Cluster(Command::default().flag("--context", "prod")).complete(&mut fix);
            fix.command.unwrap().to_string()
        };
        assert_eq!(choice("-n", &["team"]), "-n team");
        assert_eq!(choice("-n", &["$(reboot)", "--all"]), "-n '$(reboot)', '-n=--all'");
        assert_eq!(choice("", &["agent", "a b"]), "agent, 'a b'");
    }

    #[test]
    fn values_stay_values_and_unknown_ones_have_to_be_set() {
        let command = Command::kubectl(&["get"]).flag("--context", "-prod").variable("--token", "TOKEN");
        let command = command.partly_variable("--server", "https://", "USER_INFO", "@a b");
        assert_eq!(
            command.to_string(),
            r#"kubectl get '--context=-prod' --token "${TOKEN:?}" --server https://"${USER_INFO:?}"'@a b'"#
        );
    }

    #[test]
    fn what_is_suggested_leads_back_to_where_the_report_comes_from() {
        let suggested = |origin: &Origin, arguments: &[&str]| {
            let mut fix = Fix { advice: "try".to_owned(), command: Some(Command::kubectl(arguments).name("agent")) };
            origin.complete(&mut fix);
            format!("{}: {}", fix.advice, fix.command.unwrap())
        };
        let cluster = Origin::Cluster(Command::default().flag("--context", "prod"));
        let dump = Origin::Dump(Command::default().flag("--from", "a b.json"));
        let input = Origin::Input(Command::default().variable("--from", "DUMP"));
        let read = suggested(&input, &["ds", "status"]);
        // Not `--from -`, which would wait for input.
        assert_eq!(read, r#"try; set DUMP to a file with this dump: kubectl ds status --from "${DUMP:?}" agent"#);
        assert_eq!(suggested(&input, &["ds", "undo"]), suggested(&dump, &["ds", "undo"]));
        for (arguments, in_cluster, in_dump) in [
            (
                &["ds", "undo"][..],
                "try: kubectl ds undo --context prod agent",
                "try (current context, not the dump): kubectl ds undo agent",
            ),
            (
                &["ds", "status"],
                "try: kubectl ds status --context prod agent",
                "try: kubectl ds status --from 'a b.json' agent",
            ),
            (&["describe", "pod"], "try: kubectl describe pod --context prod agent", "try: kubectl describe pod agent"),
            (
                &["delete", "pod"],
                "try: kubectl delete pod --context prod agent",
                "try (current context, not the dump): kubectl delete pod agent",
            ),
        ] {
            assert_eq!((&*suggested(&cluster, arguments), &*suggested(&dump, arguments)), (in_cluster, in_dump));
        }
    }
}
