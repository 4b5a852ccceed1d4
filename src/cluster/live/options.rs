//! What the flags and the environment say about the connection.

use std::collections::BTreeMap;
use std::time::Duration;

/// Flags about the connection, named as kubectl's are, and the surroundings.
#[derive(Debug, Clone, Default)]
pub struct ConnectOptions {
    /// `--kubeconfig`: the one file to read, instead of those of `KUBECONFIG`.
    pub kubeconfig: Option<String>,
    /// `--context`.
    pub context: Option<String>,
    /// `--cluster`.
    pub cluster: Option<String>,
    /// `--user`.
    pub user: Option<String>,
    /// `--server`.
    pub server: Option<String>,
    /// `--token`.
    pub token: Option<String>,
    /// `--as`: the user to act as.
    pub as_: Option<String>,
    /// `--as-group`: the groups to act as.
    pub as_group: Vec<String>,
    /// `--as-uid`: the uid to act as.
    pub as_uid: Option<String>,
    /// `--certificate-authority`: a file of certificates to trust.
    pub certificate_authority: Option<String>,
    /// `--insecure-skip-tls-verify`: whether any server is trusted.
    pub insecure_skip_tls_verify: bool,
    /// `--tls-server-name`: the name that the server's certificate must have.
    pub tls_server_name: Option<String>,
    /// `--request-timeout`; zero is no limit.
    pub request_timeout: Option<Duration>,
    /// The environment variables.
    pub environment: BTreeMap<String, String>,
    /// Whether standard input is a terminal that a credential plugin may ask questions on.
    pub input_is_terminal: bool,
}

impl ConnectOptions {
    /// Returns an environment variable; one that is empty counts as unset.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}
