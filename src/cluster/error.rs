//! Errors of reading and writing a cluster, and of reading a dump or a manifest.

use super::suggestions::OFFERED;
use crate::connection::error::{ConnectionError, FailureKind};
use crate::error::{CommandError, Exit};
use crate::report::fix::{Command, Fix};

/// Why a request to a cluster, or reading a dump, failed. Messages are kubectl's if it has one.
///
/// Errors of the server and the connection are printed without a prefix, as kubectl does; the others follow `error: `.
/// [`ClusterError::stands_alone`] tells which.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// An object that was requested by name does not exist.
    #[error("Error from server (NotFound): {resource} {name:?} not found")]
    NotFound {
        /// The resource and its group, such as `daemonsets.apps`.
        resource: &'static str,
        /// The name.
        name: String,
        /// The namespace that was searched; absent for nodes.
        namespace: Option<String>,
        /// Similar existing names, nearest first.
        near: Vec<String>,
        /// Other namespaces that have an object of this name.
        elsewhere: Vec<String>,
        /// What to do if a node has the name of the DaemonSet, or vice versa.
        instead: Option<Box<Fix>>,
    },
    /// The API server answered with an error.
    #[error("Error from server{}: {message}", in_parentheses(reason))]
    Api {
        /// The HTTP status.
        code: u16,
        /// The API's reason, such as `Forbidden`; admission webhooks may omit it.
        reason: String,
        /// The API's message.
        message: String,
        /// The object, such as `pods/agent-x7v2p`; empty if the server names none.
        object: String,
    },
    /// The response has an HTTP error status but is not an error of the API: it comes from a proxy, or from a server
    /// that has not processed the request. It says nothing about objects, permissions or the outcome of a change.
    #[error("unexpected answer to {request}: HTTP status {code}, {body}")]
    NotFromApi {
        /// The request, such as `list pods`.
        request: String,
        /// The HTTP status.
        code: u16,
        /// The beginning of the body, quoted.
        body: String,
    },
    /// The server did not accept the credentials.
    #[error("You must be logged in to the server ({message})")]
    Unauthorized {
        /// The API's message.
        message: String,
    },
    /// The server could not be reached or authenticated to, or the connection was lost.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The server's response violates the API.
    #[error("cannot read the server's answer to {request}: {problem}")]
    Answer {
        /// The request, such as `list pods`.
        request: String,
        /// What is wrong with the response.
        problem: String,
    },
    /// A dump or manifest is invalid.
    #[error("{path}: {problem}")]
    File {
        /// The file, or `standard input`.
        path: String,
        /// What is wrong with it, and where.
        problem: String,
        /// What to do next.
        hints: Vec<Fix>,
        /// Whether it was read, but does not contain what was requested.
        is_absence: bool,
    },
}

/// The reason of [`ClusterError::Api`] for an eviction that a PodDisruptionBudget does not allow. The API calls it
/// `TooManyRequests`, the same as for an overloaded server.
pub const DISRUPTION_BUDGET: &str = "DisruptionBudget";

impl ClusterError {
    /// Makes an error about a dump or manifest.
    pub fn file(path: impl Into<String>, problem: impl Into<String>) -> Self {
        ClusterError::File { path: path.into(), problem: problem.into(), hints: Vec::new(), is_absence: false }
    }

    /// Adds what to do next, if the error is about a dump or manifest.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Fix>) -> Self {
        if let ClusterError::File { hints, .. } = &mut self {
            hints.push(hint.into());
        }
        self
    }

    /// Tells whether the object has changed since it was read.
    pub fn is_conflict(&self) -> bool {
        matches!(self, ClusterError::Api { code: 409, .. })
    }

    /// Tells whether the operations of a JSON Patch do not apply to the object: a value to remove is missing, because
    /// the object has changed since it was read. The API server has no specific error for that: `applyJSPatch` in
    /// k8s.io/apiserver/pkg/endpoints/handlers/patch.go, and `NewGenericServerResponse`, release 1.37.2.
    pub(crate) fn is_misfit_of_patch(&self) -> bool {
        matches!(self, ClusterError::Api { code: 422, message, .. }
            if message == "the server rejected our request due to an error in our request")
    }

    /// Tells whether the API server says that an object does not exist. A `NotFound` from an admission webhook refers
    /// to something else.
    pub fn is_absence_of(&self, resource: &str, name: &str) -> bool {
        matches!(self, ClusterError::Api { code: 404, reason, object, .. }
            if reason == "NotFound" && object.split_once('/') == Some((resource, name)))
    }

    /// Tells whether a path does not exist, according to the API server or a proxy.
    pub fn is_not_served(&self) -> bool {
        matches!(self, ClusterError::Api { code: 404, .. } | ClusterError::NotFromApi { code: 404, .. })
    }

    /// Tells whether the user lacks a permission.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, ClusterError::Api { code: 403, .. })
    }

    /// Tells whether the credentials were rejected.
    pub fn is_unauthorized(&self) -> bool {
        matches!(self, ClusterError::Unauthorized { .. } | ClusterError::NotFromApi { code: 401, .. })
    }

    /// Tells whether nothing was read, so that it is unknown whether the object exists; otherwise it does not exist.
    pub fn is_unread(&self) -> bool {
        !matches!(self, ClusterError::NotFound { .. } | ClusterError::File { is_absence: true, .. })
    }

    /// Tells whether a change that failed in this way may have been applied.
    pub fn outcome_unknown(&self) -> bool {
        match self {
            ClusterError::Connection(error) => error.is_about_the_server(),
            ClusterError::Answer { .. }
            | ClusterError::NotFromApi { .. }
            | ClusterError::Api { code: 408 | 500..=599, .. } => true,
            _ => false,
        }
    }

    /// Tells whether the same request may succeed a moment later.
    pub fn is_transient(&self) -> bool {
        self.outcome_unknown() || matches!(self, ClusterError::Api { code: 429, .. })
    }

    /// Tells whether the message is printed without the prefix `error: `.
    pub fn stands_alone(&self) -> bool {
        match self {
            ClusterError::Connection(error) => error.is_about_the_server(),
            ClusterError::NotFound { .. } | ClusterError::Api { .. } => true,
            _ => false,
        }
    }

    /// Returns what to do next.
    pub fn hints(&self) -> Vec<Fix> {
        match self {
            ClusterError::NotFound { elsewhere, .. } if !elsewhere.is_empty() => match elsewhere.as_slice() {
                [one] => vec![Fix::new("found in another namespace; add", Command::choice("-n", [one]))],
                several => {
                    let one = if several.len() > OFFERED { "one of them, such as" } else { "one of" };
                    let advice = format!("found in {} namespaces; add {one}", several.len());
                    vec![Fix::new(advice, Command::choice("-n", several.iter().take(OFFERED)))]
                }
            },
            ClusterError::NotFound { instead: Some(instead), .. } => vec![Fix::clone(instead)],
            ClusterError::NotFound { resource, namespace, near, .. } => {
                let place = namespace.as_ref().map(|namespace| format!(" in namespace {namespace:?}"));
                let place = place.unwrap_or_default();
                match near.as_slice() {
                    [] if *resource == "nodes" => vec!["no node has a similar name".into()],
                    [] => vec![Fix::new(
                        format!("nothing of a similar name exists{place}; to list every DaemonSet"),
                        Command::kubectl(&["ds", "list", "-A"]),
                    )],
                    near => vec![Fix::new(format!("similar names{place}"), Command::choice("", near))],
                }
            }
            ClusterError::Unauthorized { .. } | ClusterError::NotFromApi { code: 401, .. } => {
                vec!["the credentials are missing, wrong or expired; log in again, or choose others with --context or --user".into()]
            }
            // Admission and quotas refuse with the same code.
            ClusterError::Api { code: 403, message, .. } if message.contains("\" cannot ") => {
                let list = Command::kubectl(&["auth", "can-i", "--list"]);
                // Without one, kubectl lists those of the default namespace.
                let place = message.split_once("in the namespace \"").and_then(|(_, rest)| rest.split('"').next());
                let list = place.into_iter().fold(list, Command::namespace);
                vec![Fix::new("ask your cluster administrator for this permission; to list those that you have", list)]
            }
            ClusterError::Api { code: 429 | 503 | 504, .. }
            | ClusterError::NotFromApi { code: 429 | 502..=504, .. } => {
                vec!["the server is overloaded or starting; try again later".into()]
            }
            ClusterError::Api { .. } => Vec::new(),
            ClusterError::Answer { .. } | ClusterError::NotFromApi { .. } => {
                vec!["check that the server is a Kubernetes API server, and that no proxy changes its answers".into()]
            }
            ClusterError::Connection(error) => error.hints().to_vec(),
            ClusterError::File { hints, .. } => hints.clone(),
        }
    }
}

/// Returns whether the API server denies the user a verb on a resource: `forbiddenMessage`,
/// k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go, release 1.37.
pub(crate) fn is_about_permission(message: &str, verb: &str) -> bool {
    message.contains(&format!(" cannot {verb} resource "))
}

/// Returns whether the error is that a webhook does not support dry runs: `NewDryRunUnsupportedErr`,
/// k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go, release 1.37.
pub(crate) fn is_dry_run_unsupported(message: &str) -> bool {
    message.contains("does not support dry run")
}

fn in_parentheses(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(" ({reason})") }
}

impl From<ClusterError> for CommandError {
    fn from(error: ClusterError) -> Self {
        let message = CommandError::new(error.to_string());
        let exit = match &error {
            ClusterError::Connection(error) if error.failure == FailureKind::TimedOut => Exit::TimedOut,
            _ => message.exit,
        };
        let stands_alone = error.stands_alone();
        let hints = error.hints();
        CommandError { exit, stands_alone, ..message.because(error) }.hints(hints)
    }
}
