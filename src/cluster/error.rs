//! Errors of reading and writing a cluster, and of reading a dump or a manifest.

use super::suggestions::OFFERED;
use crate::connection::error::{ConnectionError, FailureKind};
use crate::error::CommandError;
use crate::error::Exit;
use crate::report::fix::{Command, Fix};

/// Why a request to a cluster, or reading a dump, failed. Messages are those of kubectl where kubectl has one.
///
/// Those about the server and the connection stand alone, as kubectl prints them; the others
/// follow `error: `. [`ClusterError::stands_alone`] tells which.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// An object that was asked for by name is not there.
    #[error("Error from server (NotFound): {resource} {name:?} not found")]
    NotFound {
        /// The resource and its group, such as `daemonsets.apps`.
        resource: &'static str,
        /// The name.
        name: String,
        /// The namespace that was looked in; absent for nodes.
        namespace: Option<String>,
        /// Similar names that do exist, nearest first.
        near: Vec<String>,
        /// Other namespaces that have an object of this name.
        elsewhere: Vec<String>,
        /// What to do if a node has the name of the DaemonSet, or the other way round.
        instead: Option<Box<Fix>>,
    },
    /// The API server answered with an error.
    #[error("Error from server{}: {message}", in_parentheses(reason))]
    Api {
        /// The HTTP status.
        code: u16,
        /// The API's word for it, such as `Forbidden`; admission webhooks may leave it out.
        reason: String,
        /// The API's sentence for it.
        message: String,
        /// The object that it is about, such as `pods/agent-x7v2p`; empty if it names none.
        object: String,
    },
    /// The answer has an HTTP status of failure and is not an error of the API: it comes from a proxy, or from a server
    /// that has not looked at the request. It says nothing about objects, permissions or what became of a change.
    #[error("unexpected answer to {request}: HTTP status {code}, {body}")]
    NotFromApi {
        /// What was asked, such as `list pods`.
        request: String,
        /// The HTTP status.
        code: u16,
        /// The beginning of the body, quoted.
        body: String,
    },
    /// The server does not know who is asking.
    #[error("You must be logged in to the server ({message})")]
    Unauthorized {
        /// The API's sentence for it.
        message: String,
    },
    /// The server could not be reached or authenticated to, or the connection was lost.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The server's answer is not what the API promises.
    #[error("cannot read the server's answer to {request}: {problem}")]
    Answer {
        /// What was asked, such as `list pods`.
        request: String,
        /// What is wrong with the answer.
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
        /// Whether it was read, and lacks what was asked for.
        is_absence: bool,
    },
}

/// The reason of [`ClusterError::Api`] for an eviction that a PodDisruptionBudget does not allow. The API calls it
/// `TooManyRequests`, as it calls that the server is overloaded.
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

    /// Tells whether the operations of a JSON Patch do not fit the object: it lacks what they remove, because it has changed
    /// since it was read. The API server has no other word for that: `applyJSPatch` of
    /// k8s.io/apiserver/pkg/endpoints/handlers/patch.go, and `NewGenericServerResponse`, release 1.36.
    pub(crate) fn is_misfit_of_patch(&self) -> bool {
        matches!(self, ClusterError::Api { code: 422, message, .. }
            if message == "the server rejected our request due to an error in our request")
    }

    /// Tells whether the API server says that an object does not exist. The `NotFound` of an admission webhook is about
    /// something else.
    pub fn is_absence_of(&self, resource: &str, name: &str) -> bool {
        matches!(self, ClusterError::Api { code: 404, reason, object, .. }
            if reason == "NotFound" && object.split_once('/') == Some((resource, name)))
    }

    /// Tells whether a path does not exist, as the API server or anything before it says.
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

    /// Tells whether nothing was read, so that what was asked for is unknown; otherwise it is known not to exist.
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

    /// Tells whether the message is printed as it is, without `error: ` before it.
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
            ClusterError::Api { code: 403, .. } => {
                let list = Command::kubectl(&["auth", "can-i", "--list"]);
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

/// Returns whether the API server says that the user may not do something to a resource: `forbiddenMessage`,
/// k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go, release 1.37.
pub(crate) fn is_about_permission(message: &str, verb: &str) -> bool {
    message.contains(&format!(" cannot {verb} resource "))
}

/// Returns whether a webhook takes no part in dry runs: `NewDryRunUnsupportedErr`,
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
        hints.into_iter().fold(CommandError { exit, stands_alone, ..message.because(error) }, CommandError::hint)
    }
}
