//! Why there is no connection to an API server.

use crate::report::fix::Fix;

/// Why a server could not be reached, or credentials could not be obtained. Messages are kubectl's if it has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConnectionError {
    /// What failed.
    pub failure: FailureKind,
    message: String,
    hints: Vec<Fix>,
}

/// What failed while connecting to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The kubeconfig, a flag or an environment variable is invalid.
    Config,
    /// There are no credentials, for example because a credential plugin failed.
    Credentials,
    /// The server could not be reached, or the connection was lost.
    Lost,
    /// The server did not answer in time.
    TimedOut,
}

impl ConnectionError {
    /// Builds an error about the kubeconfig, a flag or an environment variable.
    pub fn config(message: impl Into<String>) -> Self {
        Self::of(FailureKind::Config, message)
    }

    /// Builds an error about credentials.
    pub(crate) fn credentials(message: impl Into<String>) -> Self {
        Self::of(FailureKind::Credentials, message)
    }

    /// Builds an error for a server that could not be reached, or a connection that was lost.
    pub(crate) fn lost(message: impl Into<String>) -> Self {
        Self::of(FailureKind::Lost, message)
    }

    /// Builds an error for a server that did not answer in time.
    pub(crate) fn timed_out(message: impl Into<String>) -> Self {
        Self::of(FailureKind::TimedOut, message)
            .hint("check that the server can be reached from here, or increase --request-timeout")
    }

    fn of(failure: FailureKind, message: impl Into<String>) -> Self {
        ConnectionError { failure, message: message.into(), hints: Vec::new() }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Fix>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Returns what to do next.
    pub fn hints(&self) -> &[Fix] {
        &self.hints
    }

    /// Tells whether the server was contacted, so that a request may have arrived.
    pub(crate) fn is_about_the_server(&self) -> bool {
        matches!(self.failure, FailureKind::Lost | FailureKind::TimedOut)
    }
}
