//! What a rule finds wrong: a reason whose sentences can still be merged with those of other nodes.

use super::sentence::Sentence;
use crate::model::daemon_set::{DaemonSet, Flavor};
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::report::fix::{Command, Fix};
use crate::report::incident::Refuser;
use crate::report::reason::{Reason, ReasonCode};

/// What a rule finds wrong with one node.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The reason code.
    pub code: ReasonCode,
    /// What is wrong.
    pub message: Sentence,
    /// What to do.
    pub advice: Sentence,
    /// A command for it that is safe to paste.
    pub command: Option<Command>,
    /// Whether even an ineligible node is news: the DaemonSet likely has a mistake in it, or the node's removal is stuck.
    pub likely_mistake: bool,
    /// What refuses the pod, if the API server does and says what.
    pub refused_by: Option<Refuser>,
}

impl Finding {
    /// Creates a finding from what is wrong and what to do.
    pub fn new(code: ReasonCode, message: impl Into<Sentence>, advice: impl Into<Sentence>) -> Self {
        let (message, advice) = (message.into(), advice.into());
        Finding { code, message, advice, command: None, likely_mistake: false, refused_by: None }
    }

    /// Creates the finding of a likely mistake in the DaemonSet, which is corrected in an editor.
    pub fn mistake(
        daemon_set: &DaemonSet,
        code: ReasonCode,
        message: impl Into<Sentence>,
        advice: impl Into<Sentence>,
    ) -> Self {
        Finding { likely_mistake: true, ..Finding::new(code, message, advice).with_command(edit(daemon_set)) }
    }

    /// Adds a command. It must be safe to paste: it shows something, opens an editor, or changes only what its
    /// finding has shown to be broken.
    #[must_use]
    pub fn with_command(mut self, command: Command) -> Self {
        self.command = Some(command);
        self
    }

    /// Adds what refuses the pod.
    #[must_use]
    pub fn refused_by(mut self, refuser: Refuser) -> Self {
        self.refused_by = Some(refuser);
        self
    }

    /// Returns what to do.
    pub fn fix(&self) -> Fix {
        Fix { advice: self.advice.to_string(), command: self.command.clone() }
    }

    /// Returns the finding as a report gives it for one node.
    pub fn reason(&self) -> Reason {
        Reason { code: self.code, message: self.message.to_string(), fix: self.fix() }
    }
}

/// Returns the command that opens a DaemonSet in an editor.
pub fn edit(daemon_set: &DaemonSet) -> Command {
    let metadata = &daemon_set.metadata;
    Command::kubectl(&["edit", resource(daemon_set)]).namespace(&metadata.namespace).name(&metadata.name)
}

/// Returns how kubectl names the resource of a DaemonSet.
pub fn resource(daemon_set: &DaemonSet) -> &'static str {
    match daemon_set.flavor() {
        Flavor::Apps => "ds",
        Flavor::Advanced => "daemonsets.apps.kruise.io",
    }
}

/// Returns the command that describes a pod.
pub fn describe_pod(pod: &Pod) -> Command {
    Command::kubectl(&["describe", "pod"]).namespace(&pod.metadata.namespace).name(&pod.metadata.name)
}

/// Returns the command that describes a node.
pub fn describe_node(node: &Node) -> Command {
    Command::kubectl(&["describe", "node"]).name(&node.metadata.name)
}

/// Returns the command that deletes a pod: only for one that does not run and that its controller recreates.
pub fn delete_pod(pod: &Pod) -> Command {
    Command::kubectl(&["delete", "pod"]).namespace(&pod.metadata.namespace).name(&pod.metadata.name)
}

/// Returns the command that shows a container's log.
pub fn logs(pod: &Pod, container: &str) -> Command {
    let metadata = &pod.metadata;
    Command::kubectl(&["logs"]).namespace(&metadata.namespace).flag("-c", container).name(&metadata.name)
}
